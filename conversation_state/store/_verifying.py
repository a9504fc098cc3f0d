"""
Verifying: whatever is not what it was when it was saved, each named once.

Every table is looked at by itself, and beside those that have to agree with
it: so what can't be read in one place hides no damage in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from conversation_state._canonical import load
from conversation_state.errors import StoreError
from conversation_state.store._blobs import Shown, blob_digest
from conversation_state.store._core import Core, label_key, name_digest
from conversation_state.store._restoring import blob_of, content_of, read_rows
from conversation_state.store._rows import (
    SHIFT,
    UNREADABLE,
    Origin,
    Revision,
    all_rows,
    change_seal,
    digest_at,
    record_digest,
    state_digest,
    time_of,
    unpacked,
)
from conversation_state.store._values import Damage
from conversation_state.store.backend import Reading
from conversation_state.store.log import (
    DIGEST_SIZE,
    ENTRIES,
    LEDGER,
    Kind,
    Placed,
    chained,
)

__all__ = ["verify"]

# Under a branch or a name there is room for so many.
_ROOM = 1 << SHIFT
# More origins than this never have one number.
_MOST = 1000

Found = Iterator[Damage]


def verify(core: Core) -> tuple[Damage, ...]:
    """
    What `Store.verify` does.
    """
    damages = [Damage("medium", "", what) for what in core.backend.problems()]
    for look in (
        _verify_blobs,
        partial(_verify_log, ENTRIES),
        partial(_verify_log, LEDGER),
        _verify_branches,
        _verify_origins,
        _verify_names,
        _verify_revisions,
        _verify_labels,
        _verify_changes,
        _verify_records,
    ):
        try:
            with core.reading() as tx:
                damages.extend(look(core, tx))
        except StoreError as error:
            # What can't be read hides no other damage.
            damages.append(Damage("medium", "", error.problem))

    return tuple(damages)


def _verify_blobs(core: Core, tx: Reading) -> Found:
    for digest, size in all_rows(tx, "blobs", ("digest", "size")):
        data = blob_of(tx, core.url, digest)
        if data.__class__ is not bytes or blob_digest(data) != digest:
            what = "the content is not what it is kept as"
            yield Damage("blobs", digest.hex(), what)
        elif size != len(data):
            yield Damage("blobs", digest.hex(), "the content has another size")


# Logs


def _verify_log(kind: Kind, core: Core, tx: Reading) -> Found:
    branches = {row[0]: row[1:] for row in all_rows(tx, "branches")}
    erased = {row[1] for row in all_rows(tx, "changes", ("number", "entry"))}
    branch = position = -1
    before: set[bytes] = set()  # the digests that may come before the next row
    uses: dict[int, bytes] = {}
    if kind is ENTRIES:
        uses = dict(all_rows(tx, "uses"))

    for place, *values in all_rows(tx, kind.table):
        there = place >> SHIFT, place & (_ROOM - 1)
        if there[0] != branch:
            branch = there[0]
            parent, start = branches.get(branch, (0, -1))
            digest = digest_at(tx, kind, parent, start) if start >= 0 else None
            before = set() if digest is None else {digest}
            position = start - 1

        shown = str(there)
        digest = b""
        try:
            row = Placed(unpacked(values[0]), *values[1:])
            shown = row.id.decode(errors="replace")
            digest, what = _looked_at(
                *(kind, row, before, Shown(partial(blob_of, tx, core.url))),
                uses=uses.pop(place, b""),
                is_erased=kind is ENTRIES and row.id in erased,
            )
        except UNREADABLE as error:
            what = f"can't be read: {getattr(error, 'problem', error)}"

        if there[1] != position + 1:
            what = "what should be before it is not there"

        if what:
            yield Damage(kind.table, shown, what)

        position = there[1]
        # One damaged row is one damage, and not one for each that comes after.
        before = {digest, values[-1]} - {b""}

    for place in uses:
        what = "large content is kept for a message that is not there"
        yield Damage("entries", str((place >> SHIFT, place & (_ROOM - 1))), what)


def _looked_at(
    kind: Kind,
    row: Placed,
    before: set[bytes],
    shown: Shown,
    *,
    uses: bytes,
    is_erased: bool,
) -> tuple[bytes, str]:
    """
    The digest of all up to a row, as far as it can be told, and what is wrong.
    """
    (item,) = read_rows(kind, [row], shown)
    content, what = content_of(kind, row, item, shown)
    digests = {chained(each, content) for each in before}
    raw = load(row.body)
    used = dict.fromkeys([d for _, d in raw[1]]) if raw.__class__ is list else ()
    if what:
        pass
    elif row.digest not in digests:
        what = "the digest is not that of what is there"
    elif is_erased and row.content is None:
        what = "was erased, and is there again"
    elif uses != bytes.fromhex("".join(used)):
        what = "the large content it shows is not kept for it"

    return next(iter(digests), b""), what


# What logs are held together by


def _each(
    where: str,
    rows: Iterable[tuple[Any, ...]],
    shown: Callable[[tuple[Any, ...]], str],
    problem: Callable[[tuple[Any, ...]], str],
) -> Found:
    """
    The damages of rows that are looked at one by one.
    """
    for row in rows:
        try:
            what = problem(row)
        except UNREADABLE as error:
            what = getattr(error, "problem", f"can't be read: {error}")

        if what:
            try:
                yield Damage(where, shown(row), what)
            except UNREADABLE:
                yield Damage(where, repr(row[0]), what)


def _verify_branches(_core: Core, tx: Reading) -> Found:
    starts = {branch: digest for digest, branch in all_rows(tx, "starts")}
    known = {row[0] for row in all_rows(tx, "branches", ("branch",))}

    def problem(row: tuple[Any, ...]) -> str:
        branch, parent, start = row
        first = starts.pop(branch, None)
        if not 0 <= parent < branch or not 0 <= start < _ROOM:
            return "begins where nothing can"

        # A branch begins at the end of nothing, or in another one.
        if bool(parent) != bool(start) or (parent and parent not in known):
            return "what it begins in is not there"

        digests = {digest_at(tx, kind, branch, start + 1) for kind in (ENTRIES, LEDGER)}
        digests.discard(None)
        if len(digests) != 1:
            return "its first row is not there"

        return "" if first in digests else "it can't be found by its first row"

    rows = all_rows(tx, "branches")
    yield from _each("branches", rows, lambda row: f"branch {row[0]}", problem)
    for branch in starts:
        what = "there is a beginning of it, and nothing else"
        yield Damage("branches", f"branch {branch}", what)


def _verify_origins(_core: Core, tx: Reading) -> Found:
    numbers = set()

    def problem(row: tuple[Any, ...]) -> str:
        number, *values = row
        numbers.add(number)
        first = Origin._make(values).first_number()
        # Those that would have one number have numbers that follow each other.
        if first <= number < first + _MOST and numbers.issuperset(range(first, number)):
            return ""

        return "tells another state than it was kept for"

    rows = all_rows(tx, "origins")
    yield from _each("origins", rows, lambda row: f"origin {row[0]}", problem)


# Names


def _verify_names(_core: Core, tx: Reading) -> Found:
    counted = Counter(
        [number >> SHIFT for (number,) in all_rows(tx, "revisions", ("revision",))]
    )

    def problem(row: tuple[Any, ...]) -> str:
        name, number, digest = row
        if name_digest(name, number) != digest:
            return "is not what something was saved under"

        low, high = number << SHIFT, (number + 1) << SHIFT
        column = ("revision",)
        last = tx.scan("revisions", low, high, columns=column, limit=1, backwards=True)
        if not last:
            return "has no revisions"

        whole = last[0][0] == low + counted[number]
        return "" if whole else "some of its revisions are missing"

    yield from _each("names", all_rows(tx, "names"), lambda row: str(row[0]), problem)


def _verify_revisions(core: Core, tx: Reading) -> Found:
    names = {number: name for name, number, _ in all_rows(tx, "names")}

    def shown(row: tuple[Any, ...]) -> str:
        revision = Revision._make(row)
        return f"revision {revision.number} of {names.get(row[0] >> SHIFT)!r}"

    def problem(row: tuple[Any, ...]) -> str:
        if row[0] >> SHIFT not in names:
            return "has no name"

        return _wrong_in(core, tx, Revision._make(row))

    yield from _each("revisions", all_rows(tx, "revisions"), shown, problem)


def _wrong_in(core: Core, tx: Reading, revision: Revision) -> str:
    for branch, length in (
        (revision.branch, revision.length),
        (revision.ledger_branch, revision.ledger_length),
    ):
        if not 0 <= length <= _ROOM or bool(branch) != bool(length):
            return "has a length that nothing has"

    told = digest_at(tx, ENTRIES, revision.branch, revision.length)
    paid = digest_at(tx, LEDGER, revision.ledger_branch, revision.ledger_length)
    if told is None or paid is None:
        return "its newest rows are missing"

    origin = core.origin(tx, revision.origin)
    if state_digest(told, paid, origin.digest()) != revision.digest:
        return "leads to another state than was saved"

    time_of(revision.saved_at)
    if revision.label.__class__ is not str:
        return "has a label that is no text"

    return ""


def _verify_labels(_core: Core, tx: Reading) -> Found:
    def problem(row: tuple[Any, ...]) -> str:
        key, place = row
        found = tx.get("revisions", place, ("label",))
        if found is not None and label_key(place >> SHIFT, found[0]) == key:
            return ""

        return "is of another revision than it was given to"

    def shown(row: tuple[Any, ...]) -> str:
        return str(row[0][8:].decode(errors="replace"))

    yield from _each("labels", all_rows(tx, "labels"), shown, problem)


def _verify_changes(_core: Core, tx: Reading) -> Found:
    last = 0

    def problem(row: tuple[Any, ...]) -> str:
        nonlocal last
        before, last = last, row[0]
        if row[0] != before + 1:
            return "what should be before it is not there"

        if row[2][-DIGEST_SIZE:] == change_seal(*row):
            return ""

        return "what was erased, or why, is another"

    def shown(row: tuple[Any, ...]) -> str:
        return row[1].decode(errors="replace") or f"change {row[0]}"

    yield from _each("changes", all_rows(tx, "changes"), shown, problem)


def _verify_records(_core: Core, tx: Reading) -> Found:
    def problem(row: tuple[Any, ...]) -> str:
        key, value, branch, length, digest = row
        messages = digest[DIGEST_SIZE:]
        if record_digest(key, value, branch, length, messages) != digest:
            return "is not what was written"

        if not branch and not length and not messages:
            return ""

        there = [digest_at(tx, kind, branch, length) for kind in (ENTRIES, LEDGER)]
        return "" if messages in there else "what it holds on to is another, or gone"

    yield from _each(
        "records", all_rows(tx, "records"), lambda row: repr(row[0]), problem
    )
