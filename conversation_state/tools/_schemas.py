"""
JSON Schemas of parameters: whether they can describe a tool's, and what a
docstring and a default value add to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any
from urllib.parse import unquote

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

# Keywords that may allow less than a type does.
_RESTRICTING = frozenset({"const", "enum", "$ref", "allOf", "anyOf", "oneOf"})

_ARRAYS = (list, tuple)

# References may lead from one to the next without end: what is behind so many
# schemas, each inside of or behind another, is not searched.
_MAX_LEVELS = 250
# A number as long as that is behind the end of a list, and `int` refuses long ones.
_MAX_DIGITS = 9


def find_contradiction(schema: Mapping[str, Any]) -> str:
    """
    Why no object can match *schema*; "" if one may.

    Checks types, constants and choices, also in references within the schema, and
    takes everything else for possible. Linear.

    Source:
        JSON Schema 2020-12. Pydantic writes a recursive model as ``$ref`` with
        ``$defs`` and no ``type`` of its own; others write ``allOf``.
    """
    if schema.get("type") == "object" and _RESTRICTING.isdisjoint(schema):
        return ""  # nearly all schemas

    return _ContradictionSearch(schema).find(schema)


class _ContradictionSearch:
    def __init__(self, root: Any) -> None:
        self._root = root
        # What was found at the target of each reference; "" while it is searched,
        # which ends the recursion of schemas that refer to themselves.
        self._known: dict[str, str] = {}
        self._levels = 0

    def find(self, schema: Any) -> str:
        if schema is False:
            return "allows nothing at all: false"

        if not isinstance(schema, Mapping) or self._levels == _MAX_LEVELS:
            return ""

        self._levels += 1
        found = (
            _find_in_values(schema)
            or self._find_in_reference(schema.get("$ref"))
            or self._find_in_all(schema.get("allOf"))
            or self._find_in_some(schema, "anyOf")
            or self._find_in_some(schema, "oneOf")
        )
        self._levels -= 1
        return found

    def _find_in_all(self, schemas: Any) -> str:
        if not isinstance(schemas, _ARRAYS):
            return ""

        return next(filter(None, map(self.find, schemas)), "")

    def _find_in_some(self, schema: Mapping[str, Any], name: str) -> str:
        schemas = schema.get(name)
        if not isinstance(schemas, _ARRAYS) or not schemas:
            return ""

        found = ""
        for each in schemas:
            found = self.find(each)
            if not found:
                return ""

        return f'{found}, as all of "{name}" do' if len(schemas) > 1 else found

    def _find_in_reference(self, reference: Any) -> str:
        if not isinstance(reference, str):
            return ""

        if reference not in self._known:
            self._known[reference] = ""
            self._known[reference] = self.find(
                _resolve_reference(self._root, reference)
            )

        return self._known[reference]


def _find_in_values(schema: Mapping[str, Any]) -> str:
    if "type" in schema:
        kind = schema["type"]
        kinds = kind if isinstance(kind, _ARRAYS) else (kind,)
        if "object" not in kinds:
            return f'has "type": {shorten_repr(thaw(kind))}'

    if "const" in schema and not isinstance(schema["const"], Mapping):
        return f'has "const": {shorten_repr(thaw(schema["const"]))}'

    values = schema.get("enum")
    if isinstance(values, _ARRAYS) and not any(isinstance(v, Mapping) for v in values):
        return f'has "enum": {shorten_repr(thaw(values))}'

    return ""


def _resolve_reference(root: Any, reference: str) -> Any:
    """
    The target of a reference within the schema, or None.
    """
    if reference != "#" and not reference.startswith("#/"):
        return None

    found = root
    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(key)
        elif isinstance(found, _ARRAYS) and key.isdecimal():
            at = int(key[:_MAX_DIGITS])
            found = found[at] if at < len(found) else None
        else:
            return None

    return found


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
