"""
What a store in PostgreSQL promises beyond the contract: few trips, clear
errors, and nothing lost where the server or the wire is.
"""

import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from conversation_state import Aggregator, UserMessage
from conversation_state.errors import MissingExtraError, StoreError, UnknownOutcomeError
from conversation_state.store import open_store
from conversation_state.store.backend import ConflictError, DamageError
from conversation_state.store.backends import _postgres as _tables
from conversation_state.store.backends._postgres import PostgresBlock
from conversation_state.store.backends._postgres_server import Address
from conversation_state.store.backends._sql import STEPS, Step
from conversation_state.store.schema import SCHEMA_VERSION
from tests.processes import run_script
from tests.store import older
from tests.store import server as servers
from tests.store.injection import PLAIN
from tests.store.wire import Wire

pytestmark = pytest.mark.integration

CHAT = Aggregator.new().add_user_prompt("When is the next train?")
OPEN = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"


@pytest.fixture
def store(pg_url):
    with open_store(pg_url) as store:
        yield store


@pytest.fixture
def wire(server):
    with Wire(server.port) as wire:
        yield wire


@pytest.fixture
def over(server, schema, wire):
    """A store over the wire."""
    with open_store(server.url(schema, PLAIN, port=wire.port)) as store:
        yield store


@pytest.fixture
def alone():
    """A server that a test may stop."""
    try:
        server = servers.Server(*servers._FAST)
    except RuntimeError as error:
        pytest.fail(str(error), pytrace=False)

    yield server
    server.stop()


def _add_prompt(i, state):
    return state.add_user_prompt(f"{i}")


class TestTrips:
    def test_save(self, over, wire):
        """A save of what is new is one trip, whatever is new in it."""
        state = CHAT
        over.save("chat", state)
        for i in range(3):
            state = state.add(UserMessage(f"{i}")).add_user_prompt("and?")
            before = wire.trips
            over.save("chat", state, label="kept" if i == 2 else "")
            # A label, and where it was moved before, are looked for first.
            assert before + (4 if i == 2 else 1) == wire.trips

    def test_others(self, over, wire, server, schema):
        """
        The other frequent calls take few round trips, however long the
        conversation is, once a connection knows the statements.
        """

        def trips(name, length):
            state = Aggregator.new(messages=[UserMessage("x")] * length)
            for verb in (
                lambda: over.save(name, state),
                lambda: over.load(name),
                lambda: over.latest(name),
                lambda: over.load(name, last=20),
                lambda: over.fork(name, f"{name}, but not"),
            ):
                before = wire.trips
                verb()
                yield wire.trips - before

        list(trips("first", 2_000))

        assert [7, 3, 2, 3, 8] == list(trips("short", 20))
        # What is remembered is not read again, only checked to be the newest.
        assert [9, 3, 2, 3, 8] == list(trips("long", 2_000))


class TestSideBySide:
    def test_adding(self, pg_url, store):
        """
        Blocks that begin by adding on condition run beside each other, and
        none of them beside one that may do anything.
        """
        store.save("chat", CHAT)
        backend: Any = store._cache.backend
        given = [("names", "chat")]
        with open_store(f"{pg_url}&timeout_s=1") as hasty:
            other: Any = hasty._cache.backend
            with backend.writing() as ours:
                ours.add("starts", [(b"a", 1)], if_exists=given)
                assert ours.get("starts", b"a") == (b"a", 1)
                with other.writing() as theirs:
                    theirs.add("starts", [(b"b", 2)], if_exists=given)

                with pytest.raises(StoreError, match="timeout_s"):
                    hasty.label("chat", "here")

            with backend.writing() as ours:
                assert ours.get("names", "chat", ("number",)) == (1,)
                with pytest.raises(StoreError, match="timeout_s"):  # noqa: SIM117 - the block waits
                    with other.writing() as theirs:
                        theirs.add("starts", [(b"c", 3)], if_exists=given)

            hasty.label("chat", "here")

        with backend.reading() as rows:
            keys = rows.scan("starts", b"a", b"d", columns=("digest",))

        assert {(b"a",), (b"b",)} <= set(keys)

    def test_after_a_conflict(self, store):
        """
        A connection on which a block failed is as good as any: also for statements that
        were to be prepared for the first time after the failure.
        """
        store.save("chat", CHAT)
        backend: Any = store._cache.backend
        for given in ([("names", "nobody")], [("names", "chat")]):
            try:
                with backend.writing() as rows:
                    rows.add("starts", [(b"a", 1)], if_exists=given)
                    rows.set("names", "chat", number=1)
            except ConflictError:
                assert [("names", "nobody")] == given

        with backend.reading() as rows:
            assert (b"a", 1) == rows.get("starts", b"a")


class TestWireIsCut:
    def test_lost_answer(self, server, over, wire):
        """
        Where the answer to a COMMIT is lost, the error says so, and to save
        once more is safe: once it is there.
        """
        over.save("chat", CHAT)
        more = CHAT.add_user_prompt("and?")
        wire.cut(4, is_after=True)
        with pytest.raises(UnknownOutcomeError, match="unknown") as caught:
            over.save("chat", more)

        assert wire.mend()
        assert isinstance(pickle.loads(pickle.dumps(caught.value)), StoreError)
        assert 2 == over.save("chat", more).revision
        assert [2, 1] == [head.revision for head in over.history("chat")]

    @pytest.mark.parametrize("is_wrapped", [True, False])
    def test_session_is_ended(self, store, monkeypatch, is_wrapped):
        """
        Where the server ends a session around a COMMIT, and its message comes before
        the end of the connection, the outcome is unknown, too: psycopg may report
        the message, or that it can't leave its pipeline.
        """

        def execute_then_fail(block, queue):
            execute(block, queue)
            if queue[-1][0] == "COMMIT":
                ended = psycopg.errors.AdminShutdown("ended by administrator command")
                if is_wrapped:
                    try:
                        raise ended
                    except psycopg.Error:
                        raise psycopg.OperationalError(
                            "cannot exit pipeline mode while busy"
                        ) from None

                raise ended

        execute = PostgresBlock._execute_queue
        store.save("chat", CHAT)
        more = CHAT.add_user_prompt("and?")
        with monkeypatch.context() as patch:
            patch.setattr(PostgresBlock, "_execute_queue", execute_then_fail)
            with pytest.raises(UnknownOutcomeError, match="administrator command"):
                store.save("chat", more)

        assert 2 == store.save("chat", more).revision
        assert [2, 1] == [head.revision for head in store.history("chat")]


class TestInterrupted:
    def test_in_each_wait(self, pg_url, monkeypatch):
        """
        Ctrl-C while psycopg waits for the server is raised as that, never as an error
        of the server, and the next verb works.
        """
        wait, left = psycopg.waiting.wait, 0

        def stop(*given, **options):
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt

            return wait(*given, **options)

        monkeypatch.setattr(psycopg.waiting, "wait", stop)
        with open_store(f"{pg_url}&timeout_s=60") as store:
            store.save("chat", CHAT)
            for at in range(1, 100):
                state = store.load("chat").add_user_prompt(f"{at}")
                left = at
                try:
                    store.save("chat", state, label="kept")
                    break
                except KeyboardInterrupt:
                    continue
                finally:
                    left = 0

            assert 3 < at < 99
            assert () == store.verify()

    def test_in_psycopg(self, pg_url):
        """
        A connection whose own lock an interrupt left held, as it can from Python
        3.14 on, is replaced, and no thread waits for it.
        """
        with open_store(f"{pg_url}&timeout_s=60&pool_size=1") as store:
            store.save("chat", CHAT)
            backend: Any = store._cache.backend
            with pytest.raises(KeyboardInterrupt), backend.reading() as block:  # noqa: PT012 - all of it
                held = block.connection
                held.lock.__enter__()
                raise KeyboardInterrupt

            assert CHAT == store.load("chat")
            assert held.closed

    def test_by_signals(self, pg_url):
        """After Ctrl-C at any moment the next verb works, and nothing is printed."""
        done = subprocess.run(
            [sys.executable, "-c", _INTERRUPTED, f"{pg_url}&timeout_s=60"],
            capture_output=True,
            text=True,
            check=False,
        )

        assert ("()\n", "", 0) == (done.stdout, done.stderr, done.returncode)

    def test_after_ctrl_c(self, pg_url):
        """What a program that handles Ctrl-C meets in the store is no second Ctrl-C."""
        with open_store(pg_url) as store:
            store.save("chat", CHAT)
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                backend: Any = store._cache.backend
                with pytest.raises(StoreError), backend.reading() as block:
                    block.run("SELECT nothing FROM nowhere")


_INTERRUPTED = """
import random, signal, sys
from conversation_state import Aggregator, open_store

store = open_store(sys.argv[1])
store.save("x", Aggregator.new().add_user_prompt("0"))
verbs = [
    lambda: store.update("x", lambda state: state.add_user_prompt("a")),
    lambda: store.load("x", at=1),
    lambda: store.heads(),
    lambda: store.label("x", "here"),
    lambda: store.fork("x", f"fork {random.random()}"),
]
luck = random.Random(7)
signal.signal(signal.SIGALRM, signal.default_int_handler)
for number in range(120):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, luck.random() * 0.01 + 1e-5)
            verbs[number % len(verbs)]()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    store.latest("x")
print(store.verify())
"""


def _list_children(pid):
    listed = subprocess.run(
        ["pgrep", "-P", f"{pid}"], capture_output=True, text=True, check=False
    )
    return [int(each) for each in listed.stdout.split()]


class TestServerIsGone:
    @pytest.mark.skipif(shutil.which("pgrep") is None, reason="pgrep is missing")
    def test_hangs(self, alone):
        """
        A server that answers nothing any more ends a verb by timeout_s, and the next.
        """
        process: Any = alone._process
        with open_store(alone.url("hangs", "&timeout_s=2")) as store:
            store.save("chat", CHAT)
            children = _list_children(process.pid)
            for each in (process.pid, *children):
                os.kill(each, signal.SIGSTOP)

            try:
                for _ in range(2):
                    with pytest.raises(StoreError):
                        store.latest("chat")
                with pytest.raises(StoreError):
                    store.save("chat", CHAT.add_user_prompt("and?"))
            finally:
                for each in (process.pid, *children):
                    os.kill(each, signal.SIGCONT)

            assert CHAT.messages == store.load("chat").messages[:1]

    def test_idle_connections_are_cut(self, server, store):
        """
        A connection that the server closed while it was idle is replaced, and the
        caller sees no error.
        """
        state = CHAT
        for i in range(5):
            state = state.add_user_prompt(f"{i}")
            store.save("chat", state)
            server.run(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND application_name = %s",
                "conversation_state",
            )

        assert state == store.load("chat")

    def test_hung_up_in_a_block(self, server, store):
        """
        A block whose connection is cut changed nothing, and says so; the next
        one has another.
        """
        store.save("chat", CHAT)
        backend: Any = store._cache.backend
        with pytest.raises(StoreError, match="lost, and nothing was changed"):  # noqa: SIM117, PT012 - the inner one is cut
            with backend.writing() as block:
                block.set("names", "chat", number=7)
                assert (7,) == block.get("names", "chat", ("number",))
                server.run(
                    "SELECT pg_terminate_backend(%s, 10000)",
                    block.connection.info.backend_pid,
                )
                block.get("names", "chat")

        assert CHAT == store.load("chat")

    def test_restarted(self, alone):
        """
        While the server is away each call fails at once and says why; when it
        is back the same store goes on, with all it had acknowledged.
        """
        for how in ("SIGINT", "SIGQUIT"):
            store = open_store(alone.url("chats"))
            state = Aggregator.new().add_user_prompt(how)
            store.save(how, state)
            alone.halt(how)
            # More often than there may be connections.
            for _ in range(10):
                with pytest.raises(StoreError, match=r"can't be reached|connection"):
                    store.save(how, state.add_user_prompt("away"))

            with pytest.raises(StoreError, match="can't be reached"):
                open_store(alone.url("chats"))

            alone.start()
            state = state.add_user_prompt("back")
            store.save(how, state)

            assert state == store.load(how)
            assert () == store.verify()
            store.close()

    def test_no_server_listens(self):
        """A server that is not there is reported as such."""
        with pytest.raises(StoreError, match="can't be reached"):
            open_store("postgresql+psycopg://me@127.0.0.1:1/db")


class TestServerRefuses:
    def test_password(self, server, schema, pg_url):
        """A wrong password is reported without it, and the right one is not shown."""
        server.run(
            "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = "
            "'secretive') THEN CREATE ROLE secretive LOGIN SUPERUSER PASSWORD "
            "'open sesame'; END IF; END $$"
        )
        right = pg_url.replace("postgres@", "secretive:open%20sesame@")
        wrong = pg_url.replace("postgres@", "secretive:hush%2Fhush@")
        with pytest.raises(StoreError, match="the user and the password") as caught:
            open_store(wrong)

        report = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.store}"
        assert "hush" not in report

        with open_store(right) as store:
            shown = f"{store!r} {store.url} {store._cache.backend!r}"

            assert "secretive@127.0.0.1" in shown
            assert "sesame" not in shown

    def test_no_connection_left(self, server, schema):
        """
        A server, and a store, that have no connection left say so, and serve
        again when there is one.
        """
        with open_store(server.url(schema, "&pool_size=1&timeout_s=1")) as store:
            backend: Any = store._cache.backend
            store.save("chat", CHAT)
            with backend.reading(), ThreadPoolExecutor(1) as threads:
                waiting = threads.submit(store.load, "chat")
                with pytest.raises(StoreError, match="pool_size"):
                    waiting.result(30)

            assert CHAT == store.load("chat")

        name = f"few_{schema}"
        server.run(f"CREATE ROLE {name} LOGIN SUPERUSER")
        server.run(f"ALTER ROLE {name} NOSUPERUSER CONNECTION LIMIT 0")
        with pytest.raises(StoreError, match="no connection left"):
            open_store(server.url(schema).replace("postgres@", f"{name}@"))

        server.run(f"DROP ROLE {name}")

    def test_signal_handler(self, server, schema):
        """
        A thread that begins a block in the middle of another, in a signal handler,
        gets another connection, unless both write or the pool is empty: then the
        first block has ended, and raises an error.
        """
        abandoned = pytest.raises(StoreError, match="began another block meanwhile")
        with open_store(server.url(schema, "&pool_size=2&timeout_s=5")) as store:
            backend: Any = store._cache.backend
            with backend.reading() as rows:
                assert None is rows.get("names", "chat")
                store.save("chat", CHAT)
                assert None is rows.get("names", "chat")

            with backend.writing() as rows:
                rows.new_number()
                assert CHAT == store.load("chat")
                rows.new_number()

            with abandoned, backend.writing() as rows:
                rows.new_number()
                store.save("another", CHAT.fork())
                rows.new_number()

            assert ("another", "chat") == store.names()

        with open_store(server.url(schema, "&pool_size=1&timeout_s=5")) as store:
            backend = store._cache.backend
            with abandoned, backend.reading() as rows:
                rows.get("names", "chat")
                store.save("third", CHAT.fork())

            assert ("another", "chat", "third") == store.names()

    def test_read_only(self, server, schema, pg_url):
        """
        A read-only database is read; saves are refused with an error that says why.
        """
        with pytest.raises(StoreError, match=r"without \?mode=ro"):
            open_store(f"{pg_url}&mode=ro")

        with open_store(pg_url) as store:
            store.save("chat", CHAT)

        standby = "&options=-c%20default_transaction_read_only%3Don"
        for options in ("&mode=ro", standby):
            with open_store(pg_url + options) as store:
                assert CHAT == store.load("chat")
                with pytest.raises(StoreError, match="mode=ro"):
                    store.save("chat", CHAT.add_user_prompt("and?"))

                assert CHAT == store.load("chat")

    def test_statement_timeout(self, pg_url, store):
        """A statement that the server cancels is reported, and changes nothing."""
        store.save("chat", CHAT)
        options = "&options=-c%20statement_timeout%3D200"
        with (
            open_store(pg_url + options) as hasty,
            store._cache.backend.writing() as block,
        ):
            block.get("names", "chat")
            with pytest.raises(StoreError, match="statement_timeout"):
                hasty.save("chat", CHAT.add_user_prompt("and?"))

        assert CHAT == store.load("chat")

    def test_busy(self, pg_url, store):
        """
        A save that waits too long for other writers is an error that says what to do.
        """
        store.save("chat", CHAT)
        with open_store(f"{pg_url}&timeout_s=1") as hasty:
            hasty.load("chat")
            with store._cache.backend.writing() as block:
                block.get("names", "chat")
                with pytest.raises(StoreError, match="timeout_s"):
                    hasty.save("chat", CHAT.add_user_prompt("and?"))

                assert CHAT == hasty.load("chat")

            hasty.save("chat", CHAT.add_user_prompt("and?"))

    def test_rights(self, server, schema, pg_url, store):
        """A user without rights gets an error that lists those that are needed."""
        store.save("chat", CHAT)
        name = f"poor_{schema}"
        poor = pg_url.replace("postgres@", f"{name}@")
        server.run(f"CREATE ROLE {name} LOGIN")
        with pytest.raises(StoreError, match=r"lacks a right.*\(USAGE\)"):
            open_store(f"{poor}&mode=ro")

        for right, lacks in (
            ("USAGE ON SCHEMA", "(USAGE)"),
            ("SELECT ON ALL TABLES IN SCHEMA", "SELECT, INSERT, UPDATE"),
        ):
            with pytest.raises(StoreError, match=f"lacks a right.*{re.escape(lacks)}"):
                open_store(poor).save("chat", CHAT)

            server.run(f"GRANT {right} {schema} TO {name}")

        server.run(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "
            f"{schema} TO {name}"
        )
        with open_store(poor) as theirs:
            theirs.save("chat", CHAT.add_user_prompt("and?"))
            collected = theirs.collect_garbage()

            assert "permission denied" in collected.remains

            # The server itself would only warn, and leave all as it is.
            with pytest.raises(StoreError, match=r"let their owner.*permission denied"):
                theirs.collect_garbage(vacuum=True)

        server.run(f"DROP OWNED BY {name}")
        server.run(f"DROP ROLE {name}")

    def test_schema_that_is_there(self, server, schema, pg_url):
        """A schema that an administrator made needs no right to make one."""
        name = f"guest_{schema}"
        server.run(f"CREATE ROLE {name} LOGIN")
        server.run(f"CREATE SCHEMA {schema} AUTHORIZATION {name}")
        with open_store(pg_url.replace("postgres@", f"{name}@")) as store:
            store.save("chat", CHAT)

            assert CHAT == store.load("chat")

        server.run(f"DROP OWNED BY {name}")
        server.run(f"DROP ROLE {name}")

    def test_damage(self, server, schema, store):
        """What the server says of files and values is damage; nothing else is."""
        fail = f"FUNCTION {schema}.fail()"
        server.run(f"CREATE {fail} RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'")
        server.run(
            f"CREATE TRIGGER fails BEFORE INSERT ON {schema}.names EXECUTE {fail}"
        )
        damage = ("XX001", "XX002", "22021", "42703")
        for code in (*damage, "42501", "53100", "58030"):
            server.run(
                f"CREATE OR REPLACE {fail} RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE 'said' USING ERRCODE = '{code}'; END $$"
            )
            with pytest.raises(StoreError, match="said") as raised:
                store.save("chat", CHAT)

            assert (code in damage) == isinstance(raised.value, DamageError)

    def test_tables_are_gone(self, server, schema, store):
        """Tables that were dropped are reported as gone."""
        server.drop(schema)
        with pytest.raises(StoreError, match="tables are gone"):
            store.save("chat", CHAT)

    def test_not_installed(self):
        """Without psycopg the extra is named, and other stores need none."""
        script = (
            "import sys; sys.modules['psycopg'] = None\n"
            "from conversation_state.errors import MissingExtraError\n"
            "from conversation_state.store import open_store\n"
            "open_store('memory:')\n"
            "try: open_store('postgresql://me@host/db')\n"
            "except MissingExtraError as error: print(error)\n"
        )
        output = run_script(script)

        assert issubclass(MissingExtraError, ImportError)
        assert "conversation-state[postgres]" in output


class TestVerifying:
    def test_session_is_ended(self, server, store):
        """
        What can't be read because of the connection is an error of verify, and no
        damage.
        """
        store.save("chat", CHAT)
        for number in range(20):
            store.update("chat", lambda state: state.add_user_prompt(f"{number}"))  # noqa: B023 - called at once

        backend: Any = store._cache.backend
        reads = backend.reading
        for at in range(1, 13):
            left = at

            @contextmanager
            def end_then_read():
                nonlocal left
                with reads() as block:
                    left -= 1
                    scan = block.scan

                    def end_then_scan(*given, **options):
                        block.scan = scan
                        pid = block.connection.info.backend_pid
                        server.run("SELECT pg_terminate_backend(%s)", pid)
                        return scan(*given, **options)

                    if not left:
                        block.scan = end_then_scan

                    yield block

            backend.reading = end_then_read
            try:
                with pytest.raises(StoreError, match="connection"):
                    store.verify()
            finally:
                del backend.reading

        assert () == store.verify()

    def test_locked_table(self, server, schema, pg_url, store):
        """Nor is a table that another session has locked."""
        store.save("chat", CHAT)
        for table in ("entries", "revisions", "blobs"):
            with (
                open_store(f"{pg_url}&timeout_s=1") as other,
                psycopg.connect(server.dsn()) as locking,
            ):
                locking.execute(f"LOCK TABLE {schema}.{table}")  # a name of ours
                with pytest.raises(StoreError, match="timeout_s"):
                    other.verify()

        assert () == store.verify()

    def test_lacking_right(self, server, schema, pg_url, store):
        """Nor is one that this user may not read."""
        store.save("chat", CHAT)
        server.run("DROP ROLE IF EXISTS reader")
        server.run("CREATE ROLE reader LOGIN")
        server.run(f"GRANT USAGE ON SCHEMA {schema} TO reader")
        server.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
        server.run(f"REVOKE SELECT ON {schema}.entries FROM reader")
        url = pg_url.replace("postgres@", "reader@")
        try:
            with (
                open_store(f"{url}&mode=ro") as reader,
                pytest.raises(StoreError, match="lacks a right"),
            ):
                reader.verify()
        finally:
            server.run("DROP OWNED BY reader")
            server.run("DROP ROLE reader")


class TestAddress:
    @pytest.mark.parametrize(
        ("url", "shown", "server"),
        [
            (
                "postgresql://me:a%40b@host:5433/chats?sslmode=require",
                "postgresql://me@host:5433/chats?schema=conversation_state",
                {"password": "a@b", "port": "5433", "sslmode": "require"},
            ),
            (
                "postgresql+psycopg://me:p@ss@host/db?schema=x&pool_size=3",
                "postgresql+psycopg://me@host/db?schema=x",
                {"password": "p@ss", "host": "host"},
            ),
            (
                "postgresql://a:1,b:2/db?target_session_attrs=read-write",
                "postgresql://a:1,b:2/db?schema=conversation_state",
                {"host": "a,b", "port": "1,2", "target_session_attrs": "read-write"},
            ),
            (
                "postgresql://[::1]:7/db",
                "postgresql://[::1]:7/db?schema=conversation_state",
                {"host": "::1", "port": "7"},
            ),
            (
                "postgresql://me@/db?host=/run/pg&port=7",
                "postgresql://me@/db?schema=conversation_state&host=/run/pg&port=7",
                {"host": "/run/pg", "port": "7"},
            ),
            (
                "postgresql:///db?host=a,b&port=1,2",
                "postgresql://a:1,b:2/db?schema=conversation_state",
                {"host": "a,b", "port": "1,2"},
            ),
            (
                "postgresql:///?connect_timeout=3&options=-c%20geqo%3Doff",
                "postgresql:///?schema=conversation_state",
                {"connect_timeout": "3"},
            ),
        ],
    )
    def test_read(self, url, shown, server):
        """A URL is read as libpq reads it, and shown without secrets."""
        address = Address.of(url)

        assert shown == address.url
        assert server.items() <= address.server.items()

    def test_options(self):
        """What is ours is taken, and all else goes on to libpq."""
        address = Address.of(
            "postgresql://host/db?schema=a_1&pool_size=20&timeout_s=2.5&mode=ro"
            "&prepared=off&synchronous_commit=off&options=-c%20geqo%3Doff"
        )

        assert ("a_1", 20, 2.5, "ro", False) == address[2:7]
        assert "pool_size" not in address.server
        assert "-c geqo=off" == address.server["options"]
        assert {
            "search_path": "a_1",
            "lock_timeout": "2250",
            "idle_in_transaction_session_timeout": "3000",
            "synchronous_commit": "off",
            "transaction_read_only": "on",
        } == address.settings

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("postgresql:host/db", "can't be read"),
            ("postgresql://me:hush/hush@host/db", "can't be read"),
            ("postgresql://me:hush#hush@host/db", "can't be read"),
            ("postgresql://me:12?mode=hush@host/db", "can't be read"),
            ("postgresql://me:hush:hush/db", "can't be read"),
            ("postgresql://host/db?hush", "can't be read"),
            ("postgresql://host/db?schemas=x", "unknown option 'schemas'"),
            (f"postgresql://host/db?schema={'s' * 64}", "1 to 63 of a-z, 0-9"),
            ("postgresql://host/db?password=hush&password=x", "is given twice"),
            ("postgresql://host/db?host=other", "host is given before the ?"),
            ("postgresql://me:hush@host/?password=x", "password is given before"),
            ("postgresql://me:hush%00@host/db", "can't be read"),
            ("postgresql://host/db?sslcert=a%00b", "no value has U+0000"),
            ("postgresql://host/db\0more", "can't be read"),
            ("postgresql://me:hush%@host/db", "such as @ : / ? # %"),
            ("postgresql://host/db?password=hush%ff", "can't be read"),
            ("postgresql://host/db?pool_size=0", "1 to 9999"),
            ("postgresql://host/db?timeout_s=0", "more than 0"),
            ("postgresql://host/db?mode=rwc", "ro or rw"),
            ("postgresql://host/db?synchronous_commit=maybe", "remote_apply"),
        ],
    )
    def test_unreadable(self, url, why):
        """
        What can't be read is refused at once, and nothing of it repeated that
        may be a password.
        """
        with pytest.raises(StoreError) as caught:
            open_store(url)

        assert why in str(caught.value)
        assert "hush" not in f"{caught.value!r} {caught.value.__cause__!r}"

    @pytest.mark.parametrize(
        "option",
        ["sslmode=foo", "keepalives=x", "connect_timeout=soon", "options=-c%20x=1"],
    )
    def test_wrong_value(self, pg_url, option):
        """
        A value that libpq or the server can't take is not called a server that
        can't be reached.
        """
        with pytest.raises(StoreError, match="an option of this URL") as caught:
            open_store(f"{pg_url}&{option}")

        assert "can't be reached" not in str(caught.value)


class TestTables:
    def test_foreign(self, server, schema, pg_url):
        """Another program's tables are left alone, whichever they are."""
        for table, columns in (
            ("names", "x int"),
            ("conversation_state", "x int"),
            ("conversation_state", "version text"),
        ):
            server.run(f"CREATE SCHEMA {schema}")
            server.run(f"CREATE TABLE {schema}.{table} ({columns})")
            with pytest.raises(StoreError, match=f"{table}.*another program.*schema="):
                open_store(pg_url)

            sql = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"

            assert [(1,)] == server.run(sql, schema)
            server.drop(schema)

    def test_missing(self, server, schema, pg_url):
        """Tables that lack one are not taken for whole."""
        open_store(pg_url).close()
        server.run(f"DROP TABLE {schema}.uses")
        with pytest.raises(StoreError) as caught:
            open_store(pg_url)

        problem = "the tables uses are missing; restore a backup"
        assert problem == caught.value.problem
        assert schema in caught.value.store
        assert caught.value.store.startswith("postgresql+psycopg://")

    def test_steps(self, server, schema, pg_url, monkeypatch):
        """Older tables are brought up to date step by step, all at once."""
        with open_store(pg_url) as store:
            store.save("chat", CHAT)

        def second(connection):
            connection.execute("CREATE TABLE second (x int)")

        def third(connection):
            connection.execute("INSERT INTO second VALUES (3)")
            if fails:
                raise RuntimeError

        version = SCHEMA_VERSION
        steps = (Step(each, each) for each in (second, third))
        monkeypatch.setattr(_tables, "STEPS", (*STEPS, *steps))
        monkeypatch.setattr(_tables, "SCHEMA_VERSION", version + 2)
        fails = True
        with pytest.raises(RuntimeError):
            open_store(pg_url)

        mark = f"SELECT version FROM {schema}.conversation_state"

        assert [(version,)] == server.run(mark)

        fails = False
        for _ in range(2):
            with open_store(pg_url) as store:
                assert CHAT == store.load("chat")

        assert [(3,)] == server.run(f"SELECT x FROM {schema}.second")
        assert [(version + 2,)] == server.run(mark)

    def test_encoding(self, server):
        """A database that lacks most characters is refused."""
        server.run(
            "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'"
        )
        with pytest.raises(StoreError, match="UTF8"):
            open_store(server.url("x").replace("/postgres?", "/latin?"))

        server.run("DROP DATABASE latin")

    def test_nothing_holds_nul(self, store):
        """A text that no row can hold finds none, and none is skipped for it."""
        for name in ("a", "a\x01", "b"):
            store.save(name, CHAT)

        assert () == store.names(prefix="a\0") == store.heads(prefix="a\0")
        assert ["a\x01", "b"] == [each.name for each in store.heads(after="a\0b")]

    def test_scrub_skipped(self, server, schema, store):
        """
        A table that another session holds is not vacuumed, and the receipt of the
        erasure, which is done, says so; erasing once more does it.
        """
        store.save("chat", CHAT)
        with psycopg.connect(server.dsn()) as other:
            # What a VACUUM takes, so that no writer has to wait.
            other.execute(f"LOCK TABLE {schema}.blobs IN SHARE UPDATE EXCLUSIVE MODE")
            receipt = store.erase(CHAT.entries[0].id, reason="asked")

        assert 1 == receipt.rows
        assert "blobs" in receipt.remains
        assert "" == store.load("chat")[0].text
        assert "" == store.erase(CHAT.entries[0].id, reason="asked").remains

    def test_vacuum(self, server, schema, pg_url, store):
        """
        Tables are rewritten while others read and write, who wait and lose nothing; if
        another session blocks it for too long, that is reported.
        """
        store.save("chat", CHAT)
        until = threading.Event()

        def write():
            count = 0
            while not (count and until.is_set()):
                store.update(
                    "mine", partial(_add_prompt, count), start=Aggregator.new()
                )
                count += 1

            return count

        def read():
            while not until.is_set():
                assert CHAT == store.load("chat", at=1)
                assert 1 == len(store.load("chat", last=1).messages)

        with ThreadPoolExecutor(2) as threads:
            done = [threads.submit(write), threads.submit(read)]
            for _ in range(3):
                store.collect_garbage(vacuum=True)

            until.set()
            result, _ = [each.result() for each in done]

        assert result == len(store.load("mine"))
        assert () == store.verify()
        with (
            psycopg.connect(server.dsn()) as other,
            open_store(f"{pg_url}&timeout_s=1") as hasty,
        ):
            other.execute(f"SELECT count(*) FROM {schema}.entries")
            with pytest.raises(StoreError, match="timeout_s"):
                hasty.collect_garbage(vacuum=True)

            assert CHAT == hasty.load("chat")

        store.collect_garbage(vacuum=True)

    def test_erased_is_in_no_statistics(self, server, schema, store):
        """
        Nothing that was erased, deleted or labelled is readable once a collection
        with vacuum is done: neither in the planner's statistics, whenever the
        server took its samples, nor in any file of the database.
        """
        texts = [f"secret-{turn:03}" for turn in range(60)]
        state = CHAT.extend([UserMessage(f"{words} " * 9) for words in texts])
        store.save("chat", state)
        for words in texts:
            store.save(f"title of {words}", CHAT, label=f"label of {words}")

        # As autovacuum does it, at any moment.
        server.run("ANALYZE")
        for entry in state.entries[1:]:
            store.erase(entry.id, reason="asked for")

        server.run("ANALYZE")
        for words in texts:
            store.delete(f"title of {words}")

        store.collect_garbage(vacuum=True)
        sampled = "SELECT attname, s::text FROM pg_stats s WHERE schemaname = %s"
        before = dict(server.run(sampled, schema))
        server.run("ANALYZE")
        server.run("CHECKPOINT")
        samples = before | dict(server.run(sampled, schema))
        base = server.folder / "data" / "base"
        files = b"".join(
            path.read_bytes() for path in base.rglob("*") if path.is_file()
        )

        assert {"place", "revision", "length"} <= samples.keys()
        assert not {"body", "name", "label", "labels", "data", "value"} & samples.keys()
        assert b"When is the next train?" in files
        assert b"secret-0" not in files
        assert b"secret-0".hex() not in "".join(samples.values())
        assert "secret-0" not in "".join(samples.values())

    def test_problems(self, server, schema, store):
        """An index that the server calls invalid is named."""
        assert () == store.verify()

        server.run(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = "
            f"'{schema}.entries_pkey'::regclass"
        )
        (damage,) = store.verify()

        assert ("medium", True) == (damage.where, "entries_pkey" in damage.what)

    def test_numbers(self, server, schema, store):
        """Numbers that would be given twice are found."""
        store.save("chat", CHAT)
        server.run(f"UPDATE {schema}.numbers SET last = 0")
        (damage,) = store.verify()

        assert ("medium", True) == (damage.where, "last number" in damage.what)

    def test_one_more_column(self, server, schema, pg_url, monkeypatch):
        """
        Rows of older tables get one more column, of which the planner takes no
        samples, as of all others.
        """
        with open_store(pg_url) as store:
            store.save("chat", CHAT, label="asked")

        with psycopg.connect(server.dsn()) as connection:
            connection.execute(f"SET search_path TO {schema}")
            older.drop_notes_in_postgres(connection)

        monkeypatch.setattr(_tables, "STEPS", (*STEPS, older.ADD_NOTES))
        monkeypatch.setattr(_tables, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
        with open_store(pg_url) as store:
            assert () == store.verify()
            assert {"by": "ann"} == store.annotate("chat", {"by": "ann"}, at="asked")
            assert () == store.verify()

        samples = (
            "SELECT attstattarget FROM pg_attribute WHERE attname = 'notes'"
            f" AND attrelid = '{schema}.revisions'::regclass"
        )
        assert [(0,)] == server.run(samples)


class TestProcesses:
    def test_threads_open_at_once(self, pg_url):
        """The same for sixteen threads, which are nearer to one moment."""
        barrier = threading.Barrier(16)

        def start(who):
            barrier.wait()
            with open_store(pg_url) as store:
                store.save(f"{who}", CHAT)

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(start, range(16)))

        with open_store(pg_url) as store:
            assert 16 == len(store.names())

    def test_let_go(self, server, schema):
        """A store that was not closed is closed with its last reference."""
        options = f"&application_name={schema}"
        store = open_store(server.url(schema, options))
        store.save("chat", CHAT)

        assert 1 == len(server.run(OPEN, schema))

        del store
        until = time.monotonic() + 30
        while server.run(OPEN, schema) and time.monotonic() < until:
            time.sleep(0.01)

        assert [] == server.run(OPEN, schema)

    def test_threads(self, server, schema, pg_url, caplog):
        """
        Threads that save at the same time, and to one name, lose nothing, log nothing,
        and open no more connections than the limit.
        """
        caplog.set_level(logging.INFO, "psycopg")
        options = f"&pool_size=3&application_name={schema}"
        with open_store(f"{pg_url}{options}") as store:
            store.save("shared", Aggregator.new())

            def append_texts(who):
                for i in range(10):
                    for name in ("shared", f"own {who}"):
                        step = partial(Aggregator.add_user_prompt, prompt=f"{who} {i}")
                        store.update(name, step, start=Aggregator.new())

            with ThreadPoolExecutor(6) as threads:
                list(threads.map(append_texts, range(6)))

            texts = [message.text for message in store.load("shared")]
            for who in range(6):
                mine = [text for text in texts if text.startswith(f"{who} ")]
                assert [f"{who} {i}" for i in range(10)] == mine

            assert 60 == len(texts)
            assert () == store.verify()
            assert 3 >= len(server.run(OPEN, schema))

        assert [] == caplog.messages

    def test_prepared_off(self, pg_url):
        """Nothing stays prepared for those who have a pooler in between."""
        with open_store(f"{pg_url}&prepared=off") as store:
            state = CHAT
            for _ in range(10):
                state = state.add_user_prompt("and?")
                store.save("chat", state)

            with store._cache.backend.reading() as rows:
                rows.get("names", "chat")
                sql = "SELECT count(*) FROM pg_prepared_statements"
                count = rows.connection.execute(sql).fetchone()  # type: ignore[attr-defined]

            assert (0,) == count
