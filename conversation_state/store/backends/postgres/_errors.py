"""
What the errors of a PostgreSQL server mean, and what to do.
"""

from __future__ import annotations

import psycopg

from conversation_state.errors import StoreError, UnknownOutcomeError
from conversation_state.store.backend import ConflictError

__all__ = ["explain_error", "explain_unreachable"]

# By the code that SQL gives an error, or its first two characters.
_EXPLANATIONS = {
    "55P03": (
        "others have been writing for longer than timeout_s; try again, or raise it "
        "in the URL (?timeout_s=60)"
    ),
    "57014": (
        "the server gave up on a statement; look at its statement_timeout, and at "
        "what cancels statements there"
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
    "53": "the server is out of resources; look at its log and try again",
    "54": "a message is larger than the server takes (a billion bytes)",
    "XX001": (
        "the server's files are damaged; let its administrator look at the log, and "
        "restore a backup"
    ),
    "XX002": (
        "an index of the server's is damaged; let its administrator REINDEX the tables"
    ),
    "26": (
        "a prepared statement is missing: a pooler stands in between; add "
        "?prepared=off to the URL"
    ),
}

_CONNECTION_LOST = "the connection to the server was lost"
_CONFLICTS = {
    "40001",  # serialisation failure
    "40P01",  # deadlock
}
_UNKNOWN = {"40003", "08007"}


def _format_message(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


def explain_error(
    url: str, error: psycopg.Error, *, is_lost: bool, is_committing: bool
) -> Exception:
    """
    What an error means for a block.
    """
    state = error.sqlstate or ""
    if is_committing and (is_lost or state in _UNKNOWN):
        return UnknownOutcomeError(
            url, f"{_CONNECTION_LOST} while it was written ({_format_message(error)})"
        )

    if is_lost:
        message = _format_message(error)
        what = f"{_CONNECTION_LOST}, and nothing was changed; try again ({message})"
        return StoreError(url, what)

    if state in _CONFLICTS or isinstance(error, psycopg.IntegrityError):
        return ConflictError(_format_message(error))

    why = _EXPLANATIONS.get(state) or _EXPLANATIONS.get(state[:2])
    return StoreError(
        url, f"{why} ({_format_message(error)})" if why else _format_message(error)
    )


def explain_unreachable(url: str, error: psycopg.Error) -> StoreError:
    """
    Why connecting failed. Such errors have no code, only a message.
    """
    message = _format_message(error)
    why = "the server can't be reached; look whether it runs, and where"
    for words, known in _BY_MESSAGE:
        if words in message:
            why = known
            break

    return StoreError(url, f"{why} ({message})")


_NO_CONNECTIONS = (
    "the server has no connection left; lower pool_size in the URLs, raise its "
    "max_connections, or put a pooler before it"
)
_BY_MESSAGE = (
    ("too many", _NO_CONNECTIONS),
    ("connection slots", _NO_CONNECTIONS),
    ("starting up", "the server is starting; try again"),
    ("shutting down", "the server is shutting down; try again"),
    ("password", "the server refuses this user; look at the user and the password"),
    ("authentication", "the server refuses this user; look at its pg_hba.conf"),
    ("pg_hba.conf", "the server refuses this user; look at its pg_hba.conf"),
    ("does not exist", "the server has no such user or database; create it"),
)
