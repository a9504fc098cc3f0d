"""
Messages and thoughts while they are made: items that hold blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from conversation_state.adapters._reading import Place
from conversation_state.adapters._responses._items import (
    Block,
    blocks_of,
    is_thought,
    note_item,
    read_item,
    read_spoken_block,
)
from conversation_state.adapters._responses._making import (
    Making,
    Piecemeal,
    Places,
    noting,
)
from conversation_state.messages import AssistantMessage, LogProb, ResponseMeta
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart

__all__ = ["Spoken"]


class _Block(Piecemeal):
    """
    A block of an item.
    """

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

    @property
    def slot(self) -> str:
        """
        The key of its text.
        """
        return "refusal" if self.kind == "refusal" else "text"

    @property
    def key(self) -> tuple[str, int]:
        """
        Which block of the item it is.
        """
        return self.where, self.number

    def chunk(self, text: str) -> AssistantMessage:
        """
        A chunk that brings *text*.
        """
        return AssistantMessage((self.part(text, index=self.index),))

    def as_is(self) -> dict[str, Any]:
        """
        The block as it is by now.
        """
        raw = {"type": self.kind, **self.raw}
        if self.said or not self.raw:
            raw[self.slot] = "".join(self.said) + self.cut.rest()

        if self.annotations and not raw.get("annotations"):
            raw["annotations"] = self.annotations

        return raw


class Spoken(Making):
    """
    A message, or a thought.
    """

    is_spoken = True
    is_piecemeal = True

    def __init__(self, places: Places, added: Mapping[str, Any], at: int) -> None:
        super().__init__(places, added, at)
        self._blocks: dict[tuple[str, int], _Block] = {}
        self._open: _Block | None = None

    def block(
        self, where: str, number: int, kind: str
    ) -> tuple[_Block, list[AssistantMessage]]:
        """
        One of its blocks, and the last chunk of the one before if it is new.
        """
        found = self._blocks.get((where, number))
        if found is not None:
            return found, []

        chunks: list[AssistantMessage] = []
        if self._open is not None:
            last = self._open
            since = len(self.places.reading.mended)
            path = f"$.{self._name(last)}"
            chunks = self._close(last, last.as_is(), path, {"more": True})
            self.places.mend(since, path, self._name(last))

        return self._opened(where, number, kind), chunks

    def _opened(self, where: str, number: int, kind: str) -> _Block:
        taken = self.places.take() if self._blocks else self.index
        thought = self.type == "reasoning"
        block = _Block(where, number, kind, taken or 0, thought=thought)
        self._blocks[block.key] = self._open = block
        return block

    def _name(self, block: _Block) -> str:
        return f"{self.name}.{block.where}[{block.number}]"

    def _close(
        self,
        block: _Block,
        raw: Mapping[str, Any],
        path: str,
        notes: dict[str, Any],
        signature: str = "",
    ) -> list[AssistantMessage]:
        """
        The last chunk of *block*, which is *raw* in the end.
        """
        told: list[LogProb] = []
        part: Any = read_spoken_block(
            Place(self.places.reading, raw, path),
            block.where if self.type == "reasoning" else "",
            notes,
            index=block.index,
            signature=signature,
            told=told,
        )
        if block.cut.is_harmed:
            self.places.mended[f"{self._name(block)}.{block.slot}"] = True

        rest = block.rest(part.text) if part.__class__ is block.part else None
        if rest is not None:
            part = attrs.evolve(part, text=rest)
        elif block.said:
            # What was given can't be taken back.
            done = {**notes, "done": self.places.reading.json(raw, path)}
            part = block.part(
                block.cut.rest(), index=block.index, metadata=noting(done)
            )
            if signature:
                part = attrs.evolve(part, signature=signature)

        given = () if block.has_logprobs else tuple(told)
        return [AssistantMessage((part,), response=_likely(given))]

    def _finish(
        self, raw: Mapping[str, Any] | None, path: str
    ) -> list[AssistantMessage]:
        item = Place(self.places.reading, self.added if raw is None else raw, path)
        if not self._blocks:
            told: list[LogProb] = []
            said = read_item(item, self.index or 0, self.made_id, told)
            for _ in said[1:]:
                self.places.take()

            parts = [one for one in said if isinstance(one, Part)]
            return [AssistantMessage(parts, response=_likely(tuple(told)))]

        content = item.raw.get("content")
        if self.type == "message" and isinstance(content, str):
            listed = [{"type": "output_text", "text": content}]
            item.raw = {**item.raw, "content": listed}

        return self._finish_blocks(item, blocks_of(item, self.type))

    def _finish_blocks(self, item: Place, final: list[Block]) -> list[AssistantMessage]:
        notes, signature = note_item(item, self.type)
        left = [block for block in final if block[:2] not in self._blocks]
        if self._open is not None:
            left.insert(0, self._end_of(self._open, item.path, final))

        # The last thought is what is signed.
        signed = max(
            [at for at, block in enumerate(left) if is_thought(block.raw)], default=0
        )
        chunks: list[AssistantMessage] = []
        for at, end in enumerate(left):
            block = self._blocks.get(end[:2])
            if block is None:
                kind = end.raw.get("type")
                named = kind if isinstance(kind, str) else ""
                block = self._opened(end.where, end.number, named)

            chunks += self._close(
                block,
                end.raw,
                end.path,
                notes if at == len(left) - 1 else {"more": True},
                signature if at == signed else "",
            )

        self._open = None
        return chunks

    def _end_of(self, block: _Block, path: str, final: list[Block]) -> Block:
        for end in final:
            if end[:2] == block.key:
                return end

        path = f"{path}.{block.where}[{block.number}]"
        return Block(block.where, block.number, block.as_is(), path)


def _likely(logprobs: tuple[LogProb, ...]) -> ResponseMeta | None:
    return ResponseMeta(logprobs=logprobs) if logprobs else None
