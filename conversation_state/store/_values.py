"""
The values that a store returns.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import attrs

from conversation_state._persistent import Log
from conversation_state._wording import format_count
from conversation_state.aggregator import Entry, Messages

__all__ = ["Collected", "Damage", "Head", "Receipt", "Window"]


class Head(NamedTuple):
    """
    One saved state of a name: which it is, not what it says.

    Attributes:
        name: What it was saved under.

        revision: The number of the save, counted from 1 on for each name.

        state_id: The id of the state.

        length: How many messages it has.

        ledger_length: How many ledger entries it has.

        digest: 32 hexadecimal digits that equal states have in common, and
            others do not.

        labels: Those that point to it, in the order they were given.

        saved_at: When, in UTC, to the millisecond.
    """

    name: str
    revision: int
    state_id: UUID
    length: int
    ledger_length: int
    digest: str
    labels: tuple[str, ...]
    saved_at: datetime

    def __str__(self) -> str:
        labels = f" ({', '.join(map(repr, self.labels))})" if self.labels else ""
        return (
            f"revision {self.revision}{labels} of {self.name!r} "
            f"({format_count(self.length, 'message')}, "
            f"saved {self.saved_at:%Y-%m-%d %H:%M:%S} UTC)"
        )


@attrs.frozen
class Window:
    """
    The newest messages of a saved state, without the others.

    Attributes:
        head: The state they are of.

        start: The position of the first of them.

        entries: The messages with their identities.
    """

    head: Head
    start: int
    entries: Log[Entry]

    @property
    def messages(self) -> Messages:
        """
        The messages. O(1).
        """
        return Messages(self.entries)

    @property
    def length(self) -> int:
        """
        How many messages the whole state has.
        """
        return self.head.length


@attrs.frozen
class Receipt:
    """
    That an entry was erased.

    Attributes:
        entry_id: Its identity.

        reason: Why.

        content: 32 hexadecimal digits: the digest of what it said, which
            stays, and which can be checked against a copy of the content.

        erased_at: When, in UTC; the first time, if it was more than once.

        rows: In how many places it was erased now; 0 if that had been done.

        blobs: How many large contents went with it, because nothing else
            referred to them.

        remains: Why a copy may remain in a file for a while, and what removes
            it; "" if none that the store knows of does. To erase the entry
            again tries once more to remove it.
    """

    entry_id: str
    reason: str
    content: str
    erased_at: datetime
    rows: int
    blobs: int
    remains: str = ""


@attrs.frozen
class Collected:
    """
    What was removed because no saved state needed it.

    Attributes:
        entries: Messages.

        ledger_entries: Ledger entries.

        branches: Branches without any row left.

        origins: The identities of states that are gone.

        blobs: Large contents.

        size: The bytes of all their contents; not of the rows around them.

        remains: Why copies of them may remain in a file for a while, and what
            removes them; "" if none that the store knows of do.
    """

    entries: int
    ledger_entries: int
    branches: int
    origins: int
    blobs: int
    size: int
    remains: str = ""


@attrs.frozen
class Damage:
    """
    Something in a store that is not what it should be.

    Attributes:
        where: ``entries``, ``ledger``, ``revisions``, ``blobs`` or ``medium``.

        id: The identity of the entry, the head as text, the digest of the
            blob, or "".

        what: What is wrong.
    """

    where: str
    id: str
    what: str

    def __str__(self) -> str:
        return f"{self.where} {self.id}: {self.what}".replace(" :", ":")
