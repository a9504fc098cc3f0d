"""
A plugin of pytest that counts what tests do, for `tools.proof`.

Loaded with `-p tools.proof_counts`; writes a JSON object to the file that
`PROOF_COUNTS` names. With xdist each process counts, and the first adds it up.
"""

import functools
import importlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LAWS = "conversation_state.testing.laws"
EXAMPLES = re.compile(r"(\d+) passing")

tests: Counter[str] = Counter()
examples: Counter[str] = Counter()
laws: Counter[str] = Counter()


def count_examples(statistics: str) -> int:
    """The examples that passed, in what Hypothesis says of one test."""
    return sum(map(int, EXAMPLES.findall(statistics)))


def count_calls(name: str, law: Callable[..., Any]) -> Callable[..., Any]:
    """*law*, counted each time it held."""

    @functools.wraps(law)
    def counted(*args: Any, **kwargs: Any) -> Any:
        result = law(*args, **kwargs)
        laws[name] += 1
        return result

    return counted


def pytest_configure() -> None:
    """Count the laws from now on, before a test imports one."""
    module = importlib.import_module(LAWS)
    for name in module.__all__:
        law = getattr(module, name)
        if callable(law) and not isinstance(law, type):
            setattr(module, name, count_calls(name, law))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """Add the examples of a test when it is over."""
    yield
    if call.when == "teardown":
        file = item.nodeid.partition("::")[0]
        examples[file] += count_examples(getattr(item, "hypothesis_statistics", ""))


def pytest_runtest_logreport(report: Any) -> None:
    """Add how a test ended: where xdist runs, in the first process only."""
    if report.when == "call" or not report.passed:
        tests[report.outcome] += 1
        tests[f"file {report.nodeid.partition('::')[0]}"] += report.passed


def pytest_testnodedown(node: Any) -> None:
    """Add what another process counted."""
    found = getattr(node, "workeroutput", {}).get("proof_counts", {})
    for name, counter in list_counters().items():
        counter.update(found.get(name, {}))


pytest_testnodedown = pytest.hookimpl(optionalhook=True)(pytest_testnodedown)


def pytest_sessionfinish(session: Any) -> None:
    """Hand over the counts, or write them."""
    counts = {name: dict(counter) for name, counter in list_counters().items()}
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["proof_counts"] = counts


def pytest_unconfigure(config: Any) -> None:
    """Write what all processes counted."""
    if not hasattr(config, "workeroutput") and "PROOF_COUNTS" in os.environ:
        counts = {"tests": dict(tests)}
        counts |= {name: dict(each) for name, each in list_counters().items()}
        text = json.dumps(counts)
        Path(os.environ["PROOF_COUNTS"]).write_text(text, encoding="utf-8")


def list_counters() -> dict[str, Counter[str]]:
    """What each process counts for itself."""
    counts = importlib.import_module("tests.counts").COUNTS
    return {"examples": examples, "laws": laws, "done": counts}
