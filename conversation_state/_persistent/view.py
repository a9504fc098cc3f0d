"""
Views: immutable sequences that hold nothing of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

__all__ = ["View", "are_identical"]

T = TypeVar("T")


class View(Sequence[T], Generic[T]):
    """
    An immutable sequence over something else.

    Equal to any view, tuple or list of equal items, in O(n) unless it is the
    same object; hashable as the tuple of its items is.
    """

    __slots__ = ()

    @abstractmethod
    def __iter__(self) -> Iterator[T]: ...

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, (View, tuple, list)):
            return NotImplemented

        return len(self) == len(other) and all(map(are_identical, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __getstate__(self) -> object:
        # With a method of our own, pickle's protocols 0 and 1 take slots, too.
        return super().__getstate__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


def are_identical(a: object, b: object) -> bool:
    return a is b or a == b
