"""
The blocks of a content, and the parts and calls they are; and media types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from conversation_state.adapters._export import (
    PayloadWriter,
    cannot_contain,
    merge_kept_keys,
)
from conversation_state.adapters._notes import list_of, map_of, signer_of
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_map,
    mended,
)
from conversation_state.adapters._wire import (
    decode_base64,
    encode_base64,
    split_data_url,
)
from conversation_state.adapters.anthropic._arguments import arguments_of
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
from conversation_state.tools import ToolCall

__all__ = [
    "EMPTY",
    "PDF",
    "PLAIN_TEXT",
    "SOURCE",
    "detect_media_type",
    "is_textual",
    "natural_source",
    "read_call",
    "read_part",
    "write_part",
]

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "anthropic"

PDF = "application/pdf"
PLAIN_TEXT = "text/plain"


def detect_media_type(data: bytes) -> str:
    """
    The media type of *data*, by its first bytes; "" if it is not one of those
    that the provider takes.

    >>> [detect_media_type(data) for data in (b"GIF89a", b"%PDF-1.7", b"hello")]
    ['image/gif', 'application/pdf', '']
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"

    for start, media_type in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", PDF),
    ):
        if data.startswith(start):
            return media_type

    return ""


def is_textual(part: FilePart) -> bool:
    """
    Whether *part* is text, by its media type and by its bytes.
    """
    if part.media_type and not part.media_type.startswith("text/"):
        return False

    try:
        (part.data or b"\xff").decode()
    except UnicodeDecodeError:
        return False

    return True


def natural_source(part: MediaPart) -> str:
    """
    The kind of source that `dump` writes for *part*; "" if missing.
    """
    if part.data is None:
        return "url"

    if not isinstance(part, FilePart):
        return "base64" if part.media_type or detect_media_type(part.data) else ""

    if (part.media_type or detect_media_type(part.data)) == PDF:
        return "base64"

    return "text" if is_textual(part) else ""


EMPTY = "the provider rejects empty content"
# Blocks that are not parts here.
_OURS = {"assistant": "tool_use", "user": "tool_result"}
_TEXT = frozenset({"text", "type"})
_THINKING = frozenset({"signature", "thinking", "type"})
_REDACTED = frozenset({"data", "type"})
_CALL = frozenset({"id", "input", "name", "type"})
_MEDIA: dict[str, type[MediaPart]] = {"document": FilePart, "image": ImagePart}
_KNOWN = {
    "document": frozenset({"source", "title", "type"}),
    "image": frozenset({"source", "type"}),
}
_SOURCE = frozenset({"data", "media_type", "type"})
_LINK = frozenset({"type", "url"})


def read_call(block: ObjectReader, index: int | None = None) -> ToolCall:
    """
    The call that *block* is, at the place *index*.
    """
    call_id, name = block.text("id"), block.text("name")
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
    else:
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
    found: Part | None = None
    if not isinstance(kind, str):
        block.wrong("type", "a text")
        return TextPart("")

    if kind == "text":
        text = block.text("text")
        block.keep(_TEXT)
        return TextPart(text, index=index, metadata=block.metadata(SOURCE))

    if role == "assistant":
        if kind == "thinking":
            found = _read_thinking(block, index)
        elif kind == "redacted_thinking" and isinstance(block.raw.get("data"), str):
            data = block.text("data")
            block.notes |= {"signed": True, "redacted": True}
            block.keep(_REDACTED)
            metadata = block.metadata(SOURCE)
            found = ReasoningPart("", data, index=index, metadata=metadata)
    elif kind in _MEDIA:
        found = _read_media_source(block, kind)

    if found is None:
        raw = block.reading.json(block.raw, block.path)
        metadata = block.metadata(SOURCE)
        return UnknownPart(raw, source=SOURCE, index=index, metadata=metadata)

    return found


def _read_thinking(block: ObjectReader, index: int | None) -> Part:
    text, signature = block.text("thinking"), block.optional("signature")
    if "signature" not in block.raw:
        block.notes["without"] = ["signature"]

    block.notes["signed"] = bool(signature)
    block.keep(_THINKING)
    metadata = block.metadata(SOURCE)
    return ReasoningPart(text, signature, index=index, metadata=metadata)


def _read_media_source(block: ObjectReader, kind: str) -> Part | None:
    """
    A block that holds media, or their URL; None if it has neither.
    """
    source = block.raw.get("source")
    if not is_map(source):
        return None

    inside = block.child("source")
    how, fields = source.get("type"), None
    if how == "url":
        fields = _read_url(inside)
    elif how == "base64" or (how == "text" and kind == "document"):
        fields = _read_data(inside, block.notes)

    if fields is None:
        return None

    name = block.if_text("title") if kind == "document" else ""
    if name:
        fields["name"] = name

    block.keep(_KNOWN[kind])
    if inside.keys:
        block.keys["source"] = inside.keys

    part = _MEDIA[kind](**fields)
    usual = (
        part.media_type == PLAIN_TEXT if how == "text" else natural_source(part) == how
    )
    if not usual or split_data_url(part.url or ""):
        block.notes["source"] = how

    return _MEDIA[kind](**fields, metadata=block.metadata(SOURCE))


def _read_url(source: ObjectReader) -> dict[str, Any] | None:
    """
    The URL of a *source*; None if it has another kind of data.
    """
    if not (isinstance(source.raw.get("url"), str) and source.raw["url"]):
        return None

    source.keep(_LINK)
    return {"url": source.text("url")}


def _read_data(source: ObjectReader, notes: dict[str, Any]) -> dict[str, Any] | None:
    """
    What a *source* holds; None if it can't be read.
    """
    text, media_type = source.raw.get("data"), source.raw.get("media_type")
    if not (isinstance(text, str) and isinstance(media_type, str) and media_type):
        return None

    if source.raw["type"] == "base64":
        data = decode_base64(text)
        if encode_base64(data) != text:
            notes["text"] = text
    else:
        data = source.text("data").encode()

    if not data:
        notes.clear()
        return None

    source.keep(_SOURCE)
    return {"data": data, "media_type": source.text("media_type")}


def write_part(
    write: PayloadWriter, part: Part, path: str, role: str
) -> dict[str, Any] | None:
    """
    The block that *part* is in a message of *role*; None if the format has
    none, and the part is lost.
    """
    notes = write.notes(part, path)
    block: dict[str, Any] | None = None
    if isinstance(part, TextPart):
        if part.text:
            block = {"type": "text", "text": part.text}
        else:
            write.lose(path, "text", EMPTY)
    elif isinstance(part, RefusalPart):
        if part.text:
            block = {"type": "text", "text": part.text}

        why = "the format has no refusals; it is sent as text"
        write.lose(path, "refusal", why if block else EMPTY)
    elif isinstance(part, ReasoningPart):
        block = _write_reasoning(write, part, path, notes)
    elif isinstance(part, MediaPart):
        block = _write_media_block(write, part, path, role, notes)
    elif isinstance(part, UnknownPart):
        return _write_unknown(write, part, path, role, notes)

    return block and merge_kept_keys(map_of(notes, "keys"), block)


def _write_unknown(
    write: PayloadWriter,
    part: UnknownPart,
    path: str,
    role: str,
    notes: Mapping[str, Any],
) -> dict[str, Any] | None:
    raw: dict[str, Any] | None = write.unknown(part.raw, part.source, path, "type")
    if raw is None:
        return None

    why = ""
    if "cut" in notes:
        why = "the block is incomplete: its stream was interrupted"
    elif raw.get("type") == _OURS.get(role):
        why = "is not a part; use a ToolCall or a ToolMessage"
    else:
        read = DocumentReader()
        read_part(ObjectReader(read, raw, "$"), role)
        if read.problems:
            why = f"invalid block: {read.problems[0]}"

    if not why:
        return raw

    kind = raw.get("type")
    write.lose(path, kind if isinstance(kind, str) and kind else "unknown", why)
    return None


def _write_reasoning(
    write: PayloadWriter, part: ReasoningPart, path: str, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    if notes.get("redacted") is True:
        return {"type": "redacted_thinking", "data": part.signature}

    if "signed" not in notes:
        signer, why = signer_of(part.metadata, SOURCE), ""
        if signer:
            why = (
                f"was signed by {signer}; the provider accepts only its own signatures"
            )
        elif not part.signature:
            why = "the provider rejects reasoning without a signature"

        if why:
            write.lose(path, "reasoning", why)
            return None

    block = {"type": "thinking", "thinking": part.text, "signature": part.signature}
    if not part.signature and "signature" in list_of(notes, "without"):
        del block["signature"]

    return block


def _write_media_block(
    write: PayloadWriter,
    part: MediaPart,
    path: str,
    role: str,
    notes: Mapping[str, Any],
) -> dict[str, Any] | None:
    kind = {"file": "document", "image": "image"}.get(part.kind)
    if kind is None or role == "assistant":
        write.lose(path, part.kind, cannot_contain(role, part.kind))
        return None

    # A provider can't fetch a data: URL, so its content is sent.
    if part.url is not None and notes.get("source") != "url":
        found = split_data_url(part.url)
        if found:
            data, media_type = found
            media_type = part.media_type or media_type
            part = attrs.evolve(part, url=None, data=data, media_type=media_type)

    how = _choose_source(part, notes)
    if not how:
        why = "the provider doesn't accept this media type"
        write.lose(path, part.kind, why)
        return None

    source: dict[str, Any] = {"type": how}
    typed = part.media_type
    if part.data is None:
        source["url"] = part.url
        typed = ""
    elif how == "text":
        noted = "source" in notes
        typed = (part.media_type if noted else "") or PLAIN_TEXT
        source |= {"media_type": typed, "data": part.data.decode()}
    else:
        typed = part.media_type or detect_media_type(part.data)
        source |= {
            "media_type": typed,
            "data": encode_base64(part.data, notes.get("text")),
        }

    if part.media_type and part.media_type != typed:
        write.lose(path, "media_type", f"{how} sources have no field for it")

    block: dict[str, Any] = {"type": kind, "source": source}
    if isinstance(part, FilePart) and part.name:
        block["title"] = part.name
    elif isinstance(part, ImagePart) and part.detail:
        write.lose(path, "detail", "images have no detail setting in this format")

    return block


def _choose_source(part: MediaPart, notes: Mapping[str, Any]) -> str:
    """
    The kind of source for *part*: as it came, or as is natural; "" if none.
    """
    noted: Any = notes.get("source")
    if part.data is not None and noted == "base64" and part.media_type:
        return "base64"

    if part.data is not None and noted == "text" and isinstance(part, FilePart):
        try:
            part.data.decode()
        except UnicodeDecodeError:
            return natural_source(part)

        return "text"

    return natural_source(part)
