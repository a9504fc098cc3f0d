"""
JSON values made immutable, and what such a value may hold.

Maps become `PMap`, lists become tuples; text, numbers, truth and null stay.
This is the only file that names pyrsistent. (Its `PVector` is not used: see
`conversation_state._persistent.log`.)

Every check takes the class of the error to raise, so that a caller's users
see the caller's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from pyrsistent import PMap, pmap

from conversation_state._wording import shorten_repr

__all__ = [
    "EMPTY_MAP",
    "Frozen",
    "PMap",
    "check_text",
    "check_unknown",
    "freeze",
    "freeze_map",
    "freeze_notes",
    "given_map",
    "is_same_json",
    "pmap",
    "thaw",
]

Frozen: TypeAlias = "PMap[str, Any] | tuple[Any, ...] | str | int | float | bool | None"

EMPTY_MAP: PMap[str, Any] = pmap()

# Deep enough for any JSON Schema met so far, shallow enough for every parser
# that may have to read the value back.
MOST_LEVELS = 100
_LINE = 80
_LEAST, _MOST = -(2**63), 2**64 - 1


def check_text(value: object, what: object, error: type[Exception] = ValueError) -> str:
    """
    *value* as a plain `str` of valid Unicode; *what* names it in the error.

    Raises:
        error:
            If it is no `str`, or holds half of a surrogate pair, which no
            UTF-8 can carry.
    """
    if not isinstance(value, str):
        msg = f"{what} is {shorten_repr(value, _LINE)}; expected a str"
        raise error(msg)

    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as found:
            msg = (
                f"{what} holds {value[found.start]!a} at position {found.start}, "
                "half of a surrogate pair and no character; replace it, with "
                "U+FFFD say"
            )
            raise error(msg) from None

    return value if value.__class__ is str else str.__str__(value)


def freeze(value: object, what: str, error: type[Exception] = ValueError) -> Frozen:
    """
    *value* as an immutable JSON value; *what* names it in the error.

    O(size of the value).

    Raises:
        error:
            If JSON can't hold it: a number that is not finite or needs more
            than 64 bits, a key that is no text, a surrogate, a type JSON has
            no word for, or more than 100 levels. The message says where.
    """
    return _freeze_value(value, what, error, 0)  # type: ignore[no-any-return]


if TYPE_CHECKING:

    def given_map(value: Mapping[str, Any]) -> PMap[str, Any]:
        """
        Tells type checkers that any mapping may be given for what becomes one.
        """
        ...

else:
    # A converter that does nothing would cost time in every class and value.
    given_map = None


def freeze_map(
    value: object, what: str, error: type[Exception] = ValueError
) -> PMap[str, Any]:
    """
    The same for a mapping, which *value* must be.
    """
    if not isinstance(value, Mapping):
        shown = shorten_repr(value, _LINE)
        msg = f"{what} is {shown}; expected a mapping of names to JSON values"
        raise error(msg)

    return _freeze_map(value, what, error, 0) if value else EMPTY_MAP


def check_unknown(
    owner: str, own: Iterable[str], unknown: Mapping[str, Any], error: type[Exception]
) -> None:
    """
    Raises:
        error:
            If *unknown*, fields of *owner* that a newer version wrote, has the
            name of one of its *own*.
    """
    for name in sorted({*own}.intersection(unknown)):
        msg = f"{owner}.unknown has {name!r}, a field this version knows"
        raise error(msg)


def freeze_notes(
    value: Any, own: Iterable[str], error: type[Exception] = ValueError
) -> None:
    """
    Freeze what *value* has as *metadata* and *unknown*, while it is made; its
    *own* fields are known.

    Raises:
        error:
            As `freeze` and `check_unknown` say.
    """
    owner = type(value).__name__
    for field in ("metadata", "unknown"):
        given = getattr(value, field)
        if given is not EMPTY_MAP:
            frozen = freeze_map(given, f"{owner}.{field}", error)
            object.__setattr__(value, field, frozen)

    if value.unknown:
        check_unknown(owner, {*own} - {"unknown"}, value.unknown, error)


def is_same_json(a: Any, b: Any) -> bool:
    """
    Whether two frozen JSON values are written alike: equal, and of one type
    all the way down. ``1 == 1.0 == True`` are three.
    """
    if a.__class__ is not b.__class__ or a != b:
        return False

    if isinstance(a, Mapping):
        return all(is_same_json(item, b[key]) for key, item in a.items())

    return not isinstance(a, tuple) or all(map(is_same_json, a, b))


class _Place:
    """
    Where in a value something is, told only if something is wrong there.

    A text for each place would be as long as all keys on the way to it, and
    hostile JSON has many places behind long keys.
    """

    __slots__ = ("_at", "_before")

    def __init__(self, at: Any, before: str = "") -> None:
        self._at = at
        self._before = before

    def __str__(self) -> str:
        at, steps = self._at, []
        while isinstance(at, tuple):
            at, step = at
            steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")

        return "".join([self._before, str(at), *reversed(steps)])


def _freeze_value(value: Any, at: Any, error: type[Exception], depth: int) -> Any:
    """
    *value* frozen; *at* is what names it, or the place it is in and its key.
    """
    if value is None or value.__class__ is bool:
        return value

    if isinstance(value, str):
        plain = value.__class__ is str and value.isascii()
        return value if plain else check_text(value, _Place(at), error)

    if isinstance(value, int):
        # Whatever a subclass of it says of itself, an enum say.
        number = value if value.__class__ is int else int.__int__(value)
        if _LEAST <= number <= _MOST:
            return number

        msg = f"{_Place(at)} is an integer that does not fit in 64 bits; make it a text"
        raise error(msg)

    if isinstance(value, float):
        if isfinite(value):
            return value if value.__class__ is float else float.__float__(value)

        msg = f"{_Place(at)} is {value!r}, which JSON can't represent"
        raise error(msg)

    if depth == MOST_LEVELS:
        msg = f"{_Place(at)} is nested more than {MOST_LEVELS} levels deep"
        raise error(msg)

    if isinstance(value, Mapping):
        return _freeze_map(value, at, error, depth)

    if isinstance(value, (list, tuple)):
        return tuple(
            [
                _freeze_value(item, (at, i), error, depth + 1)
                for i, item in enumerate(value)
            ]
        )

    msg = f"{_Place(at)} is {shorten_repr(value, _LINE)}, which JSON can't represent"
    raise error(msg)


def _freeze_map(
    value: Mapping[Any, Any], at: Any, error: type[Exception], depth: int
) -> PMap[str, Any]:
    frozen = {}
    for key, item in value.items():
        if not isinstance(key, str):
            shown = shorten_repr(key, _LINE)
            msg = f"{_Place(at)} has the key {shown}; keys of JSON are text"
            raise error(msg)

        name = key
        if key.__class__ is not str or not key.isascii():
            name = check_text(key, _Place(at, "a key of "), error)

        frozen[name] = _freeze_value(item, (at, name), error, depth + 1)

    return pmap(frozen)


def thaw(value: Any) -> Any:
    """
    A frozen JSON value as plain dicts and lists, keys in sorted order.

    Always a fresh copy: changing it changes nothing else.
    """
    if isinstance(value, Mapping):
        return {key: thaw(value[key]) for key in sorted(value)}

    if isinstance(value, (tuple, list)):
        return [thaw(item) for item in value]

    return value
