"""A store behind PgBouncer, as Debian has it."""

import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from conversation_state import Aggregator
from conversation_state.store import open_store
from tests.store import server as servers

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        PGBOUNCER is None, reason="the program pgbouncer is not installed"
    ),
]


@pytest.fixture(params=["session", "transaction"])
def pooled_port(request):
    """The port of a PgBouncer with one connection to the server."""
    server = servers.server()
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    folder = Path(tempfile.mkdtemp(prefix="cs-pgb-"))
    folder.chmod(0o755)
    size = 1 if request.param == "transaction" else 5
    (folder / "pgbouncer.ini").write_text(
        f"""[databases]
postgres = host=127.0.0.1 port={server.port} user=postgres dbname=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {request.param}
default_pool_size = {size}
"""
    )
    user = ["-u", "nobody"]
    process = subprocess.Popen(
        [PGBOUNCER, "-q", *user, folder / "pgbouncer.ini"],  # type: ignore[list-item]
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 120
        while True:
            try:
                where = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
                psycopg.connect(where, connect_timeout=60).close()
                break
            except psycopg.OperationalError:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)

        yield port
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


class TestPooled:
    def test_all_verbs(self, pooled_port, tmp_path):
        """
        With prepared=off all verbs work, in the schema of the URL and in no other.
        """
        server = servers.server()
        one, two = (servers.schema_of(tmp_path / name) for name in ("one", "two"))
        urls = [
            server.url(
                schema, "&prepared=off&timeout_s=60&pool_size=2", port=pooled_port
            )
            for schema in (one, two)
        ]
        state = Aggregator.new().add_user_prompt("Hi!")
        try:
            with open_store(urls[0]) as store, open_store(urls[1]) as other:
                for number in range(50):
                    state = state.add_user_prompt(f"{number} {'x' * 9000}")
                    store.save("chat", state)
                    other.update(
                        "there",
                        lambda there: there.add_user_prompt("?"),
                        start=Aggregator.new(),
                    )

                store.label("chat", "here")
                store.fork("chat", "fork", at=2)
                store.save("many", Aggregator.new().extend(state.messages))
                store.erase(state.entries[0].id, reason="asked")
                store.delete("fork")
                store.collect_garbage(vacuum=True)

                assert ("chat", "many") == store.names()
                assert ("there",) == other.names()
                assert 51 == len(store.load("chat"))
                assert () == store.verify()
                assert () == other.verify()

            with open_store(f"{urls[0]}&mode=ro") as reader:
                assert 51 == len(reader.load("chat"))
                with pytest.raises(Exception, match="can't be written"):
                    reader.save("new", Aggregator.new().add_user_prompt("?"))

            with open_store(urls[0]) as store:
                assert (
                    51
                    == store.save(
                        "chat", store.load("chat").add_user_prompt("!")
                    ).revision
                )
        finally:
            server.drop(one)
            server.drop(two)
