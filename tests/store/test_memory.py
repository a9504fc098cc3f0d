"""
The store in memory keeps every promise of a store.
"""

from hypothesis import settings

from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.testing.stores import StoreContract, StoreMachine


class TestMemory(StoreContract):
    is_kept = False

    def backend(self, folder):
        return MemoryBackend()


TestMachine = StoreMachine.TestCase
# Half of what Hypothesis does by default, and as many times more as a profile
# asks for.
TestMachine.settings = settings(
    stateful_step_count=40, max_examples=settings().max_examples // 2
)
