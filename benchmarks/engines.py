"""
What workflow engines, queues and clusters keep or send of 100 steps on a conversation
of 1,050 and of 105,000 tokens, by reference and as each does it by default; and how
many requests are made where each worker is killed behind its answer.

- *DBOS* and *Temporal* write what each step takes and returns into their history, and
  *LangGraph* into its checkpoints. With references that is less than 20 kB of 100
  steps, whatever the conversation has; with lists of messages it is the conversation a
  hundred times, or two hundred. Bytes are those of DBOS's inputs and outputs in its
  tables, of Temporal's payloads with their metadata, and of all columns of LangGraph's
  `SqliteSaver`. A step on DBOS saves a turn and its usage as well: of the CPU time of
  one that returns the list it takes half to four fifths at 105,000 tokens, and 1.2 to
  1.9 times at 1,050.
- *The store* that references are into is a file of SQLite, with every state restorable:
  1.3 times the JSON of the last one at 105,000 tokens, and 1.16 at ten times as many. A
  seventh of it is a hundred revisions with their labels and leases, and the pages of
  tables that have few rows; a fifteenth is what pages of 4 kB leave free behind rows.
- *Celery* has a reference in the body of each task's message, and *Kafka* the turn in
  the value of each message.
- *Dask* and *Ray* get the state once for a fan-out. Bytes are what a branch carries:
  of Dask all that its client sent, of Ray the pickled arguments.
- *Kills*: of 10 activities of Temporal, or tasks of Celery, each is run twice, as if
  its worker had been killed before it reported; a step that the store has is not asked
  again. Of two workers of a cluster one is killed, and what ran there is run again:
  of nothing that a worker had not yet returned there is a copy. Dask's own executor
  loses some steps then, on a busy machine: they fail. Kills by a signal, at
  each event of a workflow, are counted by ``python -m tests.hosts.dbos_kills`` and
  ``temporal_kills``.

No server and no broker runs: Temporal's and Celery's own serializers make the bytes.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import random
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Annotated, Any, TypedDict

from benchmarks.measure import LeftOut, Row
from conversation_state import Aggregator, Usage, encode, fan_out, open_store
from conversation_state.errors import FanOutError
from conversation_state.hosts.dbos import StoreSteps
from conversation_state.parallel import DaskExecutor, RayExecutor
from conversation_state.parallel._branches import ForkedStep, Past, run_branch
from conversation_state.store import StateRef

STEPS = 100
KILLED_STEPS = 10
BRANCHES = 50
SIZES = (1_050, 105_000)
_TOKEN_CHARACTERS = 4


class Conversation:
    """
    A conversation of so many tokens, and what a model adds to it.

    Attributes:
        requests: How many answers were asked for.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.requests = 0
        self._texts = _make_texts()
        state = Aggregator.new()
        while sum(len(message.text) for message in state) < tokens * _TOKEN_CHARACTERS:
            state = state.add_user_prompt(self.write())
            state = state.add_assistant_message(self.write())

        self.state = state
        self.dicts = [{"role": each.role, "content": each.text} for each in state]

    def write(self) -> str:
        """What a model says next."""
        self.requests += 1
        return next(self._texts)

    def answer(self, state: Aggregator) -> Aggregator:
        """A step on states."""
        key = f"response {len(state)}"
        return state.add_assistant_message(self.write()).add_usage(Usage(9, 5), key=key)

    def answer_list(self, messages: list[Any]) -> list[Any]:
        """The same on lists, as engines' examples have it."""
        return [*messages, {"role": "assistant", "content": self.write()}]

    def row(self, claim: str, ours: float, beside: str, peer: float) -> Row:
        """A row in bytes."""
        return Row(claim, self.tokens, ours, beside, peer, "bytes")


def rows() -> Iterator[Row | LeftOut]:
    """Each engine, where it is installed."""
    for measure in (
        _measure_store,
        _measure_dbos,
        _measure_temporal,
        _measure_langgraph,
        _measure_celery,
        _measure_kafka,
        _measure_dask,
        _measure_ray,
    ):
        try:
            for tokens in SIZES:
                yield from measure(Conversation(tokens))
        except ModuleNotFoundError as error:
            yield LeftOut(measure.__name__.removeprefix("_measure_"), str(error))


def _make_texts() -> Iterator[str]:
    # Words that a compressor does not know.
    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(5000)]
    while True:
        yield " ".join(rng.choices(words, k=60))


def _measure_store(chat: Conversation) -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        with open_store(f"{folder}/chats.db") as store:
            ref = store.ref(store.save("chat", chat.state))
            for number in range(STEPS):
                ref = store.step_ref(ref, f"run/{number}", chat.answer)

            raw = len(encode(store.resolve(ref)))

        size = Path(folder, "chats.db").stat().st_size

    yield chat.row("the store: each of 100 states", size, "the last one's JSON", raw)


# DBOS

# What a step or a workflow gave to DBOS, by table.
_PAYLOADS = (
    ("operation_outputs", "output"),
    ("workflow_input", "inputs"),
    ("workflow_output", "output"),
)


def _measure_dbos(chat: Conversation) -> Iterator[Row]:
    from dbos import DBOS, SetWorkflowID

    workflows: dict[str, Callable[[Any], Any]] = {}

    def register(name: str, step: Callable[[Any], Any]) -> None:
        def run(value: Any) -> Any:
            for _ in range(STEPS):
                value = step(value)

            return value

        workflows[name] = DBOS.workflow(name=name)(run)

    with TemporaryDirectory() as folder, open_store(f"{folder}/chats.db") as store:
        history = Path(folder, "dbos.db")
        head = store.save("chat", chat.state)
        # DBOS sets attributes of the functions, so they are no methods.
        register("references", StoreSteps(store).step()(partial(chat.answer)))
        register("lists of messages", DBOS.step(name="list")(partial(chat.answer_list)))
        register("states, pickled", DBOS.step(name="state")(partial(chat.answer)))
        url = f"sqlite:///{history}"
        DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
        DBOS.launch()
        found = {}
        starts = str(store.ref(head)), chat.dicts, chat.state
        for (name, run), start in zip(workflows.items(), starts, strict=True):
            with SetWorkflowID(name):
                before = process_time()
                run(start)
                ms = (process_time() - before) * 1000 / STEPS

            found[name] = _count_payloads(history, name), ms

        DBOS.destroy(destroy_registry=True)
        assert STEPS == len(store.load("chat").ledger)

    (size, ms), *peers = found.values()
    assert size < 20_000
    for beside, (theirs, their_ms) in zip([*found][1:], peers, strict=True):
        yield chat.row("DBOS: 100 steps, history", size, beside, theirs)
        claim = "DBOS: a step, CPU time"
        yield Row(claim, chat.tokens, ms, beside, their_ms, "ms")


def _count_payloads(path: Path, workflow: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return sum(
            connection.execute(
                f"SELECT coalesce(sum(length({column})), 0) FROM {table}"
                " WHERE workflow_uuid = ?",
                [workflow],
            ).fetchone()[0]
            for table, column in _PAYLOADS
        )


# Temporal


def _measure_temporal(chat: Conversation) -> Iterator[Row]:
    from temporalio.converter import DataConverter
    from temporalio.testing import ActivityEnvironment

    from conversation_state.hosts.temporal import data_converter, run_step

    def run(converter: Any, activity: Callable[[Any], Any], value: Any) -> float:
        size = 0
        for number in range(STEPS):
            environment = ActivityEnvironment()
            environment.info = dataclasses.replace(
                environment.info, activity_id=str(number)
            )
            arguments = converter.payload_converter.to_payloads([value])
            # The second attempt is what follows a kill before the first is reported.
            for _ in range(1 + (number < KILLED_STEPS)):
                value_next = environment.run(activity, value)

            value = value_next
            results = converter.payload_converter.to_payloads([value])
            size += sum(payload.ByteSize() for payload in (*arguments, *results))

        return size

    with open_store("memory:") as store:
        ref = store.ref(store.save("chat", chat.state))
        before = chat.requests
        size = run(data_converter, lambda ref: run_step(store, ref, chat.answer), ref)
        requests = chat.requests - before
        assert STEPS == len(store.load("chat").ledger)

    assert size < 20_000
    before = chat.requests
    theirs = run(DataConverter.default, chat.answer_list, chat.dicts)
    beside = "lists of messages"
    yield chat.row("Temporal: 100 steps, payloads", size, beside, theirs)
    again, their_again = requests - STEPS, chat.requests - before - STEPS
    claim = "Temporal: requests made again, 10 kills"
    yield Row(claim, chat.tokens, again, beside, their_again, "")


# LangGraph


def _measure_langgraph(chat: Conversation) -> Iterator[Row]:
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import START, StateGraph
    from langgraph.graph.message import add_messages

    # Calls, since LangGraph would look for these names in this module.
    channel = Annotated[list[AnyMessage], add_messages]
    keys = {"ref": str, "step": int, "go": bool}
    by_reference: Any = TypedDict("by_reference", keys)  # type: ignore[misc]
    by_value: Any = TypedDict("by_value", {"messages": channel})

    def run(schema: Any, node: Callable[[Any], Any], start: Any, rest: Any) -> int:
        graph: Any = StateGraph(schema)
        graph.add_node("answer", node)
        graph.add_edge(START, "answer")
        with closing(sqlite3.connect(":memory:", check_same_thread=False)) as rows:
            compiled = graph.compile(checkpointer=SqliteSaver(rows))
            config: Any = {"configurable": {"thread_id": "1"}}
            compiled.invoke(start, config)
            for _ in range(STEPS - 1):
                compiled.invoke(rest, config)

            return _count_columns(rows)

    def answer(state: Any) -> Any:
        label = f"langgraph/1/{state['step']}"
        ref = store.step_ref(StateRef.parse(state["ref"]), label, chat.answer)
        return {"ref": str(ref), "step": state["step"] + 1}

    def answer_list(_: Any) -> Any:
        return {"messages": [AIMessage(chat.write())]}

    with open_store("memory:") as store:
        start = {"ref": str(store.ref(store.save("chat", chat.state))), "step": 0}
        size = run(by_reference, answer, start, {"go": True})

    messages = [
        HumanMessage(each["content"])
        if each["role"] == "user"
        else AIMessage(each["content"])
        for each in chat.dicts
    ]
    theirs = run(by_value, answer_list, {"messages": messages}, {"messages": []})
    yield chat.row("LangGraph: 100 steps, checkpoints", size, "add_messages", theirs)


def _count_columns(rows: sqlite3.Connection) -> int:
    size = 0
    for (table,) in rows.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
    ).fetchall():
        columns = [each[1] for each in rows.execute(f"PRAGMA table_info({table})")]
        lengths = " + ".join(f"coalesce(length({column}), 0)" for column in columns)
        (found,) = rows.execute(f"SELECT sum({lengths}) FROM {table}").fetchone()
        size += found or 0

    return size


# Celery and Kafka


def _measure_celery(chat: Conversation) -> Iterator[Row]:
    from celery import Celery

    app = Celery("bench")
    app.conf.task_always_eager = True

    def answer(task: Any, ref: str) -> str:
        label = f"celery/{task.request.id}"
        return str(store.step_ref(StateRef.parse(ref), label, chat.answer))

    def answer_list(messages: list[Any]) -> list[Any]:
        return chat.answer_list(messages)

    def run(task: Any, value: Any) -> tuple[int, int]:
        size, before = 0, chat.requests
        for number in range(STEPS):
            # As its producer does it, with the headers left out.
            message = app.amqp.create_task_message(str(number), task.name, [value], {})
            size += len(json.dumps(message.body))
            for _ in range(1 + (number < KILLED_STEPS)):
                result = task.apply_async([value], task_id=str(number)).get()

            value = result

        return size, chat.requests - before - STEPS

    with open_store("memory:") as store:
        ref = str(store.ref(store.save("chat", chat.state)))
        size, again = run(app.task(answer, bind=True), ref)
        assert STEPS == len(store.load("chat").ledger)

    theirs, their_again = run(app.task(answer_list), chat.dicts)
    beside = "lists of messages"
    yield chat.row("Celery: 100 tasks, message bodies", size, beside, theirs)
    claim = "Celery: requests made again, 10 kills"
    yield Row(claim, chat.tokens, again, beside, their_again, "")


def _measure_kafka(chat: Conversation) -> Iterator[Row]:
    state, messages = chat.state, chat.dicts
    size = theirs = 0
    topic = []
    for _ in range(STEPS):
        fork = state.fork()
        topic.append(encode(chat.answer(fork).turn))
        size += len(topic[-1])
        state = chat.answer(state)
        messages = chat.answer_list(messages)
        theirs += len(json.dumps(messages))

    yield chat.row("Kafka: 100 turns, values", size, "lists of messages", theirs)


# Clusters


def note_run(path: str, state: Aggregator) -> Aggregator:
    """A step that notes that it ran."""
    with Path(path).open("a") as file:
        file.write(".")

    return state.add_assistant_message("At noon, from platform 4.")


def die_once(path: str, state: Aggregator) -> Aggregator:
    """The same, and the worker is killed the first time."""
    answered = note_run(path, state)
    if not Path(f"{path} died").exists():
        Path(f"{path} died").touch()
        os._exit(3)

    return answered


def _count_runs(chat: Conversation, executor: Executor) -> tuple[int, int]:
    """How many steps ran again, and how many were lost, one of two workers killed."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/runs"
        steps = [partial(note_run, path)] * (BRANCHES - 1)
        steps.insert(BRANCHES // 2, partial(die_once, path))
        lost = 0
        try:
            state = fan_out(chat.state, steps, executor=executor).state
        except FanOutError as error:
            state, lost = error.state, len(error.failures)

        assert len(chat.state) + BRANCHES - lost == len(state)
        return Path(path).stat().st_size - BRANCHES, lost


def _measure_dask(chat: Conversation) -> Iterator[Row]:
    import dask
    import distributed

    make_cluster: Any = distributed.LocalCluster
    make_client: Any = distributed.Client
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    with (
        warnings.catch_warnings(action="ignore"),
        make_cluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        make_client(cluster) as client,
    ):
        found = []
        for executor in (DaskExecutor(client), client.get_executor()):
            before = client.scheduler_comm.byte_count
            again, lost = _count_runs(chat, executor)
            size = (client.scheduler_comm.byte_count - before) / BRANCHES
            found.append((size, again, lost))
            client.wait_for_workers(2)

    (size, again, lost), (theirs, their_again, their_lost) = found
    assert not lost
    beside = "client.get_executor()"
    yield chat.row("Dask: a branch", size, beside, theirs)
    claim = "Dask: steps run again, a worker killed"
    yield Row(claim, chat.tokens, again, beside, their_again, "")
    yield Row("Dask: steps lost", chat.tokens, lost, beside, their_lost, "")


def _measure_ray(chat: Conversation) -> Iterator[Row]:
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _node_ip_address="127.0.0.1",
    )
    try:
        sent: list[int] = []

        class Measuring(RayExecutor):
            def _take_apart(self, branch: Any) -> Any:
                found = super()._take_apart(branch)
                sent.append(len(ray.cloudpickle.dumps(found[1:])))
                return found

        again, lost = _count_runs(chat, Measuring())
        assert not lost
    finally:
        ray.shutdown()

    branch = ForkedStep(0, partial(note_run, "runs"), Past(chat.state))
    theirs = len(ray.cloudpickle.dumps((run_branch, branch)))
    yield chat.row("Ray: a branch", max(sent), "with the state", theirs)
    claim = "Ray: steps run again, a worker killed"
    yield Row(claim, chat.tokens, again, unit="")
