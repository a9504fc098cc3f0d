"""
bubo's messages and checkpoints, as its Go programs write them in JSON.

::

    payload = dump(messages).payload          # {"messages": [...]}
    messages = load(payload)                  # or a list of messages, or one
    kept = load_checkpoint(payload)           # a Checkpoint, with id and usage
    payload = dump_checkpoint(kept).payload

Of a stream's events, the last one has a ``response``, which `load` takes, and a
``checkpoint``; the pieces before it have lost their white space on the way, and are
not read.

What is dumped has the keys that bubo writes. What bubo wrote is loaded and dumped
again as it was, but for what bubo itself can't read: a message of no calls becomes an
empty answer, a failure without an error one with an empty text, and a message without a
payload is left out, and listed as lost.

There are no ids of ours in it. A message's ``sender`` is our *name*, its ``meta``
our metadata. Calls are a message of their own there: an assistant's message that
has content and calls becomes two, which `Export.lost` lists. A result
that failed is a ``retry``. Beside those of all formats (see
`conversation_state.adapters.engine.notes`) there is this note:

meta
    ``meta`` that is not an object, or what in it has the name of an adapter.

What bubo can't represent is in `Export.lost`: files and video, an image's
detail, less than milliseconds, response metadata, ... In other words, and
not lost: bytes instead of a ``data:`` url of an image, ``audio/mpeg`` for
``audio/mp3``, one text for one plain text part, no key for a null, and one
for a refusal that stood alone in a list.

Source:
    bubo's envelope, and its decoder, which is as lenient as ours is strict:
    numbers for texts, and a checkpoint whose ``init_len`` is outside of it, are
    refused here. An empty time, the year 1970 there, is no time.

>>> from conversation_state.messages import ToolMessage
>>> dump([ToolMessage("12:30", tool_call_id="c1")]).payload["messages"]
[{'type': 'tool_response', 'tool_name': '', 'tool_call_id': 'c1', 'content': '12:30'}]
>>> load({"type": "user", "content": "hi", "sender": "ann"})
(UserMessage(content='hi', name='ann'),)
"""

from conversation_state.adapters.bubo._checkpoint import (
    dump_checkpoint,
    load_checkpoint,
    load_usage,
)
from conversation_state.adapters.bubo._dump import dump
from conversation_state.adapters.bubo._load import load
from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format

__all__ = [
    "FORMAT",
    "Export",
    "Lost",
    "dump",
    "dump_checkpoint",
    "load",
    "load_checkpoint",
    "load_usage",
]

FORMAT = Format("bubo")
