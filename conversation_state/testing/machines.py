"""
States, timelines and message trees, compared step by step with plain models.

For Hypothesis: ``TestStates = AggregatorMachine.TestCase`` runs it. A store or
an executor overrides `AggregatorMachine.carried`, to run it on values that were
saved or sent.

What lives here: laws over many steps. What does not: laws over one
(`laws`).
"""

from conversation_state.testing._state_machine import AggregatorMachine
from conversation_state.testing._state_model import StateModel
from conversation_state.testing._timeline_machine import TimelineMachine
from conversation_state.testing._tree_machine import MessageTreeMachine

__all__ = ["AggregatorMachine", "MessageTreeMachine", "StateModel", "TimelineMachine"]
