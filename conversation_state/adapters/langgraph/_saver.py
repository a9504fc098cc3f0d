"""
The checkpointer, with the async twins of its methods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

from conversation_state.adapters._host import run_in_thread
from conversation_state.adapters.langgraph._sync_saver import SyncSaver

__all__ = ["ConversationStateSaver"]


class ConversationStateSaver(SyncSaver):
    """
    A checkpointer for LangGraph on an open store, for threads and event loops.

    Lists of LangChain's messages, in any channel, are kept as shared structure:
    a turn writes its new messages, every checkpoint stays restorable, a fork
    writes nothing of its past, and ``store.load(saver.name(...))`` returns the
    conversation. A list that would not come back equal, and every other value,
    is kept as bytes of *serde*, each value once.

    Of two concurrent runs that continue the newest checkpoint, the second raises
    `StaleThreadError`; no checkpoint is lost. A config with a ``checkpoint_id``
    makes a fork, as in LangGraph's own checkpointers.

    Args:
        store: An open store, which stays the caller's to close.

        serde: LangGraph's serializer; if it encrypts, messages are kept as its
            bytes, too.

        allow_siblings: Put a checkpoint also where another one was put since
            the run began, as LangGraph's own checkpointers do: the last one is
            the newest of the thread, and the other's turn is beside it.

    Raises:
        TypeError:
            If *store* is not an open store.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """
        The async twin of `get_tuple`.
        """
        return await run_in_thread(self.get_tuple, config)

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
        pages = self._list_pages(config, filter, before, limit)
        while (page := await run_in_thread(next, pages, None)) is not None:
            for each in page:
                yield each

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """
        The async twin of `get_delta_channel_history`.
        """
        return await run_in_thread(
            self.get_delta_channel_history, config=config, channels=channels
        )

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
        return await run_in_thread(self.put, config, checkpoint, metadata, new_versions)

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
        await run_in_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """
        The async twin of `delete_thread`.
        """
        await run_in_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """
        The async twin of `delete_for_runs`.
        """
        await run_in_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """
        The async twin of `copy_thread`.
        """
        await run_in_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> None:
        """
        The async twin of `prune`.
        """
        await run_in_thread(self.prune, thread_ids, strategy=strategy)
