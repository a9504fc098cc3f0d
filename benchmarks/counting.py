"""
Counting 10,000 messages, for the first time and again, beside the bare encoder
and LangChain's estimate.

A message that was counted before costs 200 ns with any counter, also with an equal
one that was made again: a hundredth of encoding it. For the first time
`by_encoding` takes at most a third more than the encoder alone.

The vocabulary is Mistral's, because no package includes OpenAI's; the encoder is
tiktoken for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.measure import LeftOut, Row, seconds
from conversation_state import AssistantMessage, Message, UserMessage
from conversation_state.counting import (
    TokenCounter,
    by_characters,
    by_encoding,
    calibrated,
    count,
)

N = 10_000
TEXT = "It leaves at 12:30 from platform 4, and arrives in Bern at 13:26. " * 6


def _make_messages() -> list[Message]:
    return [
        AssistantMessage(f"{i} {TEXT}") if i % 2 else UserMessage(f"{i} {TEXT}")
        for i in range(N)
    ]


def _time_first_count(make: Callable[[], TokenCounter]) -> float:
    """
    Seconds to count messages that were never counted before, without the time to make
    them.
    """
    fresh = [_make_messages() for _ in range(3)]
    counter, unread = make(), iter(fresh)
    return seconds(lambda: _count_all(next(unread), counter), least=3, for_s=0)


def _count_all(messages: Sequence[Message], counter: TokenCounter) -> int:
    return sum([count(message, counter) for message in messages])


def _count_anew(messages: Sequence[Message], make: Callable[[], TokenCounter]) -> int:
    return _count_all(messages, make())


def _make_langchain_counter() -> Callable[[], Any]:
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.messages.utils import count_tokens_approximately

    theirs = [
        AIMessage(f"{i} {TEXT}") if i % 2 else HumanMessage(f"{i} {TEXT}")
        for i in range(N)
    ]
    return partial(count_tokens_approximately, theirs)


def rows() -> Iterator[Row | LeftOut]:
    """Each counter twice; times are for one message."""
    sample = [(_make_messages()[:10], 2_000)]
    approximate = seconds(_make_langchain_counter())
    estimates: dict[str, Callable[[], TokenCounter]] = {
        "by_characters": lambda: by_characters,
        "calibrated": lambda: calibrated(by_characters, sample),
    }
    for name, make in estimates.items():
        yield from _measure_both(name, make, "LangChain's estimate", approximate)

    try:
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    except ModuleNotFoundError as error:
        yield LeftOut("counting, by_encoding", str(error))
        return

    tokenizer: Any = MistralTokenizer.v3(is_tekken=True).instruct_tokenizer.tokenizer
    encoding = tokenizer._model
    texts = [message.text for message in _make_messages()]
    bare = seconds(lambda: [len(encoding.encode_ordinary(text)) for text in texts])
    yield from _measure_both(
        "by_encoding",
        lambda: by_encoding(encoding.encode_ordinary),
        "tiktoken alone",
        bare,
    )


def _measure_both(
    name: str, make: Callable[[], TokenCounter], beside: str, peer: float
) -> Iterator[Row]:
    messages = _make_messages()
    total = _count_anew(messages, make)
    assert total == sum(map(make(), messages))
    first = _time_first_count(make)
    again = seconds(partial(_count_anew, messages, make))
    each = 1e9 / N
    yield Row(f"{name}, first", N, first * each, beside, peer * each)
    yield Row(f"{name}, again", N, again * each, beside, peer * each)
