"""
Bytes of any JSON: one way to write a value, one strict way to read it.

What lives here: `dump` and `load`. What does not: anything that knows what
the JSON means (`codec`).
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import orjson

from conversation_state.errors import DecodeError, Problem

__all__ = ["Data", "dump", "first_oversized", "load"]

Data: TypeAlias = "bytes | bytearray | memoryview | str"

# 2**63 has 19 digits, and 2**64 - 1 has 20.
_FEWEST, _MOST = 19, 20
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
# Texts are taken whole, and so are numbers that are no integers.
_TOKEN = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?P<integer>-?\d++)(?![.eE])|-?\d[\d.eE+-]*',
    re.DOTALL,
)


def dump(value: Any) -> bytes:
    """
    Plain JSON values as UTF-8 text without any white space.

    Deterministic: the keys of an object are written in the order they have.

    Raises:
        TypeError:
            If JSON, or UTF-8, can't hold the value.
    """
    return orjson.dumps(value)


def load(data: Data) -> Any:
    """
    The JSON value that *data* is the text of.

    Strict: no NaN or Infinity, no numbers over 1.8e308, no half surrogate
    pairs, no more than 1,024 levels. Of a key given twice the last value
    stands. Integers of more than 64 bits are read as floats, see
    `first_oversized`.

    Raises:
        DecodeError:
            If *data* is no JSON; says where.

        TypeError:
            If *data* is neither bytes nor text.
    """
    if not isinstance(data, (bytes, bytearray, memoryview, str)):
        msg = f"expected bytes or a str, got a {type(data).__name__}"
        raise TypeError(msg)

    if isinstance(data, memoryview):
        data = bytes(data)  # orjson takes contiguous ones only

    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DecodeError((Problem("$", _why(data, error)),)) from None


def _why(data: bytes | bytearray | str, error: orjson.JSONDecodeError) -> str:
    try:
        _ = data.encode() if isinstance(data, str) else data.decode()
    except UnicodeDecodeError as found:
        return f"not UTF-8: byte 0x{found.object[found.start]:02x} at {found.start}"
    except UnicodeEncodeError as found:
        return f"not text: half of a surrogate pair at {found.start}"

    return f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})"


def first_oversized(data: Data) -> int | None:
    """
    Where the first integer of more than 64 bits starts in JSON text, if any.

    A position in the UTF-8 bytes of *data*, which `load` must have taken.
    About a nanosecond a byte where no long numbers are.

    Source:
        orjson reads such an integer as the nearest float, without a word.
    """
    text = data.encode() if isinstance(data, str) else bytes(data)
    if text.translate(_DIGITS).find(b"0" * _FEWEST) < 0:
        return None

    for token in _TOKEN.finditer(text):
        if _is_oversized(token["integer"] or b""):
            return token.start()

    return None


def _is_oversized(integer: bytes) -> bool:
    digits = integer.removeprefix(b"-")
    if len(digits) < _FEWEST:
        return False

    # `int` takes long to say how large a million digits are, and refuses to.
    return len(digits) > _MOST or not -(2**63) <= int(integer) < 2**64
