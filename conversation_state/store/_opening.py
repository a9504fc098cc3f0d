"""
Opening: from a URL to a store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote

from conversation_state.errors import MissingExtraError, StoreError
from conversation_state.store._memory import MemoryBackend
from conversation_state.store._store import Store
from conversation_state.store.backend import Backend

__all__ = ["open_store"]


def open_store(url: str, *, remembered: int = 100) -> Store:
    """
    The store at *url*; made if it is not there yet.

    - ``memory:`` is new each time, and gone with the program.
    - ``sqlite:///talks.db`` is a file in the current folder, and
      ``sqlite:////srv/talks.db`` one by its full path; ``%`` and two digits
      stand for what URLs can't hold. After a ``?`` it takes *synchronous*
      (``normal`` or ``full``: see `docs/store.md`), *timeout_s* (how long to
      wait for other processes, 30 by default) and *mode* (``ro`` only reads).
    - ``postgresql+psycopg://user:password@host/database`` is a schema in a
      PostgreSQL server (extra ``postgres``). After a ``?`` it takes *schema*,
      *pool_size*, *timeout_s*, *synchronous_commit*, *mode*, *prepared* (see
      `docs/postgres.md`) and whatever libpq knows. The password may be left to
      the places where libpq looks for it.

    Args:
        url: Where it is.

        remembered: The newest states of how many names stay in memory.

    Raises:
        StoreError:
            If it can't be opened, or *url* is none of these; and what to do.

        MissingExtraError:
            If it needs a package that is not installed.
    """
    if not isinstance(url, str):
        msg = f"url is a {type(url).__name__}; expected a str like sqlite:///talks.db"
        raise TypeError(msg)

    if isinstance(remembered, bool) or not isinstance(remembered, int):
        msg = f"remembered is {remembered!r}; expected how many names, from 0 on"
        raise TypeError(msg)

    scheme, colon, rest = url.partition(":")
    make = _SCHEMES.get(scheme) if colon else None
    if make is None:
        known = "memory:, sqlite:///talks.db, postgresql+psycopg://user@host/database"
        # Not the url itself: who mistypes a scheme may have given a password.
        raise StoreError(
            f"{scheme[:40]!r}", f"this is no store's URL; expected one of {known}"
        )

    return Store(make(url, rest), remembered=remembered)


def _memory(url: str, rest: str) -> Backend:
    if rest:
        raise StoreError(url, "a store in memory has no path; use memory: alone")

    return MemoryBackend()


def _sqlite(url: str, rest: str) -> Backend:
    # Here, so that stores elsewhere need no sqlite3.
    from conversation_state.store._sqlite import (  # noqa: PLC0415 - as said
        SqliteBackend,
        SqliteOptions,
    )

    path, _, query = rest.partition("?")
    if not path.startswith("///"):
        raise StoreError(
            url,
            "a file's URL has three slashes, sqlite:///talks.db, or four for a full "
            "path, sqlite:////srv/talks.db",
        )

    try:
        path = unquote(path[3:], errors="strict")
    except UnicodeDecodeError:
        # Else it would be another file than the one that was meant.
        what = "the path holds bytes after a % that are no UTF-8"
        raise StoreError(url, what) from None

    if path in {"", ":memory:"} or "\0" in path:
        what = "this names no file; a store that is in memory has the URL memory:"
        raise StoreError(url, what)

    pairs = parse_qsl(query, keep_blank_values=True)
    given: dict[str, Any] = dict(pairs)
    if len(given) < len(pairs):
        raise StoreError(url, "an option is given twice; give each of them once")

    for name, value in given.items():
        if name not in _ALLOWED or not _ALLOWED[name](value):
            raise StoreError(
                url,
                f"the option {name}={value} is none; there are synchronous=normal or "
                "full, timeout_s=SECONDS, and mode=ro",
            )

    if "timeout_s" in given:
        given["timeout_s"] = float(given["timeout_s"])

    return SqliteBackend(path, SqliteOptions(**given), url=url)


def _postgres(url: str, _rest: str) -> Backend:
    try:
        from conversation_state.store._postgres import (  # noqa: PLC0415 - an extra
            Address,
            PostgresBackend,
        )
    except ImportError as error:
        msg = "a store in PostgreSQL"
        raise MissingExtraError(msg, "postgres") from error

    return PostgresBackend(Address.of(url))


def _is_seconds(text: str) -> bool:
    try:
        return 0 <= float(text) <= _LONGEST_S
    except ValueError:
        return False


_LONGEST_S = 86_400
_ALLOWED: dict[str, Callable[[str], bool]] = {
    "synchronous": {"normal", "full"}.__contains__,
    "timeout_s": _is_seconds,
    "mode": {"ro", "rwc"}.__contains__,
}
_SCHEMES: dict[str, Callable[[str, str], Backend]] = {
    "memory": _memory,
    "postgres": _postgres,
    "postgresql": _postgres,
    "postgresql+psycopg": _postgres,
    "sqlite": _sqlite,
}
