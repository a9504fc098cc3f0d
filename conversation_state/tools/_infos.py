"""The description of a tool for a model: its name, purpose and parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

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
from conversation_state._wording import describe_value, shorten_repr, with_article
from conversation_state.errors import InvalidToolError, MissingExtraError

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
        InvalidToolError: If the type is unknown; if *items* are of something else than
            an array, *properties* of something else than an object, or *enum* has a
            value twice or one of another type; if parameters are nested more than 45
            levels deep.

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
        for field, problem in self._freeze_fields():
            raise InvalidToolError(problem, "Parameter", field)

        # Each parameter has its depth already, so no level is walked twice.
        inside = [*self.properties.values(), *([self.items] if self.items else [])]
        levels = 1 + max([each._levels for each in inside], default=0)
        if levels > MAX_PARAMETER_LEVELS:
            raise InvalidToolError(
                f"Parameter is nested more than {MAX_PARAMETER_LEVELS} levels deep"
            )

        object.__setattr__(self, "_levels", levels)

    def _freeze_fields(self) -> Iterator[tuple[str, str]]:
        """Freeze the fields; yields what is wrong, and with which field."""
        if not isinstance(self.type, str) or self.type not in _TYPES:
            shown = shorten_repr(self.type)
            yield "type", f"is {shown}; expected one of {', '.join(_TYPES)}"

        object.__setattr__(self, "type", str.__str__(self.type))
        if self.required.__class__ is not bool:
            yield "required", f"is {shorten_repr(self.required)}; expected a bool"

        text = check_text(self.description, "Parameter.description", InvalidToolError)
        object.__setattr__(self, "description", text)
        if self.enum != ():
            yield from self._freeze_enum(self.enum)

        if self.properties is not EMPTY_MAP:
            properties = freeze_parameters(self.properties, "Parameter", "properties")
            object.__setattr__(self, "properties", properties)
            if properties and self.type != "object":
                kind = with_article(self.type)
                yield "properties", f"are given for {kind}; only an object has them"

        items: Any = self.items
        if items is None:
            return

        if self.type != "array":
            kind = with_article(self.type)
            yield "items", f"are given for {kind}; only an array has items"

        if not isinstance(items, Parameter):
            yield "items", f"is {shorten_repr(items)}; expected a Parameter or None"

        if items.required:
            problem = "are required; an array holds any number of items, so only the "
            yield "items", f"{problem}array itself can be"

    def _freeze_enum(self, given: Any) -> Iterator[tuple[str, str]]:
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            yield "enum", f"is {shorten_repr(given)}; expected a sequence of values"

        kinds = _VALUE_TYPES.get(self.type, ())
        if given and not kinds:
            problem = f"has values for an {self.type}; an enum belongs to its items or "
            yield "enum", f"{problem}properties"

        what = "Parameter.enum has a value that"
        values = tuple([freeze(each, what, InvalidToolError) for each in given])
        # The class is compared, because True is an int and equal to 1.
        for at, value in enumerate(values):
            if value.__class__ not in kinds:
                yield "enum", f"has {shorten_repr(given[at])}; expected {self.type}"

        if len({*values}) != len(values):
            twice = next(each for each in values if values.count(each) > 1)
            yield "enum", f"has {shorten_repr(twice)} more than once"

        object.__setattr__(self, "enum", values)


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
        InvalidToolError: If *parameters* is not a mapping of names to `Parameter`.

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


@final
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


# The keywords that can describe an object. Any of them distinguishes a schema from
# a mapping of names to something that is not a Parameter.
_KEYWORDS = frozenset(
    {
        *("type", "const", "enum", "$ref", "$dynamicRef", "$recursiveRef"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
        *("properties", "patternProperties", "additionalProperties"),
        *("unevaluatedProperties", "propertyNames", "required"),
        *("minProperties", "maxProperties", "dependentRequired"),
        *("dependentSchemas", "dependencies"),
    }
)


def is_schema(parameters: Mapping[str, Any]) -> bool:
    """
    Whether the parameters of a tool are a JSON Schema; else each is a `Parameter`,
    whatever its name.
    """
    # An empty mapping is not a schema.
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
        unknown: Fields that a newer version wrote with the known ones; kept,
            and written back. None has the name of a known one.

    Raises:
        InvalidToolError: If there is no name; if *parameters* are something else, or
            some are a `Parameter` and some are not; if a JSON Schema is of something
            else than an object, of type ``string`` for example; if text holds half of a
            surrogate pair.

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
            given = getattr(self, field)
            text = check_text(given, f"ToolInfo.{field}", InvalidToolError)
            object.__setattr__(self, field, text)

        if not self.name:
            raise InvalidToolError(
                "is empty; a model calls a tool by its name", "ToolInfo", "name"
            )

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
        of any other name, and without them there are no others.

        Types are those that msgspec knows: text, numbers, booleans and None;
        lists, sets, tuples and maps; ``Literal``, enums and unions; dates, UUIDs,
        decimals and bytes, as texts; dataclasses, attrs classes, ``TypedDict``,
        ``NamedTuple`` and ``msgspec.Struct``, recursive or not; ``Any``, for any
        JSON value. Of a union one member at most may be a text, an array or a
        class. ``Annotated`` adds a description (a text) or the bounds of a
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
            InvalidToolError: If a model could not call it: a parameter can't be passed
                by name, or is of a type that msgspec can't represent in JSON.
            MissingExtraError: If the extra ``tools`` is not installed.

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
        functions = _load_functions("ToolInfo.from_function")
        return cls(*functions.describe_function(function, name, description, without))


def read_arguments(
    function: Callable[..., Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """
    The arguments of a call, which are JSON values, converted to the type hints of
    *function*.

    Taken strictly: "5" is not an int, and 5 not a str. Keys that a class does not know
    are left out.

    Raises:
        DecodeError: If an argument is missing, unknown, or not of its type: one problem
            for each, with its path, where ``$`` is *given*.
        InvalidToolError: If a model can't call *function*, as in
            `ToolInfo.from_function`.
        MissingExtraError: If the extra ``tools`` is not installed.
        TypeError: If *given* is not a mapping.

    >>> def arrive(minute: int, late: bool = False): ...
    >>> read_arguments(arrive, {"minute": 30})
    {'minute': 30}
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"given: expected a mapping, got {describe_value(given)}")

    functions = _load_functions("reading the arguments of a call")
    return dict(functions.convert_arguments(function, given))


def _load_functions(wanted: str) -> Any:
    try:
        from conversation_state.tools import _functions  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(wanted, "tools") from error

    return _functions


def _freeze_tool_parameters(given: Any) -> Mapping[str, Any]:
    owner, field, problem = "ToolInfo", "parameters", ""
    if not isinstance(given, Mapping):
        raise InvalidToolError(
            f"is {shorten_repr(given)}; expected a mapping of names to Parameter, a "
            "JSON Schema, or None for a tool without parameters",
            owner,
            field,
        )

    others = [name for name, each in given.items() if not isinstance(each, Parameter)]
    if not others:
        return freeze_parameters(given, owner, field)

    frozen = EMPTY_MAP
    if len(others) < len(given):
        problem = (
            "has a Parameter for some names and something else for "
            f"{shorten_repr(others[0])}; give each a Parameter, or one JSON Schema for "
            "all"
        )
    elif _KEYWORDS.isdisjoint(given):
        # Most likely the properties alone, without the object around them.
        problem = f'has no "type"; {_EXPECTED}'
    else:
        what = f"{owner}.{field}"
        frozen = freeze_map(given, what, InvalidToolError, keep_order=True)
        # No more than its own type: a search through references and conditions would be
        # half of a validator, and the provider has a whole one.
        kind = frozen.get("type", "object")
        if kind != "object" and not (isinstance(kind, tuple) and "object" in kind):
            problem = f'has "type": {shorten_repr(thaw(kind))}; {_EXPECTED}'

    if problem:
        raise InvalidToolError(problem, owner, field)

    return frozen


_EXPECTED = (
    "a tool takes an object, so a JSON Schema describes one, "
    '{"type": "object", "properties": {...}} for example, and anything else is '
    "a mapping of names to Parameter"
)
