"""
From a stream of Anthropic Messages to chunks.

The pieces of a block are given as they come. Its end is read as the block of a whole
response is (`_blocks`), and brings what the pieces did not.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial
from typing import Any, NamedTuple

import attrs

from conversation_state.adapters.anthropic._blocks import (
    SOURCE,
    input_of,
    read_call,
    read_part,
)
from conversation_state.adapters.anthropic._load import read_anthropic_counts
from conversation_state.adapters.engine.notes import with_notes, without_empty
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    as_sent,
    describe_failure,
    is_list,
    is_map,
    mended,
    take_text,
)
from conversation_state.adapters.engine.streaming import (
    ALONE,
    SurrogateBuffer,
    achunks_of,
    add_rest,
    as_index,
    check_event,
    chunks_of,
    make_call_chunk,
    make_part_chunk,
)
from conversation_state.adapters.engine.usage import RunningCounts, read_paid_text
from conversation_state.adapters.engine.wire import make_call_id, make_call_prefix
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import Part, ReasoningPart, TextPart, UnknownPart


class _DeltaPieces(NamedTuple):
    """
    How a block comes in pieces.

    Attributes:
        delta: The type of the deltas that bring them.
        key: Where in these deltas the next piece is.
        field: What in the whole block they are pieces of.
        make_chunk: What makes a chunk of the index and a piece.
        known: The keys of these deltas that bring nothing else.
    """

    delta: str
    key: str
    field: str
    make_chunk: Callable[[int, str], AssistantMessage]
    known: frozenset[str]


# By the type of the block. How many tokens a thought has so far is a guess, to be shown
# while it arrives.
_PIECES = {
    "text": _DeltaPieces(
        "text_delta",
        "text",
        "text",
        partial(make_part_chunk, TextPart),
        frozenset({"text", "type"}),
    ),
    "thinking": _DeltaPieces(
        "thinking_delta",
        "thinking",
        "thinking",
        partial(make_part_chunk, ReasoningPart),
        frozenset({"estimated_tokens", "thinking", "type"}),
    ),
    "tool_use": _DeltaPieces(
        "input_json_delta",
        "partial_json",
        "input",
        make_call_chunk,
        frozenset({"partial_json", "type"}),
    ),
}
_SIGNATURE = frozenset({"estimated_tokens", "signature", "type"})
_INPUT = "partial_json"
_CITATION = frozenset({"citation", "type"})


class StreamBlock:
    """A block while it is sent; one whose type has no pieces comes at its end."""

    def __init__(self, kind: str, index: int) -> None:
        self.kind = kind
        self.index = index
        self.pieces = _PIECES.get(kind)
        self.cut = SurrogateBuffer()
        self.is_mended = False  # apart from the pieces that are given
        # The block so far, without what comes in pieces.
        self._raw: dict[str, Any] = {"type": kind}
        if kind == "thinking":
            self._raw["signature"] = ""

        self._path = "$"
        self._is_given = False  # at least one piece was
        # Of a call, what it began with.
        self._arguments = ""
        # By key, and joined at the end: a text that grows is copied with each piece.
        self._texts: dict[str, list[str]] = {}

    def start(self, block: ObjectReader, made_id: str) -> list[AssistantMessage]:
        """The chunks that *block* begins with; a call without an id gets *made_id*."""
        field = self.pieces.field if self.pieces else ""
        self._raw |= block.reading.rest(block.raw, frozenset({field}), block.path)
        self._path = block.path
        if self.pieces is None:
            return []

        if self.kind == "tool_use":
            # The input is still to come, so it may well be missing.
            raw = {**self._raw, "input": block.raw.get("input") or {}}
            inside = ObjectReader(block.reading, raw, block.path)
            call = read_call(inside, self.index, made_id)
            self._arguments = call.arguments
            return [AssistantMessage(tool_calls=(attrs.evolve(call, arguments=""),))]

        if self.kind == "thinking":
            self._raw["signature"] = block.nullable("signature")

        # Its pieces are still to come, so nothing of it need be there.
        # Source: https://github.com/BerriAI/litellm/issues/28067
        is_empty = block.raw.get(field) is None
        chunk = None if is_empty else self._read_piece(self.pieces, block, field)
        return [] if chunk is None else [chunk]

    def read(
        self, reader: DocumentReader, raw: Mapping[str, Any], path: str
    ) -> tuple[AssistantMessage | None, frozenset[str] | None]:
        """
        The chunk that the delta *raw* of the event at *path* brings, and its keys that
        are known; None if it is of an unknown type.
        """
        pieces = self.pieces
        if pieces is not None and raw.get("type") == pieces.delta:
            piece = raw.get(pieces.key)
            if isinstance(piece, str):
                return self._add_piece(pieces, piece), pieces.known

        delta = ObjectReader(reader, raw, f"{path}.delta")
        if pieces is None:
            return None, self._read_texts(delta)

        if raw.get("type") == pieces.delta:
            return self._read_piece(pieces, delta, pieces.key), pieces.known

        if self.kind == "text" and "citation" in raw:
            where = f"{delta.path}.citation"
            listed = self._raw.get("citations")
            if not isinstance(listed, list):
                listed = self._raw["citations"] = []

            listed.append(reader.json(raw["citation"], where))
            return None, _CITATION

        if self.kind == "thinking" and "signature" in raw:
            # Some servers send an empty one after it.
            self._raw["signature"] = delta.text("signature") or self._raw["signature"]
            return None, _SIGNATURE

        return None, None

    def _read_piece(
        self, pieces: _DeltaPieces, node: ObjectReader, key: str
    ) -> AssistantMessage | None:
        piece = node.raw.get(key)
        if isinstance(piece, str):
            return self._add_piece(pieces, piece)

        node.wrong(key, "a text")
        return None

    def _add_piece(self, pieces: _DeltaPieces, piece: str) -> AssistantMessage | None:
        """The chunk of *piece*, as far as no half of a character waits."""
        text = self.cut.next(piece)
        if not text:
            return None

        self._is_given = True
        return pieces.make_chunk(self.index, text)

    def _read_texts(self, delta: ObjectReader) -> frozenset[str]:
        """Keep the texts of *delta*, of a block given at its end; its keys."""
        is_input = _INPUT in delta.raw
        if is_input and not isinstance(delta.raw[_INPUT], str):
            delta.wrong(_INPUT, "a text")

        known = {"type"}
        for key in [_INPUT] if is_input else delta.raw:
            piece, before = delta.raw[key], self._raw.get(key)
            if key in known:
                continue

            if isinstance(piece, str) and isinstance(before, str | None):
                self._texts.setdefault(key, [before or ""]).append(piece)
                known.add(key)

        return frozenset(known)

    def end(self, *, is_broken: bool) -> list[AssistantMessage]:
        """
        The last chunks; *is_broken* says whether the block did not come to its end.
        """
        if self.pieces is None:
            return [AssistantMessage((self._make_whole(is_broken=is_broken),))]

        rest = self.cut.rest()
        self.is_mended = self.cut.is_mended
        if self.kind == "tool_use":
            # A call whose input is to come begins with {}; any other input is whole.
            if not (self._is_given or rest or (is_broken and self._arguments == "{}")):
                rest = self._arguments

            return [self.pieces.make_chunk(self.index, rest)] if rest else []

        # Whether a thought that breaks off would be signed is unknown.
        fields: dict[str, Any] = {}
        if self.kind != "thinking" or self._raw["signature"] or not is_broken:
            raw = {**self._raw, self.pieces.field: ""}
            node = ObjectReader(DocumentReader(), raw, self._path)
            part: Any = read_part(node, "assistant")
            names = ("metadata", "signature")
            fields = {name: getattr(part, name, "") for name in names}
            fields = {name: value for name, value in fields.items() if value}

        if rest or fields or not (self._is_given or is_broken):
            kind = TextPart if self.kind == "text" else ReasoningPart
            return [AssistantMessage((kind(rest, index=self.index, **fields),))]

        return []

    def _make_whole(self, *, is_broken: bool) -> Part:
        texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
        valid = {key: mended(text) for key, text in texts.items()}
        self.is_mended = texts != valid
        given = valid.pop(_INPUT, "")
        raw = {**self._raw, **valid}
        if is_broken:
            metadata = with_notes(SOURCE, {"cut": given})
            return UnknownPart(raw, source=SOURCE, index=self.index, metadata=metadata)

        if given:
            raw["input"] = input_of(given)

        node = ObjectReader(DocumentReader(), raw, self._path)
        part = read_part(node, "assistant", self.index)
        # What came in pieces may be too deep, or too large, to be kept.
        node.reading.finish()
        return part


def load_chunks(events: Iterable[Any]) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Text, thinking and arguments come piece by piece; all other blocks whole, when
    they end.

    Args:
        events: The data of the server-sent events, as plain JSON values, or
            what the SDK's ``client.messages.stream()`` gives, each event with
            ``.to_dict(mode="json")``: what it derives is not read again.

    Raises:
        ProviderStreamError: If an event reports that the provider failed.
        DecodeError: If an event is not what the format has.

    Source:
        Usage comes at the start and, as a running total, before the end; of
        what comes twice the last value stands. A call without arguments is
        sent with one empty piece; its arguments are the ``{}`` it began with,
        as in a whole response. Unknown events are to be expected.

    >>> from conversation_state.chunks import concat
    >>> deltas = [{"type": "text_delta", "text": text} for text in ("Hel", "lo")]
    >>> events = [
    ...     {"type": "content_block_delta", "index": 0, "delta": delta}
    ...     for delta in deltas
    ... ]
    >>> concat(load_chunks(events)).text
    'Hello'
    """
    return chunks_of(AnthropicStream(), events, SOURCE, own=SOURCE)


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[AssistantMessage]:
    """What `load_chunks` gives, of events that are waited for."""
    return achunks_of(AnthropicStream(), events, SOURCE, own=SOURCE)


# The known keys of each event.
_EVENTS = {
    "content_block_delta": frozenset({"delta", "index", "type"}),
    "content_block_start": frozenset({"content_block", "index", "type"}),
    "content_block_stop": frozenset({"content_block", "index", "type"}),
    "message_delta": frozenset({"delta", "type", "usage"}),
    "message_start": frozenset({"message", "type"}),
    "message_stop": frozenset({"message", "type"}),
    "ping": frozenset({"type"}),
}
# What Anthropic's SDK (`client.messages.stream`) derives from the events above,
# and sends with them: each piece once more, with all pieces before it. So are
# the whole block and the whole message at the end of each.
_DERIVED = frozenset(
    {"citation", "compaction", "input_json", "signature", "text", "thinking"}
)
_MESSAGE = frozenset({"content", "model", "role", "stop_reason", "usage"})
_MESSAGE_DELTA = frozenset({"stop_reason"})
_MAX_INDEX = 2**63 - 1


# Blocks that may begin with a delta, as some servers leave their start out.
_UNOPENED = {"text_delta": "text", "thinking_delta": "thinking"}


class AnthropicStream:
    def __init__(self) -> None:
        self._reader = DocumentReader()
        self._reader.is_answer = True
        self._open_blocks: dict[int, StreamBlock] = {}
        self._next = 0
        self._finish_reason = ""
        self._model = ""
        self._usage = RunningCounts(read_anthropic_counts)
        self._of_response: dict[str, Any] = {}
        self._of_events: dict[str, Any] = {}
        self._others: list[Any] = []
        # As keys of a dict each path is there once, in order.
        self._mended: dict[str, bool] = {}
        # Of ids that are made up, if the response has none.
        self._prefix = ""
        # Whether an event of the provider's own came, and the last one.
        self._is_begun = False
        self._is_over = False

    def read(self, event: Any, path: str) -> Iterator[AssistantMessage]:
        reader = self._reader
        check_event(reader, event, path)
        kind = event.get("type")
        if kind == "error" or (kind is None and event.get("error") is not None):
            raise ProviderStreamError(describe_failure(event.get("error")), event)

        # What could be read is given, whatever else is wrong.
        if kind == "content_block_delta":
            self._is_begun = True
            yield from self._read_delta(event, path)
        else:
            yield from self._read_other(ObjectReader(reader, event, path), kind)

        if reader.mended:
            self._note_mended(event, path)

        if reader.problems:
            reader.finish()

    def _note_mended(self, event: Mapping[str, Any], path: str) -> None:
        for where in self._reader.mended:
            head, _, rest = where[len(path) + 1 :].partition(".")
            is_inside = head in {"content_block", "delta"} and "index" in event
            inside = f"content[{event['index']}].{rest}" if is_inside else None
            self._mended[inside or where[len(path) + 1 :]] = True

        self._reader.mended.clear()

    def _read_other(self, event: ObjectReader, kind: Any) -> list[AssistantMessage]:
        """The chunks of an event of another *kind* than a piece."""
        if not isinstance(kind, str):
            event.wrong("type", "a text, as every event has")
        elif kind == "message":
            what = "is a whole response, not a stream event; use load()"
            event.reading.problem(event.path, what)
        elif kind in _DERIVED:
            # From the event before it, which was read.
            if not self._is_begun:
                event.reading.problem(event.path, ALONE)
        elif kind not in _EVENTS:
            self._others.append(event.reading.json(event.raw, event.path))
        else:
            self._is_begun = True
            if not event.raw.keys() <= _EVENTS[kind]:
                self._keep_rest(event, kind)

            return _READERS[kind](self, event) if kind in _READERS else []

        return []

    def _read_block_start(self, event: ObjectReader) -> list[AssistantMessage]:
        block = event.required("content_block")
        if block is None:
            return []

        return self._start_block(self._get_block_index(event), block)

    def _read_block_stop(self, event: ObjectReader) -> list[AssistantMessage]:
        return self._end_block(self._get_block_index(event))

    def _read_message_stop(self, _: ObjectReader) -> list[AssistantMessage]:
        self._is_over = True
        # Where a server leaves out the ends of blocks, nothing was broken off.
        return [chunk for at in [*self._open_blocks] for chunk in self._end_block(at)]

    def _keep_rest(self, event: ObjectReader, kind: str) -> None:
        if kind == "message_delta":
            self._keep_of_response(event, _EVENTS[kind])
        else:
            add_rest(self._of_events, event, _EVENTS[kind])

    def _get_block_index(self, event: ObjectReader) -> int:
        """The number of the block that *event* is about; -1 if it is invalid."""
        at: Any = as_index(event.raw.get("index"))
        if at.__class__ is int and 0 <= at <= _MAX_INDEX:
            return int(at)

        event.wrong("index", "the index of a block, 0 or higher")
        return -1

    def _read_message(self, event: ObjectReader) -> list[AssistantMessage]:
        message = event.required("message")
        if message is None:
            return []

        raw = message.raw
        if raw.get("role") not in (None, "assistant"):
            message.wrong("role", "assistant")

        self._read_metadata(message)
        if raw.get("model") is not None:
            self._model = read_paid_text(message, "model", self._of_response)

        self._keep_of_response(message, _MESSAGE)
        chunks: list[AssistantMessage] = []
        if is_list(raw.get("content")):
            for at, block in enumerate(message.objects("content")):
                chunks += self._start_block(at, block)
                chunks += self._end_block(at)

        return chunks

    def _read_message_delta(self, event: ObjectReader) -> list[AssistantMessage]:
        self._read_metadata(event)
        delta = event.required("delta") if "delta" in event.raw else None
        if delta is not None:
            self._read_metadata(delta)
            self._keep_of_response(delta, _MESSAGE_DELTA)

        return []

    def _keep_of_response(self, node: ObjectReader, known: frozenset[str]) -> None:
        rest = node.reading.rest(node.raw, known, node.path)
        _update_known(self._of_response, rest)

    def _read_metadata(self, node: ObjectReader) -> None:
        raw = node.raw
        if raw.get("stop_reason") is not None:
            reason = read_paid_text(node, "stop_reason", self._of_response)
            self._finish_reason = reason

        self._usage.add(raw.get("usage"))

    def _start_block(self, at: int, block: ObjectReader) -> list[AssistantMessage]:
        if at < 0:
            return []

        kind = block.raw.get("type")
        if not isinstance(kind, str):
            block.wrong("type", "a text")
            return []

        if kind == "fallback":
            # Another model answers from here on.
            block.raw = as_sent(block.raw)
            model = block.raw.get("to")
            name = model.get("model") if is_map(model) else None
            self._model = mended(name) if isinstance(name, str) else self._model

        chunks = self._end_others(at)
        opened = self._open_block(at, kind)
        made_id = make_call_id(self._make_prefix(), opened.index)
        return chunks + opened.start(block, made_id)

    def _make_prefix(self) -> str:
        response_id = self._of_response.get("id")
        if isinstance(response_id, str) and response_id:
            return make_call_prefix(response_id)

        # One stream has one prefix.
        self._prefix = self._prefix or make_call_prefix("")
        return self._prefix

    def _end_others(self, at: int) -> list[AssistantMessage]:
        """The end of the blocks before number *at*, which some servers omit."""
        # Of calls, pieces may come between those of others: `concat` joins them by
        # their index. What belongs to a part has to come right behind it.
        return [
            chunk
            for other, block in [*self._open_blocks.items()]
            if other == at or block.kind != "tool_use"
            for chunk in self._end_block(other)
        ]

    def _open_block(self, at: int, kind: str) -> StreamBlock:
        # Every block has an index of its own, even if the server starts again at 0.
        index = max(at, self._next)
        self._next = min(index, _MAX_INDEX - 1) + 1
        block = self._open_blocks[at] = StreamBlock(kind, index)
        return block

    def _read_delta(
        self, event: Mapping[str, Any], path: str
    ) -> list[AssistantMessage]:
        if not event.keys() <= _EVENTS["content_block_delta"]:
            node = ObjectReader(self._reader, event, path)
            self._keep_rest(node, "content_block_delta")

        at: Any = event.get("index")
        raw = event.get("delta")
        block = self._open_blocks.get(at) if type(at) is int else None
        chunks: list[AssistantMessage] = []
        if block is None or not is_map(raw):
            node = ObjectReader(self._reader, event, path)
            at, delta = self._get_block_index(node), node.required("delta")
            if at < 0 or delta is None:
                return []

            block, raw = self._open_blocks.get(at), delta.raw
            if block is None:
                kind = raw.get("type")
                if not isinstance(kind, str) or kind not in _UNOPENED:
                    what = f"refers to block {at}, which is not open"
                    self._reader.problem(path, what)
                    return []

                chunks = self._end_others(at)
                block = self._open_block(at, _UNOPENED[kind])

        chunk, known = block.read(self._reader, raw, path)
        kind = raw.get("type")
        if known is None and isinstance(kind, str) and kind in _UNOPENED:
            chunks, block = self._find_other(at, block, _UNOPENED[kind])
            chunk, known = block.read(self._reader, raw, path)

        if known is None:
            self._others.append(self._reader.json(event, path))
        elif not raw.keys() <= known:
            delta = ObjectReader(self._reader, raw, f"{path}.delta")
            add_rest(self._of_events, delta, known)

        return chunks if chunk is None else [*chunks, chunk]

    def _find_other(
        self, at: int, block: StreamBlock, kind: str
    ) -> tuple[list[AssistantMessage], StreamBlock]:
        """
        The block of a *kind* that a piece is of which comes for the open *block* of
        another one, and the end of what is over by it.

        Source:
            https://github.com/PostHog/posthog/pull/72287: thoughts and texts in one
            block, from LiteLLM; https://github.com/sgl-project/sglang/pull/24294: texts
            in a call, whose input may go on.
        """
        place = ~at if block.kind == "tool_use" else at
        open_block = self._open_blocks.get(place)
        if open_block is not None and open_block.kind == kind:
            return [], open_block

        chunks = self._end_block(place, is_broken=True)
        return chunks, self._open_block(place, kind)

    def _end_block(self, at: int, *, is_broken: bool = False) -> list[AssistantMessage]:
        block = self._open_blocks.pop(at, None)
        if block is None:
            return []

        chunks = block.end(is_broken=is_broken)
        if block.is_mended:
            field = f".{block.pieces.field}" if block.pieces else ""
            self._mended[f"content[{block.index}]{field}"] = True

        return chunks

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """The last chunks: metadata, and blocks that were not closed."""
        for at in list(self._open_blocks):
            yield from self._end_block(at, is_broken=True)

        response = dict(self._of_response)
        usage, left = self._usage.read()
        if left:
            response["usage"] = left

        response_id = take_text(response, "id")
        notes = {
            "response": response,
            "event": self._of_events,
            "events": self._others,
            "mended": list(self._mended),
        }
        metadata = with_notes(SOURCE, without_empty(notes))
        cut = broken and not self._is_over
        reason = self._finish_reason or ("interrupted" if cut else "")
        # As a response has it, of which no block is the whole text.
        yield AssistantMessage(
            (),
            response=ResponseMeta(reason, usage, None, self._model, response_id),
            metadata=metadata,
        )


def _update_known(kept: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Add *values* to those that are *kept*; null changes nothing."""
    for key, value in values.items():
        if value is not None or key not in kept:
            kept[key] = value


_READERS: Mapping[
    str, Callable[[AnthropicStream, ObjectReader], list[AssistantMessage]]
] = {
    "content_block_start": AnthropicStream._read_block_start,
    "content_block_stop": AnthropicStream._read_block_stop,
    "message_delta": AnthropicStream._read_message_delta,
    "message_start": AnthropicStream._read_message,
    "message_stop": AnthropicStream._read_message_stop,
}
