"""
Equality by content, written once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

__all__ = ["ByContent"]


class ByContent:
    """
    A value that equals those of its own class with the same key.

    attrs would generate the same for each class, which costs more at import
    than everything else those classes need.
    """

    __slots__ = ()

    @abstractmethod
    def _key(self) -> tuple[Any, ...]:
        """
        All that makes the value what it is.
        """

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, ByContent) or type(other) is not type(self):
            return NotImplemented

        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self._key()))
