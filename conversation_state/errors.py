"""
Everything this library raises on purpose, as one tree.

    ConversationStateError
    ├── InvalidUsageError (ValueError)         a count no provider can mean
    ├── InvalidPartError (ValueError)          a part that can't be what it says
    ├── InvalidMessageError (ValueError)       a message, a tool call or metadata
    ├── InvalidTranscriptError (ValueError)    no valid view with the newest message
    ├── BudgetExceededError (ValueError)       no valid view is small enough
    ├── MissingExtraError (ImportError)        install conversation-state[...]
    └── DecodeError (ValueError)               bytes that are no value of ours

Each leaf is also the builtin one would guess. Facts are attributes, and all of
them are arguments of the exception, so errors survive pickling.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "BudgetExceededError",
    "ConversationStateError",
    "DecodeError",
    "InvalidMessageError",
    "InvalidPartError",
    "InvalidTranscriptError",
    "InvalidUsageError",
    "MissingExtraError",
    "Problem",
]


class ConversationStateError(Exception):
    """
    The root: catches whatever this library raises on purpose.
    """


class InvalidUsageError(ConversationStateError, ValueError):
    """
    A count of tokens that no provider can mean, or a key paid twice.
    """


class InvalidPartError(ConversationStateError, ValueError):
    """
    A part of a message that can't be what it says it is.
    """


class InvalidMessageError(ConversationStateError, ValueError):
    """
    A message, tool call or piece of metadata that can't be what it says it is.
    """


class InvalidTranscriptError(ConversationStateError, ValueError):
    """
    No valid view of a conversation holds its newest message.

    Attributes:
        problems: What a provider would refuse, a sentence each.
    """

    problems: tuple[str, ...]

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return (
            "no view of this conversation that holds its newest message is valid: "
            f"{'; '.join(self.problems)}. Remove or repair the messages named."
        )


class BudgetExceededError(ConversationStateError, ValueError):
    """
    Even the smallest valid view of a conversation is over the budget.

    Attributes:
        needed_tokens: What the smallest valid view takes.

        limit_tokens: What the budget leaves for it.
    """

    needed_tokens: int
    limit_tokens: int

    def __init__(self, needed_tokens: int, limit_tokens: int) -> None:
        super().__init__(needed_tokens, limit_tokens)
        self.needed_tokens = needed_tokens
        self.limit_tokens = limit_tokens

    def __str__(self) -> str:
        return (
            "can't fit this conversation: the smallest valid view needs "
            f"{self.needed_tokens:,} tokens and the budget leaves "
            f"{self.limit_tokens:,}. Shorten its longest messages or raise "
            "context_window."
        )


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


class DecodeError(ConversationStateError, ValueError):
    """
    Bytes or JSON values that are no value of this library.

    Attributes:
        problems: All that is wrong, each with its path; never empty.
    """

    problems: tuple[Problem, ...]

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        count = len(self.problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        return f"can't decode: {count} problem{'s'[: count != 1]}\n{lines}"
