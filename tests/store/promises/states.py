"""
Promises about a whole store over a backend: what was saved is there, what was deleted
or erased is not, whatever fails, and whichever other process writes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings

from conversation_state.aggregator import Aggregator
from conversation_state.errors import StoreError
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.parts import ImagePart
from conversation_state.store import Store
from conversation_state.store.backend import Backend
from conversation_state.store.records import Writer, reading, write
from conversation_state.testing.strategies import aggregators, states
from conversation_state.timeline import Timeline
from tests.store.promises.case import (
    CONVERSATION,
    FOR_EXAMPLES,
    LARGE,
    InjectedError,
    RecordingBackend,
    Reopen,
    StoreCase,
    append_turns,
    fail_at,
    read_rows,
)

SECRET = "correct-horse-battery-staple"


class StatePromises(StoreCase):
    """States are kept, gone or erased, after the backend was opened again, too."""

    # A fifth of the usual examples, because each backend runs this test.
    @settings(FOR_EXAMPLES, max_examples=max(settings().max_examples // 5, 1))
    @given(aggregators() | states(), aggregators() | states())
    def test_any_state_comes_back(
        self, store: Store, state: Aggregator, next_one: Aggregator
    ) -> None:
        """
        Any state that is saved is loaded as an equal one, in this store and in others,
        and still after another state took its place.
        """
        name = f"chat {state.id}"
        head = store.save(name, state)
        other = self.other(store)

        assert state == store.load(name) == other.load(name)

        second = store.save(name, next_one, expecting=head)

        assert next_one == store.load(name) == other.load(name)
        assert state == store.load(name, at=head) == other.load(name, at=1)
        assert () == store.verify()
        # verify() reads all names, so that of an earlier example would cost time.
        store.delete(name)
        assert second.digest == head.digest or state != next_one

    def test_states_are_kept(self, reopen: Reopen) -> None:
        """Every revision, label, note and fork is what it was, after each was made."""
        states = append_turns(CONVERSATION.add(UserMessage([ImagePart(data=LARGE)])), 4)
        store = reopen(None)
        for state in states:
            store.save("chat", state)
            store = reopen(store)

        acts: list[Callable[[Store], object]] = [
            lambda store: store.label("chat", "first", at=1),
            lambda store: store.label("chat", "again", at=1),
            lambda store: store.annotate("chat", {"title": "Bern"}),
            lambda store: store.annotate("chat", {"by": "ann"}, at=2),
            lambda store: store.fork("chat", "fork", at=2),
        ]
        for act in acts:
            act(store)
            store = reopen(store)

        assert states == [store.load("chat", at=at) for at in range(1, 5)]
        assert [None, 1, 2, 3] == [
            each.parent for each in reversed(store.history("chat"))
        ]
        assert states[0] == store.load("chat", at="first")
        assert states[0] == store.load("chat", at="again")
        assert {"title": "Bern"} == store.notes("chat")
        assert {"by": "ann"} == store.latest("chat", at=2).notes
        assert states[1].messages == store.load("fork").messages
        assert ("chat", "fork") == store.names()
        assert () == store.verify()

    def test_deletions_are_kept(self, reopen: Reopen) -> None:
        """A name that was deleted stays so, and so does what was collected."""
        states = append_turns(CONVERSATION, 6)
        store = reopen(None)
        store.save("chat", states[-1])
        store.save("fork", states[2].fork().add_user_prompt("mine"))
        store.delete("chat")
        store = reopen(store)

        assert ("fork",) == store.names()

        collected = store.collect_garbage()
        store = reopen(store)

        assert 0 < collected.entries
        assert 0 == store.collect_garbage().entries
        assert ("fork",) == store.names()
        assert () == store.verify()

    def test_erasures_are_kept(self, reopen: Reopen) -> None:
        """An entry that was erased stays so, also where it is saved again."""
        state = CONVERSATION.add(AssistantMessage(SECRET))
        store = reopen(None)
        store.save("chat", state)
        receipt = store.erase(state.entries[1].id, reason="asked for")
        store = reopen(store)

        assert "" == store.load("chat")[1].text

        store.save("mine", Aggregator.new().add_user_prompt("mine").join(state))
        store = reopen(store)

        assert ["mine", CONVERSATION[0].text, ""] == [
            m.text for m in store.load("mine")
        ]
        assert receipt.reason == store.erase(state.entries[1].id, reason="x").reason
        assert () == store.verify()

    @pytest.mark.parametrize("way", ["erase", "erase and vacuum", "delete", "notes"])
    def test_nothing_is_left_in_files(
        self, reopen: Reopen, tmp_path: Path, way: str
    ) -> None:
        """
        What was erased, or deleted, replaced and collected with a vacuum, is in no
        file: not while the store is open, not after it was closed, and not after it
        was opened again.
        """
        message = "Hi!" if way == "notes" else SECRET
        state = CONVERSATION.add(AssistantMessage(message)).add_user_prompt("And then?")
        store = reopen(None)
        store.save("chat", state)

        def is_there() -> bool:
            return any(SECRET.encode() in data for data in self.files(tmp_path))

        if way == "delete":
            store.delete("chat")
        elif way == "notes":
            for at in (None, 1):
                store.annotate("chat", {"who": SECRET}, at=at)
                store.annotate("chat", {"who": None}, at=at)
        else:
            store.erase(state.entries[1].id, reason="asked for")

        if way != "erase":
            store.collect_garbage(vacuum=True)

        # A database that keeps a journal moves it into its file when it is closed, and
        # may find an old one when it is opened.
        is_there_open = is_there()
        if self.is_kept:
            store.close()

        is_there_closed = is_there()
        again = reopen(None) if self.is_kept else store
        again.save("other", CONVERSATION)

        assert [False, False, False] == [is_there_open, is_there_closed, is_there()]

    def test_update(self, store: Store) -> None:
        """Any number of threads may update one name; no update is lost."""
        store.save("chat", Aggregator.new())

        def add_prompts(who: int) -> None:
            for i in range(5):
                store.update(
                    "chat", partial(Aggregator.add_user_prompt, prompt=f"{who} {i}")
                )

        # Each reads, adds and saves again if another was faster: a backend that lets
        # two blocks write over what both have read loses some.
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(add_prompts, range(4)))

        texts = [message.text for message in store.load("chat")]
        assert {f"{who} {i}" for who in range(4) for i in range(5)} == {*texts}
        assert 20 == len(texts)
        assert 21 == store.latest("chat").revision

    def test_closed(self, tmp_path: Path) -> None:
        """
        Every call of a closed store raises an error that says that it is closed;
        closing it again does nothing.
        """
        store = Store(self.backend(tmp_path))
        store.save("chat", CONVERSATION)
        store.close()
        store.close()
        verbs: list[Callable[[], object]] = [
            lambda: store.load("chat"),
            lambda: store.save("chat", CONVERSATION),
            lambda: store.save("chat", CONVERSATION.add_user_prompt("and?")),
            store.names,
            store.collect_garbage,
        ]
        for verb in verbs:
            with pytest.raises(StoreError, match="closed"):
                verb()

    def test_fails_anywhere(self, tmp_path: Path) -> None:
        """
        After a failure at any call, a store has its old content, or also all of the
        step; nothing is damaged, and it can be used again.
        """
        failed = 0
        folders = [tmp_path / "mine", tmp_path / "twin"]
        for folder in folders:
            folder.mkdir()

        with (
            Store(self.backend(folders[0])) as store,
            Store(self.backend(folders[1])) as twin,
        ):
            # The twin does each step without a failure, and gives the expected rows.
            for step in _store_steps():
                step(twin)
                failed += _count_interruptions(
                    store._cache.backend, step, _read_all(twin), self.stride
                )

        assert 50 < failed


def _count_interruptions(
    backend: Backend,
    step: Callable[[Store], object],
    after: dict[str, object],
    stride: int,
) -> int:
    """
    How many calls a step makes: it is interrupted at every *stride*-th of them, until
    it is complete.
    """
    before, rows_before = _read_all(Store(backend)), read_rows(backend)
    at = 0
    while True:
        left = [-1]
        store = Store(RecordingBackend(backend, partial(fail_at, left)))
        # As in real use, the store has loaded the heads that it continues from.
        for name in store.names():
            store.load(name)

        left[0] = at
        is_done = True
        try:
            step(store)
        except InjectedError:
            is_done = False
            at += stride

        # A store with the same rows was verified already; only the others are.
        found = before
        if read_rows(backend) != rows_before:
            there = Store(backend)
            assert () == there.verify()
            found = _read_all(there)

        # A step that was complete before the failure is not repeated.
        if is_done or found == after != before:
            assert after == found
            return at

        assert before == found


def _store_steps() -> list[Callable[[Store], object]]:
    states = append_turns(CONVERSATION, 3)
    with_image = states[-1].add(UserMessage([ImagePart(data=LARGE)]))
    fork = states[0].fork().add_user_prompt("fork")
    timeline = Timeline.begin(states[0]).commit(states[1]).commit(states[2])
    return [
        lambda store: store.save("chat", states[0]),
        lambda store: store.save("chat", states[1], label="kept"),
        lambda store: store.save("chat", with_image),
        lambda store: store.save("fork", fork),
        lambda store: store.fork("chat", "third", at=2),
        lambda store: store.save("chat", states[0], expecting=store.latest("chat")),
        lambda store: store.erase(states[1].entries[1].id, reason="asked"),
        lambda store: store.label("chat", "last", at=2),
        lambda store: store.step("chat", "step", lambda _: states[2]),
        lambda store: store.save_timeline("tree", timeline),
        lambda store: store.save_timeline("tree", timeline.undo().commit(fork)),
        lambda store: store.delete("chat"),
        lambda store: store.collect_garbage(),
        lambda store: store.save("chat", with_image),
        lambda store: write(store, partial(_write_records, state=states[2])),
        lambda store: write(store, partial(_write_records, state=states[1])),
        lambda store: write(store, lambda rows: rows.remove(b"k", None)),
    ]


def _write_records(rows: Writer, state: Aggregator) -> None:
    rows.put(b"key", b"before")
    rows.put(b"kept", b"%d" % len(state), rows.save("chat", state).entries)
    rows.fork("chat", f"as of {len(state)}")
    rows.remove(b"key", b"key\0")


def _read_all(store: Store) -> dict[str, object]:
    """The content of a store as users see it, without ids and times."""
    with reading(store) as rows:
        records: dict[str, object] = {
            record.key.decode(): (
                record.value,
                record.hold and [str(m) for _, m in rows.entries(record.hold)],
            )
            for record in rows.scan(b"", None)
        }

    return records | {
        name: [
            (
                head.revision,
                head.labels,
                [str(message) for message in store.load(name, at=head)],
                len(store.load(name, at=head).ledger),
            )
            for head in store.history(name)
        ]
        for name in store.names()
    }
