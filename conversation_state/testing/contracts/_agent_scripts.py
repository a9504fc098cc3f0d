"""
Scripts that agents are put through: what the user does, and what the provider answers.

What lives here: the values of a script (`AgentTurn`), the named scripts that every
check tries, and drawing others. What does not: running them (`_agent_runs`), and the
laws (`_agents`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import RefusalPart
from conversation_state.testing._wire_answers import (
    Numbers,
    cut_text,
    stream_answer,
    write_answer,
)
from conversation_state.testing.contracts._coverage import NamedExample, cover
from conversation_state.testing.provider import ErrorReply, Hangup, Reply, Silence
from conversation_state.testing.strategies import model_answers
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage

__all__ = [
    "ACTS_OF_USERS",
    "AgentTurn",
    "CutStream",
    "draw_scripts",
    "is_fault",
    "is_good",
]

ACTS_OF_USERS = ("ask", "stop", "write", "crash")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ARGUMENTS = {"string": "Bern", "integer": 7, "number": 0.5, "boolean": True}


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
    answers: tuple[Any, ...] = attrs.field(default=(), converter=tuple)
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
    after: int = 4

    def write(self, wire: str, *, is_stream: bool) -> Any:
        """What the strict provider sends on *wire*."""
        if not is_stream:
            return Reply(self.answer, cut_at=60)

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
    """Writes answers whose ids, texts and usage no other answer has."""

    def __init__(self, tools: Sequence[ToolInfo]) -> None:
        self.tools = tools
        self.number = 0

    def meta(self, reason: str) -> ResponseMeta:
        self.number += 1
        usage = Usage(100 + 2 ** min(self.number, 20), 10 + self.number)
        return ResponseMeta(reason, usage, model="model", id=f"resp-{self.number}")

    def say(self, text: str = "", *, reason: str = "stop") -> AssistantMessage:
        meta = self.meta(reason)
        return AssistantMessage(text or f"Answer {self.number}.", response=meta)

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


# The named scripts: each is a turn or several, written with a writer.
_Turns: TypeAlias = Callable[[_ScriptWriter], Iterable[tuple[Any, ...]]]

_NAMED: dict[str, _Turns] = {
    "answers": lambda w: [("ask", 0, w.say()), ("ask", 0, w.say())],
    "a call": lambda w: [("ask", 0, w.call(), w.say())],
    "two calls at once": lambda w: [("ask", 0, w.call(2), w.say())],
    "a text beside a call": lambda w: [
        ("ask", 0, w.call(text="Let me see."), w.say()),
        ("ask", 0, w.call(2, text="Let me see again."), w.say()),
    ],
    "rounds of calls": lambda w: [("ask", 0, w.call(), w.call(), w.call(2), w.say())],
    "429": lambda w: [
        ("ask", 0, w.say()),
        ("ask", 0, ErrorReply(429, retry_after=0.01), w.say()),
    ],
    "429 after a call": lambda w: [
        ("ask", 0, w.call(), ErrorReply(429, retry_after=0.01), w.say())
    ],
    "500 after a call": lambda w: [("ask", 0, w.call(), ErrorReply(500), w.say())],
    "500 again and again": lambda w: [
        ("ask", 0, w.say()),
        # More than the requests that a turn may have, by default.
        ("ask", 0, *[ErrorReply(500)] * 60),
    ],
    "no answer": lambda w: [("ask", 0, w.call(), Silence(0.05), w.say())],
    "connection closed": lambda w: [("ask", 0, w.say()), ("ask", 0, Hangup(), w.say())],
    "cut answer": lambda w: [
        ("ask", 0, w.say()),
        ("ask", 0, Reply(w.say("A long answer. " * 20), break_after=3), w.say()),
    ],
    "cut answer, and no other": lambda w: [
        ("ask", 0, Reply(w.say("A long answer. " * 20), break_after=4)),
    ],
    "stream without an end": lambda w: [
        ("ask", 0, w.say()),
        ("ask", 0, CutStream(w.say("A long answer. " * 20))),
    ],
    "stream without an end, and another one": lambda w: [
        ("ask", 0, CutStream(w.say("A long answer. " * 20)), w.say()),
    ],
    "stream of calls without an end": lambda w: [
        ("ask", 0, CutStream(w.call(2), 3), w.say()),
    ],
    "cut call": lambda w: [
        ("ask", 0, w.say()),
        ("ask", 0, Reply(w.call(2), break_after=2), w.say()),
    ],
    "cut after a call": lambda w: [
        ("ask", 0, w.call(), Reply(w.say("A long answer. " * 20), break_after=2))
    ],
    "half of a body": lambda w: [("ask", 0, Reply(w.say(), cut_at=60), w.say())],
    "unknown tool": lambda w: [("ask", 0, w.call(name="fly_to_the_moon"), w.say())],
    "unknown tool again and again": lambda w: [
        ("ask", 0, *[w.call(name="fly_to_the_moon") for _ in range(60)])
    ],
    "invalid arguments": lambda w: [("ask", 0, _with_arguments(w.call()), w.say())],
    "calls without end": lambda w: [("ask", 0, *[w.call() for _ in range(60)])],
    "empty answer": lambda w: [("ask", 0, _make_empty(w)), ("ask", 0, w.say())],
    "empty answers": lambda w: [("ask", 0, *[_make_empty(w) for _ in range(60)])],
    "refusal": lambda w: [("ask", 0, _make_refusal(w)), ("ask", 0, w.say())],
    "answer cut by the limit": lambda w: [
        ("ask", 0, w.say(reason="length")),
        ("ask", 0, w.say()),
    ],
}


def _make_empty(writer: _ScriptWriter) -> AssistantMessage:
    return AssistantMessage("", response=writer.meta("stop"))


def _make_refusal(writer: _ScriptWriter) -> AssistantMessage:
    return AssistantMessage([RefusalPart("No.")], response=writer.meta("stop"))


def _with_arguments(message: AssistantMessage) -> AssistantMessage:
    calls = [
        ToolCall(call.id, call.name, '{"city": "Be') for call in message.tool_calls
    ]
    return message.replace(tool_calls=calls)


def _number_turns(turns: Iterable[tuple[Any, ...]]) -> Script:
    return tuple(
        AgentTurn(f"Question {number}.", answers, act, at)
        for number, (act, at, *answers) in enumerate(turns, 1)
    )


def _list_named(
    tools: Sequence[ToolInfo], acts: Sequence[str], moments: Sequence[int]
) -> Iterator[Script]:
    for write in _NAMED.values():
        yield _number_turns(write(_ScriptWriter(tools)))

    for act in acts:
        if act == "ask":
            continue

        for at in moments if tools else moments[:3]:
            writer = _ScriptWriter(tools)
            first = [writer.call(2), writer.call(), writer.call()]
            answers = first if tools else [writer.say()]
            turns = [(act, at, *answers, writer.say()), ("ask", 0, writer.say())]
            yield _number_turns(turns)


@st.composite
def _draw_script(
    draw: DrawFn, tools: Sequence[ToolInfo], acts: Sequence[str], most: int
) -> Script:
    writer = _ScriptWriter(tools)
    faulty = st.sampled_from([False, False, False, True])
    turns = []
    # Mostly three to five; shrinks to one.
    sizes = [size for size in (1, 2, 3, 3, 4, 4, 5, 5) if size <= most]
    for _ in range(draw(st.sampled_from(sizes))):
        answers: list[Any] = []
        for _ in range(draw(st.integers(0, 2))):
            answers.append(_draw_answer(draw, writer))
            if draw(faulty):
                answers.append(_draw_fault(draw, writer))

        if draw(faulty):
            answers.append(_draw_fault(draw, writer))

        answers.append(writer.say())
        act = draw(st.sampled_from(["ask", "ask", *acts]))
        at = 0 if act == "ask" else draw(st.integers(1, 40))
        turns.append((act, at, *answers))

    return _number_turns(turns)


_BROKEN = ("unknown tool", "invalid JSON", "empty", "refused", "truncated")


def _draw_answer(draw: DrawFn, writer: _ScriptWriter) -> AssistantMessage:
    if draw(st.booleans()):
        return writer.call(draw(st.sampled_from([1, 2, 3])))

    drawn = draw(model_answers(writer.tools, broken=_BROKEN))
    reason = drawn.response.finish_reason if drawn.response else "stop"
    meta = writer.meta(reason)
    calls = [
        ToolCall(
            f"c{writer.number:06}{at:02}",
            # Names that a provider refuses do not come from one.
            call.name if _NAME.fullmatch(call.name) else "fly",
            call.arguments,
        )
        for at, call in enumerate(drawn.tool_calls)
    ]
    content: Any = [part for part in drawn.parts if part.kind != "reasoning"]
    return AssistantMessage(content, tool_calls=calls, response=meta)


def _draw_fault(draw: DrawFn, writer: _ScriptWriter) -> Any:
    return draw(
        st.sampled_from(
            [
                ErrorReply(429, retry_after=0.01),
                ErrorReply(500),
                Hangup(),
                Silence(0.05),
                Reply(writer.say("A long answer. " * 20), break_after=4),
                Reply(writer.call(2), break_after=3),
                CutStream(writer.say("A long answer. " * 20)),
                CutStream(writer.call(2), 3),
                Reply(writer.say(), cut_at=60),
            ]
        )
    )


def draw_scripts(
    tools: Sequence[ToolInfo],
    acts: Sequence[str],
    *,
    moments: Sequence[int] = range(1, 25),
    most: int = 5,
) -> SearchStrategy[Script]:
    """
    Scripts of up to *most* turns, with those *acts* of the user; the named ones first,
    in which each act comes at each of *moments* (`AgentTurn.at`).
    """

    def list_shapes() -> list[NamedExample[Script]]:
        return [NamedExample(each, tuple) for each in _list_named(tools, acts, moments)]

    return cover(_draw_script(tuple(tools), tuple(acts), most), list_shapes)
