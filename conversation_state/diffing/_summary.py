"""
What text, Markdown and HTML have in common: the facts about a difference as a
whole, and the headings of its messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from conversation_state._wording import format_count
from conversation_state.aggregator import Entry, LedgerEntry
from conversation_state.diffing._divergence import Row
from conversation_state.messages import Message
from conversation_state.messages._base import COMMON
from conversation_state.rendering import Quote, format_heading

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff

__all__ = [
    "HeadingWriter",
    "describe_common",
    "describe_ledger",
    "describe_rest",
    "elsewhere_note",
    "list_differing_fields",
]

# The most keys with different usages that are listed one by one.
_MAX_KEYS = 5


def describe_common(found: Diff) -> str:
    """
    What both sides have in common, without an end to the sentence.
    """
    count = found.entries.common
    common = format_count(count, "message") if count else "no messages"
    if not found:
        differs = "" if found.identical else " but the id or fork point"
        return f"nothing differs{differs}: {common} in common"

    if not found.related:
        return f"{common} in common: the states are not related"

    order = ", the order of what came later differs" if found.entries.reordered else ""
    return f"{common} in common{order}"


def describe_rest(found: Diff, rows: Sequence[Row], a: str, b: str) -> str:
    """
    How many messages there are beside those in *rows*; "" if none.
    """
    facts = []
    for name, rest, shown in (
        (a, found.entries.rest_a, [row for row in rows if row.a]),
        (b, found.entries.rest_b, [row for row in rows if row.b]),
    ):
        if more := len(rest) - len(shown):
            facts.append(f"{format_count(more, 'more message')} in {name}")

    return ", ".join(facts)


def describe_ledger(found: Diff, a: str, b: str, quote: Quote) -> list[str]:
    """
    Which side recorded which usage, a sentence each; *a* and *b* are quoted.
    """
    ledger = found.ledger
    facts = []
    if ledger.only_a:
        facts.append(_describe_usage(a, found.usage_a.total_tokens, ledger.only_a))

    if ledger.only_b:
        facts.append(_describe_usage(b, found.usage_b.total_tokens, ledger.only_b))

    changed = ledger.changed
    facts += [
        f"under the key {quote(ours.id)} {a} recorded {_describe_entry(ours, quote)}, "
        f"{b} {_describe_entry(theirs, quote)}"
        for ours, theirs in changed[:_MAX_KEYS]
    ]
    if len(changed) > _MAX_KEYS:
        keys = format_count(len(changed) - _MAX_KEYS, "more key")
        facts.append(f"under {keys} {a} and {b} recorded different usages")

    if ledger.reordered:
        facts.append("the order of the ledgers differs")

    return facts


def _describe_usage(name: str, tokens: int, entries: Sequence[LedgerEntry]) -> str:
    count = format_count(len(entries), "ledger entry", "ledger entries")
    return f"only {name} recorded {format_count(tokens, 'token')} ({count})"


def _describe_entry(entry: LedgerEntry, quote: Quote) -> str:
    model = f" for {quote(entry.model)}" if entry.model else ""
    return f"{format_count(entry.usage.total_tokens, 'token')}{model}"


def list_differing_fields(a: Message, b: Message) -> str:
    """
    Which fields of two messages differ, by name.
    """
    if type(a) is not type(b):
        return "role"

    names = [name for name in attrs.fields_dict(type(a)) if name != "_common"]
    differ = [n for n in (*names, *COMMON) if getattr(a, n) != getattr(b, n)]
    return ", ".join(differ)


def elsewhere_note(kind: str, other: str) -> str:
    """
    That *other* has an entry, or one with the same content, in another place.
    """
    return {
        "": "",
        "both": f", elsewhere in {other}, too",
        "changed": f", elsewhere and changed in {other}",
        "same": f", same content elsewhere in {other}",
    }[kind]


class HeadingWriter:
    """
    Writes the headings of one side's messages, in order: a tool's message is
    headed by the name in the call that it answers.
    """

    def __init__(self, context: Iterable[Entry], quote: Quote) -> None:
        self._names: dict[str, str] = {}
        self._quote = quote
        for entry in context:
            self.note_calls(entry.message)

    def write(self, message: Message) -> str:
        heading = format_heading(message, self._names, self._quote)
        self.note_calls(message)
        return heading

    def note_calls(self, message: Message) -> None:
        for call in getattr(message, "tool_calls", ()):
            self._names[call.id] = call.name
