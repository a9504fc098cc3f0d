"""
What a drawing of a difference is made of: its rows, the excerpts of long texts with
the words that differ, and the sentences about it as a whole.

For `pages`, which draws differences as HTML; the public face of a difference is
`Diff`.
"""

from conversation_state.diffing._divergence import (
    APART,
    BOTH,
    CHANGED,
    SAME,
    Row,
    align_rows,
)
from conversation_state.diffing._excerpts import (
    MarkedText,
    mark_differences,
    pair_blocks,
)
from conversation_state.diffing._summary import (
    collect_call_names,
    describe_common,
    describe_ledger,
    describe_rest,
    elsewhere_note,
    list_differing_fields,
    write_heading,
)

__all__ = [
    "APART",
    "BOTH",
    "CHANGED",
    "SAME",
    "MarkedText",
    "Row",
    "align_rows",
    "collect_call_names",
    "describe_common",
    "describe_ledger",
    "describe_rest",
    "elsewhere_note",
    "list_differing_fields",
    "mark_differences",
    "pair_blocks",
    "write_heading",
]
