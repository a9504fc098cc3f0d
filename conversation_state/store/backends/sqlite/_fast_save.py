"""
A save of one revision and one message in one statement.

A view of the connection's own takes both rows, and its trigger adds them or
raises: BEGIN, the question whether the head is still that one, two insertions
and COMMIT take five microseconds more. Nothing of it is in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from conversation_state.store.backend import Key, Row
from conversation_state.store.schema import TABLES

__all__ = ["AddArguments", "is_entry_row", "is_revision_row", "save_in_one_statement"]

# The arguments of `Writing.add`.
AddArguments: TypeAlias = (
    "tuple[str, Sequence[Row], Sequence[tuple[str, Key]], Sequence[tuple[str, Key]]]"
)

# A row of _REVISIONS, if one exists there and one is absent in _CHANGES; then a row
# of _ENTRIES.
_REVISIONS, _CHANGES, _ENTRIES = "revisions", "changes", "entries"


def is_revision_row(
    table: str,
    rows: Sequence[Row],
    if_exists: Sequence[tuple[str, Key]],
    if_absent: Sequence[tuple[str, Key]],
) -> bool:
    """
    Whether these are the arguments of the first row of such a save.
    """
    if table != _REVISIONS or not len(rows) == len(if_exists) == len(if_absent) == 1:
        return False

    return if_exists[0][0] == _REVISIONS and if_absent[0][0] == _CHANGES


def is_entry_row(table: str, rows: Sequence[Row]) -> bool:
    """
    Whether these are the arguments of the second row of such a save.
    """
    return table == _ENTRIES and len(rows) == 1


def save_in_one_statement(
    connection: Any, first: AddArguments, second: AddArguments
) -> None:
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

    _, (row,), ((_, if_exists),), ((_, if_absent),) = first
    connection.execute(_INSERT, (if_exists, if_absent, *row, *second[1][0]))


def _list_columns(table: str) -> list[str]:
    return [f"{table}_{name}" for name in TABLES[table].column_names]


def _key_name(table: str) -> str:
    return TABLES[table].key.name


def _insert(table: str) -> str:
    columns = ", ".join(TABLES[table].column_names)
    values = ", ".join([f"new.{column}" for column in _list_columns(table)])
    return f"INSERT INTO {table} ({columns}) VALUES ({values})"  # noqa: S608 - of names in `TABLES`


_COLUMNS = [
    "if_exists",
    "if_absent",
    *_list_columns(_REVISIONS),
    *_list_columns(_ENTRIES),
]
_INSERT = f"INSERT INTO saves VALUES ({', '.join(['?'] * len(_COLUMNS))})"  # noqa: S608 - of names in `TABLES`
_EMPTY_COLUMNS = ", ".join([f"0 AS {column}" for column in _COLUMNS])
_VIEW = (
    # Else SQLite might write a temporary file for the view.
    "PRAGMA temp_store = MEMORY",
    f"CREATE TEMP VIEW IF NOT EXISTS saves AS SELECT {_EMPTY_COLUMNS}",
    f"""
    CREATE TEMP TRIGGER IF NOT EXISTS saved INSTEAD OF INSERT ON saves BEGIN
        SELECT RAISE(ABORT, 'another save was first')
        WHERE NOT EXISTS (
            SELECT 1 FROM {_REVISIONS} WHERE {_key_name(_REVISIONS)} = new.if_exists
        ) OR EXISTS (
            SELECT 1 FROM {_CHANGES} WHERE {_key_name(_CHANGES)} = new.if_absent
        );
        {_insert(_REVISIONS)};
        {_insert(_ENTRIES)};
    END
    """,  # noqa: S608 - as above
)
