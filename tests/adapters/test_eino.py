"""
eino's messages: what all adapters promise, and what comes back of what.
"""

from typing import ClassVar

from conversation_state.adapters import eino
from tests.adapters.contract import AdapterContract
from tests.adapters.eino import (
    CONVERSATIONS,
    MESSAGES,
)
from tests.adapters.kept import said


class TestContract(AdapterContract):
    """
    What all adapters promise.
    """

    adapter: ClassVar = eino
    documents: ClassVar = CONVERSATIONS
    responses: ClassVar = MESSAGES

    def said(self, message):
        """
        More than other providers are told: metadata are said here, too.
        """
        return said(message, "eino")
