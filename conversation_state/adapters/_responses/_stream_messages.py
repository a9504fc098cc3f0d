"""
Messages and thoughts while they are made: items that hold blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs

from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import ObjectReader, mended
from conversation_state.adapters._responses._blocks import SOURCE
from conversation_state.adapters._responses._items import (
    ItemBlock,
    blocks_of,
    find_signed,
    note_item,
    read_item,
    read_item_block,
)
from conversation_state.adapters._responses._stream_items import (
    Chunks,
    StreamContext,
    StreamedItem,
    StreamedText,
)
from conversation_state.adapters._streaming import part_chunks
from conversation_state.messages import AssistantMessage, LogProb, ResponseMeta
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart

__all__ = ["StreamedMessage"]


class StreamedBlock(StreamedText):
    """
    A block of a message, or of a thought.

    Attributes:
        place: The list that it is in, and its number there.

        kind: Its type.

        index: Its place among the parts of the response.

        raw: The block, as an event has it.

        annotations: Those that came by themselves.

        has_logprobs: Whether log probabilities came with the pieces.

        notes: The notes on pieces that come after those of other items.
    """

    def __init__(
        self, place: tuple[str, int], kind: str, index: int, *, is_thought: bool
    ) -> None:
        super().__init__()
        self.place = place
        self.kind = kind
        self.index = index
        is_refusal = kind == "refusal"
        self.text_key = "refusal" if is_refusal else "text"
        self.part: type[TextPart | RefusalPart | ReasoningPart]
        self.part = RefusalPart if is_refusal else TextPart
        if is_thought:
            self.part = ReasoningPart

        self.raw: Mapping[str, Any] = {}
        self.annotations: list[Any] = []
        self.has_logprobs = False
        self.notes: dict[str, Any] = {}

    def chunk(self, text: str) -> AssistantMessage:
        metadata = with_notes(SOURCE, self.notes)
        return AssistantMessage((self.part(text, index=self.index, metadata=metadata),))

    def plain_chunks(self) -> Callable[[str], AssistantMessage]:
        return self.chunk if self.notes else part_chunks(self.part, self.index)

    def as_is(self) -> dict[str, Any]:
        raw = {"type": self.kind, **self.raw}
        if self.pieces or not self.raw:
            raw[self.text_key] = "".join(self.pieces) + self.cut.rest()

        if self.annotations and not raw.get("annotations"):
            raw["annotations"] = self.annotations

        return raw


class StreamedMessage(StreamedItem):
    """
    A message, or a thought: an item that is made of blocks.
    """

    is_spoken = True
    is_piecemeal = True

    def __init__(
        self, context: StreamContext, added: Mapping[str, Any], at: int
    ) -> None:
        super().__init__(context, added, at)
        self._blocks: dict[tuple[str, int], StreamedBlock] = {}
        self._open: StreamedBlock | None = None
        # The block that was open when items behind this one came.
        self._overtaken: StreamedBlock | None = None

    def block(self, where: str, number: int, kind: str) -> tuple[StreamedBlock, Chunks]:
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
        last.notes = {"more": True}
        if last.place[0] == "content":
            # The notes are maps, because `concat` would join the same text in the notes
            # of several pieces.
            last.notes |= {"block": {last.kind: True}, "under": {"content": True}}

        return chunks

    def _close_before_others(self, block: StreamedBlock) -> Chunks:
        """
        The last chunk of a block that is not the last of the item.
        """
        since = len(self.context.reading.mended)
        name = self._get_block_name(block)
        chunks = self._close_block(block, block.as_is(), f"$.{name}", {"more": True})
        self.context.mend(since, f"$.{name}", name)
        return chunks

    def _open_block(self, place: tuple[str, int], kind: str) -> StreamedBlock:
        index = self.context.take() if self._blocks else self.index or 0
        is_thought = self.type == "reasoning"
        block = StreamedBlock(place, kind, index, is_thought=is_thought)
        self._blocks[place] = self._open = block
        return block

    def _get_block_name(self, block: StreamedBlock) -> str:
        where, number = block.place
        return f"{self.name}.{where}[{number}]"

    def _close_block(
        self,
        block: StreamedBlock,
        raw: Mapping[str, Any],
        path: str,
        notes: dict[str, Any],
        signature: str = "",
    ) -> Chunks:
        """
        The last chunk of *block*, which is *raw* at its end.
        """
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
            name = f"{self._get_block_name(block)}.{block.text_key}"
            self.context.mended[name] = True

        # If the block has another kind at its end, it does not continue the pieces that
        # were given.
        rest = block.rest(part.text) if part.__class__ is block.part else None
        metadata = part.metadata
        if rest is None and block.pieces:
            # The pieces were given and can't be taken back, so a note has the block at
            # its end.
            done = {**notes, "done": self.context.reading.json(raw, path)}
            rest, metadata = block.cut.rest(), with_notes(SOURCE, done)

        if rest is not None:
            signed: dict[str, Any] = {}
            if block.part is ReasoningPart:
                signed["signature"] = signature

            # The constructor is called, because `attrs.evolve` takes several times as
            # long.
            part = block.part(rest, index=block.index, metadata=metadata, **signed)

        response = _make_logprobs_meta([] if block.has_logprobs else logprobs)
        return [AssistantMessage((part,), response=response)]

    def _finish_item(self, raw: Mapping[str, Any] | None, path: str) -> Chunks:
        raw = self.added if raw is None else raw
        item = ObjectReader(self.context.reading, raw, path)
        if not self._blocks:
            logprobs: list[LogProb] = []
            found = read_item(item, self.index or 0, self.made_id, logprobs)
            # All of them are parts, because a message or a thought has no calls.
            placed = [
                attrs.evolve(
                    cast(Any, one), index=self.context.take() if at else self.index
                )
                for at, one in enumerate(found)
            ]
            # There is no part if a server announces a message without content, and then
            # the stream ends.
            response = _make_logprobs_meta(logprobs)
            return [AssistantMessage(placed, response=response)] if placed else []

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
        left = [block for place, block in final.items() if place not in self._blocks]
        last = self._open
        if last is not None and last.place in final:
            left.insert(0, final[last.place])
        elif last is not None:
            where, number = last.place
            name = f"{item.path}.{where}[{number}]"
            left.insert(0, ItemBlock(where, number, last.as_is(), name))

        signed = find_signed(left)
        chunks: Chunks = []
        for at, end in enumerate(left):
            place = end.where, end.number
            kind = end.raw.get("type")
            named = kind if isinstance(kind, str) else ""
            chunks += self._close_block(
                self._blocks.get(place) or self._open_block(place, named),
                end.raw,
                end.path,
                notes if at == len(left) - 1 else {"more": True},
                signature if at == signed else "",
            )

        self._open = None
        late = self._overtaken
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

        # The pieces before have the note "more". This part is joined with them, and
        # ends the item.
        metadata = with_notes(SOURCE, {**notes, "more": False})
        part = ReasoningPart("", signature, index=late.index, metadata=metadata)
        return [*chunks, AssistantMessage((part,))]


def _make_logprobs_meta(logprobs: list[LogProb]) -> ResponseMeta | None:
    return ResponseMeta(logprobs=tuple(logprobs)) if logprobs else None
