"""
From a stream of Responses to chunks: what each event brings, and the item that it is
about.

Each item gives its pieces of text as they come. The rest of it, such as its id or
citations, comes with the last piece: it is read from the item at its end, as from a
whole response (`_load`).
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

from conversation_state._canonical import is_object
from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters.engine.notes import notes_of, with_notes, without_empty
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
    SurrogateBuffer,
    achunks_of,
    add_to,
    as_index,
    check_event,
    chunks_of,
    make_call_chunk,
    make_part_chunk,
)
from conversation_state.adapters.engine.usage import RunningCounts, as_kept
from conversation_state.adapters.engine.wire import make_call_id, make_call_prefix
from conversation_state.adapters.openai_responses._blocks import CALLS, SOURCE
from conversation_state.adapters.openai_responses._load import (
    LISTS,
    ItemBlock,
    ItemIds,
    ResponseInfo,
    blocks_of,
    find_signed,
    note_item,
    note_unstored,
    read_call,
    read_item,
    read_item_block,
    read_response,
    read_responses_counts,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, LogProb, ResponseMeta
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart, UnknownPart
from conversation_state.tools import ToolCall


@attrs.define
class StreamContext:
    """What the items of one stream share while they are read."""

    # The event that is being read, and the chunks that it brings.
    reading: DocumentReader = attrs.Factory(DocumentReader)
    chunks: list[AssistantMessage] = attrs.Factory(list)
    # The items in which a text had half of a surrogate pair.
    mended: dict[str, bool] = attrs.Factory(dict)
    # The beginning of ids that are made up.
    prefix: str = ""
    # The next place among the parts and calls.
    index: int = 0

    def take_chunks(self) -> list[AssistantMessage]:
        chunks, self.chunks = self.chunks, []
        return chunks

    def make_prefix(self) -> str:
        # One stream has one prefix.
        self.prefix = self.prefix or make_call_prefix("")
        return self.prefix

    def take_index(self) -> int:
        self.index += 1
        return self.index - 1


@attrs.define(eq=False)
class StreamedText:
    """A text that comes in pieces: a block of an item, or the arguments of a call."""

    # Makes a chunk of a valid piece; None as long as none can be given.
    make: Callable[[str], AssistantMessage] | None = None
    cut: SurrogateBuffer = attrs.Factory(SurrogateBuffer)
    pieces: list[str] = attrs.Factory(list)
    # The whole text, if an event has it; "" if none does.
    whole: str = ""

    def add_piece(self, piece: str, chunks: list[AssistantMessage]) -> None:
        """Add *piece*, and its chunk to *chunks*; half of a character waits."""
        text = self.cut.next(piece)
        if text:
            self.pieces.append(text)
            if self.make is not None:
                chunks.append(self.make(text))

    def so_far(self) -> str:
        return self.whole or "".join(self.pieces) + self.cut.rest()

    def rest(self, whole: str) -> str | None:
        """What *whole* has behind the pieces; None if they do not begin it."""
        given = "".join(self.pieces)
        return whole[len(given) :] if whole.startswith(given) else None


class StreamedItem:
    """
    One item while it is made.

    This class is for items that our model can't represent, such as a call of a
    provider's own tool: the whole item is given at its end. Subclasses give their
    pieces before.
    """

    def __init__(
        self, context: StreamContext, added: Mapping[str, Any], name: str
    ) -> None:
        self.context = context
        self.added = added  # the item when it was announced
        self.raw = added  # the item so far
        self.type: str = added["type"]
        self.name = name  # its path in the response
        # The place of its first part or call.
        self.index = context.take_index()
        self.is_done = False
        # What events about it have that no reader knows, by the types of the events.
        self.events: dict[str, dict[str, Any]] = {}

    def finish(self, raw: Mapping[str, Any] | None, path: str) -> None:
        """
        Give the rest of the item, which is *raw*, at *path*, at its end; *raw* is None
        if it has no end. Nothing if the item is done already.
        """
        # The end of the item, the end of the response and the end of the stream may all
        # finish the same item.
        if self.is_done:
            return

        self.is_done = True
        self.raw = self.added if raw is None else raw
        mended_before = len(self.context.reading.mended)
        self._finish_item(self.added if raw is None else raw, path)
        self.note_mended(mended_before, self._list_texts())

    def note_mended(self, before: int, texts: Iterable[StreamedText] = ()) -> None:
        """
        Note the item if a text of it was mended: one of *texts*, or one of those that
        are read since there were *before*.
        """
        is_cut = any(text.cut.is_mended for text in texts)
        if is_cut or len(self.context.reading.mended) > before:
            self.context.mended[self.name] = True

    def _finish_item(self, raw: Mapping[str, Any], path: str) -> None:
        kept = self.context.reading.json(raw, path)
        # The end of the item repeats what the events about it have.
        is_broken = raw is self.added and self.events
        metadata = with_notes(SOURCE, {"events": self.events} if is_broken else {})
        part = UnknownPart(kept, source=SOURCE, index=self.index, metadata=metadata)
        self._give_part(part)

    def _list_texts(self) -> Iterable[StreamedText]:
        return ()

    def _give_part(self, part: Any, logprobs: list[LogProb] | None = None) -> None:
        meta = ResponseMeta(logprobs=tuple(logprobs)) if logprobs else None
        self.context.chunks.append(AssistantMessage((part,), response=meta))


class StreamedCall(StreamedItem):
    def __init__(
        self, context: StreamContext, added: Mapping[str, Any], name: str
    ) -> None:
        super().__init__(context, added, name)
        self.text = StreamedText()
        call_id, tool = added.get("call_id"), added.get("name")
        # Without an id nothing is given yet: the end of the call may have one, which
        # can't be added to a chunk that was given.
        if isinstance(call_id, str) and isinstance(tool, str) and call_id:
            self.text.make = partial(make_call_chunk, self.index)
            kind = "custom" if self.type == "custom_tool_call" else "function"
            self._give_call(ToolCall(call_id, tool, index=self.index, type=kind))

    def open_text(self, *_: object) -> StreamedText:
        return self.text

    def _list_texts(self) -> Iterable[StreamedText]:
        return (self.text,)

    def _give_call(self, call: ToolCall) -> None:
        self.context.chunks.append(AssistantMessage(tool_calls=(call,)))

    def _finish_item(self, raw: Mapping[str, Any], path: str) -> None:
        key, text = CALLS[self.type], self.text
        final = {"name": "", **self.added, **raw}
        # The item at its beginning has no arguments yet.
        if raw is self.added or key not in raw:
            final[key] = text.so_far() or final.get(key, "")

        # `load` numbers calls in the same way, so that both make up the same id.
        made_id = make_call_id(self.context.make_prefix(), self.index)
        node = ObjectReader(self.context.reading, final, path)
        call = read_call(node, self.index, made_id)
        if text.make is None:
            self._give_call(call)
            return

        rest, metadata = text.rest(call.arguments), call.metadata
        if rest is None:
            # What was given can't be taken back, so a note has the arguments.
            done = {**notes_of(metadata, SOURCE), "done": call.arguments}
            done["given"] = "".join(text.pieces)
            rest, metadata = "", with_notes(SOURCE, done)
        elif key == "arguments" and rest and is_object("".join(text.pieces)):
            # Gateways repeat whole arguments at the end.
            # Source: https://github.com/Wei-Shaw/sub2api/pull/3481
            rest = ""

        if rest or metadata is not EMPTY_MAP:
            piece = ToolCall("", "", rest, index=self.index, metadata=metadata)
            self._give_call(piece)


@attrs.define(eq=False, kw_only=True)
class StreamedBlock(StreamedText):
    """A block of a message, or of a thought."""

    # The list that it is in, and its number there; its type; and its place among the
    # parts of the response.
    place: tuple[str, int]
    kind: str
    index: int
    part: type[TextPart | RefusalPart | ReasoningPart]
    # The block as an event has it, and its lists whose items came in events.
    raw: Mapping[str, Any] = EMPTY_MAP
    lists: dict[str, list[Any]] = attrs.Factory(dict)

    def as_is(self) -> dict[str, Any]:
        raw = {"type": self.kind, **self.raw}
        if self.pieces or self.whole or not self.raw:
            raw["refusal" if self.kind == "refusal" else "text"] = self.so_far()

        return raw

    def complete(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The block *raw* with the lists that it does not repeat."""
        # In the end log probabilities are rounded.
        lists = {
            key: self.lists[key]
            for key in self.lists
            if key == "logprobs" or not raw.get(key)
        }
        return {**raw, **lists} if lists else raw


class StreamedMessage(StreamedItem):
    """A message, or a thought: an item that is made of blocks."""

    def __init__(
        self, context: StreamContext, added: Mapping[str, Any], name: str
    ) -> None:
        super().__init__(context, added, name)
        self._blocks: dict[tuple[str, int], StreamedBlock] = {}
        self._last: StreamedBlock | None = None

    def _list_texts(self) -> Iterable[StreamedText]:
        return self._blocks.values()

    def open_text(self, where: str, number: int, kind: str) -> StreamedBlock:
        """One of its blocks. If it is new, the block before it ends."""
        place = (where, number)
        if place in self._blocks:
            return self._blocks[place]

        if self._last is not None:
            mended_before = len(self.context.reading.mended)
            self._close_block(self._last, self._last.as_is(), "$", {"more": True})
            self.note_mended(mended_before, [self._last])

        return self._open_block(place, kind)

    def _open_block(self, place: tuple[str, int], kind: Any) -> StreamedBlock:
        part: type[Any] = RefusalPart if kind == "refusal" else TextPart
        if self.type == "reasoning":
            part = ReasoningPart

        index = self.index
        if self._last is not None:
            index = self._take_index_behind(self._last.index)

        block = StreamedBlock(
            make=partial(make_part_chunk, part, index),
            place=place,
            kind=kind,
            index=index,
            part=part,
        )
        self._blocks[place] = self._last = block
        return block

    def _take_index_behind(self, index: int) -> int:
        # If other items have come since, there is no place left for another part, which
        # becomes one with the part before it.
        return self.context.take_index() if self.context.index == index + 1 else index

    def _close_block(
        self,
        block: StreamedBlock,
        raw: Mapping[str, Any],
        path: str,
        notes: dict[str, Any],
        signature: str = "",
    ) -> None:
        reading, logprobs = self.context.reading, list[LogProb]()
        raw = block.complete(raw)
        part: Any = read_item_block(
            ObjectReader(reading, raw, path),
            block.place[0] if self.type == "reasoning" else "",
            notes,
            index=block.index,
            signature=signature,
            logprobs=logprobs,
        )
        # If the block has another kind at its end, it does not continue the pieces that
        # were given.
        rest = block.rest(part.text) if part.__class__ is block.part else None
        metadata = part.metadata
        if rest is None and block.pieces:
            # What was given can't be taken back, so a note has the block.
            done = {**notes, "done": reading.json(raw, path)}
            done["given"] = "".join(block.pieces)
            rest, metadata = "", with_notes(SOURCE, done)

        if rest is not None:
            signed: dict[str, Any] = {}
            if block.part is ReasoningPart:
                signed["signature"] = signature

            # Several times as fast as `attrs.evolve`.
            part = block.part(rest, index=block.index, metadata=metadata, **signed)

        self._give_part(part, logprobs)

    def _finish_item(self, raw: Mapping[str, Any], path: str) -> None:
        item = ObjectReader(self.context.reading, raw, path)
        if self._last is not None:
            self._finish_blocks(item, self._last)
            return

        logprobs: list[LogProb] = []
        # All of them are parts, because a message or a thought has no calls. There is
        # none if the message was announced without content, and never done.
        parts: Any = read_item(item, self.index, "", logprobs)
        index = self.index
        for at, part in enumerate(parts):
            index = self._take_index_behind(index) if at else index
            self._give_part(attrs.evolve(part, index=index), logprobs)
            logprobs = []

    def _finish_blocks(self, item: ObjectReader, last: StreamedBlock) -> None:
        content = item.raw.get("content")
        if self.type == "message" and isinstance(content, str):
            listed = [{"type": "output_text", "text": content}]
            item.raw = {**item.raw, "content": listed}

        final = {
            (block.where, block.number): block for block in blocks_of(item, self.type)
        }
        notes, signature = note_item(item, self.type)
        as_is = ItemBlock(*last.place, last.as_is(), item.path)
        left = [block for place, block in final.items() if place not in self._blocks]
        left.insert(0, final.get(last.place, as_is))
        signed = find_signed(left)
        for at, end in enumerate(left):
            place = (end.where, end.number)
            self._close_block(
                self._blocks.get(place) or self._open_block(place, end.raw.get("type")),
                end.raw,
                end.path,
                notes if at == len(left) - 1 else {"more": True},
                signature if at == signed else "",
            )


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
        ProviderStreamError: If an event reports that the provider failed.
        DecodeError: If an event is invalid in the format.

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
    return chunks_of(ResponsesStream(), events, SOURCE, own=SOURCE)


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[AssistantMessage]:
    """The async twin of `load_chunks`, for events that are awaited."""
    return achunks_of(ResponsesStream(), events, SOURCE, own=SOURCE)


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
        reader.is_answer = True
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
        """The item of *event*, perhaps with *item_id*; None if not known."""
        for each in (event.raw.get("item_id"), item_id):
            if isinstance(each, str) and each in self._by_id:
                return self._by_id[each]

        at: Any = as_index(event.raw.get("output_index"))
        return self._at.get(at) if at.__class__ is int else None

    def _find_or_open_item(
        self, event: ObjectReader, raw: Mapping[str, Any]
    ) -> StreamedItem:
        """The item that is *raw*; a new one if it was not announced."""
        item = self._find_item(event, raw.get("id") or raw.get("call_id"))
        if item is not None and item.type == raw["type"]:
            # If the known item is done, *raw* is the same one again only if its ids are
            # the same; else it is another item in the same place.
            keys = ("id", "call_id")
            again = all(item.added.get(key) == raw.get(key) for key in keys)
            if again or not item.is_done:
                return item

        at = as_index(event.raw.get("output_index"))
        return self._open_item(raw, at, f"{event.path}.item")

    def _find_item_of(self, event: ObjectReader, kind: str) -> Any:
        """The item of a *kind* that *event* has a piece of, or a new one."""
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

        at, path = as_index(event.raw.get("output_index")), f"{event.path}.item"
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
        # An item without an id is known by that of its call.
        # Source: https://github.com/anomalyco/opencode/pull/45081
        if isinstance(raw.get("id"), str):
            self._by_id[raw["id"]] = item
        elif isinstance(raw.get("call_id"), str):
            self._by_id.setdefault(raw["call_id"], item)

        return item

    def _read_response(self, event: ObjectReader, verb: str) -> None:
        node = event.child("response")
        problems = event.reading.count
        info = read_response(node)
        if not self._unstored:
            # At once, because a program that stops does not read the end.
            self._unstored = note_unstored(node.raw)
            if self._unstored and verb not in _ENDS:
                notes = with_notes(SOURCE, self._unstored)
                self._context.chunks.append(AssistantMessage(metadata=notes))

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
        context.reading.is_answer = True
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
    number = as_index(event.raw.get(key))
    if number is None:
        return 0

    if number.__class__ is not int or not 0 <= number < _MAX_ITEMS:
        event.wrong(key, "the index of a part, 0 or higher")
        return None

    return int(number)


def _add_logprobs(event: ObjectReader, block: StreamedBlock) -> None:
    given = event.raw.get("logprobs")
    if is_list(given):
        found = event.reading.json(as_kept(given), f"{event.path}.logprobs")
        block.lists.setdefault("logprobs", []).extend(found)
