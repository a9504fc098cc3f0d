"""What was erased or collected is gone from the file, and nothing else is."""

import random
import sqlite3
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Timeline,
    ToolCall,
    UserMessage,
)
from conversation_state.errors import StoreError
from conversation_state.parts import AudioPart, FilePart, ImagePart, TextPart
from conversation_state.store import ERASED, open_store
from conversation_state.store.backends._sqlite import SqliteBlock
from conversation_state.store.records import reading, write
from conversation_state.usage import Usage
from tests.store.writers import change_own_names

CHAT = Aggregator.new().add_user_prompt("When is the next train?")
SECRETS = ("hunter2-" * 4, "gehëim-ß漢-" * 4)


def raw(folder):
    """Every byte of every file."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


def is_there(folder, secret):
    """Whether a text is anywhere in a folder, as it is or as JSON may escape it."""
    there = raw(folder)
    asked = secret.encode()
    escaped = secret.encode("ascii", "backslashreplace")
    return any(each in there for each in (asked, escaped, secret.encode("utf-16-le")))


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/chats.db"


def messages_with(secret):
    """Messages that contain a text in each of the possible ways."""
    large = (secret.encode() * 1_000)[:20_000]
    call = ToolCall("c1", "clock", f'{{"at": "{secret}"}}')
    return [
        UserMessage(secret),
        UserMessage(secret * 500),
        UserMessage("x", name=secret, metadata={"note": secret}),
        AssistantMessage("x", tool_calls=[call]),
        UserMessage([TextPart(secret), ImagePart(url=f"https://a/{secret}")]),
        UserMessage(
            [FilePart(data=large), ImagePart(data=large + b"1"), TextPart("x")]
        ),
        UserMessage([AudioPart(data=large[:4_000]), TextPart("x")]),
    ]


class TestErase:
    @pytest.mark.parametrize("secret", SECRETS, ids=["ascii", "other"])
    @pytest.mark.parametrize("kind", range(7))
    def test_gone_at_once(self, url, tmp_path, secret, kind):
        """
        The content of an entry is in no file any more when erase returns, however it
        was shared, and also where others have the file open.
        """
        messages = messages_with(secret)[kind]
        state = (
            CHAT.add(messages).add_user_prompt("last").add_usage(Usage(1, 1), key="k")
        )
        with open_store(url) as store, open_store(url) as other:
            store.save("chat", state)
            store.save("fork", state.fork().add_user_prompt("fork"))
            other.save("apart", Aggregator.new().add_user_prompt("a").join(state))
            other.load("chat")
            data = raw(tmp_path)
            shown = secret.encode() * 20 if kind in {5, 6} else secret.encode()
            assert shown in data or b"base64" in data or kind == 6

            receipt = store.erase(state.entries[1].id, reason="asked for")

            assert 2 == receipt.rows
            assert not is_there(tmp_path, secret)
            for part in getattr(messages, "content", ""):
                bytes_of = getattr(part, "data", None)
                assert bytes_of is None or bytes_of[:200] not in raw(tmp_path)

            assert {"chat", "fork", "apart"} == {*other.names()}
            for name in other.names():
                chat = other.load(name)
                (stone,) = [m for m in chat.messages if ERASED in m.metadata]
                assert receipt.content == stone.metadata[ERASED]["content"]
                assert ["k"] == [entry.id for entry in chat.ledger]

            assert () == store.verify() == other.verify()

        assert not is_there(tmp_path, secret)

    def test_gone_after_rows_moved(self, url, tmp_path):
        """
        Rows that moved while others came between them may leave copies; a
        vacuum leaves none, in no file.
        """
        chosen = random.Random(1)
        with open_store(url) as store:
            chats = [CHAT.fork().add_user_prompt(f"{i}") for i in range(6)]
            for i, chat in enumerate(chats):
                store.save(f"chat {i}", chat)

            secret_of = {}
            for turn in range(300):
                i = chosen.randrange(6)
                secret = f"secret-{turn:03}-"
                messages = secret * chosen.randrange(1, 90)
                chats[i] = chats[i].add_user_prompt(messages)
                secret_of[chats[i].entries[-1].id] = secret
                store.save(f"chat {i}", chats[i])

            erased = [id for n, id in enumerate(secret_of) if n % 7]
            for id in erased:
                store.erase(id, reason="asked for")

            store.collect_garbage(vacuum=True)
            there = raw(tmp_path)
            for id, secret in secret_of.items():
                assert (id in erased) != (secret.encode() in there)

            assert () == store.verify()

    @pytest.mark.parametrize("verb", ["load", "save"])
    def test_beside_a_timeline(self, url, monkeypatch, verb):
        """
        What is erased while a timeline is loaded or saved does not come back from
        what is remembered of it.
        """
        secret = CHAT.add_user_prompt("secret")
        timeline = Timeline.begin(CHAT).commit(secret)
        with open_store(url) as store:
            store.save_timeline("chat", timeline)

        with open_store(url) as store:
            backend: Any = store._cache.backend
            is_erased: list[bool] = []

            @contextmanager
            def leave_late(open_block):
                with open_block() as block:
                    yield block

                if not is_erased:
                    is_erased.append(True)
                    store.erase(secret.entries[-1].id, reason="asked for")
                    store.load("chat")

            for name in ("reading", "writing"):
                patched = partial(leave_late, getattr(backend, name))
                monkeypatch.setattr(backend, name, patched)

            if verb == "load":
                store.load_timeline("chat")
            else:
                more = timeline.commit(secret.add_user_prompt("more"))
                store.save_timeline("chat", more)

            assert is_erased
            states = [moment.state for moment in store.load_timeline("chat").moments]

        assert "secret" not in {each.text for state in states for each in state}


class TestRemains:
    """
    An erasure that happened says what may remain, and never that it did not
    happen.
    """

    def test_reader(self, url, tmp_path):
        """
        If another process reads the old content for longer than *timeout_s*, the
        receipt reports it; erasing again when the reader is done removes it.
        """
        with open_store(f"{url}?timeout_s=0") as store:
            store.save("chat", CHAT)
            other = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
            other.execute("BEGIN")
            other.execute("SELECT * FROM entries").fetchall()
            receipt = store.erase(CHAT.entries[0].id, reason="asked for")

            assert "vacuum=True" in receipt.remains
            assert "chats.db-wal" in receipt.remains
            assert 1 == receipt.rows
            assert "" == store.load("chat")[0].text

            store.delete("chat")
            collected = store.collect_garbage()

            assert "chats.db-wal" in collected.remains
            assert 1 == collected.entries

            other.execute("COMMIT")
            again = store.erase(CHAT.entries[0].id, reason="asked for")

            assert "" == again.remains
            assert b"next train" not in raw(tmp_path)
            assert "" == store.collect_garbage().remains
            other.close()

    @pytest.mark.parametrize("verb", ["erase", "vacuum"])
    def test_checkpoint_of_another_process(self, url, tmp_path, monkeypatch, verb):
        """
        A checkpoint of another process, for which SQLite itself does not wait, is
        waited for.
        """
        # The byte of the shared memory that is locked during a checkpoint.
        script = """
            import fcntl, sys
            with open(sys.argv[1], "r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX, 1, 121)
                print("locked", flush=True)
                sys.stdin.read()
        """
        fcntl = pytest.importorskip("fcntl")
        assert fcntl
        with open_store(url) as store:
            store.save("chat", CHAT)
            shared_memory = str(tmp_path / "chats.db-shm")
            command = [sys.executable, "-c", textwrap.dedent(script), shared_memory]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as other:
                assert other.stdin is not None
                assert other.stdout is not None
                assert b"locked\n" == other.stdout.readline()
                waits = []

                def end(_seconds):
                    waits.append(_seconds)
                    if len(waits) == 3:
                        other.communicate()

                monkeypatch.setattr(time, "sleep", end)
                if verb == "erase":
                    receipt = store.erase(CHAT.entries[0].id, reason="asked for")

                    assert "" == receipt.remains
                    assert b"next train" not in raw(tmp_path)
                else:
                    store.collect_garbage(vacuum=True)

                assert 3 == len(waits)
                assert 0 == (tmp_path / "chats.db-wal").stat().st_size

    def test_failing_disk(self, url, monkeypatch):
        """Where the log can't be emptied, the receipt has SQLite's own message."""
        with open_store(url) as store:
            store.save("chat", CHAT)

            def fail(block, sql, *given):
                if "wal_checkpoint" in sql:
                    raise sqlite3.OperationalError("disk I/O error")

                return run(block, sql, *given)

            run = SqliteBlock.run
            with monkeypatch.context() as patch:
                patch.setattr(SqliteBlock, "run", fail)
                receipt = store.erase(CHAT.entries[0].id, reason="asked for")
                store.delete("chat")
                collected = store.collect_garbage()

            assert receipt.remains.endswith("succeeded: disk I/O error")
            assert collected.remains == receipt.remains
            assert 1 == collected.entries
            assert () == store.verify()


class TestVacuum:
    def test_in_the_way(self, url, tmp_path):
        """
        Readers of what was there before, and writers, block a vacuum, which reports it
        and runs when they are done.
        """
        with open_store(f"{url}?timeout_s=0") as store:
            store.save("chat", CHAT)
            other = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
            other.execute("BEGIN")
            other.execute("SELECT * FROM entries").fetchall()
            store.erase(CHAT.entries[0].id, reason="asked for")
            with pytest.raises(StoreError, match=r"db-wal for longer.*try again"):
                store.collect_garbage(vacuum=True)

            other.execute("COMMIT")
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="timeout_s"):
                store.collect_garbage(vacuum=True)

            other.execute("COMMIT")
            store.collect_garbage(vacuum=True)
            assert b"next train" not in raw(tmp_path)
            assert () == store.verify()
            other.close()


class TestCollect:
    @pytest.mark.integration
    def test_beside_writers(self, url):
        """
        Processes that save, fork, delete and collect at once lose no state of
        a name that is left.
        """
        with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as processes:
            lives = [
                processes.submit(change_own_names, url, who, 60) for who in range(3)
            ]
            kept: dict[str, list[Aggregator]] = {}
            for each in lives:
                kept |= each.result()

        with open_store(url) as store:
            assert sorted(kept) == [*store.names()]
            for name, states in kept.items():
                for revision, state in enumerate(states, 1):
                    assert state == store.load(name, at=revision)

            assert () == store.verify()
            store.collect_garbage()
            again = store.collect_garbage(vacuum=True)
            assert {0} == {again.entries, again.branches, again.origins, again.size}

    def test_between_finding_and_letting_go(self, url, monkeypatch):
        """What is saved on top of garbage, after it was found, is kept."""
        from conversation_state.store import _maintenance  # noqa: PLC0415 - only here

        state = CHAT.extend([UserMessage("x")] * 5).add_usage(Usage(1))
        with open_store(url) as store, open_store(url) as other:
            store.save("chat", state)
            store.save("fork", state.fork().add_user_prompt("fork"))
            store.save("kept", Aggregator.new())
            store.delete("chat")
            store.delete("fork")
            found = _maintenance._find_garbage

            def late(*given):
                garbage = found(*given)
                other.save("new", state.fork(at=4).add_user_prompt("new"))
                other.save("kept", state, expecting=1)
                return garbage

            monkeypatch.setattr(_maintenance, "_find_garbage", late)
            collected = store.collect_garbage()

            assert 1 == collected.entries
            assert state == store.load("kept")
            assert "new" == store.load("new")[-1].text
            assert () == store.verify()

    def test_held_between_finding_and_letting_go(self, url, monkeypatch):
        """
        What a record holds that was written after the garbage was found is kept, though
        no name has it any more.
        """
        from conversation_state.store import _maintenance  # noqa: PLC0415 - only here

        state = CHAT.extend([UserMessage("x")] * 5)
        found = _maintenance._find_garbage

        def hold(rows):
            rows.put(b"held", b"", rows.save("for a moment", state).entries)

        def late(*given):
            garbage = found(*given)
            write(other, hold)
            other.delete("for a moment")
            return garbage

        with open_store(url) as store, open_store(url) as other:
            store.save("chat", state)
            store.delete("chat")
            monkeypatch.setattr(_maintenance, "_find_garbage", late)
            store.collect_garbage()
            with reading(store) as rows:
                record = rows.get(b"held")

                assert record is not None
                assert record.hold is not None
                assert state.entries == rows.entries(record.hold)

            assert () == store.verify()

    def test_collected_by_another(self, url, monkeypatch):
        """What another store released meanwhile is not reported twice."""
        from conversation_state.store import _maintenance  # noqa: PLC0415 - only here

        found = _maintenance._find_garbage
        first = []

        def late(*given):
            garbage = found(*given)
            monkeypatch.undo()
            first.append(other.collect_garbage())
            return garbage

        # Making what was removed unreadable waits for the reader that is open.
        url = f"{url}?timeout_s=0.1"
        with open_store(url) as store, open_store(url) as other:
            store.save("chat", CHAT.add_user_prompt("x"))
            store.delete("chat")
            monkeypatch.setattr(_maintenance, "_find_garbage", late)
            second = store.collect_garbage()

            assert first[0].size > 0
            assert {0} == {second.entries, second.branches, second.size}
            assert () == store.verify()

    def test_damaged(self, url):
        """In a store where something that is needed is gone, nothing is removed."""
        with open_store(url) as store:
            store.save("chat", CHAT.add_user_prompt("one"))
            store.save("fork", CHAT.fork().add_user_prompt("two"))
            store.delete("chat")
            with store._cache.backend.writing() as rows:
                *_, (branch, _, _) = rows.scan("branches", None, None)
                rows.remove("branches", branch, branch + 1)

            with pytest.raises(StoreError, match="nothing was collected"):
                store.collect_garbage()

            with store._cache.backend.reading() as rows:
                assert 3 == len(rows.scan("entries", None, None))
