"""
What a store needs of what keeps its rows: the protocol `Backend`.

A backend knows tables of rows with a key each, ordered by it, and how to
change several of them at once or not at all. It knows nothing of
conversations: what rows mean, and which to write, is decided above (`log`,
`Store`). A stranger's backend is eleven verbs on the tables of `TABLES`; hold it
against `StoreContract` in `tests/store/promises`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from conversation_state.errors import StoreError
from conversation_state.store.schema import SCHEMA_VERSION, TABLES, Column, Table

__all__ = [
    "SCHEMA_VERSION",
    "TABLES",
    "Backend",
    "Column",
    "ConflictError",
    "DamageError",
    "Key",
    "Reading",
    "Row",
    "Table",
    "Writing",
]

Key: TypeAlias = "int | str | bytes"
Row: TypeAlias = "tuple[Any, ...]"


class ConflictError(Exception):
    """
    Another write came first: nothing of this one happened; it may be
    decided again and retried.
    """


class DamageError(StoreError):
    """
    What is there is not what was written. Any other `StoreError` of a backend says why
    it could not be read, or written, now.
    """


class Reading(Protocol):
    """**Protocol:** rows as they were at one moment."""

    def get(
        self, table: str, key: Key, columns: tuple[str, ...] | None = None
    ) -> Row | None:
        """The row with that key, or those of its columns, or None."""
        ...

    def scan(
        self,
        table: str,
        low: Key | None,
        high: Key | None,
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
        backwards: bool = False,
    ) -> list[Row]:
        """
        The rows from key *low* on and before *high*, or those of their
        columns; None for no such end. At most *limit*, in order or backwards.
        """
        ...

    def scan_each(
        self,
        table: str,
        ranges: Sequence[tuple[Key, Key]],
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
    ) -> list[list[Row]]:
        """
        What `scan` gives for each pair of *low* and *high*, of which there may be
        none, and thousands: where a server is far away, all are asked for at once.
        """
        ...

    def scan_heads(self, low: str, high: str | None, limit: int) -> list[Row]:
        """
        The rows of ``names`` from key *low* on and before *high*, in order, at most
        *limit*. Each goes on with the columns of the newest row of ``revisions`` of
        that name's number, whose keys are ``number << 32`` and more, and with those of
        the row of ``origins`` that this one has; None for each column of a row that
        is not there.

        In one query: a server may be far away, and names may be many.
        """
        ...

    def get_head(self, name: str) -> Row | None:
        """
        What a verb has to know of one name to go on from its newest state: the row
        that `scan_heads` gives of it; the columns ``parent`` and ``start`` of the rows
        of ``branches`` that its revision's ``branch`` and ``ledger_branch`` name; the
        ``digest`` of the rows of ``entries`` and ``ledger`` that are last there, with
        the keys ``(branch << 32) + length - 1``; and the greatest key of ``changes``.
        None without such a name, and for each column of a row that is not there.

        In one query, as there.
        """
        ...

    def find(
        self,
        table: str,
        column: str,
        values: Collection[Any],
        low: Key | None = None,
        high: Key | None = None,
    ) -> list[Key]:
        """
        The keys of all rows from key *low* on and before *high* that have one of
        *values* there, in order. Should be quick for `Table.indexed`, and ask for all
        of them at once; else it may be slow.
        """
        ...


class Writing(Reading, Protocol):
    """**Protocol:** rows, and changing them."""

    def add(
        self,
        table: str,
        rows: Sequence[Row],
        *,
        if_exists: Sequence[tuple[str, Key]] = (),
        if_absent: Sequence[tuple[str, Key]] = (),
    ) -> None:
        """
        Add *rows*, of which there is at least one.

        *if_exists* and *if_absent* are tables and keys, and come with one row only.

        Raises:
            ConflictError: If one of their keys is there already, one of *if_exists* is
                not, or one of *if_absent* is; now, or at the end of the block.
        """
        ...

    def set(self, table: str, key: Key, **values: Any) -> None:
        """Change columns of the row with that key, which is there."""
        ...

    def remove(self, table: str, low: Key | None, high: Key | None) -> int:
        """Remove the rows from key *low* on and before *high*; how many there were."""
        ...

    def remove_each(self, table: str, ranges: Sequence[tuple[Key, Key]]) -> int:
        """What `remove` does, for each pair of *low* and *high*."""
        ...

    def new_number(self) -> int:
        """
        A number from 1 to 2**31 - 1 that was never given before, not even for
        what was removed since. Numbers grow; some may be left out.
        """
        ...


class Backend(Protocol):
    """
    **Protocol:** keeps the rows of a store.

    Safe to be called from many threads. A block is closed by the thread that
    opened it, and no thread opens two. One whose blocks are slow may have a method
    `add_at_once`, as `SqliteBackend` has.
    """

    url: str

    def reading(self) -> AbstractContextManager[Reading]:
        """
        A block that reads rows as they were at one moment, whatever others
        write meanwhile.
        """
        ...

    def writing(self) -> AbstractContextManager[Writing]:
        """
        A block whose changes happen all at once when it ends, as if no other
        one ran meanwhile, and not at all if it raises.

        Raises:
            ConflictError: At any moment of the block, its end included, if that can't
                be.
        """
        ...

    def scrub(self) -> None:
        """
        Make what was removed or overwritten unreadable in whatever files are
        below, as far as that can be done while others read and write.

        Raises:
            StoreError: If some may still be readable, and why. What was removed is
                removed all the same.
        """
        ...

    def vacuum(self) -> None:
        """
        Rewrite all rows, so that nothing which was removed or
        overwritten is left in whatever files are below. Others may have to
        wait.

        Raises:
            StoreError: If others are in the way.
        """
        ...

    def problems(self) -> list[str]:
        """
        What is wrong with whatever is below the tables, a sentence each.

        Raises:
            StoreError: If it can't be read now, which is no damage.
        """
        ...

    def close(self) -> None:
        """
        Close files and connections. Idempotent. Opening a block afterwards raises a
        StoreError.
        """
        ...
