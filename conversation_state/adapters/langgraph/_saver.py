"""
The checkpointer: LangGraph's verbs over records and states of a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from conversation_state.adapters.langgraph import _letting_go, _putting
from conversation_state.adapters.langgraph._conversations import Conversations
from conversation_state.adapters.langgraph._keys import (
    checkpoint_key,
    checkpoints_of,
    name_of,
)
from conversation_state.adapters.langgraph._putting import Given
from conversation_state.adapters.langgraph._stored import Sources, Stored, config_of
from conversation_state.adapters.langgraph._threads import Thread
from conversation_state.adapters.langgraph._values import dump
from conversation_state.store import Store, open_store
from conversation_state.store._records import Reader, reading, write

__all__ = ["ConversationStateSaver"]

# In the config of a checkpoint that was asked for as the newest one: of which
# namespace. Whoever puts the next one with it must not pass anybody over.
_NEWEST = "__conversation_state_newest"
# What LangGraph tells graphs in their configs, and nobody else.
_RUNS = "__pregel_"
_REPLAYS = "__pregel_replay_state"
# How many checkpoints are read at once.
_PAGE = 20


class ConversationStateSaver(BaseCheckpointSaver[Any]):
    """
    A checkpointer on a store.
    """

    def __init__(
        self,
        store: Store,
        *,
        serde: SerializerProtocol | None = None,
        allow_siblings: bool = False,
    ) -> None:
        if not isinstance(store, Store):
            msg = (
                f"store is a {type(store).__name__}; expected an open Store, or use "
                "ConversationStateSaver.from_url"
            )
            raise TypeError(msg)

        super().__init__(serde=serde)
        self.store = store
        self._is_owner = False
        self._allows_siblings = allow_siblings
        self._known = Conversations()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """
        One on the store at *url*, which it opens, and closes with itself.
        """
        store = open_store(url)
        try:
            saver = cls(store, **options)
        except BaseException:
            store.close()
            raise

        saver._is_owner = True
        return saver

    def close(self) -> None:
        """
        Close the store, if it was opened here. Idempotent.
        """
        if self._is_owner:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        return f"<ConversationStateSaver {self.store.url}>"

    def name(
        self, thread_id: str, channel: str = "messages", *, checkpoint_ns: str = ""
    ) -> str:
        """
        What a thread's conversation is saved under in the store.
        """
        return name_of(str(thread_id), channel, checkpoint_ns)

    # Reading

    def _sources(self, rows: Reader, thread: str) -> Sources:
        return Sources(Thread(rows, thread), self.serde, self._known)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """
        The checkpoint that *config* names, or the newest one; None if there is
        none.
        """
        thread, namespace, id = _named(config)
        with reading(self.store) as rows:
            sources = self._sources(rows, thread)
            if id:
                keys = [checkpoint_key(namespace, id)]
            else:
                keys = sources.thread.keys(checkpoints_of(namespace), limit=1)

            stored = sources.stored(keys[0]) if keys else None
            if stored is None:
                return None

            found = config_of(thread, namespace, stored.id)
            if not id:
                found["configurable"][_NEWEST] = namespace
            elif _NEWEST in config["configurable"] or _is_run(config):
                # It may be the newest one; but it is the one that was named.
                found["configurable"][_NEWEST] = None

            return sources.tuple(stored, found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """
        Checkpoints, the newest of each thread first, read some at a time.
        """
        for page in self._pages(config, filter, before, limit):
            yield from page

    def _pages(
        self,
        config: RunnableConfig | None,
        wanted: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[list[CheckpointTuple]]:
        left = limit
        for thread, keys in self._places(config, before):
            for at in range(0, len(keys), _PAGE):
                if left is not None and left <= 0:
                    return

                page = self._page(thread, keys[at : at + _PAGE], wanted, left)
                if left is not None:
                    left -= len(page)

                yield page

    def _places(
        self, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> Iterator[tuple[str, list[bytes]]]:
        """
        The keys of checkpoints by thread, the newest first.
        """
        namespace = id = None
        if config is not None:
            thread, _, id = _named(config)
            namespace = config["configurable"].get("checkpoint_ns")
            threads = [thread]
        else:
            with reading(self.store) as rows:
                threads = _letting_go.threads(rows)

        end = before["configurable"].get("checkpoint_id") if before else None
        for thread in threads:
            with reading(self.store) as rows:
                found = Thread(rows, thread)
                prefix = checkpoints_of(namespace)
                last = None
                if end is not None and namespace is not None:
                    last = checkpoint_key(namespace, end)

                keys = found.keys(prefix, before=last)

            ids = [(key[len(prefix) :], key) for key in keys]
            if namespace is None:
                # After what tells the namespace; none of its own has that end.
                ids = [(key.split(b"\0\1", 1)[1], key) for key in keys]

            tail = len(checkpoints_of(""))
            if end is not None:
                limit = checkpoint_key("", end)[tail:]
                ids = [each for each in ids if each[0] < limit]

            if id:
                own = checkpoint_key("", id)[tail:]
                ids = [each for each in ids if each[0] == own]

            yield thread, [key for _, key in sorted(ids, reverse=True)]

    def _page(
        self,
        thread: str,
        keys: Sequence[bytes],
        wanted: dict[str, Any] | None,
        limit: int | None,
    ) -> list[CheckpointTuple]:
        found: list[CheckpointTuple] = []
        with reading(self.store) as rows:
            sources = self._sources(rows, thread)
            for key in keys:
                if limit is not None and len(found) >= limit:
                    break

                stored = sources.stored(key)
                if stored is None:
                    continue

                if wanted:
                    said = sources.metadata(stored)
                    if any(said.get(name) != value for name, value in wanted.items()):
                        continue

                found.append(sources.tuple(stored))

        return found

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """
        What LangGraph puts the values of its delta channels together from.
        """
        thread, namespace, id = _named(config)
        with reading(self.store) as rows:
            sources = self._sources(rows, thread)
            if id:
                keys = [checkpoint_key(namespace, id)]
            else:
                keys = sources.thread.keys(checkpoints_of(namespace), limit=1)

            stored = sources.stored(keys[0]) if keys else None
            if stored is None:
                return {name: {"writes": []} for name in channels}

            return sources.history(stored, channels)

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """
        Keep a checkpoint, all of it or nothing.

        Raises:
            StaleThreadError:
                If the run began from the newest checkpoint, and somebody else
                has put another one since.
        """
        thread, namespace, parent = _named(config)
        bare: Any = {**checkpoint}
        values = bare.pop("channel_values")
        said = get_checkpoint_metadata(config, metadata)
        stored = Stored(
            namespace,
            checkpoint["id"],
            parent or "",
            dump(self.serde, bare),
            dump(self.serde, said),
            {},
        )
        given = Given(
            thread,
            stored,
            values,
            frozenset(new_versions),
            is_next=self._is_next(config, namespace, parent),
            is_shared=not isinstance(self.serde, EncryptedSerializer),
        )
        write(
            self.store,
            lambda rows: _putting.put(
                rows, given, self.serde, self._known, self.store.url
            ),
        )
        made: Any = config_of(thread, namespace, checkpoint["id"])
        return made  # type: ignore[no-any-return]  # that is what a config is

    def _is_next(
        self, config: RunnableConfig, namespace: str, parent: str | None
    ) -> bool:
        """
        Whether a checkpoint has to be the next one after its parent, because
        that was asked for as the newest one.
        """
        named = config["configurable"]
        if self._allows_siblings:
            return False

        if parent and _NEWEST in named:
            return named[_NEWEST] == namespace

        # A run in a thread that was empty, and is not told to replay another.
        return _is_run(config) and not named.get(_REPLAYS)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """
        Keep what a task wrote after a checkpoint.
        """
        thread, namespace, id = _named(config)
        if not id:
            msg = f"the config names no checkpoint of {thread!r} to keep writes with"
            raise ValueError(msg)

        typed = [(channel, dump(self.serde, value)) for channel, value in writes]
        write(
            self.store,
            lambda rows: _putting.put_writes(
                rows, thread, namespace, id, typed, task_id, task_path
            ),
        )

    # Copying and letting go

    def delete_thread(self, thread_id: str) -> None:
        """
        Let go of a thread, and of its conversations in the store.
        """
        write(self.store, lambda rows: _letting_go.delete(rows, str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """
        Let go of all checkpoints that some runs made. O(checkpoints).
        """
        runs = {str(run) for run in run_ids}
        if not runs:
            return

        def is_kept(stored: Stored) -> bool:
            said = self.serde.loads_typed(stored.metadata)
            return str(said.get("run_id")) not in runs

        with reading(self.store) as rows:
            found = [
                thread
                for thread in _letting_go.threads(rows)
                if not all(map(is_kept, _letting_go.all_of(Thread(rows, thread))))
            ]

        for thread in found:
            write(
                self.store,
                lambda rows, thread=thread: _letting_go.keep_where(
                    rows, thread, self.serde, self._known, is_kept
                ),
            )

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """
        Make another thread that is what this one is. A few rows.

        Raises:
            NotSavedError:
                If there is no such thread.

            ValueError:
                If the other one is there already.
        """
        write(
            self.store,
            lambda rows: _letting_go.copy(
                rows, str(source_thread_id), str(target_thread_id), self.store.url
            ),
        )

    def prune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> None:
        """
        Let go of all checkpoints of threads but the newest ones, and what
        those need; or of the threads.

        Args:
            thread_ids: The threads.

            strategy: ``keep_latest``, or ``delete``.
        """
        if strategy not in {"keep_latest", "delete"}:
            msg = f"strategy is {strategy!r}; expected 'keep_latest' or 'delete'"
            raise ValueError(msg)

        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                write(
                    self.store,
                    lambda rows, thread=thread: _letting_go.keep_newest(
                        rows, str(thread), self.serde, self._known
                    ),
                )

    def get_next_version(self, current: Any, channel: None = None) -> Any:  # noqa: ARG002 - LangGraph gives it
        """
        The version of a channel after *current*: counted from 1 on, and in the
        words of other checkpointers where those had begun.
        """
        if current is None:
            return 1

        if not isinstance(current, str):
            return current + 1

        number, dot, rest = current.partition(".")
        return f"{int(number) + 1:0{len(number)}}{dot}{rest}"

    # The same for event loops

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """
        The async twin of `get_tuple`.
        """
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """
        The async twin of `list`.
        """
        pages = self._pages(config, filter, before, limit)
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            for each in page:
                yield each

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """
        The async twin of `get_delta_channel_history`.
        """
        get = partial(self.get_delta_channel_history, config=config, channels=channels)
        return await asyncio.to_thread(get)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """
        The async twin of `put`.
        """
        put = partial(self.put, config, checkpoint, metadata, new_versions)
        return await asyncio.to_thread(put)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """
        The async twin of `put_writes`.
        """
        put = partial(self.put_writes, config, writes, task_id, task_path)
        await asyncio.to_thread(put)

    async def adelete_thread(self, thread_id: str) -> None:
        """
        The async twin of `delete_thread`.
        """
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """
        The async twin of `delete_for_runs`.
        """
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """
        The async twin of `copy_thread`.
        """
        copy = partial(self.copy_thread, source_thread_id, target_thread_id)
        await asyncio.to_thread(copy)

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> None:
        """
        The async twin of `prune`.
        """
        await asyncio.to_thread(partial(self.prune, thread_ids, strategy=strategy))


def _is_run(config: RunnableConfig) -> bool:
    """
    Whether a graph that runs gave *config*, and not somebody outside.
    """
    return any(key.startswith(_RUNS) for key in config["configurable"])


def _named(config: RunnableConfig) -> tuple[str, str, str | None]:
    """
    The thread, the namespace and the checkpoint that a config names.
    """
    named = config.get("configurable", {})
    if "thread_id" not in named:
        msg = (
            "the config names no thread; give it one: "
            '{"configurable": {"thread_id": "1"}}'
        )
        raise ValueError(msg)

    return (
        str(named["thread_id"]),
        named.get("checkpoint_ns") or "",
        named.get("checkpoint_id") or None,
    )
