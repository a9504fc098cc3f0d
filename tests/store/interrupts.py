"""
Real interrupts at random moments of all verbs of a store, counted.

A process of its own, whose standard error is read at its end. A timer delivers SIGINT
while a verb runs; an async twin is interrupted, or its task cancelled. After each verb
the store must answer without an interrupt, and have what it had before the verb or
after it.
"""

import asyncio
import faulthandler
import gc
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from itertools import count
from tempfile import TemporaryFile
from typing import Any

from conversation_state import Aggregator, TokenBudget, Usage, UserMessage
from conversation_state.errors import NotSavedError, StoreError, UnknownOutcomeError
from conversation_state.store import open_store
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree

__all__ = ["interrupted"]

# What the verbs below may take longer than the store's timeout_s, on a busy machine.
MARGIN_S = 10.0

MESSAGE = UserMessage("more")

# A conversation is begun again when it has so many messages.
_LONGEST = 30

# Verbs whose task may end in spite of a cancellation.
_TASKS = {"asave", "aload", "aupdate", "aappend", "cancelled asave", "cancelled aload"}


class Round:
    """
    A store, what is known to be in it, and what was counted.

    Attributes:
        state: What was acknowledged last under the name ``chat``.

        tried: What an interrupted save of it may have saved instead.
    """

    def __init__(self, url: str, timeout_s: float, seed: int) -> None:
        self.url = url
        self.store = open_store(url)
        self.timeout_s = timeout_s
        self.luck = random.Random(seed)
        self.found: Counter[str] = Counter(processes=1)
        self.estimates: dict[str, float] = {}
        self.is_armed = False
        self.numbers = count()
        self.state = Aggregator.new().add_user_prompt("start")
        self.tried: Aggregator | None = None
        if "chat" in self.store:
            self.store.delete("chat")

        self.store.save("chat", self.state)
        self.is_raised = False
        signal.signal(signal.SIGALRM, self._ring)
        # A shell starts what runs in its background with SIGINT ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._notice

    def _ring(self, *_: object) -> None:
        if self.is_armed:
            self.is_armed = False
            self.found["interrupts"] += 1
            signal.raise_signal(signal.SIGINT)

    def _notice(self, facts: Any) -> None:
        # Python swallows what is raised in finalizers, and says so.
        if facts.exc_type is KeyboardInterrupt:
            self.is_raised = True
        else:
            self._hook(facts)

    # Verbs

    def grow(self) -> Aggregator:
        base = self.state if len(self.state) < _LONGEST else self.state.rollback(1)
        number = next(self.numbers)
        grown = base.add_user_prompt(f"question {number}")
        self.tried = grown.add_usage(Usage(1, 1), key=f"answer {number}")
        return self.tried

    def save(self) -> Any:
        # A state that was cut is no continuation of the head, so this one replaces it.
        return self.store.save("chat", self.grow(), expecting=self.head())

    def head(self) -> Any:
        return self.store.latest("chat")

    def list_verbs(self) -> dict[str, Any]:
        store, number = self.store, next(self.numbers)
        tree = MessageTree.of(self.state, self.state.fork().add_user_prompt("b"))
        timeline = Timeline.begin(self.state.fork()).commit(self.state.fork())
        return {
            "save": self.save,
            "update": lambda: store.update("chat", lambda _: self.grow()),
            "save_all": lambda: store.save_all(
                {f"all {i}": Aggregator.new() for i in range(2)},
                expecting={f"all {i}": self.revision(f"all {i}") for i in range(2)},
            ),
            "append": lambda: store.append(
                "grown", MESSAGE, usage=Usage(1), key=f"{number}"
            ),
            "view": lambda: store.view("grown", TokenBudget(context_window=9)),
            "load": lambda: store.load("chat"),
            "load at": lambda: store.load("chat", at=1),
            "load last": lambda: store.load("chat", last=3),
            "latest": self.head,
            "names": store.names,
            "heads": store.heads,
            "history": lambda: store.history("chat", limit=5),
            "notes": lambda: store.notes("chat"),
            "annotate": lambda: store.annotate("chat", {"number": number}),
            "label": lambda: store.label("chat", f"label {number % 2}"),
            "unlabel": lambda: store.unlabel("chat", f"label {number % 2}"),
            "label_moves": lambda: store.label_moves("chat"),
            "fork": lambda: store.fork("chat", f"fork {number}"),
            "delete": lambda: store.delete("gone"),
            "rollback": lambda: store.rollback("aside", 1),
            "step": lambda: store.step(
                "steps", f"s {number}", lambda state: state.add_user_prompt("s")
            ),
            "message_tree": lambda: store.message_tree("tree"),
            "save_tree": lambda: store.save_tree(
                "tree", tree, expecting=self.revision("tree")
            ),
            "save_timeline": lambda: store.save_timeline(
                "timeline", timeline, expecting=self.revision("timeline")
            ),
            "load_timeline": lambda: store.load_timeline("timeline"),
            "open": lambda: open_store(self.url).close(),
            "asave": lambda: self.run(
                lambda: self.store.asave("chat", self.grow(), expecting=self.head())
            ),
            "aload": lambda: self.run(lambda: self.store.aload("chat", at=1)),
            "aupdate": lambda: self.run(
                lambda: self.store.aupdate("chat", lambda _: self.agrow())
            ),
            "aappend": lambda: self.run(lambda: store.aappend("grown", MESSAGE)),
            "cancelled asave": lambda: self.cancel(
                lambda: self.store.asave("chat", self.grow(), expecting=self.head())
            ),
            "cancelled aload": lambda: self.cancel(lambda: self.store.aload("chat")),
        }

    def list_seldom(self) -> dict[str, Any]:
        """Those that read the whole store."""
        store = self.store
        return {
            "verify": store.verify,
            "collect_garbage": store.collect_garbage,
            "erase": lambda: store.erase(self.erasable, reason="asked"),
        }

    async def agrow(self) -> Aggregator:
        return self.grow()

    def revision(self, name: str) -> int:
        try:
            return self.store.latest(name).revision
        except NotSavedError:
            return 0

    def run(self, call: Any) -> Any:
        # To make a loop, and to close it, is asyncio's: it is not interrupted.
        self.is_armed = False

        async def run() -> Any:
            self.is_armed = True
            try:
                return await call()
            finally:
                self.is_armed = False

        return asyncio.run(run())

    def cancel(self, call: Any) -> None:
        """Cancel the task at a random moment of it, in the place of an interrupt."""
        self.is_armed = False

        async def run() -> None:
            task = asyncio.ensure_future(call())
            loop = asyncio.get_running_loop()
            loop.call_later(self.luck.uniform(0, 0.005), task.cancel)
            try:
                await task
            except asyncio.CancelledError:
                self.found["interrupts"] += 1

        asyncio.run(run())

    # Rounds

    def prepare(self) -> None:
        """Make what the verbs need, without an interrupt."""
        aside = Aggregator.new().add_user_prompt("a")
        for name, state in (
            ("gone", aside.fork()),
            ("aside", aside),
            ("steps", aside.fork()),
            ("grown", aside.fork()),
        ):
            if name not in self.store:
                self.store.save(name, state)

        self.store.update("aside", lambda state: state.add_user_prompt("b"))
        self.erasable = self.store.load("aside").entries[-1].id
        for name in self.store.names(prefix="fork "):
            self.store.delete(name)

        if "tree" not in self.store:
            self.store.save_tree("tree", MessageTree.of(aside.fork()))

        if "timeline" not in self.store:
            self.store.save_timeline("timeline", Timeline.begin(aside.fork()))

    def interrupt(self, name: str, verb: Any) -> None:
        """One verb, interrupted at a random moment of it if it gets so far."""
        self.tried, start, is_done = None, time.perf_counter(), False
        before, self.is_raised = self.found["interrupts"], False
        after_s = self.luck.random() * self.estimates.get(name, 0.004) * 1.3 + 1e-5
        try:
            try:
                self.is_armed = True
                signal.setitimer(signal.ITIMER_REAL, after_s, 1)
                verb()
                is_done = True
            finally:
                self.is_armed = False
        except KeyboardInterrupt:
            self.is_raised = True
        except UnknownOutcomeError:
            self.is_raised = True
            self.found["unknown"] += 1
        except NotSavedError:
            # What an earlier interrupted verb removed may be gone.
            if name not in {"delete", "unlabel", "erase"}:
                self._report(name, "says that something is not saved")
        except BaseException:  # noqa: BLE001 - counted, and shown
            self._report(name, traceback.format_exc())

        self.is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.perf_counter() - start
        self.found["hangs"] += took > self.timeout_s + MARGIN_S
        self.found["saves"] += is_done and self.tried is not None
        if (
            self.found["interrupts"] > before
            and not self.is_raised
            and name not in _TASKS
        ):
            self._report(name, "swallowed an interrupt")

        # So that some interrupts come late, and some too late.
        longer = self.estimates.get(name, 0.004) * 1.1
        self.estimates[name] = took if is_done else min(longer, 1.0)

    def check(self, name: str) -> None:
        """Without an interrupt all works, and nothing that was acknowledged is lost."""
        start = time.perf_counter()
        try:
            self.store.notes("chat")
            if self.tried is None:
                self.store.latest("chat")
            else:
                saved = self.store.load("chat")
                if saved not in (self.state, self.tried):
                    self.found["lost"] += 1
                    ends = [str(each[-1]) for each in (self.state, self.tried, saved)]
                    print(f"{name}: before, tried, found: {ends}", flush=True)

                self.state = saved
        except StoreError:
            self._report(name, f"and then a plain verb:\n{traceback.format_exc()}")

        if not gc.isenabled():
            gc.enable()
            self._report(name, "left the collector paused")

        took = time.perf_counter() - start
        self.found["hangs"] += took > self.timeout_s + MARGIN_S

    def _report(self, name: str, what: str) -> None:
        self.found["untrue"] += 1
        print(f"{name}: {what}", flush=True)

    def run_until(self, interrupts: int) -> Counter[str]:
        for number in count():
            if self.found["interrupts"] >= interrupts:
                break

            # What hangs in C, or longer than all that is allowed, ends with a report.
            faulthandler.dump_traceback_later(60 + 10 * self.timeout_s, exit=True)
            self.prepare()
            verbs = self.list_verbs() | ({} if number % 8 else self.list_seldom())
            for name in self.luck.sample(sorted(verbs), len(verbs)):
                self.interrupt(name, verbs[name])
                self.check(name)

            if not number % 40:
                self.store.collect_garbage()

        faulthandler.cancel_dump_traceback_later()
        self.found["damaged"] += len(self.store.verify())
        self.store.close()
        return self.found


def interrupted(
    url: str, interrupts: int, *, runs: int = 1, timeout_s: float = 5
) -> tuple[Counter[str], str]:
    """
    Interrupt all verbs so often in each of so many processes; what was counted, and how
    many lines they wrote to standard error.
    """
    found: Counter[str] = Counter()
    start = time.time()
    separator = "&" if "?" in url else "?"
    for run in range(runs):
        with TemporaryFile("w+") as report, TemporaryFile("w+") as noise:
            child = os.fork()
            if not child:
                os.dup2(report.fileno(), 1)
                os.dup2(noise.fileno(), 2)
                _run_child(f"{url}{separator}timeout_s={timeout_s:g}", interrupts, run)

            _, status = os.waitpid(child, 0)
            report.seek(0)
            noise.seek(0)
            *shown, last = report.read().splitlines() or [""]
            lines = noise.readlines()
            found["noise"] += len(lines)
            if status:
                found["hangs"] += 1
                shown.append(last)
            else:
                found.update(json.loads(last))

            sys.stderr.write("".join([*(f"{line}\n" for line in shown), *lines]))

    rate = found["interrupts"] / (time.time() - start)
    return found, f"{rate:,.0f} interrupts/s"


def _run_child(url: str, interrupts: int, run: int) -> None:
    """Run, and report in the last line of standard output; never returns."""
    # The parent's are buffered, and would write what is in them once more.
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    try:
        timeout_s = float(url.rpartition("=")[2])
        found = Round(url, timeout_s, run).run_until(interrupts)
        print(json.dumps(found), flush=True)
        sys.stderr.flush()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a child has no caller
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)
