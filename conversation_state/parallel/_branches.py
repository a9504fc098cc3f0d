"""
Branches: a step and the fork it runs on, here or in another process, what it added,
and the state that is joined of what all of them added.

Nothing here takes a lock: what several threads change are lists that only grow.
"""

from __future__ import annotations

import math
import pickle
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from inspect import isawaitable, iscoroutine
from itertools import islice
from typing import Any, NamedTuple

import attrs

from conversation_state._identity import new_entry_id
from conversation_state._persistent import Log
from conversation_state._wording import (
    describe_type,
    describe_value,
    shorten_repr,
    with_article,
)
from conversation_state.aggregator import Aggregator, LedgerEntry, Turn
from conversation_state.errors import BranchError, InvalidUsageError

# What a step has so far


@attrs.define(eq=False)
class BranchNotes:
    """What a running branch has noted so far. Thread-safe."""

    fork: Aggregator  # what it began with
    # For each fan-out that runs in it, what that has so far.
    inner: list[Callable[[], Aggregator]] = attrs.Factory(list)
    returned: Any = None  # by the step, once it has
    _saved: list[Aggregator] = attrs.Factory(list)

    def add_saved(self, state: Aggregator) -> None:
        if self.is_ours(state):
            self._saved.append(state)

    def list_saved(self) -> list[Aggregator]:
        # *inner* is read first: a fan-out that ends is added to the saved states before
        # it is removed from *inner*.
        inner = [so_far() for so_far in list(self.inner)]
        return [*self._saved, *filter(self.is_ours, inner)]

    def collect(self) -> tuple[Turn, list[tuple[LedgerEntry, LedgerEntry]]]:
        """
        What was noted, without the past, and what of it conflicts. The messages are
        those the step returned, or else those it saved. The ledger is what it returned
        and, behind that, what it saved.
        """
        saved, fork = self.list_saved(), self.fork
        returned = [*filter(self.is_ours, [self.returned])]
        states = [*returned, *saved]
        entries, _ = _collect_new(
            fork.entries, [each.entries for each in returned or saved]
        )
        ledger, repeated = _collect_new(fork.ledger, [each.ledger for each in states])
        conflicts = [pair for pair in repeated if _is_conflict(*pair)]
        origin = fork._origin
        turn = Turn(origin.number, origin.parent, entries, ledger, fork)
        return turn, conflicts

    def is_ours(self, state: Any) -> bool:
        # The id may be another one: a step may keep or return forks of its fork.
        return (
            isinstance(state, Aggregator)
            and state._origin.root == self.fork._origin.root
        )


# The notes of the branch whose step runs here: what it saves survives its failure.
running_notes: ContextVar[BranchNotes | None] = ContextVar(
    "conversation_state", default=None
)


def save_progress(state: Aggregator) -> Aggregator:
    """
    Save *state* as the progress of the running step; returns *state* itself.

    Its ledger entries are in the result, once, whether the step returns them,
    returns another state or fails. The messages in the result are those of the
    state that the step returns; if it fails or is cancelled, the saved ones. In a
    function of `Store.step`, the ledger is kept in the same way. Outside of a
    step, and with a state of another conversation, nothing is saved.

    Thread-safe; about 0.4 µs in a step, and 0.1 µs outside.

    Raises:
        TypeError: If *state* is not an `Aggregator`.

    >>> from conversation_state import Usage
    >>> def research(state):
    ...     state = save_progress(state.add_usage(Usage(800, 200)))
    ...     raise TimeoutError("no answer")
    >>> from conversation_state.parallel import fan_out
    >>> done = fan_out(Aggregator.new(), [research], on_error="keep")
    >>> done.state.total_usage.total_tokens
    1000
    """
    if not isinstance(state, Aggregator):
        raise TypeError(
            f"save_progress expected the Aggregator a step has so far, got "
            f"{describe_type(state)}"
        )

    notes = running_notes.get()
    if notes is not None:
        notes.add_saved(state)

    return state


@contextmanager
def collect_progress(state: Aggregator) -> Iterator[Callable[[], list[Aggregator]]]:
    """
    Collect what `save_progress` is given in this block; yields a function that
    returns the states so far.

    For code that calls a function of its caller's, as `fan_out` does: whatever
    happens, what these states have in their ledgers was used.

    Args:
        state: What the function is given. States of other conversations are not
            collected.
    """
    notes = BranchNotes(state)
    token = running_notes.set(notes)
    try:
        yield notes.list_saved
    finally:
        running_notes.reset(token)


# How it ended


class Outcome(NamedTuple):
    """
    How a branch ended.

    An error that comes from another process is sent as bytes next to its turn, so that
    one that can't be unpickled breaks nothing else.
    """

    turn: Turn  # what it added; if it failed, what it had saved
    error: BaseException | None = None  # None if it returned a state
    step: tuple[int, str] | None = (
        None  # its number and name, if it failed where it ran
    )

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
        # No bytes, of an error that could not be pickled, are an `EOFError`.
        error = pickle.loads(pickled)  # noqa: S301 - as trusted as the pickle it is in
    except Exception:  # noqa: BLE001 - any of the error's class: reported as text
        problem = f"raised {with_article(kind)} that can't be pickled:\n{text}"
        error = BranchError(number, name, problem)
    else:
        add_note(error, f"\nwhere step {number} ({name}) ran:\n{text}")

    return Outcome(turn, error)


def add_note(error: BaseException, text: str) -> None:
    """Add a note to *error*, or nothing if it can't be changed."""
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

        if len(error.exceptions) == 1:
            return find_interrupt(error.exceptions[0])

    return error


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


# Where it runs


@attrs.define(eq=False)
class Past:
    """The state that all branches begin with: pickled once for all of them."""

    state: Aggregator
    key: str = attrs.Factory(new_entry_id)  # the fan-out's, also in other processes
    _pickled: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pickled is None:
            self._pickled = pickle.dumps(self.state, pickle.HIGHEST_PROTOCOL)

        return load_past, (self._pickled, self.key)


def load_past(pickled: bytes, key: str) -> Past:
    state = pickle.loads(pickled)  # noqa: S301 - as trusted as the pickle it is in
    return Past(state, key)


@attrs.define(eq=False)
class ForkedStep:
    """
    A step, and the fork it runs on.

    In another process there is a copy that has the step and the past only.
    """

    number: int  # among the steps
    step: Callable[[Aggregator], Any]
    past: Past
    # Called with its outcome where it ends in this process.
    report: Callable[[ForkedStep, Outcome], None] | None = None
    notes: BranchNotes | None = None  # None if it has not begun, or not here
    # How it ended, and before that perhaps what its fan-out took for its end: the first
    # one counts. A list, because what two threads append is in one order.
    outcomes: list[Outcome] = attrs.Factory(list)
    _context: Context = attrs.Factory(copy_context)
    # Emptied by what runs it, or ends it before it began: a list's `pop` is atomic.
    _unclaimed: list[None] = attrs.Factory(lambda: [None])

    def __reduce__(self) -> tuple[Any, ...]:
        return ForkedStep, (self.number, self.step, self.past)

    def __dask_tokenize__(self) -> str:
        # Dask takes calls with equal arguments for one; two fan-outs are two.
        return f"{self.past.key} {self.number}"

    def __str__(self) -> str:
        return f"step {self.number} ({self.name})"

    @property
    def name(self) -> str:
        step: Any = self.step
        while isinstance(step, partial):
            step = step.func

        return str(getattr(step, "__qualname__", type(step).__qualname__))

    @property
    def turn(self) -> Turn:
        """What it has added so far."""
        return (self.outcomes or [self.conclude(None)])[0].turn

    def claim(self) -> bool:
        """Whether the caller runs this branch, or ends it; nothing else does then."""
        try:
            self._unclaimed.pop()
        except IndexError:
            return False

        return True

    def run(self) -> Outcome:
        return self._context.run(self._run_step)

    def _run_step(self) -> Outcome:
        notes = self.notes = BranchNotes(self.past.state.fork())
        token = running_notes.set(notes)
        try:
            notes.returned = self.step(notes.fork)
            self._check_returned(notes.returned)
            return self.conclude(None)
        except BaseException as error:  # noqa: BLE001 - the branch's outcome
            return self.conclude(_shorten_traceback(error))
        finally:
            running_notes.reset(token)

    async def arun(self, scope: Any) -> Outcome:
        """
        Await the step here. Raises a cancellation from outside, to which *scope*
        belongs, and not that of something the step waited for.
        """
        notes = self.notes = BranchNotes(self.past.state.fork())
        token = running_notes.set(notes)
        try:
            notes.returned = await self._check_awaitable(self.step(notes.fork))
            self._check_returned(notes.returned)
            return self.conclude(None)
        except BaseException as error:  # noqa: BLE001 - the branch's outcome
            return self.conclude(self._pass_cancellation(error, scope))
        finally:
            running_notes.reset(token)

    def _pass_cancellation(self, error: BaseException, scope: Any) -> BaseException:
        from anyio import (  # noqa: PLC0415 - slow to import
            current_effective_deadline,
            get_cancelled_exc_class,
        )

        cancelled = get_cancelled_exc_class()
        # The deadline in a scope that was cancelled is -inf.
        if scope.cancel_called or current_effective_deadline() == -math.inf:
            if isinstance(error, cancelled):
                raise error
            if isinstance(error, BaseExceptionGroup):  # trio's nurseries
                outside = error.subgroup(cancelled)
                if outside and not error.subgroup((KeyboardInterrupt, SystemExit)):
                    raise outside from error

        if not isinstance(error, cancelled):
            return _shorten_traceback(error)

        failure = self.make_error("was cancelled by something it waited for")
        failure.__cause__ = error
        return failure

    def conclude(self, error: BaseException | None) -> Outcome:
        """
        The end of this branch with what it has noted, if it ends with *error*. One key
        with two usages is a failure, too.
        """
        if self.notes is None:
            return Outcome(self.past.state.fork().turn, error)

        turn, conflicts = self.notes.collect()
        for recorded, entry in conflicts:
            is_past = any(recorded is each for each in self.notes.fork.ledger)
            first = "the state it was given" if is_past else "the same step"
            problem = _describe_conflict(str(self), first, recorded, entry)
            if error is None:
                error = InvalidUsageError(problem)
            else:
                add_note(error, problem)

        step = None if error is None else (self.number, self.name)
        return Outcome(turn, error, step)

    def _check_awaitable(self, given: Any) -> Awaitable[Any]:
        if isawaitable(given):
            return given

        raise self.make_error(
            f"gave {describe_type(given)} where afan_out awaits; make it an async "
            "function, or run plain ones with executor="
        )

    def _check_returned(self, returned: Any) -> None:
        if isinstance(returned, Aggregator):
            if returned._origin.root == self.past.state._origin.root:
                return

            raise self.make_error(
                f"returned a state of another conversation ({returned!r}); return "
                "what grew out of the state it was given"
            )

        if returned is None:
            raise self.make_error("returned nothing; let it return the state it made")

        if iscoroutine(returned):
            returned.close()  # else Python warns that it was never awaited
            raise self.make_error(
                "is an async function; run it with afan_out, without executor"
            )

        raise self.make_error(
            f"returned {describe_value(returned)}; let it "
            "return the state it made of the one it was given, not a part or a view "
            "of it"
        )

    def make_error(self, problem: str) -> BranchError:
        return BranchError(self.number, self.name, problem)

    def make_loss(self, error: BaseException) -> BaseException:
        """What is known if its result never comes, because of *error*."""
        if not isinstance(error, Exception):
            return error

        # The `repr` of an error, unlike its `str`, never fails.
        reasons = [f": {reason}" for kind, reason in _LOSSES if isinstance(error, kind)]
        lost = self.make_error(f"was lost with {shorten_repr(error)}{''.join(reasons)}")
        lost.__cause__ = error
        return lost


def _shorten_traceback(error: BaseException) -> BaseException:
    # Our own frame is removed from the traceback: it would keep the branch alive, and
    # shows nothing of the step.
    trace = error.__traceback__
    return error.with_traceback(trace.tb_next if trace else None)


def run_branch(branch: ForkedStep) -> Outcome | None:
    """What executors are given. None if something else ran the branch or ended it."""
    report = branch.report
    if not branch.claim():
        return None

    outcome = branch.run()
    if report is not None:
        report(branch, outcome)

    return outcome


# What it added


def _collect_new(
    base: Log[Any], logs: Sequence[Log[Any]]
) -> tuple[Log[Any], list[tuple[Any, Any]]]:
    """
    The entries of *logs* that *base* does not have, by identity, each once and in
    order; and pairs of different objects under one identity, the first of which is the
    one in the result. O(entries since each log diverged from *base*, or from the log
    before it).
    """
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


def _is_conflict(recorded: LedgerEntry, entry: LedgerEntry) -> bool:
    # Whether two ledger entries of one identity can't both be right.
    return recorded.usage != entry.usage or recorded.model != entry.model


def _describe_conflict(
    branch: str, recorded_by: str, recorded: LedgerEntry, entry: LedgerEntry
) -> str:
    return (
        f"{branch} recorded the key {shorten_repr(entry.id)} with {entry.usage} for "
        f"model {shorten_repr(entry.model)}, but in {recorded_by} it has "
        f"{recorded.usage} for model {shorten_repr(recorded.model)}, which is kept. "
        "Give each usage a key of its own"
    )


def join_branches(
    state: Aggregator, branches: Sequence[ForkedStep]
) -> tuple[Aggregator, dict[ForkedStep, InvalidUsageError]]:
    """
    *state* with what each branch added, and for each branch whose ledger can't be
    joined as it is, why; its messages are joined all the same.
    """
    turns = [branch.turn for branch in branches]
    problems: dict[ForkedStep, str] = {}
    # A join keeps the first usage of a key, and raises nothing.
    recorded: dict[str, tuple[ForkedStep, LedgerEntry]] = {}
    for branch, turn in zip(branches, turns, strict=True):
        for entry in turn.ledger:
            first, other = recorded.setdefault(entry.id, (branch, entry))
            if other is not entry and _is_conflict(other, entry):
                problem = _describe_conflict(str(branch), str(first), other, entry)
                problems.setdefault(branch, problem)

    try:
        state = state.join(*turns)
    except InvalidUsageError:  # the total is too large with one of them
        for branch, turn in zip(branches, turns, strict=True):
            try:
                state = state.join(turn)
            except InvalidUsageError as error:
                problem = f"{branch} recorded more than a ledger can hold: {error}"
                problems.setdefault(branch, problem)
                state = state.join(attrs.evolve(turn, ledger=turn.ledger[:0]))

    return state, {branch: InvalidUsageError(problems[branch]) for branch in problems}
