"""
The blocks of a content, and the parts and calls they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._export import (
    Writing,
    list_of,
    map_of,
    signer_of,
    written_over,
)
from conversation_state.adapters._reading import Place, Reading, is_map, mended
from conversation_state.adapters.anthropic._arguments import arguments_of
from conversation_state.adapters.anthropic._words import (
    PLAIN_TEXT,
    SOURCE,
    decoded,
    encoded,
    in_url,
    natural_source,
    sniffed,
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
from conversation_state.tools import ToolCall

__all__ = ["EMPTY", "read_call", "read_part", "write_part"]

EMPTY = "is empty, which the provider refuses"
# Blocks that are no parts here.
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


def read_call(block: Place, index: int | None = None) -> ToolCall:
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


def read_part(block: Place, role: str, index: int | None = None) -> Part:
    """
    The part that *block* is in a message of *role*, at the place *index*.

    What our model has no word for, what is with the provider under an id say,
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
            found = _thinking(block, index)
        elif kind == "redacted_thinking" and isinstance(block.raw.get("data"), str):
            data = block.text("data")
            block.notes |= {"signed": True, "redacted": True}
            block.keep(_REDACTED)
            metadata = block.metadata(SOURCE)
            found = ReasoningPart("", data, index=index, metadata=metadata)
    elif kind in _MEDIA:
        found = _media(block, kind)

    if found is None:
        raw = block.reading.json(block.raw, block.path)
        return UnknownPart(raw, source=SOURCE, index=index)

    return found


def _thinking(block: Place, index: int | None) -> Part:
    text, signature = block.text("thinking"), block.optional("signature")
    if "signature" not in block.raw:
        block.notes["without"] = ["signature"]

    block.notes["signed"] = bool(signature)
    block.keep(_THINKING)
    metadata = block.metadata(SOURCE)
    return ReasoningPart(text, signature, index=index, metadata=metadata)


def _media(block: Place, kind: str) -> Part | None:
    """
    A block that holds media, or tells where they are; None if it does neither.
    """
    source = block.raw.get("source")
    if not is_map(source):
        return None

    inside = Place(block.reading, source, f"{block.path}.source")
    how, fields = source.get("type"), None
    if how == "url":
        fields = _linked(inside)
    elif how == "base64" or (how == "text" and kind == "document"):
        fields = _contained(inside, block.notes)

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
    if not usual or in_url(part.url or "")[1]:
        block.notes["source"] = how

    return _MEDIA[kind](**fields, metadata=block.metadata(SOURCE))


def _linked(source: Place) -> dict[str, Any] | None:
    """
    Where a *source* says that its content is; None if nowhere.
    """
    if not (isinstance(source.raw.get("url"), str) and source.raw["url"]):
        return None

    source.keep(_LINK)
    return {"url": source.text("url")}


def _contained(source: Place, notes: dict[str, Any]) -> dict[str, Any] | None:
    """
    What a *source* holds; None if it can't be read.
    """
    text, media_type = source.raw.get("data"), source.raw.get("media_type")
    if not (isinstance(text, str) and isinstance(media_type, str) and media_type):
        return None

    if source.raw["type"] == "base64":
        data = decoded(text)
        if encoded(data) != text:
            notes["text"] = text
    else:
        data = source.text("data").encode()

    if not data:
        notes.clear()
        return None

    source.keep(_SOURCE)
    return {"data": data, "media_type": source.text("media_type")}


def write_part(
    write: Writing, part: Part, path: str, role: str
) -> dict[str, Any] | None:
    """
    The block that *part* is in a message of *role*; None if there is none, and
    it is lost.
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

        why = "is sent as what the assistant said: no block is a refusal"
        write.lose(path, "refusal", why if block else EMPTY)
    elif isinstance(part, ReasoningPart):
        block = _write_reasoning(write, part, path, notes)
    elif isinstance(part, MediaPart):
        block = _write_media(write, part, path, role, notes)
    elif isinstance(part, UnknownPart):
        return _write_unknown(write, part, path, role, notes)

    return block and written_over(map_of(notes, "keys"), block)


def _write_unknown(
    write: Writing, part: UnknownPart, path: str, role: str, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    raw: dict[str, Any] | None = write.unknown(part.raw, part.source, path, "type")
    if raw is None:
        return None

    why = ""
    if "cut" in notes:
        why = "was cut off while it was sent"
    elif raw.get("type") == _OURS.get(role):
        why = "is said by a ToolCall, or a ToolMessage"
    else:
        read = Reading()
        read_part(Place(read, raw, "$"), role)
        if read.problems:
            why = f"is no block: {read.problems[0]}"

    if not why:
        return raw

    kind = raw.get("type")
    write.lose(path, kind if isinstance(kind, str) and kind else "unknown", why)
    return None


def _write_reasoning(
    write: Writing, part: ReasoningPart, path: str, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    if notes.get("redacted") is True:
        return {"type": "redacted_thinking", "data": part.signature}

    if "signed" not in notes:
        signer, why = signer_of(part.metadata, SOURCE), ""
        if signer:
            why = f"is {signer}'s, and the provider takes only what it signed"
        elif not part.signature:
            why = "has no signature, without which the provider takes none"

        if why:
            write.lose(path, "reasoning", why)
            return None

    block = {"type": "thinking", "thinking": part.text, "signature": part.signature}
    if not part.signature and "signature" in list_of(notes, "without"):
        del block["signature"]

    return block


def _write_media(
    write: Writing, part: MediaPart, path: str, role: str, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    kind = {"file": "document", "image": "image"}.get(part.kind)
    if kind is None or role == "assistant":
        why = f"a message of role {role} can't have it"
        write.lose(path, part.kind, why)
        return None

    # A url that is its own content is none that anybody could fetch.
    if part.url is not None and notes.get("source") != "url":
        media_type, data = in_url(part.url)
        if data:
            part = _with_data(part, data, part.media_type or media_type)

    how = _how(part, notes)
    if not how:
        why = "is of no media type that the provider takes"
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
        typed = part.media_type or sniffed(part.data)
        source |= {"media_type": typed, "data": _in_base64(part.data, notes)}

    if part.media_type and part.media_type != typed:
        write.lose(path, "media_type", f"has no place in a source of type {how}")

    block: dict[str, Any] = {"type": kind, "source": source}
    if isinstance(part, FilePart) and part.name:
        block["title"] = part.name
    elif isinstance(part, ImagePart) and part.detail:
        write.lose(path, "detail", "the provider looks at all images alike")

    return block


def _with_data(part: MediaPart, data: bytes, media_type: str) -> MediaPart:
    if isinstance(part, FilePart):
        return FilePart(data=data, media_type=media_type, name=part.name)

    detail = part.detail if isinstance(part, ImagePart) else ""
    return ImagePart(data=data, media_type=media_type, detail=detail)


def _how(part: MediaPart, notes: Mapping[str, Any]) -> str:
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


def _in_base64(data: bytes, notes: Mapping[str, Any]) -> str:
    noted: Any = notes.get("text")
    if isinstance(noted, str) and decoded(noted) == data:
        return noted

    return encoded(data)
