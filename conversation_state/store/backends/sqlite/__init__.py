"""
A store in one file, through the standard library's sqlite3.

What lives here: the file and its tables (`_backend`), its connections and what
SQLite's errors mean (`_connection`), blocks of reads and writes, one of them in one
statement (`_block`).
"""

from conversation_state.store.backends.sqlite._backend import (
    SqliteBackend,
    SqliteOptions,
)

__all__ = ["SqliteBackend", "SqliteOptions"]
