"""
Reads the checkpoints of LangGraph's ``SqliteSaver`` as trees of messages.

The data of objects is read, and no object is made of it.

Source:
    ``SqliteSaver`` of langgraph-checkpoint-sqlite 3.1.2, its serializer in
    langgraph-checkpoint 4.3.2, and ``get_state`` of langgraph 1.2.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr
from conversation_state.adapters import openai_chat
from conversation_state.adapters.engine.reading import order_by_parents
from conversation_state.aggregator import Entry
from conversation_state.cli._framework_trees import (
    MESSAGE_CLASSES,
    BranchBuilder,
    FileMessage,
    FrameworkConversation,
    RowError,
    list_tables,
    load_langchain,
    make_entries,
)
from conversation_state.errors import DecodeError, MissingExtraError


class _PackedObject(NamedTuple):
    # An object in msgpack: its code, and what it is made of.
    code: int
    data: bytes


_CONSTRUCTORS = frozenset({0, 1, 2, 3, 4, 5})
_PYDANTIC = frozenset({4, 5})
_SNAPSHOT = 7
_REMOVE_ALL = "__remove_all__"
# Channels of LangGraph's own, which are no part of a state.
_INTERNAL = ("__", "branch:", "start:")


def _unpack_data(data: bytes) -> Any:
    try:
        import ormsgpack
    except ImportError as error:
        wanted = "import --from langgraph"
        raise MissingExtraError(wanted, "langgraph") from error

    try:
        return ormsgpack.unpackb(
            data, ext_hook=_PackedObject, option=ormsgpack.OPT_NON_STR_KEYS
        )
    except (ValueError, RecursionError) as error:
        raise RowError(f"it is no msgpack ({error})") from None


def _unpack_object(packed: _PackedObject) -> tuple[object, Any]:
    """The name of the class of an object, and the data it was made of."""
    inner = _unpack_data(packed.data)
    if packed.code not in _CONSTRUCTORS:
        return None, inner

    if not isinstance(inner, list) or len(inner) < 3:  # noqa: PLR2004 - module, name, data
        raise RowError(f"an object of code {packed.code} has no data")

    return inner[1], inner[2]


def _make_plain(value: Any) -> Any:
    """*value* with the data of objects in their places."""
    if isinstance(value, _PackedObject):
        return _make_plain(_unpack_object(value)[1])

    if isinstance(value, dict):
        # A list can be a key in msgpack, and is a tuple then.
        return {
            str(_make_plain(key)) if isinstance(key, tuple) else key: _make_plain(each)
            for key, each in value.items()
        }

    if isinstance(value, (list, tuple)):
        return [_make_plain(each) for each in value]

    return value


class _Checkpoint(NamedTuple):
    parent: str | None
    # The messages of each channel that has some, and the versions of all channels.
    messages: Mapping[str, Log[Entry]]
    versions: Mapping[str, Any]
    others: frozenset[str]


class _ThreadReader:
    """The checkpoints of one thread in one namespace."""

    def __init__(self, db: sqlite3.Connection, thread: str, namespace: str) -> None:
        self._db = db
        self._key = (thread, namespace)
        # Most messages are in many checkpoints: each is loaded once.
        self._loaded: dict[bytes, FileMessage] = {}
        # The ids that messages have in the file, by entry.
        self._said: dict[str, FileMessage] = {}
        self.checkpoints: dict[str, _Checkpoint] = {}
        self.unfinished: dict[str, Log[Entry]] = {}
        self.problems: list[str] = []

    def read(self) -> None:
        rows = self._db.execute(
            "SELECT CAST(checkpoint_id AS TEXT), CAST(parent_checkpoint_id AS TEXT), "
            "rowid FROM checkpoints "
            "WHERE thread_id IS ? AND checkpoint_ns IS ? ORDER BY 1",
            self._key,
        ).fetchall()
        parents: dict[str, str | None] = {id: parent for id, parent, _ in rows}
        numbers = {id: number for id, _, number in rows}
        # A parent that is missing, or its own ancestor, is ignored.
        for id in order_by_parents(parents, parents):
            try:
                found = self._read_checkpoint(numbers[id], parents[id])
            except (RowError, DecodeError, RecursionError, sqlite3.Error) as error:
                self.problems.append(f"checkpoint {id} is left out: {error}")
            else:
                self.checkpoints[id] = found

        try:
            self._read_unfinished()
        except (RowError, DecodeError, RecursionError, sqlite3.Error) as error:
            self.problems.append(f"the writes of the last step are left out: {error}")

    def branches(self, channel: str) -> list[Log[Entry]]:
        """
        The lists of messages that a channel had and that no other one goes on with, in
        the order of their checkpoints, the newest last.
        """
        logs = {
            id: each.messages[channel]
            for id, each in sorted(self.checkpoints.items())
            if channel in each.messages
        }
        continued: set[str | None] = set()
        for id, log in logs.items():
            parent = self.checkpoints[id].parent
            old = logs.get(parent or "")
            if old is not None and log.common_prefix(old) == len(old):
                continued.add(parent)

        newest = max(logs, default="")
        last = [logs[newest]] if logs else []
        if channel in self.unfinished:
            last.append(self.unfinished[channel])

        others = logs.keys() - continued - {newest}
        return [logs[id] for id in sorted(others)] + last

    def _read_checkpoint(self, number: int, parent: str | None) -> _Checkpoint:
        query = "SELECT type, checkpoint FROM checkpoints WHERE rowid = ?"
        kind, data = self._db.execute(query, (number,)).fetchone()
        found = _load_typed(kind, data)
        values = found.get("channel_values") if isinstance(found, dict) else None
        if not isinstance(values, dict):
            raise RowError("it has no channel_values")

        versions = found.get("channel_versions")
        versions = versions if isinstance(versions, dict) else {}
        before = self.checkpoints.get(parent or "")
        messages: dict[str, Log[Entry]] = {}
        others = set()
        for channel, value in values.items():
            if not isinstance(channel, str) or channel.startswith(_INTERNAL):
                continue

            old: Log[Entry] = Log()
            if before is not None:
                old = before.messages.get(channel, old)

            said = self._read_list(value, is_known=bool(old))
            if said is None:
                others.add(channel)
            else:
                messages[channel] = self._extend_log(old, said)

        # Of a delta channel there are only the writes since its last value.
        for channel, version in versions.items():
            if channel not in values and not str(channel).startswith(_INTERNAL):
                log = self._replay_channel(channel, version, parent)
                if log is not None:
                    messages[channel] = log

        return _Checkpoint(parent, messages, versions, frozenset(others))

    def _replay_channel(
        self, channel: str, version: Any, parent: str | None
    ) -> Log[Entry] | None:
        before = self.checkpoints.get(parent or "")
        if before is None:
            return None

        old = before.messages.get(channel)
        if before.versions.get(channel) == version:
            return old

        return self._apply_writes(old, str(parent), channel)

    def _apply_writes(
        self, old: Log[Entry] | None, checkpoint: str, channel: str
    ) -> Log[Entry] | None:
        """The messages of a channel after what the tasks behind a checkpoint wrote."""
        # Files of older releases have no paths of tasks.
        has_path = "task_path" in list_tables(self._db).get("writes", set())
        order = "task_path, task_id, idx" if has_path else "task_id, idx"
        writes = self._db.execute(
            "SELECT type, value FROM writes WHERE thread_id IS ? AND "  # noqa: S608 - of constants
            "checkpoint_ns IS ? AND checkpoint_id IS ? AND channel IS ? "
            f"ORDER BY {order}",
            (*self._key, checkpoint, channel),
        )
        said = [self._said[entry.id] for entry in old or ()]
        for kind, data in writes.fetchall():
            value = _load_typed(kind, data)
            if isinstance(value, _PackedObject):
                name, inner = _unpack_object(value)
                if name == "Overwrite" and isinstance(inner, dict):
                    said, value = [], inner.get("value")

            listed = value if isinstance(value, list) else [value]
            new = self._read_list(listed, is_known=True)
            if new is None:
                return old

            said = _reduce_messages(said, new)

        return self._extend_log(old or Log(), said) if said or old is not None else None

    def _read_unfinished(self) -> None:
        # LangGraph's `get_state` shows what finished tasks of the last step wrote.
        newest = max(self.checkpoints, default="")
        channels = self._db.execute(
            "SELECT DISTINCT channel FROM writes WHERE thread_id IS ? "
            "AND checkpoint_ns IS ? AND checkpoint_id IS ?",
            (*self._key, newest),
        )
        for (channel,) in channels.fetchall() if newest else ():
            if isinstance(channel, str) and not channel.startswith(_INTERNAL):
                old = self.checkpoints[newest].messages.get(channel)
                log = self._apply_writes(old, newest, channel)
                if log is not None and log is not old:
                    self.unfinished[channel] = log

    def _extend_log(self, old: Log[Entry], said: Sequence[FileMessage]) -> Log[Entry]:
        entries = make_entries(said)
        self._said.update(zip([entry.id for entry in entries], said, strict=True))
        common = 0
        for mine, theirs in zip(old, entries, strict=False):
            if mine.id != theirs.id:
                break

            common += 1

        return old.take(common).extend(entries[common:])

    def _read_list(self, value: Any, *, is_known: bool) -> list[FileMessage] | None:
        """The messages in *value*; None if it is no list of messages."""
        if isinstance(value, _PackedObject) and value.code == _SNAPSHOT:
            value = _unpack_data(value.data)

        if not isinstance(value, list) or not (value or is_known):
            return None

        if value and all(_is_chat(each) for each in value):
            try:
                return [
                    FileMessage.of(each)
                    for each in openai_chat.load(_make_plain(value))
                ]
            except DecodeError:
                return None

        said = [self._read_message(each) for each in value]
        return None if None in said else said  # type: ignore[return-value]  # none is

    def _read_message(self, value: Any) -> FileMessage | None:
        if isinstance(value, _PackedObject):
            if value.code not in _PYDANTIC:
                return None

            known = self._loaded.get(value.data)
            if known is not None:
                return known

            name, fields = _unpack_object(value)
        elif isinstance(value, dict) and value.get("type") == "constructor":
            # The serializer of older releases: JSON, with the path of the class.
            path, fields = value.get("id"), value.get("kwargs")
            name = path[-1] if isinstance(path, list) and path else None
        else:
            return None

        if not _is_langchain(name, fields):
            return None

        said = load_langchain(str(name), _make_plain(fields))
        if isinstance(value, _PackedObject):
            self._loaded[value.data] = said

        return said


def _is_chat(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _is_langchain(name: object, fields: Any) -> bool:
    if not isinstance(fields, dict) or "content" not in fields:
        return False

    kind = fields.get("type")
    named = (
        isinstance(name, str) and name.removesuffix("Chunk") in MESSAGE_CLASSES.values()
    )
    return named or (isinstance(kind, str) and kind in MESSAGE_CLASSES)


def _reduce_messages(
    old: Sequence[FileMessage], new: Iterable[FileMessage]
) -> list[FileMessage]:
    """
    *old* messages after a write of *new* ones: one with a known id takes the place of
    that, a `RemoveMessage` removes it.

    Source:
        ``add_messages`` of langgraph 1.2.
    """
    merged: list[FileMessage] = [*old]
    for said in new:
        at = next(
            (at for at, each in enumerate(merged) if said.id and each.id == said.id),
            None,
        )
        if said.removes:
            if said.id == _REMOVE_ALL:
                merged = []
            elif at is not None:
                del merged[at]
        elif at is None:
            merged.append(said)
        else:
            merged[at] = said

    return merged


def _load_typed(kind: object, data: Any) -> Any:
    data = data.encode() if isinstance(data, str) else data
    if kind == "null":
        return None

    if kind == "msgpack" and isinstance(data, bytes):
        return _unpack_data(data)

    if kind == "json" and isinstance(data, bytes):
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RowError(f"it is not JSON ({error})") from None

    if kind in {"bytes", "bytearray"}:
        return data

    if isinstance(kind, str) and "+" in kind:
        raise RowError(f"it is encrypted ({shorten_repr(kind)})")

    raise RowError(
        f"it is of the kind {shorten_repr(kind)}, which only code could read"
    )


def read_langgraph(
    db: sqlite3.Connection, tables: Sequence[str]
) -> Iterator[FrameworkConversation]:
    """
    ``SqliteSaver``: a row for each checkpoint, with all messages at that moment. A
    checkpoint with several children is where branches part.
    """
    del tables
    places = db.execute(
        "SELECT DISTINCT thread_id, checkpoint_ns FROM checkpoints ORDER BY 1, 2"
    ).fetchall()
    for thread, group in groupby(places, key=lambda row: row[0]):
        seen: set[str] = set()
        problems: list[str] = []
        left_out: set[str] = set()
        left = ""
        found: list[FrameworkConversation] = []
        for _, namespace in group:
            reader = _ThreadReader(db, thread, namespace)
            reader.read()
            problems += reader.problems
            left_out.update(*[each.others for each in reader.checkpoints.values()])
            found += _make_trees(reader, str(thread), str(namespace), seen)

        if left_out:
            listed = ", ".join(sorted(map(shorten_repr, left_out)))
            left = f"channels without messages are left out: {listed}"

        found = found or [FrameworkConversation(str(thread), None)]
        found[0] = found[0]._replace(damage=problems, left_out=left)

        yield from found


def _make_trees(
    reader: _ThreadReader, thread: str, namespace: str, seen: set[str]
) -> Iterator[FrameworkConversation]:
    channels = {
        name: None for each in reader.checkpoints.values() for name in each.messages
    }
    channels |= dict.fromkeys(reader.unfinished)
    # The usual channel of a graph is named as the thread is.
    main = "messages" if "messages" in channels else next(iter(channels), "")
    for channel in sorted(channels, key=lambda name: (name != main, name)):
        logs = reader.branches(channel)
        ids = {entry.id for log in logs for entry in log}
        # What a subgraph was given and gave back is in the thread already.
        if not ids or (namespace and ids <= seen):
            continue

        seen |= ids
        parts = [thread, namespace, "" if channel == main else channel]
        name = "/".join([part for part in parts if part])
        branches = BranchBuilder(f"langgraph:{name}")
        for log in logs:
            branches.add(log)

        yield FrameworkConversation(name, branches.build())
