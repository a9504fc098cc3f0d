"""Events of a response, of a run, and of what changed in a state."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from conversation_state._canonical import dump as dump_json
from conversation_state._wording import shorten_repr
from conversation_state.adapters.ag_ui._dump import AgUiWriter, is_words
from conversation_state.adapters.engine.ui import (
    INTERRUPTED,
    OutgoingCall,
    OutgoingCalls,
    aevents_of,
    events_of,
    is_cut_off,
    write_usage,
)
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.errors import ConversationStateError
from conversation_state.messages import AssistantMessage, Message, ToolMessage
from conversation_state.parts import ReasoningPart, TextPart
from conversation_state.tools import ToolCall
from conversation_state.tree import ui_id_of
from conversation_state.usage import Usage

# Keys that JavaScript's patch libraries refuse in a path.
_UNSAFE = ("__proto__", "constructor", "prototype")


def dump_chunks(
    chunks: Iterable[Message], *, message_id: str
) -> Iterator[dict[str, Any]]:
    """
    The events of an answer, as its *chunks* come: of a response, or of several with
    whole results between them.

    A client's own reducer makes of them what `dump` makes of the message that the
    chunks are (`concat`), named *message_id*. A result, and a response whose first
    chunk, is named (`conversation_state.tree.name`) has that id; others behind the
    first response have one that is made of *message_id*. Whatever *chunks* raise is
    raised after everything that is open was closed, but for the calls of an answer that
    was cut off: a client runs a call at its ``TOOL_CALL_END``.

    >>> events = dump_chunks([AssistantMessage("Hi")], message_id="m")
    >>> [event["type"] for event in events]
    ['TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END']
    """
    return events_of(_RunWriter(message_id), chunks)


def adump_chunks(
    chunks: AsyncIterable[Message], *, message_id: str
) -> AsyncIterator[dict[str, Any]]:
    """What `dump_chunks` gives, of chunks that are waited for."""
    return aevents_of(_RunWriter(message_id), chunks)


class _RunWriter:
    """An answer while it is written: a writer for each of its responses."""

    def __init__(self, message_id: str) -> None:
        self._id = message_id
        self._count = 0  # of messages
        self._response: _ResponseWriter | None = None

    def begin(self) -> Iterable[dict[str, Any]]:
        return ()

    def read(self, message: Message) -> Iterator[dict[str, Any]]:
        if isinstance(message, ToolMessage):
            yield from self._end_response(None)
            yield dump_result(message, message_id=self._choose_id(message))
        elif isinstance(message, AssistantMessage):
            if self._response is None:
                self._response = _ResponseWriter(self._choose_id(message))

            yield from self._response.read(message)
        else:
            expected = "chunks of AssistantMessages and whole ToolMessages"
            raise TypeError(f"expected {expected}, got {shorten_repr(message)}")

    def end(self, failure: Exception | None) -> Iterator[dict[str, Any]]:
        # An answer without a word is one all the same.
        if not self._count:
            self._response = _ResponseWriter(self._id)

        yield from self._end_response(failure)
        if failure is not None:
            raise failure

    def _end_response(self, failure: Exception | None) -> Iterator[dict[str, Any]]:
        response, self._response = self._response, None
        if response is not None:
            yield from response.end(failure)

    def _choose_id(self, message: Message) -> str:
        self._count += 1
        made = self._id if self._count == 1 else f"{self._id}:{self._count}"
        return ui_id_of(Entry("", message)) or made


class _ResponseWriter:
    """One response while it is written."""

    def __init__(self, message_id: str) -> None:
        self._id = message_id
        self._has_answer = False  # whether the client has made the message
        # What is open: "" or the kind; and the kind and index of the last part, which
        # a piece of the same continues.
        self._open = ""
        self._last: tuple[Any, int | None] | None = None
        self._thoughts = 0
        self._signature = ""
        self._name = self._reason = ""
        self._calls = OutgoingCalls()

    def read(self, chunk: AssistantMessage) -> Iterator[dict[str, Any]]:
        self._name = self._name or chunk.name
        if isinstance(chunk.content, str):
            if chunk.content:
                yield from self._read_part(TextPart(chunk.content))
        else:
            for part in chunk.content:
                yield from self._read_part(part)

        for call in chunk.tool_calls:
            yield from self._read_call(call)

        if chunk.response is not None:
            self._reason = chunk.response.finish_reason or self._reason

    def end(self, failure: Exception | None) -> Iterator[dict[str, Any]]:
        for call in self._calls.all:
            if not call.sent_as:
                yield from self._start_call(call)

        yield from self._close_piece()
        # A client runs a call at its end.
        is_cut = is_cut_off(self._reason, failure)
        for call in () if is_cut else self._calls.all:
            yield {"type": "TOOL_CALL_END", "toolCallId": call.sent_as}

        if not self._has_answer:
            yield from self._open_text()
            yield from self._close_piece()

    def _read_part(self, part: Any) -> Iterator[dict[str, Any]]:
        spot = part.__class__, part.index
        is_new, self._last = spot != self._last, spot
        if isinstance(part, ReasoningPart):
            if is_new:
                yield from self._close_piece()
                self._thoughts += 1

            if self._open != "reasoning":
                yield from self._close_piece()
                self._open = "reasoning"
                yield self._of_thought("REASONING_START")
                yield self._of_thought("REASONING_MESSAGE_START", role="reasoning")

            if part.text:
                yield self._of_thought("REASONING_MESSAGE_CONTENT", delta=part.text)

            self._signature = part.signature or self._signature
        elif is_words(part) and part.text:
            if self._open != "text":
                yield from self._close_piece()
                yield from self._open_text()

            content = {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._id}
            yield {**content, "delta": part.text}

    def _of_thought(self, kind: str, **fields: str) -> dict[str, Any]:
        thought = f"{self._id}:r{self._thoughts - 1}"
        return {"type": kind, "messageId": thought, **fields}

    def _open_text(self) -> Iterator[dict[str, Any]]:
        self._open, self._has_answer = "text", True
        name = {"name": self._name} if self._name else {}
        start = {"type": "TEXT_MESSAGE_START", "messageId": self._id}
        yield {**start, "role": "assistant", **name}

    def _close_piece(self) -> Iterator[dict[str, Any]]:
        was, self._open = self._open, ""
        if was == "text":
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._id}
        elif was:
            yield self._of_thought("REASONING_MESSAGE_END")
            if self._signature:
                yield {
                    "type": "REASONING_ENCRYPTED_VALUE",
                    "subtype": "message",
                    "entityId": f"{self._id}:r{self._thoughts - 1}",
                    "encryptedValue": self._signature,
                }
                self._signature = ""

            yield self._of_thought("REASONING_END")

    def _read_call(self, piece: ToolCall) -> Iterator[dict[str, Any]]:
        call = self._calls.read(piece)
        if call.sent_as:
            if piece.arguments:
                yield self._write_arguments(call, piece.arguments)
        elif call.id and call.name:
            yield from self._start_call(call)

    def _start_call(self, call: OutgoingCall) -> Iterator[dict[str, Any]]:
        yield from self._close_piece()
        self._has_answer = True
        yield {
            "type": "TOOL_CALL_START",
            "toolCallId": self._calls.name(call, self._id),
            "toolCallName": call.name,
            "parentMessageId": self._id,
        }
        if call.arguments:
            yield self._write_arguments(call, call.arguments)

    def _write_arguments(self, call: OutgoingCall, delta: str) -> dict[str, Any]:
        return {"type": "TOOL_CALL_ARGS", "toolCallId": call.sent_as, "delta": delta}


def dump_result(message: ToolMessage, *, message_id: str) -> dict[str, Any]:
    """
    The event of a result. It has no field for a failure, so the flag and the tool's
    name stand in its metadata, from where `load` reads them.

    >>> dump_result(ToolMessage("6:40", tool_call_id="c1"), message_id="m2")
    {'type': 'TOOL_CALL_RESULT', 'messageId': 'm2', 'toolCallId': 'c1', \
'content': '6:40', 'role': 'tool'}
    """
    if not isinstance(message, ToolMessage):
        shown = shorten_repr(message)
        raise TypeError(f"dump_result takes a ToolMessage, got {shown}")

    writer = AgUiWriter()
    writer.add(message, "messages[0]", message_id)
    (item,) = writer.items
    event = {
        "type": "TOOL_CALL_RESULT",
        "messageId": message_id,
        "toolCallId": item["toolCallId"],
        "content": item["content"],
        "role": "tool",
    }
    return event | ({"metadata": item["metadata"]} if "metadata" in item else {})


def wrap_run(
    events: Iterable[Mapping[str, Any]],
    *,
    thread_id: str,
    run_id: str,
    parent_run_id: str | None = None,
    usage: Iterable[Mapping[str, Any]] = (),
) -> Iterator[dict[str, Any]]:
    """
    *events* as a run: ``RUN_STARTED`` before them, and ``RUN_FINISHED`` behind them, or
    ``RUN_ERROR``, after which the error is raised. A run with a call that was cut off
    ends with ``RUN_ERROR``, too, since a client takes no other end of it.

    Args:
        events: Those of responses and results.
        thread_id: The conversation.
        run_id: This run: the number of its step, or a revision.
        parent_run_id: The run it goes on from: of a branch, that of the step it grew
            from.
        usage: What `dump_usage` gives. It is read when the run ends, so a list may be
            filled meanwhile.
    """
    yield _start_run(thread_id, run_id, parent_run_id)
    calls: set[Any] = set()
    try:
        for event in events:
            _follow_calls(calls, event)
            yield dict(event)
    except Exception as error:
        yield _fail_run(error, usage)
        raise

    yield _finish_run(thread_id, run_id, usage, is_cut=bool(calls))


async def awrap_run(
    events: AsyncIterable[Mapping[str, Any]],
    *,
    thread_id: str,
    run_id: str,
    parent_run_id: str | None = None,
    usage: Iterable[Mapping[str, Any]] = (),
) -> AsyncIterator[dict[str, Any]]:
    """What `wrap_run` gives, of events that are waited for."""
    yield _start_run(thread_id, run_id, parent_run_id)
    calls: set[Any] = set()
    try:
        async for event in events:
            _follow_calls(calls, event)
            yield dict(event)
    except Exception as error:
        yield _fail_run(error, usage)
        raise

    yield _finish_run(thread_id, run_id, usage, is_cut=bool(calls))


def _start_run(thread_id: str, run_id: str, parent: str | None) -> dict[str, Any]:
    started = {"type": "RUN_STARTED", "threadId": thread_id, "runId": run_id}
    return started if parent is None else {**started, "parentRunId": parent}


def _follow_calls(calls: set[Any], event: Mapping[str, Any]) -> None:
    """Keep in *calls* those that are open."""
    if event.get("type") == "TOOL_CALL_START":
        calls.add(event.get("toolCallId"))
    elif event.get("type") == "TOOL_CALL_END":
        calls.discard(event.get("toolCallId"))


def _finish_run(
    thread_id: str, run_id: str, usage: Iterable[Mapping[str, Any]], *, is_cut: bool
) -> dict[str, Any]:
    finished = {"type": "RUN_FINISHED", "threadId": thread_id, "runId": run_id}
    if is_cut:
        finished = {"type": "RUN_ERROR", "message": "the answer was cut off"}
        finished["code"] = INTERRUPTED

    return _add_usage(finished, usage)


def _fail_run(error: Exception, usage: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    # What else an error says may be the server's own affair.
    is_ours = isinstance(error, ConversationStateError)
    message = str(error) if is_ours else "the run failed"
    failed = {"type": "RUN_ERROR", "message": message, "code": type(error).__name__}
    return _add_usage(failed, usage)


def _add_usage(
    event: Mapping[str, Any], usage: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    rows = [dict(row) for row in usage]
    return {**event, "usage": rows} if rows else {**event}


def dump_usage(ledger: Aggregator | Iterable[LedgerEntry]) -> list[dict[str, Any]]:
    """
    The usage of each model in *ledger*, in the order in which they came. O(n).

    Counts that a browser can't represent exactly (over 2**53 - 1) are left out.

    >>> usages = [LedgerEntry("1", Usage(9, 3), "m"), LedgerEntry("2", Usage(1), "m")]
    >>> dump_usage(usages)
    [{'model': 'm', 'inputTokens': 10, 'outputTokens': 3, 'totalTokens': 13}]
    """
    entries = ledger.ledger if isinstance(ledger, Aggregator) else ledger
    totals: dict[str, Usage] = {}
    for entry in entries:
        before = totals.get(entry.model)
        totals[entry.model] = entry.usage if before is None else before + entry.usage

    return [_write_usage(model, usage) for model, usage in totals.items()]


def _write_usage(model: str, usage: Usage) -> dict[str, Any]:
    row: dict[str, Any] = {"model": model} if model else {}
    return row | write_usage(usage)


def patch(old: Any, new: Any) -> dict[str, Any]:
    """
    The event that makes *new* of *old*, two states of an agent as plain JSON values:
    a JSON Patch (RFC 6902) of what is different, and as it is, without moves.

    O(n). A list is compared from both ends, so that what was added or removed in one
    place is the only operation. An object with a key that patch libraries of
    JavaScript refuse, ``__proto__`` for example, is replaced as a whole, and so is a
    state that is nested too deep to be compared.

    >>> patch({"done": [1], "step": 1}, {"done": [1, 2], "step": 1})["delta"]
    [{'op': 'add', 'path': '/done/1', 'value': 2}]
    """
    try:
        changes = [*_find_changes(old, new, "")]
    except RecursionError:
        changes = [{"op": "replace", "path": "", "value": new}]

    return {"type": "STATE_DELTA", "delta": changes}


def _find_changes(old: Any, new: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        if not any(key in each for key in _UNSAFE for each in (old, new)):
            yield from _find_in_objects(old, new, path)
            return
    elif isinstance(old, list) and isinstance(new, list):
        yield from _find_in_lists(old, new, path)
        return

    if not _is_same(old, new):
        yield {"op": "replace", "path": path, "value": new}


def _is_same(old: Any, new: Any) -> bool:
    # 1 is True in Python, and not in JSON; so they are compared as they are written.
    return old == new and dump_json(old) == dump_json(new)


def _find_in_objects(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str
) -> Iterator[dict[str, Any]]:
    for key in (*old, *[key for key in new if key not in old]):
        where = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            yield {"op": "remove", "path": where}
        elif key not in old:
            yield {"op": "add", "path": where, "value": new[key]}
        else:
            yield from _find_changes(old[key], new[key], where)


def _find_in_lists(
    old: list[Any], new: list[Any], path: str
) -> Iterator[dict[str, Any]]:
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and _is_same(old[start], new[start]):
        start += 1

    end = 0
    while end < shorter - start and _is_same(old[-1 - end], new[-1 - end]):
        end += 1

    common = shorter - end
    for at in range(start, common):
        yield from _find_changes(old[at], new[at], f"{path}/{at}")

    # From behind, so that the places before stay what they were.
    for at in reversed(range(common, len(old) - end)):
        yield {"op": "remove", "path": f"{path}/{at}"}

    for at in range(common, len(new) - end):
        yield {"op": "add", "path": f"{path}/{at}", "value": new[at]}
