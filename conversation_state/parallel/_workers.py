"""
What executors run and send back, and interrupts.

An error is sent as bytes next to its turn, so that one that can't be unpickled
breaks nothing else.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError
from threading import current_thread, main_thread
from typing import Any, NamedTuple

import attrs

from conversation_state._waiting import ThreadWaiter, in_worker
from conversation_state._wording import describe_type, with_article
from conversation_state.aggregator import Turn
from conversation_state.errors import BranchError
from conversation_state.parallel._branches import Outcome, StepBranch, add_note


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


def call_shielded(function: Callable[[], object]) -> None:
    """
    Call *function* in a thread that no signal interrupts.

    Futures and executors of the standard library may stay locked for good if an
    interrupt comes while they enter a lock.
    """
    if current_thread() is not main_thread():
        function()
        return

    waiter = ThreadWaiter()
    errors: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised in the main thread, below
            errors.append(error)
        finally:
            waiter.wake()

    try:
        in_worker(call)
    except RuntimeError:  # no more threads can be started
        function()
        return

    waiter.wait()
    for error in errors:
        raise error


@attrs.define(eq=False)
class Assignment:
    """
    A branch on its way to where it runs.

    In this process it is run by *execute*, which reports its end there; in
    another one there is only the branch.
    """

    branch: StepBranch
    execute: Callable[[StepBranch], Outcome] = StepBranch.run

    def __reduce__(self) -> tuple[Any, ...]:
        return Assignment, (self.branch,)

    def __dask_tokenize__(self) -> str:
        # Dask takes calls with equal arguments for one; two fan-outs are two.
        return self.branch.key


def run_assignment(assignment: Assignment) -> Sent:
    return Sent(assignment.branch, assignment.execute(assignment.branch))


@attrs.define(eq=False)
class Sent:
    """
    An outcome on its way: itself in this process, data to another one.
    """

    branch: StepBranch
    outcome: Outcome

    def __reduce__(self) -> tuple[Any, ...]:
        turn, error = self.outcome
        if error is None:
            return _unpickle_outcome, (turn,)

        try:
            pickled = pickle.dumps(error)
        except Exception:  # noqa: BLE001 - any of __reduce__: sent as text
            pickled = b""

        text = "".join(traceback.format_exception(error))
        facts = self.branch.number, self.branch.name, type(error).__name__, text
        return _unpickle_outcome, (turn, pickled, facts)


class Received(NamedTuple):
    """
    An outcome that came from another process.
    """

    outcome: Outcome


def _unpickle_outcome(
    turn: Turn, pickled: bytes = b"", facts: tuple[int, str, str, str] | None = None
) -> Received:
    if facts is None:
        return Received(Outcome(turn))

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

    return Received(Outcome(turn, error))


def describe_loss(branch: StepBranch, error: Exception) -> str:
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
        except Exception as reason:  # noqa: BLE001 - any of __reduce__: reported
            return (
                f"can't be sent to another process ({_describe_error(reason)}). Give "
                "a function of a module's top level, or functools.partial of one, or "
                "run it in threads"
            )

    return f"was given up by its executor ({_describe_error(error)})"


def _describe_error(error: Exception) -> str:
    # An error that is raised here would never be reported, and the caller would wait
    # forever.
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - any of __str__: the class is enough
        return f"{describe_type(error)} that can't be shown"
