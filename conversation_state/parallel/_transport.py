"""
What executors run and send back, and what it means if they do not.

An error is sent as bytes next to its turn, so that one that can't be unpickled
breaks nothing else.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError
from typing import Any, NamedTuple

from conversation_state._wording import describe_type, with_article
from conversation_state.aggregator import Turn
from conversation_state.errors import BranchError
from conversation_state.parallel._branches import Outcome, StepBranch, add_note

__all__ = ["Assignment", "Received", "Sent", "describe_loss", "run_assignment"]


class Assignment:
    """
    A branch on its way to where it runs.

    In this process it is run by *execute*, which reports its end there; in
    another one there is only the branch.
    """

    __slots__ = ("branch", "execute")

    def __init__(
        self,
        branch: StepBranch,
        execute: Callable[[StepBranch], Outcome] = StepBranch.run,
    ) -> None:
        self.branch = branch
        self.execute = execute

    def __reduce__(self) -> tuple[Any, ...]:
        return Assignment, (self.branch,)

    def __dask_tokenize__(self) -> str:
        # Dask takes calls with equal arguments for one; two fan-outs are two.
        return self.branch.key


def run_assignment(assignment: Assignment) -> Sent:
    """
    Run a branch; what executors call.
    """
    return Sent(assignment.branch, assignment.execute(assignment.branch))


class Sent:
    """
    An outcome on its way: itself in this process, data to another one.
    """

    __slots__ = ("branch", "outcome")

    def __init__(self, branch: StepBranch, outcome: Outcome) -> None:
        self.branch = branch
        self.outcome = outcome

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
        if not isinstance(error, BaseException):
            raise TypeError(error)  # noqa: TRY301 - what a strange __reduce__ gives
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

    kind = type(error).__name__
    return f"was given up by its executor ({kind}: {_describe_error(error)})"


def _describe_error(error: Exception) -> str:
    # An error that is raised here would never be reported, and the caller would wait
    # forever.
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - any of __str__: the class is enough
        return f"{describe_type(error)} that can't be shown"
