"""
Values that can't be what they say they are, and the root of all errors.
"""

from __future__ import annotations

__all__ = [
    "ConversationStateError",
    "InvalidDocumentError",
    "InvalidMessageError",
    "InvalidPartError",
    "InvalidToolError",
    "InvalidUsageError",
    "MissingExtraError",
    "StreamClosedError",
    "show_in_package",
]


class ConversationStateError(Exception):
    """
    The root: catches whatever this library raises on purpose.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        show_in_package(cls)


def show_in_package(cls: type) -> None:
    """
    Let pickles and tracebacks name the package *cls* is public in, not its file.
    """
    if cls.__module__.startswith(f"{__package__}."):
        cls.__module__ = str(__package__)


show_in_package(ConversationStateError)


class _InvalidValueError(ConversationStateError, ValueError):
    """
    A value that its class refuses.

    Attributes:
        problem: What is wrong, and what to do.

        owner: The class that refuses it; "" if the problem is of no one field.

        field: The field of that class that is invalid, or "".
    """

    problem: str
    owner: str
    field: str

    def __init__(self, problem: str, owner: str = "", field: str = "") -> None:
        super().__init__(*((problem, owner, field) if field else (problem,)))
        self.problem = problem
        self.owner = owner
        self.field = field

    def __str__(self) -> str:
        owner = f"{self.owner}." if self.owner else ""
        return f"{owner}{self.field} {self.problem}" if self.field else self.problem


class InvalidUsageError(_InvalidValueError):
    """
    A count of tokens that no provider can mean, or a key paid twice.
    """


class InvalidPartError(_InvalidValueError):
    """
    A part of a message that can't be what it says it is.
    """


class InvalidMessageError(_InvalidValueError):
    """
    A message, tool call or piece of metadata that can't be what it says it is.
    """


class InvalidToolError(_InvalidValueError):
    """
    A tool, or a parameter of one, that no model could be told of.
    """


class InvalidDocumentError(_InvalidValueError):
    """
    A document that can't be what it says it is.
    """


class StreamClosedError(ConversationStateError, RuntimeError):
    """
    Something was sent into a stream, or read from one, that is closed.
    """


class MissingExtraError(ConversationStateError, ImportError):
    """
    Something was asked for that needs packages which are not installed.

    Attributes:
        wanted: What was asked for.

        extra: The extra that brings the packages.
    """

    wanted: str
    extra: str

    def __init__(self, wanted: str, extra: str) -> None:
        super().__init__(wanted, extra)
        self.wanted = wanted
        self.extra = extra

    def __str__(self) -> str:
        return (
            f"{self.wanted} needs packages that are not installed; "
            f'pip install "conversation-state[{self.extra}]"'
        )
