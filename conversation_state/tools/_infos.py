"""
The description of a tool for a model: its name, purpose and parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    FrozenMap,
    JsonMap,
    check_text,
    final,
    freeze,
    freeze_map,
    freeze_notes,
    make_map,
    thaw,
)
from conversation_state._wording import shorten_repr
from conversation_state.errors import InvalidToolError, MissingExtraError
from conversation_state.tools._schemas import KEYWORDS, find_contradiction

__all__ = [
    "MAX_PARAMETER_LEVELS",
    "Parameter",
    "ToolChoice",
    "ToolInfo",
    "is_schema",
    "parameters_schema",
]

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

if TYPE_CHECKING:

    def _given_values(value: Sequence[Any]) -> tuple[Any, ...]:
        """
        Tells type checkers that the argument may be any sequence.
        """
        ...

else:
    _given_values = None


class ToolChoice(StrEnum):
    """
    Whether a model may, must or must not call a tool.

    Attributes:
        FORBIDDEN: It answers with text.

        ALLOWED: It chooses.

        FORCED: It calls at least one.

    Source:
        OpenAI names them none, auto and required; Anthropic none, auto and any.

    >>> ToolChoice("forced")
    <ToolChoice.FORCED: 'forced'>
    """

    FORBIDDEN = "forbidden"
    ALLOWED = "allowed"
    FORCED = "forced"


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
            problem = (
                f"is {shorten_repr(self.type)}; expected one of {', '.join(_TYPES)}"
            )
            raise InvalidToolError(problem, "Parameter", "type")

        self._set_attribute("type", str.__str__(self.type))
        self._set_attribute(
            "description", _check_text(self.description, "Parameter.description")
        )
        if self.required.__class__ is not bool:
            problem = f"is {shorten_repr(self.required)}; expected a bool"
            raise InvalidToolError(problem, "Parameter", "required")

        self._set_attribute("enum", self._freeze_enum())
        self._check_items()
        self._set_attribute("properties", self._freeze_properties())
        inside = [*self.properties.values(), *([self.items] if self.items else [])]
        levels = 1 + max([each._levels for each in inside], default=0)
        if levels > MAX_PARAMETER_LEVELS:
            msg = f"Parameter is nested more than {MAX_PARAMETER_LEVELS} levels deep"
            raise InvalidToolError(msg)

        self._set_attribute("_levels", levels)

    def _set_attribute(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _freeze_enum(self) -> tuple[Any, ...]:
        given: Any = self.enum
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            problem = f"is {shorten_repr(given)}; expected a sequence of values"
            raise InvalidToolError(problem, "Parameter", "enum")

        if not given:
            return ()

        if self.type not in _VALUE_TYPES:
            problem = (
                f"has values for an {self.type}; an enum belongs to "
                "its items or properties"
            )
            raise InvalidToolError(problem, "Parameter", "enum")

        values: list[Any] = []
        for each in given:
            value = freeze(each, "Parameter.enum has a value that", InvalidToolError)
            if value.__class__ not in _VALUE_TYPES[self.type]:
                problem = f"has {shorten_repr(each)}; expected {self.type}"
                raise InvalidToolError(problem, "Parameter", "enum")

            values.append(value)

        if len({*values}) != len(values):
            twice = next(each for each in values if values.count(each) > 1)
            problem = f"has {shorten_repr(twice)} more than once"
            raise InvalidToolError(problem, "Parameter", "enum")

        return tuple(values)

    def _check_items(self) -> None:
        items: Any = self.items
        if items is None:
            return

        if self.type != "array":
            problem = (
                f"are given for {self._type_with_article}; only an array has items"
            )
        elif not isinstance(items, Parameter):
            problem = f"is {shorten_repr(items)}; expected a Parameter or None"
        elif items.required:
            problem = (
                "are required; an array holds any number of items, so "
                "only the array itself can be"
            )
        else:
            return

        raise InvalidToolError(problem, "Parameter", "items")

    def _freeze_properties(self) -> Mapping[str, Parameter]:
        properties = self.properties
        if properties is EMPTY_MAP:
            return properties

        frozen = _freeze_parameters(properties, "Parameter", "properties")
        if frozen and self.type != "object":
            problem = (
                f"are given for {self._type_with_article}; only "
                "an object has properties"
            )
            raise InvalidToolError(problem, "Parameter", "properties")

        return frozen

    @property
    def _type_with_article(self) -> str:
        article = "an" if self.type[0] in "aeio" else "a"
        return f"{article} {self.type}"


def _check_text(value: object, what: str) -> str:
    return check_text(value, what, InvalidToolError)


def _freeze_parameters(given: Any, owner: str, field: str) -> Mapping[str, Parameter]:
    """
    *given* frozen, if it is a mapping of names to parameters.
    """
    where = f"{owner}.{field}" if owner else field
    if not isinstance(given, Mapping):
        problem = f"is {shorten_repr(given)}; expected a mapping of names to Parameter"
        raise InvalidToolError(problem, owner, field)

    frozen: dict[str, Parameter] = {}
    for name, parameter in given.items():
        if not _check_text(name, f"{where} has a name that"):
            problem = "has a parameter with an empty name; name it as a call should"
            raise InvalidToolError(problem, owner, field)

        if not isinstance(parameter, Parameter):
            shown = shorten_repr(parameter)
            problem = f"has {shown} for {name!r}; expected a Parameter"
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
            If *parameters* is no mapping of names to `Parameter`.

    >>> schema = parameters_schema({"city": Parameter("string", required=True)})
    >>> schema["required"], dict(schema["properties"]["city"])
    (('city',), {'type': 'string'})
    """
    given = _freeze_parameters(parameters, "", "parameters")
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


def is_schema(parameters: Mapping[str, Any]) -> bool:
    """
    Whether the parameters of a tool are a JSON Schema; else each is a `Parameter`,
    whatever its name.
    """
    # An empty mapping is no schema.
    return not all(isinstance(each, Parameter) for each in parameters.values())


@final
@attrs.frozen
class ToolInfo:
    """
    The description of a tool for a model.

    Attributes:
        name: The name that calls use. Any text here; providers accept letters,
            digits, ``_`` and ``-``, at most 64 of them.

        description: What it does and when to call it, for the model to read.

        parameters: A mapping of names to `Parameter`, or a JSON Schema of an
            object, kept as given. None: it takes no arguments; an empty mapping
            says the same with an empty object, and some providers distinguish
            the two.

        metadata: JSON values, frozen deeply.

        unknown: Fields that a newer version wrote beside the known ones; kept,
            and written back. None has the name of a known one.

    Raises:
        InvalidToolError:
            If there is no name; if *parameters* are something else, or some are
            a `Parameter` and some are not; if no object can match a JSON Schema,
            one of type ``string`` for example; if text holds half of a surrogate
            pair.

    >>> tool = ToolInfo("trains", "Finds trains.", {"to": Parameter("string")})
    >>> tool.schema["properties"]["to"]["type"]
    'string'
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = attrs.field(default=EMPTY_MAP, kw_only=True)
    unknown: Mapping[str, Any] = attrs.field(default=EMPTY_MAP, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for field in ("name", "description"):
            text = _check_text(getattr(self, field), f"ToolInfo.{field}")
            object.__setattr__(self, field, text)

        if not self.name:
            problem = "is empty; a model calls a tool by its name"
            raise InvalidToolError(problem, "ToolInfo", "name")

        if self.parameters is not None:
            parameters = _freeze_tool_parameters(self.parameters)
            object.__setattr__(self, "parameters", parameters)

        if self.metadata is not EMPTY_MAP or self.unknown is not EMPTY_MAP:
            own = [field.name for field in attrs.fields(ToolInfo)]
            freeze_notes(self, own, InvalidToolError)

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """
        Its parameters as a JSON Schema, in whichever form they were given; None
        if it takes no arguments.
        """
        given = self.parameters
        if given is None or is_schema(given):
            return given

        return parameters_schema(given)

    def json_schema(self) -> dict[str, Any]:
        """
        Its parameters as a JSON Schema in plain, mutable JSON values, ready for
        `json.dumps`; an object without properties if it takes no arguments.

        >>> ToolInfo("clock", "Tells the time.").json_schema()
        {'type': 'object', 'properties': {}}
        """
        schema = self.schema
        if schema is None:
            return {"type": "object", "properties": {}}

        plain: dict[str, Any] = thaw(schema)
        return plain

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
        The description of *function*, from its signature, its type hints and
        its docstring.

        A call gives arguments by name. A parameter with a default may be left
        out, one without a hint is any JSON value, ``**kwargs`` take arguments
        of any other name, and without them there are no others. Values are
        plain JSON: whatever calls *function* converts them to enums, dates and
        instances.

        Supported are text, numbers, booleans and None; lists, sets, tuples and maps;
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

            name: The name that calls use; the function's own by default.

            description: What it does; by default its docstring down to the first
                section or doctest.

            without: Parameters to leave out, because the program fills them in:
                a context, a connection.

        Raises:
            InvalidToolError:
                If a model could not call it: a parameter can't be passed by
                name, or is of a type that JSON can't represent.

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

        described = _functions.describe_function(function, name, description, without)
        return cls(described.name, described.description, described.schema)


def _freeze_tool_parameters(given: Any) -> Mapping[str, Any]:
    owner, field = "ToolInfo", "parameters"
    if not isinstance(given, Mapping):
        problem = (
            f"is {shorten_repr(given)}; expected a mapping of names to Parameter, a "
            "JSON Schema, or None for a tool without parameters"
        )
        raise InvalidToolError(problem, owner, field)

    others = [name for name, each in given.items() if not isinstance(each, Parameter)]
    if not others:
        return _freeze_parameters(given, owner, field)

    if len(others) < len(given):
        problem = (
            "has a Parameter for some names and something else for "
            f"{shorten_repr(others[0])}; give each a Parameter, or one JSON Schema for "
            "all"
        )
        raise InvalidToolError(problem, owner, field)

    if KEYWORDS.isdisjoint(given):
        frozen = EMPTY_MAP
        contradiction = 'has no "type"'
    else:
        what = f"{owner}.{field}"
        frozen = freeze_map(given, what, InvalidToolError, keep_order=True)
        contradiction = find_contradiction(frozen)

    if contradiction:
        problem = (
            f"{contradiction}; a tool takes an object, so a JSON Schema describes one, "
            '{"type": "object", "properties": {...}} for example, and anything else is '
            "a mapping of names to Parameter"
        )
        raise InvalidToolError(problem, owner, field)

    return frozen
