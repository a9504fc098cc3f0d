"""LangChain's messages into ours and back."""

import copy
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

import attrs
import pytest
from hypothesis import given, settings
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)

from conversation_state.adapters import Lost, anthropic, gemini, langchain, openai_chat
from conversation_state.aggregator import Aggregator
from conversation_state.codec import decode, encode
from conversation_state.errors import DecodeError, InvalidMessageError
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    UnknownMessage,
    UserMessage,
)
from conversation_state.messages import ToolMessage as ToolResult
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.testing.strategies import messages
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.contract import bare as without_notes
from tests.adapters.helpers import table
from tests.adapters.kept import lines
from tests.adapters.langchain import LANGCHAIN_MESSAGES

dump, dump_message = langchain.dump, langchain.dump_message
# What is loaded is of many kinds, and a test knows of which.
load: Any = langchain.load
load_message: Any = langchain.load_message
bare: Any = without_notes


def back(message):
    export = dump(load([message]))

    assert () == export.lost
    (found,) = export.payload
    return found


def same(ours, theirs):
    return type(ours) is type(theirs) and ours == theirs


class TestRoundTrip:
    """LangChain gets back what it gave."""

    @settings(max_examples=200)
    @given(message=LANGCHAIN_MESSAGES)
    def test_any_message(self, message):
        """
        Every message comes back equal, of its own class, also by way of
        bytes; and nothing of it is changed meanwhile.
        """
        before = copy.deepcopy(message)

        loaded = load([message])
        export = dump(decode(encode(Aggregator.new(messages=loaded))).messages)

        assert same(before, message)
        assert same(before, export.payload[0])
        assert () == export.lost
        assert dumpd(before) == dumpd(export.payload[0])

    def test_changed_afterwards(self):
        """Changing a message that was dumped changes no other one."""
        ours = load_message(AIMessage("hi", id="a"))
        first, second = dump_message(ours), dump_message(ours)
        first.additional_kwargs["k"] = 1
        first.tool_calls.append("changed")
        first.__pydantic_fields_set__.clear()

        assert same(AIMessage("hi", id="a"), second)
        assert same(AIMessage("hi", id="a"), dump_message(ours))

    @pytest.mark.parametrize(
        "more",
        [
            {"timestamp": datetime(2026, 1, 1, tzinfo=UTC)},
            {"run_id": UUID(int=1)},
            {"turn_id": UUID(int=1)},
        ],
        ids=["timestamp", "run_id", "turn_id"],
    )
    def test_lost_of_text_and_id(self, more):
        """Of such a message, too, what LangChain has no field for is listed."""
        message = load_message(HumanMessage("hi", id="a")).replace(**more)
        export = dump([message])

        assert same(HumanMessage("hi", id="a"), export.payload[0])
        assert [*more] == [lost.what for lost in export.lost]

    def test_fresh(self):
        """What is given back is the caller's to change."""
        kwargs = {"deep": {"list": [1]}}
        loaded = load([HumanMessage("hi", additional_kwargs=kwargs)])

        (first,), (second,) = dump(loaded).payload, dump(loaded).payload
        first.additional_kwargs["deep"]["list"].append(2)

        assert kwargs == second.additional_kwargs

    def test_call_and_its_block(self):
        """A call and the block that repeats it are two things to change."""
        call = {"type": "tool_call", "id": "c", "name": "f", "args": {"a": [1]}}
        loaded = load([AIMessage([dict(call)], tool_calls=[call])])

        (found,) = dump(loaded).payload
        found.tool_calls[0]["args"]["a"].append(2)

        assert {"a": [1]} == found.content[0]["args"]


DATA_URL = "data:image/png;base64,aGk="
IMAGE = ImagePart(data=b"hi", media_type="image/png")
BYTES = {"type": "base64", "data": "aGk="}
WAV = {"data": "aGk=", "format": "wav"}


def use(call_id):
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def call(call_id, **args):
    return {"id": call_id, "name": "f", "args": args}


class TestLoad:
    """LangChain's messages as ours."""

    def test_roles(self):
        """A role each, and the text."""
        loaded = load(
            [
                SystemMessage("be brief"),
                HumanMessage("hi", name="ann"),
                AIMessage("yes?"),
                ChatMessage(content="I am you", role="user"),
            ]
        )

        assert ["system", "user", "assistant", "user"] == [one.role for one in loaded]
        assert ["be brief", "hi", "yes?", "I am you"] == [one.text for one in loaded]
        assert "ann" == loaded[1].name

    def test_calls_and_results(self):
        """
        Calls have their ids, names and arguments, even arguments that can't be parsed;
        results have the id of their call, the tool, and whether it failed.
        """
        asked, failed = load(
            [
                AIMessage(
                    "",
                    tool_calls=[{"id": "a", "name": "f", "args": {"q": "é"}}],
                    invalid_tool_calls=[
                        {"id": "b", "name": "g", "args": "{", "error": "no JSON"}
                    ],
                ),
                ToolMessage("broke", tool_call_id="b", name="g", status="error"),
            ]
        )

        assert ["a", "b"] == [call.id for call in asked.tool_calls]
        assert ["f", "g"] == [call.name for call in asked.tool_calls]
        assert ['{"q": "é"}', "{"] == [call.arguments for call in asked.tool_calls]
        assert (
            ToolResult("broke", tool_call_id="b", tool_name="g", is_error=True)
            == failed
        )

    def test_invalid_calls(self):
        """What is not a call is a problem, with its path."""
        message = AIMessage("")
        message.invalid_tool_calls = [{"id": "a"}, 3]  # type: ignore[typeddict-item,list-item]

        with pytest.raises(
            DecodeError, match=r"\$\[0\]\.invalid_tool_calls\[1\]: is 3"
        ):
            load([message])

    @pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": [1e999]}'])
    def test_changed_arguments(self, text):
        """
        Arguments that Python would change are kept as text, as a call that is not valid
        in LangChain.
        """
        messages = [AssistantMessage("", tool_calls=[ToolCall("c", "f", text)])]
        export = dump(messages)
        (message,) = export.payload

        assert [] == message.tool_calls
        assert [text] == [call["args"] for call in message.invalid_tool_calls]
        assert [text] == [call.arguments for call in load([message])[0].tool_calls]
        assert () == export.lost

    def test_object_in_a_block(self):
        """A block with an object of LangChain's is the part that it is without it."""
        message = HumanMessage(
            [{"type": "text", "text": "a", "source": Document("of the text")}]
        )

        assert "a" == load_message(message).text
        assert same(message, back(message))

    def test_keys_of_calls(self):
        """A call's own keys come back, also those that hold what JSON doesn't."""
        message = AIMessage("", tool_calls=[{"id": "a", "name": "f", "args": {}}])
        message.tool_calls[0]["trace"] = b"\0\xff"  # type: ignore[typeddict-unknown-key]
        export = dump(load([message]))

        assert [message] == export.payload
        assert () == export.lost

    def test_response(self):
        """
        Why it ended, in the provider's word, which model it was, and what it
        cost: cached tokens and reasoning are parts.
        """
        (loaded,) = load(
            [
                AIMessage(
                    "hi",
                    response_metadata={"stop_reason": "end_turn", "model": "claude"},
                    usage_metadata={
                        "input_tokens": 9,
                        "output_tokens": 5,
                        "total_tokens": 14,
                        "input_token_details": {"cache_read": 3, "cache_creation": 2},
                        "output_token_details": {"reasoning": 4},
                    },
                )
            ]
        )
        usage = Usage(
            9,
            5,
            14,
            PromptTokensDetails(cached_tokens=3),
            CompletionTokensDetails(reasoning_tokens=4),
            {"cache_write_tokens": 2},
        )

        assert ResponseMeta("end_turn", usage, None, "claude") == loaded.response

    @pytest.mark.parametrize(
        ("within", "written", "usage"),
        [
            (
                {
                    "cache_creation": 0,
                    "ephemeral_5m_input_tokens": 4,
                    "ephemeral_1h_input_tokens": 2,
                },
                {},
                Usage(
                    9,
                    5,
                    extra={
                        "cache_write_tokens": 6,
                        "cache_write_5m_tokens": 4,
                        "cache_write_1h_tokens": 2,
                    },
                ),
            ),
            (
                {"cache_creation": 6, "ephemeral_5m_input_tokens": 4},
                {},
                Usage(9, 5, extra={"cache_write_tokens": 6}),
            ),
            (
                {"priority_cache_read": 3, "priority": 6},
                {"priority_reasoning": 2, "priority": 3},
                Usage(
                    9,
                    5,
                    14,
                    PromptTokensDetails(cached_tokens=3),
                    CompletionTokensDetails(reasoning_tokens=2),
                ),
            ),
        ],
    )
    def test_details_of_packages(self, within, written, usage):
        """
        LangChain's package for Anthropic has 0 for all that was written to the cache
        if it has the parts; that for OpenAI has other names for other tiers.
        """
        counts: Any = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
        details = {"input_token_details": within, "output_token_details": written}
        message = AIMessage("hi", usage_metadata={**counts, **details})
        (loaded,) = load([message])
        export = dump([loaded])

        assert usage == loaded.response.usage
        assert [message] == export.payload
        assert () == export.lost

    @pytest.mark.parametrize(
        ("block", "part"),
        [
            ("bare", TextPart("bare")),
            ({"type": "image_url", "image_url": {"url": DATA_URL}}, IMAGE),
            (
                {"type": "image", "url": "http://x", "extras": {"detail": "low"}},
                ImagePart(url="http://x", detail="low"),
            ),
            (
                {"type": "image", "source": {"type": "url", "url": "http://y"}},
                ImagePart(url="http://y"),
            ),
            (
                {"type": "audio", "source_type": "base64", "data": "aGk="},
                AudioPart(data=b"hi"),
            ),
            (
                {
                    "type": "input_audio",
                    "input_audio": {"data": "aGk=", "format": "wav"},
                },
                AudioPart(data=b"hi", media_type="audio/wav"),
            ),
            (
                {"type": "file", "file": {"file_data": DATA_URL, "filename": "a"}},
                FilePart(data=b"hi", media_type="image/png", name="a"),
            ),
            (
                {"type": "file", "file_id": "f"},
                UnknownPart({"type": "file", "file_id": "f"}, source="langchain"),
            ),
            (
                {"type": "document", "source": {**BYTES, "media_type": "a/b"}},
                FilePart(data=b"hi", media_type="a/b"),
            ),
        ],
    )
    def test_parts(self, block, part):
        """A block becomes a part, whichever provider's format it has."""
        (loaded,) = load([HumanMessage(["first", block])])

        assert (TextPart("first"), part) == bare(loaded).content

    @pytest.mark.parametrize(
        ("block", "part"),
        [
            (
                {"type": "reasoning", "reasoning": "a", "extras": {"signature": "A"}},
                ReasoningPart("a", "A"),
            ),
            (
                {"type": "thinking", "thinking": "b", "signature": "B"},
                ReasoningPart("b", "B"),
            ),
            ({"type": "redacted_thinking", "data": "C"}, ReasoningPart("", "C")),
            (
                {"type": "reasoning_content", "reasoning_content": {"text": "d"}},
                ReasoningPart("d"),
            ),
            (
                {"type": "reasoning", "summary": [{"text": "e"}, {"text": "f"}]},
                ReasoningPart("e\n\nf"),
            ),
            ({"type": "refusal", "refusal": "g"}, RefusalPart("g")),
        ],
    )
    def test_thoughts(self, block, part):
        """
        Thoughts are parts with their signatures, in whatever form, and so is a refusal,
        also where they stand beside the content.
        """
        (loaded,) = load([AIMessage([block])])

        assert (part,) == bare(loaded).content

    def test_thoughts_beside_the_content(self):
        """Also where they stand beside the content."""
        message = AIMessage(
            "text", additional_kwargs={"reasoning_content": "hm", "refusal": "no"}
        )

        assert [("reasoning", "hm"), ("text", "text"), ("refusal", "no")] == [
            (part.kind, part.text) for part in load_message(message).parts
        ]
        assert same(message, back(message))

    def test_calls_among_the_content(self):
        """
        A block that only repeats a call is no part; where something comes after it, all
        have their places.
        """
        use = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}
        call = {"id": "c", "name": "f", "args": {"a": 1}}
        first, last = load(
            [
                AIMessage([{"type": "text", "text": "so"}, use], tool_calls=[call]),
                AIMessage([use, {"type": "text", "text": "so"}], tool_calls=[call]),
            ]
        )

        assert (TextPart("so"),) == bare(first).content == bare(last).content
        assert [None, None] == [first.parts[0].index, first.tool_calls[0].index]
        assert [1, 0] == [last.parts[0].index, last.tool_calls[0].index]

    @table(
        "message",
        {
            "calls in another order than the blocks that say them": AIMessage(
                [use("a"), use("b"), "so"], tool_calls=[call("b"), call("a")]
            ),
            "two blocks that say one call": AIMessage(
                [use("c"), {**use("c"), "again": True}], tool_calls=[call("c")]
            ),
        },
    )
    def test_comes_back(self, message):
        """What is odd, and valid, comes back as it is."""
        assert same(message, back(message))

    @pytest.mark.parametrize("arguments", ['{"x": 1}', "[7]", '{"x": ', ""])
    @pytest.mark.parametrize("ids", [("a", "b"), ("a", "a"), ("", "")])
    def test_a_call_that_is_changed_is_changed_in_its_block(self, ids, arguments):
        """
        Blocks are those of their calls where ids are shared or missing, and where
        LangChain could not parse the arguments; so a call that a view gives another id
        and name has these in its block, too, which is what is sent.
        """
        parsed: Any = {'{"x": 1}': {"x": 1}, "": {}}.get(arguments)
        blocks = [
            {
                "type": "function_call",
                "name": "f f",
                "arguments": arguments,
                "call_id": id,
            }
            for id in ids
        ]
        calls: list[Any] = [
            {"name": "f f", "args": arguments if parsed is None else parsed, "id": id}
            for id in ids
        ]
        kinds: dict[str, Any] = {"tool_calls": calls}
        if parsed is None:
            kinds = {"invalid_tool_calls": [{**one, "error": None} for one in calls]}

        message = AIMessage([{"type": "text", "text": "So."}, *blocks], **kinds)
        (ours,) = load([message])
        renamed = [
            attrs.evolve(call, id=f"new-{at}", name="g")
            for at, call in enumerate(ours.tool_calls)
        ]

        (same,) = dump([ours]).payload
        (other,) = dump([ours.replace(tool_calls=renamed)]).payload

        assert message == same
        assert [("new-0", "g", arguments), ("new-1", "g", arguments)] == [
            (block["call_id"], block["name"], block["arguments"])
            for block in other.content[1:]
        ]
        assert ["new-0", "new-1"] == [
            call["id"] for call in [*other.tool_calls, *other.invalid_tool_calls]
        ]

    def test_a_block_whose_text_langchain_completed(self):
        """
        In a stream LangChain makes arguments of a text that breaks off; the block keeps
        the text.
        """
        block = {
            "type": "function_call",
            "name": "f",
            "arguments": '{"x": ',
            "call_id": "a",
        }
        call: Any = {"name": "f", "args": {}, "id": "a"}
        message = AIMessage([block], tool_calls=[call])
        (ours,) = load([message])
        (made,) = ours.tool_calls

        (same,) = dump([ours]).payload
        changed = ours.replace(tool_calls=[attrs.evolve(made, id="b")])
        (other,) = dump([changed]).payload

        assert message == same
        assert [{**block, "call_id": "b"}] == other.content
        assert ["b"] == [call["id"] for call in other.tool_calls]

    def test_arguments_as_the_model_wrote_them(self):
        """Where a block has the text of the arguments, it is kept to the byte."""
        call = {"id": "c", "name": "f", "args": {"a": 1}}
        begun = {
            "type": "tool_use",
            "id": "c",
            "name": "f",
            "input": {},
            "partial_json": '{"a":1}',
            "index": 1,
        }
        item = {
            "type": "function_call",
            "id": "fc",
            "call_id": "c",
            "name": "f",
            "arguments": '{"a":1}',
        }

        for block in (begun, item):
            message = AIMessage([block], tool_calls=[call])

            assert '{"a":1}' == load_message(message).tool_calls[0].arguments
            assert same(message, back(message))

        nothing = {**item, "arguments": ""}
        message = AIMessage([nothing], tool_calls=[{**call, "args": {}}])
        assert not load_message(message).tool_calls[0].arguments
        assert same(message, back(message))

    def test_other_content(self):
        """What our model can't represent is kept, with its source."""
        given = [
            FunctionMessage(content="3", name="f"),
            RemoveMessage(id="m"),
            ChatMessage(content="no!", role="critic"),
        ]

        loaded = load(given)

        assert all(isinstance(one, UnknownMessage) for one in loaded)
        assert {"langchain"} == {one.source for one in loaded}
        assert given == dump(loaded).payload


class TestResponseIds:
    """What keys the usage of a response."""

    USAGE: ClassVar[Any] = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"id": "m", "response_metadata": {"id": "r"}}, "r"),
            ({"id": "r", "response_metadata": {"id": "r"}}, "r"),
            ({"id": "m"}, "m"),
            ({"id": "m", "response_metadata": {"id": 5}}, "m"),
        ],
    )
    def test_of_usage(self, fields, expected):
        """
        The provider's id of the response, or else the message's; the message
        comes back equal.
        """
        given = AIMessage("hi", usage_metadata=self.USAGE, **fields)
        (loaded,) = load([given])

        assert expected == loaded.response.id
        assert [given] == dump([loaded]).payload
        changed = attrs.evolve(loaded.response, id="other")
        (found,) = dump([loaded.replace(response=changed)]).payload
        assert "other" == found.response_metadata["id"]

    def test_without_usage(self):
        """A message's own id is not a response's id where no usage is known."""
        (loaded,) = load([AIMessage("hi", id="m")])

        assert loaded.response is None

    def test_from_elsewhere(self):
        """The id that another provider gave is written, and loaded again."""
        meta = ResponseMeta("stop", Usage(1, 2), None, "gpt", id="chatcmpl-1")
        message = AssistantMessage("hi", response=meta)
        export = dump([message])

        assert () == export.lost
        assert "chatcmpl-1" == export.payload[0].response_metadata["id"]
        assert (message,) == load(export.payload)


class TestRefusals:
    """What can't be kept is refused before anything is."""

    def test_objects(self):
        """
        An artifact that is any object is refused, with its place and what to
        do; documents that a retriever found are kept.
        """
        found = [Document("text", id="d", metadata={"page": 1})]
        kept = ToolMessage("", tool_call_id="c", artifact={"found": found})
        odd = ToolMessage("", tool_call_id="c", artifact=[1, object()])

        assert same(kept, back(kept))
        with pytest.raises(DecodeError, match=r"\$\[1\]\.artifact\[1\]") as caught:
            load([kept, odd])
        assert "as a dict" in str(caught.value)

    def test_classes_of_ones_own(self):
        """
        What is derived from a class of LangChain's could not be given back as
        what it was.
        """

        class Shout(HumanMessage):
            pass

        with pytest.raises(DecodeError, match="subclass Shout"):
            load([Shout(content="hi")])

    @pytest.mark.parametrize("wrong", [None, "text", {"role": "user"}])
    def test_no_messages(self, wrong):
        """What is not a message is refused, alone and among others."""
        with pytest.raises(DecodeError, match=r"\$"):
            load(wrong)
        with pytest.raises(DecodeError, match=r"\$\[0\]"):
            load([wrong])

    @pytest.mark.parametrize(
        ("field", "value"),
        [("content", None), ("tool_calls", 5)],
    )
    def test_changed_fields(self, field, value):
        """
        Setting a field validates nothing: what it may not be is reported, and so is a
        field that is gone.
        """
        message = AIMessage("hi")
        setattr(message, field, value)
        with pytest.raises(DecodeError, match=r"\$\[0\]: is not a valid AIMessage"):
            load([message])

        del vars(message)["content"]
        with pytest.raises(DecodeError, match=r"\$\[0\]: is not a valid AIMessage"):
            load([message])

    def test_deep_maps_with_other_keys(self):
        """
        Maps whose keys are not texts are kept as pairs, on more levels: too many of
        them are reported as other nesting is.
        """
        kept: Any = float("inf")
        refused: Any = kept
        for _ in range(20):
            kept = {1: kept}

        for _ in range(40):
            refused = {1: refused}

        message = ToolMessage("", tool_call_id="c", artifact=kept)
        assert same(message, back(message))

        message.artifact = refused
        with pytest.raises(DecodeError, match=r"artifact.*nested"):
            load([message])

    @pytest.mark.parametrize("name", [None, "Nope"])
    def test_unknown_classes(self, name):
        """An unknown message that can't have been LangChain's is listed as lost."""
        message = UnknownMessage({"class": name, "content": ""}, source="langchain")

        assert [] == dump([message]).payload
        assert ["class"] == [lost.what for lost in dump([message]).lost]

    def test_nothing_to_dump(self):
        """What is not a list of messages is refused by the name of the parameter."""
        with pytest.raises(TypeError, match="messages: expected a list of Messages"):
            dump(None)  # type: ignore[arg-type]
        with pytest.raises(InvalidMessageError, match="expected a Message"):
            dump([HumanMessage("hi")])  # type: ignore[list-item]

    def test_arguments(self):
        """Arguments whose keys are not text would come back as others."""
        call = {"id": "c", "name": "f", "args": {"a": [{1: 2}]}}

        with pytest.raises(DecodeError, match=r"tool_calls\[0\]\.args"):
            load([AIMessage("", tool_calls=[call])])

    def test_depth(self):
        """What is nested too deep is refused, wherever it is."""
        deep: dict[str, Any] = {}
        for _ in range(5_000):
            deep = {"a": deep}

        message = AIMessage("", tool_calls=[{"id": "c", "name": "f", "args": {}}])
        message.tool_calls[0]["args"] = deep
        kwargs = HumanMessage("")
        kwargs.additional_kwargs = deep
        block = HumanMessage("")
        block.content = [deep]

        for wrong in (message, kwargs, block):
            with pytest.raises(DecodeError, match=r"nested|JSON"):
                load([wrong])


class TestHostileText:
    """Text that can't be encoded is mended, and listed."""

    def test_mended(self):
        """Half of a pair becomes U+FFFD, wherever it was, and is lost."""
        loaded = load(
            [
                HumanMessage("a\ud800", name="\udfff"),
                HumanMessage([{"type": "text", "text": "\ud800"}, "\ud800"]),
                AIMessage("", additional_kwargs={"refusal": "\ud800"}),
                ToolMessage("\ud800", tool_call_id="\ud800"),
            ]
        )
        export = dump(loaded)

        assert ["a\ufffd", "\ufffd\ufffd", "", "\ufffd"] == [one.text for one in loaded]
        assert [
            ("messages[0]", "name"),
            ("messages[0]", "content"),
            ("messages[1]", "content[0].text"),
            ("messages[1]", "content[1]"),
            ("messages[2]", "additional_kwargs.refusal"),
            ("messages[3]", "content"),
            ("messages[3]", "tool_call_id"),
        ] == [(lost.path, lost.what) for lost in export.lost]
        assert "a\ufffd" == export.payload[0].content

    def test_what_is_not_rendered(self):
        """
        In arguments and notes, which are not text that is sent as it is, it is
        kept as it was.
        """
        message = AIMessage(
            "",
            tool_calls=[{"id": "c", "name": "f", "args": {"q": "\ud800"}}],
            additional_kwargs={"\ud800": "\udfff"},
            id="\ud800",
        )

        assert '{"q": "\\ud800"}' == load_message(message).tool_calls[0].arguments
        assert same(message, back(message))


class TestDump:
    """Our messages as LangChain's, wherever they come from."""

    @given(message=messages())
    def test_loses_nothing_in_silence(self, message):
        """What was dumped loads as it was, or the loss is listed."""
        export = dump([message])

        assert all(lost.path.startswith("messages[0]") for lost in export.lost)
        assert all(isinstance(lost, Lost) and lost.why for lost in export.lost)
        assert export.payload == dump(iter([message])).payload
        if not export.lost:
            (loaded,) = load(export.payload)
            assert text_of(message) == text_of(loaded)

    def test_what_it_cannot_represent(self):
        """Each of it is listed, with its place."""
        message = AssistantMessage(
            [
                UnknownPart({"type": "x"}, source="gemini"),
                TextPart("a", metadata={"b": 1}),
            ],
            tool_calls=[
                ToolCall("a", "f", "no JSON"),
                ToolCall("b", "g", "{}", type="custom"),
            ],
            response=ResponseMeta(
                "stop", Usage(extra={"tool_use_prompt_tokens": 1}), ()
            ),
            metadata={"mine": 1},
        )

        assert [
            ("messages[0]", "metadata"),
            ("messages[0].parts[0]", "x"),
            ("messages[0].parts[1]", "metadata"),
            ("messages[0].tool_calls[1]", "type"),
            ("messages[0].tool_calls[1]", "place"),
            ("messages[0].response", "logprobs"),
            ("messages[0].response.usage", "tool_use_prompt_tokens"),
        ] == [(lost.path, lost.what) for lost in dump([message]).lost]

    def test_signatures(self):
        """
        A signed block goes to the provider that signed it, has no provider, or is lost.
        """
        mine = ReasoningPart("hm", "sig")
        signed = {"signed": True}
        theirs, others = (
            ReasoningPart(
                "hm", "sig", metadata={"conversation_state": {provider: signed}}
            )
            for provider in ("anthropic", "gemini")
        )

        export = dump([AssistantMessage([mine, theirs, others])])

        assert [
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "sig"}},
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "reasoning", "reasoning": "hm"},
        ] == export.payload[0].content
        assert ["messages[0].parts[2]"] == [lost.path for lost in export.lost]

    def test_what_was_edited(self):
        """What a message has now wins over what was noted about it."""
        (loaded,) = load(
            [HumanMessage([{"type": "image", "base64": "aG\nk="}], id="i")]
        )

        new = ImagePart(data=b"new", metadata=loaded.content[0].metadata)
        (found,) = dump([loaded.replace(content=[new])]).payload

        assert [{"type": "image", "base64": "bmV3"}] == found.content
        assert "i" == found.id

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "image", "source_type": "base64", "data": "aGk="},
            {"type": "image", "source": {"type": "base64", "data": "aGk="}},
            {"type": "image_url", "image_url": {"url": "data:a/b;base64,aGk="}},
            {"type": "image_url", "image_url": "data:a/b;base64,aGk="},
        ],
    )
    def test_keeps_its_shape(self, block):
        """A block whose content was changed looks as it did before."""
        (loaded,) = load([HumanMessage([block])])
        (part,) = loaded.content

        new = [attrs.evolve(part, data=b"new")]
        (found,) = dump([loaded.replace(content=new)]).payload

        assert str([block]).replace("aGk=", "bmV3") == str(found.content)

    def test_what_was_taken_away(self):
        """What a message has no more is not written either."""
        about = {"finish_reason": "stop", "model_name": "m", "id": "chat-1"}
        fields = {**about, "system_fingerprint": "fp"}
        usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        (loaded,) = load(
            [AIMessage("hi", response_metadata=fields, usage_metadata=usage)]
        )

        (found,) = dump([loaded.replace(response=None)]).payload

        assert {"system_fingerprint": "fp"} == found.response_metadata
        assert found.usage_metadata is None

        odd = {**usage, "input_token_details": {"flex": 1}}
        (loaded,) = load([AIMessage("hi", usage_metadata=odd)])
        (found,) = dump([loaded.replace(response=None)]).payload

        assert found.usage_metadata is None

    def test_standard_blocks(self):
        """
        Media from elsewhere are blocks of LangChain's standard, which it converts to
        the format of every provider.
        """
        parts = [
            ImagePart(url="http://x", detail="low"),
            FilePart(data=b"hi", media_type="a/b", name="f"),
        ]

        (found,) = dump([UserMessage(parts)]).payload

        assert [
            {"type": "image", "url": "http://x", "extras": {"detail": "low"}},
            {
                "type": "file",
                "base64": "aGk=",
                "mime_type": "a/b",
                "extras": {"filename": "f"},
            },
        ] == found.content
        assert found.content == found.content_blocks


def text_of(message):
    plain = bare(message)
    if isinstance(plain, UnknownMessage):
        return plain

    if plain.content == ():
        plain = plain.replace(content="")

    if isinstance(plain, AssistantMessage):
        calls = []
        for call in plain.tool_calls:
            ((made,),) = [
                dump([AssistantMessage(tool_calls=[call])]).payload[0].tool_calls
                or [None]
            ]
            calls.append((call.id, call.name, made["args"] if made else call.arguments))

        return (plain.replace(tool_calls=()), calls, message.response or ResponseMeta())

    return plain


class TestCrossing:
    """Conversations of others as LangChain's, and LangChain's as theirs."""

    @pytest.mark.parametrize("adapter", [anthropic, gemini, openai_chat])
    def test_recorded(self, recordings, adapter):
        """Recorded conversations keep roles, texts, names, ids and arguments."""
        name = adapter.__name__.rpartition(".")[2]
        for exchange in lines(recordings / "requests" / f"{name}.jsonl"):
            ours = adapter.load(exchange["request"])
            export = dump(ours)
            there = load(export.payload)

            whole = [one for one in ours if not isinstance(one, UnknownMessage)]
            assert [one.role for one in whole] == [one.role for one in there]
            assert [one.text for one in whole] == [one.text for one in there]
            assert [_list_calls(one) for one in whole] == [
                _list_calls(one) for one in there
            ]
            assert [_get_answer(one) for one in whole] == [
                _get_answer(one) for one in there
            ]

    def test_real_providers(self, recordings):
        """What LangChain makes of recorded requests itself comes back equal."""
        exchanges = lines(recordings / "requests" / "openai_chat.jsonl")
        for exchange in exchanges:
            text_of = exchange["request"]["messages"]
            theirs = convert_to_messages([{"content": "", **one} for one in text_of])

            assert theirs == dump(load(theirs)).payload

    def test_signed_thoughts_leave(self):
        """
        Reasoning that Anthropic signed goes back to Anthropic, with the calls once and
        in their place, and to no other provider.
        """
        message = AIMessage(
            [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
            ],
            tool_calls=[{"id": "c", "name": "f", "args": {"a": 1}}],
            response_metadata={"model_provider": "anthropic"},
        )
        loaded = load([HumanMessage("?"), message, ToolMessage("3", tool_call_id="c")])

        at_home = anthropic.dump(loaded)
        away = openai_chat.dump(loaded)

        assert message.content == at_home.payload["messages"][1]["content"]
        assert () == at_home.lost
        assert "sig" not in str(away.payload)
        assert "messages[1].parts[0]" == away.lost[0].path


def _list_calls(message):
    return [
        (call.id, call.name, call.arguments and _dump_args(call))
        for call in getattr(message, "tool_calls", ())
    ]


def _dump_args(call):
    made = dump([AssistantMessage(tool_calls=[call])]).payload[0]
    return [one["args"] for one in (*made.tool_calls, *made.invalid_tool_calls)]


def _get_answer(message):
    return (getattr(message, "tool_call_id", ""), getattr(message, "is_error", False))
