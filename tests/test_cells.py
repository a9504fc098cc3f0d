"""Cells in threads: no update is lost, and every watcher sees one history."""

import copy
import gc
import pickle
import threading
import time
import weakref
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator, Usage, UserMessage, cells
from conversation_state.testing import laws
from tests.profiles import is_thorough
from tests.signals import call_in_handler, interrupt_by_signals
from tests.threads import finish, in_threads, start, until

# Wrong arguments are passed on purpose; typing_tests holds the right ones.
Cell: Any = cells.Cell


class Value:
    """Something that can be weakly referred to, and is equal to all its like."""

    def __eq__(self, other):
        return isinstance(other, Value)

    def __hash__(self):
        return 1


def one_more(n):
    return n + 1


def watched(value):
    """A cell, and a list of its changes to come."""
    cell, changes = Cell(value), []
    cell.watch(lambda *both: changes.append(both))
    return cell, changes


async def wait(*_):
    """An async function, which is no callback."""


class TestSwap:
    """`Cell.swap`."""

    def test_async(self):
        """An async function is refused, and its coroutine is not the value."""
        cell = Cell(1)

        async def add(value):
            return value + 1

        with pytest.raises(TypeError, match=r"await cell\.aswap\(function\)"):
            cell.swap(add)

        assert 1 == cell.value

    def test_loses_nothing(self):
        """
        Sixteen threads add to one state at once: every message and every usage
        is there, those of each thread in its order.
        """
        cell = Cell(Aggregator.new())

        def add(name):
            def work():
                for n in range(1_000):
                    message = UserMessage(str(n), name=name)
                    cell.swap(lambda state, m=message: state.add(m).add_usage(Usage(1)))

            return work

        names = [f"thread {n}" for n in range(16)]
        in_threads(*map(add, names))

        assert 16_000 == cell.value.total_usage.prompt_tokens
        for name in names:
            texts = [each.text for each in cell.value if each.name == name]
            assert [str(n) for n in range(1_000)] == texts

    def test_the_same_value_changes_nothing(self):
        """
        A function that returns its argument makes no change, even if another thread
        made one meanwhile.
        """
        cell, changes = watched(1_000)

        assert 1_000 == cell.swap(lambda n: n)

        def overtaken(n):
            if n == 1_000:
                cell.swap(lambda _: 2_000)
            return n

        assert 1_000 == cell.swap(overtaken)
        assert [(1_000, 2_000)] == changes
        assert 2_000 == cell.value

        def overtaken_before(n):
            if n == 2_000:
                cell.swap(lambda _: 3_000)
                return 2_001
            return n

        assert 3_000 == cell.swap(overtaken_before)
        assert [(1_000, 2_000), (2_000, 3_000)] == changes

    def test_inside_of_a_swap(self):
        """
        A function may swap another cell, and even this one if it stops doing so; what
        it raises comes out, and changes nothing.
        """
        cell, other = Cell(0), Cell(0)
        with pytest.raises(ZeroDivisionError):
            cell.swap(lambda n: 1 // n)

        def function(n):
            other.swap(one_more)
            if n < 50:
                cell.swap(one_more)
            return n + 100

        assert 150 == cell.swap(function)
        assert 51 == other.value

    def test_a_function_that_always_changes_the_cell_ends(self):
        """
        A function that swaps the very cell it is called by never succeeds; that is an
        error instead of an endless loop.
        """
        cell, calls = Cell(0), []

        def function(n):
            calls.append(n)
            assert len(calls) < 100_000, "tries for ever"
            return cell.swap(one_more) + n

        with pytest.raises(RuntimeError, match=r"changed during each of 10,000 calls"):
            cell.swap(function)

        value = cell.value
        assert value + 1 == cell.swap(one_more)

    def test_the_slow_do_not_block(self):
        """While a function runs, others read and write: no lock is held."""
        cell, seen = Cell(0), []

        def waits_for_others(n):
            if n < 8:
                other = threading.Thread(target=cell.swap, args=(one_more,))
                other.start()
                finish(other)
                seen.append(cell.value)
            return n + 100

        assert 108 == cell.swap(waits_for_others)
        assert list(range(1, 9)) == seen


class TestCompareAndSet:
    """`Cell.compare_and_set`."""

    def test_sets(self):
        """
        The value is exchanged if it is the very one expected, by identity; the result
        says whether it was. Exchanging it for itself calls no watch.
        """
        old, new = Value(), Value()
        cell, changes = watched(old)

        assert cell.compare_and_set(Value(), new) is False
        assert cell.compare_and_set(old, old) is True
        assert [] == changes
        assert cell.compare_and_set(old, new) is True
        assert cell.value is new
        assert [(old, new)] == changes
        assert cell.swap(lambda _: Value()) is cell.value is changes[1][1]

    def test_what_changes_nothing_calls_nothing(self):
        """An exchange without a change does not call what waits for another's."""
        cell, called = Cell("old"), []

        def keep(_: Any, new: Any) -> None:
            assert cell.compare_and_set("stale", "newer") is False
            assert cell.compare_and_set(new, new) is True
            called.append("first")

        cell.watch(keep)
        cell.watch(lambda *_: called.append("second"))
        cell.swap(lambda _: "new")

        assert ["first", "second"] == called

    def test_one_wins(self):
        """Of many threads that expect the same value, one exchanges it."""
        for _ in range(50):
            first: Any = Value()
            won: list[Any] = []
            cell = Cell(first)

            def attempt(cell=cell, first=first, won=won):
                mine = Value()
                if cell.compare_and_set(first, mine):
                    won.append(mine)

            in_threads(*[attempt] * 4)
            (winner,) = won

            assert cell.value is winner


class TestWatch:
    """`Cell.watch`."""

    @given(st.lists(st.integers(-2, 2)))
    def test_reports_every_change(self, steps):
        """Every change from now on is reported once, in order, and nothing else is."""
        cell = Cell(-1)
        cell.swap(one_more)
        changes: list[Any] = []
        with cell.watch(lambda *both: changes.append(both)) as watch:
            assert "open" in repr(watch)
            for step in steps:
                cell.swap(lambda n, step=step: n + step if step else n)

        watch.close()
        laws.histories_are_linear(0, changes, cell.value)
        assert len([step for step in steps if step]) == len(changes)
        cell.swap(one_more)
        assert len([step for step in steps if step]) == len(changes)
        assert watch.is_closed
        assert "closed" in repr(watch)

    def test_history_is_linear_in_threads(self):
        """
        Sixteen threads change it, watchers come and go: each sees an unbroken
        stretch of one history.
        """
        first = object()
        cell, changes = Cell(first), []
        late: list[list[Any]] = []

        def change():
            for _ in range(300):
                cell.swap(lambda _: object())

            while len(late) < 20:
                cell.swap(lambda _: object())
                time.sleep(0.0001)

        def look():
            for _ in range(10):
                seen: list[Any] = []
                with cell.watch(lambda *both, seen=seen: seen.append(both)):
                    while not seen:
                        time.sleep(0.0001)
                late.append(seen)

        with cell.watch(lambda *both: changes.append(both)):
            in_threads(*[change] * 16, look, look)

        laws.histories_are_linear(first, changes, cell.value)
        assert 16 * 300 <= len(changes)
        place = {id(old): n for n, (old, _) in enumerate(changes)}
        assert 20 == len(late)
        for seen in late:
            start = place[id(seen[0][0])]
            assert changes[start : start + len(seen)] == seen

    def test_a_callback_may_swap(self):
        """
        A change by a callback is reported after the change it was called for, to all
        watchers in the same order.
        """
        cell, changes, others = Cell(0), [], []

        def up_to_five(old, new):
            changes.append((old, new))
            if new < 5:
                cell.swap(one_more)
                assert new == changes[-1][1], "called inside of a call"

        cell.watch(up_to_five)
        cell.watch(lambda *both: others.append(both))
        cell.swap(one_more)

        assert list(pairwise(range(6))) == changes == others

    def test_one_call_at_a_time(self):
        """
        A change that comes while a callback runs in another thread waits for
        it; neither who made it nor another watch does.
        """
        cell, changes, inside, go = Cell(0), [], threading.Event(), threading.Event()
        others: list[int] = []

        def slowly(old, new):
            inside.set()
            assert go.wait(60)
            changes.append((old, new, threading.get_ident()))

        cell.watch(slowly)
        cell.watch(lambda _, new: others.append(new))
        thread = start(cell.swap, one_more)
        assert inside.wait(60)
        cell.swap(one_more)
        cell.swap(one_more)

        assert [] == changes
        assert [1, 2, 3] == others
        go.set()
        finish(thread)
        assert [(n, n + 1, thread.ident) for n in range(3)] == changes
        assert [1, 2, 3] == others

    def test_closes_inside_of_a_call(self):
        """
        A watcher that closes itself, or another one, while it is called ends the calls
        at that change, and affects no other watcher.
        """
        cell, changes, others, rest = Cell(0), [], [], []

        def once(old, new):
            changes.append((old, new))
            first.close()
            second.close()
            cell.swap(one_more)

        first = cell.watch(once)
        second = cell.watch(lambda *both: others.append(both))
        cell.watch(lambda *both: rest.append(both))
        cell.swap(one_more)

        assert [(0, 1)] == changes
        assert [] == others
        assert [(0, 1), (1, 2)] == rest

    def test_an_error_stops_no_other(self, caplog):
        """
        An error of a callback is logged or goes to *on_error*, and what that raises is
        logged; the change is made, other watchers are called, and so is this one for
        the next change.
        """
        cell, changes, tried = Cell(0), [], []
        errors: list[Exception] = []

        def broken(_, new):
            tried.append(new)
            raise ZeroDivisionError(new)

        cell.watch(broken)
        cell.watch(broken, on_error=errors.append)
        cell.watch(broken, on_error=broken)
        cell.watch(lambda _, new: changes.append(new))

        assert [1, 2] == [cell.swap(one_more), cell.swap(one_more)] == changes
        assert [1, 1, 1, 2, 2, 2] == tried
        assert [ZeroDivisionError] * 2 == [*map(type, errors)]
        logged = [each.exc_info[0] for each in caplog.records]
        assert [ZeroDivisionError, TypeError] * 2 == logged
        assert {"conversation_state.cells"} == {each.name for each in caplog.records}
        assert "broken" in caplog.text

    def test_interrupts_go_through(self):
        """
        The first interrupt of a callback leaves `swap`, after the change is made and
        all watches were called, each for all changes.
        """
        cell, changes, tried = Cell(0), [], []

        def interrupted(_, new, number):
            tried.append(new)
            if new == 1:
                if not number:
                    cell.swap(one_more)
                raise KeyboardInterrupt(number)

        for number in range(3):
            cell.watch(partial(interrupted, number=number))

        cell.watch(lambda _, new: changes.append(new))
        with pytest.raises(KeyboardInterrupt, match="1"):
            cell.swap(one_more)

        assert [1, 2] == changes
        assert [1, 1, 2, 1, 2, 2] == tried
        assert 3 == cell.swap(one_more)
        assert [1, 2, 3] == changes

    def test_an_error_while_it_is_made(self):
        """
        A callback that fails for a change which another thread makes while the watch is
        made does not keep it from being made; each change is an error of its own.
        """
        cell, is_over = Cell(0), threading.Event()
        errors: list[Exception] = []

        def change():
            while not is_over.is_set():
                cell.swap(one_more)

        def broken(old, new):
            raise KeyError(old, new)

        thread = start(change)
        for _ in range(100 if is_thorough() else 40):
            with cell.watch(broken, on_error=errors.append) as watch:
                until(lambda: errors)
                assert not watch.is_closed

            until(lambda watch=watch: watch._caller is None)
            assert all(new == old + 1 for old, new in (each.args for each in errors))
            assert all(a.args[1] == b.args[0] for a, b in pairwise(errors))
            errors.clear()

        is_over.set()
        finish(thread)

    @pytest.mark.parametrize(
        ("name", "wrong", "problem"),
        [
            ("callback", None, "None; expected a function"),
            ("callback", wait, "async function; expected one that returns the value"),
            ("on_error", 3, "3; expected a function"),
        ],
    )
    def test_takes_functions(self, name, wrong, problem):
        """Something else is refused at once."""
        with pytest.raises(TypeError, match=f"^{name} is .*{problem}$"):
            Cell(0).watch(**{"callback": print, name: wrong})


class TestSignals:
    """Real signals, at random moments."""

    def test_loses_nothing(self):
        """
        An interrupted change is made or not; the cell works on, and each watch is
        called for every change, once and in order.
        """

        def prepare():
            cell = Cell(0)
            seen: list[dict[int, int]] = [{} for _ in range(6)]
            # The callbacks are C: an interrupt comes before or after one, not within.
            return cell, seen, [cell.watch(each.setdefault) for each in seen]

        def swap(subject):
            while True:
                subject[0].swap(one_more)

        def check(subject, completed):
            cell, seen, watches = subject
            last = cell.swap(one_more)
            for watch in watches:
                watch.close()

            cell.swap(one_more)
            for each in seen:
                laws.histories_are_linear(0, [*each.items()], last)

        assert 200 == interrupt_by_signals(swap, check, prepare=prepare, times=200)

    def test_a_handler_may_change_the_cell(self):
        """
        A signal's handler changes the cell whose change it interrupts, wherever that
        is: neither waits for the other, no change is lost, and all watches see the
        changes in their order.
        """
        handled, swapped = [], 0
        cell = Cell(0)
        seen: list[dict[int, int]] = [{} for _ in range(6)]
        for each in seen:
            cell.watch(each.setdefault)

        def handle():
            handled.append(cell.swap(one_more))

        for number in range(200):
            before, count = len(handled), 0
            with call_in_handler(handle, number * 5e-6):
                while len(handled) == before or count < 10:
                    cell.swap(one_more)
                    count += 1

            swapped += count

        assert 200 <= len(handled)
        assert swapped + len(handled) == cell.value
        for each in seen:
            laws.histories_are_linear(0, [*each.items()], cell.value)

    @pytest.mark.parametrize("at", [1, 2])
    def test_closed_right_before_a_call(self, monkeypatch, caplog, at):
        """A watch that another thread closes just then calls and logs nothing."""
        cell, looked = Cell(0), list[Any]()
        cell.watch(looked.append)
        has_pending = cells.Watch._has_pending

        def close_then(watch):
            found = has_pending(watch)
            looked.append(found)
            if len(looked) == at:
                watch.close()
            return found

        monkeypatch.setattr(cells.Watch, "_has_pending", close_then)

        assert 1 == cell.swap(one_more)
        assert [True] * at == looked[:at]
        assert True not in looked[at:]
        assert not caplog.records


class TestMemory:
    """What a cell keeps alive."""

    def test_keeps_the_current_value_only(self):
        """
        Values of before are freed, and so is what a closed watch held, also one that
        was closed while it was called.
        """
        value: Any = Value()
        gone = weakref.ref(value)
        cell = Cell(value)
        watches: list[Any] = []
        watches.append(cell.watch(lambda *_: watches[0].close()))
        watched: Any = Value()
        watcher = weakref.ref(watched)
        watch = cell.watch(lambda *_, watched=watched: None)
        watch.close()
        watched = value = None
        cell.swap(lambda _: Value())
        gc.collect()

        assert gone() is None
        assert watcher() is None

    def test_goes_with_its_watches(self):
        """A cell without references is freed, though it was never unwatched."""
        cell = Cell(Value())
        cell.watch(print)
        gone = weakref.ref(cell)
        cell = None
        gc.collect()

        assert gone() is None


class TestIdentity:
    """A cell is a place, not a value."""

    @pytest.mark.parametrize("verb", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_stays_where_it_is(self, verb):
        """A cell is neither copied nor pickled; the error says what to do instead."""
        with pytest.raises(TypeError, match=r"can't copy or pickle a Cell.* value"):
            verb(Cell(1))

    def test_shows_its_value(self):
        """Its representation shows the value, shortened."""
        assert "<Cell: 'abc'>" == repr(Cell("abc"))
        assert 100 > len(repr(Cell("abc" * 100)))

    @pytest.mark.parametrize(
        ("name", "ours"),
        [("get", "value"), ("reset", "swap"), ("set", "swap"), ("update", "swap")],
    )
    def test_other_names(self, name, ours):
        """The verbs that atoms and atomic variables have: the error says ours."""
        with pytest.raises(AttributeError, match=f"no attribute '{name}'.*'{ours}'"):
            getattr(Cell(1), name)
