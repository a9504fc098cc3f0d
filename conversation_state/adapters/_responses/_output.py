"""
The items of a stream, and whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from conversation_state.adapters._reading import Place, is_list, is_map
from conversation_state.adapters._responses._items import LISTS, read_item
from conversation_state.adapters._responses._making import (
    Asked,
    Making,
    Places,
)
from conversation_state.adapters._responses._spoken import Spoken
from conversation_state.adapters._responses._words import CALLS
from conversation_state.messages import AssistantMessage

__all__ = ["MOST", "Output"]

MOST = 2**31  # items, or blocks of one: far more than there can be

Chunks: TypeAlias = list[AssistantMessage]


class Output:
    """
    The items of one stream while it is read, in the order they are given.

    Attributes:
        places: What they share.
    """

    def __init__(self) -> None:
        self.places = Places()
        self._items: list[Making] = []
        # How many of them no longer wait for others.
        self._head = 0
        # What came while a message was open that stands before it.
        self._late: list[Callable[[], Chunks]] = []
        self._at: dict[int, Making] = {}
        self._by_id: dict[str, Making] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def added(self, event: Place, raw: Mapping[str, Any]) -> Chunks:
        """
        What the announcement of *raw* brings.
        """
        self._item(event, raw)
        return self._advance()

    def done(self, event: Place, raw: Mapping[str, Any], path: str) -> Chunks:
        """
        What the end of *raw* brings.
        """
        return self._finish(self._item(event, raw), raw, path)

    def _item(self, event: Place, raw: Mapping[str, Any]) -> Making:
        """
        The item that is *raw*; a new one if it was not announced.
        """
        item = self.find(event, raw.get("id"))
        if item is None or item.type != raw["type"]:
            return self._open(raw, event.raw.get("output_index"), f"{event.path}.item")

        # Where one is done, another one may stand, or the same be told again.
        again = all(item.added.get(key) == raw.get(key) for key in ("id", "call_id"))
        if item.is_done and not again:
            return self._open(raw, event.raw.get("output_index"), f"{event.path}.item")

        return item

    def find(self, event: Place, name: Any = None) -> Making | None:
        """
        The item that *event* is about, whose id may be *name*; None if it is
        not known.
        """
        for each in (event.raw.get("item_id"), name):
            if isinstance(each, str) and each in self._by_id:
                return self._by_id[each]

        at: Any = event.raw.get("output_index")
        return self._at.get(at) if at.__class__ is int else None

    def about(self, event: Place, kind: str) -> Making:
        """
        The item of a *kind* that *event* tells a piece of; a new one if it
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

        name = event.raw.get("item_id")
        if isinstance(name, str) and name not in self._by_id:
            raw["id"] = name

        return self._open(raw, event.raw.get("output_index"), f"{event.path}.item")

    def _open(self, raw: Mapping[str, Any], at: Any, path: str) -> Making:
        kept = self.places.reading.json(raw, path)
        number = at if at.__class__ is int and 0 <= at < MOST else len(self._items)
        kind = raw["type"]
        made: Any = Asked if kind in CALLS else Spoken if kind in LISTS else Making
        item: Making = made(self.places, kept, number)
        self._items.append(item)
        self._at[number] = item
        if isinstance(raw.get("id"), str):
            self._by_id[raw["id"]] = item

        return item

    def _finish(self, item: Making, raw: Mapping[str, Any], path: str) -> Chunks:
        chunks = self._advance()
        if item.index is None or self._is_late(item):
            # Whatever is wrong with it is told now.
            read_item(Place(self.places.reading, raw, path), 0, "", [])

        return [*chunks, *self.in_turn(item, partial(item.finish, raw, path))]

    def in_turn(self, item: Making, tell: Callable[[], Chunks]) -> Chunks:
        """
        What *item* brings if it is told now; later if others are not done.
        """
        chunks = self._advance()
        if item.index is None:
            item.waiting.append(tell)
            return chunks

        if self._is_late(item):
            self._late.append(tell)
            return chunks

        return [*chunks, *tell(), *self._advance()]

    def _is_late(self, item: Making) -> bool:
        """
        Whether what *item* brings would tear a message, or a thought, that is
        open.
        """
        open_ = self._head < len(self._items) and self._items[self._head].is_spoken
        return open_ and not item.is_piecemeal

    def _advance(self) -> Chunks:
        """
        Start what no longer waits: nothing stands behind a message or a
        thought before it is done, for nobody knows its place.
        """
        chunks: Chunks = []
        while self._head < len(self._items):
            item = self._items[self._head]
            if item.index is None:
                chunks += _started(item)

            if item.is_spoken and not item.is_done:
                break

            self._head += 1
            late, self._late = self._late, []
            for tell in late:
                chunks += tell()

        return chunks

    def complete(self, response: Place) -> Chunks:
        """
        What only the whole *response* says.
        """
        output = response.raw.get("output")
        known: set[int] = set()
        chunks: Chunks = []
        for at, raw in enumerate(output if is_list(output) else ()):
            path = f"{response.path}.output[{at}]"
            if not is_map(raw):
                response.reading.wrong(path, raw, "an object")
                continue

            if not isinstance(raw.get("type"), str):
                Place(response.reading, raw, path).wrong("type", "the type of an item")
                continue

            name = raw.get("id")
            item = self._by_id.get(name) if isinstance(name, str) else None
            item = item or self._at.get(at)
            if item is None or item.type != raw["type"] or id(item) in known:
                item = self._open(raw, len(self._items), path)

            known.add(id(item))
            if not item.is_done:
                chunks += self._finish(item, raw, path)

        return chunks

    def end(self) -> Iterator[AssistantMessage]:
        """
        What was not done.
        """
        yield from self._advance()
        while self._head < len(self._items):
            yield from self._items[self._head].finish(None, "$")
            yield from self._advance()

        for item in self._items:
            yield from item.finish(None, "$")


def _started(item: Making) -> Chunks:
    """
    What *item* brings, now that it is its turn.
    """
    chunks = item.start()
    waiting, item.waiting = item.waiting, []
    for tell in waiting:
        chunks += tell()

    return chunks
