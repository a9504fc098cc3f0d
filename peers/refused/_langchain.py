"""LangChain's `create_agent`, with a checkpointer of LangGraph's or of ours."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from peers.refused.drivers import MODEL, Tool, http_client
from peers.refused.server import ScriptedServer


class LangChainAgent:
    """One thread of an agent."""

    wire = "openai_chat"
    has_view = False
    has_our_saver = False
    # It leaves out the status of answers in Responses, which vLLM asks for: there, each
    # second turn is refused, whatever happened.
    without = ("answer_of_no_type",)

    def __init__(self, server: ScriptedServer, tool: Tool) -> None:
        from langgraph.checkpoint.memory import InMemorySaver

        self._server, self._tool = server, tool
        self._thread: Any = {"configurable": {"thread_id": "1"}}
        self._saver: Any = InMemorySaver()
        self._held = ExitStack()
        if self.has_our_saver:
            from conversation_state.hosts.langgraph import ConversationStateSaver

            saver = ConversationStateSaver.from_url("memory:")
            self._saver = self._held.enter_context(saver)

        self.restart()

    def restart(self) -> None:
        from langchain.agents import create_agent

        middleware: Any = []
        if self.has_view:
            from conversation_state.hosts.langchain import trimming_middleware
            from conversation_state.trimming import Trimmer

            middleware = [trimming_middleware(Trimmer(None))]

        self._agent: Any = create_agent(
            self._make_model(),
            [self._tool.book],
            middleware=middleware,
            checkpointer=self._saver,
        )

    def _make_model(self) -> Any:
        import httpx2
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(
            model=MODEL,
            base_url=self._server.url,
            api_key="none",
            max_retries=0,
            http_async_client=http_client(httpx2),
            use_responses_api=self.wire == "openai_responses",
        )

    async def say(self, text: str, *, streamed: bool) -> None:
        await self._run(
            {"messages": [{"role": "user", "content": text}]}, streamed=streamed
        )

    async def resume(self, *, streamed: bool) -> None:
        await self._run(None, streamed=streamed)

    async def _run(self, given: Any, *, streamed: bool) -> None:
        if not streamed:
            await self._agent.ainvoke(given, self._thread)
            return

        events = self._agent.astream(given, self._thread, stream_mode="messages")
        async for _ in events:
            pass

    def close(self) -> None:
        self._held.close()
