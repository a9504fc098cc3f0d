"""
A store in one file, through the standard library's sqlite3.

What lives here: the file and its connections (`_backend`, `_connection`), one
block of reads and writes (`_block`), a save in one statement (`_fast_save`), and
what SQLite's errors mean (`_errors`).
"""

from conversation_state.store.backends.sqlite._backend import (
    SqliteBackend,
    SqliteOptions,
)

__all__ = ["SqliteBackend", "SqliteOptions"]
