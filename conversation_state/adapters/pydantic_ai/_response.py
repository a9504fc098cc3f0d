"""
A model's answer, from Pydantic AI's words to ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conversation_state.adapters._reading import Place, Reading, is_map, mended
from conversation_state.adapters.pydantic_ai._content import (
    json_text,
    keep,
    media_part,
    whole,
)
from conversation_state.adapters.pydantic_ai._usage import usage_in
from conversation_state.adapters.pydantic_ai._words import (
    INTERRUPTED,
    SOURCE,
    is_default,
    kind_of,
)
from conversation_state.messages import ResponseMeta
from conversation_state.parts import Part, ReasoningPart, TextPart, UnknownPart
from conversation_state.tools import ToolCall

__all__ = ["read_response"]

_TEXT = frozenset({"content", "part_kind"})
_THOUGHT = _TEXT | {"signature"}
_CALL = frozenset({"args", "part_kind", "tool_call_id", "tool_name"})
# Whose signatures another adapter can send back, by Pydantic AI's name for it.
_SIGNERS = {"anthropic": "anthropic"}
_REDACTED = "redacted_thinking"


def read_response(
    place: Place, parts: Sequence[Any]
) -> tuple[str | list[Part], list[ToolCall], ResponseMeta | None]:
    """
    Content, calls, and what was told of the response.
    """
    content: list[Part] = []
    calls: list[ToolCall] = []
    for at, raw in enumerate(parts):
        path = f"{place.path}.parts[{at}]"
        if not is_map(raw):
            place.reading.wrong(path, raw, "an object")
            continue

        part = Place(place.reading, raw, path)
        if raw.get("part_kind") == "tool-call":
            calls.append(_call(part, at))
        else:
            content.append(_part(part, at))

    meta = _meta(place)
    if len(content) == 1 == len(parts):
        (only,) = content
        if isinstance(only, TextPart) and only.text and not only.metadata:
            return only.text, calls, meta

    return content or "", calls, meta


def _part(place: Place, at: int) -> Part:
    raw = place.raw
    kind, content = kind_of(raw), raw.get("content")
    if kind == "text" and isinstance(content, str):
        keep(place, _TEXT)
        text = place.text("content")
        return TextPart(text, index=at, metadata=place.metadata(SOURCE))

    if kind == "thinking" and isinstance(content, str):
        return _thought(place, at)

    if kind == "speech" and isinstance(raw.get("transcript"), str):
        keep(place, frozenset({"transcript"}))
        text = place.text("transcript")
        return TextPart(text, index=at, metadata=place.metadata(SOURCE))

    if kind == "file" and is_map(content):
        inner = Place(place.reading, content, f"{place.path}.content")
        keep(place, _TEXT)
        part = media_part(inner, index=at)
        if part is not None:
            if place.keys or place.notes:
                notes = {**inner.notes, "keys": inner.keys, "file": place.keys}
                if "texts" in place.notes:
                    notes["file_texts"] = place.notes["texts"]

                return _noted(part, notes)

            return part

    raw, noted = whole(place)
    return UnknownPart(raw, source=SOURCE, index=at, metadata=noted)


def _noted(part: Any, notes: dict[str, Any]) -> Part:
    fields = {
        name: getattr(part, name)
        for name in ("url", "data", "media_type", "index", "detail", "name")
        if hasattr(part, name)
    }
    made: Part = type(part)(**fields, metadata={SOURCE: notes})
    return made


def _thought(place: Place, at: int) -> Part:
    raw = place.raw
    signature = raw.get("signature")
    signed = isinstance(signature, str) and bool(signature)
    keep(place, _THOUGHT if signed else _TEXT)
    text = place.text("content")
    if not signed:
        return ReasoningPart(text, index=at, metadata=place.metadata(SOURCE))

    place.notes["signed"] = True
    metadata = place.metadata(SOURCE)
    signer = raw.get("provider_name")
    if isinstance(signer, str) and signer in _SIGNERS and raw.get("id") != _REDACTED:
        metadata = {**metadata, _SIGNERS[signer]: {"signed": True}}

    return ReasoningPart(text, place.text("signature"), index=at, metadata=metadata)


def _call(place: Place, at: int) -> ToolCall:
    args = place.raw.get("args")
    keep(place, _CALL)
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


def _meta(place: Place) -> ResponseMeta | None:
    raw = place.raw
    usage = None
    counted = raw.get("usage")
    if is_map(counted):
        said = {
            key: value
            for key, value in counted.items()
            if not is_default(key, value) and value != 0
        }
        if said:
            inner = Place(place.reading, said, f"{place.path}.usage")
            keep(inner, frozenset())
            place.notes["usage"] = inner.keys
            if inner.notes:
                place.notes["usage_texts"] = inner.notes["texts"]

            # What is no count stays in the note alone.
            usage = usage_in(Reading(), said, inner.path)

    finished = _finished(place)
    name = raw.get("model_name")
    model = place.optional("model_name") if isinstance(name, str) else ""
    if usage is None and not finished and not model:
        return None

    return ResponseMeta(finish_reason=finished, usage=usage, model=model)


def _finished(place: Place) -> str:
    """
    Why the response ended: in the provider's own word, if that was kept.
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
