"""
Lists of messages as logs of entries, which share what they have in common; and
snapshots: our messages as LangChain's, with what is needed to compare them and to make
new ones.

Callers can change messages that they hold, so stored ones are compared by
content, and returned as new objects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Self, TypeAlias, cast

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from conversation_state._identity import new_entry_id
from conversation_state._persistent import Log
from conversation_state.adapters.langchain import (
    dump_message,
    load_message,
    load_readable,
    new_message,
)
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.errors import ConversationStateError, DecodeError
from conversation_state.hosts._host import bill_entries
from conversation_state.messages import Message
from conversation_state.store.records import LogEnd, Reader

# How many of a conversation's newest messages are looked up by their ids.
_RECENT = 16
# Types of values that can't be changed, so that snapshots and messages can share them.
_FIXED = frozenset({bool, float, int, str, type(None)})
_CONTAINERS = frozenset({dict, list})


class _MessageSnapshot:
    """
    A message of ours as LangChain's: compares with messages, and makes new ones.

    The fields are made when they are first needed, which is never in a thread that
    is only loaded. They are given to no caller, who might change them.
    """

    __slots__ = ("_changeable", "_fields_set", "_message", "extra", "fields", "kind")

    # The class of the message; None until the fields are made.
    kind: type[BaseMessage] | None
    # Its fields, and those that the class does not declare.
    fields: dict[str, Any]
    extra: Mapping[str, Any]

    def __init__(self, message: Message, template: BaseMessage | None = None) -> None:
        self._message = message
        self.kind = None
        if template is not None:
            self._take_fields(template)

    # Take the fields of *template*, which no other code may hold or change.
    def _take_fields(self, template: BaseMessage) -> None:
        self.fields = fields = vars(template)
        self.extra = template.__pydantic_extra__ or {}
        self._changeable = [
            name for name, value in fields.items() if type(value) not in _FIXED
        ]
        self._fields_set = template.__pydantic_fields_set__
        # Set last, because another thread takes a snapshot with a class as complete.
        self.kind = type(template)

    def make_fields(self) -> None:
        if self.kind is None:
            self._take_fields(dump_message(self._message))

    @property
    def id(self) -> str | None:
        self.make_fields()
        id: str | None = self.fields["id"]
        return id

    def matches(self, message: Any) -> bool:
        self.make_fields()
        return (
            type(message) is self.kind
            and message.__dict__ == self.fields
            and message.__pydantic_extra__ == self.extra
        )

    def new_message(self) -> BaseMessage:
        if self.kind is None:
            return cast("BaseMessage", dump_message(self._message))

        fields = self.fields.copy()
        for name in self._changeable:
            value = fields[name]
            # Most of these values are empty lists and maps; `deepcopy` of them would
            # take most of the time.
            is_empty = not value and type(value) in _CONTAINERS
            fields[name] = type(value)() if is_empty else deepcopy(value)

        extra = deepcopy(self.extra) if self.extra else {}
        made = new_message(self.kind, fields, extra, self._fields_set)
        return cast("BaseMessage", made)


def _convert_message(
    message: BaseMessage, serde: SerializerProtocol
) -> tuple[Message, _MessageSnapshot] | None:
    """
    *message* as one of ours, and the snapshot of the message that it is dumped as.
    None if that is not equal to *message*, while *serde* would restore an equal one.
    """
    try:
        made = load_message(message)
        back = dump_message(made)
    except (ConversationStateError, TypeError, ValueError):
        # The message can't be converted, so its list is stored as bytes, like any other
        # value.
        return None

    if type(back) is not type(message):
        return None

    if back != message:
        again = serde.loads_typed(serde.dumps_typed(message))
        if type(again) is type(message) and again == message:
            return None

        # *serde* does not restore the message either: LangGraph's drops lone
        # surrogates, which are replaced here.

    return made, _MessageSnapshot(made, back)


# Whether messages are kept as shared structure, which could be read without the key.
def shares_messages(serde: SerializerProtocol) -> bool:
    return not isinstance(serde, EncryptedSerializer)


def is_message_list(value: object) -> bool:
    return (
        type(value) is list
        and bool(value)
        and all(issubclass(kind, BaseMessage) for kind in {*map(type, value)})
    )


def update_readable(
    state: Aggregator, messages: Sequence[BaseMessage]
) -> Aggregator | None:
    """
    *state* with *messages* that can't all be restored, and so are stored as bytes: what
    can be read of each, so that other programs and the bill have it. None if one can't
    be read. Unchanged messages keep their identities. O(messages).
    """
    try:
        readable = [load_readable(message) for message in messages]
    except DecodeError:
        return None

    common = 0
    for entry, message in zip(state.entries, readable, strict=False):
        if entry.message != message:
            break

        common += 1

    left: dict[Any, list[Entry]] = defaultdict(list)
    for entry in state.entries.iterate(common):
        left[entry.message.role, entry.message.text].append(entry)

    new = []
    for message in readable[common:]:
        candidates = left[message.role, message.text]
        same = next((one for one in candidates if one.message == message), None)
        if same is not None:
            candidates.remove(same)

        new.append(same or Entry(new_entry_id(), message))

    return bill_entries(state, state.entries.take(common).extend(new))


# A key that is the same for equal messages, from the *fields* of one.
def _lookup_key(fields: Mapping[str, Any]) -> tuple[Any, Any]:
    content = fields["content"]
    # Messages have no ids if the graph's reducer is not LangGraph's own. With the id
    # alone as the key, each of them would be compared with all others.
    return fields["id"], content if type(content) is str else None


KnownMessage: TypeAlias = tuple[Entry, _MessageSnapshot]


class Conversation(NamedTuple):
    """A list of messages: as ours, with their identities, and as LangChain's."""

    entries: Log[Entry] = Log()
    snapshots: Log[_MessageSnapshot] = Log()

    def messages(self) -> list[BaseMessage]:
        return [snapshot.new_message() for snapshot in self.snapshots]

    def recent_by_id(self) -> dict[str, KnownMessage]:
        """The newest messages, by the ids of LangChain's messages."""
        start = max(len(self.entries) - _RECENT, 0)
        last = [(each[1].id, each) for each in self._iterate_pairs(start)]
        return {id: each for id, each in last if id}

    def _iterate_pairs(self, start: int) -> Iterator[KnownMessage]:
        return zip(
            self.entries.iterate(start), self.snapshots.iterate(start), strict=True
        )

    # How many messages at the beginning are those of *messages*.
    def _count_matching(self, messages: Sequence[BaseMessage]) -> int:
        count = 0
        for snapshot, message in zip(self.snapshots, messages, strict=False):
            if not snapshot.matches(message):
                break

            count += 1

        return count

    def update_to(
        self,
        messages: Sequence[BaseMessage],
        others: Mapping[str, KnownMessage],
        serde: SerializerProtocol,
    ) -> Self | None:
        """
        The conversation of *messages*, which shares its beginning with this one,
        and reuses the identities of messages that are unchanged here or among
        *others*, by their ids; None if a message can't be converted.

        Compares every message; converts the new ones.
        """
        common = self._count_matching(messages)
        entries = self.entries.take(common)
        snapshots = self.snapshots.take(common)
        left: dict[Any, list[KnownMessage]] = defaultdict(list)
        for known in self._iterate_pairs(common):
            known[1].make_fields()
            left[_lookup_key(known[1].fields)].append(known)

        for message in messages[common:]:
            candidates = left[_lookup_key(vars(message))]
            same = next((one for one in candidates if one[1].matches(message)), None)
            if same is not None:
                candidates.remove(same)
            else:
                same = others.get(message.id or "")
                if same is None or not same[1].matches(message) or same[0] in entries:
                    converted = _convert_message(message, serde)
                    if converted is None:
                        return None

                    same = Entry(new_entry_id(), converted[0]), converted[1]

            entries, snapshots = entries.append(same[0]), snapshots.append(same[1])

        return type(self)(entries, snapshots)


class ConversationCache:
    """
    The conversations read or written last, by the digests of their messages, so that
    the next ones share with them.

    Emptied when anything was erased from the store since, so that erased messages are
    never returned. Thread-safe without a lock, which an interrupt could leave held:
    each step changes one dict or attribute.
    """

    def __init__(self, max_size: int = 64) -> None:
        self._max_size = max_size
        # A count of changes to the store, and the conversations as of it.
        self._memory: tuple[int, dict[bytes, Conversation]] = 0, {}

    def load_hold(self, rows: Reader, hold: LogEnd) -> Conversation:
        found = self._read_memory(rows)[1].get(hold.digest)
        if found is None:
            found = self.from_entries(rows, rows.entries(hold))
            self.remember(rows, hold, found)

        return found

    def from_entries(self, rows: Reader, entries: Log[Entry]) -> Conversation:
        """
        The conversation of *entries*, with the snapshots of the one here that shares
        the longest beginning with it.
        """
        nearest, common = Conversation(), 0
        for other in list(self._read_memory(rows)[1].values()):
            shares = entries.common_prefix(other.entries)
            if shares > common:
                nearest, common = other, shares

        new = [_MessageSnapshot(message) for _, message in entries.iterate(common)]
        return Conversation(entries, nearest.snapshots.take(common).extend(new))

    def remember(self, rows: Reader, hold: LogEnd, conversation: Conversation) -> None:
        """Remember the *conversation* that a record refers to."""
        seen, known = self._read_memory(rows)
        if rows.seen != seen:
            return

        # The key is the digest of the messages, so the entry is right even if the
        # transaction that wrote them fails.
        known.pop(hold.digest, None)
        known[hold.digest] = conversation
        # The keys are copied, because other threads may change them meanwhile.
        for oldest in list(known)[: -self._max_size]:
            known.pop(oldest, None)

    def _read_memory(self, rows: Reader) -> tuple[int, dict[bytes, Conversation]]:
        memory = self._memory
        # A transaction with a lower count began before the last change. It may read
        # the newer contents, but `remember` adds nothing for it.
        if rows.seen > memory[0]:
            self._memory = memory = rows.seen, {}

        return memory
