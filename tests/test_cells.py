"""Cells in threads: no update is lost, and every watcher sees one history."""

import copy
import gc
import logging
import pickle
import signal
import threading
import time
import weakref
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator, Usage, UserMessage, cells
from conversation_state.testing import laws
from tests.threads import finish, in_threads

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


class TestSwap:
    """`Cell.swap`."""

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

    def test_calls_again_with_what_was_quicker(self):
        """A function that was overtaken is called again with the newer value."""
        cell, given = Cell(1), []

        def overtaken(n):
            given.append(n)
            if n == 1:
                in_threads(lambda: cell.swap(lambda _: 10))
            return n + 1

        assert 11 == cell.swap(overtaken)
        assert [1, 10] == given

    def test_the_same_value_changes_nothing(self):
        """
        A function that returns its argument makes no change, even if another thread
        made one meanwhile.
        """
        cell, changes = Cell(1_000), []
        cell.watch(lambda old, new: changes.append((old, new)))

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

    def test_an_equal_value_is_a_change(self):
        """Only the very same value is none."""
        cell, changes = Cell(Value()), []
        cell.watch(lambda *both: changes.append(both))
        new = cell.swap(lambda _: Value())

        assert 1 == len(changes)
        assert cell.value is new

    def test_an_error_changes_nothing(self):
        """What the function raises comes out, and the cell works on."""
        cell = Cell(0)

        with pytest.raises(ZeroDivisionError):
            cell.swap(lambda n: 1 // n)

        assert 1 == cell.swap(one_more)

    def test_inside_of_a_swap(self):
        """A function may swap another cell, and even this one if it stops doing so."""
        cell, other = Cell(0), Cell(0)

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
            assert len(calls) < 1_000, "tries for ever"
            return cell.swap(one_more) + n

        with pytest.raises(RuntimeError, match="itself changed this cell"):
            cell.swap(function)

        value = cell.value
        assert value + 1 == cell.swap(one_more)

    def test_the_slow_get_through(self):
        """
        A function that takes longer than others leave the cell alone is let
        through after a while.
        """
        cell, done, calls = Cell(0), threading.Event(), []

        def quick():
            while not done.is_set():
                cell.swap(one_more)

        def slowly(n):
            calls.append(n)
            time.sleep(0.03)
            return n + 1

        def slow():
            try:
                cell.swap(slowly)
            finally:
                done.set()

        in_threads(slow, quick, quick, quick)

        assert calls

    def test_the_slow_do_not_block(self):
        """
        While a function runs, others read and write, even if it was promised
        to be let through and waits for them.
        """
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

    def test_a_signal_in_a_function(self):
        """A signal's handler may swap the cell whose swap it interrupts."""
        cell = Cell(0)

        def interrupted(n):
            if n < 1_000:
                signal.raise_signal(signal.SIGUSR1)
            return n + 1

        before = signal.signal(
            signal.SIGUSR1, lambda *_: cell.swap(lambda n: n + 1_000)
        )
        try:
            cell.swap(interrupted)
        finally:
            signal.signal(signal.SIGUSR1, before)

        assert 1_001 == cell.value

    def test_finds_the_newest_value(self):
        """
        A thread that has gone far behind, in a race of others, changes the
        newest value, and no other.
        """
        cell = Cell(0)
        behind = cell._version
        for _ in range(5):
            cell.swap(one_more)
        cell._version = behind  # as a late thread leaves it

        assert 5 == cell.value
        cell._version = behind
        assert 6 == cell.swap(one_more)

    def test_keeps_its_turn(self):
        """A function that is let through is let through until it got through."""
        cell: Any = Cell(0)
        turns = []

        def slowly(n):
            turns.append(cell._first.get(0))
            if len(turns) < 10:
                in_threads(lambda: cell.compare_and_set(n, n + 1))
            return n + 100

        cell.swap(slowly)
        first, *others = [turn for turn in turns if turn is not None]

        assert len(others) > 3
        assert all(turn is first for turn in others)
        assert not cell._first


class TestCompareAndSet:
    """`Cell.compare_and_set`."""

    def test_sets(self):
        """
        The value is exchanged if it is the very one expected, by identity; the result
        says whether it was. Exchanging it for itself calls no watch.
        """
        old, new, changes = Value(), Value(), []
        cell = Cell(old)
        cell.watch(lambda *both: changes.append(both))

        assert cell.compare_and_set(Value(), new) is False
        assert cell.compare_and_set(old, old) is True
        assert [] == changes
        assert cell.compare_and_set(old, new) is True
        assert cell.value is new
        assert [(old, new)] == changes

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

    def test_tries_again_when_the_value_came_back(self, monkeypatch):
        """A swap that is overtaken by changes which end where they began succeeds."""
        a, b, c = Value(), Value(), Value()
        cell = Cell(a)
        follow = cells.Cell._try_append

        def overtaken(self, moment, value):
            monkeypatch.setattr(cells.Cell, "_try_append", follow)
            cell.compare_and_set(a, b)
            cell.compare_and_set(b, a)
            return self._try_append(moment, value)

        monkeypatch.setattr(cells.Cell, "_try_append", overtaken)

        assert cell.compare_and_set(a, c)
        assert cell.value is c


class TestWatch:
    """`Cell.watch`."""

    @given(st.lists(st.integers(-2, 2)))
    def test_reports_every_change(self, steps):
        """Every change is reported once, in order, and nothing else is."""
        cell, changes = Cell(0), []
        with cell.watch(lambda *both: changes.append(both)):
            for step in steps:
                cell.swap(lambda n, step=step: n + step if step else n)

        laws.histories_are_linear(0, changes, cell.value)
        assert len([step for step in steps if step]) == len(changes)

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
        it, and does not keep who made it waiting.
        """
        cell, changes, inside, go = Cell(0), [], threading.Event(), threading.Event()

        def slowly(old, new):
            inside.set()
            assert go.wait(60)
            changes.append((old, new, threading.get_ident()))

        cell.watch(slowly)
        thread = threading.Thread(target=cell.swap, args=(one_more,))
        thread.start()
        assert inside.wait(60)
        cell.swap(one_more)
        cell.swap(one_more)

        assert [] == changes
        go.set()
        thread.join(60)
        assert [(n, n + 1, thread.ident) for n in range(3)] == changes

    def test_a_slow_watcher_keeps_none_waiting(self):
        """While one callback runs, others are called by who makes changes."""
        cell, changes, inside, go = Cell(0), [], threading.Event(), threading.Event()

        def slowly(*_):
            inside.set()
            go.wait(60)

        cell.watch(slowly)
        cell.watch(lambda _, new: changes.append(new))
        thread = threading.Thread(target=cell.swap, args=(one_more,))
        thread.start()
        assert inside.wait(60)
        cell.swap(one_more)

        assert [1, 2] == changes
        go.set()
        thread.join(60)
        assert [1, 2] == changes

    def test_a_change_while_a_call_ends(self):
        """
        If another thread is calling watchers already, that thread reports this change
        as well, however near to its end it was.
        """
        cell, changes = Cell(0), []
        watch = cell.watch(lambda *both: changes.append(both))

        class Place(dict[int, Any]):
            def clear(self):
                if cell.value < 4:
                    cell.swap(one_more)
                super().clear()

        watch._running_call = Place()
        cell.swap(one_more)

        assert [(0, 1), (1, 2), (2, 3), (3, 4)] == changes

    def test_a_change_while_it_begins(self):
        """A change whose maker did not see this watcher yet is reported as well."""
        cell, changes = Cell(0), []

        class Watches(dict[Any, None]):
            def __setitem__(self, watch, nothing):
                cell.swap(one_more)
                super().__setitem__(watch, nothing)

        cell._watches = Watches()
        cell.watch(lambda *both: changes.append(both))

        assert [(0, 1)] == changes

    def test_begins_with_the_next_change(self):
        """Changes before it began are not reported."""
        cell, changes = Cell(0), []
        cell.swap(one_more)
        cell.watch(lambda *both: changes.append(both))

        assert [] == changes
        cell.swap(one_more)
        assert [(1, 2)] == changes

    def test_closes(self):
        """
        The end of a block ends the calls, and closing again changes nothing; the cell
        forgets the watch.
        """
        cell, changes = Cell(0), []
        watch = cell.watch(lambda *both: changes.append(both))
        assert not watch.is_closed
        assert "open" in repr(watch)
        with watch:
            cell.swap(one_more)

        watch.close()
        cell.swap(one_more)

        assert [(0, 1)] == changes
        assert watch.is_closed
        assert "closed" in repr(watch)
        assert not cell._watches

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
        An error of a callback is logged; the change is made, other watchers are called,
        and so is this one for the next change.
        """
        cell, changes, tried = Cell(0), [], []

        def broken(_, new):
            tried.append(new)
            raise ZeroDivisionError(new)

        cell.watch(broken)
        cell.watch(lambda _, new: changes.append(new))
        with caplog.at_level(logging.ERROR, "conversation_state.cells"):
            assert 1 == cell.swap(one_more)
            assert 2 == cell.swap(one_more)

        assert [1, 2] == changes == tried
        assert [ZeroDivisionError] * 2 == [each.exc_info[0] for each in caplog.records]
        assert "broken" in caplog.text

    def test_on_error(self, caplog):
        """Errors go to *on_error* instead; what that raises is logged."""
        cell = Cell(0)
        errors: list[Exception] = []

        def broken(_, new):
            raise ZeroDivisionError(new)

        with cell.watch(broken, on_error=errors.append):
            cell.swap(one_more)

        assert [ZeroDivisionError] == [*map(type, errors)]
        assert [] == caplog.records
        with cell.watch(broken, on_error=broken):
            cell.swap(one_more)
        assert [TypeError] == [each.exc_info[0] for each in caplog.records]

    def test_an_interrupt_goes_through(self):
        """
        An interrupt in a callback leaves `swap`, after the change is made and all
        watchers were called.
        """
        cell, changes, tried = Cell(0), [], []

        def interrupted(_, new):
            tried.append(new)
            if new == 1:
                cell.swap(one_more)
                raise KeyboardInterrupt

        cell.watch(interrupted)
        cell.watch(lambda _, new: changes.append(new))
        with pytest.raises(KeyboardInterrupt):
            cell.swap(one_more)

        assert [1, 2] == changes == tried
        assert 3 == cell.swap(one_more)
        assert [1, 2, 3] == changes == tried

    def test_several_interrupts(self):
        """The first of several is raised, after all watchers were called."""
        cell, changes = Cell(0), []
        for number in range(4):

            def interrupted(_old, _new, number=number):
                raise KeyboardInterrupt(number)

            cell.watch(interrupted)

        cell.watch(lambda _, new: changes.append(new))
        with pytest.raises(KeyboardInterrupt) as raised:
            cell.swap(one_more)

        assert (0,) == raised.value.args
        assert [1] == changes

    @pytest.mark.parametrize(
        ("name", "wrong"), [("callback", None), ("callback", 3), ("on_error", 3)]
    )
    def test_takes_functions(self, name, wrong):
        """Something else is refused at once."""
        problem = f"^{name} is {wrong}; expected a function$"
        with pytest.raises(TypeError, match=problem):
            Cell(0).watch(**{"callback": print, name: wrong})


class TestMemory:
    """What a cell keeps alive."""

    def test_keeps_the_current_value_only(self):
        """Values of before are freed, and so is what a closed watcher held."""
        value: Any = Value()
        gone = weakref.ref(value)
        cell = Cell(value)
        watched: Any = Value()
        watcher = weakref.ref(watched)
        watch = cell.watch(lambda *_, watched=watched: None)
        watch.close()
        watched = value = None
        cell.swap(lambda _: Value())
        gc.collect()

        assert gone() is None
        assert watcher() is None

    def test_a_closed_watch_keeps_no_values(self):
        """Also one that was closed while it was called."""
        cell = Cell(Value())
        watches: list[Any] = []
        watches.append(cell.watch(lambda *_: watches[0].close()))
        cell.swap(lambda _: Value())
        seen = weakref.ref(cell.value)
        cell.swap(lambda _: Value())
        gc.collect()

        assert seen() is None
        assert watches[0].is_closed

    def test_goes_with_its_watches(self):
        """A cell without references is freed, though it was never unwatched."""
        cell = Cell(Value())
        cell.watch(print)
        gone = weakref.ref(cell)
        cell = None
        gc.collect()

        assert gone() is None

    def test_a_long_history_is_let_go(self):
        """A watcher that is behind by 100,000 changes can be dropped."""
        cell, inside, go = Cell(0), threading.Event(), threading.Event()

        def late(_, new):
            if new == 1:
                inside.set()
                go.wait(60)
                watch.close()

        watch = cell.watch(late)
        thread = threading.Thread(target=cell.swap, args=(one_more,))
        thread.start()
        assert inside.wait(60)
        for _ in range(100_000):
            cell.swap(one_more)
        go.set()
        thread.join(60)

        assert 100_001 == cell.value


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
