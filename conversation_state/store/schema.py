"""
The tables of a store, and their rows: what every backend keeps.

A row class is the one place where a column stands. `TABLES` is read from the
classes, and every statement and backend from `TABLES`; rows are made and read by
their names. A seal covers all columns of its row.
"""

from __future__ import annotations

from datetime import UTC, datetime
from time import time_ns
from typing import Any, Literal, NamedTuple, TypeVar, get_type_hints
from uuid import UUID

from conversation_state._persistent import EMPTY_MAP
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.store._log import (
    ENTRIES,
    LEDGER,
    UNREADABLE,
    DamagedRow,
    LogEnd,
    LogRow,
    LogTable,
    digest_of,
)
from conversation_state.store._values import (
    NO_FIELDS,
    Head,
    RevisionFields,
    split_labels,
    unpack_notes,
)

__all__ = [
    "SCHEMA_VERSION",
    "SHIFT",
    "TABLES",
    "Blob",
    "Branch",
    "Change",
    "Column",
    "Label",
    "LabelMoveRow",
    "MomentRow",
    "Name",
    "Origin",
    "RecordRow",
    "Revision",
    "Start",
    "Table",
    "TimelineRow",
    "Use",
]

SCHEMA_VERSION = 1

# A *place* is ``branch << 32 | position``, a *revision* ``name << 32 | number``:
# one integer is the smallest key there is, and keeps what belongs together
# beside each other.
SHIFT = 32
_NUMBER = (1 << SHIFT) - 1


def key_range(number: int) -> tuple[int, int]:
    """The ends of the range of all places in a branch, or revisions of a name."""
    return number << SHIFT, (number + 1) << SHIFT


# The most that a total of a ledger can be, and an integer of a row.
MAX_TOKENS = 2**63 - 1

_ID_SIZE = 16
# More origins than this never have one number.
MAX_SAME_NUMBER = 1000

R = TypeVar("R", bound="tuple[Any, ...]")


# Seals

# Half as long as other digests, for there is one for each save. It finds accidents;
# whether a state is the same, `state_digest` decides.
_SEAL_SIZE = 8


def _compute_seal(row: Any) -> bytes:
    columns = row[:-1]
    if row.__class__ is RecordRow:
        columns = row[0], digest_of(row[1]), row[2:-1]  # a host's value may be large

    # All columns are in it, the key too: no row passes for another. As text, which no
    # other values have, whatever their types.
    return digest_of(ascii(columns).encode())[:_SEAL_SIZE]


def sealed(row: R) -> R:
    """The row with the seal of its other columns."""
    return tuple.__new__(row.__class__, (*row[:-1], _compute_seal(row)))


def is_sealed(row: Any) -> bool:
    try:
        return bool(row[-1] == _compute_seal(row))
    except TypeError:
        return False  # the value of a record is no bytes


def check_seal(row: R) -> R:
    """
    The row, if it is what was written.

    Raises:
        DamagedRow: If it is not.
    """
    if is_sealed(row):
        return row

    raise DamagedRow(f"the row of {row} is not what was written")


# Rows. The first column is the key; a column that may be null is `| None`. Identities
# and keys that users choose are bytes, of UTF-8: they may hold any character, and not
# every server's texts do.


class Name(NamedTuple):
    """
    A row of ``names``: which names there are, by which number the rest knows them,
    whether each is a timeline (1) or a history (0), and the notes on them.
    """

    name: str
    number: int
    is_timeline: int = 0
    notes: bytes = b""
    seal: bytes = b""

    def __str__(self) -> str:
        return f"the name {self.name!r}"


class Revision(NamedTuple):
    """
    A row of ``revisions``: a state that was saved, and under which name.

    Attributes:
        parent: The number of the revision of the same name that it grew from; 0 if
            it grew from none.
        tokens: The sum of all counts of the ledger, at most `MAX_TOKENS`: less than
            that, and each total is a count that a ledger may have.
        labels: Those that point to it, in the order they were given, with a zero
            byte between two.
        notes: Those on it, as JSON, or empty. The same of a name.
    """

    revision: int
    parent: int
    branch: int
    length: int
    ledger_branch: int
    ledger_length: int
    origin: int
    tokens: int
    saved_at: int
    digest: bytes
    labels: bytes
    notes: bytes
    seal: bytes = b""

    @classmethod
    def of(
        cls,
        *,
        key: int,
        parent: int,
        ends: tuple[LogEnd, LogEnd],
        origin: int,
        origin_digest: bytes,
        tokens: int,
        fields: RevisionFields = NO_FIELDS,
    ) -> Revision:
        """
        A new revision, saved now: the one place where all columns get their values.

        Args:
            key: ``name << 32 | number``.
            parent: The number of the revision that it grew from, or 0.
            ends: Where the state's entries end, and its ledger.
            origin: The number of the state's origin.
            origin_digest: The digest of that.
            tokens: The sum of all counts of its ledger.
            fields: What the caller of the save gave to it.
        """
        (branch, length, digest), (ledger_branch, ledger_length, ledger_digest) = ends
        # As a plain tuple: by name, and sealed afterwards, it takes twice as long.
        columns = (
            key,
            parent,
            branch,
            length,
            ledger_branch,
            ledger_length,
            origin,
            min(tokens, MAX_TOKENS),
            time_ns() // 1_000_000,
            digest_of(digest + ledger_digest + origin_digest),
            fields.label.encode(),
            fields.notes,
        )
        # What `_compute_seal` makes of them, in two thirds of the time.
        seal = digest_of(_REVISION_TEXT % columns)[:_SEAL_SIZE]
        return tuple.__new__(cls, (*columns, seal))

    def head(self, name: str, state_id: UUID) -> Head:
        """What users see of it: the one place where its columns are taken out."""
        # As a plain tuple: by name it takes four times as long.
        columns = (
            name,
            self.revision & _NUMBER,
            state_id,
            self.length,
            self.ledger_length,
            self.digest.hex(),
            split_labels(self.labels) if self.labels else (),
            # `time_of`, written out.
            datetime.fromtimestamp(self.saved_at / 1000, UTC),
            self.parent or None,
            unpack_notes(self.notes) if self.notes else EMPTY_MAP,
        )
        return tuple.__new__(Head, columns)

    def __str__(self) -> str:
        return f"revision {self.number}"

    @property
    def number(self) -> int:
        """The number of the save, counted from 1 on for each name."""
        return self.revision & _NUMBER

    @property
    def log_ends(self) -> tuple[tuple[LogTable, int, int], tuple[LogTable, int, int]]:
        """Of both logs: which one, the branch that it ends in, and its length."""
        return (
            (ENTRIES, self.branch, self.length),
            (LEDGER, self.ledger_branch, self.ledger_length),
        )


_REVISION_TEXT = b"(%d, %d, %d, %d, %d, %d, %d, %d, %d, %a, %a, %a)"


class TimelineRow(NamedTuple):
    """
    A row of ``timelines``: where the timeline of a name is, by the name's number.

    Attributes:
        oldest: The number of the oldest moment.
        length: How many moments there are.
        present: The number of the present one.
        max_moments: The most moments that are kept; 0 if all are.
        revision: The number of the revision that was the head when it was saved.
        saves: How often it was.
    """

    timeline: int
    oldest: int
    length: int
    present: int
    max_moments: int
    revision: int
    saves: int
    seal: bytes = b""


class MomentRow(NamedTuple):
    """
    A row of ``moments``: ``name << 32 | number``, the key of revisions and this one's
    own number in its timeline.

    Attributes:
        revision: The number of the revision that its state is.
        parent: One more than the number of the moment that it was committed on; 0
            for the first moment.
        redo: One more than the number of the moment to which redo goes, if that is
            not the next one; else 0.
        label: Its label.
        step_group: The group of its step, or empty.
        note: What a program keeps with the step, as the notes of a revision; or empty.
    """

    moment: int
    revision: int
    parent: int
    redo: int
    label: bytes
    step_group: bytes
    note: bytes
    seal: bytes = b""

    @property
    def number(self) -> int:
        """Its number in the timeline."""
        return self.moment & _NUMBER


class Label(NamedTuple):
    """
    A row of ``labels``: the one revision that a label points to, whose row has the
    label as well. See `label_key`.
    """

    label: bytes
    revision: int


class LabelMoveRow(NamedTuple):
    """
    A row of ``label_moves``: ``name << 32 | number``, counted from 1 on for each name.

    Attributes:
        label: The label.
        before: The number of the revision that it pointed to; 0 for none.
        after: That of the revision that it points to since; 0 if it was removed.
        moved_at: When.
    """

    move: int
    label: bytes
    before: int
    after: int
    moved_at: int
    seal: bytes = b""

    def __str__(self) -> str:
        return f"move {self.move & _NUMBER} of a label"


class Origin(NamedTuple):
    """
    A row of ``origins``, without its key: who a state is, and where it was
    forked.
    """

    state: bytes
    parent: bytes | None
    root: bytes
    init_len: int
    init_ledger_len: int

    @classmethod
    def of(cls, state: Aggregator) -> Origin:
        """That of a state."""
        own = state._origin
        parent = None if own.parent is None else own.parent.to_bytes(_ID_SIZE)
        return cls(
            own.number.to_bytes(_ID_SIZE),
            parent,
            own.root.to_bytes(_ID_SIZE),
            own.init_len,
            own.init_ledger_len,
        )

    @classmethod
    def of_row(cls, number: int, row: tuple[Any, ...] | None) -> Origin:
        """
        That of a row of the table, which should have that number.

        Raises:
            DamagedRow: If it is not what was written: then its key is another, or an
                identity has another length.
        """
        if row is None or row[0] is None:
            raise DamagedRow(f"the origin {number} is missing")

        origin = cls._make(row[1:])
        parent = origin.root if origin.parent is None else origin.parent
        try:
            first = origin.first_number()
            sizes = len(origin.state), len(origin.root), len(parent)
            is_whole = sizes == (_ID_SIZE,) * 3
            if is_whole and first <= number < first + MAX_SAME_NUMBER:
                return origin
        except UNREADABLE:
            pass  # a value of another type

        raise DamagedRow(f"the origin {number} is damaged")

    @property
    def state_id(self) -> UUID:
        """The state's id."""
        return UUID(bytes=self.state)

    def first_number(self) -> int:
        """The key it has in the table, or the next one that is free."""
        # Made of the digest, so that an origin is found by its key alone. Of 47 bits:
        # SQLite keeps integers of up to 48, one for the sign, in six bytes and larger
        # ones in eight.
        return int.from_bytes(self.digest()[:6]) >> 1

    def digest(self) -> bytes:
        """Equal for equal origins only."""
        forked = self.init_len.to_bytes(8) + self.init_ledger_len.to_bytes(8)
        # A parent has 16 bytes and none has 0, so it comes last.
        fields = self.state + self.root + forked + (self.parent or b"")
        return digest_of(fields)


class Branch(NamedTuple):
    """A row of ``branches``: where a branch starts. A branch of 0 is the empty log."""

    branch: int
    parent: int
    start: int


class Start(NamedTuple):
    """A row of ``starts``: the chain digest of a branch's first row."""

    digest: bytes
    branch: int


class Blob(NamedTuple):
    """A row of ``blobs``: large content by its digest."""

    digest: bytes
    size: int
    data: bytes


class Use(NamedTuple):
    """A row of ``uses``: the digests of large content that a place refers to."""

    place: int
    digests: bytes


class RecordRow(NamedTuple):
    """
    A row of ``records``: what hosts save with states, and up to where they need a
    branch of messages, with the digest of those.
    """

    key: bytes
    value: bytes
    branch: int
    length: int
    messages: bytes
    seal: bytes = b""

    def __str__(self) -> str:
        return f"the record {shorten_repr(self.key)}"


class Change(NamedTuple):
    """
    A row of ``changes``: a time at which existing rows changed, counted from 1 on.
    An entry was erased, or garbage collected and places came free (*entry* and
    *content* are empty then). Stores that remember rows forget them.
    """

    number: int
    entry: bytes
    content: bytes
    reason: str
    changed_at: int
    seal: bytes = b""


# Tables


class Column(NamedTuple):
    """A column: integers fit in 63 bits, texts are Unicode without U+0000."""

    name: str
    type: Literal["integer", "text", "bytes"]
    is_null: bool = False


class Table(NamedTuple):
    """
    A table: rows with a key each, ordered by it; texts as their UTF-8 bytes.

    A row is a tuple of its key and its *columns*, in that order. *indexed* is a column
    of bytes by which its rows are found, or "".
    """

    name: str
    key: Column
    columns: tuple[Column, ...]
    indexed: str = ""

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of all columns, that of the key first."""
        return (self.key.name, *[column.name for column in self.columns])


_TYPES: dict[Any, tuple[Any, ...]] = {
    int: ("integer",),
    str: ("text",),
    bytes: ("bytes",),
    bytes | None: ("bytes", True),
}


def _describe_table(
    name: str, row_class: Any, key: str = "", indexed: str = ""
) -> Table:
    """The table of a class of rows, which may have an integer *key* besides."""
    hints = {key: int} if key else {}
    hints |= get_type_hints(row_class)
    columns = [Column(column, *_TYPES[type]) for column, type in hints.items()]
    return Table(name, columns[0], tuple(columns[1:]), indexed)


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _describe_table("names", Name),
        _describe_table("revisions", Revision),
        _describe_table("labels", Label),
        _describe_table("label_moves", LabelMoveRow),
        _describe_table("timelines", TimelineRow),
        _describe_table("moments", MomentRow),
        _describe_table("origins", Origin, "origin"),
        _describe_table("branches", Branch),
        _describe_table("starts", Start),
        _describe_table("entries", LogRow, "place"),
        # A usage is recorded once for each key, so it is looked for before an append.
        _describe_table("ledger", LogRow, "place", "id"),
        _describe_table("blobs", Blob),
        _describe_table("uses", Use),
        _describe_table("records", RecordRow),
        _describe_table("changes", Change),
    )
}


def state_digest(entries: bytes, ledger: bytes, origin: bytes) -> bytes:
    """The digest of a state, of those of its logs and its origin."""
    return digest_of(entries + ledger + origin)
