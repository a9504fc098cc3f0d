"""
Hooks for classes, those of users and those of this library, and for unions:
which member a value belongs to.
"""

from __future__ import annotations

import typing
from enum import Enum
from functools import partial
from types import NoneType
from typing import (
    Any,
    Literal,
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

from conversation_state._canonical import describe_json, is_loadable
from conversation_state._wording import format_count
from conversation_state.codec import _kinds
from conversation_state.codec._reader import CodecReader, Read
from conversation_state.codec._structured._hooks import (
    READ_CONTEXT,
    AmbiguousUnion,
    ClosestMember,
    Hook,
    TypeMismatch,
    deferred_hook,
    group_errors,
    has_fields,
    iterate_problems,
    key_names,
    type_name,
    unwrap_alias,
)
from conversation_state.codec._structured._values import (
    SCALARS,
    check_object,
    read_items,
)


def class_hook(converter: Converter, kind: Any, origin: type) -> Hook | None:
    """The hook for a class with fields; None if it is no such class."""
    for cls, read_own in _kinds.READS.values():
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
    """*read*, with a check for unknown keys where they are problems."""
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
        except Exception as error:  # noqa: BLE001 - any of a class's own checks: grouped
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

    # Unknown keys are left to `_check_keys`: cattrs keeps one hook for a class, which
    # serves `structure`, where they are left out, and registered classes.
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
        # A class whose annotations are strings does not resolve these qualifiers
        # itself.
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
            zip([name for name, _, _ in there], read_items(items, kind), strict=True)
        )

    return structure


# The last one is new in Python 3.13.
_QUALIFIERS = (Required, NotRequired, getattr(typing, "ReadOnly", Required))


def _raise_missing(name: str, _: Any) -> Never:
    raise KeyError(name)


def _substitute_variables(hint: Any, given: dict[Any, Any]) -> Any:
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
    reader = CodecReader(kinds=_kinds.READS, is_plain=is_loadable(raw))
    value = read(reader, raw, None)
    if reader.problems.count:
        raise reader.problems.error()

    cls = get_origin(kind) or kind  # without the argument of a Timeline
    if isinstance(value, cls):
        return value

    raise TypeMismatch(cls.__name__, type(value).__name__)


def _specificity_key(kind: Any, levels: int = 3) -> tuple[Any, ...]:
    """
    A sort key of union members, the most specific first.

    Needed because unions have no order: ``int | str == str | int``, so that a
    cache may return either.
    """
    while (base := unwrap_alias(kind)) is not None:
        kind = base

    origin, args = get_origin(kind) or kind, get_args(kind)
    group, place = 3, 0
    if origin is Literal or (isinstance(origin, type) and issubclass(origin, Enum)):
        group = 0
    elif origin in SCALARS:
        group, place = 1, list(SCALARS).index(origin)
    elif key_names(origin):
        group = 2
    elif origin is Any or origin is object:
        group = 4

    # A type may contain itself, so the comparison ends after some levels.
    inner = args if group == 3 and levels else ()  # noqa: PLR2004 - as above
    ranks = tuple([_specificity_key(arg, levels - 1) for arg in inner])
    return group, place, ranks, repr(kind)


def union_hook(converter: Converter, whole: Any) -> Hook:
    kinds = sorted(
        (kind for kind in get_args(whole) if kind is not NoneType), key=_specificity_key
    )
    has_null = len(kinds) < len(get_args(whole))
    members = [(kind, deferred_hook(converter, kind)) for kind in kinds]
    # An int field accepts 5.0; in a union with float it stays a float.
    of_float = sorted(members, key=lambda member: member[0] is not float)

    def structure(raw: Any, _: Any) -> Any:
        if raw is None and has_null:
            return None

        known = READ_CONTEXT.get().known
        key = (id(raw), whole)
        if type(raw) not in (dict, list):
            some = of_float if type(raw) is float else members
            made, wrong = _try_members(some, raw, has_null=has_null)
        elif key in known:
            made, wrong = known[key]
        else:
            made, wrong = known[key] = _try_members(members, raw, has_null=has_null)

        if wrong is not None:
            # A new error each time, because every holder adds its own path note.
            if isinstance(wrong, TypeMismatch):
                raise TypeMismatch(wrong.expected, wrong.got, is_tag=wrong.is_tag)

            raise group_errors([wrong], whole)

        return made

    return structure


def _try_members(
    members: list[tuple[Any, Hook]], raw: Any, *, has_null: bool
) -> tuple[Any, Exception | None]:
    """The value as one of the members, or the error why it fits none."""
    made: list[tuple[Any, Any]] = []
    wrong: list[tuple[Any, Exception]] = []
    reading = READ_CONTEXT.get()
    count = reading.count
    for kind, hook in members:
        try:
            value = hook(raw, kind)
        except Exception as error:  # noqa: BLE001 - any of a class's own checks: grouped
            wrong.append((kind, error))
        else:
            made.append((kind, value))
            if type(raw) is not dict:
                break

        reading.count = count

    if made:
        return _select_best_match(made, raw)

    return None, _select_closest_error(wrong, raw, has_null=has_null)


def _select_best_match(
    made: list[tuple[Any, Any]], raw: Any
) -> tuple[Any, Exception | None]:
    """Of several classes the one that has most of the keys and the fewest others."""
    if len(made) == 1:
        return made[0][1], None

    def knows(kind: Any) -> tuple[int, int]:
        names = key_names(kind)
        return len(names & raw.keys()) if names else -1, -len(names)

    best = max(knows(kind) for kind, _ in made)
    equal = [(kind, value) for kind, value in made if knows(kind) == best]
    if len(equal) > 1 and key_names(equal[0][0]):
        those = " and ".join(type_name(kind) for kind, _ in equal)
        return None, AmbiguousUnion(those)

    return equal[0][1], None


def _select_closest_error(
    wrong: list[tuple[Any, Exception]], raw: Any, *, has_null: bool
) -> Exception:
    deeper = [(k, error) for k, error in wrong if not isinstance(error, TypeMismatch)]
    if not deeper:
        expected = [
            error.expected for _, error in wrong if isinstance(error, TypeMismatch)
        ]
        expected += ["null"] if has_null else []
        got = describe_json(raw) if len(wrong) > 1 else wrong[0][1].args[1]
        return TypeMismatch(" or ".join(dict.fromkeys(expected)), got, is_tag=False)

    def closeness(one: tuple[Any, Exception]) -> tuple[bool, int, int]:
        kind, error = one
        inner = getattr(error, "exceptions", ())
        is_tagged = any(
            isinstance(each, TypeMismatch) and each.is_tag for each in inner
        )
        known = len(key_names(kind) & raw.keys()) if type(raw) is dict else 0
        return not is_tagged, known, -sum(1 for _ in iterate_problems(error, None))

    kind, error = max(deeper, key=closeness)
    return error if len(deeper) == 1 else ClosestMember(type_name(kind), error)
