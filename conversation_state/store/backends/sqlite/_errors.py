"""
What SQLite's errors mean, and what to do.
"""

from __future__ import annotations

import sqlite3

from conversation_state.errors import StoreError

__all__ = [
    "CANT_OPEN",
    "DAMAGED",
    "EXPLANATIONS",
    "NO_DATABASE",
    "explain_error",
    "is_inaccessible",
    "is_read_only",
]

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
    """
    The error that users get for one of SQLite's.
    """
    code = getattr(error, "sqlite_errorcode", None)
    why = (EXPLANATIONS.get(code) or EXPLANATIONS.get(code & 0xFF)) if code else None
    return StoreError(url, f"{why} ({error})" if why else str(error))


def is_read_only(error: sqlite3.Error) -> bool:
    """
    Whether SQLite says that a file can't be written.
    """
    return _get_primary_code(error) == sqlite3.SQLITE_READONLY


def is_inaccessible(error: sqlite3.Error) -> bool:
    """
    Whether the file could not be read, whatever is in it.
    """
    return _get_primary_code(error) in _INACCESSIBLE


def _get_primary_code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


_INACCESSIBLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
