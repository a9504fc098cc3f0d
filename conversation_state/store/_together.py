"""
Several verbs in one block: all that they do happens, or nothing.

The verbs are those for a block each, and are handed an `Inside` for the core:
what they open is the block that is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from conversation_state.aggregator import Aggregator
from conversation_state.errors import StoreError
from conversation_state.store import _saving
from conversation_state.store._core import TRIES, Core, Known
from conversation_state.store._values import Head
from conversation_state.store.backend import ConflictError, Reading, Writing

__all__ = ["Inside", "save_all", "together"]

T = TypeVar("T")


def together(core: Core, work: Callable[[Writing, Any], T]) -> T:
    """
    What *work* gives, which is called with a block and a core for verbs inside
    of it: all it changes happens, or nothing if it raises.

    It is called again where somebody else was there first.

    Raises:
        StoreError:
            If the store can't be written. Nothing was.
    """
    for tried in range(TRIES):
        try:
            # Not the core's own block, which takes others' errors for damage.
            with core.backend.writing() as tx:
                # What is remembered may be what was in the way: one name may go
                # on in the branch that another one has just gone on in.
                inside = Inside(core, tx, is_trusting=not tried)
                made = work(tx, inside)
        except (ConflictError, _TakenError):
            core.forget()
            continue

        inside.settle()
        return made

    what = f"{TRIES} times others wrote at the same moment; try again"
    raise StoreError(core.url, what)


def save_all(
    core: Core,
    states: Mapping[str, Aggregator],
    expecting: Mapping[str, Head | int],
) -> dict[str, Head]:
    """
    What `Store.save_all` does.
    """
    for name in expecting:
        if name not in states:
            msg = f"expecting has {name!r}, of which no state is to be saved"
            raise ValueError(msg)

    for name, state in states.items():
        _saving.check(name, state, expecting.get(name))

    def save(_tx: Writing, inside: Any) -> dict[str, Head]:
        # In one order, so that of two such saves one waits for the other.
        return {
            name: _saving.save(inside, name, states[name], expecting.get(name), "")
            for name in sorted(states)
        }

    heads = together(core, save) if states else {}
    return {name: heads[name] for name in states}


class _TakenError(Exception):
    """
    Somebody else was there first, and so the whole block has to begin again.
    """


class Inside:
    """
    A core to the verbs of a store, whose blocks are the one that is open: what
    is learned in it is known to others when it has ended.
    """

    def __init__(self, core: Core, tx: Reading, *, is_trusting: bool = True) -> None:
        self._core = core
        self._tx = tx
        self._is_trusting = is_trusting
        self._new: dict[str, tuple[Known, int] | None] = {}
        self.backend = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    @contextmanager
    def writing(self) -> Iterator[Any]:
        try:
            with self._core._readable():
                yield self._tx
        except ConflictError as error:
            # A part of what was to be written may have been.
            raise _TakenError from error

    reading = writing

    def known(self, name: str, seen: int | None = None) -> Known | None:
        if not self._is_trusting:
            return None

        if name in self._new:
            new = self._new[name]
            return None if new is None else new[0]

        return self._core.known(name, seen)

    def remember(self, known: Known, seen: int) -> None:
        self._new[known.name.text] = known, seen

    def forget(self, name: str | None = None) -> None:
        if name is not None:
            self._new[name] = None

    def settle(self) -> None:
        """
        Let everybody know what was learned.
        """
        for name, new in self._new.items():
            self._core.forget(name)
            if new is not None:
                self._core.remember(*new)
