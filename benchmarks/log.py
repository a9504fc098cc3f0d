"""
The log under every state, beside pyrsistent's pure Python pvector and a list.

Appending takes 120 ns at ten items and 230 at 1,000,000, at most 0.6 times what the
pvector takes; a kept version takes 80 to 140 bytes. With every version kept, an append
takes 1 µs at 1,000,000, as the collector visits what is kept; the pvector takes more
than twice as long. A `take` is done in 1 µs, an index in 0.2, a common prefix in 2.5,
flat in the length. Iterating takes 2.3 to 3.7 times as long as iterating a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyrsistent._pvector import python_pvector

from benchmarks.measure import Row, bytes_kept, seconds, seconds_each
from conversation_state._persistent import Log

SIZES = (10, 1_000, 10_000, 100_000, 1_000_000)


def _append_all(start: Any, n: int) -> Any:
    log = start
    for i in range(n):
        log = log.append(i)

    return log


def _keep_versions(start: Any, n: int) -> list[Any]:
    log, versions = start, [start] * n
    for i in range(n):
        log = log.append(i)
        versions[i] = log

    return versions


def _repeat_call(times: int, function: Callable[..., Any], *given: Any) -> None:
    for _ in range(times):
        function(*given)


def _index_all(of: Any, at: list[int]) -> None:
    for i in at:
        of[i]


def rows() -> Iterator[Row]:
    """A row for each line of the table in DESIGN, at sizes up to a million."""
    for n in SIZES:
        yield from _measure_writing(n)

    for n in SIZES:
        yield from _measure_reading(n)


def _measure_writing(n: int) -> Iterator[Row]:
    empty: Any = Log()
    theirs: Any = python_pvector()  # type: ignore[no-untyped-call]
    beside = "pvector, pure Python"
    times = max(1, 2_000 // n)
    each = 1e9 / (n * times)
    for claim, grow in (
        ("append", _append_all),
        ("append, every version kept", _keep_versions),
    ):
        ours = seconds(partial(_repeat_call, times, grow, empty, n))
        peer = seconds(partial(_repeat_call, times, grow, theirs, n))
        yield Row(claim, n, ours * each, beside, peer * each)

    if n <= 100_000:
        ours = bytes_kept(partial(_keep_versions, empty, n)) / n
        peer = bytes_kept(partial(_keep_versions, theirs, n)) / n
        yield Row("memory of a kept version", n, ours, beside, peer, "bytes")


def _measure_reading(n: int) -> Iterator[Row]:
    log = Log(range(n))
    plain = list(range(n))
    assert plain == list(log)
    vector: Any = python_pvector(plain)  # type: ignore[no-untyped-call]
    # Not a multiple of 32, where one append in 32 has a block to make.
    half, ten = n // 2 | 5, plain[:10]
    old = log.take(half)
    fork, later = old.append(-1), log.extend(ten)
    assert half == fork.common_prefix(log)
    assert n == later.common_prefix(log)
    for claim, function in (
        ("take half", partial(log.take, half)),
        ("the last ten, [n - 10:]", partial(log.__getitem__, slice(n - 10, None))),
        ("extend by ten", partial(log.extend, ten)),
        ("append to an old version", partial(old.append, 0)),
        ("common_prefix with a fork", partial(fork.common_prefix, log)),
        ("common_prefix with a later version", partial(later.common_prefix, log)),
    ):
        yield Row(claim, n, seconds_each(function) * 1e9)

    at = [(i * 7919) % n for i in range(1_000)]
    ours = seconds_each(partial(_index_all, log, at)) * 1e6
    peer = seconds_each(partial(_index_all, vector, at)) * 1e6
    yield Row("index", n, ours, "pvector, pure Python", peer)
    ours = seconds_each(partial(list, log)) * 1e6
    peer = seconds_each(lambda: list(iter(plain))) * 1e6
    yield Row("list(...)", n, ours, "list(iter(a list))", peer, "µs")
