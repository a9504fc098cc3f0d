"""Invalid values, and the root of all errors."""

from __future__ import annotations

import attrs


class ConversationStateError(Exception):
    """The root of all errors that this library raises on purpose."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        show_in_package(cls)


def show_in_package(cls: type) -> None:
    """Make pickles and tracebacks name the public package of *cls*, not its file."""
    # A pickle of one version names the package, and loads in another in which the class
    # has moved to a different file. Subclasses of users keep their own module.
    if cls.__module__.startswith(f"{__package__}."):
        cls.__module__ = str(__package__)


show_in_package(ConversationStateError)


class _InvalidValueError(ConversationStateError, ValueError):
    """
    A value that its class refuses.

    Attributes:
        problem: What is wrong, and what to do.

        owner: The class that refuses it; "" if no single field is invalid.

        field: The field of that class that is invalid, or "".
    """

    problem: str
    owner: str
    field: str

    def __init__(self, problem: str, owner: str = "", field: str = "") -> None:
        # The arguments are what a pickle calls the class with. Without a field the
        # problem is all of them, as it is of the builtin errors.
        super().__init__(*((problem, owner, field) if field else (problem,)))
        self.problem = problem
        self.owner = owner
        self.field = field

    def __str__(self) -> str:
        owner = f"{self.owner}." if self.owner else ""
        return f"{owner}{self.field} {self.problem}" if self.field else self.problem


class InvalidUsageError(_InvalidValueError):
    """An invalid count of tokens, or a conflicting ledger entry."""


class InvalidPartError(_InvalidValueError):
    """An invalid part of a message."""


class InvalidMessageError(_InvalidValueError):
    """An invalid message, tool call or piece of metadata."""


class InvalidToolError(_InvalidValueError):
    """An invalid tool, or an invalid parameter of one."""


class InvalidDocumentError(_InvalidValueError):
    """An invalid document."""


class StreamClosedError(ConversationStateError, RuntimeError):
    """An element was sent to a closed stream, or read from one."""


# attrs gives all facts to `BaseException.__init__`, and a pickle calls the class with
# these. Not frozen: a frozen exception can't be unpickled, nor get a traceback. Equal
# only to itself, as all exceptions are.
@attrs.define(slots=False, repr=False, eq=False)
class MissingExtraError(ConversationStateError, ImportError):
    """
    A feature needs packages that are not installed.

    Attributes:
        wanted: The feature.

        extra: The extra that installs the packages.
    """

    wanted: str
    extra: str

    def __str__(self) -> str:
        return (
            f"{self.wanted} needs packages that are not installed; "
            f'pip install "conversation-state[{self.extra}]"'
        )
