"""
Windows to providers' formats: a module for each, none needs its SDK.

Each offers the same pure functions on plain JSON values: ``dump(messages)``
gives an `Export`, the payload and what in it is `Lost`; ``load(payload)`` gives
messages, ``load_usage(payload)`` what they cost. What a format can't say is
listed, and what our model can't hold is kept for the provider it came from:
never is anything dropped in silence. A format that is only read, or only
written, has only that.
"""

from conversation_state.adapters._export import Export, Lost

__all__ = ["Export", "Lost"]
