"""
The house stands: who may import whom, and how light the front door is.
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import conversation_state

HOUSE = "conversation_state"
ROOT = Path(__file__).resolve().parent.parent
TESTS = Path(__file__).resolve().parent

# A room is a module, or a package of the same name. It imports lower floors
# only: never sideways, never the front door, not even for types.
FLOORS = {
    "_identity": 1,
    "_persistent": 1,
    "errors": 1,
    "_canonical": 2,
    "_waiting": 2,
    "documents": 2,
    "parts": 2,
    "tools": 2,
    "usage": 2,
    "messages": 3,
    "aggregator": 4,
    "chunks": 4,
    "counting": 4,
    "rendering": 4,
    "templates": 4,
    "cells": 5,
    "diffing": 5,
    "parallel": 5,
    "streams": 5,
    "timeline": 5,
    "trimming": 5,
    "codec": 6,
    "parsing": 7,
    "store": 7,
    "adapters": 8,
    "cli": 9,  # replays what adapters load, so it stands above them
    "testing": 8,
    "ui": 9,
}

# The doors: they may open every room, and no room opens them.
DOORS = {"", "__main__"}

# Rooms whose modules answer one contract each, and so know nothing of each
# other; what they share is in the package itself or in a private module of it.
APART = {"adapters"}

# Which rooms, or which modules of a room, name a third party.
EVERYWHERE = {"attr", "attrs"}
THIRD_PARTIES = {
    "agents": {"adapters.agents"},
    "anthropic": {"adapters.anthropic"},
    "anyio": {"_waiting", "streams"},
    "cattrs": {"codec"},
    "click": {"cli"},
    "docstring_parser": {"tools"},
    "genai_prices": {"counting"},
    "google": {"adapters.gemini"},
    "gotpl": {"templates"},
    "hypothesis": {"testing"},
    "jinja2": {"templates"},
    "langchain_core": {
        "adapters._langchain",
        "adapters.langchain",
        "adapters.langgraph",
    },
    "langgraph": {"adapters.langgraph"},
    "mistral_common": {"counting"},
    "msgspec": {"tools"},
    "openai": {"adapters.openai_chat", "adapters.openai_responses"},
    "orjson": {"_canonical", "codec"},
    "psycopg": {"store"},
    "pydantic": {"adapters.pydantic_ai"},
    "pydantic_ai": {"adapters.pydantic_ai"},
    "pyrsistent": {"_persistent"},
    "pytest": {"testing"},
    "rich": {"cli"},
    "sqlite3": {"store"},
    "tiktoken": {"counting"},
}


def module_name(path: Path) -> str:
    """
    The dotted name of a file of ours below the house: "" for the front door.
    """
    parts = path.relative_to(ROOT / HOUSE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted((ROOT / HOUSE).rglob("*.py"))
MODULES = {module_name(path) for path in FILES}


def imports(tree: ast.AST, package: str) -> Iterator[str]:
    """
    The absolute name of everything *tree* imports, wherever in it.

    `from a import b` is `a.b`, whether *b* is a module or not; *package* is
    what relative imports are relative to.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                steps = package.split(".")
                above = steps[: len(steps) - level + 1] if level else []
                origin = ".".join([*above, *([module] if module else [])])
                yield from (f"{origin}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module")
                | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def ours(importer: str, target: str, modules: Iterable[str]) -> str:
    """
    Why *importer* must not import *target*, both below the house; else "".
    """
    room, _, _ = importer.partition(".")
    other, _, rest = target.partition(".")

    if other not in FLOORS:
        return "that is the front door; import the room it comes from"
    if other != room:
        return (
            ""
            if FLOORS[other] < FLOORS[room]
            else f"floor {FLOORS[room]} imports only lower floors, "
            f"and {other} is on floor {FLOORS[other]}"
        )
    if room in APART and rest:
        sibling = f"{room}.{rest.partition('.')[0]}"
        own = f"{importer}.".startswith(f"{sibling}.")
        if sibling in modules and not own and not rest.startswith("_"):
            return f"modules of {room} know nothing of each other"

    return ""


def violations(
    source: str, importer: str, modules: Iterable[str], *, is_package: bool = False
) -> list[str]:
    """
    What is wrong with the imports of module *importer* of the house.
    """
    if importer in DOORS:
        return []

    room, _, _ = importer.partition(".")
    if room not in FLOORS:
        return [f"{room} is on no floor: give it one in FLOORS, and in the design"]

    here = f"{HOUSE}.{importer}"
    package = here if is_package else here.rpartition(".")[0]
    found = []
    for name in imports(ast.parse(source), package):
        top, _, target = name.partition(".")
        if top == HOUSE:
            wrong = ours(importer, target, modules)
        elif top in THIRD_PARTIES:
            rooms = THIRD_PARTIES[top]
            named = any(f"{importer}.".startswith(f"{each}.") for each in rooms)
            wrong = "" if named else f"only {', '.join(sorted(rooms))} may name it"
        elif top in EVERYWHERE or top in sys.stdlib_module_names:
            wrong = ""
        else:
            wrong = "a third party without a room: give it one in THIRD_PARTIES"
        if wrong:
            found.append(f"{importer} imports {name}: {wrong}")

    return found


@pytest.mark.parametrize(
    "path", FILES, ids=[path.relative_to(ROOT).as_posix() for path in FILES]
)
def test_imports_lower_floors_only(path):
    """
    A room imports lower floors only, and only its own third parties.
    """
    found = violations(
        path.read_text(encoding="utf-8"),
        module_name(path),
        MODULES,
        is_package=path.name == "__init__.py",
    )

    assert [] == found


class TestViolations:
    """
    The check above sees what it should see, and nothing else.
    """

    MODULES = frozenset(
        {
            "adapters",
            "adapters._export",
            "adapters.anthropic",
            "adapters.gemini",
            "errors",
            "messages",
            "store",
            "store.sqlite",
        }
    )

    @pytest.mark.parametrize(
        ("importer", "source"),
        [
            ("messages", "import conversation_state.codec"),
            ("messages", "from conversation_state.codec import encode"),
            ("messages", "from conversation_state import codec"),
            ("messages", "from . import codec"),
            ("messages", "from .codec import encode"),
            ("messages", "def f():\n    from .codec import encode"),
            ("messages", "if TYPE_CHECKING:\n    from .codec import Codec"),
            ("messages", "importlib.import_module('conversation_state.codec')"),
            ("messages", "__import__('conversation_state.codec')"),
            ("_persistent", "from .errors import ConversationStateError"),
            ("store", "from .parsing import parse"),
            ("store.sqlite", "from ..testing import laws"),
        ],
    )
    def test_upward_and_sideways(self, importer, source):
        """
        Seen however it is written: above, beside, in a function, for types.
        """
        (found,) = violations(source, importer, self.MODULES)

        assert "imports only lower floors" in found

    @pytest.mark.parametrize(
        "source",
        [
            "import conversation_state",
            "from conversation_state import Aggregator",
            "from conversation_state import __version__",
            "from . import Aggregator",
            "from conversation_state import *",
        ],
    )
    def test_front_door(self, source):
        """
        No room takes a name from the front door.
        """
        (found,) = violations(source, "cli", self.MODULES)

        assert "that is the front door" in found

    @pytest.mark.parametrize(
        "source",
        [
            "from .gemini import load",
            "from . import gemini",
            "from conversation_state.adapters import gemini",
            "import conversation_state.adapters.gemini",
        ],
    )
    def test_adapters_apart(self, source):
        """
        An adapter knows no other adapter, and the package knows none.
        """
        (found,) = violations(source, "adapters.anthropic", self.MODULES)
        (by_package,) = violations(source, "adapters", self.MODULES, is_package=True)

        assert "know nothing of each other" in found
        assert "know nothing of each other" in by_package

    @pytest.mark.parametrize(
        ("importer", "source"),
        [
            ("codec", "import pyrsistent"),
            ("messages", "from cattrs.gen import make_dict_unstructure_fn"),
            ("timeline", "def f():\n    import sqlite3"),
            ("adapters.gemini", "import anthropic"),
            ("cli.main", "import hypothesis"),
        ],
    )
    def test_third_party_in_another_room(self, importer, source):
        """
        A third party is named in its own room and nowhere else.
        """
        (found,) = violations(source, importer, self.MODULES)

        assert "may name it" in found

    def test_third_party_without_room(self):
        """
        A third party nobody heard of needs a room first.
        """
        (found,) = violations("import numpy", "counting", self.MODULES)

        assert "without a room" in found

    def test_room_without_floor(self):
        """
        A room nobody heard of needs a floor first.
        """
        (found,) = violations("", "attic", self.MODULES)

        assert "attic is on no floor" in found

    def test_sees_every_one(self):
        """
        One bad import does not hide the next.
        """
        source = "import numpy, pyrsistent\nfrom . import codec"

        assert 3 == len(violations(source, "usage", self.MODULES))

    @pytest.mark.parametrize(
        ("importer", "source"),
        [
            ("messages", "import attrs, json\nfrom conversation_state import parts"),
            ("codec", "import cattrs, orjson\nfrom .messages import Message"),
            ("cli", "from .main import main"),
            ("cli.main", "import click, rich\nfrom ..store import open_store"),
            ("store.postgres", "import psycopg\nfrom .sqlite import schema"),
            ("adapters.gemini", "from . import Export\nfrom ._export import Lost"),
            ("adapters.gemini", "from google import genai"),
            ("", "from .codec import encode"),
        ],
    )
    def test_allowed(self, importer, source):
        """
        Lower floors, the room itself and its own third parties are fine.
        """
        found = violations(source, importer, self.MODULES, is_package=importer == "cli")

        assert [] == found


class TestFrontDoor:
    """
    `import conversation_state` is light, and what it shows is chosen.
    """

    def test_light(self):
        """
        Importing the package loads no third party but those of the state
        itself, and no event loop.
        """
        script = (
            "import sys; before = set(sys.modules); "
            f"import {HOUSE}; "
            "print(*{name.partition('.')[0] for name in {*sys.modules} - before})"
        )
        loaded = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            cwd=ROOT,
            text=True,
        ).stdout.split()

        assert HOUSE in loaded
        assert set() == ({"asyncio", *THIRD_PARTIES} - {"pyrsistent"}) & {*loaded}

    def test_names(self):
        """
        At most thirty names, sorted, and all of them there.
        """
        names = conversation_state.__all__

        assert sorted(names) == list(names)
        assert 30 >= len(names)
        assert [] == [name for name in names if not hasattr(conversation_state, name)]


@pytest.mark.parametrize(
    "path",
    sorted(TESTS.rglob("test_*.py")),
    ids=lambda path: path.relative_to(TESTS).as_posix(),
)
def test_every_test_states_its_promise(path):
    """
    Every test has a docstring.
    """
    silent = [
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert [] == silent
