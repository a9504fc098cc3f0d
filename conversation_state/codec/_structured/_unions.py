"""
Unions: which member a value is of.
"""

from __future__ import annotations

from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from cattrs import Converter

from conversation_state.codec._problems import shown
from conversation_state.codec._structured._scalars import SCALARS
from conversation_state.codec._structured._shapes import (
    READING,
    Hook,
    later,
    names_of,
    unwrapped,
)
from conversation_state.codec._structured._wrong import (
    Alike,
    Closest,
    Misfit,
    found,
    named,
    several,
)

__all__ = ["union"]


def _rank(kind: Any, levels: int = 3) -> tuple[Any, ...]:
    """
    How telling it is that a value is of *kind*, the most telling first.

    Unions have no order: ``int | str == str | int``, and who looks one up may
    get the other.
    """
    while (base := unwrapped(kind)) is not None:
        kind = base

    origin, args = get_origin(kind) or kind, get_args(kind)
    group, place = 3, 0
    if origin is Literal or (isinstance(origin, type) and issubclass(origin, Enum)):
        group = 0
    elif origin in SCALARS:
        group, place = 1, list(SCALARS).index(origin)
    elif names_of(origin):
        group = 2
    elif origin is Any or origin is object:
        group = 4

    # A type may hold itself, so not all the way down.
    inner = args if group == 3 and levels else ()  # noqa: PLR2004 - as above
    ranks = tuple([_rank(arg, levels - 1) for arg in inner])
    return group, place, ranks, repr(kind)


def union(converter: Converter, whole: Any) -> Hook:
    """
    What reads values of any of several types.
    """
    kinds = sorted(
        (kind for kind in get_args(whole) if kind is not NoneType), key=_rank
    )
    has_null = len(kinds) < len(get_args(whole))
    members = [(kind, later(converter, kind)) for kind in kinds]
    # What is 5.0 in JSON may be read as 5, but not where it may be 5.0.
    of_float = sorted(members, key=lambda member: member[0] is not float)

    def structure(raw: Any, _: Any) -> Any:
        if raw is None and has_null:
            return None

        known = READING.get().known
        at = (id(raw), whole)
        if type(raw) not in (dict, list):
            some = of_float if type(raw) is float else members
            made, wrong = _tried(some, raw, has_null=has_null)
        elif at in known:
            made, wrong = known[at]
        else:
            made, wrong = known[at] = _tried(members, raw, has_null=has_null)

        if wrong is not None:
            # Not one for all who hold the union: each notes on it where.
            if isinstance(wrong, Misfit):
                raise Misfit(wrong.expected, wrong.got, is_tag=wrong.is_tag)

            raise several([wrong], whole)

        return made

    return structure


def _tried(
    members: list[tuple[Any, Hook]], raw: Any, *, has_null: bool
) -> tuple[Any, Exception | None]:
    """
    The value that *raw* is as one of the members, or why it is none.
    """
    made: list[tuple[Any, Any]] = []
    wrong: list[tuple[Any, Exception]] = []
    reading = READING.get()
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
        return _fullest(made, raw)

    return None, _likeliest(wrong, raw, has_null=has_null)


def _fullest(made: list[tuple[Any, Any]], raw: Any) -> tuple[Any, Exception | None]:
    """
    Of several classes the one that knows most of the keys, with the fewest
    further ones.
    """
    if len(made) == 1:
        return made[0][1], None

    def knows(kind: Any) -> tuple[int, int]:
        names = names_of(kind)
        return len(names & raw.keys()) if names else -1, -len(names)

    best = max(knows(kind) for kind, _ in made)
    equal = [(kind, value) for kind, value in made if knows(kind) == best]
    if len(equal) > 1 and names_of(equal[0][0]):
        those = " and ".join(named(kind) for kind, _ in equal)
        return None, Alike(those)

    return equal[0][1], None


def _likeliest(
    wrong: list[tuple[Any, Exception]], raw: Any, *, has_null: bool
) -> Exception:
    deeper = [(k, error) for k, error in wrong if not isinstance(error, Misfit)]
    if not deeper:
        expected = [error.expected for _, error in wrong if isinstance(error, Misfit)]
        expected += ["null"] if has_null else []
        got = shown(raw) if len(wrong) > 1 else wrong[0][1].args[1]
        return Misfit(" or ".join(dict.fromkeys(expected)), got, is_tag=False)

    def closeness(one: tuple[Any, Exception]) -> tuple[bool, int, int]:
        kind, error = one
        inner = getattr(error, "exceptions", ())
        is_tagged = any(isinstance(each, Misfit) and each.is_tag for each in inner)
        known = len(names_of(kind) & raw.keys()) if type(raw) is dict else 0
        return not is_tagged, known, -sum(1 for _ in found(error, None))

    kind, error = max(deeper, key=closeness)
    return error if len(deeper) == 1 else Closest(named(kind), error)
