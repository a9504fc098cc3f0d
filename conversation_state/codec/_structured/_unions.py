"""
Hooks for unions: which member a value belongs to.
"""

from __future__ import annotations

from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from cattrs import Converter

from conversation_state._canonical import describe_json
from conversation_state.codec._structured._errors import (
    AmbiguousUnion,
    ClosestMember,
    TypeMismatch,
    group_errors,
    iterate_problems,
    type_name,
)
from conversation_state.codec._structured._hooks import (
    READ_CONTEXT,
    Hook,
    deferred_hook,
    key_names,
    unwrap_alias,
)
from conversation_state.codec._structured._scalars import SCALARS

__all__ = ["union_hook"]


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

    # A type may hold itself, so not all the way down.
    inner = args if group == 3 and levels else ()  # noqa: PLR2004 - as above
    ranks = tuple([_specificity_key(arg, levels - 1) for arg in inner])
    return group, place, ranks, repr(kind)


def union_hook(converter: Converter, whole: Any) -> Hook:
    """
    The hook for a union.
    """
    kinds = sorted(
        (kind for kind in get_args(whole) if kind is not NoneType), key=_specificity_key
    )
    has_null = len(kinds) < len(get_args(whole))
    members = [(kind, deferred_hook(converter, kind)) for kind in kinds]
    # What is 5.0 in JSON may be read as 5, but not where it may be 5.0.
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
    """
    The value as one of the members, or the error why it fits none.
    """
    made: list[tuple[Any, Any]] = []
    wrong: list[tuple[Any, Exception]] = []
    reading = READ_CONTEXT.get()
    count = reading.count
    for kind, hook in members:
        try:
            value = hook(raw, kind)
        except Exception as error:  # noqa: BLE001 - whatever a user's own checks raise
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
    """
    Of several classes the one that has most of the keys and the fewest others.
    """
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
