"""Content that can't be decoded, joined or rendered; failed steps of branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import attrs

from conversation_state._wording import format_count, shorten_repr
from conversation_state.errors._values import ConversationStateError, show_in_package


class Problem(NamedTuple):
    """
    One problem of a document, with its path.

    Attributes:
        path: Its path, as in ``$.messages[3].parts[0].url``.

        what: What was expected, and what is there.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


show_in_package(Problem)


@attrs.define(slots=False, repr=False, eq=False)
class _ProblemsError(ConversationStateError, ValueError):
    """Problems with their paths."""

    _cannot: ClassVar[str]

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        problems = format_count(len(self.problems), "problem")
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        return f"can't {self._cannot}: {problems}\n{lines}"


class DecodeError(_ProblemsError):
    """
    Bytes or JSON values that can't be decoded.

    Attributes:
        problems: All problems, each with its path; never empty.
    """

    _cannot = "decode"


class ParseError(_ProblemsError):
    """
    A message without the expected JSON.

    Attributes:
        problems: All problems, each with its path; never empty.
    """

    _cannot = "parse this message"


@attrs.define(slots=False, repr=False, eq=False)
class ConcatError(ConversationStateError, ValueError):
    """
    Chunks that can't be of one message.

    Attributes:
        field: Where they conflict: ``name``, ``the image of a tool
            result``, ``tool_calls[index=0].name``, ``name in column 1`` (of
            rows); ``chunk`` if one is not a message; "" without chunks.

        ours: The value of the chunks before.

        theirs: The value of this chunk.

        chunk: The number of this chunk, from 0 on, or None.
    """

    field: str = ""
    ours: object = None
    theirs: object = None
    chunk: int | None = None

    def __str__(self) -> str:
        if not self.field:
            return "can't concatenate no chunks at all; a message needs at least one"

        if self.field == "chunk":
            return (
                f"chunk {self.chunk} is {shorten_repr(self.theirs)}; expected a message"
            )

        return (
            f"can't concatenate: {self.field} is {shorten_repr(self.ours)} so far and "
            f"{shorten_repr(self.theirs)} in chunk {self.chunk}. Are these chunks of "
            "one message?"
        )


@attrs.define(slots=False, repr=False, eq=False)
class ProviderStreamError(ConversationStateError, RuntimeError):
    """
    A provider reported a failure in the middle of a response.

    Attributes:
        reason: The provider's own message.

        event: The event that reported it, as plain JSON.
    """

    reason: str
    event: object = None

    def __str__(self) -> str:
        return f"the provider broke off: {self.reason}"


@attrs.define(slots=False, repr=False, eq=False)
class TemplateError(ConversationStateError, ValueError):
    """
    A template that can't be rendered.

    Attributes:
        problem: The problem.

        template: The template's text, shortened; "" if no template is at fault.
    """

    problem: str
    template: str

    def __str__(self) -> str:
        what = f" {self.template!r}" if self.template else ""
        return f"can't render{what}: {self.problem}"


class MissingVariableError(TemplateError, LookupError):
    """
    A template needs a variable that was not given.

    Attributes:
        variable: The variable's name.

        template: The template's text, shortened.
    """

    variable: str

    def __init__(self, variable: str, template: str) -> None:
        super().__init__(f"there is no variable {shorten_repr(variable)}", template)
        # Pickles call the class with `args`, so they are its own and not its parent's.
        self.args = (variable, template)
        self.variable = variable


# Branches

_LISTED = 5


@attrs.define(slots=False, repr=False, eq=False)
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
        """The same for some of the errors; `split` and ``except*`` call it."""
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


@attrs.define(slots=False, repr=False, eq=False)
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
    there: tuple[tuple[int, str], ...] = ()

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
