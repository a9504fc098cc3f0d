"""
Loading: a saved state again, or the end of it, and what there is to load.

Only rows that are not in memory are read: those of the state that is
remembered, and what other states share with it, stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from conversation_state._persistent import Log, check_text
from conversation_state.aggregator import Aggregator
from conversation_state.store._core import (
    At,
    Core,
    Known,
    Name,
    checked_at,
    checked_name,
)
from conversation_state.store._restoring import items_between
from conversation_state.store._rows import (
    PAGE,
    SHIFT,
    Origin,
    Revision,
    damaged,
    digest_before,
    segments_of,
    state_digest,
)
from conversation_state.store._values import Head, Window
from conversation_state.store.backend import Reading
from conversation_state.store.log import ENTRIES, LEDGER, Kind, Segments, shared

__all__ = ["head", "history", "load", "load_newest", "load_window", "names"]


def load(core: Core, text: str, at: At) -> Aggregator:
    """
    What `Store.load` does.
    """
    checked_at(checked_name(text), at)
    if at is None:
        return load_newest(core, text).state

    with core.reading() as tx:
        seen = core.catch_up(tx)
        name = core.named(tx, text)
        return _restored(core, tx, seen, name, core.revision(tx, name, at)).state


def load_newest(core: Core, text: str) -> Known:
    """
    The head of a name and its state, in one block.
    """
    checked_name(text)
    with core.reading() as tx:
        seen = core.catch_up(tx)
        known = core.known(text, seen)
        name = newest = None
        if known is not None:
            # A name that was deleted has another number if it is there again.
            name = known.name
            newest = core.newest(tx, name.number)
            if newest is not None and newest.revision == known.revision.revision:
                core.remember(known, seen)
                # Its label may be another.
                head = newest.head(text, known.head.state_id)
                return known._replace(head=head)

        if name is None or newest is None:
            name = core.named(tx, text)
            newest = core.revision(tx, name, None)

        found = _restored(core, tx, seen, name, newest)

    core.remember(found, seen)
    return found


def _restored(
    core: Core, tx: Reading, seen: int, name: Name, revision: Revision
) -> Known:
    origin = core.origin(tx, revision.origin)
    told = segments_of(tx, core.url, revision.branch, revision.length)
    paid = segments_of(tx, core.url, revision.ledger_branch, revision.ledger_length)
    entries, told_digest = _log(core, tx, seen, ENTRIES, told)
    ledger, paid_digest = _log(core, tx, seen, LEDGER, paid)
    digests = told_digest, paid_digest
    if state_digest(*digests, origin.digest()) != revision.digest:
        what = f"revision {revision.number} of {name.text!r} is not what was saved"
        raise damaged(core.url, what)

    state = _state(origin, entries, ledger)
    head = revision.head(name.text, origin.state_id)
    return Known(name, revision, head, state, told, paid, digests, origin.digest())


def _log(
    core: Core, tx: Reading, seen: int, kind: Kind, segments: Segments
) -> tuple[Log[Any], bytes]:
    """
    A log and its digest: what is remembered of it, and the rest read.
    """
    log: Log[Any] = Log()
    common = 0
    for known in core.all_known(seen):
        theirs = known.entries if kind is ENTRIES else known.ledger
        shares = shared(segments, theirs)
        if shares > common:
            common = shares
            log = known.state.entries if kind is ENTRIES else known.state.ledger

    log = log.take(common)
    length = segments[-1].stop if segments else 0
    if common == length:
        return log, digest_before(tx, core.url, kind, segments, length)

    items, digests = items_between(tx, core.url, kind, segments, common)
    log = log.extend(items)
    if not common:
        # They were read; so nobody has to compute them again.
        kind.teach(log, digests)

    return log, digests[-1]


def _state(origin: Origin, entries: Log[Any], ledger: Log[Any]) -> Aggregator:
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


def load_window(core: Core, text: str, at: At, last: int) -> Window:
    """
    What `Store.load` does if it is asked for the *last* messages only.
    """
    checked_at(checked_name(text), at)
    _check_count(last, "last", "how many messages to load")
    with core.reading() as tx:
        core.catch_up(tx)
        name = core.named(tx, text)
        revision = core.revision(tx, name, at)
        start = max(revision.length - last, 0)
        told = segments_of(tx, core.url, revision.branch, revision.length)
        items, _ = items_between(tx, core.url, ENTRIES, told, start)
        return Window(core.head(tx, name, revision), start, Log(items))


def _check_count(count: object, what: str, meaning: str) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        msg = f"{what} is {count!r:.80}; expected {meaning}, from 0 on"
        raise ValueError(msg)


def head(core: Core, text: str, at: At = None) -> Head:
    """
    What `Store.head` does.
    """
    checked_at(checked_name(text), at)
    with core.reading() as tx:
        name = core.named(tx, text)
        return core.head(tx, name, core.revision(tx, name, at))


def names(core: Core, prefix: str) -> tuple[str, ...]:
    """
    What `Store.names` does.
    """
    check_text(prefix, "prefix")
    with core.reading() as tx:
        return tuple(_names(tx, prefix))


def _names(tx: Reading, prefix: str) -> Iterator[str]:
    low = prefix
    while True:
        rows = tx.scan("names", low, None, columns=("name",), limit=PAGE)
        for (name,) in rows:
            if not name.startswith(prefix):
                return

            yield name

        if len(rows) < PAGE:
            return

        low = f"{rows[-1][0]}\x01"  # no name holds U+0000, so this is the next one


def history(
    core: Core, text: str, before: int | None, limit: int | None
) -> tuple[Head, ...]:
    """
    What `Store.history` does.
    """
    checked_name(text)
    if before is not None:
        _check_count(before, "before", "a revision's number")

    if limit is not None:
        _check_count(limit, "limit", "how many revisions to tell")
        limit = min(limit, 1 << SHIFT)  # all there can be, and a number servers take

    with core.reading() as tx:
        name = core.named(tx, text)
        low, high = name.number << SHIFT, (name.number + 1) << SHIFT
        if before is not None:
            high = max(low, min(high, low + before))

        rows = tx.scan("revisions", low, high, limit=limit, backwards=True)
        revisions = [Revision._make(row) for row in rows]
        ids = {
            number: core.origin(tx, number).state_id
            for number in {revision.origin for revision in revisions}
        }
        return tuple([each.head(text, ids[each.origin]) for each in revisions])
