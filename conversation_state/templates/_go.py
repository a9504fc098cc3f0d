"""
Go's syntax, as far as prompts use it: texts with fields, `if`, `range`, `with`
and comparisons.

gotpl parses, this module runs: gotpl's own machine doesn't count what a step
costs, and doesn't report which key is missing where. Values are plain data, so
there is nothing to call, and fields are keys. As in the other syntaxes, a key
that is missing is an error, in `index` too.

Not available: `define`, `template` and `block`, variables but those of `range`,
`break` and `continue`, numbers that are not decimal, and the functions that format,
slice or escape.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from gotpl.errors import TemplateError as GoError
from gotpl.parse.nodes import (
    ActionNode,
    BoolNode,
    CommandNode,
    DotNode,
    FieldNode,
    IdentifierNode,
    IfNode,
    ListNode,
    NilNode,
    ParenthesizedNode,
    PipeNode,
    RangeNode,
    StringNode,
    TextNode,
    VariableNode,
    WithNode,
)
from gotpl.parse.parser import ParserLimits, parse_template
from gotpl.runtime.gofmt import sprintf

from conversation_state._wording import describe_type
from conversation_state.templates._values import (
    MAX_DEPTH,
    MAX_TEMPLATE_CHARACTERS,
    DocumentFields,
    Meter,
    Missing,
    Refused,
    Variables,
    dotted_path,
)

# What every text with syntax has at least one of.
MARKS = ("{{",)

EXACT = False

_POSITION = re.compile(r"template:([0-9]+):([0-9]+): (.*)", re.DOTALL)

# UTF-8 has up to four bytes a character.
_LIMITS = ParserLimits(
    max_source_bytes=4 * MAX_TEMPLATE_CHARACTERS, max_nesting=MAX_DEPTH
)


def compile_template(text: str) -> ListNode:
    try:
        parsed = parse_template(text, limits=_LIMITS)
    except GoError as error:
        raise Refused(_POSITION.sub(r"\3 (line \1)", str(error))) from error

    if parsed.definitions:
        raise Refused("there are no definitions, templates and blocks here")

    return parsed.root


def render_template(template: ListNode, variables: Variables, meter: Meter) -> str:
    top = PathValue(variables)
    renderer = _Renderer(meter, top)
    renderer.write_list(template, top)
    return "".join(renderer.texts)


class PathValue(NamedTuple):
    value: Any
    path: tuple[Any, ...] = ()  # as `dotted_path` takes it


_NO_VALUE: Any = object()

# Steps for going on to the next item of a range.
_ITEM_STEPS = 3


class _Renderer:
    def __init__(self, meter: Meter, top: PathValue) -> None:
        self.texts: list[str] = []
        self._meter = meter
        # What `$name` stands for.
        self._variables: dict[str, PathValue] = {"$": top}

    def write_list(self, body: ListNode, dot: PathValue) -> None:
        for node in body.nodes:
            self._meter.step()
            if isinstance(node, TextNode):
                self._write_text(node.text)
            elif isinstance(node, ActionNode):
                value = self._read_pipe(node.pipeline, dot).value
                self._write_text(
                    "<no value>" if value is None else self._make_text(value)
                )
            elif isinstance(node, (IfNode, WithNode)):
                self._write_branch(node, dot)
            elif isinstance(node, RangeNode):
                self._write_range(node, dot)
            else:
                kind = type(node).__name__.removesuffix("Node").removesuffix("Call")
                raise Refused(f"there is no {kind.lower()} here")

    def _write_text(self, text: str) -> None:
        self._meter.write(len(text))
        self.texts.append(text)

    def _make_text(self, value: Any) -> str:
        if value.__class__ is str:
            return value

        self._meter.make(self._meter.measure(value))
        return _format_value(value)

    def _write_branch(self, node: IfNode | WithNode, dot: PathValue) -> None:
        found = self._read_pipe(node.pipeline, dot)
        if found.value:
            self.write_list(node.body, found if isinstance(node, WithNode) else dot)
        elif node.else_body is not None:
            self.write_list(node.else_body, dot)

    def _write_range(self, node: RangeNode, dot: PathValue) -> None:
        names = [variable.name for variable in node.pipeline.declarations]
        found = self._read_pipe(node.pipeline, dot, is_range=True)
        outer, is_empty = self._variables, True
        for key, value in self._list_pairs(found.value, len(names)):
            is_empty = False
            self._meter.step(_ITEM_STEPS)
            item = PathValue(value, (found.path, key))
            items = [item] if len(names) == 1 else [PathValue(key), item]
            self._variables = {**outer, **dict(zip(names, items, strict=False))}
            self.write_list(node.body, item)

        # Go's scopes: what a range declares ends with it.
        self._variables = outer
        if is_empty and node.else_body is not None:
            self.write_list(node.else_body, dot)

    def _list_pairs(self, value: Any, names: int) -> Iterable[tuple[Any, Any]]:
        if value is None:
            return ()

        if isinstance(value, dict):
            self._meter.step(len(value))
            return sorted(value.items(), key=_key_order)

        if isinstance(value, list):
            return enumerate(value)

        if isinstance(value, int) and not isinstance(value, bool):
            if names <= 1:
                return ((number, number) for number in range(value))

            raise Refused(f"range over {value} gives one value at a time, not two")

        raise Refused(f"range can't go over {describe_type(value)}")

    def _read_pipe(
        self, pipe: PipeNode, dot: PathValue, *, is_range: bool = False
    ) -> PathValue:
        if pipe.declarations and (not is_range or pipe.is_assignment):
            raise Refused("there are no variables here but those of range")

        found, piped = PathValue(None), _NO_VALUE
        for command in pipe.commands:
            found = self._read_command(command, dot, piped)
            piped = found.value

        # The dot of all variables is made into a map only where it is used as one:
        # those that a template does not name may be anything.
        if isinstance(found.value, Variables):
            return PathValue(found.value.all(), found.path)

        return found

    def _read_command(
        self, command: CommandNode, dot: PathValue, piped: Any
    ) -> PathValue:
        first, *others = command.arguments
        self._meter.step(len(command.arguments))
        if isinstance(first, IdentifierNode):
            return self._call_function(first.name, others, dot, piped)

        if others or piped is not _NO_VALUE:
            raise Refused("a value that is no function is given arguments")

        if isinstance(first, NilNode):
            raise Refused("nil is not a command")

        return self._read_term(first, dot)

    def _read_term(self, term: Any, dot: PathValue) -> PathValue:
        if isinstance(term, DotNode):
            return dot

        if isinstance(term, FieldNode):
            return self._read_fields(dot, term.fields)

        if isinstance(term, VariableNode):
            return self._read_fields(self._variables[term.name], term.fields)

        if isinstance(term, ParenthesizedNode):
            return self._read_fields(self._read_pipe(term.pipeline, dot), term.fields)

        if isinstance(term, IdentifierNode):
            return self._call_function(term.name, [], dot, _NO_VALUE)

        return PathValue(_read_constant(term))

    def _read_fields(self, found: PathValue, fields: tuple[str, ...]) -> PathValue:
        for field in fields:
            self._meter.step()
            value, path = found.value, (found.path, field)
            if not isinstance(value, (dict, Variables)):
                before = dotted_path(found.path) or "what is before it"
                raise Refused(f"there is no {dotted_path(path)}: {before} is no map")

            if field not in value:
                raise Missing(dotted_path(path))

            found = PathValue(value[field], path)

        return found

    def _call_function(
        self, name: str, terms: list[Any], dot: PathValue, piped: Any
    ) -> PathValue:
        self._meter.step()
        if name in {"and", "or"}:
            return self._read_logical(name, terms, dot, piped)

        if name not in _FUNCTIONS:
            raise Refused(f"there is no function {name!r} here")

        found = [self._read_term(term, dot) for term in terms]
        if piped is not _NO_VALUE:
            found.append(PathValue(piped))

        arguments = [
            each.value.all() if isinstance(each.value, Variables) else each.value
            for each in found
        ]
        # Comparing and indexing read no more than all of their arguments.
        self._meter.measure(arguments)
        function, least, most = _FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            wanted = f"{least}" if least == most else f"at least {least}"
            raise Refused(f"{name} takes {wanted} values; it is given {len(arguments)}")

        return PathValue(function(found[0].path, *arguments))

    def _read_logical(
        self, name: str, terms: list[Any], dot: PathValue, piped: Any
    ) -> PathValue:
        found = PathValue(None)
        for term in terms:
            found = self._read_term(term, dot)
            if bool(found.value) is (name == "or"):
                return found

        if piped is not _NO_VALUE:
            return PathValue(piped)

        if not terms:
            raise Refused(f"{name} needs a value")

        return found


# Go writes and ranges over maps in the order of their keys, and has no maps whose keys
# are of two types: integers come first.
def _key_order(pair: tuple[str | int, Any]) -> tuple[bool, str | int]:
    return isinstance(pair[0], str), pair[0]


def _format_value(value: Any) -> str:
    """*value* as Go's ``%v`` writes it."""
    if isinstance(value, (str, DocumentFields)):
        return str(value)

    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]

    if isinstance(value, float):
        return sprintf("%v", value)

    if isinstance(value, dict):
        pairs = sorted(value.items(), key=_key_order)
        texts = [f"{key}:{_format_value(below)}" for key, below in pairs]
        return f"map[{' '.join(texts)}]"

    if isinstance(value, list):
        return f"[{' '.join(map(_format_value, value))}]"

    return str(value)


def _read_constant(term: Any) -> Any:
    if isinstance(term, (StringNode, BoolNode)):
        return term.value

    if isinstance(term, NilNode):
        return None

    text = getattr(term, "text", "")
    with suppress(ValueError):
        return int(text, 0)  # refuses "010", which is 8 in Go

    if "." in text or "e" in text:
        with suppress(ValueError):
            return float(text)

    raise Refused(f"{text} is no number here; write a decimal one")


def _check_comparable(left: Any, right: Any, kinds: tuple[type, ...]) -> None:
    # By class: in Python truth is a number, and numbers of two kinds compare.
    if left.__class__ is not right.__class__ or left.__class__ not in kinds:
        both = f"{describe_type(left)} and {describe_type(right)}"
        raise Refused(f"{both} can't be compared")


def _equals_any(_path: tuple[Any, ...], first: Any, *others: Any) -> bool:
    for other in others:
        if first is not None and other is not None:
            _check_comparable(first, other, (bool, int, float, str))

        if first == other:
            return True

    return False


def _order_by(compare: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    def is_in_order(_path: tuple[Any, ...], left: Any, right: Any) -> bool:
        _check_comparable(left, right, (int, float, str))
        return compare(left, right)

    return is_in_order


def _count_items(path: tuple[Any, ...], value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())  # in bytes of UTF-8, as in Go

    if isinstance(value, (list, dict)):
        return len(value)

    name = dotted_path(path) or "what len is given"
    raise Refused(f"{name} is {describe_type(value)} and has no length")


def _read_index(path: tuple[Any, ...], value: Any, *keys: Any) -> Any:
    for key in keys:
        if not isinstance(value, (dict, list)):
            name = dotted_path(path) or "what index is given"
            raise Refused(f"{name} is {describe_type(value)} and has no keys")

        if isinstance(value, dict):
            if key.__class__ not in {str, int}:
                raise Refused(f"{describe_type(key)} is not a key of a map")

            is_there = key in value
        else:
            if key.__class__ is not int:
                raise Refused(f"{describe_type(key)} is not a position in a list")

            is_there = 0 <= key < len(value)

        path = (path, key)
        if not is_there:
            raise Missing(dotted_path(path))

        value = value[key]

    return value


_MANY = 1_000_000
# Each with how many arguments it takes, at least and at most.
_FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int, int]] = {
    "eq": (_equals_any, 2, _MANY),
    "ne": (lambda path, left, right: not _equals_any(path, left, right), 2, 2),
    "lt": (_order_by(operator.lt), 2, 2),
    "le": (_order_by(operator.le), 2, 2),
    "gt": (_order_by(operator.gt), 2, 2),
    "ge": (_order_by(operator.ge), 2, 2),
    "not": (lambda _path, value: not value, 1, 1),
    "len": (_count_items, 1, 1),
    "index": (_read_index, 1, _MANY),
}
