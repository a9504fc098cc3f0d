"""
Formats of providers and frameworks, converted to messages and back.

Each offers the same pure functions on plain JSON values: ``dump(messages)``
returns an `Export`, the payload and what is `Lost`; ``load(payload)`` returns
messages, ``load_usage(payload)`` their usage. Nothing is dropped silently: what a
format can't represent is listed, and what our model can't hold is kept for the
provider it came from. A format that is only read, or only written, has only the
functions for that.

`events` and `aevents` read the events of a streamed response, which each
provider's ``load_chunks`` takes, from the lines that an HTTP client gives.
"""

from conversation_state.adapters._events import aevents, events
from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters._notes import PROVIDERS

__all__ = ["PROVIDERS", "Export", "Lost", "aevents", "events"]
