"""Chunks of a UI message stream."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

import attrs

from conversation_state.adapters.ai_sdk._load import (
    SOURCE,
    WHOLE,
    UiLoader,
    UiStep,
    parse_json,
)
from conversation_state.adapters.engine.notes import (
    RESERVED,
    notes_of,
    with_notes,
    without_empty,
)
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_map,
    mended,
)
from conversation_state.adapters.engine.streaming import (
    SurrogateBuffer,
    achunks_of,
    check_event,
    chunks_of,
)
from conversation_state.adapters.engine.ui import INTERRUPTED, read_own
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    ToolMessage,
)
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.tree import name as name_message

_REASONS = {"content-filter": "content_filter", "tool-calls": "tool_calls"}
# The keys of an event that are those of a call's part.
_OF_CALL = ("errorText", "input", "providerExecuted", "title", "toolMetadata")
_OF_RESULT = ("errorText", "output", "preliminary")
# The keys of an approval's request, as its part has them.
_APPROVAL = {
    "approvalId": "id",
    "approvalDescriptor": "descriptor",
    "inputSchemaInput": "inputSchemaInput",
    "isAutomatic": "isAutomatic",
    "reason": "requestReason",
    "signature": "signature",
}


def load_chunks(events: Iterable[Any]) -> Iterator[Message]:
    """
    The chunks that the *events* of a message bring, as they come, for `concat`.

    The results of a step come as whole messages behind its response, and so does what
    a user says meanwhile (``steering-message``); chunks between them are of one message
    each. What begins while a text or thought is open waits until that ends, so that
    each is one part; but a text does not wait for a thought. Data with an
    id comes with the last chunk of its response, since later events may replace it. A
    response that is aborted, broken off (within a call, say) or restarted ends with the
    reason ``interrupted``.

    Raises:
        ProviderStreamError: If the answer failed (``error``).
        DecodeError: If an event is not what the format has.

    >>> from conversation_state.chunks import concat
    >>> event = {"id": "t0", "delta": "Hi"}
    >>> kinds = ("text-start", "text-delta", "text-end")
    >>> answer = [{"type": kind, **event} for kind in kinds]
    >>> concat(load_chunks(answer)).text
    'Hi'
    """
    return chunks_of(_AnswerReader(), events, own=SOURCE)  # type: ignore[arg-type]  # and results


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[Message]:
    """What `load_chunks` gives, of events that are waited for."""
    return achunks_of(_AnswerReader(), events, own=SOURCE)  # type: ignore[arg-type]  # and results


@attrs.define(eq=False)
class _Piece:
    """A text, thought or call while its pieces come."""

    index: int
    made: Any  # a class of part, or the name of a tool
    is_open: bool = True
    text: str = ""
    buffer: SurrogateBuffer = attrs.field(factory=SurrogateBuffer)
    given: dict[str, Any] = attrs.field(factory=dict)  # what its part has, so far
    held: list[Message] | None = None  # chunks that wait for what began before
    is_passed: bool = False  # a thought that a text did not wait for

    @property
    def is_open_call(self) -> bool:
        """Whether it is a call that has not ended."""
        return self.is_open and isinstance(self.made, str)

    def note(self, event: ObjectReader, *keys: str) -> None:
        """Keep what *event* has under *keys*: the latest of each stands."""
        self.given |= {key: event.raw[key] for key in keys if key in event.raw}

    def next(self, delta: str, *, is_last: bool = False) -> list[Message]:
        """The chunk of what comes next."""
        new = self.buffer.next(delta) + (self.buffer.rest() if is_last else "")
        if not new:
            return []

        self.text += new
        if isinstance(self.made, str):
            call = ToolCall("", "", new, index=self.index)
            return [AssistantMessage(tool_calls=[call])]

        return [AssistantMessage([self.made(new, index=self.index)])]


class _AnswerReader:
    """A message's events while they are read."""

    def __init__(self) -> None:
        self._reader = DocumentReader()
        self._message_id = ""
        self._metadata: dict[str, Any] = {}
        self._others: list[Any] = []  # events that no version has
        self._tools: dict[str, str] = {}  # of all calls, by id
        self._approvals: dict[str, dict[str, Any]] = {}  # of all calls, by id
        self._has_read = False
        self._forget_response()

    def _forget_response(self) -> None:
        self._is_begun = False  # by anything
        self._is_step = False  # by its event, and not ended
        self._without = ["step-start"]
        self._count = self._thoughts = 0
        self._pieces: dict[str, _Piece] = {}
        self._held: deque[_Piece] = deque()
        self._asked: set[str] = set()  # calls whose approval was asked for here
        self._data: dict[tuple[str, str], Any] = {}
        self._results: dict[str, ToolMessage] = {}

    def read(self, event: Any, path: str) -> Iterator[Message]:
        check_event(self._reader, event, path)
        node = ObjectReader(self._reader, event, path)
        kind = node.text("type")
        self._has_read = True
        family, _, step = kind.rpartition("-")
        made: list[Message] = []
        if kind == "error":
            text = event.get("errorText")
            reason = mended(text) if isinstance(text, str) else "no reason given"
            raise ProviderStreamError(reason, event)

        if kind in _STEPS:
            made = _STEPS[kind](self, node)
        elif kind in _PARTS or kind[:5] == "data-":
            made = self._read_part(node, kind)
        elif family in ("text", "reasoning") and step in ("start", "delta", "end"):
            made = self._read_text(node, family, step)
        elif kind[:11] == "tool-input-":
            made = self._read_call(node, step)
        elif kind[:12] == "tool-output-":
            made = self._read_result(node, kind[5:])
        elif kind:
            self._others.append(self._reader.json(event, path))

        # What could be read is given, whatever else is wrong.
        yield from made
        self._reader.finish()

    # What begins and ends

    def _start_message(self, node: ObjectReader) -> list[Message]:
        self._message_id = node.nullable("messageId") or self._message_id
        return self._read_metadata(node)

    def _read_metadata(self, node: ObjectReader) -> list[Message]:
        given = node.raw.get("messageMetadata")
        if is_map(given):
            path = f"{node.path}.messageMetadata"
            whole = _merge_objects(self._metadata, self._reader.json(given, path))
            self._metadata = whole

        return []

    def _start_step(self, _: ObjectReader) -> list[Message]:
        made = self._end_response("")
        self._is_begun = self._is_step = True
        self._without = []
        return made

    def _finish_step(self, _: ObjectReader) -> list[Message]:
        # Why it ended, and metadata, may still come.
        self._is_step = False
        return []

    def _reset_step(self, _: ObjectReader) -> list[Message]:
        self._results.clear()
        made = self._end_response(INTERRUPTED)
        self._is_begun = self._is_step = True
        self._without = []
        return made

    def _finish_message(self, node: ObjectReader) -> list[Message]:
        self._read_metadata(node)
        reason = node.nullable("finishReason")
        return self._end_response(_REASONS.get(reason, reason))

    def _abort_message(self, _: ObjectReader) -> list[Message]:
        return self._end_response(INTERRUPTED)

    def end(self, *, broken: bool) -> Iterator[Message]:
        """The last chunk."""
        is_open = self._is_step or any(each.is_open for each in self._pieces.values())
        is_broken = broken and (is_open or not self._has_read)
        self._is_begun = self._is_begun or is_broken
        yield from self._end_response(INTERRUPTED if is_broken else "")

    def _end_response(self, reason: str) -> list[Message]:
        """The last chunk of a response, the results behind it, and forget it."""
        if not self._is_begun:
            return [*self._results.values()]

        made = []
        open_calls = {key for key, piece in self._pieces.items() if piece.is_open_call}
        if not open_calls <= self._results.keys():
            reason = INTERRUPTED

        for piece in self._pieces.values():
            piece.is_open = False
            made += self._hold_chunks(piece, piece.next("", is_last=True))

        made += self._release_chunks()
        parts = [self._give_index(part) for part in self._data.values()]
        states = {call_id: self._write_approval(call_id) for call_id in self._asked}
        if reason == INTERRUPTED:  # but not within these calls
            whole = self._tools.keys() - open_calls - self._results.keys()
            states = {key: {"state": WHOLE} for key in sorted(whole)} | states

        calls = [
            ToolCall(
                *("", "", ""),
                index=self._pieces[call_id].index,
                metadata=with_notes(SOURCE, notes),
            )
            for call_id, notes in states.items()
            if call_id in self._pieces
        ]
        own = self._metadata.pop(RESERVED, None)
        usage = own.get("usage") if is_map(own) else None
        keys = {"metadata": dict(self._metadata)} if self._metadata else {}
        events = {"others": [*self._others]} if self._others else {}
        notes = without_empty(
            {"usage": usage, "keys": keys, "event": events, "without": self._without}
        )
        last = AssistantMessage(
            parts,
            tool_calls=calls,
            response=ResponseMeta(reason) if reason else None,
            metadata=with_notes(SOURCE, notes),
        )
        if self._message_id:
            last = name_message(last, self._message_id)

        results = [*self._results.values()]
        self._message_id = ""  # which the first response alone has
        self._metadata = {}
        self._others.clear()
        self._forget_response()
        return [*made, last, *results]

    def _give_index(self, part: Any) -> Any:
        placed = attrs.evolve(part, index=self._count)
        self._count += 1
        return placed

    # Texts and other parts

    def _read_text(self, node: ObjectReader, kind: str, step: str) -> list[Message]:
        piece_id = node.text("id")
        key = f"{kind} {piece_id}"
        self._is_begun = True
        if step == "start":
            return self._open_text(node, kind, key)

        piece = self._pieces.get(key)
        if piece is None or not piece.is_open:
            if step == "delta" and not self._reader.count:
                # A stream that is read again may lack the start.
                # Source: https://github.com/vercel/workflow/pull/2537
                begun = self._open_text(node, kind, key)
                return [*begun, *self._read_text(node, kind, step)]

            if not self._reader.count:
                node.wrong("id", "the id of what was started")

            return []

        piece.note(node, "providerMetadata")
        if step == "delta":
            return self._hold_chunks(piece, piece.next(_read_delta(node, "delta")))

        piece.is_open = False
        raw = {"type": kind, "text": "", "state": "done", "id": "r0"}
        piece.note(node, "citations")
        raw |= piece.given
        if kind == "text":
            del raw["id"]

        loader = UiLoader()
        part: Any = loader.read_part(ObjectReader(loader, raw, node.path), "assistant")
        loader.finish()
        made = piece.next("", is_last=True)
        if part.metadata or getattr(part, "signature", "") or loader.sender:
            # The class is the one that it was begun as.
            more = {"signature": part.signature} if kind == "reasoning" else {}
            end = piece.made("", index=piece.index, metadata=part.metadata, **more)
            made.append(AssistantMessage([end], name=loader.sender))

        return [*self._hold_chunks(piece, made), *self._release_chunks()]

    def _open_text(self, node: ObjectReader, kind: str, key: str) -> list[Message]:
        made: Any = TextPart if kind == "text" else ReasoningPart
        own = node.raw.get("providerMetadata")
        own = own.get(RESERVED) if is_map(own) else None
        if is_map(own) and own.get("refusal") is True and kind == "text":
            made = RefusalPart

        notes = {}
        if kind == "reasoning":  # at once: what comes late is a part of its own
            piece_id, usual = node.text("id"), f"r{self._thoughts}"
            notes = {} if piece_id == usual else {"id": piece_id}
            self._thoughts += 1

        part = self._give_index(made("", metadata=with_notes(SOURCE, notes)))
        piece = self._pieces[key] = _Piece(part.index, made)
        piece.note(node, "providerMetadata")
        return self._begin_piece(piece, AssistantMessage([part]))

    def _begin_piece(self, piece: _Piece, first: Message) -> list[Message]:
        made: list[Message] = []
        if piece.is_open and piece.made is not ReasoningPart:
            # A text need not wait for a thought: many servers end both at the very end.
            for each in self._pieces.values():
                each.is_passed = each.is_passed or each.made is ReasoningPart

            made = self._release_chunks()

        if self._held or self._is_blocked(piece):
            piece.held = [first]
            self._held.append(piece)
            return made

        return [*made, first]

    def _is_blocked(self, piece: _Piece) -> bool:
        return any(
            each.is_open and each.held is None and not each.is_passed
            for each in self._pieces.values()
            if each is not piece and not isinstance(each.made, str)
        )

    def _hold_chunks(self, piece: _Piece, made: list[Message]) -> list[Message]:
        """*made*, or nothing if these chunks wait for an earlier text to end."""
        if piece.held is None:
            return made

        piece.held += made
        return []

    def _release_chunks(self) -> list[Message]:
        """The chunks that wait for no text any more."""
        made: list[Message] = []
        while self._held and not self._is_blocked(self._held[0]):
            piece = self._held.popleft()
            made += piece.held or []
            piece.held = None

        return made

    def _read_part(self, node: ObjectReader, kind: str) -> list[Message]:
        loader = UiLoader()
        if kind == "steering-message":
            made = self._end_response("")
            said = loader.read_steering(ObjectReader(loader, node.raw, node.path))
            loader.finish()
            return [*made, said]

        if kind[:5] == "data-" and node.raw.get("transient") is True:
            return []

        self._is_begun = True
        part = loader.read_part(ObjectReader(loader, node.raw, node.path), "assistant")
        loader.finish()
        if kind[:5] == "data-" and isinstance(node.raw.get("id"), str):
            self._data[kind, node.raw["id"]] = part
            return []

        part = self._give_index(part)
        piece = _Piece(part.index, part.__class__, is_open=False)
        return self._begin_piece(piece, AssistantMessage([part], name=loader.sender))

    # Calls and results

    def _read_call(self, node: ObjectReader, step: str) -> list[Message]:
        call_id = node.text("toolCallId")
        piece = self._pieces.get(call_id)
        if step == "delta":
            if piece is None and not self._reader.count:
                node.wrong("toolCallId", "the id of a call that was started")

            # A server that goes on with an answer may repeat a call.
            if piece is None or not piece.is_open:
                return []

            return piece.next(_read_delta(node, "inputTextDelta"))

        tool = node.text("toolName")
        if self._reader.count:
            return []

        self._is_begun = True
        self._tools[call_id] = tool
        if step == "start" and (piece is None or piece.is_open):
            is_static = node.raw.get("dynamic") is not True
            metadata = with_notes(SOURCE, {"static": True} if is_static else {})
            own = read_own(node, "providerMetadata")
            made: Any = ToolCall(call_id, tool, "", metadata=metadata)
            if isinstance(own.get("type"), str):
                made = attrs.evolve(made, type=mended(own["type"]))

            call = self._give_index(made)
            piece = self._pieces[call_id] = _Piece(call.index, tool)
            piece.note(node, *_OF_CALL, "providerMetadata")
            return [AssistantMessage(tool_calls=[call])]

        if step == "start":
            return []

        return self._end_call(node, call_id, piece, is_error=step == "error")

    def _end_call(
        self, node: ObjectReader, call_id: str, piece: _Piece | None, *, is_error: bool
    ) -> list[Message]:
        tool = self._tools[call_id]
        is_static = node.raw.get("dynamic") is not True
        raw: dict[str, Any] = {"type": f"tool-{tool}" if is_static else "dynamic-tool"}
        raw |= {"toolName": tool, "toolCallId": call_id}
        raw["state"] = "output-error" if is_error else "input-available"
        given = {**(piece.given if piece else {}), **node.raw}
        raw |= {key: given[key] for key in _OF_CALL if key in given}
        if "providerMetadata" in given:
            raw["callProviderMetadata"] = given["providerMetadata"]

        loader, step = UiLoader(), UiStep()
        loader.read_tool(ObjectReader(loader, raw, node.path), step)
        loader.finish()
        self._results |= {each.tool_call_id: each for each in step.results}
        if not step.calls:  # of a result that has none
            return []

        call = step.calls[0]
        if piece is None:
            self._pieces[call_id] = _Piece(
                self._count, tool, is_open=False, text=call.arguments
            )
            made = AssistantMessage(
                tool_calls=[self._give_index(call)], name=loader.sender
            )
            return [made]

        piece.is_open = False
        found = piece.next("", is_last=True)
        if not piece.text:
            found += piece.next(call.arguments)

        notes = {**notes_of(call.metadata, SOURCE)}
        notes.pop("static", None)  # said when it began
        if piece.text and parse_json(piece.text) != parse_json(call.arguments):
            notes["input"] = [piece.text, call.arguments]

        end = ToolCall(
            "", "", "", index=piece.index, metadata=with_notes(SOURCE, notes)
        )
        if notes or loader.sender:
            found.append(AssistantMessage(tool_calls=[end], name=loader.sender))

        return found

    def _read_result(self, node: ObjectReader, state: str) -> list[Message]:
        call_id = node.text("toolCallId")
        tool = self._tools.get(call_id, "")
        raw: dict[str, Any] = {"type": "dynamic-tool", "toolName": tool, "state": state}
        raw |= {key: node.raw[key] for key in _OF_RESULT if key in node.raw}
        raw |= {"toolCallId": call_id, "input": {}}
        raw["approval"] = self._approvals.get(call_id, {})
        if "providerMetadata" in node.raw:
            raw["resultProviderMetadata"] = node.raw["providerMetadata"]

        loader, step = UiLoader(), UiStep()
        loader.read_tool(ObjectReader(loader, raw, node.path), step)
        for problem in loader.problems:
            self._reader.problem(problem.path, problem.what)

        if loader.problems:
            return []

        # It may be preliminary, and it may come before other calls of its response.
        if self._is_begun:
            self._results |= {each.tool_call_id: each for each in step.results}
            return []

        return [*step.results]

    def _ask_approval(self, node: ObjectReader) -> list[Message]:
        call_id = node.text("toolCallId")
        given = {key: node.raw[key] for key in _APPROVAL if key in node.raw}
        self._approvals[call_id] = {
            _APPROVAL[key]: self._reader.json(value, f"{node.path}.{key}")
            for key, value in given.items()
        }
        self._asked.add(call_id)
        return []

    def _give_approval(self, node: ObjectReader) -> list[Message]:
        approval_id = node.text("approvalId")
        for approval in self._approvals.values():
            if approval.get("id") == approval_id:
                approval["approved"] = node.raw.get("approved") is True
                if node.raw.get("reason") is not None:
                    approval["reason"] = node.text("reason")

        return []

    def _write_approval(self, call_id: str) -> Mapping[str, Any]:
        approval = self._approvals[call_id]
        state = "responded" if "approved" in approval else "requested"
        return {"state": f"approval-{state}", "keys": {"approval": approval}}


def _read_delta(node: ObjectReader, key: str) -> str:
    # As it is: the other half of a surrogate pair may come with the next one.
    delta = node.raw.get(key)
    if not isinstance(delta, str):
        node.wrong(key, "a text")
        return ""

    return delta


def _merge_objects(old: Any, new: Mapping[str, Any]) -> dict[str, Any]:
    # Lists are replaced, as the SDK does.
    merged = {**old, **new}
    for key, value in new.items():
        if is_map(value) and is_map(old.get(key)):
            merged[key] = _merge_objects(old[key], value)

    return merged


_STEPS: Mapping[str, Any] = {
    "abort": _AnswerReader._abort_message,
    "finish": _AnswerReader._finish_message,
    "finish-step": _AnswerReader._finish_step,
    "message-metadata": _AnswerReader._read_metadata,
    "reset-step": _AnswerReader._reset_step,
    "start": _AnswerReader._start_message,
    "start-step": _AnswerReader._start_step,
    "tool-approval-request": _AnswerReader._ask_approval,
    "tool-approval-response": _AnswerReader._give_approval,
}
_PARTS = frozenset(
    {
        *("custom", "file", "reasoning-file", "source-document", "source-url"),
        "steering-message",
    }
)
