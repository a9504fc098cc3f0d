"""Blocks of a store in one file: a transaction each, and the fast one of most saves."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from conversation_state.errors import StoreError
from conversation_state.store.backend import ConflictError, DamageError, Key, Row
from conversation_state.store.backends._blocks import (
    BLOCK_ABANDONED,
    check_process,
)
from conversation_state.store.backends._sql import Dialect, SqlBlock
from conversation_state.store.backends._sqlite_connection import (
    DAMAGED,
    FORKED,
    Connection,
    explain_error,
    get_primary_code,
)
from conversation_state.store.schema import TABLES

if TYPE_CHECKING:
    from conversation_state.store.backends._sqlite import SqliteBackend

SQLITE = Dialect(
    "?",
    {"integer": "INTEGER", "text": "TEXT", "bytes": "BLOB"},
    small=" WITHOUT ROWID",
)

# The arguments of `Writing.add`.
AddArguments: TypeAlias = (
    "tuple[str, Sequence[Row], Sequence[tuple[str, Key]], Sequence[tuple[str, Key]]]"
)


def is_in_transaction(connection: sqlite3.Connection) -> bool:
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:
        return False  # the collector of garbage was there first


_BUSY_THREAD = (
    "another thread of this program has been writing for longer than timeout_s; try "
    "again, or raise it in the URL (?timeout_s=60)"
)


class SqliteBlock(SqlBlock):
    """
    A transaction of one thread, and the connection that it acquired.

    One that writes has its turn among the threads of this process. Its transaction
    begins with the first thing it does besides adding the two rows that are most
    saves: these wait for its end, and are one statement.

    Args:
        backend: Lends the connection.

        is_writing: Whether it writes.

        has_transaction: False for statements that must be outside of one.
    """

    dialect = SQLITE

    # One is made for each verb.
    __slots__ = (
        "__weakref__",
        *("_backend", "_connection", "_entry_row", "_revision_row"),
        *("_is_bare", "_is_begun", "_is_writing"),
    )

    def __init__(
        self, backend: SqliteBackend, *, is_writing: bool, has_transaction: bool = True
    ) -> None:
        self._backend = backend
        self._is_writing = is_writing
        self._is_bare = not has_transaction
        self._is_begun = self._is_bare or not is_writing
        self._revision_row: AddArguments | None = None
        self._entry_row: AddArguments | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        backend = self._backend
        check_process()
        # All of it in here: an interrupt may come as soon as a call has returned.
        try:
            if self._is_writing:
                self._wait_for_turn()

            backend.check_same_file(is_writing=self._is_writing)
            self._connection = connection = backend.acquire()
            if self._is_writing:
                if not backend.is_log_begun and not self._is_bare:
                    backend.begin_first_log(connection)
            elif not self._is_bare:
                connection.execute("BEGIN")
        except BaseException as error:
            self._end_transaction(error)
            raise

        return self

    def _wait_for_turn(self) -> None:
        if not self._backend.writers.enter(self, self._backend.timeout_s):
            raise StoreError(self._backend.url, _BUSY_THREAD)

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        self._end_transaction(error)

    def __del__(self) -> None:
        # Dropped before its end was reached. The connection alone would stay open
        # until garbage is collected, since it refers to itself.
        if getattr(self, "_connection", None) is not None:
            self.abandon()

    def _end_transaction(self, error: BaseException | None) -> None:
        """
        Commit, or roll back, and let others go on.

        Raises:
            StoreError:
                If SQLite refuses, or refused with *error*.

            ConflictError:
                If another try with another connection may succeed.
        """
        backend, connection = self._backend, self._connection
        try:
            if connection is None or connection.is_inherited:
                self._check_abandoned(connection, error)
            elif error is None:
                self._commit_transaction(connection)
            else:
                self._roll_back_transaction(connection, error)
        finally:
            try:
                self._connection = None
                if connection is not None:
                    backend.release(connection)
            finally:
                if self._is_writing:
                    backend.writers.leave(self)

    def _check_abandoned(
        self, connection: Connection | None, error: BaseException | None
    ) -> None:
        # The error of a block that lost its connection, or never had one.
        url = self._backend.url
        if connection is not None:
            if error is None:
                raise StoreError(url, FORKED)
        elif error is None or isinstance(error, sqlite3.ProgrammingError):
            raise StoreError(url, BLOCK_ABANDONED)
        elif isinstance(error, sqlite3.Error):
            raise explain_error(url, error) from error

    def _commit_transaction(self, connection: Connection) -> None:
        try:
            if self._is_bare:
                return

            if not self._is_begun:
                if self._revision_row is None:
                    return

                if self._entry_row is not None:
                    _save_in_one_statement(
                        connection, self._revision_row, self._entry_row
                    )
                    self._backend.count_save(connection, len(self._entry_row[1][0][2]))
                    return

                self._begin_transaction()

            connection.execute("COMMIT")
            if self._is_writing:
                self._backend.copy_long_log(connection)
        except sqlite3.IntegrityError as error:
            raise ConflictError from error
        except BaseException as error:
            self._roll_back_transaction(connection, error)
            raise

    def _roll_back_transaction(
        self, connection: Connection, error: BaseException
    ) -> None:
        """Roll back after *error*; raise what it means if it is SQLite's."""
        # SQLite itself takes back what a full disk interrupted.
        if is_in_transaction(connection):
            connection.rollback()

        if isinstance(error, sqlite3.Error):
            raise self._explain_error(connection, error) from error

    def abandon(self) -> None:
        # See `OneAtATime`.
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _explain_error(self, connection: Connection, error: sqlite3.Error) -> Exception:
        # SQLite notices once, when it opens a file, that it may not be written.
        is_read_only = get_primary_code(error) == sqlite3.SQLITE_READONLY
        if is_read_only and self._backend.may_write and connection.was_used:
            self._backend.reopen()
            connection.is_reusable = False
            return ConflictError("opened when it was not writable")

        return explain_error(self._backend.url, error)

    @property
    def connection(self) -> Connection:
        """The connection of this block, for what is no statement."""
        return self._usable_connection

    def empty_log(self) -> bool:
        """
        Copy the write-ahead log into the file and cut it off; False if others
        were in the way all the time.
        """
        until = time.monotonic() + self._backend.timeout_s
        while True:
            # SQLite waits for readers and writers by itself, but not for another
            # process that does the same.
            ((is_busy, _, _),) = self.run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if not is_busy:
                return True

            if time.monotonic() >= until:
                return False

            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - no secret

    def _begin_transaction(self) -> None:
        self._is_begun = True
        # SQLite would refuse at once, without waiting, to let a transaction write that
        # began by reading, if another process has written meanwhile.
        self._usable_connection.execute("BEGIN IMMEDIATE")
        for adding in (self._revision_row, self._entry_row):
            if adding is not None:
                self._add_rows(*adding)

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        if not self._is_begun:
            self._begin_transaction()

        try:
            return self._usable_connection.execute(sql, parameters)
        except UnicodeDecodeError as error:
            # In SQLite's own message, which cites the schema.
            raise DamageError(self._backend.url, DAMAGED) from error

    @property
    def _usable_connection(self) -> Connection:
        if self._connection is None:
            raise StoreError(self._backend.url, BLOCK_ABANDONED)

        if self._connection.is_inherited:
            raise StoreError(self._backend.url, FORKED)

        return self._connection

    def add(
        self,
        table: str,
        rows: Sequence[Row],
        *,
        if_exists: Sequence[tuple[str, Key]] = (),
        if_absent: Sequence[tuple[str, Key]] = (),
    ) -> None:
        if not self._is_begun:
            if self._revision_row is None:
                if _is_revision_row(table, rows, if_exists, if_absent):
                    self._revision_row = table, rows, if_exists, if_absent
                    return

            elif self._entry_row is None and table == _ENTRIES and len(rows) == 1:
                self._entry_row = table, rows, if_exists, if_absent
                return

            self._begin_transaction()

        self._add_rows(table, rows, if_exists, if_absent)

    def _add_rows(
        self,
        table: str,
        rows: Sequence[Row],
        if_exists: Sequence[tuple[str, Key]],
        if_absent: Sequence[tuple[str, Key]],
    ) -> None:
        if if_exists or if_absent:
            others = tuple([t for t, _ in if_exists]), tuple([t for t, _ in if_absent])
            keys = [key for _, key in (*if_exists, *if_absent)]
            if self.run(SQLITE.check(*others), keys).fetchone() != (1,):
                raise ConflictError(table)

        try:
            if len(rows) == 1:
                self.run(SQLITE.add(table), rows[0])
            else:
                self._usable_connection.executemany(SQLITE.add(table), rows)
        except sqlite3.IntegrityError as error:
            raise ConflictError(table) from error

    def set(self, table: str, key: Key, **values: Any) -> None:
        self.run(SQLITE.set(table, tuple(values)), (*values.values(), key))


# Most saves: a row of _REVISIONS, if one exists there and one is absent in _CHANGES;
# then a row of _ENTRIES.
_REVISIONS, _CHANGES, _ENTRIES = "revisions", "changes", "entries"


def _is_revision_row(
    table: str,
    rows: Sequence[Row],
    if_exists: Sequence[tuple[str, Key]],
    if_absent: Sequence[tuple[str, Key]],
) -> bool:
    if table != _REVISIONS or not len(rows) == len(if_exists) == len(if_absent) == 1:
        return False

    return if_exists[0][0] == _REVISIONS and if_absent[0][0] == _CHANGES


def _save_in_one_statement(
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


_COLUMNS = {
    table: [f"{table}_{column}" for column in TABLES[table].column_names]
    for table in (_REVISIONS, _ENTRIES)
}


def _make_insert(table: str) -> str:
    columns = ", ".join(TABLES[table].column_names)
    values = ", ".join([f"new.{column}" for column in _COLUMNS[table]])
    return f"INSERT INTO {table} ({columns}) VALUES ({values})"  # noqa: S608 - of names in `TABLES`


_SAVED = ("if_exists", "if_absent", *_COLUMNS[_REVISIONS], *_COLUMNS[_ENTRIES])
_INSERT = f"INSERT INTO saves VALUES ({', '.join('?' * len(_SAVED))})"  # noqa: S608 - of marks
_VIEW = (
    # Else SQLite might write a temporary file for the view.
    "PRAGMA temp_store = MEMORY",
    "CREATE TEMP VIEW IF NOT EXISTS saves AS SELECT "
    + ", ".join([f"0 AS {column}" for column in _SAVED]),
    f"""
    CREATE TEMP TRIGGER IF NOT EXISTS saved INSTEAD OF INSERT ON saves BEGIN
        SELECT RAISE(ABORT, 'another save was first')
        WHERE NOT EXISTS (
            SELECT 1 FROM {_REVISIONS} WHERE revision = new.if_exists
        ) OR EXISTS (
            SELECT 1 FROM {_CHANGES} WHERE number = new.if_absent
        );
        {_make_insert(_REVISIONS)};
        {_make_insert(_ENTRIES)};
    END
    """,  # noqa: S608 - as above
)
