"""Parses a value from the JSON in a message: finds it there, and walks a path in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any, Literal, TypeVar, overload

from conversation_state._canonical import (
    JsonPath,
    describe_json,
    load_exactly,
    render_path,
)
from conversation_state._wording import shorten_repr
from conversation_state.codec import structurer
from conversation_state.errors import DecodeError, ParseError, Problem
from conversation_state.messages import Message

__all__ = ["parse"]

T = TypeVar("T")

_MAX_LISTED = 10
# How providers call it when they had to stop a model.
_CUT_OFF = frozenset(
    {"interrupted", "length", "max_tokens", "MAX_TOKENS", "max_output_tokens"}
)
# As CommonMark has fenced blocks, but indented as far as a list may indent them. One
# that is not closed goes on to the end. Nothing is tried twice from one line's start.
_FENCED_BLOCK = re.compile(
    r"^[ \t]*(?P<fence>(?P<sign>[`~])(?P=sign){2,})(?P<label>(?:(?!(?P=sign)).)*)$\n?"
    r"(?s:(?P<content>.*?))(?:^[ \t]*(?P=fence)(?P=sign)*[ \t\r]*$|\Z)",
    re.MULTILINE,
)
# No array is longer, and `int` refuses texts of thousands of digits.
_POSITION = re.compile(r"-?\d{1,18}", re.ASCII)


@overload
def parse(
    message: Message,
    type: type[T],
    *,
    source: Literal["content", "tool_call"] = "content",
    path: str | Sequence[str | int] = "",
    call: str | int | None = None,
) -> T: ...
@overload
def parse(
    message: Message,
    type: Any,
    *,
    source: Literal["content", "tool_call"] = "content",
    path: str | Sequence[str | int] = "",
    call: str | int | None = None,
) -> Any: ...
def parse(
    message: Message,
    type: Any,
    *,
    source: Literal["content", "tool_call"] = "content",
    path: str | Sequence[str | int] = "",
    call: str | int | None = None,
) -> Any:
    """
    The value of *type* that *message* contains as JSON.

    The JSON is the whole text of the message, or else a fenced block in it:
    the one labelled ``json``, or without any such, the one without a label
    that is JSON. Nothing else is guessed: of several different blocks none is
    taken, and no JSON is looked for in prose. Linear in the text.

    A *type* may be an attrs class, a dataclass, a TypedDict, a NamedTuple (an array),
    an Enum or a Literal; str, int, float, bool, None, Any; texts that are a datetime,
    date, time, UUID, Decimal, Path or base64 (bytes); lists, tuples, sets and dicts of
    all of these; and what this library is made of, as `codec` writes it. Its values
    are taken strictly: "5" is not an int, and 5 not a str; 5.0 is an int, as in JSON
    Schema. Keys that a class does not know are left out.

    A union may be of str, int, float, bool and None, and of one other type or of
    classes, each with a Literal or a field without a default that no other one has. A
    text stays a text where the union has str.

    Args:
        message: Any message. Only its text is content: reasoning and refusals
            are not.
        type: What to make.
        source: Where the JSON is: in the ``content``, or in the arguments of a
            ``tool_call``.
        path: Where in that the value is: keys and positions, with dots between
            them (``items.0.name``) or as a sequence, which also takes keys with
            dots in them; "" is all of it.
        call: Which tool call: the first of that name, or the one at that
            position, where -1 is the last. None is the first.

    Raises:
        ParseError: If the message contains no such value, with all problems (the first
            hundred) and their paths, where ``$`` is the message. An error that a class
            raised itself is the cause.
        TypeError: If an argument is of a wrong type, or *type* can't be read from JSON.
        ValueError: If *source* is neither, or *call* is given and *source* is
            ``content``.

    >>> from conversation_state import AssistantMessage
    >>> message = AssistantMessage('{"trains": [{"to": "Bern", "leaves": "12:30"}]}')
    >>> parse(message, dict[str, str], path="trains.0")
    {'to': 'Bern', 'leaves': '12:30'}
    """
    # First, since a wrong argument is an error whatever the model wrote.
    steps = _check_arguments(message, source, path, call)
    structure = structurer(type)
    if source == "content":
        at: JsonPath = (None, "content")
        text = message.text
        if not text.strip() and message.refusal:
            refusal = describe_json(message.refusal)
            raise _parse_error(at, f"the model refused: {refusal}")

        value = _parse_json(message, text, at, may_be_fenced=True)
    else:
        position = _find_call(message, call)
        at = (((None, "tool_calls"), position), "arguments")
        value = _parse_json(message, message.tool_calls[position].arguments, at)

    value, at = _resolve_path(value, at, steps)
    try:
        return structure(value, at)
    except DecodeError as error:
        # The DecodeError itself is not a cause: it says the same.
        raise ParseError(error.problems) from error.__cause__


def _check_arguments(
    message: object, source: object, path: object, call: object
) -> tuple[str | int, ...]:
    problem = ""
    error: type[Exception] = TypeError
    if isinstance(path, str):
        path = path.split(".") if path else ()

    steps: tuple[Any, ...] = tuple(path) if isinstance(path, (list, tuple)) else (None,)
    if not isinstance(message, Message):
        problem = f"message is {shorten_repr(message)}; expected a Message"
    elif source not in ("content", "tool_call"):
        error = ValueError
        problem = f"source is {shorten_repr(source)}; expected 'content' or 'tool_call'"
    elif isinstance(call, bool) or not isinstance(call, (str, int, type(None))):
        problem = (
            f"call is {shorten_repr(call)}; expected the name of a tool call, its "
            "position, or None for the first"
        )
    elif call is not None and source == "content":
        error = ValueError
        problem = (
            f"call is {shorten_repr(call)} and source is 'content'; pass "
            "source='tool_call' to parse a call's arguments"
        )
    elif any(isinstance(s, bool) or not isinstance(s, (str, int)) for s in steps):
        problem = (
            f"path is {shorten_repr(path)}; expected keys and positions with dots "
            "between them, like 'items.0.name', or a list or tuple of them"
        )

    if problem:
        raise error(problem)

    return steps


def _parse_error(at: JsonPath, what: str) -> ParseError:
    return ParseError((Problem(render_path(at), what),))


def _list_names(names: Collection[str]) -> str:
    first = ", ".join(map(describe_json, islice(names, _MAX_LISTED)))
    more = len(names) - _MAX_LISTED
    return f"{first} and {more:,} more" if more > 0 else first


# Where the JSON is


def _find_call(message: Message, call: str | int | None) -> int:
    where: JsonPath = (None, "tool_calls")
    names = [each.name for each in message.tool_calls]
    if not names:
        raise _parse_error(where, f"this {type(message).__name__} calls no tools")

    position: Any = call or 0
    what = f"no call at {describe_json(call)}"
    if isinstance(call, str):
        position = names.index(call) if call in names else len(names)
        what = f"no call of {describe_json(call)}"

    if not -len(names) <= position < len(names):
        there = f"there are {len(names):,}: {_list_names(names)}"
        raise _parse_error(where, f"{what}; {there}")

    return int(position % len(names))


def _parse_json(
    message: Message, text: str, at: JsonPath, *, may_be_fenced: bool = False
) -> Any:
    start, end = _trim_span(text)
    try:
        return load_exactly(text[start:end])
    except DecodeError:
        what = _describe_fault(text, start, end)

    if may_be_fenced and start < end:
        blocks = list(_FENCED_BLOCK.finditer(text))
        labels = dict.fromkeys(map(_read_label, blocks))
        if not labels.keys().isdisjoint({"", "json"}):
            return _parse_fenced_json(message, text, blocks, at)

        if text[start] not in '{["-0123456789':
            beginning = describe_json(text[start:])
            what = (
                f"no JSON: it starts with {beginning}, and there is no fenced block of "
                "JSON in it"
            )
            if labels:
                what += f", only of {_list_names(labels)}"

    raise _parse_error(at, what + _explain_absence(message, at))


def _explain_absence(message: Message, at: JsonPath) -> str:
    """Why there may be no JSON, if the message knows."""
    response = getattr(message, "response", None)
    if response is not None and response.finish_reason in _CUT_OFF:
        return f" (it was cut off: finish_reason is {response.finish_reason!r})"

    if at == (None, "content") and not message.text:
        if message.tool_calls:
            return " (this message calls tools; source='tool_call' parses a call)"

        if message.reasoning:
            return " (there is reasoning, which is no content)"

    return ""


def _trim_span(text: str) -> tuple[int, int]:
    """Where *text* starts and ends but for white space and a byte order mark."""
    bare = text.lstrip().removeprefix("\ufeff").lstrip()
    return len(text) - len(bare), len(text) - len(bare) + len(bare.rstrip())


def _describe_fault(text: str, start: int, end: int) -> str:
    """
    Why *text* is not JSON between *start* and *end*; with the place in *text*.

    Linear in *text*, and so not for each of many blocks.
    """
    if start == end:
        return "is empty; expected JSON"

    # What comes before as white space, so that lines and columns are right.
    before = text[:start]
    blank = "\n" * before.count("\n") + " " * (start - before.rfind("\n") - 1)
    try:
        load_exactly(blank + text[start:end])
    except DecodeError as error:
        return error.problems[0].what

    return ""


def _read_label(block: re.Match[str]) -> str:
    return "".join(block["label"].split(maxsplit=1)[:1]).lower()


def _parse_fenced_json(
    message: Message, text: str, blocks: list[re.Match[str]], at: JsonPath
) -> Any:
    labelled = [block for block in blocks if _read_label(block) == "json"]
    values: dict[str, tuple[Any, int]] = {}
    wrong: tuple[int, int] | None = None
    for block in labelled or [block for block in blocks if not _read_label(block)]:
        start = block.start("content")
        first, last = [start + each for each in _trim_span(block["content"])]
        block_text = text[first:last]
        try:
            values[block_text] = load_exactly(block_text), block.start("fence")
        except DecodeError:
            wrong = wrong or (first, last)

        if len(values) > 1:
            starts = [text.count("\n", 0, start) + 1 for _, start in values.values()]
            lines = " and ".join(f"line {line:,}" for line in starts)
            what = f"has different fenced blocks of JSON, at {lines}; expected one"
            raise _parse_error(at, what)

    # What has no label need not be JSON.
    if wrong is not None and (labelled or not values):
        what = f"the fenced block: {_describe_fault(text, *wrong)}"
        raise _parse_error(at, what + _explain_absence(message, at))

    ((value, _),) = values.values()
    return value


# Where in it


def _resolve_path(
    value: Any, at: JsonPath, steps: tuple[str | int, ...]
) -> tuple[Any, JsonPath]:
    for step in steps:
        if value.__class__ is dict:
            if not isinstance(step, str):
                raise _parse_error(at, f"has no item {step}; it is an object")

            if step not in value:
                there = _list_names(value) or "no key at all"
                raise _parse_error(
                    at, f"has no key {describe_json(step)}; it has {there}"
                )

            key: str | int = step
        elif value.__class__ is list:
            is_position = isinstance(step, int) or _POSITION.fullmatch(step)
            position = int(step) if is_position else len(value)
            if not -len(value) <= position < len(value):
                what = f"has no item {describe_json(step)}; it is an array of"
                raise _parse_error(at, f"{what} {len(value):,}")

            key = position % len(value)
        else:
            what = f"expected an object or an array with {describe_json(step)} in it, "
            raise _parse_error(at, f"{what}got {describe_json(value)}")

        value, at = value[key], (at, key)

    return value, at
