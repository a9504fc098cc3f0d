"""
Shared by text, Markdown and HTML: the facts about a difference as a whole, and its
messages with their headings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

from conversation_state._common_fields import COMMON
from conversation_state._wording import format_count
from conversation_state.aggregator import Entry, LedgerEntry
from conversation_state.diffing._divergence import APART, CHANGED, Row
from conversation_state.messages import Message
from conversation_state.rendering import Quote, format_heading

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff

__all__ = [
    "CallNames",
    "ShownMessage",
    "collect_call_names",
    "describe_common",
    "describe_ledger",
    "describe_rest",
    "elsewhere_note",
    "list_differing_fields",
    "order_messages",
    "write_heading",
]

# The names of the calls made so far, by their ids.
CallNames = dict[str, str]

# The most keys with different ledger entries that are listed one by one.
_MAX_KEYS = 5


def describe_common(found: Diff) -> str:
    count = found.entries.common
    common = format_count(count, "message") if count else "no messages"
    if not found:
        differs = "" if found.identical else " but the id or fork point"
        return f"nothing differs{differs}: {common} in common"

    if not found.related:
        return f"{common} in common: the states are not related"

    order = ", the order of what came later differs" if found.entries.reordered else ""
    return f"{common} in common{order}"


def describe_rest(found: Diff, rows: Sequence[Row], limit: int, a: str, b: str) -> str:
    """
    How many messages there are besides those in *rows*, at most *limit* of them;
    "" if none.
    """
    if len(rows) < limit:
        return ""

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
    for name, only in ((a, ledger.only_a), (b, ledger.only_b)):
        if only:
            tokens = sum([entry.usage.total_tokens for entry in only])
            count = format_count(len(only), "ledger entry", "ledger entries")
            facts.append(
                f"only {name} recorded {format_count(tokens, 'token')} ({count})"
            )

    changed = ledger.changed if ledger.both else ()
    for ours, theirs in changed[:_MAX_KEYS]:
        facts.append(
            f"under the key {quote(ours.id)} {a} recorded "
            f"{_describe_entry(ours, theirs, quote)}, {b} "
            f"{_describe_entry(theirs, ours, quote)}"
        )

    if len(changed) > _MAX_KEYS:
        keys = format_count(len(changed) - _MAX_KEYS, "more key")
        facts.append(f"under {keys} {a} and {b} recorded something else")

    if ledger.reordered:
        facts.append("the order of the ledgers differs")

    return facts


def _describe_entry(entry: LedgerEntry, other: LedgerEntry, quote: Quote) -> str:
    model = f" for {quote(entry.model)}" if entry.model else ""
    time = ""
    if other == entry._replace(at=other.at):
        time = f" at {entry.at.isoformat()}" if entry.at else " at an unknown time"

    return f"{format_count(entry.usage.total_tokens, 'token')}{model}{time}"


def list_differing_fields(a: Message, b: Message) -> str:
    if type(a) is not type(b):
        return "role"

    # `_common` holds what few messages have; its fields are read by their own names.
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


# Messages and their headings


def collect_call_names(*entries: Entry) -> CallNames:
    return {call.id: call.name for each in entries for call in each.message.tool_calls}


def write_heading(entry: Entry, names: CallNames, quote: Quote) -> str:
    """
    The heading of a message, after which its calls are in *names*: a tool's
    message is headed by the name in the call that it answers.
    """
    heading = format_heading(entry.message, names, quote)
    names |= collect_call_names(entry)
    return heading


class ShownMessage(NamedTuple):
    """
    A message of one side, ``a`` or ``b``, or "" where one is shown for both.

    *kind* and *elsewhere* are those of its row, and *beside* is what that has on
    the other side. Of the second of two ``changed`` ones, *fields* differ.
    """

    side: str
    kind: str
    heading: str
    entry: Entry
    beside: Entry | None = None
    elsewhere: str = ""
    fields: str = ""


def order_messages(
    found: Diff, rows: Iterable[Row], quote: Quote
) -> Iterator[ShownMessage]:
    """
    The messages of *rows*, one below the other: of neighbouring rows that
    differ, all of *a* come before all of *b*.
    """
    ours = collect_call_names(*found.context)
    theirs = dict(ours)
    waiting: list[ShownMessage] = []
    for a, b, kind, a_elsewhere, b_elsewhere in rows:
        if kind != APART:
            yield from waiting
            waiting = []

        if a and b and kind not in (APART, CHANGED):
            yield ShownMessage("", kind, write_heading(a, ours, quote), a)
            # The same calls have other ids there, which results on that side refer to.
            theirs |= collect_call_names(b)
            continue

        if a:
            heading = write_heading(a, ours, quote)
            yield ShownMessage("a", kind, heading, a, b, a_elsewhere)

        if b:
            heading = write_heading(b, theirs, quote)
            if a and kind == CHANGED:
                fields = list_differing_fields(a.message, b.message)
                yield ShownMessage("b", kind, heading, b, a, fields=fields)
            else:
                waiting.append(ShownMessage("b", kind, heading, b, a, b_elsewhere))

    yield from waiting
