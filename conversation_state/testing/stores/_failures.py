"""
Promises about damage and failure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.errors import StoreError
from conversation_state.messages import UserMessage
from conversation_state.parts import ImagePart
from conversation_state.store import Store
from conversation_state.store.backend import Backend
from conversation_state.store.records import Writer, reading, write
from conversation_state.testing.stores._fixtures import (
    CONVERSATION,
    LARGE,
    InjectedError,
    RecordingBackend,
    StoreFixtures,
    append_turns,
    fail_at,
    read_rows,
)

__all__ = ["FailurePromises"]


class FailurePromises(StoreFixtures):
    """
    Damage is found, and failures damage nothing.
    """

    def test_verify_names_the_entry(self, store: Store) -> None:
        """
        Each change that was made without the store is found, and nothing else is
        reported.
        """
        state = append_turns(CONVERSATION, 10)[-1].add(
            UserMessage([ImagePart(data=LARGE)])
        )
        store.save("chat", state)
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
            rows.set("blobs", blob[0], data=LARGE)
            rows.remove("entries", entries[5][0], entries[5][0] + 1)

        assert ["entries"] == [damage.where for damage in store.verify()]

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
        with (
            Store(self.backend(_make_folder(tmp_path, "mine"))) as store,
            Store(self.backend(_make_folder(tmp_path, "twin"))) as twin,
        ):
            # The twin does each step without a failure, and gives the expected rows.
            for step in _store_steps():
                step(twin)
                failed += _count_interruptions(
                    store._core.backend, step, _read_all(twin)
                )

        assert 50 < failed


def _count_interruptions(
    backend: Backend, step: Callable[[Store], object], after: dict[str, object]
) -> int:
    """
    How many times a step was interrupted, once at each of its calls, until it was
    complete.
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
            at += 1

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


def _make_folder(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


_STATES = append_turns(CONVERSATION, 3)
_WITH_IMAGE = _STATES[-1].add(UserMessage([ImagePart(data=LARGE)]))
_FORK = _STATES[0].fork().add_user_prompt("fork")


def _store_steps() -> list[Callable[[Store], object]]:
    """
    The steps of a store's life, in order.
    """
    return [
        lambda store: store.save("chat", _STATES[0]),
        lambda store: store.save("chat", _STATES[1], label="kept"),
        lambda store: store.save("chat", _WITH_IMAGE),
        lambda store: store.save("fork", _FORK),
        lambda store: store.fork("chat", "third", at=2),
        lambda store: store.save("chat", _STATES[0], expecting=store.latest("chat")),
        lambda store: store.erase(_STATES[1].entries[1].id, reason="asked"),
        lambda store: store.label("chat", "last", at=2),
        lambda store: store.step("chat", "step", lambda _: _STATES[2]),
        lambda store: store.delete("chat"),
        lambda store: store.collect_garbage(),
        lambda store: store.save("chat", _WITH_IMAGE),
        lambda store: write(store, partial(_write_records, state=_STATES[2])),
        lambda store: write(store, partial(_write_records, state=_STATES[1])),
        lambda store: write(store, lambda rows: rows.remove(b"k", None)),
    ]


def _write_records(rows: Writer, state: Aggregator) -> None:
    rows.put(b"key", b"before")
    rows.put(b"kept", b"%d" % len(state), rows.save("chat", state).entries)
    rows.fork("chat", f"as of {len(state)}")
    rows.remove(b"key", b"key\0")


def _read_all(store: Store) -> dict[str, object]:
    """
    The content of a store as users see it, without ids and times.
    """
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
