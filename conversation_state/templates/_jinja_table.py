"""
The filters, tests, globals and operators that templates in Jinja2's syntax
have, each with its price.

Not there: `attr` (it was a way out of the sandbox), `lipsum` and `random`
(results that nobody can repeat), `pprint`, `striptags` and `urlize` (their
cost is not in proportion to what they are given), `safe` does nothing.
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

from jinja2 import StrictUndefined, pass_context
from jinja2.filters import FILTERS as STANDARD_FILTERS
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import MAX_RANGE, ImmutableSandboxedEnvironment
from jinja2.tests import TESTS as STANDARD_TESTS
from jinja2.utils import Cycler, Joiner, Namespace

from conversation_state.templates._bounds import (
    Meter,
    Missing,
    Refused,
    check_width,
    dotted,
)
from conversation_state.templates._values import LONGEST_INTEGER_BITS

__all__ = ["FILTERS", "GLOBALS", "OUR_FILTERS", "TESTS", "Sandbox"]


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


class Sandbox(ImmutableSandboxedEnvironment):
    """
    Jinja2's sandbox, with nothing in it but what is in our tables.
    """

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])
    meter: Meter

    def __init__(self) -> None:
        super().__init__(
            # Constants would be computed while compiling, without a meter.
            optimized=False,
            undefined=Gap,
            autoescape=False,
            keep_trailing_newline=True,
            loader=None,
            cache_size=0,
        )
        self.filters = dict(FILTERS)
        self.tests = dict(TESTS)
        self.globals = {}
        self.meter = Meter()

    def metered(self, meter: Meter) -> Sandbox:
        """
        The same for one rendering.
        """
        sandbox: Any = self.overlay()
        sandbox.meter = meter
        return sandbox  # type: ignore[no-any-return]  # of our class

    def call_binop(
        self,
        context: Context,  # noqa: ARG002 - theirs
        operator: str,
        left: Any,
        right: Any,
    ) -> Any:
        return _computed(self.meter, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter = self.meter
        meter.step(1 + len(args) + len(kwargs))
        if isinstance(obj, (Macro, LoopContext)):
            meter.enter()
            try:
                return super().call(context, obj, *args, **kwargs)
            finally:
                meter.leave()

        return _called(meter, obj, args, kwargs)

    # `map`, `select` and so on ask by name, which may be any text.
    def call_filter(self, name: str, *args: Any, **kwargs: Any) -> Any:
        _check_name("filter", name, ASKED_FILTERS)
        return super().call_filter(name, *args, **kwargs)

    def call_test(self, name: str, *args: Any, **kwargs: Any) -> Any:
        _check_name("test", name, TESTS)
        return super().call_test(name, *args, **kwargs)

    # Only filters ask these two: `map`, `sort` and so on, for an *attribute*.
    def getattr(self, obj: Any, attribute: str) -> Any:
        return _item(self.meter, obj, attribute, "")

    def getitem(self, obj: Any, argument: Any) -> Any:
        return _item(self.meter, obj, argument, "")

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ARG002 - theirs
        return False


_SCALARS = (str, int, float)


def _meter(context: Context) -> Meter:
    return context.environment.meter  # type: ignore[attr-defined,no-any-return]  # a Sandbox


def _used(meter: Meter, value: Any) -> int:
    """
    Looks at *value*, which must be there and hold nothing that is not.
    """
    if isinstance(value, Gap):
        value.fail()

    return meter.weigh(value)


def _check_plain(value: Any) -> None:
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


def _text(meter: Meter, value: Any) -> str:
    """
    *value* as it is written.
    """
    if value.__class__ is str:
        meter.make(len(value))
        return value  # type: ignore[no-any-return]  # just asked

    if type(value) is Undefined:  # an `if` without `else`
        return ""

    meter.make(_used(meter, value))
    _check_plain(value)
    return str(value)


# What the rewritten tree calls. Their names have a space in them, or are no
# filters of Jinja2's, so no template can ask for them.


@pass_context
def _write(context: Context, value: Any) -> str:
    meter = _meter(context)
    text = _text(meter, value)
    meter.write(len(text))
    return text


@pass_context
def _write_text(context: Context, text: str) -> str:
    _meter(context).write(len(text))
    return text


@pass_context
def _step(context: Context, cost: int) -> str:
    _meter(context).step(cost)
    return ""


@pass_context
def _loop(context: Context, value: Any, cost: int) -> Any:
    meter = _meter(context)
    if isinstance(value, Gap):
        value.fail()

    if isinstance(value, (str, list, tuple, dict, range)):
        meter.step(1 + len(value) * (1 + cost))
    elif type(value) is Undefined:  # an `if` without `else`
        return ()
    else:
        msg = f"a {type(value).__name__} can't be looped over; lists and mappings can"
        raise Refused(msg)

    return value


@pass_context
def _operand(context: Context, value: Any) -> Any:
    _used(_meter(context), value)
    return value


@pass_context
def _concatenate(context: Context, values: list[Any]) -> str:
    meter = _meter(context)
    texts = [_text(meter, value) for value in values]
    meter.make(sum(map(len, texts)))
    return "".join(texts)


_LOOP = frozenset(
    "index index0 revindex revindex0 first last length depth depth0 previtem nextitem "
    "cycle changed".split()
)

_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        "capitalize casefold count endswith find index isalnum isalpha isdecimal isdigit "
        "islower isnumeric isspace istitle isupper join lower lstrip partition "
        "removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split "
        "splitlines startswith strip swapcase title upper".split()
    ),
    dict: frozenset(["get", "items", "keys", "values"]),
    list: frozenset(["count", "index"]),
    tuple: frozenset(["count", "index"]),
    LoopContext: _LOOP,
    Cycler: frozenset(["current", "next", "reset"]),
}


class _Method:
    """
    A method of a value, to be called and nothing else.
    """

    __slots__ = ("name", "of")

    def __init__(self, of: Any, name: str) -> None:
        self.of = of
        self.name = name


@pass_context
def _attribute(context: Context, value: Any, name: str, path: str) -> Any:
    meter = _meter(context)
    meter.step()
    if isinstance(value, Gap):
        value.fail()

    if name in _METHODS.get(type(value), ()):
        if isinstance(value, (LoopContext, Cycler)):
            found = getattr(value, name)
            return _Method(value, name) if callable(found) else found

        return _Method(value, name)

    return _item(meter, value, name, path)


@pass_context
def _item_of(context: Context, value: Any, key: Any, path: str) -> Any:
    return _item(_meter(context), value, key, path)


def _item(meter: Meter, value: Any, key: Any, path: str) -> Any:
    for each in (value, key):
        if isinstance(each, Gap):
            each.fail()

    meter.weigh(key)
    if isinstance(value, dict):
        return value[key] if key in value else Gap(name=dotted(path, key))

    if isinstance(value, Namespace):
        if isinstance(key, str) and not key.startswith("_"):
            return getattr(value, key, Gap(name=dotted(path, key)))
    elif isinstance(value, (list, tuple, str, range)):
        if isinstance(key, str) and key in getattr(value, "_fields", ()):
            return getattr(value, key)  # what `groupby` makes
        if isinstance(key, int):
            length = len(value)
            return value[key] if -length <= key < length else Gap(name=dotted(path, key))

    kind = type(value).__name__
    shown = f"{path} is" if path else "there is"
    msg = f"{shown} a {kind}, which has no {key!r:.40} that templates may use"
    raise Refused(msg)


def _called(
    meter: Meter, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if isinstance(called, Gap):
        called.fail()

    for each in (*args, *kwargs.values()):
        _used(meter, each)

    if isinstance(called, _Method):
        made = _of_method(meter, called.of, called.name, args, kwargs)
    elif isinstance(called, Joiner) or any(called is each for each in GLOBALS.values()):
        made = called(*args, **kwargs)
    else:
        msg = f"a {type(called).__name__} can't be called"
        raise Refused(msg)

    return _charged(meter, made)


def _of_method(
    meter: Meter, of: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if isinstance(of, dict) and name == "get":
        return of.get(*args, **kwargs)

    meter.weigh(of)
    if isinstance(of, str):
        if name == "join":
            _check_join(meter, of, *args)
        elif name == "replace":
            _check_replace(meter, of, *args)
        elif name in {"strip", "lstrip", "rstrip"}:
            _check_strip(meter, of, *args)

    return getattr(of, name)(*args, **kwargs)


def _charged(meter: Meter, made: Any) -> Any:
    """
    What a filter or call *made*, as plain data, and paid for.
    """
    if isinstance(made, str):
        meter.make(len(made))
        return str.__str__(made)  # `Markup` would escape what it meets

    if isinstance(made, int):
        if made.bit_length() > LONGEST_INTEGER_BITS:
            raise Refused(_LONG)
    elif isinstance(made, (list, tuple)):
        meter.step(len(made))
    elif isinstance(made, (Iterator, KeysView, ValuesView, ItemsView)):
        # Given one by one, and every one is a step: nothing is too long to count.
        items = []
        for item in made:
            meter.step()
            items.append(_charged(meter, item))

        return items

    return made


_LONG = "it makes an integer of more than 3,900 digits"


def _check_join(meter: Meter, between: Any, items: Any, *_others: Any) -> None:
    size = meter.weigh(items)
    meter.make(size + len(str(between)) * len(items))


def _check_replace(
    meter: Meter, text: Any, old: Any, new: Any, count: Any = -1, *_others: Any
) -> None:
    text, old, new = str(text), str(old), str(new)
    found = text.count(old)
    if isinstance(count, int) and 0 <= count < found:
        found = count

    meter.make(len(text) + found * len(new))


def _check_strip(meter: Meter, text: Any, chars: Any = "", *_others: Any) -> None:
    meter.step(len(str(text)) * len(str(chars)) // 100)


def _range(*args: Any) -> range:
    numbers = range(*args)
    # The length of a longer one may not even fit into what `len` gives.
    if numbers and abs(numbers[-1] - numbers[0]) // abs(numbers.step) >= MAX_RANGE:
        msg = f"there is no range of more than {MAX_RANGE:,} numbers"
        raise Refused(msg)

    return numbers


GLOBALS: Mapping[str, Any] = {
    "cycler": Cycler,
    "dict": dict,
    "joiner": Joiner,
    "namespace": Namespace,
    "range": _range,
}


def _computed(meter: Meter, sign: str, left: Any, right: Any) -> Any:
    for each in (left, right):
        if isinstance(each, Gap):
            each.fail()
        if isinstance(each, int) and each.bit_length() > LONGEST_INTEGER_BITS:
            raise Refused(_LONG)

    meter.step()
    if isinstance(left, str) and sign == "%":
        _check_format(meter, left, right)
    elif isinstance(left, (str, list, tuple)) or isinstance(right, (str, list, tuple)):
        _check_sequences(meter, sign, left, right)
    elif not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        _refuse_operands(sign, left, right)
    elif isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length()
        if sign == "**" and right > 0:
            bits *= right
        elif sign == "*":
            bits += right.bit_length()
        if bits > LONGEST_INTEGER_BITS:
            raise Refused(_LONG)

    return _OPERATORS[sign](left, right)


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
    r"%(?P<key>\([^()%]*\))?[#0\- +]*(?P<width>[0-9]+|\*)?(?:\.(?P<precision>[0-9]+|\*)?)?"
)


def _check_format(meter: Meter, text: str, given: Any) -> None:
    """
    Raises:
        Refused: If *text* formats *given* wider than anything may be.
    """
    _check_plain(given)
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


def _check_widths(_meter: Meter, _value: Any, *others: Any) -> None:
    for each in others:
        if isinstance(each, int):
            check_width(each, "a number given to a filter")


def _check_indent(meter: Meter, value: Any, width: Any = 4, *_others: Any) -> None:
    if isinstance(width, int):
        check_width(width, "the width of indent")

    text = str(value)
    wide = width if isinstance(width, int) else len(str(width))
    meter.make(len(text) + (1 + len(text.splitlines())) * max(wide, 0))


_MOST_INDENT = 16


def _check_json(meter: Meter, value: Any, indent: Any = None) -> None:
    _check_slow(meter, value)
    if isinstance(indent, int) and indent > _MOST_INDENT or isinstance(indent, str):
        msg = f"tojson indents by at most {_MOST_INDENT} spaces"
        raise Refused(msg)


def _check_sum(_meter: Meter, value: Any, attribute: Any = None, start: Any = 0) -> None:
    # Adding lists up takes the square of their number.
    wrong = [] if attribute is not None else value
    for each in (start, *wrong):
        if not isinstance(each, (int, float)):
            msg = f"sum adds numbers; there is a {type(each).__name__}"
            raise Refused(msg)


def _check_joined(meter: Meter, value: Any, between: Any = "", *others: Any) -> None:
    items = list(value) if isinstance(value, (str, dict)) else value
    _check_join(meter, between, items, *others)


def _check_formatted(meter: Meter, value: Any, *args: Any, **kwargs: Any) -> None:
    if args and kwargs:
        return  # Jinja2 refuses that

    _check_format(meter, str(value), kwargs or args)


def _check_slow(meter: Meter, value: Any, *_others: Any) -> None:
    # Python goes over these one character at a time, or by a pattern.
    meter.step(meter.weigh(value) // 10)


def _nothing(_meter: Meter, *_args: Any, **_kwargs: Any) -> None:
    pass


_Check = Callable[..., None]

_FILTERS: Mapping[str, _Check] = {
    "abs": _nothing,
    "batch": _check_widths,
    "capitalize": _nothing,
    "center": _check_widths,
    "count": _nothing,
    "dictsort": _nothing,
    "e": _nothing,
    "escape": _nothing,
    "filesizeformat": _nothing,
    "first": _nothing,
    "float": _nothing,
    "forceescape": _nothing,
    "format": _check_formatted,
    "groupby": _nothing,
    "indent": _check_indent,
    "int": _nothing,
    "items": _nothing,
    "join": _check_joined,
    "last": _nothing,
    "length": _nothing,
    "list": _nothing,
    "lower": _nothing,
    "map": _nothing,
    "max": _nothing,
    "min": _nothing,
    "reject": _nothing,
    "rejectattr": _nothing,
    "replace": _check_replace,
    "reverse": _nothing,
    "round": _check_widths,
    "safe": _nothing,
    "select": _nothing,
    "selectattr": _nothing,
    "slice": _check_widths,
    "sort": _nothing,
    "string": _nothing,
    "sum": _check_sum,
    "title": _check_slow,
    "tojson": _check_json,
    "trim": _check_strip,
    "truncate": _nothing,
    "unique": _nothing,
    "upper": _nothing,
    "urlencode": _check_slow,
    "wordcount": _check_slow,
}

_TESTS = frozenset(
    "!= < <= == > >= boolean divisibleby eq equalto even false float ge greaterthan gt in "
    "integer iterable le lessthan lower lt mapping ne none number odd sameas sequence "
    "string true upper".split()
)


def _metered(standard: Any, check: _Check) -> Any:
    """
    A filter or test of Jinja2, which looks at what it is given first.
    """
    wanted = getattr(getattr(standard, "jinja_pass_arg", None), "name", "")

    @pass_context
    def metered(context: Context, /, *args: Any, **kwargs: Any) -> Any:
        meter = _meter(context)
        meter.step()
        for each in (*args, *kwargs.values()):
            _used(meter, each)
            _check_plain(each)

        check(meter, *args, **kwargs)
        first: tuple[Any, ...] = ()
        if wanted == "context":
            first = (context,)
        elif wanted == "eval_context":
            first = (context.eval_ctx,)
        elif wanted == "environment":
            first = (context.environment,)

        return _charged(meter, standard(*first, *args, **kwargs))

    return metered


def _unmetered(standard: Any) -> Any:
    """
    A filter or test of Jinja2 that asks whether something is there at all.
    """

    @pass_context
    def unmetered(context: Context, /, *args: Any, **kwargs: Any) -> Any:
        _meter(context).step()
        return standard(*args, **kwargs)

    return unmetered


OUR_FILTERS: Mapping[str, Any] = {
    "attribute": _attribute,
    "concatenate": _concatenate,
    "item": _item_of,
    "loop": _loop,
    "operand": _operand,
    "step": _step,
    "write": _write,
    "write text": _write_text,
}

ASKED_FILTERS: Mapping[str, Any] = {
    **{
        name: _metered(STANDARD_FILTERS[name], check) for name, check in _FILTERS.items()
    },
    "d": _unmetered(STANDARD_FILTERS["d"]),
    "default": _unmetered(STANDARD_FILTERS["default"]),
}

FILTERS: Mapping[str, Any] = {**ASKED_FILTERS, **OUR_FILTERS}

TESTS: Mapping[str, Any] = {
    **{name: _metered(STANDARD_TESTS[name], _nothing) for name in sorted(_TESTS)},
    "defined": _unmetered(STANDARD_TESTS["defined"]),
    "undefined": _unmetered(STANDARD_TESTS["undefined"]),
}


def _check_name(what: str, name: object, table: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or name not in table:
        msg = f"there is no {what} {name!r:.40} here"
        raise Refused(msg)
