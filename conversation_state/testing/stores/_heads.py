"""
Promises about heads, and what there is to see of names.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError
from conversation_state.store import Store
from conversation_state.testing.stores._subject import TALK, Subject, grown
from conversation_state.usage import Usage

__all__ = ["Heads"]


class Heads(Subject):
    """
    Nothing is lost to others, and everything can be looked at.
    """

    def test_stale(self, store: Store) -> None:
        """
        Who expects another head is told both, and nothing is written.
        """
        first = store.save("talk", TALK)
        ours, theirs = TALK.add_user_prompt("ours"), TALK.add_user_prompt("theirs")
        second = self.other(store).save("talk", theirs)

        for expecting in (None, first, 1, 0):
            with pytest.raises(StaleHeadError) as caught:
                store.save("talk", ours, expecting=expecting)

            assert ("talk", expecting, second) == (
                caught.value.name,
                caught.value.expected,
                caught.value.actual,
            )

        assert theirs == store.load("talk")
        assert 2 == len(store.history("talk"))

    def test_nothing_is_lost_by_accident(self, store: Store) -> None:
        """
        Without *expecting*, a state has to hold all the head holds, in order,
        the ledger too.
        """
        head = store.save("talk", TALK.add_usage(Usage(1)))
        for state in (Aggregator.new(), TALK, TALK.fork(), TALK.add_usage(Usage(1))):
            with pytest.raises(StaleHeadError):
                store.save("talk", state)

        joined = store.load("talk").join(TALK.add_user_prompt("late"))
        store.save("talk", joined)
        store.save("talk", Aggregator.new(), expecting=2)

        assert 3 == store.head("talk").revision
        assert head == store.head("talk", at=1)

    def test_all_or_none(self, store: Store) -> None:
        """
        Several names are saved at once, and none of them if one is stale.
        """
        notes = Aggregator.new().add_user_prompt("notes")
        heads = store.save_all({"talk": TALK, "notes": notes}, expecting={"talk": 0})
        elsewhere = self.other(store)
        more = elsewhere.load("notes").add_user_prompt("more notes")
        elsewhere.save("notes", more)
        late = {"talk": TALK.add_user_prompt("late"), "notes": notes.fork()}
        for expecting in (heads, {"notes": heads["notes"]}, {}):
            with pytest.raises(StaleHeadError) as caught:
                store.save_all(late, expecting=expecting)

            assert "notes" == caught.value.name

        assert ["talk", "notes"] == [*heads]
        assert (TALK, more) == (store.load("talk"), store.load("notes"))
        assert 1 == len(store.history("talk"))
        assert () == store.verify()

    def test_all_go_on(self, store: Store) -> None:
        """
        What was saved with others is saved again by what is new, alone or
        with them.
        """
        states = {"one": TALK, "two": TALK.fork()}
        for _ in range(3):
            store.save_all(states)
            states = {
                name: state.add_user_prompt("?") for name, state in states.items()
            }

        store.save("one", states["one"])

        assert states["one"] == self.other(store).load("one")
        assert len(TALK) + 2 == len(self.other(store).load("two"))
        assert [4, 3] == [store.head(name).revision for name in ("one", "two")]
        assert () == store.verify()

    def test_all_of_nothing(self, store: Store) -> None:
        """
        No states are no heads; a head of a name that is not saved is an error.
        """
        assert {} == store.save_all({})

        with pytest.raises(ValueError, match="no state is to be saved"):
            store.save_all({"talk": TALK}, expecting={"notes": 1})

        assert () == store.names()

    def test_deletes_what_was_expected(self, store: Store) -> None:
        """
        A name whose head is another is not deleted.
        """
        first = store.save("talk", TALK)
        head = self.other(store).save("talk", TALK.add_user_prompt("news"))
        for expecting in (first, 1, 0):
            with pytest.raises(StaleHeadError):
                store.delete("talk", expecting=expecting)

        assert ("talk",) == store.names()

        store.delete("talk", expecting=head)

        assert () == store.names()

    def test_stale_cache(self, store: Store) -> None:
        """
        A store whose head is old news saves on top of the news.
        """
        store.save("talk", TALK)
        other = self.other(store)
        news = other.load("talk").add_user_prompt("news")
        other.save("talk", news)
        store.save("talk", news.add_user_prompt("more"))

        assert [3, 2, 1] == [head.revision for head in store.history("talk")]
        assert 3 == len(other.load("talk"))

    def test_reads_what_is_new(self, store: Store, watched: Store) -> None:
        """
        A head that somebody else moved is loaded by its new rows: what was
        known is the same, not only equal.
        """
        states = grown(TALK, 50)
        store.save("talk", states[-2])
        before = watched.load("talk")
        store.save("talk", states[-1])
        after = watched.load("talk")

        assert states[-1] == after
        assert before.entries[0] is after.entries[0]

    def test_update(self, store: Store) -> None:
        """
        However many threads update one name, no word of anyone's is lost.
        """
        store.save("talk", Aggregator.new())

        def speak(who: int) -> None:
            for i in range(5):
                store.update(
                    "talk", partial(Aggregator.add_user_prompt, prompt=f"{who} {i}")
                )

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(speak, range(4)))

        said = [message.text for message in store.load("talk")]
        assert {f"{who} {i}" for who in range(4) for i in range(5)} == {*said}
        assert 20 == len(said)
        assert 21 == store.head("talk").revision

    def test_update_starts(self, store: Store) -> None:
        """
        An update of a name that is not there needs a state to start from.
        """
        with pytest.raises(NotSavedError):
            store.update("talk", lambda state: state)

        made = store.update(
            "talk", lambda state: state.add_user_prompt("hi"), start=TALK
        )

        assert ["When is the next train?", "hi"] == [m.text for m in made]
        assert made == store.load("talk")

    def test_not_saved(self, store: Store) -> None:
        """
        What is not there is told as such, with names that are written alike.
        """
        store.save("travel desk", TALK)
        with pytest.raises(NotSavedError) as caught:
            store.load("travel dusk")

        assert ("name", "travel dusk") == (caught.value.what, caught.value.asked)
        assert ("travel desk",) == caught.value.near
        for at in (0, 2, -1, 1 << 70, "label"):
            with pytest.raises(LookupError):
                store.load("travel desk", at=at)

        for verb in (store.history, store.head, store.delete):
            with pytest.raises(NotSavedError):
                verb("nothing")

        with pytest.raises(NotSavedError):
            store.erase("nothing", reason="asked")

    def test_names(self, store: Store) -> None:
        """
        Names come in the order of their code points, whatever they hold.
        """
        given = ["b", "a", "a/2", "a/1", "é", "\U0001f600", "Z", "a b", "ÿ", "\uffff"]
        for name in given:
            store.save(name, TALK)

        assert tuple(sorted(given)) == store.names()
        assert ("a", "a b", "a/1", "a/2") == store.names(prefix="a")
        assert () == store.names(prefix="nothing")

    def test_history(self, store: Store) -> None:
        """
        The newest first, by pages or all at once.
        """
        heads = [store.save("talk", state) for state in grown(TALK, 7)]
        store.save("other", TALK)
        newest_first = tuple(reversed(heads))

        assert newest_first == store.history("talk")
        assert newest_first[:2] == store.history("talk", limit=2)
        assert newest_first[3:5] == store.history("talk", before=5, limit=2)
        assert () == store.history("talk", before=1)

    def test_labels(self, store: Store) -> None:
        """
        A label finds the state it was given to last.
        """
        states = grown(TALK, 3)
        store.save("talk", states[0], label="first")
        store.save("talk", states[1])
        store.save("talk", states[2])

        assert states[0] == store.load("talk", at="first")
        assert "kept" == store.checkpoint("talk", "kept", at=2).label
        assert states[1] == store.load("talk", at="kept")

        store.checkpoint("talk", "kept")

        assert states[2] == store.load("talk", at="kept")
        assert ["kept", "kept", "first"] == [h.label for h in store.history("talk")]

        store.checkpoint("talk", "", at="first")

        with pytest.raises(NotSavedError):
            store.load("talk", at="first")

        assert "" == store.head("talk", at=1).label
        assert "again" == store.save("talk", states[2], label="again").label
        assert 3 == store.head("talk", at="again").revision

    @pytest.mark.parametrize("last", [0, 1, 20, 61, 1_000])
    def test_window(self, store: Store, last: int) -> None:
        """
        The newest messages without the others, across branches.
        """
        states = grown(TALK, 40)
        store.save("talk", states[-1])
        fork = grown(states[20].fork(), 39)[-1]
        store.save("fork", fork)
        window = self.other(store).load("fork", last=last)

        start = max(len(fork) - last, 0)
        assert (start, len(fork)) == (window.start, window.length)
        assert fork.messages[start:] == window.messages
        assert fork.entries[start:] == window.entries
        assert store.head("fork") == window.head

    @pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "a" * 501, 7])
    def test_bad_names(self, store: Store, name: str) -> None:
        """
        What can be no name is refused at once.
        """
        for verb in (store.load, store.delete, store.history):
            with pytest.raises(ValueError):
                verb(name)

    def test_bad_arguments(self, store: Store) -> None:
        """
        What can be no label, prefix, number or identity is refused at once, and
        is never taken for damage; nothing is written.
        """
        head = store.save("talk", TALK)
        given: Any
        for given in (None, 0, False, 7, b"x", [], "\ud800"):
            for verb in (
                lambda it: store.save("new", TALK, label=it),
                lambda it: store.checkpoint("talk", it),
                lambda it: store.names(prefix=it),
                lambda it: store.erase(it, reason="asked"),
            ):
                with pytest.raises(ValueError):
                    verb(given)

        for given in (-1, 1.5, True, "7", [], -1 << 70):
            for name in ("before", "limit"):
                with pytest.raises(ValueError, match=name):
                    store.history("talk", **{name: given})

            with pytest.raises(ValueError, match="last"):
                store.load("talk", last=given)

        with pytest.raises(ValueError, match="surrogate"):
            store.load("talk", at="\ud800")

        assert (head,) == store.history("talk", before=1 << 70, limit=1 << 70)
        assert ("talk",) == store.names()
        assert () == store.verify()
