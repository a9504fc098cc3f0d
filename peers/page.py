"""The generated part of `docs/peers.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from peers.laws import LAWS

# What is above it is written by hand.
START = "<!--- The rest of this page is made by `make peers`. -->"


def update_page(page: str, rows: Sequence[dict[str, Any]]) -> str:
    """The page with its generated part made of *rows*."""
    return "\n".join([page[: page.index(START)] + START, "", *make_table(rows), ""])


def without_versions(page: str) -> str:
    """The page without the versions of libraries, which differ between environments."""
    return re.sub(r"^Run with .*$", "", page, flags=re.MULTILINE)


def make_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Laws and peers, each with its lines, and the versions that were run."""
    peers = {row["peer"]: row for row in rows}
    results: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        word = "kept" if row["kept"] else "broken"
        results.setdefault((row["law"], row["peer"]), []).append(word)

    files = {
        peer: row["module"].replace(".", "/") + ".py" for peer, row in peers.items()
    }
    heads = [f"[{peer}](../{file})" for peer, file in files.items()]
    yield f"| law | {' | '.join(heads)} |"
    yield f"|---|{'---|' * len(peers)}"
    for law, page in LAWS.items():
        cells = [" and ".join(results.get((law, peer), ["–"])) for peer in peers]
        yield f"| [{law}]({page}) | {' | '.join(cells)} |"

    versions = [f"{peer} {row['version']}" for peer, row in peers.items()]
    yield f"\nRun with {', '.join(versions)}."
