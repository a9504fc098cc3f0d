"""
Dumping a model's response.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.adapters._export import PayloadWriter, merge_kept_keys
from conversation_state.adapters._extras import write_extra
from conversation_state.adapters._notes import map_of, own_of, signer_of
from conversation_state.adapters._reading import DocumentReader
from conversation_state.adapters.pydantic_ai._constants import (
    FINISHED,
    INTERRUPTED,
    SOURCE,
    format_time,
)
from conversation_state.adapters.pydantic_ai._dump_content import (
    dump_media,
    dump_unknown,
    lose_metadata,
    restore_texts,
)
from conversation_state.adapters.pydantic_ai._usage import read_usage, write_usage
from conversation_state.messages import AssistantMessage
from conversation_state.parts import (
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.tools import ToolCall

__all__ = ["dump_response"]

# Adapters whose signatures Pydantic AI sends back, with its names for them.
_SIGNERS = {"anthropic": "anthropic"}


def dump_response(
    write: PayloadWriter, message: AssistantMessage, notes: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """
    A `ModelResponse` as plain JSON.
    """
    raw: dict[str, Any] = {
        "kind": "response",
        "parts": _dump_parts(write, message, path),
    }
    kept = map_of(notes, "response")
    if message.timestamp is not None or "timestamp" not in kept:
        raw["timestamp"] = format_time(message.timestamp)

    if message.run_id is not None:
        raw["run_id"] = str(message.run_id)

    if own_of(message.metadata) or map_of(notes, "metadata"):
        raw["metadata"] = write_extra(message.metadata, notes, "metadata")

    _dump_meta(write, message, notes, raw, path)
    merge_kept_keys(kept, raw)
    restore_texts(raw, notes, "response_texts")
    return raw


def _dump_parts(
    write: PayloadWriter, message: AssistantMessage, path: str
) -> list[Any]:
    placed: list[tuple[float, Any]] = []
    after = -1.0
    for at, part in enumerate(message.parts):
        raw = _dump_part(write, part, f"{path}.parts[{at}]")
        after = after if part.index is None else float(part.index)
        if raw is not None:
            placed.append((after, raw))

    # A call without an index comes after the content.
    last = max([place for place, _ in placed], default=-1.0)
    for at, call in enumerate(message.tool_calls):
        raw = _dump_call(write, call, f"{path}.tool_calls[{at}]")
        last = last if call.index is None else float(call.index)
        placed.append((last, raw))

    placed.sort(key=lambda pair: pair[0])
    return [raw for _, raw in placed]


def _dump_part(write: PayloadWriter, part: Part, path: str) -> Any:
    notes = write.notes(part, path)
    lose_metadata(write, part, path)
    raw: dict[str, Any]
    if isinstance(part, TextPart):
        kind = map_of(notes, "keys").get("part_kind", "text")
        field = "transcript" if kind == "speech" else "content"
        raw = {"part_kind": kind, field: part.text}
    elif isinstance(part, RefusalPart):
        write.lose(path, part.kind, "becomes plain text")
        raw = {"part_kind": "text", "content": part.text}
    elif isinstance(part, ReasoningPart):
        raw = _dump_reasoning(write, part, path)
    elif isinstance(part, MediaPart):
        if part.url is not None:
            write.lose(path, part.kind, "a response can't contain URLs")
            return None

        raw = {"part_kind": "file", "content": dump_media(write, part, notes, path)}
        merge_kept_keys(map_of(notes, "file"), raw)
        restore_texts(raw, notes, "file_texts")
        return raw
    else:
        return dump_unknown(write, part, notes, path)

    merge_kept_keys(map_of(notes, "keys"), raw)
    restore_texts(raw, notes, "texts")
    return raw


def _dump_reasoning(
    write: PayloadWriter, part: ReasoningPart, path: str
) -> dict[str, Any]:
    raw: dict[str, Any] = {"part_kind": "thinking", "content": part.text}
    if not part.signature:
        return raw

    other = signer_of(part.metadata, SOURCE)
    signer = _SIGNERS.get(other)
    if not other:
        raw["signature"] = part.signature
    elif signer is not None:
        # Pydantic AI sends it back to this provider only.
        raw |= {"signature": part.signature, "provider_name": signer}
    else:
        why = f"is {other}'s, and would be sent to another provider"
        write.lose(path, "signature", why)

    return raw


def _dump_call(write: PayloadWriter, call: ToolCall, path: str) -> dict[str, Any]:
    notes = write.notes(call, path)
    lose_metadata(write, call, path)
    if call.type != "function":
        write.lose(path, "type", "calls of functions only in Pydantic AI")

    args: Any = call.arguments
    how = notes.get("args")
    if how == "none" and not args:
        args = None
    elif how == "value":
        # The text may have been changed since.
        with suppress(ValueError):
            args = json.loads(args)

    raw = {
        "part_kind": "tool-call",
        "tool_name": call.name,
        "tool_call_id": call.id,
        "args": args,
    }
    merge_kept_keys(map_of(notes, "keys"), raw)
    restore_texts(raw, notes, "texts")
    return raw


def _dump_meta(
    write: PayloadWriter,
    message: AssistantMessage,
    notes: Mapping[str, Any],
    raw: dict[str, Any],
    path: str,
) -> None:
    """
    Dump the response's metadata into *raw*.
    """
    meta = message.response
    kept = thaw(map_of(notes, "usage"))
    restore_texts(kept, notes, "usage_texts")
    usage = None if meta is None else meta.usage
    if kept and read_usage(DocumentReader(), kept, "") == usage:
        raw["usage"] = kept
    elif usage is not None:
        raw["usage"], lost = write_usage(usage)
        for name in lost:
            why = "is a sum or a part of other counts in Pydantic AI"
            write.lose(f"{path}.response.usage", name, why)

    if meta is None:
        return

    if meta.model:
        raw["model_name"] = meta.model

    if meta.id:
        raw["provider_response_id"] = meta.id

    if meta.logprobs is not None:
        write.lose(f"{path}.response", "logprobs", "not supported by Pydantic AI")

    for name in sorted(meta.unknown):
        write.lose(f"{path}.response", name, "a newer version wrote it")

    kept_details = map_of(map_of(notes, "response"), "provider_details")
    if meta.finish_reason != kept_details.get("finish_reason"):
        _dump_finish_reason(meta.finish_reason, raw)


def _dump_finish_reason(reason: str, raw: dict[str, Any]) -> None:
    if reason == INTERRUPTED:
        raw["state"] = INTERRUPTED
        return

    if reason in FINISHED:
        raw["finish_reason"] = FINISHED[reason]

    if reason and raw.get("finish_reason") != reason:
        # Where Pydantic AI keeps the provider's own reason.
        raw["provider_details"] = {"finish_reason": reason}
