"""From trees to the lines of the Session Trace Simple Format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conversation_state.adapters.engine.notes import map_of, notes_of
from conversation_state.adapters.sessions import _sts
from conversation_state.adapters.sessions._session import COMPACTION, SOURCE
from conversation_state.adapters.sessions._writing import (
    LAST_PLACE,
    NO_RESULT,
    SessionWriter,
    in_order,
    join_texts,
    lose_part,
    model_of,
    reload_messages,
)
from conversation_state.messages import Message, ToolMessage, UnknownMessage
from conversation_state.parts import ReasoningPart, TextPart


def dump_sts(writer: SessionWriter) -> list[Any]:
    """The lines of a trace."""
    writer.lose_session()
    writer.lose_agents()
    kept = writer.kept_lines()
    lines: list[tuple[float, Any]] = [*kept]
    if not writer.is_same:
        harness = writer.loaded.format or "conversation_state"
        name = {"name": writer.title} if writer.title else {}
        head = {"type": "session", "harness": harness, "id": writer.session_id, **name}
        lines.append((0, head))

    records = writer.list_live()
    writer.lose_bill([])
    for record in records:
        raw = writer.kept_raw(record, _reload_trace)
        if raw is not None:
            lines.append((writer.place(record.notes), raw))
            continue

        writer.lose_keys(record)
        for message, path in record.pairs():
            for body in _write_trace(writer, message, path):
                timed = {**body, "timestamp": record.millis}
                lines.append((LAST_PLACE, {"type": "message", "message": timed}))

    return in_order(lines)


def _reload_trace(raw: dict[str, Any]) -> Sequence[Message]:
    return reload_messages(_sts, [{"type": "session", "harness": "", "id": "s"}, raw])


def _write_trace(
    writer: SessionWriter, message: Message, path: str
) -> list[dict[str, Any]]:
    missing = writer.add_calls(message, path)
    if isinstance(message, UnknownMessage):
        writer.lose(path, message.role, "sts has no such message")
        return []

    texts = [part for part in message.parts if isinstance(part, TextPart)]
    thoughts = [part for part in message.parts if isinstance(part, ReasoningPart)]
    _lose_in_trace(writer, message, path)
    body: dict[str, Any] = {"role": message.role, "content": join_texts(texts)}
    if thoughts:
        body["reasoningContent"] = join_texts(thoughts)

    if message.tool_calls:
        body["toolCalls"] = [
            {
                "id": call.id,
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]

    if model := model_of(message):
        body["model"] = model

    if isinstance(message, ToolMessage):
        body["toolCallId"] = message.tool_call_id

    closed = [
        {"role": "tool", "toolCallId": each, "content": NO_RESULT} for each in missing
    ]
    return [body, *closed]


def _lose_in_trace(writer: SessionWriter, message: Message, path: str) -> None:
    kinds = [part.kind for part in message.parts]
    thoughts = [part for part in message.parts if isinstance(part, ReasoningPart)]
    is_failed = isinstance(message, ToolMessage) and message.is_error
    lost = {
        COMPACTION: bool(map_of(notes_of(message.metadata, SOURCE), COMPACTION)),
        "is_error": is_failed,
        "parts": kinds.count("text") > 1 or kinds.count("reasoning") > 1,
        "signature": any(part.signature for part in thoughts),
    }
    for what in [key for key, is_lost in lost.items() if is_lost]:
        writer.lose(path, what, "sts has no place for it")

    for part in message.parts:
        if part.kind not in {"text", "reasoning"} or not getattr(part, "text", ""):
            lose_part(writer, part, path)
