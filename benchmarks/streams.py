"""
Streams, beside bare queues that do the same.

A producer, a bounded pipe, a function, two consumers who each collect all of
it: in 0.9 to 1.2 times the CPU time of `queue.Queue` between threads, and a sixth of
that of anyio's memory object streams between tasks, at any length. The peers have one
queue to the task that applies the function and one to each consumer.

Text that is read through a stream takes some 1.5 µs a piece: a lock taken twice, a cell
made and linked, and the iterator asked in a frame that keeps nothing of its reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from queue import Queue
from threading import Thread
from typing import Any

from benchmarks.measure import Row, seconds
from conversation_state import AssistantMessage, Message
from conversation_state.chunks import concat
from conversation_state.streams import Stream, acollect, collect, merge, pipe

CAPACITY = 100
CHUNK = AssistantMessage("piece ")
WORDS = [f"word{number} " for number in range(100)]


def loud(chunk: Message) -> Message:
    """What is done with every chunk."""
    return AssistantMessage(chunk.text.upper())


def _run_threads(*functions: Callable[[], object]) -> None:
    threads = [Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()


def ours(n: int) -> list[Message]:
    """Threads around a pipe."""
    sender, stream = pipe(CAPACITY, of=Message)
    readers = [iter(stream.convert(loud))]
    readers.append(iter(readers[0].rest))
    del stream
    got: list[Message] = []

    def send() -> None:
        with sender:
            for _ in range(n):
                sender.send(CHUNK)

    def consume() -> None:
        got.append(collect(readers.pop()))

    _run_threads(send, consume, consume)
    return got


def queues(n: int) -> list[Message]:
    """Threads around three queues."""
    end = None
    first: Queue[Message | None] = Queue(CAPACITY)
    others: list[Queue[Message | None]] = [Queue(CAPACITY), Queue(CAPACITY)]
    got: list[Message] = []

    def send() -> None:
        for _ in range(n):
            first.put(CHUNK)

        first.put(end)

    def convert() -> None:
        left, right = others
        while (item := first.get()) is not None:
            item = loud(item)
            left.put(item)
            right.put(item)

        left.put(end)
        right.put(end)

    def given(queue: Queue[Message | None]) -> Iterator[Message]:
        while (item := queue.get()) is not None:
            yield item

    def consume(queue: Queue[Message | None]) -> None:
        got.append(concat(given(queue)))

    _run_threads(send, convert, *[partial(consume, queue) for queue in others])
    return got


async def aours(n: int) -> list[Message]:
    """Tasks around a pipe."""
    import anyio

    sender, stream = pipe(CAPACITY, of=Message)
    readers = [aiter(stream.convert(loud))]
    readers.append(aiter(readers[0].rest))
    del stream
    got: list[Message] = []

    async def send() -> None:
        async with sender:
            for _ in range(n):
                await sender.asend(CHUNK)

    async def consume() -> None:
        got.append(await acollect(readers.pop()))

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        group.start_soon(consume)
        group.start_soon(send)

    return got


async def memory_streams(n: int) -> list[Message]:
    """Tasks around three memory object streams."""
    import anyio

    into, first = anyio.create_memory_object_stream[Message](CAPACITY)
    left_in, left = anyio.create_memory_object_stream[Message](CAPACITY)
    right_in, right = anyio.create_memory_object_stream[Message](CAPACITY)
    got: list[Message] = []

    async def send() -> None:
        async with into:
            for _ in range(n):
                await into.send(CHUNK)

    async def convert() -> None:
        async with first, left_in, right_in:
            async for item in first:
                made = loud(item)
                await left_in.send(made)
                await right_in.send(made)

    async def consume(stream: AsyncIterator[Message]) -> None:
        got.append(concat([item async for item in stream]))

    async with anyio.create_task_group() as group:
        group.start_soon(consume, left)
        group.start_soon(consume, right)
        group.start_soon(convert)
        group.start_soon(send)

    left.close()
    right.close()
    return got


def _time_run(function: Callable[[int], Any], n: int) -> float:
    expected = [AssistantMessage(loud(CHUNK).text * n)] * 2

    def run() -> None:
        assert expected == function(n)

    return seconds(run, least=2, for_s=0.5) / n * 1e6


def _list_event_loops() -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "asyncio", lambda function, n: asyncio.run(function(n))
    try:
        import trio
    except ModuleNotFoundError:
        return

    yield "trio", trio.run


def _read_all(n: int) -> None:
    reader = iter(Stream.of(range(n)).convert(lambda x: x))
    assert n == sum(1 for _ in reader)


def _yield_words(n: int) -> Iterator[str]:
    for number in range(n):
        yield WORDS[number % len(WORDS)]


def _join_pieces(pieces: Iterable[str]) -> str:
    read = []
    for piece in pieces:
        read.append(piece)  # noqa: PERF402 - as a program reads a stream

    return "".join(read)


def _of_text(n: int) -> Iterator[Row]:
    def streamed() -> str:
        return _join_pieces(iter(Stream.of(_yield_words(n))))

    def bare() -> str:
        return _join_pieces(_yield_words(n))

    assert bare() == streamed()
    peer = seconds(bare) / n * 1e6
    took = seconds(streamed) / n * 1e6
    beside = "a loop, without a stream"
    yield Row("read text and join it", n, took, beside, peer, "µs")


def rows() -> Iterator[Row]:
    """What an element takes, from the producer to both consumers."""
    for n in (100, 10_000, 1_000_000):
        yield from _of_text(n)

    for n in (100, 10_000, 100_000):
        claim = "pipe, convert, two consumers: threads"
        peer = _time_run(queues, n)
        yield Row(claim, n, _time_run(ours, n), "queue.Queue", peer, "µs")

        for name, run in _list_event_loops():
            claim = f"pipe, convert, two consumers: {name}"
            took = _time_run(partial(run, aours), n)
            peer = _time_run(partial(run, memory_streams), n)
            yield Row(claim, n, took, "anyio memory streams", peer, "µs")

    for n in (10_000, 1_000_000):
        took = seconds(partial(_read_all, n), least=2) / n * 1e6
        yield Row("read a range, converted", n, took, unit="µs")

    n = 10_000
    sources = [range(n // 2)] * 2

    def merged() -> None:
        assert n == sum(1 for _ in merge(*map(Stream.of, sources)))

    yield Row("merge two ranges", n, seconds(merged) / n * 1e6, unit="µs")

    def merged_iterators() -> None:
        streams = [Stream.of(iter(source)) for source in sources]
        assert n == sum(1 for _ in merge(*streams))

    took = seconds(merged_iterators, least=2) / n * 1e6
    yield Row("merge two iterators, a thread each", n, took, unit="µs")
