"""
The standard functions of Go's templates, each on plain data.

All of Go's but `call`: there is nothing to call. Texts are counted, indexed
and sliced in bytes of UTF-8, as Go does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote_plus

from gotpl.runtime.gofmt import sprintf

from conversation_state.templates._bounds import (
    Meter,
    Missing,
    Refused,
    check_width,
    dotted,
)

__all__ = ["FUNCTIONS", "is_true", "named", "shown"]


_Path = tuple[Any, ...]


def named(path: _Path) -> str:
    """
    The dotted name of what *path* leads to: a path and a key, or nothing.
    """
    steps: list[Any] = []
    while path:
        path, step = path
        steps.append(step)

    return dotted(*reversed(steps))


def is_true(value: Any) -> bool:
    """
    Whether Go takes *value* for true: neither nil, false, zero nor empty.
    """
    return bool(value)


def shown(meter: Meter, value: Any) -> str:
    """
    *value* as an action writes it.
    """
    return "<no value>" if value is None else _text(meter, value)


def _text(meter: Meter, value: Any) -> str:
    """
    *value* as Go's ``%v`` writes it.
    """
    if value.__class__ is str:
        return value

    meter.make(meter.weigh(value))
    return _plain_text(value)


def _plain_text(value: Any) -> str:
    if isinstance(value, str):
        return value

    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]

    if isinstance(value, float):
        return sprintf("%v", value)

    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (isinstance(key, str), key))
        pairs = [f"{key}:{_plain_text(value[key])}" for key in keys]
        return f"map[{' '.join(pairs)}]"

    return (
        f"[{' '.join(map(_plain_text, value))}]"
        if isinstance(value, list)
        else str(value)
    )


def _made(meter: Meter, text: str) -> str:
    meter.make(len(text))
    return text


def _need(name: str, arguments: tuple[Any, ...], least: int, most: int) -> None:
    if not least <= len(arguments) <= most:
        wanted = f"{least}" if least == most else f"at least {least}"
        msg = f"{name} takes {wanted} values; it is given {len(arguments)}"
        raise Refused(msg)


_MANY = 1_000_000


def _kind(value: Any) -> str:
    for kind, name in _KINDS.items():
        if isinstance(value, kind):
            return name

    return "nil"


# In this order: truth is a number in Python.
_KINDS: Mapping[type, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "string",
    list: "list",
    dict: "map",
}


def _same(left: Any, right: Any) -> bool:
    kinds = {_kind(left), _kind(right)}
    if kinds == {"nil"}:
        return True

    if not kinds.isdisjoint({"list", "map"}) and "nil" not in kinds:
        msg = "lists and maps can't be compared"
        raise Refused(msg)

    if len(kinds) > 1 and "nil" not in kinds:
        _refuse_kinds(left, right)

    return bool(left == right)


def _refuse_kinds(left: Any, right: Any) -> None:
    msg = f"a {_kind(left)} and a {_kind(right)} can't be compared"
    raise Refused(msg)


def _eq(_meter: Meter, _path: _Path, *arguments: Any) -> bool:
    _need("eq", arguments, 2, _MANY)
    return any(_same(arguments[0], other) for other in arguments[1:])


def _ne(_meter: Meter, _path: _Path, *arguments: Any) -> bool:
    _need("ne", arguments, 2, 2)
    return not _same(*arguments)


def _compared(name: str, compare: Callable[[Any, Any], bool]) -> Any:
    def compared(_meter: Meter, _path: _Path, *arguments: Any) -> bool:
        _need(name, arguments, 2, 2)
        left, right = arguments
        if _kind(left) != _kind(right) or _kind(left) not in {"int", "float", "string"}:
            _refuse_kinds(left, right)

        return compare(left, right)

    return compared


def _not(_meter: Meter, _path: _Path, *arguments: Any) -> bool:
    _need("not", arguments, 1, 1)
    return not is_true(arguments[0])


def _len(_meter: Meter, path: _Path, *arguments: Any) -> int:
    _need("len", arguments, 1, 1)
    value = arguments[0]
    if isinstance(value, str):
        return len(value.encode())

    if isinstance(value, (list, dict)):
        return len(value)

    msg = f"{named(path) or 'what len is given'} is a {_kind(value)} and has no length"
    raise Refused(msg)


def _index(_meter: Meter, path: _Path, *arguments: Any) -> Any:
    _need("index", arguments, 1, _MANY)
    value, *keys = arguments
    for key in keys:
        if isinstance(value, dict):
            if key.__class__ not in {str, int}:
                msg = f"a {_kind(key)} is no key of a map"
                raise Refused(msg)
            if key not in value:
                raise Missing(named((path, key)))
            value = value[key]
        elif isinstance(value, (list, str)):
            if key.__class__ is not int:
                msg = f"a {_kind(key)} is no position in a {_kind(value)}"
                raise Refused(msg)

            items = value.encode() if isinstance(value, str) else value
            if not 0 <= key < len(items):
                raise Missing(named((path, key)))
            value = items[key]
        else:
            what = named(path) or "what index is given"
            msg = f"{what} is a {_kind(value)} and has no keys"
            raise Refused(msg)

        path = (path, key)

    return value


def _slice(_meter: Meter, path: _Path, *arguments: Any) -> Any:
    _need("slice", arguments, 1, 4)
    value, *numbers = arguments
    items = value.encode() if isinstance(value, str) else value
    what = named(path) or "what slice is given"
    if not isinstance(items, (bytes, list)) or (
        isinstance(items, bytes) and len(numbers) > 2  # noqa: PLR2004 - Go: no capacity
    ):
        msg = f"{what} is a {_kind(value)} and can't be sliced like that"
        raise Refused(msg)

    ends = [0, len(items), len(items)]
    bounds = [*numbers, *ends[len(numbers) :]]
    inside = [0, *bounds, len(items)]
    if any(each.__class__ is not int for each in bounds) or inside != sorted(inside):
        msg = f"{what} has no slice {numbers!r:.40}, only {len(items)} items or bytes"
        raise Refused(msg)

    part = items[bounds[0] : bounds[1]]
    return part.decode(errors="replace") if isinstance(part, bytes) else part


def _print(meter: Meter, _path: _Path, *arguments: Any) -> str:
    pieces: list[str] = []
    before: Any = ""
    for each in arguments:
        # Go's Sprint sets a space between two that are both no text.
        if pieces and not isinstance(before, str) and not isinstance(each, str):
            pieces.append(" ")
        pieces.append(_text(meter, each))
        before = each

    return _made(meter, "".join(pieces))


def _println(meter: Meter, _path: _Path, *arguments: Any) -> str:
    texts = [_text(meter, each) for each in arguments]
    return _made(meter, " ".join(texts) + "\n")


_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+# 0]{0,5})(?P<width>[0-9]*)(?P<precision>(?:\.[0-9]*)?)(?P<verb>.)",
    re.DOTALL,
)
_VERBS = "vTtbcdoOqxXUeEfFgGs%"
_DIGITS = 9


def _printf(meter: Meter, _path: _Path, *arguments: Any) -> str:
    if not arguments or not isinstance(arguments[0], str):
        msg = "printf takes a format, which is a text, and what it formats"
        raise Refused(msg)

    text, *values = arguments
    pieces: list[str] = []
    at = used = size = 0
    while (start := text.find("%", at)) >= 0:
        pieces.append(text[at:start])
        found = _DIRECTIVE.match(text, start)
        if found is None or found["verb"] not in _VERBS:
            msg = f"printf knows no {text[start : start + 20]!r}"
            raise Refused(msg)

        meter.step()
        at = found.end()
        if found["verb"] == "%":
            pieces.append("%")
            continue

        for number in (found["width"], found["precision"][1:]):
            wide = int(number or 0) if len(number) <= _DIGITS else 10**_DIGITS
            check_width(wide, "a width in printf")

        if used == len(values):
            msg = "printf is given fewer values than its format names"
            raise Refused(msg)

        # One directive at a time: gotpl keeps the formats it has seen, and a
        # format may be what a user said.
        if found["verb"] == "q":
            meter.step(meter.weigh(values[used]) // 10)  # one character at a time

        pieces.append(_formatted(found, values[used]))
        size += len(pieces[-1])
        meter.make(size)
        used += 1

    if used < len(values):
        msg = "printf is given more values than its format names"
        raise Refused(msg)

    return _made(meter, "".join([*pieces, text[at:]]))


def _formatted(directive: re.Match[str], value: Any) -> str:
    if value is not None:
        return sprintf(directive[0], value)

    # gotpl writes what an action would, "<no value>"; Go's printf does not.
    if directive["verb"] in "vT":
        return sprintf(f"%{directive['flags']}{directive['width']}s", "<nil>")

    return f"%!{directive['verb']}(<nil>)"


def _printable(meter: Meter, arguments: Iterable[Any]) -> str:
    """
    What is escaped: as `print` writes it, but for nil.
    """
    given = ["<no value>" if each is None else each for each in arguments]
    text = _print(meter, (), *given)
    meter.step(len(text) // 10)  # Python goes over them one by one
    return text


_HTML = str.maketrans(
    {
        "\0": "\ufffd",
        '"': "&#34;",
        "'": "&#39;",
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
    }
)

_JS = str.maketrans(
    {
        **{chr(code): f"\\u{code:04X}" for code in (*range(0x20), 0x2028, 0x2029)},
        "\\": "\\\\",
        "'": "\\'",
        '"': '\\"',
        "<": "\\u003C",
        ">": "\\u003E",
        "&": "\\u0026",
        "=": "\\u003D",
    }
)


def _html(meter: Meter, _path: _Path, *arguments: Any) -> str:
    return _made(meter, _printable(meter, arguments).translate(_HTML))


def _js(meter: Meter, _path: _Path, *arguments: Any) -> str:
    return _made(meter, _printable(meter, arguments).translate(_JS))


def _urlquery(meter: Meter, _path: _Path, *arguments: Any) -> str:
    return _made(meter, quote_plus(_printable(meter, arguments), safe=""))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "eq": _eq,
    "ge": _compared("ge", lambda left, right: left >= right),
    "gt": _compared("gt", lambda left, right: left > right),
    "html": _html,
    "index": _index,
    "js": _js,
    "le": _compared("le", lambda left, right: left <= right),
    "len": _len,
    "lt": _compared("lt", lambda left, right: left < right),
    "ne": _ne,
    "not": _not,
    "print": _print,
    "printf": _printf,
    "println": _println,
    "slice": _slice,
    "urlquery": _urlquery,
}
