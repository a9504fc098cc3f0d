"""
Threads: the records of a thread, which copies of threads share.

A thread is a list of layers. It writes to the first one, which is its own; a
record in one layer hides those of the same key in later layers. A copy has a
new first layer over those of the original, which gets a new one, too: so the
records of both are stored once.
"""

from __future__ import annotations

from functools import lru_cache

from conversation_state.adapters.langgraph._records import (
    copies_key,
    encode_text,
    layer_key,
    pack,
    thread_key,
    unpack,
)
from conversation_state.store.records import Hold, Reader, Record, Writer, after

__all__ = ["Thread", "WritableThread"]

_SIZE = 4


# The numbers of the layers in a thread's record.
@lru_cache(maxsize=64)
def _unpack_layers(value: bytes) -> tuple[int, ...]:
    _, layers = unpack(value)
    at = range(0, len(layers), _SIZE)
    return tuple([int.from_bytes(layers[i : i + _SIZE]) for i in at])


class Thread:
    """
    The records of a thread, as of one moment.

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
            self.layers = _unpack_layers(record.value)

    def get(self, key: bytes) -> Record | None:
        for layer in self.layers:
            record = self.rows.get(layer_key(layer) + key)
            if record is not None:
                return record

        return None

    # The last key that begins with *prefix*, and its record; None if there is none.
    def last(self, prefix: bytes) -> tuple[bytes, Record] | None:
        last: tuple[bytes, Record] | None = None
        for layer in self.layers:
            start = layer_key(layer)
            low = start + prefix
            found = self.rows.scan(low, after(low), limit=1, backwards=True)
            for record in found:
                key = record.key[len(start) :]
                if last is None or key > last[0]:
                    last = key, record

        return last

    def keys(self, prefix: bytes) -> set[bytes]:
        found: set[bytes] = set()
        for layer in self.layers:
            start = layer_key(layer)
            keys = self.rows.keys(start + prefix, after(start + prefix))
            found.update([key[len(start) :] for key in keys])

        return found

    def records(self, prefix: bytes) -> list[Record]:
        found: dict[bytes, Record] = {}
        # The first layer is read last: its records replace those it hides.
        for layer in reversed(self.layers):
            start = layer_key(layer)
            low = start + prefix
            for record in self.rows.scan(low, after(low)):
                found[record.key[len(start) :]] = record

        return [found[key] for key in sorted(found)]


class WritableThread(Thread):
    rows: Writer

    def __init__(self, rows: Writer, id: str) -> None:
        super().__init__(rows, id)

    def put(self, key: bytes, value: bytes, hold: Hold | None = None) -> None:
        self.rows.put(self._own_prefix() + key, value, hold)

    # Write a record under a key that is free.
    def add(self, key: bytes, value: bytes, hold: Hold | None = None) -> None:
        self.rows.add(self._own_prefix() + key, value, hold)

    # Remove a record from a thread that has one layer.
    def remove(self, key: bytes) -> None:
        whole = self._own_prefix() + key
        self.rows.remove(whole, whole + b"\0")

    def _own_prefix(self) -> bytes:
        # The first record creates the thread, so that there is no thread without one.
        if not self.layers:
            self._set_layers((self.rows.new_number(),))

        return layer_key(self.layers[0])

    def _set_layers(self, layers: tuple[int, ...]) -> None:
        self.layers = layers
        packed = b"".join([layer.to_bytes(_SIZE) for layer in layers])
        self.rows.put(thread_key(self.id), pack(encode_text(self.id), packed))

    # A copy of this thread that shares its records. Writes a row for each layer.
    def copy(self, id: str) -> WritableThread:
        rows = self.rows
        shared = self.layers
        own = layer_key(shared[0])
        if len(shared) > 1 and not rows.keys(own, after(own), limit=1):
            # Nothing was written since the last copy. The empty layer is not shared,
            # because each read looks into all layers.
            shared = shared[1:]
        else:
            self._set_layers((rows.new_number(), *shared))

        for layer in shared:
            self._add_references(layer, 1)

        made = WritableThread(rows, id)
        made._set_layers((rows.new_number(), *shared))
        return made

    # Replace all layers by one of its own, with the records to *keep*.
    def flatten(self, keep: list[Record]) -> None:
        shared = self.layers
        new = self.rows.new_number()
        for record in keep:
            key = record.key[len(layer_key(0)) :]
            self.rows.add(layer_key(new) + key, record.value, record.hold)

        self._set_layers((new,))
        self._release_layers(shared)

    def delete(self) -> None:
        key = thread_key(self.id)
        self.rows.remove(key, key + b"\0")
        self._release_layers(self.layers)
        self.layers = ()

    def _release_layers(self, layers: tuple[int, ...]) -> None:
        for layer in layers:
            if not self._add_references(layer, -1):
                low = layer_key(layer)
                self.rows.remove(low, after(low))

    # Count *more* threads that have a layer; returns how many have it now.
    def _add_references(self, layer: int, more: int) -> int:
        key = copies_key(layer)
        record = self.rows.get(key)
        # Most layers belong to one thread, which needs no record.
        count = (1 if record is None else int.from_bytes(record.value)) + more
        if count > 1:
            self.rows.put(key, count.to_bytes(_SIZE))
        elif record is not None:
            self.rows.remove(key, key + b"\0")

        return count
