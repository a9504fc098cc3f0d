"""
Sessions of Gemini CLI: lines of JSON since 2026, and one document before.

A message stands again under its id when it has grown, and the last one counts; a line
``$rewindTo`` removes a message and all after it; ``$set`` changes what is known of
the session.

Source:
    google-gemini/gemini-cli, ``chatRecordingTypes.ts`` and how
    ``loadConversationRecord`` of ``chatRecordingService.ts`` reads the lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conversation_state.adapters.engine.reading import is_list, is_map, text_of
from conversation_state.adapters.engine.wire import read_time
from conversation_state.adapters.sessions._session import (
    Body,
    LoadedSession,
    SessionBuilder,
    SessionLines,
    fold,
    keep_unknown,
    list_in,
    load_blocks,
    make_call,
    make_media,
    make_usage,
    map_in,
    number_by_heads,
    simplify,
    texts_of,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import Part, ReasoningPart, TextPart
from conversation_state.usage import Usage

FORMAT = "gemini_cli"

_SPOKEN = frozenset({"gemini", "user"})
# What the program says of itself.
_SILENT = frozenset({"error", "info", "warning"})
_FAILED = frozenset({"cancelled", "error"})
_CALLS = ("functionCall", "functionResponse")


def recognize(raws: Iterable[Body]) -> bool:
    """Whether one of these is the head of such a session, or what only it has."""
    return any(
        (isinstance(raw.get("sessionId"), str) and "projectHash" in raw)
        or not raw.keys().isdisjoint({"$rewindTo", "$set"})
        or (text_of(raw, "type") == "gemini" and "content" in raw)
        for raw in raws
    )


def number_sessions(raws: Sequence[Body]) -> list[int]:
    """Which session each of *raws* is of, in a file with several."""
    return number_by_heads(raws, _find_head)


def _find_head(_: Body, raw: Body) -> str | None:
    # A document is a session of its own, whatever its id.
    is_head = "sessionId" in raw and text_of(raw, "type") not in _SPOKEN
    id = "" if "messages" in raw else text_of(raw, "sessionId")
    return id if is_head else None


def load(lines: SessionLines, agents: Mapping[str, SessionLines]) -> LoadedSession:
    """The session of *lines*, with those of its sub-agents by their ids."""
    return _GeminiSession(lines).load(agents)


class _GeminiSession:
    # One session while it is read.

    def __init__(self, lines: SessionLines) -> None:
        self.builder = SessionBuilder(FORMAT, lines)
        # The way to the tip: the ids of messages, and those of their records.
        self.path: dict[str, str] = {}
        self.about: dict[str, Any] = {}
        # By record: the line it stands on, and its texts.
        self.said: dict[str, tuple[int, set[str]]] = {}
        self.called: set[str] = set()

    def load(self, agents: Mapping[str, SessionLines]) -> LoadedSession:
        for at, raw in self.builder.lines.objects:
            updated = raw.get("$set")
            if isinstance(raw.get("$rewindTo"), str):
                self._rewind_to(at, raw["$rewindTo"])
                self.builder.mark_read(at)
            elif is_map(updated):
                self._apply_update(at, updated)
                self.builder.mark_read(at)
            elif isinstance(raw.get("id"), str) and text_of(raw, "type") is not None:
                self._add_message(at, raw)
            elif "sessionId" in raw:
                self._apply_update(at, raw)
                self.builder.mark_read(at)
                if "messages" in raw:
                    self.builder.use(at)
                    self.builder.notes["document"] = {
                        key: raw[key] for key in raw if key != "messages"
                    }

        builder, about = self.builder, self.about
        builder.name = text_of(about, "sessionId")
        builder.title = text_of(about, "summary")
        times = {key: about.get(key) for key in ("startTime", "lastUpdated")}
        builder.times({"created": times["startTime"], "updated": times["lastUpdated"]})
        builder.load_agents(agents, load)
        return builder.build(next(reversed(self.path.values()), None))

    def _rewind_to(self, at: int, id: str) -> None:
        known = [*self.path]
        if id not in self.path:
            self.builder.problem(at, f"rewinds to {id!r}, which is missing")
            self.path = {}
            return

        self.path = {each: self.path[each] for each in known[: known.index(id)]}

    def _apply_update(self, at: int, changed: Body) -> None:
        self.about.update({k: v for k, v in changed.items() if k != "messages"})
        messages = changed.get("messages")
        if is_list(messages) and messages:
            self.path = {}
            for each in messages:
                if is_map(each) and isinstance(each.get("id"), str):
                    self._add_message(at, each, is_inner=True)
                else:
                    self.builder.problem(at, "has what is no message; kept as it is")
                    self.builder.keep(at, each)

    def _add_message(self, at: int, raw: Body, *, is_inner: bool = False) -> None:
        id, kind = raw["id"], text_of(raw, "type")
        if kind not in _SPOKEN:
            if kind not in _SILENT:
                self.builder.report_unread(at, raw)

            if is_inner:
                self.builder.keep(at, raw)

            return

        if is_inner and id in self.path:
            self.builder.problem(at, f"has the id {id} twice; taken as another")
            id = f"{id}~{len(self.path)}"

        messages = self._load_message(id, at, raw)
        if not messages:
            # Only results, which the calls before have.
            self.builder.mark_read(at)
            return

        record: str = self.path.get(id) or id
        before = [*self.path]
        if id in self.path:
            before = before[: before.index(id)]

        parent = self.path[before[-1]] if before else None

        said = {text for each in messages for text in texts_of(each)}
        older, before_it = self.said.get(record, (at, said))
        is_more = all(any(text in each for each in said) for text in before_it)
        if id not in self.path and self.builder.knows(id):
            if not is_more or self.builder.parent_of(id) != parent:
                # It was rewound, or is said again behind others or in other words.
                record = f"{id}~{at}"
        elif not is_more:
            # What grows is not kept twice, and what shrinks is not lost.
            self.builder.problem(at, f"says less than line {older}, which is kept")
            self.builder.unuse(older)

        self.said[record] = (at, said)
        self.builder.use(at)
        self.path[id] = record
        time, kept = read_time(raw.get("timestamp")), fold(raw, messages)
        self.builder.add(record, parent, messages, at, time, raw=kept)

    def _load_message(self, id: str, at: int, raw: Body) -> list[Message]:
        content, listed = raw.get("content"), list_in(raw, "toolCalls")
        self.called |= {text_of(each, "id") for each in listed if is_map(each)}
        blocks = content if is_list(content) else [content] if content else []
        # What a checkpoint has of calls and results stands in the list of calls, too.
        rest = [each for each in blocks if _find_call(each) not in self.called]
        parts = load_blocks(rest, _load_block)
        if text_of(raw, "type") == "user":
            is_empty = blocks and not rest
            return [] if is_empty else [UserMessage(simplify(parts))]

        for each in reversed(list_in(raw, "thoughts")):
            if is_map(each):
                words = (text_of(each, "subject"), text_of(each, "description"))
                parts.insert(0, ReasoningPart("\n".join(filter(None, words))))

        calls, results = [], []
        for number, each in enumerate(listed):
            if not is_map(each):
                continue

            call_id = text_of(each, "id") or f"{id}-{number}"
            calls.append(make_call(call_id, each.get("name"), each.get("args", {})))
            if (result := self._load_result(at, call_id, each)) is not None:
                results.append(result)

        model = text_of(raw, "model")
        tokens = raw.get("tokens")
        usage = _read_tokens(tokens) if is_map(tokens) else None
        if is_map(tokens) and self.builder.is_counted(usage, at):
            time = read_time(raw.get("timestamp"))
            self.builder.bill(id, usage, model, time, at)

        meta = ResponseMeta(usage=usage, model=model, id=id)
        answer = AssistantMessage(simplify(parts), tool_calls=calls, response=meta)
        return [answer, *results]

    def _load_result(self, at: int, call_id: str, call: Body) -> ToolMessage | None:
        status, result = text_of(call, "status"), call.get("result")
        if result is None:
            self.builder.problem(at, f"its call {call_id} has no result")
            return None

        parts: list[Part] = []
        blocks = result if is_list(result) else [result]
        for block in blocks:
            answer = block.get("functionResponse") if is_map(block) else None
            response = answer.get("response") if is_map(answer) else None
            if is_map(response):
                parts.append(TextPart(_read_response(response)))
            else:
                parts += load_blocks(block, _load_block)

        return ToolMessage(
            simplify(parts),
            tool_call_id=call_id,
            tool_name=text_of(call, "name"),
            is_error=status in _FAILED,
        )


def _find_call(block: Any) -> str | None:
    # The id of the call that *block* is or answers.
    named = [map_in(block, key) for key in _CALLS] if is_map(block) else []
    return next((id for each in named if (id := text_of(each, "id"))), None)


def _read_response(response: Body) -> str:
    for key in ("output", "error"):
        if response.keys() == {key} and isinstance(response[key], str):
            return str(response[key])

    return json.dumps(response, ensure_ascii=False)


def _load_block(block: Body, index: int | None) -> Part:
    if isinstance(block.get("text"), str):
        thought = block.get("thought") is True
        return (ReasoningPart if thought else TextPart)(block["text"], index=index)

    data, file = map_in(block, "inlineData"), map_in(block, "fileData")
    source = data.get("data") if data else file.get("fileUri")
    media = make_media(source, text_of(data or file, "mimeType"), index=index)
    return media or keep_unknown(block, index)


def _read_tokens(tokens: Body) -> Usage | None:
    counts = {key: tokens.get(key) or 0 for key in ("cached", "input", "output")}
    thought, tool = tokens.get("thoughts") or 0, tokens.get("tool") or 0
    given = (*counts.values(), thought, tool)
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in given):
        return None

    prompt, output = counts["input"] + tool, counts["output"] + thought
    return make_usage(prompt, output, cached=counts["cached"], thought=thought)
