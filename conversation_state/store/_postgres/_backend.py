"""
Connections: lent to whoever opens a block, and taken back after it.

Not psycopg_pool: whoever asks its pool while a server is away waits for as
long as one may wait at all, and is not told why; here it is one attempt, and
the server's own words. There is no thread in the background, either, which a
child of `os.fork` would lack.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any
from weakref import finalize

import psycopg
from psycopg import errors
from psycopg.types.numeric import Int8BinaryDumper

from conversation_state.errors import StoreError
from conversation_state.store._postgres._address import Address
from conversation_state.store._postgres._block import Block, Link, Permit
from conversation_state.store._postgres._tables import prepare
from conversation_state.store._postgres._why import explained, unreachable
from conversation_state.store._sql import NUMBERS, numbers_problem
from conversation_state.store.backend import TABLES

__all__ = ["PostgresBackend"]


class PostgresBackend:
    """
    Tables in a schema of a PostgreSQL server.

    A save is there when it returned, as durable as the server is told to be
    (``synchronous_commit``), and never half.

    Raises:
        StoreError:
            If the server can't be reached, or the tables there are not ours or
            a newer version's.
    """

    def __init__(self, address: Address) -> None:
        self.url = address.url
        self.is_prepared = address.is_prepared
        self._address = address
        self._is_closed = False
        self._start()
        link = self.lend()
        try:
            prepare(link.connection, address)
        except psycopg.Error as error:
            raise self._explained(link, error) from error
        finally:
            self.take_back(link)

    def __repr__(self) -> str:
        return f"<PostgresBackend {self.url}>"

    def _start(self) -> None:
        self._process = os.getpid()
        self._idle: deque[Link] = deque()
        # A queue rather than a semaphore, which hangs for good where a thread is
        # interrupted inside of it.
        self._free: SimpleQueue[Permit] = SimpleQueue()
        for _ in range(self._address.pool_size):
            self._free.put(Permit(self._free))

        # Closes what nobody closed, when the store is gone or the program ends.
        self._closing = finalize(self, _close_all, self._idle, self._process)

    def _leave_to_parent(self) -> None:
        """
        Leave to the parent what is the parent's, after `os.fork`.
        """
        _INHERITED.append(self._idle)
        self._closing.detach()
        self._start()

    def _connect(self) -> Link:
        try:
            connection = psycopg.connect(autocommit=True, **self._address.server)
        except psycopg.Error as error:
            raise unreachable(self.url, error) from error

        # One type for all integers, so that a statement is prepared once; and
        # as many statements as there are.
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        connection.prepared_max = 1000
        return Link(connection)

    def lend(self) -> Link:
        """
        A connection that nobody else uses, and that was there a moment ago.
        """
        if self._process != os.getpid():
            self._leave_to_parent()

        if self._is_closed:
            raise StoreError(self.url, "this store was closed; open it again")

        try:
            permit = self._free.get(timeout=self._address.timeout_s)
        except Empty:
            size = self._address.pool_size
            raise StoreError(
                self.url,
                f"all {size} connections of this store have been in use for longer "
                "than timeout_s; raise pool_size in the URL, or use fewer threads",
            ) from None

        try:
            link = self._idle_one() or self._connect()
        except BaseException:
            self._free.put(permit)
            raise

        link.permit = permit
        return link

    def _idle_one(self) -> Link | None:
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return None

            if _is_there(link):
                return link

            link.connection.close()

    def take_back(self, link: Link) -> None:
        """
        The other end of `lend`.
        """
        permit, link.permit = link.permit, None
        if self._is_closed or link.connection.closed:
            link.connection.close()
        else:
            self._idle.append(link)

        if permit is not None:
            self._free.put(permit)

    def reading(self) -> Block:
        """
        A block that reads.
        """
        return Block(self, is_writing=False)

    def writing(self) -> Block:
        """
        A block that writes.
        """
        return Block(self, is_writing=True)

    def _explained(self, link: Link, error: psycopg.Error) -> Exception:
        return explained(self.url, error, is_lost=link.is_lost, is_committing=False)

    def scrub(self) -> None:
        """
        VACUUM: what was removed is given back to the tables, which write over
        it in time.
        """
        # Where the server is at it itself there is nothing to wait for.
        self._vacuum("SKIP_LOCKED")

    def vacuum(self) -> None:
        """
        VACUUM FULL: the tables are written anew, and all others wait for it.

        What the server has copied elsewhere, its write-ahead log and replicas
        above all, is its own affair.

        Raises:
            StoreError:
                If this user may not, or others are in the way.
        """
        # Who may not is warned, and that is all a server does.
        warnings = [said for said in self._vacuum("FULL") if said]
        if warnings:
            what = "the tables were not written anew; let their owner do it"
            raise StoreError(self.url, f"{what} ({warnings[0]})")

    def _vacuum(self, how: str) -> list[str]:
        """
        What the server warned of.
        """
        said: list[str] = []

        def hear(told: errors.Diagnostic) -> None:
            if told.severity_nonlocalized == "WARNING":
                said.append(told.message_primary or "")

        link = self.lend()
        execute: Callable[..., Any] = link.connection.execute
        link.connection.add_notice_handler(hear)
        try:
            execute(f"VACUUM ({how}) {', '.join(TABLES)}")
        except (errors.SyntaxError, errors.FeatureNotSupported):
            pass  # a relative of PostgreSQL's, whose rows go without being asked
        except psycopg.Error as error:
            raise self._explained(link, error) from error
        finally:
            link.connection.remove_notice_handler(hear)
            self.take_back(link)

        return said

    def problems(self) -> list[str]:
        """
        What the server itself knows to be wrong: pages whose checksums failed,
        and indexes that are not valid.
        """
        link = self.lend()
        execute: Callable[..., Any] = link.connection.execute
        try:
            pages = execute(_PAGES).fetchone()
            indexes = execute(_INDEXES, (self._address.schema,)).fetchall()
            numbers = execute(NUMBERS).fetchone()
        except psycopg.Error as error:
            return [str(self._explained(link, error))]
        finally:
            self.take_back(link)

        found = [f"the index {name} is not valid; REINDEX it" for (name,) in indexes]
        if pages and pages[0]:
            found.append(
                f"{pages[0]} pages of the database had wrong checksums so far; look "
                "at the server's log"
            )

        return found + numbers_problem(*numbers)

    def close(self) -> None:
        """
        Close all connections; those in use when their blocks end.
        """
        self._is_closed = True
        if self._process == os.getpid():
            self._closing()


_PAGES = (
    "SELECT checksum_failures FROM pg_catalog.pg_stat_database"
    " WHERE datname = current_database()"
)
_INDEXES = (
    "SELECT c.relname FROM pg_catalog.pg_index i"
    " JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = %s AND NOT (i.indisvalid AND i.indisready)"
)


def _is_there(link: Link) -> bool:
    """
    Whether the server has not hung up: a look at what came in, and no trip.
    """
    connection = link.connection
    try:
        # A server's last words come before the end of what it says.
        for _ in range(2):
            connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False

    return not connection.closed


_INHERITED: list[deque[Link]] = []


def _close_all(idle: deque[Link], process: int) -> None:
    while idle and process == os.getpid():
        idle.pop().connection.close()
