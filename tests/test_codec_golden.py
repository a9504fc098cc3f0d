"""
What was written once is read forever.

A golden file is never changed and never removed. A new version of the format
gets a folder of its own beside `v1`, and `v1` must go on being read.
"""

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest

from conversation_state.aggregator import Aggregator, Entry, LedgerEntry
from conversation_state.codec import _kinds, decode, encode, from_data, to_data
from conversation_state.documents import Document
from conversation_state.messages import (
    COMMON,
    AssistantMessage,
    LogProb,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    KINDS,
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.templates import Placeholder, Template
from conversation_state.timeline import Moment, Timeline
from conversation_state.tools import Parameter, ToolCall, ToolInfo
from conversation_state.tree import MessageTree
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

GOLDEN = Path(__file__).parent / "golden" / "v1"

RUN = UUID("0198c3a2-7b10-7000-8000-00000000000a")
TURN = UUID("0198c3a2-7b10-7000-8000-00000000000b")
ROOT = UUID("0198c3a2-7b10-7000-8000-000000000001")
PARENT = UUID("0198c3a2-7b10-7000-8000-000000000002")
FORK = UUID("0198c3a2-7b10-7000-8000-000000000003")

JSON = {
    "deep": [[{"": [None]}], []],
    # No 1e308: orjson 3.10 writes 1e308 and 3.13 writes 1e+308.
    "float": [0.1, -0.0, 5e-324, 12345678.9],
    "integer": [0, -(2**63), 2**63 - 1, 2**64 - 1],
    "text": ["", '\x00\n"\\/', "Zürich, 東京, 🚂"],
    "truth": [True, False, None],
    "with spaces, \x7f and ü": {},
}
STAMPED: dict[str, Any] = {
    "name": "ann",
    "run_id": RUN,
    "turn_id": TURN,
    "timestamp": datetime(2025, 2, 28, 23, 59, 59, 999_999, UTC),
}
USAGE = Usage(
    1_200,
    34,
    1_300,
    PromptTokensDetails(audio_tokens=5, cached_tokens=1_024),
    CompletionTokensDetails(
        accepted_prediction_tokens=1,
        audio_tokens=2,
        reasoning_tokens=3,
        rejected_prediction_tokens=4,
    ),
    {"cache_write_tokens": 64, "prompt_tokens": 2**63 - 1, "extra": 1},
)
CALL = ToolCall(
    "call_1",
    "search",
    '{"q": "trains',
    index=1,
    type="custom",
    metadata=JSON,
    unknown={"since_v2": [1]},
)
EXTRAS: dict[str, Any] = {
    "metadata": JSON,
    "index": 0,
    "unknown": {"since_v2": {"a": 1}},
}
PARTS = (
    TextPart("first"),
    TextPart("", **EXTRAS),
    ImagePart(url="https://example.com/a.png", detail="high"),
    ImagePart(data=b"GIF89a", media_type="image/gif", **EXTRAS),
    AudioPart(url="https://example.com/a.wav"),
    AudioPart(data=b"\x00\xff", media_type="audio/wav", **EXTRAS),
    VideoPart(url="https://example.com/a.mp4"),
    VideoPart(data=b"\x00", media_type="video/mp4", **EXTRAS),
    FilePart(url="https://example.com/a.pdf"),
    FilePart(data=b"%PDF", media_type="application/pdf", name="a.pdf", **EXTRAS),
    UnknownPart({"metadata": 5, "raw": {}, "type": "hologram"}),
    UnknownPart({"type": "text"}, source="anthropic", **EXTRAS),
    UnknownPart({}),
)
MESSAGES = (
    SystemMessage("Be brief."),
    SystemMessage([TextPart("Be "), TextPart("brief.")], **STAMPED, metadata={"a": 1}),
    UserMessage("When is the next train to Zürich?"),
    UserMessage("And back?", **STAMPED, metadata=JSON, unknown={"mood": "hurried"}),
    UserMessage(PARTS, **STAMPED),
    UserMessage([]),
    AssistantMessage(),
    AssistantMessage([], response=ResponseMeta()),
    AssistantMessage(
        [
            ReasoningPart("Zürich is", signature="c2lnbmVk", **EXTRAS),
            ReasoningPart(),
            TextPart("At 12:30.", index=2),
            RefusalPart("No.", **EXTRAS),
        ]
    ),
    AssistantMessage(
        "Let me look.",
        tool_calls=[CALL, ToolCall("", "", "{}"), ToolCall("call_2", "clock")],
        response=ResponseMeta(
            "tool_calls",
            USAGE,
            (
                LogProb("Let", -0.25, b"Let", (LogProb("I", -2.0),)),
                LogProb("\ufffd", -9999.0, b""),
            ),
            "gpt-4o-2024-08-06",
            unknown={"service_tier": "default"},
        ),
        name="agent",
        run_id=RUN,
        turn_id=UUID(int=0),
        timestamp=datetime(
            1883,
            11,
            18,
            12,
            tzinfo=timezone(-timedelta(hours=4, minutes=56, seconds=2)),
        ),
        metadata={"a": 1},
        unknown={"b": 2},
    ),
    AssistantMessage("", response=ResponseMeta(logprobs=())),
    ToolMessage("12:30", tool_call_id="call_1"),
    ToolMessage(
        [TextPart("no such place")],
        tool_call_id="call_2",
        tool_name="clock",
        is_error=True,
        **STAMPED,
        metadata={"a": 1},
        unknown={"b": 2},
    ),
    UnknownMessage({"content": 5, "name": None, "role": "narrator"}),
    UnknownMessage({"role": "user"}, source="gemini"),
    UnknownMessage(
        {"type": "event"}, **STAMPED, metadata={"a": 1}, unknown={"content": 2}
    ),
)
STATE = Aggregator.rebuild(
    id=FORK,
    parent_id=PARENT,
    root_id=ROOT,
    init_len=2,
    init_ledger_len=1,
    entries=[Entry(f"entry-{i:x}", message) for i, message in enumerate(MESSAGES)],
    ledger=[
        LedgerEntry("request-1", Usage(10, 5), "gpt-4o"),
        LedgerEntry("request-2", Usage(extra={**USAGE.extra, "prompt_tokens": 0}), ""),
        LedgerEntry("ü", Usage(), ""),
    ],
)


def state_of(length: int, ledger_length: int, *more: Any) -> Aggregator:
    """
    A state that has the beginning of `STATE` in common with it, and more
    entries and ledger entries of its own.
    """
    entries = [each for each in more if isinstance(each, Entry)]
    ledger = [each for each in more if isinstance(each, LedgerEntry)]
    return Aggregator.rebuild(
        id=PARENT,
        parent_id=None,
        root_id=PARENT,
        init_len=0,
        init_ledger_len=0,
        entries=[*STATE.entries[:length], *entries],
        ledger=[*STATE.ledger[:ledger_length], *ledger],
    )


OTHER = (
    Entry("entry-other", UserMessage("No.")),
    LedgerEntry("request-other", Usage(1, 2), "gpt-4o"),
)
BEGUN: Timeline[Any] = Timeline.begin(state_of(0, 0), "forgotten", limit=9)
TIMELINE = (
    BEGUN.commit(state_of(1, 0), "asked: 東京")
    .commit(state_of(2, 1), group="typing")
    .commit(STATE, "forked")
    .undo()
    .commit(state_of(2, 1, *OTHER))
    .commit(JSON)
    .commit(USAGE)
    .undo()
    .commit(STATE.checkpoint("before"))
    .commit("text")
    .commit(MESSAGES[:3])
    .goto(3)
)
TOOL = ToolInfo(
    "trains",
    "Trains that leave soon.",
    {
        "any": Parameter("array"),
        "seats": Parameter("integer", enum=[2, 1]),
        "thing": Parameter("object"),
        "to": Parameter("string", "Where to", required=True, enum=["Bern", "Zürich"]),
        "type": Parameter(
            "object",
            properties={
                "night": Parameter("boolean", required=True),
                "none": Parameter("null"),
                "speed": Parameter("number", enum=[-0.5, 0, 2**64 - 1]),
            },
        ),
        "via": Parameter("array", items=Parameter("string")),
    },
    metadata=JSON,
    unknown={"since_v2": [1]},
)
DOCUMENT = (
    Document("doc-1", "Trains to Bern leave at 12:30.", JSON, unknown={"since_v2": 1})
    .with_score(0.75)
    .with_sub_indexes(["timetable", "東京"])
    .with_dense_vector([0.5, -1.25, 3.0])
    .with_sparse_vector({-1: 0.5, 30522: 2.0})
    .with_dsl({"match": {"text": ["Bern"]}})
    .with_extra_info("page 3")
)
TEMPLATE = Template(
    *MESSAGES,
    Placeholder("history"),
    Placeholder("größe", optional=True),
    syntax="jinja2",
)
TIMES = Aggregator.rebuild(
    id=ROOT,
    parent_id=None,
    root_id=ROOT,
    init_len=0,
    init_ledger_len=0,
    entries=[],
    ledger=[
        LedgerEntry("request-1", Usage(10, 5), "gpt-4o", STAMPED["timestamp"]),
        LedgerEntry("request-2", Usage(1), "", datetime(2025, 6, 1, 12, tzinfo=UTC)),
        LedgerEntry("request-3", Usage(1), "", MESSAGES[9].timestamp),
    ],
)
CAVEATS = Aggregator.rebuild(
    id=ROOT,
    parent_id=None,
    root_id=ROOT,
    init_len=0,
    init_ledger_len=0,
    entries=[],
    ledger=[
        LedgerEntry("1", Usage(1), "gpt-4o", STAMPED["timestamp"], "interrupted"),
        LedgerEntry("2", Usage(1), "", None, "service_tier 'flex'"),
        LedgerEntry("3", Usage(1), "", None, "interrupted, speed 'fast'"),
    ],
)
VALUES = {
    "aggregator": STATE,
    # Added before the first release, when ledger entries got a time.
    "aggregator.times": TIMES,
    # Added before the first release, when ledger entries got a caveat.
    "aggregator.caveats": CAVEATS,
    "checkpoint": STATE.checkpoint("before booking: 東京"),
    "document": DOCUMENT,
    "message": MESSAGES[9],
    "message_tree": MessageTree.of(STATE, state_of(2, 1, *OTHER), state_of(2, 1)),
    "messages": MESSAGES,
    "part": PARTS[3],
    "template": TEMPLATE,
    "timeline": TIMELINE,
    # Added before the first release, when moments got notes.
    "timeline.notes": Timeline.begin(1).commit(2, "typed", note={"cursor": [3, JSON]}),
    "tool_call": CALL,
    "tool_info": TOOL,
    "turn": STATE.turn,
    "usage": USAGE,
}


def golden(kind):
    """The bytes of a golden file. It ends in a line break, as files do."""
    return (GOLDEN / f"{kind}.json").read_bytes().removesuffix(b"\n")


def fields_in(data, seen):
    """
    Add to *seen* what fields objects of each role and type in *data* have, and what
    all have.
    """
    if isinstance(data, list):
        for item in data:
            fields_in(item, seen)
    elif isinstance(data, dict):
        for tag in (data.get("role"), data.get("type"), None):
            seen[str(tag)].update(data)

        for name in data.keys() - {"metadata", "raw"}:
            fields_in(data[name], seen)


@pytest.mark.parametrize("kind", VALUES)
class TestGolden:
    """The documents of version 1."""

    def test_is_read_forever(self, kind):
        """What version 1 wrote is the value it was written from."""
        value = decode(golden(kind))

        assert VALUES[kind] == value

    def test_is_written_alike(self, kind):
        """That value is written as the same bytes today."""
        assert golden(kind) == encode(VALUES[kind])
        assert golden(kind) == encode(decode(golden(kind)))

    def test_is_plain_json(self, kind):
        """Any JSON parser reads it, and what it gives is what `to_data` gives."""
        data = json.loads(golden(kind))

        assert data == to_data(VALUES[kind])
        assert VALUES[kind] == from_data(data)


class TestGoldenFiles:
    """The golden files as a whole."""

    def test_every_kind(self):
        """There is one for each kind of document there is."""
        assert {path.stem for path in GOLDEN.iterdir()} == VALUES.keys()
        assert {name.partition(".")[0] for name in VALUES} == _kinds.READS.keys()

    def test_every_field(self):
        """Each field of each class is in one of them, and of each message and part."""
        seen: dict[str, set[str]] = defaultdict(set)
        for name in VALUES:
            fields_in(json.loads(golden(name)), seen)

        classes: list[Any] = [*{*map(type, MESSAGES)}, *KINDS.values(), UnknownPart]
        for cls in classes:
            tag: str = getattr(cls, "role", "") or cls.kind
            own = {field.name for field in attrs.fields(cls)} - {"_common", "unknown"}
            common = {*COMMON[:-1]} if cls in map(type, MESSAGES) else set()

            assert own | common <= seen[tag], tag

        for cls in (
            ToolCall,
            LogProb,
            ResponseMeta,
            Usage,
            ToolInfo,
            Parameter,
            Moment,
        ):
            names = {field.name for field in attrs.fields(cls)} - {"unknown", "number"}

            assert {name for name in names if name[0] != "_"} <= seen["None"], cls

        assert {*LedgerEntry._fields} <= seen["None"]
        assert {"limit", "first", "present", "redo", "json"} <= seen["None"]
        assert {"origin", "after", "ledger_after", "since_v2"} <= seen["None"]
