"""
The content of user's messages and results, and a model's response and its usage,
loaded and dumped.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from conversation_state.adapters.engine.export import FINISHED, PayloadWriter, in_order
from conversation_state.adapters.engine.notes import (
    map_of,
    notes_of,
    own_of,
    signer_of,
    with_notes,
    write_extra,
)
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    is_count,
    read_usage_block,
    split_counts,
    usage_in,
)
from conversation_state.adapters.engine.wire import MEDIA_CLASSES, decode_base64
from conversation_state.adapters.pydantic_ai._notes import (
    INTERRUPTED,
    MEDIA,
    SOURCE,
    URLS,
    is_default,
    keep_keys,
    kind_of,
    read_json_text,
    read_text,
    restore_keys,
    restore_value,
    take_notes,
    write_time,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    ToolMessage,
)
from conversation_state.parts import (
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

_URL = frozenset({"kind", "media_type", "url"})
_BYTES = frozenset({"data", "kind", "media_type"})
_TEXT_CONTENT = frozenset({"content", "kind"})
_MEDIA = frozenset({"binary", *MEDIA})
_UNTYPED = "application/octet-stream"


def read_content(node: ObjectReader, content: Any) -> str | list[Part]:
    if isinstance(content, str):
        return node.text("content")

    found: list[Part] = []
    for at, item in enumerate(content):
        path = f"{node.path}.content[{at}]"
        if isinstance(item, str):
            found.append(TextPart(node.reading.json(item, path)))
        elif is_map(item):
            found.append(_load_item(ObjectReader(node.reading, item, path)))
        else:
            node.reading.wrong(path, item, "a text or an object")

    return found


def _load_item(node: ObjectReader) -> Part:
    kind, content = kind_of(node.raw, "kind"), node.raw.get("content")
    if kind in {"text-content", "structured-content"} and isinstance(content, str):
        # Structured content may have the value null, which `keep_keys` would drop as a
        # default.
        keep_keys(node, _TEXT_CONTENT, whole=kind == "structured-content")
        # Without a noted kind, the part would be dumped as a bare text.
        node.keys["kind"] = kind
        return TextPart(node.text("content"), metadata=node.metadata(SOURCE))

    return read_media(node) or node.as_unknown(SOURCE)


# The media at *node*; None if there is no part for them. *whole* notes defaults, too.
def read_media(
    node: ObjectReader, *, whole: bool = False, index: int | None = None
) -> MediaPart | None:
    raw = node.raw
    fields: dict[str, Any] = {"index": index}
    kind, media_type = kind_of(raw, "kind"), raw.get("media_type")
    if isinstance(media_type, str):
        fields["media_type"] = node.text("media_type")
    elif media_type is not None:
        return None

    url, data = raw.get("url"), raw.get("data")
    if kind in MEDIA and isinstance(url, str) and url:
        own = MEDIA[kind]
        known = _URL
        fields["url"] = node.text("url")
    elif kind == "binary" and isinstance(data, str) and isinstance(media_type, str):
        family = media_type.partition("/")[0]
        own = family if family in MEDIA_CLASSES else "file"
        known = _BYTES
        # Base64 that Pydantic would write differently is kept unchanged by the caller.
        fields["data"] = decode_base64(data, urlsafe=True)
        if not data or _encode_base64(fields["data"]) != data:
            return None

    else:
        return None

    vendor = raw.get("vendor_metadata")
    if own == "image" and is_map(vendor) and [*vendor] == ["detail"]:
        detail = vendor["detail"]
        if isinstance(detail, str) and detail:
            fields["detail"] = node.reading.json(detail, f"{node.path}.detail")
            known |= {"vendor_metadata"}

    if media_type is None:
        known -= {"media_type"}

    keep_keys(node, known, whole=whole)
    return MEDIA_CLASSES[own](metadata=node.metadata(SOURCE), **fields)


def _encode_base64(data: bytes) -> str:
    # Pydantic writes bytes in the URL-safe alphabet.
    return base64.urlsafe_b64encode(data).decode()


def read_tool_result(node: ObjectReader) -> str | list[Part]:
    """The content of a tool's result: a text, JSON, or parts with media."""
    content = node.raw.get("content")
    items: Sequence[Any] = content if is_list(content) else [content]
    if not any(is_map(item) and kind_of(item, "kind") in _MEDIA for item in items):
        return read_text(node, "content")

    found: list[Part] = []
    for at, item in enumerate(items):
        path = f"{node.path}.content[{at}]"
        part: Part | None = None
        if isinstance(item, str):
            part = TextPart(node.reading.json(item, path))
        elif is_map(item) and kind_of(item, "kind") in _MEDIA:
            # Defaults are noted, too, because Pydantic AI identifies files in results
            # by a digest of all keys.
            part = read_media(ObjectReader(node.reading, item, path), whole=True)

        if part is None:
            text = read_json_text(node.reading, item, path)
            part = TextPart(text, metadata=with_notes(SOURCE, {"value": True}))

        found.append(part)

    node.notes["files"] = "several" if is_list(content) else "one"
    return found


def dump_content(writer: PayloadWriter, message: Message, path: str) -> Any:
    content = getattr(message, "content", "")
    if isinstance(content, str):
        return content

    items = [
        _dump_item(writer, part, f"{path}.parts[{at}]")
        for at, part in enumerate(content)
    ]
    return [item for item in items if item is not None]


def _dump_item(writer: PayloadWriter, part: Part, path: str) -> Any:
    notes = take_notes(writer, part, path)
    if isinstance(part, TextPart):
        is_bare = not map_of(notes, "keys")
        return part.text if is_bare else restore_keys({"content": part.text}, notes)

    if isinstance(part, MediaPart):
        return dump_media(writer, part, notes, path)

    unknown: Any = part
    return writer.unknown(unknown.raw, unknown.source, path)


def dump_media(
    writer: PayloadWriter, part: MediaPart, notes: Mapping[str, Any], path: str
) -> dict[str, Any]:
    item: dict[str, Any]
    if part.url is not None:
        item = {"kind": URLS[part.kind], "url": part.url}
        if part.media_type:
            item["media_type"] = part.media_type
    else:
        family = part.media_type.partition("/")[0]
        if part.kind != (family if family in URLS else "file"):
            writer.lose(path, part.kind, "bytes become content of their media type")

        if not part.media_type:
            writer.lose(path, "media_type", f"required for bytes; set to {_UNTYPED}")

        media_type = part.media_type or _UNTYPED
        data = _encode_base64(part.data or b"")
        item = {"kind": "binary", "data": data, "media_type": media_type}

    if isinstance(part, ImagePart) and part.detail:
        item["vendor_metadata"] = {"detail": part.detail}

    if getattr(part, "name", ""):
        writer.lose(path, "name", "not supported by Pydantic AI")

    return restore_keys(item, notes)


def dump_tool_result(
    writer: PayloadWriter, message: ToolMessage, notes: Mapping[str, Any], path: str
) -> Any:
    content = message.content
    if isinstance(content, str):
        return restore_value(content, notes)

    items: list[Any] = []
    for at, part in enumerate(content):
        where = f"{path}.parts[{at}]"
        if isinstance(part, TextPart):
            items.append(restore_value(part.text, take_notes(writer, part, where)))
        elif (raw := _dump_item(writer, part, where)) is not None:
            items.append(raw)

    files = notes.get("files")
    if files is None and not any(isinstance(part, MediaPart) for part in content):
        if len(content) > 1:
            why = "the result of a tool is one text; the parts are joined"
            writer.lose(path, "parts", why)

        return message.text

    return items[0] if files == "one" and len(items) == 1 else items


# The key of the text, by the kind of the part.
_TEXTS = {"speech": "transcript", "text": "content"}
_TEXT = frozenset({"content", "part_kind"})
_THOUGHT = _TEXT | {"signature"}
_CALL = frozenset({"args", "part_kind", "tool_call_id", "tool_name"})
# The adapters that can send signatures back, by Pydantic AI's names of the providers.
_SIGNERS = {"anthropic": "anthropic"}
# The id of encrypted reasoning, which consists of its signature.
_REDACTED = "redacted_thinking"
_NOTHING = Usage()
# Counts that are kept in `Usage.extra` under their own names.
_EXTRA = (
    "cache_audio_read_tokens", "cache_write_1h_tokens", "cache_write_tokens",
    "requests", "tool_calls", "unmeasured_requests",
)  # fmt: skip
# Details that repeat a field, or a part of one.
_HAS_FIELD = frozenset(
    {
        *("audio_tokens", "cached_tokens", "input_tokens", "output_tokens"),
        *("cache_creation_input_tokens", "cache_read_input_tokens"),
        *("reasoning_tokens", "total_tokens"),
    }
)
_PREDICTED = ("accepted_prediction_tokens", "rejected_prediction_tokens")
_COUNTS = (
    "cache_read_tokens",
    "input_audio_tokens",
    "input_tokens",
    "output_audio_tokens",
    "output_reasoning_tokens",
    "output_tokens",
    *_EXTRA,
)


def read_response(
    node: ObjectReader,
) -> tuple[str | list[Part], list[ToolCall], ResponseMeta | None]:
    content: list[Part] = []
    calls: list[ToolCall] = []
    for at, part in enumerate(node.objects("parts")):
        if part.raw.get("part_kind") == "tool-call":
            calls.append(_load_call(part, at))
        else:
            content.append(_load_part(part, at))

    meta = _load_meta(node)
    if len(content) == 1 and not calls:
        (only,) = content
        if isinstance(only, TextPart) and only.text and not only.metadata:
            return only.text, calls, meta

    return content or "", calls, meta


def _load_part(node: ObjectReader, at: int) -> Part:
    raw = node.raw
    kind, content = kind_of(raw), raw.get("content")
    field = _TEXTS.get(kind, "")
    if isinstance(raw.get(field), str):
        keep_keys(node, _TEXT if kind == "text" else frozenset({field}))
        text = node.text(field)
        return TextPart(text, index=at, metadata=node.metadata(SOURCE))

    if kind == "thinking" and isinstance(content, str):
        return _load_reasoning(node, at)

    if kind == "file" and is_map(content):
        inner = node.child("content")
        keep_keys(node, _TEXT)
        part = read_media(inner, index=at)
        if part is not None and node.keys:
            notes = {"keys": inner.keys, "file": node.keys}
            return attrs.evolve(part, metadata=with_notes(SOURCE, notes))

        if part is not None:
            return part

    return node.as_unknown(SOURCE, at)


def _load_reasoning(node: ObjectReader, at: int) -> Part:
    raw = node.raw
    signature = raw.get("signature")
    signed = isinstance(signature, str) and bool(signature)
    keep_keys(node, _THOUGHT if signed else _TEXT)
    text = node.text("content")
    if not signed:
        return ReasoningPart(text, index=at, metadata=node.metadata(SOURCE))

    node.notes["signed"] = True
    metadata = node.metadata(SOURCE)
    signer = raw.get("provider_name")
    if isinstance(signer, str) and signer in _SIGNERS:
        redacted = {"redacted": True} if raw.get("id") == _REDACTED else {}
        metadata = with_notes(_SIGNERS[signer], {"signed": True, **redacted}, metadata)

    return ReasoningPart(text, node.text("signature"), index=at, metadata=metadata)


def _load_call(node: ObjectReader, at: int) -> ToolCall:
    keep_keys(node, _CALL)
    return ToolCall(
        node.text("tool_call_id"),
        node.text("tool_name"),
        read_text(node, "args"),
        index=at,
        metadata=node.metadata(SOURCE),
    )


def _load_meta(node: ObjectReader) -> ResponseMeta | None:
    raw = node.raw
    usage = None
    counted = raw.get("usage")
    if is_map(counted):
        counts = {
            key: value
            for key, value in counted.items()
            if not is_default(key, value) and value != 0
        }
        if counts:
            inner = ObjectReader(node.reading, counts, f"{node.path}.usage")
            keep_keys(inner, frozenset())
            node.notes["usage"] = inner.keys
            # A new reader takes the problems of values that are not counts. They are
            # not problems of the document, because the note keeps these values.
            usage = _read_usage(DocumentReader(), counts, inner.path)

    finished = _load_finish_reason(node)
    name = raw.get("model_name")
    model = node.optional("model_name") if isinstance(name, str) else ""
    response_id = read_response_id(raw)
    if usage is None and not finished and not model and not response_id:
        return None

    return ResponseMeta(finished, usage, None, model, response_id)


# The provider's id of a response; "" if it is missing or not valid Unicode.
def read_response_id(raw: Mapping[str, Any]) -> str:
    value = raw.get("provider_response_id")
    return value if isinstance(value, str) and mended(value) is value else ""


# The finish reason: the provider's own, if that was kept.
def _load_finish_reason(node: ObjectReader) -> str:
    details, reason = node.raw.get("provider_details"), node.raw.get("finish_reason")
    own = details.get("finish_reason") if is_map(details) else None
    if isinstance(own, str) and own:
        if reason is not None:
            where = f"{node.path}.finish_reason"
            node.keys["finish_reason"] = node.reading.json(reason, where)

        return mended(own)

    finished = node.optional("finish_reason") if reason is not None else ""
    if not finished and node.raw.get("state") == INTERRUPTED:
        return INTERRUPTED

    return finished


def dump_response(
    writer: PayloadWriter,
    message: AssistantMessage,
    notes: Mapping[str, Any],
    path: str,
) -> dict[str, Any]:
    parts = [
        _dump_call(writer, one, where)
        if isinstance(one, ToolCall)
        else _dump_part(writer, one, where)
        for where, one in in_order(message.parts, message.tool_calls, path)
    ]
    parts = [part for part in parts if part is not None]
    raw: dict[str, Any] = {"kind": "response", "parts": parts}
    if message.timestamp is not None or "timestamp" not in map_of(notes, "response"):
        raw["timestamp"] = write_time(writer, message.timestamp, path)

    if message.run_id is not None:
        raw["run_id"] = str(message.run_id)

    if own_of(message.metadata) or map_of(notes, "metadata"):
        raw["metadata"] = write_extra(message.metadata, notes, "metadata")

    _dump_meta(writer, message, notes, raw, path)
    # As in a request, empty parts are not replaced by noted ones.
    return restore_keys(raw, notes, "response") | {"parts": parts}


def _dump_part(writer: PayloadWriter, part: Part, path: str) -> Any:
    notes = take_notes(writer, part, path)
    raw: dict[str, Any]
    if isinstance(part, TextPart):
        kind = map_of(notes, "keys").get("part_kind", "text")
        raw = {"part_kind": kind, _TEXTS.get(kind, "content"): part.text}
    elif isinstance(part, RefusalPart):
        writer.lose(path, part.kind, "becomes plain text")
        raw = {"part_kind": "text", "content": part.text}
    elif isinstance(part, ReasoningPart):
        raw = _dump_reasoning(writer, part, path)
    elif isinstance(part, MediaPart):
        if part.url is not None:
            writer.lose(path, part.kind, "a response can't contain URLs")
            return None

        raw = {"part_kind": "file", "content": dump_media(writer, part, notes, path)}
        return restore_keys(raw, notes, "file")
    else:
        unknown: Any = part
        return writer.unknown(unknown.raw, unknown.source, path)

    return restore_keys(raw, notes)


def _dump_reasoning(
    writer: PayloadWriter, part: ReasoningPart, path: str
) -> dict[str, Any]:
    raw: dict[str, Any] = {"part_kind": "thinking", "content": part.text}
    if not part.signature:
        return raw

    other = signer_of(part.metadata, SOURCE)
    signer = _SIGNERS.get(other)
    if not other:
        raw["signature"] = part.signature
    elif signer is not None:
        # Pydantic AI sends the signature back to this provider only. It would send
        # encrypted reasoning without this id as the signature of an empty text, which
        # the provider refuses.
        raw |= {"signature": part.signature, "provider_name": signer}
        if notes_of(part.metadata, other).get("redacted") is True:
            raw["id"] = _REDACTED
    else:
        why = f"is {other}'s, and would be sent to another provider"
        writer.lose(path, "signature", why)

    return raw


def _dump_call(writer: PayloadWriter, call: ToolCall, path: str) -> dict[str, Any]:
    notes = take_notes(writer, call, path)
    if call.type != "function":
        writer.lose(path, "type", "calls of functions only in Pydantic AI")

    raw = {
        "part_kind": "tool-call",
        "tool_name": call.name,
        "tool_call_id": call.id,
        "args": restore_value(call.arguments, notes),
    }
    return restore_keys(raw, notes)


def _dump_meta(
    writer: PayloadWriter,
    message: AssistantMessage,
    notes: Mapping[str, Any],
    raw: dict[str, Any],
    path: str,
) -> None:
    meta = message.response
    kept = restore_keys({}, notes, "usage")
    usage = None if meta is None else meta.usage
    # The noted counts are used only if they still are the usage of the response, which
    # a caller may have replaced.
    if kept and _read_usage(DocumentReader(), kept, "") == usage:
        raw["usage"] = kept
    elif usage is not None:
        raw["usage"], lost = _write_usage(usage)
        for name in lost:
            why = "is a sum or a part of other counts in Pydantic AI"
            writer.lose(f"{path}.response.usage", name, why)

    if meta is None:
        return

    if meta.model:
        raw["model_name"] = meta.model

    if meta.id:
        raw["provider_response_id"] = meta.id

    if meta.logprobs is not None:
        writer.lose(f"{path}.response", "logprobs", "not supported by Pydantic AI")

    for name in sorted(meta.unknown):
        writer.lose(f"{path}.response", name, "a newer version wrote it")

    details = map_of(notes, "response").get("provider_details")
    kept_reason = details.get("finish_reason") if is_map(details) else None
    if meta.finish_reason != kept_reason:
        _dump_finish_reason(meta.finish_reason, raw)


def _dump_finish_reason(reason: str, raw: dict[str, Any]) -> None:
    if reason == INTERRUPTED:
        raw["state"] = INTERRUPTED
        return

    if reason in FINISHED:
        raw["finish_reason"] = FINISHED[reason]

    if reason and raw.get("finish_reason") != reason:
        # Pydantic AI keeps the provider's own reason under this key.
        raw["provider_details"] = {"finish_reason": reason}


def load_usage(payload: Any) -> Usage | None:
    """
    The usage in *payload*: a `RequestUsage`, a `RunUsage`, a `ModelResponse`, or
    one of these as JSON.

    None if it has no counts. Pydantic AI's counts are inclusive already, so
    none is added to another: ``input_tokens`` holds cache reads, cache writes
    and audio, ``output_tokens`` holds reasoning and audio. Counts without a
    field go to `Usage.extra`, under their own names, and so do ``details`` that
    repeat no field; ``cost`` and seconds of audio stay with the message.

    Raises:
        DecodeError: If a count is negative, not an integer, or over 2**63 - 1.

    Source:
        ``pydantic_ai.usage.UsageBase`` documents what each count includes.

    >>> load_usage({"input_tokens": 9, "cache_read_tokens": 4, "output_tokens": 2})
    Usage(9, 2, prompt_tokens_details=PromptTokensDetails(cached_tokens=4))
    """
    raw = payload
    if not is_map(raw):
        raw = getattr(payload, "usage", payload)
        raw = getattr(raw, "__dict__", raw)

    expected = "a usage, or a response with usage"
    usage = usage_in(raw, _find_block, _read_response_counts, expected)
    return None if usage == _NOTHING else usage


def _find_block(raw: Mapping[str, Any]) -> tuple[Any, str]:
    return (raw.get("usage"), "$.usage") if "parts" in raw else (raw, "$")


def _read_usage(
    reader: DocumentReader, raw: Mapping[str, Any], path: str
) -> Usage | None:
    usage, _ = read_usage_block(reader, raw, path, _read_response_counts)
    return None if usage == _NOTHING else usage


def _read_response_counts(
    reader: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts, _, _ = split_counts(reader, block, _COUNTS, path)
    details = {
        mended(name): count
        for name, count in map_of(block, "details").items()
        if isinstance(name, str) and is_count(count) and count
    }
    # Older releases of Pydantic AI have this count in the details.
    reasoning = counts.get("output_reasoning_tokens") or details.get("reasoning_tokens")
    prompt = {
        "audio_tokens": counts.get("input_audio_tokens", 0),
        "cached_tokens": counts.get("cache_read_tokens", 0),
    }
    completion = {
        "audio_tokens": counts.get("output_audio_tokens", 0),
        "reasoning_tokens": reasoning or 0,
        **{name: details.pop(name, 0) for name in _PREDICTED},
    }
    extra = {name: details[name] for name in details if name not in _HAS_FIELD}
    extra |= {name: counts[name] for name in _EXTRA if counts.get(name)}
    totals = counts.get("input_tokens", 0), counts.get("output_tokens", 0), None
    return totals, (prompt, completion), extra, {}


# *usage* in Pydantic AI's counts, and the names of counts it does not have.
def _write_usage(usage: Usage) -> tuple[dict[str, Any], list[str]]:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    counts: dict[str, Any] = {
        "input_tokens": usage.prompt_tokens,
        "cache_read_tokens": prompt.cached_tokens,
        "input_audio_tokens": prompt.audio_tokens,
        "output_tokens": usage.completion_tokens,
        "output_audio_tokens": completion.audio_tokens,
        "output_reasoning_tokens": completion.reasoning_tokens,
    }
    details: dict[str, int] = {}
    lost: list[str] = []
    for name in sorted(usage.extra):
        if name in _HAS_FIELD or name in _PREDICTED:
            lost.append(name)
        else:
            known = name in {*_EXTRA} - {"requests", "tool_calls"}
            (counts if known else details)[name] = usage.extra[name]

    for name in _PREDICTED:
        details[name] = getattr(completion, name)

    if usage.total_tokens != usage.prompt_tokens + usage.completion_tokens:
        lost.append("total_tokens")

    own = {name: count for name, count in counts.items() if count}
    kept = {name: count for name, count in details.items() if count}
    return ({**own, "details": kept} if kept else own), lost
