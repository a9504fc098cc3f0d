"""eino's messages: what all adapters promise, and what comes back of what."""

import json
from datetime import UTC, datetime
from typing import ClassVar
from uuid import UUID

import pytest

from conversation_state.adapters import eino, openai_chat
from conversation_state.adapters.eino import dump, load, load_usage
from conversation_state.adapters.engine.notes import with_notes
from conversation_state.chunks import concat
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    LogProb,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.contract import FormatContract, as_json, problem_paths
from tests.adapters.eino import (
    CONVERSATIONS,
    MESSAGES,
    PNG,
    PNG_TEXT,
    notes,
    one,
    several,
)
from tests.adapters.kept import normalise, without_notes

NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
OUTPUT = "assistant_output_multi_content"
INPUT = "user_input_multi_content"


def written(*messages):
    """*messages* as eino has them."""
    return dump(messages).payload["messages"]


def lost(*messages):
    """The paths and names of what eino can't represent in *messages*."""
    return [(one.path, one.what) for one in dump(messages).lost]


def user(content="hi", **fields):
    """A user's message in JSON."""
    return {"role": "user", "content": content, **fields}


def answer(content="", **fields):
    """An assistant's message in JSON."""
    return {"role": "assistant", "content": content, **fields}


def joined(chunks):
    """The message that *chunks* are, of whatever class."""
    return concat(chunks)


def likely(**fields):
    """An assistant's message in JSON, with log-probs of one token."""
    one = {"token": "a", "logprob": 0, **fields}
    return answer(response_meta={"logprobs": {"content": [one]}})


class TestContract(FormatContract):
    """What all adapters promise."""

    adapter: ClassVar = eino
    documents: ClassVar = CONVERSATIONS
    responses: ClassVar = MESSAGES

    def normalise(self, message):
        """More than other providers get: metadata are written here, too."""
        return normalise(message, "eino")


class TestDump:
    @pytest.mark.parametrize(
        ("message", "expected"),
        [
            (
                UserMessage("hi", name="ann", metadata={"b": 1, "a": [None]}),
                (
                    '{"role":"user","content":"hi","name":"ann",'
                    '"extra":{"a":[null],"b":1}}'
                ),
            ),
            (
                UserMessage(
                    [
                        TextPart("", metadata={"x": 1}),
                        ImagePart(url="u", media_type="image/png", detail="low"),
                        AudioPart(data=PNG),
                        VideoPart(url="v"),
                        FilePart(url="f", name="n"),
                    ]
                ),
                (
                    '{"role":"user","content":"","user_input_multi_content":['
                    '{"type":"text","extra":{"x":1}},'
                    '{"type":"image_url","image":'
                    '{"url":"u","mime_type":"image/png","detail":"low"}},'
                    f'{{"type":"audio_url","audio":{{"base64data":"{PNG_TEXT}"}}}},'
                    '{"type":"video_url","video":{"url":"v"}},'
                    '{"type":"file_url","file":{"url":"f","name":"n"}}]}'
                ),
            ),
            (
                AssistantMessage(
                    [
                        ReasoningPart("hm", "s"),
                        ReasoningPart(),
                        TextPart("a"),
                        ImagePart(url="u"),
                    ]
                ),
                (
                    '{"role":"assistant","content":"","assistant_output_multi_content":['
                    '{"type":"reasoning","reasoning":{"text":"hm","signature":"s"}},'
                    '{"type":"reasoning","reasoning":{}},'
                    '{"type":"text","text":"a"},'
                    '{"type":"image_url","image":{"url":"u"}}]}'
                ),
            ),
            (
                AssistantMessage([ReasoningPart("hm"), TextPart("a")]),
                '{"role":"assistant","content":"a","reasoning_content":"hm"}',
            ),
            (
                AssistantMessage(
                    "a",
                    tool_calls=[
                        ToolCall("c1", "f", "{}", index=0, metadata={"x": 1}),
                        ToolCall("", "", type="custom"),
                    ],
                ),
                (
                    '{"role":"assistant","content":"a","tool_calls":['
                    '{"index":0,"id":"c1","type":"function",'
                    '"function":{"name":"f","arguments":"{}"},"extra":{"x":1}},'
                    '{"id":"","type":"custom","function":{}}]}'
                ),
            ),
            (
                ToolMessage("x", tool_call_id="c1", tool_name="f", name="n"),
                (
                    '{"role":"tool","content":"x","name":"n","tool_call_id":"c1",'
                    '"tool_name":"f"}'
                ),
            ),
            (
                AssistantMessage(
                    response=ResponseMeta(
                        "stop",
                        Usage(
                            1,
                            2,
                            4,
                            PromptTokensDetails(cached_tokens=5),
                            CompletionTokensDetails(reasoning_tokens=6),
                        ),
                        (
                            LogProb("a", -9999.0, b"a", (LogProb("b", -0.5),)),
                            LogProb("c", 0),
                        ),
                    )
                ),
                (
                    '{"role":"assistant","content":"","response_meta":{'
                    '"finish_reason":"stop","usage":{"prompt_tokens":1,'
                    '"prompt_token_details":{"cached_tokens":5},"completion_tokens":2,'
                    '"total_tokens":4,"completion_token_details":{"reasoning_tokens":6}},'
                    '"logprobs":{"content":['
                    '{"token":"a","logprob":-9999,"bytes":[97],"top_logprobs":'
                    '[{"token":"b","logprob":-0.5}]},'
                    '{"token":"c","logprob":0,"top_logprobs":null}]}}}'
                ),
            ),
        ],
    )
    def test_as_go(self, message, expected):
        """Messages are written as Go writes them, and come back."""
        export = dump([message])

        assert as_json(json.loads(expected)) == as_json(export.payload["messages"][0])
        assert () == export.lost
        assert [normalise(message, "eino")] == [
            normalise(m, "eino") for m in load(export.payload)
        ]


class TestContent:
    def test_content_beside_a_list(self):
        """
        Eino's models pass it over, and so do we, but it comes back, while the
        list is there.
        """
        listed = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        raw = user("beside", user_input_multi_content=listed)
        message = one(raw)

        assert "ab" == message.text
        assert {"content": "beside"} == dict(notes(message)["keys"])
        assert [raw] == written(message)
        assert [user("new")] == written(message.replace(content="new"))
        assert [user("")] == written(message.replace(content=""))
        assert ("messages[0]", "content") in [
            (each.path, each.what) for each in openai_chat.dump([message]).lost
        ]

    def test_the_older_list(self):
        """The deprecated list is read, and written in the place of the newer one."""
        image = {"detail": "low", "mime_type": "image/png"}
        extra = {"x": 1, "conversation_state": 1}
        raw = user(
            "",
            multi_content=[
                {"type": "text", "text": "a"},
                {
                    "type": "image_url",
                    "image_url": {"url": "u", **image, "extra": extra},
                },
                {"type": "file_url", "file_url": {"uri": "v", "name": "n"}},
                {},
            ],
        )
        message = one(raw)

        assert (
            TextPart("a"),
            ImagePart(url="u", detail="low", media_type="image/png", metadata={"x": 1}),
            FilePart(url="v", name="n"),
            UnknownPart({}, source="eino"),
        ) == tuple(map(without_notes, message.content))
        listed = [
            {"type": "text", "text": "a"},
            {"type": "image_url", "image": {"url": "u", **image}, "extra": extra},
            {"type": "file_url", "file": {"url": "v", "name": "n"}},
            {},
        ]
        assert [user("", **{INPUT: listed})] == written(message)
        # Models answer with no files.
        answered = one(answer(multi_content=raw["multi_content"]))
        assert isinstance(answered.content[2], UnknownPart)

    def test_both_lists(self):
        """Of two lists the newer one counts, and the older one is kept."""
        raw = user(
            "",
            multi_content=[{"type": "text", "text": "old"}],
            user_input_multi_content=[{"type": "text", "text": "new"}],
        )

        assert "new" == one(raw).text
        assert [raw] == written(one(raw))
        assert [user("x")] == written(one(raw).replace(content="x"))

    def test_media(self):
        """
        Media have a url or bytes; what has neither is kept as it is, and so is
        what stands beside.
        """
        found = one(
            user(
                "",
                user_input_multi_content=[
                    {"type": "image_url", "image": {"url": "u", "base64data": "aGk="}},
                    {"type": "image_url", "image": {"url": "", "base64data": "aGk="}},
                    {"type": "audio_url", "audio": {"base64data": "aG\nk="}},
                    {"type": "audio_url", "audio": {"base64data": "?"}},
                    {"type": "video_url", "video": {}},
                    {"type": "file_url"},
                ],
            )
        )
        url, data, odd, *hollow = found.content

        assert ("u", None) == (url.url, url.data)
        assert (None, b"hi", b"hi") == (data.url, data.data, odd.data)
        assert [UnknownPart] * 3 == [type(each) for each in hollow]

    def test_system(self):
        """A system message is a text, and what is more than text is kept as it is."""
        listed = {"role": "system", "content": "", INPUT: [{"type": "text"}]}
        images = [{"type": "image_url", "image": {"url": "u"}}]
        both = {"role": "system", "content": "a", INPUT: [{"type": "text"}]}

        assert [{"role": "system", "content": ""}] == written(one(listed))
        for odd in ({"role": "system", "content": "", INPUT: images}, both):
            assert UnknownMessage(odd, source="eino") == one(odd)
            assert [odd] == written(one(odd))

        assert [("messages[0]", "parts")] == lost(
            SystemMessage([TextPart("a"), TextPart("b")])
        )

    def test_reasoning(self):
        """
        A thought that comes first is beside the text, or the list; those that are in
        both are one part.
        """
        thought = {"type": "reasoning", "reasoning": {"text": "hm"}}
        text = {"type": "text", "text": "a"}
        beside = answer("a", reasoning_content="hm")
        apart = answer(**{OUTPUT: [text, text]}, reasoning_content="hm")
        later = answer(**{OUTPUT: [text, thought]})
        marked = answer(**{OUTPUT: [{**thought, "extra": {"a": 1}}]})

        for raw, expected in (
            (beside, beside),
            (apart, apart),
            (later, later),
            (marked, marked),
            (answer(**{OUTPUT: [thought, text]}), beside),
            (answer(**{OUTPUT: [thought, text]}, reasoning_content="hm"), beside),
        ):
            assert "hm" == one(raw).reasoning
            assert [expected] == written(one(raw))

        assert (ReasoningPart("hm"), TextPart("a")) == one(beside).content

    def test_signatures(self):
        """
        A signature that came from eino, or has no provider, is written; another
        provider's is not.
        """
        raw = answer(
            **{OUTPUT: [{"type": "reasoning", "reasoning": {"signature": "s"}}]}
        )
        theirs = ReasoningPart(
            "a", "s", metadata={"conversation_state": {"anthropic": {"signed": True}}}
        )
        both = ReasoningPart(
            "", "s", metadata=with_notes("eino", {"keys": {}}, theirs.metadata)
        )

        (part,) = one(raw).content
        assert {"signed": True} == notes(part)
        assert [raw] == written(one(raw)) == written(AssistantMessage([both]))
        assert [("messages[0].parts[0]", "signature")] == lost(
            AssistantMessage([theirs])
        )
        assert [answer(reasoning_content="a")] == written(AssistantMessage([theirs]))


class TestExtra:
    def test_is_metadata(self):
        """``extra`` is metadata: of messages, parts and calls."""
        raw = answer(
            **{OUTPUT: [{"type": "text", "text": "a", "extra": {"p": 1}}]},
            tool_calls=[
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "f"},
                    "extra": {"c": 2},
                }
            ],
            extra={"m": 3},
        )
        message = one(raw)

        assert [{"m": 3}, {"p": 1}, {"c": 2}] == [
            dict(value.metadata)
            for value in (message, message.content[0], message.tool_calls[0])
        ]
        assert [raw] == written(message)

    def test_names_of_adapters(self):
        """What in it has the name of an adapter is not taken for its notes."""
        theirs = {"eino": {"keys": {"role": "x"}}}
        raw = user(extra={"conversation_state": theirs, "eino": theirs["eino"]})
        message = one(raw)

        assert theirs["eino"] == message.metadata["eino"]
        assert {"extra": {"conversation_state": theirs}} == notes(message)
        assert [raw] == written(message)

    def test_marks(self):
        """Marks of a view are metadata beside the notes."""
        marks = {"synthetic": True}
        mixed = {"conversation_state": {**marks, "eino": {"keys": {"role": "x"}}}}
        messages = [UserMessage("a", metadata={"conversation_state": marks})]

        assert tuple(messages) == load(dump(messages).payload)
        for raw in (user(extra=mixed), user(extra={"conversation_state": 1})):
            assert [raw] == written(one(raw))

        assert one(user(extra=mixed)).metadata["conversation_state"]["synthetic"]


class TestCalls:
    def test_made_ids(self):
        """Calls and results without ids are paired, and stay without."""
        call = {"id": "", "type": "function", "function": {"name": "f"}}
        other = {"id": "", "type": "function", "function": {"name": "g"}}
        raws = [
            answer(tool_calls=[call, other]),
            {"role": "tool", "content": "", "tool_name": "g"},
            {"role": "tool", "content": ""},
        ]

        called, second, first = several(raws)

        f, g = called.tool_calls
        assert ("function", "function") == (f.type, g.type)
        assert (f.id, g.id) == (first.tool_call_id, second.tool_call_id)
        assert f.id != g.id
        assert raws == written(called, second, first)
        renamed = called.replace(tool_calls=[ToolCall("c9", "f", metadata=f.metadata)])
        assert "c9" == written(renamed)[0]["tool_calls"][0]["id"]

    def test_chunks(self):
        """
        The chunks of a stream, loaded as a list, are one message: pieces of a
        call have an index, and their ids and names come once.
        """
        chunks = [
            answer("Let ", reasoning_content="h"),
            answer("me.", reasoning_content="m"),
            answer(
                tool_calls=[
                    {
                        "index": 0,
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "f", "arguments": "{"},
                    }
                ]
            ),
            answer(
                tool_calls=[
                    {"index": 0, "id": "", "type": "", "function": {"arguments": "}"}}
                ]
            ),
            answer(
                response_meta={
                    "finish_reason": "tool_calls",
                    "usage": {"prompt_tokens": 3, "total_tokens": 3},
                }
            ),
        ]

        message = joined(several(chunks))

        assert ("Let me.", "hm") == (message.text, message.reasoning)
        assert [("c1", "f", "{}")] == [
            (call.id, call.name, call.arguments) for call in message.tool_calls
        ]
        assert ("tool_calls", 3) == (
            message.response.finish_reason,
            message.response.usage.total_tokens,
        )


USAGE = ".response.usage"
MARKED = TextPart("a", metadata={"b": 1})
THEIRS = UnknownPart({"type": "x"}, source="gemini")
REJECTED = CompletionTokensDetails(rejected_prediction_tokens=1)


def reported(**fields):
    """An assistant's message with what is known of its response."""
    return AssistantMessage(response=ResponseMeta(**fields))


def used(**counts):
    """The same, of a response that took tokens."""
    return reported(usage=Usage(**counts))


class TestLost:
    @pytest.mark.parametrize(
        ("message", "path", "what"),
        [
            (UserMessage("", run_id=UUID(int=1)), "", "run_id"),
            (ToolMessage("a", tool_call_id="c", is_error=True), "", "is_error"),
            (AssistantMessage([ImagePart(url="a", detail="b")]), ".parts[0]", "detail"),
            (UserMessage([ImagePart(url="a", index=1)]), ".parts[0]", "index"),
            (SystemMessage([MARKED]), ".parts[0]", "metadata"),
            (UserMessage([THEIRS]), ".parts[0]", "x"),
            (UnknownMessage({"role": "x"}, source="gemini"), "", "x"),
            (UnknownMessage({}, source="eino", metadata={"a": 1}), "", "metadata"),
            (reported(model="m"), ".response", "model"),
            (used(extra={"cache_write_tokens": 1}), USAGE, "cache_write_tokens"),
            (
                used(completion_tokens_details=REJECTED),
                *(USAGE, "rejected_prediction_tokens"),
            ),
        ],
    )
    def test_listed(self, message, path, what):
        """What eino can't represent is listed, and nothing else is."""
        assert [(f"messages[0]{path}", what)] == lost(message)

    def test_mended(self):
        """Half of a surrogate pair is U+FFFD, and listed with its place."""
        message = one(user("\ud800", name="\udfff"))
        odd = one({"role": "x", "content": "\ud800"})

        assert ("\ufffd", "\ufffd") == (message.text, message.name)
        assert [("messages[0]", "content"), ("messages[0]", "name")] == lost(message)
        assert ("\ufffd", [("messages[0]", "content")]) == (
            odd.raw["content"],
            lost(odd),
        )


class TestOrder:
    @pytest.mark.parametrize(
        ("chance", "expected"),
        [
            (0.0, "0"),
            (-0.0, "-0.0"),
            (-1.5, "-1.5"),
            (-float(2**53), "-9007199254740992"),
            (-float(2**53 + 2), "-9007199254740994.0"),
        ],
    )
    def test_chances(self, chance, expected):
        """
        Log probabilities that are whole are written as Go does, while it is exact.
        """
        response = ResponseMeta(logprobs=(LogProb("a", chance),))

        (sent,) = dump([AssistantMessage(response=response)]).payload["messages"]

        (raw,) = sent["response_meta"]["logprobs"]["content"]
        assert expected == repr(raw["logprob"])


class TestKept:
    def test_usage(self):
        """What is beside the counts goes back."""
        usage = {"prompt_tokens": 3, "total_tokens": 3, "cost": "free"}
        raw = answer(response_meta={"usage": usage})

        (sent,) = written(one(raw))
        assert "free" == sent["response_meta"]["usage"]["cost"]


META = ".response_meta"
OLDER = {"type": "image_url", "image_url": "u"}
THOUGHT = {"type": "reasoning", "reasoning": "x"}


def meta(**fields):
    """An assistant's message in JSON, with what is known of its response."""
    return answer(response_meta=fields)


def image(content):
    """A user's message in JSON, with an image."""
    return user(**{INPUT: [{"type": "image_url", "image": content}]})


class TestRefuses:
    @pytest.mark.parametrize(
        ("raw", "path"),
        [
            ({}, ".role"),
            (user(extra=[]), ".extra"),
            (user(user_input_multi_content=[5]), f".{INPUT}[0]"),
            (image(5), f".{INPUT}[0].image"),
            (answer(**{OUTPUT: [THOUGHT]}), f".{OUTPUT}[0].reasoning"),
            (answer(tool_calls={}), ".tool_calls"),
            (answer(tool_calls=[{"index": 2**63}]), ".tool_calls[0].index"),
            ({"role": "tool", "content": "", "tool_call_id": 5}, ".tool_call_id"),
            (answer(response_meta=[]), ".response_meta"),
            (meta(logprobs={"content": 5}), f"{META}.logprobs.content"),
            (likely(logprob="x"), f"{META}.logprobs.content[0].logprob"),
            (likely(bytes="a"), f"{META}.logprobs.content[0].bytes"),
            (likely(top_logprobs=5), f"{META}.logprobs.content[0].top_logprobs"),
            (likely(top_logprobs=[5]), f"{META}.logprobs.content[0].top_logprobs[0]"),
            (answer(reasoning_content=5), ".reasoning_content"),
        ],
    )
    def test_one(self, raw, path):
        """What Go would not read is refused, with its path."""
        assert [f"$[0]{path}"] == problem_paths(load, [raw])

    def test_no_document(self):
        """What is neither a message nor several is an error."""
        for raw in ({"messages": 5}, {"x": 1}):
            with pytest.raises(DecodeError, match="messages"):
                load(raw)

    def test_lenient_as_go(self):
        """Null is nothing everywhere, and missing is, too."""
        nothing = (OUTPUT, "name", "tool_calls", "response_meta", "extra", "content")
        empty = {"multi_content": [], "reasoning_content": ""}
        raw = {"role": "assistant", **dict.fromkeys(nothing), **empty}
        hollow = answer(response_meta={"usage": None, "logprobs": None})

        assert AssistantMessage() == one(raw)
        assert [answer()] == written(one(raw))
        assert ResponseMeta() == one(hollow).response
        assert UserMessage("") == one({"role": "user"})


class TestUsage:
    def test_where_it_is(self):
        """A message has its usage, and so do its response and the usage in that."""
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        expected = Usage(3, 1, 4)

        assert expected == load_usage(usage) == load_usage({"usage": usage})
        assert expected == load_usage(answer(response_meta={"usage": usage}))
        assert expected == one(answer(response_meta={"usage": usage})).response.usage
        assert load_usage(user()) is None
        assert load_usage(answer(response_meta={})) is None
        assert load_usage(None) is None

    @pytest.mark.parametrize("total", [{}, {"total_tokens": None}])
    def test_without_total(self, total):
        """A total that is missing is the sum, also of a message."""
        usage = {"prompt_tokens": 3, "completion_tokens": 1, **total}

        assert Usage(3, 1, 4) == load_usage(usage)
        assert Usage(3, 1, 4) == one(meta(usage=usage)).response.usage

    def test_unknown_counts(self):
        """Counts that eino adds one day go back to where they were."""
        usage = {
            "prompt_tokens": 3,
            "prompt_token_details": {"cached_tokens": 1, "audio_tokens": 2},
            "completion_tokens": 0,
            "total_tokens": 3,
            "completion_token_details": {"reasoning_tokens": 0, "x": "y"},
            "written_tokens": 4,
        }
        kept = notes(one(meta(usage=usage)))["keys"]["response_meta"]["usage"]

        assert {
            "prompt_token_details": {"audio_tokens": 2},
            "completion_token_details": {"x": "y"},
            "written_tokens": 4,
        } == kept
