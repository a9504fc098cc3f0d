"""Promises about names: what can be listed of them, labelled, loaded and restored."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conversation_state.errors import NotSavedError, StaleHeadError
from conversation_state.timeline import Timeline
from conversation_state.usage import Usage
from tests.store.promises.case import CONVERSATION, StoreCase, append_turns


def list_labels(store):
    return [head.labels for head in store.history("chat")]


class NamePromises(StoreCase):
    """Every saved revision can be listed, labelled, loaded and restored."""

    def test_not_saved(self, store):
        """A missing name or label is reported as such, with similar ones."""
        store.save("travel desk", CONVERSATION)
        with pytest.raises(NotSavedError) as caught:
            store.load("travel dusk")

        assert ("name", "travel dusk") == (caught.value.what, caught.value.asked)
        assert ("travel desk",) == caught.value.near
        for at in (0, 2, -1, 1 << 70, "label"):
            with pytest.raises(LookupError):
                store.load("travel desk", at=at)

        store.save("other", CONVERSATION, label="before bouking")
        for label in ("before booking", "paid"):
            store.label("travel desk", label)

        for call in (
            lambda: store.load("travel desk", at="before bookin"),
            lambda: store.unlabel("travel desk", "before bookin"),
        ):
            with pytest.raises(NotSavedError, match="did you mean") as caught:
                call()

            assert ("before booking",) == caught.value.near

        # Those of another user may be like it, too.
        store.save("threads/ann/chat", CONVERSATION)
        for asked, near in (("threads/bob/chat", ()), ("threads/ann/chet", 1)):
            with pytest.raises(NotSavedError) as caught:
                store.load(asked)

            assert (near and ("threads/ann/chat",)) == caught.value.near

        for verb in (store.history, store.latest, store.delete):
            with pytest.raises(NotSavedError):
                verb("nothing")

        with pytest.raises(NotSavedError):
            store.erase("nothing", reason="asked")

    def test_default(self, store):
        """
        A default is returned for a name that is not saved, or is deleted, and
        for nothing else.
        """
        for default in (None, (), CONVERSATION):
            assert store.load("chat", default=default) is default
            assert store.load("chat", at="label", default=default) is default
            assert store.load("chat", last=1, default=default) is default

        store.save("chat", CONVERSATION)

        assert CONVERSATION == store.load("chat", default=None)
        assert store.load("chat", last=1) == store.load("chat", last=1, default=None)
        for at in (2, "label"):
            with pytest.raises(NotSavedError):
                store.load("chat", at=at, default=None)

        self.other(store).delete("chat")

        assert store.load("chat", default=None) is None

    def test_contains(self, store):
        """
        A name is in the store from its first save until it is deleted, by
        whichever store.
        """
        assert "chat" not in store

        self.other(store).save("chat", CONVERSATION)

        assert "chat" in store
        assert "tal" not in store
        assert "chat " not in store

        store.delete("chat")

        assert "chat" not in store
        assert "chat" not in self.other(store)

    def test_names(self, store):
        """Names are listed in the order of their code points, for any content."""
        # In the order of UTF-16, which some databases and languages sort by, U+1F600
        # comes before U+FFFF.
        # Some are equal for databases that trim, fold or compose texts.
        given = ["b", "a", "a/2", "a/1", "é", "\U0001f600", "Z", "a b", "ÿ", "\uffff"]
        given += ["a ", "A", "e\u0301"]
        for name in given:
            store.save(name, CONVERSATION)

        assert tuple(sorted(given)) == store.names()
        assert ("a", "a ", "a b", "a/1", "a/2") == store.names(prefix="a")
        assert () == store.names(prefix="nothing")

    def test_history(self, store):
        """The newest first, by pages or all at once."""
        heads = [store.save("chat", state) for state in append_turns(CONVERSATION, 7)]
        store.save("other", CONVERSATION)
        newest_first = tuple(reversed(heads))

        assert newest_first == store.history("chat")
        assert newest_first[:2] == store.history("chat", limit=2)
        assert newest_first[3:5] == store.history("chat", before=5, limit=2)
        assert () == store.history("chat", before=1)

    def test_labels(self, store):
        """
        A label points to the state that it was given last. Any number of labels point
        to one state, and none is lost by another label or a save.
        """
        states = append_turns(CONVERSATION, 3)
        store.save("chat", states[0], label="first")
        store.save("chat", states[1])
        store.save("chat", states[2])

        assert states[0] == store.load("chat", at="first")
        assert ("kept",) == store.label("chat", "kept", at=2).labels
        assert states[1] == store.load("chat", at="kept")

        store.label("chat", "kept")

        assert states[2] == store.load("chat", at="kept")
        assert [("kept",), (), ("first",)] == list_labels(store)

        assert ("kept", "again") == store.save("chat", states[2], label="again").labels
        assert ("kept", "again") == store.save("chat", states[2], label="kept").labels
        for label in ("kept", "again"):
            assert states[2] == store.load("chat", at=label)

        other = self.other(store)
        other.save("chat", append_turns(states[2], 1)[0], label="first")

        assert [("first",), ("kept", "again"), (), ()] == list_labels(store)
        assert 1 == store.fork("chat", "fork", at="kept").revision
        assert () == store.latest("fork").labels
        assert () == store.verify()

    def test_saved_at(self, store):
        """A head says when it was saved, to the millisecond."""
        for number in range(3):
            before = datetime.now(UTC) - timedelta(milliseconds=1)
            state = CONVERSATION.add_user_prompt(f"{number}")
            head = store.save(f"chat {number}", state)

            assert before <= head.saved_at <= datetime.now(UTC)
            assert head == self.other(store).latest(f"chat {number}")

    def test_label_moves(self, store):
        """
        Every move of a label is kept, whatever moved it: from which revision, to which,
        and when; those of a name that is deleted are gone with it.
        """
        with pytest.raises(NotSavedError):
            store.label_moves("chat")

        more = CONVERSATION.add_user_prompt("more")
        began = store.save("chat", CONVERSATION, label="kept").saved_at
        store.save("chat", more, label="kept")
        store.label("chat", "kept")
        store.label("chat", "kept", at=1)
        store.save("chat", more, label="other")
        store.step("chat", "step", lambda state: state.add_user_prompt("step"))
        store.rollback("chat", 1)
        store.unlabel("chat", "kept")
        expected = [
            *(("kept", 1, None), ("step", None, 3), ("other", None, 2)),
            *(("kept", 2, 1), ("kept", 1, 2), ("kept", None, 1)),
        ]
        for each in (store, self.other(store)):
            moves = each.label_moves("chat")

            assert expected == [move[1:4] for move in moves]
            assert {"chat"} == {move.name for move in moves}
            assert began <= moves[-1].moved_at <= moves[0].moved_at
            assert list(moves[1:2]) == list(each.label_moves("chat", label="step"))

        assert "from revision none to 1" in str(moves[-1])
        assert () == store.verify()

        store.delete("chat")
        store.save("chat", CONVERSATION)

        assert () == store.label_moves("chat")

    def test_labels_that_stay(self, store):
        """A label stays where it is, whatever else is done with its name."""
        first, second, third = append_turns(CONVERSATION, 3)
        store.save("chat", first, label="kept")
        store.save("chat", second)
        store.rollback("chat", "kept")
        store.save_all({"chat": store.load("chat").add_user_prompt("Hm.")})
        store.update("chat", lambda state: state.add_user_prompt("Go on."))
        store.step("chat", "kept", lambda state: state.add_user_prompt("no"))
        store.step("chat", "other", lambda state: state.add_user_prompt("yes"))
        store.annotate("chat", {"title": "Travel"})
        store.save_timeline("timeline", Timeline.begin(third, label="kept"))
        store.fork("chat", "copy", at="kept")
        store.save("copy", store.load("copy").add_user_prompt("x"), label="kept")
        store.delete("copy")
        store.erase(store.load("chat").entries[-1].id, reason="asked for")
        store.collect_garbage()

        assert 1 == store.latest("chat", at="kept").revision
        assert first == self.other(store).load("chat", at="kept")

        store.delete("chat")
        store.save("chat", second)

        with pytest.raises(NotSavedError, match="kept"):
            store.load("chat", at="kept")

    def test_rollback(self, store):
        """
        Usage that was recorded since stays in the ledger, and the later revisions stay,
        too; a label, a number and a head can be given.
        """
        first = CONVERSATION.add_usage(Usage(10, 1), key="first")
        wrong = first.add_user_prompt("Book it.").add_usage(Usage(1_500), key="wrong")
        store.save("chat", first, label="before")
        gone = store.save("chat", wrong)
        head = store.rollback("chat", "before")

        back = self.other(store).load("chat")
        assert (3, first.id, first.entries) == (head.revision, back.id, back.entries)
        assert ["first", "wrong"] == [entry.id for entry in back.ledger]
        assert wrong == store.load("chat", at=2)
        assert ["before"] == [*store.latest("chat", at=1).labels]
        for to in (1, "before", store.latest("chat", at=1), 3):
            assert head == store.rollback("chat", to)

        store.rollback("chat", gone)

        assert wrong == store.load("chat")
        assert () == store.verify()

    def test_rollback_from(self, store):
        """
        A rollback that expects another head fails, and nothing is written; a name or a
        revision that is not there is reported as missing.
        """
        states = append_turns(CONVERSATION, 3)
        heads = [store.save("chat", state) for state in states]
        for expecting in (heads[1], 2, 0):
            with pytest.raises(StaleHeadError) as caught:
                store.rollback("chat", 1, expecting=expecting)

            assert heads[2] == caught.value.actual

        for name, to in (("none", 1), ("chat", 9), ("chat", "none")):
            with pytest.raises(NotSavedError):
                store.rollback(name, to)

        none: Any = None
        with pytest.raises(TypeError, match="expected a revision's number, a label"):
            store.rollback("chat", none)

        assert heads[2] == store.latest("chat")
        assert 4 == store.rollback("chat", 1, expecting=heads[2]).revision

    def test_save_after_a_rollback(self, store):
        """
        A state from before a rollback brings back what was undone, as a redo does; not
        where the save expects the head that its program knew.
        """
        first, second, third = append_turns(CONVERSATION, 3)
        store.save("chat", first)
        known = store.save("chat", second)
        back = store.rollback("chat", 1)

        with pytest.raises(StaleHeadError) as caught:
            store.save("chat", third, expecting=known)

        assert back == caught.value.actual
        assert first.entries == store.load("chat").entries
        assert 4 == store.save("chat", third).revision
        assert third == store.load("chat")

    @pytest.mark.parametrize("last", [0, 1, 20, 61, 1_000])
    def test_window(self, store, last):
        """The newest messages without the others, across branches."""
        states = append_turns(CONVERSATION, 40)
        store.save("chat", states[-1])
        fork = append_turns(states[20].fork(), 39)[-1]
        store.save("fork", fork)
        window = self.other(store).load("fork", last=last)

        start = max(len(fork) - last, 0)
        assert (start, len(fork)) == (window.start, window.length)
        assert fork.messages[start:] == window.messages
        assert fork.entries[start:] == window.entries
        assert store.latest("fork") == window.head

    def test_bad_arguments(self, store):
        """
        Invalid labels, prefixes, numbers and identities are refused before anything is
        written, and are never reported as damage.
        """
        head = store.save("chat", CONVERSATION)
        given: Any
        for given in (None, 0, False, 7, b"x", [], "\ud800"):
            for verb in (
                lambda it: store.save("new", CONVERSATION, label=it),
                lambda it: store.label("chat", it),
                lambda it: store.unlabel("chat", it),
                lambda it: store.names(prefix=it),
                lambda it: store.erase(it, reason="asked"),
            ):
                with pytest.raises(ValueError):
                    verb(given)

        # The last one is beyond what a database takes for an integer: an error of its
        # driver if it gets there.
        for given in (-1, 1.5, True, "7", [], -1 << 70):
            for name in ("before", "limit"):
                with pytest.raises(ValueError, match=name):
                    store.history("chat", **{name: given})

            with pytest.raises(ValueError, match="last"):
                store.load("chat", last=given)

        with pytest.raises(ValueError, match="surrogate"):
            store.load("chat", at="\ud800")

        assert (head,) == store.history("chat", before=1 << 70, limit=1 << 70)
        assert ("chat",) == store.names()
        assert () == store.verify()
