"""
Settling: what became of each branch, and of all of them together.

What lives here runs where the fan-out was asked for. What does not: what runs
where a step runs (`_branches`).
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextvars import copy_context
from functools import partial
from threading import TIMEOUT_MAX
from typing import Any

import attrs

from conversation_state._waiting import TaskWaiter, ThreadWaiter, Waiter, wake_all
from conversation_state.aggregator import Aggregator, Turn
from conversation_state.errors import BranchError, FanOutError
from conversation_state.parallel._branches import (
    Arrived,
    Branch,
    Outcome,
    Past,
    Sent,
    note,
    run,
    running,
    since,
)

__all__ = ["Failure", "FanOut", "Settling"]


@attrs.frozen
class Failure:
    """
    A step that came to no good end.

    Attributes:
        step: Its number, from 0 on.

        error: What it raised; a `TimeoutError` if time was up, a `BranchError`
            if it gave no state of its branch or was lost on the way.

        turn: What it had kept until then (`keep`); joined like any other.
    """

    step: int
    error: Exception
    turn: Turn


@attrs.frozen
class FanOut:
    """
    What came of a fan-out.

    Attributes:
        state: The state with what its branches added, in the order of the
            steps; its id and fork point are those of before.

        failures: The steps that failed, in order; empty if none did.
    """

    state: Aggregator
    failures: tuple[Failure, ...] = ()


class Settling:
    """
    The branches of one fan-out while they run.

    Futures report from any thread by leaving word in `_reports`; only who asked
    for the fan-out settles.
    """

    __slots__ = (
        "_base",
        "_errors",
        "_is_over",
        "_left",
        "_on_turn",
        "_outer",
        "_reports",
        "_state",
        "_waiters",
        "branches",
    )

    def __init__(
        self,
        state: Aggregator,
        steps: Iterable[Callable[[Aggregator], Any]],
        on_turn: Callable[[Turn], object] | None,
    ) -> None:
        past = Past(state)
        self.branches = [
            Branch(number, step, past, copy_context())
            for number, step in enumerate(steps)
        ]
        self._state = state
        # A fork that nothing is added to: what no turn holds anything of.
        self._base = state.fork()
        self._on_turn = on_turn
        # What `on_turn` raised.
        self._errors: list[Exception] = []
        self._is_over = False
        self._left = len(self.branches)
        self._reports: deque[tuple[Branch, Outcome]] = deque()
        self._waiters: deque[Waiter] = deque()
        # The step this fan-out is in, whose it is what branches have kept.
        self._outer = running()
        if self._outer is not None:
            self._outer.inner.append(self._so_far)

    def start(self, executor: Any) -> None:
        """
        Have all branches run by *executor*.
        """
        for branch in self.branches:
            try:
                future = branch.future = executor.submit(run, branch)
            except Exception as error:  # noqa: BLE001 - the branch's failure
                self._report(branch, self._lost(branch, error))
            else:
                future.add_done_callback(partial(self._done, branch))

    def take_over(self, deadline: float | None = None) -> None:
        """
        Run what the executor has not begun.

        In a branch this thread may be one that the executor waits for.
        """
        for branch in self.branches:
            future = branch.future
            if self._is_over or (deadline is not None and time.monotonic() > deadline):
                return

            branch.is_taken_over = True
            if future is not None and not future.cancelled() and future.cancel():
                outcome = branch.run()
                self._report(branch, outcome)
                if not isinstance(outcome.error, Exception | None):
                    return
            else:
                branch.is_taken_over = False

    def wait(self, deadline: float | None) -> None:
        """
        Settle all branches, or those that are done by *deadline*.
        """
        while self._settle_reported():
            left_s = -1.0
            if deadline is not None:
                left_s = min(deadline - time.monotonic(), TIMEOUT_MAX)
                if left_s <= 0:
                    return

            waiter = ThreadWaiter()
            waiter.enter(self._waiters)
            try:
                if not self._reports:
                    waiter.wait(left_s)
            finally:
                waiter.leave()

    async def await_(self) -> None:
        """
        The same in a task.
        """
        while self._settle_reported():
            waiter = TaskWaiter()
            waiter.enter(self._waiters)
            try:
                if not self._reports:
                    await waiter.wait()
            finally:
                waiter.leave()

    def settle(self, branch: Branch, outcome: Outcome) -> None:
        """
        Note what became of a branch, and tell.

        Raises what is no `Exception`: nobody waits for the others then.
        """
        if branch.outcome is not None:
            return

        turn, error = branch.outcome = outcome
        self._left -= 1
        self._tell(turn)
        if error is not None and not isinstance(error, Exception):
            raise error

    def give_up(self, why: Callable[[Branch], Exception]) -> None:
        """
        Settle what is left with what it has kept so far.

        What has not begun never will; what runs on is told of once more when
        it ends.
        """
        if not self._left:
            return

        self._is_over = True
        for branch in self.branches:
            if branch.future is not None:
                branch.future.cancel()

        # Some may have come back in this very moment.
        while self._reports:
            branch, (turn, error) = self._reports.popleft()
            if not isinstance(error, Exception | None):
                error = why(branch)  # one interrupt is enough; its turn counts

            self.settle(branch, Outcome(turn, error))

        for branch in self.branches:
            if branch.outcome is None:
                self.settle(branch, Outcome(self._turn_of(branch), why(branch)))

    def abandon(self, error: BaseException) -> None:
        """
        The same for a fan-out that ends with *error*.
        """
        self.give_up(lambda _: CancelledError())
        self._end(self._so_far())
        for raised in self._errors:
            note(error, f"on_turn raised {raised!r}")

    def result(self, on_error: str) -> FanOut:
        """
        What came of all of it.
        """
        state = self._so_far()
        self._end(state)
        failures = [
            Failure(branch.number, branch.outcome.error, branch.outcome.turn)
            for branch in self.branches
            if branch.outcome and isinstance(branch.outcome.error, Exception)
        ]
        if len(self._errors) > 1:
            raise ExceptionGroup("on_turn raised more than once", self._errors)
        if self._errors:
            raise self._errors[0]
        if failures and on_error == "raise":
            raise FanOutError(state, failures)

        return FanOut(state, tuple(failures))

    def _so_far(self) -> Aggregator:
        return self._state.join(*map(self._turn_of, self.branches))

    def _turn_of(self, branch: Branch) -> Turn:
        outcome, notes = branch.outcome, branch.notes
        if outcome is not None:
            return outcome.turn

        return since(self._base, self._base) if notes is None else notes.turn

    def _end(self, state: Aggregator) -> None:
        # A future knows who asked for it; so all goes at once, past and all.
        for branch in self.branches:
            branch.future = None

        if self._outer is not None:
            self._outer.add(state)
            self._outer.inner.remove(self._so_far)

    def _settle_reported(self) -> int:
        while self._reports:
            self.settle(*self._reports.popleft())

        return self._left

    def _tell(self, turn: Turn) -> None:
        if self._on_turn is not None:
            try:
                self._on_turn(turn)
            except Exception as error:  # noqa: BLE001 - raised in the end
                self._errors.append(error)

    def _report(self, branch: Branch, outcome: Outcome) -> None:
        self._reports.append((branch, outcome))
        wake_all(self._waiters)
        # Asked last: if it is over by now, perhaps nobody reads the report.
        if self._is_over and self._on_turn is not None:
            self._on_turn(outcome.turn)

    def _done(self, branch: Branch, future: Future[Any]) -> None:
        if future.cancelled() and (branch.is_taken_over or self._is_over):
            return

        try:
            outcome = self._brought(future.result())
        except BaseException as error:  # noqa: BLE001 - raised when it is settled
            outcome = self._lost(branch, error)

        self._report(branch, outcome)

    def _brought(self, sent: Any) -> Outcome:
        if not isinstance(sent, Sent | Arrived):
            raise TypeError(f"it gave {sent!r:.80} instead of what was called")

        turn, error = sent.outcome
        if turn._state is None:  # came from another process, without its past
            turn = Turn(
                turn._number, turn._parent, turn.entries, turn.ledger, self._base
            )

        return Outcome(turn, error)

    def _lost(self, branch: Branch, error: BaseException) -> Outcome:
        """
        What became of a branch that an executor did not run to its end.
        """
        nothing = since(self._base, self._base)
        if not isinstance(error, Exception):
            return Outcome(nothing, error)

        lost = BranchError(branch.number, branch.name, _why(branch, error))
        lost.__cause__ = error
        return Outcome(nothing, lost)


def _why(branch: Branch, error: Exception) -> str:
    if isinstance(error, CancelledError):
        return "was cancelled by its executor; nothing of it is known"

    if isinstance(error, BrokenExecutor):
        return (
            "was lost because a worker of its executor died; what it had kept there "
            "is gone. Run it again, in a new executor"
        )

    if isinstance(error, pickle.PicklingError | AttributeError | TypeError):
        try:
            pickle.dumps(branch.step)
        except Exception as why:  # noqa: BLE001 - whatever its own code raises
            return (
                f"can't be sent to another process ({_words(why)}). Give a function of "
                "a module's top level, or functools.partial of one, or run it in "
                "threads"
            )

    return f"was given up by its executor ({type(error).__name__}: {_words(error)})"


def _words(error: Exception) -> str:
    # Whoever fails here is not heard of, and waited for without end.
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever its own code raises
        return f"a {type(error).__name__} that can't be shown"
