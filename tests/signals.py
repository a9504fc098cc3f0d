"""Real signals at random moments: what must hold after a Ctrl-C."""

import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["call_in_handler", "interrupt_by_signals", "interrupter"]

T = TypeVar("T")


def interrupt_by_signals(
    operation: Callable[[T], object],
    check: Callable[[T, bool], object],
    *,
    prepare: Callable[[], T],
    times: int = 100,
    within_s: float = 0.001,
) -> int:
    """
    The number of times, of *times*, that a signal interrupted *operation*.

    `operation(subject)` of what *prepare* makes is interrupted at a random moment
    of its first *within_s* seconds; earlier each time that it has ended by then, so
    that some are interrupted on any machine. In another thread, so that no lock of
    this one's is entered again, `check(subject, completed)` asserts what must hold.
    """
    moments, window_s = random.Random(0), within_s
    interrupted = 0
    for _ in range(times):
        subject, completed = prepare(), False
        try:
            with call_in_handler(_raise_interrupt, moments.uniform(0, window_s)):
                operation(subject)
                completed = True
        except BaseException as error:
            if not _is_interrupt(error):
                raise

        _give_back_locks_of_python()
        interrupted += not completed
        window_s = window_s / 2 if completed else within_s
        _run_in_thread(lambda: check(subject, completed))  # noqa: B023 - run at once

    return interrupted


@contextmanager
def call_in_handler(function: Callable[[], object], after_s: float):
    """Call *function* in a signal's handler, *after_s* seconds from now, in a block."""
    is_armed = True

    def handle(*_):
        if is_armed:
            function()

    hook, before = sys.unraisablehook, signal.signal(signal.SIGALRM, handle)
    # Python swallows interrupts in finalizers, and warns about them; so it comes again.
    sys.unraisablehook = lambda facts: (
        None if facts.exc_type is KeyboardInterrupt else hook(facts)
    )
    try:
        signal.setitimer(signal.ITIMER_REAL, max(after_s, 1e-6), 1.0)
        yield
    finally:
        is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook


def _is_interrupt(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_interrupt, error.exceptions))

    # What Python makes of one that comes while a condition gets its lock back, as in
    # the start of a thread.
    is_masked = isinstance(error, RuntimeError) and "release unlocked" in str(error)
    return is_masked or isinstance(error, KeyboardInterrupt)


@contextmanager
def interrupter():
    """
    A function for other threads that interrupts the one of this block, once, also where
    that is about to wait: a signal just before leaves the wait as it is.
    """
    waiting = threading.get_ident()
    interrupted: list[bool] = []

    def handle(*_):
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt

    def interrupt():
        while not interrupted:
            signal.pthread_kill(waiting, signal.SIGINT)
            time.sleep(0.01)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def _raise_interrupt():
    raise KeyboardInterrupt


def _give_back_locks_of_python() -> None:
    # CPython 3.14 leaves a lock held if a signal comes between `with` and its block,
    # and Python takes one so when it starts a thread: no later thread would run.
    # Source: python/cpython#148874.
    lock: Any = vars(threading)["_active_limbo_lock"]
    while sys.version_info[:2] == (3, 14) and lock._is_owned():
        lock.release()


def _run_in_thread(function: Callable[[], object]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "hangs after an interrupt"
    for error in errors:
        raise error
