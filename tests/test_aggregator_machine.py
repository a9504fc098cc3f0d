"""All verbs of states, in any order and direction, beside plain lists."""

from datetime import UTC

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from conversation_state import Aggregator, decode, encode
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
