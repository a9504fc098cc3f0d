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
from typing import Any, NamedTuple

from conversation_state.adapters.engine.notes import with_notes, without_empty
from conversation_state.adapters.engine.openai import read_logprob_list
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    as_sent,
    describe_failure,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters.engine.streaming import (
    Repeats,
    achunks_of,
    add_to,
    check_event,
    chunks_of,
)
from conversation_state.adapters.engine.usage import RunningCounts
from conversation_state.adapters.openai_responses._blocks import CALLS, SOURCE
from conversation_state.adapters.openai_responses._load import (
    ResponseInfo,
    read_response,
    read_responses_counts,
)
from conversation_state.adapters.openai_responses._read_items import (
    LISTS,
    ItemIds,
    note_unstored,
)
from conversation_state.adapters.openai_responses._stream_items import (
    StreamContext,
    StreamedBlock,
    StreamedCall,
    StreamedItem,
    StreamedMessage,
    StreamedText,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta


def load_chunks(events: Iterable[Any]) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Text, thoughts, refusals and the arguments of calls are given as they come;
    items of other kinds when they are done. Content that an item's end repeats is given
    once. Content that only an item's end has is given then, and so is content that only
    the whole response at the end of the stream has.

    *index* is the place of an item among those that were announced. The end of one may
    come after pieces of others: that of a thought, with its signature, after the output
    that it led to (OpenRouter). Then it is a part of its own with the same *index*;
    ``concat(chunks, regroup_by_index=True)`` joins both. `dump` sends one item either
    way. A stream without an end (``completed``, ``incomplete``, ``failed``) is one that
    broke off.

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
    return chunks_of(ResponsesStream(), events, SOURCE)


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[AssistantMessage]:
    """The async twin of `load_chunks`, for events that are awaited."""
    return achunks_of(ResponsesStream(), events, SOURCE)


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
_ENDS = frozenset({"cancelled", "completed", "failed", "incomplete"})

_MAX_ITEMS = 2**31  # items, or blocks of one: far more than there can be

# The types of items that come in pieces.
_ITEMS: Mapping[str, type[StreamedItem]] = {
    **dict.fromkeys(CALLS, StreamedCall),
    **dict.fromkeys(LISTS, StreamedMessage),
}

# Keys of events without information, such as `obfuscation`, which is padding that hides
# the length of a piece; and with them the keys of the item that an event is about.
_NOISE = frozenset({"obfuscation", "sequence_number", "type"})
_ADDRESS = _NOISE | {"item_id", "output_index"}

# The keys of events that are read; and with them the keys under which the last events
# of an item repeat its content.
_KNOWN = _ADDRESS | {
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
        self._context = StreamContext()
        # What the events repeat, beside what is read of each; and the text that the
        # last one had a piece of.
        self._event = Repeats("delta", "obfuscation", "sequence_number", "snapshot")
        self._text: StreamedText | None = None
        self._items: list[StreamedItem] = []
        self._at: dict[int, StreamedItem] = {}
        self._by_id: dict[str, StreamedItem] = {}
        self._info = ResponseInfo("", None, "", "", {})
        self._usage = RunningCounts(read_responses_counts)
        self._reason = ""
        self._unstored: dict[str, Any] = {}
        self._events: dict[str, dict[str, Any]] = {}

    def read(self, event: Any, path: str) -> Iterator[AssistantMessage]:
        context, text = self._context, self._text
        if self._event.has(event) and text is not None:
            piece = event.get("delta")
            if isinstance(piece, str):
                text.add_piece(piece, context.chunks)
                yield from context.take_chunks()
                return

        self._text = None
        reader = context.reading = DocumentReader()
        check_event(reader, event, path)
        self._read_event(ObjectReader(reader, event, path))
        # The chunks that could be read come before the error.
        yield from context.take_chunks()
        if reader.problems:
            reader.finish()

        error = _error_in(event)
        if error is not None:
            raise ProviderStreamError(describe_failure(error), event)

    def _read_event(self, event: ObjectReader) -> None:
        kind = event.raw.get("type")
        if not isinstance(kind, str):
            if not event.raw.get("error"):
                event.wrong("type", "the type of an event")

            return

        stem, _, verb = kind.rpartition(".")
        events, known = self._events, _WHOLE if verb == "done" else _KNOWN
        if stem in _READERS and verb in _VERBS:
            _READERS[stem](self, event, stem, verb)
        elif is_map(event.raw.get("response")):
            self._read_response(event, verb)
        elif event.raw.keys() <= _ADDRESS or kind == "error":
            return
        else:
            known = _NOISE
            item = self._find_item(event)
            if (
                item is not None
                and item.__class__ is StreamedItem
                and stem.startswith(f"response.{item.type}")
            ):
                events, known = item.events, _ADDRESS

        if not event.raw.keys() <= known:
            info = event.reading.rest(event.raw, known, event.path)
            # Pieces of an unknown type are kept one by one.
            if isinstance(info.get("delta"), str):
                info["delta"] = [info["delta"]]

            add_to(events.setdefault(mended(kind), {}), info)

    def _read_item(self, event: ObjectReader, _: str, verb: str) -> None:
        node = event.required("item")
        if node is None:
            return

        if not isinstance(node.raw.get("type"), str):
            node.wrong("type", "the type of an item")
        elif verb != "delta":
            raw = as_sent(node.raw)
            item = self._find_or_open_item(event, raw)
            if verb == "done":
                item.finish(raw, node.path)

    def _read_piece(self, event: ObjectReader, stem: str, verb: str) -> None:
        to, is_piece = _TARGETS[stem], verb == "delta"
        number = _read_part_number(event, to.where)
        key = "delta" if is_piece else to.key
        given = event.raw.get(key)
        if not isinstance(given, str):
            event.wrong(key, "a text")
            return

        if number is None:
            return

        text = self._find_item_of(event, to.item).open_text(to.where, number, to.block)
        if not is_piece:
            text.whole = given
            return

        text.add_piece(given, self._context.chunks)
        self._text = text
        if stem == "response.output_text" and event.raw.get("logprobs"):
            _add_logprobs(event, text)

    def _read_part(self, event: ObjectReader, stem: str, verb: str) -> None:
        kind, where = _PARTS[stem]
        number, part = _read_part_number(event, where), event.required("part")
        if part is None:
            return

        raw = event.reading.rest(as_sent(part.raw), frozenset(), part.path)
        named = raw.get("type")
        if not isinstance(named, str):
            part.wrong("type", "the type of a part")
            return

        if number is None:
            return

        kind = "reasoning" if named == "reasoning_text" else kind
        block = self._find_item_of(event, kind).open_text(where, number, named)
        block.raw = raw
        text = raw.get("refusal" if named == "refusal" else "text")
        if isinstance(text, str) and verb == "done":
            block.whole = text
        elif isinstance(text, str) and not block.pieces:
            block.add_piece(text, self._context.chunks)

    def _read_annotation(self, event: ObjectReader, *_: str) -> None:
        number = _read_part_number(event, "content")
        path = f"{event.path}.annotation"
        found = event.reading.json(event.raw.get("annotation"), path)
        if number is not None:
            item = self._find_item_of(event, "message")
            block = item.open_text("content", number, "output_text")
            block.lists.setdefault("annotations", []).append(found)

    def _find_item(
        self, event: ObjectReader, item_id: Any = None
    ) -> StreamedItem | None:
        """
        The item that *event* is about, whose id may be *item_id*; None if it is not
        known.
        """
        for each in (event.raw.get("item_id"), item_id):
            if isinstance(each, str) and each in self._by_id:
                return self._by_id[each]

        at: Any = event.raw.get("output_index")
        return self._at.get(at) if at.__class__ is int else None

    def _find_or_open_item(
        self, event: ObjectReader, raw: Mapping[str, Any]
    ) -> StreamedItem:
        """The item that is *raw*; a new one if it was not announced."""
        item = self._find_item(event, raw.get("id"))
        if item is not None and item.type == raw["type"]:
            # If the known item is done, *raw* is the same one again only if its ids are
            # the same; else it is another item in the same place.
            keys = ("id", "call_id")
            again = all(item.added.get(key) == raw.get(key) for key in keys)
            if again or not item.is_done:
                return item

        return self._open_item(raw, event.raw.get("output_index"), f"{event.path}.item")

    def _find_item_of(self, event: ObjectReader, kind: str) -> Any:
        """
        The item of a *kind* that *event* has a piece of; a new one if it was not
        announced.
        """
        item = self._find_item(event)
        if item is None and event.raw.keys().isdisjoint({"item_id", "output_index"}):
            item = self._items[-1] if self._items else None

        if item is not None and item.type == kind and not item.is_done:
            return item

        raw: dict[str, Any] = {"type": kind}
        if kind == "message":
            raw |= {"role": "assistant", "content": []}
        elif kind == "reasoning":
            raw["summary"] = []

        # If the id is that of another item, this one gets none: the provider refuses a
        # request with two items of one id. Further pieces with the id are still of this
        # item.
        item_id = event.raw.get("item_id")
        if isinstance(item_id, str) and item_id not in self._by_id:
            raw["id"] = item_id

        at, path = event.raw.get("output_index"), f"{event.path}.item"
        item = self._open_item(raw, at, path)
        if isinstance(item_id, str):
            self._by_id[item_id] = item

        return item

    def _open_item(self, raw: Mapping[str, Any], at: Any, path: str) -> StreamedItem:
        reading = self._context.reading
        mended_before = len(reading.mended)
        kept = reading.json(raw, path)
        number = (
            at if at.__class__ is int and 0 <= at < _MAX_ITEMS else len(self._items)
        )
        kind = _ITEMS.get(raw["type"], StreamedItem)
        item = kind(self._context, kept, f"output[{number}]")
        item.note_mended(mended_before)
        self._items.append(item)
        self._at[number] = item
        if isinstance(raw.get("id"), str):
            self._by_id[raw["id"]] = item

        return item

    def _read_response(self, event: ObjectReader, verb: str) -> None:
        node = event.child("response")
        problems = event.reading.count
        info = read_response(node)
        self._unstored = self._unstored or note_unstored(node.raw)
        self._usage.add(node.raw.get("usage"))
        # If something is invalid, the metadata of an earlier event stays.
        if event.reading.count == problems:
            model, name = info.model or self._info.model, info.id or self._info.id
            self._info = info._replace(model=model, id=name)

        if info.id:
            self._context.prefix = info.id

        status = node.raw.get("status")
        if verb in _ENDS or (isinstance(status, str) and status in _ENDS):
            self._reason = self._info.finish_reason or verb
            self._finish_output(node)

    def _finish_output(self, response: ObjectReader) -> None:
        """Give the content that only the whole *response* has."""
        output = response.raw.get("output")
        if not is_list(output):
            return

        known: set[int] = set()
        whole = ObjectReader(
            response.reading, {"output": as_sent(output)}, response.path
        )
        for at, node in enumerate(whole.objects("output")):
            raw, name = node.raw, node.raw.get("id")
            if not isinstance(raw.get("type"), str):
                node.wrong("type", "the type of an item")
                continue

            item = self._by_id.get(name) if isinstance(name, str) else None
            item = item or self._at.get(at)
            # If two items of the response have the same id, the second one is new.
            if item is None or item.type != raw["type"] or id(item) in known:
                item = self._open_item(raw, len(self._items), node.path)

            known.add(id(item))
            item.finish(raw, node.path)

    def _find_needs(self) -> dict[str, str]:
        ids = ItemIds()
        for item in self._items:
            ids.add(item.raw)

        return ids.needs

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """The last chunks: metadata, and items that were not done."""
        context = self._context
        context.reading = DocumentReader()
        # What has no pieces comes last, so that it doesn't divide a text.
        for item in sorted(self._items, key=lambda one: one.__class__ is StreamedItem):
            item.finish(None, "$")

        yield from context.take_chunks()
        _, _, model, response_id, about = self._info
        usage, left = self._usage.read()
        if left:
            about = {**about, "usage": left}

        notes = {
            "response": about,
            "events": self._events,
            "mended": list(context.mended),
            "silent": not self._items,
            "needs": self._find_needs(),
            **self._unstored,
        }
        metadata = with_notes(SOURCE, without_empty(notes))
        reason = self._reason or ("interrupted" if broken else "")
        meta = ResponseMeta(reason, usage, None, model, response_id)
        yield AssistantMessage(response=meta, metadata=metadata)


_READERS: Mapping[str, Callable[[ResponsesStream, ObjectReader, str, str], None]] = {
    "response.output_item": ResponsesStream._read_item,
    "response.output_text.annotation": ResponsesStream._read_annotation,
    **dict.fromkeys(_TARGETS, ResponsesStream._read_piece),
    **dict.fromkeys(_PARTS, ResponsesStream._read_part),
}


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


def _read_part_number(event: ObjectReader, where: str) -> int | None:
    """
    The number of the block in the list *where*, 0 if missing; None if it is invalid.
    """
    key = _NUMBERS.get(where, "")
    number = event.raw.get(key)
    if number is None:
        return 0

    if number.__class__ is not int or not 0 <= number < _MAX_ITEMS:
        event.wrong(key, "the index of a part, 0 or higher")
        return None

    return int(number)


def _add_logprobs(event: ObjectReader, block: StreamedBlock) -> None:
    given = event.raw.get("logprobs")
    problems = event.reading.count
    if is_list(given) and given:
        read_logprob_list(event.reading, given, f"{event.path}.logprobs")
        found = event.reading.json(given, f"{event.path}.logprobs")
        if event.reading.count == problems:
            block.lists.setdefault("logprobs", []).extend(found)
    elif given:
        event.wrong("logprobs", "a list")
