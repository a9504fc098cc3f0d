r"""
Streams of the format of `tests.adapters.example`.

The events of a stream; the ``input`` of a call comes as pieces of its text::

    {"at": 0, "block": {"kind": "text", "text": "Hel"}}
    {"at": 0, "more": "lo"}
    {"at": 1, "block": {"kind": "call", "id": "c1", "name": "tide"}}
    {"at": 1, "more": "{\"at\": \"Oban\"}"}
    {"end": {"id": …, "model": …, "stop": …, "counts": {...}}}

or, if the provider fails, ``{"error": {"message": …}}``.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Any

import attrs

from conversation_state.adapters.engine.notes import with_notes, without_empty
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    describe_failure,
)
from conversation_state.adapters.engine.streaming import (
    SurrogateBuffer,
    achunks_of,
    add_rest,
    check_event,
    chunks_of,
    make_call_chunk,
    make_part_chunk,
)
from conversation_state.errors import ProviderStreamError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import TextPart
from tests.adapters.example import SOURCE, read_call, read_response, read_text

_EVENT_KEYS = frozenset({"at", "block", "end", "more"})


def load_chunks(events: Iterable[Any]) -> Iterator[AssistantMessage]:
    """
    The chunks that the *events* of a stream bring, as they come; `concat` them.

    Raises:
        ProviderStreamError:
            If an event reports that the provider failed.

        DecodeError:
            If an event is not what the format has.
    """
    return chunks_of(ExampleStream(), events)


def aload_chunks(events: AsyncIterable[Any]) -> AsyncIterator[AssistantMessage]:
    """The async twin of `load_chunks`."""
    return achunks_of(ExampleStream(), events)


class ExampleStream:
    """One stream while it is read. Blocks come one after the other."""

    def __init__(self) -> None:
        # The open block: the provider's number; our index, which no other block has,
        # even if the server begins again at 0; how its pieces become chunks; half of a
        # character that waits for the other half.
        self._at: int | None = None
        self._index = -1
        self._make_chunk: Callable[[str], AssistantMessage] | None = None
        self._buffer = SurrogateBuffer()
        # What the last chunk brings.
        self._response = ResponseMeta()
        self._notes: dict[str, Any] = {"response": {}, "event": {}, "mended": []}
        self._is_over = False

    def read(self, event: Any, path: str) -> Iterator[AssistantMessage]:
        """The chunks of one event."""
        reader = DocumentReader()
        check_event(reader, event, path)
        node = ObjectReader(reader, event, path)
        chunks: list[AssistantMessage] = []
        if event.get("error") is not None:
            raise ProviderStreamError(describe_failure(event["error"]), event)

        if "block" in event:
            chunks = self._start_block(node)
        elif "more" in event:
            chunks = self._continue_block(node)
        elif "end" in event:
            self._read_end(node)
        else:
            reader.problem(path, "has none of block, more, end and error")

        add_rest(self._notes["event"], node, _EVENT_KEYS)
        # What could be read is given, whatever else is wrong.
        yield from chunks
        reader.finish()

    def _start_block(self, event: ObjectReader) -> list[AssistantMessage]:
        reader, at, block = event.reading, event.raw.get("at"), event.required("block")
        if at.__class__ is not int:
            event.wrong("at", "the number of a block")

        # First: what comes after the new block is not joined to the old one.
        chunks = self._finish_block()
        if block is None:
            return chunks

        self._at, self._index = at, self._index + 1
        fields: dict[str, Any] = {}
        content: Any = ()
        kind = block.text("kind")
        if kind == "text":
            self._make_chunk = partial(make_part_chunk, TextPart, self._index)
            # Not `block.text`: the next piece may begin with the other half of a pair.
            piece = block.raw.get("text")
            if isinstance(piece, str):
                text = self._buffer.next(piece)
                content = (read_text(block, text, self._index),)
            else:
                block.wrong("text", "a text")
        elif kind == "call":
            self._make_chunk = partial(make_call_chunk, self._index)
            fields = {"tool_calls": (read_call(block, "", self._index),)}
        else:
            content = (block.as_unknown(SOURCE, self._index),)

        self._note_mended(each[len(block.path) :] for each in reader.mended)
        return (
            chunks if reader.count else [*chunks, AssistantMessage(content, **fields)]
        )

    def _continue_block(self, event: ObjectReader) -> list[AssistantMessage]:
        piece = event.raw["more"]
        # True and 1.0 pass for 1.
        if event.raw.get("at") != self._at or self._make_chunk is None:
            event.wrong("at", "the number of the text or call that is open")
        elif not isinstance(piece, str):
            event.wrong("more", "a text")
        else:
            piece = self._buffer.next(piece)
            return [self._make_chunk(piece)] if piece else []

        return []

    def _finish_block(self) -> list[AssistantMessage]:
        make_chunk, rest = self._make_chunk, self._buffer.rest()
        if self._buffer.is_mended:
            self._note_mended([""])

        self._at, self._make_chunk, self._buffer = None, None, SurrogateBuffer()
        return [make_chunk(rest)] if make_chunk and rest else []

    def _note_mended(self, paths: Iterable[str]) -> None:
        here = f"blocks[{self._index}]"
        self._notes["mended"] += [f"{here}{path}" for path in dict.fromkeys(paths)]

    def _read_end(self, event: ObjectReader) -> None:
        end = event.required("end")
        if end is not None:
            self._is_over = True
            self._response, self._notes["response"] = read_response(end)

    def end(self, *, broken: bool) -> Iterator[AssistantMessage]:
        """The last chunks: half of a character that was held back, and the metadata."""
        yield from self._finish_block()
        response = self._response
        if broken and not self._is_over:
            response = attrs.evolve(response, finish_reason="interrupted")

        metadata = with_notes(SOURCE, without_empty(self._notes))
        # No parts, and not an empty text, which would be joined to them as one.
        yield AssistantMessage((), response=response, metadata=metadata)
