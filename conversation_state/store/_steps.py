"""
Steps of pipelines that survive a crash: each is a label, and the state under it.

A step runs outside of transactions, since it may take minutes; what it made is
saved in one, which looks again whether another process was first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import attrs

from conversation_state._persistent import Log
from conversation_state._wording import format_count, shorten_repr
from conversation_state.aggregator import Aggregator, LedgerEntry
from conversation_state.errors import InvalidUsageError, NotSavedError, StoreError
from conversation_state.parallel import collect_progress
from conversation_state.store._load import load_at, load_newest
from conversation_state.store._save import check_kind, save_within
from conversation_state.store._transaction import (
    CachedBackend,
    RememberedHead,
    Transaction,
)
from conversation_state.store._values import (
    Head,
    RevisionFields,
    check_made,
    is_expected,
    label_key,
)
from conversation_state.usage import Usage


class _Start(NamedTuple):
    """
    What a step begins with: the state, and the head that it is of (0 if there is
    none); or what the step made earlier. A name that is deleted and saved again has
    another number.
    """

    state: Aggregator
    head: Head | int
    number: int


class _Done(NamedTuple):
    head: Head
    state: Aggregator


@attrs.frozen
class PipelineStep:
    """
    One step of a name, which begins with the newest state or with another revision's.
    It returns what is under its label, and the head of that.
    """

    _cache: CachedBackend
    _name: str
    _label: str
    _at: Head | None = None

    def run(
        self, function: Callable[[Aggregator], Aggregator]
    ) -> tuple[Head, Aggregator]:
        start = self._read_start()
        if isinstance(start, _Done):
            return start

        with collect_progress(start.state) as progress:
            try:
                made = function(start.state)
                self._check_made(made)
            except BaseException as error:
                self._save_usage(start, progress(), error)
                raise

        return self._save_made(start, made, progress())

    async def arun(
        self,
        function: Callable[[Aggregator], Awaitable[Aggregator]],
        run_in_thread: Callable[..., Awaitable[Any]],
    ) -> tuple[Head, Aggregator]:
        start: _Start | _Done = await run_in_thread(self._read_start)
        if isinstance(start, _Done):
            return start

        with collect_progress(start.state) as progress:
            try:
                awaitable = function(start.state)
                self._check_made(awaitable, is_async=True)
                made = await awaitable
                self._check_made(made)
            except GeneratorExit as error:
                # A coroutine that is being closed can't await anything.
                self._save_usage(start, progress(), error)
                raise
            except BaseException as error:
                # The error is in no variable, because its traceback refers to this
                # frame.
                await run_in_thread(
                    partial(self._save_usage, start, progress(), error),
                    is_shielded=True,
                )
                raise

        states = progress()
        # The save is shielded from cancellation, because the provider bills for the
        # response.
        saved: _Done = await run_in_thread(
            lambda: self._save_made(start, made, states), is_shielded=True
        )
        return saved

    def _read_start(self) -> _Start | _Done:
        with self._cache.read() as transaction:
            done = self._find_done(transaction)
            if done is not None:
                return done

            if self._at is not None:
                found: RememberedHead | None
                found = load_at(transaction, self._name, self._at)
            else:
                found = self._find_newest(transaction)

            if found is None:
                return _Start(Aggregator.new(), 0, 0)

            # Before the function is called, and pays for what can't be saved.
            check_kind(transaction, found.name, is_timeline=False)
            return _Start(found.state, found.head, found.name.number)

    def _find_done(self, transaction: Transaction) -> _Done | None:
        name = transaction.find_name(self._name)
        if name is None:
            return None

        key = label_key(name.number, self._label)
        if transaction.tables.get("labels", key) is None:
            return None

        done = load_at(transaction, self._name, self._label)
        return _Done(done.head, done.state)

    def _find_newest(self, transaction: Transaction) -> RememberedHead | None:
        is_there = transaction.find_name(self._name) is not None
        return load_newest(transaction, self._name) if is_there else None

    def _save_made(
        self, start: _Start, made: Aggregator, progress: Sequence[Aggregator]
    ) -> _Done:
        # What is under the label then. An InvalidUsageError is raised when all else is
        # saved.

        def save_first(transaction: Transaction) -> tuple[_Done, str]:
            done = self._find_done(transaction)
            newest = self._find_newest(transaction)
            self._check_not_deleted(start, newest, [made, *progress])
            head = 0 if newest is None else newest.head
            if done is not None and newest is not None:
                # Another process did the step meanwhile, and both responses are billed.
                state = _add_usage_of(newest.state, [made, *progress])
                save_within(transaction, self._name, state, head)
                return done, self._describe_conflicts(state, [made, *progress])

            state = _add_usage_of(_keep_recorded(start.state, made), progress)
            if newest is not None and not is_expected(newest.head, start.head):
                state = newest.state.join(state)

            head = save_within(
                transaction, self._name, state, head, RevisionFields(self._label)
            )
            conflicts = self._describe_conflicts(state, [made, *progress])
            return _Done(head, state), conflicts

        saved, conflicts = self._cache.write(save_first)
        if conflicts:
            raise InvalidUsageError(
                f"{conflicts}. All other usage is saved, and the step is done"
            )

        return saved

    def _save_usage(
        self, start: _Start, progress: Sequence[Aggregator], error: BaseException
    ) -> None:
        def save_ledger(transaction: Transaction) -> str:
            newest = self._find_newest(transaction)
            self._check_not_deleted(start, newest, progress)
            before = start.state if newest is None else newest.state
            state = _add_usage_of(before, progress)
            if state is not before:
                head = 0 if newest is None else newest.head
                save_within(transaction, self._name, state, head)

            return self._describe_conflicts(state, progress)

        if not progress:
            return

        try:
            if conflicts := self._cache.write(save_ledger):
                _add_notes(error, conflicts)
        except StoreError as failure:
            # The step's own error is what the caller looks for.
            _add_notes(
                *(error, f"the usage of the step was not saved: {failure}"),
                *getattr(failure, "__notes__", ()),
            )

    def _check_not_deleted(
        self, start: _Start, newest: RememberedHead | None, made: Sequence[Aggregator]
    ) -> None:
        # What the step began with is not brought back; a note has the step's usage.
        if start.head == 0 or (newest and newest.name.number == start.number):
            return

        before = {entry.id for entry in start.state.ledger}
        ledger = _add_usage_of(start.state, made).ledger
        usages = [entry.usage for entry in ledger if entry.id not in before]
        if newest is None:
            again, error = "", NotSavedError(self._cache.url, "name", self._name)
        else:
            again = " and saved again"
            error = NotSavedError(self._cache.url, "revision", str(start.head))

        _add_notes(
            error,
            f"the name was deleted{again} while its step {self._label!r} ran, so what "
            f"the step made was not saved; its {sum(usages, Usage())!r} in "
            f"{format_count(len(usages), 'ledger entry', 'ledger entries')} is in "
            "no ledger. Run the step again to do it with what the name has now",
        )
        raise error

    def _describe_conflicts(
        self, state: Aggregator, others: Sequence[Aggregator]
    ) -> str:
        """
        Which usages of *others* are not in the ledger of *state*, because it has
        another one under their key; "" if there are none.
        """
        conflicts = dict.fromkeys(
            f"the key {shorten_repr(entry.id)} with {entry.usage} for model "
            f"{shorten_repr(entry.model)}, but "
            f"the ledger has {known.usage} for model {shorten_repr(known.model)} under "
            "it, which is kept"
            for other in others
            for known, entry in _find_conflicts(state, other)
        )
        if not conflicts:
            return ""

        recorded = "; ".join(conflicts)
        return (
            f"step {self._label!r} of {self._name!r} recorded {recorded}. Give each "
            "usage a key of its own"
        )

    def _check_made(self, made: object, *, is_async: bool = False) -> None:
        what = f"the function of step {self._label!r} of {self._name!r}"
        check_made(made, what, verb="step(name, label, function)", is_async=is_async)


def _add_notes(error: BaseException, *notes: str) -> None:
    with suppress(Exception):  # of a class whose instances take none
        for note in notes:
            error.add_note(note)


def _add_usage_of(state: Aggregator, others: Sequence[Aggregator]) -> Aggregator:
    """A state with the ledgers of others, and none of their messages."""
    return state.join(*[other.rollback(0) for other in others])


def _find_conflicts(
    state: Aggregator, other: Aggregator
) -> list[tuple[LedgerEntry, LedgerEntry]]:
    """
    The ledger entries of *other* under whose key *state* has another usage, each
    behind the one that *state* has.
    """
    # Most ledgers continue one another; the part that they share need not be compared.
    parted = other.ledger.common_prefix(state.ledger)
    return [
        (known, entry)
        for entry in other.ledger.iterate(parted)
        if (known := state._ledger.find(entry.id)) is not None
        and (known.usage, known.model) != (entry.usage, entry.model)
    ]


def _keep_recorded(before: Aggregator, made: Aggregator) -> Aggregator:
    """*made* with all that is recorded in the ledger of *before*, as it is there."""
    recorded = {known.id: known for known, _ in _find_conflicts(before, made)}
    # No method of a state replaces a ledger entry, so the ledger is built again.
    if recorded:
        ledger = [recorded.get(entry.id, entry) for entry in made.ledger]
        made = Aggregator.rebuild(
            id=made.id,
            parent_id=made.parent_id,
            root_id=made.root_id,
            init_len=made.init_len,
            init_ledger_len=made.init_ledger_len,
            entries=made.entries,
            ledger=Log(ledger),
        )

    return _add_usage_of(made, [before])
