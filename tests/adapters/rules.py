"""
What each provider asks of a request, from its reference: for tests of what is
sent to it.

Each function gives what of *payload* the provider would refuse; nothing if it
takes all of it. *complete* says that all calls have results but those at the
very end, as a caller has to see to.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

__all__ = ["RULES"]


def _list_blocks(content: Any, kind: str = "text") -> list[dict[str, Any]]:
    return [{"type": kind, "text": content}] if isinstance(content, str) else content


def _check_anthropic(payload: Any, *, complete: bool) -> Iterator[str]:
    """
    Roles alternate, and a message of the system stands between a user and an
    answer; no content and no text is empty, and not all of it white space;
    results stand first in the message after their calls.
    """
    messages = [
        (one["role"], _list_blocks(one["content"])) for one in payload["messages"]
    ]
    if "system" in payload:
        yield from _check_blocks("system", _list_blocks(payload["system"]))

    for role, blocks in messages:
        yield from _check_blocks(role, blocks)

    for (before, _), (role, _) in pairwise(messages):
        if role == before or (role == "system" and before != "user"):
            yield f"{role} after {before}"

    yield from _check_results(messages, complete=complete)


_SPEAKERS = {
    "redacted_thinking": {"assistant"},
    "text": {"assistant", "system", "user"},
    "thinking": {"assistant"},
    "tool_result": {"user"},
    "tool_use": {"assistant"},
}


def _check_blocks(role: str, blocks: list[dict[str, Any]]) -> Iterator[str]:
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    if not all(texts) or (texts and not any(map(str.strip, texts))):
        yield "an empty text"

    if not blocks:
        yield "an empty content"

    for block in blocks:
        kind = block["type"]
        if role not in _SPEAKERS.get(kind, {role}):
            yield f"{kind} by {role}"

        if kind == "tool_use" and not (
            isinstance(block["input"], dict)
            and re.fullmatch("[a-zA-Z0-9_-]+", block["id"])
        ):
            yield f"a call: {block}"


def _check_results(
    messages: list[tuple[str, list[dict[str, Any]]]], *, complete: bool
) -> Iterator[str]:
    waiting: list[str] = []
    for role, blocks in messages:
        if role == "system":
            continue

        kinds = [block["type"] for block in blocks]
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if kinds[: len(results)] != ["tool_result"] * len(results):
            yield "results behind other blocks"

        if complete and sorted(results) != sorted(waiting):
            yield f"calls {waiting} and results {results}"

        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if complete and len(set(waiting)) < len(waiting):
            yield f"ids twice: {waiting}"


_CHAT = {
    "assistant": {"refusal", "text"},
    "system": {"text"},
    "tool": {"text"},
    "user": {"file", "image_url", "input_audio", "text"},
}


def _check_chat(payload: Any, *, complete: bool) -> Iterator[str]:
    """
    Results stand directly after the message with their calls; only an answer
    with calls, or a refusal, has no content; blocks are those of the role.
    """
    waiting: list[str] = []
    for message in payload["messages"]:
        yield from _check_message(message)
        if message["role"] != "tool":
            if complete and waiting:
                yield f"no results of {waiting}"

            waiting = [call["id"] for call in message.get("tool_calls", ())]
        elif message["tool_call_id"] in waiting:
            waiting.remove(message["tool_call_id"])
        elif complete:
            yield f"a result of no call: {message['tool_call_id']!r}"


def _check_message(message: dict[str, Any]) -> Iterator[str]:
    role, content = message["role"], message.get("content")
    for block in content if isinstance(content, list) else ():
        if block["type"] not in _CHAT.get(role, set()):
            yield f"{block['type']} by {role}"

    beside = message.get("tool_calls") or message.get("refusal")
    if role not in _CHAT or (content is None and not beside):
        yield f"no content by {role}"

    if not message.get("tool_calls", True):
        yield "an empty list of calls"

    for call in message.get("tool_calls", ()):
        body = call.get(call["type"], {"arguments": ""})
        if not isinstance(body.get("arguments", body.get("input")), str):
            yield f"arguments: {body}"


_RESPONSES = {
    "assistant": {"output_text", "refusal"},
    "developer": {"input_text"},
    "system": {"input_text"},
    "user": {"input_audio", "input_file", "input_image", "input_text"},
}


def _check_responses(payload: Any, *, complete: bool) -> Iterator[str]:
    """
    Each result has a call before it, and each call has a result after it unless only
    the model goes on; reasoning stands before what it led to.
    """
    calls: set[tuple[str, str]] = set()
    results: list[tuple[str, str]] = []
    for item in payload["input"]:
        kind, role = item.get("type", "message"), item.get("role", "")
        if kind == "message":
            content = _list_blocks(item["content"], min(_RESPONSES.get(role, {""})))
            if not {block["type"] for block in content} <= _RESPONSES.get(role, set()):
                yield f"{content} by {role!r}"

            if complete and role == "user" and len(calls) != len(results):
                yield f"calls {calls} and results {results}"

        elif kind in {"custom_tool_call", "function_call"}:
            calls.add((f"{kind}_output", item["call_id"]))
        elif kind in {"custom_tool_call_output", "function_call_output"}:
            result = kind, item["call_id"]
            if complete and (result not in calls or result in results):
                yield f"a result of no call: {result}"

            results.append(result)

    yield from _check_reasoning(payload["input"])


def _check_reasoning(items: list[dict[str, Any]]) -> Iterator[str]:
    for item, after in pairwise([*items, {"role": "user"}]):
        led = after.get("role", "assistant") == "assistant"
        if item.get("type") == "reasoning" and (
            not led or after.get("type", "").endswith("_output")
        ):
            yield f"a thought that nothing follows: {item}"


def _check_gemini(payload: Any, *, complete: bool) -> Iterator[str]:
    """
    Contents are the user's and the model's, and have parts; the content after calls has
    as many results, of the same names; calls stand behind a user's content, or results.
    """
    before: list[dict[str, Any]] = []
    # A request that begins with calls continues another one.
    last = "user"
    instructions = payload.get("systemInstruction", {"parts": [{"text": ""}]})
    for content in [*payload["contents"], instructions]:
        if not content.get("parts"):
            yield "no parts"

    for content in payload["contents"]:
        role, parts = content["role"], content["parts"]
        if role not in {"model", "user"}:
            yield f"role {role!r}"

        calls = [p["functionCall"] for p in parts if "functionCall" in p]
        results = [p["functionResponse"] for p in parts if "functionResponse" in p]
        if (calls and role != "model") or (results and role != "user"):
            yield f"calls or results by {role}"

        if calls and last != "user":
            yield "calls without a question"

        if complete and not same_calls(before, results):
            yield f"calls {before} and results {results}"

        for part in parts:
            if len(part.keys() - {"thought", "thoughtSignature"}) != 1:
                yield f"a part of several kinds: {part}"

        before, last = calls, role


def same_calls(calls: list[dict[str, Any]], results: list[dict[str, Any]]) -> bool:
    """Whether *results* are those of *calls*, in any order."""
    asked, instructions = (
        sorted((one.get("id", ""), one.get("name", "")) for one in several)
        for several in (calls, results)
    )
    return asked == instructions


RULES = {
    "anthropic": _check_anthropic,
    "gemini": _check_gemini,
    "openai_chat": _check_chat,
    "openai_responses": _check_responses,
}
