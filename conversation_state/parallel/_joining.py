"""
Joining branches: what each added, and which ledger entries conflict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import attrs

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator, LedgerEntry, Turn
from conversation_state.errors import InvalidUsageError

B = TypeVar("B")  # a branch, whose `str` is its name


def make_turn(
    fork: Aggregator,
    entries: Log[Any] | None = None,
    ledger: Log[LedgerEntry] | None = None,
) -> Turn:
    return Turn(
        fork._origin.number,
        fork._origin.parent,
        fork.entries[:0] if entries is None else entries,
        fork.ledger[:0] if ledger is None else ledger,
        fork,
    )


def collect_new(
    base: Log[Any], logs: Sequence[Log[Any]]
) -> tuple[Log[Any], list[tuple[Any, Any]]]:
    # The entries of *logs* that *base* does not have, by identity, each once and in
    # order; and pairs of different objects under one identity, the first of which is
    # the one in the result. O(entries since each log diverged from *base*, or from the
    # log before it).
    if len(logs) == 1 and logs[0].common_prefix(base) == len(base):
        return logs[0][len(base) :], []

    known: dict[str, Any] = {}
    since, previous = len(base), base
    new: list[Any] = []
    repeated: list[tuple[Any, Any]] = []
    for log in logs:
        diverged = log.common_prefix(base)
        if diverged < since:
            missing = islice(base.iterate(diverged), since - diverged)
            known.update((entry.id, entry) for entry in missing)
            since = diverged

        # Entries that this log shares with the previous one have been seen already.
        for entry in log.iterate(max(diverged, log.common_prefix(previous))):
            first = known.get(entry.id)
            if first is None:
                known[entry.id] = entry
                new.append(entry)
            elif first is not entry:
                repeated.append((first, entry))

        previous = log

    return Log(new), repeated


def is_conflict(recorded: LedgerEntry, entry: LedgerEntry) -> bool:
    # Whether two ledger entries of one identity can't both be right.
    return recorded.usage != entry.usage or recorded.model != entry.model


def describe_conflict(
    branch: str, recorded_by: str, recorded: LedgerEntry, entry: LedgerEntry
) -> str:
    return (
        f"{branch} recorded the key {shorten_repr(entry.id)} with {entry.usage} for "
        f"model {shorten_repr(entry.model)}, but in {recorded_by} it has "
        f"{recorded.usage} for model {shorten_repr(recorded.model)}, which is kept. "
        "Give each usage a key of its own"
    )


def join_turns(
    state: Aggregator, turns: Mapping[B, Turn]
) -> tuple[Aggregator, dict[B, InvalidUsageError]]:
    # *state* with the turn of each branch, and for each branch whose ledger can't be
    # joined as it is, why; its messages are joined all the same.
    # A join keeps the first usage of a key and raises nothing, so conflicts are looked
    # for here.
    conflicts = _find_conflicts(turns)
    try:
        return state.join(*turns.values()), conflicts
    except InvalidUsageError:
        pass  # the total is too large with one of them

    # One by one, so that only the branches whose usage has no room fail; their messages
    # are joined all the same.
    for branch, turn in turns.items():
        try:
            state = state.join(turn)
        except InvalidUsageError as error:
            problem = f"{branch} recorded more than a ledger can hold: {error}"
            conflicts.setdefault(branch, InvalidUsageError(problem))
            state = state.join(attrs.evolve(turn, ledger=turn.ledger[:0]))

    return state, conflicts


def _find_conflicts(turns: Mapping[B, Turn]) -> dict[B, InvalidUsageError]:
    conflicts: dict[B, InvalidUsageError] = {}
    recorded: dict[str, tuple[B, LedgerEntry]] = {}
    for branch, turn in turns.items():
        for entry in turn.ledger:
            first, other = recorded.setdefault(entry.id, (branch, entry))
            if other is not entry and is_conflict(other, entry):
                problem = describe_conflict(str(branch), str(first), other, entry)
                conflicts.setdefault(branch, InvalidUsageError(problem))

    return conflicts
