"""
What a store should hold after any verbs: a plain dict of states, and the labels and
notes beside it.
"""

from __future__ import annotations

from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError
from conversation_state.store import ERASED, Store
from conversation_state.store.backends.memory import MemoryBackend

__all__ = ["StoreModel"]


class StoreModel(RuleBasedStateMachine):
    """
    Three stores over the same rows, as three processes have them, and a
    dict of all states that were ever saved under each name.

    One of the stores remembers nothing. The test of a backend overrides
    `opened`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._saved: dict[str, list[Aggregator]] = {}
        # The revision that each of them grew from.
        self._parents: dict[str, list[int | None]] = {}
        # Notes by name, and by name and revision.
        self._notes: dict[tuple[str, int | None], dict[str, Any]] = {}
        # The revisions that labels point to, by name and label, in the order in
        # which they were given.
        self._labels: dict[tuple[str, str], int] = {}
        self._erased: set[str] = set()
        self._stores = self.opened()

    def opened(self) -> list[Store]:
        """
        Three stores over the same rows. To be overridden.
        """
        backend = MemoryBackend()
        return [Store(backend), Store(backend), Store(backend, remembered=0)]

    def _is_same_state(self, state: Aggregator, loaded: Aggregator) -> bool:
        """
        Whether what was loaded is what was saved, with tombstones where
        something was erased.
        """
        stones = [
            ERASED in entry.message.metadata
            for entry in loaded.entries
            if entry.id in self._erased
        ]
        return self._make_comparable(state) == self._make_comparable(loaded) and all(
            stones
        )

    def _make_comparable(self, state: Aggregator) -> tuple[Any, ...]:
        """
        All properties of a state; of erased entries only the id.
        """
        erased = self._erased
        entries = [entry.id if entry.id in erased else entry for entry in state.entries]
        return entries, list(state.ledger), state._origin

    def _check_name(self, who: int, name: str) -> None:
        store, saved = self._stores[who], self._saved.get(name)
        if saved is None:
            try:
                store.load(name)
            except NotSavedError:
                return

            raise AssertionError(f"{name} is there, but was not saved")

        assert self._is_same_state(saved[-1], store.load(name)), (
            "another head was loaded"
        )
        assert store.latest(name).revision == len(saved), "another number"

    def _remember_saved(
        self, name: str, state: Aggregator, parent: int | None = None
    ) -> None:
        saved = self._saved.setdefault(name, [])
        # The same state once more is not a new revision.
        if not saved or self._make_comparable(saved[-1]) != self._make_comparable(
            state
        ):
            parents = self._parents.setdefault(name, [])
            parents.append(parent or self._find_parent(saved, state))
            saved.append(state)

    def _find_parent(self, saved: list[Aggregator], state: Aggregator) -> int | None:
        """
        The number of the saved state that another one grew from.
        """
        entries, _, origin = self._make_comparable(state)
        best, most = 0, -1
        for number in range(len(saved), 0, -1):
            there, _, its_origin = self._make_comparable(saved[number - 1])
            if there != entries[: len(there)]:
                continue

            if number == len(saved):
                return number

            if len(there) > most and (there or origin == its_origin):
                best, most = number, len(there)

        return best or None

    def _set_label(self, name: str, label: str, number: int) -> None:
        # A label that points there already keeps its position.
        if self._labels.get((name, label)) != number:
            self._labels.pop((name, label), None)
            self._labels[name, label] = number

    def _list_labels(self, name: str, number: int) -> tuple[str, ...]:
        return tuple(
            label
            for (its_name, label), its_number in self._labels.items()
            if (its_name, its_number) == (name, number)
        )

    def _set_notes(
        self, name: str, at: int | None, notes: dict[str, Any]
    ) -> dict[str, Any]:
        """
        The notes that there should be when *notes* are set.
        """
        there = self._notes.setdefault((name, at), {})
        there |= notes
        for key in [key for key, value in there.items() if value is None]:
            del there[key]

        return there
