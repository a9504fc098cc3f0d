"""
Timelines of states that share, beside a list of states and one document each.

A step takes some 120 bytes beside its state. Undo and redo take half a microsecond,
and committing beside a future that was given up two, from 100 to 1,000,000 moments.
To commit takes one microsecond at 100 moments and three at 1,000,000: what is more is
the collector's, which visits what is kept. A timeline of 1,000 states over 1,000
messages of 400 characters is a tenth larger than its longest state alone when encoded,
and a document for each state takes 450 times as much. Encoding takes 5 to 7 and
decoding 8 microseconds for each state, beside those for each message.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.measure import Row, bytes_kept, seconds, seconds_each
from conversation_state import Aggregator, UserMessage, decode, encode
from conversation_state.timeline import Timeline

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
TEXT = "All work and no play makes Jack a dull boy. " * 9 + "Yes."


def _commit_all(states: list[Any]) -> Timeline[Any]:
    timeline: Timeline[Any] = Timeline.begin(None)
    for state in states:
        timeline = timeline.commit(state)

    return timeline


def _keep_timelines(states: list[Any]) -> list[Any]:
    timelines: list[Any] = [Timeline.begin(None)]
    for state in states:
        timelines.append(timelines[-1].commit(state))

    return timelines


def _append_all(states: list[Any]) -> list[Any]:
    past: list[Any] = []
    for state in states:
        past.append(state)  # noqa: PERF402 - a step at a time, as it is committed

    return past


def _commit_with_limit(states: list[Any]) -> Timeline[Any]:
    timeline: Timeline[Any] = Timeline.begin(None, limit=max(len(states) // 2, 1))
    for state in states:
        timeline = timeline.commit(state)

    return timeline


def rows() -> Iterator[Row]:
    """Rows for steps, and for a conversation with every state kept."""
    for n in SIZES:
        yield from _measure_steps(n)

    for n in (100, 1_000):
        yield from _measure_writing(n)


def _measure_steps(n: int) -> Iterator[Row]:
    states = [object() for _ in range(n)]
    timeline = _commit_all(states)
    assert n + 1 == len(timeline.moments)
    if n <= 100_000:
        ours, peer = (
            bytes_kept(partial(f, states)) / n for f in (_commit_all, _append_all)
        )
        yield Row("memory of a step", n, ours, "list", peer, "bytes")
        kept = bytes_kept(partial(_keep_timelines, states)) / n
        yield Row("memory of a step, every timeline kept", n, kept, unit="bytes")

    each = 1e9 / n
    least = 1 if n > 100_000 else 3
    ours = seconds(partial(_commit_all, states), least=least) * each
    peer = seconds(partial(_append_all, states), least=least) * each
    yield Row("commit", n, ours, "list.append", peer)
    limited = seconds(partial(_commit_with_limit, states), least=least) * each
    yield Row("commit under a limit of half as many", n, limited)
    back, middle = timeline.undo(), timeline.goto(n // 2)
    assert back.redo() == timeline
    assert [states[n // 2], states[-1]] == [
        each.state for each in middle.commit(states[n // 2]).tips
    ][::-1]
    for claim, function in (
        ("undo", timeline.undo),
        ("redo", back.redo),
        ("commit beside a future", partial(middle.commit, TEXT)),
    ):
        yield Row(claim, n, seconds_each(function) * 1e9)

    took = seconds(partial(timeline.goto, n // 2), least=least) * each * 2
    yield Row("goto, for each moment passed", n, took)


def _measure_writing(n: int) -> Iterator[Row]:
    state = Aggregator.new()
    timeline = Timeline.begin(state)
    for _ in range(n):
        state = state.add(UserMessage(TEXT))
        timeline = timeline.commit(state)

    wire, longest = encode(timeline), encode(state)
    assert timeline == decode(wire)
    assert 2 * n > len(wire) / len(TEXT)
    alone = sum(len(encode(each.state)) for each in timeline.moments)
    for beside, size in (("the longest state", len(longest)), ("each state", alone)):
        yield Row("encoded timeline", n, len(wire), beside, size, "bytes")

    for claim, write, other in (
        ("encode a timeline", partial(encode, timeline), partial(encode, state)),
        ("decode a timeline", partial(decode, wire), partial(decode, longest)),
    ):
        took, single = seconds(write) * 1e3, seconds(other) * 1e3
        yield Row(claim, n, took, "the longest state", single, "ms")

    ours, peer = (bytes_kept(partial(decode, each)) / n for each in (wire, longest))
    yield Row(
        "memory of a decoded message", n, ours, "the longest state", peer, "bytes"
    )
