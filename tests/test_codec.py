import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import attrs
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conversation_state._canonical import check_acyclic, render_path
from conversation_state.aggregator import Aggregator, Checkpoint, Messages
from conversation_state.codec import (
    Codec,
    _kinds,
    decode,
    decode_ledger_entries,
    decode_messages,
    encode,
    encode_ledger_entry,
    encode_message,
    from_data,
    structure,
    to_data,
)
from conversation_state.documents import Document
from conversation_state.errors import (
    DecodeError,
    InvalidMessageError,
    InvalidPartError,
    Problem,
)
from conversation_state.messages import (
    AssistantMessage,
    Envelope,
    LogProb,
    Message,
    ResponseMeta,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import (
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.templates import Placeholder, Template
from conversation_state.testing.strategies import (
    aggregators,
    checkpoints,
    documents,
    json_values,
    ledger_entries,
    message_trees,
    messages,
    parts,
    states,
    templates,
    texts,
    timelines,
    timestamps,
    tool_calls,
    tool_infos,
    turns,
    usages,
)
from conversation_state.timeline import Moment, Timeline
from conversation_state.tools import Parameter, ToolCall, ToolInfo
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.processes import count_calls, run_script

GOLDEN = Path(__file__).parent / "golden" / "v1"

# What the codec writes by default.
values = st.one_of(
    messages(),
    parts(),
    tool_calls(),
    usages(),
    st.lists(messages(), max_size=4).map(tuple),
    aggregators() | states(),
    turns(),
    checkpoints(),
    timelines(),
    message_trees(),
    tool_infos(),
    documents(),
    templates(),
)


def wrong(data: Any, **options: Any) -> list[str]:
    """
    The problems of *data*, bytes or JSON values: the same whichever way it is read.
    """
    is_encoded = isinstance(data, (bytes, bytearray, memoryview, str))
    with pytest.raises(DecodeError) as caught:
        (decode if is_encoded else from_data)(data, **options)

    if not is_encoded and is_json(data):
        with pytest.raises(DecodeError) as again:
            decode(json.dumps(data), **options)

        assert caught.value.problems == again.value.problems

    return [str(problem) for problem in caught.value.problems]


def is_json(data: Any) -> bool:
    """Whether *data* is the same after it was written as JSON and read."""
    try:
        return repr(orjson.loads(orjson.dumps(data))) == repr(data)
    except TypeError:  # what orjson raises for all that JSON can't represent
        return False


def document(kind: str, **fields: Any) -> dict[str, Any]:
    """A document of this version."""
    return {"format": "conversation_state", "version": 1, "kind": kind, **fields}


def document_of(**message: Any) -> dict[str, Any]:
    """The document of one message."""
    return document("message", message=message)


def holding(**part: Any) -> dict[str, Any]:
    """The document of an assistant's message of one part."""
    return document_of(role="assistant", parts=[part])


def document_with(kind: str, **fields: Any) -> dict[str, Any]:
    """The document of a tool or template."""
    return document(kind, **{kind: fields})


def wrong_with(kind: str, **fields: Any) -> list[str]:
    """The problems of the document of a tool or template."""
    return wrong(document_with(kind, **fields))


def state(**changes: Any) -> dict[str, Any]:
    """The document of a state with two messages and two ledger entries."""
    chat = Aggregator.new().add_user_prompt("hi").add_assistant_message("hello")
    chat = chat.add_usage(Usage(1, 2), key="one").add_usage(Usage(3, 4), key="two")
    return {**to_data(chat), **changes}


@attrs.frozen
class Tree:
    trees: "list[Tree]"


class TestEncode:
    """Values to bytes."""

    @given(values)
    def test_is_undone_by_decode(self, value):
        """
        What was written is read: equal, of the same class, and written alike; as
        bytes, and as plain JSON values.
        """
        data, plain = encode(value), to_data(value)
        read = decode(data)

        assert value == read == from_data(plain)
        assert type(value) is type(read)
        assert data == encode(read)
        assert json.loads(data) == plain == json.loads(json.dumps(plain))

    @pytest.mark.parametrize(
        ("a", "b"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ([1], [True])]
    )
    def test_keeps_what_equality_does_not_see(self, a, b):
        """
        Numbers of other types are equal, as they are in Python, and each is
        written and read as what it is, also one after the other.
        """
        both = UserMessage("", metadata={"a": a}), UserMessage("", metadata={"a": b})
        read = decode(encode(both))

        assert both[0] == both[1]
        assert encode(both[0]) != encode(both[1])
        assert repr(both) == repr(read)

    def test_is_the_same_in_every_process(self):
        """The order of metadata is not that of hashes, which differ by process."""
        script = (
            "from conversation_state import UserMessage, encode;"
            "names = [f'name {i}' for i in range(40)];"
            "more = dict.fromkeys(names, dict.fromkeys(names));"
            "print(encode(UserMessage('', metadata=more, unknown=more)).decode())"
        )
        outputs = {run_script(script, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}

        assert 1 == len(outputs)

    def test_leaves_out_what_is_not_there(self):
        """A message has a role and content, and no more if there is no more."""
        assert document_of(role="user", content="hi") == to_data(UserMessage("hi"))
        assert document_of(role="user", parts=[]) == to_data(UserMessage([]))
        assert document_of(role="assistant") == to_data(AssistantMessage())
        assert document("usage", usage={}) == to_data(Usage())

    @given(timestamps())
    @example(datetime(2025, 1, 2, tzinfo=timezone(timedelta(microseconds=1))))
    @example(datetime(2025, 1, 2, tzinfo=timezone(-timedelta(microseconds=1))))
    def test_keeps_times_and_offsets(self, time):
        """
        Times are kept to the microsecond, and offsets as they are, not only
        the moment they mean together.
        """
        read = decode(encode(UserMessage("", timestamp=time))).timestamp

        assert time == read
        assert time.utcoffset() == read.utcoffset()

    @pytest.mark.parametrize(
        ("time", "expected"),
        [
            (datetime(2025, 1, 2, tzinfo=UTC), "2025-01-02T00:00:00.000000+00:00"),
            (datetime(2025, 1, 2, 3, 4, 5, 6, UTC), "2025-01-02T03:04:05.000006+00:00"),
        ],
    )
    def test_writes_times_one_way(self, time, expected):
        """Six digits and an offset, whatever they are."""
        data = to_data(UserMessage("", timestamp=time))

        assert expected == data["message"]["timestamp"]

    def test_keeps_what_was_shared(self):
        """
        Messages of one envelope share what they were stamped with, as they
        did before they were written.
        """
        envelope = Envelope.new()
        read = decode(encode((envelope.user("hi"), envelope.assistant("hello"))))

        assert read[0]._common is read[1]._common

    def test_distinguishes_common_fields(self):
        """Messages one after another may have all but one thing in common."""
        noon = datetime(2025, 1, 2, 12, 0, 0, 1, UTC)
        messages = [
            UserMessage("hi", name=name, run_id=run, turn_id=turn, timestamp=time)
            for name in ("", "ann", "bob")
            for run in (None, UUID(int=1), UUID(int=2))
            for turn in (None, UUID(int=1), UUID(int=2))
            for time in (None, noon, noon + timedelta(microseconds=1))
        ]
        for step in (1, 3, 9, 27):
            mixed = tuple(messages[i::step] for i in range(step))
            read = tuple(decode(encode(tuple(some))) for some in mixed)

            assert tuple(map(tuple, mixed)) == read

    @pytest.mark.parametrize("levels", [2, 50, 480, 494, 500, 509, 520, 900, 3000])
    def test_refuses_nested_log_probabilities(self, levels):
        """Log probabilities inside others are refused at any depth, with their path."""
        one = b'{"token":"a","logprob":-0.5'
        raw = (one + b',"top":[') * levels + one + b"}" + b"]}" * levels
        start = LogProb("a", -0.5)
        whole = encode(AssistantMessage("", response=ResponseMeta(logprobs=[start])))  # type: ignore[arg-type]
        assert one + b"}" in whole

        with pytest.raises(DecodeError):
            decode(whole.replace(one + b"}", raw))

    def test_keeps_the_deepest_json(self):
        """A hundred levels, as deep as metadata go, in a part of a checkpoint."""
        deep: Any = 1
        for _ in range(99):
            deep = [deep]

        part = UnknownPart({"type": "new", "a": deep}, metadata={"a": deep})
        kept = Aggregator.new(messages=[UserMessage([part])]).checkpoint()

        assert kept == decode(encode(kept))

    @pytest.mark.parametrize(
        "number",
        [f"1.5e-{'0' * 30}1", f"{'1' * 30}e1", f"-{'1' * 30}.{'1' * 30}"],
    )
    def test_floats_of_many_digits(self, number):
        """Only integers are limited to 64 bits."""
        data = encode(UserMessage("hi", metadata={"n": 0.25})).replace(
            b"0.25", number.encode()
        )

        assert {"n": float(number)} == decode(data).metadata

    def test_writes_any_sequence_of_messages(self):
        """A list and a state's view of its messages are read as a tuple."""
        messages = [UserMessage("hi"), AssistantMessage("hello")]
        view = Aggregator.new(messages=messages).messages

        assert tuple(messages) == decode(encode(messages))
        assert tuple(messages) == decode(encode(view))

    @pytest.mark.parametrize("value", [5, LogProb("a", 0)])
    def test_refuses_what_it_does_not_know(self, value):
        """The error lists what can be written, and what to do about the rest."""
        with pytest.raises(TypeError, match=r"Aggregator.*Codec\(\)\.register"):
            encode(value)

    def test_refuses_what_is_no_message(self):
        """A sequence is one of messages."""
        with pytest.raises(TypeError, match="can't encode a str"):
            encode((UserMessage("hi"), "hello"))


class TestDecode:
    """Bytes to values, where nothing is wrong."""

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, bytes.decode])
    def test_takes_bytes(self, kind):
        """Bytes of any kind, and text."""
        assert UserMessage("Zürich") == decode(kind(encode(UserMessage("Zürich"))))

    def test_refuses_what_has_no_bytes(self):
        """Anything else is a mistake in the program, not in the data."""
        with pytest.raises(TypeError, match="expected bytes or a str"):
            decode(["a"])  # type: ignore[call-overload]

    def test_takes_white_space(self):
        """A document may have been laid out for people."""
        value = Aggregator.new(messages=[UserMessage("hi")])

        assert value == decode(json.dumps(to_data(value), indent=2))


class TestExpect:
    """Values of one class only."""

    @pytest.mark.parametrize(
        ("value", "expect"),
        [
            (UserMessage("hi"), UserMessage),
            (UserMessage("hi"), Message),
            (UserMessage("hi"), object),
            ((), tuple),
            (Aggregator.new(), Aggregator),
        ],
    )
    def test_takes_what_is_of_it(self, value, expect):
        """The class itself, or one it is derived from."""
        assert value == decode(encode(value), expect=expect)
        assert value == from_data(to_data(value), expect=expect)

    @pytest.mark.parametrize(
        ("value", "expect", "problem"),
        [
            (UserMessage(""), AssistantMessage, "$: expected AssistantMessage, got"),
            (UserMessage(""), Aggregator, "$.kind: expected Aggregator, got 'message'"),
        ],
    )
    def test_refuses_others(self, value, expect, problem):
        """The problem has the value, and what was expected."""
        (found,) = wrong(encode(value), expect=expect)

        assert found.startswith(problem)

    def test_refuses_what_is_no_class(self):
        """The error has what was given."""
        with pytest.raises(TypeError, match="expected a class"):
            decode(encode(UserMessage("hi")), expect=list[Message])


INF = float("inf")
NAN = float("nan")
NAIVE = "2025-01-01T00:00:00"
NO_COUNT = "expected an integer from 0 to 2**63 - 1"
NO_INTEGER = "expected an integer of at most 64 bits, got"


class TestProblems:
    """All problems are reported with their paths."""

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"", "$: not JSON: "),
            (b'{"a": 1}\n{}', "$: not JSON: "),
            (b'{"a":NaN}', "$: not JSON: "),
            (b'{"a":1e999}', "$: not JSON: "),
            (b'"\\ud800"', "$: not JSON: "),
            (b'{"a":"\xff"}', "$: not UTF-8: byte 0xff at 6"),
            ('{"a":"\ud800"}', "$: not text: half of a surrogate pair at 6"),
            (b"[" * 100_000, "$: not JSON: "),
            (b"[]", "$: expected an object, got an array"),
            (b"null", "$: expected an object, got null"),
        ],
    )
    def test_no_document(self, data, problem):
        """What is not JSON, and what is not an object."""
        (found,) = wrong(data)

        assert found.startswith(problem)

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"format": "bubo"}, "$.format: expected 'conversation_state', got 'bubo'"),
            ({"version": True}, "$.version: expected an integer from 1 on, got true"),
            ({"version": 2}, "$.version: written by a newer version of conversation"),
            ({"kind": "timetable"}, "$.kind: unknown kind 'timetable'; expected one"),
            ({"kind": ["message"]}, "$.kind: unknown kind an array; expected one"),
            ({"more": 1}, "$.more: unknown field"),
        ],
    )
    def test_envelope(self, changes, problem):
        """What is not ours, newer than us, or of no kind that is known."""
        (found,) = wrong({**to_data(UserMessage("hi")), **changes})

        assert found.startswith(problem)

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (document("message"), "$.message: missing"),
            (document_of(), "$.message.role: missing"),
            (
                document_of(role=["user"]),
                "$.message.role: expected a text, got an array",
            ),
            (document_of(role="user"), "$.message.content: missing"),
            (
                document_of(role="user", parts={}),
                "$.message.parts: expected an array, got ",
            ),
            (document_of(role="tool", content=""), "$.message.tool_call_id: missing"),
            (
                document_of(role="narrator", a=[{"b": INF}]),
                "$.message.a[0].b: it is inf, ",
            ),
            (document("messages", messages=[5]), "$.messages[0]: expected an object, "),
            (document("part", part="text"), "$.part: expected an object, got 'text'"),
            (document("tool_call", tool_call={"id": ""}), "$.tool_call.name: missing"),
            (document("checkpoint", state=5, label="a"), "$.state: expected an objec"),
        ],
    )
    def test_one(self, data, problem):
        """Each mistake is found in its place, and no other."""
        (found,) = wrong(data)

        assert found.startswith(problem)

    @pytest.mark.parametrize(
        ("role", "fields", "problem"),
        [
            ("user", {"content": 5}, "content: expected a text, got 5"),
            ("user", {"parts": []}, "parts: conflicts with content; a message has one"),
            ("user", {"name": "\ud800"}, "name: it holds '\\ud800' at"),
            ("user", {"run_id": "{0}"}, "run_id: expected a UUID, like "),
            ("user", {"timestamp": NAIVE}, "timestamp: expected a time with an offset"),
            ("user", {"metadata": []}, "metadata: expected an object, got an array"),
            ("user", {"metadata": {"a": {"b c": [NAN]}}}, "metadata.a['b c'][0]: it"),
            ("user", {"metadata": {"a": [2**64]}}, "metadata.a[0]: it is an integer"),
            ("user", {"since_v2": {"a": {1, 2}}}, "since_v2.a: it is {1, 2}, which"),
            ("tool", {"tool_call_id": ""}, "tool_call_id: is empty; a result must"),
            ("tool", {"is_error": 1}, "is_error: expected true or false, got 1"),
            ("assistant", {"tool_calls": [{"id": "a"}]}, "tool_calls[0].name: missing"),
            (
                "assistant",
                {"tool_calls": [{"id": "a", "name": "b", "arguments": {}}]},
                "tool_calls[0].arguments: expected a text, got an object",
            ),
        ],
    )
    def test_message(self, role, fields, problem):
        """Of a message that is fine without these fields."""
        call = {"tool_call_id": "c"} if role == "tool" else {}
        (found,) = wrong(document_of(**{"role": role, "content": "", **call, **fields}))

        assert found.startswith(f"$.message.{problem}")

    @pytest.mark.parametrize(
        ("part", "problem"),
        [
            ({}, ".type: missing"),
            ({"type": "text"}, ".text: missing"),
            ({"type": "text", "text": 1}, ".text: expected a text,"),
            ({"type": "text", "text": "", "index": -1}, ".index: is -1; expected a"),
            ({"type": "text", "text": "", "index": 1.0}, f".index: {NO_INTEGER}"),
            ({"type": "text", "text": "", "index": 10**5_000}, f".index: {NO_INTEGER}"),
            ({"type": "text", "text": "", "index": 2**64}, f".index: {NO_INTEGER}"),
            ({"type": "image", "data": ""}, ".data: is empty"),
            ({"type": "image", "url": "a", "data": "YQ=="}, ": ImagePart takes"),
            ({"type": "image", "data": "YQ"}, ".data: expected a text that is"),
        ],
    )
    def test_part(self, part, problem):
        """Of a part of a message."""
        (found,) = wrong(holding(**part))

        assert found.startswith(f"$.message.parts[0]{problem}")

    @pytest.mark.parametrize(
        ("usage", "problem"),
        [
            ({"prompt_tokens": 1.0}, f".prompt_tokens: {NO_COUNT}, got 1.0"),
            (
                {"prompt_tokens": -1, "completion_tokens": 1},
                f".prompt_tokens: {NO_COUNT}, got -1",
            ),
            ({"new_tokens": "7"}, f".new_tokens: {NO_COUNT}, got '7'"),
            ({"extra": {"a": 1}, "a": 1}, ".a: is in extra as well"),
            (
                {"prompt_tokens_details": {"new": 1}},
                ".prompt_tokens_details.new: unknown field",
            ),
            (
                {"prompt_tokens": 2**62, "completion_tokens": 2**62},
                ": total_tokens is 9223372036854775808; a count of tokens",
            ),
            ({"\ud800": 1}, ".extra['\\ud800']: it holds '\\ud800' at position 0"),
        ],
    )
    def test_usage(self, usage, problem):
        """Of the counts of a usage."""
        (found,) = wrong(document("usage", usage=usage))

        assert found.startswith(f"$.usage{problem}")

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"id": "0"}, "$.id: expected a UUID, like "),
            ({"root_id": None}, "$.root_id: expected a UUID, like "),
            ({"init_len": 3}, "$.init_len: is 3; expected 0 to 2, the entries"),
            ({"init_len": True}, "$.init_len: expected an integer"),
            ({"init_ledger_len": 3}, "$.init_ledger_len: is 3; expected 0 to 2"),
            ({"entry_ids": ["a"]}, "$.entry_ids: 1 identity for 2 messages"),
            ({"entry_ids": ["a", "a"]}, "$.entry_ids[1]: the same as at 0"),
            ({"entry_ids": ["a", "\ud800"]}, "$.entry_ids[1]: it holds '\\ud800'"),
            ({"entry_ids": None}, "$.entry_ids: expected an array, got null"),
            ({"messages": {}}, "$.messages: expected an array, got an object"),
            ({"messages": None}, "$.messages: expected an array, got null"),
            (
                {"ledger": [{"id": "a", "usage": {}}] * 2},
                "$.ledger[1].id: the same as at 0",
            ),
            ({"ledger": [{"id": "a", "usage": {}, "b": 1}]}, "$.ledger[0].b: unknown"),
            (
                {
                    "ledger": [
                        {"id": f"{i}", "usage": {"total_tokens": 2**63 - 1}}
                        for i in range(2)
                    ]
                },
                "$.ledger: total_tokens is 18446744073709551614; a count of tokens",
            ),
            ({"since_v2": 1}, "$.since_v2: unknown field"),
        ],
    )
    def test_state(self, changes, problem):
        """An inconsistent state is a problem."""
        (found,) = wrong(state(**changes))

        assert found.startswith(problem)

    def test_turn(self):
        """Neither is a turn, whose usage would not add up later."""
        data = to_data(from_data(state()).turn)
        data["entry_ids"] = ["a", "a"]
        data["ledger"] = [{"id": i, "usage": {"total_tokens": 2**62}} for i in "abc"]

        found = wrong(data)

        assert 2 == len(found)
        assert "$.entry_ids[1]: the same as at 0" == found[0]
        assert found[1].startswith("$.ledger: total_tokens is ")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{01234567-89ab-7def-8123-456789abcdef}",
            "01234567-89ab-7def-8123-456789abcde",
            "01234567-89ab-7def-8123-456789abcd  ",
            "01234567-89ab-7def-8123-456789abcd_f",
            "01234567-89ab-7def-8123-456789abcd１２",
            "012345678-9ab-7def-8123-456789abcdef",
        ],
    )
    def test_no_uuid(self, text):
        """
        A UUID is written one way, in capitals perhaps, though `UUID` takes
        many more.
        """
        (found,) = wrong(document_of(role="user", content="", run_id=text))
        fine = document_of(
            role="user", content="", run_id="01234567-89AB-7DEF-8123-" + "0" * 12
        )

        assert found.startswith("$.message.run_id: expected a UUID, like ")
        assert from_data(fine).run_id == UUID("01234567-89ab-7def-8123-000000000000")

    def test_all_at_once(self):
        """What is wrong in one place hides nothing in another."""
        data = state(
            init_len=5,
            messages=[
                {"role": "user", "content": 1, "name": 2, "metadata": 3},
                {
                    "role": "user",
                    "parts": [
                        {"type": "image", "url": "", "metadata": {"a": float("nan")}},
                        {"type": "text"},
                        {"type": "reasoning"},
                    ],
                },
            ],
        )

        assert {
            "$.init_len",
            "$.messages[0].content",
            "$.messages[0].name",
            "$.messages[0].metadata",
            "$.messages[1].parts[0].url",
            "$.messages[1].parts[0].metadata.a",
            "$.messages[1].parts[1].text",
            "$.messages[1].parts[2]",
        } == {line.partition(": ")[0] for line in wrong(data)}

    def test_at_most_a_hundred(self):
        """A hundred are listed, the rest is counted."""
        found = wrong(document("messages", messages=[5] * 1_234))

        assert 101 == len(found)
        assert "$.messages[99]: expected an object, got 5" == found[99]
        assert "$: and 1,134 more problems" == found[100]

    def test_is_short(self):
        """However long what is wrong is, and wherever it is."""
        data = document_of(
            role="user",
            content=["x" * 10_000] * 100,
            name={"x" * 10_000: 1},
            metadata={"k" * 10_000: {"k" * 10_000: float("nan")}},
            run_id="x" * 10_000,
        )
        data["y" * 10_000] = 1

        assert 500 > max(map(len, wrong(data)))

    def test_numbers_beyond_64_bits(self):
        """
        A number orjson would read as a nearby float is a problem, and not
        another number; in a text it is none.
        """
        digits = "18446744073709551616"
        fine = UserMessage(digits, metadata={"a": digits, "b": -(2**63), "c": 1e300})
        for number in (digits, "-9223372036854775809", "1" * 300):
            data = encode(UserMessage(f'"{number}.', metadata={"a": 0.5, "b": number}))

            assert number == decode(data).metadata["b"]
            (found,) = wrong(data.replace(f'"{number}"'.encode(), number.encode()))
            assert "takes more than 64 bits" in found
            # In a state, too, where 0.5 in place of the number would be valid.
            state = encode(Aggregator.new(messages=[decode(data)]))
            (found,) = wrong(state.replace(f'"{number}"'.encode(), number.encode()))
            assert "takes more than 64 bits" in found

        assert fine == decode(encode(fine))
        # A float is written as one.
        data = encode(UserMessage("", metadata={"a": 5})).replace(b":5", b":1e300")
        assert 1e300 == decode(data).metadata["a"]
        data = data.replace(b"1e300", b"18446744073709551616.0")
        assert 2.0**64 == decode(data).metadata["a"]

    def test_deep_metadata(self):
        """More than a hundred levels are too many, and say where."""
        data = encode(UserMessage("", metadata={"a": 5}))
        deep = data.replace(b":5", b":" + b"[" * 100 + b"]" * 100)
        (found,) = wrong(deep)

        assert (
            f"$.message.metadata.a{'[0]' * 99}: nested more than 100 levels deep"
            == (found)
        )


class TestUnknown:
    """Values of a newer version that this one does not know."""

    def test_fields(self):
        """
        Unknown fields of messages, parts, calls and responses are kept beside
        the known ones.
        """
        more: dict[str, Any] = {"since_v2": {"a": None}, "": 0, "unknown": 1}
        part = {"type": "text", "text": "hi", **more}
        call = {"id": "c", "name": "f", **more}
        message = document_of(
            role="assistant", parts=[part], tool_calls=[call], response=more, **more
        )
        value = from_data(message)

        assert message == to_data(value)
        assert value.response is not None
        assert (
            UserMessage("", unknown=more).unknown
            == value.unknown
            == value.parts[0].unknown
            == value.tool_calls[0].unknown
            == value.response.unknown
        )

    def test_counts_named_like_fields(self):
        """A category may have the name of a field."""
        extra = {"prompt_tokens": 1, "extra": 2, "prompt_tokens_details": 3, "b": 4}
        usage = Usage(5, extra=extra)

        assert {"prompt_tokens": 5, "b": 4} == {
            name: count
            for name, count in to_data(usage)["usage"].items()
            if name != "extra"
        }
        assert usage == decode(encode(usage))

    @pytest.mark.parametrize(
        "value",
        [
            UnknownMessage({}),
            UnknownMessage({"role": 5}),
            UnknownMessage({"content": {"b": [1], "a": None}, "role": "narrator"}),
            UnknownMessage({"role": "unknown"}),
            UnknownMessage({"role": "unknown", "raw": {}, "source": "a"}),
            UnknownMessage({"role": "user", "content": 5}, source="gemini"),
            UnknownMessage({"role": "narrator"}, name="ann", unknown={"content": 1}),
            UnknownPart({}),
            UnknownPart({"type": None, "metadata": 5, "index": -1}),
            UnknownPart({"type": "unknown"}),
            UnknownPart({"type": "unknown", "raw": {"type": "text"}}),
            UnknownPart({"type": "text"}, source="gemini"),
            UnknownPart({"type": "hologram"}, index=1, metadata={"a": 1}),
        ],
    )
    def test_any(self, value):
        """Whatever their content and their metadata are."""
        held = AssistantMessage([value]) if isinstance(value, Part) else value

        assert value == decode(encode(value))
        assert held == decode(encode(held))

    def test_wrapped_until_it_is_known(self):
        """
        What an older version wrapped is read as what it is, once that is known, and
        keeps the metadata that it got in the meantime.
        """
        raw: dict[str, Any] = {
            "type": "text",
            "text": "hi",
            "metadata": {"a": 1, "b": 1},
        }
        about: dict[str, Any] = {"metadata": {"b": 2}, "index": 3, "since_v2": 4}
        part = from_data(
            document("part", part={"type": "unknown", "raw": raw, **about})
        )
        raw = {"role": "user", "content": "hi", "name": "ann", "a": 1}
        about = {"name": "bob", "metadata": {"b": 2}, "b": 2}
        message = from_data(document_of(role="unknown", raw=raw, **about))

        assert (
            TextPart("hi", metadata={"a": 1, "b": 2}, index=3, unknown={"since_v2": 4})
            == part
        )
        assert (
            UserMessage("hi", name="bob", metadata={"b": 2}, unknown={"a": 1, "b": 2})
            == message
        )

    @pytest.mark.parametrize(
        ("make", "names"),
        [
            (partial(UserMessage, ""), "role content parts name metadata"),
            (partial(AssistantMessage, ""), "tool_calls response timestamp run_id"),
            (partial(AssistantMessage, ""), "turn_id"),
            (
                partial(ToolMessage, "", tool_call_id="c"),
                "tool_call_id tool_name is_error",
            ),
            (partial(UnknownMessage, {}), "role raw source"),
            (partial(TextPart, ""), "type text index metadata"),
            (partial(ImagePart, url="a"), "url data media_type detail"),
            (partial(UnknownPart, {}), "type raw source"),
            (partial(ToolCall, "", ""), "id name arguments index type metadata"),
            (ResponseMeta, "finish_reason usage logprobs model"),
        ],
    )
    def test_known_is_not_unknown(self, make, names):
        """No unknown field has the name of a known one, or there would be two."""
        for name in names.split():
            with pytest.raises((InvalidMessageError, InvalidPartError), match=name):
                make(unknown={name: "x"})


# What may stand where something else was: of every type, empty or not.
ATOMS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [
            *(None, True, False, 0, -1, 1, 2**63, 1.5, "", "a", [], {}, [[]], [{}]),
            *("user", "text", "unknown", "image", "2025-01-01T00:00:00+00:00"),
            *({"type": "text", "text": "a"}, {"role": "user", "content": "a"}),
            *({"raw": {}}, "01234567-89ab-7def-8123-456789abcdef", "YQ=="),
        ]
    ),
    json_values(),
)


def names_in(data):
    """All keys of objects in *data*."""
    if isinstance(data, dict):
        yield from data

    for item in data.values() if isinstance(data, dict) else data:
        if isinstance(item, (dict, list)):
            yield from names_in(item)


# Those of the golden files, which have every field of every class, and the kinds.
NAMES = st.sampled_from(
    sorted(
        {
            name
            for path in GOLDEN.iterdir()
            for name in names_in(json.loads(path.read_bytes()))
        }
        | {*("unknown", "value", "schema", "list", ""), *_kinds.READS}
    )
)


def look_alikes():
    """JSON of about the right shape: names we know, values we might mean."""
    return st.recursive(
        ATOMS,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=5)
        ),
        max_leaves=12,
    )


def places(data, path=()):
    """The path of everything in *data*."""
    yield path
    items = enumerate(data) if isinstance(data, list) else ()
    for key, item in data.items() if isinstance(data, dict) else items:
        yield from places(item, (*path, key))


def changed(data, path, new, key=None):
    """
    *data* with *new* at *path*; as another field of what is there, if it has
    a *key*.
    """
    if not path:
        return {**data, key: new} if key and isinstance(data, dict) else new

    copy = data.copy()
    copy[path[0]] = changed(data[path[0]], path[1:], new, key)
    return copy


def is_read_or_refused(data, read):
    """
    Whether *data* is a value, and one that is written and read again, or a
    `DecodeError`.
    """
    try:
        value = read(data)
    except DecodeError as error:
        problems = error.problems
    else:
        problems = (Problem("$", ""),)
        assert value == decode(encode(value))

    assert 0 < len(problems) <= 101
    assert all(problem.path.startswith("$") for problem in problems)


def golden_bytes():
    """A document of each kind."""
    return st.sampled_from([path.read_bytes() for path in sorted(GOLDEN.iterdir())])


class TestRows:
    """Single messages and ledger entries, as stores keep them."""

    @given(st.lists(messages()))
    def test_messages(self, values):
        """Each is the JSON that it is in a document, and comes back equal."""
        rows = [encode_message(value) for value in values]

        assert values == decode_messages([json.loads(row) for row in rows])
        assert all(
            row in encode(value) for row, value in zip(rows, values, strict=True)
        )

    @given(st.lists(ledger_entries()))
    def test_ledger_entries(self, values):
        """They come back equal with their ids, which are kept apart."""
        ids = [value.id for value in values]
        rows = [json.loads(encode_ledger_entry(value)) for value in values]

        assert values == decode_ledger_entries(ids, rows)
        assert not any("id" in row for row in rows)

    def test_all_problems(self):
        """Each with the position of its row."""
        with pytest.raises(DecodeError) as of_messages:
            decode_messages([{"role": "user"}, {"role": 5}])

        with pytest.raises(DecodeError) as of_entries:
            decode_ledger_entries("ab", [{"model": 5}, {"usage": {}, "id": "b"}])

        assert ["$[0].content: missing", "$[1].role: expected a text, got 5"] == [
            *map(str, of_messages.value.problems)
        ]
        assert [
            "$[0].model: expected a text, got 5",
            "$[0].usage: missing",
            "$[1].id: unknown field",
        ] == [*map(str, of_entries.value.problems)]


class TestHostile:
    """Whatever the bytes are, they are a value or a `DecodeError`."""

    @given(st.data())
    def test_mutated(self, data):
        """Bytes flipped, put in, taken out."""
        document = bytearray(data.draw(golden_bytes()))
        for _ in range(data.draw(st.integers(1, 4))):
            start = data.draw(st.integers(0, len(document)))
            stop = start + data.draw(st.sampled_from([0, 0, 1, 1, 2, 8, 100]))
            signs = [bytes([sign]) for sign in b'"[{}],:0-']
            tokens = st.sampled_from([b"", *signs, b"null", b"e9"])
            document[start:stop] = data.draw(tokens | st.binary(max_size=3))

        is_read_or_refused(bytes(document), decode)

    @given(st.data())
    def test_changed(self, data):
        """Any value in a document replaced by another, or given a field more."""
        document = json.loads(data.draw(golden_bytes()))
        for _ in range(data.draw(st.integers(1, 3))):
            path = data.draw(st.sampled_from(list(places(document))))
            key = data.draw(st.none() | NAMES)
            document = changed(document, path, data.draw(ATOMS), key)

        is_read_or_refused(document, from_data)
        is_read_or_refused(json.dumps(document), decode)

    @given(st.sampled_from([*_kinds.READS]), st.dictionaries(NAMES, look_alikes()))
    def test_look_alikes(self, kind, fields):
        """Documents of about the right shape."""
        data = {**fields, **document(kind)}

        is_read_or_refused(data, from_data)
        is_read_or_refused(json.dumps(data), decode)

    @given(st.binary() | texts())
    def test_anything(self, data):
        """Bytes and texts of any kind."""
        is_read_or_refused(data, decode)

    @pytest.mark.parametrize("depth", [99, 101, 500, 1_000, 1_100, 100_000])
    def test_deep(self, depth):
        """However deep they are, wherever."""
        data = encode(UserMessage([UnknownPart({"type": "a", "b": 5})]))
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
            deep = opening * depth + b"5" + closing * depth

            is_read_or_refused(data.replace(b":5", b":" + deep), decode)
            is_read_or_refused(data.replace(b"[{", b"[" + deep + b",{"), decode)
            is_read_or_refused(deep, decode)

    def test_top_of_top(self):
        """What could nest in itself does not."""
        opening = b'{"token":"a","logprob":0,"top":['
        deep = opening * 400 + b"]}" * 400
        data = encode(AssistantMessage(response=ResponseMeta(logprobs=())))

        assert ["$.message.response.logprobs[0].top[0].top: unknown field"] == wrong(
            data.replace(b"[]", b"[" + deep + b"]")
        )

    @pytest.mark.parametrize("read", [from_data, partial(structure, type=Tree)])
    @pytest.mark.parametrize("make", [list, dict])
    def test_holds_itself(self, make, read):
        """
        Data that holds itself, in several places even, is reported with its path
        and not read for ever.
        """
        inner: Any = [] if make is list else {}
        for key in ("a", "b"):
            if make is list:
                inner.append({"inner": inner})
            else:
                inner[key] = {"inner": inner}

        data = document_of(role="user", content="", metadata={"x": [inner]})
        with pytest.raises(DecodeError) as caught:
            read(data)

        (problem,) = caught.value.problems
        place = "$.message.metadata.x[0]"
        assert problem.path.startswith(place)
        assert f"is the same object as at {place}, which holds itself" == problem.what

    def test_is_in_several_places(self):
        """Data in several places that don't hold each other are read, each once."""
        inner: Any = [1]
        for _ in range(15):
            inner = [inner, {"again": inner}]

        assert count_calls(lambda: check_acyclic(inner)) < 1_000

        data = document_of(role="user", content="", metadata={"a": [1], "b": [[1]]})
        data["message"]["metadata"]["b"][0] = data["message"]["metadata"]["a"]
        assert {"a": (1,), "b": ((1,),)} == from_data(data).metadata

    @pytest.mark.parametrize(("size", "shown"), [(60, ".{}"), (61, "['{}]")])
    def test_long_names_in_paths(self, size, shown):
        """A path has names of 60 characters; of longer ones it has the start."""
        path = render_path((None, "a" * size))

        assert path == "$" + shown.format("a" * 60 if size == 60 else "a" * 56 + "...")

    def test_names_no_class(self):
        """Nothing is imported or called because of the content of a document."""
        data = document("message", message={"role": "user", "content": "hi"})
        data["message"] |= {"__class__": "os.system", "py/object": "antigravity"}
        value = from_data(data)

        assert {"__class__", "py/object"} == set(value.unknown)
        assert "antigravity" not in sys.modules


class Colour(Enum):
    RED = "red"


@attrs.frozen
class Leaf:
    value: float


@attrs.frozen
class Twin:
    value: float


@attrs.frozen
class Wider(Leaf):
    more: int


@attrs.frozen
class Private:
    _secret: int


@attrs.frozen(eq=False)
class Identity:
    items: list[int]


@attrs.frozen
class Hidden:
    shown: int
    hidden: int = attrs.field(default=0, init=False)

    def with_hidden(self, hidden):
        object.__setattr__(self, "hidden", hidden)
        return self


@dataclass
class Dataclass:
    first: int
    second: int = 0


class Pair(NamedTuple):
    number: int
    text: str


class Named(TypedDict):
    name: str


@attrs.frozen
class Ticket:
    number: int
    chat: Aggregator
    added: list[Message] = attrs.field(factory=list)
    last: UserMessage | None = None
    usage: Usage = attrs.field(factory=Usage)
    colour: Colour = Colour.RED
    due: datetime | None = None
    day: date = date(2025, 1, 2)
    key: UUID | None = None
    blob: bytes = b""
    leaves: tuple[Leaf, ...] = ()
    extra: dict[str, Any] = attrs.field(factory=dict)
    done: bool = False


class TestRegister:
    """Classes of users' own."""

    CODEC = Codec().register(Ticket, "ticket").register(Leaf, "leaf")

    def test_round_trip(self):
        """
        An instance is read as it was written, with the values of ours that it
        holds, as bytes and as plain JSON values.
        """
        ticket = Ticket(
            2**63,
            Aggregator.new().add_user_prompt("hi").add_usage(Usage(1, 2)),
            [UserMessage("hi"), AssistantMessage("hello")],
            UserMessage("bye"),
            Usage(3, prompt_tokens_details=PromptTokensDetails(cached_tokens=1)),
            due=datetime(2025, 1, 2, tzinfo=timezone(timedelta(seconds=61))),
            key=UUID(int=7),
            blob=b"\xff\x00",
            leaves=(Leaf(0.5), Leaf(1)),
            extra={"a": [1, {"b": None}]},
            done=True,
        )

        assert ticket == self.CODEC.decode(self.CODEC.encode(ticket), expect=Ticket)
        assert ticket == self.CODEC.from_data(self.CODEC.to_data(ticket))
        assert json.loads(self.CODEC.encode(ticket)) == self.CODEC.to_data(ticket)
        assert document("leaf", value={"value": 1}) == self.CODEC.to_data(Leaf(1))

    def test_gives_another_codec(self):
        """A codec is a value: registering leaves it as it was."""
        codec = Codec()
        codec.register(Leaf, "leaf")

        assert Codec() == codec
        with pytest.raises(TypeError, match="can't encode a Leaf"):
            codec.encode(Leaf(1))

        (found,) = wrong(self.CODEC.encode(Leaf(1)))
        assert found.startswith("$.kind: unknown kind 'leaf'; expected one of")

    def test_reports_all_problems(self):
        """With paths, into values of ours and of theirs."""
        data = self.CODEC.to_data(Ticket(1, Aggregator.new()))
        data["value"] |= {
            "number": "1",
            "done": "false",
            "added": [{"role": "user", "content": 5}, {"role": "user", "content": ""}],
            "last": {"role": "assistant"},
            "leaves": [{"value": 1}, {"value": None}, {}],
            "blob": "?",
            "due": 5,
            "colour": "blue",
            "more": 1,
        }
        with pytest.raises(DecodeError) as caught:
            self.CODEC.from_data(data)

        assert {
            "$.value.number: expected an integer, got '1'",
            "$.value.done: expected true or false, got 'false'",
            "$.value.added[0].content: expected a text, got 5",
            "$.value.last: expected UserMessage, got AssistantMessage",
            "$.value.leaves[1].value: expected a number, got null",
            "$.value.leaves[2].value: missing",
            "$.value.blob: expected a text that is base64, got '?'",
            "$.value.due: expected a time, like 2025-12-31T23:59:59Z, got 5",
            "$.value.colour: expected 'red', got 'blue'",
            "$.value.more: unknown field",
        } == {str(problem) for problem in caught.value.problems}

    def test_reports_errors_of_its_checks(self):
        """Whatever a class raises about what it is made of is a problem."""

        @attrs.frozen
        class Even:
            number: int = attrs.field()

            @number.validator
            def _check_value(self, _attribute, value):
                if value % 2:
                    raise RuntimeError("odd")

        codec = Codec().register(Even, "even")

        assert Even(2) == codec.decode(codec.encode(Even(2)))
        with pytest.raises(DecodeError, match=r"\$\.value: odd"):
            codec.from_data(document("even", value={"number": 1}))

    def test_deep(self):
        """A class that holds itself is read as deep as it goes, or refused."""
        codec = Codec().register(Tree, "tree")
        data = b'{"format":"conversation_state","version":1,"kind":"tree","value":'

        assert Tree([Tree([])]) == codec.decode(codec.encode(Tree([Tree([])])))
        for depth in (10, 200, 340, 600):
            deep = b'{"trees":[' * depth + b"]}" * depth + b"}"
            with suppress(DecodeError):
                assert isinstance(codec.decode(data + deep), Tree)

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (int | float, 5.0),
            (float, 1e300),
            (set[str], {"a", "b"}),
            (frozenset[tuple[int, str]], frozenset({(1, "a"), (0, "b")})),
            (dict[int, str], {1: "a", -2: "b"}),
            (dict[Colour, int], {Colour.RED: 1}),
            (Decimal, Decimal("1.10")),
            (Path, Path("a/b")),
            (time, time(1, 2, 3)),
            (Pair, Pair(1, "b")),
            (Named, {"name": "a"}),
            (Dataclass | Leaf | None, Dataclass(1, 2)),
            (Sequence[int], [1, 2]),
            (Message | None, UserMessage("a")),
            (Private, Private(5)),
            (Timeline[int], Timeline.begin(1)),
            (Any, {"a": [1, None]}),
        ],
    )
    def test_any_type_that_structure_reads(self, kind, value):
        """
        Fields of every type that is read are written, too: what is read was
        written so.
        """
        cls = attrs.make_class("Holder", {"field": attrs.field(type=kind)})
        codec = Codec().register(cls, "holder")
        data = codec.encode(cls(value))
        read = codec.decode(data)

        assert data == codec.encode(read)
        assert read.field == value

    def test_sets_are_written_in_one_order(self):
        """Equal sets give equal bytes, in whatever order they iterate."""
        cls = attrs.make_class("Holder", {"field": attrs.field(type=set[int])})
        codec = Codec().register(cls, "holder")

        assert codec.encode(cls({8, 0})) == codec.encode(cls({0, 8}))
        assert [0, 8] == codec.to_data(cls({8, 0}))["value"]["field"]

    @pytest.mark.parametrize(
        ("kind", "value", "problem"),
        [
            (list[str], ["a", 5], r"\$\.field\[1\]: expected a text, got 5"),
            (int, "5", r"\$\.field: expected an integer"),
            (UserMessage, AssistantMessage("a"), r"\$\.field: expected UserMessage"),
            (Leaf, Wider(1.0, 2), r"\$\.field\.more: unknown field"),
            (Identity, Identity([1]), "let the class compare by its fields"),
            (Sequence[int], (1, 2), "would be decoded as"),
            (str | date, date(2025, 1, 2), "would be decoded as"),
            (Any, Leaf(1), "would be decoded as"),
            (Any, {1: "a"}, "would be decoded as"),
            (Hidden, Hidden(1).with_hidden(5), "would be decoded as"),
            (str, "\ud800", "surrogate"),
            (int, 2**64, "64 bits"),
            (dict[str, int], {"\ud800": 1}, "surrogate"),
        ],
    )
    def test_refuses_what_would_not_be_decoded(self, kind, value, problem):
        """
        Before it is written: a document that can be written can be read, as
        an equal value.
        """
        cls = attrs.make_class("Holder", {"field": attrs.field(type=kind)})

        with pytest.raises(ValueError, match=problem):
            Codec().register(cls, "holder").encode(cls(value))

    @pytest.mark.parametrize("value", [object(), [1j], {(1,): 2}])
    def test_refuses_types_that_json_can_not_represent(self, value):
        """It is a TypeError, as it is for values of a class that is not known."""
        cls = attrs.make_class("Holder", {"field": attrs.field(type=Any)})

        with pytest.raises(TypeError, match="can't write"):
            Codec().register(cls, "holder").encode(cls(value))

    @pytest.mark.parametrize(
        ("cls", "kind", "error", "message"),
        [
            (Ticket, "message", ValueError, "kind is 'message'"),
            (Ticket, "leaf", ValueError, "kind is 'leaf'"),
            (Ticket, "", ValueError, "kind is ''"),
            (Ticket, "\ud800", ValueError, "surrogate"),
            (Leaf, "ticket", ValueError, "Leaf is registered already"),
            (UserMessage, "mine", ValueError, "UserMessage is registered already"),
            (int, "int", TypeError, "neither an attrs class nor a dataclass"),
            ([Leaf], "leaf_", TypeError, "neither an attrs class nor a dataclass"),
        ],
    )
    def test_refuses(self, cls, kind, error, message):
        """What is taken, and what is not a class of fields."""
        with pytest.raises(error, match=message):
            Codec().register(Leaf, "leaf").register(cls, kind)

    def test_refuses_unknown_fields(self):
        """When it is registered, and not when the first document is read."""

        @attrs.frozen
        class Odd:
            thing: object
            other: Codec | type[int]

        @attrs.frozen
        class Alike:
            thing: Leaf | Twin

        for cls in (Odd, Alike):
            with pytest.raises(TypeError, match=f"can't register {cls.__name__}"):
                Codec().register(cls, "odd")


class Identifier(UUID):
    pass


class Time(datetime):
    pass


def enumerated(text):
    """A member of an enum of texts."""
    return next(iter(StrEnum("Enumerated", {"MEMBER": text})))


def oddly(value):
    """A JSON value with all texts and integers in it as members of enums."""
    if isinstance(value, str):
        return enumerated(value)

    if isinstance(value, dict):
        return {enumerated(key): oddly(item) for key, item in value.items()}

    if isinstance(value, list):
        return [oddly(item) for item in value]

    if type(value) is int:
        kind: Any = IntEnum("kind", {"N": value})
        return kind.N

    return value


JSON_LIKE = {"key": ["value", 3, 0.5, True, None, {"inner": "text"}], "n": 1}

# Makes a value of texts, JSON, UUIDs and times.
MAKERS = [
    lambda t, j, u, d: UserMessage(
        t("x"),
        name=t("n"),
        metadata=j(JSON_LIKE),
        unknown=j(JSON_LIKE),
        run_id=u(int=5),
        turn_id=u(int=6),
        timestamp=d(2025, 1, 1, tzinfo=UTC),
    ),
    lambda t, j, u, d: AssistantMessage(
        [
            TextPart(t("a"), metadata=j(JSON_LIKE), unknown=j(JSON_LIKE)),
            ReasoningPart(t("a"), t("b")),
            RefusalPart(t("no")),
            UnknownPart(j(JSON_LIKE), source=t("s")),
            UnknownPart({t("type"): t("new")}),
        ],
        tool_calls=[
            ToolCall(
                t("a"),
                t("b"),
                t("c"),
                type=t("t"),
                metadata=j(JSON_LIKE),
                unknown=j(JSON_LIKE),
            )
        ],
        response=ResponseMeta(
            t("stop"),
            Usage(1, extra={t("e"): 3, t("none"): 0}),
            (LogProb(t("tok"), j(-0.5), top=(LogProb("a", j(-2)),)),),
            t("m"),
            unknown=j(JSON_LIKE),
        ),
    ),
    lambda t, j, u, d: ToolMessage(t("x"), tool_call_id=t("i"), tool_name=t("n")),
    lambda t, j, u, d: UnknownMessage(j(JSON_LIKE), source=t("s"), name=t("n")),
    lambda t, j, u, d: Envelope.new(
        name=t("n"),
        run_id=u(int=5),
        turn_id=u(int=6),
        timestamp=d(2025, 1, 1, tzinfo=UTC),
    ).user("x"),
    lambda t, j, u, d: FilePart(data=b"x", media_type=t("m"), name=t("d")),
    lambda t, j, u, d: Usage(1, 2, extra={t("e"): 3}),
    lambda t, j, u, d: (
        Document(t("i"), t("c"), j(JSON_LIKE))
        .with_sub_indexes([t("z")])
        .with_dsl(j(JSON_LIKE))
        .with_extra_info(t("e"))
    ),
    lambda t, j, u, d: ToolInfo(
        t("n"),
        t("d"),
        {
            t("p"): Parameter(
                t("array"), t("d"), items=Parameter(t("integer"), enum=[j(3)])
            ),
            t("o"): Parameter(
                "object", properties={t("s"): Parameter("string", enum=[t("b")])}
            ),
        },
        metadata=j(JSON_LIKE),
    ),
    lambda t, j, u, d: Template(
        UserMessage(t("x")), Placeholder(t("h")), syntax=t("go")
    ),
    lambda t, j, u, d: Timeline.begin(5, t("l")).commit(6, t("m"), group=t("g")),
    lambda t, j, u, d: Checkpoint(Aggregator.new(id=u(int=7)), t("l")),
]


class TestSubclasses:
    """
    What is made of instances of subclasses is made of plain values, or can't
    be made: no value exists that can't be written.
    """

    @pytest.mark.parametrize("number", range(len(MAKERS)))
    def test_are_made_plain(self, number):
        """
        Enums, and UUIDs and times of a subclass, are kept as what they are without it,
        in every field.
        """
        make = MAKERS[number]
        plain = make(str, lambda value: value, UUID, datetime)
        odd = make(enumerated, oddly, Identifier, Time)

        assert plain == odd
        assert repr(plain) == repr(odd)
        assert encode(plain) == encode(odd)
        assert plain == decode(encode(odd))

    @pytest.mark.parametrize(
        "cls",
        [
            *[cls for cls in _kinds.WRITES if cls not in {list, tuple, Messages}],
            *[Message, Part, MediaPart, LogProb, ResponseMeta, Envelope, Parameter],
            *[PromptTokensDetails, CompletionTokensDetails, Placeholder, Moment],
        ],
        ids=lambda cls: cls.__name__,
    )
    def test_of_values_are_refused(self, cls):
        """Where the class is made, and not when an instance is saved."""
        with pytest.raises(TypeError, match=f"can't subclass {cls.__name__} as Mine"):
            type("Mine", (cls,), {})


class TestTools:
    @pytest.mark.parametrize(
        ("written", "parameters"),
        [
            ({}, None),
            ({"parameters": {}}, {}),
            (
                {"parameters": {"type": {"type": "string"}}},
                {"type": Parameter("string")},
            ),
            ({"parameters": {"type": "object"}}, {"type": "object"}),
        ],
    )
    def test_what_a_tool_takes(self, written, parameters):
        """Nothing, no parameters, parameters and a schema are kept apart."""
        tool = ToolInfo("t", parameters=parameters)

        assert document_with("tool_info", name="t", **written) == to_data(tool)
        assert tool.parameters == decode(encode(tool)).parameters
        assert type(tool.parameters) is type(decode(encode(tool)).parameters)

    def test_keeps_order(self):
        """
        Keys of a schema are read in the order they were given in, which is what
        models read.
        """
        schema = {
            "type": "object",
            "properties": {
                "to": {"type": "string"},
                "at": {"enum": [{"b": 1, "a": 2}]},
            },
            "additionalProperties": False,
        }
        for tool in (
            ToolInfo("t", parameters=schema),
            ToolInfo("t", parameters={"$ref": "#", "$defs": schema}),
            ToolInfo(
                "t", parameters={"to": Parameter("null"), "at": Parameter("null")}
            ),
        ):
            read = decode(encode(tool))

            assert json.dumps(tool.json_schema()) == json.dumps(read.json_schema())
            assert '"to"' in json.dumps(read.schema).split('"at"')[0]

        assert json.dumps(schema) == json.dumps(ToolInfo("t", "", schema).schema)


class TestProblemsOfTools:
    def test_all_at_once(self):
        """All problems of a tool are reported, each with its path."""
        found = wrong_with(
            "tool_info",
            description=5,
            metadata=[],
            parameters={
                "a": {"type": "text"},
                "b": {"type": "string", "enum": "ab", "required": 1},
                "c": {"description": "x", "default": 3},
                "d": {"type": "array", "items": {"type": "string", "required": True}},
                "e f": {"type": "object", "properties": {"g": None, "": {}}},
            },
        )

        types = "array, boolean, integer, null, number, object, string"
        at = "$.tool_info.parameters"
        required = (
            "are required; an array holds any number of items, so only the array "
            "itself can be"
        )
        assert [
            "$.tool_info.description: expected a text, got 5",
            "$.tool_info.metadata: expected an object, got an array",
            f"{at}.a.type: is 'text'; expected one of {types}",
            f"{at}.b.enum: expected an array, got 'ab'",
            f"{at}.b.required: expected true or false, got 1",
            f"{at}.c.type: missing",
            f"{at}.c.default: unknown field",
            f"{at}.d.items: {required}",
            f"{at}['e f'].properties.g: expected an object, got null",
            f"{at}['e f'].properties[''].type: missing",
            "$.tool_info.name: missing",
        ] == found

    @pytest.mark.parametrize(
        ("parameters", "where", "what"),
        [
            (5, "", "expected an object, got 5"),
            ({"a": "string"}, ".a", "expected an object, got 'string'"),
            ({"type": 5}, ".type", "expected an object, got 5"),
            ({"type": "string"}, "", "has \"type\": 'string'; a tool takes an object"),
            ({"": {"type": "null"}}, "", "has a parameter with an empty name"),
            (
                {"a": {"type": "integer", "enum": [1, True]}},
                ".a.enum",
                "has True; expected integer",
            ),
            (
                {"a": {"type": "string", "items": {"type": "null"}}},
                ".a.items",
                "are given for a string; only an array has items",
            ),
        ],
    )
    def test_parameters(self, parameters, where, what):
        """What no tool can take is refused where it stands."""
        (found,) = wrong_with("tool_info", name="t", parameters=parameters)

        assert found.startswith(f"$.tool_info.parameters{where}: {what}")

    def test_schema_json_can_not_hold(self):
        """What is wrong inside of a schema has a path, too."""
        data = document_with(
            "tool_info", name="", parameters={"type": "object", "a": [2**70]}
        )
        with pytest.raises(DecodeError) as caught:
            from_data(data)

        where = [problem.path for problem in caught.value.problems]
        assert ["$.tool_info.parameters.a[0]", "$.tool_info.name"] == where

    @pytest.mark.parametrize("place", ["enum", "default"])
    def test_oversized_integers(self, place):
        """An integer that is too large is not a float."""
        parameters = {
            "enum": {"a": {"type": "number", "enum": [2**70]}},
            "default": {"type": "object", "default": 2**70},
        }[place]
        data = document_with("tool_info", name="t", parameters=parameters)

        with pytest.raises(DecodeError, match="64 bits"):
            decode(json.dumps(data))

    @pytest.mark.parametrize("key", ["items", "properties"])
    @pytest.mark.parametrize("levels", [45, 46, 100_000])
    def test_deep(self, key, levels):
        """
        Parameters in parameters are read as deep as they can be made, and
        refused below.
        """
        kind = {"items": "array", "properties": "object"}[key]
        deep: dict[str, Any] = {"type": "null"}
        for _ in range(levels - 1):
            deep = {"type": kind, key: deep if key == "items" else {"a": deep}}

        data = document_with("tool_info", name="t", parameters={"a": deep})
        if levels <= 45:
            tool = from_data(data)

            assert tool == decode(encode(tool))
            assert tool.schema == ToolInfo("t", "", tool.schema).parameters
            return

        with pytest.raises(DecodeError) as caught:
            from_data(data)

        (problem,) = caught.value.problems
        assert "nested more than 45 levels deep" == problem.what


class TestTemplates:
    def test_are_written_shortly(self):
        """Default values are left out."""
        template = Template(UserMessage("{x}"), Placeholder("said"))

        assert (
            document_with(
                "template",
                items=[
                    {"message": {"role": "user", "content": "{x}"}},
                    {"placeholder": "said"},
                ],
            )
        ) == to_data(template)

    def test_wrong(self):
        """Every problem of every item is reported with its path."""
        items = [
            5,
            {},
            {"message": {}},
            {"placeholder": ""},
            {"placeholder": "a", "optional": 1, "more": 1},
        ]
        found = wrong_with("template", items=items, syntax=5, more=1)

        assert [
            "$.template.items[0]",
            "$.template.items[1].message",
            "$.template.items[2].message.role",
            "$.template.items[3]",
            "$.template.items[4].optional",
            "$.template.items[4].more",
            "$.template.syntax",
            "$.template.more",
        ] == [problem.partition(": ")[0] for problem in found]
        assert ["$.template.items: missing"] == wrong_with("template")
        assert wrong_with("template", items=[], syntax="perl")[0].startswith(
            "$.template: "
        )
