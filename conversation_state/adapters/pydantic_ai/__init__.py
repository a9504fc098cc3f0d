"""
Pydantic AI: its messages, what its models see of them, and a store as its
conversations (extra ``pydantic-ai``).

    agent = Agent(model, capabilities=[TrimmedRequests(trimmer)])
    backend = StoreBackend.from_url("sqlite:///talks.db")
    await backend.save(result)

A `ModelRequest` is as many messages of ours as it has parts, and a
`ModelResponse` is one. Notes, under ``pydantic_ai`` in the metadata of
messages, parts and calls, say what else there was (and ``keys``, see
`conversation_state.adapters._export`):

request, response
    What the message itself said that has no field of ours, on the first of
    the messages it is; metadata of the caller's is metadata there.

more
    That a message is of the request that is open.

at
    Which part of its request it was, where results were not in front.

instructions, instructed
    That a system message is a request's instructions, and that a request has
    those that were said before.

empty
    That a request had no parts, on an unknown message that stands for it.

value
    That a text is the JSON of a value; of a call *args* says so, or that
    there were none.

files, file
    That a tool gave files, one or several; what stood around a file.

usage
    What was counted, as it was counted; sent as long as it is what
    `ResponseMeta.usage` says.

texts, whole, …_texts
    Keys, or all, as JSON text: what is too large or too deep for metadata.

signed
    That a thought has a signature of whom *provider_name* names.

mended
    Where half of a surrogate pair became U+FFFD.

The words for why a response ended are the provider's own, which Pydantic AI
keeps in ``provider_details``. What has no part of ours (a provider's tools and
their results, cache points, uploaded files, changes of tools and settings) is an
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

from typing import TYPE_CHECKING, Any

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters.pydantic_ai._dump import dump
from conversation_state.adapters.pydantic_ai._load import load
from conversation_state.adapters.pydantic_ai._processor import (
    Trims,
    ahistory_processor,
    history_processor,
)
from conversation_state.adapters.pydantic_ai._usage import load_usage
from conversation_state.errors import MissingExtraError

if TYPE_CHECKING:
    from conversation_state.adapters.pydantic_ai._backend import StoreBackend
    from conversation_state.adapters.pydantic_ai._capability import TrimmedRequests

__all__ = [
    "Export",
    "Lost",
    "StoreBackend",
    "TrimmedRequests",
    "Trims",
    "ahistory_processor",
    "dump",
    "history_processor",
    "load",
    "load_usage",
]


def __getattr__(name: str) -> Any:
    # Classes of the SDK are their bases, so they are made when asked for.
    try:
        if name == "StoreBackend":
            from conversation_state.adapters.pydantic_ai._backend import (  # noqa: PLC0415 - as said
                StoreBackend,
            )

            return StoreBackend

        if name == "TrimmedRequests":
            from conversation_state.adapters.pydantic_ai._capability import (  # noqa: PLC0415 - as said
                TrimmedRequests,
            )

            return TrimmedRequests
    except ModuleNotFoundError as error:
        what = f"{name}, which Pydantic AI's class is the base of,"
        raise MissingExtraError(what, "pydantic-ai") from error

    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
