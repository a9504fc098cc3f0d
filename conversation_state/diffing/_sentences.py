"""
What every rendering says about a difference as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from conversation_state.aggregator import Entry, LedgerEntry
from conversation_state.diffing._rows import Row
from conversation_state.messages import Message
from conversation_state.messages._base import COMMON
from conversation_state.rendering import Quote, head_of

if TYPE_CHECKING:
    from conversation_state.diffing._diff import Diff

__all__ = ["Speakers", "counted", "differing", "in_common", "left", "met", "spent"]

# Of keys that were paid differently, as many are told one by one.
_MOST_KEYS = 5


def counted(count: int, what: str) -> str:
    """
    ``1 message``, ``2,000 messages``.
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def in_common(found: Diff) -> str:
    """
    What there is in common, without an end to the sentence.
    """
    common = counted(found.common, "message") if found.common else "no messages"
    if not found:
        differs = "" if found.identical else " but who the states are"
        return f"nothing differs{differs}: {common} in common"

    if not found.related:
        return f"{common} in common: the states are not related"

    order = ", the order of what came later differs" if found.reordered else ""
    return f"{common} in common{order}"


def left(found: Diff, rows: Sequence[Row], a: str, b: str) -> str:
    """
    How many messages there are beside those in *rows*; "" if none.
    """
    told = []
    for name, rest, shown in (
        (a, found.entries.rest_a, [row for row in rows if row.a]),
        (b, found.entries.rest_b, [row for row in rows if row.b]),
    ):
        if more := len(rest) - len(shown):
            told.append(f"{counted(more, 'more message')} in {name}")

    return ", ".join(told)


def spent(found: Diff, a: str, b: str, quote: Quote) -> list[str]:
    """
    Who spent what, a sentence each; *a* and *b* are safe to be written.
    """
    told = []
    for name, ledger, usage in (
        (a, found.ledger_a, found.usage_a),
        (b, found.ledger_b, found.usage_b),
    ):
        if ledger:
            tokens = counted(usage.total_tokens, "token")
            times = counted(len(ledger), "record")
            told.append(f"only {name} spent {tokens} ({times})")

    changed = found.ledger_changed
    told += [
        f"under the key {quote(ours.id)} {a} paid {_paid(ours, quote)}, "
        f"{b} {_paid(theirs, quote)}"
        for ours, theirs in changed[:_MOST_KEYS]
    ]
    if len(changed) > _MOST_KEYS:
        keys = counted(len(changed) - _MOST_KEYS, "more key")
        told.append(f"under {keys} {a} and {b} paid differently")

    if found.ledger.reordered:
        told.append("the order of what both spent differs")

    return told


def _paid(entry: LedgerEntry, quote: Quote) -> str:
    model = f" for {quote(entry.model)}" if entry.model else ""
    return f"{counted(entry.usage.total_tokens, 'token')}{model}"


def differing(a: Message, b: Message) -> str:
    """
    Which fields of two messages differ, by name.
    """
    if type(a) is not type(b):
        return "role"

    names = [name for name in attrs.fields_dict(type(a)) if name != "_common"]
    differ = [n for n in (*names, *COMMON) if getattr(a, n) != getattr(b, n)]
    return ", ".join(differ)


def met(kind: str, other: str) -> str:
    """
    What is known of an entry that *other* has in another place, or its like.
    """
    return {
        "": "",
        "both": f", elsewhere in {other}, too",
        "changed": f", elsewhere and changed in {other}",
        "same": f", said elsewhere in {other}, too",
    }[kind]


class Speakers:
    """
    Who speaks on one side, with the names of the tools it called until then.
    """

    def __init__(self, context: Iterable[Entry], quote: Quote) -> None:
        self._names: dict[str, str] = {}
        self._quote = quote
        for entry in context:
            self._called(entry.message)

    def head(self, message: Message) -> str:
        head = head_of(message, self._names, self._quote)
        self._called(message)
        return head

    def _called(self, message: Message) -> None:
        for call in getattr(message, "tool_calls", ()):
            self._names[call.id] = call.name
