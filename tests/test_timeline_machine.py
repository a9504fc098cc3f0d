"""
All verbs of timelines, in any order and direction, beside a plain tree.
"""

from hypothesis import settings

from conversation_state.codec import decode, encode
from conversation_state.testing.machines import TimelineMachine


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
