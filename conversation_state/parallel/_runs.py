"""
Runs: how each branch ended, and the result of all of them together.

What lives here runs where the fan-out was called. What does not: what runs
where a step runs (`_branches`), and what is sent between the two (`_outcomes`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import TIMEOUT_MAX, current_thread, main_thread
from typing import Any

import attrs

from conversation_state._persistent import final
from conversation_state._waiting import (
    TaskWaiter,
    ThreadWaiter,
    Waiter,
    call_shielded,
    in_worker,
    wake_all,
)
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator, Turn
from conversation_state.errors import FanOutError, InvalidUsageError
from conversation_state.parallel._branches import (
    KEY,
    NO_RESULT,
    Assignment,
    CallResult,
    Past,
    StepBranch,
    run_assignment,
    running_notes,
)
from conversation_state.parallel._outcomes import (
    Outcome,
    add_note,
    describe_loss,
    find_interrupt,
    join_turns,
    make_turn,
    raise_interrupt,
)

# How many threads a fan-out has of its own.
_MAX_THREADS = 32


@final
@attrs.frozen
class Failure:
    """
    A step that failed.

    Attributes:
        step: Its number, from 0 on.

        error: What it raised; a `TimeoutError` if time was up, a `BranchError`
            if it returned no state of its branch or was lost on the way, an
            `InvalidUsageError` if its ledger can't be joined: a key that was
            recorded with another usage before, or too large a total.

        turn: What it had saved until then (`save_progress`), or all it added if
            it returned a state; joined like any other.
    """

    step: int
    error: Exception
    turn: Turn


@final
@attrs.frozen
class FanOut:
    """
    The result of a fan-out.

    Attributes:
        state: The state with what its branches added, in the order of the
            steps; its id and fork point are those of before.

        failures: The steps that failed, in order; empty if none did.
    """

    state: Aggregator
    failures: tuple[Failure, ...] = ()


class FanOutRun:
    """
    The branches of one fan-out while they run.

    A branch is ended and reported by what runs it, in any thread, and settled by
    the thread or task that called. No lock is taken here, and all that an interrupt
    may cut short is done again in `abandon`, so that the turn of every branch that
    ended reaches *on_turn*, possibly twice.
    """

    def __init__(
        self,
        state: Aggregator,
        steps: Iterable[Callable[[Aggregator], Any]],
        on_turn: Callable[[Turn], object] | None,
    ) -> None:
        past = Past(state)
        self.branches = [
            StepBranch(number, step, past, copy_context())
            for number, step in enumerate(steps)
        ]
        self._state = state
        # A fork to which nothing is added, for the empty turns of branches without a
        # result.
        self._base = state.fork()
        self._on_turn = on_turn
        # What `on_turn` raised.
        self._errors: list[Exception] = []
        self._is_over = False
        self._left = len(self.branches)
        self._reports: deque[StepBranch] = deque()
        self._waiters: deque[Waiter] = deque()
        # The step this fan-out is in, which keeps what branches have kept.
        self._outer = running_notes()
        if self._outer is not None:
            self._outer.inner.append(self._join_so_far)

    def start(self, executor: Any) -> None:
        if executor is None:
            self._start_threads()
        elif isinstance(executor, ThreadPoolExecutor):
            call_shielded(partial(self._submit_all, executor))
        else:
            # Not in a thread: a pool of processes forks here.
            self._submit_all(executor)

    def _start_threads(self) -> None:
        # Each thread runs one branch after another, so that as many as can be had do
        # all. They are daemons: a step that never ends does not keep the program from
        # ending.
        waiting = deque(self.branches)

        def run_branches() -> None:
            with suppress(IndexError):
                while True:
                    self.execute(waiting.popleft())

        for number in range(min(_MAX_THREADS, len(waiting))):
            try:
                in_worker(run_branches)
            except RuntimeError as error:  # no more threads can be started
                if not number:
                    for branch in self.branches:
                        lost = self._make_lost_outcome(branch, error)
                        self._report_outcome(branch, lost)

                return

    def _submit_all(self, executor: Any) -> None:
        in_threads = isinstance(executor, ThreadPoolExecutor)
        for branch in self.branches:
            if self._is_over:
                return

            submit: Any
            if in_threads:
                submit = partial(executor.submit, self.execute, branch)
            else:
                assignment = Assignment(branch, self.execute)
                submit = partial(executor.submit, run_assignment, assignment)

            branch.submitted = CallResult(submit)
            try:
                future = branch.future = branch.submitted[KEY]
            except Exception as error:  # noqa: BLE001 - the executor's: a failure
                self._report_outcome(branch, self._make_lost_outcome(branch, error))
                continue

            # An executor that runs the call at once, in this thread, may have ended it
            # by now.
            future.add_done_callback(partial(self._receive_result, branch))
            branch.is_watched = True
            branch.submitted = NO_RESULT
            # An interrupt of a step that ran at once ends the fan-out.
            if branch.notes and branch.ended and find_interrupt(branch.ended.error):
                return

    def execute(self, branch: StepBranch) -> Outcome:
        # Run a branch in this process and report its end. If the fan-out is over it
        # does not begin.
        if self._is_over:
            return Outcome(make_turn(self._base), CancelledError())

        outcome = branch.run()
        self._report_outcome(branch, outcome)
        return outcome

    def take_over(self, deadline: float | None = None) -> None:
        # Run the branches that the executor has not begun. A fan-out in a branch may
        # wait in a thread of the same executor, which then has one thread less. The
        # main thread is not one of them, and a worker runs the branches in its place:
        # an interrupt must not come within a future's lock.
        if current_thread() is main_thread():
            in_worker(partial(self._take_over, deadline))
        else:
            self._take_over(deadline)

    def _take_over(self, deadline: float | None) -> None:
        for branch in self.branches:
            future = branch.future
            if self._is_over or (deadline is not None and time.monotonic() > deadline):
                return

            # This is set first: to cancel a future calls `_receive_result`, which would
            # report the branch as cancelled.
            branch.is_taken_over = True
            if future is not None and not future.cancelled() and future.cancel():
                if find_interrupt(self.execute(branch).error):
                    return
            else:
                branch.is_taken_over = False

    def wait(self, deadline: float | None) -> None:
        while self._settle_reported():
            left_s = -1.0
            if deadline is not None:
                # A lock refuses a longer timeout.
                left_s = min(deadline - time.monotonic(), TIMEOUT_MAX)
                if left_s <= 0:
                    return

            waiter = ThreadWaiter()
            waiter.enter(self._waiters)
            try:
                # A report before this found no waiter to wake.
                if not self._reports:
                    waiter.wait(left_s)
            finally:
                waiter.leave()

    async def await_(self) -> None:
        while self._settle_reported():
            waiter = TaskWaiter()
            waiter.enter(self._waiters)
            try:
                if not self._reports:
                    await waiter.wait()
            finally:
                waiter.leave()

    def settle(self, branch: StepBranch, outcome: Outcome) -> None:
        # Take *outcome* as the end of a branch, and call *on_turn*. Raises an error
        # that is not an `Exception`, without waiting for other branches.
        if branch.is_settled:
            return

        branch.outcome = outcome
        if self._on_turn is not None:
            try:
                self._on_turn(outcome.turn)
            except Exception as error:  # noqa: BLE001 - on_turn's: raised at the end
                self._errors.append(error)

        # The branch is marked last, so that a branch whose settling is interrupted is
        # settled again.
        branch.is_settled = True
        self._left -= 1
        if outcome.error is not None:
            raise_interrupt(outcome.error)

    def give_up(self, make_error: Callable[[StepBranch], Exception]) -> None:
        # Settle each branch that has not ended, with what it has kept so far. A branch
        # that has not begun never begins; one that runs on is reported once more when
        # it ends.
        if self._left:
            self._cancel_all()
            for branch in self.branches:
                self.settle(branch, self._get_outcome(branch, make_error))

    def abandon(self, error: BaseException) -> None:
        self._rewatch_futures()
        self._cancel_all()
        interrupts: list[BaseException] = []
        for branch in self.branches:
            try:
                self.settle(
                    branch, self._get_outcome(branch, lambda _: CancelledError())
                )
            except BaseException as raised:  # noqa: BLE001 - on_turn's: added as a note
                if not branch.is_settled:  # so it is on_turn that raised it
                    interrupts.append(raised)

        self._release_futures(self._join_so_far())
        for each in (*self._errors, *interrupts):
            add_note(error, f"on_turn raised {shorten_repr(each)}")

    def result(self, on_error: str) -> FanOut:
        state, conflicts = self._join_all()
        self._release_futures(state)
        failures = []
        for branch in self.branches:
            error = branch.outcome.error if branch.outcome else None
            conflict = conflicts.get(branch)
            if error is None:
                error = conflict
            elif conflict is not None:
                add_note(error, str(conflict))

            if branch.outcome and isinstance(error, Exception):
                failures.append(Failure(branch.number, error, branch.outcome.turn))

        raised = [failure.error for failure in failures if on_error == "raise"]
        if raised or self._errors:
            raise FanOutError(state, failures, [*raised, *self._errors])

        return FanOut(state, tuple(failures))

    def _join_all(self) -> tuple[Aggregator, dict[StepBranch, InvalidUsageError]]:
        turns = {branch: self._get_turn(branch) for branch in self.branches}
        return join_turns(self._state, turns)

    def _join_so_far(self) -> Aggregator:
        return self._join_all()[0]

    def _get_turn(self, branch: StepBranch) -> Turn:
        outcome = branch.outcome or branch.ended
        if outcome is not None:
            return outcome.turn

        notes = branch.notes
        return make_turn(self._base) if notes is None else notes.collect()[0]

    def _get_outcome(
        self, branch: StepBranch, make_error: Callable[[StepBranch], Exception]
    ) -> Outcome:
        return branch.outcome or branch.ended or branch.conclude(make_error(branch))

    def _cancel_all(self) -> None:
        self._is_over = True
        futures = [branch.future for branch in self.branches if branch.future]
        if futures:
            call_shielded(lambda: [future.cancel() for future in futures])

    def _rewatch_futures(self) -> None:
        # Watch each future that was submitted and, because of an interrupt, not
        # watched. The interrupt may have left the future locked for good, so another
        # thread watches it, and is waited for a second at most.
        for branch in self.branches:
            future = branch.future or branch.submitted.get(KEY)
            if future is None or branch.is_watched:
                continue

            waiter = ThreadWaiter()
            watch = partial(self._watch_future, branch, future, waiter)
            branch.future = None
            with suppress(RuntimeError):  # no more threads can be started
                in_worker(watch)
                waiter.wait(1)

    def _watch_future(
        self, branch: StepBranch, future: Future[Any], waiter: Waiter
    ) -> None:
        future.add_done_callback(partial(self._receive_result, branch))
        branch.future = future
        waiter.wake()

    def _release_futures(self, state: Aggregator) -> None:
        # A future refers to its caller through its callbacks, so all futures are
        # released together with the past.
        for branch in self.branches:
            branch.future = None
            branch.submitted = NO_RESULT

        if self._outer is not None:
            self._outer.add(state)
            self._outer.inner.remove(self._join_so_far)

    def _settle_reported(self) -> int:
        while self._reports:
            branch = self._reports.popleft()
            if branch.ended is not None:
                self.settle(branch, branch.ended)

        return self._left

    def _report_outcome(self, branch: StepBranch, outcome: Outcome) -> None:
        # The caller reads the end of a branch as soon as it finds the report.
        branch.ended = outcome
        self._reports.append(branch)
        # Without *on_turn* only an interrupt and the last report are urgent.
        if (
            self._on_turn is not None
            or outcome.error is not None
            or len(self._reports) >= self._left
        ):
            wake_all(self._waiters)

        # The end is checked last: if the fan-out has ended by now, no one may read
        # further reports.
        if self._is_over and self._on_turn is not None:
            try:
                self._on_turn(outcome.turn)
            except Exception as error:  # noqa: BLE001 - on_turn's: printed, as in a thread
                facts = type(error), error, error.__traceback__, current_thread()
                threading.excepthook(threading.ExceptHookArgs(facts))

    def _receive_result(self, branch: StepBranch, future: Future[Any]) -> None:
        # Report the result of a future, unless the branch has reported it itself.
        if branch.ended is not None:
            return

        error: BaseException | None
        if not future.cancelled():
            error = future.exception()
        elif branch.is_taken_over or self._is_over:
            return
        else:
            error = CancelledError()

        if error is None:
            try:
                outcome = self._unpack_result(future.result())
            except Exception as odd:  # noqa: BLE001 - the executor's: a failure
                outcome = self._make_lost_outcome(branch, odd)
        else:
            outcome = self._make_lost_outcome(branch, error)

        self._report_outcome(branch, outcome)

    def _unpack_result(self, sent: Any) -> Outcome:
        if not isinstance(sent, Outcome):
            raise TypeError(f"it gave {shorten_repr(sent)} instead of what was called")

        if sent.turn._state is None:  # came from another process, without its past
            return sent._replace(turn=attrs.evolve(sent.turn, state=self._base))

        return sent

    def _make_lost_outcome(self, branch: StepBranch, error: BaseException) -> Outcome:
        nothing = make_turn(self._base)
        if not isinstance(error, Exception):
            return Outcome(nothing, error)

        lost = branch.make_error(describe_loss(branch.step, error))
        lost.__cause__ = error
        return Outcome(nothing, lost)
