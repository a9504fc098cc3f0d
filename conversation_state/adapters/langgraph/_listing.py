"""
Listing checkpoints: the newest first, some of them read at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from conversation_state.adapters.langgraph import _letting_go
from conversation_state.adapters.langgraph._keys import (
    checkpoint_key,
    checkpoints_of,
    id_in,
)
from conversation_state.adapters.langgraph._stored import Sources
from conversation_state.adapters.langgraph._threads import Thread
from conversation_state.store import Store
from conversation_state.store._records import Reader, reading

__all__ = ["Asked", "named", "pages", "said_in"]

# How many checkpoints are read at once.
_PAGE = 20


def said_in(config: RunnableConfig) -> dict[str, Any]:
    """
    What a config says to whom it concerns.
    """
    return config.get("configurable", {})


def named(config: RunnableConfig) -> tuple[str, str, str | None]:
    """
    The thread, the namespace and the checkpoint that a config names.

    Raises:
        ValueError:
            If it names no thread.
    """
    said = said_in(config)
    if "thread_id" not in said:
        msg = (
            "the config names no thread; give it one: "
            '{"configurable": {"thread_id": "1"}}'
        )
        raise ValueError(msg)

    return (
        str(said["thread_id"]),
        said.get("checkpoint_ns") or "",
        said.get("checkpoint_id") or None,
    )


class Asked(NamedTuple):
    """
    Which checkpoints are asked for; None stands for any.
    """

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
        """
        What LangGraph asks for.
        """
        thread = namespace = id = None
        if config is not None:
            thread, _, id = named(config)
            namespace = said_in(config).get("checkpoint_ns")

        end = said_in(before).get("checkpoint_id") if before else None
        return cls(thread, namespace, id, end, metadata or {})


def pages(
    store: Store,
    asked: Asked,
    sources: Callable[[Reader, str], Sources],
    limit: int | None,
) -> Iterator[Sequence[CheckpointTuple]]:
    """
    Those that are asked for, at most *limit*.
    """
    if asked.thread is not None:
        threads = [asked.thread]
    else:
        with reading(store) as rows:
            threads = _letting_go.threads(rows)

    left = limit
    for thread in threads:
        with reading(store) as rows:
            keys = _keys(Thread(rows, thread), asked)

        for at in range(0, len(keys), _PAGE):
            if left is not None and left <= 0:
                return

            with reading(store) as rows:
                some = keys[at : at + _PAGE]
                page = _page(sources(rows, thread), some, asked.metadata, left)

            if left is not None:
                left -= len(page)

            yield page


def _keys(thread: Thread, asked: Asked) -> list[bytes]:
    """
    The keys of a thread's checkpoints, the newest first.
    """
    keys = thread.keys(checkpoints_of(asked.namespace))
    if asked.before is not None:
        end = id_in(checkpoint_key("", asked.before))
        keys = [key for key in keys if id_in(key) < end]

    if asked.id is not None:
        own = id_in(checkpoint_key("", asked.id))
        keys = [key for key in keys if id_in(key) == own]

    return sorted(keys, key=id_in, reverse=True)


def _page(
    sources: Sources,
    keys: Sequence[bytes],
    metadata: dict[str, Any],
    limit: int | None,
) -> list[CheckpointTuple]:
    found: list[CheckpointTuple] = []
    for key in keys:
        if limit is not None and len(found) >= limit:
            break

        stored = sources.stored(key)
        if stored is None:
            continue  # somebody let go of it meanwhile

        if metadata:
            said = sources.metadata(stored)
            if any(said.get(name) != value for name, value in metadata.items()):
                continue

        found.append(sources.tuple(stored))

    return found
