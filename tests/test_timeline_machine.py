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


def find_newest(timeline):
    return timeline.moments[-1].number


def goto_from_end(self, moment):
    if isinstance(moment, int) and moment < 0:
        moment = self.moments[moment % len(self.moments)]

    return GOTO(self, moment)


def goto_next(self, moment):
    return self if moment == find_newest(self) + 1 else GOTO(self, moment)


def amend_not(ages):
    def amend(self, moment, state, label=None, *, note=None):
        if moment in [each.number for each in self.moments[ages]]:
            return self

        return AMEND(self, moment, state, label, note=note)

    return amend


AMEND, GOTO = Timeline.amend, Timeline.goto
FAULTS = {
    "found from the end, as in a list": (
        "goto",
        goto_from_end,
        r"-\d+ is not there, and was gone to",
    ),
    "not there yet": ("goto", goto_next, r"\d+ is not there, and was gone to"),
    "the newest but one": ("amend", amend_not(slice(-2, -1)), "not {"),
    "older ones": ("amend", amend_not(slice(-2)), "not {"),
}


class TestFaults:
    """The machine notices a fault in a few runs."""

    @pytest.mark.parametrize("moment", FAULTS)
    def test_of_moments(self, monkeypatch, moment):
        """Timelines that take one moment for another, or leave it as it is."""
        verb, fault, message = FAULTS[moment]
        monkeypatch.setattr(Timeline, verb, fault)
        few = settings(
            max_examples=400,  # of which five to ten of a hundred find one
            database=None,
            derandomize=True,  # a fault is found among the same runs in each run
            phases=[Phase.generate],
        )
        with pytest.raises(AssertionError, match=message):
            run_state_machine_as_test(TimelineMachine, settings=few)

    @pytest.mark.parametrize(
        ("verb", "message"),
        [("undo", "undid what is not there"), ("redo", "redid what is not there")],
    )
    def test_at_the_ends(self, monkeypatch, verb, message):
        """Undo and redo give the same object where there is nothing to do."""
        monkeypatch.setattr(Timeline, verb, lambda self, *_: decode(encode(self)))
        with pytest.raises(AssertionError, match=message):
            TimelineMachine().begin(0, "", None, is_filtered=False)
