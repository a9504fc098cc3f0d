"""
What is tested: a store, and others over the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.store import Store
from conversation_state.store.backend import Backend
from conversation_state.testing.stores._watched import Call, Watched
from conversation_state.usage import Usage

__all__ = ["LARGE", "TALK", "Subject", "grown"]

TALK = Aggregator.new().add_user_prompt("When is the next train?")
LARGE = bytes(range(256)) * 40


def grown(state: Aggregator, count: int) -> list[Aggregator]:
    """
    What *state* grows into, a message and a usage at a time.
    """
    states = []
    for i in range(count):
        said = UserMessage(f"say {i}") if i % 2 else AssistantMessage(f"said {i}")
        state = state.add(said).add_usage(Usage(i, 1))
        states.append(state)

    return states


class Subject:
    """
    A backend, and the stores that tests are given over it.
    """

    is_kept = True

    def backend(self, folder: Path) -> Backend:
        """
        The backend of what is kept in *folder*, which is empty at first.
        """
        msg = f"say in {type(self).__name__}.backend(folder) which backend to test"
        raise NotImplementedError(msg)

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
        What the backend of `watched` was asked.
        """
        return []

    @pytest.fixture
    def watched(self, store: Store, calls: list[Call]) -> Store:
        """
        The same store, in which every call is seen.
        """
        return Store(Watched(store._core.backend, calls.append))

    def other(self, store: Store, *, remembered: int = 100) -> Store:
        """
        Another store over the same rows, as another process has one.
        """
        return Store(store._core.backend, remembered=remembered)
