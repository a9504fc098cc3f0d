"""
The blocks that a message's content is made of.

A block is read as a part's fields and the name of its shape (`BlockShape`), and
written from these alone. Notes keep the rest: other keys of the block, or all
of it if no shape restores it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import attrs

from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.adapters.engine.export import PayloadWriter, is_empty_value
from conversation_state.adapters.engine.notes import (
    formats_of,
    has_own,
    map_of,
    notes_of,
    with_notes,
    without_empty,
)
from conversation_state.adapters.engine.reading import DocumentReader, mended
from conversation_state.adapters.engine.wire import (
    MEDIA_CLASSES,
    decode_base64,
    encode_base64,
    parse_data_url,
    url_of,
)
from conversation_state.adapters.langchain._values import (
    SIGNERS,
    SOURCE,
    decode_value,
    encode_value,
    keep_notes,
    text_or_empty,
)
from conversation_state.errors import InvalidPartError
from conversation_state.parts import (
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)

# The name of LangChain's standard shape, which is also that of parts that were not
# loaded from LangChain.
STANDARD = "standard"

# The standard's block around one of the provider's own, and blocks that only the
# standard has.
_WRAPPED = "non_standard"
_STANDARD_ONLY = frozenset(
    {"invalid_tool_call", "server_tool_call", "server_tool_result", "tool_call_chunk"}
)

# The key in the standard's `extras`, and our field for it.
_EXTRAS = {"file": ("filename", "name"), "image": ("detail", "detail")}


class BlockShape(NamedTuple):
    kind: type[Part]
    fields: dict[str, Any]
    shape: str


def _get_text(raw: Mapping[str, Any], key: str) -> str:
    return text_or_empty(raw.get(key))


def _read_source(raw: Mapping[str, Any], url: str, data: str) -> dict[str, Any] | None:
    if _get_text(raw, url):
        return {"url": raw[url]}

    octets = decode_base64(_get_text(raw, data), padded=True)
    return {"data": octets} if octets else None


def _read_typed_source(block: Mapping[str, Any], data: str) -> dict[str, Any] | None:
    found = _read_source(block, "url", data)
    return _add_fields(found, media_type=_get_text(block, "mime_type"))


def _add_fields(fields: dict[str, Any] | None, **more: str) -> dict[str, Any] | None:
    return None if fields is None else {**fields, **without_empty(more)}


def _read_url(url: str) -> dict[str, Any] | None:
    inline = parse_data_url(url)
    if inline is not None:
        return {"data": inline[0], "media_type": inline[1]}

    return {"url": url} if url else None


def media_shape(block: Mapping[str, Any]) -> BlockShape | None:
    """The shape of *block*; None if it has neither a URL nor data."""
    kind = block.get("type")
    found: dict[str, Any] | None = None
    shape, of = STANDARD, kind
    if kind == "image_url":
        of, shape, found = _read_image_url(block)
    elif kind == "input_audio":
        of, shape = "audio", "input_audio"
        found = _read_audio(map_of(block, "input_audio"))
    # Blocks of Anthropic, older ones of LangChain and standard ones have the same
    # types. The keys "source" and "source_type" distinguish them.
    elif kind in ("image", "document") and "source" in block:
        of, shape = "image" if kind == "image" else "file", "source"
        source = map_of(block, "source")
        media_type = _get_text(source, "media_type")
        found = _add_fields(_read_source(source, "url", "data"), media_type=media_type)
    elif kind in MEDIA_CLASSES and "source_type" in block:
        shape = "before 1"
        found = _read_typed_source(block, "data")
    elif kind == "file" and "file" in block:
        shape, file = "file", map_of(block, "file")
        content = _read_url(_get_text(file, "file_data"))
        found = _add_fields(content, name=_get_text(file, "filename"))
    elif kind in MEDIA_CLASSES:
        found = _read_typed_source(block, "base64")
        theirs, ours = _EXTRAS.get(str(kind), ("", ""))
        if ours:
            more = {ours: _get_text(map_of(block, "extras"), theirs)}
            found = _add_fields(found, **more)

    return None if found is None else BlockShape(MEDIA_CLASSES[str(of)], found, shape)


def _read_image_url(block: Mapping[str, Any]) -> tuple[str, str, dict[str, Any] | None]:
    if _get_text(block, "image_url"):
        return "image", "image_url text", _read_url(block["image_url"])

    inside = map_of(block, "image_url")
    content = _read_url(_get_text(inside, "url"))
    found = _add_fields(content, detail=_get_text(inside, "detail"))
    return "image", "image_url", found


def _read_audio(inside: Mapping[str, Any]) -> dict[str, Any] | None:
    octets = decode_base64(_get_text(inside, "data"), padded=True)
    kind = _get_text(inside, "format")
    return {"data": octets, "media_type": f"audio/{kind}"} if octets and kind else None


def _encode_data(part: MediaPart) -> str:
    return encode_base64(part.data or b"")


def _write_typed_source(part: MediaPart, data: str) -> dict[str, Any]:
    content = {"url": part.url} if part.url else {data: _encode_data(part)}
    return content | without_empty({"mime_type": part.media_type})


def _write_standard(part: MediaPart) -> dict[str, Any]:
    block = {"type": part.kind, **_write_typed_source(part, "base64")}
    theirs, ours = _EXTRAS.get(part.kind, ("", ""))
    if ours and getattr(part, ours):
        block["extras"] = {theirs: getattr(part, ours)}

    return block


def _write_source(part: MediaPart) -> dict[str, Any]:
    source: dict[str, Any] = {"type": "url", "url": part.url}
    if part.url is None:
        source = {"type": "base64", "data": _encode_data(part)}
        if part.media_type:
            source["media_type"] = part.media_type

    return {"type": "image" if part.kind == "image" else "document", "source": source}


_WRITERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    STANDARD: _write_standard,
    "before 1": lambda part: {
        "type": part.kind,
        "source_type": "url" if part.url else "base64",
        **_write_typed_source(part, "data"),
    },
    "file": lambda part: {
        "type": "file",
        "file": without_empty(
            {"file_data": url_of(part), "filename": getattr(part, "name", "")}
        ),
    },
    "image_url": lambda part: {
        "type": "image_url",
        "image_url": without_empty(
            {"url": url_of(part), "detail": getattr(part, "detail", "")}
        ),
    },
    "image_url text": lambda part: {"type": "image_url", "image_url": url_of(part)},
    "input_audio": lambda part: {
        "type": "input_audio",
        "input_audio": {
            "data": _encode_data(part),
            "format": part.media_type.removeprefix("audio/"),
        },
    },
    "source": _write_source,
}


# *part* as a block of *shape*; of the standard shape if *shape* is unknown.
def write_media(part: MediaPart, shape: str) -> dict[str, Any]:
    writer = _WRITERS.get(shape, _WRITERS[STANDARD])
    return writer(part)


# The key of the text, by the type of the block.
_TEXTS = {
    "reasoning": "reasoning",
    "refusal": "refusal",
    "text": "text",
    "thinking": "thinking",
}
_SHAPES: Mapping[type[Part], str] = {
    ReasoningPart: "reasoning",
    RefusalPart: "refusal",
    TextPart: "text",
}


def extra_keys(
    raw: Mapping[str, Any], base: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The keys of *raw* that *base* lacks; None if it lacks some of *base*."""
    rest = {key: value for key, value in raw.items() if key not in base}
    for key, value in base.items():
        if key not in raw:
            return None

        actual = raw[key]
        if isinstance(value, dict) and isinstance(actual, dict):
            inside = extra_keys(actual, value)
            if inside is None:
                return None

            if inside:
                rest[key] = inside
        # The classes are compared, too: True, 1 and 1.0 are equal in Python, but
        # differ in JSON.
        elif actual != value or actual.__class__ is not value.__class__:
            return None

    return rest


# *base* with the *keys* that it lacks, or has empty.
def merge_keys(base: dict[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in keys.items():
        if key not in base or is_empty_value(base[key]):
            base[key] = value
        elif isinstance(base[key], dict) and isinstance(value, Mapping):
            merge_keys(base[key], value)

    return base


# *notes* as plain dicts and lists, as they were made.
def thaw_notes(notes: Mapping[str, Any]) -> dict[str, Any]:
    if notes is EMPTY_MAP:
        return {}

    thaw_value = decode_value if notes.get("odd") else _thaw_value
    found: dict[str, Any] = thaw_value(notes)
    return found


# Looking up the class takes half of the time of `thaw`, which checks whether each text
# is a mapping.
_SCALARS = frozenset({bool, float, int, str, type(None)})


def _thaw_value(value: Any) -> Any:
    kind = value.__class__
    if kind in _SCALARS:
        return value

    if kind is tuple:
        return [_thaw_value(item) for item in value]

    return {key: _thaw_value(inside) for key, inside in value.items()}


# The shape of *block* in a message of *role*; None if it is unknown there.
def _match_shape(block: Mapping[str, Any], role: str) -> BlockShape | None:
    kind = block.get("type")
    if not isinstance(kind, str):
        return None

    if kind == "text":
        text = block.get("text")
        is_text = isinstance(text, str)
        return BlockShape(TextPart, {"text": text}, "text") if is_text else None

    if role == "assistant":
        found = _match_reasoning(block, kind)
        if found is not None:
            return found

    return media_shape(block) if role != "system" else None


def _match_reasoning(block: Mapping[str, Any], kind: str) -> BlockShape | None:
    text: Any = block.get(_TEXTS.get(kind, ""))
    if kind == "refusal" and isinstance(text, str):
        return BlockShape(RefusalPart, {"text": text}, kind)

    if kind == "thinking" and isinstance(text, str):
        return _reasoning_shape(text, block.get("signature"), kind)

    if kind == "redacted_thinking" and isinstance(block.get("data"), str):
        return _reasoning_shape("", block["data"], kind)

    if kind == "reasoning_content" and isinstance(block.get(kind), dict):
        inside = block[kind]
        text = text_or_empty(inside.get("text"))
        return _reasoning_shape(text, inside.get("signature"), kind)

    if kind == "reasoning":
        if not isinstance(text, str):
            text = _join_summary(block.get("summary"))

        extras = block.get("extras")
        signature = extras.get("signature") if isinstance(extras, dict) else None
        return _reasoning_shape(text, signature, kind)

    return None


def _reasoning_shape(text: str, signature: Any, shape: str) -> BlockShape:
    fields = {"text": text}
    if isinstance(signature, str) and signature:
        fields["signature"] = signature

    return BlockShape(ReasoningPart, fields, shape)


def _join_summary(summary: Any) -> str:
    items = summary if isinstance(summary, list) else []
    texts = [item.get("text") for item in items if isinstance(item, dict)]
    return "\n\n".join([text for text in texts if isinstance(text, str)])


def _write_shape(part: Any, shape: str) -> Any:
    if isinstance(part, MediaPart):
        return write_media(part, shape)

    if isinstance(part, ReasoningPart):
        return _write_reasoning_shape(part, shape)

    if isinstance(part, RefusalPart):
        return {"type": "refusal", "refusal": part.text}

    return part.text if shape == "str" else {"type": "text", "text": part.text}


def _write_reasoning_shape(part: ReasoningPart, shape: str) -> dict[str, Any]:
    text, signature = part.text, part.signature
    signed = {"signature": signature} if signature else {}
    if shape == "redacted_thinking":
        return {"type": shape, "data": signature}

    if shape == "thinking":
        return {"type": shape, "thinking": text, **signed}

    if shape == "reasoning_content":
        return {"type": shape, shape: {**({"text": text} if text else {}), **signed}}

    block = {"type": "reasoning", "reasoning": text}
    return {**block, "extras": signed} if signed else block


def read_block(
    reader: DocumentReader, source: Any, path: str, role: str, provider: str
) -> Part | None:
    """
    The part for *source*, a block or a text at *path*; None if there was a
    problem. *provider* is that of the response.
    """
    if isinstance(source, str):
        text = mended_text(reader, source, path)
        return TextPart(text, metadata=with_notes(SOURCE, {"shape": "str"}))

    if not isinstance(source, dict):
        reader.wrong(path, source, "a text or a dict")
        return None

    # The text is mended first, because a part refuses one that is not valid Unicode.
    kind, block = source.get("type"), source
    key = _TEXTS.get(kind) if isinstance(kind, str) else None
    if key and isinstance(source.get(key), str):
        text = mended_text(reader, source[key], f"{path}.{key}")
        if key == "text" and len(source) == 2:  # noqa: PLR2004 - as most blocks have
            return TextPart(text)

        block = {**source, key: text}

    try:
        found = _match_shape(block, role)
        part = None if found is None else found.kind(**found.fields)
    except InvalidPartError:
        # The content is not valid, such as the URL of an image; the block is kept as
        # an unknown part.
        found = part = None

    if found is None or part is None:
        return _keep_unknown_block(reader, block, path, provider)

    return _add_notes(reader, block, found, part, provider, path=path)


def _add_notes(
    reader: DocumentReader,
    block: dict[str, Any],
    found: BlockShape,
    part: Part,
    provider: str,
    *,
    path: str,
) -> Part:
    notes: dict[str, Any] = {}
    rest = extra_keys(block, _write_shape(part, found.shape))
    if found.shape != _SHAPES.get(found.kind, STANDARD):
        notes["shape"] = found.shape

    if rest is None:
        notes = {"raw": block}
    elif rest:
        notes["keys"] = rest

    signer = _signer_notes(part, found.shape, provider)
    if signer:
        notes |= {"signed": True, "shape": found.shape}

    if not notes:
        return part

    make = partial(found.kind, **found.fields)
    return keep_notes(make, reader, notes, path, signer)


def mended_text(reader: DocumentReader, text: str, path: str) -> str:
    if text.__class__ is str and text.isascii():
        return text

    valid = mended(text)
    if valid is not text:
        reader.mended.append(path)

    return valid


# Notes for other adapters on the signer of *part*; {} if it is not signed.
def _signer_notes(part: Part, shape: str, provider: str) -> dict[str, Any]:
    if not getattr(part, "signature", ""):
        return {}

    own = "anthropic" if shape in {"thinking", "redacted_thinking"} else SOURCE
    name = SIGNERS.get(provider, own)
    redacted = {"redacted": True} if shape == "redacted_thinking" else {}
    return {name: {"signed": True, **redacted}}


def _keep_unknown_block(
    reader: DocumentReader, block: dict[str, Any], path: str, provider: str
) -> Part:
    source, raw = SOURCE, block
    metadata: Any = EMPTY_MAP
    if (
        provider == "anthropic"
        and "index" not in block
        and block.get("type") not in _STANDARD_ONLY
    ):
        # A block without an index was not streamed: it is as Anthropic sent it, so
        # the adapter for Anthropic can send it back.
        shape = "block"
        if block.get("type") == _WRAPPED and block.keys() == {"type", "value"}:
            shape, raw = _WRAPPED, block["value"]

        source, metadata = provider, with_notes(SOURCE, {"shape": shape})

    try:
        return UnknownPart(raw, source=source, metadata=metadata)
    except InvalidPartError:
        raw = {"block": encode_value(reader, block, path)}
        metadata = with_notes(SOURCE, {"odd": True})
        return UnknownPart(raw, source=SOURCE, metadata=metadata)


# *part* as a block; None if LangChain does not support it.
def write_block(writer: PayloadWriter, part: Part, path: str) -> Any:
    noted = writer.notes(part, path)
    if isinstance(part, UnknownPart):
        if noted.get("odd"):
            return decode_value(map_of(part.raw, "block"))

        if noted.get("shape") == "block":
            return thaw(part.raw)

        if noted.get("shape") == _WRAPPED:
            return {"type": _WRAPPED, "value": thaw(part.raw)}

        return writer.unknown(part.raw, part.source, path)

    notes = thaw_notes(noted)
    if has_own(part.metadata):
        writer.lose(path, "metadata", "a block has no place for it")

    # The kept block is used only if it still has the content of the part, which a
    # user may have changed.
    raw = notes.get("raw")
    if isinstance(raw, dict) and _matches_part(raw, part):
        return raw

    if isinstance(part, ReasoningPart):
        part = _check_signature(writer, part, path)

    block = _write_shape(part, _choose_shape(part, notes))
    return (
        merge_keys(block, map_of(notes, "keys")) if isinstance(block, dict) else block
    )


def _matches_part(raw: dict[str, Any], part: Part) -> bool:
    # The role is not known here; in an assistant's message every shape is known.
    found = _match_shape(raw, "assistant")
    if found is None or found.kind is not type(part):
        return False

    plain: Any = {"metadata": EMPTY_MAP, "index": None, "unknown": EMPTY_MAP}
    bare: Any = attrs.evolve(part, **plain)
    return bool(bare == found.kind(**found.fields))


def _check_signature(
    writer: PayloadWriter, part: ReasoningPart, path: str
) -> ReasoningPart:
    """
    *part* without its signature, unless that may be sent: if it was loaded from
    LangChain, if LangChain has a block of its signer, or if the signer is unknown.
    """
    known = formats_of(part.metadata)
    if not part.signature or not known or {SOURCE, "anthropic"}.intersection(known):
        return part

    why = f"is {known[0]}'s own, without a block in LangChain"
    writer.lose(path, "signature", why)
    return attrs.evolve(part, signature="")


def _choose_shape(part: Part, notes: Mapping[str, Any]) -> str:
    shape = notes.get("shape")
    if isinstance(shape, str):
        return shape

    if isinstance(part, MediaPart):
        return STANDARD

    if isinstance(part, ReasoningPart) and "anthropic" in formats_of(part.metadata):
        redacted = notes_of(part.metadata, "anthropic").get("redacted") is True
        return "redacted_thinking" if redacted else "thinking"

    return _SHAPES[type(part)]
