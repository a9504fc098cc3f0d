"""
What tests do beside passing or failing, counted: interrupts and damage.

`make proof` adds it up; no other command needs it.
"""

from collections import Counter

__all__ = ["COUNTS"]

COUNTS: Counter[str] = Counter()
