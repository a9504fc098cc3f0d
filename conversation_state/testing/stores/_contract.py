"""
What every store promises, whatever keeps its rows.
"""

from __future__ import annotations

from conversation_state.testing.stores._failures import Failures
from conversation_state.testing.stores._heads import Heads
from conversation_state.testing.stores._keeping import Keeping
from conversation_state.testing.stores._letting_go import LettingGo
from conversation_state.testing.stores._recording import Recording
from conversation_state.testing.stores._tables import Tables

__all__ = ["StoreContract"]


class StoreContract(Keeping, Heads, LettingGo, Recording, Failures, Tables):
    """
    The promises of a store, to be subclassed beside a backend.

    A subclass says how to make the backend (`backend`), and whether what it
    keeps is still there when it is opened again (`is_kept`); pytest runs what
    it inherits. One whose backends see the rows of each other may override
    `other`, which gives further stores.
    """
