"""A list of conversations costs what it gives, however many names there are."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from conversation_state import Aggregator
from conversation_state.errors import StoreError
from conversation_state.store import Store, open_store
from conversation_state.store.backends._sqlite import SQLITE
from conversation_state.store.backends.memory import MemoryBackend
from conversation_state.store.schema import Name, sealed

CHAT = Aggregator.new().add_user_prompt("When is the next train?")
MANY = 2_000
ARGUMENTS = ("chat 7", "chat 8", 10)


def save_some(url, count):
    """Names with two revisions each, from one number on."""
    with open_store(url) as store:
        for at in range(0, count, 100):
            names = [f"chat {number}" for number in range(at, min(at + 100, count))]
            store.save_all(dict.fromkeys(names, CHAT))
            store.save_all(dict.fromkeys(names, CHAT.add_user_prompt("And back?")))


def run_counted(path):
    """The rows of one page, and how many steps SQLite's machine took for it."""
    steps = [0]

    def count():
        steps[0] += 1

    with closing(sqlite3.connect(path)) as connection:
        sql = SQLITE.scan_heads(is_high=True)
        connection.execute(sql, ARGUMENTS).fetchall()
        connection.set_progress_handler(count, 1)
        rows = connection.execute(sql, ARGUMENTS).fetchall()

    return len(rows), steps[0]


class TestSqlite:
    def test_one_statement(self, tmp_path):
        """A page is one statement in a transaction that reads."""
        url = f"sqlite:///{tmp_path}/chats.db"
        save_some(url, 20)
        with open_store(url) as store:
            backend: Any = store._cache.backend
            (connection,) = backend._idle
            calls: list[str] = []
            connection.set_trace_callback(calls.append)
            found = store.heads(limit=10)
            connection.set_trace_callback(None)

        assert 10 == len(found)
        assert ["BEGIN", "SELECT"] == [each.split()[0] for each in calls][:2]
        assert {"COMMIT", "ROLLBACK"} >= {*calls[2:]}

    def test_costs_what_it_gives(self, tmp_path):
        """A page of ten takes the same steps among a hundred times as many names."""
        few, many = tmp_path / "few.db", tmp_path / "many.db"
        save_some(f"sqlite:///{few}", 80)
        save_some(f"sqlite:///{many}", MANY)

        assert run_counted(few) == run_counted(many)


@pytest.mark.integration
class TestPostgres:
    def test_plan(self, server, pg_url):
        """Rows are found by their keys, and not by reading the tables."""
        pytest.importorskip("psycopg")
        from conversation_state.store.backends._postgres import (  # noqa: PLC0415 - needs psycopg
            POSTGRES,
        )

        save_some(pg_url, 300)
        rows: Any
        with open_store(pg_url) as store, store._cache.backend.reading() as rows:
            rows.run("SET LOCAL enable_seqscan = off", ())
            listed, head = (
                [line for (line,) in rows.run(f"EXPLAIN {sql}", given).fetchall()]
                for sql, given in (
                    (POSTGRES.scan_heads(is_high=True), ARGUMENTS),
                    (POSTGRES.get_head(), ARGUMENTS[:1]),
                )
            )

        for plan, tables in (
            (listed, ("names", "revisions")),
            (head, ("names", "revisions", "entries", "ledger", "changes")),
        ):
            for table in tables:
                assert any("Index" in each and table in each for each in plan)

            assert not [each for each in plan if "Seq Scan" in each]


class TestDamage:
    @pytest.mark.parametrize("table", ["revisions", "origins"])
    def test_missing(self, table):
        """
        A name whose newest revision is gone, or whose origin is, is not left out of
        the list in silence.
        """
        backend = MemoryBackend()
        Store(backend).save("chat", CHAT)
        with backend.writing() as rows:
            rows.remove(table, None, None)

        with pytest.raises(StoreError, match=r"verify\(\)"):
            Store(backend).heads()

    def test_exchanged_notes(self):
        """Notes that another program put there are found, and are not shown."""
        backend = MemoryBackend()
        store = Store(backend)
        store.save("chat", CHAT)
        store.annotate("chat", {"title": "ours"})
        with backend.writing() as rows:
            ((_, number, *_),) = rows.scan("names", None, None)
            notes = b'{"title":"theirs"}'
            other = sealed(Name("other", number, notes=notes))
            rows.set("names", "chat", notes=notes, seal=other.seal)

        for verb in (store.heads, lambda: store.notes("chat")):
            with pytest.raises(StoreError, match="the name 'chat' is not what"):
                verb()

        assert "names" in {damage.where for damage in store.verify()}
