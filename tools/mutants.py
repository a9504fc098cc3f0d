"""
Mutants: what the tests notice of small faults in the code, module by module.

    python -m tools.mutants timeline store --sample 40 --seed 0

A sample of the possible mutants of each module is planted, one at a time, in a copy of
the repository, and meets those tests of the module that run the changed line. A mutant
is killed when one of them fails or does not end; those that survive are listed, for a
person to judge: some change nothing that can be observed.

Libraries do part of this. mutmut (3.8) leaves out whatever is decorated and takes no
sample; cosmic-ray (8.7) changes the working tree, and runs all tests for each mutant.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

__all__ = ["Mutant", "find_mutants", "find_tests", "list_modules", "main"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "conversation_state"

# The tests of a module whose names do not begin with its own, beside `tests/NAME*`.
TESTS: dict[str, Sequence[str]] = {
    "_persistent": ("test_log*.py", "test_frozen.py", "test_values.py"),
    "_canonical": (
        *("test_codec*.py", "test_documents.py", "test_parsing.py"),
        "test_tool_calls.py",
    ),
    "_drawing": ("test_pages.py", "test_diffing_shown.py"),
    "_identity": ("test_aggregator.py",),
    "_lazy": ("test_front_door.py", "test_pages.py"),
    "codec": ("test_parsing.py",),
    "counting": ("test_prices.py", "test_bills.py", "test_trimming.py"),
    "_locks": ("test_cells.py", "test_streams_interrupts.py"),
    "_wording": ("test_aggregator.py", "test_first_hour.py", "test_messages.py"),
    "_waiting": (
        *("hosts/test_langgraph_contract.py", "test_streams_async.py"),
        "test_streams.py",
    ),
    # What all formats, or all hosts, have in common.
    "adapters": (
        *("adapters/test_crossing.py", "adapters/test_made_ids.py"),
        *("adapters/test_notes.py", "adapters/test_odd_counts.py"),
        *("adapters/test_others_reasoning.py", "adapters/test_sdk_streams.py"),
        *("adapters/test_request_rules.py", "adapters/test_stream_is_response.py"),
        *("adapters/test_tools.py", "formats/test_formats.py"),
    ),
    "adapters.engine": (
        *("adapters/test_[aeo]*.py", "adapters/test_gemini*.py"),
        *("adapters/test_pydantic_ai.py", "adapters/test_stream_pieces.py"),
    ),
    "adapters.message_trees": ("test_cli_formats.py",),
    "adapters.sessions": ("hosts/test_claude_agent.py", "test_cli_convert.py"),
    "adapters.openai_chat": ("adapters/test_openai*.py",),
    "adapters.openai_responses": ("adapters/test_openai*.py",),
    "aggregator": ("test_values.py",),
    "errors": ("test_parallel.py", "test_values.py"),
    "hosts": ("hosts/test_host*.py",),
    "messages": ("test_values.py", "test_aggregator.py", "test_prices.py"),
    "parts": ("test_values.py", "test_messages.py"),
    "requests": ("adapters/test_request_rules.py", "test_trimming_steps.py"),
    "store": ("adapters/test_message_trees.py",),
    "testing.__init__": (
        *("test_contracts*.py", "test_laws.py", "test_planted_faults.py"),
        *("test_strategies*.py", "test_*_machine.py"),
    ),
    "testing._code": ("test_contracts.py", "test_laws.py", "test_planted_faults.py"),
    "testing._comparison": (
        *("test_aggregator_machine.py", "test_contracts.py", "test_laws.py"),
        *("test_planted_faults.py", "test_timeline_machine.py"),
    ),
    "testing._current": ("test_contracts_chats.py", "test_pytest_plugin.py"),
    "testing._drawing": ("test_codec.py", "test_laws.py", "test_strategies*.py"),
    "testing._state_laws": (
        *("test_aggregator_machine.py", "test_diffing.py", "test_laws.py"),
    ),
    "testing._state_machine": ("test_aggregator_machine.py",),
    "testing._wire_answers": (
        *("test_contracts_agents.py", "test_contracts_streams.py"),
        *("test_provider_server.py", "test_strategies*.py"),
    ),
    "testing._wire_requests": ("test_contracts_streams.py", "test_strategies*.py"),
    "testing.contracts": ("test_planted_faults.py",),
    "testing.laws": (
        *("test_*_machine.py", "test_cells.py", "test_chunks.py", "test_parallel.py"),
        *("test_requests_law.py", "test_timeline.py", "test_trimming_compact.py"),
        *("test_trimming_properties.py", "test_usage.py"),
    ),
    "testing.machines": ("test_laws.py", "test_timeline_machine.py"),
    "testing.provider": ("test_contracts_agents.py",),
    "testing.shapes": ("test_codec.py", "test_laws.py", "test_strategies*.py"),
    "timeline": ("test_values.py",),
    "tree": ("test_values.py",),
    "trimming": ("test_pages.py", "test_requests_law.py"),
    "usage": ("test_values.py",),
}
# The packages whose parts have tests of their own.
DIVIDED = ("adapters", "hosts", "testing")

_SWAPS: dict[type[ast.AST], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
}


# Where all tests of a module take longer, measured, only those chosen for a mutant
# meet it: those that run its line in a process of their own are not among them.
_LONG_S = 600
_PYTEST = (
    *("pytest", "-q", "-x", "--hypothesis-profile=mutants"),
    *("-m", "integration or not slow"),
)
# What a user is told, also around what is filled in; nothing depends on its words.
_PROSE = re.compile("[a-z] [a-z]|} [a-z]|[:,] {")
# In what pytest lists: how long a test, or a fixture of it, took.
_DURATION = re.compile(r"^([\d.]+)s (?:setup|call|teardown) +(.+)$", re.MULTILINE)


class Mutant(NamedTuple):
    """
    One changed place.

    Attributes:
        path: The file, relative to the package.

        line: Its line, from 1 on.

        last: The last line of the statement.

        change: What was there, and what is there now, for people.

        start, end: The characters of the file that *text* replaces.

        is_global: Whether it runs when the module is imported.
    """

    path: str
    line: int
    last: int
    change: str
    start: int
    end: int
    text: str
    is_global: bool


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.source = source
        self.found: list[Mutant] = []
        self.functions = 0  # around the node
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def _place(self, line: int, column: int) -> int:
        # Columns count bytes of UTF-8.
        start = self.starts[line - 1]
        text = self.source[start : self.starts[line]]
        return start + len(text.encode()[:column].decode())

    def _add(self, node: Any, text: str) -> None:
        start = self._place(node.lineno, node.col_offset)
        end = self._place(node.end_lineno, node.end_col_offset)
        old = " ".join(self.source[start:end].split())
        change = f"{old[:60]} → {text[:60]}"
        self._append_change(node.lineno, node.end_lineno, change, start, end, text)

    def _append_change(self, line: Any, last: Any, *what: Any) -> None:
        fields = (self.path, line, last, *what, not self.functions)
        self.found.append(Mutant._make(fields))

    def _swap_operator(self, left: Any, right: Any, operator: ast.AST) -> None:
        new = _SWAPS.get(type(operator))
        if new is None:
            return

        start = self._place(left.end_lineno, left.end_col_offset)
        end = self._place(right.lineno, right.col_offset)
        between = self.source[start:end]
        # What stands between the two may have parentheses and line breaks.
        old = between.strip(" ()\n")
        if old and between.count(old) == 1 and "\n" not in old:
            text = between.replace(old, new)
            change = f"{old} → {new}"
            self._append_change(left.end_lineno, right.lineno, change, start, end, text)

    def visit_Compare(self, node: ast.Compare) -> None:
        left: ast.AST = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self._swap_operator(left, right, operator)
            left = right

        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._swap_operator(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for value in node.values:
            self._add(value, "True" if isinstance(node.op, ast.And) else "False")

        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            operand = ast.get_source_segment(self.source, node.operand)
            self._add(node, f"({operand})")

        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return

        self._add(node.test, "True")
        self._add(node.test, "False")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._add(node.test, "True")
        self._add(node.test, "False")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._add(node.test, "False")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, str(not value))
        elif isinstance(value, int):
            self._add(node, str(value + 1))
        elif isinstance(value, str) and not _PROSE.search(value):
            self._add(node, repr(value + "X") if value else "'X'")

    def visit_Return(self, node: ast.Return) -> None:
        # A caller treats None as False.
        if node.value is not None and ast.unparse(node.value) not in {"None", "False"}:
            self._add(node, "return None")

        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        # The name of a type variable is for people.
        if ast.unparse(node.func) not in {"TypeVar", "ParamSpec"}:
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        # A value does the same with slots and without.
        if node.arg != "slots":
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        # A docstring is a statement, too, and no test is meant to hold it.
        if not isinstance(node.value, ast.Constant):
            self._add(node, "pass")
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "pass")
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._add(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(node, "break")

    def visit_Raise(self, node: ast.Raise) -> None:
        # The words of an error are prose.
        self._add(node, "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        # So are those of a failed assertion.
        self.visit(node.test)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Assign(self, node: ast.Assign) -> None:
        if ast.unparse(node.targets[0]) not in {"__all__", "__slots__"}:
            self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if any("overload" in ast.unparse(each) for each in node.decorator_list):
            return

        # Not its annotations.
        for each in (*node.args.defaults, *node.args.kw_defaults):
            if each is not None:
                self.visit(each)

        self.functions += 1
        for statement in node.body:
            self.visit(statement)

        self.functions -= 1

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that ast looks for


def find_mutants(path: str, source: str) -> list[Mutant]:
    """
    The mutants of the file *path*, by their places.

    >>> [each.change for each in find_mutants("a.py", "x = 1 if a < b else 2")]
    ['a < b → True', 'a < b → False', '< → <=', '1 → 2', '2 → 3']
    """
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return finder.found


@cache
def list_modules() -> tuple[str, ...]:
    """The modules, as in ``trimming`` and ``adapters.gemini``, by name."""
    names = set()
    for path in (ROOT / PACKAGE).rglob("*.py"):
        steps = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        is_divided = steps[0] in DIVIDED and len(steps) > 1
        names.add(".".join(steps[:2] if is_divided else steps[:1]))

    return tuple(sorted(names - {"__init__", "__main__"}))


def list_files(module: str) -> list[Path]:
    """The files of *module*."""
    path = ROOT.joinpath(PACKAGE, *module.split("."))
    return sorted(path.rglob("*.py")) or [path.with_suffix(".py")]


def find_tests(module: str) -> list[str]:
    """The test files of *module*, relative to the repository."""
    tests, last = ROOT / "tests", module.rpartition(".")[2].lstrip("_")
    folder, _, part = module.partition(".")
    found = {*tests.glob(f"test_{last}*.py"), *tests.glob(f"{last}/**/test_*.py")}
    if part:
        found |= {*tests.glob(f"{folder}/**/test_{last}*.py")}

    for pattern in (*TESTS.get(module, ()), *TESTS.get(folder, ())):
        found |= {*tests.glob(pattern)}

    # Examples in docstrings are tests, too.
    found |= {path for path in list_files(module) if ">>> " in path.read_text("utf-8")}
    return put_in_order(path.relative_to(ROOT).as_posix() for path in found)


def put_in_order(
    tests: Iterable[str], seconds: Mapping[str, float] | None = None
) -> list[str]:
    """
    *tests* by name, and those in docstrings last; where *seconds* says how long each
    takes, those that take a tenth of it before.
    """

    def rank(test: str) -> tuple[bool, int, str]:
        # What pytest imports by itself is there twice if its package imports it, too.
        # Not if a test has imported both.
        taken = (seconds or {}).get(test, 0)
        return test.startswith(PACKAGE), int(math.log10(max(taken, 0.01)) // 1), test

    return sorted(tests, key=rank)


def take_sample(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """*count* of *mutants*, which depend on *seed* and on what they change only."""

    def rank(mutant: Mutant) -> bytes:
        key = f"{seed} {mutant.path} {mutant.change} {mutant.line}"
        return hashlib.sha256(key.encode()).digest()

    return sorted(mutants, key=rank)[:count]


# Runs


class Measured(NamedTuple):
    """
    One run of the tests of a module without a mutant.

    Attributes:
        lines: The tests that run each line of each of its files; "" at import.

        seconds: How long each test takes.
    """

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]


def run_pytest(
    copy: Path, arguments: Sequence[str], tests: Iterable[str], timeout_s: float
) -> tuple[int | None, str]:
    """The exit code of pytest in *copy*, None if it did not end, and its output."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(copy)}
    listed = copy.parent / "tests.txt"
    listed.write_text("\n".join(tests), encoding="utf-8")
    try:
        done = subprocess.run(  # noqa: S603 - ours
            [sys.executable, "-m", *_PYTEST, *arguments, f"@{listed}"],
            cwd=copy,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            encoding="utf-8",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    else:
        return done.returncode, done.stdout


def measure_tests(copy: Path, files: Iterable[str], tests: Sequence[str]) -> Measured:
    """What *tests* run of *files*, which are relative to the package."""
    from coverage import CoverageData  # noqa: PLC0415 - where mutants are planted only

    included = "".join(f"\n  {copy / PACKAGE / file}" for file in files)
    config = copy.parent / "coverage.ini"
    config.write_text(f"[run]\ninclude ={included}\n", encoding="utf-8")
    # Measuring takes several times as long: no test hangs because of that.
    options = ("--timeout=3600", "--durations=0", "--durations-min=0")
    coverage = ("--cov", f"--cov-config={config}", "--cov-context=test")
    arguments = (*options, *coverage, "--cov-report=")
    code, output = run_pytest(copy, arguments, tests, 3600)
    if code != 0:
        said = output.strip().rpartition("\n")[2]
        raise RuntimeError(f"without a mutant, {said}: {' '.join(tests)}")

    data = CoverageData(str(copy / ".coverage"))
    data.read()
    lines = {}
    for path in data.measured_files():
        name = Path(path).relative_to(copy / PACKAGE).as_posix()
        lines[name] = data.contexts_by_lineno(path)

    return Measured(lines, read_durations(output))


def read_durations(output: str) -> dict[str, float]:
    r"""
    The seconds of each test that pytest lists.

    >>> read_durations("0.25s setup    a.py::b[c d]\n1.50s call     a.py::b[c d]")
    {'a.py::b[c d]': 1.75}
    """
    seconds: dict[str, float] = {}
    for time, test in _DURATION.findall(output):
        seconds[test] = seconds.get(test, 0) + float(time)

    return seconds


def choose_tests(mutant: Mutant, measured: Measured) -> list[str]:
    """
    The tests that run the lines of *mutant*, the quickest first; all of a file where a
    fixture does, which others may use, too; and all where it runs at import, which our
    own plugin of pytest does before anything is measured, or the first test of several
    that need the module.
    """
    here = measured.lines.get(mutant.path, {})
    contexts = {
        context
        for line in range(mutant.line, mutant.last + 1)
        for context in here.get(line, ())
    }
    if mutant.is_global or not contexts or "" in contexts:
        return put_in_order(measured.seconds, measured.seconds)

    ids = {context.rpartition("|")[0] for context in contexts}
    files = tuple(
        f"{context.partition('::')[0]}::"
        for context in contexts
        if context.endswith("|setup")
    )
    chosen = [
        test for test in measured.seconds if test in ids or test.startswith(files)
    ]
    return put_in_order(chosen, measured.seconds)


def make_copy(folder: str, number: int) -> Path:
    """A copy of what git tracks, to plant mutants in."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - the one on PATH
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    copy = Path(folder, str(number), ROOT.name)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)

    return copy


def plant(copy: Path, mutant: Mutant, measured: Measured) -> bool:
    """Whether the tests notice *mutant*."""
    chosen = choose_tests(mutant, measured)
    rest = put_in_order(measured.seconds.keys() - {*chosen}, measured.seconds)
    path = copy / PACKAGE / mutant.path
    source = path.read_text(encoding="utf-8")
    changed = f"{source[: mutant.start]}{mutant.text}{source[mutant.end :]}"
    try:
        path.write_text(changed, encoding="utf-8")
        # Some tests run the line in a process of its own, which is not measured.
        runs = [chosen, rest] if sum(measured.seconds.values()) < _LONG_S else [chosen]
        for tests in filter(None, runs):
            seconds = sum(measured.seconds[test] for test in tests)
            if run_pytest(copy, (), tests, 30 + 3 * seconds)[0] != 0:
                return True

        return False
    finally:
        path.write_text(source, encoding="utf-8")


def check_module(
    module: str, copies: Sequence[Path], sample: int, seed: int
) -> dict[str, Any]:
    """What became of a sample of the mutants of *module*, as JSON values."""
    sources = {
        path.relative_to(ROOT / PACKAGE).as_posix(): path.read_text("utf-8")
        for path in list_files(module)
    }
    mutants = [each for item in sources.items() for each in find_mutants(*item)]
    chosen = take_sample(mutants, sample, seed)
    measured = measure_tests(copies[0], sources, find_tests(module))
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def check(mutant: Mutant) -> bool:
        copy = free.get()
        try:
            return plant(copy, mutant, measured)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        killed = list(pool.map(check, chosen))

    survivors = [
        f"{mutant.path}:{mutant.line} {mutant.change}"
        for mutant, was_killed in zip(chosen, killed, strict=True)
        if not was_killed
    ]
    return {
        "module": module,
        "possible": len(mutants),
        "planted": len(chosen),
        "killed": sum(killed),
        "survivors": survivors,
    }


def check_modules(
    modules: Sequence[str], sample: int, seed: int, processes: int
) -> Iterator[dict[str, Any]]:
    """A row for each of *modules* whose tests pass without a mutant."""
    with tempfile.TemporaryDirectory() as folder:
        copies = [make_copy(folder, number) for number in range(processes)]
        for module in modules:
            try:
                row = check_module(module, copies, sample, seed)
            except RuntimeError as error:  # the others are checked all the same
                print(f"{module}: {error}", file=sys.stderr, flush=True)
            else:
                yield row


def main(arguments: Sequence[str]) -> int:
    """Print a row for each module, and what survived; 1 if the tests of one fail."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("modules", nargs="*", help=", ".join(list_modules()))
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    asked = parser.parse_args(arguments)
    modules = asked.modules or list_modules()
    if unknown := {*modules} - {*list_modules()}:
        parser.error(f"unknown modules: {', '.join(sorted(unknown))}")

    checked = 0
    for row in check_modules(modules, asked.sample, asked.seed, asked.processes):
        checked += 1
        if asked.json:
            print(json.dumps(row), flush=True)
            continue

        of = f"{row['killed']} of {row['planted']} killed ({row['possible']} possible)"
        print(f"{row['module']}: {of}", *row["survivors"], sep="\n  ", flush=True)

    return int(checked < len(modules))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
