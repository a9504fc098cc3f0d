"""
Views, budgets, models and prices.
"""

from __future__ import annotations

from typing import Any

from conversation_state._wording import format_count, shorten_repr
from conversation_state.errors._values import ConversationStateError

__all__ = [
    "BudgetExceededError",
    "CompactionError",
    "DroppedHistoryError",
    "InvalidTranscriptError",
    "MissingVocabularyError",
    "UnknownModelError",
    "UnpricedError",
]


class InvalidTranscriptError(ConversationStateError, ValueError):
    """
    No valid view of a conversation contains its newest message.

    Attributes:
        problems: What a provider would refuse, a sentence each.

        summaries: The summaries made so far, for the next view's *previous*.

        summary_responses: The responses of those made in this view.
    """

    problems: tuple[str, ...]
    # Set by `trim` if summaries were made before the error: they cost tokens, and would
    # be lost with the view.
    summaries: tuple[Any, ...] = ()
    summary_responses: tuple[Any, ...] = ()

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return (
            "no view of this conversation that holds its newest message is valid: "
            f"{'; '.join(self.problems)}. Remove or repair the messages named."
        )


class DroppedHistoryError(InvalidTranscriptError):
    """
    A view leaves messages out because a place in the conversation is invalid.

    Not raised: it is the error of a `TrimContext.failures` entry.

    Attributes:
        problems: What is invalid, one sentence.

        seqs: The positions of the messages concerned.

        dropped: How many messages the view leaves out because of it.
    """

    seqs: tuple[int, ...]
    dropped: int

    def __init__(
        self, problems: tuple[str, ...], seqs: tuple[int, ...], dropped: int
    ) -> None:
        # Not the parent's, which would make the problems the only argument of a pickle.
        ConversationStateError.__init__(self, problems, seqs, dropped)
        self.problems = problems
        self.seqs = seqs
        self.dropped = dropped

    def __str__(self) -> str:
        why = "; ".join(self.problems)
        if not self.dropped:
            return f"the view shows a message without its invalid part: {why}"

        messages = format_count(self.dropped, "message")
        return f"the view leaves out {messages}: {why}"

    def __eq__(self, other: object) -> bool:
        # Views contain these errors, and are compared by content.
        if not isinstance(other, DroppedHistoryError):
            return NotImplemented

        return self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)


class BudgetExceededError(ConversationStateError, ValueError):
    """
    Even the smallest valid view of a conversation is over the budget.

    Attributes:
        needed_tokens: The tokens of the smallest valid view.

        limit_tokens: The tokens that the budget leaves for it.

        summaries: The summaries made so far, for the next view's *previous*.

        summary_responses: The responses of those made in this view.
    """

    needed_tokens: int
    limit_tokens: int
    # On the class, as above: facts that come later are not arguments of the error.
    summaries: tuple[Any, ...] = ()
    summary_responses: tuple[Any, ...] = ()

    def __init__(self, needed_tokens: int, limit_tokens: int) -> None:
        super().__init__(needed_tokens, limit_tokens)
        self.needed_tokens = needed_tokens
        self.limit_tokens = limit_tokens

    def __str__(self) -> str:
        return (
            "can't fit this conversation: the smallest valid view needs "
            f"{self.needed_tokens:,} tokens and the budget leaves "
            f"{self.limit_tokens:,}. Shorten its longest messages (tool results: "
            "shorten_tool_results) or raise context_window."
        )


class CompactionError(ConversationStateError, ValueError):
    """
    Messages that one message can't replace, or an invalid summary.

    Attributes:
        problem: The problem.

        seqs: The positions of the messages.

        summaries: The summaries made so far, for the next view's *previous*.

        summary_responses: The responses of those made in this view.
    """

    problem: str
    seqs: tuple[int, ...]
    summaries: tuple[Any, ...] = ()
    summary_responses: tuple[Any, ...] = ()

    def __init__(self, problem: str, seqs: tuple[int, ...]) -> None:
        super().__init__(problem, seqs)
        self.problem = problem
        self.seqs = seqs

    def __str__(self) -> str:
        few = [f"messages[{seq}]" for seq in self.seqs[:1] + self.seqs[1:][-1:]]
        return f"can't compact {' to '.join(few)}: {self.problem}"


class UnknownModelError(ConversationStateError, LookupError):
    """
    A model that a registry does not have.

    Attributes:
        model: The name of the model.

        registry: The registry.

        near: Similar names that it has, the most similar first.
    """

    model: str
    registry: str
    near: tuple[str, ...]

    def __init__(self, model: str, registry: str, near: tuple[str, ...] = ()) -> None:
        super().__init__(model, registry, near)
        self.model = model
        self.registry = registry
        self.near = near

    def __str__(self) -> str:
        shown = f"{self.registry} knows no model {shorten_repr(self.model)}"
        if not self.near:
            return (
                f"{shown}, nor any that is written like it; check the name, or "
                f"install a newer {self.registry}"
            )

        return f"{shown}; did you mean {' or '.join(map(repr, self.near))}?"


class UnpricedError(ConversationStateError, ValueError):
    """
    Usage without a known price.

    Attributes:
        model: The model.

        why: What has no price.
    """

    model: str
    why: str

    def __init__(self, model: str, why: str) -> None:
        super().__init__(model, why)
        self.model = model
        self.why = why

    def __str__(self) -> str:
        of = f" of {self.model!r}" if self.model else ""
        return f"can't price this usage{of}: {self.why}"


class MissingVocabularyError(ConversationStateError, FileNotFoundError):
    """
    A tokenizer needs a file that is missing; it is not downloaded automatically.

    Attributes:
        vocabulary: The vocabulary in the file.

        url: The URL it can be downloaded from.

        places: The paths that were searched.
    """

    vocabulary: str
    url: str
    places: tuple[str, ...]

    def __init__(self, vocabulary: str, url: str, places: tuple[str, ...]) -> None:
        # An OSError reads its arguments as a number, a text and a file.
        super().__init__()
        self.args = (vocabulary, url, places)
        self.vocabulary = vocabulary
        self.url = url
        self.places = places

    def __str__(self) -> str:
        return (
            f"the vocabulary {self.vocabulary} is not here, and is never downloaded "
            f"by itself. Download {self.url} and give its path, or the folder it is "
            f"in, as files, or name the folder in TIKTOKEN_CACHE_DIR. Looked for "
            f"{', '.join(self.places)}"
        )
