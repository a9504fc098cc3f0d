"""
The parts of a content that are not calls, and the parts they are here; and what
both directions need: keys in two cases, and base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from conversation_state.adapters._export import PayloadWriter, merge_kept_keys
from conversation_state.adapters._notes import list_of, map_of, signer_of
from conversation_state.adapters._reading import ObjectReader, is_map
from conversation_state.adapters._wire import (
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

_CAPITAL = re.compile("[A-Z]")


def snake_case(key: str) -> str:
    """
    *key* as Google's SDKs for Python write it.

    >>> snake_case("inlineData")
    'inline_data'
    """
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)


# Each key that our model has a field for, in its other spelling.
_OTHER = {
    key: snake_case(key)
    for key in (
        "citationMetadata",
        "displayName",
        "fileData",
        "fileUri",
        "finishReason",
        "functionCall",
        "functionResponse",
        "inlineData",
        "logprobsResult",
        "mimeType",
        "modelVersion",
        "promptFeedback",
        "systemInstruction",
        "thoughtSignature",
        "usageMetadata",
    )
}


class CasedObject(ObjectReader):
    """
    One JSON object while it is read, whose keys are in camel case or, as
    Google's SDKs for Python have them, in snake case; which, is noted.
    """

    __slots__ = ()

    def key(self, name: str) -> str:
        """
        The case in which *name* stands here.
        """
        other = _OTHER.get(name, name)
        if name in self.raw or other not in self.raw:
            return name

        listed = self.notes.setdefault("snake", [])
        if other not in listed:
            listed.append(other)

        return other

    def inside(self, key: str) -> CasedObject:
        """
        The object under *key*, which is noted together with this one; an empty
        one if the key is missing.
        """
        value = self.raw.get(key)
        if not is_map(value):
            if value is not None:
                self.wrong(key, "an object")

            value = {}

        node = self.__class__(self.reading, value, f"{self.path}.{key}")
        node.notes = self.notes
        return node


def cased_key(notes: Mapping[str, Any], name: str) -> str:
    return _OTHER[name] if _OTHER[name] in list_of(notes, "snake") else name


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
_DATA_KEYS = {
    spelling: key for key in _DATA for spelling in (key, _OTHER.get(key, key))
}
_SLOTS = {"fileData": "fileUri", "inlineData": "data"}


def kind_of(raw: Mapping[str, Any]) -> str:
    """
    The kind of a part: its data key; "" for no key or several.
    """
    found = {
        _DATA_KEYS[key] for key in raw if key in _DATA_KEYS and raw[key] is not None
    }
    # Some servers put an empty text beside other data.
    if len(found) == 2 and raw.get("text") == "":  # noqa: PLR2004 - it and another
        found.remove("text")

    return found.pop() if len(found) == 1 else ""


def simplify_content(parts: list[Part]) -> str | list[Part]:
    """
    *parts* as the content of a message: one plain text is not a list.
    """
    part = parts[0] if len(parts) == 1 else None
    if isinstance(part, TextPart) and not part.metadata and part.index is None:
        return part.text

    return parts or ""


def read_part(node: CasedObject, role: str) -> Part:
    """
    The part at *node*, in a message of *role*; not a call, nor its result.
    """
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


def _read_thought(node: CasedObject) -> Part:
    text = node.optional("text")
    if "text" not in node.raw:
        node.notes["without"] = ["text"]
    elif node.keys.get("text") == "":
        del node.keys["text"]

    key = node.key("thoughtSignature")
    signature = node.if_text(key)
    if signature:
        node.notes["signed"] = True

    node.keep(frozenset({"text", "thought", key}))
    return ReasoningPart(text, signature, metadata=node.metadata(SOURCE))


def _media_class(media_type: str) -> type[MediaPart]:
    return MEDIA_CLASSES.get(media_type.partition("/")[0].lower(), FilePart)


def _encode_data(data: bytes, alphabet: object = "") -> str:
    if alphabet == "urlsafe":
        return base64.urlsafe_b64encode(data).decode()

    return encode_base64(data)


def _read_media(node: CasedObject, kind: str) -> Part | None:
    """
    Content by value or by its address; None if that can't be read.
    """
    key = node.key(kind)
    inside = node.inside(key)
    slot = inside.key(_SLOTS[kind])
    text = inside.nullable(slot)
    fields: dict[str, Any] = {"url": text}
    if kind == "inlineData":
        data = decode_base64(text, urlsafe=True)
        fields = {"data": data}
        if data and text == _encode_data(data, "urlsafe") != _encode_data(data):
            node.notes["base64"] = "urlsafe"
        elif data and text != _encode_data(data):
            node.notes["text"] = text

    if not any(fields.values()):
        # It is kept as it is, so notes on its keys would say the same again.
        node.notes.clear()
        return None

    typed, named = inside.key("mimeType"), inside.key("displayName")
    media_type = inside.optional(typed)
    made = _media_class(media_type)
    # What `write_media` writes without a media type.
    is_made_up = made is not FilePart and media_type == f"{made.kind}/*"
    fields["media_type"] = "" if is_made_up else media_type
    known = {slot, typed}
    if made is FilePart:
        name = inside.if_text(named)
        known.add(named)
        if name:
            fields["name"] = name
            node.notes["named"] = True

    node.keep(frozenset({key}))
    node.keep_within(key, inside, frozenset(known))
    return made(**fields, metadata=node.metadata(SOURCE))


def write_part(write: PayloadWriter, part: Part, path: str) -> dict[str, Any] | None:
    """
    What *part* is in a content; None if it has no place there, and is lost.
    """
    notes = write.notes(part, path)
    raw: dict[str, Any]
    if isinstance(part, (RefusalPart, TextPart)):
        raw = {"text": part.text}
        if isinstance(part, RefusalPart):
            why = "the format has no refusals; it is sent as text"
            write.lose(path, "refusal", why)
    elif isinstance(part, MediaPart):
        raw = write_media(write, part, path, notes)
    elif isinstance(part, ReasoningPart):
        raw = {"text": part.text, "thought": True}
        if not part.text and "text" in list_of(notes, "without"):
            del raw["text"]

        if part.signature and not signer_of(part.metadata, SOURCE):
            raw[cased_key(notes, "thoughtSignature")] = part.signature
        elif part.signature:
            why = "signatures are sent only to the provider that created them"
            write.lose(path, "signature", why)
    elif isinstance(part, UnknownPart):
        return write.unknown(part.raw, part.source, path, "type")  # type: ignore[no-any-return]
    else:
        write.lose(path, part.kind, "contents can't contain this kind of part")
        return None

    return merge_kept_keys(map_of(notes, "keys"), raw)


def write_media(
    write: PayloadWriter, part: MediaPart, path: str, notes: Mapping[str, Any]
) -> dict[str, Any]:
    """
    What *part* is in a content, or in what a function returned.
    """
    # Without a media type it is its kind with any subtype.
    media_type = part.media_type
    if not (media_type or isinstance(part, FilePart)):
        media_type = f"{part.kind}/*"

    data = part.data
    held = split_data_url(part.url or "", urlsafe=True)
    if held:
        data, media_type = held[0], part.media_type or held[1] or media_type

    if _media_class(media_type) is not type(part):
        why = f"its media type makes it another kind of media: {media_type or 'none'}"
        write.lose(path, part.kind, why)

    inside: dict[str, Any] = {}
    if media_type:
        inside[cased_key(notes, "mimeType")] = media_type

    if data is None:
        key = "fileData"
        inside[cased_key(notes, "fileUri")] = part.url
    else:
        key = "inlineData"
        noted: Any = notes.get("text")
        # The user may have changed the bytes since.
        known = isinstance(noted, str) and decode_base64(noted, urlsafe=True) == data
        inside["data"] = noted if known else _encode_data(data, notes.get("base64"))

    if isinstance(part, ImagePart) and part.detail:
        write.lose(path, "detail", "images have no detail setting in this format")
    elif isinstance(part, FilePart) and part.name:
        if notes.get("named") is True:
            inside[cased_key(notes, "displayName")] = part.name
        else:
            write.lose(path, "name", "only some Google services accept file names")

    return {cased_key(notes, key): inside}
