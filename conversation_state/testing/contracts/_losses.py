"""What an export's losses excuse: only what they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from conversation_state.messages import Message, ToolMessage
from conversation_state.parts import Part, TextPart, UnknownPart
from conversation_state.testing._code import show_value
from conversation_state.testing._comparison import is_same
from conversation_state.tools import ToolCall

_PATH = re.compile(r"messages\[(\d+)\](?:\.(parts|tool_calls)\[(\d+)\])?")
# What a message has beside its content and its calls.
_FIELDS = ("name", "is_error", "tool_call_id")
# What a loss may name of a message without losing its content.
_DETAILS = {*_FIELDS, "id", "tool_name", "metadata", "unknown", "timestamp", "response"}


@attrs.define
class Losses:
    """What was listed as lost of one message."""

    is_whole: bool = False
    fields: set[str] = attrs.field(factory=set)
    parts: dict[int, set[str]] = attrs.field(factory=dict)
    calls: dict[int, set[str]] = attrs.field(factory=dict)

    def add(self, kind: str | None, number: int, what: str, message: Message) -> None:
        """Note what one loss names: a part or call by *number*, or *what* else."""
        if kind == "parts":
            self.parts.setdefault(number, set()).add(what)
        elif kind == "tool_calls":
            self.calls.setdefault(number, set()).add(what)
        elif what in _DETAILS or what in message.unknown:
            self.fields.add("tool_call_id" if what == "id" else what)
        else:
            # Its content, its role, its position: all of it may be elsewhere, or gone.
            self.is_whole = True


def read_losses(lost: Iterable[Any], messages: Sequence[Message]) -> list[Losses]:
    """What was listed of each of *messages*."""
    found = [Losses() for _ in messages]
    for each in lost:
        place = _PATH.match(str(each.path))
        if place is not None and int(place[1]) < len(found):
            at = int(place[1])
            number = int(place[3] or 0)
            found[at].add(place[2], number, str(each.what), messages[at])

    return found


Normalise: TypeAlias = Callable[[Message], Message]


def _list_parts(message: Message, normalise: Normalise) -> Iterator[tuple[int, Part]]:
    """The parts of *message*, each as *normalise* leaves it, with its number."""
    for number, part in enumerate(getattr(message, "parts", ())):
        for each in getattr(normalise(message.replace(content=[part])), "parts", ()):
            yield number, each


def assert_loses_only(
    message: Message, loaded: Sequence[Message], losses: Losses, normalise: Normalise
) -> None:
    """
    Raise an AssertionError if *loaded* lacks something of *message* that *losses* do
    not name. Of a message that is listed as a whole nothing may come back changed.
    """
    expected = normalise(message)
    if losses.is_whole and not loaded:
        return

    parts = [part for each in loaded for part in getattr(each, "parts", ())]
    rest, text = list(parts), "".join([each.text for each in loaded])
    for number, part in _list_parts(message, normalise):
        named = losses.parts.get(number)
        if named is None and not losses.is_whole:
            if isinstance(part, TextPart):
                assert part.text in text, f"parts[{number}] is missing: {part!r}"
            else:
                assert any(is_same(part, each) for each in rest), (
                    f"parts[{number}] is missing or changed: {show_value(part)}"
                )
        elif named and named <= _names_of(part):
            # A detail of it: the part is still there.
            assert any(type(each) is type(part) for each in rest), (
                f"parts[{number}] is missing, of which only {sorted(named)} was listed"
            )

    calls = [call for each in loaded for call in each.tool_calls]
    _check_calls(expected.tool_calls, calls, losses)
    if losses.is_whole or not loaded:
        return

    for field in _FIELDS:
        before = getattr(expected, field, None)
        after = [getattr(each, field, None) for each in loaded]
        assert field in losses.fields or before in after, (
            f"{field}: {before!r} became {after[0]!r}, and is not listed"
        )


def _names_of(part: Any) -> set[str]:
    # Of an unknown part all is one value.
    names = set() if isinstance(part, UnknownPart) else attrs.fields_dict(type(part))
    return {*names} - {"text", "url", "data", part.kind}


def _check_calls(
    expected: Sequence[ToolCall], loaded: Sequence[ToolCall], losses: Losses
) -> None:
    """
    Raise an AssertionError if a call lacks what was not listed. If the whole message
    was, there may be no call; those that are there are as they were.
    """
    if losses.is_whole and not loaded:
        return

    at = 0
    for number, call in enumerate(expected):
        named = losses.calls.get(number, set())
        is_gone = not named <= {"id", "arguments", "type", "name"}
        is_gone = is_gone and not named <= {*call.unknown, *call.metadata}
        found = loaded[at] if at < len(loaded) else None
        if found is None or not _calls_match(call, found, named):
            assert is_gone, (
                f"tool_calls[{number}] is missing or changed, and not listed: "
                f"{call!r}, loaded {show_value(found)}"
            )
            continue

        at += 1


def _calls_match(call: ToolCall, found: ToolCall, named: set[str]) -> bool:
    for field in ("id", "name", "arguments"):
        before, after = getattr(call, field), getattr(found, field)
        # A call without an id may get one.
        if field not in named and before != after and (before or field != "id"):
            return False

    return True


def assert_keeps_order(
    messages: Sequence[Message],
    loaded: Sequence[Message],
    losses: Sequence[Losses],
    normalise: Normalise,
) -> None:
    """
    Raise an AssertionError if what was not listed is in another order, or missing:
    texts, other parts, calls and results.
    """
    text = "".join([each.text for each in loaded])
    parts = [
        each
        for message in loaded
        for each in getattr(message, "parts", ())
        if each.kind != "text"
    ]
    calls = [call for message in loaded for call in message.tool_calls]
    results = [
        message.tool_call_id for message in loaded if isinstance(message, ToolMessage)
    ]
    text_at, rest, calls_rest, results_rest = 0, iter(parts), iter(calls), iter(results)
    for number, (original, lost) in enumerate(zip(messages, losses, strict=True)):
        message = normalise(original)
        if lost.is_whole:
            continue

        for at, part in _list_parts(original, normalise):
            if at in lost.parts:
                continue

            if isinstance(part, TextPart):
                found = text.find(part.text, text_at)
                assert found >= 0, f"messages[{number}]: the text is missing or moved"
                text_at = found + len(part.text)
            else:
                assert any(is_same(part, each) for each in rest), (
                    f"messages[{number}].parts[{at}] is missing or moved"
                )

        for at, call in enumerate(message.tool_calls):
            named = lost.calls.get(at, set())
            if not named or named <= {"id", "arguments", "type", "name"}:
                assert any(_calls_match(call, each, named) for each in calls_rest), (
                    f"messages[{number}].tool_calls[{at}] is missing or moved"
                )

        if isinstance(message, ToolMessage) and "tool_call_id" not in lost.fields:
            assert any(message.tool_call_id == each for each in results_rest), (
                f"messages[{number}]: the result of {message.tool_call_id!r} is "
                "missing or moved"
            )
