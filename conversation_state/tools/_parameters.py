"""One parameter of a tool, and the JSON Schema of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    FrozenMap,
    JsonMap,
    check_text,
    final,
    freeze,
    make_map,
)
from conversation_state._wording import shorten_repr, with_article
from conversation_state.errors import InvalidToolError

# The Python classes of each type's values. An enum can't list arrays or objects.
_VALUE_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "string": (str,),
}
_TYPES = tuple(sorted([*_VALUE_TYPES, "array", "object"]))

# A nested parameter is two levels of JSON, and frozen JSON has at most a hundred,
# so that every parameter can be written as a schema.
MAX_PARAMETER_LEVELS = 45


def _given_values(values: Sequence[Any]) -> tuple[Any, ...]:
    # The constructor checks and freezes them. This converter is for type checkers: the
    # argument may be any sequence.
    return values  # type: ignore[return-value]


@final
@attrs.frozen
class Parameter:
    """
    One parameter of a tool, or one nested in another.

    Attributes:
        type: Its JSON type: ``array``, ``boolean``, ``integer``, ``null``,
            ``number``, ``object`` or ``string``.

        description: What it means, for the model to read.

        required: Whether every call must have it. Never true of *items*: an array
            may be empty.

        enum: The values it may have, in this order; empty: any of its type.

        items: The items of an array; None: anything.

        properties: The properties of an object, by name; none: anything.

    Raises:
        InvalidToolError:
            If the type is unknown; if *items* are of something else than
            an array, *properties* of something else than an object, or *enum*
            has a value twice or one of another type; if parameters are nested
            more than 45 levels deep.

    >>> Parameter("array", "Where to look", items=Parameter("string")).items.type
    'string'
    """

    type: str
    description: str = ""
    required: bool = False
    enum: tuple[Any, ...] = attrs.field(default=(), converter=_given_values)
    items: Parameter | None = None
    properties: Mapping[str, Parameter] = EMPTY_MAP
    _levels: int = attrs.field(init=False, default=1, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.type, str) or self.type not in _TYPES:
            shown = shorten_repr(self.type)
            _refuse_field("type", f"is {shown}; expected one of {', '.join(_TYPES)}")

        if self.required.__class__ is not bool:
            _refuse_field(
                "required", f"is {shorten_repr(self.required)}; expected a bool"
            )

        description = check_text(
            self.description, "Parameter.description", InvalidToolError
        )
        frozen = {
            "type": str.__str__(self.type),
            "description": description,
            "enum": self._freeze_enum(),
            "properties": self._freeze_properties(),
        }
        for name, value in frozen.items():
            object.__setattr__(self, name, value)

        self._check_items()
        # Each parameter has its depth already, so no level is walked twice.
        inside = [*self.properties.values(), *([self.items] if self.items else [])]
        levels = 1 + max([each._levels for each in inside], default=0)
        if levels > MAX_PARAMETER_LEVELS:
            raise InvalidToolError(
                f"Parameter is nested more than {MAX_PARAMETER_LEVELS} levels deep"
            )

        object.__setattr__(self, "_levels", levels)

    def _freeze_enum(self) -> tuple[Any, ...]:
        given: Any = self.enum
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            shown = shorten_repr(given)
            _refuse_field("enum", f"is {shown}; expected a sequence of values")

        if not given:
            return ()

        if self.type not in _VALUE_TYPES:
            _refuse_field(
                "enum",
                f"has values for an {self.type}; an enum belongs to its items or "
                "properties",
            )

        what = "Parameter.enum has a value that"
        values = [freeze(each, what, InvalidToolError) for each in given]
        # The class is compared, because True is an int and equal to 1.
        for at, value in enumerate(values):
            if value.__class__ not in _VALUE_TYPES[self.type]:
                shown = shorten_repr(given[at])
                _refuse_field("enum", f"has {shown}; expected {self.type}")

        if len({*values}) != len(values):
            twice = next(each for each in values if values.count(each) > 1)
            _refuse_field("enum", f"has {shorten_repr(twice)} more than once")

        return tuple(values)

    def _check_items(self) -> None:
        items: Any = self.items
        if items is None:
            return

        if self.type != "array":
            kind = with_article(self.type)
            _refuse_field("items", f"are given for {kind}; only an array has items")

        if not isinstance(items, Parameter):
            shown = shorten_repr(items)
            _refuse_field("items", f"is {shown}; expected a Parameter or None")

        if items.required:
            _refuse_field(
                "items",
                "are required; an array holds any number of items, so only the array "
                "itself can be",
            )

    def _freeze_properties(self) -> Mapping[str, Parameter]:
        if self.properties is EMPTY_MAP:
            return EMPTY_MAP

        frozen = freeze_parameters(self.properties, "Parameter", "properties")
        if frozen and self.type != "object":
            kind = with_article(self.type)
            _refuse_field(
                "properties", f"are given for {kind}; only an object has properties"
            )

        return frozen


def _refuse_field(field: str, problem: str) -> NoReturn:
    raise InvalidToolError(problem, "Parameter", field)


def freeze_parameters(given: Any, owner: str, field: str) -> Mapping[str, Parameter]:
    """*given* frozen, if it is a mapping of names to parameters."""
    if not isinstance(given, Mapping):
        raise InvalidToolError(
            f"is {shorten_repr(given)}; expected a mapping of names to Parameter",
            owner,
            field,
        )

    what = f"{owner}.{field} has a name that".removeprefix(".")
    frozen: dict[str, Parameter] = {}
    for name, parameter in given.items():
        problem = ""
        if not check_text(name, what, InvalidToolError):
            problem = "has a parameter with an empty name; name it as a call should"
        elif not isinstance(parameter, Parameter):
            shown = shorten_repr(parameter)
            problem = f"has {shown} for {shorten_repr(name)}; expected a Parameter"

        if problem:
            raise InvalidToolError(problem, owner, field)

        frozen[str.__str__(name)] = parameter

    return FrozenMap(frozen) if frozen else EMPTY_MAP


def parameters_schema(parameters: Mapping[str, Parameter]) -> Mapping[str, Any]:
    """
    The JSON Schema (2020-12) of an object that holds *parameters*.

    A frozen JSON value; equal parameters give equal ones. ``required`` is in
    sorted order and left out where nothing is, values of an ``enum`` are in
    their own.

    Raises:
        InvalidToolError:
            If *parameters* is not a mapping of names to `Parameter`.

    >>> schema = parameters_schema({"city": Parameter("string", required=True)})
    >>> schema["required"], dict(schema["properties"]["city"])
    (('city',), {'type': 'string'})
    """
    given = freeze_parameters(parameters, "", "parameters")
    return make_map(_object_schema(given), JsonMap)


def _object_schema(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    properties = {name: _parameter_schema(each) for name, each in parameters.items()}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": make_map(properties, JsonMap),
    }
    required = sorted(name for name, each in parameters.items() if each.required)
    if required:
        schema["required"] = tuple(required)

    return schema


def _parameter_schema(parameter: Parameter) -> Mapping[str, Any]:
    schema: dict[str, Any] = {"type": parameter.type}
    if parameter.properties:
        schema = _object_schema(parameter.properties)

    if parameter.description:
        schema["description"] = parameter.description

    if parameter.enum:
        schema["enum"] = parameter.enum

    if parameter.items is not None:
        schema["items"] = _parameter_schema(parameter.items)

    return make_map(schema, JsonMap)
