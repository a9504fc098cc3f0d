"""
The tables in a PostgreSQL server: created, checked, and brought to this version.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors

from conversation_state.errors import StoreError
from conversation_state.store.backends._sql import STEPS
from conversation_state.store.backends.postgres._block import POSTGRES, STRIPES
from conversation_state.store.backends.postgres._server import LACKS_USAGE, Address
from conversation_state.store.schema import SCHEMA_VERSION, TABLES

__all__ = ["prepare_tables"]

_VERSION_TABLE = "conversation_state"
_OTHER_TABLES = ("numbers", "gate", _VERSION_TABLE)


def _create_tables(connection: psycopg.Connection[Any]) -> None:
    # None of the statements holds a value.
    execute: Callable[..., Any] = connection.execute
    for statement in POSTGRES.create():
        execute(statement)

    execute("CREATE TABLE numbers (last BIGINT NOT NULL)")
    execute("INSERT INTO numbers VALUES (0)")
    execute("CREATE TABLE gate (stripe BIGINT PRIMARY KEY)")
    stripes = ", ".join([f"({stripe})" for stripe in range(STRIPES)])
    execute(f"INSERT INTO gate VALUES {stripes}")  # noqa: S608 - our own integers


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


def prepare_tables(connection: psycopg.Connection[Any], address: Address) -> None:
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
        _create_tables(connection)

    _disable_statistics(connection)
    # A newer version may have been first.
    version = max(version or 0, SCHEMA_VERSION)
    execute(f"UPDATE {_VERSION_TABLE} SET version = %s", (version,))  # noqa: S608 - the same


def _may_use_schema(connection: psycopg.Connection[Any], address: Address) -> bool:
    """
    Whether tables of the schema are found by their names.
    """
    sql = "SELECT has_schema_privilege(%s, 'USAGE')"
    row = connection.execute(sql, (address.schema,)).fetchone()
    return row is not None and bool(row[0])


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
    try:
        sql = f"SELECT version FROM {_VERSION_TABLE}"  # noqa: S608 - our own name
        versions = [version for (version,) in execute(sql)]
    except errors.UndefinedTable:
        versions = None
    except errors.UndefinedColumn:
        versions = []

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
