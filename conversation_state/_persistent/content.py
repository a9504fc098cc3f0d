"""
What all values are: equal by content, and of just their own class.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = ["ByContent", "final"]

T = TypeVar("T")


if TYPE_CHECKING:
    from typing import final
else:

    def final(cls: type[T]) -> type[T]:
        """
        *cls*, which can have no further subclasses.

        No codec could write a subclass, so it is refused where it is made and
        not where it is saved. Type checkers see `typing.final`.
        """
        name = cls.__name__

        def refuse(subclass: type, **_options: object) -> NoReturn:
            msg = (
                f"can't subclass {name} as {subclass.__name__}: values are written "
                "and read as exactly the class they are; hold one in a class of your "
                "own, or put what you add into metadata"
            )
            raise TypeError(msg)

        cls.__init_subclass__ = classmethod(refuse)
        return cls


class ByContent:
    """
    A value that equals those of its own class with the same key.

    attrs would generate the same for each class, which costs more at import
    than everything else those classes need.
    """

    __slots__ = ()

    @abstractmethod
    def _comparison_key(self) -> tuple[Any, ...]:
        """
        All that makes the value what it is.
        """

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, ByContent) or type(other) is not type(self):
            return NotImplemented

        return self._comparison_key() == other._comparison_key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self._comparison_key()))
