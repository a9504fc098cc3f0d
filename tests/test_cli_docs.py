import json
import re
import shlex

import pytest
from click.testing import CliRunner

from conversation_state.cli._commands import EXAMPLES, cli
from tests.commands import ROOT

COMMANDS = (
    "names",
    "log oslo-cancelled",
    "show oslo-cancelled",
    "diff oslo-cancelled kyoto-question",
    "trim oslo-cancelled --limit 4000",
    "tree oslo-cancelled",
    "cost oslo-cancelled",
    "label oslo-cancelled kept",
    "fork oslo-cancelled oslo",
    "annotate oslo-cancelled title=Oslo",
    "rollback oslo-cancelled 1",
    "import FILE",
    "gc",
    "erase oslo-cancelled 1 --reason asked --yes",
    "delete oslo-cancelled --yes",
)


class TestDocs:
    def test_transcript(self, tmp_path, monkeypatch):
        """What the page shows is what the commands print, but for times."""
        page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "examples").symlink_to(ROOT / "examples")
        longer = {"id": "kyoto-question", "messages": _and_more("kyoto-question")}
        (tmp_path / "longer.jsonl").write_text(json.dumps(longer), encoding="utf-8")
        (tmp_path / "session.jsonl").write_text(_session(), encoding="utf-8")
        steps = [step for block in blocks for step in block.split("$ ")[1:]]

        for step in steps:
            command, _, expected = step.partition("\n")
            word, *args = shlex.split(command)
            if word == "export":
                name, _, value = args[0].partition("=")
                monkeypatch.setenv(name, value)
                continue

            result = CliRunner().invoke(cli, args)

            assert "conversation-state" == word
            assert 0 == result.exit_code, result.output
            shown = _hide_times(result.stderr + result.stdout)
            expected, more, _ = _hide_times(expected).partition("...\n")
            assert expected == (shown[: len(expected)] if more else shown)

        assert 15 < len(steps)

    def test_examples(self, tmp_path, monkeypatch):
        """Each command's help ends with an example, and they run one after another."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "examples").symlink_to(ROOT / "examples")
        (tmp_path / "session.jsonl").write_text(_session(), encoding="utf-8")
        run = CliRunner().invoke
        for name in EXAMPLES:
            *_, heading, example = run(cli, [name, "--help"]).stdout.splitlines()
            word, *args = shlex.split(example)
            if name in ("serve", "strict-provider"):  # until it is interrupted
                args.append("--help")

            result = run(cli, args, catch_exceptions=False)

            assert ("Example:", "conversation-state") == (heading.strip(), word)
            assert (name, 0) == (args[0], result.exit_code), result.output

        assert {*EXAMPLES} == {*cli.commands}

    @pytest.mark.parametrize("command", COMMANDS)
    def test_keys(self, tmp_path, monkeypatch, command):
        """The help of ``--json`` has every key that a command prints."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("CONVERSATION_STATE_STORE", "chats.db")
        run = CliRunner().invoke
        conversations = str(ROOT / "examples" / "travel_desk.jsonl")
        run(cli, ["import", conversations], catch_exceptions=False)
        args = [conversations if arg == "FILE" else arg for arg in command.split()]
        result = run(cli, [*args, "--json"], catch_exceptions=False)
        shown = run(cli, [args[0], "--help"], catch_exceptions=False).stdout
        (keys,) = re.findall(r"--json +(.*?)\n  -", shown, re.DOTALL)

        assert {*json.loads(result.stdout.splitlines()[0])} <= {
            *re.findall(r"\w+", keys)
        }


def _hide_times(text):
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "0000-00-00 00:00:00", text)


def _session():
    """A session of Claude Code: a question and its answer."""
    about = {"sessionId": "s1", "parentUuid": None, "uuid": "u1", "version": "2.1.332"}
    asked = {"role": "user", "content": "Fix the tests."}
    said = {"role": "assistant", "content": [{"type": "text", "text": "Fixed."}]}
    lines = [
        {"type": "ai-title", "aiTitle": "Tests", "sessionId": "s1"},
        {**about, "type": "user", "message": asked},
        {**about, "type": "assistant", "message": said, "uuid": "a1"}
        | {"parentUuid": "u1"},
    ]
    return "".join(f"{json.dumps(each)}\n" for each in lines)


def _and_more(id):
    lines = (ROOT / "examples" / "travel_desk.jsonl").read_text("utf-8").splitlines()
    (count,) = [each["messages"] for each in map(json.loads, lines) if each["id"] == id]
    return [*count, {"role": "user", "content": "The dates are fixed."}]
