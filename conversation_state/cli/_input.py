"""
Reads conversations from files, and reports what can't be read.

What belongs together in a file (one message a line, the lines of a session, the
elements of a list) and the errors are here; JSON (`_values`), formats (`_formats`) and
archives (`_sources`), and what is done with a conversation (`replay`, `_transfer`), are
not.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from conversation_state._persistent import EMPTY_MAP
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.cli import _formats, _recognition, _rows, _sources, _workers
from conversation_state.cli._formats import FoundConversation
from conversation_state.cli._sources import STANDARD_INPUT, InputSource, NotRead
from conversation_state.cli._values import (
    DamagedText,
    JsonValue,
    LeftOut,
    ListEnd,
    read_values,
)
from conversation_state.cli._workers import ParallelLoader
from conversation_state.errors import DecodeError, Problem
from conversation_state.messages import Message
from conversation_state.tree import MessageTree

__all__ = [
    "STANDARD_INPUT",
    "InputConversation",
    "UnreadableInput",
    "read_files",
    "total_bytes",
]

# So many invalid lines of a file are reported; the others are counted. Of lines
# that are not text, the first is enough.
_MAX_REPORTED = 10
_MAX_REPORTED_BINARY = 1

_UNPACKING = (_sources.DamagedArchiveError, _sources.ExpansionError)

# How often the lines of a file are read as one conversation, each time without those
# that did not fit: an error names a hundred of them at most.
_MAX_ATTEMPTS = 8
# So many lines of unknown types may stand before the first of a session.
_MAX_LEADING = 100
# The longest part of an error that is printed, in characters.
_MAX_ERROR_LENGTH = 300


class InputConversation(NamedTuple):
    name: str  # its id, or its file and line or position without an id
    file: str  # its file, as given on the command line
    line: int  # its line, counted from 1
    messages: tuple[Message, ...]
    id: str = ""  # its id in the file, or ""
    state: Aggregator | None = None  # the state, if the line holds an encoded one
    tree: MessageTree | None = None  # all its branches, if the format has some
    notes: Mapping[str, Any] = EMPTY_MAP  # what the file has of it besides messages
    mended: tuple[str, ...] = ()  # what was wrong, and could be read all the same
    is_tree: bool = False  # the format can have branches
    noticed: tuple[str, ...] = ()  # what is odd, and kept as it is
    size: int = 0  # what it takes in the file, nearly


class UnreadableInput(NamedTuple):
    """A line or a file that should hold a conversation and does not."""

    file: str  # the file, as given on the command line
    line: int  # the line, counted from 1; 0 if this is about the whole file
    reason: str  # what is wrong
    is_error: bool = True  # not so of what is left out on purpose

    def __str__(self) -> str:
        file = "standard input" if self.file == STANDARD_INPUT else self.file
        return (
            f"{file}:{self.line}: {self.reason}"
            if self.line
            else f"{file}: {self.reason}"
        )


def read_files(
    files: Sequence[str],
    *,
    limit: int,
    advance: Callable[[int], object],
    format: str = "",  # noqa: A002 - as elsewhere
) -> Iterator[InputConversation | UnreadableInput]:
    """
    All conversations of *files* in order, with what is invalid in its place.

    A file is one JSON document, or has a JSON value on each line, in one of the formats
    of `_formats.FORMATS`; it may be compressed with gzip, or a zip archive of such.
    Blank lines are skipped. The first errors of a file are reported, the rest are
    counted.

    Args:
        files: Paths; ``-`` is standard input.
        limit: The longest line, or element of a document, that is parsed, in bytes.
        advance: Called with the number of bytes that were read, each time.
        format: The format of all of them; by default each is recognised.
    """
    for file in files:
        try:
            for source in _sources.open_sources(file, advance=advance):
                if isinstance(source, NotRead):
                    yield UnreadableInput(
                        source.file, 0, source.reason, source.is_error
                    )
                else:
                    has_many = len(files) > 1 or source.file != file
                    nameless = f"{source.file}:{{}}" if has_many else "line {}"
                    reader = _SourceReader(source, limit, format, nameless)
                    with closing(reader):
                        yield from reader.read()
        except _UNPACKING as error:
            yield UnreadableInput(file, 0, str(error))
        except OSError as error:
            yield UnreadableInput(file, 0, _sources.describe_file_error(file, error))


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


class _SourceReader:
    """One file while it is read: the messages that are not a conversation yet."""

    def __init__(
        self, source: InputSource, limit: int, format_name: str, nameless: str
    ) -> None:
        self.source, self.limit = source, limit
        self.format, self.nameless = format_name, nameless
        self.items: list[JsonValue] = []
        self.loader: ParallelLoader | None = None
        if source.size >= _workers.LARGE_BYTES:
            self.loader = ParallelLoader(format_name)
        self.session: list[JsonValue] = []
        self.session_format = ""
        self.leading: list[JsonValue] = []  # unknown lines, before a session or not
        self.is_damaged = False  # the list that is read lacks an element
        self.is_empty = True
        self.number = 0  # of the last conversation without an id
        # What is wrong with an element of a list: what, its line, the whole reason, and
        # how many more elements it is wrong with.
        self.held: tuple[str, int, str, int] | None = None
        self.reported = self.reported_binary = self.unreported = 0

    def read(self) -> Iterator[InputConversation | UnreadableInput]:
        values = read_values(
            self.source.stream, limit=self.limit, recognize=_recognition.recognize
        )
        try:
            for found in values:
                yield from self._read_value(found)
        except _UNPACKING as error:
            self.is_damaged, self.is_empty = True, False
            yield from self._load_waiting()
            yield UnreadableInput(self.source.file, 0, str(error))

        yield from self._load_waiting()
        if self.unreported:
            more = self.unreported
            words = "1 more line is" if more == 1 else f"{more:,} more lines are"
            yield UnreadableInput(self.source.file, 0, f"{words} invalid as well")

        if self.is_empty:
            reason = "empty; expected a conversation on each line"
            yield UnreadableInput(self.source.file, 0, reason)

    def close(self) -> None:
        if self.loader is not None:
            self.loader.close()

    def _read_value(
        self, found: JsonValue | DamagedText | LeftOut | ListEnd
    ) -> Iterator[InputConversation | UnreadableInput]:
        if isinstance(found, ListEnd):
            if not self.session:
                yield from self._load_waiting()
        elif isinstance(found, LeftOut):
            self.is_empty, text = False, found.text
            yield UnreadableInput(self.source.file, found.line, text, is_error=False)
        elif isinstance(found, DamagedText):
            self.is_damaged = self.is_damaged or found.is_gap
            yield from self._report_unreadable(
                found.line, found.reason, is_binary=found.is_binary
            )
        else:
            self.is_empty = False
            yield from self._read_json(found)

    def _read_json(
        self, found: JsonValue
    ) -> Iterator[InputConversation | UnreadableInput]:
        if self.session or self._is_of_session(found.data):
            if self._is_of_another(found.data) and self.session:
                yield from self._load_waiting()
                yield from self._read_json(found)
            else:
                self.session += [*self.leading, found]
                self.leading = []
        elif self._may_begin_session(found):
            self.leading.append(found)
        elif self.leading:
            yield from self._load_leading()
            yield from self._read_json(found)
        elif (
            _recognition.is_item(found.data)
            or self._is_next_piece(found)
            or self._is_bad_item(found)
        ):
            if self._is_behind_stream(found):
                yield from self._load_waiting()

            self.items.append(found)
        else:
            if self.items:
                yield from self._load_waiting()

            yield from self._take_several(found)

    def _is_of_session(self, data: Any) -> bool:
        if self.format:
            return self.format in _recognition.SESSIONS

        return bool(_recognition.recognize_session(data))

    def _may_begin_session(self, found: JsonValue) -> bool:
        is_first = not (self.format or found.position or self.items)
        is_full = len(self.leading) >= _MAX_LEADING
        return is_first and not is_full and _recognition.may_begin_session(found.data)

    def _load_leading(self) -> Iterator[InputConversation | UnreadableInput]:
        leading, self.leading = self.leading, []
        for each in leading:
            yield from self._take_several(each)

    def _is_of_another(self, data: Any) -> bool:
        """Whether *data* is no line of the session so far, but of another format."""
        if self.format:
            return False

        name = _recognition.recognize_session(data)
        if not name:
            return bool(_recognition.recognize(data))

        # A line of these two may look like one of the other.
        name = "pi" if name == "sts" else name
        self.session_format = self.session_format or name
        return name != self.session_format

    def _take_several(
        self, found: JsonValue
    ) -> Iterator[InputConversation | UnreadableInput]:
        """A conversation, or a list of some, which an object may have under a key."""
        inside, beside = found.path, ""
        path, listed, left_out = _recognition.find_list(found.data, found.path)
        if not (listed or self.format):
            inside, data, beside = _recognition.unwrap(found.data, found.path)
            found = found._replace(data=data, path=inside)
            path, listed, left_out = _recognition.find_list(data, inside)

        for where, keys in ((inside, beside), (path, left_out)):
            if keys:
                what = f"left out what is beside {where}: {keys}"
                file, line = self.source.file, found.line
                yield UnreadableInput(file, line, what, is_error=False)

        if isinstance(found.data, list) and any(
            map(_recognition.recognize, found.data)
        ):
            listed = found.data

        if not listed or self._is_stream(listed):
            yield from self._take_one(found)
            return

        for at, each in enumerate(listed):
            here = JsonValue(each, found.line, at + 1, f"{path}[{at}]")
            yield from self._take_one(here)

    def _take_one(
        self, found: JsonValue
    ) -> Iterator[InputConversation | UnreadableInput]:
        """A conversation, or the rows of several in one list."""
        rows, path, beside = _recognition.find_rows(found.data, found.path)
        groups = _rows.group_rows(rows)
        if len(groups) == 1 and not (groups[0][0] and rows is found.data):
            yield from self._load_value(found.data, found)
            return

        if beside:
            what = f"left out what is beside {path}: {beside}"
            yield UnreadableInput(self.source.file, found.line, what, is_error=False)

        self.items = [
            JsonValue(each, found.line, at + 1, f"{path}[{at}]")
            for at, each in enumerate(rows)
        ]
        yield from self._load_items()

    def _is_next_piece(self, found: JsonValue) -> bool:
        # The last response of a stream looks like a whole one.
        before = self.items[-1].data if self.items else None
        if not isinstance(before, dict) or not isinstance(found.data, dict):
            return False

        if before.get("done") is False:
            return bool(found.data.get("done"))  # Ollama's

        id = found.data.get("responseId")
        is_same = "candidates" in before and before.get("responseId") == id
        return is_same and (bool(found.position) or id is not None)

    def _is_behind_stream(self, found: JsonValue) -> bool:
        # The last response of a stream is a whole one.
        before = self.items[-1].data if self.items else {}
        is_whole = bool(_recognition.recognize(before))
        is_last = is_whole and not _recognition.is_piece(before)
        return is_last and not self._is_next_piece(found)

    def _is_bad_item(self, found: JsonValue) -> bool:
        # Else the messages before and behind it would be two conversations.
        return bool(
            found.position and self.items and not _recognition.recognize(found.data)
        )

    def _is_stream(self, listed: Sequence[Any]) -> bool:
        return isinstance(listed[0], dict) and _recognition.is_piece(listed[0])

    def _load_waiting(self) -> Iterator[InputConversation | UnreadableInput]:
        """What was read so far: what is being loaded, and messages."""
        yield from self._load_leading()
        for value, loaded in () if self.loader is None else self.loader.finish():
            yield from self._yield_loaded(value, loaded)

        yield from self._report_held()
        if self.session:
            yield from self._load_session()

        yield from self._load_items(is_damaged=self.is_damaged)
        self.is_damaged = False

    def _load_items(
        self, *, is_damaged: bool = False
    ) -> Iterator[InputConversation | UnreadableInput]:
        items, self.items = self.items, []
        if is_damaged and any(each.position for each in items):
            yield from self._report_gap(items[0])
            return

        groups = _rows.group_rows([each.data for each in items])
        for name, places in groups:
            if not name and len(groups) > 1:
                count = f"{len(places):,} of {len(items):,} messages"
                what = f"{count} without the id of a conversation; taken as one"
                file, line = self.source.file, items[places[0]].line
                yield UnreadableInput(file, line, what, is_error=False)

            yield from self._load_group([items[at] for at in places], name)

    def _load_group(
        self, items: list[JsonValue], name: str
    ) -> Iterator[InputConversation | UnreadableInput]:
        if not items:
            return

        first, attempts = items[0], 0
        while True:
            try:
                found = _formats.load([each.data for each in items], self.format)
                break
            except DecodeError as error:
                problem = error

            if first.position:
                # Of a list all or nothing.
                placed = _place_problems(problem, items)
                reason = _describe_problem(placed, first._replace(path="$"))
                yield from self._report_unreadable(first.line, reason)
                return

            # What can't be read is reported at its place, and the rest goes on without
            # it: what can't by itself, and then what can't with the others.
            wrong = {} if attempts else self._check_each(items)
            if not wrong and attempts < _MAX_ATTEMPTS:
                wrong = _split_problems(problem)

            for at, each in wrong.items():
                reason = _describe_problem(each, items[at], is_item=True)
                yield from self._report_unreadable(items[at].line, reason)

            if not wrong or len(wrong) == len(items):
                if not wrong:
                    reason = _describe_problem(problem, first)
                    yield from self._report_unreadable(first.line, reason)

                return

            items = [each for at, each in enumerate(items) if at not in wrong]
            attempts += 1

        # In a list they are one document.
        at = 1 if first.position else first.line
        found = found._replace(id=found.id or name)
        yield self._name_conversation(found, first.line, at)

    def _check_each(self, items: Sequence[JsonValue]) -> dict[int, DecodeError]:
        # Which of *items* can't be read by themselves, and why.
        wrong: dict[int, DecodeError] = {}
        for at, each in enumerate(items):
            try:
                _formats.load([each.data], self.format)
            except DecodeError as error:
                wrong[at] = error

        return wrong

    def _load_session(self) -> Iterator[InputConversation | UnreadableInput]:
        lines, self.session, self.session_format = self.session, [], ""
        first = lines[0]
        if first.position and self.is_damaged:
            yield from self._report_gap(first)
            return

        try:
            data: list[Any] = []
            for value in lines:
                # Each has the number that it has in the file, though some are missing.
                missing = 0 if value.position else value.line - len(data) - 1
                data += [*[""] * missing, value.data]

            path = Path(self.source.file)
            found = _formats.load_session(data, path, self.format)
        except DecodeError as error:
            yield from self._report_unreadable(
                first.line, _describe_problem(error, first)
            )
        else:
            for each in found:
                if isinstance(each, DecodeError):
                    reason = _describe_problem(each, first)
                    yield from self._report_unreadable(first.line, reason)
                else:
                    yield self._name_conversation(each, first.line, first.line)

    def _load_value(
        self, data: Any, value: JsonValue
    ) -> Iterator[InputConversation | UnreadableInput]:
        if self.loader is not None and value.size:
            for other, loaded in self.loader.add(value):
                yield from self._yield_loaded(other, loaded)
        else:
            yield from self._yield_loaded(
                value, *_workers.load_all([data], self.format)
            )

    def _yield_loaded(
        self, value: JsonValue, loaded: FoundConversation | DecodeError
    ) -> Iterator[InputConversation | UnreadableInput]:
        if isinstance(loaded, DecodeError):
            what = loaded.problems[0].what
            if self.held is not None and value.position and self.held[0] == what:
                self.held = (*self.held[:3], self.held[3] + 1)
                return

            yield from self._report_held()
            reason = _describe_problem(loaded, value)
            if value.position:
                self.held = (what, value.line, reason, 0)
            else:
                yield from self._report_unreadable(value.line, reason)
        else:
            yield from self._report_held()
            at = value.position or value.line
            yield self._name_conversation(loaded, value.line, at)._replace(
                size=value.size
            )

    def _name_conversation(
        self, found: FoundConversation, line: int, at: int
    ) -> InputConversation:
        if not found.id:
            # A file may have several lists; a number is used once.
            self.number = at = max(at, self.number + 1)

        return InputConversation(
            found.id or self.nameless.format(at),
            self.source.file,
            line,
            found.messages,
            found.id,
            found.state,
            found.tree,
            found.notes,
            found.mended,
            found.is_tree,
            found.noticed,
        )

    def _report_held(self) -> Iterator[UnreadableInput]:
        """Report once what is wrong with several elements of a list."""
        if self.held is not None:
            _, line, reason, more = self.held
            self.held = None
            words = f"{reason} (and {more:,} more like it)" if more else reason
            yield from self._report_unreadable(line, words)

    def _report_gap(self, first: JsonValue) -> Iterator[UnreadableInput]:
        """
        Report the list of messages that begins with *first*: what it lacks may be of
        any of its conversations, whose rows are often interleaved.
        """
        what = "nothing of this list is imported, because messages of it are missing"
        yield from self._report_unreadable(first.line, what)

    def _report_unreadable(
        self, line: int, reason: str, *, is_binary: bool = False
    ) -> Iterator[UnreadableInput]:
        self.is_empty = False
        is_enough = is_binary and self.reported_binary >= _MAX_REPORTED_BINARY
        if self.reported >= _MAX_REPORTED or is_enough:
            self.unreported += 1
            return

        self.reported += 1
        self.reported_binary += is_binary
        yield UnreadableInput(self.source.file, line, reason)


def _place_problems(error: DecodeError, items: Sequence[JsonValue]) -> DecodeError:
    """*error* of a list of *items*, with the paths that they have in the document."""
    placed = []
    for problem in error.problems:
        found = _FIRST_ITEM.match(problem.path)
        path = f"{items[int(found[1])].path}{found[2]}" if found else "$"
        placed.append(Problem(path, problem.what))

    return DecodeError(tuple(placed))


def _split_problems(error: DecodeError) -> dict[int, DecodeError]:
    """The problems of each item that *error*, of a list of items, names."""
    split: dict[int, DecodeError] = {}
    for problem in error.problems:
        if found := _FIRST_ITEM.match(problem.path):
            before = split.get(int(found[1]), DecodeError(()))
            here = Problem(f"$[0]{found[2]}", problem.what)
            split[int(found[1])] = DecodeError((*before.problems, here))

    return split


_FIRST_ITEM = re.compile(r"\$\[(\d+)\](.*)", re.DOTALL)


def _name_value(value: JsonValue) -> str:
    # A user finds one of many by its title, not by its place.
    data = value.data if value.position and isinstance(value.data, dict) else {}
    title = data.get("title") or ("chat_messages" in data and data.get("name"))
    return f"{shorten_repr(title)}: " if isinstance(title, str) and title else ""


def _describe_problem(
    error: DecodeError, value: JsonValue, *, is_item: bool = False
) -> str:
    first, *others = error.problems
    path = first.path
    if is_item:
        path = path.replace("$.messages[0]", "$", 1).replace("$[0]", "$", 1)
    elif path.startswith("$"):
        path = f"{value.path}{path[1:]}"

    # About the value itself, or about something in a conversation.
    first = Problem(path, first.what)
    reason = first.what if path == "$" else str(first)
    reason = f"{_name_value(value)}no conversation; {reason}"
    reason = f"{reason:.{_MAX_ERROR_LENGTH}}"
    return f"{reason} (and {len(others):,} more)" if others else reason
