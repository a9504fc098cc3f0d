"""
The view: which messages are kept, and why the others are not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import index
from typing import Any, TypeAlias

import attrs

from conversation_state._persistent import Log, PMap, pmap
from conversation_state.aggregator import Aggregator, Entry, Messages
from conversation_state.counting import (
    TokenBudget,
    TokenCounter,
    by_characters,
    count,
)
from conversation_state.messages import Message
from conversation_state.trimming._flaws import NOBODY, Flaw, pair
from conversation_state.trimming._prefix import SharedPrefix, shared_prefix
from conversation_state.trimming._properties import Property
from conversation_state.trimming._shown import (
    COMPACTED,
    REMOVED,
    Dropped,
    Element,
    Failure,
    Gone,
    Instead,
    Kept,
    Known,
    Range,
    gaps,
)
from conversation_state.trimming._survey import START, Survey, surveyed

__all__ = ["AsyncStep", "Step", "TrimContext"]

_NONE: PMap[int, Any] = pmap()


@attrs.frozen(repr=False)
class TrimContext:
    """
    A budgeted view over the messages of a state.

    A value: `remove`, `replace` and every step give the next view and leave
    this one as it was. The state it views is never touched, and a message
    keeps its position in it (`Element.seq`) in every view.

    Made by `TrimContext.of`.

    Attributes:
        budget: What the view should fit into; None if there is no limit.

        counter: What weighs the messages.

        total_tokens: What is kept, in tokens. Kept up to date, not re-summed.

        failures: Which steps could not do their work, and why; ``()`` if all
            did. See `compact`.
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
    # What positions show that show something else than their own message.
    _instead: PMap[int, Instead] = _NONE
    failures: tuple[Failure, ...] = ()
    _known: tuple[Known, ...] = attrs.field(default=(), eq=False)

    @classmethod
    def of(
        cls,
        said: Aggregator | Iterable[Message],
        budget: TokenBudget | None = None,
        *,
        counter: TokenCounter = by_characters,
        previous: TrimContext | Iterable[Message] | None = None,
    ) -> TrimContext:
        """
        All that was said, as a view.

        Costs the messages that *counter* has not weighed yet; O(n) the first
        time a list of messages is given.

        Args:
            said: A state, or messages.

            budget: What the view should fit into; None for no limit.

            counter: What weighs the messages.

            previous: The view of the turn before, or its `summaries`: what
                `rolling_summary` goes on from. Nothing else reads it.

        Raises:
            TypeError:
                If *said* or *previous* holds something else than messages, or
                *budget* is no `TokenBudget`.

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
        size = survey.size
        if previous is None:
            return cls(entries, budget, counter, survey.tokens, (), _NONE, size)

        known = _known(previous)
        return cls(
            entries, budget, counter, survey.tokens, (), _NONE, size, _NONE, (), known
        )

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
        return Kept(self, lambda _seq, message: message)

    @property
    def elements(self) -> Sequence[Element]:
        """
        The same with position, tokens and role.
        """
        return Kept(self, self._element)

    @property
    def dropped(self) -> Sequence[Dropped]:
        """
        What the model does not get to see, in order, and why.

        Of what is shown in other words, a shortened result say, nothing was
        dropped. What a summary stands for is dropped, ``compacted``.
        """
        return Gone(self)

    @property
    def summaries(self) -> tuple[Message, ...]:
        """
        The summaries in this view, in order, and those it had before they
        were dropped again.

        Each says in its metadata what it stands for (see `compact`), so they
        can be written down, and given to the next turn as *previous*.
        """
        return tuple([known.message for known in self._summed_up()])

    def _summed_up(self) -> Iterator[Known]:
        for _seq, (messages, stands_for) in sorted(self._instead.items()):
            if stands_for:
                yield Known(messages[0], self._entries, stands_for)

    def _element(self, seq: int, message: Message) -> Element:
        return Element(seq, message, count(message, self.counter), message.role)

    def _spans(self, start: int = 0, stop: int | None = None) -> list[range]:
        """
        The positions in no range, of all or from *start* to *stop*.
        """
        end = len(self._entries)
        stop = end if stop is None else min(stop, end)
        return list(gaps(self._ranges, start, stop))

    def _seqs(self, start: int = 0, stop: int | None = None) -> Iterator[int]:
        """
        The positions shown, of all or from *start* to *stop*.
        """
        removed = self._removed
        spans = self._spans(start, stop)
        return (seq for span in spans for seq in span if seq not in removed)

    def _pairs(self) -> Iterator[tuple[int, Message]]:
        """
        What is shown, with positions.
        """
        removed, instead = self._removed, self._instead
        for span in self._spans():
            entries = islice(self._entries.iterate(span.start), len(span))
            for seq, (_id, message) in zip(span, entries, strict=True):
                if seq in removed:
                    continue

                if seq in instead:
                    for other in instead[seq].messages:
                        yield seq, other
                else:
                    yield seq, message

    def remove(self, seqs: int | Iterable[int]) -> TrimContext:
        """
        This view without the messages at *seqs*; itself if it shows none.

        Positions it does not show, or that do not exist, change nothing.
        O(log n) for each.

        Raises:
            TypeError:
                If *seqs* holds something else than integers.
        """
        return self._removing(seqs, REMOVED)

    def _removing(self, seqs: int | Iterable[int], reason: str) -> TrimContext:
        if not isinstance(seqs, Iterable):
            seqs = (seqs,)

        gone = {seq for seq in map(index, seqs) if self._shows(seq)}
        if not gone:
            return self

        tokens, size = self.total_tokens, self._size
        for seq in gone:
            shown = self._at(seq)
            tokens -= self._weigh(shown)
            size -= len(shown)

        removed = self._removed.update(dict.fromkeys(gone, reason))
        return self._next(tokens, self._ranges, removed, size)

    def replace(self, seq: int, message: Message) -> TrimContext:
        """
        This view with *message* at the position *seq* instead of what it shows
        there; itself if that is equal. O(log n).

        For steps of your own that say something in other words. A position
        keeps its place among the others; the original is in the state, and in
        `original`.

        Raises:
            ValueError:
                If the view shows nothing at *seq*.

            TypeError:
                If *message* is no message.
        """
        if not isinstance(message, Message):
            msg = (
                f"a view shows messages, got a {type(message).__name__}: "
                f"{message!r:.80}"
            )
            raise TypeError(msg)

        if not self._shows(index(seq)):
            msg = (
                f"the view shows nothing at position {seq}; elements tell which "
                "positions it shows"
            )
            raise ValueError(msg)

        # What sums up others sums them up in other words, too.
        known = self._instead.get(seq)
        stands_for = known.stands_for if known else ()
        return self._replacing({seq: Instead((message,), stands_for)})

    def _replacing(self, instead: Mapping[int, Instead]) -> TrimContext:
        """
        This view with something else at positions it shows.
        """
        tokens, size, new = self.total_tokens, self._size, {}
        for seq, put in instead.items():
            shown = self._at(seq)
            if put == self._instead.get(seq, Instead(shown)):
                continue

            new[seq] = put
            tokens += self._weigh(put.messages) - self._weigh(shown)
            size += len(put.messages) - len(shown)

        if not new:
            return self

        return attrs.evolve(
            self, total_tokens=tokens, size=size, instead=self._instead.update(new)
        )

    def _summing_up(
        self, seqs: Sequence[int], message: Message, stands_for: tuple[range, ...]
    ) -> TrimContext:
        """
        This view with *message* instead of what it shows at *seqs*, which are
        in order and all that it shows between the first and the last.
        """
        first, *rest = seqs
        tokens = sum([self._weigh(self._at(seq)) for seq in rest])
        span = Range(first + 1, seqs[-1] + 1, COMPACTED)
        narrowed = self._without((span,), tokens)
        instead = narrowed._instead
        for seq in instead.keys() & set(rest):
            instead = instead.remove(seq)  # another summary stands for it now

        summary = Instead((message,), stands_for)
        return attrs.evolve(narrowed, instead=instead)._replacing({first: summary})

    def _stands_for(self, seqs: Iterable[int]) -> tuple[range, ...]:
        """
        The positions that what is shown at *seqs*, in order, stands for.
        """
        found: list[range] = []
        for seq in seqs:
            own = self._instead.get(seq)
            for span in (own and own.stands_for) or (range(seq, seq + 1),):
                if found and found[-1].stop == span.start:
                    found[-1] = range(found[-1].start, span.stop)
                else:
                    found.append(span)

        return tuple(found)

    def _failing(self, step: object, error: Exception) -> TrimContext:
        """
        This view, and that *step* could not do its work.
        """
        return attrs.evolve(self, failures=(*self.failures, Failure(step, error)))

    def _at(self, seq: int) -> tuple[Message, ...]:
        """
        What is shown at a position that shows something.
        """
        if seq in self._instead:
            return self._instead[seq].messages

        return (self._entries[seq].message,)

    def _weigh(self, messages: Iterable[Message]) -> int:
        return sum([count(message, self.counter) for message in messages])

    def _shows(self, seq: int) -> bool:
        return (
            0 <= seq < len(self._entries)
            and seq not in self._removed
            and not any(span.start <= seq < span.stop for span in self._ranges)
        )

    def _sums_up(self, seq: int) -> bool:
        return bool(self._instead[seq].stands_for) and self._shows(seq)

    def problems(self, *also: Property) -> tuple[Flaw, ...]:
        """
        Why a provider would refuse this view; ``()`` for a valid one.

        Every result follows the message that made the call, with nothing but
        other results between, once; and every call that is followed by
        something else has a result. Calls at the very end may be unanswered:
        the agent is about to run them. O(messages kept).

        Args:
            *also: Properties that only some providers want, `SYSTEM_IN_FRONT`
                say.
        """
        group = NOBODY
        found: list[Flaw] = []
        for seq, message in self._pairs():
            group, flaws = pair(group, seq, message)
            found.extend(flaws)

        for wanted in also:
            if not isinstance(wanted, Property):
                msg = f"problems takes properties, SYSTEM_IN_FRONT say; got {wanted!r}"
                raise TypeError(msg)

            if not wanted.everywhere:
                found.extend(wanted._find(self._pairs()))

        return tuple(found)

    def shared_prefix(self, other: TrimContext) -> SharedPrefix:
        """
        What both views show at their start: what a provider that cached the
        one need not read again for the other.

        O(log n) where both show the same entries; message by message where
        they show equal ones.
        """
        if not isinstance(other, TrimContext):
            msg = f"a view shares its start with a TrimContext; got {other!r:.80}"
            raise TypeError(msg)

        return shared_prefix(self, other)

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

        failed = len(self.failures)
        failures = f", {failed} failure{'s'[: failed != 1]}" if failed else ""
        return (
            f"<TrimContext: {self._size} of {len(self._entries)} messages, "
            f"{self.total_tokens:,} tokens, {limit}{failures}>"
        )

    def _survey(self) -> Survey:
        if not (self._ranges or self._removed or self._instead):
            return surveyed(self._entries, self.counter)

        survey = START
        for seq, message in self._pairs():
            survey = survey.with_message(seq, message, count(message, self.counter))

        return survey

    def _without(self, spans: Iterable[Range], tokens: int) -> TrimContext:
        """
        This view without what it shows in *spans*, *tokens* in all.
        """
        ranges, size = list(self._ranges), self._size
        for start, stop, reason in spans:
            for gap in gaps(self._ranges, start, stop):
                ranges.append(Range(gap.start, gap.stop, reason))
                size -= len(gap) - sum(seq in gap for seq in self._removed)
                for seq, (messages, _) in self._instead.items():
                    if seq in gap and seq not in self._removed:
                        size -= len(messages) - 1

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
            self._entries,
            self.budget,
            self.counter,
            tokens,
            ranges,
            removed,
            size,
            self._instead,
            self.failures,
            self._known,
        )


def _entries(said: Aggregator | Iterable[Message]) -> Log[Entry]:
    if isinstance(said, (Aggregator, Messages)):
        return said.entries

    return Log([Entry("", message) for message in map(_message, said)])


def _message(given: Any) -> Message:
    if not isinstance(given, Message):
        msg = f"a view shows messages, got a {type(given).__name__}: {given!r:.80}"
        raise TypeError(msg)

    return given


def _known(previous: TrimContext | Iterable[Message]) -> tuple[Known, ...]:
    if isinstance(previous, TrimContext):
        return tuple(previous._summed_up())

    return tuple([Known(message) for message in map(_message, previous)])


Step: TypeAlias = Callable[[TrimContext], TrimContext]
AsyncStep: TypeAlias = Callable[[TrimContext], TrimContext | Awaitable[TrimContext]]
