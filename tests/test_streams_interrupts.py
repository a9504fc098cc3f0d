"""
Streams after a Ctrl-C: nothing lost, nothing twice, and no reader or sender that
waits for ever.
"""

import contextlib
import itertools
import signal
import sys
import threading
from functools import partial
from typing import Any

import anyio
import pytest

from conversation_state import streams
from conversation_state.errors import StreamClosedError
from conversation_state.messages import AssistantMessage
from conversation_state.streams import Failed, Ok
from tests.interrupts import interrupt_at_each_opcode, interrupt_by_signals
from tests.threads import Boom, finish, sent, start, until

Stream: Any = streams.Stream
merge: Any = streams.merge
merge_named: Any = streams.merge_named
pipe: Any = streams.pipe

# A coroutine may be interrupted before it is awaited, and Python warns then.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*coroutine:pytest.PytestUnraisableExceptionWarning",
    "ignore:coroutine .* was never awaited:RuntimeWarning",
)

interrupt_anywhere = partial(
    interrupt_at_each_opcode,
    modules=["conversation_state.streams", "conversation_state._waiting"],
)


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


def sent_pipe(capacity, size):
    """A stream, and a thread that sends *size* numbers to it."""
    sender, stream = pipe(capacity)

    def send():
        with sender:
            for n in range(size):
                assert sender.send(n)

    return stream, start(send)


BOOM = Boom()

# Streams, and what is read from each.
KINDS: dict[str, Any] = {
    "collection": (lambda: Stream.of(range(2)), [0, 1]),
    "iterator": (lambda: Stream.of(iter(range(2))), [0, 1]),
    "generator": (lambda: Stream.of(n for n in range(2)), [0, 1]),
    "pipe": (lambda: sent(0, 1), [0, 1]),
    "convert": (lambda: Stream.of(range(2)).convert(str), ["0", "1"]),
    "results": (lambda: sent(BOOM, 1).results(), [Failed(BOOM), Ok(1)]),
    "on_error": (
        lambda: sent(BOOM, 1).convert(str, on_error=repr),
        ["Boom()", "1"],
    ),
    "merge": (lambda: merge(Stream.of("a"), sent(1)), ["a", 1]),
    "merge_named": (
        lambda: merge_named({"x": Stream.of("a"), "y": Stream.of("b")}),
        ["a", "b"],
    ),
}


class TestRead:
    """Readers that are interrupted, and those that come after."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_leaves_all_to_the_next(self, kind):
        """Wherever a reader is interrupted, the next one reads every element once."""
        make, expected = KINDS[kind]

        def check(stream, completed):
            assert expected == list(stream)
            assert expected == list(stream)

        interrupt_anywhere(list, check, prepare=make)

    @pytest.mark.parametrize("kind", KINDS)
    def test_leaves_all_to_one_that_waits(self, kind):
        """So does a reader that reads at the same time, in another thread."""
        make, expected = KINDS[kind]

        def prepare():
            stream, got = make(), []
            return stream, got, start(lambda: got.extend(stream))

        def check(subject, completed):
            stream, got, thread = subject
            finish(thread)

            assert expected == got == list(stream)

        interrupt_anywhere(lambda subject: list(subject[0]), check, prepare=prepare)

    @pytest.mark.parametrize("kind", ["collection", "iterator", "generator"])
    def test_leaves_all_to_itself(self, kind):
        """
        A reader that is the only one, so that nothing is kept for others, reads on
        where it was interrupted: it lacks at most what it was just given.
        """
        items = [*range(4)]
        sources: dict[str, Any] = {
            "collection": lambda: items,
            "iterator": lambda: iter(items),
            "generator": lambda: (n for n in items),
        }
        lacking = 0

        def prepare():
            return iter(Stream.of(sources[kind]())), []

        def check(subject, completed):
            nonlocal lacking
            reader, got = subject
            at = len(got)
            got += reader
            lacking += got != items

            assert got in (items, items[:at] + items[at + 1 :])

        moments = interrupt_anywhere(
            lambda subject: subject[1].extend(subject[0]), check, prepare=prepare
        )

        # Between the item's leaving the box and the return: a few of the moments.
        assert lacking < moments / 4

    def test_leaves_all_to_itself_when_others_went(self):
        """So does a reader that is the only one from then on."""
        items = [*range(4)]

        def prepare():
            stream = Stream.of(iter(items))
            return [stream], iter(stream), []

        def check(subject, completed):
            streams, reader, got = subject
            streams.clear()
            at = len(got)
            got += reader

            assert got in (items, items[:at] + items[at + 1 :])
            lost.append(got != items)

        lost: list[bool] = []
        interrupt_anywhere(
            lambda subject: subject[2].extend(itertools.islice(subject[1], 2)),
            check,
            prepare=prepare,
        )

        # Between the step to the next place and the return.
        assert sum(lost) < len(lost) / 10

    @pytest.mark.parametrize("is_held", [True, False])
    def test_leaves_nothing_behind(self, is_held):
        """
        Wherever a reader is interrupted, the iterator is closed as soon as nothing
        can be read any more, without the collector's help.
        """

        class Numbers:
            def __init__(self, closed):
                self.numbers = iter(range(3))
                self.closed = closed

            def __iter__(self):
                return self

            def __next__(self):
                return next(self.numbers)

            def close(self):
                self.closed.append(1)

        def prepare():
            closed: list[int] = []
            held: list[Any] = [Stream.of(Numbers(closed))]
            held.append(iter(held[0]))
            if not is_held:
                del held[0]
            return held, closed

        def check(subject, completed):
            held, closed = subject
            held.clear()

            assert [1] == closed

        interrupt_anywhere(
            lambda subject: [next(subject[0][-1]) for _ in range(2)],
            check,
            prepare=prepare,
        )

    def test_leaves_all_to_the_rest(self):
        """So do the readers of its `rest`, however many there are."""
        items = [*range(4)]

        def check(subject, completed):
            reader, got = subject
            at = len(got)
            rest = reader.rest
            read = list(rest)

            assert read == list(rest)
            assert read in (items[at:], items[at + 1 :])

        interrupt_anywhere(
            lambda subject: subject[1].extend(itertools.islice(subject[0], 2)),
            check,
            prepare=lambda: (iter(Stream.of(iter(items))), []),
        )

    def test_wakes_those_that_found_the_turn_taken(self):
        """
        A thread that waits for the one that reads goes on when that one is
        interrupted, in any state.
        """

        def prepare():
            inside, go, got = threading.Event(), threading.Event(), []

            def slow(n):
                inside.set()
                go.wait(20)
                return n

            stream = Stream.of(range(2)).convert(slow)

            def second():
                inside.wait(20)
                got.extend(stream)

            thread = start(second)

            def let_go():
                source = stream._cell.link
                until(lambda: source[0].busy or not thread.is_alive())
                go.set()

            return stream, inside, go, got, [thread, start(let_go)]

        def check(subject, completed):
            _, inside, go, got, threads = subject
            inside.set()
            go.set()
            finish(*threads)

            assert [0, 1] == got

        interrupt_anywhere(
            lambda subject: next(iter(subject[0])), check, prepare=prepare
        )

    def test_waits_for_the_turn(self):
        """
        A thread that is interrupted while it waits for another one's turn leaves
        nothing behind, and no deadlock is reported by mistake.
        """

        def prepare():
            inside, go, got = threading.Event(), threading.Event(), []

            def slow(n):
                inside.set()
                go.wait(20)
                return n

            stream = Stream.of(range(2)).convert(slow)
            thread = start(lambda: got.extend(stream))
            inside.wait(20)
            source = stream._cell.link[0]

            def let_go():
                until(lambda: source.busy or go.is_set())
                go.set()

            return stream, go, got, [thread, start(let_go)]

        def check(subject, completed):
            stream, go, got, threads = subject
            go.set()
            finish(*threads)

            assert [0, 1] == got == list(stream)
            assert not streams._pull._wanted

        interrupt_anywhere(
            lambda subject: next(iter(subject[0])), check, prepare=prepare
        )

    def test_calls_a_function_once(self):
        """
        What a function returned is kept though its reader was interrupted
        before it got it.
        """

        def prepare():
            calls: list[int] = []
            # `append` is C: an interrupt comes before or after it, not within.
            return Stream.of(range(3)).convert(calls.append), calls

        def check(subject, completed):
            stream, calls = subject

            assert [None] * 3 == list(stream)
            assert [0, 1, 2] == calls

        interrupt_anywhere(lambda subject: list(subject[0]), check, prepare=prepare)

    def test_an_error_is_no_end(self):
        """
        An iterator's error stays in its place; where its reader is interrupted
        amid the error, the next one learns that something is missing.
        """

        def fails():
            yield 1
            raise Boom

        def check(stream, completed):
            first, failed = stream.results()

            assert Ok(1) == first
            assert isinstance(failed.error, Boom if completed else Exception)

        interrupt_anywhere(
            lambda stream: list(stream.results()),
            check,
            prepare=lambda: Stream.of(fails()),
        )

    def test_of_a_merge_that_waits(self):
        """
        Iterators that are asked in threads lose nothing to an interrupt of the
        reader that waits for them.
        """

        def prepare():
            # No generator: the reader may ask a source itself while no thread does,
            # and an interrupt in a generator's own code ends it.
            return merge(Stream.of(iter([0])), Stream.of(map(int, [1])))

        def check(stream, completed):
            assert [0, 1] == sorted(stream)
            assert [0, 1] == sorted(stream)

        interrupt_by_signals(list, check, prepare=prepare)
        # Python 3.12 crashes where one thread begins to trace the functions that
        # another one is in: only signals come there.
        if sys.version_info[:2] != (3, 12):
            interrupt_anywhere(list, check, prepare=prepare)

    @pytest.mark.parametrize(
        ("kind", "backend"),
        [("iterator", "asyncio"), ("convert", "asyncio"), ("pipe", "trio")],
    )
    def test_in_tasks(self, kind, backend):
        """A loop that is interrupted leaves all to the next one."""
        make, expected = KINDS[kind]

        async def read(stream):
            return [item async for item in stream]

        def check(stream, completed):
            assert expected == anyio.run(read, stream, backend=backend)
            assert expected == list(stream)

        interrupt_anywhere(
            lambda stream: anyio.run(read, stream, backend=backend),
            check,
            prepare=make,
            only_where_signals_arrive=True,
        )

    def test_of_an_async_source(self):
        """
        A stream whose loop was interrupted gives what came until then, and an
        error instead of a silent end.
        """

        async def source():
            for n in range(2):
                yield n

        async def read(stream):
            return [item async for item in stream]

        def check(stream, completed):
            *items, last = anyio.run(read, stream.results())

            if isinstance(last, Ok):
                items.append(last)
            else:
                assert not completed
                assert isinstance(last.error, StreamClosedError)
            assert [Ok(n) for n in range(2)][: len(items)] == items

        interrupt_anywhere(
            lambda stream: anyio.run(read, stream),
            check,
            prepare=lambda: Stream.of(source()),
            only_where_signals_arrive=True,
        )


class TestSend:
    """Senders that are interrupted, and both sides after that."""

    @pytest.mark.parametrize("capacity", [0, 1, 5])
    def test_leaves_the_pipe_usable(self, capacity):
        """
        Wherever a sender is interrupted: what `send` returned for is read, once and in
        order, and others go on sending.
        """

        def send(subject):
            sender, sent, *_ = subject
            for n in range(3):
                assert sender.send(n)
                sent.append(n)

        def check(subject, completed):
            _, sent, got, _ = subject
            check_sent(subject, completed)

            assert len(got) <= len(sent) + 1

        interrupt_anywhere(send, check, prepare=partial(read_pipe, capacity))

    @pytest.mark.parametrize("capacity", [0, 1])
    def test_lets_those_behind_it_send(self, capacity):
        """
        A sender that is interrupted while it waits does not keep those that
        wait behind it.
        """

        def prepare():
            sender, stream = pipe(capacity)
            for n in range(capacity):
                sender.send(n)

            def behind():
                until(lambda: sender._pipe.offers or is_over.is_set())
                sender.send("behind")

            def read():
                until(lambda: len(sender._pipe.offers) > 1 or is_over.is_set())
                got.extend(stream)

            is_over = threading.Event()
            got: list[Any] = []
            return sender, is_over, got, start(behind), start(read)

        def check(subject, completed):
            sender, is_over, got, behind, read = subject
            is_over.set()
            finish(behind)
            sender.close()
            finish(read)

            assert 1 == got.count("behind")
            assert got.count("first") <= 1
            assert not completed or "first" in got

        interrupt_anywhere(
            lambda subject: subject[0].send("first"), check, prepare=prepare
        )

    @pytest.mark.parametrize("capacity", [0, 1])
    def test_goes_on_when_a_reader_is_interrupted(self, capacity):
        """A sender that waits for room sends all, wherever its reader stops."""

        def check(subject, completed):
            stream, thread = subject

            assert [0, 1] == list(stream)
            finish(thread)

        interrupt_anywhere(
            lambda subject: list(subject[0]),
            check,
            prepare=partial(sent_pipe, capacity, 2),
        )

    @pytest.mark.parametrize("how", ["close", "block", "failed block", "drop"])
    def test_an_interrupted_close_can_be_repeated(self, how):
        """
        A reader that waits learns of the end, at the latest when it is closed
        again; an error that is the last thing is read once at most.
        """

        def prepare():
            sender, stream = pipe(2)
            sender.send(1)
            got: list[Any] = []
            return [sender], got, start(lambda: got.extend(stream.results()))

        def close(subject):
            sender = subject[0][0]
            if how == "close":
                sender.close()
            elif how == "drop":
                del sender
                subject[0].clear()
            else:
                try:
                    with sender:
                        if how == "failed block":
                            raise BOOM
                except Boom:
                    pass

        def check(subject, completed):
            senders, got, thread = subject
            if not completed and senders:
                senders[0].close()
            senders.clear()
            finish(thread)

            assert Ok(1) == got[0]
            assert len(got) <= 2

        interrupt_anywhere(close, check, prepare=prepare)

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_in_tasks(self, backend):
        """
        A loop that is interrupted while its tasks send leaves a pipe that
        threads can use.
        """

        async def send(sender, sent):
            for n in range(2):
                assert await sender.asend(n)
                sent.append(n)

        interrupt_anywhere(
            lambda subject: anyio.run(send, *subject[:2], backend=backend),
            check_sent,
            prepare=partial(read_pipe, 1),
            only_where_signals_arrive=True,
        )


class TestClose:
    """Closing that is interrupted."""

    def test_can_be_repeated(self):
        """A sender learns that there is no reader when closing is repeated."""

        def prepare():
            sender, stream = pipe(1)
            sender.send(1)
            return stream, iter(stream), start(sender.send, 2)

        def check(subject, completed):
            stream, _, thread = subject
            stream.close()

            finish(thread)

        interrupt_anywhere(lambda subject: subject[0].close(), check, prepare=prepare)

    def test_collect_keeps_no_source(self):
        """An interrupt of `collect` while it waits may be kept: it keeps no source."""
        sender, stream = pipe(1)
        held = [stream]
        del stream

        me = threading.get_ident()

        def interrupt():
            until(lambda: sender._pipe.readers)
            signal.pthread_kill(me, signal.SIGINT)

        thread = start(interrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            streams.collect(held.pop())

        assert sender.send(AssistantMessage("a")) is False
        assert caught.type is KeyboardInterrupt
        finish(thread)


class TestAbort:
    """Aborting that is interrupted, and readers of what is aborted."""

    @pytest.mark.parametrize("kind", ["pipe", "generator", "merge"])
    def test_is_done_or_was_not_begun(self, kind):
        """
        Wherever it is interrupted, a reader and a sender that wait learn of it, at
        the latest when it is repeated; all readers have the same elements.
        """

        def prepare():
            sender, piped = pipe(1)
            closed: list[int] = []

            def source():
                try:
                    yield from range(9)
                finally:
                    closed.append(1)

            stream = {
                "pipe": lambda: piped,
                "generator": lambda: Stream.of(source()),
                "merge": lambda: merge(piped.convert(abs), Stream.of(source())),
            }[kind]()
            if kind == "pipe":
                sender.send(0)
            assert 0 == next(iter(stream))
            got: list[Any] = []
            threads = []
            if kind == "pipe":
                threads = [start(lambda: got.extend(stream.results()))]
                until(lambda: sender._pipe.readers)
            return sender, stream, closed, got, threads

        def check(subject, completed):
            sender, stream, closed, got, threads = subject
            begun = sender._pipe.is_aborted or bool(closed)
            if not completed and not begun:
                stream.abort()
            finish(*threads)
            closed_by_abort = list(closed)
            read = list(stream.results())

            assert Ok(0) == read[0]
            assert isinstance(read[-1].error, StreamClosedError)
            assert read == list(stream.results())
            if kind == "pipe":
                assert read == got
            else:
                assert [1] == closed == closed_by_abort
            if kind != "generator":
                assert sender.send(1) is False

        interrupt_anywhere(lambda subject: subject[1].abort(), check, prepare=prepare)

    @pytest.mark.parametrize("kind", ["generator", "pipe", "convert"])
    def test_while_a_reader_is_interrupted(self, kind):
        """
        A reader that is interrupted anywhere while the stream is aborted leaves
        the error to the next, and the source is closed.
        """

        def prepare():
            sender, piped = pipe(1)
            sender.send(0)
            closed: list[int] = []

            def source():
                try:
                    yield 0
                    stream.abort()
                    yield 1
                finally:
                    closed.append(1)

            if kind == "pipe":
                stream = piped
                piped.abort()
            else:
                stream = Stream.of(source())

            made = stream.convert(abs) if kind == "convert" else stream
            return sender, stream, made, closed

        def check(subject, completed):
            _, _, made, closed = subject
            read = list(made.results())

            assert read == list(made.results())
            assert Ok(0) == read[0]
            assert [StreamClosedError] == [type(x.error) for x in read[1:]]
            if kind != "pipe":
                assert [1] == closed

        interrupt_anywhere(
            lambda subject: list(subject[2].results()), check, prepare=prepare
        )

    def test_one_that_reads_alone(self):
        """
        A reader that is the only one, and is interrupted where it finds that the
        stream was aborted, finds it again.
        """

        def prepare():
            reader = iter(Stream.of(iter(range(9))))
            got = [next(reader), next(reader)]
            reader.rest.abort()
            return reader, got

        def read(subject):
            with contextlib.suppress(StreamClosedError):
                next(subject[0])

        def check(subject, completed):
            reader, got = subject
            failed = [str(each.error) for each in reader.rest.results()]

            assert [0, 1] == got
            assert all("aborted" in each for each in failed)
            assert len(failed) <= 1

        interrupt_anywhere(read, check, prepare=prepare)

    def test_an_async_source(self):
        """A loop whose `aabort` was interrupted leaves no reader that waits."""

        async def read_and_abort(stream):
            async for _ in stream:
                await stream.aabort()

        async def counted():
            for n in range(3):
                yield n

        def check(stream, completed):
            async def read():
                with anyio.fail_after(20):
                    return [x async for x in stream.results()]

            if not completed:  # perhaps before it was called
                anyio.run(stream.aabort)

            first, second = anyio.run(read), anyio.run(read)

            assert first == second
            assert isinstance(first[-1].error, StreamClosedError)

        def run(stream):
            with contextlib.suppress(StreamClosedError):
                anyio.run(read_and_abort, stream)

        interrupt_anywhere(
            run,
            check,
            prepare=lambda: Stream.of(counted()),
            only_where_signals_arrive=True,
        )


class TestSignals:
    """Real interrupts, at random moments."""

    TIMES = 100

    @pytest.mark.parametrize("kind", ["collection", "iterator", "convert", "merge"])
    def test_reading(self, kind):
        """After each the next reader gets every element once."""
        many = range(300)
        make = {
            "collection": lambda: Stream.of(many),
            "iterator": lambda: Stream.of(iter(many)),
            "convert": lambda: Stream.of(many).convert(int),
            "merge": lambda: merge(Stream.of(many), Stream.of(())),
        }[kind]

        def check(stream, completed):
            assert [*many] == list(stream)

        interrupt_by_signals(list, check, prepare=make, times=self.TIMES)

    @pytest.mark.parametrize("capacity", [0, 1, 10])
    def test_sending(self, capacity):
        """After each others send and read what was sent."""

        def send(subject):
            sender, sent, *_ = subject
            for n in itertools.count():
                sender.send(n)
                sent.append(n)

        assert self.TIMES == interrupt_by_signals(
            send, check_sent, prepare=partial(read_pipe, capacity), times=self.TIMES
        )

    @pytest.mark.parametrize("capacity", [0, 1, 10])
    def test_receiving(self, capacity):
        """After each the sender goes on, and the next reader gets everything."""

        def check(subject, completed):
            stream, thread = subject

            assert [*range(200)] == list(stream)
            finish(thread)

        interrupt_by_signals(
            lambda subject: list(subject[0]),
            check,
            prepare=partial(sent_pipe, capacity, 200),
            times=self.TIMES,
            within_s=0.005,
        )
