"""Strategies draw what happens: measured on hundreds of draws, and shape by shape."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from conversation_state.chunks import concat
from conversation_state.codec import encode
from conversation_state.errors import DecodeError, ProviderStreamError
from conversation_state.messages import Message
from conversation_state.parts import ImagePart, ReasoningPart, RefusalPart, TextPart
from conversation_state.testing import (
    SHAPES,
    ConversationShape,
    conversations,
    diamonds,
    event_streams,
    model_answers,
    provider_payloads,
    states,
)
from conversation_state.testing._wire_requests import is_object, write_request
from conversation_state.testing.shapes import (
    ACTS,
    TurnWriter,
    grow_state,
    write_shapes,
)
from conversation_state.testing.strategies import aggregators
from conversation_state.tools import Parameter, ToolInfo
from conversation_state.usage import Usage
from tests.adapters.helpers import PROVIDERS
from tests.profiles import is_thorough

_DRAWS = settings(
    max_examples=2_000 if is_thorough() else 400,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
_FEW = settings(_DRAWS, max_examples=100)
_SHRUNK = settings(_DRAWS, phases=[Phase.generate, Phase.shrink])


def is_odd_json(text: str) -> bool:
    """Whether *text* is JSON, and other than Python would write it."""
    try:
        return text != json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return False


def list_features(messages: Iterable[Message]) -> set[str]:
    """What happens in a conversation, read from its messages alone."""
    messages = list(messages)
    made_at = {
        call.id: at
        for at, message in enumerate(messages)
        for call in message.tool_calls
        if call.id
    }
    found: set[str] = set() if messages else {"empty"}
    ids = Counter(call.id for message in messages for call in message.tool_calls)
    found |= {"id used again"} if any(count > 1 for count in ids.values()) else set()
    responses = [getattr(message, "response", None) for message in messages]
    models = {each.model for each in responses if each is not None and each.model}
    found |= {"two models"} if len(models) > 1 else set()
    if {"user", "assistant"} <= {message.role for message in messages}:
        found.add("both roles")

    if len(messages) > 60:
        found.add("long")

    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            thinks = any(isinstance(part, ReasoningPart) for part in message.parts)
            reason = message.response.finish_reason if message.response else ""
            found |= {"thought with a call"} if thinks and message.tool_calls else set()
            found |= {"parallel calls"} if len(message.tool_calls) > 1 else set()
            found |= {"interrupted"} if reason == "interrupted" else set()
            found |= {"filtered"} if reason == "content_filter" else set()
            found |= {"empty text"} if not message.parts else set()
            noted: list[Any] = [*message.tool_calls, *message.parts]
            found |= {"provider's notes"} if any(e.metadata for e in noted) else set()
            usage = (message.response and message.response.usage) or Usage()
            found |= {"written to a cache"} if usage.extra else set()
            cached = usage.prompt_tokens_details.cached_tokens
            found |= {"read from a cache"} if cached else set()
            written = [call.arguments for call in message.tool_calls]
            found |= {"a model's JSON"} if any(map(is_odd_json, written)) else set()
        elif isinstance(message, ToolMessage):
            start = made_at.get(message.tool_call_id, at)
            between = messages[start:at]
            is_media = any(isinstance(part, ImagePart) for part in message.parts)
            is_late = any(isinstance(each, UserMessage) for each in between)
            found |= {"call with result"} if start < at else set()
            found |= {"media in a result"} if is_media else set()
            found |= {"late result"} if is_late else set()

    return found


_SHARES = {
    "both roles": 60,
    "call with result": 40,
    "parallel calls": 10,
    "late result": 5,
    "interrupted": 5,
    "thought with a call": 5,
    "media in a result": 5,
    "id used again": 3,
    "two models": 3,
    "written to a cache": 3,
    "read from a cache": 5,
    "provider's notes": 3,
    "a model's JSON": 3,
    "filtered": 2,
    "empty text": 5,
    "long": 2,
}


class TestShares:
    @pytest.mark.parametrize(
        "strategy",
        [conversations(), states()],
        ids=["conversations", "states"],
    )
    def test_of_what_happens(
        self,
        strategy: st.SearchStrategy[Iterable[Message]],
        monkeypatch: pytest.MonkeyPatch,
    ):
        """
        Enough draws have calls with results, late results and the like, and few are
        empty. In one state of twenty, at least, two branches that both added something
        meet.
        """
        seen: Counter[str] = Counter()
        join, met = Aggregator.join, []

        def note_join(self: Aggregator, *others: Aggregator) -> Aggregator:
            joined = join(self, *others)
            if all(len(joined) > len(each) for each in (self, *others)):
                met.append(joined)

            return joined

        monkeypatch.setattr(Aggregator, "join", note_join)

        @_DRAWS
        @given(strategy)
        def draw(drawn: Iterable[Message]) -> None:
            seen.update(["draws", *list_features(drawn)])
            seen["states"] += isinstance(drawn, Aggregator)
            seen["diamonds"] += bool(met)
            met.clear()

        draw()
        shares = {
            name: 100 * seen[name] / seen["draws"] for name in [*_SHARES, "empty"]
        }

        assert seen["draws"] >= 0.95 * _DRAWS.max_examples
        assert [name for name, least in _SHARES.items() if shares[name] < least] == []
        assert shares["empty"] <= 5
        assert seen["diamonds"] >= 0.05 * seen["states"]


class TestConversations:
    @pytest.mark.parametrize(
        ("option", "feature"),
        [
            ("parallel", "parallel calls"),
            ("late", "late result"),
            ("interrupted", "interrupted"),
            ("media", "media in a result"),
            ("reasoning", "thought with a call"),
            ("long", "long"),
        ],
    )
    def test_without(self, option: str, feature: str):
        """What an option excludes is in no shape that is drawn."""
        seen: set[str] = set()

        @_FEW
        @given(conversations(max_turns=4, **{option: False}))
        def draw(drawn: list[Message]) -> None:
            seen.update(list_features(drawn))

        draw()

        assert "call with result" in seen
        assert feature not in seen

    def test_shrink_to_a_turn(self):
        """The smallest conversation with parallel calls is one turn of them."""
        found = find(
            conversations(),
            lambda drawn: "parallel calls" in list_features(drawn),
            settings=_SHRUNK,
        )

        assert [each.role for each in found][:2] == ["user", "assistant"]
        assert len(found) <= 5

    def test_draw_shapes_of_users(self, monkeypatch: pytest.MonkeyPatch):
        """A shape that a user adds to the table is drawn like ours."""
        form = ConversationShape(
            lambda turn: [UserMessage(f"a user's {turn.number}")], share=5
        )
        monkeypatch.setitem(SHAPES, "a form", form)
        found = find(
            conversations(),
            lambda drawn: any("a user's" in m.text for m in drawn),
            settings=_SHRUNK,
        )

        assert [each.text for each in found] == ["a user's 0"]


class TestStates:
    def test_are_shown_as_code(self):
        """A failing test prints the state that it was given as code."""

        @_SHRUNK
        @given(aggregators())
        def fail(state: Aggregator) -> None:
            raise ValueError(len(state))

        with pytest.raises(ValueError, match="0") as caught:
            fail()

        shown = "\n".join(caught.value.__notes__)
        assert "A state that was drawn, as code:\nAggregator.new()" in shown


class Variant(TurnWriter):
    """Takes the option with a number of each choice, or one from the start again."""

    variant = 0

    def pick(self, *options: Any) -> Any:
        return options[self.variant % len(options)]


def digest_variants(write: Callable[[TurnWriter], Any]) -> str:
    """A digest of what *write* makes of three variants of a turn."""
    digest = blake2b(digest_size=6)
    for variant in range(3):
        turn = Variant(2)
        turn.variant = variant
        digest.update(encode(tuple(write(turn))))

    return digest.hexdigest()


def act_on(act: Callable[[TurnWriter, Aggregator], Aggregator]) -> Any:
    """What *act* makes of a short state: its messages, and its usage."""

    def write(turn: TurnWriter) -> Iterator[Any]:
        state = act(turn, grow_state(SHAPES["call and result"].write(turn)))
        yield from state
        for entry in state.ledger:
            yield UserMessage(f"{entry.model} {entry.usage}")

    return write


class TestShapes:
    def test_are_the_same_in_each_release(self):
        """
        What each shape and act writes is pinned, so that examples can be compared; a
        digest is replaced where one is changed on purpose.
        """
        pinned = json.loads(Path(__file__).with_name("shapes.json").read_text("utf-8"))

        assert pinned == {
            **{name: digest_variants(shape.write) for name, shape in SHAPES.items()},
            **{name: digest_variants(act_on(act)) for name, act in ACTS.items()},
        }

    def test_are_what_they_are_named(self):
        """
        The examples of shapes that are the same in every run show what their names say.
        """
        shapes = write_shapes()

        assert "late result" in list_features(shapes["late result"])
        assert "interrupted" in list_features(shapes["interrupted answer"])
        assert "thought with a call" in list_features(shapes["thought with a call"])
        assert "media in a result" in list_features(shapes["image in a result"])
        assert "parallel calls" in list_features(shapes["parallel calls"])
        assert shapes == write_shapes()

    def test_are_drawn(self):
        """Random search meets every shape of the table."""
        names = {id(shape): name for name, shape in SHAPES.items()}
        met: set[str] = set()
        written = {
            name: ConversationShape(
                lambda turn, shape=shape: (  # type: ignore[misc]
                    met.add(names[id(shape)]) or list(shape.write(turn))  # type: ignore[func-returns-value]
                ),
                shape.needs,
                shape.share,
            )
            for name, shape in SHAPES.items()
        }
        with pytest.MonkeyPatch.context() as patch:
            for name, shape in written.items():
                patch.setitem(SHAPES, name, shape)

            settings(_DRAWS, max_examples=500)(
                given(conversations())(lambda _drawn: None)
            )()

        assert met == {*SHAPES}


class TestDiamonds:
    @given(diamonds())
    def test_are_two_forks_and_their_join(self, diamond):
        """
        Both sides begin with the trunk and add something; together they have both.
        """
        trunk, left, right, joined = diamond
        ids = [[entry.id for entry in each.entries] for each in diamond]

        assert left.parent_id == trunk.id == right.parent_id
        assert len(left) > len(trunk) < len(right)
        assert {*ids[1]} | {*ids[2]} == {*ids[3]}
        assert len(joined) == len(left) + len(right) - len(trunk)


class TestModelAnswers:
    def test_fit_their_tools(self):
        """
        Answers without faults call tools that exist, with the arguments they need.
        """
        book = ToolInfo(
            "book",
            parameters={
                "train": Parameter("integer", required=True),
                "seat": Parameter("string", enum=("window", "aisle")),
            },
        )
        names: set[str] = set()

        @_FEW
        @given(model_answers([book], broken=False))
        def draw(answer: AssistantMessage) -> None:
            for call in answer.tool_calls:
                names.add(call.name)
                assert '"train": ' in call.arguments

            assert answer.text or answer.tool_calls

        draw()

        assert names == {"book"}

    @pytest.mark.parametrize(
        ("fault", "shows"),
        [
            ("unknown tool", lambda a: any(c.name != "clock" for c in a.tool_calls)),
            ("invalid JSON", lambda a: any(c.arguments != "{}" for c in a.tool_calls)),
            ("missing id", lambda a: any(not c.id for c in a.tool_calls)),
            ("long id", lambda a: any(len(c.id) > 64 for c in a.tool_calls)),
            (
                "repeated id",
                lambda a: len({c.id for c in a.tool_calls}) < len(a.tool_calls),
            ),
            ("empty", lambda a: not a.parts and not a.tool_calls),
            ("refused", lambda a: any(isinstance(p, RefusalPart) for p in a.parts)),
            ("truncated", lambda a: a.response.finish_reason == "length"),
        ],
    )
    def test_have_faults(self, fault, shows):
        """Each fault is drawn where it is asked for, and not where it is not."""
        find(model_answers([ToolInfo("clock")], broken=[fault]), shows, settings=_DRAWS)
        with pytest.raises(Exception, match="No"):
            find(
                model_answers([ToolInfo("clock")], broken=[]),
                shows,
                settings=_FEW,
            )

    def test_end_for_a_reason(self):
        """Answers end for the reasons that providers give."""
        reasons: set[str] = set()

        @_DRAWS
        @given(model_answers())
        def draw(answer: AssistantMessage) -> None:
            assert answer.response is not None
            reasons.add(answer.response.finish_reason)

        draw()

        assert reasons == {"stop", "tool_calls", "length", "content_filter"}

    def test_refuse_unknown_faults(self):
        """An unknown fault is an error that lists the known ones."""
        with pytest.raises(ValueError, match="unknown fault 'late'; valid ones are"):
            model_answers(broken=["late"])


_THOUGHTS = [ReasoningPart("Hm.", signature="c2lnbmVk"), ReasoningPart("So.")]
_CALLS = [ToolCall("c1", "search", '{"q": "a"}'), ToolCall("c2", "clock", "")]
_CONVERSATION = [
    SystemMessage("Be brief."),
    UserMessage(
        [
            TextPart("What is it?"),
            ImagePart(url="https://example.org/a.png"),
            ImagePart(data=b"a", media_type="image/gif"),
        ]
    ),
    AssistantMessage([*_THOUGHTS, TextPart("Let me see.")], tool_calls=_CALLS),
    ToolMessage("A cat.", tool_call_id="c1"),
    ToolMessage("No clock.", tool_call_id="c2", is_error=True),
    AssistantMessage([RefusalPart("No.")]),
    UserMessage("Why?"),
    AssistantMessage(""),
]


def list_kinds(message: AssistantMessage) -> set[str]:
    """What *message* is made of."""
    calls = message.tool_calls
    found: set[str] = {part.kind for part in message.parts}
    found |= {"several calls"} if len(calls) > 1 else set()
    for call in calls:
        found |= {"arguments"} if len(call.arguments) > len("{}") else set()
        found |= set() if is_object(call.arguments) else {"broken arguments"}

    response = message.response
    return found | ({"usage"} if response and response.usage else set())


@pytest.mark.parametrize("wire", PROVIDERS)
class TestWires:
    def test_payloads_are_read(self, wire: str):
        """
        Our adapters read what is written here without them, requests and responses.
        """
        request = {"openai_responses": "input", "gemini": "contents"}
        kinds: set[str] = set()

        @_FEW
        @given(provider_payloads(wire))
        def draw(payload) -> None:
            is_request = request.get(wire, "messages") in payload
            kinds.add("request" if is_request else "response")
            PROVIDERS[wire].load(payload)

        draw()

        assert kinds == {"request", "response"}

    def test_streams_are_read(self, wire: str):
        """
        Streams are whole, broken off, or end with an error; all of what came is read;
        whole ones have texts, thoughts, refusals, one call or several, with arguments,
        and the usage.
        """
        ends: Counter[str] = Counter()
        seen: set[str] = set()

        @_DRAWS
        @given(event_streams(wire))
        def draw(events) -> None:
            try:
                chunks = list(PROVIDERS[wire].load_chunks(events))
            except ProviderStreamError:
                ends["error"] += 1
            except DecodeError:
                ends["unreadable"] += 1
            else:
                reasons = [c.response.finish_reason for c in chunks if c.response]
                is_cut = "interrupted" in reasons
                ends["cut" if is_cut else "whole"] += 1
                if chunks and not is_cut:
                    seen.update(list_kinds(concat(chunks)))

        draw()

        assert {*ends} == {"error", "cut", "whole"}
        # Two wires have no form of their own for refusals, which are texts; one sends
        # no part of a call.
        own = {"refusal"} if wire.startswith("openai") else set()
        own |= {"broken arguments"} if wire != "gemini" else set()
        everywhere = {"text", "reasoning", "arguments", "several calls", "usage"}
        assert seen == everywhere | own

    def test_requests_are_as_recorded(self, wire: str):
        """The requests of one conversation are those of a file, which people read."""
        recorded = Path(__file__).with_name("requests.json").read_text("utf-8")

        assert json.loads(recorded)[wire] == write_request(wire, _CONVERSATION)

    def test_unknown_formats_are_refused(self, wire: str):
        """An unknown format is an error that lists the known ones."""
        with pytest.raises(ValueError, match=wire):
            event_streams("morse")
