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

from conversation_state.adapters.anthropic._blocks import (
    SOURCE,
    input_of,
    read_call,
    read_part,
)
from conversation_state.adapters.engine.notes import with_notes
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    mended,
)
from conversation_state.adapters.engine.streaming import (
    SurrogateBuffer,
    make_call_chunk,
    make_part_chunk,
)
from conversation_state.messages import AssistantMessage
from conversation_state.parts import Part, ReasoningPart, TextPart, UnknownPart


class _DeltaPieces(NamedTuple):
    """
    How a block comes in pieces.

    Attributes:
        delta: The type of the deltas that bring them.

        key: Where in these deltas the next piece is.

        field: What in the whole block they are pieces of.

        make_chunk: What makes a chunk of the index and a piece.

        known: The keys of these deltas that bring nothing else.
    """

    delta: str
    key: str
    field: str
    make_chunk: Callable[[int, str], AssistantMessage]
    known: frozenset[str]


# By the type of the block. How many tokens a thought has so far is a guess, to be shown
# while it arrives.
_PIECES = {
    "text": _DeltaPieces(
        "text_delta",
        "text",
        "text",
        partial(make_part_chunk, TextPart),
        frozenset({"text", "type"}),
    ),
    "thinking": _DeltaPieces(
        "thinking_delta",
        "thinking",
        "thinking",
        partial(make_part_chunk, ReasoningPart),
        frozenset({"estimated_tokens", "thinking", "type"}),
    ),
    "tool_use": _DeltaPieces(
        "input_json_delta",
        "partial_json",
        "input",
        make_call_chunk,
        frozenset({"partial_json", "type"}),
    ),
}
_SIGNATURE = frozenset({"estimated_tokens", "signature", "type"})
_INPUT = "partial_json"
_CITATION = frozenset({"citation", "type"})


class StreamBlock:
    """
    A block while it is sent. Of a type that can't be given in pieces it is given whole,
    at its end.
    """

    def __init__(self, kind: str, index: int) -> None:
        self.kind = kind
        self.index = index
        self.pieces = _PIECES.get(kind)
        self.cut = SurrogateBuffer()
        self.is_mended = False  # apart from the pieces that are given
        # The block so far, without what comes in pieces.
        self._raw: dict[str, Any] = {"type": kind}
        if kind == "thinking":
            self._raw["signature"] = ""

        self._path = "$"
        self._is_given = False  # at least one piece was
        # Of a call, what it began with.
        self._arguments = ""
        # By key, and joined at the end: a text that grows is copied with each piece.
        self._texts: dict[str, list[str]] = {}

    def start(self, block: ObjectReader, made_id: str) -> list[AssistantMessage]:
        """
        The chunks that *block* brings, as it begins; a call without an id gets
        *made_id*.
        """
        field = self.pieces.field if self.pieces else ""
        self._raw |= block.reading.rest(block.raw, frozenset({field}), block.path)
        self._path = block.path
        if self.pieces is None:
            return []

        if self.kind == "tool_use":
            # The input is still to come, so it may well be missing.
            raw = {**self._raw, "input": block.raw.get("input") or {}}
            inside = ObjectReader(block.reading, raw, block.path)
            call = read_call(inside, self.index, made_id)
            self._arguments = call.arguments
            return [AssistantMessage(tool_calls=(attrs.evolve(call, arguments=""),))]

        if self.kind == "thinking":
            self._raw["signature"] = block.nullable("signature")

        chunk = self._read_piece(block, field)
        return [] if chunk is None else [chunk]

    def read(
        self, reader: DocumentReader, raw: Mapping[str, Any], path: str
    ) -> tuple[AssistantMessage | None, frozenset[str] | None]:
        """
        The chunk that the delta *raw* of the event at *path* brings, and its keys that
        are known; None if it is of an unknown type.
        """
        pieces = self.pieces
        if pieces is not None and raw.get("type") == pieces.delta:
            piece = raw.get(pieces.key)
            if isinstance(piece, str):
                return self._add_piece(piece), pieces.known

        delta = ObjectReader(reader, raw, f"{path}.delta")
        if pieces is None:
            return None, self._read_texts(delta)

        if raw.get("type") == pieces.delta:
            return self._read_piece(delta, pieces.key), pieces.known

        if self.kind == "text" and "citation" in raw:
            where = f"{delta.path}.citation"
            listed = self._raw.get("citations")
            if not isinstance(listed, list):
                listed = self._raw["citations"] = []

            listed.append(reader.json(raw["citation"], where))
            return None, _CITATION

        if self.kind == "thinking" and "signature" in raw:
            # Some servers send an empty one after it.
            self._raw["signature"] = delta.text("signature") or self._raw["signature"]
            return None, _SIGNATURE

        return None, None

    def _read_piece(self, node: ObjectReader, key: str) -> AssistantMessage | None:
        piece = node.raw.get(key)
        if isinstance(piece, str):
            return self._add_piece(piece)

        node.wrong(key, "a text")
        return None

    def _add_piece(self, piece: str) -> AssistantMessage | None:
        """The chunk of *piece*, as far as no half of a character waits."""
        text = self.cut.next(piece)
        return self._make_chunk(text) if text else None

    def _make_chunk(self, piece: str, **fields: Any) -> AssistantMessage:
        self._is_given = True
        if self.pieces is not None and not fields:
            return self.pieces.make_chunk(self.index, piece)

        kind = TextPart if self.kind == "text" else ReasoningPart
        return AssistantMessage((kind(piece, index=self.index, **fields),))

    def _read_texts(self, delta: ObjectReader) -> frozenset[str]:
        """
        Keep the texts of *delta*, of a block that is given at its end; its keys that
        were read.
        """
        is_input = _INPUT in delta.raw
        if is_input and not isinstance(delta.raw[_INPUT], str):
            delta.wrong(_INPUT, "a text")

        known = {"type"}
        for key in [_INPUT] if is_input else delta.raw:
            piece, before = delta.raw[key], self._raw.get(key)
            if key in known:
                continue

            if isinstance(piece, str) and isinstance(before, str | None):
                self._texts.setdefault(key, [before or ""]).append(piece)
                known.add(key)

        return frozenset(known)

    def end(self, *, is_broken: bool) -> list[AssistantMessage]:
        """
        The last chunks; *is_broken* says whether the block did not come to its end.
        """
        if self.pieces is None:
            return [AssistantMessage((self._make_whole(is_broken=is_broken),))]

        rest = self.cut.rest()
        self.is_mended = self.cut.is_mended
        if self.kind == "tool_use":
            # A call whose input is to come begins with {}; any other input is whole.
            if not (self._is_given or rest or (is_broken and self._arguments == "{}")):
                rest = self._arguments

            return [self._make_chunk(rest)] if rest else []

        # Whether a thought that breaks off would be signed is unknown.
        fields: dict[str, Any] = {}
        if self.kind != "thinking" or self._raw["signature"] or not is_broken:
            raw = {**self._raw, self.pieces.field: ""}
            node = ObjectReader(DocumentReader(), raw, self._path)
            part: Any = read_part(node, "assistant")
            names = ("metadata", "signature")
            fields = {name: getattr(part, name, "") for name in names}
            fields = {name: value for name, value in fields.items() if value}

        if rest or fields or not (self._is_given or is_broken):
            return [self._make_chunk(rest, **fields)]

        return []

    def _make_whole(self, *, is_broken: bool) -> Part:
        texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
        valid = {key: mended(text) for key, text in texts.items()}
        self.is_mended = texts != valid
        given = valid.pop(_INPUT, "")
        raw = {**self._raw, **valid}
        if is_broken:
            metadata = with_notes(SOURCE, {"cut": given})
            return UnknownPart(raw, source=SOURCE, index=self.index, metadata=metadata)

        if given:
            raw["input"] = input_of(given)

        node = ObjectReader(DocumentReader(), raw, self._path)
        part = read_part(node, "assistant", self.index)
        # What came in pieces may be too deep, or too large, to be kept.
        node.reading.finish()
        return part
