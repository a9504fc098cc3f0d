"""What the documentation's site is built from."""

import ast
import re
from pathlib import Path

import pytest

from tools import pictures

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "conversation_state"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def list_public_modules():
    """The modules without an underscore in their path that have an `__all__`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        steps = path.relative_to(ROOT).with_suffix("").parts
        steps = steps[:-1] if steps[-1] == "__init__" else steps
        names = {
            ast.unparse(target)
            for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.Assign)
            for target in node.targets
        }
        if "__all__" in names and not any(each.startswith("_") for each in steps):
            yield ".".join(steps)


class TestReference:
    def test_modules(self):
        """Every public module has its place in the reference."""
        text = (ROOT / "docs" / "reference.rst").read_text("utf-8")

        assert list(list_public_modules()) == re.findall(r"automodule:: (\S+)", text)


class TestIndex:
    def test_pages(self):
        """Every page of the documentation is listed in the index."""
        index = (ROOT / "docs" / "index.md").read_text("utf-8")
        listed = set(re.findall(r"\]\((\w[^):#]*\.md)", index))
        pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}

        assert pages == listed


class TestLinks:
    @pytest.mark.parametrize(
        "page",
        [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))],
        ids=lambda page: page.name,
    )
    def test_lead_somewhere(self, page):
        """Links between pages lead to files, and to headings that are there."""
        text = re.sub(
            r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        for path, heading in re.findall(
            r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)", text
        ):
            target = (page.parent / path).resolve() if path else page

            assert target.exists(), path
            if heading and target.suffix == ".md":
                assert heading in list_headings(target), f"{path}#{heading}"


def list_headings(page):
    """The anchors of a page's headings, as forges make them."""
    for title in re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", title.lower())
        yield plain.replace(" ", "-")


class TestPictures:
    @pytest.mark.parametrize("path", pictures.PICTURES, ids=lambda path: path.stem)
    def test_current(self, path):
        """Each picture is what the library gives now: `python -m tools.pictures`."""
        drawn = pictures.PICTURES[path]()

        assert path.read_text(encoding="utf-8") == drawn
