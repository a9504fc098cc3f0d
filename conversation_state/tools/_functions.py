"""
What a function takes: its description for a model, and the arguments of a call.

msgspec makes the JSON Schema of a type, and converts JSON values to it. What it can't
represent is an error that names the parameter.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, time
from functools import partial
from inspect import Parameter
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from typing import get_type_hints as resolve_hints

import docstring_parser
import msgspec

from conversation_state._persistent import freeze
from conversation_state._wording import shorten_repr
from conversation_state.errors import DecodeError, InvalidToolError, Problem


def _name_function(function: Any) -> tuple[str, Any]:
    # And what is inside of partials.
    while isinstance(function, partial):
        function = function.func

    return str(getattr(function, "__name__", type(function).__name__)), function


def _list_parameters(
    function: Any, without: Collection[str] | None
) -> dict[str, Parameter]:
    """
    The parameters that a model can give, their annotations resolved; *without* is None
    for a call, which passes over those that take any number of positions.
    """
    shown, bare = _name_function(function)
    hidden = {*(without or ())}
    try:
        parameters = inspect.signature(function).parameters
        unknown = sorted(hidden - parameters.keys())
        # They stay in its signature, as defaults.
        while isinstance(function, partial):
            hidden |= function.keywords.keys()
            function = function.func

        inner = inspect.unwrap(bare if inspect.isroutine(bare) else type(bare).__call__)
    except Exception as error:  # noqa: BLE001 - whatever an object without one raises
        raise InvalidToolError(
            f"{shown}() is no tool: its signature is unknown ({error!s:.200})"
        ) from None

    if unknown:
        raise InvalidToolError(
            f"can't leave {shorten_repr(unknown[0])} out of {shown}(), which has no "
            f"such parameter; its parameters: {', '.join(parameters) or 'none'}"
        )

    found: dict[str, Parameter] = {}
    for name, each in parameters.items():
        is_star = each.kind is Parameter.VAR_POSITIONAL
        if name in hidden or (is_star and without is None):
            continue

        why = ""
        if each.kind is Parameter.POSITIONAL_ONLY:
            why = f"{name} is positional-only; remove the / after it"
        elif is_star:
            why = f"*{name} has no names; take a list, {name}: list[...]"
        elif name == "self" and each.annotation is Parameter.empty:
            why = "it is not bound; pass the method of an instance"

        if why:
            raise _refuse_parameter(
                shown, name, f"a model gives arguments by name, and {why}"
            )

        found[name] = _resolve_hint(inner, each, shown)

    return found


def _resolve_hint(function: Any, parameter: Parameter, shown: str) -> Parameter:
    name, kind = parameter.name, type(parameter.default)
    if kind.__name__ == "FieldInfo" and kind.__module__.startswith("pydantic"):
        raise _refuse_parameter(
            shown,
            name,
            f"the default of {name} is a Field, which only pydantic reads; write "
            f"{name}: Annotated[..., Field(...)], and the value as the default",
        )

    # One at a time: names in the hints of hidden parameters may not exist.
    if parameter.annotation is Parameter.empty:
        return parameter.replace(annotation=Any)

    if isinstance(parameter.annotation, type):
        return parameter

    thing = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    # Type parameters by name: before Python 3.12.4 only those of functions are found.
    names = getattr(function, "__globals__", {})
    own = {each.__name__: each for each in getattr(function, "__type_params__", ())}
    try:
        hints = resolve_hints(thing, names, own, include_extras=True)
    except Exception as error:  # noqa: BLE001 - any of an annotation: reported
        raise _refuse_parameter(
            shown,
            parameter.name,
            f"can't resolve the type of {parameter.name} ({type(error).__name__}: "
            f"{error}); define or import it in the module itself, not in a function "
            "and not under TYPE_CHECKING",
        ) from None

    return parameter.replace(annotation=hints[parameter.name])


def _refuse_type(shown: str, parameter: Parameter, error: Exception) -> Exception:
    kind = parameter.annotation
    name = kind.__qualname__ if isinstance(kind, type) else shorten_repr(kind)
    problem = str(error).partition("\n")[0]
    if problem.endswith(":"):  # msgspec goes on with its hooks, which are not used here
        problem = "not a type it knows"

    return _refuse_parameter(
        shown,
        parameter.name,
        f"msgspec can't represent {name}, the type of {parameter.name} "
        f"({type(error).__name__}: {problem:.200}); take another type, "
        "a dataclass or a TypedDict say",
    )


def _refuse_parameter(shown: str, name: str, why: str) -> InvalidToolError:
    return InvalidToolError(
        f"{shown}() is no tool: {why}, or leave the parameter out: without=({name!r},)"
    )


# Arguments


def convert_arguments(function: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """As `tools.read_arguments`."""
    shown, _ = _name_function(function)
    parameters = _list_parameters(function, None)
    others = [each for each in parameters.values() if each.kind is each.VAR_KEYWORD]
    named = {name: each for name, each in parameters.items() if each not in others}
    problems = [
        Problem(f"$.{name}", "required, but missing")
        for name, each in named.items()
        if each.default is Parameter.empty and name not in given
    ]
    arguments: dict[str, Any] = {}
    for name, value in given.items():
        path = f"$.{name}" if name.isidentifier() else f"$[{shorten_repr(name)}]"
        parameter = named.get(name, *others)
        if parameter is None:
            takes = ", ".join(named) or "nothing"
            problems.append(Problem(path, f"unknown; {shown} takes {takes}"))
            continue

        try:
            kind = _annotate_kind(parameter.annotation)
            arguments[name] = msgspec.convert(value, kind, str_keys=True)
        except msgspec.ValidationError as error:
            what, _, inner = str(error).partition(" - at `$")
            problems.append(Problem(path + inner[:-1], what[:1].lower() + what[1:]))
        except TypeError as error:
            raise _refuse_type(shown, parameter, error) from error
        except Exception as error:  # noqa: BLE001 - a class's own: the model reads it
            problems.append(Problem(path, f"{type(error).__name__}: {error!s:.200}"))

    if problems:
        raise DecodeError(tuple(problems))

    return arguments


# Descriptions


def describe_function(
    function: Callable[..., Any],
    name: str | None,
    description: str | None,
    without: Collection[str],
) -> tuple[str, str, dict[str, Any]]:
    """The name of *function* as a tool, what it does, and what it takes."""
    if not callable(function) or isinstance(function, type):
        what = "a class" if isinstance(function, type) else f"{shorten_repr(function)}"
        raise InvalidToolError(
            f"expected a function, got {what}; pass something that is called with the "
            "arguments and does the work"
        )

    if isinstance(without, str) or not isinstance(without, Collection):
        like = without if isinstance(without, str) else "ctx"
        raise InvalidToolError(
            f"without is {shorten_repr(without)}; expected names, like ({like!r},)"
        )

    own, bare = _name_function(function)
    if name is None and not own.isidentifier():
        raise InvalidToolError(f"{own} is no valid tool name; pass name=...")

    # An instance that is called does what its method does; `getdoc` gives the
    # docstring of its class, which says how to make one.
    text = inspect.getdoc(bare)
    if not hasattr(bare, "__name__"):
        text = type(bare).__call__.__doc__ or text

    described, texts = _parse_docstring(text)
    schema = _write_schema(own, _list_parameters(function, without), texts)
    return (
        own if name is None else name,
        described if description is None else description,
        schema,
    )


def _write_schema(
    shown: str, parameters: dict[str, Parameter], descriptions: Mapping[str, str]
) -> dict[str, Any]:
    kinds = []
    for each in parameters.values():
        try:
            kinds.append(_annotate_kind(each.annotation))
        except Exception as error:  # noqa: BLE001 - limits that exclude each other
            raise _refuse_type(shown, each, error) from None

    try:
        found, components = msgspec.json.schema_components(kinds, ref_template="{name}")
    except Exception as error:
        for each, kind in zip(parameters.values(), kinds, strict=True):
            try:
                msgspec.json.schema(kind)
            except Exception as reason:  # noqa: BLE001 - of an annotation, too
                raise _refuse_type(shown, each, reason) from None

        raise InvalidToolError(f"{shown}() is no tool: {error}") from error

    inliner = _Inliner(shown, components)
    properties: dict[str, Any] = {}
    others: Any = False
    for each, written in zip(parameters.values(), found, strict=True):
        schema = inliner.inline(written)
        texts = [descriptions.get(each.name, ""), schema.get("description", "")]
        if any(texts):
            # The type's own description applies here, too.
            schema["description"] = "\n".join(dict.fromkeys(filter(None, texts)))

        if each.kind is Parameter.VAR_KEYWORD:
            others = schema or True
        else:
            properties[each.name] = {**schema, **_write_default(each)}

    needed = [
        name for name in properties if parameters[name].default is Parameter.empty
    ]
    return {
        "type": "object",
        "properties": properties,
        **({"required": sorted(needed)} if needed else {}),
        "additionalProperties": others,
        **({"$defs": inliner.definitions} if inliner.definitions else {}),
    }


_FORMATS = {datetime: "date-time", time: "time"}


def _annotate_kind(kind: Any) -> Any:
    """*kind* with what msgspec does not say: texts in `Annotated`, formats of times."""
    if isinstance(kind, type) and kind in _FORMATS:
        extra = {"format": _FORMATS[kind]}
        return Annotated[kind, msgspec.Meta(extra_json_schema=extra)]

    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        notes = map(_read_note, kind.__metadata__)
        return Annotated[(_annotate_kind(inner[0]), *notes)]

    if origin in (Union, UnionType):
        return Union[tuple(map(_annotate_kind, inner))]  # noqa: UP007 - made of a tuple

    if origin in (list, set, frozenset, tuple, dict) and inner:
        generic: Any = origin
        return generic[tuple(map(_annotate_kind, inner))]

    return kind


_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")


def _read_note(note: Any) -> Any:
    """A text, a limit of `annotated_types`, or a `pydantic.Field`, as msgspec's."""
    if isinstance(note, msgspec.Meta):
        return note

    text = note if isinstance(note, str) else getattr(note, "description", None)
    found: dict[str, Any] = {"description": text} if isinstance(text, str) else {}
    # pydantic keeps the limits of a field as notes of the field.
    inner = getattr(note, "metadata", None)
    for each in (note, *(inner if isinstance(inner, list) else ())):
        for name in _LIMITS:
            limit = getattr(each, name, None)
            if isinstance(limit, int | float | str):
                found[name] = limit

    return msgspec.Meta(**found) if found else note


def _write_default(parameter: Parameter) -> dict[str, Any]:
    """Its default value, if that is one a model could give."""
    if parameter.default is Parameter.empty:
        return {}

    try:
        plain = msgspec.to_builtins(parameter.default, str_keys=True)
        msgspec.convert(plain, parameter.annotation, str_keys=True)
        freeze(plain, "default", InvalidToolError)
    except Exception:  # noqa: BLE001 - of any class: `required` says enough
        return {}

    return {"default": plain}


_MAX_PARTS = 5_000
_SCALARS = {str: "string", int: "integer", bool: "boolean"}


class _Inliner:
    """
    Writes every schema where it is used, because not every provider follows references;
    only recursive types are among the definitions.
    """

    def __init__(self, shown: str, components: Mapping[str, Any]) -> None:
        self.definitions: dict[str, Any] = {}
        self._shown = shown
        self._components = components
        self._open: list[str] = []
        self._parts = 0

    def inline(self, schema: Any) -> Any:
        # Classes that have several fields of the next class double it at each level.
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise InvalidToolError(
                f"{self._shown}() is no tool: its schema has more than {_MAX_PARTS:,} "
                "parts; take something simpler"
            )

        if isinstance(schema, list):
            return [self.inline(each) for each in schema]

        if not isinstance(schema, dict):
            return schema

        if isinstance(schema.get("$ref"), str):
            return self._inline_component(**schema)

        inlined = {key: self.inline(value) for key, value in schema.items()}
        if inlined.get("type") == "array":
            # Of anything, said aloud: "array schema missing items" is refused. Source:
            # https://github.com/sigoden/aichat/pull/1049
            inlined.setdefault("items", {})

        values = schema.get("enum")
        if isinstance(values, list) and len({type(each) for each in values}) == 1:
            inlined.setdefault("type", _SCALARS.get(type(values[0]), "null"))

        return inlined

    def _inline_component(self, **schema: Any) -> dict[str, Any]:
        name = schema.pop("$ref")
        if name not in self._open and name not in self.definitions:
            self._open.append(name)
            component = self.inline(self._components[name])
            self._open.pop()
            component.pop("title", None)
            if "properties" in component:
                component.setdefault("additionalProperties", False)

            if name not in self.definitions:
                return {**component, **schema}

            self.definitions[name] = component
        else:
            self.definitions.setdefault(name, {})  # it is recursive

        return {"$ref": f"#/$defs/{name}", **schema}


# Docstrings


# A doctest up to the next empty line.
_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def _parse_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """
    What comes before the first section, without doctests, and the description of each
    parameter; in the styles of Google, NumPy, Sphinx and this library.
    """
    text = _DOCTEST.sub("", inspect.cleandoc(docstring or "")).strip()
    try:
        parsed = docstring_parser.parse(text)
    except Exception:  # noqa: BLE001 - an IndexError, too: the text describes itself
        return text, {}

    # NumPy documents several at once (`x, y`), and stars may be written.
    fields = {
        name.strip().lstrip("*"): each.description.strip()
        for each in parsed.params
        for name in each.arg_name.split(",")
        if each.description
    }
    return (parsed.description or "").strip(), fields
