"""
JSON Schemas of parameters: whether they can describe a tool's, and what a
docstring and a default value add to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from conversation_state._persistent import freeze, thaw
from conversation_state._wording import shorten_repr
from conversation_state.errors import InvalidToolError

__all__ = [
    "KEYWORDS",
    "add_label",
    "annotate_schema",
    "find_contradiction",
    "format_type",
]

# The keywords that can describe an object. Any of them distinguishes a schema from
# a mapping of names to something that is not a Parameter.
KEYWORDS = frozenset(
    {
        *("type", "const", "enum", "$ref", "$dynamicRef", "$recursiveRef"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
        *("properties", "patternProperties", "additionalProperties"),
        *("unevaluatedProperties", "propertyNames", "required"),
        *("minProperties", "maxProperties", "dependentRequired"),
        *("dependentSchemas", "dependencies"),
    }
)


def find_contradiction(schema: Mapping[str, Any]) -> str:
    """
    Why no object can match *schema* by its own type, constant or choice of values; ""
    if one may, as far as these say.

    What is behind references and combinations is taken for possible.

    Source:
        JSON Schema 2020-12. Pydantic writes a recursive model as ``$ref`` with
        ``$defs`` and no ``type`` of its own; others write ``allOf``.
    """
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, tuple) and "object" in kind):
        return f'has "type": {shorten_repr(thaw(kind))}'

    if "const" in schema and not isinstance(schema["const"], Mapping):
        return f'has "const": {shorten_repr(thaw(schema["const"]))}'

    values = schema.get("enum")
    if isinstance(values, tuple) and not any(isinstance(v, Mapping) for v in values):
        return f'has "enum": {shorten_repr(thaw(values))}'

    return ""


def _allows_null(schema: Mapping[str, Any]) -> bool:
    return (
        not schema
        or schema.get("type") == "null"
        or None in schema.get("enum", ())
        or any(map(_allows_null, schema.get("anyOf", ())))
    )


def annotate_schema(
    schema: dict[str, Any], description: str, default: Any
) -> dict[str, Any]:
    """
    *schema* with a *description* from a docstring, and with the default value if
    there is one, JSON can represent it, and the schema allows it.
    """
    full = dict(schema)
    if description:
        # The type's own description applies here, too.
        own = schema.get("description", description)
        full["description"] = (
            description if own == description else f"{description}\n{own}"
        )

    if default is attrs.NOTHING:
        return full

    if isinstance(default, Enum):
        default = default.value

    try:
        frozen = freeze(default, "default", InvalidToolError)
    except InvalidToolError:
        return full  # nothing a model could write; `required` says enough

    if frozen is not None or _allows_null(schema):
        full["default"] = frozen

    return full


def add_label(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """
    *schema* of an item in a named tuple, whose name goes into the description.
    """
    description = schema.get("description")
    return {**schema, "description": f"{name}: {description}" if description else name}


def format_type(kind: Any) -> str:
    """
    A type as it is written in source code.
    """
    if isinstance(kind, type):
        return kind.__qualname__

    return shorten_repr(kind).replace("typing.", "")
