"""
Tests run in forked processes, each on a copy of the repository.

The parent imports third parties once, and a child only this package and its tests:
a mutant costs a second, not the ten that a new interpreter would. What is forked
sees one changed file in a copy; the checkout is never written to.
"""

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

PACKAGE = "conversation_state"
OURS = (PACKAGE, "tests", "tools", "conftest", "docs", "examples", "benchmarks")
IGNORED = shutil.ignore_patterns(".*", "__pycache__", "dist", "build", "*.egg-info")

# Seconds that a test may wait for something that never comes, beside 20 times what it
# usually takes: the machine may be busy with other mutants.
WAITING = 30

# What coverage calls the time outside of tests: while they are imported and collected.
COLLECTION = ""

# pytest's own exit codes.
PASSED, FAILED, INTERRUPTED, NO_TESTS = 0, 1, 2, 5

Status = Literal["passed", "failed", "timeout", "crashed", "empty"]


@attrs.frozen(kw_only=True)
class Order:
    """
    Which tests a child runs: those in *files*; first those in *first*, the quickest
    first, and only these if *only*; never those in *without*.
    """

    files: Sequence[str]
    first: Mapping[str, float] = attrs.field(factory=dict)
    without: frozenset[str] = frozenset()
    only: bool = False
    profile: str = "default"
    measured: bool = False
    stop: bool = True
    seconds: float = 600


@attrs.frozen(kw_only=True)
class Outcome:
    """How a child ended: *by* is the test that failed first, or why no test ran."""

    status: Status
    by: str = ""
    tests: int = 0
    seconds: float = 0.0
    facts: Mapping[str, Any] = attrs.field(factory=dict)


class Copy:
    """A copy of the repository in which one file at a time is changed."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(root, folder, ignore=IGNORED)
        # A compiled file belongs to a source of one size and one whole second.
        self._clock = int(time.time()) + 3_600

    @contextlib.contextmanager
    def change(self, path: str, source: bytes) -> Iterator[None]:
        """*path* has the content *source* until the block ends."""
        target = self.folder / path
        before, times = target.read_bytes(), target.stat()
        self._clock += 1
        target.write_bytes(source)
        os.utime(target, (self._clock, self._clock))
        try:
            yield
        finally:
            target.write_bytes(before)
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def import_third_parties(names: Sequence[str]) -> None:
    """Import what a child imported that is not ours, so that the next one need not."""
    os.environ["HYPOTHESIS_NO_PLUGINS"] = "1"  # one of them is ours
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


class Child:
    """A forked process that runs tests; ended with all that it started."""

    def __init__(self, copy: Copy, order: Order) -> None:
        self._report = copy.folder.with_suffix(".json")
        self._report.unlink(missing_ok=True)
        self._seconds = order.seconds
        self._began = time.monotonic()
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            try:
                run_isolated(copy.folder, order, self._report)
            except BaseException:  # noqa: BLE001 - a child has no caller
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)

    def poll(self) -> Outcome | None:
        """How it ended; None while it runs."""
        pid, _, usage = os.wait4(self.pid, os.WNOHANG)
        if pid:
            self._kill_group()
            return self._read_outcome(usage.ru_utime + usage.ru_stime)

        # In CPU time it is limited by the system; this is for those that wait.
        if time.monotonic() - self._began > 60 + 5 * self._seconds:
            self.kill()
            return Outcome(status="timeout", by="no end", seconds=self._seconds)

        return None

    def wait(self) -> Outcome:
        """How it ended, when it has."""
        while (outcome := self.poll()) is None:
            time.sleep(0.02)

        return outcome

    def kill(self) -> None:
        """End it at once."""
        self._kill_group()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _read_outcome(self, seconds: float) -> Outcome:
        if not self._report.exists():
            timeout = seconds >= self._seconds - 1
            return Outcome(
                status="timeout" if timeout else "crashed",
                by="CPU time" if timeout else "the process died",
                seconds=seconds,
            )

        facts = json.loads(self._report.read_text(encoding="utf-8"))
        return Outcome(
            status=read_status(facts["exit"]),
            by=facts.pop("by"),
            tests=facts.pop("tests"),
            seconds=seconds,
            facts=facts,
        )


def read_status(code: int) -> Status:
    """What pytest's exit code means for a mutant."""
    statuses: dict[int, Status] = {
        PASSED: "passed",
        FAILED: "failed",
        INTERRUPTED: "failed",
        NO_TESTS: "empty",
    }
    return statuses.get(code, "crashed")


def run_isolated(folder: Path, order: Order, report: Path) -> None:
    """Run tests in this process, which was forked for it, and write how they ended."""
    import resource  # noqa: PLC0415 - the lists of mutants need no POSIX

    os.setsid()
    if not os.environ.get("MUTANTS_SHOW"):
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)

    limit = int(order.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(folder)
    root = str(Path(__file__).resolve().parent.parent)
    sys.path[:] = [str(folder), *(each for each in sys.path if each not in {"", root})]
    os.environ["PYTHONPATH"] = str(folder)
    os.environ.pop("HYPOTHESIS_NO_PLUGINS", None)
    for name in list(sys.modules):
        if name.partition(".")[0] in OURS:
            del sys.modules[name]

    importlib.invalidate_caches()
    report.write_text(json.dumps(run_tests(folder, order)), encoding="utf-8")


def run_tests(folder: Path, order: Order) -> dict[str, Any]:
    """Run tests in this process; what pytest returned, and what was measured."""
    import pytest  # noqa: PLC0415 - only a child runs tests

    plugin = _Plugin(folder, order)
    # The package's own strategies, as if Hypothesis had just been imported.
    if "hypothesis" in sys.modules:
        from hypothesis import entry_points  # noqa: PLC0415 - as above

        try:
            entry_points.run()
        except Exception as error:  # noqa: BLE001 - a mutant may raise anything
            return {"exit": INTERRUPTED, "by": f"import: {error!r}", "tests": 0}

    code = pytest.main(
        [
            *("-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *(["-x"] if order.stop else []),
            # Plugins were imported by the parent, where nothing rewrites them.
            *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
            f"--timeout={WAITING + 20 * max(order.first.values(), default=5):.0f}",
            *order.files,
        ],
        plugins=[plugin],
    )
    return {"exit": int(code), **plugin.finish()}


class _Plugin:
    """Selects and orders tests, notes which failed, and measures what each runs."""

    def __init__(self, folder: Path, order: Order) -> None:
        self._folder = folder
        self._order = order
        self._failed: list[str] = []
        self._blind: list[str] = []
        self._starts_process = False
        self._seconds: dict[str, float] = {}
        self._coverage: Any = None
        if order.measured:
            coverage = importlib.import_module("coverage")  # mutants run without
            os.environ["COVERAGE_CORE"] = "ctrace"  # the only one that knows contexts
            self._coverage = coverage.Coverage(
                data_file=None, config_file=False, source=[str(folder / PACKAGE)]
            )
            self._coverage.start()
            sys.addaudithook(self._note_process)

    def _note_process(self, event: str, _: object) -> None:
        # What another process runs is not measured.
        if event in {"subprocess.Popen", "os.fork", "os.posix_spawn"}:
            self._starts_process = True

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings  # noqa: PLC0415 - only a child runs it

        # Examples of docstrings alone do not load what the tests share.
        with contextlib.suppress(ImportError):
            importlib.import_module("tests.profiles")

        # The first failing example is enough: no reader needs the smallest one.
        settings.register_profile(
            "mutants",
            settings.get_profile(self._order.profile),
            phases=(Phase.explicit, Phase.generate),
            report_multiple_bugs=False,
        )
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        first = self._order.first
        items[:] = [
            item
            for item in items
            if item.nodeid not in self._order.without
            if item.nodeid in first or not self._order.only
        ]
        if first:
            last = float("inf")
            items.sort(key=lambda item: first.get(item.nodeid, last))

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._failed.append(f"import of {report.nodeid}")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

        self._seconds[report.nodeid] = (
            self._seconds.get(report.nodeid, 0.0) + report.duration
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._coverage is not None:
            self._coverage.switch_context(nodeid)
            self._tracer = sys.gettrace()
            self._starts_process = False

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        # A test may have a trace function of its own, and take ours away.
        if self._coverage is None:
            return

        is_same = sys.gettrace() is self._tracer
        if self._starts_process or not is_same:
            self._blind.append(nodeid)

        if not is_same:
            self._coverage.stop()
            self._coverage.start()

    def finish(self) -> dict[str, Any]:
        found = {
            "by": self._failed[0] if self._failed else "",
            "failed": sorted(set(self._failed)),
            "tests": len(self._seconds),
        }
        if self._coverage is not None:
            self._coverage.stop()
            found["times"] = self._seconds
            found["blind"] = self._blind
            found["lines"] = self._read_lines()
            found["modules"] = self._list_third_parties()

        return found

    def _read_lines(self) -> dict[str, dict[int, list[str]]]:
        data = self._coverage.get_data()
        return {
            Path(path).relative_to(self._folder).as_posix(): {
                line: sorted(each)
                for line, each in data.contexts_by_lineno(path).items()
                if each
            }
            for path in data.measured_files()
        }

    def _list_third_parties(self) -> list[str]:
        return [
            name
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] not in OURS
            if str(self._folder) not in str(getattr(module, "__file__", ""))
        ]
