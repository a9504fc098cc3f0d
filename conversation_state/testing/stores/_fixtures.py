"""
The fixtures of the contract: a store, and others over the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.store import Store
from conversation_state.store.backend import Backend
from conversation_state.testing.stores._recorded_calls import Call, RecordingBackend
from conversation_state.usage import Usage

__all__ = ["CONVERSATION", "LARGE", "StoreFixtures", "append_turns"]

CONVERSATION = Aggregator.new().add_user_prompt("When is the next train?")
LARGE = bytes(range(256)) * 40


def append_turns(state: Aggregator, count: int) -> list[Aggregator]:
    """
    The states after each of *count* more messages with a usage.
    """
    states = []
    for i in range(count):
        message = UserMessage(f"say {i}") if i % 2 else AssistantMessage(f"said {i}")
        state = state.add(message).add_usage(Usage(i, 1))
        states.append(state)

    return states


class StoreFixtures:
    """
    A backend, and the fixtures for stores over it.
    """

    is_kept = True

    def backend(self, folder: Path) -> Backend:
        """
        The backend that keeps its data in *folder*, which is empty at first.
        """
        raise NotImplementedError(
            f"define {type(self).__name__}.backend(folder), which returns the backend"
        )

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """
        An empty store.
        """
        with Store(self.backend(tmp_path)) as store:
            yield store

    @pytest.fixture
    def calls(self) -> list[Call]:
        """
        The calls of the backend of `watched`.
        """
        return []

    @pytest.fixture
    def watched(self, store: Store, calls: list[Call]) -> Store:
        """
        The same store, with every call of its backend recorded.
        """
        return Store(RecordingBackend(store._core.backend, calls.append))

    def other(self, store: Store, *, remembered: int = 100) -> Store:
        """
        Another store over the same rows, as another process has one.
        """
        return Store(store._core.backend, remembered=remembered)
