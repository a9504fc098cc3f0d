"""
Branches: one step and the fork it runs on, here or in another process.

What lives here is what runs where the step runs. What does not: starting
branches and waiting for them (`_settling`, `_fan_out`).
"""

from __future__ import annotations

import pickle
import traceback
from _thread import allocate_lock
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, ContextVar
from inspect import isawaitable, iscoroutine
from typing import Any, NamedTuple

from conversation_state._identity import new_entry_id
from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator, Turn
from conversation_state.errors import BranchError

__all__ = [
    "Arrived",
    "Branch",
    "Outcome",
    "Past",
    "Sent",
    "keep",
    "note",
    "run",
    "running",
    "since",
]


def since(fork: Aggregator, state: Aggregator) -> Turn:
    """
    What *state* has and *fork* has not, by identity.

    Costs what both said since they parted.
    """
    return Turn(
        fork._origin.number,
        fork._origin.parent,
        _new(state.entries, fork.entries),
        _new(state.ledger, fork.ledger),
        fork,
    )


def _new(log: Log[Any], base: Log[Any]) -> Log[Any]:
    parted = log.common_prefix(base)
    if parted == len(base):
        return log[parted:]

    # Something the fork had is gone, which takes nothing from the rest.
    known = {entry.id for entry in base.iterate(parted)}
    return Log(entry for entry in log.iterate(parted) if entry.id not in known)


class Notes:
    """
    What a running branch has kept so far.

    Attributes:
        fork: What it began with.

        inner: For each fan-out that runs in it, what that has so far.
    """

    __slots__ = ("_lock", "_state", "fork", "inner")

    def __init__(self, fork: Aggregator) -> None:
        self.fork = fork
        self.inner: list[Callable[[], Aggregator]] = []
        self._state = fork
        # Threads of the step's own may keep something at the same moment.
        self._lock = allocate_lock()

    def add(self, state: Aggregator) -> None:
        """
        Keep all that *state* has, if it is one of this conversation.
        """
        if state._origin.root == self.fork._origin.root:
            with self._lock:
                self._state = self._state.join(state)

    @property
    def turn(self) -> Turn:
        """
        What was kept, without the past.
        """
        for so_far in list(self.inner):
            self.add(so_far())

        return since(self.fork, self._state)


_running: ContextVar[Notes | None] = ContextVar("conversation_state", default=None)


def running() -> Notes | None:
    """
    The notes of the step that runs here; None outside of a fan-out.
    """
    return _running.get()


def keep(state: Aggregator) -> Aggregator:
    """
    *state* itself, noted as what the running step has so far.

    If the step fails or is cancelled, everything it kept, messages and usage,
    is its turn; what was kept once stays kept. Outside of `fan_out`, and with
    a state of another conversation, nothing is noted.

    Some 6 µs in a step, and 0.1 µs outside.

    Raises:
        TypeError:
            If *state* is no `Aggregator`.

    >>> from conversation_state import Usage
    >>> def research(state):
    ...     state = keep(state.add_usage(Usage(800, 200)))
    ...     raise TimeoutError("no answer")
    >>> from conversation_state.parallel import fan_out
    >>> done = fan_out(Aggregator.new(), [research], on_error="keep")
    >>> done.state.total_usage.total_tokens
    1000
    """
    if not isinstance(state, Aggregator):
        raise TypeError(
            f"keep takes the Aggregator a step has so far, got a {type(state).__name__}"
        )

    notes = _running.get()
    if notes is not None:
        notes.add(state)

    return state


class Past:
    """
    What all branches begin with: pickled once, however often it is sent.
    """

    __slots__ = ("_pickled", "state")

    def __init__(self, state: Aggregator) -> None:
        self.state = state
        self._pickled: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pickled is None:
            self._pickled = pickle.dumps(self.state, pickle.HIGHEST_PROTOCOL)

        return _past, (self._pickled,)


def _past(pickled: bytes) -> Past:
    return Past(pickle.loads(pickled))  # noqa: S301 - as trusted as the pickle it is in


class Outcome(NamedTuple):
    """
    What became of a branch.

    Attributes:
        turn: What it added; if it failed, what it had kept.

        error: What it raised; None if it came back with a state.
    """

    turn: Turn
    error: BaseException | None = None


class Branch:
    """
    A step, and the fork it runs on.

    In another process there is a copy that has the step and the past only.

    Attributes:
        number: The step's place among the steps.

        notes: What it has kept so far; None if it has not begun, or not here.

        future: What an executor promised; None if none was asked.

        outcome: What became of it, once settled.

        is_taken_over: Whether who waits for it runs it instead of the executor.
    """

    __slots__ = (
        "_context",
        "_key",
        "_past",
        "future",
        "is_taken_over",
        "name",
        "notes",
        "number",
        "outcome",
        "step",
    )

    def __init__(
        self,
        number: int,
        step: Callable[[Aggregator], Any],
        past: Past,
        context: Context | None,
        key: str = "",
    ) -> None:
        self.number = number
        self.step = step
        self.name = _name_of(step)
        self.notes: Notes | None = None
        self.future: Future[Any] | None = None
        self.outcome: Outcome | None = None
        self.is_taken_over = False
        self._past = past
        self._context = context
        self._key = key or new_entry_id()

    def __reduce__(self) -> tuple[Any, ...]:
        return Branch, (self.number, self.step, self._past, None, self._key)

    def __dask_tokenize__(self) -> str:
        # Dask takes calls with equal arguments for one; two fan-outs are two.
        return self._key

    def run(self) -> Outcome:
        """
        What became of it, run here.
        """
        if self._context is None:
            return self._run()

        return self._context.run(self._run)

    async def arun(
        self, cancelled: Callable[[BaseException], BaseException | None]
    ) -> Outcome:
        """
        What became of it, awaited here.

        What *cancelled* says of an error is a cancellation from outside is
        raised.
        """
        notes = self._begin()
        token = _running.set(notes)
        try:
            returned = await self._awaitable(self.step(notes.fork))
            return Outcome(since(notes.fork, self._checked(returned)))
        except BaseException as error:
            outside = cancelled(error)
            if outside is error:
                raise
            if outside is not None:
                raise outside from error

            return Outcome(notes.turn, _shortened(error))
        finally:
            _running.reset(token)

    def _run(self) -> Outcome:
        notes = self._begin()
        token = _running.set(notes)
        try:
            returned = self.step(notes.fork)
            return Outcome(since(notes.fork, self._checked(returned)))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            return Outcome(notes.turn, _shortened(error))
        finally:
            _running.reset(token)

    def _begin(self) -> Notes:
        notes = self.notes = Notes(self._past.state.fork())
        return notes

    def _awaitable(self, given: Any) -> Awaitable[Any]:
        if isawaitable(given):
            return given

        raise self._refused(
            f"gave a {type(given).__name__} where afan_out awaits; make it an async "
            "function, or run plain ones with executor="
        )

    def _checked(self, returned: Any) -> Aggregator:
        if isinstance(returned, Aggregator):
            past = self._past.state
            if returned._origin.root != past._origin.root:
                raise self._refused(
                    f"returned a state of another conversation ({returned!r}); return "
                    "what grew out of the state it was given"
                )

            return returned

        if returned is None:
            raise self._refused("returned nothing; let it return the state it made")

        if iscoroutine(returned):
            returned.close()
            raise self._refused(
                "is an async function; run it with afan_out, without executor"
            )

        raise self._refused(
            f"returned a {type(returned).__name__}: {returned!r:.80}; let it return "
            "the state it made of the one it was given, not a part or a view of it"
        )

    def _refused(self, problem: str) -> BranchError:
        return BranchError(self.number, self.name, problem)


def _name_of(step: Any) -> str:
    while hasattr(step, "func"):  # a partial
        step = step.func

    name = getattr(step, "__qualname__", None)
    return name if isinstance(name, str) else type(step).__qualname__


def note(error: BaseException, said: str) -> None:
    """
    Add a note to *error*, unless it lets nobody change it.
    """
    with suppress(Exception):
        error.add_note(said)


def _shortened(error: BaseException) -> BaseException:
    # Without our own frame, which would keep the branch alive, and says nothing.
    trace = error.__traceback__
    return error.with_traceback(trace.tb_next if trace else None)


# What an executor is asked to call, and what it sends back. An error is sent as
# bytes beside its turn, lest one that can't be read break everything else.


class Sent:
    """
    An outcome on its way: itself in this process, data to another one.
    """

    __slots__ = ("branch", "outcome")

    def __init__(self, branch: Branch, outcome: Outcome) -> None:
        self.branch = branch
        self.outcome = outcome

    def __reduce__(self) -> tuple[Any, ...]:
        turn, error = self.outcome
        if error is None:
            return _arrived, (turn,)

        try:
            pickled = pickle.dumps(error)
        except Exception:  # noqa: BLE001 - whatever its own code raises
            pickled = b""

        said = "".join(traceback.format_exception(error))
        facts = self.branch.number, self.branch.name, type(error).__name__, said
        return _arrived, (turn, pickled, facts)


def run(branch: Branch) -> Sent:
    """
    What executors call.
    """
    return Sent(branch, branch.run())


class Arrived(NamedTuple):
    """
    An outcome that came from another process.
    """

    outcome: Outcome


def _arrived(
    turn: Turn,
    pickled: bytes = b"",
    facts: tuple[int, str, str, str] | None = None,
) -> Arrived:
    if facts is None:
        return Arrived(Outcome(turn))

    number, name, kind, said = facts
    try:
        error = pickle.loads(pickled)  # noqa: S301 - as trusted as the pickle it is in
        if not isinstance(error, BaseException):
            raise TypeError(error)  # noqa: TRY301 - what a strange __reduce__ gives
    except Exception:  # noqa: BLE001 - whatever its own code raises
        problem = f"raised a {kind} that can't be pickled:\n{said}"
        error = BranchError(number, name, problem)
    else:
        note(error, f"\nwhere step {number} ({name}) ran:\n{said}")

    return Arrived(Outcome(turn, error))
