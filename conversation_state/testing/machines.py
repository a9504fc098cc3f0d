"""
States and timelines, compared step by step with plain models.

For Hypothesis: ``TestStates = AggregatorMachine.TestCase`` runs it. A store or
an executor overrides `AggregatorMachine.carried`, to run it on values that were
saved or sent.

What lives here: laws over many steps. What does not: laws over one
(`laws`).
"""

from conversation_state.testing._state_machine import AggregatorMachine
from conversation_state.testing._timeline_machine import TimelineMachine

__all__ = ["AggregatorMachine", "TimelineMachine"]
