"""
Timelines: an undo tree of states, itself a value.

A `Timeline` has every state that was committed to it, one of which is the
present one. Going back loses nothing: a commit after an undo starts a branch
next to the moments that were undone.

What lives here: going back and forth between states of any type. What does
not: states of conversations (`aggregator`), the difference between two of them
(`diffing`), one mutable reference that a whole program shares (`cells`), JSON
(`codec`).
"""

from conversation_state.timeline._moments import Moment, Moments
from conversation_state.timeline._timeline import Timeline

__all__ = ["Moment", "Moments", "Timeline"]
