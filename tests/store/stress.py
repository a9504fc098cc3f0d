"""
What stores promise under stress, counted: `python -m tests.store.stress`.

Processes that append to one name and to many, that race for one head, that
are killed while they save and while they run a pipeline, whose every statement
fails, and whose every verb is interrupted; in a file, and in a PostgreSQL server,
which is killed, too. It ends with an error if anything was lost, or there twice, or
damaged, or said what is not so.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

from conversation_state import Aggregator, Usage
from conversation_state.errors import StaleHeadError, StoreError, UnknownOutcomeError
from conversation_state.store import open_store
from tests.store.interrupts import interrupted
from tests.store.server import Server

__all__ = ["main"]

COUNTED = (
    *("processes", "saves", "conflicts", "kills", "interrupts", "unknown", "failures"),
    *("lost", "duplicated", "disordered", "damaged", "hangs", "untrue", "noise"),
)
WRONG = COUNTED[-7:]

# How often a process that is not killed saves at least, whatever time it takes.
MIN_TURNS = 2


class Kid:
    """
    A process that appends to a name until it has to stop, or is killed; and
    its report.
    """

    def __init__(self, url, name, who, until):
        self.who, self.name = who, name
        self._read_end, write_end = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                append_until(url, name, who, until, write_end)
            except BaseException as error:  # noqa: BLE001 - a child has no caller
                os.write(write_end, f"!{error!r}\n".encode())
            finally:
                os._exit(0)

        os.close(write_end)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def end(self, found):
        """Wait for it, and add up its report; how many saves it acknowledged."""
        with os.fdopen(self._read_end) as report:
            lines = report.read().splitlines()

        os.waitpid(self.pid, 0)
        broken = [line for line in lines if line.startswith("!")]
        if broken:
            raise RuntimeError(broken)

        self.saved = lines.count("+")
        found["processes"] += 1
        found["saves"] += self.saved
        found["conflicts"] += lines.count("-")
        found["unknown"] += lines.count("?")
        found["failures"] += lines.count("x")
        self.waits = [float(line[1:]) for line in lines if line.startswith("w")]


def append_until(url, name, who, until, write_end):
    """
    Append until the time is up, and report everything at the end: + is a save, - a head
    that another writer moved, ? an unknown outcome, x an error.
    """
    store, i, longest = open_again(url, until), 0, 0.0
    os.write(write_end, b"o\n")
    # However busy the machine is, there is something to judge.
    while time.time() < until or i < MIN_TURNS:
        text, tries, start = f"{who} {i}", 0, time.perf_counter()

        def add_text(state, text=text):
            nonlocal tries
            tries += 1
            return state.add_user_prompt(text)

        try:
            store.update(name, add_text, start=Aggregator.new())
        except UnknownOutcomeError:
            os.write(write_end, b"?\n")
            if not has_text(store, name, text):
                continue
        except StoreError:
            os.write(write_end, b"x\n")
            time.sleep(0.02)
            continue

        os.write(write_end, b"+\n" + b"-\n" * (tries - 1))
        longest = max(longest, time.perf_counter() - start)
        i += 1

    os.write(write_end, f"w{longest}\n".encode())
    store.close()


def open_again(url, until):
    """An open store, as soon as there is a server: one that was killed comes back."""
    while True:
        try:
            return open_store(url)
        except StoreError:
            if time.time() > until:
                raise

            time.sleep(0.05)


def has_text(store, name, text):
    """Whether it is there after all, as soon as one can know."""
    while True:
        try:
            return any(message.text == text for message in store.load(name))
        except StoreError:
            time.sleep(0.05)


def judge(url, kids, found, *, more=0):
    """
    Count what is not as it should be: each kid's messages are there once, in
    its order, and at most *more* beyond those it had acknowledged.
    """
    with open_store(url) as store:
        found["damaged"] += len(store.verify())
        there = {name: [m.text for m in store.load(name)] for name in store.names()}
        for name, texts in there.items():
            times = Counter(texts)
            found["duplicated"] += sum(times.values()) - len(times)
            ours = sorted({text.split()[0] for text in texts}, key=int)
            mine = [kid for kid in kids if kid.name == name]
            strange = set(ours) - {str(kid.who) for kid in mine}
            found["duplicated"] += len(strange)

        for kid in kids:
            texts = [t for t in there.get(kid.name, ()) if t.split()[0] == str(kid.who)]
            found["lost"] += max(0, kid.saved - len(texts))
            found["duplicated"] += max(0, len(texts) - kid.saved - more)
            expected = [f"{kid.who} {i}" for i in range(len(texts))]
            found["disordered"] += texts != expected


def contended(url, processes, seconds, *, names):
    """Processes that append, to one name or each to its own."""
    found: Counter[str] = Counter()
    start = time.time()
    kids = [
        Kid(url, f"chat {who % names}", who, start + seconds)
        for who in range(processes)
    ]
    for kid in kids:
        kid.end(found)

    took = time.time() - start
    judge(url, kids, found)
    saved = sorted(kid.saved for kid in kids)
    wait = max(max(kid.waits, default=0) for kid in kids)
    note = (
        f"{found['saves'] / took:,.0f} saves/s; {saved[0]} to {saved[-1]} each; "
        f"longest {wait:.2f} s"
    )
    return found, note


def race(url, seconds):
    """
    Two writers that expect one head: one wins, the other gets an error with both heads,
    joins, and saves.
    """
    found, rounds, until = Counter(processes=1), 0, time.time() + seconds
    with open_store(url) as one, open_store(url) as two:
        base = Aggregator.new().add_user_prompt("start")
        head = one.save("race", base)
        while time.time() < until or not rounds:
            rounds += 1
            barrier = Barrier(2)
            outcomes: dict[int, Any] = {}

            def write(who, store, *, at=(base, head, barrier, outcomes, rounds)):
                parent, head, barrier, to, rounds = at
                state = parent.add_user_prompt(f"{who} {rounds}")
                barrier.wait()
                try:
                    to[who] = store.save("race", state, expecting=head)
                except StaleHeadError as error:
                    to[who] = error
                    joined = store.load("race").join(state)
                    store.save("race", joined, expecting=error.actual)

            threads = [
                Thread(target=write, args=pair) for pair in enumerate((one, two))
            ]
            for thread in threads:
                thread.start()

            for thread in threads:
                thread.join()

            stale = [e for e in outcomes.values() if isinstance(e, StaleHeadError)]
            won = [h for h in outcomes.values() if not isinstance(h, StaleHeadError)]
            found["conflicts"] += len(stale)
            found["saves"] += 2
            found["lost"] += abs(1 - len(won)) + abs(2 - len(outcomes))
            found["lost"] += any(
                (e.expected, e.actual) != (head, won[0]) for e in stale
            )
            head, base = one.latest("race"), one.load("race")
            texts = [m.text for m in base]
            found["lost"] += len({f"0 {rounds}", f"1 {rounds}"} - set(texts[-2:]))
            found["duplicated"] += len(texts) - len(set(texts))

        found["damaged"] += len(one.verify())

    return found, f"{rounds} races"


def killed(url, seconds, *, server=None, at_once=2):
    """
    Processes that are killed at random moments while others go on, and the
    server once.
    """
    found: Counter[str] = Counter()
    kids: list[Kid] = []
    until = time.time() + seconds
    halt_at = time.time() + seconds / 2 if server else None
    luck = random.Random(7)
    alive: list[Kid] = []
    while time.time() < until or not found["saves"] or halt_at is not None:
        while len(alive) < at_once:
            alive.append(Kid(url, f"chat {len(kids) % 2}", len(kids), until + 60))
            kids.append(alive[-1])

        time.sleep(luck.uniform(0.02, 0.4))
        if halt_at is not None and time.time() > halt_at:
            halt_at = None
            server.halt("SIGQUIT")
            time.sleep(0.2)
            server.start()
            found["kills"] += 1
            time.sleep(0.3)

        kid = alive.pop(luck.randrange(len(alive)))
        kid.kill()
        found["kills"] += 1
        kid.end(found)

    for kid in alive:
        kid.kill()
        found["kills"] += 1
        kid.end(found)

    judge(url, kids, found, more=1)
    return found, "a server, too" if server else ""


STEPS = 10


def pipelines(url, kills):
    """
    Pipelines of ten steps, each run by two processes at once, which are killed in a
    step or after it and begin again until all is done: each step is done, and billed,
    once.
    """
    found: Counter[str] = Counter()
    luck = random.Random(11)
    names: list[str] = []
    while found["kills"] < kills:
        names.append(f"pipeline {len(names)}")
        while not is_done(url, names[-1]):
            for runner in [PipelineRunner(url, names[-1]) for _ in range(2)]:
                # Some of them get through a step, however busy the machine is.
                runner.wait(luck.randrange(1, 5))
                time.sleep(luck.uniform(0, 0.002))
                found["processes"] += 1
                found["kills"] += runner.kill()

    expected = [f"step {i}" for i in range(STEPS)]
    with open_store(url) as store:
        found["damaged"] += len(store.verify())
        for name in names:
            state = store.load(name)
            texts = [message.text for message in state]
            found["disordered"] += texts != expected
            for there in (texts, [entry.id for entry in state.ledger]):
                found["lost"] += len({*expected} - {*there})
                found["duplicated"] += len(there) - len({*there})

            found["saves"] += len(store.history(name))

    return found, f"{len(names)} pipelines"


class PipelineRunner:
    """
    A process that runs a pipeline from where it was left, and reports when it begins
    and ends a step that was not done.
    """

    def __init__(self, url, name):
        self._read_end, write_end = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                run_steps(url, name, write_end)
            except BaseException as error:  # noqa: BLE001 - a child has no caller
                os.write(write_end, f"!{error!r}".encode())
            finally:
                os._exit(0)

        os.close(write_end)

    def wait(self, count):
        """Until so many reports have come, or it ended."""
        for _ in range(count):
            if not (report := os.read(self._read_end, 1)):
                return

            if report == b"!":
                raise RuntimeError(os.read(self._read_end, 10_000))

    def kill(self):
        """Whether it was killed, and had not ended."""
        os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        os.close(self._read_end)
        return os.WIFSIGNALED(status)


def run_steps(url, name, write_end):
    def billed_step(text, state):
        os.write(write_end, b"<")
        return state.add_assistant_message(text).add_usage(Usage(1), key=text)

    with open_store(url) as store:
        for i in range(STEPS):
            text = f"step {i}"
            store.step(name, text, partial(billed_step, text))
            os.write(write_end, b">")


def is_done(url, name):
    with open_store(url) as store:
        return name in store and store.latest(name).labels == (f"step {STEPS - 1}",)


def injected(url, server):
    """A failure at each statement of each step of a store's life."""
    from tests.store import injection  # noqa: PLC0415 - not in its children

    if server is None:
        return injection.in_a_file(), "before each statement"

    return injection.on_a_wire(server, url), "before and after each statement"


def main(arguments):
    """Run everything and print the table; return whether anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.store.stress")
    parser.add_argument("--seconds", type=float, default=10, help="for each row")
    parser.add_argument("--processes", type=int, default=16, help="that append")
    parser.add_argument("--kills", type=int, default=200, help="of pipelines")
    parser.add_argument("--interrupts", type=int, default=2_000, help="in each run")
    parser.add_argument("--runs", type=int, default=1, help="with interrupts")
    parser.add_argument("--only", default="", help="sqlite or postgresql")
    parser.add_argument(
        "--rows", default="", help="one, own, race, killed, steps, interrupts, injected"
    )
    asked = parser.parse_args(arguments)
    print(f"{'what':34}" + "".join([f"{what:>11}" for what in COUNTED]))
    wrong = 0
    with ExitStack() as stack:
        for kind in ("sqlite", "postgresql"):
            if asked.only not in {"", kind}:
                continue

            server = None
            if kind == "postgresql":
                server = Server("autovacuum=on")
                stack.callback(server.stop)

            for number, (row, title, run) in enumerate(_list_rows(asked, server)):
                if row not in (asked.rows or row).split(","):
                    continue

                folder = stack.enter_context(tempfile.TemporaryDirectory())
                url = f"sqlite:///{Path(folder) / 'chats.db'}"
                if server is not None:
                    url = server.url(
                        f"stress_{number}",
                        "" if row == "interrupts" else "&timeout_s=60",
                    )

                found, note = run(url)
                wrong += sum(found[what] for what in WRONG)
                counts = "".join([f"{found[what]:11,}" for what in COUNTED])
                print(f"{f'{kind}: {title}':34}{counts}  {note}", flush=True)

    print("Nothing was lost." if not wrong else f"{wrong} things went wrong.")
    return bool(wrong)


def _list_rows(asked, server):
    many, seconds = asked.processes, asked.seconds
    return (
        ("one", "one name", lambda url: contended(url, many, seconds, names=1)),
        ("own", "a name each", lambda url: contended(url, many, seconds, names=many)),
        ("race", "races for a head", lambda url: race(url, seconds)),
        ("killed", "killed", lambda url: killed(url, seconds * 2, server=server)),
        ("steps", "killed pipelines", lambda url: pipelines(url, asked.kills)),
        (
            "interrupts",
            "interrupted verbs",
            lambda url: interrupted(url, asked.interrupts, runs=asked.runs),
        ),
        ("injected", "failing statements", lambda url: injected(url, server)),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
