"""The contract of stores: an honest backend keeps it, and no fault does."""

import pytest

from conversation_state.errors import StoreError
from conversation_state.testing.contracts import check_backend, run_promises
from conversation_state.testing.stores import StoreContract
from tests.store.file_backend import FAULTS, FileBackend


class TestHonest(StoreContract):
    """A small backend with a file, written as a stranger would."""

    def backend(self, folder):
        return FileBackend(folder)


# It draws many states, and no fault here is one of states.
SLOW = ["any state comes back"]


class TestFaults:
    def test_honest(self):
        """The honest backend keeps all promises in one call, too."""
        check_backend(FileBackend, without=SLOW)

    @pytest.mark.parametrize("fault", FAULTS)
    def test_caught(self, fault):
        """
        A backend with one fault breaks the contract: with what is found, not with an
        error of its own.
        """
        results = run_promises(FAULTS[fault], without=SLOW)
        broken = next((each for each in results if each.is_broken), None)

        assert broken is not None
        assert isinstance(
            broken.error, (AssertionError, StoreError, pytest.fail.Exception)
        )

    def test_refuses_both(self):
        """Of two blocks that write at one time, one has to come through."""
        tests = [name for name in dir(StoreContract) if name.startswith("test_")]
        names = {name.removeprefix("test_").replace("_", " ") for name in tests}
        law = "writes as if alone"
        results = run_promises(FAULTS["refuses both"], without=names - {law})

        assert [law] == [each.law for each in results if each.is_broken]
