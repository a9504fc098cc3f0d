"""The description of a tool for a model: its name, purpose and parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    check_text,
    final,
    freeze_map,
    freeze_notes,
    thaw,
)
from conversation_state._wording import describe_value, shorten_repr
from conversation_state.errors import InvalidToolError, MissingExtraError
from conversation_state.tools._parameters import (
    MAX_PARAMETER_LEVELS,
    Parameter,
    freeze_parameters,
    parameters_schema,
)

__all__ = [
    "MAX_PARAMETER_LEVELS",
    "Parameter",
    "ToolChoice",
    "ToolInfo",
    "is_schema",
    "parameters_schema",
    "read_arguments",
]


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
        InvalidToolError:
            If there is no name; if *parameters* are something else, or some are
            a `Parameter` and some are not; if a JSON Schema is of something else than
            an object, of type ``string`` for example; if text holds half of a
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
            InvalidToolError:
                If a model could not call it: a parameter can't be passed by
                name, or is of a type that msgspec can't represent in JSON.

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
        DecodeError:
            If an argument is missing, unknown, or not of its type: one problem for
            each, with its path, where ``$`` is *given*.

        InvalidToolError:
            If a model can't call *function*, as in `ToolInfo.from_function`.

        MissingExtraError:
            If the extra ``tools`` is not installed.

        TypeError:
            If *given* is not a mapping.

    >>> def arrive(minute: int, late: bool = False): ...
    >>> read_arguments(arrive, {"minute": 30})
    {'minute': 30}
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"given: expected a mapping, got {describe_value(given)}")

    arguments = _load_functions("read_arguments").convert_arguments(function, given)
    return dict(arguments)


def _load_functions(wanted: str) -> Any:
    try:
        from conversation_state.tools import _functions  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(wanted, "tools") from error

    return _functions


def _freeze_tool_parameters(given: Any) -> Mapping[str, Any]:
    owner, field = "ToolInfo", "parameters"
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

    if len(others) < len(given):
        raise InvalidToolError(
            "has a Parameter for some names and something else for "
            f"{shorten_repr(others[0])}; give each a Parameter, or one JSON Schema for "
            "all",
            owner,
            field,
        )

    # Most likely the properties alone, without the object around them.
    if _KEYWORDS.isdisjoint(given):
        frozen, problem = EMPTY_MAP, 'has no "type"'
    else:
        what = f"{owner}.{field}"
        frozen = freeze_map(given, what, InvalidToolError, keep_order=True)
        # No more than its own type: a search through references and conditions would be
        # half of a validator, and the provider has a whole one.
        kind = frozen.get("type", "object")
        is_object = kind == "object" or (isinstance(kind, tuple) and "object" in kind)
        problem = "" if is_object else f'has "type": {shorten_repr(thaw(kind))}'

    if problem:
        raise InvalidToolError(
            f"{problem}; a tool takes an object, so a JSON Schema describes one, "
            '{"type": "object", "properties": {...}} for example, and anything else is '
            "a mapping of names to Parameter",
            owner,
            field,
        )

    return frozen
