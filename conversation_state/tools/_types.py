"""
From types to JSON Schema.

What lives here: which types JSON has a word for, and what it is. What does not:
signatures (`_functions`).

msgspec makes schemas too, and is asked here for those of scalars and bounds.
For the rest it answers what its own decoder takes: no union of two classes, of
two lists, or of a text and a date; no enum of texts and numbers; an attrs
class by the names of its attributes instead of those its constructor takes,
``init=False`` included; and enums in sorted order.
"""

from __future__ import annotations

import re
import types
import typing
from collections import Counter, deque
from collections import abc as of
from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from inspect import Parameter, signature
from pathlib import PurePath
from types import SimpleNamespace
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

import attrs
import msgspec

from conversation_state._persistent import freeze
from conversation_state.errors import InvalidToolError
from conversation_state.tools._classes import (
    Variables,
    filled,
    has_fields,
    is_named_tuple,
    name_of,
    variables_of,
)
from conversation_state.tools._docstrings import of_class

__all__ = ["Schema", "Schemas", "with_words"]

Schema: TypeAlias = "dict[str, Any]"

_NONE: Variables = {}
_MOST = 5_000
_MOST_LEVELS = 50

# What each scalar is in JSON; of several, the first that a class is one of.
_PLAIN: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    types.NoneType: "null",
}
_TEXTS = (date, time, timedelta, Decimal, UUID)
_ANY_TUPLE = (tuple, typing.Tuple)  # noqa: UP006 - is not `tuple[()]`
_LISTS = (list, set, frozenset, tuple, deque)
_LISTS_ABSTRACT = (
    of.Collection,
    of.Iterable,
    of.MutableSequence,
    of.MutableSet,
    of.Sequence,
    of.Set,
)
_SETS = (set, frozenset, of.Set, of.MutableSet)
_MAPS_ABSTRACT = (of.Mapping, of.MutableMapping)
# Bounds that a msgspec.Meta sets are called differently for each.
_BOUNDED: dict[str, Any] = {
    "array": list[Any],
    "boolean": bool,
    "integer": int,
    "null": None,
    "number": float,
    "object": dict[str, Any],
    "string": str,
}
# What stands around a type and says nothing about its JSON.
_WRAPPERS = {"ClassVar", "Final", "NotRequired", "ReadOnly", "Required"}


class Schemas:
    """
    The schemas of the types in one signature.

    Everything is written out where it is used, for not every provider follows
    references; only what refers to itself is among the definitions.

    Attributes:
        definitions: What refers to itself, by name.
    """

    def __init__(self, function: str) -> None:
        self.definitions: dict[str, Schema] = {}
        self._function = function
        self._depth = 0
        self._left = _MOST
        self._open: list[Any] = []
        self._names: list[tuple[Any, str]] = []  # a type need not be hashable

    def of(self, kind: Any, at: str, variables: Variables = _NONE) -> Schema:
        """
        The schema of *kind*; *at* says where it is.

        Raises:
            InvalidToolError:
                If JSON has no word for it.
        """
        self._left -= 1
        if self._left < 0 or self._depth == _MOST_LEVELS:
            what = f"has more than {_MOST:,} parts"
            if self._left >= 0:
                what = f"is more than {_MOST_LEVELS} levels deep"

            msg = (
                f"can't describe {self._function}: its schema {what} at {at:.60}; take "
                "something simpler, or leave the parameter out (without=...)"
            )
            raise InvalidToolError(msg)

        self._depth += 1
        try:
            return self._of(kind, at, variables)
        finally:
            self._depth -= 1

    def written(self, kind: Any, at: str) -> Schema:
        """
        The schema of *kind* itself, also if it refers to itself.
        """
        schema = self.of(kind, at)
        name = schema.get("$ref", "").rpartition("/")[2]
        return self.definitions[name] if name else schema

    def _of(self, kind: Any, at: str, variables: Variables) -> Schema:
        kind = filled(kind, variables)
        if kind is Any or kind is object or kind is Parameter.empty:
            return {}

        if kind is None:
            return {"type": "null"}

        if isinstance(kind, TypeVar):
            return self._of_variable(kind, at, variables)

        if isinstance(kind, InitVar):
            return self.of(kind.type, at, variables)

        if isinstance(kind, (str, ForwardRef)):
            name = kind if isinstance(kind, str) else kind.__forward_arg__
            msg = (
                f"can't describe {self._function}: nobody knows what {name} is, the "
                f"type of {at}; if it is an alias that refers to itself, write it as "
                f"a class, or as `type {name} = ...` (Python 3.12)"
            )
            raise InvalidToolError(msg)

        if hasattr(kind, "__supertype__"):
            return self.of(kind.__supertype__, at, variables)

        return self._of_composed(kind, at, variables)

    def _of_variable(self, kind: TypeVar, at: str, variables: Variables) -> Schema:
        if kind in variables and variables[kind] is not kind:
            return self.of(variables[kind], at)

        if kind.__constraints__:
            return self._union(kind.__constraints__, at, variables)

        bound = kind.__bound__
        return {} if bound is None else self.of(bound, at, variables)

    def _of_composed(  # noqa: PLR0911 - one for each way to compose a type
        self, kind: Any, at: str, variables: Variables
    ) -> Schema:
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._annotated(kind, at, variables)

        if origin in (Union, types.UnionType):
            return self._union(args, at, variables)

        if origin is Literal:
            return self._choice([*args], kind, at)

        if getattr(origin, "_name", None) in _WRAPPERS and args:
            return self.of(args[0], at, variables)

        base: Any = kind if origin is None else origin
        if hasattr(base, "__value__"):  # `type X = ...`
            alias = dict(zip(base.__type_params__, args, strict=False))
            return self._named(kind, lambda: self.of(self._value(base, at), at, alias))

        if not isinstance(base, type):
            raise self._no_word(kind, at)

        if issubclass(base, Enum):
            return self._enum(base, at)

        if has_fields(base):
            return self._named(kind, lambda: self._fields(base, args, at))

        return self._of_builtin(base, args, kind, at)

    def _of_builtin(  # noqa: PLR0911 - one for each family of them
        self, base: type, args: tuple[Any, ...], kind: Any, at: str
    ) -> Schema:
        if issubclass(base, _LISTS) or base in _LISTS_ABSTRACT:
            return self._array(kind, base, args, at)

        if issubclass(base, dict) or base in _MAPS_ABSTRACT:
            return self._map(base, args, at)

        for plain, word in _PLAIN.items():
            if issubclass(base, plain):
                return {"type": word}

        if issubclass(base, PurePath):
            return {"type": "string"}

        if issubclass(base, datetime):
            # Whether it has an offset is not said by its type.
            return {"type": "string", "format": "date-time"}

        if issubclass(base, time):
            return {"type": "string", "format": "time"}

        if base in _TEXTS:
            return msgspec.json.schema(base)

        raise self._no_word(kind, at)

    def _no_word(self, kind: Any, at: str) -> InvalidToolError:
        return InvalidToolError(
            f"can't describe {self._function}: JSON has no word for {_shown(kind)}, "
            f"the type of {at}; annotate it with what a model can write (str, "
            "list[int], a dataclass, ...), or leave the parameter out: "
            f"without=({re.split(r'[.[]', at)[0]!r},)"
        )

    def _annotated(self, kind: Any, at: str, variables: Variables) -> Schema:
        bare, *notes = get_args(kind)
        schema = dict(self.of(bare, at, variables))
        for note in notes:
            if isinstance(note, str):
                schema["description"] = note
            elif isinstance(note, msgspec.Meta):
                inner = bare if bare in _TEXTS else _BOUNDED.get(schema.get("type", ""))
                inner = Any if inner is None else inner
                try:
                    schema |= msgspec.json.schema(Annotated[inner, note])
                except TypeError as error:
                    msg = (
                        f"can't describe {self._function}: {note!r} does not fit "
                        f"{_shown(bare)}, the type of {at}: {error}"
                    )
                    raise InvalidToolError(msg) from None
            elif isinstance(getattr(note, "description", None), str):
                schema["description"] = note.description

        return schema

    def _union(self, options: tuple[Any, ...], at: str, variables: Variables) -> Schema:
        found: list[Schema] = []
        for option in options:
            schema = self.of(option, at, variables)
            if schema not in found:
                found.append(schema)

        if {} in found:
            return {}

        if {"type": "number"} in found and {"type": "integer"} in found:
            found.remove({"type": "integer"})  # is a number, too

        found.sort(key={"type": "null"}.__eq__)
        return found[0] if len(found) == 1 else {"anyOf": found}

    def _choice(self, values: list[Any], kind: Any, at: str) -> Schema:
        """
        One of *values*, in their order.
        """
        plain = [each.value if isinstance(each, Enum) else each for each in values]
        if not plain or not {*map(type, plain)} <= {*_PLAIN}:
            raise self._no_word(kind, at)

        what = f"can't describe {self._function}: a value of {at}"
        frozen = [freeze(each, what, InvalidToolError) for each in plain]
        words = {_PLAIN[type(each)] for each in frozen}
        return {**({"type": words.pop()} if len(words) == 1 else {}), "enum": frozen}

    def _enum(self, cls: type[Enum], at: str) -> Schema:
        if issubclass(cls, Flag):
            raise self._no_word(cls, at)

        told = of_class(cls)
        schema = self._choice([*cls], cls, at)
        members = [each for each in cls if each.name in told.fields]
        lines = [f"{each.value}: {told.fields[each.name]}" for each in members]
        said = "\n".join(lines if not told.summary else [told.summary, *lines])
        return {**schema, "description": said} if said else schema

    def _array(self, kind: Any, base: type, args: tuple[Any, ...], at: str) -> Schema:
        schema: Schema = {"type": "array"}
        inside = f"{at}[]"
        if base is tuple and args[1:] != (...,) and kind not in _ANY_TUPLE:
            return self._tuple([self.of(each, inside) for each in args])

        items = self.of(args[0], inside) if args else {}
        if items:
            schema["items"] = items

        if issubclass(base, _SETS[:2]) or base in _SETS:
            schema["uniqueItems"] = True

        return schema

    def _tuple(self, items: list[Schema], needed: int | None = None) -> Schema:
        least = len(items) if needed is None else needed
        schema: Schema = {"type": "array", "items": False, "maxItems": len(items)}
        if items:
            schema["prefixItems"] = items
        if least:
            schema["minItems"] = least

        return schema

    def _map(self, base: type, args: tuple[Any, ...], at: str) -> Schema:
        schema: Schema = {"type": "object"}
        if issubclass(base, Counter):
            args = (*args, int)

        key, value = args or (Any, Any)
        names = dict(self.of(key, f"{at}[]"))
        if names.get("type") == "integer" and len(names) == 1:
            names = {"pattern": "^-?[0-9]+$"}  # keys of JSON are text
        elif names and names.pop("type", None) != "string":
            raise self._no_word(base[key, value] if args else base, at)  # type: ignore[index]

        if names:
            schema["propertyNames"] = names

        values = self.of(value, f"{at}[]")
        if values:
            schema["additionalProperties"] = values

        return schema

    # Classes with fields, and what else has a name

    def _named(self, kind: Any, write: Callable[[], Schema]) -> Schema:
        """
        What *write* gives, or a reference to it where it refers to itself.
        """
        name = self._name_of(kind)
        if not name and kind in self._open:
            name = self._new_name(kind)

        if not name:
            self._open.append(kind)
            schema = write()
            self._open.pop()
            name = self._name_of(kind)
            if not name:
                return schema

            self.definitions[name] = schema

        return {"$ref": f"#/$defs/{name}"}

    def _name_of(self, kind: Any) -> str:
        return next((name for known, name in self._names if known == kind), "")

    def _new_name(self, kind: Any) -> str:
        name = wanted = re.sub(r"\W+", "_", name_of(kind))
        taken = {each for _, each in self._names}
        count = 1
        while name in taken:
            count += 1
            name = f"{wanted}_{count}"

        self._names.append((kind, name))
        return name

    def _fields(self, cls: type, args: tuple[Any, ...], at: str) -> Schema:
        variables = variables_of(cls, args)
        told = of_class(cls)
        if is_typeddict(cls):
            fields = [*self._typed_dict_fields(cls, at)]
        else:
            fields = [*self._constructor_fields(cls, at)]

        properties: dict[str, Schema] = {}
        required: list[str] = []
        for parameter, kind in fields:
            name = parameter.name
            said = told.fields.get(name, "")
            schema = self.of(kind, f"{at}.{name}", variables)
            properties[name] = with_words(schema, said, parameter.default)
            if parameter.default is Parameter.empty:
                required.append(name)

        schema = {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
        if is_named_tuple(cls):
            schema = self._tuple(
                [_labelled(name, each) for name, each in properties.items()],
                len(required),
            )
        elif required:
            schema["required"] = sorted(required)

        if told.summary:
            schema["description"] = told.summary

        return schema

    def _typed_dict_fields(self, cls: Any, at: str) -> Iterator[tuple[Parameter, Any]]:
        for name, kind in self.hints(cls, at).items():
            needed = name in cls.__required_keys__
            bare = kind
            while getattr(get_origin(bare), "_name", None) in _WRAPPERS:
                # Where annotations are texts, the class has not seen these.
                said = get_origin(bare)
                needed = {Required: True, NotRequired: False}.get(said, needed)
                (bare,) = get_args(bare)

            default = Parameter.empty if needed else _LEFT_OUT
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=default), bare

    def _constructor_fields(self, cls: Any, at: str) -> Iterator[tuple[Parameter, Any]]:
        """
        What the constructor of *cls* takes, each with its type.
        """
        hints = self.hints(cls, at)
        if attrs.has(cls):
            for field in attrs.fields(cls):
                hints[field.alias] = hints.get(field.name, field.type or Any)

        for parameter in signature(cls).parameters.values():
            if parameter.kind not in (
                Parameter.VAR_POSITIONAL,
                Parameter.VAR_KEYWORD,
            ):
                yield parameter, hints.get(parameter.name, Any)

    def _value(self, alias: Any, at: str) -> Any:
        here = SimpleNamespace(__annotations__={"it": alias.__value__})
        return self.hints(here, at)["it"]

    def hints(self, thing: Any, at: str, **names: Any) -> dict[str, Any]:
        """
        The annotations of *thing*, none of them a text.
        """
        try:
            return get_type_hints(thing, include_extras=True, **names)
        except Exception as error:  # noqa: BLE001 - annotations can be any expression
            msg = (
                f"can't describe {self._function}: nobody knows what the type of {at} "
                f"is ({type(error).__name__}: {error}); {_WHERE}"
            )
            raise InvalidToolError(msg) from None


_WHERE = (
    "define or import it in the module itself, not in a function and not under "
    "TYPE_CHECKING, or leave the parameter out (without=...)"
)
_LEFT_OUT: Any = object()


def _labelled(name: str, schema: Schema) -> Schema:
    """
    *schema* of a place in a tuple, which has no name but that it is told.
    """
    said = schema.get("description")
    return {**schema, "description": f"{name}: {said}" if said else name}


def _shown(kind: Any) -> str:
    """
    A type as one writes it.
    """
    plain = isinstance(kind, type) and not get_args(kind)
    return kind.__qualname__ if plain else f"{kind!r:.80}".replace("typing.", "")


def _takes_null(schema: Mapping[str, Any]) -> bool:
    """
    Whether null is among what *schema* takes.
    """
    return (
        not schema
        or schema.get("type") == "null"
        or None in schema.get("enum", ())
        or any(map(_takes_null, schema.get("anyOf", ())))
    )


def with_words(schema: Schema, said: str, default: Any) -> Schema:
    """
    *schema* with what a docstring *said* of it, and with the default value if
    there is one, JSON has a word for it, and the schema takes it.
    """
    full = dict(schema)
    if said:
        # What its type says of itself is no less true here.
        own = schema.get("description", said)
        full["description"] = said if own == said else f"{said}\n{own}"

    if default is attrs.NOTHING:
        return full

    if isinstance(default, Enum):
        default = default.value

    try:
        frozen = freeze(default, "default", InvalidToolError)
    except InvalidToolError:
        return full  # nothing a model could write; `required` says enough

    if frozen is not None or _takes_null(schema):
        full["default"] = frozen

    return full
