"""Streams of OpenAI's Responses: chunks that concatenate to the message."""

from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters import openai_responses
from conversation_state.adapters.openai_responses import load_chunks
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage
from conversation_state.parts import ReasoningPart
from conversation_state.testing.strategies import texts
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters import stream_contract
from tests.adapters.contract import bare
from tests.adapters.helpers import as_is
from tests.adapters.openai_responses import (
    added,
    answer,
    asked,
    call,
    collected,
    done,
    end,
    event,
    message,
    piece,
    response,
    several,
    thought,
)
from tests.adapters.stream_contract import StreamContract, events_of, split_text

dump = as_is(openai_responses).dump

RECORDED = recorded.streams("openai_responses")
given_before = partial(stream_contract.given_before, openai_responses)

BEGUN = message()
PLACELESS = {"type": "response.output_text.delta", "content_index": 0}


def thinking_piece(words, at=0, number=0, **fields):
    """A piece of a thought's summary."""
    return piece(words, "reasoning_summary_text", at, number, **fields)


def list_texts(*events):
    """The texts of the chunks of *events*, without the last one."""
    return [chunk.text for chunk in list(load_chunks(events))[:-1]]


def test_item_without_a_block():
    """
    An item that a stream broke off at its beginning is sent back with the annotations
    that blocks of output have.
    """
    begun = concat(load_chunks([event("created"), added(message())]))
    (item,) = openai_responses.dump([begun]).payload["input"]

    assert [{"type": "output_text", "text": "", "annotations": []}] == item["content"]


class TestWhole:
    """A stream is its response, and is sent back as one."""

    def test_ids_alone(self):
        """Where pieces have no place, their id says of which item they are."""
        pieces = [
            {**PLACELESS, "delta": word, "item_id": name}
            for word, name in (("a", "x"), ("b", "y"), ("c", "y"), ("d", "x"))
        ]
        begun = [added(message(id="x")), added(message(id="y"), 1)]
        chunks = list(load_chunks([*begun, *pieces]))[:4]

        assert [("a", 0), ("b", 1), ("c", 1), ("d", 0)] == [
            (chunk.text, chunk.content[0].index) for chunk in chunks
        ]

    def test_as_it_comes(self):
        """
        Pieces are given at once, and what is called before what it is called with.
        """
        spoken_events = [
            added(BEGUN),
            piece("Hel"),
            piece("lo"),
            done(message("Hello")),
        ]
        called = [added(call("f", arguments="")), asked("{"), asked("}")]

        assert ["Hel", "lo", ""] == list_texts(*spoken_events)
        assert [("c1", "f", ""), ("", "", "{"), ("", "", "}")] == [
            (each.id, each.name, each.arguments)
            for chunk in load_chunks(called)
            for each in chunk.tool_calls
        ]


class TestLateThoughts:
    """A thought may end, or even go on, after pieces of the output that it led to."""

    @pytest.mark.parametrize("pieces", [["H", "m."], []])
    def test_ends_late(self, pieces):
        """What a thought led to is given at once; both are in their places."""
        summary = ["".join(pieces)] if pieces else []
        asked_for = call("f", id="fc_1", arguments="{}")
        whole = [
            thought(*summary, encrypted_content="c2ln"),
            message("Yes."),
            asked_for,
        ]
        events = [
            added(thought()),
            *map(thinking_piece, pieces),
            *(added(BEGUN, 1), piece("Ye", at=1), piece("s.", at=1), done(whole[1], 1)),
            added({**asked_for, "arguments": ""}, 2),
            *(asked("{}", 2), done(asked_for, 2), done(whole[0], 0)),
        ]
        before_the_end = list(load_chunks(events[:-1]))[:-1]
        chunks = list(load_chunks([*events, end(*whole)]))
        merged = concat(chunks, regroup_by_index=True)

        assert ["Ye", "s."] == [each.text for each in before_the_end if each.text]
        assert ["{}"] == [
            each.arguments
            for chunk in before_the_end
            for each in chunk.tool_calls
            if each.arguments
        ]
        assert whole == dump([concat(chunks)]).payload["input"]
        assert whole == dump([merged]).payload["input"]
        assert bare(answer(*whole)) == bare(merged.replace(content=in_places(merged)))


class TestResponse:
    def test_usage_once(self):
        """With the provider's last numbers, also smaller ones."""
        used = {"input_tokens": 9, "output_tokens": 2}
        chunks = list(
            load_chunks(
                [
                    event("in_progress", response=response(usage={"input_tokens": 20})),
                    piece("a"),
                    end(message("a"), usage=used),
                ]
            )
        )

        assert [Usage(9, 2)] == [
            chunk.response.usage
            for chunk in chunks
            if chunk.response and chunk.response.usage
        ]


class TestRefuses:
    @pytest.mark.parametrize(
        ("wrong", "path"),
        [
            (b"data: {}", "$[1]"),
            (event("hologram", of=b"nan"), "$[1].of"),
        ],
    )
    def test_what_is_no_event(self, wrong, path):
        """
        With the number of the event and the path in it, after what came
        before.
        """
        chunks, error = given_before([piece("a"), wrong], DecodeError)

        assert path == error.problems[0].path
        assert "a" == concat(chunks).text[:1]


# A response, whole and cut into events


@st.composite
def spoken(draw, at):
    """A message, and the events it may come in at the place *at*."""
    blocks = []
    events = []
    for number in range(draw(st.integers(0, 2))):
        words = draw(texts())
        place = {"output_index": at, "content_index": number}
        kind, key = draw(st.sampled_from([("output_text", "text"), ("refusal",) * 2]))
        block = {"type": kind, key: words}
        announced = {**block, key: ""}
        events += [
            event("content_part.added", part=announced, **place),
            *[piece(p, kind, at, number) for p in draw(split_text(words))],
            event(f"{kind}.done", **{key: words}, **place),
            event("content_part.done", part=block, **place),
        ]
        blocks.append(block)

    whole = message(*blocks, id=f"msg_{at}")
    return whole, [added(message(id=f"msg_{at}"), at), *events, done(whole, at)]


@st.composite
def thinking(draw, at):
    """
    A thought, and its events: texts of its summary and of its content, some of them
    announced.
    """
    sizes = st.integers(0, 2)
    blocks = {
        "summary": [("summary_text", draw(texts())) for _ in range(draw(sizes))],
        "content": [("reasoning_text", draw(texts())) for _ in range(draw(sizes))],
    }
    signed = draw(st.just({}) | texts().map(lambda words: {"encrypted_content": words}))
    raws = {
        where: [{"type": kind, "text": words} for kind, words in listed]
        for where, listed in blocks.items()
        if listed or where == "summary"
    }
    events = []
    for where, listed in raws.items():
        stem = "reasoning_summary_part" if where == "summary" else "content_part"
        for number, raw in enumerate(listed):
            place = {"output_index": at, f"{where}_index": number}
            kind = raw["type"].replace("summary_text", "reasoning_summary_text")
            parts = [
                event(f"{stem}.added", part={**raw, "text": ""}, **place),
                event(f"{stem}.done", part=raw, **place),
            ]
            pieces = [piece(p, kind, at, number) for p in draw(split_text(raw["text"]))]
            begun, over = parts if draw(st.booleans()) else ({}, {})
            events += [each for each in (begun, *pieces, over) if each]

    whole = thought(**raws, **signed, id=f"rs_{at}")
    begun = thought(id=f"rs_{at}", encrypted_content="at its beginning")
    return whole, [added(begun, at), *events, done(whole, at)]


@st.composite
def calling(draw, at):
    """A call, and its events."""
    kind, key = draw(st.sampled_from([("function_call", "arguments"), CUSTOM]))
    event_kind = "custom_tool_call_input" if key == "input" else f"{kind}_{key}"
    words = draw(texts())
    whole = {
        "type": kind,
        "call_id": f"c{at}",
        "name": "f",
        key: words,
        "id": f"fc_{at}",
    }
    pieces = [asked(p, at, event_kind) for p in draw(split_text(words))]
    over = event(f"{event_kind}.done", **{key: words}, output_index=at)
    return whole, [added({**whole, key: ""}, at), *pieces, over, done(whole, at)]


CUSTOM = ("custom_tool_call", "input")


@st.composite
def searching(draw, at):
    """A call of a tool of the provider's, and its events."""
    whole = {"type": "code_interpreter_call", "id": f"ci_{at}", "code": draw(texts())}
    begun = {"type": "code_interpreter_call", "id": f"ci_{at}"}
    place = {"output_index": at}
    pieces = [
        event("code_interpreter_call_code.delta", delta=p, **place)
        for p in draw(split_text(whole["code"]))
    ]
    over = event("code_interpreter_call.completed", **place, item_id=f"ci_{at}")
    return whole, [added(begun, at), *pieces, over, done(whole, at)]


@st.composite
def responses_and_events(draw):
    """A response, and the events it may have come in."""
    output, events = [], []
    for at in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from([spoken, thinking, calling, searching]))
        item, texts = draw(kind(at))
        output.append(item)
        events += texts

    used = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    whole = response(*output, usage=used)
    begun = {**whole, "output": [], "usage": None, "status": "in_progress"}
    last = event("completed", response=whole)
    return whole, [event("created", response=begun), *events, last]


class TestStreams(StreamContract):
    """What the streams of all adapters promise."""

    adapter: ClassVar = openai_responses
    response_streams: ClassVar = responses_and_events()
    failure_events: ClassVar = [
        {"type": "error", "message": "no"},
        {"type": "response.failed", "response": {"error": {"message": "no"}}},
    ]

    def text_events(self, size):
        """A text in pieces."""
        return [added(BEGUN), *[piece("a")] * size]

    def call_events(self, size):
        """A call, and its arguments in pieces."""
        return [added(call(arguments="")), *[asked("1")] * size]

    def is_end(self, event):
        """The event has the whole response."""
        return event["type"] in {"response.completed", "response.failed"}

    def check(self, whole, message):
        """See that the items are sent back, too; a message without blocks gets one."""
        super().check(whole, message)

        block = {"type": "output_text", "text": ""}
        expected = [
            {**item, "content": [block]} if item.get("content") == [] else item
            for item in whole["output"]
        ]
        followed = dump([message, AssistantMessage("a")])
        assert expected == followed.payload["input"][:-1]


class TestLaws:
    @given(responses_and_events(), st.data())
    def test_whatever_is_left_out(self, made, data):
        """
        Pieces, announcements and ends may be missing: as long as the whole
        response comes, nothing is.
        """
        whole, events = made
        left = [
            each
            for each in events[:-1]
            if each["type"].endswith((".delta", ".added")) or data.draw(st.booleans())
        ]
        whole_message = several(whole)[0]
        # A thought without its end is overtaken by what stands behind it.
        merged = concat(load_chunks([*left, events[-1]]), regroup_by_index=True)

        assert bare(whole_message) == bare(
            merged.replace(content=in_places(merged) or "")
        )
        assert whole_message.response == merged.response


def in_places(one):
    """The parts of *one* in the order of their indexes."""
    return sorted(one.parts, key=lambda part: part.index)


# Real traffic


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
class TestRecorded:
    def test_collects(self, path):
        """Recorded streams collect to the content of their pieces."""
        texts: dict[str, str] = {}
        done_items: dict[int, Any] = {}
        for each in events_of(path):
            if each["type"].endswith(".delta"):
                texts[each["type"]] = texts.get(each["type"], "") + each["delta"]
            elif each["type"] == "response.output_item.done":
                done_items[each["output_index"]] = each["item"]

        merged = collected(*events_of(path))

        assert texts.get("response.output_text.delta", "") == merged.text
        assert (
            texts.get("response.reasoning_summary_text.delta", "") == merged.reasoning
        )
        assert texts.get("response.function_call_arguments.delta", "") == "".join(
            each.arguments for each in merged.tool_calls
        )
        assert [
            item["encrypted_content"]
            for item in done_items.values()
            if item["type"] == "reasoning"
        ] == [p.signature for p in merged.parts if isinstance(p, ReasoningPart)]

    def test_is_its_response(self, path):
        """
        And to the whole response at their end, but for what the provider sends in
        another form there: the signatures of thoughts, and the probabilities of tokens,
        which are rounded.
        """
        *_, last = events_of(path)

        whole, merged = several(last["response"])[0], collected(*events_of(path))

        assert unsigned(whole) == unsigned(merged)
        assert whole.metadata == merged.metadata
        assert whole.response.usage == merged.response.usage
        assert whole.response.finish_reason == merged.response.finish_reason
        assert [round(each.logprob, 5) for each in whole.response.logprobs or ()] == [
            round(each.logprob, 5) for each in merged.response.logprobs or ()
        ]


def unsigned(one):
    """The parts of *one* in their places, without signatures, and the calls."""
    parts = [
        ReasoningPart(part.text, index=part.index, metadata=part.metadata)
        if isinstance(part, ReasoningPart)
        else part
        for part in one.parts
    ]
    return sorted(parts, key=lambda part: part.index or 0), one.tool_calls
