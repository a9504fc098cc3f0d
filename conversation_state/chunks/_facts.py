"""
What pieces of one message must agree on.

Facts are kept in a map: names of fields, and indexes of tool calls, to what
has been said so far. Those who read many chunks at once give a dict, those
who keep every moment give one that is a layer over a persistent map.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple, TypeAlias

from conversation_state.errors import ConcatError
from conversation_state.messages import Message, ToolMessage, UnknownMessage
from conversation_state.messages._base import PLAIN
from conversation_state.tools import ToolCall

__all__ = ["Facts", "continued", "meet", "meet_call"]

Facts: TypeAlias = MutableMapping[Any, Any]


class _Opened(NamedTuple):
    """
    The tool call that was opened last at an index.
    """

    number: int  # how many calls were opened before it
    id: str
    name: str
    type: str
    holds: bool  # anything at all


def meet(facts: Facts, chunk: Message, number: int) -> None:
    """
    Add what *chunk* says of its message to *facts*, but for its tool calls.

    Raises:
        ConcatError:
            If it says something else than the chunks before.
    """
    _same(facts, "role", chunk.role, number)
    common = chunk._common
    if common is not PLAIN:
        for field in ("name", "run_id", "turn_id"):
            _same(facts, field, getattr(common, field), number)

    if isinstance(chunk, ToolMessage):
        _same(facts, "tool_call_id", chunk.tool_call_id, number)
        _same(facts, "tool_name", chunk.tool_name, number)
        if not isinstance(chunk.content, str):
            _meet_media(facts, chunk, number)
    elif isinstance(chunk, UnknownMessage):
        _same(facts, "raw", chunk.raw, number)
        _same(facts, "source", chunk.source, number)


def _same(facts: Facts, field: str, value: object, number: int) -> None:
    if value is None or value == "":
        return

    known = facts.get(field)
    if known is None:
        facts[field] = value
    elif known != value:
        raise ConcatError(field, known, value, number)


def _meet_media(facts: Facts, chunk: ToolMessage, number: int) -> None:
    # Nobody can tell whether the second is another piece, another version, or
    # another one; several in one chunk are several.
    for part in chunk.parts:
        if part.kind != "text":
            field = f"the {part.kind} of a tool result"
            first, known = facts.setdefault(field, (number, part))
            if first != number:
                raise ConcatError(field, known, part, number)


def continued(facts: Mapping[Any, Any], call: ToolCall) -> int | None:
    """
    Which call the piece *call* belongs to, if that is easily told: most pieces
    hold nothing but arguments. Else None, and `meet_call` tells.
    """
    if call.index is None or call.id or call.name:
        return None

    opened: _Opened | None = facts.get(call.index)
    return opened.number if opened is not None and opened.holds else None


def meet_call(facts: Facts, call: ToolCall, number: int) -> int:
    """
    Which call the piece *call*, which has an index, belongs to.

    Calls are numbered as they are opened, whatever their index.

    Raises:
        ConcatError:
            If it says something else than the pieces before.
    """
    at = call.index
    opened: _Opened | None = facts.get(at)
    if opened is None or (call.id and opened.holds and call.id != opened.id):
        calls: int = facts.get("calls", 0)
        opened = _Opened(calls, call.id, call.name, call.type, holds=False)
        facts["calls"] = calls + 1
    elif call.id:
        if not opened.holds:
            opened = opened._replace(id=call.id, type=call.type)
        elif call.type != opened.type:
            raise _differ(at, "type", opened.type, call.type, number)

    if call.name and opened.name != call.name:
        if opened.name:
            raise _differ(at, "name", opened.name, call.name, number)

        opened = opened._replace(name=call.name)

    holds = opened.holds or bool(
        call.id or call.name or call.arguments or call.metadata or call.unknown
    )
    facts[at] = opened._replace(holds=holds)
    return opened.number


def _differ(
    at: int | None, field: str, ours: str, theirs: str, number: int
) -> ConcatError:
    return ConcatError(f"tool_calls[index={at}].{field}", ours, theirs, number)
