"""From one record to messages, and from lines of JSON to the conversations on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state._persistent import check_iterable, final, freeze_map
from conversation_state._wording import describe_value
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    note_mended,
)
from conversation_state.adapters.engine.wire import MessageLoader, parse_arguments
from conversation_state.adapters.transcripts._turns import SOURCE, WHO, TranscriptTurn
from conversation_state.errors import DecodeError, Problem
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall

# Where a record has its turns.
_LISTS = ("conversations", "messages", "items", "conversation")
_PROMPT = "prompt"
_ANSWERS = ("completion", "response")
_NO_CONVERSATION = (
    "no conversation; expected a list of messages, or an object with such a list as "
    f"{', '.join(_LISTS)}, or with a prompt and a completion"
)


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: one record, a list of turns, or one turn.

    Half of a surrogate pair becomes U+FFFD, and a note has its path. A turn of
    calls whose text is not a call is an `UnknownMessage`.

    Raises:
        DecodeError:
            If it is not a transcript; with all that is wrong, each with its path.
    """
    loader = TranscriptLoader()
    messages: list[Message] = []
    if is_list(payload):
        messages = loader.turns(payload, "$")
    elif is_map(payload):
        messages = loader.record(payload)
    else:
        loader.problem("$", _NO_CONVERSATION)

    loader.finish()
    return tuple(messages)


def _is_turn(record: Mapping[Any, Any]) -> bool:
    return any(key in record for key in WHO) and not any(
        is_list(record.get(key)) for key in _LISTS
    )


def _find_message_keys(record: Mapping[Any, Any]) -> tuple[str, ...]:
    """The keys under which *record* has its messages: that of a list, or two."""
    for key in _LISTS:
        if record.get(key) is not None:
            return (key,)

    answers = [key for key in _ANSWERS if key in record]
    return (_PROMPT, answers[0]) if answers and _PROMPT in record else ()


class TranscriptLoader(MessageLoader):
    def __init__(self) -> None:
        super().__init__()
        self.turns_so_far = 0

    def record(self, record: Mapping[str, Any]) -> list[Message]:
        if _is_turn(record):
            return self.turns([record], "$", alone=True)

        messages: list[Message] = []
        node = ObjectReader(self, record, "$")
        system = record.get("system")
        if system is not None and system != "":
            messages.append(self._load_text(node, "system", SystemMessage))

        keys = _find_message_keys(record)
        if not keys:
            self.problem("$", _NO_CONVERSATION)
        elif keys[0] == _PROMPT:
            messages += self._load_side(node, keys[0], UserMessage)
            messages += self._load_side(node, keys[1], AssistantMessage)
        elif is_list(record[keys[0]]):
            messages += self.turns(record[keys[0]], f"$.{keys[0]}")
        else:
            node.wrong(keys[0], "a list of messages")

        return messages

    def _load_side(
        self, node: ObjectReader, key: str, kind: Callable[..., Message]
    ) -> list[Message]:
        given = node.raw[key]
        if is_list(given):
            return self.turns(given, f"$.{key}")

        if isinstance(given, str):
            return [self._load_text(node, key, kind)]

        node.wrong(key, "a text, or a list of messages")
        return []

    def _load_text(
        self, node: ObjectReader, key: str, kind: Callable[..., Message]
    ) -> Message:
        mended_before = len(self.mended)
        text = node.text(key)
        noted = ObjectReader(self, {}, node.path)
        note_mended(noted, mended_before)
        return kind(text, metadata=noted.metadata(SOURCE))

    def turns(
        self, raws: Sequence[Any], path: str, *, alone: bool = False
    ) -> list[Message]:
        """The messages of a list; of one turn at *path* if it is *alone*."""
        messages: list[Message] = []
        calling: list[tuple[ObjectReader, list[ToolCall]]] = []
        for at, raw in enumerate(raws):
            here = path if alone else f"{path}[{at}]"
            turn = TranscriptTurn(self, raw, here, self.turns_so_far)
            # Over both lists of a record: ids made up for calls may not repeat.
            self.turns_so_far += 1
            calls = turn.calls()
            if calls is not None:
                # Calls that follow one another are one message's.
                self.pairing.open_calls(calls, more=bool(calling))
                calling.append((turn.node, calls))
                continue

            messages += _make_caller(calling)
            calling = []
            message = turn.message()
            if message is not None:
                messages.append(message)

        return messages + _make_caller(calling)


def _make_caller(calling: list[tuple[ObjectReader, list[ToolCall]]]) -> list[Message]:
    if not calling:
        return []

    # One message has one set of keys, so those of several turns stand in a list, unless
    # they are the same.
    first = calling[0][0]
    if any(node.keys != first.keys for node, _ in calling):
        first.keys = {"turns": [node.keys for node, _ in calling]}

    mended = [where for node, _ in calling for where in node.notes.get("mended", ())]
    if mended:
        first.notes["mended"] = mended

    calls = [call for _, made in calling for call in made]
    metadata = first.metadata(SOURCE)
    return [AssistantMessage(tool_calls=calls, metadata=metadata)]


# Editors on Windows put a byte order mark before the first line; `json` refuses it.
_MARK = "\ufeff"


@final
class Transcript(NamedTuple):
    """
    A conversation that was found.

    Attributes:
        line: The line it is on, or starts on, counted from 1.

        name: Its ``id``, as it is, or "".

        messages: The messages.

        keys: What else its record has: ``tools``, ``source``, ...
    """

    line: int
    name: str
    messages: tuple[Message, ...]
    keys: Mapping[str, Any]


@final
class Broken(NamedTuple):
    """
    A line that holds no conversation.

    Attributes:
        line: The line, counted from 1.

        error: All that is wrong with it, each with its path in the line.
    """

    line: int
    error: DecodeError


def load_lines(
    lines: str | Iterable[str | DecodeError],
    *,
    load: Callable[[Any], tuple[Message, ...]] = load,
) -> Iterator[Transcript]:
    """
    The conversations on *lines*, as they come; see `line_results`.

    Raises:
        DecodeError:
            At the first line that holds none; its problems name the line:
            ``line 3: $.conversations[0].from``.
    """
    for result in line_results(lines, load=load):
        if isinstance(result, Broken):
            at = f"line {result.line}: "
            problems = [Problem(f"{at}{p.path}", p.what) for p in result.error.problems]
            raise DecodeError(tuple(problems))

        yield result


def line_results(
    lines: str | Iterable[str | DecodeError],
    *,
    load: Callable[[Any], tuple[Message, ...]] = load,
) -> Iterator[Transcript | Broken]:
    """
    The conversations on *lines*, and errors in place of invalid ones.

    Blank lines hold nothing. Lines of one message each are one conversation,
    as far as no blank line and no other conversation comes between; one of
    them that is broken comes before it, and is not in it.

    Args:
        lines: A text, or its lines, such as an open file. Instead of a line that
            could not be read may stand the error with the reason.

        load: What makes messages of a record, and of a list of messages. That
            of an adapter's, for a dialect that this one does not know.

    Raises:
        TypeError:
            If a line is bytes, as those of a file that was opened as binary.
    """
    check_iterable(lines, "lines", "a text, or its lines")
    if isinstance(lines, str):
        # Not splitlines: JSON may hold what that takes for the end of a line.
        lines = lines.split("\n")

    loose = _LooseMessages(load)
    for number, line in enumerate(lines, 1):
        if isinstance(line, DecodeError):
            yield Broken(number, line)
            continue

        if not isinstance(line, str):
            msg = f"lines: expected texts, got {describe_value(line)} as line {number}"
            raise TypeError(f"{msg}; open a file as text, with encoding='utf-8'")

        if number == 1:
            line = line.removeprefix(_MARK)  # noqa: PLW2901 - no part of it

        if not line or line.isspace():
            yield from loose.rest()
            continue

        try:
            record = _parse_line(line)
            if is_map(record) and _is_turn(record):
                loose.add(number, record)
                continue

            found = Transcript(number, *_load_record(record, load))
        except DecodeError as error:
            yield Broken(number, error)
        else:
            yield from loose.rest()
            yield found

    yield from loose.rest()


class _LooseMessages:
    """Messages on lines of their own, until their conversation ends."""

    def __init__(self, load: Callable[[Any], tuple[Message, ...]]) -> None:
        self._load = load
        self._line = 0
        self._raws: list[Any] = []

    def add(self, number: int, raw: Any) -> None:
        # Alone to see what is wrong with it; with the others, later, to see
        # which call it answers.
        try:
            self._load([raw])
        except DecodeError as error:
            problems = [Problem(_of_line(one.path), one.what) for one in error.problems]
            raise DecodeError(tuple(problems)) from None

        if not self._raws:
            self._line = number

        self._raws.append(raw)

    def rest(self) -> Iterator[Transcript]:
        if self._raws:
            raws, self._raws = self._raws, []
            yield Transcript(self._line, "", self._load(raws), freeze_map({}, "keys"))


def _of_line(path: str) -> str:
    """*path* in a list of one message, as one in the message."""
    head, bracket, rest = path.partition("[0]")
    return f"${rest}" if bracket and head in {"$", "$.messages"} else path


def _load_record(
    record: Any, load: Callable[[Any], tuple[Message, ...]]
) -> tuple[str, tuple[Message, ...], Mapping[str, Any]]:
    messages = load(record)
    if not is_map(record):
        return "", messages, freeze_map({}, "keys")

    reader = DocumentReader()
    name = _get_name(record)
    known = {"system", *_find_message_keys(record), *(["id"] if name else [])}
    keys = reader.rest(record, frozenset(known), "$")
    reader.finish()
    return name, messages, freeze_map(keys, "keys")


def _get_name(record: Mapping[str, Any]) -> str:
    given = record.get("id")
    if isinstance(given, str):
        return given

    # True is an int to Python, and no name; what is not a name stays in the keys.
    return str(given) if type(given) is int else ""


def _parse_line(text: str) -> Any:
    try:
        # Not `json.loads`, which keeps one of two values under the same key.
        return parse_arguments(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()):
            why = "incomplete JSON; a conversation must be on one line"
        else:
            # Some of Python's messages end in the preposition.
            what = error.msg.removesuffix(" at")
            why = f"invalid JSON; {what} at column {error.colno}"
    except ValueError as error:
        # Too deep, a number of thousands of digits, NaN, or a key twice.
        why = f"unreadable JSON; {error}"

    raise DecodeError((Problem("$", why),))
