"""The trunk of a log: full blocks of 32 items in a 32-way trie of plain tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import Any

from conversation_state.pickling import Maker

BITS = 5
WIDTH = 1 << BITS
MASK = WIDTH - 1

# How many folds a block or a version remembers; more, and the oldest goes. A pipeline
# of trimming has up to four, and some programs have one for each of several models.
_FOLDS = 16


class Block:
    """
    Thirty-two items, and what folds over everything up to their end gave.

    A block hangs in the logs that grew from the one it was made for and in no
    others, so what comes before it is the same wherever it is met. That is
    what lets a fold be remembered here.
    """

    __slots__ = ("folds", "items")

    items: tuple[Any, ...]
    folds: tuple[tuple[object, Any], ...]

    def __init__(self, items: tuple[Any, ...]) -> None:
        self.items = items
        self.folds = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # Folds are not pickled: they can be computed again, and their keys may be
        # objects that can't be pickled.
        return _BLOCK, (self.items,)


_BLOCK = Maker("LogBlock", Block)
items_of = attrgetter("items")


def with_fold(folds: tuple[Any, ...], fold: tuple[Any, ...]) -> tuple[Any, ...]:
    if not folds:
        return (fold,)

    return (fold, *without_fold(folds, fold[0])[: _FOLDS - 1])


def without_fold(folds: tuple[Any, ...], key: object) -> tuple[Any, ...]:
    return tuple([fold for fold in folds if fold[0] != key])


class Trunk:
    """
    The full blocks of a log: a 32-way trie of tuples, all blocks equally deep.

    Attributes:
        full: How many items the blocks hold; a multiple of 32.
        shift: Five bits for each level of the trie above the blocks.
        root: A tuple of blocks (shift 5), of tuples of blocks (10), ...
    """

    __slots__ = ("full", "root", "shift")

    full: int
    shift: int
    root: tuple[Any, ...]

    def __init__(self, full: int, shift: int, root: tuple[Any, ...]) -> None:
        self.full = full
        self.shift = shift
        self.root = root

    def __reduce__(self) -> tuple[Any, ...]:
        return _TRUNK, (self.full, self.shift, self.root)

    def push(self, block: Block) -> Trunk:
        # The trunk with *block* at its end. O(log n): one path is copied.
        number = self.full >> BITS
        if number >> self.shift:  # the root has no room left
            root = (self.root, _make_path(self.shift, block))
            return Trunk(self.full + WIDTH, self.shift + BITS, root)

        root = _with_block(self.root, self.shift - BITS, number, block)
        return Trunk(self.full + WIDTH, self.shift, root)

    def block(self, number: int) -> Block:
        shift = self.shift
        node: Any = self.root
        while shift:
            shift -= BITS
            node = node[(number >> shift) & MASK]

        return node  # type: ignore[no-any-return]

    def blocks(self, start: int = 0) -> Iterator[Block]:
        # All blocks from number *start* on, walked at C speed.
        level = self.shift - BITS
        node = self.root
        if start >= self.full >> BITS:
            return iter(())

        right: list[Iterator[Any]] = []
        while level:
            number = (start >> level) & MASK
            right.append(_flatten_nodes(iter(node[number + 1 :]), level))
            node = node[number]
            level -= BITS

        return chain(node[start & MASK :], *reversed(right))

    def blocks_backwards(self) -> Iterator[Block]:
        # All blocks, last first, walked at C speed.
        nodes: Iterator[Any] = reversed(self.root)
        for _ in range(BITS, self.shift, BITS):
            nodes = chain.from_iterable(map(reversed, nodes))

        return nodes

    def take(self, count: int) -> Trunk:
        # The trunk of the first *count* blocks. O(log n).
        if not count:
            return BARE

        shift, root = self.shift, self.root
        # The trie is made as low as possible, because each level is a step of every
        # access.
        while shift > BITS and count <= 1 << (shift - BITS):
            shift -= BITS
            root = root[0]

        return Trunk(count << BITS, shift, _cut_nodes(root, shift - BITS, count - 1))

    def newest(self) -> Block | None:
        return self.block((self.full >> BITS) - 1) if self.full else None

    def fold(
        self,
        extend: Callable[[Any, Any], Any],
        start: Any,
        key: object,
        first: int,
        every: int,
    ) -> Any:
        # *extend* applied to the items of *every* so many blocks from number *first*
        # on; resumed at the last block that remembers it under *key*, and remembered at
        # the last of each so many behind it.
        state, number = start, self.full >> BITS
        for block in self.blocks_backwards():
            if number == first:
                break

            known = [kept for name, kept in block.folds if name is key or name == key]
            if known:
                state = known[0]
                break

            number -= 1

        blocks = [*self.blocks(number)]
        for begin in range(0, len(blocks), every):
            run = blocks[begin : begin + every]
            state = extend(state, chain.from_iterable(map(items_of, run)))
            run[-1].folds = with_fold(run[-1].folds, (key, state))

        return state

    def remember_fold(self, results: Iterable[Any], key: object) -> None:
        for block, state in zip(self.blocks(), results, strict=False):
            block.folds = with_fold(block.folds, (key, state))

    def equals(self, other: Trunk, known: set[tuple[int, int]]) -> bool:
        # Whether the blocks of two trunks of one length are equal; see `Log.equals`.
        found = []
        blocks = zip(self.blocks_backwards(), other.blocks_backwards(), strict=True)
        for ours, theirs in blocks:
            # What comes before a block is the same wherever the block is met.
            pair = id(ours), id(theirs)
            if ours is theirs or pair in known:
                break

            if ours.items != theirs.items:
                return False

            found.append(pair)

        known.update(found)
        return True

    def shared(self, other: Trunk) -> int:
        # How many leading blocks are the same objects here and there. A node determines
        # all that comes before it, so where two tries meet is found by bisection on
        # identity.
        most = min(self.full, other.full) >> BITS
        if not most or self.block(most - 1) is other.block(most - 1):
            return most

        shift = min(self.shift, other.shift)
        ours, theirs = self.root, other.root
        for _ in range(shift, self.shift, BITS):
            ours = ours[0]

        for _ in range(shift, other.shift, BITS):
            theirs = theirs[0]

        count = 0
        while shift:
            shift -= BITS
            low, high = 0, min(len(ours), len(theirs))
            while low < high:
                middle = (low + high) >> 1
                if ours[middle] is theirs[middle]:
                    low = middle + 1
                else:
                    high = middle

            count += low << shift
            # Both sides have a node here. If all nodes of one side were shared, its
            # last block would be, and that was checked first.
            if shift:
                ours, theirs = ours[low], theirs[low]

        return count

    def find_equal(self, other: Trunk, start: int) -> int:
        # From block *start* on, up to which all are equal: up to where the blocks here
        # and there are known to be, by what `remember_equal` left in one of them.
        for number in range(min(self.full, other.full) >> BITS, start, -1):
            ours, theirs = self.block(number - 1), other.block(number - 1)
            if _is_known_equal(ours, theirs) or _is_known_equal(theirs, ours):
                return number

        return start

    def remember_equal(self, other: Trunk, start: int, stop: int) -> None:
        # The blocks before *stop* are equal, as was found from *start* on. What comes
        # before a block is the same wherever it is, so the last one stands for all.
        last = min(stop, self.full >> BITS, other.full >> BITS)
        if last > start:
            ours, theirs = self.block(last - 1), other.block(last - 1)
            theirs.folds = with_fold(theirs.folds, (_EQUAL, ours))


def _is_known_equal(block: Block, other: Block) -> bool:
    return any(key is _EQUAL and known is other for key, known in block.folds)


_EQUAL = object()
_TRUNK = Maker("LogTrunk", Trunk)
BARE = Trunk(0, BITS, ())


def make_gapped(first: Block, gap: Block, count: int) -> Trunk:
    """
    A trunk of *count* blocks, at least one: *first*, and then *gap* everywhere.
    O(log count), as equal nodes are one object.
    """
    shift = BITS
    while count > 1 << shift:
        shift += BITS

    root = _repeat_block(gap, shift - BITS, count)
    return Trunk(count << BITS, shift, _with_first(root, shift - BITS, first))


def _repeat_block(block: Block, level: int, count: int) -> tuple[Any, ...]:
    if not level:
        return (block,) * count

    whole, rest = divmod(count, 1 << level)
    nodes = (_repeat_block(block, level - BITS, 1 << level),) * whole if whole else ()
    return (*nodes, _repeat_block(block, level - BITS, rest)) if rest else nodes


def _with_first(node: tuple[Any, ...], level: int, block: Block) -> tuple[Any, ...]:
    first = _with_first(node[0], level - BITS, block) if level else block
    return (first, *node[1:])


def _make_path(shift: int, block: Block) -> Any:
    node: Any = block
    for _ in range(0, shift, BITS):
        node = (node,)

    return node


def _with_block(
    node: tuple[Any, ...], level: int, number: int, block: Block
) -> tuple[Any, ...]:
    if not level:
        return (*node, block)

    if number >> level == len(node):
        return (*node, _make_path(level, block))

    rest = number & ((1 << level) - 1)
    return (*node[:-1], _with_block(node[-1], level - BITS, rest, block))


def _cut_nodes(node: tuple[Any, ...], level: int, last: int) -> tuple[Any, ...]:
    if not level:
        return node[: last + 1]

    at = last >> level
    rest = last & ((1 << level) - 1)
    return (*node[:at], _cut_nodes(node[at], level - BITS, rest))


def _flatten_nodes(nodes: Iterator[Any], level: int) -> Iterator[Any]:
    for _ in range(0, level, BITS):
        nodes = chain.from_iterable(nodes)

    return nodes
