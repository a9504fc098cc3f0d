"""
The contract of a store backend, as tests for authors of backends.

A class of tests for pytest (`StoreContract`), a machine for Hypothesis
(`StoreMachine`), and a backend that records every call, or fails at any of
them (`RecordingBackend`). Needs pytest.

Promises about stores are here; laws of values are in `laws`.
"""

import sys

import pytest

# Before they are imported: so that an assertion which fails shows both sides, in
# the projects of others too.
for _name in (
    *("_branches", "_deletion", "_failures", "_heads", "_machine", "_recording"),
    *("_names", "_notes", "_reopening", "_saving", "_stepping", "_tables"),
    "_timelines",
):
    if f"{__name__}.{_name}" not in sys.modules:
        pytest.register_assert_rewrite(f"{__name__}.{_name}")

from conversation_state.testing.stores._contract import StoreContract  # noqa: E402 - see above
from conversation_state.testing.stores._machine import StoreMachine  # noqa: E402 - see above
from conversation_state.testing.stores._recorded_calls import (  # noqa: E402 - see above
    Call,
    InjectedError,
    RecordingBackend,
    failing,
)

__all__ = [
    "Call",
    "InjectedError",
    "RecordingBackend",
    "StoreContract",
    "StoreMachine",
    "failing",
]
