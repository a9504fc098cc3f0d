"""
Responses: OpenAI's newer format, a list of items.

::

    payload = dump(messages).payload      # {"instructions": ..., "input": [...]}
    messages = load(payload)              # or a list of items, or a response
    usage = load_usage(response)
    message = concat(load_chunks(events))

Plain JSON values on both sides; no SDK is needed. What is loaded and dumped
again is the same JSON value, key for key, but for an ``input`` that is a text,
which comes back as a list with a user's message, and for null ``instructions``.

All output of a response is one message, whose parts and calls have their order
by *index*; `dump` makes items of them again. Items of
tools that the provider has built in are kept as they are: an `UnknownPart` in
its place if the model asked, an `UnknownMessage` if the caller answered.

Where our model has no field for something, `load` leaves a note with the
message, part or call (see `conversation_state.adapters._notes`), which `dump`
reads:

keys
    Keys no field of ours holds: ``annotations``, a call's own ``id``, and
    those that say nothing (``"logprobs": []``).

item, more
    The same of the item that holds a part among others: its ``id``,
    ``status``, ``phase``. On the last part of the item; the others note that
    there is ``more`` of it.

without, plain, bare
    How an item or block was written if not as `dump` would: without a key;
    as a text where others have a list; as a list of nothing.

block, under, text, format
    The same of a block: of another type; in another list of the thought; in
    unusual base64; with another word for audio.

role, custom, named
    ``system`` or ``developer``, of a system message that was an item and not
    the instructions; the result of a custom tool; one that named its tool.

made_id
    The id that was made up for a call that had none. It is left out again.

silent
    A response without output, or without any yet: nothing is sent.

mended
    Where half of a surrogate pair stood: no UTF-8 can carry it, so U+FFFD
    stands there now, and `dump` lists it as lost.

response
    What a response has that `ResponseMeta` has no field for, but for what
    only repeats the request. Never sent.

events, pieces, done
    What a stream has that fits nowhere else: by the type of the event; of
    an item that was never done; at the end of a text, if it is not what the
    pieces said. Never sent.

The current content of a message goes before its notes: a note on what has been
changed since does nothing. What this format can't represent is
listed in `Export.lost`, see `dump`.

Thoughts are sent back with what they were signed with, byte for byte, if this
provider signed them; or by their id. All others are lost, and so are those
that nothing follows: both are refused. Take away a thought, and the provider
may refuse what it led to if that has kept its id.

Source:
    Recorded traffic of OpenAI, the reference and the types of its SDK. A
    response has all its output in one list; a history has several of them, which
    are separated only by what stands between.

>>> from conversation_state.messages import SystemMessage, UserMessage
>>> dump([SystemMessage("Be brief."), UserMessage("hi")]).payload
{'instructions': 'Be brief.', 'input': [{'role': 'user', 'content': 'hi'}]}
>>> load({"input": "hi"})
(UserMessage(content='hi'),)
"""

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters._responses._chunks import aload_chunks, load_chunks
from conversation_state.adapters._responses._dump import dump, dump_tools
from conversation_state.adapters._responses._load import load
from conversation_state.adapters._responses._response import load_usage

__all__ = [
    "Export",
    "Lost",
    "aload_chunks",
    "dump",
    "dump_tools",
    "load",
    "load_chunks",
    "load_usage",
]
