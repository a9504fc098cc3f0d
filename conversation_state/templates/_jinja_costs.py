"""
What operators and filters of Jinja2 cost, checked before they do anything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from typing import Any, NoReturn

from jinja2 import StrictUndefined
from jinja2.runtime import Undefined

from conversation_state.templates._bounds import Meter, Missing, Refused, check_width
from conversation_state.templates._values import LONGEST_INTEGER_BITS

__all__ = [
    "Gap",
    "charged",
    "check_formatted",
    "check_indent",
    "check_join",
    "check_joined",
    "check_json",
    "check_plain",
    "check_replace",
    "check_slow",
    "check_strip",
    "check_sum",
    "check_widths",
    "computed",
    "nothing",
    "text_of",
    "used",
]


class Gap(StrictUndefined):
    """
    What stands for a variable that is not there, until somebody uses it.
    """

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = None,
        name: str | None = None,
        exc: Any = None,  # noqa: ARG002 - ours is raised
    ) -> None:
        # All that is asked of *exc* is that it makes what is raised.
        raised: Any = Missing if name else Refused
        super().__init__(hint=name or hint, obj=obj, name=name, exc=raised)

    def fail(self) -> NoReturn:
        """
        Raises:
            Missing: Always, or `Refused` if what is not there has no name.
        """
        raise self._undefined_exception(self._undefined_message)


_SCALARS = (str, int, float)


def used(meter: Meter, value: Any) -> int:
    """
    Looks at *value*, which must be there and hold nothing that is not.
    """
    if isinstance(value, Gap):
        value.fail()

    return meter.weigh(value)


def check_plain(value: Any) -> None:
    """
    Raises:
        Missing: If *value* is not there, or something in it.

        Refused: If it, or something in it, has no text.
    """
    level = [value]
    while level:
        below: list[Any] = []
        for each in level:
            if isinstance(each, (list, tuple)):
                below.extend(each)
            elif isinstance(each, dict):
                below.extend(each)
                below.extend(each.values())
            elif isinstance(each, Gap):
                each.fail()
            elif each is not None and not isinstance(each, (*_SCALARS, range)):
                word = type(each).__name__.lower()
                msg = f"a {word} can't be written; texts, numbers and lists can"
                raise Refused(msg)

        level = below


def text_of(meter: Meter, value: Any) -> str:
    """
    *value* as it is written.
    """
    if value.__class__ is str:
        meter.make(len(value))
        return value

    if type(value) is Undefined:  # an `if` without `else`
        return ""

    meter.make(used(meter, value))
    check_plain(value)
    return str(value)


# What the rewritten tree calls. Their names have a space in them, or are no
# filters of Jinja2's, so no template can ask for them.


def charged(meter: Meter, made: Any) -> Any:
    """
    What a filter or call *made*, as plain data, and paid for.
    """
    if isinstance(made, str):
        meter.make(len(made))
        return str.__str__(made)  # `Markup` would escape what it meets

    if isinstance(made, int):
        if made.bit_length() > LONGEST_INTEGER_BITS:
            raise Refused(LONG)
    elif isinstance(made, (list, tuple)):
        meter.step(len(made))
    elif isinstance(made, (Iterator, KeysView, ValuesView, ItemsView)):
        # Given one by one, and every one is a step: nothing is too long to count.
        items = []
        for item in made:
            meter.step()
            items.append(charged(meter, item))

        return items

    return made


LONG = "it makes an integer of more than 3,900 digits"


def check_join(meter: Meter, between: Any, items: Any) -> None:
    size = meter.weigh(items)
    meter.make(size + len(str(between)) * len(items))


def check_replace(meter: Meter, text: Any, old: Any, new: Any, count: Any = -1) -> None:
    text, old, new = str(text), str(old), str(new)
    found = text.count(old)
    if isinstance(count, int) and 0 <= count < found:
        found = count

    meter.make(len(text) + found * len(new))


def check_strip(meter: Meter, text: Any, chars: Any = "") -> None:
    meter.step(len(str(text)) * len(str(chars)) // 100)


def computed(meter: Meter, sign: str, left: Any, right: Any) -> Any:
    """
    What the operator *sign* makes of two values.
    """
    meter.step()
    for each in (left, right):
        if isinstance(each, Gap):
            each.fail()

    if isinstance(left, str) and sign == "%":
        _check_format(meter, left, right)
    elif isinstance(left, (str, list, tuple)) or isinstance(right, (str, list, tuple)):
        _check_sequences(meter, sign, left, right)
    else:
        _check_numbers(sign, left, right)

    return _OPERATORS[sign](left, right)


def _check_numbers(sign: str, left: Any, right: Any) -> None:
    if not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        _refuse_operands(sign, left, right)

    if isinstance(left, int) and isinstance(right, int):
        bits = max(left.bit_length(), right.bit_length())
        if sign == "**" and right > 0:
            bits = left.bit_length() * right
        elif sign == "*":
            bits = left.bit_length() + right.bit_length()

        if bits > LONGEST_INTEGER_BITS:
            raise Refused(LONG)


def _check_sequences(meter: Meter, sign: str, left: Any, right: Any) -> None:
    if sign == "+" and type(left) is type(right):
        length = len(left) + len(right)
    elif sign == "*" and isinstance(right, int):
        length = len(left) * max(right, 0)
    elif sign == "*" and isinstance(left, int):
        length = len(right) * max(left, 0)
    else:
        _refuse_operands(sign, left, right)

    meter.make(length)
    if not isinstance(left, str) and not isinstance(right, str):
        meter.step(length)


def _refuse_operands(sign: str, left: Any, right: Any) -> NoReturn:
    kinds = f"a {type(left).__name__} and a {type(right).__name__}"
    msg = f"{kinds} have no {sign}; ~ joins texts"
    raise Refused(msg)


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}

_DIRECTIVE = re.compile(
    r"%(?P<key>\([^()%]*\))?[#0\- +]*(?P<width>[0-9]+|\*)?"
    r"(?:\.(?P<precision>[0-9]+|\*)?)?"
)


def _check_format(meter: Meter, text: str, given: Any) -> None:
    """
    Raises:
        Refused: If *text* formats *given* wider than anything may be.
    """
    check_plain(given)
    size, directives = len(text), 0
    for found in _DIRECTIVE.finditer(text):
        directives += 1
        if not found["key"] and text.startswith("(", found.end()):
            msg = "a format's key has a parenthesis or % in it"
            raise Refused(msg)

        for number in (found["width"], found["precision"]):
            if number == "*":
                msg = "a format's width is a *; write the number"
                raise Refused(msg)
            if number:
                wide = int(number) if len(number) <= _DIGITS else 10**_DIGITS
                check_width(wide, "a format's width")
                size += wide

    # A value of a mapping may be asked for as often as there are directives.
    weight = meter.weigh(given)
    meter.make(size + weight * (directives if isinstance(given, dict) else 1))


_DIGITS = 9


# Filters and tests of Jinja2, each with what is to be checked of its arguments.


def check_widths(_meter: Meter, _value: Any, *others: Any, **named: Any) -> None:
    for each in (*others, *named.values()):
        if isinstance(each, int):
            check_width(each, "a number given to a filter")


def check_indent(
    meter: Meter, value: Any, width: Any = 4, *_others: Any, **_named: Any
) -> None:
    if isinstance(width, int):
        check_width(width, "the width of indent")

    text = str(value)
    wide = width if isinstance(width, int) else len(str(width))
    meter.make(len(text) + (1 + len(text.splitlines())) * max(wide, 0))


_MOST_INDENT = 16


def check_json(meter: Meter, value: Any, indent: Any = None) -> None:
    check_slow(meter, value)
    if (isinstance(indent, int) and indent > _MOST_INDENT) or isinstance(indent, str):
        msg = f"tojson indents by at most {_MOST_INDENT} spaces"
        raise Refused(msg)


def check_sum(_meter: Meter, value: Any, attribute: Any = None, start: Any = 0) -> None:
    # Adding lists up takes the square of their number.
    wrong = [] if attribute is not None else value
    for each in (start, *wrong):
        if not isinstance(each, (int, float)):
            msg = f"sum adds numbers; there is a {type(each).__name__}"
            raise Refused(msg)


def check_joined(
    meter: Meter,
    value: Any,
    d: Any = "",  # Jinja2's name
    attribute: Any = None,  # noqa: ARG001 - what it gives is smaller than what it is of
) -> None:
    check_join(meter, d, list(value) if isinstance(value, dict) else value)


def check_formatted(meter: Meter, value: Any, *args: Any, **kwargs: Any) -> None:
    if args and kwargs:
        return  # Jinja2 refuses that

    _check_format(meter, str(value), kwargs or args)


def check_slow(meter: Meter, value: Any) -> None:
    # Python goes over these one character at a time, or by a pattern.
    meter.step(meter.weigh(value) // 10)


def nothing(_meter: Meter, *_args: Any, **_kwargs: Any) -> None:
    pass
