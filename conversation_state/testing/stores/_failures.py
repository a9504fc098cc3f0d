"""
Promises about damage and failure.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conversation_state.messages import UserMessage
from conversation_state.parts import ImagePart
from conversation_state.store import Store
from conversation_state.testing.stores._subject import LARGE, TALK, Subject, grown
from conversation_state.testing.stores._watched import InjectedError, failing

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
                except InjectedError:
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
    ]


def _replay(store: Store, last: Callable[[Store], object]) -> None:
    for step in _steps():
        step(store)
        if step.__code__ is last.__code__:
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
