"""
From our messages to eino's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state.adapters._export import (
    Export,
    PayloadWriter,
    is_plain,
    merge_kept_keys,
    ordered,
)
from conversation_state.adapters._notes import (
    list_of,
    map_of,
    notes_of,
    own_of,
    write_extra,
)
from conversation_state.adapters.eino._parts import (
    CALL,
    LISTS,
    MESSAGE,
    OLD,
    REASONING,
    SOURCE,
    as_text,
    can_be_old,
    in_order,
    write_part,
)
from conversation_state.adapters.eino._response import write_response
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import Part, ReasoningPart
from conversation_state.tools import ToolCall


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a list of eino's: ``{"messages": [...]}``.

    What was loaded from this format is written as it was. `Export.lost` lists
    what differs from *messages* when the payload is loaded again: what eino
    can't represent, what is another adapter's own, what had to be mended. A
    signature is written if eino had it before, or if it is no other provider's.

    Raises:
        InvalidMessageError:
            If one of them is not a message.
    """
    write = PayloadWriter(SOURCE)
    raws = [_write_message(write, *one) for one in write.each(messages)]
    return write.export({"messages": [raw for raw in raws if raw is not None]})


def _write_message(
    write: PayloadWriter, message: Message, path: str
) -> dict[str, Any] | None:
    notes = write.notes_on(message, path)
    ours = {
        "run_id": message.run_id is not None,
        "turn_id": message.turn_id is not None,
        "timestamp": message.timestamp is not None,
    }
    write.lose_each(path, ours, "eino messages have no field for it")
    if isinstance(message, UnknownMessage):
        verbatim = write.unknown(message.raw, message.source, path, "role")
        if verbatim is None:
            return None

        own = bool(own_of(message.metadata))
        beside = {"name": bool(message.name), "metadata": own}
        why = "the message is sent verbatim, without this field"
        write.lose_each(path, beside, why)
        return ordered(verbatim, MESSAGE)

    raw: dict[str, Any] = {"role": message.role, "content": ""}
    keys = _put_content(write, message, path, notes, raw)
    if message.name:
        raw["name"] = message.name

    if isinstance(message, AssistantMessage):
        raw |= _write_answer(write, message, path, notes)
    elif isinstance(message, ToolMessage):
        if message.tool_call_id != notes.get("made_id"):
            raw["tool_call_id"] = message.tool_call_id

        if message.tool_name:
            raw["tool_name"] = message.tool_name

        write.lose_error_flag(message, path)

    extra = write_extra(message.metadata, notes, "extra")
    if extra:
        raw["extra"] = extra

    raw = merge_kept_keys(keys, raw)
    # Kept keys are sorted, as all metadata is, and Go writes them in another order.
    old = raw.get(OLD)
    if isinstance(old, list) and OLD in keys:
        raw[OLD] = [in_order(one, OLD) for one in old if isinstance(one, dict)]

    return ordered(raw, MESSAGE)


def _write_answer(
    write: PayloadWriter, message: AssistantMessage, path: str, notes: Mapping[str, Any]
) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    calls = [
        _write_tool_call(write, call, f"{path}.tool_calls[{at}]")
        for at, call in enumerate(message.tool_calls)
    ]
    if calls:
        raw["tool_calls"] = calls

    if message.response is not None:
        where, kept = f"{path}.response", notes.get("logprobs")
        raw["response_meta"] = write_response(write, message.response, where, kept)

    return raw


def _put_content(
    write: PayloadWriter,
    message: Any,
    path: str,
    notes: Mapping[str, Any],
    raw: dict[str, Any],
) -> Mapping[str, Any]:
    """
    Put the content of *message* into *raw*; the keys that may be put next to it.
    """
    keys = map_of(notes, "keys")
    listed = not isinstance(message.content, str)
    if not listed:
        raw["content"] = message.content
    else:
        listed = _put_parts(write, message, path, notes, raw)

    # What was next to a list would be read in its place.
    beside = () if listed else ("content", OLD)
    # A reasoning_content that repeats the thoughts of a list goes back while it does.
    if message.reasoning != keys.get(REASONING):
        beside = (*beside, REASONING)

    return {key: keys[key] for key in keys if key not in beside or not keys[key]}


def _put_parts(
    write: PayloadWriter,
    message: Any,
    path: str,
    notes: Mapping[str, Any],
    raw: dict[str, Any],
) -> bool:
    """
    Put the parts of *message* into *raw*; whether it takes a list.
    """
    parts: list[tuple[Part, str]] = [
        (part, f"{path}.parts[{at}]") for at, part in enumerate(message.content)
    ]
    aside = _is_beside_list(message.content)
    under = _list_for(message, message.content[aside:], notes)
    if not under:
        _put_text(write, message, path, parts, raw)
        return False

    if aside:
        _lose_index(write, *parts.pop(0))
        raw[REASONING] = message.content[0].text

    found = [write_part(write, part, where, under) for part, where in parts]
    found = [part for part in found if part is not None]
    if found:
        raw[under] = found

    return bool(found)


def _is_beside_list(parts: tuple[Part, ...]) -> bool:
    """
    Whether the first of *parts* was next to their list, and can be so again.
    """
    first = parts[0] if parts else None
    return (
        isinstance(first, ReasoningPart)
        and bool(first.text)
        and not first.signature
        and notes_of(first.metadata, SOURCE).get("under") == REASONING
        and is_plain(first)
    )


def _list_for(message: Any, rest: tuple[Part, ...], notes: Mapping[str, Any]) -> str:
    """
    The key of the list that the *rest* of the parts of *message* goes to; "" if
    all of them need none.
    """
    under = notes.get("under")
    # The list that it was loaded from, while that can hold what is there by now.
    if under == OLD and all(can_be_old(part) for part in rest):
        return OLD

    own = LISTS[message.role]
    if under in {own, OLD}:
        return own

    if isinstance(message, SystemMessage):
        return ""

    return "" if as_text(message.content) is not None else own


def _put_text(
    write: PayloadWriter,
    message: Any,
    path: str,
    parts: list[tuple[Part, str]],
    raw: dict[str, Any],
) -> None:
    for part, where in parts:
        _lose_index(write, part, where)
        why = "the message is a single text, without metadata of parts"
        write.lose_each(where, {"metadata": bool(own_of(part.metadata))}, why)

    if isinstance(message, SystemMessage):
        why = "the parts of a system message are joined to one text"
        write.lose_each(path, {"parts": len(parts) > 1}, why)

    raw["content"] = message.text
    if message.reasoning:
        raw[REASONING] = message.reasoning


def _lose_index(write: PayloadWriter, part: Part, path: str) -> None:
    # Asked for the keys of other formats, which it lists as lost.
    write.notes(part, path)
    if part.index is not None:
        write.lose(path, "index", "the message is a single text, without positions")


def _write_tool_call(write: PayloadWriter, call: ToolCall, path: str) -> dict[str, Any]:
    notes = write.notes(call, path)
    raw: dict[str, Any] = {}
    if call.index is not None:
        raw["index"] = call.index

    raw["id"] = "" if call.id == notes.get("made_id") else call.id
    raw["type"] = call.type
    if call.type == "function" and "type" in list_of(notes, "without"):
        raw["type"] = ""

    why = "an empty type means a function in eino"
    write.lose_each(path, {"type": not call.type}, why)
    body = {"name": call.name, "arguments": call.arguments}
    raw["function"] = {key: text for key, text in body.items() if text}
    extra = write_extra(call.metadata, notes, "extra")
    if extra:
        raw["extra"] = extra

    return ordered(merge_kept_keys(map_of(notes, "keys"), raw), CALL)
