"""
The JSON values of a file: lines of them, or one document, in bounded memory.

Which of the two a file is, the elements of a large array one after another, and what is
whole before and after damage are here; which format a value is in (`_recognition`), and
archives and encodings (`_sources`), are not.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, NoReturn, TypeAlias

from conversation_state.adapters.engine.wire import (
    make_unique_object,
    parse_arguments,
    parse_finite,
)

_MEBIBYTE = 1 << 20
_SKIP_CHUNK_BYTES = 1 << 16
_READ_BYTES = 1 << 20

# How far from the end of the text an error may be that more text would mend.
_MARGIN = 16
# How much is parsed in search of the next whole value, in characters.
_MAX_SEARCH = 1 << 28
_DEEP_STEP = 500
_BEFORE = 64
_MAX_KEYS = 8

# Where documents have a list of conversations.
WRAPPERS = (
    *("conversations", "chats", "data", "examples", "history", "items", "records"),
    "requests",
    *("responses", "results", "rows", "samples", "sessions", "threads", "traces"),
)


class JsonValue(NamedTuple):
    """One JSON value: that of a line, or an element of a document."""

    data: Any
    line: int  # the line that it starts on, counted from 1
    position: int = 0  # its place in a list, counted from 1; 0 outside of any
    path: str = "$"  # its place in the value of its line, or in the document
    size: int = 0  # what it takes in the file, nearly


class DamagedText(NamedTuple):
    """What is no JSON, and why."""

    line: int
    reason: str
    is_binary: bool = False  # of lines that are no text, the first is enough
    is_gap: bool = False  # a list lacks what stood here


class LeftOut(NamedTuple):
    """What was left out."""

    line: int
    text: str


class ListEnd(NamedTuple):
    """A blank line, or the end of a list: what comes next is no part of it."""


Found: TypeAlias = JsonValue | DamagedText | LeftOut | ListEnd


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


def read_values(
    stream: BinaryIO, *, limit: int, recognize: Callable[[Any], str]
) -> Iterator[Found]:
    """
    The values of *stream*, which is UTF-8, as they come; damage in its place.

    Lines are read by lines, also where some are damaged. What begins on the first line
    and ends on a later one is a document, and so is a first line that is longer than
    *limit*.

    Args:
        stream: Read with ``readline`` and ``read``.
        limit: The longest value that is parsed, in bytes.
        recognize: Returns the format of a value, "" if it is unknown: after damage in
            a document, it distinguishes whole elements from parts of the damaged one.
    """
    head: list[bytes] = []
    first = _take_line(stream, limit, head)
    text = first.lstrip(codecs.BOM_UTF8).strip()
    if not text.startswith((b"[", b"{")):
        is_document = False
    elif text in {b"[", b"{"} or (len(first) > limit and first[-1:] != b"\n"):
        is_document = True
    else:
        following = _take_line(stream, limit, head).strip()
        looks_open = text.endswith((b"[", b"{", b",", b":"))
        is_document = not following or (
            not _is_json(text)
            and not _is_json(following)
            and (looks_open or text.startswith(b"["))
        )

    if is_document:
        yield from _DocumentParser(stream, b"".join(head), limit, recognize).run()
        return

    # The last of these lines may go on in the stream.
    start = _Prefixed(head, stream)
    yield from _read_line_values(start, limit)


def _take_line(stream: BinaryIO, limit: int, head: list[bytes]) -> bytes:
    """The next line that is not blank, at most *limit* bytes; kept in *head*."""
    while line := stream.readline(limit + 1):
        head.append(line)
        if not line.isspace():
            return line

    return b""


def _is_json(text: bytes) -> bool:
    try:
        return isinstance(parse_arguments(text.decode()), (dict, list))
    except ValueError:
        return False


class _Prefixed:
    """A stream that begins with lines that were read from it."""

    def __init__(self, lines: list[bytes], stream: BinaryIO) -> None:
        self._lines, self._stream = lines, stream

    def readline(self, size: int) -> bytes:
        if not self._lines:
            return self._stream.readline(size)

        line = self._lines.pop(0)
        if len(line) > size:
            self._lines.insert(0, line[size:])
            return line[:size]

        if not line.endswith(b"\n") and len(line) < size and not self._lines:
            line += self._stream.readline(size - len(line))

        return line


# Lines


def _read_line_values(stream: Any, limit: int) -> Iterator[Found]:
    for number, (line, size) in enumerate(read_lines(stream, limit=limit), 1):
        if line is None:
            yield _make_skipped(number, "a line", size, limit)
            continue

        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901 - no part of it

        text, why = _decode_line(line)
        if why:
            yield DamagedText(number, why, is_binary=True)
            continue

        if not text or text.isspace():
            yield ListEnd()
            continue

        try:
            yield JsonValue(parse_arguments(text), number, size=size)
        except json.JSONDecodeError as error:
            parts = text[: error.pos], text[error.pos :]
            if all(part[:1] == "{" and _is_json(part.encode()) for part in parts):
                # Programs that append at once may leave out the end of a line.
                for part in parts:
                    yield JsonValue(parse_arguments(part), number, size=len(part))
            else:
                is_last = not line.endswith(b"\n")
                yield DamagedText(number, _describe_line(error, text, is_last=is_last))
        except ValueError as error:
            # Too deep, a number of thousands of digits, NaN, or a key twice.
            yield DamagedText(number, f"unreadable JSON; {error}")


def _describe_line(error: json.JSONDecodeError, text: str, *, is_last: bool) -> str:
    damage = _DamagedError(error, text)
    if damage.is_cut and is_last:
        return _describe_cut("this line")

    if damage.is_cut:
        return "incomplete JSON; a conversation must be on one line"

    return f"invalid JSON; {damage.reason} at column {error.colno}"


def _decode_line(line: bytes) -> tuple[str, str]:
    """The text of *line*, and why it has none, "" if it has one."""
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "", "UTF-16 text; save it as UTF-8"

    if b"\0" in line:
        return "", "binary data; expected a line of JSON"

    try:
        return line.decode(), ""
    except UnicodeDecodeError as error:
        return "", f"no UTF-8 text from byte {error.start + 1} of the line on"


def _describe_cut(where: str) -> str:
    return f"the file is cut off: it ends within {where}; get the whole file"


def _make_skipped(line: int, what: str, size: int, limit: int) -> DamagedText:
    reason = (
        f"{what} of {size / _MEBIBYTE:,.1f} MiB was skipped; --max-line is "
        f"{limit / _MEBIBYTE:,g} MiB"
    )
    return DamagedText(line, reason)


_TOO_DEEP = "it is nested too deep"

# Documents


class _TooLongError(Exception):
    def __init__(self, *, is_deep: bool = False) -> None:
        super().__init__()
        self.is_deep = is_deep


class _DamagedError(Exception):
    def __init__(self, error: json.JSONDecodeError, text: str) -> None:
        super().__init__(error.msg)
        self.position = error.pos
        self.is_cut = _is_cut(error, text)
        # Some of Python's messages end in the preposition.
        reason = error.msg.removesuffix(" at")
        self.reason = f"{reason[:1].lower()}{reason[1:]}"


def _is_cut(error: json.JSONDecodeError, text: str) -> bool:
    """Whether *text* is JSON as far as it goes."""
    rest = text[error.pos :].strip()
    return (
        not rest
        or error.msg.startswith("Unterminated string")
        or (error.msg.startswith("Invalid \\") and '"' not in rest)
        or any(word.startswith(rest) for word in ("true", "false", "null"))
        # Of a number Python reads what is whole, and misses what follows.
        or rest == "-"
        or _CUT_NUMBER.fullmatch(rest) is not None
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_PLAIN = json.JSONDecoder()
_UNIQUE = json.JSONDecoder(
    object_pairs_hook=make_unique_object,
    parse_constant=_refuse_constant,
    parse_float=parse_finite,
)
_CUT_NUMBER = re.compile(r"\.|[eE][+-]?")
_SPACE = re.compile(r"[ \t\r\n]*")
_BRACKET = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


class _DocumentParser:
    """
    The values of a document while it is read: the text that was read and is not parsed
    yet, and the position in it.
    """

    def __init__(
        self,
        stream: BinaryIO,
        start: bytes,
        limit: int,
        recognize: Callable[[Any], str],
    ) -> None:
        self.stream, self.limit = stream, limit
        self.recognize = recognize
        self.sample: Any = None  # the last whole element
        self.scanned = 0  # the length of the last value
        self.text, self.at = "", 0
        self.is_ended = self.is_cut = False
        self.has_bad_bytes = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        # The line of a position in the text, up to which line ends were counted.
        self._line, self._counted = 1, 0
        self._add_bytes(start.removeprefix(codecs.BOM_UTF8))

    def run(self) -> Iterator[Found]:
        """All values; each list is followed by an `ListEnd`."""
        while char := self._peek_char():
            if char == "[":
                yield from self._read_list("$")
            elif char == "{":
                yield from self._read_object()
            else:
                line = self._count_line()
                yield DamagedText(line, f"expected [ or {{, got {char!r}")
                if not self._find_next():
                    return

    # Text

    def _add_bytes(self, data: bytes) -> None:
        try:
            self.text += self._decoder.decode(data, final=self.is_ended)
        except UnicodeDecodeError:
            pending = self._decoder.getstate()[0]
            self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
            self.has_bad_bytes = True
            self.text += self._decoder.decode(pending + data, final=self.is_ended)

    def _fill_buffer(self) -> None:
        """Read more, at least as much as there is, and forget what was parsed."""
        self._count_line()
        self.text, self.at, self._counted = self.text[self.at :], 0, 0
        data = self.stream.read(max(_READ_BYTES, len(self.text)))
        self.is_ended = not data
        self._add_bytes(data)

    def _count_line(self) -> int:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = max(self._counted, self.at)
        return self._line

    def _peek_char(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            match = _SPACE.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]

            if self.is_ended:
                return ""

            self._fill_buffer()

    # One value

    def _scan_value(self) -> tuple[Any, str]:
        """
        The value at the position, which moves behind it, and why it can't be taken, ""
        if it can.

        Raises:
            _TooLongError:
                If it is over the limit, or nested too deep. The position stays.
            _DamagedError:
                If it is no JSON. The position stays.
        """
        reason = ""
        try:
            value, end = self._decode_with(_UNIQUE)
        except ValueError as error:
            # JSON of which Python would lose something.
            reason = f"unreadable JSON; {error}"
            value, end = self._decode_with(_PLAIN)

        if self.has_bad_bytes and _ESCAPED_BYTE.search(self.text, self.at, end):
            reason = "no UTF-8 text"

        self.scanned, self.at = end - self.at, end
        return value, reason

    def _decode_with(self, decoder: json.JSONDecoder) -> tuple[Any, int]:
        while True:
            try:
                value, end = decoder.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                is_cut = error.pos >= len(self.text) - _MARGIN or error.msg.startswith(
                    "Unterminated string"
                )
                if self.is_ended or not is_cut:
                    raise _DamagedError(error, self.text) from None
            except RecursionError:
                raise _TooLongError(is_deep=True) from None
            else:
                if end - self.at > self.limit:
                    raise _TooLongError

                # A number may go on.
                if end < len(self.text) or self.is_ended or self.text[end - 1] in '"]}':
                    return value, end

            if len(self.text) - self.at > self.limit:
                raise _TooLongError

            self._fill_buffer()

    def _skip_value(self) -> int:
        """Move behind the value at the position; its size in bytes, nearly."""
        size = depth = 0
        is_string = False
        while True:
            for match in _BRACKET.finditer(self.text, self.at):
                char = match[0]
                if char == '"':
                    is_string = not is_string
                elif not is_string:
                    depth += (char in "[{") - (char in "]}")

                if depth <= 0 and not is_string and len(char) == 1:
                    size += match.end() - self.at
                    self.at = match.end()
                    return size

            # A backslash at the end belongs to what comes next.
            end = len(self.text) - self.text.endswith("\\")
            size, self.at = size + end - self.at, end
            if self.is_ended:
                self.at = len(self.text)
                return size

            self._fill_buffer()

    def _find_next(self) -> bool:
        """
        Move to the next whole conversation behind the position, of the same format as
        the one before; False at the end.
        """
        self.at += 1
        kind = self.recognize(self.sample) if self.sample is not None else ""
        searched = 0
        while searched < _MAX_SEARCH:
            found = self.text.find("{", self.at)
            self.at = len(self.text) if found < 0 else found
            if found < 0:
                if self.is_ended:
                    return False

                self._fill_buffer()
                continue

            step = 1
            try:
                value, end = self._decode_with(_PLAIN)
            except _DamagedError as error:
                searched += error.position - self.at
            except _TooLongError:
                searched += self.limit
                step = _DEEP_STEP
            else:
                step = end - self.at
                searched += step
                # What stands behind a key is a part of the damaged one.
                before = self.text[max(0, self.at - _BEFORE) : self.at]
                is_value = before.rstrip().endswith(":")
                name = "" if is_value else self.recognize(value)
                if name and name == (kind or name):
                    return True

            self.at += step

        return False

    # Values in each other

    def _read_list(self, path: str) -> Iterator[Found]:
        self.at += 1
        position = 0
        is_found = True
        is_open = False  # behind a comma
        while is_found:
            char = self._peek_char()
            line = self._count_line()
            if char in {"", "]"}:
                self.at += len(char)
                if is_open and char:
                    yield DamagedText(line, f"{path} has nothing behind its last comma")
                elif not char:
                    self.is_cut = True
                    where = "this list" if path == "$" else path
                    yield DamagedText(line, _describe_cut(where), is_gap=True)

                break

            position += 1
            where = f"{path}[{position - 1}]"
            try:
                found = self._read_element(line, position, where)
            except _DamagedError as error:
                found, is_found = self._pass_damage(error, where)
                yield found._replace(is_gap=True)
                continue

            if isinstance(found, DamagedText):
                found = found._replace(is_gap=True)

            yield found
            char = self._peek_char()
            is_open = char == ","
            if is_open:
                self.at += 1
            elif char not in {"", "]"}:
                reason = f"expected , or ] here, got {char!r}"
                yield DamagedText(self._count_line(), reason, is_gap=True)
                self.at -= 1  # this may be the next one
                is_found = self._find_next()

        yield ListEnd()

    def _read_element(
        self, line: int, position: int, where: str
    ) -> JsonValue | DamagedText:
        try:
            value, reason = self._scan_value()
        except _TooLongError as error:
            size = self._skip_value()
            if error.is_deep:
                what = f"{where} was skipped; {_TOO_DEEP}"
                return DamagedText(line, what)

            return _make_skipped(line, where, size, self.limit)

        if reason:
            return DamagedText(line, f"{where} can't be read: {reason}")

        if isinstance(value, dict):
            self.sample = value

        return JsonValue(value, line, position, where, self.scanned)

    def _pass_damage(
        self, error: _DamagedError, where: str
    ) -> tuple[DamagedText, bool]:
        """
        Move to the next whole conversation; what is wrong with the one at *where*, and
        whether there is a next one.
        """
        line = self._line_of(error.position)
        end = self._line_of(len(self.text.rstrip()))
        is_found = self._find_next()
        if is_found or not error.is_cut:
            return DamagedText(line, f"{where} is damaged: {error.reason}"), is_found

        self.is_cut = True
        return DamagedText(end, _describe_cut(where)), False

    def _line_of(self, position: int) -> int:
        return self._line + self.text.count("\n", self._counted, position)

    def _read_object(self) -> Iterator[Found]:
        line = self._count_line()
        try:
            value, reason = self._scan_value()
        except _DamagedError as error:
            if _WRAPPED.match(self.text, self.at):
                yield from self._read_members()
            else:
                yield self._pass_damage(error, "this document")[0]
        except _TooLongError as error:
            yield from self._read_members(is_deep=error.is_deep)
        else:
            yield DamagedText(line, reason) if reason else JsonValue(value, line)

    def _read_members(self, *, is_deep: bool = False) -> Iterator[Found]:
        """The elements of the list of conversations that an object has."""
        line = self._count_line()
        self.at += 1
        has_list = False
        left_out: list[str] = []
        damage: _DamagedError | None = None
        try:
            while self._peek_char() == '"':
                key, _ = self._scan_value()
                if self._peek_char() != ":":
                    break

                self.at += 1
                if self._peek_char() == "[" and key in WRAPPERS:
                    has_list = True
                    yield from self._read_list(f"$.{key}")
                else:
                    left_out.append(key)
                    try:
                        self._scan_value()
                    except _TooLongError:
                        self._skip_value()

                if self._peek_char() == ",":
                    self.at += 1
        except _DamagedError as error:
            damage = error

        keys = ", ".join(left_out[:_MAX_KEYS])
        if not has_list:
            limit = f"--max-line is {self.limit / _MEBIBYTE:,g} MiB"
            reason = (
                f"an object with the keys {keys} was skipped; "
                f"{_TOO_DEEP if is_deep else limit}"
            )
            yield DamagedText(line, reason)
        elif left_out:
            yield LeftOut(line, f"left out what is beside the list: {keys}")

        yield from self._end_object(damage)

    def _end_object(self, damage: _DamagedError | None) -> Iterator[Found]:
        """Move behind the end of an object; what is wrong with that."""
        if damage is not None:
            yield self._pass_damage(damage, "this document")[0]
            return

        char, line = self._peek_char(), self._count_line()
        if char == "}":
            self.at += 1
        elif char:
            yield DamagedText(line, f"expected , or }} here, got {char!r}")
            self._find_next()
        elif not self.is_cut:
            yield DamagedText(line, _describe_cut("this document"))


# An object that has such a list among its first keys, beside plain values.
_WRAPPED = re.compile(
    r'\{(?:\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|[^"\[\]{},\s]+)\s*,)*\s*'
    rf'"(?:{"|".join(WRAPPERS)})"\s*:\s*\[\s*[\[{{]'
)
