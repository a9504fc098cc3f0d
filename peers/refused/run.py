"""Running a script with a driver: whether its conversation is refused for good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from peers.refused.drivers import Driver, Tool
from peers.refused.scripts import (
    ENDING,
    Act,
    Script,
    ScriptedAnswer,
    ScriptedTurn,
)
from peers.refused.server import ScriptedServer

# In seconds: more than any turn takes.
_PATIENCE = 20.0


@dataclass(frozen=True)
class Outcome:
    """
    What became of a conversation.

    Attributes:
        is_refused: Whether no turn of the ending got an answer.

        why: What the last turn raised.

        rules: The rules by which the last request was refused, if it was.
    """

    is_refused: bool
    why: str = ""
    rules: tuple[str, ...] = ()


async def run_script(
    make: Callable[[ScriptedServer, Tool], Driver],
    script: Script,
    server: ScriptedServer,
    level: str,
) -> Outcome:
    """What becomes of the conversation of *script* with the agent that *make* makes."""
    tool = Tool()
    server.begin(level, getattr(make, "without", ()))
    run = _Run(make(server, tool), tool, server, streamed=script.streamed)
    try:
        for turn in script.turns:
            await run.play(turn)

        errors = []
        for turn in ENDING:
            refused = len(server.refusals)
            error = await run.play(turn)
            if error is None:
                return Outcome(is_refused=False)

            errors.append(error)

        rules: tuple[str, ...] = ()
        if len(server.refusals) > refused:
            rules = tuple(each.rule.name for each in server.refusals[-1])

        return Outcome(
            rules=rules,
            is_refused=True,
            why=f"{type(errors[-1]).__name__}: {errors[-1]}",
        )
    finally:
        await run.end()


class _Run:
    def __init__(
        self,
        driver: Driver,
        tool: Tool,
        server: ScriptedServer,
        *,
        streamed: bool,
    ) -> None:
        self._driver, self._tool = driver, tool
        self._server = server
        self._streamed = streamed
        # The turns of programs that have ended; they are never waited for.
        self._left: list[asyncio.Task[Any]] = []

    async def play(self, turn: ScriptedTurn) -> BaseException | None:
        """One turn with its act; what it raised, if it was not stopped."""
        act = turn.act
        hold_at = {Act.STOPS_ANSWER: 1, Act.STOPS_AFTER_TOOL: 2}.get(act, 0)
        self._server.expect(turn.replies, hold_at=hold_at)
        self._tool.expect(_waits_at(turn))
        task = asyncio.create_task(self._driver.say(turn.text, streamed=self._streamed))
        if hold_at:
            held = asyncio.to_thread(self._server.wait_held, _PATIENCE)
            if await self._wait_for(task, held):
                await self._stop(task)

            self._server.release()
        elif act is not Act.WAITS and await self._wait_for(
            task, self._tool.running.wait()
        ):
            await self._act(act, task)

        if task in self._left:
            return None

        return await _outcome(task)

    async def _act(self, act: Act, task: asyncio.Task[Any]) -> None:
        if act is Act.WRITES:
            more = self._driver.say("Make it two.", streamed=self._streamed)
            with suppress(Exception):
                await more

            self._tool.released.set()
        elif act in {Act.STOPS_TOOL, Act.STOPS_LAST_TOOL}:
            await self._stop(task)
        else:
            self._left.append(task)
            self._driver.restart()
            if act is Act.RESUMES:
                self._tool.expect(0)
                with suppress(Exception):
                    await self._driver.resume(streamed=self._streamed)

    # Whether *event* came before the end of the turn.
    async def _wait_for(self, task: asyncio.Task[Any], event: Awaitable[Any]) -> bool:
        waiting = asyncio.ensure_future(event)
        await asyncio.wait(
            [task, waiting], timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        is_done = waiting.done()
        if not is_done:
            self._server.release()
            waiting.cancel()

        return is_done and not task.done()

    async def _stop(self, task: asyncio.Task[Any]) -> None:
        task.cancel()
        # Some frameworks read a stream to its end before they are cancelled.
        await asyncio.sleep(0)
        self._server.release()
        with suppress(asyncio.CancelledError, Exception):
            await task

    async def end(self) -> None:
        """Stop what is left."""
        self._server.release()
        for task in self._left:
            await self._stop(task)

        self._driver.close()


async def _outcome(task: asyncio.Task[Any]) -> BaseException | None:
    try:
        await asyncio.wait_for(task, _PATIENCE)
    except asyncio.CancelledError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever a framework raises
        return error

    return None


def _waits_at(turn: ScriptedTurn) -> int:
    if turn.act in {Act.WAITS, Act.STOPS_ANSWER, Act.STOPS_AFTER_TOOL}:
        return 0

    if turn.act not in {Act.STOPS_LAST_TOOL, Act.CRASHES_LATE}:
        return 1

    first = turn.replies[0]
    return len(first.calls) if isinstance(first, ScriptedAnswer) else 1
