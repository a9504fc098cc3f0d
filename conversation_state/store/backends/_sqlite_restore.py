"""A backup of a file that is put back, beside what was there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from conversation_state._wording import shorten_text
from conversation_state.errors import StoreError
from conversation_state.store.backends._sqlite import (
    SUFFIXES,
    SqliteBackend,
    SqliteOptions,
    is_open,
)

# The bytes that SQLite locks of a file that is open: `SHARED_FIRST` and `SHARED_SIZE`.
# Source: "src/os.h" of SQLite.
_SHARED_LOCK = (510, 0x40000002)


def restore_from(backup: Path, path: Path, *, replace: bool) -> Path | None:
    """Put a copy of a backup at *path*; where what was there is kept, or None."""
    if not backup.exists():
        raise StoreError(shorten_text(str(backup), 200), "there is no such backup")

    reader = SqliteBackend(str(backup), SqliteOptions(mode="ro"))
    try:
        problems = reader.problems()
        if problems:
            raise StoreError(reader.url, f"the backup is damaged: {problems[0]}")

        return _put_back(reader, path, replace=replace)
    finally:
        reader.close()


def _put_back(source: SqliteBackend, path: Path, *, replace: bool) -> Path | None:
    url = f"sqlite:///{path}"
    is_there = any(os.path.lexists(f"{path}{suffix}") for suffix in SUFFIXES)
    if is_there and not replace:
        raise StoreError(
            url,
            "there is a file, or its log; give another path, or replace it "
            "(replace=True, --replace), which keeps it under another name",
        )

    _check_unused(url, path)
    # Made whole before anything is renamed.
    copy = path.with_name(f"{path.name}.restored")
    source.backup(copy)
    try:
        if path.exists():
            copy.chmod(path.stat().st_mode & 0o777)

        kept = _set_aside(url, path)
        copy.rename(path)
    except OSError as error:
        raise StoreError(url, f"it can't be restored there ({error})") from error
    finally:
        copy.unlink(missing_ok=True)

    return kept


def _check_unused(url: str, path: Path) -> None:
    """Check that no program has a file open; nothing of it is read."""
    what = f"{path} is open; close all stores and programs that use it"
    # First: a file object that is closed releases the locks of this process.
    if is_open(path):
        raise StoreError(url, what)

    try:
        import fcntl  # noqa: PLC0415 - where files can be renamed while they are open
    except ImportError:
        return

    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *_SHARED_LOCK)
    except FileNotFoundError:
        return
    except BlockingIOError as error:
        raise StoreError(url, what) from error
    except OSError as error:
        raise StoreError(url, f"{path} can't be replaced ({error})") from error


def _set_aside(url: str, path: Path) -> Path | None:
    """Rename a file with its log; its new path, or None if the file does not exist."""
    _check_unused(url, path)
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
