"""
Classes: those of users, and ours.
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
from cattrs import Converter
from cattrs.cols import namedtuple_dict_structure_factory
from cattrs.gen import make_dict_structure_fn, override

from conversation_state.codec import _in
from conversation_state.codec._problems import shown
from conversation_state.codec._reading import Read, Reader
from conversation_state.codec._structured._several import check_object, each
from conversation_state.codec._structured._shapes import (
    Hook,
    has_fields,
    later,
    names_of,
)
from conversation_state.codec._structured._wrong import Misfit

__all__ = ["object_of", "of_ours"]


def object_of(converter: Converter, kind: Any, origin: type) -> Hook | None:
    """
    What reads values of a class with fields; None if it is no such class.
    """
    for cls, of_class in _in.READS.values():
        # A tuple of messages is a tuple like others.
        if cls is not tuple and issubclass(origin, cls):
            return partial(of_ours, of_class)

    if has_fields(origin):
        read = _class(converter, kind, origin)
    elif is_typeddict(origin):
        read = _typed_dict(converter, kind, origin)
    elif issubclass(origin, tuple):
        return _named_tuple(converter, origin)
    else:
        return None

    def structure(raw: Any, kind: Any) -> Any:
        check_object(raw)
        return read(raw, kind)

    return structure


def _class(converter: Converter, kind: Any, origin: type) -> Hook:
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
    return read


def _typed_dict(converter: Converter, kind: Any, origin: Any) -> Hook:
    given = dict(
        zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False)
    )
    required = set(origin.__required_keys__)
    members: list[tuple[str, Hook, Any]] = []
    for name, hint in get_type_hints(origin, include_extras=True).items():
        # The class itself does not see this in annotations that are texts.
        while (qualifier := get_origin(hint)) in _QUALIFIERS:
            if qualifier is NotRequired:
                required.discard(name)
            elif qualifier is Required:
                required.add(name)

            hint = get_args(hint)[0]  # noqa: PLW2901 - unwrapped

        known = _substituted(hint, given)
        members.append((name, later(converter, known), known))

    def structure(raw: Any, kind: Any) -> Any:
        there = [m for m in members if m[0] in raw or m[0] in required]
        items = (
            (name, raw[name], hook, known) if name in raw else (name, name, _missing, 0)
            for name, hook, known in there
        )
        return dict(zip([name for name, _, _ in there], each(items, kind), strict=True))

    return structure


# The last one is new in Python 3.13.
_QUALIFIERS = (Required, NotRequired, getattr(typing, "ReadOnly", Required))


def _missing(name: str, _: Any) -> Never:
    raise KeyError(name)


def _substituted(hint: Any, given: dict[Any, Any]) -> Any:
    """
    *hint* with what is *given* for its type variables.
    """
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)

    free = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(each, each) for each in free)] if free else hint


def _named_tuple(converter: Converter, cls: Any) -> Hook | None:
    hints = get_type_hints(cls, include_extras=True)
    if not names_of(cls) or not names_of(cls) <= hints.keys():
        return None  # a tuple that does not say what it is made of

    read = namedtuple_dict_structure_factory(cls, converter, True)  # noqa: FBT003 - theirs
    kinds = [hints[name] for name in cls._fields]
    hooks = [later(converter, kind) for kind in kinds]
    least = len(kinds) - len(cls._field_defaults)

    def structure(raw: Any, kind: Any) -> Any:
        if type(raw) is dict:
            return read(raw, kind)

        # As `json.dumps` writes it.
        if type(raw) is not list:
            raise Misfit("an object or an array", shown(raw))

        if not least <= len(raw) <= len(kinds):
            raise Misfit(f"an array of {len(kinds)} items", f"one of {len(raw)}")

        items = zip(range(len(raw)), raw, hooks, kinds, strict=False)
        return cls(*each(items, kind))

    return structure


def of_ours(read: Read, raw: Any, kind: Any) -> Any:
    """
    A value of this library, which is to be of class *kind*.
    """
    reader = Reader()
    value = read(reader, raw, None)
    if reader.problems.count:
        raise reader.problems.error()

    if isinstance(value, kind):
        return value

    raise Misfit(kind.__name__, type(value).__name__)
