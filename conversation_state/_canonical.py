"""Bytes of JSON: one canonical way to write a value, one strict way to read it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import orjson

from conversation_state._wording import describe_type, shorten_path, shorten_repr
from conversation_state.errors import DecodeError, Problem

Data: TypeAlias = "bytes | bytearray | memoryview | str"

# 2**63 has 19 digits, and 2**64 - 1 has 20.
_MIN_DIGITS, _MAX_DIGITS = 19, 20
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
# Texts are taken whole, and so are numbers that are not integers.
_TOKEN = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?P<integer>-?\d++)(?![.eE])|-?\d[\d.eE+-]*',
    re.DOTALL,
)


# Plain JSON values as UTF-8 text without any white space. Deterministic: the keys of an
# object are written in the order they have. A `TypeError` if JSON, or UTF-8, can't hold
# the value. Not a function of ours: each message that is saved is written by it.
dump: Callable[[Any], bytes] = orjson.dumps


def is_loadable(value: Any) -> bool:
    """
    Whether keys, texts and integers in *value*, which no parser made, are such as
    `load` returns: keys that are plain texts, texts of valid Unicode, integers of
    at most 64 bits, no object in itself.

    By writing it, which takes a third of the time of looking at each value. What
    is written though `load` never returns it, a tuple, an enum or NaN say, has a
    class or a value that every reader checks.
    """
    try:
        orjson.dumps(value)
    except TypeError:
        return False

    return True


def is_object(text: str) -> bool:
    """
    Whether *text* is a JSON object that any parser reads: not too deep, and with no
    number of thousands of digits. O(its length).

    >>> is_object('{"q": 1}'), is_object('{"q'), is_object("")
    (True, False, False)
    """
    try:
        return isinstance(orjson.loads(text), dict)
    except ValueError:
        pass

    # It refuses half of a surrogate pair, which others take, and deep values.
    try:
        return isinstance(json.loads(text, parse_constant=_refuse_constant), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def load(data: Data) -> Any:
    """
    The JSON value that *data* is the text of.

    Strict: no NaN or Infinity, no numbers over 1.8e308, no half surrogate
    pairs, no more than 1,024 levels. Of a key given twice the last value
    stands. Integers of more than 64 bits are read as floats, see
    `first_oversized`.

    Raises:
        DecodeError: If *data* is not JSON; says where.
        TypeError: If *data* is neither bytes nor text.
    """
    if not isinstance(data, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"expected bytes or a str, got {describe_type(data)}")

    if isinstance(data, memoryview):
        data = bytes(data)  # orjson takes contiguous ones only

    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DecodeError((Problem("$", _json_error(data, error)),)) from None


def load_exactly(text: str) -> Any:
    """
    The JSON value that *text* is, with integers of any size. Otherwise as `load`.

    Raises:
        DecodeError: If *text* is not JSON, or has an integer of more digits than Python
            reads.
    """
    value = load(text)
    if first_oversized(text) is None:
        return value

    import json  # noqa: PLC0415 - rarely needed, and slow to import

    try:
        return json.loads(text)
    except ValueError:
        what = "an integer of more digits than Python reads"
    except RecursionError:
        what = "nested too deeply for integers of more than 64 bits"

    raise DecodeError((Problem("$", what),))


def _json_error(data: bytes | bytearray | str, error: orjson.JSONDecodeError) -> str:
    # orjson says the same of all invalid Unicode, and that it is at the beginning.
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
        orjson silently reads such an integer as the nearest float.
    """
    # All digits as one: a run of them is found in a search of a nanosecond a byte, and
    # the expression, which takes far longer, is only for text that has one.
    text = data.encode() if isinstance(data, str) else bytes(data)
    if text.translate(_DIGITS).find(b"0" * _MIN_DIGITS) < 0:
        return None

    for token in _TOKEN.finditer(text):
        if _is_oversized(token["integer"] or b""):
            return token.start()

    return None


def _is_oversized(integer: bytes) -> bool:
    digits = integer.removeprefix(b"-")
    if len(digits) < _MIN_DIGITS:
        return False

    # `int` takes long to say how large a million digits are, and refuses to.
    return len(digits) > _MAX_DIGITS or not -(2**63) <= int(integer) < 2**64


# Values and paths in errors

# A place in a document: the place it is in, and its key or position there.
# None is the document. Made for every value, and rendered only for problems.
JsonPath: TypeAlias = "tuple[JsonPath, str | int] | None"

# A longer key is shown as a text that is cut.
_MAX_NAME = 60
_JSON_NAMES: dict[type, str] = {dict: "an object", list: "an array"}


def describe_json(value: Any) -> str:
    """
    A JSON value for an error's message: never more than a line of it, and
    never more work than that.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", False: "false", True: "true"}[value]

    if isinstance(value, (str, int, float)):
        return shorten_repr(value)

    return _JSON_NAMES.get(type(value), describe_type(value))


def render_path(path: JsonPath) -> str:
    """A place as text, as in ``$.messages[3].parts[0].url``."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f".{step}" if _is_name(step) else f"[{describe_json(step)}]")

    return shorten_path("".join(["$", *reversed(steps)]))


def check_acyclic(data: Any) -> None:
    """
    Check that no object or array in plain JSON values holds itself: reading it
    would never end. O(what there is), however often it is in several places.

    Raises:
        DecodeError: If one does; says where, and what it holds there.
    """
    open_paths: dict[int, JsonPath] = {}
    done: set[int] = set()
    left: list[tuple[JsonPath, Any, bool]] = [(None, data, False)]
    while left:
        path, value, is_done = left.pop()
        known = id(value)
        if is_done:
            del open_paths[known]
            done.add(known)
        elif known in open_paths:
            there = render_path(open_paths[known])
            what = f"is the same object as at {there}, which holds itself"
            raise DecodeError((Problem(render_path(path), what),))
        elif known not in done:
            items = value.items() if value.__class__ is dict else enumerate(value)
            inside = [
                ((path, key), item, False)
                for key, item in items
                if item.__class__ is dict or item.__class__ is list
            ]
            if inside:
                open_paths[known] = path
                left.append((path, value, True))
                left += inside
            else:
                done.add(known)


def _is_name(key: Any) -> bool:
    return (
        isinstance(key, str)
        and len(key) <= _MAX_NAME
        and key.isascii()
        and key.isidentifier()
    )
