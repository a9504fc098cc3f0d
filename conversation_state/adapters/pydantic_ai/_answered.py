"""
A model's answer, from our words to Pydantic AI's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.adapters._export import (
    PROVIDERS,
    Writing,
    map_of,
    written_over,
)
from conversation_state.adapters._extras import own_of, write_extra
from conversation_state.adapters._reading import Reading
from conversation_state.adapters.pydantic_ai._spoken import (
    lose_metadata,
    media,
    restore,
    unknown_part,
)
from conversation_state.adapters.pydantic_ai._usage import usage_from, usage_in
from conversation_state.adapters.pydantic_ai._words import (
    FINISHED,
    INTERRUPTED,
    SOURCE,
    written_time,
)
from conversation_state.messages import AssistantMessage
from conversation_state.parts import (
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.tools import ToolCall

__all__ = ["write_response"]

# Which adapters' signatures Pydantic AI sends back, by its name for them.
_SIGNERS = {"anthropic": "anthropic"}


def write_response(
    write: Writing, message: AssistantMessage, notes: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """
    A `ModelResponse` as plain JSON.
    """
    raw: dict[str, Any] = {"kind": "response", "parts": _parts(write, message, path)}
    kept = map_of(notes, "response")
    if message.timestamp is not None or "timestamp" not in kept:
        raw["timestamp"] = written_time(message.timestamp)

    if message.run_id is not None:
        raw["run_id"] = str(message.run_id)

    if own_of(message.metadata) or map_of(notes, "metadata"):
        raw["metadata"] = write_extra(message.metadata, notes, "metadata")

    _meta(write, message, notes, raw, path)
    written_over(kept, raw)
    restore(raw, notes, "response_texts")
    return raw


def _parts(write: Writing, message: AssistantMessage, path: str) -> list[Any]:
    said: list[tuple[float, Any]] = []
    after = -1.0
    for at, part in enumerate(message.parts):
        raw = _part(write, part, f"{path}.parts[{at}]")
        after = after if part.index is None else float(part.index)
        if raw is not None:
            said.append((after, raw))

    # A call that was not streamed comes after all that was said.
    last = max([place for place, _ in said], default=-1.0)
    for at, call in enumerate(message.tool_calls):
        raw = _call(write, call, f"{path}.tool_calls[{at}]")
        last = last if call.index is None else float(call.index)
        said.append((last, raw))

    said.sort(key=lambda placed: placed[0])
    return [raw for _, raw in said]


def _part(write: Writing, part: Part, path: str) -> Any:
    notes = write.notes(part, path)
    lose_metadata(write, part, path)
    raw: dict[str, Any]
    if isinstance(part, TextPart):
        kind = map_of(notes, "keys").get("part_kind", "text")
        field = "transcript" if kind == "speech" else "content"
        raw = {"part_kind": kind, field: part.text}
    elif isinstance(part, RefusalPart):
        write.lose(path, part.kind, "is said as plain text")
        raw = {"part_kind": "text", "content": part.text}
    elif isinstance(part, ReasoningPart):
        raw = _thought(write, part, path)
    elif isinstance(part, MediaPart):
        if part.url is not None:
            write.lose(path, part.kind, "a response holds bytes, and no urls")
            return None

        raw = {"part_kind": "file", "content": media(write, part, notes, path)}
        written_over(map_of(notes, "file"), raw)
        restore(raw, notes, "file_texts")
        return raw
    else:
        return unknown_part(write, part, notes, path)

    written_over(map_of(notes, "keys"), raw)
    restore(raw, notes, "texts")
    return raw


def _thought(write: Writing, part: ReasoningPart, path: str) -> dict[str, Any]:
    raw: dict[str, Any] = {"part_kind": "thinking", "content": part.text}
    if not part.signature:
        return raw

    others = [name for name in PROVIDERS if name in part.metadata and name != SOURCE]
    signer = _SIGNERS.get(others[0]) if others else None
    if SOURCE in part.metadata or not others:
        raw["signature"] = part.signature
    elif signer is not None:
        # It is sent back to whom it names, and to nobody else.
        raw |= {"signature": part.signature, "provider_name": signer}
    else:
        why = f"is {others[0]}'s, and would be sent to another"
        write.lose(path, "signature", why)

    return raw


def _call(write: Writing, call: ToolCall, path: str) -> dict[str, Any]:
    notes = write.notes(call, path)
    lose_metadata(write, call, path)
    if call.type != "function":
        write.lose(path, "type", "all calls are of functions")

    args: Any = call.arguments
    how = notes.get("args")
    if how == "none" and not args:
        args = None
    elif how == "value":
        # Somebody may have written something else since.
        with suppress(ValueError):
            args = json.loads(args)

    raw = {
        "part_kind": "tool-call",
        "tool_name": call.name,
        "tool_call_id": call.id,
        "args": args,
    }
    written_over(map_of(notes, "keys"), raw)
    restore(raw, notes, "texts")
    return raw


def _meta(
    write: Writing,
    message: AssistantMessage,
    notes: Mapping[str, Any],
    raw: dict[str, Any],
    path: str,
) -> None:
    """
    What was told of the response.
    """
    meta = message.response
    kept = thaw(map_of(notes, "usage"))
    restore(kept, notes, "usage_texts")
    usage = None if meta is None else meta.usage
    if kept and usage_in(Reading(), kept, "") == usage:
        raw["usage"] = kept
    elif usage is not None:
        raw["usage"], lost = usage_from(usage)
        for name in lost:
            why = "is the sum of the others, or a part of them, in Pydantic AI"
            write.lose(f"{path}.response.usage", name, why)

    if meta is None:
        return

    if meta.model:
        raw["model_name"] = meta.model

    if meta.logprobs is not None:
        write.lose(f"{path}.response", "logprobs", "Pydantic AI has no place for them")

    for name in sorted(meta.unknown):
        write.lose(f"{path}.response", name, "a newer version wrote it")

    kept_details = map_of(map_of(notes, "response"), "provider_details")
    if meta.finish_reason != kept_details.get("finish_reason"):
        _finished(meta.finish_reason, raw)


def _finished(reason: str, raw: dict[str, Any]) -> None:
    if reason == INTERRUPTED:
        raw["state"] = INTERRUPTED
        return

    if reason in FINISHED:
        raw["finish_reason"] = FINISHED[reason]

    if reason and raw.get("finish_reason") != reason:
        # Where Pydantic AI keeps the provider's own word.
        raw["provider_details"] = {"finish_reason": reason}
