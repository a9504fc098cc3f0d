"""
Which call a result without its id answers, in the formats that may leave that out.
"""

from typing import Any

import pytest

from conversation_state.adapters import bubo, eino, openai_chat
from tests.adapters.contract import with_made_ids
from tests.adapters.pieces import as_is


def _make_message(role, **fields):
    return {"role": role, **fields}


def _make_call(name):
    return {"type": "function", "function": {"name": name, "arguments": "{}"}}


# By format: calls of f and g without ids, an answer in words, and a result of *name*.
FORMATS = {
    "openai_chat": (
        openai_chat,
        _make_message("assistant", tool_calls=[_make_call("f"), _make_call("g")]),
        _make_message("assistant", content="Wait."),
        lambda name: _make_message(
            "tool", content="12", **({"name": name} if name else {})
        ),
    ),
    "eino": (
        eino,
        _make_message(
            "assistant",
            content="",
            tool_calls=[{"id": "", **_make_call(name)} for name in ("f", "g")],
        ),
        _make_message("assistant", content="Wait."),
        lambda name: _make_message(
            "tool", content="12", **({"tool_name": name} if name else {})
        ),
    ),
    "bubo": (
        bubo,
        {
            "type": "tool_call",
            "tool_calls": [
                {"id": "", "name": name, "arguments": "{}"} for name in ("f", "g")
            ],
        },
        {"type": "assistant", "content": "Wait."},
        lambda name: {
            "type": "tool_response",
            "tool_name": name,
            "tool_call_id": "",
            "content": "12",
        },
    ),
}


@pytest.mark.parametrize("name", FORMATS)
class TestPairing:
    def test_after_words(self, name):
        """An answer without calls leaves those before it open."""
        adapter, calls, words, result = FORMATS[name]
        payload = {"messages": [calls, words, result(""), result("")]}

        asked, _, *answers = adapter.load(payload)

        assert [call.id for call in asked.tool_calls] == [
            one.tool_call_id for one in answers
        ]
        # An id that was made up is sent with the call and the result.
        export = as_is(adapter).dump(adapter.load(payload))
        assert with_made_ids(payload, export.payload) == export.payload

    def test_by_name(self, name):
        """The name of the tool decides before the place."""
        adapter, calls, _, result = FORMATS[name]

        asked, second, first = adapter.load([calls, result("g"), result("")])

        assert [call.id for call in asked.tool_calls] == [
            first.tool_call_id,
            second.tool_call_id,
        ]

    def test_newer_calls(self, name):
        """Results answer the latest calls."""
        adapter, calls, _, result = FORMATS[name]

        _, asked, answers = adapter.load([calls, calls, result("f")])

        assert asked.tool_calls[0].id == answers.tool_call_id

    def test_none_open(self, name):
        """A result of no call has an id all the same, which is left out again."""
        adapter, _, words, result = FORMATS[name]
        payload = {"messages": [words, result("f")]}

        loaded = adapter.load(payload)

        assert loaded[1].tool_call_id
        assert as_is(adapter).dump(loaded).payload == payload


class TestTwoKinds:
    def test_legacy_call(self):
        """A call of the time before tools is one of the group of its message."""
        message = _make_message(
            "assistant",
            content=None,
            tool_calls=[_make_call("f")],
            function_call={"name": "g", "arguments": "{}"},
        )
        results = [_make_message("function", name=name, content="1") for name in "fg"]

        loaded: Any = openai_chat.load([message, *results])
        asked, *answers = loaded

        assert [call.id for call in asked.tool_calls] == [
            one.tool_call_id for one in answers
        ]

    @pytest.mark.parametrize("none", [[], None])
    def test_no_calls_of_bubo(self, none):
        """A message of no calls, empty or null, leaves those before it open."""
        _, calls, _, result = FORMATS["bubo"]
        empty = {"type": "tool_call", "tool_calls": none}

        loaded: Any = bubo.load([calls, empty, result("")])

        assert loaded[0].tool_calls[0].id == loaded[2].tool_call_id
