"""
What the readers of frameworks' files share: a tree whose identities follow from a file,
and LangChain's messages as plain data. No class is made or imported because a file
names it.
"""

from __future__ import annotations

import hashlib
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr, shorten_text
from conversation_state.adapters import langchain
from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.cli._input import InputConversation, UnreadableInput
from conversation_state.codec import encode
from conversation_state.messages import Message
from conversation_state.tree import MessageTree

_NAMESPACE = uuid.UUID("b5b1b1f8-0f6b-5d0f-9a57-6f1b43f5b7a2")
MAX_REASON = 300
_MAX_REASONS = 10


class RowError(Exception):
    # What is wrong with a row or a file, as the end of a sentence.
    pass


class FrameworkConversation(NamedTuple):
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
            yield self._make_unreadable(file, reason)

        if len(reasons) > _MAX_REASONS:
            yield self._make_unreadable(file, f"{len(reasons) - _MAX_REASONS:,} more")

    def _make_unreadable(self, file: str, reason: str) -> UnreadableInput:
        reason = shorten_text(f"{shorten_repr(self.name)}: {reason}", MAX_REASON)
        return UnreadableInput(file, 0, reason)


def list_tables(db: sqlite3.Connection) -> dict[str, set[str]]:
    # The tables, each with its columns. A view could run for ever.
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
    names = [name for (name,) in db.execute(tables).fetchall()]
    found = {}
    for name in names:
        rows = db.execute("SELECT name FROM pragma_table_info(?)", (name,))
        found[name] = {column for (column,) in rows}

    return found


class BranchBuilder:
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
        state = self._rebuild_state(entries, Log()).record_responses()
        # The times are unknown; those of this import would differ from the next one's.
        ledger = [each._replace(at=None) for each in state.ledger]
        return self._rebuild_state(entries, Log([*ledger, *self._ledger.values()]))

    def _rebuild_state(
        self, entries: Log[Entry], ledger: Log[LedgerEntry]
    ) -> Aggregator:
        return Aggregator.rebuild(
            id=uuid.uuid5(_NAMESPACE, self.name),
            parent_id=None,
            root_id=None,
            init_len=0,
            init_ledger_len=0,
            entries=entries,
            ledger=ledger,
        )


class FileMessage(NamedTuple):
    # A message, its id in the file or "", and its digest; whether it stands for the
    # removal of the one with its id.
    message: Message
    id: str
    digest: bytes
    removes: bool = False

    @classmethod
    def of(
        cls, message: Message, id: object = "", *, removes: bool = False
    ) -> FileMessage:
        digest = hashlib.sha256(encode(message)).digest()
        return cls(message, id if isinstance(id, str) else "", digest, removes)


def make_entries(messages: Iterable[FileMessage]) -> list[Entry]:
    """
    The entries of *messages*: identified by their ids and what they say; without an id,
    by what they say and what is before them.
    """
    entries: list[Entry] = []
    seen: set[str] = set()
    before = ""
    for said in messages:
        id = _make_entry_id(said.id, said.digest) if said.id else ""
        if not id or id in seen:
            id = _make_entry_id(f"after {before}", said.digest)

        seen.add(id)
        entries.append(Entry(id, said.message))
        before = id

    return entries


def _make_entry_id(place: str, digest: bytes) -> str:
    whole = hashlib.sha256(place.encode("utf-8", "surrogatepass") + b"\n" + digest)
    return whole.hexdigest()[:32]


# LangChain's messages, as plain data

MESSAGE_CLASSES: Mapping[str, str] = {
    "ai": "AIMessage",
    "chat": "ChatMessage",
    "function": "FunctionMessage",
    "human": "HumanMessage",
    "remove": "RemoveMessage",
    "system": "SystemMessage",
    "tool": "ToolMessage",
}


def load_langchain(name: str, fields: Mapping[str, Any]) -> FileMessage:
    kind = fields.get("type")
    known = {
        *MESSAGE_CLASSES.values(),
        *[f"{each}Chunk" for each in MESSAGE_CLASSES.values()],
    }
    if name not in known:
        # A user's own subclass names the class that it is derived from.
        name = kind if isinstance(kind, str) else ""
        name = MESSAGE_CLASSES.get(name, name)

    is_message = name in known and "content" in fields
    if not is_message or not all(isinstance(key, str) for key in fields):
        raise RowError(f"no message of LangChain's: {shorten_repr(fields)}")

    # No class of LangChain's runs code for what its fields are set to here.
    message = langchain.load_message(langchain.make_message(name, fields))
    return FileMessage.of(message, fields.get("id"), removes=name == "RemoveMessage")
