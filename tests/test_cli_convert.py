"""Sessions of coding agents at the command line: `convert`, and `export`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from conversation_state.adapters.sessions import (
    WRITTEN,
    dump_session,
    load_session,
    read_session,
)
from conversation_state.cli._commands import cli
from tests.commands import Commands

GOLDEN = Path(__file__).resolve().parent / "golden" / "sessions"
CLAUDE = next((GOLDEN / "claude_code-2.1.332").glob("*.jsonl"))


def convert(*args, status=0, data=None):
    """What the command printed, if it ended with that status."""
    result = CliRunner().invoke(cli, ["convert", *map(str, args)], input=data)

    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert status == result.exit_code, result.output
    return result


def texts(session):
    """The texts of the live branch."""
    return [message.text for message in session.tree.present]


class TestConvert:
    """The command `convert`."""

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_written(self, kind):
        """What is printed is what `dump_session` returns, and what it lists as lost."""
        result = convert(CLAUDE, "--to", kind, "--cwd", "/home/mia", "--title", "New")
        expected = dump_session(
            read_session(CLAUDE), kind, cwd="/home/mia", title="New"
        )
        payload = expected.payload
        lines = [json.loads(line) for line in result.stdout.splitlines()]

        assert (payload if isinstance(payload, list) else [payload]) == lines
        reported = [line for line in result.stderr.splitlines() if "lost in" in line]
        assert len(reported) == min(len(expected.lost), 11)
        assert all(f"lost in {kind}: " in line for line in reported)

    def test_provider(self):
        """A request has the live branch as the model gets it."""
        [line] = convert(CLAUDE, "--to", "openai_chat").stdout.splitlines()
        first, *_ = json.loads(line)["messages"]

        assert first["content"] == "This session continues. Summary: add() is wrong."

    def test_places(self, tmp_path):
        """A session is a file, the folder beside it, or standard input."""
        target = tmp_path / "out.jsonl"
        convert(CLAUDE.with_suffix(""), "--to", "pi", "-o", target)
        data = CLAUDE.read_bytes()
        piped = convert("-", "--to", "pi", "--format", "claude_code", data=data)

        assert target.read_text() == piped.stdout
        assert texts(load_session(piped.stdout)) == texts(read_session(CLAUDE))

    @pytest.mark.parametrize("place", [".", "..", ""])
    def test_folder_without_a_name(self, tmp_path, monkeypatch, place):
        """The folder may be the current one, or the one above."""
        folder = tmp_path / "s"
        (folder / "inner").mkdir(parents=True)
        (tmp_path / "s.jsonl").write_bytes(CLAUDE.read_bytes())
        monkeypatch.chdir(folder / "inner" if place == ".." else folder)

        assert (
            convert(CLAUDE, "--to", "pi").stdout == convert(place, "--to", "pi").stdout
        )

    def test_root(self):
        """A folder without sessions is refused, the root of all, too."""
        assert (
            "(*.jsonl); name one" in convert(Path("/"), "--to", "pi", status=2).stderr
        )

    def test_refused(self, tmp_path):
        """What is no session, is missing or has no such format is refused shortly."""
        other = tmp_path / "notes.md"
        other.write_text("# Notes")
        asked = {
            (other, "--to", "pi"): "notes.md: no session; expected claude_code, codex",
            (tmp_path / "none", "--to", "pi"): "none: no such file; ",
            (CLAUDE, "--to", "cursor"): "'cursor' is not one of 'claude_code'",
            (CLAUDE, "--to", "pi", "--format", "x"): "'x' is not one of 'claude_code'",
        }

        for args, expected in asked.items():
            assert expected in convert(*args, status=2).stderr

    def test_mended(self):
        """What was wrong in a session is reported, and the rest is written."""
        data = CLAUDE.read_bytes() + b'{"type": "us'
        result = convert("-", "--to", "codex", data=data)

        assert "-: line 32: is no JSON object; kept as it is" in result.stderr
        assert texts(load_session(result.stdout))[-1] == "Fixed."


class TestExport:
    """The command `export`, with the names of these formats."""

    def test_branches(self, tmp_path):
        """A name is written with its branches, and a revision is one of them."""
        run = Commands(tmp_path)
        run("import", CLAUDE)
        name = read_session(CLAUDE).name
        whole = load_session(run("export", name, "--format", "claude_code").stdout)
        one = load_session(run("export", f"{name}@-1", "--format", "codex").stdout)

        assert texts(whole) == texts(read_session(CLAUDE))
        assert len(whole.tree) == len(read_session(CLAUDE).tree)
        assert len(one.tree.leaves) == 1

    def test_refused(self, tmp_path):
        """Such a file has one conversation, under its own id."""
        run = Commands(tmp_path)
        run("import", CLAUDE)
        name = read_session(CLAUDE).name
        for args in ([name, name], [name, "--id"]):
            result = run("export", *args, "--format", "pi", status=2)

            assert "pi is the file of one NAME, without --id" in result.stderr
