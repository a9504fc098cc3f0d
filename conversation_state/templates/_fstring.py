"""Python's format syntax, without what reaches into objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import Formatter
from typing import Any

from conversation_state.templates._values import (
    MAX_CHARACTERS,
    Refused,
    Variables,
    join_bounded,
    read_below,
)

_FIELD = re.compile(r"([^.\[\]]*)((?:\[[^\[\]]+\])*)")
_KEY = re.compile(r"\[([^\[\]]+)\]")
_POSITION = re.compile(r"[0-9]{1,18}")

_BRACES = "write {{ and }} for braces that stay"


def render_template(text: str, variables: Variables) -> str:
    return join_bounded(_render_pieces(text, variables))


def _render_pieces(text: str, variables: Variables) -> Iterator[str]:
    try:
        # Python's own parser, so that braces are doubled as in `str.format`.
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise Refused(f"{error}; {_BRACES}") from error

    for literal, name, spec, conversion in pieces:
        yield literal
        if name is None:
            continue

        shown = f"{{{name:.40}}}"
        if conversion or "{" in (spec or ""):
            raise Refused(f"{shown} has a conversion, or a field inside its format")

        value = _read_field(name, shown, variables)
        yield _format_value(value, spec, shown) if spec else str(value)


def _read_field(name: str, shown: str, variables: Variables) -> Any:
    found = _FIELD.fullmatch(name)
    if found is None or not found[1].isidentifier():
        raise Refused(
            f"{shown} is no name of a variable, with keys in brackets below it; "
            f"attributes are not read, and {_BRACES}"
        )

    value, path = variables[found[1]], found[1]
    for key in _KEY.findall(found[2]):
        # A key of digits may be a number or a text in a map.
        at: Any = int(key) if _POSITION.fullmatch(key) else key
        is_text = isinstance(value, dict) and at not in value
        value = read_below(value, key if is_text else at, path)
        path = f"{path}.{key}"

    return value


def _format_value(value: Any, spec: str, shown: str) -> str:
    # Digits of all scripts: `format` takes them in a width, too.
    if any(int(number[:9]) > MAX_CHARACTERS for number in re.findall(r"\d+", spec)):
        raise Refused(f"the format of {shown} is wider than a text may be")

    try:
        return format(value, spec)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused(f"{shown} can't be written as {spec:.40}: {error}") from error
