"""
What a view consists of: elements, what was dropped, and sequences of both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from itertools import chain, islice
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

from conversation_state._persistent import Log, View
from conversation_state.aggregator import Entry
from conversation_state.messages import Message

if TYPE_CHECKING:
    from conversation_state.trimming._view import TrimContext

__all__ = [
    "COMPACTED",
    "NOT_VALID",
    "OVER_BUDGET",
    "OVER_COUNT",
    "REMOVED",
    "Dropped",
    "Element",
    "Failure",
    "Gone",
    "Instead",
    "Kept",
    "Known",
    "Range",
    "gaps",
]

OVER_BUDGET, OVER_COUNT, NOT_VALID = "over budget", "over the count", "not valid"
REMOVED, COMPACTED = "removed", "compacted"


class Element(NamedTuple):
    """
    A message in a view.

    Attributes:
        seq: Its position in the conversation; the same in every view. What a
            step put there has the position of what it stands for: a shortened
            result that of the result, a summary the first of those it sums
            up, an answer made by `repair` that of the message that calls.

        message: The message.

        tokens: How many tokens it fills, by the view's counter.

        role: Its role.
    """

    seq: int
    message: Message
    tokens: int
    role: str


class Dropped(NamedTuple):
    """
    A message of the conversation that a view does not show.

    Attributes:
        seq: Its position in the conversation.

        reason: Why: ``over budget``, ``over the count``, ``not valid`` (it
            could only be shown together with something a provider refuses),
            ``removed``, ``compacted`` (a summary stands for it; if the summary
            was dropped, too, its position says why).
    """

    seq: int
    reason: str


class Range(NamedTuple):
    """
    Positions that are dropped together.
    """

    start: int
    stop: int
    reason: str


class Instead(NamedTuple):
    """
    What a position shows instead of its own message.

    Attributes:
        messages: The messages, at least one.

        stands_for: The positions it stands for, if it is a summary.
    """

    messages: tuple[Message, ...]
    stands_for: tuple[range, ...] = ()


class Failure(NamedTuple):
    """
    A step that could not do its work, and left the view as it was.

    Attributes:
        step: The step.

        error: Why.
    """

    step: object
    error: Exception


class Known(NamedTuple):
    """
    A summary from an earlier view.

    Attributes:
        message: The summary.

        entries: What that view was of; None if all that is known is what the
            message says about itself.

        stands_for: Which positions of these.
    """

    message: Message
    entries: Log[Entry] | None = None
    stands_for: tuple[range, ...] = ()


class _Part(View[Any]):
    """
    A sequence of what a view consists of.
    """

    __slots__ = ("_context",)

    def __init__(self, context: TrimContext) -> None:
        self._context = context

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self)[at]

        wanted = index(at)
        size = len(self)
        position = wanted + size if wanted < 0 else wanted
        if not 0 <= position < size:
            msg = f"position {wanted} of a view of {size}"
            raise IndexError(msg)

        context = self._context
        if context._removed or context._instead:
            return next(islice(self, position, None))

        for span in self._spans():
            if position < len(span):
                return self._at(span[position])

            position -= len(span)

        raise AssertionError  # the spans add up to the size

    @abstractmethod
    def _spans(self) -> list[range]: ...

    @abstractmethod
    def _at(self, seq: int) -> Any: ...

    def __repr__(self) -> str:
        return repr(tuple(self))


class Kept(_Part):
    """
    What a view shows, each made into what was asked for.

    Iterating costs what is there, an index O(log n) while nothing was removed
    or replaced one by one, else O(n).
    """

    __slots__ = ("_make",)

    def __init__(
        self, context: TrimContext, make: Callable[[int, Message], Any]
    ) -> None:
        super().__init__(context)
        self._make = make

    def __len__(self) -> int:
        return self._context._size

    def __iter__(self) -> Iterator[Any]:
        make = self._make
        return (make(seq, message) for seq, message in self._context._pairs())

    def _spans(self) -> list[range]:
        return self._context._spans()

    def _at(self, seq: int) -> Any:
        return self._make(seq, self._context._entries[seq].message)


class Gone(_Part):
    """
    What a view does not show, as `Dropped`.
    """

    __slots__ = ()

    def __len__(self) -> int:
        context = self._context
        shown = context._size
        for seq, (messages, stands_for) in context._instead.items():
            if context._shows(seq):
                # A summary's own position is dropped and shown.
                shown -= len(messages) - (not stands_for)

        return len(context._entries) - shown

    def __iter__(self) -> Iterator[Dropped]:
        context = self._context
        seqs: Iterator[int] = chain.from_iterable(self._spans())
        if context._removed or context._instead:
            summed_up = [seq for seq in context._instead if context._sums_up(seq)]
            seqs = iter(sorted({*seqs, *context._removed, *summed_up}))

        return map(self._at, seqs)

    def _spans(self) -> list[range]:
        return [range(span.start, span.stop) for span in self._context._ranges]

    def _at(self, seq: int) -> Dropped:
        context = self._context
        if seq in context._removed:
            return Dropped(seq, context._removed[seq])

        for start, stop, reason in context._ranges:
            if start <= seq < stop:
                return Dropped(seq, reason)

        return Dropped(seq, COMPACTED)


def gaps(ranges: tuple[Range, ...], start: int, stop: int) -> Iterator[range]:
    """
    What *ranges*, disjoint and in order, leave of the positions up to *stop*.
    """
    for span in ranges:
        if start < min(span.start, stop):
            yield range(start, min(span.start, stop))

        start = max(start, span.stop)

    if start < stop:
        yield range(start, stop)
