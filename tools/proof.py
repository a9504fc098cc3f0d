"""
What was run to find faults in this library, and what came of it: `docs/proof.md`.

    python -m tools.proof --quick

Each part runs a program that exists anyway (the tests, the stress program, the
examples of other libraries, the mutants) and keeps what it counted in
`docs/proof.json`, with the date, the commit and the versions it ran on. The page is
made from that file alone. A part that was not asked for stays as it was last run,
and the page says when.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs

from tools.mutant_targets import ROOT, list_modules
from tools.proof_page import render_page

PAGE = ROOT / "docs" / "proof.md"
FACTS = ROOT / "docs" / "proof.json"
NAMED = ("hypothesis", "pytest", "attrs", "cattrs", "orjson", "pyrsistent")

COLUMNS = (
    *("module", "possible", "mutants", "killed", "same", "cost", "survived"),
    *("rate", "seed", "date"),
)

# Some of everything, for a run of minutes.
QUICK_TESTS = (
    *("tests/test_laws.py", "tests/test_interrupts.py", "tests/test_log_machine.py"),
    *("tests/test_aggregator_machine.py", "tests/test_timeline_machine.py"),
    *("tests/test_templates_hostile.py", "tests/test_streams_interrupts.py"),
    *("tests/store/test_damage.py", "tests/store/test_stress.py"),
    *("tests/store/test_interrupts.py", "tests/store/test_fork.py"),
)
SEARCHED = ("tests/test_laws.py", "tests/test_*_machine.py")


@attrs.frozen(kw_only=True)
class Size:
    """How much is run. *tests* are files, all of them if it is empty."""

    name: str
    tests: Sequence[str]
    fuzz: Sequence[str]
    seconds: float
    kills: int
    sample: int
    modules: Sequence[str]


QUICK = Size(
    name="quick",
    tests=QUICK_TESTS,
    fuzz=("tests/test_usage.py",),
    seconds=1,
    kills=20,
    sample=5,
    modules=("usage", "timeline"),
)
WHOLE = Size(
    name="whole", tests=(), fuzz=SEARCHED, seconds=10, kills=200, sample=40, modules=()
)


@attrs.frozen(kw_only=True)
class Run:
    """One run of `make proof`: its size, its seed, and where mutants leave results."""

    size: Size
    seed: int
    processes: int


def run_tests(run: Run) -> dict[str, Any]:
    """The tests with the examples of `make test`, counted."""
    return count_tests([*run.size.tests], run)


def run_fuzz(run: Run) -> dict[str, Any]:
    """The laws and the state machines with new examples, and many of each."""
    chosen = [
        path.relative_to(ROOT).as_posix() if "/" in each else each
        for each in run.size.fuzz
        for path in (sorted(ROOT.glob(each)) if "/" in each else [ROOT])
    ]
    options = ["--hypothesis-profile=thorough", f"--hypothesis-seed={run.seed}"]
    return count_tests([*options, "--timeout=3600", *chosen], run)


def count_tests(arguments: Sequence[str], run: Run) -> dict[str, Any]:
    """What pytest and `tools.proof_counts` say of a run of tests."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.json"
        environment = {**os.environ, "PROOF_COUNTS": str(counts), "PYTHONHASHSEED": "0"}
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tools.proof_counts"),
            *("--numprocesses", str(run.processes), "--dist", "loadscope"),
            *arguments,
        ]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)  # noqa: S603 - ours
        facts: dict[str, Any] = json.loads(counts.read_text(encoding="utf-8"))

    return {**facts, "exit": done.returncode}


def run_stress(run: Run) -> dict[str, Any]:
    """The rows of the table that `make stress` prints."""
    command = [
        *(sys.executable, "-m", "tests.store.stress"),
        *("--seconds", str(run.size.seconds), "--kills", str(run.size.kills)),
    ]
    done = subprocess.run(  # noqa: S603 - ours
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    return {"rows": read_table(done.stdout), "exit": done.returncode}


def read_table(text: str) -> list[dict[str, Any]]:
    """The rows of a table of the stress program: a title, numbers, and a note."""
    head, *lines = text.splitlines()
    names = head.split()[1:]
    rows = []
    for line in lines:
        title, colon, rest = line.partition(": ")
        if not colon:
            continue

        words = rest.split()
        first = next(at for at, word in enumerate(words) if word[0].isdigit())
        numbers = [int(word.replace(",", "")) for word in words[first:][: len(names)]]
        rows.append(
            {
                "store": title,
                "what": " ".join(words[:first]),
                **dict(zip(names, numbers, strict=True)),
            }
        )

    return rows


def run_peers(_run: Run) -> dict[str, Any]:
    """The laws checked on other libraries, as `python -m peers` finds them."""
    if not (ROOT / "peers").is_dir():
        return {"missing": "this checkout has no examples of other libraries"}

    command = [sys.executable, "-m", "peers", "--json"]
    python = ROOT / ".venv" / "peers" / "bin" / "python"
    if python.exists():
        command += ["--also", str(python)]

    done = subprocess.run(  # noqa: S603 - ours
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    names = ("peer", "version", "law", "kept", "changed", "sentence")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        "rows": [{name: row[name] for name in names} for row in rows],
        "left_out": sorted(re.findall(r"^left out: (.*)$", done.stderr, re.MULTILINE)),
        "exit": done.returncode,
    }


def run_mutants(run: Run) -> dict[str, Any]:
    """A sample of the mutants of each module, planted."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        command = [
            *(sys.executable, "-m", "tools.mutants", *run.size.modules),
            *("--sample", str(run.size.sample), "--seed", str(run.seed)),
            *("--processes", str(run.processes), "--results", str(results)),
        ]
        done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - ours
        return {**read_mutants(results), "exit": done.returncode}


def read_mutants(
    results: Path, known: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """
    The rows of a file of results, the lowest layer first; killed ones only counted.

    Modules that are not in the file keep their rows of *known*.
    """
    order = [module.removesuffix(".py") for module in list_modules()]
    found = json.loads(results.read_text(encoding="utf-8"))
    rows = {row["module"]: row for row in known}
    rows |= {module: shorten_row(row) for module, row in found.items()}
    return {
        "rows": [rows[module] for module in order if module in rows],
        "not_run": [module for module in order if module not in rows],
    }


def shorten_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of results with the mutants that survived, and none of the others."""
    return {
        **{name: each for name, each in row.items() if name != "verdicts"},
        "survivors": [
            {name: each[name] for name in ("path", "place", "line", "change")}
            for each in row["verdicts"]
            if each["status"] == "survived"
        ],
    }


PARTS: dict[str, Callable[[Run], dict[str, Any]]] = {
    "tests": run_tests,
    "fuzz": run_fuzz,
    "stress": run_stress,
    "peers": run_peers,
    "mutants": run_mutants,
}


def describe_run(run: Run) -> dict[str, Any]:
    """When, of which commit and on what something was run."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - the one on PATH
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit,
        "size": run.size.name,
        "seed": run.seed,
        "python": platform.python_version(),
        "system": platform.system(),
        "versions": {name: metadata.version(name) for name in NAMED},
    }


def main(arguments: Sequence[str]) -> int:
    """
    Run the parts that were asked for and write the page; 1 if something was wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m tools.proof")
    parser.add_argument("--quick", action="store_true", help="minutes instead of hours")
    parser.add_argument("--only", default=",".join(PARTS), help=", ".join(PARTS))
    parser.add_argument("--render", action="store_true", help="write the page only")
    parser.add_argument("--mutants", type=Path, help="results of `make mutants` to use")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    size = QUICK if asked.quick else WHOLE
    run = Run(size=size, seed=asked.seed, processes=asked.processes)
    chosen = [] if asked.render else asked.only.split(",")
    for name in chosen:
        print(f"== {name}", flush=True)
        update_facts(name, {**describe_run(run), **PARTS[name](run)})

    if asked.mutants is not None:
        known = read_facts().get("mutants", {}).get("rows", ())
        found = {**read_mutants(asked.mutants, known), "collected": True}
        update_facts("mutants", {**describe_run(run), **found})

    facts = read_facts()
    page = render_page(PAGE.read_text(encoding="utf-8"), facts)
    PAGE.write_text(page, encoding="utf-8")
    return int(any(facts[name].get("exit") for name in chosen))


def read_facts() -> dict[str, Any]:
    """What the runs until now found."""
    if not FACTS.exists():
        return {}

    facts: dict[str, Any] = json.loads(FACTS.read_text(encoding="utf-8"))
    return facts


def update_facts(name: str, found: Mapping[str, Any]) -> None:
    """Keep what a part found, at once: the next one may take an hour."""
    facts = {**read_facts(), name: found}
    ordered = {part: facts[part] for part in PARTS if part in facts}
    text = json.dumps(ordered, indent=1, ensure_ascii=False)
    FACTS.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
