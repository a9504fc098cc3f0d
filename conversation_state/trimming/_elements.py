"""
What a view consists of: its elements, what it drops, what replaces a message,
and the marks in the metadata of the messages that steps make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from conversation_state._persistent import EMPTY_MAP, Log, final
from conversation_state._wording import describe_value, shorten_repr
from conversation_state.aggregator import Entry
from conversation_state.messages import Message

OVER_BUDGET, OVER_COUNT, INVALID = "over budget", "over the count", "invalid"
REMOVED, COMPACTED = "removed", "compacted"
# Why a position shows nothing whose message stands at another one. It is not dropped.
MOVED = "moved"


@final
class Element(NamedTuple):
    """
    A message in a view.

    Attributes:
        seq: Its position in the conversation; the same in every view. What a
            step put there has the position of what it stands for: a shortened
            result that of the result, a summary the first of those it sums
            up, an answer made by `repair` that of the message that calls. A
            result that was moved up to its call keeps its own.
        message: The message.
        tokens: How many tokens it fills, by the view's counter.
        role: Its role.
    """

    seq: int
    message: Message
    tokens: int
    role: str


@final
class Dropped(NamedTuple):
    """
    A message of the conversation that a view does not show.

    Attributes:
        seq: Its position in the conversation.
        reason: Why: ``over budget``, ``over the count``, ``removed``,
            ``compacted`` (a summary stands for it; if the summary was dropped,
            too, its position says why), or ``invalid:`` and the place that a
            provider would refuse: *invalid: call call_1 has no result
            (messages[101])*. It is that message, or could only be shown together
            with it.
    """

    seq: int
    reason: str


@final
class DroppedRange(NamedTuple):
    start: int
    stop: int
    reason: str


@final
class Edit(NamedTuple):
    """What a position shows instead of its own message."""

    # The messages, at least one; what it showed before, if it is removed.
    messages: tuple[Message, ...]
    reason: str = ""  # why it shows nothing; "" if it shows *messages*
    # The positions it stands for, if it is a summary.
    stands_for: tuple[range, ...] = ()
    # The position of each message in the log, where that is another one: a late result
    # stands at the position of its call.
    seqs: tuple[int, ...] = ()
    # Why its own message is dropped, where only made messages are shown instead of it.
    left_out: str = ""

    @property
    def shown(self) -> tuple[Message, ...]:
        return () if self.reason else self.messages

    @property
    def summary(self) -> Message:
        """The message that stands for others, also behind one that `repair` made."""
        marked = (each for each in self.messages if "compacted" in read_mark(each))
        return next(marked, self.messages[0])


@final
class Rewrite(NamedTuple):
    """A tool's result that is shown smaller."""

    seq: int  # its position
    message: Message  # what is shown
    rank: int  # how many results come before it
    # How many tokens all messages up to it fill, itself included, as they were before
    # any was rewritten.
    tokens: int
    saved: int  # how many of these tokens rewriting saved
    changed: int  # how many of these results the last of the steps changed

    @property
    def shown_tokens(self) -> int:
        return self.tokens - self.saved


NO_REWRITES: Log[Rewrite] = Log()


@final
class StepFailure(NamedTuple):
    """
    What a step could not do: a summary it did not get, or history that it had
    to leave out because a place is invalid.

    Attributes:
        step: The step.
        error: Why; a `DroppedHistoryError` where messages were left out.
    """

    step: object
    error: Exception


class EarlierSummary(NamedTuple):
    message: Message  # the summary
    # What that view was of; None if all that is known is what the message says about
    # itself.
    entries: Log[Entry] | None = None
    stands_for: tuple[range, ...] = ()  # which positions of these


def join_ranges(spans: Iterable[range]) -> tuple[range, ...]:
    found: list[range] = []
    for span in spans:
        if found and found[-1].stop == span.start:
            found[-1] = range(found[-1].start, span.stop)
        else:
            found.append(span)

    return tuple(found)


# All marks are under one key, so that metadata of callers is not in the way.
MARK = "conversation_state"
M = TypeVar("M", bound=Message)


def read_mark(message: Message) -> Mapping[str, Any]:
    """What the metadata of *message* says about how it was made; empty if nothing."""
    mark = message.metadata.get(MARK)
    return mark if isinstance(mark, Mapping) else EMPTY_MAP


_OWN_MARKS = frozenset({"cleared", "compacted", "shortened_to", "synthetic"})


def is_marked(message: Message) -> bool:
    """Whether a step of ours made *message*; adapters keep notes there, too."""
    return not _OWN_MARKS.isdisjoint(read_mark(message))


def add_mark(message: M, mark: Mapping[str, Any], **changes: Any) -> M:
    both = {**read_mark(message), **mark}
    metadata = {**message.metadata, MARK: both}
    return message.replace(metadata=metadata, **changes)


def check_message(value: Any) -> Message:
    if not isinstance(value, Message):
        raise TypeError(f"expected a message, got {describe_value(value)}")

    return value


def check_integer(step: str, name: str, value: object, least: int = 0) -> int:
    # Subclasses of int such as enums are accepted, but True is not a count.
    if not isinstance(value, int) or value.__class__ is bool or value < least:
        raise ValueError(
            f"{name} of {step}: expected an integer from {least} on, got "
            f"{shorten_repr(value)}"
        )

    return int(value)
