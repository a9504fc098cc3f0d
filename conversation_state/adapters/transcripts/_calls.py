"""
Calls in a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["ParsedCall", "calls_in"]

_SPACE = re.compile(r"[ \t\n\r]*")
_ARGUMENTS = ("arguments", "parameters")


class ParsedCall(NamedTuple):
    """
    A call in a text, and its other keys.
    """

    id: str
    name: str
    arguments: str
    keys: dict[str, Any]


def calls_in(text: str) -> list[ParsedCall] | None:
    """
    The calls that *text*, in JSON, makes: one, or a list of them; None if it is
    no such thing.

    >>> calls_in('{"name": "f", "arguments": {"x":  1.0}}')
    [ParsedCall(id='', name='f', arguments='{"x":  1.0}', keys={})]
    """
    try:
        value = json.loads(text)
        start = _skip_space(text, 0)
        if isinstance(value, dict):
            return [_make_call(value, _split_members(text, start)[0])]

        if isinstance(value, list) and value and all(map(_is_object, value)):
            return [
                _make_call(each, members)
                for each, members in zip(value, _split_items(text, start), strict=True)
            ]
    except (ValueError, RecursionError):
        pass  # no JSON, or no call, or nothing that anybody would nest so deep

    return None


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _make_call(value: Any, members: dict[str, str]) -> ParsedCall:
    """
    Raises:
        ValueError:
            If *value* calls nothing.
    """
    name = value.get("name")
    if not isinstance(name, str):
        msg = "a call names a tool"
        raise ValueError(msg)  # noqa: TRY004 - as for all that is no call

    key = next((key for key in _ARGUMENTS if key in value), "")
    arguments = value.get(key)
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        # The text as it was written, and not as we would write it.
        arguments = members[key]

    given = value.get("id")
    known = {"name", key}
    call_id = ""
    if isinstance(given, str):
        call_id = given
        known.add("id")

    keys = {k: v for k, v in value.items() if k not in known and v is not None}
    return ParsedCall(call_id, name, arguments, keys)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


_scan = json.JSONDecoder().raw_decode


def _split_members(text: str, at: int) -> tuple[dict[str, str], int]:
    """
    The text of each member of the object at *at* in *text*, which is JSON; and
    where it ends.
    """
    members: dict[str, str] = {}
    at = _skip_space(text, at + 1)
    while text[at] != "}":
        key, at = _scan(text, at)
        at = _skip_space(text, _skip_space(text, at) + 1)
        _, end = _scan(text, at)
        members[key] = text[at:end]
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)

    return members, at + 1


def _split_items(text: str, at: int) -> Iterator[dict[str, str]]:
    """
    The same of each item of the list at *at*, which are objects all of them.
    """
    at = _skip_space(text, at + 1)
    while text[at] != "]":
        members, end = _split_members(text, at)
        yield members
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
