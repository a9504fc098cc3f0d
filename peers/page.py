"""The generated part of `docs/peers.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from peers.laws import LAWS

# What is above it is written by hand.
START = "<!--- The rest of this page is made by `make peers`. -->"


def update_page(page: str, rows: Sequence[dict[str, Any]]) -> str:
    """The page with its generated part made of *rows*."""
    written = page[: page.index(START)]
    return "\n".join([written + START, "", *make_table(rows), *make_sections(rows)])


def without_versions(page: str) -> str:
    """The page without the versions of libraries, which differ between environments."""
    return re.sub(r"^Run with .*$", "", page, flags=re.MULTILINE)


def make_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Laws and peers."""
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    results: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        word = "kept" if row["kept"] else "broken"
        results.setdefault((row["law"], row["peer"]), []).append(word)

    yield f"| law | {' | '.join(peers)} |"
    yield f"|---|{'---|' * len(peers)}"
    for law, page in LAWS.items():
        cells = [" and ".join(results.get((law, peer), ["–"])) for peer in peers]
        yield f"| [{law}]({page}) | {' | '.join(cells)} |"


def make_sections(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What each peer breaks, and where the examples of it are."""
    for peer, found in groupby(rows, key=itemgetter("peer")):
        examples = list(found)
        file = examples[0]["module"].replace(".", "/") + ".py"
        yield f"\n## {peer}\n"
        yield f"Run with version {examples[0]['version']}."
        yield f"The lines, and what it keeps: [`{file}`](../{file}).\n"
        for row in examples:
            if not row["kept"]:
                yield f"- *{row['law']}*: {row['sentence']}"

    yield ""
