"""
The difference between two states: what both have, and what only one has.

Entries are compared by their identity, never by their text: a `Diff` has the
point where two pasts diverge, what each side has since then, and which of
that has the same content all the same.
"""

from conversation_state.diffing._diff import Diff, Divergence, Pair, diff

__all__ = ["Diff", "Divergence", "Pair", "diff"]
