"""What a token counter promises to those who call it."""

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
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.testing._comparison import assert_same_on_copies, decoded
from conversation_state.testing.contracts._contract import Contract, check_contract, law
from conversation_state.testing.contracts._coverage import cover_values
from conversation_state.testing.contracts._examples import MESSAGES
from conversation_state.testing.strategies import texts
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


def _make_parts(role: str, pieces: list[str]) -> Message:
    return _MAKERS[role]([TextPart(each) for each in pieces])


def _make_call(*arguments: str, name: str = "search") -> AssistantMessage:
    calls = [
        ToolCall(f"call_{number}", name, text)
        for number, text in enumerate(arguments, 1)
    ]
    return AssistantMessage(tool_calls=calls)


def _list_pairs() -> list[tuple[Message, Message]]:
    """Messages with a short text, each with the same one with a long text."""
    short, long = "Where to? ", "Where to? " * 100
    pairs: list[tuple[Message, Message]] = [(_make_call(short), _make_call(long))]
    pairs.append((_make_call("{}", short), _make_call("{}", long)))
    for role, make in _MAKERS.items():
        pairs.append((make(short), make(long)))
        pairs.append((_make_parts(role, [short]), _make_parts(role, [long])))
        # Longer than what a careless counter cuts off.
        words = "where to " * _WORDS
        pairs.append((make(words[: len(words) // 2]), make(words)))

    asked, called = AssistantMessage(short), _make_call(short)
    pairs += [
        # The same text, and a call beside it.
        (asked, asked.replace(tool_calls=called.tool_calls)),
        (called, _make_call(short, short)),
        (called, _make_call(short, name="search trains " * 50)),
        (AssistantMessage([RefusalPart(short)]), AssistantMessage([RefusalPart(long)])),
        (
            AssistantMessage([TextPart(short), RefusalPart(short)]),
            AssistantMessage([TextPart(short), RefusalPart(long)]),
        ),
    ]
    return pairs


def _list_thoughts() -> list[tuple[Message, Message]]:
    short, long = "Where to? ", "Where to? " * 100
    return [
        (
            AssistantMessage([ReasoningPart(short)]),
            AssistantMessage([ReasoningPart(long)]),
        ),
        (
            AssistantMessage([ReasoningPart(short), TextPart(short)]),
            AssistantMessage([ReasoningPart(long), TextPart(short)]),
        ),
    ]


def _list_media() -> list[tuple[Message, Message]]:
    """Messages with a text, each with the same one that also has an image or a file."""
    text = TextPart("What is it?")
    media = [
        ImagePart(data=b"GIF89a", media_type="image/gif"),
        ImagePart(url="https://example.com/a.png"),
        FilePart(data=b"%PDF-1.7", media_type="application/pdf", name="a.pdf"),
        AudioPart(data=b"RIFF" * 500, media_type="audio/wav"),
    ]
    pairs: list[tuple[Message, Message]] = []
    for part in media:
        pairs.append((UserMessage([text]), UserMessage([text, part])))
        pairs.append(
            (
                ToolMessage([text], tool_call_id="call_1"),
                ToolMessage([text, part], tool_call_id="call_1"),
            )
        )

    return pairs


def _list_names() -> list[tuple[Message, Message]]:
    name = "Ann of the night train to Bern " * 3
    return [
        (UserMessage("Hi!"), UserMessage("Hi!", name=name)),
        (AssistantMessage("Hi!"), AssistantMessage("Hi!", name=name)),
    ]


_WORDS = 2_500  # twice of "where to"
_ROUNDING = 2  # tokens of a text: a scaled counter rounds twice


_PAIRS = cover_values([*_list_pairs(), *_list_thoughts(), *_list_media()])
_PAIRS_OF_NAMES = cover_values(_list_names())


class CounterContract(Contract):
    """
    The laws of a token counter: a function from a message to its tokens.

    Attributes:
        counter: The counter; a function as a static method.
        messages: The messages it counts, as a strategy; any message by default.
        fresh: Makes a counter that has counted nothing yet, for one that caches counts;
            None for one that caches nothing.
    """

    kind, subject = "token counters", "counter"
    expected = "a function from a message to its tokens"
    counter: TokenCounter
    messages: SearchStrategy[Message] = MESSAGES

    @law(message="messages")
    def test_counts_every_message(self, message: Message) -> None:
        """Of every message comes an integer, 0 or more."""
        tokens: Any = self.counter(message)

        # Not isinstance(): NumPy's integers, for example, are integers, too.
        assert hasattr(tokens, "__index__") and tokens >= 0, (  # noqa: PT018
            f"expected an integer from 0 on, got {shorten_repr(tokens)}"
        )
        self._note_first(message, tokens)

    @law(message="messages")
    def test_is_deterministic(self, message: Message) -> None:
        """The same message has the same count each time, also after other messages."""
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

    @law(messages=_PAIRS)
    def test_counts_what_is_sent(self, messages: tuple[Message, Message]) -> None:
        """
        A long text has more tokens than a short one: of every role, as a part, and as
        the arguments of a call, also of the second one in a message; and 5,000 words
        have more than half of them. So it is with refusals and thoughts, with a call
        beside a text, and with the name of the function; and an image, a file or a
        sound has tokens, in a result as well.
        """
        self._check_more(*messages)

    @law(is_extra=True, messages=_PAIRS_OF_NAMES)
    def test_counts_names(self, messages: tuple[Message, Message]) -> None:
        """A message with a long name has more tokens than without one."""
        self._check_more(*messages)

    def _check_more(self, less: Message, more: Message) -> None:
        fewer, tokens = self.counter(less), self.counter(more)

        assert fewer < tokens, f"{fewer} tokens, and {tokens} for the larger message"

    @law(needs="fresh", message="messages")
    def test_same_as_a_fresh_one(self, message: Message) -> None:
        """
        What it remembers changes nothing: one that has counted no other message gives
        the same.
        """
        self._assert_fresh(lambda contract, each: contract.counter(each), message)


def check_counter(
    counter: TokenCounter,
    *,
    without: Collection[str] = (),
    also: Collection[str] = (),
    fresh: Callable[[], TokenCounter] | None = None,
    messages: SearchStrategy[Message] | None = None,
    settings: Settings | None = None,
) -> None:
    """
    Hold a token counter to the laws of `CounterContract`: it counts every message, the
    same each time and for equal messages, and is additive.

    Calls *counter* about three thousand times.

    Trimming needs only non-negative integers that stay the same: a scale of your own is
    checked ``without=["is additive"]``. A counter that caches counts is checked with
    *fresh*, which makes one with an empty cache: a count that is cached under a wrong
    key differs. Names are counted on request: ``also=["counts names"]``. The options
    are the attributes of the class, and Hypothesis' settings.

    Raises:
        BrokenLawsError: If it breaks a law, with the smallest message that shows it as
            code.

    >>> from conversation_state.counting import by_characters
    >>> check_counter(by_characters)
    """
    __tracebackhide__ = True
    options = {"without": without, "also": also, "fresh": fresh, "messages": messages}
    check_contract(CounterContract, counter, settings, **options)
