"""A save of one message is one statement, and keeps the promises of any other."""

import sqlite3
from typing import Any

import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ImagePart,
    Usage,
    UserMessage,
)
from conversation_state.errors import StaleHeadError, StoreError
from conversation_state.store import Store, open_store
from conversation_state.store.backends._sqlite import (
    SqliteBackend,
    SqliteOptions,
)
from conversation_state.store.schema import Revision, sealed

CHAT = Aggregator.new().add_user_prompt("When is the next train?")
MORE = CHAT.add_assistant_message("At noon.")
BILLED = MORE.add_usage(Usage(1, 1))
LARGE = ImagePart(data=bytes(range(256)) * 40)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chats.db"


@pytest.fixture
def url(path):
    return f"sqlite:///{path}"


def statements(store):
    """
    The statements that the connection which a store uses next executes from now on.
    """
    statements_run: list[str] = []
    backend: Any = store._cache.backend
    backend._idle[-1].set_trace_callback(statements_run.append)
    return statements_run


def list_first_words(statements_run):
    """
    The first word of each statement; those of triggers are listed as the statement that
    fired them.
    """
    return [sql.split()[0] for sql in dict.fromkeys(statements_run)]


class Failing:
    """A connection whose statement number *left* fails before it is done."""

    def __init__(self, connection):
        self.connection = connection
        self.left = -1

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, *given):
        self.left -= 1
        if self.left == -1:
            raise sqlite3.OperationalError("disk I/O error")

        return self.connection.execute(*given)


class TestSave:
    def test_one_message(self, url):
        """One more message is one statement, once the connection is prepared."""
        with open_store(url) as store:
            store.save("chat", CHAT)
            store.save("chat", MORE)
            statements_run = statements(store)
            last = MORE.add_user_prompt("Thanks!")
            store.save("chat", last)

            assert ["INSERT"] == list_first_words(statements_run)
            assert [3, 2, 1] == [head.revision for head in store.history("chat")]

        with open_store(url) as store:
            assert last == store.load("chat")
            assert MORE == store.load("chat", at=2)
            assert () == store.verify()

    @pytest.mark.parametrize(
        ("grow", "label"),
        [
            (lambda state: state.add_user_prompt("Thanks!"), "said"),
            (lambda state: state.add_usage(Usage(3, 5)), ""),
            (lambda state: state.add_usage(Usage(3, 5)).add_user_prompt("Hm."), ""),
            (lambda state: state.extend([AssistantMessage("1"), UserMessage("2")]), ""),
            (lambda state: state.add(UserMessage([LARGE])), ""),
        ],
        ids=["a label", "a usage", "both", "two", "a picture"],
    )
    def test_more_than_that(self, url, grow, label):
        """Whatever is more than one message is several, in one transaction."""
        with open_store(url) as store:
            store.save("chat", BILLED)
            statements_run = statements(store)
            state = grow(BILLED)
            store.save("chat", state, label=label)

            assert ("BEGIN IMMEDIATE", "COMMIT") == (
                statements_run[0],
                statements_run[-1],
            )

        with open_store(url) as store:
            assert state == store.load("chat")
            assert (2, (label,) if label else ()) == store.latest("chat")[1:7:5]
            assert () == store.verify()

    def test_leaves_nothing_behind(self, url, path):
        """What a connection is prepared with is not in the file."""
        with open_store(url) as store:
            store.save("chat", CHAT)
            store.save("chat", MORE)

        connection = sqlite3.connect(path)
        found = connection.execute("SELECT DISTINCT type FROM sqlite_master").fetchall()
        connection.close()

        assert {("table",), ("index",)} >= set(found)
        assert [path] == list(path.parent.iterdir())


class TestFirst:
    """Another writer was first, and this store has not seen it."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda other: other.save("chat", CHAT.add_user_prompt("theirs")),
            lambda other: other.delete("chat"),
            lambda other: (other.delete("chat"), other.save("chat", CHAT.fork())),
        ],
        ids=["saved", "deleted", "made anew"],
    )
    def test_head_is_another(self, url, change):
        """No save replaces a head that it did not expect."""
        with open_store(url) as store, open_store(url) as other:
            head = store.save("chat", CHAT)
            change(other)
            before = [other.history(name) for name in other.names()]
            with pytest.raises(StaleHeadError):
                store.save("chat", MORE, expecting=head)

            assert before == [other.history(name) for name in other.names()]
            assert () == other.verify()


class TestTrouble:
    @pytest.mark.parametrize("at", range(4))
    def test_fails_at_first(self, path, at):
        """
        A connection that could not be prepared, or not wholly, is prepared
        when it is used again.
        """
        backend = SqliteBackend(str(path), SqliteOptions())
        with Store(backend) as store:
            store.save("chat", CHAT)
            failing = Failing(backend._idle.pop())
            backend._idle.append(failing)  # type: ignore[arg-type]  # as good as one
            failing.left = at
            with pytest.raises(StoreError, match="disk I/O"):
                store.save("chat", MORE)

            assert CHAT == store.load("chat")

            store.save("chat", MORE)
            store.save("chat", MORE.add_user_prompt("Thanks!"))

            assert 3 == store.latest("chat").revision
            assert () == store.verify()

    @pytest.mark.parametrize("at", range(4))
    def test_fails_later(self, path, at):
        """
        A save of two messages that fails at any statement, its end as well,
        leaves the connection as it was.
        """
        backend = SqliteBackend(str(path), SqliteOptions())
        with Store(backend) as store:
            store.save("chat", CHAT)
            failing = Failing(backend._idle.pop())
            backend._idle.append(failing)  # type: ignore[arg-type]  # as good as one
            failing.left = at
            more = MORE.add_user_prompt("Thanks!")
            with pytest.raises(StoreError, match="disk I/O"):
                store.save("chat", more)

            assert not failing.in_transaction
            assert CHAT == store.load("chat")
            assert 2 == store.save("chat", more).revision

    def test_first_alone(self, url):
        """A row that waited for another one is there when the block ends."""
        with open_store(url) as store:
            store.save("chat", CHAT)
            with store._cache.backend.reading() as rows:
                (old,) = map(Revision._make, rows.scan("revisions", None, None))

            with store._cache.backend.writing() as rows:
                rows.add(
                    "revisions",
                    [sealed(old._replace(revision=old.revision + 1))],
                    if_exists=[("revisions", old.revision)],
                    if_absent=[("changes", 1)],
                )

            assert 2 == store.latest("chat").revision

    def test_other_conditions(self, url):
        """A row on another condition than a save's is added on that one."""
        with open_store(url) as store:
            store.save("chat", CHAT)
            with store._cache.backend.reading() as rows:
                (old,) = map(Revision._make, rows.scan("revisions", None, None))

            revision = old.revision
            for i, (given, if_absent) in enumerate(
                [("names", "changes"), ("revisions", "labels")], start=1
            ):
                key: Any = {"names": "chat", "revisions": revision}[given]
                none: Any = {"changes": 1, "labels": b"none"}[if_absent]
                with store._cache.backend.writing() as rows:
                    rows.add(
                        "revisions",
                        [sealed(old._replace(revision=revision + i))],
                        if_exists=[(given, key)],
                        if_absent=[(if_absent, none)],
                    )
                    rows.add("entries", [(i, b"id", b"{}", None, b"digest")])

            assert 3 == store.latest("chat").revision

    def test_seen_by_its_own_block(self, url):
        """A block sees the rows it added, although they waited."""
        with open_store(url) as store:
            store.save("chat", CHAT)
            with store._cache.backend.reading() as rows:
                ((revision, *rest),) = rows.scan("revisions", None, None)
                ((place, *entry),) = rows.scan("entries", None, None)

            with store._cache.backend.writing() as rows:
                row = (revision + 1, *rest)
                rows.add(
                    "revisions",
                    [row],
                    if_exists=[("revisions", revision)],
                    if_absent=[("changes", 1)],
                )
                rows.add("entries", [(place + 1, *entry)])
                rows.add("entries", [(place + 2, *entry)])

                assert row == rows.get("revisions", revision + 1)
                assert (place + 1, *entry) == rows.get("entries", place + 1)
                assert (place + 2, *entry) == rows.get("entries", place + 2)
