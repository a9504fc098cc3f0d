"""LangChain's message histories in a store."""

from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from conversation_state.adapters import langchain
from tests.adapters.hosts.contract import HostContract
from tests.adapters.langchain import LANGCHAIN_MESSAGES

History: Any = langchain.StoreChatMessageHistory


class LangChainCase:
    """Histories, each for one session."""

    adapter = langchain
    extra = "langchain"
    packages = ("langchain_core",)
    uses = (
        "adapter.StoreChatMessageHistory",
        "adapter.dump([UserMessage('hi')])",
        "adapter.load([])",
        "adapter.trimmed(['hi'], None)",
    )
    errors = (ValueError,)
    conversations = st.lists(LANGCHAIN_MESSAGES, max_size=4)

    def host(self, store, key):
        return History(store, key)

    def from_url(self, url, key):
        return History.from_url(url, key)

    def add(self, host, key, messages):
        host.add_messages(messages)

    async def aadd(self, host, key, messages):
        await host.aadd_messages(messages)

    def read(self, host, key):
        return host.messages

    async def aread(self, host, key):
        return await host.aget_messages()

    def clear(self, host, key):
        host.clear()

    async def aclear(self, host, key):
        await host.aclear()

    def name(self, key):
        return key

    def turn(self, number):
        call = {"id": f"c{number}", "name": "clock", "args": {"zone": f"z{number}"}}
        fields = {"finish_reason": "stop", "model_name": "m", "headers": {"a": number}}
        return [
            HumanMessage(f"question {number}", id=f"h{number}"),
            AIMessage("", tool_calls=[call], additional_kwargs={"refusal": None}),
            ToolMessage(
                f"result {number}",
                tool_call_id=f"c{number}",
                name="clock",
                artifact={"number": number},
            ),
            AIMessage(f"answer {number}", id=f"a{number}", response_metadata=fields),
        ]

    def user_message(self, text):
        return HumanMessage(text)


class TestLangChainHost(HostContract):
    """What every host promises."""

    case = LangChainCase()
