"""
Threads copied, thinned out, and let go of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from conversation_state.adapters.langgraph._conversations import state_of
from conversation_state.adapters.langgraph._keys import (
    THREADS,
    checkpoint_key,
    checkpoints_of,
    layer_key,
    name_of,
    names_of,
    unpack,
    value_key,
    writes_of,
)
from conversation_state.adapters.langgraph._stored import LEDGER, Sources, Stored
from conversation_state.adapters.langgraph._threads import OwnThread, Thread
from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError
from conversation_state.store._records import Reader, Record, Writer, after

__all__ = ["all_of", "copy", "delete", "keep_newest", "keep_where", "threads"]

# In LangGraph's metadata: the channels whose value has to be put together of
# what was written since the last time it was kept.
_COUNTERS = "counters_since_delta_snapshot"


def threads(rows: Reader) -> list[str]:
    """
    The ids of all threads.
    """
    found = rows.scan(THREADS, after(THREADS))
    ids = [next(unpack(record.value)) for record in found]
    return [id.decode("utf-8", "surrogatepass") for id in ids]


def all_of(thread: Thread) -> list[Stored]:
    """
    All checkpoints of a thread.
    """
    records = thread.records(checkpoints_of(None))
    return [Stored.unpacked(record.value) for record in records]


def copy(rows: Writer, source: str, target: str, store: str) -> None:
    """
    Make *target* a thread that is what *source* is.
    """
    thread = OwnThread(rows, source)
    if not thread.layers:
        raise NotSavedError(store, "thread", source)

    if OwnThread(rows, target).layers:
        msg = (
            f"can't copy {source!r} to {target!r}, which is a thread already; delete "
            "it first, or give another name"
        )
        raise ValueError(msg)

    thread.copy(target)
    old, new = names_of(source), names_of(target)
    for name in rows.names(old):
        # Of graphs inside of a run there are as many as there were runs.
        if ":" not in name[len(old) :].rpartition("/")[0]:
            rows.fork(name, new + name[len(old) :])


def delete(rows: Writer, id: str) -> None:
    """
    Let go of a thread, if there is one.
    """
    thread = OwnThread(rows, id)
    if thread.layers:
        thread.delete()

    for name in rows.names(names_of(id)):
        rows.delete(name)


def keep_newest(thread: OwnThread, sources: Sources) -> None:
    """
    Let go of all checkpoints of a thread but the newest of each namespace, and
    those it needs.
    """
    every = {(each.namespace, each.id): each for each in all_of(thread)}
    newest = {each.namespace: each for each in sorted(every.values(), key=_by_id)}
    kept = []
    for each in newest.values():
        kept.append(each)
        needed = {*(sources.metadata(each).get(_COUNTERS) or ())} - {*each.channels}
        at = every.get((each.namespace, each.parent))
        while needed and at is not None:
            kept.append(at)
            needed -= {*at.channels}
            at = every.get((at.namespace, at.parent))

    if len(kept) < len(every):
        _keep(thread, sources, kept)


def keep_where(
    thread: OwnThread, sources: Sources, is_kept: Callable[[Stored], bool]
) -> None:
    """
    Let go of those checkpoints of a thread for which *is_kept* is false.
    """
    every = all_of(thread)
    kept = [each for each in every if is_kept(each)]
    if len(kept) < len(every):
        _keep(thread, sources, kept)


def _by_id(stored: Stored) -> bytes:
    return checkpoint_key(stored.namespace, stored.id)


def _keep(thread: OwnThread, sources: Sources, kept: Sequence[Stored]) -> None:
    """
    Let go of all that only others than *kept* need.
    """
    rows = thread.rows
    if not kept:
        delete(rows, thread.id)
        return

    states = dict(_newest_states(thread, sources, kept))
    needed = [record for each in kept for record in _needed(thread, each)]
    first, *others = thread.layers
    if others:
        thread.flatten(list({record.key: record for record in needed}.values()))
    else:
        own = layer_key(first)
        keys = {record.key for record in needed}
        for key in rows.keys(own, after(own)):
            if key not in keys:
                thread.remove(key[len(own) :])

    # What was let go of is not to be had under its name, either.
    for name in rows.names(names_of(thread.id)):
        head = rows.head(name)
        state = states.get(name)
        if state is None:
            rows.delete(name)
        elif head is not None and (head.revision > 1 or rows.state(name) != state):
            rows.delete(name)
            rows.save(name, state)


def _needed(thread: Thread, stored: Stored) -> Iterable[Record]:
    keys = [checkpoint_key(stored.namespace, stored.id)]
    for channel in stored.channels:
        source = stored.source(channel)
        if source is not None:
            key = value_key(stored.namespace, channel, source)
            keys += [key, key + LEDGER]

    yield from [record for key in keys if (record := thread.get(key)) is not None]
    yield from thread.records(writes_of(stored.namespace, stored.id))


def _newest_states(
    thread: OwnThread, sources: Sources, kept: Sequence[Stored]
) -> Iterable[tuple[str, Aggregator]]:
    """
    The names of all conversations that are kept, and their newest states.
    """
    for stored in sorted(kept, key=_by_id):
        for channel in stored.channels:
            source = stored.source(channel)
            if source is None:
                continue

            record = sources.record(stored.namespace, channel, source)
            if record.hold is None:
                continue

            name = name_of(thread.id, channel, stored.namespace)
            value = sources.value(stored, channel)
            if not isinstance(value, Aggregator):
                entries = thread.rows.entries(record.hold)
                value = state_of(thread.rows.state(name), entries)

            yield name, value
