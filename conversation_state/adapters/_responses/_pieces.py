"""
The pieces of a stream's items, and which block or call each is of.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from conversation_state.adapters._openai import read_logprob
from conversation_state.adapters._reading import Place, is_list, is_map
from conversation_state.adapters._responses._making import Piecemeal
from conversation_state.adapters._responses._output import MOST, Output
from conversation_state.adapters._responses._words import CALLS
from conversation_state.adapters._streaming import Shell
from conversation_state.messages import AssistantMessage, ResponseMeta

__all__ = ["Pieces"]

Chunks: TypeAlias = list[AssistantMessage]


class _Piece(NamedTuple):
    """
    What an event about a block is about.
    """

    item: str  # its type
    where: str
    block: str  # its type
    key: str  # of the whole text, in the end


_THOUGHT = _Piece("reasoning", "summary", "summary_text", "text")
_BLOCKS = {
    "response.output_text": _Piece("message", "content", "output_text", "text"),
    "response.reasoning_summary": _THOUGHT,
    "response.reasoning_summary_text": _THOUGHT,
    "response.reasoning_text": _Piece("reasoning", "content", "reasoning_text", "text"),
    "response.refusal": _Piece("message", "content", "refusal", "refusal"),
}
# Blocks as they are at their beginning and end.
_PARTS = {
    "response.content_part": ("message", "content"),
    "response.reasoning_summary_part": ("reasoning", "summary"),
}
_ASKED = {
    "response.custom_tool_call_input": "custom_tool_call",
    "response.function_call_arguments": "function_call",
}
_ITEM = "response.output_item"
_ANNOTATION = "response.output_text.annotation"
_NUMBERS = {"content": "content_index", "summary": "summary_index"}
_VERBS = frozenset({"added", "delta", "done"})


class Pieces:
    """
    What tells the items of *output* what events say of them. Each piece waits
    until it is its item's turn.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        # What the last piece was of, and the event around it.
        self._live: Piecemeal | None = None
        self._shell = Shell("delta", "logprobs", "obfuscation", "sequence_number")

    def quick(self, event: Any) -> AssistantMessage | None:
        """
        The chunk of an event that differs from the one before in its piece
        only; None if it is no such event.
        """
        live = self._live
        if live is None:
            return None

        # What is not as expected is read slowly, and told there.
        try:
            if not self._shell.is_around(event) or event.get("logprobs"):
                return None

            piece = event["delta"]
            text = live.cut.whole(piece) if piece.__class__ is str else ""
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            return None

        return live.add(text) if text else None

    def forget(self) -> None:
        """
        Expect no more of what the last piece was of.
        """
        self._live = None

    def teller(self, kind: str) -> Callable[[Place], Chunks] | None:
        """
        What reads events of a *kind*; None if they bring no pieces.
        """
        stem, _, verb = kind.rpartition(".")
        tell = self._teller(stem) if verb in _VERBS else None
        return None if tell is None else lambda event: tell(event, verb)

    def _teller(self, stem: str) -> Callable[..., Chunks] | None:
        if stem == _ITEM:
            return self._tell_item

        if stem in _BLOCKS:
            return partial(self._tell_block, _BLOCKS[stem])

        if stem in _PARTS:
            return partial(self._tell_part, *_PARTS[stem])

        if stem in _ASKED:
            return partial(self._tell_call, _ASKED[stem])

        return self._tell_annotation if stem == _ANNOTATION else None

    def _tell_item(self, event: Place, verb: str) -> Chunks:
        raw, path = event.raw.get("item"), f"{event.path}.item"
        if not is_map(raw):
            event.wrong("item", "an object")
        elif not isinstance(raw.get("type"), str):
            Place(event.reading, raw, path).wrong("type", "the type of an item")
        elif verb == "added":
            return self._output.added(event, raw)
        elif verb == "done":
            return self._output.done(event, raw, path)

        return []

    def _tell_block(self, piece: _Piece, event: Place, verb: str) -> Chunks:
        number = _number(event, _NUMBERS[piece.where])
        text = _text(event, "delta" if verb == "delta" else piece.key)
        likely = _likelihoods(event) if event.raw.get("logprobs") else []
        if number is None or text is None:
            return []

        item: Any = self._output.about(event, piece.item)

        def tell() -> Chunks:
            block, chunks = item.block(piece.where, number, piece.block)
            self._live = None
            if verb != "delta":
                return [*chunks, *block.end(text)]

            chunks += block.next(text)
            self._go_on(block, event)
            block.has_logprobs = block.has_logprobs or bool(likely)
            return [*chunks, *likely]

        return self._output.in_turn(item, tell)

    def _go_on(self, live: Piecemeal, event: Place) -> None:
        """
        Remember that *event* brought a piece of *live*: so will the next ones.
        """
        self._live = live
        self._shell.remember(event.raw)

    def _tell_part(self, kind: str, where: str, event: Place, _verb: str) -> Chunks:
        number, path = _number(event, _NUMBERS[where]), f"{event.path}.part"
        if not is_map(event.raw.get("part")):
            event.wrong("part", "an object")
            return []

        raw = event.reading.rest(event.raw["part"], frozenset(), path)
        named = raw.get("type")
        if not isinstance(named, str):
            Place(event.reading, raw, path).wrong("type", "the type of a part")
            return []

        if number is None:
            return []

        text = raw.get("refusal" if named == "refusal" else "text")
        item: Any = self._output.about(
            event, "reasoning" if named == "reasoning_text" else kind
        )

        def tell() -> Chunks:
            self._live = None
            block, chunks = item.block(where, number, named)
            block.raw = raw
            return [*chunks, *block.end(text)] if isinstance(text, str) else chunks

        return self._output.in_turn(item, tell)

    def _tell_annotation(self, event: Place, _verb: str) -> Chunks:
        number = _number(event, "content_index")
        told = event.reading.json(
            event.raw.get("annotation"), f"{event.path}.annotation"
        )
        if number is None:
            return []

        item: Any = self._output.about(event, "message")

        def tell() -> Chunks:
            self._live = None
            block, chunks = item.block("content", number, "output_text")
            block.annotations.append(told)
            return chunks  # type: ignore[no-any-return]

        return self._output.in_turn(item, tell)

    def _tell_call(self, kind: str, event: Place, verb: str) -> Chunks:
        text = _text(event, "delta" if verb == "delta" else CALLS[kind])
        if text is None:
            return []

        item: Any = self._output.about(event, kind)

        def tell() -> Chunks:
            self._live = None
            if verb != "delta":
                return item.end(text)  # type: ignore[no-any-return]

            chunks: Chunks = item.next(text)
            if chunks:
                self._go_on(item, event)

            return chunks

        return self._output.in_turn(item, tell)


def _text(event: Place, key: str) -> str | None:
    """
    The text under *key*, as it is; None if there is none.
    """
    text = event.raw.get(key)
    if not isinstance(text, str):
        event.wrong(key, "a text")
        return None

    return text


def _number(event: Place, key: str) -> int | None:
    """
    The number under *key*, 0 if there is none; None if it is no number.
    """
    number = event.raw.get(key)
    if number is None:
        return 0

    if number.__class__ is not int or not 0 <= number < MOST:
        event.wrong(key, "the number of a part, from 0 on")
        return None

    return int(number)


def _likelihoods(event: Place) -> Chunks:
    """
    How likely the tokens of a piece were.
    """
    logprobs = event.raw["logprobs"]
    if not is_list(logprobs):
        event.wrong("logprobs", "a list")
        return []

    told = [
        read_logprob(event.reading, one, f"{event.path}.logprobs[{at}]")
        for at, one in enumerate(logprobs)
    ]
    return [AssistantMessage(response=ResponseMeta(logprobs=tuple(told)))]
