"""The contract of stores: an honest backend keeps it, and no fault does."""

import pytest

from conversation_state.errors import StoreError
from tests.store.contract_runs import run_promises
from tests.store.file_backend import FAULTS, FileBackend
from tests.store.promises.contract import StoreContract


class TestHonest(StoreContract):
    """A small backend with a file, written as a stranger would."""

    def backend(self, folder):
        return FileBackend(folder)


# It draws many states, and no fault here is one of states.
SLOW = ["any state comes back"]


class TestFaults:
    @pytest.mark.parametrize("fault", FAULTS)
    def test_caught(self, fault):
        """
        A backend with one fault breaks the contract: with what is found, not with an
        error of its own.
        """
        errors = (error for _, error in run_promises(FAULTS[fault], without=SLOW))
        broken = next(filter(None, errors), None)

        assert isinstance(broken, (AssertionError, StoreError, pytest.fail.Exception))

    def test_refuses_both(self):
        """Of two blocks that write at one time, one has to come through."""
        results = run_promises(FAULTS["refuses both"], without=SLOW)

        assert "writes as if alone" in [name for name, error in results if error]
