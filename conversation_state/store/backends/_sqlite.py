"""
The file of a store: its blocks, its connections, its versions and its upkeep.

A block is one transaction. It takes a connection, most recently used first, and gives
it back: so a program of one thread has one, whose statements stay prepared, and readers
wait for no other block. Blocks that write take turns in this process, which is faster
than to wait for SQLite's own lock; that one keeps them apart.

Forks: SQLite's table of POSIX locks is memory of the *process*, about locks that a
child of `os.fork` does not have. Where a file is open at the fork, the child's SQLite
believes for good that it holds the locks on it: saves would be acknowledged and lost.
And if another thread is inside SQLite then, its mutexes stay locked in the child. So
idle connections are closed before a fork, and both processes connect again when they
need to. If one was in use nevertheless, the child keeps it open, because to close it
could overwrite what others have saved since, and refuses to use any file.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
import stat
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from urllib.parse import unquote
from weakref import finalize, ref

from conversation_state.errors import StoreError
from conversation_state.store.backend import ConflictError, DamageError, Key, Row
from conversation_state.store.backends._blocks import (
    BLOCK_ABANDONED,
    BlockTurn,
    LiveObjects,
    renew_all,
    renew_in_children,
)
from conversation_state.store.backends._sql import (
    NUMBERS,
    STEPS,
    Dialect,
    Options,
    SqlBlock,
    first,
    is_seconds,
    numbers_problem,
    parse_options,
    second,
)
from conversation_state.store.backends._sqlite_log import (
    VERSION_MASK,
    has_pages,
    is_log_of,
    make_mark,
    repeat_mark,
)
from conversation_state.store.schema import SCHEMA_VERSION, TABLES

SQLITE = Dialect(
    "?", {"integer": "INTEGER", "text": "TEXT", "bytes": "BLOB"}, small=" WITHOUT ROWID"
)

_ADD = {table: SQLITE.add(table) for table in TABLES}

# "cvst": marks a database as one of ours, also for `file`.
APPLICATION_ID = 0x63767374

# How many idle connections are kept.
_KEPT = 8

# How many bytes the write-ahead log gets before it is copied into the file.
# Consecutive saves rewrite mostly the same pages, so a longer one is copied, and
# synced, less often. Where each save is synced, that gains nothing, and a log that is
# soon written from its start again is: to sync a file that grows takes longer.
_PAGE = 4120
_LOG_SIZES = {"normal": 4000 * _PAGE, "full": 250 * _PAGE}


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
_SCHEMA = "SELECT name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"
# CREATE TABLE name, and CREATE INDEX name ON table.
_WORDS = [(statement.split(), statement) for statement in _CREATE]
_EXPECTED = [
    (words[2], words[4 if words[1] == "INDEX" else 2], statement)
    for words, statement in _WORDS
]


_FOREIGN_LOG = (
    "the log beside the file, {name}-wal, belongs to another file: a backup was copied "
    "here while the log of what it replaced was left; nothing was changed. Move "
    "{name}-wal and {name}-shm away to open the file without them, or put the file "
    "back that they belong to; `conversation-state restore` does this right"
)
_LOST_FILE = (
    "the log {name}-wal is here, and the file it belongs to is missing or empty: the "
    "file was moved or removed without its log, which may have the newest saves; "
    "nothing was changed. Move {name}-wal and {name}-shm to the file, and name them as "
    "it is named now; or move them away to begin a new store here"
)
_UNREADABLE_LOG = (
    "a log is beside the file, and it can't be read where nothing can be written; copy "
    "the file and the log (-wal) to a folder that this user can write, and open "
    "the copy"
)
_NO_BACKUP = "no backup can be written there ({})"
_LOG_REMAINS = (
    "what was removed is still in the log, because others have been reading or copying "
    "{}-wal for longer than timeout_s; try again when they are done"
)
_MAGIC = b"SQLite format 3\0"
# The size of the smallest database, of one page.
_SMALLEST_FILE = 512

# What belongs to a file, by how its name goes on.
SUFFIXES = ("", "-wal", "-shm")


# Errors

_FORKED = (
    "this process was forked while a store was in use, and what it saves could be "
    "lost; fork while no thread uses a store, or start the process with the spawn "
    "method and open the store there"
)
_BUSY_THREAD = (
    "another thread of this program has been writing for longer than timeout_s; try "
    "again, or raise it in the URL (?timeout_s=60)"
)
_NO_DATABASE = "this is no SQLite database; give another path"
_NO_FILE = (
    "there is no such file, and ?mode=ro creates none; give the path of a store, or "
    "open it without ?mode=ro to begin one"
)
_CANT_OPEN = (
    "the file can't be opened; look whether it and its folder are there, whether this "
    "user may read and write them (?mode=ro only reads, from a read-only medium, too), "
    "and whether the process has too many files open"
)
_DAMAGED = (
    "the file is damaged; copy it as it is, then restore a backup, or see what "
    "verify() finds if the file can be opened"
)

# By SQLite's code, or the low byte of it.
_EXPLANATIONS = {
    sqlite3.SQLITE_BUSY: (
        "another process has been writing for longer than timeout_s; try again, or "
        "raise it in the URL (?timeout_s=60)"
    ),
    sqlite3.SQLITE_LOCKED: "another connection holds a table; try again",
    sqlite3.SQLITE_READONLY: (
        "it can't be written; open it without ?mode=ro, and give this user the right "
        "to write the file, those beside it (-wal, -shm) and its folder; or only read"
    ),
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_IOERR: (
        "disk I/O error; look at the system's log, and keep the store on a local disk"
    ),
    sqlite3.SQLITE_IOERR_WRITE: (
        "the file can't grow: the disk is full, or there is a limit on the size of "
        "files; free some space, or raise it, and try again"
    ),
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _NO_DATABASE,
    sqlite3.SQLITE_CANTOPEN: _CANT_OPEN,
    sqlite3.SQLITE_PERM: "this user may not open the file",
    sqlite3.SQLITE_TOOBIG: "a message is larger than SQLite takes (a billion bytes)",
}


def explain_error(url: str, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    why = (_EXPLANATIONS.get(code) or _EXPLANATIONS.get(code & 0xFF)) if code else None
    make = StoreError if get_primary_code(error) in _INACCESSIBLE else DamageError
    return make(url, f"{why} ({error})" if why else str(error))


def get_primary_code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


# The file could not be read, whatever is in it.
_INACCESSIBLE = {
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


# Connections, and what a fork does with them


class _Connection(sqlite3.Connection):
    # The file, by its path without links; "" once it is closed.
    file = ""
    # An earlier block gave it back.
    was_used = False
    # The statements of `prepare_addition`, by its arguments.
    additions: Mapping[Any, str] = MappingProxyType({})

    def prepare_addition(self, *shape: Any) -> str:
        """The statement of `_make_addition`."""
        view, trigger, sql = _make_addition(*shape)
        self.execute(view)
        self.execute(trigger)
        self.additions = {**self.additions, shape: sql}
        return sql


# Weak references without a callback: an interrupt that came in one would be lost.
_connections: list[ref[_Connection]] = []
_backends = LiveObjects()
# What was open when this process was forked.
_inherited: list[_Connection] = []


def _list_open() -> list[_Connection]:
    found = [reference() for reference in _connections]
    return [each for each in found if each is not None and each.file]


def is_open(path: Path) -> bool:
    """Whether this process has a file open."""
    file = os.path.realpath(path)
    return any(connection.file == file for connection in _list_open())


def _close_before_fork() -> None:
    for backend in _backends:
        backend.close_idle()


def _keep_inherited() -> None:
    for connection in _list_open():
        _inherited.append(connection)
        with suppress(
            ImportError, AttributeError
        ):  # another Python: the list has to do
            import ctypes  # noqa: PLC0415 - needed in such a child only

            # Else it is closed at exit.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))

    _connections.clear()


def _close(connection: _Connection) -> None:
    connection.close()
    connection.file = ""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_before_fork)


# Blocks

# IMMEDIATE, since SQLite would refuse at once, without waiting, to let a transaction
# write that began by reading, if others wrote meanwhile.
_READ, _WRITE = "BEGIN", "BEGIN IMMEDIATE"


class SqliteBlock(SqlBlock):
    """
    What a thread does in one transaction; no connection once it ended or was abandoned.
    """

    dialect = SQLITE
    __slots__ = ("_url", "connection", "is_reusable")

    def __init__(self, url: str) -> None:
        self._url = url
        self.connection: Any = None
        # A connection that was interrupted, or can't be rolled back, is closed.
        self.is_reusable = False

    def abandon(self) -> None:
        """Roll back, where another block of the same thread began."""
        connection, self.connection = self.connection, None
        if connection is not None:
            _close(connection)

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        connection = self.connection
        if connection is None or _inherited:
            why = _FORKED if _inherited else BLOCK_ABANDONED
            raise StoreError(self._url, why)

        try:
            return connection.execute(sql, parameters)
        except UnicodeDecodeError as error:
            # In SQLite's own message, which cites the schema.
            raise DamageError(self._url, _DAMAGED) from error

    def add(
        self,
        table: str,
        rows: Sequence[Row],
        *,
        if_exists: Sequence[tuple[str, Key]] = (),
        if_absent: Sequence[tuple[str, Key]] = (),
    ) -> None:
        if if_exists or if_absent:
            others = tuple(map(first, if_exists)), tuple(map(first, if_absent))
            keys = [*map(second, if_exists), *map(second, if_absent)]
            if self.run(SQLITE.check(*others), keys).fetchone() != (1,):
                raise ConflictError(table)

        try:
            sql = SQLITE.add(table)
            self.run(sql, rows[0])
            if len(rows) > 1:
                self.connection.executemany(sql, rows[1:])
        except sqlite3.IntegrityError as error:
            raise ConflictError(table) from error

    def set(self, table: str, key: Key, **values: Any) -> None:
        self.run(SQLITE.set(table, tuple(values)), (*values.values(), key))


@cache
def _make_addition(
    condition: tuple[tuple[str, ...], tuple[str, ...]], *tables: str
) -> tuple[str, str, str]:
    """
    What adds a row to each of *tables* in one statement, on a *condition* as
    `SqliteBackend.add_at_once` has it: a view that one connection has, its trigger, and
    the statement, which takes the keys and then the rows.

    It takes a seventh less of SQLite's time than a transaction around a statement for
    each.
    """
    met = SQLITE.check(*condition).removeprefix("SELECT ")
    check = f"SELECT RAISE(ABORT, 'not met') WHERE NOT ({met})"
    number = count()
    steps = "; ".join([check, *map(SQLITE.add, tables), "END"])
    steps = re.sub(r"\?", lambda _: f"NEW.c{next(number)}", steps)
    name = "_".join(["add", *condition[0], "not", *condition[1], "to", *tables])
    size = next(number)
    columns = ", ".join([f"0 AS c{at}" for at in range(size)])
    trigger = (
        f"CREATE TEMP TRIGGER IF NOT EXISTS {name}_row INSTEAD OF INSERT ON {name}"
    )
    return (
        f"CREATE TEMP VIEW IF NOT EXISTS {name} AS SELECT {columns}",
        f"{trigger} BEGIN {steps}",
        f"INSERT INTO {name} VALUES ({', '.join('?' * size)})",  # noqa: S608 - names of tables
    )


class SqliteBackend:
    """
    Tables in a file.

    Durable in WAL mode: what was saved survives the process being killed at
    any moment. With ``synchronous=normal`` a power cut may take the newest
    saves with it, and never damages older ones; with ``full`` it takes none.

    Raises:
        StoreError: If the file can't be opened, or is not one of ours, or was made by a
            newer version.
    """

    def __init__(self, path: str, options: SqliteOptions, *, url: str = "") -> None:
        self.url = url or f"sqlite:///{path}"
        self._timeout_s = options.timeout_s
        self._may_write = options.mode != "ro"
        try:
            # SQLite has the log beside what a link leads to.
            self._path = Path(os.path.realpath(path))
        except ValueError as error:
            raise StoreError(self.url, f"{_CANT_OPEN} ({error})") from error

        self._file = str(self._path)
        self._options = options
        self._is_closed = False
        self._writes = self._next_look = 0
        self._open_pool()
        _backends.add(self)
        renew_in_children(self)
        self._check_file()
        if not is_log_of(self._path):
            what = _FOREIGN_LOG if has_pages(self._path) else _LOST_FILE
            raise StoreError(self.url, what.format(name=self._path.name))

        if not self._may_write and not self._path.exists():
            raise StoreError(self.url, _NO_FILE)

        self._look_at_medium()
        if self._may_write:
            _check_folder(self.url, self._path)
            # SQLite gives the two files beside it the same rights.
            with suppress(OSError):  # it is there, or SQLite says what is wrong
                flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
                rights = 0o600 if options.access == "private" else 0o644
                os.close(os.open(self._file, flags, rights))

        try:
            with self._open_block("") as block:
                self._prepare_schema(block.connection)
        except BaseException as error:
            self.close()
            cause = error.__cause__
            if (
                isinstance(cause, sqlite3.Error)
                and not self._may_write
                and self._log_size()
                and self._is_read_only_folder()
            ):
                raise StoreError(self.url, f"{_UNREADABLE_LOG} ({cause})") from cause

            if isinstance(error, UnicodeDecodeError):
                # In SQLite's own message, which cites the schema.
                raise DamageError(self.url, _DAMAGED) from error

            raise

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

    # Opening

    def _check_file(self) -> None:
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise StoreError(self.url, f"{_CANT_OPEN} ({error})") from error

        if not stat.S_ISREG(there.st_mode):
            is_folder = stat.S_ISDIR(there.st_mode)
            what = "a directory" if is_folder else "a device, a pipe or a socket"
            raise StoreError(self.url, f"this is {what}; give the path of a file")

        # SQLite checks larger files. Closing a file releases all locks that the
        # process has on it, those of other stores too, on POSIX systems.
        if 0 < there.st_size < _SMALLEST_FILE:
            # SQLite itself takes a file of a few bytes for an empty one.
            try:
                start = self._path.read_bytes()
            except OSError as error:
                raise StoreError(self.url, f"{_CANT_OPEN} ({error})") from error

            is_ours = start.startswith(_MAGIC)
            raise StoreError(self.url, _DAMAGED if is_ours else _NO_DATABASE)

    def _is_read_only_folder(self) -> bool:
        return not os.access(self._path.parent, os.W_OK)

    def _look_at_medium(self) -> None:
        """
        Note whether the file is in a folder where SQLite can't create its log: it
        reads there only if the file is opened as immutable. While no program has it
        open, it doesn't change.
        """
        self._medium: tuple[int, int] | None = None
        if not self._may_write and not self._log_size() and self._is_read_only_folder():
            with suppress(OSError):
                there = self._path.stat()
                self._medium = there.st_mtime_ns, there.st_size

    def _check_medium(self) -> None:
        # Somebody who may write the file does.
        with suppress(OSError):  # SQLite says what is wrong
            there = self._path.stat()
            if self._log_size() or self._medium != (there.st_mtime_ns, there.st_size):
                self.close_idle()
                self._look_at_medium()

    def _prepare_schema(self, connection: sqlite3.Connection) -> None:
        """Make sure that this is a file of ours, and of this version's schema."""
        # In one transaction: another process may make the tables between two looks.
        connection.execute("BEGIN")
        try:
            version = self._read_version(connection)
        finally:
            connection.rollback()

        if version < SCHEMA_VERSION:
            if not self._may_write:
                what = "nothing has been saved there, or only by an older version"
                raise StoreError(self.url, f"{what}; open it once without ?mode=ro")

            self._enable_wal(connection)
            connection.execute("BEGIN IMMEDIATE")
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

    def _enable_wal(self, connection: sqlite3.Connection) -> None:
        until = time.monotonic() + self._timeout_s
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
            except sqlite3.OperationalError as error:
                # Two processes that ask this of a new file at one moment are both
                # refused at once, since waiting would be a deadlock.
                is_busy = get_primary_code(error) == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > until:
                    raise

                time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - no secret
            else:
                return

    def _read_version(self, connection: sqlite3.Connection) -> int:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (mark,) = connection.execute("PRAGMA user_version").fetchone()
        version = mark & VERSION_MASK
        if application != APPLICATION_ID:
            sql = "SELECT count(*) FROM sqlite_master"
            if application or mark or connection.execute(sql).fetchone() != (0,):
                what = "this database belongs to another program; give another path"
                raise StoreError(self.url, what)

        if version > SCHEMA_VERSION:
            raise StoreError(
                self.url,
                f"this file has schema {version}, and this version of "
                f"conversation_state knows up to {SCHEMA_VERSION}; upgrade it",
            )

        return int(version)

    # Connections

    def _open_pool(self) -> None:
        self._process = os.getpid()
        self._idle: deque[_Connection] = deque()
        # Of blocks that write.
        self._turn = BlockTurn()
        # Closes what is open, when the store is gone or the program ends.
        self._closing = finalize(self, _close_all, self._idle, self._process)

    def renew(self) -> None:
        """Leave the parent's connections to it, in a child of `os.fork`."""
        _keep_inherited()
        self._closing.detach()
        self._open_pool()

    def _acquire(self) -> _Connection:
        """An idle connection, or a new one."""
        # Servers that fork in C, such as uWSGI, don't always call Python's hooks.
        if self._process != os.getpid():
            renew_all()

        if _inherited:
            raise StoreError(self.url, _FORKED)

        if self._is_closed:
            raise StoreError(self.url, "this store was closed; open it again")

        if self._medium is not None:
            self._check_medium()

        try:
            return self._idle.pop()
        except IndexError:
            return self._open_connection()

    def _open_connection(self) -> _Connection:
        # Where all others were closed meanwhile, there is no log any more.
        self._writes = self._next_look = 0
        # Not "rwc": a file that was moved since is not begun again beside its log.
        mode = "rw" if self._may_write else "ro"
        if self._medium is not None:
            mode += "&immutable=1"

        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode={mode}",
            uri=True,
            timeout=self._timeout_s,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
        )
        connection.file = self._file
        _connections[:] = [ref(each) for each in (*_list_open(), connection)]
        try:
            synchronous = self._options.synchronous
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            # See `_check_log`.
            connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
            # What is removed is overwritten: costs nothing where all is added.
            connection.execute("PRAGMA secure_delete = ON").fetchall()
        except BaseException:
            _close(connection)
            raise

        return connection

    def close_idle(self) -> None:
        _close_all(self._idle, self._process)

    def reopen(self) -> None:
        """Make the next block open the file with the rights it has now."""
        self.close_idle()
        # SQLite gave -wal and -shm the rights that the file had then.
        for suffix in SUFFIXES[1:]:
            with suppress(OSError):  # it is not there, or another user's
                beside = self._path.with_name(f"{self._path.name}{suffix}")
                rights = stat.S_IMODE(self._path.stat().st_mode)
                if stat.S_IMODE(beside.stat().st_mode) != rights:
                    beside.chmod(rights)

    def close(self) -> None:
        self._is_closed = True
        if self._process != os.getpid():
            renew_all()

        self._closing()

    # Blocks

    def reading(self) -> AbstractContextManager[SqliteBlock]:
        return self._open_block(_READ)

    def writing(self) -> AbstractContextManager[SqliteBlock]:
        return self._open_block(_WRITE)

    # A generator, because it is closed when it is dropped: an interrupt may come as a
    # method begins, before the first line of an `__exit__`.
    @contextmanager
    def _open_block(self, begin: str) -> Iterator[SqliteBlock]:
        """A block whose transaction begins with *begin*; "" for one without."""
        block, turn = SqliteBlock(self.url), self._turn if begin == _WRITE else None
        if turn is not None and not turn.begin(block, self._timeout_s):
            raise StoreError(self.url, _BUSY_THREAD)

        try:
            block.connection = connection = self._acquire()
            if turn is not None:
                self._check_log(connection)

            if begin:
                connection.execute(begin)

            yield block
            if begin:
                block.run("COMMIT")

            block.is_reusable = True
        except sqlite3.Error as error:
            self._roll_back(block)
            raise self._explain_error(error, block) from error
        except Exception:
            self._roll_back(block)
            raise
        finally:
            try:
                self._end_block(block, turn)
            finally:
                self._end_block(block, turn)

    def add_at_once(  # noqa: C901 - all of a transaction is in sight
        self,
        condition: tuple[tuple[str, ...], tuple[str, ...]],
        keys: Sequence[Key],
        tables: Mapping[str, Sequence[Row]],
    ) -> bool:
        """
        Add rows in one transaction, if there are rows with *keys* in the tables that
        *condition* has first, and none in those that it has second; False if that is
        not so, or if a key is taken, and nothing was added.

        What a block does, in one function, and in one statement if there is one row for
        each table: a block alone takes a third of a save.
        """
        values, more = [*keys], {}
        for table, rows in tables.items():
            values += rows[0]
            if len(rows) > 1:
                more[table] = rows[1:]

        block, turn = SqliteBlock(self.url), self._turn
        if not turn.begin(block, self._timeout_s):
            raise StoreError(self.url, _BUSY_THREAD)

        connection = None
        try:
            block.connection = connection = self._acquire()
            self._check_log(connection)
            sql = connection.additions.get((condition, *tables))
            sql = sql or connection.prepare_addition(condition, *tables)
            if more:
                connection.execute(_WRITE)

            connection.execute(sql, values)
            for table, rows in more.items():
                connection.executemany(_ADD[table], rows)

            if more:
                connection.execute("COMMIT")

            block.is_reusable = True
        except sqlite3.Error as error:
            if block.connection is None and connection is not None:
                raise StoreError(self.url, BLOCK_ABANDONED) from error

            self._roll_back(block)
            if not isinstance(error, sqlite3.IntegrityError):
                explained = self._explain_error(error, block)
                if not isinstance(explained, ConflictError):
                    raise explained from error

            return False
        finally:
            try:
                self._end_block(block, turn)
            finally:
                self._end_block(block, turn)

        return True

    def _end_block(self, block: SqliteBlock, turn: BlockTurn | None) -> None:
        """
        The end of a block, and of its turn if it writes: its connection is kept for the
        next one, or closed. To be called twice: see `BlockTurn.end`.
        """
        try:
            connection = block.connection
            if connection is None or _inherited:
                pass
            elif block.is_reusable and not self._is_closed and len(self._idle) < _KEPT:
                connection.was_used = True
                block.connection = None
                self._idle.append(connection)
            else:
                _close(connection)
        finally:
            if turn is not None:
                turn.end(block)

    def _roll_back(self, block: SqliteBlock) -> None:
        if block.connection is not None and not _inherited:
            with suppress(sqlite3.Error):
                # SQLite itself takes back what a full disk interrupted.
                block.connection.rollback()
                block.is_reusable = True

    def _explain_error(self, error: sqlite3.Error, block: SqliteBlock) -> Exception:
        # SQLite notices once, when it opens a file, that it may not be written.
        connection = block.connection
        is_read_only = get_primary_code(error) == sqlite3.SQLITE_READONLY
        if is_read_only and self._may_write and connection and connection.was_used:
            block.is_reusable = False
            self.reopen()
            return ConflictError("opened when it was not writable")

        return explain_error(self.url, error)

    def scrub(self) -> None:
        """Empty the write-ahead log, which has pages as they were."""
        self._next_look = 0
        until = time.monotonic() + self._timeout_s
        with self._open_block("") as block:
            sql = "PRAGMA wal_checkpoint(TRUNCATE)"
            # SQLite waits for readers and writers by itself, but not for another
            # process that does the same.
            while True:
                if not block.run(sql).fetchone()[0]:
                    return

                if time.monotonic() >= until:
                    raise StoreError(self.url, _LOG_REMAINS.format(self._path.name))

                time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - no secret

    def vacuum(self) -> None:
        """Rewrite the file, and empty the write-ahead log."""
        with self._open_block("") as block:
            block.run("VACUUM")

        self.scrub()

    def backup(self, path: Path) -> None:
        """Copy the file as it is at one moment: whole and on the disk, or not there."""
        _check_absent(self.url, path)
        _check_folder(self.url, path)
        try:
            handle, name = tempfile.mkstemp(".part", f"{path.name}.", path.parent)
        except OSError as error:
            raise StoreError(self.url, _NO_BACKUP.format(error)) from error

        os.close(handle)
        part = Path(name)
        try:
            with (
                self._open_block("") as block,
                closing(sqlite3.connect(part, isolation_level=None)) as copy,
            ):
                # All at once: in steps it would begin again with each save of others.
                block.connection.backup(copy)
                # Another generation: no log of the file's is ever applied to its copy.
                (mark,) = copy.execute("PRAGMA user_version").fetchone()
                copy.execute(f"PRAGMA user_version = {make_mark(mark & VERSION_MASK)}")
                # So that nothing stands beside it, and it is whole when it is opened.
                copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

            _check_absent(self.url, path)
            part.replace(path)
        except OSError as error:
            raise StoreError(self.url, _NO_BACKUP.format(error)) from error
        finally:
            for suffix in SUFFIXES:
                with suppress(OSError):
                    part.with_name(f"{part.name}{suffix}").unlink()

    def problems(self) -> list[str]:
        """What SQLite itself finds wrong with the file."""
        try:
            with self._open_block("") as block:
                found = block.run("PRAGMA integrity_check").fetchall()
                schema = block.run(_SCHEMA).fetchall()
                numbers = block.run(NUMBERS).fetchall()
        except DamageError as error:
            return [str(error.__cause__ or error.problem)]

        problems = [] if found == [("ok",)] else [str(what) for (what,) in found]
        missing = [n for n, *rest in _EXPECTED if (n, *rest) not in schema]
        if missing:
            what = f"at the tables {', '.join(missing)}"
            problems.append(f"the schema is not what was created, {what}")

        return problems + numbers_problem(*numbers[0])

    # The log

    def _check_log(self, connection: sqlite3.Connection) -> None:
        """
        Before a write: begin a log where there is none, or it has become long.

        SQLite doesn't cut its file off. So what comes after a long one is not looked at
        until so much was written again, as far as can be known here.
        """
        self._writes += 1
        if self._writes < self._next_look:
            return

        most, size = _LOG_SIZES[self._options.synchronous], self._log_size()
        if 0 < size <= most:
            # A look takes 3 % of a save.
            self._next_look = self._writes + (8 if size < most // 2 else 1)
            return

        pages = self._begin_log(connection)
        is_long = size > most and pages
        self._next_look = self._writes * most // (pages * _PAGE) if is_long else 1
        self._writes = 0

    def _begin_log(self, connection: sqlite3.Connection) -> int:
        """
        Let the file and its log have a new generation in common, by which opening
        them knows whether they belong together; copy the log into the file first.

        How many pages it had. SQLite would begin a log without a generation by itself.
        It is copied as far as readers allow; the next look tries again.
        """
        pages = 0
        with suppress(sqlite3.Error):  # what was saved is saved
            self._write_mark(connection, is_new=True)
            sql = "PRAGMA wal_checkpoint(PASSIVE)"
            ((is_busy, there, copied),) = connection.execute(sql).fetchall()
            if not is_busy and there == copied:
                # The first page of the log that the next save begins.
                self._write_mark(connection, is_new=False)
                pages = there

        return pages

    @staticmethod
    def _write_mark(connection: sqlite3.Connection, *, is_new: bool) -> None:
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

    def _log_size(self) -> int:
        try:
            return os.stat(f"{self._file}-wal").st_size  # noqa: PTH116 - a third of the time
        except OSError:
            return 0


def _close_all(idle: deque[_Connection], process: int) -> None:
    while idle and process == os.getpid():
        with suppress(IndexError):  # another thread took the last one
            _close(idle.pop())


def _check_folder(url: str, path: Path) -> None:
    try:
        path.parent.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(url, f"there is no folder {str(path.parent)!r}") from None
    except OSError:
        pass  # opening the file raises an error with the reason


def _check_absent(url: str, path: Path) -> None:
    for suffix in SUFFIXES:
        there = path.with_name(f"{path.name}{suffix}")
        if os.path.lexists(there):
            raise StoreError(url, f"{there} is there already; give another path")
