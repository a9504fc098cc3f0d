"""From Anthropic Messages to messages."""

from typing import Any

import pytest

from conversation_state.adapters import anthropic
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    TextPart,
    UnknownPart,
)
from tests.adapters.anthropic import (
    PNG_BASE64,
    answer,
    call,
    notes,
    one,
    result,
    several,
    system,
    text,
    user,
)
from tests.adapters.contract import as_json
from tests.adapters.helpers import table
from tests.adapters.pieces import as_is

dump = as_is(anthropic).dump


def media(kind, **source):
    """The part that a block of *kind* with a *source* is, and the block."""
    block = {"type": kind, "source": source}
    return one(user(block)).content[0], block


def document(**fields):
    """The part that a document with a short text is."""
    source = {"type": "text", "media_type": "text/plain", "data": "hi"}
    return one(user({"type": "document", "source": source, **fields})).content[0]


def image(data):
    """A block with an image."""
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return {"type": "image", "source": source}


def problems(payload):
    """What is wrong with *payload*."""
    with pytest.raises(DecodeError) as caught:
        several(payload)

    return caught.value.problems


class TestText:
    def test_system(self):
        """What stands on top comes first, as a text or as blocks."""
        payload = {"system": "Be brief.", "messages": [user(text("hi"))]}
        blocks = {"system": [text("a"), text("b")], "messages": []}

        assert (SystemMessage("Be brief."), UserMessage([TextPart("hi")])) == several(
            payload
        )
        assert (SystemMessage([TextPart("a"), TextPart("b")]),) == several(blocks)
        assert () == several({"system": None, "messages": []})

    def test_system_of_more_than_text(self):
        """Tools that come and go are kept, and go back where they stood."""
        addition = {"type": "tool_addition", "tool": {"name": "f"}}
        payload = {
            "system": [{"type": "hologram"}],
            "messages": [user(text("a")), system(addition)],
        }
        loaded = several(payload)

        assert [UnknownMessage, UserMessage, UnknownMessage] == [*map(type, loaded)]
        assert {"anthropic"} == {loaded[0].source, loaded[2].source}
        assert payload == dump(loaded).payload

    @pytest.mark.parametrize("content", [{}, {"content": []}, {"content": ""}])
    def test_system_of_effort_alone(self, content):
        """
        A change of the effort need not have content, and goes back where it stood.
        """
        effort = {"role": "system", **content, "output_config": {"effort": "low"}}
        history = [user(text("a")), effort, answer(text("b"))]
        loaded = several(history)

        assert isinstance(loaded[1], UnknownMessage)
        assert {"messages": history} == dump(loaded).payload

    @pytest.mark.parametrize("config", [{}, {"output_config": {}}])
    def test_system_of_nothing(self, config):
        """One without content or a change is a problem, as it is for the provider."""
        with pytest.raises(DecodeError, match="content: is missing"):
            several([user(text("a")), {"role": "system", **config}])


class TestThinking:
    def test_signed(self):
        """A signature is kept byte for byte, and noted."""
        block = {"type": "thinking", "thinking": "hm", "signature": "Ep\u00e9+/=="}
        part = one(answer(block)).content[0]

        assert ("hm", "Ep\u00e9+/==") == (part.text, part.signature)
        assert {"signed": True} == notes(part)

    def test_of_a_user(self):
        """A thought in a user's message is an unknown part."""
        block = {"type": "thinking", "thinking": "hm", "signature": "x"}

        assert isinstance(one(user(block)).content[0], UnknownPart)


class TestCalls:
    @pytest.mark.parametrize(
        ("given", "arguments"),
        [
            ({}, "{}"),
            ({"n": 2**70}, '{"n": 1180591620717411303424}'),
            ({"INVALID_JSON": '{"q'}, '{"q'),
            ({"INVALID_JSON": "x", "q": 1}, '{"INVALID_JSON": "x", "q": 1}'),
        ],
    )
    def test_arguments(self, given, arguments):
        """The input is the text of the arguments, and comes back from it."""
        message = one(answer({**call(), "input": given}))
        (sent,) = dump([message]).payload["messages"][0]["content"]

        assert arguments == message.tool_calls[0].arguments
        assert as_json(given) == as_json(sent["input"])

    def test_mended_in_a_wrapper(self):
        """
        Text that is not JSON comes out of its wrapper, also if it has to be mended.
        """
        wrapped = {"INVALID_JSON": '{"q": "\ud800'}
        message = one(answer({**call(), "input": wrapped}))
        (sent,) = dump([message]).payload["messages"][0]["content"]

        assert '{"q": "\ufffd' == message.tool_calls[0].arguments
        assert {"INVALID_JSON": '{"q": "\ufffd'} == sent["input"]

    def test_own_tools(self):
        """The provider's own tools are not calls to be answered."""
        blocks = [
            {"type": "server_tool_use", "id": "srv_1", "name": "web", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
            {"type": "mcp_tool_use", "id": "mcp_1", "name": "f", "input": {"a": 1}},
        ]
        message = one(answer(*blocks))

        assert () == message.tool_calls
        assert ["anthropic"] * 3 == [part.source for part in message.content]
        assert [0, 1, 2] == [part.index for part in message.content]

    def test_of_a_user(self):
        """A call that a user makes is none."""
        assert isinstance(one(user(call())).content[0], UnknownPart)

    @pytest.mark.parametrize(
        ("given", "what"),
        [
            ({1: 2}, "has a key that is not text"),
            ({"a": b"x"}, "holds what can't be kept as JSON"),
            ([], "is a list; expected an object"),
        ],
    )
    def test_no_arguments(self, given, what):
        """Arguments that are not a JSON object are reported, with the path."""
        (problem,) = problems([answer({**call(), "input": given})])

        assert ("$[0].content[0].input", what) == problem

    def test_too_deep(self):
        """What no reader of JSON would take is reported, and nothing crashes."""
        given: dict[str, Any] = {}
        for _ in range(200_000):
            given = {"a": given}

        (problem,) = problems([answer({**call(), "input": given})])

        assert "$[0].content[0].input" == problem.path


class TestResults:
    def test_several(self):
        """
        Each result is a message, with the tool's name; so is the user's other content.
        """
        history = [
            answer(call("toolu_1", "f"), call("toolu_2", "g")),
            user(result("toolu_1", "1"), result("toolu_2", "2"), text("and?")),
        ]
        loaded = several(history)

        assert [
            ToolMessage("1", tool_call_id="toolu_1", tool_name="f"),
            ToolMessage("2", tool_call_id="toolu_2", tool_name="g"),
            UserMessage([TextPart("and?")]),
        ] == list(loaded[1:])
        assert history == dump(loaded).payload["messages"]


class TestMedia:
    def test_title(self):
        """A document's title is its name; its other keys are noted."""
        part = document(title="a.txt", context="c", citations={"enabled": True})

        assert "a.txt" == part.name
        assert {"context", "citations"} == {*notes(part)["keys"]}

    @pytest.mark.parametrize("title", ["", 5])
    def test_no_title(self, title):
        """An empty title goes back as it was."""
        part = document(title=title)
        (sent,) = dump([UserMessage([part])]).payload["messages"][0]["content"]

        assert ("", title) == (part.name, sent["title"])

    @pytest.mark.parametrize(
        "source",
        [
            {"type": "text", "media_type": "text/csv", "data": "a,b"},
            {"type": "url", "url": f"data:image/png;base64,{PNG_BASE64}"},
            {"type": "file", "file_id": "file_1"},
            {"type": "base64", "media_type": "image/png", "data": "?"},
            {"type": "base64", "media_type": "", "data": PNG_BASE64},
            {"type": "base64", "media_type": "image/png", "data": "aGVs?"},
            {"type": "text", "media_type": "text/plain", "data": ""},
            {"type": "url", "url": ""},
            None,
        ],
    )
    def test_elsewhere(self, source):
        """What is with the provider, and what can't be read, is kept as it is."""
        for kind in ("document", "image"):
            block = {"type": kind, "source": source}
            message = one(user(block))

            assert isinstance(message.content[0], UnknownPart)
            assert [block] == dump([message]).payload["messages"][0]["content"]

    def test_other_documents(self):
        """A document in base64 that is no PDF is kept as it is."""
        source = {"type": "base64", "media_type": "text/plain", "data": "aGk="}
        part, _ = media("document", **source)

        assert isinstance(part, UnknownPart)

    def test_of_an_assistant(self):
        """The assistant shows no images; what looks like one is kept."""
        message = one(answer(image(PNG_BASE64)))

        assert isinstance(message.content[0], UnknownPart)


class TestTurns:
    @table(
        "given, written",
        {
            "a system message in front of the others is on top": (
                [system(text("a")), user(text("b"))],
                {"system": [text("a")], "messages": [user(text("b"))]},
            ),
            "a result has content, and a flag only if it failed": (
                [
                    user({"type": "tool_result", "tool_use_id": "a"}),
                    user(result("b", None, is_error=None)),
                ],
                {"messages": [user(result("a", "")), user(result("b", ""))]},
            ),
            "a thought has a signature, which dialects leave out": (
                [answer({"type": "thinking", "thinking": "hm"})],
                {
                    "messages": [
                        answer({"type": "thinking", "thinking": "hm", "signature": ""})
                    ]
                },
            ),
            "base64 has padding, and no lines": (
                [user(image(f"{PNG_BASE64[:4]}\n{PNG_BASE64[4:-1]}"))],
                {"messages": [user(image(PNG_BASE64))]},
            ),
        },
    )
    def test_other_forms(self, given, written):
        """What may be written in several ways is dumped in the provider's own."""
        export = dump(several(given))

        assert () == export.lost
        assert as_json(written) == as_json(export.payload)

    def test_results_behind_other_blocks(self):
        """
        Results stand first, as the provider wants them: if they did not, that is lost.
        """
        export = dump(several([user(text("a"), result(), text("b"))]))

        assert [user(result(), text("a"), text("b"))] == export.payload["messages"]
        assert [("messages[1]", "position")] == [
            (lost.path, lost.what) for lost in export.lost
        ]


RESPONSE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "pause_turn",
    "stop_sequence": None,
    "container": {"id": "c"},
    "usage": {"input_tokens": 3, "output_tokens": 4, "service_tier": "standard"},
}


class TestResponse:
    def test_notes(self):
        """What else it holds is noted, and never sent."""
        (message,) = several(RESPONSE)
        kept = notes(message)["response"]

        assert RESPONSE["id"] == message.response.id
        assert {"type", "stop_sequence", "container", "usage"} == {*kept}
        assert {"service_tier": "standard"} == kept["usage"]
        assert [answer(text("hi"))] == dump([message]).payload["messages"]


class TestMended:
    def test_texts(self):
        """Half of a surrogate pair becomes U+FFFD, and each message knows where."""
        blocks = [result(content="\ud800"), text("\udfff", keys={"a": "\ud800"})]
        loaded = several([user(*blocks, around="\ud800")])
        export = dump(loaded)

        assert "\ufffd" == loaded[0].content == loaded[1].text
        assert ("around", "content[0].content") == notes(loaded[0])["mended"]
        assert ("content[1].text", "content[1].keys.a") == notes(loaded[1])["mended"]
        assert [
            ("messages[0]", "around"),
            ("messages[0]", "content[0].content"),
            ("messages[1]", "content[1].text"),
            ("messages[1]", "content[1].keys.a"),
        ] == [(lost.path, lost.what) for lost in export.lost]

    def test_plain(self):
        """Also in plain texts, on top, in documents, inputs and responses."""
        top = several({"system": "\ud800", "messages": []})
        plain = several([{"role": "user", "content": "\ud800"}])
        source = {"type": "text", "media_type": "text/plain", "data": "\ud800"}
        file = several([user({"type": "document", "source": source})])
        called = several([answer({**call(), "input": {"a": "\ud800"}})])
        loaded = several({"content": [text("\ud800")], "id": "\ud800"})

        assert ("system",) == notes(top[0])["mended"]
        assert ("content",) == notes(plain[0])["mended"]
        assert ("content[0].source.data",) == notes(file[0])["mended"]
        assert "\ufffd".encode() == file[0].content[0].data
        assert ("content[0].input",) == notes(called[0])["mended"]
        assert '{"a": "\ufffd"}' == called[0].tool_calls[0].arguments
        assert ("id", "content[0].text") == notes(loaded[0])["mended"]


class TestRefuses:
    @pytest.mark.parametrize(
        ("payload", "path", "what"),
        [
            ({}, "$", "has neither messages nor content"),
            ({"messages": {}}, "$.messages", "is an object; expected a list"),
            ({"messages": [], "system": 5}, "$.system", "is 5; expected a text"),
            ([{"role": "tool", "content": "a"}], "$[0].role", "is 'tool'"),
            ([user(5)], "$[0].content[0]", "is 5; expected an object"),
            ([user(result(""))], "$[0].content[0].tool_use_id", "is ''"),
            ([user(result(is_error=1))], "$[0].content[0].is_error", "is 1"),
            ([answer(call(5))], "$[0].content[0].id", "is 5"),
            ({"content": "a", "role": "user"}, "$.role", "is 'user'"),
            ({"content": "a", "model": 5}, "$.model", "is 5"),
            (
                {"type": "error", "error": {"message": "Overloaded"}},
                "$.error",
                "is the provider's error: Overloaded",
            ),
            ({"error": {}}, "$.error", "no reason given"),
        ],
    )
    def test_what_is_wrong(self, payload, path, what):
        """With its path, and what should be there."""
        (problem,) = problems(payload)

        assert path == problem.path
        assert problem.what.startswith(what) or problem.what.endswith(what)
