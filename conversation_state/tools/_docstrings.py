"""
What docstrings say, in the styles of Google, NumPy and Sphinx, and our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, NamedTuple

import docstring_parser

__all__ = ["Told", "of_class", "of_text"]

# A doctest up to the next empty line.
_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
# What dataclasses and named tuples say of themselves where nobody says more.
_GENERATED = re.compile(r"\w+\(.*\)", re.DOTALL)


class Told(NamedTuple):
    """
    What a docstring tells.

    Attributes:
        summary: Its first sentence or sentences, on one line.

        description: All before the first section, without doctests.

        fields: What parameters, or attributes, are, by name.
    """

    summary: str = ""
    description: str = ""
    fields: dict[str, str] = {}  # noqa: RUF012 - a default nobody changes


def of_text(docstring: str | None) -> Told:
    """
    What *docstring* tells.
    """
    text = _DOCTEST.sub("", cleandoc(docstring or "")).strip()
    if not text:
        return Told()

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Told(_line(text.partition("\n\n")[0]), text)

    fields = {
        name: each.description.strip()
        for each in parsed.params
        for name in _names(each.arg_name)
        if each.description
    }
    description = (parsed.description or "").strip()
    return Told(_line(description.partition("\n\n")[0]), description, fields)


def _names(given: str) -> Iterator[str]:
    # NumPy documents several at once (`x, y`), and stars may be written.
    return (name.strip().lstrip("*") for name in given.split(","))


def _line(text: str) -> str:
    return " ".join(text.split())


def of_class(cls: type[Any]) -> Told:
    """
    What the docstring of *cls* tells, and of fields also those of its bases.
    """
    fields: dict[str, str] = {}
    told = Told()
    for each in reversed(cls.__mro__):
        own = vars(each).get("__doc__")
        if isinstance(own, str):
            told = of_text(own)
            fields.update(told.fields)

    summary = ""
    own = vars(cls).get("__doc__")
    if isinstance(own, str) and not _GENERATED.fullmatch(own):
        summary = told.summary

    return Told(summary, "", fields)
