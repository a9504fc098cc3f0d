"""
Whole threads: listing their checkpoints, the newest first and a page at a time;
copying, pruning and deleting them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    PendingWrite,
)

from conversation_state.aggregator import Aggregator
from conversation_state.errors import NotSavedError
from conversation_state.hosts._host import decode_text
from conversation_state.hosts.langgraph._checkpoints import (
    LEDGER,
    CheckpointReader,
    StoredCheckpoint,
    config_of,
)
from conversation_state.hosts.langgraph._threads import (
    THREADS,
    Thread,
    WritableThread,
    checkpoint_key,
    checkpoints_of,
    id_part_of,
    name_of,
    names_of,
    unpack,
    value_key,
    writes_of,
)
from conversation_state.store import Store
from conversation_state.store.records import Reader, Writer, after, reading

# The namespace and the id of a checkpoint.
Place: TypeAlias = tuple[str, str]
# A task, its path, and what it wrote.
TaskWrites: TypeAlias = tuple[str, str, list[tuple[str, Any]]]


def list_checkpoints(
    old: BaseCheckpointSaver[Any], config: RunnableConfig | None
) -> dict[str, dict[Place, RunnableConfig]]:
    """
    The checkpoints of a thread of *old*, or of all, by thread, and the config of each.
    Parents come before their children, since ids grow with time.
    """
    found: dict[str, dict[Place, RunnableConfig]] = {}
    for each in old.list(config):
        thread, namespace, id = parse_config(each.config)
        found.setdefault(thread, {})[namespace, id or ""] = each.config

    return {
        thread: dict(sorted(places.items(), key=lambda place: place[0][::-1]))
        for thread, places in found.items()
    }


def read_from_saver(
    old: BaseCheckpointSaver[Any], thread: str, places: Mapping[Place, RunnableConfig]
) -> Iterator[tuple[CheckpointTuple, RunnableConfig]]:
    """Each checkpoint, and the config that names its parent. Holds one at a time."""
    for (namespace, _), config in places.items():
        found = old.get_tuple(config)
        if found is None:
            continue  # deleted meanwhile

        parent = None
        if found.parent_config is not None:
            parent = parse_config(found.parent_config)[2]

        yield found, config_of(thread, namespace, parent or "")


def group_writes(writes: list[PendingWrite] | None) -> list[TaskWrites]:
    """
    The *writes* after a checkpoint, by task.

    A checkpointer numbers the writes of one call of ``put_writes``, and keeps the
    first of each number: so all of a task's are put at once. Errors, interrupts
    and resume values have numbers of their own and come last, so that they move no
    other write.

    The path of a task, by which writes are sorted, is in no checkpoint that is
    read. Numbers in its place keep the order of the tasks as they were listed;
    they sort before all paths of LangGraph, which begin with "~".
    """
    tasks: dict[str, list[tuple[str, Any]]] = {}
    for task, channel, value in writes or ():
        tasks.setdefault(task, []).append((channel, value))

    return [
        (task, f"{number:08}", sorted(own, key=lambda one: one[0] in WRITES_IDX_MAP))
        for number, (task, own) in enumerate(tasks.items())
    ]


# How many checkpoints a page has.
_PAGE = 20


def configurable_of(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable", {})


def parse_config(config: RunnableConfig) -> tuple[str, str, str | None]:
    """
    The thread, the namespace and the checkpoint that a config names.

    Raises:
        ValueError: If it has no thread.
    """
    values = configurable_of(config)
    if "thread_id" not in values:
        raise ValueError(
            'config: missing thread_id; expected {"configurable": {"thread_id": "1"}}'
        )

    return (
        str(values["thread_id"]),
        values.get("checkpoint_ns") or "",
        values.get("checkpoint_id") or None,
    )


def list_pages(
    store: Store,
    read_thread: Callable[[Reader, str], CheckpointReader],
    config: RunnableConfig | None,
    *,
    metadata: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Iterator[Sequence[CheckpointTuple]]:
    namespace = id = None
    if config is not None:
        thread, _, id = parse_config(config)
        threads = [thread]
        namespace = configurable_of(config).get("checkpoint_ns")
    else:
        with reading(store) as rows:
            threads = list_threads(rows)

    end = configurable_of(before).get("checkpoint_id") if before else None
    left = limit
    for thread in threads:
        with reading(store) as rows:
            keys = _checkpoint_keys(Thread(rows, thread), namespace, id, end)

        for at in range(0, len(keys), _PAGE):
            if left is not None and left <= 0:
                return

            with reading(store) as rows:
                some = keys[at : at + _PAGE]
                page = _read_page(read_thread(rows, thread), some, metadata or {}, left)

            if left is not None:
                left -= len(page)

            yield page


# The keys of the checkpoints of a namespace, or of all; with an *id*, and before *end*.
def _checkpoint_keys(
    thread: Thread, namespace: str | None, id: str | None, end: str | None
) -> list[bytes]:
    keys = thread.keys(checkpoints_of(namespace))
    if end is not None:
        last = id_part_of(checkpoint_key("", end))
        keys = [key for key in keys if id_part_of(key) < last]

    if id is not None:
        own = id_part_of(checkpoint_key("", id))
        keys = [key for key in keys if id_part_of(key) == own]

    # Sorted by the id alone, because ids grow with time: the checkpoints of a graph and
    # of its subgraphs are in one order.
    return sorted(keys, key=id_part_of, reverse=True)


def _read_page(
    reader: CheckpointReader,
    keys: Sequence[bytes],
    metadata: dict[str, Any],
    limit: int | None,
) -> list[CheckpointTuple]:
    found: list[CheckpointTuple] = []
    for key in keys:
        if limit is not None and len(found) >= limit:
            break

        stored = reader.stored(key)
        if stored is None:
            continue  # deleted meanwhile

        if metadata:
            actual = reader.metadata(stored)
            if any(actual.get(name) != value for name, value in metadata.items()):
                continue

        found.append(reader.tuple(stored))

    return found


def list_threads(rows: Reader) -> list[str]:
    found = rows.scan(THREADS, after(THREADS))
    ids = [next(unpack(record.value)) for record in found]
    return [decode_text(id) for id in ids]


def read_checkpoints(thread: Thread) -> list[StoredCheckpoint]:
    records = thread.records(checkpoints_of(None))
    return [StoredCheckpoint.of(record) for record in records]


def copy_thread(rows: Writer, source: str, target: str, store: str) -> None:
    thread, made = WritableThread(rows, source), WritableThread(rows, target)
    if thread.prefix is None:
        raise NotSavedError(store, "thread", source)

    if made.prefix is not None:
        raise ValueError(
            f"can't copy thread {source!r} to {target!r}: {target!r} exists already; "
            "delete it first, or choose another id"
        )

    thread.copy_to(made)
    old, new = names_of(source), names_of(target)
    for name in rows.names(old):
        # A namespace with a colon is that of a subgraph in a single run. It is left
        # out, because no later run continues it.
        if ":" not in name[len(old) :].rpartition("/")[0]:
            rows.fork(name, new + name[len(old) :])


def delete_thread(rows: Writer, id: str) -> None:
    WritableThread(rows, id).delete()
    for name in rows.names(names_of(id)):
        rows.delete(name)


def prune_thread(
    thread: WritableThread,
    reader: CheckpointReader,
    is_kept: Callable[[StoredCheckpoint], bool] | None,
) -> None:
    """
    Delete the checkpoints of a thread for which *is_kept* is false; without it all
    but the newest of each namespace, and those it is rebuilt from.
    """
    every = read_checkpoints(thread)
    kept = (
        _list_needed_by_newest(reader, every)
        if is_kept is None
        else [each for each in every if is_kept(each)]
    )
    if len(kept) < len(every):
        _keep_checkpoints(thread, reader, every, kept)


def _list_needed_by_newest(
    reader: CheckpointReader, every: Iterable[StoredCheckpoint]
) -> list[StoredCheckpoint]:
    newest = {each.namespace: each for each in sorted(every, key=_key_of)}
    kept = []
    for each in newest.values():
        kept.append(each)
        needed = {*reader.deltas(each)} - {*each.channels}
        for ancestor in reader.ancestors(each):
            if not needed:
                break

            kept.append(ancestor)
            needed -= {*ancestor.channels}

    return kept


def _key_of(stored: StoredCheckpoint) -> bytes:
    return checkpoint_key(stored.namespace, stored.id)


# Delete all records that no checkpoint of *kept* needs.
def _keep_checkpoints(
    thread: WritableThread,
    reader: CheckpointReader,
    every: Sequence[StoredCheckpoint],
    kept: Sequence[StoredCheckpoint],
) -> None:
    rows = thread.rows
    if not kept:
        delete_thread(rows, thread.id)
        return

    states = dict(_newest_states(thread, reader, every, kept))
    needed = {key for each in kept for key in _required_keys(thread, each)}
    for key in thread.keys(b""):
        if key not in needed:
            thread.remove(key)

    # The revisions of a conversation's name would keep messages of deleted checkpoints,
    # so each name is saved again with its newest state alone.
    for name in rows.names(names_of(thread.id)):
        head = rows.latest(name)
        state = states.get(name)
        if state is None or head is None:
            rows.delete(name)
            continue

        is_head = rows.state(name) == state
        if head.revision > 1 or not is_head:
            rows.delete(name)
            rows.save(name, state)
            for label in head.labels if is_head else ():
                rows.label(name, label)


# The keys of a checkpoint, of its values and of the writes after it.
def _required_keys(thread: Thread, stored: StoredCheckpoint) -> Iterator[bytes]:
    yield _key_of(stored)
    for channel in stored.channels:
        source = stored.source(channel)
        if source is not None:
            key = value_key(stored.namespace, channel, source)
            yield from (key, key + LEDGER)

    yield from thread.keys(writes_of(stored.namespace, stored.id))


# The names of the conversations of *every* checkpoint whose namespace is among *kept*,
# and their states in the newest one of these.
def _newest_states(
    thread: WritableThread,
    reader: CheckpointReader,
    every: Iterable[StoredCheckpoint],
    kept: Iterable[StoredCheckpoint],
) -> Iterator[tuple[str, Aggregator | None]]:
    newest = {each.namespace: each for each in sorted(kept, key=_key_of)}
    channels = {
        (each.namespace, name): None for each in every for name in each.channels
    }
    for namespace, channel in channels:
        if namespace in newest:
            name = name_of(thread.id, channel, namespace)
            before = thread.rows.state(name)
            yield name, reader.state(newest[namespace], channel, before)
