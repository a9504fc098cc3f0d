import os
import re
import shlex
import sqlite3
import subprocess
import sys

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from conversation_state.adapters.sessions import read_session
from conversation_state.aggregator import Aggregator
from conversation_state.cli import _exit, _options
from conversation_state.cli._commands import cli
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.pages.server import make_app
from conversation_state.rendering import render_transcript
from conversation_state.store import open_store
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage
from tests.commands import HOSTILE, MAIN, ROOT, Commands, line

# A session of Claude Code with an error of the API.
ERROR_SESSION = ROOT / (
    "tests/golden/sessions/claude_code-2.1.332/"
    "7c1e0000-0000-4000-8000-0000000000aa.jsonl"
)

STATES = [Aggregator.new().add_user_prompt("When is the next train?")]
STATES.append(STATES[-1].add_assistant_message("At noon.").add_usage(Usage(7, 3)))
STATES.append(STATES[-1].add_user_prompt("Book it.").add_assistant_message("Done."))


@pytest.fixture(autouse=True)
def _no_store_by_default(monkeypatch):
    """The developer's own shell settings don't reach the tests."""
    monkeypatch.delenv("CONVERSATION_STATE_STORE", raising=False)


@pytest.fixture
def run(tmp_path):
    """The commands on a store that is not there yet."""
    return Commands(tmp_path)


@pytest.fixture
def store(run):
    """That store with a conversation of three revisions, the second labelled."""
    with open_store(run.url) as store:
        for state in STATES:
            store.save("travel", state)

        store.label("travel", "before booking", at=2)
        yield store


class TestOpening:
    @pytest.mark.parametrize(
        "command",
        [
            ["names"],
            ["log", "x"],
            ["show", "x"],
            ["diff", "x", "y"],
            ["trim", "x", "--limit", "9"],
            ["cost", "x"],
            ["export", "x"],
            ["fork", "x", "y"],
            ["label", "x", "y"],
            ["rollback", "x", "1"],
            ["verify"],
            ["gc"],
            ["erase", "x", "1", "--reason", "y", "--yes"],
            ["delete", "x", "--yes"],
        ],
    )
    def test_makes_no_files(self, run, command):
        """A mistyped path is an error, and leaves no empty file behind."""
        result = run(*command, status=2)

        assert "no such file; `import` creates one" in result.stderr
        assert "" == result.stdout
        assert [] == [*run.folder.iterdir()]

    def test_paths(self, run, monkeypatch):
        """
        A path is the address of its file, before the command, after it, which wins,
        and in the environment; nothing in it is read as in a URL.
        """
        run.path = run.folder / "a%20b?.db"
        run.write(line("here"), name="here.jsonl")
        run("import", run.folder / "here.jsonl", url=str(run.path))
        with open_store(run.path) as store:
            assert "here" in store

        monkeypatch.setenv("CONVERSATION_STATE_STORE", str(run.path))
        assert "here" in CliRunner().invoke(cli, ["names"]).output

        monkeypatch.setenv("CONVERSATION_STATE_STORE", "no.db")
        monkeypatch.chdir(run.folder)
        asked = [
            ["--store", str(run.path), "names"],
            ["--store", "no.db", "names", "--store", "a%20b?.db"],
        ]

        for args in asked:
            result = CliRunner().invoke(cli, args)
            assert 0 == result.exit_code, result.output
            assert "here" in result.output

    def test_as_a_module(self, run):
        """``python -m conversation_state`` is the same program."""
        with open_store(run.url) as store:
            store.save("here", Aggregator.new())

        done = subprocess.run(
            [sys.executable, "-m", "conversation_state", "names", "--store", run.url],
            capture_output=True,
            check=True,
            cwd=ROOT,
            text=True,
        )

        assert "here" in done.stdout

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("nowhere.db", "nowhere.db: no such file; `import` creates one"),
            ("LICENS", "LICENS: no such file; did you mean 'LICENSE'?"),
            ("tests/", "this is a directory"),
            ("x/" + "x" * 5_000, "ame too long"),
            ("postgres", "expected one of chats.db or another path"),
            ("mysql://me:secret@host/x", "invalid URL of a store"),
            ("sqlite:///x?mode=whatever", "mode=whatever"),
            ("memory:", "no name 'x'; `conversation-state ls` lists the names"),
            ("sqlite:///README.md", "no SQLite database"),
            ("sqlite:///a\0b", ""),
        ],
    )
    def test_bad_urls(self, run, url, message):
        """What is not a store is reported in one line, without any password."""
        result = run("log", "x", url=url, status=2)

        assert "" == result.stdout
        assert 1 == result.stderr.count("\n")
        assert message in result.stderr
        assert "secret" not in result.stderr

    def test_keeps_passwords(self, run, monkeypatch):
        """
        What can't be reached is reported without its URL, which may have a
        password.
        """

        def unreachable(url):
            raise ConnectionRefusedError(111, "Connection refused")

        monkeypatch.setattr("conversation_state.store.open_store", unreachable)
        url = "postgresql+psycopg://me:secret@host/chats"
        result = run("names", url=url, status=2)

        message = "Error: the postgresql+psycopg store: Connection refused\n"
        assert message == result.stderr

    def test_no_url(self):
        """Without a store the option and the variable are named."""
        result = CliRunner().invoke(cli, ["names"])

        assert 2 == result.exit_code
        assert "--store" in result.stderr
        assert "CONVERSATION_STATE_STORE" in result.stderr

    def test_spaces(self, tmp_path, run, store):
        """A path is found as the store finds it, with what URLs can't hold."""
        store.close()
        run.path.rename(tmp_path / "my chats?.db")

        found = run.json("names", url=f"sqlite:///{tmp_path}/my%20chats%3F.db")

        assert ["travel"] == [head["name"] for head in found]


class TestAsked:
    @pytest.mark.parametrize(
        ("asked", "revision"),
        [
            ("travel", 3),
            ("travel@1", 1),
            ("travel@-1", 2),
            ("travel@-2", 1),
            ("travel@before booking", 2),
        ],
    )
    def test_revisions(self, run, store, asked, revision):
        """
        A name is its newest revision; others have numbers, from either end,
        and labels.
        """
        shown = run.json("show", asked)

        texts = [message.text for message in STATES[revision - 1]]
        assert texts == [each["message"]["content"] for each in shown]

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            ("show travel@9", "no revision 9: 'travel' is at revision 3"),
            (
                "show travel@-3",
                "no revision 3 before the newest: 'travel' is at revision 3",
            ),
            ("show travel@", "nothing after the @"),
            ("show travel@later", "no label 'later': 'travel' has 'before"),
            ("show travle", "did you mean 'travel'?"),
            ("show me@exampel.com@2", "mean 'me@example.com'?"),
            ("show @2", "no name '@2'"),
            (["show", ""], "1 to 500 characters"),
            (["show", HOSTILE], "owned"),
            (["show", f"travel@{HOSTILE}"], "owned"),
            ("rollback travel 9", "no revision 9: 'travel' is at revision 3"),
            (
                "rollback travel later",
                "no label 'later': 'travel' has 'before",
            ),
            ("label travel@1 x --at 2", "both give a revision"),
            (["label", "travel", ""], "invalid label"),
            (["label", "travel", "\udcff"], "'\\udcff': expected 1 to 500 characters"),
            (["show", "travel@\udcff"], "invalid label '\\udcff'"),
            (["rollback", "travel", "\udcff"], "invalid label '\\udcff'"),
            ("label travel 3", "invalid label"),
            ("label travel no --remove", "travel has no label 'no'"),
            ("fork travel@1 travel", "'travel' is saved already"),
            (["fork", "travel", ""], "1 to 500 characters"),
            ("rollback travel@2 1", "expected a NAME without a revision: rollback"),
            ("delete travel@2 --yes", "without a revision"),
            ("tree travel@2", "expected a NAME without a revision: tree travel"),
            ("page travel@2", "expected a NAME without a revision: page travel"),
            ("erase travel 0 --reason x --yes", "'travel' has"),
            ("erase travel e-1 --reason x --yes", "'travel' has"),
            ("erase travel 1 --reason x", "give --yes"),
            ("delete travel", "give --yes"),
        ],
    )
    def test_refused(self, run, store, args, message):
        """
        What is not there is reported with what is much like it, in one line; and so
        is what can't be done. Nothing is changed.
        """
        store.save("me@example.com", STATES[0])
        command, *more = args.split() if isinstance(args, str) else args

        result = run(command, *more, status=2, data="y\n")

        assert message in result.stderr
        assert 1 == result.stderr.count("\n")
        assert "" == result.stdout
        assert STATES[2] == store.load("travel")
        assert {"before booking"} == {
            label for head in store.history("travel") for label in head.labels
        }

    @pytest.mark.parametrize(
        ("args", "flags"),
        [
            ("show travel --json --markdown", ("--json", "--markdown")),
            ("diff travel travel --html --json", ("--html", "--json")),
            ("erase travel 1 --yes", ("--reason",)),
        ],
    )
    def test_options(self, run, store, args, flags):
        """
        One form of output only can be chosen, and nothing is erased for no reason; the
        error names the options.
        """
        command, *more = args.split()
        result = run(command, *more, status=2)

        assert all(flag in result.stderr for flag in flags)

    @pytest.mark.parametrize(
        ("args", "printed"),
        [
            (
                "label travel@1 before\\ booking",
                "Revision 1 of travel is now 'before booking'; revision 2 was.\n",
            ),
            (
                "label travel before\\ booking --remove",
                "Revision 2 of travel is no longer 'before booking'.\n",
            ),
            (
                "rollback travel @3",
                "travel has the messages of revision 3; nothing to do.\n",
            ),
            ("names --prefix x", ""),
            (
                "diff travel@1 travel@2",
                (
                    "--- travel@1, 1 message\n+++ travel@2, 2 messages\n1 message in "
                    "common, the last: user: When is the next train?\n+ assistant: At "
                    "noon.\nonly travel@2 recorded 10 tokens (1 ledger entry)\n"
                ),
            ),
            ("show travel@2", f"{render_transcript(STATES[1])}\n"),
            (
                "show travel --markdown",
                f"{render_transcript(STATES[2], format='markdown')}\n",
            ),
        ],
    )
    def test_prints(self, run, store, args, printed):
        """What people read."""
        command, *more = shlex.split(args)
        result = run(command, *more)

        assert printed == result.stdout
        assert "" == result.stderr

    def test_names_with_ats(self, run, store):
        """
        A name may hold an @, and so may a label: the longest name there is
        counts.
        """
        store.save("me@example.com", STATES[0], label="a@b")
        store.save("me@example.com", STATES[1])
        store.save("me", STATES[2])

        assert [2, 1, 4, 1] == [
            len(run.json("show", asked))
            for asked in (
                "me@example.com",
                "me@example.com@1",
                "me",
                "me@example.com@a@b",
            )
        ]
        run("show", "me@example.org", status=2)


class TestNames:
    def test_json(self, run, store):
        """The JSON has all fields of a head."""
        (record,) = run.json("names", "--prefix", "tr")

        head = store.latest("travel")
        assert {
            "name": "travel",
            "revision": 3,
            "parent": 2,
            "labels": [],
            "notes": {},
            "saved_at": head.saved_at.isoformat(timespec="milliseconds"),
            "messages": 4,
            "ledger_entries": 1,
            "state_id": str(STATES[0].id),
            "digest": head.digest,
            "name_notes": {},
        } == record


class TestHostileNames:
    """Names, labels and texts that a terminal would obey."""

    @pytest.mark.parametrize(
        "command",
        [
            ["label", HOSTILE, "kept"],
            ["fork", HOSTILE, f"{HOSTILE} 2"],
            ["rollback", HOSTILE, "1"],
            ["delete", HOSTILE, "--yes"],
            ["names"],
            ["log", HOSTILE],
            ["show", f"{HOSTILE}@{HOSTILE}"],
            *[["diff", "travel", HOSTILE, form] for form in ("--html", "--markdown")],
            ["diff", "travel", HOSTILE, "--limit", "9"],
        ],
    )
    def test_is_escaped(self, run, store, command):
        """
        What they print of a name, a label or a text has no character that a terminal
        interprets; programs get it as it is.
        """
        store.save(HOSTILE, STATES[0])
        store.save(HOSTILE, STATES[1].add_user_prompt(HOSTILE), label=HOSTILE)

        (name,) = {each["name"] for each in run.json("log", HOSTILE)}

        assert HOSTILE == name
        assert "owned" in run(*command).stdout


class TestLog:
    def test_json(self, run, store):
        """The JSON has the same, and the usage."""
        records = run.json("log", "travel")

        assert [3, 2, 1] == [each["revision"] for each in records]
        assert [[], ["before booking"], []] == [each["labels"] for each in records]
        assert [12, 8, 6] == [each["tokens"] for each in records]
        assert [10, 10, 0] == [each["spent_tokens"] for each in records]

    @pytest.mark.parametrize(
        ("args", "revisions"),
        [
            (["travel", "-n", "1"], [3]),
            (["travel", "--limit", "2"], [3, 2]),
            (["travel@2"], [2, 1]),
            (["travel@before booking", "-n", "1"], [2]),
        ],
    )
    def test_some(self, run, store, args, revisions):
        """It may begin further back, and end early."""
        assert revisions == [each["revision"] for each in run.json("log", *args)]

    def test_after_rollback(self, run, store):
        """States that are no beginning of the newest have their own figures."""
        run("rollback", "travel", "1")

        assert [1, 4, 2, 1] == [each["messages"] for each in run.json("log", "travel")]
        assert [6, 12, 8, 6] == [each["tokens"] for each in run.json("log", "travel")]

    def test_branches(self, run, store):
        """
        What the first one listed did not grow from is marked, also where the list
        begins further back.
        """
        run("rollback", "travel", "1")
        run("rollback", "travel", "2")

        def list_marked(name):
            rows = run("log", name).stdout.splitlines()[1:]
            return [row.split()[0] for row in rows if "other" in row]

        assert [2, 1, 2, 1, None] == [
            each["parent"] for each in run.json("log", "travel")
        ]
        assert ["4", "3"] == list_marked("travel")
        assert ["3", "2"] == list_marked("travel@4")
        assert [] == list_marked("travel@3")


class TestAnnotate:
    def test_name(self, run, store):
        """Notes on a name are set one by one, removed by null, and printed."""
        run("annotate", "travel", "title=Trip to Bern", "stars:=5", 'tags:=["a"]')
        run("annotate", "travel", "stars:=null", "empty=")
        output = run("annotate", "travel")

        assert {"title": "Trip to Bern", "tags": ("a",), "empty": ""} == store.notes(
            "travel"
        )
        assert {"title=Trip to Bern", 'tags:=["a"]', "empty="} == {
            *output.stdout.splitlines()
        }
        assert {**store.notes("travel"), "tags": ["a"]} == run.json(
            "annotate", "travel"
        )[0]["notes"]

    def test_revision(self, run, store):
        """Those on a revision are listed by the log, after its labels."""
        run("annotate", "travel@2", "commit=1a2b")
        run("annotate", "travel", "--at", "1", "n:=1")

        assert {} == store.notes("travel")
        assert [{}, {"commit": "1a2b"}, {"n": 1}] == [
            each["notes"] for each in run.json("log", "travel")
        ]
        rows = run("log", "travel").stdout.splitlines()
        assert rows[2].endswith("before booking; commit=1a2b")
        assert rows[3].endswith("  n:=1")

    @pytest.mark.parametrize(
        "given",
        [
            *("title", "=x", ":=1", "a:=", "a:={", "a:=NaN", f"a={'x' * 17_000}"),
            f"a:={'[' * 5_000}",
        ],
        ids=lambda given: given[:10],
    )
    def test_refused(self, run, store, given):
        """What is not a note is refused with status 2, and nothing is noted."""
        result = run("annotate", "travel", "b=1", given, status=2)

        assert "" == result.stdout
        assert {} == store.notes("travel")


class TestShow:
    def test_last(self, run, store):
        """A window shows the end, with how much comes before, and keeps the numbers."""
        result = run("show", "travel", "--last", 1, "--number")

        assert "[4] assistant\n    Done.\n" == result.stdout
        assert [0, 4] == [
            len(run.json("show", "travel", "--last", last)) for last in (0, 99)
        ]
        assert "(3 earlier messages are not shown)\n" == result.stderr
        assert "(1 earlier message is not shown)\n" == (
            run("show", "travel", "--last", 3).stderr
        )
        assert [2] == [
            each["number"] for each in run.json("show", "travel@2", "--last", 1)
        ]

    def test_empty_system_message(self, run):
        """A system message without content is left out, and the numbers stay."""
        erased = SystemMessage("Secret.")
        state = Aggregator.new([SystemMessage(""), SystemMessage("Be brief."), erased])
        with open_store(run.path) as store:
            store.save("brief", state.add_user_prompt(""))

        run("erase", "brief", "3", "--reason", "asked", "--yes")
        shown = run("show", "brief", "--number").stdout

        assert ["[2] system", "[3] system", "[4] user"] == re.findall(
            r"^\[.\] \w+", shown, re.MULTILINE
        )
        assert 4 == len(run.json("show", "brief"))
        assert 1 == run("show", "brief", "--markdown").stdout.count("Be brief.")

    def test_last_reads_no_more(self, run, store, monkeypatch):
        """The rest is not even loaded."""
        monkeypatch.setattr("conversation_state.store._load.load_at", None)

        assert "Done." in run("show", "travel", "--last", 2).stdout

    def test_json(self, run, store):
        """
        A message is an object, with its number from 1, its identity and all
        that it holds.
        """
        first, *_ = run.json("show", "travel")

        assert {
            "number": 1,
            "entry_id": STATES[0].entries[0].id,
            "message": {"role": "user", "content": "When is the next train?"},
        } == first

    def test_numbers(self, run, store):
        """Only lines with a role are numbered, whatever the text is."""
        message = AssistantMessage(f"one\n\nuser\n    two\n[7] user\n{HOSTILE}")
        store.save("odd", Aggregator.new(messages=[message, UserMessage(""), message]))

        heads = [
            each
            for each in run("show", "odd", "--number").stdout.splitlines()
            if each and not each.startswith(" ")
        ]

        assert ["[1] assistant", "[2] user", "[3] assistant"] == heads


class TestDiff:
    @pytest.mark.parametrize(
        ("flag", "expected"), [("--html", "<"), ("--markdown", "#")]
    )
    def test_forms(self, run, store, flag, expected):
        """Pages get HTML or Markdown."""
        result = run("diff", "travel@1", "travel@2", flag)

        assert expected in result.stdout
        assert "At noon." in result.stdout

    def test_json(self, run, store):
        """The JSON has both heads, the messages of each alone, and the usage."""
        (record,) = run.json("diff", "travel@1", "travel@2")

        assert (1, 2) == (record["a"]["revision"], record["b"]["revision"])
        assert (1, [], 0) == (record["common"], record["only_a"], record["changed"])
        assert (0, 10) == (record["spent_tokens_a"], record["spent_tokens_b"])
        assert record["identical"] is False
        assert [
            {
                "entry_id": STATES[1].entries[1].id,
                "message": {"role": "assistant", "content": "At noon."},
            }
        ] == record["only_b"]

    def test_exit_code(self, run, store):
        """The exit code shows whether they differ, if the user asks for it."""
        run("diff", "travel@1", "travel")
        run("diff", "travel@1", "travel", "--exit-code", status=1)
        run("diff", "travel@3", "travel", "--exit-code")


class TestTrim:
    def test_view(self, run, store):
        """It lists what is kept and dropped, shows the view, and changes nothing."""
        result = run("trim", "travel", "--limit", 7)

        summary, kept, dropped, blank, *shown = result.stdout.splitlines()
        assert "4 messages, 12 tokens; limit 7" == summary
        assert "kept 2, 4 tokens" == kept
        assert "dropped 2: 1 to 2 (over budget)" == dropped
        assert "" == blank
        assert render_transcript(STATES[2][2:]).splitlines() == shown
        assert 3 == store.latest("travel").revision

    def test_a_stopped_call_hides_nothing(self, run, store):
        """
        A call without a result is answered in the view; what stands before it
        is kept, and a result without a call is named, once, by its number from 1.
        """
        state = Aggregator.new().add_user_prompt("first")
        state = state.add_tool_call(ToolCall("c", "f")).add_user_prompt("next")
        store.save("stopped", state.add(ToolMessage("?", tool_call_id="lost")))
        page = run("page", "stopped", "--limit", 99).stdout

        result = run("trim", "stopped", "--limit", 99)
        (record,) = run.json("trim", "stopped", "--limit", 99)

        lines = result.stdout.splitlines()
        assert lines[0].startswith("4 messages")
        reason = "result has no call lost before it (message 4)"
        assert f"dropped 1: 4 (invalid: {reason})" == lines[2]
        assert 1 == result.stdout.count(reason)
        assert reason in page
        assert [1, 2, 3] == record["kept"]
        assert [{"number": 4, "reason": f"invalid: {reason}"}] == record["dropped"]

    def test_json(self, run, store):
        """The JSON has the numbers."""
        (record,) = run.json("trim", "travel@3", "--limit", 7)

        assert (12, 7, 4) == (
            record["tokens"],
            record["limit_tokens"],
            record["kept_tokens"],
        )
        assert [3, 4] == record["kept"]
        assert [{"number": number, "reason": "over budget"} for number in (1, 2)] == (
            record["dropped"]
        )
        assert "travel" == record["name"]

    def test_errors_that_an_agent_shows(self, run):
        """
        What an agent shows and does not send, an error of the API, no view has and no
        request, on the command line and on pages.
        """
        session = read_session(ERROR_SESSION)
        [number] = [
            at
            for at, each in enumerate(session.tree.present, 1)
            if "API Error" in each.text
        ]
        with open_store(run.url) as store:
            store.save_tree("s", session.tree)
            app = make_app(store, token="t", authority="testserver", write=False)
            client = TestClient(app)
            client.get("/", params={"token": "t"})
            asked = {"format": "openai_chat"}
            requests = [
                run("export", "s", "--format", "openai_chat").stdout,
                client.get("/name/s", params=asked).text,
                client.get("/export/s", params=asked).text,
            ]
            pages = [
                run("page", "s", "--limit", 5_000).stdout,
                client.get("/name/s", params={"limit": 5_000}).text,
            ]

        (record,) = run.json("trim", "s", "--limit", 5_000)

        assert [{"number": number, "reason": "removed"}] == record["dropped"]
        for request in requests:
            assert "It is add()." in request
            assert "API Error" not in request
        assert "API Error" in run("export", "s").stdout
        for page in pages:
            assert "The model sees 13 of 14 messages" in page

    def test_too_little(self, run, store):
        """If nothing valid fits, that is the answer, and the status is 1."""
        result = run("trim", "travel", "--limit", 1, status=1)

        assert "the smallest needs 4 tokens, and --limit is 1" in result.stderr
        assert "" == result.stdout


class TestCheckpoint:
    def test_labels(self, run, store):
        """
        The newest revision gets the label, or the one that is meant, beside those
        it has.
        """
        run("label", "travel", "booked")
        run("label", "travel@1", "asked")
        (record,) = run.json("label", "travel", "noon", "--at", "before booking")

        labels = [head.labels for head in store.history("travel")]
        assert [("booked",), ("before booking", "noon"), ("asked",)] == labels
        assert (2, ["before booking", "noon"]) == (record["revision"], record["labels"])
        assert "before booking, noon" in run("log", "travel").stdout

    def test_moves_and_goes(self, run, store):
        """
        Of a label that moves, the revision that had it is named; another label of the
        revision stays when one is removed.
        """
        moves = [
            run.json("label", *args)[0]["moved_from"]
            for args in (
                ("travel@1", "before booking"),
                ("travel@1", "before booking"),
                ("travel@1", "x" * 500),
            )
        ]
        run("label", "travel", "before booking", "--remove")

        assert [2, 1, None] == moves
        records = run.json("log", "travel", "--moves")
        assert [("before booking", 1, None), ("x" * 500, None, 1)] == [
            (each["label"], each["before"], each["after"]) for each in records[:2]
        ]
        lines = run("log", "travel", "--moves", "-n", 3).stdout.splitlines()
        assert ["MOVED", "(UTC)", "FROM", "TO", "LABEL"] == lines[0].split()
        assert ["2", "1", "before", "booking"] == lines[3].split()[2:]
        assert ("x" * 500,) == store.latest("travel", at=1).labels
        assert 1 == len(run.json("show", f"travel@{'x' * 500}"))


class TestFork:
    def test_forks(self, run, store):
        """
        The fork has the same past and an id of its own; its start can be given in two
        ways.
        """
        records = [
            *run.json("fork", "travel", "one"),
            *run.json("fork", "travel@2", "two"),
            *run.json("fork", "travel", "three", "--at", "-2"),
        ]

        assert [4, 2, 1] == [each["messages"] for each in records]
        assert [each["state_id"] for each in records] == [
            str(store.load(name).id) for name in ("one", "two", "three")
        ]
        assert STATES[2].id == store.load("one").parent_id


class TestRollback:
    @pytest.mark.parametrize("to", ["2", "@2", "@-1", "before booking"])
    def test_goes_back(self, run, store, to):
        """The old state is the newest again, as a new revision; nothing is lost."""
        (record,) = run.json("rollback", "travel", to)

        assert (4, 3, 2) == (record["revision"], record["was"], record["to"])
        assert STATES[1] == store.load("travel")
        assert [4, 3, 2, 1] == [head.revision for head in store.history("travel")]
        assert STATES[2] == store.load("travel", at=3)

    def test_suggests_the_way_back(self, run, store):
        """The command that it suggests for going back works."""
        result = run("rollback", "travel", 1)

        run(*result.stdout.splitlines()[1].split()[4:])

        assert STATES[2] == store.load("travel")
        assert 5 == store.latest("travel").revision

    def test_stale(self, run, store, monkeypatch):
        """
        If another writer saves meanwhile, none of their messages is lost, and the error
        has no traceback.
        """
        head = type(store).latest

        def meanwhile(self, name, *, at=None):
            found = head(self, name, at=at)
            if at is not None:
                store.save("travel", STATES[2].add_user_prompt("And back?"))

            return found

        monkeypatch.setattr(type(store), "latest", meanwhile)
        result = run("rollback", "travel", "1", status=2)

        assert "'travel' is now revision 4" in result.stderr
        assert (
            "another program saved it first, and nothing was written" in result.stderr
        )
        assert "expecting" not in result.stderr
        assert 4 == store.latest("travel").revision

    def test_quotes(self, run, store):
        """A name with blanks can be copied from the output."""
        store.save("my trip", STATES[0])
        store.save("my trip", STATES[1])

        assert "rollback 'my trip' 2\n" in run("rollback", "my trip", "1").stdout


class TestVerify:
    def test_damage(self, run, store):
        """What was changed is named by its identity, with status 1."""
        store.close()
        with sqlite3.connect(run.path) as connection:
            connection.execute(
                "UPDATE entries SET body = "
                "CAST(replace(CAST(body AS TEXT), 'noon', 'nine') AS BLOB)"
            )
        connection.close()

        result = run("verify", status=1)
        record = run.json("verify", status=1)

        changed = STATES[1].entries[1].id
        assert f"entries {changed}: " in result.stdout
        assert "1 damage found." in result.stdout
        assert [("entries", changed)] == [
            (each["where"], each["id"]) for each in record
        ]
        assert {"where", "id", "what"} == {*record[0]}

    def test_beyond_reading(self, run, store):
        """
        Damage that prevents loading a state is reported by the command that loads it.
        """
        store.close()
        with sqlite3.connect(run.path) as connection:
            connection.execute("UPDATE entries SET body = CAST('{' AS BLOB)")
        connection.close()

        result = run("show", "travel", status=2)

        assert 1 == result.stderr.count("\n")
        assert "" == result.stdout


class TestCollect:
    def test_collects(self, run, store):
        """What no name needs is removed, and its size is reported."""
        store.save("other", Aggregator.new().add_user_prompt("Hi!"))
        run("delete", "other", "--yes")

        (gone,) = run.json("gc")

        assert (1, 0) == (gone["entries"], gone["ledger_entries"])
        assert "Collected 0 messages, 0 ledger entries" in run("gc").stdout
        assert STATES[2] == store.load("travel")


class TestRestore:
    def test_kept(self, run, store):
        """The answer says where the file went that was there, if there was one."""
        copy, path = run.folder / "copy.db", run.folder / "there.db"
        store.backup(copy)
        asked = ("restore", copy, "--replace")
        [first], [second] = (run.json(*asked, url=path) for _ in range(2))

        assert {"restored": str(path), "kept": None} == first
        assert str(path) == second["restored"]
        with open_store(second["kept"]) as kept:
            assert STATES[-1] == kept.load("travel")


class TestErase:
    def test_by_number(self, run, store):
        """
        The message with that number has no content any more, in every state, and the
        receipt describes what was done.
        """
        shown = run("show", "travel", "--number").stdout

        result = run("erase", "travel", "2", "--reason", "private", "--yes")

        entry = STATES[1].entries[1]
        assert "[2] assistant\n    At noon." in shown
        assert "Erased in 1 place." in result.stdout
        assert entry.id in result.stdout
        assert "private" in result.stdout
        assert ["", "", "Book it."] == [
            store.load("travel", at=at)[number].text
            for at, number in ((2, 1), (3, 1), (3, 2))
        ]
        assert [] == run.json("verify")
        again = run("show", "travel", "--number").stdout
        assert "[2] assistant\n  erased:\n    private" in again

    def test_by_id(self, run, store):
        """So does the one with that identity; once more gives the same receipt."""
        entry = STATES[0].entries[0]
        args = ("erase", "travel", entry.id, "--reason", "asked for", "--yes")

        (record,) = run.json(*args)
        (again,) = run.json(*args)

        assert (entry.id, "asked for", 1) == (
            record["entry_id"],
            record["reason"],
            record["rows"],
        )
        assert {**record, "rows": 0} == again
        assert "This was erased before." in run(*args).stdout


class TestAsking:
    @pytest.fixture(autouse=True)
    def _pretend_terminal(self, monkeypatch):
        monkeypatch.setattr(_options, "is_stdin_terminal", lambda: True)

    @pytest.mark.parametrize(
        ("answer", "status", "text"),
        [("y\n", 0, ""), ("n\n", 1, "At noon."), ("\n", 1, "At noon.")],
    )
    def test_erase(self, run, store, answer, status, text):
        """On a terminal it shows what would be erased, and does it on a yes."""
        args = ("erase", "travel", "2", "--reason", "x")

        result = run(*args, status=status, data=answer)

        assert "Erase message 2 of travel (assistant: At noon.)" in result.stderr
        assert bool(status) is result.stderr.endswith("Nothing was erased.\n")
        assert text == store.load("travel")[1].text

    def test_delete(self, run, store):
        """A no deletes nothing, which is no error."""
        result = run("delete", "travel", status=1, data="n\n")

        assert result.stderr.endswith("\nNothing was deleted.\n")
        assert "travel" in store

    def test_hostile(self, run, store):
        """What would be erased is shown in part, without its control characters."""
        store.save("odd", Aggregator.new().add_user_prompt(HOSTILE + "x" * 500))

        result = run("erase", "odd", "1", "--reason", "x", status=1, data="n\n")

        assert 300 > len(result.stderr)


class TestDelete:
    def test_deletes(self, run, store):
        """The name is gone; forks keep what they share with it."""
        run("fork", "travel", "copy")

        (record,) = run.json("delete", "travel", "--yes")
        run("gc")

        assert {"name": "travel", "revisions": 3} == record
        assert ("copy",) == store.names()
        assert [*STATES[2]] == [*store.load("copy")]


class TestHelp:
    def test_in_order(self):
        """
        Commands stand in the order of use, each with a description that is not cut off.
        """
        result = CliRunner().invoke(cli, ["--help"])

        found = re.findall(r"^  ([a-z][a-z-]+)  +\S", result.stdout, re.MULTILINE)
        assert "..." not in result.stdout.replace("[ARGS]...", "")
        assert [*cli.commands] == found

    @pytest.mark.parametrize("command", sorted(cli.commands))
    def test_of_each(self, command):
        """Every command explains itself, and where its store is."""
        result = CliRunner().invoke(cli, [command, "--help"])

        assert 0 == result.exit_code
        assert 80 >= max(map(len, result.stdout.splitlines()))
        has_store = command not in {"convert", "replay", "strict-provider"}
        assert has_store == ("CONVERSATION_STATE_STORE" in result.stdout)

    def test_quick(self, run):
        """The help needs no store, no codec and no tables."""
        script = (
            "import sys; sys.argv = ['', '--help']\n"
            "from conversation_state.cli.main import main\n"
            "try: main()\n"
            "finally: print(*sys.modules)"
        )
        result = run.process(script=script)

        *_, modules = result.stdout.splitlines()
        slow = {"rich", "sqlite3", "cattrs", "conversation_state.store", "hypothesis"}
        assert 0 == result.returncode
        assert set() == slow & {*modules.split()}


class TestColours:
    """Where stdout is a terminal, what people read is in colour."""

    COMMANDS = (
        ["log", "travel"],
        ["show", "travel", "--number"],
        ["show", "travel"],
        ["diff", "travel@1", "travel"],
    )

    @pytest.fixture(autouse=True)
    def terminal(self, monkeypatch):
        """A terminal with colours."""
        monkeypatch.setattr(_exit, "is_stdout_terminal", lambda: True)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("NO_PAGER", "1")
        monkeypatch.delenv("NO_COLOR", raising=False)

    @staticmethod
    def print_at_terminal(run, *args):
        asked = [*args, "--store", run.url]
        result = CliRunner().invoke(cli, asked, color=True)

        assert 0 == result.exit_code, result.output
        return result.stdout

    @pytest.mark.parametrize("command", COMMANDS)
    def test_adds_only_colours(self, run, store, command, monkeypatch):
        """Without its colours it is the text that a pipe gets, each line by itself."""
        store.save("travel", STATES[-1].add_user_prompt(HOSTILE))
        shown = self.print_at_terminal(run, *command)
        monkeypatch.setattr(_exit, "is_stdout_terminal", lambda: False)
        plain = self.print_at_terminal(run, *command)

        assert shown != plain
        assert plain == re.sub(r"\x1b\[\d+m", "", shown)
        for each in shown.splitlines():
            assert "\x1b" not in each or each.endswith("\x1b[0m")

    @pytest.mark.parametrize("command", COMMANDS)
    @pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
    def test_unwanted(self, run, store, monkeypatch, command, variable):
        """NO_COLOR turns them off, and so does a terminal without any."""
        monkeypatch.setenv(*variable)

        assert "\x1b" not in self.print_at_terminal(run, *command)

    @pytest.mark.parametrize(
        "command",
        [
            ["log", "travel", "--json"],
            ["show", "travel", "--json"],
            ["show", "travel", "--markdown"],
            ["diff", "travel@1", "travel", "--json"],
            ["diff", "travel@1", "travel", "--html"],
            ["diff", "travel@1", "travel", "--markdown"],
        ],
    )
    def test_never_in_other_forms(self, run, store, command):
        """What programs and pages read has none."""
        assert "\x1b" not in self.print_at_terminal(run, *command)

    def test_what_is_in_colour(self, run, store):
        """
        Roles and the sides of a difference; only at the start of a line, which
        no message can write.
        """
        shown = self.print_at_terminal(run, "show", "travel")
        found = self.print_at_terminal(run, "diff", "travel@1", "travel")
        back = self.print_at_terminal(run, "diff", "travel", "travel@1")
        listed = self.print_at_terminal(run, "log", "travel")

        assert "\x1b[36mbefore booking\x1b[0m" in listed
        assert shown.startswith("\x1b[32m\x1b[1muser\x1b[0m\n    When is")
        assert "\x1b[36m\x1b[1massistant\x1b[0m" in shown
        assert "\x1b[32m+ user: Book it.\x1b[0m" in found
        assert "\x1b[31m- user: Book it.\x1b[0m" in back


@pytest.mark.integration
class TestProcess:
    """The commands as a shell sees them."""

    def test_statuses(self, run, store):
        """
        0 where all is well, 1 where the answer is no, 2 where something is not there;
        reported in one line, and never as a traceback.
        """
        well, no, ill = (
            run.process(*args)
            for args in (
                ["log", "travel"],
                ["trim", "travel", "--limit", "1"],
                ["log", "travle"],
            )
        )

        assert [0, 1, 2] == [each.returncode for each in (well, no, ill)]
        assert "before booking" in well.stdout
        assert "" == well.stderr
        assert "did you mean 'travel'?" in ill.stderr
        assert [1, 1] == [each.stderr.count("\n") for each in (no, ill)]

    @pytest.mark.skipif(sys.platform == "win32", reason="no such terminals")
    def test_asks(self, run, store):
        """A user at a terminal is asked, and answers there."""
        typed, terminal = os.openpty()
        try:
            os.write(typed, b"y\n")
            result = subprocess.run(
                [*MAIN, "delete", "travel", "--store", run.url],
                capture_output=True,
                check=False,
                cwd=ROOT,
                stdin=terminal,
                text=True,
            )
        finally:
            os.close(terminal)
            os.close(typed)

        assert 0 == result.returncode
        assert "Delete travel, with its 3 revisions?" in result.stderr
        assert "Deleted travel, which had 3 revisions.\n" == result.stdout
