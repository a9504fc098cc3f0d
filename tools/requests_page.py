"""
Writes the end of docs/providers.md: what each provider asks of a request as a whole,
and what a dump does about it, each with its source.

::

    python -m tools.requests_page [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from conversation_state.requests import SOURCES, Rule

PAGE = Path(__file__).parents[1] / "docs" / "providers.md"
_NAMES = {
    "": "Every provider",
    "openai_chat": "Chat Completions",
    "openai_responses": "Responses",
    "anthropic": "Anthropic Messages",
    "gemini": "Gemini",
}
# What is above it is written by hand.
_START = "<!--- The rest of this page is made by `python -m tools.requests_page`. -->\n"


def write_page() -> str:
    """The page, with its generated part made of the rules."""
    page = PAGE.read_text(encoding="utf-8")
    parts = [page[: page.index(_START)] + _START]
    for name, title in _NAMES.items():
        parts.append(f"\n### {title}\n\n")
        parts += [_write_rule(row) for row in SOURCES if row.format == name]

    return "".join(parts)


def _write_rule(row: Rule) -> str:
    hosts = f"**{row.host}**: " if row.host else ""
    return f"- {hosts}{row.says} *{row.does}* {_link(row.source)}\n"


def _link(source: str) -> str:
    return ", ".join(
        f"[{number}]({url})" if url.startswith("https://") else url
        for number, url in enumerate(source.split(", "), 1)
    )


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(write_page() != PAGE.read_text(encoding="utf-8"))

    PAGE.write_text(write_page(), encoding="utf-8")
