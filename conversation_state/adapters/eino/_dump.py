"""From our messages to eino's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conversation_state.adapters.eino._load import (
    DETAILS,
    LISTS,
    OLD,
    REASONING,
    SOURCE,
    write_part,
)
from conversation_state.adapters.engine.export import (
    Export,
    PayloadWriter,
    merge_kept_keys,
)
from conversation_state.adapters.engine.notes import map_of, own_of, write_extra
from conversation_state.messages import (
    AssistantMessage,
    LogProb,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import ReasoningPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

# What is passed over next to a list, and would be read in its place.
_BESIDE_LISTS = frozenset({"content", OLD})
# Integers that a float holds exactly, and that Go writes as integers.
_EXACT = 2**53


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* as a list of eino's: ``{"messages": [...]}``.

    What was loaded from this format is written as it was. `Export.lost` lists
    what differs from *messages* when the payload is loaded again: what eino
    can't represent, what is another adapter's own, what had to be mended. A
    signature is written if eino had it before, or if it is no other provider's.

    Raises:
        InvalidMessageError: If one of them is not a message.
    """
    writer = PayloadWriter(SOURCE)
    raws = [_write_message(writer, *one) for one in writer.each(messages)]
    return writer.export({"messages": [raw for raw in raws if raw is not None]})


def _write_message(
    writer: PayloadWriter, message: Message, path: str
) -> dict[str, Any] | None:
    notes = writer.notes_on(message, path)
    ours = {
        "run_id": message.run_id is not None,
        "turn_id": message.turn_id is not None,
        "timestamp": message.timestamp is not None,
    }
    writer.lose_each(path, ours, "eino messages have no field for it")
    if isinstance(message, UnknownMessage):
        verbatim = writer.unknown(message.raw, message.source, path)
        if verbatim is None:
            return None

        own = bool(own_of(message.metadata))
        beside = {"name": bool(message.name), "metadata": own}
        why = "the message is sent verbatim, without this field"
        writer.lose_each(path, beside, why)
        return verbatim  # type: ignore[no-any-return]

    raw: dict[str, Any] = {"role": message.role, "content": ""}
    keys = map_of(notes, "keys")
    has_beside = not _BESIDE_LISTS.isdisjoint(keys)
    is_listed = _put_content(writer, message, path, raw, has_beside=has_beside)
    if message.name:
        raw["name"] = message.name

    if isinstance(message, AssistantMessage):
        raw |= _write_answer(writer, message, path)
    elif isinstance(message, ToolMessage):
        if message.tool_call_id != notes.get("made_id"):
            raw["tool_call_id"] = message.tool_call_id

        if message.tool_name:
            raw["tool_name"] = message.tool_name

        writer.lose_error_flag(message, path)

    extra = write_extra(message.metadata, notes, "extra")
    if extra:
        raw["extra"] = extra

    if has_beside and not is_listed:
        keys = {key: keys[key] for key in keys if key not in _BESIDE_LISTS}

    return merge_kept_keys(keys, raw)


def _write_answer(
    writer: PayloadWriter, message: AssistantMessage, path: str
) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    calls = [
        _write_tool_call(writer, call, f"{path}.tool_calls[{at}]")
        for at, call in enumerate(message.tool_calls)
    ]
    if calls:
        raw["tool_calls"] = calls

    if message.response is not None:
        where = f"{path}.response"
        raw["response_meta"] = _write_response(writer, message.response, where)

    return raw


def _put_content(
    writer: PayloadWriter,
    message: Any,
    path: str,
    raw: dict[str, Any],
    *,
    has_beside: bool,
) -> bool:
    """
    Put the content of *message* into *raw*; whether it takes a list, as it does if
    it *has_beside* it what belongs there.
    """
    if isinstance(message.content, str):
        raw["content"] = message.content
        return False

    parts = [(part, f"{path}.parts[{at}]") for at, part in enumerate(message.content)]
    if isinstance(message, SystemMessage):
        why = "a system message is a single text in eino"
        for part, where in parts:
            writer.notes(part, where)
            fields = {"index": part.index, "metadata": own_of(part.metadata) or None}
            writer.lose_each(
                where, {key: fields[key] is not None for key in fields}, why
            )

        writer.lose_each(path, {"parts": len(parts) > 1}, why)
        raw["content"] = message.text
        return False

    found = [write_part(writer, part, where, message.role) for part, where in parts]
    listed = [part for part in found if part is not None]
    # A thought that comes first, and a text alone, need no list. One that those behind
    # it repeat does: beside the same in a list, `load` reads it once.
    if listed and listed[0].get("type") == "reasoning":
        text = _find_only(listed[0].get("reasoning"), {"text"})
        thoughts = [part.text for part, _ in parts if isinstance(part, ReasoningPart)]
        is_repeated = "".join(thoughts) == text * 2
        if text and not is_repeated and listed[0].keys() == {"reasoning", "type"}:
            raw[REASONING] = text
            listed.pop(0)

    if len(listed) == 1 and listed[0].get("type") == "text" and not has_beside:
        text = _find_only(listed[0], {"text", "type"})
        if text:
            raw["content"] = text
            listed = []

    if listed:
        raw[LISTS[message.role]] = listed

    return bool(listed)


def _find_only(raw: Any, keys: set[str]) -> str:
    """The text of *raw*, an object with these *keys* and no others; else ""."""
    is_plain = isinstance(raw, dict) and raw.keys() == keys
    return raw["text"] if is_plain and isinstance(raw["text"], str) else ""


def _write_tool_call(
    writer: PayloadWriter, call: ToolCall, path: str
) -> dict[str, Any]:
    notes = writer.notes(call, path)
    raw: dict[str, Any] = {}
    if call.index is not None:
        raw["index"] = call.index

    raw["id"] = "" if call.id == notes.get("made_id") else call.id
    raw["type"] = call.type
    why = "an empty type means a function in eino"
    writer.lose_each(path, {"type": not call.type}, why)
    body = {"name": call.name, "arguments": call.arguments}
    raw["function"] = {key: text for key, text in body.items() if text}
    extra = write_extra(call.metadata, notes, "extra")
    if extra:
        raw["extra"] = extra

    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_response(
    writer: PayloadWriter, response: ResponseMeta, path: str
) -> dict[str, Any]:
    newer = dict.fromkeys(sorted(response.unknown), True)
    others = {"id": bool(response.id), "model": bool(response.model), **newer}
    writer.lose_each(path, others, "response_meta has no field for it")
    raw: dict[str, Any] = {}
    if response.finish_reason:
        raw["finish_reason"] = response.finish_reason

    if response.usage is not None:
        raw["usage"] = _write_usage(writer, response.usage, f"{path}.usage")

    if response.logprobs is not None:
        # A list that was never made is null in Go.
        listed = [_write_logprob(one) for one in response.logprobs]
        raw["logprobs"] = {"content": listed or None}

    return raw


def _write_usage(writer: PayloadWriter, usage: Usage, path: str) -> dict[str, Any]:
    prompt, written = usage.prompt_tokens_details, usage.completion_tokens_details
    others = {
        "prompt audio_tokens": prompt.audio_tokens,
        "accepted_prediction_tokens": written.accepted_prediction_tokens,
        "completion audio_tokens": written.audio_tokens,
        "rejected_prediction_tokens": written.rejected_prediction_tokens,
        **{name: usage.extra[name] for name in sorted(usage.extra)},
    }
    why = "eino has no separate count for it"
    writer.lose_each(path, {name: count > 0 for name, count in others.items()}, why)
    reasoning, cached = written.reasoning_tokens, prompt.cached_tokens
    details = [
        {"cached_tokens": cached},
        {"reasoning_tokens": reasoning} if reasoning else {},
    ]
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        **dict(
            zip(DETAILS, [details[0], details[1] if reasoning else {}], strict=True)
        ),
    }


def _write_logprob(one: LogProb, *, top: bool = True) -> dict[str, Any]:
    chance: float = one.logprob
    # Go writes whole numbers without ".0"; -0.0 would lose its sign as an integer.
    if chance.is_integer() and abs(chance) <= _EXACT and str(chance) != "-0.0":
        chance = int(chance)

    raw: dict[str, Any] = {"token": one.token, "logprob": chance}
    if one.bytes is not None:
        raw["bytes"] = [*one.bytes]

    if top:
        raw["top_logprobs"] = [
            _write_logprob(other, top=False) for other in one.top
        ] or None

    return raw
