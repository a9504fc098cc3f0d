"""
Verifying: whatever is not what it was when it was saved, each named once.

Every table is looked at by itself, and beside those that have to agree with
it: so what can't be read in one place hides no damage in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

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


def _verify_branches(_core: Core, tx: Reading) -> Found:
    starts = {branch: digest for digest, branch in all_rows(tx, "starts")}
    known = {row[0]: row[1:] for row in all_rows(tx, "branches")}
    for branch, (parent, start) in known.items():
        shown = f"branch {branch}"
        if not 0 <= parent < branch or not 0 <= start < _ROOM:
            yield Damage("branches", shown, "begins where nothing can")
            continue

        # A branch begins at the end of nothing, or in another one.
        if bool(parent) != bool(start) or (parent and parent not in known):
            yield Damage("branches", shown, "what it begins in is not there")

        digests = [digest_at(tx, kind, branch, start + 1) for kind in (ENTRIES, LEDGER)]
        first = starts.pop(branch, None)
        if digests.count(None) != 1:
            yield Damage("branches", shown, "its first row is not there")
        elif first not in digests:
            yield Damage("branches", shown, "it can't be found by its first row")

    for branch in starts:
        what = "there is a beginning of it, and nothing else"
        yield Damage("branches", f"branch {branch}", what)


def _verify_origins(_core: Core, tx: Reading) -> Found:
    numbers = set()
    for number, *values in all_rows(tx, "origins"):
        numbers.add(number)
        origin = Origin._make(values)
        first = origin.first_number()
        # Those that would have one number have numbers that follow each other.
        if not first <= number or not numbers.issuperset(range(first, number)):
            what = "tells another state than it was kept for"
            yield Damage("origins", f"origin {number}", what)


# Names


def _verify_names(_core: Core, tx: Reading) -> Found:
    counted = Counter(
        [number >> SHIFT for (number,) in all_rows(tx, "revisions", ("revision",))]
    )
    for name, number, digest in all_rows(tx, "names"):
        if name_digest(name, number) != digest:
            yield Damage("names", name, "is not what something was saved under")

        if not counted[number]:
            yield Damage("names", name, "has no revisions")
            continue

        last = tx.scan(
            "revisions",
            number << SHIFT,
            (number + 1) << SHIFT,
            columns=("revision",),
            limit=1,
            backwards=True,
        )
        if last[0][0] & (_ROOM - 1) != counted[number]:
            yield Damage("names", name, "some of its revisions are missing")


def _verify_revisions(core: Core, tx: Reading) -> Found:
    names = {number: name for name, number, _ in all_rows(tx, "names")}
    for row in all_rows(tx, "revisions"):
        revision = Revision._make(row)
        name = names.get(revision.revision >> SHIFT)
        shown = f"revision {revision.number} of {name!r}"
        if name is None:
            yield Damage("revisions", shown, "has no name")

        try:
            what = _wrong_in(core, tx, revision)
        except UNREADABLE as error:
            what = getattr(error, "problem", f"can't be read: {error}")

        if what:
            yield Damage("revisions", shown, what)


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
    for key, place in all_rows(tx, "labels"):
        number = int.from_bytes(key[:8])
        row = tx.get("revisions", place, ("label",))
        wrong = place >> SHIFT != number or row is None
        if wrong or row is None or label_key(number, row[0]) != key:
            yield Damage(
                *("labels", key[8:].decode(errors="replace")),
                "is of another revision than it was given to",
            )


def _verify_changes(_core: Core, tx: Reading) -> Found:
    before = 0
    for number, entry, content, reason, at in all_rows(tx, "changes"):
        shown = entry.decode(errors="replace") or f"change {number}"
        if number != before + 1:
            yield Damage("changes", shown, "what should be before it is not there")

        before = number
        if content[-DIGEST_SIZE:] != change_seal(number, entry, content, reason, at):
            yield Damage("changes", shown, "what was erased, or why, is another")
