"""The store in memory keeps every promise of a store."""

from hypothesis import settings

from conversation_state.store.backends.memory import MemoryBackend
from tests.store.machine import StoreMachine
from tests.store.promises.contract import StorePromises


class TestMemory(StorePromises):
    is_kept = False

    def backend(self, folder):
        return MemoryBackend()


TestMachine = StoreMachine.TestCase
# Half again as many steps as elsewhere: each rule has to follow some others.
TestMachine.settings = settings(stateful_step_count=60)
