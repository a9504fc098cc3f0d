"""
Writes docs/requests.md: what each provider asks of a request as a whole, and what a dump
does about it, each with its source.

::

    python -m tools.requests_page [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from conversation_state.requests import SOURCES
from conversation_state.testing.provider import RULES

PAGE = Path(__file__).parents[1] / "docs" / "requests.md"
_NAMES = {
    "": "Every provider",
    "openai_chat": "Chat Completions",
    "openai_responses": "Responses",
    "anthropic": "Anthropic Messages",
    "gemini": "Gemini",
}
_BEFORE = """# What a provider takes

<!-- Written by `python -m tools.requests_page`. -->

A provider refuses a request whose messages do not fit together: a call without its result, an id that is used twice, an answer before the first question.
Every `dump` of a provider's format puts the messages right, and lists what it changed:

```python
from conversation_state import AssistantMessage, ToolCall, ToolMessage, UserMessage
from conversation_state.adapters import openai_chat

late = [
    UserMessage("Book the hills."),
    AssistantMessage(tool_calls=[ToolCall("call_1", "book", "{}")]),
    UserMessage("How long will it take?"),
    ToolMessage("Booked, number 7.", tool_call_id="call_1"),
]
export = openai_chat.dump(late)

roles = [message["role"] for message in export.payload["messages"]]
assert roles == ["user", "assistant", "tool", "user"]
assert [lost.what for lost in export.lost] == ["position"]
```

- The rules are values with their sources, in `conversation_state.requests`; `openai_chat.RULES`, for one, are those of a format.
- The default is right for every known host but two: Mistral asks for ids of nine characters, and Perplexity and many templates of vLLM for turns that alternate. Name those: `openai_chat.dump(messages, rules=openai_chat.rules(host="mistral"))`.
- What was loaded from a format is dumped to it unchanged, unless you name a host that asks for other ids.
- A view, `trim(state, budget)`, is right by the same rules. LangChain's and eino's messages are no requests, and are dumped as they are: dump a view if they are sent.

## What a dump changes
"""
_AFTER = """
The [strict provider](testing.md#a-provider-that-refuses) of your tests shares no code with these rules; it has {count} rules of its own, each with its source.
"""


def write_page() -> str:
    """The text of the page."""
    parts = [_BEFORE]
    for name, title in _NAMES.items():
        rows = [
            (row.host or "all", row.says, row.does, _link(row.source))
            for row in SOURCES
            if row.format == name
        ]
        parts += [f"\n### {title}\n\n", *_table(rows)]

    parts.append(_AFTER.format(count=len(RULES)))
    return "".join(parts)


def _table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| host | asked | done | source |\n|---|---|---|---|\n"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _link(source: str) -> str:
    return ", ".join(
        f"[{number}]({url})" if url.startswith("https://") else url
        for number, url in enumerate(source.split(", "), 1)
    )


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(write_page() != PAGE.read_text(encoding="utf-8"))

    PAGE.write_text(write_page(), encoding="utf-8")
