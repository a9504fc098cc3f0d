"""
A DBOS workflow whose process is killed at one event after another, and what is there
after DBOS has recovered it: `python -m tests.hosts.dbos_kills`.

An event is a call of the store's backend, a statement of DBOS's own database, or a
request. The next process recovers the workflow by DBOS's `launch`.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from dbos import DBOS, SetWorkflowID

from conversation_state import Aggregator, open_store
from conversation_state.hosts.dbos import StoreSteps
from conversation_state.store import Store
from tests.hosts.kills import STEPS, Events, describe_store, kill_each
from tests.store.promises.case import RecordingBackend
from tests.store.server import Server

__all__ = ["main"]


class Place(NamedTuple):
    """Where the store is, the database of DBOS, and the schema that it has there."""

    store_url: str
    system_url: str
    schema: str


class Run:
    """A workflow in this process, of async steps or not."""

    def __init__(self, place: Place, events: Events, *, is_async: bool) -> None:
        self.place = place
        self.events = events
        self.is_async = is_async

    def run(self) -> dict[str, Any]:
        events = self.events
        store = open_store(self.place.store_url)
        watched = Store(RecordingBackend(store._cache.backend, events.note))
        steps = StoreSteps(watched)
        answer = steps.step()(events.ask_model)

        @steps.step()
        async def aanswer(state: Aggregator, step: int) -> Aggregator:
            return events.ask_model(state, step)

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
            sa.event.listen(sa.Engine, moment, events.note)

        DBOS.launch()
        events.is_counted = True
        if "chat" not in store:
            state = Aggregator.new().add_user_prompt("question")
            store.save("chat", state, expecting=0)

        if DBOS.get_workflow_status("run") is None:
            ref = str(store.ref(store.latest("chat", at=1)))
            with SetWorkflowID("run"):
                DBOS.start_workflow(apipeline if self.is_async else pipeline, ref)

        ref = DBOS.retrieve_workflow("run").get_result(polling_interval_sec=0.02)
        events.is_counted = False
        history = DBOS.list_workflow_steps("run")
        found = {
            "events": events.count,
            "requests": events.count_requests(),
            "steps": [step["function_id"] for step in history],
            **describe_store(store, ref),
        }
        DBOS.destroy()
        return found


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
            problems += _kill_in(kind, server, asked.every)
        finally:
            if server is not None:
                server.stop()

    print("Nothing was lost." if not problems else f"{problems} workflows went wrong.")
    return bool(problems)


def _kill_in(kind: str, server: Server | None, every: int) -> int:
    with tempfile.TemporaryDirectory() as base:

        def find_run(number: int, kill_at: int) -> Run:
            folder = Path(base, str(number))
            folder.mkdir(exist_ok=True)
            place = _find_place(kind, folder, server, number)
            return Run(place, Events(folder, kill_at), is_async=bool(number % 2))

        return kill_each(kind, find_run, "dbos/run/", every)


def _find_place(kind: str, folder: Path, server: Server | None, number: int) -> Place:
    if server is None:
        store = f"sqlite:///{folder}/chats.db"
        system = store if kind == "one-file" else f"sqlite:///{folder}/dbos.db"
        return Place(store, system, "dbos")

    system = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
    return Place(server.url(f"chats_{number}"), system, f"dbos_{number}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
