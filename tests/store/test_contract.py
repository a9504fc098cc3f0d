"""
The contract of stores: an honest backend keeps it, and no fault does.
"""

import pytest

from conversation_state.errors import StoreError
from conversation_state.testing.contracts import LawResult, check_backend, run_promises
from conversation_state.testing.stores import StoreContract
from tests.store.file_backend import FAULTS, FileBackend


class TestHonest(StoreContract):
    """
    A small backend with a file, written as a stranger would.
    """

    def backend(self, folder):
        return FileBackend(folder)


# They draw many states, and no fault here is one of states.
SLOW = ["any state comes back", "any timeline comes back"]

# Faults that only a promise finds which many others are tried before.
LATE = {
    "forgets notes": "on a name",
    "heads are first revisions": "heads",
    "heads of all names": "heads",
    "heads without a limit": "heads",
    "never changes a moment": "every step is kept",
}
PROMISES = {
    name.removeprefix("test_").replace("_", " ")
    for name in dir(StoreContract)
    if name.startswith("test_")
}


def find_broken(fault: str) -> LawResult | None:
    """
    The first promise that a backend does not keep, or the one it is known not to.
    """
    late = LATE.get(fault)
    results = run_promises(
        FAULTS[fault], without=SLOW if late is None else PROMISES - {late}
    )
    return next((each for each in results if each.is_broken), None)


class TestFaults:
    def test_honest(self):
        """
        The honest backend keeps all promises in one call, too.
        """
        check_backend(FileBackend, without=SLOW)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_caught(self, fault):
        """
        A backend with one fault breaks the contract: with what is found, not with an
        error of its own.
        """
        broken = find_broken(fault)

        assert broken is not None
        assert isinstance(
            broken.error, (AssertionError, StoreError, pytest.fail.Exception)
        )
