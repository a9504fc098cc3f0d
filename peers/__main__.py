"""
The command: run the examples, and print a table, JSON lines, or the page about them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from peers.laws import PEERS, examples_of
from peers.page import update_page


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 1 if a peer changed."""
    parser = argparse.ArgumentParser(prog="python -m peers")
    parser.add_argument("names", nargs="*", metavar="PEER", help=", ".join(PEERS))
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="update the page about the examples"
    )
    parser.add_argument(
        "--also",
        metavar="PYTHON",
        help="another interpreter, for the peers that are not installed in this one",
    )
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in PEERS]
    if unknown:
        parser.error(f"unknown peer {unknown[0]!r}; valid peers are {', '.join(PEERS)}")

    rows, missing = run_examples(asked.names or PEERS)
    if asked.also:
        rows, missing = [*rows, *run_elsewhere(asked.also, missing)], []

    for name in missing:
        print(f"left out: {name} (not installed)", file=sys.stderr)

    if asked.page and missing:
        parser.error("the page needs all peers: name an interpreter with --also")

    if asked.page:
        page = update_page(asked.page.read_text(encoding="utf-8"), rows)
        asked.page.write_text(page, encoding="utf-8")

    for line in map(json.dumps, rows) if asked.json else format_table(rows):
        print(line)

    return int(any(row["changed"] for row in rows))


def run_examples(names: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """
    A row for each example of the named peers, and the names of those that are not
    installed.
    """
    rows, missing = [], []
    for name in names:
        examples = examples_of(name)
        if examples.peer.version is None:
            missing.append(name)
            continue

        for example in examples.all:
            changed = ""
            try:
                example.run()
            except AssertionError as error:
                changed = str(error)

            rows.append({**example.row(), "changed": changed})

    return rows, missing


def run_elsewhere(python: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows that another interpreter makes of the named peers."""
    if names:
        command = [python, "-m", "peers", "--json", *names]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - ours
        yield from map(json.loads, done.stdout.splitlines())


def format_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each example."""
    for row in rows:
        peer = f"{row['peer']} {row['version']}"
        result = "kept" if row["kept"] else "broken"
        yield f"{peer:26} {'CHANGED' if row['changed'] else result:8} {row['law']}"
        if row["changed"]:
            yield f"  {row['changed']}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
