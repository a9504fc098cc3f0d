"""The pager of the commands that print long text, at a terminal."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.messages import UserMessage
from conversation_state.store import open_store
from tests.commands import MAIN, ROOT, Commands

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such terminals")

COPY = """
import pathlib, sys
pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())
"""
ASKED = UserMessage("When is the next train?")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def run(tmp_path):
    """The commands on a store with a short conversation."""
    with open_store(tmp_path / "chats.db") as store:
        store.save("short", Aggregator.new().add(ASKED))

    return Commands(tmp_path)


class Terminal:
    """A terminal, and a pager that writes what it gets into a file."""

    def __init__(self, run):
        self.url = run.url
        self.pages = run.folder / "pages"
        self.pager = shlex.join([sys.executable, "-c", COPY, str(self.pages)])

    def __call__(self, *args, status=0, **env):
        """What was paged, and what was printed on the terminal itself."""
        self.pages.unlink(missing_ok=True)
        known = {**os.environ, "TERM": "xterm", "PAGER": self.pager}
        for name in ("NO_COLOR", "NO_PAGER"):
            known.pop(name, None)

        screen, terminal = os.openpty()
        try:
            result = subprocess.run(
                [*MAIN, *args, "--store", self.url],
                check=False,
                cwd=ROOT,
                env={**known, **env},
                stdout=terminal,
                stderr=subprocess.PIPE,
                text=True,
            )
            os.set_blocking(screen, False)
            try:
                shown = os.read(screen, 4_000).decode().replace("\r\n", "\n")
            except BlockingIOError:
                shown = ""
        finally:
            os.close(terminal)
            os.close(screen)

        assert status == result.returncode, result.stderr
        self.stderr = result.stderr
        return self.pages.read_text() if self.pages.exists() else None, shown


@pytest.fixture
def terminal(run):
    """A terminal with a pager."""
    return Terminal(run)


@pytest.mark.integration
class TestPager:
    """What is long goes through the user's pager, at a terminal alone."""

    @pytest.mark.parametrize(
        "command", [["show", "short"], ["log", "short"], ["tree", "short"]]
    )
    def test_pages(self, run, terminal, command):
        """
        The pager gets what a pipe gets, in colour; the terminal nothing beside it.
        """
        pages, shown = terminal(*command)

        assert "" == shown == terminal.stderr
        assert "\x1b[" in pages
        assert run(*command).stdout == COLOURS.sub("", pages)

    @pytest.mark.parametrize(
        ("args", "env"),
        [
            (["--no-pager"], {}),
            ([], {"NO_PAGER": "1"}),
            ([], {"PAGER": ""}),
            ([], {"PAGER": "no-such-pager-anywhere -x"}),
            ([], {"PAGER": "less 'unbalanced"}),
            ([], {"TERM": "dumb"}),
            (["--json"], {}),
        ],
    )
    def test_without(self, terminal, args, env):
        """If it is not wanted, or not there, all is printed at once."""
        pages, shown = terminal("show", "short", *args, **env)

        assert pages is None
        assert "When is the next train?" in shown

    def test_left_early(self, run, terminal):
        """A user who has seen enough has done nothing wrong."""
        with open_store(run.path) as store:
            store.save("long", store.load("short").extend([ASKED] * 3_000))

        quits = shlex.join([sys.executable, "-c", ""])
        _, shown = terminal("show", "long", PAGER=quits)

        assert "" == shown == terminal.stderr

    def test_an_error_comes_after(self, terminal):
        """An error ends the pager, is on stderr, and is the exit status."""
        pages, shown = terminal("trim", "short", "--limit", "1", status=1)

        assert "" == pages == shown
        assert "no valid view of 'short' fits" in terminal.stderr

    def test_options_of_less(self, terminal):
        """Where `less` has none, those for colours and for one screen are set."""
        script = "import os, sys, pathlib; pathlib.Path(sys.argv[1]).write_text("
        script += "os.environ['LESS'])"
        pager = shlex.join([sys.executable, "-c", script, str(terminal.pages)])
        less = os.environ.get("LESS", "FRX")

        assert less == terminal("show", "short", PAGER=pager)[0]
        assert "-S" == terminal("show", "short", PAGER=pager, LESS="-S")[0]
