"""
Where two logs diverge, what each has since then, and which messages have the same
content.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

import attrs

from conversation_state._persistent import Log, final
from conversation_state.aggregator import Entry, LedgerEntry
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    find_erasure,
)
from conversation_state.parts import Part, ReasoningPart, TextPart

I = TypeVar("I", Entry, LedgerEntry)  # noqa: E741 - an item, of either kind


@final
class Pair(NamedTuple, Generic[I]):
    """
    Two entries that belong together, one from each side.

    Attributes:
        a: The one in *a*.

        b: The one in *b*.
    """

    a: I
    b: I


@final
@attrs.frozen
class Divergence(Generic[I]):
    """
    Where two logs of entries diverge, and what each has since then.

    Mirrored by `reversed`. What follows from the first three attributes is
    computed when the value is made, in O(their length).

    Attributes:
        common: How many leading entries both have.

        rest_a: The entries of *a* after these.

        rest_b: The entries of *b* after these.

        only_a: Those in *rest_a* whose identity *b* does not have.

        only_b: Those in *rest_b* whose identity *a* does not have.

        both: Those in *rest_a* and *rest_b*, in *a*'s order: what a join
            brought. The two of a pair differ where their content differs under
            one identity.

        reordered: Whether *b* has these in another order.
    """

    common: int
    rest_a: tuple[I, ...]
    rest_b: tuple[I, ...]
    only_a: tuple[I, ...] = attrs.field(init=False, eq=False, repr=False)
    only_b: tuple[I, ...] = attrs.field(init=False, eq=False, repr=False)
    both: tuple[Pair[I], ...] = attrs.field(init=False, eq=False, repr=False)
    reordered: bool = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        # Entries that a join added are on both sides, at different positions.
        only_a, only_b = self.rest_a, self.rest_b
        both: tuple[Pair[I], ...] = ()
        reordered = False
        if only_a and only_b:
            ours = {entry.id for entry in only_a}
            theirs = {entry.id: entry for entry in only_b}
            shared = [entry for entry in only_a if entry.id in theirs]
            if shared:
                both = tuple([Pair(entry, theirs[entry.id]) for entry in shared])
                in_b = [entry.id for entry in only_b if entry.id in ours]
                reordered = in_b != [entry.id for entry in shared]
                only_a = tuple([each for each in only_a if each.id not in theirs])
                only_b = tuple([each for each in only_b if each.id not in ours])

        object.__setattr__(self, "only_a", only_a)
        object.__setattr__(self, "only_b", only_b)
        object.__setattr__(self, "both", both)
        object.__setattr__(self, "reordered", reordered)

    @classmethod
    def of(cls, a: Log[I], b: Log[I]) -> Divergence[I]:
        """
        Where *a* and *b* diverge. O(log n) where they share structure, plus
        what both have since then.
        """
        common = a.common_prefix(b)
        return cls(common, tuple(a.iterate(common)), tuple(b.iterate(common)))

    @property
    def changed(self) -> tuple[Pair[I], ...]:
        """
        The pairs in *both* whose content differs under one identity.
        """
        return tuple([pair for pair in self.both if pair.a != pair.b])

    def reversed(self) -> Divergence[I]:
        """
        The same, seen from the other side.
        """
        return Divergence(self.common, self.rest_b, self.rest_a)

    def __bool__(self) -> bool:
        return bool(self.rest_a or self.rest_b)


# The fields of a part that are not content.
_IGNORED_FIELDS = {"index", "metadata", "signature", "unknown"}


def make_content_key(message: Message) -> object:
    """
    A key that is equal for messages with the same content.

    Includes role, name, text, the other parts except reasoning, and calls by type,
    name and arguments; for a tool's result also the tool's name and whether it
    failed. Excludes what differs between attempts: ids, times, metadata, the
    response, the reasoning (unless there is nothing else), and how a text is split
    into parts.
    """
    kind, name = type(message), message.name
    erasure = find_erasure(message)
    if erasure is not None:
        # Erased messages are compared by the digest of their content, because two of
        # them may differ.
        return kind, erasure.content

    content = getattr(message, "content", ())
    if not isinstance(content, str):
        content = _make_parts_key(content)

    if isinstance(message, AssistantMessage):
        calls = [(call.type, call.name, call.arguments) for call in message.tool_calls]
        if not content and not calls and message.reasoning:
            content = ("reasoning", message.reasoning)

        return kind, name, content, *calls

    if isinstance(message, ToolMessage):
        return kind, name, content, message.tool_name, message.is_error

    if isinstance(message, UnknownMessage):
        return kind, name, message.raw, message.source

    return kind, name, content


def _make_parts_key(parts: Iterable[Part]) -> object:
    pieces: list[Any] = []
    shown = [part for part in parts if not isinstance(part, ReasoningPart)]
    for is_text, run in groupby(shown, lambda part: isinstance(part, TextPart)):
        if is_text:
            text = "".join([part.text for part in run])  # type: ignore[attr-defined]
            pieces += [text] if text else []
        else:
            for part in run:
                names = [each.name for each in attrs.fields(type(part))]
                content = [getattr(part, x) for x in names if x not in _IGNORED_FIELDS]
                pieces.append((part.kind, *content))

    if not pieces:
        return ""

    return pieces[0] if len(pieces) == 1 else tuple(pieces)


def pair_equivalent(a: Iterable[Entry], b: Iterable[Entry]) -> tuple[Pair[Entry], ...]:
    """
    Entries of *a* and *b* with the same content, in *a*'s order.

    Each is in one pair at most: the first entry with some content in *a* with
    the first one in *b*, the second with the second. Linear.
    """
    theirs: defaultdict[object, deque[Entry]] = defaultdict(deque)
    for entry in b:
        theirs[make_content_key(entry.message)].append(entry)

    pairs = []
    # If only *a* has further entries, no key is made, because a key hashes a whole
    # message.
    for entry in a if theirs else ():
        unpaired = theirs.get(make_content_key(entry.message))
        if unpaired:
            pairs.append(Pair(entry, unpaired.popleft()))

    return tuple(pairs)
