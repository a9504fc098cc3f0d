"""
JSON values made immutable, and what such a value may hold.

Maps become `FrozenMap`, lists become tuples; text, numbers, truth and null stay.
Maps that are made once and read often are such ones; those that grow are
pyrsistent's, which share what they have in common.

Every check takes the class of the error to raise, so that a caller's users
see the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from conversation_state._wording import (
    describe_type,
    describe_value,
    shorten_path,
    shorten_repr,
)
from conversation_state.pickling import Maker

if TYPE_CHECKING:
    from datetime import datetime


K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(dict[K, V]):
    """
    A mapping that never changes: a `dict` whose methods that change it raise.

    It equals every dict with the same items, keeps the order it was made in, is
    hashable if its values are, and ``m | {...}`` is a changed one. A subclass of
    `dict`, because C code then takes it for one: `orjson` and `json` write it as
    it is, ``{**m}`` and `==` are as fast as a dict's. The price is that the methods
    of `dict` itself can also change it (``dict.__setitem__(m, ...)``), which
    nothing here does to a map that others have. Its `__init__` is a dict's,
    too, which makes one in a third of the time that a Python function takes:
    called once more, it adds to the map.

    >>> m = FrozenMap(a=1)
    >>> m | {"b": 2}, m == {"a": 1}
    ({'a': 1, 'b': 2}, True)
    """

    __slots__ = ("__weakref__", "_hash")

    _hash: int

    def _refuse_change(self, *_given: Any, **_items: Any) -> NoReturn:
        raise TypeError(
            f"{describe_type(self)} can't be changed; m | {{...}} is a changed copy, "
            "and dict(m) one that can be changed"
        )

    if not TYPE_CHECKING:  # to a type checker it is made, and is, as a dict
        __setitem__ = __delitem__ = __ior__ = __setstate__ = _refuse_change
        clear = pop = popitem = setdefault = update = _refuse_change

    def __hash__(self) -> int:  # type: ignore[override]  # a dict can't be hashed
        try:
            return self._hash
        except AttributeError:
            self._hash = number = hash(frozenset(self.items()))
            return number

    def __or__(self, other: Any) -> FrozenMap[Any, Any]:
        if not isinstance(other, Mapping):
            return NotImplemented

        return FrozenMap({**self, **other})

    def __copy__(self) -> FrozenMap[K, V]:
        return self

    copy = __copy__

    def __reduce__(self) -> Any:
        # So that `is EMPTY_MAP` holds for unpickled values.
        if self is EMPTY_MAP:
            return _NOTHING, ()

        return _MAKERS[type(self)], (dict(self),)


class JsonMap(FrozenMap[str, Any]):
    """
    A `FrozenMap` of JSON values that were checked and frozen all the way down.

    Made by `freeze_map` and `make_map` only: so code that gets one takes it without
    reading it.
    """

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> JsonMap:
        return self


class SortedJsonMap(JsonMap):
    """
    A `JsonMap` whose keys are in order, all the way down: equal ones are written
    as the same bytes.
    """

    __slots__ = ()


Frozen: TypeAlias = "JsonMap | tuple[Any, ...] | str | int | float | bool | None"

# The only empty one that values hold: ``is EMPTY_MAP`` asks whether a map is empty.
EMPTY_MAP: JsonMap = SortedJsonMap()
_NOTHING = Maker("EmptyMap", lambda: EMPTY_MAP)
_MAKERS = {
    kind: Maker(kind.__name__, kind) for kind in (FrozenMap, JsonMap, SortedJsonMap)
}

# Deep enough for any JSON Schema met so far, shallow enough for every parser
# that may have to read the value back.
MAX_LEVELS = 100
_LINE = 80
# What orjson writes, which refuses larger integers.
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_INFINITY = float("inf")


def check_iterable(values: object, what: str, expected: str) -> None:
    """
    Check that there are *values* to iterate over; *what* names them in the error.

    Raises:
        TypeError: If that is not so, as for one where a list is expected.
    """
    try:
        iter(values)  # type: ignore[call-overload]  # this is what is checked
    except TypeError:
        raise TypeError(
            f"{what}: expected {expected}, got {describe_value(values)}"
        ) from None


def check_list(values: object, what: str, expected: str) -> None:
    """As `check_iterable`; a text and a mapping are one thing, and not several."""
    if isinstance(values, (str, Mapping)):
        raise TypeError(f"{what}: expected {expected}, got {describe_value(values)}")

    check_iterable(values, what, expected)


def check_text(value: object, what: object, error: type[Exception] = ValueError) -> str:
    """
    *value* as a plain `str` of valid Unicode; *what* names it in the error.

    Raises:
        error:
            If it is not a `str`, or holds half of a surrogate pair, which no
            UTF-8 can carry.
    """
    if not isinstance(value, str):
        raise error(f"{what} is {shorten_repr(value, _LINE)}; expected a str")

    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as found:
            raise error(
                f"{what} holds {value[found.start]!a} at position {found.start}, "
                "half of a surrogate pair and no character; replace it, with U+FFFD say"
            ) from None

    # `str(value)` would be what a subclass says: an enum's name, for example.
    return value if value.__class__ is str else str.__str__(value)


def check_time(value: object, refuse: Callable[[str], Exception]) -> datetime | None:
    """
    *value*, an aware time with a fixed offset; or None.

    Raises:
        Exception: What *refuse* makes of the problem, if it is something else or has no
            time zone.
    """
    if value is None:
        return None

    import datetime as dt  # noqa: PLC0415 - slow; imported already where needed

    if not isinstance(value, dt.datetime):
        problem = f"is {shorten_repr(value)}; expected an aware datetime or None"
        raise refuse(problem)

    offset = value.utcoffset()
    if offset is None:
        problem = (
            f"is {shorten_repr(value)}, which has no time zone; "
            "datetime.now(timezone.utc) has one"
        )
        raise refuse(problem)

    zone = value.tzinfo
    if type(value) is dt.datetime and type(zone) is dt.timezone and not value.fold:
        return value

    # Only the offset is kept: it is what is written, and named zones compare in
    # surprising ways where clocks are set back.
    time = value.time().replace(fold=0)
    return dt.datetime.combine(value.date(), time, dt.timezone(offset))


def freeze(value: object, what: str, error: type[Exception] = ValueError) -> Frozen:
    """
    *value* as an immutable JSON value, the keys of maps in it sorted; *what* names
    it in the error.

    O(size of the value).

    Raises:
        error:
            If JSON can't hold it: a number that is not finite or needs more
            than 64 bits, a key that is not text, a surrogate, a type JSON
            can't represent, or more than 100 levels. The message says where.
    """
    return _freeze_value(value, what, error, 0, SortedJsonMap)  # type: ignore[no-any-return]


def freeze_map(
    value: object,
    what: str,
    error: type[Exception] = ValueError,
    *,
    keep_order: bool = False,
) -> JsonMap:
    """
    The same for a mapping, which *value* must be; in the order it has if
    *keep_order*. O(1) if it is such a map already.
    """
    kind = JsonMap if keep_order else SortedJsonMap
    # Dicts are recognised before an abstract class is asked, which is slow.
    if value.__class__ is not dict:
        if isinstance(value, kind):
            return value or EMPTY_MAP

        if not isinstance(value, Mapping):
            shown = shorten_repr(value, _LINE)
            raise error(
                f"{what} is {shown}; expected a mapping of names to JSON values"
            )

    mapping: Any = value
    return _freeze_map(mapping, what, error, 0, kind) if mapping else EMPTY_MAP


def make_map(items: dict[str, Any], kind: type[JsonMap] = SortedJsonMap) -> JsonMap:
    if not items:
        return EMPTY_MAP

    if kind is SortedJsonMap:
        items = {name: items[name] for name in sorted(items)}

    return kind(items)


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
        raise error(
            f"{owner}.unknown has {shorten_repr(name)}, a field this version knows"
        )


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
            keep_order = field == "unknown"
            what = f"{owner}.{field}"
            frozen = freeze_map(given, what, error, keep_order=keep_order)
            object.__setattr__(value, field, frozen)

    check_unknown(owner, {*own} - {"unknown"}, value.unknown, error)


def is_same_json(a: Any, b: Any) -> bool:
    """
    Whether two frozen JSON values are written alike: equal, and of one type
    all the way down. ``1 == 1.0 == True`` are three.
    """
    if a.__class__ is not b.__class__ or a != b:
        return False

    if isinstance(a, FrozenMap):
        return all(is_same_json(item, b[key]) for key, item in a.items())

    return not isinstance(a, tuple) or all(map(is_same_json, a, b))


class _LazyPath:
    """
    Where in a value something is, computed only if something is wrong there.

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

        return self._before + shorten_path("".join([str(at), *reversed(steps)]))


def _freeze_value(
    value: Any, at: Any, error: type[Exception], depth: int, kind: type[JsonMap]
) -> Any:
    # *value* frozen, maps in it as *kind*; *at* is what names it, or the place it is in
    # and its key.
    if value is None or value.__class__ is bool:
        return value

    if isinstance(value, str):
        plain = value.__class__ is str and value.isascii()
        return value if plain else check_text(value, _LazyPath(at), error)

    if isinstance(value, int):
        # `int.__int__` ignores what a subclass overrides, such as an enum.
        number = value if value.__class__ is int else int.__int__(value)
        if _MIN_INT <= number <= _MAX_INT:
            return number

        raise error(
            f"{_LazyPath(at)} is an integer that does not fit in 64 bits; "
            "make it a text"
        )

    if isinstance(value, float):
        real = value if value.__class__ is float else float.__float__(value)
        if -_INFINITY < real < _INFINITY:  # neither is NaN
            return real

        raise error(
            f"{_LazyPath(at)} is {shorten_repr(value)}, which JSON can't represent"
        )

    if depth == MAX_LEVELS:
        raise error(f"{_LazyPath(at)} is nested more than {MAX_LEVELS} levels deep")

    # A map that was checked before is walked again, because it is nested more deeply
    # here.
    if value.__class__ is dict or isinstance(value, Mapping):
        return _freeze_map(value, at, error, depth, kind)

    if isinstance(value, (list, tuple)):
        return tuple(
            [
                item
                if (item.__class__ is str and item.isascii())
                or (item.__class__ is float and -_INFINITY < item < _INFINITY)
                else _freeze_value(item, (at, i), error, depth + 1, kind)
                for i, item in enumerate(value)
            ]
        )

    raise error(
        f"{_LazyPath(at)} is {shorten_repr(value, _LINE)}, which JSON can't represent"
    )


def _freeze_map(
    value: Mapping[Any, Any],
    at: Any,
    error: type[Exception],
    depth: int,
    kind: type[JsonMap],
) -> JsonMap:
    frozen: dict[str, Any] = {}
    last = ""
    is_sorted = True
    for key, item in value.items():
        name = key
        if key.__class__ is not str or not key.isascii():
            name = _check_key(key, at, error)

        if name < last:
            is_sorted = False

        last = name
        # Nearly all are plain text, and a call takes longer than the rest here.
        if item.__class__ is str and item.isascii():
            frozen[name] = item
        else:
            frozen[name] = _freeze_value(item, (at, name), error, depth + 1, kind)

    if not frozen:
        return EMPTY_MAP

    if not is_sorted and kind is SortedJsonMap:
        frozen = {name: frozen[name] for name in sorted(frozen)}

    return kind(frozen)


def _check_key(key: Any, at: Any, error: type[Exception]) -> str:
    if not isinstance(key, str):
        shown = shorten_repr(key, _LINE)
        raise error(f"{_LazyPath(at)} has the key {shown}; keys of JSON are text")

    return check_text(key, _LazyPath(at, "a key of "), error)


def thaw(value: Any) -> Any:
    """
    A frozen JSON value as plain dicts and lists, in the order its keys have.

    Always a fresh copy: changing it changes nothing else.
    """
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}

    if isinstance(value, (tuple, list)):
        return [thaw(item) for item in value]

    return value
