"""
What a store's verbs take and return: arguments, checked before anything is read or
written, and values; and how rows keep labels, notes and times.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from time import time_ns
from typing import Any, NamedTuple
from uuid import UUID

import attrs

from conversation_state._canonical import dump, load
from conversation_state._persistent import (
    EMPTY_MAP,
    JsonMap,
    Log,
    check_text,
    final,
    freeze_map,
)
from conversation_state._wording import (
    describe_type,
    describe_value,
    format_count,
    shorten_repr,
)
from conversation_state.aggregator import Aggregator, Entry, Messages
from conversation_state.errors import MirroredNameError
from conversation_state.usage import Usage


@final
class Head(NamedTuple):
    """
    One saved state of a name: which one it is, not its content.

    Attributes:
        name: What it was saved under.
        revision: The number of the save, counted from 1 on for each name.
        state_id: The id of the state.
        length: How many messages it has.
        ledger_length: How many ledger entries it has.
        digest: 32 hexadecimal digits that equal states have in common, and
            others do not.
        labels: Those that point to it, in the order they were given.
        saved_at: When, in UTC, to the millisecond.
        parent: The number of the revision that it grew from: the head that was
            there before, if it begins with all messages of that one. After a
            `Store.rollback` it is the revision that was gone back to; after a save
            that replaces the head by something else, the newest of the last
            thousand revisions whose messages it begins with. For a moment of a
            timeline it is the revision of the moment that it was committed on,
            whatever its messages are. None if it grew from none.
        notes: Those on the revision, JSON values; see `Store.annotate`.
    """

    name: str
    revision: int
    state_id: UUID
    length: int
    ledger_length: int
    digest: str
    labels: tuple[str, ...]
    saved_at: datetime
    parent: int | None = None
    notes: Mapping[str, Any] = EMPTY_MAP

    def __str__(self) -> str:
        labels = f" ({', '.join(map(repr, self.labels))})" if self.labels else ""
        return (
            f"revision {self.revision}{labels} of {self.name!r} "
            f"({format_count(self.length, 'message')}, "
            f"saved {self.saved_at:%Y-%m-%d %H:%M:%S} UTC)"
        )


@final
class NamedHead(NamedTuple):
    """
    A name with its head, for lists of conversations.

    Attributes:
        head: The newest state.
        notes: Those on the name, JSON values; see `Store.annotate`. Those on the
            newest revision are ``head.notes``.
    """

    head: Head
    notes: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name."""
        return self.head.name


@final
class LabelMove(NamedTuple):
    """
    That a label was given to another revision of a name.

    Attributes:
        name: The name.
        label: The label.
        before: The number of the revision that it pointed to; None for none.
        after: That of the revision that it points to since; None if it was removed.
        moved_at: When, in UTC, to the millisecond.
    """

    name: str
    label: str
    before: int | None
    after: int | None
    moved_at: datetime

    def __str__(self) -> str:
        before, after = self.before or "none", self.after or "none"
        return (
            f"{self.moved_at:%Y-%m-%d %H:%M:%S} UTC: the label {self.label!r} of "
            f"{self.name!r} moved from revision {before} to {after}"
        )


class RevisionFields(NamedTuple):
    """What a save gives to its revision besides the state."""

    label: str = ""  # a label for the revision, or ""
    # The number of the revision that the state grew from; less than 0 if that is to be
    # found out.
    parent: int = -1
    notes: bytes = b""  # those on the revision, as they are in its row
    removed: tuple[str, ...] = ()  # the keys of notes that are not to be there

    @classmethod
    def of(cls, label: str, notes: Mapping[str, Any] | None) -> RevisionFields:
        """What a caller gave, checked."""
        if label != "":
            check_name(label, "label")

        if notes is None:
            return cls(label)

        given = freeze_map(notes, "notes")
        removed = tuple([key for key, value in given.items() if value is None])
        return cls(label, -1, pack_notes(check_notes(given)), removed)

    def changes(self, notes: bytes) -> dict[str, bytes]:
        """
        The columns of an existing revision, whose notes are *notes*, that a save of
        its state changes; not its labels, which `point_label` changes.
        """
        if not self.notes and not self.removed:
            return {}

        new = unpack_notes(self.notes)
        gone = {*new, *self.removed}
        left = {k: v for k, v in unpack_notes(notes).items() if k not in gone}
        # Together they may exceed the limit.
        return {"notes": pack_notes(check_notes({**left, **new}))}


NO_FIELDS = RevisionFields()


@final
@attrs.frozen
class Window:
    """
    The newest messages of a saved state, without the others.

    Attributes:
        head: The state they are of.
        start: The position of the first of them.
        entries: The messages with their identities.
    """

    head: Head
    start: int
    entries: Log[Entry]

    @property
    def messages(self) -> Messages:
        """The messages. O(1)."""
        return Messages(self.entries)

    @property
    def length(self) -> int:
        """How many messages the whole state has."""
        return self.head.length


@final
@attrs.frozen
class StateRef:
    """
    Which saved state of a store, in at most 80 characters of text: what a queue, or the
    history of a workflow engine, keeps instead of the conversation. It has no content,
    no name and no URL. Made by `Store.ref`; `Store.resolve` gives the state.

    References are equal if they are of one state, whatever their leases.

    >>> ref = StateRef(7, 2, "0f" * 16)
    >>> str(ref)
    'state-7-2-0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f'
    >>> StateRef.parse(str(ref)) == ref
    True

    Attributes:
        name_key: The number by which the store knows the name. A name that is deleted
            and saved again has another.
        revision: The number of the save, as `Head.revision`.
        digest: That of the state, as `Head.digest`.
        until: When the lease ends, in UTC, to the second; None for no lease. It may
            have been renewed since. See `Store.ref`.

    Raises:
        ValueError: If one of them is not what a store gives.
    """

    name_key: int
    revision: int
    digest: str
    until: datetime | None = attrs.field(default=None, eq=False)

    def __attrs_post_init__(self) -> None:
        # `name_key << 32 | revision` is a key of 63 bits.
        for field, most in (("name_key", 2**31 - 1), ("revision", 2**32 - 1)):
            value = getattr(self, field)
            if value.__class__ is not int or not 0 < value <= most:
                raise ValueError(
                    f"{field} is {shorten_repr(value)}; expected a number from 1 to "
                    f"{most:,}"
                )

        if not isinstance(self.digest, str) or not _DIGEST.fullmatch(self.digest):
            raise ValueError(
                f"digest is {shorten_repr(self.digest)}; expected 32 lowercase "
                "hexadecimal digits"
            )

        if self.until is not None and not _is_whole_second(self.until):
            raise ValueError(
                f"until is {shorten_repr(self.until)}; expected a time in UTC, to the "
                "second"
            )

    def __str__(self) -> str:
        until = "" if self.until is None else f"-{self.until.timestamp():.0f}"
        return f"state-{self.name_key}-{self.revision}-{self.digest}{until}"

    @classmethod
    def parse(cls, text: str) -> StateRef:
        """
        The reference that `str` gave as *text*.

        Raises:
            ValueError: If it gave no such text.
        """
        found = _REF.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(
                f"text is {shorten_repr(text)}; expected str() of a StateRef: "
                "state-KEY-REVISION-DIGEST, and -SECONDS for a lease"
            )

        # Seconds are whole, so `fromtimestamp` would do; it is limited by the platform.
        until = _EPOCH + timedelta(seconds=int(found[4])) if found[4] else None
        return cls(int(found[1]), int(found[2]), found[3], until)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGEST = re.compile("[0-9a-f]{32}")
# Ten digits of seconds: to the year 2286.
_REF = re.compile(
    f"state-([1-9][0-9]{{0,9}})-([1-9][0-9]{{0,9}})-({_DIGEST.pattern})"
    "(?:-([1-9][0-9]{0,9}))?"
)


def _is_whole_second(time: object) -> bool:
    return (
        isinstance(time, datetime)
        and time.tzinfo is UTC
        and not time.microsecond
        and _EPOCH < time < _EPOCH + timedelta(seconds=10**10)
    )


def check_ref(ref: object) -> None:
    if not isinstance(ref, StateRef):
        advice = "; StateRef.parse takes its text" if isinstance(ref, str) else ""
        raise TypeError(f"ref: expected a StateRef, got {describe_type(ref)}{advice}")


# Leases are not for ever: what is to stay has a name.
_LONGEST_LEASE = timedelta(days=36_500)


def check_keep(keep: object) -> timedelta:
    if not isinstance(keep, timedelta):
        raise TypeError(
            f"keep: expected a timedelta, got {describe_type(keep)}; such as "
            "timedelta(days=30)"
        )

    if not timedelta(0) <= keep <= _LONGEST_LEASE:
        raise ValueError(
            f"keep is {keep}; expected a time from 0, for no lease, to "
            f"{_LONGEST_LEASE.days:,} days"
        )

    return keep


@final
@attrs.frozen
class Receipt:
    """
    That an entry was erased.

    Attributes:
        entry_id: Its identity.
        reason: Why.
        content: 32 hexadecimal digits: the digest of its content, which
            stays, and which can be checked against a copy of the content.
        erased_at: When, in UTC; the first time, if it was more than once.
        rows: In how many places it was erased now; 0 if that had been done.
        blobs: How many large contents went with it, because nothing else
            referred to them.
        remains: Why a copy may remain in a file for a while, and what removes
            it; "" if none that the store knows of does. To erase the entry
            again tries once more to remove it.
    """

    entry_id: str
    reason: str
    content: str
    erased_at: datetime
    rows: int
    blobs: int
    remains: str = ""


@final
@attrs.frozen
class Collected:
    """
    What was removed because no saved state needed it.

    Attributes:
        entries: Messages.
        ledger_entries: Ledger entries.
        branches: Branches without any row left.
        origins: The identities of states that are gone.
        blobs: Large contents.
        size: The bytes of all their contents; not of the rows around them.
        remains: Why copies of them may remain in a file for a while, and what
            removes them; "" if none that the store knows of do.
    """

    entries: int
    ledger_entries: int
    branches: int
    origins: int
    blobs: int
    size: int
    remains: str = ""


@final
@attrs.frozen
class Damage:
    """
    Something in a store that is not what it should be.

    Attributes:
        where: The table it is in, such as ``entries``, ``revisions`` or ``labels``; or
            ``medium``, for the file or server itself.
        id: What it is of: the identity of an entry, a revision as text, a label, the
            digest of a blob; "" for the medium.
        what: What is wrong.
    """

    where: str
    id: str
    what: str

    def __str__(self) -> str:
        return f"{self.where} {self.id}: {self.what}".replace(" :", ":")


At = int | str | Head | None


# At most 2,000 bytes of UTF-8; an index of PostgreSQL's takes keys of up to 2,704.
_LONGEST = 500

# So that a list of names stays a small answer.
_MAX_NOTES = 16_384

# Prefixes of names under which a host saves copies of its own records, and how a
# user changes what the host reads.
_MIRRORS = {
    "langgraph/": (
        "LangGraph",
        "Use graph.update_state(), or run the graph from an earlier checkpoint_id",
    )
}
MIRROR_PREFIXES = tuple(_MIRRORS)


def check_name(name: Any, what: str = "name") -> str:
    """
    *name* if a store takes it as a name, a label or a reason: 1 to 500 characters.

    Args:
        name: The text.
        what: What the error calls it.

    Raises:
        TypeError: If it is a state.
        ValueError: If it is empty, longer than 500 characters, or holds U+0000 or half
            of a surrogate pair.
    """
    # Most names are plain, and every save checks one.
    is_plain = name.__class__ is str and name.isascii()
    if not is_plain and isinstance(name, Aggregator):
        raise TypeError(
            f"{what}: expected a str, got {describe_type(name)}; store.save(name, "
            "state) saves a state under a name, and store.load(name) returns it"
        )

    text: str = name if is_plain else check_text(name, what)
    if not 0 < len(text) <= _LONGEST or "\0" in text:
        raise ValueError(
            f"{what} is {shorten_repr(text)}; expected 1 to {_LONGEST} characters and "
            "no U+0000"
        )

    return text


def check_notes(notes: object) -> JsonMap:
    """
    Notes frozen, without those that are None.

    Raises:
        ValueError: If they are not a mapping of texts to JSON values, or too large.
    """
    frozen = freeze_map(notes, "notes")
    if None in frozen.values():
        left = {key: value for key, value in frozen.items() if value is not None}
        frozen = freeze_map(left, "notes")

    size = len(dump(frozen))
    if size > _MAX_NOTES:
        raise ValueError(
            f"notes take {size:,} bytes as JSON; expected at most {_MAX_NOTES:,}: put "
            "what is larger into the conversation, or into a store of your own"
        )

    return frozen


def check_not_mirrored(store: str, name: object) -> None:
    """
    Check that no host ignores what is saved under *name*.

    Raises:
        MirroredNameError: If one does.
    """
    if isinstance(name, str) and name.startswith(MIRROR_PREFIXES):
        for prefix, (host, remedy) in _MIRRORS.items():
            if name.startswith(prefix):
                raise MirroredNameError(store, name, host, remedy)


def check_at(name: str, at: At) -> At:
    if isinstance(at, Head) and at.name != name:
        raise ValueError(f"at is a head of {at.name!r}; expected one of {name!r}")

    if at is not None and (
        isinstance(at, bool) or not isinstance(at, int | str | Head)
    ):
        raise TypeError(
            f"at is {shorten_repr(at)}; expected a revision's number, a label, a Head "
            "or None"
        )

    return check_text(at, "at") if isinstance(at, str) else at


def check_function(function: object) -> None:
    if not callable(function):
        raise TypeError(
            f"function: expected a function, got {describe_value(function)}"
        )


def check_made(made: object, what: str, *, verb: str, is_async: bool) -> None:
    """
    Check what a function returned, which the error calls *what*, that was given to
    *verb*, such as ``step(name, label, function)``, or to its async twin.

    Raises:
        TypeError: If it is no state, or no awaitable of an async function.
    """
    if is_async:
        if inspect.isawaitable(made):
            return

        plain = verb.partition("(")[0]
        advice = (
            f"it is no async function; {plain} takes it, or make it async (async def)"
        )
    elif isinstance(made, Aggregator):
        return
    elif inspect.isawaitable(made):
        if inspect.iscoroutine(made):
            made.close()  # one that is never awaited warns when it is collected

        advice = f"it is an async function, which store.a{verb} takes"
    else:
        advice = "let it return the state that it made of the one it was given"

    raise TypeError(f"{what} returned {type(made).__name__}; {advice}")


def check_state(name: str, state: object, expecting: object) -> None:
    """Check what is to be saved."""
    if isinstance(name, Aggregator):
        raise TypeError(
            f"name: expected a str, got {describe_type(name)}; the name comes first: "
            "store.save(name, state)"
        )

    check_name(name)
    if not isinstance(state, Aggregator):
        advice = ""
        if isinstance(state, (list, tuple)):
            advice = "; make one of messages: Aggregator.new(messages)"
        elif hasattr(state, "dropped"):
            advice = "; a view is for a request: save the state that it was made of"

        raise TypeError(
            f"state: expected an Aggregator, got {describe_type(state)}{advice}"
        )

    if expecting is not None:
        check_expecting(name, expecting)


def check_expecting(name: str, expecting: object) -> None:
    """
    Check that *expecting* can be the head of *name*, the number of its revision, 0
    if there is to be none, or None for any.
    """
    if expecting is None:
        return

    if isinstance(expecting, Head):
        if expecting.name != name:
            raise ValueError(
                f"expecting is a head of {expecting.name!r}; expected one of {name!r}"
            )
    elif isinstance(expecting, bool) or not isinstance(expecting, int):
        raise TypeError(
            f"expecting is {shorten_repr(expecting)}; expected a Head, a revision or "
            "None"
        )
    elif expecting < 0:
        shown = shorten_repr(expecting)
        raise ValueError(
            f"expecting is {shown}; expected a revision, or 0 for a new name"
        )


def is_expected(head: Head | None, expecting: Head | int | None) -> bool:
    """Whether a head is the expected one, whatever its labels."""
    if expecting is None:
        return True

    if isinstance(expecting, int):
        return expecting == (head.revision if head else 0)

    # A name that was deleted and saved again may have the same state as the same
    # revision; the time tells them apart.
    return (
        head is not None
        and head.revision == expecting.revision
        and head.digest == expecting.digest
        and head.saved_at == expecting.saved_at
    )


def check_count(count: object, what: str, meaning: str) -> None:
    """Check a number that is at least 0; *what* and *meaning* name it in the error."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(
            f"{what} is {shorten_repr(count)}; expected {meaning}, from 0 on"
        )


# In rows


def sum_counts(usage: Usage) -> int:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    counts = usage.prompt_tokens, usage.completion_tokens, usage.total_tokens
    details = *attrs.astuple(prompt), *attrs.astuple(completion)
    return sum((*counts, *details, *usage.extra.values()))


def label_key(number: int, label: str) -> bytes:
    # The number of the name comes first, so that the labels of a name are together.
    return number.to_bytes(8) + label.encode()


# No label holds U+0000 (`check_name`).
def split_labels(labels: bytes) -> tuple[str, ...]:
    return tuple(labels.decode().split("\0")) if labels else ()


def join_labels(labels: Iterable[str]) -> bytes:
    return "\0".join(labels).encode()


def pack_notes(notes: Mapping[str, Any]) -> bytes:
    return dump(notes) if notes else b""


def unpack_notes(notes: bytes) -> JsonMap:
    return freeze_map(load(notes), "notes") if notes else EMPTY_MAP


def time_of(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def now() -> int:
    """Milliseconds since 1970."""
    return time_ns() // 1_000_000
