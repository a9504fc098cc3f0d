"""
What an assistant says, of LangChain's.
"""

from __future__ import annotations

from typing import Any

import attrs

from conversation_state.adapters._langchain._blocks import mended_text, read_block
from conversation_state.adapters._langchain._calls import Calls
from conversation_state.adapters._langchain._usage import (
    read_usage,
    write_usage,
    zeros_in,
)
from conversation_state.adapters._langchain._words import (
    ASIDES,
    MODELS,
    REASONS,
    SOURCE,
)
from conversation_state.adapters._reading import Reading, mended
from conversation_state.messages import ResponseMeta
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart

__all__ = ["read_answer"]


def read_answer(
    read: Reading,
    raw: dict[str, Any],
    path: str,
    notes: dict[str, Any],
    fields: dict[str, Any],
) -> str | list[Part]:
    """
    What an assistant says. Puts its calls and what was told of the response
    into *fields*.
    """
    told: dict[str, Any] = raw.get("response_metadata", {})
    calls = Calls(read, path)
    if raw.get("tool_calls"):
        calls.add(raw["tool_calls"])

    content: Any = raw["content"]
    if isinstance(content, str):
        content = mended_text(read, content, f"{path}.content")
    else:
        content = _spoken(read, content, calls, path, told.get("model_provider", ""))
        if not content:
            notes["empty"] = True

    made = calls.made()
    if raw.get("invalid_tool_calls"):
        made += calls.invalid(raw["invalid_tool_calls"])

    if made:
        fields["tool_calls"] = made

    response = _response(raw, told, notes)
    if response is not None:
        fields["response"] = response

    return _with_asides(read, raw, content, path, notes)


def _spoken(
    read: Reading, content: list[Any], calls: Calls, path: str, provider: Any
) -> list[Part]:
    """
    The parts among *content*: its blocks, but for those that are calls.
    """
    parts: list[Part] = []
    places: list[int] = []
    is_after = False
    for at, block in enumerate(content):
        if calls.takes(block, at):
            is_after = True
            continue

        part = read_block(
            read, block, f"{path}.content[{at}]", "assistant", _str(provider)
        )
        if part is not None:
            parts.append(part)
            places.append(at)
            calls.is_between = is_after

    if calls.is_between:
        return [_at(part, at) for part, at in zip(parts, places, strict=True)]

    return parts


def _at(part: Any, place: int) -> Part:
    moved: Part = attrs.evolve(part, index=place)
    return moved


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _with_asides(
    read: Reading,
    raw: dict[str, Any],
    content: str | list[Part],
    path: str,
    notes: dict[str, Any],
) -> str | list[Part]:
    """
    *content* with what the model said beside it: thoughts before, a refusal
    after.
    """
    beside = raw["additional_kwargs"]
    said = {
        key: mended_text(read, beside[key], f"{path}.additional_kwargs.{key}")
        for key in ASIDES
        if beside and isinstance(beside.get(key), str) and beside[key]
    }
    if not said:
        return content

    notes["additional_kwargs"] = {
        key: value for key, value in beside.items() if key not in said
    }
    if not notes["additional_kwargs"]:
        del notes["additional_kwargs"]

    parts: list[Part] = []
    if not isinstance(content, str):
        parts = content
    else:
        notes["text"] = True
        if content:
            parts = [TextPart(content)]

    if "reasoning_content" in said:
        metadata: Any = {SOURCE: {"shape": "reasoning_content", "aside": True}}
        parts = [ReasoningPart(said["reasoning_content"], metadata=metadata), *parts]

    if "refusal" in said:
        aside: Any = {SOURCE: {"aside": True}}
        parts = [*parts, RefusalPart(said["refusal"], metadata=aside)]

    return parts


def _response(
    raw: dict[str, Any], told: dict[str, Any], notes: dict[str, Any]
) -> ResponseMeta | None:
    """
    What was told of the response; None if nothing was. What a field of ours
    holds is taken out of the *notes*.
    """
    reason = model = ""
    if told:
        rest = dict(told)
        reason = _taken(rest, REASONS, "reason", notes)
        model = _taken(rest, MODELS, "model", notes)
        notes.pop("response_metadata")
        if rest:
            notes["response_metadata"] = rest

    usage = None
    given = raw.get("usage_metadata")
    if given is not None:
        usage = read_usage(given)
        zeros = zeros_in(given)
        if usage is None or write_usage(usage, zeros) != given:
            notes["usage"] = given
        elif zeros:
            notes["zeros"] = zeros

    if usage is None and not reason and not model:
        return None

    return ResponseMeta(reason, usage, None, model)


def _taken(
    rest: dict[str, Any], keys: tuple[str, ...], note: str, notes: dict[str, Any]
) -> str:
    """
    The text under the first of *keys* that has one, which is taken out of
    *rest*; a note says which, if it is not the first of all.
    """
    for key in keys:
        text = rest.get(key)
        if isinstance(text, str) and text and mended(text) is text:
            del rest[key]
            if key != keys[0]:
                notes[note] = key

            return text

    return ""
