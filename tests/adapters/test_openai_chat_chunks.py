"""Streams of Chat Completions: chunks that concatenate to the message."""

from contextlib import suppress
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st

from conversation_state._persistent import thaw
from conversation_state.adapters import openai_chat
from conversation_state.adapters.engine.notes import notes_of
from conversation_state.adapters.openai_chat import load_chunks
from conversation_state.chunks import concat
from conversation_state.errors import ProviderStreamError
from conversation_state.testing.strategies import texts
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters.contract import bare
from tests.adapters.helpers import table
from tests.adapters.openai_chat import several
from tests.adapters.stream_contract import StreamContract, events_of, split_text

RECORDED = recorded.streams("openai_chat")


def event(*, reason=None, **delta):
    """An event with a *delta*."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "gpt-4o",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        "usage": None,
    }


def call(at=0, arguments=None, **fields):
    """A piece of a call."""
    function = {} if arguments is None else {"arguments": arguments}
    if "name" in fields:
        function["name"] = fields.pop("name")

    index = {} if at is None else {"index": at}
    return {**index, **fields, "function": function}


def calling(*pieces):
    """An event for each of *pieces* of calls."""
    return [event(tool_calls=[piece]) for piece in pieces]


def collected(*events) -> Any:
    """The message that *events* make."""
    return concat(load_chunks(events))


USED = {"prompt_tokens": 1, "completion_tokens": 2}


class TestText:
    """Pieces of a text are one text, and so are those of a thought or a refusal."""

    def test_key_of_reasoning(self):
        """
        Of the pieces of a thought the first one has a note on its key; a thought ends
        with a text, and with another key.
        """
        keys = ["reasoning"] * 3 + ["content", "reasoning", "reasoning_content"]
        chunks = load_chunks(event(**{key: "a"}) for key in keys)
        pieces = [part for chunk in chunks for part in chunk.parts]

        assert [True, False, False, False, True, True] == [
            bool(part.metadata) for part in pieces
        ]


# An id that is made up, where the call has the index.


def piece(at, call_id, name, arguments):
    """A piece of a call, without what is None."""
    made = call(at, arguments)
    if call_id is not None:
        made["id"] = call_id

    if name is not None:
        made["function"]["name"] = name

    return made


class TestCalls:
    """Pieces of a call are one call, which goes by its id, its index and its name."""

    def test_deep_arguments(self):
        """However deep arguments are, they are joined."""
        pieces = [call(0, "[" * 100_000, name="f"), call(0, "]", name="f")]
        calls = collected(*calling(*pieces)).tool_calls

        assert [100_001] == [len(each.arguments) for each in calls]


class TestResponse:
    @table(
        "events, usage",
        {
            "with the largest total of the same counts": (
                [
                    {**event(content="a"), "usage": {**USED, "total_tokens": 20}},
                    {**event(content="b"), "usage": {**USED, "total_tokens": 12}},
                    event(content="c"),
                ],
                Usage(1, 2, 20),
            ),
            "in an event of its own": (
                [event(content="a"), {"choices": [], "usage": USED}],
                Usage(1, 2),
            ),
            "before an empty one, which says nothing": (
                [{**event(content="a"), "usage": used} for used in (USED, {})],
                Usage(1, 2),
            ),
        },
    )
    def test_usage(self, events, usage):
        """The usage comes once, with the first of several answers."""
        usages = [
            chunk.response.usage for chunk in load_chunks(events) if chunk.response
        ]
        other: Any = concat(load_chunks(events, choice=1))

        assert [usage] == usages
        assert other.response.usage is None

    @pytest.mark.parametrize(
        ("kept", "index"),
        [("0", "0"), ("\ufffd", "\ud83d"), (["\ufffd"], ["\udcab"])],
        ids=ascii,
    )
    def test_no_index(self, kept, index):
        """What a server has in place of an index is noted, as valid text."""
        message = collected({"choices": [{"index": index, "delta": {"content": "a"}}]})

        assert kept == thaw(
            notes_of(message.metadata, "openai_chat")["choice"]["index"]
        )

    @pytest.mark.parametrize("choice", [-1, None, "0", True])
    def test_no_choice(self, choice):
        """
        Answers are numbered; another one is reported at once, not with the first chunk.
        """
        with pytest.raises(ValueError, match="index of a response"):
            load_chunks([], choice=choice)


# A response, whole and cut into events


@st.composite
def responses_and_events(draw):
    """A response, and the events it may have come in."""
    message = {"role": "assistant", "content": draw(st.none() | texts())}
    events = [event(role="assistant")]
    for key in ("reasoning_content", "content", "refusal"):
        words = draw(texts()) if key != "content" else message["content"]
        if words:
            message[key] = words
            events += [event(**{key: p}) for p in draw(split_text(words))]

    calls = []
    pieces = []
    for at in range(draw(st.integers(0, 3))):
        arguments = draw(texts())
        head = {"id": f"c{at}", "type": "function"}
        calls.append({**head, "function": {"name": "f", "arguments": arguments}})
        first, *rest = draw(split_text(arguments))
        of_call = [call(at, first, **head, name="f"), *[call(at, p) for p in rest]]
        pieces.append(of_call)

    if calls:
        message["tool_calls"] = calls

    while any(pieces):
        of_call = draw(st.sampled_from([each for each in pieces if each]))
        events.append(event(tool_calls=[of_call.pop(0)]))

    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    reason = "tool_calls" if calls else "stop"
    events += [event(reason=reason), {"choices": [], "usage": usage}]
    choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {"id": "chatcmpl-1", "model": "gpt-4o", "choices": [choice], "usage": usage}
    return whole, events


class TestStreams(StreamContract):
    """What the streams of all adapters promise."""

    adapter: ClassVar = openai_chat
    response_streams: ClassVar = responses_and_events()
    failure_events: ClassVar = [
        {"error": "no"},
        {"error": {"message": "no"}, "choices": []},
    ]

    def text_events(self, size):
        """A text in pieces, with a role that some servers repeat."""
        return [event(role="assistant", content="a")] * size

    def call_events(self, size):
        """A call, and its arguments in pieces."""
        begun = event(tool_calls=[call(0, "", id="c", name="f", type="function")])
        return [begun, *[event(tool_calls=[call(0, "1")])] * size]

    def is_end(self, event):
        """A choice has a reason to finish."""
        return any(each.get("finish_reason") for each in event.get("choices", ()))

    def check(self, whole, message):
        """See that they are the same, but for notes."""
        (expected,) = several(whole)

        assert bare(expected) == bare(message)
        assert expected.response == message.response


# Real traffic


def straightforward(events):
    """
    The text, the reasoning and the calls that the simplest possible reader finds in
    *events*.
    """
    texts = {"content": "", "reasoning": ""}
    calls: dict[int, list[str]] = {}
    for each in events:
        for choice in each.get("choices", ()) if isinstance(each, dict) else ():
            delta = choice["delta"]
            content = delta.get("content") or ""
            for block in content if isinstance(content, list) else ():
                texts["reasoning"] += "".join(t["text"] for t in block["thinking"])

            texts["content"] += content if isinstance(content, str) else ""
            texts["reasoning"] += delta.get("reasoning_content") or ""
            texts["reasoning"] += delta.get("reasoning") or ""
            for piece in delta.get("tool_calls") or ():
                found = calls.setdefault(piece["index"], ["", "", ""])
                found[0] = piece.get("id") or found[0]
                found[1] = piece["function"].get("name") or found[1]
                found[2] += piece["function"].get("arguments") or ""

    return [*texts.values(), *map(tuple, calls.values())]


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
def test_recorded(path):
    """
    Recorded streams collect to the content of their events, with their last usage.
    """
    events = events_of(path)
    chunks: list[Any] = []
    with suppress(ProviderStreamError):
        chunks.extend(load_chunks(events))

    merged: Any = concat(chunks)
    used = [each["usage"] for each in events if each != "[DONE]" and each.get("usage")]

    assert straightforward(events) == [
        merged.text,
        merged.reasoning,
        *[(each.id, each.name, each.arguments) for each in merged.tool_calls],
    ]
    assert merged.response.usage == openai_chat.load_usage(used[-1] if used else None)
