"""
A store in one file, through the standard library's sqlite3.

Connections are lent to whoever opens a block and come back after it, most
recently used first: so a program of one thread has one, whose statements stay
prepared, and readers wait for nobody. Blocks that write queue up in this
process and take SQLite's own lock against others.
"""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple
from weakref import finalize

from conversation_state.errors import StoreError
from conversation_state.store._sql import NUMBERS, numbers_problem
from conversation_state.store._sqlite_block import SQLITE, Block, is_in_the_middle
from conversation_state.store._sqlite_once import Connection
from conversation_state.store._sqlite_why import (
    CANT_OPEN,
    NO_DATABASE,
    WHY,
    explained,
)
from conversation_state.store.backend import SCHEMA_VERSION

__all__ = ["APPLICATION_ID", "SqliteBackend", "SqliteOptions"]

# "cvst": tells `file` and us that a database is one of ours.
APPLICATION_ID = 0x63767374

_CONNECTIONS_KEPT = 8

_BUSY_HERE = (
    "another thread of this program has been writing for longer than timeout_s; try "
    "again, or raise it in the URL (?timeout_s=60)"
)
# How long to wait for others to have read what was removed.
_SCRUB_MS = 1000

# How long the write-ahead log gets before it is copied into the file: 16 MB.
_LOG_PAGES = 4000


class SqliteOptions(NamedTuple):
    """
    What a URL may say.

    Attributes:
        synchronous: ``normal`` or ``full``: what a power cut may cost.

        timeout_s: How long to wait for other processes that write.

        mode: ``rwc``, or ``ro`` for reading only.
    """

    synchronous: str = "normal"
    timeout_s: float = 30.0
    mode: str = "rwc"


def _first_schema(connection: sqlite3.Connection) -> None:
    for statement in SQLITE.create():
        connection.execute(statement)

    connection.execute("CREATE TABLE numbers (last INTEGER NOT NULL)")
    connection.execute("INSERT INTO numbers VALUES (0)")


# Step i makes schema i + 1 of schema i, and runs in one transaction with all
# that follow. Steps stay as they were released: each file passes them once.
STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_first_schema,)

_MAGIC = b"SQLite format 3\0"
# The size of the smallest database, of one page.
_LEAST = 512


class SqliteBackend:
    """
    Tables in a file.

    Durable in WAL mode: what was saved survives the process being killed at
    any moment. With ``synchronous=normal`` a power cut may take the newest
    saves with it, and never damages older ones; with ``full`` it takes none.

    Raises:
        StoreError:
            If the file can't be opened, or is not one of ours, or was made by
            a newer version.
    """

    def __init__(self, path: str, options: SqliteOptions, *, url: str = "") -> None:
        self.url = url or f"sqlite:///{path}"
        self._path = Path(path).absolute()
        self._options = options
        self._idle: deque[sqlite3.Connection] = deque()
        self.process = os.getpid()
        self._is_closed = False
        self._writers: Any = RLock()
        self._writer: Block | None = None
        # Closes what nobody closed, when the store is gone or the program ends.
        self._closing = finalize(self, _close_all, self._idle, self.process)
        self._check_file()
        try:
            connection = self._connect()
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise explained(self.url, error) from error

        self._file = str(self._path)
        there = self._path.stat()
        self._identity = there.st_ino, there.st_dev
        self.take_back(connection)

    def _check_file(self) -> None:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise StoreError(self.url, f"{CANT_OPEN} ({error})") from error

        if not stat.S_ISREG(there.st_mode):
            is_folder = stat.S_ISDIR(there.st_mode)
            what = "a directory" if is_folder else "a device, a pipe or a socket"
            raise StoreError(self.url, f"this is {what}; give the path of a file")

        # Larger ones are left to SQLite. Whoever closes a file gives up all locks
        # that the process has on it, those of other stores too, on POSIX systems.
        if 0 < there.st_size < _LEAST:
            self._check_start()

    def _check_start(self) -> None:
        try:
            start = self._path.read_bytes()
        except OSError as error:
            raise StoreError(self.url, f"{CANT_OPEN} ({error})") from error

        # SQLite itself takes a file of a few bytes for an empty one.
        is_ours = start.startswith(_MAGIC)
        why = WHY[sqlite3.SQLITE_CORRUPT] if is_ours else NO_DATABASE
        raise StoreError(self.url, why)

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self._path.as_uri()}?mode={self._options.mode}"
        connection = sqlite3.connect(
            uri,
            uri=True,
            timeout=self._options.timeout_s,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        try:
            connection.execute(f"PRAGMA synchronous = {self._options.synchronous}")
            # Most pages of the log are written again and again by saves that
            # follow each other: a longer log is copied, and synced, less often.
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}").fetchall()
            # What is removed is overwritten: costs nothing where all is added.
            connection.execute("PRAGMA secure_delete = ON").fetchall()
        except BaseException:
            connection.close()
            raise

        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """
        Make sure that this is a file of ours, and of this version's schema.
        """
        # In one moment, lest another process make the tables between two looks.
        connection.execute("BEGIN")
        try:
            version = self._checked_version(connection)
        finally:
            connection.rollback()

        if version < SCHEMA_VERSION:
            if self._options.mode == "ro":
                what = "nothing has been saved there, or only by an older version"
                raise StoreError(self.url, f"{what}; open it once without ?mode=ro")

            self._log_ahead(connection)
            connection.execute("BEGIN IMMEDIATE")
            try:
                # Somebody else may have been quicker.
                version = self._checked_version(connection)
                for step in STEPS[version:]:
                    step(connection)

                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {len(STEPS)}")
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise

    def _log_ahead(self, connection: sqlite3.Connection) -> None:
        until = time.monotonic() + self._options.timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
            except sqlite3.OperationalError as error:
                # Two that want this of a new file at one moment are refused at
                # once: neither would ever get it if both waited.
                is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > until:
                    raise

                time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - nobody has to guess
            else:
                return

    def _checked_version(self, connection: sqlite3.Connection) -> int:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION_ID and (tables or application or version):
            what = "this database belongs to another program; give another path"
            raise StoreError(self.url, what)

        if version > SCHEMA_VERSION:
            raise StoreError(
                self.url,
                f"this file has schema {version}, and this version of "
                f"conversation_state knows up to {SCHEMA_VERSION}; upgrade it",
            )

        return int(version)

    def leave_to_parent(self) -> None:
        """
        Leave to the parent what is the parent's, after `os.fork`.
        """
        # SQLite's connections must not be used here, nor be closed, which
        # would give up the parent's locks; so they are kept for good.
        _INHERITED.append(self._idle)
        self._closing.detach()
        self._idle = deque()
        self.process = os.getpid()
        self._closing = finalize(self, _close_all, self._idle, self.process)
        self._writers = RLock()
        self._writer = None

    def queue_up(self, block: Block) -> None:
        """
        Wait until no other thread of this process writes.

        Raises:
            StoreError:
                If that takes too long.
        """
        lock = self._writers
        # No thread opens two: one that has it already never got to the end of
        # the first.
        if not lock._is_owned() and not lock.acquire(timeout=self._options.timeout_s):
            raise StoreError(self.url, _BUSY_HERE)

        left, self._writer = self._writer, block
        if left is not None:
            left.abandon()

    def leave_queue(self, block: Block) -> None:
        """
        The other end of `queue_up`; nothing if another block has followed.
        """
        if self._writer is block:
            self._writer = None

        if self._writer is None and self._writers._is_owned():
            self._writers.release()

    def check_there(self) -> None:
        """
        See that the file which is open is the one that others would open.
        """
        # What is written into a file without a name is lost when it is closed.
        try:
            there = os.stat(self._file)  # noqa: PTH116 - a third of the time
        except OSError as error:
            what = f"the file is not there any more; put it back, or open it ({error})"
            raise StoreError(self.url, what) from error

        if (there.st_ino, there.st_dev) != self._identity:
            what = "the file was taken away, and another one is in its place"
            raise StoreError(self.url, f"{what}; open it, or put the first one back")

    def lend(self) -> sqlite3.Connection:
        """
        A connection that nobody else uses.
        """
        if self._is_closed:
            raise StoreError(self.url, "this store was closed; open it again")

        try:
            return self._idle.pop()
        except IndexError:
            self.check_there()
            return self._connect()

    def _lend_here(self) -> sqlite3.Connection:
        if self.process != os.getpid():
            self.leave_to_parent()

        return self.lend()

    def take_back(self, connection: sqlite3.Connection) -> None:
        """
        The other end of `lend`.
        """
        is_one_too_many = len(self._idle) >= _CONNECTIONS_KEPT
        if self._is_closed or is_one_too_many or is_in_the_middle(connection):
            connection.close()
        else:
            self._idle.append(connection)

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

    def scrub(self) -> None:
        """
        Empty the write-ahead log, which has pages as they were.

        Those that others still read are kept until they have.
        """
        self.check_there()
        connection = self._lend_here()
        try:
            connection.execute(f"PRAGMA busy_timeout = {_SCRUB_MS}").fetchall()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            timeout = int(self._options.timeout_s * 1000)
            connection.execute(f"PRAGMA busy_timeout = {timeout}").fetchall()
        except sqlite3.Error as error:
            raise explained(self.url, error) from error
        finally:
            self.take_back(connection)

    def vacuum(self) -> None:
        """
        Write the file anew, and empty the write-ahead log.
        """
        self.check_there()
        connection = self._lend_here()
        try:
            with self._writers:
                connection.execute("VACUUM")
                found = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                is_busy, _, _ = found.fetchone()
        except sqlite3.Error as error:
            raise explained(self.url, error) from error
        finally:
            self.take_back(connection)

        if is_busy:
            raise StoreError(
                self.url,
                "others have been reading for longer than timeout_s what was there "
                f"before, so it is still in {self._path.name}-wal; try again",
            )

    def problems(self) -> list[str]:
        """
        What SQLite itself finds wrong with the file.
        """
        connection = self._lend_here()
        try:
            found = connection.execute("PRAGMA integrity_check").fetchall()
            numbers = connection.execute(NUMBERS).fetchone()
        except sqlite3.DatabaseError as error:
            return [str(error)]
        finally:
            self.take_back(connection)

        problems = [] if found == [("ok",)] else [str(what) for (what,) in found]
        return problems + numbers_problem(*numbers)

    def close(self) -> None:
        """
        Close all connections; the last one leaves a single file behind.
        """
        self._is_closed = True
        if self.process == os.getpid():
            self._closing()


_INHERITED: list[deque[sqlite3.Connection]] = []


def _close_all(idle: deque[sqlite3.Connection], process: int) -> None:
    while idle and process == os.getpid():
        idle.pop().close()
