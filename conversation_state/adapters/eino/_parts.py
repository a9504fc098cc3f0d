"""The parts in eino's lists, and ours; and the names of these lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters.engine.export import (
    PayloadWriter,
    cannot_contain,
    merge_kept_keys,
    whose,
)
from conversation_state.adapters.engine.notes import (
    map_of,
    signer_of,
    write_extra,
)
from conversation_state.adapters.engine.reading import ObjectReader, read_extra
from conversation_state.adapters.engine.wire import decode_base64, encode_base64
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "eino"

REASONING = "reasoning_content"
# The list that eino had before the others, which is read, and not written.
OLD = "multi_content"
_INPUT = "user_input_multi_content"
# What Go calls AssistantGenMultiContent.
_OUTPUT = "assistant_output_multi_content"
LISTS: Mapping[str, str] = {
    "assistant": _OUTPUT,
    "system": _INPUT,
    "tool": _INPUT,
    "user": _INPUT,
}

# The types of parts that hold media, and the field each is in; in the older
# list the field has the name of the type.
_MEDIA: Mapping[str, tuple[str, type[MediaPart]]] = {
    "image_url": ("image", ImagePart),
    "audio_url": ("audio", AudioPart),
    "video_url": ("video", VideoPart),
    "file_url": ("file", FilePart),
}
_TYPES: Mapping[type[MediaPart], str] = {
    part: kind for kind, (_, part) in _MEDIA.items()
}
# What else our parts have a field for: a key next to the content, of input only.
_BESIDE: Mapping[str, str] = {"file_url": "name", "image_url": "detail"}
_TEXT = frozenset({"extra", "text", "type"})
_REASONING = frozenset({"extra", "reasoning", "type"})
_THOUGHTS = frozenset({"signature", "text"})


def read_parts(node: ObjectReader, key: str, role: str) -> list[Part]:
    """The parts in the list under *key* of a message of *role*."""
    is_input = LISTS[role] == _INPUT
    parts: list[Part] = []
    for part in node.optional_objects(key, "a list or null"):
        # In the older list it is left out where it is empty.
        kind = part.nullable("type") if key == OLD else part.text("type")
        field, made = _MEDIA.get(kind, ("", FilePart))
        found: Part | None = None
        if kind == "text":
            part.keep(_TEXT)
            text, extra = part.nullable("text"), read_extra(part, "extra")
            found = TextPart(text, metadata=part.metadata(SOURCE, extra))
        elif kind == "reasoning" and key == _OUTPUT:
            found = _read_reasoning(part)
        # Models answer with no files.
        elif kind in _MEDIA and (is_input or made is not FilePart):
            field = kind if key == OLD else field
            word = _BESIDE.get(kind, "") if is_input else ""
            found = _read_medium(part, field, word, made)

        parts.append(found or part.as_unknown(SOURCE))

    return parts


def _read_reasoning(part: ObjectReader) -> Part:
    part.keep(_REASONING)
    text = signature = ""
    inside = part.inside("reasoning")
    if inside is not None:
        text, signature = inside.nullable("text"), inside.nullable("signature")
        part.keep_within("reasoning", inside, _THOUGHTS)

    if signature:
        part.notes["signed"] = True

    metadata = part.metadata(SOURCE, read_extra(part, "extra"))
    return ReasoningPart(text, signature, metadata=metadata)


def _read_medium(
    part: ObjectReader, field: str, word: str, made: Any
) -> MediaPart | None:
    """
    A part that holds media, under *field*, and perhaps a *word* about them; None if
    there is nothing in it that can be read.
    """
    inside = part.inside(field)
    if inside is None:
        return None

    url, uri = inside.nullable("url"), inside.nullable("uri")
    text = inside.nullable("base64data")
    data = decode_base64(text)
    # A part has one of them. What is next to it is kept, and written back with it.
    fields: dict[str, Any] = {"url": url or uri} if url or uri else {"data": data}
    if not any(fields.values()):
        return None

    beside = {"uri": uri if url else "", "base64data": text if "url" in fields else ""}
    inside.keys.update({key: value for key, value in beside.items() if value})
    fields["media_type"] = inside.nullable("mime_type")
    known = {"base64data", "mime_type", "uri", "url"}
    if word:
        fields[word] = inside.nullable(word)
        known.add(word)

    # In the older list the medium has it, and may have it in the newer ones.
    holder = inside if "extra" in inside.raw and "extra" not in part.raw else part
    extra = read_extra(holder, "extra")
    if holder is inside:
        part.notes |= inside.notes
        known.add("extra")

    part.keep(frozenset({"extra", "type", field}))
    part.keep_within(field, inside, frozenset(known))
    return made(**fields, metadata=part.metadata(SOURCE, extra))  # type: ignore[no-any-return]


def write_part(writer: PayloadWriter, part: Part, path: str, role: str) -> Any:
    """
    *part* as it stands in the list of a message of *role*; None if it can't, and is
    lost.
    """
    notes = writer.notes(part, path)
    if part.index is not None:
        writer.lose(path, "index", "eino doesn't save positions")

    raw: dict[str, Any] | None
    if isinstance(part, UnknownPart):
        return writer.unknown(part.raw, part.source, path, "type")

    if isinstance(part, MediaPart):
        raw = _write_medium(writer, part, path, role)
    elif isinstance(part, ReasoningPart):
        raw = _write_reasoning(writer, part, path)
    else:
        raw = _write_text(writer, part, path)

    if raw is None:
        return None

    extra = write_extra(part.metadata, notes, "extra")
    if extra:
        raw["extra"] = extra

    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_text(writer: PayloadWriter, part: Part, path: str) -> dict[str, Any]:
    if isinstance(part, RefusalPart):
        writer.lose(path, "refusal", "the format has no refusals; it is sent as text")

    text = getattr(part, "text", "")
    return {"type": "text", "text": text} if text else {"type": "text"}


def _write_reasoning(
    writer: PayloadWriter, part: ReasoningPart, path: str
) -> dict[str, Any]:
    body = {"text": part.text} if part.text else {}
    # eino may send it to any provider, so only its own are written.
    signer = signer_of(part.metadata, SOURCE)
    if part.signature and signer:
        writer.lose(path, "signature", whose(signer))
    elif part.signature:
        body["signature"] = part.signature

    return {"type": "reasoning", "reasoning": body}


def _write_medium(
    writer: PayloadWriter, part: MediaPart, path: str, role: str
) -> dict[str, Any] | None:
    is_input = LISTS[role] == _INPUT
    if isinstance(part, FilePart) and not is_input:
        writer.lose(path, part.kind, cannot_contain(role, part.kind))
        return None

    kind = _TYPES[type(part)]
    word = _BESIDE.get(kind, "")
    beside = getattr(part, word) if word else ""
    body: dict[str, Any] = {"url": part.url}
    if part.data is not None:
        body = {"base64data": encode_base64(part.data)}

    if part.media_type:
        body["mime_type"] = part.media_type

    if beside and is_input:
        body[word] = beside
    elif beside:
        writer.lose(path, word, "only user messages have it in eino")

    return {"type": kind, _MEDIA[kind][0]: body}
