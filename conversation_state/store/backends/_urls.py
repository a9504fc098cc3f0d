"""
From a URL to what keeps the rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from conversation_state._wording import describe_type
from conversation_state.errors import MissingExtraError, StoreError
from conversation_state.store.backend import Backend
from conversation_state.store.backends.memory import MemoryBackend


def open_backend(url: str | os.PathLike[str]) -> Backend:
    # See `open_store`.
    address = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(address, str):
        raise TypeError(
            f"url: expected a str like sqlite:///chats.db, got {describe_type(url)}"
        )

    # Without either it is more likely a scheme: memory, postgres.
    looks_like_path = ":" not in address and ("." in address or "/" in address)
    if isinstance(url, os.PathLike) or looks_like_path:
        # A path that is not UTF-8 is refused below, as one in a URL is.
        address = f"sqlite:///{quote(address, errors='surrogatepass')}"

    scheme, colon, rest = address.partition(":")
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

    return make(address, rest)


def _open_memory(url: str, rest: str) -> Backend:
    if rest:
        raise StoreError(url, "a store in memory has no path; use memory: alone")

    return MemoryBackend()


def _open_sqlite(url: str, rest: str) -> Backend:
    # The import is here, so that other stores need no sqlite3.
    from conversation_state.store.backends._sqlite import (  # noqa: PLC0415 - see above
        SqliteBackend,
        SqliteOptions,
    )

    path, _, query = rest.partition("?")
    if not path.startswith("///"):
        raise StoreError(
            url,
            "a file's URL has three slashes, sqlite:///chats.db, or four for a full "
            "path, sqlite:////srv/chats.db",
        )

    try:
        path = unquote(path[3:], errors="strict")
    except UnicodeDecodeError:
        # Decoding with replacements would open another file.
        what = "the path holds bytes after a % that are no UTF-8"
        raise StoreError(url, what) from None

    if path in {"", ":memory:"} or "\0" in path:
        what = "this names no file; a store that is in memory has the URL memory:"
        raise StoreError(url, what)

    pairs = parse_qsl(query, keep_blank_values=True)
    given: dict[str, Any] = dict(pairs)
    if len(given) < len(pairs):
        raise StoreError(url, "an option is given twice; give each once")

    for name, value in given.items():
        if name not in _ALLOWED or not _ALLOWED[name](value):
            raise StoreError(
                url,
                f"invalid option {name}={value}; valid options are synchronous=normal "
                "or full, timeout_s=SECONDS, and mode=ro",
            )

    if "timeout_s" in given:
        given["timeout_s"] = float(given["timeout_s"])

    return SqliteBackend(path, SqliteOptions(**given), url=url)


def _open_postgres(url: str, _rest: str) -> Backend:
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


def _is_seconds(text: str) -> bool:
    try:
        return 0 <= float(text) <= _LONGEST_S
    except ValueError:
        return False


# SQLite takes milliseconds, in 32 bits.
_LONGEST_S = 86_400
_ALLOWED: dict[str, Callable[[str], bool]] = {
    "synchronous": {"normal", "full"}.__contains__,
    "timeout_s": _is_seconds,
    "mode": {"ro", "rw"}.__contains__,
}
_SCHEMES: dict[str, Callable[[str, str], Backend]] = {
    "memory": _open_memory,
    "postgres": _open_postgres,
    "postgresql": _open_postgres,
    "postgresql+psycopg": _open_postgres,
    "sqlite": _open_sqlite,
}
