"""
Cells: the current state of a program, in which no update is lost.

A `Cell` holds the current value of something that a program's threads and
tasks share; the values themselves never change. What lives here: reading,
swapping and watching it. What does not: past values (`timeline`), and running
many branches at once (`parallel`).
"""

from conversation_state.cells._cell import Cell
from conversation_state.cells._watch import Watch

__all__ = ["Cell", "Watch"]
