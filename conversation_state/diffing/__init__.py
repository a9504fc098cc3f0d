"""
Diffing: what two states have in common, and what each has alone.

Entries are told apart by their identity, never by their text: a `Diff` says
where two pasts part, what each side has since, and which of it says the same
all the same.

What lives here: the comparison, and its rendering as text, Markdown and HTML.
What does not: bringing two states together (`aggregator`), the order of states
in time (`timeline`), and showing a single conversation (`rendering`).
"""

from conversation_state.diffing._diff import Diff, diff
from conversation_state.diffing._parting import Pair, Parting

__all__ = ["Diff", "Pair", "Parting", "diff"]
