"""
Users' own types, by cattrs: what `parse` makes, and registered classes.

cattrs makes the values; the hooks here make it strict, because cattrs itself calls
``int("5")`` and takes a text for a list of letters.

Imported only where it is needed: cattrs takes 50 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import fields as fields_of_dataclass
from dataclasses import is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from itertools import count, repeat
from math import isfinite
from pathlib import Path, PurePath
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NoReturn,
    TypeAlias,
    Union,
    get_args,
    get_origin,
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
from cattrs.disambiguators import create_default_dis_func
from cattrs.gen import make_dict_structure_fn, override
from cattrs.gen.typeddicts import make_dict_structure_fn as make_typed_dict_fn

from conversation_state._canonical import (
    JsonPath,
    describe_json,
    dump,
    is_loadable,
    load,
)
from conversation_state._persistent import check_text
from conversation_state._wording import format_count, shorten_repr, with_article
from conversation_state.codec import _kinds
from conversation_state.codec._format import (
    format_base64,
    format_time,
    parse_base64,
    parse_uuid,
)
from conversation_state.codec._reader import CodecReader, Problems, Read
from conversation_state.errors import DecodeError

# cattrs' kind of hook: of the plain value, and the type.
_Hook: TypeAlias = "Callable[[Any, Any], Any]"


def structurer(kind: Any) -> Callable[[Any, JsonPath], Any]:
    """A function that converts a plain JSON value, which has that path, to *kind*."""
    kind = NoneType if kind is None else kind
    hook = _find_hook(kind, f"can't read {_name(kind)} from JSON")

    def read(raw: Any, path: JsonPath) -> Any:
        problems = Problems()
        value, cause = _read(hook, raw, kind, path, problems)
        if problems.count:
            raise problems.error() from cause

        return value

    return read


def check_class(cls: type) -> None:
    """Raise a TypeError if *cls* can't be registered."""
    if not isinstance(cls, type) or not _has_fields(cls):
        raise TypeError(
            f"{shorten_repr(cls)} is neither an attrs class nor a dataclass"
        )

    _find_hook(cls, f"can't register {cls.__name__}", is_closed=True)


def read_class(cls: type) -> Read:
    """How to read a registered class; unknown keys are problems."""

    def read(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
        reader.has_foreign_json = True
        hook = _find_hook(cls, "", is_closed=True)
        return _read(hook, raw, cls, path, reader.problems)[0]

    return read


def write_instance(value: Any) -> Any:
    """
    An instance of a registered class as plain JSON values.

    It is read back before it is returned: what can't be decoded must not be saved.
    """
    cls, raw, problems = type(value), load(dump(_make_plain(value))), Problems()
    hook = _find_hook(cls, "", is_closed=True)
    made, cause = _read(hook, raw, cls, None, problems)
    if problems.count:
        msg = f"can't encode this {cls.__name__}, it could not be decoded: "
        raise ValueError(msg + str(problems.error())) from cause

    if made != value:
        raise ValueError(
            f"can't encode {shorten_repr(value)}: it would be decoded as "
            f"{shorten_repr(made)}, which is not equal; declare each field as the "
            "type of what it holds, and let the class compare by its fields"
        )

    return raw


# Errors


class _MismatchError(Exception):
    """A value of another JSON type than the one that is expected."""


def _refuse(expected: str, raw: Any) -> NoReturn:
    raise _MismatchError(f"expected {expected}, got {describe_json(raw)}")


def _read(
    hook: _Hook, raw: Any, kind: Any, path: JsonPath, problems: Problems
) -> tuple[Any, Exception | None]:
    """What *hook* makes, or problems, and the first error of a user's class."""
    token = _errors_left.set(_MAX_ERRORS)
    try:
        return hook(raw, kind), None
    except Exception as error:  # noqa: BLE001 - any of a class's own checks
        return None, _add_problems(problems, error, path)
    finally:
        _errors_left.reset(token)


def _add_problems(
    problems: Problems, error: Exception, path: JsonPath
) -> Exception | None:
    """Add what *error*, of cattrs or of a user's class, says of the value at *path*."""
    raised = None
    # A list is used instead of recursion: errors are nested as deeply as the value.
    left: list[tuple[Exception, JsonPath]] = [(error, path)]
    while left:
        error, path = left.pop()
        if isinstance(error, (ClassValidationError, IterableValidationError)):
            noted, others = error.group_exceptions()
            inside = [(each, (path, _key(error.cl, note))) for each, note in noted]
            left += reversed([*inside, *[(each, path) for each in others]])
        elif isinstance(error, ForbiddenExtraKeysError):
            for name in sorted(error.extra_fields):
                problems.add((path, name), "unknown field")
        elif isinstance(error, DecodeError):  # of a value of ours
            for problem in error.problems:
                problems.add(path, problem.what, inside=problem.path[1:])
        elif isinstance(error, KeyError) and path and error.args == (path[1],):
            problems.add(path, "missing")
        elif isinstance(error, RecursionError):
            problems.add(path, "nested too deeply")
        elif isinstance(error, _MismatchError):
            problems.add(path, str(error))
        else:
            problems.add(path, _text_of(error))
            raised = raised or error

    return raised


def _key(cls: Any, note: Any) -> Any:
    """The key that *note* is about; a field may have another name in JSON."""
    if not isinstance(note, AttributeValidationNote):
        return note.index

    return _names_of(get_origin(cls) or cls).get(note.name, note.name)


def _text_of(error: Exception) -> str:
    # The validators of attrs have the field and the value, of any length, after it.
    return str(*error.args[:1])[:200] or type(error).__name__


def _name(kind: Any) -> str:
    is_plain = isinstance(kind, type) and not get_args(kind)
    return kind.__name__ if is_plain else shorten_repr(kind, 200)


# Hooks


def _find_hook(kind: Any, failed: str, *, is_closed: bool = False) -> _Hook:
    try:
        return _get_converter(is_closed=is_closed).get_structure_hook(kind)
    except StructureHandlerNotFoundError as error:
        inner = "" if error.type_ is kind else f", nor {_name(error.type_)} in it"
        raise TypeError(f"{failed}{inner}: {_text_of(error)}") from None
    except Exception as error:  # whatever looking at annotations raises
        # Of what annotations raise; a repr of a caller's may raise anything.
        is_clear = isinstance(error, (TypeError, NameError, AttributeError))
        why = f": {_text_of(error)}" if is_clear else ""
        raise TypeError(f"{failed}{why}") from error


@cache
def _get_converter(*, is_closed: bool) -> Converter:
    """The converter; *is_closed*: unknown keys are problems, else they are left out."""
    converter = Converter(forbid_extra_keys=is_closed)
    for is_it, make in (
        (lambda kind: _has_fields(kind) or is_typeddict(kind), _make_class_hook),
        (lambda kind: _bare(kind) in _ARRAYS, _make_array_hook),
        (lambda kind: _bare(kind) in (dict, Mapping), _make_map_hook),
        (lambda kind: _bare(kind) is Literal, _make_literal_hook),
        (lambda kind: _bare(kind) in (Union, UnionType), _make_union_hook),
        (lambda kind: _find_own(kind) is not None, _make_own_hook),
        (lambda kind: kind is object, lambda _, __: lambda raw, _: raw),
        (lambda kind: kind is NoneType, lambda _, __: _read_null),
    ):
        converter.register_structure_hook_factory(is_it, partial(make, converter))

    # By class, because cattrs has hooks of its own for some of these.
    for base in _SCALARS:
        converter.register_structure_hook(base, partial(_read_scalar, base))

    converter.register_structure_hook(Enum, _read_enum)
    return converter


def _bare(kind: Any) -> Any:
    return get_origin(kind) or kind


# Scalars


def _read_null(raw: Any, _: Any) -> None:
    if raw is not None:
        _refuse("null", raw)


def _read_scalar(base: type, raw: Any, kind: Any) -> Any:
    if issubclass(kind, Enum):  # such as a StrEnum
        return _read_enum(raw, kind)

    expected, types, convert = _SCALARS[base]
    if type(raw) in types:
        # An ArithmeticError is a number beyond what a float or a Decimal can be.
        with suppress(ValueError, ArithmeticError):
            value = convert(raw)
            return value if kind is base else kind(value)

    return _refuse(expected, raw)


def _convert_integer(raw: float) -> int:
    # In JSON Schema 5.0 is an integer, and some models write it. Beyond 2**53 a float
    # may stand for other integers than the one that was written.
    if type(raw) is float and not (raw.is_integer() and abs(raw) <= 2**53):
        raise ValueError("has a fraction, or is too large")

    return int(raw)


def _convert_decimal(raw: Any) -> Decimal:
    # By its text: `Decimal(0.1)` has all 55 digits of that float.
    text = raw if type(raw) is str else repr(raw)
    # Decimal itself also takes NaN, Infinity, underscores and spaces.
    if not re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", text, re.ASCII):
        raise ValueError("not a number")

    return Decimal(text)


# What is expected, the types in JSON, and what converts values of these.
_SCALARS: dict[type, tuple[str, tuple[type, ...], Callable[[Any], Any]]] = {
    bool: ("true or false", (bool,), bool),
    int: ("an integer", (int, float), _convert_integer),
    float: ("a number", (int, float), float),
    str: ("a text", (str,), str),
    UUID: ("a UUID", (str,), parse_uuid),
    date: ("a date, like 2025-12-31", (str,), date.fromisoformat),
    datetime: ("a time, like 2025-12-31T23:59:59Z", (str,), datetime.fromisoformat),
    time: ("a time of day, like 23:59:59", (str,), time.fromisoformat),
    Decimal: ("a number, or a text of one", (int, float, str), _convert_decimal),
    bytes: ("a text that is base64", (str,), parse_base64),
    Path: ("a text that is a path", (str,), Path),
}


def _read_enum(raw: Any, kind: Any) -> Any:
    return _choose(raw, {each: each.value for each in kind})


def _make_literal_hook(_: Converter, kind: Any) -> _Hook:
    choices = {a: a.value if isinstance(a, Enum) else a for a in get_args(kind)}
    return lambda raw, _: _choose(raw, choices)


def _choose(raw: Any, choices: Mapping[Any, Any]) -> Any:
    for value, plain in choices.items():
        if type(raw) is type(plain) and raw == plain:  # `True == 1`, and `1.0 == 1`
            return value

    words = ", ".join(map(describe_json, choices.values()))
    return _refuse(f"{'one of ' * (len(choices) > 1)}{words}"[:200], raw)


# Arrays and maps

_ARRAYS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    Sequence: list,
    tuple: tuple,
    set: set,
    AbstractSet: set,
    frozenset: frozenset,
}
_MAX_ERRORS = 100
# How many more errors are listed. Hostile JSON may hold millions of invalid items, and
# each error takes a kilobyte.
_errors_left: ContextVar[int] = ContextVar("errors_left", default=_MAX_ERRORS)


def _read_items(items: Iterable[tuple[Any, Any, _Hook, Any]], kind: Any) -> list[Any]:
    """The items, of their steps, raw values, hooks and types; or their errors."""
    made: list[Any] = []
    errors: list[Exception] = []
    for step, raw, hook, item in items:
        try:
            made.append(hook(raw, item))
        except Exception as error:  # noqa: BLE001 - any of a class's own checks
            # As cattrs does: `group_exceptions` finds the step in such a note.
            notes = getattr(error, "__notes__", [])
            error.__notes__ = [*notes, IterableValidationNote("item", step, item)]
            errors.append(error)
            _errors_left.set(_errors_left.get() - 1)
            if _errors_left.get() <= 0:
                break

    if errors:
        raise IterableValidationError("items", errors, kind)  # pyright: ignore[reportCallIssue] - their `__new__` takes three

    return made


def _make_array_hook(converter: Converter, kind: Any) -> _Hook:
    make, kinds = _ARRAYS[_bare(kind)], get_args(kind)
    is_fixed = make is tuple and kind is not tuple and kinds[1:] != (...,)
    kinds = kinds if is_fixed else (*kinds, Any)[:1]
    hooks = [converter.get_structure_hook(each) for each in kinds]

    def read(raw: Any, kind: Any) -> Any:
        if type(raw) is not list:
            _refuse("an array", raw)

        if not is_fixed:
            items = zip(count(), raw, repeat(hooks[0]), repeat(kinds[0]))
        elif len(raw) == len(kinds):
            items = zip(count(), raw, hooks, kinds)
        else:
            what = f"expected an array of {format_count(len(kinds), 'item')}"
            raise _MismatchError(f"{what}, got one of {len(raw)}")

        return make(_read_items(items, kind))

    return read


def _make_map_hook(converter: Converter, kind: Any) -> _Hook:
    key, item = get_args(kind) or (str, Any)
    hook, read_item = map(converter.get_structure_hook, (key, item))

    def read_key(text: str, kind: Any) -> Any:
        try:
            return hook(text, kind)
        except _MismatchError:  # keys in JSON are texts; Python reads 4,300 digits
            if not re.fullmatch(r"-?(0|[1-9]\d{0,4000})", text, re.ASCII):
                raise

        return hook(int(text), kind)

    def read(raw: Any, kind: Any) -> Any:
        if type(raw) is not dict:
            _refuse("an object", raw)

        values = _read_items(((k, v, read_item, item) for k, v in raw.items()), kind)
        keys = _read_items(((k, k, read_key, key) for k in raw), kind)
        made = dict(zip(keys, values, strict=True))
        if len(made) < len(raw):
            raise _MismatchError("expected different keys, got some that are the same")

        return made

    return read


# Classes


def _has_fields(kind: Any) -> bool:
    cls = _bare(kind)
    return isinstance(cls, type) and (attrs.has(cls) or is_dataclass(cls))


def _names_of(cls: Any) -> dict[str, str]:
    """The keys in JSON of the fields that `__init__` takes, by the fields' names."""
    if attrs.has(cls):
        return {each.name: each.alias for each in attrs.fields(cls) if each.init}

    fields = fields_of_dataclass(cls) if is_dataclass(cls) else ()
    return {each.name: each.name for each in fields if each.init}


def _make_class_hook(converter: Converter, kind: Any) -> _Hook:
    """Objects of a class with fields, or of a TypedDict, which keeps unknown keys."""
    if attrs.has(_bare(kind)):
        attrs.resolve_types(_bare(kind))

    names = _names_of(_bare(kind))
    make: Any = make_typed_dict_fn if is_typeddict(kind) else make_dict_structure_fn
    hook = make(
        kind,
        converter,
        _cattrs_forbid_extra_keys=converter.forbid_extra_keys,
        **{name: override(rename=key) for name, key in names.items()},
    )

    def read(raw: Any, kind: Any) -> Any:
        return hook(raw, kind) if type(raw) is dict else _refuse("an object", raw)

    # Where cattrs looks for other names of keys when it chooses a member of a union.
    read.overrides = getattr(hook, "overrides", {})  # type: ignore[attr-defined]
    return read


def _find_own(kind: Any) -> Read | None:
    """How to read *kind*, if it is a class of this library."""
    cls = _bare(kind)
    for own, read in _kinds.READS.values():
        # A tuple of messages is a tuple like others.
        if own is not tuple and isinstance(cls, type) and issubclass(cls, own):
            return read

    return None


def _make_own_hook(_: Converter, kind: Any) -> _Hook:
    read: Any = _find_own(kind)
    cls = _bare(kind)

    def read_own(raw: Any, _: Any) -> Any:
        reader = CodecReader(kinds=_kinds.READS, is_plain=is_loadable(raw))
        value = read(reader, raw, None)
        if reader.problems.count:
            raise reader.problems.error()

        if isinstance(value, cls):
            return value

        raise _MismatchError(f"expected {cls.__name__}, got {type(value).__name__}")

    return read_own


def _make_union_hook(converter: Converter, union: Any) -> _Hook:
    """
    A union of types that JSON has, whose values are taken as they are, and of one
    other type, or of classes that cattrs can tell apart: by a field without a default
    or a Literal that no other one has.
    """
    kinds = [kind for kind in get_args(union) if kind is not NoneType]
    plain = [kind for kind in (int, float, bool, str) if kind in kinds[1:] + kinds[:-1]]
    others = [kind for kind in kinds if kind not in plain]
    choose: Any = None
    if others[1:]:
        if not all(_has_fields(kind) and _find_own(kind) is None for kind in others):
            msg = "the members of this union can't be distinguished in JSON"
            raise StructureHandlerNotFoundError(msg, union)

        choose = create_default_dis_func(converter, *others)

    # Here, so that a type that can't be read is an error before anything is read.
    hooks = {kind: converter.get_structure_hook(kind) for kind in others}
    expected = [*[_SCALARS[kind][0] for kind in plain], *map(_name, others)]

    def read(raw: Any, _: Any) -> Any:
        if raw is None and len(kinds) < len(get_args(union)):
            return None

        if type(raw) in plain:
            return raw

        if type(raw) is int and float in plain:
            return float(raw)

        try:
            kind = choose(raw) if choose else others[0]
        except (IndexError, KeyError, TypeError, ValueError):
            _refuse(" or ".join(expected), raw)

        hook = hooks.get(kind) or converter.get_structure_hook(kind)
        return hook(raw, kind)

    return read


# Writing

# orjson writes no more than 254, and a document has some around a value.
_MAX_LEVELS = 240

_AS_TEXT: dict[type, Callable[[Any], str]] = {
    datetime: format_time,
    date: date.isoformat,
    time: time.isoformat,
    UUID: str,
    Decimal: str,
    PurePath: str,
    bytes: format_base64,
}


def _make_plain(value: Any, level: int = 0) -> Any:
    """*value* as values for orjson. Deterministic: sets are sorted by their JSON."""
    if level > _MAX_LEVELS:
        raise ValueError(f"it holds itself, or more than {_MAX_LEVELS} levels")

    value, inside = value.value if isinstance(value, Enum) else value, level + 1
    cls = type(value)
    if cls in _kinds.WRITES and cls not in (list, tuple):
        return _kinds.WRITES[cls][1](value)

    if value is None or isinstance(value, (bool, int, float, str)):
        return _check_scalar(value)

    if _has_fields(cls):
        names = _names_of(cls)
        return {names[n]: _make_plain(getattr(value, n), inside) for n in names}

    if isinstance(value, Mapping):
        return {_make_key(k): _make_plain(v, inside) for k, v in value.items()}

    if isinstance(value, (AbstractSet, Sequence)) and not isinstance(value, bytes):
        items = [_make_plain(item, inside) for item in value]
        return sorted(items, key=dump) if isinstance(value, AbstractSet) else items

    for kind, text_of in _AS_TEXT.items():
        if isinstance(value, kind):
            return text_of(value)

    raise TypeError(f"can't write {with_article(cls.__name__)} as JSON")


def _check_scalar(value: str | float | None) -> str | float | None:
    if isinstance(value, str):
        return check_text(value, "a text in it")

    is_float = isinstance(value, float)
    if value is None or (isfinite(value) if is_float else -(2**63) <= value < 2**64):
        return value

    raise ValueError(f"JSON can't represent {shorten_repr(value)} in 64 bits")


def _make_key(key: Any) -> str:
    plain = _make_plain(key)
    if isinstance(plain, int) and not isinstance(plain, bool):
        return str(int(plain))

    if isinstance(plain, str):
        return plain

    raise TypeError(f"can't write {shorten_repr(key)} as a key; keys of JSON are texts")
