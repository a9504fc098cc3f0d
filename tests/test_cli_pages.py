"""The commands that draw, `tree` and `page`, and those that serve."""

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from functools import partial
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import openai
import pytest
from click.testing import CliRunner

from conversation_state.aggregator import Aggregator
from conversation_state.cli import _page
from conversation_state.cli._commands import cli
from conversation_state.messages import UserMessage
from conversation_state.store import open_store
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree
from tests.commands import HOSTILE, MAIN, Commands, line

ASKED = Aggregator.new().add_user_prompt("Where to?")
SEA = ASKED.add_assistant_message("To the sea.")
HILLS = ASKED.add_assistant_message("Uphill.")


@pytest.fixture
def run(tmp_path):
    """The commands on a store with a name that has two branches."""
    run = Commands(tmp_path)
    with open_store(run.path) as store:
        store.save("trip", ASKED)
        store.save("trip", SEA, label="sea")
        store.rollback("trip", 1)
        store.save("trip", store.load("trip").add_assistant_message(f"{HOSTILE}."))
        store.save("hills", HILLS)

    return run


class TestTree:
    def test_branches(self, run):
        """A lane for each branch, the newest revision on top."""
        lines = run("tree", "trip").stdout.splitlines()
        plain = [re.sub(r"  \((.*)message.*\)", r" (\1m)", line) for line in lines]

        assert plain[0].startswith("●  revision 4 ← you are here  assistant: \\x1b")
        assert [
            "○  revision 3  user: Where to? (1 m)",
            "│ ○  revision 2 [sea]  assistant: To the sea. (2 m)",
            "├─╯",
            "○  revision 1  user: Where to? (1 m)",
        ] == plain[1:]

    def test_for_programs(self, run):
        """As JSON, each revision with the one it grew from."""
        found = run.json("tree", "trip")

        assert [(4, 3), (3, 1), (2, 1), (1, None)] == [
            (each["revision"], each["parent"]) for each in found
        ]

    def test_limit(self, run):
        """Only the newest revisions; the others are counted."""
        newest, rest = run("tree", "trip", "--limit", 1).stdout.splitlines()

        assert newest.startswith("●  revision 4")
        assert "… and 3 older states" == rest

    def test_messages(self, run):
        """A name that was saved as a timeline is its messages, with alternatives."""
        timeline = Timeline.begin(ASKED).commit(SEA).undo().commit(HILLS)
        with open_store(run.path) as store:
            store.save_timeline("chat", timeline)

        drawn = [
            "●  message 3 ← you are here  assistant: Uphill.  (2/2)",
            "│ ○  message 2  assistant: To the sea.  (1/2)",
            "├─╯",
            "○  message 1  user: Where to?",
        ]

        assert drawn == run("tree", "chat").stdout.splitlines()
        assert "revision 3" in run("tree", "chat", "--as", "revisions").stdout
        assert "moment 2" in run("tree", "chat", "--as", "timeline").stdout
        assert "2/2" in run("tree", "trip", "--as", "messages").stdout
        for kind, word in (("messages", "message 3"), ("timeline", "moment 2")):
            assert word in run("page", "chat", "--as", kind).stdout

    def test_imported_branches(self, run):
        """A name whose branches grew from no revision is its messages, each once."""
        with open_store(run.path) as store:
            store.save_tree("chat", MessageTree.of(SEA, HILLS))

        page = run("page", "chat").stdout

        assert (
            run("tree", "chat", "--as", "messages").stdout == run("tree", "chat").stdout
        )
        assert run("page", "chat", "--as", "messages").stdout == page
        assert 3 == page.count("<article")

    def test_replaced(self, run):
        """A name that an import replaced is its revisions."""
        for text in ("first", "second"):
            data = line("x", [{"role": "user", "content": text}])
            path = run.folder / "x.jsonl"
            path.write_text(data, encoding="utf-8")
            run("import", path, "--on-conflict", "replace")

        drawn = run("tree", "x").stdout

        assert "revision 1" in drawn
        assert "revision 2" in drawn

    def test_unknown_name(self, run):
        """A name that is not saved is an error."""
        assert "no_name" in run("tree", "no_name", status=2).stderr


class TestPage:
    def test_writes_a_file(self, run):
        """The page has every branch, and what the model sees of the newest state."""
        path = run.folder / "trip.html"
        result = run("page", "trip", "-o", path, "--limit", 1_000, "--title", "A trip")
        page = path.read_text(encoding="utf-8")

        assert f"Wrote {path}." in result.stderr
        for words in ("A trip", "To the sea.", "revision 4", "The model sees 2 of 2"):
            assert words in page

    def test_marks_what_is_not_sent(self, run):
        """With a small budget what is not sent is folded, with the reason."""
        with open_store(run.path) as store:
            store.save("long", SEA.extend([UserMessage("word " * 100)] * 9))

        page = run("page", "long", "--limit", 300).stdout

        assert re.search("messages dropped .*: over budget", page)

    def test_prints(self, run):
        """Without a file the page goes to standard output."""
        assert "To the sea." in run("page", "trip").stdout

    def test_terminal(self, run, monkeypatch):
        """On a terminal a file is asked for, and only - prints the page."""
        monkeypatch.setattr(_page, "is_stdout_terminal", lambda: True)

        assert "give a file with -o FILE" in run("page", "trip", status=2).stderr
        assert "To the sea." in run("page", "trip", "-o", "-").stdout

    def test_redact(self, run):
        """Without content there is only the shape."""
        page = run("page", "trip", "--redact").stdout

        assert "revision 4" in page
        for word in ("sea", "Where", "trip", "admin"):
            assert not re.search(rf"\b{word}\b", page)

    def test_too_small_a_budget(self, run):
        """No page is written that shows no valid view."""
        path = run.folder / "trip.html"
        result = run("page", "trip", "--limit", 1, "-o", path, status=1)

        assert "no valid view of 'trip' fits" in result.stderr
        assert not path.exists()

    def test_dash(self, run, monkeypatch):
        """A dash is standard output, as for the commands that export."""
        monkeypatch.chdir(run.folder)

        assert run("page", "trip", "-o", "-").stdout == run("page", "trip").stdout
        assert not (run.folder / "-").exists()

    def test_no_such_folder(self, run):
        """A file that can't be written is reported."""
        path = run.folder / "none" / "trip.html"

        assert (
            "there is no folder '" in run("page", "trip", "-o", path, status=2).stderr
        )


@pytest.mark.integration
class TestServe:
    def test_port_is_taken(self, run):
        """An address that can't be served is reported, with what to do."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = run("serve", "--port", port, status=2)

        assert f"can't listen on 127.0.0.1:{port}" in result.stderr
        assert "choose another --port" in result.stderr
        assert "attempting to bind" not in result.stderr

    def test_without_its_packages(self, run, monkeypatch):
        """A server that is not installed is reported, with how to install it."""
        server = "conversation_state.pages.server"
        monkeypatch.delitem(sys.modules, server, raising=False)
        monkeypatch.setitem(sys.modules, "uvicorn", None)
        result = run("serve", status=2)

        assert 'pip install "conversation-state[page]"' in result.stderr

    def test_the_address_is_not_printed(self, run, monkeypatch):
        """An output that can't be written to is no fault of the port."""

        def fail(_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(_page, "print_line", fail)
        asked = ["serve", "--port", "0", "--store", run.url]
        result = CliRunner().invoke(cli, asked)

        # The program reports it as that of its output.
        assert isinstance(result.exception, OSError)
        assert "" == result.stderr

    def test_serves(self, run):
        """The printed address opens the store, and the address alone does not."""
        command = [*MAIN, "serve", "--store", run.url, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = re.findall(r"http://\S+", server.stdout.readline())[0]
                with build_opener(HTTPCookieProcessor()).open(address) as answer:
                    shown = answer.read().decode()

                with pytest.raises(HTTPError, match="403") as refused:
                    urlopen(address.partition("?")[0])

                refused.value.close()
            finally:
                server.terminate()

        assert "trip" in shown
        assert "hills" in shown

    @pytest.mark.skipif(
        sys.platform == "win32", reason="Windows has no SIGINT for one process"
    )
    def test_an_answer_that_nobody_reads(self, run):
        """Ctrl-C ends it with status 0, and waits for no browser that does not read."""
        with open_store(run.path) as store:
            # More than the buffers of two sockets.
            store.save("long", Aggregator.new().add_user_prompt("x" * 16_000_000))

        browser = build_opener(HTTPCookieProcessor())
        with subprocess.Popen(
            [*MAIN, "serve", "--store", run.url, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(  # noqa: PLW1509 - it takes no lock
                signal.signal, signal.SIGINT, signal.default_int_handler
            ),
        ) as server:
            try:
                assert server.stdout is not None
                address = re.findall(r"http://\S+", server.stdout.readline())[0]
                browser.open(address).close()
                export = "/export/long?format=openai_chat"
                with browser.open(address.partition("/?")[0] + export) as answer:
                    begun = answer.read(1_000)
                    server.send_signal(signal.SIGINT)
                    rest = server.communicate()
            finally:
                server.kill()

        assert begun.endswith(b"xxx")
        assert (("", ""), 0) == (rest, server.returncode)


@pytest.mark.integration
class TestStrictProvider:
    def test_port_is_taken(self):
        """A port that another program has is reported, with what to do."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            args = ["strict-provider", "--port", str(taken.getsockname()[1])]
            result = CliRunner().invoke(cli, args)

        assert 2 == result.exit_code
        assert "choose another --port" in result.stderr

    def test_invalid_call(self):
        """A call that can't be read is reported, with its form."""
        args = ["strict-provider", "--port", "0", "--call", "trains({)"]
        result = CliRunner().invoke(cli, args)

        assert 2 == result.exit_code
        assert "'trains({)': expected NAME, or NAME({...})" in result.stderr

    @pytest.mark.skipif(
        sys.platform == "win32", reason="Windows has no SIGINT for one process"
    )
    def test_serves(self):
        """
        The printed line makes a client that gets the call and the answer; what is
        refused or not called is printed; Ctrl-C ends it with status 0.
        """
        options = ["--answer", "It rains.", "--call", "now", "--delay", "0.001"]
        with subprocess.Popen(
            [*MAIN, "strict-provider", "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell makes what runs in the background ignore it.
            preexec_fn=partial(  # noqa: PLW1509 - it takes no lock
                signal.signal, signal.SIGINT, signal.default_int_handler
            ),
        ) as server:
            try:
                assert server.stdout is not None
                shown = [server.stdout.readline() for _ in range(3)]
                made = re.findall(r"openai\.(OpenAI\(.*\))", shown[1])[0]
                with eval(
                    made, {"OpenAI": partial(openai.OpenAI, max_retries=0)}
                ) as ask:
                    asked = {"role": "user", "content": "Well?"}
                    create = ask.chat.completions.create
                    tool = {"type": "function", "function": {"name": "now"}}
                    called = create(model="m", messages=[asked], tools=[tool])
                    with pytest.raises(openai.BadRequestError):
                        create(model="m", messages=[asked], tools=[])
                    answer = create(model="m", messages=[asked])
                    with pytest.raises(openai.BadRequestError):
                        create(model="m", messages=[])

                first, missing, second = [server.stdout.readline() for _ in range(3)]
                server.send_signal(signal.SIGINT)
                rest = server.communicate()
            finally:
                server.kill()

        assert "It rains." == answer.choices[0].message.content
        (call,) = called.choices[0].message.tool_calls
        assert "now" == call.function.name
        assert (
            "Not called in /v1/chat/completions: 'now': the request offers no tools\n"
            == missing
        )
        assert first.startswith("Refused /v1/chat/completions: ")
        assert second.startswith("Refused /v1/chat/completions: ")
        assert (("", ""), 0) == (rest, server.returncode)
