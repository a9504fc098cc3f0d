"""
Cells: a list that is computed while it is read.

A cell holds an item and the next cell, or nothing yet and the source it will
get them from. Only the last cell of a list holds the source, so a source that
nobody can read from any more is freed, and says so to whoever feeds it.

Who reads a cell that is empty takes the source's turn and polls it. A turn is
held for a moment, never across an `await`, and never while waiting, except in
a thread while somebody else's code runs: a source that blocks, or a function.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Any

from conversation_state._waiting import Waiter, wake_all
from conversation_state.errors import StreamClosedError

__all__ = [
    "END",
    "LAST",
    "MARKS",
    "PENDING",
    "Cell",
    "Ended",
    "Fault",
    "Source",
    "asking",
    "calling",
    "fault",
    "pull",
]


class Fault:
    """
    An error with a place in a stream.

    Attributes:
        error: The error.

        traceback: What it came with, lest it grow with every reader.

        caller: The generator that called who raised, see `calling`. If it
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

# What polling gives if there is nothing yet.
PENDING = object()


def fault(error: Exception) -> Fault:
    """
    An error that was just caught, without the frames of this room.

    Frames hold what their functions had in hand, here cells; an error that is
    kept would keep a stream.
    """
    traceback = error.__traceback__
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next

    error.with_traceback(traceback)
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        # It would end the reader's loop instead of reaching them.
        stopped = RuntimeError(f"{type(error).__name__} was raised inside a stream")
        stopped.__cause__ = error
        return Fault(stopped)

    return Fault(error)


def _is_ours(traceback: TracebackType) -> bool:
    name: str = traceback.tb_frame.f_globals.get("__name__", "")
    return name.startswith("conversation_state.streams.")


def calling(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """
    *function*, but what it raises is returned as a `Fault`.
    """
    calls = _calls(function)
    next(calls)
    return calls.send


def _calls(function: Callable[[Any], Any]) -> Generator[Any, Any, None]:
    # A frame that raised keeps all its callers' frames, and so whatever the
    # reader has in hand. A generator's frame that waits has no caller.
    gave: list[Any] = [None]
    while True:
        item = yield gave.pop()
        try:
            gave.append(function(item))
        except Exception as error:  # noqa: BLE001 - in-band
            gave.append(fault(error))

        del item


def asking(iterator: Iterator[Any]) -> Callable[[Any], Any]:
    """
    The next item of *iterator*, `END`, or a `Fault`; its argument is None.
    """
    asks = _asks(iterator)
    next(asks)
    return asks.send


def _asks(iterator: Iterator[Any]) -> Generator[Any, None, None]:
    # A generator for the same reason.
    gave: list[Any] = [None]
    while True:
        yield gave.pop()
        try:
            gave.append(next(iterator))
        except StopIteration:
            gave.append(END)
        except Exception as error:  # noqa: BLE001 - in-band
            gave.append(fault(error))


class Source:
    """
    Where the next item comes from.

    Attributes:
        busy: Who found the turn taken, and can't block.

        owner: The thread that has the turn; 0 if nobody.

        turn: Held by the one who polls.
    """

    __slots__ = ("busy", "owner", "turn")

    def __init__(self) -> None:
        self.busy: deque[Waiter] = deque()
        self.owner = 0
        self.turn = allocate_lock()

    @abstractmethod
    def poll(self, cell: Cell, waiter: Waiter | None, *, block: bool) -> Any:
        """
        The next item, a mark, or `PENDING`.

        Called by the one who has the turn, for the *cell* to be filled. If it
        gives `PENDING`, *waiter* will be woken as soon as asking again is
        worthwhile. May block in code that is not ours if *block* is true.
        """


class Cell:
    """
    A place in a stream.

    Attributes:
        item: The item, or a mark.

        next: The next cell; None while there is no item.

        source: Where to get it; None as soon as there is one.
    """

    __slots__ = ("item", "next", "source")

    item: Any
    next: Any  # lest whoever just had it filled has to say so
    source: Source | None

    def __init__(self, source: Source | None) -> None:
        self.next = None
        self.source = source


LAST = Cell(None)
LAST.item = END
LAST.next = LAST


def pull(cell: Cell, waiter: Waiter | None, *, block: bool) -> bool:
    """
    Whether *cell* is filled; if not, *waiter* will be woken.

    Raises:
        StreamClosedError:
            If this very call is made by code that the cell waits for.
    """
    source = cell.source
    if source is None:
        return True

    turn = source.turn
    if not turn.acquire(False):  # noqa: FBT003 - positional only
        if source.owner == get_ident():
            raise StreamClosedError(_CIRCLE)

        if block:
            _take_turn(source)
        elif waiter is None:
            return cell.next is not None
        else:
            waiter.enter(source.busy)
            if not turn.acquire(False):  # noqa: FBT003 - positional only
                return cell.next is not None

    source.owner = get_ident()
    try:
        if cell.next is None:  # nobody was faster
            item = source.poll(cell, waiter, block=block)
            if item is PENDING:
                return False

            cell.item = item
            cell.next = LAST if item is END else Cell(source)
            cell.source = None

        return True
    finally:
        source.owner = 0
        turn.release()
        if source.busy:
            wake_all(source.busy)


_CIRCLE = (
    "this stream is read by the source or function that makes its next element, "
    "which would wait for itself for ever; let it read another stream"
)

# The source whose turn a thread waits for.
_wanted: dict[int, Source] = {}


def _take_turn(source: Source) -> None:
    me = get_ident()
    # Everybody says what they want before they look, so that of all threads in
    # a circle at least one sees it.
    _wanted[me] = source
    try:
        # Twice: what was seen once may have been seen while it changed, but
        # threads in a circle stay there.
        if _in_circle(source, me) and _in_circle(source, me):
            raise StreamClosedError(_CIRCLE)

        source.turn.acquire()
    finally:
        del _wanted[me]


def _in_circle(source: Source | None, me: int) -> bool:
    seen = set()
    while source is not None:
        owner = source.owner
        if owner == me:
            return True
        if owner in seen:
            return False

        seen.add(owner)
        source = _wanted.get(owner)

    return False
