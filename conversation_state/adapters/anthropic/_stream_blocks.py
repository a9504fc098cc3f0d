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
        word: The type of the deltas that bring its pieces.

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
        return chunks + self.note_others(delta, self.noise | {self.key})

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

    def note_others(
        self, delta: ObjectReader, known: frozenset[str]
    ) -> list[AssistantMessage]:
        """
        The chunks that keep all but the *known* keys of *delta*, if there are any.
        """
        rest = _read_others(delta, known)
        return [self.noted({"deltas": [rest]})] if rest else []

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
        # What a kind of block adds at its end is true of whole blocks only.
        return StreamBlock.stop(self)


def _read_others(delta: ObjectReader, known: frozenset[str]) -> dict[str, Any]:
    """
    All but the *known* keys of *delta*, of which null says nothing; {} if only its
    type is left.
    """
    if delta.raw.keys() <= known | _TYPE:
        return {}

    given = delta.reading.rest(delta.raw, known, delta.path)
    rest = {key: given[key] for key in given if given[key] is not None or key in _TYPE}
    return {} if rest.keys() <= _TYPE else rest


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
        if "citation" not in delta.raw:
            return super().other(delta)

        citation = delta.reading.json(delta.raw["citation"], f"{delta.path}.citation")
        noted = self.noted({"keys": {"citations": [citation]}})
        return [noted, *self.note_others(delta, frozenset({"citation"}))]

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
        if "signature" not in delta.raw:
            return super().other(delta)

        signed = self._read_signature(delta)
        return signed + self.note_others(delta, self.noise | {"signature"})

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
            # What `load` notes of the empty signature that such a response has.
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
        # Given at its end, because pieces would be joined to it.
        self._input = call.arguments
        return [AssistantMessage(tool_calls=(attrs.evolve(call, arguments=""),))]

    def stop(self) -> list[AssistantMessage]:
        chunks = super().stop()
        # Without any piece, the input is what it was at first: mostly {}.
        return chunks if self._is_said else [self.chunk(self._input)]

    def break_off(self) -> list[AssistantMessage]:
        # A call whose input is to come begins with {}; any other input is whole.
        return super().break_off() if self._input == "{}" else self.stop()


class _OpaqueBlock(StreamBlock):
    """
    A block that can't be given in pieces: it is given whole, at its end.
    """

    key = "partial_json"
    field = "input"

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._path = "$"
        self._raw: dict[str, Any] = {}
        # Joined at the end: a text that grows is copied with each piece.
        self._input: list[str] = []
        self._texts: dict[str, list[str]] = {}
        self._deltas: list[Any] = []

    def chunk(
        self,
        piece: str,  # noqa: ARG002 - none: it comes whole
        metadata: Any = EMPTY_MAP,
    ) -> AssistantMessage:
        raw, index = self._raw, self.index
        part = UnknownPart(raw, source=SOURCE, index=index, metadata=metadata)
        return AssistantMessage((part,))

    def start(self, block: ObjectReader) -> list[AssistantMessage]:
        self._raw = block.reading.json(block.raw, block.path)
        self._path = block.path
        return []

    def delta(self, delta: ObjectReader) -> list[AssistantMessage]:
        if self.key in delta.raw:
            self._input.append(self.next(delta, self.key))
            rest = _read_others(delta, frozenset({self.key}))
        else:
            rest = self._take_texts(delta)

        if rest:
            self._deltas.append(rest)

        return []

    def _take_texts(self, delta: ObjectReader) -> dict[str, Any]:
        """
        Add the texts of *delta* to those of the block; what is left of it.
        """
        # All else that is known of is sent in texts.
        rest = _read_others(delta, frozenset())
        for key in rest.keys() - _TYPE:
            before = self._raw.get(key)
            if isinstance(rest[key], str) and isinstance(before, str | None):
                self._texts.setdefault(key, [before or ""]).append(rest.pop(key))

        return {} if rest.keys() <= _TYPE else rest

    def stop(self) -> list[AssistantMessage]:
        given, notes = self._join_pieces()
        if given:
            self._raw["input"] = input_of(given)

        # What came in pieces may be too deep, or too large, to be kept.
        read = DocumentReader()
        node = ObjectReader(read, self._raw, self._path)
        node.notes |= notes
        part = read_part(node, "assistant", self.index)
        read.finish()
        return [AssistantMessage((part,))]

    def break_off(self) -> list[AssistantMessage]:
        given, notes = self._join_pieces()
        return [self.noted({"cut": given, **notes})]

    def _join_pieces(self) -> tuple[str, dict[str, Any]]:
        """
        Put the pieces together; the text of the input, and what is to be noted.
        """
        self._raw |= {key: "".join(pieces) for key, pieces in self._texts.items()}
        given = "".join([*self._input, self.cut.rest()])
        return given, {"deltas": self._deltas} if self._deltas else {}


_KINDS: dict[str, type[StreamBlock]] = {
    "text": _TextBlock,
    "thinking": _ThinkingBlock,
    "tool_use": _CallBlock,
}


def open_block(kind: str, index: int) -> StreamBlock:
    """
    A block of a *kind* at *index*.
    """
    return _KINDS.get(kind, _OpaqueBlock)(index)
