"""Streams in tasks, under asyncio and trio, and between tasks and threads."""

import asyncio
import contextvars
import sys
import threading
import types
import weakref
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from conversation_state import streams
from conversation_state.errors import StreamClosedError
from conversation_state.messages import AssistantMessage
from conversation_state.streams import SKIP, Failed, Ok, SourceEnd
from tests.threads import Boom, Thing

pytestmark = pytest.mark.anyio

# Wrong arguments are passed on purpose; typing_tests holds the right ones.
Stream: Any = streams.Stream
acollect: Any = streams.acollect
merge: Any = streams.merge
merge_named: Any = streams.merge_named
pipe: Any = streams.pipe


async def listed(stream):
    """All of *stream*, in thirty seconds at most."""
    with anyio.fail_after(60):
        return [x async for x in stream]


async def at_once(*functions):
    """What each gave, run as tasks in thirty seconds at most."""
    gave: list[Any] = [None] * len(functions)

    async def run(n, function):
        gave[n] = await function()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for pair in enumerate(functions):
                group.start_soon(run, *pair)

    return gave


async def until(condition):
    """Return once *condition* holds; in twenty seconds at most."""
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - the condition is the caller's
            await anyio.sleep(0.001)


def when(condition, function):
    """An async function that waits until *condition* holds, then awaits *function*."""

    async def wait():
        await until(condition)
        return await function()

    return wait


async def slowly(*items):
    """Items with a moment before each; exceptions are raised."""
    for item in items:
        await anyio.sleep(0.001)
        if isinstance(item, BaseException):
            raise item
        yield item


async def endless(inside, closed):
    """1, then nothing more: *inside* is set, and what closes it noted in *closed*."""
    try:
        yield 1
        inside.set()
        await anyio.sleep_forever()
    finally:
        closed.append(1)


class Counted:
    """An async iterator that is not a generator, counts, and can be closed."""

    def __init__(self, *items):
        self.items = iter(items)
        self.closed = 0
        self.go = anyio.Event()
        self.inside = anyio.Event()

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.inside.set()
        await self.go.wait()
        for item in self.items:
            return item
        raise StopAsyncIteration

    async def aclose(self):
        self.closed += 1


class TestRead:
    """`async for`."""

    @pytest.mark.parametrize("make", [list, iter, tuple, lambda items: slowly(*items)])
    async def test_gives_every_element_to_every_reader(self, make):
        """
        What is in memory, what may block and what is awaited read the same, and what
        was read with `async for` is there for `for`.
        """
        stream = Stream.of(make([0, 1, 2]))

        assert [[0, 1, 2]] * 3 == await at_once(
            *[lambda: listed(stream) for _ in range(3)]
        )
        assert [0, 1, 2] == await listed(stream) == list(stream)

    async def test_asks_an_async_source_once(self):
        """
        Several readers that wait for one element ask for it once, and for none
        that is not wanted yet.
        """
        asked: list[int] = []
        go = anyio.Event()

        async def source():
            for n in range(3):
                asked.append(n)
                await go.wait()
                yield n

        stream = Stream.of(source())

        async def first():
            return await anext(aiter(stream))

        async def release():
            await until(lambda: len(stream._cell.source.pipe.readers) == 3)
            go.set()

        later = when(lambda: asked, first)
        *got, _ = await at_once(first, later, later, release)
        for _ in range(10):
            await anyio.lowlevel.checkpoint()

        assert [0, 0, 0] == got
        assert [0] == asked

    async def test_blocks_no_other_task(self):
        """
        An iterator that blocks is asked in a thread, once for each element; what is in
        memory needs none.
        """
        go = threading.Event()
        seen = []

        def source():
            seen.append(threading.get_ident())
            assert go.wait(60)
            yield 1

        async def release():
            await anyio.sleep(0.01)
            go.set()

        stream = Stream.of(source())
        one, two, _ = await at_once(
            lambda: listed(stream), lambda: listed(stream), release
        )
        await listed(
            Stream.of([1]).convert(lambda _: seen.append(threading.get_ident()))
        )

        assert [1] == one == two
        assert 2 == len(seen)
        assert seen[0] != seen[1] == threading.get_ident()

    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_while_another_thread_imports_trio(self, monkeypatch):
        """A module that is there and has no content yet makes no difference."""
        monkeypatch.setitem(sys.modules, "trio", types.ModuleType("trio"))

        assert [1, 2] == await listed(Stream.of(iter([1, 2])))

    async def test_takes_the_context_along(self):
        """A source sees the context variables of who reads first."""
        name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
        name.set("reader")

        def source():
            yield name.get()

        async def asource():
            yield name.get()

        assert ["reader"] == await listed(Stream.of(source()))
        assert ["reader"] == await listed(Stream.of(asource()))

    @pytest.mark.parametrize("length", [1_000, 20_000])
    async def test_gives_way_to_others(self, length):
        """A long stream that is all there stops no other task."""
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        skipping = Stream.of(range(length)).convert(
            lambda n: SKIP if length > 1_000 else n
        )
        async with anyio.create_task_group() as group:
            group.start_soon(other)
            await listed(skipping)
            group.cancel_scope.cancel()

        assert 5 < turns < length

    async def test_keeps_errors_in_their_place(self):
        """`async for` raises an error, the reader can go on, the source ends."""
        boom = Boom()
        stream = Stream.of(slowly(1, boom))
        for _ in range(2):
            reader = aiter(stream)
            assert 1 == await anext(reader)
            with pytest.raises(Boom) as caught:
                await anext(reader)
            assert boom is caught.value
            assert [] == await listed(reader)

        assert [Ok(1), Failed(boom)] == await listed(stream.results())

    async def test_keeps_nothing_of_the_past(self):
        """Each element goes with the last who holds it."""

        async def things():
            for _ in range(20):
                yield Thing()

        reader = aiter(Stream.of(things()).convert(lambda x: x))
        for _ in range(20):
            there = weakref.ref(await anext(reader))
            assert there() is None

    async def test_a_source_that_reads_itself_fails(self):
        """A source that waits for itself gets an error instead."""

        async def source():
            yield 1
            async for _ in stream.convert(str):
                pass

        stream: Any = Stream.of(source())
        first, failed = await listed(stream.results())

        assert Ok(1) == first
        assert isinstance(failed.error, StreamClosedError)
        assert "read by its own source" in str(failed.error)


class TestCancel:
    """A cancelled reader takes nothing from the others."""

    @pytest.mark.parametrize("is_async", [True, False])
    async def test_kills_no_generator(self, is_async):
        """A generator goes on for the next reader, with what a thread waits for."""
        go, ago = threading.Event(), anyio.Event()

        async def asource():
            yield 1
            await ago.wait()
            yield 2

        def source():
            go.wait(60)
            yield from (1, 2)

        stream = Stream.of(asource() if is_async else source())
        for _ in range(2):
            with anyio.move_on_after(0.005) as scope:
                await listed(stream)
            assert scope.cancelled_caught

        go.set()
        ago.set()
        assert [1, 2] == await listed(stream)

    @pytest.mark.parametrize("capacity", [0, 1])
    async def test_loses_no_element_of_a_pipe(self, capacity):
        """Cancelled readers leave all to the last one, and none in a queue."""
        sender, stream = pipe(capacity)
        for _ in range(3):
            with anyio.move_on_after(0.002):
                await listed(merge(stream, Stream.of(())))

        assert not sender._pipe.readers

        async def send():
            async with sender:
                for n in range(5):
                    await sender.asend(n)

        _, got = await at_once(send, lambda: listed(stream))
        assert [0, 1, 2, 3, 4] == got

    @pytest.mark.parametrize("capacity", [0, 1])
    async def test_sends_nothing(self, capacity):
        """
        A sender that is cancelled while it waits has sent nothing, and keeps no other
        one waiting.
        """
        sender, stream = pipe(capacity)
        reader = aiter(stream)
        if capacity:
            await sender.asend("first")
        for sending in (sender.asend("late"), sender.afail(Boom())):
            with anyio.move_on_after(0.002) as scope:
                await sending
            assert scope.cancelled_caught

        if capacity:
            assert "first" == await anext(reader)
            with anyio.move_on_after(0):  # there is room: nothing is waited for
                await sender.asend("second")

        async def send():
            async with sender:
                await sender.asend("next")

        _, got = await at_once(send, lambda: listed(reader))
        assert ["second"] * capacity + ["next"] == got

    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    @pytest.mark.parametrize("capacity", [0, 1])
    async def test_sends_nothing_in_the_moment_there_is_room(self, capacity):
        """
        A sender that asyncio cancels just when room is made for it has not sent
        its element, and leaves the room to the next one.
        """
        sender, stream = pipe(capacity)
        if capacity:
            await sender.asend("first")
        late = asyncio.create_task(sender.asend("late"))
        behind = asyncio.create_task(sender.asend("behind"))
        await until(lambda: len(sender._pipe.senders) == 2)
        reader = aiter(stream)
        read = anext(reader)
        if capacity:
            with pytest.raises(StopIteration):  # it is there: nothing is awaited
                read.send(None)
        else:
            read.send(None)  # it waits
        late.cancel()

        with pytest.raises(asyncio.CancelledError):
            await late
        read.close()
        assert await behind
        sender.close()
        assert ["first"] * capacity + ["behind"] == await listed(stream)


async def test_a_drained_stream_ends_while_all_threads_are_busy():
    """What is called at the end waits for no thread that others may use."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    free = threading.Event()
    ends: list[Exception | None] = []
    before, limiter.total_tokens = limiter.total_tokens, 1
    async with anyio.create_task_group() as group:
        try:
            group.start_soon(lambda: anyio.to_thread.run_sync(free.wait))
            await until(lambda: limiter.borrowed_tokens)
            streams.drain(Stream.of(slowly(1)), ends.append)
            await until(lambda: ends)
        finally:
            free.set()
            limiter.total_tokens = before

    assert [None] == ends


class TestPipe:
    """Between tasks, and between tasks and threads."""

    async def test_between_two_loops(self):
        """Tasks of different loops read one async source."""
        source = Stream.of(slowly(*range(50)))

        def elsewhere():
            return anyio.run(listed, source)

        here, there = await at_once(
            lambda: listed(source), lambda: anyio.to_thread.run_sync(elsewhere)
        )
        assert list(range(50)) == here == there

    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_no_sender_overtakes_one_that_waits(self):
        """Room that a reader just made belongs to the one that waits for it."""
        sender, stream = pipe(1)
        await sender.asend("first")
        second = asyncio.create_task(sender.asend("second"))
        await until(lambda: sender._pipe.senders)
        reader = aiter(stream)
        with pytest.raises(StopIteration):  # it is there: nothing is awaited
            anext(reader).send(None)
        third = sender.asend("third")
        third.send(None)  # it waits
        third.close()

        assert await second
        sender.close()
        assert ["second"] == await listed(reader)

    async def test_all_senders_there_is_room_for_go_on(self):
        """Two that wait are both woken by a reader that takes two elements at once."""
        sender, stream = pipe(2)
        for n in (1, 2):
            await sender.asend(n)

        async def read():
            await until(lambda: len(sender._pipe.senders) == 2)
            reader = aiter(stream)
            return [await anext(reader), await anext(reader)]

        sent = await at_once(read, lambda: sender.asend(3), lambda: sender.asend(4))
        assert [[1, 2], True, True] == sent
        await sender.aclose()
        assert [1, 2, 3, 4] == sorted(await listed(stream))

    async def test_an_iterator_that_can_not_be_closed(self):
        """An async iterator without `aclose` is read to its end."""

        class Two:
            left = 2

            def __aiter__(self):
                return self

            async def __anext__(self):
                self.left -= 1
                if self.left < 0:
                    raise StopAsyncIteration
                return self.left

        assert [1, 0] == await listed(Stream.of(Two()))

    async def test_a_cancelled_sender_is_no_end(self):
        """A reader of a cancelled sender learns that something is missing."""
        sender, stream = pipe(0)
        with anyio.move_on_after(0.001):
            async with sender:
                await anyio.sleep(10)

        (last,) = await listed(stream.results())
        assert "its sender's block was left by Cancelled" in str(last.error)

    async def test_sending_gives_way(self):
        """A pipe with room for all stops no other task."""
        sender, stream = pipe(10_000)
        reader, seen = aiter(stream), []

        async def read():
            seen.append(await anext(reader))

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            for n in range(300):
                await sender.asend(n)
            assert [0] == seen


class TestMerge:
    """`merge` of what is awaited, and of everything."""

    async def test_keeps_each_order_and_loses_nothing(self):
        """Async sources, iterators, collections and pipes, all at once."""
        sender, stream = pipe(1)
        sources = {
            "a": Stream.of(slowly(1, 2, 3)),
            "b": Stream.of(slowly()),
            "c": Stream.of(iter([4, 5])),
            "d": Stream.of([6]),
            "e": stream,
        }

        async def send():
            async with sender:
                for n in (7, 8):
                    await sender.asend(n)

        merged = merge_named(sources)
        _, one, two = await at_once(
            send, lambda: listed(merged.results()), lambda: listed(merged)
        )

        values = [x.value for x in one if isinstance(x, Ok)]
        assert values == two
        assert [1, 2, 3, 4, 5, 6, 7, 8] == sorted(values)
        assert [1, 2, 3] == [n for n in values if n < 4]
        assert values.index(7) < values.index(8)
        ends = [x for x in one if isinstance(x, SourceEnd)]
        assert set(map(SourceEnd, sources)) == set(ends)
        assert 5 == len(ends)

    async def test_reads_the_source_that_is_ready_first(self):
        """A silent source blocks no reader, and is not given up."""
        silent = Counted("at last")
        reader = aiter(merge(Stream.of(silent), Stream.of(slowly(1, 2))))

        with anyio.fail_after(60):
            assert [1, 2] == [await anext(reader), await anext(reader)]
            silent.go.set()
            assert ["at last"] == await listed(reader)


class TestClose:
    """Letting go of what is awaited."""

    async def test_closes_the_generator_before_it_returns(self):
        """`aclose` waits until the source is closed, in the task that ran it."""
        tasks = []

        async def numbers():
            tasks.append(anyio.get_current_task().id)
            try:
                yield 1
                yield 2
            finally:
                await anyio.lowlevel.checkpoint()
                tasks.append(anyio.get_current_task().id)

        async with Stream.of(numbers()) as stream:
            assert 1 == await anext(aiter(stream))

        assert 2 == len(tasks)
        assert 1 == len(set(tasks))

    async def test_allows_scopes_in_a_generator(self):
        """A generator that holds a scope open across elements is fine."""

        async def numbers():
            with anyio.fail_after(60):
                async with anyio.create_task_group():
                    yield 1
                    yield 2

        async with Stream.of(numbers()).convert(str) as stream:
            one, two = await at_once(
                lambda: anext(aiter(stream)), lambda: anext(aiter(stream))
            )

        assert "1" == one == two

    @pytest.mark.parametrize("how", ["waiting", "between", "before"])
    async def test_a_dropped_stream_closes_its_source(self, how):
        """Without a reader, the source is closed soon, wherever it was."""
        source = Counted(1, 2)
        stream = Stream.of(source)
        if how == "waiting":
            with anyio.move_on_after(0.002):
                await listed(stream)
        if how == "between":
            source.go.set()
            await anext(aiter(stream))
        if how == "before":
            await stream.aclose()
        del stream

        await until(lambda: source.closed == 1)

    async def test_closes_nothing_that_others_hold(self):
        """As long as one can read, the source goes on."""
        source = Counted(1, 2)
        source.go.set()
        stream = Stream.of(source)
        other = stream.convert(str)
        await anext(aiter(stream))
        with anyio.move_on_after(0) as scope:  # nothing is waited for
            await stream.aclose()
            await stream.aclose()

        assert not scope.cancelled_caught
        assert 0 == source.closed
        assert ["1", "2"] == await listed(other)
        await until(lambda: source.closed == 1)

    async def test_reports_when_closing_failed(self, caplog):
        """
        An error while a source closes is logged: no caller is left to raise it to.
        """

        async def numbers():
            try:
                yield 1
            finally:
                raise Boom

        async with Stream.of(numbers()) as stream:
            await anext(aiter(stream))

        assert "closing the source of a stream failed" in caplog.text


class TestAbort:
    """Stopping the source, whatever readers are left."""

    async def test_closes_before_it_returns(self):
        """
        `aabort` cancels the source where it waits, and returns when it is closed;
        readers that wait get the error after what had come.
        """
        inside = anyio.Event()
        closed: list[int] = []
        stream = Stream.of(endless(inside, closed))

        async def abort():
            await stream.aabort()
            seen.extend(closed)
            await stream.aabort()

        seen: list[int] = []
        got, other, _ = await at_once(
            lambda: listed(stream.results()),
            lambda: listed(stream.convert(str).results()),
            when(inside.is_set, abort),
        )

        assert [1] == seen == closed
        assert [Ok(1), Ok("1")] == [got[0], other[0]]
        assert [StreamClosedError] == [type(x.error) for x in got[1:]]
        assert got[1:] == other[1:] == (await listed(stream.results()))[1:]

    async def test_waits_after_an_abort_that_was_read(self):
        """After `abort` it waits for the close, though all was read by then."""
        closed = []

        async def source():
            try:
                yield 1
            finally:
                with anyio.CancelScope(shield=True):
                    for _ in range(10):
                        await anyio.lowlevel.checkpoint()
                closed.append(1)

        stream = Stream.of(source())
        assert 1 == await anext(aiter(stream))
        stream.abort()
        assert 2 == len(await listed(stream.results()))
        await stream.convert(str).aabort()

        assert [1] == closed

    async def test_from_another_thread(self):
        """`abort` reaches the loop of the source."""
        inside = anyio.Event()
        closed: list[int] = []
        stream = Stream.of(endless(inside, closed))

        async def abort():
            await anyio.to_thread.run_sync(stream.abort)
            await until(lambda: closed)

        got, _ = await at_once(
            lambda: listed(stream.results()), when(inside.is_set, abort)
        )

        assert [Ok(1)] == got[:1]
        assert isinstance(got[1].error, StreamClosedError)

    async def test_a_source_that_was_not_asked(self):
        """It is closed, and never asked."""
        source = Counted(1)
        source.go.set()
        stream = Stream.of(source)
        await stream.aabort()
        got = await listed(stream.results())

        assert [StreamClosedError] == [type(x.error) for x in got]
        assert source.closed
        assert not source.inside.is_set()

    @pytest.mark.parametrize("anyio_backend", ["asyncio"])
    async def test_a_source_that_was_just_asked(self):
        """Its task, which has not begun, asks for nothing."""
        source = Counted(1)
        source.go.set()
        stream = Stream.of(source)
        read = anext(aiter(stream))
        read.send(None)  # it waits
        stream.abort()
        read.close()

        await until(lambda: source.closed)
        (failed,) = await listed(stream.results())

        assert "aborted" in str(failed.error)
        assert 1 == source.closed
        assert not source.inside.is_set()

    async def test_a_source_that_will_not_end(self):
        """Readers don't wait for a source that shields itself; `aabort` does."""
        inside, go, closed = anyio.Event(), anyio.Event(), []

        async def source():
            inside.set()
            with anyio.CancelScope(shield=True):
                await go.wait()
            closed.append(1)
            yield "late"

        stream = Stream.of(source())

        async def read():
            got = await listed(stream.results())
            seen.extend(closed)
            go.set()
            return got

        async def abort():
            await stream.aabort()
            return [*closed]

        seen: list[int] = []
        got, at_return = await at_once(read, when(inside.is_set, abort))

        assert [StreamClosedError] == [type(x.error) for x in got]
        assert [] == seen
        assert [1] == at_return
        assert got == await listed(stream.results())

    async def test_merged_sources_of_all_kinds(self):
        """One `aabort` stops a pipe, an async generator and an iterator."""
        sender, piped = pipe(0)
        source = Counted(1)
        both = merge_named(
            {"pipe": piped, "async": Stream.of(source), "list": Stream.of(iter("a"))}
        ).convert(str)

        def are_read():
            return source.inside.is_set() and sender._pipe.readers

        got, _ = await at_once(
            lambda: listed(both.results()), when(are_read, both.aabort)
        )

        assert 1 == source.closed
        assert not await sender.asend(1)
        assert 2 <= sum(isinstance(x, Failed) for x in got)
        assert 3 == sum(isinstance(x, SourceEnd) for x in got)


class TestCollect:
    """`acollect` gives one message."""

    CHUNKS = (AssistantMessage("Hel"), AssistantMessage("lo"))
    WHOLE = AssistantMessage("Hello")

    async def test_takes_what_has_messages(self):
        """Streams, async generators and lists become one message."""
        stream = merge_named({"a": Stream.of(slowly(*self.CHUNKS))})
        for source in (stream, stream, slowly(*self.CHUNKS), list(self.CHUNKS)):
            assert self.WHOLE == await acollect(source)

    async def test_an_error_that_is_kept_keeps_no_source(self):
        """It has the message until there; nor does what interrupts a function."""
        for error, partial in ((Boom(), self.WHOLE), (SystemExit(), None)):

            def fails(chunk, error=error):
                if chunk.text == "!":
                    raise error
                return chunk

            sender, stream = pipe(3)
            for chunk in (*self.CHUNKS, AssistantMessage("!")):
                await sender.asend(chunk)
            held = [stream.convert(fails)]
            del stream
            with pytest.raises(type(error)) as caught:
                await acollect(held.pop())

            assert partial == getattr(caught.value, "partial", None)
            assert await sender.asend(1) is False
            assert "fails" == caught.traceback[-1].name


class TestLoops:
    """When a loop ends before its streams."""

    def test_an_ended_loop_is_no_end(self, anyio_backend):
        """
        What was read stays, and what comes after is an error, not the end; the stream
        is dropped without a word.
        """
        stream: Any = Stream.of(slowly(1, 2, 3))

        async def first():
            return await anext(aiter(stream))

        assert 1 == anyio.run(first, backend=anyio_backend)
        one, broken = anyio.run(listed, stream.results(), backend=anyio_backend)

        assert Ok(1) == one
        assert "broke off" in str(broken.error)
        assert [one, broken] == list(stream.results())
        there = weakref.ref(stream)
        stream = None
        assert there() is None

    def test_a_closed_loop_is_no_end(self):
        """Nor is a loop that was closed without cancelling its tasks."""
        stream = Stream.of(slowly(1, 2, 3))
        loop = asyncio.new_event_loop()
        assert 1 == loop.run_until_complete(anext(aiter(stream)))
        tasks: Any = asyncio.all_tasks(loop)
        loop.close()

        one, broken = anyio.run(listed, stream.results())

        assert Ok(1) == one
        assert "event loop of its source has ended" in str(broken.error)
        for task in tasks:  # lest it complain
            task._log_destroy_pending = False
            with pytest.raises(RuntimeError, match="no running event loop"):
                task.get_coro().close()

    def test_wakes_threads_of_a_loop_that_ended(self):
        """A sender in a thread is not disturbed by readers whose loop is gone."""
        sender, stream = pipe(1)

        async def give_up():
            with anyio.move_on_after(0.002):
                await listed(stream)

        anyio.run(give_up)

        assert sender.send(1)
