"""Branches in other processes, which share nothing and may die."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import pytest

from conversation_state.errors import BranchError
from tests import branches
from tests.branches import add_text, add_text_slowly
from tests.executor_contract import CHAT, ExecutorContract, fan_out, texts, tokens


def new_pool():
    """Two processes that began with nothing of ours."""
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def executor():
    """One for all tests that let it live."""
    with new_pool() as shared:
        yield shared


class TestProcesses(ExecutorContract):
    """`fan_out` in processes."""

    def test_turns_know_what_they_have_nothing_of(self, executor):
        """
        A turn that came back is joined without a look at the past, as one that
        never left.
        """
        turns: list[Any] = []
        fan_out(CHAT, [partial(add_text, "a")], executor=executor, on_turn=turns.append)

        assert CHAT.entries is turns[0].base_log()
        assert CHAT.ledger is turns[0].base_ledger()

    @pytest.mark.parametrize("kind", [branches.Unchangeable, branches.Unsayable])
    def test_an_error_that_is_hard_to_handle(self, executor, kind):
        """
        An error that takes no notes, or can't be shown, comes back itself, and affects
        no other branch.
        """
        steps = [partial(branches.fail, kind), partial(add_text, "b")]
        done = fan_out(CHAT, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "half of it", "b"] == texts(done.state)
        assert isinstance(failure.error, kind)
        assert (3, "words") == failure.error.args

    def test_a_step_that_cannot_travel(self, executor):
        """A step that can't be pickled is named, with what to do; others run."""
        steps = [partial(add_text, "a"), lambda state: state]
        done = fan_out(CHAT, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "a"] == texts(done.state)
        assert isinstance(failure.error, BranchError)
        assert "step 1 (" in str(failure.error)
        assert "<lambda>" in str(failure.error)
        assert "top level" in str(failure.error)

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
        """Processes that were forked from this one give identities of their own."""
        with ProcessPoolExecutor(
            2, mp_context=multiprocessing.get_context("fork")
        ) as pool:
            done = fan_out(
                CHAT, [partial(add_text, str(n)) for n in range(6)], executor=pool
            )

        assert ["Go!", *"012345"] == texts(done.state)
        assert 70 == tokens(done.state)
