"""
What models answer, and what their providers send: answers that fit tools or do not,
requests and responses of each wire, and streams that are cut anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart
from conversation_state.testing._drawing import once, rarely, sample
from conversation_state.testing._wire_answers import (
    Numbers,
    stream_answer,
    stream_error,
    write_answer,
)
from conversation_state.testing._wire_requests import FORMATS, is_object, write_request
from conversation_state.testing.strategies._life import conversations
from conversation_state.testing.strategies._values import FLOATS, INTEGERS, texts
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage

BROKEN_ANSWERS = (
    "unknown tool", "invalid JSON", "repeated id", "missing id", "long id", "empty",
    "refused", "truncated",
)  # fmt: skip
"""What may be wrong with an answer of `model_answers`."""

_LONG_ID = "call_" * 16
_CLOCK = ToolInfo("clock", "The time.")
_SEARCH = ToolInfo(
    "search",
    "Search trains.",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
)
TOOLS = (_SEARCH, _CLOCK)
_TEXTS = rarely(
    st.sampled_from(["At noon.", "I found 3 trains to Bern."]), texts(min_size=1)
)
_TOKENS = st.integers(1, 5_000)


def draw_arguments(draw: DrawFn, tool: ToolInfo) -> str:
    """
    Arguments that *tool* takes, as JSON; those that are not required may be missing.
    """
    schema = tool.json_schema()
    schema = schema.get("parameters") or schema.get("input_schema") or schema
    return json.dumps(_draw_value(draw, schema))


def _draw_value(draw: DrawFn, schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return draw(st.sampled_from(list(schema["enum"])))

    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0]

    if kind == "object":
        required = schema.get("required", ())
        return {
            name: _draw_value(draw, inner if isinstance(inner, Mapping) else {})
            for name, inner in schema.get("properties", {}).items()
            if name in required or draw(st.booleans())
        }

    if kind == "array":
        inner = schema.get("items")
        inner = inner if isinstance(inner, Mapping) else {}
        return [_draw_value(draw, inner) for _ in range(draw(st.integers(0, 3)))]

    plain: dict[str, SearchStrategy[Any]] = {
        "integer": INTEGERS,
        "number": FLOATS | INTEGERS,
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return draw(plain.get(kind, st.sampled_from(["Bern", "trains to Bern", ""])))


def _check_broken(broken: bool | Collection[str]) -> tuple[str, ...]:
    if isinstance(broken, bool):
        return BROKEN_ANSWERS if broken else ()

    for name in [broken] if isinstance(broken, str) else broken:
        if name not in BROKEN_ANSWERS:
            listed = ", ".join(map(repr, BROKEN_ANSWERS))
            raise ValueError(f"broken: unknown fault {name!r}; valid ones are {listed}")

    return (broken,) if isinstance(broken, str) else tuple(broken)


def _break_calls(draw: DrawFn, calls: list[ToolCall], fault: str) -> list[ToolCall]:
    at = draw(st.integers(0, len(calls) - 1))
    changes: dict[str, Any] = {
        "unknown tool": {"name": draw(sample(("", "fly", "multi_tool_use.parallel")))},
        "invalid JSON": {
            "arguments": draw(sample(('{"query": "Be', "trains", "[]", "{'a': 1}")))
        },
        "repeated id": {"id": calls[at - 1].id if len(calls) > 1 else "call_0"},
        "missing id": {"id": ""},
        "long id": {"id": _LONG_ID},
    }[fault]
    calls = [*calls]
    calls[at] = attrs.evolve(calls[at], **changes)
    return calls


@st.composite
def _draw_answer(
    draw: DrawFn, tools: tuple[ToolInfo, ...], broken: tuple[str, ...]
) -> AssistantMessage:
    fault = draw(sample((None, None, None, *broken)))
    number = draw(st.integers(0, 999_999))
    parts: list[Part] = []
    if draw(rarely(st.just(value=False), st.just(value=True))):
        parts.append(ReasoningPart("Let me think.", signature=f"c2lnbmVk{number:08}"))

    wants_calls = fault in {*BROKEN_ANSWERS[:5]}
    count = draw(st.integers(int(wants_calls), 3))
    calls = [
        ToolCall(f"call_{number}_{at}", tool.name, draw_arguments(draw, tool))
        for at in range(count if tools else 0)
        for tool in [draw(sample(tools))]
    ]
    if calls and wants_calls:
        calls = _break_calls(draw, calls, fault)

    if not calls or draw(st.booleans()):
        parts.append(TextPart(draw(_TEXTS)))

    reason = "tool_calls" if calls else "stop"
    if fault == "empty":
        parts, calls, reason = [], [], "stop"
    elif fault == "refused":
        parts, calls = [RefusalPart("I can't help with that.")], []  # pyright: ignore[reportAssignmentType]
        reason = draw(sample(("stop", "content_filter")))
    elif fault == "truncated":
        reason = "length"
        if calls:
            cut = calls[-1].arguments[: draw(st.integers(0, 5))]
            calls = [*calls[:-1], attrs.evolve(calls[-1], arguments=cut)]

    usage = Usage(draw(_TOKENS), draw(_TOKENS))
    meta = ResponseMeta(reason, usage, model="gpt-5", id=f"response_{number}")
    return AssistantMessage(parts, tool_calls=calls, response=meta)


def model_answers(
    tools: Iterable[ToolInfo] = TOOLS, *, broken: bool | Collection[str] = True
) -> SearchStrategy[AssistantMessage]:
    """
    What a model may answer that has *tools*: texts, thoughts with signatures, one call
    or several at once whose arguments fit; and what models get wrong.

    Args:
        tools: The tools it knows of.
        broken: Which faults there may be, of `BROKEN_ANSWERS`: unknown tools, arguments
            that are no JSON, repeated, missing and long ids, answers that are empty,
            refused or truncated. True stands for all, False for none.

    Shrink to a text without calls, faults or thoughts.

    Raises:
        ValueError: If *broken* has an unknown name.
    """
    return _draw_answer(tuple(tools), _check_broken(broken))


def _check_format(wire: str) -> str:
    if wire not in FORMATS:
        listed = ", ".join(map(repr, FORMATS))
        raise ValueError(f"unknown format {wire!r}; valid formats are {listed}")

    return wire


@once
def provider_payloads(
    format: str,  # noqa: A002 - the word of the formats
) -> SearchStrategy[dict[str, Any]]:
    """
    What is sent to a provider and what it sends: the part of a request that carries a
    conversation, and one time in four a whole response; plain JSON, written by hand
    and by no adapter.

    Args:
        format: ``openai_chat``, ``openai_responses``, ``anthropic`` or ``gemini``.

    Shrink to a request without messages.

    Raises:
        ValueError: If *format* is unknown.
    """
    wire = _check_format(format)
    requests = conversations(max_turns=4).map(
        lambda messages: write_request(wire, messages)
    )
    responses = _sent_answers(wire).map(lambda message: _write_response(wire, message))
    return rarely(requests, responses)


# What a request that gets an answer asks for.
_BODY: Mapping[str, Any] = {
    "model": "gpt-5",
    "include": ["reasoning.encrypted_content"],
    "stream_options": {"include_usage": True},
}


def _write_response(wire: str, message: AssistantMessage) -> dict[str, Any]:
    return write_answer(wire, message, _BODY, Numbers())


def _sent_answers(wire: str) -> SearchStrategy[AssistantMessage]:
    """
    Answers that the format can say: Anthropic and Gemini have objects as arguments,
    which are cut off at the limit of tokens only.
    """
    answers = model_answers()
    if wire in {"openai_chat", "openai_responses"}:
        return answers

    return answers.filter(
        lambda message: (
            getattr(message.response, "finish_reason", "") == "length"
            or all(is_object(call.arguments) for call in message.tool_calls)
        )
    )


@st.composite
def _draw_events(draw: DrawFn, wire: str) -> list[dict[str, Any]]:
    message = draw(_sent_answers(wire))
    size = draw(sample((1_000, 1, 3, 7)))

    def cut(text: str) -> list[str]:
        return [text[at : at + size] for at in range(0, len(text), size)]

    events = [*stream_answer(wire, _write_response(wire, message), _BODY, cut)]
    end = draw(sample((None, None, None, "cut", "error", "repeated")))
    if end in {"cut", "error"}:
        events = events[: draw(st.integers(0, len(events) - 1))]

    if end == "error":
        events.append(stream_error(wire, len(events)))
    elif end == "repeated" and wire == "openai_chat":
        # Some servers repeat the last chunk, with the usage.
        events.append(events[-1])

    return events


@once
def event_streams(
    format: str,  # noqa: A002 - the word of the formats
) -> SearchStrategy[list[dict[str, Any]]]:
    """
    The events of one streamed response, as ``load_chunks`` takes them: texts and
    arguments in pieces of any size, cut anywhere, some broken off without an end, some
    with an error.

    Args:
        format: ``openai_chat``, ``openai_responses``, ``anthropic`` or ``gemini``.

    Shrink to a whole stream with one text.

    Raises:
        ValueError: If *format* is unknown.
    """
    return _draw_events(_check_format(format))
