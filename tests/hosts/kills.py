"""
Workflows whose process is killed at one event after another, and what is there after
their engine has recovered them; see `dbos_kills` and `temporal_kills`.

Each process is forked before the engine starts; the killed one ends by its own
`SIGKILL`.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from conversation_state import Aggregator, Usage
from conversation_state.store import StateRef, Store

__all__ = ["STEPS", "Events", "describe_store", "kill_each"]

STEPS = 3
# Each process waits more than it works.
_AT_ONCE = 8
# The workflow ends by itself, or the process does.
_LONGEST_S = 60


class Events:
    """
    Counts events, and kills this process at number *kill_at*, or never at 0; the
    requests of all processes are in a file.
    """

    def __init__(self, folder: Path, kill_at: int) -> None:
        self.requests = folder / "requests"
        self.kill_at = kill_at
        self.count = 0
        self.is_counted = False

    def note(self, *_: Any, **__: Any) -> None:
        """An event, if they are counted."""
        self.count += self.is_counted
        if self.is_counted and self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def ask_model(self, state: Aggregator, step: int) -> Aggregator:
        """A request, which is paid for as soon as it is made, and its answer."""
        self.note()
        with self.requests.open("a") as log:
            log.write(f"{step}\n")

        self.note()
        answered = state.add_assistant_message(f"answer {step}")
        return answered.add_usage(Usage(10, 1), key=f"response {step}")

    def count_requests(self) -> int:
        """How many were made in all processes."""
        return len(self.requests.read_text().split())


def describe_store(store: Store, ref: str) -> dict[str, Any]:
    """What is saved after a workflow whose result was *ref*."""
    state = store.load("chat")
    return {
        "texts": [message.text for message in state],
        "keys": [entry.id for entry in state.ledger],
        "labels": [list(head.labels) for head in reversed(store.history("chat"))],
        "is_newest": StateRef.parse(ref) == store.ref(store.latest("chat")),
        "damaged": len(store.verify()),
    }


class Run(Protocol):
    """One process of a workflow."""

    def run(self) -> dict[str, Any]:
        """
        Begin the workflow, or recover it; what is there when it has ended, with the
        numbers of its *events* and *requests*, and its *steps* as the engine has them.
        """
        ...


class _Child:
    """A run in a process of its own, which is forked at once."""

    def __init__(self, run: Run) -> None:
        self._read_end, write_end = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            signal.alarm(_LONGEST_S)
            try:
                os.write(write_end, json.dumps(run.run()).encode())
            except BaseException as error:  # noqa: BLE001 - a child has no caller
                os.write(write_end, json.dumps({"error": repr(error)}).encode())
            finally:
                os._exit(0)

        os.close(write_end)

    def wait(self) -> dict[str, Any] | None:
        """What it found; None if it was killed."""
        with os.fdopen(self._read_end) as report:
            text = report.read()

        _, status = os.waitpid(self._pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return None

        return json.loads(text) if text else {"error": f"ended with status {status}"}


def _describe_damage(found: dict[str, Any], kills: int, label: str) -> str:
    """What is wrong after a workflow that was killed so often; "" for nothing."""
    if "error" in found:
        return str(found["error"])

    numbers = range(STEPS)
    expected = {
        "texts": ["question", *[f"answer {number}" for number in numbers]],
        "keys": [f"response {number}" for number in numbers],
        "labels": [[], *[[f"{label}{number + 1}"] for number in numbers]],
        "steps": [number + 1 for number in numbers],
        "is_newest": True,
        "damaged": 0,
    }
    wrong = [
        f"{what} {found[what]}" for what in expected if found[what] != expected[what]
    ]
    if not STEPS <= found["requests"] <= STEPS + kills:
        wrong.append(f"{found['requests']} requests after {kills} kills")

    return ", ".join(wrong)


def kill_each(
    kind: str, find_run: Callable[[int, int], Run], label: str, every: int
) -> int:
    """
    How many workflows went wrong, each killed at another event, and once more.

    Args:
        kind: What is said of it.

        find_run: A process of the workflow of a number, killed at an event or never.

        label: What comes before the number of a step in its label.

        every: Kill at each event, or at every so many.
    """
    whole = _Child(find_run(0, 0)).wait() or {"error": "killed"}
    problems = {0: _describe_damage(whole, 0, label)}
    last = whole.get("events", 0)
    kills = again = 0
    numbers = range(1, last + 1, every)
    for start in range(0, len(numbers), _AT_ONCE):
        batch = numbers[start : start + _AT_ONCE]
        # The recovery is killed as well, at an event that differs each time.
        first = [_Child(find_run(at, at)) for at in batch]
        killed = [int(child.wait() is None) for child in first]
        second = [_Child(find_run(at, at * 7 % last + 1)) for at in batch]
        for number, child in enumerate(second):
            killed[number] += child.wait() is None

        third = [_Child(find_run(at, 0)) for at in batch]
        for at, child, times in zip(batch, third, killed, strict=True):
            found = child.wait() or {"error": "killed"}
            problems[at] = _describe_damage(found, times, label)
            kills += times
            again += found.get("requests", STEPS) - STEPS

    wrong = {at: problem for at, problem in problems.items() if problem}
    for at, problem in wrong.items():
        print(f"{kind}: killed at {at}: {problem}")

    print(
        f"{kind}: {len(problems)} workflows of {STEPS} steps and {last} events, "
        f"{kills} kills, {again} requests made again, {len(wrong)} wrong",
        flush=True,
    )
    return len(wrong)
