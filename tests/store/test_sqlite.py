"""The store in a file keeps every promise of a store, and those of a file."""

import os
import pickle
import re
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings

import conversation_state
from conversation_state import Aggregator, ImagePart, Usage, UserMessage
from conversation_state.codec import encode_message
from conversation_state.errors import StoreError
from conversation_state.store import Store, open_store
from conversation_state.store.backends import _sqlite
from conversation_state.store.backends._sql import STEPS, Step
from conversation_state.store.backends._sqlite import (
    APPLICATION_ID,
    SqliteBackend,
    SqliteOptions,
)
from conversation_state.store.backends._sqlite_log import VERSION_MASK
from conversation_state.store.schema import SCHEMA_VERSION, Branch, Start
from tests.store.machine import StoreMachine
from tests.store.promises.contract import StorePromises

ROOT = Path(__file__).resolve().parent.parent.parent
CHAT = Aggregator.new().add_user_prompt("When is the next train?")


def at(folder, options=""):
    return f"sqlite:///{folder}/chats.db{options}"


@pytest.fixture
def url(tmp_path):
    return at(tmp_path)


def run_sql(path, statement):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.close()


class TestSqlite(StorePromises):
    def backend(self, folder):
        return SqliteBackend(f"{folder}/chats.db", SqliteOptions())


class TestSeveralFiles(StorePromises):
    """The same where each store has connections of its own, as processes have."""

    test_fails_anywhere: Any = None  # asks for no other store

    def backend(self, folder):
        return SqliteBackend(f"{folder}/chats.db", SqliteOptions())

    def other(self, store, *, remembered=100):
        url = store.url
        path = url.removeprefix("sqlite:///")
        return Store(SqliteBackend(path, SqliteOptions()), remembered=remembered)


class SqliteMachine(StoreMachine):
    def opened(self):
        self._folder = tempfile.TemporaryDirectory()
        path = f"{self._folder.name}/chats.db"
        return [
            Store(SqliteBackend(path, SqliteOptions()), remembered=remembered)
            for remembered in (100, 1, 0)
        ]

    def teardown(self):
        super().teardown()
        self._folder.cleanup()


TestMachine = SqliteMachine.TestCase
# The machine itself is put to the test in memory; here it shows that a file's
# rows do as those do.
TestMachine.settings = settings(
    stateful_step_count=30, max_examples=max(settings().max_examples // 5, 1)
)


class TestFile:
    def test_one_file_is_left(self, url, tmp_path):
        """A store that was closed is one file, of ours by its id."""
        with open_store(url) as store:
            store.save("chat", CHAT)

        assert [tmp_path / "chats.db"] == list(tmp_path.iterdir())

        connection = sqlite3.connect(tmp_path / "chats.db")
        assert (APPLICATION_ID,) == connection.execute(
            "PRAGMA application_id"
        ).fetchone()
        assert ("wal",) == connection.execute("PRAGMA journal_mode").fetchone()
        connection.close()

    def test_small(self, url, tmp_path):
        """
        800 messages of 500 characters, saved after each of them: a file of about one
        and a half times their JSON; six or seven of their rows are a page.
        """
        state = Aggregator.new()
        with open_store(url) as store:
            for _ in range(800):
                state = state.add(UserMessage("x" * 500))
                store.save("chat", state)

            assert state.messages[:400] == store.load("chat", at=400).messages

        raw = sum(len(encode_message(message)) for message in state)
        assert raw * 1.6 > (tmp_path / "chats.db").stat().st_size

    def test_paths(self, tmp_path, monkeypatch):
        """
        A path is the address of its file, as a text with a dot or a slash in it or
        as a path; nothing in it is read as in a URL, where three slashes are the
        current folder and ``%`` quotes.
        """
        monkeypatch.chdir(tmp_path)
        (tmp_path / "folder").mkdir()
        for given, path in (
            ("chats.db", "chats.db"),
            ("sqlite:///chats.db", "chats.db"),
            ("sqlite:///a%20b%3Fc%23.db", "a b?c#.db"),
            ("./a%20b.db", "a%20b.db"),
            ("folder/chats", "folder/chats"),
            (f"{tmp_path}/c d?.db", "c d?.db"),
            (Path("chats.db?mode=ro"), "chats.db?mode=ro"),
            ("sqlite:///chats.db%3Fmode%3Dro", "chats.db?mode=ro"),
            (Path("folder") / "é#.db", "folder/é#.db"),
            (tmp_path / "chats", "chats"),
            *[(name, name) for name in ("10:30.db", "a:b", "C:x.db", ":x", "a?b#%20")],
        ):
            with open_store(given) as store:
                store.save("chat", CHAT)
                url = store.url

            assert (tmp_path / path).is_file()
            with open_store(url) as store:
                assert CHAT == store.load("chat")

    @pytest.mark.parametrize(("given", "found"), [("", 1), ("?synchronous=full", 2)])
    def test_synchronous(self, tmp_path, given, found):
        """The durability of a save is an option of the URL, for each connection."""
        with open_store(at(tmp_path, given)) as store:
            backend: Any = store._cache.backend
            with backend.reading() as one, backend.reading() as two:
                for block in (one, two):
                    (level,) = block.run("PRAGMA synchronous").fetchone()

                    assert found == level

    @pytest.mark.parametrize(
        ("synchronous", "least", "most"), [("full", 200, 300), ("normal", 600, 4100)]
    )
    def test_length_of_the_log(self, tmp_path, synchronous, least, most):
        """
        Where each save is synced, the log beside the file is written from its start
        again when it is a megabyte long, and copied no more often than that: to sync a
        file that grows takes longer.
        """
        statements: list[Any] = []
        state = Aggregator.new()
        with open_store(at(tmp_path, f"?synchronous={synchronous}")) as store:
            backend: Any = store._cache.backend
            backend._idle[-1].set_trace_callback(statements.append)
            for _ in range(60):
                state = state.add_user_prompt("x" * 100_000)
                store.save("chat", state)

            pages = (tmp_path / "chats.db-wal").stat().st_size // 4120

        copied = sum("wal_checkpoint" in statement for statement in statements)
        assert least < pages < most
        assert copied <= 9

    def test_not_pickled(self, url):
        """A store is not sent anywhere: its URL is."""
        with open_store(url) as store, pytest.raises(TypeError, match=r"chats\.db"):
            pickle.dumps(store)

    def test_let_go(self, tmp_path):
        """A store that was not closed is closed with its last reference."""
        store = open_store(at(tmp_path))
        store.save("chat", CHAT)
        del store

        assert [tmp_path / "chats.db"] == list(tmp_path.iterdir())


def count_functions(run):
    """The package's functions that a *run* calls, and the files that they are in."""
    package = str(Path(conversation_state.__file__).parent)
    called = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            called.add(frame.f_code)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)

    return len(called), len({code.co_filename for code in called})


class TestAddAtOnce:
    """A state that grew from the head is saved in one call, or as any other."""

    ROWS: ClassVar[dict[str, Any]] = {
        "branches": [Branch(7, 0, 0), Branch(8, 0, 0)],
        "starts": [Start(b"", 7)],
    }

    @pytest.mark.parametrize("is_there", [(), ("starts",), ("branches", "starts")])
    @pytest.mark.parametrize("taken", [None, Branch(7, 0, 0), Branch(8, 0, 0)])
    def test_all_or_nothing(self, tmp_path, is_there, taken):
        """Rows are added if the condition is met and no key is taken, or none is."""
        backend = SqliteBackend(f"{tmp_path}/chats.db", SqliteOptions())
        with backend.writing() as block:
            for table in is_there:
                row = Start(b"there", 1) if table == "starts" else Branch(1, 0, 0)
                block.add(table, [row])

            if taken:
                block.add("branches", [taken])

        def rows():
            with backend.reading() as block:
                return [block.scan(each, None, None) for each in ("branches", "starts")]

        before = rows()
        condition, keys = (("starts",), ("branches",)), (b"there", 1)
        is_added = backend.add_at_once(condition, keys, self.ROWS)

        assert is_added == (is_there == ("starts",) and taken is None)
        assert is_added or rows() == before
        assert not is_added or {7, 8} == {row[0] for row in rows()[0]}
        with backend.writing() as block:  # the connection has no transaction left
            block.add("branches", [Branch(9, 0, 0)])

        assert 1 == len(backend._idle)
        backend.close()

    @pytest.mark.parametrize("usage", [None, Usage(prompt_tokens=3)])
    def test_one_statement(self, url, usage):
        """A message, with what it cost, is saved in one statement, on its condition."""
        with open_store(url) as store:
            state = CHAT.add_usage(Usage(prompt_tokens=1))
            store.save("chat", state)
            calls: list[str] = []
            backend: Any = store._cache.backend
            for _ in range(2):
                state = state.add_assistant_message("At nine.")
                state = state if usage is None else state.add_usage(usage)
                (connection,) = backend._idle
                calls.clear()
                connection.set_trace_callback(calls.append)
                store.save("chat", state)
                connection.set_trace_callback(None)

            # Steps of a trigger are named by a comment, or by their statement.
            assert 1 == len({each for each in calls if not each.startswith("--")})
            assert state == Store(store._cache.backend).load("chat")
            assert store.verify() == ()

    def test_interrupted_by_a_save(self, url, monkeypatch):
        """A save in a signal handler in the middle of another one: that is refused."""
        with open_store(url) as store:
            store.save("chat", CHAT)
            check_log = SqliteBackend._check_log

            def save_meanwhile(backend, connection):
                monkeypatch.setattr(SqliteBackend, "_check_log", check_log)
                connection.execute("BEGIN IMMEDIATE")
                store.save("other", CHAT)

            monkeypatch.setattr(SqliteBackend, "_check_log", save_meanwhile)
            with pytest.raises(StoreError, match="began another block meanwhile"):
                store.save("chat", CHAT.add_assistant_message("At nine."))

            grown = CHAT.add_assistant_message("At ten.")

            assert 2 == store.save("chat", grown).revision
            assert store.load("other") == CHAT
            assert store.verify() == ()

    @pytest.mark.parametrize("verb", ["save", "label"])
    def test_a_save_behind_the_commit(self, url, monkeypatch, verb):
        """A save in a signal handler behind the commit of another verb: both stay."""
        with open_store(url) as store:
            store.save("chat", CHAT)
            end = SqliteBackend._end_block

            def save_first(*given):
                monkeypatch.setattr(SqliteBackend, "_end_block", end)
                store.save("other", CHAT)
                end(*given)

            monkeypatch.setattr(SqliteBackend, "_end_block", save_first)
            grown = CHAT.add_assistant_message("At ten.")
            if verb == "save":
                store.save("chat", grown)
            else:
                store.label("chat", "first")
                store.save("chat", grown)

            assert {"chat": grown, "other": CHAT} == {
                name: Store(store._cache.backend).load(name) for name in store.names()
            }
            backend: Any = store._cache.backend
            assert all(each.file for each in backend._idle)

    def test_large_content(self, url):
        """Large content is kept once, also if a later message shows it again."""
        shown = UserMessage([ImagePart(data=bytes(range(256)) * 40)])
        with open_store(url) as store:
            state = CHAT
            store.save("chat", state)
            for _ in range(3):
                state = state.add(shown).add_assistant_message("A train.")
                store.save("chat", state)

            with store._cache.read() as transaction:
                assert 1 == len(transaction.tables.scan("blobs", None, None))

        with open_store(url) as store:
            assert state == store.load("chat")
            assert store.verify() == ()

    def test_functions(self, url):
        """A save of one message runs through few functions, which a reader can hold."""
        with open_store(url) as store:
            store.save("chat", CHAT)
            grown = CHAT.add_assistant_message("At nine.")
            functions, files = count_functions(lambda: store.save("chat", grown))

            assert functions <= 30
            assert files <= 10


class TestErrors:
    def test_save_in_a_reader(self, tmp_path):
        """A store that was opened to read says how it can be written."""
        path = tmp_path / "chats.db"
        open_store(path).close()

        wrong = pytest.raises(StoreError, match=r"open it without \?mode=ro")

        with open_store(f"sqlite:///{path}?mode=ro") as store, wrong:
            store.save("chat", CHAT)

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("", "invalid URL of a store"),
            ("postgres", "invalid URL of a store"),
            ("memory", "invalid URL of a store"),
            ("sqlite", "invalid URL of a store"),
            (":memory:", "has the URL memory:"),
            ("file:x.db", "invalid URL of a store"),
            ("mysql://secret@host/db", "invalid URL of a store"),
            ("memory:x", "memory: alone"),
            ("a b.db?mode=ro", "in a URL: sqlite:///a%20b.db?mode=ro; a file"),
            (
                "/srv/chats.db?timeout_s=3",
                "sqlite:////srv/chats.db?timeout_s=3; a file",
            ),
            ("chats.db?ro", "in a URL: sqlite:///chats.db?mode=ro; a file"),
            ("chats.db?", "in a URL: sqlite:///chats.db?mode=ro; a file"),
            (
                "chats.db#mode=ro",
                "a file of this name is sqlite:///chats.db%23mode%3Dro",
            ),
            (
                "sqlite:///chats.db;mode=ro",
                "in a URL: sqlite:///chats.db?mode=ro; a file",
            ),
            ("sqlite://chats.db", "three slashes"),
            ("sqlite:///", "names no file"),
            ("sqlite:///:memory:", "memory:"),
            ("sqlite:///chats.db?sync=full", "unknown option 'sync'"),
            ("sqlite:///chats.db?synchronous=off", "synchronous=off"),
            ("sqlite:///chats.db?timeout_s=-1", "timeout_s=-1"),
            ("sqlite:///no/such/folder/chats.db", "there is no folder"),
            ("sqlite:///chats.db?mode=ro&mode=rwc", "given twice"),
            ("sqlite:///%ff.db", "no UTF-8"),
            ("\udcff.db", "no UTF-8"),
            ("sqlite:///" + "a" * 300, "can't be opened"),
            ("sqlite:///\ud800.db", "can't be opened"),
            ("sqlite:///chats.db?mode=ro", "no such file, and ?mode=ro creates none"),
        ],
    )
    def test_urls(self, url, why, tmp_path, monkeypatch):
        """What names no store is refused, with what does, and without secrets."""
        monkeypatch.chdir(tmp_path)
        with pytest.raises(StoreError) as caught:
            open_store(url)

        assert why in str(caught.value)
        assert "secret" not in str(caught.value)
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("make", "why"), [("mkdir", "directory"), ("mkfifo", "a pipe")]
    )
    def test_no_file(self, url, tmp_path, make, why):
        """What is not a file is reported, and not waited for."""
        if not hasattr(os, make):
            pytest.skip("this system has no pipes")

        getattr(os, make)(tmp_path / "chats.db")
        with pytest.raises(StoreError, match=why):
            open_store(url)

    def test_linked(self, url, tmp_path):
        """
        A link to a file is that file, also to one that does not exist yet; one that
        leads nowhere is reported.
        """
        (tmp_path / "chats.db").symlink_to("there.db")
        with open_store(url) as store:
            store.save("chat", CHAT)

        with open_store(f"sqlite:///{tmp_path}/there.db") as store:
            assert CHAT == store.load("chat")

        (tmp_path / "loop.db").symlink_to("loop.db")
        with pytest.raises(StoreError, match="can't be opened"):
            open_store(f"sqlite:///{tmp_path}/loop.db")

    def test_no_folder(self, tmp_path):
        """A folder that is not there is named, by a backup too, and not made."""
        missing = tmp_path / "a" / "b"
        problem = f"there is no folder {str(missing)!r}"

        with pytest.raises(StoreError, match=f"{re.escape(problem)}$"):
            open_store(missing / "chats.db")
        with (
            open_store(tmp_path / "chats.db") as store,
            pytest.raises(StoreError, match=f"{re.escape(problem)}$"),
        ):
            store.backup(missing / "copy.db")
        assert not missing.parent.exists()

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (lambda path: path.write_bytes(b"Dear diary, " * 1_000), "no SQLite datab"),
            (lambda path: path.write_bytes(b"x"), "no SQLite database"),
            (lambda path: run_sql(path, "PRAGMA user_version = 30"), "30.*upgrade"),
        ],
        ids=["a text", "one byte", "newer"],
    )
    def test_left_as_it_is(self, url, tmp_path, change, why):
        """A file that is not a database, or a newer version's, is left as it is."""
        path = tmp_path / "chats.db"
        open_store(url).close()
        change(path)
        before = path.read_bytes()
        with pytest.raises(StoreError, match=why):
            open_store(url)

        assert before == path.read_bytes()

    def test_busy(self, tmp_path):
        """
        A save that waits too long for another process is an error that says what to do.
        """
        with open_store(at(tmp_path, "?timeout_s=0")) as store:
            store.save("chat", CHAT)
            other = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="timeout_s"):
                store.save("chat", CHAT.add_user_prompt("and?"))

            assert CHAT == store.load("chat")
            other.close()
            store.save("chat", CHAT.add_user_prompt("and?"))

    @pytest.mark.parametrize(
        ("given", "options", "why"),
        [
            *((given, {}, "sqlite:///") for given in (None, 7, b"chats.db")),
            *(("memory:", {"remembered": n}, "remembered") for n in (None, "7", 1.5)),
        ],
    )
    def test_types(self, given, options, why):
        """An address is a text or a path; how many names are remembered is a number."""
        with pytest.raises(TypeError, match=why):
            open_store(given, **options)


class TestMigration:
    def test_steps(self, url, tmp_path, monkeypatch):
        """An older file is brought up to date step by step, all at once."""
        with open_store(url) as store:
            store.save("chat", CHAT)

        def second(connection):
            connection.execute("CREATE TABLE second (x)")

        def third(connection):
            connection.execute("INSERT INTO second VALUES (3)")
            if fails:
                raise RuntimeError

        newest = SCHEMA_VERSION + 2
        steps = (Step(each, each) for each in (second, third))
        monkeypatch.setattr(_sqlite, "STEPS", (*STEPS, *steps))
        monkeypatch.setattr(_sqlite, "SCHEMA_VERSION", newest)
        before = (tmp_path / "chats.db").read_bytes()
        fails = True
        with pytest.raises(RuntimeError):
            open_store(url)

        assert before == (tmp_path / "chats.db").read_bytes()

        fails = False
        for _ in range(2):
            with open_store(url) as store:
                assert CHAT == store.load("chat")

        connection = sqlite3.connect(tmp_path / "chats.db")
        assert [(3,)] == connection.execute("SELECT * FROM second").fetchall()
        (mark,) = connection.execute("PRAGMA user_version").fetchone()
        assert newest == mark & VERSION_MASK
        connection.close()


class TestProcesses:
    def test_opened_again_beside(self, url):
        """
        Opening a file once more, and closing it, leaves alone what the same process has
        open: the log stays when others come and go.
        """
        script = """
            import sys
            from conversation_state.store import open_store

            with open_store(sys.argv[1]) as store:
                print(len(store.load("chat")))
        """
        ask = [sys.executable, "-c", textwrap.dedent(script), url]
        with open_store(url) as store:
            store.save("chat", CHAT)
            open_store(url).close()
            outputs = [subprocess.check_output(ask, cwd=ROOT)]
            store.save("chat", CHAT.add_user_prompt("and?"))
            outputs += [subprocess.check_output(ask, cwd=ROOT)]

        assert [1, 2] == [int(each) for each in outputs]


class TestThreads:
    def test_readers_do_not_wait(self, url):
        """Readers don't wait for writers."""
        with open_store(url) as store:
            store.save("chat", CHAT)
            read = []
            with store._cache.backend.writing() as block:
                block.set("names", "chat", number=7)
                reader = threading.Thread(
                    target=lambda: read.append(store.load("chat", last=1))
                )
                reader.start()
                reader.join(30)
                block.set("names", "chat", number=1)

            assert ["When is the next train?"] == [m.text for m in read[0].messages]
