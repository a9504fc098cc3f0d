"""The OpenAI Agents SDK, with a session of its own or of ours."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

from peers.refused.drivers import MODEL, Tool, openai_client
from peers.refused.server import ScriptedServer


class AgentsSDKAgent:
    """One session of an agent."""

    wire = "openai_responses"
    has_view = False

    def __init__(self, server: ScriptedServer, tool: Tool) -> None:
        from agents import SQLiteSession

        self._server, self._tool = server, tool
        self._held = ExitStack()
        if self.has_view:
            from conversation_state.hosts.agents import StoreSession
            from conversation_state.trimming import Trimmer

            session = StoreSession.from_url("memory:", "1", view=Trimmer(None))
            self._session: Any = self._held.enter_context(session)
        else:
            self._session = SQLiteSession("1")
            self._held.callback(self._session.close)

        self.restart()

    def restart(self) -> None:
        from agents import (
            Agent,
            OpenAIChatCompletionsModel,
            OpenAIResponsesModel,
            RunConfig,
            function_tool,
        )

        client = openai_client(self._server)
        kind: Any = OpenAIResponsesModel
        if self.wire == "openai_chat":
            kind = OpenAIChatCompletionsModel

        tools: Any = [function_tool(self._tool.book, name_override="book")]
        self._agent = Agent("clerk", model=kind(MODEL, client), tools=tools)
        self._config = RunConfig(tracing_disabled=True)

    async def say(self, text: str, *, streamed: bool) -> None:
        from agents import Runner

        options: Any = {"session": self._session, "run_config": self._config}
        if not streamed:
            await Runner.run(self._agent, text, **options)
            return

        result = Runner.run_streamed(self._agent, text, **options)
        try:
            async for _ in result.stream_events():
                pass
        except asyncio.CancelledError:
            result.cancel()
            raise

    async def resume(self, *, streamed: bool) -> None:
        await self.say("Go on.", streamed=streamed)

    def close(self) -> None:
        self._held.close()
