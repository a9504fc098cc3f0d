"""
From trees to the files of OpenCode, Pi and the Simple Format, which have words of their
own for parts, calls and results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conversation_state._persistent import thaw
from conversation_state.adapters.anthropic.items import input_of
from conversation_state.adapters.engine.notes import map_of, notes_of
from conversation_state.adapters.engine.reading import is_map
from conversation_state.adapters.engine.wire import data_url, encode_base64
from conversation_state.adapters.sessions import _opencode, _pi, _sts
from conversation_state.adapters.sessions._session import (
    COMPACTION,
    SOURCE,
    read_lines,
    text_of,
)
from conversation_state.adapters.sessions._writing import (
    NO_RESULT,
    SessionRecord,
    SessionWriter,
    in_place,
    join_texts,
    keep_signature,
    make_hex,
    model_of,
    split_usage,
    usage_of,
)
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

# Who makes a model, by the beginning of its name: the provider, and its API.
_MAKERS = {
    "claude": ("anthropic", "anthropic-messages"),
    "gemini": ("google", "google-generative-ai"),
    "gpt": ("openai", "openai-responses"),
    "o1": ("openai", "openai-responses"),
    "o3": ("openai", "openai-responses"),
    "o4": ("openai", "openai-responses"),
}


def _find_maker(model: str) -> tuple[str, str]:
    found = (pair for name, pair in _MAKERS.items() if model.startswith(name))
    return next(found, ("unknown", "unknown"))


def _reload(module: Any, payload: Any) -> Sequence[Message]:
    # What a record says when it is read again.
    try:
        tree = module.load(read_lines(payload), {}).tree
    except DecodeError:
        return ()

    return tuple(tree.shown.messages)


def _write_media(writer: SessionWriter, part: MediaPart, path: str) -> str:
    # A URL; "" if it is lost.
    if part.url is not None:
        return part.url

    if not part.media_type:
        writer.lose(path, part.kind, "has no media type")
        return ""

    return data_url(part.data or b"", part.media_type)


def _lose_part(writer: SessionWriter, part: Part, path: str) -> None:
    writer.lose(path, part.kind, f"{writer.kind} has no place for it")


# OpenCode


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
                self.asked = info["id"] if info.get("role") == "user" else self.asked
            else:
                self._write_fresh(record, results)

        self.messages.sort(key=lambda each: each[0])
        return {
            **self._describe(records),
            "messages": [raw for _, raw in self.messages],
        }

    def _reload_record(self, raw: dict[str, Any]) -> Sequence[Message]:
        return _reload(_opencode, {"info": {"id": self.id}, "messages": [raw]})

    def _describe(self, records: Sequence[SessionRecord]) -> dict[str, Any]:
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

    def _put(self, info: dict[str, Any], parts: Sequence[dict[str, Any]]) -> None:
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
                self._ask(record, parts)
            elif isinstance(message, AssistantMessage):
                self._write_answer(record, message, path, results)
            elif isinstance(message, ToolMessage):
                if message.tool_call_id not in writer.calls:
                    writer.lose(path, "tool", "the call is missing")
            else:
                writer.lose(path, message.role, "opencode has no such message")

    def _ask(self, record: SessionRecord, parts: Sequence[dict[str, Any]]) -> None:
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
                "providerID": _find_maker(model)[0],
                "modelID": model or "unknown",
            },
        }
        self._put(info, parts)

    def _write_compaction(self, record: SessionRecord, summary: str) -> None:
        self._ask(record, [{"type": "compaction", "auto": True}])
        info = self._make_info(record, "", None)
        self._put({**info, "summary": True}, [{"type": "text", "text": summary}])

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
            "providerID": _find_maker(model)[0],
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
            self._ask(record, [])

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
        self._put(info, parts)

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
                state |= {"metadata": {}, **self._attach(record, result, id, where)}
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

    def _attach(
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
                thought["metadata"] = {"anthropic": {"signature": signature}}

            return [{**thought, "time": time}]

        if isinstance(part, MediaPart):
            url = _write_media(writer, part, path)
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

        _lose_part(writer, part, path)
        return []


_IDS = frozenset({"id", "messageID", "sessionID"})


def _write_opencode_tokens(usage: Usage | None) -> dict[str, Any]:
    fresh, output, read, written, thought = split_usage(usage or Usage())
    cache = {"read": read, "write": written}
    total = fresh + output + read + written
    said = {"input": fresh, "output": output - thought, "reasoning": thought}
    return {"total": total, **said, "cache": cache}


# Pi


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
            self._put(at, raw)

        if not writer.is_same:
            self._begin()

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

                self._put(record.notes["at"] if writer.is_same else _LAST, raw)
                end = raw.get("id")

            self.ends.update({node.id: end for node in record.nodes})

        self._end()
        self.lines.sort(key=lambda each: each[0])
        return [raw for _, raw in self.lines]

    def _reload_record(self, raw: dict[str, Any]) -> Sequence[Message]:
        return _reload(_pi, [{"type": "session", "id": "s"}, {**raw, "parentId": None}])

    def _put(self, at: float, raw: Any) -> None:
        self.lines.append((at, raw))
        if is_map(raw) and isinstance(raw.get("id"), str):
            self.known.add(raw["id"])

    def _begin(self) -> None:
        writer = self.writer
        time = writer.records[0].iso if writer.records else ""
        head = {"type": "session", "version": 3, "id": writer.session_id}
        self.lines.append((_LAST, {**head, "timestamp": time, "cwd": writer.cwd}))

    def _make_entry(
        self, record: SessionRecord, kind: str, parent: str | None, *what: object
    ) -> dict[str, Any]:
        seed, length = "\n".join(map(str, (record.id, kind, *what))), 8
        while (id := make_hex(seed, length)) in self.known:
            length += 1

        entry = {"type": kind, "id": id, "parentId": parent, "timestamp": record.iso}
        self._put(_LAST, entry)
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
        provider, api = _find_maker(model)
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
            thought = {"type": "thinking", "thinking": part.text}
            if signature := keep_signature(self.writer, part, path):
                thought["thinkingSignature"] = signature

            return [thought]

        if isinstance(part, ImagePart) and part.data is not None and part.media_type:
            data = encode_base64(part.data)
            return [{"type": "image", "data": data, "mimeType": part.media_type}]

        _lose_part(self.writer, part, path)
        return []

    def _end(self) -> None:
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


_LAST = float("inf")
_PI_STOPS = {"length": "length", "max_tokens": "length", "interrupted": "aborted"}


def _write_pi_usage(usage: Usage | None) -> dict[str, Any]:
    fresh, output, read, written, _ = split_usage(usage or Usage())
    counts = {"input": fresh, "output": output, "cacheRead": read}
    counts |= {"cacheWrite": written, "totalTokens": fresh + output + read + written}
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    return {**counts, "cost": cost}


# The Simple Format


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
            lines.append((record.notes["at"] if writer.is_same else _LAST, raw))
            continue

        writer.lose_keys(record)
        for message, path in record.pairs():
            for body in _write_trace(writer, message, path):
                timed = {**body, "timestamp": record.millis}
                lines.append((_LAST, {"type": "message", "message": timed}))

    lines.sort(key=lambda each: each[0])
    return [raw for _, raw in lines]


def _reload_trace(raw: dict[str, Any]) -> Sequence[Message]:
    return _reload(_sts, [{"type": "session", "harness": "", "id": "s"}, raw])


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
            _lose_part(writer, part, path)
