"""
Streams of Chat Completions: chunks that concatenate to what was said.
"""

import base64
from typing import Any, ClassVar

import anyio
import pytest
from hypothesis import strategies as st

from conversation_state.adapters import openai_chat
from conversation_state.adapters._notes import notes_of
from conversation_state.adapters.openai_chat import (
    aload_chunks,
    dump,
    load_chunks,
)
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import LogProb
from conversation_state.parts import AudioPart, ReasoningPart, RefusalPart, TextPart
from conversation_state.testing.strategies import texts
from conversation_state.usage import Usage
from tests import recorded
from tests.adapters.contract import bare
from tests.adapters.openai_chat import several
from tests.adapters.stream_contract import StreamContract, events_of

RECORDED = recorded.streams("openai_chat")


def event(*, reason=None, **delta):
    """
    An event with a *delta*.
    """
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "gpt-4o",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        "usage": None,
    }


def call(at=0, arguments=None, **fields):
    """
    A piece of a call.
    """
    function = {} if arguments is None else {"arguments": arguments}
    if "name" in fields:
        function["name"] = fields.pop("name")

    index = {} if at is None else {"index": at}
    return {**index, **fields, "function": function}


def called(*pieces):
    """
    The calls after an event for each of *pieces*.
    """
    return collected(*[event(tool_calls=[piece]) for piece in pieces]).tool_calls


def collected(*events):
    """
    The message that *events* make.
    """
    return concat(load_chunks(events))


def given_before(events, error):
    """
    The chunks that come before *error*, and the error.
    """
    chunks: list[Any] = []
    with pytest.raises(error) as caught:
        chunks.extend(load_chunks(events))

    return chunks, caught.value


class TestText:
    def test_pieces(self):
        """
        The text of all events, the reason of the last one, the model.
        """
        message = collected(
            event(role="assistant", content=""),
            event(content="Hel"),
            event(content="lo"),
            event(content=None),
            event(reason="stop"),
        )

        assert "Hello" == message.content
        assert ("stop", "gpt-4o") == (
            message.response.finish_reason,
            message.response.model,
        )

    def test_surrogates(self):
        """
        A character cut in two is put together again; half of one that is left
        is mended.
        """
        whole = [event(content="a\ud83d"), event(content="\ude00b"), event(content="")]
        broken = [event(content="a\ud83d"), event(content="b"), event(content="\ud83d")]

        mended = collected(*broken)

        assert "a😀b" == collected(*whole).content
        assert "a\ufffdb\ufffd" == mended.content
        assert ("content",) == notes_of(mended.metadata, "openai_chat")["mended"]

    def test_surrogates_in_arguments(self):
        """
        Also in the arguments of a call, and each call by itself.
        """
        calls = called(
            call(0, '"\ud83d', id="a", name="f"),
            call(1, "\ud83d", id="b", name="f"),
            call(0, '\ude00"'),
        )

        assert ['"😀"', "\ufffd"] == [each.arguments for each in calls]

    def test_surrogates_elsewhere(self):
        """
        What is mended in calls and blocks is listed as in a whole response.
        """
        message = collected(
            event(content=[{"type": "text", "text": "a\ud800"}]),
            event(tool_calls=[call(0, "{\ud83d", id="a\ud800", name="f\ud800")]),
            event(tool_calls=[call(0, "\ude00")]),
            event(tool_calls=[call(0, "\ud800}")]),
        )
        export = dump([message])
        (sent,) = export.payload["messages"]

        assert {
            "content[0].text",
            "tool_calls[0].function.arguments",
            "tool_calls[0].function.name",
            "tool_calls[0].id",
        } == {lost.what for lost in export.lost}
        assert [{"type": "text", "text": "a\ufffd"}] == sent["content"]
        assert ["a\ufffd", "f\ufffd", "{😀\ufffd}"] == [
            sent["tool_calls"][0]["id"],
            *sent["tool_calls"][0]["function"].values(),
        ]

    def test_whole_characters(self):
        """
        Text beyond ASCII, cut between characters and within.
        """
        pieces = ["größe", "漢字", "😀", "\ud83d", "\ude00", "é"]

        assert "größe漢字😀😀é" == collected(*[event(content=p) for p in pieces]).text

    def test_lists(self):
        """
        Mistral's thoughts and texts, a block each.
        """
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
        message = collected(
            event(content=[thinking]),
            event(content=[thinking]),
            event(content=[{"type": "text", "text": "a"}]),
            event(content="b"),
        )

        several = collected(
            event(content=[]),
            event(content=[thinking, {"type": "text", "text": "a"}]),
            event(content=[]),
            event(content="b"),
        )

        assert ("hm", "ab") == (several.reasoning, several.text)
        assert "hmhm" == message.reasoning
        assert "ab" == message.text
        assert [2, 2] == list(
            notes_of(message.parts[0].metadata, "openai_chat")["thinking"]
        )

    def test_refusal(self):
        """
        A refusal, alone and after a text.
        """
        refused = [event(refusal="I "), event(refusal="won't")]

        assert (RefusalPart("I won't"),) == collected(*refused).content
        assert ("a", "I won't") == (
            collected(event(content="a"), *refused).text,
            collected(event(content="a"), *refused).refusal,
        )


class TestReasoning:
    @pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
    def test_pieces(self, key):
        """
        Thoughts under either key, before the text, noted where they stood.
        """
        message = collected(
            event(**{key: "h"}),
            event(**{key: "m", "channel": "analysis"}),
            event(**{key: "."}),
            event(content="a", **{key: None}),
            event(content="b"),
        )
        noted = {"conversation_state": {"openai_chat": {"under": {key: True}}}}

        assert (ReasoningPart("hm.", metadata=noted), TextPart("ab")) == message.content
        assert {"role": "assistant", key: "hm.", "content": "ab"} == (
            dump([message]).payload["messages"][0]
        )

    def test_twice(self):
        """
        What is said under both keys is said once.
        """
        events = [event(reasoning=text, reasoning_content=text) for text in "ab"]

        assert "ab" == collected(*events).reasoning

    def test_after_a_text_beside_it(self):
        """
        A thought after a text is another one, also where the text came with the
        thought before.
        """
        thoughts = [event(reasoning=text) for text in "ab"]
        both = event(reasoning="c", content="d")
        message = collected(*thoughts, both, event(reasoning="e"), event(reasoning="f"))

        noted = {"conversation_state": {"openai_chat": {"under": {"reasoning": True}}}}
        assert (
            ReasoningPart("abc", metadata=noted),
            TextPart("d"),
            ReasoningPart("ef", metadata=noted),
        ) == message.parts

    @pytest.mark.parametrize("between", [{}, {"role": "assistant"}])
    def test_two_texts_in_every_event(self, between):
        """
        Of events that bring two pieces, both are read, also if one is the same again.
        """
        message = collected(*[event(content=x, **between, refusal="no") for x in "ab"])

        assert ("ab", "nono") == (message.text, message.refusal)

    def test_again_after_text(self):
        """
        Thoughts after text are others.
        """
        noted = {"conversation_state": {"openai_chat": {"under": {"reasoning": True}}}}
        for text in (event(content="b"), {**event(content="b"), "served_by": "x"}):
            message = collected(event(reasoning="a"), text, event(reasoning="c"))

            assert (
                ReasoningPart("a", metadata=noted),
                TextPart("b"),
                ReasoningPart("c", metadata=noted),
            ) == message.parts


class TestNotes:
    def test_maps_of_several_events(self):
        """
        Unknown maps of several events are one map.
        """
        first, second = event(content="a"), event(content="b")
        message = collected(
            {**first, "timings": {"queue": 1, "load": 2}},
            {**second, "timings": {"queue": 3, "total": 4}},
        )

        assert {"queue": 3, "load": 2, "total": 4} == (
            notes_of(message.metadata, "openai_chat")["response"]["timings"]
        )

    @pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
    def test_place_of_reasoning(self, key):
        """
        Where thoughts stood is noted once, with the first piece, also where
        events differ in more than the piece.
        """
        chunks = list(
            load_chunks(
                {**event(**{key: piece}), "system_fingerprint": f"fp_{piece}"}
                for piece in "abc"
            )
        )
        pieces = [part for chunk in chunks for part in chunk.parts]

        assert [True, False, False] == [bool(part.metadata) for part in pieces]
        assert "abc" == concat(chunks).reasoning


class TestIndexedLists:
    def test_tools_that_were_run(self):
        """
        A tool that Groq ran is one tool, though two events tell of it: first
        what it was asked, then what it found.
        """
        asked = {"index": 0, "type": "search", "arguments": "{}", "output": None}
        found = {**asked, "output": "3.14", "search_results": {"results": []}}
        other = {"index": 1, "type": "python", "arguments": "{}", "output": "4"}
        message = collected(
            event(executed_tools=[asked]),
            event(content="It is"),
            event(executed_tools=[found]),
            event(executed_tools=[other], content=" 3.14."),
            event(executed_tools=None, reason="stop"),
        )
        whole = {"role": "assistant", "content": "It is 3.14."}

        assert [{**whole, "executed_tools": [found, other]}] == (
            dump([message]).payload["messages"]
        )

    def test_details_of_thoughts(self):
        """
        What OpenRouter tells of a thought comes in pieces and goes back whole,
        with its signature.
        """
        detail = {"type": "reasoning.text", "index": 0, "format": "anthropic"}
        message = collected(
            event(reasoning="H", reasoning_details=[{**detail, "text": "H"}]),
            event(reasoning="m.", reasoning_details=[{**detail, "text": "m."}]),
            event(reasoning_details=[{**detail, "signature": "c2ln", "id": None}]),
            event(reasoning_details=[{**detail, "signature": None}]),
            event(content="Yes.", reason="stop"),
        )
        (sent,) = dump([message]).payload["messages"]

        assert "Hm." == sent["reasoning"]
        assert [{**detail, "text": "Hm.", "signature": "c2ln", "id": None}] == (
            sent["reasoning_details"]
        )

    @pytest.mark.parametrize("later", [0, 1])
    def test_details_with_one_index(self, later):
        """
        Some details have one index though they are several: each of another type, or
        with another id, goes back by itself.
        """
        said = {"type": "reasoning.summary", "index": 0, "id": None}
        hidden = {"type": "reasoning.encrypted", "index": later}
        one, other = {**hidden, "id": "rs_1"}, {**hidden, "id": "rs_2"}
        message = collected(
            event(reasoning="H", reasoning_details=[{**said, "summary": "H"}]),
            event(reasoning="m.", reasoning_details=[{**said, "summary": "m."}]),
            event(reasoning_details=[{**one, "data": "c2ln"}]),
            event(reasoning_details=[{**other, "data": "bmVk"}]),
            event(content="Yes.", reason="stop"),
        )
        (sent,) = dump([message]).payload["messages"]

        assert [
            {**said, "summary": "Hm."},
            {**one, "data": "c2ln"},
            {**other, "data": "bmVk"},
        ] == sent["reasoning_details"]

    @pytest.mark.parametrize("again", ["", "Hm."])
    def test_blocks_of_thoughts(self, again):
        """
        What LiteLLM tells of thoughts has no index: a text ends with its signature,
        which may come with the whole text again.
        """
        unsigned = {"type": "thinking", "signature": ""}
        hidden = {"type": "redacted_thinking", "data": "c2ln"}
        message = collected(
            event(thinking_blocks=[{**unsigned, "thinking": "H"}]),
            event(thinking_blocks=[{**unsigned, "thinking": "m."}]),
            event(thinking_blocks=[{**unsigned, "thinking": again, "signature": "s"}]),
            event(thinking_blocks=[{**unsigned, "thinking": "Aha!"}]),
            event(thinking_blocks=[{**unsigned, "thinking": None, "signature": "t"}]),
            event(thinking_blocks=[hidden]),
            event(thinking_blocks=[hidden]),
            event(content="Yes.", reason="stop"),
        )
        (sent,) = dump([message]).payload["messages"]

        assert [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "thinking", "thinking": "Aha!", "signature": "t"},
            hidden,
            hidden,
        ] == sent["thinking_blocks"]

    def test_without_an_index(self):
        """
        What has no index is an item of its own, or no list at all.
        """
        message = collected(
            event(executed_tools=[{"type": "a"}, 3]),
            event(executed_tools={"type": "a"}, content="x"),
        )
        (sent,) = dump([message]).payload["messages"]

        assert [{"type": "a"}, 3, {"type": "a"}] == sent["executed_tools"]


class TestCalls:
    def test_whole_calls_of_one_name_without_ids(self):
        """
        A name that comes again after a whole JSON object opens another call, however
        many pieces the object came in.
        """
        pieces = ["{", '"a": {', '"b": 1', "}", "}"]
        calls = called(
            call(0, "", name="f"),
            *[call(0, x) for x in pieces],
            call(0, "{}", name="f"),
        )

        assert ["".join(pieces), "{}"] == [each.arguments for each in calls]

    def test_without_a_function(self):
        """
        A piece of nothing adds nothing.
        """
        nothing = {"index": 0, "function": None}
        calls = called(call(0, "{", id="a", name="f"), nothing, nothing, call(0, "}"))

        assert [("a", "f", "{}")] == [(c.id, c.name, c.arguments) for c in calls]

    def test_pieces(self):
        """
        Arguments byte for byte, in the order the calls were opened.
        """
        calls = called(
            call(0, "", id="a", type="function", name="search"),
            call(0, '{"q":'),
            call(1, '{ "x" ', id="b", type="function", name="clock"),
            call(0, ' "\\u00e9"}'),
            call(1, ": 1 }"),
        )

        assert [
            ("a", "search", '{"q": "\\u00e9"}', 0),
            ("b", "clock", '{ "x" : 1 }', 1),
        ] == [(each.id, each.name, each.arguments, each.index) for each in calls]

    def test_one_index_for_all(self):
        """
        Another id is another call, whatever its index.
        """
        calls = called(
            call(0, "{}", id="a", name="f"), call(0, "[]", id="b", name="f"), call(0)
        )

        assert [("a", "{}", 0), ("b", "[]", 1)] == [
            (each.id, each.arguments, each.index) for each in calls
        ]

    def test_no_index(self):
        """
        Pieces without an index are known by their ids, or go on with the last.
        """
        calls = called(
            call(None, "1", id="a", name="f"),
            call(None, "2"),
            call(None, "3", id="b", name="g"),
            call(None, "4", id="b"),
        )

        assert [("a", "12"), ("b", "34")] == [(c.id, c.arguments) for c in calls]

    def test_no_ids(self):
        """
        Whole calls without ids are calls of their own, under ids made up.
        """
        calls = called(
            call(0, '{"q": 1}', name="f"),
            call(0, '{"q": 2}', name="f"),
            call(0, "{}", name="g"),
        )

        assert ["chatcmpl-1_call_0", "chatcmpl-1_call_1", "chatcmpl-1_call_2"] == [
            each.id for each in calls
        ]
        assert ['{"q": 1}', '{"q": 2}', "{}"] == [each.arguments for each in calls]
        assert all(
            notes_of(each.metadata, "openai_chat")["made_id"] == each.id
            for each in calls
        )

    def test_made_up_ids_are_not_sent(self):
        """
        As those that `load` makes.
        """
        message = collected(event(tool_calls=[call(0, "{}", name="f")]))
        (sent,) = dump([message]).payload["messages"][0]["tool_calls"]

        assert "id" not in sent

    def test_no_ids_in_pieces(self):
        """
        Pieces without ids belong together while they are no whole calls.
        """
        calls = called(
            call(0, "", name="f"), call(0, '{"q"', name="f"), call(0, ": 1}")
        )

        assert [("f", '{"q": 1}')] == [(each.name, each.arguments) for each in calls]

    def test_a_late_id(self):
        """
        An id that comes after the first piece is noted, and opens nothing.
        """
        calls = called(
            call(0, "", name="f"), call(0, "{", id="a"), call(0, "}", id="a")
        )

        assert ["{}"] == [each.arguments for each in calls]
        assert "a" == notes_of(calls[0].metadata, "openai_chat")["keys"]["id"]

    def test_repeated_names(self):
        """
        A name that comes with every piece is one name.
        """
        calls = called(
            call(0, "{", id="a", name="f"),
            call(0, "}", id="a", name="f"),
            call(0, " ", id="a", name=None),
        )

        assert [("a", "f", "{} ")] == [(c.id, c.name, c.arguments) for c in calls]

    def test_another_name(self):
        """
        Is another call, whatever its id says: chunks always concatenate.
        """
        by_id = called(
            call(0, "1", id="call_0", name="f"), call(0, "2", id="call_0", name="g")
        )
        unnumbered = called(
            call(None, "1", id="call_0", name="f"),
            call(None, "2", id="call_0", name="g"),
        )
        legacy = collected(
            event(function_call={"name": "f", "arguments": "1"}),
            event(function_call={"name": "g", "arguments": "2"}),
        ).tool_calls

        for calls in (by_id, unnumbered, legacy):
            assert [("f", "1"), ("g", "2")] == [(c.name, c.arguments) for c in calls]

    def test_found_by_id(self):
        """
        Without indexes, ids tell which call a piece is of, also in turn.
        """
        calls = called(
            call(None, "1", id="a", name="f"),
            call(None, "2", id="b", name="f"),
            call(None, "3", id="a"),
        )

        assert [("a", "13"), ("b", "2")] == [(c.id, c.arguments) for c in calls]

    def test_no_ids_whole_after_a_piece(self):
        """
        What makes a call whole may come in pieces, braces in texts aside.
        """
        calls = called(
            call(0, "", name="f"),
            call(0, '{"q": "}{\\""'),
            call(0, "}", name="f"),
            call(0, '{"q": 2}', name="f"),
        )

        assert ['{"q": "}{\\""}', '{"q": 2}'] == [each.arguments for each in calls]

    def test_a_name_again(self):
        """
        After a call with an id, a piece without one is of that call.
        """
        calls = called(call(0, "{}", id="a", name="f"), call(0, " ", name="f"))

        assert ["{} "] == [each.arguments for each in calls]

    def test_deep_arguments(self):
        """
        However deep: they are not parsed.
        """
        calls = called(call(0, "[" * 100_000, name="f"), call(0, "]", name="f"))

        assert [100_001] == [len(each.arguments) for each in calls]

    def test_no_room_behind(self):
        """
        Where the largest index is taken, another one is found.
        """
        calls = called(*[call(2**63 - 1, "", id=word) for word in "abc"])

        assert {"a", "b", "c"} == {each.id for each in calls}
        assert 3 == len({each.index for each in calls})

    def test_custom(self):
        """
        Custom tools have an input that is no JSON.
        """
        calls = called(
            {
                "index": 0,
                "id": "a",
                "type": "custom",
                "custom": {"name": "f", "input": "x"},
            },
            {"index": 0, "custom": {"input": "y"}},
        )

        assert [("custom", "f", "xy")] == [(c.type, c.name, c.arguments) for c in calls]

    def test_function_call(self):
        """
        The format before `tool_calls`.
        """
        message = collected(
            event(function_call={"name": "f", "arguments": ""}),
            event(function_call={"arguments": "{}"}),
        )

        assert {"name": "f", "arguments": "{}"} == (
            dump([message]).payload["messages"][0]["function_call"]
        )

    def test_extras(self):
        """
        What a provider adds to a call is kept with it, once.
        """
        signed = {"extra_content": {"google": {"thought_signature": "x"}}}
        calls = called(
            call(0, "{", id="a", name="f", **signed),
            call(0, "}", **signed),
            call(1, "{}", id="b", name="f", **signed),
        )

        assert [signed, signed] == [
            notes_of(c.metadata, "openai_chat")["keys"] for c in calls
        ]

    def test_indexes_apart(self):
        """
        Indexes may start anywhere.
        """
        calls = called(call(7, "a", id="a"), call(3, "b", id="b"), call(7, "c"))

        assert [("b", "b", 3), ("a", "ac", 7)] == [
            (each.id, each.arguments, each.index) for each in calls
        ]


class TestAudio:
    def test_pieces(self):
        """
        Data is decoded however it is cut; the transcript is noted.
        """
        text = base64.b64encode(b"RIFF-data!").decode()
        message = collected(
            event(audio={"id": "audio_1"}),
            event(audio={"transcript": "Hel"}),
            event(audio={"data": text[:5], "transcript": "l"}),
            event(audio={"data": text[5:], "transcript": "o"}),
            event(audio={"expires_at": 5}),
        )
        (part,) = message.parts

        assert b"RIFF-data!" == part.data
        assert "Hello" == notes_of(part.metadata, "openai_chat")["keys"]["transcript"]
        assert {"id": "audio_1"} == dump([message]).payload["messages"][0]["audio"]

    @pytest.mark.parametrize(
        "pieces",
        [["eHg"], ["eHg="], ["eH", "g"], ["eH\ng="], ["eHg", "="]],
    )
    def test_without_padding(self, pieces):
        """
        As encoders and networks leave it.
        """
        message = collected(*[event(audio={"data": piece}) for piece in pieces])

        assert [b"xx"[:1] + b"x"] == [part.data for part in message.parts]

    @pytest.mark.parametrize("pieces", [["eHg=", "eA=="], ["eHg=eA=="]])
    def test_padding_between(self, pieces):
        """
        Pieces that were encoded each by itself, also if they come together.
        """
        message = collected(*[event(audio={"data": piece}) for piece in pieces])

        assert [b"xxx"] == [part.data for part in message.parts]

    def test_half_an_octet(self):
        """
        What can't be decoded in the end is noted.
        """
        message = collected(event(audio={"data": "eHg=e"}))

        assert [b"xx"] == [part.data for part in message.parts]
        assert {"data": "e"} == notes_of(message.metadata, "openai_chat")["audio"][
            "audio"
        ]

    def test_transcript_alone(self):
        """
        Without data there is no part, and nothing is lost.
        """
        message = collected(event(audio={"transcript": "Hello"}))

        assert "" == message.content
        assert {"audio": {"transcript": "Hello"}} == (
            notes_of(message.metadata, "openai_chat")["keys"]
        )

    def test_no_base64(self):
        """
        Is told with its path.
        """
        _, error = given_before([event(audio={"data": "????"})], DecodeError)

        assert "$[0].choices[0].delta.audio.data" == error.problems[0].path


class TestResponse:
    def test_usage_once(self):
        """
        With the provider's last numbers, also smaller ones.
        """
        used = [
            {**event(content=text), "usage": {"prompt_tokens": 9, "total_tokens": n}}
            for text, n in [("a", 20), ("b", 12)]
        ]
        chunks = list(load_chunks([*used, event(content="c")]))
        usages = [chunk.response.usage for chunk in chunks if chunk.response]

        assert [Usage(9, 0, 12)] == usages

    def test_usage_without_choices(self):
        """
        An event of its own.
        """
        usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}

        assert Usage(1, 2) == collected(event(content="a"), usage).response.usage

    def test_logprobs(self):
        """
        Are appended, also equal ones.
        """
        token = {"token": "a", "logprob": -1.0, "bytes": None, "top_logprobs": []}
        events = [event(content="a") for _ in range(3)]
        for each in events:
            each["choices"][0]["logprobs"] = {"content": [token]}

        assert (LogProb("a", -1.0),) * 3 == collected(*events).response.logprobs

    def test_no_usage_at_the_end(self):
        """
        An empty usage says nothing, also after another.
        """
        usage = {"prompt_tokens": 1, "completion_tokens": 2}
        events = [{**event(content="a"), "usage": given} for given in (usage, {})]

        assert Usage(1, 2) == collected(*events).response.usage

    def test_usage_is_of_the_first_answer(self):
        """
        Of several answers only the first has what all of them cost.
        """
        events = [{"choices": [], "usage": {"prompt_tokens": 1}}]

        message: Any = concat(load_chunks(events, choice=1))

        assert message.response.usage is None

    def test_usage_of_a_changing_object(self):
        """
        Who changes one event and sends it again is understood, too.
        """
        usage = {"prompt_tokens": 1, "completion_tokens": 0}
        same = {**event(content="a"), "usage": usage}

        def source():
            for count in range(3):
                usage["completion_tokens"] = count
                yield same

        message: Any = concat(load_chunks(source()))

        assert Usage(1, 2) == message.response.usage

    def test_other_logprobs(self):
        """
        Those of a refusal, and what a dialect adds, are noted for all tokens.
        """
        token = {"token": "a", "logprob": -1.0, "bytes": None, "top_logprobs": []}
        events = [event(refusal="a") for _ in range(3)]
        for each in events:
            each["choices"][0]["logprobs"] = {"content": None, "refusal": [token]}

        noted = notes_of(collected(*events).metadata, "openai_chat")["choice"][
            "logprobs"
        ]

        assert 3 == len(noted["refusal"])

    def test_notes(self):
        """
        What has no field is noted, without padding and nulls.
        """
        events = [
            {**event(content="a"), "system_fingerprint": "fp", "obfuscation": "xx"},
            {**event(content="b"), "system_fingerprint": None, "obfuscation": "x"},
            {**event(), "moderation": {"flagged": False}},
        ]
        events[1]["choices"][0]["content_filter"] = {"hate": False}
        message = collected(*events)
        notes = notes_of(message.metadata, "openai_chat")

        assert "chatcmpl-1" == message.response.id
        assert {
            "system_fingerprint": "fp",
            "moderation": {"flagged": False},
        } == notes["response"]
        assert {"content_filter": {"hate": False}} == notes["choice"]

    def test_keys_of_deltas(self):
        """
        What a dialect adds to a message is sent back to it: what is said with
        every piece is said once, and lists come in pieces.
        """
        events = [
            event(content=text, annotations=[{"url": "x"}], served={"by": "x"})
            for text in "ab"
        ]
        (sent,) = dump([collected(*events)]).payload["messages"]

        assert {"by": "x"} == sent["served"]
        assert [{"url": "x"}, {"url": "x"}] == sent["annotations"]

    def test_choices(self):
        """
        Of several answers, the one asked for.
        """
        events = [event(content=text) for text in "abcd"]
        for at, each in enumerate(events):
            each["choices"][0]["index"] = at % 2

        assert "ac" == concat(load_chunks(events)).text
        assert "bd" == concat(load_chunks(events, choice=1)).text

    @pytest.mark.parametrize("choice", [-1, None, "0", True])
    def test_no_choice(self, choice):
        """
        Answers are numbered; told at once, not with the first chunk.
        """
        with pytest.raises(ValueError, match="index of a response"):
            load_chunks([], choice=choice)


class TestEnds:
    @pytest.mark.parametrize(
        ("events", "reason"),
        [
            ([], "interrupted"),
            ([event(content="a")], "interrupted"),
            ([event(content="a"), "[DONE]"], ""),
            ([event(content="a"), event(reason="stop")], "stop"),
            ([event(content="a"), event(reason="stop"), "[DONE]"], "stop"),
        ],
    )
    def test_reason(self, events, reason):
        """
        A stream without its end was interrupted.
        """
        assert reason == collected(*events).response.finish_reason

    def test_after_the_end(self):
        """
        Nothing is read after the end.
        """
        events = iter([event(content="a"), "[DONE]", event(content="b")])

        assert "a" == concat(load_chunks(events)).text
        assert "b" == next(events)["choices"][0]["delta"]["content"]

    def test_after_the_end_in_a_task(self):
        """
        Nor is anything in a task; and the stream was not interrupted.
        """

        async def events():
            for each in (event(content="a"), "[DONE]", event(content="b")):
                yield each

        async def main():
            return concat([chunk async for chunk in aload_chunks(events())])

        message = anyio.run(main)

        assert ("a", "") == (message.text, message.response.finish_reason)

    @pytest.mark.parametrize(
        ("failure", "reason"),
        [
            ({"message": "overloaded", "code": 5}, "overloaded"),
            ("overloaded", "overloaded"),
            ({"code": 5}, "no reason given"),
            (["what"], "no reason given"),
        ],
    )
    def test_provider_fails(self, failure, reason):
        """
        In its own words, after all it said before.
        """
        events = [event(content="a"), event(content="b"), {"error": failure}]
        chunks, error = given_before(events, ProviderStreamError)

        assert reason in str(error)
        assert {"error": failure} == error.event
        assert "ab" == concat(chunks).text
        assert "interrupted" == concat(chunks).response.finish_reason

    def test_provider_fails_with_a_piece(self):
        """
        What comes with the error comes before it.
        """
        last = {**event(content="b", reason="error"), "error": {"message": "no"}}
        chunks, _ = given_before([event(content="a"), last], ProviderStreamError)

        assert "ab" == concat(chunks).text
        assert "error" == concat(chunks).response.finish_reason

    @pytest.mark.parametrize(
        "failure",
        [
            {"object": "error", "message": "no room", "code": 500},
            {"choices": [{"delta": {}, "error": {"message": "no room"}}]},
        ],
    )
    def test_provider_fails_elsewhere(self, failure):
        """
        Some servers say it in other places.
        """
        chunks, error = given_before([event(content="a"), failure], ProviderStreamError)

        assert "no room" == error.reason
        assert "a" == concat(chunks).text


class TestRefuses:
    @pytest.mark.parametrize(
        ("wrong", "path"),
        [
            (None, "$[1]"),
            (b"data: {}", "$[1]"),
            ({"choices": {}}, "$[1].choices"),
            ({"choices": [5]}, "$[1].choices[0]"),
            ({"choices": [{"delta": []}]}, "$[1].choices[0].delta"),
            ({"choices": [{"message": {}}]}, "$[1].choices[0]"),
            ({"choices": [{"text": "b"}]}, "$[1].choices[0]"),
            (event(audio={"transcript": 5}), "$[1].choices[0].delta.audio.transcript"),
            (event(audio={"data": 5}), "$[1].choices[0].delta.audio.data"),
            ({"choices": [], "model": 5}, "$[1].model"),
            ({"usage": {"prompt_tokens": -1}}, "$[1].usage.prompt_tokens"),
            (event(content=5), "$[1].choices[0].delta.content"),
            (event(role="user"), "$[1].choices[0].delta.role"),
            (event(reasoning={}), "$[1].choices[0].delta.reasoning"),
            (event(refusal=5), "$[1].choices[0].delta.refusal"),
            (event(audio=5), "$[1].choices[0].delta.audio"),
            (event(tool_calls={}), "$[1].choices[0].delta.tool_calls"),
            (event(tool_calls=[5]), "$[1].choices[0].delta.tool_calls[0]"),
            (
                event(tool_calls=[{"index": -1}]),
                "$[1].choices[0].delta.tool_calls[0].index",
            ),
            (
                event(tool_calls=[{"index": 0, "id": 5}]),
                "$[1].choices[0].delta.tool_calls[0].id",
            ),
            (
                event(tool_calls=[call(0, {})]),
                "$[1].choices[0].delta.tool_calls[0].function.arguments",
            ),
            (
                event(tool_calls=[{"index": 0, "function": []}]),
                "$[1].choices[0].delta.tool_calls[0].function",
            ),
            (event(function_call=5), "$[1].choices[0].delta.function_call"),
        ],
    )
    def test_what_is_no_event(self, wrong, path):
        """
        With the number of the event and the path in it, after what came
        before.
        """
        chunks, error = given_before([event(content="a"), wrong], DecodeError)

        assert path == error.problems[0].path
        assert "a" == concat(chunks).text

    def test_all_of_an_event(self):
        """
        All problems with an event are reported at once.
        """
        _, error = given_before([event(role="user", content=5)], DecodeError)

        assert 2 == len(error.problems)

    def test_the_rest_of_the_event(self):
        """
        What can be read is given first.
        """
        chunks, _ = given_before([event(content="a", role="model")], DecodeError)

        assert "a" == concat(chunks).text

    def test_an_event_of_the_sdk(self):
        """
        Objects are invalid JSON; the message says what was given.
        """
        _, error = given_before([object()], DecodeError)

        assert "a Python object" in str(error)
        assert "plain JSON" in str(error)


# A response, whole and cut into events


@st.composite
def cut(draw, text):
    """
    *text* in pieces.
    """
    at = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


@st.composite
def responses_and_events(draw):
    """
    A response, and the events it may have come in.
    """
    message = {"role": "assistant", "content": draw(st.none() | texts())}
    events = [event(role="assistant")]
    thought = draw(texts())
    if thought:
        message["reasoning_content"] = thought
        events += [event(reasoning_content=p) for p in draw(cut(thought))]

    if message["content"]:
        events += [event(content=p) for p in draw(cut(message["content"]))]

    calls = []
    pieces = []
    for at in range(draw(st.integers(0, 3))):
        arguments = draw(texts())
        head = {"id": f"c{at}", "type": "function"}
        calls.append({**head, "function": {"name": "f", "arguments": arguments}})
        first, *rest = draw(cut(arguments))
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
    """
    What the streams of all adapters promise.
    """

    adapter: ClassVar = openai_chat
    provider: ClassVar = "openai_chat"
    made: ClassVar = responses_and_events()
    failures: ClassVar = [{"error": "no"}, {"error": {"message": "no"}, "choices": []}]

    def pieces(self, size):
        """
        A text in pieces.
        """
        return [event(content="a")] * size

    def asked(self, size):
        """
        A call, and its arguments in pieces.
        """
        begun = event(tool_calls=[call(0, "", id="c", name="f", type="function")])
        return [begun, *[event(tool_calls=[call(0, "1")])] * size]

    def is_end(self, event):
        """
        A choice has a reason to finish.
        """
        return any(each.get("finish_reason") for each in event.get("choices", ()))

    def check(self, whole, message):
        """
        See that they are the same, but for notes.
        """
        (expected,) = several(whole)

        assert bare(expected) == bare(message)
        assert expected.response == message.response


# Real traffic


def straightforward(events):
    """
    The response that the simplest possible reader builds from *events*.
    """
    read: dict[str, Any] = {"text": "", "reasoning": "", "calls": {}, "usage": None}
    for each in events:
        if each == "[DONE]" or "error" in each:
            continue

        read["usage"] = each.get("usage") or read["usage"]
        for choice in each["choices"]:
            read["reason"] = choice.get("finish_reason") or read.get("reason")
            delta = choice["delta"]
            content = delta.get("content") or ""
            for block in content if isinstance(content, list) else ():
                read["reasoning"] += "".join(t["text"] for t in block["thinking"])

            read["text"] += content if isinstance(content, str) else ""
            read["reasoning"] += delta.get("reasoning_content") or ""
            read["reasoning"] += delta.get("reasoning") or ""
            for piece in delta.get("tool_calls") or ():
                call = read["calls"].setdefault(piece["index"], ["", "", ""])
                call[0] = piece.get("id") or call[0]
                call[1] = piece["function"].get("name") or call[1]
                call[2] += piece["function"].get("arguments") or ""

    return read


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
class TestRecorded:
    def test_collects(self, path):
        """
        Recorded streams collect to what their events say.
        """
        expected = straightforward(events_of(path))
        chunks: list[Any] = []
        failed = False
        try:
            chunks.extend(load_chunks(events_of(path)))
        except ProviderStreamError:
            failed = True

        message = concat(chunks)
        used = expected["usage"] or {}

        assert failed == any("error" in each for each in events_of(path))
        assert expected["text"] == message.text
        assert expected["reasoning"] == message.reasoning
        assert [tuple(each) for each in expected["calls"].values()] == [
            (each.id, each.name, each.arguments) for each in message.tool_calls
        ]
        assert (expected["reason"] or "interrupted") == message.response.finish_reason
        assert bool(used) == (message.response.usage is not None)
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert used.get(name) == getattr(message.response.usage, name, None)


class TestKinds:
    def test_audio_part(self):
        """
        Sound has no media type here.
        """
        message = collected(event(audio={"data": base64.b64encode(b"x" * 3).decode()}))

        assert [""] == [
            part.media_type for part in message.parts if isinstance(part, AudioPart)
        ]
