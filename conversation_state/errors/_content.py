"""
Content that can't be read, joined or rendered.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from conversation_state._wording import format_count
from conversation_state.errors._values import (
    ConversationStateError,
    show_in_package,
)

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
    One thing wrong with a document: where, and what.

    Attributes:
        path: Where it is, as in ``$.messages[3].parts[0].url``.

        what: What is there and what should be.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


show_in_package(Problem)


class _ProblemsError(ConversationStateError, ValueError):
    """
    What is wrong in many places at once.
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
    Bytes or JSON values that are no value of this library.

    Attributes:
        problems: All that is wrong, each with its path; never empty.
    """

    _cannot = "decode"


class ParseError(_ProblemsError):
    """
    A message that does not say what it should.

    Attributes:
        problems: All that is wrong, each with its path; never empty.
    """

    _cannot = "parse this message"


class ConcatError(ConversationStateError, ValueError):
    """
    Pieces that can't be of one message.

    Attributes:
        field: What they disagree about: ``name``, ``the image of a tool
            result``, ``tool_calls[index=0].name``, ``name in column 1`` (of
            rows); ``chunk`` if one is no message; "" if there are none.

        ours: What the pieces before say.

        theirs: What this piece says.

        chunk: The number of this piece, from 0 on; None if there is none.
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
            return f"chunk {self.chunk} is {self.theirs!r}; expected a message"

        return (
            f"can't concatenate: {self.field} is {self.ours!r} so far and "
            f"{self.theirs!r} in chunk {self.chunk}. Are these chunks of one message?"
        )


class ProviderStreamError(ConversationStateError, RuntimeError):
    """
    A provider broke off in the middle of a response, and said why.

    Attributes:
        said: The provider's words.

        event: The event that said so, as plain JSON.
    """

    said: str
    event: object

    def __init__(self, said: str, event: object = None) -> None:
        super().__init__(said, event)
        self.said = said
        self.event = event

    def __str__(self) -> str:
        return f"the provider broke off: {self.said}"


class TemplateError(ConversationStateError, ValueError):
    """
    A template that can't be rendered.

    Attributes:
        problem: What is wrong.

        template: The template's text, shortened; "" if it is not about one.
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
    A template that needs a variable nobody gave.

    Attributes:
        variable: The variable's name.

        template: The template's text, shortened.
    """

    variable: str

    def __init__(self, variable: str, template: str) -> None:
        super().__init__(f"there is no variable {variable!r}", template)
        self.args = (variable, template)
        self.variable = variable
