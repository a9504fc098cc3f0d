"""Running an agent through a script: as a function, an async one, or a command."""

from __future__ import annotations

import asyncio
import inspect
import shlex
import signal
import subprocess
import threading
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

import attrs

from conversation_state._locks import RLock
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.testing.contracts._agent_scripts import (
    AgentTurn,
    CutStream,
    Script,
    is_fault,
)
from conversation_state.testing.provider import (
    ErrorReply,
    ReceivedRequest,
    StrictProvider,
)
from conversation_state.usage import Usage

Agent: TypeAlias = Callable[[str, str, str], Any] | Sequence[str] | str

# The last turn of each script: whatever happened before, this is answered.
LAST_PROMPT = "Are you still there?"
_SECOND = "And one thing more."
# Seconds that an agent with a lock on its threads keeps a second run waiting.
_LOCKED_S = 0.3


@attrs.define
class Answered:
    """A request that was answered, and what with."""

    request: ReceivedRequest
    answer: Any
    turn: int


@attrs.define
class TurnOutcome:
    """What came of a turn: a reply, or an error; neither if the agent was stopped."""

    prompt: str
    reply: Any = None
    error: BaseException | None = None
    is_stopped: bool = False
    # Seconds ran out: it never ended.
    is_endless: bool = False
    # How many requests came after the stop of a turn that ended as if there was none.
    requests_after_stop: int = 0

    def note_error(self, error: BaseException) -> None:
        """Keep the *error* with which the agent failed."""
        self.error = error
        # Errors of urllib are responses, and hold a connection.
        close = getattr(error, "close", None)
        if callable(close):
            close()


@attrs.define
class ScriptOutcome:
    """What came of a script."""

    script: Script
    outcomes: list[TurnOutcome] = attrs.field(factory=list)
    answered: list[Answered] = attrs.field(factory=list)
    requests: list[ReceivedRequest] = attrs.field(factory=list)
    # The number of requests of each turn, refused ones included.
    counts: list[int] = attrs.field(factory=list)


class Director:
    """Gives the answers of the turn that runs, and says when the first one was sent."""

    def __init__(self, max_rounds: int) -> None:
        self.max_rounds = max_rounds
        self.answered: list[Answered] = []
        self.turn = -1
        self.count = 0
        self.is_over = False
        self.was_asked = threading.Event()
        self.on_first: Callable[[], None] | None = None
        self._answers: list[Any] = []
        self._lock = RLock()
        self._number = 0

    def begin(self, turn: AgentTurn) -> None:
        """Give the answers of *turn* from now on."""
        with self._lock:
            self.turn += 1
            self.count = 0
            self._answers = list(turn.answers)
            self.was_asked.clear()
            self.on_first = None

    def answer(self, request: ReceivedRequest) -> Any:
        """The answer to *request*."""
        with self._lock:
            self.count += 1
            answer: Any
            if self.count > self.max_rounds:
                # So that an agent that never ends does.
                answer = ErrorReply(400, message="The turn has too many rounds.")
            elif self._answers:
                answer = self._answers.pop(0)
            else:
                self._number += 1
                usage = Usage(50, self._number)
                meta = ResponseMeta("stop", usage, id=f"end-{self._number}")
                answer = AssistantMessage(
                    f"That is all, {self._number}.", response=meta
                )

            self.answered.append(Answered(request, answer, self.turn))
            first, self.on_first = self.on_first, None

        if first is not None:
            first()

        self.was_asked.set()
        if isinstance(answer, CutStream):
            return answer.write(request.wire, is_stream=request.is_stream)

        return answer


class FunctionAgent:
    """
    A function: it can't be stopped or killed. A second prompt comes while the model
    answers.
    """

    acts: tuple[str, ...] = ("ask", "write")
    moments: Sequence[int] = (1,)  # always the first request

    def __init__(self, run: Callable[[str, str, str], Any], timeout_s: float) -> None:
        self._run, self._timeout_s = run, timeout_s

    def turn(
        self, director: Director, url: str, turn: AgentTurn, thread: str
    ) -> list[TurnOutcome]:
        """What came of *turn*, and of the prompt that was written meanwhile."""
        others: list[tuple[threading.Thread, TurnOutcome]] = []

        def write() -> None:
            started = self._start_worker(url, _SECOND, thread)
            started[0].join(_LOCKED_S)
            others.append(started)

        if turn.act == "write":
            director.on_first = write

        worker, outcome = self._start_worker(url, turn.prompt, thread)
        self._join_worker(worker, outcome)
        for other, second in others:
            self._join_worker(other, second)

        return [outcome, *[second for _, second in others]]

    def _join_worker(self, worker: threading.Thread, outcome: TurnOutcome) -> None:
        worker.join(self._timeout_s)
        outcome.is_endless = worker.is_alive()

    def _start_worker(
        self, url: str, prompt: str, thread: str
    ) -> tuple[threading.Thread, TurnOutcome]:
        outcome = TurnOutcome(prompt)

        def run() -> None:
            try:
                outcome.reply = self._run(url, prompt, thread)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - judged
                outcome.note_error(error)

        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        return worker, outcome


class AsyncAgent:
    """
    An async function: it is stopped by cancelling its task, at any suspension, where a
    second prompt may come, too.
    """

    acts: tuple[str, ...] = ("ask", "stop", "write")
    moments: Sequence[int] = range(1, 25)

    def __init__(
        self, run: Callable[[str, str, str], Awaitable[Any]], timeout_s: float
    ) -> None:
        self._run, self._timeout_s = run, timeout_s

    def turn(
        self, director: Director, url: str, turn: AgentTurn, thread: str
    ) -> list[TurnOutcome]:
        """What came of *turn*, and of the prompt that was written meanwhile."""
        return asyncio.run(self._run_turn(director, url, turn, thread))

    async def _run_turn(
        self, director: Director, url: str, turn: AgentTurn, thread: str
    ) -> list[TurnOutcome]:
        outcome = TurnOutcome(turn.prompt)
        outcomes = [outcome]
        left = turn.at
        before_stop = 0
        others: list[asyncio.Task[Any]] = []

        async def write() -> None:
            second = TurnOutcome(_SECOND)
            outcomes.append(second)
            running = self._drive_agent(second, url, thread, lambda: None)
            others.append(asyncio.create_task(running))
            await asyncio.wait(others, timeout=_LOCKED_S)

        def step() -> Awaitable[None] | None:
            nonlocal left, before_stop
            if turn.act == "ask":
                return None

            left -= 1
            if left:
                return None

            if turn.act == "write":
                return write()

            outcome.is_stopped = True
            before_stop = director.count
            task.cancel()
            return None

        task = asyncio.create_task(self._drive_agent(outcome, url, thread, step))
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(task), self._timeout_s)

        if not task.done():
            outcome.is_endless = True
            task.cancel()
        elif outcome.is_stopped and outcome.reply is not None:
            outcome.requests_after_stop = director.count - before_stop

        for other in others:
            await asyncio.wait([other], timeout=self._timeout_s)
            other.cancel()

        return outcomes

    async def _drive_agent(
        self,
        outcome: TurnOutcome,
        url: str,
        thread: str,
        step: Callable[[], Awaitable[None] | None],
    ) -> None:
        coroutine: Any = self._run(url, outcome.prompt, thread)
        if not inspect.iscoroutine(coroutine):
            coroutine = _wait_for(coroutine)

        try:
            outcome.reply = await _step_through(coroutine, step)
        except asyncio.CancelledError:
            outcome.is_stopped = True
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - judged
            outcome.note_error(error)


async def _wait_for(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


@types.coroutine
def _step_through(
    coroutine: Coroutine[Any, Any, Any], step: Callable[[], Awaitable[None] | None]
) -> Generator[Any, Any, Any]:
    """
    The result of *coroutine*; *step* is called at each of its suspensions, and what it
    returns is awaited before the coroutine goes on.
    """
    resume: Callable[[Any], Any] = coroutine.send
    value: Any = None
    while True:
        try:
            future = resume(value)
        except StopIteration as end:
            return end.value

        try:
            pause = step()
            if pause is not None:
                yield from pause.__await__()

            value = yield future
        except BaseException as error:  # noqa: BLE001 - the coroutine's own
            resume, value = coroutine.throw, error
        else:
            resume = coroutine.send


class CommandAgent:
    """
    A command: it is stopped by an interrupt (SIGINT), and killed (SIGKILL). Its last
    arguments are the base URL, the prompt and the thread, unless they are named:
    ``{base_url}``, ``{prompt}``, ``{thread}``.
    """

    acts: tuple[str, ...] = ("ask", "stop", "write", "crash")
    # Fewer, because each turn starts a program.
    moments: Sequence[int] = (1, 2, 4, 8, 16, 24)

    def __init__(self, command: Sequence[str] | str, timeout_s: float) -> None:
        self._command = shlex.split(command) if isinstance(command, str) else [*command]
        self._timeout_s = timeout_s

    def turn(
        self, director: Director, url: str, turn: AgentTurn, thread: str
    ) -> list[TurnOutcome]:
        """What came of *turn*, and of the prompt that was written meanwhile."""
        process, outcome = self._start_worker(url, turn.prompt, thread)
        outcomes = [outcome]
        before_stop = 0
        if turn.act != "ask" and director.was_asked.wait(self._timeout_s):
            time.sleep(turn.at / 100)
            if turn.act == "write":
                other, second = self._start_worker(url, _SECOND, thread)
                outcomes.append(second)
                self._join_worker(other, second)
            else:
                number = signal.SIGINT if turn.act == "stop" else signal.SIGKILL
                outcome.is_stopped = process.poll() is None
                before_stop = director.count
                process.send_signal(number)

        self._join_worker(process, outcome)
        if outcome.is_stopped and process.returncode == 0:
            outcome.requests_after_stop = director.count - before_stop

        return outcomes

    def _start_worker(
        self, url: str, prompt: str, thread: str
    ) -> tuple[subprocess.Popen[str], TurnOutcome]:
        values = {"base_url": url, "prompt": prompt, "thread": thread}
        names = ["{%s}" % name for name in values]  # noqa: UP031 - braces
        command = [*self._command]
        for name, value in zip(names, values.values(), strict=True):
            command = [each.replace(name, value) for each in command]

        if not any(name in each for each in self._command for name in names):
            command += values.values()

        # A shell lets the programs that it starts in the background ignore interrupts.
        is_deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        process = subprocess.Popen(  # noqa: S603 - the user's own
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed if is_deaf else None,  # noqa: PLW1509 - rare
        )
        return process, TurnOutcome(prompt)

    def _join_worker(
        self, process: subprocess.Popen[str], outcome: TurnOutcome
    ) -> None:
        try:
            out, err = process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            outcome.is_endless = True
            return

        if process.returncode and not outcome.is_stopped:
            outcome.error = RuntimeError(
                f"the command ended with {process.returncode}: {err[-500:].strip()}"
            )
        elif not outcome.is_stopped:
            outcome.reply = out.strip()


AgentForm: TypeAlias = FunctionAgent | AsyncAgent | CommandAgent


def make_form(run: Agent, timeout_s: float) -> AgentForm:
    """
    How *run* is run.

    Raises:
        TypeError: If it is neither a function nor a command.
    """
    if isinstance(run, (str, list, tuple)):
        return CommandAgent(run, timeout_s)

    if not callable(run):
        raise TypeError(
            f"run: expected a function (base_url, prompt, thread) or a command, "
            f"got {run!r}"
        )

    method = getattr(run, "__call__", run)  # noqa: B004 - it may be async
    if inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(method):
        return AsyncAgent(run, timeout_s)

    return FunctionAgent(run, timeout_s)


def play(
    form: AgentForm, script: Script, *, wire: str, level: Any, max_rounds: int
) -> ScriptOutcome:
    """What comes of *script*, and of one more prompt after it."""
    outcome = ScriptOutcome(script)
    director = Director(max_rounds)
    with StrictProvider(level=level, default=director.answer) as provider:
        url = provider.url(wire)
        outcome.outcomes, outcome.counts = _take_turns(
            form, script, director, provider, url
        )
        outcome.requests = list(provider.requests)

    outcome.answered = director.answered
    return outcome


def _take_turns(
    form: AgentForm,
    script: Script,
    director: Director,
    provider: StrictProvider,
    url: str,
) -> tuple[list[TurnOutcome], list[int]]:
    """What comes of each turn and of the last prompt, and how many requests did."""
    outcomes: list[TurnOutcome] = []
    counts: list[int] = []
    thread = f"thread-{uuid4().hex[:12]}"
    for turn in (*script, AgentTurn(LAST_PROMPT)):
        known = len(provider.requests)
        director.begin(turn)
        found = form.turn(director, url, turn, thread)
        outcomes += found
        counts.append(len(provider.requests) - known)
        if any(each.is_endless for each in found):
            break

    return outcomes, counts


def is_settled(answered: Answered) -> bool:
    """Whether the agent got the whole answer."""
    return not is_fault(answered.answer) and not answered.request.is_cancelled
