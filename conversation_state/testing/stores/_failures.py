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
from conversation_state.store._records import Writer, reading, write
from conversation_state.store.backend import TABLES, Backend, Row
from conversation_state.testing.stores._subject import LARGE, TALK, Subject, grown
from conversation_state.testing.stores._watched import Call, InjectedError, Watched

__all__ = ["Failures"]


class Failures(Subject):
    """
    Damage is found, and failures damage nothing.
    """

    def test_verify_names_the_entry(self, store: Store) -> None:
        """
        Whatever changed behind the store's back is found, and nothing else.
        """
        state = grown(TALK, 10)[-1].add(UserMessage([ImagePart(data=LARGE)]))
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
            rows.set("blobs", blob[0], data=LARGE)
            rows.remove("entries", entries[5][0], entries[5][0] + 1)

        assert ["entries"] == [damage.where for damage in store.verify()]

    def test_closed(self, tmp_path: Path) -> None:
        """
        A store that was closed says so, whatever is asked of it, and may be
        closed again.
        """
        store = Store(self.backend(tmp_path))
        store.save("talk", TALK)
        store.close()
        store.close()
        verbs: list[Callable[[], object]] = [
            lambda: store.load("talk"),
            lambda: store.save("talk", TALK),
            lambda: store.save("talk", TALK.add_user_prompt("and?")),
            store.names,
            store.collect_garbage,
        ]
        for verb in verbs:
            with pytest.raises(StoreError, match="closed"):
                verb()

    def test_fails_anywhere(self, tmp_path: Path) -> None:
        """
        Interrupted at any call, a store has all it had, or all of the step as
        well, and nothing is damaged; and so it goes on.
        """
        failed = 0
        with (
            Store(self.backend(_sub(tmp_path, "mine"))) as store,
            Store(self.backend(_sub(tmp_path, "twin"))) as twin,
        ):
            for step in _steps():
                step(twin)
                failed += _fails(store._core.backend, step, _all_of(twin))

        assert 50 < failed


def _fails(
    backend: Backend, step: Callable[[Store], object], after: dict[str, object]
) -> int:
    """
    How often a step was interrupted, once at each of its calls, until it was
    done.
    """
    before, rows_before = _all_of(Store(backend)), _rows_of(backend)
    at = 0
    while True:
        left = [-1]
        store = Store(Watched(backend, partial(_fail, left)))
        # As it is in life: a store knows the heads that it goes on from.
        for name in store.names():
            store.load(name)

        left[0] = at
        is_done = True
        try:
            step(store)
        except InjectedError:
            is_done = False
            at += 1

        found = before
        if _rows_of(backend) != rows_before:
            there = Store(backend)
            assert () == there.verify()
            found = _all_of(there)

        # What was done when it was interrupted is not done once more.
        if is_done or found == after != before:
            assert after == found
            return at

        assert before == found


def _rows_of(backend: Backend) -> dict[str, list[Row]]:
    """
    All there is.
    """
    with backend.reading() as rows:
        return {table: rows.scan(table, None, None) for table in TABLES}


def _fail(left: list[int], call: Call) -> None:
    if not left[0]:
        raise InjectedError(call)

    left[0] -= 1


def _sub(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


_SAID = grown(TALK, 3)
_SHOWN = _SAID[-1].add(UserMessage([ImagePart(data=LARGE)]))
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
        lambda store: write(store, partial(_recorded, state=_SAID[2])),
        lambda store: write(store, partial(_recorded, state=_SAID[1])),
        lambda store: write(store, lambda rows: rows.remove(b"k", None)),
    ]


def _recorded(rows: Writer, state: Aggregator) -> None:
    rows.put(b"key", b"before")
    rows.put(b"kept", b"%d" % len(state), rows.save("talk", state).entries)
    rows.fork("talk", f"as of {len(state)}")
    rows.remove(b"key", b"key\0")


def _all_of(store: Store) -> dict[str, object]:
    """
    All that users see of a store, but for ids and times.
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
                head.label,
                [str(message) for message in store.load(name, at=head)],
                len(store.load(name, at=head).ledger),
            )
            for head in store.history(name)
        ]
        for name in store.names()
    }
