"""
What a summariser owes to the steps that call it: `compact` and `rolling_summary`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeAlias

from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis.strategies import SearchStrategy

from conversation_state._wording import shorten_repr
from conversation_state.counting import TokenCounter, by_characters
from conversation_state.messages import AssistantMessage, Message, UserMessage
from conversation_state.testing.contracts._comparison import (
    assert_same,
    assert_same_later,
    compare_messages,
    decoded,
    unpickled,
)
from conversation_state.testing.contracts._contract import (
    Contract,
    check_contract,
    check_function,
    law,
    wait_for,
)
from conversation_state.testing.contracts._examples import ENDED_CONVERSATIONS
from conversation_state.trimming import acompact, atrim
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

    kind = "summarisers"
    summarise: Summariser
    conversations: SearchStrategy[tuple[Message, ...]] = ENDED_CONVERSATIONS
    max_tokens: int | None = None
    counter: TokenCounter = staticmethod(by_characters)

    async def _call_summarise(self, messages: tuple[Message, ...]) -> str | Message:
        found: str | Message = await wait_for(self.summarise(messages))
        return found

    async def _make_message(self, messages: tuple[Message, ...]) -> Message:
        found = await self._call_summarise(messages)
        return UserMessage(found) if isinstance(found, str) else found

    @law(messages="conversations", is_first=True)
    async def test_takes_every_conversation(
        self, messages: tuple[Message, ...]
    ) -> None:
        """
        Of all messages comes a text or a message.
        """
        found: Any = await self._call_summarise(messages)

        assert isinstance(found, (str, Message)), (
            f"expected a text or a message, got {shorten_repr(found, 200)}"
        )
        message = UserMessage(found) if isinstance(found, str) else found
        self._note_first(messages, compare_messages([message]))

    @law(messages="conversations")
    async def test_stands_for_messages(self, messages: tuple[Message, ...]) -> None:
        """
        A view takes the summary in the place of the messages: it is not blank, makes
        no calls, and is not a result of a tool.
        """
        # Checked by the step that uses summaries, so that its rules exist only once. If
        # it refuses a summary, the view is unchanged and has a failure.
        step = acompact(range(len(messages)), self._call_summarise)
        view = await atrim(messages, None, step)

        assert not view.failures, f"{view.failures[0].error}"

    @law(messages="conversations")
    async def test_summarises_summaries(self, messages: tuple[Message, ...]) -> None:
        """
        A summary is summarised with the messages that follow it, as turn after turn
        does.
        """
        first = await self._make_message(messages)
        again: Any = await self._call_summarise((first, *messages))

        assert isinstance(again, (str, Message)), (
            f"of a summary comes {shorten_repr(again, 200)}"
        )

    @law(messages="conversations", others="conversations")
    async def test_is_deterministic(
        self, messages: tuple[Message, ...], others: tuple[Message, ...]
    ) -> None:
        """
        The same messages have the same summary each time, also after other messages.
        """
        first = compare_messages([await self._make_message(messages)])
        again = compare_messages([await self._make_message(messages)])
        assert_same(first, again, "first {}, then {}")
        await self._call_summarise(others)
        later = compare_messages([await self._make_message(messages)])
        assert_same(first, later, "first {}, after the others {}")

        for example, result in self._note_first(messages, first):
            later = compare_messages([await self._make_message(example)])
            assert_same_later(example, result, later)

    @law(messages="conversations")
    async def test_same_on_copies(self, messages: tuple[Message, ...]) -> None:
        """
        Equal messages have the same summary: those that were encoded and decoded, and
        those that were pickled.
        """
        expected = compare_messages([await self._make_message(messages)])
        for how, copy in (
            ("decoded", tuple([decoded(each) for each in messages])),
            ("unpickled", unpickled(messages)),
        ):
            found = compare_messages([await self._make_message(copy)])
            assert_same(expected, found, f"{{}}, {how}: {{}}")

    @law(messages="conversations")
    async def test_is_within_its_limit(self, messages: tuple[Message, ...]) -> None:
        """
        A summary of any length of conversation has at most *max_tokens*, if there is
        such a limit.
        """
        if self.max_tokens is not None:
            summary = await self._make_message(messages * 50)
            tokens = self.counter(summary)
            assert tokens <= self.max_tokens, (
                f"{tokens} tokens, expected at most {self.max_tokens}"
            )

    @law(messages="conversations", others="conversations")
    async def test_gives_responses_ids(
        self, messages: tuple[Message, ...], others: tuple[Message, ...]
    ) -> None:
        """
        Two summaries with a usage have two response ids, or none: under one id, only
        the first one's usage is recorded.
        """
        if messages != others:
            first = _read_response_id(await self._call_summarise(messages))
            second = _read_response_id(await self._call_summarise(others))
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
    check_function("summarise", summarise, "a function from messages to a text")
    contract = SummariserContract()
    contract.summarise, contract.without = summarise, without
    contract.max_tokens, contract.counter = max_tokens, counter
    if conversations is not None:
        contract.conversations = conversations

    check_contract(contract, summarise, settings)
