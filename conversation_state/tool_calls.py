"""Runs the call of a tool that a model made."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from conversation_state._canonical import describe_json, load_exactly
from conversation_state._wording import describe_value, shorten_repr
from conversation_state.errors import DecodeError, InvalidToolError
from conversation_state.messages import ToolMessage, format_exception
from conversation_state.parts import Part
from conversation_state.tools import ToolCall, read_arguments

__all__ = ["acall", "call"]

_LOGGER = logging.getLogger("conversation_state.tool_calls")


def call(
    function: Callable[..., Any] | Mapping[str, Callable[..., Any]], call: ToolCall
) -> ToolMessage:
    """
    The message that answers *call* with the result of *function*; of several by their
    names, with that of the one that is called.

    The arguments are checked against the type hints of *function* and converted to
    them, dates and instances of classes too (see `tools.read_arguments`): "5" is not
    an int. A text, a part and several parts are the content as they are, None is the
    empty text, and everything else is JSON. A `ToolMessage`, which may be marked with
    *is_error*, is the answer, with the id of the call.

    Whatever goes wrong is a message, marked with *is_error*, that the model can act
    on: that no tool has the name, what is wrong with each argument, with its path, or
    the class and the message of what *function* raised. That is also logged as an
    error, with its traceback, to ``conversation_state.tool_calls``, and Python prints
    on stderr what no handler takes: give
    ``logging.getLogger("conversation_state.tool_calls")`` a handler, or disable it. An
    interrupt is raised.

    Args:
        function: What `ToolInfo.from_function` describes: a function, a bound
            method, an instance that can be called, or a partial that fills in what
            the model does not. One alone is called whatever name the call has.
        call: The call, as the model made it.

    Raises:
        InvalidToolError: If *function* can't be called by a model, has a parameter of a
            type that can't be read from JSON, or is async: use `acall`.
        InvalidMessageError: If *call* has no id, so that no message can answer it.
        MissingExtraError: If the extra ``tools`` is not installed.
        TypeError: If *call* is not a `ToolCall`.

    >>> def add(a: int, b: int = 0) -> int:
    ...     return a + b
    >>> call(add, ToolCall("c1", "add", '{"a": 2, "b": 3}')).text
    '5'
    >>> print(call(add, ToolCall("c2", "add", '{"b": "3", "c": 1}')).text)
    invalid arguments:
      $.a: required, but missing
      $.b: expected `int`, got `str`
      $.c: unknown; add takes a, b
    >>> call({"add": add}, ToolCall("c3", "sum", '{"a": 2}')).text
    'there is no tool sum; there is add'
    """
    called, problem, arguments = _read_call(function, call)
    if problem:
        return _answer_error(call, problem)

    try:
        result = called(**arguments)
    except Exception as error:  # noqa: BLE001 - any of the tool's: the model reads it
        return _answer_exception(call, error)

    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()

        raise InvalidToolError(f"{call.name} is async; use await acall(function, call)")

    return _make_answer(call, result)


async def acall(
    function: Callable[..., Any] | Mapping[str, Callable[..., Any]], call: ToolCall
) -> ToolMessage:
    """
    As `call`, for a *function* that may be async. One that is not runs in this
    task, and keeps the event loop waiting.

    An exception that cancels the task is raised.
    """
    called, problem, arguments = _read_call(function, call)
    if problem:
        return _answer_error(call, problem)

    try:
        result = called(**arguments)
        if inspect.isawaitable(result):
            result = await result
    except Exception as error:  # noqa: BLE001 - any of the tool's: the model reads it
        return _answer_exception(call, error)

    return _make_answer(call, result)


def _read_call(function: Any, call: object) -> tuple[Any, str, dict[str, Any]]:
    """The function that *call* is of; what is wrong, or ""; and the arguments."""
    if not isinstance(call, ToolCall):
        raise TypeError(
            f"call is {shorten_repr(call)}; expected a ToolCall, one of "
            "message.tool_calls"
        )

    if isinstance(function, Mapping):
        # Servers of gpt-oss let the model's own marks through. Source:
        # https://github.com/pydantic/pydantic-ai/issues/7143,
        # https://github.com/tilesprivacy/tiles/pull/162.
        bare = call.name.partition("<|")[0].removeprefix("functions.")
        name = call.name if call.name in function else bare
        if name not in function:
            names = ", ".join(function) or "none"
            return None, f"there is no tool {call.name}; there is {names}", {}

        function = function[name]

    if not callable(function):
        raise InvalidToolError(
            "function: expected a function, or a mapping of names to functions, got "
            f"{describe_value(function)}"
        )

    return function, *_read_arguments(function, call)


def _read_arguments(
    function: Callable[..., Any], call: ToolCall
) -> tuple[str, dict[str, Any]]:
    try:
        given = load_exactly(call.arguments) if call.arguments.strip() else {}
    except DecodeError as error:
        return f"the arguments: {error.problems[0].what}", {}

    if not isinstance(given, dict):
        return f"the arguments are {describe_json(given)}; expected an object", {}

    try:
        return "", read_arguments(function, given)
    except DecodeError as error:
        lines = [f"  {each}" for each in error.problems]
        return "\n".join(["invalid arguments:", *lines]), {}


def _make_answer(call: ToolCall, result: Any) -> ToolMessage:
    if isinstance(result, ToolMessage):
        return result.replace(tool_call_id=call.id, tool_name=call.name)

    try:
        content = _make_content(result)
        return ToolMessage(content, tool_call_id=call.id, tool_name=call.name)
    except (TypeError, ValueError) as error:
        if not call.id:
            raise

        return _answer_exception(call, error)


def _make_content(result: Any) -> Any:
    if result is None:
        return ""

    if isinstance(result, Part):
        return [result]

    is_list = isinstance(result, (list, tuple)) and result
    if is_list and all(isinstance(each, Part) for each in result):
        return result

    if isinstance(result, str):
        return _replace_surrogates(result)

    from msgspec import to_builtins  # noqa: PLC0415 - an extra

    plain = to_builtins(result, str_keys=True, enc_hook=_convert_mapping)
    separators = (",", ":")
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=separators)
    return _replace_surrogates(text)


def _replace_surrogates(text: str) -> str:
    """
    *text* with U+FFFD for each half of a surrogate pair, which what a program printed
    may have: the tool did its work, and no provider takes these.
    """
    if text.isascii():
        return text

    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _convert_mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)

    raise TypeError(f"JSON can't represent {shorten_repr(value)}")


def _answer_exception(call: ToolCall, error: Exception) -> ToolMessage:
    _LOGGER.warning("the tool %s failed", call.name, exc_info=error)
    return _answer_error(call, format_exception(error))


def _answer_error(call: ToolCall, problem: str) -> ToolMessage:
    return ToolMessage(
        problem, tool_call_id=call.id, tool_name=call.name, is_error=True
    )
