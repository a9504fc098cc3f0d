"""
Damage: whatever byte of a store changes, it is found, named, and never loaded.
"""

import random
import shutil
import sqlite3
from contextlib import contextmanager

import pytest
from hypothesis import settings

from conversation_state import Aggregator, AssistantMessage, ToolCall, UserMessage
from conversation_state.errors import StoreError
from conversation_state.parts import ImagePart
from conversation_state.store import Damage, Store, open_store
from conversation_state.store._memory import MemoryBackend
from conversation_state.store._records import write
from conversation_state.store.backend import TABLES
from conversation_state.usage import Usage

TALK = Aggregator.new().add_user_prompt("When is the next train?")
LARGE = bytes(range(256)) * 20
# Which damage is told of which table: the row's own, or those beside it.
TOLD = {
    "branches": {"branches", "entries", "ledger"},
    "revisions": {"revisions", "labels"},
    "starts": {"branches"},
    "uses": {"entries"},
}


def lived_in(store):
    """
    A store with everything in it: forks, labels, images, tombstones; the
    states by name and revision.
    """
    shown = UserMessage([ImagePart(data=LARGE), ImagePart(data=LARGE + b"x")])
    call = AssistantMessage("é", tool_calls=[ToolCall("c1", "clock", '{"a": 1}')])
    state = TALK.add(call).add_usage(Usage(3, 1), model="m", key="paid").add(shown)
    fork = state.fork(at=2).add_user_prompt("and?").add_usage(Usage(1, 1))
    store.save("talk", TALK, label="first")
    store.save("talk", state, label="second")
    store.save("fork", fork)
    store.save("apart", Aggregator.new().add_user_prompt("apart").join(fork))
    store.save("empty", Aggregator.new())
    store.erase(state.entries[0].id, reason="asked for")
    store.save("talk", store.load("talk").add_user_prompt("more"))
    store.save("gone", Aggregator.new().add_user_prompt("gone"))
    store.delete("gone")
    write(store, lambda rows: rows.put(b"bare", b"of a host"))
    write(store, lambda rows: rows.put(b"held", b"", rows.save("fork", fork).entries))
    store.collect_garbage()
    return {
        (name, head.revision): store.load(name, at=head)
        for name in store.names()
        for head in store.history(name)
    }


def damaged(value):
    """
    *value* with one byte changed, in many places and in two ways.
    """
    if value is None:
        yield b"x" * 32
    elif isinstance(value, int):
        yield from (value ^ 1 << bit for bit in (0, 1, 7, 31, 32, 61))
        yield -value - 1
    else:
        data = value if isinstance(value, bytes) else value.encode()
        # More of them with --hypothesis-profile=thorough.
        step = len(data) // max(settings().max_examples // 10, 1) + 1
        for at in range(0, len(data), step):
            for flip in (1, 0x80):
                flipped = bytearray(data)
                flipped[at] ^= flip
                if isinstance(value, bytes):
                    yield bytes(flipped)
                elif flip == 1:
                    yield flipped.decode()

        if value:
            yield value[:-1]


def is_told(states, store):
    """
    Whether everything that is loaded is what was saved, or a StoreError.
    """
    for (name, revision), state in states.items():
        with told():
            assert state == store.load(name, at=revision)
            window = store.load(name, at=revision, last=2)
            assert [*state.entries][-2:] == [*window.entries]

        with told():
            store.history(name)


@contextmanager
def told():
    try:
        yield
    except StoreError as error:
        problem = str(error)
        if not any(words in problem for words in ("verify()", "there is no", "SQL")):
            pytest.fail(problem)


class TestEveryByte:
    @pytest.mark.parametrize("table", TABLES)
    def test_is_found(self, table):
        """
        Any byte of any column that is another is found by verify, which names
        the row; and nobody is given another state than was saved.
        """
        backend = MemoryBackend()
        store = Store(backend)
        states = lived_in(store)
        assert () == store.verify()

        names = TABLES[table].columns
        with backend.reading() as rows:
            there = rows.scan(table, None, None)

        assert there
        for key, *values in there:
            for column, value in zip(names, values, strict=True):
                if (table, column.name) == ("revisions", "saved_at"):
                    continue  # a time that nothing else tells

                for other in damaged(value):
                    with backend.writing() as rows:
                        rows.set(table, key, **{column.name: other})

                    fresh = Store(backend)
                    found = {damage.where for damage in fresh.verify()}
                    assert found & TOLD.get(table, {table}), (column.name, key, other)
                    is_told(states, fresh)

                with backend.writing() as rows:
                    rows.set(table, key, **{column.name: value})

        assert () == Store(backend).verify()

    @pytest.mark.parametrize("table", TABLES)
    def test_missing_or_moved(self, table):
        """
        A row that is gone, or has another key, is found as well.
        """
        backend = MemoryBackend()
        store = Store(backend)
        states = lived_in(store)

        with backend.reading() as rows:
            there = rows.scan(table, None, None)

        for row in there:
            for others in ((), *[((key, *row[1:]),) for key in damaged(row[0])]):
                before = {other[0] for other in there}
                if any(key in before for key, *_ in others):
                    continue

                with backend.writing() as rows:
                    # What every backend has: a range that holds this row only.
                    rows._drop(rows._tables[table], row[0])
                    if others:
                        rows.add(table, others)

                fresh = Store(backend)
                # Nothing else tells that there was a newest one.
                newest = (
                    row[0] >> 32 not in {key >> 32 for key in before if key > row[0]}
                    if table == "revisions"
                    else row == there[-1]
                )
                unseen = not others and (
                    table in {"labels", "records"}
                    or (newest and table in {"changes", "revisions"})
                )
                assert fresh.verify() or unseen, (row, others)
                is_told(states, fresh)
                with backend.writing() as rows:
                    for other in others:
                        rows._drop(rows._tables[table], other[0])

                    rows.add(table, [row])

        assert () == Store(backend).verify()


class TestErased:
    def test_is_there_again(self):
        """
        What was erased and was put back behind the store is found.
        """
        backend = MemoryBackend()
        store = Store(backend)
        store.save("talk", TALK)
        with backend.reading() as rows:
            ((place, _, body, content, _),) = rows.scan("entries", None, None)

        store.erase(TALK.entries[0].id, reason="asked for")
        with backend.writing() as rows:
            rows.set("entries", place, body=body, content=content)

        (damage,) = store.verify()

        assert ("entries", TALK.entries[0].id) == (damage.where, damage.id)
        assert "erased" in damage.what


class TestFile:
    def test_bytes(self, tmp_path):
        """
        Any byte of the file that is another is found, or changes nothing that
        is loaded; and never is it an error of another kind.
        """
        path, whole = tmp_path / "talks.db", tmp_path / "whole.db"
        with open_store(f"sqlite:///{path}") as store:
            states = lived_in(store)

        shutil.copy(path, whole)
        data = path.read_bytes()
        chosen = random.Random(7)
        found = 0
        places = [chosen.randrange(len(data)) for _ in range(settings().max_examples)]
        for at in (*places, data.index(b'"more"')):
            if not any(data[at - 8 : at + 8]):
                continue  # where nothing is kept

            path.write_bytes(
                data[:at]
                + bytes([data[at] ^ 1 << chosen.randrange(8)])
                + data[at + 1 :]
            )
            try:
                with open_store(f"sqlite:///{path}") as store:
                    damages = store.verify()
                    is_told(states, store)
            except StoreError:
                damages = (Damage("medium", "", "it can't be opened"),)

            if damages:
                found += 1
            else:
                with open_store(f"sqlite:///{path}") as store:
                    for (name, revision), state in states.items():
                        assert state == store.load(name, at=revision), at

            for beside in tmp_path.glob("talks.db-*"):
                beside.unlink()

        assert found

    @pytest.mark.parametrize("change", ["SET last = 2", "SET last = 'x'"])
    def test_numbers(self, tmp_path, change):
        """
        Numbers that would be given twice are found, and nothing is written over
        what has them.
        """
        path = tmp_path / "talks.db"
        with open_store(f"sqlite:///{path}") as store:
            for name in "abc":
                store.save(name, TALK.fork().add_user_prompt(name))

            assert () == store.verify()
            connection = sqlite3.connect(path)
            connection.execute(f"UPDATE numbers {change}")
            connection.commit()
            connection.close()
            (damage,) = store.verify()

            assert ("medium", True) == (damage.where, "last number" in damage.what)
            with pytest.raises(StoreError):
                store.save("d", Aggregator.new().add_user_prompt("d"))

            assert ("a", "b", "c") == store.names()

    def test_cut_off(self, tmp_path):
        """
        A file that lost its end says so wherever it was cut.
        """
        path = tmp_path / "talks.db"
        with open_store(f"sqlite:///{path}") as store:
            states = lived_in(store)

        data = path.read_bytes()
        for size in (50, 100, 4095, 4096, 8192, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:size])
            with told(), open_store(f"sqlite:///{path}") as store:
                is_told(states, store)
                there = {name for name, _ in states} == {*store.names()}
                assert store.verify() or there, size

            for beside in tmp_path.glob("talks.db-*"):
                beside.unlink()

    def test_only_a_start(self, tmp_path):
        """
        A file of which only the first bytes are left is not made a new one.
        """
        path = tmp_path / "talks.db"
        with open_store(f"sqlite:///{path}") as store:
            lived_in(store)

        data = path.read_bytes()
        for size in (16, 50, 100, 511):
            start = data[:size]
            path.write_bytes(start)
            with pytest.raises(StoreError, match="the file is damaged"):
                open_store(f"sqlite:///{path}")

            assert start == path.read_bytes()


class TestLoad:
    @pytest.mark.parametrize(
        ("column", "change", "why"),
        [
            ("body", lambda body: body.replace(b"more", b"mare"), "saved"),
            ("body", lambda body: body[:-1], "can't be read"),
            ("body", str, "can't be read:"),
            ("digest", lambda _: None, "not what was saved"),
            ("content", lambda _: b"x" * 16, "no tombstone"),
        ],
    )
    def test_names_the_entry(self, column, change, why):
        """
        A state that can't be restored is an error that names the first entry
        that is not what it was, and asks for verify.
        """
        backend = MemoryBackend()
        store = Store(backend)
        store.save("talk", TALK.add_user_prompt("more").add_user_prompt("last"))
        state = store.load("talk")

        with backend.writing() as rows:
            row = rows.scan("entries", None, None)[1]
            at = [c.name for c in TABLES["entries"].columns].index(column) + 1
            rows.set("entries", row[0], **{column: change(row[at])})

        for last in (None, 2):
            with pytest.raises(StoreError, match=why) as caught:
                Store(backend).load("talk", last=last)

            assert state.entries[1].id in str(caught.value)
            assert "verify()" in str(caught.value)

        if column != "digest":
            window = Store(backend).load("talk", last=1)
            assert ["last"] == [message.text for message in window.messages]

    def test_hostile_numbers(self):
        """
        Lengths and places that nobody has end at once.
        """
        for column, value in (
            ("length", 2**40),
            ("length", -1),
            ("ledger_length", 2**62),
            ("branch", 2**62),
            ("origin", 0),
        ):
            backend = MemoryBackend()
            store = Store(backend)
            store.save("talk", TALK)
            with backend.writing() as rows:
                rows.set("revisions", 1 << 32 | 1, **{column: value})

            with pytest.raises(StoreError, match=r"verify\(\)"):
                Store(backend).load("talk")
