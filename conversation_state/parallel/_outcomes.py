"""
Outcomes: how branches ended, what each added, and the state that is joined of them.

An error that comes from another process is sent as bytes next to its turn, so that one
that can't be unpickled breaks nothing else.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import attrs

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr, with_article
from conversation_state.aggregator import Aggregator, LedgerEntry, Turn
from conversation_state.errors import BranchError, InvalidUsageError

B = TypeVar("B")  # a branch, whose `str` is its name


class Outcome(NamedTuple):
    """
    How a branch ended.

    Attributes:
        turn: What it added; if it failed, what it had kept.

        error: What it raised; None if it returned a state.

        step: The number and the name of the step, if it failed where it ran.
    """

    turn: Turn
    error: BaseException | None = None
    step: tuple[int, str] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        error = self.error
        if error is None or self.step is None:
            return Outcome, tuple(self)

        try:
            pickled = pickle.dumps(error)
        except Exception:  # noqa: BLE001 - any of __reduce__: sent as text
            pickled = b""

        text = "".join(traceback.format_exception(error))
        facts = *self.step, type(error).__name__, text
        return _unpickle_outcome, (self.turn, pickled, facts)


def _unpickle_outcome(
    turn: Turn, pickled: bytes, facts: tuple[int, str, str, str]
) -> Outcome:
    number, name, kind, text = facts
    try:
        # An error that could not be pickled has no bytes, which raises an `EOFError`
        # here.
        error = pickle.loads(pickled)  # noqa: S301 - as trusted as the pickle it is in
    except Exception:  # noqa: BLE001 - any of the error's class: reported as text
        problem = f"raised {with_article(kind)} that can't be pickled:\n{text}"
        error = BranchError(number, name, problem)
    else:
        add_note(error, f"\nwhere step {number} ({name}) ran:\n{text}")

    return Outcome(turn, error)


def add_note(error: BaseException, text: str) -> None:
    # Add a note to *error*, or nothing if it can't be changed.
    with suppress(Exception):
        error.add_note(text)


def find_interrupt(error: BaseException | None) -> BaseException | None:
    """
    The interrupt that *error* is, or that a group contains, as trio's nurseries
    raise it; any other error that is not an `Exception`, itself; else None.
    """
    if error is None or isinstance(error, Exception):
        return None

    if isinstance(error, BaseExceptionGroup):
        for kind in (KeyboardInterrupt, SystemExit):
            found: BaseException | None = error.subgroup(kind)
            while isinstance(found, BaseExceptionGroup):
                found = found.exceptions[0]
            if found is not None:
                return found

    return error


def raise_interrupt(error: BaseException | None) -> None:
    found = find_interrupt(error)
    if found is error and found is not None:
        raise found
    if found is not None:
        raise found from error


# What is known of a branch whose result never came, by the error its future has.
_LOSSES = (
    (CancelledError, "its executor cancelled it; nothing of it is known"),
    (
        BrokenExecutor,
        "a worker of its executor died, with what was saved there; run it again",
    ),
    (
        (pickle.PicklingError, AttributeError, TypeError),
        "to another process, send a function of a module's top level, or a partial",
    ),
)


def describe_loss(error: Exception) -> str:
    # The `repr` of an error, unlike its `str`, never fails.
    reasons = [f": {reason}" for kind, reason in _LOSSES if isinstance(error, kind)]
    return f"was lost with {shorten_repr(error)}{''.join(reasons)}"


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
