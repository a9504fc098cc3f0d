"""
Responses: OpenAI's newer format, a list of items.

::

    payload = dump(messages).payload      # {"instructions": ..., "input": [...]}
    messages = load(payload)              # or a list of items, or a response
    usage = load_usage(response)
    message = concat(load_chunks(events))

A payload that is loaded and dumped again is the same JSON value, key for key, except
for an ``input`` that is a text, which comes back as a list with a user's message, for
null ``instructions``, for the usual form of base64, and for a message of the model
without any block, which gets an empty one.

All output of a response is one message, whose parts and calls have their order
by *index*; `dump` makes items of them again. Items of tools that are built into
the provider are kept as they are: a call by the model is an `UnknownPart` in its
place, an answer by the caller is an `UnknownMessage`.

Beside those of all formats (see `adapters.engine.notes`) there are these
notes on a message, part or call:

item, more
    ``item`` has the kept keys of an item that holds several parts: its ``id``,
    ``status``, ``phase``. It is on the last part of the item; the parts before it
    have ``more``.

plain, block, list
    How an item or block was written if `dump` would write it differently: as a text
    where others have a list; with another type; in another list of the thought.

role, custom, named
    ``role`` is ``system`` or ``developer``, of a system message that was an item
    and not the instructions. ``custom`` marks the result of a custom tool, and
    ``named`` a result with the name of its tool.

silent
    A response without output, or without any yet: nothing is sent.

response
    Without the keys that only repeat the request.

events, done
    Data of a stream that fits nowhere else: keys of events, by the type of the event;
    the text at the end of an item, if it differs from its pieces. Never sent.

Thoughts are sent back with their signature, byte for byte, if this provider
signed them; or by their id. All others are lost, and so are those that nothing
follows: the provider refuses both. If you remove a thought, the provider may
refuse the item that followed it if that still has its id.

Source:
    Recorded traffic of OpenAI, the reference and the types of its SDK. A
    response has all its output in one list. A history has several outputs, which
    are separated only by the items between them.

>>> from conversation_state.messages import SystemMessage, UserMessage
>>> dump([SystemMessage("Be brief."), UserMessage("hi")]).payload
{'instructions': 'Be brief.', 'input': [{'role': 'user', 'content': 'hi'}]}
>>> load({"input": "hi"})
(UserMessage(content='hi'),)
"""

from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format
from conversation_state.adapters.openai_responses._dump import dump, dump_tools
from conversation_state.adapters.openai_responses._load import load, load_usage
from conversation_state.adapters.openai_responses._stream import (
    aload_chunks,
    load_chunks,
)
from conversation_state.requests import OPENAI_RESPONSES as RULES
from conversation_state.requests import Rules
from conversation_state.requests import rules as _rules_of

__all__ = [
    "FORMAT",
    "RULES",
    "Export",
    "Lost",
    "aload_chunks",
    "dump",
    "dump_tools",
    "load",
    "load_chunks",
    "load_usage",
    "rules",
]

FORMAT = Format("openai_responses", kept=("item", "keys"))


def rules(*, host: str = "", model: str = "") -> Rules:
    """
    What a *host* asks of a request, for `dump`; without one, `RULES`, which is right
    for all hosts that are known. See `conversation_state.requests.rules`.

    Raises:
        LookupError: If there is no such host of this format.

    >>> rules(host="azure").host
    'azure'
    """
    return _rules_of("openai_responses", host=host, model=model)
