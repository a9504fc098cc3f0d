"""
The checkpointer: LangGraph's verbs over records and states of a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from conversation_state.adapters.langgraph._verbs import Verbs

__all__ = ["ConversationStateSaver"]


class ConversationStateSaver(Verbs):
    """
    A checkpointer for LangGraph on an open store, for threads and event loops.

    Lists of LangChain's messages, in whatever channel, are kept as shared
    structure: a turn writes what is new in it, every checkpoint stays
    restorable, a fork writes nothing of its past, and `name` tells what
    ``store.load`` gives the conversation for. A list that would not come back
    equal, and all else, is bytes of *serde*, each value once.

    Of two runs that go on from the newest checkpoint at once the second gets a
    `StaleThreadError`, and nobody is passed over. A config that names a
    ``checkpoint_id`` makes a fork, as ever.

    Args:
        store: An open store, which stays the caller's to close.

        serde: LangGraph's serializer; what it encrypts is kept as its bytes,
            messages too.

        allow_siblings: Put a checkpoint also where somebody else has put one
            since the run began, as LangGraph's own checkpointers do: the last
            one is the thread's then, and the other's turn is beside it.

    Raises:
        TypeError:
            If *store* is none.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.close)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """
        The async twin of `get_tuple`.
        """
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph calls it so
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
