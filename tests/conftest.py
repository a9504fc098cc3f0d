"""
What all tests share: how Hypothesis looks for examples, and where real
conversations are.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

CHECKOUT = Path(__file__).resolve().parent.parent

# No test asserts a time, so none fails for being slow on a busy machine.
# Hypothesis' own `ci` has no deadline either, and is taken where a CI server is
# seen; the others are for asking: --hypothesis-profile=thorough.
settings.register_profile("default", deadline=None)
settings.register_profile("quick", max_examples=10, deadline=None)
# What `make test` takes on all interpreters but one: they differ in what they do
# with a value, not in which values there are.
settings.register_profile(
    "brief", max_examples=25, deadline=None, derandomize="CI" in os.environ
)
settings.register_profile("thorough", max_examples=2_000, deadline=None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """
    The folder of recorded conversations, which is no part of the repository.

    Beside the checkout, or where `CONVERSATION_STATE_DATA` says; tests that
    need it are skipped where there is none.
    """
    beside = CHECKOUT.parent / "shared" / "data"
    path = Path(os.environ.get("CONVERSATION_STATE_DATA") or beside)
    if not path.is_dir():
        pytest.skip(
            f"no recorded conversations at {path}; "
            "CONVERSATION_STATE_DATA can say where they are"
        )

    return path
