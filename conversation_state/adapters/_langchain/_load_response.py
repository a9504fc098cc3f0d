"""
Loading messages of an assistant.
"""

from __future__ import annotations

from typing import Any

import attrs

from conversation_state.adapters._langchain._blocks import mended_text, read_block
from conversation_state.adapters._langchain._calls import MessageCalls
from conversation_state.adapters._langchain._constants import (
    ASIDES,
    MODELS,
    REASONS,
    SOURCE,
    text_or_empty,
)
from conversation_state.adapters._langchain._usage import (
    find_zeros,
    read_usage,
    write_usage,
)
from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import DocumentReader, mended
from conversation_state.messages import ResponseMeta
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart

__all__ = ["load_response"]


def load_response(
    read: DocumentReader,
    raw: dict[str, Any],
    path: str,
    notes: dict[str, Any],
    fields: dict[str, Any],
) -> str | list[Part]:
    """
    The content of an assistant's message. Puts its calls and the metadata of the
    response into *fields*.
    """
    details: dict[str, Any] = raw.get("response_metadata", {})
    calls = MessageCalls(read, path)
    if raw.get("tool_calls"):
        calls.add(raw["tool_calls"])

    # The blocks are read before the calls are made, because some have the original text
    # of the arguments.
    content: Any = raw["content"]
    if isinstance(content, str):
        content = mended_text(read, content, f"{path}.content")
    else:
        provider = text_or_empty(details.get("model_provider"))
        content = _load_content(read, content, calls, path, provider)
        if not content:
            notes["empty"] = True

    made = calls.make_calls()
    if raw.get("invalid_tool_calls"):
        made += calls.make_invalid_calls(raw["invalid_tool_calls"])

    if made:
        fields["tool_calls"] = made

    response = _load_meta(raw, details, notes)
    if response is not None:
        fields["response"] = response

    return _with_asides(read, raw, content, path, notes)


def _load_content(
    read: DocumentReader,
    content: list[Any],
    calls: MessageCalls,
    path: str,
    provider: str,
) -> list[Part]:
    parts: list[Any] = []
    places: list[int] = []
    is_after = False
    for at, block in enumerate(content):
        if calls.take_block(block, at):
            is_after = True
            continue

        where = f"{path}.content[{at}]"
        part = read_block(read, block, where, "assistant", provider)
        if part is not None:
            parts.append(part)
            places.append(at)
            calls.is_between = is_after

    if calls.is_between:
        return [
            attrs.evolve(part, index=at) for part, at in zip(parts, places, strict=True)
        ]

    return parts


def _with_asides(
    read: DocumentReader,
    raw: dict[str, Any],
    content: str | list[Part],
    path: str,
    notes: dict[str, Any],
) -> str | list[Part]:
    """
    *content* with the texts of ``additional_kwargs``: reasoning before, a refusal
    after.
    """
    beside = raw["additional_kwargs"]
    asides = {
        key: mended_text(read, beside[key], f"{path}.additional_kwargs.{key}")
        for key in ASIDES
        if beside and isinstance(beside.get(key), str) and beside[key]
    }
    if not asides:
        return content

    notes["additional_kwargs"] = {
        key: value for key, value in beside.items() if key not in asides
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

    if "reasoning_content" in asides:
        metadata = with_notes(SOURCE, {"shape": "reasoning_content", "aside": True})
        parts = [ReasoningPart(asides["reasoning_content"], metadata=metadata), *parts]

    if "refusal" in asides:
        aside = with_notes(SOURCE, {"aside": True})
        parts = [*parts, RefusalPart(asides["refusal"], metadata=aside)]

    return parts


def _load_meta(
    raw: dict[str, Any], details: dict[str, Any], notes: dict[str, Any]
) -> ResponseMeta | None:
    """
    The metadata of the response, or None. Removes from *notes* the values that the
    metadata has.
    """
    reason = model = own_id = ""
    if details:
        rest = dict(details)
        reason = _take_text(rest, REASONS, "reason", notes)
        model = _take_text(rest, MODELS, "model", notes)
        own_id = _take_text(rest, ("id",), "response_id", notes)
        notes.pop("response_metadata")
        if rest:
            notes["response_metadata"] = rest

    usage = None
    counts = raw.get("usage_metadata")
    if counts is not None:
        usage = read_usage(counts)
        zeros = find_zeros(counts)
        if usage is None or write_usage(usage, zeros) != counts:
            notes["usage"] = counts
        elif zeros:
            notes["zeros"] = zeros

    if usage is None and not reason and not model and not own_id:
        return None

    # An integration without an id in the response's metadata sets the message's id
    # to that of the response, or of the run.
    message_id = text_or_empty(raw["id"])
    if own_id and own_id == message_id:
        notes["id_of_response"] = True

    response_id = own_id or (message_id if mended(message_id) is message_id else "")
    return ResponseMeta(reason, usage, None, model, response_id)


def _take_text(
    rest: dict[str, Any], keys: tuple[str, ...], note: str, notes: dict[str, Any]
) -> str:
    """
    The text under the first of *keys* that has one, which is removed from
    *rest*; a note names the key, if it is not the first of all.
    """
    for key in keys:
        text = rest.get(key)
        # A text with a lone surrogate is not taken, because the notes keep it
        # unchanged.
        if isinstance(text, str) and text and mended(text) is text:
            del rest[key]
            if key != keys[0]:
                notes[note] = key

            return text

    return ""
