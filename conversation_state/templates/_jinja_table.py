"""
What templates in Jinja2's syntax have: filters, tests, globals and methods,
each with its price, in a sandbox with nothing else.

Not there: `attr` (it was a way out of the sandbox), `lipsum` and `random`
(nobody can repeat what they give), `pprint`, `striptags`, `urlize`,
`wordwrap` and `xmlattr` (what they cost is not in proportion to what they are
given, or they are of use to web pages only).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import pass_context
from jinja2.filters import FILTERS as STANDARD_FILTERS
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import MAX_RANGE, ImmutableSandboxedEnvironment
from jinja2.tests import TESTS as STANDARD_TESTS
from jinja2.utils import Cycler, Joiner, Namespace

from conversation_state.templates._bounds import Meter, Refused, dotted
from conversation_state.templates._jinja_costs import (
    Gap,
    charged,
    check_formatted,
    check_indent,
    check_join,
    check_joined,
    check_json,
    check_plain,
    check_replace,
    check_slow,
    check_strip,
    check_sum,
    check_widths,
    computed,
    nothing,
    text_of,
    used,
)

__all__ = ["ASKED_FILTERS", "GLOBALS", "TESTS", "Sandbox"]


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
        return computed(self.meter, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter = self.meter
        meter.step(1 + len(args) + len(kwargs))
        if isinstance(obj, (Macro, LoopContext)):
            meter.enter()
            try:
                return super().call(context, obj, *args, **kwargs)
            finally:
                meter.leave()

        for name in ("_block_vars", "_loop_vars"):  # what Jinja2 gives its own
            kwargs.pop(name, None)

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


def _meter(context: Context) -> Meter:
    return context.environment.meter  # type: ignore[attr-defined,no-any-return]  # a Sandbox


@pass_context
def _write(context: Context, value: Any) -> str:
    meter = _meter(context)
    text = text_of(meter, value)
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
    used(_meter(context), value)
    return value


@pass_context
def _concatenate(context: Context, values: list[Any]) -> str:
    meter = _meter(context)
    texts = [text_of(meter, value) for value in values]
    meter.make(sum(map(len, texts)))
    return "".join(texts)


_LOOP = frozenset(
    [
        "index",
        "index0",
        "revindex",
        "revindex0",
        "first",
        "last",
        "length",
        "depth",
        "depth0",
        "previtem",
        "nextitem",
        "cycle",
        "changed",
    ]
)

_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        [
            "capitalize",
            "casefold",
            "count",
            "endswith",
            "find",
            "index",
            "isalnum",
            "isalpha",
            "isdecimal",
            "isdigit",
            "islower",
            "isnumeric",
            "isspace",
            "istitle",
            "isupper",
            "join",
            "lower",
            "lstrip",
            "partition",
            "removeprefix",
            "removesuffix",
            "replace",
            "rfind",
            "rindex",
            "rpartition",
            "rsplit",
            "rstrip",
            "split",
            "splitlines",
            "startswith",
            "strip",
            "swapcase",
            "title",
            "upper",
        ]
    ),
    dict: frozenset(["get", "items", "keys", "values"]),
    list: frozenset(["count", "index"]),
    tuple: frozenset(["count", "index"]),
    LoopContext: _LOOP,
    Cycler: frozenset(["current", "next", "reset"]),
}


class Method:
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
            return Method(value, name) if callable(found) else found

        return Method(value, name)

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
            return (
                value[key] if -length <= key < length else Gap(name=dotted(path, key))
            )

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
        used(meter, each)

    if isinstance(called, Method):
        made = _of_method(meter, called.of, called.name, args, kwargs)
    elif isinstance(called, Joiner) or any(called is each for each in GLOBALS.values()):
        made = called(*args, **kwargs)
    else:
        msg = f"a {type(called).__name__} can't be called"
        raise Refused(msg)

    return charged(meter, made)


def _of_method(
    meter: Meter, of: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if isinstance(of, dict) and name == "get":
        return of.get(*args, **kwargs)

    meter.weigh(of)
    if isinstance(of, str):
        if name == "join":
            check_join(meter, of, *args)
        elif name == "replace":
            check_replace(meter, of, *args)
        elif name in {"strip", "lstrip", "rstrip"}:
            check_strip(meter, of, *args)

    return getattr(of, name)(*args, **kwargs)


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


_Check = Callable[..., None]

_FILTERS: Mapping[str, _Check] = {
    "abs": nothing,
    "batch": check_widths,
    "capitalize": nothing,
    "center": check_widths,
    "count": nothing,
    "dictsort": nothing,
    "e": nothing,
    "escape": nothing,
    "filesizeformat": nothing,
    "first": nothing,
    "float": nothing,
    "forceescape": nothing,
    "format": check_formatted,
    "groupby": nothing,
    "indent": check_indent,
    "int": nothing,
    "items": nothing,
    "join": check_joined,
    "last": nothing,
    "length": nothing,
    "list": nothing,
    "lower": nothing,
    "map": nothing,
    "max": nothing,
    "min": nothing,
    "reject": nothing,
    "rejectattr": nothing,
    "replace": check_replace,
    "reverse": nothing,
    "round": check_widths,
    "safe": nothing,
    "select": nothing,
    "selectattr": nothing,
    "slice": check_widths,
    "sort": nothing,
    "string": nothing,
    "sum": check_sum,
    "title": check_slow,
    "tojson": check_json,
    "trim": check_strip,
    "truncate": nothing,
    "unique": nothing,
    "upper": nothing,
    "urlencode": check_slow,
    "wordcount": check_slow,
}

_TESTS = frozenset(
    [
        "!=",
        "<",
        "<=",
        "==",
        ">",
        ">=",
        "boolean",
        "divisibleby",
        "eq",
        "equalto",
        "even",
        "false",
        "float",
        "ge",
        "greaterthan",
        "gt",
        "in",
        "integer",
        "iterable",
        "le",
        "lessthan",
        "lower",
        "lt",
        "mapping",
        "ne",
        "none",
        "number",
        "odd",
        "sameas",
        "sequence",
        "string",
        "true",
        "upper",
    ]
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
            used(meter, each)
            check_plain(each)

        check(meter, *args, **kwargs)
        first: tuple[Any, ...] = ()
        if wanted == "context":
            first = (context,)
        elif wanted == "eval_context":
            first = (context.eval_ctx,)
        elif wanted == "environment":
            first = (context.environment,)

        return charged(meter, standard(*first, *args, **kwargs))

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
        name: _metered(STANDARD_FILTERS[name], check)
        for name, check in _FILTERS.items()
    },
    "d": _unmetered(STANDARD_FILTERS["d"]),
    "default": _unmetered(STANDARD_FILTERS["default"]),
}

FILTERS: Mapping[str, Any] = {**ASKED_FILTERS, **OUR_FILTERS}

TESTS: Mapping[str, Any] = {
    **{name: _metered(STANDARD_TESTS[name], nothing) for name in sorted(_TESTS)},
    "defined": _unmetered(STANDARD_TESTS["defined"]),
    "undefined": _unmetered(STANDARD_TESTS["undefined"]),
}


def _check_name(what: str, name: object, table: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or name not in table:
        msg = f"there is no {what} {name!r:.40} here"
        raise Refused(msg)
