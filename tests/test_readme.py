"""
The chat of the README, pasted and run as it stands, with OpenAI's client, against a
strict provider.
"""

import os
import random
import re
import select
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    open_store,
)
from conversation_state.testing.provider import Gate, Reply, StrictProvider

pytest.importorskip("openai")
pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent
CALLS = [ToolCall(f"call_{city}", "trains", f'{{"city": "{city}"}}') for city in "AB"]
CTRL_C, CTRL_D = "\x03", "\x04"
# A terminal belongs to the session whose first process opens it: its Ctrl-C goes there.
START = 'exec "$0" -u chat.py <"$1" >"$1" 2>&1'


class Terminal:
    """A terminal in which a user has pasted the chat and started it."""

    def __init__(self, folder, server, tool="", question=""):
        page = (ROOT / "README.md").read_text(encoding="utf-8")
        (code,) = [
            each
            for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
            if "OpenAI()" in each
        ]
        if question:
            code = code.replace('input("> ")', question)
        if tool:
            code = code.replace('    return [f"', f'    {tool}\n    return [f"')
        (folder / "chat.py").write_text(code, encoding="utf-8")
        self.screen, self.line = os.openpty()
        self.printed = self.unread = ""
        self.process = subprocess.Popen(
            ["sh", "-c", START, sys.executable, os.ttyname(self.line)],
            cwd=folder,
            env={
                **os.environ,
                "OPENAI_API_KEY": "none",
                "OPENAI_BASE_URL": server.base_url,
                "PYTHONPATH": str(ROOT),
            },
            start_new_session=True,
        )

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.screen)
        os.close(self.line)

    def type(self, text):
        os.write(self.screen, text.encode())

    def read(self, seconds=0.05):
        """What is printed within *seconds* goes to what was printed."""
        if select.select([self.screen], [], [], seconds)[0]:
            text = os.read(self.screen, 4096).decode()
            self.printed += text
            self.unread += text

    def wait_for(self, text, seconds=120):
        """Read until *text* is printed; whether it was."""
        until = time.monotonic() + seconds
        while text not in self.unread and time.monotonic() < until:
            self.read()

        _, found, self.unread = self.unread.partition(text)
        return bool(found)

    def say(self, text):
        assert self.wait_for("> ")
        self.type(f"{text}\n")

    def stop(self):
        """Ctrl-C, until there is a prompt."""
        assert any(self.press(CTRL_C, lambda: "\n> " in self.unread) for _ in range(3))

    def leave(self, key):
        """Press *key* at the prompt; the status of the process."""
        assert self.wait_for("> ")
        assert any(
            self.press(key, lambda: self.process.poll() is not None) for _ in range(3)
        )
        return self.process.returncode

    def press(self, key, is_done, seconds=20):
        """
        Press *key*, and read until it has an effect; whether it had.

        A signal that comes just before the process waits does not end the wait: it has
        a moment to get there, and if that was too short, a user presses again.
        """
        time.sleep(0.2)
        self.type(key)
        until = time.monotonic() + seconds
        while not is_done() and time.monotonic() < until:
            self.read()

        self.read()
        return is_done()


@contextmanager
def pasted(folder, server, tool="", question=""):
    """
    The terminal of a user who pasted the chat, with a line more in its *tool*, or with
    a *question* in place of the prompt.
    """
    terminal = Terminal(folder, server, tool, question)
    try:
        yield terminal
    finally:
        terminal.close()


def load(folder):
    with open_store(folder / "chats.db") as store:
        return store.load("me")


def test_turns(tmp_path):
    """
    Calls run, answers are printed, and the bill is complete; an empty line asks to go
    on.
    """
    draw = random.Random(1)
    script = []
    for number in range(3):
        calls = [
            ToolCall(draw.choice(["call_0", f"call_{number}_{at}"]), "trains", "{}")
            for at in range(draw.randrange(1, 3))
        ]
        script += [AssistantMessage("Let me see.", tool_calls=calls), f"At {number}."]

    with StrictProvider(script) as server:
        with pasted(tmp_path, server) as terminal:
            for question in "When?", "", "Sure?":
                terminal.say(question)
            assert 0 == terminal.leave(CTRL_D)

        assert () == server.refusals
        assert 6 == len(server.requests)

    state = load(tmp_path)

    assert ["At 0.", "At 1.", "At 2."] == re.findall(r"At [0-9]\.", terminal.printed)
    reported = f"({state.total_usage.total_tokens} tokens reported so far)"
    assert f"At 2.  {reported}" in terminal.printed
    assert 6 == len(state.ledger)
    asked = [each.text for each in state if each.role == "user"]
    assert ["When?", "Go on.", "Sure?"] == asked


def test_stop(tmp_path):
    """
    Ctrl-C stops a turn at each of its moments: what had come is kept, calls are not
    run again, and the chat goes on with the next question. At the prompt it ends the
    chat, quietly.
    """
    first, within = Gate(), Gate()
    script = [
        Reply("Unseen.", gate=first),
        Reply(AssistantMessage("One two. " * 20, tool_calls=CALLS), gate=within),
        AssistantMessage("Let me see.", tool_calls=CALLS),
        "As you like.",
    ]
    tool = "print('runs', city); __import__('time').sleep(60 * (city > 'A'))"
    with StrictProvider(script) as server:
        with pasted(tmp_path, server, tool) as terminal:
            terminal.say("Before the first piece")
            while not server.requests:
                terminal.read()
            terminal.stop()

            terminal.say("Within the answer")
            for _ in range(3):
                within.release()
            assert terminal.wait_for("One")
            terminal.stop()

            terminal.say("Within the second call")
            assert terminal.wait_for("runs B")
            terminal.stop()

            terminal.say("Never mind.")
            assert terminal.wait_for("As you like.")
            assert 0 == terminal.leave(CTRL_C)

        assert () == server.refusals

    state = load(tmp_path)
    answers = [
        (each.text[:3], each.response.finish_reason, len(each.tool_calls))
        for each in state
        if isinstance(each, AssistantMessage) and each.response
    ]
    results = [each for each in state if isinstance(each, ToolMessage)]

    assert [
        ("", "interrupted", 0),
        ("One", "interrupted", 0),
        ("Let", "tool_calls", 2),
        ("", "interrupted", 0),
        ("As ", "stop", 0),
    ] == answers
    assert ["call_A"] == [each.tool_call_id for each in results]
    assert 2 == terminal.printed.count("runs ")
    assert 2 == terminal.printed.count("(0 tokens reported so far)")
    assert "Traceback" not in terminal.printed


def test_killed(tmp_path):
    """
    After kill -9 the next start shows what was said, the question is asked again at
    once, and the chat goes on.
    """
    gate = Gate()
    script = [
        AssistantMessage(tool_calls=CALLS[:1]),
        "At noon.",
        Reply("Soon, soon. " * 20, gate=gate),
        "At six.",
        "Yes.",
    ]
    with StrictProvider(script) as server:
        with pasted(tmp_path, server) as terminal:
            terminal.say("When?")
            assert terminal.wait_for("At noon.")
            terminal.say("And then?")
            gate.release()
            gate.release()
            assert terminal.wait_for("S")

        assert "And then?" == load(tmp_path)[-1].text
        with pasted(tmp_path, server) as terminal:
            terminal.say("Sure?")
            assert terminal.wait_for("Yes.")
            assert 0 == terminal.leave(CTRL_D)

        assert () == server.refusals

    state = load(tmp_path)
    asked = [("user", "When?"), ("assistant", ""), ("assistant", "At noon.")]
    asked += [("user", "And then?"), ("assistant", "At six.")]
    asked += [("user", "Sure?"), ("assistant", "Yes.")]
    assert asked == [(each.role, each.text) for each in state if each.role != "tool"]
    shown = [line for line in terminal.printed.splitlines() if ": " in line]
    assert "user: When?" == shown[0]
    assert {"assistant: At noon.", "user: And then?"} <= {*shown}
    assert "calls trains" in terminal.printed


def test_lost(tmp_path):
    """
    A connection that breaks off ends the chat and says so; the next start asks again,
    and does not run a call again that was done before kill -9.
    """
    script = [
        Reply("One two. " * 20, break_after=4),
        AssistantMessage(tool_calls=CALLS),
        "At noon.",
    ]
    tool = "print('runs', city); __import__('time').sleep(60 * (city > 'A'))"
    with StrictProvider(script) as server:
        with pasted(tmp_path, server) as terminal:
            terminal.say("When?")
            assert terminal.wait_for("Connection error.")
            assert 1 == terminal.process.wait()

        with pasted(tmp_path, server, tool) as terminal:
            assert terminal.wait_for("runs B")

        with pasted(tmp_path, server, "print('runs', city)") as terminal:
            assert terminal.wait_for("runs B")
            assert terminal.wait_for("At noon.")
            assert 0 == terminal.leave(CTRL_D)

        assert () == server.refusals

    roles = ["user", "assistant", "tool", "tool", "assistant"]
    assert roles == [each.role for each in load(tmp_path)]
    assert "runs A" not in terminal.printed


def test_instructions_and_a_long_result(tmp_path):
    """
    A prompt of the system alone asks nothing, and a result that is longer than the
    window does not end the chat.
    """
    with open_store(tmp_path / "chats.db") as store:
        store.save("me", Aggregator.new([SystemMessage("Be brief.")]))

    script = [AssistantMessage(tool_calls=CALLS[:1]), "At noon."]
    tool = "return ['12:30 ' * 200] * 2_000"
    with StrictProvider(script) as server:
        with pasted(tmp_path, server, tool) as terminal:
            assert terminal.wait_for("> ")
            assert not server.requests
            terminal.type("When?\n")
            assert terminal.wait_for("At noon.")
            assert 0 == terminal.leave(CTRL_D)

        assert () == server.refusals

    assert 2_000_000 < len(load(tmp_path)[3].text)


def test_a_question_that_is_too_long(tmp_path):
    """It is said what a question is too long for, and the next start has a prompt."""
    with StrictProvider(["At noon."]) as server:
        with pasted(tmp_path, server, question="'Why? ' * 100_000") as terminal:
            assert terminal.wait_for("the budget leaves")
            assert 1 == terminal.process.wait()

        with pasted(tmp_path, server) as terminal:
            terminal.say("When?")
            assert terminal.wait_for("At noon.")
            assert 0 == terminal.leave(CTRL_D)

        assert () == server.refusals


def test_two_terminals(tmp_path):
    """A second one ends: the conversation went on elsewhere; nothing is lost."""
    with StrictProvider(["At noon."]) as server:
        with pasted(tmp_path, server) as first, pasted(tmp_path, server) as second:
            assert second.wait_for("> ")
            first.say("When?")
            assert first.wait_for("reported so far")  # it is saved
            second.type("And here?\n")
            assert second.wait_for("StaleHeadError")
            assert 1 == second.process.wait()

        assert () == server.refusals

    assert ["When?", "At noon."] == [each.text for each in load(tmp_path)]
