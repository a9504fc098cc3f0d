"""What all hosts promise, of sessions of the OpenAI Agents SDK."""

import asyncio
from typing import Any, ClassVar

from conversation_state.hosts import agents
from tests.adapters.openai_responses import call, message, result, thought
from tests.hosts.contract import HostContract
from tests.hosts.test_agents_items import ITEMS


class AgentsCase:
    """How a session is used: what a run adds, a turn at a time."""

    adapter = agents
    extra = "agents"
    packages = ("agents", "openai")
    uses = (
        "adapter.StoreSession.from_url('memory:', 'a', session_settings={'limit': 5})",
    )
    # What can't be the name of a session is the argument's fault.
    errors = (ValueError,)
    conversations = ITEMS

    def host(self, store, key):
        return agents.StoreSession(store, key)

    def from_url(self, url, key):
        return agents.StoreSession.from_url(url, key)

    def add(self, host, key, messages):
        asyncio.run(self.aadd(host, key, messages))

    async def aadd(self, host, key, messages):
        await host.add_items(messages)

    def read(self, host, key):
        return asyncio.run(self.aread(host, key))

    async def aread(self, host, key) -> list[Any]:
        items: list[Any] = await host.get_items()
        return items

    def clear(self, host, key):
        asyncio.run(self.aclear(host, key))

    async def aclear(self, host, key):
        await host.clear_session()

    def name(self, key):
        return key

    def turn(self, number):
        return [
            self.user_message(f"Question {number}"),
            thought(f"Thought {number}", id=f"rs_{number}", encrypted_content="AAAA"),
            call("look_up", call_id=f"call_{number}", id=f"fc_{number}"),
            result(f"Found {number}", call_id=f"call_{number}"),
            message(f"Answer {number}", id=f"msg_{number}"),
        ]

    def user_message(self, text):
        return {"role": "user", "content": text}


class TestContract(HostContract):
    """What all hosts promise."""

    case: ClassVar = AgentsCase()
