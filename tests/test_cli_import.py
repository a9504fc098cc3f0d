import errno
import importlib
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from conversation_state.adapters import PROVIDERS, openai_chat
from conversation_state.aggregator import Aggregator
from conversation_state.cli import _transfer
from conversation_state.cli._recognition import recognize_items
from conversation_state.codec import decode, encode
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.parts import ReasoningPart
from conversation_state.store import Store, open_store
from conversation_state.usage import Usage
from tests.commands import HOSTILE, MAIN, MESSAGES, ROOT, Commands, line
from tests.recorded import is_large

LONGER = [*MESSAGES, {"role": "user", "content": "And in Lima?"}]
TWO = json.dumps([{"id": each, "messages": MESSAGES} for each in "ab"], indent=1)
ONE = json.dumps(MESSAGES, indent=1)
WRAPPED = json.dumps({"chats": json.loads(TWO)})
LINES = "".join(line(each) for each in "ab")
LINE_OF_SESSION = {
    "type": "user",
    "uuid": "u",
    "parentUuid": None,
    "sessionId": "s",
    "message": {"role": "user", "content": "Hi"},
}
OTHER = [*MESSAGES[:2], {"role": "assistant", "content": "I can't tell."}]


@pytest.fixture(autouse=True)
def _no_store_by_default(monkeypatch):
    """The developer's own shell settings don't reach the tests."""
    monkeypatch.delenv("CONVERSATION_STATE_STORE", raising=False)


@pytest.fixture
def run(tmp_path):
    """The commands on a store that is not there yet."""
    return Commands(tmp_path)


def outcomes(records):
    """What came of each conversation."""
    return [each["outcome"] for each in records]


def saved(run, name, *, at=None):
    """The messages under a name in the store."""
    with open_store(run.url) as store:
        return store.load(name, at=at)


def row(conversation_id):
    """A message of a table."""
    return {"role": "user", "content": "Hi", "conversation_id": conversation_id}


def heads(run):
    """All names, and their newest revisions."""
    with open_store(run.url) as store:
        return {name: store.latest(name).revision for name in store.names()}


class TestImport:
    def test_imports(self, run):
        """
        Each conversation is one revision under its id, with the messages of the file;
        the store is made.
        """
        path = run.write(line("oslo"), line("lima", LONGER))

        result = run("import", path)

        assert "2 conversations: 2 imported.\n  oslo\n  lima\n" == result.stdout
        assert "" == result.stderr
        assert {"oslo": 1, "lima": 1} == heads(run)
        assert openai_chat.load(LONGER) == tuple(saved(run, "lima"))

    def test_prints_names(self, run):
        """The names that it saved are printed, of many the first ten; each once."""
        few, many = [line("b"), line("a"), line("b")], [line(str(n)) for n in range(12)]

        assert ["  b", "  a"] == run("import", run.write(*few)).stdout.splitlines()[1:]
        assert [
            *[f"  {n}" for n in range(10)],
            "  and 2 more: conversation-state ls",
        ] == run("import", run.write(*many)).stdout.splitlines()[1:]

    def test_json(self, run):
        """The JSON has for each conversation its source, the outcome, and its name."""
        path = run.write(line("oslo"), "\n", line("oslo", LONGER))

        first, second = run.json("import", path)

        assert {
            "file": str(path),
            "line": 1,
            "name": "oslo",
            "outcome": "imported",
            "revision": 1,
            "messages": 5,
            "added": 5,
        } == first
        assert {
            "file": str(path),
            "line": 3,
            "name": "oslo",
            "outcome": "extended",
            "revision": 2,
            "messages": 6,
            "added": 1,
        } == second

    def test_names(self, run):
        """
        What has no id is called as its file, with the number of its line;
        numbers are ids, too, and a prefix stands before all.
        """
        path = run.write(line(None), "\n", line(7), line("x"), name="my chats.v2.jsonl")

        records = run.json("import", path, "--prefix", "a/")

        names = ["a/my chats.v2-1", "a/7", "a/x"]
        assert names == [each["name"] for each in records]
        assert {*names} == {*heads(run)}

    @pytest.mark.parametrize(
        "messages",
        [
            [{"role": "human", "content": "hi"}, {"role": "gpt", "content": "yo"}],
            [{"role": "user", "value": "hi"}, {"role": "assistant", "text": "yo"}],
            [{"role": "user", "content": "hi"}, {"from": "gpt", "value": "yo"}],
        ],
    )
    def test_shared(self, run, messages):
        """
        What people share is read as what it is, wherever it differs from OpenAI's
        format.
        """
        path = run.write(
            json.dumps({"id": "named", "messages": messages}) + "\n",
            json.dumps(messages) + "\n",
            *[json.dumps(each) + "\n" for each in messages],
        )

        assert ["imported"] * 3 == outcomes(run.json("import", path))
        assert [("hi", "yo")] * 3 == [
            tuple(message.text for message in saved(run, name)) for name in heads(run)
        ]

    def test_system_beside_messages(self, run):
        """
        What stands next to the messages comes first, and what is not text there is
        reported.
        """
        record = {"messages": MESSAGES, "system": "Be brief."}
        path = run.write(
            json.dumps({**record, "id": "a"}) + "\n",
            json.dumps({**record, "id": "b", "system": [{"type": "text"}]}) + "\n",
            json.dumps({**record, "id": "c", "system": None}) + "\n",
        )
        result = run("import", path, status=2)

        assert "Be brief." == saved(run, "a")[0].text
        assert openai_chat.load(MESSAGES) == tuple(saved(run, "a"))[1:]
        assert openai_chat.load(MESSAGES) == tuple(saved(run, "c"))
        assert "$.system[0].text: is missing; expected a text" in result.stderr

    def test_standard_input(self, run):
        """What comes from standard input has its name from there."""
        (records,) = run.json("import", "-", data=line(None))

        assert "stdin-1" == records["name"]

    def test_again(self, run):
        """Importing again changes nothing, not even a byte of the revisions."""
        path = run.write(line("oslo"), line(None), line("lima", LONGER))
        run("import", path)
        before = run.json("log", "oslo")

        result = run("import", path)

        assert result.stdout.startswith("3 conversations: 3 unchanged.\n")
        assert before == run.json("log", "oslo")
        assert {1} == {*heads(run).values()}

    def test_goes_on(self, run):
        """
        Where the file has more, that is added to the very state; where the
        store has more, nothing is done.
        """
        short, long = (
            run.write(line("oslo", message), name=f"{len(message)}.jsonl")
            for message in (MESSAGES, LONGER)
        )
        run("import", short)
        before = saved(run, "oslo")

        (longer,) = run.json("import", long)
        (shorter,) = run.json("import", short)

        after = saved(run, "oslo")
        assert ["extended", "unchanged"] == outcomes([longer, shorter])
        assert [*before.entries] == [*after.entries[:5]]
        assert before.id == after.id
        assert openai_chat.load(LONGER) == tuple(after)

    def test_erased(self, run):
        """
        What was erased is not brought back, and what comes after is still
        added.
        """
        run("import", run.write(line("oslo")))
        run("erase", "oslo", "2", "--reason", "private", "--yes")

        same = run.json("import", run.write(line("oslo")))
        longer = run.json("import", run.write(line("oslo", LONGER)))

        state = saved(run, "oslo")
        assert ["unchanged", "extended"] == outcomes([*same, *longer])
        assert "" == state[1].text
        assert "And in Lima?" == state[5].text

    def test_erased_is_not_anything(self, run):
        """A message of another role does not match an erased one."""
        run("import", run.write(line("oslo")))
        run("erase", "oslo", "2", "--reason", "private", "--yes")

        odd = [MESSAGES[0], MESSAGES[4], *MESSAGES[2:]]
        records = run.json("import", run.write(line("oslo", odd)), status=1)

        assert ["skipped"] == outcomes(records)


class TestConflict:
    @pytest.fixture
    def path(self, run):
        """
        A file with three conversations of which the second is called as
        something else in the store.
        """
        run("import", run.write(line("oslo", OTHER), name="other.jsonl"))
        return run.write(line("a"), line("oslo"), line("b"))

    def test_skip(self, run, path):
        """It is skipped and reported, the others are saved, and the status is 1."""
        result = run("import", path, status=1)

        assert "3 conversations: 2 imported, 1 skipped.\n  a\n  b\n" == result.stdout
        assert (
            "oslo: skipped; the name has another conversation (revision 1, 3 "
            "messages); to save it, give --on-conflict replace or rename\n"
            == result.stderr
        )
        assert openai_chat.load(OTHER) == tuple(saved(run, "oslo"))
        assert {"a": 1, "b": 1, "oslo": 1} == heads(run)

    def test_stop(self, run, path):
        """Or it is the last that was looked at."""
        records = run.json("import", path, "--on-conflict", "stop", status=1)

        assert ["imported", "skipped"] == outcomes(records)
        assert {"a": 1, "oslo": 1} == heads(run)

    def test_replace(self, run, path):
        """
        Or it takes the name; what was there stays a revision, and what both
        have in common stays the same entries.
        """
        records = run.json("import", path, "--on-conflict", "replace")
        again = run.json("import", path, "--on-conflict", "replace")

        old, new = saved(run, "oslo", at=1), saved(run, "oslo")
        assert ["imported", "replaced", "imported"] == outcomes(records)
        assert 3 == records[1]["added"]
        assert ["unchanged"] * 3 == outcomes(again)
        assert openai_chat.load(OTHER) == tuple(old)
        assert openai_chat.load(MESSAGES) == tuple(new)
        assert [*old.entries[:2]] == [*new.entries[:2]]
        assert old.id == new.parent_id

    def test_rename(self, run, path):
        """Or it gets the next name that is free; again, it is found there."""
        third = run.write(line("oslo", MESSAGES[:1] * 2), name="third.jsonl")
        records = [
            each
            for file in (path, third, path, third)
            for each in run.json("import", file, "--on-conflict", "rename")
        ]

        names = [each["name"] for each in records]
        assert ["a", "oslo-2", "b", "oslo-3"] * 2 == names
        assert ["imported"] * 4 + ["unchanged"] * 4 == outcomes(records)

    def test_rename_many(self, run, monkeypatch):
        """
        Of many with one id, each asks the store for the name that it gets, and once
        for one that another has; an erased message may be any.
        """
        asked = []
        save = Store.save

        def count(store, name, *args, **options):
            asked.append(name)
            return save(store, name, *args, **options)

        monkeypatch.setattr(Store, "save", count)
        texts = [f"Oslo {number}?" for number in range(1, 31)]
        path = run.write(
            *[line("oslo", [{"role": "user", "content": text}]) for text in texts]
        )
        run("import", path, "--on-conflict", "rename")
        run("erase", "oslo-3", "1", "--reason", "private", "--yes")
        again = run.json("import", path, "--on-conflict", "rename")

        assert 4 * len(texts) >= len(asked)
        assert {"unchanged"} == {*outcomes(again)}
        assert texts[4] == saved(run, "oslo-5")[0].text
        assert "oslo-3" == again[2]["name"] == again[3]["name"]

    def test_hostile(self, run):
        """A name may be anything, and is reported without harm."""
        path = run.write(line(HOSTILE), line(HOSTILE, OTHER))

        result = run("import", path, status=1)

        assert "owned" in result.stderr
        assert {HOSTILE: 1} == heads(run)


class TestUnreadable:
    @pytest.mark.parametrize("name", ["none.json", "half.jsonl", "chats.db/x"])
    @pytest.mark.parametrize("options", [(), ("--strict",), ("--json",)])
    def test_leaves_no_store(self, run, name, options):
        """An import that reads nothing begins no store; the next one does."""
        run.write('{"messages": [')
        (run.folder / "chats.jsonl").rename(run.folder / "half.jsonl")

        run("import", run.folder / name, *options, status=2)

        assert [run.folder / "half.jsonl"] == [*run.folder.iterdir()]

        run("import", run.folder / name, run.write(LINES), *options[1:], status=2)

        assert {"a": 1, "b": 1} == heads(run)

    def test_goes_on(self, run):
        """
        What can't be read is reported with its line, the rest is saved, and the
        status is 2.
        """
        path = run.write(line("a"), "nonsense\n", line("b"), '{"messages": 5}\n')

        result = run("import", path, status=2)

        first, second = result.stderr.splitlines()
        assert first.startswith(f"{path}:2: invalid JSON")
        assert second.startswith(f"{path}:4: no conversation")
        summary = "2 conversations: 2 imported. What could not be read is not saved.\n"
        assert f"{summary}  a\n  b\n" == result.stdout
        assert {"a": 1, "b": 1} == heads(run)

    def test_no_folder(self, run):
        """A store in a folder that is not there names it, as a file to write does."""
        folder = run.folder / "a" / "b"
        path = run.write(line("a"))

        result = run("import", path, url=str(folder / "c.db"), status=2)

        assert result.stderr.endswith(f": there is no folder {str(folder)!r}\n")

    def test_strict(self, run):
        """Or it ends there; what was saved before stays."""
        path = run.write(line("a"), "nonsense\n", line("b"))

        result = run("import", path, "--strict", status=2)

        assert f"{path}:2: " in result.stderr
        summary = "1 conversation: 1 imported. What could not be read is not saved.\n"
        assert f"{summary}  a\n" == result.stdout
        assert {"a": 1} == heads(run)

    @pytest.mark.parametrize("id", ["x" * 501, "a\0b"])
    def test_no_name(self, run, id):
        """An id that can't be a name is reported with its line."""
        path = run.write(line("a"), line(id), line("b"))

        result = run("import", path, status=2)

        assert f"{path}:2: invalid name; " in result.stderr
        assert {"a": 1, "b": 1} == heads(run)

    @pytest.mark.parametrize(
        ("text", "kept", "reported", "names"),
        [
            (TWO, 160, "11: the file is cut off: it ends within $[0]", ""),
            (TWO, 700, "47: the file is cut off: it ends within $[1]", "a"),
            (TWO, -2, "73: the file is cut off: it ends within this list", "ab"),
            (WRAPPED, -2, "1: the file is cut off: it ends within $.chats", "ab"),
            (WRAPPED, -1, "1: the file is cut off: it ends within this doc", "ab"),
            (WRAPPED, -60, "1: the file is cut off: it ends within $.chats[1]", "a"),
            (f"{WRAPPED[:-1]}, \n'x': {{}}}}", -3, "2: the file is cut off", "ab"),
            (WRAPPED[10:-1], -60, "1: the file is cut off: it ends within $[1]", "a"),
            (TWO.partition("null")[0] + "nul", None, "15: the file is cut off", ""),
            (TWO.partition("clock")[0] + "\\u12", None, "21: the file is cut off", ""),
            (TWO.partition(":")[0] + ":\n\n", None, "3: the file is cut off", ""),
            (LINES, -9, "2: the file is cut off: it ends within this line", "a"),
            (LINES.replace("}\n", "\n", 1), 999, "1: incomplete JSON; a con", "b"),
        ],
        ids=map(str, range(13)),
    )
    def test_cut_off(self, run, text, kept, reported, names):
        """Of what is cut off one line says where and what to do, and what was saved."""
        result = run("import", run.write(text[:kept].replace("'", '"')), status=2)

        (problem,) = [
            line for line in result.stderr.splitlines() if "beside" not in line
        ]
        assert f":{reported}" in problem
        assert ("Nothing was saved.\n" == result.stdout) is not names
        assert [*names] == sorted(
            line.strip() for line in result.stdout.splitlines()[1:]
        )

    @pytest.mark.parametrize(
        "text",
        [
            ONE[:150],
            ONE[:-1],
            ONE.replace("assistant", "assist\1", 1),
            ONE.replace("},\n {", "}\n {", 1),
            json.dumps({"history": MESSAGES})[:-30],
            json.dumps([LINE_OF_SESSION, LINE_OF_SESSION])[:-9],
        ],
        ids=[
            "in a message",
            "at the end",
            "damaged",
            "a comma",
            "in an object",
            "lines",
        ],
    )
    def test_part_of_a_list(self, run, text):
        """A list of messages that is cut or damaged is one conversation, not saved."""
        result = run("import", run.write(text), status=2)

        assert "nothing of this list is imported" in result.stderr
        assert "Nothing was saved.\n" == result.stdout

    @pytest.mark.parametrize(
        "ids", ["00112", "012021", "010122"], ids=["sorted", "mixed", "ended"]
    )
    @pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "damaged"])
    def test_part_of_rows(self, run, ids, is_cut):
        """Of rows of several conversations in a damaged list, none is saved."""
        text = json.dumps([row(id) for id in ids], indent=1)
        damaged = text[:-20] if is_cut else "nil,".join(text.rsplit("{", 2))

        result = run("import", run.write(damaged), status=2)

        assert 1 == result.stderr.count("nothing of this list is imported")
        assert {} == heads(run)

    def test_behind_damage(self, run):
        """Damage in a list of conversations is of none but its own."""
        rows = {"messages": [row("c"), row("d")]}
        text = json.dumps([json.loads(line("a")), json.loads(line("b")), rows])
        text = text.replace('"messages": [', '"messages": [nil', 1)

        result = run("import", run.write(text), status=2)

        assert "$[0] is damaged" in result.stderr
        assert {"b": 1, "c": 1, "d": 1} == heads(run)

    def test_bad_state(self, run):
        """What should be a state of ours and is not is reported as such."""
        wrong = '{"format": "conversation_state", "version": 1, "kind": "usage"}\n'
        newer = '{"format": "conversation_state", "version": 999, "kind": "x"}\n'

        result = run("import", run.write(wrong, newer), status=2)

        assert 2 == result.stderr.count("no conversation")
        assert {} == heads(run)


def state():
    """A state with all that makes one: a fork's past, a bill, reasoning."""
    trunk = Aggregator.new().add_user_prompt("Hi!").add_usage(Usage(5, 2))
    message = AssistantMessage([ReasoningPart("Hm."), *UserMessage("Hello.").parts])
    return trunk.fork().add(message).add_usage(Usage(9, 1), key="paid")


class TestExport:
    @pytest.fixture
    def chat(self, run):
        """That state, saved as `chat` after its first message."""
        made = state()
        with open_store(run.url) as store:
            store.save("chat", made.fork(at=1), label="begun")
            store.save("chat", made, expecting=1)

        return made

    def test_ours(self, run, chat):
        """Our own format is the state on one line, and nothing is lost."""
        result = run("export", "chat")

        assert encode(chat).decode() + "\n" == result.stdout
        assert chat == decode(result.stdout.encode())
        assert "" == result.stderr

    @pytest.mark.parametrize("name", ["openai_chat", "pi"])
    def test_to_a_file_from_a_terminal(self, run, chat, monkeypatch, name):
        """A document or a session goes to the file named, wherever stdout leads."""
        monkeypatch.setattr(_transfer, "is_stdout_terminal", lambda: True)
        path = run.folder / "exported.json"
        result = run("export", "chat", "--format", name, "-o", path)

        assert "" == result.stdout
        assert all(map(json.loads, path.read_text("utf-8").splitlines()))

    def test_provider(self, run, chat):
        """A provider's format is its payload; what is lost is reported on stderr."""
        result = run("export", "chat", "--format", "openai_chat")

        exported = openai_chat.dump(chat)
        assert exported.payload == json.loads(result.stdout)
        assert f"chat: lost in openai_chat: {exported.lost[0]}\n" == result.stderr

    @pytest.mark.parametrize("name", PROVIDERS)
    def test_every_provider(self, run, chat, name):
        """Every adapter's format is what the adapter dumps."""
        adapter = importlib.import_module(f"conversation_state.adapters.{name}")

        message = run("export", "chat", "--format", name).stdout

        assert adapter.dump(chat).payload == json.loads(message)

    def test_much_lost(self, run):
        """Of much that is lost some is listed, and the rest counted."""
        message = AssistantMessage([ReasoningPart("Hm."), *UserMessage("Hi.").parts])
        with open_store(run.url) as store:
            store.save("chat", Aggregator.new(messages=[message] * 25))

        records = run("export", "chat", "--format", "openai_chat").stderr.splitlines()

        assert 11 == len(records)
        assert "chat: lost in openai_chat: 15 more" == records[-1]

    def test_several(self, run, chat):
        """Several are a line each, and each may be any revision."""
        result = run("export", "chat@begun", "chat", "chat@1")

        lengths = [len(decode(each)) for each in result.stdout.encode().splitlines()]
        assert [1, 2, 1] == lengths

    def test_nothing_if_one_is_missing(self, run, chat):
        """If one of them is not there, nothing is written."""
        path = run.folder / "out.jsonl"

        assert "" == run("export", "chat", "tale", status=2).stdout
        run("export", "chat", "tale", "-o", path, status=2)
        assert not path.exists()

    def test_file(self, run, chat):
        """
        A file holds what stdout would have, and takes the place of another
        one as a whole.
        """
        path = run.write("old\n" * 1_000, name="out.jsonl")

        result = run("export", "chat", "--output", path)

        assert "" == result.output
        assert chat == decode(path.read_bytes())
        assert ["chats.db", "out.jsonl"] == sorted(
            each.name for each in run.folder.iterdir()
        )

    @pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")
    def test_other_than_a_file(self, run, chat):
        """A link still leads to the file, whose permissions stay; a pipe stays one."""
        path, link = run.write("old", name="out.jsonl"), run.folder / "link"
        pipe = run.folder / "pipe"
        path.chmod(0o600)
        link.symlink_to(path)
        os.mkfifo(pipe)

        run("export", "chat", "-o", link)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            run("export", "chat", "-o", pipe)
            piped = os.read(reader, 10_000)
        finally:
            os.close(reader)

        assert chat == decode(path.read_bytes()) == decode(piped)
        assert link.is_symlink()
        assert pipe.is_fifo()
        assert 0o600 == path.stat().st_mode & 0o777

    @pytest.mark.skipif(sys.platform == "win32", reason="needs permissions of POSIX")
    @pytest.mark.parametrize("verb", ["export", "page"])
    def test_new_file(self, run, chat, verb):
        """A new file can be read by its user only; one that is there stays as it is."""
        path = run.folder / "new"

        run(verb, "chat", "-o", path)
        assert 0o600 == path.stat().st_mode & 0o777

        path.chmod(0o644)
        run(verb, "chat", "-o", path)
        assert 0o644 == path.stat().st_mode & 0o777

    def test_name(self, run, chat, monkeypatch):
        """A name in place of a file leads to the command that takes names."""
        monkeypatch.chdir(run.folder)
        asked = run("import", "chat", "other", status=2).stderr

        assert asked.count("it is a name in the store, as `conversation-state sh") == 1
        assert "chat: no such file; " in asked

    def test_no_such_folder(self, run, chat):
        """A folder that can't be written is reported, with status 2."""
        path = run.folder / "missing" / "out.jsonl"

        result = run("export", "chat", "-o", path, status=2)

        reason = f"there is no folder {str(path.parent)!r}"
        assert f"Error: {path}: {reason}\n" == result.stderr

    def test_full_disk(self, run, chat, monkeypatch):
        """
        If the disk is full the file that was there stays, and nothing beside
        it.
        """

        def full(path, *_args, **_options):
            path.touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        path = run.write("old\n", name="out.jsonl")
        monkeypatch.setattr(Path, "write_text", full)
        result = run("export", "chat", "-o", path, status=2)

        assert f"Error: {path}: No space left on device\n" == result.stderr
        assert "old\n" == path.read_text()
        assert {"out.jsonl", "chats.db"} == {each.name for each in run.folder.iterdir()}

    def test_id(self, run, chat):
        """With its id a conversation can be imported under its name."""
        args = ("export", "chat", "--format", "openai_chat")

        assert {"messages"} == {*json.loads(run(*args).stdout)}
        assert "chat" == json.loads(run(*args, "--id").stdout)["id"]
        assert "--id needs" in run("export", "chat", "--id", status=2).stderr

    def test_few_letters(self, run):
        """Wherever it goes it is UTF-8; only a terminal gets what it can't obey."""
        with open_store(run.url) as store:
            store.save("chat", Aggregator.new().add_user_prompt(f"🧀{HOSTILE}\x9b"))

        args = ["export", "chat", "--store", run.url, "--format", "openai_chat"]
        env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
        result = subprocess.run(
            [*MAIN, *args], capture_output=True, check=True, cwd=ROOT, env=env
        )

        (message,) = json.loads(result.stdout.decode("utf-8"))["messages"]
        assert f"🧀{HOSTILE}\x9b" == message["content"]
        assert "🧀".encode() in result.stdout

    def test_seen(self, run, monkeypatch):
        """On a terminal the same is written in letters that it does not obey."""
        monkeypatch.setattr(_transfer, "is_stdout_terminal", lambda: True)
        with open_store(run.url) as store:
            state = Aggregator.new().add_user_prompt(f"🧀{HOSTILE}\x9b")
            store.save("chat", state)

        shown = run("export", "chat").stdout

        assert shown.isascii()
        assert state == decode(shown.encode())

    def test_unknown_format(self, run, chat):
        """An unknown format is reported with those there are."""
        result = run("export", "chat", "--format", "xml", status=2)

        assert "json" in result.stderr
        assert "openai_chat" in result.stderr


class TestThereAndBack:
    def test_state(self, run, tmp_path):
        """
        A state that was exported is the same state in another store: its id,
        its bill and its entries; again, nothing changes.
        """
        made = state()
        with open_store(run.url) as store:
            store.save("chat", made)

        path = tmp_path / "moved.json"
        run("export", "chat", "-o", path)
        url = f"sqlite:///{tmp_path}/other.db"
        records = run.json("import", path, url=url) + run.json("import", path, url=url)

        with open_store(url) as other:
            assert made == other.load("moved-1")

        assert ["imported", "unchanged"] == outcomes(records)

    def test_grown_state(self, run):
        """
        One that grew meanwhile takes its place, one that was left behind does
        nothing, and one that went another way is a conflict.
        """
        made = state()
        files = [
            run.write(f"{encode(each).decode()}\n", name=name)
            for name, each in (
                ("chat.json", made),
                ("new/chat.json", made.add_user_prompt("Bye.")),
                ("odd/chat.json", made.fork(at=1).add_user_prompt("Bye!")),
            )
        ]

        records = [
            outcome
            for file, status in zip([*files[:2], *files], (0, 0, 0, 0, 1), strict=True)
            for outcome in outcomes(run.json("import", file, status=status))
        ]

        expected = ["imported", "extended", "unchanged", "unchanged", "skipped"]
        assert expected == records
        assert made.add_user_prompt("Bye.").usage == saved(run, "chat-1").usage

    def test_replay(self, run):
        """Such lines can be replayed, too."""
        path = run.write(f"{encode(state()).decode()}\n")

        result = run.process("replay", path)

        assert 0 == result.returncode
        assert "Verified" in result.stdout

    def test_recorded(self, run, recordings):
        """
        A hundred real conversations come back as they were, in either format;
        importing what was exported changes nothing.
        """
        path = recordings / "transcripts" / "airline.jsonl"
        lines = [json.loads(each) for each in path.read_text("utf-8").splitlines()]
        run("import", path)

        names = [each["id"] for each in lines]
        args = ("export", *names, "--format", "openai_chat", "--id")
        ours, theirs = run("export", *names), run(*args)
        again = run.json("import", run.write(theirs.stdout))

        assert (100 if is_large(recordings) else 4) == len(lines)
        assert ["unchanged"] * len(lines) == outcomes(again)
        assert lines == [json.loads(each) for each in theirs.stdout.splitlines()]
        with open_store(run.url) as store:
            states = [store.load(name) for name in names]
            assert () == store.verify()

        assert states == [*map(decode, ours.stdout.encode().splitlines())]
        assert [openai_chat.load(each["messages"]) for each in lines] == [
            tuple(each) for each in states
        ]


@pytest.mark.integration
class TestProcess:
    @pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
    def test_interrupted(self, run):
        """
        Ctrl-C ends it with status 130: it reports what was done, which is in the store,
        and running it again does the rest.
        """
        with subprocess.Popen(
            [*MAIN, "import", "--store", run.url, "--json", "-"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A shell makes what runs in the background ignore it.
            preexec_fn=partial(  # noqa: PLW1509 - it takes no lock
                signal.signal, signal.SIGINT, signal.default_int_handler
            ),
        ) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write((line("a") + line("b")).encode())
            process.stdin.flush()
            records = [json.loads(process.stdout.readline()) for _ in range(2)]
            process.send_signal(signal.SIGINT)
            _, error = process.communicate()

        assert 130 == process.returncode
        assert ["imported"] * 2 == outcomes(records)
        assert (
            b"Interrupted. 2 conversations: 2 imported. What was saved stays; "
            b"run the command again." == error.strip()
        )
        assert [] == run.json("verify")
        assert ["unchanged", "unchanged", "imported"] == outcomes(
            run.json("import", run.write(line("a"), line("b"), line("c")))
        )

    @pytest.mark.skipif(sys.platform == "win32", reason="no such terminals")
    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["replay", "chats.jsonl"], [b"Replaying"]),
            (["import", "chats.jsonl"], [b"Importing", b"2 conversations"]),
            (["export", "oslo", "lima"], [b"Exporting", b"100%"]),
            (["verify"], [b"Verifying"]),
            (["gc"], [b"Collecting"]),
        ],
    )
    def test_progress(self, run, args, words):
        """On a terminal, stderr shows that something is done; stdout is the same."""
        run("import", run.write(line("oslo"), line("lima")))
        if args[0] == "import":
            run.path.unlink()

        shown, terminal = os.openpty()
        try:
            result = subprocess.run(
                [*MAIN, *args],
                check=True,
                cwd=run.folder,
                env={
                    **os.environ,
                    "CONVERSATION_STATE_STORE": run.url,
                    "TERM": "xterm",
                    "PYTHONPATH": str(ROOT),
                },
                stderr=terminal,
                stdout=subprocess.PIPE,
            )
            progress = os.read(shown, 100_000)
        finally:
            os.close(terminal)
            os.close(shown)

        for word in words:
            assert word in progress
            assert word not in result.stdout.replace(b"2 conversations: 2", b"")

        assert result.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<html><body>Hi</body></html>", "HTML"),
        ("<?xml version='1.0'?><a/>", "XML"),
        ('data: {"a": 1}\n\n', "events of a stream (SSE)"),
        ("---\ntitle: a\n", "YAML"),
        ("# Notes\n", "Markdown"),
        ("[{'role': 'user'}]", "Python's own notation"),
        ("role,content\nuser,Hi\n", "a table (CSV)"),
    ],
)
def test_other_texts(tmp_path, text, words):
    """A file that is no JSON is refused with what it is."""
    path = tmp_path / "chat.txt"
    path.write_text(text)

    assert words in Commands(tmp_path)("import", path, status=2).stderr


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (
            {"id": "1", "parent_id": None, "format": "aui/v0", "content": {}},
            "assistant_ui",
        ),
        ({"type": "human", "additional_kwargs": {}, "content": "Hi"}, "langchain"),
        ({"type": "ai", "response_metadata": {}, "content": "Hi"}, "langchain"),
        ({"messageId": "1", "parentMessageId": "0", "text": "Hi"}, "librechat"),
        ({"candidates": []}, "gemini_stream"),
        ({"kind": "request", "parts": []}, "pydantic_ai"),
    ],
)
def test_recognized(item, name):
    """A list of messages is recognised by the keys that one format alone has."""
    assert name == recognize_items([item])
