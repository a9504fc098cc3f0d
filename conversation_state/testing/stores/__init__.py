"""
The contract of a store backend, as tests for authors of backends.

A class of tests for pytest (`StoreContract`), a machine for Hypothesis
(`StoreMachine`), and a backend that records every call, or fails at any of
them (`RecordingBackend`). Needs pytest.

Promises about stores are here; laws of values are in `laws`.
"""

# ruff: noqa: E402 - what is imported below is registered above

import sys

import pytest

# Registered before the modules are imported, so that a failing assertion shows both
# sides in other projects, too.
for _name in (
    *("_branches", "_deletion", "_failures", "_heads", "_machine", "_recording"),
    *("_names", "_notes", "_reopening", "_saving", "_stepping", "_tables"),
    "_timelines",
):
    if f"{__name__}.{_name}" not in sys.modules:
        pytest.register_assert_rewrite(f"{__name__}.{_name}")

from conversation_state.testing.stores._branches import BranchPromises
from conversation_state.testing.stores._deletion import DeletionPromises
from conversation_state.testing.stores._failures import FailurePromises
from conversation_state.testing.stores._fixtures import (
    Call,
    InjectedError,
    RecordingBackend,
    failing,
)
from conversation_state.testing.stores._heads import HeadPromises
from conversation_state.testing.stores._machine import StoreMachine
from conversation_state.testing.stores._names import NamePromises
from conversation_state.testing.stores._notes import NotePromises
from conversation_state.testing.stores._recording import RecordPromises
from conversation_state.testing.stores._reopening import ReopeningPromises
from conversation_state.testing.stores._saving import SavingPromises
from conversation_state.testing.stores._stepping import StepPromises
from conversation_state.testing.stores._tables import TablePromises
from conversation_state.testing.stores._timelines import TimelinePromises

__all__ = [
    "Call",
    "InjectedError",
    "RecordingBackend",
    "StoreContract",
    "StoreMachine",
    "failing",
]


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
