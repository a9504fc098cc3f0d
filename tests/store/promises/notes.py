"""Promises about notes, on names and on revisions."""

from typing import Any

import pytest

from conversation_state.errors import NotSavedError
from tests.store.promises.case import CONVERSATION, StoreCase, append_turns

NOTES = {"title": "Trip to Bern", "tags": ("work", "train"), "user": {"id": 7}}


class NotePromises(StoreCase):
    """Notes are kept, and change nothing else."""

    def test_on_a_revision(self, reopen):
        """
        Notes on a revision come with its head, from a save and from later; the
        others have their own, and so does the name.
        """
        first, second, third = append_turns(CONVERSATION, 3)
        store = reopen(None)
        heads = [
            store.save("chat", first, notes={"commit": "1a2b"}),
            store.save("chat", second, label="two", notes={"commit": "3c4d"}),
            store.save("chat", third),
        ]

        assert {"by": "ann", "commit": "1a2b"} == store.annotate(
            "chat", {"by": "ann"}, at=heads[0]
        )

        store.annotate("chat", {"commit": None}, at="two")
        store = reopen(store)

        assert [{}, {}, {"by": "ann", "commit": "1a2b"}] == [
            head.notes for head in store.history("chat")
        ]
        assert {"commit": "3c4d"} == heads[1].notes
        assert {"by": "ann", "commit": "1a2b"} == store.notes("chat", at=1)
        assert {} == store.notes("chat")
        assert second == store.load("chat", at="two")
        assert () == store.verify()

    def test_of_the_same_state(self, store):
        """
        If a state is the head already, its save adds the notes to the head and makes no
        new revision, also if the store has forgotten the head; labels stay.
        """
        states = append_turns(CONVERSATION, 2)
        other = self.other(store)
        store.save("chat", states[0], label="kept")
        other.load("chat")
        head = store.save("chat", states[0], label="again", notes={"by": "ann"})

        assert (1, {"by": "ann"}) == (head.revision, head.notes)
        assert ("kept", "again") == head.labels
        assert head == store.latest("chat") == other.latest("chat")
        assert states[0] == other.load("chat")
        assert {"by": "ann"} == store.save("chat", states[0]).notes
        assert {} == other.save("chat", states[1]).notes
        assert head.notes == other.latest("chat", at="again").notes
        assert () == other.verify()

    def test_equal_values(self, store):
        """
        A note can be changed to a value that is equal in Python and differs in JSON:
        from 1 to True, for example.
        """
        store.save("chat", CONVERSATION)
        for at in (None, 1):
            for value in (1, True, 1.0):
                store.annotate("chat", {"draft": value}, at=at)
                notes = self.other(store).notes("chat", at=at)

                assert (type(value), value) == (type(notes["draft"]), notes["draft"])

    def test_merged_by_a_save(self, store):
        """
        Notes of a save of the very head are merged with those on it, as others are:
        key by key, None removes one, and too many are refused.
        """
        other = self.other(store, remembered=0)
        store.save("chat", CONVERSATION, notes={"commit": "1a2b"})
        store.annotate("chat", {"title": "Bern"}, at=1)
        steps: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"commit": "3c4d"}, {"commit": "3c4d", "title": "Bern"}),
            ({}, {"commit": "3c4d", "title": "Bern"}),
            ({"commit": None, "by": "ann"}, {"title": "Bern", "by": "ann"}),
            ({"by": None}, {"title": "Bern"}),
        ]
        for notes, expected in steps:
            for saving in (store, other):
                assert expected == saving.save("chat", CONVERSATION, notes=notes).notes
                assert expected == store.latest("chat").notes

        store.annotate("chat", {"long": "x" * 10_000}, at=1)
        with pytest.raises(ValueError, match="16,384"):
            store.save("chat", CONVERSATION, notes={"more": "x" * 10_000})

        assert {"long", "title"} == {*store.latest("chat").notes}
        assert () == store.verify()

    def test_heads_in_one_call(self, watched, calls):
        """For any number of names, the backend is called once."""
        watched.save_all(
            dict.fromkeys([f"chat {at}" for at in range(30)], CONVERSATION)
        )
        calls.clear()

        assert 30 == len(watched.heads())
        assert ["scan_heads"] == [call.verb for call in calls]

    def test_heads(self, store):
        """
        Names come with their newest revision and their notes, in pages, in the order
        of their code points.
        """
        # A range of names that begin with U+D7FF can't end before the next code point:
        # that is a surrogate.
        last = ["\U0001f600", "\ud7ff", "\ue000", "\uffff"]
        names = ["b", "a", "a/2", "a/1", "é", *last]
        for at, name in enumerate(names):
            states = append_turns(CONVERSATION.fork(), at % 3 + 1)
            for state in states:
                store.save(name, state, notes={"at": at})

            store.annotate(name, {"title": name})

        store.label("a/1", "kept")
        found = store.heads()

        assert sorted(names) == [each.name for each in found]
        for each in found:
            assert store.latest(each.name) == each.head
            assert store.notes(each.name) == each.notes == {"title": each.name}
            assert {"at": names.index(each.name)} == each.head.notes

        assert found[:4] == store.heads(limit=4)
        assert found[4:6] == store.heads(after=found[3].name, limit=2)
        assert found[1:3] == store.heads(prefix="a/")
        assert found[2:3] == store.heads(prefix="a/", after="a/1")
        assert found[:4] == store.heads(prefix="", after="", limit=4)
        for name in ("\ud7ff", "\uffff", "\U0001f600"):
            assert [name] == [each.name for each in store.heads(prefix=name)]

    def test_no_heads(self, store):
        """
        A page may be empty: of no names, of none that are asked for, and after the
        last one.
        """
        assert () == store.heads()

        for name in ("a", "c"):
            store.save(name, CONVERSATION)

        asked: list[dict[str, Any]] = [
            *({"limit": 0}, {"after": "c"}, {"prefix": "b"}, {"prefix": "c\0"}),
            *({"prefix": "a", "after": "b"}, {"prefix": "\U0010ffff" * 2}),
            *({"after": "c\0"}, {"prefix": "a", "after": "a"}),
        ]
        for each in asked:
            assert () == store.heads(**each), each

        assert 2 == len(store.heads(limit=1 << 70))
        assert ["c"] == [each.name for each in store.heads(after="b")]
        refused: list[dict[str, Any]] = [
            *({"limit": -1}, {"limit": True}, {"prefix": 7}, {"after": "\ud800"})
        ]
        for bad in refused:
            with pytest.raises(ValueError):
                store.heads(**bad)

        store.delete("c")

        assert ["a"] == [each.name for each in store.heads()]

    def test_bad_notes(self, store):
        """Invalid notes are refused, and so are too many; nothing is written."""
        store.save("chat", CONVERSATION)
        store.annotate("chat", {"a": "x" * 10_000})
        bad: Any
        for bad in (
            *(7, "title", ["a"], {1: "a"}, {"a": float("nan")}, {"a": object()}),
            *({"\ud800": 1}, {"a": {"b": b"bytes"}}, {"long": "x" * 16_384}),
        ):
            with pytest.raises(ValueError, match="notes"):
                store.annotate("chat", bad)

            with pytest.raises(ValueError, match="notes"):
                store.save("chat", CONVERSATION.add_user_prompt("more"), notes=bad)

        with pytest.raises(ValueError, match="16,384"):
            store.annotate("chat", {"b": "x" * 10_000})

        for name, at in (("nothing", None), ("chat", 2), ("chat", "label")):
            with pytest.raises(NotSavedError):
                store.annotate(name, NOTES, at=at)

            with pytest.raises(NotSavedError):
                store.notes(name, at=at)

        assert {"a": "x" * 10_000} == store.notes("chat")
        assert 1 == store.latest("chat").revision
