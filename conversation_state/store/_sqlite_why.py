"""
Why SQLite refused, and what to do.
"""

from __future__ import annotations

import sqlite3

from conversation_state.errors import StoreError

__all__ = ["CANT_OPEN", "NO_DATABASE", "WHY", "explained"]

NO_DATABASE = "this is no SQLite database; give another path"
CANT_OPEN = (
    "the file can't be opened; look whether its folder is there, and whether this "
    "user may read and write it"
)

# By SQLite's code, or the low byte of it.
WHY = {
    sqlite3.SQLITE_BUSY: (
        "another process has been writing for longer than timeout_s; try again, or "
        "raise it in the URL (?timeout_s=60)"
    ),
    sqlite3.SQLITE_LOCKED: "another connection holds a table; try again",
    sqlite3.SQLITE_READONLY: (
        "it can't be written; give this user the right to write the file and its "
        "folder, or open it with ?mode=ro and only read"
    ),
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_IOERR: (
        "the disk does not do as it is told; look at the system's log, and keep the "
        "store on a local disk"
    ),
    sqlite3.SQLITE_IOERR_WRITE: (
        "the file can't grow: the disk is full, or there is a limit on the size of "
        "files; free some space, or raise it, and try again"
    ),
    sqlite3.SQLITE_CORRUPT: (
        "the file is damaged; copy it away as it is, then let verify() say what is "
        "left, or restore a backup"
    ),
    sqlite3.SQLITE_NOTADB: NO_DATABASE,
    sqlite3.SQLITE_CANTOPEN: CANT_OPEN,
    sqlite3.SQLITE_PERM: "this user may not open the file",
    sqlite3.SQLITE_TOOBIG: "a message is larger than SQLite takes (a billion bytes)",
}


def explained(url: str, error: sqlite3.Error) -> StoreError:
    """
    What users are told of an error of SQLite's.
    """
    code = getattr(error, "sqlite_errorcode", None)
    why = (WHY.get(code) or WHY.get(code & 0xFF)) if code else None
    return StoreError(url, f"{why} ({error})" if why else str(error))
