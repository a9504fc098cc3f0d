import json
import re
import shlex

from click.testing import CliRunner

from conversation_state.cli._commands import cli
from tests.commands import ROOT


class TestDocs:
    def test_transcript(self, tmp_path, monkeypatch):
        """
        What the page shows is what the commands print, but for times.
        """
        page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "examples").symlink_to(ROOT / "examples")
        longer = {"id": "kyoto-question", "messages": _and_more("kyoto-question")}
        (tmp_path / "longer.jsonl").write_text(json.dumps(longer), encoding="utf-8")
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


def _hide_times(text):
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "0000-00-00 00:00:00", text)


def _and_more(id):
    lines = (ROOT / "examples" / "travel_desk.jsonl").read_text("utf-8").splitlines()
    (count,) = [each["messages"] for each in map(json.loads, lines) if each["id"] == id]
    return [*count, {"role": "user", "content": "The dates are fixed."}]
