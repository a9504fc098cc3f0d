"""
What LangChain keeps with messages and JSON has no word for.

Anything may stand in its maps, and what its own serialisation takes must not
be lost here: numbers that are not finite, integers of more than 64 bits, keys
that are no text, bytes, half of a surrogate pair, documents a retriever found,
and messages. Each becomes a map that says what it is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from conversation_state.adapters._langchain._classes import (
    classes,
    document_class,
    names,
)
from conversation_state.adapters._reading import Reading

__all__ = ["given_back", "keep", "made"]

_TAG = "$langchain"
_MOST_LEVELS = 80
_LEAST, _MOST = -(2**63), 2**64 - 1


def keep(read: Reading, value: Any, path: str, depth: int = 0) -> Any:
    """
    *value*, at *path*, as JSON that `given_back` makes it of again; what is
    nothing of the kind is a problem. Tuples are lists, as in LangChain's JSON.
    """
    if value is None or isinstance(value, bool):
        return value

    if depth == _MOST_LEVELS:
        read.problem(path, f"is nested more than {_MOST_LEVELS} levels deep")
        return None

    for kind, kept in _SCALARS.items():
        if isinstance(value, kind):
            return kept(value)

    if isinstance(value, Mapping):
        return _kept_map(read, value, path, depth)

    if isinstance(value, (list, tuple)):
        return [
            keep(read, item, f"{path}[{at}]", depth + 1)
            for at, item in enumerate(value)
        ]

    return _kept_object(read, value, path, depth)


def _kept_object(read: Reading, value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    name = "Document" if kind is document_class() else names().get(kind)
    if name is None:
        what = f"is a Python {kind.__name__}, which can't be kept as JSON"
        read.problem(path, f"{what}; give what it says as a dict, or as text")
        return None

    fields = {**vars(value), **(value.model_extra or {})}
    return {_TAG: name, "value": keep(read, fields, path, depth + 1)}


def _kept_int(value: int) -> Any:
    plain = _LEAST <= value <= _MOST
    return int(value) if plain else {_TAG: "int", "value": hex(value)}


def _kept_float(value: float) -> Any:
    number = float(value)
    return number if isfinite(value) else {_TAG: "float", "value": repr(number)}


def _kept_bytes(value: bytes) -> Any:
    return {_TAG: "bytes", "value": base64.b64encode(value).decode()}


def _kept_text(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        octets = text.encode("utf-8", "surrogatepass")
        return {_TAG: "text", "value": base64.b64encode(octets).decode()}

    return str(text)


def _kept_map(read: Reading, value: Mapping[Any, Any], path: str, depth: int) -> Any:
    kept: dict[str, Any] = {}
    is_plain = _TAG not in value
    pairs: list[Any] = []
    for key, item in value.items():
        name = keep(read, key, f"{path}, a key", depth + 1)
        inside = keep(read, item, f"{path}.{key}", depth + 1)
        is_plain = is_plain and isinstance(key, str) and isinstance(name, str)
        pairs.append([name, inside])

    if not is_plain:
        return {_TAG: "map", "value": pairs}

    kept.update(pairs)
    return kept


_SCALARS: Mapping[type[Any], Callable[[Any], Any]] = {
    str: _kept_text,
    int: _kept_int,
    float: _kept_float,
    bytes: _kept_bytes,
}


def given_back(value: Any) -> Any:
    """
    What `keep` kept, fresh, as plain dicts and lists.
    """
    if isinstance(value, (list, tuple)):
        return [given_back(item) for item in value]

    if not isinstance(value, Mapping):
        return value

    tag = value.get(_TAG)
    if tag is None:
        return {key: given_back(value[key]) for key in sorted(value)}

    body = value.get("value")
    if isinstance(tag, str):
        give = _GIVEN.get(tag)
        if give is not None:
            return give(body)

        if tag in classes():
            return made(tag, given_back(body))

    return {key: given_back(value[key]) for key in sorted(value)}


def _document(body: Any) -> Any:
    fields = given_back(body)
    document = document_class()(page_content="")
    for name in fields:
        setattr(document, name, fields[name])

    return document


_GIVEN: Mapping[str, Any] = {
    "Document": _document,
    "bytes": base64.b64decode,
    "float": float,
    "int": lambda body: int(body, 16),
    "map": lambda body: {given_back(key): given_back(item) for key, item in body},
    "text": lambda body: base64.b64decode(body).decode("utf-8", "surrogatepass"),
}

# What a class asks for when it is made; the fields are set afterwards, as they
# were. Made of them, a message would parse some anew, and drop others.
_NEEDED: Mapping[str, Mapping[str, str]] = {
    "ChatMessage": {"role": ""},
    "ChatMessageChunk": {"role": ""},
    "FunctionMessage": {"name": ""},
    "FunctionMessageChunk": {"name": ""},
    "ToolMessage": {"tool_call_id": ""},
    "ToolMessageChunk": {"tool_call_id": ""},
}
_NOTHING: Mapping[str, str] = {}


def made(name: str, fields: Mapping[str, Any]) -> Any:
    """
    The message of the class called *name* that has these *fields*.
    """
    needed = _NEEDED.get(name, _NOTHING)
    if name == "RemoveMessage":
        message = classes()[name](id="")
    else:
        message = classes()[name](content="", **needed)

    for field, value in fields.items():
        setattr(message, field, value)

    return message
