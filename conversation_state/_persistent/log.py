"""
The persistent log: an append-only sequence, every version of which is kept.

A version is one small cell: its last item, the version before it, and a
reference to the *trunk*, where full blocks of 32 items hang in a 32-way trie
of plain tuples. Appending makes one cell and copies nothing; every 32nd
append collects the last cells into a block and copies one path of the trie.

Why cells and not the usual tuple for a tail: a kept version then costs the
collector one object to visit instead of one object and a tuple of up to 32
references, and 80 bytes instead of 240. A cell refers only to versions before
it, so nothing keeps an abandoned future alive.

Nothing here is changed once another version can see it, but for folds, which blocks
and cells remember (`Log.fold`): single stores of values that are equal whichever thread
computes them, so threads may race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, islice
from operator import index, is_
from typing import Any, Generic, SupportsIndex, TypeVar, overload

from conversation_state._persistent.content import count_common
from conversation_state._persistent.frozen import check_iterable
from conversation_state._persistent.trunk import (
    BARE,
    BITS,
    MASK,
    WIDTH,
    Block,
    Trunk,
    items_of,
    make_gapped,
    with_fold,
    without_fold,
)
from conversation_state._wording import describe_value, format_count
from conversation_state.pickling import Maker

T = TypeVar("T")
S = TypeVar("S")

_new = object.__new__


class Log(Sequence[T], Generic[T]):
    """
    An immutable sequence that grows at its end; all its versions live.

    `append` gives the next version and leaves this one as it was. Appending
    to an older version starts a branch; both share what they have in common.

    Costs, n being the length: `append` O(log n) in the worst of 32 calls and
    O(1) in the others, index and `take` O(log n), `extend` and slices O(k) for
    k items written, iteration at C speed, `==` and `hash` O(n) unless asked of
    one and the same object. A kept version takes 80 bytes.

    Equal to another log of equal items, and to nothing else. Hashable if its
    items are. Pickles share what the pickled versions share.

    Source:
        The trie is Clojure's persistent vector by way of pyrsistent's
        `PVector`; the cells at its end are ours.

    >>> first = Log("ab")
    >>> first.append("c"), first.append("d"), first
    (Log(['a', 'b', 'c']), Log(['a', 'b', 'd']), Log(['a', 'b']))
    """

    __slots__ = ("_before", "_fill", "_folds", "_last", "_trunk")

    _trunk: Trunk
    # The version before this one, as far as the block reaches; where the
    # block was not appended item by item, the items before `_last`.
    _before: Log[T] | tuple[T, ...]
    _last: T
    _fill: int
    # Key, result, and the version before that remembers one under that key.
    _folds: tuple[tuple[object, Any, Log[T] | None], ...]

    def __init__(self, items: Iterable[T] = ()) -> None:
        if isinstance(items, Log):
            built = items
        else:
            check_iterable(items, "items", "a list")
            built = _EMPTY.extend(items)

        self._trunk = built._trunk
        # The versions before it are not kept, because they would live as long as this
        # one.
        self._before = built._tail_items()[:-1]
        self._last = built._last
        self._fill = built._fill
        self._folds = ()

    def append(self, item: T) -> Log[T]:
        """This log with *item* at its end."""
        # An `__init__` with arguments takes a third more, and each message calls this.
        log: Log[T] = _new(Log)
        fill = self._fill
        if 0 < fill < WIDTH:
            log._trunk = self._trunk
            log._before = self
            log._fill = fill + 1
        else:
            log._trunk = self._push_tail() if fill else self._trunk
            log._before = ()
            log._fill = 1

        log._last = item
        log._folds = ()
        return log

    def extend(self, items: Iterable[T]) -> Log[T]:
        """This log with all *items* at its end; itself if *items* is empty."""
        if not isinstance(items, (tuple, list, Log)):
            items = tuple(items)

        # Blocks are shared, also with what a fold remembers in them.
        if isinstance(items, Log) and not self._fill:
            return items if items._fill else self

        log, rest, left = self, iter(items), len(items)
        if log._fill + left > WIDTH:
            if log._fill == WIDTH:
                trunk = log._push_tail()
            else:
                tail = (*log._tail_items(), *islice(rest, WIDTH - log._fill))
                trunk = log._trunk.push(Block(tail))
                left -= WIDTH - log._fill

            while left > WIDTH:
                trunk = trunk.push(Block(tuple(islice(rest, WIDTH))))
                left -= WIDTH

            log = _make_version(trunk, tuple(islice(rest, WIDTH)))

        for item in rest:
            log = log.append(item)

        return log

    def take(self, count: int) -> Log[T]:
        """
        The first *count* items as a log that shares them. O(log n).

        Asked for more than there are, it gives the log itself.
        """
        full = self._trunk.full
        back = full + self._fill - count
        if back <= 0:
            return self

        if count <= 0:
            return _EMPTY

        if count > full:
            log: Any = self
            for _ in range(back):
                before = log._before
                if before.__class__ is tuple:  # the items before log's last one
                    return _make_version(log._trunk, before[: count - full])

                log = before

            return log  # type: ignore[no-any-return]

        number = (count - 1) >> BITS
        items = self._trunk.block(number).items[: count - (number << BITS)]
        return _make_version(self._trunk.take(number), items)

    def common_prefix(self, other: Log[T]) -> int:
        """
        How many leading items the two logs have in common.

        O(log n) where they share structure, that is where one grew from the
        other or both from a third. Items are compared only where they do not;
        equal items count as common, identical ones are not asked. Those of a copy are
        compared once: the newest block that is equal remembers the other.
        """
        if self is other:
            return len(self)

        ours, theirs = self._trunk, other._trunk
        if ours is theirs:
            least = ours.full + min(self._fill, other._fill)
            # One log is a later version of the other in the same block, so nothing has
            # to be compared.
            if self.take(least) is other.take(least):
                return least

            return ours.full + count_common(self._tail_items(), other._tail_items())

        start = number = ours.shared(theirs)
        while True:
            common = count_common(self._items_of(number), other._items_of(number))
            if common < WIDTH:
                ours.remember_equal(theirs, start, number)
                return (number << BITS) + common

            number += 1
            # Another block with equal items, most likely a copy's.
            if number == start + 1:
                number = ours.find_equal(theirs, number)

    def list_new(self, before: Log[T]) -> list[T] | None:
        """
        The items behind those of *before*; None if this log does not begin with these.

        Costs what `common_prefix` does, and O(1) right after an `append`.
        """
        if self._before is before:
            return [self._last]

        length = len(before)
        is_start = self.common_prefix(before) == length
        return list(self.iterate(length)) if is_start else None

    def is_shared_start_of(self, other: Log[T]) -> bool:
        """
        Whether *other* starts with the same objects that this log is made of.

        True for all that grew from this version; False for a copy of it that
        was decoded or unpickled, however equal. O(log n).
        """
        trunk = self._trunk
        if trunk.shared(other._trunk) < trunk.full >> BITS:
            return False

        theirs = other._items_of(trunk.full >> BITS)
        tail = self._tail_items()
        return len(theirs) >= len(tail) and all(map(is_, tail, theirs))

    def shared_prefix(self, other: Log[T]) -> int:
        """
        How many leading items are the same objects because the two logs share
        them, in whole blocks. O(log n); no items are compared.
        """
        return self._trunk.shared(other._trunk) << BITS

    def equals(self, other: Log[T], known: set[tuple[int, int]]) -> bool:
        """
        Whether the items are equal, where versions whose ids are in *known* are equal
        already; those that are found equal are added, and have to stay alive.

        For comparing versions of one log with those of a copy: each costs what it adds.
        """
        if len(self) != len(other):
            return False

        found: list[tuple[int, int]] = []
        ours: Any = self
        theirs: Any = other
        while ours.__class__ is theirs.__class__ is Log:
            pair = id(ours), id(theirs)
            if ours is theirs or pair in known:
                known.update(found)
                return True

            if ours._last != theirs._last:
                return False

            found.append(pair)
            ours, theirs = ours._before, theirs._before

        # On one side the items before these may not have been appended one by one.
        is_equal = ours == theirs or self._tail_items() == other._tail_items()
        is_equal = is_equal and self._trunk.equals(other._trunk, known)
        known.update(found if is_equal else ())
        return is_equal

    def iterate(self, start: int = 0) -> Iterator[T]:
        """An iterator over the items from position *start* on. O(log n) to get."""
        full = self._trunk.full
        if start >= full:
            return iter(self._newest_items(full + self._fill - start))

        blocks = map(items_of, self._trunk.blocks(start >> BITS))
        items = chain.from_iterable(chain(blocks, (self._tail_items(),)))
        return islice(items, start & MASK, None) if start & MASK else items

    def fold(
        self, step: Callable[[S, T], S], start: S, *, key: object, since: int = 0
    ) -> S:
        """
        *step* folded over all items from the left, resumed where it was done.

        What a fold gave is remembered under *key* at every block, and at the
        two newest versions of a branch that were folded, and shared with all
        that grows from them: folding the next version costs one step for each
        item that came since, and folding any older version, or a branch of
        one, at most 32 steps. *step* must be pure, and *key* must stand for
        the same *step* and *start* always.

        The last sixteen keys are remembered.

        Args:
            step: From the state before an item, and the item, to the state after it.
            start: The state before the first item that is folded.
            key: What stands for *step*, *start* and *since*.
            since: The position of that item: the beginning of a block, so a multiple
                of 32, and at most the length of the log.
        """

        def extend(state: S, items: Iterable[T]) -> S:
            return reduce(step, items, state)

        return self.fold_runs(extend, start, key=key, since=since)

    def fold_runs(
        self,
        extend: Callable[[S, Iterable[T]], S],
        start: S,
        *,
        key: object,
        since: int = 0,
        every: int = 1,
    ) -> S:
        """
        As `fold`, with a function from the state before some items, and these items, to
        the state after all of them: those of *every* so many blocks of 32 at once, at
        the last of which it is remembered.
        """
        newer: list[T] = []
        state: S
        log: Any = self
        while log.__class__ is Log:
            for known, state, older in log._folds:
                if known is key or known == key:
                    if not newer:
                        return state

                    # A version that is kept for long keeps no result: only this one and
                    # the one before it do, so siblings that grow from it find it.
                    if older is not None:
                        older._folds = without_fold(older._folds, key)

                    found = extend(state, reversed(newer))
                    self._folds = with_fold(self._folds, (key, found, log))
                    return found

            if not log._fill:
                return start

            newer.append(log._last)
            log = log._before

        newer.extend(reversed(log))
        state = self._trunk.fold(extend, start, key, since >> BITS, every)
        state = extend(state, reversed(newer))
        self._folds = with_fold(self._folds, (key, state, None))
        return state

    def fold_keys(self) -> list[Any]:
        """
        The keys of the folds that are remembered near the end of this log, at this
        version or the one that it grew from: those that `fold` resumes in at most 32
        steps. O(1) where this version, or the one before it, was folded.
        """
        log: Any = self
        while log.__class__ is Log:
            folds = [fold for fold in log._folds if fold[1].__class__ is not _Box]
            if folds:
                return [fold[0] for fold in folds]

            log = log._before

        newest = self._trunk.newest()
        return [] if newest is None else [fold[0] for fold in newest.folds]

    def keep(self, item: Any, *, key: object) -> None:
        """
        Keep *item* for the first that claims it. In contrast to what a fold gives, it
        may be changed then.
        """
        self._folds = with_fold(self._folds, (key, _Box([item]), None))

    def claim(self, *, key: object) -> tuple[Any, list[T]] | None:
        """
        What was kept under *key* at this version, or at one before it that ends in the
        same block, and the items since, in any order; None if there is nothing, or
        another claimed it.
        """
        newer: list[T] = []
        log: Any = self
        while log.__class__ is Log:
            for known, box, _ in log._folds:
                if known is key:
                    return _claim_new_items(box, newer)

            if not log._fill:
                return None

            newer.append(log._last)
            log = log._before

        newer.extend(log)
        block = self._trunk.newest()
        boxes = [box for known, box in block.folds if known is key] if block else []
        return _claim_new_items(boxes[0], newer) if boxes else None

    def derive(
        self, make: Callable[[tuple[T, ...]], S], *, key: object, stop: int
    ) -> S:
        """
        What *make* gives for the 32 items before position *stop*, a multiple of 32:
        remembered under *key* with these items, and shared with all logs that have
        them.
        """
        block = self._trunk.block((stop >> BITS) - 1)
        for known, state in block.folds:
            if known is key or known == key:
                return state  # type: ignore[no-any-return]

        state = make(block.items)
        block.folds = with_fold(block.folds, (key, state))
        return state

    def redefine(self, state: object, *, key: object, stop: int) -> None:
        """
        Remember *state* where `derive` would: an answer for all items before *stop*,
        where that for the last 32 is not enough.
        """
        block = self._trunk.block((stop >> BITS) - 1)
        block.folds = with_fold(block.folds, (key, state))

    def remember_fold(self, results: Sequence[S], *, key: object) -> None:
        """
        Remember what `fold` under *key* returns for this log and at every block, which
        need not be computed then. O(n / 32).

        Args:
            results: The result at each item, the last of them that of the whole log.
            key: As for `fold`.

        Raises:
            ValueError: If there is not one result for each item.
        """
        if len(results) != len(self):
            raise ValueError(f"{len(results)} results for {len(self)} items")

        if not results:
            return

        self._trunk.remember_fold(islice(results, WIDTH - 1, None, WIDTH), key)
        self._folds = with_fold(self._folds, (key, results[-1], None))

    def _push_tail(self) -> Trunk:
        block = Block(self._tail_items())
        block.folds = tuple([(key, state) for key, state, _ in self._folds])
        for key, _, older in self._folds:
            if older is not None:  # no version grows from there any more
                older._folds = without_fold(older._folds, key)

        return self._trunk.push(block)

    def _tail_items(self) -> tuple[T, ...]:
        # The items after the trunk's. Not remembered: a kept version would weigh three
        # times as much once it was read.
        if not self._fill:
            return ()

        items = [self._last]
        before: Any = self._before
        while before.__class__ is Log:
            items.append(before._last)
            before = before._before

        items.extend(reversed(before))
        items.reverse()
        return tuple(items)

    def _newest_items(self, count: int) -> list[T]:
        # The last *count* items, all of them after the trunk's. O(count).
        items: list[T] = []
        before: Any = self
        while len(items) < count and before.__class__ is Log:
            items.append(before._last)
            before = before._before

        if len(items) < count:  # the items before those were not appended one by one
            items.extend(before[: len(items) - count - 1 : -1])

        items.reverse()
        return items

    def _items_of(self, number: int) -> tuple[T, ...]:
        # The items of block *number*, counting the tail as the last block.
        full = self._trunk.full >> BITS
        if number < full:
            return self._trunk.block(number).items

        return self._tail_items() if number == full else ()

    def __len__(self) -> int:
        return self._trunk.full + self._fill

    def __bool__(self) -> bool:
        # A full tail becomes a block when the next item comes, so only an empty log has
        # an empty tail.
        return self._fill > 0

    @overload
    def __getitem__(self, at: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Log[T]: ...
    def __getitem__(self, at: Any) -> Any:  # noqa: C901, PLR0911 - a return for each level is what makes it quick
        if at.__class__ is not int:
            if at.__class__ is slice:
                return self._take_slice(at)

            at = _read_position(at)

        trunk = self._trunk
        full = trunk.full
        end = full + self._fill
        if at < 0:
            at += end

        if at >= full:
            if at == end - 1:
                return self._last

            if at < end:
                log: Any = self
                for _ in range(end - 1 - at):
                    log = log._before
                    if log.__class__ is tuple:
                        return log[at - full]

                return log._last

        elif at >= 0:
            shift = trunk.shift
            number = at >> BITS
            # The first three levels reach 1,048,576 items; spelled out, they
            # cost half of what the loop below costs.
            if shift == BITS:
                return trunk.root[number].items[at & MASK]

            if shift == 2 * BITS:
                return trunk.root[number >> 5][number & MASK].items[at & MASK]

            if shift == 3 * BITS:
                node = trunk.root[number >> 10][(number >> 5) & MASK]
                return node[number & MASK].items[at & MASK]

            return trunk.block(number).items[at & MASK]

        given = at if at >= 0 else at - end
        raise IndexError(f"position {given} of a log of {format_count(end, 'item')}")

    def _take_slice(self, at: slice) -> Log[T]:
        start, stop, step = at.indices(len(self))
        if step == 1:
            if start >= stop:
                return _EMPTY

            log = self.take(stop)
            return _EMPTY.extend(list(log.iterate(start))) if start else log

        return _EMPTY.extend([self[i] for i in range(start, stop, step)])

    def __iter__(self) -> Iterator[T]:
        return self.iterate()

    def __reversed__(self) -> Iterator[T]:
        blocks = map(items_of, self._trunk.blocks_backwards())
        return chain(
            reversed(self._tail_items()), chain.from_iterable(map(reversed, blocks))
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, Log):
            return NotImplemented

        return len(self) == len(other) == self.common_prefix(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Log({list(self)!r})"

    def __copy__(self) -> Log[T]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # At most 32 versions deep, however long the log is.
        return _LOG, (self._trunk, self._before, self._last, self._fill)


class _Box(list[Any]):
    """What is kept for the first that claims it."""


def _read_position(at: Any) -> int:
    try:
        return index(at)
    except TypeError:
        expected = "expected an integer or a slice"
        raise TypeError(f"position: {expected}, got {describe_value(at)}") from None


def _claim_new_items(box: _Box, newer: list[T]) -> tuple[Any, list[T]] | None:
    try:
        return box.pop(), newer  # atomic
    except IndexError:
        return None


def log_with_gap(
    first: Sequence[T], missing: Any, start: int, newest: Sequence[T]
) -> Log[T]:
    """
    A log of *first*, at most 32 items; of the one object *missing* at each position
    from there to *start*, a multiple of 32; and of *newest*, at least one. O(newest).
    """
    items = (missing,) * WIDTH
    lead = Block((*first, *items[len(first) :]))
    trunk = make_gapped(lead, Block(items), start >> BITS)
    return _make_cell(trunk, (), None, 0).extend(list(newest))


def _make_cell(trunk: Trunk, before: Any, last: Any, fill: int) -> Log[Any]:
    log: Log[Any] = _new(Log)
    log._trunk = trunk
    log._before = before
    log._last = last
    log._fill = fill
    log._folds = ()
    return log


def _make_version(trunk: Trunk, tail: tuple[Any, ...]) -> Log[Any]:
    return _make_cell(trunk, tail[:-1], tail[-1], len(tail))


_LOG = Maker("Log", _make_cell)
_EMPTY: Log[Any] = _make_cell(BARE, (), None, 0)
