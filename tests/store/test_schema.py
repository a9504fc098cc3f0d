"""The schema as data: a column stands in one place, its row class."""

import sqlite3
from typing import Any

import pytest

from conversation_state import Aggregator
from conversation_state.store import open_store, schema
from conversation_state.store._log import LogRow
from conversation_state.store.backends import _sqlite as _backend
from conversation_state.store.backends._sql import STEPS, Step
from conversation_state.store.backends._sqlite import SQLITE
from conversation_state.store.backends._sqlite_log import VERSION_MASK
from conversation_state.store.schema import (
    TABLES,
    Change,
    LabelMoveRow,
    MomentRow,
    Name,
    RecordRow,
    Revision,
    TimelineRow,
    is_sealed,
    sealed,
)
from tests.store import older

EXAMPLES = [
    ("chat", 7, 1, b'{"title":"Trip"}'),
    (
        1 << 32 | 5,
        4,
        2,
        3,
        4,
        5,
        6,
        7,
        1_700_000_000_000,
        b"d" * 16,
        b"a\0b",
        b'{"tags":[1]}',
    ),
    (7, 2, 3, 4, 100, 5, 6),
    (7 << 32 | 5, 2, 3, 4, b"label", b"typing", b'{"cursor":3}'),
    (7 << 32 | 5, b"label", 2, 3, 1_700_000_000_000),
    (b"key", b"value", 2, 3, b"m" * 16),
    (1, b"entry", b"c" * 16, "asked", 1_700_000_000_000),
]
SEALED: list[Any] = [
    sealed(row(*values))
    for row, values in zip(
        (Name, Revision, TimelineRow, MomentRow, LabelMoveRow, RecordRow, Change),
        EXAMPLES,
        strict=True,
    )
]


class TestTables:
    @pytest.mark.parametrize("name", TABLES)
    def test_in_a_file(self, tmp_path, name):
        """
        A table in a file has the columns of its row class, in that order, of the
        types that they are annotated with.
        """
        open_store(f"sqlite:///{tmp_path}/chats.db").close()
        with sqlite3.connect(tmp_path / "chats.db") as connection:
            there = connection.execute(f"PRAGMA table_info({name})").fetchall()

        connection.close()
        table = TABLES[name]
        types = {"integer": "INTEGER", "text": "TEXT", "bytes": "BLOB"}
        columns = (table.key, *table.columns)

        assert table.column_names == tuple(column[1] for column in there)
        assert [types[each.type] for each in columns] == [each[2] for each in there]

    def test_of_row_classes(self):
        """A class whose fields are a row's columns says which may be null."""
        entries = TABLES["entries"]
        nullable = [column.name for column in entries.columns if column.is_null]

        assert ("place", *LogRow._fields) == entries.column_names
        assert ["content"] == nullable
        assert ("integer", "bytes") == (entries.key.type, entries.columns[0].type)

    def test_one_more_column(self, monkeypatch):
        """A field more of a row class is in every statement."""
        fields = ("revision", "author", "digest", "seal")
        row = type(
            "Author",
            (),
            {
                "__annotations__": dict.fromkeys(fields, bytes) | {"revision": int},
                "_fields": fields,
            },
        )
        table = schema._describe_table("authors", row)
        monkeypatch.setitem(TABLES, "authors", table)

        assert fields == table.column_names
        assert any(
            statement.startswith("CREATE TABLE authors (revision INTEGER")
            and "author BLOB NOT NULL" in statement
            for statement in SQLITE.create()
        )
        assert "(revision, author, digest, seal)" in SQLITE.add("authors")


class TestSeals:
    @pytest.mark.parametrize("row", SEALED)
    def test_every_column(self, row):
        """A row with any other value in one column is damaged."""
        assert is_sealed(row)

        for name, value in row._asdict().items():
            other = value ^ 1 if isinstance(value, int) else value[:-1]

            assert not is_sealed(row._replace(**{name: other}))

    @pytest.mark.parametrize("row", SEALED)
    def test_other_types(self, row):
        """A row with a value of another type is damaged, and no error."""
        for name in row._fields:
            for other in (None, b"x", "x", 1.5, 1 << 70):
                assert not is_sealed(row._replace(**{name: other}))

    def test_no_value_passes_for_two(self):
        """Bytes that move from one column to the next make another seal."""
        moved = sealed(RecordRow(b"keyv", b"alue", 2, 3, b"m" * 16))
        other = sealed(RecordRow(b"key", b"value", 2, 3, b"m" * 16))

        assert moved.seal != other.seal


class TestSteps:
    def test_one_for_each_schema(self):
        """There is a step from each schema to the next, up to the current one."""
        assert len(STEPS) == schema.SCHEMA_VERSION - 1


class TestNewFiles:
    def test_pass_no_steps(self, tmp_path, monkeypatch):
        """
        A new file has the tables of today, and the steps from older ones are not
        for it.
        """

        def add(connection):
            connection.execute("ALTER TABLE revisions ADD COLUMN planted BLOB")

        newest = schema.SCHEMA_VERSION + 1
        monkeypatch.setattr(_backend, "STEPS", (*STEPS, Step(add, add)))
        monkeypatch.setattr(_backend, "SCHEMA_VERSION", newest)
        url = f"sqlite:///{tmp_path}/chats.db"
        with open_store(url) as store:
            store.save("chat", Aggregator.new().add_user_prompt("Hi!"))

        with sqlite3.connect(tmp_path / "chats.db") as connection:
            columns = connection.execute("PRAGMA table_info(revisions)").fetchall()
            version = connection.execute("PRAGMA user_version").fetchone()

        connection.close()

        assert "planted" not in [column[1] for column in columns]
        assert newest == version[0] & VERSION_MASK


class TestOlderFiles:
    @pytest.fixture
    def older_url(self, tmp_path, monkeypatch):
        """A file in which two states were saved before revisions had notes."""
        url = f"sqlite:///{tmp_path}/chats.db"
        state = Aggregator.new().add_user_prompt("Hi!")
        with open_store(url) as store:
            store.save("chat", state, label="asked")
            store.save("chat", state.add_assistant_message("Hello."))

        with sqlite3.connect(tmp_path / "chats.db") as connection:
            older.drop_notes_in_sqlite(connection)

        connection.close()
        monkeypatch.setattr(_backend, "STEPS", (*STEPS, older.ADD_NOTES))
        newest = schema.SCHEMA_VERSION + 1
        monkeypatch.setattr(_backend, "SCHEMA_VERSION", newest)
        return url

    def test_one_more_column(self, older_url):
        """
        Rows of an older file get one more column, and the file is what a new one is.
        """
        with open_store(older_url) as store:
            assert () == store.verify()
            assert ("asked",) == store.latest("chat", at=1).labels
            assert {"by": "ann"} == store.annotate("chat", {"by": "ann"}, at="asked")
            assert () == store.verify()

    @pytest.mark.parametrize("damage", ["saved_at = 0", "saved_at = 'x'", "digest = 5"])
    def test_damage_stays(self, older_url, tmp_path, damage):
        """A row that was damaged before the step is so after it."""
        with sqlite3.connect(tmp_path / "chats.db") as connection:
            connection.execute(f"UPDATE revisions SET {damage} WHERE length = 1")

        connection.close()
        with open_store(older_url) as store:
            (damage,) = store.verify()

        assert "revisions" == damage.where
