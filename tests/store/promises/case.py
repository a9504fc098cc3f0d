"""What the promises of stores are held against."""

import pytest

from conversation_state.store import Store
from conversation_state.testing.stores import RecordingBackend, StoreContract
from conversation_state.testing.stores._fixtures import (
    CONVERSATION,
    FOR_EXAMPLES,
    LARGE,
    append_turns,
    read_rows,
)

__all__ = [
    "CONVERSATION",
    "FOR_EXAMPLES",
    "LARGE",
    "StoreCase",
    "append_turns",
    "read_rows",
]


class StoreCase(StoreContract):
    """
    The contract of backends, and a store whose calls of its backend can be counted.
    """

    @pytest.fixture
    def calls(self):
        """The calls of the backend of `watched`."""
        return []

    @pytest.fixture
    def watched(self, store, calls):
        """The same store, with every call of its backend recorded."""
        return Store(RecordingBackend(store._core.backend, calls.append))
