"""
Order in time: an undo tree of states, itself a value.

A `Timeline` keeps every state that was committed to it and knows which of
them is the present one. Going back loses nothing: what is committed after an
undo becomes a branch beside the future that was given up.

What lives here: going back and forth between states, whatever they are. What
does not: states of conversations (`aggregator`), what two of them differ in
(`diffing`), one changing reference that a whole program shares (`cells`),
bytes (`codec`).
"""

from conversation_state.timeline._moments import Moment, Moments
from conversation_state.timeline._timeline import Timeline

__all__ = ["Moment", "Moments", "Timeline"]
