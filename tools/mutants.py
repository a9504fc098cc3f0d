"""
Mutants: what the tests notice of small faults in the code, module by module.

    python -m tools.mutants timeline --sample 40 --seed 0

A sample of the mutants of each module is planted, one at a time, in a copy of the
repository. It meets the tests of its module that run the changed line, the quickest
first and with few Hypothesis examples; what survives, the same with as many examples
as `make test` has, and then the tests of the modules beside it. A mutant is killed
when a test fails or does not end. `tools/equivalent_mutants.toml` lists those that no
test can kill, each with its reason.

A library does part of this. mutmut (3.8) leaves out whatever is decorated and
whatever is outside of functions, properties and default values say, and takes no
sample; cosmic-ray (8.7) changes the working tree, and starts an interpreter and all
tests for each mutant.
"""

import argparse
import ast
import hashlib
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tools.mutant_runs import (
    COLLECTION,
    PACKAGE,
    Child,
    Copy,
    Order,
    Outcome,
    import_third_parties,
)
from tools.mutant_targets import (
    EQUIVALENTS,
    MORE_TESTS,
    ROOT,
    TESTS,
    find_group,
    find_tests,
    find_unmatched,
    list_modules,
    list_mutants,
    read_equivalents,
    resolve_module,
    take_sample,
)
from tools.mutations import Mutant

CACHE = ROOT / ".mutants"


UNKNOWN: Mapping[str, Any] = {
    "modules": [],
    "failed": [],
    "times": {},
    "lines": {},
    "blind": [],
}
FEW = 10
FORMAT = 3  # of what is measured and kept
# The profiles of the tests that run a line; what survives them meets other tests.
PROFILES = ("quick", "default")
LAST = len(PROFILES)

KEY = ("path", "place", "line", "change")
Key = tuple[str, str, str, str]


@attrs.frozen(kw_only=True)
class Verdict:
    """
    What became of a mutant: killed, same, cost or survived; by which test, or why.
    """

    mutant: Mutant
    status: str
    by: str
    seconds: float = 0.0


class Measure:
    """Which tests run which line of the package, and how long they take."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.modules: list[str] = facts["modules"]
        self.broken = frozenset(facts["failed"])
        self.times: dict[str, float] = facts["times"]
        self.seconds: float = facts.get("seconds", 0.0)
        self._lines = facts["lines"]
        self._blind: list[str] = facts["blind"]

    def select(self, mutant: Mutant, *, blind: bool = False) -> dict[str, float]:
        """
        The tests that run the line of *mutant*, with their seconds; of what runs at
        import, those that run any line of its file, and where none is known, all. With
        *blind*, also those of which it can't be known: they start processes, or trace
        what they run themselves, or need what was done before them, at import or while
        tests were collected.
        """
        lines = self._lines.get(mutant.path, {})
        first, last = mutant.span
        span = map(str, range(first, last + 1))
        tests = {test for line in span for test in lines.get(line, ())}
        if mutant.at_import and blind:
            return self.times

        if mutant.at_import or (blind and COLLECTION in tests):
            tests = {test for each in lines.values() for test in each}

        tests -= {COLLECTION}
        if not tests:
            return self.times

        chosen = (*tests, *self._blind) if blind else tests
        return {name: self.times.get(name, 0.0) for name in chosen}


class Campaign:
    """A run over the mutants of one group of files that have the same tests."""

    def __init__(self, copies: Sequence[Copy], module: str) -> None:
        # The checkout may change meanwhile, and each of the others has a mutant.
        self._pristine, *self._copies = copies
        self._root = root = self._pristine.folder
        # Its docstrings have examples, which are tests, too.
        self._own = [*find_tests(module, TESTS, root), f"{PACKAGE}/{module}"]
        self._more = find_tests(module, MORE_TESTS, root)
        self._measure: Measure | None = None

    def run(self, mutants: Sequence[Mutant]) -> Iterator[Verdict]:
        """
        Try each of the mutants; verdicts come as they are found.

        Raises:
            RuntimeError: The tests fail without a mutant.
        """
        # For a few, all tests of the module take less time than measuring them.
        is_measured = len(mutants) > FEW or self._find_measured().exists()
        measure = self._measure_tests() if is_measured else Measure(UNKNOWN)
        self._measure = measure
        import_third_parties(measure.modules)
        waiting = [(mutant, 0) for mutant in reversed(mutants)]
        running: dict[int, tuple[Mutant, int, Child, Any]] = {}
        while waiting or running:
            for slot, copy in enumerate(self._copies):
                if slot not in running and waiting:
                    mutant, stage = waiting.pop()
                    source = mutant.apply((self._root / mutant.path).read_bytes())
                    ast.parse(source)
                    change = copy.change(mutant.path, source)
                    change.__enter__()
                    child = Child(copy, self._make_order(mutant, stage))
                    running[slot] = mutant, stage, child, change

            for slot, (mutant, stage, child, change) in list(running.items()):
                outcome = child.poll()
                if outcome is None:
                    continue

                change.__exit__(None, None, None)
                del running[slot]
                last = LAST if self._more else LAST - 1
                if outcome.status in {"passed", "empty"} and stage < last:
                    waiting.append((mutant, stage + 1))
                elif (stage == LAST or not is_measured) and not self._is_confirmed(
                    outcome
                ):
                    yield self._make_verdict(
                        mutant, attrs.evolve(outcome, status="passed")
                    )
                else:
                    yield self._make_verdict(mutant, outcome)

            time.sleep(0.02)

    def _make_verdict(self, mutant: Mutant, outcome: Outcome) -> Verdict:
        survived = outcome.status in {"passed", "empty"}
        by = outcome.by if outcome.status == "failed" else outcome.status
        return Verdict(
            mutant=mutant,
            status="survived" if survived else "killed",
            by=f"{outcome.tests} tests passed" if survived else by,
            seconds=round(outcome.seconds, 1),
        )

    def _is_confirmed(self, outcome: Outcome) -> bool:
        """
        Whether the test that failed passes without a mutant, where that is not known.
        """
        if outcome.status != "failed" or "::" not in outcome.by:
            return True

        files = [outcome.by.partition("::")[0]]
        return self._run_unchanged(
            Order(files=files, first={outcome.by: 0.0}, only=True)
        ).status in {"passed", "empty"}

    def _make_order(self, mutant: Mutant, stage: int) -> Order:
        assert self._measure is not None  # noqa: S101 - for the type checkers
        selected = self._measure.select(mutant, blind=stage > 0)
        usual = self._measure.seconds
        if stage == LAST:
            return Order(files=self._more, profile="quick", seconds=600)

        files = sorted({name.partition("::")[0] for name in selected})
        return Order(
            files=files or sort_by_name(self._own, mutant.path),
            first=selected,
            without=self._measure.broken,
            only=bool(selected),
            profile=PROFILES[stage],
            seconds=60 + 5 * (usual if stage else min(usual, sum(selected.values())))
            if selected
            else 600,
        )

    def _run_unchanged(self, order: Order) -> Outcome:
        return Child(self._pristine, order).wait()

    def _find_measured(self) -> Path:
        """Where the measure of these very tests is kept."""
        digest = hashlib.sha256(repr(sys.version).encode())
        for pattern in (f"{PACKAGE}/**/*.py", "tests/**/*.py"):
            for path in sorted(self._root.glob(pattern)):
                name = path.relative_to(self._root).as_posix()
                if name in self._own or not path.name.startswith("test_"):
                    digest.update(name.encode())
                    digest.update(path.read_bytes())

        digest.update(repr((FORMAT, self._own)).encode())
        return CACHE / f"lines-{digest.hexdigest()[:16]}.json"

    def _measure_tests(self) -> Measure:
        cached = self._find_measured()
        if not cached.exists():
            order = Order(
                files=self._own, measured=True, stop=False, profile="quick", seconds=3e3
            )
            outcome = self._run_unchanged(order)
            if "lines" not in outcome.facts:
                raise RuntimeError(f"tests did not run: {outcome}")

            # Again, in another order: what fails without a mutant tells nothing.
            measured = Measure(outcome.facts)
            import_third_parties(measured.modules)
            control = self._run_unchanged(
                Order(
                    files=self._own,
                    first=measured.times,
                    without=measured.broken,
                    profile="quick",
                    seconds=3e3,
                )
            )
            if control.status != "passed":
                raise RuntimeError(f"tests fail without a mutant: {control.by}")

            facts = {**outcome.facts, "seconds": control.seconds}
            cached.parent.mkdir(exist_ok=True)
            cached.write_text(json.dumps(facts), encoding="utf-8")

        return Measure(json.loads(cached.read_text(encoding="utf-8")))


def sort_by_name(tests: Iterable[str], path: str) -> list[str]:
    """
    The files of *tests*, first those that have most words of *path* in their names.
    """
    words = [each.strip("_") for each in path.removesuffix(".py").split("/")[1:]]
    return sorted(
        tests, key=lambda test: -sum(word in Path(test).stem for word in words)
    )


def run_module(
    mutants: Sequence[Mutant],
    copies: Sequence[Copy],
    killed: Mapping[Key, Verdict],
    journal: Path,
) -> list[Verdict]:
    """
    The verdicts of *mutants*, but for *killed*, which are known; survivors are printed.

    Each verdict is a line of *journal* at once, so that an interrupted run loses none.
    """
    equivalents = {each.key: each for each in read_equivalents()}
    verdicts = [
        Verdict(mutant=mutant, status=entry.kind, by=entry.reason)
        for mutant in mutants
        if (entry := equivalents.get(mutant.key))
    ]
    verdicts += [
        attrs.evolve(killed[mutant.key], mutant=mutant)
        for mutant in mutants
        if mutant.key in killed and mutant.key not in equivalents
    ]
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        if mutant.key not in equivalents and mutant.key not in killed:
            groups[find_group(mutant.path)].append(mutant)

    journal.parent.mkdir(exist_ok=True, parents=True)
    for name, group in groups.items():
        for verdict in Campaign(copies, name).run(group):
            verdicts.append(verdict)
            with journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps(list_facts(verdict), ensure_ascii=False) + "\n")

            if verdict.status == "survived":
                print(describe(verdict), flush=True)

    return verdicts


def list_facts(verdict: Verdict) -> dict[str, Any]:
    """A verdict as files of results have it."""
    return {
        **dict(zip(KEY, verdict.mutant.key, strict=True)),
        "number": verdict.mutant.number,
        "status": verdict.status,
        "by": verdict.by,
        "seconds": verdict.seconds,
    }


def describe(verdict: Verdict) -> str:
    """A mutant and what became of it, for people."""
    mutant = verdict.mutant
    return (
        f"{verdict.status} {mutant.path}:{mutant.number} in {mutant.place}\n"
        f"    {mutant.line}\n    {mutant.change}\n    {verdict.by}"
    )


def summarise(module: str, verdicts: Sequence[Verdict], all_of: int) -> dict[str, Any]:
    """The row of a module, and its mutants by name."""
    counted = [verdict.status for verdict in verdicts]
    tested = counted.count("killed") + counted.count("survived")
    return {
        "module": module.removesuffix(".py"),
        "possible": all_of,
        "mutants": len(verdicts),
        **{name: counted.count(name) for name in ("killed", "same", "cost")},
        "survived": counted.count("survived"),
        "rate": round(counted.count("killed") / tested, 4) if tested else None,
        "verdicts": [
            list_facts(verdict)
            for verdict in sorted(verdicts, key=lambda each: each.mutant.key)
        ],
    }


def main(arguments: Sequence[str]) -> int:
    """Run mutants and print the table; 1 if a module is below what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("modules", nargs="*", help="modules or files; all by default")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="those whose description has this")
    parser.add_argument("--list", action="store_true", help="list them, and stop")
    parser.add_argument("--again", action="store_true", help="not those killed before")
    parser.add_argument("--least", type=float, default=0, help="percent to be killed")
    parser.add_argument("--results", type=Path, default=CACHE / "results.json")
    asked = parser.parse_args(arguments)
    modules = [resolve_module(each) for each in asked.modules] or list_modules()
    if asked.list:
        for module in modules:
            for mutant in take_sample(list_mutants(module), asked.sample, asked.seed):
                print(describe(Verdict(mutant=mutant, status="listed", by="")))

        return 0

    unmatched = find_unmatched(read_equivalents(), ROOT)
    if unmatched:
        for each in unmatched:
            print(f"{EQUIVALENTS.name}: no such mutant: {each.key}", file=sys.stderr)

        return 2

    rows = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [
            Copy(ROOT, Path(folder) / f"copy{number}")
            for number in range(max(1, asked.processes) + 1)
        ]
        for module in modules:
            every = list_mutants(module, copies[0].folder)
            sample = [
                mutant
                for mutant in take_sample(every, asked.sample, asked.seed)
                if asked.only in repr(mutant.key)
            ]
            killed = read_killed(asked.results, module, sample) if asked.again else {}
            found = run_module(sample, copies, killed, find_journal(asked.results))
            row = summarise(module, found, len(every))
            rows.append(row)
            print(format_row(row), flush=True)
            if not asked.only:
                write_results(asked.results, row, asked.seed)

        find_journal(asked.results).unlink(missing_ok=True)

    rates = [row["rate"] for row in rows if row["rate"] is not None]
    return int(any(rate * 100 < asked.least for rate in rates))


def format_row(row: Mapping[str, Any]) -> str:
    """A row of the table, for a terminal."""
    rate = "" if row["rate"] is None else f"{row['rate']:7.1%}"
    counts = "  ".join(
        f"{name} {row[name]:3}"
        for name in ("mutants", "killed", "same", "cost", "survived")
    )
    return f"{row['module']:16} {counts} {rate}"


def find_journal(results: Path) -> Path:
    """
    The file of verdicts of a run that has not ended, beside the file of *results*.
    """
    return results.with_suffix(".jsonl")


def read_killed(
    path: Path, module: str, mutants: Iterable[Mutant]
) -> dict[Key, Verdict]:
    """
    Those of *mutants* that the file of results, or the journal of an interrupted run
    beside it, says were killed.
    """
    found: list[Mapping[str, Any]] = []
    if path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))
        row = results.get(module.removesuffix(".py"), {"verdicts": ()})
        found += row["verdicts"]

    journal = find_journal(path)
    if journal.exists():
        # What was cut off in the middle of a line has no end of a line.
        lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
        found += [json.loads(line) for line in lines if line.endswith("\n")]

    verdicts = {
        tuple(each[name] for name in KEY): each
        for each in found
        if each["status"] == "killed"
    }
    return {
        mutant.key: Verdict(
            mutant=mutant, status="killed", by=each["by"], seconds=each["seconds"]
        )
        for mutant in mutants
        if (each := verdicts.get(mutant.key))
    }


def write_results(path: Path, row: Mapping[str, Any], seed: int) -> None:
    """Put the row of a module into the file of results, in place of an older one."""
    results: dict[str, Any] = {}
    if path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))

    results[row["module"]] = {
        **row,
        "seed": seed,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": sys.version.partition(" ")[0],
    }
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
