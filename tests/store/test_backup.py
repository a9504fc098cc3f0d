"""Backups, and files that were copied back beside the log of another one."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from conversation_state import Aggregator
from conversation_state.errors import StoreError
from conversation_state.store import open_store, restore

CHAT = Aggregator.new().add_user_prompt("precious")


def save(path, name, *texts):
    state = Aggregator.new()
    with open_store(path) as store:
        for text in texts:
            state = state.add_user_prompt(text)
            store.save(name, state)


def run_killed(path, code):
    """Run *code* on an open store in a process that ends without closing it."""
    # So that a log begins again each megabyte.
    program = (
        "import os, sys\n"
        "from conversation_state import Aggregator, open_store\n"
        "url = f'sqlite:///{sys.argv[1]}?synchronous=full'\n"
        "store = open_store(url)\n"
        f"{code}\n"
        "os._exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert 7 == done.returncode


DELETED = "store.delete('keep')"
ADDED = "store.save('other', Aggregator.new().add_user_prompt('x'))"
LONG = """
for number in range(12):
    store.save(f'big {number}', Aggregator.new().add_user_prompt('x' * 200_000))
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chats.db"


def check_refused(url, why="belongs to another file"):
    with pytest.raises(StoreError, match=why):
        open_store(url)


@pytest.mark.integration
class TestForeignLogs:
    @pytest.mark.parametrize(
        ("copy", "code"),
        [
            (shutil.copy, DELETED),
            (shutil.copy, ADDED),
            (shutil.copy, LONG),
            (shutil.copy2, LONG + DELETED),
            (os.replace, DELETED),
        ],
    )
    def test_log_of_the_file_before(self, path, code, copy, tmp_path):
        """
        The log of a killed program is not applied to a backup that was copied there.
        """
        save(path, "keep", "precious")
        shutil.copy(path, tmp_path / "backup.db")
        run_killed(path, code)
        copy(tmp_path / "backup.db", path)
        before = path.read_bytes()

        check_refused(path, r"chats\.db-wal, belongs to another file")
        check_refused(f"sqlite:///{path}?mode=ro")

        assert before == path.read_bytes()

        for suffix in ("-wal", "-shm"):
            path.with_name(f"chats.db{suffix}").unlink()

        with open_store(path) as store:
            assert ("keep",) == store.names()

    def test_log_of_another_file(self, path, tmp_path):
        """
        Nor to a backup that went on by itself, or that is older than the file that the
        log was begun for, or that was put there before, nor to a stranger.
        """
        save(path, "keep", "precious")
        for name in ("diverged.db", "old.db"):
            shutil.copy(path, tmp_path / name)

        save(tmp_path / "diverged.db", "mine", "a", "b")
        save(tmp_path / "stranger.db", "strange", "?")
        save(path, "keep more", "a", "b", "c")
        for name in ("diverged.db", "old.db", "stranger.db", "old.db"):
            run_killed(path, ADDED)
            shutil.copy(tmp_path / name, path)

            check_refused(path)

            path.with_name("chats.db-wal").unlink()

    def test_file_copied_while_open(self, path, tmp_path):
        """
        Nor to a backup, or a copy, that was made while the store was open, before its
        log was long.
        """
        with open_store(path) as store:
            store.save("keep", CHAT)
            store.backup(tmp_path / "backup.db")

        made, copied = tmp_path / "made.db", tmp_path / "copied.db"
        copy = f"import shutil; shutil.copy(sys.argv[1], {str(copied)!r})"
        for other, code in (
            (made, f"{ADDED}\nstore.backup({str(made)!r})\n{DELETED}"),
            (copied, f"{copy}\n{LONG}\n{LONG.replace('big', 'more')}"),
        ):
            run_killed(path, code)
            for each in (tmp_path / "backup.db", other):
                shutil.copy(each, path)

                check_refused(path)

            path.with_name("chats.db-wal").unlink()

    @pytest.mark.parametrize("code", [DELETED, "store.names()", LONG])
    def test_own_log(self, path, code, tmp_path):
        """
        The log of a killed program is applied to its own file, wherever both are moved.
        """
        save(path, "keep", "precious")
        run_killed(path, ADDED)
        run_killed(path, code)
        for suffix in ("", "-wal"):
            if path.with_name(f"chats.db{suffix}").exists():
                shutil.copy(f"{path}{suffix}", f"{tmp_path}/moved.db{suffix}")

        for each in (path, tmp_path / "moved.db"):
            with open_store(each) as store:
                assert "other" in store
                assert (code == DELETED) == ("keep" not in store)
                assert () == store.verify()

    @pytest.mark.parametrize("query", ["", "?mode=ro", "?access=shared"])
    @pytest.mark.parametrize("is_empty", [False, True])
    def test_file_moved_without_its_log(self, path, is_empty, query, tmp_path):
        """
        Where a log is beside no file, or an empty one, nothing is opened, or removed:
        the file has the saves again when the log is moved to it.
        """
        run_killed(path, ADDED)
        moved = path.replace(tmp_path / "moved.db")
        if is_empty:
            path.touch()

        before = path.with_name("chats.db-wal").read_bytes()

        check_refused(f"sqlite:///{path}{query}", r"Move chats\.db-wal .* to the file")

        assert before == path.with_name("chats.db-wal").read_bytes()
        assert is_empty == path.exists()

        path.with_name("chats.db-wal").replace(f"{moved}-wal")
        with open_store(moved) as store:
            assert ("other",) == store.names()
            assert () == store.verify()

    def test_file_moved_while_open(self, path, tmp_path):
        """An open store that connects again does not begin its file again."""
        with open_store(path) as store:
            backend: Any = store._cache.backend
            backend.close_idle()
            run_killed(path, ADDED)
            moved = path.replace(tmp_path / "moved.db")
            with pytest.raises(StoreError, match="its folder are there"):
                store.save("keep", CHAT)

            assert not path.exists()

        path.with_name("chats.db-wal").replace(f"{moved}-wal")
        with open_store(moved) as store:
            assert ("other",) == store.names()

    @pytest.mark.parametrize("log", [b"", b"\x37\x7f\x06\x82", b"mine" * 20])
    def test_log_without_saves(self, path, log):
        """What is no log of SQLite's, or has no page, keeps no store from beginning."""
        path.with_name("chats.db-wal").write_bytes(log)
        save(path, "keep", "precious")
        with open_store(path) as store:
            assert ("keep",) == store.names()

    def test_behind_a_link(self, path, tmp_path):
        """The log is looked for beside the file that a link leads to."""
        link = tmp_path / "link" / "chats.db"
        link.parent.mkdir()
        link.symlink_to(path)
        save(link, "keep", "precious")
        if os.name == "posix":
            assert 0o600 == stat.S_IMODE(path.stat().st_mode)

        shutil.copy(path, tmp_path / "backup.db")
        run_killed(path, ADDED)
        shutil.copy(tmp_path / "backup.db", path)

        check_refused(link, r"chats\.db-wal, belongs to another file")

        path.unlink()

        check_refused(link, "is missing or empty")

    def test_first_log(self, path):
        """So is the first one of a new file."""
        run_killed(path, ADDED)
        with open_store(path) as store:
            assert ("other",) == store.names()

    def test_shared_memory_alone(self, path):
        """What is left of -shm without a log is nothing."""
        save(path, "keep", "precious")
        run_killed(path, ADDED)
        path.with_name("chats.db-wal").unlink()
        with open_store(path) as store:
            assert ("keep",) == store.names()
            assert () == store.verify()

    def test_busy_file(self, path):
        """A file that other processes write, and whose log begins again, opens."""
        save(path, "keep", "precious")
        code = (
            "for number in range(400):\n"
            "    store.update('busy', lambda state: state.add_user_prompt('x' * 9000)"
            ", start=Aggregator.new())"
        )
        program = (
            "import sys\nfrom conversation_state import Aggregator, open_store\n"
            f"store = open_store(sys.argv[1] + '?synchronous=full')\n{code}"
        )
        url = f"sqlite:///{path}"
        writer = subprocess.Popen([sys.executable, "-c", program, url])
        opened = 0
        while writer.poll() is None:
            with open_store(path) as store:
                assert "keep" in store
                opened += 1

        assert 0 == writer.returncode
        assert opened


class TestBackup:
    def test_while_others_write(self, path, tmp_path):
        """A backup is the store as it was at one moment, while others write."""
        with open_store(path) as store, open_store(path) as other:
            store.save("keep", CHAT)
            done = threading.Event()

            def write():
                while not done.is_set():
                    other.update("busy", add, start=Aggregator.new())

            thread = threading.Thread(target=write)
            thread.start()
            try:
                for number in range(5):
                    store.backup(tmp_path / f"{number}.db")
            finally:
                done.set()
                thread.join()

            assert () == store.verify()

        for number in range(5):
            copy = tmp_path / f"{number}.db"
            assert 0o600 == stat.S_IMODE(copy.stat().st_mode)
            with open_store(copy) as store:
                assert CHAT == store.load("keep")
                assert () == store.verify()

        left = {each.name for each in tmp_path.iterdir()}
        assert {"chats.db", *[f"{number}.db" for number in range(5)]} == left

    def test_never_over_a_file(self, path, tmp_path):
        """A backup replaces nothing, and a failed one leaves nothing."""
        (tmp_path / "there").write_text("mine")
        (tmp_path / "log-wal").write_text("mine")
        with open_store(path) as store:
            store.save("keep", CHAT)
            for each in ("there", "log", "chats.db", "no folder/backup.db"):
                with pytest.raises(StoreError):
                    store.backup(tmp_path / each)

            names = {each.name for each in tmp_path.iterdir()}

        assert {"there", "log-wal", "chats.db", "chats.db-wal", "chats.db-shm"} == names
        assert "mine" == (tmp_path / "there").read_text()

    def test_store_in_memory(self, tmp_path):
        """What is no file has no backup."""
        with pytest.raises(StoreError, match="only a store in a file"):
            open_store("memory:").backup(tmp_path / "backup.db")


def add(state):
    return state.add_user_prompt("x" * 500)


class TestRestore:
    @pytest.fixture
    def backup(self, path, tmp_path):
        with open_store(path) as store:
            store.save("keep", CHAT)
            store.backup(tmp_path / "backup.db")

        return tmp_path / "backup.db"

    def test_beside_a_log(self, path, backup):
        """What was there is kept with its log, and both can be opened."""
        run_killed(path, f"{DELETED}\n{ADDED}")

        with pytest.raises(StoreError, match="--replace"):
            restore(backup, path)

        kept = restore(backup, path, replace=True)
        with open_store(path) as store:
            assert ("keep",) == store.names()
            assert () == store.verify()
        with open_store(kept) as store:  # type: ignore[arg-type]
            assert ("other",) == store.names()
        with open_store(backup) as store:
            assert ("keep",) == store.names()

    def test_where_nothing_is(self, path, backup, tmp_path):
        """Where nothing is nothing is kept; a log without a file is something."""
        assert restore(backup, tmp_path / "new.db") is None

        (tmp_path / "log.db-wal").write_text("left")

        with pytest.raises(StoreError, match="--replace"):
            restore(backup, tmp_path / "log.db")

        kept = restore(backup, tmp_path / "log.db", replace=True)

        assert "left" == kept.with_name(f"{kept.name}-wal").read_text()  # type: ignore[union-attr]

    def test_open_file(self, path, backup):
        """A file that this process or another one has open is not replaced."""
        with open_store(path), pytest.raises(StoreError, match="is open"):
            restore(backup, path, replace=True)

        program = (
            "import sys\nfrom conversation_state import open_store\n"
            "store = open_store(sys.argv[1])\nstore.names()\n"
            "print('open', flush=True)\nsys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as other:
            assert b"open\n" == other.stdout.readline()  # type: ignore[union-attr]
            with pytest.raises(StoreError, match="is open"):
                restore(backup, path, replace=True)

            other.stdin.close()  # type: ignore[union-attr]

        assert restore(backup, path, replace=True) is not None

    def test_damaged_backup(self, path, backup, tmp_path):
        """What is damaged, no store or not there is not restored."""
        with sqlite3.connect(tmp_path / "foreign.db") as foreign:
            foreign.execute("CREATE TABLE mine (x)")
        foreign.close()
        (tmp_path / "text.db").write_text("no database" * 100)
        content = bytearray(backup.read_bytes())
        content[4096:8192] = b"\7" * 4096
        (tmp_path / "damaged.db").write_bytes(content)
        before = path.read_bytes()
        for each in ("foreign.db", "text.db", "damaged.db", "missing.db"):
            with pytest.raises(StoreError):
                restore(tmp_path / each, path, replace=True)

        assert before == path.read_bytes()
        assert not (tmp_path / "missing.db").exists()


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


class TestAccess:
    def test_new_files(self, path, tmp_path):
        """
        New files, and those beside them, are their user's alone; shared ones are as
        the umask says.
        """
        shared = tmp_path / "shared.db"
        before = os.umask(0o022)
        try:
            with (
                open_store(path) as store,
                open_store(f"sqlite:///{shared}?access=shared") as other,
            ):
                store.save("keep", CHAT)
                other.save("keep", CHAT)
                for each, expected in ((path, 0o600), (shared, 0o644)):
                    for suffix in ("", "-wal", "-shm"):
                        assert expected == rights(each.with_name(each.name + suffix))

                store.backup(tmp_path / "backup.db")
        finally:
            os.umask(before)

        assert 0o600 == rights(tmp_path / "backup.db")

        restore(tmp_path / "backup.db", shared, replace=True)

        assert 0o644 == rights(shared)

    def test_file_that_is_there(self, path):
        """The rights of a file that is there stay."""
        save(path, "keep", "precious")
        path.chmod(0o640)
        save(path, "other", "x")

        assert 0o640 == rights(path)

    @pytest.mark.skipif(not hasattr(os, "setuid"), reason="needs another user")
    @pytest.mark.parametrize("log", [False, True])
    def test_read_only_folder(self, log):
        """
        A file in a folder that can't be written is read, with ?mode=ro; one with a log
        says what to do.
        """
        # Where another user gets to.
        folder = Path(tempfile.mkdtemp())
        path = folder / "chats.db"
        save(path, "keep", "precious")
        if log:
            run_killed(path, ADDED)
            path.with_name("chats.db-shm").unlink()

        for each in folder.iterdir():
            each.chmod(0o444)

        folder.chmod(0o555)
        try:
            done = subprocess.run(
                [sys.executable, "-c", _READER, path],
                capture_output=True,
                text=True,
                check=True,
            )
        finally:
            folder.chmod(0o755)
            shutil.rmtree(folder)

        assert ("copy the file" if log else "('keep',) ()") in done.stdout


# Other users can't import what is root's, so it is imported before.
_READER = """
import os, sys, tempfile
from conversation_state import Aggregator, open_store

with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/x") as store:
    store.save("x", Aggregator.new().add_user_prompt("x"))
    store.verify()
if not os.getuid():
    os.setgid(65534)
    os.setuid(65534)
try:
    with open_store(f"sqlite:///{sys.argv[1]}?mode=ro") as store:
        print(store.names(), store.verify())
except Exception as error:
    print(error)
"""
