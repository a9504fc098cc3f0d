"""
The items of a stream, and the order in which they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from conversation_state.adapters._reading import ObjectReader, as_sent, is_list, is_map
from conversation_state.adapters._responses._blocks import CALLS
from conversation_state.adapters._responses._items import LISTS, read_item
from conversation_state.adapters._responses._stream_items import (
    Chunks,
    StreamContext,
    StreamedCall,
    StreamedItem,
    StreamedMessage,
)
from conversation_state.messages import AssistantMessage

MAX_ITEMS = 2**31  # items, or blocks of one: far more than there can be

# The types of items that come in pieces.
_ITEMS: Mapping[str, type[StreamedItem]] = {
    **dict.fromkeys(CALLS, StreamedCall),
    **dict.fromkeys(LISTS, StreamedMessage),
}


class OutputOrder:
    """
    The items of one stream while it is read, in the order they are given.

    Attributes:
        context: What they share.
    """

    def __init__(self) -> None:
        self.context = StreamContext()
        self._items: list[StreamedItem] = []
        # How many items at the beginning no longer wait for others.
        self._head = 0
        # Functions that give the chunks of items behind a message or thought that is
        # still open.
        self._late: list[Callable[[], Chunks]] = []
        self._at: dict[int, StreamedItem] = {}
        self._by_id: dict[str, StreamedItem] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def added(self, event: ObjectReader, raw: Mapping[str, Any]) -> Chunks:
        self._find_or_open_item(event, raw)
        return self._start_ready_items()

    def done(self, event: ObjectReader, raw: Mapping[str, Any], path: str) -> Chunks:
        return self._finish_known_item(self._find_or_open_item(event, raw), raw, path)

    def _find_or_open_item(
        self, event: ObjectReader, raw: Mapping[str, Any]
    ) -> StreamedItem:
        """
        The item that is *raw*; a new one if it was not announced.
        """
        item = self.find(event, raw.get("id"))
        if item is not None and item.type == raw["type"]:
            # If the known item is done, *raw* is the same one again only if its ids are
            # the same; else it is another item in the same place.
            keys = ("id", "call_id")
            again = all(item.added.get(key) == raw.get(key) for key in keys)
            if again or not item.is_done:
                return item

        return self._open_announced(event, raw)

    def find(self, event: ObjectReader, name: Any = None) -> StreamedItem | None:
        """
        The item that *event* is about, whose id may be *name*; None if it is
        not known.
        """
        for each in (event.raw.get("item_id"), name):
            if isinstance(each, str) and each in self._by_id:
                return self._by_id[each]

        at: Any = event.raw.get("output_index")
        return self._at.get(at) if at.__class__ is int else None

    def about(self, event: ObjectReader, kind: str) -> StreamedItem:
        """
        The item of a *kind* that *event* has a piece of; a new one if it
        was not announced.
        """
        item = self.find(event)
        if item is None and event.raw.keys().isdisjoint({"item_id", "output_index"}):
            item = self._items[-1] if self._items else None

        if item is not None and item.type == kind and not item.is_done:
            return item

        raw: dict[str, Any] = {"type": kind}
        if kind == "message":
            raw |= {"role": "assistant", "content": []}
        elif kind == "reasoning":
            raw["summary"] = []

        # If the id is that of another item, this one gets none: the provider refuses a
        # request with two items of one id. Further pieces with the id are still of this
        # item.
        name = event.raw.get("item_id")
        if isinstance(name, str) and name not in self._by_id:
            raw["id"] = name

        item = self._open_announced(event, raw)
        if isinstance(name, str):
            self._by_id[name] = item

        return item

    def _open_announced(
        self, event: ObjectReader, raw: Mapping[str, Any]
    ) -> StreamedItem:
        return self._open_item(raw, event.raw.get("output_index"), f"{event.path}.item")

    def _open_item(self, raw: Mapping[str, Any], at: Any, path: str) -> StreamedItem:
        kept = self.context.reading.json(raw, path)
        number = at if at.__class__ is int and 0 <= at < MAX_ITEMS else len(self._items)
        item = _ITEMS.get(raw["type"], StreamedItem)(self.context, kept, number)
        self._items.append(item)
        self._at[number] = item
        if isinstance(raw.get("id"), str):
            self._by_id[raw["id"]] = item

        return item

    def _finish_known_item(
        self, item: StreamedItem, raw: Mapping[str, Any], path: str
    ) -> Chunks:
        chunks = self._start_ready_items()
        if item.index is None or self._is_late(item):
            # The item is given later, but its problems are reported now.
            read_item(ObjectReader(self.context.reading, raw, path), 0, "", [])

        return [*chunks, *self.in_turn(item, partial(item.finish, raw, path))]

    def in_turn(
        self, item: StreamedItem, emit: Callable[[], Chunks], *, is_piece: bool = False
    ) -> Chunks:
        """
        The chunks of *item* now; later if others are not done.

        A piece of a text does not wait for the end of a thought before it: the
        signature of a thought may come after all output that follows it (OpenRouter).
        """
        chunks = self._start_ready_items(item if is_piece else None)
        if item.index is None:
            item.waiting.append(emit)
            return chunks

        if self._is_late(item):
            self._late.append(emit)
            return chunks

        return [*chunks, *emit(), *self._start_ready_items()]

    def _is_late(self, item: StreamedItem) -> bool:
        """
        Whether chunks of *item* would split a message, or a thought, that is open.
        """
        # All ready items were started, so the first one that is left is open.
        is_open = self._head < len(self._items)
        return is_open and (item.is_overtaken or not item.is_piecemeal)

    def _start_ready_items(self, current: StreamedItem | None = None) -> Chunks:
        """
        Start the items that no longer wait. Nothing is given behind a message or
        thought before that is done, because its place is not known; but the *current*
        item overtakes thoughts.
        """
        chunks: Chunks = []
        while self._head < len(self._items):
            item = self._items[self._head]
            if item.index is None:
                waiting, item.waiting = item.waiting, []
                chunks += item.start()
                for emit in waiting:
                    chunks += emit()

            # Its place is known, but not the number of places it takes.
            if isinstance(item, StreamedMessage) and not item.is_done:
                is_thought = item.type == "reasoning"
                if current is None or current.index is not None or not is_thought:
                    break

                chunks += item.overtake()

            self._head += 1
            late, self._late = self._late, []
            for emit in late:
                chunks += emit()

        return chunks

    def complete(self, response: ObjectReader) -> Chunks:
        """
        The chunks of content that only the whole *response* has.
        """
        output = response.raw.get("output")
        known: set[int] = set()
        chunks: Chunks = []
        items = as_sent(output) if is_list(output) else ()
        for at, raw in enumerate(items):
            path = f"{response.path}.output[{at}]"
            if not is_map(raw):
                response.reading.wrong(path, raw, "an object")
                continue

            if not isinstance(raw.get("type"), str):
                node = ObjectReader(response.reading, raw, path)
                node.wrong("type", "the type of an item")
                continue

            name = raw.get("id")
            item = self._by_id.get(name) if isinstance(name, str) else None
            item = item or self._at.get(at)
            # If two items of the response have the same id, the second one is new.
            if item is None or item.type != raw["type"] or id(item) in known:
                item = self._open_item(raw, len(self._items), path)

            known.add(id(item))
            if not item.is_done:
                chunks += self._finish_known_item(item, raw, path)

        return chunks

    def end(self) -> Iterator[AssistantMessage]:
        yield from self._start_ready_items()
        while self._head < len(self._items):
            yield from self._items[self._head].finish(None, "$")
            yield from self._start_ready_items()

        # The items left are thoughts that were overtaken, and never ended.
        for item in self._items:
            yield from item.finish(None, "$")
