"""What the documentation's site is built from."""

import ast
import re
from pathlib import Path

import pytest

from tools import pictures

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE = re.compile(r"^```python\n((?!>>>).*?)^```$", re.MULTILINE | re.DOTALL)
HIDDEN = re.compile(r"<!-+ invisible-code-block: python\n(.*?)-->", re.DOTALL)


class TestIndex:
    def test_pages(self):
        """Every page of the documentation is listed in the index."""
        index = (ROOT / "docs" / "index.md").read_text("utf-8")
        listed = set(re.findall(r"\]\((\w[^):#]*\.md)", index))
        pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}

        assert pages == listed


class TestLinks:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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


class TestExamples:
    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
    def test_can_be_pasted(self, page):
        """No example needs what only code that is not shown defines."""
        text = page.read_text("utf-8")
        _, hidden = read_names(HIDDEN.findall(text))
        used, shown = read_names(EXAMPLE.findall(text))

        assert set() == used & hidden - shown


def read_names(examples):
    """The names that Python code uses, and those that it defines."""
    used: set[str] = set()
    defined: set[str] = set()
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for node in ast.walk(compile("\n".join(examples), "page", "exec", flags)):
        match node:
            case ast.Name():
                (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
            case ast.alias():
                defined.add((node.asname or node.name).partition(".")[0])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                defined.add(node.name)

    return used, defined


class TestPictures:
    @pytest.mark.parametrize("path", pictures.PICTURES, ids=lambda path: path.stem)
    def test_current(self, path):
        """Each picture is what the library gives now: `python -m tools.pictures`."""
        drawn = pictures.PICTURES[path]()

        assert path.read_text(encoding="utf-8") == drawn
