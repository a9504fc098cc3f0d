"""
A store in PostgreSQL: blocks that take few round trips, the connections that they use,
and the tables: created, checked, and brought to this version.

A block begins with its first query. Writes are queued until the next query or the
end of the block: a save that only adds rows is one round trip.

Not psycopg_pool: while a server is down, its pool waits for the whole timeout and
gives no reason; here there is one attempt, with the server's own error. It also
has background threads, which a child of `os.fork` would lack.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

import psycopg
from psycopg import errors, generators, waiting
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper

from conversation_state._locks import RLock
from conversation_state.errors import StoreError
from conversation_state.store.backend import DamageError, Key, Row
from conversation_state.store.backends._blocks import (
    BLOCK_ABANDONED,
    BlockTurn,
    renew_all,
    renew_in_children,
)
from conversation_state.store.backends._postgres_server import (
    LACKS_USAGE,
    Address,
    explain_error,
    explain_unreachable,
)
from conversation_state.store.backends._sql import (
    NUMBERS,
    STEPS,
    Dialect,
    SqlBlock,
    first,
    numbers_problem,
    second,
)
from conversation_state.store.schema import SCHEMA_VERSION, TABLES

V = TypeVar("V")

POSTGRES = Dialect(
    "%s",
    {"integer": "int8", "text": "text", "bytes": "bytea"},
    text_order=' COLLATE "C"',
)

# Rows of ``gate``: a block that only adds locks one of them, any other locks all.
# Enough that two blocks rarely lock the same row.
STRIPES = 16

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Each statement sees what was committed before it, so also what the locks waited for.
# SERIALIZABLE would need no locks; with sixteen writers of sixteen names it made a
# third as many saves, since rows of different names share pages.
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
# Shared: blocks that only add don't wait for each other where they lock one stripe.
_LOCK_STRIPE = "SELECT stripe FROM gate WHERE stripe = %s FOR SHARE"
# The rows are locked in order, so that one of two blocks that lock all of them waits,
# and there is no deadlock.
_LOCK_ALL_STRIPES = "SELECT stripe FROM gate ORDER BY stripe FOR UPDATE"

# From so many rows on COPY is faster: one more round trip, a quarter of the time
# for each row.
_COPY_FROM = 32

# How many queries are sent before the first result is read.
_PIPELINE_SIZE = 500

# How long a thread waits for one slot before it looks at the others.
_WAIT_S = 0.05

_VERSION_TABLE = "conversation_state"
_OTHER_TABLES = ("numbers", "gate", _VERSION_TABLE)

# The errors of a process that was second to make the same thing.
_CREATED_MEANWHILE = (
    errors.DuplicateSchema,
    errors.DuplicateTable,
    errors.DuplicateObject,
    errors.UniqueViolation,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.InternalError_,
)


class LimitedConnection(psycopg.Connection[Any]):
    """
    A connection on which no wait is without a limit, and which no interrupt survives.

    Attributes:
        timeout_s: How long it waits for the next sign of the server.
    """

    timeout_s = 30.0
    _is_interrupted = False
    # Instead of psycopg's, which only warns: it is Python code, and an interrupt that
    # came in it would be printed and lost.
    __del__ = staticmethod(bool)  # type: ignore[assignment]  # it returns something

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._process = os.getpid()
        # Given back when an interrupt comes as psycopg takes it.
        self.lock = RLock()  # type: ignore[assignment]  # psycopg only enters and leaves it

    @property
    def state(self) -> int:
        """How far a transaction is; UNKNOWN where the connection is lost."""
        return self.pgconn.transaction_status

    @property
    def is_alive(self) -> bool:
        """
        Whether the server has not hung up: reads what has arrived, without a trip.
        """
        try:
            # A last message arrives before the end of the stream.
            for _ in range(2):
                self.pgconn.consume_input()
        except psycopg.OperationalError:
            return False

        return not self.closed

    def wait(
        self, gen: PQGen[V], interval: float = 0.1, timeout: float | None = None
    ) -> V:
        """Wait for what psycopg sends or reads, for *timeout_s* at most."""
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
        cancel it, and wait. A parent's connection stays the parent's.
        """
        self._is_interrupted = True
        if self._process == os.getpid():
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


class _Slot(BlockTurn):
    """Room for one connection, which is None while a block uses it."""

    connection: LimitedConnection | None = None


class PostgresBlock(SqlBlock):
    """
    A transaction, and the connection that it acquired.

    Blocks that read see one moment. Those that write see what was committed,
    and lock rows of ``gate``: a block that begins by adding on condition locks
    one of them against blocks that do more, and otherwise relies on keys, of
    which no two are equal; any other block locks all, and so is alone.

    Args:
        backend: Lends the connection.
        begin: Begins the transaction; "" for statements that must be outside of one.
    """

    dialect = POSTGRES

    def __init__(self, backend: PostgresBackend, begin: str) -> None:
        self._backend = backend
        self._begin = begin
        self.is_writing = begin == _WRITE
        self._is_begun = not begin
        self._queue: list[tuple[str, Sequence[Any]]] = []
        self._is_abandoned = False
        # A `LimitedConnection`; None before there is one, and after the end.
        self.connection: Any = None
        # What the program handles already is not what interrupts this block.
        self._handled = sys.exc_info()[1]

    def commit(self) -> None:
        self._check_usable()
        if self._begin and self._is_begun:
            self._queue.append(("COMMIT", ()))
            self._send_queue(is_committing=self.is_writing)

    def abandon(self) -> None:
        """Roll back, where another block of the same thread began."""
        self._is_abandoned = True
        # Not while psycopg waits for an answer: a new connection may get the file
        # descriptor that it waits for. The end of this block closes it.
        if self.connection and self.connection.state != TransactionStatus.ACTIVE:
            self.connection.abandon()

    def roll_back(self) -> None:
        server = self.connection.pgconn
        if self.connection.state in {
            TransactionStatus.INTRANS,
            TransactionStatus.INERROR,
        }:
            # This bypasses psycopg, which drops its prepared statements after a
            # ROLLBACK.
            with suppress(psycopg.Error):
                server.send_query(b"ROLLBACK")
                self.connection.wait(generators.execute(server))

    # Sending statements

    def _begin_transaction(self, *, is_exclusive: bool = True) -> None:
        if self._is_begun:
            return

        self._is_begun = True
        self._queue.append((self._begin, ()))
        if self._backend.local_settings:
            self._queue.append(self._backend.local_settings)

        if self.is_writing and is_exclusive:
            self._queue.append((_LOCK_ALL_STRIPES, ()))
        elif self.is_writing:
            stripe = self.connection.pgconn.backend_pid % STRIPES
            self._queue.append((_LOCK_STRIPE, (stripe,)))

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        self._begin_transaction()
        self._queue.append((sql, parameters))
        return self._send_queue()[-1]

    def run_each(self, sql: str, each: Sequence[Sequence[Any]]) -> Iterator[Any]:
        for start in range(0, len(each), _PIPELINE_SIZE):
            self._begin_transaction()
            parameters = [
                (sql, given) for given in each[start : start + _PIPELINE_SIZE]
            ]
            self._queue += parameters
            yield from self._send_queue()[-len(parameters) :]

    def _send_queue(self, *, is_committing: bool = False) -> list[Any]:
        # In one round trip.
        self._check_usable()
        queue, self._queue = self._queue, []
        try:
            return self._execute_queue(queue)
        except psycopg.Error as error:
            raise self.explain_error(error, is_committing=is_committing) from error

    def _check_usable(self) -> None:
        if self._is_abandoned:
            raise StoreError(self._backend.url, BLOCK_ABANDONED)

    def explain_error(
        self, error: psycopg.Error, *, is_committing: bool = False
    ) -> Exception:
        """
        What an error means. Raises what interrupted psycopg, if it comes of that:
        Ctrl-C must not be reported as an error of the server.
        """
        cause = error.__context__
        while cause is not None and cause is not self._handled:
            if not isinstance(cause, Exception):
                raise cause from None

            cause = cause.__context__

        is_lost = self.connection.state == TransactionStatus.UNKNOWN
        return explain_error(
            self._backend.url, error, is_lost=is_lost, is_committing=is_committing
        )

    def _execute_queue(self, queue: list[tuple[str, Sequence[Any]]]) -> list[Any]:
        connection = self.connection
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
        failure = None
        try:
            with connection.pipeline():
                try:
                    cursors += [
                        connection.execute(sql, given, prepare=prepare, binary=True)
                        for sql, given in queue
                    ]
                except psycopg.Error as error:
                    # The end of the pipeline would log that it ended badly.
                    failure = error
                except BaseException:
                    connection.abandon()
                    raise
        except psycopg.Error as error:
            raise (failure or error) from None

        if failure is not None:
            raise failure

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
        return [cursor.fetchall() for cursor in self.run_each(sql, parameters)]

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
            others = tuple(map(first, if_exists)), tuple(map(first, if_absent))
            keys = [*map(second, if_exists), *map(second, if_absent)]
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

        try:
            with self.connection.cursor().copy(POSTGRES.copy(table)) as copy:
                copy.set_types(POSTGRES.types_of(table))
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            raise self.explain_error(error) from error

    def set(self, table: str, key: Key, **values: Any) -> None:
        self._begin_transaction()
        sql = POSTGRES.set(table, tuple(values))
        self._queue.append((sql, (*values.values(), key)))

    def remove_each(self, table: str, ranges: Sequence[tuple[Key, Key]]) -> int:
        sql = POSTGRES.remove(table, 0, 0)
        return sum([cursor.rowcount for cursor in self.run_each(sql, ranges)])


class PostgresBackend:
    """
    Tables in a schema of a PostgreSQL server.

    A save is there when it returned, as durable as the server is configured to be
    (``synchronous_commit``), and never half.

    Raises:
        StoreError: If the server can't be reached, or its tables belong to another
            program or a newer version.
    """

    def __init__(self, address: Address) -> None:
        self.url = address.url
        self.is_prepared = address.is_prepared
        # What a transaction begins with, where a session keeps nothing.
        self.local_settings = (
            None if address.is_prepared else address.set_settings(is_local=True)
        )
        self._address = address
        self._is_closed = False
        self._open_pool()
        renew_in_children(self)
        try:
            with self._open_block("") as block:
                _prepare_tables(block.connection, address)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<PostgresBackend {self.url}>"

    # Connections

    def _open_pool(self) -> None:
        self._process = os.getpid()
        self._slots = [_Slot() for _ in range(self._address.pool_size)]
        # Closes what no block uses, when the store is gone or the program ends.
        self._closing = finalize(self, _close_unused, self._slots)

    def renew(self) -> None:
        """Leave the parent's connections to it, in a child of `os.fork`."""
        self._closing.detach()
        for slot in self._slots:
            if slot.block is not None:
                slot.block.abandon()

        self._open_pool()

    # A generator, because it is closed when it is dropped: an interrupt may come as a
    # method begins, before the first line of an `__exit__`.
    @contextmanager
    def _open_block(self, begin: str) -> Iterator[PostgresBlock]:
        """
        A block whose transaction begins with *begin*, "" where there must be none.
        """
        # Servers that fork in C, such as uWSGI, don't always call Python's hooks.
        if self._process != os.getpid():
            renew_all()

        if self._is_closed:
            raise StoreError(self.url, "this store was closed; open it again")

        block = PostgresBlock(self, begin)
        slot = self._begin_turn(block)
        # What was interrupted, or fails at its end, is closed.
        is_reusable = False
        try:
            connection, slot.connection = slot.connection, None
            if connection is not None and not connection.is_alive:
                connection.abandon()
                connection = None

            block.connection = connection or self._open_connection()
            yield block
            block.commit()
            is_reusable = block.connection.state == TransactionStatus.IDLE
        except Exception as error:
            if block.connection is not None:
                block.roll_back()
                is_reusable = block.connection.state == TransactionStatus.IDLE

            if isinstance(error, psycopg.Error):
                raise block.explain_error(error) from error

            raise
        finally:
            try:
                if is_reusable and slot.block is block and not self._is_closed:
                    slot.connection = block.connection
                elif block.connection is not None:
                    block.connection.abandon()
            finally:
                try:
                    slot.end(block)
                finally:
                    slot.end(block)

    def _begin_turn(self, block: PostgresBlock) -> _Slot:
        """
        Wait for a slot.

        One that this thread has already is of a block whose end was not reached,
        because the thread was interrupted, or is in a signal handler in the middle of
        it. That block is abandoned if both write, because its transaction has locks, or
        if no other slot is free.
        """
        own = [slot for slot in self._slots if slot.is_own]
        others = [slot for slot in self._slots if slot not in own]
        left = [
            slot
            for slot in own
            if slot.block is None or (block.is_writing and slot.block.is_writing)
        ]
        until = time.monotonic() + self._address.timeout_s
        while True:
            for slot in (*left, *others, *own):
                if slot.begin(block, 0):
                    return slot

            slot = random.choice(others)  # noqa: S311 - no secret
            if slot.begin(block, _WAIT_S):
                return slot

            if time.monotonic() > until:
                raise StoreError(
                    self.url,
                    f"all {len(others)} connections of this store have been in use for "
                    "longer than timeout_s; raise pool_size in the URL, or use fewer "
                    "threads",
                )

    def _open_connection(self) -> LimitedConnection:
        try:
            connection = LimitedConnection.connect(
                autocommit=True, **self._address.server
            )
            connection.timeout_s = self._address.timeout_s
            # One type for all integers, so that a statement is prepared once; and
            # as many statements as there are.
            connection.adapters.register_dumper(int, Int8BinaryDumper)
            connection.prepared_max = 1000
            execute: Callable[..., Any] = connection.execute
            if self.is_prepared:
                execute(*self._address.set_settings(is_local=False))
            else:
                connection.prepare_threshold = None
        except psycopg.Error as error:
            raise explain_unreachable(self.url, error) from error

        return connection

    def close(self) -> None:
        # What blocks use is closed when they end.
        self._is_closed = True
        if self._process != os.getpid():
            renew_all()

        self._closing()

    # Blocks

    def reading(self) -> AbstractContextManager[PostgresBlock]:
        return self._open_block(_READ)

    def writing(self) -> AbstractContextManager[PostgresBlock]:
        return self._open_block(_WRITE)

    def scrub(self) -> None:
        """VACUUM: space of removed rows becomes free and is overwritten in time."""
        # A table that autovacuum is working on needs no second vacuum.
        what = "a table was not vacuumed; autovacuum does it, or its owner"
        self._run_vacuum("SKIP_LOCKED", what)

    def vacuum(self) -> None:
        """VACUUM FULL. Copies in the server's log and in replicas remain."""
        what = "the tables were not rewritten; let their owner do it"
        self._run_vacuum("FULL", what)

    def _run_vacuum(self, how: str, problem: str) -> None:
        # A user without the right gets a warning, and no error.
        warnings: list[str] = []

        def record_warning(notice: errors.Diagnostic) -> None:
            if notice.severity_nonlocalized == "WARNING" and notice.message_primary:
                warnings.append(notice.message_primary)

        schema = self._address.schema
        tables = ", ".join([f"{schema}.{table}" for table in TABLES])
        with self._open_block("") as block:
            connection: Any = block.connection
            connection.add_notice_handler(record_warning)
            try:
                # A compatible server may need no VACUUM.
                with suppress(errors.SyntaxError, errors.FeatureNotSupported):
                    connection.execute(f"VACUUM ({how}) {tables}")
            finally:
                connection.remove_notice_handler(record_warning)

        if warnings:
            raise StoreError(self.url, f"{problem} ({warnings[0]})")

    def backup(self, path: Path) -> None:  # noqa: ARG002 - it has none
        raise StoreError(
            self.url,
            f"a backup of a server is made by pg_dump --schema={self._address.schema} "
            "--format=custom --file=FILE, and restored by pg_restore; see "
            "docs/store.md",
        )

    def problems(self) -> list[str]:
        """Pages whose checksums failed, and invalid indexes, as the server has them."""
        try:
            with self._open_block("") as block:
                execute: Callable[..., Any] = block.connection.execute
                with block.connection.transaction():
                    if self.local_settings:
                        execute(*self.local_settings)

                    pages = execute(_CHECKSUM_FAILURES).fetchone()
                    schema = (self._address.schema,)
                    indexes = execute(_INVALID_INDEXES, schema).fetchall()
                    numbers = execute(NUMBERS).fetchone()
        except DamageError as error:
            return [error.problem]

        found = [f"the index {name} is not valid; REINDEX it" for (name,) in indexes]
        if pages and pages[0]:
            found.append(
                f"{pages[0]} pages of the database had wrong checksums so far; look "
                "at the server's log"
            )

        return found + numbers_problem(*numbers)


def _close_unused(slots: list[_Slot]) -> None:
    for slot in slots:
        connection, slot.connection = slot.connection, None
        if connection is not None:
            connection.abandon()


_CHECKSUM_FAILURES = (
    "SELECT checksum_failures FROM pg_catalog.pg_stat_database"
    " WHERE datname = current_database()"
)
_INVALID_INDEXES = (
    "SELECT c.relname FROM pg_catalog.pg_index i"
    " JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %s AND NOT (i.indisvalid AND i.indisready)"
)


# Tables


def _prepare_tables(connection: psycopg.Connection[Any], address: Address) -> None:
    """Make sure that the tables are ours, and of this version's schema."""
    until = time.monotonic() + address.timeout_s
    while (version := _read_version(connection, address)) != SCHEMA_VERSION:
        if address.mode == "ro":
            what = "nothing has been saved there, or only by an older version"
            raise StoreError(address.url, f"{what}; open it once without ?mode=ro")

        try:
            with connection.transaction():
                if not address.is_prepared:
                    execute: Callable[..., Any] = connection.execute
                    execute(*address.set_settings(is_local=True))

                _migrate_schema(connection, address.schema, version)
        except _CREATED_MEANWHILE:
            # Another process was first, and may not have finished.
            if time.monotonic() > until:
                raise

            time.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - no secret


def _migrate_schema(
    connection: psycopg.Connection[Any], schema: str, version: int | None
) -> None:
    execute: Callable[..., Any] = connection.execute
    if version is None:
        # First, since CREATE SCHEMA IF NOT EXISTS needs the right to create one.
        sql = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s"
        if execute(sql, (schema,)).fetchone() is None:
            execute(f"CREATE SCHEMA {schema}")

        execute(f"CREATE TABLE {_VERSION_TABLE} (version BIGINT NOT NULL)")
        execute(f"INSERT INTO {_VERSION_TABLE} VALUES (0)")  # noqa: S608 - our own name

    sql = f"SELECT version FROM {_VERSION_TABLE} FOR UPDATE"  # noqa: S608 - the same
    (version,) = execute(sql).fetchone()
    if version:
        for step in STEPS[version - 1 :]:
            step.postgres(connection)
    else:
        # None of the statements holds a value.
        stripes = ", ".join([f"({stripe})" for stripe in range(STRIPES)])
        for statement in (
            *POSTGRES.create(),
            "CREATE TABLE numbers (last BIGINT NOT NULL)",
            "INSERT INTO numbers VALUES (0)",
            "CREATE TABLE gate (stripe BIGINT PRIMARY KEY)",
            f"INSERT INTO gate VALUES {stripes}",  # noqa: S608 - our own integers
        ):
            execute(statement)

    _disable_statistics(connection)
    # A newer version may have been first.
    version = max(version or 0, SCHEMA_VERSION)
    execute(f"UPDATE {_VERSION_TABLE} SET version = %s", (version,))  # noqa: S608 - the same


def _disable_statistics(connection: psycopg.Connection[Any]) -> None:
    """
    Let the planner take no samples of texts and bytes: those would stay readable
    in its statistics after an erasure. Rows are found by their keys, for which
    the planner needs no samples.
    """
    execute: Callable[..., Any] = connection.execute
    for table in TABLES.values():
        changes = [
            f"ALTER COLUMN {column.name} SET STATISTICS 0"
            for column in (table.key, *table.columns)
            if column.type != "integer"
        ]
        try:
            # A compatible server without such samples goes on.
            with connection.transaction():
                if changes:
                    execute(f"ALTER TABLE {table.name} {', '.join(changes)}")
        except (errors.SyntaxError, errors.FeatureNotSupported):
            pass


def _may_use_schema(connection: psycopg.Connection[Any], address: Address) -> bool:
    # Tables of a schema that may not be used are not found by their names.
    sql = "SELECT has_schema_privilege(%s, 'USAGE')"
    row = connection.execute(sql, (address.schema,)).fetchone()
    return row is not None and bool(row[0])


def _read_versions(
    connection: psycopg.Connection[Any], address: Address
) -> list[Any] | None:
    """What is in the table of the version; None if it is not there."""
    execute: Callable[..., Any] = connection.execute
    # By its whole name: a pooler may have dropped the setting of the session.
    table = f"{address.schema}.{_VERSION_TABLE}"
    try:
        sql = f"SELECT version FROM {table}"  # noqa: S608 - our own name
        return [version for (version,) in execute(sql)]
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    except errors.UndefinedColumn:
        return []
    except errors.InsufficientPrivilege as error:
        if _may_use_schema(connection, address):
            raise

        raise StoreError(address.url, LACKS_USAGE) from error


def _read_version(connection: psycopg.Connection[Any], address: Address) -> int | None:
    execute: Callable[..., Any] = connection.execute
    (encoding,) = execute("SHOW server_encoding").fetchone()
    if encoding.upper() not in {"UTF8", "UTF-8"}:
        raise StoreError(
            address.url,
            f"this database keeps texts as {encoding}, which lacks most characters; "
            "give one made with ENCODING 'UTF8'",
        )

    # The version before the tables: all tables of that version exist by then.
    versions = _read_versions(connection, address)
    sql = (
        "SELECT relname FROM pg_catalog.pg_class WHERE relkind IN ('r','p','v','m','f')"
        " AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace"
        " WHERE nspname = %s)"
    )
    there = {name for (name,) in execute(sql, (address.schema,))}
    if versions is None:
        if _VERSION_TABLE in there and not _may_use_schema(connection, address):
            raise StoreError(address.url, LACKS_USAGE)

        taken = sorted(there & {*TABLES, *_OTHER_TABLES})
        if taken and _VERSION_TABLE not in there:
            raise _make_foreign_error(address, f"has tables called {', '.join(taken)}")

        return None

    if len(versions) != 1 or not isinstance(versions[0], int):
        raise _make_foreign_error(
            address, f"has a table called {_VERSION_TABLE} that is not one of ours"
        )

    (version,) = versions
    if version > SCHEMA_VERSION:
        raise StoreError(
            address.url,
            f"this database has schema {version}, and this version of "
            f"conversation_state knows up to {SCHEMA_VERSION}; upgrade it",
        )

    missing = sorted({*TABLES, *_OTHER_TABLES} - there)
    if version == SCHEMA_VERSION and missing:
        what = f"the tables {', '.join(missing)} are missing; restore a backup"
        raise StoreError(address.url, what)

    return int(version)


def _make_foreign_error(address: Address, what: str) -> StoreError:
    return StoreError(
        address.url,
        f"the schema {address.schema} {what}, which belong to another program; give "
        "another one (?schema=conversations)",
    )
