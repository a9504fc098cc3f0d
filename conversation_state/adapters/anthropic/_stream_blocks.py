"""
The blocks of a streamed response while they arrive.

The pieces of a block are given as they come. Its end is read as the block of a whole
response is (`_blocks`), and brings what the pieces did not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import attrs

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import DocumentReader, ObjectReader
from conversation_state.adapters._streaming import (
    SurrogateBuffer,
    call_chunks,
    part_chunks,
)
from conversation_state.adapters.anthropic._blocks import (
    SOURCE,
    input_of,
    read_call,
    read_part,
)
from conversation_state.messages import AssistantMessage
from conversation_state.parts import ReasoningPart, TextPart, UnknownPart
from conversation_state.tools import ToolCall


class _Pieces(NamedTuple):
    """
    How a block comes in pieces.

    Attributes:
        word: The type of the deltas that bring them.

        key: Where in these deltas the next piece is.

        field: What in the whole block they are pieces of.

        make_chunks: What, given the index, makes a function from a piece to a chunk.

        known: The keys of these deltas that bring nothing else.
    """

    word: str
    key: str
    field: str
    make_chunks: Callable[[int], Callable[[str], AssistantMessage]]
    known: frozenset[str]


# By the type of the block. How many tokens a thought has so far is a guess, to be shown
# while it arrives.
_PIECES = {
    "text": _Pieces(
        "text_delta",
        "text",
        "text",
        partial(part_chunks, TextPart),
        frozenset({"text", "type"}),
    ),
    "thinking": _Pieces(
        "thinking_delta",
        "thinking",
        "thinking",
        partial(part_chunks, ReasoningPart),
        frozenset({"estimated_tokens", "thinking", "type"}),
    ),
    "tool_use": _Pieces(
        "input_json_delta",
        "partial_json",
        "input",
        call_chunks,
        frozenset({"partial_json", "type"}),
    ),
}
# What blocks are before their first piece, if the server leaves their start out.
_FRESH: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
}
_INPUT = "partial_json"
_TYPE = frozenset({"type"})


class StreamBlock:
    """
    A block while it is sent. Of a type that can't be given in pieces it is given whole,
    at its end.
    """

    def __init__(self, kind: str, index: int) -> None:
        self.index = index
        self.pieces = _PIECES.get(kind)
        self.cut = SurrogateBuffer()
        self._kind = kind
        # The block so far, without what is given in pieces.
        self._raw: dict[str, Any] = {"type": kind, **_FRESH.get(kind, {})}
        self._path = "$"
        # Whether a piece was given, and a signature; a call's arguments without pieces.
        self._is_given = self._is_signed = False
        self._arguments = ""
        # Joined at the end: a text that grows is copied with each piece.
        self._input: list[str] = []
        self._texts: dict[str, list[str]] = {}
        self._deltas: list[Any] = []

    def start(self, block: ObjectReader) -> list[AssistantMessage]:
        field = self.pieces.field if self.pieces else ""
        raw = block.reading.rest(block.raw, frozenset({field}), block.path)
        for key, value in self._raw.items():
            raw.setdefault(key, value)

        self._raw = raw
        self._path = block.path
        if self.pieces is None:
            return []

        node = ObjectReader(block.reading, self._raw, block.path)
        if self._kind == "tool_use":
            # It is still to come, so it may well be missing. All else is known.
            self._raw["input"] = block.raw.get("input") or {}
            call = read_call(node, self.index)
            self._arguments = call.arguments
            self._raw = {"type": self._kind}
            return [AssistantMessage(tool_calls=(attrs.evolve(call, arguments=""),))]

        if self._kind == "thinking":
            self._raw["signature"] = node.optional("signature")

        return self._make_chunks(block, field)

    def _make_chunks(self, node: ObjectReader, key: str) -> list[AssistantMessage]:
        """
        The chunk of the piece under *key*, as far as no half of a character waits.
        """
        piece = node.raw.get(key)
        if not isinstance(piece, str):
            node.wrong(key, "a text")
            return []

        piece = self.cut.next(piece)
        return [self._make_chunk(piece)] if piece else []

    def _make_chunk(
        self, piece: str, signature: str = "", metadata: Any = EMPTY_MAP
    ) -> AssistantMessage:
        index = self.index
        # An empty text is a part, too; an empty piece of arguments is nothing.
        self._is_given = self._is_given or bool(piece) or self._kind != "tool_use"
        if self._kind == "tool_use":
            call = ToolCall("", "", piece, index=index, metadata=metadata)
            return AssistantMessage(tool_calls=(call,))

        if self._kind == "thinking":
            thought = ReasoningPart(piece, signature, index=index, metadata=metadata)
            return AssistantMessage((thought,))

        return AssistantMessage((TextPart(piece, index=index, metadata=metadata),))

    def read(self, delta: ObjectReader) -> list[AssistantMessage]:
        raw = delta.raw
        known = _TYPE
        chunks: list[AssistantMessage] = []
        if self.pieces is None:
            known |= self._read_whole(delta)
        elif raw.get("type") == self.pieces.word:
            chunks = self._make_chunks(delta, self.pieces.key)
            known = self.pieces.known
        elif self._kind == "text" and "citation" in raw:
            where = f"{delta.path}.citation"
            citation = delta.reading.json(raw["citation"], where)
            if not isinstance(self._raw.get("citations"), list):
                self._raw["citations"] = []

            self._raw["citations"].append(citation)
            known |= {"citation"}
        elif self._kind == "thinking" and "signature" in raw:
            # Some servers send an empty one after it.
            self._raw["signature"] = delta.text("signature") or self._raw["signature"]
            known |= {"estimated_tokens", "signature"}
        else:
            self._deltas.append(delta.reading.json(raw, delta.path))
            return []

        if not raw.keys() <= known:
            rest = delta.reading.rest(raw, known - _TYPE, delta.path)
            # Null says nothing, but for the type's.
            kept = {k: v for k, v in rest.items() if v is not None or k == "type"}
            if not kept.keys() <= _TYPE:
                self._deltas.append(kept)

        return chunks

    def _read_whole(self, delta: ObjectReader) -> set[str]:
        """
        Add *delta* to a block that is given at its end; the keys that were read.
        """
        if _INPUT in delta.raw:
            if isinstance(delta.raw[_INPUT], str):
                self._input.append(self.cut.next(delta.raw[_INPUT]))
            else:
                delta.wrong(_INPUT, "a text")

            return {_INPUT}

        # All else that is known of is sent in texts.
        found = set[str]()
        for key, piece in delta.raw.items():
            before = self._raw.get(key)
            if (
                key not in _TYPE
                and isinstance(piece, str)
                and isinstance(before, str | None)
            ):
                text = delta.text(key)
                self._texts.setdefault(key, [before or ""]).append(text)
                found.add(key)

        return found

    def flush(self) -> list[AssistantMessage]:
        """
        What is known beside the pieces, before the pieces of another block come.
        """
        if self.pieces is None:
            return []

        signature, metadata = self._take_rest(is_whole=False)
        if not (signature or metadata):
            return []

        return [self._make_chunk("", signature, metadata)]

    def end(self, *, is_broken: bool) -> list[AssistantMessage]:
        """
        The last chunks; *is_broken* says whether the block did not come to its end.
        """
        rest = self.cut.rest()
        if self.pieces is None:
            return self._end_whole(rest, is_broken=is_broken)

        # A call whose input is to come begins with {}; any other input is whole.
        if not (self._is_given or rest or (is_broken and self._arguments == "{}")):
            rest = self._arguments

        signature, metadata = self._take_rest(is_whole=not is_broken)
        if not (
            rest or signature or metadata or (not self._is_given and not is_broken)
        ):
            return []

        return [self._make_chunk(rest, signature, metadata)]

    def _take_rest(self, *, is_whole: bool) -> tuple[str, Mapping[str, Any]]:
        """
        The signature, and the metadata with all but the pieces, which are given once.
        """
        node = self._make_node()
        self._raw = {"type": self._kind, **_FRESH.get(self._kind, {})}
        self._deltas = []
        if self._kind == "tool_use":
            return "", node.metadata(SOURCE)

        part: Any = read_part(node, "assistant")
        signature: str = getattr(part, "signature", "")
        is_signed, self._is_signed = self._is_signed, self._is_signed or bool(signature)
        # Whether a thought that breaks off, or goes on, would be signed is unknown.
        if self._kind == "thinking" and not signature and (is_signed or not is_whole):
            del node.notes["signed"], node.keys["signature"]
            return "", node.metadata(SOURCE)

        return signature, part.metadata

    def _make_node(self) -> ObjectReader:
        node = ObjectReader(DocumentReader(), self._raw, self._path)
        # Deltas that no field of a block takes are kept with it.
        if self._deltas:
            node.notes["deltas"] = self._deltas

        return node

    def _end_whole(self, rest: str, *, is_broken: bool) -> list[AssistantMessage]:
        node = self._make_node()
        self._raw |= {key: "".join(pieces) for key, pieces in self._texts.items()}
        given = "".join([*self._input, rest])
        if is_broken:
            metadata = with_notes(SOURCE, {"cut": given, **node.notes})
            part: Any = UnknownPart(
                self._raw, source=SOURCE, index=self.index, metadata=metadata
            )
            return [AssistantMessage((part,))]

        if given:
            self._raw["input"] = input_of(given)

        part = read_part(node, "assistant", self.index)
        # What came in pieces may be too deep, or too large, to be kept.
        node.reading.finish()
        return [AssistantMessage((part,))]
