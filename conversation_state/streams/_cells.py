"""
Cells: a list that is computed while it is read.

A cell has an item and the next cell, or, while it is empty, the source of both.
Only the last cell of a list refers to the source, so a source that can't be
read any more is freed, and its producer is notified.

A reader of an empty cell acquires the source's turn and polls it. A turn is
never held across an `await` or while waiting, except in a thread while the
caller's code runs: a source that blocks, or a function.

An interrupt (Ctrl-C) may come between any two instructions and must lose
nothing. Three rules ensure that:

- An item goes from its source into its cell in one call into C
  (``next(map(SET_ITEM, ...))``): there is no instruction in between.
- A cell is complete when its `link` is None, which is one assignment. Until
  then the next reader can repeat all steps before it.
- A turn is released by an idempotent call in two nested `finally`: a single
  interrupt can cut short only one of them.
"""

from __future__ import annotations

from _thread import get_ident
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any

from conversation_state._waiting import ThreadWaiter, Waiter, wake_all
from conversation_state.errors import StreamClosedError

__all__ = [
    "EMPTY",
    "END",
    "LAST",
    "MARKS",
    "SET_ITEM",
    "Ended",
    "Fault",
    "Source",
    "StreamCell",
    "calling",
    "describe_interrupt",
    "fault",
    "is_ended",
    "pull",
    "without_our_frames",
]


class Fault:
    """
    An error with a place in a stream.

    Attributes:
        error: The error.

        traceback: Its traceback when it was caught; each reader starts with it.

        caller: The generator that called what raised, see `calling`. If it
            ended first, its frame would have a caller again, on Python 3.12.
    """

    __slots__ = ("caller", "context", "error", "traceback")

    def __init__(self, error: Exception) -> None:
        self.caller: object = None
        self.error = error
        self.context = error.__context__
        self.traceback: TracebackType | None = error.__traceback__


class Ended:
    """
    The place where a source of a named merge ended.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _End:
    """
    The place after the last item.
    """

    __slots__ = ()


END = _End()
MARKS = frozenset({Fault, Ended, _End})

# What a cell holds before its item.
EMPTY = object()


def fault(error: Exception) -> Fault:
    """
    An error that was just caught, without the frames of this package.
    """
    error.with_traceback(without_our_frames(error.__traceback__))
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        # It would end the reader's loop instead of reaching them.
        stopped = RuntimeError(f"{type(error).__name__} was raised inside a stream")
        stopped.__cause__ = error
        return Fault(stopped)

    return Fault(error)


def describe_interrupt(kind: str) -> Fault:
    """
    What other readers get where an error of this *kind* interrupted a source.
    """
    why = f"the stream broke off: {kind} went through its source"
    return Fault(StreamClosedError(why))


def without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    """
    *traceback* from the first frame on that is not of this package.

    Frames refer to their local variables, here cells; an error that is kept
    would keep a stream.
    """
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next

    return traceback


def _is_ours(traceback: TracebackType) -> bool:
    name: str = traceback.tb_frame.f_globals.get("__name__", "")
    return name.startswith(("conversation_state.streams.", "conversation_state._wait"))


def calling(function: Callable[[Any], Any]) -> Generator[None, Any, None]:
    """
    A generator that is sent a list and an argument, and appends to the list
    what *function* returns for that, or a `Fault`.

    An interrupt ends it; make another one then.
    """
    calls = _call_on(function)
    next(calls)
    return calls


def _call_on(function: Callable[[Any], Any]) -> Generator[None, Any, None]:
    # A frame that raised keeps its callers' frames, and so the reader's local
    # variables. The frame of a suspended generator has no caller.
    while True:
        results, argument = yield
        try:
            # One call, so that no interrupt comes between it and the result.
            next(map(results.append, map(function, (argument,))))
        except Exception as error:  # noqa: BLE001 - in-band
            results.append(fault(error))

        del results, argument


def is_ended(generator: Any) -> bool:
    """
    Whether an interrupt ended a generator that never ends by itself.
    """
    return generator.gi_frame is None


class Source:
    """
    Where the next item comes from.

    Attributes:
        busy: Waiters that found the turn taken.

        turn: Empty, or the turn of the one that polls: a list of its
            own that begins with its thread, or with 0 once it is given back.
            with `setdefault` exactly one wins.
    """

    __slots__ = ("busy", "turn")

    def __init__(self) -> None:
        self.busy: deque[Waiter] = deque()
        self.turn: dict[int, list[int]] = {}

    @abstractmethod
    def poll(
        self, cell: StreamCell, waiter: Waiter | None, *, block: bool
    ) -> StreamCell | None:
        """
        Fill *cell*, and return the next one; None if there is nothing yet.

        Called by the one that has the turn, and again if it was interrupted:
        also where *cell* has its item already. If it returns None, *waiter*
        will be woken as soon as asking again is worthwhile. May block in
        the caller's code if *block* is true.
        """

    def upstream(self, state: Any) -> StreamCell | None:  # noqa: ARG002 - for others
        """
        The cell that has to be filled before the one whose link has *state*;
        None if there is none, or it is filled.
        """
        return None

    def release(self, turn: list[int]) -> None:
        """
        Release *turn* if it was acquired. Idempotent.
        """
        if self.turn.get(0) is turn:
            turn.append(0)  # so that a repeated call knows it was acquired
            self.turn.clear()

        if len(turn) > 1:
            self.wake()

        turn[0] = 0  # all is done

    def wake(self) -> None:
        """
        Wake the waiters for the turn, which is free now.
        """
        if self.busy:
            wake_all(self.busy)


class StreamCell:
    """
    A position in a stream.

    Attributes:
        item: The item, or a mark; `EMPTY` while there is none.

        link: The source to get it from, and what that has to know about this
            place; None as soon as *item* and *next* are there.

        next: The next cell.
    """

    __slots__ = ("item", "link", "next")

    item: Any
    link: tuple[Source, Any] | None
    next: Any  # so that readers of a filled cell need no check

    def __init__(self, link: tuple[Source, Any] | None) -> None:
        self.item = EMPTY
        self.link = link
        self.next = None


# Called with a cell and its item, by `map`.
SET_ITEM: Callable[[StreamCell, Any], None] = vars(StreamCell)["item"].__set__

LAST = StreamCell(None)
LAST.item = END
LAST.next = LAST


def pull(cell: StreamCell, waiter: Waiter | None, *, block: bool) -> bool:
    """
    Whether *cell* is filled; if not, *waiter* will be woken.

    Raises:
        StreamClosedError:
            If this call is made by code that the cell waits for.
    """
    link = cell.link
    if link is None:
        return True

    below = link[0].upstream(link[1])
    if below is None:
        return _pull_one(cell, link[0], waiter, block=block)

    # From the bottom up, in a loop: a conversion of a conversion of ... may be
    # thousands deep, which would be as many calls within each other.
    cells = [cell]
    while below is not None:
        cells.append(below)
        link = below.link
        below = None if link is None else link[0].upstream(link[1])

    while cells:
        each = cells.pop()
        link = each.link
        if link is not None and not _pull_one(each, link[0], waiter, block=block):
            return False

    return True


def _pull_one(
    cell: StreamCell, source: Source, waiter: Waiter | None, *, block: bool
) -> bool:
    turn = [get_ident()]
    # One call within: neither a `return` nor, on Python 3.12, a loop's way back is
    # covered by the `finally` around it.
    try:
        try:
            _fill_cell(cell, source, turn, waiter, block=block)
        finally:
            source.release(turn)
    finally:
        if turn[0]:  # the first call was interrupted
            source.release(turn)

    return cell.link is None


def _fill_cell(
    cell: StreamCell,
    source: Source,
    turn: list[int],
    waiter: Waiter | None,
    *,
    block: bool,
) -> None:
    if source.turn.setdefault(0, turn) is not turn:
        _await_turn(source, turn, cell, waiter, block=block)

    # Another reader may have the turn, or may have filled the cell.
    if cell.link is not None and source.turn.get(0) is turn:
        following = source.poll(cell, waiter, block=block)
        if following is not None:
            cell.next = following
            cell.link = None


_CIRCLE = (
    "this stream is read by the source or function that makes its next element, "
    "which is a deadlock; let it read another stream"
)

# The source whose turn a thread waits for.
_wanted: dict[int, Source] = {}


def _await_turn(
    source: Source,
    turn: list[int],
    cell: StreamCell,
    waiter: Waiter | None,
    *,
    block: bool,
) -> None:
    """
    Acquire the turn, or enter the queue of waiters for it.
    """
    me = turn[0]
    if _find_owner(source) == me:
        raise StreamClosedError(_CIRCLE)

    if not block:
        if waiter is not None:
            waiter.enter(source.busy)
            source.turn.setdefault(0, turn)

        return

    own = ThreadWaiter()
    try:
        try:
            _wanted[me] = source
            _wait_for_turn(source, turn, cell, own)
        finally:
            _wanted.pop(me, None)
            own.leave()
    finally:
        _wanted.pop(me, None)
        own.leave()


def _wait_for_turn(
    source: Source, turn: list[int], cell: StreamCell, waiter: ThreadWaiter
) -> None:
    while cell.link is not None:
        waiter.enter(source.busy)
        if source.turn.setdefault(0, turn) is turn:
            return

        # Each thread notes what it waits for before it looks, so that at least
        # one thread of a deadlock sees it. Checked twice, because the first look
        # may have seen a change half done; a deadlock stays.
        if _is_in_circle(source, turn[0]) and _is_in_circle(source, turn[0]):
            raise StreamClosedError(_CIRCLE)

        waiter.wait()


def _find_owner(source: Source) -> int:
    turn = source.turn.get(0)
    return 0 if turn is None else turn[0]


def _is_in_circle(source: Source | None, me: int) -> bool:
    seen = set()
    while source is not None:
        owner = _find_owner(source)
        if owner == me:
            return True
        if owner in seen:
            return False

        seen.add(owner)
        source = _wanted.get(owner)

    return False
