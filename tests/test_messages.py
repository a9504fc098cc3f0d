"""Messages: their roles, content and metadata."""

import copy
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ConversationStateError,
    Envelope,
    ImagePart,
    Message,
    ResponseMeta,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from conversation_state._persistent import EMPTY_MAP, FrozenMap
from conversation_state._wording import describe_type, shorten_repr, with_article
from conversation_state.errors import InvalidMessageError
from conversation_state.messages import (
    ERASED,
    LogProb,
    UnknownMessage,
    find_pending_calls,
    group_answers,
    make_tombstone,
    response_key,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ReasoningPart,
    RefusalPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.testing.laws import (
    replacing_nothing_changes_nothing,
)
from conversation_state.testing.strategies import (
    messages,
    texts,
)
from conversation_state.usage import PromptTokensDetails

RUN = UUID("0190163d-8694-739b-aea5-966c26f8ad91")
TURN = UUID("0190163d-8694-739b-aea5-966c26f8ad92")
NOON = datetime(2026, 2, 28, 12, 0, tzinfo=UTC)
HOLOGRAM: Any = {"type": "hologram"}


def make_message(kind: Any, content: Any = "hi", **fields: Any) -> Any:
    """A message of *kind*, with what else that kind needs."""
    if kind is ToolMessage:
        fields.setdefault("tool_call_id", "c1")
    if kind is UnknownMessage:
        content = {"role": "narrator"}

    return kind(content, **fields)


SPOKEN: list[Any] = [SystemMessage, UserMessage, AssistantMessage, ToolMessage]
KINDS: list[Any] = [*SPOKEN, UnknownMessage]

PARTS: list[Any] = [
    TextPart("hi"),
    ImagePart(url="https://example.com/a"),
    AudioPart(data=b"RIFF"),
    VideoPart(url="https://example.com/a"),
    FilePart(data=b"%PDF", name="a.pdf"),
    UnknownPart(HOLOGRAM),
    ReasoningPart("hm"),
    RefusalPart("no"),
]
MEDIA = {"text", "image", "audio", "video", "file", "unknown"}
HOLDS = {
    SystemMessage: {"text"},
    UserMessage: MEDIA,
    ToolMessage: MEDIA,
    AssistantMessage: MEDIA | {"reasoning", "refusal"},
}


class TestNew:
    @pytest.mark.parametrize("kind", KINDS)
    def test_other_fields(self, kind):
        """
        An unknown field is a TypeError that lists the fields there are; the class that
        messages have in common is not made by itself.
        """
        for make in (partial(make_message, kind), make_message(kind).replace):
            with pytest.raises(TypeError, match="takes no 'mood'; besides its own"):
                make(mood="good")

        with pytest.raises(TypeError, match="make a SystemMessage, UserMessage"):
            Message("hi")

    @pytest.mark.parametrize("sequence", [list, iter])
    def test_parts_are_kept_as_a_tuple(self, sequence):
        """Any sequence of parts will do; later changes to it have no effect."""
        content = sequence([TextPart("a"), TextPart("b")])
        message = UserMessage(content)
        if sequence is list:
            content.clear()

        assert (TextPart("a"), TextPart("b")) == message.content == message.parts

    @pytest.mark.parametrize("kind", SPOKEN)
    @pytest.mark.parametrize("part", PARTS, ids=lambda part: part.kind)
    def test_which_role_holds_what(self, kind, part):
        """A part that a role can't hold is refused: where, what, and what it can."""
        holds = HOLDS[kind]
        if part.kind in holds:
            assert (TextPart(""), part) == make_message(
                kind, [TextPart(""), part]
            ).parts
            return

        with pytest.raises(InvalidMessageError) as raised:
            make_message(kind, [TextPart(""), part])

        assert str(raised.value) == (
            f"{kind.__name__}.content[1] is {describe_type(part)}; {kind.__name__} "
            f"holds parts of {', '.join(sorted(holds))}"
        )

    @pytest.mark.parametrize("kind", SPOKEN)
    @pytest.mark.parametrize(
        ("content", "shown"),
        [
            (5, " is an int; expected a str or a sequence of parts"),
            (b"hi", " is a bytes; expected a str or a sequence of parts"),
            ([TextPart("a"), {"type": "text"}], "[1] is a dict; "),
        ],
    )
    def test_content(self, kind, content, shown):
        """Content is a text or parts, and nothing else."""
        with pytest.raises(InvalidMessageError) as raised:
            make_message(kind, content)

        assert f"{kind.__name__}.content{shown}" in str(raised.value)
        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, ConversationStateError)

    @pytest.mark.parametrize("kind", SPOKEN)
    @pytest.mark.parametrize("text", ["a\udfff", "\udc00\ud800"], ids=ascii)
    def test_surrogates(self, kind, text):
        """
        Half of a surrogate pair is refused when the message is made, in text,
        name and metadata alike.
        """
        for fields in (
            {"content": text},
            {"name": text},
            {"metadata": {"a": [text]}},
            {"unknown": {text: 1}},
        ):
            with pytest.raises(InvalidMessageError, match="half of a surrogate pair"):
                make_message(kind, **fields)

    @pytest.mark.parametrize("kind", [UserMessage, UnknownMessage])
    @pytest.mark.parametrize(
        ("field", "value", "expected"),
        [
            ("name", 5, "a str"),
            ("run_id", "0190163d-8694-739b-aea5-966c26f8ad91", "a uuid.UUID or None"),
            ("turn_id", 7, "a uuid.UUID or None"),
            ("timestamp", NOON.date(), "an aware datetime or None"),
            ("metadata", None, "a mapping of names to JSON values"),
            ("unknown", ["a"], "a mapping of names to JSON values"),
        ],
    )
    def test_common_errors(self, kind, field, value, expected):
        """What a field can't hold is refused: what was given, what is expected."""
        with pytest.raises(InvalidMessageError) as raised:
            make_message(kind, **{field: value})

        shown = f"{kind.__name__}.{field} is {value!r}; expected {expected}"
        assert shown == str(raised.value)


class TestMetadata:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("field", ["metadata", "unknown"])
    def test_frozen_deeply(self, kind, field):
        """
        A caller's later changes have no effect, and there is no way to change
        what is inside.
        """
        given: Any = {"a": [{"b": [1]}]}
        message = make_message(kind, **{field: given})
        given["a"][0]["b"].append(2)
        given["a"].append(3)
        given["c"] = 4
        kept = getattr(message, field)

        assert {"a": ({"b": (1,)},)} == kept
        assert isinstance(kept, FrozenMap)
        assert isinstance(kept["a"][0], FrozenMap)
        with pytest.raises(TypeError):
            kept["a"] = 1
        with pytest.raises(TypeError):
            kept["a"][0]["b"] = 1

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ({"n": float("nan")}, "UserMessage.metadata.n is nan, which JSON can't"),
            ({"n": 2**64}, "UserMessage.metadata.n is an integer that does not fit"),
            ({"a": [{"b": {1}}]}, "UserMessage.metadata.a[0].b is {1}, which JSON"),
            ({"at": NOON}, "UserMessage.metadata.at is datetime.datetime(2026"),
            ({5: 1}, "UserMessage.metadata has the key 5; keys of JSON are text"),
        ],
    )
    def test_json_only(self, value, shown):
        """What JSON can't represent is refused, with its place."""
        with pytest.raises(InvalidMessageError) as raised:
            UserMessage("hi", metadata=value)

        assert shown in str(raised.value)


class Zone(tzinfo):
    """
    A zone by name, whose clocks are set back at noon; it knows no more than it
    has to.
    """

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=1 if when is not None and when.fold else 2)


class TestTimestamp:
    def test_naive(self):
        """A time without a zone is refused, with a way to get one."""
        with pytest.raises(InvalidMessageError) as raised:
            UserMessage("hi", timestamp=datetime(2026, 2, 28))  # noqa: DTZ001 - naive on purpose

        assert str(raised.value) == (
            "UserMessage.timestamp is datetime.datetime(2026, 2, 28, 0, 0), which has "
            "no time zone; datetime.now(timezone.utc) has one"
        )

    @pytest.mark.parametrize(("fold", "hours"), [(0, 2), (1, 1)])
    def test_zone_becomes_an_offset(self, fold, hours):
        """Of a zone by name, the offset at that time is kept, and nothing else."""
        zone: Any = Zone
        given = datetime(2026, 2, 28, 12, 1, 2, 345, tzinfo=zone(), fold=fold)
        kept = UserMessage("hi", timestamp=given).timestamp

        assert kept is not None
        assert datetime is type(kept)
        assert timezone is type(kept.tzinfo)
        assert 0 == kept.fold
        assert f"2026-02-28T12:01:02.000345+0{hours}:00" == kept.isoformat()


class TestReading:
    @given(texts())
    def test_plain_text(self, text):
        """A plain text is one text part, or none if it is empty."""
        message = UserMessage(text)

        assert text == message.content == message.text
        assert ((TextPart(text),) if text else ()) == message.parts

    def test_text_of_parts(self):
        """Texts, reasoning and refusals are joined, each with its like."""
        message = AssistantMessage(
            [
                ReasoningPart("h"),
                TextPart("a"),
                RefusalPart("n"),
                ImagePart(url="https://example.com/a"),
                ReasoningPart("m"),
                TextPart("b"),
                RefusalPart("o"),
            ]
        )

        assert "ab" == message.text
        assert "hm" == message.reasoning
        assert "no" == message.refusal
        assert 7 == len(message.parts)

    def test_match(self):
        """Messages can be matched by their content."""
        match AssistantMessage("hello"):
            case UserMessage(content):
                found = f"user {content}"
            case AssistantMessage(content):
                found = f"assistant {content}"
            case _:
                found = ""

        assert "assistant hello" == found


class TestAssistant:
    def test_calls(self):
        """Calls are kept in order, as a tuple."""
        calls = [ToolCall("1", "a"), ToolCall("2", "b")]
        message = AssistantMessage(tool_calls=calls)
        calls.pop()

        assert (ToolCall("1", "a"), ToolCall("2", "b")) == message.tool_calls
        assert "" == message.content

    @pytest.mark.parametrize("calls", [["c1"], None])
    def test_no_calls(self, calls):
        """What is not a call is refused, and shown."""
        with pytest.raises(InvalidMessageError) as raised:
            AssistantMessage(tool_calls=calls)

        shown = calls[0] if calls else None
        assert str(raised.value) == (
            f"AssistantMessage.tool_calls[0] is {shown!r}; expected a ToolCall"
        )


class TestTool:
    def test_call_id(self):
        """A result that answers nothing is refused."""
        with pytest.raises(InvalidMessageError) as raised:
            ToolMessage("12:30", tool_call_id="")

        assert str(raised.value) == (
            "ToolMessage.tool_call_id is empty; a result must say which call it "
            "answers (ToolCall.id)"
        )
        with pytest.raises(TypeError):
            ToolMessage("12:30")  # type: ignore[call-arg]

    @pytest.mark.parametrize(
        ("field", "value", "expected"),
        [
            ("tool_call_id", 5, "a str"),
            ("tool_name", None, "a str"),
            ("is_error", 1, "True or False"),
        ],
    )
    def test_errors(self, field, value, expected):
        """What a field can't hold is refused: what was given, what is expected."""
        with pytest.raises(InvalidMessageError) as raised:
            make_message(ToolMessage, **{field: value})

        expected = f"ToolMessage.{field} is {value!r}; expected {expected}"
        assert expected == str(raised.value)


class TestUnknown:
    def test_verbatim(self):
        """Values are kept as they were given, and frozen."""
        raw: Any = {"role": "narrator", "content": [{"a": 1.5}]}
        message = UnknownMessage(raw)
        raw["content"].append(1)

        assert {"role": "narrator", "content": ({"a": 1.5},)} == message.raw
        assert "" == message.source

    @pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
    def test_known_role(self, role):
        """
        What goes by one of our roles is one of ours, unless a provider named
        it so.
        """
        with pytest.raises(InvalidMessageError) as raised:
            UnknownMessage({"role": role})

        known = with_article(f"{role.title()}Message")
        shown = f"of the known role {role!r}; make {known} of it"
        assert shown in str(raised.value)
        assert role == UnknownMessage({"role": role}, source="openai").raw["role"]


class TestLogProb:
    @pytest.mark.parametrize(
        "number",
        [float("nan"), -float("inf"), 10**400, "0", True],
        ids=lambda number: repr(number)[:9],
    )
    def test_what_json_cannot_hold(self, number):
        """Anything else is refused."""
        with pytest.raises(InvalidMessageError) as raised:
            LogProb("a", number)

        shown = shorten_repr(number)
        expected = f"LogProb.logprob is {shown}; expected a finite number"
        assert expected == str(raised.value)

    def test_errors(self):
        """What a field can't hold is refused: what was given, what is expected."""
        nested = LogProb("b", 0, top=(LogProb("c", 0),))
        wrong: list[tuple[Any, str]] = [
            ({"token": 5}, "LogProb.token is 5; expected a str"),
            ({"bytes": [97]}, "LogProb.bytes is [97]; expected bytes or None"),
            ({"top": 5}, "LogProb.top is 5; expected a list of LogProbs"),
            ({"top": ["b"]}, "LogProb.top[0] is 'b'; expected a LogProb without top"),
            ({"top": [nested]}, "LogProb.top[0] is LogProb(token='b', logprob=0.0,"),
        ]
        for fields, shown in wrong:
            with pytest.raises(InvalidMessageError) as raised:
                LogProb(**{"token": "a", "logprob": 0.0, **fields})

            assert shown in str(raised.value)


class TestResponseMeta:
    def test_logprobs(self):
        """Log probabilities are kept as a tuple; none are not the same as None."""
        probs: Any = [LogProb("a", -0.5)]
        meta = ResponseMeta(logprobs=probs)
        probs.append(LogProb("b", 0))

        assert (LogProb("a", -0.5),) == meta.logprobs
        assert () == ResponseMeta(logprobs=()).logprobs

    @pytest.mark.parametrize(
        ("fields", "shown"),
        [
            ({"finish_reason": "\ud800"}, "finish_reason holds '\\ud800'"),
            ({"model": 5}, "model is 5; expected a str"),
            ({"usage": {}}, "usage is {}; expected a Usage or None"),
            ({"logprobs": ["a"]}, "logprobs[0] is 'a'; expected a LogProb"),
            ({"unknown": [1]}, "unknown is [1]; expected a mapping"),
        ],
    )
    def test_errors(self, fields, shown):
        """What a field can't hold is refused: what was given, what is expected."""
        with pytest.raises(InvalidMessageError) as raised:
            ResponseMeta(**fields)

        assert f"ResponseMeta.{shown}" in str(raised.value)


class TestReplace:
    @given(messages())
    def test_nothing(self, message):
        """A message of which nothing is replaced is equal."""
        replacing_nothing_changes_nothing(message)

    @pytest.mark.skipif(
        sys.version_info < (3, 13), reason="copy.replace is new in 3.13"
    )
    @given(messages())
    def test_of_the_standard_library(self, message):
        """`copy.replace` does the same."""
        replace = copy.replace  # type: ignore[attr-defined,unused-ignore]

        assert message.replace(name="ann") == replace(message, name="ann")


class TestValue:
    def test_equal_by_content(self):
        """
        Messages that differ in any field are not equal, nor are those of other kinds.
        """
        call, meta = ToolCall("c", "f", "{}"), ResponseMeta("stop")
        answer = AssistantMessage("a", tool_calls=[call], response=meta)
        result = ToolMessage("a", tool_call_id="c", tool_name="f")
        unknown = UnknownMessage({"role": "new"})
        cases: list[tuple[Message, list[dict[str, Any]]]] = [
            (
                UserMessage("a"),
                [
                    {"content": [TextPart("a")]},
                    {"name": "ann"},
                    {"run_id": RUN},
                    {"turn_id": RUN},
                    {"timestamp": NOON},
                    {"metadata": {"a": 1}},
                    {"unknown": {"a": 1}},
                ],
            ),
            (
                answer,
                [
                    {"content": "b"},
                    {"tool_calls": ()},
                    {"tool_calls": [call, call]},
                    {"tool_calls": [ToolCall("d", "f", "{}")]},
                    {"tool_calls": [ToolCall("c", "g", "{}")]},
                    {"tool_calls": [ToolCall("c", "f", "{ }")]},
                    {"tool_calls": [ToolCall("c", "f", "{}", index=0)]},
                    {"response": None},
                    {"response": ResponseMeta("length")},
                    {"response": ResponseMeta("stop", Usage(1))},
                    {"response": ResponseMeta("stop", model="m")},
                ],
            ),
            (
                result,
                [
                    {"content": "b"},
                    {"tool_call_id": "d"},
                    {"tool_name": "g"},
                    {"is_error": True},
                ],
            ),
            (unknown, [{"raw": {"role": "newer"}}, {"source": "elsewhere"}]),
        ]
        assert 5 == len({make_message(kind) for kind in KINDS})
        for message, others in cases:
            changed = [message.replace(**changes) for changes in others]

            assert message == message.replace()
            assert len(others) + 1 == len({message, *changed})
            for each in changed:
                assert message != each
                assert each != message


EVERYTHING = """
from conversation_state import *
from conversation_state.messages import UnknownMessage
from conversation_state.parts import (
    FilePart, ReasoningPart, RefusalPart, UnknownPart
)

print(AssistantMessage(
    [
        TextPart("Look: "), ImagePart(data=b"x" * 5000, media_type="image/png"),
        ReasoningPart("hm"), RefusalPart("no"), TextPart("there"),
        UnknownPart({"type": {"a": 1, "b": 2, "c": 3}}, source="openai"),
        UnknownPart({"kind": "sticker", "code": "wave"}, source="example"),
        UnknownPart({"type": "note", "text": "Ask Ann."}, source="example"),
        FilePart(url="https://example.com/a.pdf", name="a.pdf"),
    ],
    tool_calls=[ToolCall("c1", "clock", "{}"), ToolCall("c2", "map", '{"at"')],
    response=ResponseMeta("tool_calls", Usage(3, 4)),
    name="bob", metadata={"a": 1, "b": 2, "c": 3},
))
print(UnknownMessage({"role": {"a": 1, "b": 2, "c": 3}}, source="openai"))
"""

SHOWN = """\
assistant (bob): Look: there
  [image] image/png 5,000 bytes
  [reasoning] hm
  [refusal] no
  [unknown] openai
  [unknown] example sticker
  [unknown] example note: Ask Ann.
  [file] a.pdf https://example.com/a.pdf
  calls clock({}) as c1
  calls map({"at") as c2
  finish reason: tool_calls
unknown openai:
"""


class MuteError(Exception):
    """An error whose text can't be made."""

    def __str__(self) -> str:
        raise ValueError("no text")


class TestMakeTombstone:
    @pytest.mark.parametrize(
        ("message", "expected"),
        [
            (UserMessage("secret", name="ann"), UserMessage("")),
            (SystemMessage("secret"), SystemMessage("")),
            (
                ToolMessage("secret", tool_call_id="c1", tool_name="clock"),
                ToolMessage("", tool_call_id="c1", tool_name="clock"),
            ),
            (
                AssistantMessage("secret", tool_calls=[ToolCall("c1", "clock", "{1}")]),
                AssistantMessage(tool_calls=[ToolCall("c1", "clock")]),
            ),
            (
                UnknownMessage({"role": "secret"}, source="openai"),
                UnknownMessage({}, source="openai"),
            ),
        ],
    )
    def test_keeps_what_others_refer_to(self, message, expected):
        """
        The role, a result's call and tool, the ids and tools of calls, and where the
        message came from stay; no content does.
        """
        erased = make_tombstone(message, b"x" * 16, "asked for")

        assert expected == erased.replace(metadata={})
        assert "secret" not in repr(erased)


class TestStr:
    @pytest.mark.parametrize("seed", ["0", "1"])
    def test_is_deterministic(self, seed):
        """
        Role, text, parts (media by size), calls and finish reason; the same in
        every process.
        """
        shown = subprocess.run(
            [sys.executable, "-c", EVERYTHING],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            text=True,
        ).stdout

        assert SHOWN == "".join(f"{line.rstrip()}\n" for line in shown.splitlines())

    @pytest.mark.parametrize(
        ("message", "shown"),
        [
            (SystemMessage("Be brief."), "system: Be brief."),
            (
                make_tombstone(UserMessage("secret"), b"x" * 16, "asked for"),
                "user: (erased: asked for)",
            ),
            (UserMessage("hi\nthere", name="ann"), "user (ann): hi\nthere"),
            (
                ToolMessage("no clock", tool_call_id="c1", is_error=True),
                "tool, for c1 (failed): no clock",
            ),
            (
                AssistantMessage("Hi", response=ResponseMeta("stop")),
                "assistant: Hi\n  finish reason: stop",
            ),
            (
                UserMessage([FilePart(url="https://a/b", name="b.pdf")]),
                "user:\n  [file] b.pdf https://a/b",
            ),
            (
                UserMessage(
                    "", metadata={ERASED: {"content": "X" * 32, "reason": "r"}}
                ),
                "user:",
            ),
            (
                UserMessage("", metadata={ERASED: {"content": "0" * 32, "reason": 5}}),
                "user:",
            ),
            (UnknownMessage({"role": "narrator"}), "unknown narrator:"),
            (UnknownMessage({"type": "x"}, source="openai"), "unknown openai x:"),
            (
                ToolMessage("12:30", tool_call_id="c1", tool_name="t", name="ann"),
                "tool t (ann), for c1: 12:30",
            ),
        ],
    )
    def test_examples(self, message, shown):
        """The role, then the content."""
        assert shown == str(message)

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("https://example.com/a", "https://example.com/a"),
            (
                f"DATA:image/png;base64,{'A' * 5_000}",
                "DATA:image/png;base64, and 5,000 characters more",
            ),
            (f"data:{'A' * 500}", f"data:{'A' * 95} and 405 characters more"),
            ("a" * 5_000, f"{'a' * 500} and 4,500 characters more"),
        ],
        ids=["plain", "bytes", "no comma", "too long"],
    )
    def test_shows_no_content_of_urls(self, url, shown):
        """A url is the place of content; the data in a data url is content."""
        assert f"user:\n  [image] {shown}" == str(UserMessage([ImagePart(url=url)]))

    def test_repr(self):
        """The fields of its kind, and of all others those that are given."""
        message = ToolMessage("a", tool_call_id="c", name="ann", metadata={"b": 1})

        assert repr(message) == (
            "ToolMessage(content='a', tool_call_id='c', tool_name='', is_error=False, "
            "name='ann', metadata={'b': 1})"
        )

    @given(messages())
    def test_never_fails(self, message):
        """Any message can be shown, and starts with its role."""
        assert str(message).startswith(message.role)


class TestAnswers:
    """Messages of one response, by its id, usage and place, are one answer."""

    @pytest.mark.parametrize(
        ("steps", "sizes", "pending"),
        [
            ([("r", 5), ("r", 5)], [2], "01"),
            ([("r", 5), ("r", None)], [2], "01"),
            ([("r", 5), ("r", 7)], [1, 1], "1"),
            ([("r", 5), ("s", 5)], [1, 1], "1"),
            ([("", 5), ("", 5)], [1, 1], "1"),
            ([None, ("r", 5)], [1, 1], "1"),
            ([("r", 5), None], [1, 1], "1"),
            ([("r", 5), "result", ("r", 5)], [2], "2"),
            ([("r", 5), ("r", 5), "result", ("r", 5)], [3], "03"),
            ([("r", 5), "result", ("r", None)], [1, 1], "2"),
            ([("r", 5), "user", ("r", 5)], [1, 1], "2"),
            ([("r", 5), "user"], [1], ""),
        ],
    )
    def test_which_are_one(self, steps, sizes, pending):
        """Those of one id and one prompt; the calls of the newest answer wait."""
        state = Aggregator.new()
        for at, step in enumerate(steps):
            if step == "result":
                result = ToolMessage("r", tool_call_id=str(at - 1))
                state = state.add_tool_response(result)
            elif step == "user":
                state = state.add_user_prompt("q")
            else:
                meta = step and ResponseMeta(
                    id=step[0], usage=None if step[1] is None else Usage(step[1], at)
                )
                calls = [ToolCall(str(at), "f")]
                state = state.add(AssistantMessage(tool_calls=calls, response=meta))

        answers = group_answers(state.entries)
        assert sizes == [len(answer.entries) for answer in answers]
        found = find_pending_calls(reversed(state.messages))
        assert [*pending] == [call.id for call in found]

    def test_other_keys(self):
        """Of two messages: their entries', each one's as if alone, and the id alone."""
        meta = ResponseMeta(id="r", usage=Usage(5))
        said = [AssistantMessage(text, response=meta) for text in "ab"]
        state = Aggregator.new(said)
        (answer,) = group_answers(state.entries)

        assert response_key(*said) == answer.key
        assert answer.other_keys() == [
            *[entry.id for entry in state.entries],
            *map(response_key, said),
            "r",
        ]

    def test_other_keys_of_one_message(self):
        """Of one message: its entry's, and the id alone; its own key is not among."""
        state = Aggregator.new([AssistantMessage("a", response=ResponseMeta(id="r"))])
        (answer,) = group_answers(state.entries)

        assert [state.entries[0].id, "r"] == answer.other_keys()

    def test_recorded_one_by_one(self):
        """
        Two messages that were recorded as the counts grew are recorded; one message is
        by its own usage only.
        """
        cached = PromptTokensDetails(cached_tokens=3)
        counts = [Usage(9, 1, prompt_tokens_details=cached), Usage(9, 4)]
        largest = Usage(9, 4, prompt_tokens_details=cached)

        def answer(*usages):
            metas = [ResponseMeta(id="r", usage=each) for each in usages]
            state = Aggregator.new(AssistantMessage(response=each) for each in metas)
            return next(group_answers(state.entries))

        assert largest == answer(*counts).usage
        assert answer(*counts).is_recorded_by(counts)
        assert not answer(largest).is_recorded_by(counts)

    def test_key_without_an_id(self):
        """The identity of the first entry of an assistant, or None."""
        entries = (
            Aggregator.new().add_user_prompt("q").add(AssistantMessage("a")).entries
        )

        assert entries[1].id == response_key(*entries)
        assert response_key(entries[0]) is None
        assert response_key(*[entry.message for entry in entries]) is None


class TestEnvelope:
    def test_stamps(self):
        """All messages of one envelope have its name, ids, time and metadata."""
        turn = Envelope.new(
            name="ann", run_id=RUN, turn_id=TURN, timestamp=NOON, metadata={"a": [1]}
        )
        common: Any = {
            "name": "ann",
            "run_id": RUN,
            "turn_id": TURN,
            "timestamp": NOON,
            "metadata": {"a": [1]},
        }
        call = ToolCall("c1", "clock")
        meta = ResponseMeta("stop")

        assert SystemMessage("s", **common) == turn.system("s")
        assert UserMessage("u", **common) == turn.user("u")
        assert AssistantMessage(
            "a", tool_calls=[call], response=meta, **common
        ) == turn.assistant("a", tool_calls=[call], response=meta)
        assert AssistantMessage(tool_calls=[call, call], **common) == turn.tool_call(
            call, call
        )
        assert ToolMessage(
            "r", tool_call_id="c1", tool_name="clock", **common
        ) == turn.tool_response("r", tool_call_id="c1", tool_name="clock")
        assert ToolMessage(
            "e", tool_call_id="c1", tool_name="clock", is_error=True, **common
        ) == turn.tool_error("e", tool_call_id="c1", tool_name="clock")

    def test_fills_in(self):
        """Missing ids are new UUIDs of version 7, a missing time is now in UTC."""
        before = datetime.now(UTC)
        turn, other = Envelope.new(), Envelope.new()
        after = datetime.now(UTC)

        assert 7 == turn.run_id.version == turn.turn_id.version
        assert 4 == len({turn.run_id, turn.turn_id, other.run_id, other.turn_id})
        assert before <= turn.timestamp <= after
        assert timedelta(0) == turn.timestamp.utcoffset()
        assert ("", EMPTY_MAP) == (turn.name, turn.metadata)
        assert turn.user("a").run_id is turn.assistant("b").run_id

    def test_new_needs_valid_fields(self):
        """What no message could have, no envelope can."""
        with pytest.raises(
            InvalidMessageError, match=r"Envelope\.timestamp is datetime"
        ):
            Envelope.new(timestamp=datetime(2026, 2, 28))  # noqa: DTZ001 - naive on purpose
        with pytest.raises(InvalidMessageError, match=r"Envelope\.name is 5; expected"):
            Envelope.new(name=5)  # type: ignore[arg-type]
        with pytest.raises(InvalidMessageError, match=r"Envelope\.run_id is 'a'; exp"):
            Envelope.new(run_id="a")  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            ("no clock", "no clock"),
            (ValueError("no clock"), "ValueError: no clock"),
            (KeyboardInterrupt(), "KeyboardInterrupt: "),
            (OSError("a\ud800b\udfffc"), "OSError: a\ufffdb\ufffdc"),
            (OSError("\ud83d\ude00"), "OSError: \U0001f600"),
            (MuteError(), "MuteError"),
        ],
        ids=ascii,
    )
    def test_tool_error(self, error, text):
        """
        A text, or an exception, which becomes its class and its message; whatever that
        is, it is made valid text, and its `str` may fail.
        """
        message = Envelope.new().tool_error(error, tool_call_id="c1")

        assert text == message.text
        assert message.is_error is True
        assert "c1" == message.tool_call_id
