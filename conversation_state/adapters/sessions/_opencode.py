"""
Sessions of OpenCode: the document that ``opencode export`` writes.

A message is its info and its parts, of which those of tools have the result, too; an
answer of several steps is one message, and each step has its usage.

Source:
    The schemas of messages and parts in opencode-ai 1.18.33.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conversation_state.adapters.engine.notes import with_notes
from conversation_state.adapters.engine.reading import is_list, is_map, text_of
from conversation_state.adapters.engine.wire import read_time
from conversation_state.adapters.sessions._session import (
    COMPACTION,
    UNSENT,
    Body,
    LoadedSession,
    SessionBuilder,
    SessionLines,
    fold,
    keep_unknown,
    list_in,
    make_call,
    make_media,
    make_usage,
    map_in,
    simplify,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import Part, ReasoningPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

FORMAT = "opencode"

# Parts that say nothing to the model; their keys are kept with the record.
_SILENT = frozenset({"agent", "compaction", "patch", "retry", "snapshot", "step-start"})


def recognize(raws: Iterable[Body]) -> bool:
    """Whether the first of these is such a document."""
    first = next(iter(raws), {})
    messages = first.get("messages")
    return is_map(first.get("info")) and is_list(messages)


def number_sessions(raws: Sequence[Body]) -> list[int]:
    """Which session each of *raws* is of: each document is one."""
    return [*range(len(raws))]


def load(lines: SessionLines, agents: Mapping[str, SessionLines]) -> LoadedSession:
    """The session of a document, with those of its sub-agents by their ids."""
    return _OpenCodeSession(lines).load(agents)


class _AnswerStep:
    # One response of an answer, while it is read.

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.results: list[ToolMessage] = []
        self.usage: Usage | None = None
        self.id = self.reason = ""

    def take(self, id: str, about: Body, reason: str) -> None:
        """Take the usage that stands in a part or in the whole message *id*."""
        self.usage, self.id = _read_tokens(about.get("tokens")), id
        self.reason = reason

    @property
    def count(self) -> int:
        return len(self.parts) + len(self.calls)


class _OpenCodeSession:
    # One document while it is read.

    def __init__(self, lines: SessionLines) -> None:
        self.builder = SessionBuilder(FORMAT, lines)
        self.builder.unit = "message"
        self.compaction: dict[str, Any] = {}
        # From which message on the compaction that was asked for keeps them.
        self.kept = ""
        self.tip: str | None = None

    def load(self, agents: Mapping[str, SessionLines]) -> LoadedSession:
        builder = self.builder
        at, raw = next(iter(builder.lines.objects), (1, {}))
        builder.use(at)
        builder.notes["document"] = {k: v for k, v in raw.items() if k != "messages"}
        info = map_in(raw, "info")
        builder.name, builder.title = text_of(info, "id"), text_of(info, "title")
        builder.version = text_of(info, "version")
        builder.cwd = text_of(info, "directory")
        builder.times(info.get("time"))
        reverted = text_of(map_in(info, "revert"), "messageID")
        head: str | None = None
        is_head = True
        for number, each in enumerate(list_in(raw, "messages"), 1):
            about = each.get("info") if is_map(each) else None
            if not is_map(each) or not is_map(about):
                what = "has no info, as a message of OpenCode 1; kept as it is"
                builder.problem(number, what)
                builder.keep(number, each)
                continue

            id = text_of(about, "id") or f"message-{number}"
            if builder.knows(id):
                builder.problem(number, f"has the id {id}, as another message")
                id = f"{id}~{number}"

            is_head = is_head and id != reverted
            self._add_message(id, number, each, about)
            head = self.tip if is_head else head

        if self.compaction:
            builder.notes[COMPACTION] = self.compaction

        builder.load_agents(agents, load)
        return builder.build(head)

    def _add_message(self, id: str, at: int, raw: Body, about: Body) -> None:
        parts = [each for each in list_in(raw, "parts") if is_map(each)]
        role = text_of(about, "role")
        messages: list[Message] = []
        if role == "assistant":
            messages = self._load_answer(id, at, about, parts)
        elif role == "user":
            content = [self._load_part(each, None) for each in parts]
            said = [each for each in content if each is not None]
            # What asks for a compaction says nothing else.
            asked = [each for each in parts if text_of(each, "type") == "compaction"]
            self.kept = next((text_of(each, "tail_start_id") for each in asked), "")
            if said or not asked:
                messages = [UserMessage(simplify(said))]
        else:
            self.builder.problem(at, f"its role is {role!r}; kept as it is")

        if not messages or about.get("summary") is True:
            is_read = bool(messages) or role == "user"
            self.builder.keep(at, raw, is_read=is_read)
            return

        created = read_time(map_in(about, "time").get("created"))
        notes = {"raw": fold(raw, messages), COMPACTION: self.compaction}
        notes[UNSENT] = _is_unsent(about, parts)
        self.builder.add(id, self.tip, messages, at, created, **notes)
        self.compaction = {}
        self.tip = id

    def _load_part(self, part: Body, index: int | None) -> Part | None:
        kind = text_of(part, "type")
        if kind == "text" and isinstance(part.get("text"), str):
            return TextPart(part["text"], index=index)

        if kind == "reasoning":
            return _load_thought(part, index)

        if kind == "file":
            mime, name = text_of(part, "mime"), text_of(part, "filename")
            media = make_media(part.get("url"), mime, name, index=index)
            return media or keep_unknown(part, index)

        return None if kind in _SILENT else keep_unknown(part, index)

    def _load_answer(
        self, id: str, at: int, about: Body, parts: list[Body]
    ) -> list[Message]:
        steps = [_AnswerStep()]
        for part in parts:
            kind, step = text_of(part, "type"), steps[-1]
            if kind == "step-start" and (step.count or step.usage):
                steps.append(_AnswerStep())
            elif kind == "tool":
                self._load_tool(at, part, step)
            elif kind == "step-finish":
                step.take(text_of(part, "id"), part, text_of(part, "reason"))
            elif (said := self._load_part(part, step.count)) is not None:
                step.parts.append(said)

        if not any(step.id for step in steps):
            steps[-1].take(id, about, text_of(about, "finish"))

        messages: list[Message] = []
        for step in steps:
            if step.count or step.usage or len(steps) == 1:
                messages += self._make_answer(step, at, about)

        if about.get("summary") is True and not about.get("error"):
            texts = [each.text for each in messages]
            self.compaction = {"summary": "\n".join(filter(None, texts)), "id": id}
            self.compaction["first_kept"] = self.kept

        return messages

    def _make_answer(self, step: _AnswerStep, at: int, about: Body) -> list[Message]:
        model, usage = text_of(about, "modelID"), step.usage
        if self.builder.is_counted(usage, at):
            created = read_time(map_in(about, "time").get("created"))
            self.builder.bill(step.id, usage, model, created, at)

        reason = step.reason or ("interrupted" if _is_aborted(about) else "")
        meta = ResponseMeta(finish_reason=reason, usage=usage, model=model, id=step.id)
        failure = text_of(map_in(map_in(about, "error"), "data"), "message")
        content = simplify(step.parts) if step.count else failure
        answer = AssistantMessage(content, tool_calls=step.calls, response=meta)
        return [answer, *step.results]

    def _load_tool(self, at: int, part: Body, step: _AnswerStep) -> None:
        state = map_in(part, "state")
        index = step.count
        call_id = text_of(part, "callID") or f"{text_of(part, 'id') or 'call'}-{index}"
        call = make_call(call_id, part.get("tool"), state.get("input", {}), index)
        step.calls.append(call)
        status = text_of(state, "status")
        if status == "completed":
            content: list[Part] = [TextPart(text_of(state, "output"))]
            shown = [
                self._load_part(each, None)
                for each in list_in(state, "attachments")
                if is_map(each)
            ]
            said = simplify([*content, *[each for each in shown if each is not None]])
        elif status == "error":
            said = text_of(state, "error")
        else:
            self.builder.problem(at, f"its call {call_id} has no result")
            return

        step.results.append(
            ToolMessage(
                said,
                tool_call_id=call_id,
                tool_name=call.name,
                is_error=status == "error",
            )
        )


def _is_unsent(about: Body, parts: Sequence[Body]) -> bool:
    # Source: ``toModelMessages`` of OpenCode's ``session/message-v2.ts``.
    kinds = {text_of(part, "type") for part in parts} - {"reasoning", "step-start"}
    return bool(about.get("error")) and not (_is_aborted(about) and kinds)


def _is_aborted(about: Body) -> bool:
    return text_of(map_in(about, "error"), "name") == "MessageAbortedError"


def _load_thought(part: Body, index: int | None) -> ReasoningPart:
    about = map_in(part, "metadata")
    claude, openai = map_in(about, "anthropic"), map_in(about, "openai")
    hidden = text_of(claude, "redactedData")
    signature = hidden or text_of(claude, "signature")
    notes: dict[str, Any] = {"signed": True} if signature else {}
    metadata = with_notes("anthropic", notes | ({"redacted": True} if hidden else {}))
    if not signature and openai:
        signature = text_of(openai, "reasoningEncryptedContent")
        item = {"id": text_of(openai, "itemId")}
        metadata = with_notes("openai_responses", {"item": item})

    text = text_of(part, "text")
    return ReasoningPart(text, signature, index=index, metadata=metadata)


def _read_tokens(tokens: Any) -> Usage | None:
    if not is_map(tokens):
        return None

    kept = map_in(tokens, "cache")
    read, written = kept.get("read", 0), kept.get("write", 0)
    counts = [tokens.get(key, 0) for key in ("input", "output", "reasoning")]
    if not all(isinstance(each, (int, float)) for each in (*counts, read, written)):
        return None

    prompt, output, thought = counts[0] + read + written, counts[1], counts[2]
    # Which versions count reasoning twice, their total says.
    if tokens.get("total") != prompt + output:
        output += thought

    return make_usage(prompt, output, cached=read, written=written, thought=thought)
