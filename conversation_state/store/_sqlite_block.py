"""
Blocks of a store in one file: a transaction each.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from conversation_state.errors import StoreError
from conversation_state.store._sql import Dialect
from conversation_state.store._sqlite_once import (
    Adding,
    add_at_once,
    is_first,
    is_second,
)
from conversation_state.store._sqlite_why import explained
from conversation_state.store._threads import TAKEN_OVER
from conversation_state.store.backend import ConflictError, Key, Row

if TYPE_CHECKING:
    from conversation_state.store._sqlite import SqliteBackend

__all__ = ["SQLITE", "Block", "is_in_the_middle"]

SQLITE = Dialect(
    "?",
    (("integer", "INTEGER"), ("text", "TEXT"), ("bytes", "BLOB")),
    small=" WITHOUT ROWID",
)


def is_in_the_middle(connection: sqlite3.Connection) -> bool:
    """
    Whether a transaction is open.
    """
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:
        return False  # the collector of garbage was there first


class Block:
    """
    A transaction, and a connection lent for it.

    One that writes begins where it is first asked for more than to add the two
    rows that are most saves: these wait for its end, and are one statement.
    """

    __slots__ = (
        "_backend",
        "_connection",
        "_first",
        "_is_begun",
        "_is_writing",
        "_second",
    )

    _connection: sqlite3.Connection | None
    _first: Adding | None
    _second: Adding | None

    def __init__(self, backend: SqliteBackend, *, is_writing: bool) -> None:
        self._backend = backend
        self._is_writing = is_writing
        self._is_begun = not is_writing
        self._first = self._second = None
        self._connection = None

    def __enter__(self) -> Self:
        backend = self._backend
        if backend.process != os.getpid():
            backend.leave_to_parent()

        try:
            if self._is_writing:
                backend.queue_up(self)
                backend.check_there()

            self._connection = connection = backend.lend()
            if not self._is_writing:
                connection.execute("BEGIN")
        except BaseException as error:
            self.end(error)
            raise

        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(error)

    def end(self, error: BaseException | None) -> None:
        """
        Commit, or take back what was done, and let others go on.

        Raises:
            StoreError:
                If SQLite refuses, or refused with *error*.
        """
        backend, connection = self._backend, self._connection
        try:
            if connection is None:
                if error is None or isinstance(error, sqlite3.ProgrammingError):
                    raise StoreError(backend.url, TAKEN_OVER)
            elif error is None:
                try:
                    self._commit(connection)
                except sqlite3.Error as refused:
                    raise explained(backend.url, refused) from refused
                finally:
                    self._roll_back()
            else:
                self._roll_back()
                if isinstance(error, sqlite3.Error):
                    raise explained(backend.url, error) from error
        finally:
            self._connection = None
            if connection is not None:
                backend.take_back(connection)

            if self._is_writing:
                backend.leave_queue(self)

    def abandon(self) -> None:
        """
        Take back what was done in a block whose end was never got to: whoever
        is interrupted between two steps may miss it.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _commit(self, connection: sqlite3.Connection) -> None:
        if self._is_begun:
            connection.execute("COMMIT")
        elif self._second is not None and self._first is not None:
            try:
                add_at_once(connection, self._first, self._second)
            except sqlite3.IntegrityError as error:
                raise ConflictError from error
        elif self._first is not None:
            self._begin()
            connection.execute("COMMIT")

    def _roll_back(self) -> None:
        # SQLite itself takes back what a full disk interrupted.
        if self._connection is not None and is_in_the_middle(self._connection):
            self._connection.rollback()

    def _begin(self) -> None:
        self._is_begun = True
        self._open.execute("BEGIN IMMEDIATE")
        for adding in (self._first, self._second):
            if adding is not None:
                self._add(*adding)

    def _execute(self, sql: str, given: Sequence[Any] = ()) -> sqlite3.Cursor:
        if not self._is_begun:
            self._begin()

        return self._open.execute(sql, given)

    @property
    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(self._backend.url, TAKEN_OVER)

        return self._connection

    def get(
        self, table: str, key: Key, columns: tuple[str, ...] | None = None
    ) -> Row | None:
        row: Row | None = self._execute(SQLITE.get(table, columns), (key,)).fetchone()
        return row

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
        sql = SQLITE.scan(table, columns, low, high, limit, backwards=backwards)
        asked = [value for value in (low, high, limit) if value is not None]
        return self._execute(sql, asked).fetchall()

    def scan_each(
        self,
        table: str,
        ranges: Sequence[tuple[Key, Key]],
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
    ) -> list[list[Row]]:
        return [
            self.scan(table, low, high, columns=columns, limit=limit)
            for low, high in ranges
        ]

    def find(self, table: str, column: str, value: Any) -> list[Key]:
        found = self._execute(SQLITE.find(table, column), (value,))
        return [key for (key,) in found]

    def add(
        self,
        table: str,
        rows: Sequence[Row],
        *,
        given: Sequence[tuple[str, Key]] = (),
        lacking: Sequence[tuple[str, Key]] = (),
    ) -> None:
        if not self._is_begun:
            if self._first is None:
                if is_first(table, rows, given, lacking):
                    self._first = table, rows, given, lacking
                    return

            elif self._second is None and is_second(table, rows):
                self._second = table, rows, given, lacking
                return

            self._begin()

        self._add(table, rows, given, lacking)

    def _add(
        self,
        table: str,
        rows: Sequence[Row],
        given: Sequence[tuple[str, Key]],
        lacking: Sequence[tuple[str, Key]],
    ) -> None:
        if given or lacking:
            others = tuple([t for t, _ in given]), tuple([t for t, _ in lacking])
            keys = [key for _, key in (*given, *lacking)]
            if self._execute(SQLITE.check(*others), keys).fetchone() != (1,):
                raise ConflictError(table)

        try:
            if len(rows) == 1:
                self._execute(SQLITE.add(table), rows[0])
            else:
                self._open.executemany(SQLITE.add(table), rows)
        except sqlite3.IntegrityError as error:
            raise ConflictError(table) from error

    def set(self, table: str, key: Key, **values: Any) -> None:
        self._execute(SQLITE.set(table, tuple(values)), (*values.values(), key))

    def remove(self, table: str, low: Key | None, high: Key | None) -> int:
        asked = [value for value in (low, high) if value is not None]
        return self._execute(SQLITE.remove(table, low, high), asked).rowcount

    def remove_each(self, table: str, ranges: Sequence[tuple[Key, Key]]) -> int:
        return sum([self.remove(table, low, high) for low, high in ranges])

    def new_number(self) -> int:
        sql = "UPDATE numbers SET last = last + 1 RETURNING last"
        number: int
        (number,) = self._execute(sql).fetchone()
        return number
