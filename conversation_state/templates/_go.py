"""
Go's syntax: `text/template` with its standard functions and no others.

Read by gotpl, run here. Its own machine counts neither calls of templates nor
what a step costs, and does not say which key is missing where; its parser is
what there is best for Python, and walking its trees is not much.

Values are plain data, so there is nothing to call and there are no fields but
keys. What is strict in all syntaxes is strict here: a key that is missing is
an error, in `index` too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gotpl.errors import TemplateError as GoError
from gotpl.parse.nodes import (
    ActionNode,
    BlockNode,
    BoolNode,
    BreakNode,
    CharacterNode,
    CommandNode,
    DotNode,
    FieldNode,
    IdentifierNode,
    IfNode,
    ListNode,
    NilNode,
    NumberNode,
    ParenthesizedNode,
    PipeNode,
    RangeNode,
    StringNode,
    TemplateCallNode,
    TextNode,
    VariableNode,
    WithNode,
)
from gotpl.parse.parser import ParserLimits, parse_template

from conversation_state.templates._bounds import (
    MOST_DEPTH,
    MOST_TEMPLATE_CHARACTERS,
    Meter,
    Missing,
    Refused,
)
from conversation_state.templates._go_functions import FUNCTIONS, is_true, named, shown
from conversation_state.templates._values import Variables

__all__ = ["EXACT", "MARKS", "compiled", "written"]

# What every text with syntax has at least one of.
MARKS = ("{{",)

EXACT = False

_PLACE = re.compile(r"template:([0-9]+):([0-9]+): (.*)", re.DOTALL)

# UTF-8 has up to four bytes a character.
_LIMITS = ParserLimits(
    max_source_bytes=4 * MOST_TEMPLATE_CHARACTERS, max_nesting=MOST_DEPTH
)


class Compiled(NamedTuple):
    """
    A template's tree, and the trees it defines, by name.
    """

    root: ListNode
    definitions: Mapping[str, ListNode]


def compiled(text: str) -> Compiled:
    """
    What *text* says.

    Raises:
        Refused: If it is no template.
    """
    try:
        parsed = parse_template(text, limits=_LIMITS)
    except GoError as error:
        raise Refused(_PLACE.sub(r"\3 (line \1)", str(error))) from error

    return Compiled(parsed.root, {each.name: each.body for each in parsed.definitions})


def written(template: Compiled, variables: Variables, meter: Meter) -> str:
    """
    The text that *template* becomes.
    """
    walk = _Walk(template.definitions, meter)
    walk.call(template.root, _Dot(variables))
    return "".join(walk.made)


class _Dot(NamedTuple):
    """
    A value, and the way to it: the way before and a key, or nothing.

    Told as a dotted name only if something is wrong there: hostile data has
    many places behind long keys.
    """

    value: Any
    path: tuple[Any, ...] = ()


class _Leave(Exception):  # noqa: N818 - leaves a loop's body, and is no error
    """
    A `break`, or a `continue`.
    """

    def __init__(self, *, stop: bool) -> None:
        super().__init__(stop)
        self.stop = stop


_NOTHING = object()

# The steps of going on to the next item of a range.
_AN_ITEM = 3
# The steps of calling a template.
_A_CALL = 5


class _Walk:
    """
    One rendering: walks the tree, and writes.
    """

    def __init__(self, definitions: Mapping[str, ListNode], meter: Meter) -> None:
        self.made: list[str] = []
        self._definitions = definitions
        self._meter = meter
        # What `$name` stands for, a scope for each control structure.
        self._scopes: list[dict[str, _Dot]] = []

    def call(self, body: ListNode, dot: _Dot) -> None:
        """
        Writes *body*, a template of its own, for *dot*.
        """
        before, self._scopes = self._scopes, [{"$": dot}]
        self._meter.enter()
        self._meter.step(_A_CALL)
        self._list(body, dot)
        self._meter.leave()
        self._scopes = before

    def _write(self, text: str) -> None:
        self._meter.write(len(text))
        self.made.append(text)

    def _list(self, body: ListNode, dot: _Dot) -> None:
        for node in body.nodes:
            self._meter.step()
            if isinstance(node, TextNode):
                self._write(node.text)
            elif isinstance(node, ActionNode):
                found = self._pipe(node.pipeline, dot)
                if not node.pipeline.declarations:
                    self._write(shown(self._meter, _whole(found.value)))
            elif isinstance(node, (IfNode, WithNode)):
                self._branch(node, dot)
            elif isinstance(node, RangeNode):
                self._range(node, dot)
            elif isinstance(node, (TemplateCallNode, BlockNode)):
                self._template(node, dot)
            else:
                raise _Leave(stop=isinstance(node, BreakNode))

    def _branch(self, node: IfNode | WithNode, dot: _Dot) -> None:
        self._scopes.append({})
        found = self._pipe(node.pipeline, dot)
        if is_true(_whole(found.value)):
            self._list(node.body, found if isinstance(node, WithNode) else dot)
        elif node.else_body is not None:
            self._list(node.else_body, dot)

        self._scopes.pop()

    def _range(self, node: RangeNode, dot: _Dot) -> None:
        self._scopes.append({})
        pipe = node.pipeline
        found = self._pipe(pipe, dot, declare=False)
        depth, empty = len(self._scopes), True
        for key, value in self._pairs(_whole(found.value), len(pipe.declarations)):
            empty = False
            self._meter.step(_AN_ITEM)
            self._scopes.append({})
            item = _Dot(value, (found.path, key))
            names = [each.name for each in pipe.declarations]
            items = [item] if len(names) == 1 else [_Dot(key), item]
            for name, each in zip(names, items, strict=False):
                self._declare(name, each, assign=pipe.is_assignment)

            try:
                self._list(node.body, item)
            except _Leave as leave:
                if leave.stop:
                    break
            finally:
                del self._scopes[depth:]

        if empty and node.else_body is not None:
            self._list(node.else_body, dot)

        self._scopes.pop()

    def _pairs(self, value: Any, names: int) -> Iterable[tuple[Any, Any]]:
        if value is None:
            return ()

        if isinstance(value, dict):
            self._meter.step(len(value))
            return [(key, value[key]) for key in sorted(value, key=_order)]

        if isinstance(value, list):
            return enumerate(value)

        if isinstance(value, int) and not isinstance(value, bool):
            if names <= 1:
                return ((number, number) for number in range(value))

            msg = f"range over {value} gives one value at a time, not two"
            raise Refused(msg)

        msg = f"range can't go over a {type(value).__name__}"
        raise Refused(msg)

    def _template(self, node: TemplateCallNode | BlockNode, dot: _Dot) -> None:
        body = self._definitions.get(node.name)
        if body is None:
            msg = f"there is no template {node.name!r:.40}"
            raise Refused(msg)

        pipe = node.pipeline
        self.call(body, _Dot(None) if pipe is None else self._pipe(pipe, dot))

    def _declare(self, name: str, value: _Dot, *, assign: bool) -> None:
        if assign:
            for scope in reversed(self._scopes):
                if name in scope:
                    scope[name] = value
                    return

        self._scopes[-1][name] = value

    def _pipe(self, pipe: PipeNode, dot: _Dot, *, declare: bool = True) -> _Dot:
        found, final = _Dot(None), _NOTHING
        for command in pipe.commands:
            found = self._command(command, dot, final)
            final = found.value

        if declare:
            for variable in pipe.declarations:
                self._declare(variable.name, found, assign=pipe.is_assignment)

        return found

    def _command(self, command: CommandNode, dot: _Dot, final: object) -> _Dot:
        first, *others = command.arguments
        self._meter.step(len(command.arguments))
        if isinstance(first, IdentifierNode):
            return self._function(first.name, others, dot, final)

        if others or final is not _NOTHING:
            msg = "a value that is no function is given arguments"
            raise Refused(msg)

        if isinstance(first, NilNode):
            msg = "nil is not a command"
            raise Refused(msg)

        return self._term(first, dot)

    def _term(self, term: Any, dot: _Dot) -> _Dot:
        if isinstance(term, DotNode):
            return dot
        if isinstance(term, FieldNode):
            return self._below(dot, term.fields)
        if isinstance(term, VariableNode):
            scope = next(each for each in reversed(self._scopes) if term.name in each)
            return self._below(scope[term.name], term.fields)
        if isinstance(term, ParenthesizedNode):
            return self._below(self._pipe(term.pipeline, dot), term.fields)
        if isinstance(term, IdentifierNode):
            return self._function(term.name, [], dot, _NOTHING)

        return _Dot(_constant(term))

    def _below(self, found: _Dot, fields: tuple[str, ...]) -> _Dot:
        for field in fields:
            self._meter.step()
            value, path = found.value, (found.path, field)
            if isinstance(value, (dict, Variables)):
                if field not in value:
                    raise Missing(named(path))
                found = _Dot(value[field], path)
            else:
                before = named(found.path) or "what is before it"
                msg = f"there is no {named(path)}: {before} is no map"
                raise Refused(msg)

        return found

    def _function(self, name: str, terms: list[Any], dot: _Dot, final: object) -> _Dot:
        self._meter.step()
        if name in {"and", "or"}:
            return self._logical(name, terms, dot, final)

        function = FUNCTIONS.get(name)
        if function is None:
            msg = f"there is no function {name!r} here"
            raise Refused(msg)

        found = [self._term(term, dot) for term in terms]
        arguments = [_whole(each.value) for each in found]
        if final is not _NOTHING:
            arguments.append(_whole(final))

        self._meter.weigh(arguments)
        path = found[0].path if found else ()
        return _Dot(function(self._meter, path, *arguments))

    def _logical(self, name: str, terms: list[Any], dot: _Dot, final: object) -> _Dot:
        found = _Dot(None)
        for term in terms:
            found = self._term(term, dot)
            if is_true(_whole(found.value)) is (name == "or"):
                return found

        if final is not _NOTHING:
            return _Dot(final)

        if not terms:
            msg = f"{name} needs a value"
            raise Refused(msg)

        return found


def _whole(value: Any) -> Any:
    """
    *value*, and all variables as one map if it is the topmost dot.
    """
    return value.all() if isinstance(value, Variables) else value


def _order(key: str | int) -> tuple[bool, str | int]:
    return isinstance(key, str), key


def _constant(term: Any) -> Any:
    if isinstance(term, (StringNode, BoolNode)):
        return term.value
    if isinstance(term, CharacterNode):
        return ord(term.value)
    if isinstance(term, NilNode):
        return None
    if isinstance(term, NumberNode) and not term.text.endswith("i"):
        return _number(term.text.replace("_", ""))

    msg = "there are no complex numbers here"
    raise Refused(msg)


def _number(text: str) -> int | float:
    digits = text.lower().lstrip("+-")
    if digits.startswith("0x") and "p" in digits:
        return float.fromhex(text)
    if not digits.startswith("0x") and any(mark in digits for mark in ".ep"):
        return float(text)

    number = int(digits, 8) if digits[0] == "0" and digits.isdigit() else int(digits, 0)
    return -number if text.startswith("-") else number
