"""
The pieces of a stream's items, and the block or call that each one belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from conversation_state.adapters._openai import read_logprob_list
from conversation_state.adapters._reading import ObjectReader, as_sent, is_list
from conversation_state.adapters._responses._blocks import CALLS
from conversation_state.adapters._responses._stream_items import StreamedText
from conversation_state.adapters._responses._stream_order import MAX_ITEMS, OutputOrder
from conversation_state.adapters._streaming import PieceTemplate
from conversation_state.messages import AssistantMessage, ResponseMeta

__all__ = ["DeltaReader"]

Chunks: TypeAlias = list[AssistantMessage]


class _DeltaTarget(NamedTuple):
    item: str  # its type
    where: str
    block: str  # its type
    key: str  # of the whole text, in the end


_THOUGHT = _DeltaTarget("reasoning", "summary", "summary_text", "text")
_BLOCKS = {
    "response.output_text": _DeltaTarget("message", "content", "output_text", "text"),
    "response.reasoning_summary": _THOUGHT,
    "response.reasoning_summary_text": _THOUGHT,
    "response.reasoning_text": _DeltaTarget(
        "reasoning", "content", "reasoning_text", "text"
    ),
    "response.refusal": _DeltaTarget("message", "content", "refusal", "refusal"),
}
# Events that have a whole block, at its beginning and its end: the type of the item,
# and the list that the block is in.
_PARTS = {
    "response.content_part": ("message", "content"),
    "response.reasoning_summary_part": ("reasoning", "summary"),
}
_ASKED = {
    "response.custom_tool_call_input": "custom_tool_call",
    "response.function_call_arguments": "function_call",
}
_NUMBERS = {"content": "content_index", "summary": "summary_index"}
# The key of a piece, and the other keys whose values may differ.
_PATH = (("delta", "obfuscation", "sequence_number", "snapshot"),)
_VERBS = frozenset({"added", "delta", "done"})


class DeltaReader:
    """
    Passes events on to the items of *output* that they are about. A piece waits
    until its item may be given.
    """

    def __init__(self, output: OutputOrder, template: PieceTemplate) -> None:
        self._output = output
        self._template = template

    def find_handler(self, kind: str) -> Callable[[ObjectReader], Chunks] | None:
        """
        The function that reads events of a *kind*; None if they bring no pieces.
        """
        stem, _, verb = kind.rpartition(".")
        if stem not in _HANDLERS or verb not in _VERBS:
            return None

        read, given = _HANDLERS[stem]
        return lambda event: read(self, *given, event, verb)

    def _read_item_event(self, event: ObjectReader, verb: str) -> Chunks:
        item = event.required("item")
        if item is None:
            return []

        if not isinstance(item.raw.get("type"), str):
            item.wrong("type", "the type of an item")
        elif verb == "added":
            return self._output.added(event, as_sent(item.raw))
        elif verb == "done":
            return self._output.done(event, as_sent(item.raw), item.path)

        return []

    def _read_block_event(
        self, piece: _DeltaTarget, event: ObjectReader, verb: str
    ) -> Chunks:
        number = _read_part_number(event, _NUMBERS[piece.where])
        text = _read_text(event, "delta" if verb == "delta" else piece.key)
        likely = _read_logprobs(event) if event.raw.get("logprobs") else []
        if number is None or text is None:
            return []

        item: Any = self._output.about(event, piece.item)

        def emit() -> Chunks:
            block, chunks = item.block(piece.where, number, piece.block)
            if verb != "delta":
                return [*chunks, *block.end(text)]

            chunks += block.next(text)
            self._expect_more(block, event)
            block.has_logprobs = block.has_logprobs or bool(likely)
            return [*chunks, *likely]

        return self._output.in_turn(item, emit, is_piece=verb == "delta")

    def _expect_more(self, live: StreamedText, event: ObjectReader) -> None:
        # A piece that waited is not of the latest event, and its block may be done by
        # now.
        if event.reading is self._output.places.reading:
            self._template.remember(event.raw, _PATH, live.cut, live.chunks())

    def _read_part_event(
        self, kind: str, where: str, event: ObjectReader, _verb: str
    ) -> Chunks:
        number, part = _read_part_number(event, _NUMBERS[where]), event.required("part")
        if part is None:
            return []

        raw = event.reading.rest(as_sent(part.raw), frozenset(), part.path)
        named = raw.get("type")
        if not isinstance(named, str):
            part.wrong("type", "the type of a part")
            return []

        if number is None:
            return []

        text = raw.get("refusal" if named == "refusal" else "text")
        kind = "reasoning" if named == "reasoning_text" else kind
        item: Any = self._output.about(event, kind)

        def emit() -> Chunks:
            block, chunks = item.block(where, number, named)
            block.raw = raw
            return [*chunks, *block.end(text)] if isinstance(text, str) else chunks

        return self._output.in_turn(item, emit)

    def _read_annotation_event(self, event: ObjectReader, _verb: str) -> Chunks:
        number = _read_part_number(event, "content_index")
        given, path = event.raw.get("annotation"), f"{event.path}.annotation"
        found = event.reading.json(given, path)
        if number is None:
            return []

        item: Any = self._output.about(event, "message")

        def emit() -> Chunks:
            block, chunks = item.block("content", number, "output_text")
            block.annotations.append(found)
            return chunks  # type: ignore[no-any-return]

        return self._output.in_turn(item, emit)

    def _read_call_event(self, kind: str, event: ObjectReader, verb: str) -> Chunks:
        text = _read_text(event, "delta" if verb == "delta" else CALLS[kind])
        if text is None:
            return []

        item: Any = self._output.about(event, kind)

        def emit() -> Chunks:
            if verb != "delta":
                return item.end(text)  # type: ignore[no-any-return]

            chunks: Chunks = item.next(text)
            if chunks:
                self._expect_more(item, event)

            return chunks

        return self._output.in_turn(item, emit, is_piece=verb == "delta")


_HANDLERS: dict[str, tuple[Callable[..., Chunks], tuple[Any, ...]]] = {
    "response.output_item": (DeltaReader._read_item_event, ()),
    "response.output_text.annotation": (DeltaReader._read_annotation_event, ()),
    **{stem: (DeltaReader._read_block_event, (to,)) for stem, to in _BLOCKS.items()},
    **{stem: (DeltaReader._read_part_event, to) for stem, to in _PARTS.items()},
    **{stem: (DeltaReader._read_call_event, (to,)) for stem, to in _ASKED.items()},
}


def _read_text(event: ObjectReader, key: str) -> str | None:
    """
    The text under *key*, as it is; None if missing.
    """
    text = event.raw.get(key)
    if not isinstance(text, str):
        event.wrong(key, "a text")
        return None

    return text


def _read_part_number(event: ObjectReader, key: str) -> int | None:
    """
    The number under *key*, 0 if missing; None if it is invalid.
    """
    number = event.raw.get(key)
    if number is None:
        return 0

    if number.__class__ is not int or not 0 <= number < MAX_ITEMS:
        event.wrong(key, "the index of a part, 0 or higher")
        return None

    return int(number)


def _read_logprobs(event: ObjectReader) -> Chunks:
    logprobs = event.raw["logprobs"]
    if not is_list(logprobs):
        event.wrong("logprobs", "a list")
        return []

    found = read_logprob_list(event.reading, logprobs, f"{event.path}.logprobs")
    return [AssistantMessage(response=ResponseMeta(logprobs=found))]
