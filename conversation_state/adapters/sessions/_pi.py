"""
Sessions of Pi: a header, and entries that name their parents.

The last entry is the leaf. Entries of other types than messages stand on the way, too:
compactions, labels, changes of the model.

Source:
    earendil-works/pi, ``packages/coding-agent/docs/session-format.md``, versions 1 to
    3 of the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state._persistent import EMPTY_MAP
from conversation_state._wording import format_count
from conversation_state.adapters.engine.notes import with_notes
from conversation_state.adapters.engine.reading import is_list, is_map, text_of
from conversation_state.adapters.engine.wire import parse_object, read_time
from conversation_state.adapters.sessions._session import (
    COMPACTION,
    SOURCE,
    UNSENT,
    Body,
    LoadedSession,
    SessionBuilder,
    SessionLines,
    find_head,
    fold,
    keep_unknown,
    load_blocks,
    make_call,
    make_media,
    make_usage,
    map_in,
    number_by_heads,
    simplify,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, ReasoningPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

FORMAT = "pi"

_ENTRIES = frozenset({
    "branch_summary", "compaction", "custom", "custom_message", "label", "message",
    "model_change", "session_info", "thinking_level_change", "usage",
})  # fmt: skip
# Entries of which the session has elsewhere what they say.
_READ = frozenset({"compaction", "label", "model_change", "session_info", "usage"})
# Roles that the model gets as a user's, with the key of what they say.
_AS_USER = {
    "branchSummary": "summary",
    "custom": "content",
    "hookMessage": "content",
    "user": "content",
}
# Whose signatures a thought has, by what was called.
_SIGNERS = {
    "anthropic-messages": "anthropic",
    "bedrock-converse-stream": "anthropic",
    "google-generative-ai": "gemini",
    "google-vertex": "gemini",
}
# Answers that Pi shows and sends to no model.
_BROKEN = frozenset({"aborted", "error"})


def recognize(raws: Iterable[Body]) -> bool:
    """Whether these are a header of Pi, or its entries."""
    listed = [*raws]
    if any("parentId" in raw and text_of(raw, "type") in _ENTRIES for raw in listed):
        return True

    # The Simple Format has such a header, too, with a harness.
    heads = [raw for raw in listed if text_of(raw, "type") == "session"]
    return any("cwd" in raw and "harness" not in raw for raw in heads)


def number_sessions(raws: Sequence[Body]) -> list[int]:
    """Which session each of *raws* is of, in a file with several."""
    return number_by_heads(raws, find_head)


def load(lines: SessionLines, agents: Mapping[str, SessionLines]) -> LoadedSession:
    """The session of *lines*, with those of its sub-agents by their ids."""
    return _PiSession(lines).load(agents)


class _Way(NamedTuple):
    # What stands before an entry: the record, and the compaction since.
    record: str | None
    compaction: Mapping[str, Any]


class _PiSession:
    # One session while it is read.

    def __init__(self, lines: SessionLines) -> None:
        self.builder = SessionBuilder(FORMAT, lines)
        # By the id of each entry: what is on the way through it.
        self.ways: dict[str | None, _Way] = {None: _Way(None, {})}
        self.parents: dict[str, str | None] = {}
        # In the order of the file; "" for a header.
        self.ids: list[str] = []
        self.model = ""

    def load(self, agents: Mapping[str, SessionLines]) -> LoadedSession:
        builder = self.builder
        entries: dict[str, tuple[int, Body]] = {}
        before: str | None = None
        for at, raw in builder.lines.objects:
            if text_of(raw, "type") == "session":
                builder.name = builder.name or text_of(raw, "id")
                builder.cwd = builder.cwd or text_of(raw, "cwd")
                builder.mark_read(at)
                self.ids.append("")
                continue

            # Version 1 had neither ids nor parents.
            id = text_of(raw, "id") or f"line-{at}"
            self.ids.append(id)
            parent = raw.get("parentId", before)
            if id in entries:
                other, known = entries[id]
                if known == raw:
                    builder.problem(at, f"repeats line {other}")
                    builder.mark_read(at)
                    continue

                builder.problem(at, f"has the id of line {other}; taken as another")
                id = f"{id}~{at}"

            entries[id] = (at, raw)
            self.parents[id] = parent if isinstance(parent, str) else None
            before = id

        for id in self._order_entries(entries):
            self._read_entry(id, *entries[id])

        last = next(reversed(entries), None)
        way = self.ways[last] if last in self.ways else self.ways[None]
        if way.compaction:
            builder.notes[COMPACTION] = way.compaction

        builder.load_agents(agents, load)
        return builder.build(way.record)

    def _order_entries(self, entries: Mapping[str, tuple[int, Body]]) -> list[str]:
        for id, parent in self.parents.items():
            if parent is not None and parent not in entries:
                self.builder.problem(
                    entries[id][0], f"the parent {parent!r} is missing"
                )
                self.parents[id] = None

        return self.builder.order_by_parents(
            self.parents, {id: at for id, (at, _) in entries.items()}
        )

    def _read_entry(self, id: str, at: int, raw: Body) -> None:
        above = self.ways[self.parents[id]]
        kind = text_of(raw, "type")
        self.ways[id] = above
        if kind in _READ:
            self.builder.mark_read(at)

        message = raw.get("message")
        if kind == "message" and is_map(message):
            self._add_node(id, at, raw, self._load_message(id, at, message))
        elif kind in {"branch_summary", "custom_message"}:
            key = "summary" if kind == "branch_summary" else "content"
            said = UserMessage(simplify(load_blocks(raw.get(key), _load_block)))
            self._add_node(id, at, raw, said)
            self._bill_usage(f"{id}", raw.get("usage"), at, raw)
        elif kind == "compaction":
            compaction = self._read_compaction(id, at, raw)
            self.ways[id] = above._replace(compaction=compaction)
            self._bill_usage(f"{id}", raw.get("usage"), at, raw)
        elif kind == "usage":
            self._bill_usage(f"{id}", raw.get("usage"), at, raw)
        elif kind == "label":
            self._name_entry(at, raw)
        elif kind == "session_info":
            self.builder.title = text_of(raw, "name")
        elif kind == "model_change":
            self.model = text_of(raw, "modelId")
        elif kind == "message":
            self.builder.problem(at, "has no message; kept as it is")
        else:
            self.builder.report_unread(at, raw)

    def _add_node(self, id: str, at: int, raw: Body, message: Message | None) -> None:
        if message is None:
            return

        record, compaction = self.ways[id]
        inner = map_in(raw, "message")
        is_unsent = inner.get("excludeFromContext") is True
        is_unsent = is_unsent or text_of(inner, "stopReason") in _BROKEN
        notes = {"raw": fold(raw, [message]), COMPACTION: compaction, UNSENT: is_unsent}
        time = read_time(raw.get("timestamp"))
        self.builder.use(at)
        self.builder.add(id, record, [message], at, time, **notes)
        self.ways[id] = _Way(id, {})

    def _name_entry(self, at: int, raw: Body) -> None:
        target = self.ways.get(text_of(raw, "targetId"))
        label = text_of(raw, "label")
        if target is None or target.record is None:
            self.builder.problem(at, "labels an entry that is missing")
        elif label:
            self.builder.labels[target.record] = label
        else:
            self.builder.labels.pop(target.record, None)

    def _read_compaction(self, id: str, at: int, raw: Body) -> dict[str, Any]:
        first = text_of(raw, "firstKeptEntryId")
        index = raw.get("firstKeptEntryIndex")
        # Version 1 counts the lines, with the header.
        if isinstance(index, int) and 0 <= index < len(self.ids):
            first = self.ids[index]

        first = self._find_kept(id, first)
        tail = raw.get("retainedTail")
        if is_list(tail):
            # A copy of the last messages before it.
            here, first = self.ways[self.parents[id]].record, ""
            for number in range(len(tail), 0, -1):
                if here is None:
                    count = format_count(number, "message")
                    what = f"it keeps {count} that no entry has; left out"
                    self.builder.problem(at, what)
                    break

                first, here = here, self.builder.parent_of(here)

        return {"summary": text_of(raw, "summary"), "first_kept": first, "id": id}

    def _find_kept(self, id: str, first: str) -> str:
        # The first record from the entry *first* on to *id*: it may be no message.
        kept = ""
        here = self.parents[id]
        while first in self.ways and here is not None:
            kept = here if self.ways[here].record == here else kept
            if here == first:
                return kept

            here = self.parents[here]

        return ""

    def _bill_usage(self, key: str, counts: Any, at: int, raw: Body) -> Usage | None:
        if not is_map(counts):
            return None

        usage = _read_usage(counts)
        if self.builder.is_counted(usage, at):
            time = read_time(raw.get("timestamp"))
            self.builder.bill(f"{FORMAT}:{key}", usage, self.model, time, at)

        return usage

    def _load_message(self, id: str, at: int, message: Body) -> Message | None:
        role = text_of(message, "role")
        if role == "assistant":
            return self._load_answer(id, at, message)

        if role == "toolResult":
            return self._load_result(id, at, message)

        if role == "bashExecution":
            return _load_command(message)

        return self._load_said(role, at, message)

    def _load_result(self, id: str, at: int, message: Body) -> Message:
        call_id = text_of(message, "toolCallId")
        self._bill_usage(id, message.get("usage"), at, message)
        if not call_id:
            self.builder.problem(at, "a result without the id of its call")
            return UnknownMessage(message, source=SOURCE)

        return ToolMessage(
            simplify(load_blocks(message.get("content"), _load_block)),
            tool_call_id=call_id,
            tool_name=text_of(message, "toolName"),
            is_error=message.get("isError") is True,
        )

    def _load_said(self, role: str, at: int, message: Body) -> Message | None:
        given = message.get(_AS_USER.get(role, "content"))
        content = load_blocks(given, _load_block)
        if role == "system" and all(isinstance(each, TextPart) for each in content):
            return SystemMessage(simplify(content)) if content else None

        if role in _AS_USER:
            return UserMessage(simplify(content))

        self.builder.problem(at, f"its role is {role!r}; kept as it is")
        return UnknownMessage(message, source=SOURCE)

    def _load_answer(self, id: str, at: int, message: Body) -> AssistantMessage:
        parts: list[Part] = []
        calls: list[ToolCall] = []
        content = message.get("content")
        blocks = [content] if isinstance(content, str) else content
        for block in blocks if is_list(blocks) else ():
            index = len(parts) + len(calls)
            if is_map(block) and text_of(block, "type") == "toolCall":
                call_id = text_of(block, "id") or f"{id}-{index}"
                given = block.get("arguments", {})
                calls.append(make_call(call_id, block.get("name"), given, index))
            elif is_map(block) and text_of(block, "type") == "thinking":
                parts.append(_load_thought(block, text_of(message, "api"), index))
            else:
                parts += load_blocks(block, _load_block, index)

        failure = text_of(message, "errorMessage")
        if failure and not (parts or calls):
            parts = [TextPart(failure)]

        counts = message.get("usage")
        usage = _read_usage(counts) if is_map(counts) else None
        model = text_of(message, "model")
        self.model = model or self.model
        if counts is not None and self.builder.is_counted(usage, at):
            time = read_time(message.get("timestamp"))
            self.builder.bill_record(id, usage, model, time, at)

        stop = text_of(message, "stopReason")
        reason = "interrupted" if stop == "aborted" else stop
        meta = ResponseMeta(finish_reason=reason, usage=usage, model=model)
        return AssistantMessage(simplify(parts), tool_calls=calls, response=meta)


def _load_command(message: Body) -> Message:
    # A command that the user ran, in Pi's words.
    output, code = text_of(message, "output"), message.get("exitCode")
    text = f"Ran `{text_of(message, 'command')}`\n"
    text += f"```\n{output}\n```" if output else "(no output)"
    if message.get("cancelled") is True:
        text += "\n\n(command cancelled)"
    elif code not in (None, 0):
        text += f"\n\nCommand exited with code {code}"

    return UserMessage(text)


def _load_thought(block: Body, api: str, index: int) -> ReasoningPart:
    text, signature = text_of(block, "thinking"), text_of(block, "thinkingSignature")
    signer = _SIGNERS.get(api, "")
    notes: dict[str, Any] = {"signed": True} if signature else {}
    if block.get("redacted") is True:
        text, signer, notes = "", "anthropic", {**notes, "redacted": True}
    elif api.endswith("-responses"):
        # The whole item of OpenAI.
        item = parse_object(signature)[0] or {}
        signer, signature = "openai_responses", text_of(item, "encrypted_content")
        notes = {"item": {"id": text_of(item, "id")}} if item else {}
    elif api == "openai-completions":
        # The name of the key that it came under.
        signature = ""

    metadata = with_notes(signer, notes) if signer else EMPTY_MAP
    return ReasoningPart(text, signature, index=index, metadata=metadata)


def _load_block(block: Body, index: int | None) -> Part:
    kind = text_of(block, "type")
    if kind == "text" and isinstance(block.get("text"), str):
        return TextPart(block["text"], index=index)

    if kind == "thinking":
        signature = text_of(block, "thinkingSignature")
        return ReasoningPart(text_of(block, "thinking"), signature, index=index)

    media = None
    if kind == "image":
        media = make_media(block.get("data"), text_of(block, "mimeType"), index=index)

    return media or keep_unknown(block, index)


def _read_usage(counts: Body) -> Usage | None:
    keys = ("input", "output", "cacheRead", "cacheWrite")
    given = [counts.get(key) or 0 for key in keys]
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in given):
        return None

    prompt, output, read, written = given
    return make_usage(prompt + read + written, output, cached=read, written=written)
