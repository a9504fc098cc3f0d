"""Pydantic AI's messages: what all adapters promise, and what comes back of what."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.usage import RequestUsage

from conversation_state import decode, encode
from conversation_state.adapters import anthropic
from conversation_state.adapters.engine.notes import with_notes
from conversation_state.adapters.pydantic_ai import (
    FORMAT,
    Export,
    dump,
    load,
    load_usage,
)
from conversation_state.adapters.pydantic_ai.groups import group_messages
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import ImagePart, Part, RefusalPart, TextPart
from conversation_state.testing.strategies import transcripts
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.contract import FormatContract
from tests.adapters.helpers import normalise
from tests.adapters.pydantic_ai import (
    EVERYTHING,
    PNG,
    answers,
    asks,
    calls,
    histories,
    plain,
    settled,
)


def dump_data(messages):
    """Plain JSON for *messages*, and what is lost."""
    groups = group_messages(messages)
    return groups.data, groups.lost


def asked(text):
    """A request of a user's text."""
    part = {"part_kind": "user-prompt", "content": text}
    return {"kind": "request", "parts": [part]}


def without_place(part):
    return attrs.evolve(part, index=None)


def ours(messages):
    return load(messages)


def back(messages):
    return dump(load(messages)).payload


RESULT = {"part_kind": "tool-return", "tool_name": "tide", "tool_call_id": "c1"}


class TestContract(FormatContract):
    """The promises of all adapters, kept on plain JSON."""

    adapter: ClassVar = SimpleNamespace(
        dump=lambda messages: Export(*dump_data(messages)),
        FORMAT=FORMAT,
        load=load,
        load_usage=load_usage,
    )
    documents: ClassVar = st.lists(st.sampled_from(plain(EVERYTHING)), max_size=3)
    responses: ClassVar = st.just(plain(EVERYTHING[1:2]))
    unsent_notes: ClassVar = frozenset({"request", "response", "usage"})

    def normalise(self, message):
        """
        A missing time stays missing, an empty response is left out, and the order among
        parts and calls is a place.
        """
        found: Any = message
        if isinstance(getattr(found, "content", ""), tuple):
            parts = [without_place(part) for part in found.content]
            found = found.replace(content=parts)

        if not isinstance(found, AssistantMessage):
            return normalise(found, "pydantic_ai")

        meta = found.response
        if meta is not None and meta.usage == Usage():
            meta = attrs.evolve(meta, usage=None)

        calls = [without_place(call) for call in found.tool_calls]
        meta = None if meta == ResponseMeta() else meta
        return normalise(found.replace(tool_calls=calls, response=meta), "pydantic_ai")

    @given(histories)
    def test_dump_undoes_load(self, history):
        """
        What was loaded comes back as Pydantic AI itself would give it back:
        equal, and equal as JSON.
        """
        export = dump(load(history))

        assert () == export.lost
        assert settled(history) == export.payload
        assert plain(settled(history)) == plain(export.payload)


class TestLoad:
    """Pydantic AI's messages as ours."""

    def test_roles(self):
        """
        A request is a message for each of its parts, results first, and its
        instructions where they change.
        """
        loaded = ours(EVERYTHING)

        assert [
            *("system", "system", "user", "assistant"),
            *("tool", "tool", "tool", "tool", "system", "user", "user", "user", "user"),
            *("unknown", "unknown", "unknown", "assistant", "assistant", "user"),
        ] == [message.role for message in loaded]
        assert "Speak English." == loaded[0].text
        assert "Speak French." == loaded[8].text

    def test_instructions_once(self):
        """Instructions that stay are there, and kept, once."""
        history = [asks(str(at), instructions="Be kind." * 99) for at in range(9)]
        loaded = ours(history)

        assert 1 == sum("Be kind." in repr(message) for message in loaded)
        assert settled(history) == dump(loaded).payload

    @pytest.mark.parametrize("last", [None, "", "Be kind.", "Be brief."])
    def test_instructions_that_end(self, last):
        """Behind instructions that are empty, a request has those it had."""
        texts = ["Be kind.", "", last, last]
        history = [asks(str(at), instructions=each) for at, each in enumerate(texts)]
        assert settled(history) == dump(ours(history)).payload

    def test_content(self):
        """
        Each kind of content is a part of its kind; what our model can't represent is
        kept as it is.
        """
        parts = ours(EVERYTHING)[2].parts
        media = ("image", "audio", "video", "file", "image", "file", "audio")

        assert ("text", *media, "unknown", "unknown", "text", "text", "unknown") == (
            tuple(part.kind for part in parts)
        )
        assert ("low", "https://x/y.png") == (parts[1].detail, parts[1].url)
        assert (PNG, "image/png") == (parts[5].data, parts[5].media_type)

    def test_response(self):
        """
        Thoughts, texts and calls keep their order, arguments their text, and
        what it cost is counted as we count.
        """
        answer = ours(EVERYTHING)[3]

        assert ["c1", "c2", "c3", "c4"] == [call.id for call in answer.tool_calls]
        assert [5, 6, 7, 8] == [call.index for call in answer.tool_calls]
        assert ['{"zone":"UTC","n":1180591620717411303424}', '{"zone": "CET"'] == [
            call.arguments for call in answer.tool_calls[:2]
        ]
        assert "Let me look.Wait.Hello." == answer.text
        assert ("c2ln", "Hm.") == (answer.parts[0].signature, answer.reasoning)
        assert (
            ResponseMeta(
                finish_reason="tool_use",
                model="claude",
                id="msg_1",
                usage=Usage(
                    100,
                    20,
                    prompt_tokens_details=PromptTokensDetails(cached_tokens=60),
                    completion_tokens_details=CompletionTokensDetails(
                        reasoning_tokens=5
                    ),
                    extra={"cache_write_tokens": 10, "odd": 1},
                ),
            )
            == answer.response
        )

    def test_results(self):
        """
        A result is its text, the JSON of its value, or parts if it has files;
        failed and refused calls are errors.
        """
        results = ours(EVERYTHING)[4:8]

        assert '{"a":[1,null]}' == results[0].text
        assert ["text", "image", "text"] == [part.kind for part in results[1].parts]
        assert 'see{"n":1}' == results[1].text
        assert ["", PNG] == [results[2].text, results[3].parts[0].data]
        assert [False, False, True, True] == [result.is_error for result in results]

    def test_own_metadata(self):
        """
        What a caller put beside a message is metadata of ours, in the first
        message; what has an adapter's name is not a note of it.
        """
        first = ours(EVERYTHING)[0]

        assert 7 == first.metadata["tenant"]
        assert "anthropic" not in first.metadata

    @pytest.mark.parametrize("kind", ["request", "response"])
    def test_metadata_under_our_key(self, kind):
        """A caller's metadata under the key of our notes comes back."""
        own = {"conversation_state": {"anthropic": 1}}
        history = [{"kind": kind, "parts": [], "metadata": own}]

        assert own == dump_data(load(history))[0][0]["metadata"]

    def test_nothing_is_lost_elsewhere(self):
        """A plain run of an agent loses nothing in another format."""
        call = {"part_kind": "tool-call", "tool_name": "tide", "tool_call_id": "c1"}
        history = [
            asked("When?"),
            {"kind": "response", "parts": [{**call, "args": "{}"}]},
            {"kind": "request", "parts": [{**RESULT, "content": "6:40"}]},
        ]

        assert () == anthropic.dump(load(history)).lost

    def test_keys_are_lost_elsewhere(self):
        """What only Pydantic AI has of a part is listed in other formats."""
        part = {"part_kind": "text", "content": "Hi", "provider_details": {"a": 1}}
        chat = load([asked("Hi!"), {"kind": "response", "parts": [part]}])

        assert [("messages[1].parts[0]", "provider_details")] == [
            each[:2] for each in anthropic.dump(chat).lost
        ]

    @pytest.mark.parametrize("kind", ["thinking", "redacted_thinking"])
    def test_signed_thoughts(self, kind):
        """A thought that Anthropic signed goes back to it as the block that it was."""
        text = {"part_kind": "text", "content": "Six."}
        thought = {**text, "part_kind": "thinking", "signature": "c2ln", "id": kind}
        thought |= {"content": "Hm." if kind == "thinking" else ""}
        parts = [{**thought, "provider_name": "anthropic"}, text]
        history = [asked("When?"), {"kind": "response", "parts": parts}]
        export = anthropic.dump(load(history))

        (block, _) = export.payload["messages"][1]["content"]
        assert (kind, "c2ln") == (
            block["type"],
            block.get("signature", block.get("data")),
        )

    def test_legacy_retry(self):
        """The retry prompts of old histories load as what they always meant."""
        with pytest.warns(Warning, match="is deprecated"):
            history = [
                ModelRequest(
                    parts=[
                        RetryPromptPart("no", tool_name="clock", tool_call_id="c1"),
                        RetryPromptPart("try again"),
                    ]
                )
            ]

        result, aside = ours(history)

        assert ("no", True, "c1") == (result.text, result.is_error, result.tool_call_id)
        assert "try again" == aside.text
        assert settled(history) == dump([result, aside]).payload

    def test_half_a_pair_in_a_key(self):
        """Half of a surrogate pair is mended in a key, too."""
        raw: dict[str, Any] = {
            "kind": "response",
            "parts": [{"part_kind": "text", "content": "x"}],
            "usage": {"input_tokens": 1, "details": {"a\ud800": 1}},
        }
        (message,) = load([raw])

        assert "x" == message.text
        assert "a\ufffd" in str(message) + repr(message)
        assert message == decode(encode(message))

    @pytest.mark.parametrize(
        "part",
        [
            {"part_kind": "text", "content": "a", "outcome": 0, "force_download": 0},
            {
                "part_kind": "file",
                "content": {"kind": "binary", "data": "a", "media_type": "a/b"},
            },
        ],
        ids=["numbers for booleans", "invalid base64"],
    )
    def test_unusual_keys(self, part):
        """What Pydantic AI never writes comes back, too."""
        message = {"kind": "response", "parts": [part]}

        ((found,), _) = dump_data(load([message]))

        assert [part] == found["parts"]

    def test_too_large(self):
        """
        A value that metadata can't hold is refused with its path; a tool's result is
        text, and may be any.
        """
        details = {"kind": "response", "parts": [], "provider_details": {"n": 2**80}}
        history = [calls("c1"), answers("c1", text={"n": 2**80})]
        with pytest.raises(DecodeError, match=r"\$\[0\]\.provider_details\.n"):
            load([details])

        assert plain(history) == plain(back(history))

    def test_mended_everywhere(self):
        """
        What is mended in a request's metadata is listed as what is in its parts is.
        """
        part = {"part_kind": "user-prompt", "content": "\ud800"}
        request = {"kind": "request", "metadata": {"a": "\ud800"}, "parts": [part]}
        _, lost = dump_data(load([request]))

        assert ["content", "metadata.a"] == [one.what for one in lost]

    def test_reports_what_is_wrong(self):
        """All that is wrong is reported, each with its path."""
        with pytest.raises(DecodeError) as caught:
            load(
                [
                    3,
                    {"kind": "x"},
                    {"kind": "response", "parts": 1},
                    {"kind": "response", "parts": [2, "text"]},
                    {
                        "kind": "response",
                        "parts": [{"part_kind": "text", "content": "", "x": object()}],
                    },
                    {"kind": "response", "parts": [], "usage": {"details": {5: 1}}},
                    {"kind": "request", "parts": [{**RESULT, "content": (1, 2)}]},
                ]
            )

        assert [
            *("$[0]", "$[1].kind", "$[2].parts", "$[3].parts[0]", "$[3].parts[1]"),
            *("$[4].parts[0].x", "$[5].usage.details", "$[6].parts[0].content"),
        ] == [problem.path for problem in caught.value.problems]

    @pytest.mark.parametrize("time", ["yesterday", "2026-01-01T00:00:00", 5])
    def test_odd_times(self, time):
        """What is no time with a time zone is no time of a message, and is kept."""
        prompt = {"part_kind": "user-prompt", "content": "", "timestamp": time}
        text = {"part_kind": "text", "content": "Hi!"}

        loaded = ours(
            [
                {"kind": "request", "parts": [prompt]},
                {"kind": "response", "parts": [text], "timestamp": time},
            ]
        )
        asked, answered = dump_data(loaded)[0]

        assert [None, None] == [message.timestamp for message in loaded]
        assert time == asked["parts"][0]["timestamp"] == answered["timestamp"]
        now = datetime(2026, 11, 1, tzinfo=UTC)
        changed = [message.replace(timestamp=now) for message in loaded]
        asked, answered = dump_data(changed)[0]
        written = "2026-11-01T00:00:00Z"
        assert written == asked["parts"][0]["timestamp"] == answered["timestamp"]

    def test_keys_of_files(self):
        """What stands beside the content of a file is listed as lost elsewhere."""
        content = {"kind": "binary", "data": "aGk=", "media_type": "image/png"}
        part = {"part_kind": "file", "content": content, "provider_details": {"a": 1}}
        messages = ours([{"kind": "response", "parts": [part]}])

        lost = [(one.path, one.what) for one in anthropic.dump(messages).lost]

        assert ("messages[0].parts[0]", "provider_details") in lost
        assert () == dump_data(messages)[1]

    def test_usage(self):
        """The usage of a response is found there, as in JSON, and a mistake in it."""
        counts = {"input_tokens": 9, "output_tokens": 2}
        response = {"kind": "response", "parts": [], "usage": counts}
        usage = RequestUsage(input_tokens=9, output_tokens=2)

        assert Usage(9, 2) == load_usage(response) == load_usage(counts)
        assert Usage(9, 2) == load_usage(ModelResponse(parts=[], usage=usage))
        assert Usage(9, 2) == load_usage(usage)
        older = load_usage({**counts, "details": {"reasoning_tokens": 1}})
        details = CompletionTokensDetails(reasoning_tokens=1)
        assert Usage(9, 2, completion_tokens_details=details) == older
        with pytest.raises(DecodeError, match=r"\$\.usage\.input_tokens"):
            load_usage({**response, "usage": {"input_tokens": -1}})
        with pytest.raises(DecodeError, match=r"\$\.input_tokens"):
            load_usage({"input_tokens": -1})

    def test_older_releases(self):
        """Usage, ids and arguments are read under their names before 1.0."""
        counts = {"requests": 1, "request_tokens": 9, "response_tokens": 2}
        usage = {**counts, "total_tokens": 11, "details": {"cached_tokens": 4}}
        call = {"part_kind": "tool-call", "tool_name": "f", "tool_call_id": "c1"}
        given = [{"args_dict": {"a": 1}}, {"args_json": '{"a":1}'}, {"args_x": 1}]
        parts = [{**call, "args": each} for each in given]
        raw = {"kind": "response", "parts": parts, "usage": usage, "vendor_id": "r1"}
        answer: Any = load([raw])[0]

        cached = PromptTokensDetails(cached_tokens=4)
        assert Usage(9, 2, prompt_tokens_details=cached) == answer.response.usage
        assert "r1" == answer.response.id
        arguments = [json.loads(each.arguments) for each in answer.tool_calls]
        assert [{"a": 1}, {"a": 1}, given[2]] == arguments


class TestDump:
    """Messages of others as Pydantic AI's."""

    def test_groups(self):
        """Each of Pydantic AI's messages begins where its first one of ours stands."""
        answer = {"part_kind": "text", "content": "Hi"}
        both = [*asked("a")["parts"], *asked("b")["parts"]]
        history = [
            {"kind": "request", "parts": both},
            {"kind": "response", "parts": [answer]},
            {"kind": "response", "parts": []},
            asked("c"),
        ]

        assert [0, 2, 3, 4] == group_messages(load(history)).starts

    @given(transcripts())
    def test_others(self, chat):
        """
        Messages from anywhere are a history that Pydantic AI takes, with the same
        calls, answered by the same results.
        """
        export = dump(chat)
        parts = [part for message in export.payload for part in message.parts]
        calls = [call for one in chat for call in getattr(one, "tool_calls", ())]
        called = [part for part in parts if isinstance(part, ToolCallPart)]
        answered = [part for part in parts if isinstance(part, ToolReturnPart)]

        expected = [(call.id, call.name, call.arguments) for call in calls]
        results = [one.tool_call_id for one in chat if isinstance(one, ToolMessage)]

        assert sorted(expected) == sorted(
            [(part.tool_call_id, part.tool_name, part.args) for part in called]
        )
        assert results == [part.tool_call_id for part in answered]
        assert export.payload == settled(export.payload)

    def test_media_of_results(self):
        """A result of another format has its media, or else its texts as one."""
        image = ImagePart(data=PNG, media_type="image/png")
        results: list[list[Part]] = [
            [image],
            [TextPart("See:"), image],
            [TextPart("a"), TextPart("b")],
        ]
        chat = [ToolMessage(each, tool_call_id="c1") for each in results]

        export = dump(chat)

        ((one,), (text, two), texts) = [
            part.content for part in export.payload[0].parts
        ]
        assert (PNG, "See:", PNG, "ab") == (one.data, text, two.data, texts)
        assert [("messages[2]", "parts")] == [each[:2] for each in export.lost]

    @pytest.mark.parametrize(
        ("reason", "shown", "details"),
        [
            ("stop", "stop", None),
            ("end_turn", "stop", {"finish_reason": "end_turn"}),
            ("pause_turn", None, {"finish_reason": "pause_turn"}),
        ],
    )
    def test_finish_reasons(self, reason, shown, details):
        """A reason is Pydantic AI's word for it, and the provider's own beside it."""
        answer = AssistantMessage("Hi", response=ResponseMeta(reason))
        (made,) = dump([answer]).payload

        assert (shown, details) == (made.finish_reason, made.provider_details)
        assert reason == load([made])[0].response.finish_reason  # type: ignore[attr-defined]

    def test_counts_that_repeat_others(self):
        """Counts of one's own whose names Pydantic AI has for others are listed."""
        extra = {"accepted_prediction_tokens": 1, "cached_tokens": 2, "images": 3}
        meta = ResponseMeta(usage=Usage(9, 2, extra=extra))
        export = dump([AssistantMessage("Hi", response=meta)])

        assert {"images": 3} == export.payload[0].usage.details
        assert [*extra][:2] == [one.what for one in export.lost]

    def test_what_json_cannot_say(self):
        """A message whose JSON can't be read, so deep it is, is left out as one."""
        arguments = '{"a":' * 250 + "1" + "}" * 250
        part = {"part_kind": "tool-call", "tool_name": "f", "tool_call_id": "c1"}
        parts = [{**part, "args": json.loads(arguments)}]
        export = dump(load([{"kind": "response", "parts": parts}, asked("Hi!")]))

        assert ["request"] == [each.kind for each in export.payload]
        assert [("messages[0]", "message")] == [each[:2] for each in export.lost]

    def test_refusal(self):
        """A refusal is sent as the text that it is, which is listed."""
        export = dump([AssistantMessage([RefusalPart("No.")])])

        assert ["No."] == [part.content for part in export.payload[0].parts]
        assert [("messages[0].parts[0]", "refusal")] == [
            each[:2] for each in export.lost
        ]

    def test_kinds_of_calls(self):
        """A call of another kind than a function's is listed as one."""
        call = ToolCall("c1", "sh", "ls", type="custom")

        assert [("messages[0].tool_calls[0]", "type")] == [
            each[:2] for each in dump([AssistantMessage(tool_calls=[call])]).lost
        ]

    @pytest.mark.parametrize(
        "notes",
        [
            {"keys": {"own": {"conversation_state": "{"}}},
            {"request": {"parts": 5}},
            {"response": {"parts": 5}},
        ],
    )
    def test_invalid_notes(self, notes):
        """Notes that a caller wrote, and that are not JSON or no parts, are ignored."""
        metadata = with_notes("pydantic_ai", notes)
        chat = [
            UserMessage("Hi!", metadata=metadata),
            UnknownMessage({"part_kind": "x"}, source="pydantic_ai", metadata=metadata),
            AssistantMessage("", metadata=metadata),
        ]

        parts = [part for request in dump_data(chat)[0] for part in request["parts"]]

        assert ["user-prompt", "x"] == [part["part_kind"] for part in parts]
        assert "Hi!" == parts[0]["content"]

    def test_what_pydantic_ai_refuses(self):
        """
        Kinds of another version and invalid values, which `load` keeps, are left out
        of what Pydantic AI is given, and listed; what stands beside them is there.
        """
        image = {"kind": "image-url", "url": 3}
        asked = [
            {"part_kind": "of another version", "content": "y"},
            {"part_kind": "user-prompt", "content": ["Well?", image]},
        ]
        said = [{"part_kind": "thinking", "content": "Hm.", "signature": "c2ln"}]
        chat = load(
            [
                {"kind": "request", "parts": asked},
                {"kind": "response", "parts": said, "usage": {"details": [1]}},
                {"kind": "request", "parts": asked[:1]},
            ]
        )

        export = dump(chat)

        roles = [message.role for message in chat]
        assert ["unknown", "user", "assistant", "unknown"] == roles
        ask, answer, empty = export.payload
        assert ["Well?"] == [part.content[0] for part in ask.parts]
        assert ("Hm.", "c2ln") == (answer.parts[0].content, answer.parts[0].signature)
        assert not empty.parts
        assert {
            ("messages[0]", "parts"),
            ("messages[1]", "parts.content.url"),
            ("messages[1]", "parts.content"),
            ("messages[2]", "usage.details"),
            ("messages[3]", "parts"),
        } == {
            (one.path, one.what)
            for one in export.lost
            if one.why.startswith("Pydantic AI refuses it: ")
        }

    @pytest.mark.parametrize("instructions", [None, "Be brief."])
    def test_where_something_is_refused(self, instructions):
        """What is refused is listed at its message, wherever that has its part."""
        image = {"kind": "image-url", "url": 3}
        asked = {"part_kind": "user-prompt", "content": ["Well?", image]}
        done = {"part_kind": "tool-return", "content": "6:40", "tool_name": "tide"}
        parts = [asked, {**done, "tool_call_id": "c1"}]
        chat = load([{"kind": "request", "instructions": instructions, "parts": parts}])
        (at,) = [at for at, message in enumerate(chat) if message.role == "user"]

        assert {f"messages[{at}]"} == {one.path for one in dump(chat).lost}

    def test_metadata_of_one_request(self):
        """Of the metadata of several messages what a request can't have is listed."""
        part = {"part_kind": "user-prompt", "content": "Hi!"}
        request = {"kind": "request", "instructions": "Be brief.", "parts": [part]}
        system, user = load([{**request, "metadata": {"tenant": 7}}])
        user = user.replace(metadata={**user.metadata, "draft": 2})

        export = dump([system, user])

        assert {"tenant": 7} == export.payload[0].metadata
        assert [("messages[1]", "metadata")] == [each[:2] for each in export.lost]

    def test_times_that_pydantic_ai_refuses(self):
        """One that is no time is that of an unknown one, and not now."""
        asked = {"part_kind": "user-prompt", "content": "Well?", "timestamp": "soon"}
        chat = load([{"kind": "request", "parts": [asked]}])

        first, again = dump(chat), dump(chat)

        assert 1970 == first.payload[0].parts[0].timestamp.year
        assert first == again
        assert [("messages[0]", "parts.timestamp")] == [each[:2] for each in first.lost]
