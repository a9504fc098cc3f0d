"""Steps of DBOS workflows on references, held against DBOS's own database."""

import asyncio
import importlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from conversation_state import Usage, UserMessage
from conversation_state.errors import MissingExtraError, NotSavedError
from conversation_state.hosts.dbos import StoreSteps
from conversation_state.parallel import save_progress
from conversation_state.store import StateRef, open_store
from tests.processes import ROOT
from tests.store import server as servers

dbos: Any = pytest.importorskip("dbos", reason="needs DBOS (extra dbos)")
DBOS, SetWorkflowID = dbos.DBOS, dbos.SetWorkflowID
# There it has SQLite give it a time that older ones do not know.
if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
    pytest.skip(
        f"DBOS wants SQLite 3.42 on Python 3.12, here is {sqlite3.sqlite_version}",
        allow_module_level=True,
    )

# More than 100,000 tokens.
LONG = "All work and no play makes Jack a dull boy. " * 10_000

# Three processes for each of two hundred events: four minutes of computing, which take
# eight on a busy machine.
HUNDREDS = (pytest.mark.slow, pytest.mark.timeout(1_800))


class Pipelines:
    """Workflows of DBOS, which are registered once, and what they were asked for."""

    def __init__(self, folder):  # noqa: C901 - workflows, each a few lines
        self.database = folder / "dbos.db"
        self.store = open_store("memory:")
        self.steps = steps = StoreSteps(self.store, keep=timedelta(days=9))
        self.requests: list[str] = []
        self.failures = 0

        def add(state, text):
            self.requests.append(text)
            state = state.add_assistant_message(text).add_usage(Usage(9, 1), key=text)
            if self.failures:
                self.failures -= 1
                save_progress(state)
                raise TimeoutError("no answer")

            return state

        @steps.step()
        def answer(state, text):
            return add(state, text)

        @steps.step(retries_allowed=True, interval_seconds=0.001)
        def answer_again(state, text):
            return add(state, f"{text}, attempt {DBOS.step_status.current_attempt}")

        @steps.step(name="of another name")
        async def aanswer(state, *, text):
            await asyncio.sleep(0)
            return add(state, text)

        @steps.step()
        def join(state, *refs):
            states = [self.store.resolve(StateRef.parse(ref)) for ref in refs]
            return state.join(*states, *states)

        @DBOS.step()
        def outer(ref):
            return answer(ref, "never")

        @DBOS.workflow()
        def run(ref, texts, kind="answer"):
            step = {"answer": answer, "again": answer_again, "outer": outer}[kind]
            for text in texts:
                ref = step(ref, text) if text else step(ref)

            return ref

        @DBOS.workflow()
        async def arun(ref, texts):
            refs = await asyncio.gather(*[aanswer(ref, text=text) for text in texts])
            return [*refs, join(ref, *refs)]

        self.answer, self.aanswer, self.run, self.arun = answer, aanswer, run, arun

    def begin(self, text="question"):
        """A name of its own, and the text of a reference to its state."""
        name = uuid4().hex
        head = self.store.append(name, UserMessage(text), expecting=0)
        return name, str(self.store.ref(head))

    def count_payloads(self, workflow):
        """The bytes of what stands in DBOS's history: of all columns with values."""
        with closing(sqlite3.connect(self.database)) as rows:
            return sum(
                len(value)
                for table, column in (
                    ("operation_outputs", "output"),
                    ("workflow_input", "inputs"),
                    ("workflow_output", "output"),
                )
                for (value,) in rows.execute(
                    f"SELECT {column} FROM {table} WHERE workflow_uuid = ?", [workflow]
                )
                if value
            )


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    """DBOS, launched with a database in a file."""
    found = Pipelines(tmp_path_factory.mktemp("dbos"))
    DBOS(
        config={
            "name": "tests",
            "system_database_url": f"sqlite:///{found.database}",
            "application_version": "1",
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    yield found
    assert () == found.store.verify()
    DBOS.destroy(destroy_registry=True)


def keys(state):
    return [entry.id for entry in state.ledger]


def texts(state):
    return [message.text for message in state]


class TestSteps:
    def test_history_has_references_only(self, pipelines):
        """
        What DBOS writes of a step is a reference, however long the conversation is; and
        each step is a turn, with its usage and a label that names the workflow.
        """
        name, ref = pipelines.begin(LONG)
        asked = [str(number) for number in range(20)]
        with SetWorkflowID(f"history of {name}"):
            ref = pipelines.run(ref, asked)

        state = pipelines.store.load(name)
        assert [LONG, *asked] == texts(state)
        assert asked == keys(state)
        assert state == pipelines.store.resolve(StateRef.parse(ref))
        assert (f"dbos/history of {name}/20",) == pipelines.store.latest(name).labels
        # So that of 100 steps is less than 20 kB.
        assert 500 < pipelines.count_payloads(f"history of {name}") < 20 * 200

    def test_replayed(self, pipelines):
        """A workflow that is called again with its identity asks for nothing."""
        name, ref = pipelines.begin()
        results = []
        for _ in range(2):
            # No label has a line break, or so many characters.
            with SetWorkflowID(f"twice\n{name}{'!' * 600}"):
                results.append(pipelines.run(ref, ["a", "b"]))

        assert results[0] == results[1]
        assert ["a", "b"] == pipelines.requests[-2:] == keys(pipelines.store.load(name))
        assert pipelines.store.latest(name).labels[0].startswith(f"dbos/twice%0A{name}")

    def test_at_once(self, pipelines):
        """
        Async steps that begin with one reference are joined: each turn is there once
        and billed once, also where their states are joined again.
        """
        name, ref = pipelines.begin()
        *refs, joined = asyncio.run(pipelines.arun(ref, ["a", "b", "c"]))
        state = pipelines.store.load(name)

        assert ["a", "b", "c"] == sorted(keys(state))
        assert {"question", "a", "b", "c"} == {*texts(state)}
        assert 4 == len(state)
        assert state == pipelines.store.resolve(StateRef.parse(joined))
        assert 3 == len({*refs})

    def test_kept(self, pipelines):
        """A reference is kept for as long as was asked for."""
        _, ref = pipelines.begin()
        until = StateRef.parse(pipelines.run(ref, ["a"])).until
        expected = datetime.now(UTC) + timedelta(days=9)

        assert until is not None
        assert abs(until - expected) < timedelta(minutes=5)

    def test_retries(self, pipelines):
        """
        An attempt that failed has the usage that it reported in the ledger, and no
        message; the next one is the step.
        """
        name, ref = pipelines.begin()
        pipelines.failures = 1
        pipelines.run(ref, ["a"], "again")
        state = pipelines.store.load(name)

        assert ["question", "a, attempt 1"] == texts(state)
        assert ["a, attempt 0", "a, attempt 1"] == keys(state)

    def test_errors(self, pipelines):
        """
        An error of the function, of the store and of a reference reaches the caller of
        the workflow, also where DBOS has it in its history only.
        """
        name, ref = pipelines.begin()
        pipelines.failures = 1
        with SetWorkflowID(f"fails {name}"), pytest.raises(TimeoutError):
            pipelines.run(ref, ["a"])

        assert ["a"] == keys(pipelines.store.load(name))
        pipelines.store.delete(name)
        for _ in range(2):
            with SetWorkflowID(f"gone {name}"), pytest.raises(NotSavedError) as caught:
                pipelines.run(ref, ["b"])

            assert "its name was deleted on" in str(caught.value)

        with pytest.raises(ValueError, match=r"expected str\(\) of a StateRef"):
            pipelines.run("chat", ["b"])

        assert "b" != pipelines.requests[-1]

    def test_forked_workflow(self, pipelines):
        """A fork of a workflow begins with the reference of its first step."""
        name, ref = pipelines.begin()
        with SetWorkflowID(f"first {name}"):
            pipelines.run(ref, ["a", "b"])

        count = len(pipelines.requests)
        forked = DBOS.fork_workflow(f"first {name}", 2)
        made = StateRef.parse(forked.get_result(polling_interval_sec=0.02))

        assert ["b"] == pipelines.requests[count:]
        assert pipelines.store.load(name) == pipelines.store.resolve(made)
        # Both answers are turns, and their usage has one key.
        assert ["question", "a", "b", "b"] == texts(pipelines.store.load(name))
        assert ["a", "b"] == keys(pipelines.store.load(name))


class TestMisuse:
    def test_outside_of_a_workflow(self, pipelines):
        """Called where it has no number, a step is an error that says what to do."""
        _, ref = pipelines.begin()
        with pytest.raises(
            RuntimeError, match=r"answer .* outside of a workflow; call"
        ):
            pipelines.answer(ref, "never")

        with pytest.raises(RuntimeError, match="in another step; call it in the work"):
            pipelines.run(ref, [""], "outer")

        assert "never" not in pipelines.requests

    def test_invalid(self, pipelines):
        """What is no store or no function is an error."""
        with pytest.raises(TypeError, match=r"StoreSteps\.from_url opens one"):
            StoreSteps("memory:")  # type: ignore[arg-type]

        with pytest.raises(TypeError, match="with parentheses"):
            pipelines.steps.step()(None)

        with pytest.raises(TypeError):
            pipelines.steps.step(lambda state: state)

    def test_without_dbos(self, monkeypatch):
        """Without DBOS the host is imported, and a step names the extra it needs."""
        monkeypatch.setitem(sys.modules, "dbos", None)
        monkeypatch.delitem(sys.modules, StoreSteps.__module__)
        steps = importlib.import_module(StoreSteps.__module__).StoreSteps.from_url(
            "memory:"
        )
        with pytest.raises(MissingExtraError, match=r"conversation-state\[dbos\]"):
            steps.step()

        steps.close()

    def test_with_half_of_dbos(self, monkeypatch, pipelines):
        """A module that DBOS itself lacks is named, and no matter of the extra."""

        class Half:
            def __getattr__(self, name):
                raise ModuleNotFoundError("no psycopg", name="psycopg")

        monkeypatch.setitem(sys.modules, "dbos", Half())
        with pytest.raises(ModuleNotFoundError, match="no psycopg"):
            pipelines.steps.step()

    def test_async_step_outside_of_a_workflow(self, pipelines):
        """An async step, too, is called in a workflow."""
        _, ref = pipelines.begin()
        with pytest.raises(RuntimeError, match="outside of a workflow"):
            asyncio.run(pipelines.aanswer(ref, text="never"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    ("kind", "every"),
    [
        ("sqlite", 45),
        pytest.param("one-file", 1, marks=HUNDREDS),
        pytest.param("sqlite", 1, marks=HUNDREDS),
        pytest.param("postgresql", 1, marks=HUNDREDS),
    ],
)
@pytest.mark.integration
def test_killed(kind, every):
    """
    Killed at an event of the store or of DBOS, and again while DBOS recovers it, a
    workflow has each turn once, bills each once, and makes at most one request again
    for each kill.
    """
    if kind == "postgresql":
        servers.server()  # a missing server is reported there

    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.hosts.dbos_kills"),
            *("--only", kind, "--every", str(every)),
        ],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.endswith(" 0 wrong\nNothing was lost.\n")
    assert " 0 kills" not in done.stdout
