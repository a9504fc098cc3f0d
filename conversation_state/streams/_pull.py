"""
Filling cells: whose turn it is, and waiting for it.

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

import os
import sys
from _thread import get_ident
from collections.abc import Iterator
from functools import partial
from types import FrameType

from conversation_state._waiting import ThreadWaiter, Waiter
from conversation_state.errors import StreamClosedError
from conversation_state.streams._cells import AGAIN, Source, StreamCell

# So many elements in a row may be left out before other tasks may run.
_MAX_IN_A_ROW = 1_000


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

    if link[1] is None:
        return _pull_leaf(cell, waiter, block=block)

    return _pull_through(cell, waiter, block=block)


def _pull_through(  # noqa: C901 - a stack in place of calls
    cell: StreamCell, waiter: Waiter | None, *, block: bool
) -> bool:
    # A conversion of a merge of a conversion of ... may be thousands deep, which
    # would be as many calls within each other: so the cells that wait for others
    # are on a stack, each with the cells that may be filled instead.
    above: list[tuple[StreamCell, bool, Iterator[StreamCell]]] = []
    left = _MAX_IN_A_ROW
    is_ready = False  # whether its upstream is known to be there
    while True:
        link = cell.link
        is_filled = link is None
        if link is not None:
            source, needed, _ = link
            if not is_ready and needed:
                # Only a reader that waits for one source alone may block in it.
                may_block = block and len(needed) == 1
                if not _pull_leaf(needed[0], waiter, block=may_block):
                    others = iter(needed)
                    above.append((cell, block, others))
                    cell, block = next(others), may_block
                    continue

            is_ready = False
            following = _pull_one(cell, source, waiter, block=block)
            is_filled = cell.link is None
            if following is AGAIN and not is_filled:
                left -= 1
                if left or block:
                    continue
                if waiter is not None:
                    waiter.wake()

                return False

        # One of the cells above can go on, or none.
        while above:
            waiting, may_block, others = above[-1]
            if is_filled:
                above.pop()
                cell, block, is_ready = waiting, may_block, True
                break

            following = next(others, None)
            if following is not None:
                cell = following
                break

            above.pop()
        else:
            return is_filled


def _pull_leaf(cell: StreamCell, waiter: Waiter | None, *, block: bool) -> bool:
    # Whether *cell* is filled; False also if it has an upstream.
    link = cell.link
    if link is not None and link[1] is None:
        _pull_one(cell, link[0], waiter, block=block)

    return cell.link is None


def _pull_one(
    cell: StreamCell, source: Source, waiter: Waiter | None, *, block: bool
) -> StreamCell | None:
    # What `Source.poll` returned; None if it was not called.
    turn = [get_ident()]
    following = None
    # What leaves the inner block by a `return`, or by a loop's way back on Python
    # 3.12, is not covered by the `finally` around it.
    try:
        try:
            if source.turn.setdefault(0, turn) is not turn:
                _await_turn(source, turn, cell, waiter, block=block)

            # Another reader may have taken the turn or filled the cell in the meantime.
            if cell.link is not None and source.turn.get(0) is turn:
                following = source.poll(cell, waiter, block=block)
                if following is not None and following is not AGAIN:
                    cell.next = following
                    cell.link = None
        finally:
            source.release(turn)
    finally:
        if turn[0]:  # the first call was interrupted
            source.release(turn)

    return following


_CIRCLE = (
    "this stream is read by the source or function that makes its next element, "
    "which is a deadlock; let it read another stream"
)

_FORKED = (
    "another thread was reading this stream when the process was forked, and is not "
    "in the child: abort() the stream here, or let the child make its own"
)

# One entry for each fork that led to this process; the parent's threads do not exist
# here.
FORKS: list[bool] = []
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=partial(FORKS.append, True))  # noqa: FBT003

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
    me = turn[0]
    if _find_owner(source) == me:
        raise StreamClosedError(_CIRCLE)

    if FORKS and _is_turn_lost(source):
        raise StreamClosedError(_FORKED)

    if not block:
        if waiter is not None:
            # The waiter enters the queue before it tries once more: a turn that is
            # released in between wakes a waiter that is in the queue.
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


def _is_turn_lost(source: Source) -> bool:
    # Whether a thread has the turn that does not run, since it was not forked.
    turn, owner = source.turn.get(0), _find_owner(source)
    for _ in range(2):
        # A thread may release the turn and end in the meantime, so it is looked at
        # again.
        if not owner or _is_reading(owner):
            return False

        if turn is not source.turn.get(0) or owner != _find_owner(source):
            return False

    return True


def _is_reading(thread: int) -> bool:
    # Whether a thread runs and is inside of this package, as all that have a turn are:
    # a thread of the child may have the number of one that was lost.
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None and frame.f_globals.get("__package__") != __package__:
        frame = frame.f_back

    return frame is not None


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
