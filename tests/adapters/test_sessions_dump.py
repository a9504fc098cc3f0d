"""Sessions written again: in their own format, in others, and back."""

import json
import re
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ResponseMeta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from conversation_state.adapters import anthropic, sessions
from conversation_state.parts import ImagePart, ReasoningPart, TextPart
from conversation_state.tree import MessageTree

# Called with what their types refuse, too.
dump_session: Any = sessions.dump_session
load_session: Any = sessions.load_session
read_session: Any = sessions.read_session

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "sessions"
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
FILES = [
    *[path for path in sorted(GOLDEN.glob("*/*")) if path.is_file()],
    *[path for path in sorted(CASES.glob("4[567]*")) if "co" in path.name],
]
WRITTEN = ("claude_code", "codex", "opencode", "pi", "sts")
PATH = re.compile(r"nodes\[(\d+)\](?:\.parts\[(\d+)\])?")
CLOSED = "No result: the call was not run"


def parse(path):
    """What a file has, as JSON."""
    text = path.read_text()
    if path.suffix == ".json":
        return json.loads(text)

    return [json.loads(line) for line in text.splitlines()]


def reload(payload, **options):
    """The session that a payload is once it is text again."""
    return load_session(json.loads(json.dumps(payload)), **options)


def read(arguments):
    """Arguments without their white space."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def describe(part):
    """What a part says: its kind, its text or media, its signature."""
    keys = ("text", "url", "data", "media_type")
    about = [getattr(part, key, "") or "" for key in keys]
    return [part.kind, about, getattr(part, "signature", "")]


def tell(session):
    """Each message of the live branch, with its path among all nodes."""
    nodes = {node.id: at for at, node in enumerate(session.tree.nodes)}
    above = {node.id: node for node in session.tree.nodes}
    told, here = [], session.tree.head
    while here is not None:
        message = above[here].message
        calls = [
            [call.id, call.name, read(call.arguments)] for call in message.tool_calls
        ]
        told.append(
            {
                "at": nodes[here],
                "role": message.role,
                "parts": [describe(part) for part in message.parts],
                "calls": calls,
                "call_id": getattr(message, "tool_call_id", ""),
                # Codex's results say in their text that they are errors.
                "is_error": getattr(message, "is_error", False)
                and "exit_code" not in message.text,
            }
        )
        here = above[here].parent

    return told[::-1]


def forget(told, lost):
    """*told* without what is listed as *lost*."""
    whats: dict[int, Any] = {}
    for path, what, _ in lost:
        if found := PATH.match(path):
            whats.setdefault(int(found[1]), []).append((found[2], what))

    kept = []
    for each in told:
        mine = whats.get(each["at"], [])
        words = {what for _, what in mine}
        if each["role"] in words or "branch" in words:
            continue

        parts = [
            (kind, text, "" if "signature" in words else signature)
            for at, (kind, text, signature) in enumerate(each["parts"])
            if not any(
                place in {None, str(at)} and (kind in {what, "unknown"})
                for place, what in mine
                if what not in {"keys", "id", "phase"}
            )
        ]
        said = {**each, "parts": parts}
        if "is_error" in words:
            said["is_error"] = False

        if "parts" in words:
            said["parts"] = [("joined", merge(parts), "")]

        kept.append(said)

    left = [
        {key: each[key] for key in each if key != "at"}
        for each in kept
        if (each["parts"] or each["calls"] or each["role"] != "assistant")
        # Errors that stand for results are listed with their calls.
        and not merge(each["parts"]).startswith(CLOSED)
    ]
    return sort_results(left)


def sort_results(told):
    """The results of one answer in the order of their ids."""
    groups = groupby(told, key=lambda each: each["role"] == "tool")
    return [
        each
        for is_tool, several in groups
        for each in (
            sorted(several, key=lambda r: r["call_id"]) if is_tool else several
        )
    ]


def merge(parts):
    """The texts of parts, whatever their kind."""
    return "\n".join(text[0] for _, text, _ in parts)


def bill(session, lost=()):
    """What the ledger has, without what is lost."""
    gone = {path for path, _, _ in lost}
    return sorted(
        (
            entry.model,
            entry.usage.prompt_tokens,
            entry.usage.completion_tokens,
            entry.usage.prompt_tokens_details.cached_tokens,
            entry.usage.extra.get("cache_write_tokens", 0),
        )
        for at, entry in enumerate(session.tree.present.ledger)
        if f"ledger[{at}]" not in gone
    )


def check(session, kind):
    """The session that is written in a format and read again, which is checked."""
    exported = dump_session(session, kind)
    again = reload(exported.payload)

    assert again.format == kind
    ours, theirs = forget(tell(session), exported.lost), forget(tell(again), ())
    # Errors that stand for results are listed with their calls.
    theirs = [
        each
        for each in theirs
        if not str(each["parts"]).startswith(f"[('text', ['{CLOSED}")
    ]
    assert theirs == ours
    assert bill(again) == bill(session, exported.lost)
    gone = [path for path, _, _ in exported.lost if path.startswith("agents[")]
    assert len(again.agents) + len(gone) == len(session.agents)
    return again


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("kind", WRITTEN)
def test_there_and_back(path, kind):
    """From each format to each other and back nothing is gone but what is listed."""
    session = read_session(path)
    again = check(session, kind)
    if session.format in WRITTEN:
        check(again, session.format)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_own_format(path):
    """What was read is written as it was, line for line, and nothing is lost."""
    session = read_session(path)
    if session.format not in WRITTEN:
        pytest.skip(f"{session.format} is not written")

    exported = dump_session(session, session.format)
    again = reload(exported.payload)

    assert exported.lost == ()
    assert again.tree == session.tree
    assert again.labels == session.labels
    assert [(each.name, each.called_by, tell(each)) for each in again.agents] == [
        (each.name, each.called_by, tell(each)) for each in session.agents
    ]
    # Sub-agents in files of their own stand behind the session's lines.
    if not any("file" in each.notes for each in session.agents):
        assert exported.payload == parse(path)
    else:
        assert exported.payload[: len(parse(path))] == parse(path)


def test_white_space():
    """A text of white space, which requests can't have, keeps its line."""
    raws: list[Any] = []
    said = {"role": "user", "content": "Go."}
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    for at, block in enumerate([None, {"type": "text", "text": "\n\n"}, call]):
        kind = "assistant" if block else "user"
        message = {"id": "m", "role": kind, "content": [block]} if block else said
        line = {"parentUuid": f"u{at - 1}" if at else None, "uuid": f"u{at}"}
        raws.append({**line, "type": kind, "sessionId": "s", "message": message})

    exported = dump_session(load_session(raws), "claude_code")

    assert raws == json.loads(json.dumps(exported.payload))
    assert () == exported.lost


def test_parents_of_lines():
    """Lines of Claude Code that come from a store stand behind those they did."""
    path = next(GOLDEN.glob("claude_code-*/*.jsonl"))
    parents = {raw.get("uuid"): raw.get("parentUuid") for raw in parse(path)}
    state = read_session(path).tree.present
    written = dump_session(state, "claude_code").payload
    found = {raw["uuid"]: raw["parentUuid"] for raw in written if "uuid" in raw}
    known = [uuid for uuid in found if parents.get(uuid) in found]

    assert len(known) > 9
    assert [found[uuid] for uuid in known] == [parents[uuid] for uuid in known]


def test_keys_of_another_format():
    """What lines have besides their messages is listed as lost in another format."""
    message = {"role": "user", "content": "Go."}
    line = {"type": "user", "uuid": "u", "parentUuid": None, "message": message}
    session = load_session([{**line, "gitBranch": "main"}])

    for kind, lost in (("pi", [("nodes", "keys")]), ("claude_code", [])):
        exported = dump_session(session, kind)

        assert lost == [(each.path, each.what) for each in exported.lost]


def test_values_like_references():
    """What looks like a reference of ours to a text of the message is kept as it is."""
    path = next(GOLDEN.glob("pi-*/*.json*"))
    odd = [{"$text": each} for each in (0, 1, -1, 99, "0", None, [0], [{"$text": 0}])]
    raws = [{**raw, "odd": [*odd, {"$text": 0, "of": 1}]} for raw in parse(path)]

    assert raws == dump_session(load_session(raws), "pi").payload


def test_fewer_texts():
    """A message that was changed since, and has fewer texts, is written as it is."""
    head, first, asked, *_ = parse(next(GOLDEN.glob("pi-*/*.json*")))
    blocks = [{"type": "text", "text": text} for text in ("Why?", "because " * 9)]
    raw = {**asked, "message": {**asked["message"], "content": blocks}}
    session = load_session([head, first, raw])
    state = session.tree.present
    for count in (1, 2):
        changed = state[0].replace(content=[TextPart("So.")] * count)
        state = state.replace_message(state.entries[0].id, changed)
        exported = dump_session(attrs.evolve(session, tree=MessageTree.of(state)), "pi")

        assert reload(exported.payload).tree.present[0].text == "So." * count


@pytest.mark.parametrize("kind", WRITTEN)
def test_parts(kind):
    """An image and a signed thought come back from each, or are listed as lost."""
    image = ImagePart(data=b"\x89PNG", media_type="image/png")
    thought = ReasoningPart("Hm.", "c2ln")
    asked = UserMessage([TextPart("See"), image])
    answer = AssistantMessage([thought, TextPart("A dot.")])

    exported = dump_session(Aggregator.new([asked, answer]), kind)
    first, last = reload(exported.payload).tree.present

    assert ("See", "Hm.", "A dot.") == (first.text, last.reasoning, last.text)
    lost = [(each.path, each.what) for each in exported.lost]
    if kind == "sts":
        assert [("nodes[0]", "image"), ("nodes[1]", "signature")] == lost
    else:
        assert ([], b"\x89PNG", "c2ln") == (
            lost,
            first.parts[1].data,
            last.parts[0].signature,
        )


@pytest.mark.parametrize("kind", ["claude_code", "opencode", "pi"])
def test_redacted_thoughts(kind):
    """A thought that Anthropic redacted comes back as one."""
    blocks = [{"type": "redacted_thinking", "data": "e"}, {"type": "text", "text": "a"}]
    said = anthropic.load([{"role": "assistant", "content": blocks}])
    state = Aggregator.new([UserMessage("q"), *said])

    loaded = load_session(dump_session(state, kind).payload)

    _, made = anthropic.dump(loaded.tree.present).payload["messages"]
    assert blocks == made["content"]


class TestClosed:
    """What is made right on the way, and is said."""

    ASKED = (
        Aggregator.new()
        .add_user_prompt("Test it.")
        .add_tool_call(ToolCall("c1", "run", "{}"), ToolCall("c2", "read", "[1]"))
        .add_tool_response(ToolMessage("ok", tool_call_id="c1", is_error=True))
    )

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_calls_without_results(self, kind):
        """A call that has no result gets an error, which is listed, if more follows."""
        state = self.ASKED.add_user_prompt("Go on.")
        exported = dump_session(state, kind)
        again = reload(exported.payload).tree.present
        results = {m.tool_call_id: m for m in again if isinstance(m, ToolMessage)}

        assert results.keys() == {"c1", "c2"}
        assert results["c2"].text.startswith(CLOSED)
        assert results["c2"].is_error or kind in {"codex", "sts"}
        assert ("nodes[1]", "c2") in {(path, what) for path, what, _ in exported.lost}
        calls = [call for message in again for call in message.tool_calls]
        assert [(call.id, call.arguments) for call in calls] == [
            ("c1", "{}"),
            ("c2", "[1]"),
        ]

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_calls_that_wait(self, kind):
        """A call that was made last waits for its result."""
        state = self.ASKED.rollback(2)
        exported = dump_session(state, kind)
        again = reload(exported.payload)

        assert len(again.tree.present) == 2
        assert [call.id for call in again.tree.present.pending_calls] == ["c1", "c2"]
        assert exported.lost == ()


class TestBranches:
    """Several branches in one file."""

    asked = Aggregator.new().add_user_prompt("Where to?")
    first = asked.add_assistant_message("The sea.").add_user_prompt("How?")
    other = first.before(first.entries[-1].id).add_user_prompt("When?")
    again = asked.add_assistant_message("Uphill.")
    tree = MessageTree.of(first, again, other.add_assistant_message("Now."))

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_branches(self, kind):
        """Trees are whole; a rollout has what begins with a prompt; others one way."""
        exported = dump_session(self.tree, kind)
        session = reload(exported.payload)
        lost = [path for path, what, _ in exported.lost if what == "branch"]

        expected = {"claude_code": 6, "pi": 6, "codex": 5, "opencode": 4, "sts": 4}
        assert len(session.tree) == expected[kind]
        assert len(lost) == 6 - expected[kind]
        assert [message.text for message in session.tree.present] == [
            "Where to?",
            "The sea.",
            "When?",
            "Now.",
        ]

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_head_within(self, kind):
        """A head behind which something stands is the head again, in any format."""
        tree = MessageTree.of(self.first, self.first.rollback(2))
        exported = dump_session(tree, kind)
        session = reload(exported.payload)

        assert [message.text for message in session.tree.present] == [
            "Where to?",
            "The sea.",
        ]
        lost = [path for path, what, _ in exported.lost if what == "branch"]
        assert (lost == []) is (kind in {"codex", "pi"})

    def test_several_turns(self):
        """A rollback takes back as many turns as the other branch has."""
        state = Aggregator.new().add_user_prompt("A?").add_assistant_message("A.")
        other = state.add_user_prompt("B?").add_assistant_message("B.")
        other = other.add_user_prompt("C?").add_assistant_message("C.")
        tree = MessageTree.of(other, state.add_user_prompt("D?"))
        session = reload(dump_session(tree, "codex").payload)

        assert [message.text for message in session.tree.present] == ["A?", "A.", "D?"]
        assert len(session.tree) == 7

    def test_bill_of_lost_branches(self):
        """Of equal usages just those that no written message reports are lost."""
        meta = ResponseMeta(id="m1", model="m", usage=Usage(5, 1))
        other = attrs.evolve(meta, id="m2")
        first = self.asked.add_response(AssistantMessage("The sea.", response=meta))
        second = self.asked.add_response(AssistantMessage("Uphill.", response=other))
        exported = dump_session(MessageTree.of(first, second), "opencode")
        lost = [path for path, _, _ in exported.lost if path.startswith("ledger")]

        assert len(lost) == 1
        assert reload(exported.payload).usage.total_tokens == 6

    def test_items(self):
        """The items for a running thread are the live branch, as the model gets it."""
        path = next((GOLDEN / "claude_code-2.1.332").glob("*.jsonl"))
        exported = dump_session(read_session(path), "codex_items")

        assert [item["content"][0]["text"] for item in exported.payload] == [
            "This session continues. Summary: add() is wrong.",
            "Fix add().",
            "Fixed.",
        ]
        assert {item["type"] for item in exported.payload} == {"message"}
        assert len([1 for _, what, _ in exported.lost if what == "history"]) == 12


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("text", ["0001-01-01T00:00+08:00", "9999-12-31T23:59-01:00"])
def test_times_in_no_year(text, kind):
    """A time that UTC has no year for is written in its own zone."""
    message = UserMessage("x", timestamp=datetime.fromisoformat(text))
    payload = dump_session(Aggregator.new([message]), format=kind).payload

    assert "x" == load_session(payload).tree.present[0].text


def test_refused():
    """Another format, or what is no session, is refused."""
    with pytest.raises(ValueError, match="expected claude_code, codex, codex_items"):
        dump_session(Aggregator.new(), "gemini_cli")

    with pytest.raises(TypeError, match="expected a LoadedSession, a MessageTree"):
        dump_session([UserMessage("Hi!")], "pi")


def test_options():
    """The folder and the title that are given are written."""
    state = Aggregator.new().add_user_prompt("Hi!")
    for kind in WRITTEN:
        payload = dump_session(state, kind, cwd="/home/mia", title="Hello").payload
        session = reload(payload)

        assert session.title == "Hello"
        assert session.cwd == ("" if kind == "sts" else "/home/mia")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_from_a_store(path):
    """A state that comes from a store has no session around it, and is written."""
    session = read_session(path)
    for kind in WRITTEN:
        exported = dump_session(session.tree.present, kind)
        again = reload(exported.payload)

        assert again.problems == () or kind == "opencode"
        texts = [message.text for message in again.tree.present]
        assert [text for text in texts if text][-1:] == [
            message.text for message in session.tree.present if message.text
        ][-1:]


@pytest.mark.parametrize("kind", WRITTEN)
def test_continued(kind):
    """What was said since a session was read stands behind it, and only there."""
    path = max(GOLDEN.glob(f"{kind}-*/*.json*"))
    session = read_session(path)
    state = session.tree.present.add_user_prompt("And now the docs.")
    meta = ResponseMeta(id="msg_new", model="claude-x", usage=Usage(10, 2))
    state = state.add_response(AssistantMessage("Done.", response=meta))
    tree = session.tree.add(state)
    exported = dump_session(attrs.evolve(session, tree=tree), kind)
    again = reload(exported.payload)
    said = [message.text for message in again.tree.present]

    before = [message.text for message in session.tree.present]
    assert said == [*before, "And now the docs.", "Done."]
    new = [] if kind == "sts" else [("claude-x", 10, 2, 0, 0)]
    assert bill(again) == sorted([*bill(session, exported.lost), *new])


@pytest.mark.parametrize(
    ("name", "key", "some"),
    [
        ("claude_code", "uuid", slice(5, 9)),
        ("codex", "timestamp", slice(32, 35)),
        ("opencode", "id", slice(4, 8)),
    ],
)
def test_lines_without_what_others_refer_to(name, key, some):
    """
    A session with a line that has no id, or no time, is written again, and what is
    written is read.
    """
    path = next(each for each in FILES if each.parent.name.startswith(name))
    whole: Any = parse(path)
    for line in (whole["messages"] if name == "opencode" else whole)[some]:
        about = line["info"] if name == "opencode" else line
        value = about.pop(key)
        session = load_session(whole)

        assert session.name == reload(dump_session(session, name).payload).name
        assert reload(dump_session(session.tree, name).payload).tree
        about[key] = value
