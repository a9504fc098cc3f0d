"""
The public names of the package: those in the `__all__` of its public modules.

The site's reference has a place for each. Several modules may export one object;
the one that owns it is the nearest to the file that defines it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from inspect import isclass, isroutine
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["PACKAGE", "PublicName", "list_public_modules", "list_public_names"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "conversation_state"


class PublicName(NamedTuple):
    """
    One name in the `__all__` of one module.

    Attributes:
        owner: The public module whose page describes it.
        comment: The comment above its assignment; "" of classes and functions.
    """

    module: str
    name: str
    owner: str
    value: Any
    comment: str

    @property
    def kind(self) -> str:
        """What it is: "class", "exception", "function" or "data"."""
        if isclass(self.value):
            raised = issubclass(self.value, BaseException)
            return "exception" if raised else "class"

        return "function" if isroutine(self.value) else "data"

    @property
    def path(self) -> str:
        """Its dotted name, in the module that owns it."""
        return f"{self.owner}.{self.name}"


def find_file(module: str) -> Path:
    """The file of *module*."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def parse_module(module: str) -> ast.Module:
    """The syntax tree of *module*."""
    return ast.parse(find_file(module).read_text(encoding="utf-8"))


@cache
def list_exports(module: str) -> tuple[str, ...]:
    """The names in `__all__` of *module*; none if it has no `__all__`."""
    for node in parse_module(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return tuple(ast.literal_eval(node.value))

    return ()


@cache
def list_public_modules() -> tuple[str, ...]:
    """The modules that export something and have no underscore in their path."""
    found = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        steps = path.relative_to(ROOT).with_suffix("").parts
        steps = steps[:-1] if steps[-1] == "__init__" else steps
        module = ".".join(steps)
        if not any(step.startswith("_") for step in steps) and list_exports(module):
            found.append(module)

    return tuple(found)


@cache
def find_definition(module: str, name: str) -> str:
    """The module that defines *name*, beginning where *module* imports it from."""
    for node in ast.walk(parse_module(module)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name) and node.module:
                    if not node.module.startswith(PACKAGE):
                        return module

                    return find_definition(node.module, alias.name)

    return module


def find_comment(module: str, name: str) -> str:
    """The comment directly above the assignment of *name* in *module*."""
    lines = find_file(module).read_text(encoding="utf-8").splitlines()
    for node in parse_module(module).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=target)])
                | ast.AnnAssign(target=ast.Name(id=target))
            ) if target == name:
                found: list[str] = []
                for line in reversed(lines[: node.lineno - 1]):
                    if not line.startswith("#"):
                        break
                    found.insert(0, line.removeprefix("#").strip())

                return "\n".join(found)

    return ""


def rank_owner(module: str, definition: str) -> tuple[int, int, str]:
    """
    How near *module* is to *definition*: the smallest rank owns the object.

    >>> rank_owner("p.store", "p.store._values") < rank_owner("p", "p.store._values")
    True
    """
    steps, others = module.split("."), definition.split(".")
    shared = sum(steps[: at + 1] == others[: at + 1] for at in range(len(steps)))
    return -shared, len(steps), module


def find_owner(module: str, name: str, value: object) -> PublicName:
    """*name* of *module*, with the module that owns it."""
    definition = find_definition(module, name)
    owner = min(
        (
            each
            for each in list_public_modules()
            if name in list_exports(each) and find_definition(each, name) == definition
        ),
        key=lambda each: rank_owner(each, definition),
    )
    return PublicName(module, name, owner, value, find_comment(definition, name))


@cache
def list_public_names() -> Sequence[PublicName]:
    """Every name of every public module."""
    return [
        find_owner(module, name, getattr(import_module(module), name))
        for module in list_public_modules()
        for name in list_exports(module)
    ]
