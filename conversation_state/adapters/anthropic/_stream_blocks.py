"""
The blocks of a streamed response while they arrive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import DocumentReader, ObjectReader
from conversation_state.adapters._stream_pieces import (
    SurrogateBuffer,
    call_chunks,
    part_chunks,
)
from conversation_state.adapters.anthropic._arguments import input_of
from conversation_state.adapters.anthropic._blocks import SOURCE, read_call, read_part
from conversation_state.messages import AssistantMessage
from conversation_state.parts import ReasoningPart, TextPart, UnknownPart
from conversation_state.tools import ToolCall

__all__ = ["StreamBlock", "open_block"]

_TYPE = frozenset({"type"})


class StreamBlock(ABC):
    """
    A block while it is sent.

    Attributes:
        word: The type of the deltas whose pieces can be given at once; "" if
            no pieces can.

        key: Where in these deltas the next piece is.

        field: What in the whole block they are pieces of.

        noise: Which other keys of these deltas say nothing about the response.

        index: Its place in the response.

        cut: The text that comes in pieces.

        make_chunks: What, given the index, makes a function from a piece to a chunk
            with nothing but that; None if nothing can be given at once.
    """

    make_chunks: Callable[[int], Callable[[str], AssistantMessage]] | None = None
    word: str
    key: str
    field: str
    noise: frozenset[str] = frozenset()

    def __init__(self, index: int) -> None:
        self.index = index
        self.cut = SurrogateBuffer()

    @abstractmethod
    def chunk(self, piece: str, metadata: Any = EMPTY_MAP) -> AssistantMessage:
        """
        The chunk that brings *piece*, and notes on it.
        """

    @abstractmethod
    def start(self, block: ObjectReader) -> list[AssistantMessage]:
        """
        The chunks that the beginning of it, *block*, brings.
        """

    def delta(self, delta: ObjectReader) -> list[AssistantMessage]:
        """
        The chunks that *delta* brings.
        """
        if delta.raw.get("type") != self.word:
            return self.other(delta)

        piece = self.next(delta, self.key)
        chunks = [self.chunk(piece)] if piece else []
        if not delta.raw.keys() <= {"type", self.key}:
            known = self.noise | {self.key}
            rest = delta.reading.rest(delta.raw, known, delta.path)
            news = {key: value for key, value in rest.items() if value is not None}
            if not news.keys() <= _TYPE:
                chunks.append(self.noted({"deltas": [news]}))

        return chunks

    def next(self, node: ObjectReader, key: str) -> str:
        """
        The text under *key*, as far as no half of a character waits.
        """
        piece = node.raw.get(key)
        if isinstance(piece, str):
            return self.cut.next(piece)

        node.wrong(key, "a text")
        return ""

    def other(self, delta: ObjectReader) -> list[AssistantMessage]:
        """
        The chunks of a *delta* of another type, which is kept.
        """
        raw = delta.reading.json(delta.raw, delta.path)
        return [self.noted({"deltas": [raw]})]

    def noted(self, notes: dict[str, Any]) -> AssistantMessage:
        """
        The chunk that brings nothing but *notes*.
        """
        return self.chunk("", with_notes(SOURCE, notes))

    def stop(self) -> list[AssistantMessage]:
        """
        The last chunks.
        """
        rest = self.cut.rest()
        return [self.chunk(rest)] if rest else []

    def break_off(self) -> list[AssistantMessage]:
        """
        The last chunks if it does not come to its end.
        """
        rest = self.cut.rest()
        return [self.chunk(rest)] if rest else []


class _TextBlock(StreamBlock):
    # Static: from Python 3.14 on a partial in a class is bound like a function.
    make_chunks = staticmethod(partial(part_chunks, TextPart))
    word = "text_delta"
    key = field = "text"

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._is_said = False

    def chunk(self, piece: str, metadata: Any = EMPTY_MAP) -> AssistantMessage:
        self._is_said = True
        part = TextPart(piece, index=self.index, metadata=metadata)
        return AssistantMessage((part,))

    def start(self, block: ObjectReader) -> list[AssistantMessage]:
        text = self.next(block, "text")
        block.keep(frozenset({"text", "type"}))
        if not (text or block.keys):
            return []

        return [self.chunk(text, block.metadata(SOURCE))]

    def other(self, delta: ObjectReader) -> list[AssistantMessage]:
        if delta.raw.keys() != {"citation", "type"}:
            return super().other(delta)

        citation = delta.reading.json(delta.raw["citation"], f"{delta.path}.citation")
        return [self.noted({"keys": {"citations": [citation]}})]

    def stop(self) -> list[AssistantMessage]:
        chunks = super().stop()
        # An empty text is a block, too.
        return chunks if self._is_said else [self.chunk("")]


class _ThinkingBlock(StreamBlock):
    make_chunks = staticmethod(partial(part_chunks, ReasoningPart))
    word = "thinking_delta"
    key = field = "thinking"
    # How many tokens the thought has so far: a guess, to be shown while it arrives.
    noise = frozenset({"estimated_tokens"})

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._is_signed = False

    def chunk(self, piece: str, metadata: Any = EMPTY_MAP) -> AssistantMessage:
        part = ReasoningPart(piece, index=self.index, metadata=metadata)
        return AssistantMessage((part,))

    def start(self, block: ObjectReader) -> list[AssistantMessage]:
        text = self.next(block, "thinking")
        signature = block.raw.get("signature")
        signed = self._read_signature(block) if signature else []
        block.keep(frozenset({"signature", "thinking", "type"}))
        if text or block.keys:
            return [self.chunk(text, block.metadata(SOURCE)), *signed]

        return signed

    def other(self, delta: ObjectReader) -> list[AssistantMessage]:
        if delta.raw.keys() != {"signature", "type"}:
            return super().other(delta)

        return self._read_signature(delta)

    def _read_signature(self, node: ObjectReader) -> list[AssistantMessage]:
        signature = node.text("signature")
        self._is_signed = self._is_signed or bool(signature)
        metadata = with_notes(SOURCE, {"signed": self._is_signed})
        part = ReasoningPart("", signature, index=self.index, metadata=metadata)
        return [AssistantMessage((part,))]

    def stop(self) -> list[AssistantMessage]:
        chunks = super().stop()
        # Whether a thought that breaks off would have been signed is unknown.
        if not self._is_signed:
            keys = {"signature": ""}
            chunks.append(self.noted({"signed": False, "keys": keys}))

        return chunks


class _CallBlock(StreamBlock):
    make_chunks = staticmethod(call_chunks)
    word = "input_json_delta"
    key = "partial_json"
    field = "input"

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._input = ""
        self._is_said = False

    def chunk(self, piece: str, metadata: Any = EMPTY_MAP) -> AssistantMessage:
        self._is_said = self._is_said or bool(piece)
        call = ToolCall("", "", piece, index=self.index, metadata=metadata)
        return AssistantMessage(tool_calls=(call,))

    def start(self, block: ObjectReader) -> list[AssistantMessage]:
        # It is still to come, so it may well be missing.
        block.raw = {**block.raw, "input": block.raw.get("input") or {}}
        call = read_call(block, self.index)
        self._input = call.arguments
        return [AssistantMessage(tool_calls=(attrs.evolve(call, arguments=""),))]

    def stop(self) -> list[AssistantMessage]:
        chunks = super().stop()
        # Without any piece, the input is what it was at first: mostly {}.
        return chunks if self._is_said else [self.chunk(self._input)]


class _OpaqueBlock(StreamBlock):
    """
    A block that can't be given in pieces: it is given whole, at its end.
    """

    word = ""
    key = "partial_json"
    field = "input"

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._path = "$"
        self._raw: dict[str, Any] = {}
        self._input: list[str] = []
        self._texts: dict[str, list[str]] = {}
        self._deltas: list[Any] = []

    def chunk(self, piece: str, metadata: Any = EMPTY_MAP) -> AssistantMessage:
        raw = {**self._raw, "input": piece} if piece else self._raw
        part = UnknownPart(raw, source=SOURCE, index=self.index, metadata=metadata)
        return AssistantMessage((part,))

    def start(self, block: ObjectReader) -> list[AssistantMessage]:
        self._raw = block.reading.json(block.raw, block.path)
        self._path = block.path
        return []

    def other(self, delta: ObjectReader) -> list[AssistantMessage]:
        if delta.raw.keys() == {self.key, "type"}:
            self._input.append(self.next(delta, self.key))
            return []

        # All else that is known of is sent in texts.
        rest: dict[str, Any] = {}
        given = delta.reading.rest(delta.raw, frozenset(), delta.path)
        kind = {key: given.pop(key) for key in _TYPE & given.keys()}
        for key, value in given.items():
            before = self._raw.get(key)
            if isinstance(value, str) and (before is None or isinstance(before, str)):
                self._texts.setdefault(key, [before or ""]).append(value)
            elif value is not None:
                rest[key] = value

        if rest:
            self._deltas.append({**kind, **rest})

        return []

    def stop(self) -> list[AssistantMessage]:
        notes = self._join_pieces()
        if self._input:
            self._raw["input"] = input_of("".join(self._input))

        # What came in pieces may be too deep, or too large, to be kept.
        read = DocumentReader()
        part = read_part(
            ObjectReader(read, self._raw, self._path), "assistant", self.index
        )
        read.finish()
        if notes and isinstance(part, UnknownPart):
            part = attrs.evolve(part, metadata=with_notes(SOURCE, notes))

        return [AssistantMessage((part,))]

    def break_off(self) -> list[AssistantMessage]:
        notes = self._join_pieces()
        return [self.noted({"cut": "".join(self._input), **notes})]

    def _join_pieces(self) -> dict[str, Any]:
        """
        Put the pieces together; what is to be noted besides.
        """
        self._input.append(self.cut.rest())
        self._raw |= {key: "".join(pieces) for key, pieces in self._texts.items()}
        if not any(self._input):
            self._input.clear()

        return {"deltas": self._deltas} if self._deltas else {}


_KINDS: dict[Any, type[StreamBlock]] = {
    "text": _TextBlock,
    "thinking": _ThinkingBlock,
    "tool_use": _CallBlock,
}


def open_block(kind: Any, index: int) -> StreamBlock:
    """
    A block of a *kind* at *index*.
    """
    return (_KINDS.get(kind, _OpaqueBlock) if isinstance(kind, str) else _OpaqueBlock)(
        index
    )
