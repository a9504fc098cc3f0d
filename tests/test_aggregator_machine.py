"""All verbs of states, in any order and direction, beside plain lists."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import settings

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ToolCall,
    ToolMessage,
    Usage,
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

    def test_other_bytes(self, monkeypatch):
        """A copy that is equal, but is encoded as other bytes, changed on the way."""
        at = datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=2)))
        state = STATE.add_usage(Usage(1), at=at)
        [entry] = state.ledger
        moved = [entry._replace(at=at.astimezone(UTC))]
        copy = rebuild_state(state, ledger=moved)
        machine = AggregatorMachine()
        monkeypatch.setattr(machine, "carried", lambda _: copy)
        with pytest.raises(AssertionError, match="changed on the way"):
            machine.carry(state)

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
