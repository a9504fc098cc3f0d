"""eino's messages: what all adapters promise, and what comes back of what."""

from typing import ClassVar

from conversation_state.adapters import eino
from tests.adapters.contract import FormatContract
from tests.adapters.eino import (
    CONVERSATIONS,
    MESSAGES,
)
from tests.adapters.helpers import normalise


class TestContract(FormatContract):
    """What all adapters promise."""

    adapter: ClassVar = eino
    documents: ClassVar = CONVERSATIONS
    responses: ClassVar = MESSAGES

    def normalise(self, message):
        """More than other providers get: metadata are written here, too."""
        return normalise(message, "eino")
