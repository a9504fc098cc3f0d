"""
What all values are, equal by content and of just their own class; and views:
immutable sequences that hold nothing of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from conversation_state.pickling import pickled_by_name

__all__ = ["ByContent", "View", "are_identical", "count_common", "final", "make_draft"]

T = TypeVar("T")


if TYPE_CHECKING:
    from typing import final
else:

    def final(cls: type[T]) -> type[T]:
        """
        The class of a value, *cls*, which can have no further subclasses and is
        pickled under its public name.

        No codec could write a subclass, so it is refused where it is made and
        not where it is saved. Type checkers see `typing.final`.
        """
        name = cls.__name__

        def refuse(subclass: type, **options: object) -> None:
            if options == _OF_A_DRAFT:
                return

            raise TypeError(
                f"can't subclass {name} as {subclass.__name__}: values are written "
                "and read as exactly the class they are; hold one in a class of your "
                "own, or put what you add into metadata"
            )

        cls.__init_subclass__ = classmethod(refuse)
        if cls.__setattr__ is not object.__setattr__:
            cls.__setattr__ = cls.__delattr__ = _refuse_change

        # Other values are not made of all their fields, and say of what they are.
        return pickled_by_name(cls) if cls.__reduce__ is object.__reduce__ else cls


_OF_A_DRAFT = {"is_draft": True}


def _refuse_change(value: Any, name: str, *_: object) -> NoReturn:
    # Not attrs' error, which takes no text of ours, or can't be unpickled with one.
    way = getattr(value, "_changed_copy", "")
    if not way and any(field.alias == name for field in value.__attrs_attrs__):
        way = f"attrs.evolve(value, {name}=...) is a changed copy"

    what = f"can't change {name!r}: a {type(value).__name__} never changes"
    raise AttributeError(f"{what}; {way or 'its methods return the next one'}")


def make_draft(cls: type) -> Any:
    """
    A class of drafts: each has the slots of *cls*, unset and free to be set, and
    becomes an instance of *cls* by ``draft.__class__ = cls``.

    This goes past the constructor and its checks, in half the time that calling
    the slots' own setters takes, because stores to attributes are specialised by
    the interpreter. No other code may get a draft before it is complete.
    """
    free = {
        "__slots__": (),
        "__init__": object.__init__,
        # Both are set, because they share one slot of the type: with only one of them,
        # each assignment calls a Python function.
        "__setattr__": object.__setattr__,
        "__delattr__": object.__delattr__,
    }
    return type(cls)(f"{cls.__name__}Draft", (cls,), free, **_OF_A_DRAFT)


class ByContent:
    """
    A value that equals those of its own class with the same key.

    attrs would generate the same for each class, which costs more at import
    than everything else those classes need.
    """

    __slots__ = ()

    @abstractmethod
    def _comparison_key(self) -> tuple[Any, ...]:
        """All that makes the value what it is."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True

        if not isinstance(other, ByContent) or type(other) is not type(self):
            return NotImplemented

        return self._comparison_key() == other._comparison_key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self._comparison_key()))


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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


def are_identical(a: object, b: object) -> bool:
    return a is b or a == b


def count_common(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    least = min(len(a), len(b))
    if a[:least] == b[:least]:  # at C speed, and identity is asked first
        return least

    at = 0
    while a[at] is b[at] or a[at] == b[at]:
        at += 1

    return at
