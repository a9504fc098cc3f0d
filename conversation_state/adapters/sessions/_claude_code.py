"""
Sessions of Claude Code: lines of JSON that name their parents.

One response is several lines with one ``message.id``, each with the usage again;
results of parallel calls hang at their own calls; two lines with one parent are a
rewind; a compaction names what is before it as its logical parent only.

Source:
    ``_internal/sessions.py`` of claude-agent-sdk 0.2.189: which lines count, which
    leaf is live, and where results of parallel calls belong. Its
    ``get_session_messages`` ends at a compaction; here the path goes on behind it.
    What is sent of them: ``normalizeMessagesForAPI`` of Claude Code, as it has been
    published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from conversation_state._wording import shorten_repr
from conversation_state.adapters import anthropic
from conversation_state.adapters.engine.reading import is_list, is_map, text_of
from conversation_state.adapters.engine.usage import as_count
from conversation_state.adapters.engine.wire import read_time
from conversation_state.adapters.sessions._session import (
    COMPACTION,
    SOURCE,
    UNSENT,
    Body,
    Line,
    LoadedSession,
    SessionBuilder,
    SessionLines,
    map_in,
)
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    ToolMessage,
    UnknownMessage,
    read_caveat,
)

FORMAT = "claude_code"

_SPOKEN = frozenset({"assistant", "user"})
# What the SDK looks for the live leaf among.
_CHAINED = _SPOKEN | {"attachment", "progress", "system"}
# What a user writes while the model answers; it stands again where it is said: as a
# user's line, or, since 2.1.97, attached to the results that it was sent with.
_QUEUED = "queue-operation"
_ATTACHED = "queued_command"
# Titles, the best one last.
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}
_SYNTHETIC = "<synthetic>"
_UNFINISHED = frozenset({"redacted_thinking", "thinking"})


def recognize(raws: Iterable[Body]) -> bool:
    """Whether one of these lines is of Claude Code."""
    return any(
        ("parentUuid" in raw and "uuid" in raw and text_of(raw, "type") in _CHAINED)
        or (text_of(raw, "type") == "summary" and "leafUuid" in raw)
        for raw in raws
    )


def number_sessions(raws: Sequence[Body]) -> list[int]:
    """
    Which session each of *raws* is of, in a file with several.

    A session that was resumed or forked may have lines with the id of its source: all
    ids that parents connect are one.
    """
    said = [raw for raw in raws if text_of(raw, "type") in _SPOKEN]
    joined = {id: id for raw in said if (id := text_of(raw, "sessionId"))}

    def find(id: str) -> str:
        while joined[id] != id:
            id = joined[id] = joined[joined[id]]

        return id

    owners: dict[str, str] = {}  # of each line, by its id
    for key in ("uuid", "parentUuid", "logicalParentUuid"):
        for raw in raws:
            id, other = text_of(raw, "sessionId"), text_of(raw, key)
            if id in joined and other:
                if key == "uuid":
                    owners.setdefault(other, id)

                joined[find(id)] = find(owners.get(other, id))

    # A line without an id is of the session that it names, or of the one before.
    ids = {id: id for id in joined} | owners
    keys = ("sessionId", "uuid", "leafUuid", "messageId")
    numbers: dict[str, int] = {}
    before = next(iter(joined), "")
    found = []
    for raw in raws:
        before = next((ids[v] for k in keys if (v := text_of(raw, k)) in ids), before)
        root = find(before) if before else ""
        found.append(numbers.setdefault(root, len(numbers)))

    return found


def load(lines: SessionLines, agents: Mapping[str, SessionLines]) -> LoadedSession:
    """The session of *lines*, with the lines of its sub-agents by their ids."""
    return _ClaudeSession(lines, agents).load()


class _Chained(NamedTuple):
    # A line that has an id.
    at: int
    id: str
    raw: dict[str, Any]

    @property
    def is_spoken(self) -> bool:
        kind = text_of(self.raw, "type")
        if kind in _SPOKEN:
            return self.raw.get("isCompactSummary") is not True

        return bool(attached_prompt(self.raw))

    @property
    def message(self) -> Body:
        if prompt := attached_prompt(self.raw):
            return {"role": "user", "content": prompt}

        message = self.raw.get("message")
        return message if is_map(message) else {}

    def block_ids(self, kind: str, key: str) -> list[str]:
        content = self.message.get("content")
        blocks = content if is_list(content) else ()
        found = (
            each.get(key)
            for each in blocks
            if is_map(each) and text_of(each, "type") == kind
        )
        return [id for id in found if isinstance(id, str)]


class _Response:
    # The lines of one response, and those with the results of its calls.

    def __init__(self, key: str, first: _Chained) -> None:
        self.key = key
        self.lines = [first]
        self.results: list[_Chained] = []
        self.answered: set[str] = set()

    @property
    def id(self) -> str:
        return self.lines[0].id

    @property
    def end(self) -> str:
        return self.results[-1].id if self.results else self.id


class _ClaudeSession:
    # One session while it is read.

    def __init__(
        self,
        lines: SessionLines,
        agents: Mapping[str, SessionLines],
        *,
        agent: str = "",
    ) -> None:
        self.builder = SessionBuilder(FORMAT, lines)
        self.files = agents
        self.agent = agent
        # The lines with an id, by it, as they stand in the file; and those of agents.
        self.chained: dict[str, _Chained] = {}
        self.aside: list[tuple[int, dict[str, Any]]] = []
        # By what is wrong with lines whose id another one has: the first, and how many.
        self.repeats: dict[str, tuple[tuple[int, str], int]] = {}
        # By id: the parent, and how many are above.
        self.parents: dict[str, str | None] = {}
        self.order: list[str] = []
        self.orphans: set[str] = set()
        # Of each line: what was said before it, and the compaction between.
        self.nearest: dict[str | None, tuple[str | None, dict[str, Any]]] = {
            None: (None, {})
        }
        self.responses: dict[str, _Response] = {}  # by the id of each of their lines
        self.owners: dict[str, _Response] = {}  # by the id of each of their calls
        self.blocks: dict[str, _Response] = {}  # by the id of a line with results
        self.tools: dict[str, str] = {}
        self.called: dict[str, str] = {}  # agents, and the calls that started them
        self.keys: dict[str, str] = {}
        self.newest = 0

    def load(self) -> LoadedSession:
        self._sort_lines()
        self._link_lines()
        self._group_responses()
        self._place_results()
        for id in self.order:
            line = self.chained[id]
            response = self.responses.get(id)
            if response is None and line.is_spoken:
                self._add_line(line)
            elif response is not None and response.id == id:
                self._add_response(response)

        self._load_agents()
        return self.builder.build(self._find_head())

    # The lines

    def _sort_lines(self) -> None:
        builder, titles = self.builder, dict[str, str]()
        self.agent = self.agent or _find_agent(builder.lines)
        for at, raw in builder.lines.objects:
            kind = text_of(raw, "type")
            builder.name = builder.name or text_of(raw, "sessionId")
            builder.version = text_of(raw, "version") or builder.version
            builder.cwd = builder.cwd or text_of(raw, "cwd")
            if kind == "agent_metadata" and not self.agent:
                self.called.setdefault(
                    text_of(raw, "agentId"), text_of(raw, "toolUseId")
                )
                builder.use(at)

            if kind in _TITLES:
                titles[kind] = text_of(raw, _TITLES[kind]) or titles.get(kind, "")
                builder.mark_read(at)

            self._chain_line(at, kind, raw)

        self._check_queue()
        for (at, what), count in self.repeats.values():
            more = f" (and {count - 1:,} more like it)" if count > 1 else ""
            builder.problem(at, f"{what}{more}")

        for kind in _TITLES:
            builder.title = titles.get(kind) or builder.title

        if self.agent:
            builder.name = self.agent

    def _check_queue(self) -> None:
        lines = [line for line in self.chained.values() if line.is_spoken]
        said = "\n".join([_text_in(line.message.get("content")) for line in lines])
        for at, raw in self.builder.lines.objects:
            prompt = text_of(raw, "content") if text_of(raw, "type") == _QUEUED else ""
            if prompt and prompt.strip() not in said:
                what = "has a prompt that no message has; it is left out:"
                self._note_repeat(at, what, shorten_repr(prompt))

    def _chain_line(self, at: int, kind: str, raw: dict[str, Any]) -> None:
        id = raw.get("uuid")
        if kind in _SPOKEN and not (isinstance(id, str) and id):
            # Nothing that was said is left out because its id is missing.
            self.builder.problem(at, f"a line of type {kind} without uuid")
            id = f"line-{at}"

        if kind not in _CHAINED and kind != _QUEUED:
            self.builder.report_unread(at, raw)

        if not isinstance(id, str) or not id:
            return

        if raw.get("isSidechain") is True and not self.agent:
            self.aside.append((at, raw))
            return

        known = self.chained.get(id)
        if known is not None and _has_lost_parent(known.raw, raw):
            self._note_repeat(at, "repeats", f"line {known.at} without its parent")
            self.builder.mark_read(at)
            return

        if known is not None:
            del self.chained[id]
            same = _drop_origin(known.raw) == _drop_origin(raw)
            what = "repeats" if same else "has other content under the id of"
            self._note_repeat(at, what, f"line {known.at}; this one stands")
            if same:
                self.builder.mark_read(known.at)

        self.chained[id] = _Chained(at, id, raw)

    def _note_repeat(self, at: int, what: str, which: str) -> None:
        # A session that was forked or resumed may repeat thousands of lines.
        first, count = self.repeats.get(what, ((at, f"{what} {which}"), 0))
        self.repeats[what] = first, count + 1

    def _link_lines(self) -> None:
        self.newest = max([line.at for line in self.chained.values()], default=0)
        is_flat = self._is_flat()
        before: str | None = None
        for id, line in self.chained.items():
            raw = line.raw
            parent = before if is_flat else raw.get("parentUuid")
            if parent is None and (logical := raw.get("logicalParentUuid")) is not None:
                # The history goes on behind a compaction.
                is_here = isinstance(logical, str) and logical in self.chained
                parent = logical if is_here else before

            if parent is not None and (
                not isinstance(parent, str) or parent not in self.chained
            ):
                if not self.agent or before is not None:
                    self.builder.problem(line.at, f"its parent {parent!r} is missing")

                # Claude Code names lines that it never wrote.
                # Source: https://github.com/anthropics/claude-code/issues/22526
                self.orphans.add(id)
                parent = before

            self.parents[id] = parent
            before = id

        lines = {id: line.at for id, line in self.chained.items()}
        self.order = self.builder.order_by_parents(self.parents, lines)
        for id in self.order:
            above = self.parents[id]
            said, compaction = self.nearest[above]
            if above is not None and self.chained[above].is_spoken:
                said, compaction = above, {}

            line = self.chained[id]
            raw = line.raw
            compaction = _read_compaction(raw) or compaction
            if _read_compaction(raw) or raw.get("logicalParentUuid") is not None:
                self.builder.mark_read(line.at)

            self.nearest[id] = said, compaction

    def _is_flat(self) -> bool:
        # Whether no line has a parent: they stand behind one another.
        keys = ("parentUuid", "logicalParentUuid")
        spoken = [line for line in self.chained.values() if line.is_spoken]
        if len(spoken) < 2 or any(  # noqa: PLR2004 - one has nothing before it
            line.raw.get(key) for line in self.chained.values() for key in keys
        ):
            return False

        self.builder.problem(spoken[0].at, "no line has a parent; taken one by one")
        return True

    # Responses, and the results of their calls

    def _group_responses(self) -> None:
        groups: dict[str, list[_Response]] = {}
        for id in self.order:
            line = self.chained[id]
            if not line.is_spoken or text_of(line.raw, "type") != "assistant":
                continue

            message_id = text_of(line.message, "id")
            request = text_of(line.raw, "requestId")
            key = message_id or request or id
            known = groups.setdefault(f"{message_id}\n{request or id}", [])
            response = next(
                (g for g in known if self._continues_response(line, g)), None
            )
            if response is None:
                response = _Response(self._make_key(key, request, id), line)
                known.append(response)
            else:
                response.lines.append(line)

            self.responses[id] = response
            for call in line.block_ids("tool_use", "id"):
                self.owners.setdefault(call, response)

            content = line.message.get("content")
            for block in content if is_list(content) else ():
                if is_map(block) and text_of(block, "type") == "tool_use":
                    self.tools[text_of(block, "id")] = text_of(block, "name")

    def _make_key(self, key: str, request: str, id: str) -> str:
        # A second response of one id is another one.
        for other in (key, f"{key}:{request}", f"{key}:{id}"):
            if self.keys.setdefault(other, id) == id:
                return other

        return id

    def _continues_response(self, line: _Chained, response: _Response) -> bool:
        if line.id in self.orphans:
            return True

        before, _ = self.nearest[line.id]
        first, _ = self.nearest[response.id]
        if before == first:
            return True

        # Results may stand between, of the calls that were made so far.
        while before is not None:
            if self.responses.get(before) is response:
                return True

            other = self.chained[before]
            calls = other.block_ids("tool_result", "tool_use_id")
            if not calls or any(self.owners.get(c) is not response for c in calls):
                return False

            before, _ = self.nearest[before]

        return False

    def _place_results(self) -> None:
        inner = {parent for parent in self.parents.values() if parent is not None}
        for id, line in self.chained.items():
            calls = line.block_ids("tool_result", "tool_use_id")
            if text_of(line.raw, "type") != "user" or not calls:
                continue

            response = self.owners.get(calls[0])
            if response is None or any(
                self.owners.get(call) is not response for call in calls
            ):
                self.builder.problem(line.at, "has the result of a missing call")
                continue

            before, _ = self.nearest[id]
            is_beside = before is not None and self._is_of(response, before)
            if not response.answered.isdisjoint(calls):
                self.builder.problem(line.at, "answers a call that has a result")
            elif is_beside or id in self.orphans or id not in inner:
                response.answered.update(calls)
                response.results.append(line)
                self.blocks[id] = response

    def _find_place(self, id: str | None) -> str | None:
        # The record that stands before the line.
        before, _ = self.nearest[id]
        return None if before is None else self._end_of(before)

    def _end_of(self, id: str) -> str:
        # What comes behind a line stands behind all results of its response.
        response = self.responses.get(id) or self.blocks.get(id)
        return id if response is None else response.end

    # What they say

    def _add_response(self, response: _Response) -> None:
        lines, builder = response.lines, self.builder
        places = [self._find_outside(response, line.id) for line in lines]
        parent = next((each for each in places if each is not None), None)
        raw = dict(lines[-1].message)
        if len(lines) > 1:
            raw["content"] = [
                block for line in lines for block in _list_blocks(line.message)
            ]
            usages = [line.message.get("usage") for line in lines]
            raw["usage"] = max(usages, key=_count_output, default=None)
            reasons = [line.message.get("stop_reason") for line in lines]
            raw["stop_reason"] = next((r for r in reversed(reasons) if r), None)

        if not text_of(raw, "id"):
            raw["id"] = text_of(lines[0].raw, "requestId") or response.key

        first = lines[0]
        messages = [*self._load_messages(lines, "assistant", raw)]
        time = read_time(first.raw.get("timestamp"))
        answer = messages[0]
        meta = _read_meta(answer, raw)
        is_billed = not (
            raw.get("model") == _SYNTHETIC
            or first.raw.get("isApiErrorMessage") is True
            or self._is_coming(response, raw)
        )
        if meta is not None and meta.usage is not None:
            if is_billed:
                key, caveat = response.key, read_caveat(messages)
                builder.bill(key, meta.usage, meta.model, time, first.at, caveat=caveat)
            elif isinstance(answer, AssistantMessage):
                meta = attrs.evolve(meta, usage=None)
                messages = [answer.replace(response=meta)]

        self._add_node(response.id, parent, lines, messages)
        before: str | None = response.id
        for line in response.results:
            self._add_line(line, before)
            before = line.id

    def _find_outside(self, response: _Response, id: str) -> str | None:
        # The record that stands before a line of a response and is no part of it.
        before, _ = self.nearest[id]
        while before is not None and self._is_of(response, before):
            before, _ = self.nearest[before]

        return None if before is None else self._end_of(before)

    def _is_of(self, response: _Response, id: str) -> bool:
        # Whether a line is one of a response, or has the result of a call of it.
        return response in (self.responses.get(id), self.blocks.get(id))

    def _is_coming(self, response: _Response, raw: Body) -> bool:
        # A response that ends with a thought is not at its end.
        if raw.get("stop_reason") or response.results:
            return False

        if max(line.at for line in response.lines) < self.newest:
            return False

        blocks = _list_blocks(raw)
        last = blocks[-1] if blocks else {"type": "thinking"}
        return is_map(last) and text_of(last, "type") in _UNFINISHED

    def _add_line(self, line: _Chained, parent: str | None = None) -> None:
        if parent is None:
            if line.id in self.blocks:
                return

            parent = self._find_place(line.id)
            calls = line.block_ids("tool_result", "tool_use_id")
            before, _ = self.nearest[line.id]
            if calls and before is not None and before in self.responses:
                # Another result of a call is an alternative of the first one.
                parent = self.responses[before].id

        messages = self._load_messages([line], "user", line.message)
        self._add_node(line.id, parent, [line], messages)

    def _load_messages(
        self, lines: Sequence[_Chained], role: str, raw: Body
    ) -> Sequence[Message]:
        try:
            if role == "assistant":
                return anthropic.load({**raw, "role": role})

            loaded = anthropic.load([{**raw, "role": role}])
            if loaded:
                return [self._name_tool(message) for message in loaded]

            why = "a message without content"
        except DecodeError as error:
            why = str(error.problems[0])

        self.builder.problem(lines[0].at, f"can't be read: {why}")
        return [UnknownMessage(line.raw, source=SOURCE) for line in lines]

    def _name_tool(self, message: Message) -> Message:
        if isinstance(message, ToolMessage) and not message.tool_name:
            name = self.tools.get(message.tool_call_id, "")
            return message.replace(tool_name=name)

        return message

    def _add_node(
        self,
        id: str,
        parent: str | None,
        lines: Sequence[_Chained],
        messages: Sequence[Message],
    ) -> None:
        self.builder.use(*[line.at for line in lines])
        _, compaction = self.nearest[lines[0].id]
        kept = [_keep_line(line) for line in lines]
        first = lines[0]
        time = read_time(first.raw.get("timestamp"))
        raws = [line.raw for line in lines]
        notes = {
            "lines": kept,
            COMPACTION: self._add_kept(compaction),
            "hidden": all(raw.get("isMeta") is True for raw in raws),
            UNSENT: all(_is_error(raw) for raw in raws),
        }
        self.builder.add(id, parent, messages, first.at, time, **notes)
        for line in lines:
            result = line.raw.get("toolUseResult")
            agent = result.get("agentId") if is_map(result) else None
            calls = line.block_ids("tool_result", "tool_use_id")
            if isinstance(agent, str) and calls:
                self.called.setdefault(agent, calls[0])

    def _add_kept(self, compaction: dict[str, Any]) -> dict[str, Any]:
        # With what stays besides the summary, from one record up to another: the
        # boundary before the summary names the lines.
        here = self.parents.get(compaction.get("line", ""))
        about = map_in(self.chained[here].raw, "compactMetadata") if here else {}
        kept = map_in(about, "preservedSegment")
        head, first, end = text_of(kept, "headUuid"), "", ""
        while head in self.chained and here is not None:
            if here == kept.get("tailUuid"):
                end = first

            if self.chained[here].is_spoken:
                response = self.responses.get(here)
                first = here if response is None else response.id

            if here == head:
                return {**compaction, "first_kept": first, "first_replaced": end}

            here = self.parents[here]

        return compaction

    # The live branch

    def _find_head(self) -> str | None:
        lines = {
            id: line
            for id, line in self.chained.items()
            if text_of(line.raw, "type") in _CHAINED
        }
        inner = {text_of(line.raw, "parentUuid") for line in lines.values()}
        leaves: list[_Chained] = []
        for id, line in lines.items():
            if id in inner:
                continue

            here: _Chained | None = line
            seen: set[str] = set()
            while here is not None and here.id not in seen:
                if text_of(here.raw, "type") in _SPOKEN or here.is_spoken:
                    leaves.append(here)
                    break

                seen.add(here.id)
                here = lines.get(text_of(here.raw, "parentUuid"))

        main = [each for each in leaves if not _is_hidden(each.raw)]
        ends = main or leaves or list(self.chained.values())
        if not ends:
            return None

        order = {id: at for at, id in enumerate(self.chained)}
        leaf = max(ends, key=lambda each: order[each.id]).id
        compaction = _read_compaction(self.chained[leaf].raw)
        if compaction:
            self.builder.notes[COMPACTION] = self._add_kept(compaction)

        if not self.chained[leaf].is_spoken:
            return self._find_place(leaf)

        return self._end_of(leaf)

    # Sub-agents

    def _load_agents(self) -> None:
        found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        roots: dict[str, str] = {}
        for at, raw in self.aside:
            id = text_of(raw, "agentId")
            if not id:
                parent = text_of(raw, "parentUuid")
                own = text_of(raw, "uuid") or f"line-{at}"
                id = roots[own] = roots.get(parent, own)

            found.setdefault(id, []).append((at, raw))
            self.builder.use(at)

        for id, each in found.items():
            several = tuple(Line(at, raw) for at, raw in each)
            self._load_agent(id, SessionLines(several, ()))

        for id, file in self.files.items():
            self._load_agent(id, file, is_file=True)

    def _load_agent(
        self, id: str, lines: SessionLines, *, is_file: bool = False
    ) -> None:
        reader = _ClaudeSession(lines, {}, agent=id)
        if is_file:
            reader.builder.notes["file"] = True

        kinds = [(text_of(raw, "type"), raw) for _, raw in lines.objects]
        meta = [raw for kind, raw in kinds if kind == "agent_metadata"]
        call = text_of(meta[-1], "toolUseId") if meta else ""
        reader.builder.called_by = call or self.called.get(id) or self._find_call(lines)
        try:
            self.builder.agents.append(reader.load())
        except DecodeError as error:
            self.builder.problems.append(f"sub-agent {id}: {error.problems[0]}")
            for line in lines.lines:
                kept = self.builder.notes.setdefault("agents", {}).setdefault(id, [])
                kept.append({"at": line.at, "line": line.raw or line.text})

    def _find_call(self, lines: SessionLines) -> str:
        # The call whose prompt it begins with, where nothing else says it.
        first = next((raw for _, raw in lines.objects if "message" in raw), {})
        message = first.get("message")
        prompt = _text_in(message.get("content")) if is_map(message) else ""
        for line in self.chained.values():
            for block in _list_blocks(line.message):
                given = block.get("input") if is_map(block) else None
                if prompt and is_map(given) and given.get("prompt") == prompt:
                    return text_of(block, "id")

        return ""


def _has_lost_parent(known: Body, raw: Body) -> bool:
    """
    Whether *raw* says again what *known* says, and no longer behind what.

    Source:
        https://github.com/anthropics/claude-code/issues/48936, on forks.
    """
    is_cut = raw.get("parentUuid") is None is not known.get("parentUuid")
    return is_cut and raw.get("message") == known.get("message") is not None


def _drop_origin(raw: Body) -> dict[str, Any]:
    # Forks have lines twice, once with what they are a copy of.
    return {k: raw[k] for k in raw if k not in {"forkedFrom", "sessionId"}}


def attached_prompt(raw: Body) -> Any:
    """What a user wrote while the model answered, if *raw* attaches it; else None."""
    attached = raw.get("attachment")
    if text_of(raw, "type") == "attachment" and is_map(attached):
        return attached.get("prompt") if attached.get("type") == _ATTACHED else None

    return None


def _find_agent(lines: SessionLines) -> str:
    # The agent of a file that has one sub-agent's lines only, read by itself.
    said = [raw for _, raw in lines.objects if text_of(raw, "type") in _SPOKEN]
    agents = {text_of(raw, "agentId") for raw in said if raw.get("isSidechain") is True}
    is_alone = len(agents) == 1 and all(raw.get("isSidechain") is True for raw in said)
    return agents.pop() if is_alone else ""


def _is_hidden(raw: Body) -> bool:
    return any(raw.get(key) for key in ("isSidechain", "teamName", "isMeta"))


def _is_error(raw: Body) -> bool:
    # Of what the interface says, the only messages that Claude Code does not send;
    # what is meta, commands and what they print among it, it does.
    message = raw.get("message")
    model = message.get("model") if is_map(message) else None
    return raw.get("isApiErrorMessage") is True and model == _SYNTHETIC


def _read_compaction(raw: Body) -> dict[str, Any]:
    if raw.get("isCompactSummary") is True:
        message = raw.get("message")
        content = message.get("content") if is_map(message) else ""
        return {"summary": _text_in(content), "line": text_of(raw, "uuid")}

    return {}


def _text_in(content: Any) -> str:
    if isinstance(content, str):
        return content

    blocks = content if is_list(content) else ()
    return "\n".join(text_of(each, "text") for each in blocks if is_map(each))


def _read_meta(answer: Message, raw: Body) -> ResponseMeta | None:
    # Of an answer that can't be read, too: it was paid for.
    if isinstance(answer, AssistantMessage):
        return answer.response

    try:
        usage = anthropic.load_usage({"usage": raw.get("usage")})
    except DecodeError:
        return None

    return ResponseMeta(usage=usage, model=text_of(raw, "model"))


def _list_blocks(message: Body) -> list[Any]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []

    return [*content] if is_list(content) else []


def _count_output(usage: Any) -> tuple[int, bool]:
    count = as_count(usage.get("output_tokens")) if is_map(usage) else None
    return count or 0, is_map(usage)


def _keep_line(line: _Chained) -> dict[str, Any]:
    # All of a line but what its message says.
    message = line.raw.get("message")
    raw = {key: value for key, value in line.raw.items() if key != "message"}
    kept: dict[str, Any] = {"at": line.at, "keys": raw}
    if attached_prompt(raw):
        attached = {k: v for k, v in raw["attachment"].items() if k != "prompt"}
        raw["attachment"] = attached
    elif is_map(message):
        kept["message"] = {k: v for k, v in message.items() if k != "content"}

    if is_list(content := line.message.get("content")):
        kept["blocks"] = len(content)

    return kept
