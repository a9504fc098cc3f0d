"""
What every store promises, with any backend.
"""

from __future__ import annotations

from conversation_state.testing.stores._branches import BranchPromises
from conversation_state.testing.stores._deletion import DeletionPromises
from conversation_state.testing.stores._failures import FailurePromises
from conversation_state.testing.stores._heads import HeadPromises
from conversation_state.testing.stores._names import NamePromises
from conversation_state.testing.stores._notes import NotePromises
from conversation_state.testing.stores._recording import RecordPromises
from conversation_state.testing.stores._reopening import ReopeningPromises
from conversation_state.testing.stores._saving import SavingPromises
from conversation_state.testing.stores._stepping import StepPromises
from conversation_state.testing.stores._tables import TablePromises
from conversation_state.testing.stores._timelines import TimelinePromises

__all__ = ["StoreContract"]


class StoreContract(
    SavingPromises,
    HeadPromises,
    NamePromises,
    BranchPromises,
    NotePromises,
    StepPromises,
    TimelinePromises,
    DeletionPromises,
    RecordPromises,
    FailurePromises,
    TablePromises,
    ReopeningPromises,
):
    """
    The promises of a store, to be subclassed for a backend.

    A subclass says how to make the backend (`backend`), and whether what it
    keeps is still there when it is opened again (`is_kept`); pytest runs what
    it inherits. One whose backends see the rows of each other may override
    `other`, which gives further stores.
    """
