"""
Writes docs/requests.md: what each provider asks of a request as a whole, what a dump
does about it, and what the strict provider refuses, each with its source.

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
_BEFORE = """# What a request is asked for

<!-- Written by `python -m tools.requests_page`. -->

A message keeps its own laws when it is made.
A request has more, which are about all of its messages: each call has its result directly behind it, ids are unique, a user speaks first.
`conversation_state.requests` has these rules as values, `anthropic.RULES` for one, and each with its source; every `dump` runs one pass that makes the messages right by them, and lists what it changed in `lost`.
Views know the same rules: what a framework sends of `view.messages` is what a provider takes.

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

The default is right for every host that is known, but for what is worse for all others and has to be asked for: ids of nine characters, which Mistral's servers want, and turns that alternate, as Perplexity and many templates of vLLM do: `openai_chat.dump(messages, rules=openai_chat.rules(host="mistral"))`.
The other formats, those of eino, bubo, LangChain and Pydantic AI for example, are what a program keeps, and no request: their `dump` writes the messages as they are.
Where such a program sends them to a provider, dump a view, which is right for all of them: `eino.dump(trim(state, None).messages)`.
What was loaded from a format goes home to it as it came: its ids, names and contents are changed only for a host that is named.

## What a dump keeps
"""
_MIDDLE = """
## What the strict provider refuses

`conversation_state.testing.provider` is a judge that shares no code with the rules above ([testing](testing.md)).
*By* says who refuses: `api` is the provider's own, `reference` is what only its reference asks for, others are hosts that speak the wire.
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
        parts += [f"\n### {title}\n\n", *_table(("host", "asked", "done"), rows)]

    parts.append(_MIDDLE)
    for name, title in list(_NAMES.items())[1:]:
        judged = [
            (", ".join(rule.by), rule.name, rule.text, _link(rule.source))
            for rule in RULES
            if rule.wire == name
        ]
        parts += [
            f"\n### {title}, refused\n\n",
            *_table(("by", "rule", "error"), judged),
        ]

    return "".join(parts)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} | source |\n|{'---|' * (len(heads) + 1)}\n"
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
