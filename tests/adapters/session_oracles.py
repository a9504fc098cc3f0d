"""
What Codex's and OpenCode's own programs make of the files that are written for them.

``python -m tests.adapters.session_oracles CODEX OPENCODE`` (paths of the programs, as
npm installs them) asks both and writes their answers beside the golden files, with a
digest of what they were asked about. Both run offline and without an account.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from conversation_state.adapters import sessions

# Called with what their types refuse, too.
dump_session: Any = sessions.dump_session
load_session: Any = sessions.load_session
read_session: Any = sessions.read_session

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "sessions"
FILES = [path for path in sorted(GOLDEN.glob("*/*")) if path.is_file()]
ANSWERS = GOLDEN / "answers.json"


def digest(payload):
    """The digest of a file that was written."""
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


def expect(session):
    """What is said on the live branch: of prompts and answers the texts."""
    said = [
        message.text
        for message in session.tree.present
        if message.role in {"assistant", "user"} and message.text
    ]
    # Codex shows no context.
    return [text for text in said if not text.startswith("<environment_context>")]


def ask_codex(program, payload):
    """What Codex shows of a rollout, and whether it goes on with it."""
    about = next(line["payload"] for line in payload if line["type"] == "session_meta")
    day, _, time = about["timestamp"][:19].partition("T")
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "sessions", *day.split("-"))
        folder.mkdir(parents=True)
        name = f"rollout-{day}T{time.replace(':', '-')}-{about['id']}.jsonl"
        lines = "".join(f"{json.dumps(line)}\n" for line in payload)
        (folder / name).write_text(lines)
        thread = {"threadId": about["id"]}
        client = {"clientInfo": {"name": "tests", "version": "1"}}
        calls = [
            ("initialize", client),
            ("thread/read", {**thread, "includeTurns": True}),
            ("thread/resume", thread),
        ]
        _, read, resumed = _call(program, home, calls)

    items = [item for turn in read["thread"]["turns"] for item in turn["items"]]
    said = [
        item.get("text") or "".join(each["text"] for each in item["content"])
        for item in items
        if item["type"] in {"agentMessage", "userMessage"}
    ]
    return {"said": said, "is_resumed": resumed["thread"]["id"] == about["id"]}


def _call(program, home, calls):
    environment = {**os.environ, "CODEX_HOME": home, "HOME": home}
    with subprocess.Popen(
        [program, "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as process:
        results = []
        for number, (method, params) in enumerate(calls, 1):
            request = {"id": number, "method": method, "params": params}
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{json.dumps(request)}\n")
            process.stdin.flush()
            answer: dict[str, Any] = {}
            while answer.get("id") != number:
                answer = json.loads(process.stdout.readline())

            results.append(answer["result"])

        process.kill()

    return results


def ask_opencode(program, payload):
    """What OpenCode exports of a document that it imported."""
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "session.json").write_text(json.dumps(payload))
        environment = {"HOME": home, "PATH": os.environ["PATH"]}
        for args in (["import", "session.json"], ["export", payload["info"]["id"]]):
            done = subprocess.run(
                [program, *args],
                cwd=home,
                env=environment,
                capture_output=True,
                check=True,
                text=True,
            )

    return {"said": expect(load_session(done.stdout))}


def main(codex, opencode):
    """Ask both programs, and write what they answer."""
    answers: dict[str, Any] = {}
    for path in FILES:
        name = f"{path.parent.name}/{path.name}"
        session = read_session(path)
        for kind, ask, program in (
            ("codex", ask_codex, codex),
            ("opencode", ask_opencode, opencode),
        ):
            payload = dump_session(session, kind, cwd="/home/lea/shop").payload
            answer = {"asked": digest(payload), **ask(program, payload)}
            answers.setdefault(kind, {})[name] = answer

    ANSWERS.write_text(f"{json.dumps(answers, indent=2)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
