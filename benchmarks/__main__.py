"""The command: all benchmarks, or those named."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator

from benchmarks.measure import LeftOut, Row
from benchmarks.recordings import PATH

NAMES = (
    "log",
    "state",
    "maps",
    "chunks",
    "streams",
    "langgraph",
    "trim",
    "trim_peers",
    "prefix",
    "timeline",
    "counting",
    "codec",
    "diff",
    "parallel",
    "store",
    "postgres",
    "server",
    "concurrent",
    "store_peers",
    "hosts",
    "engines",
    "imports",
)
WITH_RECORDINGS = ("codec", "diff", "trim_peers")


def shown(row: Row) -> str:
    """A line of the table."""
    peer = f"{row.peer:14,.4g} {row.unit:5} {row.beside}" if row.peer else ""
    ratio = f"{row.ratio:10.2g}" if row.ratio is not None else " " * 10
    return f"{row.claim:44} {row.n:>9,} {row.ours:12,.4g} {row.unit:5} {ratio} {peer}"


def main(arguments: list[str]) -> int:
    """Run what was asked for; print a table, or JSON lines."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")

    if not asked.json:
        head = f"{'claim':44} {'n':>9} {'ours':>12}       {'ratio':>10} {'peer':>14}"
        print(f"{head}\n{'-' * len(head)}")

    left_out: list[LeftOut] = []
    is_failed = False
    for name in asked.names or NAMES:
        for row in measured(name):
            if isinstance(row, LeftOut):
                left_out.append(row)
                is_failed = is_failed or row.is_error
            elif asked.json:
                print(json.dumps({**row._asdict(), "ratio": row.ratio}), flush=True)
            else:
                print(shown(row), flush=True)

    of_recordings = [name for name in WITH_RECORDINGS if name in (asked.names or NAMES)]
    if of_recordings and not PATH.is_file():
        claim = f"recorded conversations, of {', '.join(of_recordings)}"
        why = f"no file {PATH}; CONVERSATION_STATE_DATA names another folder"
        left_out.append(LeftOut(claim, why))

    for rows in left_out:
        print(f"left out: {rows.claim} ({rows.why})", file=sys.stderr)

    return int(is_failed)


def measured(name: str) -> Iterator[Row | LeftOut]:
    """
    The rows of one benchmark; where a peer is missing, or something fails, those
    after it are left out, and the other benchmarks run.
    """
    try:
        yield from importlib.import_module(f"benchmarks.{name}").rows()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in {"benchmarks", "conversation_state"}:
            raise

        yield LeftOut(f"{name}, from here on", str(error))
    except Exception as error:  # noqa: BLE001 - one peer must not stop the others
        why = f"{type(error).__name__}: {error}"
        yield LeftOut(f"{name}, from here on", why, is_error=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
