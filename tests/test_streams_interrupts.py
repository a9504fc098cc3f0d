"""
Streams after a Ctrl-C or a cancellation at a random moment: nothing lost, nothing
twice, and no reader or sender that waits for ever.
"""

import itertools
import random
from functools import partial
from typing import Any

import anyio
import pytest

from conversation_state import streams
from conversation_state.errors import StreamClosedError
from conversation_state.messages import AssistantMessage
from conversation_state.streams import Ok
from tests.signals import interrupt_by_signals, interrupter
from tests.threads import finish, start, until

Stream: Any = streams.Stream
merge: Any = streams.merge
pipe: Any = streams.pipe

TIMES = 100
MANY = range(300)


def read_pipe(capacity):
    """
    A sender, an empty list for what it sends, and a thread that reads it all into
    another list.
    """
    sender, stream = pipe(capacity)
    sent: list[int] = []
    got: list[Any] = []
    return sender, sent, got, start(lambda: got.extend(stream))


def check_sent(subject, completed):
    """What was sent of 0, 1 and so on was read once, in order, and others send on."""
    sender, sent, got, thread = subject
    assert sender.send("more")
    sender.close()
    finish(thread)

    assert "more" == got.pop()
    assert list(range(len(got))) == got
    assert sent == got[: len(sent)]
    assert len(got) <= len(sent) + 1


def sent_pipe(capacity, size):
    """A stream, and a thread that sends *size* numbers to it."""
    sender, stream = pipe(capacity)

    def send():
        with sender:
            for n in range(size):
                assert sender.send(n)

    return stream, start(send)


class TestSignals:
    """Real interrupts, at random moments."""

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Stream.of(MANY),
            lambda: Stream.of(iter(MANY)),
            lambda: Stream.of(MANY).convert(int),
            lambda: merge(Stream.of(MANY), Stream.of(())),
            lambda: merge(Stream.of(iter(MANY)), Stream.of(iter(()))),
        ],
        ids=["collection", "iterator", "convert", "merge", "threads"],
    )
    def test_reading(self, make):
        """The next reader, and one that waits in a thread, get every element once."""

        def prepare():
            stream, got = make(), []
            return stream, got, start(lambda: got.extend(stream))

        def check(subject, completed):
            stream, got, thread = subject
            finish(thread)

            assert [*MANY] == got == list(stream)

        interrupt_by_signals(
            lambda subject: list(subject[0]), check, prepare=prepare, times=TIMES
        )

    def test_a_generator(self):
        """One that is interrupted itself has ended, and readers learn it."""

        def check(stream, completed):
            *items, last = stream.results()
            items += [last] if isinstance(last, Ok) else []

            assert [Ok(n) for n in MANY][: len(items)] == items
            assert len(items) == len(MANY) or isinstance(last.error, StreamClosedError)

        interrupt_by_signals(
            list, check, prepare=lambda: Stream.of(n for n in MANY), times=TIMES
        )

    @pytest.mark.parametrize("capacity", [0, 1, 10])
    def test_sending(self, capacity):
        """What `send` returned for is read once, and others send on."""

        def send(subject):
            sender, sent, *_ = subject
            for n in itertools.count():
                sender.send(n)
                sent.append(n)

        assert TIMES == interrupt_by_signals(
            send, check_sent, prepare=partial(read_pipe, capacity), times=TIMES
        )

    @pytest.mark.parametrize("capacity", [0, 1, 10])
    def test_receiving(self, capacity):
        """The sender goes on, and the next reader gets everything."""

        def check(subject, completed):
            stream, thread = subject

            assert [*range(200)] == list(stream)
            finish(thread)

        interrupt_by_signals(
            lambda subject: list(subject[0]),
            check,
            prepare=partial(sent_pipe, capacity, 200),
            times=TIMES,
            within_s=0.005,
        )

    def test_collect_keeps_no_source(self):
        """An interrupt of `collect` while it waits may be kept: it keeps no source."""
        sender, stream = pipe(1)
        held = [stream]
        del stream

        def interrupt_waiting():
            until(lambda: sender._pipe.readers)
            interrupt()

        with interrupter() as interrupt:
            thread = start(interrupt_waiting)
            with pytest.raises(KeyboardInterrupt) as caught:
                streams.collect(held.pop())

        assert sender.send(AssistantMessage("a")) is False
        assert caught.type is KeyboardInterrupt
        finish(thread)


class TestCancelled:
    """Tasks that are cancelled at random moments."""

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("capacity", [0, 2])
    def test_senders_and_readers(self, capacity, seed, anyio_backend):
        """
        What `asend` returned for is read, once and in order, and nothing else; a thread
        sends and reads at the same time.
        """
        moments = random.Random(seed)
        sender, stream = pipe(capacity)
        source = Stream.of(n for n in range(200))
        both = merge(stream, source.convert(lambda n: ("source", n)))
        sent: list[Any] = []
        got: list[Any] = []

        async def send(name):
            n = 0
            while n < 100:
                with anyio.move_on_after(moments.uniform(0, 0.002)):
                    while n < 100:
                        assert await sender.asend((name, n))
                        sent.append((name, n))
                        n += 1

        async def read():
            reader = aiter(both)
            while True:
                with anyio.move_on_after(moments.uniform(0, 0.002)):
                    async for item in reader:
                        got.append(item)  # noqa: PERF401 - cancelled in between
                    return

        async def run():
            with anyio.fail_after(60):
                async with anyio.create_task_group() as readers:
                    readers.start_soon(read)
                    async with anyio.create_task_group() as senders:
                        senders.start_soon(send, "a")
                        senders.start_soon(send, "b")
                    sender.close()

        in_thread: list[Any] = []
        thread = start(in_thread.extend, both)
        anyio.run(run, backend=anyio_backend)
        finish(thread)

        assert got == in_thread == list(both)
        assert sorted(sent) == sorted(x for x in got if x[0] != "source")
        for name, size in (("a", 100), ("b", 100), ("source", 200)):
            assert [*range(size)] == [n for each, n in got if each == name]
