"""
Operations of Jinja2 whose result may be much larger than their arguments, or that
take longer than reading them: checked before they run.

The names of parameters are Jinja2's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from conversation_state._wording import describe_type
from conversation_state.templates._bounds import Meter, Refused, check_width
from conversation_state.templates._values import LONGEST_INTEGER_BITS

__all__ = ["CHECKS", "check_bits", "check_format"]


def check_bits(bits: int) -> None:
    if bits > LONGEST_INTEGER_BITS:
        raise Refused("it makes an integer of more than 3,900 digits")


def _check_join(meter: Meter, value: Any, d: Any = "", attribute: Any = None) -> None:
    del attribute  # an attribute of an item is smaller than the item
    meter.make(meter.measure(value) + len(str(d)) * len(value))


def _check_replace(meter: Meter, s: Any, old: Any, new: Any, count: Any = -1) -> None:
    s, old, new = str(s), str(old), str(new)
    found = s.count(old)
    if isinstance(count, int) and 0 <= count < found:
        found = count

    meter.make(len(s) + found * len(new))


def _check_strip(meter: Meter, value: Any, chars: Any = "") -> None:
    meter.step(len(str(value)) * len(str(chars)) // 100)


def _check_slow(meter: Meter, value: Any) -> None:
    # Python processes these by character, or by a pattern.
    meter.step(meter.measure(value) // 10)


def _check_widths(_meter: Meter, _value: Any, *args: Any, **kwargs: Any) -> None:
    for number in (*args, *kwargs.values()):
        if isinstance(number, int):
            check_width(number, "a number given to a filter")


def _check_indent(
    meter: Meter, s: Any, width: Any = 4, *_args: Any, **_kwargs: Any
) -> None:
    if isinstance(width, int):
        check_width(width, "the width of indent")

    text = str(s)
    wide = width if isinstance(width, int) else len(str(width))
    meter.make(len(text) + (1 + len(text.splitlines())) * max(wide, 0))


_MAX_INDENT = 16


def _check_json(meter: Meter, value: Any, indent: Any = None) -> None:
    _check_slow(meter, value)
    if (isinstance(indent, int) and indent > _MAX_INDENT) or isinstance(indent, str):
        raise Refused(f"tojson indents by at most {_MAX_INDENT} spaces")


def _check_sum(
    _meter: Meter, iterable: Any, attribute: Any = None, start: Any = 0
) -> None:
    # The sum of lists takes quadratic time.
    for value in (start, *([] if attribute is not None else iterable)):
        if not isinstance(value, (int, float)):
            raise Refused(f"sum adds numbers; there is {describe_type(value)}")


_DIRECTIVE = re.compile(
    r"%(?P<key>\([^()%]*\))?[#0\- +]*(?P<width>[0-9]+|\*)?"
    r"(?:\.(?P<precision>[0-9]+|\*)?)?"
)
_DIGITS = 9


def check_format(meter: Meter, text: str, values: Any) -> None:
    size, directives = len(text), 0
    for found in _DIRECTIVE.finditer(text):
        directives += 1
        if not found["key"] and text.startswith("(", found.end()):
            raise Refused("a format's key has a parenthesis or % in it")

        for number in (found["width"], found["precision"]):
            if number == "*":
                raise Refused("a format's width is a *; write the number")

            if number:
                wide = int(number) if len(number) <= _DIGITS else 10**_DIGITS
                check_width(wide, "a format's width")
                size += wide

    # A value of a mapping may be used as often as there are directives.
    times = directives if isinstance(values, dict) else 1
    meter.make(size + meter.measure(values) * times)


def _check_format_filter(meter: Meter, value: Any, *args: Any, **kwargs: Any) -> None:
    check_format(meter, str(value), kwargs or args)


CHECKS: Mapping[str, Callable[..., None]] = {
    "format": _check_format_filter,
    "indent": _check_indent,
    "join": _check_join,
    "replace": _check_replace,
    "sum": _check_sum,
    "tojson": _check_json,
    **dict.fromkeys(["batch", "center", "round", "slice"], _check_widths),
    **dict.fromkeys(["lstrip", "rstrip", "strip", "trim"], _check_strip),
    **dict.fromkeys(["title", "urlencode", "wordcount"], _check_slow),
}
