"""What drives an agent: turns, and what happens in the middle of them."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from peers.refused.server import TIME_OUT_STATUS, ScriptedServer

MODEL = "strict-1"


class Tool:
    """
    The tool ``book``, which can be let wait.

    Attributes:
        running: Set while it waits.
    """

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.expect(0)

    def expect(self, waits_at: int) -> None:
        """Let the run of number *waits_at*, counted from 1, wait."""
        self._waits_at = waits_at
        self.running.clear()
        self.released = asyncio.Event()

    async def book(self, train: int) -> str:
        """Books a seat."""
        self._waits_at -= 1
        if self._waits_at == 0:
            self.running.set()
            await self.released.wait()

        if not train:
            raise ConnectionError("the office does not answer")

        return f"Booked on {train}."


class Driver(Protocol):
    """An agent of a framework, with one conversation."""

    def __init__(self, server: ScriptedServer, tool: Tool) -> None: ...

    async def say(self, text: str, *, streamed: bool) -> None:
        """One turn. Whatever the framework raises is raised."""

    async def resume(self, *, streamed: bool) -> None:
        """Go on with a turn that ended in the middle, as the framework offers it."""

    def restart(self) -> None:
        """Make the agent anew, on what was saved."""

    def close(self) -> None:
        """Release what it holds."""


def http_client(library: Any) -> Any:
    """
    A client of httpx, or of its successor, that turns the server's status into a
    time-out.
    """

    class Transport(library.AsyncHTTPTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            response = await super().handle_async_request(request)
            if response.status_code == TIME_OUT_STATUS:
                await response.aclose()
                raise library.ReadTimeout("timed out", request=request)

            return response

    return library.AsyncClient(transport=Transport(), timeout=30)


def openai_client(server: ScriptedServer) -> Any:
    """OpenAI's client, without retries."""
    import httpx2
    from openai import AsyncOpenAI

    return AsyncOpenAI(
        base_url=server.url,
        api_key="none",
        max_retries=0,
        http_client=http_client(httpx2),
    )
