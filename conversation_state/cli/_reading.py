"""
Reading: conversations out of files, however bad the files are.

What lives here: lines in bounded memory, the conversations on them, and what
is wrong with lines that are none. What does not: what is done with a
conversation (`replay`), and who gets to see what was said (`_commands`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from conversation_state.adapters import openai_chat
from conversation_state.errors import ConversationStateError, DecodeError
from conversation_state.messages import Message

__all__ = ["STANDARD_INPUT", "Found", "Unreadable", "lines", "read"]

STANDARD_INPUT = "-"

# How many bad lines of a file are told one by one; the others are counted. Of
# lines that are no text at all, one says everything.
_TOLD = 10
_TOLD_IF_BINARY = 1

# How much of an error is quoted, in characters.
_QUOTED = 300

_SKIPPED_AT_ONCE = 1 << 16
_MEBIBYTE = 1 << 20
_UTF_8_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class Found(NamedTuple):
    """
    A conversation.

    Attributes:
        name: Its id, or where it is if it has none.

        file: The file it is in, as it was asked for.

        line: The line it is on, counted from 1.

        messages: What was said.
    """

    name: str
    file: str
    line: int
    messages: tuple[Message, ...]


class Unreadable(NamedTuple):
    """
    What should have been a conversation, or a file of them, and is not.

    Attributes:
        file: The file, as it was asked for.

        line: The line, counted from 1; 0 if this is about the whole file.

        why: What is wrong.
    """

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        file = "standard input" if self.file == STANDARD_INPUT else self.file
        return f"{file}:{self.line}: {self.why}" if self.line else f"{file}: {self.why}"


class _NoConversation(Exception):  # noqa: N818 - it says what is the case
    """
    A line that holds no conversation.
    """


class _NoText(_NoConversation):
    """
    A line that holds no text.
    """


def lines(stream: BinaryIO, *, limit: int) -> Iterator[tuple[bytes | None, int]]:
    """
    The lines of *stream*, each with the number of bytes it takes there.

    Instead of a line of more than *limit* bytes comes None: such a line is
    read to its end and forgotten on the way, so no more than twice the limit
    is ever held, whatever there is to read.
    """
    while line := stream.readline(limit + 1):
        size = len(line)
        if size <= limit or line.endswith(b"\n"):
            yield line, size
            continue

        while line and not line.endswith(b"\n"):
            line = stream.readline(_SKIPPED_AT_ONCE)
            size += len(line)

        yield None, size


def read(
    files: Sequence[str], *, limit: int, advance: Callable[[int], object]
) -> Iterator[Found | Unreadable]:
    """
    All conversations of *files*, in order, and what is none in its place.

    A line holds one conversation: messages in OpenAI's chat format, as a list
    or as an object with the list as ``messages`` and maybe an ``id``. Blank
    lines hold nothing. A file's first bad lines are told, the rest counted.

    Args:
        files: Paths; ``-`` is standard input.

        limit: The longest line to be read, in bytes.

        advance: Called with the size of what was read, line by line.
    """
    for file in files:
        nameless = "line {}" if len(files) == 1 else f"{file}:{{}}"
        try:
            with _opened(file) as stream:
                yield from _read(file, stream, limit, advance, nameless)
        except OSError as error:
            yield Unreadable(file, 0, error.strerror or str(error))


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    if file == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)

    return Path(file).open("rb")


def _read(
    file: str,
    stream: BinaryIO,
    limit: int,
    advance: Callable[[int], object],
    nameless: str,
) -> Iterator[Found | Unreadable]:
    holds_nothing = True
    told = told_binary = untold = 0
    for number, (line, size) in enumerate(lines(stream, limit=limit), 1):
        advance(size)
        if line is not None and number == 1:
            line = line.removeprefix(_UTF_8_MARK)  # noqa: PLW2901 - no part of it

        if line is not None and not line.strip():
            continue

        holds_nothing = False
        try:
            name, messages = _conversation(line, size, limit)
        except _NoConversation as error:
            binary = isinstance(error, _NoText)
            if told < _TOLD and not (binary and told_binary >= _TOLD_IF_BINARY):
                told += 1
                told_binary += binary
                yield Unreadable(file, number, str(error))
            else:
                untold += 1
        else:
            yield Found(name or nameless.format(number), file, number, messages)

    if untold:
        more = "1 more line is" if untold == 1 else f"{untold:,} more lines are"
        yield Unreadable(file, 0, f"{more} no conversation either")

    if holds_nothing:
        yield Unreadable(file, 0, "empty; expected a conversation on each line")


def _conversation(
    line: bytes | None, size: int, limit: int
) -> tuple[str, tuple[Message, ...]]:
    """
    The name, if there is one, and the messages of the conversation on *line*.
    """
    if line is None:
        msg = (
            f"a line of {size / _MEBIBYTE:,.1f} MiB was skipped; --max-line is "
            f"{limit / _MEBIBYTE:,g} MiB"
        )
        raise _NoConversation(msg)

    said = _json(_text(line))
    name = ""
    if isinstance(said, dict):
        name = _name(said.get("id"))
        said = said.get("messages")

    if not isinstance(said, list):
        msg = (
            "no conversation; expected a list of messages, or an object with such "
            'a list as "messages"'
        )
        raise _NoConversation(msg)

    try:
        return name, openai_chat.load({"messages": said})
    except DecodeError as error:
        first, *others = error.problems
        why = f"no conversation; {first!s:.{_QUOTED}}"
        if others:
            why += f" (and {len(others):,} more)"

        raise _NoConversation(why) from None
    except ConversationStateError as error:
        msg = f"no conversation; {error!s:.{_QUOTED}}"
        raise _NoConversation(msg) from None


def _text(line: bytes) -> str:
    if line.startswith(_UTF_16_MARKS):
        msg = "UTF-16 text; save it as UTF-8"
        raise _NoText(msg)

    if b"\0" in line:
        msg = "binary data; expected a line of JSON"
        raise _NoText(msg)

    try:
        return line.decode()
    except UnicodeDecodeError as error:
        msg = f"no UTF-8 text from byte {error.start + 1} of the line on"
        raise _NoText(msg) from None


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()):
            msg = "JSON that goes on after the line; a conversation is one line"
        else:
            msg = f"no JSON; {error.msg} at column {error.colno}"

        raise _NoConversation(msg) from None
    except (RecursionError, ValueError) as error:
        # Too deep, a number of thousands of digits, or NaN.
        msg = f"no JSON that can be read; {error!s:.{_QUOTED}}"
        raise _NoConversation(msg) from None


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is no JSON"
    raise ValueError(msg)


def _name(given: object) -> str:
    """
    *given* as a name; "" if it is none.
    """
    if isinstance(given, str):
        return given

    return str(given) if type(given) is int else ""
