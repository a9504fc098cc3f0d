"""
Whether a write-ahead log belongs to the file that it stands beside.

SQLite knows a log by its name alone: it applies the log of a killed program to
whatever file has been copied there since. So the header of the file has a generation,
a number made at random whenever a log begins, and the generation before it. What the
log has as the first page of the file says which generation it was written on: the
file has that one, or one that the log brought. A file that was copied at another time
has another one. It does not matter how many programs begin a log at one moment, or
where one of them is killed, since each reads the generation that it replaces in the
transaction that replaces it.

Beside no file, or an empty one, SQLite removes a log, with the saves that only the log
has.
"""

from __future__ import annotations

import random
import sqlite3
import struct
import time
from contextlib import closing
from pathlib import Path

# SQLite's ``user_version`` has the version of the schema in its lowest bits, above them
# the generation before, and then the generation; the highest is a sign.
_VERSION_BITS = 5
VERSION_MASK = (1 << _VERSION_BITS) - 1
_GENERATION_BITS = (31 - _VERSION_BITS) // 2
_GENERATION_MASK = (1 << _GENERATION_BITS) - 1

# Source: "The WAL File Format", https://www.sqlite.org/fileformat2.html#walformat
_LOG_HEADER = struct.Struct(">8xI4x8s8x")
_FRAME = struct.Struct(">II8s8x")
_MAGIC = {b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"}
# Where the first page of a file has its ``user_version``.
_FIRST_PAGE = struct.Struct(">60xi")

# While other programs write, the file may change between two looks at it and its log.
_LOOKS = 5
_PAUSE_S = 0.05


def make_mark(version: int, before: int = 0) -> int:
    """The ``user_version`` of that schema, and of the generation after *before*."""
    number = random.SystemRandom().getrandbits(_GENERATION_BITS)
    number = number << _GENERATION_BITS | _generation(before)
    return number << _VERSION_BITS | version


def repeat_mark(mark: int) -> int:
    """
    *mark*, for the first page of a log whose file has it: with no generation before it.
    """
    number = _generation(mark)
    both = number << _GENERATION_BITS | number
    return both << _VERSION_BITS | mark & VERSION_MASK


def _generation(mark: int) -> int:
    return mark >> (_VERSION_BITS + _GENERATION_BITS) & _GENERATION_MASK


def is_log_of(path: Path) -> bool:
    """
    Whether SQLite may open a file with the log that is beside it; nothing is applied.

    O(pages of the log). What SQLite itself would refuse, or ignore, may be opened. One
    of 8,192 logs of another file is not noticed.
    """
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE_S)

        # The log first: its file has a page before the log of a new store is begun.
        is_log, marks = _read_log(path.with_name(f"{path.name}-wal"))
        if is_log and not has_pages(path):
            continue

        mark = _read_mark(path) if marks else None
        # A file without tables has nothing to lose: its first log makes them.
        if mark is None:
            return True

        before = marks[0] >> _VERSION_BITS & _GENERATION_MASK
        known = {before, *map(_generation, marks)}
        if _generation(mark) in known:
            return True

    return False


def has_pages(path: Path) -> bool:
    """Whether a file is there and not empty."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _read_log(path: Path) -> tuple[bool, list[int]]:
    """Whether a log has pages; each ``user_version`` of a file's first page there."""
    is_log = False
    marks: list[int] = []
    try:
        with path.open("rb") as file:
            start = file.read(_LOG_HEADER.size)
            if len(start) < _LOG_HEADER.size or start[:4] not in _MAGIC:
                return False, []

            page_size, salt = _LOG_HEADER.unpack(start)
            while True:
                frame = file.read(_FRAME.size)
                if len(frame) < _FRAME.size:
                    break

                page, _, frame_salt = _FRAME.unpack(frame)
                # What is left of an earlier log has another salt.
                if frame_salt != salt:
                    break

                is_log = True
                read = 0
                if page == 1:
                    marks += _FIRST_PAGE.unpack(file.read(_FIRST_PAGE.size))
                    read = _FIRST_PAGE.size

                file.seek(page_size - read, 1)
    except (OSError, struct.error):
        pass  # SQLite says what is wrong with it

    return is_log, marks


def _read_mark(path: Path) -> int | None:
    """
    The ``user_version`` of a file without its log; None if it can't be read, or has no
    tables.
    """
    # By SQLite: a file object that is closed releases all locks of this process.
    try:
        url = f"{path.as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(url, uri=True)) as connection:
            (schema,) = connection.execute("PRAGMA schema_version").fetchone()
            (mark,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:
        return None

    return int(mark) if schema else None
