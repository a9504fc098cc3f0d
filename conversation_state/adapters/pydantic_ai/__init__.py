"""
Pydantic AI: its messages, what its models see of them, and a store as its
conversations (extra ``pydantic-ai``).

::

    agent = Agent(model, capabilities=[TrimmedRequests(trimmer)])
    backend = StoreBackend.from_url("sqlite:///conversations.db")
    await backend.save(result)

A `ModelRequest` is as many messages of ours as it has parts, and a
`ModelResponse` is one. Notes in the metadata of messages, parts and calls keep
the rest (and ``keys``, see `conversation_state.adapters._notes`):

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
    ``pydantic_ai.messages`` and ``pydantic_ai.conversation_store`` of 2.68.
    Pydantic AI sends a request's tool results in front of its other parts, and
    the instructions of the newest request only.

>>> from conversation_state.messages import UserMessage
>>> dump([UserMessage("Hi!")]).payload[0].parts[0].content
'Hi!'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters._host import import_lazily
from conversation_state.adapters.pydantic_ai._dump import dump
from conversation_state.adapters.pydantic_ai._load import load
from conversation_state.adapters.pydantic_ai._response import load_usage

if TYPE_CHECKING:
    from conversation_state.adapters.pydantic_ai._backend import StoreBackend
    from conversation_state.adapters.pydantic_ai._processor import (
        TrimmedRequests,
        ahistory_processor,
        history_processor,
    )

__all__ = [
    "Export",
    "Lost",
    "StoreBackend",
    "TrimmedRequests",
    "ahistory_processor",
    "dump",
    "history_processor",
    "load",
    "load_usage",
]


__getattr__, __dir__ = import_lazily(
    __name__,
    {
        "StoreBackend": "_backend",
        "TrimmedRequests": "_processor",
        "ahistory_processor": "_processor",
        "history_processor": "_processor",
    },
    extra="pydantic-ai",
    needs={"pydantic", "pydantic_ai"},
)
