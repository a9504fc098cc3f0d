"""Tools, documents and templates: how they are read and written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from conversation_state._canonical import JsonPath
from conversation_state._persistent import FrozenMap, freeze_map
from conversation_state.codec._fast import Object
from conversation_state.codec._messages import make_shape, read_message, write_message
from conversation_state.codec._reader import (
    CodecReader,
    Read,
    Shape,
    array_reader,
    strict_shape,
)
from conversation_state.documents import Document
from conversation_state.templates import Placeholder, Template
from conversation_state.tools import (
    MAX_PARAMETER_LEVELS,
    Parameter,
    ToolInfo,
    is_schema,
)

# Tools


def _read_parameters(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    reader.has_foreign_json = True
    if raw.__class__ is dict:
        if raw.get("type").__class__ is str:
            return raw

        schema = raw.get("schema") if len(raw) == 1 else None
        if isinstance(schema, dict) and schema.get("type").__class__ is not str:
            return _read_wrapped_schema(reader, schema, (path, "schema"))

    return _read_parameters_by_name(reader, raw, path, MAX_PARAMETER_LEVELS)


def _read_wrapped_schema(
    reader: CodecReader, raw: dict[str, Any], path: JsonPath
) -> Any:
    """A schema that was wrapped, because its type is not a text."""
    if not raw:
        return reader.problems.add(path, "is empty")

    try:
        return freeze_map(raw, "it", keep_order=True)
    except ValueError:
        return reader.check_json(raw, path)


def _read_parameters_by_name(
    reader: CodecReader, raw: Any, path: JsonPath, levels: int
) -> Any:
    if not reader.is_object(raw, path):
        return None

    # Frozen, because a dict would be taken for a JSON Schema.
    return FrozenMap(
        {key: _read_parameter(reader, raw[key], (path, key), levels) for key in raw}
    )


def _read_parameter(reader: CodecReader, raw: Any, path: JsonPath, levels: int) -> Any:
    # The depth is checked here, because the constructor that checks it runs after the
    # recursion, and JSON may be nested more deeply than Python can recurse.
    if not levels:
        what = f"nested more than {MAX_PARAMETER_LEVELS} levels deep"
        return reader.problems.add(path, what)

    fields: dict[str, Read] = {
        "type": CodecReader.text,
        "description": CodecReader.text,
        "required": CodecReader.boolean,
        "enum": _read_enum_values,
        "items": partial(_read_parameter, levels=levels - 1),
        "properties": partial(_read_parameters_by_name, levels=levels - 1),
    }
    return reader.read_object(
        raw, path, Shape(Parameter, fields, ("type",), keeps_unknown=False)
    )


def _read_enum_values(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    return raw if reader.is_array(raw, path) else None


TOOL_INFO = make_shape(ToolInfo, parameters=_read_parameters)
DOCUMENT = make_shape(Document)


def write_tool_info(tool: ToolInfo) -> Object:
    """
    A tool; its parameters as they were given.

    A reader recognises a schema by its ``type``, which is a text; in a mapping of
    parameters every value is an object. Any other schema is wrapped.
    """
    data: Object = {"name": tool.name, **_write_set(tool, "description")}
    given = tool.parameters
    if given is not None:
        if not is_schema(given):
            data["parameters"] = _write_parameters(given)
        elif isinstance(given.get("type"), str):
            data["parameters"] = given
        else:
            data["parameters"] = {"schema": given}

    # Unknown keys never overwrite known fields: the constructors check that.
    return {**data, **_write_set(tool, "metadata"), **tool.unknown}


def _write_parameters(parameters: Mapping[str, Parameter]) -> Object:
    return {name: _write_parameter(parameters[name]) for name in parameters}


def _write_parameter(parameter: Parameter) -> Object:
    fields = _write_set(parameter, "description", "required", "enum")
    if parameter.items is not None:
        fields["items"] = _write_parameter(parameter.items)

    if parameter.properties:
        fields["properties"] = _write_parameters(parameter.properties)

    return {"type": parameter.type, **fields}


def write_document(document: Document) -> Object:
    """A document, its vectors in its metadata."""
    data = {"id": document.id, "content": document.content}
    return {**data, **_write_set(document, "metadata"), **document.unknown}


def _write_set(value: Any, *names: str) -> Object:
    """The fields of *value* that are not empty, which is the default of each."""
    return {name: given for name in names if (given := getattr(value, name))}


# Templates


def _read_template_item(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    is_place = raw.__class__ is dict and "placeholder" in raw
    return reader.read_object(
        raw, path, _PLACEHOLDER_ITEM if is_place else _MESSAGE_ITEM
    )


_MESSAGE_ITEM = strict_shape(lambda message: message, "message", message=read_message)
_PLACEHOLDER_ITEM = strict_shape(
    lambda placeholder, optional=False: Placeholder(placeholder, optional),
    "placeholder",
    placeholder=CodecReader.text,
    optional=CodecReader.boolean,
)
TEMPLATE = strict_shape(
    lambda items, syntax="fstring": Template(*items, syntax=syntax),
    "items",
    items=array_reader(_read_template_item),
    syntax=CodecReader.text,
)


def write_template(template: Template) -> Object:
    data: Object = {
        "items": [
            {"placeholder": item.key, **_write_set(item, "optional")}
            if isinstance(item, Placeholder)
            else {"message": write_message(item)}
            for item in template.items
        ]
    }
    if template.syntax != "fstring":
        data["syntax"] = template.syntax

    return data
