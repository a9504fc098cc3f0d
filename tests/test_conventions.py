"""
Conventions of the code that ruff and import-linter have no rule for, and the
rules that `tools.import_contracts` adds to import-linter.
"""

import ast
import functools
import re
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
IMPORTERS = {"attrs": ["*"], "cattrs": ["codec"], "sqlite3": ["store"]}


def relative_paths(folder, pattern):
    """
    The files below *folder*, relative to the repository, in order.
    """
    return [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / folder).rglob(pattern))
    ]


@functools.cache
def list_nodes(path):
    """
    The nodes of the syntax tree of a file of the repository.
    """
    return (*ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))),)


def find_nodes(folder: str, pattern: str, kinds: Any) -> list[tuple[str, Any]]:
    """
    The nodes of some kinds in the files below a folder, each with its file.
    """
    found = [
        (path, node)
        for path in relative_paths(folder, pattern)
        for node in list_nodes(path)
        if isinstance(node, kinds)
    ]
    assert found

    return found


class TestTests:
    def test_states_promise(self):
        """
        Every test has a docstring.
        """
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        lacking = [
            (path, node.name)
            for path, node in find_nodes("tests", "test_*.py", functions)
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
        """
        The page on errors has each public one in a heading, with what to do.
        """
        page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
        headings = [line for line in page.splitlines() if line.startswith("### ")]

        assert [heading for heading in headings if name in re.split(r"\W+", heading)]


class TestImports:
    """
    What import-linter can't see: names, and modules that are named in a string.
    """

    def test_private_names(self):
        """
        A private name is imported only inside of the package it is defined in.
        """
        errors = [
            error
            for path, node in find_nodes(PACKAGE, "*.py", ast.ImportFrom)
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
        """
        Imports name the whole path of a module, so that a search finds them.
        """
        relative = [
            (path, node.lineno)
            for path, node in find_nodes(PACKAGE, "*.py", ast.ImportFrom)
            if node.level
        ]

        assert [] == relative

    def test_no_constant_in_import_module(self):
        """
        What is known when the code is written is imported by a statement, which
        import-linter reads; `import_module` is for names that are computed.
        """
        constant = [
            (path, node.lineno)
            for path, node in find_nodes(PACKAGE, "*.py", ast.Call)
            if node.args and isinstance(node.args[0], ast.Constant)
            if ast.unparse(node.func).rpartition(".")[2]
            in {"import_module", "__import__"}
        ]

        assert [] == constant


class TestPrivateError:
    """
    Who may import a private module.
    """

    @pytest.mark.parametrize(
        ("importer", "imported"),
        [
            ("p.a._x", "p.a._y"),
            ("p.a.b.c", "p.a._y"),
            ("p.a", "p.a._y"),
            ("p.a.b._x", "p.a._y._z"),
            ("p.a", "p._y.z"),
            ("p.a", "p.b"),
            ("p.a", "p.b.__init__"),
            ("p.a", "_thread"),
        ],
    )
    def test_allowed(self, importer, imported):
        """
        Everything below the package that contains it; public modules, anyone.
        """
        assert "" == private_error(importer, imported)

    @pytest.mark.parametrize(
        ("importer", "imported"),
        [
            ("p.a._x", "p.b._y"),
            ("p.ab", "p.a._y"),
            ("p.a.b", "p.a.c._y"),
            ("p", "p.a._y"),
            ("q.a._x", "p._y"),
        ],
    )
    def test_elsewhere(self, importer, imported):
        """
        Nothing beside or above that package, whatever its name starts with.
        """
        assert "which is private to" in private_error(importer, imported)


class TestSiblingError:
    """
    Who may import an adapter.
    """

    @pytest.mark.parametrize(
        ("importer", "imported"),
        [
            ("p.a.b._x", "p.a.b._y"),
            ("p.a.b", "p.a._y"),
            ("p.a.b", "p.a"),
            ("p.c._x", "p.a.b"),
            ("p.a.b", "p.d"),
        ],
    )
    def test_allowed(self, importer, imported):
        """
        Itself, and higher layers; all adapters share the private modules.
        """
        assert "" == sibling_error(importer, imported, "p.a")

    @pytest.mark.parametrize(
        ("importer", "imported"),
        [
            ("p.a.b", "p.a.c"),
            ("p.a.b._x", "p.a.bc._y"),
            ("p.a._x", "p.a.b._y"),
            ("p.a", "p.a.b"),
        ],
    )
    def test_sibling(self, importer, imported):
        """
        No other adapter, no shared module, nor the package of them.
        """
        error = sibling_error(importer, imported, "p.a")

        assert "are independent" in error


class TestThirdPartyError:
    """
    Who may import a third party.
    """

    @pytest.mark.parametrize(
        ("importer", "imported"),
        [
            ("p.messages._base", "attrs"),
            ("p.codec", "cattrs.gen"),
            ("p.codec._decode", "cattrs"),
            ("p.store._sqlite", "sqlite3"),
            ("p.messages", "json"),
        ],
    )
    def test_allowed(self, importer, imported):
        """
        The modules of the table and what is below them; what isn't in the table
        only from the standard library.
        """
        assert "" == third_party_error(importer, imported, IMPORTERS, "p")

    @pytest.mark.parametrize(
        ("importer", "imported", "expected"),
        [
            ("p.messages", "cattrs.gen", "which only codec may import"),
            ("p.codecs", "cattrs", "which only codec may import"),
            ("p.timeline", "sqlite3", "which only store may import"),
            ("p.counting", "numpy", "which the table of third parties lacks"),
        ],
    )
    def test_refused(self, importer, imported, expected):
        """
        Other modules, and a third party that has no entry yet.
        """
        error = third_party_error(importer, imported, IMPORTERS, "p")

        assert expected in error
