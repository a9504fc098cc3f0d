"""
For whoever writes a backend of a store: what it has to promise, as tests.

A class of tests for pytest (`StoreContract`), a machine for Hypothesis
(`StoreMachine`), and a backend that tells of every call, or fails at any of
them (`Watched`). Needs pytest.

What lives here: promises about stores. What does not: laws of values
(`laws`).
"""

from conversation_state.testing.stores._contract import StoreContract
from conversation_state.testing.stores._machine import StoreMachine
from conversation_state.testing.stores._watched import (
    Call,
    InjectedError,
    Watched,
    failing,
)

__all__ = [
    "Call",
    "InjectedError",
    "StoreContract",
    "StoreMachine",
    "Watched",
    "failing",
]
