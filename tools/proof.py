"""
What was run to find faults in this library, and what came of it: `docs/proof.md`.

    python -m tools.proof --only tests,fuzz

Each part runs a command that exists anyway, and keeps what it printed in
`docs/proof.json`, with date, commit and versions. The tables of the page are made of
that file alone. A part that was not asked for stays as it was last run, and the page
says when.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["PARTS", "main", "render_page"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "proof.md"
FACTS = ROOT / "docs" / "proof.json"
NAMED = ("hypothesis", "pytest", "attrs", "cattrs", "orjson", "pyrsistent")

_CLOSING = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected)")


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    lines: Sequence[str]
    code: int


def run(*arguments: str) -> Done:
    """Run a module of Python, showing what it prints."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    lines = []
    with subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.rstrip())

    return Done(lines, process.returncode)


def run_tests() -> dict[str, Any]:
    """The tests of `make test` and `make test-integration`."""
    return count_tests(run("pytest", "-q", *_PARALLEL, "-m", "integration or not slow"))


def run_fuzz() -> dict[str, Any]:
    """The laws and the state machines, with new examples and many of each."""
    files = [
        path.relative_to(ROOT).as_posix()
        for pattern in ("test_laws.py", "test_*_machine.py", "test_requests_law.py")
        for path in sorted((ROOT / "tests").glob(pattern))
    ]
    profile = ("--hypothesis-profile=thorough", "--timeout=3600")
    return count_tests(run("pytest", "-q", *_PARALLEL, *profile, *files))


_PARALLEL = ("--numprocesses=auto", "--dist=loadfile")


def count_tests(done: Done) -> dict[str, Any]:
    """The numbers of pytest's closing line."""
    closing = done.lines[-1] if done.lines else ""
    counts = {what: int(number) for number, what in _CLOSING.findall(closing)}
    return {"counts": counts, "exit": done.code}


def run_stress() -> dict[str, Any]:
    """Stores that are killed and contended, as `make stress` prints it."""
    done = run("tests.store.stress", "--seconds", "10", "--kills", "200")
    return {"lines": [line for line in done.lines if line], "exit": done.code}


def run_peers() -> dict[str, Any]:
    """Our laws, checked on other libraries: how many each keeps."""
    python = ROOT / ".venv" / "peers" / "bin" / "python"
    also = ("--also", str(python)) if python.exists() else ()
    done = run("peers", "--json", *also)
    rows = [json.loads(line) for line in done.lines if line.startswith("{")]
    kept: dict[str, list[int]] = {}
    for row in rows:
        each = kept.setdefault(f"{row['peer']} {row['version']}", [0, 0])
        each[0] += bool(row["kept"])
        each[1] += 1

    return {"kept": kept, "exit": done.code}


def run_judges() -> dict[str, Any]:
    """What suites and programs of others say."""
    done = run("tools.judges")
    rows = [json.loads(line) for line in done.lines if line.startswith("{")]
    return {"judges": rows, "exit": done.code}


def run_mutants() -> dict[str, Any]:
    """A sample of the mutants of each module, planted."""
    done = run("tools.mutants", "--json", "--sample", "40")
    rows = [json.loads(line) for line in done.lines if line.startswith("{")]
    return {"rows": rows, "exit": done.code}


PARTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "tests": run_tests,
    "fuzz": run_fuzz,
    "stress": run_stress,
    "judges": run_judges,
    "peers": run_peers,
    "mutants": run_mutants,
}


def describe_circumstances() -> dict[str, Any]:
    """When, of which commit and on what something is run."""
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
        "python": platform.python_version(),
        "system": platform.system(),
        "versions": {name: metadata.version(name) for name in NAMED},
    }


# The page


def render_page(page: str, facts: Mapping[str, Mapping[str, Any]]) -> str:
    """
    *page* with new contents between its marks, such as ``<!-- tests -->``.

    Raises:
        ValueError: The page lacks a mark.
    """
    shown: Mapping[str, str] = {}
    for name in PARTS:
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        head, found, rest = page.partition(begin)
        _, also_found, tail = rest.partition(end)
        if not (found and also_found):
            raise ValueError(f"the page has no part between {begin} and {end}")

        part = facts.get(name)
        text = "\n\n".join(describe_part(part, shown))
        shown = part or shown
        page = f"{head}{begin}\n\n{text}\n\n{end}{tail}"

    return page


def describe_part(
    found: Mapping[str, Any] | None, shown: Mapping[str, Any]
) -> Iterable[str]:
    """The paragraphs of one part; *shown* is the part before."""
    if found is None:
        yield "This part has not been run."
        return

    run = f"Run on {found['date']}, commit `{found['commit']}`"
    if any(found[key] != shown.get(key) for key in ("python", "system", "versions")):
        versions = [f"{key} {each}" for key, each in found["versions"].items()]
        run += f", Python {found['python']} on {found['system']}, {', '.join(versions)}"

    yield f"{run}."
    if "counts" in found:
        numbers = found["counts"].items()
        yield ", ".join(f"{number:,} {what}" for what, number in numbers) + "."
    elif "lines" in found:
        lines, zeros = drop_zero_columns(found["lines"])
        yield "\n".join(["```text", *lines, "```"])
        if zeros:
            yield f"0 in each row: {', '.join(zeros)}."
    elif "judges" in found:
        judges = found["judges"]
        ends = ("passed", "failed", "skipped")
        some = [end for end in ends if any(row["counts"].get(end) for row in judges)]
        said = [
            (row["judge"], row["judged"], *(row["counts"].get(end, 0) for end in some))
            for row in judges
        ]
        yield render_table(("judge", "of", *some), said)
        if none := [end for end in ends if end not in some]:
            yield f"None {' or '.join(none)}."
    elif "kept" in found:
        rows = [f"{peer} {kept} of {of}" for peer, (kept, of) in found["kept"].items()]
        yield f"Laws they keep: {', '.join(rows)}."
    else:
        groups: dict[tuple[int, int], list[str]] = {}
        for row in found["rows"]:
            key = row["killed"], row["planted"]
            groups.setdefault(key, []).append(f"`{row['module']}`")

        best = sorted(groups, key=lambda each: (-each[0] / each[1], -each[1]))
        yield "\n".join(
            [f"- {each[0]} of {each[1]}: {', '.join(groups[each])}" for each in best]
        )


def drop_zero_columns(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """
    A table in text without the columns that are 0 in each row, and their names.

    >>> drop_zero_columns(["what  saves  lost", "sqlite    3     0", "Done."])
    (['what  saves', 'sqlite    3', 'Done.'], ['lost'])
    """
    head, *rows = lines
    ends = [found.end() for found in re.finditer(r"\S+", head)]
    table = [row for row in rows if len(row) >= ends[-1]]
    zeros = [
        (start, end)
        for start, end in itertools.pairwise(ends)
        if table and all(row[start:end].strip() == "0" for row in table)
    ]
    names = [head[start:end].strip() for start, end in zeros]
    shown = [head, *rows]
    for start, end in reversed(zeros):
        shown = [line[:start] + line[end:] for line in shown]

    return shown, names


def render_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """
    A table in Markdown.

    >>> print(render_table(["a", "b"], [["x", 1]]))
    | a | b |
    | --- | --: |
    | x | 1 |
    """
    rules = ["---", *["--:"] * (len(head) - 1)]
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, rules, *rows)]
    return "\n".join(lines)


def read_facts() -> dict[str, Any]:
    """What the runs until now found."""
    return json.loads(FACTS.read_text("utf-8")) if FACTS.exists() else {}


def write_page() -> None:
    """Write the page from what the runs until now found."""
    PAGE.write_text(render_page(PAGE.read_text("utf-8"), read_facts()), "utf-8")


def main(arguments: Sequence[str]) -> int:
    """Run the parts that were asked for, and write the page; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.proof")
    parser.add_argument("--only", default=",".join(PARTS), help=", ".join(PARTS))
    parser.add_argument("--render", action="store_true", help="write the page only")
    asked = parser.parse_args(arguments)
    chosen = [] if asked.render else asked.only.split(",")
    for name in chosen:
        print(f"== {name}", flush=True)
        # Kept at once: the next part may take an hour, and the tests read the page.
        facts = {**read_facts(), name: {**describe_circumstances(), **PARTS[name]()}}
        ordered = {part: facts[part] for part in PARTS if part in facts}
        FACTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        write_page()

    facts = read_facts()
    write_page()
    return int(any(facts[name]["exit"] for name in chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
