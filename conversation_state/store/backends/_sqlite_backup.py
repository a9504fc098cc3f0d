"""Copies of a file: one made while others write, and one that is put back."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from conversation_state.errors import StoreError
from conversation_state.store.backends._sqlite_connection import (
    connections,
    explain_error,
)
from conversation_state.store.backends._sqlite_log import VERSION_MASK, make_mark

# What belongs to a file, by how its name goes on.
SUFFIXES = ("", "-wal", "-shm")

# The bytes that SQLite locks of a file that is open: `SHARED_FIRST` and `SHARED_SIZE`.
# Source: "src/os.h" of SQLite.
_SHARED_LOCK = (510, 0x40000002)


def copy_database(url: str, source: sqlite3.Connection, path: Path) -> None:
    """
    Copy what *source* has, as it is at one moment, to a new file at *path*.

    The file appears there when it is whole and on the disk, for its user alone.

    Raises:
        StoreError:
            If there is a file already, or it can't be written.
    """
    _check_absent(url, path)
    try:
        handle, name = tempfile.mkstemp(".part", f"{path.name}.", path.parent)
    except OSError as error:
        raise StoreError(url, f"no backup can be written there ({error})") from error

    os.close(handle)
    part = Path(name)
    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            # All at once: in steps it would begin again with each save of others.
            source.backup(copy)
            # Another generation: no log of the file's is ever applied to its copy.
            (mark,) = copy.execute("PRAGMA user_version").fetchone()
            copy.execute(f"PRAGMA user_version = {make_mark(mark & VERSION_MASK)}")
            # So that nothing stands beside it, and what opens it next finds it whole.
            copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        _check_absent(url, path)
        part.replace(path)
    except sqlite3.Error as error:
        raise explain_error(url, error) from error
    except OSError as error:
        raise StoreError(url, f"no backup can be written there ({error})") from error
    finally:
        for suffix in SUFFIXES:
            with suppress(OSError):
                part.with_name(f"{part.name}{suffix}").unlink()


def _check_absent(url: str, path: Path) -> None:
    for suffix in SUFFIXES:
        there = path.with_name(f"{path.name}{suffix}")
        if os.path.lexists(there):
            raise StoreError(url, f"{there} is there already; give another path")


def check_unused(url: str, path: Path) -> None:
    """
    Check that no program has a file open; nothing of it is read.

    Raises:
        StoreError:
            If this process or another one has it open.
    """
    what = f"{path} is open; close all stores and programs that use it"
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(url, f"{path} can't be read ({error})") from error

    identity = status.st_dev, status.st_ino
    # First: a file object that is closed releases the locks of this process.
    if connections.is_open(identity):
        raise StoreError(url, what)

    try:
        import fcntl  # noqa: PLC0415 - where files can be renamed while they are open
    except ImportError:
        return

    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *_SHARED_LOCK)
    except BlockingIOError as error:
        raise StoreError(url, what) from error
    except OSError as error:
        raise StoreError(url, f"{path} can't be replaced ({error})") from error


class _Source(Protocol):
    def backup(self, path: Path) -> None: ...


def restore_from(source: _Source, path: Path, *, replace: bool) -> Path | None:
    """
    Put a copy of *source* at *path*; where what was there is kept, if anything was.
    """
    url = f"sqlite:///{path}"
    is_there = any(os.path.lexists(f"{path}{suffix}") for suffix in SUFFIXES)
    if is_there and not replace:
        raise StoreError(
            url,
            "there is a file, or its log; give another path, or replace it "
            "(replace=True, --replace), which keeps it under another name",
        )

    check_unused(url, path)
    # Made whole before anything is renamed.
    copy = path.with_name(f"{path.name}.restored")
    source.backup(copy)
    try:
        if path.exists():
            copy.chmod(path.stat().st_mode & 0o777)

        kept = set_aside(url, path)
        copy.rename(path)
    except OSError as error:
        raise StoreError(url, f"it can't be restored there ({error})") from error
    finally:
        copy.unlink(missing_ok=True)

    return kept


def set_aside(url: str, path: Path) -> Path | None:
    """
    Rename a file, and what belongs to it; its new path, or None if there is none.

    Raises:
        StoreError:
            If it is open, or can't be renamed.
    """
    check_unused(url, path)
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    kept, number = path.with_name(f"{path.name}.replaced-{moment}"), 1
    while any(os.path.lexists(f"{kept}{suffix}") for suffix in SUFFIXES):
        number += 1
        kept = path.with_name(f"{path.name}.replaced-{moment}-{number}")

    is_any = False
    # The log first: without it the file can be opened, the log alone can't.
    for suffix in reversed(SUFFIXES):
        try:
            path.with_name(f"{path.name}{suffix}").rename(f"{kept}{suffix}")
            is_any = True
        except FileNotFoundError:
            pass
        except OSError as error:
            raise StoreError(url, f"{path} can't be renamed ({error})") from error

    return kept if is_any else None
