"""
How values are pickled: under a public name, with their fields.

Python pickles a class, or the function that makes a value, as the module that
defines it. That module is private here, and may move. So a pickle of a value names
`find_maker` instead, which finds what makes it by a name that stays, such as
``messages.UserMessage``.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any, Self, TypeVar

__all__ = ["Maker", "find_maker", "pickled_by_name"]

T = TypeVar("T")

# What makes the values that are pickled under each name.
_makers: dict[str, Maker] = {}


class Maker(partial[Any]):
    """
    What makes a value of its fields, and is itself pickled as *name*.

    A class whose values are made of something else than all their fields gives one
    in its ``__reduce__``.
    """

    name: str

    def __new__(cls, name: str, function: Callable[..., Any], *args: Any) -> Self:  # noqa: D102 - as the class says
        maker = _makers[name] = super().__new__(cls, function, *args)
        maker.name = name
        return maker

    def __reduce__(self) -> tuple[Any, ...]:
        return find_maker, (self.name,)


def find_maker(name: str) -> Maker:
    """
    What makes the values that were pickled under *name*; what pickles call.

    Raises:
        KeyError, ImportError: If this version has no such values.
    """
    if name not in _makers:
        module, _, attribute = name.rpartition(".")
        # Some packages import a class only when it is asked for.
        getattr(import_module(f"conversation_state.{module}"), attribute, None)

    return _makers[name]


def pickled_by_name(cls: type[T]) -> type[T]:
    """
    *cls*, a class of attrs, a named tuple or an enum, whose values are pickled under
    its name in its public module.
    """
    module = cls.__module__.partition("._")[0].partition(".")[2]
    name = f"{module}.{cls.__qualname__}"
    fields = [field.name for field in getattr(cls, "__attrs_attrs__", ())]
    maker: Maker
    if fields:
        maker = Maker(
            name, _restore_value, cls, [getattr(cls, at).__set__ for at in fields]
        )
        get: Callable[[Any], Any] = attrgetter(*fields)
        if len(fields) == 1:
            get = _in_a_tuple(get)
    else:
        maker = Maker(name, cls)
        get = tuple if issubclass(cls, tuple) else _in_a_tuple(attrgetter("value"))

    copyreg.pickle(cls, lambda value: (maker, get(value)))
    return cls


def _in_a_tuple(get: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: (get(value),)


def _restore_value(cls: type[Any], setters: list[Any], *fields: Any) -> Any:
    # Past the constructor: the fields were checked when the value was made.
    value = object.__new__(cls)
    for set_field, field in zip(setters, fields, strict=True):
        set_field(value, field)

    return value
