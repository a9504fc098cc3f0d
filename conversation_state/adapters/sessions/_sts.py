"""
The Session Trace Simple Format of Hugging Face: a header with the harness that ran the
session, and a message on each line.

Source:
    huggingface/hub-docs, ``docs/hub/session-traces-format.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from conversation_state.adapters.engine.reading import is_map, text_of
from conversation_state.adapters.engine.wire import read_time
from conversation_state.adapters.sessions._session import (
    SOURCE,
    Body,
    LoadedSession,
    SessionBuilder,
    SessionLines,
    find_head,
    fold,
    list_in,
    make_call,
    number_by_heads,
    simplify,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, ReasoningPart, TextPart

FORMAT = "sts"


def recognize(raws: Iterable[Body]) -> bool:
    """Whether one of these is its header, or a message as it has them."""
    return any(
        (text_of(raw, "type") == "session" and "harness" in raw)
        or (
            text_of(raw, "type") == "message"
            and is_map(body := raw.get("message"))
            and isinstance(body.get("content"), str)
            and isinstance(body.get("role"), str)
        )
        for raw in raws
    )


def number_sessions(raws: Sequence[Body]) -> list[int]:
    """Which session each of *raws* is of, in a file with several."""
    return number_by_heads(raws, find_head)


def load(lines: SessionLines, agents: Mapping[str, SessionLines]) -> LoadedSession:
    """The session of *lines*, with those of its sub-agents by their ids."""
    builder = SessionBuilder(FORMAT, lines)
    names: dict[str, str] = {}
    tip: str | None = None
    for at, raw in lines.objects:
        body = raw.get("message")
        if text_of(raw, "type") == "session":
            builder.name = builder.name or text_of(raw, "id")
            builder.title = builder.title or text_of(raw, "name")
            builder.mark_read(at)
        elif text_of(raw, "type") == "message" and is_map(body):
            message = _load_message(builder, at, body, names)
            names.update({call.id: call.name for call in message.tool_calls})
            time = read_time(body.get("timestamp"))
            kept = fold(raw, [message])
            builder.use(at)
            builder.add(f"line-{at}", tip, [message], at, time, raw=kept)
            tip = f"line-{at}"
        elif text_of(raw, "type") == "message":
            builder.problem(at, "has no message; kept as it is")
        else:
            builder.report_unread(at, raw)

    builder.load_agents(agents, load)
    return builder.build(tip)


def _load_message(
    builder: SessionBuilder, at: int, body: Body, names: Mapping[str, str]
) -> Message:
    role, content = text_of(body, "role"), body.get("content")
    if content is not None and not isinstance(content, str):
        builder.problem(at, "its content is no text; kept as it is")
        return UnknownMessage(body, source=SOURCE)

    text = content or ""
    if role == "user":
        return UserMessage(text)

    if role == "system":
        return SystemMessage(text)

    call_id = text_of(body, "toolCallId")
    if role == "tool" and call_id:
        return ToolMessage(text, tool_call_id=call_id, tool_name=names.get(call_id, ""))

    if role != "assistant":
        builder.problem(at, f"a message of role {role!r} without a call; kept as it is")
        return UnknownMessage(body, source=SOURCE)

    parts: list[Part] = [TextPart(text)] if text else []
    if thought := text_of(body, "reasoningContent"):
        parts.insert(0, ReasoningPart(thought))

    calls = []
    for number, each in enumerate(list_in(body, "toolCalls")):
        function = each.get("function") if is_map(each) else None
        if is_map(each) and is_map(function):
            id = text_of(each, "id") or f"line-{at}-{number}"
            arguments = function.get("arguments", "{}")
            calls.append(make_call(id, function.get("name"), arguments))
        else:
            builder.problem(at, "has an invalid call; kept in its notes")

    meta = ResponseMeta(model=text_of(body, "model"))
    return AssistantMessage(
        simplify(parts), tool_calls=calls, response=meta if meta.model else None
    )
