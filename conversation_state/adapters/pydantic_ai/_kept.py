"""
Conversations of Pydantic AI in a store: which names hold what, and what a
write makes of it.

A conversation is a state under its own name, which says what was said. What
Pydantic AI keeps beside it, its record, is the newest message under a second
name; both are saved at once. A state that somebody else went on with since
has a record that is made up from it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple

from conversation_state._persistent import Log
from conversation_state.adapters.pydantic_ai._dump import grouped
from conversation_state.adapters.pydantic_ai._grown import (
    New,
    Told,
    all_told,
    end_of,
    grown,
    instructed_at,
    instructions_of,
    told_in,
)
from conversation_state.adapters.pydantic_ai._words import SOURCE
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.errors import NotSavedError
from conversation_state.messages import UnknownMessage
from conversation_state.store import Head, Store, Window

__all__ = ["RECORDS", "Found", "Kept", "Made", "name_of", "record_name"]

# What names of records begin with; conversations of such names get another.
RECORDS = "pydantic_ai:record:"
_ODD = "pydantic_ai:odd:"
_LONGEST = 500 - len(RECORDS)
_REMEMBERED = 10_000
_MORE = 4
_NOWHERE = -1


def name_of(conversation_id: str) -> str:
    """
    The name a conversation is saved under: its id, if it can be one.
    """
    is_odd = (
        not 0 < len(conversation_id) <= _LONGEST
        or "\0" in conversation_id
        or conversation_id.startswith((RECORDS, _ODD))
    )
    if not is_odd:
        return conversation_id

    data = conversation_id.encode("utf-8", "surrogatepass")
    return f"{_ODD}{blake2b(data, digest_size=16).hexdigest()}"


def record_name(name: str) -> str:
    """
    The name that the record of a conversation is saved under.
    """
    return f"{RECORDS}{name}"


class Found(NamedTuple):
    """
    What a store has of a conversation.

    Attributes:
        name: Its name.

        head: Where it stands; None if it is not there.

        noted: Where its record stands; None if there is none.

        record: The record as JSON text, "" if there is none.

        is_current: Whether nobody went on with the conversation since.

        tips: The revisions of which the branches it left were the heads.

        told: Where its newest instructions are said; -1 if nowhere, None if
            that is not known.
    """

    name: str
    head: Head | None
    noted: Head | None = None
    record: str = ""
    is_current: bool = False
    tips: dict[str, int] = {}  # noqa: RUF012 - never changed
    told: int | None = None


class Made(NamedTuple):
    """
    What a conversation is to be.

    Attributes:
        parent: The entry that its history goes on from.

        new: What follows.

        record: Its record as JSON text.

        branches: The newest entries of the branches it left.

        forked_from: The conversation it is a fork of, if it is one.
    """

    parent: str | None
    new: Sequence[New]
    record: str
    branches: Sequence[str]
    forked_from: str | None = None

    @property
    def newest(self) -> str | None:
        """
        The newest entry of its history.
        """
        return self.new[-1].id if self.new else self.parent


class Kept:
    """
    A store, seen as Pydantic AI's conversations. For threads.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = Lock()
        # Where entries were seen last: a guess, checked when it is used.
        self._where: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def find(self, name: str) -> Found:
        """
        What there is of a conversation, as of one moment.
        """
        while True:
            window: Window | None = None
            with suppress(NotSavedError):
                window = self.store.load(record_name(name), last=1)

            found = _found(name, self._head(name), window)
            if found.is_current or found.noted == self._head(record_name(name)):
                return found

            # Somebody saved between the two looks.

    def _head(self, name: str) -> Head | None:
        try:
            return self.store.head(name)
        except NotSavedError:
            return None

    def names(self) -> list[str]:
        """
        The names of all conversations that have a record.
        """
        found = self.store.names(prefix=RECORDS)
        return [name[len(RECORDS) :] for name in found]

    def newest(self, found: Found) -> str | None:
        """
        The identity of the newest entry of a conversation.
        """
        if found.head is None:
            return None

        told = self.history_at(found.name, found.head.revision, 1)
        return told[-1].id if told else None

    def history_at(self, name: str, revision: int, limit: int | None) -> list[Told]:
        """
        What is told at a revision, or the last *limit* of it.
        """
        if limit is None:
            return all_told(self.store.load(name, at=revision).entries)

        last = _MORE * (limit + 2)
        while True:
            window = self.store.load(name, at=revision, last=last)
            groups = grouped(window.messages)
            if groups.lacks and window.start:
                # They were said long ago.
                before = self.store.load(name, at=revision).entries
                said = self._instructed_before(name, revision, window.start, before)
                groups = grouped(window.messages, _said(before, said))

            told = told_in(window.entries, groups)
            # The first one may be the rest of a request, and is then another.
            if window.start == 0 or len(told) > limit + 1:
                return told[len(told) - limit :] if limit < len(told) else told

            last *= _MORE

    def _instructed_before(
        self, name: str, revision: int, start: int, entries: Log[Entry]
    ) -> int | None:
        """
        Where the newest instructions before *start* are said at a revision.
        """
        found = self.find(name)
        is_known = found.is_current and found.told is not None and found.told < start
        if is_known and found.head is not None and found.head.revision == revision:
            return found.told

        return instructed_at(entries.take(start))

    def remember(self, entry: str | None, name: str, revision: int) -> None:
        """
        Remember where an entry is the newest.
        """
        if entry is None:
            return

        with self._lock:
            self._where[entry] = (name, revision)
            self._where.move_to_end(entry)
            if len(self._where) > _REMEMBERED:
                self._where.popitem(last=False)

    def history(self, entry: str, limit: int | None = None) -> list[Told]:
        """
        What is told up to an entry, or the last *limit* of it.

        Raises:
            LookupError:
                If no conversation has it.
        """
        where = self._where.get(entry)
        if where is not None:
            try:
                told = self.history_at(*where, limit)
            except NotSavedError:
                told = []

            if told and told[-1].id == entry:
                return told

            if limit == 0:
                return []

        name, revision, cut = self.locate(entry)
        told = all_told(self.store.load(name, at=revision).entries.take(cut))
        return told if limit is None else told[max(len(told) - limit, 0) :]

    def locate(self, entry: str) -> tuple[str, int, int]:
        """
        Where an entry is: a name, a revision, and how many messages there are
        up to its end.

        Raises:
            LookupError:
                If no conversation has it.
        """
        for name, revision in self._places(entry):
            try:
                state = self.store.load(name, at=revision)
            except NotSavedError:
                continue

            cut = end_of(state.entries, entry)
            if cut is not None:
                return name, revision, cut

        msg = f"no conversation in {self.store.url} has the entry {entry!r}"
        raise LookupError(msg)

    def _places(self, entry: str) -> Iterable[tuple[str, int]]:
        where = self._where.get(entry)
        if where is not None:
            yield where

        for name in self.names():
            found = self.find(name)
            if found.head is not None:
                yield name, found.head.revision

            for revision in found.tips.values():
                yield name, revision

    # Writing

    def write(self, found: Found, made: Made) -> None:
        """
        Save what is *made* of a conversation, and its record.

        Raises:
            StaleHeadError:
                If the conversation is not what was *found* any more.

            LookupError:
                If nobody has the entry that it goes on from.
        """
        head = found.head
        # If somebody went on since it was found, saving it fails.
        old = None if head is None else self.store.load(found.name)
        past = old
        if old is None and made.forked_from is not None:
            with suppress(NotSavedError):
                past = self.store.load(name_of(made.forked_from))

        base = self._base(past, made.parent)
        if past is not old and base is past:
            base = base.fork()

        # What is known of the head needs no looking for.
        told = found.told if base is old and found.is_current else None
        if told is None:
            told = instructed_at(base.entries)

        state = grown(base, made.new, _said(base.entries, told))
        newer = instructed_at(state.entries, len(base))
        told = newer if newer is not None else told
        revision = 0 if head is None else head.revision
        if state is not old:
            revision += 1

        tips = {tip: found.tips[tip] for tip in made.branches if tip in found.tips}
        if head is not None:
            # What was not left before was left just now.
            for tip in made.branches:
                tips.setdefault(tip, head.revision)

        note = UnknownMessage(
            {
                "record": made.record,
                "revision": revision,
                "state": str(state.id),
                "tips": tips,
                "told": _NOWHERE if told is None else told,
            },
            source=SOURCE,
        )
        notes = record_name(found.name)
        noted = Aggregator.new() if found.noted is None else self.store.load(notes)
        self.store.save_all(
            {found.name: state, notes: noted.add(note)},
            expecting={found.name: head or 0, notes: found.noted or 0},
        )
        self.remember(made.newest, found.name, revision)

    def _base(self, old: Aggregator | None, parent: str | None) -> Aggregator:
        """
        A state that ends with *parent*, and has the ledger of the *old* one.
        """
        if old is not None:
            cut = 0 if parent is None else end_of(old.entries, parent)
            if cut is not None:
                return old if cut == len(old) else old.fork(at=cut)

        if parent is None:
            return Aggregator.new()

        name, revision, cut = self.locate(parent)
        other = self.store.load(name, at=revision)
        if old is None:
            return other.fork(at=cut)

        # Who says something else from some point on has paid for all the same.
        fork = old.fork(at=0)
        entries = other.entries.take(cut)
        return Aggregator.rebuild_from_logs(
            id=fork.id,
            parent_id=fork.parent_id,
            root_id=fork.root_id,
            init_len=entries.common_prefix(old.entries),
            init_ledger_len=fork.init_ledger_len,
            entries=entries,
            ledger=old.ledger,
        )


def _found(name: str, head: Head | None, window: Window | None) -> Found:
    if window is None:
        return Found(name, head)

    if head is None:
        return Found(name, None, window.head)

    (note,) = window.messages
    raw: Any = note.raw if isinstance(note, UnknownMessage) else {}
    is_current = raw["revision"] == head.revision and raw["state"] == str(head.state_id)
    return Found(
        name,
        head,
        window.head,
        raw["record"],
        is_current,
        dict(raw["tips"]),
        raw["told"],
    )


def _said(entries: Log[Entry], at: int | None) -> str | None:
    """
    The instructions that are said *at* a position, if it is one.
    """
    return None if at is None or at == _NOWHERE else instructions_of(entries[at])
