"""
One transaction of a store, given to every verb, and what the store remembers
between transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from struct import error as struct_error
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

from conversation_state._persistent.maps import PMap
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.errors import (
    ConversationStateError,
    NotSavedError,
    StaleHeadError,
    StoreError,
)
from conversation_state.store._log import ENTRIES, Kind, Segments
from conversation_state.store._values import (
    At,
    Head,
    is_expected,
    label_key,
    split_labels,
)
from conversation_state.store.backend import Backend, ConflictError, DamageError, Row
from conversation_state.store.schema import (
    SHIFT,
    Change,
    MomentRow,
    Name,
    Origin,
    Revision,
    TimelineRow,
    is_sealed,
    key_range,
)
from conversation_state.timeline import Timeline

T = TypeVar("T")
P = ParamSpec("P")

# The most attempts of a transaction after conflicts, and names in which a similar one
# is looked for.
ATTEMPTS, _MOST_NAMES = 100, 1000

# How many rows are asked for at once.
PAGE = 1000

# What comes of reading rows that no store wrote.
UNREADABLE = (
    ConversationStateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    struct_error,
)


class RememberedTimeline(NamedTuple):
    """
    The timeline of a name as this store saw it last, its row, and the row and digest of
    each moment, by number.
    """

    row: TimelineRow
    timeline: Timeline[Aggregator]
    moments: PMap[int, tuple[MomentRow, bytes]]


class RememberedHead(NamedTuple):
    """
    The head of a name as this store saw it last, and its state: where both logs stand,
    their digests, and the digest of its origin; and the timeline whose present it is,
    if that was seen, too.
    """

    name: Name
    revision: Revision
    head: Head
    state: Aggregator
    entries: Segments
    ledger: Segments
    digests: tuple[bytes, bytes]
    origin: bytes
    timeline: RememberedTimeline | None = None

    def segments_of(self, kind: Kind) -> Segments:
        return self.entries if kind is ENTRIES else self.ledger


class Core:
    """
    A backend, and what a store remembers of it: the heads and states of the names it
    used last. That is only ever a guess: others may have saved since, and every use is
    checked against the tables, in the transaction that acts on it.

    Thread-safe without a lock: each step changes one thing, and everything
    remembered has the number of changes for which it holds. So an interrupt at any
    moment, or a fork while another thread is here, leaves nothing locked.

    Attributes:
        backend: Keeps the rows.

        erased: Why each entry was erased, by identity, as far as is known. It
            only grows.

        changes: How many changes to existing rows are known.

        is_erasure_lost: Whether the note of one is damaged or missing: then
            nothing is saved, since what was erased could come back.
    """

    def __init__(self, backend: Backend, kept: int) -> None:
        self.backend = backend
        self.url = backend.url
        self.erased: dict[bytes, str] = {}
        self.changes = 0
        self.is_erasure_lost = False
        self._kept = kept
        # In order of use, the most recently used one last.
        self._heads: dict[str, tuple[int, RememberedHead]] = {}

    def read(self) -> Transaction:
        return Transaction(self, self.backend.reading())

    def write(
        self,
        work: Callable[Concatenate[Transaction, P], T],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        """
        The result of *work* with a transaction and the arguments: its changes all
        happen, or none if it raises.

        It is called again, in a new transaction, after a conflict. The retry trusts no
        remembered rows, because these may have caused the conflict: two names may
        continue one branch.
        """
        trusts_memory = True
        for _ in range(ATTEMPTS):
            try:
                with Transaction(self, self.backend.writing()) as transaction:
                    transaction.trusts_memory = trusts_memory
                    return work(transaction, *arguments, **options)
            except ConflictError:
                trusts_memory = False

        raise self.make_conflict_error()

    def make_conflict_error(self) -> StoreError:
        what = f"gave up after {ATTEMPTS} conflicting writes"
        return StoreError(self.url, f"{what}; retry, or reduce concurrent writers")

    def recall(self, name: str, changes: int) -> RememberedHead | None:
        """
        The head of *name* as it was seen last; None if there were other than
        *changes* changes since or before.
        """
        found = self._heads.get(name)
        return found[1] if found and found[0] == changes == self.changes else None

    def recall_all(self, changes: int) -> Iterable[RememberedHead]:
        if changes != self.changes:
            return []

        # A copy, since other threads may change it meanwhile.
        every = list(self._heads.values())
        return [head for valid_for, head in every if valid_for == changes]

    def remember(self, head: RememberedHead, changes: int) -> None:
        """
        Remember a head that was read when *changes* changes were known. If two threads
        read the same name, the slower one may have older rows: the next use reads the
        new ones once more.
        """
        if changes != self.changes:
            return

        self._heads.pop(head.head.name, None)
        self._heads[head.head.name] = changes, head
        if len(self._heads) > self._kept:
            for oldest in list(self._heads)[: len(self._heads) - self._kept]:
                self._heads.pop(oldest, None)

    def forget(self, name: str | None = None) -> None:
        if name is None:
            self._heads.clear()
        else:
            self._heads.pop(name, None)


class Transaction:
    """
    One block of a backend, for every verb that takes part in it.

    What its verbs learn is remembered when it has ended without an error.

    Attributes:
        core: The backend, and what is remembered.

        block: The block, which the transaction enters and leaves.

        trusts_memory: Whether a save may build on what is remembered without
            reading it again.

        reports_damage: Whether errors of reading rows become a `StoreError` when
            they leave the transaction. False where a caller's code or values are
            looked at, whose errors are not to be taken for damage.

        tables: The rows: `Writing`, in a transaction that writes.

        changes: How many changes to existing rows are known.
    """

    __slots__ = (
        *("_is_caught_up", "_learned", "block", "changes", "core", "reports_damage"),
        *("tables", "trusts_memory", "url"),
    )
    tables: Any

    def __init__(self, core: Core, block: Any) -> None:
        self.core = core
        self.block = block
        self.trusts_memory = self.reports_damage = True
        self.url = core.url
        self.changes = core.changes
        self._is_caught_up = False
        self._learned: dict[str, RememberedHead | None] = {}

    def __enter__(self) -> Self:
        self.tables = self.block.__enter__()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # The block ends first: what was learned in a block that can't be committed must
        # not be remembered.
        self.block.__exit__(kind, error, trace)
        if error is not None:
            if self.reports_damage:
                self.report_damage(error)

            return

        for name, head in self._learned.items():
            if head is None:
                self.core.forget(name)
            else:
                self.core.remember(head, self.changes)

    def damage_error(self, what: str) -> StoreError:
        return DamageError(self.url, f"{what}; verify() lists what is damaged")

    def report_damage(self, error: object) -> None:
        """Raise a `StoreError` if *error* comes of rows that no store wrote."""
        if isinstance(error, UNREADABLE) and not isinstance(error, StoreError):
            what = f"some rows are not what a store writes ({error})"
            raise self.damage_error(what) from error

    # What is remembered

    def catch_up(self) -> None:
        """
        Learn what rows were changed by others, and forget what they were. Once: within
        a transaction, rows are as they were at one moment.
        """
        if self._is_caught_up:
            return

        self._is_caught_up = True
        core = self.core
        self.changes = known = core.changes
        new = list(map(Change._make, self.tables.scan("changes", known + 1, None)))
        if not new:
            return

        for number, change in enumerate(new, known + 1):
            if change.number != number or not is_sealed(change):
                core.is_erasure_lost = True

        # Erased identities are recorded before the number of changes: a thread that
        # saw only the new number would save erased content again.
        core.erased.update({each.entry: each.reason for each in new if each.entry})
        self.changes = new[-1].number
        # If two threads are here at once, the slower one may set the number back;
        # the same changes are then read once more.
        if self.changes > core.changes:
            core.changes = self.changes
            core.forget()

    def recall(self, name: str) -> RememberedHead | None:
        """
        The head of *name* as it was seen last, here or before; None if it is not
        remembered, or not trusted.
        """
        # After a conflict: see `Core.write`.
        if not self.trusts_memory:
            return None

        if name in self._learned:
            return self._learned[name]

        return self.core.recall(name, self.changes)

    def remember(self, head: RememberedHead) -> None:
        # The store does so from the end of the transaction on.
        self._learned[head.head.name] = head

    def forget(self, name: str) -> None:
        self._learned[name] = None

    # Rows

    def iterate_rows(
        self,
        table: str,
        columns: tuple[str, ...] | None = None,
        *,
        low: Any = None,
        high: Any = None,
    ) -> Iterator[Row]:
        """
        The rows of a table from key *low* on and before *high*, some at a time.

        Ends on any file, for it demands that keys grow: in a damaged one what comes
        after a key may be before it, which is a ValueError.
        """
        last: Any = None
        scan = self.tables.scan
        while rows := scan(table, low, high, columns=columns, limit=PAGE):
            for row in rows:
                key = row[0]
                if last is not None and not last < key:
                    where = f"the table {table} are out of order at {shorten_repr(key)}"
                    raise ValueError(f"the keys of {where}")

                last = key
                yield row

            if len(rows) < PAGE:
                return

            # The least key that comes after it: no text holds U+0000.
            low = last + {int: 1, str: "\x01", bytes: b"\0"}[last.__class__]

    def iterate_revisions(self, name: Name) -> Iterator[Revision]:
        low, high = key_range(name.number)
        rows = self.iterate_rows("revisions", low=low, high=high)
        return map(self.check_revision, rows)

    def find_digest(self, kind: Kind, branch: int, length: int) -> bytes | None:
        """The digest of a log that ends in a branch; None if its row is not there."""
        if not length:
            return kind.start

        row = self.tables.get(kind.table, branch << SHIFT | length - 1, ("digest",))
        return None if row is None else row[0]

    # Names and revisions: rows are checked where they are read, and a `StoreError` says
    # which one is not what was written.

    def find_name(self, name: str) -> Name | None:
        """A name and its number; None if nothing is saved under it."""
        row = self.tables.get("names", name)
        return None if row is None else self.check_name(row)

    def check_name(self, row: Row) -> Name:
        found = Name._make(row)
        if not is_sealed(found):
            # A damaged number would lead to what another name has.
            raise self.damage_error(f"the row of the name {found.name!r} is damaged")

        return found

    def get_name(self, name: str) -> Name:
        """
        A name that must exist: a NotSavedError says so, with those that are like it.
        """
        found = self.find_name(name)
        if found is None:
            others = self.tables.scan("names", None, None, limit=_MOST_NAMES)
            near = get_close_matches(name, [other[0] for other in others])
            raise NotSavedError(self.url, "name", name, tuple(near))

        return found

    def find_newest_row(self, number: int) -> Row | None:
        # Of a name's number; the row may be damaged.
        ends = key_range(number)
        rows = self.tables.scan("revisions", *ends, limit=1, backwards=True)
        return rows[0] if rows else None

    def check_revision(self, row: Row) -> Revision:
        revision = Revision._make(row)
        if is_sealed(revision):
            return revision

        what = f"the row of revision {revision.number} is not what was written"
        raise self.damage_error(what)

    def find_head(
        self, text: str, expecting: Head | int | None = None, *advice: str
    ) -> tuple[Name | None, Revision | None, Head | None]:
        """
        A name and its newest revision, as far as there are such.

        Raises:
            StaleHeadError:
                If that is not the expected head.
        """
        name = self.find_name(text)
        row = None if name is None else self.find_newest_row(name.number)
        newest = None if row is None else self.check_revision(row)
        head = name and newest and self.make_head(name, newest)
        if not is_expected(head, expecting):
            raise StaleHeadError(self.url, text, expecting, head, *advice)

        return name, newest, head

    def get_revision(self, name: Name, at: At) -> Revision:
        if at is None:
            row = self.find_newest_row(name.number)
            if row is None:
                raise self.damage_error(f"{name.name!r} has no revisions")

            return self.check_revision(row)

        number = at.revision if isinstance(at, Head) else at
        if isinstance(number, str):
            found = self.tables.get("labels", label_key(name.number, number))
            key = None if found is None else found[1]
        else:
            # A larger number would make the key of another name's revision.
            key = name.number << SHIFT | number if 0 < number < 1 << SHIFT else None

        row = None if key is None else self.tables.get("revisions", key)
        if row is None:
            what = "label" if isinstance(number, str) else "revision"
            raise NotSavedError(self.url, what, number)

        revision = self.check_revision(row)
        # Rows of labels have no seal; the revision's seal covers its labels.
        if isinstance(number, str) and not (
            revision.revision >> SHIFT == name.number
            and number in split_labels(revision.labels)
        ):
            what = f"the label {number!r} points to a revision without it"
            raise self.damage_error(what)

        # The name may have been deleted since, and saved again.
        if isinstance(at, Head) and at.digest != revision.digest.hex():
            raise NotSavedError(self.url, "revision", str(at))

        return revision

    def get_origin(self, number: int) -> Origin:
        return self.check_origin(number, self.tables.get("origins", number))

    def check_origin(self, number: int, row: Row | None) -> Origin:
        if row is None or row[0] is None:
            raise self.damage_error(f"the origin {number} is missing")

        try:
            return Origin.of_row(row)
        except UNREADABLE as error:
            raise self.damage_error(f"the origin {number} is damaged") from error

    def make_head(self, name: Name, revision: Revision) -> Head:
        return revision.head(name.name, self.get_origin(revision.origin).state_id)
