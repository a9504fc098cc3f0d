"""Anthropic Messages: what no case in JSON can hold, or takes an option."""

from typing import Any

import pytest

from conversation_state.adapters import anthropic
from conversation_state.adapters.anthropic import load
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.tools import ToolCall
from tests.adapters.anthropic import answer, call, text
from tests.adapters.helpers import as_is

dump = as_is(anthropic).dump


def dumped(*given, **options):
    """What *given* are in the format, and what is lost of them."""
    export = dump(given, **options)
    return export.payload, [(lost.path, lost.what) for lost in export.lost]


def sent(*given):
    """The messages that *given* are, of which nothing is lost."""
    payload, lost = dumped(*given)

    assert [] == lost
    return payload["messages"]


def answers(call_id="toolu_1", content="ok", **fields):
    """The result of a tool."""
    return ToolMessage(content, tool_call_id=call_id, **fields)


POSITION = "position"


class TestTurns:
    def test_all_on_top(self):
        """For models that take no system message in the middle."""
        given = [
            *(UserMessage("a"), SystemMessage("b"), AssistantMessage("c")),
            *(UserMessage("d"), SystemMessage("e")),
        ]
        payload, lost = dumped(*given, system_on_top=True)

        assert [text("b"), text("e")] == payload["system"]
        assert ["user", "assistant", "user"] == [
            message["role"] for message in payload["messages"]
        ]
        assert [("messages[1]", POSITION), ("messages[4]", POSITION)] == lost


class TestCalls:
    @pytest.mark.parametrize("depth", [100_000])
    def test_deep_arguments(self, depth):
        """However deep, nothing crashes."""
        arguments = '{"a":' * depth + "1" + "}" * depth
        (message,) = sent(AssistantMessage(tool_calls=[ToolCall("c", "f", arguments)]))
        given = message["content"][0]["input"]

        assert {"a"} == {*given} or {"INVALID_JSON": arguments} == given

    def test_ids(self):
        """
        Ids are as the provider takes them, the same for call and result, and
        no two become one.
        """
        export = anthropic.dump(
            [
                UserMessage("a"),
                AssistantMessage(
                    tool_calls=[
                        ToolCall("f.g:0", "f"),
                        ToolCall("f_g_0", "f"),
                        ToolCall("", "f"),
                    ]
                ),
                answers("f_g_0"),
                answers("f.g:0"),
            ]
        )
        _, calls, results = [each["content"] for each in export.payload["messages"]]

        assert ["f_g_0-2", "f_g_0", "call"] == [each["id"] for each in calls]
        assert ["f_g_0", "f_g_0-2"] == [each["tool_use_id"] for each in results]
        assert {"id", "tool_call_id"} == {lost.what for lost in export.lost}

    @pytest.mark.parametrize("odd", [["x"], {"a": 1}, 3])
    def test_odd_ids_of_its_own_tools(self, odd):
        """A call of the provider's and its result pair by ids that are no text, too."""
        blocks = [
            {"type": "server_tool_use", "id": odd, "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": odd, "content": []},
        ]
        (answered,) = load(answer(*blocks))
        (alone,) = load(answer(blocks[1]))
        export = anthropic.dump([UserMessage("a"), answered, UserMessage("b")])
        without = anthropic.dump([UserMessage("a"), alone, UserMessage("b")])

        assert [blocks, ()] == [export.payload["messages"][1]["content"], export.lost]
        assert ["web_search_tool_result"] == [lost.what for lost in without.lost]

    def test_a_paused_answer_of_a_request(self):
        """Its call and the result in the message behind it are of one message."""
        words = text("A.")
        use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
        result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
        paused = {"role": "assistant", "content": [words, use]}
        rest = {"role": "assistant", "content": [result, words]}
        asked = {"role": "user", "content": "a"}
        export = anthropic.dump(load([asked, paused, rest, asked]))
        whole = {"role": "assistant", "content": [words, use, result, words]}

        assert [asked, whole, asked] == export.payload["messages"]
        assert () == export.lost

    def test_many_ids_alike(self):
        """However many ids are one when they are mended, they stay short."""
        calls = [ToolCall(chr(0x4E00 + at), "f") for at in range(500)]
        payload = anthropic.dump([AssistantMessage(tool_calls=calls)]).payload
        ids = [block["id"] for block in payload["messages"][0]["content"]]

        assert ["_", "_-2", "_-3", "_-500"] == [*ids[:3], ids[-1]]
        assert 500 == len(set(ids))


def problem_of(message):
    """What is wrong with *message*."""
    with pytest.raises(DecodeError) as caught:
        load([message])

    (problem,) = caught.value.problems
    return problem


class TestInput:
    """Arguments that no JSON has."""

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
        problem = problem_of(answer({**call(), "input": given}))

        assert ("$[0].content[0].input", what) == problem

    def test_too_deep(self):
        """What no reader of JSON would take is reported, and nothing crashes."""
        given: dict[str, Any] = {}
        for _ in range(200_000):
            given = {"a": given}

        problem = problem_of(answer({**call(), "input": given}))

        assert "$[0].content[0].input" == problem.path
