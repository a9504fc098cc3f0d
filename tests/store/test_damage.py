"""Damage: whatever byte of a store changes, it is found, named, and never loaded."""

import pickle
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import combinations

import pytest
from hypothesis import settings

from conversation_state import Aggregator, AssistantMessage, ToolCall, UserMessage
from conversation_state.errors import StoreError
from conversation_state.parts import ImagePart
from conversation_state.store import Damage, Store, _transaction, open_store
from conversation_state.store.backend import TABLES, DamageError
from conversation_state.store.backends._sqlite import SqliteBlock
from conversation_state.store.backends.memory import MemoryBackend, _drop_row
from conversation_state.store.records import reading, write
from conversation_state.timeline import Timeline
from conversation_state.usage import Usage
from tests.profiles import is_thorough

CHAT = Aggregator.new().add_user_prompt("When is the next train?")
LARGE = bytes(range(256)) * 20
# Which damage is reported of which table: the row's own, or those beside it.
REPORTED = {
    "branches": {"branches", "entries", "ledger"},
    "revisions": {"revisions", "labels", "timelines", "moments"},
    "timelines": {"timelines", "moments"},
    "moments": {"timelines", "moments"},
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
    state = CHAT.add(call).add_usage(Usage(3, 1), model="m", key="paid").add(shown)
    fork = state.fork(at=2).add_user_prompt("and?").add_usage(Usage(1, 1))
    store.save("chat", CHAT, label="first")
    store.save("chat", state, label="second")
    store.label("chat", "also the second")
    store.label("chat", "moved", at=1)
    store.label("chat", "moved", at=2)
    store.save("fork", fork)
    store.save("apart", Aggregator.new().add_user_prompt("apart").join(fork))
    store.save("empty", Aggregator.new())
    store.erase(state.entries[0].id, reason="asked for")
    store.save("chat", store.load("chat").add_user_prompt("more"))
    undone = Timeline.begin(CHAT, "start").commit(fork, "one", group="typing")
    undone = undone.undo().commit(state).undo().redo("one")
    store.save_timeline("undone", undone)
    store.save_timeline("begun", Timeline.begin(CHAT, "begun"))
    store.save("gone", Aggregator.new().add_user_prompt("gone"))
    store.delete("gone")
    write(store, lambda rows: rows.put(b"bare", b"of a host"))
    write(store, lambda rows: rows.put(b"held", b"", rows.save("fork", fork).entries))
    store.collect_garbage()
    return {
        head: store.load(name, at=head)
        for name in store.names()
        for head in store.history(name)
    }


def damaged(value):
    """
    *value* with one byte changed, in several places; in `make fuzz` in many, each in
    two ways.
    """
    if value is None:
        yield from (b"", b"x" * 16, b"x" * 32)
    elif isinstance(value, int):
        bits = (0, 1, 7, 31, 32, 61) if is_thorough() else (0, 32)
        yield from (value ^ 1 << bit for bit in bits)
        yield -value - 1
    else:
        data = value if isinstance(value, bytes) else value.encode()
        step = len(data) // max(settings().max_examples // 10, 1) + 1
        for number, at in enumerate(range(0, len(data), step)):
            for flip in (1, 0x80) if is_thorough() else ((1, 0x80)[number % 2],):
                flipped = bytearray(data)
                flipped[at] ^= flip
                if isinstance(value, bytes):
                    yield bytes(flipped)
                elif flip == 1:
                    yield flipped.decode()

        if value:
            yield value[:-1]


def check_reported(states, store):
    """Whether everything that is loaded is what was saved, or a StoreError."""
    for head, state in states.items():
        name = head.name
        with refused_as_damage():
            assert state == store.load(name, at=head.revision)

        with refused_as_damage():
            window = store.load(name, at=head.revision, last=2)
            assert (head, [*state.entries][-2:]) == (window.head, [*window.entries])

        for label in head.labels:
            with refused_as_damage():
                assert state == store.load(name, at=label)

    for name in {head.name for head in states}:
        with refused_as_damage():
            assert states.keys() >= {*store.history(name)}


@contextmanager
def refused_as_damage():
    try:
        yield
    except StoreError as error:
        problem = str(error)
        expected = ("verify()", "there is no", "SQL", "decode")
        if not any(words in problem for words in expected):
            pytest.fail(problem)


class TestEveryByte:
    @pytest.mark.parametrize("table", TABLES)
    def test_is_found(self, table):
        """
        Any changed byte of any column is found by verify, which names the row; and no
        reader gets a state other than the saved one. In a few rows of each table, with
        readers after every second change; in `make fuzz` in all, and after each.
        """
        backend = MemoryBackend()
        store = Store(backend)
        states = lived_in(store)
        assert () == store.verify()

        names = TABLES[table].columns
        with backend.reading() as rows:
            there = rows.scan(table, None, None)

        assert there
        for key, *values in there[:: 1 if is_thorough() else len(there) // 8 + 1]:
            for column, value in zip(names, values, strict=True):
                for number, other in enumerate(damaged(value)):
                    with backend.writing() as rows:
                        rows.set(table, key, **{column.name: other})

                    fresh = Store(backend)
                    found = {damage.where for damage in fresh.verify()}
                    assert found & REPORTED.get(table, {table}), (
                        column.name,
                        key,
                        other,
                    )
                    if is_thorough() or not number % 2:
                        check_reported(states, fresh)

                with backend.writing() as rows:
                    rows.set(table, key, **{column.name: value})

        assert () == Store(backend).verify()

    @pytest.mark.parametrize("table", TABLES)
    def test_missing_or_moved(self, table):
        """A row that is gone, or has another key, is found as well."""
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
                    _drop_row(rows._tables[table], row[0])
                    if others:
                        rows.add(table, others)

                fresh = Store(backend)
                # Nothing else shows that there was a newest one.
                newest = (
                    row[0] >> 32 not in {key >> 32 for key in before if key > row[0]}
                    if table == "revisions"
                    else row == there[-1]
                )
                unseen = not others and (
                    table == "records" or (newest and table in {"changes", "revisions"})
                )
                assert fresh.verify() or unseen, (row, others)
                check_reported(states, fresh)
                with backend.writing() as rows:
                    for other in others:
                        _drop_row(rows._tables[table], other[0])

                    rows.add(table, [row])

        assert () == Store(backend).verify()


def read_records(store):
    with reading(store) as rows:
        return [row.hold and rows.entries(row.hold) for row in rows.scan(b"", None)]


VERBS = (
    *(Store.verify, Store.names, Store.heads, Store.collect_garbage, read_records),
    lambda store: [store.history(name) for name in ("chat", "fork", "undone")],
    lambda store: [store.load(name) for name in ("chat", "fork", "apart")],
    lambda store: [store.load("chat", at=at) for at in (1, "first", "moved")],
    lambda store: [store.load_timeline(name) for name in ("undone", "chat")],
    lambda store: (store.load("chat", last=2), store.message_tree("chat")),
    lambda store: store.save("new", CHAT.fork().add_user_prompt("x")),
    lambda store: store.save("fork", CHAT.fork(), expecting=store.latest("fork")),
    lambda store: store.save_timeline("begun", Timeline.begin(CHAT).commit(CHAT)),
    lambda store: store.label("chat", "also the second", at=1),
    lambda store: (store.label("chat", "first", at=2), store.label_moves("chat")),
    lambda store: (store.unlabel("chat", "moved"), store.annotate("chat", {"a": 1})),
    lambda store: (store.rollback("chat", 1), store.fork("chat", "forked")),
    lambda store: store.step("chat", "first", lambda state: state),
    lambda store: store.erase(CHAT.entries[0].id, reason="again"),
)


@pytest.mark.parametrize("table", TABLES)
def test_another_type(table):
    """
    A value of another type, in any column, is damage for every verb that meets it, and
    no other error.
    """
    backend = MemoryBackend()
    lived_in(Store(backend))
    tables = pickle.dumps(backend.tables)
    with backend.reading() as rows:
        key, *_ = rows.scan(table, None, None)[0]

    for column in TABLES[table].columns:
        for other in (None, "x", 1.5, b"x"):
            for act in VERBS:
                damaged = MemoryBackend()
                damaged.tables = pickle.loads(tables)
                with damaged.writing() as rows:
                    rows.set(table, key, **{column.name: other})

                with suppress(StoreError):
                    act(Store(damaged))


class TestEveryRow:
    """Rows that are whole, and not where they were written."""

    @pytest.mark.parametrize("table", TABLES)
    def test_exchanged(self, table):
        """
        The exchanged contents of two rows are found, and no reader gets the state of
        another name or revision.

        All of it, and column by column; each column in a few pairs, and readers after
        every second exchange of all; in `make fuzz` in all, and after each.
        """
        backend = MemoryBackend()
        states = lived_in(Store(backend))
        with backend.reading() as rows:
            there = rows.scan(table, None, None)

        names = [column.name for column in TABLES[table].columns]
        found = 0
        pairs = [*combinations(there, 2)]
        random.Random(0).shuffle(pairs)
        exchanged = Counter[str]()
        for (a, *ours), (b, *theirs) in pairs:
            mine = dict(zip(names, ours, strict=True))
            other = dict(zip(names, theirs, strict=True))
            if ours == theirs:
                continue

            columns = [
                name
                for name in names
                if mine[name] != other[name] and (exchanged[name] < 5 or is_thorough())
            ]
            exchanged.update(columns)
            for chosen in (names, *[[name] for name in columns]):
                with backend.writing() as rows:
                    rows.set(table, a, **{name: other[name] for name in chosen})
                    rows.set(table, b, **{name: mine[name] for name in chosen})

                fresh = Store(backend)
                found += 1
                assert fresh.verify(), (chosen, a, b)
                if is_thorough() or chosen is not names or found % 2:
                    check_reported(states, fresh)

                with backend.writing() as rows:
                    rows.set(table, a, **mine)
                    rows.set(table, b, **other)

        assert found or table in {"records", "uses", "blobs", "changes"}
        assert () == Store(backend).verify()

    def test_what_a_record_alone_holds(self):
        """A lost message that nothing but a record holds on to is found as well."""
        backend = MemoryBackend()
        store = Store(backend)
        write(store, lambda rows: rows.put(b"held", b"", rows.save("a", CHAT).entries))
        store.delete("a")
        store.collect_garbage()
        assert () == store.verify()
        with backend.writing() as rows:
            *_, (newest, *_) = rows.scan("entries", None, None)
            _drop_row(rows._tables["entries"], newest)

        assert "records" in {damage.where for damage in Store(backend).verify()}

    def test_another_name(self):
        """
        The row of one name's revision with the content of another's is not loaded, and
        no fork, label or collection goes on from it.
        """
        backend = MemoryBackend()
        store = Store(backend)
        store.save("ann", CHAT)
        store.save("bob", Aggregator.new().add_user_prompt("of bob"))
        with backend.writing() as rows:
            (_, *ann), (bob, *_) = rows.scan("revisions", None, None)
            names = [column.name for column in TABLES["revisions"].columns]
            rows.set("revisions", bob, **dict(zip(names, ann, strict=True)))

        for verb in (
            lambda store: store.load("bob"),
            lambda store: store.load("bob", last=1),
            lambda store: store.latest("bob"),
            lambda store: store.history("bob"),
            lambda store: store.fork("bob", "fork"),
            lambda store: store.label("bob", "kept"),
            lambda store: store.save("bob", CHAT),
            lambda store: store.collect_garbage(),
        ):
            with pytest.raises(StoreError, match=r"revision 1 is not what was written"):
                verb(Store(backend))

        (damage,) = store.verify()
        assert "revision 1 of 'bob'" == damage.id
        assert CHAT == Store(backend).load("ann")

    def test_what_a_fork_begins_in(self):
        """Where a row is gone, what came behind it lacks it, in a fork, too."""
        backend = MemoryBackend()
        store = Store(backend)
        state = CHAT.add_assistant_message("a").add_user_prompt("b")
        fork = state.fork(at=2).add_user_prompt("c")
        store.save("chat", state)
        store.save("fork", fork)
        with backend.writing() as rows:
            _drop_row(rows._tables["entries"], rows.scan("entries", None, None)[1][0])

        lacks = "what should be before it is not there"
        ids = [each.entries[2].id for each in (state, fork)]

        assert [Damage("entries", id, lacks) for id in ids] == [
            *Store(backend).verify()
        ]

    def test_doubled(self):
        """A newest revision that is there twice is found, and is not the head."""
        backend = MemoryBackend()
        Store(backend).save("chat", CHAT)
        with backend.writing() as rows:
            ((place, *row),) = rows.scan("revisions", None, None)
            rows.add("revisions", [(place + 1, *row)])

        store = Store(backend)

        assert ["revision 2 of 'chat'"] == [damage.id for damage in store.verify()]
        with pytest.raises(StoreError, match="revision 2"):
            store.load("chat")

        assert CHAT == store.load("chat", at=1)

    @pytest.mark.parametrize("table", ["starts", "branches"])
    def test_nothing_is_saved_elsewhere(self, table):
        """
        A save that would go on from a past that is not its own, because of a
        damaged row, is refused: what was acknowledged can be loaded.
        """
        backend = MemoryBackend()
        store = Store(backend)
        forks = [CHAT.fork().add_user_prompt(f"fork {n}") for n in range(2)]
        store.save("chat", CHAT)
        for fork in forks:
            store.save(fork[-1].text, fork)

        with backend.writing() as rows:
            *_, one, two = sorted(rows.scan(table, None, None), key=lambda row: row[1])
            if table == "starts":
                rows.set("starts", two[0], branch=one[1])
            else:
                rows.set("branches", two[0], start=two[2] + 1)

        with pytest.raises(StoreError, match="begins with another row"):
            Store(backend).save("new", forks[1].fork().add_user_prompt("and?"))

    def test_two_logs(self):
        """
        A branch whose first row is among the messages and in the ledger, too, is
        found.
        """
        backend = MemoryBackend()
        store = Store(backend)
        store.save("chat", CHAT.add_usage(Usage(1)))
        with backend.writing() as rows:
            ((place, *_),) = rows.scan("entries", None, None)
            ((_, *paid),) = rows.scan("ledger", None, None)
            rows.add("ledger", [(place, *paid)])

        assert "branches" in {damage.where for damage in Store(backend).verify()}


class TestOutOfOrder:
    @pytest.mark.parametrize("table", ["entries", "revisions", "names"])
    def test_ends(self, tmp_path, monkeypatch, table):
        """
        Where keys of a file are out of order, verify ends with an error that says so,
        as does everything else that reads all rows.
        """
        path = tmp_path / "chats.db"
        with open_store(f"sqlite:///{path}") as store:
            state = CHAT
            for turn in range(20):
                state = state.add_user_prompt(f"{turn}")
                store.save("chat", state)
                store.save(f"chat {turn}", state)

        reads = []
        scan = SqliteBlock.scan

        def counted(*given, **options):
            reads.append(given)
            assert len(reads) < 10_000, "it never ends"
            return scan(*given, **options)

        monkeypatch.setattr(SqliteBlock, "scan", counted)
        # As if there were many rows.
        monkeypatch.setattr(_transaction, "PAGE", 3)
        whole = path.read_bytes()
        found = 0
        for at, flip in flipped_keys(path, table):
            data = bytearray(whole)
            data[at] ^= flip
            path.write_bytes(data)
            reads.clear()
            with refused_as_damage(), open_store(f"sqlite:///{path}") as store:
                found += bool(store.verify())
                for verb in (store.names, store.collect_garbage):
                    with refused_as_damage():
                        verb()

        assert found > 10


def flipped_keys(path, table):
    """Bytes of keys in the leaves of a table, and bits of them."""
    connection = sqlite3.connect(path)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (root,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
    ).fetchone()
    connection.close()
    data = path.read_bytes()
    start = (root - 1) * size
    kind, cells = data[start], int.from_bytes(data[start + 3 : start + 5])
    assert kind in {0x0A, 0x0D}, "the table has more than one page"
    for cell in range(0, cells, 4):
        pointer = start + 8 + 2 * cell
        at = start + int.from_bytes(data[pointer : pointer + 2])
        # The size of the row, the number of it or the sizes of its columns, and
        # in tables that are ordered by a text the text.
        for byte in range(at + 1, at + 10):
            for bit in (0, 3, 6) if is_thorough() else (byte % 7,):
                yield byte, 1 << bit


class TestErased:
    @pytest.mark.parametrize(
        "change",
        [
            lambda rows: rows.set("changes", 1, entry=b"another"),
            lambda rows: rows.set("changes", 1, reason="another"),
            lambda rows: rows.remove("changes", 1, 2),
        ],
        ids=["entry", "reason", "missing"],
    )
    def test_does_not_come_back(self, change):
        """
        If the note of an erasure is damaged or missing, nothing is saved, because a
        writer may still have what was erased; everything loads as before.
        """
        backend = MemoryBackend()
        state = CHAT.add_user_prompt("secret").add_user_prompt("more")
        store = Store(backend)
        store.save("chat", state)
        for entry in state.entries[1:]:
            store.erase(entry.id, reason="asked for")

        stone = store.load("chat")
        with backend.writing() as rows:
            change(rows)

        fresh = Store(backend)

        assert stone == fresh.load("chat")
        for name in ("chat", "new"):
            with pytest.raises(StoreError, match=r"note of an erasure.*verify\(\)"):
                fresh.save(name, state.fork().add_user_prompt("and?"), expecting=None)

        with pytest.raises(StoreError, match="note of an erasure"):
            fresh.save("chat", fresh.load("chat").add_user_prompt("and?"))

        for others in (fresh, Store(backend, remembered=0)):
            with pytest.raises(StoreError, match="note of an erasure"):
                others.append("chat", UserMessage("and?"))

        assert "changes" in {damage.where for damage in fresh.verify()}

    def test_is_there_again(self):
        """What was erased and was put back behind the store is found."""
        backend = MemoryBackend()
        store = Store(backend)
        store.save("chat", CHAT)
        with backend.reading() as rows:
            columns = "place", "body", "content", "checksum"
            ((place, *there),) = rows.scan("entries", None, None, columns=columns)

        store.erase(CHAT.entries[0].id, reason="asked for")
        with backend.writing() as rows:
            rows.set("entries", place, **dict(zip(columns[1:], there, strict=True)))

        (damage,) = store.verify()

        assert ("entries", CHAT.entries[0].id) == (damage.where, damage.id)
        assert "erased" in damage.what


class TestFile:
    def test_bytes(self, tmp_path):
        """
        Any byte of the file that is another is found, or changes nothing that
        is loaded; and never is it an error of another kind.
        """
        path, whole = tmp_path / "chats.db", tmp_path / "whole.db"
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
                    check_reported(states, store)
            except StoreError:
                damages = (Damage("medium", "", "it can't be opened"),)

            if damages:
                found += 1
            else:
                with open_store(f"sqlite:///{path}") as store:
                    for head, state in states.items():
                        assert state == store.load(head.name, at=head.revision), at

            for beside in tmp_path.glob("chats.db-*"):
                beside.unlink()

        assert found

    @pytest.mark.parametrize("table", [*TABLES, "numbers"])
    def test_schema(self, tmp_path, table):
        """
        One bit in the name of a table is found, though SQLite itself finds nothing
        wrong with another case, and loses the table with its next vacuum.
        """
        path = tmp_path / "chats.db"
        with open_store(f"sqlite:///{path}") as store:
            states = lived_in(store)
            assert () == store.verify()

        data = path.read_bytes()
        at = data.index(b"table" + table.encode() * 2) + len("table")
        path.write_bytes(data[:at] + data[at : at + 1].upper() + data[at + 1 :])
        with refused_as_damage(), open_store(f"sqlite:///{path}") as store:
            found = [damage for damage in store.verify() if "schema" in damage.what]
            check_reported(states, store)

            assert [("medium", "")] == [(each.where, each.id) for each in found]
            assert found[0].what.endswith(f"at the tables {table}")

    @pytest.mark.parametrize("last", ["2", "'x'", "-9", str(1 << 40), str(1 << 62)])
    def test_numbers(self, tmp_path, last):
        """
        Numbers that would be given twice, or are none, are found, and nothing is
        written with them.
        """
        path = tmp_path / "chats.db"
        with open_store(f"sqlite:///{path}") as store:
            for name in "abc":
                store.save(name, CHAT.fork().add_user_prompt(name))

            assert () == store.verify()
            connection = sqlite3.connect(path)
            connection.execute(f"UPDATE numbers SET last = {last}")
            connection.commit()
            connection.close()
            (damage,) = store.verify()

            assert ("medium", True) == (damage.where, "last number" in damage.what)
            with pytest.raises(StoreError):
                store.save("d", Aggregator.new().add_user_prompt("d"))

            assert ("a", "b", "c") == store.names()

    def test_only_a_start(self, tmp_path):
        """
        A file of which only the first bytes are left is not made a new one, and the
        advice is none that it leads back to.
        """
        path = tmp_path / "chats.db"
        with open_store(f"sqlite:///{path}") as store:
            lived_in(store)

        data = path.read_bytes()
        for size in (16, 50, 100, 511):
            start = data[:size]
            path.write_bytes(start)
            damaged = "the file is damaged; .* restore a backup, or .* if the file can"
            with pytest.raises(StoreError, match=damaged):
                open_store(f"sqlite:///{path}")

            assert start == path.read_bytes()


# Where a row of entries has its content, behind its key.
BODY = [column.name for column in TABLES["entries"].columns].index("body") + 1


class TestLoad:
    @pytest.mark.parametrize(
        ("column", "change"),
        [
            ("body", lambda body: body.replace(b"more", b"mare")),
            ("body", lambda body: body[:-1]),
            ("body", str),
            ("digest", lambda _: None),
        ],
        ids=["changed", "no JSON", "no bytes", "no digest"],
    )
    def test_asks_for_verify(self, column, change):
        """
        A state that can't be restored is an error that asks for verify, and a window
        of other rows is not.
        """
        backend = MemoryBackend()
        store = Store(backend)
        store.save("chat", CHAT.add_user_prompt("more").add_user_prompt("last"))
        with backend.writing() as rows:
            row = rows.scan("entries", None, None)[1]
            at = [c.name for c in TABLES["entries"].columns].index(column) + 1
            rows.set("entries", row[0], **{column: change(row[at])})

        for last in (None, 2):
            with pytest.raises(StoreError, match="verify"):
                Store(backend).load("chat", last=last)

        if column != "digest":
            window = Store(backend).load("chat", last=1)
            assert ["last"] == [message.text for message in window.messages]

    @pytest.mark.parametrize(
        ("damage", "named"),
        [
            (
                lambda rows, entry: rows.set(
                    "entries", entry[0], body=entry[BODY].replace(b"last", b"LAST")
                ),
                r"the entry '\w+-\w+' of entries is not what was saved",
            ),
            (
                lambda rows, entry: rows.remove("entries", entry[0], entry[0] + 1),
                "the entries from 2 on are missing",
            ),
            (
                lambda rows, _: rows.remove("branches", None, None),
                "branch 2 is missing or leads nowhere",
            ),
            (
                lambda rows, _: rows.remove("blobs", None, None),
                "the large content [0-9a-f]+ is missing",
            ),
        ],
        ids=["an entry", "a gap", "a branch", "large content"],
    )
    def test_names_the_damage(self, damage, named):
        """A load says which row is damaged or missing."""
        backend = MemoryBackend()
        store = Store(backend)
        image = ImagePart(data=b"x" * 100_000, media_type="image/png")
        store.save("chat", CHAT.add_user_prompt([image]).add_user_prompt("last"))
        with backend.writing() as rows:
            *_, newest = rows.scan("entries", None, None)
            damage(rows, newest)

        with pytest.raises(DamageError, match=named):
            Store(backend).load("chat")

    @pytest.mark.parametrize(
        ("table", "what"), [("timelines", "the row"), ("moments", "a moment")]
    )
    def test_names_what_a_timeline_lacks(self, table, what):
        """
        A timeline that can't be restored is an error that says which rows it lacks.
        """
        backend = MemoryBackend()
        Store(backend).save_timeline("chat", Timeline.begin(CHAT).commit(CHAT.fork()))
        with backend.writing() as rows:
            rows.remove(table, None, None)

        why = f"{what} of the timeline of 'chat' is missing or damaged"
        with pytest.raises(StoreError, match=why):
            Store(backend).load_timeline("chat")

    def test_names_what_a_reference_lacks(self):
        """A step on a reference whose name is missing is an error about that."""
        backend = MemoryBackend()
        store = Store(backend)
        ref = store.ref(store.save("chat", CHAT), keep=timedelta(0))
        with backend.writing() as rows:
            rows.remove("names", None, None)

        with pytest.raises(DamageError, match="the name of revision 1 is missing"):
            Store(backend).step_ref(ref, "answer", lambda state: state)

    @pytest.mark.parametrize("verb", ["load", "latest", "message_tree"])
    def test_names_what_has_no_revisions(self, verb):
        """A name without any revision is damage, for whatever reads it."""
        backend = MemoryBackend()
        Store(backend).save("chat", CHAT)
        with backend.writing() as rows:
            rows.remove("revisions", None, None)

        with pytest.raises(DamageError, match="'chat' has no revisions"):
            getattr(Store(backend), verb)("chat")

    def test_erasure_of_what_is_no_tombstone(self):
        """An entry that is marked as erased, and was not, is damage, not a receipt."""
        backend = MemoryBackend()
        store = Store(backend)
        store.save("chat", CHAT.add_user_prompt("more"))
        entry = store.load("chat").entries[1].id
        with backend.writing() as rows:
            row = rows.scan("entries", None, None)[1]
            rows.set("entries", row[0], content=b"x" * 16)

        with pytest.raises(StoreError, match="is not a tombstone"):
            Store(backend).erase(entry, reason="asked for")

    def test_hostile_numbers(self):
        """Lengths and places that can't be right raise at once."""
        for column, value in (
            ("length", 2**40),
            ("length", -1),
            ("ledger_length", 2**62),
            ("branch", 2**62),
            ("origin", 0),
        ):
            backend = MemoryBackend()
            store = Store(backend)
            store.save("chat", CHAT)
            with backend.writing() as rows:
                rows.set("revisions", 1 << 32 | 1, **{column: value})

            with pytest.raises(StoreError, match=r"verify\(\)"):
                Store(backend).load("chat")
