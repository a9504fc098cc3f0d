"""
One transaction of a store, given to every verb, and what the store remembers
between transactions.

A reader of rows raises `DamagedRow` where they are not what a store writes; leaving
the transaction makes a `DamageError` of it. All other errors pass as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Concatenate, NamedTuple, NoReturn, ParamSpec, Self, TypeVar

from conversation_state._persistent.maps import PMap
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError, StaleHeadError, StoreError
from conversation_state.store._log import (
    ENTRIES,
    DamagedRow,
    LogEnd,
    LogTable,
    Segments,
    reading_rows,
)
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
    check_seal,
    is_sealed,
    key_range,
)
from conversation_state.timeline import Timeline

T = TypeVar("T")
P = ParamSpec("P")

# The most attempts of a transaction after conflicts, and names in which a similar one
# is looked for.
ATTEMPTS, _MOST_NAMES, _MOST_LISTED = 100, 1000, 5

# How many rows are asked for at once.
PAGE = 1000


class StoredTimeline(NamedTuple):
    """
    What is there of a timeline: its row, the row of each moment with the digest of its
    state, by number, and the timeline that these are, if that is known.
    """

    row: TimelineRow
    moments: PMap[int, tuple[MomentRow, bytes]]
    timeline: Timeline[Aggregator] | None


class RememberedHead(NamedTuple):
    """
    The head of a name as this store saw it last, and its state: of both logs, entries
    and ledger, where they stand and end; the digest of its origin; and the timeline
    whose present it is, if that was seen, too.
    """

    name: Name
    revision: Revision
    head: Head
    state: Aggregator
    segments: tuple[Segments, Segments]
    ends: tuple[LogEnd, LogEnd]
    origin: bytes
    timeline: StoredTimeline | None = None

    def segments_of(self, table: LogTable) -> Segments:
        return self.segments[table is not ENTRIES]


class CachedBackend:
    """
    A backend, and what a store remembers of it: the heads and states of the names it
    used last. That is only ever a guess: others may have saved since, and every use is
    checked against the tables, in the transaction that acts on it.

    Thread-safe without a lock: each step changes one thing, and everything
    remembered has the number of changes for which it holds.
    """

    def __init__(self, backend: Backend, kept: int) -> None:
        self.backend = backend  # keeps the rows
        self.url = backend.url
        # `SqliteBackend.add_at_once`, if the backend has such a method.
        self.add_at_once = getattr(backend, "add_at_once", None)
        # The remembered heads by name, each with the number of changes for which it
        # holds; in order of use, the most recently used one last.
        self.heads: dict[str, tuple[int, RememberedHead]] = {}
        # Why each entry was erased, by identity, as far as is known. It only grows.
        self.erased: dict[bytes, str] = {}
        self.changes = 0  # how many changes to existing rows are known
        # Whether the note of one is damaged or missing: then nothing is saved, since
        # what was erased could come back.
        self.is_erasure_lost = False
        self.kept = kept  # how many heads are remembered

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

    def recall(self, name: str) -> RememberedHead | None:
        """The head of *name* as it was seen last, if it still may be that."""
        found = self.heads.get(name)
        return found[1] if found and found[0] == self.changes else None

    def recall_all(self, changes: int) -> Iterable[RememberedHead]:
        if changes != self.changes:
            return []

        # A copy, since other threads may change it meanwhile.
        every = list(self.heads.values())
        return [head for valid_for, head in every if valid_for == changes]

    def forget(self) -> None:
        self.heads.clear()


class Newest(NamedTuple):
    """A name, its newest revision and the origin of that, as they are saved."""

    name: Name
    revision: Revision
    origin: Origin
    # Of the branches that both logs end in, entries and ledger: the parent, and where
    # it begins.
    starts: tuple[Row, Row] = ((), ())
    # Of the last rows of both logs; None for an empty log.
    digests: tuple[Any, Any] = (None, None)

    def head(self) -> Head:
        return self.revision.head(self.name.name, self.origin.state_id)


def read_newest(row: Row) -> Newest:
    """What is in a row of `Reading.scan_heads`, or of `Reading.get_head`."""
    of_name, of_revision = len(Name._fields), len(Revision._fields)
    name, rest = check_seal(Name._make(row[:of_name])), row[of_name:]
    if rest[0] is None:
        raise DamagedRow(f"{name.name!r} has no revisions")

    revision, rest = check_seal(Revision._make(rest[:of_revision])), rest[of_revision:]
    of_origin = 1 + len(Origin._fields)
    origin = Origin.of_row(revision.origin, rest[:of_origin])
    if len(rest) == of_origin:
        return Newest(name, revision, origin)

    parts = rest[of_origin:]
    entries, ledger = [each if each.__class__ is bytes else None for each in parts[4:6]]
    return Newest(name, revision, origin, (parts[:2], parts[2:4]), (entries, ledger))


class Transaction:
    """One block of a backend, for every verb that takes part in it."""

    __slots__ = (
        *("_is_caught_up", "block", "cache", "changes", "learned"),
        *("tables", "trusts_memory", "url"),
    )
    tables: Any  # the rows: `Writing`, in a transaction that writes

    def __init__(self, cache: CachedBackend, block: Any) -> None:
        self.cache = cache  # the backend, and what is remembered
        self.block = block  # the block, which the transaction enters and leaves
        # Whether a save may build on what is remembered without reading it again.
        self.trusts_memory = True
        self.url = cache.url
        self.changes = cache.changes  # how many changes to existing rows are known
        # The heads that the store remembers, and those (None) that it forgets, when the
        # transaction has ended without an error.
        self.learned: dict[str, RememberedHead | None] = {}
        self._is_caught_up = False

    def __enter__(self) -> Self:
        self.tables = self.block.__enter__()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # The block ends first: what was learned in a block that can't be committed must
        # not be remembered.
        self.block.__exit__(kind, error, trace)
        if isinstance(error, DamagedRow):
            what = f"{error}; verify() lists what is damaged"
            raise DamageError(self.url, what) from error

        if error is not None:
            return

        # If two threads read the same name, the slower one may have older rows: the
        # next use reads the new ones once more.
        cache, heads = self.cache, self.cache.heads
        for name, head in self.learned.items():
            if head is None or self.changes == cache.changes:
                heads.pop(name, None)
                if head is not None:
                    heads[name] = self.changes, head

        if len(heads) > cache.kept:
            for oldest in list(heads)[: len(heads) - cache.kept]:
                heads.pop(oldest, None)

    # What is remembered

    def catch_up(self) -> None:
        """
        Learn what rows were changed by others, and forget what they were. Once: within
        a transaction, rows are as they were at one moment.
        """
        if self._is_caught_up:
            return

        self._is_caught_up = True
        cache = self.cache
        self.changes = known = cache.changes
        new = list(map(Change._make, self.tables.scan("changes", known + 1, None)))
        if not new:
            return

        for number, change in enumerate(new, known + 1):
            if change.number != number or not is_sealed(change):
                cache.is_erasure_lost = True

        # Erased identities are recorded before the number of changes: a thread that
        # saw only the new number would save erased content again.
        cache.erased.update({each.entry: each.reason for each in new if each.entry})
        self.changes = new[-1].number
        # If two threads are here at once, the slower one may set the number back;
        # the same changes are then read once more.
        if self.changes > cache.changes:
            cache.changes = self.changes
            cache.forget()

    def recall(self, name: str) -> RememberedHead | None:
        """The head of *name* as seen last; None if not remembered, or not trusted."""
        # After a conflict: see `CachedBackend.write`.
        if not self.trusts_memory:
            return None

        if name in self.learned:
            return self.learned[name]

        found = self.cache.heads.get(name)
        return found[1] if found and found[0] == self.changes else None

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
        after a key may be before it.
        """
        last: Any = None
        scan = self.tables.scan
        while rows := scan(table, low, high, columns=columns, limit=PAGE):
            for row in rows:
                key = row[0]
                if last is not None and not (
                    last.__class__ is key.__class__ and last < key
                ):
                    where = f"the table {table} are out of order at {shorten_repr(key)}"
                    raise DamagedRow(f"the keys of {where}")

                last = key
                yield row

            if len(rows) < PAGE:
                return

            # The least key that comes after it: no text holds U+0000.
            low = last + {int: 1, str: "\x01", bytes: b"\0"}[last.__class__]

    def iterate_revisions(self, name: Name) -> Iterator[Revision]:
        low, high = key_range(name.number)
        rows = self.iterate_rows("revisions", low=low, high=high)
        return map(check_seal, map(Revision._make, rows))

    def find_digest(self, table: LogTable, branch: int, length: int) -> bytes | None:
        """The digest of a log that ends in a branch; None if its row is not there."""
        if not length:
            return table.start

        row = self.tables.get(table.table, branch << SHIFT | length - 1, ("digest",))
        return row[0] if row and row[0].__class__ is bytes else None

    # Names and revisions

    def find_name(self, name: str) -> Name | None:
        """A name and its number; None if nothing is saved under it."""
        row = self.tables.get("names", name)
        return None if row is None else check_seal(Name._make(row))

    def get_name(self, name: str) -> Name:
        """
        A name that must exist: a NotSavedError says so, with those that are like it.
        """
        return self.find_name(name) or self.refuse_name(name)

    def refuse_name(self, name: str) -> NoReturn:
        """Say that nothing is saved under a name, and which names are like it."""
        others = self.tables.scan("names", None, None, limit=_MOST_NAMES)
        # Of names in folders, others of the same one: another one may be a user's.
        folder = name.rpartition("/")[0]
        same = [each for each, *_ in others if each.rpartition("/")[0] == folder]
        near = get_close_matches(name, same)
        raise NotSavedError(self.url, "name", name, tuple(near))

    def refuse_label(self, name: Name, label: str) -> NoReturn:
        """Say that a name has no such label, and which of its labels are like it."""
        low, high = label_key(name.number, ""), label_key(name.number + 1, "")
        rows = self.tables.scan("labels", low, high, limit=_MOST_NAMES)
        others = [key[len(low) :].decode(errors="replace") for key, _ in rows]
        near = get_close_matches(label, others)
        has = ", ".join(map(repr, others[:_MOST_LISTED])) or "none"
        why = "" if near else f"{name.name!r} has {has}"
        if label.isdecimal() and not near:
            why = f"a revision's number is an int: {int(label)}"

        raise NotSavedError(self.url, "label", label, tuple(near), why)

    def find_newest(self, name: str) -> Newest | None:
        """What is newest of a name, in one query, and `catch_up` with it; or None."""
        known = self.cache.changes
        with reading_rows():
            row = self.tables.get_head(name)

        if row is not None and (row[-1] or 0) == known:
            self._is_caught_up, self.changes = True, known

        self.catch_up()
        return None if row is None else read_newest(row)

    def find_newest_row(self, number: int) -> Row | None:
        # Of a name's number; the row may be damaged.
        ends = key_range(number)
        rows = self.tables.scan("revisions", *ends, limit=1, backwards=True)
        return rows[0] if rows else None

    def find_head(
        self, text: str, expecting: Head | int | None = None, *advice: str
    ) -> tuple[Name | None, Revision | None, Head | None]:
        """A name and its newest revision, as far as there are such; checked."""
        name = self.find_name(text)
        row = None if name is None else self.find_newest_row(name.number)
        newest = None if row is None else check_seal(Revision._make(row))
        head = name and newest and self.make_head(name, newest)
        if not is_expected(head, expecting):
            raise StaleHeadError(self.url, text, expecting, head, *advice)

        return name, newest, head

    def check_head(
        self,
        text: str,
        expecting: Head | int | None,
        advice: str = "Look at the newest revision, then try again",
    ) -> None:
        """Check, in the changing transaction, that a head is still the expected one."""
        if expecting is not None:
            self.get_name(text)
            self.find_head(text, expecting, advice)

    def get_revision(self, name: Name, at: At) -> Revision:
        if at is None:
            row = self.find_newest_row(name.number)
            if row is None:
                raise DamagedRow(f"{name.name!r} has no revisions")

            return check_seal(Revision._make(row))

        number = at.revision if isinstance(at, Head) else at
        if isinstance(number, str):
            found = self.tables.get("labels", label_key(name.number, number))
            key = None if found is None else found[1]
        else:
            # A larger number would make the key of another name's revision.
            key = name.number << SHIFT | number if 0 < number < 1 << SHIFT else None

        row = None if key is None else self.tables.get("revisions", key)
        if row is None:
            if isinstance(number, str):
                self.refuse_label(name, number)

            newest = self.get_revision(name, None).number
            why = f"{name.name!r} is at revision {newest}"
            raise NotSavedError(self.url, "revision", number, (), why)

        revision = check_seal(Revision._make(row))
        # Rows of labels have no seal; the revision's seal covers its labels.
        if isinstance(number, str) and not (
            revision.revision >> SHIFT == name.number
            and number in split_labels(revision.labels)
        ):
            raise DamagedRow(f"the label {number!r} points to a revision without it")

        # The name may have been deleted since, and saved again.
        if isinstance(at, Head) and at.digest != revision.digest.hex():
            raise NotSavedError(self.url, "revision", str(at))

        return revision

    def get_origin(self, number: int) -> Origin:
        return Origin.of_row(number, self.tables.get("origins", number))

    def make_head(self, name: Name, revision: Revision) -> Head:
        return revision.head(name.name, self.get_origin(revision.origin).state_id)
