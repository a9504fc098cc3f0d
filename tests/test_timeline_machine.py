"""All verbs of timelines, in any order and direction, beside a plain tree."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from conversation_state.codec import decode, encode
from conversation_state.testing.machines import TimelineMachine
from conversation_state.timeline import Timeline


class DecodedMachine(TimelineMachine):
    """
    The same, where what comes from far away was encoded and decoded, which
    ends groups.
    """

    carries_groups = False

    def carried(self, timeline):
        return decode(encode(timeline), expect=type(timeline))


TestPickled = TimelineMachine.TestCase
TestPickled.settings = settings(stateful_step_count=50)

TestDecoded = DecodedMachine.TestCase
TestDecoded.settings = settings(stateful_step_count=50)


def test_negative_numbers(monkeypatch):
    """
    Timelines whose moments are also found from the end, as those of a list, are found
    out in a few runs.
    """
    goto = Timeline.goto

    def goto_from_end(self, moment):
        is_negative = isinstance(moment, int) and moment < 0
        last = len(self.moments)
        return goto(self, self.moments[moment % last] if is_negative else moment)

    monkeypatch.setattr(Timeline, "goto", goto_from_end)
    few = settings(max_examples=20, database=None, phases=[Phase.generate])
    with pytest.raises(AssertionError, match=r"-\d+ is not there, and was gone to"):
        run_state_machine_as_test(TimelineMachine, settings=few)
