"""
Reads conversations from files, and reports the lines without one.

Lines in bounded memory and the errors of invalid lines are here; parsing the
formats (`adapters.transcripts`) and what is done with a conversation
(`replay`, `_transfer`) are not.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from conversation_state.adapters import openai_chat, transcripts
from conversation_state.adapters.transcripts import Transcript, line_results
from conversation_state.aggregator import Aggregator
from conversation_state.codec import from_data
from conversation_state.errors import ConversationStateError, DecodeError, Problem
from conversation_state.messages import Message

STANDARD_INPUT = "-"

# The value of "format" in a document of this library.
_OWN_FORMAT = "conversation_state"

# So many invalid lines of a file are reported; the others are counted. Of lines
# that are not text, the first is enough.
_MAX_REPORTED = 10
_MAX_REPORTED_BINARY = 1

# The longest part of an error that is printed, in characters.
_MAX_ERROR_LENGTH = 300

_SKIP_CHUNK_BYTES = 1 << 16
_MEBIBYTE = 1 << 20
_UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")


class InputConversation(NamedTuple):
    name: str  # its id, or its file and line without an id
    file: str  # its file, as given on the command line
    line: int  # its line, counted from 1
    messages: tuple[Message, ...]
    id: str = ""  # its id in the file, or ""
    state: Aggregator | None = None  # the state, if the line holds an encoded one


class UnreadableInput(NamedTuple):
    """A line or a file that should hold a conversation and does not."""

    file: str  # the file, as given on the command line
    line: int  # the line, counted from 1; 0 if this is about the whole file
    reason: str  # what is wrong

    def __str__(self) -> str:
        file = "standard input" if self.file == STANDARD_INPUT else self.file
        return (
            f"{file}:{self.line}: {self.reason}"
            if self.line
            else f"{file}: {self.reason}"
        )


class _NotTextError(DecodeError): ...


def read_lines(stream: BinaryIO, *, limit: int) -> Iterator[tuple[bytes | None, int]]:
    """
    The lines of *stream*, each with the number of bytes it takes there.

    A line of more than *limit* bytes is None: it is read to its end in chunks
    and discarded, so that never more than twice the limit is in memory.
    """
    # One byte more: a line that is too long is not one that ends the stream.
    while line := stream.readline(limit + 1):
        size = len(line)
        if size <= limit or line.endswith(b"\n"):
            yield line, size
            continue

        while line and not line.endswith(b"\n"):
            line = stream.readline(_SKIP_CHUNK_BYTES)
            size += len(line)

        yield None, size


def read_files(
    files: Sequence[str], *, limit: int, advance: Callable[[int], object]
) -> Iterator[InputConversation | UnreadableInput]:
    """
    All conversations of *files* in order, with invalid lines in their places.

    A line holds one conversation: messages in OpenAI's chat format, as a list
    or as an object with the list as ``messages`` and optionally an ``id``; or
    one in ShareGPT's format and others that `adapters.transcripts` reads, one
    of which has a message per line; or a state as `codec.encode` writes it.
    Blank lines are skipped. The first invalid lines of a file are reported, the
    rest are counted.

    Args:
        files: Paths; ``-`` is standard input.

        limit: The longest line that is parsed, in bytes.

        advance: Called with the size of each line that was read.
    """
    for file in files:
        nameless = "line {}" if len(files) == 1 else f"{file}:{{}}"
        try:
            is_stdin = file == STANDARD_INPUT
            with (
                nullcontext(sys.stdin.buffer) if is_stdin else Path(file).open("rb")
            ) as stream:
                yield from _read_stream(file, stream, limit, advance, nameless)
        except OSError as error:
            yield UnreadableInput(file, 0, error.strerror or str(error))


def total_bytes(files: Sequence[str]) -> int | None:
    """The total size of *files*; None if one of them is not a regular file."""
    total = 0
    for file in files:
        if file == STANDARD_INPUT:
            return None

        with suppress(OSError):  # reported when it is read
            status = Path(file).stat()
            if not stat.S_ISREG(status.st_mode):
                return None

            total += status.st_size

    return total


def _read_stream(
    file: str,
    stream: BinaryIO,
    limit: int,
    advance: Callable[[int], object],
    nameless: str,
) -> Iterator[InputConversation | UnreadableInput]:
    is_empty = True
    reported = reported_binary = unreported = 0
    for found in line_results(_decode_lines(stream, limit, advance), load=_load_record):
        is_empty = False
        if isinstance(found, Transcript):
            messages = found.messages
            # The id of a state is an identity, not a name.
            state = messages.state if isinstance(messages, _StateMessages) else None
            id = found.name if state is None else ""
            name = id or nameless.format(found.line)
            yield InputConversation(name, file, found.line, tuple(messages), id, state)
            continue

        binary = isinstance(found.error, _NotTextError)
        if reported < _MAX_REPORTED and not (
            binary and reported_binary >= _MAX_REPORTED_BINARY
        ):
            reported += 1
            reported_binary += binary
            yield UnreadableInput(file, found.line, _describe_problems(found.error))
        else:
            unreported += 1

    if unreported:
        more = "1 more line is" if unreported == 1 else f"{unreported:,} more lines are"
        yield UnreadableInput(file, 0, f"{more} invalid as well")

    if is_empty:
        yield UnreadableInput(file, 0, "empty; expected a conversation on each line")


def _decode_lines(
    stream: BinaryIO, limit: int, advance: Callable[[int], object]
) -> Iterator[str | DecodeError]:
    """The lines of *stream* as texts, or why they are not text."""
    for line, size in read_lines(stream, limit=limit):
        advance(size)
        if line is None:
            reason = (
                f"a line of {size / _MEBIBYTE:,.1f} MiB was skipped; --max-line is "
                f"{limit / _MEBIBYTE:,g} MiB"
            )
            yield DecodeError((Problem("$", reason),))
            continue

        yield _decode_line(line)


def _decode_line(line: bytes) -> str | DecodeError:
    reason = ""
    if line.startswith(_UTF_16_BOMS):
        reason = "UTF-16 text; save it as UTF-8"
    elif b"\0" in line:
        reason = "binary data; expected a line of JSON"
    else:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            reason = f"no UTF-8 text from byte {error.start + 1} of the line on"

    return _NotTextError((Problem("$", reason),))


class _StateMessages(tuple[Message, ...]):  # noqa: SLOT001 - a tuple takes none
    state: Aggregator


def _load_record(record: Any) -> tuple[Message, ...]:
    """
    The messages of *record*, in OpenAI's format or another that people share,
    or of a state of ours.
    """
    if isinstance(record, dict) and record.get("format") == _OWN_FORMAT:
        state = from_data(record, expect=Aggregator)
        messages = _StateMessages(state)
        messages.state = state
        return messages

    try:
        items = record.get("messages") if isinstance(record, dict) else record
        if not isinstance(items, list) or any(map(_is_shared_turn, items)):
            return transcripts.load(record)

        # What stands next to a list of messages comes first.
        beside = record.get("system") if isinstance(record, dict) else None
        system = transcripts.load({"system": beside, "messages": []}) if beside else ()
        return (*system, *_load_listed(items))
    except DecodeError:
        raise
    except ConversationStateError as error:
        raise DecodeError((Problem("$", f"no conversation; {error}"),)) from None


def _is_shared_turn(item: Any) -> bool:
    """Whether *item* has its role or its content where OpenAI has none."""
    return isinstance(item, dict) and (
        "from" in item
        or ("content" not in item and ("value" in item or "text" in item))
    )


def _load_listed(items: list[Any]) -> tuple[Message, ...]:
    # If it is neither, the problems are those of the format that most files have.
    try:
        return openai_chat.load({"messages": items})
    except DecodeError:
        with suppress(DecodeError):
            return transcripts.load({"messages": items})

        raise


def _describe_problems(error: DecodeError) -> str:
    first, *others = error.problems
    # About the line itself, or about something in a conversation.
    reason = first.what if first.path == "$" else f"no conversation; {first}"
    reason = f"{reason:.{_MAX_ERROR_LENGTH}}"
    return f"{reason} (and {len(others):,} more)" if others else reason
