"""
Jinja2's syntax, in its sandbox and within our bounds.

The sandbox keeps templates away from what is unsafe, by name. Here they are
kept to what is known: the syntax tree holds kinds of nodes from a list, and is
rewritten before it is compiled so that everything that reaches into a value,
loops, compares, writes or calls goes through a function of ours
(`_jinja_table`), which counts what it does. No attribute of any object is ever
looked up for a template but those of a short list.
"""

from __future__ import annotations

import re
from itertools import chain
from types import CodeType
from typing import Any, NamedTuple

from jinja2 import nodes
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.exceptions import TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.visitor import NodeTransformer

from conversation_state.templates._bounds import MOST_DEPTH, Meter, Refused
from conversation_state.templates._jinja_table import (
    ASKED_FILTERS,
    GLOBALS,
    TESTS,
    Sandbox,
)
from conversation_state.templates._values import Variables

__all__ = ["EXACT", "MARKS", "compiled", "written"]

# What every text with syntax has at least one of.
MARKS = ("{{", "{%", "{#")

EXACT = False

# How many nodes a tree may have: what compiling takes goes by them. A variable
# in the text is two.
_MOST_NODES = 5_000

# Nested expressions are several levels of the tree each.
_LEVELS = 3 * MOST_DEPTH

_ALLOWED = frozenset(
    {
        # What is written and done.
        nodes.Template,
        nodes.Output,
        nodes.TemplateData,
        nodes.For,
        nodes.If,
        nodes.Macro,
        nodes.CallBlock,
        nodes.FilterBlock,
        nodes.With,
        nodes.Assign,
        nodes.AssignBlock,
        nodes.Scope,
        # Expressions.
        nodes.Name,
        nodes.NSRef,
        nodes.Const,
        nodes.Tuple,
        nodes.List,
        nodes.Dict,
        nodes.Pair,
        nodes.Keyword,
        nodes.CondExpr,
        nodes.Filter,
        nodes.Test,
        nodes.Call,
        nodes.Getitem,
        nodes.Getattr,
        nodes.Slice,
        nodes.Concat,
        nodes.Compare,
        nodes.Operand,
        nodes.Mul,
        nodes.Div,
        nodes.FloorDiv,
        nodes.Add,
        nodes.Sub,
        nodes.Mod,
        nodes.Pow,
        nodes.Not,
        nodes.Neg,
        nodes.Pos,
        nodes.And,
        nodes.Or,
    }
)

_STANDARD = Sandbox()


# Both of which Jinja2 takes for the end of the template.
_OPEN = re.compile(r"(?:\{#|\{%[-+]?\s*raw\s*-?%\}\s*)\Z")


class Compiled(NamedTuple):
    """
    A template's code, and the variables it may ask for.
    """

    code: CodeType
    names: frozenset[str]


# Space within tags that Jinja2 does not take for the end of a line.
_SPACES = "\x1f\x1e\x1d\x1c"


def compiled(text: str) -> Compiled:
    """
    What *text* says.

    Raises:
        Refused: If it is no template, or asks for what there is not.
    """
    if _OPEN.search(text):
        msg = "it ends in a comment or raw block that is not closed"
        raise Refused(msg)

    # Jinja2 makes every end of a line "\n"; ours stay as they are.
    spaces = _SPACES if "\r" in text else ""
    stand_in = next((space for space in spaces if space not in text), "")
    if stand_in:
        text = text.replace("\r", stand_in)

    try:
        tree = _STANDARD.parse(text)
        _check(tree)
        names = frozenset(find_undeclared_variables(tree))
        tree = _Rewriting(stand_in).visit(tree)
        # Filters of ours are unknown until now, and so can't be asked for.
        code = _STANDARD.compile(tree)
    except TemplateSyntaxError as error:
        msg = f"{error.message} (line {error.lineno})"
        raise Refused(msg) from error
    except JinjaError as error:
        msg = f"{error}"
        raise Refused(msg) from error
    except SyntaxError as error:  # Python's own, of the code Jinja2 makes
        msg = f"it is nested too deeply: {error.msg}"
        raise Refused(msg) from error

    return Compiled(code, names)


def written(template: Compiled, variables: Variables, meter: Meter) -> str:
    """
    The text that *template* becomes.
    """
    values = {name: variables[name] for name in template.names if name in variables}
    sandbox = _STANDARD.metered(meter)
    made = sandbox.template_class.from_code(sandbox, template.code, dict(GLOBALS))
    return "".join(made.root_render_func(made.new_context(values)))


def _check(tree: nodes.Template) -> None:
    """
    Raises:
        Refused: If *tree* is too deep, or holds what there is not.
    """
    level: list[nodes.Node] = [tree]
    levels = size = 0
    while level:
        levels += 1
        size += len(level)
        if size > _MOST_NODES:
            msg = f"it has more than {_MOST_NODES:,} names, values, operators and tags"
            raise Refused(msg)

        if levels > _LEVELS:
            msg = "it is nested too deeply"
            raise Refused(msg)

        for node in level:
            if type(node) not in _ALLOWED:
                word = type(node).__name__.lower()
                msg = f"there is no {word} here (line {node.lineno})"
                raise Refused(msg)

            if isinstance(node, (nodes.Filter, nodes.Test)):
                table = ASKED_FILTERS if isinstance(node, nodes.Filter) else TESTS
                if node.name not in table:
                    word = type(node).__name__.lower()
                    msg = f"there is no {word} {node.name!r} here (line {node.lineno})"
                    raise Refused(msg)

        level = list(chain.from_iterable(node.iter_child_nodes() for node in level))


def _size(body: list[nodes.Node]) -> int:
    """
    How many nodes there are in *body*, itself included.
    """
    size, level = 0, body
    while level:
        size += len(level)
        level = list(chain.from_iterable(node.iter_child_nodes() for node in level))

    return size


def _ours(name: str, node: Any, *arguments: object) -> nodes.Filter:
    """
    The call of a filter of ours on *node*.
    """
    given = [
        each if isinstance(each, nodes.Expr) else nodes.Const(each)
        for each in arguments
    ]
    return nodes.Filter(node, name, given, [], None, None, lineno=node.lineno)


def _stepping(cost: int, node: nodes.Node) -> nodes.Output:
    """
    A statement that takes *cost* steps.
    """
    step = _ours("step", nodes.Const(cost, lineno=node.lineno))
    return nodes.Output([step], lineno=node.lineno)


class _Rewriting(NodeTransformer):
    """
    Makes a tree call our functions. See `_jinja_table` for what they do.
    """

    def __init__(self, stand_in: str) -> None:
        self._stand_in = stand_in

    def _mended(self, text: str) -> str:
        return text.replace(self._stand_in, "\r") if self._stand_in else text

    def visit_Const(self, node: nodes.Const) -> nodes.Node:  # noqa: N802 - Jinja2's name
        if isinstance(node.value, str):
            node.value = self._mended(node.value)

        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802 - the same
        children: list[nodes.Expr] = []
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                text = nodes.Const(self._mended(child.data), lineno=child.lineno)
                children.append(_ours("write text", text))
            else:
                children.append(_ours("write", self.visit(child)))

        node.nodes = children
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - the same
        cost = _size([*node.body, *([node.test] if node.test else [])])
        self.generic_visit(node)
        node.iter = _ours("loop", node.iter, cost)
        if node.recursive:  # what it calls itself with goes by no `iter`
            node.body.insert(0, _stepping(cost, node))

        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802 - the same
        return self._metered(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802 - the same
        return self._metered(node)

    def _metered(self, node: Any) -> nodes.Node:
        cost = _size(node.body)
        self.generic_visit(node)
        node.body.insert(0, _stepping(cost, node))
        return node  # type: ignore[no-any-return]  # a macro or call block

    def visit_Getattr(self, node: nodes.Getattr) -> nodes.Node:  # noqa: N802 - the same
        path = _path(node.node)
        below = self.visit(node.node)
        return _ours("attribute", below, node.attr, path)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802 - the same
        path = _path(node.node)
        below = self.visit(node.node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _ours("operand", below)
            node.arg = self.visit(node.arg)
            return node

        return _ours("item", below, self.visit(node.arg), path)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802 - the same
        node.expr = _ours("operand", self.visit(node.expr))
        for operand in node.ops:
            operand.expr = _ours("operand", self.visit(operand.expr))

        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - the same
        items = [self.visit(each) for each in node.nodes]
        return _ours("concatenate", nodes.List(items, lineno=node.lineno))


def _path(node: nodes.Node) -> str:
    """
    The dotted name that *node* is, as far as it is one.
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
