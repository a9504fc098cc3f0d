"""
Reads tools and documents.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from conversation_state._canonical import JsonPath
from conversation_state._persistent import FrozenMap, freeze_map
from conversation_state.codec._reader import Read, Reader, Shape
from conversation_state.documents import Document
from conversation_state.tools import MAX_PARAMETER_LEVELS, Parameter, ToolInfo

__all__ = ["DOCUMENT", "TOOL_INFO"]


def _read_parameters(reader: Reader, raw: Any, path: JsonPath) -> Any:
    """
    The parameters of a tool: a JSON Schema, or a `Parameter` for each name.
    """
    reader.has_foreign_json = True
    if raw.__class__ is dict:
        if raw.get("type").__class__ is str:
            return raw

        schema = raw.get("schema") if len(raw) == 1 else None
        if isinstance(schema, dict) and schema.get("type").__class__ is not str:
            return _read_wrapped_schema(reader, schema, (path, "schema"))

    return _read_parameters_by_name(reader, raw, path, MAX_PARAMETER_LEVELS)


def _read_wrapped_schema(reader: Reader, raw: dict[str, Any], path: JsonPath) -> Any:
    """
    A schema that was wrapped, because its type is not a text.
    """
    if not raw:
        return reader.problems.add(path, "is empty")

    try:
        return freeze_map(raw, "it", keep_order=True)
    except ValueError:
        return reader.check_json(raw, path)


def _read_parameters_by_name(
    reader: Reader, raw: Any, path: JsonPath, levels: int
) -> Any:
    if not reader.is_object(raw, path):
        return None

    # Frozen, because a dict would be taken for a JSON Schema.
    return FrozenMap(
        {key: _read_parameter(reader, raw[key], (path, key), levels) for key in raw}
    )


def _read_parameter(reader: Reader, raw: Any, path: JsonPath, levels: int) -> Any:
    if not levels:
        what = f"nested more than {MAX_PARAMETER_LEVELS} levels deep"
        return reader.problems.add(path, what)

    fields: dict[str, Read] = {
        "type": Reader.text,
        "description": Reader.text,
        "required": Reader.boolean,
        "enum": _read_enum_values,
        "items": partial(_read_parameter, levels=levels - 1),
        "properties": partial(_read_parameters_by_name, levels=levels - 1),
    }
    return reader.read_object(
        raw, path, Shape(Parameter, fields, ("type",), keeps_unknown=False)
    )


def _read_enum_values(reader: Reader, raw: Any, path: JsonPath) -> Any:
    return raw if reader.is_array(raw, path) else None


TOOL_INFO = Shape(
    ToolInfo,
    {
        "name": Reader.text,
        "description": Reader.text,
        "parameters": _read_parameters,
        "metadata": Reader.json_map,
    },
    ("name",),
)
DOCUMENT = Shape(
    Document,
    {"id": Reader.text, "content": Reader.text, "metadata": Reader.json_map},
    ("id", "content"),
)
