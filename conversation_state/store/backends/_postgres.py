"""
The connections to a PostgreSQL server, acquired for a block and released after it, and
its tables: created, checked, and brought to this version.

Not psycopg_pool: while a server is down, its pool waits for the whole timeout and
gives no reason; here there is one attempt, with the server's own error. It also
has background threads, which a child of `os.fork` would lack.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Any
from weakref import finalize, ref

import psycopg
from psycopg import errors
from psycopg.types.numeric import Int8BinaryDumper

from conversation_state.errors import StoreError
from conversation_state.store.backend import DamageError
from conversation_state.store.backends._blocks import Permits
from conversation_state.store.backends._postgres_block import (
    POSTGRES,
    STRIPES,
    LimitedConnection,
    Link,
    PostgresBlock,
)
from conversation_state.store.backends._postgres_server import (
    LACKS_USAGE,
    Address,
    explain_error,
    explain_unreachable,
)
from conversation_state.store.backends._sql import NUMBERS, STEPS, numbers_problem
from conversation_state.store.schema import SCHEMA_VERSION, TABLES

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


class PostgresBackend:
    """
    Tables in a schema of a PostgreSQL server.

    A save is there when it returned, as durable as the server is configured to be
    (``synchronous_commit``), and never half.

    Raises:
        StoreError:
            If the server can't be reached, or its tables belong to another
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
        link = self.acquire()
        try:
            _prepare_tables(link.connection, address)
            link.is_reusable = True
        except psycopg.Error as error:
            raise self._explain_error(link, error) from error
        finally:
            self.release(link)

    def __repr__(self) -> str:
        return f"<PostgresBackend {self.url}>"

    def _open_pool(self) -> None:
        self._process = os.getpid()
        self._idle: deque[Link] = deque()
        self._permits = Permits(self._address.pool_size)
        # The connections that blocks have. Weak, since one that nothing else refers
        # to is closed, and its permit free.
        self._in_use: dict[int, ref[Link]] = {}
        self._uses = itertools.count()
        # Closes the idle connections when the store is gone or the program ends.
        self._closing = finalize(self, _close_all, self._idle, self._process)

    def _leave_to_parent(self) -> None:
        """Leave the parent's connections to it, after `os.fork`."""
        _inherited_links.append(self._idle)
        self._closing.detach()
        self._open_pool()

    def _open_link(self) -> Link:
        try:
            connection = LimitedConnection.connect(
                autocommit=True, **self._address.server
            )
        except psycopg.Error as error:
            raise explain_unreachable(self.url, error) from error

        # One type for all integers, so that a statement is prepared once; and
        # as many statements as there are.
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        connection.prepared_max = 1000
        if not self.is_prepared:
            connection.prepare_threshold = None

        connection.timeout_s = self._address.timeout_s
        link = Link(connection)
        if self.is_prepared:
            execute: Callable[..., Any] = connection.execute
            try:
                execute(*self._address.set_settings(is_local=False))
            except psycopg.Error as error:
                raise explain_unreachable(self.url, error) from error

        return link

    def acquire(self, *, is_writing: bool = False) -> Link:
        """
        A connection that no other block uses, and that was alive a moment ago.

        A block of this thread whose end was not reached, because the thread was
        interrupted, is abandoned where it would be in the way.
        """
        if self._process != os.getpid():
            self._leave_to_parent()

        if self._is_closed:
            raise StoreError(self.url, "this store was closed; open it again")

        self._abandon_left_links(is_writing=is_writing)
        permit = self._permits.acquire(self._address.timeout_s)
        if permit is None:
            size = self._address.pool_size
            raise StoreError(
                self.url,
                f"all {size} connections of this store have been in use for longer "
                "than timeout_s; raise pool_size in the URL, or use fewer threads",
            )

        try:
            link = self._take_idle_link() or self._open_link()
            link.thread = get_ident()
            link.is_writing = is_writing
            link.is_reusable = False
            link.use = next(self._uses)
            self._in_use[link.use] = ref(link)
            # This is the last step: until here this function returns the permit,
            # afterwards `release` does.
            link.permit = permit
        except BaseException:
            self._permits.free.put(permit)
            raise

        return link

    def _abandon_left_links(self, *, is_writing: bool) -> None:
        """
        Release what blocks of this thread have whose end was not reached: their
        transactions have locks, and the traceback of an interrupt may keep them.

        Or the thread is in a signal handler in the middle of one, which can go on
        afterwards unless both write or there is no other connection.
        """
        thread = get_ident()
        for use, held in list(self._in_use.items()):
            link = held()
            if link is None:
                self._in_use.pop(use, None)
            elif link.thread == thread and (
                (is_writing and link.is_writing) or self._permits.free.empty()
            ):
                # Not while psycopg waits for an answer: a new connection may get the
                # file descriptor that it waits for. The block's end closes it.
                if not link.is_awaiting:
                    link.connection.abandon()

                self.release(link)

    def _take_idle_link(self) -> Link | None:
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return None

            if _is_connected(link):
                return link

            link.connection.abandon()

    def release(self, link: Link) -> None:
        """
        The other end of `acquire`. An interrupt before its first step leaves the
        connection to the thread's next block, one after it releases the permit.
        """
        permit, link.permit = link.permit, None
        if permit is None:  # by the thread's next block, already
            link.connection.abandon()
            return

        try:
            self._in_use.pop(link.use, None)
            if link.is_awaiting:
                pass  # only where it is abandoned, see there
            elif self._is_closed or not link.is_reusable:
                link.connection.abandon()
            else:
                self._idle.append(link)
        finally:
            self._permits.free.put(permit)

    def reading(self) -> PostgresBlock:
        return PostgresBlock(self, is_writing=False)

    def writing(self) -> PostgresBlock:
        return PostgresBlock(self, is_writing=True)

    def _explain_error(self, link: Link, error: psycopg.Error) -> Exception:
        return explain_error(self.url, error, is_lost=link.is_lost, is_committing=False)

    def scrub(self) -> None:
        """
        VACUUM: space of removed rows becomes free and is overwritten in time.

        Raises:
            StoreError:
                If the server skipped a table: another session vacuums it, or it
                is not this user's.
        """
        # A table that autovacuum is working on needs no second vacuum.
        what = "a table was not vacuumed; autovacuum does it, or its owner"
        self._run_vacuum("SKIP_LOCKED", what)

    def vacuum(self) -> None:
        """
        VACUUM FULL: rewrites the tables, while all others wait.

        Copies in the server's write-ahead log and in replicas remain.

        Raises:
            StoreError:
                If this user may not, or others are in the way.
        """
        what = "the tables were not rewritten; let their owner do it"
        self._run_vacuum("FULL", what)

    def _run_vacuum(self, how: str, problem: str) -> None:
        # A user without the right gets a warning, and no error.
        warnings: list[str] = []

        def record_warning(notice: errors.Diagnostic) -> None:
            if notice.severity_nonlocalized == "WARNING" and notice.message_primary:
                warnings.append(notice.message_primary)

        link = self.acquire()
        execute: Callable[..., Any] = link.connection.execute
        link.connection.add_notice_handler(record_warning)
        try:
            schema = self._address.schema
            tables = ", ".join([f"{schema}.{table}" for table in TABLES])
            execute(f"VACUUM ({how}) {tables}")
            link.is_reusable = True
        except (errors.SyntaxError, errors.FeatureNotSupported):
            pass  # a compatible server that needs no VACUUM
        except psycopg.Error as error:
            raise self._explain_error(link, error) from error
        finally:
            link.connection.remove_notice_handler(record_warning)
            self.release(link)

        if warnings:
            raise StoreError(self.url, f"{problem} ({warnings[0]})")

    def backup(self, path: Path) -> None:  # noqa: ARG002 - it has none
        """Refuse: backups of a server are its tools' work."""
        raise StoreError(
            self.url,
            f"a backup of a server is made by pg_dump --schema={self._address.schema} "
            "--format=custom --file=FILE, and restored by pg_restore; see "
            "docs/postgres.md",
        )

    def problems(self) -> list[str]:
        """
        What the server itself reports: pages whose checksums failed, and invalid
        indexes.

        Raises:
            StoreError:
                If it can't be asked now.
        """
        link = self.acquire()
        execute: Callable[..., Any] = link.connection.execute
        try:
            with link.connection.transaction():
                if self.local_settings:
                    execute(*self.local_settings)

                pages = execute(_CHECKSUM_FAILURES).fetchone()
                indexes = execute(_INVALID_INDEXES, (self._address.schema,)).fetchall()
                numbers = execute(NUMBERS).fetchone()

            link.is_reusable = True
        except psycopg.Error as error:
            explained = self._explain_error(link, error)
            if isinstance(explained, DamageError):
                return [explained.problem]

            raise explained from error
        finally:
            self.release(link)

        found = [f"the index {name} is not valid; REINDEX it" for (name,) in indexes]
        if pages and pages[0]:
            found.append(
                f"{pages[0]} pages of the database had wrong checksums so far; look "
                "at the server's log"
            )

        return found + numbers_problem(*numbers)

    def close(self) -> None:
        # Those in use are closed when their blocks end.
        self._is_closed = True
        if self._process == os.getpid():
            self._closing()


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


def _is_connected(link: Link) -> bool:
    """
    Whether the server has not hung up: reads what has arrived, without a round trip.
    """
    connection = link.connection
    try:
        # A last message arrives before the end of the stream.
        for _ in range(2):
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False

    return not connection.closed


# Connections that belong to the parent process: a child must not close them.
_inherited_links: list[deque[Link]] = []


def _close_all(idle: deque[Link], process: int) -> None:
    while idle and process == os.getpid():
        idle.pop().connection.abandon()


# Tables


def _prepare_tables(connection: psycopg.Connection[Any], address: Address) -> None:
    """
    Make sure that the tables are ours, and of this version's schema.

    Raises:
        StoreError:
            If they belong to another program or a newer version.
    """
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
