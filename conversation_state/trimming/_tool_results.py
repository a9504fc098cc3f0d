"""
Making tool results smaller; calls and results stay together.

Which results of a whole log are smaller, and how many tokens that saves, is
found result by result and remembered with the log (`Log.fold`), for each set of
steps that results of one age pass: `clear_tool_results` spares the newest ones.
So the next state of a conversation costs what is new in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import attrs

from conversation_state._persistent import Log, check_text, final
from conversation_state.aggregator import Entry
from conversation_state.counting import TokenCounter, count
from conversation_state.messages import Message, ToolMessage
from conversation_state.parts import Part, TextPart
from conversation_state.trimming._elements import (
    NO_REWRITES,
    Edit,
    Rewrite,
    add_mark,
    check_integer,
    read_mark,
)
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._view import Step, TrimContext

_rank = itemgetter(2)


class _RewriteStep(Protocol):
    """A step that makes all results but the newest *keep* smaller, each by itself."""

    @property
    def keep(self) -> int: ...

    def rewrite(self, result: ToolMessage, counter: TokenCounter) -> ToolMessage: ...


class _Rewritten(NamedTuple):
    size: int = 0  # how many positions the run has
    results: int = 0  # how many results there are
    # As of a `Rewrite`.
    tokens: int = 0
    saved: int = 0
    changed: int = 0
    rewrites: Log[Rewrite] = NO_REWRITES  # the results that are smaller, in order

    def with_message(
        self, message: Message, steps: tuple[_RewriteStep, ...], counter: TokenCounter
    ) -> _Rewritten:
        seq, results, tokens, saved, changed, rewrites = self
        fills = count(message, counter)
        tokens += fills
        if isinstance(message, ToolMessage):
            shown = before = message
            for step in steps:
                before, shown = shown, step.rewrite(shown, counter)

            changed += shown is not before
            if shown is not message:
                saved += fills - count(shown, counter)
                rewrite = Rewrite(seq, shown, results, tokens, saved, changed)
                rewrites = rewrites.append(rewrite)

            results += 1

        if not (seq + 1) % 32:
            rewrites = Log(rewrites)  # as in a survey

        return _Rewritten(seq + 1, results, tokens, saved, changed, rewrites)


def _rewrite_log(selection: Selection, steps: tuple[_RewriteStep, ...]) -> _Rewritten:
    """The log of *selection* after *steps*. O(entries since the last time)."""
    counter = selection.counter

    def add_entry(run: _Rewritten, entry: Entry) -> _Rewritten:
        return run.with_message(entry.message, steps, counter)

    key = ("rewritten", counter, steps)
    return selection.entries.fold(add_entry, _Rewritten(), key=key)


def _rewrite_whole(selection: Selection, step: _RewriteStep) -> Selection:
    """
    *selection*, which shows a whole log, after *step* as well.

    O(log n + what was spared by one of the steps and not by another).
    """
    # The same step was the last one, and each step is idempotent, so there is nothing
    # to do.
    if step in selection.steps[-1:]:
        return selection

    steps = passed = *selection.steps, step
    rewrites, saved, changed, start = NO_REWRITES, 0, 0, 0
    # The oldest results pass all steps, the newest those that spare none.
    for keep in sorted({each.keep for each in passed}, reverse=True):
        at_this_age = tuple([each for each in passed if each.keep <= keep])
        run = _rewrite_log(selection, at_this_age)
        stop = max(run.results - keep, start)
        first = bisect_left(run.rewrites, start, key=_rank)
        last = bisect_left(run.rewrites, stop, key=_rank)
        if first < last:
            # The sums of this run continue those of the older results.
            before = run.rewrites[first - 1] if first else None
            base = before.saved if before else 0
            if start:
                found = [
                    each._replace(saved=each.saved - base + saved)
                    for each in run.rewrites[first:last]
                ]
                rewrites = rewrites.extend(found)
            else:
                # This shares the log that the fold remembers instead of copying it.
                rewrites = run.rewrites.take(last)

            newest = run.rewrites[last - 1]
            saved += newest.saved - base
            if step is at_this_age[-1]:
                changed += newest.changed - (before.changed if before else 0)

        start = stop

    if not changed:
        return selection

    # *saved* is of all steps, so what earlier ones saved is not taken off twice.
    base_tokens = selection.tokens
    if selection.rewrites:
        base_tokens += selection.rewrites[-1].saved

    return attrs.evolve(
        selection, tokens=base_tokens - saved, rewrites=rewrites, steps=steps
    )


def _rewrite_results(context: TrimContext, step: _RewriteStep) -> TrimContext:
    selection, counter = context._selection, context.counter
    if selection.is_whole:
        return context._with_selection(_rewrite_whole(selection, step))

    shown = dict(selection.iterate())
    results = [
        (seq, place, message)
        for seq, messages in shown.items()
        for place, message in enumerate(messages)
        if isinstance(message, ToolMessage)
    ]
    changes: dict[int, Edit] = {}
    for seq, place, result in results[: max(len(results) - step.keep, 0)]:
        smaller = step.rewrite(result, counter)
        if smaller is not result:
            edit = changes.get(seq) or selection.changes.get(seq) or Edit(shown[seq])
            messages = *edit.messages[:place], smaller, *edit.messages[place + 1 :]
            changes[seq] = edit._replace(messages=messages)

    return context._with_selection(selection.change(changes))


@final
@attrs.frozen
class _ShortenResults:
    limit_tokens: int
    marker: str

    keep = 0

    def __call__(self, context: TrimContext) -> TrimContext:
        return _rewrite_results(context, self)

    def rewrite(self, result: ToolMessage, counter: TokenCounter) -> ToolMessage:
        if count(result, counter) <= self.limit_tokens:
            # A message is rarely smaller than its text; then nothing is done.
            return result

        text = result.text
        # Cut to the marker alone, which may be over the limit itself.
        shortened = read_mark(result).get("shortened_to")
        if shortened == 0 or self._count_text(text, counter) <= self.limit_tokens:
            return result

        # Bisection over how many characters to keep: *least* of them fit.
        least, most = 0, len(text)
        while most - least > 1:
            middle = (least + most) // 2
            start, stop = _middle_bounds(len(text), middle)
            tried = text[:start] + self._format_marker(stop - start) + text[stop:]
            if self._count_text(tried, counter) <= self.limit_tokens:
                least = middle
            else:
                most = middle

        start, stop = _middle_bounds(len(text), least)
        parts = _cut_parts(result.parts, start, stop, self._format_marker(stop - start))
        content: Any = parts
        if isinstance(result.content, str):
            content = "".join(
                [part.text for part in parts if isinstance(part, TextPart)]
            )

        return add_mark(result, {"shortened_to": least}, content=content)

    def _format_marker(self, removed: int) -> str:
        return self.marker.replace("{cut}", f"{removed:,}")

    @staticmethod
    def _count_text(text: str, counter: TokenCounter) -> int:
        return count(ToolMessage(text, tool_call_id="0"), counter)


def _middle_bounds(size: int, kept: int) -> tuple[int, int]:
    """Where the middle starts and stops that leaves *kept*, half at either end."""
    start = -(-kept // 2)
    return start, size - (kept - start)


def _cut_parts(parts: Iterable[Part], start: int, stop: int, note: str) -> list[Part]:
    cut: list[Part] = []
    at = 0
    for part in parts:
        if not isinstance(part, TextPart):
            cut.append(part)
            continue

        end = at + len(part.text)
        text = part.text[: max(start - at, 0)]
        if at <= start < end:
            text += note

        text += part.text[max(stop - at, 0) :]
        at = end
        if text:
            cut.append(attrs.evolve(part, text=text))

    return cut


def shorten_tool_results(
    limit_tokens: int, *, marker: str = "\n[… {cut} characters cut …]\n"
) -> Step:
    """
    A step that cuts the middle out of long tool results.

    A result's text of more than *limit_tokens*, by the view's counter, keeps
    its beginning and its end, as much of both as has room, and a marker
    between them; if the marker alone has no room, it stands alone. Media stay
    and are not counted. A result cut so is not dropped: it keeps its position,
    its call id, name and metadata, and still answers its call.

    Doing it again changes nothing. Costs a dozen counts of each long result,
    once in the life of a state and all that grows from it, and O(log n); of a
    view that other steps narrowed before, O(messages kept).

    Args:
        limit_tokens: How long a text may be.
        marker: What stands for the middle; ``{cut}`` in it becomes the number
            of characters that were cut.

    Raises:
        ValueError: If *limit_tokens* is negative or no integer, or *marker* isn't a
            text.
    """
    limit = check_integer("shorten_tool_results", "limit_tokens", limit_tokens)
    return _ShortenResults(limit, check_text(marker, "shorten_tool_results' marker"))


@final
@attrs.frozen
class _ClearResults:
    keep: int
    marker: str

    def __call__(self, context: TrimContext) -> TrimContext:
        return _rewrite_results(context, self)

    def rewrite(self, result: ToolMessage, counter: TokenCounter) -> ToolMessage:
        cleared = add_mark(result, {"cleared": True}, content=self.marker)
        return cleared if count(cleared, counter) < count(result, counter) else result


def clear_tool_results(*, keep: int = 3, marker: str = "[cleared]") -> Step:
    """
    A step that empties all tool results but the newest *keep*.

    A marker stands for their content, media too, where it is smaller. They
    keep position, call id, name and metadata, and still answer their calls.
    Doing it again changes nothing. Costs what is new, O(log n) and *keep* once
    the state before was read; of a view that other steps narrowed before,
    O(messages kept).

    Args:
        keep: How many of the newest stay as they are.
        marker: What stands for the content of the others.

    Raises:
        ValueError: If *keep* is negative or no integer, or *marker* isn't a text.
    """
    number = check_integer("clear_tool_results", "keep", keep)
    return _ClearResults(number, check_text(marker, "clear_tool_results' marker"))
