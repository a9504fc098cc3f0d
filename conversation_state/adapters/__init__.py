"""
Formats of providers and frameworks, converted to messages and back.

Each offers the same pure functions on plain JSON values; no SDK is needed. A format
that is only read, or only written, has only the functions for that. What all of them
promise, beside what is said of each:

``load(payload)``
    Messages of a payload as `dump` makes it, of the bare list in it, or of a
    provider's response, whose message has its `ResponseMeta`. Nothing is lost: what
    our model can't represent is kept as an unknown part or message, or in notes under
    a reserved key of metadata. Half of a surrogate pair becomes U+FFFD, and a note has
    its path. A `DecodeError` has all that is wrong, each with its path.

``dump(messages)``
    An `Export`: the payload, and what is `Lost`. What was loaded from this format is
    the same JSON value again, key for key, as far as the provider takes it; but what
    was changed since goes before what was kept. What the format can't represent is
    listed: names, media where it has none, what is specific to another provider, what
    was mended or had to be moved. Neither sent nor listed are timestamps, run and turn
    ids, `AssistantMessage.response`, positions (*index*), which only order parts and
    calls, and the caller's own metadata. An `InvalidMessageError` says what is not a
    message.

``load_usage(payload)``
    The usage in a response, an event of a stream or a usage block; None if there is
    none. A `DecodeError` says if a count is negative, not an integer, or over
    2**63 - 1.

``load_chunks(events)``, ``aload_chunks(events)``
    Chunks for `concat`, which together hold what `load` returns for the whole
    response. Lazy: an event is read when its chunk is asked for. The last chunk has the
    metadata of the response: the reason to finish, the final usage, the model, and
    notes. A stream that breaks off ends with ``interrupted``, also if *events* raise,
    or if the function does; *events* are not closed. A `ProviderStreamError` says that
    the provider failed, and a `DecodeError` all that is wrong with an event, after
    everything before it was given.

``dump_tools(tools, choice=None)``
    Keys of the same request for descriptions of tools and a `ToolChoice` (None: the
    provider's default, the model may call one); none without tools. Listed as lost, and
    left out, are tools whose name is refused or stands twice, and keywords that are
    refused at the top of a schema. An `InvalidToolError` says that *tools* or *choice*
    are something else.

`events` and `aevents` read the events of a streamed response from the lines that an
HTTP client gives.
"""

from typing import TYPE_CHECKING, Any

from conversation_state.adapters.engine.events import aevents, events
from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import FORMATS, find_format

__all__ = ["FORMATS", "PROVIDERS", "Export", "Lost", "aevents", "events"]

if TYPE_CHECKING:
    PROVIDERS: tuple[str, ...]


def __getattr__(name: str) -> Any:
    # Which formats are read and written as plain JSON, each module says itself. That
    # imports all of them.
    if name != "PROVIDERS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    found = tuple(name for name in FORMATS if find_format(name).is_both_ways)
    globals()["PROVIDERS"] = found
    return found
