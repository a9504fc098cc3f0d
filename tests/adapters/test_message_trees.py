"""Message trees of chat interfaces: what is read, and what is written again."""

import copy
import html
import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from conversation_state.adapters import (
    anthropic,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.adapters.message_trees import (
    LoadedTree,
    dump_tree,
    load_trees,
)
from conversation_state.errors import DecodeError, StaleHeadError, StoreError
from conversation_state.messages import ResponseMeta, UnknownMessage
from conversation_state.parts import (
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.store import open_store
from conversation_state.testing import laws
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree, name, ui_id_of
from conversation_state.trimming import repair, trim
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.processes import count_lines

WRITTEN = ("assistant_ui", "assistant_ui_rows", "librechat", "open_webui")
ROOT = "00000000-0000-0000-0000-000000000000"


def thread(id, role, *content, **keys):
    """A message of assistant-ui, of texts and parts."""
    parts = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
    return {"id": id, "role": role, "content": parts, **keys}


def item(parent, message, **keys):
    """An item of assistant-ui."""
    return {"parentId": parent, "message": message, **keys}


CALL = {
    "type": "tool-call",
    "toolCallId": "c1",
    "toolName": "add",
    "args": {"a": 1},
    "argsText": '{"a": 1}',
    "result": {"sum": 3},
}
ASSISTANT_UI = {
    "headId": "3",
    "messages": [
        item(
            None,
            thread("1", "user", "Add!", createdAt="2026-01-01T00:00:00.000Z"),
            runConfig={"custom": {}},
        ),
        item(
            "1",
            thread(
                "2",
                "assistant",
                {"type": "reasoning", "text": "Hm."},
                CALL,
                "Three.",
                {"type": "source", "sourceType": "url", "id": "s", "url": "https://x"},
                status={"type": "complete", "reason": "stop"},
                createdAt="2026-01-01T00:00:00.123Z",
            ),
        ),
        item("1", thread("3", "assistant", "3")),
        item(None, thread("4", "user", "Add them, please!")),
    ],
}
ROWS = [
    {
        "id": "1",
        "parent_id": None,
        "format": "ai-sdk/v6",
        "content": {"role": "user", "parts": [{"type": "text", "text": "Add!"}]},
    },
    {
        "id": "2",
        "parent_id": "1",
        "format": "ai-sdk/v6",
        "content": {
            "role": "assistant",
            "parts": [
                {"type": "step-start"},
                {
                    "type": "tool-add",
                    "toolCallId": "c1",
                    "state": "output-available",
                    "input": {"a": 1},
                    "output": {"sum": 3},
                },
                {"type": "text", "text": "Three.", "state": "done"},
            ],
        },
    },
    {
        "id": "3",
        "parent_id": "1",
        "format": "aui/v0",
        "content": {"role": "assistant", "content": [{"type": "text", "text": "3"}]},
        "created_at": "2026-01-01",
    },
]


def libre(id, parent, text, *, is_user=False, **keys):
    """A message of LibreChat."""
    said = {"isCreatedByUser": is_user, "text": text, "sender": "User"}
    return {"messageId": id, "parentMessageId": parent or ROOT, **said, **keys}


LIBRECHAT = {
    "conversationId": "talk",
    "title": "Sums",
    "recursive": False,
    "options": {"model": None},
    "messages": [
        libre("1", None, "Add!", is_user=True, createdAt="2026-01-01T00:00:00.014Z"),
        libre("4", None, "Please!", is_user=True, createdAt="2026-01-01T00:00:03.000Z"),
        libre("2", "1", "3", model="gpt", error=0,
         createdAt="2026-01-01T00:00:09.000Z"),
        libre(
            "3",
            "1",
            "",
            createdAt="2026-01-01T00:00:02.000Z",
            tokenCount=7,
            content=[
                {"type": "think", "think": "Hm."},
                {"type": "tool_call", "tool_call": {"id": "c1", "name": "add",
                 "args": "{}", "output": "3", "progress": 1}},
                {"type": "text", "text": {"value": "Three."}},
                {"type": "new"},
            ],
        ),
    ],
}  # fmt: skip
NESTED = {
    "conversationId": "talk",
    "recursive": True,
    "messagesTree": [
        libre("1", None, "Add!", is_user=True)
        | {"children": [libre("2", "1", "3") | {"children": []}]}
    ],
}
OUTPUT = [
    {
        "type": "reasoning",
        "id": "r",
        "content": [{"type": "output_text", "text": "Hm."}],
        "summary": None,
        "duration": 3,
    },
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
    {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [{"type": "input_text", "text": "3"}],
    },
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Three."}],
    },
]
DETAILS = (
    '<details type="reasoning" done="true">\n<summary>Thought</summary>\n'
    "&gt; Is 1 &lt; 2?\n&gt; Yes.\n</details>\nThree."
)


def web(id, parent, children, role, content, **keys):
    """A message of Open WebUI."""
    said = {"id": id, "role": role, "content": content, **keys}
    return {**said, "parentId": parent, "childrenIds": children}


def webui(current, *messages, **keys):
    """A conversation of Open WebUI."""
    history = {"currentId": current, "messages": {m["id"]: m for m in messages}}
    chat = {"title": "Sums", "models": ["m"], "history": history, **keys}
    return {"id": "talk", "title": "Sums", "chat": chat, "created_at": 1700000000}


IMAGE = {"type": "image", "url": "data:image/png;base64,aGk=", "name": "a.png"}
OPEN_WEBUI = webui(
    "3",
    web("1", None, ["3", "2"], "user", "Add!", timestamp=1700000000, files=[IMAGE]),
    web("2", "1", [], "assistant", DETAILS, model="m", done=True),
    web("3", "1", [], "assistant", DETAILS, output=OUTPUT, timestamp=1700000001.5),
    messages=[{"id": "1"}, {"id": "3"}],
)
FILES = {
    "assistant_ui": ASSISTANT_UI,
    "assistant_ui_rows": ROWS,
    "librechat": LIBRECHAT,
    "nested": NESTED,
    "open_webui": OPEN_WEBUI,
}
REQUESTS = [anthropic, gemini, openai_chat, openai_responses]


def node(id, parent, role, content, *children, **keys):
    """A node of ChatGPT's archives."""
    if isinstance(content, str):
        content = {"content_type": "text", "parts": [content]}

    author = {"role": role, "name": keys.pop("name", None)}
    message = {"id": id, "author": author, "content": content, **keys}
    return {"id": id, "parent": parent, "message": message, "children": [*children]}


def chatgpt(*nodes, **keys):
    """A conversation of ChatGPT's archives."""
    return {"title": "Sums", "mapping": {n["id"]: n for n in nodes}, **keys}


def load_one(payload, **keys):
    """The one tree of *payload*."""
    [loaded] = load_trees(payload, **keys)
    assert isinstance(loaded, LoadedTree), loaded
    return loaded


def said(loaded, id):
    """The messages of the way to the record *id*, without notes."""
    tree = loaded.tree
    return [*tree.path(tree.find(id)).messages]


def is_hidden(message):
    """Whether ChatGPT does not show *message*."""
    return "hidden" in notes_of(message.metadata, "message_trees")


def shape(tree):
    """Each named message: its id, its parent's, its text and its place in a row."""
    owners: dict[str | None, str | None] = {None: None}
    found = []
    for each in tree.nodes:
        id = ui_id_of(each.entry)
        owners[each.id] = id if id != each.entry.id else owners[each.parent]
        if id != each.entry.id:
            position, _ = tree.siblings(each.id)
            found.append((id, owners[each.parent], position, each.message.text))

    return sorted(found), owners[tree.head]


def outline(message):
    """Who says what in *message*, and which calls and results it has."""
    calls = [(each.id, each.name, each.arguments) for each in message.tool_calls]
    return message.role, message.text, calls, getattr(message, "tool_call_id", "")


def stack(*ids_and_parents):
    """A file of assistant-ui, of ids and parents."""
    return {
        "messages": [item(up, thread(id, "user", id)) for id, up in ids_and_parents]
    }


class TestRoundTrip:
    """What was loaded is written again as it was."""

    @pytest.mark.parametrize("name", FILES)
    def test_key_for_key(self, name):
        """A file is the same JSON value again, and is itself left alone."""
        payload = copy.deepcopy(FILES[name])
        export = dump_tree(load_one(payload))

        # As text: 0 is no false.
        assert json.dumps(payload, sort_keys=True) == json.dumps(
            export.payload, sort_keys=True
        )
        assert (FILES[name], ()) == (payload, export.lost)

    def test_odd_files(self):
        """Missing keys, unknown heads, orphans and odd records come back, too."""
        weird = stack(("b", "a"), ("a", None), ("lost", "gone"))
        weird["messages"][0]["message"].pop("content")
        del weird["messages"][1]["parentId"]
        bare = webui("gone", web("1", "", [], "user", "x"), web("2", "1", [], "x", "y"))
        del bare["chat"]["history"]["messages"]["2"]["id"]
        bare["chat"]["history"]["messages"]["1"].pop("childrenIds")

        for payload in (weird, bare):
            loaded = load_one(payload)
            assert payload == dump_tree(loaded).payload
            assert loaded.problems

    def test_changed(self):
        """What was changed since goes before what was kept."""
        loaded = load_one(ASSISTANT_UI)
        tree = loaded.tree
        entry = tree.find("3")
        edited = tree.path(entry).replace_message(
            entry, name(AssistantMessage("Three!"), "5")
        )
        tree = tree.add(edited, edited.add(name(UserMessage("Thanks"), "6")))
        made = dump_tree(tree, format="assistant_ui").payload
        old = {each["message"]["id"]: each for each in made["messages"]}

        assert made["headId"] == "6"
        assert ASSISTANT_UI["messages"][1] == old["2"]
        assert ("1", "5") == (old["5"]["parentId"], old["6"]["parentId"])
        assert [{"type": "text", "text": "Three!"}] == old["5"]["message"]["content"]

    def test_changed_content(self):
        """A message that was changed under its old id is written as it is now."""
        tree = load_one(OPEN_WEBUI).tree
        entry = tree.find("2")
        message = tree.node(entry).message.replace(content="Four.")
        state = Aggregator.new().extend([tree.path(entry)[0], message])
        made = dump_tree(MessageTree.of(state), format="open_webui").payload
        record = made["chat"]["history"]["messages"]["2"]

        assert ("Four.", True) == (record["content"], record["done"])

    @pytest.mark.parametrize("name", FILES)
    def test_changed_everywhere(self, name):
        """So it is in each format, whatever a record was kept with."""
        loaded = load_one(FILES[name])
        for node in loaded.tree.nodes:
            said = node.message.text
            if said not in {"", "3"}:
                path = loaded.tree.path(node.id)
                changed = node.message.replace(content="Four.")
                state = path.replace_message(path.entries[-1].id, changed)
                made = dump_tree(MessageTree.of(state), format=loaded.format)

                assert "Four." == load_one(made.payload).tree.present[-1].text
                assert said not in json.dumps(made.payload)

    def test_shown(self):
        """A switch moves the head, and Open WebUI's list of what is shown."""
        loaded = load_one(OPEN_WEBUI)
        tree = loaded.tree.switch(loaded.tree.find("2"))
        export = dump_tree(LoadedTree("talk", "Sums", tree, notes=loaded.notes,
                                      format="open_webui"))  # fmt: skip
        chat = export.payload["chat"]

        assert "2" == chat["history"]["currentId"]
        assert ["1", "2"] == [each["id"] for each in chat["messages"]]


@st.composite
def trees(draw):
    """A tree of named messages, some of them with a tool's result behind them."""
    states = [Aggregator.new()]
    for at in range(draw(st.integers(1, 12))):
        state = states[draw(st.integers(0, len(states) - 1))]
        text = draw(st.text(max_size=5))
        kind = draw(st.sampled_from(["user", "assistant", "call"]))
        if kind == "user":
            state = state.add(name(UserMessage(text), f"m{at}"))
        elif kind == "assistant":
            parts = [ReasoningPart("Hm."), TextPart(text)]
            state = state.add(name(AssistantMessage(parts), f"m{at}"))
        else:
            call = ToolCall(f"c{at}", "add", "{}")
            message = AssistantMessage(text, tool_calls=[call])
            state = state.add(name(message, f"m{at}"))
            state = state.add(ToolMessage("3", tool_call_id=f"c{at}", tool_name="add"))

        states.append(state)

    return MessageTree.of(*states[1:], draw(st.sampled_from(states[1:])))


class TestLaw:
    """A tree is the same tree in every format."""

    @given(trees())
    def test_same_tree(self, tree):
        """The same ids, parents, order of siblings, head and texts."""
        for kind in WRITTEN:
            export = dump_tree(tree, format=kind)  # type: ignore[arg-type]
            payload = [export.payload] if kind == "open_webui" else export.payload
            loaded = load_one(payload)
            nodes, head = shape(tree)

            assert nodes == shape(loaded.tree)[0]
            assert head == shape(loaded.tree)[1] or "head" in [
                x.path for x in export.lost
            ]
            assert ((), export.payload) == (loaded.problems, dump_tree(loaded).payload)

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_deep(self, kind):
        """A conversation of 3,000 messages is no deeper than others."""
        state = Aggregator.new().extend(
            [name(UserMessage(f"{at}"), f"m{at}") for at in range(3_000)]
        )
        payload = dump_tree(MessageTree.of(state), format=kind).payload
        loaded = load_one(payload)

        assert loaded.tree.find("m2999") == loaded.tree.head
        assert 3_000 == len(loaded.tree)

    def test_deep_nested(self):
        """Nor is a file that nests them."""
        messages: list[Any] = []
        for at in range(3_000, 0, -1):
            messages = [libre(f"{at}", f"{at - 1}" * (at > 1), "x", children=messages)]

        payload = {"conversationId": "c", "recursive": True, "messages": messages}
        loaded = load_one(payload)
        made = dump_tree(loaded).payload["messages"]

        assert 3_000 == len(loaded.tree)
        for _ in range(3_000):
            [top] = made
            made = top["children"]

    @pytest.mark.parametrize("kind", WRITTEN)
    @pytest.mark.parametrize("at", range(6))
    def test_as_if_it_were_not_there(self, kind, at):
        """A message of an unknown role is lost, and parts no answer."""
        calls = [ToolCall("c1", "add", "{}"), ToolCall("c2", "add", "{}")]
        messages = [
            UserMessage("1+2, and 2+2?"),
            AssistantMessage("Let me see.", tool_calls=calls),
            ToolMessage("3", tool_call_id="c1", tool_name="add"),
            ToolMessage("4", tool_call_id="c2", tool_name="add"),
            AssistantMessage("Three, and four."),
        ]
        hidden = UnknownMessage({"type": "computer_call_output"}, source="a provider")
        whole = Aggregator.new([*messages[:at], hidden, *messages[at:]])

        export = dump_tree(MessageTree.of(whole), format=kind)

        assert [f"nodes[{at}]"] == [each.path for each in export.lost]
        back = load_one(export.payload).tree.present
        assert [*map(outline, messages)] == [*map(outline, back)]

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_result_without_call(self, kind):
        """It comes back, if behind a call that it is given."""
        result = ToolMessage("3", tool_call_id="c1", tool_name="add")
        state = Aggregator.new([UserMessage("1+2?"), result, AssistantMessage("3.")])

        payload = dump_tree(MessageTree.of(state), format=kind).payload

        _, *called, back, answer = load_one(payload).tree.present
        made = [call.id for each in called for call in each.tool_calls]
        assert ("3", "c1", "3.") == (back.text, back.tool_call_id, answer.text)
        assert made in ([], ["c1"])

    def test_many_results_without_call(self):
        """What each costs does not grow with how many there are."""
        costs = []
        for size in (10, 1_000):
            results = [ToolMessage("3", tool_call_id=f"c{at}") for at in range(size)]
            tree = MessageTree.of(Aggregator.new(results))
            dump = partial(dump_tree, tree, format="assistant_ui")
            costs.append(count_lines(dump) / size)

        assert costs[1] < 2 * costs[0]

    def test_branch_behind_what_is_lost(self):
        """Two answers are two messages, also if one that is lost stands before them."""
        state = Aggregator.new().add_tool_call(ToolCall("c1", "add", "{}"))
        state = state.add(UnknownMessage({"type": "a"}, source="a provider"))
        answers = [state.add_assistant_message(text) for text in ("3", "Three.")]
        payload = dump_tree(MessageTree.of(*answers), format="librechat").payload
        tree = load_one(payload).tree

        assert 2 == len(tree.siblings(tree.head)[1])

    def test_branch_behind_a_result(self):
        """Two answers to one result are two messages, with one parent."""
        state = Aggregator.new().add_tool_call(ToolCall("c1", "add", "{}"))
        state = state.add(ToolMessage("3", tool_call_id="c1", tool_name="add"))
        answers = [state.add_assistant_message(text) for text in ("3", "Three.")]
        payload = dump_tree(MessageTree.of(*answers), format="librechat").payload
        tree = load_one(payload).tree

        assert 2 == len(tree.siblings(tree.head)[1])
        assert ["", "3", "3", "Three."] == [node.message.text for node in tree.nodes]

    def test_moved(self):
        """A message that was put behind another one is written there."""
        loaded = load_one(stack(("b", "gone"), ("a", None)))
        message = loaded.tree.node(loaded.tree.find("b")).message
        state = loaded.tree.path(loaded.tree.find("a")).add(message)
        made = dump_tree(MessageTree.of(state), format="assistant_ui").payload

        assert {"a": None, "b": "a"} == {
            each["message"]["id"]: each["parentId"] for each in made["messages"]
        }


class TestRead:
    """What is read of each format."""

    def test_assistant_ui(self):
        """Parts, calls with results, and what is behind them as the next response."""
        loaded = load_one(ASSISTANT_UI)
        call, result, answer = [each.message for each in loaded.tree.nodes[1:4]]

        assert ("Hm.", '{"a": 1}') == (call.reasoning, call.tool_calls[0].arguments)
        assert ("c1", "add", '{"sum": 3}') == (
            result.tool_call_id,
            result.tool_name,
            result.text,
        )
        assert isinstance(answer.parts[1], UnknownPart)
        assert datetime(2026, 1, 1, tzinfo=UTC) == said(loaded, "1")[0].timestamp
        assert "3" == loaded.tree.present[-1].text

    @pytest.mark.parametrize("part", [{"type": "data-x", "text": "a"}, 3])
    def test_unknown_parts(self, part):
        """A part of another kind is kept as it is, also one with a text."""
        messages = [item(None, thread("1", "assistant", part))]
        (read,) = said(load_one({"messages": messages}), "1")[0].parts

        assert isinstance(read, UnknownPart)

    def test_media(self):
        """Images and files, of a URL, a data URL or base64; an error of a tool."""
        failed = {**CALL, "result": "no", "isError": True}
        parts = [
            {"type": "image", "image": "data:image/png;base64,aGk="},
            {"type": "file", "data": "aGk=", "mimeType": "text/plain", "filename": "a"},
            {"type": "file", "data": "https://x/y", "mimeType": "text/plain"},
        ]
        messages = [item(None, thread("1", "user", *parts))]
        messages.append(item("1", thread("2", "assistant", failed)))
        loaded = load_one({"messages": messages})
        image, file, link = said(loaded, "1")[0].parts
        export = dump_tree(loaded.tree, format="assistant_ui")

        assert ImagePart(data=b"hi", media_type="image/png") == image
        assert FilePart(data=b"hi", media_type="text/plain", name="a") == file
        assert "https://x/y" == link.url
        assert loaded.tree.present[-1].is_error
        assert parts == export.payload["messages"][0]["message"]["content"]

    def test_librechat(self):
        """Thoughts and calls; the newest leaf is shown, whatever stands last."""
        loaded = load_one(LIBRECHAT)
        ids = [ui_id_of(node.entry) for node in loaded.tree.nodes if not node.parent]
        call = loaded.tree.node(loaded.tree.find("3")).message

        assert ("talk", "Sums", ["1", "4"]) == (loaded.name, loaded.title, ids)
        assert loaded.tree.find("2") == loaded.tree.head
        assert ("Hm.", "add") == (call.reasoning, call.tool_calls[0].name)
        assert "gpt" == loaded.tree.present[-1].response.model
        assert 2 == said(loaded, "2")[1].timestamp.second - 7
        assert (14_000, 9) == (loaded.created_at.microsecond, loaded.updated_at.second)

    @pytest.mark.parametrize(
        ("kind", "said", "name", "arguments", "result"),
        [
            ("function", {"name": "f", "arguments": '{"a": 1}', "output": "42"},
             "f", {"a": 1}, ["42"]),
            ("function", {"name": "f", "arguments": "{}", "output": None},
             "f", {}, []),
            ("code_interpreter",
             {"input": "1", "outputs": [{"type": "logs", "logs": "2"},
                                        {"type": "image", "image": {}}]},
             "code_interpreter", {"input": "1"}, ["2"]),
            ("code_interpreter", {"input": "1"}, "code_interpreter", {"input": "1"},
             []),
            ("file_search", {}, "file_search", {}, []),
        ],
    )  # fmt: skip
    def test_calls_of_assistants(self, kind, said, name, arguments, result):
        """LibreChat keeps them as OpenAI's Assistants have them, with the result."""
        part = {"type": "tool_call", "tool_call": {"id": "t", "type": kind, kind: said}}
        messages = [libre("1", None, "", content=[part])]
        payload = {"conversationId": "c", "messages": messages}
        loaded = load_one(payload)
        called, *results = loaded.tree.present
        (call,) = called.tool_calls

        assert ("t", name, arguments) == (
            call.id,
            call.name,
            json.loads(call.arguments),
        )
        assert result == [each.text for each in results]
        assert all(each.tool_call_id == "t" for each in results)
        assert payload == dump_tree(loaded).payload

    @pytest.mark.parametrize("key", ["error", "text"])
    def test_error_of_librechat(self, key):
        """What went wrong is the text of an answer, as without a list of content."""
        part = {"type": "error", key: "No key."}
        messages = [libre("1", None, "", content=[part], error=True)]
        payload = {"conversationId": "c", "messages": messages}
        loaded = load_one(payload)

        assert "No key." == loaded.tree.present[-1].text
        assert payload == dump_tree(loaded).payload

    @pytest.mark.parametrize("key", ["attachments", "files"])
    def test_one_thing_of_claude(self, key):
        """A single value in place of a list is kept as a list of one."""
        asked = {"uuid": "1", "sender": "human", "text": "When?", key: 3}
        export = {"uuid": "u", "name": "n", "chat_messages": [asked]}

        [message] = load_one([export]).tree.present

        assert ("When?", UnknownPart) == (message.text, type(message.parts[-1]))

    def test_open_webui(self):
        """Items as Responses have them; else a thought in the text as reasoning."""
        loaded = load_one([OPEN_WEBUI])
        tree = loaded.tree
        *_, thought, result, answer = tree.present
        other = tree.node(tree.find("2")).message

        assert [IMAGE["url"]] == [
            dump_tree(tree, format="open_webui").payload["chat"]["history"]["messages"]
            ["1"]["files"][0]["url"]
        ]  # fmt: skip
        assert 500_000 == answer.timestamp.microsecond
        assert ("Hm.", "3", "Three.") == (thought.reasoning, result.text, answer.text)
        assert ("Is 1 < 2?\nYes.", "Three.") == (other.reasoning, other.text)
        assert 0 == tree.siblings(tree.find("3"))[0]
        assert 1700000000 == loaded.created_at.timestamp()

    @pytest.mark.parametrize(
        "said",
        [
            {"usage": {"prompt_tokens": 3, "completion_tokens": 4.0,
                       "prompt_tokens_details": {"cached_tokens": 2, "x": None},
                       "response_token/s": 3.5}},
            {"usage": {"input_tokens": 3, "output_tokens": 4,
                       "input_tokens_details": {"cached_tokens": 2}}},
            {"usage": {"prompt_eval_count": 3, "eval_count": 4,
                       "total_duration": 10**9}},
            {"info": {"openai": True,
                      "usage": {"prompt_tokens": 3, "completion_tokens": 4}}},
            {"info": {"prompt_eval_count": 3, "eval_count": 4}},
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("output", [None, OUTPUT])
    def test_usage_of_open_webui(self, said, output):
        """It is the last response's, and in the ledger once, on each branch."""
        said = said if output is None else {**said, "output": output}
        messages = [
            web("1", None, ["2", "3"], "user", "Add!"),
            web("2", "1", ["4"], "assistant", "3", model="m", **said),
            web("3", "1", [], "assistant", "Three.", model="n", **said),
            web("4", "2", [], "user", "Thanks"),
        ]
        payload = webui("4", *messages)
        loaded = load_one(payload)
        answer = loaded.tree.present[-2]
        written = dump_tree(loaded.tree, format="open_webui").payload

        assert (3, 4) == (
            answer.response.usage.prompt_tokens,
            answer.response.usage.completion_tokens,
        )
        cached = answer.response.usage.prompt_tokens_details.cached_tokens
        assert ("cached_tokens" in json.dumps(said)) * 2 == cached
        assert not answer.response.usage.extra
        assert [7, 7] == [
            each.usage.total_tokens for each in loaded.tree.present.ledger
        ]
        assert ["m", "n"] == [each.model for each in loaded.tree.present.ledger]
        assert payload == dump_tree(loaded).payload
        assert (
            answer.response.usage == load_one(written).tree.present[-2].response.usage
        )

    def test_usage_that_was_changed(self):
        """It is written as it is now, with what was cached and thought."""
        old = {"prompt_tokens": 3, "completion_tokens": 4, "total_duration": 5}
        payload = webui("1", web("1", None, [], "assistant", "Hi", usage=old))
        message = load_one(payload).tree.present[0]
        usage = Usage(
            7,
            8,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=2),
            completion_tokens_details=CompletionTokensDetails(reasoning_tokens=1),
        )
        changed = message.replace(response=ResponseMeta(usage=usage))
        tree = MessageTree.of(Aggregator.new([changed]))
        written = dump_tree(tree, format="open_webui").payload

        assert "total_duration" not in json.dumps(written)
        assert usage == load_one(written).tree.present.total_usage

    @pytest.mark.parametrize(
        "usage",
        [1, {}, {"prompt_tokens": 3}, {"prompt_tokens": -1, "completion_tokens": 4},
         {"prompt_tokens": 2**63 - 1, "completion_tokens": 1}],
    )  # fmt: skip
    def test_usage_that_is_unknown(self, usage):
        """It is kept as it is, and in no ledger."""
        payload = webui("1", web("1", None, [], "assistant", "Hi", usage=usage))
        loaded = load_one(payload)

        assert 0 == len(loaded.tree.present.ledger)
        assert payload == dump_tree(loaded).payload

    def test_usage_that_is_too_much(self):
        """What the ledger can't hold is a problem."""
        usage = {"prompt_tokens": 2**62, "completion_tokens": 0}
        messages = [
            web("1", None, ["2"], "assistant", "a", usage=usage),
            web("2", "1", [], "assistant", "b", usage=usage),
        ]
        loaded = load_one(webui("2", *messages))

        assert 1 == len(loaded.tree.present.ledger)
        assert "$.chat.history.messages.2: " in loaded.problems[0]

    def test_usage_of_assistant_ui(self):
        """That of an answer is the sum of its steps."""
        steps = [{"usage": {"inputTokens": 1, "outputTokens": 2}}] * 2 + [{}]
        said = thread("1", "assistant", "Hi", metadata={"steps": steps})
        payload = {"headId": "1", "messages": [item(None, said)]}
        loaded = load_one(payload)

        assert 6 == loaded.tree.present.total_usage.total_tokens
        assert payload == dump_tree(loaded).payload

    @pytest.mark.parametrize("quoted", [True, False])
    @pytest.mark.parametrize("where", ["attribute", "content", "nowhere"])
    @pytest.mark.parametrize("adapter", REQUESTS)
    def test_calls_of_open_webui(self, adapter, where, quoted):
        """A call in the text is a call, with its result, between the texts."""
        given, result = '{"a": "<1>"}', 'It is "3".'
        inner = ""
        said = {"id": "c1", "name": "add", "done": "true"}
        said["arguments"] = json.dumps(given) if quoted else given
        shown = json.dumps(result) if quoted else result
        if where == "attribute":
            said["result"] = shown
        elif where == "content":
            inner = html.escape(shown)
        else:
            result = ""

        about = "".join(f' {key}="{html.escape(said[key])}"' for key in said)
        call = f'<details type="tool_calls"{about}>\n<summary>Done</summary>\n'
        text = f"See.\n{call}{inner}\n</details>\nThree."
        payload = webui("1", web("1", None, [], "assistant", text))
        loaded = load_one(payload)
        called, given_back, answer = loaded.tree.present

        assert [ToolCall("c1", "add", given)] == [*called.tool_calls]
        assert ("See.\n", result, "Three.") == (
            called.text,
            given_back.text,
            answer.text,
        )
        assert payload == dump_tree(loaded).payload
        name = adapter.__name__.rpartition(".")[2]
        after = loaded.tree.present.add_user_prompt("And now?")
        laws.requests_are_accepted(adapter, name, after)

    def test_details_of_another_type(self):
        """An attribute whose name ends in "type" is no type."""
        text = '<details data-type="tool_calls">Hm.</details>Three.'
        odd = '<details x="y type="tool_calls">Hm.</details>'
        loaded = load_one(webui("1", web("1", None, [], "assistant", text + odd)))

        assert text == loaded.tree.present[0].text
        assert "Hm." == loaded.tree.present[0].reasoning

    @pytest.mark.parametrize(
        ("piece", "form"),
        [
            ('<details type="reasoning" a="b" ', "{}"),
            ("<details ", "{}"),
            ('<details type="reasoning">', "{}"),
            ('<details type="other">', "{}</details>"),
            (' type="reasoning"', "<details{}"),
            ("a", '<details type="reasoning" {}></details>'),
            (" ", '<details type="reasoning">{}a</details>'),
            ("<summary>", '<details type="reasoning">{}</details>'),
            ('<details type="reasoning"></details>\n', "{}"),
        ],
    )
    def test_details_in_a_long_text(self, piece, form):
        """Whatever a text is made of, a megabyte takes linear time."""
        text = form.format(piece * (1_000_000 // len(piece)))
        loaded = load_one(webui("1", web("1", None, [], "assistant", text)))
        (said,) = loaded.tree.present
        is_closed = 'type="reasoning"' in text and "</details>" in text

        assert ("" if is_closed else text) == said.text
        assert is_closed == any(isinstance(p, ReasoningPart) for p in said.parts)

    def test_details_with_a_character_of_no_number(self):
        """What no one can read as a character stays."""
        number = f"&#{'9' * 5_000};"
        text = f'<details type="reasoning">{number}</details>'
        loaded = load_one(webui("1", web("1", None, [], "assistant", text)))

        assert number == loaded.tree.present[0].reasoning

    def test_calls_of_open_webui_without_ids(self):
        """Each has an id of its own, the same whenever it is read."""
        call = '<details type="tool_calls" name="f"><summary>x</summary></details>'
        messages = [
            web("1", None, ["2"], "assistant", call * 2, timestamp=1),
            web("2", "1", [], "assistant", call, timestamp=2),
        ]
        payload = webui("2", *messages)
        ids, again = (
            [call.id for each in load_one(payload).tree.present
             for call in each.tool_calls]
            for _ in range(2)
        )  # fmt: skip

        assert (3, ids) == (len(set(ids)), again)
        assert 2 == len(load_one(payload).tree.present)

    @pytest.mark.parametrize(
        "error",
        ["No key.", *({key: "No key."} for key in ("content", "message", "detail"))],
    )
    def test_error_of_open_webui(self, error):
        """What went wrong is the text of an answer that has no other."""
        messages = [
            web("1", None, ["2"], "assistant", "", error=error),
            web("2", "1", ["3"], "assistant", "Hm", error=error),
            web("3", "2", [], "assistant", "No.", error=True),
        ]
        payload = webui("3", *messages)
        loaded = load_one(payload)
        changed = loaded.tree.present[0].replace(content="Hi")
        made = dump_tree(
            MessageTree.of(Aggregator.new([changed])), format="open_webui"
        ).payload

        assert ["No key.", "Hm", "No."] == [each.text for each in loaded.tree.present]
        assert payload == dump_tree(loaded).payload
        assert "error" not in made["chat"]["history"]["messages"]["1"]

    @pytest.mark.parametrize("kind", ["chatgpt", "librechat", "open_webui"])
    def test_attached_files(self, kind):
        """A document that was attached is a part of what the user says."""
        if kind == "chatgpt":
            file = {"id": "f", "name": "a.pdf", "mime_type": "application/pdf"}
            about = {"attachments": [file, {"id": "i", "mime_type": "image/png"}]}
            payload = chatgpt(node("1", None, "user", "Read!", metadata=about))
        elif kind == "librechat":
            file = {"filepath": "/f", "filename": "a.pdf", "type": "application/pdf"}
            messages = [libre("1", None, "Read!", is_user=True, files=[file])]
            payload = {**LIBRECHAT, "messages": messages}
        else:
            file = {"type": "file", "id": "f", "name": "a.pdf"}
            payload = webui("1", web("1", None, [], "user", "Read!", files=[file]))

        text, *files = load_one(payload).tree.present[0].parts

        assert ("Read!", ["a.pdf"]) == (text.text, [each.name for each in files])

    def test_files_in_open_webui(self):
        """A document comes back from Open WebUI as it is written."""
        file = FilePart(data=b"hi", media_type="text/plain", name="a.txt")
        state = Aggregator.new([UserMessage([TextPart("Read!"), file])])

        payload = dump_tree(MessageTree.of(state), format="open_webui").payload

        assert file == load_one(payload).tree.present[0].parts[1]

    @pytest.mark.parametrize("kind", ["chatgpt", "librechat", "open_webui"])
    def test_cut_off(self, kind):
        """An answer that was stopped is interrupted, and written as one."""
        if kind == "chatgpt":
            about = {"finish_details": {"type": "interrupted"}}
            payload = chatgpt(node("1", None, "assistant", "On", metadata=about))
        elif kind == "librechat":
            messages = [libre("1", None, "On", sender="gpt", unfinished=True)]
            payload = {**LIBRECHAT, "messages": messages}
        else:
            payload = webui("1", web("1", None, [], "assistant", "On", done=False))

        tree = load_one(payload).tree

        assert "interrupted" == tree.present[0].response.finish_reason
        if kind != "chatgpt":
            state = Aggregator.new([*tree.present])
            written = dump_tree(MessageTree.of(state), format=kind).payload
            again = load_one(written).tree.present
            assert "interrupted" == again[0].response.finish_reason

    def test_cut_off_in_assistant_ui(self):
        """An answer that was cut off is cancelled, and no page runs its calls."""
        call = ToolCall("c1", "pay", '{"amount": 5, "to')
        stopped = ResponseMeta("interrupted")
        state = Aggregator.new([AssistantMessage(tool_calls=[call], response=stopped)])
        payload = dump_tree(MessageTree.of(state), format="assistant_ui").payload
        (written,) = payload["messages"]
        loaded = load_one(payload)

        cancelled = {"type": "incomplete", "reason": "cancelled"}
        assert cancelled == written["message"]["status"]
        assert payload == dump_tree(loaded).payload
        part: Any = {"type": "tool-pay", "toolCallId": "c1", "state": "input-streaming"}
        part |= {"rawInput": call.arguments, "input": {"amount": 5}}
        content = {"role": "assistant", "parts": [part]}
        row = {"id": "1", "parent_id": None, "format": "ai-sdk/v6", "content": content}
        of_rows = load_one([row])
        for tree in (loaded.tree, of_rows.tree):
            (called,) = tree.present[0].tool_calls
            assert call.arguments == called.arguments
            assert () == tree.present.pending_calls

        assert [row] == dump_tree(of_rows).payload

    @pytest.mark.parametrize("given", [{}, {"rawInput": None}, {"rawInput": {"x": 1}}])
    def test_cut_off_arguments_of_assistant_ui(self, given):
        """What came of them is in its own text where the AI SDK's is missing."""
        call = {**CALL, "args": {}, "argsText": '{"a', "state": "input-streaming"}
        del call["result"]
        said = thread("1", "assistant", {**call, **given})
        payload = {"headId": "1", "messages": [item(None, said)]}
        loaded = load_one(payload)

        assert '{"a' == loaded.tree.present[0].tool_calls[0].arguments
        assert payload == dump_tree(loaded).payload

    def test_booleans_beside_numbers(self):
        """Arguments that are not what their text says come back as they were."""
        call = {**CALL, "args": {"a": True}, "result": "3"}
        said = thread("1", "assistant", call)
        payload = {"headId": "1", "messages": [item(None, said)]}
        back = dump_tree(load_one(payload)).payload

        assert back["messages"][0]["message"]["content"][0]["args"]["a"] is True

    @pytest.mark.parametrize(
        ("has_result", "ends", "is_whole"),
        [
            (True, "stop", True),
            (False, "stop", False),
            (True, "interrupted", False),
        ],
    )
    def test_goes_on_in_assistant_ui(self, has_result, ends, is_whole):
        """An answer is as whole as its end, and as its calls without results."""
        answers = [
            AssistantMessage(
                "Wait.",
                tool_calls=[ToolCall("c1", "pay", "{}")],
                response=ResponseMeta("interrupted"),
            ),
            AssistantMessage("Done.", response=ResponseMeta(ends)),
        ]
        result = ToolMessage("No.", tool_call_id="c1", is_error=True)
        state = Aggregator.new([answers[0], *[result] * has_result, answers[1]])
        payload = dump_tree(MessageTree.of(state), format="assistant_ui").payload
        (written,) = payload["messages"]
        last = load_one(payload).tree.present[-1]

        assert is_whole == (written["message"]["status"]["type"] == "complete")
        assert is_whole == (last.response is None)
        assert () == load_one(payload).tree.present.pending_calls

    def test_error_of_assistant_ui(self):
        """So it is there."""
        status = {"type": "incomplete", "reason": "error", "error": "No key."}
        payload = {"messages": [item(None, thread("1", "assistant", status=status))]}
        loaded = load_one(payload)

        assert "No key." == loaded.tree.present[0].text
        assert payload == dump_tree(loaded).payload

    @pytest.mark.parametrize("adapter", REQUESTS)
    @pytest.mark.parametrize("kind", FILES)
    def test_goes_on(self, kind, adapter):
        """A chat from a file can be continued with every provider."""
        present = load_one([FILES[kind]]).tree.present
        name = adapter.__name__.rpartition(".")[2]

        laws.requests_are_accepted(adapter, name, present.add_user_prompt("And now?"))

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_written(self, kind):
        """Images, thoughts, calls with arguments and results come back from each."""
        call = ToolCall("c1", "add", '{"a":1}')
        messages = [
            UserMessage([TextPart("See"), ImagePart(url="https://a/b.png")]),
            AssistantMessage([ReasoningPart("Hm.")], tool_calls=[call]),
            ToolMessage("3", tool_call_id="c1", tool_name="add"),
            AssistantMessage("Three."),
        ]
        export = dump_tree(MessageTree.of(Aggregator.new(messages)), format=kind)

        asked, thought, result, answer = load_one(export.payload).tree.present

        assert ("See", "https://a/b.png") == (asked.text, asked.parts[1].url)
        (back,) = thought.tool_calls
        assert ("Hm.", "add", {"a": 1}) == (
            thought.reasoning,
            back.name,
            json.loads(back.arguments),
        )
        assert (back.id, "3", "Three.") == (
            result.tool_call_id,
            result.text,
            answer.text,
        )

    def test_chatgpt(self):
        """Each type of content; a call and its result; hidden messages are marked."""
        context = {"content_type": "user_editable_context", "user_profile": "An SRE."}
        code = {"content_type": "code", "language": "python", "text": "1 + 2"}
        output = {"content_type": "execution_output", "text": "3"}
        pointer = {"content_type": "image_asset_pointer", "asset_pointer": "file://x"}
        mixed = {"content_type": "multimodal_text", "parts": ["See", pointer]}
        hidden = {"is_visually_hidden_from_conversation": True}
        root = {"id": "root", "message": None, "parent": None, "children": ["0"]}
        loaded = load_one(
            [
                chatgpt(
                    root,
                    node("0", "root", "user", context, "1", metadata=hidden),
                    node("1", "0", "user", mixed, "2", create_time=1700000000.5),
                    node("2", "1", "assistant", code, "3", recipient="python"),
                    node("3", "2", "tool", output, "5", "4", name="python"),
                    node("4", "3", "assistant", "Three.", metadata={"model_slug": "g"}),
                    node("5", "3", "assistant", {"content_type": "new", "x": 1}),
                    current_node="4",
                    conversation_id="talk",
                )
            ]
        )
        first, asked, call, result, answer = loaded.tree.present
        unknown = loaded.tree.node(loaded.tree.find("5")).message

        assert () == loaded.problems
        assert ("talk", "An SRE.") == (loaded.name, first.text)
        assert first.metadata["conversation_state"]["message_trees"]["hidden"]
        assert ("See", "file://x") == (asked.text, asked.parts[1].raw["asset_pointer"])
        assert 500_000 == asked.timestamp.microsecond
        assert ((), "python") == (call.parts, call.tool_calls[0].name)
        assert {"input": "1 + 2"} == json.loads(call.tool_calls[0].arguments)
        assert (call.tool_calls[0].id, "3") == (result.tool_call_id, result.text)
        assert ("Three.", "g") == (answer.text, answer.response.model)
        assert 1 == unknown.parts[0].raw["x"]
        assert (1, 2) == (
            loaded.tree.siblings(loaded.tree.head)[0],
            len(loaded.tree.siblings(loaded.tree.head)[1]),
        )

    @pytest.mark.parametrize("adapter", REQUESTS)
    def test_results_of_chatgpt(self, adapter):
        """Each text of a tool is sent, also without a call or behind a first result."""
        shown = {"content_type": "tether_browsing_display", "result": "A page."}
        quote = {"content_type": "tether_quote", "text": "A quote.", "title": "t"}
        stored = {"content_type": "text", "parts": ["A file."]}
        broken = {"content_type": "system_error", "name": "E", "text": "Broken."}
        code = {"content_type": "code", "text": "search('x')"}
        hidden = {"is_visually_hidden_from_conversation": True}
        nodes = [
            node("1", None, "user", "When?", "2"),
            node("2", "1", "assistant", code, "3", recipient="browser"),
            node("3", "2", "tool", shown, "4", name="browser"),
            node("4", "3", "tool", quote, "5", name="browser", metadata=hidden),
            node("5", "4", "tool", stored, "6", name="myfiles_browser"),
            node("6", "5", "tool", broken, "7", name=None),
            node("7", "6", "assistant", "Now."),
        ]
        loaded = load_one(chatgpt(*nodes, current_node="7"))
        present = loaded.tree.present
        results = [each for each in present if isinstance(each, ToolMessage)]
        calls = [call.id for each in present for call in each.tool_calls]
        view = trim(present, None, repair())
        sent = json.dumps(adapter.dump(view.messages).payload)

        assert ["A page.", "A quote.", "A file.", "Broken."] == [
            each.text for each in results
        ]
        assert [each.tool_call_id for each in results] == calls
        assert [False, False, False, True] == [each.is_error for each in results]
        assert all(each.text in sent for each in results)
        assert ["A quote."] == [
            each.text for each in said(loaded, "7") if is_hidden(each) and each.text
        ]
        assert said(loaded, "4")[-1].tool_calls
        name = adapter.__name__.rpartition(".")[2]
        laws.requests_are_accepted(adapter, name, present.add_user_prompt("And now?"))

    @pytest.mark.parametrize("key", ["in_kernel_exception", "system_exception"])
    def test_code_of_chatgpt_that_failed(self, key):
        """Its output is an error."""
        output = {"content_type": "execution_output", "text": "Traceback"}
        run = {"aggregate_result": {key: {"name": "E"}}}
        nodes = [
            node("1", None, "assistant", "1 / 0", "2", recipient="python"),
            node("2", "1", "tool", output, name="python", metadata=run),
        ]

        assert load_one(chatgpt(*nodes)).tree.present[-1].is_error

    def test_calls_of_claude_in_sequence(self):
        """A call behind all results is of the next response; another is parallel."""

        def use(id):
            return {"type": "tool_use", "id": id, "name": "f", "input": {}}

        def give(id):
            content = [{"type": "text", "text": f"of {id}"}]
            return {"type": "tool_result", "tool_use_id": id, "content": content}

        def load(*blocks):
            answer = {"uuid": "1", "sender": "assistant", "content": [*blocks]}
            chat = {"uuid": "u", "name": "n", "chat_messages": [answer]}
            return [
                each.text or [call.id for call in each.tool_calls]
                for each in load_one(chat).tree.present
            ]

        text = {"type": "text", "text": "Hm."}
        ordered = [use("a"), give("a"), use("b"), give("b"), text, use("c"), give("c")]
        parallel = [use("a"), use("b"), give("a"), give("b")]
        mixed = [use("a"), use("b"), give("a"), use("c"), give("b"), give("c")]

        assert [["a"], "of a", ["b"], "of b", "Hm.", "of c"] == load(*ordered)
        assert [["a", "b"], "of a", "of b"] == load(*parallel)
        assert [["a", "b", "c"], "of a", "of b", "of c"] == load(*mixed)

    def test_result_without_call_of_claude(self):
        """It has a call of its own, without which it would be sent to no model."""
        blocks = [{"type": "tool_result", "name": "f", "content": "3"}]
        answer = {"uuid": "1", "sender": "assistant", "content": blocks}
        loaded = load_one({"uuid": "u", "name": "n", "chat_messages": [answer]})
        called, result = loaded.tree.present

        assert ["f"] == [call.name for call in called.tool_calls]
        assert ("3", called.tool_calls[0].id) == (result.text, result.tool_call_id)

    def test_steps_of_the_ai_sdk(self):
        """Each is a response: its calls were made when results before it were known."""
        parts: list[dict[str, Any]] = []
        for id in "a", "b":
            call: Any = {"type": "tool-f", "toolCallId": id, "input": {}, "output": id}
            parts += [{"type": "step-start"}, call]

        first: Any = ROWS[1]
        row: dict[str, Any] = {**first, "parent_id": None}
        row = {**row, "content": {"role": "assistant", "parts": parts}}
        loaded = load_one([row])

        assert [["a"], [], ["b"], []] == [
            [call.id for call in each.tool_calls] for each in loaded.tree.present
        ]
        assert [row] == dump_tree(loaded).payload

    @pytest.mark.parametrize("time", [1700000000, 1700000000000, 1700000000000000])
    def test_times(self, time):
        """Seconds, or thousandths of them, or of those."""
        loaded = load_one(webui("1", web("1", None, [], "user", "x", timestamp=time)))

        assert 1700000000 == loaded.updated_at.timestamp()

    @pytest.mark.parametrize("kind", ["assistant_ui", "librechat", "open_webui"])
    @pytest.mark.parametrize(
        "text", ["0001-01-01T00:00+08:00", "9999-12-31T23:59-01:00"]
    )
    def test_times_in_no_year(self, text, kind):
        """A time that UTC has no year for is written in its own zone."""
        message = UserMessage("x", timestamp=datetime.fromisoformat(text))
        tree = MessageTree.of(Aggregator.new([message]))
        loaded = load_one(dump_tree(tree, format=kind).payload)

        assert "x" == loaded.tree.present[0].text


class TestTrouble:
    """What is wrong with a file."""

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**70])
    @pytest.mark.parametrize("where", ["title", "childrenIds"])
    def test_values_that_json_does_not_have(self, where, value):
        """They are an error of their conversation, with the path, wherever they are."""
        good = webui(
            "1", web("1", None, ["2"], "user", "x"), web("2", "1", [], "user", "y")
        )
        bad = copy.deepcopy(good)
        history = bad["chat"]["history"]["messages"]["1"]
        (bad if where == "title" else history)[where] = [value]
        found = [*load_trees([bad, good])]

        assert [DecodeError, LoadedTree] == [type(each) for each in found]
        assert f"{where}[0]: is" in str(found[0])

    def test_infinite_time(self):
        """It is an error of its conversation, with the path."""
        endless = node("1", None, "user", "x", create_time=float("inf"))
        [found] = load_trees(chatgpt(endless, current_node="1"))

        assert "create_time: is inf" in str(found)

    @pytest.mark.parametrize("where", ["all", "childrenIds", "id", "key", "parentId"])
    def test_half_of_a_surrogate_pair_in_ids(self, where):
        """It is mended and a problem, as elsewhere; ids that are equal stay so."""
        half = "\ud83d"
        key, own, parent, child = [
            half if where in {"all", each} else "1"
            for each in ("key", "id", "parentId", "childrenIds")
        ]
        payload = webui(
            key,
            web("2", None, [child], "user", "x"),
            web(own, "2", ["3"], "assistant", "y"),
            web("3", parent, [], "user", "z"),
        )
        messages = payload["chat"]["history"]["messages"]
        messages[key] = messages.pop(own)
        loaded = load_one(payload)
        written = dump_tree(loaded.tree, format="open_webui").payload

        assert any("half of a surrogate pair" in each for each in loaded.problems)
        shown = json.dumps([written, loaded.problems], ensure_ascii=False)
        assert "\ufffd" in shown.encode().decode()
        if where == "all":
            assert 3 == len(loaded.tree.switch(loaded.tree.find("3")).present)

    def test_one_of_several(self):
        """A conversation that can't be read is one error, and the others are read."""
        good = webui("1", web("1", None, [], "user", "x"))
        cycle = webui(
            "1", web("1", "2", [], "user", "x"), web("2", "1", [], "user", "")
        )
        gpt = {"title": "Corrupted", "create_time": 1.0, "current_node": "x"}
        found = [*load_trees([good, cycle, gpt, good, webui(None), 1])]

        assert [LoadedTree, DecodeError, DecodeError, LoadedTree, DecodeError,
                DecodeError] == [type(each) for each in found]  # fmt: skip
        assert "its own ancestor" in str(found[1])
        assert "$[2]: mapping is missing" in str(found[2])
        assert "has no messages" in str(found[4])

    @pytest.mark.parametrize(
        ("payload", "problem"),
        [
            (stack(("a", None), ("a", None)), "has the id 'a', as another"),
            (stack(("a", "a")), "its own ancestor"),
            (stack(("", None)), "$.messages[0].id"),
            ({"headId": None, "messages": []}, "has no messages"),
            (
                {"headId": None, "messages": [1]},
                "$.messages[0]: is 1; expected an object",
            ),
            ({"conversationId": "c", "messages": 1}, "has no list of messages"),
            ({"x": 1}, "expected an archive"),
        ],
    )
    def test_errors(self, payload, problem):
        """Each says where it is, and what is wrong."""
        [error] = load_trees(payload)

        assert problem in str(error)

    def test_empty_archive(self):
        """An archive without conversations has none."""
        assert [] == [*load_trees([])]

    def test_not_one(self):
        """What is no conversation at all is refused at once."""
        with pytest.raises(DecodeError, match="expected an archive"):
            load_trees("x")

        with pytest.raises(ValueError, match="expected assistant_ui"):
            load_trees([], format="x")

        with pytest.raises(ValueError, match="expected assistant_ui"):
            dump_tree(load_one(ASSISTANT_UI), format="chatgpt")  # type: ignore[arg-type]

        with pytest.raises(TypeError, match="expected a MessageTree"):
            dump_tree(Aggregator.new())  # type: ignore[arg-type]

    def test_orphans(self):
        """What has lost its parent is kept as a first message, and named."""
        loaded = load_one(stack(("b", "a"), ("c", "b"), ("d", None)))

        assert ["$.messages[0]: its parent 'a' is missing"] == [*loaded.problems]
        assert loaded.tree.node(loaded.tree.find("b")).parent is None
        assert ["b", "c"] == [each.text for each in said(loaded, "c")]

    def test_children(self):
        """A list of children that says something else is a problem; parents count."""
        history = [web("1", None, ["9"], "user", "x"), web("2", "1", [], "user", "y")]
        loaded = load_one(webui("2", *history))

        assert "not what their parents' ids say" in loaded.problems[0]
        assert ["x", "y"] == [each.text for each in loaded.tree.present]

    def test_children_that_are_not_listed(self):
        """
        What programs leave out of their lists of children is no problem.

        Source:
            https://github.com/open-webui/open-webui/issues/29299
        """
        loaded = load_one(
            webui("2", web("1", None, [], "user", "x"), web("2", "1", [], "user", "y"))
        )

        assert () == loaded.problems
        assert ["x", "y"] == [each.text for each in loaded.tree.present]


class TestLost:
    """What a format can't represent."""

    def test_lost(self):
        """LibreChat has no system messages; a refusal is a text."""
        state = Aggregator.new().extend(
            [SystemMessage("Be brief."), UserMessage("Hi!")]
        )
        state = state.add(AssistantMessage([RefusalPart("No.")]))
        tree = MessageTree.of(state, state.rollback(2))
        export = dump_tree(tree, format="librechat", title="Talk")
        [asked, answer] = export.payload["messages"]

        assert ["nodes[0]", "nodes[2].parts[0]", "head"] == [
            x.path for x in export.lost
        ]
        assert (ROOT, "Talk") == (asked["parentMessageId"], export.payload["title"])
        assert "No." == answer["text"]


class TestStore:
    """Trees in a store."""

    @given(trees())
    def test_save(self, tree):
        """A tree that was saved is read again as it was, and saved once."""
        with open_store("memory:") as store:
            head = store.save_tree("talk", tree)
            found = store.message_tree("talk")

            assert (tree.nodes, tree.head) == (found.nodes, found.head)
            assert head == store.save_tree("talk", found, expecting=head)
            assert store.load("talk") == tree.present

    def test_grown(self):
        """A tree that grew is saved again; one that lacks the head is not."""
        asked = Aggregator.new().add_user_prompt("Add!")
        tree = MessageTree.of(asked.add_assistant_message("3"))
        grown = tree.add(asked.add_assistant_message("Three."))
        with open_store("memory:") as store:
            head = store.save_tree("talk", tree, expecting=0)
            store.save_tree("talk", grown)
            with pytest.raises(StaleHeadError, match="lacks messages"):
                store.save_tree("talk", tree)

            with pytest.raises(StaleHeadError):
                store.save_tree("talk", grown, expecting=head)

            assert grown.nodes == store.message_tree("talk").nodes
            assert "Three." == store.load("talk")[-1].text

            more = grown.add(asked.add_assistant_message("III"))
            assert tree.head
            store.save_tree("talk", more.switch(tree.head))

            assert tree.head == store.message_tree("talk").head

            store.save_timeline("steps", Timeline.begin(asked))
            with pytest.raises(StoreError, match="is a timeline"):
                store.save_tree("steps", tree)

            with pytest.raises(TypeError, match="expected a MessageTree"):
                store.save_tree("talk", asked)  # type: ignore[arg-type]
