"""
Branches in other processes, which share nothing and may die.
"""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import pytest

from conversation_state import Aggregator, parallel
from conversation_state._wording import with_article
from conversation_state.errors import BranchError, FanOutError
from conversation_state.testing import laws
from tests import branches
from tests.branches import USAGE, Refused, add_text, add_text_slowly

# Much here is handed over wrongly; what is right is for typing_tests to add_text.
fan_out: Any = parallel.fan_out

CHAT = Aggregator.new().add_user_prompt("Go!").add_usage(USAGE)


def texts(state):
    return [message.text for message in state]


def tokens(state):
    return state.total_usage.total_tokens


def new_pool():
    """
    Two processes that began with nothing of ours.
    """
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def pool():
    """
    One for all tests that let it live.
    """
    with new_pool() as shared:
        yield shared


class TestProcesses:
    """
    `fan_out` in processes.
    """

    def test_joins_in_the_order_of_the_steps(self, pool):
        """
        What came from other processes follows in the order of the steps, with
        identities of its own; the bill is the sum.
        """
        steps = [partial(add_text_slowly, (3 - n) * 0.02, str(n)) for n in range(4)]
        done = fan_out(CHAT, [*steps, branches.process], executor=pool)
        *answers, process = texts(done.state)

        assert ["Go!", "0", "1", "2", "3"] == answers
        assert int(process) != os.getpid()
        assert 60 == tokens(done.state)
        assert 6 == len({entry.id for entry in done.state.entries})
        assert CHAT.id == done.state.id
        assert done.state.join(done.state.fork().turn) is done.state

    def test_is_a_fold(self, pool):
        """
        It equals running the steps one by one and joining them.
        """
        laws.fan_out_is_a_fold(
            CHAT.fork(), [partial(add_text, text) for text in "abc"], executor=pool
        )

    def test_turns_know_what_they_have_nothing_of(self, pool):
        """
        A turn that came back is joined without a look at the past, as one that
        never left.
        """
        turns: list[Any] = []
        fan_out(CHAT, [partial(add_text, "a")], executor=pool, on_turn=turns.append)

        assert CHAT.entries is turns[0].base_log()
        assert CHAT.ledger is turns[0].base_ledger()

    def test_failures(self, pool):
        """
        The error and the step's saved progress come back together; the error has the
        place where it was raised.
        """
        steps = [partial(add_text, "a"), branches.refused, partial(add_text, "c")]
        done = fan_out(CHAT, steps, executor=pool, on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "a", "half of it", "c"] == texts(done.state)
        assert 40 == tokens(done.state)
        assert isinstance(failure.error, Refused)
        assert "too many requests" == str(failure.error)
        assert "where step 1 (refused) ran" in failure.error.__notes__[0]
        assert "branches.py" in failure.error.__notes__[0]

    def test_a_fan_out_that_failed_there(self, pool):
        """
        The error of a fan-out in a step comes back whole, and what its
        branches had is kept.
        """
        done = fan_out(
            CHAT, [branches.fan_out_and_fail], executor=pool, on_error="keep"
        )
        (failure,) = done.failures

        assert isinstance(failure.error, FanOutError)
        assert [0] == [inner.step for inner in failure.error.failures]
        assert ["Go!", "half of it", "inner"] == texts(failure.error.state)
        assert ["Go!", "half of it", "inner"] == texts(done.state)

    @pytest.mark.parametrize("kind", [branches.Unpicklable, branches.Unreadable])
    def test_an_error_that_cannot_travel(self, pool, kind):
        """
        An error that can't be pickled, or not be unpickled, comes back as one that
        describes it, with the step's saved progress.
        """
        steps = [partial(branches.fail, kind), partial(add_text, "b")]
        done = fan_out(CHAT, steps, executor=pool, on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "half of it", "b"] == texts(done.state)
        assert isinstance(failure.error, BranchError)
        raised = with_article(kind.__name__)
        assert f"raised {raised} that can't be pickled" in str(failure.error)
        assert "branches.py" in str(failure.error)

    @pytest.mark.parametrize("kind", [branches.Unchangeable, branches.Unsayable])
    def test_an_error_that_is_hard_to_handle(self, pool, kind):
        """
        An error that takes no notes, or can't be shown, comes back itself, and affects
        no other branch.
        """
        steps = [partial(branches.fail, kind), partial(add_text, "b")]
        done = fan_out(CHAT, steps, executor=pool, on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "half of it", "b"] == texts(done.state)
        assert isinstance(failure.error, kind)
        assert (3, "words") == failure.error.args

    def test_returns_no_state(self, pool):
        """
        What is no state of the branch is refused there.
        """
        done = fan_out(CHAT, [branches.turn], executor=pool, on_error="keep")

        assert "returned a Turn" in str(done.failures[0].error)

    def test_a_step_that_cannot_travel(self, pool):
        """
        A step that can't be pickled is named, with what to do; others run.
        """
        steps = [partial(add_text, "a"), lambda state: state]
        done = fan_out(CHAT, steps, executor=pool, on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "a"] == texts(done.state)
        assert isinstance(failure.error, BranchError)
        assert "step 1 (" in str(failure.error)
        assert "<lambda>" in str(failure.error)
        assert "top level" in str(failure.error)

    def test_a_group(self, pool):
        """
        What is raised is a group of the errors that came back.
        """
        taken: list[Any] = []
        try:
            fan_out(CHAT, [branches.refused, branches.refused], executor=pool)
        except* Refused as group:
            taken.append(group)

        assert isinstance(taken[0], FanOutError)
        assert 30 == tokens(taken[0].state)

    def test_an_exit_goes_through(self, pool):
        """
        A step that leaves the program leaves it, as it would here.
        """
        with pytest.raises(SystemExit):
            fan_out(CHAT, [branches.leave], executor=pool)

        assert 2 == len(fan_out(CHAT, [partial(add_text, "a")], executor=pool).state)

    def test_a_process_dies(self):
        """
        A process that dies loses its branch, with an error that says so; what had come
        back before is there.
        """
        with new_pool() as pool:
            ready = fan_out(CHAT, [partial(add_text, "x")], executor=pool)
            assert 2 == len(ready.state)
            steps = [
                partial(add_text, "a"),
                partial(add_text_slowly, 0.5, "b"),
                branches.die,
            ]
            turns: list[Any] = []
            done = fan_out(
                CHAT, steps, executor=pool, on_error="keep", on_turn=turns.append
            )
            broken = fan_out(
                CHAT, [partial(add_text, "a")], executor=pool, on_error="keep"
            )

        assert "a" in texts(done.state)
        assert 2 == done.failures[-1].step
        assert "a worker of its executor died" in str(done.failures[-1].error)
        assert 0 == len(done.failures[-1].turn)
        assert 3 == len(turns)
        assert "died" in str(broken.failures[0].error)

    @pytest.mark.skipif(
        "fork" not in multiprocessing.get_all_start_methods(),
        reason="this system can't fork processes",
    )
    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
    def test_forked_processes(self):
        """
        Processes that were forked from this one give identities of their own.
        """
        with ProcessPoolExecutor(
            2, mp_context=multiprocessing.get_context("fork")
        ) as pool:
            done = fan_out(
                CHAT, [partial(add_text, str(n)) for n in range(6)], executor=pool
            )

        assert ["Go!", *"012345"] == texts(done.state)
        assert 70 == tokens(done.state)
