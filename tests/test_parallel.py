"""
Branches at once, in threads: the order in which they finish makes no difference, no
branch's messages are lost, and nothing hangs.
"""

import asyncio
import contextvars
import gc
import logging
import pickle
import queue
import subprocess
import sys
import threading
import time
import weakref
from asyncio import sleep
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pickle import PicklingError
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    Turn,
    Usage,
    UserMessage,
    parallel,
    trim,
)
from conversation_state.cells import Cell
from conversation_state.errors import (
    BranchError,
    ConversationStateError,
    FanOutError,
    InvalidUsageError,
)
from conversation_state.parallel import (
    FanOut,
    collect_progress,
    save_progress,
)
from conversation_state.testing import laws
from conversation_state.testing.strategies import aggregators, states
from tests.branches import (
    USAGE,
    Refused,
    Stop,
    Unsayable,
    add_text,
    add_text_slowly,
    leave,
    refused,
)
from tests.executor_contract import CHAT, fan_out, texts, tokens
from tests.profiles import is_thorough
from tests.signals import interrupt_by_signals, interrupter
from tests.threads import finish, until

afan_out: Any = parallel.afan_out


@pytest.fixture(params=["own threads", "pool", "pool of one"])
def executor(request):
    """All that threads can be had from."""
    if request.param == "own threads":
        yield None
    else:
        with ThreadPoolExecutor(4 if request.param == "pool" else 1) as pool:
            yield pool


@pytest.fixture
def time_is_up(monkeypatch):
    """An event: once it is set, and not before, all time for fan-outs is up."""
    up = threading.Event()
    clock = SimpleNamespace(monotonic=lambda: 1e9 if up.is_set() else 0.0)

    class Queue(queue.SimpleQueue[Any]):
        def get(self, *, timeout):  # type: ignore[override]  # as it is called
            return super().get(timeout=min(timeout, 0.01))

    monkeypatch.setattr("conversation_state.parallel._fan_out.time", clock)
    monkeypatch.setattr("conversation_state.parallel._fan_out.SimpleQueue", Queue)
    return up


@pytest.fixture
def is_waiting(monkeypatch):
    """An event: whether the caller of a fan-out waits."""
    waits = threading.Event()

    class Queue(queue.SimpleQueue[Any]):
        def get(self, *, timeout):  # type: ignore[override]  # as it is called
            waits.set()
            return super().get(timeout=timeout)

    monkeypatch.setattr("conversation_state.parallel._fan_out.SimpleQueue", Queue)
    return waits


class TestFanOut:
    """`fan_out`, if all goes well."""

    def test_joins_in_the_order_of_the_steps(self, executor):
        """
        What each branch added follows in the order of the steps, though the
        first one is the last to finish; the bill is the sum.
        """
        steps = [partial(add_text_slowly, (3 - n) * 0.02, str(n)) for n in range(4)]
        done = fan_out(CHAT, steps, executor=executor)

        assert FanOut(done.state, ()) == done
        assert ["Go!", "0", "1", "2", "3"] == texts(done.state)
        assert 50 == tokens(done.state)

    def test_each_gets_a_fork(self, executor):
        """Every step gets a fork of its own, with nothing added."""
        given = []

        def step(state):
            given.append((state.id, state.parent_id, len(state), state.turn_len))
            return state

        done = fan_out(CHAT, [step] * 3, executor=executor)

        assert done.state is CHAT
        assert 3 == len({fork_id for fork_id, *_ in given})
        assert {(CHAT.id, 1, 0)} == {tuple(rest) for _, *rest in given}

    def test_runs_at_once(self):
        """Steps wait for each other, so they can't run one by one."""
        barrier = threading.Barrier(8, timeout=60)

        def step(state):
            barrier.wait()
            return add_text("here", state)

        assert 9 == len(fan_out(CHAT, [step] * 8).state)

    def test_carries_context_variables(self, executor):
        """Steps see the caller's context variables, and change only copies."""
        variable = contextvars.ContextVar("variable", default="nobody")
        variable.set("somebody")

        def step(state):
            seen = variable.get()
            variable.set("else")
            return add_text(seen, state)

        done = fan_out(CHAT, [step, step], executor=executor)

        assert ["Go!", "somebody", "somebody"] == texts(done.state)
        assert "somebody" == variable.get()

    def test_a_fork_of_the_fork(self, executor):
        """
        The messages of a step's own forks come along, and what it joined, and all of it
        once.
        """
        other = Aggregator.new().add_user_prompt("elsewhere").add_usage(Usage(1))

        def step(state):
            state = add_text("first", state)
            deeper = add_text("second", state.fork())
            return state.join(deeper, other, CHAT).fork()

        done = fan_out(CHAT, [step, step], executor=executor).state

        assert ["Go!", *["first", "second", "elsewhere"], "first", "second"] == texts(
            done
        )
        assert 10 + 4 * 10 + 1 == tokens(done)

    def test_a_turn_has_nothing_of_the_past(self):
        """
        What a step dropped and joined again, behind something else, is not
        taken for its own.
        """
        turns: list[Turn] = []

        def step(state):
            return add_text("before", state.fork(at=0)).join(state)

        done = fan_out(CHAT, [step], on_turn=turns.append).state

        assert ["before"] == texts(turns[0])
        assert USAGE == turns[0].usage
        assert ["Go!", "before"] == texts(done)

    @settings(max_examples=25)
    @given(aggregators() | states(), st.lists(st.text(max_size=3), max_size=4))
    def test_is_a_fold(self, state, messages):
        """It equals running the steps one by one and joining them."""
        laws.fan_out_is_a_fold(
            state, [partial(_add_and_record, text) for text in messages]
        )


def _add_and_record(text, state):
    grown = state.add(UserMessage(text))
    return grown.add_usage(USAGE) if len(text) % 2 else grown


class TestFailures:
    """Steps that fail."""

    def test_kept(self, executor):
        """
        A failed branch loses nothing of the others; what it had kept is joined
        in its place.
        """
        steps = [partial(add_text, "a"), refused, partial(add_text, "c")]
        done = fan_out(CHAT, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "a", "half of it", "c"] == texts(done.state)
        assert 40 == tokens(done.state)
        assert 1 == failure.step
        assert isinstance(failure.error, Refused)
        assert ["half of it"] == texts(failure.turn)
        assert USAGE == failure.turn.usage

    def test_raised(self, executor):
        """
        The error has the state with everything, and the failures; it comes
        after all branches have finished.
        """
        steps = [refused, partial(add_text_slowly, 0.05, "b"), refused]
        with pytest.raises(FanOutError) as caught:
            fan_out(CHAT, steps, executor=executor)

        error = caught.value
        assert ["Go!", "half of it", "b", "half of it"] == texts(error.state)
        assert [0, 2] == [failure.step for failure in error.failures]
        assert [failure.error for failure in error.failures] == [*error.exceptions]
        assert "steps 0 and 2 of a fan-out failed" in str(error)
        assert error.__context__ is None

    def test_is_a_group(self):
        """
        ``except*`` takes the errors it knows; the rest goes on, and both know
        the state and their failures.
        """
        taken: list[FanOutError] = []

        def take_some():
            try:
                fan_out(CHAT, [refused, lambda _: 1 / 0, lambda state: state[9]])
            except* (Refused, IndexError) as group:
                taken.append(group)  # type: ignore[arg-type]  # what it is, is tested

        with pytest.raises(FanOutError) as caught:
            take_some()

        assert [[0, 2], [1]] == [
            [failure.step for failure in error.failures]
            for error in (*taken, caught.value)
        ]
        assert taken[0].state == caught.value.state
        assert isinstance(caught.value, ConversationStateError)
        assert isinstance(caught.value, ExceptionGroup)

    def test_splits_groups_of_steps(self):
        """A step that raised a group is split like any group."""

        def step(_):
            raise ExceptionGroup("two", [Refused(), KeyError()])

        with pytest.raises(FanOutError) as caught:
            fan_out(CHAT, [step, lambda _: 1 / 0])

        matched, rest = caught.value.split(Refused)
        assert isinstance(matched, FanOutError)
        assert isinstance(rest, FanOutError)
        assert [0] == [failure.step for failure in matched.failures]
        assert [0, 1] == [failure.step for failure in rest.failures]

    def test_the_traceback_begins_in_the_step(self):
        """What a step raised shows where, and none of our frames."""
        done = fan_out(CHAT, [refused], on_error="keep")

        frame = done.failures[0].error.__traceback__
        assert "refused" == frame.tb_frame.f_code.co_name

    @pytest.mark.parametrize(
        ("step", "problem"),
        [
            (lambda _: None, "returned nothing"),
            (lambda state: state.add_user_prompt("x").turn, "returned a Turn"),
            (lambda state: trim(state, None), "returned a TrimContext"),
            (lambda _: Aggregator.new(), "another conversation"),
        ],
    )
    def test_returns_no_state_of_the_branch(self, step, problem):
        """
        What is not a state of the branch is refused: which step, what it gave,
        and what to do.
        """
        done = fan_out(CHAT, [partial(add_text, "a"), step], on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "a"] == texts(done.state)
        assert isinstance(failure.error, BranchError)
        assert isinstance(failure.error, RuntimeError)
        assert (1, problem) == (failure.error.step, problem)
        assert problem in str(failure.error)
        assert "step 1 (" in str(failure.error)
        assert "<lambda>" in failure.error.name
        assert str(failure.error) == str(pickle.loads(pickle.dumps(failure.error)))

    def test_an_async_step(self):
        """
        A coroutine function is an error that names the twin, and leaves no coroutine.
        """

        async def step(state):
            return state

        (failure,) = fan_out(CHAT, [step], on_error="keep").failures

        assert "run it with afan_out" in str(failure.error)

    def test_names_steps(self):
        """A step is named by its function, or by its class."""

        class Step:
            def __call__(self, state):
                return None

        steps = [partial(partial(add_text), "a", "b"), Step(), print]
        done = fan_out(CHAT, steps, on_error="keep")
        errors = [failure.error for failure in done.failures]

        assert isinstance(errors[0], TypeError)
        assert errors[1].name.endswith("Step")
        assert "print" == errors[2].name

    @pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, Stop])
    def test_an_interrupt_goes_through(self, interrupt, executor):
        """
        A step that raises what is not an `Exception` ends the fan-out at once:
        what has not begun never does, and what runs is not waited for.
        """
        go, began = threading.Event(), []
        turns: list[Turn] = []

        def waits(state):
            began.append(1)
            save_progress(add_text("so far", state))
            assert go.wait(60)
            return state

        def stops(_):
            until(lambda: began or (executor is not None and size == 1))
            raise interrupt

        size = getattr(executor, "_max_workers", 32)
        steps = [waits, stops] if size > 1 else [stops, waits]
        with pytest.raises(interrupt):
            fan_out(
                CHAT, [*steps, *[waits] * 60], executor=executor, on_turn=turns.append
            )

        ran = len(began)
        assert ran < 60
        assert 62 == len(turns)
        go.set()

    def test_an_interrupt_from_outside(self, executor, is_waiting):
        """
        Interrupted while it waits, it reports the saved progress, and starts nothing;
        what a step that runs on then adds is reported when it ends.
        """
        go, began = threading.Event(), []
        turns: list[Turn] = []

        def waits(state):
            began.append(1)
            state = save_progress(add_text("so far", state))
            if len(began) == 1:
                # Not before: a pool may stay locked if its submit is interrupted.
                assert is_waiting.wait(60)
                interrupt()
            assert go.wait(60)
            return add_text("later", state)

        steps = [waits] * (100 if executor else 1)
        with interrupter() as interrupt, pytest.raises(KeyboardInterrupt):
            fan_out(CHAT, steps, executor=executor, on_turn=turns.append)

        assert ["so far"] in [*map(texts, turns)]
        go.set()
        until(lambda: len(turns) == len(steps) + len(began))
        assert len(began) < 100
        assert ["so far", "later"] == texts(turns[-1])

    @pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
    def test_an_interrupt_in_a_group(self, interrupt):
        """One that a group of a step's own holds is raised alone, out of the group."""

        def step(_):
            inner = BaseExceptionGroup("inner", [interrupt("stop")])
            raise BaseExceptionGroup("outer", [ValueError(), inner])

        with pytest.raises(interrupt, match="stop"):
            fan_out(CHAT, [step])


class TestKeep:
    """`save_progress`."""

    def test_outside(self):
        """Outside of a fan-out it gives back what it gets."""
        assert save_progress(CHAT) is CHAT

    def test_usage_recorded_again(self):
        """
        Usage that a kept state and the returned one recorded under one key is not
        a conflict if it is the same, and counts once.
        """

        def record(state):
            save_progress(state.add_usage(Usage(3), key="call"))
            return state.add_usage(Usage(3), key="call")

        done = fan_out(CHAT, [record], on_error="keep")

        assert () == done.failures
        assert 3 == done.state.usage.total_tokens - CHAT.usage.total_tokens

    @pytest.mark.parametrize("wrong", [None, 3, CHAT.turn])
    def test_takes_states(self, wrong):
        """Something else is refused, inside and outside."""
        with pytest.raises(TypeError, match="save_progress expected the Aggregator"):
            save_progress(wrong)

    def test_what_was_kept_stays_kept(self):
        """Everything kept counts, also what later states went without."""

        def step(state):
            save_progress(add_text("first try", state))
            save_progress(add_text("second try", state))
            raise Refused

        done = fan_out(CHAT, [step], on_error="keep")

        assert ["Go!", "first try", "second try"] == texts(done.state)
        assert 30 == tokens(done.state)

    def test_saved_progress_counts(self, executor):
        """
        Usage that a step recorded counts, also if the step returns another state, or
        another attempt.
        """
        turns: list[Turn] = []

        def step(state):
            save_progress(state.add_usage(Usage(500)))
            return state.add_usage(Usage(300))

        done = fan_out(CHAT, [step, step], executor=executor, on_turn=turns.append)

        assert ["Go!"] == texts(done.state)
        assert 10 + 2 * 800 == tokens(done.state)
        assert [Usage(800)] * 2 == [turn.usage for turn in turns]

    def test_inner_fan_outs_count(self, executor):
        """
        The usage of an inner fan-out counts, also if the step goes on without its
        result.
        """

        def outer(state):
            fan_out(
                state,
                [partial(add_text, "a"), partial(add_text, "b")],
                executor=executor,
            )
            return state

        done = fan_out(CHAT, [outer], executor=executor)

        assert ["Go!"] == texts(done.state)
        assert 30 == tokens(done.state)

    def test_collected_inside_of_a_step(self):
        """
        What code in the step collects is its own; what is saved afterwards is the
        step's again.
        """

        def step(state):
            with collect_progress(state) as list_collected:
                inner = save_progress(state.add_usage(Usage(3)))

            assert [inner] == list_collected()
            save_progress(state.add_usage(Usage(500)))
            return state

        assert 10 + 500 == tokens(fan_out(CHAT, [step]).state)

    def test_progress_of_a_rolled_back_state(self):
        """
        What was saved from a state that was rolled back, and then from a longer one, is
        joined once; nothing of the past is taken for new.
        """
        long = CHAT.extend([UserMessage(str(n)) for n in range(3)])

        def step(state):
            save_progress(add_text("early", state.rollback(2)))
            save_progress(add_text("late", state))
            raise Refused

        done = fan_out(long, [step], on_error="keep")

        assert ["Go!", "0", "1", "2", "early", "late"] == texts(done.state)
        assert 30 == tokens(done.state)

    def test_another_conversation(self):
        """A state of another conversation is not this branch's."""

        def step(state):
            save_progress(add_text("mine", state))
            save_progress(add_text("other", Aggregator.new()))
            raise Refused

        done = fan_out(CHAT, [step], on_error="keep")

        assert ["Go!", "mine"] == texts(done.state)

    def test_from_threads_of_the_step(self):
        """Many threads of one step keep at once, and nothing is lost."""

        def step(state):
            context = contextvars.copy_context()

            def work():
                for _ in range(200):
                    save_progress(add_text("x", state))

            threads = [
                threading.Thread(target=context.copy().run, args=(work,))
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            finish(*threads)
            raise Refused

        assert 8_010 == tokens(fan_out(CHAT, [step], on_error="keep").state)


def _equal_text(text):
    return "".join(list(text))  # equal, and another object


class TestConflictingKeys:
    """One key with two usages."""

    @staticmethod
    def record_tokens(tokens, state, model="m", *, after_s=0.0):
        time.sleep(after_s)
        key = _equal_text("request")
        return add_text("a", state).add_usage(
            Usage(tokens), key=key, model=_equal_text(model)
        )

    @pytest.mark.parametrize(
        ("other", "shown"), [((300,), "300"), ((500, "n"), "'n'"), ((900,), "900")]
    )
    def test_in_two_branches(self, executor, other, shown):
        """
        The later step has failed, whichever ended first; the first usage
        stands, all messages and other payments are there.
        """
        tokens_, *model = other
        steps = [
            partial(self.record_tokens, 500, after_s=0.02),
            lambda state: self.record_tokens(tokens_, state, *model),
        ]
        done = fan_out(CHAT, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert 1 == failure.step
        assert isinstance(failure.error, InvalidUsageError)
        assert "'request'" in str(failure.error)
        assert "step 0 (TestConflictingKeys.record_tokens)" in str(failure.error)
        assert shown in str(failure.error)
        assert "500" in str(failure.error)
        assert ["Go!", "a", "a"] == texts(done.state)
        assert 10 + 2 * 10 + 500 == tokens(done.state)
        assert Usage(tokens_) + USAGE == failure.turn.usage

    def test_equal_usages(self, executor):
        """The same payment, in other objects, is one payment and no conflict."""
        steps = [partial(self.record_tokens, 500)] * 3
        done = fan_out(CHAT, steps, executor=executor)

        assert 10 + 3 * 10 + 500 == tokens(done.state)

    def test_with_the_past(self, executor):
        """
        A step that goes on from an older state can't record another usage under a key
        that was recorded since.
        """
        state = self.record_tokens(500, CHAT)
        steps = [partial(add_text, "b"), lambda _: self.record_tokens(300, CHAT)]
        done = fan_out(state, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert 1 == failure.step
        assert isinstance(failure.error, InvalidUsageError)
        assert "in the state it was given" in str(failure.error)
        assert ["Go!", "a", "b", "a"] == texts(done.state)
        assert 10 + 3 * 10 + 500 == tokens(done.state)

    def test_in_one_step(self, executor):
        """
        What a step kept and what it returned can't differ either; what it
        returned stands.
        """

        def step(state):
            save_progress(self.record_tokens(500, state))
            return self.record_tokens(300, state)

        done = fan_out(CHAT, [step], executor=executor, on_error="keep")
        (failure,) = done.failures

        assert isinstance(failure.error, InvalidUsageError)
        assert "in the same step" in str(failure.error)
        assert ["Go!", "a"] == texts(done.state)
        assert 10 + 2 * 10 + 300 == tokens(done.state)

    def test_in_a_step_that_failed(self, executor):
        """The error of the step stays, with a note."""

        def step(state):
            save_progress(self.record_tokens(300, state))
            raise Refused

        steps = [partial(self.record_tokens, 500), step]
        done = fan_out(CHAT, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert isinstance(failure.error, Refused)
        assert "recorded the key 'request'" in failure.error.__notes__[0]
        assert 10 + 2 * 10 + 500 == tokens(done.state)


class TestTooMuch:
    """Usage that no ledger can hold."""

    MAX_USAGE = Usage(2**63 - 100)

    def test_loses_nothing_of_the_others(self, executor):
        """The branch has failed; the others, and its messages, are there."""

        def too_much(state):
            return save_progress(add_text("b", Aggregator.join(state))).add_usage(
                self.MAX_USAGE
            )

        steps = [partial(add_text, "a"), too_much, too_much, partial(add_text, "d")]
        done = fan_out(CHAT, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert 2 == failure.step
        assert isinstance(failure.error, InvalidUsageError)
        assert "step 2 (" in str(failure.error)
        assert ["Go!", "a", "b", "b", "d"] == texts(done.state)
        assert 4 * 10 + 2**63 - 100 == tokens(done.state)
        assert self.MAX_USAGE in [entry.usage for entry in failure.turn.ledger]


class TestNested:
    """Fan-outs in steps of fan-outs."""

    @pytest.mark.parametrize("workers", [None, 1, 2])
    def test_no_deadlock(self, workers):
        """
        Three levels deep, in one pool, whose threads are all there are, or in threads
        of its own, all is run, in order.
        """
        pool = None if workers is None else ThreadPoolExecutor(workers)
        threads = set()

        def step(depth, name, state):
            threads.add(threading.get_ident())
            if not depth:
                return add_text(name, state)
            steps = [partial(step, depth - 1, f"{name}{n}") for n in range(3)]
            return fan_out(state, steps, executor=pool).state

        done = fan_out(
            CHAT, [partial(step, 2, str(n)) for n in range(3)], executor=pool
        )
        names = [f"{a}{b}{c}" for a in range(3) for b in range(3) for c in range(3)]

        assert ["Go!", *names] == texts(done.state)
        assert 280 == tokens(done.state)
        if pool is not None:
            assert len(threads) <= pool._max_workers
            pool.shutdown()

    def test_between_pools(self):
        """Pools of one thread whose steps wait for each other don't stand still."""
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:

            def step(depth, pools, state):
                if not depth:
                    return add_text("x", state)
                deeper = partial(step, depth - 1, pools[::-1])
                return fan_out(state, [deeper] * 2, executor=pools[0]).state

            states = []
            threads = [
                threading.Thread(
                    target=lambda pools=pools: states.append(step(3, pools, CHAT))
                )
                for pools in ([one, two], [two, one])
            ]
            for thread in threads:
                thread.start()
            finish(*threads)

        assert [9, 9] == [len(state) for state in states]

    def test_inner_branches_are_kept_by_the_outer(self, executor):
        """
        What an inner fan-out brought, also what its failed branches had kept,
        is the outer step's so far, in the order of the steps.
        """

        def inner(state):
            steps = [
                partial(add_text_slowly, 0.03, "1"),
                refused,
                partial(add_text, "3"),
            ]
            fan_out(add_text("0", state), steps, executor=executor)

        def outer(state):
            fan_out(state, [partial(add_text, "-1")], executor=executor)
            inner(state)

        done = fan_out(CHAT, [outer], executor=executor, on_error="keep")
        (failure,) = done.failures

        assert isinstance(failure.error, FanOutError)
        assert ["Go!", "-1", "0", "1", "half of it", "3"] == texts(done.state)
        assert 60 == tokens(done.state)

    def test_what_inner_branches_have_so_far(self, time_is_up):
        """
        When time is up for the outer step, what runs deep inside of it counts
        with what it has kept.
        """
        go, inside = threading.Event(), threading.Barrier(4, timeout=60)

        def waits(state):
            save_progress(add_text("so far", state))
            inside.wait()
            go.wait(60)
            return state

        def notice_turn(turn):
            if texts(turn) == ["b"]:
                inside.wait()

        def outer(state):
            steps = [waits, partial(add_text, "b"), waits]
            return fan_out(state, steps, on_turn=notice_turn).state

        def timer(state):
            inside.wait()
            return state

        done = fan_out(
            CHAT,
            [outer, timer],
            on_error="keep",
            timeout_s=1,
            on_turn=lambda _: time_is_up.set(),
        )
        go.set()

        assert [0] == [failure.step for failure in done.failures]
        assert ["Go!", "so far", "b", "so far"] == texts(done.state)


class TestOnTurn:
    """`fan_out(on_turn=...)`."""

    def test_reports_every_turn(self, executor):
        """Each branch is reported once, when it is settled, here; failed ones, too."""
        settled: list[tuple[Turn, int]] = []
        cell = Cell(CHAT)

        def on_turn(turn):
            settled.append((turn, threading.get_ident()))
            cell.swap(lambda state: state.join(turn))

        steps = [partial(add_text_slowly, 0.03, "a"), refused, partial(add_text, "c")]
        done = fan_out(CHAT, steps, executor=executor, on_turn=on_turn, on_error="keep")

        assert 3 == len(settled)
        assert {threading.get_ident()} == {thread for _, thread in settled}
        assert set(done.state.ledger) == set(cell.value.ledger)
        assert set(done.state.entries) == set(cell.value.entries)

    @pytest.mark.parametrize(("on_error", "raised"), [("raise", 3), ("keep", 2)])
    def test_what_it_raises_beside_failures(self, on_error, raised):
        """Failures are in the same error, raised or not."""

        def broken(turn):
            raise KeyError(len(turn))

        with pytest.raises(FanOutError) as caught:
            fan_out(
                CHAT,
                [refused, partial(add_text, "b")],
                on_turn=broken,
                on_error=on_error,
            )
        _, rest = caught.value.split(KeyError)

        assert raised == len(caught.value.exceptions)
        assert [0] == [failure.step for failure in caught.value.failures]
        assert "step 0 of a fan-out failed, and on_turn raised" in str(caught.value)
        assert ["Go!", "half of it", "b"] == texts(caught.value.state)
        assert (rest is None) == (on_error == "keep")

    def test_what_it_raises_late(self, time_is_up, caplog):
        """What it raises after the fan-out has returned is logged."""
        go, began = threading.Event(), threading.Event()

        def slow(state):
            began.set()
            assert go.wait(60)
            return add_text("late", state)

        def broken(turn):
            if texts(turn) == ["late"]:
                raise Refused

        with caplog.at_level(logging.ERROR, "conversation_state.parallel"):
            steps = [slow, lambda _: began.wait(60) and time_is_up.set()]
            fan_out(CHAT, steps, timeout_s=1, on_error="keep", on_turn=broken)
            go.set()
            until(lambda: caplog.records)

        assert Refused is caplog.records[0].exc_info[0]

    @pytest.mark.parametrize("times", [1, 4])
    def test_an_interrupt_when_time_is_up(self, times):
        """It loses no turn of the others, and its own call is made again, once."""
        turns: list[Turn] = []

        def on_turn(turn):
            turns.append(turn)
            if len(turns) <= times:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fan_out(
                *(CHAT, [refused] * 3),
                executor=Travels(calls=9),
                timeout_s=0,
                on_turn=on_turn,
            )

        assert 4 == len(turns)

    def test_what_it_raises_in_an_interrupt(self):
        """In an interrupt it is noted there."""

        def stops(_):
            raise KeyboardInterrupt

        def broken(_):
            raise Refused

        with pytest.raises(KeyboardInterrupt) as caught:
            fan_out(CHAT, [stops], on_turn=broken)

        assert ["on_turn raised Refused()"] == caught.value.__notes__


class TestTimeout:
    """`fan_out(timeout_s=...)`."""

    def test_keeps_what_was_kept(self, time_is_up):
        """
        When time is up, what is not done has failed, with its saved progress; what it
        does afterwards is reported to *on_turn*.
        """
        go, kept = threading.Event(), threading.Event()
        turns: list[Turn] = []

        def slow(state):
            state = save_progress(add_text("so far", state))
            kept.set()
            go.wait(60)
            return add_text("later", state)

        def notice_turn(turn):
            turns.append(turn)
            assert kept.wait(60)
            time_is_up.set()

        steps = [slow, partial(add_text, "b")]
        done = fan_out(CHAT, steps, timeout_s=1, on_error="keep", on_turn=notice_turn)
        (failure,) = done.failures

        assert ["Go!", "so far", "b"] == texts(done.state)
        assert isinstance(failure.error, TimeoutError)
        assert "step 0 (TestTimeout" in str(failure.error)
        assert "longer than 1 s" in str(failure.error)
        go.set()
        until(lambda: len(turns) == 3)
        both = done.state.join(turns[2])
        assert ["Go!", "so far", "b", "later"] == texts(both)

    def test_what_has_not_begun_never_does(self):
        """Steps that waited for a thread are not run."""
        go, began = threading.Event(), []

        def slow(state):
            began.append(1)
            go.wait(60)
            return state

        with ThreadPoolExecutor(1) as pool:
            with pytest.raises(FanOutError) as caught:
                fan_out(CHAT, [slow] * 5, executor=pool, timeout_s=0.05)
            go.set()

        assert [TimeoutError] * 5 == [*map(type, caught.value.exceptions)]
        assert [1] == began or not began
        assert caught.value.state == CHAT

    def test_the_program_ends(self):
        """A step that never returns does not keep the program running."""
        program = (
            "import threading\n"
            "from conversation_state import Aggregator, fan_out\n"
            "steps = [lambda state: threading.Event().wait()] * 2\n"
            "state = Aggregator.new()\n"
            "done = fan_out(state, steps, timeout_s=0.01, on_error='keep')\n"
            "print(len(done.failures))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            text=True,
            timeout=120,
        )

        assert "2\n" == done.stdout


class TestArguments:
    """What `fan_out` refuses before anything runs."""

    @pytest.mark.parametrize(
        ("arguments", "options", "kind", "problem"),
        [
            ((None, []), {}, TypeError, "takes an Aggregator"),
            ((CHAT, save_progress), {}, TypeError, "steps: expected a list"),
            ((CHAT, [pytest.fail, "b"]), {}, TypeError, "step 1 is 'b'"),
            (
                (CHAT, [pytest.fail]),
                {"on_error": "ignore"},
                ValueError,
                "'raise' or 'keep'",
            ),
            ((CHAT, [pytest.fail]), {"executor": 4}, TypeError, "executor is 4"),
            ((CHAT, [pytest.fail]), {"on_turn": 4}, TypeError, "on_turn is 4"),
            ((CHAT, []), {"on_turn": sleep}, TypeError, "an async function"),
            (
                (CHAT, [pytest.fail]),
                {"timeout_s": "3"},
                TypeError,
                "expected seconds",
            ),
            ((CHAT, [pytest.fail]), {"timeout_s": -1}, ValueError, "timeout_s is -1"),
            (
                (CHAT, [pytest.fail]),
                {"timeout_s": float("nan")},
                ValueError,
                "timeout_s",
            ),
        ],
    )
    def test_refused(self, arguments, options, kind, problem):
        """An argument of another type is an error, and no step is run."""
        with pytest.raises(kind, match=problem):
            fan_out(*arguments, **options)


class TestMemory:
    """What a fan-out leaves behind."""

    def test_goes_without_the_collector(self, executor):
        """
        Neither the steps nor what branches began with is kept by references in
        circles.
        """
        refs: list[Any] = []

        class Step:
            def __call__(self, state):
                refs.extend([weakref.ref(self), weakref.ref(state)])
                return state.add_user_prompt("a")

        gc.collect()
        gc.disable()
        try:
            fan_out(CHAT, [Step()], executor=executor)
            # The thread releases them a moment after it was reported.
            until(lambda: refs[0]() is refs[1]() is None)
        finally:
            gc.enable()


class Travels(Executor):
    """
    Runs what it is given here, once it has been given so many calls, and pickles as
    if that was far away.
    """

    def __init__(self, calls=1):
        self.calls = calls
        self.submitted: list[Any] = []
        self.sent: list[bytes] = []
        self.returned: list[bytes] = []

    def submit(self, function, /, *arguments, **_):
        future: Future[Any] = Future()
        assert future.set_running_or_notify_cancel()
        self.sent.append(pickle.dumps((function, arguments)))
        self.submitted.append(future)
        if len(self.submitted) == self.calls:
            self.run()
        return future

    def run(self):
        for future, sent in zip(self.submitted, self.sent, strict=True):
            function, arguments = pickle.loads(sent)
            self.returned.append(pickle.dumps(function(*arguments)))
            future.set_result(pickle.loads(self.returned[-1]))


class Here(Executor):
    """Runs what it is given at once, in the calling thread."""

    def submit(self, function, /, *arguments, **_):
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future


class TestExecutors:
    """Executors that don't do what they should."""

    def test_that_is_shut_down(self):
        """A pool that was shut down fails every step, with the pool's error."""
        pool = ThreadPoolExecutor(1)
        pool.shutdown()
        done = fan_out(CHAT, [lambda state: state] * 2, executor=pool, on_error="keep")

        assert done.state is CHAT
        for failure in done.failures:
            assert isinstance(failure.error, BranchError)
            assert "after shutdown" in str(failure.error)
            assert isinstance(failure.error.__cause__, RuntimeError)

    def test_that_is_shut_down_meanwhile(self):
        """What other code cancelled has failed; the rest is there."""
        with ThreadPoolExecutor(1) as pool:

            def stops(state):
                until(lambda: not pool._work_queue.empty())
                pool.shutdown(wait=False, cancel_futures=True)
                return add_text("a", state)

            done = fan_out(CHAT, [stops, stops], executor=pool, on_error="keep")

        assert ["Go!", "a"] == texts(done.state)
        assert "its executor cancelled it" in str(done.failures[0].error)

    def test_that_gives_something_else(self):
        """An executor whose results are not those of its steps is an error."""

        class Odd(Executor):
            def submit(self, function, /, *arguments, **_):
                future: Future[Any] = Future()
                future.set_result(3)
                return future

        done = fan_out(CHAT, [partial(add_text, "a")], executor=Odd(), on_error="keep")

        assert "was lost with RuntimeError(" in str(done.failures[0].error)

    @pytest.mark.parametrize("error", [Unsayable(), PicklingError(Unsayable())])
    def test_errors_without_text(self, error):
        """
        An executor's error that can't be shown is a failure like any other: the caller
        does not wait for a branch that will never report.
        """

        class Broken(Executor):
            def submit(self, function, /, *arguments, **_):
                future: Future[Any] = Future()
                future.set_exception(error)
                return future

        unpicklable: Any = threading.Lock()
        step = partial(add_text, unpicklable)
        done = fan_out(CHAT, [step], executor=Broken(), on_error="keep", timeout_s=60)
        (failure,) = done.failures

        assert isinstance(failure.error, BranchError)
        assert error is failure.error.__cause__

    def test_several_exits(self):
        """
        An interrupt often reaches all processes at once: one goes through, and the
        progress of each is reported.
        """
        turns: list[Turn] = []
        with pytest.raises(SystemExit):
            fan_out(CHAT, [leave] * 3, executor=Travels(3), on_turn=turns.append)

        assert [["half of it"]] * 3 == [*map(texts, turns)]

    def test_turns_that_come_late_know_their_base(self):
        """
        What comes back from a process when time is up is joined without a look
        at the past, too.
        """
        turns: list[Turn] = []
        executor = Travels(calls=2)
        fan_out(
            CHAT,
            [partial(add_text, "late")],
            executor=executor,
            timeout_s=0,
            on_error="keep",
            on_turn=turns.append,
        )
        executor.run()

        assert [[], ["late"]] == [*map(texts, turns)]
        assert CHAT.entries is turns[1].base_log()

    def test_a_turn_that_comes_meanwhile(self):
        """What comes back while time is up is reported, and is not in the state."""
        turns: list[Turn] = []
        executor = Travels(calls=9)

        def on_turn(turn):
            turns.append(turn)
            if len(turns) == 1:
                executor.run()

        done = fan_out(
            *(CHAT, [partial(add_text, "late")]),
            executor=executor,
            on_turn=on_turn,
            timeout_s=0,
            on_error="keep",
        )

        assert [[], ["late"]] == [*map(texts, turns)]
        assert ["Go!"] == texts(done.state)

    def test_the_past_is_pickled_once(self, monkeypatch):
        """
        The state is pickled once for all steps; what comes back is the turn, whatever
        there was before.
        """
        long = CHAT.extend([UserMessage(f"{n:0200}") for n in range(2_000)])
        dumps, pickled = pickle.dumps, []

        def noted(value, *rest):
            pickled.append(value)
            return dumps(value, *rest)

        monkeypatch.setattr(pickle, "dumps", noted)
        executor = Travels(5)
        done = fan_out(long, [partial(add_text, "a")] * 5, executor=executor)

        assert 1 == sum(value is long for value in pickled)
        assert all(len(sent) > 100_000 for sent in executor.sent)
        assert all(len(returned) < 3_000 for returned in executor.returned)
        assert 2_006 == len(done.state)


class TestThreads:
    """Threads of a fan-out's own."""

    def test_at_most_32_at_once(self):
        """A fan-out runs as many steps at once, and no more."""
        full, running, most = threading.Barrier(32, timeout=60), [], []

        def step(state):
            running.append(1)
            most.append(len(running))
            full.wait()
            running.pop()
            full.wait()
            return state

        fan_out(CHAT, [step] * 64)

        assert 32 == max(most)

    @pytest.mark.parametrize("had", [0, 1])
    def test_fewer_than_wanted(self, monkeypatch, had):
        """
        Where one thread can be started, it does what was meant for many; where none
        can, that is an error, and no step is run.
        """
        go, start, asked = threading.Event(), threading.Thread.start, iter(range(had))
        began: list[Any] = []

        def few(thread):
            if next(asked, None) is None:
                go.set()
                raise RuntimeError("can't start new thread")

            start(thread)

        def waits(state):
            began.append(1)
            assert go.wait(60)
            return add_text("a", state)

        monkeypatch.setattr(threading.Thread, "start", few)
        if had:
            assert 41 == len(fan_out(CHAT, [waits] * 40).state)
        else:
            with pytest.raises(RuntimeError, match="can't start new thread"):
                fan_out(CHAT, [waits] * 40)

        assert 40 * had == len(began)


class TestLaws:
    """The laws notice when they are broken."""

    def test_a_fold(self):
        """Steps that do something else the second time are noticed."""
        words = iter("abcd")
        with pytest.raises(AssertionError, match="other messages"):
            laws.fan_out_is_a_fold(
                CHAT, [lambda state: add_text(next(words), state)] * 2
            )

        costs = iter([1, 2])
        with pytest.raises(AssertionError, match="billed"):
            laws.fan_out_is_a_fold(
                CHAT, [lambda state: state.add_usage(Usage(next(costs)))]
            )

    @pytest.mark.parametrize(
        "changes",
        [[(0, 1), (2, 3)], [(0, 1), (1, 1), (1, 3)], [(0, 1), (1, 2)], [(1, 3)], []],
    )
    def test_a_linear_history(self, changes):
        """Gaps, changes that change nothing, and other ends are noticed."""
        with pytest.raises(AssertionError):
            laws.histories_are_linear(0, changes, 3)

        laws.histories_are_linear(0, [(0, 1), (1, 3)], 3)


class TestSignals:
    """Real signals, at random moments."""

    @pytest.mark.parametrize("is_nested", [False, True])
    def test_usage_is_reported(self, is_nested):
        """
        The turn of every step that ran reaches *on_turn*, if need be from a thread that
        ran on.
        """

        def step(text, steps_run, state):
            steps_run.append(text)
            return add_text(text, state)

        def fan(subject, state):
            steps_run, turns = subject
            steps = [partial(step, f"{len(turns)} {name}", steps_run) for name in "abc"]
            return fan_out(state, steps, on_turn=turns.append).state

        def run(subject):
            while True:
                if is_nested:
                    fan_out(CHAT, [partial(fan, subject)], executor=Here())
                else:
                    fan(subject, CHAT)

        def check(subject, completed):
            steps_run, turns = subject
            until(
                lambda: {*steps_run} == {text for turn in turns for text in texts(turn)}
            )

        times = 100 if is_thorough() else 50
        assert times == interrupt_by_signals(
            run, check, prepare=lambda: ([], []), times=times, within_s=0.003
        )


class TestTakenOver:
    """Steps that who waits runs itself."""

    @pytest.mark.parametrize(
        ("options", "interrupt", "ran"),
        [
            ({"timeout_s": 0}, None, 0),
            ({}, None, 3),
            ({}, KeyboardInterrupt, 1),
            ({}, SystemExit, 1),
        ],
    )
    def test_ends(self, options, interrupt, ran):
        """Once time is up, or one is interrupted, no more of them are run."""
        began = []

        def inner(state):
            began.append(1)
            if interrupt is not None:
                raise interrupt

            return state

        def outer(state):
            return fan_out(
                state, [inner] * 3, executor=pool, on_error="keep", **options
            ).state

        with ThreadPoolExecutor(1) as pool, suppress(KeyboardInterrupt, SystemExit):
            fan_out(CHAT, [outer], executor=pool)

        assert ran == len(began)

    def test_are_reported_when_all_is_over(self, monkeypatch):
        """
        One that still runs when time is up is reported when it ends, as those are that
        the pool runs.
        """
        go = threading.Event()
        turns: list[Turn] = []

        async def outer_loop(state):
            scope = anyio.CancelScope()
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(anyio, "move_on_after", lambda _: scope)

            def time_is_up():
                scope.deadline = loop.time()

            def slow(state):
                save_progress(add_text("so far", state))
                loop.call_soon_threadsafe(time_is_up)
                assert go.wait(60)
                return add_text("later", state)

            return await afan_out(
                state,
                [slow],
                executor=pool,
                timeout_s=60,
                on_error="keep",
                on_turn=turns.append,
            )

        def outer(state):
            return asyncio.run(outer_loop(state)).state

        with ThreadPoolExecutor(1) as pool:
            done = fan_out(CHAT, [outer], executor=pool).state

        assert ["Go!", "so far"] == texts(done)
        go.set()
        until(lambda: len(turns) == 2)
        assert ["later"] == texts(turns[1])
