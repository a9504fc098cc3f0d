"""
The view: which messages are kept, and why the others are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import index
from typing import Any, NamedTuple

import attrs

from conversation_state._persistent import Log, PMap, View, pmap
from conversation_state.aggregator import Aggregator, Entry, Messages
from conversation_state.counting import (
    TokenBudget,
    TokenCounter,
    by_characters,
    count,
)
from conversation_state.messages import Message
from conversation_state.trimming._flaws import NOBODY, Flaw, pair
from conversation_state.trimming._survey import START, Survey, surveyed

__all__ = [
    "NOT_VALID",
    "OVER_BUDGET",
    "Dropped",
    "Element",
    "Range",
    "TrimContext",
]

OVER_BUDGET, NOT_VALID, REMOVED = "over budget", "not valid", "removed"
_NONE: PMap[int, str] = pmap()


class Element(NamedTuple):
    """
    A message in a view.

    Attributes:
        seq: Its position in the conversation; the same in every view.

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
    A message that a view does not show.

    Attributes:
        seq: Its position in the conversation.

        reason: Why: ``over budget``, ``not valid`` (it could only be shown
            together with something a provider refuses), ``removed``.
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


class _Shown(View[Any]):
    """
    The kept or dropped messages of a view, each made into what was asked for.

    Iterating costs what is there, an index O(log n) while nothing was removed
    one by one, else O(n).
    """

    __slots__ = ("_context", "_kept", "_make", "_spans")

    def __init__(
        self, context: TrimContext, make: Callable[[int], Any], *, kept: bool
    ) -> None:
        self._context = context
        self._make = make
        self._kept = kept
        self._spans = context._spans(kept=kept)

    def __len__(self) -> int:
        context = self._context
        size = len(context)
        return size if self._kept else len(context._entries) - size

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._seqs())

    def _seqs(self) -> Iterator[int]:
        seqs = chain.from_iterable(self._spans)
        removed = self._context._removed
        if not removed:
            return seqs

        if self._kept:
            return (seq for seq in seqs if seq not in removed)

        return iter(sorted({*seqs, *removed}))

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self)[at]

        wanted = index(at)
        size = len(self)
        position = wanted + size if wanted < 0 else wanted
        if not 0 <= position < size:
            msg = f"position {wanted} of a view of {size}"
            raise IndexError(msg)

        if self._context._removed:
            return self._make(next(islice(self._seqs(), position, None)))

        for span in self._spans:
            if position < len(span):
                return self._make(span[position])

            position -= len(span)

        raise AssertionError  # the spans add up to the size

    def __repr__(self) -> str:
        return repr(tuple(self))


@attrs.frozen(repr=False)
class TrimContext:
    """
    A budgeted view over the messages of a state.

    A value: `remove` and every step give the next view and leave this one as
    it was. The state it views is never touched, and a message keeps its
    position in it (`Element.seq`) in every view.

    Made by `TrimContext.of`.

    Attributes:
        budget: What the view should fit into; None if there is no limit.

        counter: What weighs the messages.

        total_tokens: What is kept, in tokens. Kept up to date, not re-summed.
    """

    _entries: Log[Entry]
    budget: TokenBudget | None
    counter: TokenCounter
    total_tokens: int
    # Positions that went together: disjoint, in order.
    _ranges: tuple[Range, ...]
    # Positions that went one by one, and why; a range may cover them, too.
    _removed: PMap[int, str]
    _size: int

    @classmethod
    def of(
        cls,
        said: Aggregator | Iterable[Message],
        budget: TokenBudget | None = None,
        *,
        counter: TokenCounter = by_characters,
    ) -> TrimContext:
        """
        All that was said, as a view.

        Costs the messages that *counter* has not weighed yet; O(n) the first
        time a list of messages is given.

        Args:
            said: A state, or messages.

            budget: What the view should fit into; None for no limit.

            counter: What weighs the messages.

        Raises:
            TypeError:
                If *said* holds something else than messages, or *budget* is
                no `TokenBudget`.

            ValueError:
                If *counter* gives something else than a count.
        """
        if budget is not None and not isinstance(budget, TokenBudget):
            msg = (
                f"budget is {budget!r}; expected a TokenBudget, "
                "TokenBudget(context_window=8_000) say"
            )
            raise TypeError(msg)

        entries = _entries(said)
        survey = surveyed(entries, counter)
        return cls(entries, budget, counter, survey.tokens, (), _NONE, survey.size)

    @property
    def original(self) -> TrimContext:
        """
        The view before anything was dropped. O(1).
        """
        return TrimContext.of(
            Messages(self._entries), self.budget, counter=self.counter
        )

    @property
    def messages(self) -> Sequence[Message]:
        """
        What the model gets to see, in order; an immutable view, O(1) to get.
        """
        entries = self._entries
        return _Shown(self, lambda seq: entries[seq].message, kept=True)

    @property
    def elements(self) -> Sequence[Element]:
        """
        The same with position, tokens and role.
        """
        return _Shown(self, self._element, kept=True)

    @property
    def dropped(self) -> Sequence[Dropped]:
        """
        What the model does not get to see, in order, and why.
        """
        return _Shown(self, self._drop, kept=False)

    def _element(self, seq: int) -> Element:
        message = self._entries[seq].message
        return Element(seq, message, count(message, self.counter), message.role)

    def _drop(self, seq: int) -> Dropped:
        for span in self._ranges:
            if span.start <= seq < span.stop and seq not in self._removed:
                return Dropped(seq, span.reason)

        return Dropped(seq, self._removed[seq])

    def _spans(self, *, kept: bool) -> list[range]:
        """
        The positions in no range, or in one.
        """
        if kept:
            return list(_gaps(self._ranges, 0, len(self._entries)))

        return [range(span.start, span.stop) for span in self._ranges]

    def remove(self, seqs: int | Iterable[int]) -> TrimContext:
        """
        This view without the messages at *seqs*; itself if it shows none.

        Positions it does not show, or that do not exist, change nothing.
        O(log n) for each.

        Raises:
            TypeError:
                If *seqs* holds something else than integers.
        """
        if not isinstance(seqs, Iterable):
            seqs = (seqs,)

        gone = {seq for seq in map(index, seqs) if self._shows(seq)}
        if not gone:
            return self

        tokens = self.total_tokens
        for seq in gone:
            tokens -= count(self._entries[seq].message, self.counter)

        removed = self._removed.update(dict.fromkeys(gone, REMOVED))
        return self._next(tokens, self._ranges, removed, self._size - len(gone))

    def _shows(self, seq: int) -> bool:
        return (
            0 <= seq < len(self._entries)
            and seq not in self._removed
            and not any(span.start <= seq < span.stop for span in self._ranges)
        )

    def problems(self) -> tuple[Flaw, ...]:
        """
        Why a provider would refuse this view; ``()`` for a valid one.

        Every result follows the message that made the call, with nothing but
        other results between, once; and every call that is followed by
        something else has a result. Calls at the very end may be unanswered:
        the agent is about to run them. O(messages kept).
        """
        group = NOBODY
        found: list[Flaw] = []
        for seq in _Shown(self, int, kept=True):
            group, flaws = pair(group, seq, self._entries[seq].message)
            found.extend(flaws)

        return tuple(found)

    def __len__(self) -> int:
        """
        How many messages are kept.
        """
        return self._size

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __repr__(self) -> str:
        limit = "no limit"
        if self.budget is not None:
            limit = f"a limit of {self.budget.effective_input_limit:,}"

        return (
            f"<TrimContext: {self._size} of {len(self._entries)} messages, "
            f"{self.total_tokens:,} tokens, {limit}>"
        )

    def _survey(self) -> Survey:
        if self._size == len(self._entries):
            return surveyed(self._entries, self.counter)

        survey = START
        for seq, message, tokens, _role in self.elements:
            survey = survey.with_message(seq, message, tokens)

        return survey

    def _without(self, spans: Iterable[Range], tokens: int) -> TrimContext:
        """
        This view without what it shows in *spans*, *tokens* in all.
        """
        ranges, size = list(self._ranges), self._size
        for start, stop, reason in spans:
            for gap in _gaps(self._ranges, start, stop):
                ranges.append(Range(gap.start, gap.stop, reason))
                size -= len(gap) - sum(seq in gap for seq in self._removed)

        if size == self._size:
            return self

        tokens = self.total_tokens - tokens
        return self._next(tokens, tuple(sorted(ranges)), self._removed, size)

    def _next(
        self,
        tokens: int,
        ranges: tuple[Range, ...],
        removed: PMap[int, str],
        size: int,
    ) -> TrimContext:
        return TrimContext(
            self._entries, self.budget, self.counter, tokens, ranges, removed, size
        )


def _gaps(ranges: Iterable[Range], start: int, stop: int) -> Iterator[range]:
    """
    What *ranges*, disjoint and in order, leave of the positions up to *stop*.
    """
    for span in ranges:
        if start < min(span.start, stop):
            yield range(start, min(span.start, stop))

        start = max(start, span.stop)

    if start < stop:
        yield range(start, stop)


def _entries(said: Aggregator | Iterable[Message]) -> Log[Entry]:
    if isinstance(said, (Aggregator, Messages)):
        return said.entries

    entries: list[Entry] = []
    for message in said:
        if not isinstance(message, Message):
            msg = (
                f"a view shows messages, got a {type(message).__name__}: "
                f"{message!r:.80}"
            )
            raise TypeError(msg)

        entries.append(Entry("", message))

    return Log(entries)
