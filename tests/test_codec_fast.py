"""The fast pass of the codec: it reads what the slow pass reads, or is in doubt."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch
from uuid import UUID

import attrs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from conversation_state._canonical import is_loadable
from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.aggregator import Aggregator
from conversation_state.codec import (
    _kinds,
    _messages,
    _states,
    decode,
    decode_messages,
    encode,
    from_data,
    to_data,
)
from conversation_state.codec._fast import (
    MESSAGE_READERS,
    UNUSUAL_ERRORS,
    UnusualValueError,
)
from conversation_state.codec._reader import CodecReader
from conversation_state.documents import Document
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    COMMON,
    PLAIN,
    AssistantMessage,
    Envelope,
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
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.templates import Placeholder, Template
from conversation_state.testing.strategies import (
    aggregators,
    assistant_messages,
    messages,
    states,
)
from conversation_state.tools import Parameter, ToolCall, ToolInfo
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

# As a version wrote it that didn't know the type.
WRAPPED = {"type": "unknown", "raw": {"type": "text", "text": "hi"}, "index": 1}
NOTES = {"a": [1, {"b": None}], "c": 0.5, "d": {}}
EXTRAS: dict[str, Any] = {"metadata": NOTES, "unknown": {"z": 1, "new": [NOTES]}}
USAGE = Usage(
    10,
    5,
    17,
    PromptTokensDetails(cached_tokens=4),
    CompletionTokensDetails(reasoning_tokens=3),
    {"cache_write_tokens": 7},
)
MEDIA: dict[str, Any] = {"url": "https://example.com/a", "media_type": "a/b"}
PARTS = (
    TextPart("Zürich", index=0, **EXTRAS),
    ImagePart(data=b"GIF89a", detail="high", index=0, **EXTRAS),
    AudioPart(**MEDIA),
    VideoPart(**MEDIA, index=2),
    FilePart(**MEDIA, name="a.pdf", metadata=NOTES),
    UnknownPart({"type": "hologram", "x": [NOTES]}),
    UnknownPart(NOTES, source="anthropic", index=1, **EXTRAS),
)
CALL = ToolCall("c1", "clock", "{}", index=1, type="custom", **EXTRAS)
RESPONSE = ResponseMeta(
    "stop",
    USAGE,
    (LogProb("a", -0.5, b"\xff", (LogProb("b", -1.5),)),),
    "m",
    "id",
    unknown={"since_v2": [1]},
)
USUAL = [
    SystemMessage("Be brief."),
    SystemMessage([TextPart("Be brief.")], name="ann"),
    UserMessage("hi"),
    UserMessage("", **EXTRAS),
    UserMessage(PARTS, metadata=NOTES),
    UserMessage([]),
    Envelope.new(name="ann", metadata=NOTES).user("hi"),
    AssistantMessage(),
    AssistantMessage([ReasoningPart("So", signature="s"), RefusalPart("no"), *PARTS]),
    AssistantMessage("", tool_calls=[CALL, ToolCall("c2", "clock")]),
    AssistantMessage("hello", response=RESPONSE, **EXTRAS),
    AssistantMessage("hello", response=ResponseMeta(logprobs=())),
    ToolMessage("12:30", tool_call_id="c1", tool_name="clock"),
    ToolMessage(PARTS, tool_call_id="c1", is_error=True, **EXTRAS),
]


def read_fast(raw, *, is_parsed=True) -> Any:
    """The message as the fast pass reads it; None if it is in doubt."""
    if not is_parsed and not is_loadable(raw):
        return None

    try:
        return MESSAGE_READERS[raw["role"]](raw, {})
    except (*UNUSUAL_ERRORS, TypeError):
        return None


def read_slowly(raw) -> Any:
    """The message as the slow pass reads it; None if there are problems."""
    reader = CodecReader()
    tagged = _messages._MESSAGES
    message = _messages._read_tagged(reader, raw, None, tagged)
    return None if reader.problems.count else message


def check_passes(raw, *, is_parsed=True):
    """What the fast pass reads, the slow one reads as the same."""
    fast = read_fast(raw, is_parsed=is_parsed)
    if fast is not None:
        slow = read_slowly(raw)

        assert slow is not None, raw
        assert same(fast, slow), raw


def same(a: Any, b: Any) -> bool:
    """Whether two messages are alike in all that can be observed."""
    return (
        (a, repr(a), hash(a), encode(a)) == (b, repr(b), hash(b), encode(b))
        and [*map(type, a._common)] == [*map(type, b._common)]
        and (a._common is PLAIN) == (b._common is PLAIN)
        and type(a) is type(b)
    )


# What a field is changed to: of each JSON type, what is valid somewhere, and
# what is nearly valid.
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**63 - 1, 2**63, 1.0, -0.5, 1e19, -1e300),
    *("", "x", "é", "text", "image", "user", "tool", "unknown", "aGk=", "aGk"),
    "2025-01-01T00:00:00+00:00",
    "2025-01-01T00:00:00",
    "0198c3a2-7b10-7000-8000-00000000000a",
    "0198c3a27b10700080000000000000a0",
    *([], {}, [1], {"a": 1}, {"b": {"a": []}, "a": 1e19}, [[]]),
    *([{"type": "text", "text": ""}], [{"type": "reasoning"}]),
    *({"type": "new"}, {"role": "user"}, {"prompt_tokens": 1, "new": 0}),
    *([{"id": "", "name": ""}], [{"token": "", "logprob": 0}]),
    {"usage": {"extra": {"a": 1}}},
    {"usage": {"prompt_tokens": 2**63 - 1, "completion_tokens": 1}},
]
OTHERS = st.sampled_from(VALUES)
# What no JSON parser makes.
NO_JSON: list[Any] = [
    *("\ud800", float("nan"), float("inf"), 2**64, -(2**63) - 1, (1,), b""),
    *({1: 2}, {"\udfff": 1}, {"a": "\ud800"}, [float("nan")], {"a": (1,)}),
]
FOREIGN = st.sampled_from(NO_JSON)
NAMES = [
    *("role", "content", "parts", "name", "run_id", "turn_id", "timestamp"),
    *("metadata", "unknown", "tool_calls", "response", "tool_call_id"),
    *("tool_name", "is_error", "type", "text", "index", "url", "data"),
    *("media_type", "detail", "signature", "source", "raw", "id", "arguments"),
    *("usage", "logprobs", "model", "finish_reason", "top", "bytes", "token"),
    *("logprob", "total_tokens", "extra", "prompt_tokens_details", "new"),
]
KEYS = st.sampled_from(NAMES)


@st.composite
def mutants(draw, others=OTHERS):
    """The raw value of a message with up to three fields altered, dropped or added."""
    message = draw(st.sampled_from(USUAL) | messages() | assistant_messages())
    raw = deepcopy(to_data(message)["message"])
    for _ in range(draw(st.integers(1, 3))):
        mutate(draw, raw, others)

    return raw


def mutate(draw, raw, others):
    """Alters, drops or adds something somewhere in *raw*."""
    holder = draw(st.sampled_from(list(containers(raw))))
    if isinstance(holder, list):
        at = draw(st.integers(0, len(holder)))
        holder[at : at + draw(st.integers(0, 1))] = [deepcopy(draw(others))]
    elif holder and draw(st.booleans()):
        value = holder.pop(draw(st.sampled_from(sorted(holder))))
        if draw(st.booleans()):
            holder[draw(KEYS)] = value
    else:
        key = draw(st.sampled_from(sorted(holder)) if holder else KEYS)
        holder[draw(st.just(key) | KEYS)] = deepcopy(draw(others))


def containers(value, but_not=()):
    """Each object and array in *value*, *but_not* what is under these keys."""
    if isinstance(value, (dict, list)):
        yield value
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            if key not in but_not:
                yield from containers(item, but_not)


ABOUT: dict[str, Any] = {"metadata": {"a": 1}, "unknown": {"since_v2": 1}}
OF_PARTS: dict[str, Any] = {"index": 0, **ABOUT}
OF_MEDIA: dict[str, Any] = {"url": "a", "data": b"x", "media_type": "a/b", **OF_PARTS}
OF_MESSAGES: dict[str, Any] = {
    "name": "ann",
    "run_id": UUID(int=5),
    "turn_id": UUID(int=6),
    "timestamp": datetime(2025, 1, 2, tzinfo=UTC),
    **ABOUT,
}
NEW = {"type": "new", "role": "new"}
# Each value class, what it needs, and another value of each of its fields.
FIELDS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (SystemMessage, {"content": ""}, {"content": "x", **OF_MESSAGES}),
    (UserMessage, {"content": ""}, {"content": "x", **OF_MESSAGES}),
    (
        AssistantMessage,
        {},
        {"content": "x", "tool_calls": [CALL], "response": RESPONSE, **OF_MESSAGES},
    ),
    (
        ToolMessage,
        {"content": "", "tool_call_id": "c"},
        {"content": "x", "tool_call_id": "d", "tool_name": "t", "is_error": True}
        | OF_MESSAGES,
    ),
    (UnknownMessage, {"raw": NEW}, {"raw": {"a": 1}, "source": "s", **OF_MESSAGES}),
    (TextPart, {"text": ""}, {"text": "x", **OF_PARTS}),
    (RefusalPart, {"text": ""}, {"text": "x", **OF_PARTS}),
    (ReasoningPart, {}, {"text": "x", "signature": "s", **OF_PARTS}),
    (ImagePart, {"url": "b"}, {"detail": "high", **OF_MEDIA}),
    (AudioPart, {"url": "b"}, OF_MEDIA),
    (VideoPart, {"url": "b"}, OF_MEDIA),
    (FilePart, {"url": "b"}, {"name": "n", **OF_MEDIA}),
    (UnknownPart, {"raw": NEW}, {"raw": {"a": 1}, "source": "s", **OF_PARTS}),
    (
        ToolCall,
        {"id": "", "name": ""},
        {"id": "x", "name": "x", "arguments": "x", "type": "x", **OF_PARTS},
    ),
    (
        LogProb,
        {"token": "", "logprob": -1.0},
        {"token": "x", "logprob": -2.0, "bytes": b"", "top": [LogProb("a", -1.0)]},
    ),
    (
        ResponseMeta,
        {},
        {"finish_reason": "x", "usage": USAGE, "logprobs": (), "model": "x", "id": "x"}
        | {"unknown": ABOUT},
    ),
    (
        Usage,
        {},
        {
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "total_tokens": 1,
            "prompt_tokens_details": PromptTokensDetails(cached_tokens=1),
            "completion_tokens_details": CompletionTokensDetails(audio_tokens=1),
            "extra": {"a": 1},
        },
    ),
    (PromptTokensDetails, {}, dict.fromkeys(PromptTokensDetails._names, 1)),
    (CompletionTokensDetails, {}, dict.fromkeys(CompletionTokensDetails._names, 1)),
    (
        ToolInfo,
        {"name": "t"},
        {"name": "x", "description": "x", "parameters": {}, **ABOUT},
    ),
    (
        Parameter,
        {"type": "string"},
        {"type": "null", "description": "x", "required": True, "enum": ["a"]},
    ),
    (Parameter, {"type": "array"}, {"items": Parameter("null")}),
    (Parameter, {"type": "object"}, {"properties": {"a": Parameter("null")}}),
    (Document, {"id": "", "content": ""}, {"id": "x", "content": "x", **ABOUT}),
    (Placeholder, {"key": "k"}, {"key": "x", "optional": True}),
]


HOLDERS: dict[type, Any] = {
    Part: lambda part: AssistantMessage([part]),
    ToolCall: lambda call: AssistantMessage(tool_calls=[call]),
    ResponseMeta: lambda response: AssistantMessage(response=response),
    LogProb: lambda one: AssistantMessage(response=ResponseMeta(logprobs=(one,))),
    PromptTokensDetails: lambda counts: Usage(prompt_tokens_details=counts),
    CompletionTokensDetails: lambda counts: Usage(completion_tokens_details=counts),
    Parameter: lambda parameter: ToolInfo("t", parameters={"p": parameter}),
    Placeholder: Template,
}


def hold(value):
    """*value*, or a value that holds it: what the fast pass is for."""
    kinds = [HOLDERS[kind] for kind in HOLDERS if isinstance(value, kind)]
    return kinds[0](value) if kinds else value


class TestFields:
    """The fields of all value classes."""

    @pytest.mark.parametrize(
        ("cls", "needed", "name", "value"),
        [
            pytest.param(cls, needed, name, value, id=f"{cls.__name__}.{name}")
            for cls, needed, fields in FIELDS
            for name, value in fields.items()
        ],
    )
    def test_each_alone(self, cls, needed, name, value):
        """A value in which one field alone is set is decoded as it was."""
        given = {key: needed[key] for key in needed if {key, name} != {"url", "data"}}
        held = hold(cls(**{**given, name: value}))
        read = decode(encode(held))

        assert held != hold(cls(**needed))
        assert held == read == from_data(to_data(held))
        assert repr(held) == repr(read)

    def test_there_is_one_for_each(self):
        """No field of a class is forgotten here."""
        for cls in {cls for cls, _, _ in FIELDS}:
            there = {name for kind, _, them in FIELDS if kind is cls for name in them}
            fields = {field.name for field in attrs.fields(cls) if field.init}
            if "_common" in fields:
                fields = fields - {"_common"} | {*COMMON}

            assert fields == there, cls


class TestRead:
    """Reading a message."""

    @pytest.mark.parametrize("message", USUAL)
    def test_usual_messages_are_in_no_doubt(self, message):
        """The fast pass is for them, or it would be for nothing."""
        raw = to_data(message)["message"]

        assert same(message, read_fast(raw))
        assert same(message, read_fast(raw, is_parsed=False))

    @given(messages())
    def test_both_passes_read_the_same(self, message):
        """Both read what was written as what it was."""
        raw = to_data(message)["message"]
        fast = read_fast(raw)

        assert same(message, read_slowly(raw))
        assert fast is None or same(message, fast)

    @given(mutants())
    @example({"role": "user", "content": "", "metadata": {"a": 2.0**63}})
    @example({"role": "user", "content": "", "name": ""})
    @example({"role": "user", "content": "", "metadata": {}})
    @example({"role": "user", "parts": [WRAPPED]})
    @example({"role": "user", "parts": [{**WRAPPED, "source": ""}]})
    @example({"role": "unknown", "raw": {"role": "user", "content": ""}, "source": ""})
    @example({"role": "unknown", "raw": {"role": "user", "content": ""}})
    @example({"role": "unknown", "raw": {"role": "new"}, "name": "ann"})
    @example({"role": "user", "parts": [{"type": "text", "text": "", "index": True}]})
    def test_fast_pass_reads_no_more_than_the_slow_one(self, raw):
        """
        Whatever was changed: what the fast pass reads, the slow pass reads as
        the same, and what has problems is in doubt.
        """
        check_passes(raw)

    @pytest.mark.parametrize(
        "message",
        [
            *[message for message in USUAL if len(message.parts) < 2],
            *[AssistantMessage([part]) for part in (*PARTS, ReasoningPart("So"))],
        ],
    )
    def test_each_field_with_each_value(self, message):
        """The same with every one field altered, dropped or added."""
        raw = to_data(message)["message"]
        for holder in list(containers(raw, but_not=("metadata", "new", "raw"))):
            keys = sorted(holder) if isinstance(holder, dict) else range(len(holder))
            for key in keys:
                value = holder[key]
                for other in (*VALUES, *NO_JSON):
                    holder[key] = other
                    check_passes(raw, is_parsed=other in VALUES)

                holder[key] = value

            if isinstance(holder, dict):
                for key in keys:
                    value = holder.pop(key)
                    check_passes(raw)
                    holder[key] = value

                for key in {*NAMES} - {*keys}:
                    for other in (None, 0, "", "x", [], {}):
                        holder[key] = other
                        check_passes(raw)

                    del holder[key]

    @given(mutants(OTHERS | FOREIGN))
    def test_values_that_no_parser_made(self, raw):
        """The same for what JSON can't hold: the fast pass doesn't trust it."""
        check_passes(raw, is_parsed=False)

    def test_sorts_metadata_and_nothing_else(self):
        """
        Metadata is in sorted order all the way down, as a constructor makes it; other
        data keeps its order.
        """
        jumbled = {"b": [{"d": 1, "c": {"f": 1, "e": 2}}], "a": {"z": 1, "y": 2}}
        part = {"type": "text", "text": "", "metadata": jumbled, "new": jumbled}
        raw = {"role": "user", "parts": [part, {**jumbled, "type": "new"}]}
        fast = read_fast({**raw, "metadata": jumbled, "new": jumbled})

        assert same(fast, read_slowly({**raw, "metadata": jumbled, "new": jumbled}))
        assert repr(jumbled) == repr(thaw(fast.parts[0].unknown["new"]))
        assert ["a", "b"] == list(fast.parts[0].metadata)

    @pytest.mark.parametrize("message", USUAL)
    def test_what_is_read_is_frozen(self, message):
        """It is made past the constructors, and is no less immutable."""
        read = read_fast(to_data(message)["message"])

        for value in (read, *read.parts, *read.tool_calls):
            with pytest.raises(AttributeError, match="never changes"):
                value.index = 1

    def test_changes_nothing_that_it_is_given(self):
        """Plain data stays as plain, and as it was, whether it was sorted or not."""
        nested = {"b": {"d": [{}], "c": {"e": 1}}, "a": [[{"g": 1, "f": {"h": 2}}]]}
        raw = {
            "role": "user",
            "parts": [{"type": "text", "text": "", "metadata": nested, "new": nested}],
            "metadata": {"only": nested},
            "new": nested,
        }
        before = deepcopy(raw)
        read_fast(raw, is_parsed=False)

        assert repr(before) == repr(raw)
        assert {dict, list} == {type(each) for each in containers(raw)}

    @pytest.mark.parametrize("levels", [99, 100, 101])
    @pytest.mark.parametrize(
        "nest", [lambda x: {"a": x}, lambda x: [x]], ids=["object", "array"]
    )
    def test_levels(self, nest, levels):
        """Metadata of a hundred levels is read; of more it is in doubt."""
        value = 1
        for _ in range(levels - 1):
            value = nest(value)

        raw = {"role": "user", "content": "", "metadata": {"a": value}}
        fast, slow = read_fast(raw), read_slowly(raw)

        assert (fast is None) == (slow is None) == (levels > 100)
        assert fast is None or same(fast, slow)

    def test_only_the_message_in_doubt_is_read_again(self, monkeypatch):
        """One invalid message of many costs one slow reading."""
        read = []
        slow = _messages._read_tagged

        def count(reader, raw, path, tagged):
            read.append(raw)
            return slow(reader, raw, path, tagged)

        monkeypatch.setattr(_messages, "_read_tagged", count)
        data = to_data(tuple(USUAL))
        data["messages"][3] = {"role": "user"}

        with pytest.raises(DecodeError, match=r"\$\.messages\[3\]\.content: missing"):
            from_data(data)

        assert [{"role": "user"}] == read


def outcome(data):
    """The value and its bytes, or the error's text."""
    try:
        state = decode(data) if isinstance(data, bytes) else from_data(data)
    except DecodeError as error:
        return str(error)

    return state, encode(state)


class TestState:
    """Reading a document of a state."""

    @given(st.data(), aggregators() | states(), st.booleans())
    def test_both_passes_read_the_same(self, data, state, is_parsed):
        """Whatever was changed: the same state, or the same problems."""
        document = to_data(state)
        kind = document["kind"]
        if data.draw(st.booleans()):
            mutate(data.draw, document, OTHERS if is_parsed else OTHERS | FOREIGN)
            assume(document.get("kind") == kind)

        given = json.dumps(document).encode() if is_parsed else document
        with (
            patch.object(_kinds, "read_usual_state", side_effect=UnusualValueError),
            patch.object(
                _states, "_read_usual_ledger_entry", side_effect=UnusualValueError
            ),
        ):
            slow = outcome(given)

        assert slow == outcome(given)

    @pytest.mark.parametrize("at", [0, 63, 64, 127, 150])
    @pytest.mark.parametrize(
        "foreign", ["\ud800", 2**64, {1: 2}, {"\ud800": 1}, {"a": {1, 2}}]
    )
    def test_what_no_parser_makes_is_found_anywhere(self, at, foreign):
        """In each message of a long state, with its path."""
        document = to_data(Aggregator.new(messages=[UserMessage("hi")] * 151))
        document["messages"][at]["metadata"] = {"a": foreign}

        assert f"$.messages[{at}].metadata.a" in outcome(document)

    def test_empty_maps_are_one(self):
        """Wherever they are, as in values that were not read."""
        call = {"id": "c", "name": "f", "metadata": {"a": {}}, "new": {}}
        message = {"role": "assistant", "tool_calls": [call, {**call, "metadata": {}}]}
        first, second = decode_messages([message])[0].tool_calls

        assert first.metadata["a"] is first.unknown["new"] is EMPTY_MAP
        assert second.metadata is EMPTY_MAP

    @pytest.mark.parametrize("at", [0, 64, 150])
    def test_an_object_in_itself_is_found_anywhere(self, at):
        """Reading it ends, and the error says where it is."""
        document = to_data(Aggregator.new(messages=[UserMessage("hi")] * 151))
        metadata: dict[str, Any] = {}
        document["messages"][at]["metadata"] = metadata
        metadata["a"] = [metadata]

        assert f"$.messages[{at}].metadata" in outcome(document)

    @pytest.mark.parametrize(
        ("change", "path"),
        [
            (lambda data: data["entry_ids"].append("\ud800"), "$.entry_ids[1]"),
            (lambda data: data["ledger"][0].update(model="\ud800"), "$.ledger[0].mod"),
            (lambda data: data["ledger"][0].update(id="\ud800"), "$.ledger[0].id"),
            (lambda data: data.update({"\ud800": 1}), "unknown field"),
        ],
    )
    def test_half_of_a_pair_beside_messages(self, change, path):
        """In identities, in the ledger and in names of fields."""
        state = Aggregator.new(messages=[UserMessage("hi")])
        document = to_data(state.add_usage(USAGE, model="m"))
        change(document)

        assert path in outcome(document)

    @pytest.mark.parametrize("version", [True, 1.0, "1", None, 0, [1]])
    def test_another_version(self, version):
        """What only equals the version is none."""
        document = {**to_data(Aggregator.new()), "version": version}

        for same in (document, json.dumps(document).encode()):
            assert "$.version: expected an integer" in outcome(same)

    def test_usual_states_are_in_no_doubt(self):
        """The fast pass is for them, or it would be for nothing."""
        root = Aggregator.new(messages=USUAL * 9).add_usage(USAGE, model="m")
        for state in (Aggregator.new(), root, root.fork().add(UserMessage("hi"))):
            with patch.object(CodecReader, "read_fields", side_effect=AssertionError):
                assert state == decode(encode(state))

            with patch.object(_states, "LEDGER_ENTRY", None):
                assert state == from_data(to_data(state))
