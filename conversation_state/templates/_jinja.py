"""
Jinja2's syntax: parsed, rewritten for our sandbox, compiled and run there.

The syntax tree may hold known kinds of nodes only. Loops, macros, comparisons and
outputs, for which Jinja2 does not ask its sandbox, are rewritten so that it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from types import CodeType
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.exceptions import TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.visitor import NodeTransformer

from conversation_state.templates._jinja_sandbox import GLOBALS, Sandbox
from conversation_state.templates._values import (
    Meter,
    Missing,
    Refused,
    Variables,
    dotted,
)

# What every text with syntax has at least one of.
MARKS = ("{{", "{%", "{#")

EXACT = False

# Compiling costs time by the node; a variable in the text is two of them.
_MAX_NODES = 5_000

# Nested expressions are several levels of the tree each.
_MAX_TREE_LEVELS = 150

_NODE_NAMES = (
    "Template Output TemplateData For If Macro CallBlock FilterBlock With Assign "
    "AssignBlock Scope Name NSRef Const Tuple List Dict Pair Keyword CondExpr "
    "Filter Test Call Getitem Getattr Slice Concat Compare Operand Mul Div "
    "FloorDiv Add Sub Mod Pow Not Neg Pos And Or"
)
_NODES = frozenset(_NODE_NAMES.split())
_SANDBOX = Sandbox()

# Jinja2 takes both for the end of the template.
_OPEN = re.compile(r"(?:\{#|\{%[-+]?\s*raw\s*-?%\}\s*)\Z")


def compile_template(text: str) -> tuple[CodeType, frozenset[str]]:
    """
    The code of the template *text*, and the variables it may use.

    Raises:
        Refused: If it is not a template, or uses what is not available.
    """
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
    """
    The text that *template* becomes.
    """
    code, names = template
    values = {name: variables[name] for name in names if name in variables}
    # Threads share `_SANDBOX`, and each rendering counts with a meter of its own.
    sandbox: Any = _SANDBOX.overlay()
    sandbox.meter = meter
    loaded = sandbox.template_class.from_code(sandbox, code, dict(GLOBALS))
    try:
        return "".join(loaded.root_render_func(loaded.new_context(values)))
    except Missing as missing:
        key, *holder = missing.args
        raise Missing(dotted(*_find_path(values, *holder), key)) from None


def _find_path(values: dict[str, Any], wanted: object = None) -> tuple[Any, ...]:
    """
    Where *wanted*, a list or a mapping, is in *values*; empty if it is not there.
    """
    stack: list[tuple[Any, tuple[Any, ...]]] = [(values, ())]
    while stack:
        value, path = stack.pop()
        if value is wanted:
            return path

        if isinstance(value, (dict, list)):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            stack.extend((below, (*path, key)) for key, below in pairs)

    return ()


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


class _TreeRewriter(NodeTransformer):
    # ruff: noqa: N802 - the names of methods are Jinja2's
    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        node.nodes = [
            _filter_node("a write", self.visit(child)) for child in node.nodes
        ]
        return node

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        return nodes.Const(node.data, lineno=node.lineno)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        # Counted before the body is rewritten, which adds nodes of ours.
        cost = self._count_nodes([*node.body, *([node.test] if node.test else [])])
        self.generic_visit(node)
        node.iter = _filter_node("a loop", node.iter, cost)
        if node.recursive:  # what it calls itself with does not pass `iter`
            self._count_body(node, cost)

        return node

    def visit_Macro(self, node: Any) -> Any:
        cost = self._count_nodes(node.body)
        self.generic_visit(node)
        self._count_body(node, cost)
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

    @staticmethod
    def _count_nodes(body: list[Any]) -> int:
        return sum(map(len, _iterate_levels(body)))

    @staticmethod
    def _count_body(node: Any, cost: int) -> None:
        step = _filter_node("a step", nodes.Const(cost, lineno=node.lineno))
        node.body.insert(0, nodes.Output([step], lineno=node.lineno))
