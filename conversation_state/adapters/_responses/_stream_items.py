"""
The items of a stream while they are made.

Each item gives its pieces as they come. The rest of it, such as its id or
citations, comes with the last piece: it is read from the item at its end, as
from a whole response (`_items`).

What lives here: what all items have, and calls. What does not: items that are
made of blocks (`_stream_messages`), and the order of items (`_stream_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, TypeAlias

import attrs

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters._notes import notes_of, with_notes
from conversation_state.adapters._reading import DocumentReader, ObjectReader, mended
from conversation_state.adapters._responses._blocks import ADDRESS, CALLS, SOURCE
from conversation_state.adapters._responses._items import read_call
from conversation_state.adapters._streaming import SurrogateBuffer, call_chunks
from conversation_state.messages import AssistantMessage
from conversation_state.parts import UnknownPart
from conversation_state.tools import ToolCall

__all__ = ["Chunks", "StreamContext", "StreamedCall", "StreamedItem", "StreamedText"]

Chunks: TypeAlias = list[AssistantMessage]


class StreamContext:
    """
    What the items of one stream share while they are read.

    Attributes:
        reading: The event that is being read.

        mended: The paths of texts that had half of a surrogate pair.

        prefix: The beginning of ids that are made up.

        take: Gives the next place among the parts and calls.
    """

    def __init__(self) -> None:
        self.reading = DocumentReader()
        self.mended: dict[str, bool] = {}
        self.prefix = "response"
        self.take = count().__next__

    def mend(self, since: int, path: str, name: str) -> None:
        """
        Note the texts that were mended below *path*, which is *name* in the response.
        """
        for changed in self.reading.mended[since:]:
            self.mended[f"{name}{changed[len(path) :]}"] = True


class StreamedItem:
    """
    One item while it is made.

    This class is for items that our model can't represent, such as a call of a
    provider's own tool: the whole item is given at its end. Subclasses give their
    pieces before.

    Attributes:
        is_spoken: Whether it is made of blocks, so that the number of places it
            takes is not known before its end.

        is_piecemeal: Whether it is given in pieces.

        at: The place of the item in the output.

        added: The item when it was announced.

        index: The place of its first part or call; None as long as it waits
            for others to be done.

        waiting: The functions to call when it no longer waits.

        is_done: Whether all of it was given.

        is_overtaken: Whether pieces of an item behind it were given before its end.
    """

    is_spoken = False
    is_piecemeal = False

    def __init__(
        self, context: StreamContext, added: Mapping[str, Any], at: int
    ) -> None:
        self.context = context
        self.added = added
        self.type: Any = added.get("type")
        self.at = at
        self.name = f"output[{at}]"
        self.index: int | None = None
        self.waiting: list[Callable[[], Chunks]] = []
        self.is_done = False
        self.is_overtaken = False
        self._deltas: dict[str, list[str]] = {}
        self._event_keys: dict[str, Any] = {}

    def overtake(self) -> Chunks:
        self.is_overtaken = True
        return []

    @property
    def made_id(self) -> str:
        # `load` numbers calls in the same way, so that both make up the same id.
        return f"{self.context.prefix}_call_{self.index}"

    def start(self) -> Chunks:
        """
        Take a place, and give what is known from the beginning.
        """
        self.index = self.context.take()
        return []

    def finish(self, raw: Mapping[str, Any] | None, path: str) -> Chunks:
        """
        The rest of the item, which is *raw*, at *path*, at its end; *raw* is None if
        it has no end. Nothing if the item is done already.
        """
        # The end of the item, the end of the response and the end of the stream may all
        # finish the same item.
        if self.is_done:
            return []

        self.is_done = True
        since = len(self.context.reading.mended)
        chunks = self._finish_item(raw, path)
        self.context.mend(since, path, self.name)
        return chunks

    def _finish_item(self, raw: Mapping[str, Any] | None, path: str) -> Chunks:
        kept = self.context.reading.json(self.added if raw is None else raw, path)
        deltas = {kind: mended("".join(found)) for kind, found in self._deltas.items()}
        pieces = {**self._event_keys, **deltas}
        notes = {"pieces": pieces} if raw is None and pieces else {}
        metadata = with_notes(SOURCE, notes)
        part = UnknownPart(kept, source=SOURCE, index=self.index, metadata=metadata)
        return [AssistantMessage((part,))]

    def keep_event(self, kind: str, event: ObjectReader) -> None:
        """
        Remember *event*, of a *kind*, in case the item has no end.
        """
        piece = event.raw.get("delta")
        if isinstance(piece, str):
            self._deltas.setdefault(mended(kind), []).append(piece)
        else:
            found = event.reading.rest(event.raw, ADDRESS, event.path)
            self._event_keys[mended(kind)] = found


class StreamedText:
    """
    A text that comes in pieces: a block of an item, or the arguments of a call.

    Attributes:
        cut: Mends the text.

        pieces: The pieces that were given.
    """

    def __init__(self) -> None:
        self.cut = SurrogateBuffer()
        self.pieces: list[str] = []
        # The size of the pieces that were counted, and the number of these pieces.
        self._size = self._counted = 0

    def chunk(self, text: str) -> AssistantMessage:
        raise NotImplementedError

    def plain_chunks(self) -> Callable[[str], AssistantMessage]:
        raise NotImplementedError

    def chunks(self) -> Callable[[str], AssistantMessage]:
        """
        As `plain_chunks`; what is given counts as given.
        """
        chunk, note = self.plain_chunks(), self.pieces.append

        def add(text: str) -> AssistantMessage:
            note(text)
            return chunk(text)

        return add

    def next(self, piece: str) -> Chunks:
        """
        The chunk of the next *piece*, without half of a character at its end, which
        waits.
        """
        text = self.cut.next(piece)
        if not text:
            return []

        self.pieces.append(text)
        return [self.chunk(text)]

    def end(self, whole: str) -> Chunks:
        """
        The chunk of the text that *whole*, the text at the end, has behind the pieces.
        """
        valid = mended(whole)
        if valid is not whole:
            self.cut.is_mended = True

        rest = self.rest(valid)
        return self.next(rest) if rest else []

    def rest(self, whole: str) -> str | None:
        """
        The text that *whole*, valid Unicode, has behind the pieces; None if it does
        not begin with them.
        """
        # The pieces are counted here and not when they come, because there are many of
        # them and their size is needed at the end only. Without their size, each of
        # many ends would join all pieces.
        uncounted = self.pieces[self._counted :]
        self._counted += len(uncounted)
        self._size += sum(map(len, uncounted))
        if len(whole) < self._size or not whole.startswith("".join(self.pieces)):
            return None

        return whole[self._size :]


class StreamedCall(StreamedItem, StreamedText):
    is_piecemeal = True

    def __init__(
        self, context: StreamContext, added: Mapping[str, Any], at: int
    ) -> None:
        StreamedItem.__init__(self, context, added, at)
        StreamedText.__init__(self)
        self._is_open = False

    def start(self) -> Chunks:
        """
        Take a place, and give the id and the name, if both are known.
        """
        super().start()
        call_id, name = self.added.get("call_id"), self.added.get("name")
        # Without an id nothing is given yet: the end of the call may have one, and a
        # made-up id could not be taken back then.
        if not (isinstance(call_id, str) and isinstance(name, str) and call_id):
            return []

        self._is_open = True
        kind = "custom" if self.type == "custom_tool_call" else "function"
        call = ToolCall(mended(call_id), mended(name), index=self.index, type=kind)
        return [AssistantMessage(tool_calls=(call,))]

    def chunk(self, text: str) -> AssistantMessage:
        return AssistantMessage(tool_calls=(ToolCall("", "", text, index=self.index),))

    def plain_chunks(self) -> Callable[[str], AssistantMessage]:
        return self.chunk if self.index is None else call_chunks(self.index)

    def next(self, piece: str) -> Chunks:
        """
        The chunk of the next *piece*; none before the id and the name are known,
        because an id can't be added to a chunk that was given.
        """
        chunks = super().next(piece)
        return chunks if self._is_open else []

    def _finish_item(self, raw: Mapping[str, Any] | None, path: str) -> Chunks:
        key = CALLS[self.type]
        final = {"name": "", **self.added, **(raw or {})}
        if raw is None or key not in final:
            final[key] = "".join(self.pieces) + self.cut.rest()

        node = ObjectReader(self.context.reading, final, path)
        call = read_call(node, self.index or 0, self.made_id)
        if self.cut.is_mended:
            self.context.mended[f"{self.name}.{key}"] = True

        rest = self.rest(call.arguments)
        if rest is None:
            # The pieces were given and can't be taken back, so a note has the
            # arguments at the end.
            rest = self.cut.rest()
            done = {**notes_of(call.metadata, SOURCE), "done": call.arguments}
            call = attrs.evolve(call, metadata=with_notes(SOURCE, done))

        if not self._is_open:
            rest = "".join(self.pieces) + rest
            return [AssistantMessage(tool_calls=(attrs.evolve(call, arguments=rest),))]

        if not rest and call.metadata is EMPTY_MAP:
            return []

        piece = ToolCall("", "", rest, index=self.index, metadata=call.metadata)
        return [AssistantMessage(tool_calls=(piece,))]
