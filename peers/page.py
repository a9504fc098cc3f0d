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
    """Laws, with the peers that keep and break each; the versions that were run."""
    yield "| law | kept by | broken by |"
    yield "|---|---|---|"
    for law, page in LAWS.items():
        kept, broken = (
            list(
                dict.fromkeys(
                    row["peer"]
                    for row in rows
                    if row["law"] == law and row["kept"] is is_kept
                )
            )
            for is_kept in (True, False)
        )
        yield f"| [{law}]({page}) | {', '.join(kept)} | {', '.join(broken)} |"

    peers = {
        row["peer"]: f"[{row['peer']}](../{row['module'].replace('.', '/')}.py) "
        f"{row['version']}"
        for row in rows
    }
    yield f"\nRun with {', '.join(peers.values())}."
