"""The commands on a store in a server: their output is that for a file."""

import json

import pytest

from tests.commands import Commands, line


@pytest.fixture
def run(tmp_path, pg_url):
    """The commands on a schema that is not there yet."""
    commands = Commands(tmp_path)
    commands.url = pg_url
    return commands


def test_a_life(run):
    """
    Imported, looked at, forked, labelled, rolled back, trimmed, exported, erased,
    deleted, collected and verified, over and over.
    """
    path = run.write(line("chat"), line("other"))

    assert "2 conversations: 2 imported.\n" == run("import", path).stdout
    assert "2 conversations: 2 unchanged.\n" == run("import", path).stdout
    assert ["chat", "other"] == [each["name"] for each in run.json("names")]

    run("label", "chat", "first")
    longer = [*json.loads(line())["messages"], {"role": "user", "content": "Thanks!"}]
    path = run.write(line("chat", longer))

    assert "1 conversation: 1 extended.\n" == run("import", path).stdout
    assert [(2, []), (1, ["first"])] == [
        (each["revision"], each["labels"]) for each in run.json("log", "chat")
    ]

    output = run("show", "chat", "--last", "1").stdout
    assert "Thanks!" in output
    assert "12:30." not in output

    (found,) = run.json("diff", "chat@first", "chat")
    assert (5, 1) == (found["common"], len(found["only_b"]))
    (view,) = run.json("trim", "chat", "--limit", "1000")
    assert 6 == len(view["kept"])

    run("fork", "chat", "fork", "--at", "first")
    (back,) = run.json("rollback", "chat", "first")
    assert (3, 5) == (back["revision"], back["messages"])

    out = run.folder / "chat.json"
    run("export", "fork", "--format", "openai_chat", "-o", out)
    assert "12:30." == json.loads(out.read_text())["messages"][-1]["content"]

    (receipt,) = run.json("erase", "chat", "2", "--reason", "asked", "--yes")
    assert 1 == receipt["rows"]
    assert "Oslo?" not in run("show", "fork").stdout
    (gone,) = run.json("delete", "other", "--yes")
    assert 1 == gone["revisions"]
    assert 5 == run.json("gc")[0]["entries"]
    assert "Verified: everything under 2 names" in run("verify").stdout
    assert "no name 'other'" in run("log", "other", status=2).stderr
