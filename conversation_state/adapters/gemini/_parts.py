"""
The parts of a content that are not calls, and the parts they are here; and what
both directions need: keys in two cases, and base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import attrs

from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters.engine.export import PayloadWriter, merge_kept_keys
from conversation_state.adapters.engine.notes import map_of, signer_of
from conversation_state.adapters.engine.reading import ObjectReader
from conversation_state.adapters.engine.wire import (
    MEDIA_CLASSES,
    decode_base64,
    encode_base64,
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

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "gemini"

_SNAKE = re.compile("_([a-z])")


def in_camel_case(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    *raw* with its keys in camel case, in which all are written again. Google's SDKs
    for Python have snake case; the API takes both.

    >>> in_camel_case({"file_uri": "gs://a", "mimeType": "image/png"})
    {'fileUri': 'gs://a', 'mimeType': 'image/png'}
    """
    # Nearly all objects are in camel case, and this runs for each of them. One search
    # takes half the time of one for each key.
    try:
        if "_" not in "".join(raw):
            return raw
    except TypeError:
        pass  # a key that is not text, which the reader refuses

    found: dict[str, Any] = {}
    for key, value in raw.items():
        name = key
        if isinstance(key, str):
            name = _SNAKE.sub(lambda found: found[1].upper(), key)

        found[key if name in raw else name] = value

    return found


@attrs.define(eq=False)
class GeminiObject(ObjectReader):
    """One JSON object while it is read, with its keys in camel case."""

    def __attrs_post_init__(self) -> None:
        self.raw = in_camel_case(self.raw)

    def body(self, key: str) -> GeminiObject:
        """The object under *key*; an empty one if it is missing or null, or wrong."""
        return self.inside(key) or GeminiObject(self.reading, {}, f"{self.path}.{key}")


# What a part may be, of which it is one.
_DATA = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "text",
)
_THOUGHT = frozenset({"text", "thought", "thoughtSignature"})
_SLOTS = {"fileData": "fileUri", "inlineData": "data"}


def kind_of(raw: Mapping[str, Any]) -> str:
    """The kind of a part: its data key; "" for no key or several."""
    found = [key for key in _DATA if raw.get(key) is not None]
    # Some servers put an empty text beside other data.
    if len(found) == 2 and raw.get("text") == "":  # noqa: PLR2004 - it and another
        found.remove("text")

    return found[0] if len(found) == 1 else ""


def simplify_content(parts: list[Part]) -> str | list[Part]:
    """*parts* as the content of a message: one plain text is not a list."""
    part = parts[0] if len(parts) == 1 else None
    if isinstance(part, TextPart) and not part.metadata and part.index is None:
        return part.text

    return parts or ""


def read_part(node: GeminiObject, role: str) -> Part:
    """The part at *node*, in a message of *role*; not a call, nor its result."""
    kind = kind_of(node.raw)
    is_thought = role == "assistant" and node.raw.get("thought") is True
    part: Part | None = None
    # A thought may be nothing but its signature.
    if is_thought and (kind == "text" or (not kind and node.raw.get("text") is None)):
        part = _read_thought(node)
    elif kind == "text":
        text = node.text("text")
        node.keep(frozenset({"text"}))
        part = TextPart(text, metadata=node.metadata(SOURCE))
    elif kind in _SLOTS:
        part = _read_media(node, kind)

    return part or node.as_unknown(SOURCE)


def _read_thought(node: GeminiObject) -> Part:
    text, signature = node.nullable("text"), node.if_text("thoughtSignature")
    if signature:
        node.notes["signed"] = True

    node.keep(_THOUGHT)
    return ReasoningPart(text, signature, metadata=node.metadata(SOURCE))


def _media_class(media_type: str) -> type[MediaPart]:
    return MEDIA_CLASSES.get(media_type.partition("/")[0].lower(), FilePart)


def _read_media(node: GeminiObject, kind: str) -> Part | None:
    """Content by value or by its address; None if that can't be read."""
    inside, slot = node.body(kind), _SLOTS[kind]
    text = inside.nullable(slot)
    fields: dict[str, Any] = {"url": text}
    if kind == "inlineData":
        fields = {"data": decode_base64(text, urlsafe=True)}
        if "-" in text or "_" in text:
            node.notes["base64"] = "urlsafe"

    if not any(fields.values()):
        node.notes.clear()
        return None

    media_type = inside.nullable("mimeType")
    made = _media_class(media_type)
    # What `write_media` writes without a media type.
    is_made_up = made is not FilePart and media_type == f"{made.kind}/*"
    fields["media_type"] = "" if is_made_up else media_type
    if fields.get("data") is not None and not fields["media_type"]:
        node.notes["untyped"] = True

    known = {slot, "mimeType"}
    if made is FilePart:
        fields["name"] = inside.if_text("displayName")
        known.add("displayName")
        if fields["name"]:
            node.notes["named"] = True

    node.keep(frozenset({kind}))
    node.keep_within(kind, inside, frozenset(known))
    return made(**fields, metadata=node.metadata(SOURCE))


def write_part(writer: PayloadWriter, part: Part, path: str) -> dict[str, Any] | None:
    """What *part* is in a content; None if it has no place there, and is lost."""
    notes = writer.notes(part, path)
    raw: dict[str, Any] | None
    if isinstance(part, (RefusalPart, TextPart)):
        raw = {"text": part.text}
        if isinstance(part, RefusalPart):
            why = "the format has no refusals; it is sent as text"
            writer.lose(path, "refusal", why)
    elif isinstance(part, MediaPart):
        raw = write_media(writer, part, path, notes)
    elif isinstance(part, ReasoningPart):
        if signer_of(part.metadata, SOURCE):
            why = "reasoning is sent only to the provider that created it"
            writer.lose(path, "reasoning", why)
            return None

        raw = {"text": part.text, "thought": True}
        if part.signature:
            raw["thoughtSignature"] = part.signature
    elif isinstance(part, UnknownPart):
        return writer.unknown(part.raw, part.source, path, "type")  # type: ignore[no-any-return]
    else:
        writer.lose(path, part.kind, "contents can't contain this kind of part")
        return None

    if raw is None:
        return None

    raw = merge_kept_keys(map_of(notes, "keys"), raw)
    # Google's own models give empty texts with a signature, and want them back.
    is_own = "thoughtSignature" in raw and notes is not EMPTY_MAP
    is_kept = is_own or writer.is_as_loaded(part.metadata, "text")
    if raw.get("text") == "" and not is_kept:
        writer.lose(path, part.kind, "an empty text is refused where Vertex AI hosts")
        return None

    return raw


def _lacks_type(
    writer: PayloadWriter, part: MediaPart, path: str, notes: Mapping[str, Any]
) -> bool:
    """Whether *part* is bytes of no known media type, which the provider refuses."""
    if part.data is None or part.media_type or notes.get("untyped") is True:
        return False

    writer.lose(path, part.kind, "data without a media type is refused")
    return True


def write_media(
    writer: PayloadWriter, part: MediaPart, path: str, notes: Mapping[str, Any]
) -> dict[str, Any] | None:
    """
    What *part* is in a content, or in what a function returned; None if it is lost.
    """
    typed = writer.with_type(part, path, notes)
    if typed is None or _lacks_type(writer, typed, path, notes):
        return None

    # By URL, without a media type, it is its kind with any subtype.
    part, media_type = typed, typed.media_type
    if not (media_type or isinstance(part, FilePart)):
        media_type = f"{part.kind}/*"

    data = part.data
    held = split_data_url(part.url or "", urlsafe=True)
    if held:
        data, media_type = held[0], part.media_type or held[1] or media_type

    if _media_class(media_type) is not type(part):
        why = f"its media type makes it another kind of media: {media_type or 'none'}"
        writer.lose(path, part.kind, why)

    inside: dict[str, Any] = {"mimeType": media_type} if media_type else {}
    if data is None:
        key, inside["fileUri"] = "fileData", part.url
    else:
        key, inside["data"] = "inlineData", encode_base64(data)
        if notes.get("base64") == "urlsafe":
            inside["data"] = base64.urlsafe_b64encode(data).decode()

    if isinstance(part, ImagePart) and part.detail:
        writer.lose(path, "detail", "images have no detail setting in this format")
    elif isinstance(part, FilePart) and part.name:
        if notes.get("named") is True:
            inside["displayName"] = part.name
        else:
            writer.lose(path, "name", "only some Google services accept file names")

    return {key: inside}
