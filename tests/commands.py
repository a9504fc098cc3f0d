"""What the tests of the commands on a store have in common."""

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from conversation_state.cli._commands import cli

ROOT = Path(__file__).resolve().parent.parent
MAIN = [sys.executable, "-c", "from conversation_state.cli.main import main; main()"]

HOSTILE = "\x1b]0;owned\x07 \u202e\r\nadmin\n    yes"

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What time is it in Oslo?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "clock", "arguments": '{"city": "Oslo"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "12:30"},
    {"role": "assistant", "content": "12:30."},
]


def line(id="chat", messages=MESSAGES):
    """A conversation as a line of a file."""
    data = messages if id is None else {"id": id, "messages": messages}
    return f"{json.dumps(data)}\n"


class Commands:
    """A store in a folder, and the commands on it."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "chats.db"
        self.url = f"sqlite:///{self.path}"

    def __call__(self, command, *args, status=0, data=None, url=None):
        """What a command printed, if it ended with that *status*."""
        asked = [command, *map(str, args), "--store", url or self.url]
        result = CliRunner().invoke(cli, asked, input=data)

        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert status == result.exit_code, result.output
        assert not {"\x1b", "\x07", "\r", "\u202e"} & {*result.output}
        return result

    def json(self, command, *args, **options):
        """The JSON that it wrote for programs."""
        result = self(command, *args, "--json", **options)
        return [json.loads(each) for each in result.stdout.splitlines()]

    def write(self, *lines, name="chats.jsonl"):
        """A file with those *lines*."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")
        return path

    def process(self, *args, script=MAIN[-1]):
        """A command as a shell runs it, which finds the store by the variable."""
        return subprocess.run(
            [sys.executable, "-c", script, *map(str, args)],
            capture_output=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "CONVERSATION_STATE_STORE": self.url},
            text=True,
        )
