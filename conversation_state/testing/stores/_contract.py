"""
What every store promises, whatever keeps its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError
from conversation_state.messages import (
    AssistantMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, TextPart
from conversation_state.store import ERASED, Store
from conversation_state.store.backend import TABLES, Backend, Conflict
from conversation_state.testing.strategies import aggregators
from conversation_state.testing.stores._watched import (
    Call,
    Injected,
    Watched,
    failing,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

__all__ = ["StoreContract"]

_TALK = Aggregator.new().add_user_prompt("When is the next train?")
_LARGE = bytes(range(256)) * 40


def _grown(state: Aggregator, count: int) -> list[Aggregator]:
    states = []
    for i in range(count):
        said = UserMessage(f"say {i}") if i % 2 else AssistantMessage(f"said {i}")
        state = state.add(said).add_usage(Usage(i, 1))
        states.append(state)

    return states


class StoreContract:
    """
    The promises of a store, to be subclassed beside a backend.

    A subclass says how to make the backend (`backend`), and whether what it
    keeps is still there when it is opened again (`is_kept`); pytest runs what
    it inherits.
    """

    is_kept = True

    def backend(self, folder: Path) -> Backend:
        """
        The backend of what is kept in *folder*, which is empty at first.
        """
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """
        An empty store.
        """
        with Store(self.backend(tmp_path)) as store:
            yield store

    @pytest.fixture
    def calls(self) -> list[Call]:
        """
        What the backend of `watched` was asked.
        """
        return []

    @pytest.fixture
    def watched(self, store: Store, calls: list[Call]) -> Store:
        """
        The same store, in which every call is seen.
        """
        return Store(Watched(store._core.backend, calls.append))

    def other(self, store: Store, *, remembered: int = 100) -> Store:
        """
        Another store over the same rows, as another process has one.
        """
        return Store(store._core.backend, remembered=remembered)

    # Saving and loading

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(aggregators(), aggregators())
    def test_any_state_comes_back(
        self, store: Store, state: Aggregator, next_one: Aggregator
    ) -> None:
        """
        Whatever state is saved, an equal one is loaded, here and elsewhere;
        and so it is after any other took its place.
        """
        name = f"talk {state.id}"
        head = store.save(name, state)
        other = self.other(store)

        assert state == store.load(name) == other.load(name)

        second = store.save(name, next_one, expecting=head)

        assert next_one == store.load(name) == other.load(name)
        assert state == store.load(name, at=head) == other.load(name, at=1)
        assert () == store.verify()
        store.delete(name)
        assert second.digest == head.digest or state != next_one

    def test_every_state_is_restorable(self, store: Store) -> None:
        """
        Saved after every message, each state comes back by its number.
        """
        states = _grown(_TALK, 70)
        heads = [store.save("talk", state) for state in states]
        other = self.other(store)

        assert list(range(1, 71)) == [head.revision for head in heads]
        for head, state in zip(heads, states, strict=True):
            assert state == other.load("talk", at=head.revision)
            assert (len(state), len(state.ledger)) == (head.length, head.ledger_length)
            assert state.id == head.state_id

    def test_identities_come_back(self, store: Store) -> None:
        """
        What was loaded joins what was saved like itself: nothing is new.
        """
        fork = _TALK.fork().add_assistant_message("At noon.").add_usage(Usage(1), key="a")
        store.save("talk", fork)
        loaded = self.other(store).load("talk")

        assert fork is fork.join(loaded)
        assert (fork.parent_id, fork.root_id) == (loaded.parent_id, loaded.root_id)
        assert (fork.init_len, fork.usage) == (loaded.init_len, loaded.usage)

    def test_loaded_here_is_the_same_object(self, store: Store) -> None:
        """
        A store gives the very state it saved last, while that is the head.
        """
        store.save("talk", _TALK)

        assert _TALK is store.load("talk")

    def test_reopened(self, tmp_path: Path) -> None:
        """
        What was saved is there when the store is opened again.
        """
        if not self.is_kept:
            pytest.skip("this backend keeps nothing when it is closed")

        states = _grown(_TALK, 5)
        with Store(self.backend(tmp_path)) as store:
            for state in states:
                store.save("talk", state)

        with Store(self.backend(tmp_path)) as store:
            assert states == [store.load("talk", at=i) for i in range(1, 6)]
            assert states[-1] == store.load("talk")
            assert () == store.verify()

    # What is written

    @pytest.mark.parametrize("length", [10, 1_000])
    def test_writes_what_is_new(
        self, watched: Store, calls: list[Call], length: int
    ) -> None:
        """
        One more message is two rows, however long the talk has been.
        """
        state = _TALK.extend([UserMessage("again")] * length)
        watched.save("talk", state)
        calls.clear()

        watched.save("talk", state.add_user_prompt("and?"))

        added = Counter({call.table: call.rows for call in calls if call.rows})
        assert {"entries": 1, "revisions": 1} == added
        assert 4 >= len(calls)

    def test_same_state_writes_nothing(self, watched: Store, calls: list[Call]) -> None:
        """
        Saving the very state that is the head gives the head again.
        """
        head = watched.save("talk", _TALK)
        calls.clear()

        assert head == watched.save("talk", _TALK)
        assert head == self.other(watched).save("talk", _TALK)
        assert [] == [call for call in calls if call.verb in {"add", "set"}]
        assert 1 == len(watched.history("talk"))

    def test_shared_past_is_written_once(
        self, watched: Store, calls: list[Call]
    ) -> None:
        """
        A fork under another name writes what it said itself, whether or not
        anybody remembers its past.
        """
        state = _TALK.extend([UserMessage("again")] * 100).add_usage(Usage(1))
        watched.save("talk", state)
        for name, store in (
            ("here", watched),
            ("elsewhere", self.other(watched, remembered=0)),
        ):
            calls.clear()
            fork = state.fork().add_user_prompt(name)
            store.save(name, fork)

            told = [call.rows for call in calls if call == ("add", "entries", call.rows)]
            paid = [call for call in calls if call[:2] == ("add", "ledger")]
            assert ([1], []) == (told, paid), name
            assert fork == self.other(watched).load(name)

    def test_fork_writes_no_messages(self, watched: Store, calls: list[Call]) -> None:
        """
        A fork costs three rows, and is a new state with the same past.
        """
        watched.save("talk", _TALK.extend([UserMessage("again")] * 100))
        calls.clear()
        head = watched.fork("talk", "fork")
        fork = watched.load("fork")

        assert 3 == sum(call.rows for call in calls)
        assert "entries" not in {call.table for call in calls if call.rows}
        assert head.state_id == fork.id
        assert (watched.load("talk").id, 101) == (fork.parent_id, fork.init_len)
        assert watched.load("talk").messages == fork.messages
        assert () == watched.verify()

    def test_going_back_and_on(self, store: Store) -> None:
        """
        A name that goes back to an earlier state and on from there keeps both
        futures.
        """
        states = _grown(_TALK, 40)
        for state in states:
            store.save("talk", state)

        back = states[10]
        head = store.save("talk", back, expecting=store.head("talk"))
        on = _grown(back, 40)
        for state in on:
            store.save("talk", state)

        other = self.other(store)
        assert on[-1] == other.load("talk")
        assert states[-1] == other.load("talk", at=40)
        assert back == other.load("talk", at=head)
        assert states[-1].join(on[-1]) == other.load("talk", at=40).join(
            other.load("talk")
        )
        assert () == store.verify()

    # Heads

    def test_stale(self, store: Store) -> None:
        """
        Who expects another head is told both, and nothing is written.
        """
        first = store.save("talk", _TALK)
        ours, theirs = _TALK.add_user_prompt("ours"), _TALK.add_user_prompt("theirs")
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
        head = store.save("talk", _TALK.add_usage(Usage(1)))
        for state in (Aggregator.new(), _TALK, _TALK.fork(), _TALK.add_usage(Usage(1))):
            with pytest.raises(StaleHeadError):
                store.save("talk", state)

        joined = store.load("talk").join(_TALK.add_user_prompt("late"))
        store.save("talk", joined)
        store.save("talk", Aggregator.new(), expecting=2)

        assert 3 == store.head("talk").revision
        assert head == store.head("talk", at=1)

    def test_stale_cache(self, store: Store) -> None:
        """
        A store whose head is old news saves on top of the news.
        """
        store.save("talk", _TALK)
        other = self.other(store)
        news = other.load("talk").add_user_prompt("news")
        other.save("talk", news)
        store.save("talk", news.add_user_prompt("more"))

        assert [3, 2, 1] == [head.revision for head in store.history("talk")]
        assert 3 == len(other.load("talk"))

    def test_reads_what_is_new(
        self, store: Store, watched: Store, calls: list[Call]
    ) -> None:
        """
        A head that somebody else moved is loaded by its new rows: what was
        known is the same, not only equal.
        """
        states = _grown(_TALK, 50)
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
                    "talk", lambda state, i=i: state.add_user_prompt(f"{who} {i}")
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

        made = store.update("talk", lambda state: state.add_user_prompt("hi"), start=_TALK)

        assert ["When is the next train?", "hi"] == [m.text for m in made]
        assert made == store.load("talk")

    # Looking

    def test_not_saved(self, store: Store) -> None:
        """
        What is not there is told as such, with names that are written alike.
        """
        store.save("travel desk", _TALK)
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
            store.save(name, _TALK)

        assert tuple(sorted(given)) == store.names()
        assert ("a", "a b", "a/1", "a/2") == store.names(prefix="a")
        assert () == store.names(prefix="nothing")

    def test_history(self, store: Store) -> None:
        """
        The newest first, by pages or all at once.
        """
        heads = [store.save("talk", state) for state in _grown(_TALK, 7)]
        store.save("other", _TALK)
        newest_first = tuple(reversed(heads))

        assert newest_first == store.history("talk")
        assert newest_first[:2] == store.history("talk", limit=2)
        assert newest_first[3:5] == store.history("talk", before=5, limit=2)
        assert () == store.history("talk", before=1)

    def test_labels(self, store: Store) -> None:
        """
        A label finds the state it was given to last.
        """
        states = _grown(_TALK, 3)
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
        states = _grown(_TALK, 40)
        store.save("talk", states[-1])
        fork = _grown(states[20].fork(), 39)[-1]
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
            with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
                verb(name)

    # Letting go

    def test_delete_and_collect(self, store: Store) -> None:
        """
        What nobody needs any more is let go of; what anybody needs is not.
        """
        states = _grown(_TALK, 30)
        store.save("talk", states[-1])
        store.save("fork", states[10].fork().add_user_prompt("mine"))
        other = self.other(store)
        kept = other.load("fork")
        store.delete("talk")

        assert ("fork",) == store.names()

        collected = store.collect_garbage()

        assert (19, 19) == (collected.entries, collected.ledger_entries)
        assert 0 < collected.size
        assert kept == other.load("fork") == self.other(store).load("fork")
        assert () == store.verify()
        assert 0 == store.collect_garbage().entries

    def test_places_that_came_free(self, store: Store) -> None:
        """
        Who remembers rows that were collected takes none of them for those
        that came in their place.
        """
        states = _grown(_TALK, 30)
        other = self.other(store)
        other.save("talk", states[-1])
        store.save("short", states[10])
        store.delete("talk")
        store.collect_garbage()
        new = _grown(states[10], 40)
        store.save("short", new[-1])

        assert new[-1] == other.load("short")
        other.save("talk", states[-1].add_user_prompt("and?"))
        assert states[-1] == self.other(store).load("talk")[: len(states[-1])] or (
            states[-1].messages == self.other(store).load("talk").messages[:-1]
        )
        assert () == store.verify()

    def test_deleted_by_others(self, store: Store) -> None:
        """
        A name that was deleted elsewhere, or made anew, is not what it was.
        """
        store.save("talk", _TALK)
        other = self.other(store)
        other.delete("talk")
        with pytest.raises(NotSavedError):
            store.load("talk")

        with pytest.raises(StaleHeadError):
            store.save("talk", _TALK.add_user_prompt("and?"), expecting=1)

        new = Aggregator.new().add_user_prompt("new")
        other.save("talk", new)
        with pytest.raises(StaleHeadError):
            store.save("talk", _TALK.add_user_prompt("and?"))

        assert new == store.load("talk")

    # Erasing

    def test_erase(self, store: Store) -> None:
        """
        A tombstone stands in every state that had the entry, wherever it is
        loaded; ids of calls and digests stay.
        """
        call = AssistantMessage(
            "secret", tool_calls=[ToolCall("c1", "clock", '{"secret": 1}')], name="ann"
        )
        state = _TALK.add(call).add_tool_response(ToolMessage("12", tool_call_id="c1"))
        head = store.save("talk", state)
        # Another order, and so another branch, with the same entry.
        apart = Aggregator.new().add_user_prompt("first").join(state)
        store.save("apart", apart)
        other = self.other(store)
        assert state == other.load("talk")

        receipt = store.erase(state.entries[1].id, reason="asked for")

        assert (2, "asked for") == (receipt.rows, receipt.reason)
        for name, at in (("talk", 1), ("apart", 2)):
            stone = other.load(name)[at]
            assert isinstance(stone, AssistantMessage)
            assert ("", "", "c1", "") == (
                stone.text,
                stone.name,
                stone.tool_calls[0].id,
                stone.tool_calls[0].arguments,
            )
            assert receipt.content == stone.metadata[ERASED]["content"]

        assert state.messages[2] == other.load("talk")[2]
        assert head == store.head("talk")
        assert () == store.verify()
        again = store.erase(state.entries[1].id, reason="once more")
        assert (0, "asked for", receipt.erased_at) == (
            again.rows,
            again.reason,
            again.erased_at,
        )

    def test_goes_on_after_erasing(self, watched: Store, calls: list[Call]) -> None:
        """
        A state that was loaded after an erasure goes on with one row, and so
        does one from before.
        """
        state = _TALK.extend([UserMessage("again")] * 100)
        watched.save("talk", state)
        watched.erase(state.entries[50].id, reason="asked for")
        loaded = self.other(watched, remembered=0).load("talk")
        for mine in (loaded.add_user_prompt("and?"), state.add_user_prompt("or?")):
            calls.clear()
            store = self.other(watched)
            store.save("talk", mine, expecting=store.head("talk"))

            told = [call.rows for call in calls if call[:2] == ("add", "entries")]
            assert [1] == told

        assert () == watched.verify()
        assert "" == watched.load("talk")[50].text

    def test_erased_stays_erased(self, store: Store) -> None:
        """
        What was erased does not come back with somebody who still has it.
        """
        other = self.other(store)
        other.save("talk", _TALK)
        store.erase(_TALK.entries[0].id, reason="asked for")

        assert "" == other.load("talk")[0].text
        for i, saving in enumerate((store, other, self.other(store, remembered=0))):
            mine = Aggregator.new().add_user_prompt("mine").join(_TALK)
            saving.save(f"mine {i}", mine)
            for reading in (store, other, saving):
                assert ["mine", ""] == [m.text for m in reading.load(f"mine {i}")]

        assert () == store.verify()

    # Large content

    def test_large_content_is_kept_once(
        self, watched: Store, calls: list[Call]
    ) -> None:
        """
        An image that many messages show is there once, and goes with the last
        of them.
        """
        shown = UserMessage([TextPart("look"), ImagePart(data=_LARGE), ImagePart(data=b"x")])
        state = Aggregator.new(messages=[shown, shown])
        watched.save("talk", state)
        watched.save("other", Aggregator.new(messages=[shown]))

        assert 1 == sum(call.rows for call in calls if call.table == "blobs")
        assert state == self.other(watched).load("talk")

        watched.delete("other")
        assert 0 == watched.collect_garbage().blobs
        assert 0 == watched.erase(state.entries[0].id, reason="asked").blobs
        assert () == watched.verify()
        assert 1 == watched.erase(state.entries[1].id, reason="asked").blobs
        assert () == watched.verify()

    def test_nobody_writes_a_reference(self, store: Store) -> None:
        """
        What looks like a reference to large content is not taken for one.
        """
        state = Aggregator.new(
            messages=[
                UserMessage('[{"role": "user"}, [[0, "00"]]]'),
                UserMessage("", metadata={"blobs": [[0, "00" * 32]], "data": ""}),
                UserMessage([ImagePart(data=_LARGE)], metadata={"x": [[0, "00" * 32]]}),
                UserMessage("", metadata={ERASED: {"content": "0" * 32, "reason": "x"}}),
                UserMessage("no", metadata={ERASED: {"content": "1" * 32, "reason": "x"}}),
                UserMessage("", metadata={ERASED: {"content": 7, "reason": [1]}}),
            ]
        )
        store.save("talk", state)

        assert state == self.other(store).load("talk")
        assert () == store.verify()

    # Damage and failure

    def test_verify_names_the_entry(self, store: Store) -> None:
        """
        Whatever changed behind the store's back is found, and nothing else.
        """
        state = _grown(_TALK, 10)[-1].add(UserMessage([ImagePart(data=_LARGE)]))
        store.save("talk", state)
        backend = store._core.backend
        with backend.reading() as rows:
            entries = rows.scan("entries", None, None)
            (blob,) = rows.scan("blobs", None, None, columns=("digest",))

        with backend.writing() as rows:
            place, _, body, _, _ = entries[3]
            rows.set("entries", place, body=body.replace(b"sa", b"pa"))

        (damage,) = store.verify()

        assert ("entries", state.entries[3].id) == (damage.where, damage.id)

        with backend.writing() as rows:
            rows.set("entries", entries[3][0], body=entries[3][2])
            rows.set("blobs", blob[0], data=b"other")

        found = {(damage.where, damage.id) for damage in store.verify()}

        assert {("blobs", blob[0].hex()), ("entries", state.entries[-1].id)} == found

        with backend.writing() as rows:
            rows.set("blobs", blob[0], data=_LARGE)
            rows.remove("entries", entries[5][0], entries[5][0] + 1)

        assert ["entries"] == [damage.where for damage in store.verify()]

    def test_fails_anywhere(self, tmp_path: Path) -> None:
        """
        Interrupted at any call, a store has all it had, or all of the step as
        well, and nothing is damaged; and so it goes on.
        """
        at = 0
        while self._fails(tmp_path / str(at), at):
            at += 1

        assert 50 < at

    def _fails(self, folder: Path, at: int) -> bool:
        """
        Whether a failure at call *at* interrupted anything.
        """
        folder.mkdir()
        backend = self.backend(folder)
        try:
            broken = Store(failing(backend, at))
            for step in _steps():
                before = _all_of(Store(backend))
                try:
                    step(broken)
                except Injected:
                    there = Store(backend)

                    assert () == there.verify()

                    after = _all_of(there)
                    if after == before:
                        step(there)
                    else:
                        twin = Store(self.backend(_sub(folder, "twin")))
                        with twin:
                            _replay(twin, step)
                            assert _all_of(twin) == after

                    assert () == there.verify()
                    return True

            return False
        finally:
            backend.close()

    # The rows themselves

    def test_block_is_all_or_nothing(self, store: Store) -> None:
        """
        A block that raises has changed nothing.
        """
        backend = store._core.backend
        with backend.writing() as rows:
            rows.add("branches", [(1, 0, 0), (2, 1, 5), (3, 1, 7)])

        class Stop(Exception):  # noqa: N818 - nobody's error
            pass

        with pytest.raises(Stop), backend.writing() as rows:
            rows.add("branches", [(4, 0, 0)])
            rows.set("branches", 2, start=9)
            assert 1 == rows.remove("branches", 3, 4)
            assert [(1,), (2,), (4,)] == rows.scan(
                "branches", None, None, columns=("branch",)
            )
            raise Stop

        with backend.reading() as rows:
            assert [(1, 0, 0), (2, 1, 5), (3, 1, 7)] == rows.scan("branches", None, None)

    def test_conflicts(self, store: Store) -> None:
        """
        Rows are added on condition, and a conflict takes the block with it.
        """
        backend = store._core.backend
        with backend.writing() as rows:
            rows.add("starts", [(b"a", 1)])

        for conditions in (
            {"given": [("starts", b"b")]},
            {"lacking": [("starts", b"a")]},
            {"given": [("starts", b"a")], "lacking": [("starts", b"c"), ("starts", b"a")]},
        ):
            with pytest.raises(Conflict), backend.writing() as rows:
                rows.add("starts", [(b"x", 1)])
                rows.add("starts", [(b"y", 2)], **conditions)

        with pytest.raises(Conflict), backend.writing() as rows:
            rows.add("starts", [(b"x", 1), (b"a", 2)])

        with backend.writing() as rows:
            rows.add("starts", [(b"c", 3)], given=[("starts", b"a")])
            assert [(b"a", 1), (b"c", 3)] == rows.scan("starts", None, None)

    def test_ranges(self, store: Store) -> None:
        """
        Ranges have their lower end and not their upper one, in any order, of
        integers, texts and bytes.
        """
        backend = store._core.backend
        with backend.writing() as rows:
            rows.add("branches", [(i, 0, i % 2) for i in (1 << 62, 2, 5, 3)])
            rows.add("names", [("b", 2), ("a", 1), ("é", 3), ("Z", 4)])
            rows.add("starts", [(b"\xff", 1), (b"", 2), (b"a\0", 3), (b"a", 4)])

        with backend.reading() as rows:
            keys = ("branch",)
            assert [(2,), (3,)] == rows.scan("branches", 2, 5, columns=keys)
            assert [(1 << 62,), (5,)] == rows.scan(
                "branches", 3, None, columns=keys, limit=2, backwards=True
            )
            assert [(2,)] == rows.scan("branches", None, 5, columns=keys, limit=1)
            assert ["Z", "a", "b", "é"] == [n for n, _ in rows.scan("names", None, None)]
            assert [b"", b"a", b"a\0", b"\xff"] == [
                key for key, _ in rows.scan("starts", None, None)
            ]
            assert [3, 5] == rows.find("branches", "start", 1)
            assert (5, 1) == rows.get("branches", 5, ("branch", "start"))
            assert rows.get("branches", 4) is None

    def test_numbers(self, store: Store) -> None:
        """
        No number is given twice, also where what it was for is gone.
        """
        backend = store._core.backend
        seen = [0]
        for _ in range(3):
            with backend.writing() as rows:
                seen += [rows.new_number(), rows.new_number()]
                rows.add("branches", [(seen[-1], 0, 0)])

            with backend.writing() as rows:
                rows.remove("branches", None, None)

        assert sorted(set(seen)) == seen

    def test_all_tables(self, store: Store) -> None:
        """
        Every table takes what its columns may hold, the largest included.
        """
        largest = {"integer": 2**63 - 1, "text": "\U0001f600'\"%?", "bytes": b"\0\xff"}
        backend = store._core.backend
        for table in TABLES.values():
            row = tuple([largest[column.type] for column in (table.key, *table.columns)])
            nulls = tuple(
                None if column.is_null else value
                for column, value in zip(table.columns, row[1:], strict=True)
            )
            with backend.writing() as rows:
                rows.add(table.name, [row])
                assert row == rows.get(table.name, row[0])
                changed = {c.name: v for c, v in zip(table.columns, nulls, strict=True)}
                rows.set(table.name, row[0], **changed)
                assert (row[0], *nulls) == rows.get(table.name, row[0])
                rows.remove(table.name, None, None)


def _sub(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


_SAID = _grown(_TALK, 3)
_SHOWN = _SAID[-1].add(UserMessage([ImagePart(data=_LARGE)]))
_FORK = _SAID[0].fork().add_user_prompt("fork")


def _steps() -> list[Callable[[Store], object]]:
    """
    A life of a store.
    """
    return [
        lambda store: store.save("talk", _SAID[0]),
        lambda store: store.save("talk", _SAID[1], label="kept"),
        lambda store: store.save("talk", _SHOWN),
        lambda store: store.save("fork", _FORK),
        lambda store: store.fork("talk", "third", at=2),
        lambda store: store.save("talk", _SAID[0], expecting=store.head("talk")),
        lambda store: store.erase(_SAID[1].entries[1].id, reason="asked"),
        lambda store: store.checkpoint("talk", "last", at=2),
        lambda store: store.delete("talk"),
        lambda store: store.collect_garbage(),
        lambda store: store.save("talk", _SHOWN),
    ]


def _replay(store: Store, last: Callable[[Store], object]) -> None:
    for step in _steps():
        step(store)
        if step.__code__ is last.__code__:  # type: ignore[attr-defined]  # functions
            return


def _all_of(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """
    All that users see of a store, but for ids and times.
    """
    return {
        name: [
            (
                head.revision,
                head.label,
                [str(message) for message in store.load(name, at=head)],
                len(store.load(name, at=head).ledger),
            )
            for head in store.history(name)
        ]
        for name in store.names()
    }
