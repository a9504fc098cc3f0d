"""
The loop of the README, on OpenAI's client: a state of ours, saved after each step.
"""

from __future__ import annotations

from typing import Any

import attrs

from peers.refused.drivers import MODEL, Tool, openai_client
from peers.refused.server import ScriptedServer


class ReadmeLoop:
    """One conversation. Of an answer that is stopped, what has arrived is kept."""

    wire = "openai_chat"
    has_view = False

    def __init__(self, server: ScriptedServer, tool: Tool) -> None:
        from conversation_state import open_store

        self._server, self._tool = server, tool
        self._store = open_store("memory:")
        self.restart()

    def restart(self) -> None:
        self._client = openai_client(self._server)

    def _save(self, state: Any) -> Any:
        return self._store.update("chat", lambda saved: saved.join(state), start=state)

    async def say(self, text: str, *, streamed: bool) -> None:
        from conversation_state import Aggregator

        state = self._store.update(
            "chat", lambda saved: saved.add_user_prompt(text), start=Aggregator.new()
        )
        await self._run(state, streamed=streamed)

    async def resume(self, *, streamed: bool) -> None:
        await self._run(self._store.load("chat"), streamed=streamed)

    async def _run(self, state: Any, *, streamed: bool) -> None:
        while True:
            for each in state.pending_calls:
                state = self._save(state.add_tool_response(await self._call(each)))

            if state[-1].role == "assistant":
                return

            state = self._save(await self._ask(state, streamed=streamed))

    # As `tool_calls.call`, for a function that is awaited.
    async def _call(self, asked: Any) -> Any:
        from conversation_state import Envelope
        from conversation_state.tool_calls import call

        trains: list[int] = []

        def book(train: int) -> None:
            trains.append(train)

        checked = call(book, asked)
        if not trains:
            return checked

        key = {"tool_call_id": asked.id, "tool_name": asked.name}
        try:
            return Envelope.new().tool_response(await self._tool.book(*trains), **key)
        except ConnectionError as error:
            return Envelope.new().tool_error(error, **key)

    async def _ask(self, state: Any, *, streamed: bool) -> Any:
        from conversation_state import ToolInfo, trim
        from conversation_state.adapters import openai_chat

        messages = trim(state, None).messages if self.has_view else state
        request = openai_chat.dump(messages).payload
        tools = [ToolInfo.from_function(self._tool.book)]
        request |= openai_chat.dump_tools(tools).payload
        create = self._client.chat.completions.create
        if streamed:
            return await self._read(
                state, await create(model=MODEL, stream=True, **request)
            )

        answer = await create(model=MODEL, **request)
        return state.add_response(*openai_chat.load(answer.to_dict(mode="json")))

    # The state with the answer, or with what had arrived when it was stopped.
    async def _read(self, state: Any, events: Any) -> Any:
        from conversation_state import Accumulator, ResponseMeta
        from conversation_state.adapters import openai_chat
        from conversation_state.streams import Stream

        async def documents() -> Any:
            async for event in events:
                yield event.to_dict(mode="json")

        received, source = Accumulator(), Stream.of(documents())
        try:
            async for chunk in openai_chat.aload_chunks(source):
                received = received.add(chunk)
        except BaseException:
            await source.aabort()
            if received.chunks:
                message: Any = received.message
                meta = attrs.evolve(
                    message.response or ResponseMeta(), finish_reason="interrupted"
                )
                self._save(state.add_response(message.replace(response=meta)))

            raise

        return state.add_response(received.message)

    def close(self) -> None:
        self._store.close()
