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

from conversation_state._canonical import describe_json
from conversation_state._wording import format_count
from conversation_state.codec._structured._errors import TypeMismatch, group_errors
from conversation_state.codec._structured._hooks import (
    READ_CONTEXT,
    Hook,
    deferred_hook,
    unwrap_alias,
)

__all__ = [
    "ARRAYS",
    "MAPS",
    "array_hook",
    "check_object",
    "map_hook",
    "read_items",
    "tuple_hook",
]

_MAX_ERRORS = 100


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

# The last step of the path, the raw value, its hook and its type.
_Item: TypeAlias = "tuple[int | str, Any, Hook, Any]"


def read_items(items: Iterable[_Item], kind: Any) -> list[Any]:
    """
    All items read, or an error with all their problems.
    """
    made: list[Any] = []
    wrong: list[Exception] = []
    for step, raw, hook, item in items:
        try:
            made.append(hook(raw, item))
        except Exception as error:  # noqa: BLE001 - whatever a user's own checks raise
            _add_path_note(error, step)
            wrong.append(error)
            # Hostile JSON may hold a million invalid items.
            reading = READ_CONTEXT.get()
            reading.count += 1
            if reading.count >= _MAX_ERRORS:
                break

    if wrong:
        raise group_errors(wrong, kind)

    return made


def _add_path_note(error: Exception, step: int | str) -> None:
    notes = getattr(error, "__notes__", [])
    error.__notes__ = [*notes, IterableValidationNote("item", step, None)]


def check_array(raw: Any) -> None:
    if type(raw) is not list:
        raise TypeMismatch("an array", describe_json(raw))


def check_object(raw: Any) -> None:
    if type(raw) is not dict:
        raise TypeMismatch("an object", describe_json(raw))


def array_hook(
    converter: Converter, make: Callable[[list[Any]], Any], item: Any = Any
) -> Hook:
    hook = deferred_hook(converter, item)

    def structure(raw: Any, kind: Any) -> Any:
        check_array(raw)
        items = ((i, one, hook, item) for i, one in enumerate(raw))
        return make(read_items(items, kind))

    return structure


def tuple_hook(converter: Converter, kinds: tuple[Any, ...]) -> Hook:
    if not kinds or kinds[-1] is Ellipsis:
        return array_hook(converter, tuple, *kinds[:1])

    # The arguments of `tuple[()]` differ before Python 3.11.
    kinds = () if kinds == ((),) else kinds
    hooks = [deferred_hook(converter, kind) for kind in kinds]

    def structure(raw: Any, kind: Any) -> Any:
        check_array(raw)
        if len(raw) != len(kinds):
            what = f"an array of {format_count(len(kinds), 'item')}"
            raise TypeMismatch(what, f"one of {len(raw)}")

        return tuple(
            read_items(zip(range(len(raw)), raw, hooks, kinds, strict=True), kind)
        )

    return structure


def map_hook(
    converter: Converter,
    make: Callable[[Iterable[tuple[Any, Any]]], Any],
    key: Any = str,
    value: Any = Any,
) -> Hook:
    read_key, read_value = _key_reader(converter, key), deferred_hook(converter, value)

    def structure(raw: Any, kind: Any) -> Any:
        check_object(raw)
        values = read_items(((k, v, read_value, value) for k, v in raw.items()), kind)
        keys = read_items(((k, k, read_key, key) for k in raw), kind)
        return make(zip(keys, values, strict=True))

    return structure


_INTEGER_KEY = re.compile(r"-?(?:0|[1-9]\d{0,4000})", re.ASCII)


def _key_reader(converter: Converter, key: Any) -> Hook:
    """
    The hook for keys, which are texts in JSON, also those of integers.
    """
    hook, base = deferred_hook(converter, key), key
    while (inner := unwrap_alias(base)) is not None:
        base = inner

    if not (isinstance(base, type) and issubclass(base, int)) or base is bool:
        return hook

    def structure(raw: Any, kind: Any) -> Any:
        return hook(int(raw) if _INTEGER_KEY.fullmatch(raw) else raw, kind)

    return structure
