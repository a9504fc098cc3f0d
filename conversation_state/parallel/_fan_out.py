"""
Fanning out: what callers call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Literal, overload

from conversation_state._waiting import in_worker, the_anyio
from conversation_state.aggregator import Aggregator, Turn
from conversation_state.errors import BranchError
from conversation_state.parallel._branches import Branch, Outcome, running
from conversation_state.parallel._settling import FanOut, Settling
from conversation_state.parallel._threads import Threads

__all__ = ["afan_out", "fan_out"]


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
    What came of all *steps*, each run on a fork of *state*, at once.

    What they added is joined in the order of the steps, whoever finished
    first. A step that fails takes nothing from the others, and what it had
    kept until then (`keep`) is joined like the rest.

    Only what a step added comes back; *state* is pickled once for executors
    that pickle. In threads, context variables are those of the caller. A
    fan-out in a step of another one, of the same `ThreadPoolExecutor` too,
    runs itself what nobody has begun.

    Args:
        state: What each step gets a fork of.

        steps: Functions from a state to what it has grown into.

        executor: Who runs them: any of `concurrent.futures`, or one that is
            used alike, Dask's ``client.get_executor()`` say. None: up to 32
            threads.

        on_error: "raise": once all steps are done, a `FanOutError` tells which
            failed, and has the state; "keep": they are in `FanOut.failures`.

        on_turn: Called with what a step added, as soon as it is settled, here;
            also when this fan-out is interrupted or time is up, with what was
            kept so far. A step that runs on then is told of again when it
            ends, by its thread. What it raises is raised in the end.

        timeout_s: After so many seconds, what is not done has failed with a
            `TimeoutError`. Threads and processes run on: nothing can stop them.

    Raises:
        FanOutError:
            If a step failed and *on_error* is "raise".

        TypeError:
            If something is not what it should be, before any step is run.

        ValueError:
            If *on_error* or *timeout_s* is something else, likewise.

    An interrupt or a ``SystemExit``, of a step's own, too, is raised at once.

    >>> def ask(state):
    ...     return state.add_assistant_message("Yes.")
    >>> done = fan_out(Aggregator.new().add_user_prompt("Well?"), [ask, ask])
    >>> [message.text for message in done.state]
    ['Well?', 'Yes.', 'Yes.']
    """
    settling = _checked(
        state,
        steps,
        executor=executor,
        on_error=on_error,
        on_turn=on_turn,
        timeout_s=timeout_s,
    )
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        settling.start(Threads() if executor is None else executor)
        if running() and isinstance(executor, ThreadPoolExecutor):
            settling.take_over(deadline)

        settling.wait(deadline)
        settling.give_up(lambda branch: _late(branch, timeout_s))
    except BaseException as error:
        settling.abandon(error)
        raise

    return settling.result(on_error)


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
    until then, which is the way out for what has been spent. At *timeout_s*
    tasks are cancelled as well, and their turns are in the result. So to bill
    exactly whatever happens, join every turn into a `Cell`::

        await afan_out(
            cell.value, steps, on_turn=lambda turn: cell.swap(lambda s: s.join(turn))
        )
    """
    anyio = the_anyio("afan_out")
    settling = _checked(
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
                await _in_tasks(anyio, settling)
            else:
                settling.start(executor)
                if running() and isinstance(executor, ThreadPoolExecutor):
                    in_worker(settling.take_over)

                await anyio.lowlevel.checkpoint()
                await settling.await_()

        settling.give_up(lambda branch: _late(branch, timeout_s))
    except BaseException as error:
        settling.abandon(error)
        raise

    return settling.result(on_error)


async def _in_tasks(anyio: Any, settling: Settling) -> None:
    stop: list[BaseException] = []
    cancelled: type[BaseException] = anyio.get_cancelled_exc_class()

    def outside(error: BaseException) -> BaseException | None:
        # A task may also be cancelled by something it waits for; that is its
        # own failure, as any other.
        if (
            group.cancel_scope.cancel_called
            or anyio.current_effective_deadline() == -math.inf
        ):
            if isinstance(error, BaseExceptionGroup):  # trio's nurseries
                return error.subgroup(cancelled)
            if isinstance(error, cancelled):
                return error

        return None

    async def task(branch: Branch) -> None:
        turn, error = await branch.arun(outside)
        if isinstance(error, cancelled):
            error = _cancelled(branch, error)

        try:
            settling.settle(branch, Outcome(turn, error))
        except BaseException as interrupt:  # noqa: BLE001 - raised below, and alone
            stop.append(interrupt)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for branch in settling.branches:
            group.start_soon(task, branch)

    if stop:
        raise stop[0]


def _cancelled(branch: Branch, error: BaseException | None) -> BranchError:
    problem = "was cancelled by something it waited for, not from outside"
    failure = BranchError(branch.number, branch.name, problem)
    failure.__cause__ = error
    return failure


def _late(branch: Branch, timeout_s: float | None) -> TimeoutError:
    took = f"step {branch.number} ({branch.name}) took longer than {timeout_s} s"
    return TimeoutError(took)


def _checked(
    state: Aggregator,
    steps: Iterable[Callable[[Aggregator], Any]],
    *,
    executor: Any,
    on_error: str,
    on_turn: Any,
    timeout_s: Any,
) -> Settling:
    if not isinstance(state, Aggregator):
        raise TypeError(f"fan_out takes an Aggregator, got a {type(state).__name__}")

    try:
        functions = tuple(steps)
    except TypeError as error:
        raise TypeError(
            f"fan_out takes an iterable of steps, got {steps!r:.80}"
        ) from error

    for number, step in enumerate(functions):
        if not callable(step):
            raise TypeError(
                f"step {number} is {step!r:.80}; expected a function from a state to a "
                "state"
            )

    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(
            f"executor is {executor!r:.80}; expected one like those of "
            "concurrent.futures, with submit (of a Dask client: get_executor())"
        )

    if on_error not in ("raise", "keep"):
        raise ValueError(f"on_error is {on_error!r}; expected 'raise' or 'keep'")

    if on_turn is not None and not callable(on_turn):
        raise TypeError(f"on_turn is {on_turn!r:.80}; expected a function of a turn")

    if timeout_s is not None:
        _check_time(timeout_s)

    return Settling(state, functions, on_turn)


def _check_time(timeout_s: Any) -> None:
    told = f"timeout_s is {timeout_s!r:.80}; expected seconds, from 0 on"
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
        raise TypeError(told)

    if not timeout_s >= 0:
        raise ValueError(told)
