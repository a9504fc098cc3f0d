"""
Small changes to Python source, each of which a test should notice.

`find_mutants` lists every change to one file. What runs tests against them is in
`tools.mutants`. Annotations, docstrings, the texts of errors, and what only type
checkers read are left alone: no test is meant to hold them.
"""

import ast
import copy
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePath
from typing import TypeVar

import attrs

AnyNode = TypeVar("AnyNode", bound=ast.AST)
TYPES = frozenset({"cast", "TypeVar", "ParamSpec", "NewType", "TypeVarTuple"})
LOGGERS = frozenset({"warn", "warning", "debug", "info", "error", "exception"})

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq, ast.Is),
    ast.NotEq: (ast.Eq, ast.IsNot),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitAnd,
}
FUNCTIONS = {
    "all": "any",
    "any": "all",
    "max": "min",
    "min": "max",
    "startswith": "endswith",
    "endswith": "startswith",
    "find": "rfind",
    "rfind": "find",
    "partition": "rpartition",
    "rpartition": "partition",
    "removeprefix": "removesuffix",
    "removesuffix": "removeprefix",
    "lstrip": "rstrip",
    "rstrip": "lstrip",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
}
LONGEST = 90
SENTENCE = 3  # spaces: the text of an error is often made before it is raised


@attrs.frozen
class Mutant:
    """
    One change to one place of a source file.

    *key* identifies it while lines move: the function it is in, the text of its
    first line, and the change. *kind* is what was changed, `Compare` say; *number*
    is the number of the line, *span* the first and the last line of the statement
    (of what has a body: of the changed expression), and *at_import* whether it runs
    when the file is imported.
    """

    path: str
    kind: str
    place: str
    line: str
    change: str
    number: int
    span: tuple[int, int]
    start: int
    end: int
    replacement: str
    at_import: bool

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same while other lines of the file change."""
        return self.path, self.place, self.line, self.change

    def apply(self, source: bytes) -> bytes:
        """*source*, the file as it was read, with this change."""
        return source[: self.start] + self.replacement.encode() + source[self.end :]


def find_mutants(path: str, source: bytes) -> tuple[Mutant, ...]:
    """
    Every mutant of *source*, in the order of the source, each with its own key.

    Raises:
        SyntaxError: *source* is not Python.
    """
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    distinct = {mutant.key: mutant for mutant in reversed(finder.mutants)}
    return tuple(sorted(distinct.values(), key=lambda mutant: mutant.start))


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self.mutants: list[Mutant] = []
        self._path = path
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

        self._places: list[str] = []
        self._functions = 0
        self._span: tuple[int, int] | None = None
        self._texts = True

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            is_simple = not hasattr(node, "body")
            last = node.end_lineno or node.lineno
            self._span = (node.lineno, last) if is_simple else None
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            self._span = None

        match node:
            case ast.expr():
                kind = type(node).__name__
                if isinstance(node, ast.Constant):
                    kind = type(node.value).__name__

                changes = _change_expression(node, texts=self._texts)
                self._add_all(kind, node, changes)
            case ast.stmt():
                for replacement, label in _change_statement(node):
                    self._add_mutant(type(node).__name__, node, replacement, label)

        match node:
            case ast.If(test=test) | ast.While(test=test) if (
                _last_name(test) != "TYPE_CHECKING"
            ):
                self._add_all("If", test, _change_condition(test))
            case ast.ExceptHandler(type=ast.expr() as caught):
                self._add_all("ExceptHandler", caught, _change_caught(caught))

        super().visit(node)

    def _add_all(
        self, kind: str, node: ast.expr, changes: Iterable[tuple[ast.expr, str]]
    ) -> None:
        now = _shorten_code(ast.unparse(node))
        for changed, label in changes:
            text = ast.unparse(changed)
            self._add_mutant(
                kind, node, f"({text})", label or f"{now} → {_shorten_code(text)}"
            )

    def _add_mutant(
        self, kind: str, node: ast.expr | ast.stmt, replacement: str, label: str
    ) -> None:
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        self.mutants.append(
            Mutant(
                path=self._path,
                kind=kind,
                place=".".join(self._places) or PurePath(self._path).stem,
                line=self._lines[node.lineno - 1].decode().strip(),
                change=label,
                number=node.lineno,
                span=self._span or (node.lineno, node.end_lineno or node.lineno),
                start=start,
                end=end,
                replacement=replacement,
                at_import=not self._functions,
            )
        )

    def _visit_all(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if any(_last_name(each) == "overload" for each in node.decorator_list):
            return

        self._visit_all(*node.decorator_list)
        self._places.append(node.name)
        self._visit_all(*node.args.defaults, *node.args.kw_defaults)
        self._functions += 1
        self._visit_all(*_without_docstring(node.body))
        self._functions -= 1
        self._places.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(*node.decorator_list)
        self._places.append(node.name)
        self._visit_all(*_without_docstring(node.body))
        self._places.pop()

    def visit_Module(self, node: ast.Module) -> None:
        self._visit_all(*_without_docstring(node.body))

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(*node.args.defaults, *node.args.kw_defaults)
        self._functions += 1
        self.visit(node.body)
        self._functions -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        if not any(name.startswith("__") for name in names):
            self._visit_all(*node.targets, node.value)

    def visit_If(self, node: ast.If) -> None:
        if _last_name(node.test) == "TYPE_CHECKING":
            self._visit_all(*node.orelse)
        else:
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _last_name(node.value) not in {"Literal", "Annotated", "Callable"}:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _last_name(node.func)
        if name in TYPES:
            self._visit_all(*node.args[1:])
        elif name.endswith(("Error", "Warning")) or name in LOGGERS:
            self._visit_without_texts(node)
        else:
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._visit_without_texts(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Nothing: before Python 3.12 the nodes in it have no position of their own."""

    def _visit_without_texts(self, node: ast.AST) -> None:
        before, self._texts = self._texts, False
        self.generic_visit(node)
        self._texts = before


def _change_expression(
    node: ast.expr, *, texts: bool
) -> Iterator[tuple[ast.expr, str]]:
    """What *node* may become, each with a label; "" where both texts are the label."""
    match node:
        case ast.Compare():
            yield from ((each, "") for each in _change_comparison(node))
        case ast.BoolOp(op=operator):
            other = ast.And() if isinstance(operator, ast.Or) else ast.Or()
            yield _replace_fields(node, op=other), ""
            for position in range(len(node.values)):
                rest = node.values[:position] + node.values[position + 1 :]
                yield (
                    (rest[0] if len(rest) == 1 else _replace_fields(node, values=rest)),
                    "",
                )
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand, ""
        case ast.BinOp(op=operator) if not _is_text(node.left, node.right):
            yield _replace_fields(node, op=OPERATORS.get(type(operator), ast.Add)()), ""
        case ast.IfExp(test=test):
            yield _replace_fields(node, test=ast.UnaryOp(ast.Not(), test)), ""
        case ast.Constant(value=value):
            yield from _change_constant(value, texts=texts)
        case ast.Call():
            yield from _change_call(node)
        case _:
            yield from _change_selection(node)


def _change_selection(node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """Slices and comprehensions, with less that limits them."""
    match node:
        case ast.Subscript(slice=ast.Slice() as part, ctx=ast.Load()):
            for field in ("lower", "upper", "step"):
                if getattr(part, field) is not None:
                    whole = _replace_fields(part, **{field: None})
                    yield _replace_fields(node, slice=whole), ""
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            for position, loop in enumerate(node.generators):
                if loop.ifs:
                    loops = list(node.generators)
                    loops[position] = _replace_fields(loop, ifs=loop.ifs[1:])
                    label = f"without if {_shorten_code(ast.unparse(loop.ifs[0]))}"
                    yield _replace_fields(node, generators=loops), label


def _change_comparison(node: ast.Compare) -> Iterator[ast.expr]:
    for position, operator in enumerate(node.ops):
        sides = [node.left, *node.comparators][position : position + 2]
        for other in COMPARISONS[type(operator)]:
            # Of small values there is one object, so `is` would be the same as `==`.
            turned = isinstance(operator, ast.Eq | ast.NotEq)
            if turned and other in {ast.Is, ast.IsNot} and any(map(_is_small, sides)):
                continue

            ops = [*node.ops[:position], other(), *node.ops[position + 1 :]]
            yield _replace_fields(node, ops=ops)


def _change_constant(value: object, *, texts: bool) -> Iterator[tuple[ast.expr, str]]:
    match value:
        case bool():
            yield ast.Constant(not value), ""
        case int() | float():
            yield ast.Constant(value + 1), ""
        case str() if texts and value.count(" ") < SENTENCE:
            yield ast.Constant(f"{value}X"), ""
        case bytes() if texts:
            yield ast.Constant(value + b"X"), ""


def _change_call(node: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    name = _last_name(node.func)
    if name in TYPES:
        return

    if name in FUNCTIONS and isinstance(node.func, ast.Name):
        yield _replace_fields(node, func=ast.Name(FUNCTIONS[name])), ""
    elif name in FUNCTIONS and isinstance(node.func, ast.Attribute):
        yield (
            _replace_fields(
                node, func=_replace_fields(node.func, attr=FUNCTIONS[name])
            ),
            "",
        )

    plain = [each for each in node.args if not isinstance(each, ast.Starred)]
    if len(plain) == len(node.args) > 1 and name not in {"isinstance", "issubclass"}:
        for position, (left, right) in enumerate(pairwise(plain)):
            if ast.dump(left) != ast.dump(right):
                args = [*plain[:position], right, left, *plain[position + 2 :]]
                yield _replace_fields(node, args=args), ""

    for position, keyword in enumerate(node.keywords):
        # Without these an error has another text, or a type checker complains.
        if keyword.arg is not None and keyword.arg not in {"doc", "help", "repr"}:
            rest = node.keywords[:position] + node.keywords[position + 1 :]
            label = f"without {_shorten_code(ast.unparse(keyword))}"
            yield _replace_fields(node, keywords=rest), label


def _change_statement(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """What *node* may become, as source and a label."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Expr() | ast.AugAssign() | ast.Delete():
            yield "pass", f"{_shorten_code(ast.unparse(node))} removed"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass", f"{_shorten_code(ast.unparse(node))} removed"
        case ast.Return(value=value) if not (
            value is None or (isinstance(value, ast.Constant) and value.value is None)
        ):
            yield "return None", f"{_shorten_code(ast.unparse(node))} → return None"
        case ast.Raise(exc=ast.Call() as error):
            name = _last_name(error.func)
            yield "pass", f"raise {name} removed"
            yield 'raise BaseException("mutant")', f"{name} → BaseException"
        case ast.Raise(exc=None):
            yield "pass", "raise removed"
        case ast.Continue():
            yield "break", "continue → break"
        case ast.Break():
            yield "continue", "break → continue"


def _change_condition(test: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """What the condition of a statement may become."""
    text = _shorten_code(ast.unparse(test))
    if not isinstance(test, ast.Compare | ast.UnaryOp):
        yield ast.UnaryOp(ast.Not(), test), f"if {text} → if not {text}"

    if not isinstance(test, ast.Constant):
        yield ast.Constant(value=True), f"if {text} → if True"
        yield ast.Constant(value=False), f"if {text} → if False"


def _change_caught(node: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """What the exception types of an `except` may become."""
    text = _shorten_code(ast.unparse(node))
    if isinstance(node, ast.Tuple) and len(node.elts) > 1:
        for position, each in enumerate(node.elts):
            rest = node.elts[:position] + node.elts[position + 1 :]
            label = f"except {text} → without {ast.unparse(each)}"
            yield _replace_fields(node, elts=rest), label
    else:
        yield ast.Tuple([], ast.Load()), f"except {text} → except nothing"


def _replace_fields(node: AnyNode, **fields: object) -> AnyNode:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)

    return changed


def _shorten_code(text: str) -> str:
    if len(text) <= LONGEST:
        return text

    return f"{text[: LONGEST - 30]} … {text[-27:]}"


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return _last_name(function)
        case _:
            return ""


def _is_text(*nodes: ast.expr) -> bool:
    """Whether one of the operands is a text or a list, which know only addition."""
    return any(
        isinstance(node, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for node in nodes
    )


def _is_small(node: ast.expr) -> bool:
    """Whether *node* is a constant or a length, whose value is often one object."""
    return isinstance(node, ast.Constant | ast.UnaryOp) or _last_name(node) == "len"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body
