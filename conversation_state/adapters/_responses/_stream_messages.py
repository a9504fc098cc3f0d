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
    StreamContext,
    StreamedItem,
    StreamedText,
)
from conversation_state.adapters._streaming import part_chunks
from conversation_state.messages import AssistantMessage, LogProb, ResponseMeta
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart

__all__ = ["StreamedMessage"]


class StreamedBlock(StreamedText):
    def __init__(
        self, where: str, number: int, kind: str, index: int, *, thought: bool
    ) -> None:
        super().__init__()
        self.where = where
        self.number = number
        self.kind = kind
        self.index = index
        self.part: type[TextPart | RefusalPart | ReasoningPart] = TextPart
        if thought:
            self.part = ReasoningPart
        elif kind == "refusal":
            self.part = RefusalPart

        self.raw: Mapping[str, Any] = {}
        self.annotations: list[Any] = []
        self.has_logprobs = False
        # The notes on pieces that come after those of other items.
        self.notes: dict[str, Any] = {}

    @property
    def text_key(self) -> str:
        return "refusal" if self.kind == "refusal" else "text"

    @property
    def place(self) -> tuple[str, int]:
        return self.where, self.number

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
    A message, or a thought.
    """

    is_spoken = True
    is_piecemeal = True

    def __init__(
        self, places: StreamContext, added: Mapping[str, Any], at: int
    ) -> None:
        super().__init__(places, added, at)
        self._blocks: dict[tuple[str, int], StreamedBlock] = {}
        self._open: StreamedBlock | None = None
        # The block that was open when items behind this one came.
        self._overtaken: StreamedBlock | None = None

    def block(
        self, where: str, number: int, kind: str
    ) -> tuple[StreamedBlock, list[AssistantMessage]]:
        """
        One of its blocks; if it is new, also the last chunk of the block before it.
        """
        found = self._blocks.get((where, number))
        if found is not None:
            return found, []

        chunks = [] if self._open is None else self._part_from(self._open)
        return self._open_block(where, number, kind), chunks

    def overtake(self) -> list[AssistantMessage]:
        """
        The last chunk of the open block, whose end may come after pieces of other
        items.
        """
        self.is_overtaken = True
        last, self._open = self._open, None
        self._overtaken = last
        if last is None:
            return []

        chunks = self._part_from(last)
        last.notes = {"more": True}
        if last.where == "content":
            # The notes are maps, because `concat` would join the same text in the notes
            # of several pieces.
            last.notes |= {"block": {last.kind: True}, "under": {last.where: True}}

        return chunks

    def _part_from(self, last: StreamedBlock) -> list[AssistantMessage]:
        """
        The last chunk of a block that is not the last of the item.
        """
        since = len(self.places.reading.mended)
        path = f"$.{self._get_block_path(last)}"
        chunks = self._close_block(last, last.as_is(), path, {"more": True})
        self.places.mend(since, path, self._get_block_path(last))
        return chunks

    def _open_block(self, where: str, number: int, kind: str) -> StreamedBlock:
        taken = self.places.take() if self._blocks else self.index
        thought = self.type == "reasoning"
        block = StreamedBlock(where, number, kind, taken or 0, thought=thought)
        self._blocks[block.place] = self._open = block
        return block

    def _get_block_path(self, block: StreamedBlock) -> str:
        return f"{self.name}.{block.where}[{block.number}]"

    def _close_block(
        self,
        block: StreamedBlock,
        raw: Mapping[str, Any],
        path: str,
        notes: dict[str, Any],
        signature: str = "",
    ) -> list[AssistantMessage]:
        """
        The last chunk of *block*, which is *raw* at its end.
        """
        logprobs: list[LogProb] = []
        part: Any = read_item_block(
            ObjectReader(self.places.reading, raw, path),
            block.where if self.type == "reasoning" else "",
            notes,
            index=block.index,
            signature=signature,
            logprobs=logprobs,
        )
        if block.cut.is_mended:
            self.places.mended[f"{self._get_block_path(block)}.{block.text_key}"] = True

        # If the block has another kind at its end, it does not continue the pieces that
        # were given.
        rest = block.rest(part.text) if part.__class__ is block.part else None
        if rest is not None:
            # The constructor is called, because `attrs.evolve` takes several times as
            # long.
            fields: dict[str, Any] = {"index": block.index, "metadata": part.metadata}
            if block.part is ReasoningPart:
                fields["signature"] = signature

            part = block.part(rest, **fields)
        elif block.pieces:
            # The pieces were given and can't be taken back, so a note has the block at
            # its end.
            done = {**notes, "done": self.places.reading.json(raw, path)}
            part = block.part(
                block.cut.rest(), index=block.index, metadata=with_notes(SOURCE, done)
            )
            if signature:
                part = attrs.evolve(part, signature=signature)

        response = _make_logprobs_meta([] if block.has_logprobs else logprobs)
        return [AssistantMessage((part,), response=response)]

    def _finish_item(
        self, raw: Mapping[str, Any] | None, path: str
    ) -> list[AssistantMessage]:
        raw = self.added if raw is None else raw
        item = ObjectReader(self.places.reading, raw, path)
        if not self._blocks:
            logprobs: list[LogProb] = []
            found = read_item(item, self.index or 0, self.made_id, logprobs)
            # All of them are parts, because a message or a thought has no calls.
            placed = [
                attrs.evolve(
                    cast(Any, one), index=self.places.take() if at else self.index
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

        return self._finish_blocks(item, blocks_of(item, self.type))

    def _finish_blocks(
        self, item: ObjectReader, final: list[ItemBlock]
    ) -> list[AssistantMessage]:
        notes, signature = note_item(item, self.type)
        left = [block for block in final if block[:2] not in self._blocks]
        if self._open is not None:
            left.insert(0, self._end_of(self._open, item.path, final))

        signed = find_signed(left)
        chunks: list[AssistantMessage] = []
        for at, end in enumerate(left):
            block = self._blocks.get(end[:2])
            if block is None:
                kind = end.raw.get("type")
                named = kind if isinstance(kind, str) else ""
                block = self._open_block(end.where, end.number, named)

            chunks += self._close_block(
                block,
                end.raw,
                end.path,
                notes if at == len(left) - 1 else {"more": True},
                signature if at == signed else "",
            )

        self._open = None
        if self._overtaken is not None and not left:
            chunks = self._end_late(self._overtaken, final, notes, signature)

        return chunks

    def _end_late(
        self,
        block: StreamedBlock,
        final: list[ItemBlock],
        notes: dict[str, Any],
        signature: str,
    ) -> list[AssistantMessage]:
        """
        The chunks of the end of *block*, which was overtaken: the rest of its text, if
        there is any, and a part with the *notes* and the signature.
        """
        end = next((each.raw for each in final if each[:2] == block.place), {})
        text = end.get("text")
        chunks = block.end(text) if isinstance(text, str) else []
        if isinstance(text, str) and block.rest(mended(text)) is None:
            notes = {**notes, "done": self.places.reading.json(end, "$")}

        # The pieces before have the note "more". This part is joined with them, and
        # ends the item.
        metadata = with_notes(SOURCE, {**notes, "more": False})
        part = ReasoningPart("", signature, index=block.index, metadata=metadata)
        return [*chunks, AssistantMessage((part,))]

    def _end_of(
        self, block: StreamedBlock, path: str, final: list[ItemBlock]
    ) -> ItemBlock:
        for end in final:
            if end[:2] == block.place:
                return end

        path = f"{path}.{block.where}[{block.number}]"
        return ItemBlock(block.where, block.number, block.as_is(), path)


def _make_logprobs_meta(logprobs: list[LogProb]) -> ResponseMeta | None:
    return ResponseMeta(logprobs=tuple(logprobs)) if logprobs else None
