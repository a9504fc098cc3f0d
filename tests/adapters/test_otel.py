"""OpenTelemetry's attributes: valid, whole, and without contents if asked."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters import Export
from conversation_state.adapters.otel import dump, usage_attributes
from conversation_state.messages import (
    AssistantMessage,
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
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.testing.strategies import messages
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.contract import as_json, as_text
from tests.adapters.otel import PAYLOAD

INSTRUCTIONS = "gen_ai.system_instructions"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
REASONS = "gen_ai.response.finish_reasons"

CHAT = [
    SystemMessage("Be brief."),
    UserMessage("What time is it?", name="ann"),
    AssistantMessage(tool_calls=[ToolCall("c1", "clock", '{"city": "Oslo"}')]),
    ToolMessage("12:30", tool_call_id="c1", tool_name="clock"),
    AssistantMessage("12:30.", response=ResponseMeta("stop")),
]


def parts(*given):
    """The parts that *given* ones, of an assistant's message, are."""
    (message,) = dump([AssistantMessage(given)]).payload[OUTPUT]
    return message["parts"]


def call(arguments, **fields):
    """The part that a call with these *arguments* is."""
    calls = [ToolCall("c1", "f", arguments, **fields)]
    (message,) = dump([AssistantMessage(tool_calls=calls)]).payload[OUTPUT]
    (part,) = message["parts"]
    return part


def lost(*given):
    """The paths and names of what can't be represented in messages."""
    return [(one.path, one.what) for one in dump(given).lost]


def strings(value):
    """All texts in *value* that are not keys."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings(item)]

    if isinstance(value, list):
        return [text for item in value for text in strings(item)]

    return [value] if isinstance(value, str) else []


def shape(value):
    """
    *value* without contents: messages' roles and parts' types, tools' names and ids,
    and media's kinds.
    """
    names = {"type", "id", "role", "modality", "mime_type", "finish_reason"}
    if isinstance(value, list):
        return [shape(item) for item in value]

    if not isinstance(value, dict):
        return None

    named = names | ({"name"} if value.get("type") == "tool_call" else set())
    return {
        key: value[key] if key in named else shape(value[key])
        for key in value
        if key in named or key == "parts"
    }


class TestPayload:
    def test_chat(self):
        """A conversation with instructions, a call, its result and an answer."""
        assert Export(
            {
                INSTRUCTIONS: [{"type": "text", "content": "Be brief."}],
                INPUT: [
                    {
                        "role": "user",
                        "parts": [{"type": "text", "content": "What time is it?"}],
                        "name": "ann",
                    },
                    {
                        "role": "assistant",
                        "parts": [
                            {
                                "type": "tool_call",
                                "id": "c1",
                                "name": "clock",
                                "arguments": {"city": "Oslo"},
                            }
                        ],
                    },
                    {
                        "role": "tool",
                        "parts": [
                            {
                                "type": "tool_call_response",
                                "id": "c1",
                                "response": "12:30",
                            }
                        ],
                    },
                ],
                OUTPUT: [
                    {
                        "role": "assistant",
                        "parts": [{"type": "text", "content": "12:30."}],
                        "finish_reason": "stop",
                    }
                ],
                REASONS: ["stop"],
            }
        ) == dump(CHAT)

    @given(st.lists(messages(), max_size=4), st.data())
    def test_is_valid(self, chat, data):
        """
        Whatever the messages are, the result is valid by the conventions, with contents
        and without, and the same each time; each loss has its place.
        """
        output = data.draw(st.none() | st.integers(0, len(chat)))
        contents, apart = data.draw(st.booleans()), data.draw(st.booleans())
        options = {"output": output, "contents": contents, "instructions": apart}

        export = dump(chat, **options)

        assert [] == [str(error) for error in PAYLOAD.iter_errors(export.payload)]
        assert as_json(export.payload)
        assert export == dump(iter(chat), **options)
        assert all(one.path.startswith("messages[") and one.why for one in export.lost)
        assert as_text(export.lost)

    @given(st.lists(messages(), max_size=4))
    def test_as_text(self, chat):
        """As texts, attributes are JSON of the same, and all values are plain."""
        structured, texts = dump(chat).payload, dump(chat, as_text=True).payload

        assert structured.keys() == texts.keys()
        for key, text in texts.items():
            if key == REASONS:
                assert structured[key] == text
            else:
                assert structured[key] == json.loads(text)

    @given(st.lists(messages(), max_size=4))
    def test_without_contents(self, chat):
        """
        Without contents the structure is the same, and no text of a message is there.
        """
        whole, bare = dump(chat).payload, dump(chat, contents=False).payload

        assert {key: shape(whole[key]) for key in whole} == {
            key: shape(bare[key]) for key in bare
        }
        for key in bare:
            if key != REASONS:
                written = strings(shape(bare[key]))
                assert sorted(filter(None, strings(bare[key]))) == sorted(
                    filter(None, written)
                )

    def test_secrets(self):
        """No text of a person, a model or a tool gets through."""
        secret = "s3cret"
        chat = [
            SystemMessage(secret),
            UserMessage(
                [
                    TextPart(secret),
                    ImagePart(url=f"https://{secret}"),
                    FilePart(data=secret.encode(), name=secret),
                    UnknownPart({"type": "x", "y": secret}, source="otel"),
                    UnknownPart({"type": "x", "y": secret}, source="gemini"),
                ],
                name=secret,
                metadata={"a": secret},
            ),
            AssistantMessage(
                [ReasoningPart(secret, secret), RefusalPart(secret)],
                tool_calls=[ToolCall("c1", "f", json.dumps({"a": secret}))],
            ),
            ToolMessage([TextPart(secret)], tool_call_id="c1"),
            ToolMessage(secret, tool_call_id="c1"),
            UnknownMessage({"role": "x", "content": secret}, source="otel"),
            AssistantMessage(secret),
        ]

        for flat in (False, True):
            written = str(dump(chat, contents=False, as_text=flat))
            assert secret not in written
            assert "czNjcmV0" not in written  # as base64
            assert "tool_call_response" in written


class TestSplit:
    @pytest.mark.parametrize(
        ("output", "shown"),
        [
            (1, (1, 3, 1)),
            (3, (1, 1, 3)),
            (5, (0, 0, 5)),
        ],
    )
    def test_asked(self, output, shown):
        """
        The output is as many of the last messages as are asked for, be they
        choices or the work of an agent.
        """
        payload = dump(CHAT, output=output).payload

        assert shown == tuple(
            len(payload.get(key, [])) for key in (INSTRUCTIONS, INPUT, OUTPUT)
        )

    @pytest.mark.parametrize("output", [-1, 6])
    def test_outside(self, output):
        """More than there is can't be output."""
        with pytest.raises(ValueError, match=f"output is {output}; expected .* 0 to 5"):
            dump(CHAT, output=output)

    def test_other_types(self):
        """A value of another type is named, with what is expected in its place."""
        with pytest.raises(TypeError, match="messages: expected a list of Messages"):
            dump(UserMessage("hi"))  # type: ignore[arg-type]

        with pytest.raises(ValueError, match="output is '1'; expected an integer"):
            dump(CHAT, output="1")  # type: ignore[arg-type]

        with pytest.raises(TypeError, match="usage: expected a Usage or None, got an"):
            usage_attributes(3)  # type: ignore[arg-type]

    def test_instructions(self):
        """
        System messages in front are one list of parts; those later, and all of
        them if they were not instructions, are among the input.
        """
        later = SystemMessage([TextPart("b"), TextPart("c")], name="ops")
        chat = [SystemMessage("a"), later, UserMessage("hi"), SystemMessage("d")]

        export = dump(chat)

        assert ["a", "b", "c"] == [p["content"] for p in export.payload[INSTRUCTIONS]]
        assert ["user", "system"] == [m["role"] for m in export.payload[INPUT]]
        assert [("messages[1]", "name")] == lost(*chat)
        assert 4 == len(dump(chat, instructions=False).payload[INPUT])
        assert "ops" == dump(chat, instructions=False).payload[INPUT][1]["name"]

    def test_reasons(self):
        """
        The reasons why messages ended are there if all of the output have one, as the
        provider's values; in the messages as the conventions'.
        """
        given = ["tool_calls", "interrupted", "stop_sequence", "odd"]
        choices = [AssistantMessage(response=ResponseMeta(each)) for each in given]

        payload = dump(choices, output=4).payload

        assert ["tool_calls", "error", "stop_sequence", "odd"] == payload[REASONS]
        assert ["tool_call", "error", "stop", "odd"] == [
            raw["finish_reason"] for raw in payload[OUTPUT]
        ]
        assert REASONS not in dump([*choices, AssistantMessage()], output=5).payload
        assert REASONS not in dump([AssistantMessage(response=ResponseMeta())]).payload
        assert REASONS not in dump([UserMessage("a")]).payload


class TestParts:
    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            (RefusalPart("a"), {"type": "refusal", "content": "a"}),
            (
                ImagePart(url="http://a", media_type="image/png"),
                {
                    "type": "uri",
                    "mime_type": "image/png",
                    "modality": "image",
                    "uri": "http://a",
                },
            ),
            (
                AudioPart(data=b"hi"),
                {"type": "blob", "modality": "audio", "content": "aGk="},
            ),
            (
                VideoPart(url="data:video/mp4;base64,aGk="),
                {
                    "type": "blob",
                    "mime_type": "video/mp4",
                    "modality": "video",
                    "content": "aGk=",
                },
            ),
            (
                FilePart(data=b"hi", media_type="application/pdf"),
                {
                    "type": "blob",
                    "mime_type": "application/pdf",
                    "modality": "document",
                    "content": "aGk=",
                },
            ),
            (
                FilePart(url="http://a", media_type="audio/wav"),
                {
                    "type": "uri",
                    "mime_type": "audio/wav",
                    "modality": "audio",
                    "uri": "http://a",
                },
            ),
            (
                FilePart(data=b"hi", media_type="video/mp4"),
                {
                    "type": "blob",
                    "mime_type": "video/mp4",
                    "modality": "video",
                    "content": "aGk=",
                },
            ),
            (
                UnknownPart({"type": "compaction", "id": "x"}, source="otel"),
                {"type": "compaction", "id": "x"},
            ),
            (UnknownPart({"type": "x", "y": 1}, source="gemini"), {"type": "x"}),
            (UnknownPart({"y": 1}, source="otel"), {"type": "unknown"}),
            (UnknownPart({"type": "file"}, source="openai"), {"type": "unknown"}),
        ],
    )
    def test_kinds(self, part, expected):
        """Each kind of part has its word."""
        assert [expected] == parts(part)

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ('{"a": 1.5}', {"a": 1.5}),
            ('{"a": ', '{"a": '),
            ('{"a": NaN}', '{"a": NaN}'),
            (f'{{"a": {2**63}}}', f'{{"a": {2**63}}}'),
            (f'{{"a": {2**63 - 1}}}', {"a": 2**63 - 1}),
            ("[" * 90 + "]" * 90, json.loads("[" * 90 + "]" * 90)),
            ("[" * 91 + "]" * 91, "[" * 91 + "]" * 91),
            ('{"\\ud800": 1}', '{"\\ud800": 1}'),
            ("9" * 10_000, "9" * 10_000),
        ],
    )
    def test_arguments(self, arguments, expected):
        """
        Arguments are the JSON value they are; what is none that an attribute
        can hold stays the text it is.
        """
        assert expected == call(arguments)["arguments"]
        chat = [AssistantMessage(tool_calls=[ToolCall("c1", "f", arguments)])]
        written = json.loads(dump(chat, as_text=True).payload[OUTPUT])
        assert expected == written[0]["parts"][0]["arguments"]

    def test_order(self):
        """
        Text and calls are in the order in which they were streamed; a call without an
        id has none.
        """
        parts = [TextPart("a", index=0), TextPart("b", index=2), TextPart("c")]
        calls = [ToolCall("", "f", index=1)]
        (message,) = dump([AssistantMessage(parts, tool_calls=calls)]).payload[OUTPUT]

        assert [
            {"type": "text", "content": "a"},
            {"type": "tool_call", "name": "f"},
            {"type": "text", "content": "b"},
            {"type": "text", "content": "c"},
        ] == message["parts"]

    def test_results(self):
        """A result of more than text is a list of parts."""
        result_message = ToolMessage(
            [TextPart("a"), ImagePart(data=b"hi")], tool_call_id="c1"
        )
        (message,) = dump([result_message]).payload[INPUT]

        assert [
            {"type": "text", "content": "a"},
            {"type": "blob", "modality": "image", "content": "aGk="},
        ] == message["parts"][0]["response"]

    def test_unknown_messages(self):
        """A message of a role we don't know leaves its role."""
        given = [
            UnknownMessage({"role": "critic", "content": "x"}, source="gemini"),
            UnknownMessage({}, source="gemini"),
        ]

        assert [{"role": "critic", "parts": []}, {"role": "unknown", "parts": []}] == (
            dump(given).payload[INPUT]
        )
        assert [("messages[0]", "critic"), ("messages[1]", "unknown")] == lost(*given)


class TestLost:
    @pytest.mark.parametrize(
        ("message", "path", "what"),
        [
            (
                AssistantMessage([ReasoningPart("a", "signed")]),
                ".parts[0]",
                "signature",
            ),
            (UserMessage([FilePart(url="a", name="b")]), ".parts[0]", "name"),
            (UserMessage([ImagePart(url="a", detail="low")]), ".parts[0]", "detail"),
            (
                AssistantMessage(tool_calls=[ToolCall("c", "f", type="custom")]),
                ".tool_calls[0]",
                "type",
            ),
            (ToolMessage("a", tool_call_id="c", tool_name="f"), "", "tool_name"),
            (ToolMessage("a", tool_call_id="c", tool_name="X"), "", "tool_name"),
            (
                UserMessage([UnknownPart({"type": "x"}, source="gemini")]),
                ".parts[0]",
                "x",
            ),
        ],
    )
    def test_listed(self, message, path, what):
        """What the conventions can't represent is listed, and nothing else is."""
        assert [(f"messages[0]{path}", what)] == lost(message)

    def test_another_name(self):
        """A tool's name is known by the call of this id, if it is the same."""
        again = AssistantMessage(tool_calls=[ToolCall("c1", "watch")])

        assert [] == lost(*CHAT, again, CHAT[3].replace(tool_name="watch"))
        assert [("messages[3]", "tool_name")] == lost(
            *CHAT[:3], CHAT[3].replace(tool_name="watch")
        )


class TestUsage:
    def test_all(self):
        """Everything the conventions count apart has its attribute."""
        usage = Usage(
            100,
            50,
            None,
            PromptTokensDetails(audio_tokens=1, cached_tokens=2),
            CompletionTokensDetails(
                audio_tokens=3, reasoning_tokens=4, accepted_prediction_tokens=5
            ),
            {
                "cache_write_tokens": 6,
                "completion_image_tokens": 7,
                "completion_text_tokens": 8,
                "prompt_image_tokens": 9,
                "prompt_text_tokens": 10,
                "others": 11,
            },
        )

        assert {
            "input_tokens": 100,
            "output_tokens": 50,
            "audio.input_tokens": 1,
            "cache_read.input_tokens": 2,
            "audio.output_tokens": 3,
            "reasoning.output_tokens": 4,
            "cache_write.input_tokens": 6,
            "cache_creation.input_tokens": 6,
            "image.output_tokens": 7,
            "text.output_tokens": 8,
            "image.input_tokens": 9,
            "text.input_tokens": 10,
        } == {
            name.removeprefix("gen_ai.usage."): count
            for name, count in usage_attributes(usage).items()
        }

    def test_nothing_to_write(self):
        """No usage is not attributes, and parts that are none have none."""
        sums = {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 0}

        assert sums == usage_attributes(Usage(9))
        assert {} == usage_attributes(None)
