"""
Backends: what keeps the rows of a store, in memory, in a file or on a server; and from
a URL to one of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote

from conversation_state._wording import describe_type
from conversation_state.errors import MissingExtraError, StoreError
from conversation_state.store.backend import Backend
from conversation_state.store.backends.memory import MemoryBackend

__all__ = ["find_path", "open_backend", "restore_file"]


def open_backend(url: str | os.PathLike[str]) -> Backend:
    """What keeps the rows of the store at *url*; see `open_store`."""
    address = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(address, str):
        raise TypeError(
            f"url: expected a str like sqlite:///chats.db, got {describe_type(url)}"
        )

    if isinstance(url, os.PathLike) or (address and find_path(address) == address):
        # A path that is not UTF-8 is refused below, as one in a URL is.
        address = f"sqlite:///{quote(address, errors='surrogatepass')}"

    if address == ":memory:":
        raise StoreError(address, "a store that is in memory has the URL memory:")

    scheme, colon, _ = address.partition(":")
    make = _SCHEMES.get(scheme) if colon else None
    if make is None:
        known = (
            "chats.db or another path, sqlite:///chats.db, memory:, "
            "postgresql+psycopg://user@host/database"
        )
        # Not the url itself: it may hold a password.
        raise StoreError(
            f"{scheme[:40]!r}", f"invalid URL of a store; expected one of {known}"
        )

    return make(address)


# What begins a URL, of whatever scheme; one letter is a drive of Windows.
_URL_START = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:")


def find_path(url: str) -> str:
    """
    The path of the file that `open_store` opens for *url*; "" for what is no file.

    Text is a path unless it begins as a URL, or is a scheme alone.

    Raises:
        StoreError: A path has the options of a URL.
    """
    scheme, colon, rest = url.partition(":")
    if scheme == "sqlite" and colon:
        path = rest.partition("?")[0].removeprefix("///")
        _check_no_options(url, path, unquote)
        return unquote(path)

    if scheme in _SCHEMES or url in {"", ":memory:"} or _URL_START.match(url):
        return ""

    _check_no_options(url, url, str)
    return url


# What was meant as an option of a URL, and would be a part of a file's name.
_OPTIONS = re.compile(r"\?(?=\w+=|\w*\Z)|[#;&](?=\w+=)")


def _check_no_options(url: str, path: str, decode: Callable[[str], str]) -> None:
    found = _OPTIONS.search(path)
    if found is None:
        return

    file, options = path[: found.start()], path[found.end() :]
    options = options if "=" in options else "mode=ro"
    raise StoreError(
        url,
        f"options follow a ? in a URL: sqlite:///{quote(decode(file))}?{options}; a "
        f"file of this name is sqlite:///{quote(decode(path))}",
    )


def restore_file(
    backup: str | os.PathLike[str], path: str | os.PathLike[str], *, replace: bool
) -> Path | None:
    """Put a copy of *backup* at *path*; see `conversation_state.store.restore`."""
    # The import is here, so that other stores need no sqlite3.
    from conversation_state.store.backends._sqlite_restore import (  # noqa: PLC0415 - see above
        restore_from,
    )

    return restore_from(Path(backup).absolute(), Path(path).absolute(), replace=replace)


def _open_memory(url: str) -> Backend:
    if url != "memory:":
        raise StoreError(url, "a store in memory has no path; use memory: alone")

    return MemoryBackend()


def _open_sqlite(url: str) -> Backend:
    from conversation_state.store.backends._sqlite import (  # noqa: PLC0415 - see above
        SqliteBackend,
    )

    return SqliteBackend.of(url)


def _open_postgres(url: str) -> Backend:
    try:
        from conversation_state.store.backends._postgres import (  # noqa: PLC0415 - an extra
            PostgresBackend,
        )
        from conversation_state.store.backends._postgres_server import (  # noqa: PLC0415 - an extra
            Address,
        )
    except ImportError as error:
        raise MissingExtraError("a store in PostgreSQL", "postgres") from error

    return PostgresBackend(Address.of(url))


_SCHEMES: dict[str, Callable[[str], Backend]] = {
    "memory": _open_memory,
    "postgres": _open_postgres,
    "postgresql": _open_postgres,
    "postgresql+psycopg": _open_postgres,
    "sqlite": _open_sqlite,
}
