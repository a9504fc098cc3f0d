"""The checkpointer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from conversation_state._waiting import add_async_twins
from conversation_state._wording import (
    add_missing_names,
    describe_type,
    format_count,
    shorten_repr,
)
from conversation_state.errors import NotSavedError
from conversation_state.hosts._host import StoreHost, run_in_thread
from conversation_state.hosts.langgraph import _whole_threads
from conversation_state.hosts.langgraph._checkpoints import (
    CheckpointReader,
    CheckpointWriter,
    NewCheckpoint,
    StoredCheckpoint,
    StoredWrite,
    ThreadId,
    config_of,
    put_writes,
)
from conversation_state.hosts.langgraph._conversations import (
    ConversationCache,
    shares_messages,
)
from conversation_state.hosts.langgraph._threads import (
    Thread,
    WritableThread,
    checkpoint_key,
    name_of,
)
from conversation_state.hosts.langgraph._values import (
    TypedBytes,
    dump_value,
    load_value,
)
from conversation_state.hosts.langgraph._whole_threads import (
    Place,
    configurable_of,
    group_writes,
    list_checkpoints,
    list_pages,
    parse_config,
    read_from_saver,
)
from conversation_state.store import Store
from conversation_state.store.records import Reader, Writer, reading, write

# Keys that LangGraph adds to the config of a graph while it runs.
_RUNS = "__pregel_"
_REPLAYS = "__pregel_replay_state"


@add_async_twins(
    *("copy_from", "copy_thread", "delete_for_runs", "delete_thread"),
    *("get_tuple", "prune", "put", "put_writes"),
    run=run_in_thread,
)
class ConversationStateSaver(StoreHost, BaseCheckpointSaver[Any]):
    """
    A checkpointer for LangGraph on an open store, for threads and event loops.

    Lists of LangChain's messages, in any channel, are kept as shared structure:
    a turn writes its new messages, every checkpoint stays restorable, a fork
    writes nothing of its past, and ``store.load(saver.name(...))`` returns the
    conversation. A list that would not come back equal, and every other value,
    is kept as bytes of *serde*, each value once; what can be read of such a list is
    the conversation.

    Of two concurrent runs that continue the newest checkpoint, the second raises
    `StaleThreadError`; no checkpoint is lost. A config with a ``checkpoint_id``
    makes a fork, as in LangGraph's own checkpointers.

    Args:
        store: An open store, which stays the caller's to close.
        serde: LangGraph's serializer; if it encrypts, messages are kept as its
            bytes, too.
        allow_siblings: Put a checkpoint even if another one was put since the
            run began, as LangGraph's own checkpointers do: the last one is the
            newest of the thread, and the turn of the other one is a branch next
            to it.

    Raises:
        TypeError: If *store* is not an open store.
    """

    def __init__(
        self,
        store: Store,
        *,
        serde: SerializerProtocol | None = None,
        allow_siblings: bool = False,
    ) -> None:
        self._set_store(store)
        super().__init__(serde=serde)
        self._allows_siblings = allow_siblings
        self._cache = ConversationCache()

    def __repr__(self) -> str:
        return f"<ConversationStateSaver {self.store.url}>"

    def name(
        self, thread_id: str, channel: str = "messages", *, checkpoint_ns: str = ""
    ) -> str:
        """The name in the store of a thread's conversation."""
        return name_of(str(thread_id), channel, checkpoint_ns)

    # Reading

    def _read_thread(self, rows: Reader, thread: str) -> CheckpointReader:
        return CheckpointReader(Thread(rows, thread), self.serde, self._cache)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """
        The checkpoint of *config*, or the newest one of its thread; None if
        it is not saved.
        """
        thread, namespace, id = parse_config(config)
        with reading(self.store) as rows:
            reader = self._read_thread(rows, thread)
            stored = reader.find(namespace, id)
            if stored is None:
                return None

            # The id records whether this is the newest checkpoint: then a put with
            # this config is refused if another one was put since.
            looked_up = ThreadId(thread, None if id else namespace)
            return reader.tuple(stored, config_of(looked_up, namespace, stored.id))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph calls it so
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest of each thread first, read a page at a time."""
        for page in self._list_pages(config, filter, before, limit):
            yield from page

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph calls it so
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The async twin of `list`."""
        pages = self._list_pages(config, filter, before, limit)
        while (page := await run_in_thread(next, pages, None)) is not None:
            for each in page:
                yield each

    # A method, since `with_allowlist` makes a copy of the saver with another serde.
    def _list_pages(
        self,
        config: RunnableConfig | None,
        metadata: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[Sequence[CheckpointTuple]]:
        return list_pages(
            self.store,
            self._read_thread,
            config,
            metadata=metadata,
            before=before,
            limit=limit,
        )

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """
        Save a checkpoint atomically.

        Raises:
            StaleThreadError: If the run began from the newest checkpoint, and another
                one was put since.
        """
        # The values are serialised before the write, because other threads wait for
        # it, and because it is repeated after a conflict.
        given = self._prepare_checkpoint(config, checkpoint, metadata, new_versions)
        write(self.store, lambda rows: self._write_checkpoint(rows, given))
        return config_of(given.thread, given.stored.namespace, checkpoint["id"])

    def _prepare_checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> NewCheckpoint:
        thread, namespace, parent = parse_config(config)
        bare: Any = {**checkpoint}
        values = bare.pop("channel_values")
        stored = StoredCheckpoint(
            namespace,
            checkpoint["id"],
            parent or "",
            TypedBytes(*self.serde.dumps_typed(bare)),
            dump_value(self.serde, get_checkpoint_metadata(config, metadata)),
            {},
        )
        return NewCheckpoint(
            thread,
            stored,
            values,
            checkpoint.get("channel_versions") or {},
            frozenset(new_versions),
            follows_parent=self._must_follow_parent(config, namespace, parent),
            shares_messages=shares_messages(self.serde),
        )

    def _write_checkpoint(self, rows: Writer, given: NewCheckpoint) -> None:
        CheckpointWriter(rows, given, self.serde, self._cache).write(self.store.url)

    def _must_follow_parent(
        self, config: RunnableConfig, namespace: str, parent: str | None
    ) -> bool:
        """Whether the parent was looked up as the newest: no other may follow it."""
        if self._allows_siblings:
            return False

        values = configurable_of(config)
        thread = values["thread_id"]
        if parent and isinstance(thread, ThreadId):
            return thread.newest_in == namespace

        # A run in an empty thread looked up nothing, but must not follow another run
        # that began there. A replay and a put outside of a run are not restricted.
        is_run = any(key.startswith(_RUNS) for key in values)
        return is_run and not values.get(_REPLAYS)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote after a checkpoint."""
        thread, namespace, id = parse_config(config)
        if not id:
            raise ValueError(
                f"config: missing checkpoint_id of thread {shorten_repr(thread)}"
            )

        stored = self._prepare_writes(task_id, task_path, writes)
        write(
            self.store,
            lambda rows: put_writes(
                WritableThread(rows, thread), namespace, id, task_id, stored
            ),
        )

    def _prepare_writes(
        self, task: str, path: str, writes: Sequence[tuple[str, Any]]
    ) -> Sequence[StoredWrite]:
        return [
            StoredWrite(
                *(path, task, WRITES_IDX_MAP.get(channel, at), channel),
                dump_value(self.serde, value),
            )
            for at, (channel, value) in enumerate(writes)
        ]

    # Copying and deleting

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread, and its conversations in the store."""
        write(
            self.store, lambda rows: _whole_threads.delete_thread(rows, str(thread_id))
        )

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete all checkpoints of some runs. O(checkpoints)."""
        runs = {str(run) for run in run_ids}
        if not runs:
            return

        def is_kept(stored: StoredCheckpoint) -> bool:
            metadata = load_value(self.serde, stored.metadata)
            return str(metadata.get("run_id")) not in runs

        # Most threads have no checkpoint of these runs, and need no write. The others
        # are pruned in one transaction each, so that another writer never waits for
        # all of them.
        with reading(self.store) as rows:
            found = [
                thread
                for thread in _whole_threads.list_threads(rows)
                if not all(
                    map(is_kept, _whole_threads.read_checkpoints(Thread(rows, thread)))
                )
            ]

        for thread in found:
            self._prune_thread(thread, is_kept)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """
        Copy a thread: O(checkpoints), without its messages, which are shared.

        Raises:
            NotSavedError: If *source_thread_id* is unknown.
            ValueError: If *target_thread_id* exists already.
        """
        write(
            self.store,
            lambda rows: _whole_threads.copy_thread(
                rows, str(source_thread_id), str(target_thread_id), self.store.url
            ),
        )

    def copy_from(
        self, old_saver: BaseCheckpointSaver[Any], thread_id: str | None = None
    ) -> tuple[str, ...]:
        """
        Copy a thread of another checkpointer, or all of its threads: checkpoints,
        namespaces of subgraphs, and what interrupted tasks wrote, so that a run is
        resumed here as it would be there. Returns the ids of the copied threads.

        Each thread is copied in one transaction, as a whole or not at all, and
        should be used by no run meanwhile. A thread whose checkpoints are all here
        already is left as it is, so that a copy of many threads can be continued.
        Usage that the messages report is recorded. O(checkpoints), one of which is
        in memory at a time.

        Args:
            old_saver: Any checkpointer of LangGraph's. `acopy_from` calls it in a
                worker thread, which the asynchronous ones require.
            thread_id: The thread; None for all.

        Raises:
            TypeError: If *old_saver* is not a checkpointer.
            NotSavedError: If it has no checkpoint of *thread_id*.
            ValueError: If a thread is here already, without some of these checkpoints.
                The threads before it are copied.
        """
        if not isinstance(old_saver, BaseCheckpointSaver):
            raise TypeError(
                "old_saver: expected a checkpointer, such as SqliteSaver, got "
                f"{describe_type(old_saver)}"
            )

        config: RunnableConfig | None = None
        if thread_id is not None:
            config = {"configurable": {"thread_id": str(thread_id)}}

        threads = list_checkpoints(old_saver, config)
        if thread_id is not None and str(thread_id) not in threads:
            raise NotSavedError(type(old_saver).__name__, "thread", thread_id)

        copied = []
        for thread, places in threads.items():
            copy = partial(
                self._copy_checkpoints, old=old_saver, thread=thread, places=places
            )
            if write(self.store, copy):
                copied.append(thread)

        return tuple(copied)

    def _copy_checkpoints(
        self,
        rows: Writer,
        *,
        old: BaseCheckpointSaver[Any],
        thread: str,
        places: Mapping[Place, RunnableConfig],
    ) -> bool:
        own = WritableThread(rows, thread)
        if own.prefix is not None:
            missing = [
                place for place in places if own.get(checkpoint_key(*place)) is None
            ]
            if not missing:
                return False

            raise ValueError(
                f"can't copy thread {shorten_repr(thread)}: it exists here already, "
                f"without {format_count(len(missing), 'checkpoint')} of the other "
                "checkpointer; delete it first, or copy into another store"
            )

        for found, parent in read_from_saver(old, thread, places):
            # No channel is given as new, so those of the parent's version are shared.
            given = self._prepare_checkpoint(
                parent, found.checkpoint, found.metadata, {}
            )
            self._write_checkpoint(rows, given)
            namespace, id = given.stored.namespace, given.stored.id
            for task, path, writes in group_writes(found.pending_writes):
                put_writes(
                    WritableThread(rows, thread),
                    *(namespace, id, task),
                    self._prepare_writes(task, path, writes),
                )

        return True

    def prune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest"
    ) -> None:
        """
        Delete all checkpoints of threads but the newest ones, and those they
        are rebuilt from; or delete the threads.

        Args:
            thread_ids: The threads.
            strategy: ``keep_latest``, or ``delete``.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise ValueError(
                "strategy: expected 'keep_latest' or 'delete', got "
                f"{shorten_repr(strategy)}"
            )

        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._prune_thread(str(thread), None)

    def _prune_thread(
        self, thread: str, is_kept: Callable[[StoredCheckpoint], bool] | None
    ) -> None:
        def prune(rows: Writer) -> None:
            own = WritableThread(rows, thread)
            reader = CheckpointReader(own, self.serde, self._cache)
            _whole_threads.prune_thread(own, reader, is_kept)

        write(self.store, prune)

    def get_next_version(self, current: Any, channel: None = None) -> Any:  # noqa: ARG002 - LangGraph gives it
        """
        The version of a channel after *current*: counted from 1 on, or in the
        format of another checkpointer if that made *current*.
        """
        if current is None:
            return 1

        if not isinstance(current, str):
            return current + 1

        # LangGraph compares versions, and texts have the order of their numbers only
        # if these keep their width.
        number, dot, rest = current.partition(".")
        return f"{int(number) + 1:0{len(number)}}{dot}{rest}"


add_missing_names(
    ConversationStateSaver,
    "ConversationStateSaver has",
    {
        "from_conn_string": "ConversationStateSaver.from_url(url) opens a store",
        **dict.fromkeys(("setup", "asetup"), "a store makes its tables when it opens"),
    },
)
