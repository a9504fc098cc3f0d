"""A store in memory, and one over a small backend, keep the promises of a store."""

from hypothesis import settings

from conversation_state.store.backends.memory import MemoryBackend
from tests.store.file_backend import FileBackend
from tests.store.machine import StoreMachine
from tests.store.promises.contract import StoreContract, StorePromises


class TestMemory(StorePromises):
    is_kept = False

    def backend(self, folder):
        return MemoryBackend()


class TestFileBackend(StoreContract):
    """A small backend with a file, written as a stranger would."""

    def backend(self, folder):
        return FileBackend(folder)


TestMachine = StoreMachine.TestCase
# Half again as many steps as elsewhere: each rule has to follow some others.
TestMachine.settings = settings(stateful_step_count=60)
