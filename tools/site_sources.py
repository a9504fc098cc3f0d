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
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.site_reference import make_reference, summarize

__all__ = ["make_sources"]

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
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
FILE = re.compile(r"\]\(files/([^)#\s]+)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:(?!^## ).*\n?)*)", re.MULTILINE)
ITEM = re.compile(r"^- .*$", re.MULTILINE)
ENTRY = re.compile(r"\[(?P<text>[^]]+)\]\((?P<path>[^)]+)\)")


# Pages, and links between them.


def map_link(path: str, folder: Path) -> str:
    """
    Where a link to *path*, in a page in *folder*, leads in the site.

    >>> map_link("../README.md", DOCS), map_link("docs/store.md", ROOT)
    ('readme.md', 'store.md')
    >>> map_link("examples/web_chat.py", ROOT), map_link("view.svg", DOCS)
    ('examples/web_chat.md', 'view.svg')
    >>> map_link("../pyproject.toml", DOCS), map_link("conf.py", DOCS)
    ('files/pyproject.toml', 'files/docs/conf.py')
    """
    target = (folder / path).resolve()
    if not target.exists():
        raise SystemExit(
            f"a page in {folder} has a link to {path}, which does not exist"
        )

    if target == EXAMPLES:
        return "examples/index.md"

    if target.parent == DOCS and target.suffix in {".md", *PICTURES}:
        return target.name

    if target.parent == EXAMPLES and target.suffix == ".py":
        return f"examples/{target.stem}.md"

    if target.parent == ROOT and target.name in ROOT_PAGES:
        return ROOT_PAGES[target.name]

    if target.is_file() and target.is_relative_to(ROOT):
        return f"files/{target.relative_to(ROOT).as_posix()}"

    raise SystemExit(
        f"a page in {folder} has a link to {path}, which is not in the site"
    )


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
    """The sections of the index."""
    return [
        Section(
            match["title"],
            [
                (entry["text"], map_link(entry["path"], DOCS))
                for item in ITEM.findall(match["body"])
                for entry in ENTRY.finditer(item)
            ],
        )
        for match in SECTION.finditer(index)
    ]


def add_contents(index: str, sections: Sequence[Section]) -> str:
    """The index with a table of contents for each of its sections."""
    lines = [map_links(index, DOCS)]
    for section in sections:
        lines += ["", "```{toctree}", ":hidden:", f":caption: {section.title}", ""]
        lines += [f"{text} <{path}>" for text, path in section.entries]
        if section.title == "Reference":
            lines.append("Every public name <reference/index>")
        lines.append("```")

    return "\n".join([*lines, ""])


def make_example_pages() -> Iterator[tuple[str, str]]:
    """The name and the text of a page for each program of `examples`, and of a list."""
    listed, contents = [], []
    for path in sorted(EXAMPLES.glob("*.py")):
        code = path.read_text(encoding="utf-8").rstrip()
        yield f"examples/{path.stem}.md", f"# {path.name}\n\n````python\n{code}\n````\n"
        purpose = summarize(ast.get_docstring(ast.parse(code)) or "")
        listed.append(f"- [{path.name}]({path.stem}.md): {purpose}")
        contents.append(f"{path.name} <{path.stem}>")

    table = ["```{toctree}", ":hidden:", "", *contents, "```"]
    yield "examples/index.md", "\n".join(["# Programs", "", *listed, "", *table, ""])


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


def read_pages() -> dict[str, str]:
    """The pages of the site but the index and the reference, by their paths."""
    pages = {
        path.name: map_links(path.read_text(encoding="utf-8"), DOCS)
        for path in sorted(DOCS.glob("*.md"))
        if path != INDEX
    }
    for name, page in ROOT_PAGES.items():
        pages[page] = map_links((ROOT / name).read_text(encoding="utf-8"), ROOT)

    return pages | dict(make_example_pages())


def find_files(pages: Mapping[str, str]) -> dict[str, Path]:
    """
    The pictures, and the files of the repository that pages have links to, by
    their paths below the folder of the sources.
    """
    files = {
        f"source/{path.name}": path
        for path in DOCS.iterdir()
        if path.suffix in PICTURES
    }
    for text in pages.values():
        for name in FILE.findall(text):
            files |= {f"{folder}/files/{name}": ROOT / name for folder in FOLDERS}

    return files


def write_changed(path: Path, data: bytes) -> None:
    """
    Write *data* unless it is there already: what is newer is read again by Sphinx.
    """
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def make_sources(target: Path) -> None:
    """
    Write the sources of the site into *target*/source, and the files that go into
    the site as they are into *target*/extra; remove what no longer belongs there.
    """
    index = INDEX.read_text(encoding="utf-8")
    sections = read_sections(index)
    pages = read_pages()
    texts = {f"source/{name}": text for name, text in pages.items()}
    texts["source/index.md"] = add_contents(index, sections)
    texts |= {f"source/reference/{name}": text for name, text in make_reference()}
    plain = make_plain_texts(index, sections, pages)
    texts |= {f"extra/{name}": text for name, text in plain}
    made = {name: text.encode() for name, text in texts.items()}
    made |= {name: path.read_bytes() for name, path in find_files(pages).items()}

    for folder in FOLDERS:
        for path in [each for each in (target / folder).rglob("*") if each.is_file()]:
            if path.relative_to(target).as_posix() not in made:
                path.unlink()

    for name, data in made.items():
        write_changed(target / name, data)


if __name__ == "__main__":
    make_sources(Path(sys.argv[1]))
