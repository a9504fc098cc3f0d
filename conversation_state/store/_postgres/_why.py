"""
What a server's errors mean, and what to do.
"""

from __future__ import annotations

import psycopg

from conversation_state.errors import StoreError, UnknownOutcomeError
from conversation_state.store.backend import ConflictError

__all__ = ["explained", "unreachable"]

# By the code that SQL gives an error, or its first two characters.
_WHY = {
    "55P03": (
        "others have been writing for longer than timeout_s; try again, or raise it "
        "in the URL (?timeout_s=60)"
    ),
    "57014": (
        "the server gave up on a statement; look at its statement_timeout, and at who "
        "cancels statements there"
    ),
    "25006": (
        "it can't be written: the server is a standby, or is set to be read only. "
        "Give the URL of the primary, or open it with ?mode=ro and only read"
    ),
    "42501": (
        "this user lacks a right; let the tables' owner grant SELECT, INSERT, UPDATE "
        "and DELETE on all tables of the schema, and USAGE on the schema"
    ),
    "3F000": (
        "this user lacks a right on the schema of its tables (USAGE); let their owner "
        "grant it"
    ),
    "42P01": (
        "its tables are gone, or this user lacks a right on their schema (USAGE); open "
        "the store again, restore a backup, or let their owner grant it"
    ),
    "53100": "the server's disk is full; free some space and try again",
    "53200": "the server is out of memory; try again, with fewer at once",
    "53": "the server is out of something it needs; look at its log and try again",
    "54": "a message is larger than the server takes (a billion bytes)",
    "XX001": (
        "the server's files are damaged; let its keeper look at the log, and restore "
        "a backup"
    ),
    "XX002": "an index of the server's is damaged; let its keeper REINDEX the tables",
    "26": (
        "a statement is not prepared that was: a pooler stands in between; add "
        "?prepared=off to the URL"
    ),
}

_LOST = "the connection to the server was lost"
_CONFLICTS = {
    "40001",  # somebody else was first, says a server that runs blocks side by side
    "40P01",  # two waited for each other
}
_UNKNOWN = {"40003", "08007"}


def _said(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


def explained(
    url: str, error: psycopg.Error, *, is_lost: bool, is_committing: bool
) -> Exception:
    """
    What an error means for a block.
    """
    state = error.sqlstate or ""
    if is_committing and (is_lost or state in _UNKNOWN):
        return UnknownOutcomeError(
            url, f"{_LOST} while it was written ({_said(error)})"
        )

    if is_lost:
        what = f"{_LOST}, and nothing was changed; try again ({_said(error)})"
        return StoreError(url, what)

    if state in _CONFLICTS or isinstance(error, psycopg.IntegrityError):
        return ConflictError(_said(error))

    why = _WHY.get(state) or _WHY.get(state[:2])
    return StoreError(url, f"{why} ({_said(error)})" if why else _said(error))


def unreachable(url: str, error: psycopg.Error) -> StoreError:
    """
    Why there is no connection. It has no code then, only the server's words.
    """
    said = _said(error)
    why = "the server can't be reached; look whether it runs, and where"
    for words, known in _WORDS:
        if words in said:
            why = known
            break

    return StoreError(url, f"{why} ({said})")


_FULL = (
    "the server has no connection left; lower pool_size in the URLs, raise its "
    "max_connections, or put a pooler before it"
)
_WORDS = (
    ("too many", _FULL),
    ("connection slots", _FULL),
    ("starting up", "the server is starting; try again"),
    ("shutting down", "the server is shutting down; try again"),
    ("password", "the server refuses this user; look at the user and the password"),
    ("authentication", "the server refuses this user; look at its pg_hba.conf"),
    ("pg_hba.conf", "the server refuses this user; look at its pg_hba.conf"),
    ("does not exist", "the server has no such user or database; let it be made"),
)
