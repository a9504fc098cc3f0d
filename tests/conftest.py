"""
What all tests share: how Hypothesis looks for examples, and which recorded
conversations there are.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import recorded

# No test asserts a time, so none fails for being slow on a busy machine; and the
# examples are the same in every run, so that one commit has one result. `make
# fuzz` looks for others (the profile `thorough`).
settings.register_profile("default", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("quick", max_examples=10, deadline=None, derandomize=True)
# For the interpreters beside the one that runs everything: they differ in what
# they do with a value, not in which values there are.
settings.register_profile("brief", max_examples=25, deadline=None, derandomize=True)
settings.register_profile(
    "thorough", max_examples=2_000, deadline=None, derandomize=False
)
# Where a CI server is seen, Hypothesis takes this one of its own by default.
settings.register_profile("ci", settings.get_profile("default"))
settings.load_profile("default")


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> Iterator[None]:
    """
    SIGINT raises `KeyboardInterrupt`, as in a program: where tests run on
    several cores, their processes ignore it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", params=["own", "large"])
def recordings(request: pytest.FixtureRequest) -> Path:
    """
    A folder of recorded conversations: our own few, and the large collection.
    """
    if request.param == "own":
        return recorded.OWN

    if not recorded.LARGE.is_dir():
        pytest.skip(
            f"no large collection of recordings at {recorded.LARGE} (the small one was "
            "read); CONVERSATION_STATE_DATA can say where it is"
        )

    return recorded.LARGE
