import io
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.aggregator import Aggregator
from conversation_state.cli import _values
from conversation_state.cli import replay as replaying
from conversation_state.cli._commands import cli
from conversation_state.codec import decode
from conversation_state.counting import TokenBudget
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.store import open_store
from conversation_state.tools import ToolCall
from conversation_state.trimming import TrimContext
from tests.commands import MAIN, ROOT
from tests.recorded import is_large

EXAMPLE = ROOT / "examples" / "travel_desk.jsonl"

BUDGET = TokenBudget(context_window=8_000, max_output_tokens=1_000)


CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What time is it in Oslo, and in Lima?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": "clock", "arguments": f'{{"city": "{city}"}}'},
            }
            for number, city in enumerate(("Oslo", "Lima"), 1)
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "12:30"},
    {"role": "tool", "tool_call_id": "c2", "content": "05:30"},
    {"role": "assistant", "content": "12:30 in Oslo, 05:30 in Lima."},
]

MESSAGES = (
    SystemMessage("Be brief."),
    UserMessage("What time is it in Oslo?"),
    AssistantMessage(tool_calls=[ToolCall("c1", "clock", '{"city": "Oslo"}')]),
    ToolMessage("12:30", tool_call_id="c1"),
    AssistantMessage("12:30."),
)


def line(id="chat", messages=CHAT):
    return json.dumps({"id": id, "messages": messages}).encode()


def run(*args, data=None):
    return CliRunner().invoke(cli, ["replay", *map(str, args)], input=data)


def outcomes(result):
    """What ``--json`` printed."""
    return [json.loads(each) for each in result.stdout.splitlines()]


def unwrapped(result):
    """What was printed, on one line."""
    return " ".join(result.stdout.split())


def names(result):
    return [outcome["conversation"] for outcome in outcomes(result)]


@pytest.fixture(autouse=True)
def _usual_terminal(monkeypatch):
    """The developer's own terminal settings don't reach the tests."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)

    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def write(tmp_path):
    """Writes lines into a file and gives its path."""

    def written(*lines, name="chats.jsonl", end=b"\n"):
        path = tmp_path / name
        path.write_bytes(b"".join(each + end for each in lines))
        return path

    return written


class TestReplay:
    def test_table(self, write):
        """One row for each conversation, and a summary of what was verified."""
        result = run(write(line("oslo"), line("lima")))

        rows = [row.split() for row in result.stdout.splitlines()]
        ((_, messages, states, _, _, kept, dropped),) = (
            row for row in rows if row[:1] == ["oslo"]
        )
        assert 0 == result.exit_code
        assert ["6", "10", "6", "0"] == [messages, states, kept, dropped]
        assert "all 20 kept states are unchanged" in unwrapped(result)
        assert "" == result.stderr

    def test_json(self, write):
        """
        One object on one line for each conversation, and nothing else on
        stdout.
        """
        path = write(line("oslo"), line("lima"))

        result = run("--json", path)

        oslo, lima = outcomes(result)
        assert 0 == result.exit_code
        assert ["oslo", "lima"] == [oslo["conversation"], lima["conversation"]]
        assert [1, 2] == [oslo["line"], lima["line"]]
        assert str(path) == oslo["file"]
        assert oslo["ok"] is True
        assert [] == oslo["broken"]
        assert (6, 10, 10) == (oslo["messages"], oslo["states"], oslo["states_read"])
        assert (6, []) == (oslo["kept"], oslo["dropped"])
        assert 7_000 == oslo["limit_tokens"]
        assert "" == oslo["no_view"]
        assert 0 < oslo["tokens"]
        assert 0 < oslo["seconds"]
        assert 100 < oslo["bytes_per_state"] < 1_000

    @pytest.mark.parametrize(
        "roles",
        [["user"], ["system"], ["assistant", "assistant"], ["user", "assistant"]],
    )
    def test_unusual_shapes(self, write, roles):
        """
        Only a question, or no user: all are replayed, with a state for each message,
        an empty one, two forks and their join.
        """
        messages = [{"role": role, "content": "So."} for role in roles]

        result = run("--json", write(line(messages=messages)))

        (outcome,) = outcomes(result)
        assert [] == outcome["broken"]
        assert len(roles) == outcome["messages"]
        assert len(roles) + 4 == outcome["states"]
        assert outcome["bytes_per_state"] is not None

    def test_many(self, write, monkeypatch):
        """Where reading every state in full would take too long, some are."""
        monkeypatch.setattr(replaying, "_MAX_READ", 20_000)
        path = write(line(messages=[{"role": "user", "content": "x"}] * 400))

        result = run(path)
        (outcome,) = outcomes(run("--json", path))

        assert 0 == result.exit_code
        assert 0 < outcome["states_read"] < outcome["states"]
        assert "read in full" in unwrapped(result)

    def test_bytes_per_state(self):
        """What is counted is the state: the same for long messages and short ones."""
        short, long = (
            replaying.replay([UserMessage("x" * size) for _ in range(100)], BUDGET)
            for size in (1, 10_000)
        )

        assert short.bytes_per_state == pytest.approx(long.bytes_per_state, rel=0.1)


class TestTrim:
    def test_drops(self, write):
        """
        What did not fit is counted in the row, and listed by number from 1, in JSON,
        too.
        """
        long = [{"role": "user", "content": "word " * 200}] * 4
        path = write(line("long", [CHAT[0], *long]))

        result = run("--window", 700, "--max-output", 100, path)
        (outcome,) = outcomes(run("--json", "--window", 700, "--max-output", 100, path))

        assert 0 == result.exit_code
        assert 600 == outcome["limit_tokens"]
        assert 3 == outcome["kept"]
        assert [
            {"number": 2, "reason": "over budget"},
            {"number": 3, "reason": "over budget"},
        ] == outcome["dropped"]
        assert "long: trimmed, without messages 2 to 3 (over budget)" in result.stdout

    def test_nothing_fits(self, write):
        """
        A conversation too big for the budget has its reason below the table;
        the others are replayed, and this is not a failure of the library.
        """
        huge = [{"role": "user", "content": "word " * 200}]
        path = write(line("small"), line("huge", huge))

        result = run("--window", 120, "--max-output", 20, path)

        row = next(r for r in result.stdout.splitlines() if r.startswith("huge "))
        assert 0 == result.exit_code
        assert "no view        -" in row
        assert "huge: can't fit this conversation" in result.stdout
        assert "Verified" in result.stdout

    def test_nothing_is_valid(self, write):
        """
        A result alone, which no provider takes, is left out of a view that one takes.
        """
        orphan = [{"role": "tool", "tool_call_id": "c9", "content": "12:30"}]
        path = write(line("orphan", orphan), line("fine"))

        orphaned, fine = outcomes(run("--json", path))

        assert not orphaned["no_view"]
        assert 1 == orphaned["kept"]  # a made message of a user
        assert [] == orphaned["broken"]
        assert 6 == fine["kept"]

    def test_many_reasons(self, write):
        """
        Of many such conversations the first are listed, so that the closing lines stay
        in sight.
        """
        huge = [{"role": "user", "content": "word " * 200}]
        path = write(*[line(f"huge{number}", huge) for number in range(12)])

        result = run("--window", 120, "--max-output", 20, path)

        assert 5 == result.stdout.count("can't fit this conversation")
        assert "and 7 more" in result.stdout

    @pytest.mark.parametrize(
        "options",
        [
            ("--window", "0"),
            ("--max-output", "-1"),
            ("--window", "500", "--max-output", "500"),
            ("--max-line", "0"),
        ],
    )
    def test_impossible_options(self, write, options):
        """A budget of nothing is refused before anything is read."""
        result = run(*options, write(line()))

        assert 2 == result.exit_code
        assert options[-2] in result.stderr
        assert "" == result.stdout


class TestChecks:
    """The checks see what they should see."""

    def broken(self):
        return " / ".join(replaying.replay(MESSAGES, BUDGET).broken)

    def test_changed_content(self, monkeypatch):
        """A message that changes under a state is seen in every state it is in."""
        first_message = UserMessage("Before.")

        def meddling(data):
            object.__setattr__(first_message, "content", "After.")
            return decode(data)

        monkeypatch.setattr(replaying, "decode", meddling)

        broken = replaying.replay([first_message, *MESSAGES], BUDGET).broken

        assert any("9 kept states have changed" in each for each in broken)

    def test_changed_state(self, monkeypatch):
        """A state that grows in place is seen."""
        add = Aggregator.add

        def in_place(state, message):
            after = add(state, message)
            if isinstance(message, ToolMessage):
                state._log = after._log

            return after

        monkeypatch.setattr(Aggregator, "add", in_place)

        assert "kept states have changed" in self.broken()

    @pytest.mark.parametrize(
        ("join", "promise"),
        [
            (lambda one, *others: one, "does not have all entries of both branches"),
            (
                lambda one, *others: one.join(*reversed(others)),
                "does not have all entries of both branches",
            ),
            (
                lambda one, *others: one.join(*others).add_usage(others[0].usage),
                "is not the sum of both branches",
            ),
            (lambda one, *others: one.join(*others).fork(), "made a different state"),
        ],
        ids=["loses", "reorders", "counts twice", "never the same"],
    )
    def test_bad_join(self, monkeypatch, join, promise):
        """
        A join that loses or reorders messages, counts usage twice, or is not
        idempotent, is reported.
        """
        right = Aggregator.join

        def wrong(state, *others):
            with monkeypatch.context() as patch:
                patch.setattr(Aggregator, "join", right)
                return join(state, *others)

        monkeypatch.setattr(Aggregator, "join", wrong)

        assert promise in self.broken()

    @pytest.mark.parametrize(
        ("seqs", "promise"),
        [([4], "lacks the newest message"), ([3], "the trimmed view is invalid")],
    )
    def test_bad_view(self, monkeypatch, seqs, promise):
        """A view without the newest message, or that no provider takes, is seen."""
        monkeypatch.setattr(
            replaying,
            "trim",
            lambda state, budget, *steps: TrimContext.of(state, budget).remove(seqs),
        )

        assert promise in self.broken()

    def test_view_over_budget(self, monkeypatch):
        """A view that does not fit is seen."""
        monkeypatch.setattr(
            replaying,
            "trim",
            lambda state, budget, *steps: TrimContext.of(state, budget),
        )
        small = TokenBudget(context_window=10)

        (broken,) = replaying.replay(MESSAGES, small).broken

        assert "the trimmed view is over the budget" == broken

    def test_unreadable(self, monkeypatch):
        """What can't be read back at all is a broken promise, too, no crash."""
        monkeypatch.setattr(replaying, "decode", lambda _data: decode(b"{}"))

        assert "can't be encoded and decoded: can't decode" in self.broken()

    def test_reported(self, monkeypatch, write):
        """
        A broken promise is reported with the conversation's name, and the status
        is 1.
        """
        monkeypatch.setattr(replaying, "decode", lambda data: decode(data).fork())

        result = run(write(line("oslo"), b"nonsense"))
        (outcome,) = outcomes(run("--json", write(line("oslo"))))

        assert 1 == result.exit_code
        assert "BROKEN" in result.stdout
        assert (
            "oslo: BROKEN: the decoded state differs from the encoded" in result.stdout
        )
        assert "Verified" not in result.stdout
        assert outcome["ok"] is False
        assert ["the decoded state differs from the encoded one"] == outcome["broken"]


class TestInput:
    def test_named(self, write):
        """
        A conversation is called by its id, a text or a number, else by its
        line; with several files, by its file too.
        """
        bare = json.dumps(CHAT).encode()
        unnamed = json.dumps({"messages": CHAT}).encode()
        path = write(line("oslo"), line(7), bare, unnamed, line(None), line(""))

        alone, twice = run("--json", path), run("--json", path, path)

        lines = ["line 3", "line 4", "line 5", "line 6"]
        assert ["oslo", "7", *lines] == names(alone)
        assert f"{path}:3" == names(twice)[2]

    @pytest.mark.parametrize(
        "data",
        [
            b"%s\n\n  \n%s\n",
            b"\xef\xbb\xbf%s\r\n\r\n%s\r\n",
            b"%s\n%s",
        ],
        ids=["blank lines", "Windows", "no end"],
    )
    def test_lines(self, write, data):
        """
        Blank lines are skipped in silence, the newlines of Windows and its byte order
        mark are fine, and the last line needs no end.
        """
        result = run("--json", write(data % (line("oslo"), line("lima")), end=b""))

        assert 0 == result.exit_code
        assert ["oslo", "lima"] == names(result)

    def test_standard_input(self):
        """A dash is standard input, and complaints call it that."""
        result = run("--json", "-", data=line("oslo") + b"\nnonsense\n")

        assert 2 == result.exit_code
        assert ["oslo"] == names(result)
        assert result.stderr.startswith("standard input:2: ")


class TestOtherFormats:
    def test_sharegpt(self, write):
        """What people share is replayed, too, beside OpenAI's."""
        turns = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}]
        shared = {"id": "shared", "conversations": turns}
        path = write(
            line("oslo"),
            json.dumps(shared).encode(),
            json.dumps({"id": "odd", "messages": turns}).encode(),
            json.dumps(turns).encode(),
        )

        result = run("--json", path)

        assert 0 == result.exit_code
        assert ["oslo", "shared", "odd", "line 4"] == names(result)
        assert [6, 2, 2, 2] == [each["messages"] for each in outcomes(result)]

    def test_a_message_a_line(self, write):
        """
        A file of one message a line is one conversation; what is wrong with a
        line is reported with its number.
        """
        bad = json.dumps({"role": "user", "content": 7}).encode()
        path = write(*[json.dumps(each).encode() for each in CHAT], bad)

        result = run("--json", path)

        assert 2 == result.exit_code
        assert ["line 1"] == names(result)
        assert [len(CHAT)] == [each["messages"] for each in outcomes(result)]
        assert result.stderr.startswith(f"{path}:7: no conversation; $.content: is 7")


class TestBadInput:
    @pytest.mark.parametrize(
        ("bad", "why"),
        [
            (b"nonsense", "invalid JSON; expecting value at column 1"),
            (b'{"id": "x", "messages": [', "a conversation must be on one line"),
            (b'{"messages": [], "n": NaN}', "NaN is not JSON"),
            (b"[" * 100_000, "unreadable JSON"),
            (b"null", "no conversation; null, not a conversation"),
            (b'{"messages": []}', "no conversation; a conversation without messages"),
            (
                b'{"messages": {}}',
                "$.messages: is an object; expected a list of messages",
            ),
            (b"[1, 2, 3]", "a list of other values than messages"),
            (b'[{"role": "user"}, 2, 3]', "(and 2 more)"),
            (b'[{"role": "user", "content": 7}]', "$[0].content"),
            (b"\x89PNG\r\x1a\0\0\0\rIHDR", "binary data"),
            (b"\xff\xfe[\0]\0", "UTF-16 text; save it as UTF-8"),
            (b'["\xe9t\xe9"]', "no UTF-8 text from byte 3 of the line on"),
        ],
    )
    def test_line(self, write, bad, why):
        """
        A line that is not a conversation is reported with file, number and reason;
        those before and after it are replayed, and the status is 2.
        """
        path = write(line("before"), bad, line("after"))

        result = run("--json", path)
        shown = run(path)

        assert 2 == result.exit_code == shown.exit_code
        assert ["before", "after"] == names(result)
        assert result.stderr.startswith(f"{path}:2: ")
        assert why in result.stderr
        assert 1 == result.stderr.count("\n")
        assert "2 conversations" in shown.stdout

    def test_left_out(self, write):
        """What is left out on purpose is named, and is no failure."""
        path = write(b'{"success": true, "data": [%s]}' % line("oslo"))

        result = run("--json", path)

        assert 0 == result.exit_code
        assert f"{path}:1: left out what is beside $.data: success\n" == result.stderr
        assert ["oslo"] == names(result)

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (None, "no such file; {folder} has chats.jsonl"),
            *[
                (data, "empty; expected a conversation on each line")
                for data in (b"", b"\n", b"\n  \r\n\n", b"\xef\xbb\xbf")
            ],
        ],
    )
    def test_file(self, tmp_path, write, data, problem):
        """
        A file that is not there, or holds nothing, is named; the others are replayed.
        """
        path = tmp_path / "odd.jsonl"
        if data is not None:
            path.write_bytes(data)

        result = run("--json", path, write(line("oslo")))

        assert 2 == result.exit_code
        assert f"{path}: {problem.format(folder=tmp_path)}\n" == result.stderr
        assert ["oslo"] == names(result)
        assert f"{tmp_path}: a folder; give its files: it" in run(tmp_path).stderr

    @pytest.mark.parametrize(
        ("file", "reason"),
        [
            ("chat.jsonl", "no such file; did you mean '{folder}/chats.jsonl'?"),
            ("oslo", "no such file; {folder} has chats.jsonl"),
            ("none/chats.jsonl", "no such file; there is no folder '{folder}/none'"),
            ("chats.jsonl/oslo", "Not a directory"),
        ],
    )
    def test_missing_file(self, tmp_path, write, file, reason):
        """What is near a missing file is listed, but for what nobody typed."""
        write(line("oslo"))
        (tmp_path / ".hidden").touch()
        for end in ("wal", "shm", "journal"):
            (tmp_path / f"chats.db-{end}").touch()

        result = run(tmp_path / file)

        assert (
            f"{tmp_path / file}: {reason.format(folder=tmp_path)}\n"
            == (result.stderr.splitlines(keepends=True)[-1])
        )

    def test_binary_file(self, write):
        """
        A binary file is reported once, not line by line; of other invalid lines ten are
        reported, and the rest counted.
        """
        path = write(b"\x7fELF\x02\x01" + bytes(range(256)) * 100)

        result = run(path)

        assert 2 == result.exit_code
        first, rest = result.stderr.splitlines()
        assert 11 == run(write(*[b"nonsense"] * 30)).stderr.count("\n")
        assert f"{path}:1: binary data; expected a line of JSON" == first
        assert f"{path}: 100 more lines are invalid as well" == rest

    def test_long_line(self, write):
        """
        A line over ``--max-line`` is skipped, whatever it holds, with its size
        and the option named.
        """
        long = line("long", [{"role": "user", "content": "x" * 1_500_000}])
        path = write(line("before"), long, line("after"))

        result = run("--json", "--max-line", 1, path)

        assert 2 == result.exit_code
        assert ["before", "after"] == names(result)
        assert (
            f"{path}:2: a line of 1.4 MiB was skipped; --max-line is 1 MiB\n"
            == result.stderr
        )
        assert ["before", "long", "after"] == names(run("--json", path))

    def test_hostile_reasons(self, write):
        """
        A bad line is quoted in part, and its control characters don't reach the
        terminal.
        """
        role = "\x1b[31m" + "x" * 5_000
        path = write(line(messages=[{"role": role}]))

        result = run(path)

        assert "\x1b" not in result.stderr
        assert 600 > len(result.stderr) - len(str(path))


class TestLines:
    @given(
        st.lists(st.sampled_from([b"", b"a", b"ab" * 10, b"\n", b"\r\n", b"\0"])),
        st.integers(1, 30),
    )
    def test_like_split(self, pieces, limit):
        """
        The lines that a plain split finds, without those that are too long; and
        the sizes add up to the file's.
        """
        data = b"".join(pieces)

        found = [*_values.read_lines(io.BytesIO(data), limit=limit)]

        expected = re.findall(rb"[^\n]*\n|[^\n]+", data)
        assert len(data) == sum(size for _, size in found)
        assert [
            None if len(each.rstrip(b"\n")) > limit else each for each in expected
        ] == [each for each, _ in found]

    def test_endless(self):
        """
        What never ends is never held: a line ten thousand times as long as the
        limit is read in pieces.
        """

        class Endless(io.RawIOBase):
            left = 10_000 * 1_000

            def readable(self):
                return True

            def readinto(self, buffer):
                size = min(len(buffer), self.left)
                self.left -= size
                buffer[:size] = b"x" * size
                return size

        tracemalloc.start()
        try:
            ((found, size),) = _values.read_lines(
                io.BufferedReader(Endless()), limit=1_000
            )
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert None is found
        assert 10_000_000 == size
        assert 1_000_000 > peak


class TestShowing:
    @pytest.mark.parametrize(
        "name",
        [
            "\x1b]0;owned\x07",
            "two\nlines",
            "[red]markup[/red]",
            "\ud83d half a pair",
            "käse 🧀 芝士",
            "x" * 10_000,
        ],
    )
    def test_hostile_names(self, write, name):
        """
        A conversation may be called anything: neither terminal nor table obey
        it, and the JSON has it as it is.
        """
        path = write(line(name), line("fine"))

        shown, as_json = run(path), run("--json", path)

        assert 0 == shown.exit_code
        assert not {"\x1b", "\x07"} & {*shown.stdout}
        assert 80 >= max(map(len, shown.stdout.splitlines()))
        assert [name, "fine"] == names(as_json)

    def test_few_letters(self, write):
        """Where stdout has few letters, names are written out."""
        result = subprocess.run(
            [*MAIN, "replay", write(line("käse 芝士"))],
            capture_output=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        )

        assert "käse \\u829d\\u58eb".encode("latin-1") in result.stdout
        assert b"Verified" in result.stdout


class TestHelp:
    def test_version(self):
        """The version is one line."""
        result = CliRunner().invoke(cli, ["--version"])

        assert 0 == result.exit_code
        assert re.fullmatch(r"conversation-state \S.*\n", result.stdout)

    @pytest.mark.parametrize("args", [["replay"], ["replay", "--bogus"], ["bogus"]])
    def test_wrong_usage(self, args):
        """Wrong usage is reported on stderr, with status 2."""
        result = CliRunner().invoke(cli, args)

        assert 2 == result.exit_code
        assert "Usage: " in result.stderr

    @pytest.mark.parametrize(
        ("typo", "near"), [("lst", "ls"), ("verifi", "verify"), ("improt", "import")]
    )
    def test_typo(self, typo, near):
        """A mistyped command names the one that was meant, also a shell's word."""
        result = CliRunner().invoke(cli, [typo])

        assert f"did you mean {near!r}?" in result.stderr


@pytest.mark.integration
class TestProcess:
    """The command as a shell sees it."""

    @pytest.mark.parametrize("missing", ["click", "rich"])
    def test_without_the_extra(self, missing):
        """Without click or rich it says what to install, with status 2."""
        script = f"import sys; sys.modules['{missing}'] = None; {MAIN[-1]}"
        result = subprocess.run(
            [sys.executable, "-c", script, "--help"],
            capture_output=True,
            check=False,
            cwd=ROOT,
            text=True,
        )

        assert 2 == result.returncode
        assert 'pip install "conversation-state[cli]"; in a checkout, pip install ' in (
            result.stderr
        )
        assert "Traceback" not in result.stderr
        assert "" == result.stdout

    @pytest.mark.skipif(sys.platform == "win32", reason="pipes break differently")
    @pytest.mark.parametrize("arguments", [["replay"], ["replay", "--json"], ["-h"]])
    def test_broken_pipe(self, write, arguments):
        """If the reader stops, it ends quietly, as if by the signal."""
        path = write(*[line(f"chat{number}") for number in range(50)])
        unread, stdout = os.pipe()
        os.close(unread)
        try:
            result = subprocess.run(
                [*MAIN, *arguments, path],
                check=False,
                cwd=ROOT,
                stdout=stdout,
                stderr=subprocess.PIPE,
            )
        finally:
            os.close(stdout)

        assert b"" == result.stderr
        assert 141 == result.returncode

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    @pytest.mark.parametrize("arguments", [["replay"], ["replay", "--json"], ["-h"]])
    def test_full_disk(self, write, arguments):
        """If stdout takes nothing more, that is reported, with status 2."""
        with Path("/dev/full").open("wb") as full:
            result = subprocess.run(
                [*MAIN, *arguments, write(line())],
                check=False,
                cwd=ROOT,
                stdout=full,
                stderr=subprocess.PIPE,
            )

        assert b"standard output: No space left on device\n" == result.stderr
        assert 2 == result.returncode

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
    @pytest.mark.parametrize("command", ["replay", "export", "names", "-h"])
    def test_no_stdout(self, write, tmp_path, command):
        """If it is started without a stdout, what it prints is not lost in silence."""
        path, store = write(line()), str(tmp_path / "chats.db")
        with open_store(store) as saving:
            saving.save("chat", Aggregator.new().extend(MESSAGES))

        arguments = {"replay": [path], "export": ["chat"]}.get(command, [])
        result = subprocess.run(
            ["sh", "-c", 'exec "$@" >&-', "sh", *MAIN, command, *arguments],
            check=False,
            cwd=ROOT,
            env={**os.environ, "CONVERSATION_STATE_STORE": store},
            stderr=subprocess.PIPE,
        )

        assert b"standard output: Bad file descriptor\n" == result.stderr
        assert 2 == result.returncode

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
    @pytest.mark.parametrize(
        ("stream", "args", "status"),
        [
            ("<", ["import", "-"], 2),
            ("<", ["delete", "chat"], 2),
            ("2>", ["import", "FILE"], 0),
        ],
    )
    def test_no_other_stream(self, write, tmp_path, stream, args, status):
        """Nor does it fail without a stdin, which is empty, or a stderr."""
        path, store = write(line()), str(tmp_path / "chats.db")
        if stream == "<":
            with open_store(store) as saving:
                saving.save("chat", Aggregator.new().extend(MESSAGES))

        result = subprocess.run(
            ["sh", "-c", f'exec "$@" {stream}&-', "sh", *MAIN]
            + [path if each == "FILE" else each for each in args],
            check=False,
            cwd=ROOT,
            env={**os.environ, "CONVERSATION_STATE_STORE": store},
            stderr=subprocess.PIPE,
        )

        assert b"Traceback" not in result.stderr
        assert status == result.returncode
        with open_store(store) as saved:
            assert ("chat",) == tuple(saved.names())


class TestExample:
    def test_shows_something(self):
        """
        The example has one conversation that is too long for the default window, and
        what a newcomer sees first fits the usual terminal.
        """
        result = run("--json", EXAMPLE)

        chats = outcomes(result)
        assert 0 == result.exit_code
        assert 3 == len(chats)
        assert all(chat["ok"] and chat["kept"] for chat in chats)
        assert any(chat["dropped"] for chat in chats)
        assert 80 >= max(map(len, run(EXAMPLE).stdout.splitlines()))


class TestRecorded:
    def test_airline(self, recordings):
        """A hundred real conversations come through."""
        result = run("--json", recordings / "transcripts" / "airline.jsonl")

        chats = outcomes(result)
        assert 0 == result.exit_code
        assert (100 if is_large(recordings) else 4) == len(chats)
        assert all(chat["ok"] and not chat["no_view"] for chat in chats)
        total = sum(chat["messages"] for chat in chats)
        assert (2_658 if is_large(recordings) else 47) == total
        assert is_large(recordings) == any(chat["dropped"] for chat in chats)
