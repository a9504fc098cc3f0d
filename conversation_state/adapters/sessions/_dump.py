"""
From trees to the files of coding agents: which format, and the lines of Claude Code and
Codex.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from conversation_state._persistent import thaw
from conversation_state._wording import describe_type, shorten_repr
from conversation_state.adapters.anthropic.items import write_message
from conversation_state.adapters.engine.export import Export, Lost, PayloadWriter
from conversation_state.adapters.engine.notes import map_of, notes_of
from conversation_state.adapters.engine.reading import is_map, text_of
from conversation_state.adapters.openai_responses.items import RESULTS, write_items
from conversation_state.adapters.openai_responses.items import SOURCE as ITEMS
from conversation_state.adapters.sessions import _codex
from conversation_state.adapters.sessions._dump_opencode import dump_opencode
from conversation_state.adapters.sessions._dump_pi import dump_pi
from conversation_state.adapters.sessions._dump_sts import dump_sts
from conversation_state.adapters.sessions._session import (
    COMPACTION,
    SOURCE,
    LoadedSession,
    compacted,
)
from conversation_state.adapters.sessions._writing import (
    LAST_PLACE,
    NO_RESULT,
    SessionRecord,
    SessionWriter,
    in_order,
    model_of,
    split_usage,
    usage_of,
)
from conversation_state.aggregator import Aggregator
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage

WrittenFormat: TypeAlias = Literal[
    "claude_code", "codex", "codex_items", "opencode", "pi", "sts"
]

# What `dump_session` takes.
WRITTEN: tuple[str, ...] = get_args(WrittenFormat)


def dump_session(
    session: LoadedSession | MessageTree | Aggregator,
    format: WrittenFormat,  # noqa: A002 - as `load_session`
    *,
    cwd: str = "",
    title: str = "",
) -> Export:
    """
    A session as the file of a coding agent: a list of lines, or OpenCode's document.

    What was read from this format is written as it was, line for line, with what was
    added since behind it. Of another format the messages are written, with their calls,
    results, media and usage; what a format has no place for is in `Export.lost`, with
    its path: ``nodes[3]`` is the message at that position in ``tree.nodes``.

    Claude Code's lines and Pi's have all branches; Codex's have those that begin with a
    prompt, rolled back; the others have the live branch. A call without a result gets
    an error as its result, which is listed, unless nothing follows it. Identities
    follow from those of the messages, so equal sessions are written equally.

    O(messages).

    Args:
        session: What `load_session` returned, a tree, or a state.
        format: ``claude_code``, ``codex`` (a rollout), ``codex_items`` (what Codex's
            ``thread/inject_items`` takes: the live branch as the model gets it),
            ``opencode``, ``pi`` or ``sts``.
        cwd: The folder that the agent is to go on in; by default that of the session.
        title: The title; by default that of the session.

    Raises:
        TypeError: If *session* is something else.
        ValueError: If there is no such format.

    >>> state = Aggregator.new().add_user_prompt("Fix the tests.")
    >>> [item] = dump_session(state, "codex_items").payload
    >>> item["content"]
    [{'type': 'input_text', 'text': 'Fix the tests.'}]
    """
    if isinstance(session, Aggregator):
        loaded = LoadedSession("", "", MessageTree.of(session), "")
    elif isinstance(session, MessageTree):
        loaded = LoadedSession("", "", session, "")
    elif isinstance(session, LoadedSession):
        loaded = session
    else:
        expected = "a LoadedSession, a MessageTree or an Aggregator"
        raise TypeError(f"session is {describe_type(session)}; expected {expected}")

    if format not in _WRITERS:
        expected = ", ".join(_WRITERS)
        raise ValueError(f"format is {shorten_repr(format)}; expected {expected}")

    kind = _codex.FORMAT if format == "codex_items" else format
    writer = SessionWriter(loaded, kind, cwd, title)
    payload = _WRITERS[format](writer)
    writer.lose_foreign()
    return Export(payload, tuple(writer.lost))


# Claude Code


_STOPS = {
    "length": "max_tokens",
    "stop": "end_turn",
    "tool-calls": "tool_use",
    "toolUse": "tool_use",
    "tool_calls": "tool_use",
}
_OWN_STOPS = frozenset(
    {"end_turn", "max_tokens", "refusal", "stop_sequence", "tool_use"}
)
# The version whose lines these are.
_CLAUDE_VERSION = "2.1.332"


def dump_claude_code(writer: SessionWriter) -> list[Any]:
    """The lines of a session, those of its sub-agents among them."""
    own = _ClaudeLines(writer, "")
    lines = own.write()
    for at, agent in enumerate(writer.loaded.agents):
        inner = SessionWriter(agent, writer.kind, writer.cwd, "")
        # Lines of a file beside the session's have numbers of their own.
        is_beside = agent.format != writer.kind or "file" in agent.notes
        for number, raw in _ClaudeLines(inner, agent.name, own.session).write():
            lines.append((LAST_PLACE if is_beside else number, raw))

        if is_beside and agent.called_by:
            about = {"agentId": agent.name, "toolUseId": agent.called_by}
            lines.append((LAST_PLACE, {"type": "agent_metadata", **about}))

        inner.lose_foreign()
        writer.lost += [
            Lost(f"agents[{at}].{path}", what, why) for path, what, why in inner.lost
        ]

    return in_order(lines)


class _ClaudeLines:
    # The lines of one session or sub-agent, while they are written.

    def __init__(self, writer: SessionWriter, agent: str, session: str = "") -> None:
        self.writer = writer
        self.agent = agent
        own = writer.loaded.name if writer.is_same else ""
        self.session = session or own or writer.session_id
        # By node: the id of its last line. By call: that of the line that makes it.
        self.ends: dict[str, str | None] = {}
        self.callers: dict[str, str] = {}
        self.known: set[str] = set()
        self.lines: list[tuple[float, Any]] = []

    def write(self) -> list[tuple[float, Any]]:
        writer = self.writer
        for at, raw in writer.kept_lines():
            self._add_line(at, raw)

        writer.lose_session()
        if writer.title and not writer.is_same and not self.agent:
            about = {"aiTitle": writer.title, "sessionId": self.session}
            self.lines.append((0, {"type": "ai-title", **about}))

        records = writer.records if writer.is_same else writer.order_live_last()
        writer.lose_bill(records)
        for record in records:
            end = self.ends.get(record.parent) if record.parent else None
            if not writer.is_same:
                end = self._write_compaction(record, end)

            kept = writer.kept(record).get("lines")
            write = self._write_kept if kept else self._write_fresh
            end = write(record, end)
            self.ends.update({node.id: end for node in record.nodes})

        return self.lines

    def _add_line(self, at: float, raw: Any) -> None:
        self.lines.append((at, raw))
        if is_map(raw) and isinstance(raw.get("uuid"), str):
            self.known.add(raw["uuid"])

    def _make_line(
        self, record: SessionRecord, kind: str, parent: str | None, *what: object
    ) -> dict[str, Any]:
        line = {
            "parentUuid": parent,
            "isSidechain": bool(self.agent),
            "userType": "external",
            "cwd": self.writer.cwd,
            "sessionId": self.session,
            "version": _CLAUDE_VERSION,
            "type": kind,
            "uuid": self.writer.make_id(record.id, self.agent, *what),
            "timestamp": record.iso,
        }
        return {**line, "agentId": self.agent} if self.agent else line

    def _write_compaction(self, record: SessionRecord, end: str | None) -> str | None:
        compaction = map_of(record.notes, COMPACTION)
        if not compaction:
            return end

        if compaction.get("history") or compaction.get("first_kept"):
            why = "Claude Code's compactions keep a summary only"
            self.writer.lose(record.paths[0], COMPACTION, why)

        edge = self._make_line(record, "system", None, "boundary")
        before = {"logicalParentUuid": end} if end else {}
        self._add_line(LAST_PLACE, {**edge, "subtype": "compact_boundary", **before})
        line = self._make_line(record, "user", edge["uuid"], "summary")
        said = {"role": "user", "content": compaction.get("summary", "")}
        self._add_line(LAST_PLACE, {**line, "message": said, "isCompactSummary": True})
        return str(line["uuid"])

    def _write_blocks(self, record: SessionRecord) -> tuple[list[Any], bool]:
        # The blocks of all messages, and whether they are one plain text.
        blocks: list[Any] = []
        is_plain = False
        for message, path in record.pairs():
            call = self.writer.calls.get(getattr(message, "tool_call_id", ""))
            if isinstance(message, ToolMessage) and call is not None:
                # It is in the call.
                message = message.replace(tool_name="")  # noqa: PLW2901

            written, lost = write_message(message, path)
            self.writer.lost += lost
            for each in written:
                content = each["content"]
                is_plain = isinstance(content, str)
                blocks += [{"type": "text", "text": content}] if is_plain else content

        return blocks, is_plain and len(blocks) == 1

    def _write_kept(self, record: SessionRecord, end: str | None) -> str | None:
        writer, kept = self.writer, writer_lines(self.writer, record)
        if _is_line(record.messages[0]):
            for line, message in zip(kept, record.messages, strict=False):
                raw = thaw(getattr(message, "raw", {}))
                self._add_line(writer.place(line), raw)
                end = str(raw.get("uuid", end))

            return end

        for message, path in record.pairs():
            writer.add_calls(message, path)

        blocks, is_plain = self._write_blocks(record)
        for number, line in enumerate(kept):
            keys, about = thaw(line["keys"]), thaw(line.get("message", {}))
            if text_of(keys, "parentUuid") not in self.known and not writer.is_same:
                keys["parentUuid"] = end

            count = line.get("blocks", 1)
            is_last = number == len(kept) - 1
            own, blocks = (blocks, []) if is_last else (blocks[:count], blocks[count:])
            is_text = "blocks" not in line and (is_plain or not own)
            text = own[0]["text"] if is_text and own else ""
            content = text if is_text else own
            if text_of(keys, "type") == "attachment":
                keys["attachment"]["prompt"] = content
            else:
                keys["message"] = {**about, "content": content}

            # A line without an id is written without one; others follow the last.
            self._note_calls(own, text_of(keys, "uuid"))
            self._add_line(writer.place(line), keys)
            end = text_of(keys, "uuid") or end

        return end

    def _note_calls(self, blocks: Sequence[Any], line: str) -> None:
        for block in blocks:
            if block.get("type") == "tool_use":
                self.callers[block["id"]] = line

    def _write_fresh(self, record: SessionRecord, end: str | None) -> str | None:
        writer = self.writer
        [(message, path)] = record.pairs()
        writer.lose_keys(record)
        missing = writer.add_calls(message, path)
        blocks, is_plain = self._write_blocks(record)
        if not blocks:
            writer.lose(path, message.role, "nothing of it can be written")
            return end

        if not isinstance(message, AssistantMessage):
            caller = self.callers.get(getattr(message, "tool_call_id", ""))
            line = self._make_line(record, "user", caller or end)
            content = blocks[0]["text"] if is_plain else blocks
            line["message"] = {"role": "user", "content": content}
            self._add_line(LAST_PLACE, line)
            return str(line["uuid"])

        about = self._describe_answer(message, record)
        for number, block in enumerate(blocks):
            line = self._make_line(record, "assistant", end, number)
            line["requestId"] = f"req_{about['id']}"
            line["message"] = {**about, "content": [block]}
            self._note_calls([block], line["uuid"])
            self._add_line(LAST_PLACE, line)
            end = str(line["uuid"])

        for call_id in missing:
            line = self._make_line(record, "user", self.callers[call_id], call_id)
            result = {"type": "tool_result", "tool_use_id": call_id, "is_error": True}
            said = [{**result, "content": NO_RESULT}]
            line["message"] = {"role": "user", "content": said}
            self._add_line(LAST_PLACE, line)
            end = str(line["uuid"])

        return end

    def _describe_answer(
        self, message: AssistantMessage, record: SessionRecord
    ) -> dict[str, Any]:
        meta, usage = message.response, usage_of(message)
        id = meta.id if meta and meta.id else f"msg_{record.id}"
        about = {"id": id, "type": "message", "role": "assistant"}
        about["model"] = model_of(message) or "unknown"
        reason = meta.finish_reason if meta else ""
        stop = reason if reason in _OWN_STOPS else _STOPS.get(reason)
        answer: dict[str, Any] = {**about, "stop_reason": stop, "stop_sequence": None}
        if usage is not None:
            answer["usage"] = _write_anthropic_usage(usage)

        return answer


def _is_line(message: Message) -> bool:
    # Whether a message is a line that could not be read.
    return isinstance(message, UnknownMessage) and message.source == SOURCE


def writer_lines(writer: SessionWriter, record: SessionRecord) -> Sequence[Any]:
    """The lines that a record was read from, without what its messages say."""
    lines: Sequence[Any] = writer.kept(record).get("lines", ())
    return lines


def _write_anthropic_usage(usage: Usage) -> dict[str, Any]:
    fresh, output, read, written, thought = split_usage(usage)
    counts: dict[str, Any] = {
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": output,
    }
    if thought:
        counts["output_tokens_details"] = {"thinking_tokens": thought}

    return counts


# Codex


# The version whose lines these are.
_CODEX_VERSION = "0.171.0"


def dump_codex(writer: SessionWriter) -> list[Any]:
    """The lines of a rollout."""
    return _CodexLines(writer).write()


def dump_codex_items(writer: SessionWriter) -> list[Any]:
    """The live branch as the model gets it, as items of Responses."""
    said = [pair for record in writer.list_live() for pair in record.pairs()]
    marked = [at for at, (message, _) in enumerate(said) if _compaction_of(message)]
    start = marked[-1] if marked else 0
    seen = compacted([message for message, _ in said])
    left = seen[: len(seen) - len(said[start:])]
    for message, path in said[:start]:
        if not any(message is each for each in left):
            writer.lose(path, "history", "a summary stands for it since a compaction")

    items = _ItemWriter(writer)
    for message, path in [*((each, "compaction") for each in left), *said[start:]]:
        items.write(message, path)

    writer.lose_session()
    writer.lose_agents()
    return [item for _, item in items.written]


def _compaction_of(message: Message) -> Mapping[str, Any]:
    return map_of(notes_of(message.metadata, SOURCE), COMPACTION)


class _ItemWriter:
    # The items of a session, while they are written: each with its message's path.

    def __init__(self, writer: SessionWriter) -> None:
        self.writer = writer
        self.inner = PayloadWriter(ITEMS)
        self.calls: dict[str, ToolCall] = {}
        self.written: list[tuple[str, dict[str, Any]]] = []

    def write(self, message: Message, path: str) -> list[dict[str, Any]]:
        """The items of *message*, with results for the calls that have none."""
        missing = self.writer.add_calls(message, path)
        if isinstance(message, ToolMessage) and message.is_error:
            # Unless its text says so itself.
            message = message.replace(is_error=not _codex.has_failed(message))

        items = [
            _complete_item(each)
            for each in write_items(
                self.inner, message, path, self.calls, followed=True
            )
        ]
        if not items:
            self.writer.lose(path, message.role, "nothing of it can be written")

        self.writer.lost += self.inner.lost
        self.inner.lost.clear()
        for call_id in missing:
            kind = RESULTS[self.calls[call_id].type]
            items.append({"type": kind, "call_id": call_id, "output": NO_RESULT})

        self.written += [(path, item) for item in items]
        return items


def _complete_item(item: dict[str, Any]) -> dict[str, Any]:
    # Codex wants the type of each item, and blocks.
    if "role" not in item:
        return item

    content = item["content"]
    if isinstance(content, str):
        kind = "output_text" if item["role"] == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]

    return {"type": "message", **item, "content": content}


class _CodexLines:
    # The lines of a rollout, while they are written.

    def __init__(self, writer: SessionWriter) -> None:
        self.writer = writer
        self.items = _ItemWriter(writer)
        self.lines: list[tuple[float, Any]] = []
        self.model = ""
        self.total = Usage()

    def write(self) -> list[Any]:
        writer = self.writer
        writer.lose_session()
        writer.lose_agents()
        is_new = not all(writer.kept(record) for record in writer.records)
        if writer.is_same:
            self.lines += writer.kept_lines()
        else:
            self._write_header()

        if writer.is_same and is_new:
            # What was added stands at the end, where Codex goes on.
            for record in writer.records:
                if not writer.kept(record) and not writer.is_live(record):
                    writer.lose(record.paths[0], "branch", "is not on the live branch")
                else:
                    self._write_record(record)
        elif writer.is_same:
            for record in writer.records:
                self._write_record(record)
        else:
            steps = _order_turns(writer)
            writer.lose_bill(each for each in steps if isinstance(each, SessionRecord))
            for step in steps:
                if isinstance(step, int):
                    self._put_event("thread_rolled_back", num_turns=step)
                else:
                    self._write_record(step)

        return in_order(self.lines)

    def _add_record(self, kind: str, payload: Mapping[str, Any], time: str) -> None:
        line = {"timestamp": time, "type": kind, "payload": payload}
        self.lines.append((LAST_PLACE, line))

    def _put_event(self, kind: str, **payload: Any) -> None:
        time = text_of(self.lines[-1][1], "timestamp")
        self._add_record("event_msg", {"type": kind, **payload}, time)

    def _write_header(self) -> None:
        writer = self.writer
        time = writer.records[0].iso if writer.records else ""
        about = {"id": writer.session_id, "timestamp": time, "cwd": writer.cwd}
        about |= {"originator": "conversation_state", "cli_version": _CODEX_VERSION}
        about |= {"source": "cli", "model_provider": "openai"}
        self._add_record("session_meta", {**about, "history_mode": "legacy"}, time)
        if writer.title:
            named = {"thread_id": writer.session_id, "thread_name": writer.title}
            self._put_event("thread_name_updated", **named)

    def _write_record(self, record: SessionRecord) -> None:
        writer = self.writer
        kept = writer_lines(writer, record)
        if kept and _is_line(record.messages[0]):
            for line, message in zip(kept, record.messages, strict=False):
                raw = thaw(getattr(message, "raw", {}))
                self.lines.append((writer.place(line), raw))

            return

        if not kept:
            writer.lose_keys(record)

        is_kept = writer.is_same and bool(kept)
        if not is_kept:
            self._write_context(record)

        self.model = next(filter(None, map(model_of, record.messages)), self.model)
        items = [
            item
            for message, path in record.pairs()
            for item in self.items.write(message, path)
        ]
        for number, item in enumerate(items):
            about = kept[number] if len(kept) == len(items) else {}
            at = writer.place(about)
            if about.get("bare"):
                self.lines.append((at, item))
                continue

            keys = thaw(about.get("keys", {"timestamp": record.iso}))
            line = {**keys, "type": "response_item", "payload": item}
            self.lines.append((at, line))

        if not is_kept:
            for message in record.messages:
                self._write_events(message)

    def _write_context(self, record: SessionRecord) -> None:
        compaction = map_of(record.notes, COMPACTION)
        if compaction:
            said: dict[str, Any] = {"message": compaction.get("summary", "")}
            if history := compaction.get("history"):
                said["replacement_history"] = thaw(history)
            elif compaction.get("first_kept"):
                why = "what was kept besides the summary is not said"
                self.writer.lose(record.paths[0], COMPACTION, why)

            self._add_record("compacted", said, record.iso)

        model = next(filter(None, map(model_of, record.messages)), "")
        if model and model != self.model:
            about: dict[str, Any] = {"cwd": self.writer.cwd}
            about["approval_policy"] = "on-request"
            about |= {"sandbox_policy": {"type": "read-only"}, "model": model}
            self._add_record("turn_context", {**about, "summary": "auto"}, record.iso)

    def _write_events(self, message: Message) -> None:
        # What Codex shows comes from events, what its model gets from items.
        if _codex.is_prompt(message):
            nothing: dict[str, Any] = {"images": [], "local_images": []}
            nothing["text_elements"] = []
            self._put_event("user_message", message=message.text, **nothing)

        if isinstance(message, AssistantMessage) and message.text:
            self._put_event("agent_message", message=message.text)

        usage = usage_of(message)
        if usage is not None:
            self.total += usage
            info = {
                "total_token_usage": _write_tokens(self.total),
                "last_token_usage": _write_tokens(usage),
                "model_context_window": None,
            }
            self._put_event("token_count", info=info, rate_limits=None)


def _write_tokens(usage: Usage) -> dict[str, int]:
    _, output, read, written, thought = split_usage(usage)
    counts = {"input_tokens": usage.prompt_tokens, "cached_input_tokens": read}
    if written:
        counts["cache_write_input_tokens"] = written

    counts |= {"output_tokens": output, "reasoning_output_tokens": thought}
    return {**counts, "total_tokens": usage.total_tokens}


def _order_turns(writer: SessionWriter) -> list[SessionRecord | int]:
    """
    All records in an order in which a rollout has them, the live branch last; numbers
    are turns that are rolled back. A branch that begins within a turn is lost.
    """
    below = writer.map_below()
    order: list[SessionRecord | int] = []
    turns = 0
    # Records to write, and how many turns are to be left then.
    todo: list[SessionRecord | int | None] = [None]
    while todo:
        step = todo.pop()
        if isinstance(step, int):
            order += [turns - step] if turns > step else []
            turns = step
            continue

        if step is not None:
            order.append(step)
            turns += sum(map(_codex.is_prompt, step.messages))

        children = below.get(None if step is None else step.id, [])
        others = sorted(children, key=writer.is_live)
        # Behind the head nothing goes on.
        is_end = step is not None and writer.is_live(step)
        if others and (writer.is_live(others[-1]) or not is_end):
            todo.append(others.pop())

        for each in reversed(others):
            if _codex.is_prompt(each.messages[0]) and _ends_turn(step):
                todo += [turns, each]
            else:
                writer.lose_below([each], below, "begins within a turn")

    return order


def _ends_turn(record: SessionRecord | None) -> bool:
    # After context, a rollback would remove that, too.
    return record is None or record.messages[-1].role in {"assistant", "tool"}


_WRITERS: Mapping[str, Callable[[SessionWriter], Any]] = {
    "claude_code": dump_claude_code,
    "codex": dump_codex,
    "codex_items": dump_codex_items,
    "opencode": dump_opencode,
    "pi": dump_pi,
    "sts": dump_sts,
}
