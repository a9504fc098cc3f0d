"""
What the tests of Pydantic AI's adapter share: its messages, by the kind and by
Hypothesis.
"""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from hypothesis import strategies as st
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    Citation,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SpeechPart,
    StructuredContent,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
    VideoUrl,
    WebCitationSource,
)
from pydantic_ai.usage import RequestUsage

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n\xff\xfe?>"


def settled(messages):
    return ModelMessagesTypeAdapter.validate_json(written(messages))


def plain(messages):
    return ModelMessagesTypeAdapter.dump_python(messages, mode="json")


def written(messages):
    return ModelMessagesTypeAdapter.dump_json(messages)


def asks(text, **fields):
    return ModelRequest(parts=[UserPromptPart(text, timestamp=NEW_YEAR)], **fields)


def says(text, **fields):
    return ModelResponse(parts=[TextPart(text)], timestamp=NEW_YEAR, **fields)


def calls(*ids, **fields):
    parts = [ToolCallPart("clock", {"zone": "UTC"}, tool_call_id=id) for id in ids]
    return ModelResponse(parts=parts, timestamp=NEW_YEAR, **fields)


def answers(*ids, text="noon"):
    parts = [ToolReturnPart("clock", text, id, timestamp=NEW_YEAR) for id in ids]
    return ModelRequest(parts=parts)


EVERYTHING = [
    ModelRequest(
        parts=[
            SystemPromptPart("Be brief.", timestamp=NEW_YEAR, dynamic_ref="now"),
            UserPromptPart(
                [
                    "Look:",
                    ImageUrl("https://x/y.png", vendor_metadata={"detail": "low"}),
                    AudioUrl("https://x/y.mp3", force_download=True),
                    VideoUrl("https://x/y.mp4", identifier="film"),
                    DocumentUrl("https://x/noext"),
                    BinaryContent(PNG, media_type="image/png"),
                    BinaryContent(b"%PDF", media_type="application/pdf"),
                    BinaryContent(b"RIFF", media_type="audio/wav"),
                    BinaryContent(b"", media_type="video/mp4"),
                    UploadedFile("file-1", provider_name="openai"),
                    TextContent("told", metadata={"page": 3}),
                    StructuredContent(value={"a": [1]}, tag="x"),
                    CachePoint(ttl="1h"),
                ],
                timestamp=NEW_YEAR,
            ),
        ],
        instructions="Speak English.",
        timestamp=NEW_YEAR,
        run_id="01980000-0000-7000-8000-000000000000",
        conversation_id="chat",
        metadata={"tenant": 7, "conversation_state": {"anthropic": {"mine": 1}}},
    ),
    ModelResponse(
        parts=[
            ThinkingPart("Hm.", signature="c2ln", provider_name="anthropic"),
            ThinkingPart("", id="redacted_thinking", signature="eA=="),
            TextPart("Let me look.", citations=[Citation([WebCitationSource("u")])]),
            NativeToolCallPart("web_search", {"q": 2**60}, tool_call_id="ws"),
            NativeToolReturnPart(
                "web_search", [1], tool_call_id="ws", timestamp=NEW_YEAR
            ),
            ToolCallPart("clock", {"zone": "UTC", "n": 2**70}, "c1", id="fc_1"),
            ToolCallPart("clock", '{"zone": "CET"', "c2"),
            ToolCallPart("clock", None, "c3"),
            ToolCallPart("clock", "", "c4"),
            TextPart("Wait."),
            FilePart(BinaryContent(PNG, media_type="image/png"), id="img_1"),
            SpeechPart(speaker="assistant", transcript="Hello.", id="s1"),
            CompactionPart(content=None, provider_details={"encrypted_content": "x"}),
        ],
        usage=RequestUsage(
            input_tokens=100,
            cache_read_tokens=60,
            cache_write_tokens=10,
            output_tokens=20,
            output_reasoning_tokens=5,
            details={"odd": 1},
            cost=Decimal("0.0123"),
        ),
        model_name="claude",
        provider_name="anthropic",
        provider_details={"finish_reason": "tool_use", "big": 2**60},
        provider_response_id="msg_1",
        finish_reason="tool_call",
        timestamp=datetime(2026, 1, 1, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5))),
        run_id="no uuid",
        metadata={},
    ),
    ModelRequest(
        parts=[
            RetryFeedbackPart(
                [{"type": "x", "loc": ("a", 1), "msg": "m", "input": {"q": 1}}],
                retry=RetryInfo("validation_error"),
                timestamp=NEW_YEAR,
            ),
            ToolReturnPart("clock", {"a": [1, None]}, "c1", timestamp=NEW_YEAR),
            ToolReturnPart(
                "clock",
                ["see", BinaryContent(PNG, media_type="image/png"), {"n": 1}],
                "c2",
                metadata={"took": 0.5},
                timestamp=NEW_YEAR,
            ),
            ToolReturnPart("clock", None, "c3", timestamp=NEW_YEAR, outcome="failed"),
            ToolReturnPart(
                "clock",
                BinaryContent(PNG, media_type="image/png"),
                "c4",
                timestamp=NEW_YEAR,
                outcome="denied",
            ),
            CompactionPart(content="They talked."),
            UserPromptPart([], timestamp=NEW_YEAR),
            UserPromptPart("", timestamp=NEW_YEAR),
        ],
        instructions="Speak French.",
        state="interrupted",
    ),
    ModelRequest(parts=[], instructions="Speak French."),
    ModelRequest(parts=[], instructions="", metadata={"big": 2**60}),
    ModelRequest(parts=[]),
    ModelResponse(parts=[], timestamp=NEW_YEAR, state="interrupted"),
    ModelResponse(parts=[TextPart("")], timestamp=NEW_YEAR, model_name=""),
    asks("Thanks!"),
]


# Each kind with each of its fields now and then; what Hypothesis draws in many
# steps is slow to draw, and these are drawn by the hundred.
_TEXTS = st.sampled_from(["", "a", "é\U0001f680", "\0", '{"a": 1}', "null"])
_IDS = st.sampled_from(["", "c1", "c2", "01980000-0000-7000-8000-000000000000"])
_TIMES = st.sampled_from(
    [NEW_YEAR, datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=-3, minutes=30)))]
)
_MAPS = st.sampled_from(
    [None, {}, {"a": None}, {"n": 2**60, "deep": [[{"b": 0.5}]]}, {"detail": "low"}]
)
_VALUES = _TEXTS | st.sampled_from([None, 0, True, 2**60, [], ["a", {}], {"kind": "x"}])
_TYPES = st.sampled_from(["image/png", "audio/wav", "text/plain", "odd"])
_BYTES = st.builds(
    BinaryContent, st.sampled_from([b"", PNG]), media_type=_TYPES, vendor_metadata=_MAPS
)
_CONTENT = st.one_of(
    _TEXTS,
    _BYTES,
    st.builds(ImageUrl, st.just("https://x/y.png"), vendor_metadata=_MAPS),
    st.builds(
        DocumentUrl, st.just("x"), media_type=_TYPES, force_download=st.booleans()
    ),
    st.builds(TextContent, _TEXTS, metadata=_VALUES),
    st.sampled_from([CachePoint(), StructuredContent(value=[1])]),
)
_OWN = {"id": st.none() | _IDS, "provider_details": _MAPS}

requests = st.builds(
    ModelRequest,
    parts=st.lists(
        st.one_of(
            st.builds(SystemPromptPart, _TEXTS, timestamp=_TIMES, metadata=_MAPS),
            st.builds(
                UserPromptPart,
                _TEXTS | st.lists(_CONTENT, max_size=2),
                timestamp=_TIMES,
            ),
            st.builds(
                ToolReturnPart,
                _IDS.filter(bool),  # one without a name gets that of its call
                _VALUES | st.lists(_CONTENT, max_size=2),
                _IDS,
                metadata=_VALUES,
                timestamp=_TIMES,
                outcome=st.sampled_from(["success", "failed", "denied", "retried"]),
            ),
            st.sampled_from(EVERYTHING[0].parts + EVERYTHING[2].parts),
        ),
        max_size=3,
    ),
    instructions=st.none() | _TEXTS,
    run_id=st.none() | _IDS,
    metadata=_MAPS,
)
responses = st.builds(
    ModelResponse,
    parts=st.lists(
        st.one_of(
            st.builds(TextPart, _TEXTS, **_OWN),
            st.builds(ThinkingPart, _TEXTS, signature=st.none() | _TEXTS, **_OWN),
            st.builds(ToolCallPart, _IDS, _TEXTS | _MAPS, _IDS, **_OWN),
            st.builds(FilePart, _BYTES, **_OWN),
            st.sampled_from(EVERYTHING[1].parts),
        ),
        max_size=3,
    ),
    usage=st.sampled_from(
        [
            RequestUsage(),
            RequestUsage(input_tokens=-1),
            RequestUsage(input_tokens=2**63, output_tokens=1),
            EVERYTHING[1].usage,
        ]
    ),
    model_name=st.none() | _IDS,
    timestamp=_TIMES,
    provider_details=st.sampled_from([None, {"finish_reason": "odd"}, {"n": 2**60}]),
    finish_reason=st.sampled_from([None, "stop", "tool_call"]),
    run_id=st.none() | _IDS,
    metadata=_MAPS,
    state=st.sampled_from(["complete", "interrupted"]),
)
histories = st.lists(requests | responses, max_size=3)
