"""
Where two logs part, and what each has since.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import attrs

from conversation_state._persistent import Log
from conversation_state.aggregator import Entry, LedgerEntry

__all__ = ["Pair", "Parting"]

I = TypeVar("I", Entry, LedgerEntry)  # noqa: E741 - an item, of either kind


class Pair(NamedTuple, Generic[I]):
    """
    Two entries that belong together, one of each side.

    Attributes:
        a: The one in *a*.

        b: The one in *b*.
    """

    a: I
    b: I


@attrs.frozen
class Parting(Generic[I]):
    """
    Where two logs of entries part, and what each has since.

    Mirrored by `reversed`. What follows from the first three is found when the
    value is made, and costs as much as they hold.

    Attributes:
        common: How many leading entries both have.

        rest_a: The entries of *a* after these.

        rest_b: The entries of *b* after these.

        only_a: Those in *rest_a* whose identity *b* does not have.

        only_b: Those in *rest_b* whose identity *a* does not have.

        both: Those that both have after all, in *a*'s order: what a join
            brought. The two of a pair differ where they hold different things
            under one identity.

        reordered: Whether *b* has these in another order.
    """

    common: int
    rest_a: tuple[I, ...]
    rest_b: tuple[I, ...]
    only_a: tuple[I, ...] = attrs.field(init=False, eq=False, repr=False)
    only_b: tuple[I, ...] = attrs.field(init=False, eq=False, repr=False)
    both: tuple[Pair[I], ...] = attrs.field(init=False, eq=False, repr=False)
    reordered: bool = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        only_a, only_b = self.rest_a, self.rest_b
        both: tuple[Pair[I], ...] = ()
        reordered = False
        if only_a and only_b:
            ours = {entry.id for entry in only_a}
            theirs = {entry.id: entry for entry in only_b}
            met = [entry for entry in only_a if entry.id in theirs]
            if met:
                both = tuple([Pair(entry, theirs[entry.id]) for entry in met])
                in_b = [entry.id for entry in only_b if entry.id in ours]
                reordered = in_b != [entry.id for entry in met]
                only_a = tuple([each for each in only_a if each.id not in theirs])
                only_b = tuple([each for each in only_b if each.id not in ours])

        object.__setattr__(self, "only_a", only_a)
        object.__setattr__(self, "only_b", only_b)
        object.__setattr__(self, "both", both)
        object.__setattr__(self, "reordered", reordered)

    @classmethod
    def of(cls, a: Log[I], b: Log[I]) -> Parting[I]:
        """
        Where *a* and *b* part. O(log n) where they share structure, and what
        both have since.
        """
        common = a.common_prefix(b)
        return cls(common, tuple(a.iterate(common)), tuple(b.iterate(common)))

    @property
    def changed(self) -> tuple[Pair[I], ...]:
        """
        Those in *both* that hold different things under one identity.
        """
        return tuple([pair for pair in self.both if pair.a != pair.b])

    def reversed(self) -> Parting[I]:
        """
        The same seen from the other side.
        """
        return Parting(self.common, self.rest_b, self.rest_a)

    def __bool__(self) -> bool:
        return bool(self.rest_a or self.rest_b)
