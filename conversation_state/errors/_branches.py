"""
Branches of a conversation: failed steps, and unknown moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

from conversation_state._wording import shorten_repr
from conversation_state.errors._values import ConversationStateError

__all__ = ["BranchError", "FanOutError", "UnknownMomentError"]

_LISTED = 5


class BranchError(ConversationStateError, RuntimeError):
    """
    A step of a fan-out that did not return a state of its branch.

    Attributes:
        step: The step's number, from 0 on.

        name: The step's name.

        problem: What it returned, and what to do.
    """

    step: int
    name: str
    problem: str

    def __init__(self, step: int, name: str, problem: str) -> None:
        super().__init__(step, name, problem)
        self.step = step
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"step {self.step} ({self.name}) {self.problem}"


class FanOutError(ConversationStateError, ExceptionGroup[Exception]):
    """
    Steps of a fan-out that failed; the results of the others are kept.

    A group of the errors that steps and *on_turn* raised, so that ``except*`` can
    handle some and leave the rest.

    Attributes:
        state: The state with the additions of all branches, also of failed ones.

        failures: The failures, each with its step, its error and its turn.
    """

    state: Any
    failures: tuple[Any, ...]

    def __new__(
        cls,
        state: Any,
        failures: Sequence[Any],
        errors: Sequence[Exception] | None = None,
    ) -> Self:
        """
        A group of the errors of *failures*; or of *errors*, some of these and those
        of *on_turn*.
        """
        of_steps = [failure.error for failure in failures]
        raised = of_steps if errors is None else errors
        steps = [str(failure.step) for failure in failures]
        problem = "on_turn of a fan-out raised"
        if steps:
            some = f"steps {', '.join(steps[:-1])} and {steps[-1]}"
            which = some if len(steps) > 1 else f"step {steps[0]}"
            problem = f"{which} of a fan-out failed"
            if not set(_leaf_errors(raised)) <= set(_leaf_errors(of_steps)):
                problem += ", and on_turn raised"

        # A group is made in `__new__`: the text and the errors can't be set later.
        text = f"{problem}; .state has what all branches added"
        error = super().__new__(cls, text, raised)
        error.state = state
        error.failures = tuple(failures)
        return error

    def __init__(
        self,
        state: Any,
        failures: Sequence[Any],
        errors: Sequence[Exception] | None = None,
    ) -> None:
        super().__init__(state, failures, errors)  # type: ignore[call-arg]  # sets args, for pickling

    def __reduce__(self) -> tuple[Any, ...]:
        # Without it, Dask pickles every group as made of a text and errors.
        return type(self), self.args, self.__dict__

    def derive(self, excs: Sequence[Any], /) -> FanOutError:  # type: ignore[override]  # the same for errors of any kind
        """
        The same for some of the errors; `split` and ``except*`` call it.
        """
        # Without it, a part of the group would be a plain ExceptionGroup, without the
        # state that the other branches made.
        some = set(_leaf_errors(excs))
        failures = [
            failure
            for failure in self.failures
            if not some.isdisjoint(_leaf_errors([failure.error]))
        ]
        return FanOutError(self.state, failures, excs)


def _leaf_errors(errors: Iterable[BaseException]) -> Iterator[int]:
    # By identity of the leaves: `split` makes new groups of the same errors.
    for error in errors:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaf_errors(error.exceptions)
        else:
            yield id(error)


class UnknownMomentError(ConversationStateError, LookupError):
    """
    A moment that a timeline does not keep, or that is not ahead of its present.

    Attributes:
        asked: The number or the label of the moment.

        problem: The problem with it.

        there: Number and label of valid moments: those right ahead, or the newest
            that are kept.
    """

    asked: int | str
    problem: str
    there: tuple[tuple[int, str], ...]

    def __init__(
        self, asked: int | str, problem: str, there: tuple[tuple[int, str], ...] = ()
    ) -> None:
        super().__init__(asked, problem, there)
        self.asked = asked
        self.problem = problem
        self.there = there

    def __str__(self) -> str:
        # The last ones are the newest, and the likeliest to be meant.
        few = [
            f"{number} ({shorten_repr(label)})" if label else str(number)
            for number, label in self.there[-_LISTED:]
        ]
        valid = ", ".join(few) or "none"
        return (
            f"moment {shorten_repr(self.asked)} {self.problem}; valid moments: {valid}"
        )
