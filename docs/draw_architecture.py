"""
Makes the generated parts of `architecture.md`, and its picture, from the code.

    python docs/draw_architecture.py            # write them (make architecture)
    python docs/draw_architecture.py --check    # fail if they are not current

The layers come from `[tool.importlinter]` in pyproject.toml, which import-linter
holds the code to; the arrows from the import statements; what a module is for
from its docstring; the process-wide variables from the syntax trees.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "conversation_state"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "architecture.svg"
# Pages whose text names files.
WITH_PATHS = (PAGE, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md")

Layers = Sequence[Sequence[str]]
Edges = Mapping[str, set[str]]


# The code, as it stands in the files.


class Module(NamedTuple):
    """
    One file of the package.

    Attributes:
        name: Its dotted name below the package; "" for the package itself.
    """

    name: str
    path: Path
    source: str
    tree: ast.Module

    @property
    def child(self) -> str:
        """The child of the package that it is, or is in."""
        return self.name.partition(".")[0]

    @property
    def file(self) -> str:
        """Its path below the package."""
        return self.path.relative_to(ROOT / PACKAGE).as_posix()

    @property
    def purpose(self) -> str:
        """The first sentence of its docstring."""
        return first_sentence(ast.get_docstring(self.tree) or "")


def read_modules() -> list[Module]:
    """All files of the package, folder by folder."""
    found = []
    paths = (ROOT / PACKAGE).rglob("*.py")
    for path in sorted(paths, key=lambda path: (path.parent, path.name)):
        steps = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        name = ".".join(steps[:-1] if steps[-1] == "__init__" else steps)
        source = path.read_text(encoding="utf-8")
        found.append(Module(name, path, source, ast.parse(source)))

    return found


def first_sentence(text: str) -> str:
    """
    The first sentence of *text*, on one line.

    >>> first_sentence("Counts of tokens. In any order.")
    'Counts of tokens'
    """
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph)[0].removesuffix(".")


def read_layers() -> Layers:
    """The layers of pyproject.toml, the highest first."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in config["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    return [re.findall(r"\w+", layer) for layer in layers]


def read_edges(modules: Sequence[Module]) -> Edges:
    """Which children of the package each child imports."""
    edges: dict[str, set[str]] = {module.child: set() for module in modules}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue

            for name in names:
                package, _, rest = name.partition(".")
                target = rest.partition(".")[0]
                if package == PACKAGE and target in edges:
                    edges[module.child].add(target)

    return {child: targets - {child} for child, targets in edges.items()}


def find_reachable(edges: Edges, start: str) -> set[str]:
    """Everything that *start* imports, directly or through others."""
    found: set[str] = set()
    todo = list(edges[start])
    while todo:
        child = todo.pop()
        if child not in found:
            found.add(child)
            todo.extend(edges[child])

    return found


def keep_downward(edges: Edges, layers: Layers) -> Edges:
    """
    *edges* between modules of *layers*, from higher layers to lower ones.

    Those that lead up are the exceptions that pyproject.toml lists: each closes a
    circle, in which every import follows from others.

    >>> keep_downward({"a": {"b"}, "b": {"a", "c"}}, [["a"], ["b"]])
    {'a': {'b'}, 'b': set()}
    """
    rows = {name: row for row, names in enumerate(layers) for name in names}
    return {
        child: {target for target in edges[child] if rows.get(target, -1) > row}
        for child, row in rows.items()
    }


def remove_implied(edges: Edges) -> Edges:
    """
    *edges* without those that follow from others.

    >>> remove_implied({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    {'a': {'b'}, 'b': {'c'}, 'c': set()}
    """
    return {
        child: {
            target
            for target in targets
            if not any(
                target in find_reachable(edges, other) for other in targets - {target}
            )
        }
        for child, targets in edges.items()
    }


# The picture.

WIDTH, ROW, BOX, GAP, MARGIN = 720, 82, 30, 14, 20
CHARACTER = 7.3  # of the font, at its size
STYLE = """
svg { font: 13px ui-monospace, monospace }
rect { fill: #eef2f7; stroke: #8c98a7 }
rect.page { fill: #fff; stroke: none }
rect.waist { fill: #d6e8ff; stroke: #2f6fd0 }
text { fill: #1f2328; text-anchor: middle }
path { fill: none; stroke: #6b7787; stroke-opacity: .45 }
path:hover { stroke: #d0312d; stroke-opacity: 1; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
rect { fill: #1c2530; stroke: #6b7787 }
rect.page { fill: #131416 }
rect.waist { fill: #143055; stroke: #4a90e2 }
text { fill: #e6edf3 }
path { stroke: #9da7b3 }
}
"""
# All content passes through the one, and all bytes through the other.
WAIST = {"messages", "codec"}


def place_boxes(layers: Layers) -> dict[str, tuple[float, float, float]]:
    """The middle, the top and the width of each module's box."""
    places: dict[str, tuple[float, float, float]] = {}
    for row, names in enumerate(layers):
        widths = [len(name) * CHARACTER + 24 for name in names]
        left = (WIDTH - sum(widths) - GAP * (len(names) - 1)) / 2
        for name, width in zip(names, widths, strict=True):
            places[name] = (left + width / 2, MARGIN + row * ROW, width)
            left += width + GAP

    return places


def draw(layers: Layers, edges: Edges) -> str:
    """The layers as an SVG, with an arrow for each import that others don't imply."""
    places = place_boxes(layers)
    height = 2 * MARGIN + (len(layers) - 1) * ROW + BOX
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'role="img" aria-label="The layers of {PACKAGE}">'
        ),
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" '
            'style="fill: #6b7787; stroke: none"/></marker></defs>'
        ),
    ]
    drawn = remove_implied(keep_downward(edges, layers))
    for child, targets in sorted(drawn.items()):
        for target in sorted(targets):
            x, top, _ = places[child]
            to, bottom, _ = places[target]
            start = top + BOX
            bend = min(40, (bottom - start) / 2)
            lines.append(
                f'<path d="M{x:.0f} {start:.0f}C{x:.0f} {start + bend:.0f} '
                f'{to:.0f} {bottom - bend:.0f} {to:.0f} {bottom:.0f}" '
                f'marker-end="url(#tip)"><title>{child} imports {target}</title></path>'
            )

    for name, (x, top, width) in places.items():
        kind = ' class="waist"' if name in WAIST else ""
        lines += [
            (
                f'<rect{kind} x="{x - width / 2:.1f}" y="{top}" width="{width:.1f}" '
                f'height="{BOX}" rx="6"/>'
            ),
            f'<text x="{x:.1f}" y="{top + 20}">{escape(name)}</text>',
        ]

    return "\n".join([*lines, "</svg>"]) + "\n"


# What each module is for.


def describe_layers(modules: Sequence[Module], layers: Layers) -> str:
    """A table of the layers: their modules, and what each is for."""
    by_name = {module.name: module for module in modules}
    rows = [f"| `{name}` | {by_name[name].purpose} |" for row in layers for name in row]
    return "\n".join(["| module | what it is for |", "|---|---|", *rows])


# The process-wide variables.

CHANGING = {
    "Condition": "lock",
    "Context": "decimal context",
    "ContextVar": "context variable",
    "count": "counter",
    "Event": "lock",
    "Lock": "lock",
    "RLock": "lock",
    "Semaphore": "lock",
    "WeakKeyDictionary": "weak references",
    "WeakSet": "weak references",
    "WeakValueDictionary": "weak references",
    "defaultdict": "dict",
    "deque": "list",
    "local": "per thread",
}
LITERALS: Mapping[type[ast.expr], str] = {
    ast.Dict: "dict",
    ast.List: "list",
    ast.Set: "set",
}
CHANGES = {"add", "append", "clear", "extend", "pop", "popitem", "remove", "setdefault"}


def name_of(node: ast.expr) -> str:
    """The last part of a dotted name or of the function of a call; "" of others."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value

    text = ast.unparse(node)
    return text.rpartition(".")[2] if re.fullmatch(r"[\w.]+", text) else ""


def comment_above(module: Module, line: int) -> str:
    """The first sentence of the comment directly above a line."""
    found: list[str] = []
    for text in reversed(module.source.splitlines()[: line - 1]):
        if not text.lstrip().startswith("#"):
            break
        found.insert(0, text.lstrip().removeprefix("#").strip())

    return first_sentence(" ".join(found))


def find_changed(tree: ast.Module) -> tuple[set[str], set[str]]:
    """
    The global names that functions assign or that a hook of `os.fork` changes,
    and those whose items are changed.
    """
    assigned: set[str] = set()
    changed: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Global(names=names):
                assigned.update(names)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                changed.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if (
                attr in CHANGES
            ):
                changed.add(name)
            case ast.Call(func=ast.Attribute(attr="register_at_fork")):
                assigned.update(
                    keyword.value.value.id
                    for keyword in node.keywords
                    if isinstance(keyword.value, ast.Attribute)
                    and isinstance(keyword.value.value, ast.Name)
                )

    return assigned, changed


def find_variables(module: Module) -> Iterator[tuple[str, str, str]]:
    """
    The variables of one module that change while a program runs: their names,
    of what kind they are, and what they are for.

    >>> source = '''
    ... NAMES = {"a": 1}
    ... # What was asked so far.
    ... asked = {}
    ... # Held while asking.
    ... _lock = Lock()
    ... class Ask:
    ...     # Who asks.
    ...     current = ContextVar("current")
    ...     def __call__(self, name):
    ...         asked[name] = NAMES[name]
    ... '''
    >>> module = Module("a", ROOT / PACKAGE / "a.py", source, ast.parse(source))
    >>> for name, kind, purpose in find_variables(module):
    ...     print(f"{name}: {kind}: {purpose}")
    asked: dict: What was asked so far
    _lock: lock: Held while asking
    Ask.current: context variable: Who asks
    """
    assigned, changed = find_changed(module.tree)
    for scope, node in walk_scopes(module.tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = ast.unparse(target)
            kind = ""
            if isinstance(node.value, ast.Call):
                kind = CHANGING.get(name_of(node.value), "")
            elif name in changed and not scope:
                kind = LITERALS.get(type(node.value), "")
            if not kind and name in assigned:
                kind = "variable"
            if kind:
                yield f"{scope}{name}", kind, comment_above(module, node.lineno)


def walk_scopes(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """
    The statements of a module and of the bodies of its classes, each with the
    prefix that its names have.
    """
    for node in tree.body:
        yield "", node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield f"{node.name}.", inner


def find_fork_hooks(module: Module) -> list[str]:
    """What a module registers to run before or after `os.fork`."""
    return [
        f"{keyword.arg}: `{ast.unparse(keyword.value)}`"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and name_of(node) == "register_at_fork"
        for keyword in node.keywords
    ]


def describe_variables(modules: Sequence[Module]) -> str:
    """A table of all process-wide variables, and what runs at a fork."""
    lines = ["| file | variable | what it holds |", "|---|---|---|"]
    hooks = []
    for module in modules:
        lines += [
            f"| `{module.file}` | `{name}` | {purpose or kind} |"
            for name, kind, purpose in find_variables(module)
        ]
        if found := find_fork_hooks(module):
            hooks.append(f"- `{module.file}`: {', '.join(found)}")

    return "\n".join([*lines, "", "At a fork:", "", *hooks])


# The page.


def replace_part(page: str, name: str, content: str) -> str:
    """*page* with *content* between the markers *name*, which it must have."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, found, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        msg = f"a page has no part between {start.strip()} and {end}"
        raise SystemExit(msg)

    return f"{before}{start}\n{content}\n\n{end}{after}"


def make_page(page: str, modules: Sequence[Module], layers: Layers) -> str:
    """*page* with its generated parts as the code has them now."""
    page = replace_part(page, "layers", describe_layers(modules, layers))
    return replace_part(page, "variables", describe_variables(modules))


def find_missing(page: str) -> list[str]:
    """
    The paths in *page*, in backticks, that are neither files nor folders.

    >>> find_missing("`messages/`, `README.md`, `messages/__init__.py`, `no/such.py`")
    ['no/such.py']
    """
    paths = re.findall(r"`([\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|toml)))`", page)
    return sorted(
        {
            path
            for path in paths
            if not any((folder / path).exists() for folder in (ROOT, ROOT / PACKAGE))
        }
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page and the picture, or check that they are current."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check: bool = parser.parse_args(arguments).check

    modules = read_modules()
    layers = read_layers()
    made = {
        PICTURE: draw(layers, read_edges(modules)),
        PAGE: make_page(PAGE.read_text(encoding="utf-8"), modules, layers),
    }
    for path, text in made.items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old == text:
            continue
        if check:
            sys.exit(f"{path.relative_to(ROOT)} is not current: run make architecture")
        path.write_text(text, encoding="utf-8")

    for path in WITH_PATHS:
        if missing := find_missing(path.read_text(encoding="utf-8")):
            sys.exit(f"{path.relative_to(ROOT)} names {missing}, which do not exist")


if __name__ == "__main__":
    main()
