"""
From a URL to a server: where it is, who asks, and how.

Nothing here repeats what it could not read: a password that was not quoted
ends up anywhere in a URL.
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
_FORM = "postgresql+psycopg://user:password@host/database"
_QUOTED = (
    f"this URL can't be read; expected {_FORM}, where characters such as @ : / ? # in "
    "a password or a name are written as % and two digits"
)
_LONGEST_S = 86_400


def _is_seconds(text: str) -> bool:
    try:
        return 0 < float(text) <= _LONGEST_S
    except ValueError:
        return False


# What a URL may say to us; all else is libpq's, if it knows it.
_OURS: dict[str, tuple[Callable[[str], Any], str]] = {
    # PostgreSQL takes others, between quotation marks, which we then need, too.
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
    Where a server is, and how to talk to it.

    Attributes:
        url: The same for people: without the password, and without options
            that say nothing of where it is.

        server: What libpq is told.

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
                If it can't be read, or has an option nobody knows.
        """
        scheme, _, rest = url.partition(":")
        told = f"{scheme}:"
        where, _, query = rest.partition("?")
        who, host, port, database = _parts(told, where)
        given = _options(told, query)
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

        ours = {name: given.pop(name) for name in _OURS if name in given}
        schema = ours.get("schema", _SCHEMA)
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
            int(ours.get("pool_size", 8)),
            float(ours.get("timeout_s", 30.0)),
            ours.get("mode", "rw"),
            ours.get("prepared", "on") == "on",
        )
        return made._replace(server=made._server(given, ours.get("synchronous_commit")))

    def _server(
        self, given: dict[str, str], synchronous_commit: str | None
    ) -> dict[str, Any]:
        """
        What libpq is told: what was *given*, and what keeps us from waiting
        for ever.
        """
        whole_s = max(2, math.ceil(self.timeout_s))  # libpq's shortest
        milliseconds = max(1, round(self.timeout_s * 1000))
        settings = {
            "search_path": self.schema,
            "lock_timeout": milliseconds,
            # Who writes keeps others from writing, so nobody may fall asleep.
            "idle_in_transaction_session_timeout": whole_s * 1000,
        }
        if synchronous_commit is not None:
            settings["synchronous_commit"] = synchronous_commit

        if self.mode == "ro":
            settings["default_transaction_read_only"] = "on"

        told = [f"-c {name}={value}" for name, value in settings.items()]
        return {
            "application_name": "conversation_state",
            "connect_timeout": whole_s,
            # A server that is gone without a word is missed after so long.
            "tcp_user_timeout": whole_s * 1000,
            "keepalives_idle": whole_s,
            "keepalives_interval": max(1, whole_s // 3),
            "keepalives_count": 3,
            **given,
            "client_encoding": "utf8",
            "options": " ".join([*told, given.get("options", "")]).strip(),
        }


def _parts(told: str, where: str) -> tuple[str, str, str, str]:
    """
    Who, hosts, ports and database. Only a password may have an @ in it.
    """
    if not where.startswith("//") or "#" in where:
        raise StoreError(told, _QUOTED)

    net, _, database = where[2:].partition("/")
    who, _, places = net.rpartition("@")
    hosts, ports = [], []
    for place in places.split(","):
        found = _PLACE.fullmatch(place)
        if found is None:
            raise StoreError(told, _QUOTED)

        hosts.append(unquote(found[1] or found[2]))
        ports.append(found[3] or "")

    if "@" in database or "/" in database:
        raise StoreError(told, _QUOTED)

    return who, ",".join(hosts), ",".join(ports) if any(ports) else "", database


_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:]*))(?::([0-9]{1,5}))?")


def _options(told: str, query: str) -> dict[str, str]:
    if "@" in query or "#" in query:
        raise StoreError(told, _QUOTED)

    try:
        asked = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise StoreError(told, _QUOTED) from None

    given = dict(asked)
    servers = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    for name, value in given.items():
        check = _OURS.get(name)
        if check is None and name not in servers:
            raise StoreError(
                told,
                f"there is no option {name[:40]!r}; there are {', '.join(_OURS)}, and "
                "those of libpq (sslmode, host, application_name, ...)",
            )

        if check is not None and not check[0](value):
            raise StoreError(
                told, f"the option {name}={value[:40]} is none; expected {check[1]}"
            )

    return given
