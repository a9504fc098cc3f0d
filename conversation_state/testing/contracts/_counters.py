"""
What a token counter promises to those who call it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state._wording import shorten_repr
from conversation_state.counting import TokenCounter
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import TextPart
from conversation_state.testing._comparison import assert_same_on_copies, decoded
from conversation_state.testing._drawing import rarely
from conversation_state.testing.contracts._contract import Contract, check_contract, law
from conversation_state.testing.strategies import messages, texts
from conversation_state.tools import ToolCall

_MAKERS: dict[str, Callable[[Any], Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": lambda content: ToolMessage(content, tool_call_id="call_1"),
}
_PIECES = st.lists(
    st.sampled_from(["Where to? " * 5, "To Bern, by train.\n" * 5])
    | texts(max_size=20),
    min_size=1,
    max_size=4,
)
# Texts that an encoding may refuse or read as a special token, and calls whose
# arguments are not JSON.
_ODD = st.sampled_from(
    [
        UserMessage("What is <|endoftext|>?"),
        AssistantMessage(tool_calls=[ToolCall("call_1", "search", "")]),
    ]
)


def _make_parts(role: str, pieces: list[str]) -> Message:
    return _MAKERS[role]([TextPart(each) for each in pieces])


def _make_call(*arguments: str) -> Message:
    calls = [
        ToolCall(f"call_{number}", "search", text)
        for number, text in enumerate(arguments, 1)
    ]
    return AssistantMessage(tool_calls=calls)


def _list_pairs() -> list[tuple[Message, Message]]:
    """
    Messages with a short text, each with the same one with a long text.
    """
    short, long = "Where to? ", "Where to? " * 100
    pairs = [(_make_call(short), _make_call(long))]
    pairs.append((_make_call("{}", short), _make_call("{}", long)))
    for role, make in _MAKERS.items():
        pairs.append((make(short), make(long)))
        pairs.append((_make_parts(role, [short]), _make_parts(role, [long])))

    return pairs


_ROUNDING = 2  # tokens of a text: a scaled counter rounds twice


class CounterContract(Contract):
    """
    The laws of a token counter: a function from a message to its tokens.

    Attributes:
        counter: The counter; a function as a static method.

        messages: The messages it counts, as a strategy; any message by default.
    """

    kind, subject = "token counters", "counter"
    expected = "a function from a message to its tokens"
    counter: TokenCounter
    messages: SearchStrategy[Message] = rarely(messages(), _ODD)

    @law(message="messages")
    def test_counts_every_message(self, message: Message) -> None:
        """
        Of every message comes an integer, 0 or more.
        """
        tokens: Any = self.counter(message)

        # Not isinstance(): NumPy's integers, for example, are integers, too.
        assert hasattr(tokens, "__index__") and tokens >= 0, (  # noqa: PT018
            f"expected an integer from 0 on, got {shorten_repr(tokens)}"
        )
        self._note_first(message, tokens)

    @law(message="messages")
    def test_is_deterministic(self, message: Message) -> None:
        """
        The same message has the same count each time, also after other messages.
        """
        self._assert_repeatable(self.counter, message)

    @law(message="messages")
    def test_same_on_copies(self, message: Message) -> None:
        """
        Equal messages have the same count: one that was encoded and decoded, and one
        that was pickled.
        """
        assert_same_on_copies(self.counter, message, decode=decoded)

    @law()
    def test_is_equal_to_itself(self) -> None:
        """
        The counter is equal to itself, so that a message is counted once in its life:
        counts are cached under their counter.
        """
        assert self.counter == self.counter, "counter == counter is not true"

    @law(message=st.builds(_make_parts, st.sampled_from(sorted(_MAKERS)), _PIECES))
    def test_is_additive(self, message: Message) -> None:
        """
        A message with several texts has what each of them has in a message of its
        own, and what the message has without any once; within two tokens for a text.
        """
        empty = self.counter(message.replace(content=[]))
        alone = [
            self.counter(message.replace(content=[part])) - empty
            for part in message.parts
        ]
        together = self.counter(message) - empty

        assert abs(sum(alone) - together) <= _ROUNDING * len(alone), (
            f"together {together} tokens, alone {alone}, each without {empty}"
        )

    @law(messages=st.sampled_from(_list_pairs()))
    def test_counts_what_is_sent(self, messages: tuple[Message, Message]) -> None:
        """
        A long text has more tokens than a short one: of every role, as a part, and as
        the arguments of a call, also of the second one in a message.
        """
        short, long = map(self.counter, messages)

        assert short < long, f"{short} tokens, and {long} for 100 times the text"


def check_counter(
    counter: TokenCounter,
    *,
    without: Collection[str] = (),
    messages: SearchStrategy[Message] | None = None,
    settings: Settings | None = None,
) -> None:
    """
    Hold a token counter to the laws of `CounterContract`: it counts every message, the
    same each time and for equal messages, and is additive.

    Calls *counter* about two thousand times.

    Trimming needs only non-negative integers that stay the same: a scale of your own is
    checked ``without=["is additive"]``. The options are the attributes of the class,
    and Hypothesis' settings.

    Raises:
        BrokenLawsError:
            If it breaks a law, with the smallest message that shows it as code.

    >>> from conversation_state.counting import by_characters
    >>> check_counter(by_characters)
    """
    check_contract(
        CounterContract, counter, settings, without=without, messages=messages
    )
