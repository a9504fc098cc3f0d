"""
From a stream of Responses to chunks: what each event brings, and the item that it is
about.
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

from conversation_state.adapters._notes import with_notes, without_empty
from conversation_state.adapters._openai import read_logprob_list
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    as_sent,
    describe_failure,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters._responses._blocks import ADDRESS, NOISE, SOURCE
from conversation_state.adapters._responses._load import ResponseInfo, read_response
from conversation_state.adapters._responses._stream_items import Chunks, StreamedText
from conversation_state.adapters._responses._stream_order import MAX_ITEMS, OutputOrder
from conversation_state.adapters._streaming import (
    PieceTemplate,
    achunks_of,
    add_to,
    check_event,
    chunks_of,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta


def load_chunks(events: Iterable[Any]) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Text, thoughts, refusals and the arguments of calls are given as they come;
    items of other kinds when they are done. A message is given completely before
    anything behind it. Content that an item's end repeats is given once. Content
    that only an item's end has is given then, and so is content that only the
    whole response at the end of the stream has.

    The end of a thought, with its signature, may come after pieces of the output
    that follows it (OpenRouter). Then it is a part of its own without text, with
    the *index* of the thought; ``concat(chunks, regroup_by_index=True)`` joins
    both. `dump` sends one item either way. A stream without an end (``completed``,
    ``incomplete``, ``failed``) is one that broke off.

    Args:
        events: The data of the server-sent events, as plain JSON values, or the
            events of the SDK's ``client.responses.stream()``, each with
            ``.to_dict(mode="json")``: data that it derives is not read again.

    Raises:
        ProviderStreamError:
            If an event reports that the provider failed.

        DecodeError:
            If an event is invalid in the format.

    Source:
        The signature of a thought differs between the beginning and the end of
        its item; the one at the end has to be kept. If several lists of tools are
        requested together, some of these items have no end, and are in the whole
        response only. Some servers give an item another id in each event.

    >>> from conversation_state.chunks import concat
    >>> kind = "response.output_text.delta"
    >>> events = [{"type": kind, "delta": piece} for piece in ("Hel", "lo")]
    >>> concat(load_chunks(events)).text
    'Hello'
    """
    return chunks_of(ResponsesStream(), events)


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[AssistantMessage]:
    """
    The async twin of `load_chunks`, for events that are awaited.
    """
    return achunks_of(ResponsesStream(), events)


class _Target(NamedTuple):
    item: str  # its type
    key: str  # of the whole text, in the end
    where: str = ""  # the list that its block is in; "" if it is of the item itself
    block: str = ""  # the type of the block


_THOUGHT = _Target("reasoning", "text", "summary", "summary_text")
_TARGETS = {
    "response.custom_tool_call_input": _Target("custom_tool_call", "input"),
    "response.function_call_arguments": _Target("function_call", "arguments"),
    "response.output_text": _Target("message", "text", "content", "output_text"),
    "response.reasoning_summary": _THOUGHT,
    "response.reasoning_summary_text": _THOUGHT,
    "response.reasoning_text": _Target(
        "reasoning", "text", "content", "reasoning_text"
    ),
    "response.refusal": _Target("message", "refusal", "content", "refusal"),
}
# Events that have a whole block, at its beginning and its end: the type of the item,
# and the list that the block is in.
_PARTS = {
    "response.content_part": ("message", "content"),
    "response.reasoning_summary_part": ("reasoning", "summary"),
}
_NUMBERS = {"content": "content_index", "summary": "summary_index"}
_VERBS = frozenset({"added", "delta", "done"})
# The key of a piece, and the other keys whose values may differ.
_PATH = (("delta", "obfuscation", "sequence_number", "snapshot"),)

_ENDS = frozenset({"cancelled", "completed", "failed", "incomplete"})

# The keys of events that are read; and with them the keys under which the last events
# of an item repeat its content.
_KNOWN = ADDRESS | {
    "annotation",
    "annotation_index",
    "content_index",
    "delta",
    "item",
    "logprobs",
    "part",
    "response",
    "summary_index",
    # OpenAI's SDK (`client.responses.stream`) adds all pieces so far under this key.
    "snapshot",
}
_WHOLE = _KNOWN | {"arguments", "input", "name", "parsed", "refusal", "text"}


class ResponsesStream:
    def __init__(self) -> None:
        self.template = PieceTemplate()
        self._output = OutputOrder()
        self._info = ResponseInfo("", None, "", "", {})
        self._reason = ""
        self._events: dict[str, dict[str, Any]] = {}
        self._deltas: dict[str, list[str]] = {}

    def read(self, event: Any, path: str) -> Iterator[AssistantMessage]:
        read = self._output.context.reading = DocumentReader()
        self.template.forget()
        check_event(read, event, path)
        # The chunks that could be read come before the error.
        yield from self._read_event(ObjectReader(read, event, path))
        read.finish()
        error = _error_in(event)
        if error is not None:
            raise ProviderStreamError(describe_failure(error), event)

    def _read_event(self, event: ObjectReader) -> Chunks:
        kind = event.raw.get("type")
        if not isinstance(kind, str):
            if not event.raw.get("error"):
                event.wrong("type", "the type of an event")

            return []

        read = self._find_reader(event, kind)
        if read is None:
            self._keep_event(event, kind)
            return []

        self._keep_rest(event, kind, _WHOLE if kind.endswith(".done") else _KNOWN)
        return read(event)

    def _find_reader(
        self, event: ObjectReader, kind: str
    ) -> Callable[[ObjectReader], Chunks] | None:
        stem, _, verb = kind.rpartition(".")
        if verb in _VERBS:
            if stem == "response.output_item":
                return partial(self._read_item, verb)

            if stem == "response.output_text.annotation":
                return self._read_annotation

            if stem in _TARGETS:
                return partial(self._read_piece, _TARGETS[stem], verb == "delta")

            if stem in _PARTS:
                return partial(self._read_part, *_PARTS[stem])

        if is_map(event.raw.get("response")):
            return partial(self._read_response, verb)

        return None

    def _read_item(self, verb: str, event: ObjectReader) -> Chunks:
        item = event.required("item")
        if item is None:
            return []

        if not isinstance(item.raw.get("type"), str):
            item.wrong("type", "the type of an item")
        elif verb == "added":
            return self._output.added(event, as_sent(item.raw))
        elif verb == "done":
            return self._output.done(event, as_sent(item.raw), item.path)

        return []

    def _read_piece(self, to: _Target, is_piece: bool, event: ObjectReader) -> Chunks:  # noqa: FBT001
        number = _read_part_number(event, to.where)
        text = _read_text(event, "delta" if is_piece else to.key)
        likely = _read_logprobs(event) if to.where else []
        if number is None or text is None:
            return []

        item: Any = self._output.about(event, to.item)

        def emit() -> Chunks:
            live, chunks = item.target(to.where, number, to.block)
            if not is_piece:
                return [*chunks, *live.end(text)]

            chunks = [*chunks, *live.next(text)]
            if chunks or to.where:
                self._expect_more(live, event)

            if likely:
                live.has_logprobs = True

            return [*chunks, *likely]

        return self._output.in_turn(item, emit, is_piece=is_piece)

    def _expect_more(self, live: StreamedText, event: ObjectReader) -> None:
        # A piece that waited is not of the latest event, and its block may be done by
        # now.
        if event.reading is self._output.context.reading:
            self.template.remember(event.raw, _PATH, live.cut, live.quick_chunks())

    def _read_part(self, kind: str, where: str, event: ObjectReader) -> Chunks:
        number, part = _read_part_number(event, where), event.required("part")
        if part is None:
            return []

        raw = event.reading.rest(as_sent(part.raw), frozenset(), part.path)
        named = raw.get("type")
        if not isinstance(named, str):
            part.wrong("type", "the type of a part")
            return []

        if number is None:
            return []

        text = raw.get("refusal" if named == "refusal" else "text")
        kind = "reasoning" if named == "reasoning_text" else kind
        item: Any = self._output.about(event, kind)

        def emit() -> Chunks:
            block, chunks = item.target(where, number, named)
            block.raw = raw
            return [*chunks, *block.end(text)] if isinstance(text, str) else chunks

        return self._output.in_turn(item, emit)

    def _read_annotation(self, event: ObjectReader) -> Chunks:
        number = _read_part_number(event, "content")
        path = f"{event.path}.annotation"
        found = event.reading.json(event.raw.get("annotation"), path)
        if number is None:
            return []

        item: Any = self._output.about(event, "message")

        def emit() -> Chunks:
            block, chunks = item.target("content", number, "output_text")
            block.annotations.append(found)
            return chunks  # type: ignore[no-any-return]

        return self._output.in_turn(item, emit)

    def _keep_event(self, event: ObjectReader, kind: str) -> None:
        """
        Keep an event of an unknown type, unless it is empty.
        """
        if event.raw.keys() <= ADDRESS or kind == "error":
            return

        item = self._output.find(event)
        whole = item is not None and not item.is_piecemeal
        if item is not None and whole and kind.startswith(f"response.{item.type}"):
            item.keep_event(kind, event)
            return

        # Pieces of an unknown type are probably those of one text, so they are joined.
        piece = event.raw.get("delta")
        if isinstance(piece, str):
            self._deltas.setdefault(kind, []).append(piece)
            self._keep_rest(event, kind, NOISE | {"delta"})
        else:
            self._keep_rest(event, kind, NOISE)

    def _keep_rest(self, event: ObjectReader, kind: str, known: frozenset[str]) -> None:
        if not event.raw.keys() <= known:
            info = event.reading.rest(event.raw, known, event.path)
            add_to(self._events.setdefault(mended(kind), {}), info)

    def _read_response(self, verb: str, event: ObjectReader) -> Chunks:
        raw = event.raw["response"]
        node = ObjectReader(event.reading, raw, f"{event.path}.response")
        problems = event.reading.count
        info = read_response(node)
        # If something is invalid, such as a count, the metadata of an earlier event
        # stays.
        if event.reading.count == problems:
            self._info = info

        name = raw.get("id")
        if isinstance(name, str) and name:
            self._output.context.prefix = mended(name)

        status = raw.get("status")
        if verb not in _ENDS and not (isinstance(status, str) and status in _ENDS):
            return []

        self._reason = self._info.finish_reason or verb
        return self._output.complete(node)

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """
        The last chunks: metadata, and items that were not done.
        """
        context = self._output.context
        context.reading = DocumentReader()
        yield from self._output.end()
        for kind, pieces in self._deltas.items():
            info = self._events.setdefault(mended(kind), {})
            info["delta"] = mended("".join(pieces))

        _, usage, model, response_id, about = self._info
        notes = {
            "response": about,
            "events": self._events,
            "mended": list(context.mended),
            "silent": not self._output,
        }
        metadata = with_notes(SOURCE, without_empty(notes))
        reason = self._reason or ("interrupted" if broken else "")
        meta = ResponseMeta(reason, usage, None, model, response_id)
        yield AssistantMessage(response=meta, metadata=metadata)


def _error_in(event: Mapping[str, Any]) -> Any:
    kind, error = event.get("type"), event.get("error")
    if kind == "error":
        return error or event

    # An error that a proxy sends has no type.
    if not isinstance(kind, str):
        return error or None

    response = event.get("response")
    if kind == "response.failed":
        return (is_map(response) and response.get("error")) or event

    return None


def _read_text(event: ObjectReader, key: str) -> str | None:
    text = event.raw.get(key)
    if isinstance(text, str):
        # A plain one, because the chunk of a piece is made without checks.
        return str(text)

    event.wrong(key, "a text")
    return None


def _read_part_number(event: ObjectReader, where: str) -> int | None:
    """
    The number of the block in the list *where*, 0 if missing; None if it is invalid.
    """
    key = _NUMBERS.get(where, "")
    number = event.raw.get(key)
    if number is None:
        return 0

    if number.__class__ is not int or not 0 <= number < MAX_ITEMS:
        event.wrong(key, "the index of a part, 0 or higher")
        return None

    return int(number)


def _read_logprobs(event: ObjectReader) -> Chunks:
    logprobs = event.raw.get("logprobs")
    if not logprobs:
        return []

    if not is_list(logprobs):
        event.wrong("logprobs", "a list")
        return []

    found = read_logprob_list(event.reading, logprobs, f"{event.path}.logprobs")
    return [AssistantMessage(response=ResponseMeta(logprobs=found))]
