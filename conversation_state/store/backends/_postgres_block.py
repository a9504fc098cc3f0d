"""
One block of reads and writes on a PostgreSQL server, sent in few round trips.

A block begins with its first query. Writes are queued until the next query or the
end of the block: a save that only adds rows is one round trip.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psycopg
from psycopg import generators, waiting
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from conversation_state.errors import StoreError
from conversation_state.store.backend import Key, Row
from conversation_state.store.backends._blocks import BLOCK_ABANDONED, Permit
from conversation_state.store.backends._postgres_server import explain_error
from conversation_state.store.backends._sql import Dialect, SqlBlock

if TYPE_CHECKING:
    from conversation_state.store.backends._postgres import PostgresBackend

V = TypeVar("V")

POSTGRES = Dialect(
    "%s",
    {"integer": "int8", "text": "text", "bytes": "bytea"},
    text_order=' COLLATE "C"',
)

# Rows of ``gate``: a block that only adds locks one of them, any other locks all.
# Enough that two blocks rarely lock the same row.
STRIPES = 16

_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Each statement sees what was committed before it, so also what the locks waited for.
# SERIALIZABLE would need no locks; with sixteen writers of sixteen names it made a
# third as many saves, since rows of different names share pages.
_BEGIN_WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED"
# Shared: blocks that only add don't wait for each other where they lock one stripe.
_LOCK_STRIPE = "SELECT stripe FROM gate WHERE stripe = %s FOR SHARE"
# The rows are locked in order, so that one of two blocks that lock all of them waits,
# and there is no deadlock.
_LOCK_ALL_STRIPES = "SELECT stripe FROM gate ORDER BY stripe FOR UPDATE"
_COMMIT = "COMMIT"

# From so many rows on COPY is faster: one more round trip, a quarter of the time
# for each row.
_COPY_FROM = 32

# How many queries are sent before the first result is read.
_PIPELINE_SIZE = 500


class LimitedConnection(psycopg.Connection[Any]):
    """
    A connection on which no wait is without a limit, and which no interrupt survives.

    Attributes:
        timeout_s: How long it waits for the next sign of the server.
    """

    timeout_s = 30.0
    _is_interrupted = False

    def wait(
        self, gen: PQGen[V], interval: float = 0.1, timeout: float | None = None
    ) -> V:
        """
        Wait for what psycopg sends or reads.

        Raises:
            psycopg.OperationalError:
                If the server gave no sign for so long. The connection is closed.
        """
        del timeout  # psycopg's own, which it has for its answer to an interrupt
        if self._is_interrupted:
            # The end of a pipeline or a copy, which psycopg would log that it failed.
            return None  # type: ignore[return-value]  # neither looks at it

        try:
            return waiting.wait(
                self._limit_steps(gen), self.pgconn.socket, interval=interval
            )
        except psycopg.Error:
            raise
        except BaseException:
            self.abandon()
            # Else the collector of garbage does, and prints what it raises.
            with suppress(psycopg.Error, RuntimeError):
                gen.close()

            raise

    def abandon(self) -> None:
        """
        Close what was interrupted: what the server does now is unknown. psycopg would
        cancel it, and wait.
        """
        self._is_interrupted = True
        self.close()

    def _limit_steps(self, steps: PQGen[V]) -> PQGen[V]:
        until = time.monotonic() + self.timeout_s
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if ready:
                    until = time.monotonic() + self.timeout_s
                elif time.monotonic() > until:
                    self.close()
                    raise psycopg.OperationalError(_NO_ANSWER)

                wanted = steps.send(ready)
        except StopIteration as done:
            value: V = done.value
            return value


_NO_ANSWER = "the server did not answer for longer than timeout_s"


class Link:
    """
    A connection, and what is known of it.

    Attributes:
        stripe: The row of ``gate`` it locks.

        permit: The permit of the block that uses it; None if none does, or its
            thread began another block.

        thread: The thread of the block that uses it, or used it last.

        use: The number of that use: no other one of this store has it.

        is_writing: Whether that block writes.

        is_reusable: Whether the block came to its end, of whatever it did, so that
            nothing is open on the connection. Any other is closed.

        process: The process that made it.
    """

    def __init__(self, connection: LimitedConnection) -> None:
        self.connection = connection
        # From Python 3.14 on an interrupt can come after psycopg acquired its lock and
        # before the body of its ``with``: the thread has to get it again.
        connection.lock = threading.RLock()  # type: ignore[assignment]  # psycopg only enters and leaves it
        self.permit: Permit | None = None
        self.thread = self.use = 0
        self.is_writing = self.is_reusable = False
        self.process = os.getpid()
        self.stripe = connection.pgconn.backend_pid % STRIPES

    def __del__(self) -> None:
        # Its holder was interrupted. A parent's connection stays the parent's.
        if self.process == os.getpid():
            self.connection.abandon()

    @property
    def is_awaiting(self) -> bool:
        # Whether a statement was sent whose answer has not arrived.
        status = self.connection.pgconn.transaction_status
        return status == TransactionStatus.ACTIVE

    @property
    def is_lost(self) -> bool:
        status = self.connection.pgconn.transaction_status
        return status == TransactionStatus.UNKNOWN


class PostgresBlock(SqlBlock):
    """
    A transaction, and the connection that it acquired.

    Blocks that read see one moment. Those that write see what was committed,
    and lock rows of ``gate``: a block that begins by adding on condition locks
    one of them against blocks that do more, and otherwise relies on keys, of
    which no two are equal; any other block locks all, and so is alone.
    """

    dialect = POSTGRES
    _link: Link

    def __init__(self, backend: PostgresBackend, *, is_writing: bool) -> None:
        self._backend = backend
        self._is_writing = is_writing
        self._is_begun = False
        self._queue: list[tuple[str, Sequence[Any]]] = []

    def __enter__(self) -> Self:
        self._link = self._backend.acquire(is_writing=self._is_writing)
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        try:
            if error is None and self._is_begun:
                self._queue.append((_COMMIT, ()))
                self._send_queue()
            elif isinstance(error, Exception):
                self._roll_back_transaction()

            # What was interrupted, or failed in these, is closed.
            if error is None or isinstance(error, Exception):
                status = self._link.connection.pgconn.transaction_status
                self._link.is_reusable = status == TransactionStatus.IDLE
        finally:
            self._backend.release(self._link)

    def _roll_back_transaction(self) -> None:
        connection = self._link.connection
        server = connection.pgconn
        if server.transaction_status in {
            TransactionStatus.INTRANS,
            TransactionStatus.INERROR,
        }:
            # This bypasses psycopg, which drops its prepared statements after a
            # ROLLBACK.
            with suppress(psycopg.Error):
                server.send_query(b"ROLLBACK")
                connection.wait(generators.execute(server))

    # Sending statements

    @property
    def _usable_connection(self) -> psycopg.Connection[Any]:
        if self._link.permit is None:
            raise StoreError(self._backend.url, BLOCK_ABANDONED)

        return self._link.connection

    def _begin_transaction(self, *, is_exclusive: bool = True) -> None:
        if self._is_begun:
            return

        self._is_begun = True
        begin = _BEGIN_WRITING if self._is_writing else _BEGIN_READING
        self._queue.append((begin, ()))
        if self._backend.local_settings:
            self._queue.append(self._backend.local_settings)

        if not self._is_writing:
            return

        if is_exclusive:
            self._queue.append((_LOCK_ALL_STRIPES, ()))
        else:
            self._queue.append((_LOCK_STRIPE, (self._link.stripe,)))

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        self._begin_transaction()
        self._queue.append((sql, parameters))
        return self._send_queue()[-1]

    def _run_for_each(self, sql: str, each: Sequence[Sequence[Any]]) -> Iterator[Any]:
        for start in range(0, len(each), _PIPELINE_SIZE):
            self._begin_transaction()
            parameters = [
                (sql, given) for given in each[start : start + _PIPELINE_SIZE]
            ]
            self._queue += parameters
            yield from self._send_queue()[-len(parameters) :]

    def _send_queue(self) -> list[Any]:
        # In one round trip.
        queue, self._queue = self._queue, []
        handled = sys.exc_info()[1]
        try:
            return self._execute_queue(queue)
        except psycopg.Error as error:
            _raise_interrupt(error, handled)
            # Its traceback would keep this block, and with it the connection, where
            # psycopg's frames refer to the error: until garbage is collected.
            is_committing = self._is_writing and queue[-1][0] == _COMMIT
            error = error.with_traceback(None)
            raise self._explain_error(error, is_committing=is_committing) from error

    def _explain_error(self, error: psycopg.Error, *, is_committing: bool) -> Exception:
        return explain_error(
            self._backend.url,
            error,
            is_lost=self._link.is_lost,
            is_committing=is_committing,
        )

    def _execute_queue(self, queue: list[tuple[str, Sequence[Any]]]) -> list[Any]:
        connection: Any = self._usable_connection
        prepare = self._backend.is_prepared
        # A pooler may give the connection away between two statements of a pipeline,
        # and the rest is never answered: PgBouncer 1.18 does in transaction pooling, in
        # one of three runs of a hundred saves.
        if len(queue) == 1 or not prepare:
            return [
                connection.execute(sql, given, prepare=prepare, binary=True)
                for sql, given in queue
            ]

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
                except BaseException:
                    connection.abandon()
                    raise

            if failed is not None:
                raise failed
        except psycopg.Error as error:
            raise (failed or error) from None
        finally:
            # Its traceback has this frame: the two would keep the block, and with it
            # the connection, until garbage is collected.
            failed = None

        return cursors

    # The protocol of a block

    def scan_each(
        self,
        table: str,
        ranges: Sequence[tuple[Key, Key]],
        *,
        columns: tuple[str, ...] | None = None,
        limit: int | None = None,
    ) -> list[list[Row]]:
        sql = POSTGRES.scan(table, columns, (True, True, limit is not None, False))
        last = [] if limit is None else [limit]
        parameters = [[*ends, *last] for ends in ranges]
        return [cursor.fetchall() for cursor in self._run_for_each(sql, parameters)]

    def add(
        self,
        table: str,
        rows: Sequence[Row],
        *,
        if_exists: Sequence[tuple[str, Key]] = (),
        if_absent: Sequence[tuple[str, Key]] = (),
    ) -> None:
        if if_exists or if_absent:
            self._begin_transaction(is_exclusive=False)
            others = tuple([t for t, _ in if_exists]), tuple([t for t, _ in if_absent])
            keys = [key for _, key in (*if_exists, *if_absent)]
            sql = POSTGRES.add_if(table, *others)
            self._queue.append((sql, [*keys, *rows[0]]))
            return

        self._begin_transaction()
        if len(rows) < _COPY_FROM:
            sql = POSTGRES.add(table)
            self._queue += [(sql, row) for row in rows]
        else:
            self._copy_rows(table, rows)

    def _copy_rows(self, table: str, rows: Sequence[Row]) -> None:
        if self._queue:
            self._send_queue()

        connection: Any = self._usable_connection
        handled = sys.exc_info()[1]
        try:
            with connection.cursor().copy(POSTGRES.copy(table)) as copy:
                copy.set_types(POSTGRES.types_of(table))
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            _raise_interrupt(error, handled)
            raise self._explain_error(error, is_committing=False) from error

    def set(self, table: str, key: Key, **values: Any) -> None:
        self._begin_transaction()
        sql = POSTGRES.set(table, tuple(values))
        self._queue.append((sql, (*values.values(), key)))

    def remove_each(self, table: str, ranges: Sequence[tuple[Key, Key]]) -> int:
        sql = POSTGRES.remove(table, 0, 0)
        return sum([cursor.rowcount for cursor in self._run_for_each(sql, ranges)])


def _raise_interrupt(error: BaseException, handled: BaseException | None) -> None:
    """
    Raise what interrupted psycopg, if *error* comes of that: Ctrl-C must not be
    reported as an error of the server.

    What was being *handled* before is not it: a program may save after Ctrl-C.
    """
    cause = error.__context__
    while cause is not None and cause is not handled:
        if not isinstance(cause, Exception):
            raise cause from None

        cause = cause.__context__
