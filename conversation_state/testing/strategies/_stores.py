"""
What stores return besides states.
"""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state._persistent import FrozenMap, Log
from conversation_state.aggregator import Entry
from conversation_state.store import Collected, Damage, Head, Receipt, Window
from conversation_state.testing.strategies._states import entries
from conversation_state.testing.strategies._values import once, texts, uuids

__all__ = ["collected", "damages", "heads", "receipts", "windows"]

_COUNTS = st.integers(0, 2**32)
_NAMES = texts(min_size=1, max_size=8).filter(lambda name: "\0" not in name)


def _digest_bytes(size: int = 16) -> SearchStrategy[str]:
    return st.binary(min_size=size, max_size=size).map(bytes.hex)


def _saved_at() -> SearchStrategy[datetime]:
    # Whole milliseconds, as stores keep them.
    return st.integers(0, 2**42).map(lambda ms: datetime.fromtimestamp(ms / 1000, UTC))


@once
def heads() -> SearchStrategy[Head]:
    """
    Saved states of any name, with labels or without.

    Shrink to the first revision, without messages or labels, saved in 1970.
    """
    labels = st.lists(_NAMES, max_size=2, unique=True).map(tuple)
    return st.builds(
        Head,
        _NAMES,
        st.integers(1, 2**32 - 1),
        uuids(),
        _COUNTS,
        _COUNTS,
        _digest_bytes(),
        labels,
        _saved_at(),
        st.none() | st.integers(1, 2**32 - 2),
        st.dictionaries(texts(max_size=8), texts(max_size=8), max_size=2).map(
            FrozenMap
        ),
    )


@once
def windows() -> SearchStrategy[Window]:
    """
    The newest messages of saved states.

    Shrink to all of a state without any.
    """

    def window(head: Head, newest: list[Entry], start: int) -> Window:
        return Window(head._replace(length=start + len(newest)), start, Log(newest))

    newest = st.lists(entries(), max_size=3)
    return st.builds(window, heads(), newest, _COUNTS)


@once
def receipts() -> SearchStrategy[Receipt]:
    """
    Erasures of any entry, the first or once more.

    Shrink to one that found nothing left to do.
    """
    ids = texts(min_size=1, max_size=8)
    counts = (_COUNTS, _COUNTS)
    return st.builds(Receipt, ids, _NAMES, _digest_bytes(), _saved_at(), *counts)


@once
def collected() -> SearchStrategy[Collected]:
    """
    What a garbage collection deleted.

    Shrinks to nothing.
    """
    return st.builds(Collected, *[_COUNTS] * 6)


@once
def damages() -> SearchStrategy[Damage]:
    """
    What is not what it should be.

    Shrink to something about an entry without identity.
    """
    where = st.sampled_from(["entries", "ledger", "revisions", "blobs", "medium"])
    return st.builds(Damage, where, texts(max_size=8), texts(max_size=8))
