"""
Scripts that agents are put through: what the user does, and what the provider answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, TypeAlias

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import RefusalPart
from conversation_state.testing._drawing import rarely
from conversation_state.testing._wire_answers import (
    Numbers,
    cut_text,
    stream_answer,
    write_answer,
)
from conversation_state.testing._wire_requests import is_object
from conversation_state.testing.provider import ErrorReply, Hangup, Reply, Silence
from conversation_state.testing.strategies import model_answers
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage

ACTS_OF_USERS = ("ask", "stop", "write", "crash")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ARGUMENTS = {"integer": 7, "number": 0.5, "boolean": True}


def _list_answers(answers: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(answers)


@attrs.frozen
class AgentTurn:
    """
    One turn of a script.

    Attributes:
        prompt: What the user writes.
        answers: What the provider answers, one for each request of the turn:
            `AssistantMessage`, or a fault of the strict provider. When there are no
            more, it answers with a text.
        act: What the user does: ``ask`` waits for the reply; ``stop`` stops the agent,
            ``write`` writes a second prompt while it works, ``crash`` kills it.
        at: When: at which suspension of an async function, or how many hundredths of a
            second after the first request of a command.
    """

    prompt: str
    answers: tuple[Any, ...] = attrs.field(default=(), converter=_list_answers)
    act: str = "ask"
    at: int = 0


@attrs.frozen
class CutStream:
    """
    An answer whose stream ends too early, as if that were its end: without a reason and
    without usage. Of a request for a whole answer, half of the body.

    Attributes:
        answer: The answer.
        after: How many of its events come.
    """

    answer: AssistantMessage
    after: int = 3

    def write(self, wire: str, *, is_stream: bool) -> Any:
        """What the strict provider sends on *wire*."""
        if not is_stream:
            return _cut_body(self.answer)

        response = write_answer(wire, self.answer, {}, Numbers())
        events = [*stream_answer(wire, response, {}, cut_text)]
        return events[: min(self.after, len(events) - 2)]


Script: TypeAlias = tuple[AgentTurn, ...]


def is_fault(answer: object) -> bool:
    """Whether *answer* isn't one, or does not arrive as a whole."""
    return not isinstance(answer, AssistantMessage)


def is_good(answer: object) -> bool:
    """
    Whether *answer* is a whole text or calls, as a model that makes no mistake gives.
    """
    if not isinstance(answer, AssistantMessage) or answer.response is None:
        return False

    return answer.response.finish_reason in {"stop", "tool_calls"} and bool(
        answer.text or answer.tool_calls
    )


class _ScriptWriter:
    """Writes answers whose calls, texts and usage no other answer has."""

    def __init__(self, tools: Sequence[ToolInfo], wire: str) -> None:
        self.tools, self.wire = tools, wire
        self.number = 0

    def meta(self, reason: str) -> ResponseMeta:
        self.number += 1
        return ResponseMeta(reason, Usage(2 ** min(self.number, 30), self.number))

    def say(self, text: str = "", *, reason: str = "stop") -> AssistantMessage:
        meta = self.meta(reason)
        return AssistantMessage(text or f"Answer {self.number}.", response=meta)

    def say_much(self) -> AssistantMessage:
        return self.say("A long answer. " * 20)

    def call(
        self, number: int = 1, *, name: str = "", text: str = ""
    ) -> AssistantMessage:
        """An answer with calls of the tools; a text if there are none."""
        if not self.tools:
            return self.say()

        meta = self.meta("tool_calls")
        calls = []
        for at in range(number):
            tool = self.tools[at % len(self.tools)]
            arguments = _make_arguments(tool)
            call_id = f"c{self.number:06}{at:02}"
            calls.append(ToolCall(call_id, name or tool.name, arguments))

        return AssistantMessage(text, tool_calls=calls, response=meta)

    def as_sent(self, message: AssistantMessage) -> AssistantMessage:
        """
        *message* with mistakes in its arguments as a model makes them on this wire: two
        have objects, which are cut off at the limit of tokens only.

        Source:
            NousResearch/hermes-agent#83886: Gemini answers nothing in place of such a
            call.
        """
        meta = message.response
        is_whole = all(is_object(call.arguments) for call in message.tool_calls)
        is_cut = meta is not None and meta.finish_reason == "length"
        if self.wire in {"openai_chat", "openai_responses"} or is_whole or is_cut:
            return message

        if self.wire == "gemini":
            assert meta is not None
            meta = attrs.evolve(meta, finish_reason="MALFORMED_FUNCTION_CALL")
            return AssistantMessage(response=meta)

        return message.replace(
            tool_calls=[
                call
                if is_object(call.arguments)
                else attrs.evolve(call, arguments="{}")
                for call in message.tool_calls
            ]
        )


def _make_arguments(tool: ToolInfo) -> str:
    schema = tool.json_schema()
    schema = schema.get("parameters") or schema.get("input_schema") or schema
    properties = schema.get("properties", {})
    return json.dumps(
        {
            name: _ARGUMENTS.get(properties.get(name, {}).get("type"), "Bern")
            for name in schema.get("required", properties)
        }
    )


_BUSY, _DOWN = ErrorReply(429, retry_after=0.01), ErrorReply(500)
_SILENT = Silence(0.05)
_MANY = 60  # more than the requests that a turn may have, by default
_UNKNOWN = "fly_to_the_moon"


def _break_off(answer: AssistantMessage) -> Reply:
    return Reply(answer, break_after=3)


def _cut_body(answer: AssistantMessage) -> Reply:
    return Reply(answer, cut_at=60)


def _repeat_answer(answer: AssistantMessage) -> list[AssistantMessage]:
    """*answer* many times; the provider gives each time new ids to its calls."""
    calls = [attrs.evolve(call, id="") for call in answer.tool_calls]
    return [answer.replace(tool_calls=calls)] * _MANY


# The named scripts: the answers of a turn or several, written with a writer.
_Turns: TypeAlias = Callable[[_ScriptWriter], Iterable[Sequence[Any]]]

_NAMED: dict[str, _Turns] = {
    "answers": lambda w: [[w.say()], [w.say()]],
    "a call": lambda w: [[w.call(), w.say()]],
    "two calls at once": lambda w: [[w.call(2), w.say()]],
    "a text beside a call": lambda w: [
        [w.call(text="Let me see."), w.say()],
        [w.call(2, text="Let me see again."), w.say()],
    ],
    "rounds of calls": lambda w: [[w.call(), w.call(), w.call(2), w.say()]],
    "429": lambda w: [[w.say()], [_BUSY, w.say()]],
    "429 after a call": lambda w: [[w.call(), _BUSY, w.say()]],
    "500 after a call": lambda w: [[w.call(), _DOWN, w.say()]],
    "500 again and again": lambda w: [[w.say()], [_DOWN] * _MANY],
    "no answer": lambda w: [[w.call(), _SILENT, w.say()]],
    "connection closed": lambda w: [[w.say()], [Hangup(), w.say()]],
    "cut answer": lambda w: [[w.say()], [_break_off(w.say_much()), w.say()]],
    "cut answer, and no other": lambda w: [[_break_off(w.say_much())]],
    "stream without an end": lambda w: [[w.say()], [CutStream(w.say_much())]],
    "stream without an end, and another one": lambda w: [
        [CutStream(w.say_much()), w.say()]
    ],
    "stream of calls without an end": lambda w: [[CutStream(w.call(2)), w.say()]],
    "cut call": lambda w: [[w.say()], [_break_off(w.call(2)), w.say()]],
    "cut after a call": lambda w: [[w.call(), _break_off(w.say_much())]],
    "half of a body": lambda w: [[_cut_body(w.say()), w.say()]],
    "unknown tool": lambda w: [[w.call(name=_UNKNOWN), w.say()]],
    "unknown tool again and again": lambda w: [_repeat_answer(w.call(name=_UNKNOWN))],
    "invalid arguments": lambda w: [[w.as_sent(_cut_arguments(w.call())), w.say()]],
    "a call cut by the limit": lambda w: [
        [_cut_arguments(w.call(), reason="length"), w.say()],
        [w.say()],
    ],
    "calls without end": lambda w: [_repeat_answer(w.call())],
    "empty answer": lambda w: [[_make_empty(w)], [w.say()]],
    "empty answers": lambda w: [_repeat_answer(_make_empty(w))],
    "refusal": lambda w: [[_make_refusal(w)], [w.say()]],
    "answer cut by the limit": lambda w: [[w.say(reason="length")], [w.say()]],
}


def _make_empty(writer: _ScriptWriter) -> AssistantMessage:
    return AssistantMessage("", response=writer.meta("stop"))


def _make_refusal(writer: _ScriptWriter) -> AssistantMessage:
    return AssistantMessage([RefusalPart("No.")], response=writer.meta("stop"))


def _cut_arguments(
    message: AssistantMessage, *, reason: str = "tool_calls"
) -> AssistantMessage:
    """*message*, its calls cut off; a text if it has none."""
    if not message.tool_calls or message.response is None:
        return message

    calls = [
        ToolCall(call.id, call.name, '{"city": "Be') for call in message.tool_calls
    ]
    meta = attrs.evolve(message.response, finish_reason=reason)
    return message.replace(tool_calls=calls, response=meta)


def _number_turns(turns: Iterable[tuple[Any, ...]]) -> Script:
    return tuple(
        AgentTurn(f"Question {number}.", *turn) for number, turn in enumerate(turns, 1)
    )


def list_named(
    tools: Sequence[ToolInfo],
    acts: Sequence[str],
    *,
    wire: str,
    moments: Sequence[int] = range(1, 25),
) -> Iterator[Script]:
    """
    The scripts that every check tries, with those *acts* of the user, each at each of
    *moments* (`AgentTurn.at`).
    """
    for write in _NAMED.values():
        writer = _ScriptWriter(tools, wire)
        yield _number_turns((answers,) for answers in write(writer))

    for act in acts:
        if act == "ask":
            continue

        for at in moments if tools else moments[:3]:
            writer = _ScriptWriter(tools, wire)
            first = [writer.call(2), writer.call(), writer.call()]
            answers = first if tools else [writer.say()]
            yield _number_turns(
                [([*answers, writer.say()], act, at), ([writer.say()],)]
            )


@st.composite
def _draw_script(
    draw: DrawFn, tools: Sequence[ToolInfo], acts: Sequence[str], wire: str, most: int
) -> Script:
    writer = _ScriptWriter(tools, wire)
    faulty = rarely(st.just(value=False), st.just(value=True))
    turns: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(1, most))):
        answers: list[Any] = []
        for _ in range(draw(st.integers(0, 2))):
            answers.append(_draw_answer(draw, writer))
            if draw(faulty):
                answers.append(_draw_fault(draw, writer))

        if draw(faulty):
            answers.append(_draw_fault(draw, writer))

        answers.append(writer.say())
        act = draw(st.sampled_from(["ask", "ask", *acts]))
        at = () if act == "ask" else (draw(st.integers(1, 40)),)
        turns.append((answers, act, *at))

    return _number_turns(turns)


_BROKEN = ("unknown tool", "invalid JSON", "empty", "refused", "truncated")


def _draw_answer(draw: DrawFn, writer: _ScriptWriter) -> AssistantMessage:
    if draw(st.booleans()):
        return writer.call(draw(st.integers(1, 3)))

    drawn = draw(model_answers(writer.tools, broken=_BROKEN))
    reason = drawn.response.finish_reason if drawn.response else "stop"
    meta = writer.meta(reason)
    calls = [
        ToolCall(
            f"c{writer.number:06}{at:02}",
            # Names that a provider refuses do not come from one.
            call.name if _NAME.fullmatch(call.name) else _UNKNOWN,
            call.arguments,
        )
        for at, call in enumerate(drawn.tool_calls)
    ]
    content: Any = [part for part in drawn.parts if part.kind != "reasoning"]
    message = AssistantMessage(content, tool_calls=calls, response=meta)
    return writer.as_sent(message)


def _draw_fault(draw: DrawFn, writer: _ScriptWriter) -> Any:
    return draw(
        st.sampled_from(
            [
                _BUSY,
                _DOWN,
                Hangup(),
                _SILENT,
                _break_off(writer.say_much()),
                _break_off(writer.call(2)),
                CutStream(writer.say_much()),
                CutStream(writer.call(2)),
                _cut_body(writer.say()),
            ]
        )
    )


def draw_scripts(
    tools: Sequence[ToolInfo], acts: Sequence[str], *, wire: str, most: int = 5
) -> SearchStrategy[Script]:
    """Scripts of up to *most* turns that *wire* can carry, with those *acts*."""
    return _draw_script(tuple(tools), tuple(acts), wire, most)


def list_smaller(script: Script) -> Iterator[Script]:
    """*script* with less in it, each time one thing less."""
    for at in range(len(script)):
        yield script[:at] + script[at + 1 :]

    for at, turn in enumerate(script):
        if turn.act != "ask":
            yield (*script[:at], attrs.evolve(turn, act="ask", at=0), *script[at + 1 :])

        for answers in _list_fewer(turn.answers):
            smaller = attrs.evolve(turn, answers=answers)
            yield (*script[:at], smaller, *script[at + 1 :])


def _list_fewer(answers: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    # Equal ones are one thing: the number of them is what matters.
    runs = [tuple(same) for _, same in groupby(answers)]
    for at, run in enumerate(runs):
        fewer: list[tuple[Any, ...]] = [()]
        if isinstance(run[0], AssistantMessage):
            for call in run[0].tool_calls[1:]:
                calls = [each for each in run[0].tool_calls if each is not call]
                fewer.append((run[0].replace(tool_calls=calls),) * len(run))

        for each in fewer:
            yield tuple(chain(*runs[:at], each, *runs[at + 1 :]))
