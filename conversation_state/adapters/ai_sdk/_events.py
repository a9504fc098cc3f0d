"""The UI message stream of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs

from conversation_state._canonical import dump as dump_json
from conversation_state._wording import shorten_repr
from conversation_state.adapters.ai_sdk._dump import (
    UiWriter,
    check_version,
    find_metadata_key,
)
from conversation_state.adapters.ai_sdk._load import SOURCE, is_unsafe
from conversation_state.adapters.engine.export import FINISHED, merge_kept_keys
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.adapters.engine.ui import (
    INTERRUPTED,
    OutgoingCall,
    OutgoingCalls,
    aevents_of,
    events_of,
    is_cut_off,
    merge_metadata,
    wrap_own,
    write_usage,
)
from conversation_state.errors import ConversationStateError, StreamClosedError
from conversation_state.messages import AssistantMessage, Message, ToolMessage
from conversation_state.parts import (
    AudioPart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "connection": "keep-alive",
        "x-vercel-ai-ui-message-stream": "v1",
        "x-accel-buffering": "no",
    }
)

_OLD = 6
_REASONS = {"content_filter": "content-filter", "tool_call": "tool-calls"}
# Parts that are events of the same shape, beside ``data-…``.
_AS_EVENTS = frozenset(
    {"custom", "reasoning-file", "source-document", "source-url", "steering-message"}
)


def dump_chunks(
    chunks: Iterable[Message],
    *,
    message_id: str,
    metadata: Mapping[str, Any] | None = None,
    version: Literal[6, 7] = 7,
    is_first: bool = True,
    is_last: bool = True,
) -> Iterator[dict[str, Any]]:
    """
    The events of an answer as its *chunks* come: those of its responses and, between
    these, whole results (`ToolMessage`).

    The SDK's own reducer makes of them what `dump` makes of the messages that the
    chunks are, but for the place of a text or thought without a position that comes
    behind a call, for names of files, and for the first half of a call's arguments. An
    answer whose source is stopped (`StreamClosedError`) ends with ``abort``. Whatever
    else *chunks* raise is raised after an ``error``, whose text is the message only of
    this library's own errors. Nothing is open at the end but the calls of an answer
    that was cut off: a client runs those that are ``tool-input-available``.

    Args:
        chunks: The chunks and results.
        message_id: The id of the message, which all chunks of one answer have, also if
            it goes on behind a client's results.
        metadata: That of the message, plain JSON.
        version: Of the package ``ai`` that reads it.
        is_first: Whether the message begins with them.
        is_last: Whether it ends with them. The usage of *chunks* is sent then.

    Raises:
        ValueError: If *version* is something else.

    >>> events = dump_chunks([AssistantMessage("Hi")], message_id="m")
    >>> [event["type"] for event in events]
    ['start', 'start-step', 'text-start', 'text-delta', 'text-end', 'finish-step', \
'finish']
    """
    writer = _AnswerWriter(message_id, version, metadata, is_first, is_last)
    return events_of(writer, chunks)


def adump_chunks(
    chunks: AsyncIterable[Message],
    *,
    message_id: str,
    metadata: Mapping[str, Any] | None = None,
    version: Literal[6, 7] = 7,
    is_first: bool = True,
    is_last: bool = True,
) -> AsyncIterator[dict[str, Any]]:
    """What `dump_chunks` gives, of chunks that are waited for."""
    writer = _AnswerWriter(message_id, version, metadata, is_first, is_last)
    return aevents_of(writer, chunks)


def dump_result(message: ToolMessage) -> dict[str, Any]:
    """
    The event of a result, which may come after the response it belongs to.

    >>> dump_result(ToolMessage("6:40", tool_call_id="c1"))
    {'type': 'tool-output-available', 'toolCallId': 'c1', 'output': '6:40'}
    """
    if not isinstance(message, ToolMessage):
        shown = shorten_repr(message)
        raise TypeError(f"dump_result takes a ToolMessage, got {shown}")

    call = ToolCall(message.tool_call_id, message.tool_name)
    return _write_result(message, call)


def _write_result(message: ToolMessage, call: ToolCall | None) -> dict[str, Any]:
    part: dict[str, Any] = {}
    UiWriter().write_result(message, "messages[0]", part, call)
    event = {"type": f"tool-{part.pop('state')}", "toolCallId": message.tool_call_id}
    part.pop("approval", None)
    if "resultProviderMetadata" in part:
        event["providerMetadata"] = part.pop("resultProviderMetadata")

    return event | part


def write_event(chunk: Mapping[str, Any] | None) -> str:
    r"""
    *chunk* as a server-sent event; None is the end of the stream.

    >>> write_event({"type": "start-step"}), write_event(None)
    ('data: {"type":"start-step"}\n\n', 'data: [DONE]\n\n')
    """
    text = "[DONE]" if chunk is None else dump_json(dict(chunk)).decode()
    return f"data: {text}\n\n"


class _Block:
    """A text or a thought that is open, or audio that comes in pieces."""

    def __init__(self, part: Any, block_id: str) -> None:
        self.part = part
        self.id = block_id
        self.kind = "reasoning" if isinstance(part, ReasoningPart) else "text"

    def continues(self, part: Part) -> bool:
        if part.__class__ is not self.part.__class__ or part.index != self.part.index:
            return False

        return not isinstance(part, MediaPart) or part.data is not None

    def add(self, part: Any) -> None:
        changes: dict[str, Any] = {}
        if isinstance(part, ReasoningPart) and part.signature:
            changes["signature"] = part.signature
        elif isinstance(part, AudioPart):
            changes["data"] = self.part.data + part.data

        if part.metadata:
            changes["metadata"] = merge_metadata(self.part.metadata, part.metadata)

        if changes:
            self.part = attrs.evolve(self.part, **changes)


class _AnswerWriter:
    """One answer while it is written."""

    def __init__(
        self,
        message_id: str,
        version: int,
        metadata: Mapping[str, Any] | None,
        is_first: bool,  # noqa: FBT001 - both as they were given
        is_last: bool,  # noqa: FBT001
    ) -> None:
        check_version(version)
        self._id = message_id
        self._version = version
        self._metadata = metadata
        self._is_first = is_first
        self._is_last = is_last
        self._writer = UiWriter(version)
        self._is_begun = False  # a response
        self._told: dict[str, ToolCall] = {}  # calls that a client has, by their ids
        self._cut: dict[str, OutgoingCall] = {}  # that were cut off, by their ids
        self._is_open = False  # a step
        self._is_ended = False  # its response, behind which results stand
        self._usage: Usage | None = None  # of all responses before this one
        self._last_reason = ""
        self._forget_response()

    def _forget_response(self) -> None:
        self._block: _Block | None = None
        self._blocks = 0
        self._thoughts = 0
        self._has_parts = False
        self._sender = ""  # until a part has it
        self._calls = OutgoingCalls()
        self._reason = ""
        self._spent: Usage | None = None

    def begin(self) -> Iterator[dict[str, Any]]:
        more = {"messageMetadata": dict(self._metadata)} if self._metadata else {}
        if self._is_first:
            yield {"type": "start", "messageId": self._id, **more}
        elif more:
            yield {"type": "message-metadata", **more}

    def read(self, chunk: Message) -> Iterator[dict[str, Any]]:
        if isinstance(chunk, ToolMessage):
            yield from self._end_response()
            yield from self._read_result(chunk)
            return

        if not isinstance(chunk, AssistantMessage):
            expected = "chunks of AssistantMessages and whole ToolMessages"
            raise TypeError(f"expected {expected}, got {shorten_repr(chunk)}")

        if self._is_ended:
            yield from self._end_step()

        if not self._is_open:
            self._is_open = self._is_begun = True
            yield {"type": "start-step"}

        self._sender = self._sender or chunk.name
        for part in chunk.parts:
            yield from self._read_part(part)

        for call in chunk.tool_calls:
            yield from self._read_call(call)

        response = chunk.response
        if response is not None:
            self._reason = response.finish_reason or self._reason
            if response.usage is not None:
                spent = self._spent
                self._spent = (
                    response.usage if spent is None else spent | response.usage
                )

    def _read_part(self, part: Part) -> Iterator[dict[str, Any]]:
        if self._block is not None and self._block.continues(part):
            self._block.add(part)
        else:
            yield from self._close_block()
            if isinstance(part, (TextPart, ReasoningPart, RefusalPart)):
                yield self._open_block(part)
            elif isinstance(part, AudioPart) and part.data is not None:
                self._block = _Block(part, "")
            else:
                yield from self._write_part(part)

        if text := getattr(part, "text", ""):
            block: Any = self._block  # each part with a text has one
            yield {"type": f"{block.kind}-delta", "id": block.id, "delta": text}

    def _open_block(self, part: Part) -> dict[str, Any]:
        is_thought = isinstance(part, ReasoningPart)
        number = self._thoughts if is_thought else self._blocks
        self._block = _Block(part, f"{'r' if is_thought else 't'}{number}")
        self._thoughts += is_thought
        self._blocks += not is_thought
        self._has_parts = True
        event: dict[str, Any] = {"type": f"{self._block.kind}-start"}
        if isinstance(part, RefusalPart):
            event["providerMetadata"] = wrap_own({"refusal": True})

        return {**event, "id": self._block.id}

    def _close_block(self) -> Iterator[dict[str, Any]]:
        block, self._block = self._block, None
        if block is None:
            return

        if isinstance(block.part, AudioPart):
            yield from self._write_part(block.part)
            return

        part = self._write_with_sender(attrs.evolve(block.part, text="")) or {}
        event = {"type": f"{block.kind}-end", "id": block.id}
        more = ("citations", "providerMetadata")
        yield event | {key: part[key] for key in more if key in part}

    def _write_with_sender(self, part: Part) -> dict[str, Any] | None:
        written = self._writer.write_part(part, "messages[0]", "assistant")
        if written is not None:
            self._add_sender(written)

        return written

    def _add_sender(self, part: dict[str, Any]) -> None:
        key = find_metadata_key(part)
        if self._sender and key:
            merge_kept_keys({key: wrap_own({"sender": self._sender})}, part)
            self._sender = ""

    def _write_part(self, part: Part) -> Iterator[dict[str, Any]]:
        event = self._write_with_sender(part)
        if event is None:
            return

        self._has_parts = True
        kind = event["type"]
        is_event = kind in _AS_EVENTS or kind[:5] == "data-"
        if not isinstance(part, UnknownPart) or (is_event and not is_unsafe(event)):
            yield event

    def _read_call(self, piece: ToolCall) -> Iterator[dict[str, Any]]:
        call = self._calls.read(piece)
        if call.sent_as:
            if piece.arguments:
                yield self._write_arguments(call, piece.arguments)
        elif call.id and call.name and not call.is_whole:
            yield from self._start_call(call)

    def _start_call(self, call: OutgoingCall) -> Iterator[dict[str, Any]]:
        yield from self._close_block()
        self._has_parts = True
        call_id = self._calls.name(call, self._id)
        event: dict[str, Any] = {"type": "tool-input-start", "toolCallId": call_id}
        if call.type != "function":
            event["providerMetadata"] = wrap_own({"type": call.type})

        yield {**event, "toolName": call.name, **self._write_dynamic(call)}
        if call.arguments:
            yield self._write_arguments(call, call.arguments)

    def _write_arguments(self, call: OutgoingCall, delta: str) -> dict[str, Any]:
        event = {"type": "tool-input-delta", "toolCallId": call.sent_as}
        return {**event, "inputTextDelta": delta}

    def _end_call(self, call: OutgoingCall) -> dict[str, Any]:
        made = ToolCall(
            call.sent_as,
            call.name,
            call.arguments,
            type=call.type,
            metadata=call.metadata,
        )
        part = self._writer.write_call(made, "messages[0]", self._id, call.number)
        self._add_sender(part)
        self._told[call.sent_as] = made
        event: dict[str, Any] = {"type": "tool-input-available"}
        event |= {"toolCallId": call.sent_as}
        event |= {"toolName": call.name, "input": part.get("input")}
        event |= self._write_dynamic(call)
        if "callProviderMetadata" in part:
            event["providerMetadata"] = part["callProviderMetadata"]

        more = ("providerExecuted", "title", "toolMetadata")
        return event | {key: part[key] for key in more if key in part}

    def _write_dynamic(self, call: OutgoingCall) -> dict[str, bool]:
        is_static = notes_of(call.metadata, SOURCE).get("static") is True
        return {} if is_static else {"dynamic": True}

    def _read_result(self, message: ToolMessage) -> Iterator[dict[str, Any]]:
        # At a result of no call a client's stream would end. Before the first response
        # it is of a call that the client has.
        call_id, tool = message.tool_call_id, message.tool_name
        if call_id in self._cut:
            yield self._end_call(self._cut.pop(call_id))

        call = self._told.get(call_id)  # another result takes the place of one
        if call is None and not self._is_begun:
            call = ToolCall(call_id, tool)
        elif call is None:
            event: dict[str, Any] = {"type": "tool-input-available"}
            event |= {"toolCallId": call_id, "toolName": tool, "input": {}}
            event["providerMetadata"] = wrap_own({"alone": True})
            yield {**event, "dynamic": True}

        yield _write_result(message, call)

    def _end_response(
        self, failure: Exception | None = None
    ) -> Iterator[dict[str, Any]]:
        if self._is_ended or not self._is_open:
            return

        for call in self._calls.all:
            if not call.sent_as:
                yield from self._start_call(call)

        yield from self._close_block()
        # An empty answer is an answer: it has one empty text.
        if not self._has_parts:
            yield from self._read_part(TextPart(""))
            yield from self._close_block()

        # A client runs a call as soon as it is available.
        is_cut = is_cut_off(self._reason, failure)
        for call in self._calls.all:
            if is_cut:
                self._cut[call.sent_as] = call
            else:
                yield self._end_call(call)

        self._last_reason = self._reason or self._last_reason
        spent, self._is_ended = self._spent, True
        if spent is not None:
            self._usage = spent + self._usage

        self._forget_response()

    def _end_step(self, failure: Exception | None = None) -> Iterator[dict[str, Any]]:
        if self._is_open:
            yield from self._end_response(failure)
            yield {"type": "finish-step"}

        self._is_open = self._is_ended = False

    def end(self, failure: Exception | None) -> Iterator[dict[str, Any]]:
        yield from self._end_step(failure)
        if self._usage is not None and (self._is_last or failure is not None):
            own = wrap_own({"usage": write_usage(self._usage)})
            yield {"type": "message-metadata", "messageMetadata": own}

        if isinstance(failure, StreamClosedError):
            yield {"type": "abort"}
        elif failure is not None:
            # The message of another error may contain secrets of the server.
            is_ours = isinstance(failure, ConversationStateError)
            text = str(failure) if is_ours else "the answer failed"
            yield {"type": "error", "errorText": text}
            raise failure
        elif self._is_last:
            yield {"type": "finish", **self._write_reason()}

    def _write_reason(self) -> dict[str, str]:
        if not self._last_reason:
            return {}

        reason = FINISHED.get(self._last_reason, "other")
        if self._last_reason == INTERRUPTED and self._version != _OLD:
            reason = INTERRUPTED

        return {"finishReason": _REASONS.get(reason, reason)}
