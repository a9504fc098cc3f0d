"""
For whoever writes a backend of a store: what it has to promise, as tests.

A class of tests for pytest (`StoreContract`), a machine for Hypothesis
(`StoreMachine`), and a backend that tells of every call, or fails at any of
them (`Watched`). Needs pytest.

What lives here: promises about stores. What does not: laws of values
(`laws`).
"""

import sys

import pytest

# Before they are imported: so that an assertion which fails shows both sides, in
# the projects of others too.
for _name in ("_failures", "_heads", "_keeping", "_letting_go", "_machine", "_tables"):
    if f"{__name__}.{_name}" not in sys.modules:
        pytest.register_assert_rewrite(f"{__name__}.{_name}")

from conversation_state.testing.stores._contract import StoreContract  # noqa: E402 - as said
from conversation_state.testing.stores._machine import StoreMachine  # noqa: E402 - as said
from conversation_state.testing.stores._watched import (  # noqa: E402 - as said
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
