"""
From types to JSON Schema.

What lives here: which types JSON can represent, and how. What does not:
signatures (`_functions`).

msgspec makes schemas too, and makes those of scalars and bounds here. For other
types it describes what its own decoder takes: no union of two classes, of
two lists, or of a text and a date; no enum of texts and numbers; an attrs
class by the names of its attributes instead of those its constructor takes,
``init=False`` included; and enums in sorted order.
"""

from __future__ import annotations

import re
import types
import typing
from collections import abc, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from inspect import Parameter
from pathlib import PurePath
from types import SimpleNamespace
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

import msgspec

from conversation_state._persistent import freeze
from conversation_state._wording import shorten_repr
from conversation_state.errors import InvalidToolError
from conversation_state.tools._classes import (
    WRAPPERS,
    Variables,
    has_fields,
    is_named_tuple,
    list_constructor,
    list_typed_dict,
    parse_class_docstring,
    resolve_variables,
    substitute_variables,
    type_name,
)
from conversation_state.tools._parameters import add_label, annotate_schema, format_type

Schema: TypeAlias = "dict[str, Any]"

_NO_VARIABLES: Variables = {}
# Without references, classes that have several fields of the next class double a
# schema at each level.
_MAX_PARTS = 5_000
_MAX_LEVELS = 50

# The JSON type of each scalar; the first that a class is a subclass of counts.
_SCALARS: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    types.NoneType: "null",
}
_TEXT_FORMATS = (date, time, timedelta, Decimal, UUID)
_ANY_TUPLE = (tuple, typing.Tuple)  # noqa: UP006 - is not `tuple[()]`
_LISTS = (list, set, frozenset, tuple, deque)
_LISTS_ABSTRACT = (
    abc.Collection,
    abc.Iterable,
    abc.MutableSequence,
    abc.MutableSet,
    abc.Sequence,
    abc.Set,
)
_SETS = (set, frozenset, abc.Set, abc.MutableSet)
_MAPS_ABSTRACT = (abc.Mapping, abc.MutableMapping)
# The keywords for the bounds of a msgspec.Meta depend on the JSON type.
_BOUNDED: dict[str, Any] = {
    "array": list[Any],
    "boolean": bool,
    "integer": int,
    "number": float,
    "object": dict[str, Any],
    "string": str,
}


class SchemaWriter:
    """
    Writes the schemas of the types in one signature.

    Every schema is written out where it is used, because not every provider
    follows references; only recursive types are among the definitions.

    Attributes:
        definitions: Schemas of recursive types, by name.
    """

    def __init__(self, function: str) -> None:
        self.definitions: dict[str, Schema] = {}
        self._function = function
        self._depth = 0
        self._parts_left = _MAX_PARTS
        self._open_types: list[Any] = []
        self._names: list[tuple[Any, str]] = []  # a type need not be hashable

    def write(self, kind: Any, at: str, variables: Variables = _NO_VARIABLES) -> Schema:
        """
        The schema of *kind*; *at* names its place in the signature.

        Raises:
            InvalidToolError:
                If JSON can't represent it.
        """
        self._parts_left -= 1
        if self._parts_left < 0 or self._depth == _MAX_LEVELS:
            what = f"has more than {_MAX_PARTS:,} parts"
            if self._parts_left >= 0:
                what = f"is more than {_MAX_LEVELS} levels deep"

            raise InvalidToolError(
                f"can't describe {self._function}: its schema {what} at {at:.60}; take "
                "something simpler, or leave the parameter out (without=...)"
            )

        self._depth += 1
        try:
            return self._write_type(kind, at, variables)
        finally:
            self._depth -= 1

    def resolve(self, kind: Any, at: str) -> Schema:
        """The schema of *kind* itself, not a reference to it."""
        # A recursive class is written as a reference, which has no properties.
        schema = self.write(kind, at)
        name = schema.get("$ref", "").rpartition("/")[2]
        return self.definitions[name] if name else schema

    def _write_type(self, kind: Any, at: str, variables: Variables) -> Schema:
        kind = substitute_variables(kind, variables)
        if kind is Any or kind is object or kind is Parameter.empty:
            return {}

        if kind is None:
            return {"type": "null"}

        if isinstance(kind, TypeVar):
            return self._write_type_variable(kind, at, variables)

        if isinstance(kind, InitVar):
            return self.write(kind.type, at, variables)

        if isinstance(kind, (str, ForwardRef)):
            name = kind if isinstance(kind, str) else kind.__forward_arg__
            raise InvalidToolError(
                f"can't describe {self._function}: unknown name {name} in the "
                f"type of {at}; if it is an alias that refers to itself, write it as "
                f"a class, or as `type {name} = ...` (Python 3.12)"
            )

        if hasattr(kind, "__supertype__"):
            return self.write(kind.__supertype__, at, variables)

        return self._write_composed(kind, at, variables)

    def _write_type_variable(
        self, kind: TypeVar, at: str, variables: Variables
    ) -> Schema:
        if kind in variables and variables[kind] is not kind:
            return self.write(variables[kind], at)

        if kind.__constraints__:
            return self._write_union(kind.__constraints__, at, variables)

        bound = kind.__bound__
        return {} if bound is None else self.write(bound, at, variables)

    def _write_composed(  # noqa: PLR0911 - one for each way to compose a type
        self, kind: Any, at: str, variables: Variables
    ) -> Schema:
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._write_annotated(kind, at, variables)

        if origin in (Union, types.UnionType):
            return self._write_union(args, at, variables)

        if origin is Literal:
            return self._write_enum_values([*args], kind, at)

        if getattr(origin, "_name", None) in WRAPPERS and args:
            return self.write(args[0], at, variables)

        base: Any = kind if origin is None else origin
        if hasattr(base, "__value__"):  # `type X = ...`
            alias = dict(zip(base.__type_params__, args, strict=False))
            return self._write_named(
                kind, lambda: self.write(self._resolve_alias(base, at), at, alias)
            )

        if not isinstance(base, type):
            raise self._unsupported_type(kind, at)

        if issubclass(base, Enum):
            return self._write_enum(base, at)

        if has_fields(base):
            return self._write_named(kind, lambda: self._write_fields(base, args, at))

        return self._write_builtin(base, args, kind, at)

    def _write_builtin(  # noqa: PLR0911 - one for each family of them
        self, base: type, args: tuple[Any, ...], kind: Any, at: str
    ) -> Schema:
        if issubclass(base, _LISTS) or base in _LISTS_ABSTRACT:
            return self._write_array(kind, base, args, at)

        if issubclass(base, dict) or base in _MAPS_ABSTRACT:
            return self._write_map(base, args, at)

        for plain, word in _SCALARS.items():
            if issubclass(base, plain):
                return {"type": word}

        if issubclass(base, PurePath):
            return {"type": "string"}

        if issubclass(base, datetime):
            # The type does not show whether a datetime has an offset.
            return {"type": "string", "format": "date-time"}

        if issubclass(base, time):
            return {"type": "string", "format": "time"}

        if base in _TEXT_FORMATS:
            return msgspec.json.schema(base)

        raise self._unsupported_type(kind, at)

    def _unsupported_type(self, kind: Any, at: str) -> InvalidToolError:
        return InvalidToolError(
            f"can't describe {self._function}: JSON can't represent "
            f"{format_type(kind)}, the type of {at}; annotate it with what a model "
            "can write (str, list[int], a dataclass, ...), or leave the parameter "
            f"out: without=({re.split(r'[.[]', at)[0]!r},)"
        )

    def _write_annotated(self, kind: Any, at: str, variables: Variables) -> Schema:
        bare, *notes = get_args(kind)
        schema = dict(self.write(bare, at, variables))
        for note in notes:
            if isinstance(note, str):
                schema["description"] = note
            elif isinstance(note, msgspec.Meta):
                inner = _BOUNDED.get(schema.get("type", ""), Any)
                inner = bare if bare in _TEXT_FORMATS else inner
                try:
                    schema |= msgspec.json.schema(Annotated[inner, note])
                except TypeError as error:
                    raise InvalidToolError(
                        f"can't describe {self._function}: {shorten_repr(note)} does "
                        f"not fit {format_type(bare)}, the type of {at}: {error}"
                    ) from None
            elif isinstance(getattr(note, "description", None), str):
                schema["description"] = note.description

        return schema

    def _write_union(
        self, options: tuple[Any, ...], at: str, variables: Variables
    ) -> Schema:
        found: list[Schema] = []
        for option in options:
            schema = self.write(option, at, variables)
            if schema not in found:
                found.append(schema)

        if {} in found:
            return {}

        if {"type": "number"} in found and {"type": "integer"} in found:
            found.remove({"type": "integer"})  # is a number, too

        # `int | None` and `None | int` are one schema.
        found.sort(key={"type": "null"}.__eq__)
        return found[0] if len(found) == 1 else {"anyOf": found}

    def _write_enum_values(self, values: list[Any], kind: Any, at: str) -> Schema:
        plain = [each.value if isinstance(each, Enum) else each for each in values]
        if not plain or not {*map(type, plain)} <= {*_SCALARS}:
            raise self._unsupported_type(kind, at)

        what = f"can't describe {self._function}: a value of {at}"
        frozen = [freeze(each, what, InvalidToolError) for each in plain]
        words = {_SCALARS[type(each)] for each in frozen}
        return {**({"type": words.pop()} if len(words) == 1 else {}), "enum": frozen}

    def _write_enum(self, cls: type[Enum], at: str) -> Schema:
        if issubclass(cls, Flag):
            raise self._unsupported_type(cls, at)

        docstring = parse_class_docstring(cls)
        schema = self._write_enum_values([*cls], cls, at)
        members = [each for each in cls if each.name in docstring.fields]
        lines = [f"{each.value}: {docstring.fields[each.name]}" for each in members]
        text = "\n".join(
            lines if not docstring.summary else [docstring.summary, *lines]
        )
        return {**schema, "description": text} if text else schema

    def _write_array(
        self, kind: Any, base: type, args: tuple[Any, ...], at: str
    ) -> Schema:
        schema: Schema = {"type": "array"}
        inside = f"{at}[]"
        if base is tuple and args[1:] != (...,) and kind not in _ANY_TUPLE:
            return self._write_tuple([self.write(each, inside) for each in args])

        items = self.write(args[0], inside) if args else {}
        if items:
            schema["items"] = items

        if issubclass(base, _SETS):
            schema["uniqueItems"] = True

        return schema

    def _write_tuple(self, items: list[Schema], needed: int | None = None) -> Schema:
        least = len(items) if needed is None else needed
        schema: Schema = {"type": "array", "items": False, "maxItems": len(items)}
        if items:
            schema["prefixItems"] = items
        if least:
            schema["minItems"] = least

        return schema

    def _write_map(self, base: type, args: tuple[Any, ...], at: str) -> Schema:
        schema: Schema = {"type": "object"}
        try:
            key, value = args or (Any, Any)
        except ValueError:
            # A generic subclass has arguments of its own.
            key, value = Any, Any

        names = dict(self.write(key, f"{at}[]"))
        if names.get("type") == "integer" and len(names) == 1:
            names = {"pattern": "^-?[0-9]+$"}  # keys of JSON are text
        elif names and names.pop("type", None) != "string":
            raise self._unsupported_type(base[key, value] if args else base, at)  # type: ignore[index]

        if names:
            schema["propertyNames"] = names

        values = self.write(value, f"{at}[]")
        if values:
            schema["additionalProperties"] = values

        return schema

    # Classes with fields, and aliases

    def _write_named(self, kind: Any, write: Callable[[], Schema]) -> Schema:
        """The schema from *write*, or a reference to it if the type is recursive."""
        name = self._find_name(kind)
        if not name and kind in self._open_types:
            name = self._add_name(kind)

        if not name:
            self._open_types.append(kind)
            schema = write()
            self._open_types.pop()
            name = self._find_name(kind)
            if not name:
                return schema

            self.definitions[name] = schema

        return {"$ref": f"#/$defs/{name}"}

    def _find_name(self, kind: Any) -> str:
        return next((name for known, name in self._names if known == kind), "")

    def _add_name(self, kind: Any) -> str:
        name = wanted = re.sub(r"\W+", "_", type_name(kind))
        taken = {each for _, each in self._names}
        count = 1
        while name in taken:
            count += 1
            name = f"{wanted}_{count}"

        self._names.append((kind, name))
        return name

    def _write_fields(self, cls: type, args: tuple[Any, ...], at: str) -> Schema:
        docstring = parse_class_docstring(cls)
        list_fields = list_typed_dict if is_typeddict(cls) else list_constructor
        schema = self.write_object(
            list_fields(cls, self.hints(cls, at)),
            docstring.fields,
            at,
            resolve_variables(cls, args),
        )
        if is_named_tuple(cls):
            items = [add_label(*each) for each in schema["properties"].items()]
            schema = self._write_tuple(items, len(schema.get("required", ())))

        if docstring.summary:
            schema["description"] = docstring.summary

        return schema

    def write_object(
        self,
        fields: Iterable[tuple[Parameter, Any]],
        descriptions: Mapping[str, str],
        at: str = "",
        variables: Variables = _NO_VARIABLES,
    ) -> Schema:
        """The schema of an object with *fields*, each a parameter and its type."""
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for parameter, kind in fields:
            name = parameter.name
            schema = self.write(kind, f"{at}.{name}" if at else name, variables)
            properties[name] = annotate_schema(
                schema, descriptions.get(name, ""), parameter.default
            )
            if parameter.default is Parameter.empty:
                required.append(name)

        return {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            **({"required": sorted(required)} if required else {}),
        }

    def _resolve_alias(self, alias: Any, at: str) -> Any:
        # It is resolved as an annotation, in which names in quotes are resolved, too.
        here = SimpleNamespace(__annotations__={"it": alias.__value__})
        return self.hints(here, at)["it"]

    def hints(self, thing: Any, at: str, **names: Any) -> dict[str, Any]:
        """The annotations of *thing*, all of them resolved."""
        try:
            return get_type_hints(thing, include_extras=True, **names)
        except Exception as error:  # noqa: BLE001 - any of an annotation: reported
            raise InvalidToolError(
                f"can't describe {self._function}: can't resolve the type of {at} "
                f"({type(error).__name__}: {error}); {_IMPORT_HINT}"
            ) from None


_IMPORT_HINT = (
    "define or import it in the module itself, not in a function and not under "
    "TYPE_CHECKING, or leave the parameter out (without=...)"
)
