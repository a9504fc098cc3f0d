"""
The generated parts of the page about what was run: `docs/proof.json` as tables.

No number is written by hand; where a part has not been run, the page says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Facts = Mapping[str, Any]

NOT_RUN = "This part has not been run."


def render_page(page: str, facts: Mapping[str, Facts]) -> str:
    """
    *page* with new contents between its marks, such as `<!-- tests -->`.

    Raises:
        ValueError: The page lacks a mark.
    """
    tests = facts.get("tests")
    parts = {
        "tests": describe_tests(tests),
        "laws": describe_laws(tests),
        "fuzz": describe_fuzz(facts.get("fuzz")),
        "faults": describe_faults(tests),
        "stress": describe_stress(facts.get("stress")),
        "peers": describe_peers(facts.get("peers")),
        "mutants": describe_mutants(facts.get("mutants")),
    }
    for name, texts in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        head, found, rest = page.partition(begin)
        _, also_found, tail = rest.partition(end)
        if not (found and also_found):
            raise ValueError(f"the page has no part between {begin} and {end}")

        text = "\n\n".join(texts)
        page = f"{head}{begin}\n\n{text}\n\n{end}{tail}"

    return page


def describe_run(facts: Facts) -> str:
    """The sentence that says what a part was run on."""
    versions = ", ".join(f"{name} {each}" for name, each in facts["versions"].items())
    return (
        f"Run on {facts['date']}, commit `{facts['commit']}`, size *{facts['size']}*, "
        f"seed {facts['seed']}; Python {facts['python']} on {facts['system']}, "
        f"{versions}."
    )


def describe_tests(facts: Facts | None) -> Iterable[str]:
    """How many tests and examples passed."""
    if facts is None:
        yield NOT_RUN
        return

    tests = facts["tests"]
    files = [name for name in tests if name.startswith("file ")]
    yield describe_run(facts)
    if facts["size"] == "quick":
        yield (
            f"This was a quick run: {count(len(files), 'test file')}, not all of them."
        )

    yield render_table(
        ("", "number"),
        [
            ("tests that passed", tests.get("passed", 0)),
            ("tests that failed", tests.get("failed", 0)),
            ("tests that were skipped", tests.get("skipped", 0)),
            ("examples that Hypothesis made", sum(facts["examples"].values())),
        ],
    )


def describe_laws(facts: Facts | None) -> Iterable[str]:
    """How often each law held."""
    if facts is None:
        yield NOT_RUN
        return

    laws = facts["laws"]
    yield (
        f"In the run above {count(len(laws), 'law')} held "
        f"{count(sum(laws.values()), 'time')}."
    )
    yield render_table(
        ("law", "held"), [(f"`{name}`", laws[name]) for name in sorted(laws)]
    )


def describe_fuzz(facts: Facts | None) -> Iterable[str]:
    """How many new examples there were."""
    if facts is None:
        yield NOT_RUN
        return

    tests = facts["tests"]
    files = [f"`{name[5:]}`" for name in sorted(tests) if name.startswith("file ")]
    yield describe_run(facts)
    yield (
        f"In {', '.join(files)}: {count(tests.get('passed', 0), 'test')} with "
        f"{count(sum(facts['examples'].values()), 'new example')} passed, "
        f"{tests.get('failed', 0):,} failed."
    )


def describe_faults(facts: Facts | None) -> Iterable[str]:
    """How often something was interrupted or damaged, of what was counted."""
    if facts is None:
        yield NOT_RUN
        return

    done = facts["done"]
    names = {
        "interrupts": "interrupts before an instruction",
        "signals": "interrupts by a signal",
        "damage": "changes to saved bytes",
        "hostile": "hostile templates",
    }
    rows = [(title, done[name]) for name, title in names.items() if name in done]
    yield "In the run of the tests above:"
    yield render_table(("", "number"), rows)


def describe_stress(facts: Facts | None) -> Iterable[str]:
    """The table of the stress program."""
    if facts is None:
        yield NOT_RUN
        return

    yield describe_run(facts)
    rows = facts["rows"]
    names = list(rows[0]) if rows else ()
    yield render_table(names, [[row[name] for name in names] for row in rows])


def describe_peers(facts: Facts | None) -> Iterable[str]:
    """Which laws others keep and break."""
    if facts is None or "missing" in facts:
        yield NOT_RUN if facts is None else f"{NOT_RUN[:-1]}: {facts['missing']}."
        return

    yield describe_run(facts)
    rows = [
        (
            f"{row['peer']} {row['version']}",
            row["law"],
            "changed" if row["changed"] else "kept" if row["kept"] else "broken",
            row["sentence"],
        )
        for row in facts["rows"]
    ]
    if facts["left_out"]:
        yield f"Not installed, and left out: {', '.join(facts['left_out'])}."

    yield render_table(("library", "law", "result", "what happens"), rows)


def describe_mutants(facts: Facts | None) -> Iterable[str]:
    """The table of the mutants, and the survivors by name."""
    if facts is None:
        yield NOT_RUN
        return

    yield describe_run(facts)
    if facts.get("collected"):
        yield (
            "These are collected from runs of `make mutants` on the dates below; what "
            "one of them killed was not planted again by the next. Modules, files and "
            "lines have the names that they had then."
        )

    if facts["not_run"]:
        modules = ", ".join(f"`{module}`" for module in facts["not_run"])
        yield f"No mutants were planted in {modules}."

    names = ("possible", "mutants", "killed", "same", "cost", "survived")
    rows = facts["rows"]
    yield render_table(
        ("module", *names, "killed of those that count", "seed", "date"),
        [
            (
                f"`{row['module']}`",
                *(row[name] for name in names),
                "" if row["rate"] is None else f"{row['rate']:.1%}",
                row["seed"],
                row["date"],
            )
            for row in rows
        ],
    )
    survivors = [each for row in rows for each in row["survivors"]]
    if survivors:
        yield "These survived:"
        yield "\n".join(
            f"- `{each['path'].removeprefix('conversation_state/')}`, "
            f"{each['place']}: {quote(each['line'])}; {quote(each['change'])}"
            for each in survivors
        )


def render_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of Markdown; numbers have separators and stand on the right."""
    table = [list(row) for row in rows]
    numbers = [
        all(isinstance(row[column], int) for row in table)
        for column in range(len(names))
    ]
    marks = ["--:" if is_number else "---" for is_number in numbers]
    lines = [names, marks, *([format_cell(cell) for cell in row] for row in table)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_cell(cell: object) -> str:
    """A number with separators, or a text that does not end its cell."""
    return f"{cell:,}" if isinstance(cell, int) else str(cell).replace("|", "\\|")


def quote(text: str) -> str:
    """Code in a line of Markdown."""
    marks = "``" if "`" in text else "`"
    return f"{marks}{text}{marks}"


def count(number: int, noun: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
