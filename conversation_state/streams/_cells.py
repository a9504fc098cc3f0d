"""
Cells: a list that is computed while it is read.

A cell has an item and the next cell, or, while it is empty, the source of both.
Only the last cell of a list refers to the source, so a source that can't be
read any more is freed, and its producer is notified.

How cells are filled: `_pull`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, NoReturn, TypeAlias

from conversation_state._waiting import Waiter, wake_all
from conversation_state.errors import StreamClosedError


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
    """The place where a source of a named merge ended."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _End:
    """The place after the last item."""

    __slots__ = ()


END = _End()
MARKS = frozenset({Fault, Ended, _End})

# What a cell holds before its item.
EMPTY = object()

# What `Source.fill` returns where it filled a cell, with an item that is not a mark.
FILLED = object()


def fault(error: Exception) -> Fault:
    # An error that was just caught, without the frames of this package.
    error.with_traceback(without_our_frames(error.__traceback__))
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        # It would end the reader's loop instead of reaching them.
        stopped = RuntimeError(f"{type(error).__name__} was raised inside a stream")
        stopped.__cause__ = error
        return Fault(stopped)

    return Fault(error)


def make_broken_off_fault(why: str) -> Fault:
    # What readers get where a stream ended, and its source didn't end it.
    return Fault(StreamClosedError(f"the stream broke off: {why}"))


def make_abort_fault() -> Fault:
    return Fault(
        StreamClosedError("the stream was aborted: abort() stopped its source")
    )


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
    # A program may execute code whose globals have any value as `__name__`, or none.
    name = str(traceback.tb_frame.f_globals.get("__name__"))
    return name.startswith(("conversation_state.streams.", "conversation_state._wait"))


def calling(
    function: Callable[[Any], Any],
) -> Generator[BaseException | None, Any, None]:
    """
    A generator that is sent a list and an argument, and appends to the list
    what *function* returns for that, or a `Fault`. It yields what interrupted
    *function*, for the caller to raise.

    An interrupt of its own frame ends it; make another one then.
    """
    calls = _call_on(function)
    next(calls)
    return calls


def _call_on(
    function: Callable[[Any], Any],
) -> Generator[BaseException | None, Any, None]:
    # A frame that raised keeps its callers' frames, and so the reader's local
    # variables. The frame of a suspended generator has no caller. So nothing that
    # the function raises may leave this frame as an exception.
    raised: list[BaseException] = []
    while True:
        results, argument = yield raised.pop() if raised else None
        try:
            # One call, so that no interrupt comes between it and the result.
            next(map(results.append, map(function, (argument,))))
        except Exception as error:  # noqa: BLE001 - its own: readers get it
            results.append(fault(error))
        except BaseException as error:  # noqa: BLE001 - an interrupt: the caller raises it
            raised.append(error)

        del results, argument


def raise_by_value(error: BaseException) -> NoReturn:
    try:
        raise error
    finally:
        del error  # it holds this frame


def raise_mark(mark: Any, end: type[Exception]) -> NoReturn:
    # Raise what a reader gets at *mark*: a fault's error, or *end* at the end.
    if mark is END:
        raise end

    error, context = mark.error, mark.context
    try:
        # All readers share the error object; with its own traceback it is the same for
        # each of them.
        raise error.with_traceback(mark.traceback)
    finally:
        BaseException.__setattr__(error, "__context__", context)
        # An error keeps alive the frames that it went through, and with them their
        # local variables.
        del context, error, mark


def is_ended(generator: Any) -> bool:
    # Whether an interrupt ended a generator that never ends by itself.
    return generator.gi_frame is None


class ProcessBound:
    """Something that can't be pickled."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"can't pickle a {type(self).__name__}: it belongs to this process. Send "
            "what is read from it, and make a stream of that there."
        )


class Source:
    """
    Where the next item comes from.

    Attributes:
        ask: What gets the next item for a reader that is the only one, see
            `ReadySource`; None if there is nothing of the kind.

        busy: Waiters that found the turn taken.

        fill: What fills a cell for a reader that may block, and returns `FILLED`
            if nothing was unusual, see `ReadySource`; None if there is nothing of
            the kind.

        turn: Empty, or the turn of the one that polls: a list of its
            own that begins with its thread, or with 0 once it is given back.
            with `setdefault` exactly one wins.
    """

    __slots__ = ("busy", "turn")

    ask: Any = None
    fill: Any = None
    box: deque[Any]

    def __init__(self) -> None:
        self.busy: deque[Waiter] = deque()
        self.turn: dict[int, list[int]] = {}

    @abstractmethod
    def poll(
        self, cell: StreamCell, waiter: Waiter | None, *, block: bool
    ) -> StreamCell | None:
        """
        Fill *cell*, and return the next one; None if there is nothing yet, and
        `AGAIN` if that is because one of its upstream has to be filled first.

        Called by the one that has the turn, and again if it was interrupted:
        also where *cell* has its item already. If it returns None, *waiter*
        will be woken as soon as asking again is worthwhile. May block in
        the caller's code if *block* is true.
        """

    def abort(self) -> None:
        """
        Give no more items than there are, then an abort's fault and the end; and
        close what they came from. Idempotent; repeated if it was interrupted.
        """

    def release(self, turn: list[int]) -> None:
        # Idempotent.
        # The order matters: an interrupt between two lines leaves a turn that is still
        # held or a call that can be repeated, and at worst wakes others twice.
        if self.turn.get(0) is turn:
            turn.append(0)  # so that a repeated call knows it was acquired
            self.turn.clear()

        if len(turn) > 1:
            self.wake()

        turn[0] = 0  # all is done

    def wake(self) -> None:
        if self.busy:
            wake_all(self.busy)


Link: TypeAlias = "tuple[Source, tuple[StreamCell, ...] | None, Any]"


class StreamCell:
    """
    A position in a stream.

    Attributes:
        item: The item, or a mark; `EMPTY` until one is set.

        link: The source to get it from, the upstream, and what else the source has to
            know about this place; None as soon as *item* and *next* are there. The
            upstream are the cells that this one is made of, of which one has to be
            filled before; None for a source that is made of no stream.

        next: The next cell.
    """

    __slots__ = ("item", "link", "next")

    item: Any
    link: Link | None
    next: Any  # so that readers of a filled cell need no check

    def __init__(self, link: Link | None) -> None:
        self.item = EMPTY
        self.link = link
        self.next = None


def take_item(cell: StreamCell, items: deque[Any]) -> bool:
    # Put the next of *items* into *cell*, unless that has one; whether there was one.
    # For one reader at a time.
    if cell.item is EMPTY:
        try:
            # One call, so that no interrupt comes between the two.
            next(map(SET_ITEM, (cell,), map(deque.popleft, (items,))))
        except IndexError:
            return False

    return True


class _BareCell(StreamCell):
    """A cell whose fields its maker sets, which takes half the time."""

    __slots__ = ()

    __init__ = object.__init__  # pyright: ignore[reportAssignmentType]  # fewer arguments


make_bare_cell: Any = _BareCell

# `map` calls this with a cell and its item.
SET_ITEM: Callable[[StreamCell, Any], None] = vars(StreamCell)["item"].__set__

LAST = StreamCell(None)
LAST.item = END
LAST.next = LAST


def find_sources(cell: StreamCell) -> list[Source]:
    # The sources that the list at *cell* comes from and that have not ended. Linear in
    # the elements that were read from there on, and in the streams it is made of.
    sources: list[Source] = []
    seen: dict[int, Source] = {}  # by id; the values keep the ids from being reused
    cells = [cell]
    while cells:
        cell = cells.pop()
        while (link := cell.link) is None and cell is not LAST:
            cell = cell.next

        if link is None or id(link[0]) in seen:
            continue

        source, upstream, _ = link
        seen[id(source)] = source
        if upstream is None:
            sources.append(source)
        else:
            cells.extend(upstream)

    return sources


# What `Source.poll` returns where it needs another cell of its upstream.
AGAIN = StreamCell(None)
