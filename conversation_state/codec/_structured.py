"""
Any type of users' own: plain JSON values made into it, strictly.

What lives here: how texts, numbers, arrays, objects and unions of them become
what a type says, and how what cattrs finds wrong becomes problems with paths.
What does not: finding the JSON (`parsing`), and classes that are written, too
(`_registered`).
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
    Set,
)
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import fields as fields_of_dataclass
from dataclasses import is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NewType,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

import attrs
from cattrs import (
    AttributeValidationNote,
    ClassValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
    StructureHandlerNotFoundError,
)
from cattrs.cols import namedtuple_dict_structure_factory
from cattrs.gen import make_dict_structure_fn, override
from cattrs.gen.typeddicts import make_dict_structure_fn as make_typeddict_structure_fn

from conversation_state.codec import _in
from conversation_state.codec._problems import At, Problems, shown
from conversation_state.codec._reading import Read, Reader
from conversation_state.codec._wire import bytes_of, uuid_of
from conversation_state.errors import DecodeError

__all__ = ["Found", "Structure", "found", "has_fields", "of_ours", "structurer"]

# Makes a value of a plain JSON value at a place.
Structure: TypeAlias = "Callable[[Any, At], Any]"

# cattrs' kind of hook: the plain value, and the type.
_Hook: TypeAlias = "Callable[[Any, Any], Any]"

_MOST_NOTED = 100
_MOST_WORDS = 200
_MOST_NAMED = 10
_MOST_EXACT = 2**53


def structurer(kind: Any) -> Structure:
    """
    What makes a value of type *kind* of a plain JSON value, or raises
    `DecodeError` with all that is wrong; it chains what a user's class raised.

    Raises:
        TypeError:
            If nobody knows how to read *kind*, or something it is made of.
    """
    kind = NoneType if kind is None else kind
    try:
        hook: _Hook = _converter().get_structure_hook(kind)
    except StructureHandlerNotFoundError as error:
        inner = "" if error.type_ is kind else f", nor {_named(error.type_)} in it"
        msg = f"can't read {_named(kind)} from JSON{inner}: {error}"
        raise TypeError(msg) from None
    except Exception as error:  # whatever looking at annotations raises
        msg = f"can't read {_named(kind)} from JSON: {_words(error)}"
        raise TypeError(msg) from error

    def read(raw: Any, at: At) -> Any:
        token = _READING.set(_Reading())
        try:
            return hook(raw, kind)
        except Exception as error:  # noqa: BLE001 - whatever a user's own checks raise
            wrong = error
        finally:
            _READING.reset(token)

        problems, cause = Problems(), None
        for where, what, inside, raised in found(wrong, at):
            problems.add(where, what, inside=inside)
            cause = cause or raised

        raise problems.error() from cause

    return read


# What is wrong


class Found(NamedTuple):
    """
    One thing wrong.

    Attributes:
        at: Where.

        what: What.

        inside: The path inside of there.

        raised: What a user's own class raised, if it was that.
    """

    at: At
    what: str
    inside: str = ""
    raised: Exception | None = None


class _Misfit(Exception):  # noqa: N818 - it says what is the case
    """
    A value that this type has no place for, though another one may.
    """

    def __init__(self, expected: str, got: str, *, is_tag: bool = False) -> None:
        super().__init__(expected, got)
        self.expected = expected
        self.got = got
        self.is_tag = is_tag

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}"


class _Closest(Exception):  # noqa: N818 - it says what is the case
    """
    What is wrong with a value as the likeliest member of a union.
    """

    def __init__(self, name: str, wrong: Exception) -> None:
        super().__init__(name, wrong)
        self.name = name
        self.wrong = wrong


def found(error: Exception, at: At) -> Iterator[Found]:
    """
    All that is wrong according to an error of cattrs or of a user's class.
    """
    left: list[tuple[Exception, At, str]] = [(error, at, "")]
    while left:
        error, at, as_what = left.pop()
        if isinstance(error, _Closest):
            left.append((error.wrong, at, error.name))
        elif isinstance(error, (ClassValidationError, IterableValidationError)):
            noted, others = error.group_exceptions()
            inner = [(each, at, as_what) for each in others]
            for each, note in noted:
                step = (
                    _key_of(error.cl, note.name)
                    if isinstance(note, AttributeValidationNote)
                    else note.index
                )
                inner.append((each, (at, step), as_what))

            left += reversed(inner)
        else:
            for where, what, inside, raised in _leaf(error, at):
                what_as = f"{what} (read as {as_what})" if as_what else what
                yield Found(where, what_as, inside, raised)


def _leaf(error: Exception, at: At) -> Iterator[Found]:
    if isinstance(error, ForbiddenExtraKeysError):
        for name in sorted(error.extra_fields):
            yield Found((at, name), "unknown field")
    elif isinstance(error, DecodeError):
        for problem in error.problems:
            yield Found(at, problem.what, problem.path[1:])
    elif isinstance(error, KeyError) and at and error.args == (at[1],):
        yield Found(at, "missing")
    elif isinstance(error, RecursionError):
        yield Found(at, "nested too deeply")
    elif isinstance(error, _Misfit):
        yield Found(at, str(error))
    else:
        named = error.args[1] if len(error.args) > 1 else None
        if isinstance(named, attrs.Attribute):  # a validator of attrs' own
            at = (at, named.alias or named.name)

        yield Found(at, _words(error), raised=error)


def _words(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    words = ""
    with suppress(Exception):  # a user's `__str__` may fail, too
        words = first if type(first) is str and len(error.args) > 1 else str(error)

    return words[:_MOST_WORDS] or type(error).__name__


def _key_of(cls: Any, name: str) -> str:
    """
    What JSON calls the field *name* of *cls*: as its `__init__` does.
    """
    origin = get_origin(cls) or cls
    if name and attrs.has(origin):
        field = attrs.fields_dict(origin).get(name)
        return (field and field.alias) or name

    return name


def _named(kind: Any) -> str:
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__

    return repr(kind)[:_MOST_WORDS]


# One reading


class _Reading:
    """
    One value being read.

    Attributes:
        known: What unions made of arrays and objects so far. Classes in a
            union may hold that union again: without this, time would double
            with every level.

        count: How many items were wrong, except in what is tried only.
    """

    __slots__ = ("count", "known")

    count: int
    known: dict[tuple[int, Any], tuple[Any, Exception | None]]

    def __init__(self) -> None:
        self.count = 0
        self.known = {}


_READING: ContextVar[_Reading] = ContextVar("_READING")


# Types


@cache
def _converter() -> Converter:
    made = Converter(detailed_validation=True)
    made.register_structure_hook_factory(lambda _: True, partial(_hook, made))
    for kind in _SCALARS:
        made.register_structure_hook(kind, partial(_scalar, kind))

    return made


def _hook(converter: Converter, kind: Any) -> _Hook:
    """
    What reads values of *kind*, which is no scalar.
    """
    if kind is Any or kind is object:
        return lambda raw, _: raw

    if kind is None or kind is NoneType:
        return _null

    base = _unwrapped(kind)
    if base is not None:
        hook = _later(converter, base)
        return lambda raw, _: hook(raw, base)

    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return _literal(args)

    if origin is Union or origin is UnionType:
        return _union(converter, kind, args)

    if not isinstance(origin, type):
        raise _unreadable(kind)

    if origin is tuple:
        return _tuple(converter, args)

    if origin in _ARRAYS:
        return _array(converter, _ARRAYS[origin], *args)

    if origin in _MAPS:
        return _map(converter, _MAPS[origin], *args)

    if issubclass(origin, Enum):
        return _enum

    for ours, read in _ours():
        if issubclass(origin, ours):
            return partial(of_ours, read)

    return _object(converter, kind, origin)


def _unreadable(kind: Any) -> StructureHandlerNotFoundError:
    msg = (
        "what can be read are attrs classes, dataclasses, TypedDict, NamedTuple, Enum, "
        "Literal, unions, list, tuple, set, dict, str, int, float, bool, None, Any, "
        f"{', '.join(each.__name__ for each in list(_SCALARS)[3:] if each is not str)}"
    )
    return StructureHandlerNotFoundError(msg, kind)


def _later(converter: Converter, kind: Any) -> _Hook:
    """
    What reads *kind*, which may be what is being made ready right now.
    """
    try:
        return converter.get_structure_hook(kind)
    except RecursionError:
        return converter.structure


def _unwrapped(kind: Any) -> Any:
    """
    What *kind* is another name of; None if it is not.
    """
    origin = get_origin(kind)
    if origin is Annotated:
        return kind.__origin__

    if origin is Final:
        return get_args(kind)[0]

    if isinstance(kind, NewType):
        return kind.__supertype__

    # Written `type Name = ...` from Python 3.12 on.
    alias = kind if origin is None else origin
    if type(alias).__name__ != "TypeAliasType":
        return None

    base = alias.__value__
    if origin is None:
        return base

    given = dict(zip(alias.__type_params__, get_args(kind), strict=True))
    used = getattr(base, "__parameters__", ())
    return base[tuple(given[each] for each in used)] if used else base


# Scalars


def _null(raw: Any, _: Any) -> None:
    if raw is not None:
        raise _Misfit("null", shown(raw))


def _scalar(base: type, raw: Any, kind: Any) -> Any:
    """
    A value of *base*, or of a subclass of it: *kind*.
    """
    if kind is not base and issubclass(kind, Enum):
        return _enum(raw, kind)

    what, convert = _SCALARS[base]
    with suppress(ValueError, OverflowError):
        made = convert(raw)
        if made is not None:
            return made if kind is base else kind(made)

    raise _Misfit(what, shown(raw))


def _of_text(convert: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda raw: convert(raw) if type(raw) is str else None


def _integer(raw: Any) -> int | None:
    if type(raw) is int:
        return raw

    # To JSON Schema 5.0 is an integer, and some models write it.
    if type(raw) is float and raw.is_integer() and abs(raw) <= _MOST_EXACT:
        return int(raw)

    return None


def _number(raw: Any) -> float | None:
    return float(raw) if type(raw) in (int, float) else None


_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def _decimal(raw: Any) -> Decimal | None:
    if type(raw) in (int, float):
        return Decimal(repr(raw))

    return Decimal(raw) if type(raw) is str and _DECIMAL.fullmatch(raw) else None


# Most telling first: of a union with several of them, that one takes a value.
_SCALARS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bool: ("true or false", lambda raw: raw if type(raw) is bool else None),
    int: ("an integer", _integer),
    float: ("a number", _number),
    UUID: ("a UUID", _of_text(uuid_of)),
    date: ("a date, like 2025-12-31", _of_text(date.fromisoformat)),
    datetime: ("a time, like 2025-12-31T23:59:59Z", _of_text(datetime.fromisoformat)),
    time: ("a time of day, like 23:59:59", _of_text(time.fromisoformat)),
    Decimal: ("a number, or a text of one", _decimal),
    str: ("a text", lambda raw: raw if type(raw) is str else None),
    bytes: ("a text that is base64", _of_text(bytes_of)),
    Path: ("a text that is a path", _of_text(Path)),
}


def _same(raw: Any, value: Any) -> bool:
    # `True == 1`, and `1.0 == 1`.
    return type(raw) is type(value) and bool(raw == value)


def _listed(values: Iterable[Any]) -> str:
    words = [shown(value) for value in values]
    if len(words) > _MOST_NAMED:
        words[_MOST_NAMED:] = [f"{len(words) - _MOST_NAMED} more"]

    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def _literal(values: tuple[Any, ...]) -> _Hook:
    known = [(v.value if isinstance(v, Enum) else v, v) for v in values]
    what = _listed(plain for plain, _ in known)

    def structure(raw: Any, _: Any) -> Any:
        for plain, value in known:
            if _same(raw, plain):
                return value

        raise _Misfit(what, shown(raw), is_tag=True)

    return structure


def _enum(raw: Any, kind: Any) -> Any:
    # Asked by calling it, for the class may know further names (`_missing_`).
    if any(type(each.value) is type(raw) for each in kind):
        with suppress(ValueError):
            return kind(raw)

    raise _Misfit(_listed(each.value for each in kind), shown(raw), is_tag=True)


# Arrays and maps


_ARRAYS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    Sequence: list,
    MutableSequence: list,
    Collection: list,
    Iterable: list,
    set: set,
    Set: set,
    MutableSet: set,
    frozenset: frozenset,
    deque: deque,
}

_MAPS: dict[Any, Callable[[Iterable[tuple[Any, Any]]], Any]] = {
    dict: dict,
    Mapping: dict,
    MutableMapping: dict,
    OrderedDict: OrderedDict,
}

# A place, the value there, how it is read, and as what.
_Item: TypeAlias = "tuple[int | str, Any, _Hook, Any]"


def _each(items: Iterable[_Item], kind: Any) -> list[Any]:
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
            reading = _READING.get()
            reading.count += 1
            if reading.count >= _MOST_NOTED:
                break

    if wrong:
        msg = "items"
        raise IterableValidationError(msg, wrong, kind)

    return made


def _note(error: Exception, step: int | str) -> None:
    notes = getattr(error, "__notes__", [])
    error.__notes__ = [*notes, IterableValidationNote("item", step, None)]


def _is_array(raw: Any) -> None:
    if type(raw) is not list:
        raise _Misfit("an array", shown(raw))


def _is_object(raw: Any) -> None:
    if type(raw) is not dict:
        raise _Misfit("an object", shown(raw))


def _array(
    converter: Converter, make: Callable[[list[Any]], Any], item: Any = Any
) -> _Hook:
    hook = _later(converter, item)

    def structure(raw: Any, kind: Any) -> Any:
        _is_array(raw)
        items = ((i, each, hook, item) for i, each in enumerate(raw))
        return make(_each(items, kind))

    return structure


def _tuple(converter: Converter, kinds: tuple[Any, ...]) -> _Hook:
    if not kinds or kinds[-1] is Ellipsis:
        return _array(converter, tuple, *kinds[:1])

    # What `tuple[()]` says of itself before Python 3.11 and since.
    kinds = () if kinds == ((),) else kinds
    hooks = [_later(converter, kind) for kind in kinds]

    def structure(raw: Any, kind: Any) -> Any:
        _is_array(raw)
        if len(raw) != len(kinds):
            what = f"an array of {len(kinds)} items"
            raise _Misfit(what, f"one of {len(raw)}")

        return tuple(_each(zip(range(len(raw)), raw, hooks, kinds, strict=True), kind))

    return structure


def _map(
    converter: Converter,
    make: Callable[[Iterable[tuple[Any, Any]]], Any],
    key: Any = str,
    value: Any = Any,
) -> _Hook:
    read_key, read_value = _key_reader(converter, key), _later(converter, value)

    def structure(raw: Any, kind: Any) -> Any:
        _is_object(raw)
        values = _each(((k, v, read_value, value) for k, v in raw.items()), kind)
        keys = _each(((k, k, read_key, key) for k in raw), kind)
        return make(zip(keys, values, strict=True))

    return structure


_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,4000})", re.ASCII)


def _key_reader(converter: Converter, key: Any) -> _Hook:
    """
    What reads a key: JSON has only texts there, integers' too.
    """
    hook, base = _later(converter, key), key
    while (inner := _unwrapped(base)) is not None:
        base = inner

    if not (isinstance(base, type) and issubclass(base, int)) or base is bool:
        return hook

    def structure(raw: Any, kind: Any) -> Any:
        return hook(int(raw) if _WHOLE.fullmatch(raw) else raw, kind)

    return structure


# Objects


def has_fields(cls: Any) -> bool:
    """
    Whether *cls* is an attrs class or a dataclass.
    """
    return attrs.has(cls) or is_dataclass(cls)


def _object(converter: Converter, kind: Any, origin: type) -> _Hook:
    if has_fields(origin):
        read = _class(converter, kind, origin)
    elif is_typeddict(origin):
        read = _typed_dict(converter, kind, origin)
    elif issubclass(origin, tuple) and _hinted(origin) >= _names(origin) != frozenset():
        return _named_tuple(converter, origin)
    else:
        raise _unreadable(kind)

    def structure(raw: Any, kind: Any) -> Any:
        _is_object(raw)
        return read(raw, kind)

    return structure


def _class(converter: Converter, kind: Any, origin: type) -> _Hook:
    renamed = {}
    if attrs.has(origin):
        attrs.resolve_types(origin)
        renamed = {
            field.name: override(rename=field.alias)
            for field in attrs.fields(origin)
            if field.init and field.alias != field.name
        }

    read: _Hook = make_dict_structure_fn(
        kind,
        converter,
        _cattrs_forbid_extra_keys=False,
        _cattrs_detailed_validation=True,
        **renamed,
    )
    return read


def _typed_dict(converter: Converter, kind: Any, origin: type) -> _Hook:
    read, names = make_typeddict_structure_fn(kind, converter), _names(origin)

    def structure(raw: Any, kind: Any) -> Any:
        made = read(raw, kind)
        # cattrs keeps what the type knows nothing of.
        return {name: value for name, value in made.items() if name in names}

    return structure


def _hinted(cls: type) -> frozenset[str]:
    return frozenset(get_type_hints(cls))


def _named_tuple(converter: Converter, cls: Any) -> _Hook:
    read = namedtuple_dict_structure_factory(cls, converter, True)  # noqa: FBT003 - theirs
    hints = get_type_hints(cls, include_extras=True)
    kinds = [hints[name] for name in cls._fields]
    hooks = [_later(converter, kind) for kind in kinds]
    least = len(kinds) - len(cls._field_defaults)

    def structure(raw: Any, kind: Any) -> Any:
        if type(raw) is dict:
            return read(raw, kind)

        # As `json.dumps` writes it.
        if type(raw) is not list:
            raise _Misfit("an object or an array", shown(raw))

        if not least <= len(raw) <= len(kinds):
            raise _Misfit(f"an array of {len(kinds)} items", f"one of {len(raw)}")

        items = zip(range(len(raw)), raw, hooks, kinds, strict=False)
        return cls(*_each(items, kind))

    return structure


def _ours() -> Iterator[tuple[type, Read]]:
    for cls, read in _in.READS.values():
        if cls is not tuple:  # a tuple of messages is a tuple like others
            yield cls, read


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

    raise _Misfit(kind.__name__, type(value).__name__)


# Unions


def _names(kind: Any) -> frozenset[str]:
    """
    The keys of objects that *kind* knows; none if it is no class of fields.
    """
    origin = get_origin(kind) or kind
    if attrs.has(origin):
        fields = attrs.fields(origin)
        return frozenset(f.alias or f.name for f in fields if f.init)

    if is_dataclass(origin):
        return frozenset(f.name for f in fields_of_dataclass(origin) if f.init)

    if is_typeddict(origin):
        return _hinted(origin)

    return frozenset(getattr(origin, "_fields", ()))


def _rank(kind: Any) -> tuple[Any, ...]:
    """
    How telling it is that a value is of *kind*, the most telling first.

    Unions have no order: ``int | str == str | int``, and who looks one up may
    get the other.
    """
    while (base := _unwrapped(kind)) is not None:
        kind = base

    origin, args = get_origin(kind) or kind, get_args(kind)
    group, place = 3, 0
    if origin is Literal or (isinstance(origin, type) and issubclass(origin, Enum)):
        group = 0
    elif origin in _SCALARS:
        group, place = 1, list(_SCALARS).index(origin)
    elif _names(origin):
        group = 2
    elif origin is Any or origin is object:
        group = 4

    return (group, place, *[_rank(arg) for arg in args if group == 3], repr(kind))  # noqa: PLR2004 - above


def _union(converter: Converter, union: Any, kinds: tuple[Any, ...]) -> _Hook:
    kinds = tuple(sorted((k for k in kinds if k is not NoneType), key=_rank))
    has_null = len(kinds) < len(get_args(union))
    members = [(kind, _later(converter, kind)) for kind in kinds]
    # What is 5.0 in JSON may be read as 5, but not where it may be 5.0.
    of_float = sorted(members, key=lambda member: member[0] is not float)

    def structure(raw: Any, _: Any) -> Any:
        if raw is None and has_null:
            return None

        known = _READING.get().known
        at = (id(raw), union)
        if type(raw) not in (dict, list):
            some = of_float if type(raw) is float else members
            made, wrong = _tried(some, raw, has_null=has_null)
        elif at in known:
            made, wrong = known[at]
        else:
            made, wrong = known[at] = _tried(members, raw, has_null=has_null)

        if wrong is not None:
            # Wrapped, for each who holds the union notes where on the error.
            msg = "union"
            raise _fresh(wrong) if isinstance(wrong, _Misfit) else (
                IterableValidationError(msg, [wrong], union)
            )

        return made

    return structure


def _fresh(error: _Misfit) -> _Misfit:
    return _Misfit(error.expected, error.got, is_tag=error.is_tag)


def _tried(
    members: list[tuple[Any, _Hook]], raw: Any, *, has_null: bool
) -> tuple[Any, Exception | None]:
    """
    The value that *raw* is as one of the members, or why it is none.
    """
    made: list[tuple[Any, Any]] = []
    wrong: list[tuple[Any, Exception]] = []
    reading = _READING.get()
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
        names = _names(kind)
        return len(names & raw.keys()), -len(names) if names else -_MOST_EXACT

    best = max(knows(kind) for kind, _ in made)
    equal = [(kind, value) for kind, value in made if knows(kind) == best]
    if len(equal) > 1 and _names(equal[0][0]):
        named = " and ".join(_named(kind) for kind, _ in equal)
        msg = (
            f"fits {named} alike; give each a field of another Literal type to tell "
            "them apart"
        )
        return None, ValueError(msg)

    return equal[0][1], None


def _likeliest(
    wrong: list[tuple[Any, Exception]], raw: Any, *, has_null: bool
) -> Exception:
    deeper = [(k, error) for k, error in wrong if not isinstance(error, _Misfit)]
    if not deeper:
        expected = [error.expected for _, error in wrong if isinstance(error, _Misfit)]
        expected += ["null"] if has_null else []
        got = shown(raw) if len(wrong) > 1 else wrong[0][1].args[1]
        return _Misfit(" or ".join(dict.fromkeys(expected)), got, is_tag=False)

    def closeness(one: tuple[Any, Exception]) -> tuple[bool, int, int]:
        kind, error = one
        inner = getattr(error, "exceptions", ())
        is_tagged = any(isinstance(each, _Misfit) and each.is_tag for each in inner)
        known = len(_names(kind) & raw.keys()) if type(raw) is dict else 0
        return not is_tagged, known, -sum(1 for _ in found(error, None))

    kind, error = max(deeper, key=closeness)
    return error if len(deeper) == 1 else _Closest(_named(kind), error)


