"""
Content that can't be decoded, joined or rendered.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from conversation_state._wording import format_count, shorten_repr
from conversation_state.errors._values import ConversationStateError, show_in_package

__all__ = [
    "ConcatError",
    "DecodeError",
    "MissingVariableError",
    "ParseError",
    "Problem",
    "ProviderStreamError",
    "TemplateError",
]


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


class _ProblemsError(ConversationStateError, ValueError):
    """
    Problems with their paths.
    """

    _cannot: ClassVar[str]

    problems: tuple[Problem, ...]

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

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

    field: str
    ours: object
    theirs: object
    chunk: int | None

    def __init__(
        self,
        field: str = "",
        ours: object = None,
        theirs: object = None,
        chunk: int | None = None,
    ) -> None:
        super().__init__(field, ours, theirs, chunk)
        self.field = field
        self.ours = ours
        self.theirs = theirs
        self.chunk = chunk

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


class ProviderStreamError(ConversationStateError, RuntimeError):
    """
    A provider reported a failure in the middle of a response.

    Attributes:
        reason: The provider's own message.

        event: The event that reported it, as plain JSON.
    """

    reason: str
    event: object

    def __init__(self, reason: str, event: object = None) -> None:
        super().__init__(reason, event)
        self.reason = reason
        self.event = event

    def __str__(self) -> str:
        return f"the provider broke off: {self.reason}"


class TemplateError(ConversationStateError, ValueError):
    """
    A template that can't be rendered.

    Attributes:
        problem: The problem.

        template: The template's text, shortened; "" if no template is at fault.
    """

    problem: str
    template: str

    def __init__(self, problem: str, template: str) -> None:
        super().__init__(problem, template)
        self.problem = problem
        self.template = template

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
