"""
Saving: what is new is written, and nothing that others saved is lost.

The fast path is for a state that grew from the head as it was seen last: its new rows
and a revision are added, on condition that the head is still that one, and nothing is
read. Otherwise the tables are read first, in the transaction that writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.errors import StaleHeadError, StoreError
from conversation_state.messages import find_erasure, make_tombstone
from conversation_state.store._labels import add_label, point_label, set_columns
from conversation_state.store._load import load_message_tree, load_newest, read_segments
from conversation_state.store._log import (
    ENTRIES,
    LARGE,
    LEDGER,
    DamagedRow,
    LogEnd,
    LogTable,
    Segment,
    Segments,
    checksum_of,
    cut_segments,
    digest_of,
    extend_segments,
    extract_blobs,
    pack_id,
    reading_rows,
    tombstone_digest,
)
from conversation_state.store._transaction import (
    PAGE,
    CachedBackend,
    RememberedHead,
    Transaction,
)
from conversation_state.store._values import (
    NO_FIELDS,
    Head,
    RevisionFields,
    check_state,
    is_expected,
    sum_counts,
)
from conversation_state.store.backend import Row
from conversation_state.store.schema import (
    SHIFT,
    Blob,
    Branch,
    Name,
    Origin,
    Revision,
    Start,
    Use,
    is_sealed,
    key_range,
    sealed,
    state_digest,
)
from conversation_state.tree import MessageTree

_NOTHING: Mapping[bytes, str] = {}

_OTHER_ROOT = (
    "That is another conversation, with another root, as two programs begin that "
    "both found nothing under the name. To keep both, join yours into it: "
    "store.update(name, lambda saved: saved.join(state)); to begin a name, "
    "store.update(name, function, start=Aggregator.new()) never meets this. Or save "
    "yours under another name; or pass the head as expecting= to replace it"
)


def prepare_digests(cache: CachedBackend, state: Aggregator) -> None:
    """Compute those of a new state before others have to wait for its transaction."""
    if _find_nearest(cache.recall_all(cache.changes), state) is None:
        ENTRIES.digest(state.entries)
        LEDGER.digest(state.ledger)


def save_all(
    cache: CachedBackend,
    states: Mapping[str, Aggregator | MessageTree],
    expecting: Mapping[str, Head | int],
    finish: Callable[[Transaction], object],
) -> dict[str, Head]:
    """The heads of *states*, saved in one transaction, in which *finish* comes last."""
    for name in expecting:
        if name not in states:
            raise ValueError(
                f"expecting has {shorten_repr(name)}, but states has no state of that "
                "name"
            )

    for name, state in states.items():
        shown = state.shown if isinstance(state, MessageTree) else state
        check_state(name, shown, expecting.get(name))

    def save_each(transaction: Transaction) -> dict[str, Head]:
        # All such saves take the names in the same order, so that one of two waits for
        # the other instead of a deadlock.
        heads = {}
        for name in sorted(states):
            state, expected = states[name], expecting.get(name)
            if isinstance(state, MessageTree):
                heads[name] = save_tree(transaction, name, state, expected)
            else:
                heads[name] = save_within(transaction, name, state, expected)

        finish(transaction)
        return heads

    heads = cache.write(save_each) if states else {}
    return {name: heads[name] for name in states}


def save_within(
    transaction: Transaction,
    name: str,
    state: Aggregator,
    expecting: Head | int | None,
    fields: RevisionFields = NO_FIELDS,
    *,
    is_timeline: bool = False,
) -> Head:
    """The head that *state* is, saved under *name*."""
    # Not caught up before: `_save_next` is a conflict where rows changed meanwhile.
    known = transaction.recall(name)
    if (
        known is not None
        and known.name.is_timeline == is_timeline
        and (expecting is None or is_expected(known.head, expecting))
    ):
        head = _save_next(transaction, known, state, fields)
        if head is not None:
            return head

    return _save_checked(
        transaction, name, state, expecting, fields, is_timeline=is_timeline
    )


def save_at_once(
    cache: CachedBackend,
    remembered: tuple[int, RememberedHead],
    state: Aggregator,
    expecting: Head | int | None,
    fields: RevisionFields,
) -> Head | None:
    """
    Save a state that grew from a head as it is *remembered*, in one call of the
    backend; None if nothing was saved, and `save_within` has to look.
    """
    changes, known = remembered
    if (
        changes != cache.changes
        or known.name.is_timeline
        or fields.label
        or cache.add_at_once is None
        or (expecting is not None and not is_expected(known.head, expecting))
    ):
        return None

    grown = _make_grown_head(cache, known, state, fields)
    if grown is None:
        return None

    new, rows, blobs = grown
    # One that is there already is a conflict.
    if blobs:
        rows["blobs"] = [Blob(key, len(data), data) for key, data in blobs.items()]

    keys = known.revision.revision, changes + 1
    if not cache.add_at_once(_IS_HEAD, keys, rows):
        return None

    # See `Transaction.__exit__`.
    heads, name = cache.heads, known.name.name
    heads.pop(name, None)
    if changes == cache.changes:
        heads[name] = changes, new

    return new.head


# The head is still the one that is known, whose number comes before that of the new
# revision, and no existing row was changed since.
_IS_HEAD = ("revisions",), ("changes",)


def _save_next(
    transaction: Transaction,
    known: RememberedHead,
    state: Aggregator,
    fields: RevisionFields,
) -> Head | None:
    """`save_at_once` in a transaction that does more; a conflict if rows changed."""
    grown = _make_grown_head(transaction.cache, known, state, fields)
    if grown is None:
        return None

    remembered, rows, blobs = grown
    tables = transaction.tables
    tables.add(
        "revisions",
        rows.pop("revisions"),
        if_exists=(("revisions", known.revision.revision),),
        if_absent=(("changes", transaction.changes + 1),),
    )
    add_blobs(transaction, blobs)
    for table, added in rows.items():
        tables.add(table, added)

    if fields.label:
        point_label(transaction, fields.label, remembered.revision.revision)

    transaction.learned[known.name.name] = remembered
    return remembered.head


def _make_grown_head(
    cache: CachedBackend,
    known: RememberedHead,
    state: Aggregator,
    fields: RevisionFields,
) -> tuple[RememberedHead, dict[str, Sequence[Row]], dict[bytes, bytes]] | None:
    """
    A state that grew from the head that is known, as a head; the rows that are new, by
    table; and large content that those refer to. None if it did not grow, or if the
    tables have to be read for it.
    """
    before, old = known.state, known.revision
    # Where the note of an erasure is damaged, the slow path raises.
    if before._origin != state._origin or cache.is_erasure_lost:
        return None

    entries, ledger = known.ends
    segments, ledger_segments = known.segments
    tokens = old.tokens
    blobs: dict[bytes, bytes] = {}
    rows: dict[str, Sequence[Row]] = {}
    # If another name has continued the same branch since, these places are taken: the
    # insert is a conflict, and the slow path begins a branch.
    if state._log is not before._log:
        items = state._log.list_new(before._log) if entries.length else None
        # The slow path begins a missing branch, and writes tombstones in
        # place of what was erased.
        if items is None or (
            cache.erased and any(item.id.encode() in cache.erased for item in items)
        ):
            return None

        if items:
            rows["entries"], entries, uses, blobs = make_rows(ENTRIES, entries, items)
            if uses:
                rows["uses"] = uses

            last = Segment(entries.branch, segments[-1].start, entries.length)
            segments = (*segments[:-1], last)

    if state._ledger is not before._ledger:
        log = state._ledger.entries
        usages = log.list_new(before._ledger.entries) if ledger.length else None
        if usages is None:
            return None

        if usages:
            rows["ledger"], ledger, _, _ = make_rows(LEDGER, ledger, usages)
            tokens = sum_counts(state.total_usage)
            last = Segment(ledger.branch, ledger_segments[-1].start, ledger.length)
            ledger_segments = (*ledger_segments[:-1], last)

    # The state is the head itself: the slow path adds a label or notes to the head's
    # revision, and makes no new one.
    if not rows:
        return None

    revision = Revision.of(
        key=old.revision + 1,
        parent=known.head.revision if fields.parent < 0 else fields.parent,
        ends=(entries, ledger),
        origin=old.origin,
        origin_digest=known.origin,
        tokens=tokens,
        fields=fields,
    )
    rows["revisions"] = (revision,)
    columns = (
        known.name,
        revision,
        revision.head(known.name.name, known.head.state_id),
        state,
        (segments, ledger_segments),
        (entries, ledger),
        known.origin,
        None,
    )
    return tuple.__new__(RememberedHead, columns), rows, blobs


def save_tree(
    transaction: Transaction, text: str, tree: MessageTree, expecting: Head | int | None
) -> Head:
    transaction.catch_up()
    name, _, head = transaction.find_head(text, expecting)
    states = [*tree.states, tree.present]
    last, shown = tree.states[-1], tree.present
    common = shown.entries.common_prefix(last.entries)
    if common == len(last) and len(shown.ledger) >= len(last.ledger):
        del states[-2]  # what is shown has all of it

    if name is not None and head is not None:
        check_kind(transaction, name, is_timeline=False)
        saved = load_message_tree(transaction, text)
        if expecting is None:
            grown = tree.add(saved.shown)
            # The ledger of what is saved may have what the tree's lacks.
            ledgers = grown.present.ledger, tree.present.ledger
            if len(grown) != len(tree) or len(ledgers[0]) != len(ledgers[1]):
                advice = (
                    "The tree lacks messages of it: load it with message_tree() and "
                    "add() your states; or pass the head as expecting= to replace it"
                )
                raise StaleHeadError(transaction.url, text, None, head, advice)

        # What brings nothing new is there already; the head is the last in any case.
        new = []
        for state in tree.states:
            grown = saved.add(state)
            if len(grown) > len(saved):
                new.append(state)

            saved = grown

        states = [*new, tree.present]

    for state in states:
        head = save_within(transaction, text, state, 0 if head is None else head)

    assert head is not None  # noqa: S101 - there is a state at least
    return head


# Any other state


def _save_checked(
    transaction: Transaction,
    text: str,
    state: Aggregator,
    expecting: Head | int | None,
    fields: RevisionFields,
    *,
    is_timeline: bool,
) -> Head:
    transaction.catch_up()
    cache, tables = transaction.cache, transaction.tables
    if cache.is_erasure_lost:
        what = "nothing was saved: the note of an erasure is damaged or missing"
        raise DamagedRow(what)

    name, old, head = transaction.find_head(text, expecting)
    entries, ledger = (
        LogToWrite(ENTRIES, state.entries),
        LogToWrite(LEDGER, state.ledger),
    )
    nearest = _find_nearest(_recall_all(transaction, text), state)
    if nearest is not None:
        _find_common_start(transaction, entries, nearest)
        _find_common_start(transaction, ledger, nearest)

    origin, grew = Origin.of(state), False
    if name is not None and old is not None and head is not None:
        check_kind(transaction, name, is_timeline=is_timeline)
        grew, has_all = _contains_past(transaction, old, entries, ledger)
        if expecting is None and not has_all:
            _check_contained(transaction, old, head, origin, (entries, ledger))
            grew = True

        digest = state_digest(
            entries.digest_at(len(state.entries)),
            ledger.digest_at(len(state.ledger)),
            origin.digest(),
        )
        # A moment is a revision of its own, also with the state of the one before.
        if digest == old.digest and not is_timeline:
            return _add_fields(transaction, name, old, head, fields)

        if grew and not entries.segments:
            # Fewer reads than to find each branch by its first row.
            entries.segments = read_segments(transaction, old.branch, old.length)

    if name is None:
        name = sealed(Name(text, tables.new_number(), int(is_timeline)))
        tables.add("names", [name])

    ends = write_log(transaction, entries), write_log(transaction, ledger)
    number = add_origin(transaction, origin)
    parent = fields.parent
    if parent < 0 and old is not None:
        # The head, or what else of the name the state grew from.
        stands = entries.segments
        parent = old.number if grew else _find_parent(transaction, old, stands, number)

    revision = Revision.of(
        key=(old.revision if old else name.number << SHIFT) + 1,
        parent=max(parent, 0),
        ends=ends,
        origin=number,
        origin_digest=origin.digest(),
        tokens=sum_counts(state.total_usage),
        fields=fields,
    )
    tables.add("revisions", [revision])
    if fields.label:
        point_label(transaction, fields.label, revision.revision)

    head = revision.head(text, origin.state_id)
    # A state that still has content that was erased is not what was saved, and is not
    # remembered.
    is_clean = not has_erased_content(cache.erased, state)
    segments = entries.segments, ledger.segments
    remembered = RememberedHead(
        name, revision, head, state, segments, ends, origin.digest()
    )
    transaction.learned[text] = remembered if is_clean else None
    return head


def check_kind(transaction: Transaction, name: Name, *, is_timeline: bool) -> None:
    """Check that a name is written as what it is, a history or a timeline."""
    if name.is_timeline and not is_timeline:
        what = (
            f"{name.name!r} is a timeline, which save_timeline() writes; fork it to go "
            "on with its state under a name of its own"
        )
        raise StoreError(transaction.url, what)

    if is_timeline and not name.is_timeline:
        what = (
            f"{name.name!r} is a history, which save() writes; save the timeline under "
            "a new name, or delete this one first"
        )
        raise StoreError(transaction.url, what)


def _add_fields(
    transaction: Transaction,
    name: Name,
    old: Revision,
    head: Head,
    fields: RevisionFields,
) -> Head:
    # The head that was saved already, with what it is given besides.
    changed = fields.changes(old.notes)
    if changed:
        old = set_columns(transaction, old, **changed)
        head = transaction.make_head(name, old)

    return add_label(transaction, name, old, fields.label) if fields.label else head


def _recall_all(transaction: Transaction, text: str) -> Iterable[RememberedHead]:
    remembered = [*transaction.cache.recall_all(transaction.changes)]
    # Of a tree the branch before this one.
    learned = transaction.learned.get(text)
    return remembered if learned is None else [*remembered, learned]


def _find_nearest(
    remembered: Iterable[RememberedHead], state: Aggregator
) -> RememberedHead | None:
    # The one that has most in common with the state.
    root = state._origin.root
    related = [head for head in remembered if head.state._origin.root == root]
    log = state.entries
    return max(
        related, key=lambda head: log.common_prefix(head.state.entries), default=None
    )


def _find_common_start(
    transaction: Transaction, new: LogToWrite, nearest: RememberedHead
) -> None:
    """Find where a beginning of a log stands that it shares with what is remembered."""
    common = new.log.common_prefix(new.table.log_of(nearest.state))
    segments = cut_segments(nearest.segments_of(new.table), common)
    if segments:
        # Rows never change their place, so what is there is what was.
        digest = transaction.find_digest(new.table, segments[-1].branch, common)
        if digest is not None:
            new.begin_at(segments, digest)


def _check_contained(
    transaction: Transaction,
    old: Revision,
    head: Head,
    origin: Origin,
    logs: tuple[LogToWrite, LogToWrite],
) -> None:
    """Check that *logs* have all of a head, which is *old*, where values count."""
    if not _contains_equal(transaction, head.name, old, *logs):
        root = transaction.get_origin(old.origin).root
        advice = () if root == origin.root else (_OTHER_ROOT,)
        raise StaleHeadError(transaction.url, head.name, None, head, *advice)


def _contains_past(
    transaction: Transaction, old: Revision, entries: LogToWrite, ledger: LogToWrite
) -> tuple[bool, bool]:
    """Whether the entries begin with those of *old*; and the ledger with its, too."""
    of_entries, of_ledger = old.log_ends
    grew = _begins_with(transaction, entries, *of_entries)
    return grew, grew and _begins_with(transaction, ledger, *of_ledger)


def _contains_equal(
    transaction: Transaction,
    text: str,
    old: Revision,
    entries: LogToWrite,
    ledger: LogToWrite,
) -> bool:
    """
    `_contains_past` where values count and not their bytes, since 1, 1.0 and True are
    equal, and a store that remembers the head compares values.
    """
    for new, (table, branch, length) in zip(
        (entries, ledger), old.log_ends, strict=True
    ):
        if length > len(new.log):
            return False

        # Another entry in that place, as after most conflicts: nothing is loaded.
        key = branch << SHIFT | length - 1
        row = transaction.tables.get(table.table, key, ("id",)) if length else None
        if row is not None and row[0] != pack_id(new.log[length - 1].id.encode()):
            return False

    saved = load_newest(transaction, text)
    _find_common_start(transaction, entries, saved)
    return _contains_past(transaction, old, entries, ledger)[1]


def _begins_with(
    transaction: Transaction, new: LogToWrite, table: LogTable, branch: int, length: int
) -> bool:
    """Whether a log begins with the one that ends there."""
    # By digests: after a collection the same rows may stand in two branches.
    return length <= len(new.log) and (
        transaction.find_digest(table, branch, length) == new.digest_at(length)
    )


_PLACE = "revision", "branch", "length", "origin"
_NOWHERE = 0, -1


def _find_parent(
    transaction: Transaction, old: Revision, entries: Segments, origin: int
) -> int:
    """
    The number of the newest revision before *old* that a state has most in common with,
    whose entries stand there; 0 if no revision has any.
    """
    low = old.revision >> SHIFT << SHIFT
    # The scan is limited, so that a save does not cost more with each one before it.
    rows = transaction.tables.scan(
        "revisions", low, old.revision, columns=_PLACE, limit=PAGE, backwards=True
    )
    branches = {each.branch: (each.start, each.stop) for each in entries}
    best, most = 0, -1
    for key, branch, length, row_origin in rows:
        # Most are siblings, which end in branches of their own.
        start, stop = branches.get(branch, _NOWHERE)
        # All logs share the empty beginning, so the origin decides whether it is the
        # same conversation.
        is_start = start < length <= stop or (not length and row_origin == origin)
        if is_start and length > most:
            row = Revision._make(transaction.tables.get("revisions", key))
            if is_sealed(row):
                best, most = row.number, length

    return best


# What is not there yet of a log: its rows, large content and origins


def has_erased_content(
    erased: Mapping[bytes, str], state: Aggregator, start: int = 0
) -> bool:
    """
    Whether a state, from the message at *start* on, still has content that was erased.
    """
    return bool(erased) and any(
        id.encode() in erased and find_erasure(message) is None
        for id, message in state.entries.iterate(start)
    )


class LogToWrite:
    """A log that is to be saved, and its digests at any length, computed on demand."""

    def __init__(self, table: LogTable, log: Log[Any]) -> None:
        self.table = table  # which of the two logs it is
        self.log = log  # the entries
        # Where a beginning of it stands that is there already, as far as is known.
        self.segments: Segments = ()
        # A length, and the digests at that and at the next ones.
        self._known = 0
        self._digests: list[bytes] = []

    def begin_at(self, segments: Segments, digest: bytes) -> None:
        """Its beginning stands at *segments*, and has that digest."""
        self.segments = segments
        self._known, self._digests = segments[-1].stop, [digest]

    def digest_at(self, length: int) -> bytes:
        """The digest of the first *length* entries."""
        index = length - self._known
        if not self._digests or index < 0:
            # A fold is kept with the blocks of the log, so that later saves of any
            # state that shares them compute only what is new.
            return self.table.digest(self.log.take(length))

        if index and len(self._digests) == 1:
            new = self.log.iterate(self._known)
            chain = self.table.chain_entry
            self._digests = list(accumulate(new, chain, initial=self._digests[0]))

        return self._digests[index]


def write_log(transaction: Transaction, new: LogToWrite) -> LogEnd:
    """
    Write what is not there yet of a log; where it ends then, and `LogToWrite.segments`
    are where all of it stands. Entries that were erased become tombstones.
    """
    tables, table, length = transaction.tables, new.table, len(new.log)
    with reading_rows():
        locate_log(transaction, new)

    start = new.segments[-1].stop if new.segments else 0
    branch = new.segments[-1].branch if new.segments else 0
    if start == length:
        return LogEnd(branch, length, new.digest_at(length))

    # If another log continues that branch already, its places are taken.
    if not new.segments or _find_end(transaction, table, branch) != start:
        parent, branch = branch, tables.new_number()
        tables.add("branches", [Branch(branch, parent, start)])
        tables.add("starts", [Start(new.digest_at(start + 1), branch)])

    end = LogEnd(branch, start, new.digest_at(start))
    new.segments = extend_segments(new.segments, branch, length)
    return add_rows(transaction, table, end, list(new.log.iterate(start)))


def locate_log(transaction: Transaction, new: LogToWrite) -> None:
    """
    Find where the longest beginning of a log stands that is there already.

    O(log n) digests are read for each branch on the way, one if the log goes
    on where the branch does.
    """
    length = len(new.log)
    while True:
        at = new.segments[-1].stop if new.segments else 0
        if at == length:
            return

        if new.segments:
            branch = new.segments[-1].branch
            end = _count_common(transaction, new, branch, at)
            if end > at:
                new.segments = extend_segments(new.segments, branch, end)
                continue

        next_branch = _find_branch(transaction, new.table, new.digest_at(at + 1))
        if next_branch is None:
            return

        new.segments = extend_segments(new.segments, next_branch, at + 1)


def _count_common(
    transaction: Transaction, new: LogToWrite, branch: int, at: int
) -> int:
    """How far the log and the branch go on together, from *at* on."""
    find_digest = transaction.find_digest
    low, high = at, min(_find_end(transaction, new.table, branch), len(new.log))
    # Most logs go on where a branch ends: one digest shows that.
    if low < high and find_digest(new.table, branch, high) == new.digest_at(high):
        return high

    # A digest covers all rows before it: where two differ, all later ones do, so
    # bisection finds the first.
    while low + 1 < high:
        middle = (low + high) // 2
        if find_digest(new.table, branch, middle) == new.digest_at(middle):
            low = middle
        else:
            high = middle

    return low


def _find_branch(
    transaction: Transaction, table: LogTable, digest: bytes
) -> int | None:
    """
    The branch whose first row has that digest. One that has another is damage: what
    is written next would belong to a past that is not its own.
    """
    tx = transaction.tables
    row = tx.get("starts", digest)
    if row is None:
        return None

    branch: int = row[1]
    start = tx.get("branches", branch, ("start",))
    if start is None or transaction.find_digest(table, branch, start[0] + 1) != digest:
        raise DamagedRow(
            f"branch {branch} begins with another row than it was kept for"
        )

    return branch


def _find_end(transaction: Transaction, table: LogTable, branch: int) -> int:
    """The position after the last row of a branch."""
    low, high = key_range(branch)
    scan = transaction.tables.scan
    last = scan(table.table, low, high, columns=("place",), limit=1, backwards=True)
    return last[0][0] - low + 1 if last else 0


def make_rows(
    table: LogTable,
    end: LogEnd,
    entries: Sequence[Any],
    erased: Mapping[bytes, str] = _NOTHING,
) -> tuple[list[Row], LogEnd, list[Use], dict[bytes, bytes]]:
    """
    The rows of entries that come after the *end* of a log, tombstones for those that
    were *erased*; where the log ends then; and the large content that the rows refer
    to, by its digest.
    """
    branch, length, before = end
    place, encode = branch << SHIFT | length, table.encode
    made: list[Row] = []
    uses: list[Use] = []
    blobs: dict[bytes, bytes] = {}
    for entry in entries:
        id: bytes = entry[0].encode()
        body, content = encode(entry)
        # `content_digest`, written out: this is half of what a save does in Python.
        digest = content or digest_of(b"%b\0%b" % (id, body))
        if erased and content is None and id in erased and table is ENTRIES:
            # The entry was erased, and a state that still has its content does not
            # restore it.
            content = digest
            message = make_tombstone(entry.message, content, erased[id])
            entry = entry._replace(message=message)  # noqa: PLW2901 - as it is saved
            body, _ = encode(entry)

        if content is not None:
            # The chain of digests covers the erased content, not the tombstone.
            content += tombstone_digest(id, body)

        if len(body) >= LARGE and table is ENTRIES:
            body, found = extract_blobs(entry.message, body)
            if found:
                uses.append(Use(place, b"".join(found)))
                blobs |= found

        id = pack_id(id)
        checksum = checksum_of(before, id, body, content)
        before = digest_of(before + digest)
        made.append((place, id, body, content, before, checksum))
        place += 1

    return made, LogEnd(branch, length + len(made), before), uses, blobs


def add_rows(
    transaction: Transaction, table: LogTable, end: LogEnd, entries: Sequence[Any]
) -> LogEnd:
    """Add rows of entries, and large contents, behind *end*; where that is then."""
    erased = transaction.cache.erased
    made, end, uses, blobs = make_rows(table, end, entries, erased)
    add_blobs(transaction, blobs)
    transaction.tables.add(table.table, made)
    if uses:
        transaction.tables.add("uses", uses)

    return end


def add_blobs(transaction: Transaction, blobs: Mapping[bytes, bytes]) -> None:
    tables = transaction.tables
    for blob, data in blobs.items():
        # Only its size is read, because the content itself may be megabytes.
        if tables.get("blobs", blob, ("size",)) is None:
            tables.add("blobs", [Blob(blob, len(data), data)])


def add_origin(transaction: Transaction, origin: Origin) -> int:
    """The number of an origin, which is added if it is new."""
    tx = transaction.tables
    number = origin.first_number()
    while (row := tx.get("origins", number)) is not None:
        if Origin._make(row[1:]) == origin:
            return number

        number += 1  # once in ten million million origins

    tx.add("origins", [(number, *origin)])
    return number
