"""All verbs of states, in any order and direction, beside plain lists."""

from datetime import UTC

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    decode,
    encode,
)
from conversation_state.testing.machines import AggregatorMachine
from tests.states import rebuild_state


class DecodedMachine(AggregatorMachine):
    """The same, where what comes from far away was encoded and decoded."""

    def carried(self, value):
        return decode(encode(value))


TestPickled = AggregatorMachine.TestCase
TestPickled.settings = settings(stateful_step_count=50)

TestDecoded = DecodedMachine.TestCase
TestDecoded.settings = settings(stateful_step_count=50)


class UtcMachine(AggregatorMachine):
    """
    The same where times lose their offset on the way: an equal time is other JSON.
    """

    def carried(self, value):
        if not isinstance(value, Aggregator):
            return value

        ledger = [
            entry._replace(at=entry.at.astimezone(UTC))
            if entry.at and 1 < entry.at.year < 9999
            else entry
            for entry in value.ledger
        ]
        return rebuild_state(value, ledger=ledger)


def test_finds_other_bytes():
    """A machine whose copies are equal, but are encoded as other bytes, fails."""
    few = settings(
        max_examples=500,
        stateful_step_count=60,
        database=None,
        phases=[Phase.generate],
    )
    with pytest.raises(AssertionError, match="changed on the way"):
        run_state_machine_as_test(UtcMachine, settings=few)


# Faults of verbs, by name: the verb, what it does instead, and the step that has to
# notice it, with its arguments.
CALL = AssistantMessage(tool_calls=[ToolCall("c", "clock")])
STATE = Aggregator.new(
    messages=[UserMessage("a"), CALL, ToolMessage("b", tool_call_id="c")]
)
FORK = STATE.fork().add_user_prompt("d")
ROLLBACK = Aggregator.rollback
LIES = {
    "ordered union": ("join", lambda self, *_: self, "join", (STATE, FORK, FORK)),
    "a past in common": ("is_related_to", lambda *_: False, "compare", (STATE, FORK)),
    "before an entry": ("before", lambda self, _: self, "go_back", (STATE, 4, False)),
    "other messages": (
        "rollback",
        lambda self, to: ROLLBACK(self, 0 if isinstance(to, str) else to),
        "go_back",
        (STATE, 8, True),
    ),
    "nothing was replaced": (
        "replace_message",
        lambda *_: FORK,
        "replace",
        (STATE, 7, STATE[-1]),
    ),
}


class TestFaults:
    """The machine notices a fault in the step that meets it."""

    @pytest.mark.parametrize("message", LIES)
    def test_of_verbs(self, monkeypatch, message):
        """Each step compares what its verb does."""
        verb, lie, step, arguments = LIES[message]
        monkeypatch.setattr(Aggregator, verb, lie)
        with pytest.raises(AssertionError, match=message):
            getattr(AggregatorMachine(), step)(*arguments)

    def test_ids_used_again(self, monkeypatch):
        """Two steps may not make states or entries of one identity."""
        empty = STATE.fork()
        monkeypatch.setattr(Aggregator, "fork", lambda *_, at: empty)
        machine = AggregatorMachine()
        machine.fork(STATE, None)
        with pytest.raises(AssertionError, match="handed out twice"):
            machine.fork(STATE, None)

    def test_changes_in_place(self, monkeypatch):
        """A state that changes after the step that made it is noticed at the end."""
        machine = AggregatorMachine()
        state = machine.carry(STATE)
        monkeypatch.setattr(state, "_log", FORK._log)
        with pytest.raises(AssertionError, match="was changed"):
            machine.teardown()
