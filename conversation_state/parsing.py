"""
Parsing: a value out of what a model said.

What lives here: finding the JSON in a message, and the part of it that was
asked for. What does not: making a value of it (`codec`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, TypeVar, overload

from conversation_state._canonical import first_oversized, load
from conversation_state.codec._problems import At, rendered, shown
from conversation_state.errors import DecodeError, ParseError, Problem
from conversation_state.messages import AssistantMessage, Message

__all__ = ["parse"]

T = TypeVar("T")

_SOURCES = ("content", "tool_call")


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
    The value of *type* that *message* says in JSON.

    The JSON is the whole text of the message, or else a fenced block in it:
    the one labelled ``json``, or without any such, the one without a label
    that is JSON. Nothing else is guessed: of several different blocks none is
    taken, and no JSON is looked for in prose. Linear in the text.

    A *type* may be an attrs class, a dataclass, a TypedDict or a NamedTuple, an
    Enum or a Literal; str, int, float, bool, None, Any; texts that are a
    datetime, date, time, UUID, Decimal, Path or base64 (bytes); lists, tuples,
    sets, dicts and unions of all of these; and what this library is made of,
    as `codec` writes it. Its values are taken strictly: "5" is no int, and 5
    is no str; 5.0 is an int, as in JSON Schema. Keys that a class does not
    know are left out. Of several classes in a union the one that takes the
    object and knows most of its keys is made.

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
        ParseError:
            If the message says no such value, with all that is wrong (the first
            hundred of it) and where: in paths, ``$`` is the message. What a
            class raised itself is the cause.

        TypeError:
            If an argument is of a wrong type, or nobody knows how to read *type*.

        ValueError:
            If *source* is neither, or *call* is given and *source* is ``content``.

    >>> said = AssistantMessage('{"trains": [{"to": "Bern", "leaves": "12:30"}]}')
    >>> parse(said, dict[str, str], path="trains.0")
    {'to': 'Bern', 'leaves': '12:30'}
    """
    steps = _checked(message, source, path, call)
    from conversation_state.codec._structured import structurer  # noqa: PLC0415 - 50 ms

    structure = structurer(type)
    if source == "content":
        at: At = (None, "content")
        value = _content(message, at)
    else:
        at, arguments = _arguments(message, call)
        value = _whole(message, arguments, at)

    value, at = _walked(value, at, steps)
    try:
        return structure(value, at)
    except DecodeError as error:
        raise ParseError(error.problems) from error.__cause__


def _checked(
    message: object, source: object, path: object, call: object
) -> tuple[str | int, ...]:
    """
    The steps of *path*, if all arguments are what they should be.
    """
    if not isinstance(message, Message):
        msg = f"message is {message!r:.80}; expected a Message"
        raise TypeError(msg)

    if not isinstance(source, str) or source not in _SOURCES:
        msg = f"source is {source!r:.80}; expected 'content' or 'tool_call'"
        raise ValueError(msg)

    if isinstance(call, bool) or not isinstance(call, (str, int, type(None))):
        msg = (
            f"call is {call!r:.80}; expected the name of a tool call, its position, "
            "or None for the first"
        )
        raise TypeError(msg)

    if call is not None and source == "content":
        msg = (
            f"call is {call!r:.80} and source is 'content'; pass source='tool_call' "
            "to parse a call's arguments"
        )
        raise ValueError(msg)

    if isinstance(path, str):
        return tuple(path.split(".")) if path else ()

    steps: tuple[Any, ...] = tuple(path) if isinstance(path, (list, tuple)) else (None,)
    if any(isinstance(s, bool) or not isinstance(s, (str, int)) for s in steps):
        msg = (
            f"path is {path!r:.80}; expected keys and positions with dots between "
            "them, like 'items.0.name', or a list or tuple of them"
        )
        raise TypeError(msg)

    return steps


def _wrong(at: At, what: str) -> ParseError:
    return ParseError((Problem(rendered(at), what),))


# Where the JSON is


def _content(message: Message, at: At) -> Any:
    text = message.text
    if text.strip() or not message.refusal:
        return _whole(message, text, at, may_be_fenced=True)

    raise _wrong(at, f"the model refused: {shown(message.refusal)}")


def _arguments(message: Message, call: str | int | None) -> tuple[At, str]:
    where: At = (None, "tool_calls")
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    if not calls:
        raise _wrong(where, f"this {type(message).__name__} calls no tools")

    names = [each.name for each in calls]
    if isinstance(call, str):
        position = names.index(call) if call in names else len(calls)
        what = f"no call of {shown(call)}"
    else:
        position = call or 0
        what = f"no call at {shown(call)}"

    if not -len(calls) <= position < len(calls):
        there = ", ".join(map(shown, names[:_MOST_NAMED]))
        more = f" and {len(names) - _MOST_NAMED:,} more" * (len(names) > _MOST_NAMED)
        raise _wrong(where, f"{what}; there are {len(calls):,}: {there}{more}")

    position %= len(calls)
    return ((where, position), "arguments"), calls[position].arguments


# How providers call it when they had to stop a model.
_CUT_OFF = frozenset(
    {"interrupted", "length", "max_tokens", "MAX_TOKENS", "max_output_tokens"}
)


def _whole(message: Message, text: str, at: At, *, may_be_fenced: bool = False) -> Any:
    """
    The JSON that *text* is, or that it has in a fenced block.
    """
    start, end = _trimmed(text)
    try:
        return _loaded(text[start:end])
    except DecodeError:
        what = _why(text, start, end)

    if may_be_fenced and start < end:
        blocks = list(_fenced(text))
        if any(not block.label or block.is_json for block in blocks):
            return _in_block(message, text, blocks, at)

        if text[start] not in '{["-0123456789':
            what = f"no JSON: it starts with {shown(text[start:])}, and there is no "
            what += "fenced block of JSON in it"
            if blocks:
                labels = dict.fromkeys(shown(block.label) for block in blocks)
                what += f", only of {', '.join(list(labels)[:_MOST_NAMED])}"

    raise _wrong(at, what + _hint(message, at))


def _hint(message: Message, at: At) -> str:
    """
    Why there may be no JSON, if the message knows.
    """
    response = getattr(message, "response", None)
    if response is not None and response.finish_reason in _CUT_OFF:
        return f" (it was cut off: finish_reason is {response.finish_reason!r})"

    if at == (None, "content") and not message.text:
        if getattr(message, "tool_calls", ()):
            return " (this message calls tools; source='tool_call' parses a call)"

        if message.reasoning:
            return " (there is reasoning, which is no content)"

    return ""


def _trimmed(text: str) -> tuple[int, int]:
    """
    Where *text* starts and ends but for white space and a byte order mark.
    """
    bare = text.lstrip().removeprefix("\ufeff").lstrip()
    return len(text) - len(bare), len(text) - len(bare) + len(bare.rstrip())


def _loaded(text: str) -> Any:
    """
    The JSON that *text* is.

    Raises:
        DecodeError:
            If it is none.
    """
    value = load(text)
    return value if first_oversized(text) is None else _exact(text)


def _why(text: str, start: int, end: int) -> str:
    """
    Why *text* is no JSON between *start* and *end*; with the place in *text*.

    Linear in *text*, and so not for each of many blocks.
    """
    if start == end:
        return "is empty; expected JSON"

    # What comes before as white space, so that lines and columns are right.
    before = text[:start]
    blank = "\n" * before.count("\n") + " " * (start - before.rfind("\n") - 1)
    try:
        _loaded(blank + text[start:end])
    except DecodeError as error:
        return error.problems[0].what

    return ""


def _exact(text: str) -> Any:
    """
    What *text*, which is JSON, says: integers of more than 64 bits, too.
    """
    import json  # noqa: PLC0415 - seldom needed, and slow to import

    try:
        return json.loads(text)
    except ValueError:
        what = "an integer of more digits than Python reads"
    except RecursionError:
        what = "nested too deeply for integers of more than 64 bits"

    raise DecodeError((Problem("$", what),))


class _Block(NamedTuple):
    """
    A fenced block.

    Attributes:
        label: What it says it is, in lower case: ``json``, or "".

        start: Where its content starts.

        end: Where its content ends.

        line: The line it starts on, counted from 1.
    """

    label: str
    start: int
    end: int
    line: int

    @property
    def is_json(self) -> bool:
        return self.label == "json"


# As CommonMark has them, but indented as far as a list may indent them.
_OPENING = re.compile(r"[ \t]*(?:(?P<ticks>`{3,})(?P<of>[^`]*)|(~{3,})(.*))")


def _fenced(text: str) -> Iterator[_Block]:
    """
    The fenced blocks of *text*; one that is not closed goes on to the end.
    """
    fence, label, start, line_of_start, at = "", "", 0, 0, 0
    for number, line in enumerate(text.split("\n"), 1):
        if fence:
            bare = line.strip()
            if len(bare) >= len(fence) and not bare.strip(fence[0]):
                yield _Block(label, start, at, line_of_start)
                fence = ""
        elif found := _OPENING.fullmatch(line.removesuffix("\r")):
            fence = found["ticks"] or found[3]
            word = (found["of"] or found[4] or "").split(maxsplit=1)
            label = word[0].lower() if word else ""
            start, line_of_start = min(at + len(line) + 1, len(text)), number

        at += len(line) + 1

    if fence:
        yield _Block(label, start, len(text), line_of_start)


def _in_block(message: Message, text: str, blocks: list[_Block], at: At) -> Any:
    labelled = [block for block in blocks if block.is_json]
    values: dict[str, tuple[Any, int]] = {}
    wrong: tuple[int, int] | None = None
    for block in labelled or [block for block in blocks if not block.label]:
        first, last = _trimmed(text[block.start : block.end])
        first, last = block.start + first, block.start + last
        said = text[first:last]
        if said in values:
            continue

        try:
            values[said] = _loaded(said), block.line
        except DecodeError:
            wrong = wrong or (first, last)

        if len(values) > 1:
            lines = " and ".join(f"line {line:,}" for _, line in values.values())
            what = f"has different fenced blocks of JSON, at {lines}; expected one"
            raise _wrong(at, what)

    # What has no label need not be JSON.
    if wrong is not None and (labelled or not values):
        what = f"the fenced block: {_why(text, *wrong)}"
        raise _wrong(at, what + _hint(message, at))

    ((value, _),) = values.values()
    return value


# Where in it

_MOST_NAMED = 10
# As far as names are compared with the one that is missing.
_MOST_COMPARED = 1_000
_LONGEST_COMPARED = 100

_POSITION = re.compile(r"-?\d{1,18}", re.ASCII)


def _walked(value: Any, at: At, steps: tuple[str | int, ...]) -> tuple[Any, At]:
    """
    What is at the end of *steps*, and where that is.
    """
    for step in steps:
        if value.__class__ is dict:
            if not isinstance(step, str) or step not in value:
                raise _wrong(at, _no_key(step, value))

            value, at = value[step], (at, step)
        elif value.__class__ is list:
            is_position = isinstance(step, int) or _POSITION.fullmatch(step)
            position = int(step) if is_position else len(value)
            if not -len(value) <= position < len(value):
                what = f"has no item {shown(step)}; it is an array of {len(value):,}"
                raise _wrong(at, what)

            position %= len(value)
            value, at = value[position], (at, position)
        else:
            what = f"expected an object or an array with {shown(step)} in it, got "
            raise _wrong(at, what + shown(value))

    return value, at


def _no_key(step: str | int, value: dict[str, Any]) -> str:
    if not isinstance(step, str):
        return f"has no item {shown(step)}; it is an object"

    names = list(value)
    if len(step) <= _LONGEST_COMPARED:
        some = [n for n in names[:_MOST_COMPARED] if len(n) <= _LONGEST_COMPARED]
        near = get_close_matches(step, some, _MOST_NAMED)
        names = [*near, *[name for name in names if name not in near]]

    there = ", ".join(map(shown, names[:_MOST_NAMED])) or "no key at all"
    more = f" and {len(names) - _MOST_NAMED:,} more" * (len(names) > _MOST_NAMED)
    return f"has no key {shown(step)}; it has {there}{more}"
