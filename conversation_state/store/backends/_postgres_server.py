"""Where a PostgreSQL server is, and what its errors mean."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from conversation_state.errors import StoreError, UnknownOutcomeError
from conversation_state.store.backend import ConflictError, DamageError
from conversation_state.store.backends._sql import Options, is_seconds, parse_options

_SCHEMA = "conversation_state"
_URL_FORM = "postgresql+psycopg://user:password@host/database"
_UNREADABLE = (
    f"this URL can't be read; expected {_URL_FORM}, where characters such as "
    "@ : / ? # % in a password or a name are written as % and two digits"
)
# Options of ours, and a check for each; all other options are passed to libpq.
_OWN_OPTIONS: Options = {
    # Other names need quotation marks in every statement.
    "schema": (
        re.compile(r"[a-z_][a-z0-9_]{0,62}").fullmatch,
        "1 to 63 of a-z, 0-9 and _, and no digit at the start",
    ),
    "pool_size": (re.compile(r"[1-9][0-9]{0,3}").fullmatch, "1 to 9999"),
    "timeout_s": (
        lambda text: is_seconds(text) and float(text) > 0,
        "seconds, more than 0",
    ),
    "synchronous_commit": (
        {"on", "off", "local", "remote_write", "remote_apply"}.__contains__,
        "on, off, local, remote_write or remote_apply",
    ),
    "mode": ({"ro", "rw"}.__contains__, "ro or rw"),
    "prepared": ({"on", "off"}.__contains__, "on or off"),
}


class Address(NamedTuple):
    """Where a server is, and how to use it."""

    # The URL to show: without the password, and without options that do not say where
    # the server is.
    url: str
    server: dict[str, Any]  # the parameters for libpq
    schema: str = _SCHEMA  # the schema that has the tables
    pool_size: int = 8  # how many connections there are at most
    # How long to wait for others that write, for a connection, and for the server.
    timeout_s: float = 30.0
    mode: str = "rw"  # ``rw``, or ``ro`` for reading only
    # Whether statements stay prepared, and settings with the session; else each
    # transaction has its own.
    is_prepared: bool = True
    # What is set, beside what libpq is given.
    settings: Mapping[str, str] = MappingProxyType({})

    def set_settings(self, *, is_local: bool) -> tuple[str, list[str]]:
        """
        The statement that sets them, for a session or a transaction, and its values.
        """
        each = ", ".join([f"set_config(%s, %s, {is_local})"] * len(self.settings))
        values = [text for setting in self.settings.items() for text in setting]
        return f"SELECT {each}", values

    @classmethod
    def of(cls, url: str) -> Self:
        scheme, _, rest = url.partition(":")
        prefix = f"{scheme}:"
        where, _, query = rest.partition("?")
        given = _parse_authority(prefix, where)
        for name, value in _parse_options(prefix, query).items():
            if name in given:
                raise StoreError(
                    prefix, f"{name} is given before the ? and after it; give it once"
                )

            given[name] = value

        own = {name: given.pop(name) for name in _OWN_OPTIONS if name in given}
        schema = own.get("schema", _SCHEMA)
        user = quote(given.get("user", ""))
        shown = f"{scheme}://{user}{'@' if user else ''}"
        port = given.get("port", "")
        if not given.get("host", "").startswith("/"):
            ports = port.split(",")
            hosts = given.get("host", "").split(",")
            ports += [""] * (len(hosts) - len(ports))
            shown += ",".join(
                [
                    (f"[{name}]" if ":" in name else name) + (each and f":{each}")
                    for name, each in zip(hosts, ports, strict=False)
                ]
            )

        shown += f"/{quote(given.get('dbname', ''))}?schema={schema}"
        if given.get("host", "").startswith("/"):
            shown += f"&host={quote(given['host'])}" + (port and f"&port={port}")

        made = cls(
            shown,
            {},
            schema,
            int(own.get("pool_size", 8)),
            float(own.get("timeout_s", 30.0)),
            own.get("mode", "rw"),
            own.get("prepared", "on") == "on",
        )
        return made._replace(
            server=made._make_conninfo(given),
            settings={
                name: value
                for name, value in made._make_settings(
                    own.get("synchronous_commit")
                ).items()
                # What the URL itself sets counts.
                if f"{name}=" not in given.get("options", "")
            },
        )

    @property
    def _whole_s(self) -> int:
        return max(2, math.ceil(self.timeout_s))  # libpq's shortest

    def _make_settings(self, synchronous_commit: str | None) -> dict[str, str]:
        # Not in libpq's options: a pooler refuses them, or drops them.
        # Less than the client's own limit, so that the server says what is in the way.
        milliseconds = max(1, round(self.timeout_s * 900))
        settings = {
            "search_path": self.schema,
            "lock_timeout": f"{milliseconds}",
            # An idle writer would block all other writers.
            "idle_in_transaction_session_timeout": f"{self._whole_s * 1000}",
        }
        if synchronous_commit is not None:
            settings["synchronous_commit"] = synchronous_commit

        if self.mode == "ro":
            each = "default_transaction_read_only" if self.is_prepared else ""
            settings[each or "transaction_read_only"] = "on"

        return settings

    def _make_conninfo(self, given: dict[str, str]) -> dict[str, Any]:
        whole_s = self._whole_s
        return {
            "application_name": "conversation_state",
            "connect_timeout": whole_s,
            # How soon a server that vanished is noticed.
            "tcp_user_timeout": whole_s * 1000,
            "keepalives_idle": whole_s,
            "keepalives_interval": max(1, whole_s // 3),
            "keepalives_count": 3,
            **given,
            "client_encoding": "utf8",
        }


def _parse_authority(prefix: str, where: str) -> dict[str, str]:
    """
    User and password, hosts, ports and database, as libpq reads them. Only a password
    may contain an @.
    """
    who, at, place = where.rpartition("@")
    _, _, database = place.removeprefix("//").partition("/")
    quoted = who.replace("@", "%40")
    try:
        given = conninfo_to_dict(f"postgresql:{quoted}{at}{place}")
    except (psycopg.Error, UnicodeError):
        # Without libpq's own words, which may repeat a password.
        raise StoreError(prefix, _UNREADABLE) from None

    port = str(given.get("port") or "")
    if (
        not where.startswith("//")
        or "#" in where
        # libpq would end the URL there, and find another server or database.
        or "\0" in where
        or "/" in who[2:]
        or "/" in database
        or port.strip("0123456789,")
    ):
        raise StoreError(prefix, _UNREADABLE)

    return {name: str(value) for name, value in given.items() if value}


def _parse_options(prefix: str, query: str) -> dict[str, str]:
    if "@" in query or "#" in query:
        raise StoreError(prefix, _UNREADABLE)

    # Asked of libpq, whose options depend on its version.
    servers = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    given = parse_options(prefix, query, _OWN_OPTIONS, servers)
    if any("\0" in value for value in given.values()):
        # libpq would end the value there.
        raise StoreError(prefix, f"{_UNREADABLE}; and no value has U+0000 in it")

    return given


LACKS_USAGE = (
    "this user lacks a right on the schema of its tables (USAGE); let their owner "
    "grant it"
)
_POOLER = (
    "a prepared statement is another session's: a pooler stands in between; add "
    "?prepared=off to the URL"
)
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
    "3F000": LACKS_USAGE,
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
    "26": _POOLER,
    "42P05": _POOLER,
}

_CONNECTION_LOST = "the connection to the server was lost"
_CONFLICTS = {
    "40001",  # serialisation failure
    "40P01",  # deadlock
}
_UNKNOWN = {"40003", "08007"}

# Files and indexes, and values and tables that are not those that a store wrote; but
# not that a right is missing, or that a table is out of reach.
_DAMAGED = ("XX", "22", "42")
_NO_DAMAGE = {"42501", "42P01", "42P05"}

# The server ended the session: by an administrator, a crash, or a shutdown.
_SESSION_ENDED = "57P"


def _format_message(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


def _find_server_error(error: psycopg.Error) -> psycopg.Error:
    """What the server reported, if psycopg reports only what became of its pipeline."""
    context = error.__context__
    if not error.sqlstate and isinstance(context, psycopg.Error) and context.sqlstate:
        return context

    return error


def explain_error(
    url: str, error: psycopg.Error, *, is_lost: bool, is_committing: bool
) -> Exception:
    """
    What an error means for a block.

    Without a code, an operational error is psycopg's own: the connection failed. A
    session that was ended may still look connected, until its end has arrived.
    """
    is_lost = is_lost or (
        not error.sqlstate and isinstance(error, psycopg.OperationalError)
    )
    error = _find_server_error(error)
    state = error.sqlstate or ""
    is_lost = is_lost or state.startswith(_SESSION_ENDED)
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
    is_damage = state.startswith(_DAMAGED) and state not in _NO_DAMAGE
    return (DamageError if is_damage else StoreError)(
        url, f"{why} ({_format_message(error)})" if why else _format_message(error)
    )


def explain_unreachable(url: str, error: psycopg.Error) -> StoreError:
    """Why connecting failed. Such errors have no code, only a message."""
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
_WRONG_OPTION = (
    "an option of this URL, or a variable of libpq's (PGSSLMODE, ...), has a value "
    "that it can't have"
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
    ("invalid", _WRONG_OPTION),
    ("bad value", _WRONG_OPTION),
    ("could not match", _WRONG_OPTION),
    ("unrecognized", _WRONG_OPTION),
)
