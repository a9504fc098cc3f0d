"""
Files in trouble: full disks, missing rights, files that others hold, cut off, replaced
or removed. Each is an error that says what is wrong, and nothing gets worse.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conversation_state import Aggregator, UserMessage
from conversation_state.errors import StoreError
from conversation_state.store import open_store

ROOT = Path(__file__).resolve().parent.parent.parent
CHAT = Aggregator.new().add_user_prompt("When is the next train?")
MORE = CHAT.add_user_prompt("and?")
LARGE = CHAT.extend([UserMessage("x" * 3_000)] * 200)


@contextmanager
def folder_of_another():
    """
    A folder of another user, who may not write whatever the rights are. Not a fixture:
    between the phases of a test, coverage writes files of its own.
    """
    if not hasattr(os, "geteuid"):
        pytest.skip("this system has other rights")

    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if is_root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)

        try:
            yield folder
        finally:
            if is_root:
                os.seteuid(0)

            folder.chmod(0o755)


def child(script, *given):
    """What a process prints that runs *script*."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, given)],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
        timeout=120,
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chats.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


class TestFull:
    def test_every_verb(self, url):
        """
        Where no page is left, each verb that writes raises an error; reading goes on,
        and all of it works once there is room.
        """
        with open_store(url) as store:
            store.save("chat", CHAT)
            backend: Any = store._cache.backend
            with backend.reading() as block:
                (pages,) = block.run("PRAGMA page_count").fetchone()
                block.run(f"PRAGMA max_page_count = {pages}").fetchall()

            for write in (
                lambda: store.save("chat", LARGE),
                lambda: store.save("other", LARGE.fork()),
                lambda: store.update("chat", lambda s: s.add_user_prompt("x" * 9_000)),
            ):
                with pytest.raises(StoreError, match="disk is full; free some space"):
                    write()

                assert CHAT == store.load("chat")
                assert ("chat",) == store.names()
                assert () == store.verify()

            with backend.reading() as block:
                block.run("PRAGMA max_page_count = 1000000").fetchall()

            store.save("chat", LARGE)
            assert LARGE == store.load("chat")


class TestRights:
    def test_given_back(self):
        """
        A file that can't be written is read, and saves are errors that say why. When
        the rights are given back, as the error advises, the same store writes: at once,
        in a block that was opened to read meanwhile as well.
        """
        with folder_of_another() as folder:
            path, url = folder / "chats.db", f"sqlite:///{folder}/chats.db"
            with open_store(url) as store:
                store.save("chat", CHAT)

            path.chmod(0o444)
            before = path.read_bytes()
            with open_store(url) as store:
                for save in (
                    lambda: store.save("chat", MORE),
                    lambda: store.save("new", CHAT.fork()),
                    lambda: store.fork("chat", "fork"),
                    lambda: store.label("chat", "here"),
                    lambda: store.delete("chat"),
                    lambda: store.erase(CHAT.entries[0].id, reason="asked"),
                ):
                    assert CHAT == store.load("chat")
                    with pytest.raises(StoreError, match=r"mode=ro"):
                        save()

                store.load("chat")
                assert before == path.read_bytes()

                path.chmod(0o644)
                store.save("chat", MORE)
                path.chmod(0o444)
                store.save("chat", MORE.add_user_prompt("as it is open"))

            path.chmod(0o644)
            with open_store(url) as store:
                assert ("chat",) == store.names()
                assert 3 == len(store.load("chat"))


class TestTooManyFiles:
    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
    def test_every_verb(self, url):
        """
        Where the process can open no more files, each verb that needs one raises an
        error, and works when it can again.
        """
        output = child(
            """
            import os, resource, sys
            from conversation_state import Aggregator
            from conversation_state.errors import StoreError
            from conversation_state.store import open_store

            chat = Aggregator.new().add_user_prompt("first")
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            with open_store(sys.argv[1]) as store:
                store.save("chat", chat)
                for verb in (
                    lambda: store.save("chat", chat.add_user_prompt("and?")),
                    lambda: store.save("new", chat.fork()),
                    lambda: store.load("chat"),
                    lambda: store.names(),
                    lambda: store.verify(),
                    lambda: store.erase(chat.entries[0].id, reason="asked"),
                    lambda: store.collect_garbage(),
                    lambda: store.collect_garbage(vacuum=True),
                    lambda: open_store(sys.argv[1]),
                ):
                    store._cache.backend.reopen()
                    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
                    try:
                        verb()
                    except StoreError as error:
                        print(error.problem)
                    finally:
                        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

                assert chat == store.load("chat"), "another state"
                assert () == store.verify(), store.verify()
            """,
            url,
        )

        assert 9 == len(output.splitlines())
        for line in output.splitlines():
            assert "too many files open" in line


class TestTaken:
    def test_held(self, url, path):
        """
        Where another process holds the file for long, opening, reading and
        writing it end with what to do, and work when it is done.
        """
        open_store(url).close()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        other.execute("BEGIN EXCLUSIVE")
        other.execute("UPDATE numbers SET last = last")
        with pytest.raises(StoreError, match="timeout_s"):
            open_store(f"{url}?timeout_s=0")

        other.execute("COMMIT")
        other.close()
        with open_store(f"{url}?timeout_s=0") as store:
            store.save("chat", CHAT)

    def test_other_programs(self, url, path):
        """Nothing of another program's file changes, nor comes beside it."""
        for make in (
            "CREATE TABLE theirs (x)",
            "PRAGMA user_version = 3",
            "PRAGMA application_id = 77",
        ):
            path.unlink(missing_ok=True)
            connection = sqlite3.connect(path)
            connection.execute(make)
            connection.commit()
            connection.close()
            before = path.read_bytes()
            with pytest.raises(StoreError, match="belongs to another program"):
                open_store(url)

            assert before == path.read_bytes()
            assert [path] == list(path.parent.iterdir())
