"""Fanning out: what callers call."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal, overload

from conversation_state._persistent import check_iterable
from conversation_state._waiting import in_worker, require_anyio
from conversation_state._wording import describe_type, shorten_repr
from conversation_state.aggregator import Aggregator, Turn
from conversation_state.parallel._branches import StepBranch, running_notes
from conversation_state.parallel._outcomes import find_interrupt
from conversation_state.parallel._runs import FanOut, FanOutRun


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

        executor: What runs them: any of `concurrent.futures`, or one that is
            used alike, Dask's ``client.get_executor()`` say. None: up to 32
            threads of this fan-out's own; a fan-out in one of its steps has up
            to 32 more. To limit them all, give each the same
            `ThreadPoolExecutor`.

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
        FanOutError:
            If a step failed and *on_error* is "raise", or *on_turn* raised; the
            state is in it.

        TypeError:
            If an argument is of the wrong type, before any step is run.

        ValueError:
            If *on_error* or *timeout_s* has an invalid value, likewise.

    An interrupt or a ``SystemExit``, of a step's own, too, is raised at once and
    alone, never in a group.

    >>> def ask(state):
    ...     return state.add_assistant_message("Yes.")
    >>> done = fan_out(Aggregator.new().add_user_prompt("Well?"), [ask, ask])
    >>> [message.text for message in done.state]
    ['Well?', 'Yes.', 'Yes.']
    """
    run = _prepare_run(
        state,
        steps,
        executor=executor,
        on_error=on_error,
        on_turn=on_turn,
        timeout_s=timeout_s,
    )
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        run.start(executor)
        # All threads of the executor may be running steps that wait in the same way, so
        # this thread runs branches itself.
        if running_notes() and isinstance(executor, ThreadPoolExecutor):
            run.take_over(deadline)

        run.wait(deadline)
        run.give_up(lambda branch: _make_timeout(branch, timeout_s))
    except BaseException as error:
        run.abandon(error)
        raise

    return run.result(on_error)


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
    anyio = require_anyio("afan_out")
    run = _prepare_run(
        state,
        steps,
        executor=executor,
        on_error=on_error,
        on_turn=on_turn,
        timeout_s=timeout_s,
    )
    try:
        with anyio.move_on_after(timeout_s):
            if executor is None:
                await _in_tasks(anyio, run)
            else:
                run.start(executor)
                if running_notes() and isinstance(executor, ThreadPoolExecutor):
                    in_worker(run.take_over)

                # If all branches have ended, the next line does not wait and would not
                # notice a cancellation.
                await anyio.lowlevel.checkpoint()
                await run.await_()

        run.give_up(lambda branch: _make_timeout(branch, timeout_s))
    except BaseException as error:
        run.abandon(error)
        raise

    return run.result(on_error)


async def _in_tasks(anyio: Any, run: FanOutRun) -> None:
    stop: list[BaseException] = []
    cancelled: type[BaseException] = anyio.get_cancelled_exc_class()

    def find_outside(error: BaseException) -> BaseException | None:
        # A task may also be cancelled by something that it waits for; that is a failure
        # of the step like any other. The deadline of a cancelled scope is -inf.
        if (
            group.cancel_scope.cancel_called
            or anyio.current_effective_deadline() == -math.inf
        ):
            if isinstance(error, BaseExceptionGroup):  # trio's nurseries
                is_interrupt = error.subgroup((KeyboardInterrupt, SystemExit))
                return None if is_interrupt else error.subgroup(cancelled)
            if isinstance(error, cancelled):
                return error

        return None

    async def task(branch: StepBranch) -> None:
        outcome = await branch.arun(find_outside)
        error = outcome.error
        if isinstance(error, cancelled):
            problem = "was cancelled by something it waited for, not from outside"
            failure = branch.make_error(problem)
            failure.__cause__ = error
            outcome = outcome._replace(error=failure)

        branch.ended = outcome
        try:
            run.settle(branch, branch.ended)
        except BaseException as interrupt:  # noqa: BLE001 - raised after the group
            stop.append(interrupt)
            group.cancel_scope.cancel()

    with _unwrap_interrupts():
        async with anyio.create_task_group() as group:
            for branch in run.branches:
                group.start_soon(task, branch)

    # An exception that leaves a task would be raised in a group.
    if stop:
        raise stop[0]


@contextmanager
def _unwrap_interrupts() -> Iterator[None]:
    # Raise an interrupt alone, which trio raises in whatever task runs, and nurseries
    # wrap.
    try:
        yield
    except BaseExceptionGroup as error:
        interrupt = find_interrupt(error)
        if interrupt is None or interrupt is error:
            raise

        raise interrupt from None


def _make_timeout(branch: StepBranch, timeout_s: float | None) -> TimeoutError:
    return TimeoutError(f"{branch} took longer than {timeout_s} s")


def _prepare_run(
    state: Aggregator,
    steps: Iterable[Callable[[Aggregator], Any]],
    *,
    executor: Any,
    on_error: str,
    on_turn: Any,
    timeout_s: Any,
) -> FanOutRun:
    if not isinstance(state, Aggregator):
        raise TypeError(f"fan_out takes an Aggregator, got {describe_type(state)}")

    check_iterable(steps, "steps", "a list of functions")
    functions = tuple(steps)
    for number, step in enumerate(functions):
        if not callable(step):
            raise TypeError(
                f"step {number} is {shorten_repr(step)}; expected a function from a "
                "state to a state"
            )

    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(
            f"executor is {shorten_repr(executor)}; expected one like those of "
            "concurrent.futures, with submit (of a Dask client: get_executor())"
        )

    if on_error not in ("raise", "keep"):
        raise ValueError(
            f"on_error is {shorten_repr(on_error)}; expected 'raise' or 'keep'"
        )

    if on_turn is not None and not callable(on_turn):
        raise TypeError(
            f"on_turn is {shorten_repr(on_turn)}; expected a function of a turn"
        )

    if timeout_s is not None:
        problem = f"timeout_s is {shorten_repr(timeout_s)}; expected seconds, from 0 on"
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
            raise TypeError(problem)

        if not timeout_s >= 0:  # NaN is not
            raise ValueError(problem)

    return FanOutRun(state, functions, on_turn)
