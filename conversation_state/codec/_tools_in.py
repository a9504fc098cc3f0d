"""
Tools and documents in: what each is read from.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from conversation_state._persistent import pmap
from conversation_state.codec._problems import At
from conversation_state.codec._reading import Read, Reader, Shape
from conversation_state.documents import Document
from conversation_state.tools import Parameter, ToolInfo
from conversation_state.tools._infos import MOST_LEVELS

__all__ = ["DOCUMENT", "TOOL_INFO"]


def _parameters(reader: Reader, raw: Any, at: At) -> Any:
    """
    What a tool takes: a JSON Schema, or parameters by name.
    """
    reader.has_maps = True
    if raw.__class__ is dict and raw.get("type").__class__ is str:
        return raw

    return _by_name(reader, raw, at, MOST_LEVELS)


def _by_name(reader: Reader, raw: Any, at: At, levels: int) -> Any:
    if not reader.is_object(raw, at):
        return None

    # No dict: that is what JSON is, and not ours to understand.
    return pmap({key: _parameter(reader, raw[key], (at, key), levels) for key in raw})


def _parameter(reader: Reader, raw: Any, at: At, levels: int) -> Any:
    if not levels:
        what = f"nested more than {MOST_LEVELS} levels deep"
        return reader.problems.add(at, what)

    fields: dict[str, Read] = {
        "type": Reader.text,
        "description": Reader.text,
        "required": Reader.truth,
        "enum": _enum,
        "items": partial(_parameter, levels=levels - 1),
        "properties": partial(_by_name, levels=levels - 1),
    }
    return reader.object(raw, at, Shape(Parameter, fields, ("type",), grows=False))


def _enum(reader: Reader, raw: Any, at: At) -> Any:
    return raw if reader.is_array(raw, at) else None


TOOL_INFO = Shape(
    ToolInfo,
    {
        "name": Reader.text,
        "description": Reader.text,
        "parameters": _parameters,
        "metadata": Reader.json_map,
    },
    ("name",),
)
DOCUMENT = Shape(
    Document,
    {"id": Reader.text, "content": Reader.text, "metadata": Reader.json_map},
    ("id", "content"),
)
