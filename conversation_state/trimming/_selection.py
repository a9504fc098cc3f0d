"""
The selection: which positions of a conversation a view shows, and as what.

A selection is sparse: it shows the entries of a log, but for results that were made
smaller, positions that `repair` or a caller's step changed one by one, and ranges that
were dropped. The first are found over the whole log and remembered with it
(`_tool_results`), so that the selection of the next state shares them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice, takewhile
from operator import attrgetter, index, itemgetter
from typing import Any

import attrs

from conversation_state._persistent import Log
from conversation_state._persistent.maps import PMap, pmap
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.messages import Message
from conversation_state.pickling import Maker
from conversation_state.requests import Rules, is_made
from conversation_state.trimming._elements import (
    COMPACTED,
    MOVED,
    NO_REWRITES,
    DroppedRange,
    Edit,
    Rewrite,
    join_ranges,
)
from conversation_state.trimming._validity import START, Survey, survey_log

NO_CHANGES: PMap[int, Edit] = pmap()
_seq, _stop = itemgetter(0), attrgetter("stop")
_UNCHANGED = Edit(())
_NO_EDIT = -1, _UNCHANGED


@attrs.frozen(eq=False)
class Selection:
    """
    Which positions of a log are shown.

    A value: every verb gives the next selection, or this one if it shows that
    already. Equal to another that shows the same.
    """

    entries: Log[Entry]  # the conversation
    counter: TokenCounter  # what counts the tokens of its messages
    rules: Rules  # what requests are asked for
    # How many tokens all that is shown fills; kept up to date, not re-summed. None
    # where all entries are shown as they are and were not counted yet.
    _tokens: int | None
    size: int  # how many messages are shown
    # Positions that were dropped together: disjoint, in order.
    ranges: tuple[DroppedRange, ...] = ()
    # Positions that were changed one by one; a range may cover them, too.
    changes: PMap[int, Edit] = NO_CHANGES
    # The results of the whole log that are smaller, in order.
    rewrites: Log[Rewrite] = NO_REWRITES
    steps: tuple[Any, ...] = ()  # the steps that *rewrites* are of
    # Whether the whole log is shown, but for *rewrites*.
    is_whole: bool = False

    @property
    def tokens(self) -> int:
        if self._tokens is not None:
            return self._tokens

        return survey_log(self.entries, self.counter, self.rules).tokens

    @property
    def whole(self) -> Survey | None:
        """
        The survey of the whole log, before any result was rewritten; None where less is
        shown than what *steps* made of it.
        """
        if not self.is_whole:
            return None

        return survey_log(self.entries, self.counter, self.rules)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented

        # The numbers are compared first, because comparing entries and edits takes time
        # proportional to the conversation.
        return (
            (self.tokens, self.size, self.ranges, self.counter)
            == (other.tokens, other.size, other.ranges, other.counter)
            and self.entries == other.entries
            and self.find_edits() == other.find_edits()
        )

    def __hash__(self) -> int:
        return hash((self.tokens, self.size, self.ranges, len(self.entries)))

    def __reduce__(self) -> tuple[Any, ...]:
        # The summary of the whole log is left out: it can be computed again.
        changes = pmap(self.find_edits()) or NO_CHANGES
        fields = self.entries, self.counter, self.rules, self.tokens, self.size
        return _SELECTION, (*fields, self.ranges, changes)

    @property
    def is_plain(self) -> bool:
        """Whether every position in no range shows its own message."""
        return self.changes is NO_CHANGES and not self.rewrites

    def survey(self) -> Survey:
        return START.with_messages(self.pairs(), self.counter, self.rules)

    def spans(self, start: int = 0, stop: int | None = None) -> list[range]:
        """The positions in no range, of all or from *start* to *stop*."""
        stop = len(self.entries) if stop is None else stop
        found = []
        for first, last, _ in self.ranges:
            if start < min(first, stop):
                found.append(range(start, min(first, stop)))

            start = max(start, last)

        if start < stop:
            found.append(range(start, stop))

        return found

    def find_edits(self) -> dict[int, Edit]:
        return dict(self.iterate_edits([range(len(self.entries))]))

    def find_edit(self, seq: int) -> Edit | None:
        if self.is_plain:
            return None

        # This does not use `iterate_edits`, which sorts all changes: called for each
        # position, it would be quadratic.
        return self.changes.get(seq) or self._find_log_edit(seq)

    def _find_log_edit(self, seq: int) -> Edit | None:
        edits = self._merge_edits(range(seq, seq + 1), ())
        return next((edit for _, edit in edits), None)

    def iterate_edits(self, spans: Iterable[range]) -> Iterator[tuple[int, Edit]]:
        """
        What positions in *spans* show instead of their own message, in order.
        O(log n + changes) for the first of them.
        """
        if self.is_plain:
            return

        # The changes are sorted once, not for each span: a view with many summaries has
        # as many spans as changes.
        changes = sorted(self.changes.items())
        for span in spans:
            first = bisect_left(changes, span.start, key=_seq)
            last = bisect_left(changes, span.stop, key=_seq)
            yield from self._merge_edits(span, changes[first:last])

    def _merge_edits(
        self, span: range, changes: Sequence[tuple[int, Edit]]
    ) -> Iterator[tuple[int, Edit]]:
        streams = (_iterate_span(self.rewrites, span), changes)
        at, edit = _NO_EDIT
        for found in merge(*streams, key=_seq):
            if found[0] != at:
                if at >= 0:
                    yield at, edit

                at, edit = found[0], _UNCHANGED

            # A change comes after a rewrite, because `merge` is stable: steps on a
            # whole log are not changes.
            edit = Edit((found.message,)) if isinstance(found, Rewrite) else found[1]

        if at >= 0:
            yield at, edit

    def pairs(self) -> Iterator[tuple[int, Message]]:
        for seq, messages in self.iterate():
            for message in messages:
                yield seq, message

    def located(self) -> Iterator[tuple[int, Message]]:
        """As `pairs`, with each message's position in the log, even if it was moved."""
        for seq, messages in self.iterate():
            edit = self.find_edit(seq) if len(messages) > 1 else None
            seqs = edit.seqs if edit else ()
            for place, message in enumerate(messages):
                yield (seqs[place] if seqs else seq), message

    def iterate(self) -> Iterator[tuple[int, tuple[Message, ...]]]:
        spans = self.spans()
        edits = self.iterate_edits(spans)
        edited, edit = next(edits, _NO_EDIT)
        for span in spans:
            entries = islice(self.entries.iterate(span.start), len(span))
            for seq, (_id, message) in zip(span, entries, strict=True):
                if seq == edited:
                    yield seq, edit.shown
                    edited, edit = next(edits, _NO_EDIT)
                else:
                    yield seq, (message,)

    def seqs(self, start: int = 0, stop: int | None = None) -> Iterator[int]:
        """The positions that show something, of all or from *start* to *stop*."""
        spans = self.spans(start, stop)
        removed = {seq for seq, edit in self.iterate_edits(spans) if edit.reason}
        return (seq for span in spans for seq in span if seq not in removed)

    def is_shown(self, seq: int) -> bool:
        if not 0 <= seq < len(self.entries) or not self.spans(seq, seq + 1):
            return False

        edit = self.find_edit(seq)
        return edit is None or not edit.reason

    def messages_at(self, seq: int) -> tuple[Message, ...]:
        edit = self.find_edit(seq)
        return edit.messages if edit else (self.entries[seq].message,)

    def count_tokens(self, messages: Iterable[Message]) -> int:
        return sum([count(message, self.counter) for message in messages])

    def _count_surplus(self, span: range) -> int:
        surplus = 0
        if self.changes:
            # What a change stands for may itself have been several messages.
            for seq in [seq for seq in self.changes if seq in span]:
                before = self._find_log_edit(seq)
                surplus -= len(before.shown) if before else 1
                surplus += len(self.changes[seq].shown)

        return surplus

    def find_shown(self, at: int) -> tuple[int, int]:
        """
        The position of the message shown as number *at*, and its place there.

        O(log n), or O(messages shown) where positions were changed one by one.
        """
        if self.changes:
            for seq, messages in self.iterate():
                if at < len(messages):
                    return seq, at

                at -= len(messages)

        for span in self.spans():
            shown = len(span) + self._count_surplus(span)
            if at >= shown:
                at -= shown
                continue

            return span.start + at, 0

        raise AssertionError  # the spans add up to the size

    def count_saved(self, seq: int) -> int:
        """How many tokens rewriting saved before the position *seq*. O(log n)."""
        at = bisect_left(self.rewrites, seq, key=_seq)
        return self.rewrites[at - 1].saved if at else 0

    def drop_reason(self, seq: int) -> str:
        edit = self.find_edit(seq)
        if edit and edit.reason:
            return edit.reason

        for start, stop, reason in self.ranges:
            if start <= seq < stop:
                return reason

        return COMPACTED

    def stands_for(self, seqs: Iterable[int]) -> tuple[range, ...]:
        return join_ranges(
            span
            for seq in seqs
            for span in self.summarised(seq) or self._own_positions(seq)
        )

    def _own_positions(self, seq: int) -> tuple[range, ...]:
        """The position *seq* and those of the messages that were moved there."""
        edit = self.changes.get(seq)
        seqs = {seq, *edit.seqs} if edit else {seq}
        return tuple([range(each, each + 1) for each in sorted(seqs)])

    def summarised(self, seq: int) -> tuple[range, ...]:
        """The positions that a summary at *seq* stands for; empty without one."""
        own = self.changes.get(seq)
        return own.stands_for if own else ()

    def locate(self, seq: int) -> tuple[int, int] | None:
        """
        The position that shows the message at *seq*, and its place there; None if no
        one does. A late result stands at the position of its call.
        """
        edit = self.changes.get(seq)
        if edit is not None and edit.reason == MOVED:
            for at, other in self.changes.items():
                if seq in other.seqs and self.is_shown(at):
                    return at, other.seqs.index(seq)

        if not self.is_shown(seq):
            return None

        places = enumerate(self.messages_at(seq))
        return seq, next((place for place, each in places if not is_made(each)), 0)

    def replace(self, at: int, place: int, message: Message) -> Selection:
        """With *message* in a place of a position that shows something."""
        edit = self.find_edit(at) or Edit(self.messages_at(at))
        messages = *edit.messages[:place], message, *edit.messages[place + 1 :]
        return self.change({at: edit._replace(messages=messages, left_out="")})

    def remove(self, seqs: Iterable[int], reason: str) -> Selection:
        """Without what is shown at *seqs*. O(log n) for each."""
        removed: dict[int, Edit] = {}
        moved: list[tuple[int, int]] = []
        for seq in set(map(index, seqs)):
            located = self.locate(seq)
            if located is None:
                continue

            at, _ = located
            if at == seq:
                # The removed edit keeps its messages: a summary that was dropped again
                # is still one of the view's summaries, and its tokens were paid for.
                edit = self.find_edit(seq) or Edit(self.messages_at(seq))
                removed[seq] = edit._replace(reason=reason, left_out="")
            else:
                moved.append((seq, at))

        changed: dict[int, Edit] = {}
        for seq, at in moved:
            # What stands at a position that goes, goes with it.
            if at not in removed:
                changed[at] = _without_moved(
                    changed.get(at) or self.changes[at], at, seq
                )

        gone = {
            seq: Edit(self.messages_at(seq), reason)
            for seq, at in moved
            if at in changed
        }
        return self.change({**removed, **changed, **gone})

    def change(self, changes: Mapping[int, Edit]) -> Selection:
        """With other messages, or none, at positions that are in no range."""
        tokens, size, changed = self.tokens, self.size, {}
        for seq, edit in changes.items():
            own = self.changes.get(seq)
            before = own.shown if own else self.messages_at(seq)
            if edit == (own or Edit(before)):
                continue

            changed[seq] = edit
            after = edit.shown
            tokens += self.count_tokens(after) - self.count_tokens(before)
            size += len(after) - len(before)

        if not changed:
            return self

        both = self.changes.update(changed)
        return attrs.evolve(
            self, tokens=tokens, size=size, changes=both, is_whole=False
        )

    def drop_ranges(self, ranges: Iterable[DroppedRange], tokens: int) -> Selection:
        """Without what is shown in *ranges*, which fills *tokens* in all."""
        dropped, size = list(self.ranges), self.size
        for start, stop, reason in ranges:
            for gap in self.spans(start, stop):
                dropped.append(DroppedRange(gap.start, gap.stop, reason))
                size -= len(gap)
                if self.changes is not NO_CHANGES:
                    size -= self._count_surplus(gap)

        if size == self.size:
            return self

        dropped.sort()
        # *is_whole* is not passed on, because this selection no longer shows all that
        # *steps* made. `attrs.evolve` would take nearly three times as long, and each
        # `fit` drops messages.
        return Selection(
            self.entries,
            self.counter,
            self.rules,
            self.tokens - tokens,
            size,
            tuple(dropped),
            self.changes,
            self.rewrites,
            self.steps,
        )

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
        changes = narrowed.changes
        for seq in changes.keys() & set(rest):
            changes = changes.remove(seq)  # another summary stands for it now

        for seq in [seq for span in stands_for for seq in span]:
            moved = changes.get(seq)
            if moved is not None and moved.reason == MOVED:
                changes = changes.set(seq, moved._replace(reason=COMPACTED))

        edit = Edit((summary,), stands_for=stands_for)
        return attrs.evolve(narrowed, changes=changes).change({first: edit})


_SELECTION = Maker("trimming.Selection", Selection)


def _without_moved(edit: Edit, at: int, seq: int) -> Edit:
    # What is shown at *at* without the message that was moved there from *seq*.
    kept = [
        pair for pair in zip(edit.messages, edit.seqs, strict=True) if pair[1] != seq
    ]
    messages, seqs = (tuple(each) for each in zip(*kept, strict=True))
    return edit._replace(messages=messages, seqs=seqs if set(seqs) != {at} else ())


def _iterate_span(edits: Log[Any], span: range) -> Iterator[Any]:
    newer = edits.iterate(bisect_left(edits, span.start, key=_seq)) if edits else ()
    return takewhile(lambda edit: edit[0] < span.stop, newer)
