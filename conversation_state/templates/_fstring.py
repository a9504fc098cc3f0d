"""Python's format syntax, without what reaches into objects."""

from __future__ import annotations

import re
from decimal import Decimal
from string import Formatter
from typing import Any, NamedTuple, TypeAlias

from conversation_state._wording import describe_type, shorten_repr
from conversation_state.templates._values import (
    MAX_WIDTH,
    Meter,
    Missing,
    Refused,
    Variables,
    check_width,
    dotted,
)

# What every text with syntax has at least one of.
MARKS = ("{", "}")

# Format specs know dates and decimal numbers.
EXACT = True


class FormatField(NamedTuple):
    """A gap: the variable, the keys below it, and how it is written."""

    name: str
    keys: tuple[str | int, ...]
    spec: str


FormatPieces: TypeAlias = "tuple[str | FormatField, ...]"

_FIELD = re.compile(r"([^.\[\]]*)((?:\[[^\[\]]+\])*)")
_KEY = re.compile(r"\[([^\[\]]+)\]")
_POSITION = re.compile(r"[0-9]{1,18}")
# Digits of all scripts: `format` takes them in a width, too.
_NUMBER = re.compile(r"\d+")
_DIGITS = 9

_BRACES = "write {{ and }} for braces that stay"


def compile_template(text: str) -> FormatPieces:
    pieces: list[str | FormatField] = []
    try:
        # Python's own parser, so that braces are doubled as in `str.format`.
        for literal, name, spec, conversion in Formatter().parse(text):
            if literal:
                pieces.append(literal)
            if name is not None:
                pieces.append(_parse_field(name, spec or "", conversion))
    except ValueError as error:
        raise Refused(f"{error}; {_BRACES}") from error

    return tuple(pieces)


def _parse_field(name: str, spec: str, conversion: str | None) -> FormatField:
    shown = f"{{{name:.40}}}"
    if conversion:
        raise Refused(
            f"{shown} has the conversion !{conversion}; conversions are unsupported"
        )

    if not name or name.isdigit():
        raise Refused(
            f"{shown} has no name; every field names a variable. Or {_BRACES}"
        )

    found = _FIELD.fullmatch(name)
    if found is None or not found[1].isidentifier():
        head, dot, rest = name.partition(".")
        if dot and head.isidentifier():
            msg = (
                f"{shown} asks for an attribute, and fields name variables and keys "
                f"only; {{{head}[{rest:.40}]}} is a key"
            )
        else:
            msg = f"{shown} is no name of a variable and keys; {_BRACES}"
        raise Refused(msg)

    if "{" in spec:
        raise Refused(f"{shown} has a field inside its format; write the format itself")

    for number in _NUMBER.findall(spec):
        size = int(number) if len(number) <= _DIGITS else MAX_WIDTH + 1
        check_width(size, f"the number {number:.20} in the format of {shown}")

    keys = [
        int(key) if _POSITION.fullmatch(key) else key for key in _KEY.findall(found[2])
    ]
    return FormatField(found[1], tuple(keys), spec)


def render_template(pieces: FormatPieces, variables: Variables, meter: Meter) -> str:
    parts = []
    for piece in pieces:
        part = piece if isinstance(piece, str) else _fill_field(piece, variables, meter)
        meter.write(len(part))
        parts.append(part)

    return "".join(parts)


def _fill_field(field: FormatField, variables: Variables, meter: Meter) -> str:
    value = variables[field.name]
    for at, key in enumerate(field.keys):
        value = _read_key(value, key, (field.name, *field.keys[:at]))

    # This value is not measured, because only what is written counts, and nothing is
    # made here.
    if value.__class__ is str and not field.spec:
        return value

    meter.make(meter.measure(value))
    path = dotted(field.name, *field.keys)
    if not field.spec:
        return str(value)

    # `format` writes all of its digits, a billion of "1E+999999999".
    if value.__class__ is Decimal and abs(value.adjusted()) > MAX_WIDTH:
        raise Refused(f"{path} is a decimal number too large or small for a format")

    try:
        return format(value, field.spec)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused(
            f"{path} can't be written as {field.spec:.40}: {error}"
        ) from error


def _read_key(value: Any, key: str | int, path: tuple[str | int, ...]) -> Any:
    if isinstance(value, dict):
        if key in value:
            return value[key]

        # A key of digits is a position in a list, and may be a text in a map.
        if isinstance(key, int) and str(key) in value:
            return value[str(key)]

        raise Missing(dotted(*path, key))

    if isinstance(value, list):
        if not isinstance(key, int):
            raise Refused(
                f"{dotted(*path)} is a list, and {shorten_repr(key, 40)} is not a "
                "position in it"
            )

        if key < len(value):
            return value[key]

        raise Missing(dotted(*path, key))

    raise Refused(f"{dotted(*path)} is {describe_type(value)} and has nothing below it")
