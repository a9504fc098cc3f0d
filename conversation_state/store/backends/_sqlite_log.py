"""
Whether a write-ahead log belongs to the file that it stands beside.

SQLite knows a log by its name alone: it applies the log of a killed program to
whatever file has been copied there since. So each log begins with a generation, a
number made at random in the header of the file, which the file itself has before the
log gets anything else. A file that was copied at another time has another one.
"""

from __future__ import annotations

import random
import sqlite3
import struct
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

# SQLite's ``user_version`` has the version of the schema in its lowest bits, and the
# generation above them; the highest is a sign.
_VERSION_BITS = 10
VERSION_MASK = (1 << _VERSION_BITS) - 1
_GENERATION_BITS = 31 - _VERSION_BITS

# Source: "The WAL File Format", https://www.sqlite.org/fileformat2.html#walformat
_LOG_HEADER = struct.Struct(">8xI4x8s8x")
_FRAME = struct.Struct(">II8s8x")
_MAGIC = {b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"}
# Where the first page of a file has what `_Header` has.
_FIRST_PAGE = struct.Struct(">28xI4xII16xi")

# While other programs write, the file may change between two looks at it and its log.
_LOOKS = 5
_PAUSE_S = 0.05


class _Header(NamedTuple):
    """
    Of a file: how many pages it has, and how many of them are free; SQLite's number
    of its schema, and its ``user_version``.
    """

    pages: int
    free: int
    schema: int
    mark: int


def make_mark(version: int) -> int:
    """
    A ``user_version`` of that schema, and of a new generation.
    """
    number = random.SystemRandom().getrandbits(_GENERATION_BITS)
    return number << _VERSION_BITS | version


def is_log_of(path: Path) -> bool:
    """
    Whether SQLite may open a file with the log that is beside it; nothing is applied.

    O(pages of the log). What SQLite itself would refuse, or ignore, may be opened.
    """
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE_S)

        count, headers = _read_log(path.with_name(f"{path.name}-wal"))
        file = _read_header(path) if headers else None
        # A file without tables has nothing to lose: its first log makes them.
        if file is None or not file.schema:
            return True

        marks = {header.mark for header in headers}
        # Or the mark is all that is in the log: a program was killed after it.
        is_mark_alone = count == 1 and headers[0]._replace(mark=file.mark) == file
        if file.mark in marks or is_mark_alone:
            return True

    return False


def _read_log(path: Path) -> tuple[int, list[_Header]]:
    """
    How many pages are in a log, and what those say that are a file's first page.
    """
    count, headers = 0, []
    try:
        with path.open("rb") as file:
            start = file.read(_LOG_HEADER.size)
            if len(start) < _LOG_HEADER.size or start[:4] not in _MAGIC:
                return 0, []

            page_size, salt = _LOG_HEADER.unpack(start)
            while len(frame := file.read(_FRAME.size)) == _FRAME.size:
                page, _, frame_salt = _FRAME.unpack(frame)
                # What is left of an earlier log has another salt.
                if frame_salt != salt:
                    break

                count += 1
                read = 0
                if page == 1:
                    headers.append(_Header(*_FIRST_PAGE.unpack(file.read(64))))
                    read = _FIRST_PAGE.size

                file.seek(page_size - read, 1)
    except (OSError, struct.error):
        pass  # SQLite says what is wrong with it

    return count, headers


def _read_header(path: Path) -> _Header | None:
    """
    What a file itself says, without its log; None if it can't be read.
    """
    # By SQLite: a file object that is closed releases all locks of this process.
    try:
        url = f"{path.as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(url, uri=True)) as connection:
            return _Header(
                *(
                    connection.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in (
                        "page_count",
                        "freelist_count",
                        "schema_version",
                        "user_version",
                    )
                )
            )
    except sqlite3.Error:
        return None
