"""Files as people have them: what `import` makes of each, and what it refuses."""

import gzip
import io
import json
import zipfile

import pytest

from conversation_state.parts import ReasoningPart
from conversation_state.store import open_store
from tests.commands import Commands


@pytest.fixture(autouse=True)
def _no_store_by_default(monkeypatch):
    """The developer's own shell settings don't reach the tests."""
    monkeypatch.delenv("CONVERSATION_STATE_STORE", raising=False)


@pytest.fixture
def run(tmp_path):
    """The commands on a store that is not there yet."""
    return Commands(tmp_path)


def describe(message):
    """A message in one line: its role, thoughts, text, and calls."""
    words = [message.role[0]]
    words += [f"({p.text})" for p in message.parts if isinstance(p, ReasoningPart)]
    words += [message.text] if message.text else []
    words += [f"{call.name}{call.arguments}" for call in message.tool_calls]
    if message.role == "tool":
        words[0] = f"t[{message.tool_call_id}]"

    return " ".join(words)


def chats(run):
    """What is in the store: by name, the shown messages and the number of leaves."""
    with open_store(run.url) as store:
        trees = {name: store.message_tree(name) for name in store.names()}

    return {
        name: ([describe(each) for each in tree.present], len(tree.leaves))
        for name, tree in trees.items()
    }


def notes(run, name):
    """The notes of a name."""
    with open_store(run.url) as store:
        return {**store.notes(name)}


def user(text, **more):
    return {"role": "user", "content": text, **more}


def model(text, **more):
    return {"role": "assistant", "content": text, **more}


HI = [user("hi"), model("yo")]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLS = [
    user("q"),
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "r"},
    model("done"),
]
CALLED = ["u q", "a f{}", "t[c1] r", "a done"]

ANTHROPIC = [
    user("q"),
    model(
        [
            {"type": "thinking", "thinking": "hm", "signature": "S"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
        ]
    ),
    user([{"type": "tool_result", "tool_use_id": "c1", "content": "r"}]),
    model([{"type": "text", "text": "done"}]),
]
GEMINI = [
    {"role": "user", "parts": [{"text": "q"}]},
    {
        "role": "model",
        "parts": [{"functionCall": {"id": "c1", "name": "f", "args": {}}}],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "r"}}}
        ],
    },
    {"role": "model", "parts": [{"text": "done"}]},
]
ITEMS = [
    {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "r"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
]
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": model("yo"), "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
TWO = {
    **COMPLETION,
    "choices": [
        {"index": at, "message": model(text), "finish_reason": "stop"}
        for at, text in enumerate(("one", "two"))
    ],
}
TAGGED = [
    {"from": "human", "value": "q"},
    {
        "from": "gpt",
        "value": '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
    },
    {"from": "tool", "value": "<tool_response>\nr\n</tool_response>"},
    {"from": "gpt", "value": "done"},
]
TAG_CALLED = ["u q", "a f{}", "t[message_1_call_0] r", "a done"]

CHATGPT = {
    "title": "T",
    "conversation_id": "g1",
    "current_node": "a2",
    "mapping": {
        "root": {"id": "root", "message": None, "parent": None, "children": ["u"]},
        **{
            id: {
                "id": id,
                "parent": parent,
                "children": children,
                "message": {
                    "id": id,
                    "author": {"role": role},
                    "content": {"content_type": "text", "parts": [text]},
                },
            }
            for id, parent, children, role, text in (
                ("u", "root", ["a1", "a2"], "user", "hi"),
                ("a1", "u", [], "assistant", "old"),
                ("a2", "u", [], "assistant", "new"),
            )
        },
    },
}
OPEN_WEBUI = {
    "id": "w1",
    "title": "T",
    "chat": {
        "history": {
            "currentId": "a",
            "messages": {
                "u": {"id": "u", "parentId": None, "childrenIds": ["a"], **user("hi")},
                "a": {
                    "id": "a",
                    "parentId": "u",
                    "childrenIds": [],
                    **model(
                        '<details type="reasoning" done="true">\n<summary>Thought'
                        "</summary>\n&gt; hm\n</details>\nyo"
                    ),
                },
            },
        }
    },
}

# What a value is, and the conversations by name: their messages, and their leaves.
VALUES = {
    "request": ({"id": "x", "messages": HI}, {"x": (["u hi", "a yo"], 1)}),
    "list": (HI, {"line 1": (["u hi", "a yo"], 1)}),
    "calls": ({"id": "x", "messages": CALLS}, {"x": (CALLED, 1)}),
    "completion": (COMPLETION, {"chatcmpl-1": (["a yo"], 1)}),
    "choices": (TWO, {"chatcmpl-1": (["a one"], 2)}),
    "anthropic": (
        {"id": "x", "system": "s", "max_tokens": 9, "messages": ANTHROPIC},
        {"x": (["s s", "u q", "a (hm) f{}", "t[c1] r", "a done"], 1)},
    ),
    "anthropic texts": (
        {"id": "x", "system": [{"type": "text", "text": "s"}], "messages": HI},
        {"x": (["s s", "u hi", "a yo"], 1)},
    ),
    "anthropic response": (
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [{"type": "text", "text": "yo"}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        {"msg_1": (["a yo"], 1)},
    ),
    "gemini": ({"id": "x", "contents": GEMINI}, {"x": (CALLED, 1)}),
    "gemini list": (GEMINI, {"line 1": (CALLED, 1)}),
    "gemini response": (
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "yo"}]}}]},
        {"line 1": (["a yo"], 1)},
    ),
    "responses": ({"id": "x", "input": ITEMS}, {"x": (CALLED, 1)}),
    "responses items": (ITEMS, {"line 1": (CALLED, 1)}),
    "responses text": (
        {"id": "x", "model": "gpt-5", "input": "hi"},
        {"x": (["u hi"], 1)},
    ),
    "sharegpt": ({"id": "x", "conversations": TAGGED}, {"x": (TAG_CALLED, 1)}),
    "sharegpt list": (TAGGED, {"line 1": (TAG_CALLED, 1)}),
    "roles": (
        {
            "id": "x",
            "messages": [
                {"role": "human", "content": "q"},
                {"role": "ai", "content": "a"},
            ],
        },
        {"x": (["u q", "a a"], 1)},
    ),
    "other key": (
        {"id": "x", "conversations": ANTHROPIC},
        {"x": (["u q", "a (hm) f{}", "t[c1] r", "a done"], 1)},
    ),
    "prompt": (
        {"id": "x", "prompt": "hi", "completion": "yo"},
        {"x": (["u hi", "a yo"], 1)},
    ),
    "alpaca": (
        {"id": "x", "instruction": "Add.", "input": "1, 1", "output": "2"},
        {"x": (["u Add.\n1, 1", "a 2"], 1)},
    ),
    "xlam": (
        {
            "id": 7,
            "query": "q",
            "answers": '[{"name":"f","arguments":{}}]',
            "tools": "[]",
        },
        {"7": (["u q", "a f{}"], 1)},
    ),
    "preference": (
        {"id": "x", "prompt": "hi", "chosen": "good", "rejected": "bad"},
        {"x": (["u hi", "a good"], 2)},
    ),
    "preference lists": (
        {
            "id": "x",
            "prompt": "hi",
            "chosen": [user("hi"), model("good")],
            "rejected": [user("hi"), model("bad")],
        },
        {"x": (["u hi", "a good"], 2)},
    ),
    "preference texts": (
        {
            "id": "x",
            "chosen": "\n\nHuman: hi\n\nAssistant: good",
            "rejected": "\n\nHuman: hi\n\nAssistant: bad",
        },
        {"x": (["u hi", "a good"], 2)},
    ),
    "preference of openai": (
        {
            "id": "x",
            "input": {"messages": [user("hi")]},
            "preferred_output": [model("good")],
            "non_preferred_output": [model("bad")],
        },
        {"x": (["u hi", "a good"], 2)},
    ),
    "batch": (
        {
            "id": "b",
            "custom_id": "r1",
            "response": {"status_code": 200, "body": COMPLETION},
            "error": None,
        },
        {"b": (["a yo"], 1)},
    ),
    "batch input": (
        {
            "custom_id": "r1",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": HI},
        },
        {"r1": (["u hi", "a yo"], 1)},
    ),
    "log": (
        {"id": "x", "request": {"messages": [user("hi")]}, "response": COMPLETION},
        {"x": (["u hi", "a yo"], 1)},
    ),
    "log in texts": (
        {
            "id": "x",
            "request": json.dumps({"contents": GEMINI[:1]}),
            "response": json.dumps({"candidates": [{"content": GEMINI[3]}]}),
        },
        {"x": (["u q", "a done"], 1)},
    ),
    "gateway": (
        {"id": "x", "messages": [user("hi")], "response": COMPLETION},
        {"x": (["u hi", "a yo"], 1)},
    ),
    "ollama": (
        {
            "model": "llama3",
            "message": model("yo"),
            "done": True,
            "prompt_eval_count": 2,
            "eval_count": 1,
        },
        {"line 1": (["a yo"], 1)},
    ),
    "chatgpt": (CHATGPT, {"g1": (["u hi", "a new"], 2)}),
    "open webui": (OPEN_WEBUI, {"w1": (["u hi", "a (hm) yo"], 1)}),
    "ag-ui": (
        {
            "threadId": "x",
            "runId": "r",
            "messages": [{"id": "1", **user("hi")}, {"id": "2", **model("yo")}],
        },
        {"x": (["u hi", "a yo"], 1)},
    ),
    "pydantic ai": (
        [
            {
                "kind": "request",
                "parts": [{"part_kind": "user-prompt", "content": "hi"}],
            },
            {"kind": "response", "parts": [{"part_kind": "text", "content": "yo"}]},
        ],
        {"line 1": (["u hi", "a yo"], 1)},
    ),
}


def rename(expected, name="chats-1"):
    """What is *expected*, with the name that a value without an id gets."""
    return {name if key == "line 1" else key: value for key, value in expected.items()}


class TestFormats:
    @pytest.mark.parametrize("form", ["line", "pretty", "list"])
    @pytest.mark.parametrize("kind", VALUES)
    def test_value(self, run, kind, form):
        """
        A value is read as what it is: on a line, as a document, and in a list of such.
        """
        value, expected = VALUES[kind]
        if form == "list":
            text = json.dumps([value], indent=1)
        else:
            text = json.dumps(value, indent=2 if form == "pretty" else None)

        result = run("import", run.write(text), status=0)

        assert "" == result.stderr
        assert rename(expected) == chats(run)


def zipped(**members):
    """A zip archive of texts by name; ``__`` is a dot."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "."), text)

    return data.getvalue()


ONE = json.dumps({"id": "x", "messages": HI})
FILES = {
    "gzip": gzip.compress(ONE.encode()),
    "utf-8 mark": b"\xef\xbb\xbf" + ONE.encode(),
    "utf-16": ONE.encode("utf-16"),
    "utf-16 lines": f"{ONE}\r\n".encode("utf-16"),
    "utf-32": json.dumps(json.loads(ONE), indent=1).encode("utf-32"),
    "crlf": json.dumps(json.loads(ONE), indent=1).replace("\n", "\r\n").encode(),
    "zip": zipped(chat__jsonl=ONE),
    "documents": (json.dumps(json.loads(ONE), indent=1) * 2).encode(),
    "blank lines": f"\n\n{ONE}\n\n".encode(),
    "no line end": ONE.encode(),
}
FILES |= {
    f"under {key}": json.dumps({key: [json.loads(ONE)]}, indent=indent).encode()
    for key, indent in (("data", None), ("conversations", 1), ("chats", 2))
}


class TestFiles:
    @pytest.mark.parametrize("kind", FILES)
    def test_file(self, run, kind):
        """Encodings, archives and documents of several are read as the same."""
        path = run.folder / "chats.json"
        path.write_bytes(FILES[kind])

        run("import", path)

        assert {"x": (["u hi", "a yo"], 1)} == chats(run)

    @pytest.mark.parametrize("kind", ["blank lines", "under conversations", "gzip"])
    def test_standard_input(self, run, kind):
        """Standard input is a document or lines alike."""
        run("import", "-", data=FILES[kind])

        assert {"x": (["u hi", "a yo"], 1)} == chats(run)

    def test_archive(self, run):
        """
        Of an export the parts with conversations are read, by member; what is left out
        is listed, and is no failure.
        """
        path = run.folder / "export.zip"
        shards = {
            f"conversations-00{at}__json": json.dumps(
                [{**CHATGPT, "conversation_id": f"g{at}"}]
            )
            for at in range(2)
        }
        path.write_bytes(zipped(**shards, user__json="{}", chat__html="<html>"))

        result = run("import", path)

        assert f"{path}: left out: user.json, chat.html\n" == result.stderr
        assert ["g0", "g1"] == [*chats(run)]

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (b"id,role,content\n1,user,hi\n", "a table (CSV)"),
            (b"<!DOCTYPE html><html>", "HTML"),
            (b"<?xml version='1.0'?><a/>", "XML"),
            (b"# Chat\n\n**User**: hi\n", "Markdown"),
            (b"---\ntitle: x\n", "YAML"),
            (b'data: {"choices": []}\n\ndata: [DONE]\n', "events of a stream (SSE)"),
            (b"[{'role': 'user', 'content': 'hi'}]", "Python's own notation"),
            (b"SQLite format 3\0" + bytes(84), "a SQLite database"),
            (b"PAR1" + bytes(9), "a Parquet file"),
            (b"%PDF-1.7\n", "a PDF document"),
            (b"\x80\x04\x95", "a pickle, which can run code and is never read"),
            (b"\x28\xb5\x2f\xfd\x24", "compressed with zstd; decompress it first"),
            (gzip.compress(ONE.encode())[:20], "Compressed file ended before"),
            (zipped(chat__html="<html>"), "a zip archive without JSON files"),
            (b"PK\x03\x04" + bytes(9), "a damaged zip archive"),
            (gzip.compress(bytes(20)), "binary data"),
        ],
    )
    def test_refused(self, run, data, why):
        """What is no JSON is refused by name, in one line."""
        path = run.folder / "chats.json"
        path.write_bytes(data)

        result = run("import", path, status=2)

        assert why in result.stderr
        assert 1 == result.stderr.count("\n")

    def test_bomb(self, run):
        """What expands beyond reason is refused before it is read to its end."""
        data = b'{"id": "' + b"x" * (300 << 20)
        path = run.folder / "chats.json.gz"
        path.write_bytes(gzip.compress(data, 9))

        result = run("import", path, status=2)

        assert "expands to more than 200 times its size" in result.stderr


REFUSED = {
    "batch error": (
        {"custom_id": "r", "response": None, "error": {"code": "x", "message": "no"}},
        "an error of the provider instead of an answer: x: no",
    ),
    "batch status": (
        {
            "custom_id": "r",
            "response": {"status_code": 400, "body": {"error": {"message": "no"}}},
        },
        "an error of the provider instead of an answer: no",
    ),
    "anthropic batch error": (
        {
            "custom_id": "r",
            "result": {"type": "errored", "error": {"type": "x", "message": "no"}},
        },
        "an error of the provider instead of an answer: x: no",
    ),
    "chunk": ({"choices": [{"delta": {"content": "x"}}]}, "a streamed response"),
    "event": ({"type": "message_start", "message": {}}, "a streamed response"),
    "converse": (
        {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
        "Bedrock's Converse, which is not read",
    ),
    "mixed": (
        {
            "messages": [
                user([{"type": "image_url", "image_url": {"url": "http://e/x"}}]),
                model([{"type": "tool_use", "id": "c", "name": "f", "input": {}}]),
            ]
        },
        "a block of the type image_url of OpenAI's chat",
    ),
    "no content": ({"messages": [{"role": "user"}]}, "$.messages[0].content"),
    "null content": ({"messages": [user(None)]}, "$.messages[0].content"),
    "null value": (
        {"conversations": [{"from": "human", "value": None}]},
        "$.conversations[0]",
    ),
    "nothing to read": ({"messages": [model("")]}, "nothing in it can be read"),
    "empty": ({"conversations": []}, "a conversation without messages"),
    "speakers": (
        {"dialog": [{"speaker": "A", "text": "q"}]},
        "a dialogue of speakers, of whom none is known",
    ),
    "one text": ({"chat": "USER: hi ASSISTANT: yo"}, "a conversation in one text"),
    "account": ({"uuid": "u", "email_address": "e"}, "data of an account"),
    "unknown": ({"a": 1, "b": 2}, "an object with the keys a, b"),
    "list": ([1, 2], "a list of other values than messages"),
}


class TestRefused:
    @pytest.mark.parametrize("kind", REFUSED)
    def test_value(self, run, kind):
        """
        What is no conversation, or one of which something would be lost, is refused in
        one sentence; nothing is imported.
        """
        value, why = REFUSED[kind]

        result = run("import", run.write(json.dumps(value)), status=2)

        assert why in result.stderr
        assert 1 == result.stderr.count("\n")
        assert {} == chats(run)

    def test_unknown_format(self, run):
        """An unknown format is refused in one line, with those there are."""
        path = run.write(ONE)

        result = run("import", path, "--format", "chatpgt", status=2)

        assert (
            "Error: unknown format 'chatpgt'; did you mean 'chatgpt'?" in result.stderr
        )
        assert "open_webui" in result.stderr
        assert 1 == result.stderr.count("\n")
        assert not run.path.exists()

    def test_forced(self, run):
        """A format that is given is the only one that is tried."""
        path = run.write(ONE)

        run("import", path, "--format", "sharegpt")
        refused = run("import", path, "--format", "chatgpt", status=2)

        assert "mapping is missing" in refused.stderr
        assert {"x"} == {*chats(run)}

    def test_help(self, run):
        """The help lists the formats."""
        shown = run("import", "--help").stdout

        assert "claude_code" in shown
        assert "ShareGPT and its kin" in shown
