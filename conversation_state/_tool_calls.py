"""
Runs the call of a tool that a model made.

What lives here: from a call to the message with its result. What does not: the
description of a tool (`tools`), and loops, retries or anything else of an agent.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import Parameter
from typing import Any, TypeAlias, Unpack, get_args, get_origin, get_type_hints

from conversation_state._canonical import (
    JsonPath,
    describe_json,
    dump,
    load_exactly,
    render_path,
)
from conversation_state._wording import shorten_repr
from conversation_state.codec import structurer, unstructure
from conversation_state.errors import DecodeError, InvalidToolError, Problem
from conversation_state.messages import ToolMessage, format_exception
from conversation_state.parts import Part
from conversation_state.tools import ToolCall

# Makes an argument of a JSON value and its path.
_Read: TypeAlias = Callable[[Any, JsonPath], Any]

_LOGGER = logging.getLogger("conversation_state.tools")


def call(function: Callable[..., Any], call: ToolCall) -> ToolMessage:
    """
    The message that answers *call* with the result of *function*.

    The arguments are checked against the type hints of *function* and converted
    to them, dates and instances of classes too (see `codec.structure`): "5" is not
    an int. A text, a part and several parts are the content as they are, None is the
    empty text, and everything else is JSON.

    Whatever goes wrong is a message, marked with *is_error*, that the model can act
    on: all that is wrong with its arguments, each with its path, or the class and
    the message of what *function* raised, which is logged with its traceback to
    ``conversation_state.tools``. An interrupt is raised.

    Args:
        function: What `ToolInfo.from_function` describes: a function, a bound
            method, an instance that can be called, or a partial that fills in what
            the model does not.

        call: The call, as the model made it.

    Raises:
        InvalidToolError:
            If *function* can't be called by a model, or is async: use `acall`.

        InvalidMessageError:
            If *call* has no id, so that no message can answer it.

        TypeError:
            If *call* is not a `ToolCall`, or a type hint can't be read from JSON.

    >>> def add(a: int, b: int = 0) -> int:
    ...     return a + b
    >>> call(add, ToolCall("c1", "add", '{"a": 2, "b": 3}')).text
    '5'
    >>> print(call(add, ToolCall("c2", "add", '{"b": "3", "c": 1}')).text)
    invalid arguments:
      $.a: required, but missing
      $.b: expected an integer, got '3'
      $.c: unknown; add takes a, b
    """
    problem, arguments = _read_arguments(function, call)
    if problem:
        return _answer_error(call, problem)

    try:
        result = function(**arguments)
    except Exception as error:  # noqa: BLE001 - any of the tool's: the model reads it
        return _answer_exception(call, error)

    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()

        raise InvalidToolError(f"{call.name} is async; use await acall(function, call)")

    return _make_answer(call, result)


async def acall(
    function: Callable[..., Awaitable[Any] | Any], call: ToolCall
) -> ToolMessage:
    """
    As `call`, for a *function* that may be async. One that is not runs in this
    task, and keeps the event loop waiting.

    An exception that cancels the task is raised.
    """
    problem, arguments = _read_arguments(function, call)
    if problem:
        return _answer_error(call, problem)

    try:
        result = function(**arguments)
        if inspect.isawaitable(result):
            result = await result
    except Exception as error:  # noqa: BLE001 - any of the tool's: the model reads it
        return _answer_exception(call, error)

    return _make_answer(call, result)


def _read_arguments(
    function: Callable[..., Any], call: object
) -> tuple[str, dict[str, Any]]:
    """
    What is wrong with the arguments of *call*, "" if nothing is; and the arguments.
    """
    if not isinstance(call, ToolCall):
        raise TypeError(
            f"call is {shorten_repr(call)}; expected a ToolCall, one of "
            "message.tool_calls"
        )

    readers, read_others, required = _find_readers(function)
    try:
        given = load_exactly(call.arguments) if call.arguments.strip() else {}
    except DecodeError as error:
        return f"the arguments: {error.problems[0].what}", {}

    if not isinstance(given, dict):
        return f"the arguments are {describe_json(given)}; expected an object", {}

    arguments: dict[str, Any] = {}
    problems = [
        Problem(render_path((None, name)), "required, but missing")
        for name in required
        if name not in given
    ]
    for name, value in given.items():
        read = readers.get(name, read_others)
        path: JsonPath = (None, name)
        if read is None:
            takes = ", ".join(readers) or "nothing"
            what = f"unknown; {call.name} takes {takes}"
            problems.append(Problem(render_path(path), what))
            continue

        try:
            arguments[name] = read(value, path)
        except DecodeError as error:
            problems += error.problems

    if problems:
        return "invalid arguments:\n" + "\n".join(f"  {each}" for each in problems), {}

    return "", arguments


def _find_readers(
    function: Callable[..., Any],
) -> tuple[dict[str, _Read], _Read | None, list[str]]:
    """
    How to read each parameter of *function*, how to read others if it takes any,
    and the names of those it needs.
    """
    hidden: set[str] = set()
    target: Any = function
    while isinstance(target, partial):
        hidden |= target.keywords.keys()
        target = target.func

    if not inspect.isroutine(target) and callable(target):
        target = type(target).__call__

    try:
        parameters = inspect.signature(function).parameters
        hints = get_type_hints(inspect.unwrap(target))
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise InvalidToolError(
            f"can't call {shorten_repr(function)}: its signature is unknown ({error})"
        ) from error

    readers: dict[str, _Read] = {}
    read_others: _Read | None = None
    required: list[str] = []
    for name, parameter in parameters.items():
        hint = hints.get(name, Any)
        if name in hidden or parameter.kind is Parameter.VAR_POSITIONAL:
            continue

        if parameter.kind is Parameter.POSITIONAL_ONLY:
            raise InvalidToolError(
                f"can't call {shorten_repr(function)}: {name} is positional-only, and "
                "a model gives arguments by name; remove the / after it"
            )

        if parameter.kind is not Parameter.VAR_KEYWORD:
            readers[name] = structurer(hint)
            if parameter.default is Parameter.empty:
                required.append(name)
        elif get_origin(hint) is Unpack:
            fields = get_args(hint)[0]
            own = get_type_hints(fields)
            readers |= {each: structurer(own[each]) for each in own}
            required += sorted(fields.__required_keys__)
        else:
            read_others = structurer(hint)

    return readers, read_others, required


def _make_answer(call: ToolCall, result: Any) -> ToolMessage:
    content: Any
    if result is None:
        content = ""
    elif isinstance(result, (str, Part)):
        content = [result] if isinstance(result, Part) else result
    elif (
        isinstance(result, (list, tuple))
        and result
        and all(isinstance(each, Part) for each in result)
    ):
        content = result
    else:
        try:
            content = dump(unstructure(result)).decode()
        except (TypeError, ValueError) as error:
            return _answer_exception(call, error)

    try:
        return ToolMessage(content, tool_call_id=call.id, tool_name=call.name)
    except ValueError as error:
        if not call.id:
            raise

        return _answer_exception(call, error)


def _answer_exception(call: ToolCall, error: Exception) -> ToolMessage:
    _LOGGER.warning("the tool %s failed", call.name, exc_info=error)
    return _answer_error(call, format_exception(error))


def _answer_error(call: ToolCall, problem: str) -> ToolMessage:
    return ToolMessage(
        problem, tool_call_id=call.id, tool_name=call.name, is_error=True
    )
