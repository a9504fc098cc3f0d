"""
Pydantic AI's messages, as objects or as its JSON (extra ``pydantic-ai``).

::

    state = state.extend(load(result.all_messages()))
    history = dump(state.messages).payload       # a list of them

A `ModelRequest` is as many messages of ours as it has parts, and a
`ModelResponse` is one. Notes in the metadata of messages, parts and calls keep
the rest (and ``keys``, see `conversation_state.adapters.engine.notes`):

request, response
    Keys of the message itself that have no field of ours. They are noted on the first
    of our messages for it, whose metadata is the caller's own.

more
    A mark that a message belongs to the same request as the one before.

at
    The position of a part in its request, if the results were not in front.

instructions, instructed
    A mark that a system message is a request's instructions; a mark that a request
    has the same instructions as the one before.

empty
    A mark that a request had no parts, on an unknown message that stands for it.

value
    A mark that a text, or the arguments of a call, are the JSON of a value; "" is
    null.

files, file
    Whether a tool returned one file or several; the keys around a file.

usage
    The original counts; sent as long as they equal `ResponseMeta.usage`.

signed
    A mark that reasoning is signed by the provider that *provider_name* names.

mended
    The paths where a lone surrogate became U+FFFD.

Finish reasons are the provider's own, which Pydantic AI keeps in
``provider_details``. Content without a part of ours (a provider's tools and their
results, cache points, uploaded files, changes of tools and settings) becomes an
unknown part or message from ``pydantic_ai``.

Source:
    ``pydantic_ai.messages`` of 2.68.
    Pydantic AI sends a request's tool results in front of its other parts, and
    the instructions of the newest request only.

>>> from conversation_state.messages import UserMessage
>>> dump([UserMessage("Hi!")]).payload[0].parts[0].content
'Hi!'
"""

from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format
from conversation_state.adapters.pydantic_ai._dump import dump
from conversation_state.adapters.pydantic_ai._load import load
from conversation_state.adapters.pydantic_ai._response import load_usage

__all__ = ["FORMAT", "Export", "Lost", "dump", "load", "load_usage"]

FORMAT = Format("pydantic_ai", kept=("file", "keys"), is_both_ways=False)
