"""
What a conversation brings reaches no terminal as it is, in whatever a command prints.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import conversation_state.cli
from conversation_state import Aggregator
from conversation_state.cli import _exit
from conversation_state.cli.main import main
from conversation_state.errors import ConversationStateError
from conversation_state.messages import AssistantMessage, ToolMessage, UserMessage
from conversation_state.store import open_store
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests.commands import MAIN

# A title, a cleared screen, hidden text, C1's CSI, bidirectional marks, a NUL's kin.
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[8mhidden\x1b[0m\x9b31m\u202eevil\r\b\x7f"
# What a terminal would act on, and no line end or tab.
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def make_states():
    state = (
        Aggregator.new()
        .add(UserMessage(EVIL * 3, name=EVIL))
        .add(ToolMessage("r", tool_call_id=EVIL))
        .add(
            AssistantMessage(
                EVIL, tool_calls=[ToolCall(id=EVIL, name=EVIL, arguments=f'"{EVIL}"')]
            )
        )
        .add(ToolMessage(EVIL, tool_call_id=EVIL, name=EVIL))
        .add_user_prompt("y")
    )
    yield state
    yield state.add_usage(Usage(7, 3), model=EVIL, key=EVIL).add_user_prompt(EVIL)


COMMANDS = [
    ["names"],
    ["names", "--json"],
    ["log", EVIL],
    ["log", EVIL, "--json"],
    ["show", EVIL],
    ["show", EVIL, "--number"],
    ["show", EVIL, "--markdown"],
    ["show", EVIL, "--json"],
    ["tree", EVIL],
    ["diff", f"{EVIL}@1", EVIL],
    ["diff", f"{EVIL}@1", EVIL, "--json"],
    ["trim", EVIL, "--limit", "150"],
    ["trim", EVIL, "--limit", "50"],
    ["trim", EVIL, "--limit", "1"],
    ["trim", EVIL, "--limit", "150", "--json"],
    ["cost", EVIL],
    ["label", EVIL, EVIL],
    ["label", EVIL, f"{EVIL}x", "--remove"],
    ["annotate", EVIL, f"{EVIL}={EVIL}"],
    ["annotate", EVIL],
    ["annotate", EVIL, EVIL],
    ["annotate", EVIL, f"x:={EVIL}"],
    ["fork", EVIL, f"{EVIL}2"],
    ["fork", EVIL, EVIL],
    ["rollback", EVIL, "1"],
    ["rollback", EVIL, f"{EVIL}none"],
    ["export", EVIL, "--format", "anthropic", "-o", "out"],
    ["export", EVIL, "--format", EVIL],
    ["export", EVIL, "-o", f"{EVIL}/none"],
    ["import", "hostile.jsonl"],
    ["import", f"{EVIL}.jsonl"],
    ["replay", "hostile.jsonl"],
    ["replay", "hostile.jsonl", "--json"],
    ["replay", EVIL],
    ["verify"],
    ["gc"],
    ["erase", EVIL, "1", "--reason", EVIL],
    ["erase", EVIL, EVIL, "--reason", EVIL, "--yes"],
    ["erase", EVIL, "1", "--reason", EVIL, "--yes"],
    ["backup", f"{EVIL}.db"],
    ["backup", f"{EVIL}.db"],
    ["restore", f"{EVIL}.none"],
    ["delete", EVIL],
    ["delete", EVIL, "--yes"],
    ["show", EVIL],
    [EVIL],
    ["names", EVIL],
    ["names", f"--{EVIL}"],
    ["log", EVIL, "-n", EVIL],
    ["names", "--store", EVIL],
    ["names", "--store", f"{EVIL}://x"],
    ["names", "--store", f"sqlite:///{EVIL}/x.db"],
]


class TestHostile:
    def test_all_commands(self, tmp_path, monkeypatch, capsys):
        """
        No command prints what a terminal would act on, in results, tables, reasons,
        errors and JSON.
        """
        path = tmp_path / "chats.db"
        with open_store(path) as store:
            for state in make_states():
                store.save(EVIL, state)

        good = {"id": EVIL, "messages": [{"role": "user", "content": EVIL}]}
        bad = {"id": EVIL, "messages": [{"role": EVIL, EVIL: EVIL}]}
        lines = f"{json.dumps(good)}\n{json.dumps(bad)}\n"
        (tmp_path / "hostile.jsonl").write_text(lines)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("CONVERSATION_STATE_STORE", str(path))
        for command in COMMANDS:
            monkeypatch.setattr(sys, "argv", ["conversation-state", *command])
            with pytest.raises(SystemExit) as ended:
                main()

            printed = "".join(capsys.readouterr())

            assert ended.value.code in {0, 1, 2}, (command, printed)
            assert ACTS.search(printed) is None, (command, ACTS.search(printed))

    def test_one_place(self):
        """There is one function that prints, and one that writes documents."""
        folder = Path(conversation_state.cli.__file__).parent
        places = [
            path.name
            for path in folder.glob("*.py")
            for _ in re.findall(r"click\.s?echo", path.read_text())
        ]

        assert ["_exit.py"] * 2 == places

    @pytest.mark.parametrize("style", [{}, {"fg": "red", "bold": True}])
    def test_styles(self, style, monkeypatch, capsys):
        """
        On a terminal styles of ours stay, and those that a text brings are escaped.
        """
        monkeypatch.setattr(_exit, "is_stdout_terminal", lambda: True)
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_, **__: False)
        _exit.print_line(f"a {_exit.paint(EVIL, **style)}{EVIL}")
        printed = capsys.readouterr().out

        own = re.findall("\x1b\\[[0-9;]*m", printed)
        assert (3 if style else 0) == len(own)
        assert ACTS.search(re.sub("\x1b\\[[0-9;]*m", "", printed)) is None

    def test_url_in_errors(self):
        """An error of a store in memory has one colon after its URL."""
        with (
            pytest.raises(ConversationStateError, match=r"^memory: there is"),
            open_store("memory:") as store,
        ):
            store.load("none")


class TestVerbs:
    def test_did_you_mean(self, tmp_path):
        """
        A mistyped command names the one that is like it; ls lists the names, of a
        store that is a plain word.
        """
        with open_store(tmp_path / "chats") as store:
            store.save("travel", Aggregator.new().add_user_prompt("Hi!"))

        def run(*command):
            return subprocess.run(
                [*MAIN, *command],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )

        typo, listed = run("verifi", "--store", "chats"), run("ls", "--store", "chats")

        assert 2 == typo.returncode
        assert "no such command 'verifi'; did you mean 'verify'?" in typo.stderr
        assert 0 == listed.returncode
        assert "travel" in listed.stdout
