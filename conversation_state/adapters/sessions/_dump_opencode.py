"""From trees to the documents that ``opencode import`` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.adapters.anthropic.items import input_of
from conversation_state.adapters.engine.notes import map_of
from conversation_state.adapters.engine.reading import text_of
from conversation_state.adapters.sessions import _opencode
from conversation_state.adapters.sessions._session import COMPACTION, SOURCE
from conversation_state.adapters.sessions._writing import (
    NO_RESULT,
    SessionRecord,
    SessionWriter,
    find_maker,
    in_order,
    in_place,
    is_redacted,
    join_texts,
    keep_signature,
    lose_part,
    make_hex,
    model_of,
    reload_messages,
    split_usage,
    usage_of,
    write_media,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import (
    FilePart,
    MediaPart,
    Part,
    ReasoningPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

_OPENCODE_VERSION = "1.18.33"


def dump_opencode(writer: SessionWriter) -> dict[str, Any]:
    """The document that ``opencode import`` takes."""
    return _OpenCodeDocument(writer).write()


class _OpenCodeDocument:
    # One document while it is written.

    def __init__(self, writer: SessionWriter) -> None:
        self.writer = writer
        own = writer.loaded.name
        seed = make_hex(writer.session_id, 20)
        self.id = own if own.startswith("ses_") else f"ses_{seed}"
        self.messages: list[tuple[float, dict[str, Any]]] = []
        self.asked = ""
        self.count = 0
        self.is_reverted = False

    def write(self) -> dict[str, Any]:
        writer = self.writer
        writer.lose_session()
        writer.lose_agents()
        # A revert hides what stands at the end, until something else is said.
        is_kept = writer.is_same and all(map(writer.kept, writer.records))
        self.is_reverted = is_kept and not all(map(writer.is_live, writer.records))
        records = writer.records if is_kept else writer.list_live()
        writer.lose_bill(records)
        results = {
            message.tool_call_id: (message, path)
            for record in records
            for message, path in record.pairs()
            if isinstance(message, ToolMessage)
        }
        for at, raw in writer.kept_lines():
            self.messages.append((at, raw))

        for record in records:
            raw = writer.kept_raw(record, self._reload_record)
            if raw is not None:
                at = record.notes["at"] if writer.is_same else len(self.messages) + 1
                self.messages.append((at, raw))
                info = raw["info"]
                if info.get("role") == "user":
                    self.asked = text_of(info, "id")
            else:
                self._write_fresh(record, results)

        return {**self._write_info(records), "messages": in_order(self.messages)}

    def _reload_record(self, raw: dict[str, Any]) -> Sequence[Message]:
        return reload_messages(_opencode, {"info": {"id": self.id}, "messages": [raw]})

    def _write_info(self, records: Sequence[SessionRecord]) -> dict[str, Any]:
        writer = self.writer
        if writer.is_same:
            kept: dict[str, Any] = thaw(map_of(writer.loaded.notes, "document"))
            info = {**kept.get("info", {}), "title": writer.title}
            if not self.is_reverted:
                info.pop("revert", None)

            return {**kept, "info": info}

        times = [record.millis for record in records] or [0]
        info = {
            "id": self.id,
            "slug": f"session-{make_hex(self.id, 8)}",
            "projectID": "global",
            "directory": writer.cwd,
            "title": writer.title or "Imported session",
            "version": _OPENCODE_VERSION,
            "time": {"created": times[0], "updated": times[-1]},
        }
        return {"info": info}

    def _make_id(self, prefix: str) -> str:
        # OpenCode orders messages and parts by their ids.
        self.count += 1
        return f"{prefix}_{self.count:012x}{make_hex(self.id, 14)}"

    def _add_message(
        self, info: dict[str, Any], parts: Sequence[dict[str, Any]]
    ) -> None:
        ids = {"sessionID": self.id, "messageID": info["id"]}
        listed = [{"id": self._make_id("prt"), **ids, **part} for part in parts]
        place = len(self.messages) + 1 if not self.writer.is_same else 1e18
        self.messages.append((place, {"info": info, "parts": listed}))

    def _write_fresh(
        self, record: SessionRecord, results: dict[str, tuple[ToolMessage, str]]
    ) -> None:
        writer = self.writer
        writer.lose_keys(record)
        compaction = map_of(record.notes, COMPACTION)
        if compaction and not writer.is_same:
            self._write_compaction(record, text_of(compaction, "summary"))

        for message, path in record.pairs():
            if isinstance(message, UserMessage):
                parts = self._write_parts(message, path)
                self._write_question(record, parts)
            elif isinstance(message, AssistantMessage):
                self._write_answer(record, message, path, results)
            elif isinstance(message, ToolMessage):
                if message.tool_call_id not in writer.calls:
                    writer.lose(path, "tool", "the call is missing")
            else:
                writer.lose(path, message.role, "opencode has no such message")

    def _write_question(
        self, record: SessionRecord, parts: Sequence[dict[str, Any]]
    ) -> None:
        self.asked = self._make_id("msg")
        model = next(
            (m for r in self.writer.records for m in map(model_of, r.messages) if m), ""
        )
        info = {
            "id": self.asked,
            "sessionID": self.id,
            "role": "user",
            "time": {"created": record.millis},
            "agent": "build",
            "model": {
                "providerID": find_maker(model)[0],
                "modelID": model or "unknown",
            },
        }
        self._add_message(info, parts)

    def _write_compaction(self, record: SessionRecord, summary: str) -> None:
        self._write_question(record, [{"type": "compaction", "auto": True}])
        info = self._make_info(record, "", None)
        self._add_message(
            {**info, "summary": True}, [{"type": "text", "text": summary}]
        )

    def _make_info(
        self, record: SessionRecord, model: str, usage: Usage | None
    ) -> dict[str, Any]:
        folder = {"cwd": self.writer.cwd, "root": self.writer.cwd}
        return {
            "id": self._make_id("msg"),
            "sessionID": self.id,
            "role": "assistant",
            "time": {"created": record.millis, "completed": record.millis},
            "parentID": self.asked,
            "modelID": model or "unknown",
            "providerID": find_maker(model)[0],
            "mode": "build",
            "agent": "build",
            "path": folder,
            "cost": 0,
            "tokens": _write_opencode_tokens(usage),
        }

    def _write_answer(
        self,
        record: SessionRecord,
        message: AssistantMessage,
        path: str,
        results: dict[str, tuple[ToolMessage, str]],
    ) -> None:
        writer, usage = self.writer, usage_of(message)
        writer.add_calls(message, path)
        if not self.asked:
            # An answer needs a message that it answers.
            self._write_question(record, [])

        info = self._make_info(record, model_of(message), usage)
        parts: list[dict[str, Any]] = [{"type": "step-start"}]
        for piece in in_place(message):
            if isinstance(piece, ToolCall):
                found = results.get(piece.id)
                parts.append(self._write_call(record, piece, info["id"], path, found))
            else:
                parts += self._write_part(record, piece, path)

        meta = message.response
        reason = meta.finish_reason if meta else ""
        if usage is not None:
            tokens = _write_opencode_tokens(usage)
            finish = {"type": "step-finish", "reason": reason or "stop", "cost": 0}
            parts.append({**finish, "tokens": tokens})

        info["finish"] = reason or ("tool-calls" if message.tool_calls else "stop")
        self._add_message(info, parts)

    def _write_call(
        self,
        record: SessionRecord,
        call: ToolCall,
        id: str,
        path: str,
        found: tuple[ToolMessage, str] | None,
    ) -> dict[str, Any]:
        given = input_of(call.arguments)
        time = {"start": record.millis, "end": record.millis}
        state: dict[str, Any] = {"status": "pending", "input": given, "raw": ""}
        if found is not None:
            result, where = found
            text = join_texts(result.parts)
            state = {"input": given, "time": time}
            if result.is_error:
                state |= {"status": "error", "error": text}
                self._lose_media(result, where)
            else:
                state |= {"status": "completed", "output": text, "title": call.name}
                state |= {
                    "metadata": {},
                    **self._write_attachments(record, result, id, where),
                }
        elif call.id not in self.writer.answered and self._is_closed(path):
            state = {
                "status": "error",
                "input": given,
                "error": NO_RESULT,
                "time": time,
            }

        return {"type": "tool", "callID": call.id, "tool": call.name, "state": state}

    def _is_closed(self, path: str) -> bool:
        return path != f"nodes[{len(self.writer.loaded.tree) - 1}]"

    def _write_attachments(
        self, record: SessionRecord, result: ToolMessage, id: str, path: str
    ) -> dict[str, Any]:
        ids = {"sessionID": self.id, "messageID": id}
        files = [
            {"id": self._make_id("prt"), **ids, **written}
            for part in result.parts
            if not isinstance(part, TextPart)
            for written in self._write_part(record, part, path)
            if written["type"] == "file"
        ]
        return {"attachments": files} if files else {}

    def _lose_media(self, result: ToolMessage, path: str) -> None:
        for part in result.parts:
            if not isinstance(part, TextPart):
                self.writer.lose(path, part.kind, "errors of opencode are texts")

    def _write_parts(self, message: Message, path: str) -> list[dict[str, Any]]:
        record = SessionRecord([], [], self.writer.records[0].time)
        return [
            written
            for part in message.parts
            for written in self._write_part(record, part, path)
        ]

    def _write_part(
        self, record: SessionRecord, part: Part, path: str
    ) -> list[dict[str, Any]]:
        writer = self.writer
        if isinstance(part, TextPart):
            return [{"type": "text", "text": part.text}]

        if isinstance(part, ReasoningPart):
            time = {"start": record.millis, "end": record.millis}
            thought: dict[str, Any] = {"type": "reasoning", "text": part.text}
            if signature := keep_signature(writer, part, path):
                key = "redactedData" if is_redacted(part) else "signature"
                thought["metadata"] = {"anthropic": {key: signature}}

            return [{**thought, "time": time}]

        if isinstance(part, MediaPart):
            url = write_media(writer, part, path)
            mime = part.media_type or "application/octet-stream"
            file = {"type": "file", "mime": mime, "url": url}
            if isinstance(part, FilePart) and part.name:
                file["filename"] = part.name

            return [file] if url else []

        if (
            isinstance(part, UnknownPart)
            and part.source == SOURCE
            and part.raw.get("type") in {"agent", "subtask"}
        ):
            return [{k: v for k, v in part.raw.items() if k not in _IDS}]

        lose_part(writer, part, path)
        return []


_IDS = frozenset({"id", "messageID", "sessionID"})


def _write_opencode_tokens(usage: Usage | None) -> dict[str, Any]:
    fresh, output, read, written, thought = split_usage(usage or Usage())
    cache = {"read": read, "write": written}
    total = fresh + output + read + written
    said = {"input": fresh, "output": output - thought, "reasoning": thought}
    return {"total": total, **said, "cache": cache}
