"""
A DBOS workflow whose process is killed at one event after another, and what is there
after DBOS has recovered it: `python -m tests.hosts.dbos_kills`.

An event is a call of the store's backend, a statement of DBOS's own database, or a
request. Each process is forked before DBOS is launched; the killed one ends by its own
`SIGKILL`, and the next one recovers the workflow by DBOS's `launch`.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from dbos import DBOS, SetWorkflowID

from conversation_state import Aggregator, Usage, open_store
from conversation_state.hosts.dbos import StoreSteps
from conversation_state.store import StateRef, Store
from tests.store.promises.case import RecordingBackend
from tests.store.server import Server

__all__ = ["main"]

STEPS = 3
# Each process waits more than it works.
AT_ONCE = 8
# The workflow ends by itself, or the process does.
_LONGEST_S = 60


class Place(NamedTuple):
    """Where the store is, the database of DBOS, and the schema that it has there."""

    store_url: str
    system_url: str
    schema: str


class Run:
    """
    A workflow in this process, which is killed at its event number *kill_at*, or never
    at 0; of async steps or not.
    """

    def __init__(
        self, folder: Path, place: Place, *, kill_at: int, is_async: bool
    ) -> None:
        self.place = place
        self.requests = folder / "requests"
        self.kill_at = kill_at
        self.is_async = is_async
        self.events = 0
        self.is_counted = False

    def note_event(self, *_: Any, **__: Any) -> None:
        self.events += self.is_counted
        if self.is_counted and self.events == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def ask_model(self, step: int) -> None:
        """A request, which is paid for as soon as it is made."""
        self.note_event()
        with self.requests.open("a") as log:
            log.write(f"{step}\n")

        self.note_event()

    def run(self) -> dict[str, Any]:
        signal.alarm(_LONGEST_S)
        store = open_store(self.place.store_url)
        watched = Store(RecordingBackend(store._cache.backend, self.note_event))
        steps = StoreSteps(watched)

        def add(state: Aggregator, step: int) -> Aggregator:
            self.ask_model(step)
            answered = state.add_assistant_message(f"answer {step}")
            return answered.add_usage(Usage(10, 1), key=f"response {step}")

        answer = steps.step()(add)

        @steps.step()
        async def aanswer(state: Aggregator, step: int) -> Aggregator:
            return add(state, step)

        @DBOS.workflow()
        def pipeline(ref: str) -> str:
            for step in range(STEPS):
                ref = answer(ref, step)

            return ref

        @DBOS.workflow()
        async def apipeline(ref: str) -> str:
            for step in range(STEPS):
                ref = await aanswer(ref, step)

            return ref

        DBOS(
            config={
                "name": "kills",
                "system_database_url": self.place.system_url,
                "dbos_system_schema": self.place.schema,
                "application_version": "1",
                "executor_id": "one",
                "log_level": "CRITICAL",
            }
        )
        for moment in ("before_cursor_execute", "after_cursor_execute", "commit"):
            sa.event.listen(sa.Engine, moment, self.note_event)

        DBOS.launch()
        self.is_counted = True
        if "chat" not in store:
            state = Aggregator.new().add_user_prompt("question")
            store.save("chat", state, expecting=0)

        if DBOS.get_workflow_status("run") is None:
            ref = str(store.ref(store.latest("chat", at=1)))
            with SetWorkflowID("run"):
                DBOS.start_workflow(apipeline if self.is_async else pipeline, ref)

        ref = DBOS.retrieve_workflow("run").get_result(polling_interval_sec=0.02)
        self.is_counted = False
        history = DBOS.list_workflow_steps("run")
        found = {
            "events": self.events,
            "requests": len(self.requests.read_text().split()),
            "texts": [message.text for message in store.load("chat")],
            "keys": [entry.id for entry in store.load("chat").ledger],
            "labels": [head.labels for head in reversed(store.history("chat"))],
            "is_newest": StateRef.parse(ref) == store.ref(store.latest("chat")),
            "steps": [step["function_id"] for step in history],
            "damaged": len(store.verify()),
        }
        DBOS.destroy()
        return found


class Child:
    """A run in a process of its own, which is forked at once."""

    def __init__(self, run: Run) -> None:
        self._read_end, write_end = os.pipe()
        self._pid = os.fork()
        if not self._pid:
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


def describe_damage(found: dict[str, Any], kills: int) -> str:
    """What is wrong after a workflow that was killed so often; "" for nothing."""
    if "error" in found:
        return str(found["error"])

    numbers = range(STEPS)
    expected = {
        "texts": ["question", *[f"answer {number}" for number in numbers]],
        "keys": [f"response {number}" for number in numbers],
        "labels": [[], *[[f"dbos/run/{number + 1}"] for number in numbers]],
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


def main(arguments: list[str]) -> bool:
    """Kill at one event after another, and print a line for each kind of database."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts.dbos_kills")
    parser.add_argument(
        "--every", type=int, default=1, help="kill at each event, or at every so many"
    )
    parser.add_argument("--only", default="", help="sqlite, one-file or postgresql")
    asked = parser.parse_args(arguments)
    problems = 0
    for kind in ("sqlite", "one-file", "postgresql"):
        if asked.only not in {"", kind}:
            continue

        server = Server() if kind == "postgresql" else None
        try:
            problems += kill_each(kind, server, asked.every)
        finally:
            if server is not None:
                server.stop()

    print("Nothing was lost." if not problems else f"{problems} workflows went wrong.")
    return bool(problems)


def kill_each(kind: str, server: Server | None, every: int) -> int:
    """How many workflows went wrong, each killed at another event, and once more."""
    with tempfile.TemporaryDirectory() as base:

        def find_run(number: int, kill_at: int = 0) -> Run:
            folder = Path(base, str(number))
            folder.mkdir(exist_ok=True)
            place = find_place(kind, folder, server, number)
            return Run(folder, place, kill_at=kill_at, is_async=bool(number % 2))

        whole = Child(find_run(0)).wait() or {"error": "killed"}
        problems = {0: describe_damage(whole, 0)}
        last = whole.get("events", 0)
        kills = again = 0
        for batch in batched(range(1, last + 1, every), AT_ONCE):
            # The recovery is killed as well, at an event that differs each time.
            first = [Child(find_run(at, at)) for at in batch]
            killed = [int(child.wait() is None) for child in first]
            second = [Child(find_run(at, at * 7 % last + 1)) for at in batch]
            for number, child in enumerate(second):
                killed[number] += child.wait() is None

            third = [Child(find_run(at)) for at in batch]
            for at, child, times in zip(batch, third, killed, strict=True):
                found = child.wait() or {"error": "killed"}
                problems[at] = describe_damage(found, times)
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


def batched(numbers: range, size: int) -> list[range]:
    """Parts of so many (`itertools.batched` is new in Python 3.12)."""
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def find_place(kind: str, folder: Path, server: Server | None, number: int) -> Place:
    if server is None:
        store = f"sqlite:///{folder}/chats.db"
        system = store if kind == "one-file" else f"sqlite:///{folder}/dbos.db"
        return Place(store, system, "dbos")

    system = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
    return Place(server.url(f"chats_{number}"), system, f"dbos_{number}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
