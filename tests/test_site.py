"""The sources of the documentation's site: what `make docs` builds it from."""

import re
from pathlib import Path

import pytest

from tools import pictures, site_reference, site_sources
from tools.public_names import list_public_names

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(scope="module")
def reference():
    """The pages of the reference by their names."""
    return dict(site_reference.make_reference())


class TestMakeReference:
    def test_names_all(self, reference):
        """
        Every name in `__all__` of every public module is on the page of this module
        and described once, in the module that owns it.
        """
        described = []
        for text in reference.values():
            (owner,) = re.findall(r"(?:automodule|currentmodule):: (\S+)", text) or [""]
            described += [
                f"{owner}.{name}"
                for name in re.findall(
                    r"\.\. (?:auto|py:)(?:class|function|data):: (\w+)$",
                    text,
                    re.MULTILINE,
                )
            ]

        names = list_public_names()

        assert sorted({public.path for public in names}) == sorted(described)
        for public in names:
            assert public.name in reference[f"{public.module}.rst"]

    def test_front_door(self, reference):
        """What the package itself exports is owned by the modules it comes from."""
        page = reference["conversation_state.rst"]

        assert ":py:obj:`conversation_state.aggregator.Aggregator`" in page
        assert ":py:obj:`conversation_state.trimming.trim`" in page
        assert "autoclass" not in page

    def test_groups(self, monkeypatch):
        """
        A public module that is in no group of the reference is an error that names
        it.
        """
        groups = {
            title: [name for name in names if name != "usage"]
            for title, names in site_reference.GROUPS.items()
        }
        monkeypatch.setattr(site_reference, "GROUPS", groups)

        with pytest.raises(SystemExit, match=r"conversation_state\.usage"):
            next(site_reference.make_reference())


class TestMapLink:
    @pytest.mark.parametrize(
        ("path", "problem"),
        [("no-such.md", "does not exist"), ("../tests", "not in the site")],
    )
    def test_refused(self, path, problem):
        """A link that leads nowhere in the site is an error, not a dead link."""
        with pytest.raises(SystemExit, match=problem):
            site_sources.map_link(path, DOCS)

    def test_code(self):
        """Code blocks are not searched for links."""
        text = "```python\nhandlers[name](value)\n```\n\n[The store](docs/store.md)\n"

        mapped = site_sources.map_links(text, DOCS.parent)

        assert text.replace("docs/", "") == mapped


class TestIndex:
    def test_lists_pages(self):
        """Every page has one line in one section of the index."""
        sections = site_sources.read_sections((DOCS / "index.md").read_text("utf-8"))
        listed = [path for section in sections for _, path in section.entries]
        pages = {path.name for path in DOCS.glob("*.md")} - {"index.md"}
        pages |= {*site_sources.ROOT_PAGES.values(), "examples/index.md"}

        assert sorted(pages) == sorted(listed)


class TestMakeSources:
    def test_removes(self, tmp_path):
        """
        What no longer belongs to the site is removed, and what has not changed
        keeps its time.
        """
        site_sources.make_sources(tmp_path)
        before = (tmp_path / "source/store.md").stat().st_mtime_ns
        (tmp_path / "source/gone.md").write_text("# Gone\n", "utf-8")
        site_sources.make_sources(tmp_path)

        assert not (tmp_path / "source/gone.md").exists()
        assert before == (tmp_path / "source/store.md").stat().st_mtime_ns

    def test_links(self, tmp_path):
        """Every file that a page has a link to is among the sources."""
        site_sources.make_sources(tmp_path)
        source = tmp_path / "source"
        links = [
            (page.name, link[1])
            for page in sorted(source.glob("*.md"))
            for piece in site_sources.FENCE.split(page.read_text("utf-8"))[::2]
            for link in site_sources.LINK.finditer(piece)
        ]

        assert ("proof.md", "files/docs/proof.json") in links
        assert [] == [link for link in links if not (source / link[1]).is_file()]

    def test_plain_texts(self, tmp_path):
        """
        Every page that `llms.txt` lists is there as Markdown, and in
        `llms-full.txt`.
        """
        site_sources.make_sources(tmp_path)
        extra = tmp_path / "extra"
        listed = (extra / "llms.txt").read_text("utf-8")
        whole = (extra / "llms-full.txt").read_text("utf-8")
        pages = re.findall(r"\]\(([^)]+)\)", listed)

        assert "store.md" in pages
        assert listed.startswith("# conversation_state\n\n> ")
        for page in pages:
            assert (extra / page).read_text("utf-8") in whole


class TestPictures:
    @pytest.mark.parametrize("path", pictures.PICTURES, ids=lambda path: path.stem)
    def test_current(self, path):
        """Each picture is what the library gives now: `python -m tools.pictures`."""
        drawn = pictures.PICTURES[path]()

        assert path.read_text(encoding="utf-8") == drawn
