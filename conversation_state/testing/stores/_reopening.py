"""
Promises about what a backend still knows after it was closed and opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.parts import ImagePart
from conversation_state.store import Store
from conversation_state.store.backend import TABLES, Backend
from conversation_state.testing.stores._fixtures import (
    CONVERSATION,
    LARGE,
    StoreFixtures,
    append_turns,
    read_rows,
)

__all__ = ["ReopeningPromises"]

SECRET = "correct-horse-battery-staple"  # noqa: S105 - to be found in files

# One row of each table that hosts and stores add to, change and remove.
ROWS: dict[str, list[Any]] = {
    table.name: [
        {
            "integer": 2**40 + at,
            "text": f"text {at} é\U0001f600",
            "bytes": b"\x00bytes %d\x00\xff" % at,
        }
        for at in range(3)
    ]
    for table in TABLES.values()
}


def _sample_row(name: str, at: int) -> tuple[Any, ...]:
    table = TABLES[name]
    values = ROWS[name][at]
    return tuple(
        [
            None if column.is_null and at == 1 else values[column.type]
            for column in (table.key, *table.columns)
        ]
    )


def _encode_key(row: tuple[Any, ...]) -> Any:
    """
    The sort key of a row: texts as their UTF-8 bytes.
    """
    return row[0].encode() if isinstance(row[0], str) else row[0]


def _add_all(backend: Backend) -> None:
    for name in TABLES:
        with backend.writing() as rows:
            rows.add(name, [_sample_row(name, at) for at in range(3)])


def _change_all(backend: Backend) -> None:
    for table in TABLES.values():
        names = [column.name for column in table.columns]
        changed = dict(zip(names, _sample_row(table.name, 2)[1:], strict=True))
        with backend.writing() as rows:
            rows.set(table.name, _sample_row(table.name, 0)[0], **changed)


def _remove_some(backend: Backend) -> None:
    for name in TABLES:
        first, second, _ = sorted(_sample_row(name, at)[0] for at in range(3))
        with backend.writing() as rows:
            assert 1 == rows.remove(name, first, second)


def _remove_each(backend: Backend) -> None:
    for name in TABLES:
        first, second, third = sorted(_sample_row(name, at)[0] for at in range(3))
        with backend.writing() as rows:
            ranges = [(first, second), (second, third)]
            assert 2 == rows.remove_each(name, ranges)


def _remove_all(backend: Backend) -> None:
    for name in TABLES:
        with backend.writing() as rows:
            assert 3 == rows.remove(name, None, None)


def _raise_in_block(backend: Backend) -> None:
    def change() -> None:
        with backend.writing() as rows:
            rows.remove("branches", None, None)
            rows.add("branches", [(7, 0, 0)])
            raise InterruptedError

    with pytest.raises(InterruptedError):
        change()


def _scrub_and_vacuum(backend: Backend) -> None:
    _remove_some(backend)
    backend.scrub()
    backend.vacuum()
    backend.scrub()


CHANGES: dict[str, Callable[[Backend], None]] = {
    "add": lambda _backend: None,
    "set": _change_all,
    "remove": _remove_some,
    "remove_each": _remove_each,
    "remove_all": _remove_all,
    "a block that raises": _raise_in_block,
    "scrub and vacuum": _scrub_and_vacuum,
}


class ReopeningPromises(StoreFixtures):
    """
    What was done is still done after the backend was closed and opened again.
    """

    def files(self, folder: Path) -> Iterable[bytes]:
        """
        Everything that the backend keeps, as bytes: all files of *folder*.

        To be overridden by a backend that keeps its rows somewhere else.
        """
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path.read_bytes()

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Iterator[Callable[[Store | None], Store]]:
        """
        A function that closes a store and gives what another process opens.
        """
        opened: list[Store] = []

        def reopen(store: Store | None) -> Store:
            if store is not None and not self.is_kept:
                return store

            if store is not None:
                store.close()

            opened.append(Store(self.backend(tmp_path)))
            return opened[-1]

        yield reopen
        for store in opened:
            store.close()

    @pytest.mark.parametrize("change", CHANGES)
    def test_rows_are_kept(
        self, reopen: Callable[[Store | None], Store], change: str
    ) -> None:
        """
        Every row of every table is unchanged after each kind of change and after
        reopening.
        """
        store = reopen(None)
        _add_all(store._core.backend)
        added = read_rows(store._core.backend)
        CHANGES[change](store._core.backend)
        before = read_rows(store._core.backend)
        after = read_rows(reopen(store)._core.backend)

        assert added == {
            name: sorted([_sample_row(name, at) for at in range(3)], key=_encode_key)
            for name in TABLES
        }
        assert before == after

    def test_numbers_are_kept(self, reopen: Callable[[Store | None], Store]) -> None:
        """
        A number is never given twice: not after its row was removed, and not after the
        store was opened again.
        """
        store, seen = reopen(None), [0]
        with store._core.backend.writing() as rows:
            rows.add("starts", [(b"stays", 1)])

        # A backend that takes the largest number there is forgets it with the row, and
        # one that counts in memory forgets it when it is closed.
        for maintain in (None, "scrub", "vacuum", None):
            backend = store._core.backend
            with backend.writing() as rows:
                seen += [rows.new_number(), rows.new_number()]
                rows.add("branches", [(seen[-1], 0, 0)])

            with backend.writing() as rows:
                rows.remove("branches", None, None)

            if maintain is not None:
                getattr(backend, maintain)()

            store = reopen(store)

        assert sorted(set(seen)) == seen

    def test_states_are_kept(self, reopen: Callable[[Store | None], Store]) -> None:
        """
        Every revision, label and fork is what it was, after each was made.
        """
        states = append_turns(CONVERSATION.add(UserMessage([ImagePart(data=LARGE)])), 4)
        store = reopen(None)
        for state in states:
            store.save("chat", state)
            store = reopen(store)

        store.label("chat", "first", at=1)
        store = reopen(store)
        store.label("chat", "again", at=1)
        store = reopen(store)
        store.fork("chat", "fork", at=2)
        store = reopen(store)

        assert states == [store.load("chat", at=at) for at in range(1, 5)]
        assert states[0] == store.load("chat", at="first")
        assert states[0] == store.load("chat", at="again")
        assert states[1].messages == store.load("fork").messages
        assert ("chat", "fork") == store.names()
        assert () == store.verify()

    def test_deletions_are_kept(self, reopen: Callable[[Store | None], Store]) -> None:
        """
        A name that was deleted stays so, and so does what was collected.
        """
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

    def test_erasures_are_kept(self, reopen: Callable[[Store | None], Store]) -> None:
        """
        An entry that was erased stays so, also where it is saved again.
        """
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

    @pytest.mark.parametrize("way", ["erase", "erase and vacuum", "delete"])
    def test_nothing_is_left_in_files(
        self, reopen: Callable[[Store | None], Store], tmp_path: Path, way: str
    ) -> None:
        """
        What was erased, or deleted and collected with a vacuum, is in no file:
        not while the store is open, not after it was closed, and not after it
        was opened again.
        """
        secret = SECRET.encode()
        state = CONVERSATION.add(AssistantMessage(SECRET)).add_user_prompt("And then?")
        store = reopen(None)
        store.save("chat", state)
        was_there = any(secret in data for data in self.files(tmp_path))
        if way == "delete":
            store.delete("chat")
        else:
            store.erase(state.entries[1].id, reason="asked for")

        if way != "erase":
            store.collect_garbage(vacuum=True)

        def find() -> bool:
            return any(secret in data for data in self.files(tmp_path))

        found_open = find()
        if self.is_kept:
            store.close()

        found_closed = find()
        again = reopen(None) if self.is_kept else store
        again.save("other", CONVERSATION)

        assert [False, False, False] == [found_open, found_closed, find()], was_there
