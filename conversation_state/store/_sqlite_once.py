"""
A save in one statement, if it is one revision and one message.

A view of the connection's own takes both rows, and its trigger adds them or
raises: BEGIN, the question whether the head is still that one, two insertions
and COMMIT take five microseconds more. Nothing of it is in the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, TypeAlias

from conversation_state.store.backend import TABLES, Key, Row

__all__ = ["Adding", "Connection", "add_at_once", "is_first", "is_second"]

# What `Writing.add` is given.
Adding: TypeAlias = (
    "tuple[str, Sequence[Row], Sequence[tuple[str, Key]], Sequence[tuple[str, Key]]]"
)

# A row of the first table, given one there and lacking one elsewhere; then a
# row of the second table.
_FIRST, _LACKING, _SECOND = "revisions", "changes", "entries"


class Connection(sqlite3.Connection):
    """
    A connection that knows whether it has the view.
    """

    has_view = False


def is_first(
    table: str,
    rows: Sequence[Row],
    given: Sequence[tuple[str, Key]],
    lacking: Sequence[tuple[str, Key]],
) -> bool:
    """
    Whether what is added may be the first row.
    """
    if table != _FIRST or not len(rows) == len(given) == len(lacking) == 1:
        return False

    return given[0][0] == _FIRST and lacking[0][0] == _LACKING


def is_second(table: str, rows: Sequence[Row]) -> bool:
    """
    Whether what is added may be the second row.
    """
    return table == _SECOND and len(rows) == 1


def add_at_once(connection: Any, first: Adding, second: Adding) -> None:
    """
    Add both rows, in a transaction of their own.

    Raises:
        sqlite3.IntegrityError:
            If the condition does not hold, or one of the rows is there.
    """
    if not connection.has_view:
        for statement in _VIEW:
            connection.execute(statement)

        connection.has_view = True

    _, (row,), ((_, given),), ((_, lacking),) = first
    connection.execute(_SAVE, (given, lacking, *row, *second[1][0]))


def _columns(table: str) -> list[str]:
    known = TABLES[table]
    names = (known.key.name, *[column.name for column in known.columns])
    return [f"{table}_{name}" for name in names]


def _key(table: str) -> str:
    return TABLES[table].key.name


def _new(columns: list[str]) -> str:
    return ", ".join([f"new.{column}" for column in columns])


_ALL = ["given", "lacking", *_columns(_FIRST), *_columns(_SECOND)]
_SAVE = f"INSERT INTO saves VALUES ({', '.join(['?'] * len(_ALL))})"  # noqa: S608 - of names in `TABLES`
_SHOWN = ", ".join([f"0 AS {column}" for column in _ALL])
_VIEW = (
    # Else there might be a file for what is the connection's own.
    "PRAGMA temp_store = MEMORY",
    f"CREATE TEMP VIEW IF NOT EXISTS saves AS SELECT {_SHOWN}",
    f"""
    CREATE TEMP TRIGGER IF NOT EXISTS saved INSTEAD OF INSERT ON saves BEGIN
        SELECT RAISE(ABORT, 'somebody else was first')
        WHERE NOT EXISTS (SELECT 1 FROM {_FIRST} WHERE {_key(_FIRST)} = new.given)
        OR EXISTS (SELECT 1 FROM {_LACKING} WHERE {_key(_LACKING)} = new.lacking);
        INSERT INTO {_FIRST} VALUES ({_new(_columns(_FIRST))});
        INSERT INTO {_SECOND} VALUES ({_new(_columns(_SECOND))});
    END
    """,  # noqa: S608 - as above
)
