"""
The blocks that a message's content is made of.

A block is read as what it says (`Shape`), and written from that and the shape
alone. Where that is not all of the block, notes say the rest: what it has
beside, or how it looked altogether if no shape is like it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.adapters._export import (
    PROVIDERS,
    Writing,
    map_of,
    notes_of,
    says_nothing,
)
from conversation_state.adapters._langchain._json import given_back, keep
from conversation_state.adapters._langchain._media import (
    OWN,
    Shape,
    media_shape,
    write_media,
)
from conversation_state.adapters._langchain._words import SIGNERS, SOURCE
from conversation_state.adapters._reading import Reading, mended
from conversation_state.errors import InvalidPartError
from conversation_state.parts import (
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)

__all__ = ["beyond", "mended_text", "over", "read_block", "thawed", "write_block"]

# Where each block has its text.
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


def beyond(raw: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any] | None:
    """
    What *raw* has beside all that *base* has; None if it has not all of it.
    """
    rest = {key: value for key, value in raw.items() if key not in base}
    for key, value in base.items():
        if key not in raw:
            return None

        given = raw[key]
        if isinstance(value, dict) and isinstance(given, dict):
            inside = beyond(given, value)
            if inside is None:
                return None

            if inside:
                rest[key] = inside
        elif given != value or given.__class__ is not value.__class__:
            return None

    return rest


def over(base: dict[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """
    *base* with the *keys* it has not, or says nothing with.
    """
    for key, value in keys.items():
        if key not in base or says_nothing(base[key]):
            base[key] = value
        elif isinstance(base[key], dict) and isinstance(value, Mapping):
            over(base[key], value)

    return base


def thawed(notes: Mapping[str, Any]) -> dict[str, Any]:
    """
    *notes* as they were when they were taken.
    """
    if notes is EMPTY_MAP:
        return {}

    found: dict[str, Any] = given_back(notes) if notes.get("odd") else _thawed(notes)
    return found


# What most notes are made of: to ask for these first halves the time.
_SCALARS = frozenset({bool, float, int, str, type(None)})


def _thawed(value: Any) -> Any:
    # As `thaw`, but each map is gone through once.
    kind = value.__class__
    if kind in _SCALARS:
        return value

    if kind is tuple:
        return [_thawed(item) for item in value]

    return {key: _thawed(inside) for key, inside in sorted(value.items())}


def _shape(block: Mapping[str, Any], role: str) -> Shape | None:
    """
    What *block* says if one of *role* may say that; None if we have no word
    for it.
    """
    kind = block.get("type")
    if not isinstance(kind, str):
        return None

    if kind == "text":
        text = block.get("text")
        return (
            Shape(TextPart, {"text": text}, "text") if isinstance(text, str) else None
        )

    if role == "assistant":
        found = _thought(block, kind)
        if found is not None:
            return found

    return media_shape(block) if role != "system" else None


def _thought(block: Mapping[str, Any], kind: str) -> Shape | None:
    text: Any = block.get(_TEXTS.get(kind, ""))
    if kind == "refusal" and isinstance(text, str):
        return Shape(RefusalPart, {"text": text}, kind)

    if kind == "thinking" and isinstance(text, str):
        return _reasoning(text, block.get("signature"), kind)

    if kind == "redacted_thinking" and isinstance(block.get("data"), str):
        return _reasoning("", block["data"], kind)

    if kind == "reasoning_content" and isinstance(block.get(kind), dict):
        inside = block[kind]
        text = inside.get("text")
        return _reasoning(
            text if isinstance(text, str) else "", inside.get("signature"), kind
        )

    if kind == "reasoning":
        if not isinstance(text, str):
            text = _summary(block.get("summary"))

        extras = block.get("extras")
        signature = extras.get("signature") if isinstance(extras, dict) else None
        return _reasoning(text, signature, kind)

    return None


def _reasoning(text: str, signature: Any, shape: str) -> Shape:
    fields = {"text": text}
    if isinstance(signature, str) and signature:
        fields["signature"] = signature

    return Shape(ReasoningPart, fields, shape)


def _summary(given: Any) -> str:
    items = given if isinstance(given, list) else []
    texts = [item.get("text") for item in items if isinstance(item, dict)]
    return "\n\n".join([text for text in texts if isinstance(text, str)])


def _base(part: Any, shape: str) -> Any:
    """
    *part* as a block of this *shape*.
    """
    if isinstance(part, MediaPart):
        return write_media(part, shape)

    if isinstance(part, ReasoningPart):
        return _base_of_thought(part, shape)

    if isinstance(part, RefusalPart):
        return {"type": "refusal", "refusal": part.text}

    return part.text if shape == "str" else {"type": "text", "text": part.text}


def _base_of_thought(part: ReasoningPart, shape: str) -> dict[str, Any]:
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
    read: Reading, given: Any, path: str, role: str, provider: str
) -> Part | None:
    """
    The part that *given*, a block or a text at *path*, is; None if there was a
    problem. *provider* is whose response it is in.
    """
    if isinstance(given, str):
        text = mended_text(read, given, path)
        return TextPart(text, metadata=_noting({"shape": "str"}))

    if not isinstance(given, dict):
        read.wrong(path, given, "a text or a dict")
        return None

    kind, block = given.get("type"), given
    key = _TEXTS.get(kind) if isinstance(kind, str) else None
    if key and isinstance(given.get(key), str):
        text = mended_text(read, given[key], f"{path}.{key}")
        if key == "text" and len(given) == 2:  # noqa: PLR2004 - as most blocks have
            return TextPart(text)

        block = {**given, key: text}

    try:
        found = _shape(block, role)
        part = None if found is None else found.kind(**found.fields)
    except InvalidPartError:
        # A medium under a url that is no text, say.
        found = part = None

    if found is None or part is None:
        return _unknown(read, block, path, provider)

    return _noted(read, _Said(block, found, part), path, provider)


class _Said(NamedTuple):
    """
    A block, and what it says.
    """

    block: dict[str, Any]
    found: Shape
    part: Part


def _noted(read: Reading, said: _Said, path: str, provider: str) -> Part | None:
    """
    The part with notes on all that it does not say of its block.
    """
    block, found, part = said
    notes: dict[str, Any] = {}
    rest = beyond(block, _base(part, found.shape))
    if found.shape != _SHAPES.get(found.kind, OWN):
        notes["shape"] = found.shape

    if rest is None:
        notes = {"raw": block}
    elif rest:
        notes["keys"] = rest

    signer = _signer(part, found.shape, provider)
    if signer:
        notes |= {"signed": True, "shape": found.shape}

    return _kept(read, found, notes, signer, path) if notes else part


def mended_text(read: Reading, text: str, path: str) -> str:
    """
    *text*, at *path*, as valid Unicode.
    """
    if text.__class__ is str and text.isascii():
        return text

    valid = mended(text)
    if valid is not text:
        read.mended.append(path)

    return valid


def _noting(notes: dict[str, Any]) -> Any:
    # Any: what takes metadata takes any mapping, and says it is a PMap.
    return {SOURCE: notes}


def _signer(part: Part, shape: str, provider: str) -> dict[str, Any]:
    """
    What tells other adapters who signed *part*, if anybody did.
    """
    if not getattr(part, "signature", ""):
        return {}

    own = "anthropic" if shape in {"thinking", "redacted_thinking"} else SOURCE
    name = SIGNERS.get(provider, own)
    redacted = {"redacted": True} if shape == "redacted_thinking" else {}
    return {name: {"signed": True, **redacted}}


def _kept(
    read: Reading, found: Shape, notes: dict[str, Any], more: dict[str, Any], path: str
) -> Part | None:
    metadata: Any = {**more, SOURCE: notes}
    try:
        return found.kind(**found.fields, metadata=metadata)
    except InvalidPartError:
        metadata[SOURCE] = {**keep(read, notes, path), "odd": True}
        return None if read.count else found.kind(**found.fields, metadata=metadata)


def _unknown(
    read: Reading, block: dict[str, Any], path: str, provider: str
) -> Part | None:
    source = SOURCE
    metadata: Any = EMPTY_MAP
    if provider == "anthropic" and "index" not in block:
        # What was not streamed is as the provider said it, and may go back to it.
        source, metadata = provider, _noting({"shape": "block"})

    try:
        return UnknownPart(block, source=source, metadata=metadata)
    except InvalidPartError:
        raw = {"block": keep(read, block, path)}
        return (
            None
            if read.count
            else UnknownPart(raw, source=SOURCE, metadata=_noting({"odd": True}))
        )


def write_block(write: Writing, part: Part, path: str) -> Any:
    """
    *part* as a block; None if LangChain has no word for it.
    """
    noted = write.notes(part, path)
    if isinstance(part, UnknownPart):
        if noted.get("odd"):
            return given_back(map_of(part.raw, "block"))

        if noted.get("shape") == "block":
            return thaw(part.raw)

        return write.unknown(part.raw, part.source, path, "type")

    notes = thawed(noted)
    if any(name not in PROVIDERS for name in part.metadata):
        write.lose(path, "metadata", "a block has no place for it")

    raw = notes.get("raw")
    if isinstance(raw, dict) and _says(raw, part):
        return raw

    if isinstance(part, ReasoningPart):
        part = _as_signed(write, part, path)

    block, keys = _base(part, _shape_for(part, notes)), notes.get("keys")
    if isinstance(keys, dict) and isinstance(block, dict):
        return over(block, keys)

    return block


def _says(raw: dict[str, Any], part: Part) -> bool:
    """
    Whether *raw* says what *part* does.
    """
    found = _shape(raw, "assistant")
    if found is None or found.kind is not type(part):
        return False

    plain: Any = {"metadata": EMPTY_MAP, "index": None, "unknown": EMPTY_MAP}
    bare: Any = attrs.evolve(part, **plain)
    return bool(bare == found.kind(**found.fields))


def _as_signed(write: Writing, part: ReasoningPart, path: str) -> ReasoningPart:
    """
    *part* with its signature if that may be sent: LangChain had it, or knows
    the block of who signed it, or nobody knows who did.
    """
    known = [name for name in PROVIDERS if name in part.metadata]
    if not part.signature or not known or {SOURCE, "anthropic"}.intersection(known):
        return part

    why = f"is {known[0]}'s own, for which there is no block"
    write.lose(path, "signature", why)
    return attrs.evolve(part, signature="")


def _shape_for(part: Part, notes: Mapping[str, Any]) -> str:
    """
    The shape of the block that *part* becomes.
    """
    shape = notes.get("shape")
    if isinstance(shape, str):
        return shape

    if isinstance(part, MediaPart):
        return OWN

    if isinstance(part, ReasoningPart) and "anthropic" in part.metadata:
        redacted = notes_of(part.metadata, "anthropic").get("redacted") is True
        return "redacted_thinking" if redacted else "thinking"

    return _SHAPES[type(part)]
