"""What every adapter gives back, and what all adapters share when they write."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

import attrs

from conversation_state._persistent import EMPTY_MAP, check_list, final, thaw
from conversation_state._wording import (
    add_missing_names,
    advise_load,
    describe_type,
    shorten_repr,
)
from conversation_state.adapters.engine.notes import (
    list_of,
    map_of,
    notes_of,
    other_keys_of,
)
from conversation_state.adapters.engine.wire import decode_base64, split_data_url
from conversation_state.errors import InvalidMessageError, InvalidToolError
from conversation_state.messages import Message, ToolMessage
from conversation_state.parts import (
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    sniff_media_type,
)
from conversation_state.requests import (
    OPENAI_CHAT,
    Prepared,
    Rules,
    TextRule,
    came_as_is,
    prepare,
)
from conversation_state.tools import ToolCall, ToolChoice, ToolInfo

# What formats of frameworks call the finish reasons of providers.
FINISHED: Mapping[str, str] = {
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "STOP": "stop",
    "completed": "stop",
    "content_filter": "content_filter",
    "end_turn": "stop",
    "error": "error",
    "function_call": "tool_call",
    "length": "length",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "refusal": "content_filter",
    "stop": "stop",
    "stop_sequence": "stop",
    "tool_call": "tool_call",
    "tool_calls": "tool_call",
    "tool_use": "tool_call",
}


class ToolRules(NamedTuple):
    """What a provider refuses."""

    provider: str  # its name, for people
    names: TextRule  # the form of the name of a tool
    refused: Collection[str] = ()  # keywords at the top of a schema


OPENAI = ToolRules(
    "OpenAI",
    OPENAI_CHAT.call_names,
    ("allOf", "anyOf", "const", "enum", "not", "oneOf"),
)
_OPENAI_CHOICES = {
    ToolChoice.FORBIDDEN: "none",
    ToolChoice.ALLOWED: "auto",
    ToolChoice.FORCED: "required",
}


def write_tools(
    tools: Iterable[ToolInfo],
    choice: ToolChoice | None,
    rules: ToolRules,
    write_tool: Callable[[ToolInfo, dict[str, Any] | None], dict[str, Any]],
    write_request: Callable[[list[dict[str, Any]], ToolChoice | None], dict[str, Any]],
) -> Export:
    """
    *tools* and *choice* as keys of a request, and what it can't have.

    *write_tool* makes a tool of its description and its schema, None if it has no
    parameters; *write_request* makes the keys of all tools and the choice.

    Raises:
        InvalidToolError: If *tools* are something else than `ToolInfo`, or *choice*
            than a `ToolChoice` or None.
    """
    lost: list[Lost] = []
    written: dict[str, dict[str, Any]] = {}
    for at, tool in enumerate(_check_tools(tools)):
        path = f"tools[{at}]"
        # A tool with an invalid name is left out, because the provider would refuse
        # the whole request.
        if not rules.names.is_valid(tool.name):
            why = f"a name that {rules.provider} refuses; a name is {rules.names}"
            lost.append(Lost(path, tool.name, why))
        elif tool.name in written:
            why = "is the name of another tool before it"
            lost.append(Lost(path, tool.name, why))
        else:
            schema = None
            if tool.parameters is not None:
                schema, refused = _object_schema(tool, rules.refused)
                why = f"is refused by {rules.provider} at the top of a schema"
                lost += [Lost(f"{path}.parameters", key, why) for key in refused]

            lost += [Lost(path, key, NEWER) for key in sorted(tool.unknown)]
            written[tool.name] = write_tool(tool, schema)

    choice = _check_choice(choice)
    # Providers refuse a choice without tools.
    if not written:
        if choice is ToolChoice.FORCED:
            lost.append(Lost("choice", choice.value, "there is no tool to call"))

        return Export({}, tuple(lost))

    return Export(write_request([*written.values()], choice), tuple(lost))


def _check_tools(tools: Any) -> Iterable[ToolInfo]:
    # Texts and maps are iterable, too. Without this check the error would be about
    # their first item.
    if isinstance(tools, (ToolInfo, str, bytes, Mapping)):
        like = "; put it into a list" if isinstance(tools, ToolInfo) else ""
        raise InvalidToolError(
            f"tools is {shorten_repr(tools)}; expected several ToolInfo{like}"
        )

    check_list(tools, "tools", "a list of ToolInfos")
    for at, tool in enumerate(tools):
        if not isinstance(tool, ToolInfo):
            like = "; ToolInfo.from_function makes one" * callable(tool)
            raise InvalidToolError(
                f"tools[{at}] is {shorten_repr(tool)}; expected a ToolInfo{like}"
            )

        yield tool


def _check_choice(choice: Any) -> ToolChoice | None:
    try:
        return None if choice is None else ToolChoice(choice)
    except ValueError:
        names = ", ".join(f"ToolChoice.{each.name}" for each in ToolChoice)
        raise InvalidToolError(
            f"choice is {shorten_repr(choice)}; expected {names}, or None"
        ) from None


def _object_schema(
    tool: ToolInfo, refused: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """
    The schema of a tool's arguments without the keywords that are *refused* at
    its top, and which of them it had.

    Its type is always "object", because arguments are; other types that it allows
    are dropped.
    """
    schema = tool.json_schema()
    removed = [key for key in schema if key in refused]
    kept = {key: value for key, value in schema.items() if key not in refused}
    kept["type"] = "object"
    return kept, removed


def write_openai_request(
    tools: list[dict[str, Any]], choice: ToolChoice | None
) -> dict[str, Any]:
    """The keys for *tools* and *choice* that both of OpenAI's formats have."""
    request: dict[str, Any] = {"tools": tools}
    if choice is not None:
        request["tool_choice"] = _OPENAI_CHOICES[choice]

    return request


@final
class Lost(NamedTuple):
    """
    Something in a conversation that a provider's format can't represent.

    Attributes:
        path: Its path in what was dumped, such as ``messages[3].parts[1]``.
        what: The kind of part, or the name of the field or key.
        why: A sentence for people.
    """

    path: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}: {self.why}"


@final
@attrs.frozen
class Export:
    """
    A conversation in a provider's own format.

    Attributes:
        payload: The part of the provider's request that carries the
            conversation: plain JSON values, which the caller may change. For a
            host, the list of its messages.
        lost: The content that *payload* does not hold, in the order of the messages;
            () if it holds everything.
    """

    payload: Any
    lost: tuple[Lost, ...] = ()

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError(
            f"an Export has no items; export.payload[{shorten_repr(key)}] is in the "
            "request's part, client.create(**export.payload) sends it"
        )


_PAYLOAD = "export.payload is the request's part: client.create(**export.payload)"
add_missing_names(
    Export,
    "an Export has",
    dict.fromkeys(("messages", "input", "contents", "keys", "get", "items"), _PAYLOAD),
)


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*(?=:)", re.IGNORECASE)
# What marks a block as the end of what a provider caches, and the blocks without one.
MARKER = "cache_control"
THINKING = frozenset({"redacted_thinking", "thinking"})
_TOO_MANY = "a request may have four cache markers; the newest are sent"
_NONE = "the host has no cache markers"
_SHORTER = "a marker before this one is of five minutes, so this one is, too"

# Of addresses that mean something to one program alone.
_LOCAL = frozenset(
    {"attachment", "blob", "cid", "file", "file-service", "sandbox", "sediment"}
)


def is_local(url: str | None) -> bool:
    """
    Whether no provider can fetch what is at *url*: a path, or an address within one
    program.

    >>> is_local("/uploads/a.png"), is_local("blob:a"), is_local("oss://a")
    (True, True, False)
    """
    scheme = _SCHEME.match(url or ":")
    return url is not None and (scheme is None or scheme[0].lower() in _LOCAL)


def note_medium(
    notes: dict[str, Any],
    made: type[Part],
    data: bytes | None,
    media_type: str,
    url: str | None,
) -> None:
    """
    Note of a medium that was loaded what else would change it: ``untyped``, where
    `PayloadWriter.with_type` would, and ``local``, where `PayloadWriter.is_fetched`.
    """
    if is_local(url):
        notes["local"] = True

    if data is None or media_type:
        return

    if made is not FilePart or sniff_media_type(data):
        notes["untyped"] = True


def is_empty_value(value: Any) -> bool:
    """Whether *value* is null, or an empty text, list or map."""
    return value is None or (
        isinstance(value, (str, list, tuple, Mapping)) and not value
    )


def says_nothing(value: Any) -> bool:
    """Whether *value* is empty, however many empty maps are in it."""
    if isinstance(value, Mapping):
        return all(map(says_nothing, value.values()))

    return is_empty_value(value)


def merge_kept_keys(keys: Mapping[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
    """
    *raw* with the *keys* that were kept with it.

    Current values go before kept ones, which replace only what is empty.
    """
    # Most messages have no kept keys, and this function runs for each of them.
    if keys is EMPTY_MAP:
        return raw

    for key in sorted(keys):
        # The value in *raw* comes from a field of the message, which the user may have
        # changed since the key was kept, so it goes before the kept value.
        if key not in raw or is_empty_value(raw[key]):
            raw[key] = thaw(keys[key])
        elif isinstance(raw[key], dict):
            merge_kept_keys(map_of(keys, key), raw[key])

    return raw


def in_order(
    parts: tuple[Part, ...], calls: tuple[ToolCall, ...], path: str
) -> Iterator[tuple[str, Part | ToolCall]]:
    """
    *parts* and *calls* of the message at *path*, and where they are: both in
    their own order, and a call before the parts that came after it.
    """
    # The two lists are merged and not sorted, because a part or call that a user made
    # has no index and stays where it is.
    todo = [(call, f"{path}.tool_calls[{at}]") for at, call in enumerate(calls)]
    todo.reverse()
    for at, part in enumerate(parts):
        while todo and _is_before(todo[-1][0], part):
            call, here = todo.pop()
            yield here, call

        yield f"{path}.parts[{at}]", part

    for call, here in reversed(todo):
        yield here, call


def _is_before(call: ToolCall, part: Part) -> bool:
    return call.index is not None and part.index is not None and call.index < part.index


class PayloadWriter:
    """One payload while it is written. Never leaves the function that writes it."""

    def __init__(self, provider: str, rules: Rules | None = None) -> None:
        self.provider = provider  # whose notes are read; those of others are lost
        self.rules = rules  # of the request, if it is one
        self.lost: list[Lost] = []
        # The model of the answer that is written, if its thinking is not taken.
        self.foreign_signer = ""
        self.wants_signatures = False  # of all its thinking

    def lose(self, path: str, what: str, why: str) -> None:
        """List *what* at *path* as lost."""
        self.lost.append(Lost(path, what, why))

    def with_type(
        self, part: MediaPart, path: str, notes: Mapping[str, Any]
    ) -> MediaPart | None:
        """
        *part* with the media type that its bytes begin with, if it has none; None, and
        listed as lost, if that is unknown and no provider could read it. A file goes
        without, and so does what was loaded without (the note ``untyped``).
        """
        if part.media_type or part.data is None or notes.get("untyped") is True:
            return part

        media_type = sniff_media_type(part.data)
        # A provider would refuse a PDF as an image, and an image as a sound.
        kind = media_type.partition("/")[0]
        if media_type and (isinstance(part, FilePart) or kind == part.kind):
            typed: Any = attrs.evolve(part, media_type=media_type)
            return typed  # type: ignore[no-any-return]

        if isinstance(part, FilePart):
            return part

        self.lose(path, part.kind, "has no media type, and its bytes don't show one")
        return None

    def fit_type(
        self, given: str, data: bytes, path: str, *, is_exact: bool = False
    ) -> str | None:
        """
        The media type under which the provider accepts an image of type *given*; None
        if it does not accept the image, which is listed as lost. With *is_exact*, the
        media type has to be that of the bytes.
        """
        types = None if self.rules is None else self.rules.image_types
        shown = sniff_media_type(data)
        is_other = is_exact and shown.startswith("image/") and shown != given
        if types is None or (given in types and not is_other):
            return given

        plain = given.partition(";")[0].strip().lower()
        named = (shown,) if is_other else (plain, _ALIASES.get(plain), shown)
        found = next((each for each in named if each in types), None)
        if found is None:
            what = shown or given or "unknown"
            why = f"the provider does not accept images of type {what}; convert it"
            self.lose(path, "image", why)
        else:
            self.lose(path, "media_type", f"{given or 'nothing'} is sent as {found}")

        return found

    def fit_image(
        self, part: MediaPart, path: str, *, is_exact: bool = False
    ) -> MediaPart | None:
        """
        *part*; an image that is sent by value has the media type that `fit_type` gives.
        None if the provider does not accept the image, which is listed as lost.
        """
        url = part.url or ""
        is_held = part.data is not None or url.startswith("data:")
        if not isinstance(part, ImagePart) or not is_held:
            return part

        # Of a long text, no more than its beginning is decoded.
        head, _, body = url[:_MAX_HEAD].partition(",")
        begin = decode_base64(body[:64]) if part.data is None else part.data
        given = part.media_type or head[5:].removesuffix(";base64")
        if not given and part.data is not None:
            return part  # it goes without, as it came

        found = self.fit_type(given, begin, path, is_exact=is_exact)
        if found is None or found == given:
            return None if found is None else part

        data, _ = split_data_url(url) or (part.data, "")
        if data is None:
            self.lose(path, "image", "its data: URL is not in base64, or empty")
            return None

        return attrs.evolve(part, url=None, data=data, media_type=found)

    def is_fetched(
        self,
        part: MediaPart,
        path: str,
        notes: Mapping[str, Any],
        *,
        is_of_web: bool = False,
    ) -> bool:
        """
        Whether the provider can fetch the content of *part*; if not, it is listed as
        lost. With *is_of_web*, requests refer to http and https URLs only, and not to
        cloud storage.
        """
        if notes.get("local") is True:
            return True

        if is_local(part.url):
            why = "has a URL that only the program that made it has"
            self.lose(path, part.kind, why)
            return False

        is_request = self.rules is not None and self.rules.is_request
        if is_of_web and is_request and part.url and not _OF_WEB.match(part.url):
            why = "the provider fetches http and https URLs only; send the bytes"
            self.lose(path, part.kind, why)
            return False

        return True

    def lose_each(self, path: str, fields: Mapping[str, bool], why: str) -> None:
        """List each of *fields* that has something to lose."""
        for name, is_lost in fields.items():
            if is_lost:
                self.lose(path, name, why)

    def export(self, payload: dict[str, Any]) -> Export:
        """
        The *payload* that was written, and what is lost in the order of the messages.
        """
        # The list may be out of order: Anthropic's writer reports the position of a
        # system message as lost only after it has seen the messages behind it.
        return Export(payload, tuple(sorted(self.lost, key=_get_message_index)))

    def each(self, messages: Iterable[Message]) -> Iterator[tuple[Message, str]]:
        """
        Each of *messages*, and its path.

        Raises:
            InvalidMessageError: If one of them is not a message.
        """
        check_list(messages, "messages", "a list of Messages")
        for at, message in enumerate(messages):
            path = f"messages[{at}]"
            if not isinstance(message, Message):
                raise InvalidMessageError(
                    f"{path} is {describe_type(message)}; expected a Message"
                    f"{advise_load(message)}"
                )

            yield message, path

    def prepare(
        self,
        messages: Iterable[Message],
        rules: Rules | None,
        default: Rules,
        find_lost: Callable[[Rules, Message, str], Sequence[Lost] | None],
    ) -> Prepared:
        """
        *messages* that are right by *rules*, or *default* if None. What is changed for
        that is listed as lost; *find_lost* is as in `requests.prepare`, with the rules
        before the message.

        Raises:
            InvalidMessageError: If one of *messages* is not a message.
            TypeError: If *rules* are something else, or those of another format.
        """
        rules = default if rules is None else _check_rules(rules, default.format)
        self.rules = rules
        check_list(messages, "messages", "a list of Messages")
        listed = list(messages)
        # There are five kinds of messages at most, and many messages.
        if not all(issubclass(kind, Message) for kind in {*map(type, listed)}):
            # Raises the error, with the path of the message.
            deque(self.each(listed), maxlen=0)

        ready = prepare(listed, rules, find_lost=partial(find_lost, rules))
        self.lost += [Lost(*change) for change in ready.changes]
        return ready

    def fit_markers(
        self,
        top: Sequence[tuple[str, dict[str, Any]]],
        marked: Sequence[tuple[str, dict[str, Any]]],
    ) -> None:
        """
        Leave out the oldest cache markers of messages, of which there may be so many
        with those of the system, those of thinking, and the ``ttl`` of what comes
        behind a shorter one. *top* are the system's blocks with a marker, *marked* the
        others, each with its path.

        Source:
            ``A maximum of 4 blocks with cache_control may be provided. Found 5.``,
            ``thinking.cache_control: Extra inputs are not permitted``, ``a ttl='1h'
            cache_control block must not come after a ttl='5m' cache_control block``.
        """
        if self.rules is None or self.rules.max_markers is None:
            return

        refused = [one for one in marked if str(one[1].get("type")) in THINKING]
        for path, block in refused:
            self.lose(path, MARKER, "thinking has no cache marker")
            del block[MARKER]

        marked = [one for one in marked if MARKER in one[1]]
        # Those of the system are the longest in the cache; one is left to the newest
        # message.
        limit = self.rules.max_markers
        most = limit - min(len(top), max(limit - bool(marked), 0))
        keep = limit - min(len(marked), most)
        oldest = [*top[: max(len(top) - keep, 0)], *marked[: len(marked) - most]]
        for path, block in oldest:
            self.lose(path, MARKER, _TOO_MANY if limit else _NONE)
            del block[MARKER]

        is_short = False
        for path, block in [*top, *marked]:
            marker: Any = block.get(MARKER)
            is_long = isinstance(marker, dict) and marker.get("ttl") == "1h"
            if is_long and is_short:
                self.lose(path, "ttl", _SHORTER)
                block[MARKER] = {key: marker[key] for key in marker if key != "ttl"}

            is_short = is_short or not (is_long or marker is None)

    def lose_tool_name(self, message: ToolMessage, path: str, called: str) -> None:
        """
        List the tool's name of a result, in formats that have it in the call only, if
        that has another name, *called*.
        """
        if message.tool_name not in {"", called}:
            why = "the tool's name is in the call, which is missing or has another"
            self.lose(path, "tool_name", why)

    def lose_error_flag(self, message: ToolMessage, path: str) -> None:
        """List the flag of a failed call as lost, if *message* has it."""
        if message.is_error:
            why = "the format has no flag for a failed call; only the text can say it"
            self.lose(path, "is_error", why)

    def notes(self, value: Message | Part | ToolCall, path: str) -> Mapping[str, Any]:
        """
        The notes on *value*. Other keys next to its fields are lost:
        fields of a newer version, and keys of other providers.
        """
        metadata, unknown = value.metadata, value.unknown
        if metadata is EMPTY_MAP and unknown is EMPTY_MAP:
            return EMPTY_MAP

        for name in sorted(unknown):
            self.lose(path, name, NEWER)

        for other, key, kept in other_keys_of(metadata, self.provider):
            # An empty value such as "refusal": null, also deeper in, is kept for its
            # own format only; without it another format loses nothing.
            if not says_nothing(kept):
                self.lose(path, key, whose(other))

        return notes_of(metadata, self.provider)

    def notes_on(self, message: Message, path: str) -> Mapping[str, Any]:
        """The notes on *message*; texts that were mended in it are listed as lost."""
        notes = self.notes(message, path)
        if notes is EMPTY_MAP:
            return notes

        for where in list_of(notes, "mended"):
            why = "contained an unpaired surrogate; U+FFFD is sent instead"
            self.lose(path, str(where), why)

        return notes

    def notes_without_name(
        self,
        message: Message,
        path: str,
        why: str = "messages have no name in this format",
    ) -> Mapping[str, Any]:
        """As `notes_on`; the sender's name is listed as lost, too."""
        notes = self.notes_on(message, path)
        if message.name:
            self.lose(path, "name", why)

        return notes

    @property
    def is_request(self) -> bool:
        """Whether a request is written, and not a piece of a conversation as it is."""
        return self.rules is None or self.rules.is_request

    @property
    def is_for_host(self) -> bool:
        """Whether a host is named: its rules hold for what was loaded, too."""
        return self.rules is not None and bool(self.rules.host)

    def is_as_loaded(self, metadata: Mapping[str, Any], field: str) -> bool:
        """Whether *field* of what has this *metadata* is sent as it was loaded."""
        return self.rules is not None and came_as_is(self.rules, metadata, field)

    def arguments(self, call: ToolCall) -> str:
        """
        The arguments of *call*, for a format that has them as text. None are an empty
        object: OpenAI takes an empty text, too, and llama.cpp does not.
        """
        given = call.arguments
        is_none = call.type != "custom" and (not given or given.isspace())
        if not is_none or self.rules is None:
            return given

        return given if self.is_as_loaded(call.metadata, "arguments") else "{}"

    def unknown(self, raw: Mapping[str, Any], source: str, path: str) -> Any:
        """
        *raw*, an unknown part or message, as its *source* has it; None, and listed as
        lost by its kind, if that is another provider.
        """
        if source == self.provider:
            return thaw(raw)

        kinds = (raw.get(key) for key in _KIND_KEYS)
        kind = next((each for each in kinds if isinstance(each, str) and each), "")
        self.lose(path, kind or "unknown", whose(source))
        return None


# How much of a ``data:`` URL is read for its media type, in characters.
_MAX_HEAD = 1024
# Names of media types that are not registered, and the registered ones.
_ALIASES = {"image/jpg": "image/jpeg", "image/x-png": "image/png"}

_OF_WEB = re.compile("(data|https?):", re.IGNORECASE)

# Where formats say what an object of theirs is.
_KIND_KEYS = ("part_kind", "kind", "type", "role")


def _check_rules(rules: Any, expected: str) -> Rules:
    if not isinstance(rules, Rules):
        raise TypeError(
            f"rules is {shorten_repr(rules)}; expected the Rules of {expected}, or None"
        )

    if rules.format not in ("", expected):
        raise TypeError(
            f"rules are those of {rules.format}; expected those of {expected}, as "
            f"requests.rules({expected!r}, host=...) makes them"
        )

    return rules


def _get_message_index(lost: Lost) -> int:
    return int(lost.path[len("messages[") : lost.path.index("]")])


NOTHING_LEFT = "nothing of it can be sent, and an empty message would be refused"
NEWER = "was written by a newer version of this library"


def cannot_contain(role: str, kind: str) -> str:
    """
    Why a part of *kind* is lost in messages of *role*.

    >>> cannot_contain("tool", "image")
    "tool messages can't contain images"
    """
    return f"{role} messages can't contain {_PLURALS.get(kind, f'{kind} parts')}"


_PLURALS = {"audio": "audio", "file": "files", "image": "images", "video": "videos"}


def whose(source: str) -> str:
    """Why what is specific to *source* is lost elsewhere."""
    return f"is specific to {source}" if source else NEWER
