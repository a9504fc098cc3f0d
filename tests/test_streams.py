"""Streams in threads: what is read once, kept while held, and never waits for ever."""

import collections
import collections.abc
import contextlib
import copy
import gc
import itertools
import pickle
import queue
import re
import sys
import threading
import traceback
import weakref
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversation_state import streams
from conversation_state.errors import ConcatError, StreamClosedError
from conversation_state.messages import AssistantMessage
from conversation_state.streams import SKIP, Failed, Ok, SourceEnd
from tests.threads import Boom, Thing, finish, in_threads, sent, start, until, when

# Wrong arguments are passed on purpose; typing_tests holds the right ones.
Stream: Any = streams.Stream
collect: Any = streams.collect
drain: Any = streams.drain
merge: Any = streams.merge
merge_named: Any = streams.merge_named
pipe: Any = streams.pipe


def seen_by(seen):
    """A function that gives what it is given, and notes it."""

    def function(x):
        seen.append(x)
        return x

    return function


def breaking_off(*items, error):
    """A generator that gives *items*, then raises."""
    yield from items
    raise error


def closing(closed, items=(1, 2, 3)):
    """A generator of *items* that notes when it is closed."""
    try:
        yield from items
    finally:
        closed.append(True)


def give_or_raise(error, item):
    """*item* if it is 1, or *error*."""
    if item == 1:
        return item

    raise error


async def numbers():
    """An async source."""
    yield 1


class Iterator:
    """An iterator that is no generator: *give* is called for each element."""

    def __init__(self, give, close=lambda: None):
        self.give = give
        self.close = close

    def __iter__(self):
        return self

    def __next__(self):
        return self.give()


KINDS_OF_WORKERS = ["thread", "asyncio", "trio"]


def in_kind(kind, both, *arguments):
    """What the function for threads or the one for tasks of *both* gives."""
    if kind == "thread":
        return both[0](*arguments)

    return anyio.run(both[1], *arguments, backend=kind)


def _send_all(sender, items):
    return [sender.send(item) for item in items]


async def _asend_all(sender, items):
    return [await sender.asend(item) for item in items]


async def _alist(stream):
    return [item async for item in stream]


read_all = (list, _alist)
send_all = (_send_all, _asend_all)


# Items of pipes and what `results` makes of them.
pipe_items = st.lists(st.integers() | st.builds(Boom, st.integers()), max_size=20)


def make_results(items):
    """What `results` has to give for *items*."""
    return [Failed(x) if isinstance(x, Exception) else Ok(x) for x in items]


def split_failed(stream):
    """What came in *stream*, and the error that is its last."""
    *came, failed = stream.results()
    return [x.value for x in came], failed.error


def fail(error):
    """Send *error* into a pipe."""
    sender, _stream = pipe(1)
    return sender.fail(error)


class TestOf:
    """`Stream.of`, and reading with `for`."""

    @given(st.lists(st.integers()))
    def test_gives_every_element_to_every_reader(self, items):
        """A stream can be read again and again, whatever it is made of."""
        for source in (items, tuple(items), iter(items), (x for x in items)):
            stream = Stream.of(source)

            assert items == list(stream) == list(stream)

    def test_takes_each_element_once_and_late(self):
        """The source is asked when an element is read for the first time."""
        asked: list[int] = []
        stream = Stream.of(map(seen_by(asked), range(3)))
        first, second = iter(stream), iter(stream)

        assert [] == asked
        assert [0, 0, 1] == [next(first), next(second), next(first)]
        assert [0, 1] == asked
        assert [1, 2] == list(second)
        assert [2] == list(first)
        assert [0, 1, 2] == asked

    @pytest.mark.parametrize(
        ("make", "change"),
        [
            (lambda: collections.UserList([1, 2]), lambda s: s.append(3)),
            (lambda: {1, 2}, lambda s: s.add(3)),
            (lambda: {1: "", 2: ""}, lambda s: s.clear()),
            (lambda: memoryview(bytearray(b"\1\2")), lambda s: s.obj.reverse()),
        ],
        ids=["list", "set", "map", "memory"],
    )
    def test_does_not_change_with_its_source(self, make, change):
        """A collection that changes later changes no stream."""
        source = make()
        stream = Stream.of(source)
        change(source)

        assert [1, 2] == list(stream)

    def test_copies_no_more_than_it_must(self):
        """What can't change, a range or a state's messages, is not copied."""

        class Numbers(collections.abc.Sequence[int]):
            asked = 0

            def __len__(self):
                return 10**12

            def __getitem__(self, n):
                self.asked += 1
                return n

        numbers = Numbers()

        assert 0 == next(iter(Stream.of(range(10**12))))
        assert 0 == next(iter(Stream.of(numbers)))
        assert 1 == numbers.asked

    def test_of_a_stream_is_a_stream_of_its_own(self):
        """Streams and readers give a stream from where they are, again and again."""
        stream = Stream.of(iter("abc"))
        reader = iter(stream)
        whole = reader.rest
        next(reader)
        again, rest = Stream.of(stream), Stream.of(reader)
        stream.close()

        assert [*"abc"] == list(again) == list(whole)
        assert [*"bc"] == list(rest)
        reader = iter(rest)
        assert [*"bc"] == list(reader.rest) == list(reader)
        assert [] == list(reader.rest)

    @pytest.mark.parametrize(
        "end", [*pipe(1), iter(pipe(1)[1])], ids=["sender", "stream", "reader"]
    )
    @pytest.mark.parametrize("verb", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_is_not_pickled(self, end, verb):
        """An object of one process can't be pickled; the error says what to do."""
        with pytest.raises(TypeError, match=r"can't pickle a [SR]"):
            verb(end)

    def test_needs_a_loop_for_what_is_awaited(self):
        """`for` over an async source is an error that says what to use."""
        for stream in (
            Stream.of(numbers()),
            Stream.of(numbers()).convert(str),
            merge(Stream.of(numbers()), Stream.of(numbers())),
        ):
            for _ in range(2):
                with pytest.raises(TypeError, match="async for"):
                    next(iter(stream))


class TestErrors:
    """Errors are elements with a place."""

    @given(pipe_items)
    def test_for_raises_each_in_its_place_and_can_go_on(self, items):
        """A reader gives or raises what was sent, in order, whatever others read."""
        stream = sent(*items)
        for _ in range(2):
            reader, got = iter(stream), []
            while True:
                try:
                    got.append(next(reader))
                except StopIteration:
                    break
                except Boom as error:
                    got.append(error)

            assert items == got

    @pytest.mark.parametrize("error", [IndexError, ValueError, KeyError])
    @pytest.mark.parametrize("make", [iter, lambda xs: xs], ids=["asked", "in memory"])
    def test_a_source_that_raises_has_ended(self, make, error):
        """
        Its error is its own, also one that our containers raise; and it is not asked
        again, whatever it would give.
        """
        own = error("its own")

        class Numbers:
            def __len__(self):
                return 3

            def __contains__(self, item):
                return True

            def __iter__(self):
                return map(partial(give_or_raise, own), [1, 2, 1])

        assert [Ok(1), Failed(own)] == list(Stream.of(make(Numbers())).results())

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_an_interrupted_source_is_no_end(self, error):
        """
        The reader that asked the source gets the interrupt; the others learn that
        something is missing.
        """
        stream = Stream.of(breaking_off(1, error=error()))
        with pytest.raises(error):
            list(stream)

        came, failed = split_failed(stream)
        assert [1] == came
        assert error.__name__ in str(failed)
        with pytest.raises(StreamClosedError, match="broke off"):
            list(stream)

    @pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration])
    def test_an_error_is_never_taken_for_the_end(self, error):
        """What would end a loop in silence reaches it as something else."""

        def stop(_=None):
            raise StopAsyncIteration if _ is None else error

        converted = Stream.of([1, 2]).convert(stop)
        for stream, length in ((converted, 2), (Stream.of(Iterator(stop)), 1)):
            with pytest.raises(RuntimeError, match="inside a stream") as caught:
                list(stream)

            assert isinstance(
                caught.value.__cause__, StopIteration | StopAsyncIteration
            )
            assert length == len(list(stream.results()))

    def test_come_to_every_reader_as_they_came_first(self):
        """
        The hundredth reader sees the traceback the first one saw, which begins in the
        source's or the function's own code, and the context that the error had, without
        what the reader was just handling.
        """
        cause, error = Boom("cause"), Boom("error")
        error.__context__ = cause
        source = Stream.of(breaking_off(1, error=error))
        depths = set()
        for stream in (
            source,
            Stream.of([1, 2]).convert(partial(give_or_raise, Boom())),
        ):
            frames = traceback.extract_tb(split_failed(stream)[1].__traceback__)
            assert [__file__] == [frame.filename for frame in frames]

        for _ in range(100):
            try:
                raise KeyError  # noqa: TRY301
            except KeyError:
                with pytest.raises(Boom) as caught:
                    list(source)

            depths.add(len(traceback.extract_tb(caught.value.__traceback__)))

        assert cause is error.__context__
        assert 1 == len(depths)

    @pytest.mark.parametrize("where", ["source", "iterator", "function", "on_error"])
    def test_keep_no_stream_alive(self, where):
        """
        An error that is kept keeps neither the stream, nor its other elements, nor what
        its reader had in hand.
        """
        kept: weakref.WeakSet[Thing] = weakref.WeakSet()

        def thing():
            made = Thing()
            kept.add(made)
            return made

        def fails(given=None):
            del given  # this frame is not ours
            raise Boom

        left = iter(range(3))

        def things():
            yield from (thing() for _ in range(3))
            fails()

        def failures():
            give = lambda: thing() if next(left, None) is not None else fails()  # noqa: E731
            stream = Stream.of(Iterator(give) if where == "iterator" else things())
            if where == "function":
                stream = stream.convert(fails)
            if where == "on_error":
                stream = stream.convert(lambda x: x, on_error=fails)
            return [x.error for x in stream.results() if isinstance(x, Failed)]

        failed = failures()

        assert failed
        assert not kept

    def test_raised_leave_no_cycle(self):
        """A reader that got an error, the error and its stream are freed at once."""
        error = Boom()
        stream, watch = sent(error), weakref.ref(error)
        there = weakref.ref(stream)
        del error
        gc.collect()
        gc.disable()
        try:
            reader = iter(stream)
            gone = weakref.ref(reader)
            try:  # noqa: SIM105 - suppress would keep the error
                next(reader)
            except Boom:
                pass
            del reader, stream

            assert gone() is there() is watch() is None
        finally:
            gc.enable()


class TestConvert:
    """`convert`, element by element."""

    @given(pipe_items, st.sampled_from([2, 3]))
    def test_is_the_list_comprehension(self, items, skipped):
        """Converted is what a comprehension with a condition gives; errors stay."""
        stream = sent(*items).convert(lambda n: SKIP if n % skipped else -n)
        expected = [
            x if isinstance(x, Exception) else -x
            for x in items
            if isinstance(x, Exception) or x % skipped == 0
        ]

        assert make_results(expected) == list(stream.results())

    def test_on_error_sees_all_errors_and_answers(self):
        """A handler gives what stands in an error's place, or nothing, or an error."""
        left, again = Boom("left"), Boom("again")

        def answer(error):
            if error is again:
                raise KeyError("third")
            return SKIP if error is left else type(error).__name__

        stream = sent(1, left, 0, again, Boom("right")).convert(
            lambda n: 1 // n, on_error=answer
        )
        one, two, three, four = stream.results()

        assert [Ok(1), Ok("ZeroDivisionError"), Ok("Boom")] == [one, two, four]
        assert isinstance(three.error, KeyError)

    def test_an_interrupted_function_is_called_again(self):
        """
        A reader that is interrupted in the function takes nothing from the others.
        """
        interrupts = [KeyboardInterrupt()]

        def function(n):
            if n == 2 and interrupts:
                raise interrupts.pop()
            return n

        stream = Stream.of([1, 2, 3]).convert(function)
        with pytest.raises(KeyboardInterrupt):
            list(stream)

        assert [1, 2, 3] == list(stream)


KINDS: Any = (streams.Stream, streams.StreamReader, streams.Sender)


async def _do_nothing(_):
    pass


@pytest.mark.parametrize(
    ("error", "shown", "call"),
    [
        *[
            (TypeError, "expected an iterable or async iterable", partial(Stream.of, n))
            for n in (None, print)
        ],
        (TypeError, "what calling it gives", partial(Stream.of, breaking_off)),
        (TypeError, r"can.t call Stream\(\); use", streams.Stream),
        *[(TypeError, r"can.t call .*; use", partial(kind, 3)) for kind in KINDS],
        (
            TypeError,
            "function is None; expected a",
            lambda: Stream.of("").convert(None),
        ),
        (
            *(TypeError, "on_error is 3; expected a function"),
            lambda: Stream.of("").convert(str, on_error=3),
        ),
        (TypeError, "an async function", lambda: Stream.of("").convert(_do_nothing)),
        *[
            (ValueError, f"capacity is {capacity!r}", partial(pipe, capacity))
            for capacity in (-1, 1.0, "1", None, True)
        ],
        *[
            (ValueError, r"readers would take it.*close\(\)", partial(fail, error))
            for error in (StopIteration(), StopAsyncIteration())
        ],
        *[
            (TypeError, "expected an instance of Exception", partial(fail, error))
            for error in (None, Boom, KeyboardInterrupt())
        ],
        (TypeError, r"expected a stream, Stream\.of", lambda: merge([1, 2])),
        (TypeError, r"expected a stream, Stream", lambda: merge_named({"a": [1]})),
        (TypeError, "name is 1; expected", lambda: merge_named({1: Stream.of([])})),
        (TypeError, "expected a mapping", lambda: merge_named([Stream.of([])])),
        *[
            (TypeError, "expected a stream", partial(drain, given, print))
            for given in ([1], None)
        ],
        (
            *(TypeError, "on_end is None; expected a function"),
            lambda: drain(Stream.of(()), None),
        ),
        (ConcatError, "chunk", lambda: collect([])),
    ],
    ids=itertools.count(),
)
def test_refuses(error, shown, call):
    """What is no source, function, capacity, error or stream is refused at once."""
    with pytest.raises(error, match=shown):
        call()


def test_shows_its_state():
    """
    Streams and senders show whether they are open, and read nothing for that; what
    leaves an element out shows its name.
    """
    sender, stream = pipe(2)
    sender.send(1)
    shown = [repr(sender), repr(stream)]
    sender.close()
    stream.close()

    assert ["<Sender: open, 1 of 2 waiting>", "<Stream: open>"] == shown
    assert repr(sender).startswith("<Sender: closed")
    assert "<Stream: closed>" == repr(stream)
    assert "SKIP" == repr(SKIP)


def wrap_in_all(_, stream):
    """*stream* without "b", through everything that a stream is made of."""
    stream = merge_named({"x": stream, "y": Stream.of(())})
    stream = stream.convert(lambda x: SKIP if x == "b" else x)
    stream = merge(stream, Stream.of(iter(())))
    return stream.results().convert(lambda x: getattr(x, "value", SKIP))


@pytest.mark.parametrize(
    ("source", "depth", "wrap", "expected"),
    [
        (range(5), 2_000, lambda _, s: s.convert(lambda n: n + 1), range(2000, 2005)),
        (
            *(range(1_990, 2_002), 2_000),
            lambda level, s: s.convert(lambda n: SKIP if n == level else n),
            [2_000, 2_001],
        ),
        (range(5), 2_000, lambda _, s: merge(s, Stream.of([])), range(5)),
        (
            *("ab", 1_000),
            lambda level, s: merge_named({f"{level}": s}) if level % 4 else s,
            "ab",
        ),
        ("a", 2_000, lambda _, s: s.results().convert(lambda ok: ok.value), "a"),
        ("ab", 300, wrap_in_all, "a"),
    ],
    ids=["convert", "skip", "merge", "named", "results", "all"],
)
def test_thousands_deep(source, depth, wrap, expected):
    """A stream of a stream of ... is read without a call in a call."""
    stream = Stream.of(source)
    for level in range(depth):
        stream = wrap(level, stream)

    assert [*expected] == list(stream)


def test_thousands_in_a_row():
    """
    Elements that are left out, and ends, in a row are no deeper than one; nor is
    freeing a long stream.
    """
    skips = Stream.of(range(20_001)).convert(lambda n: n if n == 20_000 else SKIP)
    ends = merge_named({f"{n}": Stream.of(()) for n in range(2_000)})

    assert [20_000] == list(skips)
    assert [] == list(ends)
    assert 2_000 == len(list(ends.results()))
    long = Stream.of(range(100_000))
    assert 100_000 == sum(1 for _ in long)
    del long


class TestPipe:
    """Both ends of a pipe."""

    @pytest.mark.parametrize("kind", KINDS_OF_WORKERS)
    @pytest.mark.parametrize("capacity", [0, 1, 100])
    def test_gives_all_in_order(self, capacity, kind):
        """
        Nothing is lost or turned round between threads and tasks, whatever the room.
        """
        sender, stream = pipe(capacity)
        size = 300

        def send():
            with sender:
                return in_kind(kind, send_all, sender, range(size))

        accepted, *gots = in_threads(
            send,
            *[partial(in_kind, each, read_all, stream) for each in KINDS_OF_WORKERS],
        )

        assert [True] * size == accepted
        assert [[*range(size)]] * 3 == gots

    @pytest.mark.parametrize("capacity", [0, 1, 3])
    def test_blocks_while_it_is_full(self, capacity):
        """Exactly *capacity* elements wait; one more goes in for each that is read."""
        sender, stream = pipe(capacity)
        sent_now = []

        def send():
            for n in range(6):
                sender.send(n)
                sent_now.append(n)
            sender.close()

        thread = start(send)
        reader = iter(stream)
        del stream
        for n in range(6):
            expected = min(n + capacity, 6)
            until(lambda: expected <= len(sent_now))  # noqa: B023 - called here
            # It now waits to send the next one, if there is any.
            until(lambda: expected == 6 or sender._pipe.senders)  # noqa: B023
            assert expected == len(sent_now)
            assert n == next(reader)

        assert [] == list(reader)
        finish(thread)

    @pytest.mark.parametrize(
        ("verb", "shown"),
        [
            (lambda _, held: held.clear(), "[False], deserted"),
            (lambda _, held: held[0].abort(), "[False], aborted"),
            (lambda sender, _: sender.close(), "can't send: this sender was closed"),
        ],
        ids=["dropped", "aborted", "closed"],
    )
    @pytest.mark.parametrize("kind", KINDS_OF_WORKERS)
    @pytest.mark.parametrize("capacity", [0, 1])
    def test_wakes_who_waits_to_send(self, capacity, kind, verb, shown):
        """
        Senders that wait, and later ones, learn that no reader is left, or that the
        stream was aborted or closed; what was sent before can be read.
        """
        sender, stream = pipe(capacity)
        held = [stream]
        del stream
        for n in range(capacity):
            assert sender.send(n)
        answer, _ = in_threads(
            partial(in_kind, kind, send_all, sender, ["more"]),
            when(lambda: sender._pipe.senders, lambda: verb(sender, held)),
        )
        for again in (lambda: [sender.send("late")], lambda: [sender.fail(Boom())]):
            assert [str(answer)] == [str(x) for x in in_threads(again)]

        assert shown in f"{answer}, {sender!r}".replace("<Sender: ", "")
        sender.close()
        sender.close()
        for stream in held:
            came = [x for x in stream.results() if isinstance(x, Ok)]
            assert [Ok(n) for n in range(capacity)] == came

    @pytest.mark.parametrize(
        ("make", "verb", "shown"),
        [
            (lambda s: s, lambda held: held.pop(0).close(), r"^\[\]$"),
            (
                lambda s: s,
                lambda held: held.__delitem__(0),
                r"dropped without close\(\)",
            ),
            (lambda s: s, lambda held: held[1].close(), "it was closed"),
            (lambda s: s.convert(str), lambda held: held[1].close(), "it was closed"),
            (lambda s: s, lambda held: held[1].abort(), "aborted"),
            (lambda s: s.convert(str), lambda held: held[1].abort(), "aborted"),
            (
                lambda s: merge(s, Stream.of([])),
                lambda held: held[1].abort(),
                "aborted",
            ),
        ],
        ids=itertools.count(),
    )
    @pytest.mark.parametrize("kind", KINDS_OF_WORKERS)
    def test_wakes_who_waits_to_read(self, kind, make, verb, shown):
        """Readers don't wait for a sender that is gone, nor in a stream that is."""
        sender, stream = pipe(1)
        readers, held = sender._pipe.readers, [sender, make(stream)]
        del sender
        got, _ = in_threads(
            partial(in_kind, kind, read_all, held[1]),
            when(lambda: readers, lambda: verb(held)),
        )

        assert re.search(shown, str(got))

    def test_is_read_by_what_is_made_of_it(self):
        """A pipe is deserted only when no stream made of it is left."""
        sender, stream = pipe(1)
        made = merge(stream.convert(str), Stream.of([])).results()
        del stream
        assert sender.send(1)
        reader = iter(made)
        del made
        assert Ok("1") == next(reader)
        assert sender.send(2)
        del reader

        assert sender.send(3) is False

    @pytest.mark.parametrize("error", [Boom, KeyboardInterrupt, StopIteration])
    @pytest.mark.parametrize("capacity", [0, 1])
    def test_sends_the_error_that_left_its_block(self, error, capacity):
        """
        What breaks a sender's block off is the last thing read, room or not; an
        interrupt, or what looks like an end, as another error.
        """
        sender, stream = pipe(capacity)
        boom = error()
        with pytest.raises(error), sender:
            raise boom

        (last,) = stream.results()
        if error is Boom:
            assert boom is last.error
        else:
            assert error.__name__ in str(last.error)
            assert isinstance(last.error, RuntimeError)

    def test_takes_many_senders(self):
        """Each thread's elements keep their order, and all of them come."""
        sender, stream = pipe(3)
        names = ["a", "b", "c", "d"]
        left = iter(range(4))

        def send_and_close(name):
            def run():
                for n in range(300):
                    sender.send((name, n))
                if next(left) == 3:
                    sender.close()

            return run

        *_, got = in_threads(*map(send_and_close, names), lambda: list(stream))

        assert 1_200 == len(got)
        for name in names:
            assert [(name, n) for n in range(300)] == [x for x in got if x[0] == name]

    def test_waiting_senders_are_served_in_turn(self):
        """The longest waiter is next, and none waits while there is room."""
        sender, stream = pipe(3)
        assert [True] * 3 == [sender.send(n) for n in range(3)]
        threads = []
        for n in range(1, 4):
            threads.append(start(sender.send, n + 2))
            until(lambda: n == len(sender._pipe.senders))  # noqa: B023 - called here

        reader = iter(stream)

        assert [0, 1, 2] == [next(reader) for _ in range(3)]
        finish(*threads)
        assert [3, 4, 5] == [next(reader) for _ in range(3)]


class TestMerge:
    """`merge` and `merge_named`."""

    def test_of_a_merge_that_is_read(self):
        """
        A merge of a merged stream has every element once, also where that one
        is read, too.
        """
        inner = merge(Stream.of("ab"), Stream.of("cd"))
        outer = merge(inner, Stream.of("ef"))

        assert [*"abcd"] == sorted(inner)
        assert [*"abcdef"] == sorted(outer)

    @given(st.lists(st.lists(st.integers(), max_size=8), max_size=5), st.data())
    def test_keeps_each_order_and_loses_nothing(self, many, data):
        """Whatever the sources are, each keeps its order and all of it comes."""
        makers = [list, iter, lambda xs: sent(*xs), lambda xs: (x for x in xs)]
        sources = [
            Stream.of(data.draw(st.sampled_from(makers))([(n, x) for x in items]))
            for n, items in enumerate(many)
        ]
        merged = merge(*sources)
        got = list(merged)

        assert got == list(merged)
        assert sum(map(len, many)) == len(got)
        for n, items in enumerate(many):
            assert items == [x for m, x in got if m == n]

    def test_takes_turns(self):
        """
        Of streams that are ready each gives one in turn, always the same way; of one
        is that one, and of none is empty.
        """
        one = Stream.of("abc")
        merged = merge(one, Stream.of("1"), Stream.of("xy"))

        assert ["a", "1", "x", "b", "y", "c"] == list(merged)
        assert one is merge(one)
        assert [] == list(merge()) == list(merge_named({}))

    def test_reads_the_source_that_is_ready_first(self):
        """A silent source blocks no reader, before or after."""
        silent, quiet = pipe(1)
        loud, receiver = pipe(1)
        merged = iter(merge(quiet, receiver))
        for n in range(3):
            got, _ = in_threads(
                lambda: next(merged),
                when(lambda: loud._pipe.readers, partial(loud.send, n)),
            )
            assert n == got

        # Waiting left nothing behind.
        assert not silent._pipe.readers
        in_threads(lambda: next(merged), lambda: silent.send("at last"))
        silent.close()
        loud.close()
        assert [] == list(merged)

    def test_asks_sources_that_block_at_once(self):
        """A source that blocks stops no other, and is asked for one element only."""
        begun, go = threading.Event(), threading.Event()
        asked = []

        def slow():
            for n in range(3):
                asked.append(n)
                begun.set()
                go.wait(60)
                yield "slow"

        merged = iter(merge(Stream.of(slow()), Stream.of(iter([1, 2]))))

        assert [1, 2] == [next(merged), next(merged)]
        assert begun.wait(60)
        assert [0] == asked
        go.set()
        assert ["slow"] * 3 == list(merged)

    def test_reports_each_named_end_once(self):
        """Each source's end is reported after its last element, inner ones, too."""
        inner = merge_named({"x": Stream.of([1]), "y": Stream.of([])})
        outer = merge_named({"in": inner, "b": Stream.of([2, 3])})

        assert [1, 2, 3] == list(outer)
        results = list(outer.results())
        ends = [x.name for x in results if isinstance(x, SourceEnd)]
        assert ["b", "in", "x", "y"] == sorted(ends)
        for before, after in (
            (Ok(1), SourceEnd("x")),
            (SourceEnd("x"), SourceEnd("in")),
            (Ok(3), SourceEnd("b")),
        ):
            assert results.index(before) < results.index(after)

        sender, quiet = pipe(1)
        sources = {"quiet": quiet, "loud": Stream.of([1]), "soft": Stream.of([])}
        mixed = iter(merge_named(sources).results())
        came = [next(mixed), next(mixed), next(mixed)]
        sender.close()
        assert [Ok(1), *map(SourceEnd, ["soft", "loud", "quiet"])] == [*came, *mixed]
        named = merge_named({"x": Stream.of([1]), "y": Stream.of([2, 3])})
        among_others = [*merge(named, Stream.of([4])).results()]
        assert among_others.index(SourceEnd("x")) < among_others.index(Ok(3))
        assert Ok(3) == among_others[among_others.index(SourceEnd("y")) - 1]


class TestClose:
    """Letting go."""

    def test_closes_the_stream_and_its_readers(self):
        """After closing, neither can be read; closing again is fine."""
        stream = Stream.of(iter("abc"))
        reader = iter(stream)
        next(reader)
        stream.close()
        stream.close()

        for read in (
            lambda: next(reader),
            lambda: reader.rest,
            lambda: iter(stream),
            lambda: stream.convert(str),
            stream.results,
            lambda: merge(stream, stream),
            lambda: collect(stream),
            lambda: drain(stream, print),
        ):
            with pytest.raises(StreamClosedError, match="it was closed"):
                read()

    def test_the_end_of_a_block_closes(self):
        """Behind its block a stream can't be read."""
        with Stream.of("ab") as stream:
            assert ["a", "b"] == list(stream)

        assert "<Stream: closed>" == repr(stream)
        with pytest.raises(StreamClosedError):
            iter(stream)

    def test_closes_the_source_with_the_last_reader(self):
        """
        A generator is closed with its last reader, not before; any iterator with a
        `close` has it called, at its end, too.
        """
        closed: list[Any] = []
        source = closing(closed)
        stream = Stream.of(source)
        other = stream.convert(str)
        next(iter(stream))
        stream.close()
        assert [] == closed
        del other

        assert [True] == closed
        assert [] == list(source)
        Stream.of(Iterator(None, lambda: closed.append("dropped")))
        list(Stream.of(Iterator(iter(()).__next__, lambda: closed.append("read"))))
        assert [True, "dropped", "read"] == closed

        kept = Stream.of(Iterator(iter(()).__next__, lambda: closed.append("kept")))
        assert [] == list(kept)
        assert "kept" == closed[-1]

    def test_a_reader_closes_alone(self):
        """A reader that is closed takes nothing from others."""
        stream = Stream.of(iter("ab"))
        reader = iter(stream)
        reader.close()
        reader.close()

        with pytest.raises(StreamClosedError):
            next(reader)
        assert ["a", "b"] == list(stream)

    def test_while_its_source_is_asked(self):
        """A reader whose stream is closed meanwhile gets the error, and no element."""

        def source():
            yield 1
            stream.close()
            yield 2

        stream = Stream.of(source())
        got: list[int] = []
        with pytest.raises(StreamClosedError, match="it was closed"):
            got.extend(stream)

        assert [1] == got
        reader: Any = iter(Stream.of([1, 2]).convert(lambda _: reader.close()))
        for _ in range(2):
            with pytest.raises(StreamClosedError, match="it was closed"):
                next(reader)


class TestAbort:
    """Stopping the source, whatever readers are left."""

    @pytest.mark.parametrize(
        ("make", "came"),
        [
            (lambda _: Stream.of([1, 2, 3]), [1, 2]),
            (lambda _: Stream.of(iter([1, 2, 3])), [1, 2]),
            (lambda _: Stream.of(n for n in [1, 2, 3]), [1, 2]),
            (lambda piped: piped, [1, 2, 3]),  # it was sent
        ],
        ids=["list", "iterator", "generator", "pipe"],
    )
    def test_ends_after_what_had_come(self, make, came):
        """
        All readers, of the stream and of those made of it, get what had come, then
        an error, then the end. Aborting again changes nothing.
        """
        sender, piped = pipe(3)
        assert [True] * 3 == [sender.send(n) for n in [1, 2, 3]]
        stream = make(piped)
        reader = iter(stream)
        assert [1, 2] == [next(reader), next(reader)]
        made = stream.convert(lambda x: -x)

        stream.abort()
        first = [*stream.results()]
        stream.abort()

        assert came == split_failed(stream)[0]
        assert isinstance(first[-1].error, StreamClosedError)
        assert "aborted" in str(first[-1].error)
        assert first == [*stream.results()] == [*Stream.of(stream).results()]
        assert [-x for x in came] == split_failed(made)[0]
        assert first[2:] == [*reader.rest.results()]

    def test_a_failed_close_is_logged(self, caplog):
        """An iterator whose `close` raises is stopped all the same."""
        close = partial(give_or_raise, Boom("can't close"), 2)
        stream = Stream.of(Iterator(lambda: 1, close))
        assert 1 == next(iter(stream))
        stream.abort()

        assert "can't close" in caplog.text
        with pytest.raises(StreamClosedError, match="aborted"):
            list(stream)

    def test_an_ended_source_is_left_alone(self):
        """Without effect on a source that has ended, and on a closed stream."""
        stream = Stream.of(iter("ab"))
        other = Stream.of(stream)
        assert ["a", "b"] == list(stream)
        stream.abort()
        assert ["a", "b"] == list(stream)

        stream.close()
        stream.abort()
        assert ["a", "b"] == list(other)

        piped = sent(1)
        piped.abort()
        assert [1] == list(piped)

        late = Stream.of(iter("ab"))
        other = Stream.of(late)
        late.close()
        late.abort()
        assert ["a", "b"] == list(other)

    @pytest.mark.parametrize(
        "make", [merge, lambda *s: merge_named(dict(zip("abc", s, strict=True)))]
    )
    def test_reaches_the_sources_of_derived_streams(self, make):
        """
        Through `convert`, `results` and merges of merges: every source is stopped,
        once, however often the stream is made of it.
        """
        sender, left = pipe(1)
        closed: list[bool] = []
        middle = Stream.of(closing(closed))
        assert 1 == next(iter(middle))
        right = Stream.of([5])
        derived = make(left.convert(str), merge(middle, left), right.results())
        often = derived.convert(repr)
        for _ in range(60):
            often = merge_named({"a": often.convert(str), "b": often})

        iter(often.results()).rest.abort()

        assert sender.send(1) is False
        assert [True] == closed
        for stream in left, middle, right:
            assert isinstance(split_failed(stream)[1], StreamClosedError)
        # One for each way to a source.
        failed = [x for x in derived.results() if isinstance(x, Failed)]
        assert 3 == len(failed)

    @pytest.mark.parametrize("worker", KINDS_OF_WORKERS)
    @pytest.mark.parametrize("how", ["same", "merge"])
    @pytest.mark.parametrize("kind", ["generator", "iterator"])
    def test_does_not_wait_for_an_iterator_that_blocks(self, kind, how, worker):
        """
        Readers that wait for one that is inside of the iterator get the error at
        once. That one gets it when the iterator returns, whose element is dropped;
        a generator is closed then.
        """
        inside, go, closed = threading.Event(), threading.Event(), threading.Event()

        def block():
            yield 1
            try:
                inside.set()
                go.wait(20)
                yield 2
            finally:
                closed.set()

        items = block()
        stream = Stream.of(items if kind == "generator" else Iterator(items.__next__))
        got: list[Any] = []
        thread = start(lambda: got.extend(stream.results()))
        assert inside.wait(60)
        source = stream._cell.next.source
        waiting = merge(stream, Stream.of([])) if how == "merge" else stream
        late, _ = in_threads(
            partial(in_kind, worker, read_all, waiting.results()),
            when(lambda: source.waiters, stream.abort),
        )

        assert Ok(1) == late[0]
        assert [StreamClosedError] == [type(x.error) for x in late[1:]]
        assert late == [*stream.results()]
        assert not closed.is_set()

        go.set()
        finish(thread)
        assert late == got
        if kind == "generator":
            assert closed.is_set()

    @pytest.mark.parametrize("is_inside", [True, False])
    def test_closes_a_connection_that_is_waited_for(self, is_inside):
        """
        The `close` of an iterator that is not a generator is called while a thread is
        inside, which ends its wait; once, however often it is aborted, also from there.
        """
        inside, ended = threading.Event(), threading.Event()
        closed: list[bool] = []

        def close():
            closed.append(True)
            ended.set()

        def receive():
            inside.set()
            for _ in range(3 if is_inside else 0):
                stream.abort()
            assert ended.wait(60)
            raise OSError("closed")

        stream = Stream.of(Iterator(receive, close))
        got, _ = in_threads(
            lambda: [*stream.results()],
            when(inside.is_set, print if is_inside else stream.abort),
        )

        assert [StreamClosedError] == [type(x.error) for x in got]
        assert [True] == closed

    def test_from_inside(self):
        """The source itself, or a function that is called for an element, may abort."""
        closed: list[bool] = []

        def source():
            yield from closing(closed, (stream.abort() if n else n for n in range(3)))

        stream = Stream.of(source())
        came, failed = split_failed(stream)
        assert [0] == came
        assert isinstance(failed, StreamClosedError)
        assert [True] == closed

        ints = Stream.of(iter(range(9)))
        stopped = ints.convert(lambda n: n if n < 2 else ints.abort())
        assert [0, 1, None] == split_failed(stopped)[0]

    @pytest.mark.parametrize("how", ["reader", "abort", "itself"])
    def test_closes_once(self, how, caplog):
        """
        While one call closes the generator, others that find it aborted leave that
        to it: readers, another abort, and an abort by what the generator does at its
        end.
        """
        inside, go = threading.Event(), threading.Event()
        closed: list[int] = []

        def source():
            try:
                yield 1
                yield 2
            finally:
                if how == "itself":
                    stream.abort()
                inside.set()
                go.wait(60)
                closed.append(1)

        def come_late():
            assert inside.wait(60)
            if how == "reader":
                list(stream.results())
            elif how == "abort":
                stream.abort()
            go.set()

        stream = Stream.of(source())
        assert 1 == next(iter(stream))
        aborted, came = in_threads(stream.abort, come_late)

        assert aborted is came is None
        assert [1] == closed
        assert not caplog.records

    def test_many_at_once(self):
        """Threads that abort, read and send at once agree on one sequence."""
        for _ in range(50):
            stream = Stream.of(iter(range(1_000)))
            sender, piped = pipe(3)

            def send(sender=sender):
                while sender.send(0):
                    pass

            both = merge(stream, piped)
            read = lambda both=both: [*both.results()]  # noqa: E731
            one, two, *_ = in_threads(read, read, send, both.abort, both.abort)

            assert one == two == read()
            assert StreamClosedError in [type(getattr(x, "error", None)) for x in one]


class TestMemory:
    """Elements without a reader are freed."""

    def test_a_reader_keeps_nothing_of_the_past(self):
        """Each element goes with the last who holds it, in every kind of stream."""

        def things():
            for _ in range(100):
                yield Thing()

        for make in (
            lambda: Stream.of(things()),
            lambda: Stream.of(things()).convert(lambda x: x),
            lambda: merge(Stream.of(things()), Stream.of(())),
            lambda: sent(*things()),
        ):
            reader = iter(make())
            for _ in range(99):
                there = weakref.ref(next(reader))
                assert there() is None

    def test_a_slow_reader_keeps_its_backlog(self):
        """
        What one reader still has before it stays, and goes as it reads; what was sent
        and can't be read goes with the last reader.
        """
        reader = iter(Stream.of(Thing() for _ in range(3)))
        slow = iter(reader.rest)
        there = [weakref.ref(x) for x in reader]

        assert [True] * 3 == [x() is not None for x in there]
        next(slow)
        assert [False, True, True] == [x() is not None for x in there]
        del slow
        assert [False] * 3 == [x() is not None for x in there]

        sender, stream = pipe(2)
        thing = Thing()
        unread = weakref.ref(thing)
        sender.send(thing)
        del thing, stream
        assert unread() is None

    @pytest.mark.parametrize("after", range(12))
    def test_while_the_collector_runs(self, after):
        """
        What the collector finds in the middle of a close or an abort, readers or the
        sender of the same stream, disturbs neither.
        """

        async def read(stream):
            return [type(x) async for x in stream.results()]

        async def abort():
            sender, stream = pipe(0)
            async with anyio.create_task_group() as group:
                for _ in range(25):
                    group.start_soon(read, stream)

                await anyio.wait_all_tasks_blocked()
                drop_in_a_cycle(sender)
                del sender
                with collecting(after):
                    stream.abort()

        stream = Stream.of([1])
        for _ in range(25):
            drop_in_a_cycle(iter(stream))

        with collecting(after):
            stream.close()

        anyio.run(abort)


def drop_in_a_cycle(thing):
    """Leave *thing* to the collector."""
    cycle = [thing]
    cycle.append(cycle)


@contextlib.contextmanager
def collecting(after):
    """Let the collector run after so many allocations of the block."""
    threshold = gc.get_threshold()
    gc.set_threshold(gc.get_count()[0] + after, 1_000, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)


class TestThreads:
    """Many readers at once."""

    def test_one_asks_and_all_get_the_same(self):
        """The source is asked once for each element, by any reader, at any moment."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for _ in range(5):
                asked = itertools.count()
                stream = Stream.of(next(asked) for _ in range(2_000))
                made = stream.convert(lambda n: [n])
                got = in_threads(*[lambda: list(made) for _ in range(4)])  # noqa: B023

                assert 2_000 == next(asked)
                for each in got:
                    assert all(x is y for x, y in zip(got[0], each, strict=True))
        finally:
            sys.setswitchinterval(interval)

    @pytest.mark.parametrize("how", ["source", "function in a merge"])
    def test_others_get_an_element_though_no_further_one_is_asked_for(self, how):
        """
        A waiting reader is woken as soon as the one in the source, or in a function,
        has its element; also one of a merge.
        """
        inside, go = threading.Event(), threading.Event()

        def slow(item):
            inside.set()
            go.wait(60)
            return item

        if how == "source":
            waiting = stream = Stream.of(slow(n) for n in ["one"])
        else:
            stream = Stream.of(["one"]).convert(slow)
            _sender, quiet = pipe(0)
            waiting = merge(stream, quiet)

        busy = stream._cell.source.waiters
        got = in_threads(
            lambda: next(iter(stream)),
            when(inside.is_set, lambda: next(iter(waiting))),
            when(lambda: busy, go.set),
        )

        assert ["one", "one", None] == got

    def test_a_source_that_reads_itself_fails(self):
        """
        A source that waits for itself gets an error instead, and the stream ends; the
        same through a function, and through streams made of the stream.
        """

        def source():
            yield 1
            yield list(stream)

        stream = Stream.of(source())
        came, failed = split_failed(stream)

        assert [1] == came
        with pytest.raises(StreamClosedError, match="deadlock"):
            raise failed

        made: list[Any] = []
        stream = Stream.of([1]).convert(lambda _: list(merge(*made)))
        made += [stream.convert(str), Stream.of([])]

        assert isinstance(split_failed(stream)[1], StreamClosedError)

    def test_threads_that_wait_for_each_other_fail(self):
        """Two sources that read each other, each asked by a thread, end in errors."""
        both = threading.Barrier(2, timeout=60)
        streams_: list[Any] = []

        def source(other):
            both.wait()
            yield from streams_[other]

        streams_.extend([Stream.of(source(1)), Stream.of(source(0))])
        one, two = in_threads(
            lambda: list(streams_[0].results()), lambda: list(streams_[1].results())
        )

        for got in (one, two):
            assert got
            assert isinstance(got[-1].error, StreamClosedError)


class TestCollect:
    """`collect` gives one message."""

    CHUNKS = (AssistantMessage("Hel"), AssistantMessage("lo"))
    WHOLE = AssistantMessage("Hello")

    @pytest.mark.parametrize(
        "make", [list, tuple, iter, Stream.of, lambda chunks: Stream.of(iter(chunks))]
    )
    def test_takes_any_iterable(self, make):
        """Chunks become one message, and who holds a stream reads it again."""
        chunks = make(self.CHUNKS)

        assert self.WHOLE == collect(chunks)
        if isinstance(chunks, streams.Stream):
            assert self.WHOLE == collect(chunks)
            assert list(self.CHUNKS) == list(chunks)

    def test_keeps_what_was_read_before_an_error(self):
        """The error has the message until there, and the rest can be read."""
        stream = sent(*self.CHUNKS, Boom(), AssistantMessage("!"))
        for _ in range(2):
            with pytest.raises(Boom) as caught:
                collect(stream)

            assert self.WHOLE == caught.value.partial
            (note,) = caught.value.__notes__
            assert "read before: 2" in note

        whole = collect(stream.convert(lambda x: x, on_error=lambda _: SKIP))
        assert AssistantMessage("Hello!") == whole
        with pytest.raises(Boom) as caught:
            collect(sent(Boom()))
        assert caught.value.partial is None

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Boom])
    @pytest.mark.parametrize(
        "where", ["function", "on_error", "deep", "iterator", "below results"]
    )
    def test_an_interrupt_that_is_kept_keeps_no_source(self, where, kind):
        """
        Whatever is raised inside a function of the user's, whose frames know who
        called it: who keeps it does not keep the source.
        """
        sender, stream = pipe(3)
        sender.send(self.CHUNKS[0])
        sender.fail(ValueError())

        def fails(given=None):
            del given  # this frame is not ours
            raise kind

        def chunks(source):
            source = [source]
            yield next(iter(source.pop()))
            fails()

        make = {
            "function": lambda stream: stream.convert(fails),
            "on_error": lambda stream: stream.convert(lambda x: x, on_error=fails),
            "deep": lambda stream: stream.convert(fails).convert(str).convert(str),
            "iterator": lambda stream: Stream.of(chunks(stream)),
            "below results": lambda stream: merge_named({"x": stream.convert(fails)}),
        }
        held = [make[where](stream)]
        del stream
        with pytest.raises(kind) as caught:
            collect(held.pop())

        assert sender.send(1) is False
        assert "fails" == caught.traceback[-1].name


class TestDrain:
    """Streams that go on without readers."""

    def test_to_the_end(self):
        """
        All is read in the background, and is there for those who come later; what ends
        it early is passed on.
        """
        ends: Any = queue.SimpleQueue()
        sender, stream = pipe(0)
        drain(stream, ends.put)

        assert [True, True] == [sender.send(1), sender.send(2)]
        sender.close()
        assert None is ends.get(timeout=60)
        assert [1, 2] == list(stream)

        sender, stream = pipe(0)
        drain(stream, ends.put)
        sender.fail(Boom("one"))
        assert "one" == str(ends.get(timeout=60))

        _sender, stream = pipe(0)
        drain(stream, ends.put)
        stream.abort()
        assert isinstance(ends.get(timeout=60), StreamClosedError)

        drain(Stream.of(breaking_off(error=SystemExit(3))), ends.put)
        assert "the source raised SystemExit(3)" == str(ends.get(timeout=60))

        # An async source needs an event loop, until it has ended.
        drain(stream := Stream.of(numbers()), ends.put)
        assert "no event loop runs here" in str(ends.get(timeout=60))
        assert [1] == in_kind("asyncio", read_all, stream)
        drain(stream, ends.put)
        assert None is ends.get(timeout=60)


# A pipe used in any order; a number waits to be read as often as there is time.
steps = st.lists(
    st.sampled_from(["send", "fail", "close", "read", "stop", "drop", "merge"]),
    max_size=25,
)


class TestAnyOrder:
    """Whatever is done in whatever order, it comes to an end."""

    @settings(max_examples=150)
    @given(st.integers(0, 3), steps)
    def test_never_hangs_and_loses_nothing(self, capacity, steps):  # noqa: C901 - a sender and a reader
        """What was accepted is read in order, by all readers; none waits for ever."""
        sender, stream = pipe(capacity)
        accepted = []

        def send():
            for n, step in enumerate(steps):
                try:
                    if step == "close":
                        sender.close()
                    if step == "send" and sender.send(n):
                        accepted.append(n)
                    if step == "fail" and sender.fail(Boom(n)):
                        accepted.append(n)
                except StreamClosedError:
                    assert "close" in steps[:n]
            sender.close()

        handles = [stream, stream.convert(lambda x: x), merge(stream, Stream.of(()))]
        del stream

        def read(handle):
            def run():
                stream = handle.pop()
                got: list[Any] = []
                reader = iter(stream.results())
                for step in steps:
                    if step in {"stop", "drop"}:
                        (stream if step == "stop" else reader).close()
                        return got
                    if step in {"read", "merge"}:
                        got += itertools.islice(reader, 1)
                return got + list(reader)

            return run

        readers = [read([handle]) for handle in handles]
        handles.clear()
        _, *gots = in_threads(send, *readers)

        for got in gots:
            numbers = [x.value if isinstance(x, Ok) else x.error.args[0] for x in got]
            assert numbers == accepted[: len(numbers)]
            if not {"stop", "drop"} & set(steps):
                assert accepted == numbers
