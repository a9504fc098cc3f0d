"""
What a model is told of a tool: its name, what it is for, and what it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    PMap,
    check_text,
    freeze,
    freeze_map,
    freeze_notes,
    given_map,
    pmap,
)
from conversation_state.errors import InvalidToolError, MissingExtraError

__all__ = [
    "MOST_LEVELS",
    "Parameter",
    "ToolChoice",
    "ToolInfo",
    "is_schema",
    "parameters_schema",
]

# The classes of the values that each type has; arrays and objects are no values
# to choose among.
_VALUES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "string": (str,),
}
_TYPES = tuple(sorted([*_VALUES, "array", "object"]))

# A parameter in a parameter is two levels of JSON, and frozen JSON has at most
# a hundred: a schema can be given as one.
MOST_LEVELS = 45

_SHOWN = 60


if TYPE_CHECKING:

    def _given_values(value: Sequence[Any]) -> tuple[Any, ...]:
        """
        Tells type checkers that any sequence may be given for what becomes a
        tuple.
        """
        ...

    def _given_parameters(value: Mapping[str, Any] | None) -> PMap[str, Any] | None:
        """
        The same for mappings, which may be left out.
        """
        ...

else:
    _given_values = _given_parameters = None


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."


class ToolChoice(StrEnum):
    """
    Whether a model may, must or must not call a tool.

    Attributes:
        FORBIDDEN: It answers in words.

        ALLOWED: It chooses.

        FORCED: It calls at least one.

    Source:
        OpenAI says none, auto and required; Anthropic none, auto and any.

    >>> ToolChoice("forced")
    <ToolChoice.FORCED: 'forced'>
    """

    FORBIDDEN = "forbidden"
    ALLOWED = "allowed"
    FORCED = "forced"


@attrs.frozen
class Parameter:
    """
    One thing a tool takes, or one that is in another.

    Attributes:
        type: JSON's word for it: ``array``, ``boolean``, ``integer``, ``null``,
            ``number``, ``object`` or ``string``.

        description: What it means, for the model to read.

        required: Whether every call must have it. What is in an array is there
            or not, so *items* never are.

        enum: The values it may have, in this order; empty: any of its type.

        items: What an array holds; None: anything.

        properties: What an object holds, by name; none: anything.

    Raises:
        InvalidToolError:
            If the type is none of these; if *items* are of something else than
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
    properties: PMap[str, Parameter] = attrs.field(
        default=EMPTY_MAP, converter=given_map
    )
    _levels: int = attrs.field(init=False, default=1, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.type, str) or self.type not in _TYPES:
            msg = (
                f"Parameter.type is {_short(self.type)}; expected one of "
                f"{', '.join(_TYPES)}"
            )
            raise InvalidToolError(msg)

        self._set("type", str.__str__(self.type))
        self._set("description", _text(self.description, "Parameter.description"))
        if self.required.__class__ is not bool:
            msg = f"Parameter.required is {_short(self.required)}; expected a bool"
            raise InvalidToolError(msg)

        self._set("enum", self._checked_enum())
        self._check_items()
        self._set("properties", self._checked_properties())
        inside = [*self.properties.values(), *([self.items] if self.items else [])]
        levels = 1 + max([each._levels for each in inside], default=0)
        if levels > MOST_LEVELS:
            msg = f"Parameter is nested more than {MOST_LEVELS} levels deep"
            raise InvalidToolError(msg)

        self._set("_levels", levels)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _checked_enum(self) -> tuple[Any, ...]:
        given: Any = self.enum
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            msg = f"Parameter.enum is {_short(given)}; expected a sequence of values"
            raise InvalidToolError(msg)

        if not given:
            return ()

        if self.type not in _VALUES:
            msg = (
                f"Parameter.enum has values for an {self.type}; put those that what "
                "is in it may have into the enum of its items or properties"
            )
            raise InvalidToolError(msg)

        values: list[Any] = []
        for each in given:
            value = freeze(each, "Parameter.enum has a value that", InvalidToolError)
            if value.__class__ not in _VALUES[self.type]:
                msg = f"Parameter.enum has {_short(each)}, which is no {self.type}"
                raise InvalidToolError(msg)

            values.append(value)

        if len({*values}) != len(values):
            twice = next(each for each in values if values.count(each) > 1)
            msg = f"Parameter.enum has {_short(twice)} more than once"
            raise InvalidToolError(msg)

        return tuple(values)

    def _check_items(self) -> None:
        items: Any = self.items
        if items is None:
            return

        if self.type != "array":
            msg = (
                f"Parameter.items are given for {self._shown_type}; only an array has "
                "items"
            )
        elif not isinstance(items, Parameter):
            msg = f"Parameter.items is {_short(items)}; expected a Parameter or None"
        elif items.required:
            msg = (
                "Parameter.items are required; an array holds any number of items, so "
                "only the array itself can be"
            )
        else:
            return

        raise InvalidToolError(msg)

    def _checked_properties(self) -> PMap[str, Parameter]:
        properties = self.properties
        if properties is EMPTY_MAP:
            return properties

        frozen = _by_name(properties, "Parameter.properties")
        if frozen and self.type != "object":
            msg = (
                f"Parameter.properties are given for {self._shown_type}; only an "
                "object has properties"
            )
            raise InvalidToolError(msg)

        return frozen

    @property
    def _shown_type(self) -> str:
        article = "an" if self.type[0] in "aeio" else "a"
        return f"{article} {self.type}"


def _text(value: object, what: str) -> str:
    return check_text(value, what, InvalidToolError)


def _by_name(given: Any, what: str) -> PMap[str, Parameter]:
    """
    *given* frozen, if it is a mapping of names to parameters.
    """
    if not isinstance(given, Mapping):
        msg = f"{what} is {_short(given)}; expected a mapping of names to Parameter"
        raise InvalidToolError(msg)

    frozen: dict[str, Parameter] = {}
    for name, parameter in given.items():
        if not _text(name, f"{what} has a name that"):
            msg = f"{what} has a parameter without a name; name it as a call should"
            raise InvalidToolError(msg)

        if not isinstance(parameter, Parameter):
            msg = f"{what} has {_short(parameter)} for {name!r}; expected a Parameter"
            raise InvalidToolError(msg)

        frozen[str.__str__(name)] = parameter

    return pmap(frozen)


def parameters_schema(parameters: Mapping[str, Parameter]) -> PMap[str, Any]:
    """
    The JSON Schema (2020-12) of an object that holds *parameters*.

    A frozen JSON value; equal parameters give equal ones. ``required`` is in
    sorted order and left out where nothing is, values of an ``enum`` are in
    their own.

    Raises:
        InvalidToolError:
            If *parameters* is no mapping of names to `Parameter`.

    >>> schema = parameters_schema({"city": Parameter("string", required=True)})
    >>> schema["required"], dict(schema["properties"]["city"])
    (('city',), {'type': 'string'})
    """
    return pmap(_object_schema(_by_name(parameters, "parameters")))


def _object_schema(parameters: PMap[str, Parameter]) -> dict[str, Any]:
    properties = {name: _schema(each) for name, each in parameters.items()}
    schema: dict[str, Any] = {"type": "object", "properties": pmap(properties)}
    required = sorted(name for name, each in parameters.items() if each.required)
    if required:
        schema["required"] = tuple(required)

    return schema


def _schema(parameter: Parameter) -> PMap[str, Any]:
    schema: dict[str, Any] = {"type": parameter.type}
    if parameter.properties:
        schema = _object_schema(parameter.properties)

    if parameter.description:
        schema["description"] = parameter.description

    if parameter.enum:
        schema["enum"] = parameter.enum

    if parameter.items is not None:
        schema["items"] = _schema(parameter.items)

    return pmap(schema)


def is_schema(parameters: Mapping[str, Any]) -> bool:
    """
    Whether the parameters of a tool are a JSON Schema; else they are each a
    `Parameter`, and so is one that is called ``type``.
    """
    kind = parameters.get("type")
    return isinstance(kind, str) and kind == "object"


@attrs.frozen
class ToolInfo:
    """
    A tool, as a model is told of it.

    Attributes:
        name: What calls name it by. Any text here; providers take letters,
            digits, ``_`` and ``-``, at most 64 of them.

        description: What it does and when to call it, for the model to read.

        parameters: What it takes: a mapping of names to `Parameter`, or a JSON
            Schema of type ``object``, kept as given. None: it takes nothing;
            an empty mapping says the same with an empty object, and some
            providers tell the two apart.

        metadata: JSON values, frozen deeply.

        unknown: Fields that a newer version wrote beside the known ones; kept,
            and written back. None has the name of a known one.

    Raises:
        InvalidToolError:
            If there is no name; if *parameters* are something else, or some are
            a `Parameter` and some are not; if text holds half of a surrogate
            pair. What is in a JSON Schema is not looked at further.

    >>> tool = ToolInfo("trains", "Finds trains.", {"to": Parameter("string")})
    >>> tool.schema["properties"]["to"]["type"]
    'string'
    """

    name: str
    description: str = ""
    parameters: PMap[str, Any] | None = attrs.field(
        default=None, converter=_given_parameters
    )
    metadata: PMap[str, Any] = attrs.field(
        default=EMPTY_MAP, kw_only=True, converter=given_map
    )
    unknown: PMap[str, Any] = attrs.field(
        default=EMPTY_MAP, kw_only=True, converter=given_map
    )

    def __attrs_post_init__(self) -> None:
        for field in ("name", "description"):
            text = _text(getattr(self, field), f"ToolInfo.{field}")
            object.__setattr__(self, field, text)

        if not self.name:
            msg = "ToolInfo.name is empty; a model calls a tool by its name"
            raise InvalidToolError(msg)

        if self.parameters is not None:
            parameters = _checked_parameters(self.parameters)
            object.__setattr__(self, "parameters", parameters)

        if self.metadata is not EMPTY_MAP or self.unknown is not EMPTY_MAP:
            own = [field.name for field in attrs.fields(ToolInfo)]
            freeze_notes(self, own, InvalidToolError)

    @property
    def schema(self) -> PMap[str, Any] | None:
        """
        What it takes as a JSON Schema, whichever way it was given; None if it
        takes nothing.
        """
        given = self.parameters
        if given is None or is_schema(given):
            return given

        return parameters_schema(given)

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        without: Collection[str] = (),
    ) -> ToolInfo:
        """
        What a model has to be told to call *function*, from its signature, its
        type hints and its docstring.

        A call gives arguments by name. A parameter with a default may be left
        out, one without a hint is any JSON value, ``**kwargs`` take arguments
        of any other name, and without them there are no others. Values are as
        JSON has them: who calls *function* makes enums, dates and instances of
        the arguments.

        Known are text, numbers, truth and None; lists, sets, tuples and maps;
        ``Literal``, enums and unions; dates, UUIDs, decimals and paths, as
        texts; dataclasses, attrs classes, ``TypedDict``, ``NamedTuple`` and
        ``msgspec.Struct``, recursive or not; ``Any``, for any JSON value.
        ``Annotated`` adds a description (a text) or the bounds of a
        ``msgspec.Meta``.

        Descriptions are those of the docstring's sections, in the styles of
        Google, NumPy and Sphinx; those of a class' fields are in its own.

        Args:
            function: A function, async or not, a bound method, a partial, or an
                instance that can be called.

            name: What the model calls it by; the function's own by default.

            description: What the model is told it does; by default its
                docstring down to the first section or doctest.

            without: Parameters the model must not know of, because somebody
                else gives them: a context, a connection.

        Raises:
            InvalidToolError:
                If a model could not call it: a parameter has no name to call it
                by, or is of a type JSON has no word for.

            MissingExtraError:
                If the extra ``tools`` is not installed.

        >>> def trains(to: str, first_class: bool = False) -> list[str]:
        ...     '''
        ...     Trains that leave soon.
        ...
        ...     Args:
        ...         to: Where to, a city.
        ...     '''
        >>> tool = ToolInfo.from_function(trains)
        >>> tool.name, tool.description, tool.schema["required"]
        ('trains', 'Trains that leave soon.', ('to',))
        >>> tool.schema["properties"]["first_class"]["type"]
        'boolean'
        """
        try:
            from conversation_state.tools import _functions  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError("ToolInfo.from_function", "tools") from error

        told = _functions.told_of(function, name, description, without)
        return cls(told.name, told.description, told.schema)


def _checked_parameters(given: Any) -> PMap[str, Any]:
    what = "ToolInfo.parameters"
    if not isinstance(given, Mapping):
        msg = (
            f"{what} is {_short(given)}; expected a mapping of names to Parameter, a "
            "JSON Schema, or None for a tool that takes nothing"
        )
        raise InvalidToolError(msg)

    others = [name for name, each in given.items() if not isinstance(each, Parameter)]
    if not others:
        return _by_name(given, what)

    if len(others) < len(given):
        msg = (
            f"{what} has a Parameter for some names and something else for "
            f"{_short(others[0])}; give each a Parameter, or one JSON Schema for all"
        )
        raise InvalidToolError(msg)

    if not is_schema(given):
        says = f'"type": {_short(given["type"])}' if "type" in given else 'no "type"'
        msg = (
            f"{what} has {says}; a tool takes an object, so a JSON Schema says "
            '{"type": "object", "properties": {...}}, and anything else is a mapping '
            "of names to Parameter"
        )
        raise InvalidToolError(msg)

    return freeze_map(given, what, InvalidToolError)
