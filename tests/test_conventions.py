"""
Conventions of the code that ruff and import-linter have no rule for, and the
rules that `tools.import_contracts` adds to import-linter.
"""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conversation_state import errors
from tools.import_rules import (
    is_inside,
    private_error,
    sibling_error,
    third_party_error,
)

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "conversation_state"
IMPORTING = {"import_module", "__import__"}
IMPORTERS = {"attrs": ["*"], "cattrs": ["codec"], "sqlite3": ["store"]}


def relative_paths(folder, pattern):
    """The files below *folder*, relative to the repository, in order."""
    return [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / folder).rglob(pattern))
    ]


def parse(path: str) -> ast.Module:
    """The syntax tree of a file of the repository."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@functools.cache
def read_package() -> tuple[list[tuple[str, Any]], list[tuple[str, str]]]:
    """
    What may import something in the package, and the names of its classes, both with
    their files. Imports are statements with `from`, and calls of `import_module`.
    """
    imports, classes = [], []
    for path in relative_paths(PACKAGE, "*.py"):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                classes.append((path, node.name))
            elif isinstance(node, ast.ImportFrom) or (
                isinstance(node, ast.Call) and called_name(node) in IMPORTING
            ):
                imports.append((path, node))

    assert imports
    assert classes

    return imports, classes


def find_imports() -> list[tuple[str, Any]]:
    """What may import something in the package, with its file."""
    return read_package()[0]


def list_functions(
    body: list[ast.stmt],
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module, and those of its classes, where tests can be."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from list_functions(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def called_name(call: ast.Call) -> str:
    """The name of the function that is called, without what it is an attribute of."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr

    return call.func.id if isinstance(call.func, ast.Name) else ""


class TestTests:
    def test_states_promise(self):
        """Every test has a docstring."""
        lacking = [
            (path, node.name)
            for path in relative_paths("tests", "test_*.py")
            for node in list_functions(parse(path).body)
            if node.name.startswith("test_") and not ast.get_docstring(node)
        ]

        assert [] == lacking


class TestDocumentation:
    @pytest.mark.parametrize(
        "name",
        [
            name
            for name in errors.__all__
            if name not in {"ConversationStateError", "Problem"}
        ],
    )
    def test_every_error_has_advice(self, name):
        """The page on errors has each public one in a heading, with what to do."""
        page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
        headings = [line for line in page.splitlines() if line.startswith("### ")]

        assert [heading for heading in headings if name in re.split(r"\W+", heading)]


class TestImports:
    """What import-linter can't see: names, and modules that are named in a string."""

    def test_private_names(self):
        """A private name is imported only inside of the package it is defined in."""
        errors = [
            error
            for path, node in find_imports()
            if isinstance(node, ast.ImportFrom)
            if is_inside(node.module or "", PACKAGE)
            for alias in node.names
            if alias.name.startswith("_") and not alias.name.startswith("__")
            if (
                error := private_error(
                    path.removesuffix(".py").replace("/", "."),
                    f"{node.module}.{alias.name}",
                )
            )
        ]

        assert [] == errors

    def test_absolute(self):
        """Imports name the whole path of a module, so that a search finds them."""
        relative = [
            (path, node.lineno)
            for path, node in find_imports()
            if isinstance(node, ast.ImportFrom) and node.level
        ]

        assert [] == relative

    def test_no_constant_in_import_module(self):
        """
        What is known when the code is written is imported by a statement, which
        import-linter reads; `import_module` is for names that are computed.
        """
        constant = [
            (path, node.lineno)
            for path, node in find_imports()
            if isinstance(node, ast.Call) and node.args
            if isinstance(node.args[0], ast.Constant)
        ]

        assert [] == constant


class TestNames:
    """A name that is searched for is found once."""

    def test_classes(self):
        """No two classes of the package have the same name."""
        places = defaultdict(list)
        for path, name in read_package()[1]:
            places[name].append(path)

        assert {} == {name: found for name, found in places.items() if len(found) > 1}


def adapter_error(importer, imported):
    """What is wrong with an import in the adapters `p.a`."""
    return sibling_error(importer, imported, "p.a")


def outside_error(importer, imported):
    """What is wrong with an import of a third party."""
    return third_party_error(importer, imported, IMPORTERS, "p")


class TestRules:
    """Which modules may import what."""

    @pytest.mark.parametrize(
        ("rule", "importer", "imported"),
        [
            (private_error, "p.a.b._x", "p.a._y._z"),
            (private_error, "p.a", "p.a._y"),
            (private_error, "p.a", "p.b.__init__"),
            (private_error, "p.a", "_thread"),
            (adapter_error, "p.a.b._x", "p.a.b._y"),
            (adapter_error, "p.a.b", "p.a._y"),
            (adapter_error, "p.c._x", "p.a.b"),
            (outside_error, "p.messages._base", "attrs"),
            (outside_error, "p.codec._decode", "cattrs.gen"),
            (outside_error, "p.messages", "json"),
        ],
    )
    def test_allowed(self, rule, importer, imported):
        """
        What is below the package of a private module; an adapter's own modules and
        those that all share; modules of the table, and what is below them.
        """
        assert "" == rule(importer, imported)

    @pytest.mark.parametrize(
        ("rule", "importer", "imported", "expected"),
        [
            (private_error, "p.a._x", "p.b._y", "which is private to"),
            (private_error, "p.ab", "p.a._y", "which is private to"),
            (private_error, "p", "p.a._y", "which is private to"),
            (adapter_error, "p.a.b", "p.a.c", "are independent"),
            (adapter_error, "p.a.b._x", "p.a.bc._y", "are independent"),
            (adapter_error, "p.a._x", "p.a.b._y", "are independent"),
            (outside_error, "p.messages", "cattrs.gen", "which only codec may import"),
            (outside_error, "p.codecs", "cattrs", "which only codec may import"),
            (outside_error, "p.counting", "numpy", "which the table of third parties"),
        ],
    )
    def test_refused(self, rule, importer, imported, expected):
        """
        Private modules of others, whatever their names start with; other adapters; and
        a third party of another module, or without an entry yet.
        """
        assert expected in rule(importer, imported)
