"""Describes functions to a model: their name, description and JSON Schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from functools import partial
from inspect import Parameter
from types import SimpleNamespace
from typing import Any, Unpack, get_args, get_origin

from conversation_state._wording import shorten_repr
from conversation_state.errors import InvalidToolError
from conversation_state.tools._classes import Docstring, parse_docstring
from conversation_state.tools._parameters import annotate_schema
from conversation_state.tools._types import Schema, SchemaWriter


def describe_function(
    function: Callable[..., Any],
    name: str | None,
    description: str | None,
    without: Collection[str],
) -> tuple[str, str, Schema]:
    """The name of *function* as a tool, what it does, and what it takes."""
    if not callable(function) or isinstance(function, type):
        what = "a class" if isinstance(function, type) else f"{shorten_repr(function)}"
        raise InvalidToolError(
            f"expected a function, got {what}; pass something that is called with the "
            "arguments and does the work"
        )

    bare = function
    while isinstance(bare, partial):
        bare = bare.func

    kind: type = type(bare)
    own = getattr(bare, "__name__", kind.__name__)
    if name is None:
        name = str(own)
        if not name.isidentifier():
            raise InvalidToolError(f"{name} is no valid tool name; pass name=...")

    # An instance that is called does what its method does; `getdoc` gives the
    # docstring of its class, which says how to make one.
    text = inspect.getdoc(bare)
    if not hasattr(bare, "__name__"):
        calls = [vars(each).get("__call__") for each in kind.__mro__]
        text = next((each.__doc__ for each in calls if each and each.__doc__), text)

    docstring = parse_docstring(text)
    schema = _Signature(function, f"{own}()").schema(docstring, without)
    if description is None:
        description = docstring.description

    return name, description, schema


def _unwrap_callable(function: Any) -> Any:
    """What is inside of partials, callable objects and wrappers: it has the hints."""
    while isinstance(function, partial):
        function = function.func

    if not inspect.isroutine(function):
        function = type(function).__call__

    return inspect.unwrap(function)


class _Signature:
    def __init__(self, function: Any, shown: str) -> None:
        self._shown = shown
        self._writer = SchemaWriter(shown)
        try:
            parameters = dict(inspect.signature(function).parameters)
            self._inner = _unwrap_callable(function)
        except (ValueError, TypeError, NameError) as error:
            raise InvalidToolError(
                f"can't describe {shown}: its signature is unknown ({error})"
            ) from None

        # Arguments that a partial sets by name stay in its signature as defaults.
        while isinstance(function, partial):
            for name in function.keywords:
                parameters.pop(name, None)

            function = function.func

        self._parameters = parameters

    def schema(self, docstring: Docstring, without: Collection[str]) -> Schema:
        selected = self._select_parameters(without)
        is_open = bool(selected) and selected[-1].kind is Parameter.VAR_KEYWORD
        keywords = selected.pop() if is_open else None

        schema = self._writer.write_object(
            ((each, self._resolve_hint(each)) for each in selected), docstring.fields
        )
        if keywords is not None:
            description = docstring.fields.get(keywords.name, "")
            self._add_keywords(schema, keywords, description)

        if self._writer.definitions:
            schema["$defs"] = self._writer.definitions

        return schema

    def _add_keywords(
        self, schema: Schema, parameter: Parameter, description: str
    ) -> None:
        kind, name = self._resolve_hint(parameter), parameter.name
        if get_origin(kind) is Unpack:
            fields = self._writer.resolve(get_args(kind)[0], name)
            schema["properties"] |= fields["properties"]
            required = [*schema.get("required", ()), *fields.get("required", ())]
            if required:
                schema["required"] = sorted(required)
        else:
            others = self._writer.write(kind, name)
            others = annotate_schema(others, description, Parameter.empty)
            schema["additionalProperties"] = others or True

    def _select_parameters(self, without: Any) -> list[Parameter]:
        parameters = self._parameters
        if isinstance(without, str) or not isinstance(without, Iterable):
            like = without if isinstance(without, str) else "ctx"
            raise InvalidToolError(
                f"without is {shorten_repr(without)}; expected names, like ({like!r},)"
            )

        without = list(without)
        for name in without:
            if name not in parameters:
                known = ", ".join(parameters) or "none"
                raise InvalidToolError(
                    f"can't leave {shorten_repr(name)} out of {self._shown}, which has "
                    f"no such parameter; its parameters: {known}"
                )

        kept = [each for name, each in parameters.items() if name not in without]
        for each in kept:
            name, why = each.name, ""
            if each.kind is Parameter.POSITIONAL_ONLY:
                why = (
                    f"{name} is positional-only, and a model gives arguments by name; "
                    "remove the / after it"
                )
            elif each.kind is Parameter.VAR_POSITIONAL:
                why = (
                    f"*{name} has no names for what it takes, and a model gives "
                    f"arguments by name; take a list, {name}: list[...]"
                )
            elif name == "self" and each.annotation is Parameter.empty:
                why = "it is not bound; pass the method of an instance"

            if why:
                raise InvalidToolError(
                    f"can't describe {self._shown}: {why}, or leave it out: "
                    f"without=({shorten_repr(name)},)"
                )

        return kept

    def _resolve_hint(self, parameter: Parameter) -> Any:
        """
        The annotation of *parameter*, resolved in the module of the function.

        One at a time: names in other annotations may not exist at run time.
        """
        thing = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        if parameter.annotation is Parameter.empty:
            return Any

        # Type parameters by name: before 3.12.4 only those of functions are found.
        names = getattr(self._inner, "__globals__", {})
        own = {
            each.__name__: each for each in getattr(self._inner, "__type_params__", ())
        }
        hints = self._writer.hints(
            thing, parameter.name, globalns=names, localns={**names, **own}
        )
        return hints[parameter.name]
