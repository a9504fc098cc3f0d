"""
All verbs of states, in any order and direction, beside plain lists.
"""

from hypothesis import settings

from conversation_state import decode, encode
from conversation_state.testing.machines import AggregatorMachine


class DecodedMachine(AggregatorMachine):
    """
    The same, where what comes from far away was encoded and decoded.
    """

    def carried(self, value):
        return decode(encode(value))


TestPickled = AggregatorMachine.TestCase
TestPickled.settings = settings(stateful_step_count=50)

TestDecoded = DecodedMachine.TestCase
TestDecoded.settings = settings(stateful_step_count=50)
