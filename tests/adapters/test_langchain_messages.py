"""LangChain's messages into ours and back."""

import copy
import json
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
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
)
from conversation_state.testing.strategies import messages
from conversation_state.trimming import trim
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.contract import bare as without_notes
from tests.adapters.helpers import lines
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


# Kinds of blocks, and keys that they have their content under.
BLOCKS = (
    *("audio", "document", "file", "image", "image_url", "input_audio", "reasoning"),
    *("reasoning_content", "redacted_thinking", "refusal", "text", "thinking", "video"),
)


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

    @pytest.mark.parametrize("kind", [*langchain.class_names()])
    def test_each_class(self, kind):
        """A message of each class comes back as one of it."""
        fields = {"content": "a", "name": "f", "role": "critic", "tool_call_id": "c1"}
        fields = {key: fields[key] for key in fields if key in kind.model_fields}
        message = kind(id="1", **({} if kind is RemoveMessage else fields))

        assert same(message, back(message))


def call(call_id, **args):
    return {"id": call_id, "name": "f", "args": args}


class TestLoad:
    """LangChain's messages as ours."""

    def test_invalid_calls(self):
        """What is not a call is a problem, with its path."""
        message = AIMessage("")
        message.invalid_tool_calls = [{"id": "a"}, 3]  # type: ignore[typeddict-item,list-item]

        with pytest.raises(
            DecodeError, match=r"\$\[0\]\.invalid_tool_calls\[1\]: is 3"
        ):
            load([message])

    def test_object_in_a_block(self):
        """A block with an object of LangChain's is the part that it is without it."""
        message = HumanMessage(
            [{"type": "text", "text": "a", "source": Document("of the text")}]
        )

        assert "a" == load_message(message).text
        assert same(message, back(message))

    @pytest.mark.parametrize("kind", [*BLOCKS, None, 5])
    def test_odd_blocks(self, kind):
        """A block of a known kind comes back, whatever it has or lacks."""
        keys = ("data", "extras", "file", "signature", "source", "summary", "url")
        blocks: list[Any] = [{"type": kind}]
        for key in (*keys, *BLOCKS):
            values: Any = (None, 5, "", "x", [], [5], {}, {"url": 5}, {"data": "?"})
            blocks += [{"type": kind, key: value} for value in values]

        for message in [AIMessage([block]) for block in blocks]:
            assert same(message, back(message))

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "image_url", "image_url": {"url": "https://a/b"}},
            {"type": "image_url", "image_url": "https://a/b"},
            {"type": "image", "source": {"type": "url", "url": "https://a/b"}},
            {"type": "image", "source_type": "url", "url": "https://a/b"},
            {"type": "image", "url": "https://a/b"},
        ],
    )
    def test_changed_media(self, block):
        """A block whose part is changed keeps its shape."""
        ours = load_message(HumanMessage([block]))
        moved = attrs.evolve(ours.parts[0], url="https://a/c")
        (made,) = dump([ours.replace(content=[moved])]).payload

        assert [json.loads(json.dumps(block).replace("a/b", "a/c"))] == made.content

    def test_unknown_block(self):
        """A block of an unknown kind comes back, also with what JSON doesn't hold."""
        source = {"type": "url", "url": "https://a/b"}
        of_bytes: Any = {"bytes": b"\0\xff", "of": {1: float("inf")}}
        for more in ({"source": source}, of_bytes):
            message = HumanMessage([{"type": "chart", **more}])

            assert ["unknown"] == [part.kind for part in load_message(message).parts]
            assert same(message, back(message))

    def test_blocks_of_the_standard(self):
        """Anthropic gets its own block out of the standard's, and no standard block."""
        of_claude = {"type": "compaction", "content": "So far."}
        used: Any = {"type": "server_tool_call", "id": "s", "name": "search"}
        blocks: list[Any] = [{"type": "non_standard", "value": of_claude}, used]
        text = {"type": "text", "text": "a"}
        meta = {"model_provider": "anthropic", "output_version": "v1"}
        message = AIMessage([*blocks, text], response_metadata=meta)
        export = anthropic.dump([load_message(message)])

        assert same(message, back(message))
        assert [of_claude, text] == export.payload["messages"][0]["content"]
        assert ["server_tool_call"] == [lost.what for lost in export.lost]

    def test_keys_of_calls(self):
        """A call's own keys come back, also those that hold what JSON doesn't."""
        message = AIMessage("", tool_calls=[{"id": "a", "name": "f", "args": {}}])
        message.tool_calls[0]["trace"] = b"\0\xff"  # type: ignore[typeddict-unknown-key]
        export = dump(load([message]))

        assert [message] == export.payload
        assert () == export.lost

    @pytest.mark.parametrize("arguments", ["[7]", '{"x": '])
    def test_a_call_without_a_type(self, arguments):
        """A call that lacks keys comes back so, and is invalid if changed to be."""
        message = AIMessage("", tool_calls=[{"id": "a", "name": "f", "args": {}}])
        del message.tool_calls[0]["type"]
        (ours,) = load([message])
        changed = attrs.evolve(ours.tool_calls[0], arguments=arguments)

        (other,) = dump([ours.replace(tool_calls=[changed])]).payload

        assert same(message, back(message))
        assert ([], [arguments]) == (
            other.tool_calls,
            [each["args"] for each in other.invalid_tool_calls],
        )

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
        with pytest.raises(DecodeError, match=r"\$"):
            langchain.load_message(wrong)
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

    @pytest.mark.parametrize(
        "dumped",
        [
            {"type": "ai", "data": {"content": "", "additional_kwargs": []}},
            {"type": "ai", "data": {"content": "", "tool_calls": ["f"]}},
            {"type": "ai", "data": {"content": "", "invalid_tool_calls": "f"}},
            {"type": "tool", "data": {"content": "no id of a call"}},
            {"type": "ai", "data": {"content": 3}},
        ],
    )
    def test_dumps(self, dumped):
        """A dump is refused in one way, whatever LangChain's class raises."""
        with pytest.raises(DecodeError, match=r"\$\[0\]: can't be restored"):
            load([dumped])

    def test_dumps_of_others(self):
        """What is no dump of a message is refused as that, with its type."""
        with pytest.raises(DecodeError, match="no dump of a message; its type is 'x'"):
            load([{"type": "x", "data": {"content": "Hi"}}])
        with pytest.raises(DecodeError, match="no dump of a message; its type is 'x'"):
            load([{"lc": 1, "type": "x", "id": [], "kwargs": {"content": "Hi"}}])

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
        for _ in range(100_000):
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


class TestDump:
    """Our messages as LangChain's, wherever they come from."""

    def test_usage(self):
        """Each count is under LangChain's name for it, and one without is listed."""
        details = CompletionTokensDetails(
            accepted_prediction_tokens=3,
            audio_tokens=4,
            reasoning_tokens=5,
            rejected_prediction_tokens=6,
        )
        counts = Usage(
            *(90, 70),
            prompt_tokens_details=PromptTokensDetails(audio_tokens=1, cached_tokens=2),
            completion_tokens_details=details,
            extra={"cache_write_tokens": 7},
        )
        answer = AssistantMessage("Hi", response=ResponseMeta(usage=counts))
        other = attrs.evolve(counts, extra={**counts.extra, "images": 8})

        (made,) = dump([answer]).payload
        (lost,) = dump([answer.replace(response=ResponseMeta(usage=other))]).lost

        made_of = {"accepted_prediction": 3, "audio": 4, "reasoning": 5}
        assert made.usage_metadata == {
            "input_tokens": 90,
            "output_tokens": 70,
            "total_tokens": 160,
            "input_token_details": {"audio": 1, "cache_creation": 7, "cache_read": 2},
            "output_token_details": {**made_of, "rejected_prediction": 6},
        }
        assert counts == load([made])[0].response.usage
        assert ("messages[0].response.usage", "images") == lost[:2]

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


def test_a_call_that_was_cut_off():
    """
    LangChain makes arguments of a text that breaks off, and sends the text: the call
    has what the model wrote, and a view has JSON in both places.
    """
    block = {"type": "function_call", "name": "f", "arguments": '{"a": "cu'}
    block |= {"call_id": "c", "id": "fc_1"}
    call = {"name": "f", "args": {"a": "cu"}, "id": "c", "type": "tool_call"}
    message = AIMessage([block], tool_calls=[call])
    loaded = langchain.load([HumanMessage("q"), message, HumanMessage("z")])
    shown = langchain.dump(trim(Aggregator.new(loaded), None).messages).payload[1]
    within = {"INVALID_JSON": '{"a": "cu'}

    assert '{"a": "cu' == loaded[1].tool_calls[0].arguments
    assert message == langchain.dump(loaded).payload[1]
    assert within == shown.tool_calls[0]["args"]
    assert within == json.loads(shown.content[0]["arguments"])
