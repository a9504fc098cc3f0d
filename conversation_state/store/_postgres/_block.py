"""
Blocks: what is to be written is collected, and sent when somebody has to know.

A block begins with its first question, and what it writes waits for the next
one or for its end: a save that only adds is one trip to the server and back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

import psycopg
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus

from conversation_state.store._postgres._tables import POSTGRES, STRIPES
from conversation_state.store._postgres._why import explained
from conversation_state.store.backend import Key, Row

if TYPE_CHECKING:
    from conversation_state.store._postgres._backend import PostgresBackend

__all__ = ["Block", "Link", "Permit"]

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
_BESIDE = "SELECT stripe FROM gate WHERE stripe = %s FOR SHARE"
_ALONE = "SELECT stripe FROM gate ORDER BY stripe FOR UPDATE"
_COMMIT = "COMMIT"

# From so many rows on they are copied, which takes one trip more and a quarter
# of the time each.
_MANY = 32

# How many questions are asked in one go, of which none has seen an answer.
_AT_ONCE = 500


class Permit:
    """
    That there may be one connection more.

    One that is lost, since its holder was interrupted, is made up for.
    """

    __slots__ = ("_queue",)

    def __init__(self, queue: SimpleQueue[Permit]) -> None:
        self._queue = ref(queue)

    def __del__(self) -> None:
        queue = self._queue()
        if queue is not None:
            queue.put(Permit(queue))


class Link:
    """
    A connection, and what is known of it.

    Attributes:
        connection: Its own connection.

        stripe: The row of ``gate`` it locks.

        permit: The permit of whom it is lent to.

        process: The process that made it.
    """

    __slots__ = ("connection", "permit", "process", "stripe")

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.permit: Permit | None = None
        self.process = os.getpid()
        self.stripe = connection.pgconn.backend_pid % STRIPES

    def __del__(self) -> None:
        # Nobody has it any more, since its holder was interrupted. A parent's is
        # the parent's.
        if self.process == os.getpid():
            self.connection.close()

    @property
    def is_lost(self) -> bool:
        """
        Whether the other end is gone.
        """
        status = self.connection.pgconn.transaction_status
        return status == TransactionStatus.UNKNOWN


class Block:
    """
    A transaction, and a connection lent for it.

    Blocks that read see one moment. Those that write see what was committed,
    and lock rows of ``gate``: a block that begins by adding on condition locks
    one of them against blocks that do more, and otherwise relies on keys, of
    which no two are equal; any other block locks all, and so is alone.
    """

    __slots__ = ("_backend", "_is_begun", "_is_writing", "_link", "_queue")

    _link: Link

    def __init__(self, backend: PostgresBackend, *, is_writing: bool) -> None:
        self._backend = backend
        self._is_writing = is_writing
        self._is_begun = False
        self._queue: list[tuple[str, Sequence[Any]]] = []

    def __enter__(self) -> Self:
        self._link = self._backend.lend()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None and self._is_begun:
                self._queue.append((_COMMIT, ()))
                self._run()
        finally:
            self._roll_back()
            self._backend.take_back(self._link)

    def _roll_back(self) -> None:
        """
        Leave the connection as it was, or close it.
        """
        connection = self._link.connection
        status = connection.pgconn.transaction_status
        if connection.pgconn.pipeline_status != PipelineStatus.OFF:
            # It was interrupted in the middle, and does not get out of there.
            connection.close()
            return

        if status == TransactionStatus.IDLE:
            return

        if status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
            # Past psycopg, which forgets after a ROLLBACK what it prepared; and
            # whoever closes a connection takes back what it did, too.
            if connection.pgconn.exec_(b"ROLLBACK").status != ExecStatus.COMMAND_OK:
                connection.close()
        else:
            connection.close()

    # Talking to the server

    def _begin(self, *, is_alone: bool = True) -> None:
        if self._is_begun:
            return

        self._is_begun = True
        if not self._is_writing:
            self._queue.append((_READ, ()))
            return

        self._queue.append((_WRITE, ()))
        if is_alone:
            self._queue.append((_ALONE, ()))
        else:
            self._queue.append((_BESIDE, (self._link.stripe,)))

    def _ask(self, sql: str, given: Sequence[Any]) -> Any:
        self._begin()
        self._queue.append((sql, given))
        return self._run()[-1]

    def _ask_each(self, sql: str, each: Sequence[Sequence[Any]]) -> Iterator[Any]:
        """
        The cursors of one statement for each of many questions.
        """
        for start in range(0, len(each), _AT_ONCE):
            self._begin()
            asked = [(sql, given) for given in each[start : start + _AT_ONCE]]
            self._queue += asked
            yield from self._run()[-len(asked) :]

    def _run(self) -> list[Any]:
        """
        Send what waits, in one go; the cursors of all statements.
        """
        queue, self._queue = self._queue, []
        try:
            return self._sent(queue)
        except psycopg.Error as error:
            raise self._explained(
                error, is_committing=queue[-1][0] == _COMMIT
            ) from error

    def _explained(self, error: psycopg.Error, *, is_committing: bool) -> Exception:
        return explained(
            self._backend.url,
            error,
            is_lost=self._link.is_lost,
            is_committing=is_committing and self._is_writing,
        )

    def _sent(self, queue: list[tuple[str, Sequence[Any]]]) -> list[Any]:
        connection: Any = self._link.connection
        prepare = self._backend.is_prepared
        if len(queue) == 1:
            ((sql, given),) = queue
            return [connection.execute(sql, given, prepare=prepare, binary=True)]

        cursors: list[Any] = []
        failed = None
        try:
            with connection.pipeline():
                try:
                    cursors += [
                        connection.execute(sql, given, prepare=prepare, binary=True)
                        for sql, given in queue
                    ]
                except psycopg.Error as error:
                    # The end of the pipeline would log that it ended badly.
                    failed = error
        except psycopg.Error as error:
            raise (_interruption(error) or failed or error) from None

        if failed is not None:
            raise failed

        return cursors

    # The protocol

    def get(
        self, table: str, key: Key, columns: tuple[str, ...] | None = None
    ) -> Row | None:
        if isinstance(key, str) and "\0" in key:
            return None

        row: Row | None = self._ask(POSTGRES.get(table, columns), (key,)).fetchone()
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
        low, high = _end(low), _end(high)
        sql = POSTGRES.scan(table, columns, low, high, limit, backwards=backwards)
        asked = [value for value in (low, high, limit) if value is not None]
        rows: list[Row] = self._ask(sql, asked).fetchall()
        return rows

    def scan_each(
        self,
        table: str,
        ranges: Sequence[tuple[Key, Key]],
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
    ) -> list[list[Row]]:
        sql = POSTGRES.scan(table, columns, 0, 0, limit, backwards=False)
        last = [] if limit is None else [limit]
        asked = [[_end(low), _end(high), *last] for low, high in ranges]
        return [cursor.fetchall() for cursor in self._ask_each(sql, asked)]

    def find(self, table: str, column: str, value: Any) -> list[Key]:
        found = self._ask(POSTGRES.find(table, column), (value,)).fetchall()
        return [key for (key,) in found]

    def add(
        self,
        table: str,
        rows: Sequence[Row],
        *,
        given: Sequence[tuple[str, Key]] = (),
        lacking: Sequence[tuple[str, Key]] = (),
    ) -> None:
        if given or lacking:
            self._begin(is_alone=False)
            others = tuple([t for t, _ in given]), tuple([t for t, _ in lacking])
            keys = [key for _, key in (*given, *lacking)]
            sql = POSTGRES.add_if(table, *others)
            self._queue.append((sql, [*keys, *rows[0]]))
            return

        self._begin()
        if len(rows) < _MANY:
            sql = POSTGRES.add(table)
            self._queue += [(sql, row) for row in rows]
        else:
            self._copy(table, rows)

    def _copy(self, table: str, rows: Sequence[Row]) -> None:
        if self._queue:
            self._run()

        connection: Any = self._link.connection
        try:
            with connection.cursor().copy(POSTGRES.copy(table)) as copy:
                copy.set_types(POSTGRES.types_of(table))
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            raise self._explained(error, is_committing=False) from error

    def set(self, table: str, key: Key, **values: Any) -> None:
        self._begin()
        sql = POSTGRES.set(table, tuple(values))
        self._queue.append((sql, (*values.values(), key)))

    def remove(self, table: str, low: Key | None, high: Key | None) -> int:
        low, high = _end(low), _end(high)
        asked = [value for value in (low, high) if value is not None]
        count: int = self._ask(POSTGRES.remove(table, low, high), asked).rowcount
        return count

    def remove_each(self, table: str, ranges: Sequence[tuple[Key, Key]]) -> int:
        sql = POSTGRES.remove(table, 0, 0)
        asked = [[_end(low), _end(high)] for low, high in ranges]
        return sum([cursor.rowcount for cursor in self._ask_each(sql, asked)])

    def new_number(self) -> int:
        number: int
        sql = "UPDATE numbers SET last = last + 1 RETURNING last"
        (number,) = self._ask(sql, ()).fetchone()
        return number


def _interruption(error: BaseException) -> BaseException | None:
    """
    What interrupted a pipeline whose end failed because of that; Ctrl-C is not to
    be taken for an error of the server's.
    """
    cause = error.__context__
    while cause is not None and isinstance(cause, Exception):
        cause = cause.__context__

    return cause


def _end(key: Key | None) -> Key | None:
    """
    The same end of a range, as a text the server takes: none of those there
    has U+0000, so nothing is between the two.
    """
    if isinstance(key, str) and "\0" in key:
        return key.partition("\0")[0] + "\x01"

    return key
