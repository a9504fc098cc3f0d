"""
Writes tools, documents and entries as values for orjson, and messages through
`_writers`.

These are plain JSON values, `FrozenMap`, which orjson takes for one, UUIDs, and
times where orjson writes them as `isoformat` does, in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from conversation_state._wording import describe_value
from conversation_state.aggregator import Aggregator, LedgerEntry
from conversation_state.codec._fast import Object, write_time, write_usage
from conversation_state.codec._writers import MESSAGES, write_tool_call
from conversation_state.documents import Document
from conversation_state.messages import Message
from conversation_state.tools import Parameter, ToolInfo, is_schema

__all__ = [
    "MESSAGES",
    "Object",
    "Write",
    "unsupported_type",
    "write_document",
    "write_ledger_entry",
    "write_message",
    "write_messages",
    "write_origin",
    "write_tool_call",
    "write_tool_info",
    "write_usage",
]

Write: TypeAlias = "Callable[[Any], Any]"


def unsupported_type(value: object) -> TypeError:
    return TypeError(f"can't encode {describe_value(value)}")


def write_tool_info(tool: ToolInfo) -> Object:
    """
    A tool; its parameters as they were given.

    A reader recognises a schema by its ``type``, which is a text; in a mapping of
    parameters every value is an object. Any other schema is wrapped.
    """
    data: Object = {"name": tool.name}
    if tool.description:
        data["description"] = tool.description

    given = tool.parameters
    if given is not None:
        if not is_schema(given):
            data["parameters"] = _write_parameters(given)
        elif isinstance(given.get("type"), str):
            data["parameters"] = given
        else:
            data["parameters"] = {"schema": given}

    if tool.metadata:
        data["metadata"] = tool.metadata

    # Its keys never overwrite known fields: the constructors check that.
    return {**data, **tool.unknown}


def _write_parameters(parameters: Mapping[str, Parameter]) -> Object:
    return {name: _write_parameter(parameters[name]) for name in parameters}


def _write_parameter(parameter: Parameter) -> Object:
    data: Object = {"type": parameter.type}
    if parameter.description:
        data["description"] = parameter.description

    if parameter.required:
        data["required"] = True

    if parameter.enum:
        data["enum"] = list(parameter.enum)

    if parameter.items is not None:
        data["items"] = _write_parameter(parameter.items)

    if parameter.properties:
        data["properties"] = _write_parameters(parameter.properties)

    return data


def write_document(document: Document) -> Object:
    """
    A document, its vectors in its metadata.
    """
    data: Object = {"id": document.id, "content": document.content}
    if document.metadata:
        data["metadata"] = document.metadata

    return {**data, **document.unknown}


def write_message(message: Message) -> Object:
    write = MESSAGES.get(message.__class__)
    if write is None:
        raise unsupported_type(message)

    return write(message)  # type: ignore[no-any-return]


def write_messages(messages: Iterable[Message]) -> list[Object]:
    return [write_message(message) for message in messages]


def write_ledger_entry(entry: LedgerEntry) -> Object:
    data: Object = {"id": entry.id, "usage": write_usage(entry.usage)}
    if entry.model:
        data["model"] = entry.model

    if entry.at is not None:
        data["at"] = write_time(entry.at)

    return data


def write_origin(state: Aggregator) -> Object:
    """
    The identity of a state, and where it was forked.
    """
    data: Object = {"id": state.id}
    if state.parent_id is not None:
        data["parent_id"] = state.parent_id

    data["root_id"] = state.root_id
    data["init_len"] = state.init_len
    data["init_ledger_len"] = state.init_ledger_len
    return data
