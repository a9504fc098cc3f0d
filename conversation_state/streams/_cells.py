"""
Cells: a list that is computed while it is read.

A cell has an item and the next cell or, while it is the last one, the source of both.
Only that cell refers to the source, and no source to its cells: so a source that can't
be read any more is freed at once, and its producer learns of it.

Each source has one lock, which is held for a few assignments and never while a source
or a function of the user's runs: whoever runs that has the source's turn. Between the
assignments of a change there is no call: Python looks for a Ctrl-C after calls, so it
comes before the change or after it.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections import deque
from collections.abc import Callable, Generator, Iterator
from operator import attrgetter
from types import TracebackType
from typing import Any, NoReturn, TypeAlias

from conversation_state._locks import RLock
from conversation_state._waiting import TaskEvent, load_anyio, running_loop
from conversation_state.errors import StreamClosedError

# So many elements in a row are sent, are read, or are left out, before other tasks run.
MAX_IN_A_ROW = 64
_MAX_LEFT_OUT = 1_000

ABORTED = "the stream was aborted: abort() stopped its source"

CIRCLE = (
    "this stream is read by its own source, or by a function that makes its next "
    "element, which is a deadlock; let it read another stream"
)

# The threads that wait for another one's turn and for nothing else, and for which.
_turn_waits: dict[int | None, tuple[WaitingThread, Source]] = {}


class WaitingThread:
    """A thread that waits, as often as it likes, until it is woken."""

    __slots__ = ("lock", "queues")

    def __init__(self) -> None:
        # Not an Event, whose own lock a finalizer may find taken by its own thread.
        self.lock = allocate_lock()
        self.lock.acquire()
        self.queues: list[Queue] = []

    def wait(self) -> tuple[()]:
        self.lock.acquire()
        _turn_waits.pop(get_ident(), None)
        return ()

    def set(self) -> bool:
        try:  # noqa: SIM105 - quicker than suppress
            self.lock.release()
        except RuntimeError:  # woken before
            pass

        return True


class WaitingTask(TaskEvent):
    """A task that waits, as often as it likes, until it is woken by any thread."""

    __slots__ = ("queues",)

    def __init__(self) -> None:
        super().__init__()
        self.queues: list[Queue] = []

    async def wait(self) -> None:
        await super().wait()
        self._event = load_anyio().Event()

    def set(self) -> bool:
        if running_loop() is not self._loop:
            return super().set()

        self._event.set()
        return True


Waiter: TypeAlias = WaitingThread | WaitingTask
Queue: TypeAlias = set[Waiter]


def run(steps: Any) -> Any:
    """What a coroutine gives whose waiter is a thread, so that it never suspends."""
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value


def enter(queue: Queue, waiter: Waiter) -> None:
    waiter.queues.append(queue)
    queue.add(waiter)


def leave_queues(waiter: Waiter) -> None:
    _turn_waits.pop(get_ident(), None)
    for queue in waiter.queues:
        queue.discard(waiter)


def wake_all(queue: Queue) -> None:
    # A copy at once: `tuple` may run the collector, and finalizers change the queue.
    for waiter in queue.copy():
        # In this order, so that an interrupt wakes one twice rather than never.
        waiter.set()
        queue.discard(waiter)


class Fault:
    """An error with a place in a stream, and how it was when it came."""

    __slots__ = ("context", "error", "traceback")

    error: Any

    def __init__(self, error: BaseException) -> None:
        error.with_traceback(without_our_frames(error.__traceback__))
        if isinstance(error, (StopIteration, StopAsyncIteration)):
            # It would end the reader's loop instead of reaching it.
            stopped = RuntimeError(f"{type(error).__name__} was raised inside a stream")
            stopped.__cause__ = error
            error = stopped

        self.context = error.__context__
        self.error = error
        self.traceback = error.__traceback__


class End:
    """The place after the last item; with a name, where a source of a merge ended."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


END = End()
MARKS = frozenset({Fault, End})


def make_broken_fault(why: str) -> Fault:
    return Fault(StreamClosedError(f"the stream broke off: {why}"))


def without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    """*traceback* from the first frame on that is not of this package."""
    while traceback is not None and str(
        # A program may execute code whose globals have any `__name__`, or none.
        traceback.tb_frame.f_globals.get("__name__")
    ).startswith("conversation_state.streams."):
        traceback = traceback.tb_next

    return traceback


def log_failed_close(iterator: object, error: BaseException) -> None:
    # For an error that no caller is left to get.
    import logging  # noqa: PLC0415 - rarely needed, and slow to import

    logging.getLogger("conversation_state.streams").error(
        "closing the source of a stream failed: %r", iterator, exc_info=error
    )


class StreamCell:
    """A position in a stream: *item* and *next* are there when *source* is None."""

    __slots__ = ("item", "next", "source")

    item: Any
    next: StreamCell
    source: Source | None

    def __init__(self, source: Source | None) -> None:
        self.source = source


_get_source = attrgetter("source")

LAST = StreamCell(None)
LAST.item, LAST.next = END, LAST


# None or one item, and the upstream that follows.
Made: TypeAlias = tuple[tuple[Any, ...], tuple[StreamCell, ...]]


class Source:
    """
    Where the next item comes from.

    Attributes:
        is_over: Whether the end is in `items`, or was.
        items: What has come and is in no cell yet.
        lock: Reentrant, because finalizers take it at any moment.
        needs_thread: Whether it runs code that may block, so that a task must not.
        turn: None, or the thread that runs the user's code.
        upstream: The cells this source is made of, of which one has to be filled
            before `poll` can make anything of it.
        waiters: Those that wait for an item, or for the turn.
    """

    __slots__ = ("is_over", "items", "lock", "turn", "upstream", "waiters")

    needs_thread = False

    def __init__(self, *upstream: StreamCell) -> None:
        self.is_over = False
        self.items: deque[Any] = deque()
        self.lock = RLock()
        self.turn: int | None = None
        self.upstream = upstream
        self.waiters: Queue = set()

    def work(self) -> Made | None:
        """
        What comes next, unless it is added to `items`; None also if there is nothing
        yet. For the one that has the turn.
        """
        raise NotImplementedError

    def ask_in_thread(self, cell: StreamCell) -> None:
        """Poll from another thread, if it `needs_thread`. For the one with the lock."""

    def abort(self) -> None:
        """Give what has come, then an error and the end; and stop the producer."""

    def poll(self, cell: StreamCell, waiter: Waiter | None, *, block: bool) -> None:
        """
        Fill *cell*, if that is possible now; otherwise *waiter* will be woken as soon
        as asking again is worthwhile. May block in the user's code if *block* is true.
        """
        me, has_turn = get_ident(), False
        try:
            with self.lock:
                if cell.source is not self:
                    return
                # What is there while another one has the turn may be all that it knows
                # its own item by, unless the end is among it.
                if self.items and (self.turn is None or self.is_over):
                    self.take(cell)
                    wake_all(self.waiters)
                    return
                if self.turn is not None:
                    self._wait_for_turn(waiter, block=block)
                    return
                if self.needs_thread and not block:
                    if waiter is not None:
                        enter(self.waiters, waiter)
                        self.ask_in_thread(cell)
                    return

                self.turn, has_turn = me, True

            self.end_turn(cell, self.work())
        except BaseException:
            # An interrupt may have cut any of it short, the end of the turn, too.
            if has_turn and self.turn == me:
                self.end_turn(cell)

            wake_all(self.waiters)
            raise

    def end_turn(self, cell: StreamCell, made: Made | None = None) -> None:
        # Fill *cell* with what there is, and let others have the turn.
        with self.lock:
            if made is not None:
                new, upstream = made
                following = StreamCell(self) if upstream else LAST
                self.upstream = upstream
                if new:
                    cell.next = following
                    cell.item = new[0]
                    cell.source = None
            elif self.items and cell.source is self:
                self.take(cell)

            self.turn = None
            if self.waiters:
                wake_all(self.waiters)

    def take(self, cell: StreamCell) -> None:
        # Move the first of `items` into *cell*. For the one that holds the lock.
        following, items = StreamCell(self), self.items
        item = items[0]
        cell.next = LAST if item is END else following
        cell.item = item
        cell.source = None
        del items[0]

    def _wait_for_turn(self, waiter: Waiter | None, *, block: bool) -> None:
        me, source = get_ident(), self
        if waiter is not None:
            enter(self.waiters, waiter)
            if block and isinstance(waiter, WaitingThread):
                # Each thread notes what it waits for before it looks, so that at
                # least one of those that wait for each other sees it.
                _turn_waits[me] = waiter, self

        for _ in range(len(_turn_waits) + 1):
            owner = source.turn
            if owner == me:
                raise StreamClosedError(CIRCLE)

            wait = _turn_waits.get(owner) if block else None
            # One that was woken goes on, perhaps with a turn that is mine now.
            if wait is None or not wait[0].lock.locked():
                break

            source = wait[1]


def call(function: Callable[[Any], Any], argument: Any) -> Any:
    """What *function* returns; a fault, if it raised an `Exception`."""
    try:
        calls = _idle_calls.pop()
    except IndexError:
        calls = _call_repeatedly()
        next(calls)

    result = calls.send((function, argument))
    # Not after an interrupt of its own, which ends it.
    _idle_calls.append(calls)
    if type(result) is Fault and not isinstance(result.error, Exception):
        raise result.error

    return result


def _call_repeatedly() -> Generator[Any, tuple[Callable[[Any], Any], Any], None]:
    # A frame that raised keeps the frames of its callers, and so a reader's variables.
    # A suspended generator has no caller: an error that is kept keeps no stream.
    results: list[Any] = [None]
    while True:
        function, argument = yield results.pop()
        try:
            results.append(function(argument))
        except BaseException as error:  # noqa: BLE001 - its own, or the caller raises it
            results.append(Fault(error))

        del function, argument


# As many as calls have run at once. They are never closed, because the frame of one
# that is closed keeps the frames of whoever closes it.
_idle_calls: list[Generator[Any, tuple[Callable[[Any], Any], Any], None]] = []


def fill(cell: StreamCell, waiter: Waiter | None, *, block: bool) -> bool:
    """
    Whether *cell* is filled; if not, *waiter* will be woken.

    Raises:
        StreamClosedError: If this call is made by code that the cell waits for.
    """
    wanted, source, left_out = cell, cell.source, 0
    if source is not None and not source.upstream:  # as below, in less time
        source.poll(cell, waiter, block=block)
        return cell.source is None

    # A conversion of a merge of a conversion of ... may be thousands deep, which would
    # be as many calls within each other: so the cells that wait for others are on a
    # path, each with those of its source's upstream that are left to be tried.
    nothing: Iterator[StreamCell] = iter(())
    path: list[Any] = [(cell, block, (), nothing)]
    while path:
        cell, block, upstream, others = path.pop()
        source = cell.source
        if source is None:
            continue
        if source.upstream is not upstream:
            upstream = source.upstream
            others = iter(upstream)

        if upstream and all(map(_get_source, upstream)):
            if (other := next(others, None)) is not None:
                path.append((cell, block, upstream, others))
                # Only a reader that waits for one source alone may block in it.
                path.append((other, block and len(upstream) == 1, (), nothing))

            continue

        source.poll(cell, waiter, block=block)
        if cell.source is not None and source.upstream is not upstream:
            left_out += 1
            if not block and left_out >= _MAX_LEFT_OUT:
                if waiter is not None:
                    waiter.set()
                break

            path.append((cell, block, (), nothing))

    return wanted.source is None


class ProcessBound:
    """Something that can't be pickled."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"can't pickle a {type(self).__name__}: it belongs to this process. Send "
            "what is read from it, and make a stream of that there."
        )
