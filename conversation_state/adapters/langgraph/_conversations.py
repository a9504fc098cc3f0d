"""
Lists of messages as logs of entries, which share what they have in common.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, Self, TypeAlias

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from conversation_state._persistent import Log
from conversation_state.adapters._langchain import dump_message
from conversation_state.adapters.langgraph._templates import Template, converted
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.store._records import Hold, Reader

__all__ = ["Conversation", "Conversations", "are_messages", "state_of"]

# How much of what was said last in a thread is looked through for it.
_TOLD = 16

Told: TypeAlias = tuple[Entry, Template]


def are_messages(value: object) -> bool:
    """
    Whether *value* is a list of LangChain's messages, of which there are some.
    """
    return (
        type(value) is list
        and bool(value)
        and all(isinstance(item, BaseMessage) for item in value)
    )


class Conversation(NamedTuple):
    """
    A list of messages.

    Attributes:
        entries: Them as ours, with their identities.

        templates: Them as LangChain's, one for each entry.
    """

    entries: Log[Entry] = Log()
    templates: Log[Template] = Log()

    def messages(self) -> list[BaseMessage]:
        """
        New messages, that nobody else holds. O(n).
        """
        return [template.message() for template in self.templates]

    def become(
        self,
        messages: Sequence[BaseMessage],
        others: Mapping[str, Told],
        serde: SerializerProtocol,
    ) -> Self | None:
        """
        What *messages* are, sharing with this all that they begin with in
        common, and the identities of what is there unchanged, or among *others*
        by their ids; None if one of them can't be said.

        Looks at every message; converts those that are new.
        """
        common = 0
        for template, message in zip(self.templates, messages, strict=False):
            if not template.is_of(message):
                break

            common += 1

        entries = self.entries.take(common)
        templates = self.templates.take(common)
        left = _by_id(self.entries[common:], self.templates[common:])
        for message in messages[common:]:
            told = next((t for t in left[message.id] if t[1].is_of(message)), None)
            if told is not None:
                left[message.id].remove(told)
            else:
                told = others.get(message.id or "")
                if told is None or not told[1].is_of(message) or told[0] in entries:
                    made = converted(message, serde)
                    if made is None:
                        return None

                    # Made by a state, which gives entries their identities.
                    (entry,) = Aggregator.new(messages=[made[0]]).entries
                    told = entry, made[1]

            entries, templates = entries.append(told[0]), templates.append(told[1])

        return type(self)(entries, templates)


def _by_id(entries: Log[Entry], templates: Log[Template]) -> dict[Any, list[Told]]:
    found: dict[Any, list[Told]] = defaultdict(list)
    for entry, template in zip(entries, templates, strict=True):
        found[template.id].append((entry, template))

    return found


class Conversations:
    """
    Those read or written last, so that the next ones share with them.

    Known by the digest of their messages; what was erased since, by others
    too, is not given.
    """

    def __init__(self, kept: int = 64) -> None:
        self._kept = kept
        self._seen = 0
        self._known: OrderedDict[bytes, Conversation] = OrderedDict()
        self._told: OrderedDict[str, dict[str, Told]] = OrderedDict()
        self._lock = Lock()

    def held(self, rows: Reader, hold: Hold) -> Conversation:
        """
        The conversation that a record holds on to.
        """
        with self._lock:
            self._forget_changed(rows)
            known = self._known.get(hold.digest)
            if known is not None:
                self._known.move_to_end(hold.digest)
                return known

            others = list(self._known.values())

        found = self._near(others, rows.entries(hold))
        self.remember(rows, hold, found)
        return found

    def of(self, rows: Reader, entries: Log[Entry]) -> Conversation:
        """
        The conversation of *entries*.
        """
        with self._lock:
            self._forget_changed(rows)
            others = list(self._known.values())

        return self._near(others, entries)

    @staticmethod
    def _near(others: list[Conversation], entries: Log[Entry]) -> Conversation:
        nearest, common = Conversation(), 0
        for other in others:
            shares = entries.common_prefix(other.entries)
            if shares > common:
                nearest, common = other, shares

        new = [Template(dump_message(m)) for _, m in entries.iterate(common)]
        return Conversation(entries, nearest.templates.take(common).extend(new))

    def remember(self, rows: Reader, hold: Hold, known: Conversation) -> None:
        """
        Remember what a record holds on to.
        """
        with self._lock:
            self._forget_changed(rows)
            if rows.seen == self._seen:
                self._known[hold.digest] = known
                self._known.move_to_end(hold.digest)
                if len(self._known) > self._kept:
                    self._known.popitem(last=False)

    def told(self, rows: Reader, thread: str) -> Mapping[str, Told]:
        """
        What was said last in a thread, by its ids, in whatever of its graphs:
        one inside of another hands on what it was given, and what it said.
        """
        with self._lock:
            self._forget_changed(rows)
            return dict(self._told.get(thread, {}))

    def tell(self, rows: Reader, thread: str, known: Conversation) -> None:
        """
        Remember what was said last.
        """
        with self._lock:
            if rows.seen == self._seen:
                start = max(0, len(known.entries) - _TOLD)
                last = zip(known.entries[start:], known.templates[start:], strict=True)
                told = self._told.pop(thread, {}) | {
                    t.id: (e, t) for e, t in last if t.id
                }
                while len(told) > _TOLD:
                    del told[next(iter(told))]

                self._told[thread] = told
                if len(self._told) > self._kept:
                    self._told.popitem(last=False)

    def _forget_changed(self, rows: Reader) -> None:
        if rows.seen > self._seen:
            self._known.clear()
            self._told.clear()
            self._seen = rows.seen


def state_of(before: Aggregator | None, entries: Log[Entry]) -> Aggregator:
    """
    A state of *entries*, and the next one of the conversation that was *before*.
    """
    if before is None:
        before = Aggregator.new()

    ledger = before.ledger
    return Aggregator.rebuild_from_logs(
        id=before.id,
        parent_id=before.parent_id,
        root_id=before.root_id,
        init_len=min(before.init_len, len(entries)),
        init_ledger_len=before.init_ledger_len,
        entries=entries,
        ledger=ledger,
    )
