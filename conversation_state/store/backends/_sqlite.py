"""
The file of a store: its options, its connections, its versions and its upkeep.

Each block acquires a connection and releases it at its end, most recently used
first: so a program of one thread has one, whose statements stay prepared, and
readers wait for no other block. Blocks that write queue up in this process: that
is faster than to wait for SQLite's own lock, which keeps them apart.
"""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple, Self
from urllib.parse import unquote
from weakref import finalize

from conversation_state.errors import StoreError
from conversation_state.store.backend import DamageError
from conversation_state.store.backends._blocks import (
    OneAtATime,
    check_process,
    renew_in_children,
)
from conversation_state.store.backends._sql import (
    NUMBERS,
    STEPS,
    Options,
    is_seconds,
    numbers_problem,
    parse_options,
)
from conversation_state.store.backends._sqlite_backup import copy_database
from conversation_state.store.backends._sqlite_block import (
    SQLITE,
    SqliteBlock,
    is_in_transaction,
)
from conversation_state.store.backends._sqlite_connection import (
    CANT_OPEN,
    DAMAGED,
    NO_DATABASE,
    Connection,
    connections,
    explain_error,
)
from conversation_state.store.backends._sqlite_log import (
    VERSION_MASK,
    is_log_of,
    make_mark,
    repeat_mark,
)
from conversation_state.store.schema import SCHEMA_VERSION

# "cvst": marks a database as one of ours, also for `file`.
APPLICATION_ID = 0x63767374

_CONNECTIONS_KEPT = 8

# How many bytes the write-ahead log gets before it is copied into the file.
# Consecutive saves rewrite mostly the same pages, so a longer one is copied, and
# synced, less often. Where each save is synced, that gains nothing, and a log that is
# soon written from its start again is: to sync a file that grows takes longer.
_LOG_SIZES = {"normal": 4000 * 4120, "full": 250 * 4120}
# One look at its size for so many saves of one message: it takes 5 % of a save.
_SAVES_A_LOOK = 8


class SqliteOptions(NamedTuple):
    """The options of a URL: see `open_store`."""

    synchronous: str = "normal"
    timeout_s: float = 30.0
    mode: str = "rw"
    access: str = "private"


_OPTIONS: Options = {
    "synchronous": ({"normal", "full"}.__contains__, "normal or full"),
    "timeout_s": (is_seconds, "seconds"),
    "mode": ({"ro", "rw"}.__contains__, "ro or rw"),
    "access": ({"private", "shared"}.__contains__, "private or shared"),
}


# SQLite stores these statements verbatim, so `problems` compares them: SQLite itself
# accepts a table name that differs in case, and loses the table when it rewrites the
# file.
_CREATE = (*SQLITE.create(), "CREATE TABLE numbers (last INTEGER NOT NULL)")
_SCHEMA = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'table'"


_FOREIGN_LOG = (
    "the log beside the file, {name}-wal, belongs to another file: a backup was copied "
    "here while the log of what it replaced was left; nothing was changed. Move "
    "{name}-wal and {name}-shm away to open the file without them, or put the file "
    "back that they belong to; `conversation-state restore` does this right"
)
_UNREADABLE_LOG = (
    "a log is beside the file, and it can't be read where nothing can be written; copy "
    "the file and the log (-wal) to a folder that this user can write, and open "
    "the copy"
)
_MAGIC = b"SQLite format 3\0"
# The size of the smallest database, of one page.
_SMALLEST_FILE = 512


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
        self.timeout_s = options.timeout_s
        self.may_write = options.mode != "ro"
        self._path = Path(path).absolute()
        self._file = str(self._path)
        self._options = options
        self._is_closed = False
        self.is_log_begun = False
        self._unseen_saves = 0
        self._identity: tuple[int, int] | None = None
        self._open_pool()
        renew_in_children(self)
        self._check_file()
        if not is_log_of(self._path):
            raise StoreError(self.url, _FOREIGN_LOG.format(name=self._path.name))

        self._look_at_medium()
        if self.may_write and options.access == "private":
            self._create_private_file()

        try:
            connection = self.acquire()
            try:
                self._prepare_schema(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            if not self.may_write and self._log_size() and self._is_read_only_folder():
                raise StoreError(self.url, f"{_UNREADABLE_LOG} ({error})") from error

            raise explain_error(self.url, error) from error
        except UnicodeDecodeError as error:
            # In SQLite's own message, which cites the schema.
            raise DamageError(self.url, DAMAGED) from error

        try:
            there = self._path.stat()
        except OSError as error:  # it was removed since
            raise StoreError(self.url, f"{CANT_OPEN} ({error})") from error

        self._identity = connection.file_id = there.st_dev, there.st_ino
        self._check_links(there)
        self.release(connection)

    @classmethod
    def of(cls, url: str) -> Self:
        """The file at a URL."""
        path, _, query = url.partition(":")[2].partition("?")
        if not path.startswith("///"):
            raise StoreError(
                url,
                "a file's URL has three slashes, sqlite:///chats.db, or four for a "
                "full path, sqlite:////srv/chats.db",
            )

        try:
            path = unquote(path[3:], errors="strict")
        except UnicodeDecodeError:
            # Decoding with replacements would open another file.
            what = "the path holds bytes after a % that are no UTF-8"
            raise StoreError(url, what) from None

        if path in {"", ":memory:"} or "\0" in path:
            what = "this names no file; a store that is in memory has the URL memory:"
            raise StoreError(url, what)

        given: dict[str, Any] = parse_options(url, query, _OPTIONS)
        if "timeout_s" in given:
            given["timeout_s"] = float(given["timeout_s"])

        return cls(path, SqliteOptions(**given), url=url)

    def _open_pool(self) -> None:
        self._idle: deque[Connection] = deque()
        # Blocks that write queue up.
        self.writers = OneAtATime()
        # Closes what is open, when the store is gone or the program ends.
        self._closing = finalize(self, _close_all, self._idle)

    def renew(self) -> None:
        """Leave the parent's connections to it, after `os.fork`."""
        self._closing.detach()
        self._open_pool()

    def _check_file(self) -> None:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise StoreError(self.url, f"{CANT_OPEN} ({error})") from error

        self._identity = there.st_dev, there.st_ino
        if not stat.S_ISREG(there.st_mode):
            is_folder = stat.S_ISDIR(there.st_mode)
            what = "a directory" if is_folder else "a device, a pipe or a socket"
            raise StoreError(self.url, f"this is {what}; give the path of a file")

        self._check_links(there)
        # SQLite checks larger files. Closing a file releases all locks that the
        # process has on it, those of other stores too, on POSIX systems.
        if 0 < there.st_size < _SMALLEST_FILE:
            # SQLite itself takes a file of a few bytes for an empty one.
            try:
                start = self._path.read_bytes()
            except OSError as error:
                raise StoreError(self.url, f"{CANT_OPEN} ({error})") from error

            is_ours = start.startswith(_MAGIC)
            raise StoreError(self.url, DAMAGED if is_ours else NO_DATABASE)

    def _create_private_file(self) -> None:
        # SQLite gives the two files beside it the same rights.
        with suppress(OSError):  # it is there, or SQLite says what is wrong
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
            os.close(os.open(self._file, flags, 0o600))

    def _is_read_only_folder(self) -> bool:
        return not os.access(self._path.parent, os.W_OK)

    def _look_at_medium(self) -> None:
        """
        Note whether the file stands where SQLite can't make the files beside it, which
        it then has to be told: it would refuse to read. While no program has it open,
        it doesn't change.
        """
        self._medium: tuple[int, int] | None = None
        if not self.may_write and not self._log_size() and self._is_read_only_folder():
            with suppress(OSError):
                there = self._path.stat()
                self._medium = there.st_mtime_ns, there.st_size

    def _check_medium(self, there: os.stat_result) -> None:
        # Somebody who may write the file does.
        if self._log_size() or self._medium != (there.st_mtime_ns, there.st_size):
            _close_all(self._idle)
            self._look_at_medium()

    def _check_links(self, there: os.stat_result) -> None:
        # SQLite finds the log of a file by the file's name: what is saved
        # under one name is not seen under another, and may overwrite it later.
        if there.st_nlink > 1:
            raise StoreError(
                self.url,
                f"the file has {there.st_nlink} names (hard links), and each would be "
                "a store of its own; remove the others, or copy the file and open the "
                "copy",
            )

    def _open_connection(self) -> Connection:
        connections.check_may_open(self.url, self._file, self._identity)
        # Where all others were closed meanwhile, there is no log any more.
        self.is_log_begun = False
        mode = "rwc" if self.may_write else "ro"
        if self._medium is not None:
            mode += "&immutable=1"

        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode={mode}",
            uri=True,
            timeout=self._options.timeout_s,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        connection.file_id = self._identity
        connection.pool = self._idle
        try:
            synchronous = self._options.synchronous
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            # See `begin_log`.
            connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
            # What is removed is overwritten: costs nothing where all is added.
            connection.execute("PRAGMA secure_delete = ON").fetchall()
        except BaseException:
            connection.close()
            raise

        return connection

    def _prepare_schema(self, connection: sqlite3.Connection) -> None:
        """Make sure that this is a file of ours, and of this version's schema."""
        # In one transaction: another process may make the tables between two looks.
        connection.execute("BEGIN")
        try:
            version = self._read_version(connection)
        finally:
            connection.rollback()

        if version < SCHEMA_VERSION:
            if not self.may_write:
                what = "nothing has been saved there, or only by an older version"
                raise StoreError(self.url, f"{what}; open it once without ?mode=ro")

            self._enable_wal(connection)
            connection.execute("BEGIN IMMEDIATE")
            try:
                # Another process may have been first.
                version = self._read_version(connection)
                for step in STEPS[version - 1 :] if version else ():
                    step.sqlite(connection)

                if not version:
                    for statement in (*_CREATE, "INSERT INTO numbers VALUES (0)"):
                        connection.execute(statement)

                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {make_mark(SCHEMA_VERSION)}")
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise

    def _enable_wal(self, connection: sqlite3.Connection) -> None:
        until = time.monotonic() + self._options.timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
            except sqlite3.OperationalError as error:
                # Two processes that ask this of a new file at one moment are both
                # refused at once, since waiting would be a deadlock.
                is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > until:
                    raise

                time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - no secret
            else:
                return

    def _read_version(self, connection: sqlite3.Connection) -> int:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (mark,) = connection.execute("PRAGMA user_version").fetchone()
        version = mark & VERSION_MASK
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION_ID and (tables or application or mark):
            what = "this database belongs to another program; give another path"
            raise StoreError(self.url, what)

        if version > SCHEMA_VERSION:
            raise StoreError(
                self.url,
                f"this file has schema {version}, and this version of "
                f"conversation_state knows up to {SCHEMA_VERSION}; upgrade it",
            )

        return int(version)

    def check_same_file(self, *, is_writing: bool) -> None:
        # What is written into a removed file is lost when it is closed, and what
        # is read there is old.
        try:
            there = os.stat(self._file)  # noqa: PTH116 - a third of the time
        except OSError as error:
            what = (
                f"the file is missing; put it back, or open the store again ({error})"
            )
            raise StoreError(self.url, what) from error

        if (there.st_dev, there.st_ino) != self._identity:
            what = "the file was replaced by another one"
            raise StoreError(
                self.url, f"{what}; open the store again, or put the first one back"
            )

        if is_writing:
            self._check_links(there)
        elif self._medium is not None:
            self._check_medium(there)

    def acquire(self) -> Connection:
        if self._is_closed:
            raise StoreError(self.url, "this store was closed; open it again")

        while True:
            if connections.forking:
                connections.wait_for_fork()

            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._open_connection()

            connection.user = get_ident()
            # A fork that began before that line may not have seen who uses it.
            if not connections.forking or not connections.is_fork_near():
                return connection

            self.release(connection)

    def release(self, connection: Connection) -> None:
        if connection.is_inherited:
            return

        is_one_too_many = len(self._idle) >= _CONNECTIONS_KEPT
        if (
            self._is_closed
            or is_one_too_many
            or not connection.is_reusable
            or is_in_transaction(connection)
        ):
            connection.close()
        else:
            connection.was_used = True
            connection.user = 0
            self._idle.append(connection)

    def reopen(self) -> None:
        """Make the next block open the file with the rights it has now."""
        _close_all(self._idle)
        # SQLite gave -wal and -shm the rights that the file had then.
        for suffix in ("-wal", "-shm"):
            with suppress(OSError):  # it is not there, or another user's
                beside = self._path.with_name(f"{self._path.name}{suffix}")
                rights = stat.S_IMODE(self._path.stat().st_mode)
                if stat.S_IMODE(beside.stat().st_mode) != rights:
                    beside.chmod(rights)

    def reading(self) -> SqliteBlock:
        return SqliteBlock(self, is_writing=False)

    def writing(self) -> SqliteBlock:
        return SqliteBlock(self, is_writing=True)

    def scrub(self) -> None:
        """
        Empty the write-ahead log, which has pages as they were.

        Raises:
            StoreError:
                If others are in the way for longer than *timeout_s*.
        """
        with self._open_bare_block() as block:
            self._empty_log(block)

    def vacuum(self) -> None:
        """Rewrite the file, and empty the write-ahead log; as `scrub`."""
        with SqliteBlock(self, is_writing=True, has_transaction=False) as block:
            block.run("VACUUM")
            self._empty_log(block)

    def _empty_log(self, block: SqliteBlock) -> None:
        self.is_log_begun = False
        if not block.empty_log():
            raise StoreError(
                self.url,
                "what was removed is still in the log, because others have been "
                f"reading or copying {self._path.name}-wal for longer than timeout_s; "
                "try again when they are done",
            )

    def backup(self, path: Path) -> None:
        """Copy the file, as it is at one moment, to *path*, where nothing is."""
        with self._open_bare_block() as block:
            copy_database(self.url, block.connection, path)

    def problems(self) -> list[str]:
        """
        What SQLite itself finds wrong with the file.

        Raises:
            StoreError:
                If it can't be read now, which is not damage of the file.
        """
        try:
            with self._open_bare_block() as block:
                found = block.run("PRAGMA integrity_check").fetchall()
                schema = block.run(_SCHEMA).fetchall()
                numbers = block.run(NUMBERS).fetchall()
        except DamageError as error:
            return [str(error.__cause__ or error.problem)]

        problems = [] if found == [("ok",)] else [str(what) for (what,) in found]
        names = {statement: statement.split()[2] for statement in _CREATE}
        missing = [n for each, n in names.items() if (n, n, each) not in schema]
        if missing:
            what = f"at the tables {', '.join(missing)}"
            problems.append(f"the schema is not what was created, {what}")

        return problems + numbers_problem(*numbers[0])

    # The log

    def begin_log(self, connection: Connection) -> None:
        """
        Let the file and its log have a new generation in common, by which opening
        them knows whether they belong together; copy the log into the file first.

        SQLite would begin a log without one by itself. It is copied as far as readers
        allow; the next look tries again.
        """
        with suppress(sqlite3.Error):  # what was saved is saved
            self._write_mark(connection, is_new=True)
            sql = "PRAGMA wal_checkpoint(PASSIVE)"
            ((is_busy, pages, copied),) = connection.execute(sql).fetchall()
            if not is_busy and pages == copied:
                # The first page of the log that the next save begins.
                self._write_mark(connection, is_new=False)
                self.is_log_begun = True

    @staticmethod
    def _write_mark(connection: Connection, *, is_new: bool) -> None:
        """Write the first page of the file, with a new generation or the same one."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            (mark,) = connection.execute("PRAGMA user_version").fetchone()
            mark = make_mark(SCHEMA_VERSION, mark) if is_new else repeat_mark(mark)
            connection.execute(f"PRAGMA user_version = {mark}")
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise

    def begin_first_log(self, connection: Connection) -> None:
        """Before the first save of a connection: the same, if there is no log yet."""
        if self._log_size() == 0:
            self.begin_log(connection)
        else:
            self.is_log_begun = True

    def count_save(self, connection: Connection, size: int) -> None:
        """After a save of one message of *size* bytes: the same, from time to time."""
        self._unseen_saves += 1 + size // 4096
        if self._unseen_saves >= _SAVES_A_LOOK:
            self.copy_long_log(connection)

    def copy_long_log(self, connection: Connection) -> None:
        """After a save: copy the log into the file where it has become long."""
        self._unseen_saves = 0
        if self._log_size() > _LOG_SIZES[self._options.synchronous]:
            self.begin_log(connection)

    def _log_size(self) -> int:
        try:
            return os.stat(f"{self._file}-wal").st_size  # noqa: PTH116 - as above
        except OSError:
            return 0

    def _open_bare_block(self) -> SqliteBlock:
        return SqliteBlock(self, is_writing=False, has_transaction=False)

    def close(self) -> None:
        self._is_closed = True
        check_process()
        self._closing()


def _close_all(idle: deque[Connection]) -> None:
    while idle:
        with suppress(IndexError):  # another thread took the last one
            idle.pop().close()
