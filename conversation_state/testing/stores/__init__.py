"""
The contract of a store backend, as tests for authors of backends.

A class of tests for pytest (`StoreContract`), a machine for Hypothesis
(`StoreMachine`), and a backend that records every call, or fails at any of
them (`RecordingBackend`). Needs pytest.

What a backend promises is here; what `Store` itself promises over any backend is in
the tests of this library, and laws of values are in `laws`.
"""

# ruff: noqa: E402 - what is imported below is registered above

import sys

import pytest

# Registered before the modules are imported, so that a failing assertion shows both
# sides in other projects, too.
for _name in ("_fixtures", "_machine", "_rows", "_states"):
    if f"{__name__}.{_name}" not in sys.modules:
        pytest.register_assert_rewrite(f"{__name__}.{_name}")

from conversation_state.testing.stores._fixtures import (
    Call,
    InjectedError,
    RecordingBackend,
    failing,
)
from conversation_state.testing.stores._machine import StoreMachine
from conversation_state.testing.stores._rows import RowPromises
from conversation_state.testing.stores._states import StatePromises

__all__ = [
    "Call",
    "InjectedError",
    "RecordingBackend",
    "StoreContract",
    "StoreMachine",
    "failing",
]


class StoreContract(StatePromises, RowPromises):
    """
    The promises of a backend, to be subclassed for one.

    A subclass says how to make the backend (`backend`), and whether what it
    keeps is still there when it is opened again (`is_kept`); pytest runs what
    it inherits. One that keeps its rows elsewhere than in files of its folder overrides
    `files`, and one whose backends see the rows of each other may override
    `other`, which gives further stores.
    """
