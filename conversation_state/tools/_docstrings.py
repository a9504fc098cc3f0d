"""
Docstrings in the styles of Google, NumPy, Sphinx and this library.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any, NamedTuple

import docstring_parser

__all__ = ["Docstring", "parse_class_docstring", "parse_docstring"]

# A doctest up to the next empty line.
_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
# What dataclasses and named tuples generate where there is no docstring.
_GENERATED = re.compile(r"\w+\(.*\)", re.DOTALL)


class Docstring(NamedTuple):
    """
    A parsed docstring.

    Attributes:
        summary: Its first sentence or sentences, on one line.

        description: All before the first section, without doctests.

        fields: Descriptions of parameters or attributes, by name.
    """

    summary: str = ""
    description: str = ""
    fields: dict[str, str] = {}  # noqa: RUF012 - never changed


def parse_docstring(docstring: str | None) -> Docstring:
    """
    *docstring* as its summary, description and fields.
    """
    text = _DOCTEST.sub("", cleandoc(docstring or "")).strip()
    if not text:
        return Docstring()

    try:
        parsed = docstring_parser.parse(text)
    except Exception:  # noqa: BLE001 - an IndexError, too: the text describes itself
        return Docstring(_join_lines(text.partition("\n\n")[0]), text)

    # NumPy documents several at once (`x, y`), and stars may be written.
    fields = {
        name.strip().lstrip("*"): each.description.strip()
        for each in parsed.params
        for name in each.arg_name.split(",")
        if each.description
    }
    description = (parsed.description or "").strip()
    return Docstring(_join_lines(description.partition("\n\n")[0]), description, fields)


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def parse_class_docstring(cls: type[Any]) -> Docstring:
    """
    The docstring of *cls*, with the descriptions of its bases' fields.
    """
    fields: dict[str, str] = {}
    docstring = Docstring()
    for each in reversed(cls.__mro__):
        own = vars(each).get("__doc__")
        if isinstance(own, str):
            docstring = parse_docstring(own)
            fields.update(docstring.fields)

    summary = ""
    own = vars(cls).get("__doc__")
    if isinstance(own, str) and not _GENERATED.fullmatch(own):
        summary = docstring.summary

    return Docstring(summary, "", fields)
