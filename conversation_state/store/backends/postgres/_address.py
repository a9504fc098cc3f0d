"""
From a URL to a server: its hosts, the user, the database and the options.

Errors never show a part of a URL that could not be parsed: an unquoted password
can end up anywhere in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, quote, unquote

from psycopg import pq

from conversation_state.errors import StoreError

__all__ = ["Address"]

_SCHEMA = "conversation_state"
_URL_FORM = "postgresql+psycopg://user:password@host/database"
_UNREADABLE = (
    f"this URL can't be read; expected {_URL_FORM}, where characters such as "
    "@ : / ? # in a password or a name are written as % and two digits"
)
_LONGEST_S = 86_400


def _is_seconds(text: str) -> bool:
    try:
        return 0 < float(text) <= _LONGEST_S
    except ValueError:
        return False


# Options of ours, and a check for each; all other options are passed to libpq.
_OWN_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    # Other names need quotation marks in every statement.
    "schema": (re.compile(r"[a-z_][a-z0-9_]{0,62}").fullmatch, "a-z, 0-9 and _"),
    "pool_size": (re.compile(r"[1-9][0-9]{0,3}").fullmatch, "1 to 9999"),
    "timeout_s": (_is_seconds, "seconds, more than 0"),
    "synchronous_commit": (
        {"on", "off", "local", "remote_write", "remote_apply"}.__contains__,
        "on, off, local, remote_write or remote_apply",
    ),
    "mode": ({"ro", "rw"}.__contains__, "ro or rw"),
    "prepared": ({"on", "off"}.__contains__, "on or off"),
}


class Address(NamedTuple):
    """
    Where a server is, and how to use it.

    Attributes:
        url: The URL to show: without the password, and without options that
            do not say where the server is.

        server: The parameters for libpq.

        schema: The schema that has the tables.

        pool_size: How many connections there are at most.

        timeout_s: How long to wait for others that write, for a connection,
            and for the server.

        mode: ``rw``, or ``ro`` for reading only.

        is_prepared: Whether statements stay prepared.
    """

    url: str
    server: dict[str, Any]
    schema: str = _SCHEMA
    pool_size: int = 8
    timeout_s: float = 30.0
    mode: str = "rw"
    is_prepared: bool = True

    @classmethod
    def of(cls, url: str) -> Self:
        """
        What a URL says.

        Raises:
            StoreError:
                If it can't be read, or has an unknown option.
        """
        scheme, _, rest = url.partition(":")
        prefix = f"{scheme}:"
        where, _, query = rest.partition("?")
        who, host, port, database = _split_authority(prefix, where)
        given = _parse_options(prefix, query)
        user, _, password = who.partition(":")
        for name, value in (
            ("host", host),
            ("port", port),
            ("user", unquote(user)),
            ("password", unquote(password)),
            ("dbname", unquote(database)),
        ):
            if value:
                given[name] = value

        own = {name: given.pop(name) for name in _OWN_OPTIONS if name in given}
        schema = own.get("schema", _SCHEMA)
        shown = f"{scheme}://{f'{quote(unquote(user))}@' if user else ''}"
        if not given.get("host", "").startswith("/"):
            ports = port.split(",") if port else []
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
            shown += f"&host={quote(given['host'])}"

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
            server=made._make_conninfo(given, own.get("synchronous_commit"))
        )

    def _make_conninfo(
        self, given: dict[str, str], synchronous_commit: str | None
    ) -> dict[str, Any]:
        """
        The parameters for libpq: those *given*, and timeouts.
        """
        whole_s = max(2, math.ceil(self.timeout_s))  # libpq's shortest
        milliseconds = max(1, round(self.timeout_s * 1000))
        settings = {
            "search_path": self.schema,
            "lock_timeout": milliseconds,
            # An idle writer would block all other writers.
            "idle_in_transaction_session_timeout": whole_s * 1000,
        }
        if synchronous_commit is not None:
            settings["synchronous_commit"] = synchronous_commit

        if self.mode == "ro":
            settings["default_transaction_read_only"] = "on"

        options = [f"-c {name}={value}" for name, value in settings.items()]
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
            "options": " ".join([*options, given.get("options", "")]).strip(),
        }


def _split_authority(prefix: str, where: str) -> tuple[str, str, str, str]:
    """
    User and password, hosts, ports and database. Only a password may contain an @.
    """
    if not where.startswith("//") or "#" in where:
        raise StoreError(prefix, _UNREADABLE)

    net, _, database = where[2:].partition("/")
    who, _, places = net.rpartition("@")
    hosts, ports = [], []
    for place in places.split(","):
        found = _HOST_AND_PORT.fullmatch(place)
        if found is None:
            raise StoreError(prefix, _UNREADABLE)

        hosts.append(unquote(found[1] or found[2]))
        ports.append(found[3] or "")

    if "@" in database or "/" in database:
        raise StoreError(prefix, _UNREADABLE)

    return who, ",".join(hosts), ",".join(ports) if any(ports) else "", database


_HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:]*))(?::([0-9]{1,5}))?")


def _parse_options(prefix: str, query: str) -> dict[str, str]:
    if "@" in query or "#" in query:
        raise StoreError(prefix, _UNREADABLE)

    try:
        parameters = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query)
        )
    except ValueError:
        raise StoreError(prefix, _UNREADABLE) from None

    given = dict(parameters)
    servers = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    for name, value in given.items():
        check = _OWN_OPTIONS.get(name)
        if check is None and name not in servers:
            raise StoreError(
                prefix,
                f"unknown option {name[:40]!r}; valid options are "
                f"{', '.join(_OWN_OPTIONS)}, and those of libpq (sslmode, host, "
                "application_name, ...)",
            )

        if check is not None and not check[0](value):
            raise StoreError(
                prefix, f"invalid option {name}={value[:40]}; expected {check[1]}"
            )

    return given
