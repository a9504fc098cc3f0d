"""
What a summariser owes to the steps that call it: `compact` and `rolling_summary`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, TypeAlias

from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis.strategies import SearchStrategy

from conversation_state._wording import shorten_repr
from conversation_state.counting import TokenCounter, by_characters
from conversation_state.messages import AssistantMessage, Message, UserMessage
from conversation_state.testing._comparison import (
    assert_same_on_copies,
    compare_messages,
    decoded_each,
)
from conversation_state.testing.contracts._contract import (
    Contract,
    call,
    check_contract,
    law,
)
from conversation_state.testing.contracts._examples import ENDED_CONVERSATIONS
from conversation_state.trimming import compact, trim
from conversation_state.usage import Usage

__all__ = ["Summariser", "SummariserContract", "check_summariser"]

Summariser: TypeAlias = Callable[
    [tuple[Message, ...]], Awaitable[str | Message] | str | Message
]


class SummariserContract(Contract):
    """
    The laws of a summariser: a function from messages to a text or a message that
    stands for them. It may be async.

    Attributes:
        summarise: The function, as a static method or a method.

        conversations: What it summarises, as a strategy: tuples of one message or
            more, whose calls have results.

        max_tokens: How many tokens a summary may have; None if there is no limit.

        counter: What counts them.
    """

    kind, subject = "summarisers", "summarise"
    expected = "a function from messages to a text"
    summarise: Summariser
    conversations: SearchStrategy[tuple[Message, ...]] = ENDED_CONVERSATIONS
    max_tokens: int | None = None
    counter: TokenCounter = staticmethod(by_characters)

    def _make_message(self, messages: tuple[Message, ...]) -> Message:
        found: str | Message = call(self.summarise, messages)
        return UserMessage(found) if isinstance(found, str) else found

    def _observe(self, messages: tuple[Message, ...]) -> list[Message]:
        return compare_messages([self._make_message(messages)])

    @law(messages="conversations", is_first=True)
    def test_takes_every_conversation(self, messages: tuple[Message, ...]) -> None:
        """
        Of all messages comes a text or a message.
        """
        found: Any = call(self.summarise, messages)

        assert isinstance(found, (str, Message)), (
            f"expected a text or a message, got {shorten_repr(found, 200)}"
        )
        message = UserMessage(found) if isinstance(found, str) else found
        self._note_first(messages, compare_messages([message]))

    @law(messages="conversations")
    def test_stands_for_messages(self, messages: tuple[Message, ...]) -> None:
        """
        A view takes the summary in the place of the messages: it is not blank, makes
        no calls, and is not a result of a tool.
        """
        # Checked by the step that uses summaries, so that its rules exist only once. If
        # it refuses a summary, the view is unchanged and has a failure.
        step = compact(range(len(messages)), partial(call, self.summarise))
        view = trim(messages, None, step)

        assert not view.failures, f"{view.failures[0].error}"

    @law(messages="conversations")
    def test_summarises_summaries(self, messages: tuple[Message, ...]) -> None:
        """
        A summary is summarised with the messages that follow it, as turn after turn
        does.
        """
        first = self._make_message(messages)
        again: Any = call(self.summarise, (first, *messages))

        assert isinstance(again, (str, Message)), (
            f"of a summary comes {shorten_repr(again, 200)}"
        )

    @law(messages="conversations", others="conversations")
    def test_is_deterministic(
        self, messages: tuple[Message, ...], others: tuple[Message, ...]
    ) -> None:
        """
        The same messages have the same summary each time, also after other messages.
        """
        self._assert_repeatable(self._observe, messages, others)

    @law(messages="conversations")
    def test_same_on_copies(self, messages: tuple[Message, ...]) -> None:
        """
        Equal messages have the same summary: those that were encoded and decoded, and
        those that were pickled.
        """
        assert_same_on_copies(self._observe, messages, decode=decoded_each)

    @law(messages="conversations")
    def test_is_within_its_limit(self, messages: tuple[Message, ...]) -> None:
        """
        A summary of any length of conversation has at most *max_tokens*, if there is
        such a limit.
        """
        if self.max_tokens is not None:
            summary = self._make_message(messages * 50)
            tokens = self.counter(summary)
            assert tokens <= self.max_tokens, (
                f"{tokens} tokens, expected at most {self.max_tokens}"
            )

    @law(messages="conversations", others="conversations")
    def test_gives_responses_ids(
        self, messages: tuple[Message, ...], others: tuple[Message, ...]
    ) -> None:
        """
        Two summaries with a usage have two response ids, or none: under one id, only
        the first one's usage is recorded.
        """
        if messages != others:
            first = _read_response_id(call(self.summarise, messages))
            second = _read_response_id(call(self.summarise, others))
            assert not first or first != second, f"both have the id {first!r}"


def _read_response_id(summary: str | Message) -> str:
    """
    The id of the response if it has a usage, else "".
    """
    response = summary.response if isinstance(summary, AssistantMessage) else None
    # Without a usage nothing is recorded, and two responses may have one id.
    if response is None or response.usage in {None, Usage()}:
        return ""

    return response.id


def check_summariser(
    summarise: Summariser,
    *,
    without: Collection[str] = (),
    max_tokens: int | None = None,
    counter: TokenCounter = by_characters,
    conversations: SearchStrategy[tuple[Message, ...]] | None = None,
    settings: Settings | None = None,
) -> None:
    """
    Hold a function that summarises messages to the laws of `SummariserContract`:
    views take what it returns, and its usage can be recorded.

    Calls *summarise* about two thousand times, so give it a function in the place of
    its model.

    Args:
        summarise: The function, async or not.

        without: The laws that do not hold and need not: ``["is deterministic",
            "same on copies"]`` for one that asks a model.

        max_tokens: How many tokens a summary may have; None if there is no limit.

        counter: What counts these tokens.

        conversations: What it summarises; any conversation by default.

        settings: Hypothesis' settings; those of the active profile by default.

    Raises:
        BrokenLawsError:
            If it breaks a law, with the smallest conversation that shows it as code.

        TypeError:
            If *summarise* can't be called.

        ValueError:
            If *without* has an unknown name.

    >>> check_summariser(lambda messages: f"{len(messages)} messages", max_tokens=5)
    """
    check_contract(
        SummariserContract,
        summarise,
        settings,
        without=without,
        max_tokens=max_tokens,
        counter=counter,
        conversations=conversations,
    )
