"""
From one record to messages, turn by turn, and from lines of JSON to the conversations
on them.
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from conversation_state._persistent import check_iterable, final, freeze_map
from conversation_state._wording import describe_value
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    mended,
    note_mended,
)
from conversation_state.adapters.engine.wire import (
    MESSAGE_CLASSES,
    MessageLoader,
    parse_arguments,
)
from conversation_state.errors import DecodeError, Problem
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, Part, ReasoningPart, TextPart
from conversation_state.tools import ToolCall

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "transcripts"

# Where a turn has its role.
WHO = ("from", "role")
_WHAT = ("value", "content", "text")
_THOUGHTS = ("reasoning_content", "thinking")

_CALLS = "calls"
# The roles of all dialects, in lower case.
_ROLES: Mapping[str, str] = {
    "agent": "assistant",
    "ai": "assistant",
    "assistant": "assistant",
    "bard": "assistant",
    "bing": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "chatgpt": "assistant",
    "customer": "user",
    "developer": "system",
    "function": "tool",
    "function_call": _CALLS,
    "function_response": "tool",
    "gpt": "assistant",
    "human": "user",
    "ipython": "tool",
    "model": "assistant",
    "observation": "tool",
    "prompter": "user",
    "system": "system",
    "tool": "tool",
    "tool_call": _CALLS,
    "tool_response": "tool",
    "user": "user",
}
_TEXT = frozenset({"text", "type"})
_IMAGE = frozenset({"image_url", "type"})
_IMAGE_URL = frozenset({"detail", "url"})
_FUNCTION = frozenset({"arguments", "name"})


class TranscriptTurn:
    def __init__(self, loader: MessageLoader, raw: Any, path: str, at: int) -> None:
        self.loader = loader
        self.problems, self.mended_before = loader.count, len(loader.mended)
        self.prefix = f"message_{at}"
        self.node = ObjectReader(loader, raw if is_map(raw) else {}, path)
        self.role = ""
        if is_map(raw):
            self.who = next((key for key in WHO if raw.get(key) is not None), "role")
            self.what = next((key for key in _WHAT if raw.get(key) is not None), "")
            given = raw.get(self.who)
            if isinstance(given, str):
                self.role = _ROLES.get(given.strip().lower(), "")

            if not self.role:
                self.node.wrong(self.who, f"one of {', '.join(_ROLES)}")
        else:
            loader.wrong(path, raw, "an object")

    def calls(self) -> list[ToolCall] | None:
        if self.role != _CALLS or not self.what:
            return None

        given = self.node.raw[self.what]
        text = mended(given) if isinstance(given, str) else _as_json(self._read_json())
        found = _parse_calls(text)
        if found is None:
            return None

        self._keep_rest(self.who, self.what)
        path = f"{self.node.path}.{self.what}"
        if text != given and isinstance(given, str):
            self.loader.mended.append(path)

        calls = [
            _read_call(
                ObjectReader(self.loader, call, path), f"{self.prefix}_call_{at}"
            )
            for at, call in enumerate(found)
        ]
        note_mended(self.node, self.mended_before)
        return calls if self._is_valid() else None

    def messages(self) -> list[Message]:
        """Its messages, several if its text has results in tags; none if it is bad."""
        if not self._is_valid():
            return []

        found = None if self.role == _CALLS else self._load_known()
        if found is None and self._is_valid():
            return [self.node.as_unknown_message(SOURCE, self.mended_before)]

        return found if found is not None and self._is_valid() else []

    def _is_valid(self) -> bool:
        return self.loader.count == self.problems

    def _read_json(self) -> Any:
        path = f"{self.node.path}.{self.what}"
        return self.loader.json(self.node.raw[self.what], path)

    def _keep_rest(self, *known: str) -> None:
        left = self.loader.rest(self.node.raw, frozenset(known), self.node.path)
        self.node.keys.update({k: v for k, v in left.items() if v is not None})

    def _load_known(self) -> list[Message] | None:
        node, role = self.node, self.role
        content = self._read_turn_content()
        if role in {"tool", "user"} and isinstance(content, str):
            results = self._read_tagged_results(content)
            if results:
                return results

        known = [self.who, self.what, "name"]
        name = self._get_text("name")
        fields: dict[str, Any] = {"tool_name" if role == "tool" else "name": name}
        if role == "tool":
            known.append("tool_call_id")
            given = self._get_text("tool_call_id")
            call_id = self.loader.resolve_call(node, given, name, self.prefix)
            fields["tool_call_id"] = call_id
        elif role == "assistant":
            known += ["tool_calls", *_THOUGHTS]
            calls = self._read_calls_in_json()
            if calls is None:
                calls = self.loader.read_calls(node, self.prefix, _read_call)

            if isinstance(content, str) and "<tool_call>" in content:
                content, tagged = self._take_tagged_calls(content, len(calls))
                self.loader.pairing.open_calls(tagged, more=bool(calls))
                calls = [*calls, *tagged]

            # A turn without calls has none to write back, be it null or [].
            node.keys.pop("tool_calls", None)
            fields["tool_calls"] = calls
            content = self._add_reasoning(content)

        self._keep_rest(*known)
        is_odd = role == "system" and not (
            isinstance(content, str) or all(isinstance(p, TextPart) for p in content)
        )
        if is_odd or not self._is_valid():
            return None

        note_mended(node, self.mended_before)
        metadata = node.metadata(SOURCE)
        return [MESSAGE_CLASSES[role](content, **fields, metadata=metadata)]

    def _read_calls_in_json(self) -> list[ToolCall] | None:
        # Datasets in columns have the list of calls as its JSON; None if it is a list.
        given = self.node.raw.get("tool_calls")
        if not isinstance(given, str):
            return None

        try:
            calls = parse_arguments(given) if given else []
        except ValueError:
            return None  # a text is refused where a list is expected

        if not is_list(calls) or not all(map(is_map, calls)):
            return None

        path = f"{self.node.path}.tool_calls"
        nodes = [ObjectReader(self.loader, call, path) for call in calls]
        found = [
            _read_call(node, f"{self.prefix}_call_{at}")
            for at, node in enumerate(nodes)
        ]
        self.loader.pairing.open_calls(found)
        return found

    def _take_tagged_calls(self, text: str, number: int) -> tuple[str, list[ToolCall]]:
        """
        *text* without the calls in its tags, and these, numbered from *number* on; as
        it is if what is in one of its tags is no call. A tag in code is text.
        """
        path = f"{self.node.path}.{self.what}"
        code = [found.span() for found in _CODE.finditer(text)]
        pieces: list[str] = []
        calls: list[ToolCall] = []
        begin = at = 0
        while tag := _TAGGED_CALL.search(text, at):
            start, stop = tag.span()
            before = bisect_right(code, (start, len(text))) - 1
            end = code[before][1] if before >= 0 else 0
            if stop <= end:
                at = stop
                continue

            found = _parse_tagged_calls(tag[1])
            if found is None and start < end:
                at = start + 1  # only the name of the tag is in code
                continue

            if found is None:
                return text, []

            for call in found:
                made = f"{self.prefix}_call_{number + len(calls)}"
                calls.append(_read_call(ObjectReader(self.loader, call, path), made))

            pieces.append(text[begin:start])
            begin = at = stop

        left = "".join([*pieces, text[begin:]])
        return left.strip() if calls else text, calls

    def _read_tagged_results(self, text: str) -> list[Message]:
        """The results that *text* has in tags; none if there is anything else in it."""
        if "<tool_response>" not in text or _TAGGED_RESULT.sub("", text).strip():
            return []

        known = [self.who, self.what]
        found = [*map(_parse_tagged_result, _TAGGED_RESULT.findall(text))]
        if self.role == "tool" and len(found) == 1:
            # The turn's own name and id are those of its only result.
            known += ["name", "tool_call_id"]
            own = self._get_text("name"), self._get_text("tool_call_id")
            name, call_id, content = found[0]
            found = [(name or own[0], call_id or own[1], content)]

        self._keep_rest(*known)
        note_mended(self.node, self.mended_before)
        results: list[Message] = []
        for at, (name, given, content) in enumerate(found):
            call_id = given
            if not (call_id and self.loader.pairing.close_call(call_id)):
                made = f"{self.prefix}_{at}" if at else self.prefix
                call_id = self.loader.pairing.close_next(name) or made

            metadata = {} if at else self.node.metadata(SOURCE)
            results.append(
                ToolMessage(
                    content, tool_call_id=call_id, tool_name=name, metadata=metadata
                )
            )

        return results

    def _get_text(self, key: str) -> str:
        return "" if self.node.raw.get(key) is None else self.node.text(key)

    def _add_reasoning(self, content: str | list[Part]) -> str | list[Part]:
        thoughts: list[Part] = [
            ReasoningPart(text) for key in _THOUGHTS if (text := self._get_text(key))
        ]
        if not thoughts:
            return content

        if isinstance(content, str):
            content = [TextPart(content)] if content else []

        return [*thoughts, *content]

    def _read_turn_content(self) -> str | list[Part]:
        """The content. A tool's result is a text for the model, whatever it is."""
        raw = self.node.raw
        if not self.what:
            # Null is not content, as OpenAI has it next to calls. Without any such key,
            # the content may be under one that is not known here, and would be lost.
            silent = any(key in raw for key in _WHAT) or raw.get("tool_calls")
            if not silent or self.role == "user":
                what = f"has none of {', '.join(_WHAT)}; expected content"
                self.loader.problem(self.node.path, what)

            return ""

        given = raw[self.what]
        if isinstance(given, str):
            return self.node.text(self.what)

        if is_list(given) and all(_is_block(block) for block in given):
            path = f"{self.node.path}.{self.what}"
            return [
                self._read_turn_block(one, f"{path}[{at}]")
                for at, one in enumerate(given)
            ]

        if self.role == "tool":
            return _as_json(self._read_json())

        self.node.wrong(self.what, "a text, or a list of blocks")
        return ""

    def _read_turn_block(self, raw: Any, path: str) -> Part:
        loader = self.loader
        if isinstance(raw, str):
            text = mended(raw)
            if text is not raw:
                loader.mended.append(path)

            return TextPart(text)

        # A block with more keys than a part can hold stays unknown, and loses none.
        if raw.keys() == _TEXT and raw["type"] == "text":
            return TextPart(ObjectReader(loader, raw, path).text("text"))

        if raw.keys() == _IMAGE and _is_shown(raw["image_url"]):
            node = ObjectReader(loader, raw["image_url"], f"{path}.image_url")
            return ImagePart(url=node.text("url"), detail=node.optional("detail"))

        return ObjectReader(loader, raw, path).as_unknown(SOURCE)


def _read_call(node: ObjectReader, made: str) -> ToolCall:
    inside = node
    if is_map(node.raw.get("function")):
        inside = node.child("function")
        node.keep(frozenset({"function", "id", "type"}))
        node.keep_within("function", inside, _FUNCTION)
    else:
        node.keep(_FUNCTION | {"id", "type"})

    name, given, arguments = inside.text("name"), inside.raw.get("arguments"), ""
    if isinstance(given, str):
        arguments = inside.text("arguments")
    elif given is not None:
        path = f"{inside.path}.arguments"
        arguments = _as_json(node.reading.json(given, path))

    call_id = node.nullable("id")
    if not call_id:
        call_id = node.notes["made_id"] = made

    return ToolCall(
        call_id,
        name,
        arguments,
        type=node.nullable("type") or "function",
        metadata=node.metadata(SOURCE),
    )


def _is_shown(body: Any) -> bool:
    return (
        is_map(body)
        and body.keys() <= _IMAGE_URL
        and bool(body.get("url"))
        and all(isinstance(text, str) for text in body.values())
    )


def _is_block(value: Any) -> bool:
    return isinstance(value, str) or (
        is_map(value) and isinstance(value.get("type"), str)
    )


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:\s*')
_scan = json.JSONDecoder().raw_decode


def _parse_calls(text: str) -> list[dict[str, Any]] | None:
    """
    The calls that *text*, in JSON, makes: one, or a list of them; None if it is
    no such thing.

    >>> _parse_calls('{"name": "f", "parameters": {"x":  1.0}}')
    [{'name': 'f', 'arguments': '{"x":  1.0}'}]
    """
    try:
        value = parse_arguments(text)
    except ValueError:
        return None

    calls: list[dict[str, Any]] = []
    end = 0
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            return None

        call = {key: given for key, given in each.items() if given is not None}
        arguments = call.pop("parameters", None)
        arguments = call.get("arguments", arguments)
        if arguments is not None and not isinstance(arguments, str):
            arguments, end = _find_arguments(text, end, arguments)

        if call.get("id").__class__ is int:
            call["id"] = str(call["id"])

        calls.append(call if arguments is None else {**call, "arguments": arguments})

    return calls or None


# What Hermes and Qwen write around calls and results.
_TAGGED_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
# Code in Markdown, between two equal runs of backticks.
_CODE = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_TAGGED_RESULT = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)
_FUNCTION_TAG = re.compile(r"<function=([^>\s]+)>(.*)</function>", re.DOTALL)
_PARAMETER_TAG = re.compile(r"<parameter=([^>]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_MAX_LITERAL = 100_000
_NO_LITERAL = (
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)


def _parse_tagged_calls(text: str) -> list[dict[str, Any]] | None:
    """
    The calls in one tag, in JSON, in Python's literals as in Hermes's first data, or
    in Qwen's own tags, all of whose values are texts; None without a call.

    >>> _parse_tagged_calls("{'arguments': {'a': 1}, 'name': 'f'}")
    [{'name': 'f', 'arguments': '{"a": 1}'}]
    >>> _parse_tagged_calls("<function=f><parameter=a>1</parameter></function>")
    [{'name': 'f', 'arguments': '{"a": "1"}'}]
    """
    text = mended(text)
    if found := _FUNCTION_TAG.fullmatch(text):
        arguments = dict(_PARAMETER_TAG.findall(found[2]))
        return [{"name": found[1].strip(), "arguments": _as_json(arguments)}]

    calls = _parse_calls(text)
    if calls is None and text.startswith("{'") and len(text) < _MAX_LITERAL:
        # What is no literal, or too deep for one; a key may be no text.
        with suppress(*_NO_LITERAL):
            literal = ast.literal_eval(text)
            name, arguments = literal.pop("name"), literal.pop("arguments", None)
            if isinstance(name, str) and not literal:
                calls = [{"name": name, "arguments": _as_json(arguments or {})}]

    return calls


def _parse_tagged_result(text: str) -> tuple[str, str, str]:
    """
    The name, the id of the call and the content of a result in a tag; what is not one
    in JSON is content.
    """
    try:
        value = parse_arguments(text)
    except ValueError:
        return "", "", text

    known = {"name", "content", "tool_call_id"}
    if not is_map(value) or not {"content"} <= value.keys() <= known:
        return "", "", text

    name, call_id = value.get("name"), value.get("tool_call_id")
    content = value["content"]
    return (
        name if isinstance(name, str) else "",
        call_id if isinstance(call_id, str) else "",
        content if isinstance(content, str) else _as_json(content),
    )


def _find_arguments(text: str, start: int, value: Any) -> tuple[str, int]:
    """
    The JSON text of *value*, the next arguments in *text* from *start* on, as the model
    wrote it; and where it ends.
    """
    found = _ARGUMENTS.search(text, start)
    if found is not None:
        given, end = _scan(text, found.end())
        if given == value:
            return text[found.end() : end], end

    # Other keys of this name come before it.
    return _as_json(value), start


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
        DecodeError: If it is not a transcript; with all that is wrong, each with its
            path.
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
            messages += turn.messages()

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
        DecodeError: At the first line that holds none; its problems name the line:
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
        TypeError: If a line is bytes, as those of a file that was opened as binary.
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
