"""
What `fan_out` promises with every executor whose workers are other processes.

A test file of an executor subclasses `ExecutorContract` and has a fixture `executor`.
"""

import os
from functools import partial
from typing import Any

import pytest

from conversation_state import Aggregator, UserMessage, parallel
from conversation_state._wording import with_article
from conversation_state.errors import BranchError, FanOutError
from conversation_state.testing import laws
from tests import branches
from tests.branches import USAGE, Refused, add_text, add_text_slowly

__all__ = ["CHAT", "ExecutorContract", "fan_out", "texts", "tokens"]

# Much here is handed over wrongly; what is right is for typing_tests to add_text.
fan_out: Any = parallel.fan_out

CHAT = Aggregator.new().add_user_prompt("Go!").add_usage(USAGE)


def texts(state: Any) -> list[str]:
    """The texts of the messages of *state*."""
    return [message.text for message in state]


def tokens(state: Any) -> int:
    """The tokens of all that is in the ledger of *state*."""
    total: int = state.total_usage.total_tokens
    return total


class ExecutorContract:
    """The promises."""

    def test_joins_in_the_order_of_the_steps(self, executor):
        """
        What came from other processes follows in the order of the steps, with
        identities of its own; the bill is the sum.
        """
        steps = [partial(add_text_slowly, (3 - n) * 0.05, str(n)) for n in range(4)]
        done = fan_out(CHAT, [*steps, branches.process], executor=executor)
        *answers, process = texts(done.state)

        assert ["Go!", "0", "1", "2", "3"] == answers
        assert int(process) != os.getpid()
        assert 60 == tokens(done.state)
        assert 6 == len({entry.id for entry in done.state.entries})
        assert CHAT.id == done.state.id
        assert done.state.join(done.state.fork().turn) is done.state

    def test_each_fan_out_has_its_state(self, executor):
        """What a step gets is the state of its fan-out, not that of one before."""
        steps = [branches.count_messages] * 4
        for more in ([], ["one"], ["two", "three"]):
            chat = CHAT.extend(map(UserMessage, more))
            done = fan_out(chat, steps, executor=executor)

            assert ["Go!", *more, *[str(1 + len(more))] * 4] == texts(done.state)

    def test_is_a_fold(self, executor):
        """It equals running the steps one by one and joining them."""
        steps = [partial(add_text, text) for text in "abc"]
        laws.fan_out_is_a_fold(CHAT.fork(), steps, executor=executor)

    def test_failures(self, executor):
        """
        The error and the step's saved progress come back together; the error has the
        place where it was raised.
        """
        steps = [partial(add_text, "a"), branches.refused, partial(add_text, "c")]
        done = fan_out(CHAT, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "a", "half of it", "c"] == texts(done.state)
        assert 40 == tokens(done.state)
        assert isinstance(failure.error, Refused)
        assert "too many requests" == str(failure.error)
        assert "where step 1 (refused) ran" in failure.error.__notes__[0]
        assert "branches.py" in failure.error.__notes__[0]

    def test_a_fan_out_that_failed_there(self, executor):
        """
        The error of a fan-out in a step comes back whole, and what its
        branches had is kept.
        """
        steps = [branches.fan_out_and_fail]
        done = fan_out(CHAT, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert isinstance(failure.error, FanOutError)
        assert [0] == [inner.step for inner in failure.error.failures]
        assert ["Go!", "half of it", "inner"] == texts(failure.error.state)
        assert ["Go!", "half of it", "inner"] == texts(done.state)

    @pytest.mark.parametrize("kind", [branches.Unpicklable, branches.Unreadable])
    def test_an_error_that_cannot_travel(self, executor, kind):
        """
        An error that can't be pickled, or not be unpickled, comes back as one that
        describes it, with the step's saved progress.
        """
        steps = [partial(branches.fail, kind), partial(add_text, "b")]
        done = fan_out(CHAT, steps, executor=executor, on_error="keep")
        (failure,) = done.failures

        assert ["Go!", "half of it", "b"] == texts(done.state)
        assert isinstance(failure.error, BranchError)
        raised = with_article(kind.__name__)
        assert f"raised {raised} that can't be pickled" in str(failure.error)
        assert "branches.py" in str(failure.error)
