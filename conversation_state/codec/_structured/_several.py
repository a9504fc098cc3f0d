"""
Arrays and maps.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from cattrs import Converter, IterableValidationNote

from conversation_state.codec._problems import shown
from conversation_state.codec._structured._shapes import (
    READING,
    Hook,
    later,
    unwrapped,
)
from conversation_state.codec._structured._wrong import Misfit, several

__all__ = ["ARRAYS", "MAPS", "array", "check_object", "each", "map_of", "tuple_of"]

_MOST_NOTED = 100


ARRAYS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    Sequence: list,
    MutableSequence: list,
    Collection: list,
    Iterable: list,
    set: set,
    AbstractSet: set,
    MutableSet: set,
    frozenset: frozenset,
    deque: deque,
}

MAPS: dict[Any, Callable[[Iterable[tuple[Any, Any]]], Any]] = {
    dict: dict,
    Mapping: dict,
    MutableMapping: dict,
    OrderedDict: OrderedDict,
}

# A place, the value there, how it is read, and as what.
_Item: TypeAlias = "tuple[int | str, Any, Hook, Any]"


def each(items: Iterable[_Item], kind: Any) -> list[Any]:
    """
    What is made of all items, or all that is wrong with them.
    """
    made: list[Any] = []
    wrong: list[Exception] = []
    for step, raw, hook, item in items:
        try:
            made.append(hook(raw, item))
        except Exception as error:  # noqa: BLE001 - whatever a user's own checks raise
            _note(error, step)
            wrong.append(error)
            # A hostile text may hold a million wrong items.
            reading = READING.get()
            reading.count += 1
            if reading.count >= _MOST_NOTED:
                break

    if wrong:
        raise several(wrong, kind)

    return made


def _note(error: Exception, step: int | str) -> None:
    notes = getattr(error, "__notes__", [])
    error.__notes__ = [*notes, IterableValidationNote("item", step, None)]


def check_array(raw: Any) -> None:
    if type(raw) is not list:
        raise Misfit("an array", shown(raw))


def check_object(raw: Any) -> None:
    if type(raw) is not dict:
        raise Misfit("an object", shown(raw))


def array(
    converter: Converter, make: Callable[[list[Any]], Any], item: Any = Any
) -> Hook:
    hook = later(converter, item)

    def structure(raw: Any, kind: Any) -> Any:
        check_array(raw)
        items = ((i, one, hook, item) for i, one in enumerate(raw))
        return make(each(items, kind))

    return structure


def tuple_of(converter: Converter, kinds: tuple[Any, ...]) -> Hook:
    if not kinds or kinds[-1] is Ellipsis:
        return array(converter, tuple, *kinds[:1])

    # What `tuple[()]` says of itself before Python 3.11 and since.
    kinds = () if kinds == ((),) else kinds
    hooks = [later(converter, kind) for kind in kinds]

    def structure(raw: Any, kind: Any) -> Any:
        check_array(raw)
        if len(raw) != len(kinds):
            what = f"an array of {len(kinds)} items"
            raise Misfit(what, f"one of {len(raw)}")

        return tuple(each(zip(range(len(raw)), raw, hooks, kinds, strict=True), kind))

    return structure


def map_of(
    converter: Converter,
    make: Callable[[Iterable[tuple[Any, Any]]], Any],
    key: Any = str,
    value: Any = Any,
) -> Hook:
    read_key, read_value = _key_reader(converter, key), later(converter, value)

    def structure(raw: Any, kind: Any) -> Any:
        check_object(raw)
        values = each(((k, v, read_value, value) for k, v in raw.items()), kind)
        keys = each(((k, k, read_key, key) for k in raw), kind)
        return make(zip(keys, values, strict=True))

    return structure


_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,4000})", re.ASCII)


def _key_reader(converter: Converter, key: Any) -> Hook:
    """
    What reads a key: JSON has only texts there, integers' too.
    """
    hook, base = later(converter, key), key
    while (inner := unwrapped(base)) is not None:
        base = inner

    if not (isinstance(base, type) and issubclass(base, int)) or base is bool:
        return hook

    def structure(raw: Any, kind: Any) -> Any:
        return hook(int(raw) if _WHOLE.fullmatch(raw) else raw, kind)

    return structure
