"""
Listing checkpoints: the newest first, a page at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from conversation_state.adapters.langgraph import _pruning
from conversation_state.adapters.langgraph._checkpoints import CheckpointReader
from conversation_state.adapters.langgraph._records import (
    checkpoint_key,
    checkpoints_of,
    id_part_of,
)
from conversation_state.adapters.langgraph._threads import Thread
from conversation_state.store import Store
from conversation_state.store.records import Reader, reading

__all__ = ["CheckpointQuery", "configurable_of", "list_pages", "parse_config"]

# How many checkpoints a page has.
_PAGE = 20


def configurable_of(config: RunnableConfig) -> dict[str, Any]:
    return config.get("configurable", {})


def parse_config(config: RunnableConfig) -> tuple[str, str, str | None]:
    """
    The thread, the namespace and the checkpoint that a config names.

    Raises:
        ValueError:
            If it has no thread.
    """
    values = configurable_of(config)
    if "thread_id" not in values:
        msg = 'config: missing thread_id; expected {"configurable": {"thread_id": "1"}}'
        raise ValueError(msg)

    return (
        str(values["thread_id"]),
        values.get("checkpoint_ns") or "",
        values.get("checkpoint_id") or None,
    )


class CheckpointQuery(NamedTuple):
    thread: str | None
    namespace: str | None
    id: str | None
    before: str | None
    metadata: dict[str, Any]

    @classmethod
    def of(
        cls,
        config: RunnableConfig | None,
        before: RunnableConfig | None,
        metadata: dict[str, Any] | None,
    ) -> Self:
        thread = namespace = id = None
        if config is not None:
            thread, _, id = parse_config(config)
            namespace = configurable_of(config).get("checkpoint_ns")

        end = configurable_of(before).get("checkpoint_id") if before else None
        return cls(thread, namespace, id, end, metadata or {})


def list_pages(
    store: Store,
    query: CheckpointQuery,
    read_thread: Callable[[Reader, str], CheckpointReader],
    limit: int | None,
) -> Iterator[Sequence[CheckpointTuple]]:
    if query.thread is not None:
        threads = [query.thread]
    else:
        with reading(store) as rows:
            threads = _pruning.list_threads(rows)

    left = limit
    for thread in threads:
        with reading(store) as rows:
            keys = _checkpoint_keys(Thread(rows, thread), query)

        for at in range(0, len(keys), _PAGE):
            if left is not None and left <= 0:
                return

            with reading(store) as rows:
                some = keys[at : at + _PAGE]
                page = _read_page(read_thread(rows, thread), some, query.metadata, left)

            if left is not None:
                left -= len(page)

            yield page


def _checkpoint_keys(thread: Thread, query: CheckpointQuery) -> list[bytes]:
    keys = [*thread.keys(checkpoints_of(query.namespace))]
    if query.before is not None:
        end = id_part_of(checkpoint_key("", query.before))
        keys = [key for key in keys if id_part_of(key) < end]

    if query.id is not None:
        own = id_part_of(checkpoint_key("", query.id))
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
