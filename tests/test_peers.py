"""
The laws checked on other libraries: what `peers` shows is true of the installed ones.
"""

import inspect
import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from peers.__main__ import main
from peers.laws import (
    LAWS,
    MAX_LINES,
    ChangedPeerError,
    Example,
    Peer,
    all_examples,
    examples_of,
)
from peers.page import update_page, without_versions

DOCS = Path(__file__).resolve().parent.parent / "docs"
EXAMPLES = list(all_examples())


def name_example(example):
    """The module and the function of an example, as a test's id."""
    return f"{example.function.__module__}.{example.function.__name__}"


def example_of(function, *, kept=False):
    """An example of a library that is installed wherever tests run."""
    peer = Peer("Pytest", "pytest", "peers.md")
    return Example(peer, "merging is associative", kept, function)


class TestExamples:
    @pytest.mark.parametrize("example", EXAMPLES, ids=name_example)
    def test_shows_what_is_true(self, example):
        """A peer breaks or keeps a law as its example shows; see the message if not."""
        if example.peer.version is None:
            pytest.skip(f"{example.peer.name} is not installed; make peers runs this")

        example.run()

    @pytest.mark.parametrize("example", EXAMPLES, ids=name_example)
    def test_is_short(self, example):
        """An example has at most ten lines, a sentence, and a law that is promised."""
        lines = [line for line in example.lines if line]

        assert MAX_LINES >= len(lines) > 1
        assert example.sentence.endswith(".")
        assert example.law in LAWS

    @pytest.mark.parametrize("example", EXAMPLES, ids=name_example)
    def test_runs_by_itself(self, example):
        """The lines that are shown are all that an example needs."""
        used = inspect.getclosurevars(example.function)

        assert {} == {**used.globals, **used.nonlocals}


class TestChangedPeer:
    def test_mended(self):
        """
        When a peer begins to keep a law that it broke, the example fails with what to
        change.
        """

        def mended():
            assert {"wrong"} == {"right"}

        with pytest.raises(ChangedPeerError) as caught:
            example_of(mended).run()

        assert str(caught.value).startswith(
            f"Pytest {pytest.__version__} no longer breaks the law "
            "'merging is associative' as it did (tests.test_peers.mended)."
        )
        assert "run `make peers`" in str(caught.value)
        assert "docs/peers.md" in str(caught.value)

    def test_broken(self):
        """So it does the day a peer breaks a law that it kept."""

        async def broken():
            assert {"wrong"} == {"right"}

        with pytest.raises(ChangedPeerError, match="no longer keeps the law"):
            example_of(broken, kept=True).run()


class TestPage:
    @pytest.mark.parametrize("page", sorted({*LAWS.values()}))
    def test_links(self, page):
        """Each law links a page that there is."""
        assert (DOCS / page).is_file()

    def test_is_current(self):
        """The page has these examples, whatever is installed."""
        page = (DOCS / "peers.md").read_text(encoding="utf-8")
        rows = [example.row() for example in EXAMPLES]

        assert without_versions(page) == without_versions(update_page(page, rows))


class TestCommand:
    def test_json(self, capsys):
        """The command gives one JSON object for each example."""
        assert 0 == main(["--json", "langchain"])

        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

        assert [
            {**each.row(), "changed": ""} for each in examples_of("langchain").all
        ] == rows

    def test_changed(self, capsys, monkeypatch):
        """A peer that changed is shown with what to do, and the command fails."""

        def mended():
            """What was wrong is right."""
            assert {"wrong"} == {"right"}

        monkeypatch.setattr(examples_of("langchain"), "all", [example_of(mended)])

        assert 1 == main(["langchain"])

        [line, why] = capsys.readouterr().out.splitlines()

        assert "CHANGED" in line
        assert "run `make peers`" in why

    def test_elsewhere(self, capsys, monkeypatch):
        """What is not installed here is run by another interpreter."""
        monkeypatch.setattr(Peer, "version", None)

        assert 0 == main(["--json", "--also", sys.executable, "langchain"])

        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

        assert len(examples_of("langchain").all) == len(rows)
        assert {version("langchain-core")} == {row["version"] for row in rows}

    def test_missing(self, capsys, monkeypatch, tmp_path):
        """
        What is installed nowhere is left out, and the page is not written without it.
        """
        monkeypatch.setattr(Peer, "version", None)

        assert 0 == main(["langchain"])
        assert "left out: langchain" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            main(["--page", str(tmp_path / "page.md"), "langchain"])

        assert not (tmp_path / "page.md").exists()
