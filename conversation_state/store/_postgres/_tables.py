"""
The tables in a server: whose they are, and how they come to be.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors

from conversation_state.errors import StoreError
from conversation_state.store._postgres._address import Address
from conversation_state.store._sql import Dialect
from conversation_state.store.backend import SCHEMA_VERSION, TABLES

__all__ = ["POSTGRES", "STEPS", "STRIPES", "prepare"]

POSTGRES = Dialect(
    "%s",
    (("integer", "int8"), ("text", "text"), ("bytes", "bytea")),
    text_order=' COLLATE "C"',
)

# Rows that blocks lock: one of them if they add only, all if they do more. As
# many as rarely meet on one row.
STRIPES = 16

_MARK = "conversation_state"
_OTHERS = ("numbers", "gate", _MARK)


def _first_schema(connection: psycopg.Connection[Any]) -> None:
    # None of the statements holds a value.
    execute: Callable[..., Any] = connection.execute
    for statement in POSTGRES.create():
        execute(statement)

    execute("CREATE TABLE numbers (last BIGINT NOT NULL)")
    execute("INSERT INTO numbers VALUES (0)")
    execute("CREATE TABLE gate (stripe BIGINT PRIMARY KEY)")
    stripes = ", ".join([f"({stripe})" for stripe in range(STRIPES)])
    execute(f"INSERT INTO gate VALUES {stripes}")  # noqa: S608 - integers of ours


# Step i makes schema i + 1 of schema i, and runs in one transaction with all
# that follow. Steps stay as they were released: each database passes them once.
STEPS: tuple[Callable[[psycopg.Connection[Any]], None], ...] = (_first_schema,)

# What those hear who were second to make the same thing.
_TWICE = (
    errors.DuplicateSchema,
    errors.DuplicateTable,
    errors.DuplicateObject,
    errors.UniqueViolation,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.InternalError_,
)


def prepare(connection: psycopg.Connection[Any], address: Address) -> None:
    """
    Make sure that the tables are ours, and of this version's schema.

    Raises:
        StoreError:
            If they are somebody else's, or a newer version's.
    """
    until = time.monotonic() + address.timeout_s
    while (version := _checked_version(connection, address)) != SCHEMA_VERSION:
        if address.mode == "ro":
            what = "nothing has been saved there, or only by an older version"
            raise StoreError(address.url, f"{what}; open it once without ?mode=ro")

        try:
            with connection.transaction():
                _bring_up(connection, address.schema, version)
        except _TWICE:
            # Somebody else was quicker, and may not have finished.
            if time.monotonic() > until:
                raise

            time.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - nobody has to guess


def _bring_up(
    connection: psycopg.Connection[Any], schema: str, version: int | None
) -> None:
    execute: Callable[..., Any] = connection.execute
    if version is None:
        # Asked first: who must not make schemas must not make one that is there.
        sql = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s"
        if execute(sql, (schema,)).fetchone() is None:
            execute(f"CREATE SCHEMA {schema}")

        execute(f"CREATE TABLE {_MARK} (version BIGINT NOT NULL)")
        execute(f"INSERT INTO {_MARK} VALUES (0)")  # noqa: S608 - a name of ours

    sql = f"SELECT version FROM {_MARK} FOR UPDATE"  # noqa: S608 - the same
    (version,) = execute(sql).fetchone()
    for step in STEPS[version:]:
        step(connection)

    # Somebody newer may have been quicker.
    version = max(version or 0, len(STEPS))
    execute(f"UPDATE {_MARK} SET version = %s", (version,))  # noqa: S608 - the same


def _checked_version(
    connection: psycopg.Connection[Any], address: Address
) -> int | None:
    execute: Callable[..., Any] = connection.execute
    (encoding,) = execute("SHOW server_encoding").fetchone()
    if encoding.upper() not in {"UTF8", "UTF-8"}:
        raise StoreError(
            address.url,
            f"this database keeps texts as {encoding}, which lacks most characters; "
            "give one made with ENCODING 'UTF8'",
        )

    # The version first: whatever belongs to it is there by the second look.
    try:
        sql = f"SELECT version FROM {_MARK}"  # noqa: S608 - a name of ours
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
        taken = sorted(there & {*TABLES, *_OTHERS})
        if taken and _MARK not in there:
            raise _foreign(address, f"has tables called {', '.join(taken)}")

        return None

    if len(versions) != 1 or not isinstance(versions[0], int):
        raise _foreign(address, f"has a table called {_MARK} that is none of ours")

    (version,) = versions
    if version > SCHEMA_VERSION:
        raise StoreError(
            address.url,
            f"this database has schema {version}, and this version of "
            f"conversation_state knows up to {SCHEMA_VERSION}; upgrade it",
        )

    missing = sorted({*TABLES, *_OTHERS} - there)
    if version == SCHEMA_VERSION and missing:
        what = f"the tables {', '.join(missing)} are missing; restore a backup"
        raise StoreError(address.url, what)

    return int(version)


def _foreign(address: Address, what: str) -> StoreError:
    return StoreError(
        address.url,
        f"the schema {address.schema} {what}, which belong to another program; give "
        "another one (?schema=talks)",
    )
