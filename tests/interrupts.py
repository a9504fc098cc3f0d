"""
Interrupts at every moment of an operation: what must hold after a Ctrl-C.

Two ways, which find different faults:

- `interrupt_at_each_opcode` raises before each instruction of the operation, one
  in each run of it, until it completes. The same in every run of the tests.
- `interrupt_by_signals` sends real signals at random moments. On Python 3.14
  these arrive at places between two instructions of one statement that the
  first way can't reach.
"""

from __future__ import annotations

import dis
import functools
import gc
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, TypeVar

from tests.counts import COUNTS
from tests.profiles import is_thorough

__all__ = ["interrupt_at_each_opcode", "interrupt_by_signals", "run_in_thread"]

T = TypeVar("T")

# After these the interpreter looks for signals; all others run to their end.
_LOOKS_FOR_SIGNALS = ("CALL", "RESUME", "JUMP_BACKWARD", "SEND")


def interrupt_at_each_opcode(
    operation: Callable[[T], object],
    check: Callable[[T, bool], object],
    *,
    prepare: Callable[[], T],
    modules: Collection[str],
    only_where_signals_arrive: bool = False,
    error: type[BaseException] = KeyboardInterrupt,
    timeout_s: float = 30,
    limit: int = 20_000,
) -> int:
    """
    The number of moments at which *operation* was interrupted.

    A moment is the first time that a run comes to an instruction from one caller:
    in a loop, its first round. In `make fuzz` all rounds are moments.

    For each moment: `prepare()` makes the subject, `operation(subject)` runs
    and is interrupted once, and `check(subject, completed)` asserts what must
    hold; *completed* is true if the operation returned (the last time, and
    where Python itself swallows the interrupt, as in finalizers). All three run
    in one thread of their own, which may take *timeout_s* seconds for a moment:
    use it to detect that something hangs, never to measure.

    Args:
        operation: What is interrupted.

        check: Asserts what must hold afterwards.

        prepare: Makes what both are given.

        modules: Interrupts come in functions of these modules, and of those
            below them: `"conversation_state.streams"`. None come in `__del__`.

        only_where_signals_arrive: Leave out instructions before which the
            interpreter never looks for signals. For code that has to use
            `with lock:`, whose own instructions no signal can come between.

        error: What is raised.

        timeout_s: How long one moment may take in all.

        limit: Interrupt at most so many moments; more are a `RuntimeError`.
    """
    interrupter = _OpcodeInterrupter(
        tuple(modules),
        only_where_signals_arrive=only_where_signals_arrive,
        error=error,
        visits=sys.maxsize if is_thorough() else 1,
    )
    attempts = 0
    moments = 0

    def interrupt_each() -> None:
        nonlocal attempts, moments
        while moments < limit:
            interrupter.arm()
            attempts += 1
            subject = prepare()
            check(subject, interrupter.run(operation, subject))
            del subject
            collect()
            if interrupter.place is not None:
                moments += 1
            elif not interrupter.trace_all_again():
                return

        raise RuntimeError(f"the operation has more than {limit} instructions")

    # A thread for each moment would take longer than most moments do.
    with _collecting_between() as collect:
        run_in_thread(
            interrupt_each,
            timeout_s,
            lambda: f"interrupted {interrupter.describe_place()}",
            count=lambda: attempts,
        )

    assert moments, "no instruction of these modules ran"
    COUNTS["interrupts"] += moments
    return moments


def interrupt_by_signals(
    operation: Callable[[T], object],
    check: Callable[[T, bool], object],
    *,
    prepare: Callable[[], T],
    times: int = 200,
    within_s: float = 0.001,
    seed: int = 0,
    timeout_s: float = 30,
) -> int:
    """
    The number of times, of *times*, that a signal interrupted *operation*.

    Like `interrupt_at_each_opcode`, with a real signal at a random moment of
    the first *within_s* seconds. It is not a fault if the operation completes
    before; one that repeats something quick hits the most places. Runs
    *operation* in this thread, which must be the main one.
    """
    moments = random.Random(seed)
    interrupted = 0
    with _collecting_between() as collect:
        for _ in range(times):
            subject = prepare()
            moment_s = moments.uniform(0, within_s)
            completed = _run_with_alarm(operation, subject, moment_s)
            interrupted += not completed
            COUNTS["signals"] += not completed
            run_in_thread(
                functools.partial(check, subject, completed),
                timeout_s,
                lambda: "interrupted by a signal",
            )
            del subject
            collect()

    return interrupted


@contextmanager
def _collecting_between() -> Iterator[Callable[[], object]]:
    """
    Call what is given between two interrupts: garbage is collected only there.

    The collector runs at another place in each run, and finalizes what an interrupt
    left wherever it runs: inside the constructor of a named tuple, which has no
    builtins, a coroutine that was never awaited can't even be warned about.
    """
    gc.disable()
    try:
        # What is new only: nothing else has come into the older generations.
        yield functools.partial(gc.collect, 1)
    finally:
        gc.enable()
        gc.collect()  # so that nothing of it is finalized in another test


class _OpcodeInterrupter:
    """
    Raises before one instruction of the functions of some modules: in each run the
    first one at which it has not raised yet.

    Calls that a run came through without a raise have nothing new in the next run
    and are not traced there, which is most of the time that tracing takes. Other
    threads may make a run differ from the one before it, so the last run traces
    all calls: see `trace_all_again`.

    Attributes:
        place: The frame's code, its line and the instruction's offset; None if
            it did not get there.
    """

    def __init__(
        self,
        modules: tuple[str, ...],
        *,
        only_where_signals_arrive: bool,
        error: type[BaseException],
        visits: int,
    ) -> None:
        self._prefixes = tuple(f"{module}." for module in modules)
        self._only_signals = only_where_signals_arrive
        self._error = error
        self._visits = visits
        self._previous: dict[int, int] = {}
        self._visited: Counter[tuple[int, ...]] = Counter()
        self._raised: Counter[tuple[int, ...]] = Counter()
        # The calls of one function from one place are distinguished by their number.
        self._calls: Counter[tuple[int, ...]] = Counter()
        self._traced: dict[int, tuple[tuple[int, ...], int]] = {}
        self._finished: set[tuple[tuple[int, ...], int]] = set()
        self.arm()

    def arm(self) -> None:
        """Raise at the next place of the next run."""
        self._visited.clear()
        self._previous.clear()
        self._calls.clear()
        self._traced.clear()
        self._left_out = False
        self.place: tuple[CodeType, int, int] | None = None

    def trace_all_again(self) -> bool:
        """Whether calls were left out of the last run; they are not in the next one."""
        self._finished.clear()
        return self._left_out

    def run(self, operation: Callable[[Any], object], subject: object) -> bool:
        """Whether *operation* returned, and was not ended by the interrupt."""
        # Python 3.12 reports opcodes only if a frame asked before it traces.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._trace_call)
        try:
            operation(subject)
        except self._error:
            if self.place is None:
                raise

            return False
        finally:
            sys.settrace(None)

        return True

    def describe_place(self) -> str:
        if self.place is None:
            return "nowhere"

        code, line, offset = self.place
        return f"{code.co_filename}:{line} in {code.co_qualname}, offset {offset}"

    def _trace_call(self, frame: FrameType, _event: str, _arg: object) -> Any:
        if frame.f_code.co_name == "__del__":
            return None  # where Python swallows whatever is raised

        name = frame.f_globals.get("__name__", "")
        if not f"{name}.".startswith(self._prefixes) or _is_finalizer(frame):
            return None

        function = _identify_call(frame)
        self._calls[function] += 1
        call = function, self._calls[function]
        if call in self._finished:
            self._left_out = True
            frame.f_trace = None  # of a generator that goes on
            return None

        self._traced[id(frame)] = call
        self._previous.pop(id(frame), None)  # perhaps another frame's
        # In this order: Python 3.13 asks for a trace function first.
        frame.f_trace = self._trace_opcode
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return self._trace_opcode

    def _trace_opcode(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event != "opcode" or self.place is not None:
            # Where each round is a moment, all of them are counted in each run.
            if event == "return" and self.place is None and self._visits == 1:
                self._finished.add(self._traced[id(frame)])

            return self._trace_opcode

        previous = self._previous.get(id(frame), -1)
        self._previous[id(frame)] = frame.f_lasti
        if self._only_signals and not _can_arrive(frame, previous):
            return self._trace_opcode

        instruction = (frame.f_lasti, *_identify_call(frame))
        self._visited[instruction] += 1
        if self._visited[instruction] <= self._raised[instruction]:
            return self._trace_opcode

        if self._raised[instruction] == self._visits:
            return self._trace_opcode

        self._raised[instruction] += 1
        self.place = (frame.f_code, frame.f_lineno, frame.f_lasti)
        raise self._error


def _identify_call(frame: FrameType) -> tuple[int, ...]:
    """Which function a frame is of, and which instruction called it."""
    caller = frame.f_back
    if caller is None:
        return (id(frame.f_code),)

    return id(frame.f_code), id(caller.f_code), caller.f_lasti


def _is_finalizer(frame: FrameType | None) -> bool:
    """Whether a finalizer runs, in which Python 3.11 can't raise while it traces."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True

        frame = frame.f_back

    return False


def _can_arrive(frame: FrameType, previous: int) -> bool:
    """Whether a signal can arrive between the instruction at *previous* and this."""
    if previous < 0:  # a function begins or goes on, which is such a moment
        return True

    code = frame.f_code
    names = _opcode_names(code)
    if not names.get(previous, "").startswith(_LOOKS_FOR_SIGNALS):
        return False

    # What is awaited has just been suspended, in C all the way up to the loop.
    if names.get(frame.f_lasti) == "YIELD_VALUE" and names[previous] == "SEND":
        return False

    # The interrupt is raised by the previous instruction; where that has
    # another handler than this one, raising here would be another thing.
    return _find_handler(code, previous) == _find_handler(code, frame.f_lasti)


_names: dict[CodeType, dict[int, str]] = {}
_handlers: dict[CodeType, list[Any]] = {}


def _opcode_names(code: CodeType) -> dict[int, str]:
    if code not in _names:
        _names[code] = {each.offset: each.opname for each in dis.get_instructions(code)}

    return _names[code]


def _find_handler(code: CodeType, offset: int) -> int | None:
    if code not in _handlers:
        _handlers[code] = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]

    for entry in _handlers[code]:
        if entry.start <= offset < entry.end:
            return int(entry.target)

    return None


def run_in_thread(
    function: Callable[[], object],
    timeout_s: float,
    describe: Callable[[], str],
    *,
    count: Callable[[], int] = lambda: 1,
) -> None:
    """Run *function*; it hangs if *count* stays the same for *timeout_s* seconds."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    with _swallowed_interrupts():
        thread.start()
        # No count yet: the thread may be slow to start, and has its first
        # *timeout_s* seconds all the same.
        counted = -1
        while thread.is_alive() and counted != count():
            counted = count()
            thread.join(timeout_s)

    assert not thread.is_alive(), f"hangs: {describe()}"
    for error in errors:
        error.add_note(describe())
        raise error


def _run_with_alarm(
    operation: Callable[[Any], object], subject: object, after_s: float
) -> bool:
    is_armed = True

    def interrupt(*_: object) -> None:
        # Until the operation is over, again: a finalizer may swallow one.
        if is_armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    completed = False
    with _swallowed_interrupts():
        try:
            signal.setitimer(signal.ITIMER_REAL, max(after_s, 1e-6), 1.0)
            operation(subject)
            completed = True
            is_armed = False
        except KeyboardInterrupt:
            is_armed = False
            completed = False
        finally:
            is_armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    return completed


class _swallowed_interrupts:  # noqa: N801 - used like a function
    """No warning about interrupts that Python swallows in finalizers."""

    def __enter__(self) -> None:
        self._before = sys.unraisablehook
        sys.unraisablehook = self._report_unraisable

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._before

    def _report_unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            self._before(unraisable)
