"""Views, budgets, models and prices."""

from __future__ import annotations

from typing import Any

import attrs

from conversation_state._wording import format_count, shorten_repr
from conversation_state.errors._values import ConversationStateError


@attrs.define(slots=False, repr=False, eq=False)
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
    summaries: tuple[Any, ...] = attrs.field(default=(), init=False)
    summary_responses: tuple[Any, ...] = attrs.field(default=(), init=False)

    def __str__(self) -> str:
        return (
            "no view of this conversation that holds its newest message is valid: "
            f"{'; '.join(self.problems)}. Remove or repair the messages named."
        )


@attrs.define(slots=False, repr=False, eq=False)
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


@attrs.define(slots=False, repr=False, eq=False)
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
    summaries: tuple[Any, ...] = attrs.field(default=(), init=False)
    summary_responses: tuple[Any, ...] = attrs.field(default=(), init=False)

    def __str__(self) -> str:
        return (
            "can't fit this conversation: the smallest valid view needs "
            f"{self.needed_tokens:,} tokens and the budget leaves "
            f"{self.limit_tokens:,}. Shorten its longest messages (tool results: "
            "shorten_tool_results) or raise context_window."
        )


@attrs.define(slots=False, repr=False, eq=False)
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
    summaries: tuple[Any, ...] = attrs.field(default=(), init=False)
    summary_responses: tuple[Any, ...] = attrs.field(default=(), init=False)

    def __str__(self) -> str:
        few = [f"messages[{seq}]" for seq in self.seqs[:1] + self.seqs[1:][-1:]]
        return f"can't compact {' to '.join(few)}: {self.problem}"


@attrs.define(slots=False, repr=False, eq=False)
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
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = f"{self.registry} knows no model {shorten_repr(self.model)}"
        if not self.near:
            return (
                f"{shown}, nor any that is written like it; check the name, or "
                f"install a newer {self.registry}"
            )

        return f"{shown}; did you mean {' or '.join(map(repr, self.near))}?"


@attrs.define(slots=False, repr=False, eq=False)
class UnpricedError(ConversationStateError, ValueError):
    """
    Usage without a known price.

    Attributes:
        model: The model.

        why: What has no price.
    """

    model: str
    why: str

    def __str__(self) -> str:
        of = f" of {self.model!r}" if self.model else ""
        return f"can't price this usage{of}: {self.why}"


@attrs.define(slots=False, repr=False, eq=False)
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

    def __str__(self) -> str:
        return (
            f"the vocabulary {self.vocabulary} is not here, and is never downloaded "
            f"by itself. Download {self.url} and give its path, or the folder it is "
            f"in, as files, or name the folder in TIKTOKEN_CACHE_DIR. Looked for "
            f"{', '.join(self.places)}"
        )
