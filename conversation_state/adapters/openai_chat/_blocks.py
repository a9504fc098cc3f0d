"""The blocks of a content, and the parts they are; and constants of the format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters.engine.export import (
    PayloadWriter,
    cannot_contain,
    merge_kept_keys,
    note_medium,
)
from conversation_state.adapters.engine.notes import list_of, map_of, notes_of
from conversation_state.adapters.engine.openai import (
    SLOTS,
    content_of,
    name_file,
    write_content,
)
from conversation_state.adapters.engine.reading import ObjectReader, is_list, is_map
from conversation_state.adapters.engine.streaming import as_index
from conversation_state.adapters.engine.wire import read_text_file
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
SOURCE = "openai_chat"

# The roles of the format, and ours.
ROLES = {
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "system": "system",
    "tool": "tool",
    "user": "user",
}

# No response has as many calls; behind the last one there has to be room for others.
MAX_INDEX = 2**31

# The keys next to the content under which dialects have the reasoning.
REASONING_KEYS = ("reasoning_content", "reasoning")

# The blocks that hold media; `SLOTS` has the key of their content.
_MEDIA: dict[str, type[MediaPart]] = {
    "audio_url": AudioPart,
    "document_url": FilePart,
    "file": FilePart,
    "image_url": ImagePart,
    "input_audio": AudioPart,
    "video_url": VideoPart,
}

# The keys next to the content of a block for which our parts have a field.
_WORDS = {"file": "filename", "image_url": "detail", "input_audio": "format"}

# The blocks that the format itself has, by role and kind of part; all others are a
# dialect's.
_NATURAL: dict[str, dict[str, str]] = {
    "assistant": {"text": "text", "refusal": "refusal"},
    "system": {"text": "text"},
    "tool": {"text": "text"},
    "user": {
        "audio": "input_audio",
        "file": "file",
        "image": "image_url",
        "text": "text",
    },
}


def _block_of(kind: str, data: bytes | None, role: str) -> str:
    """
    The block that the format itself has for a part of *kind* in messages of *role*, or
    "". Some take *data* only, and no url.
    """
    block = _NATURAL[role].get(kind, "")
    return "" if data is None and block in SLOTS else block


_TEXT = frozenset({"text", "type"})
_THINKING = frozenset({"signature", "thinking", "type"})


def read_content(node: ObjectReader, role: str) -> str | list[Part]:
    """
    The content of a message of *role*: a text, "" if it is missing or empty, or parts.
    """
    content = node.raw.get("content")
    if isinstance(content, str):
        return node.text("content")

    if content is not None and not is_list(content):
        node.wrong("content", "a text, a list of parts or null")

    if not content or not is_list(content):
        return ""

    parts: list[Part] = []
    alone = len(content) == 1
    for at, raw in enumerate(content):
        path = f"{node.path}.content[{at}]"
        if not is_map(raw):
            node.reading.wrong(path, raw, "an object")
        elif raw.get("type") == "text" and len(raw) == len(_TEXT):
            parts.append(TextPart(ObjectReader(node.reading, raw, path).text("text")))
        else:
            block = ObjectReader(node.reading, raw, path)
            parts.append(_read_block(block, role, alone=alone))

    return parts


def _read_block(block: ObjectReader, role: str, *, alone: bool) -> Part:
    kind = block.raw.get("type")
    part: Part | None = None
    if not isinstance(kind, str):
        block.wrong("type", "a text")
        return TextPart("")

    if kind in _MEDIA:
        part = _read_medium(block, kind, role)
    elif kind == "text" or (kind == "refusal" and role == "assistant"):
        text = block.text(kind)
        block.keep(frozenset({"type", kind}))
        # Without this note `dump` writes a refusal that is alone next to the content,
        # as is usual.
        if alone and kind == "refusal":
            block.notes["block"] = kind

        made = TextPart if kind == "text" else RefusalPart
        part = made(text, metadata=block.metadata(SOURCE))
    elif kind == "thinking" and role == "assistant":
        part = _read_thinking(block)

    if part is None:
        return UnknownPart(block.reading.json(block.raw, block.path), source=SOURCE)

    return part


def read_images(node: ObjectReader) -> list[Part]:
    """
    The images that the model made, which stand next to the content; a list of which
    not all can be read is kept as it is.

    Source:
        OpenRouter's ``images``, and LiteLLM's.
    """
    parts: list[Part] = []
    given = node.raw.get("images")
    for at, raw in enumerate(given if is_list(given) else ()):
        if not is_map(raw):
            break

        block = ObjectReader(node.reading, raw, f"{node.path}.images[{at}]")
        block.notes["key"] = {"images": True}
        is_image = raw.get("type") == "image_url"
        is_image = is_image and isinstance(map_of(raw, "image_url").get("url"), str)
        part = _read_medium(block, "image_url", "assistant") if is_image else None
        if part is None:
            break

        parts.append(part)
    else:
        if parts:
            return parts

    if "images" in node.raw:
        node.keys["images"] = node.reading.json(given, f"{node.path}.images")

    return []


def _read_thinking(block: ObjectReader) -> Part | None:
    """Mistral's thoughts, their lengths noted; None if they are more than texts."""
    pieces = block.raw.get("thinking")
    if not is_list(pieces) or not all(map(_is_plain_text, pieces)):
        return None

    texts = [
        ObjectReader(block.reading, piece, f"{block.path}.thinking[{at}]").text("text")
        for at, piece in enumerate(pieces)
    ]
    block.notes["thinking"] = [len(text) for text in texts]
    block.keep(_THINKING)
    signature = block.if_text("signature")
    return ReasoningPart("".join(texts), signature, metadata=block.metadata(SOURCE))


def _is_plain_text(piece: Any) -> bool:
    return (
        is_map(piece)
        and len(piece) == len(_TEXT)
        and piece.get("type") == "text"
        and isinstance(piece.get("text"), str)
    )


def _read_medium(block: ObjectReader, kind: str, role: str) -> Part | None:
    """
    The part for a block of a *kind* that holds media; None for a file that the
    provider stores, and for content that can't be read.
    """
    value, slot, word = block.raw.get(kind), SLOTS.get(kind, "url"), ""
    if isinstance(value, str):
        block.notes["plain"] = True
        text = block.text(kind)
    elif is_map(value) and (kind != "file" or value.get(slot) is not None):
        inside = ObjectReader(block.reading, value, f"{block.path}.{kind}")
        text = inside.text(slot)
        word = inside.optional(_WORDS[kind]) if kind in _WORDS else ""
        block.keep_within(kind, inside, frozenset({slot, _WORDS.get(kind, slot)}))
    else:
        if kind != "file" or not (is_map(value) or kind not in block.raw):
            block.wrong(kind, "an object or a text")

        return None

    content = content_of(text, kind)
    if content is None:
        return None

    fields = content._asdict()
    if kind == "document_url":
        word = block.if_text("document_name")
        block.keep(frozenset({"type", kind, "document_name"}))
    else:
        block.keep(frozenset({"type", kind}))

    made = _MEDIA[kind]
    if kind != _block_of(made.kind, content.data, role):
        block.notes["block"] = kind

    if kind == "input_audio":
        # Some dialects take nothing but a data: url (Qwen's).
        _keep_head(block, content.data, text)
        fields["media_type"] = _media_type_of(word) or content.media_type
    elif word:
        fields["detail" if made is ImagePart else "name"] = word

    note_medium(block.notes, made, content.data, fields["media_type"], content.url)
    return made(**fields, metadata=block.metadata(SOURCE))


def _keep_head(block: ObjectReader, data: bytes | None, text: str) -> None:
    if data is not None and text.startswith("data:"):
        block.notes["head"] = text[: text.index(",") + 1]


def _media_type_of(audio_format: str) -> str:
    if audio_format == "mp3":
        return "audio/mpeg"

    return audio_format and f"audio/{audio_format}"


# OpenAI's names of formats of audio, where they are not the subtype of the media type.
_FORMATS = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/vnd.wave": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}


def _name_audio_format(media_type: str) -> str:
    kind, _, subtype = media_type.partition("/")
    return _FORMATS.get(media_type) or (subtype if kind == "audio" else "")


def write_part(
    writer: PayloadWriter, part: Part, path: str, role: str
) -> dict[str, Any] | None:
    """The block that *part* is in a message of *role*; None if it is lost."""
    notes = writer.notes(part, path)
    block: dict[str, Any] | None = None
    is_said = not isinstance(part, TextPart) or part.text or notes
    if not is_said and part.metadata and writer.is_request:
        # It stands for what another format noted on it: a signature, for one.
        return None

    if isinstance(part, (RefusalPart, TextPart)):
        block = {"type": part.kind, part.kind: part.text}
    elif isinstance(part, MediaPart):
        block = _write_medium(writer, part, path, role)
    elif isinstance(part, UnknownPart):
        return writer.unknown(part.raw, part.source, path)  # type: ignore[no-any-return]
    elif isinstance(part, ReasoningPart) and _takes_thinking(writer, notes):
        block = _write_thinking(part, list_of(notes, "thinking"))
    else:
        writer.lose(
            path, part.kind, "can only be sent back in the dialect it was loaded from"
        )

    return block and merge_kept_keys(map_of(notes, "keys"), block)


def _takes_thinking(writer: PayloadWriter, notes: Mapping[str, Any]) -> bool:
    # Blocks of thinking are Mistral's; where no host is named, it may be that one.
    host = "" if writer.rules is None else writer.rules.host
    return "thinking" in notes and host in {"", "mistral"}


def _write_thinking(part: ReasoningPart, lengths: tuple[Any, ...]) -> dict[str, Any]:
    texts: list[str] = []
    start = 0
    for length in lengths:
        if isinstance(length, int) and length >= 0:
            texts.append(part.text[start : start + length])
            start += length

    # The lengths don't fit if the text was changed since it was loaded.
    if start != len(part.text):
        texts = [part.text]

    pieces = [{"type": "text", "text": text} for text in texts]
    block: dict[str, Any] = {"type": "thinking", "thinking": pieces}
    if part.signature:
        block["signature"] = part.signature

    return block


def _write_medium(
    writer: PayloadWriter, part: MediaPart, path: str, role: str
) -> dict[str, Any] | None:
    notes = notes_of(part.metadata, SOURCE)
    kind: Any = notes.get("block")
    if not isinstance(kind, str) or not isinstance(part, _MEDIA.get(kind, ())):
        kind = _block_of(part.kind, part.data, role)

    # "Image URLs are only allowed for messages with role 'user', but this message with
    # role 'assistant' contains an image URL."
    is_picky = writer.rules is not None and not writer.rules.takes_foreign_items
    if not kind or (is_picky and role == "assistant"):
        why = cannot_contain(role, part.kind)
        by_url = part.kind in _NATURAL[role]
        writer.lose(path, part.kind, f"{why} by URL" if by_url else why)
        return None

    if not writer.is_fetched(part, path, notes):
        return None

    typed = writer.with_type(part, path, notes)
    fit = None if typed is None else writer.fit_image(typed, path)
    if fit is None:
        return None

    is_sound = kind == "input_audio" and fit.data is not None
    if is_sound and is_picky and _name_audio_format(fit.media_type) not in _SOUNDS:
        # Else: Invalid value: 'webm'. Supported values are: 'wav' and 'mp3'.
        writer.lose(path, part.kind, "the host takes WAV and MP3 only")
        return None

    if kind == "file" and fit.data is not None and fit.media_type not in _FILES:
        is_kept = writer.is_as_loaded(part.metadata, "file") or not writer.is_request
        return (
            _write_typed(writer, fit, path, kind)
            if is_kept
            else _write_text_file(writer, fit, path)
        )

    return _write_typed(writer, fit, path, kind)


_FILES = ("", "application/pdf")
_SOUNDS = ("mp3", "wav")


def _write_text_file(
    writer: PayloadWriter, part: MediaPart, path: str
) -> dict[str, Any] | None:
    """
    The text of *part*, a file that is no PDF, under its name; None if it has none.

    Source:
        ``Expected a base64-encoded data URL with an application/pdf MIME type, but got
        unsupported MIME type 'text/plain'``, https://github.com/vercel/ai/issues/7266.
    """
    text = read_text_file(part.data or b"", part.media_type)
    why = "the provider takes PDFs only"
    writer.lose(path, part.kind, why if text is None else f"{why}; its text is sent")
    if text is None:
        return None

    name = getattr(part, "name", "")
    return {"type": "text", "text": f"{name}:\n{text}" if name else text}


def _write_typed(
    writer: PayloadWriter, part: MediaPart, path: str, kind: str
) -> dict[str, Any]:
    """The block of a *kind* that *part* is."""
    notes = notes_of(part.metadata, SOURCE)
    text, media_type = write_content(part, kind)
    body = {SLOTS.get(kind, "url"): text}
    if kind == "input_audio":
        head, word = notes.get("head"), _name_audio_format(part.media_type)
        if isinstance(head, str) and part.data is not None:
            body["data"], media_type = head + text, head[5:].rpartition(";")[0]

        if word and notes.get("plain") is not True:
            body["format"], media_type = word, part.media_type

    if media_type != part.media_type:
        writer.lose(path, "media_type", f"{kind} has no field for it")

    block: dict[str, Any] = {"type": kind, kind: body}
    if isinstance(part, ImagePart) and part.detail:
        body["detail"] = part.detail
    elif isinstance(part, FilePart) and part.name:
        where, key = (body, "filename") if kind == "file" else (block, "document_name")
        where[key] = part.name
    elif kind == "file" and writer.is_request and part.data is not None:
        body["filename"] = name_file(part.media_type)

    if notes.get("plain") is True and len(body) == 1:
        (block[kind],) = body.values()

    return block


def is_empty_call(raw: Mapping[str, Any]) -> bool:
    """
    Whether *raw*, an item of ``tool_calls`` or a ``function_call``, says nothing and is
    no call: it has no id, no name and no arguments.

    Source:
        Servers that write the key beside each text, ``"function_call": {}`` say.
    """
    for key, value in raw.items():
        if key == "function" and is_map(value):
            if not is_empty_call(value):
                return False
        elif not (value in (None, "", {}) or _is_of_any_call(key, value)):
            return False

    return True


def _is_of_any_call(key: str, value: Any) -> bool:
    if key == "index":
        index = as_index(value)
        return index.__class__ is int and 0 <= index < MAX_INDEX

    return key == "type" and value == "function"
