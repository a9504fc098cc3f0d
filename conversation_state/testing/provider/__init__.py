"""
A provider that refuses what providers refuse.

What lives here: `judge`, which says why a request is refused, and its tables of rules
(`RULES`), each with its source and with who refuses what breaks it. It is an
independent judge: nothing here imports an adapter or another module that knows what
providers ask for, so that both are not wrong together.
"""

from conversation_state.testing.provider._judge import HOSTS, RULES, WIRES, judge
from conversation_state.testing.provider._memory import Memory
from conversation_state.testing.provider._rules import Refusal, Rule

__all__ = ["HOSTS", "RULES", "WIRES", "Memory", "Refusal", "Rule", "judge"]
