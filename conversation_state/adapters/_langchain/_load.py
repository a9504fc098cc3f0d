"""
From LangChain's messages to ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from conversation_state.adapters._langchain._answer import read_answer
from conversation_state.adapters._langchain._blocks import mended_text, read_block
from conversation_state.adapters._langchain._classes import classes, names
from conversation_state.adapters._langchain._json import keep, made
from conversation_state.adapters._langchain._words import (
    CLASSES,
    DEFAULTS,
    ROLES,
    SOURCE,
)
from conversation_state.adapters._reading import Reading
from conversation_state.errors import DecodeError, InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, TextPart, UnknownPart

__all__ = ["load", "load_message", "weighed"]

_KINDS: Mapping[str, Callable[..., Message]] = {
    "assistant": AssistantMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "user": UserMessage,
}
_COMMON = frozenset(
    {"additional_kwargs", "content", "id", "name", "response_metadata", "type"}
)
_KNOWN = {
    "assistant": _COMMON | {"invalid_tool_calls", "tool_calls", "usage_metadata"},
    "system": _COMMON,
    "tool": _COMMON | {"artifact", "status", "tool_call_id"},
    "user": _COMMON,
}
# Fields that are there without saying anything.
_SILENT: Mapping[str, Any] = {
    "chunk_position": None,
    "tool_call_chunks": [],
}
_NO_ID = "no_id"
# The fields of which a model gets to know something.
_SAID = (
    "content",
    "invalid_tool_calls",
    "name",
    "role",
    "status",
    "tool_call_id",
    "tool_calls",
)


def load(messages: Any) -> tuple[Message, ...]:
    """
    What *messages*, LangChain's, or a single one of them, say.

    Nothing is lost: what our model has no word for is kept as an unknown part
    or message, or in notes (see this package). Half of a surrogate pair in
    what is said becomes U+FFFD, and a note says where.

    Raises:
        DecodeError:
            If something is no message of a class of LangChain's, or holds what
            can't be kept, an artifact that is any object, say; with all that
            is wrong, each with its path.

        MissingExtraError:
            If LangChain is not installed.
    """
    read = Reading()
    given: Iterable[Any] = messages
    if type(messages) in names():
        given = (messages,)
    elif isinstance(messages, (str, bytes, Mapping)) or not isinstance(
        messages, Iterable
    ):
        read.wrong("$", messages, "messages of LangChain's")
        given = ()

    found = [_message(read, one, f"$[{at}]") for at, one in enumerate(given)]
    read.finish()
    return tuple([message for message in found if message is not None])


def load_message(message: Any) -> Message:
    """
    The same for a single one.
    """
    read = Reading()
    found = _message(read, message, "$")
    read.finish()
    assert found is not None  # noqa: S101 - or there was a problem
    return found


def weighed(message: Any) -> Message:
    """
    What *message* says, for those who only look at it: where it can't be kept,
    its content and calls alone.

    Raises:
        DecodeError:
            If it is no message of LangChain's, or those can't be kept.
    """
    try:
        return load_message(message)
    except DecodeError:
        name = next(
            (names()[one] for one in type(message).__mro__ if one in names()), ""
        )
        if not name:
            raise

        given = vars(message)
        said = {field: given[field] for field in _SAID if field in given}
        return load_message(made(name, said))


def _message(read: Reading, message: Any, path: str) -> Message | None:
    name = names().get(type(message))
    if name is None:
        _refuse(read, message, path)
        return None

    raw: dict[str, Any] = vars(message)
    role = CLASSES[name]
    if not role and name.startswith("ChatMessage"):
        role = ROLES.get(raw["role"], "")

    if not role:
        return _unknown(read, message, name, path)

    problems, harmed = read.count, len(read.mended)
    notes = _notes(message, raw, name, role)
    fields: dict[str, Any] = {}
    if raw["name"]:
        key = "tool_name" if role == "tool" else "name"
        fields[key] = mended_text(read, raw["name"], f"{path}.name")

    if role == "assistant":
        content = read_answer(read, raw, path, notes, fields)
    else:
        content = _content(read, raw["content"], path, role, notes)

    if role == "tool":
        _result(read, raw, path, notes, fields)

    if read.count > problems:
        return None

    if len(read.mended) > harmed:
        where = dict.fromkeys(read.mended[harmed:])
        notes["mended"] = [each[len(path) + 1 :] for each in where]

    return _made(read, role, content, _Told(fields, notes), path)


class _Told(NamedTuple):
    """
    What goes into the fields of a message beside its content, and into notes.
    """

    fields: dict[str, Any]
    notes: dict[str, Any]


def _made(
    read: Reading, role: str, content: Any, told: _Told, path: str
) -> Message | None:
    kind, (fields, notes) = _KINDS[role], told
    if not notes:
        return kind(content, **fields)

    try:
        return kind(content, **fields, metadata={SOURCE: notes})
    except InvalidMessageError:
        # All but the notes was looked at: something in them is not quite JSON.
        problems = read.count
        kept = {name: keep(read, notes[name], f"{path}.{name}") for name in notes}
        if read.count > problems:
            return None

        return kind(content, **fields, metadata={SOURCE: {**kept, "odd": True}})


def _result(
    read: Reading,
    raw: dict[str, Any],
    path: str,
    notes: dict[str, Any],
    fields: dict[str, Any],
) -> None:
    """
    Put what a tool's result says beside its content into *fields*.
    """
    fields["is_error"] = raw["status"] == "error"
    answered = mended_text(read, raw["tool_call_id"], f"{path}.tool_call_id")
    if not answered:
        answered = notes["made_id"] = _NO_ID

    fields["tool_call_id"] = answered


def _refuse(read: Reading, message: Any, path: str) -> None:
    kind = type(message)
    if not isinstance(message, tuple({*classes().values()})):
        read.wrong(path, message, "a message of LangChain's")
        return

    # Nothing is imported because of what a store holds, so it could not be
    # given back as what it was.
    known = next(one.__name__ for one in kind.__mro__ if one in names())
    what = f"is a {kind.__name__}, a class of its own; expected LangChain's {known}"
    read.problem(path, what)


def _notes(message: Any, raw: dict[str, Any], name: str, role: str) -> dict[str, Any]:
    """
    What *message* says and no field of ours holds, whatever its *role*.
    """
    notes: dict[str, Any] = {}
    if name != DEFAULTS[role]:
        notes["class"] = name

    if raw["name"] == "":
        notes["name"] = ""

    if raw["id"] is not None:
        notes["id"] = raw["id"]

    if raw["additional_kwargs"]:
        notes["additional_kwargs"] = raw["additional_kwargs"]

    if raw["response_metadata"]:
        notes["response_metadata"] = raw["response_metadata"]

    if role == "tool" and raw["artifact"] is not None:
        notes["artifact"] = raw["artifact"]

    known = _KNOWN[role]
    more = message.model_extra
    if more or not raw.keys() <= known:
        fields = {
            key: value
            for key, value in {**raw, **(more or {})}.items()
            if key not in known and not _says_nothing(key, value)
        }
        if fields:
            notes["fields"] = fields

    return notes


def _says_nothing(key: str, value: Any) -> bool:
    return key in _SILENT and value == _SILENT[key]


def _unknown(read: Reading, message: Any, name: str, path: str) -> Message | None:
    fields = {
        key: value
        for key, value in vars(message).items()
        if key == "content" or (value is not None and value != {})
    }
    fields |= message.model_extra or {}
    raw = {**fields, "class": name}
    try:
        return UnknownMessage(raw, source=SOURCE)
    except InvalidMessageError:
        problems = read.count
        kept = {key: keep(read, value, f"{path}.{key}") for key, value in raw.items()}
        if read.count > problems:
            return None

        metadata: Any = {SOURCE: {"odd": True}}
        return UnknownMessage(kept, source=SOURCE, metadata=metadata)


def _content(
    read: Reading, content: Any, path: str, role: str, notes: dict[str, Any]
) -> str | list[Part]:
    """
    What anybody but an assistant says.
    """
    if isinstance(content, str):
        return mended_text(read, content, f"{path}.content")

    found = [
        read_block(read, block, f"{path}.content[{at}]", role, "")
        for at, block in enumerate(content)
    ]
    parts = [part for part in found if part is not None]
    if not parts:
        notes["empty"] = True

    texts: list[Part] = [part for part in parts if isinstance(part, TextPart)]
    if role != "system" or len(texts) == len(parts):
        return parts

    # A system message of ours is nothing but text.
    notes["beside"] = [
        [at, content[at]]
        for at, part in enumerate(parts)
        if isinstance(part, UnknownPart)
    ]
    return texts
