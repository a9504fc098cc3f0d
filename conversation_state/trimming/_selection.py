"""
The selection: which positions of a conversation a view shows, and as what.

What lives here: the positions, their tokens, and the sequences that a view
gives of them. What does not: the budget, failures and summaries (`_view`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import index
from typing import Any

import attrs

from conversation_state._persistent import Log, PMap, View, pmap
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.messages import Message
from conversation_state.trimming._elements import (
    COMPACTED,
    Dropped,
    DroppedRange,
    Replacement,
)
from conversation_state.trimming._survey import START, Survey, survey_log

__all__ = ["DroppedView", "Selection", "ShownView"]

_EMPTY: PMap[int, Any] = pmap()


@attrs.frozen
class Selection:
    """
    Which positions of a log are shown.

    A value: every verb gives the next selection, or this one if it shows that
    already.

    Attributes:
        entries: The conversation.

        counter: What counts the tokens of its messages.

        tokens: How many tokens all that is shown fills; kept up to date, not
            re-summed.

        size: How many messages are shown.

        ranges: Positions that were dropped together: disjoint, in order.

        removed: Positions that were dropped one by one, and why; a range may
            cover them, too.

        replaced: What positions show that do not show their own message.
    """

    entries: Log[Entry]
    counter: TokenCounter
    tokens: int
    size: int
    ranges: tuple[DroppedRange, ...] = ()
    removed: PMap[int, str] = _EMPTY
    replaced: PMap[int, Replacement] = _EMPTY
    _survey: Survey | None = attrs.field(
        default=None, eq=False, repr=False, alias="survey"
    )

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the survey, which lists every cut and can be made again.
        return Selection, (
            self.entries,
            self.counter,
            self.tokens,
            self.size,
            self.ranges,
            self.removed,
            self.replaced,
        )

    @classmethod
    def of(cls, entries: Log[Entry], counter: TokenCounter) -> Selection:
        """
        All *entries*. Costs the messages that *counter* has not counted yet.
        """
        survey = survey_log(entries, counter)
        return cls(entries, counter, survey.tokens, survey.size, survey=survey)

    @property
    def shows_all(self) -> bool:
        """
        Whether every position shows its own message.
        """
        return not (self.ranges or self.removed or self.replaced)

    def survey(self) -> Survey:
        """
        What the messages shown allow. O(1) for all messages of a log, and as
        `repair` shows them; else O(messages shown).
        """
        if self._survey is not None:
            return self._survey

        if self.shows_all:
            return survey_log(self.entries, self.counter)

        survey = START
        for seq, message in self.pairs():
            survey = survey.with_message(seq, message, count(message, self.counter))

        return survey

    def spans(self, start: int = 0, stop: int | None = None) -> list[range]:
        """
        The positions in no range, of all or from *start* to *stop*.
        """
        end = len(self.entries)
        return self._find_gaps(start, end if stop is None else min(stop, end))

    def seqs(self, start: int = 0, stop: int | None = None) -> Iterator[int]:
        """
        The positions shown, of all or from *start* to *stop*.
        """
        removed = self.removed
        spans = self.spans(start, stop)
        return (seq for span in spans for seq in span if seq not in removed)

    def pairs(self) -> Iterator[tuple[int, Message]]:
        """
        The messages shown, each with its position.
        """
        removed, replaced = self.removed, self.replaced
        for span in self.spans():
            entries = islice(self.entries.iterate(span.start), len(span))
            for seq, (_id, message) in zip(span, entries, strict=True):
                if seq in removed:
                    continue

                if seq in replaced:
                    for other in replaced[seq].messages:
                        yield seq, other
                else:
                    yield seq, message

    def count_positions(self, start: int, stop: int) -> int:
        """
        How many positions are shown from *start* to *stop*.
        """
        spans = self.spans(start, stop)
        removed = sum([seq in span for seq in self.removed for span in spans])
        return sum(map(len, spans)) - removed

    def is_shown(self, seq: int) -> bool:
        return (
            0 <= seq < len(self.entries)
            and seq not in self.removed
            and not any(start <= seq < stop for start, stop, _ in self.ranges)
        )

    def messages_at(self, seq: int) -> tuple[Message, ...]:
        """
        What is shown at a position that shows something.
        """
        if seq in self.replaced:
            return self.replaced[seq].messages

        return (self.entries[seq].message,)

    def count_tokens(self, messages: Iterable[Message]) -> int:
        return sum([count(message, self.counter) for message in messages])

    def drop_reason(self, seq: int) -> str:
        """
        Why the position *seq*, which is dropped, is not shown.
        """
        if seq in self.removed:
            return self.removed[seq]

        for start, stop, reason in self.ranges:
            if start <= seq < stop:
                return reason

        return COMPACTED

    def stands_for(self, seqs: Iterable[int]) -> tuple[range, ...]:
        """
        The positions that what is shown at *seqs*, in order, stands for.
        """
        found: list[range] = []
        for seq in seqs:
            own = self.replaced.get(seq)
            for span in (own and own.stands_for) or (range(seq, seq + 1),):
                if found and found[-1].stop == span.start:
                    found[-1] = range(found[-1].start, span.stop)
                else:
                    found.append(span)

        return tuple(found)

    def remove(self, seqs: Iterable[int], reason: str) -> Selection:
        """
        Without what is shown at *seqs*. O(log n) for each.
        """
        dropped = {seq for seq in map(index, seqs) if self.is_shown(seq)}
        if not dropped:
            return self

        tokens, size = self.tokens, self.size
        for seq in dropped:
            messages = self.messages_at(seq)
            tokens -= self.count_tokens(messages)
            size -= len(messages)

        removed = self.removed.update(dict.fromkeys(dropped, reason))
        return attrs.evolve(
            self, tokens=tokens, size=size, removed=removed, survey=None
        )

    def drop_ranges(self, ranges: Iterable[DroppedRange], tokens: int) -> Selection:
        """
        Without what is shown in *ranges*, which fills *tokens* in all.
        """
        dropped, size = list(self.ranges), self.size
        for start, stop, reason in ranges:
            for gap in self._find_gaps(start, stop):
                dropped.append(DroppedRange(gap.start, gap.stop, reason))
                size -= len(gap)
                if self.removed:
                    size += sum([seq in gap for seq in self.removed])

                for seq, (messages, _) in self.replaced.items():
                    if seq in gap and seq not in self.removed:
                        size -= len(messages) - 1

        if size == self.size:
            return self

        dropped.sort()
        return Selection(
            self.entries,
            self.counter,
            self.tokens - tokens,
            size,
            tuple(dropped),
            self.removed,
            self.replaced,
        )

    def replace(self, replaced: Mapping[int, Replacement]) -> Selection:
        """
        With other messages at positions that show something.
        """
        tokens, size, changed = self.tokens, self.size, {}
        for seq, replacement in replaced.items():
            shown = self.messages_at(seq)
            if replacement == self.replaced.get(seq, Replacement(shown)):
                continue

            changed[seq] = replacement
            messages = replacement.messages
            tokens += self.count_tokens(messages) - self.count_tokens(shown)
            size += len(messages) - len(shown)

        if not changed:
            return self

        both = self.replaced.update(changed)
        return attrs.evolve(self, tokens=tokens, size=size, replaced=both, survey=None)

    def summarise(
        self, seqs: Sequence[int], summary: Message, stands_for: tuple[range, ...]
    ) -> Selection:
        """
        With *summary* instead of what is shown at *seqs*, which are in order
        and all that is shown between the first and the last.
        """
        first, *rest = seqs
        tokens = sum([self.count_tokens(self.messages_at(seq)) for seq in rest])
        span = DroppedRange(first + 1, seqs[-1] + 1, COMPACTED)
        narrowed = self.drop_ranges((span,), tokens)
        replaced = narrowed.replaced
        for seq in replaced.keys() & set(rest):
            replaced = replaced.remove(seq)  # another summary stands for it now

        replacement = Replacement((summary,), stands_for)
        return attrs.evolve(narrowed, replaced=replaced).replace({first: replacement})

    def _find_gaps(self, start: int, stop: int) -> list[range]:
        """
        What `ranges` leave of the positions from *start* to *stop*.
        """
        found = []
        for first, last, _ in self.ranges:
            if start < min(first, stop):
                found.append(range(start, min(first, stop)))

            start = max(start, last)

        if start < stop:
            found.append(range(start, stop))

        return found


class _SelectionSequence(View[Any]):
    """
    A sequence of what a selection shows, or of what it drops.
    """

    __slots__ = ("_selection",)

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return tuple(self)[at]

        wanted = index(at)
        size = len(self)
        position = wanted + size if wanted < 0 else wanted
        if not 0 <= position < size:
            msg = f"index {wanted} is out of range for a view of {size}"
            raise IndexError(msg)

        if self._selection.removed or self._selection.replaced:
            return next(islice(self, position, None))

        for span in self._list_spans():
            if position < len(span):
                return self._make_item(span[position])

            position -= len(span)

        raise AssertionError  # the spans add up to the size

    @abstractmethod
    def _list_spans(self) -> list[range]: ...

    @abstractmethod
    def _make_item(self, seq: int) -> Any: ...

    def __repr__(self) -> str:
        return repr(tuple(self))


class ShownView(_SelectionSequence):
    """
    What a selection shows, each message made into an item by *make*.

    Iterating costs what is there, an index O(log n) while no position was
    removed or replaced one by one, else O(n).
    """

    __slots__ = ("_make",)

    def __init__(
        self, selection: Selection, make: Callable[[int, Message], Any]
    ) -> None:
        super().__init__(selection)
        self._make = make

    def __len__(self) -> int:
        return self._selection.size

    def __iter__(self) -> Iterator[Any]:
        make = self._make
        return (make(seq, message) for seq, message in self._selection.pairs())

    def _list_spans(self) -> list[range]:
        return self._selection.spans()

    def _make_item(self, seq: int) -> Any:
        return self._make(seq, self._selection.entries[seq].message)


class DroppedView(_SelectionSequence):
    """
    What a selection does not show, as `Dropped`.
    """

    __slots__ = ()

    def __len__(self) -> int:
        selection = self._selection
        shown = selection.size
        for seq, (messages, stands_for) in selection.replaced.items():
            if selection.is_shown(seq):
                # A summary's own position is dropped and shown.
                shown -= len(messages) - (not stands_for)

        return len(selection.entries) - shown

    def __iter__(self) -> Iterator[Dropped]:
        selection = self._selection
        seqs: Iterator[int] = chain.from_iterable(self._list_spans())
        if selection.removed or selection.replaced:
            summarised = [
                seq
                for seq, (_messages, stands_for) in selection.replaced.items()
                if stands_for and selection.is_shown(seq)
            ]
            seqs = iter(sorted({*seqs, *selection.removed, *summarised}))

        return map(self._make_item, seqs)

    def _list_spans(self) -> list[range]:
        return [range(start, stop) for start, stop, _ in self._selection.ranges]

    def _make_item(self, seq: int) -> Dropped:
        return Dropped(seq, self._selection.drop_reason(seq))
