"""
Jinja2's immutable sandbox with a meter.

Every filter, test, operator and call counts the size of what goes in and of
what comes out. An operation whose result may be much larger than its arguments,
or that takes longer than reading them, is checked before it runs (`_jinja_checks`).

Not available: `attr` (it was a way out of the sandbox), `lipsum` and `random`
(not reproducible), `pprint`, `striptags`, `urlize`, `wordwrap` and `xmlattr`
(their cost is not in proportion to their arguments, or they are for web pages).
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from types import BuiltinMethodType, MethodType
from typing import Any, NoReturn

from jinja2 import StrictUndefined, pass_context
from jinja2.filters import FILTERS as STANDARD_FILTERS
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import MAX_RANGE, ImmutableSandboxedEnvironment
from jinja2.tests import TESTS as STANDARD_TESTS
from jinja2.utils import Cycler, Joiner, Namespace

from conversation_state._wording import describe_type, shorten_repr, with_article
from conversation_state.templates._bounds import Meter, Missing, Refused, dotted
from conversation_state.templates._jinja_checks import CHECKS, check_bits, check_format
from conversation_state.templates._values import DocumentFields

__all__ = ["FILTER_NAMES", "GLOBALS", "TEST_NAMES", "Sandbox", "split_names"]


def split_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_FILTERS = split_names(
    "abs batch capitalize center count dictsort e escape filesizeformat first float "
    "forceescape format groupby indent int items join last length list lower map max "
    "min reject rejectattr replace reverse round safe select selectattr slice sort "
    "string sum title tojson trim truncate unique upper urlencode wordcount"
)
_TESTS = split_names(
    "!= < <= == > >= boolean divisibleby eq equalto even false float ge greaterthan gt "
    "in integer iterable le lessthan lower lt mapping ne none number odd sameas "
    "sequence string true upper"
)
# These may be given a missing value.
_DEFAULTS = frozenset({"d", "default"})
_DEFINED = frozenset({"defined", "undefined"})

FILTER_NAMES = _FILTERS | _DEFAULTS
TEST_NAMES = _TESTS | _DEFINED

_OF_MAPS = frozenset({"get", "items", "keys", "values"})
_OF_LISTS = frozenset({"count", "index"})
_METHODS: Mapping[type, frozenset[str]] = {
    str: split_names(
        "capitalize casefold count endswith find index isalnum isalpha isdecimal "
        "isdigit islower isnumeric isspace istitle isupper join lower lstrip partition "
        "removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split "
        "splitlines startswith strip swapcase title upper"
    ),
    dict: _OF_MAPS,
    DocumentFields: _OF_MAPS,
    list: _OF_LISTS,
    tuple: _OF_LISTS,
    LoopContext: split_names(
        "index index0 revindex revindex0 first last length depth depth0 previtem "
        "nextitem cycle changed"
    ),
    Cycler: frozenset({"current", "next", "reset"}),
}


class MissingValue(StrictUndefined):
    """
    The value of a missing variable; an error as soon as it is used.
    """

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = None,
        name: str | None = None,
        exc: Any = None,  # noqa: ARG002 - ours is raised
    ) -> None:
        # Jinja2 only calls *exc* with a message, and raises the result.
        raised: Any = Missing if name else Refused
        super().__init__(hint=name or hint, obj=obj, name=name, exc=raised)

    def fail(self) -> NoReturn:
        """
        Raises:
            Missing: Always, or `Refused` if it has no name.
        """
        raise self._undefined_exception(self._undefined_message)


class Sandbox(ImmutableSandboxedEnvironment):
    """
    Jinja2's sandbox, with a meter for one rendering.
    """

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])
    meter: Meter

    def __init__(self) -> None:
        super().__init__(
            # Constants would be computed while compiling, without a meter.
            optimized=False,
            undefined=MissingValue,
            autoescape=False,
            keep_trailing_newline=True,
            loader=None,
            cache_size=0,
        )
        # Templates can't ask for the rewriting's own filters: their names have
        # a space in them, and `call_filter` knows those of `_FILTERS` alone.
        self.filters = {
            **{name: _meter_standard(name, STANDARD_FILTERS) for name in _FILTERS},
            **{name: STANDARD_FILTERS[name] for name in _DEFAULTS},
            "the text": _in_sandbox(Sandbox.write_text),
            "the value": _in_sandbox(Sandbox.write_value),
            "a step": _in_sandbox(Sandbox.count_steps),
            "a loop": _in_sandbox(Sandbox.check_loop),
            "an operand": _in_sandbox(Sandbox.check_operand),
            "joined texts": _in_sandbox(Sandbox.join_texts),
            "an attribute": _in_sandbox(Sandbox.read_attribute),
            "an item": _in_sandbox(Sandbox.read_item),
        }
        self.tests = {
            **{name: _meter_standard(name, STANDARD_TESTS) for name in _TESTS},
            **{name: STANDARD_TESTS[name] for name in _DEFINED},
        }
        self.globals = {}
        self.meter = Meter()

    def measure(self, value: Any) -> int:
        """
        Count the steps of reading *value*; returns the most characters of its text.

        Raises:
            Missing: If it, or something in it, is missing.

            Refused: If it, or something in it, has no text.
        """
        if isinstance(value, MissingValue):
            value.fail()

        return self.meter.measure(value, _check_scalar)

    def charge(self, result: Any) -> Any:
        """
        The *result* of an operation as plain data; counts the steps it took.
        """
        if isinstance(result, str):
            self.meter.make(len(result))
            return str.__str__(result)  # `Markup` would escape texts joined to it

        if isinstance(result, int):
            check_bits(result.bit_length())
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

    def write_text(self, text: str) -> str:
        self.meter.write(len(text))
        return text

    def write_value(self, value: Any) -> str:
        text = value if value.__class__ is str else self.make_text(value)
        self.meter.write(len(text))
        return text

    def make_text(self, value: Any) -> str:
        self.meter.make(self.measure(value))
        return str(value)

    def join_texts(self, values: list[Any]) -> str:
        texts = [self.make_text(value) for value in values]
        self.meter.make(sum(map(len, texts)))
        return "".join(texts)

    def count_steps(self, cost: int) -> str:
        self.meter.step(cost)
        return ""

    def check_loop(self, value: Any, cost: int) -> Any:
        if isinstance(value, MissingValue):
            value.fail()

        if type(value) is Undefined:  # an `if` without `else`
            return ()

        if not isinstance(value, (str, list, tuple, dict, range)):
            kind = describe_type(value)
            raise Refused(f"{kind} can't be looped over; lists and mappings can")

        self.meter.step(1 + len(value) * (1 + cost))
        return value

    def check_operand(self, value: Any) -> Any:
        self.measure(value)
        return value

    def read_attribute(self, value: Any, name: str, path: str) -> Any:
        if name in _METHODS.get(type(value), ()):
            self.meter.step()
            return getattr(value, name)

        return self.read_item(value, name, path)

    def read_item(self, value: Any, key: Any, path: str = "") -> Any:
        """
        The item *key* of *value*, which is at *path*; `MissingValue` if missing.
        """
        self.measure(key)
        if isinstance(value, MissingValue):
            value.fail()

        if isinstance(value, dict):
            if key in value:
                return value[key]

            return MissingValue(name=dotted(path, key))

        if isinstance(value, Namespace) and isinstance(key, str) and key[:1] != "_":
            return getattr(value, key, MissingValue(name=dotted(path, key)))

        if isinstance(value, (list, tuple, str, range)):
            if isinstance(key, str) and key in getattr(value, "_fields", ()):
                return getattr(value, key)  # what `groupby` makes

            if isinstance(key, int):
                if -len(value) <= key < len(value):
                    return value[key]

                return MissingValue(name=dotted(path, key))

        kind = describe_type(value)
        shown = f"{path} is" if path else "there is"
        raise Refused(
            f"{shown} {kind}, which has no {shorten_repr(key, 40)} that templates may "
            "use"
        )

    # Filters such as `map` and `sort` call these two for an *attribute*.
    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.read_item(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self.read_item(obj, argument)

    # They call these two with the name of a filter or test, which may be any text.
    def call_filter(self, name: str, *args: Any, **kwargs: Any) -> Any:
        _check_name("filter", name, FILTER_NAMES)
        return super().call_filter(name, *args, **kwargs)

    def call_test(self, name: str, *args: Any, **kwargs: Any) -> Any:
        _check_name("test", name, TEST_NAMES)
        return super().call_test(name, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        size = 0
        if left.__class__ is not int or right.__class__ is not int:
            size = self.measure(left) + self.measure(right)

        if isinstance(left, str) and operator == "%":
            check_format(self.meter, left, right)
        elif operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, (str, list, tuple)) and isinstance(other, int):
                    self.meter.make(len(one) * max(other, 0))
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            check_bits(left.bit_length() * max(right, 0))
        else:
            self.meter.make(size)

        try:
            return self.charge(super().call_binop(context, operator, left, right))
        except TypeError as error:
            kinds = f"{describe_type(left)} and {describe_type(right)}"
            raise Refused(f"{kinds} have no {operator}; ~ joins texts") from error

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.meter.step(1 + len(args) + len(kwargs))
        if isinstance(obj, (Macro, LoopContext)):
            self.meter.enter()
            try:
                return super().call(context, obj, *args, **kwargs)
            finally:
                self.meter.leave()

        for name in ("_block_vars", "_loop_vars"):  # Jinja2's own arguments
            kwargs.pop(name, None)

        if isinstance(obj, MissingValue):
            obj.fail()

        # All that can be called came out of `_METHODS` or `GLOBALS`: variables
        # are plain data.
        if not callable(obj):
            raise Refused(f"{describe_type(obj)} can't be called")

        for value in (*args, *kwargs.values()):
            self.measure(value)

        if isinstance(obj, BuiltinMethodType):
            if obj.__name__ != "get":
                self.measure(obj.__self__)

            if isinstance(obj.__self__, str) and obj.__name__ in CHECKS:
                both = [obj.__self__, *args]
                if obj.__name__ == "join":
                    both.reverse()

                CHECKS[obj.__name__](self.meter, *both, **kwargs)

        return self.charge(obj(*args, **kwargs))


def _in_sandbox(method: Callable[..., Any]) -> Any:
    """
    A method of `Sandbox` as a filter.
    """

    # The context is passed, because calls without one are computed while compiling.
    @pass_context
    def call_method(context: Context, *args: Any) -> Any:
        return method(context.environment, *args)

    return call_method


def _check_name(kind: str, name: object, names: frozenset[str]) -> None:
    if not isinstance(name, str) or name not in names:
        raise Refused(f"there is no {kind} {shorten_repr(name, 40)} here")


def _check_scalar(value: Any) -> None:
    if isinstance(value, MissingValue):
        value.fail()

    is_undefined = type(value) is Undefined  # an `if` without `else`
    if not (value is None or is_undefined or isinstance(value, (int, float))):
        is_method = isinstance(value, (BuiltinMethodType, MethodType))
        kind = with_article("method" if is_method else type(value).__name__.lower())
        raise Refused(f"{kind} can't be written; texts, numbers and lists can")


def _meter_standard(name: str, table: Mapping[str, Any]) -> Any:
    """
    A filter or test of Jinja2 that counts its arguments and its result.
    """
    standard = table[name]
    check = CHECKS.get(name) if table is STANDARD_FILTERS else None
    wanted = getattr(getattr(standard, "jinja_pass_arg", None), "name", "")

    @pass_context
    def metered(context: Context, /, *args: Any, **kwargs: Any) -> Any:
        sandbox: Any = context.environment
        sandbox.meter.step()
        for value in (*args, *kwargs.values()):
            sandbox.measure(value)

        if check is not None:
            check(sandbox.meter, *args, **kwargs)

        first = {
            "context": (context,),
            "eval_context": (context.eval_ctx,),
            "environment": (sandbox,),
        }.get(wanted, ())
        return sandbox.charge(standard(*first, *args, **kwargs))

    return metered


def _make_range(*args: Any) -> range:
    numbers = range(*args)
    # `len` of a longer one may not even fit into an integer of C.
    if numbers and abs(numbers[-1] - numbers[0]) // abs(numbers.step) >= MAX_RANGE:
        raise Refused(f"there is no range of more than {MAX_RANGE:,} numbers")

    return numbers


GLOBALS: Mapping[str, Any] = {
    "cycler": Cycler,
    "dict": dict,
    "joiner": Joiner,
    "namespace": Namespace,
    "range": _make_range,
}
