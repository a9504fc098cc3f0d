"""
The parts in eino's lists, and ours; and the constants of the format, in the order it
writes them, with their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state.adapters._export import (
    PayloadWriter,
    cannot_contain,
    is_plain,
    merge_kept_keys,
    ordered,
    whose,
)
from conversation_state.adapters._notes import (
    list_of,
    map_of,
    notes_of,
    signer_of,
    write_extra,
)
from conversation_state.adapters._reading import ObjectReader, read_extra
from conversation_state.adapters._wire import decode_base64, encode_base64
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

# Keys as Go writes them: in the order of the structs' fields.
MESSAGE = (
    "role",
    "content",
    OLD,
    _INPUT,
    _OUTPUT,
    "name",
    "tool_calls",
    "tool_call_id",
    "tool_name",
    "response_meta",
    REASONING,
    "extra",
)
CALL = ("index", "id", "type", "function", "extra")
_PART = (
    "type",
    "text",
    "image",
    "audio",
    "video",
    "file",
    "reasoning",
    "tool_search_result",
    "extra",
)
_MEDIUM = ("url", "base64data", "mime_type", "extra", "detail", "name")

# The types of parts that hold media, and the field each is in; in the older
# list the field has the name of the type.
_MEDIA: Mapping[str, tuple[str, type[MediaPart]]] = {
    "image_url": ("image", ImagePart),
    "audio_url": ("audio", AudioPart),
    "video_url": ("video", VideoPart),
    "file_url": ("file", FilePart),
}

# What else our parts have a field for: a key next to the content.
_BESIDE: Mapping[str, str] = {"file_url": "name", "image_url": "detail"}

# The kinds of media that each list has a field for: models answer with no files.
_HELD: Mapping[str, frozenset[str]] = {
    _INPUT: frozenset({"audio", "file", "image", "video"}),
    OLD: frozenset({"audio", "file", "image", "video"}),
    _OUTPUT: frozenset({"audio", "image", "video"}),
}


def as_text(parts: Iterable[Part]) -> tuple[str, str] | None:
    """
    The thoughts and the text that *parts* are if they need no list; else None.
    """
    rest = [*parts]
    thoughts = text = ""
    if rest and isinstance(rest[0], ReasoningPart) and _needs_no_list(rest[0]):
        thoughts = rest.pop(0).text  # type: ignore[attr-defined]  # as just asked

    if rest and isinstance(rest[0], TextPart) and _needs_no_list(rest[0]):
        text = rest.pop(0).text  # type: ignore[attr-defined]  # likewise

    return None if rest else (thoughts, text)


def _needs_no_list(part: Any) -> bool:
    # An empty text would not be a part again, and what has metadata or notes has no
    # place for them outside of a list.
    return (
        bool(part.text)
        and not getattr(part, "signature", "")
        and is_plain(part)
        and not notes_of(part.metadata, SOURCE)
    )


_TEXT = frozenset({"extra", "text", "type"})
_REASONING = frozenset({"extra", "reasoning", "type"})
_THOUGHTS = frozenset({"signature", "text"})
_OLD_MEDIUM = ("url", "uri", "detail", "mime_type", "name", "extra")
_FIELDS = {kind: field for kind, (field, _) in _MEDIA.items()}
_TYPES: Mapping[type[MediaPart], str] = {
    part: kind for kind, (_, part) in _MEDIA.items()
}


def read_parts(node: ObjectReader, key: str) -> list[Part]:
    parts: list[Part] = []
    for part in node.objects(key):
        kind = part.text("type")
        found: Part | None = None
        if kind == "text":
            part.keep(_TEXT)
            extra = read_extra(part, "extra")
            text = part.optional("text")
            found = TextPart(text, metadata=part.metadata(SOURCE, extra))
        elif kind == "reasoning" and key == _OUTPUT:
            found = _read_reasoning(part)
        elif kind in _MEDIA and _MEDIA[kind][1].kind in _HELD[key]:
            found = _read_medium(part, kind, key)

        parts.append(found or part.as_unknown(SOURCE))

    return parts


def _read_reasoning(part: ObjectReader) -> Part | None:
    inside = part.inside("reasoning")
    part.keep(_REASONING)
    text = signature = ""
    if inside is None:
        part.notes["without"] = ["reasoning"]
    else:
        text, signature = inside.optional("text"), inside.optional("signature")
        part.keep_within("reasoning", inside, _THOUGHTS)

    if signature:
        part.notes["signed"] = True

    extra = read_extra(part, "extra")
    metadata = part.metadata(SOURCE, extra)
    return ReasoningPart(text, signature, metadata=metadata)


def _read_medium(part: ObjectReader, kind: str, key: str) -> Part | None:
    """
    A part that holds media; None if there is nothing in it that can be read.
    """
    field, made = _MEDIA[kind]
    inside = part.inside(field)
    if inside is None:
        return None

    content: dict[str, Any] = {}
    # Pointers in Go, so "" is not the same as nothing.
    url, text = inside.optional("url"), inside.optional("base64data")
    data = decode_base64(text, padded=True)
    # A part has one of them. Bytes next to a URL are kept, and written back with it.
    if url:
        content["url"] = url
        if text:
            inside.keys["base64data"] = text
    elif data:
        content["data"] = data
        if encode_base64(data) != text:
            part.notes["base64data"] = text
    else:
        return None

    content["media_type"] = inside.optional("mime_type")
    known = {"base64data", "mime_type", "url"}
    word = _BESIDE.get(kind) if key == _INPUT else None
    if word:
        content[word] = inside.optional(word)
        known.add(word)

    part.keep(frozenset({"extra", "type", field}))
    part.keep_within(field, inside, frozenset(known))
    extra = read_extra(part, "extra")
    return made(**content, metadata=part.metadata(SOURCE, extra))


def read_old_parts(node: ObjectReader, key: str) -> list[Part]:
    parts: list[Part] = []
    for part in node.objects(key):
        # Left out where it is empty, even this.
        kind = part.nullable("type")
        found: Part | None = None
        if kind == "text":
            part.keep(frozenset({"text", "type"}))
            text = part.optional("text")
            found = TextPart(text, metadata=part.metadata(SOURCE))
        elif kind in _MEDIA:
            found = _read_old_medium(part, kind)

        parts.append(found or part.as_unknown(SOURCE))

    return parts


def _read_old_medium(part: ObjectReader, kind: str) -> Part | None:
    inside = part.inside(kind)
    if inside is None:
        return None

    url, uri = inside.optional("url"), inside.optional("uri")
    if url and uri:
        inside.keys["uri"] = uri
    elif uri:
        part.notes["slot"] = "uri"
    elif not url:
        return None

    fields = {"url": url or uri, "media_type": inside.optional("mime_type")}
    word = _BESIDE.get(kind)
    if word:
        fields[word] = inside.optional(word)

    # The extra is the medium's here, not the part's: its notes are moved to the part.
    extra = read_extra(inside, "extra")
    part.keep(frozenset({"type", kind}))
    known = frozenset({"extra", "mime_type", "uri", "url", word or "url"})
    part.keep_within(kind, inside, known)
    part.notes.update(inside.notes)
    made: Any = _MEDIA[kind][1]
    return made(**fields, metadata=part.metadata(SOURCE, extra))  # type: ignore[no-any-return]


def can_be_old(part: Part) -> bool:
    # It has no place for bytes, nor for the metadata of a text.
    if isinstance(part, MediaPart):
        return part.url is not None

    if isinstance(part, UnknownPart):
        return part.source == SOURCE

    return isinstance(part, TextPart) and is_plain(part)


def write_part(write: PayloadWriter, part: Part, path: str, key: str) -> Any:
    """
    *part* as it stands in the list under *key*; None if it can't, and is lost.
    """
    notes = write.notes(part, path)
    if part.index is not None:
        write.lose(path, "index", "eino doesn't save positions")

    raw: dict[str, Any] | None
    if isinstance(part, UnknownPart):
        raw = write.unknown(part.raw, part.source, path, "type")
        return raw and in_order(raw, key)

    if isinstance(part, MediaPart):
        raw = _write_medium(write, part, path, key)
    elif isinstance(part, ReasoningPart):
        raw = _write_reasoning(write, part, path, notes)
    else:
        raw = _write_text(write, part, path)

    if raw is None:
        return None

    # Parts of the older list have no extra; that of a medium is inside of it.
    extra = {} if key == OLD else write_extra(part.metadata, notes, "extra")
    if extra:
        raw["extra"] = extra

    return in_order(merge_kept_keys(map_of(notes, "keys"), raw), key)


def in_order(whole: dict[str, Any], key: str) -> dict[str, Any]:
    """
    *whole*, a part in the list under *key*, in the order eino has.
    """
    for field in {*_FIELDS, *_FIELDS.values()} & whole.keys():
        if isinstance(whole[field], dict):
            order = _OLD_MEDIUM if key == OLD else _MEDIUM
            whole[field] = ordered(whole[field], order)

    return ordered(whole, _PART)


def _write_text(write: PayloadWriter, part: Part, path: str) -> dict[str, Any]:
    if isinstance(part, RefusalPart):
        write.lose(path, "refusal", "the format has no refusals; it is sent as text")

    text = getattr(part, "text", "")
    return {"type": "text", "text": text} if text else {"type": "text"}


def _write_reasoning(
    write: PayloadWriter, part: ReasoningPart, path: str, notes: Mapping[str, Any]
) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if part.text:
        body["text"] = part.text

    # eino may send it to any provider, so only its own are written.
    signer = signer_of(part.metadata, SOURCE)
    if part.signature and signer:
        write.lose(path, "signature", whose(signer))
    elif part.signature:
        body["signature"] = part.signature

    if not body and "reasoning" in list_of(notes, "without"):
        return {"type": "reasoning"}

    return {"type": "reasoning", "reasoning": body}


def _write_medium(
    write: PayloadWriter, part: MediaPart, path: str, key: str
) -> dict[str, Any] | None:
    if part.kind not in _HELD[key]:
        write.lose(path, part.kind, cannot_contain("assistant", part.kind))
        return None

    kind = _TYPES[type(part)]
    word = _BESIDE.get(kind)
    beside = getattr(part, word) if word else ""
    body = _make_old_media_body(part) if key == OLD else _make_media_body(part)
    if word and beside and key == _OUTPUT:
        write.lose_each(path, {word: True}, "only user messages have it in eino")
    elif word and beside:
        body[word] = beside

    return {"type": kind, kind if key == OLD else _FIELDS[kind]: body}


def _make_media_body(part: MediaPart) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if part.data is None:
        body["url"] = part.url
    else:
        noted = notes_of(part.metadata, SOURCE).get("base64data")
        body["base64data"] = encode_base64(part.data, noted, padded=True)

    if part.media_type:
        body["mime_type"] = part.media_type

    return body


def _make_old_media_body(part: MediaPart) -> dict[str, Any]:
    notes = notes_of(part.metadata, SOURCE)
    slot = "uri" if notes.get("slot") == "uri" else "url"
    body: dict[str, Any] = {slot: part.url}
    if part.media_type:
        body["mime_type"] = part.media_type

    extra = write_extra(part.metadata, notes, "extra")
    return {**body, "extra": extra} if extra else body
