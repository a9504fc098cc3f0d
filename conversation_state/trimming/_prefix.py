"""
What two views have in common at their start, which a provider may have cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from conversation_state.counting import count
from conversation_state.messages import Message
from conversation_state.trimming._survey import surveyed

if TYPE_CHECKING:
    from conversation_state.trimming._view import TrimContext

__all__ = ["SharedPrefix", "shared_prefix"]


class SharedPrefix(NamedTuple):
    """
    What two views have in common at their start.

    Attributes:
        messages: How many messages.

        tokens: How many tokens these fill, by the first view's counter.
    """

    messages: int
    tokens: int


class _Reader:
    """
    Reads a view from its start, run by run where nothing was replaced.
    """

    def __init__(self, context: TrimContext) -> None:
        self._entries = context._entries
        self._runs = _runs(context)
        self._run: range | tuple[Message, ...] | None = next(self._runs, None)

    @property
    def run(self) -> range | None:
        """
        The positions that come next, if they show their own messages.
        """
        return self._run if isinstance(self._run, range) else None

    @property
    def message(self) -> Message | None:
        """
        The next message; None at the end.
        """
        if self._run is None:
            return None

        first = self._run[0]
        return self._entries[first].message if isinstance(first, int) else first

    def skip(self, count: int) -> None:
        assert self._run is not None  # noqa: S101 - for type checkers
        self._run = self._run[count:] or next(self._runs, None)


def _runs(context: TrimContext) -> Iterator[range | tuple[Message, ...]]:
    removed, instead = context._removed, context._instead
    special = sorted({*removed, *instead})
    at = 0
    for span in context._spans():
        start = span.start
        while at < len(special) and special[at] < span.stop:
            seq = special[at]
            at += 1
            if seq < start:
                continue

            if start < seq:
                yield range(start, seq)

            if seq not in removed:
                yield instead[seq].messages

            start = seq + 1

        if start < span.stop:
            yield range(start, span.stop)


def shared_prefix(ours: TrimContext, theirs: TrimContext) -> SharedPrefix:
    same = ours._entries.common_prefix(theirs._entries)
    one, two = _Reader(ours), _Reader(theirs)
    messages = tokens = 0
    while True:
        left, right = one.run, two.run
        if left and right and left.start == right.start < same:
            common = min(left.stop, right.stop, same) - left.start
            tokens += _tokens(ours, left.start, left.start + common)
        else:
            message, other = one.message, two.message
            if message is None or not (message is other or message == other):
                return SharedPrefix(messages, tokens)

            common = 1
            tokens += count(message, ours.counter)

        messages += common
        one.skip(common)
        two.skip(common)


def _tokens(context: TrimContext, start: int, stop: int) -> int:
    """
    What the entries from *start* to *stop* fill. O(log n).
    """
    entries, counter = context._entries, context.counter
    before = surveyed(entries.take(start), counter).tokens
    return surveyed(entries.take(stop), counter).tokens - before
