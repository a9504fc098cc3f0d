"""
Verifying: whatever is not what it was when it was saved, each named once.

Every table is checked by itself, and against those that have to agree with
it: so what can't be read in one place hides no damage in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from conversation_state.store._load import check_content, decode_rows
from conversation_state.store._log import (
    ENTRIES,
    LEDGER,
    UNREADABLE,
    BlobReader,
    DamagedRow,
    LogRow,
    LogTable,
    blob_digest,
    checksum_of,
    digest_of,
    reading_rows,
    unpack_id,
)
from conversation_state.store._transaction import CachedBackend, Transaction
from conversation_state.store._values import (
    Damage,
    label_key,
    split_labels,
    time_of,
    unpack_notes,
)
from conversation_state.store.backend import DamageError, Row
from conversation_state.store.schema import (
    SHIFT,
    Branch,
    Change,
    Label,
    LabelMoveRow,
    MomentRow,
    Name,
    Origin,
    RecordRow,
    Revision,
    Start,
    TimelineRow,
    Use,
    is_sealed,
    key_range,
    state_digest,
)

# Under a branch or a name there is room for so many.
_MAX_POSITIONS = 1 << SHIFT
# The bits of a key that say where in its branch, or which of its name, a row is.
_POSITION = _MAX_POSITIONS - 1

Damages = Iterator[Damage]


def verify(cache: CachedBackend) -> tuple[Damage, ...]:
    damages = [Damage("medium", "", what) for what in cache.backend.problems()]
    for look in (
        _verify_blobs,
        partial(_verify_log, ENTRIES),
        partial(_verify_log, LEDGER),
        _verify_branches,
        _verify_origins,
        _verify_names,
        _verify_revisions,
        _verify_labels,
        _verify_label_moves,
        _verify_timelines,
        _verify_moments,
        _verify_changes,
        _verify_records,
    ):
        try:
            # One transaction each: a server takes no more statements in one that had
            # an error.
            with cache.read() as transaction, reading_rows():
                for damage in look(transaction):
                    damages.append(damage)  # noqa: PERF402 - kept if the next one raises
        except DamageError as error:
            # What is damaged hides no other damage. Any other error ends this: a
            # connection, a lock or a right is no damage.
            damages.append(Damage("medium", "", error.problem))

    return tuple(damages)


# What a row that no store wrote makes of reading it. Any other `StoreError` of a
# backend says nothing about what it keeps.
_DAMAGED = (DamagedRow, DamageError, *UNREADABLE)


def _verify_blobs(transaction: Transaction) -> Damages:
    rows = transaction.iterate_rows("blobs", ("digest", "size"))
    for digest, size in rows:
        (data,) = transaction.tables.get("blobs", digest, ("data",))
        if data.__class__ is not bytes or blob_digest(data) != digest:
            what = "the content is not what it is kept as"
            yield Damage("blobs", digest.hex(), what)
        elif size != len(data):
            yield Damage("blobs", digest.hex(), "the content has another size")


def _verify_log(table: LogTable, transaction: Transaction) -> Damages:
    branches = {
        row[0]: Branch._make(row) for row in transaction.iterate_rows("branches")
    }
    erased = {
        row[1] for row in transaction.iterate_rows("changes", ("number", "entry"))
    }
    branch = position = -1
    before: set[bytes] = set()  # the digests that may come before the next row
    uses: dict[int, bytes] = {}
    if table is ENTRIES:
        uses = dict(transaction.iterate_rows("uses", Use._fields))

    for place, *values in transaction.iterate_rows(
        table.table, ("place", *LogRow._fields)
    ):
        there = place >> SHIFT, place & _POSITION
        if there[0] != branch:
            branch = there[0]
            _, parent, start = branches.get(branch, Branch(branch, 0, -1))
            digest = (
                transaction.find_digest(table, parent, start) if start >= 0 else None
            )
            before = set() if digest is None else {digest}
            position = start - 1 if before else -2

        shown = str(there)
        digest = b""
        try:
            row = LogRow._make(values)
            id = unpack_id(row.id)
            shown = id.decode(errors="replace")
            digest, what = _check_row(
                *(table, row, before, BlobReader(transaction.tables)),
                uses=uses.pop(place, b""),
                is_erased=table is ENTRIES and id in erased,
            )
        except _DAMAGED as error:
            what = f"can't be read: {getattr(error, 'problem', error)}"

        if there[1] != position + 1:
            what = "what should be before it is not there"

        if what:
            yield Damage(table.table, shown, what)

        position = there[1]
        # One damaged row is one damage, and not one for each that comes after.
        before = {digest, values[3]} - {b""}

    for place in uses:
        what = "large content is kept for a message that is not there"
        yield Damage("entries", str((place >> SHIFT, place & _POSITION)), what)


def _check_row(
    table: LogTable,
    row: LogRow,
    before: set[bytes],
    blobs: BlobReader,
    *,
    uses: bytes,
    is_erased: bool,
) -> tuple[bytes, str]:
    """The digest of all up to a row, as far as it is known, and what is wrong."""
    id, body, there, _, checksum = row
    (raw,), (item,) = decode_rows(table, [id], [body], blobs)
    content, what = check_content(table, row, item, blobs)
    checksums = {checksum_of(each, id, body, there) for each in before}
    digests = {digest_of(each + content) for each in before}
    used = dict.fromkeys([d for _, d in raw[1]]) if raw.__class__ is list else ()
    if what:
        pass
    elif row.digest not in digests:
        what = "the digest is not that of what is there"
    elif checksum not in checksums:
        what = "the checksum is not that of what is there"
    elif is_erased and row.content is None:
        what = "was erased, and is there again"
    elif uses != bytes.fromhex("".join(used)):
        what = "the large content it shows is not kept for it"

    return next(iter(digests), b""), what


# Of each table whose rows are looked at one by one: how a row is made, and what is
# shown of it, with the name that it belongs to.
_ROWS: dict[str, tuple[Callable[[Row], Any], Callable[[Any, str], str]]] = {
    "branches": (Branch._make, lambda row, _: f"branch {row.branch}"),
    "origins": (tuple, lambda row, _: f"origin {row[0]}"),
    "names": (Name._make, lambda row, _: f"{row.name}"),
    "revisions": (Revision._make, lambda row, name: f"revision {row.number} of {name}"),
    "labels": (Label._make, lambda row, _: row.label[8:].decode(errors="replace")),
    "label_moves": (LabelMoveRow._make, lambda row, _: row.label.decode()),
    "timelines": (TimelineRow._make, lambda _, name: name),
    "moments": (MomentRow._make, lambda row, name: f"moment {row.number} of {name}"),
    "changes": (
        Change._make,
        lambda row, _: row.entry.decode(errors="replace") or f"change {row.number}",
    ),
    "records": (RecordRow._make, lambda row, _: repr(row.key)),
}


def _check_each(
    transaction: Transaction, table: str, find_problem: Callable[[Any], str]
) -> Damages:
    """
    The damages of a table whose rows are looked at one by one: the seal of each, if it
    has one, and then what *find_problem* looks at.
    """
    make, show = _ROWS[table]
    names = _read_names(transaction)
    for values in transaction.iterate_rows(table):
        row = make(values)
        try:
            is_whole = not hasattr(row, "seal") or is_sealed(row)
            what = find_problem(row) if is_whole else "is not what was written"
        except _DAMAGED as error:
            what = getattr(error, "problem", f"can't be read: {error}")

        if what:
            key = values[0]
            if isinstance(key, int):
                key = key if table == "timelines" else key >> SHIFT

            try:
                yield Damage(table, show(row, repr(names.get(key))), what)
            except _DAMAGED:
                yield Damage(table, repr(values[0]), what)


def _verify_branches(transaction: Transaction) -> Damages:
    rows = transaction.iterate_rows("starts", Start._fields)
    starts = {branch: digest for digest, branch in rows}
    known = {row[0] for row in transaction.iterate_rows("branches", ("branch",))}

    def find_problem(row: Branch) -> str:
        branch, parent, start = row
        first = starts.pop(branch, None)
        if not 0 <= parent < branch or not 0 <= start < _MAX_POSITIONS:
            return "begins where nothing can"

        # A branch begins at the end of nothing, or in another one.
        if bool(parent) != bool(start) or (parent and parent not in known):
            return "what it begins in is not there"

        find = transaction.find_digest
        digests = {find(table, branch, start + 1) for table in (ENTRIES, LEDGER)} - {
            None
        }
        if len(digests) != 1:
            return "its first row is not there"

        return "" if first in digests else "it can't be found by its first row"

    yield from _check_each(transaction, "branches", find_problem)
    for branch in starts:
        what = "there is a beginning of it, and nothing else"
        yield Damage("branches", f"branch {branch}", what)


def _verify_origins(transaction: Transaction) -> Damages:
    numbers = set()

    def find_problem(row: Row) -> str:
        numbers.add(row[0])
        try:
            first = Origin.of_row(row[0], row).first_number()
        except DamagedRow:
            return "describes another state than the one it was written for"

        # Those that would have one number have numbers that follow each other.
        if numbers.issuperset(range(first, row[0])):
            return ""

        return "describes another state than the one it was written for"

    yield from _check_each(transaction, "origins", find_problem)


# Names


def _read_names(transaction: Transaction) -> dict[int, str]:
    rows = transaction.iterate_rows("names", ("name", "number"))
    return {number: name for name, number in rows}


def _verify_names(transaction: Transaction) -> Damages:
    rows = transaction.iterate_rows("revisions", ("revision",))
    counted = Counter([number >> SHIFT for (number,) in rows])

    def find_problem(name: Name) -> str:
        unpack_notes(name.notes)
        last = transaction.find_newest_row(name.number)
        if last is None:
            return "has no revisions"

        if last[0] != (name.number << SHIFT) + counted[name.number]:
            return "some of its revisions are missing"

        row = transaction.tables.get("timelines", name.number, ("timeline",))
        return (
            "" if name.is_timeline == (row is not None) else "its timeline is missing"
        )

    yield from _check_each(transaction, "names", find_problem)


def _verify_revisions(transaction: Transaction) -> Damages:
    names = _read_names(transaction)
    targets: dict[bytes, int] = dict(transaction.iterate_rows("labels", Label._fields))

    def find_problem(revision: Revision) -> str:
        if revision.revision >> SHIFT not in names:
            return "has no name"

        what = _describe_revision_damage(transaction, revision)
        for label in () if what else split_labels(revision.labels):
            key = label_key(revision.revision >> SHIFT, label)
            if targets.get(key) != revision.revision:
                return f"the label {label!r}, which it was given, does not point to it"

        return what

    yield from _check_each(transaction, "revisions", find_problem)


def _describe_revision_damage(transaction: Transaction, revision: Revision) -> str:
    if not 0 <= revision.parent < revision.number:
        return "is not what was written"

    for _, branch, length in revision.log_ends:
        if not 0 <= length <= _MAX_POSITIONS or bool(branch) != bool(length):
            return "has a length that nothing has"

    entries, ledger = (transaction.find_digest(*end) for end in revision.log_ends)
    if entries is None or ledger is None:
        return "its newest rows are missing"

    origin = transaction.get_origin(revision.origin)
    if state_digest(entries, ledger, origin.digest()) != revision.digest:
        return "leads to another state than was saved"

    time_of(revision.saved_at)
    unpack_notes(revision.notes)
    return ""


def _verify_labels(transaction: Transaction) -> Damages:
    def find_problem(row: Label) -> str:
        key, place = row
        found = transaction.tables.get("revisions", place, ("labels",))
        if found is not None and any(
            label_key(place >> SHIFT, label) == key for label in split_labels(found[0])
        ):
            return ""

        return "points to a revision that was not given it"

    yield from _check_each(transaction, "labels", find_problem)


def _verify_label_moves(transaction: Transaction) -> Damages:
    names = _read_names(transaction)
    # Where each label points after the moves so far, and the key of the last one.
    targets: dict[bytes, int] = {}
    last = 0

    def find_problem(row: LabelMoveRow) -> str:
        nonlocal last
        name, before = row.move >> SHIFT, last
        last = row.move
        if name not in names:
            return "has no name"

        key = name.to_bytes(8) + row.label
        is_next = row.move & _POSITION == 1 or row.move == before + 1
        is_next = is_next and targets.get(key, 0) == row.before
        targets[key] = row.after
        return "" if is_next else "what should be before it is not there"

    yield from _check_each(transaction, "label_moves", find_problem)
    labels = {
        key: revision & _POSITION
        for key, revision in transaction.iterate_rows("labels", Label._fields)
    }
    for key in labels.keys() | targets.keys():
        if labels.get(key, 0) != targets.get(key, 0):
            label = key[8:].decode(errors="replace")
            yield Damage("label_moves", label, "its newest move is not there")


def _verify_timelines(transaction: Transaction) -> Damages:
    tx = transaction.tables
    names = _read_names(transaction)

    def find_problem(row: TimelineRow) -> str:
        low, high = key_range(row.timeline)
        if row.timeline not in names or tx.get("revisions", low + row.revision) is None:
            return "has no name, or no head"

        moments = transaction.iterate_rows("moments", ("moment",), low=low, high=high)
        there = range(row.oldest, row.oldest + row.length)
        if [moment - low for (moment,) in moments] != [*there]:
            return "some of its moments are missing, or too many"

        return "" if row.present in there else "is at no moment"

    yield from _check_each(transaction, "timelines", find_problem)


def _verify_moments(transaction: Transaction) -> Damages:
    tx = transaction.tables

    def find_problem(row: MomentRow) -> str:
        if not 0 <= row.parent <= row.number:
            return "is not what was written"

        name = row.moment >> SHIFT
        if tx.get("timelines", name) is None:
            return "is of no timeline"

        there = tx.get("revisions", (name << SHIFT) + row.revision)
        return "" if there is not None else "its state is missing"

    yield from _check_each(transaction, "moments", find_problem)


def _verify_changes(transaction: Transaction) -> Damages:
    there = {n for (n,) in transaction.iterate_rows("changes", ("number",))}

    def find_problem(row: Change) -> str:
        is_next = row.number == 1 or row.number - 1 in there
        return "" if is_next else "what should be before it is not there"

    yield from _check_each(transaction, "changes", find_problem)


def _verify_records(transaction: Transaction) -> Damages:
    def find_problem(record: RecordRow) -> str:
        branch, length, messages = record.branch, record.length, record.messages
        if not branch and not length and not messages:
            return ""

        find = transaction.find_digest
        there = [find(table, branch, length) for table in (ENTRIES, LEDGER)]
        return "" if messages in there else "what it holds on to is another, or gone"

    yield from _check_each(transaction, "records", find_problem)
