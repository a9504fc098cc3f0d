"""
Hooks for classes: those of users and those of this library.
"""

from __future__ import annotations

import typing
from functools import partial
from typing import (
    Any,
    Never,
    NotRequired,
    Required,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import attrs
from cattrs import Converter, ForbiddenExtraKeysError
from cattrs.cols import namedtuple_dict_structure_factory
from cattrs.gen import make_dict_structure_fn, override

from conversation_state._canonical import describe_json
from conversation_state._wording import format_count
from conversation_state.codec import _decode
from conversation_state.codec._reader import Read, Reader
from conversation_state.codec._structured._collections import check_object, read_items
from conversation_state.codec._structured._errors import TypeMismatch, group_errors
from conversation_state.codec._structured._hooks import (
    READ_CONTEXT,
    Hook,
    deferred_hook,
    has_fields,
    key_names,
)

__all__ = ["OwnValue", "class_hook"]


class OwnValue:
    """
    A value of this library in place of its JSON, where a value is read back to
    check that it can be: those of this library always can.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def class_hook(converter: Converter, kind: Any, origin: type) -> Hook | None:
    """
    The hook for a class with fields; None if it is no such class.
    """
    for cls, read_own in _decode.READS.values():
        # A tuple of messages is a tuple like others.
        if cls is not tuple and issubclass(origin, cls):
            return partial(_read_own_value, read_own)

    if has_fields(origin):
        read: Hook | None = _fields_hook(converter, kind, origin)
    elif is_typeddict(origin):
        read = _typed_dict_hook(converter, kind, origin)
    else:
        read = (
            _named_tuple_hook(converter, origin) if issubclass(origin, tuple) else None
        )

    return read and _check_keys(read, kind)


def _check_keys(read: Hook, kind: Any) -> Hook:
    """
    *read*, with a check for unknown keys where they are problems.
    """
    names = key_names(kind)

    def structure(raw: Any, kind: Any) -> Any:
        if (
            type(raw) is not dict
            or not READ_CONTEXT.get().is_closed
            or names >= raw.keys()
        ):
            return read(raw, kind)

        wrong: list[Exception] = []
        try:
            read(raw, kind)
        except Exception as error:  # noqa: BLE001 - whatever a user's own checks raise
            wrong.append(error)

        wrong.append(ForbiddenExtraKeysError("", kind, {*raw.keys() - names}))
        raise group_errors(wrong, kind)

    return structure


def _fields_hook(converter: Converter, kind: Any, origin: type) -> Hook:
    renamed: dict[str, Any] = {}
    if attrs.has(origin):
        attrs.resolve_types(origin)
        renamed = {
            field.name: override(rename=field.alias)
            for field in attrs.fields(origin)
            if field.init and field.alias != field.name
        }

    read: Hook = make_dict_structure_fn(
        kind,
        converter,
        _cattrs_forbid_extra_keys=False,
        _cattrs_detailed_validation=True,
        **renamed,
    )

    def structure(raw: Any, kind: Any) -> Any:
        check_object(raw)
        return read(raw, kind)

    return structure


def _typed_dict_hook(converter: Converter, kind: Any, origin: Any) -> Hook:
    given = dict(
        zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False)
    )
    required = set(origin.__required_keys__)
    members: list[tuple[str, Hook, Any]] = []
    for name, hint in get_type_hints(origin, include_extras=True).items():
        # In annotations that are strings, the class itself does not see this.
        while (qualifier := get_origin(hint)) in _QUALIFIERS:
            if qualifier is NotRequired:
                required.discard(name)
            elif qualifier is Required:
                required.add(name)

            hint = get_args(hint)[0]  # noqa: PLW2901 - unwrapped

        known = _substitute_variables(hint, given)
        members.append((name, deferred_hook(converter, known), known))

    def structure(raw: Any, kind: Any) -> Any:
        check_object(raw)
        there = [m for m in members if m[0] in raw or m[0] in required]
        items = (
            (name, raw[name], hook, known)
            if name in raw
            else (name, name, _raise_missing, 0)
            for name, hook, known in there
        )
        return dict(
            zip(
                [name for name, _, _ in there],
                read_items(items, kind),
                strict=True,
            )
        )

    return structure


# The last one is new in Python 3.13.
_QUALIFIERS = (Required, NotRequired, getattr(typing, "ReadOnly", Required))


def _raise_missing(name: str, _: Any) -> Never:
    raise KeyError(name)


def _substitute_variables(hint: Any, given: dict[Any, Any]) -> Any:
    """
    *hint* with the values in *given* for its type variables.
    """
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)

    free = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(each, each) for each in free)] if free else hint


def _named_tuple_hook(converter: Converter, cls: Any) -> Hook | None:
    hints = get_type_hints(cls, include_extras=True)
    if not key_names(cls) or not key_names(cls) <= hints.keys():
        return None  # a tuple without annotations

    read = namedtuple_dict_structure_factory(cls, converter, True)  # noqa: FBT003 - theirs
    kinds = [hints[name] for name in cls._fields]
    hooks = [deferred_hook(converter, kind) for kind in kinds]
    least = len(kinds) - len(cls._field_defaults)

    def structure(raw: Any, kind: Any) -> Any:
        if type(raw) is dict:
            return read(raw, kind)

        # As `json.dumps` writes it.
        if type(raw) is not list:
            raise TypeMismatch("an object or an array", describe_json(raw))

        if not least <= len(raw) <= len(kinds):
            what = f"an array of {format_count(len(kinds), 'item')}"
            raise TypeMismatch(what, f"one of {len(raw)}")

        items = zip(range(len(raw)), raw, hooks, kinds, strict=False)
        return cls(*read_items(items, kind))

    return structure


def _read_own_value(read: Read, raw: Any, kind: Any) -> Any:
    """
    A value of this library, of class *kind*.
    """
    if raw.__class__ is OwnValue:
        value = raw.value
    else:
        reader = Reader()
        value = read(reader, raw, None)
        if reader.problems.count:
            raise reader.problems.error()

    cls = get_origin(kind) or kind  # a timeline says of what
    if isinstance(value, cls):
        return value

    raise TypeMismatch(cls.__name__, type(value).__name__)
