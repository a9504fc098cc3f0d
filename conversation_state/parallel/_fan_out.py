"""Fanning out: what callers call, and the branches of one call while they run."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Literal, overload

import attrs

from conversation_state._persistent import check_list, final
from conversation_state._waiting import TaskEvent
from conversation_state._wording import check_function, describe_type, shorten_repr
from conversation_state.aggregator import Aggregator, Turn
from conversation_state.errors import FanOutError
from conversation_state.parallel._branches import (
    ForkedStep,
    Outcome,
    Past,
    add_note,
    find_interrupt,
    join_branches,
    run_branch,
    running_notes,
)

# How many threads a fan-out has of its own.
_MAX_THREADS = 32
_LOGGER = logging.getLogger("conversation_state.parallel")


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


def fan_out(
    state: Aggregator,
    steps: Iterable[Callable[[Aggregator], Aggregator]],
    *,
    executor: Executor | None = None,
    on_error: Literal["raise", "keep"] = "raise",
    on_turn: Callable[[Turn], object] | None = None,
    timeout_s: float | None = None,
) -> FanOut:
    """
    Run all *steps* at once, each on a fork of *state*, and join what they added.

    What they added is joined in the order of the steps, whichever finished
    first. A step that fails takes nothing from the others, and what it had saved
    until then (`save_progress`) is joined like the rest. The ledger entries that
    a step saved are recorded once, whatever the step returns.

    One key that two steps recorded with different usages is a failure of the
    later one, whose turn has everything it added; in the state the first usage
    stands. So is a ledger whose total gets over 2**63 - 1; none of it is in the state.

    Only what a step added comes back; *state* is pickled once for executors
    that pickle. In threads, context variables are those of the caller. A
    fan-out in a step of another one, of the same `ThreadPoolExecutor` too,
    runs itself what has not begun.

    Args:
        state: What each step gets a fork of.
        steps: Functions from a state to what it has grown into.
        executor: What runs them: any of `concurrent.futures`, a `DaskExecutor`, a
            `RayExecutor`, or one that is used alike. None: up to 32 threads of this
            fan-out's own; a fan-out in one of its steps has up to 32 more. To limit
            them all, give each the same `ThreadPoolExecutor`.
        on_error: "raise": once all steps have ended, a `FanOutError` says which
            failed, and has the state; "keep": they are in `FanOut.failures`.
        on_turn: Called here with what a step added, as soon as it has ended;
            also when this fan-out is interrupted or time is up, with what was
            kept so far. For a step that runs on then it is called again when
            that ends, by its thread. An interrupt may come in the middle of
            such a call, which is then made again: join the turn, which is
            idempotent. What it raises is in the `FanOutError` in the end.
        timeout_s: After so many seconds, what has not ended has failed with a
            `TimeoutError`. Threads and processes run on: nothing can stop them.

    Raises:
        FanOutError: If a step failed and *on_error* is "raise", or *on_turn* raised;
            the state is in it.
        TypeError: If an argument is of the wrong type, before any step is run.
        ValueError: If *on_error* or *timeout_s* has an invalid value, likewise.

    An interrupt or a ``SystemExit``, of a step's own, too, is raised at once and
    alone, never in a group.

    >>> def ask(state):
    ...     return state.add_assistant_message("Yes.")
    >>> done = fan_out(Aggregator.new().add_user_prompt("Well?"), [ask, ask])
    >>> [message.text for message in done.state]
    ['Well?', 'Yes.', 'Yes.']
    """
    run = _RunningFanOut(state, steps, executor, on_error, on_turn, timeout_s=timeout_s)
    with run:
        run.submit_all()
        if run.may_wait_for_itself:
            run.take_over()

        run.wait()

    return run.make_result()


@overload
async def afan_out(
    state: Aggregator,
    steps: Iterable[Callable[[Aggregator], Awaitable[Aggregator]]],
    *,
    executor: None = None,
    on_error: Literal["raise", "keep"] = "raise",
    on_turn: Callable[[Turn], object] | None = None,
    timeout_s: float | None = None,
) -> FanOut: ...
@overload
async def afan_out(
    state: Aggregator,
    steps: Iterable[Callable[[Aggregator], Aggregator]],
    *,
    executor: Executor,
    on_error: Literal["raise", "keep"] = "raise",
    on_turn: Callable[[Turn], object] | None = None,
    timeout_s: float | None = None,
) -> FanOut: ...
async def afan_out(
    state: Aggregator,
    steps: Iterable[Callable[[Aggregator], Any]],
    *,
    executor: Executor | None = None,
    on_error: Literal["raise", "keep"] = "raise",
    on_turn: Callable[[Turn], object] | None = None,
    timeout_s: float | None = None,
) -> FanOut:
    """
    Like `fan_out`, with tasks, under asyncio and trio.

    Without an *executor*, steps are async functions, each a task of its own;
    with one, they are plain functions that it runs, and other tasks go on.

    Cancelled, it cancels its tasks and calls *on_turn* with what each had kept
    until then, which is how usage until then is reported. At *timeout_s*
    tasks are cancelled as well, and their turns are in the result. So to bill
    exactly whatever happens, join every turn into a `Cell`::

        await afan_out(
            cell.value, steps, on_turn=lambda turn: cell.swap(lambda s: s.join(turn))
        )
    """
    import anyio  # noqa: PLC0415 - slow to import

    run = _RunningFanOut(state, steps, executor, on_error, on_turn, timeout_s=timeout_s)
    with run, anyio.move_on_after(timeout_s):
        if executor is None:
            await run.await_tasks()
        else:
            run.submit_all()
            if run.may_wait_for_itself:
                await anyio.to_thread.run_sync(run.take_over, abandon_on_cancel=True)

            # If all branches have ended, nothing below would notice a cancellation.
            await anyio.lowlevel.checkpoint()
            await run.await_reports(TaskEvent)

    return run.make_result()


def _check_steps(steps: Any) -> tuple[Callable[[Aggregator], Any], ...]:
    check_list(steps, "steps", "a list of functions")
    functions = tuple(steps)
    for number, step in enumerate(functions):
        if not callable(step):
            raise TypeError(
                f"step {number} is {shorten_repr(step)}; expected a function from "
                "a state to a state"
            )

    return functions


def _check_options(executor: Any, on_error: Any, on_turn: Any, timeout_s: Any) -> None:
    is_number = isinstance(timeout_s, (int, float)) and not isinstance(timeout_s, bool)
    problem = ""
    error: type[Exception] = TypeError
    if executor is not None and not callable(getattr(executor, "submit", None)):
        problem = (
            f"executor is {shorten_repr(executor)}; expected one like those of "
            "concurrent.futures, with submit; a DaskExecutor of a Dask client"
        )
    elif timeout_s is not None and not (is_number and timeout_s >= 0):  # NaN is not
        error = ValueError if is_number else TypeError
        problem = f"timeout_s is {shorten_repr(timeout_s)}; expected seconds, from 0 on"
    elif on_error not in ("raise", "keep"):
        error = ValueError
        problem = f"on_error is {shorten_repr(on_error)}; expected 'raise' or 'keep'"

    if problem:
        raise error(problem)

    if on_turn is not None:
        check_function("on_turn", on_turn)


class _RunningFanOut:
    """
    The branches of one fan-out while they run; a context manager.

    A branch ends wherever it runs, and is settled by the thread or task that
    called: *on_turn* is called with its turn, and an interrupt is raised. At the
    end of the block, the branches that have not ended are settled as they are.
    """

    def __init__(
        self,
        state: Any,
        steps: Any,
        executor: Any,
        on_error: str,
        on_turn: Any,
        *,
        timeout_s: Any,
    ) -> None:
        if not isinstance(state, Aggregator):
            raise TypeError(f"fan_out takes an Aggregator, got {describe_type(state)}")

        functions = _check_steps(steps)
        _check_options(executor, on_error, on_turn, timeout_s)
        past = Past(state)
        self._branches = [
            ForkedStep(number, step, past, self._report_end)
            for number, step in enumerate(functions)
        ]
        self._unsettled = dict.fromkeys(self._branches)
        self._state = state
        self._executor = executor
        self._on_error = on_error
        self._on_turn = on_turn
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + (
            math.inf if timeout_s is None else timeout_s
        )
        # A fork to which nothing is added, for turns without a past.
        self._base = state.fork()
        self._errors: list[BaseException] = []  # what *on_turn* raised
        self._submitted: list[Future[Any]] = []  # what the executor returned
        # Branches that have ended; in C, so that an interrupt leaves it as it is.
        self._reports = SimpleQueue[ForkedStep]()
        # Set at the next report, where a task waits.
        self._reported: Any = None
        # The step this fan-out is in, which has what its branches have so far.
        self._outer = running_notes.get()
        # All threads of the executor may be running steps that wait in the same way.
        self.may_wait_for_itself = self._outer is not None and isinstance(
            executor, ThreadPoolExecutor
        )

    def __enter__(self) -> None:
        if self._outer is not None:
            self._outer.inner.append(self._join_so_far)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None and not self._unsettled:
            return

        # What has not begun never does.
        for branch in self._unsettled:
            branch.claim()

        for submitted in self._submitted:
            submitted.cancel()

        try:
            self._settle_rest(error)
        except BaseException as interrupt:
            error = interrupt
            self._settle_rest(error)
            raise
        finally:
            if error is not None:
                self._release_branches(self._join_so_far())
                for each in self._errors:
                    add_note(error, f"on_turn raised {shorten_repr(each)}")

    def submit_all(self) -> None:
        if self._executor is None:
            _run_in_threads(self._branches)
            return

        for branch in self._branches:
            try:
                submitted = self._executor.submit(run_branch, branch)
            except Exception as error:  # noqa: BLE001 - the executor's: a failure
                self._report_loss(branch, error)
            else:
                self._submitted.append(submitted)
                submitted.add_done_callback(partial(self._receive_result, branch))

            # An executor that runs the call at once may have brought an interrupt.
            if branch.outcomes and find_interrupt(branch.outcomes[0].error):
                return

    def take_over(self) -> None:
        """Run here the branches that the executor has not begun."""
        for branch in self._branches:
            if time.monotonic() > self._deadline:
                return

            outcome = run_branch(branch)
            if outcome is not None and find_interrupt(outcome.error):
                return

    def wait(self) -> None:
        while self._unsettled:
            left_s = max(self._deadline - time.monotonic(), 0)
            try:
                # A signal that comes just before Python blocks is seen when it is
                # back: after a second at most.
                self._settle_branch(self._reports.get(timeout=min(left_s, 1)))
            except Empty:
                if time.monotonic() >= self._deadline:
                    return

    async def await_reports(self, make_event: Callable[[], Any]) -> None:
        while self._unsettled:
            # Made first, so that it is set by all that is reported from here on.
            self._reported = make_event()
            while not self._reports.empty():
                self._settle_branch(self._reports.get())

            if self._unsettled:
                await self._reported.wait()

    async def await_tasks(self) -> None:
        import anyio  # noqa: PLC0415 - slow to import

        async def run_task(branch: ForkedStep) -> None:
            self._report_end(branch, await branch.arun(group.cancel_scope))

        try:
            async with anyio.create_task_group() as group:
                for branch in self._unsettled:
                    group.start_soon(run_task, branch)

                await self.await_reports(anyio.Event)
        except BaseExceptionGroup as error:
            # Of a step, or one that trio raised in whatever task runs; groups wrap it.
            interrupt = find_interrupt(error)
            if interrupt is None or interrupt is error:
                raise

            raise interrupt from None

    def make_result(self) -> FanOut:
        state, conflicts = join_branches(self._state, self._branches)
        self._release_branches(state)
        failures = []
        for branch in self._branches:
            error = branch.outcomes[0].error
            conflict = conflicts.get(branch)
            if error is None:
                error = conflict
            elif conflict is not None:
                add_note(error, str(conflict))

            if isinstance(error, Exception):
                failures.append(Failure(branch.number, error, branch.turn))

        errors: list[Any] = [*self._errors]
        if self._on_error == "raise":
            errors = [*(failure.error for failure in failures), *errors]

        if errors:
            raise FanOutError(state, failures, errors)

        return FanOut(state, tuple(failures))

    def _settle_rest(self, error: BaseException | None) -> None:
        # Those that have not ended: the call ends with *error*, or else time is up,
        # which is the failure of each.
        for branch in [*self._unsettled]:
            late = TimeoutError(f"{branch} took longer than {self._timeout_s} s")
            branch.outcomes.append(branch.conclude(late))
            try:
                self._settle_branch(branch)
            except BaseException as interrupt:
                if error is None:
                    raise
                if branch in self._unsettled:  # *on_turn* raised it
                    self._errors.append(interrupt)

    def _settle_branch(self, branch: ForkedStep) -> None:
        # Call *on_turn* with what a branch added. Raises an error that is not an
        # `Exception`, without waiting for other branches.
        outcome = branch.outcomes[0]
        if self._on_turn is not None:
            try:
                self._on_turn(outcome.turn)
            except Exception as error:  # noqa: BLE001 - on_turn's: raised at the end
                self._errors.append(error)

        # Last, so that a branch whose settling is interrupted is settled again.
        del self._unsettled[branch]
        interrupt = find_interrupt(outcome.error)
        if interrupt is not None:
            raise interrupt from (None if interrupt is outcome.error else outcome.error)

    def _receive_result(self, branch: ForkedStep, submitted: Future[Any]) -> None:
        # Take the result of an executor, unless the branch has run in this process.
        error = CancelledError() if submitted.cancelled() else submitted.exception()
        sent: Any = None if error is not None else submitted.result()
        if error is None and not isinstance(sent, Outcome):
            problem = f"it gave {shorten_repr(sent)} instead of what was called"
            error = RuntimeError(problem)

        if error is not None:
            self._report_loss(branch, error)
        elif branch.notes is None:
            # It came from another process, without its past.
            turn = attrs.evolve(sent.turn, state=self._base)
            self._report_end(branch, sent._replace(turn=turn))

    def _report_loss(self, branch: ForkedStep, error: BaseException) -> None:
        # The end of a branch that nothing runs here, and whose result never comes.
        if branch.claim():
            lost = Outcome(self._base.turn, branch.make_loss(error))
            self._report_end(branch, lost)

    def _report_end(self, branch: ForkedStep, outcome: Outcome) -> None:
        # Called where a branch ends, in any thread.
        branch.outcomes.append(outcome)
        self._reports.put(branch)
        if self._reported is not None:
            self._reported.set()

        # Of what ends when all is over, the caller knows less.
        if branch.outcomes[0] is not outcome and self._on_turn is not None:
            try:
                self._on_turn(outcome.turn)
            except Exception:  # there is no one to raise it to
                _LOGGER.exception(
                    "on_turn raised for %s, which ended after its fan-out", branch
                )

    def _join_so_far(self) -> Aggregator:
        return join_branches(self._state, self._branches)[0]

    def _release_branches(self, state: Aggregator) -> None:
        # These refer to this run, which would then refer to itself.
        self._submitted.clear()
        for branch in self._branches:
            branch.report = None

        if self._outer is not None:
            self._outer.add_saved(state)
            self._outer.inner.remove(self._join_so_far)


def _run_in_threads(branches: list[ForkedStep]) -> None:
    # Each thread runs one branch after another, so that as many as can be had do all.
    # They are daemons, as those of a pool are not: a step that never ends does not keep
    # the program from ending.
    waiting = deque(branches)

    def run_branches() -> None:
        with suppress(IndexError):
            while True:
                run_branch(waiting.popleft())

    for number in range(min(_MAX_THREADS, len(branches))):
        try:
            Thread(target=run_branches, name="conversation_state", daemon=True).start()
        except RuntimeError as error:
            # An interrupt may come as a RuntimeError of Python's own, too.
            if not number or "can't start new thread" not in str(error):
                raise

            return  # no more threads can be had
