"""
Sessions of Codex: rollouts, lines of JSON that are only ever appended.

What the model gets are the ``response_item`` lines, items of Responses; the usage of a
response is a ``token_count`` event behind it; a rollback is an event, too, and takes
away the last turns from there on.

Source:
    openai/codex, ``codex-rs/protocol/src/protocol.rs`` and ``models.rs``, and how
    ``drop_last_n_user_turns`` counts turns. Rollouts of codex-cli 0.171.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from conversation_state.adapters import openai_responses
from conversation_state.adapters.engine.notes import map_of, notes_of
from conversation_state.adapters.engine.reading import is_map, text_of
from conversation_state.adapters.engine.wire import read_time
from conversation_state.adapters.openai_responses.items import (
    CALLERS,
    CALLS,
    load_items,
)
from conversation_state.adapters.sessions._session import (
    COMPACTION,
    SOURCE,
    Body,
    LoadedSession,
    SessionBuilder,
    SessionLines,
    map_in,
    number_by_heads,
)
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

FORMAT = "codex"

_WRAPPED = frozenset(
    {"compacted", "event_msg", "response_item", "session_meta", "turn_context"}
)
# Items that stand in old rollouts as lines of their own.
_BARE = frozenset({"message", "reasoning", *CALLERS, *CALLS})
# What begins a user's message that the user did not write.
_CONTEXT = (
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<environment_context>",
    "<permissions instructions>",
    "<skill>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_instructions>",
    "<user_shell_command>",
)
_EVENTS = frozenset({"thread_name_updated", "thread_rolled_back", "token_count"})
# Events that repeat what items say, or say no more than that a turn begins or ends.
_REPEATED = frozenset(
    {"agent_message", "agent_reasoning", "agent_reasoning_raw_content", "user_message"}
    | {"task_complete", "task_started", "turn_complete", "turn_started"}
)
# What Codex could undo, which it sends to no model.
_SNAPSHOT = "ghost_snapshot"
_SAID = frozenset({"agent_message", "user_message"})
_COUNTS = ("input_tokens", "output_tokens", "total_tokens")


def recognize(raws: Iterable[Body]) -> bool:
    """Whether one of these lines is of Codex."""
    return any(
        (text_of(raw, "type") in _WRAPPED and is_map(raw.get("payload")))
        or _is_old_meta(raw)
        for raw in raws
    )


def number_sessions(raws: Sequence[Body]) -> list[int]:
    """Which session each of *raws* is of, in a file with several."""
    return number_by_heads(raws, _find_head)


def _find_head(before: Body, raw: Body) -> str | None:
    # A rollout that was resumed may have the head of the old one behind its own.
    if _is_meta(before) or not _is_meta(raw):
        return None

    return text_of(map_in(raw, "payload") or raw, "id") or None


def _is_meta(raw: Body) -> bool:
    return text_of(raw, "type") == "session_meta" or _is_old_meta(raw)


def load(lines: SessionLines, agents: Mapping[str, SessionLines]) -> LoadedSession:
    """The session of *lines*, with those of its sub-agents by their ids."""
    return _CodexSession(lines).load(agents)


def _is_old_meta(raw: Body) -> bool:
    is_named = isinstance(raw.get("id"), str) and isinstance(raw.get("timestamp"), str)
    return is_named and "type" not in raw and ("instructions" in raw or "git" in raw)


def is_prompt(message: Message) -> bool:
    """Whether a user wrote *message*: it begins a turn."""
    return isinstance(message, UserMessage) and not message.text.lstrip().startswith(
        _CONTEXT
    )


# Lines: their numbers, what they are, and their items.
_Items: TypeAlias = Sequence[tuple[int, Body, Body]]


class _CodexSession:
    # One session while it is read.

    def __init__(self, lines: SessionLines) -> None:
        self.builder = SessionBuilder(FORMAT, lines)
        self.calls: dict[str, ToolCall] = {}
        # The output of the model since the last input: lines and items.
        self.answer: list[tuple[int, Body, Body]] = []
        self.tip: str | None = None
        # The tip before the context that the next prompt came with.
        self.before: str | None = None
        self.in_context = False
        # The turns on the way to the tip: what each stands behind.
        self.turns: list[str | None] = []
        self.model = ""
        self.total: Any = None
        # The answer that waits for its usage: its first line, and what it says.
        self.unbilled: tuple[tuple[int, Body, Body], list[Message]] | None = None
        self.compaction: dict[str, Any] = {}
        # Usage by the ids of responses, each with its line and model. Events repeat
        # it, but for that of compactions.
        self.records: dict[str, tuple[int, Body, str]] = {}
        # What events repeat, with their lines; and what is in items.
        self.repeated: list[tuple[int, str]] = []
        self.texts: list[str] = []

    def load(self, agents: Mapping[str, SessionLines]) -> LoadedSession:
        readers: dict[str, Callable[[int, Body, Body], None]] = {
            "compacted": self._read_compaction,
            "event_msg": self._read_event,
            "response_item": self._add_item,
            "session_meta": self._read_meta,
            "token_usage_record": self._read_record,
            "turn_context": self._read_context,
        }
        for at, raw in self.builder.lines.objects:
            kind, payload = text_of(raw, "type"), raw.get("payload")
            if kind in readers and is_map(payload):
                readers[kind](at, raw, payload)
            elif kind in readers:
                self.builder.problem(at, f"of type {kind}, and its payload no object")
            elif kind in _BARE:
                self._add_item(at, raw, raw)
            elif _is_old_meta(raw):
                self._read_meta(at, raw, raw)
            else:
                self.builder.report_unread(at, raw)

        self._end_response()
        for id in [*self.records] if self.total is None else ():
            self._bill_record(id)

        said = "\n".join(self.texts)
        for at, text in self.repeated:
            if text.strip() not in said:
                self.builder.problem(at, "a message that no item has; it is left out")

        if self.compaction:
            self.builder.notes[COMPACTION] = self.compaction

        self.builder.load_agents(agents, load)
        return self.builder.build(self.tip)

    def _read_context(self, at: int, _raw: Body, payload: Body) -> None:
        self.model = text_of(payload, "model") or self.model
        self.builder.mark_read(at)

    def _read_compaction(self, at: int, _raw: Body, payload: Body) -> None:
        self._end_response()
        self._bill_record(text_of(payload, "compaction_response_id"))
        self.compaction = {"summary": text_of(payload, "message")}
        self.builder.mark_read(at)
        history = payload.get("replacement_history")
        if history is None:
            return

        try:
            openai_responses.load(history)
        except DecodeError as error:
            self.builder.problem(at, f"its history can't be read: {error.problems[0]}")
        else:
            self.compaction["history"] = history

    def _read_meta(self, at: int, _raw: Body, payload: Body) -> None:
        # A fork has the lines of its origin behind its own first one.
        builder = self.builder
        if not builder.name:
            builder.name = text_of(payload, "id")
            builder.version = text_of(payload, "cli_version")
            builder.cwd = text_of(payload, "cwd")
            builder.mark_read(at)

    def _read_event(self, at: int, raw: Body, payload: Body) -> None:
        kind = text_of(payload, "type")
        if kind in _EVENTS or kind in _REPEATED:
            self.builder.mark_read(at)

        if kind in _SAID:
            self.repeated.append((at, text_of(payload, "message")))
        elif kind == "token_count":
            self._bill_response(at, raw, payload)
        elif kind == "thread_name_updated":
            self.builder.title = text_of(payload, "thread_name") or self.builder.title
        elif kind == "thread_rolled_back":
            self._end_response()
            count = payload.get("num_turns")
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                self.builder.problem(at, f"rolls back {count!r} turns; ignored")
            elif count and self.turns:
                first = max(len(self.turns) - count, 0)
                self.tip = self.turns[first]
                self.in_context = False
                del self.turns[first:]

    # Items

    def _add_item(self, at: int, raw: Body, item: Body) -> None:
        kind = text_of(item, "type")
        if kind == _SNAPSHOT:
            return

        is_said = kind == "message" and item.get("role") != "assistant"
        if not is_said and kind not in CALLERS:
            self.answer.append((at, raw, item))
            return

        self._end_response()
        items = [(at, raw, item)]
        messages = self._load_items(items)
        if not is_prompt(messages[0]):
            if not isinstance(messages[0], ToolMessage):
                self.before = self.before if self.in_context else self.tip
                self.in_context = True
        else:
            # The context of the first turn stays.
            has_context = self.in_context and self.turns
            self.turns.append(self.before if has_context else self.tip)

        if is_prompt(messages[0]) or isinstance(messages[0], ToolMessage):
            self.in_context = False

        self._add_node(items, messages)

    def _end_response(self) -> None:
        if not self.answer:
            return

        items, self.answer = self.answer, []
        self.in_context = False
        messages = self._load_items(items)
        self.unbilled = (items[0], messages)
        self._add_node(items, messages)

    def _add_node(self, items: _Items, messages: Sequence[Message]) -> None:
        at, raw, _ = items[0]
        id, time = f"line-{at}", read_time(raw.get("timestamp"))
        lines = [_keep_line(each) for each in items]
        notes = {"lines": lines, COMPACTION: self.compaction}
        self.builder.add(id, self.tip, messages, at, time, **notes)
        self.compaction = {}
        self.tip = id

    def _load_items(self, items: _Items) -> list[Message]:
        self.builder.use(*[at for at, _, _ in items])
        try:
            loaded = load_items([_mend_item(item) for _, _, item in items], self.calls)
        except DecodeError as error:
            self.builder.problem(items[0][0], f"can't be read: {error.problems[0]}")
            loaded = tuple(UnknownMessage(raw, source=SOURCE) for _, raw, _ in items)

        for message in loaded:
            self.texts.append(message.text)
            self.calls.update({call.id: call for call in message.tool_calls})

        return [self._complete_answer(message) for message in loaded]

    def _complete_answer(self, message: Message) -> Message:
        if isinstance(message, AssistantMessage) and self.model:
            return message.replace(response=ResponseMeta(model=self.model))

        if isinstance(message, ToolMessage) and has_failed(message):
            return message.replace(is_error=True)

        return message

    # The bill

    def _read_record(self, at: int, raw: Body, payload: Body) -> None:
        self.builder.mark_read(at)
        self.records[text_of(payload, "response_id")] = (at, raw, self.model)

    def _bill_record(self, id: str) -> None:
        at, raw, model = self.records.pop(id, (0, {}, ""))
        usage = _read_usage(map_in(map_in(raw, "payload"), "usage"))
        if at and self.builder.is_counted(usage, at):
            time = read_time(raw.get("timestamp"))
            self.builder.bill(id or f"line-{at}", usage, model, time, at)

    def _bill_response(self, at: int, raw: Body, payload: Body) -> None:
        self._end_response()
        info = payload.get("info")
        if not is_map(info):
            return

        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        # The same total again reports only that limits have changed.
        before, self.total = self.total, total
        if not is_map(last) or (total is not None and total == before):
            return

        usage = _read_usage(last)
        if usage is None:
            self.builder.problem(at, "its counts can't be read; they are not billed")
            return

        waiting, self.unbilled = self.unbilled, None
        if waiting is None:
            # A compaction has usage and no answer.
            time = read_time(raw.get("timestamp"))
            self.builder.bill(f"line-{at}", usage, self.model, time, at)
            return

        (line, first, _), messages = waiting
        last_answer = messages[-1]
        if isinstance(last_answer, AssistantMessage):
            meta = last_answer.response or ResponseMeta()
            messages[-1] = last_answer.replace(response=attrs.evolve(meta, usage=usage))

        id, time = f"line-{line}", read_time(first.get("timestamp"))
        self.builder.say(id, messages)
        self.builder.bill_record(id, usage, self.model, time, line)


def _keep_line(line: tuple[int, Body, Body]) -> dict[str, Any]:
    # All of a line but its item.
    at, raw, item = line
    if raw is item:
        return {"at": at, "bare": True}

    return {"at": at, "keys": {k: v for k, v in raw.items() if k != "payload"}}


def _read_usage(counts: Body) -> Usage | None:
    block = {key: counts[key] for key in _COUNTS if counts.get(key) is not None}
    cached, thought = (
        counts.get(key) or 0
        for key in ("cached_input_tokens", "reasoning_output_tokens")
    )
    block["input_tokens_details"] = {"cached_tokens": cached}
    if written := counts.get("cache_write_input_tokens"):
        block["input_tokens_details"]["cache_write_tokens"] = written

    block["output_tokens_details"] = {"reasoning_tokens": thought}
    try:
        return openai_responses.load_usage(block)
    except DecodeError:
        return None


def _mend_item(item: Body) -> Body:
    # Old rollouts have outputs as objects.
    output = item.get("output")
    if is_map(output) and isinstance(output.get("content"), str):
        return {**item, "output": output["content"], "success": output.get("success")}

    return item


def has_failed(message: ToolMessage) -> bool:
    """Whether a result says of itself that its call failed."""
    text = message.text
    kept = map_of(notes_of(message.metadata, openai_responses.FORMAT.name), "keys")
    if kept.get("success") is False:
        return True

    if not text.startswith("{"):
        return False

    try:
        result = json.loads(text)
    except (ValueError, RecursionError):
        return False

    about = result.get("metadata") if is_map(result) else None
    return is_map(about) and about.get("exit_code") not in (None, 0)
