"""
Jinja2's syntax: parsed, rewritten, compiled, and run in its immutable sandbox with a
meter.

The syntax tree may hold known kinds of nodes only. Loops, macros, comparisons and
slices, for which Jinja2 does not ask its sandbox, are rewritten so that it does.

Every filter, test, operator and call counts the size of what goes in and of what comes
out. An operation whose result may be much larger than its arguments, or that takes
longer than reading them, has a cost of its own.

Not available: `attr` (it was a way out of the sandbox), `lipsum` and `random`
(not reproducible), `pprint`, `striptags`, `urlize`, `wordwrap` and `xmlattr`
(their cost is not in proportion to their arguments, or they are for web pages).
"""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from types import BuiltinMethodType, CodeType
from typing import Any

from jinja2 import StrictUndefined, nodes, pass_context
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.exceptions import TemplateSyntaxError
from jinja2.filters import FILTERS
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.tests import TESTS
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer

from conversation_state._wording import describe_type, shorten_repr
from conversation_state.templates._values import (
    LONGEST_INTEGER_BITS,
    DocumentFields,
    Meter,
    Missing,
    Refused,
    Variables,
    dotted,
    find_path,
)

# What every text with syntax has at least one of.
MARKS = ("{{", "{%", "{#")

EXACT = False

# Compiling costs time by the node; a variable in the text is two of them.
_MAX_NODES = 5_000

# Nested expressions are several levels of the tree each.
_MAX_TREE_LEVELS = 150

# One step writes so much of the text in a loop, a macro or a captured block.
_TEXT_A_STEP = 32

_NODE_NAMES = (
    "Template Output TemplateData For If Macro CallBlock FilterBlock With Assign "
    "AssignBlock Scope Name NSRef Const Tuple List Dict Pair Keyword CondExpr "
    "Filter Test Call Getitem Getattr Slice Concat Compare Operand Mul Div "
    "FloorDiv Add Sub Mod Pow Not Neg Pos And Or"
)
_NODES = frozenset(_NODE_NAMES.split())

_FILTERS = (
    "abs batch capitalize center count dictsort e escape filesizeformat first float "
    "forceescape format groupby indent int items join last length list lower map max "
    "min reject rejectattr replace reverse round safe select selectattr slice sort "
    "string sum title tojson trim truncate unique upper urlencode wordcount"
)
_TESTS = (
    "!= < <= == > >= boolean divisibleby eq equalto even false float ge greaterthan gt "
    "in integer iterable le lessthan lower lt mapping ne none number odd sameas "
    "sequence string true upper"
)
_METHODS: Mapping[type, str] = {
    str: "capitalize casefold count endswith find index isalnum isalpha isdecimal "
    "isdigit islower isnumeric isspace istitle isupper join lower lstrip partition "
    "removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split "
    "splitlines startswith strip swapcase title upper",
    dict: "get items keys values",
    DocumentFields: "get items keys values",
    list: "count index",
    tuple: "count index",
    LoopContext: "index index0 revindex revindex0 first last length depth depth0 "
    "previtem nextitem cycle changed",
    Cycler: "current next reset",
}
GLOBALS: Mapping[str, Any] = {
    "cycler": Cycler,
    "dict": dict,
    "joiner": Joiner,
    "namespace": Namespace,
    "range": safe_range,
}


def _sum_widths(_value: Any, *args: Any, **kwargs: Any) -> int:
    given = (*args, *kwargs.values())
    return sum(abs(n) if isinstance(n, int) else len(str(n)) for n in given)


# How many characters a filter makes beyond those it reads, or what else its time grows
# with. The names of parameters are Jinja2's.
_COSTS: Mapping[str, Callable[..., int]] = {
    **dict.fromkeys(["batch", "center", "round", "slice"], _sum_widths),
    **dict.fromkeys(
        ["lstrip", "rstrip", "strip", "trim"],
        lambda value, chars="": len(str(value)) * len(str(chars)) // 100,
    ),
    "format": lambda value, *args, **kwargs: _format_size(str(value), kwargs or args),
    "indent": lambda s, *args, **kwargs: (
        (1 + len(str(s).splitlines())) * (4 + _sum_widths(s, *args, **kwargs))
    ),
    "join": lambda value, d="", **_: len(value) * len(str(d)),
    "replace": lambda s, old, new, *_, **__: str(s).count(str(old)) * len(str(new)),
    # A sum of lists takes quadratic time.
    "sum": lambda iterable, _attribute=None, start=0, **_: (
        0 if isinstance(start, (int, float)) else len(iterable) ** 2
    ),
    "tojson": lambda value, indent=0: (
        Meter().measure(value) * _sum_widths(value, indent or 0)
    ),
}
# Python processes these by character, or by a pattern.
_SLOW = frozenset({"title", "tojson", "urlencode", "wordcount"})


def _format_size(text: str, values: Any) -> int:
    if re.search(r"%[^%a-zA-Z]*\*", text):
        raise Refused("a format's width is a *; write the number")

    # Any number in the text may be a width: finding out takes a parser of formats.
    widths = sum(int(number[:9]) for number in re.findall(r"\d+", text))
    # A value of a mapping may be used as often as there are directives.
    times = text.count("%") if isinstance(values, dict) else 1
    return widths + len(text) + times * Meter().measure(values)


class MissingValue(StrictUndefined):
    """The value of a missing variable or key; an error as soon as it is used."""

    __slots__ = ()

    def __init__(
        self, hint: str | None = None, obj: Any = None, name: Any = None, **_: object
    ) -> None:
        # Jinja2 calls this with its message, and raises the result.
        def make_error(message: str | None) -> Exception:
            # With the holder of the key, from which `render_template` finds the path.
            return Refused(message) if name is None else Missing(name, obj)

        super().__init__(hint, obj, name, exc=make_error)  # type: ignore[arg-type]


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja2's sandbox, with a meter for one rendering."""

    # Jinja2 compiles all others to Python's own operators.
    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])
    meter: Meter

    def __init__(self) -> None:
        super().__init__(
            # Constants would be computed while compiling, without a meter.
            optimized=False,
            undefined=MissingValue,
            finalize=_in_sandbox(Sandbox.write),
            keep_trailing_newline=True,  # a prompt ends as it was written
            cache_size=0,  # `_compile_cached` has the code, for all syntaxes
        )
        self.filters = {
            **{name: _meter_standard(name, FILTERS[name]) for name in _FILTERS.split()},
            # These may be given a missing value.
            **{name: FILTERS[name] for name in ("d", "default")},
            # The rewriting's own, which have a space in their names: templates can
            # only name them in filters such as `map`, where they do no harm.
            "a step": _in_sandbox(Sandbox.count_steps),
            "a loop": _in_sandbox(Sandbox.check_loop),
            "an operand": _in_sandbox(Sandbox.check_operand),
            "a concat": _in_sandbox(Sandbox.join_texts),
        }
        self.tests = {
            **{name: _meter_standard(name, TESTS[name]) for name in _TESTS.split()},
            **{name: TESTS[name] for name in ("defined", "undefined")},
        }
        self.globals = {}

    def charge(self, result: Any) -> Any:
        # The *result* of an operation as plain data; counts the steps it took.
        if isinstance(result, str):
            self.meter.make(len(result))
            return str.__str__(result)  # `Markup` would escape texts joined to it

        if isinstance(result, int):
            _check_bits(result.bit_length())
        elif isinstance(result, (list, tuple)):
            self.meter.step(len(result))
        elif isinstance(result, (Iterator, KeysView, ValuesView, ItemsView)):
            # The items are read one by one, so that the limit of steps ends endless
            # iterators.
            items = []
            for item in result:
                self.meter.step()
                items.append(self.charge(item))

            return items

        return result

    def write(self, value: Any) -> str:
        if value.__class__ is not str:
            self.meter.make(self.meter.measure(value, _check_scalar))

        text = str(value)
        self.meter.write(len(text))
        return text

    def join_texts(self, values: list[Any]) -> str:
        self.meter.make(self.meter.measure(values, _check_scalar))
        return "".join(map(str, values))

    def count_steps(self, cost: int) -> str:
        self.meter.step(abs(cost))
        return ""

    def check_loop(self, value: Any, cost: int) -> Any:
        if not isinstance(value, (str, list, tuple, dict, range, Undefined)):
            kind = describe_type(value)
            raise Refused(f"{kind} can't be looped over; lists and mappings can")

        self.meter.step(1 + len(value) * (1 + abs(cost)))
        return value

    def check_operand(self, value: Any) -> Any:
        self.meter.measure(value, _check_scalar)
        return value

    def getattr(self, obj: Any, attribute: str) -> Any:
        if attribute in _METHODS.get(type(obj), "").split():
            self.meter.step()
            return getattr(obj, attribute)

        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, MissingValue):
            obj._fail_with_undefined_error()

        self.check_operand(argument)
        values: Any = obj
        is_there: Any = None
        if isinstance(obj, dict):
            is_there = argument in obj
        # A namespace has its values as attributes, beside those of its own.
        elif isinstance(obj, Namespace) and str(argument)[:1] != "_":
            return getattr(obj, argument, MissingValue(obj=obj, name=argument))
        elif isinstance(obj, (list, tuple, str, range)):
            if isinstance(argument, str) and argument in getattr(obj, "_fields", ()):
                return getattr(obj, argument)  # what `groupby` makes

            if isinstance(argument, int):
                is_there = -len(obj) <= argument < len(obj)

        if is_there is None:
            raise Refused(
                f"{describe_type(obj)} has no {shorten_repr(argument, 40)} that "
                "templates may use"
            )

        return values[argument] if is_there else MissingValue(obj=obj, name=argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        size = 0
        if left.__class__ is not int or right.__class__ is not int:
            size = sum(self.meter.measure(one, _check_scalar) for one in (left, right))

        if isinstance(left, str) and operator == "%":
            size = _format_size(left, right)
        elif operator == "*":
            for one, times in ((left, right), (right, left)):
                if isinstance(one, (str, list, tuple)) and isinstance(times, int):
                    size = len(one) * max(times, 0)
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() * max(right, 0))

        self.meter.make(size)
        return self.charge(super().call_binop(context, operator, left, right))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.meter.step(1 + len(args) + len(kwargs))
        # Their bodies count what they do; what goes in is read there, if at all.
        if isinstance(obj, (Macro, LoopContext)):
            return super().call(context, obj, *args, **kwargs)

        for name in ("_block_vars", "_loop_vars"):  # Jinja2's own arguments
            kwargs.pop(name, None)

        if isinstance(obj, MissingValue):
            obj._fail_with_undefined_error()

        # All that can be called came out of `_METHODS` or `GLOBALS`: variables
        # are plain data.
        if not callable(obj):
            raise Refused(f"{describe_type(obj)} can't be called")

        for value in (*args, *kwargs.values()):
            self.check_operand(value)

        if isinstance(obj, BuiltinMethodType):
            both = [obj.__self__, *args]
            if obj.__name__ != "get":
                self.check_operand(obj.__self__)
            if isinstance(obj.__self__, str) and obj.__name__ in _COSTS:
                both = both[::-1] if obj.__name__ == "join" else both
                self.meter.make(_COSTS[obj.__name__](*both, **kwargs))

        return self.charge(obj(*args, **kwargs))


def _in_sandbox(method: Callable[..., Any]) -> Any:
    # The context is passed, because calls without one are computed while compiling.
    return pass_context(lambda context, *args: method(context.environment, *args))


def _meter_standard(name: str, standard: Any) -> Any:
    # A filter or test of Jinja2 that counts its arguments and its result.
    cost = _COSTS.get(name, lambda *_args, **_kwargs: 0)
    wanted = getattr(getattr(standard, "jinja_pass_arg", None), "name", "")

    @pass_context
    def metered(context: Context, /, *args: Any, **kwargs: Any) -> Any:
        sandbox: Any = context.environment
        given = (*args, *kwargs.values())
        size = sum(sandbox.meter.measure(value, _check_scalar) for value in given)
        sandbox.meter.step(1 + (size // 10 if name in _SLOW else 0))
        sandbox.meter.make(cost(*args, **kwargs))
        first = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (sandbox,),
        }.get(wanted, ())
        return sandbox.charge(standard(*first, *args, **kwargs))

    return metered


def _check_bits(bits: int) -> None:
    if bits > LONGEST_INTEGER_BITS:
        raise Refused("it makes an integer of more than 3,900 digits")


def _check_scalar(value: Any) -> None:
    if isinstance(value, MissingValue):
        value._fail_with_undefined_error()

    is_undefined = type(value) is Undefined  # an `if` without `else`
    if not (value is None or is_undefined or isinstance(value, (int, float))):
        raise Refused(
            f"{describe_type(value)} can't be written; texts, numbers and lists can"
        )


_SANDBOX = Sandbox()

# Jinja2 takes both for the end of the template.
_OPEN = re.compile(r"(?:\{#|\{%[-+]?\s*raw\s*-?%\}\s*)\Z")


def compile_template(text: str) -> tuple[CodeType, frozenset[str]]:
    # The code of the template *text*, and the variables it may use.
    if _OPEN.search(text):
        raise Refused("it ends in a comment or raw block that is not closed")

    # Jinja2 makes all ends of lines alike.
    newline: Any = "\r\n" if "\r\n" in text else "\n"
    sandbox = _SANDBOX.overlay(newline_sequence=newline)
    try:
        tree = sandbox.parse(text)
        _check_tree(tree)
        names = frozenset(find_undeclared_variables(tree))
        return sandbox.compile(_TreeRewriter().visit(tree)), names
    except TemplateSyntaxError as error:
        raise Refused(f"{error.message} (line {error.lineno})") from error
    except JinjaError as error:
        raise Refused(str(error)) from error
    except SyntaxError as error:  # Python's own, of the code Jinja2 makes
        raise Refused(f"it is nested too deeply: {error.msg}") from error


def render_template(
    template: tuple[CodeType, frozenset[str]], variables: Variables, meter: Meter
) -> str:
    code, names = template
    values = {name: variables[name] for name in names if name in variables}
    # Threads share `_SANDBOX`, and each rendering counts with a meter of its own.
    sandbox: Any = _SANDBOX.overlay()
    sandbox.meter = meter
    loaded = sandbox.template_class.from_code(sandbox, code, dict(GLOBALS))
    try:
        text = "".join(loaded.root_render_func(loaded.new_context(values)))
    except Missing as missing:
        key, *holder = missing.args
        raise Missing(dotted(*find_path(values, *holder), key)) from None

    meter.make(len(text))
    return text


def _check_tree(tree: nodes.Template) -> None:
    size = 0
    for levels, level in enumerate(_iterate_levels([tree])):
        size += len(level)
        if size > _MAX_NODES:
            raise Refused(
                f"it has more than {_MAX_NODES:,} names, values, operators and tags"
            )

        if levels >= _MAX_TREE_LEVELS:
            raise Refused("it is nested too deeply")

        for node in level:
            kind = type(node).__name__
            if kind not in _NODES:
                raise Refused(f"there is no {kind.lower()} here (line {node.lineno})")


def _iterate_levels(level: list[Any]) -> Iterator[list[Any]]:
    while level:
        yield level
        level = list(chain.from_iterable(node.iter_child_nodes() for node in level))


def _filter_node(name: str, node: Any, *arguments: object) -> nodes.Filter:
    args = [nodes.Const(one) for one in arguments]
    return nodes.Filter(node, name, args, [], None, None, lineno=node.lineno)


def _count_nodes(body: list[Any]) -> int:
    # And their text, which may be in a macro or a block that is captured.
    found = [*chain.from_iterable(_iterate_levels(body))]
    texts = [node.data for node in found if isinstance(node, nodes.TemplateData)]
    return len(found) + sum(map(len, texts)) // _TEXT_A_STEP


def _count_body(node: Any, cost: int) -> None:
    step = _filter_node("a step", nodes.Const(cost, lineno=node.lineno))
    node.body.insert(0, nodes.Output([step], lineno=node.lineno))


class _TreeRewriter(NodeTransformer):
    # ruff: noqa: N802 - the names of methods are Jinja2's
    def visit_For(self, node: nodes.For) -> nodes.Node:
        # Counted before the body is rewritten, which adds nodes of ours.
        cost = _count_nodes([*node.body, *([node.test] if node.test else [])])
        self.generic_visit(node)
        node.iter = _filter_node("a loop", node.iter, cost)
        if node.recursive:  # what it calls itself with does not pass `iter`
            _count_body(node, cost)

        return node

    def visit_Macro(self, node: Any) -> Any:
        cost = _count_nodes(node.body)
        self.generic_visit(node)
        _count_body(node, cost)
        return node

    visit_CallBlock = visit_Macro  # noqa: N815 - the same

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):  # no `getitem`, but a slice of Python
            node.node = _filter_node("an operand", node.node)

        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        operands: list[Any] = [node, *node.ops]
        for operand in operands:
            operand.expr = _filter_node("an operand", operand.expr)

        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filter_node("a concat", nodes.List(node.nodes, lineno=node.lineno))
