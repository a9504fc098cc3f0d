"""
The examples in README and docs, run as tests.

Docstrings are run by pytest itself (`--doctest-modules`). Examples may await, as in a
notebook: all of them run in one event loop.
"""

import ast
import asyncio
import doctest
import functools
import gc
import inspect
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator, pad
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

_POSTGRES = "CONVERSATION_STATE_POSTGRES"  # read by the examples of docs/store.md
_PACKAGE = Path(__file__).resolve().parent / "conversation_state"


@functools.cache
def _event_loop() -> asyncio.Runner:
    return asyncio.Runner()


class AwaitingEvaluator(PythonEvaluator):
    """Runs examples that may await, as a notebook does."""

    def __call__(self, example: Example) -> None:
        """Run *example*; in the event loop, if it awaits."""
        __tracebackhide__ = True
        flags = self.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        source = pad(example.parsed, example.line + example.parsed.line_offset)
        code = compile(source, example.path, "exec", flags=flags, dont_inherit=True)
        result = eval(code, example.namespace)
        if inspect.iscoroutine(result):
            _event_loop().run(result)

        del example.namespace["__builtins__"]


class AwaitingCodeBlockParser(PythonCodeBlockParser):
    """Reads Python's code blocks, for `AwaitingEvaluator`."""

    def __init__(self) -> None:
        super().__init__(doctest_optionflags=doctest.ELLIPSIS)
        self.codeblock_parser = CodeBlockParser("python", AwaitingEvaluator())


pytest_collect_file = Sybil(
    parsers=[
        AwaitingCodeBlockParser(),
        SkipParser(),
    ],
    patterns=["*.md"],
).pytest()


# Servers that tests start speak plain HTTP. Each client of an SDK would load all
# certificates of the system first, which takes longer than the test.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull


# What is imported for the tests is not garbage. Looking for some meanwhile takes a
# third of the time, and afterwards most of each collection that a test asks for.
gc.disable()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """
    Modules without an example are not searched for some: neither imported nor walked.
    """
    if collection_path.suffix != ".py" or _PACKAGE not in collection_path.parents:
        return None

    return True if b">>>" not in collection_path.read_bytes() else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """
    Where tests run in several processes, each begins to import elsewhere.

    Else, in a fresh checkout, each compiles every module that the others compile at
    that moment, which takes longer than the imports.
    """
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and isinstance(collector, pytest.Directory):
        index = int(worker["workerid"].removeprefix("gw"))
        start = len(report.result) * index // worker["workercount"]
        report.result[:] = report.result[start:] + report.result[:start]

    return report


def pytest_configure(config: pytest.Config) -> None:
    """Where integration tests run, so do the examples with a database server."""
    if "integration" in config.option.markexpr:
        os.environ[_POSTGRES] = "1"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """
    All of these processes number the tests alike; and examples, which have no markers,
    are integration tests where a database server is asked for.
    """
    for item in items:
        if item.path.name == "store.md" and _POSTGRES in os.environ:
            item.add_marker("integration")

    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> bool | None:
    """
    Each of these processes reports a test that passed once, and not its set-up and
    its teardown, too, each with all keywords: less than half of what reports cost.
    """
    if not hasattr(item.config, "workerinput"):
        return None

    runner: Any = item.config.pluginmanager.getplugin("runner")
    for report in runner.runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            report.keywords = {}
            item.ihook.pytest_runtest_logreport(report=report)

    return True


def pytest_collection_finish() -> None:
    """The garbage collector begins, and leaves alone what is there already."""
    # It looks for trio's random numbers among what is not frozen, and warns.
    import hypothesis  # noqa: F401, PLC0415

    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Checks that a page or a docstring shows draw few examples: tests draw more."""
    if not isinstance(item, pytest.DoctestItem | SybilItem):
        return (yield)

    from hypothesis import settings  # noqa: PLC0415

    from tests import profiles  # noqa: F401, PLC0415 - registers them

    before = settings.get_current_profile_name()
    settings.load_profile("quick")
    try:
        return (yield)
    finally:
        settings.load_profile(before)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """
    So does it with what the tests of a file leave behind: modules, caches, reports.

    Else each collection looks at all that tests before it imported and kept.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_sessionfinish() -> None:
    """
    A server that tests or examples asked for is stopped with them, and so is the
    event loop of the examples.
    """
    if _event_loop.cache_info().currsize:
        _event_loop().close()

    servers = sys.modules.get("tests.store.server")
    if servers is not None:
        servers.stop()
