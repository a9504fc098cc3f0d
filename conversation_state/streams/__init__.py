"""
Streams: what is not all there yet, read by many.

A `Stream` is a lazy sequence that is kept while it is read: whoever holds one
can read it from there, at their own pace, and what nobody holds is freed. What
lives here: streams, pipes, merging, converting, and waiting for chunks until
they are a message. What does not: how chunks become one (`chunks`), and what
a provider's events say (`adapters`).

How one source serves threads and tasks at once: reading never waits while it
holds anything. A reader polls; if there is nothing, it leaves word in a queue,
polls again, and sleeps. Whoever brings something wakes who is in the queue.
"""

from conversation_state.streams._collecting import acollect, collect
from conversation_state.streams._derived import SKIP, Failed, Ok, SourceEnd
from conversation_state.streams._making import merge, merge_named, pipe
from conversation_state.streams._pipe import Sender
from conversation_state.streams._stream import Reader, Stream

__all__ = [
    "Failed",
    "Ok",
    "Reader",
    "SKIP",
    "Sender",
    "SourceEnd",
    "Stream",
    "acollect",
    "collect",
    "merge",
    "merge_named",
    "pipe",
]
