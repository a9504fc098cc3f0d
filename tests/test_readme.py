"""
The chat of the README, pasted and run as it stands, with OpenAI's client, against a
strict provider.
"""

import os
import random
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from conversation_state import AssistantMessage, ToolCall, open_store
from conversation_state.testing.provider import Gate, Reply, StrictProvider

pytest.importorskip("openai")

ROOT = Path(__file__).parent.parent
CALL = ToolCall("call_1", "departures", '{"city": "Bern"}')


@contextmanager
def pasted(folder, server):
    """The process of a user who pasted the chat, and types into it."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = [
        each
        for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "OpenAI()" in each
    ]
    (folder / "chat.py").write_text(code, encoding="utf-8")
    environment = {
        **os.environ,
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": server.base_url,
        "PYTHONPATH": str(ROOT),
    }
    with subprocess.Popen(
        [sys.executable, "chat.py"],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def say(process, text):
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def load(folder):
    with open_store(folder / "chats.db") as store:
        return store.load("me")


def test_turns(tmp_path):
    """Calls run, answers are printed, and the bill is complete."""
    draw = random.Random(1)
    script = []
    for number in range(3):
        calls = [
            ToolCall(draw.choice(["call_0", f"call_{number}_{at}"]), "departures", "{}")
            for at in range(draw.randrange(1, 3))
        ]
        script += [AssistantMessage("Let me see.", tool_calls=calls), f"At {number}."]

    with StrictProvider(script) as server:
        with pasted(tmp_path, server) as process:
            printed, _ = process.communicate("When?\nAnd then?\nSure?\n", timeout=120)

        assert () == server.refusals

    assert ["At 0.", "At 1.", "At 2."] == re.findall(r"At [0-9]\.", printed)
    assert 6 == len(load(tmp_path).ledger)


def test_stop(tmp_path):
    """
    Ctrl-C stops an answer: what had come is kept, its call is not run, and the chat
    goes on with the next question.
    """
    gate = Gate()
    long = AssistantMessage("One two three four five six. " * 20, tool_calls=[CALL])
    with StrictProvider([Reply(long, gate=gate), "As you like."]) as server:
        with pasted(tmp_path, server) as process:
            say(process, "When?")
            for _ in range(3):
                gate.release()

            assert process.stdout.read(3)
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate("Never mind.\n", timeout=120)

        assert () == server.refusals

    state = load(tmp_path)

    assert "As you like." in printed
    assert ["user", "assistant", "user", "assistant"] == [one.role for one in state]
    assert "interrupted" == state[1].response.finish_reason
    assert () == state.pending_calls


def test_killed(tmp_path):
    """After kill -9 the question is asked again at once, and the chat goes on."""
    gate = Gate()
    script = [Reply("Soon, soon. " * 20, gate=gate), "At noon.", "Yes."]
    with StrictProvider(script) as server:
        with pasted(tmp_path, server) as process:
            say(process, "When?")
            gate.release()
            gate.release()
            assert process.stdout.read(1)
            process.kill()

        assert ["When?"] == [each.text for each in load(tmp_path)]
        with pasted(tmp_path, server) as process:
            process.communicate("Sure?\n", timeout=120)

        assert () == server.refusals

    texts = [each.text for each in load(tmp_path)]
    assert ["When?", "At noon.", "Sure?", "Yes."] == texts
