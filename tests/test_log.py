"""
`Log`, verb by verb, at the lengths where its insides change shape.

See `test_log_machine.py` for long histories, `test_log_memory.py` for what a
version keeps alive, and `test_log_peers.py` for why it isn't pyrsistent's.
"""

import copy
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from itertools import accumulate, product
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state._persistent import Log, View, log_with_gap
from tests.processes import count_calls, count_lines

# Around one block, one node of blocks, and one node of nodes of blocks, each
# with and without a full tail.
SIZES = [0, 1, 2, 31, 32, 33, 63, 64, 65]
LARGE = [1023, 1024, 1025, 1055, 1056, 1057, 1088, 1089, 2112]
HUGE = [32_767, 32_768, 32_769, 32_799, 32_800, 32_801, 33_824, 33_825]


def grown(items: Iterable[Any]) -> Log[Any]:
    """A log that was appended to item by item."""
    log: Log[Any] = Log()
    return reduce(Log.append, items, log)


def versions_of(items: Iterable[Any]) -> list[Log[Any]]:
    """The log of all *items* and every version before it, the empty one first."""
    log: Log[Any] = Log()
    return list(accumulate(items, Log.append, initial=log))


@pytest.fixture(params=["at once", "one by one"])
def make(request):
    """Two ways to the same log, which leave different cells at its end."""
    return Log if request.param == "at once" else grown


def assert_same(expected: Sequence[object], log: Log[Any]) -> None:
    """*log* holds *expected*, whichever way it is read."""
    assert len(expected) == len(log)
    assert bool(expected) == bool(log)
    assert list(expected) == list(log)
    assert list(expected) == [log[at] for at in range(len(expected))]
    assert list(reversed(expected)) == list(reversed(log))


class TestNew:
    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_holds_what_it_is_given(self, size):
        """A log of any iterable holds its items in order."""
        assert_same(range(size), Log(range(size)))
        assert_same(range(size), Log(list(range(size))))
        assert_same(range(size), Log(n for n in range(size)))


class TestAppend:
    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_branches(self, make, size):
        """
        Every version can be appended to more than once; branches share their
        past and nothing else.
        """
        log = make(range(size))
        one = log.append("one")
        two = log.append("two").append("three")

        assert_same([*range(size), "one"], one)
        assert_same([*range(size), "two", "three"], two)
        assert_same(range(size), log)

    def test_every_version_stays(self):
        """All versions on the way to 1,100 items still hold what they held."""
        versions = versions_of(range(1100))

        assert [list(range(n)) for n in range(1101)] == [*map(list, versions)]


class TestExtend:
    @pytest.mark.parametrize("more", [*SIZES, 96, 97, 1024, 1088])
    @pytest.mark.parametrize("size", [*SIZES, 1024, 1056, 1057])
    def test_appends_all(self, make, size, more):
        """As if each was appended; this version is as it was."""
        log = make(range(size))
        new = range(size, size + more)

        assert_same(range(size + more), log.extend(list(new)))
        assert_same(range(size + more), log.extend(iter(new)))
        assert_same(range(size + more), log.extend(Log(new)))
        assert_same(range(size + more + 1), log.extend(new).append(size + more))
        assert_same(range(size), log)

    @pytest.mark.parametrize("size", [0, 1, 32, 1056])
    def test_by_nothing(self, size):
        """A log extended by nothing is itself."""
        log = Log(range(size))

        assert log is log.extend([])
        assert log is log.extend(iter(()))
        assert log is log.extend(Log())


class TestWithGap:
    @pytest.mark.parametrize("start", [32, 64, 1024, 1056, 2048, 32_768, 33_824])
    @pytest.mark.parametrize("first", [0, 1, 32])
    def test_is_read_as_a_list(self, first, start):
        """A log of which the middle is missing is read and grows like any other."""
        newest = range(start, start + 40)
        log = log_with_gap(range(first), None, start, newest)
        items = [*range(first), *[None] * (start - first), *newest]

        assert len(items) == len(log)
        assert items == list(log)
        assert items[::-1] == list(reversed(log))
        for at in (0, 31, 32, start - 1, start, -1):
            assert items[at] == log[at]

        assert [*items, *newest] == list(log.extend(newest))
        assert items[: start - 1] == list(log.take(start - 1))


class TestTake:
    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_first_items(self, make, size):
        """The first *count* items, for every count there is."""
        log = make(range(size))
        for count in [*range(0, size + 1, 1 + size // 200), size]:
            assert list(range(count)) == list(log.take(count))

    @pytest.mark.parametrize("count", [*SIZES, *LARGE])
    def test_grows_on(self, make, count):
        """What was taken grows like any log, and the one it came from does not."""
        log = make(range(2200))
        taken = log.take(count)

        assert_same([*range(count), *"abc" * 30], taken.extend("abc" * 30))
        assert_same([*range(count), "a"], taken.append("a"))
        assert_same(range(2200), log)

    @pytest.mark.parametrize("size", [0, 1, 32, 33, 1056])
    def test_more_than_there_are(self, make, size):
        """Asked for all or more, it gives the log itself."""
        log = make(range(size))

        assert log is log.take(size)
        assert log is log.take(size + 1)


class TestIndex:
    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_from_both_ends(self, make, size):
        """Positions count from the start, negative ones from the end."""
        log = make(range(size))

        assert list(range(size)) == [log[at] for at in range(size)]
        assert list(range(size)) == [log[at] for at in range(-size, 0)]

    @pytest.mark.parametrize("size", [0, 1, 32, 33, 1057])
    def test_outside(self, make, size):
        """Positions outside are an IndexError with the position and the length."""
        log = make(range(size))
        for at in (size, size + 40, -size - 1, -size - 40):
            with pytest.raises(IndexError) as raised:
                log[at]

            items = "1 item" if size == 1 else f"{size:,} items"
            assert f"position {at} of a log of {items}" == str(raised.value)

    def test_cost(self):
        """An item of fewer than a million is found in one call, however many."""
        logs = [Log(range(size)) for size in (100, 2_000, 40_000)]

        assert 1 == len({count_calls(lambda log=log: log[3]) for log in logs})  # type: ignore[misc]


class TestSlice:
    @given(st.integers(0, 110), st.slices(110), st.booleans())
    def test_like_a_list(self, size, at, at_once):
        """Slices are logs of what a list's slice holds."""
        log = Log(range(size)) if at_once else grown(range(size))

        assert_same(list(range(size))[at], log[at])

    @pytest.mark.parametrize("size", LARGE)
    def test_tails(self, make, size):
        """The last items, over the borders of blocks."""
        log = make(range(size))
        for start in (0, 1, 31, 32, 33, 1000, size - 33, size - 1, size):
            assert_same(range(start, size), log[start:])

    def test_from_the_start(self):
        """A slice of everything is the log itself."""
        log = Log(range(40))

        assert log is log[:]
        assert log is log[:99]
        assert log is log[-99:]


class TestIterate:
    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_from_a_position(self, make, size):
        """An iterator over the items from a position on."""
        log = make(range(size))
        for start in {0, 1, 31, 32, 33, 64, 1023, 1024, 1025, size - 1, size, size + 9}:
            if start >= 0:
                assert list(range(start, size)) == list(log.iterate(start))


class TestCommonPrefix:
    @pytest.mark.parametrize("parted", [0, 1, 31, 32, 33, 1023, 1024, 1056, 1057])
    def test_of_equal_items(self, parted):
        """Logs that share nothing have in common what is equal, and no more."""
        one = Log([*range(parted), "x", *range(1100)])
        two = grown([*range(parted), "y", *range(1100)])

        assert parted == one.common_prefix(two)
        assert parted == two.common_prefix(one)

    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_of_equal_branches(self, make, size):
        """Equal items that branches got after they parted are common, too."""
        log = make(range(size))
        one = log.extend(range(100)).append("one")
        two = reduce(Log.append, range(100), log).append("two")

        assert size + 100 == one.common_prefix(two)
        assert size + 100 == two.common_prefix(one)

    @pytest.mark.parametrize("count", [*SIZES, *LARGE])
    def test_with_what_was_taken(self, make, count):
        """
        A log has all of what was taken from it in common with it, and with
        what that grew into no more than that.
        """
        log = make(range(2200))
        taken = log.take(count)

        assert count == log.common_prefix(taken)
        assert count == taken.common_prefix(log)
        assert count == taken.extend("a" * 50).common_prefix(log)
        assert count == log.common_prefix(taken.append("a"))

    def test_does_not_ask_what_is_shared(self):
        """Items that both logs got from a third are not compared at all."""

        class Silent:
            def __eq__(self, other: object) -> bool:
                raise AssertionError("compared")

            __hash__ = None  # type: ignore[assignment]

        log = grown([Silent() for _ in range(1090)])

        assert 1090 == log.append(1).common_prefix(log.append(2))
        assert 1090 == log.extend([1] * 99).common_prefix(log.extend([2] * 99))
        assert 1060 == log.take(1060).common_prefix(log)
        assert log == log.take(1090)

    @pytest.mark.parametrize("size", [1, 31, 64, 1090])
    def test_asks_a_copy_once(self, make, size):
        """Items of a copy are compared once, also by logs that grew since."""

        class Item:
            asked = 0

            def __init__(self, number: int) -> None:
                self.number = number

            def __eq__(self, other: object) -> bool:
                Item.asked += 1
                return isinstance(other, Item) and self.number == other.number

            __hash__ = None  # type: ignore[assignment]

        log, copied = make(map(Item, range(size))), make(map(Item, range(size)))

        assert size == log.common_prefix(copied)
        assert size <= Item.asked <= 2 * size

        for one, two in ((log, copied), (copied, log)):
            Item.asked = 0

            assert size == one.append("x").common_prefix(two.extend(["y"] * 70))
            assert size == one.common_prefix(two.extend("z" * 40))
            assert 5 * 32 > Item.asked

    @pytest.mark.parametrize("parted", [0, 31, 32, 64, 100])
    def test_of_what_parted_before_a_copy_was_known(self, make, parted):
        """What was found of two logs is not taken for branches that parted earlier."""
        log, copied = make(range(200)), make(range(200))

        assert 200 == log.common_prefix(copied)
        for branch in (log.take(parted).extend("x" * 150), make(["x"] * 200)):
            common = parted if branch[0] == 0 else 0

            assert common == branch.common_prefix(copied)
            assert common == copied.common_prefix(branch)


def step(total: int, item: int) -> int:
    """A fold whose result depends on the order."""
    return (31 * total + item + 7) % 1_000_003


@pytest.mark.parametrize(("size", "shared"), [(31, 0), (32, 0), (33, 32), (1060, 1056)])
def test_shared_prefix(size, shared):
    """Whole blocks that two logs share count; equal ones of a copy do not."""
    log: Log[Any] = Log(range(size))

    assert shared == log.append("a").shared_prefix(log.append("b"))
    assert 0 == log.shared_prefix(Log(range(size)))


class TestListNew:
    @pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1055, 1056])
    @pytest.mark.parametrize("more", [0, 1, 2, 40])
    def test_behind_another(self, make, size, more):
        """What a log has behind another one, grown from it or equal to its start."""
        before, new = make(range(size)), list(range(size, size + more))

        assert new == before.extend(new).list_new(before)
        assert new == grown([*range(size), *new]).list_new(before)

    def test_of_another(self):
        """None for a log that is shorter, or has other items."""
        log = grown(range(40))

        assert log.list_new(log.append(40)) is None
        assert log.append(41).list_new(log.append(40)) is None
        assert log.append(41).append(42).list_new(log.append(40)) is None


class TestIsSharedStartOf:
    def test_of_what_grew_from_it(self, make):
        """
        Every version is the shared start of itself and of all that grew from it, and
        not of the versions before it.
        """
        versions = versions_of(range(70))
        log = make(range(33))

        assert all(one.is_shared_start_of(versions[-1]) for one in versions)
        assert log.is_shared_start_of(log.extend(range(70)))
        assert not any(versions[-1].is_shared_start_of(one) for one in versions[:-1])

    @pytest.mark.parametrize("size", [32, 33, 64, 65])
    def test_of_a_copy(self, make, size):
        """
        Not of a log that was made of other objects, even where the first or the last
        ones are the same.
        """
        first, *middle, last = items = [[n] for n in range(size)]
        copied = copy.deepcopy(middle)

        assert not make(items).is_shared_start_of(make([first, *copied, last]))


class TestFold:
    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_from_the_left(self, make, size):
        """The same as `functools.reduce`, asked once and again."""
        log = make(range(size))
        expected = reduce(step, range(size), 5)

        assert expected == log.fold(step, 5, key="sum")
        assert expected == log.fold(step, 5, key="sum")

    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_remembered(self, make, size):
        """
        A fold whose results are given is what it would be, of the log and of every
        older version, and costs at most a block of steps.
        """
        calls = []

        def counted(total: int, item: int) -> int:
            calls.append(item)
            return step(total, item)

        log = make(range(size))
        results = list(accumulate(range(size), step, initial=5))
        log.remember_fold(results[1:], key="k")

        assert results[-1] == log.fold(counted, 5, key="k")
        assert [] == calls
        for count in {0, size // 3, size // 2 & ~31, max(size - 1, 0)}:
            calls.clear()
            assert results[count] == log.take(count).fold(counted, 5, key="k")
            assert 32 >= len(calls)

    @pytest.mark.parametrize("count", [0, 39, 41])
    def test_remembered_for_each_item(self, make, count):
        """Results that are not one for each item are those of another log."""
        with pytest.raises(ValueError, match=f"{count} results for 40 items"):
            make(range(40)).remember_fold(range(count), key="k")

    def test_of_every_version(self):
        """Versions folded in any order give what each of them holds."""
        versions = versions_of(range(200))
        expected = list(accumulate(range(200), step, initial=5))

        assert expected == [log.fold(step, 5, key="k") for log in versions]
        assert expected[::-1] == [log.fold(step, 5, key="k") for log in versions[::-1]]

    def test_remembers(self):
        """
        The next version costs a step for each new item, an older version or a
        branch of one at most a block of them.
        """
        calls = []

        def counted(total: int, item: int) -> int:
            calls.append(item)
            return total + item

        log = grown(range(1000))
        later = log.extend(range(1000, 1010))

        assert sum(range(1000)) == log.fold(counted, 0, key="k")
        assert 1000 == len(calls)

        calls.clear()
        assert sum(range(1010)) == later.fold(counted, 0, key="k")
        assert list(range(1000, 1010)) == calls[-10:]
        assert 32 + 10 >= len(calls)

        calls.clear()
        later.fold(counted, 0, key="k")
        log.fold(counted, 0, key="k")
        assert [] == calls

        for count in (999, 500, 512, 33, 32):
            calls.clear()
            log.take(count).append(1).fold(counted, 0, key="k")
            assert 33 >= len(calls)

    @pytest.mark.parametrize("every", [1, 2, 32])
    def test_of_runs(self, every):
        """
        So many blocks are folded at once and remembered at their end, from which later
        and older versions go on.
        """
        runs: list[list[int]] = []

        def extend(total: int, items: Iterable[int]) -> int:
            runs.append([*items])
            return reduce(step, runs[-1], total)

        log: Log[int] = Log(range(2_100))
        versions = [log, log.take(1_060), log.extend(range(40)), log.take(63)]
        most, expected = 32 * every, [reduce(step, each, 5) for each in versions]
        for version, found in zip(versions, expected, strict=True):
            assert found == version.fold_runs(extend, 5, key="k", every=every)

        sizes = [len(each) for each in runs]
        first = [min(most, 2_080 - done) for done in range(0, 2_080, most)]
        assert first == sizes[: len(first)]
        # Of later and older versions what is behind the last that is remembered.
        assert 32 + 40 + 2 * most > sum(sizes[len(first) :])

    def test_forgets_the_oldest(self):
        """Sixteen keys are remembered; the one asked for longest ago goes first."""
        calls = []

        def counted(total: int, item: int) -> int:
            calls.append(item)
            return total + item

        log = Log(range(64))
        for key in range(17):
            log.fold(counted, 0, key=key)

        calls.clear()
        for key in range(1, 17):
            log.fold(counted, 0, key=key)

        assert [] == calls
        assert sum(range(64)) == log.fold(counted, 0, key=0)
        assert [] != calls


class TestKeep:
    @pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 64, 1090])
    def test_for_the_first_that_claims(self, make, size):
        """What is kept is got once, with what came since, up to the next block."""
        for more in range(33 - (size % 32 or 32)):
            log = make(range(size))
            log.keep("ids", key="kept")
            later = reduce(Log.append, "x" * more, log)

            assert later.claim(key="other") is None
            assert ("ids", ["x"] * more) == later.claim(key="kept")
            assert later.claim(key="kept") is None
            assert log.claim(key="kept") is None

    @pytest.mark.parametrize("size", [32, 64])
    def test_what_came_at_once(self, size):
        """All items since are got, in any order, also those that came at once."""
        log: Log[Any] = Log(range(size))
        log.keep("ids", key="kept")
        item, newer = log.extend("abc").claim(key="kept") or ("", [])

        assert ("ids", ["a", "b", "c"]) == (item, sorted(newer))

    def test_the_newest_alone(self):
        """What is kept under a key takes the place of what was kept under it before."""
        log = Log("a")
        for item in ("old", "new"):
            log.keep(item, key="kept")

        assert ("new", []) == log.claim(key="kept")
        assert log.claim(key="kept") is None
        log.keep("newer", key="kept")
        assert ("newer", []) == log.claim(key="kept")

    def test_not_by_another_branch(self):
        """What a branch keeps is not found from where it parted, or from another."""
        log = grown(range(70))
        one = log.extend("ab")
        one.keep("ids", key="kept")

        assert log.claim(key="kept") is None
        assert log.extend("ab").claim(key="kept") is None
        assert log.take(64).claim(key="kept") is None
        assert ("ids", []) == one.claim(key="kept")

    def test_hides_no_folds(self):
        """The keys of folds are found before and behind a version that keeps."""
        log = grown(range(40))
        log.fold(step, 0, key="sum")
        later = log.append(40)
        later.keep("ids", key="kept")

        assert ["sum"] == later.fold_keys()
        assert step(log.fold(step, 0, key="sum"), 40) == later.fold(step, 0, key="sum")
        assert ["sum"] == later.fold_keys()


class TestDerive:
    def test_once_for_each_block_and_key(self):
        """What is derived of 32 items is remembered with them, under each key."""
        calls: list[tuple[int, ...]] = []

        def note(items: tuple[int, ...]) -> int:
            calls.append(items)
            return sum(items)

        log = Log(range(70))
        for each in (log, log.append(70), log.take(65)):
            assert sum(range(32)) == each.derive(note, key="sum", stop=32)
            assert sum(range(32, 64)) == each.derive(note, key="sum", stop=64)
            assert 63 == each.derive(max, key="greatest", stop=64)

        assert [tuple(range(32)), tuple(range(32, 64))] == calls
        for _ in range(17):  # one key, however often, of the sixteen remembered
            log.redefine(-1, key="sum", stop=64)

        assert -1 == log.take(65).derive(note, key="sum", stop=64)
        assert 63 == log.derive(note, key="greatest", stop=64)


class TestCost:
    """What should not depend on the length does not; what may, does by a level."""

    VERBS: ClassVar[dict[str, Callable[[Log[int]], object]]] = {
        "append": lambda log: log.append(1),
        "extend": lambda log: log.extend([1] * 20),
        "take near the end": lambda log: log.take(len(log) - 1),
        "take half": lambda log: log.take(len(log) // 2 + 5),
        "index near the start": lambda log: log[5],
        "index near the end": lambda log: log[-50],
        "iterate": lambda log: next(log.iterate(len(log) // 2)),
        "reversed": lambda log: next(reversed(log)),
        "slice": lambda log: log[-50:],
        "common prefix": lambda log: log.append(1).common_prefix(log.append(2)),
        "common prefix of half": lambda log: log.take(len(log) // 2).common_prefix(log),
        "fold": lambda log: log.append(1).fold(max, 0, key="largest"),
    }

    @pytest.mark.parametrize("verb", VERBS)
    def test_in_length(self, make, verb):
        """A hundred times as many items, and a few calls more."""
        run = self.VERBS[verb]
        short, long = make(range(1_100)), make(range(110_000))
        for log in (short, long):
            log.fold(max, 0, key="largest")

        few, more = count_calls(lambda: run(short)), count_calls(lambda: run(long))

        assert 200 > more
        assert 60 > more - few

    @pytest.mark.parametrize("apart", [1, 100, 5_000])
    def test_common_prefix_where_two_part(self, make, apart):
        """
        The place where two logs part is found by halves: nothing is looked at
        for each block they share, nor for each they do not.
        """
        counts = []
        for size in (1_100, 110_000):
            start = make(range(size))
            one, two = (start.extend([n] * apart) for n in (-1, -2))
            counts.append(count_lines(partial(one.common_prefix, two)))

            assert size == one.common_prefix(two)
            assert size == one.take(size + apart // 2).common_prefix(two)

        few, more = counts
        assert 300 > more
        assert 150 > more - few


class TestEqual:
    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_by_items(self, size):
        """Logs are equal if their items are, however they came to them."""
        assert Log(range(size)) == grown(range(size))
        assert Log(range(size)) == Log(range(size + 5)).take(size)
        assert hash(Log(range(size))) == hash(grown(range(size)))
        assert Log(range(size)) != Log(range(size + 1))
        assert Log([*range(size), 1]) != Log([*range(size), 2])

    @given(
        st.lists(
            st.tuples(
                st.integers(0),
                st.sampled_from([0, 1, 2, 31, 33, 70, 90]),
                st.none() | st.integers(1, 40),
            ),
            min_size=1,
        ),
        st.booleans(),
    )
    def test_versions_of_a_copy(self, steps, is_backwards):
        """
        Versions of a log and of a copy are equal if their items are, whatever was
        found to be equal before.
        """
        ours, theirs = [Log[int]()], [Log[int]()]
        for before, count, from_end in steps:
            items = list(range(count))
            ours.append(ours[before % len(ours)].extend(items))
            if from_end is not None and from_end <= count:
                items[-from_end] = -1

            theirs.append(reduce(Log.append, items, theirs[before % len(theirs)]))

        known: set[tuple[int, int]] = set()
        pairs = list(product(ours, theirs))
        for one, other in reversed(pairs) if is_backwards else pairs:
            assert (list(one) == list(other)) is one.equals(other, known)

    def test_versions_share_their_start(self):
        """What two versions share is not compared, block for block."""
        start = Log(range(32 * 400))
        known: set[tuple[int, int]] = set()
        one, other = (start.extend(range(-99, 0)) for _ in range(2))

        assert count_calls(lambda: one.equals(other, known)) < 100
        assert one == other
        assert one != start.extend(range(99))

    def test_each_version_costs_what_it_adds(self):
        """
        Comparing all versions of a log with those of a copy asks each item once when
        it comes, and once in its block.
        """
        asked = []

        class Item:
            def __eq__(self, other):
                asked.append(self)
                return True

            __hash__ = object.__hash__

        size = 1_000
        known: set[tuple[int, int]] = set()
        for one, other in zip(
            versions_of([Item() for _ in range(size)]),
            versions_of([Item() for _ in range(size)]),
            strict=True,
        ):
            assert one.equals(other, known)

        assert size <= len(asked) <= 2 * size


class TestPickle:
    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    @pytest.mark.parametrize("size", [*SIZES, *LARGE])
    def test_round_trip(self, make, size, protocol):
        """What comes back is equal, and grows."""
        log = make(range(size))
        back = pickle.loads(pickle.dumps(log, protocol))

        assert log == back
        assert_same(range(size + 1), back.append(size))

    def test_shares(self):
        """
        Versions pickled together take little more than one, and share as much
        afterwards as they did before.
        """
        items = ["x" * 50 + str(n) for n in range(1090)]
        log = grown(items)
        versions = [log.take(1000), log, log.append("one"), log.append("two")]
        alone = len(pickle.dumps(log))
        together = pickle.dumps(versions)
        back = pickle.loads(together)

        assert versions == back
        assert alone * 1.1 > len(together)
        assert back[2][0] is back[3][0]
        assert 1090 == back[2].common_prefix(back[3])

    def test_folds_stay_behind(self):
        """What was remembered of folds is not pickled, and so can't be wrong."""
        log = grown(range(100))
        size = len(pickle.dumps(log))
        log.fold(step, 0, key="k")

        assert size == len(pickle.dumps(log))

    def test_copies(self):
        """A copy is the log itself; a deep one is equal."""
        log = grown([[1], [2]])

        assert log is copy.copy(log)
        assert log == copy.deepcopy(log)
        assert log[0] is not copy.deepcopy(log)[0]


class Doubled(View[int]):
    """Each number of a list twice as large."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: Any) -> Any:
        return self._numbers[at] * 2

    def __iter__(self) -> Any:
        return (number * 2 for number in self._numbers)


def test_view():
    """A view equals any view, tuple or list of equal items; its hash is a tuple's."""
    view: Any = Doubled(1, 2)

    for equal in (view, Doubled(1, 2), (2, 4), [2, 4]):
        assert view == equal
    for other in (Doubled(1, 3), (2,), [2, 5], [2, 4, 6], {2, 4}, "24"):
        assert view != other
    assert hash(view) == hash((2, 4))
    assert "Doubled([2, 4])" == repr(view)


def test_can_not_be_changed():
    """There is no way to change a log but its private parts."""
    log: Any = Log("abc")
    verbs = {"insert", "pop", "remove", "clear", "sort", "reverse", "__iadd__"}

    assert set() == (verbs | {"__setitem__", "__delitem__"}) & set(dir(Log))
    for name in ("label", *[name for name in dir(log) if not name.startswith("_")]):
        with pytest.raises(AttributeError):
            setattr(log, name, None)

    assert_same("abc", log)
    assert "Log(['a', 'b', 'c'])" == repr(log)


class TestHuge:
    """Where the trie gets its third and its fourth level."""

    @pytest.mark.parametrize("size", HUGE)
    def test_third_level(self, size):
        """Beyond 32 * 32 * 32 items everything is where it was."""
        log: Log[object] = Log(range(size))
        more = log.append(size).append(size + 1)

        assert list(range(size)) == list(log)
        assert list(range(size + 2)) == list(more)
        assert list(range(size))[::-1] == list(reversed(log))
        assert list(range(size)) == [log[at] for at in range(size)]
        assert size == log.common_prefix(more)
        assert 32_768 == more.take(32_768).append("x").common_prefix(
            more.take(32_769)
        ), "a branch before the border"
        for count in (1, 1024, 1057, 32_766, 32_767, size - 1):
            assert list(range(count)) == list(log.take(count))
            assert list(range(count, size)) == list(log.iterate(count))

    def test_fourth_level(self):
        """Beyond 32 to the 4th, too."""
        size = 32**4 + 33
        log = Log(range(size))
        grown_on = log.take(size - 34).extend(range(size - 34, size + 40))

        assert size == len(log)
        assert all(map(int.__eq__, log, range(size)))
        assert all(map(int.__eq__, reversed(log), reversed(range(size))))
        assert [0, 32**3, 32**4 - 1, 32**4, size - 1] == [
            log[at] for at in (0, 32**3, 32**4 - 1, 32**4, -1)
        ]
        assert size == log.common_prefix(grown_on)
        assert list(range(32**4 - 2, size)) == list(log.iterate(32**4 - 2))
