"""
Loading: a saved state again, or the end of it, and what there is to load.

`load_at` finds the revision and `read_state` its state. Only rows that are not in
memory are read: those of the state that is remembered, and what other states share
with it, stay what they are. Each row is compared with its checksum, and the last one of
each page and of the log with its digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile, zip_longest
from typing import Any
from uuid import UUID

from conversation_state._canonical import load
from conversation_state._collector import collector_paused
from conversation_state._persistent import Log
from conversation_state._wording import format_count
from conversation_state.aggregator import Aggregator
from conversation_state.messages import find_erasure
from conversation_state.store._log import (
    DIGEST_SIZE,
    ENTRIES,
    LEDGER,
    BlobReader,
    DamagedRow,
    LogEnd,
    LogRow,
    LogTable,
    Segment,
    Segments,
    begins_with,
    checksum_of,
    checksums_of,
    content_digest,
    count_shared,
    cut_segments,
    digest_of,
    insert_placeholders,
    read_ids,
    reading_rows,
    tombstone_digest,
    unpack_id,
)
from conversation_state.store._transaction import (
    PAGE,
    Newest,
    RememberedHead,
    Transaction,
)
from conversation_state.store._values import At, Head, Window
from conversation_state.store.backend import Row
from conversation_state.store.schema import (
    SHIFT,
    Name,
    Origin,
    Revision,
    check_seal,
    key_range,
    state_digest,
)
from conversation_state.tree import MessageTree


def load_at(
    transaction: Transaction, text: str, at: At, near: Sequence[RememberedHead] = ()
) -> RememberedHead:
    if at is None:
        return load_newest(transaction, text)

    transaction.catch_up()
    name = transaction.get_name(text)
    revision = transaction.get_revision(name, at)
    remembered = transaction.recall(text)
    if remembered is not None and remembered.revision == revision:
        return remembered

    return read_state(transaction, name, revision, near)


def load_newest(transaction: Transaction, text: str) -> RememberedHead:
    found, newest = find_newest(transaction, text)
    if found is None:
        if newest is None:
            transaction.refuse_name(text)

        name, revision, origin, starts, _ = newest
        found = read_state(transaction, name, revision, origin=origin, starts=starts)

    transaction.learned[text] = found
    return found


def recall_newest(transaction: Transaction, text: str) -> RememberedHead | None:
    """
    The head of a name as it is remembered, if it still is the head. One row is read.
    """
    remembered = transaction.recall(text)
    if remembered is None:
        return None

    # A name that was deleted and saved again has another number.
    row = transaction.find_newest_row(remembered.name.number)
    if row == remembered.revision:
        return remembered

    newest = None if row is None else check_seal(Revision._make(row))
    if newest is None or newest.revision != remembered.revision.revision:
        return None

    # Only the labels differ.
    head = newest.head(text, remembered.head.state_id)
    return remembered._replace(revision=newest, head=head)


def find_newest(
    transaction: Transaction, text: str
) -> tuple[RememberedHead | None, Newest | None]:
    """
    The head of a name as it is remembered, if it still is the head; else as it is
    saved. `Transaction.catch_up` is done then.
    """
    is_known = text in transaction.cache.heads
    newest = None if is_known else transaction.find_newest(text)
    transaction.catch_up()
    known = recall_newest(transaction, text) if is_known else None
    if is_known and known is None:
        newest = transaction.find_newest(text)

    return known, newest


def read_state(
    transaction: Transaction,
    name: Name,
    revision: Revision,
    near: Sequence[RememberedHead] = (),
    *,
    origin: Origin | None = None,
    starts: tuple[Row, Row] = ((), ()),
) -> RememberedHead:
    """
    A revision's state, which shares what it can with those *near* and those that are
    remembered. Its origin, and the *starts* of `Newest`, are not read if given.
    """
    origin = origin or transaction.get_origin(revision.origin)
    origin_digest = origin.digest()
    segments = read_segments(transaction, revision.branch, revision.length, starts[0])
    ledger_end = revision.ledger_branch, revision.ledger_length
    ledger_segments = read_segments(transaction, *ledger_end, starts[1])
    entries, digest = read_log(transaction, ENTRIES, segments, near)
    ledger, ledger_digest = read_log(transaction, LEDGER, ledger_segments, near)
    if state_digest(digest, ledger_digest, origin_digest) != revision.digest:
        what = f"revision {revision.number} of {name.name!r} is not what was saved"
        raise DamagedRow(what)

    state = Aggregator.rebuild(
        id=origin.state_id,
        parent_id=None if origin.parent is None else UUID(bytes=origin.parent),
        root_id=UUID(bytes=origin.root),
        init_len=origin.init_len,
        init_ledger_len=origin.init_ledger_len,
        entries=entries,
        ledger=ledger,
    )
    end = LogEnd(revision.branch, revision.length, digest)
    return RememberedHead(
        name=name,
        revision=revision,
        head=revision.head(name.name, origin.state_id),
        state=state,
        segments=(segments, ledger_segments),
        ends=(end, LogEnd(*ledger_end, ledger_digest)),
        origin=origin_digest,
    )


def read_log(
    transaction: Transaction,
    table: LogTable,
    segments: Segments,
    near: Sequence[RememberedHead] = (),
) -> tuple[Log[Any], bytes]:
    """A log and its digest: what is remembered of it, or *near*, and the rest read."""
    log: Log[Any] = Log()
    common = 0
    # The logs are compared by the places of their rows, so that nothing is read to find
    # the longest part that is shared.
    for head in near or transaction.cache.recall_all(transaction.changes):
        shared = count_shared(segments, head.segments_of(table))
        if shared > common:
            common = shared
            log = table.log_of(head.state)

    log = log.take(common)
    length = segments[-1].stop if segments else 0
    # No row that is shared has changed since (`catch_up`), so its digest still holds.
    if common == length:
        return log, _read_digest_before(transaction, table, segments, length)

    items, digests = read_items(transaction, table, segments, common)
    log = log.extend(items)
    # Digests are kept with the blocks of a log only if they cover it from its first
    # entry.
    if not common:
        # The digests were read with the rows, and need not be computed.
        log.remember_fold(digests, key=table.table)

    return log, digests[-1]


# Rows of logs


_OF_BRANCH = "parent", "start"


def read_segments(
    transaction: Transaction, branch: int, length: int, last: Row = ()
) -> Segments:
    """
    Where a log stands that ends in a branch. A row is read for each segment; not for
    the *last* one if what is in it is given.
    """
    found = []
    # Numbers grow, so a parent is less than its branch: this ends on any file.
    while branch:
        row = last or transaction.tables.get("branches", branch, _OF_BRANCH)
        (parent, start), last = row or (-1, -1), ()
        is_whole = parent.__class__ is start.__class__ is int
        if not is_whole or not 0 <= parent < branch or not 0 <= start < length:
            raise DamagedRow(f"branch {branch} is missing or leads nowhere")

        found.append(Segment(branch, start, length))
        branch, length = parent, start

    if length:
        raise DamagedRow(f"{format_count(length, 'row')} in no branch")

    found.reverse()
    return tuple(found)


def _read_digest_before(
    transaction: Transaction, table: LogTable, segments: Segments, length: int
) -> bytes:
    if not length:
        return table.start

    branch = cut_segments(segments, length)[-1].branch
    digest = transaction.find_digest(table, branch, length)
    if digest is None:
        what = f"the {table.table} before {length} are missing"
        raise DamagedRow(what)

    return digest


def read_ends(
    transaction: Transaction,
    revision: Revision,
    origin: Origin,
    *,
    entries_digest: bytes | None = None,
    ledger_digest: bytes | None = None,
) -> tuple[LogEnd, LogEnd]:
    """Where both logs of a state end, compared with its digest; or as given."""
    entries, ledger = revision.log_ends
    entries_digest = entries_digest or transaction.find_digest(*entries)
    ledger_digest = ledger_digest or transaction.find_digest(*ledger)
    if entries_digest is None or ledger_digest is None:
        what = f"the newest rows of revision {revision.number} are gone"
        raise DamagedRow(what)

    if state_digest(entries_digest, ledger_digest, origin.digest()) != revision.digest:
        what = f"revision {revision.number} is not what was saved"
        raise DamagedRow(what)

    return LogEnd(*entries[1:], entries_digest), LogEnd(*ledger[1:], ledger_digest)


# Entries


def read_items(
    transaction: Transaction, table: LogTable, segments: Segments, start: int
) -> tuple[list[Any], list[bytes]]:
    """
    The entries of a log from position *start* on, and the digests at each; the error
    says which is missing, or is not what was saved.
    """
    with collector_paused():
        return _read_items(transaction, table, segments, start)


def _read_items(
    transaction: Transaction, table: LogTable, segments: Segments, start: int
) -> tuple[list[Any], list[bytes]]:
    items: list[Any] = []
    digests: list[bytes] = []
    before = _read_digest_before(transaction, table, segments, start)
    blobs = BlobReader(transaction.tables)
    for page in _iterate_pages(transaction, table, segments, start):
        # Column by column: to make a `LogRow` of each takes longer than all that is
        # done with it.
        ids, bodies, contents, page_digests, there = zip(*page, strict=True)
        befores = (before, *page_digests[:-1])
        with reading_rows():
            raw, read = decode_rows(table, ids, bodies, blobs)
            if contents.count(None) == len(raw):
                checksums = checksums_of(befores, ids, bodies)
                # The digest of a row is in the checksum of the next one; where content
                # is kept apart, it is only in the digest.
                first = 0 if list in map(type, raw) else len(page) - 1
            else:
                checksums = tuple(map(checksum_of, befores, ids, bodies, contents))
                first = 0

            rows = zip(page[first:], read[first:], befores[first:], strict=True)
            after = _compute_digests(table, rows, blobs)

        # A page is compared as a whole, which takes no step for each row.
        if checksums != there or after != page_digests[first:]:
            rows = zip(page, read, befores, strict=True)
            after = _compute_digests(table, rows, blobs)
            compared = zip_longest(ids, after, page_digests, checksums, there)
            id = next(id for id, a, b, c, d in compared if (a, c) != (b, d))
            name = unpack_id(id).decode(errors="replace")
            what = f"the entry {name!r} of {table.table} is not what was saved"
            raise DamagedRow(what)

        items += read
        digests += page_digests
        before = digests[-1]

    return items, digests


def _iterate_pages(
    transaction: Transaction, table: LogTable, segments: Segments, start: int
) -> Iterator[list[Row]]:
    tx = transaction.tables
    for branch, first, stop in segments:
        place = branch << SHIFT | max(first, start)
        end = branch << SHIFT | stop
        while place < end:
            high = min(end, place + PAGE)
            rows = tx.scan(table.table, place, high, columns=LogRow._fields)
            if len(rows) < high - place:
                # One scan for the whole range: a damaged length may be any number.
                found = tx.scan(table.table, place, high, columns=("place",))
                missing = set(range(place, high)).difference(*zip(*found, strict=True))
                gap = min(missing) & ((1 << SHIFT) - 1)
                what = f"the {table.table} from {gap} on are missing"
                raise DamagedRow(what)

            yield rows
            place = high


def decode_rows(
    table: LogTable, ids: Sequence[bytes], bodies: Sequence[bytes], blobs: BlobReader
) -> tuple[list[Any], list[Any]]:
    """The JSON values of the bodies of rows, and their entries."""
    # Parsing all bodies as one text takes half the time.
    raw: list[Any] = load(b"[%b]" % b",".join(bodies))
    names = read_ids(ids)
    if list not in map(type, raw):
        return raw, table.decode(names, raw)

    items = table.decode(names, [insert_placeholders(each) for each in raw])
    return raw, [
        item._replace(message=blobs.restore_message(item.message, each[1]))
        if each.__class__ is list
        else item
        for item, each in zip(items, raw, strict=True)
    ]


def _compute_digests(
    table: LogTable, rows: Iterable[tuple[Row, Any, bytes]], blobs: BlobReader
) -> tuple[bytes, ...]:
    """
    The digests of rows, each with its entry and the digest before it, as they should
    be; only those up to the first row that is damaged in itself.
    """
    found: list[bytes] = []
    for row, item, before in rows:
        content, what = check_content(table, LogRow._make(row), item, blobs)
        if what:
            break

        found.append(digest_of(before + content))

    return tuple(found)


def check_content(
    table: LogTable, row: LogRow, item: Any, blobs: BlobReader
) -> tuple[bytes, str]:
    """
    The digest of a row's content, or of what it was before it was erased, and what is
    wrong with it: "" if nothing is.
    """
    id = unpack_id(row.id)
    if row.content is None:
        return content_digest(id, blobs.restore_body(row.body)), ""

    content = row.content[:DIGEST_SIZE]
    erasure = None if table is LEDGER else find_erasure(item.message)
    if erasure is None or erasure.content != content:
        return b"", "is marked as erased, and no tombstone of what was there"

    if row.content != content + tombstone_digest(id, row.body):
        return b"", "is a tombstone, and not the one that was put there"

    return content, ""


def load_window(transaction: Transaction, text: str, at: At, last: int) -> Window:
    remembered = newest = None
    if at is None:
        remembered, newest = find_newest(transaction, text)

    if remembered is not None:
        entries = remembered.state.entries
        start = max(len(entries) - last, 0)
        return Window(remembered.head, start, entries[start:])

    if newest is None:
        transaction.catch_up()
        name = transaction.get_name(text)
        revision = transaction.get_revision(name, at)
        newest = Newest(name, revision, transaction.get_origin(revision.origin))

    _, revision, origin, (first, _), (_, ledger) = newest
    start = max(revision.length - last, 0)
    segments = read_segments(transaction, revision.branch, revision.length, first)
    items, digests = read_items(transaction, ENTRIES, segments, start)
    # The rows are whole; their last digest proves that they are of this state.
    digest = digests[-1] if digests else None
    ends = transaction, revision, origin
    read_ends(*ends, entries_digest=digest, ledger_digest=ledger)
    return Window(newest.head(), start, Log(items))


def latest(transaction: Transaction, text: str, at: At) -> Head:
    # `catch_up` is not called here, because it would read a row, and an erasure changes
    # no head.
    remembered = recall_newest(transaction, text) if at is None else None
    if remembered is not None:
        return remembered.head

    if at is None and (newest := transaction.find_newest(text)) is not None:
        return newest.head()

    name = transaction.get_name(text)
    return transaction.make_head(name, transaction.get_revision(name, at))


def list_names(transaction: Transaction, prefix: str) -> list[str]:
    if "\0" in prefix:
        return []  # no name holds it, and a server refuses it

    rows = transaction.iterate_rows("names", ("name",), low=prefix)
    return [name for (name,) in takewhile(lambda row: row[0].startswith(prefix), rows)]


# Several states


def has_branches(transaction: Transaction, name: Name, limit: int) -> bool:
    """
    Whether several of the newest *limit* revisions that grew from no other are of one
    conversation: they have their first message or their origin in common. One that
    replaced another conversation has neither.
    """
    low, high = key_range(name.number)
    scan = transaction.tables.scan
    rows = scan("revisions", low, high, limit=limit, backwards=True)
    revisions = map(check_seal, map(Revision._make, rows))
    first = [each for each in revisions if not each.parent]
    seen: set[tuple[str, int]] = set()
    for revision in first if len(first) > 1 else ():
        segments = read_segments(transaction, revision.branch, revision.length)
        shared = {("origin", revision.origin)}
        shared.update([("branch", each.branch) for each in segments[:1]])
        if seen & shared:
            return True

        seen |= shared

    return False


def load_message_tree(transaction: Transaction, text: str) -> MessageTree:
    transaction.catch_up()
    name = transaction.get_name(text)
    revisions = list(transaction.iterate_revisions(name))
    if not revisions:
        raise DamagedRow(f"{text!r} has no revisions")

    # A revision that the next one continues is part of the next one's state, so only
    # the last state of each run is read.
    run: list[Revision] = []
    states: list[Aggregator] = []
    found: dict[int, RememberedHead] = {}
    for revision, following in zip_longest(revisions, revisions[1:]):
        run.append(revision)
        if following is not None and _is_continued(transaction, revision, following):
            continue

        near = [found[each] for each in (run[0].parent,) if each in found]
        state = read_state(transaction, name, revision, near)
        found.update(dict.fromkeys([each.number for each in run], state))
        states.append(state.state)
        run = []

    return MessageTree.of(*states)


def read_states(
    transaction: Transaction, name: Name, revisions: Iterable[tuple[int, int, Revision]]
) -> dict[int, RememberedHead]:
    """
    The states of *revisions* by their numbers. Each comes after its own number and that
    of the one it grew from, which may be numbers of moments. The newest ones come
    first: what most others are is a beginning of what was read by then, and is shared.
    """
    found: dict[int, RememberedHead] = {}
    children: dict[int, RememberedHead] = {}
    last: RememberedHead | None = None
    for number, parent, revision in revisions:
        near = [each for each in (children.get(number), last) if each is not None]
        last = found[number] = children[parent] = read_state(
            transaction, name, revision, near
        )

    return found


def _is_continued(
    transaction: Transaction, revision: Revision, following: Revision
) -> bool:
    """
    Whether the next revision begins with all entries of this one, and with its whole
    ledger. That it grew from it is not enough: a moment of a timeline may be shorter
    than the one it was committed on, or another conversation.
    """
    if following.parent != revision.number or (
        revision.ledger_length
        and (
            following.ledger_branch != revision.ledger_branch
            or following.ledger_length < revision.ledger_length
        )
    ):
        return False

    if following.branch == revision.branch or following.length < revision.length:
        return following.length >= revision.length

    branch, length = following.branch, following.length
    segments = read_segments(transaction, branch, length)
    return begins_with(segments, revision.branch, revision.length)
