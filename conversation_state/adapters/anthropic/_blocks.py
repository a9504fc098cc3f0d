"""
The blocks of a content, and the parts and calls they are; media types; and arguments,
a text where the model writes them and an object on the wire.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from conversation_state.adapters.engine.export import (
    PayloadWriter,
    cannot_contain,
    is_local,
    merge_kept_keys,
)
from conversation_state.adapters.engine.notes import map_of, notes_of, signer_of
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    mended,
)
from conversation_state.adapters.engine.wire import (
    decode_base64,
    encode_base64,
    parse_arguments,
    read_text_file,
    split_data_url,
)
from conversation_state.parts import (
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.requests import INVALID_JSON
from conversation_state.tools import ToolCall

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "anthropic"

EMPTY = "the provider rejects empty content"
_PDF = "application/pdf"
_PLAIN_TEXT = "text/plain"
# What the provider takes, by the first bytes.
_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": _PDF,
}
# Blocks that are not parts here.
_OURS = {"assistant": "tool_use", "user": "tool_result"}
_TEXT = frozenset({"text", "type"})
_THINKING = frozenset({"signature", "thinking", "type"})
_REDACTED = frozenset({"data", "type"})
_CALL = frozenset({"id", "input", "name", "type"})
_MEDIA: dict[str, type[MediaPart]] = {"document": FilePart, "image": ImagePart}
_KINDS = {part: kind for kind, part in _MEDIA.items()}
_KNOWN = {
    "document": frozenset({"source", "title", "type"}),
    "image": frozenset({"source", "type"}),
}
_SOURCE = frozenset({"data", "media_type", "type"})
_LINK = frozenset({"type", "url"})


def _detect_media_type(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"

    return next((kind for start, kind in _STARTS.items() if data.startswith(start)), "")


def read_call(block: ObjectReader, index: int | None, made_id: str) -> ToolCall:
    """
    The call that *block* is, at the place *index*, with *made_id* unless it has an id.
    """
    call_id, name = block.nullable("id"), block.text_of_call("name")
    if not call_id:
        call_id = block.notes["made_id"] = made_id

    block.keep(_CALL)
    given, arguments = block.raw.get("input"), ""
    if is_map(given):
        path = f"{block.path}.input"
        try:
            arguments = arguments_of(given)
        except ValueError as error:
            block.reading.problem(path, str(error))

        text = mended(arguments)
        if text is not arguments:
            block.reading.mended.append(path)
            arguments = text
    elif given is not None or not block.reading.is_answer:
        block.wrong("input", "an object")

    metadata = block.metadata(SOURCE)
    return ToolCall(call_id, name, arguments, index=index, metadata=metadata)


def read_part(block: ObjectReader, role: str, index: int | None = None) -> Part:
    """
    The part that *block* is in a message of *role*, at the place *index*.

    What our model can't represent, a file that the provider stores for example,
    is kept verbatim.
    """
    kind = block.raw.get("type")
    if not isinstance(kind, str):
        block.wrong("type", "a text")
        return TextPart("")

    if kind == "text":
        text = block.text("text")
        block.keep(_TEXT)
        return TextPart(text, index=index, metadata=block.metadata(SOURCE))

    if kind == "thinking" and role == "assistant":
        # Where thoughts are omitted, Bedrock leaves the key out, and wants it back.
        # Source: https://github.com/langchain-ai/langchain-aws/pull/1153
        text, signature = block.nullable("thinking"), block.nullable("signature")
        block.notes["signed"] = bool(signature)
        block.keep(_THINKING)
        metadata = block.metadata(SOURCE)
        return ReasoningPart(text, signature, index=index, metadata=metadata)

    is_data = isinstance(block.raw.get("data"), str)
    if kind == "redacted_thinking" and role == "assistant" and is_data:
        data = block.text("data")
        block.notes |= {"signed": True, "redacted": True}
        block.keep(_REDACTED)
        metadata = block.metadata(SOURCE)
        return ReasoningPart("", data, index=index, metadata=metadata)

    found = None
    if kind in _MEDIA and role != "assistant":
        found = _read_media(block, kind)

    return found or block.as_unknown(SOURCE, index)


def _read_media(block: ObjectReader, kind: str) -> Part | None:
    """
    A block that holds media, or their URL; None if it has neither, or a source that
    `_write_source` does not write.
    """
    source = block.raw.get("source")
    if not is_map(source):
        return None

    inside, how = block.child("source"), source.get("type")
    data, media_type, url = map(source.get, ("data", "media_type", "url"))
    fields: dict[str, Any] = {"media_type": media_type}
    if how == "url" and isinstance(url, str) and url and not split_data_url(url):
        fields = {"url": inside.text("url")}
        if is_local(fields["url"]):
            block.notes["local"] = True
    elif not (isinstance(data, str) and isinstance(media_type, str)):
        return None
    elif how == "text" and kind == "document" and media_type == _PLAIN_TEXT:
        fields["data"] = inside.text("data").encode()
    elif how == "base64" and (media_type == _PDF if kind == "document" else media_type):
        fields |= {"data": decode_base64(data), "media_type": inside.text("media_type")}

    if not (fields.get("url") or fields.get("data")):
        return None

    name = block.if_text("title") if kind == "document" else ""
    if name:
        fields["name"] = name

    block.keep(_KNOWN[kind])
    block.keep_within("source", inside, _LINK if how == "url" else _SOURCE)
    return _MEDIA[kind](**fields, metadata=block.metadata(SOURCE))


def write_part(
    writer: PayloadWriter, part: Part, path: str, role: str
) -> dict[str, Any] | None:
    """The block that *part* is in a message of *role*; None if it is lost."""
    notes = writer.notes(part, path)
    block: dict[str, Any] | None = None
    if isinstance(part, (TextPart, RefusalPart)):
        is_refusal = isinstance(part, RefusalPart)
        if part.text:
            block = {"type": "text", "text": part.text}

        if is_refusal or not part.text:
            why = "the format has no refusals; it is sent as text"
            writer.lose(path, part.kind, why if block else EMPTY)
    elif isinstance(part, ReasoningPart):
        block = _write_reasoning(writer, part, path, notes)
    elif isinstance(part, MediaPart):
        block = _write_media(writer, part, path, role)
    elif isinstance(part, UnknownPart):
        return _write_unknown(writer, part, path, role, notes)

    return block and merge_kept_keys(map_of(notes, "keys"), block)


def _write_unknown(
    writer: PayloadWriter,
    part: UnknownPart,
    path: str,
    role: str,
    notes: Mapping[str, Any],
) -> dict[str, Any] | None:
    raw: dict[str, Any] | None = writer.unknown(part.raw, part.source, path)
    if raw is None:
        return None

    why = ""
    if "cut" in notes:
        why = "the block is incomplete: its stream was interrupted"
    elif writer.wants_signatures and not _is_own_call(raw):
        why = "was run by another provider"
    elif raw.get("type") == _OURS.get(role):
        why = "is not a part; use a ToolCall or a ToolMessage"
    else:
        # The user may have made it.
        reader = DocumentReader()
        read_part(ObjectReader(reader, raw, "$"), role)
        if reader.problems:
            why = f"invalid block: {reader.problems[0]}"

    if not why:
        return raw

    kind = raw.get("type")
    writer.lose(path, kind if isinstance(kind, str) and kind else "unknown", why)
    return None


def _is_own_call(raw: Mapping[str, Any]) -> bool:
    """
    Whether *raw* is no call of a tool that another provider runs, which also signs the
    results in its own way.

    Source:
        ``server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'``,
        https://github.com/ding113/claude-code-hub/issues/470; ``Invalid
        `encrypted_content` in `search_result` block``.
    """
    is_call = raw.get("type") == "server_tool_use"
    return not is_call or _OWN_ID.match(str(raw.get("id"))) is not None


_OWN_ID = re.compile(r"srvtoolu_\w+\Z", re.ASCII)


def _write_reasoning(
    writer: PayloadWriter, part: ReasoningPart, path: str, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    if writer.foreign_signer and part.signature:
        # Source: ``Invalid `signature` in `thinking` block``.
        signer = writer.foreign_signer
        why = f"was signed by {signer}; only that model accepts its thinking"
        writer.lose(path, "reasoning", why)
        return None

    if writer.wants_signatures and not part.signature:
        # Other servers give none, and take it back so. Source:
        # https://github.com/anomalyco/opencode/issues/6418.
        why = "the provider rejects reasoning without a signature"
        writer.lose(path, "reasoning", why)
        return None

    if notes.get("redacted") is True:
        return {"type": "redacted_thinking", "data": part.signature}

    # Without a note it was made by hand, or by another provider.
    if "signed" not in notes:
        signer = signer_of(part.metadata, SOURCE)
        if signer or not part.signature:
            why = (
                f"was signed by {signer}; the provider accepts only its own signatures"
                if signer
                else "the provider rejects reasoning without a signature"
            )
            writer.lose(path, "reasoning", why)
            return None

    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _write_media(
    writer: PayloadWriter, part: MediaPart, path: str, role: str
) -> dict[str, Any] | None:
    kind = _KINDS.get(type(part))
    if kind is None or role == "assistant":
        writer.lose(path, part.kind, cannot_contain(role, part.kind))
        return None

    notes = notes_of(part.metadata, SOURCE)
    if not writer.is_fetched(part, path, notes, is_of_web=True):
        return None

    # Unlike others, the provider refuses bytes of another type than the one stated.
    fit = writer.fit_image(part, path, is_exact=True)
    if fit is None:
        return None

    # A provider can't fetch a data: URL, so its content is sent.
    part = fit
    found = split_data_url(part.url or "")
    data, media_type = found or (part.data, part.media_type)
    source = _write_source(part, data, part.media_type or media_type)
    why = _find_why_refused(writer, kind, source)
    if source is None or why:
        writer.lose(path, part.kind, why)
        return None

    if part.media_type and part.media_type != source.get("media_type"):
        why = f"{source['type']} sources have no field for it"
        writer.lose(path, "media_type", why)

    block: dict[str, Any] = {"type": kind, "source": source}
    if isinstance(part, FilePart) and part.name:
        block["title"] = part.name
    elif isinstance(part, ImagePart) and part.detail:
        writer.lose(path, "detail", "images have no detail setting in this format")

    return block


def _find_why_refused(
    writer: PayloadWriter, kind: str, source: Mapping[str, Any] | None
) -> str:
    """Why the provider refuses *source*, of a block of this *kind*, or ""."""
    if source is None:
        return "the provider doesn't accept this media type"

    if "url" in source and writer.rules is not None and not writer.rules.takes_urls:
        return "the host fetches no URLs; send the bytes"

    is_large = kind == "image" and len(source.get("data", "")) > _MAX_IMAGE
    is_refused = is_large and writer.is_request
    return "the provider takes no image of more than 5 MB" if is_refused else ""


# In base64. Source: https://github.com/anthropics/claude-code/issues/19631: "image
# exceeds 5 MB maximum: 5895160 bytes > 5242880 bytes", in each request from then on.
_MAX_IMAGE = 5 * 1024 * 1024
_PLAIN_SOURCE = {"type": "text", "media_type": _PLAIN_TEXT}


def _write_source(
    part: MediaPart, data: bytes | None, media_type: str
) -> dict[str, Any] | None:
    """
    The source of *part*, which has this *data*, of a *media_type* or "", or a URL; None
    if the provider takes none such.
    """
    if data is None:
        return {"type": "url", "url": part.url}

    is_file = isinstance(part, FilePart)
    found = media_type or _detect_media_type(data)
    if (found == _PDF) if is_file else (found and (media_type or found != _PDF)):
        return {"type": "base64", "media_type": found, "data": encode_base64(data)}

    text = read_text_file(data, media_type) if is_file else None
    return None if text is None else {**_PLAIN_SOURCE, "data": text}


def input_of(arguments: str) -> dict[str, Any]:
    """
    *arguments* as the object that a call has on the wire.

    An empty text is an empty object. What is not an object, or would not arrive as it
    is (keys given twice, infinite numbers, half of a surrogate pair), is
    wrapped: ``{"INVALID_JSON": text}``.

    Source:
        Anthropic's guide to fine-grained tool streaming, which brings invalid
        JSON and recommends this wrapper.

    >>> input_of('{"q": 1}'), input_of(""), input_of('{"q')
    ({'q': 1}, {}, {'INVALID_JSON': '{"q'})
    """
    found = _parse_plain_object(arguments)
    return {INVALID_JSON: arguments} if found is None else found


def arguments_of(value: Mapping[Any, Any]) -> str:
    """
    The text of *value*, the object that a call has on the wire, without its wrapper;
    what `input_of` makes *value* of again.

    Raises:
        ValueError:
            If *value* can't be represented as JSON; with the reason.

    >>> arguments_of({"q": 1}), arguments_of({"INVALID_JSON": '{"q'})
    ('{"q": 1}', '{"q')
    """
    text = _unwrap_invalid(value)
    if text is not None and _parse_plain_object(text) is None:
        return text

    msg = "holds what can't be kept as JSON"
    try:
        # With the white space that the provider streams them with.
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, default=_convert_map
        )
    except RecursionError:
        msg = "is nested too deep"
    except (TypeError, ValueError):
        pass
    else:
        # Last: in a value that contains itself, which `json` refuses, it has no end.
        if _has_text_keys(value):
            return text

        msg = "has a key that is not text"

    raise ValueError(msg)


def _unwrap_invalid(value: Mapping[Any, Any]) -> str | None:
    text = value.get(INVALID_JSON) if len(value) == 1 else None
    return text if isinstance(text, str) else None


def _parse_plain_object(text: str) -> dict[str, Any] | None:
    if not text:
        return {}

    try:
        value = parse_arguments(text)
        # The text is valid Unicode, so only an escape can be half of a surrogate pair.
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None

    return value if isinstance(value, dict) else None


def _convert_map(value: object) -> dict[Any, Any]:
    if is_map(value):
        return dict(value)

    raise TypeError(f"{type(value).__name__} is not JSON")


def _has_text_keys(value: object) -> bool:
    # `json` makes texts of keys that are numbers, or None.
    todo = [value]
    while todo:
        one = todo.pop()
        if is_map(one):
            if any(not isinstance(key, str) for key in one):
                return False

            todo += one.values()
        elif is_list(one):
            todo += one

    return True
