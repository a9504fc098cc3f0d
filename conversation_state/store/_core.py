"""
What the verbs of a store share: the backend, and what is known of it.

A store remembers, for the names it used last, their head and its state. That
is only ever a guess: others may have saved since, and every use is checked
against the tables, in the same block that acts on it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from threading import Lock
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from conversation_state._persistent import check_text
from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StoreError
from conversation_state.store._rows import (
    SHIFT,
    UNREADABLE,
    Origin,
    Revision,
    damaged,
    seal,
)
from conversation_state.store._threads import renew_in_children
from conversation_state.store._values import Head
from conversation_state.store.backend import (
    Backend,
    ConflictError,
    Reading,
    Writing,
)
from conversation_state.store.log import Segments

__all__ = ["At", "TRIES", "Core", "Known", "Name", "checked_name", "now", "retried"]

At = int | str | Head | None

P = ParamSpec("P")
T = TypeVar("T")

# How often somebody else may be first before a verb gives up.
TRIES = 100

_NEAR_AMONG = 1000


class Name(NamedTuple):
    """
    A name and the number the tables know it by.
    """

    text: str
    number: int

    def row(self) -> tuple[str, int, bytes]:
        """
        Its row.
        """
        return self.text, self.number, name_digest(self.text, self.number)


def name_digest(text: str, number: int) -> bytes:
    """
    What tells that a name's row is what was written.
    """
    return seal(text.encode(), number.to_bytes(8))


class Known(NamedTuple):
    """
    The head of a name as it was seen last, and its state.

    Attributes:
        name: The name.

        revision: The head's row.

        head: The same for users.

        state: The state.

        entries: Where its entries stand.

        ledger: Where its ledger stands.

        digests: Those of both logs.

        origin: The digest of its origin.
    """

    name: Name
    revision: Revision
    head: Head
    state: Aggregator
    entries: Segments
    ledger: Segments
    digests: tuple[bytes, bytes]
    origin: bytes


class Core:
    """
    A backend, and what is known of it.

    Attributes:
        backend: Keeps the rows.

        erased: Why each entry was erased, by identity, as far as is known.

        seen: How many changes to rows that were there are known.
    """

    def __init__(self, backend: Backend, kept: int) -> None:
        self.backend = backend
        self.url = backend.url
        self.erased: dict[bytes, str] = {}
        self.seen = 0
        self._kept = kept
        self._known: OrderedDict[str, Known] = OrderedDict()
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """
        Begin anew in a child of `os.fork`.
        """
        self._lock = Lock()

    # What is remembered

    def known(self, name: str, seen: int | None = None) -> Known | None:
        """
        The head of *name* as it was seen last; None if there were other than
        *seen* changes since or before.
        """
        with self._lock:
            is_told = seen is None or seen == self.seen
            return self._known.get(name) if is_told else None

    def all_known(self, seen: int | None = None) -> Iterable[Known]:
        """
        Every head that is remembered; none as above.
        """
        with self._lock:
            is_told = seen is None or seen == self.seen
            return list(self._known.values()) if is_told else []

    def remember(self, known: Known, seen: int) -> None:
        """
        Remember a head that was read when *seen* changes were known.
        """
        name = known.name.text
        with self._lock:
            old = self._known.get(name)
            if seen != self.seen or not self._kept:
                return

            # Of two threads that read the same name, the slower one may know less.
            if old is None or old.revision.revision <= known.revision.revision:
                self._known[name] = known

            self._known.move_to_end(name)
            if len(self._known) > self._kept:
                self._known.popitem(last=False)

    def forget(self, name: str | None = None) -> None:
        """
        Remember nothing of a name, or of all.
        """
        with self._lock:
            if name is None:
                self._known.clear()
            else:
                self._known.pop(name, None)

    def catch_up(self, tx: Reading) -> int:
        """
        Learn what rows were changed by others, and forget what they were; how
        many changes are known now.
        """
        seen = self.seen
        new = tx.scan("changes", seen + 1, None, columns=("number", "entry", "reason"))
        if new:
            with self._lock:
                if new[-1][0] > self.seen:
                    self._known.clear()

                self.erased |= {entry: reason for _, entry, reason in new if entry}
                self.seen = max(self.seen, new[-1][0])

            seen = new[-1][0]

        return seen

    # What is in the tables

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """
        A block that reads; rows that no store wrote are a StoreError.
        """
        with self.backend.reading() as tx, self._readable():
            yield tx

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """
        The same for a block that writes.
        """
        with self.backend.writing() as tx, self._readable():
            yield tx

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except UNREADABLE as error:
            what = f"some rows are not what a store writes ({error})"
            raise damaged(self.url, what) from error

    def find(self, tx: Reading, name: str) -> Name | None:
        """
        The number of a name; None if nothing is saved under it.
        """
        row = tx.get("names", name)
        if row is None:
            return None

        found = Name(name, row[1])
        if row != found.row():
            # Else it might be given what was saved under another name.
            raise damaged(self.url, f"the row of the name {name!r} is not whole")

        return found

    def named(self, tx: Reading, name: str) -> Name:
        """
        The same for a name that has to be there.

        Raises:
            NotSavedError:
                If nothing is saved under it.
        """
        found = self.find(tx, name)
        if found is None:
            others = tx.scan("names", None, None, columns=("name",), limit=_NEAR_AMONG)
            near = get_close_matches(name, [other for (other,) in others])
            raise NotSavedError(self.url, "name", name, tuple(near))

        return found

    def newest(self, tx: Reading, number: int) -> Revision | None:
        """
        The newest revision of a name.
        """
        low, high = number << SHIFT, (number + 1) << SHIFT
        rows = tx.scan("revisions", low, high, limit=1, backwards=True)
        return Revision._make(rows[0]) if rows else None

    def revision(self, tx: Reading, name: Name, at: At) -> Revision:
        """
        One revision of a name.

        Raises:
            NotSavedError:
                If there is none like that.
        """
        if at is None:
            newest = self.newest(tx, name.number)
            if newest is None:
                raise damaged(self.url, f"{name.text!r} has no revisions")

            return newest

        number = at.revision if isinstance(at, Head) else at
        if isinstance(number, str):
            found = tx.get("labels", label_key(name.number, number))
            place = None if found is None else found[1]
        else:
            place = name.number << SHIFT | number if 0 < number < 1 << SHIFT else None

        row = None if place is None else tx.get("revisions", place)
        if row is None:
            what = "label" if isinstance(number, str) else "revision"
            raise NotSavedError(self.url, what, number)

        revision = Revision._make(row)
        if isinstance(at, Head) and at.digest != revision.digest.hex():
            raise NotSavedError(self.url, "revision", str(at))

        return revision

    def origin(self, tx: Reading, number: int) -> Origin:
        """
        An origin by its number.
        """
        row = tx.get("origins", number)
        if row is None:
            raise damaged(self.url, f"the origin {number} is missing")

        return Origin._make(row[1:])

    def head(self, tx: Reading, name: Name, revision: Revision) -> Head:
        """
        A revision, for users.
        """
        return revision.head(name.text, self.origin(tx, revision.origin).state_id)


def retried(
    verb: Callable[Concatenate[Core, P], T],
) -> Callable[Concatenate[Core, P], T]:
    """
    A verb that is tried again where somebody else was there first.
    """

    @wraps(verb)
    def again(core: Core, /, *given: P.args, **options: P.kwargs) -> T:
        for _ in range(TRIES):
            try:
                return verb(core, *given, **options)
            except ConflictError:
                core.forget()

        what = f"{TRIES} times others wrote at the same moment; try again"
        raise StoreError(core.url, what)

    return again


def label_key(number: int, label: str) -> bytes:
    """
    The key of a label: a name's number, so that they are together, and it.
    """
    return number.to_bytes(8) + label.encode()


def checked_name(name: object, what: str = "name") -> str:
    """
    *name* if it can be one.

    Raises:
        ValueError:
            If it is empty, longer than 500 characters, or holds U+0000 or half
            of a surrogate pair.
    """
    text = check_text(name, what)
    if not 0 < len(text) <= _LONGEST or "\0" in text:
        msg = (
            f"{what} is {text!r:.80}; expected 1 to {_LONGEST} characters and no U+0000"
        )
        raise ValueError(msg)

    return text


_LONGEST = 500


def checked_at(name: str, at: At) -> At:
    """
    *at* if it can tell a revision of *name*.

    Raises:
        TypeError:
            If it is of another type.

        ValueError:
            If it is a head of another name, or no text.
    """
    if isinstance(at, Head) and at.name != name:
        msg = f"at is a head of {at.name!r}; expected one of {name!r}"
        raise ValueError(msg)

    if at is not None and (
        isinstance(at, bool) or not isinstance(at, int | str | Head)
    ):
        msg = f"at is {at!r}; expected a revision's number, a label, a Head or None"
        raise TypeError(msg)

    return check_text(at, "at") if isinstance(at, str) else at


def now() -> int:
    """
    Milliseconds since 1970.
    """
    return time.time_ns() // 1_000_000
