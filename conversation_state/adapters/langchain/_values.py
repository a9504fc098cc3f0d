"""
LangChain's constants and classes; and values of its messages that JSON can't
represent.

LangChain's maps can hold anything, and values that its own serialisation
supports must not be lost here: numbers that are not finite, integers of more
than 64 bits, keys that are not texts, bytes, lone surrogates, documents of a
retriever, and messages. Each becomes a map with a tag for its type.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import isfinite
from typing import Any, NamedTuple, TypeVar

from conversation_state._persistent import EMPTY_MAP
from conversation_state._wording import shorten_repr
from conversation_state.adapters.engine.notes import RESERVED
from conversation_state.adapters.engine.reading import DocumentReader
from conversation_state.errors import (
    InvalidMessageError,
    InvalidPartError,
    MissingExtraError,
)

T = TypeVar("T")

# The name of the notes of this format, and the source of unknown parts.
SOURCE = "langchain"

# All classes of messages, and our role for each; "" if the role is a field of the
# message, or if our model has no such role.
CLASSES: Mapping[str, str] = {
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "ChatMessage": "",
    "ChatMessageChunk": "",
    "FunctionMessage": "",
    "FunctionMessageChunk": "",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "RemoveMessage": "",
    "SystemMessage": "system",
    "SystemMessageChunk": "system",
    "ToolMessage": "tool",
    "ToolMessageChunk": "tool",
}

# The class a message of ours becomes, if no note names another.
DEFAULTS: Mapping[str, str] = {
    "assistant": "AIMessage",
    "system": "SystemMessage",
    "tool": "ToolMessage",
    "user": "HumanMessage",
}

# Our roles for those of a `ChatMessage`.
ROLES: Mapping[str, str] = {
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "human": "user",
    "model": "assistant",
    "system": "system",
    "user": "user",
}

# The keys under which providers' packages have the finish reason and the model. `dump`
# writes the first one, unless a note names another.
REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
MODELS = ("model_name", "model")

# The keys in the ``additional_kwargs`` whose texts become parts, and their kinds.
# Reasoning stands before the content, a refusal after it.
ASIDES: Mapping[str, str] = {"reasoning_content": "reasoning", "refusal": "refusal"}

# The adapter of the provider that signs reasoning, by the `model_provider` in a
# response.
SIGNERS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "bedrock": "anthropic",
    "bedrock_converse": "anthropic",
    "google_anthropic_vertex": "anthropic",
    "google_genai": "gemini",
    "google_vertexai": "gemini",
}


class CallBlock(NamedTuple):
    """
    A kind of block in the content that repeats one of the message's calls: its type,
    and the keys of the call's id and arguments.
    """

    type: str
    id: str
    arguments: str
    # Whether the arguments are a text, as the model wrote it.
    is_text: bool = False
    # Whether the block was joined from the pieces of a stream, so that it also has an
    # empty ``input``.
    is_begun: bool = False


CALL_BLOCKS: Mapping[str, CallBlock] = {
    "function_call": CallBlock("function_call", "call_id", "arguments", is_text=True),
    "tool_call": CallBlock("tool_call", "id", "args"),
    "tool_call_chunk": CallBlock("tool_call_chunk", "id", "args", is_text=True),
    "tool_use": CallBlock("tool_use", "id", "input"),
    "tool_use_pieces": CallBlock(
        "tool_use", "id", "partial_json", is_text=True, is_begun=True
    ),
}


def text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


@cache
def message_classes() -> Mapping[str, type[Any]]:
    """
    The classes of messages, by name.

    Raises:
        MissingExtraError: If LangChain is not installed.
    """
    try:
        from langchain_core import messages  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("messages of LangChain", "langchain") from error

    return {name: getattr(messages, name) for name in CLASSES}


# The names of those classes, without subclasses.
@cache
def class_names() -> Mapping[type[Any], str]:
    return {kind: name for name, kind in message_classes().items()}


# The class of a message in a dump, by its type there; by its name where that is given.
_TYPES: Mapping[str, str] = {
    "ai": "AIMessage",
    "chat": "ChatMessage",
    "function": "FunctionMessage",
    "human": "HumanMessage",
    "remove": "RemoveMessage",
    "system": "SystemMessage",
    "tool": "ToolMessage",
    **{name: name for name in CLASSES},
}


def restore_message(raw: Mapping[str, Any]) -> Any:
    """
    The message that *raw* is a dump of, made by ``messages_to_dict``, ``dumpd`` or
    ``model_dump``. No class is imported for it but those of messages.

    Raises:
        ValueError: If it is invalid; pydantic's errors are of this class, too.
        AttributeError, LookupError, TypeError: If it is invalid in a way that LangChain
            does not check.
    """
    fields, kind = raw, raw.get("type")
    if raw.get("lc") == 1 and isinstance(raw.get("id"), list) and raw["id"]:
        fields, kind = raw.get("kwargs"), raw["id"][-1]  # type: ignore[assignment]  # checked below
    elif isinstance(raw.get("data"), dict):
        fields = raw["data"]

    name = _TYPES.get(kind) if isinstance(kind, str) else None
    if name is None or not isinstance(fields, dict):
        raise ValueError(f"is no dump of a message; its type is {shorten_repr(kind)}")

    return message_classes()[name](**fields)


# The class of documents that retrievers return.
@cache
def _document_class() -> type[Any]:
    from langchain_core.documents import Document  # noqa: PLC0415 - an extra

    return Document


_TAG = "$langchain"
# A frozen value has at most 100 levels. The maps around a note and the tags of the
# innermost value take some of them.
_MAX_DEPTH = 80
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


def encode_value(reader: DocumentReader, value: Any, path: str, depth: int = 0) -> Any:
    """
    *value*, at *path*, as JSON, from which `decode_value` restores it. An object of
    another class is reported as a problem, and becomes None. Tuples become lists, as in
    LangChain's JSON.
    """
    if value is None or isinstance(value, bool):
        return value

    if depth >= _MAX_DEPTH:
        reader.problem(path, f"is nested more than {_MAX_DEPTH} levels deep")
        return None

    for kind, encode in _ENCODERS.items():
        if isinstance(value, kind):
            return encode(value)

    if isinstance(value, Mapping):
        return _encode_map(reader, value, path, depth)

    if isinstance(value, (list, tuple)):
        return [
            encode_value(reader, item, f"{path}[{at}]", depth + 1)
            for at, item in enumerate(value)
        ]

    return _encode_object(reader, value, path, depth)


def keep_notes(
    make: Callable[..., T],
    reader: DocumentReader,
    notes: Mapping[str, Any],
    path: str,
    others: Mapping[str, Any] = EMPTY_MAP,
) -> T:
    """
    What *make* makes with metadata that holds *notes*, and those of *others*. Values
    that JSON can't represent are encoded, and a mark says so.
    """
    try:
        return make(metadata={RESERVED: {**others, SOURCE: notes}})
    except (InvalidMessageError, InvalidPartError):
        kept = {**encode_value(reader, notes, path), "odd": True}
        return make(metadata={RESERVED: {**others, SOURCE: kept}})


def _encode_object(reader: DocumentReader, value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    name = "Document" if kind is _document_class() else class_names().get(kind)
    if name is None:
        what = f"is a Python {kind.__name__}, which can't be kept as JSON"
        reader.problem(path, f"{what}; store it as a dict or a text")
        return None

    fields = {**vars(value), **(value.model_extra or {})}
    return {_TAG: name, "value": encode_value(reader, fields, path, depth + 1)}


def _encode_int(value: int) -> Any:
    plain = _MIN_INT <= value <= _MAX_INT
    # Hexadecimal, because Python limits the length of decimal texts that `int` parses.
    return int(value) if plain else {_TAG: "int", "value": hex(value)}


def _encode_float(value: float) -> Any:
    number = float(value)
    return number if isfinite(value) else {_TAG: "float", "value": repr(number)}


def _encode_bytes(value: bytes) -> Any:
    return {_TAG: "bytes", "value": base64.b64encode(value).decode()}


def _encode_text(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        octets = text.encode("utf-8", "surrogatepass")
        return {_TAG: "text", "value": base64.b64encode(octets).decode()}

    return str(text)


def _encode_map(
    reader: DocumentReader, value: Mapping[Any, Any], path: str, depth: int
) -> Any:
    # A map that has the tag as a key of its own would be decoded as another value.
    is_plain = _TAG not in value
    pairs: list[Any] = []
    for key in value:
        name = encode_value(reader, key, f"{path}, a key", depth + 1)
        # A key with a lone surrogate was encoded as a tagged map, which can't be a
        # key in JSON.
        is_plain = is_plain and isinstance(key, str) and isinstance(name, str)
        pairs.append([name])

    # A map of pairs has three levels: the tagged map, its list, and the pair.
    inside = depth + (1 if is_plain else 3)
    for pair, (key, item) in zip(pairs, value.items(), strict=True):
        pair.append(encode_value(reader, item, f"{path}.{key}", inside))

    return dict(pairs) if is_plain else {_TAG: "map", "value": pairs}


_ENCODERS: Mapping[type[Any], Callable[[Any], Any]] = {
    str: _encode_text,
    int: _encode_int,
    float: _encode_float,
    bytes: _encode_bytes,
}


# The value that `encode_value` encoded, with new dicts and lists.
def decode_value(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [decode_value(item) for item in value]

    if not isinstance(value, Mapping):
        return value

    tag, body = value.get(_TAG), value.get("value")
    if isinstance(tag, str):
        if tag in _DECODERS:
            return _DECODERS[tag](body)

        if tag in message_classes():
            return make_message(tag, decode_value(body))

    return {key: decode_value(item) for key, item in value.items()}


def _decode_document(body: Any) -> Any:
    fields = decode_value(body)
    # The fields are set one by one, because the constructor would convert an id that is
    # a number to a text.
    document = _document_class()(page_content="")
    for name in fields:
        setattr(document, name, fields[name])

    return document


_DECODERS: Mapping[str, Any] = {
    "Document": _decode_document,
    "bytes": base64.b64decode,
    "float": float,
    "int": lambda body: int(body, 16),
    "map": lambda body: {decode_value(key): decode_value(item) for key, item in body},
    "text": lambda body: base64.b64decode(body).decode("utf-8", "surrogatepass"),
}


class _Blank(NamedTuple):
    """
    A message without content, which is copied to make others; its fields that are empty
    lists and maps, with their types; and the names of the fields of its class.
    """

    message: Any
    containers: tuple[tuple[str, Callable[[], Any]], ...]
    declared: frozenset[str]


# A message of each class without content. The fields are set afterwards, because the
# constructors would parse some of them again, and drop others.
@cache
def _make_blank(name: str) -> _Blank:
    kind: Any = message_classes()[name]
    required = [key for key, field in kind.model_fields.items() if field.is_required()]
    message = kind.model_construct(**dict.fromkeys(required, ""))
    containers = [
        (field, type(value))
        for field, value in vars(message).items()
        if isinstance(value, (dict, list))
    ]
    return _Blank(message, tuple(containers), frozenset(kind.model_fields))


def make_message(name: str, fields: Mapping[str, Any]) -> Any:
    blank, containers, declared = _make_blank(name)
    values = vars(blank).copy()
    for field, make in containers:
        values[field] = make()

    made = new_message(type(blank), values, {}, blank.__pydantic_fields_set__)
    if fields.keys() <= declared:
        values.update(fields)
        made.__pydantic_fields_set__.update(fields)
    else:
        for field, value in fields.items():
            setattr(made, field, value)

    return made


_new = object.__new__
_set = object.__setattr__


def new_message(
    kind: type[Any], fields: dict[str, Any], extra: Any, fields_set: Iterable[str]
) -> Any:
    """
    A message of the class *kind* with these *fields*, declared and *extra*.

    Made as pydantic copies its models: that takes a tenth of the time of validation,
    which could also change the fields.
    """
    made = _new(kind)
    _set(made, "__dict__", fields)
    _set(made, "__pydantic_extra__", extra)
    _set(made, "__pydantic_fields_set__", set(fields_set))
    _set(made, "__pydantic_private__", None)
    return made
