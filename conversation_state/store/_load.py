"""
Loading: a saved state again, or the end of it, and what there is to load.

Only rows that are not in memory are read: those of the state that is
remembered, and what other states share with it, stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any
from uuid import UUID

from conversation_state._persistent import Log
from conversation_state.aggregator import Aggregator
from conversation_state.store._log import (
    ENTRIES,
    LEDGER,
    Kind,
    Segments,
    begins_with,
    count_shared,
)
from conversation_state.store._read_rows import (
    iterate_revisions,
    iterate_rows,
    read_digest_before,
    read_digests,
    read_items,
    read_segments,
)
from conversation_state.store._transaction import RememberedHead, Transaction
from conversation_state.store._values import At, Head, Window
from conversation_state.store.schema import Name, Origin, Revision, state_digest
from conversation_state.tree import MessageTree


def load_at(transaction: Transaction, text: str, at: At) -> RememberedHead:
    if at is None:
        return load_newest(transaction, text)

    transaction.catch_up()
    name = transaction.get_name(text)
    revision = transaction.get_revision(name, at)
    remembered = transaction.recall(text)
    if remembered is not None and remembered.revision == revision:
        return remembered

    return read_state(transaction, name, revision)


def load_newest(transaction: Transaction, text: str) -> RememberedHead:
    transaction.catch_up()
    found = recall_newest(transaction, text)
    if found is None:
        name = transaction.get_name(text)
        found = read_state(transaction, name, transaction.get_revision(name, None))

    transaction.remember(found)
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

    newest = None if row is None else transaction.check_revision(row)
    if newest is None or newest.revision != remembered.revision.revision:
        return None

    # Only the labels differ.
    head = newest.head(text, remembered.head.state_id)
    return remembered._replace(revision=newest, head=head)


def read_state(
    transaction: Transaction,
    name: Name,
    revision: Revision,
    near: Sequence[RememberedHead] = (),
) -> RememberedHead:
    """
    A revision's state, which shares what it can with those *near* and those that are
    remembered.
    """
    origin = transaction.get_origin(revision.origin)
    segments, ledger_segments = (
        read_segments(transaction, branch, length)
        for _, branch, length in revision.log_ends
    )
    entries, entries_digest = read_log(transaction, ENTRIES, segments, near)
    ledger, ledger_digest = read_log(transaction, LEDGER, ledger_segments, near)
    digests = entries_digest, ledger_digest
    if state_digest(*digests, origin.digest()) != revision.digest:
        what = f"revision {revision.number} of {name.name!r} is not what was saved"
        raise transaction.damage_error(what)

    head = revision.head(name.name, origin.state_id)
    state = _make_state(origin, entries, ledger)
    places = segments, ledger_segments
    return RememberedHead(
        name, revision, head, state, *places, digests, origin.digest()
    )


def read_log(
    transaction: Transaction,
    kind: Kind,
    segments: Segments,
    near: Sequence[RememberedHead] = (),
) -> tuple[Log[Any], bytes]:
    """
    A log and its digest: what is remembered of it, or *near*, and the rest read.
    """
    log: Log[Any] = Log()
    common = 0
    # The logs are compared by the places of their rows, so that nothing is read to find
    # the longest part that is shared.
    for head in near or transaction.core.recall_all(transaction.changes):
        shared = count_shared(segments, head.segments_of(kind))
        if shared > common:
            common = shared
            log = kind.log_of(head.state)

    log = log.take(common)
    length = segments[-1].stop if segments else 0
    # No row that is shared has changed since (`catch_up`), so its digest still holds.
    if common == length:
        return log, read_digest_before(transaction, kind, segments, length)

    items, digests = read_items(transaction, kind, segments, common)
    log = log.extend(items)
    # Digests are kept with the blocks of a log only if they cover it from its first
    # entry.
    if not common:
        # The digests were read with the rows, and need not be computed.
        kind.seed_digests(log, digests)

    return log, digests[-1]


def _make_state(origin: Origin, entries: Log[Any], ledger: Log[Any]) -> Aggregator:
    parent = None if origin.parent is None else UUID(bytes=origin.parent)
    return Aggregator.rebuild_from_logs(
        id=UUID(bytes=origin.state),
        parent_id=parent,
        root_id=UUID(bytes=origin.root),
        init_len=origin.init_len,
        init_ledger_len=origin.init_ledger_len,
        entries=entries,
        ledger=ledger,
    )


def load_message_tree(transaction: Transaction, text: str) -> MessageTree:
    transaction.catch_up()
    name = transaction.get_name(text)
    revisions = list(iterate_revisions(transaction, name))
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


def load_each(
    transaction: Transaction, text: str, heads: Iterable[Head]
) -> dict[int, Aggregator]:
    transaction.catch_up()
    name = transaction.get_name(text)
    revisions = [transaction.get_revision(name, head) for head in heads]
    numbered = [(each.number, each.parent, each) for each in revisions]
    return read_states(transaction, name, numbered)


def read_states(
    transaction: Transaction, name: Name, revisions: Iterable[tuple[int, int, Revision]]
) -> dict[int, Aggregator]:
    """
    The states of *revisions* by their numbers. Each comes after its own number and that
    of the one it grew from, which may be numbers of moments. The newest ones come
    first: what most others are is a beginning of what was read by then, and is shared.
    """
    states: dict[int, Aggregator] = {}
    children: dict[int, RememberedHead] = {}
    last: RememberedHead | None = None
    for number, parent, revision in revisions:
        near = [each for each in (children.get(number), last) if each is not None]
        last = children[parent] = read_state(transaction, name, revision, near)
        states[number] = last.state

    return states


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


def load_window(transaction: Transaction, text: str, at: At, last: int) -> Window:
    transaction.catch_up()
    remembered = recall_newest(transaction, text) if at is None else None
    if remembered is not None:
        entries = remembered.state.entries
        start = max(len(entries) - last, 0)
        return Window(remembered.head, start, entries[start:])

    name = transaction.get_name(text)
    revision = transaction.get_revision(name, at)
    origin = transaction.get_origin(revision.origin)
    start = max(revision.length - last, 0)
    segments = read_segments(transaction, revision.branch, revision.length)
    items, digests = read_items(transaction, ENTRIES, segments, start)
    # The rows are whole; their last digest proves that they are of this state.
    newest = digests[-1] if digests else None
    read_digests(transaction, revision, origin, entries_digest=newest)
    return Window(revision.head(name.name, origin.state_id), start, Log(items))


def latest(transaction: Transaction, text: str, at: At) -> Head:
    # `catch_up` is not called here, because it would read a row, and an erasure changes
    # no head.
    remembered = recall_newest(transaction, text) if at is None else None
    if remembered is not None:
        return remembered.head

    name = transaction.get_name(text)
    return transaction.make_head(name, transaction.get_revision(name, at))


def list_names(transaction: Transaction, prefix: str) -> list[str]:
    names = []
    for (name,) in iterate_rows(transaction.tables, "names", ("name",), low=prefix):
        if not name.startswith(prefix):
            break

        names.append(name)

    return names
