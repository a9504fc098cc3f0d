"""
What a token counter promises to those who call it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection
from operator import index
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
from conversation_state.testing.contracts._comparison import (
    assert_same_later,
    decoded,
    unpickled,
)
from conversation_state.testing.contracts._contract import (
    Contract,
    check_contract,
    check_function,
    law,
    refuse_coroutine,
)
from conversation_state.testing.contracts._examples import draw_mostly
from conversation_state.testing.strategies import messages, texts
from conversation_state.tools import ToolCall

__all__ = ["CounterContract", "check_counter"]

_MAKERS: dict[str, Callable[[Any], Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": lambda content: ToolMessage(content, tool_call_id="call_1"),
}
_ROLES = st.sampled_from(sorted(_MAKERS))
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
_SHORT, _LONG = "Where to? ", "Where to? " * 100


def _make_parts(role: str, pieces: list[str]) -> Message:
    return _MAKERS[role]([TextPart(each) for each in pieces])


def _make_text(role: str, text: str) -> Message:
    return _MAKERS[role](text)


def _make_call(*arguments: str) -> Message:
    calls = [
        ToolCall(f"call_{number}", "search", text)
        for number, text in enumerate(arguments, 1)
    ]
    return AssistantMessage(tool_calls=calls)


# A message with a short text, and the same with a long one.
_PAIRS = [(_make_text(role, _SHORT), _make_text(role, _LONG)) for role in _MAKERS]
_PAIRS.append((_make_call(_SHORT), _make_call(_LONG)))
_PAIRS.append((_make_call("{}", _SHORT), _make_call("{}", _LONG)))
_ROUNDING = 2  # tokens of a text: a scaled counter rounds twice


class CounterContract(Contract):
    """
    The laws of a token counter: a function from a message to its tokens.

    Attributes:
        counter: The counter; a function as a static method.

        messages: The messages it counts, as a strategy; any message by default.
    """

    kind = "token counters"
    counter: TokenCounter
    messages: SearchStrategy[Message] = draw_mostly(messages(), _ODD)

    @law(message="messages", is_first=True)
    def test_counts_every_message(self, message: Message) -> None:
        """
        Of every message comes an integer, 0 or more.
        """
        result: Any = self.counter(message)
        refuse_coroutine(result)
        try:
            # Not isinstance(): NumPy's integers, for example, are integers, too.
            tokens = index(result)
        except TypeError:
            tokens = -1

        assert tokens >= 0, f"expected an integer from 0 on, got {shorten_repr(result)}"
        assert not isinstance(result, bool), f"expected an integer, got {result}"
        self._note_first(message, tokens)

    @law(message="messages", other="messages")
    def test_is_deterministic(self, message: Message, other: Message) -> None:
        """
        The same message has the same count each time, also after other messages.
        """
        first, again = self.counter(message), self.counter(message)
        self.counter(other)
        later = self.counter(message)

        assert first == again == later, f"first {first}, then {again}, then {later}"
        for example, result in self._note_first(message, first):
            assert_same_later(example, result, self.counter(example))

    @law(message="messages")
    def test_same_on_copies(self, message: Message) -> None:
        """
        Equal messages have the same count: one that was encoded and decoded, and one
        that was pickled.
        """
        expected = self.counter(message)
        for how, copy in (
            ("decoded", decoded(message)),
            ("unpickled", unpickled(message)),
        ):
            found = self.counter(copy)
            assert expected == found, f"{expected}, {how}: {found}"

    @law()
    def test_is_equal_to_itself(self) -> None:
        """
        The counter is equal to itself and to no other, so that a message is counted
        once in its life: counts are cached under their counter.
        """
        result: Any = self.counter == self.counter

        assert result is True, f"counter == counter is {shorten_repr(result)}"

        def other(_message: Message) -> int:
            return 0

        assert (self.counter == other) is False, "equal to another counter"

    @law(message="messages")
    def test_same_in_another_process(self, message: Message) -> None:
        """
        The counter counts the same after pickling, if it can be pickled.
        """
        try:
            data = pickle.dumps(self.counter)
        except Exception:  # noqa: BLE001 - any of __reduce__: it can't be pickled
            return

        copy: TokenCounter = pickle.loads(data)  # noqa: S301 - made here
        expected, found = self.counter(message), copy(message)

        assert expected == found, f"{expected}, unpickled: {found}"

    @law(message=st.builds(_make_parts, _ROLES, _PIECES))
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

    @law(message=st.builds(_make_text, _ROLES, texts(max_size=40)))
    def test_counts_texts_and_parts_alike(self, message: Message) -> None:
        """
        A text has as many tokens as a message's only part that is this text; within
        two.
        """
        bare = self.counter(message)
        part = self.counter(message.replace(content=[TextPart(message.text)]))

        assert abs(bare - part) <= _ROUNDING, f"{bare} tokens, and {part} as a part"

    @law(messages=st.sampled_from(_PAIRS))
    def test_counts_what_is_sent(self, messages: tuple[Message, Message]) -> None:
        """
        A long text has more tokens than a short one: of every role, and as the
        arguments of a call, also of the second one in a message.
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

    Args:
        counter: The counter.

        without: The laws that do not hold and need not: ``["is additive"]``, for
            example. Trimming needs only non-negative integers that stay the same.

        messages: The messages that it counts; any by default.

        settings: Hypothesis' settings; those of the active profile by default.

    Raises:
        BrokenLawsError:
            If it breaks a law, with the smallest message that shows it as code.

        TypeError:
            If *counter* can't be called.

        ValueError:
            If *without* has an unknown name.

    >>> from conversation_state.counting import by_characters
    >>> check_counter(by_characters)
    """
    check_function("counter", counter, "a function from a message to its tokens")
    contract = CounterContract()
    contract.counter, contract.without = counter, without
    contract.messages = CounterContract.messages if messages is None else messages
    check_contract(contract, counter, settings)
