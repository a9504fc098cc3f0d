"""
The items of a stream while they are made.

Each item gives its pieces of text as they come. The rest of it, such as its id or
citations, comes with the last piece: it is read from the item at its end, as from a
whole response (`_items`).

What does not live here: which item an event is about (`_stream`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import attrs

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters.engine.notes import notes_of, with_notes
from conversation_state.adapters.engine.reading import DocumentReader, ObjectReader
from conversation_state.adapters.engine.streaming import (
    SurrogateBuffer,
    make_call_chunk,
    make_part_chunk,
)
from conversation_state.adapters.engine.wire import make_call_id, make_call_prefix
from conversation_state.adapters.openai_responses._blocks import CALLS, SOURCE
from conversation_state.adapters.openai_responses._read_items import (
    ItemBlock,
    blocks_of,
    find_signed,
    note_item,
    read_call,
    read_item,
    read_item_block,
)
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
        """
        Add the next *piece*, and its chunk to *chunks*; half of a character at its end
        waits.
        """
        text = self.cut.next(piece)
        if text:
            self.pieces.append(text)
            if self.make is not None:
                chunks.append(self.make(text))

    def so_far(self) -> str:
        return self.whole or "".join(self.pieces) + self.cut.rest()

    def rest(self, whole: str) -> str | None:
        """
        The text that *whole*, valid Unicode, has behind the pieces; None if it does
        not begin with them.
        """
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
