"""
What suites and programs of others say of this library: they share no code with it.

    python -m tools.judges

The suite of LangGraph is that of its source distribution, with the tests that take a
checkpointer; ours is in the place of theirs. The other suites are called by our tests,
and the vendors' packages and programs by what is beside the recordings of their
answers (`make wires`, `python -m tests.adapters.session_oracles`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tools.proof import Done, count_tests

__all__ = ["JUDGES", "main"]

ROOT = Path(__file__).resolve().parent.parent

# Who judges, what is judged, and the tests in which the judge is asked.
JUDGES: Sequence[tuple[str, str, Sequence[str]]] = (
    (
        "langgraph-checkpoint-conformance {langgraph-checkpoint-conformance}",
        "the checkpointer, on each store",
        ("tests/hosts/test_langgraph_graphs.py::test_conformance",),
    ),
    (
        "claude-agent-sdk {claude-agent-sdk}: its fourteen contracts",
        "the session store, under asyncio and trio",
        ("tests/hosts/test_claude_agent.py", "-k", "conformance"),
    ),
    (
        "npm's ai {ai} and {ai7}",
        "messages, requests and streams of the AI SDK",
        ("tests/adapters/test_ai_sdk.py",),
    ),
    (
        "npm's @ag-ui/client {@ag-ui/client}, and ag-ui-protocol {ag-ui-protocol}",
        "events and input of AG-UI",
        ("tests/adapters/test_ag_ui.py",),
    ),
    (
        "npm's @assistant-ui/core {@assistant-ui/core}",
        "trees of messages",
        ("tests/adapters/test_message_trees_oracle.py",),
    ),
    (
        "Codex 0.171.0 and OpenCode 1.18.33, as recorded",
        "sessions that are written for them",
        ("tests/adapters/test_sessions_oracles.py",),
    ),
)

# What LangGraph's `tests/conftest.py` gets at its end.
_FIXTURES = """

from conversation_state import open_store
from conversation_state.hosts.langgraph import ConversationStateSaver


@pytest.fixture
def sync_checkpointer(tmp_path):
    with open_store(f"sqlite:///{tmp_path / 'checkpoints.db'}") as store:
        yield ConversationStateSaver(store)
        assert store.verify() == ()


@pytest.fixture
def async_checkpointer(sync_checkpointer):
    return sync_checkpointer


def pytest_collection_modifyitems(items):
    ours = {"sync_checkpointer", "async_checkpointer"}
    items[:] = [each for each in items if ours & {*each.fixturenames}]
"""


def run_pytest(
    folder: Path, arguments: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """What pytest counts in *folder*, and its exit code; what fails is printed."""
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        print(*lines[-40:], sep="\n", file=sys.stderr)

    return count_tests(Done(lines, done.returncode))


def run_langgraph() -> dict[str, Any]:
    """LangGraph's own tests that take a checkpointer, with ours on SQLite."""
    version = metadata.version("langgraph")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(  # noqa: S603 - ours
            [
                *(sys.executable, "-m", "pip", "download", "-q", "--no-deps"),
                *("--no-binary", ":all:", "--dest", folder, f"langgraph=={version}"),
            ],
            check=True,
        )
        with tarfile.open(Path(folder, f"langgraph-{version}.tar.gz")) as archive:
            archive.extractall(folder, filter="data")

        source = Path(folder, f"langgraph-{version}")
        # The tests judge the package that is installed.
        (source / "langgraph").rename(source / "not-imported")
        with (source / "tests" / "conftest.py").open("a", encoding="utf-8") as file:
            file.write(_FIXTURES)

        tests = [
            path.relative_to(source).as_posix()
            for path in sorted((source / "tests").glob("test_*.py"))
            if "sync_checkpointer" in path.read_text("utf-8")
        ]
        # What its own checkpointers fail, too, where `langchain` is installed.
        options = ("--numprocesses=auto", "-k", "not test_weather_subgraph", *tests)
        return run_pytest(source, options, {"NO_DOCKER": "true"})


def add_versions(judge: str) -> str:
    """
    *judge* with the versions of the packages that it names: of npm's those that are
    asked, of Python's those that are installed.
    """
    asked = json.loads((ROOT / "tests" / "wires" / "package.json").read_text("utf-8"))

    def find(name: re.Match[str]) -> str:
        version = asked["dependencies"].get(name[1]) or metadata.version(name[1])
        return version.rpartition("@")[2]

    return re.sub(r"{(.+?)}", find, judge)


def run_judges() -> Iterator[dict[str, Any]]:
    """A row for each judge."""
    judge, judged = (
        "langgraph {langgraph}: its own tests",
        "the checkpointer, on SQLite",
    )
    yield {"judge": add_versions(judge), "judged": judged, **run_langgraph()}
    for judge, judged, tests in JUDGES:
        # Also on the server's store.
        found = run_pytest(ROOT, ["-m", "integration or not slow", *tests], {})
        yield {"judge": add_versions(judge), "judged": judged, **found}


def main(arguments: Sequence[str]) -> int:
    """Print a JSON object for each judge; 1 if one of them found a fault."""
    argparse.ArgumentParser(prog="python -m tools.judges").parse_args(arguments)
    is_faulty = False
    for row in run_judges():
        print(json.dumps(row), flush=True)
        is_faulty = is_faulty or row["exit"] != 0

    return int(is_faulty)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
