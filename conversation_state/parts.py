"""Parts: text, media, reasoning and the other content of a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from conversation_state._persistent import (
    EMPTY_MAP,
    ByContent,
    check_text,
    check_unknown,
    final,
    freeze_map,
)
from conversation_state._wording import (
    describe_type,
    format_count,
    shorten_repr,
    with_article,
)
from conversation_state.errors import InvalidPartError

__all__ = [
    "AudioPart",
    "FilePart",
    "ImagePart",
    "MediaPart",
    "Part",
    "ReasoningPart",
    "RefusalPart",
    "TextPart",
    "UnknownPart",
    "VideoPart",
]


def _check_part_text(self: Part, field: attrs.Attribute[str], value: str) -> None:
    if value.__class__ is str and value.isascii():
        return  # nearly always, and the rest is slow

    text = check_text(value, f"{type(self).__name__}.{field.name}", InvalidPartError)
    if text is not value:
        object.__setattr__(self, field.name, text)


def _freeze_metadata(self: Part, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not EMPTY_MAP:
        what = f"{type(self).__name__}.{field.name}"
        frozen = freeze_map(value, what, InvalidPartError)
        if frozen is not value:
            object.__setattr__(self, field.name, frozen)


def _freeze_raw(self: Part, field: attrs.Attribute[Any], value: Any) -> None:
    what = f"{type(self).__name__}.{field.name}"
    frozen = freeze_map(value, what, InvalidPartError, keep_order=True)
    if frozen is not value:
        object.__setattr__(self, field.name, frozen)


def _freeze_unknown(self: Part, field: attrs.Attribute[Any], value: Any) -> None:
    if value is EMPTY_MAP:
        return

    _freeze_raw(self, field, value)
    # One of these would overwrite the known field where the part is encoded.
    own = {"type", *[each.name for each in attrs.fields(type(self))]} - {"unknown"}
    check_unknown(type(self).__name__, own, self.unknown, InvalidPartError)


def _check_index(self: Part, _field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (value.__class__ is not int or not -1 < value < 2**63):
        problem = (
            f"is {shorten_repr(value)}; expected a position in the response, from 0 "
            "on, or None"
        )
        raise InvalidPartError(problem, type(self).__name__, "index")


@attrs.frozen(kw_only=True, repr=False, eq=False, init=False)
class Part(ByContent):
    """
    The base of all parts. Has no instances of its own.

    Attributes:
        kind: The name of this kind of part, also in encoded messages.
        metadata: JSON values, frozen deeply.
        index: The part's position in a streamed response, counted among parts
            and tool calls; None if it was not streamed.
        unknown: Further fields, which a newer version wrote; kept, and written
            back. None has the name of a known field.

    Raises:
        InvalidPartError: If a value is not what its field holds, or text holds half of
            a surrogate pair.
    """

    kind: ClassVar[str] = ""

    metadata: Mapping[str, Any] = attrs.field(
        default=EMPTY_MAP, kw_only=True, validator=_freeze_metadata
    )
    index: int | None = attrs.field(default=None, kw_only=True, validator=_check_index)
    unknown: Mapping[str, Any] = attrs.field(
        default=EMPTY_MAP, kw_only=True, validator=_freeze_unknown
    )

    def __init__(self, *_given: object, **_fields: object) -> None:
        raise TypeError(
            f"{type(self).__name__} is what several kinds of part have in common; "
            f"make one of {', '.join(part.__name__ for part in KINDS.values())}"
        )

    def _comparison_key(self) -> tuple[Any, ...]:
        fields = attrs.fields(type(self))
        return tuple([getattr(self, field.name) for field in fields])

    def __repr__(self) -> str:
        # Without defaults, and with the number of bytes only: people read it, often
        # of many messages.
        shown = []
        for field in attrs.fields(type(self)):
            value = getattr(self, field.name)
            if value != field.default:
                show = (
                    f"<{format_count(len(value), 'byte')}>"
                    if isinstance(value, bytes)
                    else repr(value)
                )
                shown.append(f"{field.name}={show}")

        return f"{type(self).__name__}({', '.join(shown)})"


@final
@attrs.frozen(repr=False, eq=False)
class TextPart(Part):
    """
    Text.

    >>> TextPart("hello")
    TextPart(text='hello')
    """

    kind: ClassVar[str] = "text"

    text: str = attrs.field(validator=_check_part_text)


# AudioPart and VideoPart inherit its `__init__`: generating one takes as long as
# importing a module.
@attrs.frozen(kw_only=True, repr=False, eq=False)
class MediaPart(Part):
    """
    The base of images, audio, video and files. Has no instances of its own.

    Attributes:
        url: The URL of the content.
        data: The content; base64 is in encoded messages only.
        media_type: As in RFC 6838, for example ``image/png``; "" if not given.

    Raises:
        InvalidPartError: Unless there is exactly one of *url* and *data*, and it is not
            empty.
    """

    url: str | None = None
    data: bytes | None = None
    media_type: str = attrs.field(default="", validator=_check_part_text)

    if not TYPE_CHECKING:

        def __new__(cls, *given: object, **_: object) -> Self:
            """A part, all of whose fields have to be named."""
            if given:
                problem = "takes no positional arguments; give url=... or data=..."
                raise TypeError(f"{cls.__name__} {problem}")

            return object.__new__(cls)

    def __attrs_post_init__(self) -> None:
        # Its own `__init__` is there for classes that inherit it, see above.
        if type(self) is MediaPart:
            super().__init__()

        name = type(self).__name__
        if (self.url is None) == (self.data is None):
            given = "neither" if self.url is None else "both"
            raise InvalidPartError(
                f"{name} takes exactly one of url and data; got {given}"
            )

        if self.url is not None:
            url = check_text(self.url, f"{name}.url", InvalidPartError)
            object.__setattr__(self, "url", url)
        elif isinstance(self.data, (bytearray, memoryview)):  # which may still change
            object.__setattr__(self, "data", bytes(self.data))
        elif type(self.data) is not bytes:
            problem = f"is {describe_type(self.data)}; expected bytes"
            raise InvalidPartError(problem, name, "data")

        if not (self.url or self.data):
            field = "data" if self.url is None else "url"
            problem = "is empty; there is nothing to show"
            raise InvalidPartError(problem, name, field)


@final
@attrs.frozen(kw_only=True, repr=False, eq=False)
class ImagePart(MediaPart):
    """
    An image.

    Attributes:
        detail: The level of detail: ``high``, ``low``, ``auto``, or "".

    Source:
        *detail* and its values are OpenAI's.

    >>> ImagePart(data=b"GIF89a", media_type="image/gif")
    ImagePart(data=<6 bytes>, media_type='image/gif')
    """

    kind: ClassVar[str] = "image"

    detail: str = attrs.field(default="", validator=_check_part_text)


@final
class AudioPart(MediaPart):
    """Audio."""

    __slots__ = ()

    kind: ClassVar[str] = "audio"


@final
class VideoPart(MediaPart):
    """A video."""

    __slots__ = ()

    kind: ClassVar[str] = "video"


@final
@attrs.frozen(kw_only=True, repr=False, eq=False)
class FilePart(MediaPart):
    """
    A file, for example a document.

    Attributes:
        name: The name of the file; "" if not given.
    """

    kind: ClassVar[str] = "file"

    name: str = attrs.field(default="", validator=_check_part_text)


@final
@attrs.frozen(repr=False, eq=False)
class ReasoningPart(Part):
    """
    Reasoning of a model.

    Attributes:
        text: The reasoning, or the summary of it that the provider returned.
        signature: The provider's signature, to be sent back unchanged; opaque.
    """

    kind: ClassVar[str] = "reasoning"

    text: str = attrs.field(default="", validator=_check_part_text)
    signature: str = attrs.field(default="", validator=_check_part_text)


@final
@attrs.frozen(repr=False, eq=False)
class RefusalPart(Part):
    """A refusal of the model."""

    kind: ClassVar[str] = "refusal"

    text: str = attrs.field(validator=_check_part_text)


# Each kind by its name in encoded messages, where "unknown" wraps an UnknownPart.
KINDS: dict[str, type[Part]] = {
    part.kind: part
    for part in (
        TextPart,
        ImagePart,
        AudioPart,
        VideoPart,
        FilePart,
        ReasoningPart,
        RefusalPart,
    )
}


@final
@attrs.frozen(repr=False, eq=False)
class UnknownPart(Part):
    """
    A part of a kind that is unknown to this version, verbatim.

    Attributes:
        raw: The JSON object.
        source: The provider that defines this kind. "" is a newer version of
            this library; the codec then writes *raw* as it is.

    Raises:
        InvalidPartError: If *source* is "" and *raw* is of a kind this version knows.
    """

    kind: ClassVar[str] = "unknown"

    raw: Mapping[str, Any] = attrs.field(validator=_freeze_raw)
    source: str = attrs.field(default="", kw_only=True, validator=_check_part_text)

    def __attrs_post_init__(self) -> None:
        kind = self.raw.get("type")
        if not self.source and isinstance(kind, str) and kind in KINDS:
            known = with_article(KINDS[kind].__name__)
            problem = (
                f"is of the known type {shorten_repr(kind)}; make {known} of "
                "it, or name the provider it is from as *source*"
            )
            raise InvalidPartError(problem, "UnknownPart", "raw")


# No further kinds: the codec could not write them.
final(Part)
final(MediaPart)


# What the bytes of a file begin with. Source: the formats' own specifications, as the
# WHATWG's standard on MIME sniffing lists them.
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
)


def sniff_media_type(data: bytes) -> str:
    """
    The media type of *data* by its first bytes; "" if they are of no known format.

    >>> sniff_media_type(b"GIF89a"), sniff_media_type(b"hi")
    ('image/gif', '')
    """
    if data[:4] == b"RIFF":
        kinds = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/avi"}
        return kinds.get(data[8:12], "")

    if data[4:8] == b"ftyp":
        brand = data[8:12]
        if brand in {b"heic", b"heix", b"mif1"}:
            return "image/heic"

        kinds = {
            b"avif": "image/avif",
            b"M4A ": "audio/mp4",
            b"qt  ": "video/quicktime",
        }
        return kinds.get(brand, "video/mp4")

    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")
