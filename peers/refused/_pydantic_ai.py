"""Pydantic AI, with a history that the program keeps."""

from __future__ import annotations

from typing import Any

from peers.refused.drivers import MODEL, Tool, openai_client
from peers.refused.server import ScriptedServer


class PydanticAIAgent:
    """One history of an agent. Of a run that fails, what it has captured is kept."""

    wire = "openai_chat"
    has_view = False

    def __init__(self, server: ScriptedServer, tool: Tool) -> None:
        self._server, self._tool = server, tool
        self._history: list[Any] = []
        self.restart()

    def restart(self) -> None:
        from pydantic_ai import Agent

        capabilities: Any = []
        if self.has_view:
            from conversation_state.hosts.pydantic_ai import TrimmedRequests
            from conversation_state.trimming import Trimmer

            capabilities = [TrimmedRequests(Trimmer(None))]

        self._agent: Any = Agent(
            self._make_model(), tools=[self._tool.book], capabilities=capabilities
        )

    def _make_model(self) -> Any:
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        provider = OpenAIProvider(openai_client=openai_client(self._server))
        kind: Any = OpenAIChatModel
        if self.wire == "openai_responses":
            kind = OpenAIResponsesModel

        return kind(MODEL, provider=provider)

    async def say(self, text: str | None, *, streamed: bool) -> None:
        from pydantic_ai import capture_run_messages

        with capture_run_messages() as messages:
            try:
                history = list(self._history)
                if streamed:
                    async with self._agent.run_stream_events(
                        text, message_history=history
                    ) as events:
                        async for _ in events:
                            pass
                else:
                    await self._agent.run(text, message_history=history)
            finally:
                if messages:
                    self._history = list(messages)

    async def resume(self, *, streamed: bool) -> None:
        await self.say("Go on.", streamed=streamed)

    def close(self) -> None:
        pass
