"""
The verbs of a store, for threads; `_store` has their twins for event loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self, overload

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError, StoreError
from conversation_state.store import (
    _collecting,
    _loading,
    _saving,
    _tending,
    _together,
    _verifying,
)
from conversation_state.store._core import At, Core
from conversation_state.store._values import Collected, Damage, Head, Receipt, Window
from conversation_state.store.backend import Backend

__all__ = ["MANY", "Verbs", "overtaken"]

# How often an update is begun: where sixteen processes write one name all the
# time, one of them in 10**28 gives up.
MANY = 1000


def overtaken(url: str, name: str) -> StoreError:
    """
    What an update that never comes to its end is told.
    """
    return StoreError(
        url,
        f"{name!r} was saved by others {MANY:,} times before this update was; try "
        "again, and see that the function itself saves nothing under this name",
    )


_NONE: Mapping[str, Head | int] = MappingProxyType({})


class Verbs:
    """
    What `Store` does, one call after the other.
    """

    def __init__(self, backend: Backend, *, remembered: int = 100) -> None:
        self._core = Core(backend, remembered)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.url}>"

    @property
    def url(self) -> str:
        """
        Where it keeps what it keeps, without any password.
        """
        return self._core.url

    def save(
        self,
        name: str,
        state: Aggregator,
        *,
        expecting: Head | int | None = None,
        label: str = "",
    ) -> Head:
        """
        Make *state* the head of *name*; what was the head stays a revision.

        Writes what is new: a row for each message and ledger entry that no
        state before it had, and one of 60 bytes for the revision. The very
        state that is the head writes nothing. Atomic: killed at any moment,
        the store has the state or the one before it.

        Args:
            name: 1 to 500 characters.

            state: The state.

            expecting: The head that is to be replaced, or the number of its
                revision; 0 if the name is to be new. None takes any head of
                which *state* holds everything, in its order.

            label: What to call this revision; see `checkpoint`.

        Raises:
            StaleHeadError:
                If the head is another. Nothing was written.

            StoreError:
                If the store can't be written. Nothing was.
        """
        return _saving.save(self._core, name, state, expecting, label)

    def save_all(
        self,
        states: Mapping[str, Aggregator],
        *,
        expecting: Mapping[str, Head | int] = _NONE,
    ) -> dict[str, Head]:
        """
        Make each of *states* the head of its name, or none of them; the heads.

        Atomic as one `save` is: for what belongs together under several names.

        Args:
            states: The states, by name.

            expecting: The heads that are to be replaced, as `save` takes them,
                of some names or all.

        Raises:
            StaleHeadError:
                If a head is another. Nothing was written.

            StoreError:
                If the store can't be written. Nothing was.
        """
        return _together.save_all(self._core, states, expecting)

    @overload
    def load(
        self, name: str, *, at: int | str | Head | None = None, last: None = None
    ) -> Aggregator: ...
    @overload
    def load(
        self, name: str, *, at: int | str | Head | None = None, last: int
    ) -> Window: ...
    def load(
        self, name: str, *, at: At = None, last: int | None = None
    ) -> Aggregator | Window:
        """
        The state that was saved, equal to what it was then.

        Reads what is not in memory: one row if this store saved or loaded the
        head itself, what is new if others went on from there.

        Args:
            name: What it was saved under.

            at: Which of its states: a revision's number, a label, of which the
                newest counts, or a head. None is the head.

            last: Load only so many messages from the end, as a `Window`.

        Raises:
            NotSavedError:
                If there is none like that.
        """
        if last is None:
            return _loading.load(self._core, name, at)

        return _loading.load_window(self._core, name, at, last)

    def update(
        self,
        name: str,
        function: Callable[[Aggregator], Aggregator],
        *,
        start: Aggregator | None = None,
    ) -> Aggregator:
        """
        Save what *function* makes of the head; the state that was saved.

        If somebody else saves meanwhile, *function* is called again with the
        new head: it should do nothing but make a state, and what it is given
        holds all that was said so far. Any error of its own ends the update.

        Args:
            name: What the state is saved under.

            function: Makes the next state.

            start: What it is given if nothing is saved yet.

        Raises:
            NotSavedError:
                If nothing is saved under the name, and *start* is None.

            StoreError:
                If others were first a thousand times, or the function itself.
        """
        for _ in range(MANY):
            expecting: Head | int
            try:
                newest = _loading.load_newest(self._core, name)
                expecting, state = newest.head, newest.state
            except NotSavedError:
                if start is None:
                    raise

                expecting, state = 0, start

            made = function(state)
            try:
                self.save(name, made, expecting=expecting)
            except StaleHeadError:
                continue

            return made

        raise overtaken(self.url, name)

    def head(self, name: str, *, at: At = None) -> Head:
        """
        Which state a name stands at now, or stood *at*. One row is read.

        Raises:
            NotSavedError:
                If there is none like that.
        """
        return _loading.head(self._core, name, at)

    def names(self, *, prefix: str = "") -> tuple[str, ...]:
        """
        All names something is saved under, those that begin with *prefix*, in
        the order of their code points. O(that).
        """
        return _loading.names(self._core, prefix)

    def history(
        self, name: str, *, before: int | None = None, limit: int | None = None
    ) -> tuple[Head, ...]:
        """
        Every state that was saved under a name, the newest first.

        Args:
            name: The name.

            before: Only those before this revision.

            limit: Only so many.

        Raises:
            NotSavedError:
                If nothing is saved under the name.
        """
        return _loading.history(self._core, name, before, limit)

    def checkpoint(self, name: str, label: str, *, at: At = None) -> Head:
        """
        Call a revision *label*, in place of what it was called; the head, or
        the one *at*. "" takes its label away.

        Labels may be given more than once: `load` finds the one given last.

        Raises:
            NotSavedError:
                If there is no revision like that.
        """
        return _tending.checkpoint(self._core, name, label, at)

    def fork(self, name: str, new_name: str, *, at: At = None) -> Head:
        """
        Save a fork of a state as *new_name*: a state with an id of its own and
        the same past. Three rows, however long that is.

        Raises:
            NotSavedError:
                If there is no state like that.

            StaleHeadError:
                If *new_name* is there already.
        """
        return _tending.fork(self._core, name, new_name, at)

    def delete(self, name: str, *, expecting: Head | int | None = None) -> None:
        """
        Let go of a name and all its revisions.

        What nobody else shares stays in the file until `collect_garbage`.

        Args:
            name: The name.

            expecting: The head that is to be let go of, or the number of its
                revision. None lets go of any.

        Raises:
            NotSavedError:
                If nothing is saved under it.

            StaleHeadError:
                If the head is another. Nothing was let go of.
        """
        _tending.delete(self._core, name, expecting)

    def collect_garbage(self, *, vacuum: bool = False) -> Collected:
        """
        Let go of all rows that no revision of any name needs.

        O(revisions), during which nobody waits; others that save wait while
        what was found is let go of.

        Args:
            vacuum: Write all that is left anew, so that nothing else is in the
                file: it gets as small as it can, and what was let go of or
                erased is nowhere in it. Needs as much space again, and others
                that save wait.

        Raises:
            StoreError:
                If something that is needed is damaged, and nothing was let go
                of; or if others are in the way of *vacuum*.
        """
        return _collecting.collect_garbage(self._core, vacuum=vacuum)

    def erase(self, entry_id: str, *, reason: str) -> Receipt:
        """
        Replace what an entry says by a tombstone, in every state that has it.

        The tombstone has the entry's role, its run, turn and time, the ids of
        calls and results, *reason*, and the digest of what was there: digests
        of all states stay what they are. What was erased is not written again,
        whoever still has it and saves it. O(rows of the store): every message
        is looked at. Once more does nothing, and gives the same receipt.

        Raises:
            NotSavedError:
                If no saved state ever had the entry.
        """
        return _tending.erase(self._core, entry_id, reason)

    def verify(self) -> tuple[Damage, ...]:
        """
        All that is not what it was when it was saved; () if all is.

        Computes every digest again. O(everything there is).
        """
        return _verifying.verify(self._core)

    def close(self) -> None:
        """
        Let go of files and connections. Idempotent.
        """
        self._core.forget()
        self._core.backend.close()

    def __reduce__(self) -> Any:
        msg = f"a store can't be pickled; open {self.url} where it is needed"
        raise TypeError(msg)
