"""Promises about what hosts save with states."""

import pytest

from conversation_state.errors import NotSavedError, StoreError
from conversation_state.store.records import (
    LogEnd,
    after,
    is_remembered,
    reading,
    write,
)
from conversation_state.store.schema import RecordRow
from tests.store.promises.case import CONVERSATION, StoreCase, append_turns


class RecordPromises(StoreCase):
    """Records are in order, and written at one moment with states."""

    def test_records(self, store):
        """
        Records are put, replaced, read in order by a range of keys, and
        removed.
        """

        def put(rows):
            rows.add(b"a\xff\xff", b"1")
            rows.put(b"a", b"")
            rows.put(b"", b"0")
            rows.put(b"b\0", b"2" * 10_000)
            rows.put(b"a", b"once more")

        write(store, put)
        with reading(self.other(store)) as rows:
            assert [b"", b"a", b"a\xff\xff", b"b\0"] == rows.keys(b"", None)
            a = rows.scan(b"a", after(b"a"))
            assert [b"once more", b"1"] == [record.value for record in a]
            assert [b"b\0"] == rows.keys(b"", None, limit=1, backwards=True)
            assert [b"a"] == rows.keys(b"a", after(b"a"), limit=1)
            assert rows.get(b"b") is None
            found = rows.get(b"b\0")
            assert found is not None
            assert (b"2" * 10_000, None) == found[1:]

        assert 2 == write(store, lambda rows: rows.remove(b"a", after(b"a")))
        with reading(store) as rows:
            assert [b"", b"b\0"] == rows.keys(b"", None)

        assert () == store.verify()

    def test_after(self):
        """
        The key after a prefix is greater than all keys with that prefix, and is the
        smallest such key.
        """
        assert (b"b", b"b", None, None) == (
            *(after(b"a"), after(b"a\xff")),
            *(after(b""), after(b"\xff\xff")),
        )

    def test_one_moment(self, store):
        """
        A block that raises has written neither records nor states, and what
        was saved in it is not known afterwards.
        """
        store.save("chat", CONVERSATION)

        def fail(rows):
            rows.save("chat", CONVERSATION.add_user_prompt("lost"))
            rows.save("new", CONVERSATION)
            rows.put(b"key", b"lost")
            raise InterruptedError

        with pytest.raises(InterruptedError):
            write(store, fail)

        for each in (store, self.other(store)):
            assert CONVERSATION == each.load("chat")
            assert ("chat",) == each.names()
            with reading(each) as rows:
                assert [] == rows.keys(b"", None)

        after_all = CONVERSATION.add_user_prompt("found")
        store.save("chat", after_all)

        assert after_all == self.other(store).load("chat")
        assert () == store.verify()

    def test_saves_whatever_was(self, store):
        """
        A state that is saved with a record replaces any head; the same head once more
        changes nothing.
        """
        states = append_turns(CONVERSATION, 4)
        other = self.other(store)

        def save(at):
            return write(store, lambda rows: rows.save("chat", states[at]).entries)

        first = save(3)
        other.save("chat", states[3].add_user_prompt("more"))
        holds = [save(3), save(1), save(1), save(2)]

        assert first == holds[0]
        assert holds[1] == holds[2]
        assert [4, 3, 5, 6, 5] == [head.length for head in store.history("chat")]
        assert states[2] == store.load("chat") == other.load("chat")

    def test_names_and_states(self, store):
        """A block reads and changes names and states, too; what is missing is None."""
        states = append_turns(CONVERSATION, 4)

        def work(rows):
            for read in (rows.latest, rows.state, rows.recall):
                assert read("chat") is None

            assert rows.window("chat", 2) is None
            assert rows.new_number() != rows.new_number()
            rows.save("chat", states[2])
            rows.label("chat", "kept")
            rows.save("chat", states[3])
            rows.fork("chat", "chat 2")
            rows.save("gone", states[0])
            rows.delete("gone")
            rows.put(b"a", b"1")
            return rows.recall("chat")

        assert states[3] == write(store, work)
        other = self.other(store)
        for each in (other, store):
            head = each.latest("chat")
            with reading(each) as rows:
                assert ["chat", "chat 2"] == rows.names("chat")
                assert [] == rows.names("gone")
                assert head == rows.latest("chat")
                assert states[2] == rows.load("chat", 1)
                assert states[3] == rows.state("chat")
                fork, window = rows.state("chat 2"), rows.window("chat", 2)
                assert fork is not None
                assert window is not None
                assert states[3].messages == fork.messages
                assert list(states[3].messages[-2:]) == list(window.messages)
                assert {b"a"} == rows.existing([b"a", b"b"])
                with pytest.raises(NotSavedError):
                    rows.load("chat", 9)

            assert states[2] == each.load("chat", at="kept")

        assert is_remembered(store, "chat")
        assert not is_remembered(self.other(store), "chat")

    def test_names_that_no_name_can_be(self, store):
        """A name or a label that can't be one is refused, by its argument's name."""
        store.save("chat", CONVERSATION)
        with pytest.raises(ValueError, match="new_name is"):
            write(store, lambda rows: rows.fork("chat", ""))
        with pytest.raises(ValueError, match="label is"):
            write(store, lambda rows: rows.label("chat", ""))

    def test_conflict(self, store):
        """If another writer was first, the block runs again, and reads the new rows."""
        calls = []

        def add(rows):
            calls.append(rows.get(b"key"))
            # As if another writer had saved since the store read the head.
            if len(calls) == 1:
                rows.add(b"twice", b"1")
                rows.add(b"twice", b"2")

            rows.put(b"key", b"%d" % len(calls))

        write(store, add)

        assert [None, None] == calls
        with reading(store) as rows:
            assert [b"key"] == rows.keys(b"", None)

    def test_holds(self, store):
        """
        Messages that a record holds stay as long as the record, even if names are
        deleted, and can be read from it.
        """
        states = append_turns(CONVERSATION, 6)
        holds: list[LogEnd] = []

        def keep(rows):
            for at in (5, 2):
                holds.append(rows.save("chat", states[at]).entries)
                rows.put(b"%d" % at, b"", holds[-1])

            rows.put(b"none", b"", rows.save("empty", CONVERSATION.fork(at=0)).entries)
            ledger = rows.save("apart", states[3]).ledger
            rows.put(b"paid", b"", ledger)

        write(store, keep)
        store.delete("chat")
        store.delete("empty")
        store.delete("apart")
        store.collect_garbage()
        other = self.other(store)
        with reading(other) as rows:
            for at in (5, 2):
                record = rows.get(b"%d" % at)
                assert record is not None
                assert record.hold is not None
                assert record.hold in holds
                assert states[at].entries == rows.entries(record.hold)

            none = rows.get(b"none")
            assert none is not None
            assert none.hold is not None
            assert [] == list(rows.entries(none.hold))
            ledger = rows.get(b"paid")
            assert ledger is not None
            assert ledger.hold is not None
            assert states[3].ledger == rows.ledger(ledger.hold)

        assert () == other.verify()

        write(store, lambda rows: rows.remove(b"5", b"6"))
        collected = store.collect_garbage()

        assert 3 == collected.entries
        with reading(self.other(store)) as rows:
            assert states[2].entries == rows.entries(holds[1])

        write(store, lambda rows: rows.remove(b"", None))

        assert 4 == store.collect_garbage().entries

    def test_damage(self, store):
        """
        A damaged record is reported and never read, and neither are messages that it
        did not hold.
        """
        states = append_turns(CONVERSATION, 3)
        _save_record(store, states[2])
        backend = store._cache.backend
        with backend.reading() as rows:
            (row,) = rows.scan("records", None, None)

        for name, old in list(RecordRow._make(row)._asdict().items())[1:]:
            new = old + 1 if isinstance(old, int) else bytes([old[0] ^ 1]) + old[1:]
            with backend.writing() as changing:
                changing.set("records", b"k", **{name: new})

            assert ["records"] == [damage.where for damage in store.verify()]
            with pytest.raises(StoreError, match="not what was written"):
                _has_record(self.other(store))

            with backend.writing() as changing:
                changing.set("records", b"k", **{name: old})

        other = self.other(store)
        other.save("apart", CONVERSATION.add_user_prompt("apart"))
        with backend.reading() as rows:
            place = rows.scan("entries", None, None)[2][0]
            (*_, (digest,)) = rows.scan("entries", None, None, columns=("digest",))

        assert _has_record(store)

        with backend.writing() as changing:
            changing.set("entries", place + 1, digest=digest)

        assert "records" in {damage.where for damage in store.verify()}
        with pytest.raises(StoreError):
            _has_record(self.other(store))

    def test_other_messages(self, store):
        """
        Other messages in the place of those that a record held are not read as its
        messages, even if they are valid.
        """
        state = append_turns(CONVERSATION, 3)[2]
        held = write(store, lambda rows: rows.save("chat", state).entries)
        others = held._replace(digest=bytes(len(held.digest)))
        write(store, lambda rows: rows.put(b"k", b"v", others))

        assert ["records"] == [damage.where for damage in store.verify()]
        with pytest.raises(StoreError, match="other entries than it did"):
            _has_record(self.other(store))


def _save_record(store, state):
    write(store, lambda rows: rows.put(b"k", b"v", rows.save("chat", state).entries))


def _has_record(store):
    with reading(store) as rows:
        record = rows.get(b"k")
        return (
            record is not None
            and record.hold is not None
            and bool(rows.entries(record.hold))
        )
