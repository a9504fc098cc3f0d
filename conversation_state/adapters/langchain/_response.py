"""
What only an assistant's message has: the content and the metadata of a response, and
LangChain's ``usage_metadata``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from conversation_state.adapters.engine.export import PayloadWriter
from conversation_state.adapters.engine.notes import with_notes
from conversation_state.adapters.engine.reading import DocumentReader, mended
from conversation_state.adapters.engine.usage import as_count, as_kept, is_count
from conversation_state.adapters.langchain._blocks import mended_text, read_block
from conversation_state.adapters.langchain._calls import MessageCalls
from conversation_state.adapters.langchain._values import (
    ASIDES,
    MODELS,
    REASONS,
    SOURCE,
    text_or_empty,
)
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parts import Part, ReasoningPart, RefusalPart, TextPart
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

_WRITTEN = "cache_write_tokens"
_NOTHING: Mapping[str, Any] = {}

# Tokens written to Anthropic's cache, by their lifetime there. If LangChain has these
# counts, its sum is 0.
_LIFETIMES = {
    "ephemeral_1h_input_tokens": "cache_write_1h_tokens",
    "ephemeral_5m_input_tokens": "cache_write_5m_tokens",
}
# LangChain puts the service tier in front of the names of OpenAI's details, because
# tiers have different prices.
_TIERS = ("", "flex_", "priority_")
_NO_RESPONSE = ResponseMeta()


def load_response(
    reader: DocumentReader,
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
    calls = MessageCalls(reader, path)
    if raw.get("tool_calls"):
        calls.add(raw["tool_calls"])

    if raw.get("invalid_tool_calls"):
        calls.add_invalid(raw["invalid_tool_calls"])

    # The blocks are read before the calls are made, because some have the original text
    # of the arguments.
    content: Any = raw["content"]
    if isinstance(content, str):
        content = mended_text(reader, content, f"{path}.content")
    else:
        provider = text_or_empty(details.get("model_provider"))
        content = _load_content(reader, content, calls, path, provider)
        if not content:
            notes["empty"] = True

    made = calls.make_calls()
    if made:
        fields["tool_calls"] = made

    response = _load_meta(raw, details, notes)
    if response is not None:
        fields["response"] = response

    return _with_asides(reader, raw, content, path, notes)


def _load_content(
    reader: DocumentReader,
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
        part = read_block(reader, block, where, "assistant", provider)
        if part is not None:
            parts.append(part)
            places.append(at)
            calls.is_between = is_after

    if calls.is_between:
        return [
            attrs.evolve(part, index=at) for part, at in zip(parts, places, strict=True)
        ]

    return parts


# *content* with the texts of ``additional_kwargs``: reasoning before, a refusal after.
def _with_asides(
    reader: DocumentReader,
    raw: dict[str, Any],
    content: str | list[Part],
    path: str,
    notes: dict[str, Any],
) -> str | list[Part]:
    beside = raw["additional_kwargs"]
    asides = {
        key: mended_text(reader, beside[key], f"{path}.additional_kwargs.{key}")
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
        usage = _read_usage(counts)
        if usage is None or _write_usage(usage) != counts:
            notes["usage"] = as_kept(counts)

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


def put_response(
    writer: PayloadWriter,
    message: AssistantMessage,
    path: str,
    notes: Mapping[str, Any],
    fields: dict[str, Any],
) -> None:
    response = message.response or _NO_RESPONSE
    metadata = notes.get("response_metadata", {})

    where = f"{path}.response"
    newer = dict.fromkeys(sorted(response.unknown), True)
    beside = {"logprobs": response.logprobs is not None, **newer}
    writer.lose_each(where, beside, "not supported by LangChain")
    if response.finish_reason:
        metadata[str(notes.get("reason", REASONS[0]))] = response.finish_reason

    if response.model:
        metadata[str(notes.get("model", MODELS[0]))] = response.model

    # Most integrations use the response's id as that of the message, which already
    # has it. The note says that the metadata had it, too.
    if response.id and (response.id != notes.get("id") or "id_of_response" in notes):
        metadata["id"] = response.id

    if metadata:
        fields["response_metadata"] = metadata

    # The noted counts are used only if they still are the usage of the response,
    # which a caller may have replaced.
    usage, kept = response.usage, notes.get("usage")
    if kept is not None and _read_usage(kept) == usage:
        fields["usage_metadata"] = kept
    elif usage is not None:
        kept = fields["usage_metadata"] = _write_usage(usage)

    if usage is not None:
        _lose_usage(writer, usage, kept, f"{where}.usage")


def _read_usage(raw: Any) -> Usage | None:
    """
    The usage in *raw*; None if it is not a count of tokens.

    Source:
        ``_create_usage_metadata`` of LangChain's packages for Anthropic and OpenAI.
    """
    if not isinstance(raw, Mapping):
        return None

    within = raw.get("input_token_details") or _NOTHING
    made = raw.get("output_token_details") or _NOTHING
    try:
        return Usage(
            _count_or_value(raw["input_tokens"]),
            _count_or_value(raw["output_tokens"]),
            _count_or_value(raw["total_tokens"]),
            PromptTokensDetails(
                audio_tokens=_count_or_value(within.get("audio") or 0),
                cached_tokens=_find_of_any_tier(within, "cache_read"),
            ),
            CompletionTokensDetails(
                accepted_prediction_tokens=_count_or_value(
                    made.get("accepted_prediction") or 0
                ),
                audio_tokens=_count_or_value(made.get("audio") or 0),
                reasoning_tokens=_find_of_any_tier(made, "reasoning"),
                rejected_prediction_tokens=_count_or_value(
                    made.get("rejected_prediction") or 0
                ),
            ),
            _read_cache_writes(within),
        )
    except (AttributeError, InvalidUsageError, KeyError):
        # The counts of a streamed message may be invalid. The caller keeps them
        # unchanged in a note.
        return None


def _find_of_any_tier(details: Mapping[str, Any], name: str) -> Any:
    counts = [details.get(f"{tier}{name}") for tier in _TIERS]
    return _count_or_value(next(filter(None, counts), 0))


def _count_or_value(value: Any) -> Any:
    count = as_count(value)
    return value if count is None else count


def _read_cache_writes(within: Mapping[str, Any]) -> dict[str, Any]:
    """
    The tokens written to the cache, as counts of `Usage.extra`; with those of each
    lifetime if they add up to the total.
    """
    written = _count_or_value(within.get("cache_creation") or 0)
    parts = {
        ours: within[theirs]
        for theirs, ours in _LIFETIMES.items()
        if is_count(within.get(theirs))
    }
    total = sum(parts.values())
    # `written` is compared with a list and not a set, because an invalid count may not
    # be hashable.
    return {_WRITTEN: total, **parts} if written in [0, total] else {_WRITTEN: written}


# *usage* as LangChain's, without zeros.
def _write_usage(usage: Usage) -> dict[str, Any]:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    within = {
        "audio": prompt.audio_tokens,
        "cache_creation": usage.extra.get(_WRITTEN, 0),
        "cache_read": prompt.cached_tokens,
    }
    made = {
        "accepted_prediction": completion.accepted_prediction_tokens,
        "audio": completion.audio_tokens,
        "reasoning": completion.reasoning_tokens,
        "rejected_prediction": completion.rejected_prediction_tokens,
    }
    raw: dict[str, Any] = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    for key, counts in (
        ("input_token_details", within),
        ("output_token_details", made),
    ):
        used = {name: count for name, count in counts.items() if count}
        if used:
            raw[key] = used

    return raw


# List the counts of *usage*, at *path*, that are not in *raw*, LangChain's.
def _lose_usage(writer: PayloadWriter, usage: Usage, raw: Any, path: str) -> None:
    kept = _read_usage(raw) if usage.extra else None
    for name in sorted(usage.extra):
        if kept is None or name not in kept.extra:
            writer.lose(path, name, "is no count that LangChain keeps")
