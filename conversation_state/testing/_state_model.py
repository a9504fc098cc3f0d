"""
What a state should be, as plain lists; part of `machines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import attrs

from conversation_state.aggregator import Aggregator
from conversation_state.messages import Message
from conversation_state.testing.laws import states_add_up
from conversation_state.usage import Usage

__all__ = ["StateModel"]

Recorded: TypeAlias = tuple[Usage, str, datetime | None]


@attrs.frozen
class StateModel:
    """
    A state, and everything it should hold.

    Attributes:
        state: The state.

        id: Its id.

        parent: Its parent's id, or None.

        root: The id of the state that the first of its forks was taken from.

        entries: Its messages, each after the identity of its append.

        ledger: Its usages, their models and times, by identity and in order.

        init_len: How many of *entries* it inherited.

        init_ledger_len: How many of *ledger* it inherited.
    """

    state: Aggregator
    id: UUID
    parent: UUID | None
    root: UUID
    entries: list[tuple[str, Message]] = attrs.field(factory=list)
    ledger: dict[str, Recorded] = attrs.field(factory=dict)
    init_len: int = 0
    init_ledger_len: int = 0

    def add(
        self,
        state: Aggregator,
        *,
        entries: Iterable[tuple[str, Message]] = (),
        ledger: Mapping[str, Recorded] | None = None,
    ) -> StateModel:
        """
        The model of *state*: this one, with those of *entries* and *ledger* that it
        lacks.
        """
        known = {entry[0] for entry in self.entries}
        return attrs.evolve(
            self,
            state=state,
            entries=[
                *self.entries,
                *[entry for entry in entries if entry[0] not in known],
            ],
            # The usage that was recorded first is kept, in its position.
            ledger=self.ledger | {**(ledger or {}), **self.ledger},
        )

    def added(self) -> StateModel:
        """
        The model of its turn: what was added since the fork.
        """
        return attrs.evolve(
            self,
            entries=self.entries[self.init_len :],
            ledger=dict([*self.ledger.items()][self.init_ledger_len :]),
        )

    def check(self) -> None:
        """
        The state is still equal to the lists.
        """
        state = self.state
        assert (state.id, state.parent_id) == (self.id, self.parent), "another state"
        assert state.root_id == self.root, "of another root"
        assert state.init_len == self.init_len, "forked elsewhere"
        assert state.init_ledger_len == self.init_ledger_len, "forked elsewhere"
        assert [tuple(entry) for entry in state.entries] == self.entries, "messages"
        ledger = [(entry.id, entry[1:]) for entry in state.ledger]
        assert ledger == [*self.ledger.items()], "another ledger"
        total = sum([usage for usage, *_ in self.ledger.values()], Usage())
        assert state.total_usage == total, f"{state.total_usage}, not {total}"
        states_add_up(state)

    def equals(self, other: StateModel) -> bool:
        """
        Whether the states should be equal.
        """
        # Compared as lists: dicts are equal in any order.
        return [*self.ledger.items()] == [*other.ledger.items()] and attrs.evolve(
            self, state=other.state
        ) == other
