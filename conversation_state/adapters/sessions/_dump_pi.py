"""From trees to the lines of Pi's sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conversation_state.adapters.anthropic.items import input_of
from conversation_state.adapters.engine.notes import map_of
from conversation_state.adapters.engine.reading import is_map, text_of
from conversation_state.adapters.engine.wire import encode_base64
from conversation_state.adapters.sessions import _pi
from conversation_state.adapters.sessions._session import COMPACTION, SOURCE
from conversation_state.adapters.sessions._writing import (
    LAST_PLACE,
    NO_RESULT,
    SessionRecord,
    SessionWriter,
    find_maker,
    in_order,
    in_place,
    is_redacted,
    keep_signature,
    lose_part,
    make_hex,
    model_of,
    reload_messages,
    split_usage,
    usage_of,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, Part, ReasoningPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage


def dump_pi(writer: SessionWriter) -> list[Any]:
    """The lines of a session of version 3."""
    return _PiLines(writer).write()


class _PiLines:
    # The lines of a session, while they are written.

    def __init__(self, writer: SessionWriter) -> None:
        self.writer = writer
        self.lines: list[tuple[float, Any]] = []
        self.known: set[str] = set()
        # By node: the id of the entry it is in.
        self.ends: dict[str, str | None] = {}

    def write(self) -> list[Any]:
        writer = self.writer
        writer.lose_session()
        writer.lose_agents()
        writer.lose_bill(writer.records)
        for at, raw in writer.kept_lines():
            self._add_line(at, raw)

        if not writer.is_same:
            self._write_header()

        for record in writer.records:
            raw = writer.kept_raw(record, self._reload_record)
            end = self.ends.get(record.parent) if record.parent else None
            if not writer.is_same:
                end = self._write_compaction(record, end)

            if raw is None:
                end = self._write_fresh(record, end)
            else:
                if text_of(raw, "parentId") not in self.known and not writer.is_same:
                    raw["parentId"] = end

                self._add_line(writer.place(record.notes), raw)
                end = raw.get("id")

            self.ends.update({node.id: end for node in record.nodes})

        self._write_end()
        return in_order(self.lines)

    def _reload_record(self, raw: dict[str, Any]) -> Sequence[Message]:
        return reload_messages(
            _pi, [{"type": "session", "id": "s"}, {**raw, "parentId": None}]
        )

    def _add_line(self, at: float, raw: Any) -> None:
        self.lines.append((at, raw))
        if is_map(raw) and isinstance(raw.get("id"), str):
            self.known.add(raw["id"])

    def _write_header(self) -> None:
        writer = self.writer
        time = writer.records[0].iso if writer.records else ""
        head = {"type": "session", "version": 3, "id": writer.session_id}
        self.lines.append((LAST_PLACE, {**head, "timestamp": time, "cwd": writer.cwd}))

    def _make_entry(
        self, record: SessionRecord, kind: str, parent: str | None, *what: object
    ) -> dict[str, Any]:
        seed, length = "\n".join(map(str, (record.id, kind, *what))), 8
        while (id := make_hex(seed, length)) in self.known:
            length += 1

        entry = {"type": kind, "id": id, "parentId": parent, "timestamp": record.iso}
        self._add_line(LAST_PLACE, entry)
        return entry

    def _write_compaction(self, record: SessionRecord, end: str | None) -> str | None:
        compaction = map_of(record.notes, COMPACTION)
        if not compaction:
            return end

        if compaction.get("history"):
            why = "what stands for the history is a summary here"
            self.writer.lose(record.paths[0], COMPACTION, why)

        entry = self._make_entry(record, "compaction", end)
        entry |= {"summary": text_of(compaction, "summary"), "tokensBefore": 0}
        first = text_of(compaction, "first_kept")
        kept: dict[str, Any] = {"retainedTail": []}
        entry |= {"firstKeptEntryId": first} if first in self.known else kept
        return str(entry["id"])

    def _write_fresh(self, record: SessionRecord, end: str | None) -> str | None:
        writer = self.writer
        writer.lose_keys(record)
        for message, path in record.pairs():
            missing = writer.add_calls(message, path)
            body = self._write_message(message, path)
            if body is None:
                writer.lose(path, message.role, "pi has no such message")
                continue

            entry = self._make_entry(record, "message", end, path)
            entry["message"] = {**body, "timestamp": record.millis}
            end = str(entry["id"])
            for call_id in missing:
                call = writer.calls[call_id]
                said = [{"type": "text", "text": NO_RESULT}]
                result = {"role": "toolResult", "toolCallId": call_id, "isError": True}
                result |= {"toolName": call.name, "content": said}
                entry = self._make_entry(record, "message", end, call_id)
                entry["message"] = {**result, "timestamp": record.millis}
                end = str(entry["id"])

        return end

    def _write_message(self, message: Message, path: str) -> dict[str, Any] | None:
        writer = self.writer
        if isinstance(message, UserMessage):
            return {"role": "user", "content": self._write_parts(message, path)}

        if isinstance(message, ToolMessage):
            call = writer.calls.get(message.tool_call_id)
            name = message.tool_name or (call.name if call else "")
            about = {"toolCallId": message.tool_call_id, "toolName": name}
            content = self._write_parts(message, path)
            result = {"role": "toolResult", **about, "content": content}
            return {**result, "isError": message.is_error}

        if isinstance(message, UnknownMessage) and message.source == SOURCE:
            return dict(message.raw) if "role" in message.raw else None

        if not isinstance(message, AssistantMessage):
            return None

        model, meta = model_of(message), message.response
        provider, api = find_maker(model)
        blocks: list[Any] = []
        for piece in in_place(message):
            if isinstance(piece, ToolCall):
                blocks.append(self._write_call(piece))
            else:
                blocks += self._write_part(piece, path)

        reason = meta.finish_reason if meta else ""
        stop = "toolUse" if message.tool_calls else _PI_STOPS.get(reason, "stop")
        answer: dict[str, Any] = {"role": "assistant", "content": blocks, "api": api}
        answer |= {"provider": provider, "model": model or "unknown"}
        return {
            **answer,
            "usage": _write_pi_usage(usage_of(message)),
            "stopReason": stop,
        }

    def _write_call(self, call: ToolCall) -> dict[str, Any]:
        block = {"type": "toolCall", "id": call.id, "name": call.name}
        return {**block, "arguments": input_of(call.arguments)}

    def _write_parts(self, message: Message, path: str) -> list[Any]:
        return [
            block for part in message.parts for block in self._write_part(part, path)
        ]

    def _write_part(self, part: Part, path: str) -> list[Any]:
        if isinstance(part, TextPart):
            return [{"type": "text", "text": part.text}]

        if isinstance(part, ReasoningPart):
            thought: dict[str, Any] = {"type": "thinking", "thinking": part.text}
            if signature := keep_signature(self.writer, part, path):
                thought["thinkingSignature"] = signature
                thought |= {"redacted": True} if is_redacted(part) else {}

            return [thought]

        if isinstance(part, ImagePart) and part.data is not None and part.media_type:
            data = encode_base64(part.data)
            return [{"type": "image", "data": data, "mimeType": part.media_type}]

        lose_part(self.writer, part, path)
        return []

    def _write_end(self) -> None:
        writer = self.writer
        if writer.is_same or not writer.records:
            return

        by_id = {node.id: record for record in writer.records for node in record.nodes}
        for id, label in writer.loaded.labels.items():
            target = self.ends.get(id)
            entry = self._make_entry(by_id[id], "label", self._find_tip(), label)
            entry |= {"targetId": target, "label": label}

        if writer.title:
            last = writer.records[-1]
            entry = self._make_entry(last, "session_info", self._find_tip())
            entry["name"] = writer.title
        elif self.lines[-1][1].get("id") != self._find_tip():
            # The last entry is the leaf.
            last = writer.records[-1]
            entry = self._make_entry(last, "custom", self._find_tip())
            entry["customType"] = "conversation_state"

    def _find_tip(self) -> str | None:
        head = self.writer.loaded.tree.head
        return self.ends.get(head) if head is not None else None


_PI_STOPS = {"length": "length", "max_tokens": "length", "interrupted": "aborted"}


def _write_pi_usage(usage: Usage | None) -> dict[str, Any]:
    fresh, output, read, written, _ = split_usage(usage or Usage())
    counts = {"input": fresh, "output": output, "cacheRead": read}
    counts |= {"cacheWrite": written, "totalTokens": fresh + output + read + written}
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    return {**counts, "cost": cost}
