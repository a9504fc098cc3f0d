"""
The items of a stream while they are made.

Each item gives its pieces as they come. The rest of it, such as its id or
citations, comes with the last piece: it is read from the item at its end, as
from a whole response (`_items`).

What does not live here: the order of items (`_stream_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, ClassVar, TypeAlias

import attrs

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._notes import notes_of, with_notes
from conversation_state.adapters._reading import DocumentReader, ObjectReader, mended
from conversation_state.adapters._responses._blocks import ADDRESS, CALLS, SOURCE
from conversation_state.adapters._responses._items import (
    ItemBlock,
    blocks_of,
    find_signed,
    note_item,
    read_call,
    read_item,
    read_item_block,
)
from conversation_state.adapters._streaming import (
    SurrogateBuffer,
    call_chunks,
    part_chunks,
)
from conversation_state.messages import AssistantMessage, LogProb, ResponseMeta
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart, UnknownPart
from conversation_state.tools import ToolCall

Chunks: TypeAlias = list[AssistantMessage]


@attrs.define
class StreamContext:
    """
    What the items of one stream share while they are read.
    """

    # The event that is being read.
    reading: DocumentReader = attrs.Factory(DocumentReader)
    # The paths of texts that had half of a surrogate pair.
    mended: dict[str, bool] = attrs.Factory(dict)
    # The beginning of ids that are made up.
    prefix: str = "response"
    # Gives the next place among the parts and calls.
    take: Callable[[], int] = attrs.Factory(lambda: count().__next__)

    def mend(self, since: int, path: str, name: str) -> None:
        # The texts that were mended below *path*, which is *name* in the response.
        for changed in self.reading.mended[since:]:
            self.mended[f"{name}{changed[len(path) :]}"] = True


@attrs.define(eq=False)
class StreamedText:
    """
    A text that comes in pieces: a block of an item, or the arguments of a call.
    """

    # Makes a chunk of a valid piece; None as long as none can be given.
    make: Callable[[str], AssistantMessage] | None = None
    cut: SurrogateBuffer = attrs.Factory(SurrogateBuffer)
    # Those that were given.
    pieces: list[str] = attrs.Factory(list)
    # The size of the pieces that were counted, and the number of these pieces.
    _size: int = attrs.field(default=0, init=False)
    _counted: int = attrs.field(default=0, init=False)

    def quick_chunks(self) -> Callable[[str], AssistantMessage]:
        """
        A function that gives the chunk of a piece, which counts as given.
        """
        make: Any = self.make
        note = self.pieces.append

        def add(text: str) -> AssistantMessage:
            note(text)
            return make(text)  # type: ignore[no-any-return]

        return add

    def next(self, piece: str) -> Chunks:
        """
        The chunk of the next *piece*, without half of a character at its end, which
        waits.
        """
        text = self.cut.next(piece)
        if not text:
            return []

        self.pieces.append(text)
        return [] if self.make is None else [self.make(text)]

    def end(self, whole: str) -> Chunks:
        """
        The chunk of the text that *whole*, the text at the end, has behind the pieces.
        """
        valid = mended(whole)
        if valid is not whole:
            self.cut.is_mended = True

        rest = self.rest(valid)
        return self.next(rest) if rest else []

    def rest(self, whole: str) -> str | None:
        """
        The text that *whole*, valid Unicode, has behind the pieces; None if it does
        not begin with them.
        """
        # The pieces are counted here and not when they come, because there are many of
        # them and their size is needed at the end only. Without their size, each of
        # many ends would join all pieces.
        uncounted = self.pieces[self._counted :]
        self._counted += len(uncounted)
        self._size += sum(map(len, uncounted))
        if len(whole) < self._size or not whole.startswith("".join(self.pieces)):
            return None

        return whole[self._size :]


@attrs.define(eq=False)
class StreamedItem:
    """
    One item while it is made.

    This class is for items that our model can't represent, such as a call of a
    provider's own tool: the whole item is given at its end. Subclasses give their
    pieces before.
    """

    context: StreamContext
    # The item when it was announced.
    added: Mapping[str, Any]
    # Its place in the output.
    at: int
    # The place of its first part or call; None as long as it waits for others.
    index: int | None = None
    # The functions to call when it no longer waits.
    waiting: list[Callable[[], Chunks]] = attrs.Factory(list)
    # Whether all of it was given, and whether pieces of an item behind it were before.
    is_done: bool = False
    is_overtaken: bool = False
    # By the types of events about it: the pieces, or the keys of the last event.
    _events: dict[str, Any] = attrs.field(factory=dict, init=False)

    # Whether it is given in pieces.
    is_piecemeal: ClassVar[bool] = False

    @property
    def type(self) -> Any:
        return self.added.get("type")

    @property
    def name(self) -> str:
        return f"output[{self.at}]"

    def start(self) -> Chunks:
        self.index = self.context.take()
        return []

    def finish(self, raw: Mapping[str, Any] | None, path: str) -> Chunks:
        """
        The rest of the item, which is *raw*, at *path*, at its end; *raw* is None if
        it has no end. Nothing if the item is done already.
        """
        # The end of the item, the end of the response and the end of the stream may all
        # finish the same item.
        if self.is_done:
            return []

        self.is_done = True
        since = len(self.context.reading.mended)
        chunks = self._finish_item(raw, path)
        self.context.mend(since, path, self.name)
        return chunks

    def _finish_item(self, raw: Mapping[str, Any] | None, path: str) -> Chunks:
        kept = self.context.reading.json(self.added if raw is None else raw, path)
        pieces = {
            kind: mended("".join(found)) if isinstance(found, list) else found
            for kind, found in self._events.items()
        }
        notes = {"pieces": pieces} if raw is None and pieces else {}
        metadata = with_notes(SOURCE, notes)
        part = UnknownPart(kept, source=SOURCE, index=self.index, metadata=metadata)
        return [AssistantMessage((part,))]

    def keep_event(self, kind: str, event: ObjectReader) -> None:
        """
        Remember *event*, of a *kind*, in case the item has no end.
        """
        kind, piece = mended(kind), event.raw.get("delta")
        before = self._events.get(kind)
        if not isinstance(piece, str):
            found = event.reading.rest(event.raw, ADDRESS, event.path)
            self._events[kind] = found
        elif isinstance(before, list):
            before.append(piece)
        else:
            self._events[kind] = [piece]


@attrs.define(eq=False)
class StreamedCall(StreamedItem):
    is_piecemeal = True
    text: StreamedText = attrs.field(factory=StreamedText, init=False)

    def target(self, *_: object) -> tuple[StreamedText, Chunks]:
        return self.text, []

    def start(self) -> Chunks:
        super().start()
        call_id, name = self.added.get("call_id"), self.added.get("name")
        # Without an id nothing is given yet: the end of the call may have one, which
        # can't be added to a chunk that was given.
        if not (isinstance(call_id, str) and isinstance(name, str) and call_id):
            return []

        self.text.make = call_chunks(self.index or 0)
        kind = "custom" if self.type == "custom_tool_call" else "function"
        call = ToolCall(mended(call_id), mended(name), index=self.index, type=kind)
        return [AssistantMessage(tool_calls=(call,))]

    def _finish_item(self, raw: Mapping[str, Any] | None, path: str) -> Chunks:
        key, text = CALLS[self.type], self.text
        final = {"name": "", **self.added, **(raw or {})}
        if raw is None or key not in final:
            final[key] = "".join(text.pieces) + text.cut.rest()

        node = ObjectReader(self.context.reading, final, path)
        # `load` numbers calls in the same way, so that both make up the same id.
        made_id = f"{self.context.prefix}_call_{self.index}"
        call = read_call(node, self.index or 0, made_id)
        if text.cut.is_mended:
            self.context.mended[f"{self.name}.{key}"] = True

        rest = text.rest(call.arguments)
        if rest is None:
            # What was given can't be taken back, so a note has the arguments.
            rest = text.cut.rest()
            done = {**notes_of(call.metadata, SOURCE), "done": call.arguments}
            call = attrs.evolve(call, metadata=with_notes(SOURCE, done))

        if text.make is None:
            rest = "".join(text.pieces) + rest
            return [AssistantMessage(tool_calls=(attrs.evolve(call, arguments=rest),))]

        if not rest and call.metadata is EMPTY_MAP:
            return []

        piece = ToolCall("", "", rest, index=self.index, metadata=call.metadata)
        return [AssistantMessage(tool_calls=(piece,))]


@attrs.define(eq=False, kw_only=True)
class StreamedBlock(StreamedText):
    """
    A block of a message, or of a thought.
    """

    # The list that it is in, and its number there; both in the response; its type; and
    # its place among the parts of the response.
    place: tuple[str, int]
    name: str
    kind: str
    index: int
    part: type[TextPart | RefusalPart | ReasoningPart]
    # The block as an event has it, and the annotations that came by themselves.
    raw: Mapping[str, Any] = EMPTY_MAP
    annotations: list[Any] = attrs.Factory(list)
    # Whether log probabilities came with the pieces.
    has_logprobs: bool = False

    @property
    def text_key(self) -> str:
        return "refusal" if self.kind == "refusal" else "text"

    def as_is(self) -> dict[str, Any]:
        raw = {"type": self.kind, **self.raw}
        if self.pieces or not self.raw:
            raw[self.text_key] = "".join(self.pieces) + self.cut.rest()

        if self.annotations and not raw.get("annotations"):
            raw["annotations"] = self.annotations

        return raw


@attrs.define(eq=False)
class StreamedMessage(StreamedItem):
    """
    A message, or a thought: an item that is made of blocks.
    """

    is_piecemeal = True
    _blocks: dict[tuple[str, int], StreamedBlock] = attrs.field(
        factory=dict, init=False
    )
    _open: StreamedBlock | None = attrs.field(default=None, init=False)
    # The block that was open when items behind this one came.
    _overtaken: StreamedBlock | None = attrs.field(default=None, init=False)

    def target(
        self, where: str, number: int, kind: str
    ) -> tuple[StreamedBlock, Chunks]:
        """
        One of its blocks; if it is new, also the last chunk of the block before it.
        """
        found = self._blocks.get((where, number))
        if found is not None:
            return found, []

        chunks = [] if self._open is None else self._close_before_others(self._open)
        return self._open_block((where, number), kind), chunks

    def overtake(self) -> Chunks:
        """
        The last chunk of the open block, whose end may come after pieces of other
        items.
        """
        self.is_overtaken = True
        last, self._open = self._open, None
        self._overtaken = last
        if last is None:
            return []

        chunks = self._close_before_others(last)
        notes: dict[str, Any] = {"more": True}
        if last.place[0] == "content":
            # The notes are maps, because `concat` would join the same text in the notes
            # of several pieces.
            notes |= {"block": {last.kind: True}, "under": {"content": True}}

        part = partial(last.part, index=last.index, metadata=with_notes(SOURCE, notes))
        last.make = lambda text: AssistantMessage((part(text),))
        return chunks

    def _close_before_others(self, block: StreamedBlock) -> Chunks:
        since = len(self.context.reading.mended)
        path = f"$.{block.name}"
        chunks = self._close_block(block, block.as_is(), path, {"more": True})
        self.context.mend(since, path, block.name)
        return chunks

    def _open_block(self, place: tuple[str, int], kind: Any) -> StreamedBlock:
        index = self.index or 0
        if self._overtaken is not None:
            # Behind the block that was overtaken, and before what overtook it.
            index = self._overtaken.index
        elif self._blocks:
            index = self.context.take()

        part: type[Any] = RefusalPart if kind == "refusal" else TextPart
        if self.type == "reasoning":
            part = ReasoningPart

        block = StreamedBlock(
            make=part_chunks(part, index),
            place=place,
            name=f"{self.name}.{place[0]}[{place[1]}]",
            kind=kind,
            index=index,
            part=part,
        )
        self._blocks[place] = self._open = block
        return block

    def _close_block(
        self,
        block: StreamedBlock,
        raw: Mapping[str, Any],
        path: str,
        notes: dict[str, Any],
        signature: str = "",
    ) -> Chunks:
        logprobs: list[LogProb] = []
        part: Any = read_item_block(
            ObjectReader(self.context.reading, raw, path),
            block.place[0] if self.type == "reasoning" else "",
            notes,
            index=block.index,
            signature=signature,
            logprobs=logprobs,
        )
        if block.cut.is_mended:
            self.context.mended[f"{block.name}.{block.text_key}"] = True

        # If the block has another kind at its end, it does not continue the pieces that
        # were given.
        rest = block.rest(part.text) if part.__class__ is block.part else None
        metadata = part.metadata
        if rest is None and block.pieces:
            # What was given can't be taken back, so a note has the block.
            done = {**notes, "done": self.context.reading.json(raw, path)}
            rest, metadata = block.cut.rest(), with_notes(SOURCE, done)

        if rest is not None:
            signed: dict[str, Any] = {}
            if block.part is ReasoningPart:
                signed["signature"] = signature

            # Several times as fast as `attrs.evolve`.
            part = block.part(rest, index=block.index, metadata=metadata, **signed)

        response = _make_logprobs_meta([] if block.has_logprobs else logprobs)
        return [AssistantMessage((part,), response=response)]

    def _finish_item(self, raw: Mapping[str, Any] | None, path: str) -> Chunks:
        raw = self.added if raw is None else raw
        item = ObjectReader(self.context.reading, raw, path)
        if not self._blocks:
            logprobs: list[LogProb] = []
            # All of them are parts, because a message or a thought has no calls.
            parts: Any = read_item(item, self.index or 0, "", logprobs)
            parts[1:] = [
                attrs.evolve(part, index=self.context.take()) for part in parts[1:]
            ]
            # None of a message that was announced without content, and never done.
            response = _make_logprobs_meta(logprobs)
            return [AssistantMessage(parts, response=response)] if parts else []

        content = item.raw.get("content")
        if self.type == "message" and isinstance(content, str):
            listed = [{"type": "output_text", "text": content}]
            item.raw = {**item.raw, "content": listed}

        return self._finish_blocks(item)

    def _finish_blocks(self, item: ObjectReader) -> Chunks:
        final = {
            (block.where, block.number): block for block in blocks_of(item, self.type)
        }
        notes, signature = note_item(item, self.type)
        late = self._overtaken
        if late is not None:
            # The pieces before have the note "more". What comes now ends the item.
            notes["more"] = False

        left = [block for place, block in final.items() if place not in self._blocks]
        last = self._open
        if last is not None:
            path = f"{item.path}.{last.place[0]}[{last.place[1]}]"
            end = final.get(last.place) or ItemBlock(*last.place, last.as_is(), path)
            left.insert(0, end)

        signed = find_signed(left)
        chunks: Chunks = []
        for at, end in enumerate(left):
            place, kind = (end.where, end.number), end.raw.get("type")
            chunks += self._close_block(
                self._blocks.get(place) or self._open_block(place, kind),
                end.raw,
                end.path,
                notes if at == len(left) - 1 else {"more": True},
                signature if at == signed else "",
            )

        self._open = None
        if late is None or left:
            return chunks

        # The end of a thought that was overtaken: the rest of its text, if there is
        # any, and a part with the notes and the signature.
        raw = final[late.place].raw if late.place in final else {}
        text = raw.get("text")
        if isinstance(text, str):
            chunks = late.end(text)
            if late.rest(mended(text)) is None:
                notes["done"] = self.context.reading.json(raw, "$")

        metadata = with_notes(SOURCE, notes)
        part = ReasoningPart("", signature, index=late.index, metadata=metadata)
        return [*chunks, AssistantMessage((part,))]


def _make_logprobs_meta(logprobs: list[LogProb]) -> ResponseMeta | None:
    return ResponseMeta(logprobs=tuple(logprobs)) if logprobs else None
