"""
Comparing two states, beside comparing two plain lists entry by entry.

Two forks that differ in ten messages are compared in under a millisecond,
whether they remember a hundred messages or a million; the cost grows with the
difference. With a state that was decoded each message is compared once, and is known
from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import cycle, islice

from benchmarks.measure import Row, seconds, seconds_each
from benchmarks.recordings import airline
from conversation_state import (
    Aggregator,
    AssistantMessage,
    Message,
    Usage,
    UserMessage,
    decode,
    encode,
)
from conversation_state.aggregator import Entry
from conversation_state.diffing import Diff, diff

MESSAGES = (
    UserMessage("When does the next train to Bern leave, and is it on time?"),
    AssistantMessage("It leaves at 12:30 from platform 4, and it is on time."),
)


def _make_branch(state: Aggregator, count: int, word: str) -> Aggregator:
    """A fork with *count* more messages, every second one of its own."""
    fork = state.fork()
    for at in range(count):
        fork = fork.add(MESSAGES[1] if at % 2 else UserMessage(f"{word} {at}?"))
        fork = fork.add_usage(Usage(1_000, 50))

    return fork


def _compare_lists(a: list[Entry], b: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The same of plain lists: how far they agree, and what only one has."""
    common = 0
    for ours, theirs in zip(a, b, strict=False):
        if ours is not theirs and ours != theirs:
            break

        common += 1

    ids_a = {entry.id for entry in a[common:]}
    ids_b = {entry.id for entry in b[common:]}
    return (
        [entry for entry in a[common:] if entry.id not in ids_b],
        [entry for entry in b[common:] if entry.id not in ids_a],
    )


def _format_diffs(found: list[Diff], name: str) -> list[str]:
    return [getattr(one, name)() for one in found]


def rows() -> Iterator[Row]:
    """By what both remember, by what differs, shown, and of recorded runs."""
    for n in (100, 10_000, 1_000_000):
        state = Aggregator.new(messages=islice(cycle(MESSAGES), n))
        a, b = _make_branch(state, 5, "Why"), _make_branch(state, 5, "How")
        found = diff(a, b)
        assert (n, 5, 5, 2) == (
            found.common,
            len(found.only_a),
            len(found.only_b),
            len(found.same),
        )
        lists = list(a.entries), list(b.entries)
        assert (list(found.only_a), list(found.only_b)) == _compare_lists(*lists)
        took = seconds_each(partial(diff, a, b)) * 1e6
        peer = seconds(partial(_compare_lists, *lists), for_s=0.1) * 1e6
        yield Row("diff, ten messages differ", n, took, "two lists", peer, "µs")

        took = seconds_each(partial(diff, a, a)) * 1e6
        yield Row("diff of a state and itself", n, took, unit="µs")
        joined = a.join(b)
        took = seconds_each(partial(diff, b, joined)) * 1e6
        yield Row("diff of a fork and the join", n, took, unit="µs")
        took = seconds_each(partial(str, found)) * 1e6
        yield Row("str of a diff", n, took, unit="µs")
        took = seconds_each(found.html) * 1e6
        yield Row("html of a diff", n, took, unit="µs")
        if n <= 10_000:
            stranger = decode(encode(b), expect=Aggregator)
            took = seconds(partial(diff, a, stranger), for_s=0.1) * 1e6
            yield Row("diff with a decoded state", n, took, unit="µs")

    state = Aggregator.new(messages=islice(cycle(MESSAGES), 10_000))
    for k in (10, 1_000, 100_000):
        a, b = _make_branch(state, k // 2, "Why"), _make_branch(state, k // 2, "How")
        took = seconds(partial(diff, a, b), for_s=0.1) * 1e6
        yield Row("diff by what differs, of 10,000", k, took, unit="µs")
        took = seconds(partial(str, diff(a, b)), for_s=0.1) * 1e6
        yield Row("str by what differs", k, took, unit="µs")

    yield from _compare_recordings(airline())


def _compare_recordings(conversations: list[tuple[Message, ...]]) -> Iterator[Row]:
    """The two runs of every task, compared and shown."""
    pairs = [
        (Aggregator.new(messages=one), Aggregator.new(messages=other))
        for one, other in zip(conversations[::2], conversations[1::2], strict=True)
    ]
    if not pairs:
        return

    size = sum(len(a) + len(b) for a, b in pairs)
    found = [diff(a, b) for a, b in pairs]
    took = seconds(lambda: [diff(a, b) for a, b in pairs], for_s=0.1)
    yield Row("diff of two recorded runs", size, took / len(pairs) * 1e6, unit="µs")
    for name in ("text", "markdown", "html"):
        took = seconds(partial(_format_diffs, found, name), for_s=0.1)
        claim = f"{name} of such a diff"
        yield Row(claim, size, took / len(pairs) * 1e6, unit="µs")
