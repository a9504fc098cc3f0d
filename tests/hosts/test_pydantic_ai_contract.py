"""What all hosts promise, of Pydantic AI's conversations."""

import asyncio
from typing import Any, ClassVar

from pydantic_ai.conversation import Conversation
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)

from conversation_state.hosts import pydantic_ai
from tests.adapters.pydantic_ai import NEW_YEAR, asks, histories, says, settled
from tests.hosts.contract import HostContract


class PydanticAICase:
    """How conversations are used: loaded, gone on with, and saved."""

    adapter = pydantic_ai
    extra = "pydantic-ai"
    packages = ("pydantic", "pydantic_ai")
    uses = (
        "adapter.StoreBackend.from_url('memory:')",
        "adapter.TrimmedRequests(len)",
        "adapter.dump([UserMessage('Hi!')])",
    )
    # What can't be written as JSON is a value's fault.
    errors = (UserError, ValueError)
    conversations = histories.map(settled)

    def host(self, store, _key):
        return pydantic_ai.StoreBackend(store)

    def from_url(self, url, _key):
        return pydantic_ai.StoreBackend.from_url(url)

    def add(self, host, key, messages):
        asyncio.run(self.aadd(host, key, messages))

    async def aadd(self, host, key, messages):
        if messages:
            found = await host.load(key) or Conversation(conversation_id=key)
            found.messages += messages
            await host.save(found)

    def read(self, host, key):
        return asyncio.run(self.aread(host, key))

    async def aread(self, host, key) -> list[Any]:
        found = await host.load(key)
        return [] if found is None else list(found.messages)

    def clear(self, host, key):
        asyncio.run(self.aclear(host, key))

    async def aclear(self, host, key):
        await host.delete(key)

    def name(self, key):
        return pydantic_ai.StoreBackend.name_of(key)

    def turn(self, number):
        call = ToolCallPart("look_up", {"n": number}, f"call_{number}")
        found = ToolReturnPart(
            "look_up", f"Found {number}", f"call_{number}", timestamp=NEW_YEAR
        )
        return [
            asks(f"Question {number}"),
            ModelResponse(parts=[call], timestamp=NEW_YEAR),
            ModelRequest(parts=[found]),
            says(f"Answer {number}"),
        ]

    def user_message(self, text):
        return asks(text)


class TestContract(HostContract):
    """What all hosts promise."""

    case: ClassVar = PydanticAICase()
