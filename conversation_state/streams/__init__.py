"""
Streams: elements that arrive over time, read by many readers.

A `Stream` is a lazy sequence whose elements are kept while they can be read:
any reference to it can be read from its position, at its own pace, and what
can't be reached is freed. What lives here: streams, pipes, merging, converting,
and collecting chunks into a message. What does not: merging chunks (`chunks`),
and the events of a provider (`adapters`).

How one source serves threads and tasks at once: a reader polls; if there is
nothing, it is in a queue and sleeps, and whoever brings something wakes it (`_cells`).
"""

from conversation_state.streams._pipe import Sender
from conversation_state.streams._sources import SKIP, Failed, Ok, SourceEnd
from conversation_state.streams._stream import (
    Stream,
    StreamReader,
    acollect,
    collect,
    drain,
    merge,
    merge_named,
    pipe,
)

__all__ = [
    "SKIP",
    "Failed",
    "Ok",
    "Sender",
    "SourceEnd",
    "Stream",
    "StreamReader",
    "acollect",
    "collect",
    "drain",
    "merge",
    "merge_named",
    "pipe",
]
