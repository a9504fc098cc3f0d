"""
Reads conversations out of the SQLite files in which frameworks keep them.

What lives here: the tables of LangGraph's savers, the Agents SDK's sessions and
LangChain's histories, opened read-only and read as data: nothing is unpickled, no class
is made or imported because a file names it. What does not: what a message says
(`adapters.langchain`, `hosts.agents`), and what is done with a conversation
(`_transfer`).

Source:
    ``SqliteSaver`` of langgraph-checkpoint-sqlite 3.1.2 and its serializer in
    langgraph-checkpoint 4.3.2; ``SQLiteSession`` and ``AdvancedSQLiteSession`` of
    openai-agents 0.24; ``SQLChatMessageHistory`` of langchain-community 0.4.2.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr, shorten_text
from conversation_state.adapters import langchain, openai_chat
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.cli._input import (
    STANDARD_INPUT,
    InputConversation,
    UnreadableInput,
)
from conversation_state.codec import encode
from conversation_state.errors import DecodeError, InvalidUsageError, MissingExtraError
from conversation_state.hosts import agents
from conversation_state.messages import Message
from conversation_state.tree import MessageTree
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

_NAMESPACE = uuid.UUID("b5b1b1f8-0f6b-5d0f-9a57-6f1b43f5b7a2")
_SQLITE = b"SQLite format 3\0"
_MAX_REASON = 300
_MAX_REASONS = 10
_MAX_TABLES = 5


class _ReadError(Exception):
    # What is wrong with a row or a file, as the end of a sentence.
    pass


def read_files(
    source: str, files: Sequence[str], *, advance: Callable[[int], object]
) -> Iterator[InputConversation | UnreadableInput]:
    """
    All conversations of *files* that the framework *source* wrote, one of `SOURCES`,
    each as a tree with the branches that the file has; what can't be read in between.

    Args:
        source: One of `SOURCES`.

        files: Paths.

        advance: Called with the size of each file that was read.
    """
    for file in files:
        size = 0
        try:
            if file == STANDARD_INPUT:
                yield UnreadableInput(file, 0, "expected a file, which SQLite can open")
                continue

            with _open(file) as (db, size):
                kind = SOURCES[source]
                tables = kind.find(db)
                if tables:
                    for found in kind.read(db, tables):
                        yield from found.to_inputs(file)
                else:
                    yield UnreadableInput(file, 0, _describe_tables(db, source))
        except (_ReadError, sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            yield UnreadableInput(file, 0, shorten_text(reason, _MAX_REASON))
        except UnicodeDecodeError:
            # SQLite quotes what it finds where its schema should be.
            yield UnreadableInput(
                file, 0, "a damaged SQLite file: its schema is no text"
            )

        advance(size)


@contextmanager
def _open(file: str) -> Iterator[tuple[sqlite3.Connection, int]]:
    path = Path(file)
    with path.open("rb") as stream:
        head = stream.read(20)

    if not head.startswith(_SQLITE):
        raise _ReadError("not a SQLite file, in which this framework keeps its data")

    # SQLite makes files beside one in WAL mode even to read it, unless it is told that
    # nobody writes; while somebody does, there is a log beside it.
    has_log = path.with_name(f"{path.name}-wal").exists()
    is_wal = head[18:20] == b"\2\2"
    mode = "mode=ro&immutable=1" if is_wal and not has_log else "mode=ro"
    url = f"{path.resolve().as_uri()}?{mode}"
    with closing(sqlite3.connect(url, uri=True, isolation_level=None)) as db:
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        # No function that the schema names is called, and all is read at one moment.
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("BEGIN")
        yield db, path.stat().st_size


class _FoundConversation(NamedTuple):
    name: str
    tree: MessageTree | None  # None if it has no messages
    damage: Sequence[str] = ()  # what could not be read
    left_out: str = ""  # what is no part of a conversation

    def to_inputs(self, file: str) -> Iterator[InputConversation | UnreadableInput]:
        if self.tree is not None:
            yield InputConversation(
                name=self.name,
                file=file,
                line=0,
                messages=tuple(self.tree.present.messages),
                id=self.name,
                tree=self.tree,
                mended=(self.left_out,) if self.left_out else (),
            )

        reasons = self.damage
        if self.tree is None and not reasons:
            reasons = (f"no messages; {self.left_out or 'nothing was said'}",)

        for reason in reasons[:_MAX_REASONS]:
            yield self._refuse(file, reason)

        if len(reasons) > _MAX_REASONS:
            yield self._refuse(file, f"{len(reasons) - _MAX_REASONS:,} more")

    def _refuse(self, file: str, reason: str) -> UnreadableInput:
        reason = shorten_text(f"{shorten_repr(self.name)}: {reason}", _MAX_REASON)
        return UnreadableInput(file, 0, reason)


# Tables


def _list_tables(db: sqlite3.Connection) -> dict[str, set[str]]:
    # The tables, each with its columns. A view could run for ever.
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
    names = [name for (name,) in db.execute(tables).fetchall()]
    found = {}
    for name in names:
        rows = db.execute("SELECT name FROM pragma_table_info(?)", (name,))
        found[name] = {column for (column,) in rows}

    return found


def _quote(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _find_tables(columns: Iterable[str]) -> Callable[[sqlite3.Connection], list[str]]:
    # Frameworks let their users name the tables, so they are known by their columns.
    wanted = set(columns)

    def find(db: sqlite3.Connection) -> list[str]:
        return [name for name, has in _list_tables(db).items() if wanted <= has]

    return find


def _describe_tables(db: sqlite3.Connection, source: str) -> str:
    other = [name for name, each in SOURCES.items() if each.find(db)]
    if other:
        return f"no file of {source}, but of {other[0]}: give --from {other[0]}"

    names = [*_list_tables(db)]
    more = len(names) - _MAX_TABLES
    listed = ", ".join([shorten_repr(name) for name in names[:_MAX_TABLES]])
    has = f"{listed} and {more} more" if more > 0 else listed or "no tables"
    return f"no file of {source}; expected {SOURCES[source].expected}, found {has}"


# Trees


class _BranchBuilder:
    """
    The lists of messages that one conversation had, as a tree whose identities follow
    from the file, so that a file that has grown is imported again as what it adds.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._states: list[Log[Entry]] = []
        self._ledger: dict[str, LedgerEntry] = {}

    def add(self, entries: Log[Entry]) -> None:
        self._states.append(entries)

    def bill(self, entry: LedgerEntry) -> None:
        self._ledger[entry.id] = entry

    def build(self) -> MessageTree | None:
        """The tree, of which the list that was added last is shown."""
        if not any(self._states):
            return None

        *others, shown = [self._make_state(entries) for entries in self._states]
        return MessageTree.of(*others, shown)

    def _make_state(self, entries: Log[Entry]) -> Aggregator:
        state = self._rebuild(entries, Log()).record_responses()
        # The times are unknown; those of this import would differ from the next one's.
        ledger = [each._replace(at=None) for each in state.ledger]
        return self._rebuild(entries, Log([*ledger, *self._ledger.values()]))

    def _rebuild(self, entries: Log[Entry], ledger: Log[LedgerEntry]) -> Aggregator:
        return Aggregator.rebuild(
            id=uuid.uuid5(_NAMESPACE, self.name),
            parent_id=None,
            root_id=None,
            init_len=0,
            init_ledger_len=0,
            entries=entries,
            ledger=ledger,
        )


class _FileMessage(NamedTuple):
    # A message, its id in the file or "", and its digest; whether it stands for the
    # removal of the one with its id.
    message: Message
    id: str
    digest: bytes
    removes: bool = False

    @classmethod
    def of(
        cls, message: Message, id: object = "", *, removes: bool = False
    ) -> _FileMessage:
        digest = hashlib.sha256(encode(message)).digest()
        return cls(message, id if isinstance(id, str) else "", digest, removes)


def _make_entries(messages: Iterable[_FileMessage]) -> list[Entry]:
    """
    The entries of *messages*: identified by their ids and what they say; without an id,
    by what they say and what is before them.
    """
    entries: list[Entry] = []
    seen: set[str] = set()
    before = ""
    for said in messages:
        id = _identify(said.id, said.digest) if said.id else ""
        if not id or id in seen:
            id = _identify(f"after {before}", said.digest)

        seen.add(id)
        entries.append(Entry(id, said.message))
        before = id

    return entries


def _identify(place: str, digest: bytes) -> str:
    whole = hashlib.sha256(place.encode("utf-8", "surrogatepass") + b"\n" + digest)
    return whole.hexdigest()[:32]


# LangChain's messages, as plain data

_CLASSES: Mapping[str, str] = {
    "ai": "AIMessage",
    "chat": "ChatMessage",
    "function": "FunctionMessage",
    "human": "HumanMessage",
    "remove": "RemoveMessage",
    "system": "SystemMessage",
    "tool": "ToolMessage",
}


def _load_langchain(name: str, fields: Mapping[str, Any]) -> _FileMessage:
    kind = fields.get("type")
    known = {*_CLASSES.values(), *[f"{each}Chunk" for each in _CLASSES.values()]}
    if name not in known:
        # A subclass of somebody's says what it is derived from.
        name = kind if isinstance(kind, str) else ""
        name = _CLASSES.get(name, name)

    is_message = name in known and "content" in fields
    if not is_message or not all(isinstance(key, str) for key in fields):
        raise _ReadError(f"no message of LangChain's: {shorten_repr(fields)}")

    # No class of LangChain's runs code for what its fields are set to here.
    message = langchain.load_message(langchain.make_message(name, fields))
    return _FileMessage.of(message, fields.get("id"), removes=name == "RemoveMessage")


def _read_langchain(
    db: sqlite3.Connection, tables: Sequence[str]
) -> Iterator[_FoundConversation]:
    """``SQLChatMessageHistory``: a row for each message."""
    for table in tables:
        rows = db.execute(
            f"SELECT CAST(session_id AS TEXT), id, message FROM {_quote(table)} "  # noqa: S608 - quoted
            "ORDER BY 1, id"
        )
        for session, group in groupby(rows, key=lambda row: row[0] or ""):
            name = session if len(tables) == 1 else f"{table}/{session}"
            messages, problems = [], []
            for _, number, text in group:
                try:
                    row = _parse(text)
                    data = row.get("data")
                    fields = data if isinstance(data, dict) else {}
                    fields = {"type": row.get("type"), **fields}
                    messages.append(_load_langchain("", fields))
                except (_ReadError, DecodeError) as error:
                    problems.append(f"row {number} is left out: {error}")

            branches = _BranchBuilder(f"langchain:{name}")
            branches.add(Log(_make_entries(messages)))
            yield _FoundConversation(name, branches.build(), problems)


def _parse(text: object) -> dict[str, Any]:
    try:
        found = json.loads(text)  # type: ignore[arg-type]  # a TypeError else
    except (TypeError, ValueError, RecursionError) as error:
        raise _ReadError(f"it is not JSON ({error})") from None

    if not isinstance(found, dict):
        raise _ReadError(f"expected a JSON object, got {shorten_repr(found)}")

    return found


# The Agents SDK


class _AgentRow(NamedTuple):
    branch: str
    id: int
    text: str


def _read_agents(
    db: sqlite3.Connection, tables: Sequence[str]
) -> Iterator[_FoundConversation]:
    """
    ``SQLiteSession``: a row for each item; ``AdvancedSQLiteSession`` says of which
    branches it is, and what each turn cost.
    """
    columns = _list_tables(db)
    branch_columns = {"message_id", "branch_id", "sequence_number", "session_id"}
    has_branches = branch_columns <= columns.get("message_structure", set())
    has_usage = {"user_turn_number", "input_tokens"} <= columns.get("turn_usage", set())
    for table in tables:
        branch, place, join = "''", "m.id", ""
        if has_branches:
            branch, place = "CAST(s.branch_id AS TEXT)", "s.sequence_number"
            join = (
                "LEFT JOIN message_structure s "
                "ON s.message_id = m.id AND s.session_id = m.session_id"
            )

        rows = db.execute(
            f"SELECT CAST(m.session_id AS TEXT), {branch}, m.id, m.message_data "  # noqa: S608 - quoted
            f"FROM {_quote(table)} m {join} ORDER BY 1, {place}, m.id"
        )
        for session, group in groupby(rows, key=lambda row: row[0] or ""):
            name = session if len(tables) == 1 else f"{table}/{session}"
            found = [_AgentRow(branch or "", id, text) for _, branch, id, text in group]
            branches = _BranchBuilder(f"openai-agents:{name}")
            problems = _add_items(branches, found)
            if has_usage:
                problems += _add_turns(db, branches, session)

            yield _FoundConversation(name, branches.build(), problems)


def _add_items(branches: _BranchBuilder, rows: Iterable[_AgentRow]) -> list[str]:
    problems: dict[int, str] = {}
    items: dict[str, list[Any]] = {}
    for row in rows:
        # A branch that was written to later comes later, so that the last is shown.
        listed = items.pop(row.branch, [])
        items[row.branch] = listed
        try:
            listed.append(_parse_item(row.text))
        except _ReadError as error:
            problems[row.id] = f"row {row.id} is left out: {error}"

    for listed in items.values():
        messages = [_FileMessage.of(message) for message in agents.load(listed)]
        branches.add(Log(_make_entries(messages)))

    return [*problems.values()]


def _parse_item(text: str) -> dict[str, Any]:
    item = _parse(text)
    if item.get("__enc__") == 1:
        raise _ReadError("it is encrypted, by an EncryptedSession")

    return item


def _add_turns(
    db: sqlite3.Connection, branches: _BranchBuilder, session: str
) -> list[str]:
    problems = []
    rows = db.execute(
        "SELECT branch_id, user_turn_number, input_tokens, output_tokens, "
        "total_tokens, input_tokens_details, output_tokens_details FROM turn_usage "
        "WHERE CAST(session_id AS TEXT) = ? ORDER BY id",
        (session,),
    )
    for branch, turn, prompt, completion, total, read, written in rows:
        try:
            details = [_parse(each) if each else {} for each in (read, written)]
            usage = Usage(
                prompt or 0,
                completion or 0,
                total or None,
                prompt_tokens_details=PromptTokensDetails(
                    cached_tokens=details[0].get("cached_tokens") or 0
                ),
                completion_tokens_details=CompletionTokensDetails(
                    reasoning_tokens=details[1].get("reasoning_tokens") or 0
                ),
            )
        except (_ReadError, InvalidUsageError) as error:
            problems.append(f"the usage of turn {turn} is left out: {error}")
            continue

        key = f"{branches.name}:{branch}:{turn}"
        branches.bill(LedgerEntry(key, usage, "", None))

    return problems


# LangGraph


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


def _unpack(data: bytes) -> Any:
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
        raise _ReadError(f"it is no msgpack ({error})") from None


def _unpack_object(packed: _PackedObject) -> tuple[object, Any]:
    """The name of the class of an object, and the data it was made of."""
    inner = _unpack(packed.data)
    if packed.code not in _CONSTRUCTORS:
        return None, inner

    if not isinstance(inner, list) or len(inner) < 3:  # noqa: PLR2004 - module, name, data
        raise _ReadError(f"an object of code {packed.code} has no data")

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
        self._loaded: dict[bytes, _FileMessage] = {}
        # The ids that messages have in the file, by entry.
        self._said: dict[str, _FileMessage] = {}
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
        for id in _order_parents_first(parents):
            try:
                found = self._read_checkpoint(numbers[id], parents[id])
            except (_ReadError, DecodeError, RecursionError, sqlite3.Error) as error:
                self.problems.append(f"checkpoint {id} is left out: {error}")
            else:
                self.checkpoints[id] = found

        try:
            self._read_unfinished()
        except (_ReadError, DecodeError, RecursionError, sqlite3.Error) as error:
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
            raise _ReadError("it has no channel_values")

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
                messages[channel] = self._log(old, said)

        # Of a delta channel there are only the writes since its last value.
        for channel, version in versions.items():
            if channel not in values and not str(channel).startswith(_INTERNAL):
                log = self._replay(channel, version, parent)
                if log is not None:
                    messages[channel] = log

        return _Checkpoint(parent, messages, versions, frozenset(others))

    def _replay(
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
        has_path = "task_path" in _list_tables(self._db).get("writes", set())
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

            said = _reduce(said, new)

        return self._log(old or Log(), said) if said or old is not None else None

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

    def _log(self, old: Log[Entry], said: Sequence[_FileMessage]) -> Log[Entry]:
        entries = _make_entries(said)
        self._said.update(zip([entry.id for entry in entries], said, strict=True))
        common = 0
        for mine, theirs in zip(old, entries, strict=False):
            if mine.id != theirs.id:
                break

            common += 1

        return old.take(common).extend(entries[common:])

    def _read_list(self, value: Any, *, is_known: bool) -> list[_FileMessage] | None:
        """The messages in *value*; None if it is no list of messages."""
        if isinstance(value, _PackedObject) and value.code == _SNAPSHOT:
            value = _unpack(value.data)

        if not isinstance(value, list) or not (value or is_known):
            return None

        if value and all(_is_chat(each) for each in value):
            try:
                return [
                    _FileMessage.of(each)
                    for each in openai_chat.load(_make_plain(value))
                ]
            except DecodeError:
                return None

        said = [self._read_message(each) for each in value]
        return None if None in said else said  # type: ignore[return-value]  # none is

    def _read_message(self, value: Any) -> _FileMessage | None:
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

        said = _load_langchain(str(name), _make_plain(fields))
        if isinstance(value, _PackedObject):
            self._loaded[value.data] = said

        return said


def _is_chat(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _is_langchain(name: object, fields: Any) -> bool:
    if not isinstance(fields, dict) or "content" not in fields:
        return False

    kind = fields.get("type")
    named = isinstance(name, str) and name.removesuffix("Chunk") in _CLASSES.values()
    return named or (isinstance(kind, str) and kind in _CLASSES)


def _reduce(
    old: Sequence[_FileMessage], new: Iterable[_FileMessage]
) -> list[_FileMessage]:
    """
    *old* messages after a write of *new* ones: one with a known id takes the place of
    that, a `RemoveMessage` removes it.

    Source:
        ``add_messages`` of langgraph 1.2.
    """
    merged: list[_FileMessage] = [*old]
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
        return _unpack(data)

    if kind == "json" and isinstance(data, bytes):
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise _ReadError(f"it is not JSON ({error})") from None

    if kind in {"bytes", "bytearray"}:
        return data

    if isinstance(kind, str) and "+" in kind:
        raise _ReadError(f"it is encrypted ({shorten_repr(kind)})")

    raise _ReadError(
        f"it is of the kind {shorten_repr(kind)}, which only code could read"
    )


def _order_parents_first(parents: Mapping[str, str | None]) -> list[str]:
    # A parent that is missing, or its own ancestor, is none.
    order: list[str] = []
    done: set[str] = set()
    for start in parents:
        way = []
        id: str | None = start
        while id is not None and id in parents and id not in done:
            done.add(id)
            way.append(id)
            id = parents[id]

        order += reversed(way)

    return order


def _read_langgraph(
    db: sqlite3.Connection, tables: Sequence[str]
) -> Iterator[_FoundConversation]:
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
        found: list[_FoundConversation] = []
        for _, namespace in group:
            reader = _ThreadReader(db, thread, namespace)
            reader.read()
            problems += reader.problems
            left_out.update(*[each.others for each in reader.checkpoints.values()])
            found += _make_trees(reader, str(thread), str(namespace), seen)

        if left_out:
            listed = ", ".join(sorted(map(shorten_repr, left_out)))
            left = f"channels without messages are left out: {listed}"

        found = found or [_FoundConversation(str(thread), None)]
        found[0] = found[0]._replace(damage=problems, left_out=left)

        yield from found


def _make_trees(
    reader: _ThreadReader, thread: str, namespace: str, seen: set[str]
) -> Iterator[_FoundConversation]:
    channels = {
        name: None for each in reader.checkpoints.values() for name in each.messages
    }
    channels |= dict.fromkeys(reader.unfinished)
    # The channel that a graph has by custom has the name of the thread itself.
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
        branches = _BranchBuilder(f"langgraph:{name}")
        for log in logs:
            branches.add(log)

        yield _FoundConversation(name, branches.build())


class _Framework(NamedTuple):
    # Which tables of a file are the framework's, what they are called, and the
    # conversations in them.
    find: Callable[[sqlite3.Connection], list[str]]
    expected: str
    read: Callable[[sqlite3.Connection, Sequence[str]], Iterator[_FoundConversation]]


SOURCES: Mapping[str, _Framework] = {
    "langchain": _Framework(
        _find_tables({"id", "session_id", "message"}),
        "the table message_store of SQLChatMessageHistory",
        _read_langchain,
    ),
    "langgraph": _Framework(
        _find_tables({"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint"}),
        "the table checkpoints of SqliteSaver",
        _read_langgraph,
    ),
    "openai-agents": _Framework(
        _find_tables({"id", "session_id", "message_data"}),
        "the table agent_messages of SQLiteSession",
        _read_agents,
    ),
}
