"""
The verbs of the checkpointer, for threads; `_saver` has their twins for event
loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
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
from conversation_state.adapters.langgraph._listing import (
    Asked,
    named,
    pages,
    said_in,
)
from conversation_state.adapters.langgraph._putting import Given
from conversation_state.adapters.langgraph._stored import (
    Sources,
    Stored,
    Write,
    config_of,
)
from conversation_state.adapters.langgraph._threads import OwnThread, Thread
from conversation_state.adapters.langgraph._values import dump
from conversation_state.store import Store, open_store
from conversation_state.store._records import Reader, Writer, reading, write

__all__ = ["Verbs"]

# In the config of a checkpoint that was asked for as the newest one: of which
# namespace. Whoever puts the next one with it must not pass anybody over.
_NEWEST = "__conversation_state_newest"
# What LangGraph tells graphs in their configs, and nobody else.
_RUNS = "__pregel_"
_REPLAYS = "__pregel_replay_state"


class Verbs(BaseCheckpointSaver[Any]):
    """
    What `ConversationStateSaver` does, one call after the other.
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
        return self._sources_in(Thread(rows, thread))

    def _sources_in(self, thread: Thread) -> Sources:
        return Sources(thread, self.serde, self._known)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """
        The checkpoint that *config* names, or the newest one; None if there is
        none.
        """
        thread, namespace, id = named(config)
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
                said_in(found)[_NEWEST] = namespace
            elif _NEWEST in said_in(config) or _is_run(config):
                # It may be the newest one; but it is the one that was named.
                said_in(found)[_NEWEST] = None

            return sources.tuple(stored, found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph calls it so
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
    ) -> Iterator[Sequence[CheckpointTuple]]:
        asked = Asked.of(config, before, wanted)
        return pages(self.store, asked, self._sources, limit)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """
        What LangGraph puts the values of its delta channels together from.
        """
        thread, namespace, id = named(config)
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
        thread, namespace, parent = named(config)
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
        return config_of(thread, namespace, checkpoint["id"])

    def _is_next(
        self, config: RunnableConfig, namespace: str, parent: str | None
    ) -> bool:
        """
        Whether a checkpoint has to be the next one after its parent, because
        that was asked for as the newest one.
        """
        said = said_in(config)
        if self._allows_siblings:
            return False

        if parent and _NEWEST in said:
            is_of_it: bool = said[_NEWEST] == namespace
            return is_of_it

        # A run in a thread that was empty, and is not told to replay another.
        return _is_run(config) and not said.get(_REPLAYS)

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
        thread, namespace, id = named(config)
        if not id:
            msg = f"the config names no checkpoint of {thread!r} to keep writes with"
            raise ValueError(msg)

        made = [
            Write(
                *(task_path, task_id, WRITES_IDX_MAP.get(channel, at), channel),
                dump(self.serde, value),
            )
            for at, (channel, value) in enumerate(writes)
        ]
        write(
            self.store,
            lambda rows: _putting.put_writes(
                OwnThread(rows, thread), namespace, id, made
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
            self._keep(thread, is_kept)

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
                self._keep(str(thread), None)

    def _keep(self, thread: str, is_kept: Callable[[Stored], bool] | None) -> None:
        """
        Let go of checkpoints of a thread: of all but the newest, or of others.
        """

        def keep(rows: Writer) -> None:
            own = OwnThread(rows, thread)
            sources = self._sources_in(own)
            if is_kept is None:
                _letting_go.keep_newest(own, sources)
            else:
                _letting_go.keep_where(own, sources, is_kept)

        write(self.store, keep)

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


def _is_run(config: RunnableConfig) -> bool:
    """
    Whether a graph that runs gave *config*, and not somebody outside.
    """
    return any(key.startswith(_RUNS) for key in said_in(config))
