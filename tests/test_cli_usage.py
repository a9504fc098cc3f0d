"""Mistakes on the command line: each says what is true and what to write."""

import pytest
from click.testing import CliRunner

from conversation_state import Aggregator, open_store
from conversation_state.cli._commands import EXAMPLES, cli

STORE = ("--store", "chats.db")
NO_STORE = "expected a store, got none; give --store FILE, or set CONVERSATION_STATE_"
IS_STORE = "expected a store, got none; if it is chats.db, give --store chats.db"
LISTS = "; `conversation-state ls` lists the names"


@pytest.fixture(autouse=True)
def _stay_in_folder(tmp_path, monkeypatch):
    """A folder with a store and an export."""
    monkeypatch.delenv("CONVERSATION_STATE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat.json").write_text('{"messages": []}', encoding="utf-8")
    with open_store("chats.db") as store:
        store.save("oslo", Aggregator.new().add_user_prompt("Hi"))


def fail(*words):
    """The error of a command that was given *words*."""
    result = CliRunner().invoke(cli, words)

    assert 2 == result.exit_code, result.output
    assert "" == result.stdout
    return result.stderr[result.stderr.index("Error: ") + 7 :]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        # Too many arguments.
        (("ls", "NOPE", *STORE), "ls takes no argument, got 'NOPE'; `conversation-st"),
        (("ls", "chats.db", *STORE), "ls takes no argument, got 'chats.db'; if chats."),
        (("show", "oslo", "3", *STORE), "show takes NAME, and got '3' as well; revisi"),
        (("log", "a", "b", *STORE), "log takes NAME, and got 'b' as well\n"),
        (("page", "oslo", "o.html", *STORE), "page takes NAME, and got 'o.html' as we"),
        (("trim", "oslo", "8", "--limit", "8", *STORE), "trim takes NAME, and got '8'"),
        (("label", "oslo", "a", "b", *STORE), "label takes NAME LABEL, and got 'b' as"),
        (("verify", "oslo", *STORE), "verify takes no argument, got 'oslo'; it is abo"),
        (
            ("strict-provider", "a b"),
            "strict-provider takes no argument, got 'a b'; an",
        ),
        (
            ("convert", "chat.json", "codex", "--to", "pi"),
            "convert takes SESSION, and ",
        ),
        # Too few.
        (("show", *STORE), f"expected NAME, got none{LISTS}"),
        (("export", *STORE), f"expected NAME..., got none{LISTS}"),
        (("diff", "oslo", *STORE), "expected B, got none\n"),
        (("import", *STORE), "expected FILE..., got none\n"),
        (("trim", "oslo", *STORE), "expected --limit\n"),
        (("convert", "chat.json"), "expected --to, one of claude_code, codex, "),
        # The beginning of a name.
        (
            ("show", "o", *STORE),
            "sqlite:///chats.db: there is no name 'o'; did you mean 'oslo'?",
        ),
        # No store, or not where it belongs.
        (("ls",), NO_STORE),
        (("import", "chat.json"), NO_STORE),
        (("ls", "chats.db"), IS_STORE),
        (("show", "chats.db", "oslo"), IS_STORE),
        (("--store", "ls"), "expected a store after --store, got the command 'ls'\n"),
        (("ls", "--store"), "Option '--store' requires an argument"),
        (("replay", "chat.json", *STORE), "replay reads files and opens no store; le"),
        (("convert", "oslo", *STORE), "convert reads files and opens no store; `conve"),
        # A file where a store or a name belongs, and a name where a file does.
        (("ls", "--store", "chat.json"), "chat.json: this is no store; `conversation-"),
        (("ls", "--store", "oslo"), "oslo: no such file; `import` creates one"),
        (
            ("show", "chat.json", *STORE),
            "sqlite:///chats.db: there is no name 'chat.js",
        ),
        (
            ("show", "chats.db", *STORE),
            "sqlite:///chats.db: there is no name 'chats.db",
        ),
        # Options.
        (
            ("strict-provider", "--delay", "slow"),
            "Invalid value for '--delay': 'slow' is not a number.",
        ),
        (("--json", "ls", *STORE), "--json is an option of ls, and stands after that "),
        (("--limit", "8", "trim"), "--limit is an option of trim, and stands after th"),
        (("ls", "--jsn", *STORE), "No such option '--jsn'. Did you mean '--json'?\n"),
        (("trim", "oslo", "--limit", "x"), "Invalid value for '--limit': 'x' is not a"),
        # No command.
        (STORE, "expected a command, got none; --help lists them\n"),
        (
            ("chats.db",),
            "no such command 'chats.db'; for a store: conversation-state ls ",
        ),
        (
            ("chat.json",),
            "no such command 'chat.json'; for a file: conversation-state i",
        ),
        (("history",), "no such command 'history'; did you mean 'log'?"),
        (("oslo",), "no such command 'oslo'; --help lists the commands"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_mistake(words, text):
    """The error says what was expected and what there was."""
    assert fail(*words).startswith(text)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("ls", "NOPE", *STORE), "; `conversation-state log NOPE` lists the revisions"),
        (
            ("ls", "chats.db", *STORE),
            "; if chats.db is the store, give --store chats.db",
        ),
        (("show", "oslo", "3", *STORE), "; revision 3 of a name is NAME@3"),
        (("page", "oslo", "a b", *STORE), "; the file to write is an option: -o 'a b'"),
        (("strict-provider", "a\nb"), "; an answer is an option: --answer 'a\\nb'"),
        (
            ("convert", "oslo", *STORE),
            "; `conversation-state export` writes what a sto",
        ),
        (
            ("ls", "--store", "chat.json"),
            "; `conversation-state import chat.json --stor",
        ),
        (
            ("show", "chat.json", *STORE),
            "; `conversation-state import chat.json` saves ",
        ),
        (("show", "chats.db", *STORE), "; a store is given as --store chats.db"),
        (
            ("export", "oslo", "report.json", *STORE),
            "; to write a file, give -o report",
        ),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_to_write(words, hint):
    """And it says what to write instead."""
    assert hint in fail(*words)


@pytest.mark.parametrize("command", EXAMPLES)
def test_example(command):
    """Whatever is wrong with what a command was given, its example follows."""
    example = f"\nExample: conversation-state {command} {EXAMPLES[command]}"

    assert example in fail(command, "--nope")
    if "--store" in example:
        assert example in fail(command, "--store")
