"""
What a store needs of whatever keeps its rows: `Backend`, and the tables.

A backend knows tables of rows with a key each, ordered by it, and how to
change several of them at once or not at all. It knows nothing of
conversations: what rows mean, and which to write, is decided above (`log`,
`Store`). A stranger's backend is nine verbs on the tables of `TABLES`; hold it
against `conversation_state.testing.stores`.

What lives here: the protocol, and the schema. What does not: SQL (`_sql`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

__all__ = [
    "SCHEMA_VERSION",
    "TABLES",
    "Backend",
    "Column",
    "ConflictError",
    "Key",
    "Reading",
    "Row",
    "Table",
    "Writing",
]

SCHEMA_VERSION = 1

Key: TypeAlias = "int | str | bytes"
Row: TypeAlias = "tuple[Any, ...]"


class Column(NamedTuple):
    """
    A column: integers fit in 63 bits, texts are Unicode without U+0000.
    """

    name: str
    type: Literal["integer", "text", "bytes"]
    is_null: bool = False


class Table(NamedTuple):
    """
    A table: rows with a key each, ordered by it; texts as their UTF-8 bytes.

    A row is a tuple of its key and its *columns*, in that order.
    """

    name: str
    key: Column
    columns: tuple[Column, ...]


def _table(name: str, key: str, *columns: str) -> Table:
    made = []
    for column in (key, *columns):
        called, _, type = column.partition(":")
        made.append(Column(called, type.rstrip("?"), type.endswith("?")))  # type: ignore[arg-type]

    return Table(name, made[0], tuple(made[1:]))


# Identities are bytes, of UTF-8: a key that users chose may hold any character,
# and not every server's texts do.
_PLACED = ("place:integer", "id:bytes", "body:bytes", "content:bytes?", "digest:bytes")

# A *place* is ``branch << 32 | position``, a *revision* ``name << 32 | number``:
# one integer is the smallest key there is, and keeps what belongs together
# beside each other.
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        # Which names there are, by which number the rest knows them, and the
        # digest of both.
        _table("names", "name:text", "number:integer", "digest:bytes"),
        # Every state that was ever saved, and under which name. *labels* are
        # those that point to it, in the order they were given, with a zero byte
        # between two. The *seal* covers the rest of the row.
        _table(
            "revisions",
            "revision:integer",
            *("branch:integer", "length:integer"),
            *("ledger_branch:integer", "ledger_length:integer"),
            *("origin:integer", "digest:bytes", "labels:bytes", "saved_at:integer"),
            "seal:bytes",
        ),
        # The number of a name in eight bytes, then a label: the one revision it
        # points to, whose row has the label as well.
        _table("labels", "label:bytes", "revision:integer"),
        # Who states are, and where they were forked.
        _table(
            "origins",
            "origin:integer",
            *("state:bytes", "parent:bytes?", "root:bytes"),
            *("init_len:integer", "init_ledger_len:integer"),
        ),
        # Where branches start; a branch of 0 is the empty log.
        _table("branches", "branch:integer", "parent:integer", "start:integer"),
        # The chain digest of each branch's first row.
        _table("starts", "digest:bytes", "branch:integer"),
        _table("entries", *_PLACED),
        _table("ledger", *_PLACED),
        # Large content by its digest, and the digests each place refers to.
        _table("blobs", "digest:bytes", "size:integer", "data:bytes"),
        _table("uses", "place:integer", "digests:bytes"),
        # What hosts keep beside states, and up to where they need a branch of
        # messages. The *digest* is that of the row, and then of those messages.
        _table(
            "records",
            "key:bytes",
            *("value:bytes", "branch:integer", "length:integer", "digest:bytes"),
        ),
        # Times at which rows that were there changed, counted from 1 on: an
        # entry was erased, or garbage collected and places came free (*entry*
        # is empty then). The *content* ends with a digest of the row. Who
        # remembers rows forgets them.
        _table(
            "changes",
            "number:integer",
            *("entry:bytes", "content:bytes", "reason:text", "changed_at:integer"),
        ),
    )
}


class ConflictError(Exception):
    """
    Another write came first: nothing of this one happened; it may be
    decided again and retried.
    """


class Reading(Protocol):
    """
    **Protocol:** rows as they were at one moment.
    """

    def get(
        self, table: str, key: Key, columns: tuple[str, ...] | None = None
    ) -> Row | None:
        """
        The row with that key, or those of its columns; None if there is none.
        """
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

    def find(self, table: str, column: str, value: Any) -> list[Key]:
        """
        The keys of all rows that have *value* there, in order. May be slow.
        """
        ...


class Writing(Reading, Protocol):
    """
    **Protocol:** rows, and changing them.
    """

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
            ConflictError:
                If one of their keys is there already, one of *if_exists* is not,
                or one of *if_absent* is; now, or at the end of the block.
        """
        ...

    def set(self, table: str, key: Key, **values: Any) -> None:
        """
        Change columns of the row with that key, which is there.
        """
        ...

    def remove(self, table: str, low: Key | None, high: Key | None) -> int:
        """
        Remove the rows from key *low* on and before *high*; how many there
        were.
        """
        ...

    def remove_each(self, table: str, ranges: Sequence[tuple[Key, Key]]) -> int:
        """
        What `remove` does, for each pair of *low* and *high*.
        """
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
    opened it, and no thread opens two.
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
            ConflictError:
                At any moment of the block, its end included, if that can't be.
        """
        ...

    def scrub(self) -> None:
        """
        Make what was removed or overwritten unreadable in whatever files are
        below, as far as that can be done while others read and write.

        Raises:
            StoreError:
                If some may still be readable, and why. What was removed is
                removed all the same.
        """
        ...

    def vacuum(self) -> None:
        """
        Rewrite all rows, so that nothing which was removed or
        overwritten is left in whatever files are below. Others may have to
        wait.

        Raises:
            StoreError:
                If others are in the way.
        """
        ...

    def problems(self) -> list[str]:
        """
        What is wrong with whatever is below the tables, a sentence each.
        """
        ...

    def close(self) -> None:
        """
        Let go of files and connections. Idempotent. Whoever opens a block after
        it is told by a StoreError.
        """
        ...
