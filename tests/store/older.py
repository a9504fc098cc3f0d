"""
Stores of an older version, and the step that brings them up to date: as if the column
``notes`` of revisions had been added today.

What to begin a step of `STEPS` from. Only that a step in a release has its own copy of
both row classes, as those of `conversation_state.store.schema` change later.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints

from conversation_state.store.backends._sql import Step
from conversation_state.store.backends._sqlite import SQLITE
from conversation_state.store.schema import Revision, is_sealed, sealed

__all__ = [
    "ADD_NOTES",
    "drop_notes_in_postgres",
    "drop_notes_in_sqlite",
]


# Of today's columns, whichever these are; what type checkers know of them is not help.
_make_class: Any = NamedTuple
_HINTS = get_type_hints(Revision)
OlderRevision = _make_class(
    "OlderRevision", [(name, _HINTS[name]) for name in _HINTS if name != "notes"]
)
_NAMES = ", ".join(OlderRevision._fields)
(_CREATE,) = [each for each in SQLITE.create() if " revisions " in each]


def _add_notes(row: Any) -> Revision:
    """A row of today's; damaged if the older one was."""
    older = OlderRevision(*row)
    values = {**older._asdict(), "notes": b""}
    new = Revision(**values)
    # The seal of an older row is not that of today's, so the row stays damaged.
    return sealed(new) if is_sealed(older) else new


def _drop_notes(row: Any) -> Any:
    return sealed(OlderRevision(*row))


def _make_table_anew(
    connection: Any, create: str, convert: Callable[[Any], tuple[Any, ...]]
) -> None:
    connection.execute("ALTER TABLE revisions RENAME TO older")
    connection.execute(create)
    rows = connection.execute(f"SELECT {_NAMES} FROM older").fetchall()
    for row in map(convert, rows):
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO revisions VALUES ({marks})", row)

    connection.execute("DROP TABLE older")


def _add_notes_in_sqlite(connection: Any) -> None:
    """
    The step for a file: `verify` compares the statement of each table, so the table is
    made by that of today instead of being altered.
    """
    _make_table_anew(connection, _CREATE, _add_notes)


def drop_notes_in_sqlite(connection: Any) -> None:
    """Make an older file of one of today's."""
    create = _CREATE.replace("notes BLOB NOT NULL, ", "")
    _make_table_anew(connection, create, _drop_notes)


def _seal_again(connection: Any, convert: Callable[[Any], Any]) -> None:
    rows = connection.execute(f"SELECT {_NAMES} FROM revisions").fetchall()
    for new in map(convert, rows):
        change = "UPDATE revisions SET seal = %s WHERE revision = %s"
        connection.execute(change, (new.seal, new.revision))


def _add_notes_in_postgres(connection: Any) -> None:
    """The step for a server, which reads columns by their names."""
    alter = "ALTER TABLE revisions"
    connection.execute(f"{alter} ADD COLUMN notes BYTEA NOT NULL DEFAULT ''")
    connection.execute(f"{alter} ALTER COLUMN notes DROP DEFAULT")
    _seal_again(connection, _add_notes)


def drop_notes_in_postgres(connection: Any) -> None:
    """Make older tables of today's."""
    connection.execute("ALTER TABLE revisions DROP COLUMN notes")
    _seal_again(connection, _drop_notes)


ADD_NOTES = Step(sqlite=_add_notes_in_sqlite, postgres=_add_notes_in_postgres)
