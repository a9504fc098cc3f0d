"""
What two views have in common at their start, which a provider may have cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from conversation_state._persistent import final
from conversation_state.counting import count
from conversation_state.messages import Message
from conversation_state.trimming._selection import Selection
from conversation_state.trimming._validity import survey_log

__all__ = ["SharedPrefix", "find_shared_prefix"]


@final
class SharedPrefix(NamedTuple):
    """
    What two views have in common at their start.

    Attributes:
        messages: How many messages.

        tokens: How many tokens these fill, by the first view's counter.
    """

    messages: int
    tokens: int


class _PrefixReader:
    """
    Reads a selection from its start, run by run where nothing is replaced.
    """

    def __init__(self, selection: Selection) -> None:
        self._entries = selection.entries
        self._runs = _split_runs(selection)
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


def _split_runs(selection: Selection) -> Iterator[range | tuple[Message, ...]]:
    """
    Runs of positions that show their own messages, and what others show.
    """
    for span in selection.spans():
        start = span.start
        for seq, edit in selection.iterate_edits([span]):
            if start < seq:
                yield range(start, seq)

            if edit.shown:
                yield edit.shown

            start = seq + 1

        if start < span.stop:
            yield range(start, span.stop)


def find_shared_prefix(ours: Selection, theirs: Selection) -> SharedPrefix:
    """
    What both selections show at their start. O(log n) where it is the same
    entries, else O(messages that are equal).
    """
    same = ours.entries.common_prefix(theirs.entries)
    one, two = _PrefixReader(ours), _PrefixReader(theirs)
    messages = tokens = 0
    while True:
        left, right = one.run, two.run
        # A run is skipped as a whole only if it has the same position on both sides: at
        # different positions, equal messages are different entries.
        if left and right and left.start == right.start < same:
            common = min(left.stop, right.stop, same) - left.start
            start, stop = left.start, left.start + common
            tokens += _tokens_before(ours, stop) - _tokens_before(ours, start)
        else:
            message, other = one.message, two.message
            if message is None or not (message is other or message == other):
                return SharedPrefix(messages, tokens)

            common = 1
            tokens += count(message, ours.counter)

        messages += common
        one.skip(common)
        two.skip(common)


def _tokens_before(selection: Selection, seq: int) -> int:
    """
    How many tokens the entries before *seq* fill. O(log n).
    """
    return survey_log(selection.entries.take(seq), selection.counter).tokens
