"""
The store in memory keeps every promise of a store.
"""

from hypothesis import settings

from conversation_state.store._memory import MemoryBackend
from conversation_state.testing.stores import StoreContract, StoreMachine


class TestMemory(StoreContract):
    is_kept = False

    def backend(self, folder):
        return MemoryBackend()


TestMachine = StoreMachine.TestCase
TestMachine.settings = settings(stateful_step_count=40)
