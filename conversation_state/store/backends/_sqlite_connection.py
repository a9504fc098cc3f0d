"""
SQLite's connections, and what a fork does with them.

SQLite's table of POSIX locks is state of the *process*: memory, which a child of
`os.fork` inherits, about locks in the kernel, which it does not. Where a file is
open at the fork, the child's SQLite believes for good that it holds the locks on
it, whichever connection uses it, also one that the child opens itself. It takes
none, and when the parent closes the file, it removes the write-ahead log that
the child goes on writing to: saves are acknowledged and lost. If another thread
is inside SQLite at that moment, mutexes of SQLite's stay locked in the child,
which hangs in its first call.

So before a fork every idle connection is closed, and those in use are waited for,
while no block acquires another one. The child then inherits nothing
of SQLite's, and both processes connect again when they need to. What is open
nevertheless, because its use took too long or because the forking thread itself
is in the middle of it, is refused in the child before it saves anything; and so
is any store if another thread was inside SQLite.

The set of open connections is the only record, and it is never too short: a
connection is added before it opens, and is removed when it is closed. No lock is
held at any moment, so that no child inherits one, and none stays locked.

What can't be seen here are connections that other code has to the same file.
On Linux the list of open files shows them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any
from weakref import ref

from conversation_state.errors import StoreError
from conversation_state.store.backend import DamageError
from conversation_state.store.backends._blocks import renew_in_children

# How long a fork waits for other threads' blocks, which take milliseconds unless
# they read or rewrite a whole store.
PATIENCE_S = 5.0

_POLL_S = 0.001

FileId = tuple[int, int]


class Connection(sqlite3.Connection):
    """A connection that is in the set of open ones as long as SQLite has it."""

    # The view that a save in one statement uses.
    has_view = False
    # The thread that uses it; 0 if none does.
    user = 0
    # Where it is when it is not in use.
    pool: deque[Any] | None = None
    # The device and inode of its file; None until that is known.
    file_id: FileId | None = None
    # A parent process opened it: it must not be used, nor closed, in this one.
    is_inherited = False
    # It came back from an earlier block.
    was_used = False
    # It may go back to where others get it.
    is_reusable = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.user = get_ident()
        # The interpreter takes it out when all of it is gone.
        self._reference: ref[Any] = ref(self, connections.references.discard)
        connections.references.add(self._reference)
        super().__init__(*arguments, **options)

    def close(self) -> None:
        if not self.is_inherited:
            super().close()
            connections.references.discard(self._reference)

    def __del__(self) -> None:
        # It is closed here, while it is still in the set: closing the last connection
        # to a file copies its log, which takes time, and a fork may come meanwhile.
        with suppress(sqlite3.ProgrammingError):  # it never opened
            self.close()


class _Connections:
    """
    The open connections of this process, and what a fork left of its parent's.

    Attributes:
        references: A weak reference to each connection that is or may be open.

        forking: The threads that wait to fork, and when each gives up.
    """

    def __init__(self) -> None:
        self.references: set[ref[Connection]] = set()
        self.forking: dict[int, float] = {}
        self._inherited: list[Connection] = []
        self._refused: set[FileId | None] = set()
        self._is_every_file_refused = False
        self._foreign: frozenset[str] = frozenset()
        renew_in_children(self)

    def _list_open(self) -> list[Connection]:
        found = [reference() for reference in list(self.references)]
        return [connection for connection in found if connection is not None]

    def is_open(self, file_id: FileId) -> bool:
        """Whether this process has, or may have, that file open."""
        return any(each.file_id in {None, file_id} for each in self._list_open())

    # Around a fork

    def is_fork_near(self) -> bool:
        # The wait is limited, because an interrupt may have kept the fork from
        # completing.
        now, me = time.monotonic(), get_ident()
        forking = list(self.forking.items())
        return any(thread != me and now < until for thread, until in forking)

    def wait_for_fork(self) -> None:
        while self.is_fork_near():
            time.sleep(_POLL_S)

    def close_before_fork(self) -> None:
        """Close what is not in use, and wait a while for what other threads use."""
        if not self.references:
            return

        me, until = get_ident(), time.monotonic() + PATIENCE_S
        self.forking[me] = until + PATIENCE_S
        while True:
            in_use = []
            for connection in self._list_open():
                if _take_from_pool(connection):
                    connection.close()
                else:
                    in_use.append(connection)

            # What this thread itself uses stays in use: nothing to wait for.
            is_mine = any(each.user == me for each in in_use)
            if not in_use or is_mine or time.monotonic() >= until:
                return

            time.sleep(_POLL_S)

    def resume_after_fork(self) -> None:
        self.forking.pop(get_ident(), None)

    def renew(self) -> None:
        """Note in the child what was open in the parent."""
        me = get_ident()
        for connection in self._list_open():
            connection.is_inherited = True
            is_idle = _take_from_pool(connection)
            if connection.file_id is None or not (is_idle or connection.user == me):
                self._is_every_file_refused = True

            self._refused.add(connection.file_id)
            # An inherited connection is kept from being closed, even at exit: that
            # could copy a log that the parent has removed since.
            self._inherited.append(connection)
            try:
                import ctypes  # noqa: PLC0415 - needed in such a child only

                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
            except (ImportError, AttributeError):
                pass  # another implementation of Python: the list has to do

        self.references.clear()
        self.forking.clear()
        self._foreign |= _list_shared_memory()

    def check_may_open(self, url: str, path: str, file_id: FileId | None) -> None:
        """
        Check that a file may be opened in this process.

        Raises:
            StoreError:
                If a parent had it open when this process was forked.
        """
        if self._is_every_file_refused or file_id in self._refused:
            raise StoreError(url, FORKED)

        if self._foreign and f"{os.path.realpath(path)}-shm" in self._foreign:
            raise StoreError(url, _FOREIGN)


FORKED = (
    "this process was forked while the store was in use, and what it saves could be "
    "lost; fork while no thread uses a store, or start the process with the spawn "
    "method and open the store there"
)
_FOREIGN = (
    "this process was forked while other code had an SQLite connection to this file, "
    "and what it saves could be lost; close that connection before the fork, or start "
    "the process with the spawn method and open the store there"
)


def _take_from_pool(connection: Connection) -> bool:
    """Whether a connection was idle; then no thread gets it any more."""
    if connection.pool is None:
        return False

    try:
        connection.pool.remove(connection)
    except ValueError:
        return False

    return True


_FILE_DESCRIPTORS = Path("/proc/self/fd")


def _list_shared_memory() -> frozenset[str]:
    """
    The files with SQLite's shared memory that this process has open, where the
    system lists what is open; nothing elsewhere.
    """
    names = set()
    try:
        for file in _FILE_DESCRIPTORS.iterdir():
            # The listed directory itself is not open any more.
            with suppress(OSError):
                names.add(str(file.readlink()))
    except OSError:
        return frozenset()

    names = {name.removesuffix(" (deleted)") for name in names}
    return frozenset(name for name in names if name.endswith("-shm"))


# All open connections of the process, which are closed before a fork.
connections = _Connections()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=connections.close_before_fork,
        after_in_parent=connections.resume_after_fork,
    )


NO_DATABASE = "this is no SQLite database; give another path"
CANT_OPEN = (
    "the file can't be opened; look whether its folder is there, whether this user "
    "may read and write it, and whether the process has too many files open"
)
DAMAGED = (
    "the file is damaged; copy it as it is, then call verify() to see what is left, "
    "or restore a backup"
)

# By SQLite's code, or the low byte of it.
EXPLANATIONS = {
    sqlite3.SQLITE_BUSY: (
        "another process has been writing for longer than timeout_s; try again, or "
        "raise it in the URL (?timeout_s=60)"
    ),
    sqlite3.SQLITE_LOCKED: "another connection holds a table; try again",
    sqlite3.SQLITE_READONLY: (
        "it can't be written; give this user the right to write the file, those "
        "beside it (-wal, -shm) and its folder, or open it with ?mode=ro and only read"
    ),
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_IOERR: (
        "disk I/O error; look at the system's log, and keep the store on a local disk"
    ),
    sqlite3.SQLITE_IOERR_WRITE: (
        "the file can't grow: the disk is full, or there is a limit on the size of "
        "files; free some space, or raise it, and try again"
    ),
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: NO_DATABASE,
    sqlite3.SQLITE_CANTOPEN: CANT_OPEN,
    sqlite3.SQLITE_PERM: "this user may not open the file",
    sqlite3.SQLITE_TOOBIG: "a message is larger than SQLite takes (a billion bytes)",
}


def explain_error(url: str, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", None)
    why = (EXPLANATIONS.get(code) or EXPLANATIONS.get(code & 0xFF)) if code else None
    make = StoreError if get_primary_code(error) in INACCESSIBLE else DamageError
    return make(url, f"{why} ({error})" if why else str(error))


def get_primary_code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


# The file could not be read, whatever is in it.
INACCESSIBLE = {
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
