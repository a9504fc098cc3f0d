"""
Makes the sources of the documentation's site, for Sphinx.

    python -m tools.site_sources build/docs/source

People read the pages on a forge, too, so nothing in them is meant for Sphinx
alone. What it needs besides is made here: copies of the pages whose links lead to
pages of the site, the tables of contents from the headings and lists of
`docs/index.md`, a page for every public module and class, and the pages as plain
text for language models (`llms.txt`).
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from inspect import getdoc, isroutine
from pathlib import Path
from typing import NamedTuple

from tools.public_names import (
    PACKAGE,
    PublicName,
    list_public_modules,
    list_public_names,
)

__all__ = ["GROUPS", "make_sources"]

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
INDEX = DOCS / "index.md"
PICTURES = {".png", ".svg"}
# For Sphinx, and for the site as they are.
FOLDERS = ("source", "extra")
# Pages that stand beside `docs`, and their names in the site.
ROOT_PAGES = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
# The modules of the reference, in the order of its table of contents.
GROUPS: Mapping[str, Sequence[str]] = {
    "Conversations": [
        "",
        "aggregator",
        "messages",
        "parts",
        "documents",
        "tools",
        "usage",
        "errors",
    ],
    "Models": [
        "adapters",
        "adapters.openai_chat",
        "adapters.openai_responses",
        "adapters.anthropic",
        "adapters.gemini",
        "adapters.bubo",
        "adapters.eino",
        "adapters.otel",
        "adapters.transcripts",
        "chunks",
        "streams",
        "counting",
        "trimming",
        "templates",
        "parsing",
    ],
    "Frameworks": [
        "adapters.langchain",
        "adapters.langgraph",
        "adapters.pydantic_ai",
        "adapters.agents",
    ],
    "Branches and history": [
        "parallel",
        "cells",
        "timeline",
        "tree",
        "diffing",
        "diffing.drawing",
        "rendering",
        "pages",
        "pages.server",
    ],
    "Bytes and stores": [
        "codec",
        "store",
        "store.backend",
        "store.backends",
        "store.backends.memory",
        "store.backends.sqlite",
        "store.backends.postgres",
        "store.log",
        "store.records",
        "store.schema",
    ],
    "Tests": [
        "testing",
        "testing.strategies",
        "testing.laws",
        "testing.machines",
        "testing.stores",
    ],
    "The command line": ["cli.main", "cli.replay"],
}

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
FILE = re.compile(r"\]\(files/([^)#\s]+)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:(?!^## ).*\n?)*)", re.MULTILINE)
ATTRIBUTE = re.compile(r"^    (\w+): ", re.MULTILINE)
ENTRY = re.compile(r"^- \[(?P<text>[^]]+)\]\((?P<path>[^)]+)\)", re.MULTILINE)


# Pages, and links between them.


def map_link(path: str, folder: Path) -> str:
    """
    Where a link to *path*, in a page in *folder*, leads in the site.

    >>> map_link("../README.md", DOCS), map_link("docs/store.md", ROOT)
    ('readme.md', 'store.md')
    >>> map_link("examples/web_chat.py", ROOT), map_link("view.svg", DOCS)
    ('examples/web_chat.md', 'view.svg')
    >>> map_link("../pyproject.toml", DOCS)
    'files/pyproject.toml'
    """
    target = (folder / path).resolve()
    if not target.exists():
        msg = f"a page in {folder} has a link to {path}, which does not exist"
        raise SystemExit(msg)

    if target == EXAMPLES:
        return "examples/index.md"

    if target.parent == DOCS:
        return target.name

    if target.parent == EXAMPLES and target.suffix == ".py":
        return f"examples/{target.stem}.md"

    if target.parent == ROOT and target.name in ROOT_PAGES:
        return ROOT_PAGES[target.name]

    if target.is_file() and target.is_relative_to(ROOT):
        return f"files/{target.relative_to(ROOT).as_posix()}"

    msg = f"a page in {folder} has a link to {path}, which is not in the site"
    raise SystemExit(msg)


def map_links(text: str, folder: Path) -> str:
    """
    *text* with the links that it has in the site; its code blocks stay.

    >>> map_links("[a](docs/store.md)", ROOT)
    '[a](store.md)'
    """
    pieces = FENCE.split(text)
    pieces[::2] = [
        LINK.sub(lambda match: map_link(match[1], folder), piece)
        for piece in pieces[::2]
    ]
    return "".join(pieces)


class Section(NamedTuple):
    """
    A section of the index that lists pages.

    Attributes:
        entries: The text and the path of each link, as in the site.
    """

    title: str
    entries: Sequence[tuple[str, str]]


def read_sections(index: str) -> list[Section]:
    """
    The sections of the index.
    """
    return [
        Section(
            match["title"],
            [
                (entry["text"], map_link(entry["path"], DOCS))
                for entry in ENTRY.finditer(match["body"])
            ],
        )
        for match in SECTION.finditer(index)
    ]


def add_contents(index: str, sections: Sequence[Section]) -> str:
    """
    The index with a table of contents for each of its sections.
    """
    lines = [map_links(index, DOCS)]
    for section in sections:
        lines += ["", "```{toctree}", ":hidden:", f":caption: {section.title}", ""]
        lines += [f"{text} <{path}>" for text, path in section.entries]
        if section.title == "Reference":
            lines.append("Every public name <reference/index>")
        lines.append("```")

    return "\n".join([*lines, ""])


def make_example_pages() -> Iterator[tuple[str, str]]:
    """
    The name and the text of a page for each program of `examples`, and of a list.
    """
    listed, contents = [], []
    for path in sorted(EXAMPLES.glob("*.py")):
        code = path.read_text(encoding="utf-8").rstrip()
        yield f"examples/{path.stem}.md", f"# {path.name}\n\n````python\n{code}\n````\n"
        purpose = summarize(ast.get_docstring(ast.parse(code)) or "")
        listed.append(f"- [{path.name}]({path.stem}.md): {purpose}")
        contents.append(f"{path.name} <{path.stem}>")

    table = ["```{toctree}", ":hidden:", "", *contents, "```"]
    yield "examples/index.md", "\n".join(["# Programs", "", *listed, "", *table, ""])


def summarize(doc: str) -> str:
    """
    The first paragraph of a docstring, on one line.
    """
    return " ".join(doc.partition("\n\n")[0].split())


# The reference.


def format_heading(text: str, underline: str) -> list[str]:
    """
    A heading of reStructuredText.
    """
    return [text, underline * len(text), ""]


def list_members(cls: type) -> list[str]:
    """
    The methods and properties of a class that this package documents: its own and
    those it inherits, without what another package or Python brings, and without
    the attributes that the docstring of the class describes.
    """
    _, _, attributes = (getdoc(cls) or "").partition("Attributes:\n")
    described = set(ATTRIBUTE.findall(attributes))
    found: dict[str, None] = {}
    for each in reversed(cls.__mro__):
        if not each.__module__.startswith(PACKAGE):
            continue

        for name, value in vars(each).items():
            special = name.startswith("__") and name.endswith("__")
            if name.startswith("_") and not special:
                continue
            inner = getattr(value, "__func__", value)
            if special and not (isroutine(inner) and inner.__doc__):
                continue
            if getdoc(inner) and (isroutine(inner) or isinstance(inner, property)):
                found[name] = None

    return [name for name in found if name not in described | {"__init__"}]


def describe_class(public: PublicName) -> list[str]:
    """
    The directives that describe a class and its members.
    """
    members = list_members(public.value)
    plain = [name for name in members if not name.startswith("__")]
    special = [name for name in members if name.startswith("__")]
    lines = [f".. autoclass:: {public.name}"]
    if public.kind == "exception":
        lines.append("   :show-inheritance:")
    if plain:
        lines.append(f"   :members: {', '.join(plain)}")
    if special:
        lines.append(f"   :special-members: {', '.join(special)}")

    return [*lines, ""]


def describe_data(public: PublicName) -> list[str]:
    """
    The directives that describe a constant or an alias.
    """
    lines = [f".. py:data:: {public.name}", ""]
    return [*lines, *(f"   {line}" for line in public.comment.splitlines()), ""]


def make_class_page(public: PublicName) -> str:
    """
    The page of one class.
    """
    lines = [
        *format_heading(public.name, "="),
        f".. py:currentmodule:: {public.owner}",
        "",
        *describe_class(public),
    ]
    return "\n".join(lines)


def make_module_page(module: str, names: Sequence[PublicName]) -> str:
    """
    The page of one module: its functions, constants and errors, with links to the
    pages of its classes and to what it exports from elsewhere.
    """
    own = [public for public in names if public.owner == module]
    elsewhere = [public for public in names if public.owner != module]
    lines = [
        *format_heading(module, "="),
        f".. automodule:: {module}",
        "   :no-members:",
        "",
    ]
    if classes := [public for public in own if public.kind == "class"]:
        lines += [*format_heading("Classes", "-"), ".. autosummary::", ""]
        lines += [f"   {public.name}" for public in classes]
        lines += ["", ".. toctree::", "   :hidden:", ""]
        lines += [f"   {public.path}" for public in classes]
        lines.append("")
    if functions := [public for public in own if public.kind == "function"]:
        lines += format_heading("Functions", "-")
        for public in functions:
            lines += [f".. autofunction:: {public.name}", ""]
    if errors := [public for public in own if public.kind == "exception"]:
        lines += format_heading("Errors", "-")
        for public in errors:
            lines += describe_class(public)
    if data := [public for public in own if public.kind == "data"]:
        lines += format_heading("Constants and types", "-")
        for public in data:
            lines += describe_data(public)
    if elsewhere:
        lines += [*format_heading("Also here", "-")]
        lines += [f"- :py:obj:`{public.path}`" for public in elsewhere]
        lines.append("")

    return "\n".join(lines)


def qualify_module(name: str) -> str:
    """
    The whole name of a module of `GROUPS`.
    """
    return f"{PACKAGE}.{name}" if name else PACKAGE


def check_groups() -> None:
    """
    Stop unless every public module is in one group of the reference.
    """
    grouped = [qualify_module(name) for names in GROUPS.values() for name in names]
    public = list_public_modules()
    if sorted(grouped) != sorted(public):
        differing = sorted(set(grouped) ^ set(public))
        msg = f"GROUPS in tools/site_sources.py and the public modules: {differing}"
        raise SystemExit(msg)


def make_reference_index() -> str:
    """
    The first page of the reference: every module, and what it is for.
    """
    lines = format_heading("Reference", "=")
    for title, names in GROUPS.items():
        lines += format_heading(title, "-")
        for name in names:
            module = qualify_module(name)
            purpose = summarize(getdoc(import_module(module)) or "")
            lines.append(f"- :py:mod:`{module}`: {purpose}")
        lines += ["", ".. toctree::", "   :hidden:", ""]
        lines += [f"   {qualify_module(name)}" for name in names]
        lines.append("")

    return "\n".join(lines)


def make_reference() -> Iterator[tuple[str, str]]:
    """
    The name and the text of every page of the reference.
    """
    check_groups()
    public = list_public_names()
    yield "index.rst", make_reference_index()
    for module in list_public_modules():
        names = [each for each in public if each.module == module]
        yield f"{module}.rst", make_module_page(module, names)

    for each in public:
        if each.kind == "class" and each.owner == each.module:
            yield f"{each.path}.rst", make_class_page(each)


# For language models.


def make_plain_texts(
    index: str, sections: Sequence[Section], pages: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """
    `llms.txt`, which lists the pages; `llms-full.txt`, which holds them; and each
    page as Markdown beside its HTML.
    """
    title, _, rest = index.partition("\n\n")
    summary, _, rest = rest.partition("\n")
    yield "llms.txt", map_links(f"{title}\n\n> {summary}\n\n{rest}", DOCS)
    paths = [path for section in sections for _, path in section.entries]
    yield "llms-full.txt", "\n".join(pages[path] for path in paths)
    yield from pages.items()


# All of it.


def write_changed(path: Path, text: str) -> None:
    """
    Write *text* unless it is there already: what is newer is read again by Sphinx.
    """
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def make_sources(target: Path) -> None:
    """
    Write the sources of the site into *target*/source, and the files that go into
    the site as they are into *target*/extra; remove what no longer belongs there.
    """
    index = INDEX.read_text(encoding="utf-8")
    sections = read_sections(index)
    pages = {
        path.name: map_links(path.read_text(encoding="utf-8"), DOCS)
        for path in sorted(DOCS.glob("*.md"))
        if path != INDEX
    }
    for name, page in ROOT_PAGES.items():
        pages[page] = map_links((ROOT / name).read_text(encoding="utf-8"), ROOT)

    pages |= make_example_pages()
    texts = {f"source/{name}": text for name, text in pages.items()}
    texts["source/index.md"] = add_contents(index, sections)
    for name, text in make_reference():
        texts[f"source/reference/{name}"] = text
    for name, text in make_plain_texts(index, sections, pages):
        texts[f"extra/{name}"] = text

    copied = {
        f"source/{path.name}": path
        for path in DOCS.iterdir()
        if path.suffix in PICTURES
    }
    for text in pages.values():
        for name in FILE.findall(text):
            copied |= {f"{each}/files/{name}": ROOT / name for each in FOLDERS}

    kept = {target / name for name in (*texts, *copied)}
    for folder in FOLDERS:
        for path in [each for each in (target / folder).rglob("*") if each.is_file()]:
            if path not in kept:
                path.unlink()

    for name, text in texts.items():
        write_changed(target / name, text)
    for name, path in copied.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / name)


if __name__ == "__main__":
    make_sources(Path(sys.argv[1]))
