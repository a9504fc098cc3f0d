"""
What the chunks of one message must agree on.

Facts are kept in a map of field names, and indexes of tool calls, to the value
so far. `ChunkMerger` reads many chunks into a dict; `Accumulator`, which keeps
every version, passes a layer over a persistent map.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple, TypeAlias

from conversation_state.errors import ConcatError
from conversation_state.messages import PLAIN, Message, ToolMessage, UnknownMessage
from conversation_state.tools import ToolCall

Facts: TypeAlias = MutableMapping[Any, Any]


class _OpenCall(NamedTuple):
    """The tool call that was opened last at an index."""

    number: int  # how many calls were opened before it
    id: str
    name: str
    type: str
    has_content: bool


def check_consistent(facts: Facts, chunk: Message, number: int) -> None:
    """
    Add what *chunk* states about its message to *facts*, except its tool calls.

    Raises:
        ConcatError: If it contradicts the chunks before.
    """
    _check_same(facts, "role", chunk.role, number)
    common = chunk._common
    if common is not PLAIN:
        for field in ("name", "run_id", "turn_id"):
            _check_same(facts, field, getattr(common, field), number)

    if isinstance(chunk, ToolMessage):
        _check_same(facts, "tool_call_id", chunk.tool_call_id, number)
        _check_same(facts, "tool_name", chunk.tool_name, number)
        _check_media(facts, chunk, number)
    elif isinstance(chunk, UnknownMessage):
        _check_same(facts, "raw", chunk.raw, number)
        _check_same(facts, "source", chunk.source, number)


def _check_same(facts: Facts, field: str, value: object, number: int) -> None:
    # Most chunks of a provider leave out what the first one has said.
    if value is None or value == "":
        return

    known = facts.get(field)
    if known is None:
        facts[field] = value
    elif known != value:
        raise ConcatError(field, known, value, number)


def _check_media(facts: Facts, chunk: ToolMessage, number: int) -> None:
    # A second image may be another piece, another version or another image, and
    # no field says which; several in one chunk are several images.
    for part in chunk.parts:
        if part.kind != "text":
            field = f"the {part.kind} of a tool result"
            first, known = facts.setdefault(field, (number, part))
            if first != number:
                raise ConcatError(field, known, part, number)


def find_open_call(facts: Mapping[Any, Any], call: ToolCall) -> int | None:
    """
    The number of the call that the piece *call* continues, if it holds nothing but
    arguments, as most pieces do. Else None: ask `check_call`.
    """
    if call.index is None or call.id or call.name:
        return None

    open_call: _OpenCall | None = facts.get(call.index)
    return open_call.number if open_call is not None and open_call.has_content else None


def check_call(facts: Facts, call: ToolCall, number: int) -> int:
    """
    The number of the call that the piece *call*, which has an index, belongs to.

    Calls are numbered as they are opened, whatever their index.

    Raises:
        ConcatError: If it contradicts the pieces before.
    """
    at = call.index
    open_call: _OpenCall | None = facts.get(at)
    if open_call is None or (
        call.id and open_call.has_content and call.id != open_call.id
    ):
        calls: int = facts.get("calls", 0)
        open_call = _OpenCall(calls, call.id, call.name, call.type, has_content=False)
        facts["calls"] = calls + 1
    elif call.id:
        if not open_call.has_content:
            open_call = open_call._replace(id=call.id, type=call.type)
        elif call.type != open_call.type:
            raise _conflict_error(at, "type", open_call.type, call.type, number)

    if call.name and open_call.name != call.name:
        if open_call.name:
            raise _conflict_error(at, "name", open_call.name, call.name, number)

        open_call = open_call._replace(name=call.name)

    # A piece with anything in it may have been merged with others before: if it still
    # waited for an id, the result would depend on how chunks are grouped.
    has_content = open_call.has_content or bool(
        call.id or call.name or call.arguments or call.metadata or call.unknown
    )
    facts[at] = open_call._replace(has_content=has_content)
    return open_call.number


def _conflict_error(
    at: int | None, field: str, ours: str, theirs: str, number: int
) -> ConcatError:
    return ConcatError(f"tool_calls[index={at}].{field}", ours, theirs, number)
