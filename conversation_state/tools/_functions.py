"""
From functions to what a model is told of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from functools import partial
from inspect import Parameter, getattr_static
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, NamedTuple, Unpack, get_args, get_origin

from conversation_state.errors import InvalidToolError
from conversation_state.tools._docstrings import Told, of_text
from conversation_state.tools._types import Schema, Schemas, with_words

__all__ = ["ToolTold", "told_of"]


_PARAMETERS = "__type_params__"


class ToolTold(NamedTuple):
    """
    A function, as a model is told of it.

    Attributes:
        name: What it is called by.

        description: What it does.

        schema: What it takes, as JSON Schema.
    """

    name: str
    description: str
    schema: Schema


def told_of(
    function: Callable[..., Any],
    name: str | None,
    description: str | None,
    without: Collection[str],
) -> ToolTold:
    """
    What a model has to be told of *function*.
    """
    if not callable(function) or isinstance(function, type):
        what = "a class" if isinstance(function, type) else f"{function!r:.60}"
        msg = (
            f"expected a function, got {what}; give something that is called with the "
            "arguments and does the work"
        )
        raise InvalidToolError(msg)

    bare = function
    while isinstance(bare, partial):
        bare = bare.func

    kind: type = type(bare)
    own = getattr(bare, "__name__", kind.__name__)
    if name is None:
        name = str(own)
        if not name.isidentifier():
            msg = f"{name} is no name to call a tool by; give one: name=..."
            raise InvalidToolError(msg)

    docstring = inspect.getdoc(bare)
    if not hasattr(bare, "__name__"):
        calls = [vars(each).get("__call__") for each in kind.__mro__]
        docstring = next(
            (each.__doc__ for each in calls if each and each.__doc__), docstring
        )

    told = of_text(docstring)
    schema = _Signature(function, f"{own}()").schema(told, without)
    if description is None:
        description = told.description

    return ToolTold(name, description, schema)


def _innermost(function: Any) -> Any:
    """
    What was wrapped, bound and made callable: where names and hints are.
    """
    while not isinstance(function, FunctionType):
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = inspect.unwrap(function)
        else:
            call = getattr_static(type(function), "__call__", None)
            if not isinstance(call, FunctionType):
                return function

            function = call

    return inspect.unwrap(function)


class _Signature:
    """
    What a function takes.
    """

    def __init__(self, function: Any, shown: str) -> None:
        self._shown = shown
        self._schemas = Schemas(shown)
        try:
            parameters = dict(inspect.signature(function).parameters)
            self._inner = _innermost(function)
        except (ValueError, TypeError, NameError) as error:
            msg = f"can't describe {shown}: nobody knows what it takes ({error})"
            raise InvalidToolError(msg) from None

        while isinstance(function, partial):
            for name in function.keywords:
                parameters.pop(name, None)

            function = function.func

        self._parameters = parameters

    def schema(self, told: Told, without: Collection[str]) -> Schema:
        """
        All of it, but for *without*, as JSON Schema.
        """
        schema: Schema = {"type": "object", "additionalProperties": False}
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for name, parameter in self._kept(without).items():
            kind = self._hint(parameter)
            if parameter.kind is Parameter.VAR_KEYWORD:
                if get_origin(kind) is Unpack:
                    fields = self._schemas.written(get_args(kind)[0], name)
                    properties |= fields["properties"]
                    required += fields.get("required", ())
                else:
                    others = with_words(
                        self._schemas.of(kind, name),
                        told.fields.get(name, ""),
                        Parameter.empty,
                    )
                    schema["additionalProperties"] = others or True

                continue

            found = self._schemas.of(kind, name)
            said = told.fields.get(name, "")
            properties[name] = with_words(found, said, parameter.default)
            if parameter.default is Parameter.empty:
                required.append(name)

        schema["properties"] = properties
        if required:
            schema["required"] = sorted(required)

        if self._schemas.definitions:
            schema["$defs"] = self._schemas.definitions

        return schema

    def _kept(self, without: Any) -> dict[str, Parameter]:
        parameters = self._parameters
        if isinstance(without, str) or not isinstance(without, Iterable):
            like = without if isinstance(without, str) else "ctx"
            msg = f"without is {without!r:.60}; expected names, like ({like!r},)"
            raise InvalidToolError(msg)

        without = list(without)
        for name in without:
            if name not in parameters:
                known = ", ".join(parameters) or "none"
                msg = (
                    f"can't leave {name!r} out of {self._shown}, which has no such "
                    f"parameter; its parameters: {known}"
                )
                raise InvalidToolError(msg)

        kept = {n: each for n, each in parameters.items() if n not in without}
        for name, each in kept.items():
            why = ""
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
                why = "it is not bound; give the method of an instance"

            if why:
                msg = (
                    f"can't describe {self._shown}: {why}, or leave it out: "
                    f"without=({name!r},)"
                )
                raise InvalidToolError(msg)

        return kept

    def _hint(self, parameter: Parameter) -> Any:
        """
        The annotation of *parameter*, whose names are those of the module in
        which the function was written.

        One at a time: others may not be known while a program runs.
        """
        thing = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        if parameter.annotation is Parameter.empty:
            return Any

        # Type parameters by name: before 3.12.4 only those of functions are found.
        names = getattr(self._inner, "__globals__", {})
        own = {each.__name__: each for each in getattr(self._inner, _PARAMETERS, ())}
        hints = self._schemas.hints(
            thing, parameter.name, globalns=names, localns={**names, **own}
        )
        return hints[parameter.name]
