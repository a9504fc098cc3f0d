"""What a kept version of a `Log` keeps alive, what it weighs, and who may share it."""

import gc
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import pytest

from conversation_state._persistent import Log

SIZES = [0, 1, 31, 32, 33, 64, 1023, 1024, 1025, 1056, 1057]


class Item:
    """Something that can be watched."""

    def __init__(self, name: object) -> None:
        self.name = name


def grown(items: Iterable[Any]) -> Log[Any]:
    """A log that was appended to item by item."""
    log: Log[Any] = Log()
    return reduce(Log.append, items, log)


def items(count: int) -> tuple[list[Item], list[weakref.ref[Item]]]:
    """New items, and a watch on each."""
    made = [Item(n) for n in range(count)]
    return made, [weakref.ref(item) for item in made]


def alive(watches: list[weakref.ref[Item]]) -> list[object]:
    """
    The names of those that are still there; without a collector, for nothing
    a log does should need one.
    """
    found = [watch() for watch in watches]
    return [item.name for item in found if item is not None]


@pytest.fixture(params=["at once", "one by one"])
def extend(request):
    """Two ways to extend a log."""
    if request.param == "at once":
        return Log.extend

    return lambda log, more: reduce(Log.append, more, log)


class TestFreed:
    @pytest.mark.parametrize("length", [1, 31, 32, 33, 100, 1100])
    @pytest.mark.parametrize("size", SIZES)
    def test_abandoned_futures(self, extend, size, length):
        """
        What was appended to a version that is kept is freed with the last
        version that has it.
        """
        kept = extend(Log(), items(size)[0])
        list(kept)
        more, watches = items(length)
        future = extend(kept, more)
        list(future), future[-1], future.fold(lambda n, _: n + 1, 0, key="count")

        assert list(range(length)) == alive(watches)

        del more, future

        assert [] == alive(watches)
        assert list(range(size)) == [item.name for item in kept]

    @pytest.mark.parametrize("count", [*SIZES, 1088, 1089, 1090, 1099])
    def test_what_was_not_taken(self, extend, count):
        """
        A shorter version keeps its own items, and nothing of the longer one it
        was taken from.
        """
        made, watches = items(1100)
        log = extend(Log(), made)
        list(log)
        taken = log.take(count)
        del made, log

        assert list(range(count)) == alive(watches)
        assert list(range(count)) == [item.name for item in taken]

    @pytest.mark.parametrize("size", [1, 31, 32, 33, 1056, 1057])
    def test_older_versions(self, size):
        """Of versions appended one by one, the kept one keeps its own items."""
        made, watches = items(1100)
        log: Log[Item] = Log()
        for item in made:
            log = log.append(item)
            if len(log) == size:
                kept = log

        del made, log, item

        assert list(range(size)) == alive(watches)
        assert list(range(size)) == [each.name for each in kept]

    @pytest.mark.parametrize(
        "at", [slice(1, 3), slice(30, 70), slice(990, None), slice(0, None, 500)]
    )
    def test_slices(self, at):
        """A slice keeps what is in it."""
        made, watches = items(1100)
        cut = Log(made)[at]
        del made

        assert list(range(1100))[at] == alive(watches)
        assert list(range(1100))[at] == [item.name for item in cut]

    def test_in_a_cycle(self):
        """
        A version in a reference cycle is collected with it, and takes nothing along
        that other versions still use.
        """
        made, watches = items(100)
        cycle: list[Any] = [grown(made)]
        cycle.append(cycle)
        held = made[40]
        del made, cycle
        gc.collect()

        assert [40] == alive(watches)
        assert 40 == held.name


class TestWeight:
    @pytest.mark.parametrize("size", [10, 1_000, 10_000])
    def test_of_a_kept_version(self, size):
        """At most 300 bytes for each version that is kept, however long it is."""
        log: Log[object] = Log(range(size))
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            kept = [log]
            for _ in range(5_000):
                log = log.append(None)
                kept.append(log)

            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert 300 >= (after - before) / 5_000
        assert size + 5_000 == len(kept[-1])

    def test_of_a_branch(self):
        """A branch of a long log weighs no more than what is new in it."""
        log = Log(range(100_000))
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            branches = [log.append(n).append(n) for n in range(100)]
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert 100 == len(branches)
        assert 5_000 >= (after - before) / 100


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads that take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient")
class TestThreads:
    """Versions may be grown and read by any number of threads, without a lock."""

    @staticmethod
    def race(*runs: Any) -> None:
        failures: list[BaseException] = []
        start = threading.Barrier(len(runs))

        def guarded(run: Any) -> None:
            start.wait()
            try:
                run()
            except BaseException as failure:  # noqa: BLE001 - asserted below
                failures.append(failure)

        threads = [threading.Thread(target=guarded, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()

        for thread in threads:
            thread.join()

        assert [] == failures

    @pytest.mark.parametrize("size", [0, 31, 32, 1055, 1056])
    def test_append_to_one_version(self, size):
        """Each thread gets its own future of one old version."""
        old = grown(range(size))
        expected = list(range(size))

        def grow(name: int) -> None:
            for _ in range(20):
                log = old
                for n in range(70):
                    log = log.append((name, n))

                mine = [(name, n) for n in range(70)]
                assert [*expected, *mine] == list(log)

        self.race(*[lambda name=name: grow(name) for name in range(6)])

        assert expected == list(old)

    def test_read_one_version(self):
        """
        Threads that read one version, and remember what they read, all read
        the same.
        """
        versions = [grown(range(size)) for size in range(1050, 1090)]

        def read(key: int) -> None:
            for log in versions:
                size = len(log)
                total = log.fold(lambda n, item: n + item + key, 0, key=key)
                assert sum(range(size)) + key * size == total
                assert list(range(size)) == list(log)
                assert size - 3 == log[-3]

        self.race(*[lambda key=key: read(key) for key in range(6)])
