"""
Arguments of calls: a text where the model writes them, an object on the wire.

What lives here: the way from one to the other, which loses nothing: a text
that is not an object's is sent in a wrapper, and comes out of it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._reading import is_list, is_map
from conversation_state.adapters._wire import parse_arguments

__all__ = ["arguments_of", "input_of"]

# The provider's own advice for what a model wrote wrong.
_WRAPPER = "INVALID_JSON"


def input_of(arguments: str) -> dict[str, Any]:
    """
    *arguments* as the object that a call has on the wire.

    An empty text is an empty object. What is not an object, or would not arrive as it
    is (keys given twice, infinite numbers, half of a surrogate pair), is
    wrapped: ``{"INVALID_JSON": text}``.

    Source:
        Anthropic's guide to fine-grained tool streaming, which brings invalid
        JSON and recommends this wrapper.

    >>> input_of('{"q": 1}'), input_of(""), input_of('{"q')
    ({'q': 1}, {}, {'INVALID_JSON': '{"q'})
    """
    found = _parse_plain_object(arguments)
    return {_WRAPPER: arguments} if found is None else found


def arguments_of(value: Mapping[Any, Any]) -> str:
    """
    The text of *value*, the object that a call has on the wire; what
    `input_of` makes *value* of again.

    Raises:
        ValueError:
            If *value* can't be represented as JSON; with the reason.

    >>> arguments_of({"q": 1}), arguments_of({"INVALID_JSON": '{"q'})
    ('{"q": 1}', '{"q')
    """
    text = _unwrap_invalid(value)
    if text is not None and _parse_plain_object(text) is None:
        return text

    msg = "holds what can't be kept as JSON"
    try:
        # With the white space that the provider streams them with.
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, default=_convert_map
        )
    except RecursionError:
        msg = "is nested too deep"
    except (TypeError, ValueError):
        pass
    else:
        # Last: in a value that contains itself, which `json` refuses, it has no end.
        if _has_text_keys(value):
            return text

        msg = "has a key that is not text"

    raise ValueError(msg)


def _unwrap_invalid(value: Mapping[Any, Any]) -> str | None:
    text = value.get(_WRAPPER) if len(value) == 1 else None
    return text if isinstance(text, str) else None


def _parse_plain_object(text: str) -> dict[str, Any] | None:
    """
    The object that *text* is, if it arrives as it is; None if not.
    """
    if not text:
        return {}

    try:
        value = parse_arguments(text)
        # The text is valid Unicode, so only an escape can be half of a surrogate pair.
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None

    if not isinstance(value, dict):
        return None

    # A model may write a wrapper itself; it must not be taken for ours.
    inside = _unwrap_invalid(value)
    return value if inside is None or _parse_plain_object(inside) is not None else None


def _convert_map(value: object) -> dict[Any, Any]:
    if is_map(value):
        return dict(value)

    msg = f"{type(value).__name__} is not JSON"
    raise TypeError(msg)


def _has_text_keys(value: object) -> bool:
    # `json` makes texts of keys that are numbers, or None.
    todo = [value]
    while todo:
        one = todo.pop()
        if is_map(one):
            if any(not isinstance(key, str) for key in one):
                return False

            todo += one.values()
        elif is_list(one):
            todo += one

    return True
