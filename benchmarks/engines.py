"""
A pipeline of 100 steps on a workflow engine, on a conversation of 105,000 tokens.

- *DBOS* writes what each step returns into its database. With `hosts.dbos` that is a
  reference, and the whole history has less than 20 kB, whatever the conversation has;
  the list of messages, or a state, is written a hundred times: more than 60 MB.
  Bytes are those of all inputs and outputs in DBOS's tables, in a file of SQLite; the
  store is another file. A step takes half to three quarters of the CPU time of one
  that returns the list, though it saves a turn and its usage as well.

What kills do is counted by ``python -m tests.hosts.dbos_kills``.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from benchmarks.measure import Row
from conversation_state import Aggregator, Usage, open_store
from conversation_state.hosts.dbos import StoreSteps

STEPS = 100
TOKENS = 105_000
_TOKEN_CHARACTERS = 4

# What a step or a workflow gave to DBOS, by table.
_PAYLOADS = (
    ("operation_outputs", "output"),
    ("workflow_input", "inputs"),
    ("workflow_output", "output"),
)


def rows() -> Iterator[Row]:
    """The comparisons."""
    from dbos import DBOS, SetWorkflowID

    texts = _make_texts()
    state = Aggregator.new()
    while sum(len(message.text) for message in state) < TOKENS * _TOKEN_CHARACTERS:
        state = state.add_user_prompt(next(texts)).add_assistant_message(next(texts))

    def answer(state: Aggregator) -> Aggregator:
        key = f"response {len(state)}"
        return state.add_assistant_message(next(texts)).add_usage(Usage(9, 5), key=key)

    def answer_list(messages: list[Any]) -> list[Any]:
        return [*messages, {"role": "assistant", "content": next(texts)}]

    dicts = [{"role": each.role, "content": each.text} for each in state]
    with TemporaryDirectory() as folder, open_store(f"{folder}/chats.db") as store:
        history = Path(folder, "dbos.db")
        head = store.save("chat", state)
        pipelines: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "references": (StoreSteps(store).step()(answer), str(store.ref(head))),
            "DBOS, lists of messages": (DBOS.step(name="list")(answer_list), dicts),
            "DBOS, states": (DBOS.step(name="state")(answer), state),
        }
        for name, (step, _) in pipelines.items():
            _register(DBOS, name, step)

        url = f"sqlite:///{history}"
        DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
        DBOS.launch()
        found = {}
        for name, (_, start) in pipelines.items():
            with SetWorkflowID(name):
                before = process_time()
                _PIPELINES[name](start)
                ms = (process_time() - before) * 1000 / STEPS

            found[name] = _count_payloads(history, name), ms

        DBOS.destroy(destroy_registry=True)
        assert STEPS == len(store.load("chat").ledger)

    (size, ms), *peers = found.values()
    assert size < 20_000
    for beside, (theirs, their_ms) in zip([*found][1:], peers, strict=True):
        yield Row("DBOS: 100 steps, history", TOKENS, size, beside, theirs, "bytes")
        yield Row("DBOS: a step, CPU time", TOKENS, ms, beside, their_ms, "ms")


_PIPELINES: dict[str, Callable[[Any], Any]] = {}


def _register(dbos: Any, name: str, step: Callable[[Any], Any]) -> None:
    def run(value: Any) -> Any:
        for _ in range(STEPS):
            value = step(value)

        return value

    _PIPELINES[name] = dbos.workflow(name=name)(run)


def _make_texts() -> Iterator[str]:
    # Words that a compressor does not know.
    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(5000)]
    while True:
        yield " ".join(rng.choices(words, k=60))


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
