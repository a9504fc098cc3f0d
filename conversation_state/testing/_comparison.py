"""
Comparing values down to their encoded bytes, so that True is not 1; copies of values,
and what two runs of a user's function have in common.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import attrs

from conversation_state._wording import shorten_text
from conversation_state.aggregator import Aggregator, Checkpoint, LedgerEntry, Turn
from conversation_state.codec import decode, encode, encode_ledger_entry, encode_message
from conversation_state.messages import Message
from conversation_state.parts import KINDS, UnknownPart
from conversation_state.testing._code import COMMON_FIELDS, format_code
from conversation_state.tools import ToolCall

T = TypeVar("T")
_WITHOUT = (None, None, None)
_SHOWN = 300  # characters of a value in an error


def is_same(a: object, b: object) -> bool:
    """
    Whether two values are equal and are encoded as the same bytes.

    Equality is not enough: True, 1 and 1.0 are equal, and so are 0.0 and -0.0, and one
    time with two offsets; each of them is other JSON.
    """
    return a is b or (bool(a == b) and _is_encoded_same(a, b))


def _is_encoded_same(a: Any, b: Any) -> bool:
    """Whether two equal values are encoded as the same bytes."""
    # Most of what is compared is shared by both.
    if a is b:
        return True

    if isinstance(a, Mapping):
        return all(_is_encoded_same(each, b[key]) for key, each in a.items())

    if isinstance(a, (list, tuple)) and not isinstance(a, LedgerEntry):
        return all(map(_is_encoded_same, a, b))

    return bool(_encode_types(a) == _encode_types(b))


def _encode_types(value: object) -> Any:
    """
    What has to be the same beside the value: messages, states and the like as bytes,
    numbers with their types.
    """
    if isinstance(value, Message):
        return encode_message(value)

    if isinstance(value, LedgerEntry):
        return encode_ledger_entry(value)

    if isinstance(value, (Aggregator, Checkpoint, Turn)):
        return encode(value)

    # Of other values equality is enough: a subclass of str is the same text in JSON.
    return json.dumps(value) if isinstance(value, (int, float)) else None


def assert_same(expected: object, found: object, what: str = "{} became {}") -> None:
    """
    Raise an AssertionError unless *found* is the same as *expected*; its text is *what*
    with both of them, or with the one part in which they differ, and its path.
    """
    __tracebackhide__ = True
    # Not an assert statement: texts are long, and formatted for a broken law only.
    if not is_same(expected, found):
        path, before, after = find_difference(expected, found)
        # The repr of a message leaves its metadata out.
        shown = [shorten_text(format_code(value), _SHOWN) for value in (before, after)]
        start = f"{path.lstrip('.')}: " if path else ""
        raise AssertionError(start + what.format(*shown))


def find_difference(expected: Any, found: Any) -> tuple[str, Any, Any]:
    """
    The path of the only part in which two values differ, and what they have there;
    both as they are, with an empty path, if they differ in several.
    """
    parts, others = _list_parts(expected), _list_parts(found)
    if type(expected) is not type(found) or [*parts] != [*others]:
        return "", expected, found

    differing = [name for name in parts if not is_same(parts[name], others[name])]
    if len(differing) != 1:
        return "", expected, found

    [name] = differing
    path, before, after = find_difference(parts[name], others[name])
    return f"{name}{path}", before, after


def _list_parts(value: Any) -> dict[str, Any]:
    """The parts of a value, each under its path."""
    if isinstance(value, Mapping):
        # Metadata is shown whole: what is missing there is seen beside the rest.
        is_ours = type(value) is dict and all(str(key).isidentifier() for key in value)
        return {f".{key}": each for key, each in value.items()} if is_ours else {}

    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return {f"[{at}]": each for at, each in enumerate(value)}

    if isinstance(value, Message):
        names = [
            *[field.name for field in attrs.fields(type(value))[1:]],
            *COMMON_FIELDS,
        ]
        return {f".{name}": getattr(value, name) for name in names}

    if isinstance(value, (ToolCall, *KINDS.values(), UnknownPart)):
        kind: Any = type(value)
        names = [field.name for field in attrs.fields(kind)]
        return {f".{name}": getattr(value, name) for name in names}

    return {}


def assert_same_on_copies(
    observe: Callable[[T], object], example: T, *, decode: Callable[[T], T]
) -> None:
    """
    Raise an AssertionError unless *observe* gives the same for *example*, for what
    *decode* makes of it, and for what was pickled.
    """
    expected = observe(example)
    assert_same(expected, observe(decode(example)), "{}, decoded: {}")
    assert_same(expected, observe(unpickled(example)), "{}, unpickled: {}")


def decoded(value: T) -> T:
    """What *value* is after it was encoded and decoded."""
    copy: T = decode(encode(value))
    return copy


def decoded_each(messages: Iterable[Message]) -> tuple[Message, ...]:
    """*messages* after each was encoded and decoded."""
    return tuple([decoded(each) for each in messages])


def unpickled(value: T) -> T:
    """A copy of *value* that shares nothing with it."""
    # deepcopy() of a state is that state.
    copy: T = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own
    return copy


def compare_messages(messages: Iterable[Message]) -> list[Message]:
    """*messages* without what differs between two runs: times, and ids of turns."""
    return [
        each
        if (each.timestamp, each.run_id, each.turn_id) == _WITHOUT
        else each.replace(timestamp=None, run_id=None, turn_id=None)
        for each in messages
    ]


def compare_content(state: Aggregator, before: Aggregator) -> dict[str, Any]:
    """*state*, made of *before*, without new identities, times, ids of turns."""
    known = {entry.id for entry in before.entries}
    recorded = {entry.id for entry in before.ledger}
    return {
        "entries": [entry.id if entry.id in known else None for entry in state.entries],
        "messages": compare_messages(state),
        "ledger": [
            {
                **entry._asdict(),
                "id": entry.id if entry.id in recorded else None,
                "at": None,
            }
            for entry in state.ledger
        ],
    }
