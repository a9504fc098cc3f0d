"""
Reading: conversations out of files, however bad the files are.

What lives here: lines in bounded memory, and what people are told of those that
are no conversation. What does not: which conversation is on a line
(`adapters.transcripts`), what is done with it (`replay`, `_import`), and who
gets to see what was said (`_commands`).
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from conversation_state.adapters import openai_chat, transcripts
from conversation_state.adapters.transcripts import Transcript, line_results
from conversation_state.aggregator import Aggregator
from conversation_state.codec import from_data
from conversation_state.errors import ConversationStateError, DecodeError, Problem
from conversation_state.messages import Message

__all__ = ["STANDARD_INPUT", "Found", "Unreadable", "lines", "read", "total_bytes"]

STANDARD_INPUT = "-"

# How a document of this library says that it is one.
_OURS = "conversation_state"

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

        id: The id it has there; "" if it has none.

        state: The state it was written from, if that is what the line holds.
    """

    name: str
    file: str
    line: int
    messages: tuple[Message, ...]
    id: str = ""
    state: Aggregator | None = None


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


class _NoTextError(DecodeError):
    """
    A line that holds no text.
    """


def _no_text(why: str) -> _NoTextError:
    return _NoTextError((Problem("$", why),))


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
    or as an object with the list as ``messages`` and maybe an ``id``; or one in
    ShareGPT's format and others that `adapters.transcripts` reads, of which one
    has a message a line; or a state as `codec.encode` writes it. Blank lines
    hold nothing. A file's first bad lines are told, the rest counted.

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


def total_bytes(files: Sequence[str]) -> int | None:
    """
    How much there is to read; None if not all of it is in plain files.
    """
    total = 0
    for file in files:
        if file == STANDARD_INPUT:
            return None

        with suppress(OSError):  # told when it is read
            status = Path(file).stat()
            if not stat.S_ISREG(status.st_mode):
                return None

            total += status.st_size

    return total


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
    for found in line_results(_lines(stream, limit, advance), load=_load):
        holds_nothing = False
        if isinstance(found, Transcript):
            said = found.messages
            # A state's id is no name, only what tells it from others.
            state = said.state if isinstance(said, _OfState) else None
            id = found.name if state is None else ""
            name = id or nameless.format(found.line)
            yield Found(name, file, found.line, tuple(said), id, state)
            continue

        binary = isinstance(found.error, _NoTextError)
        if told < _TOLD and not (binary and told_binary >= _TOLD_IF_BINARY):
            told += 1
            told_binary += binary
            yield Unreadable(file, found.line, _why(found.error))
        else:
            untold += 1

    if untold:
        more = "1 more line is" if untold == 1 else f"{untold:,} more lines are"
        yield Unreadable(file, 0, f"{more} no conversation either")

    if holds_nothing:
        yield Unreadable(file, 0, "empty; expected a conversation on each line")


def _lines(
    stream: BinaryIO, limit: int, advance: Callable[[int], object]
) -> Iterator[str | DecodeError]:
    """
    The lines of *stream* as texts, or why they are none.
    """
    for number, (line, size) in enumerate(lines(stream, limit=limit), 1):
        advance(size)
        if line is None:
            why = (
                f"a line of {size / _MEBIBYTE:,.1f} MiB was skipped; --max-line is "
                f"{limit / _MEBIBYTE:,g} MiB"
            )
            yield DecodeError((Problem("$", why),))
            continue

        if number == 1:
            line = line.removeprefix(_UTF_8_MARK)  # noqa: PLW2901 - no part of it

        try:
            yield _text(line)
        except _NoTextError as error:
            yield error


class _OfState(tuple[Message, ...]):  # noqa: SLOT001 - a tuple takes none
    """
    The messages of a state, and the state.
    """

    state: Aggregator


def _load(record: Any) -> tuple[Message, ...]:
    """
    The messages of *record*, in OpenAI's format or another that people share,
    or of a state of ours.
    """
    if isinstance(record, dict) and record.get("format") == _OURS:
        state = from_data(record, expect=Aggregator)
        messages = _OfState(state)
        messages.state = state
        return messages

    said = record.get("messages") if isinstance(record, dict) else record
    first = said[0] if isinstance(said, list) and said else None
    try:
        if isinstance(said, list) and not (isinstance(first, dict) and "from" in first):
            return openai_chat.load({"messages": said})

        return transcripts.load(record)
    except DecodeError:
        raise
    except ConversationStateError as error:
        raise DecodeError((Problem("$", f"no conversation; {error}"),)) from None


def _why(error: DecodeError) -> str:
    first, *others = error.problems
    # About the line itself, or about something in a conversation.
    why = first.what if first.path == "$" else f"no conversation; {first}"
    why = f"{why:.{_QUOTED}}"
    return f"{why} (and {len(others):,} more)" if others else why


def _text(line: bytes) -> str:
    if line.startswith(_UTF_16_MARKS):
        raise _no_text("UTF-16 text; save it as UTF-8")

    if b"\0" in line:
        raise _no_text("binary data; expected a line of JSON")

    try:
        return line.decode()
    except UnicodeDecodeError as error:
        why = f"no UTF-8 text from byte {error.start + 1} of the line on"
        raise _no_text(why) from None
