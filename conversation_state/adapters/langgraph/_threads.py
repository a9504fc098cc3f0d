"""
Threads: which records are a thread's, also where threads were copied.

A thread is a list of layers. It writes into the first of them, which is its
own, and sees what is in the others as far as no layer before says otherwise.
A copy is a new first layer over those of the original, which gets one, too:
so what both know from before is there once.
"""

from __future__ import annotations

from conversation_state.adapters.langgraph._keys import (
    copies_key,
    layer_key,
    pack,
    thread_key,
    unpack,
)
from conversation_state.store._records import Hold, Reader, Record, Writer, after

__all__ = ["OwnThread", "Thread"]

_SIZE = 4


class Thread:
    """
    What there is of a thread, as it was at one moment.

    Attributes:
        id: Its id.

        layers: The numbers of its layers; none if there is no such thread.
    """

    def __init__(self, rows: Reader, id: str) -> None:
        self.rows = rows
        self.id = id
        self.layers: tuple[int, ...] = ()
        record = rows.get(thread_key(id))
        if record is not None:
            _, layers = unpack(record.value)
            at = range(0, len(layers), _SIZE)
            self.layers = tuple([int.from_bytes(layers[i : i + _SIZE]) for i in at])

    def get(self, key: bytes) -> Record | None:
        """
        The record under a key in the first layer that has it.
        """
        for layer in self.layers:
            record = self.rows.get(layer_key(layer) + key)
            if record is not None:
                return record

        return None

    def keys(
        self, prefix: bytes, *, before: bytes | None = None, limit: int | None = None
    ) -> list[bytes]:
        """
        The keys that begin with *prefix*, the last one first: at most *limit*,
        and only those before another one, if that is asked for.
        """
        found: set[bytes] = set()
        for layer in self.layers:
            start = layer_key(layer)
            end = after(start + prefix) if before is None else start + before
            keys = self.rows.keys(start + prefix, end, limit=limit, backwards=True)
            found.update([key[len(start) :] for key in keys])

        return sorted(found, reverse=True)[:limit]

    def records(self, prefix: bytes) -> list[Record]:
        """
        The records whose keys begin with *prefix*, in their order.
        """
        found: dict[bytes, Record] = {}
        for layer in reversed(self.layers):
            start = layer_key(layer)
            low = start + prefix
            for record in self.rows.scan(low, after(low)):
                found[record.key[len(start) :]] = record

        return [found[key] for key in sorted(found)]


class OwnThread(Thread):
    """
    The same where it can be changed.
    """

    rows: Writer

    def __init__(self, rows: Writer, id: str) -> None:
        super().__init__(rows, id)

    def put(self, key: bytes, value: bytes, hold: Hold | None = None) -> None:
        """
        Write a record, in place of what is there.
        """
        self.rows.put(self._own() + key, value, hold)

    def add(self, key: bytes, value: bytes, hold: Hold | None = None) -> None:
        """
        Write a record under a key that is free.
        """
        self.rows.add(self._own() + key, value, hold)

    def remove(self, key: bytes) -> None:
        """
        Remove a record from a thread that has one layer.
        """
        whole = self._own() + key
        self.rows.remove(whole, whole + b"\0")

    def _own(self) -> bytes:
        if not self.layers:
            self._set((self.rows.new_number(),))

        return layer_key(self.layers[0])

    def _set(self, layers: tuple[int, ...]) -> None:
        self.layers = layers
        told = b"".join([layer.to_bytes(_SIZE) for layer in layers])
        id = self.id.encode("utf-8", "surrogatepass")
        self.rows.put(thread_key(self.id), pack(id, told))

    def copy(self, id: str) -> OwnThread:
        """
        A thread that is what this one is, and shares it. A row for each layer.
        """
        rows = self.rows
        shared = self.layers
        own = layer_key(shared[0])
        if len(shared) > 1 and not rows.keys(own, after(own), limit=1):
            # Nothing was written since it was copied the last time.
            shared = shared[1:]
        else:
            self._set((rows.new_number(), *shared))

        for layer in shared:
            self._count(layer, 1)

        made = OwnThread(rows, id)
        made._set((rows.new_number(), *shared))
        return made

    def flatten(self, keep: list[Record]) -> None:
        """
        Let go of all layers but one of its own, with the records to *keep*.
        """
        shared = self.layers
        new = self.rows.new_number()
        for record in keep:
            key = record.key[len(layer_key(0)) :]
            self.rows.add(layer_key(new) + key, record.value, record.hold)

        self._set((new,))
        self._release(shared)

    def delete(self) -> None:
        """
        Let go of all of it that no copy has.
        """
        key = thread_key(self.id)
        self.rows.remove(key, key + b"\0")
        self._release(self.layers)
        self.layers = ()

    def _release(self, layers: tuple[int, ...]) -> None:
        for layer in layers:
            if not self._count(layer, -1):
                low = layer_key(layer)
                self.rows.remove(low, after(low))

    def _count(self, layer: int, more: int) -> int:
        """
        How many threads have a layer, when so many more do.
        """
        key = copies_key(layer)
        record = self.rows.get(key)
        count = (1 if record is None else int.from_bytes(record.value)) + more
        if count > 1:
            self.rows.put(key, count.to_bytes(_SIZE))
        elif record is not None:
            self.rows.remove(key, key + b"\0")

        return count
