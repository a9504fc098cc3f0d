"""
Loading a model's response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_map,
    mended,
)
from conversation_state.adapters.pydantic_ai._constants import (
    INTERRUPTED,
    SOURCE,
    is_default,
    kind_of,
)
from conversation_state.adapters.pydantic_ai._load_content import (
    json_text,
    keep_keys,
    keep_whole,
    media_part,
)
from conversation_state.adapters.pydantic_ai._usage import read_usage
from conversation_state.messages import ResponseMeta
from conversation_state.parts import Part, ReasoningPart, TextPart, UnknownPart
from conversation_state.tools import ToolCall

__all__ = ["read_response"]

_TEXT = frozenset({"content", "part_kind"})
_THOUGHT = _TEXT | {"signature"}
_CALL = frozenset({"args", "part_kind", "tool_call_id", "tool_name"})
# Pydantic AI's names of providers whose adapter can send signatures back.
_SIGNERS = {"anthropic": "anthropic"}
_REDACTED = "redacted_thinking"


def read_response(
    place: ObjectReader, parts: Sequence[Any]
) -> tuple[str | list[Part], list[ToolCall], ResponseMeta | None]:
    """
    Content, calls, and metadata of the response.
    """
    content: list[Part] = []
    calls: list[ToolCall] = []
    for at, raw in enumerate(parts):
        path = f"{place.path}.parts[{at}]"
        if not is_map(raw):
            place.reading.wrong(path, raw, "an object")
            continue

        part = ObjectReader(place.reading, raw, path)
        if raw.get("part_kind") == "tool-call":
            calls.append(_load_call(part, at))
        else:
            content.append(_load_part(part, at))

    meta = _load_meta(place)
    if len(content) == 1 == len(parts):
        (only,) = content
        if isinstance(only, TextPart) and only.text and not only.metadata:
            return only.text, calls, meta

    return content or "", calls, meta


def _load_part(place: ObjectReader, at: int) -> Part:
    raw = place.raw
    kind, content = kind_of(raw), raw.get("content")
    if kind == "text" and isinstance(content, str):
        keep_keys(place, _TEXT)
        text = place.text("content")
        return TextPart(text, index=at, metadata=place.metadata(SOURCE))

    if kind == "thinking" and isinstance(content, str):
        return _load_reasoning(place, at)

    if kind == "speech" and isinstance(raw.get("transcript"), str):
        keep_keys(place, frozenset({"transcript"}))
        text = place.text("transcript")
        return TextPart(text, index=at, metadata=place.metadata(SOURCE))

    if kind == "file" and is_map(content):
        inner = ObjectReader(place.reading, content, f"{place.path}.content")
        keep_keys(place, _TEXT)
        part = media_part(inner, index=at)
        if part is not None:
            if place.keys or place.notes:
                notes = {**inner.notes, "keys": inner.keys, "file": place.keys}
                if "texts" in place.notes:
                    notes["file_texts"] = place.notes["texts"]

                return _with_file_notes(part, notes)

            return part

    raw, notes = keep_whole(place)
    return UnknownPart(raw, source=SOURCE, index=at, metadata=with_notes(SOURCE, notes))


def _with_file_notes(part: Any, notes: dict[str, Any]) -> Part:
    fields = {
        name: getattr(part, name)
        for name in ("url", "data", "media_type", "index", "detail", "name")
        if hasattr(part, name)
    }
    made: Part = type(part)(**fields, metadata=with_notes(SOURCE, notes))
    return made


def _load_reasoning(place: ObjectReader, at: int) -> Part:
    raw = place.raw
    signature = raw.get("signature")
    signed = isinstance(signature, str) and bool(signature)
    keep_keys(place, _THOUGHT if signed else _TEXT)
    text = place.text("content")
    if not signed:
        return ReasoningPart(text, index=at, metadata=place.metadata(SOURCE))

    place.notes["signed"] = True
    metadata = place.metadata(SOURCE)
    signer = raw.get("provider_name")
    if isinstance(signer, str) and signer in _SIGNERS and raw.get("id") != _REDACTED:
        metadata = with_notes(_SIGNERS[signer], {"signed": True}, metadata)

    return ReasoningPart(text, place.text("signature"), index=at, metadata=metadata)


def _load_call(place: ObjectReader, at: int) -> ToolCall:
    args = place.raw.get("args")
    keep_keys(place, _CALL)
    if isinstance(args, str):
        arguments = place.text("args")
    elif args is None:
        place.notes["args"] = "none"
        arguments = ""
    else:
        place.notes["args"] = "value"
        arguments = json_text(place.reading, args, f"{place.path}.args")

    return ToolCall(
        place.text("tool_call_id"),
        place.text("tool_name"),
        arguments,
        index=at,
        metadata=place.metadata(SOURCE),
    )


def _load_meta(place: ObjectReader) -> ResponseMeta | None:
    raw = place.raw
    usage = None
    counted = raw.get("usage")
    if is_map(counted):
        counts = {
            key: value
            for key, value in counted.items()
            if not is_default(key, value) and value != 0
        }
        if counts:
            inner = ObjectReader(place.reading, counts, f"{place.path}.usage")
            keep_keys(inner, frozenset())
            place.notes["usage"] = inner.keys
            if inner.notes:
                place.notes["usage_texts"] = inner.notes["texts"]

            # Values that are not counts stay in the note alone.
            usage = read_usage(DocumentReader(), counts, inner.path)

    finished = _load_finish_reason(place)
    name = raw.get("model_name")
    model = place.optional("model_name") if isinstance(name, str) else ""
    response_id = read_response_id(raw)
    if usage is None and not finished and not model and not response_id:
        return None

    return ResponseMeta(finished, usage, None, model, response_id)


def read_response_id(raw: Mapping[str, Any]) -> str:
    """
    The provider's id of a response; "" if it is missing or not valid Unicode.
    """
    value = raw.get("provider_response_id")
    return value if isinstance(value, str) and mended(value) is value else ""


def _load_finish_reason(place: ObjectReader) -> str:
    """
    The finish reason: the provider's own, if that was kept.
    """
    details, reason = place.raw.get("provider_details"), place.raw.get("finish_reason")
    own = details.get("finish_reason") if is_map(details) else None
    if isinstance(own, str) and own:
        if reason is not None:
            where = f"{place.path}.finish_reason"
            place.keys["finish_reason"] = place.reading.json(reason, where)

        return mended(own)

    finished = place.optional("finish_reason") if reason is not None else ""
    if not finished and place.raw.get("state") == INTERRUPTED:
        return INTERRUPTED

    return finished
