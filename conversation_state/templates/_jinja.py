"""
Jinja2's syntax, in its immutable sandbox and within our bounds.

The syntax tree may hold known kinds of nodes only, and is rewritten before it
is compiled: everything that loops, compares, joins, writes or looks below a
value goes through a method of `Sandbox`, which counts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from types import CodeType
from typing import Any, NamedTuple

from jinja2 import nodes
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.exceptions import TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.visitor import NodeTransformer

from conversation_state.templates._bounds import MAX_DEPTH, Meter, Refused
from conversation_state.templates._jinja_sandbox import (
    FILTER_NAMES,
    GLOBALS,
    TEST_NAMES,
    Sandbox,
    split_names,
)
from conversation_state.templates._values import Variables

__all__ = ["EXACT", "MARKS", "compile_template", "render_template"]

# What every text with syntax has at least one of.
MARKS = ("{{", "{%", "{#")

EXACT = False

# Compiling costs time by the node; a variable in the text is two of them.
_MAX_NODES = 5_000

# Nested expressions are several levels of the tree each.
_LEVELS = 3 * MAX_DEPTH


_NODES = frozenset(
    getattr(nodes, name)
    for name in split_names(
        "Template Output TemplateData For If Macro CallBlock FilterBlock With Assign "
        "AssignBlock Scope Name NSRef Const Tuple List Dict Pair Keyword CondExpr "
        "Filter Test Call Getitem Getattr Slice Concat Compare Operand Mul Div "
        "FloorDiv Add Sub Mod Pow Not Neg Pos And Or"
    )
)


class JinjaTemplate(NamedTuple):
    """
    A template's code, and the variables it may use.
    """

    code: CodeType
    names: frozenset[str]


_SANDBOX = Sandbox()

# Jinja2 takes both for the end of the template.
_OPEN = re.compile(r"(?:\{#|\{%[-+]?\s*raw\s*-?%\}\s*)\Z")

# Space within tags that Jinja2 does not take for the end of a line.
_SPACES = "\x1f\x1e\x1d\x1c"


def compile_template(text: str) -> JinjaTemplate:
    """
    The code of the template *text*.

    Raises:
        Refused: If it is not a template, or uses what is not available.
    """
    if _OPEN.search(text):
        raise Refused("it ends in a comment or raw block that is not closed")

    # Jinja2 makes every end of a line "\n"; ours stay as they are.
    spaces = _SPACES if "\r" in text else ""
    stand_in = next((space for space in spaces if space not in text), "")
    if stand_in:
        text = text.replace("\r", stand_in)

    try:
        tree = _SANDBOX.parse(text)
        _check_tree(tree)
        names = frozenset(find_undeclared_variables(tree))
        code = _SANDBOX.compile(_TreeRewriter(stand_in).visit(tree))
    except TemplateSyntaxError as error:
        raise Refused(f"{error.message} (line {error.lineno})") from error
    except JinjaError as error:
        raise Refused(str(error)) from error
    except SyntaxError as error:  # Python's own, of the code Jinja2 makes
        raise Refused(f"it is nested too deeply: {error.msg}") from error

    return JinjaTemplate(code, names)


def render_template(template: JinjaTemplate, variables: Variables, meter: Meter) -> str:
    """
    The text that *template* becomes.
    """
    values = {name: variables[name] for name in template.names if name in variables}
    # Threads share `_SANDBOX`, and each rendering counts with a meter of its own.
    sandbox: Any = _SANDBOX.overlay()
    sandbox.meter = meter
    loaded = sandbox.template_class.from_code(sandbox, template.code, dict(GLOBALS))
    return "".join(loaded.root_render_func(loaded.new_context(values)))


def _check_tree(tree: nodes.Template) -> None:
    """
    Raises:
        Refused: If *tree* is too deep, or uses what is not available.
    """
    size = 0
    for levels, level in enumerate(_iterate_levels([tree])):
        size += len(level)
        if size > _MAX_NODES:
            raise Refused(
                f"it has more than {_MAX_NODES:,} names, values, operators and tags"
            )

        if levels >= _LEVELS:
            raise Refused("it is nested too deeply")

        for node in level:
            kind = type(node).__name__.lower()
            if type(node) not in _NODES:
                raise Refused(f"there is no {kind} here (line {node.lineno})")

            if isinstance(node, (nodes.Filter, nodes.Test)):
                is_filter = isinstance(node, nodes.Filter)
                names = FILTER_NAMES if is_filter else TEST_NAMES
                if node.name not in names:
                    raise Refused(
                        f"there is no {kind} {node.name!r} here (line {node.lineno})"
                    )


def _iterate_levels(level: list[Any]) -> Iterator[list[Any]]:
    """
    *level* of a tree, then all nodes below it, and so on.
    """
    while level:
        yield level
        level = list(chain.from_iterable(node.iter_child_nodes() for node in level))


def _count_nodes(body: list[Any]) -> int:
    return sum(map(len, _iterate_levels(body)))


def _call_own(name: str, node: Any, *arguments: object) -> nodes.Filter:
    """
    The expression that calls the sandbox's own filter *name* on *node*.
    """
    args = [
        one if isinstance(one, nodes.Expr) else nodes.Const(one) for one in arguments
    ]
    return nodes.Filter(node, name, args, [], None, None, lineno=node.lineno)


class _TreeRewriter(NodeTransformer):
    """
    Makes a tree call the methods of `Sandbox`.
    """

    def __init__(self, stand_in: str) -> None:
        self._stand_in = stand_in

    def _restore_newlines(self, text: str) -> str:
        return text.replace(self._stand_in, "\r") if self._stand_in else text

    def visit_Const(self, node: nodes.Const) -> nodes.Node:  # noqa: N802 - Jinja2's name
        if isinstance(node.value, str):
            node.value = self._restore_newlines(node.value)

        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802 - the same
        children: list[nodes.Expr] = []
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                text = self._restore_newlines(child.data)
                constant = nodes.Const(text, lineno=child.lineno)
                children.append(_call_own("the text", constant))
            else:
                children.append(_call_own("the value", self.visit(child)))

        node.nodes = children
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - the same
        cost = _count_nodes([*node.body, *([node.test] if node.test else [])])
        self.generic_visit(node)
        node.iter = _call_own("a loop", node.iter, cost)
        if node.recursive:  # what it calls itself with does not pass `iter`
            self._count_body(node, cost)

        return node

    def _count_body(self, node: Any, cost: int) -> None:
        step = _call_own("a step", nodes.Const(cost, lineno=node.lineno))
        node.body.insert(0, nodes.Output([step], lineno=node.lineno))

    def visit_Macro(self, node: Any) -> nodes.Node:  # noqa: N802 - the same
        cost = _count_nodes(node.body)
        self.generic_visit(node)
        self._count_body(node, cost)
        return node  # type: ignore[no-any-return]  # a macro or call block

    visit_CallBlock = visit_Macro  # noqa: N815 - the same

    def visit_Getattr(self, node: nodes.Getattr) -> nodes.Node:  # noqa: N802 - the same
        path = _dotted_name(node.node)
        return _call_own("an attribute", self.visit(node.node), node.attr, path)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802 - the same
        path = _dotted_name(node.node)
        below = self.visit(node.node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _call_own("an operand", below)
            node.arg = self.visit(node.arg)
            return node

        return _call_own("an item", below, self.visit(node.arg), path)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802 - the same
        node.expr = _call_own("an operand", self.visit(node.expr))
        for operand in node.ops:
            operand.expr = _call_own("an operand", self.visit(operand.expr))

        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - the same
        items = [self.visit(each) for each in node.nodes]
        return _call_own("joined texts", nodes.List(items, lineno=node.lineno))


def _dotted_name(node: nodes.Node) -> str:
    """
    The dotted name of the value that *node* reads, as far as it has one.
    """
    steps: list[str] = []
    while True:
        if isinstance(node, nodes.Name):
            steps.append(node.name)
            break

        if isinstance(node, nodes.Getattr):
            steps.append(node.attr)
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            steps.append(str(node.arg.value))
        else:
            break

        node = node.node

    return ".".join(reversed(steps))
