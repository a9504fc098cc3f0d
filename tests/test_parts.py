"""Parts of messages, by themselves."""

from enum import StrEnum

import pytest

from conversation_state import TextPart, UserMessage, decode, encode
from conversation_state.errors import InvalidPartError
from conversation_state.parts import (
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    UnknownPart,
    sniff_media_type,
)
from tests.processes import count_calls

# As the WHATWG's standard on MIME sniffing and the formats' specifications have them.
STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff\xe0": "image/jpeg",
    b"GIF87a": "image/gif",
    b"BM\x36\x00": "image/bmp",
    b"%PDF-1.7": "application/pdf",
    b"ID3\x04": "audio/mpeg",
    b"\xff\xfb\x90": "audio/mpeg",
    b"\xff\xf3\x40": "audio/mpeg",
    b"fLaC\x00": "audio/flac",
    b"OggS\x00": "audio/ogg",
    b"\x1a\x45\xdf\xa3\x9f": "video/webm",
    b"RIFF\x24\x00\x00\x00WEBPVP8 ": "image/webp",
    b"RIFF\x24\x00\x00\x00WAVEfmt ": "audio/wav",
    b"RIFF\x24\x00\x00\x00AVI LIST": "video/avi",
    b"RIFF\x24\x00\x00\x00sfbk": "",
    b"\x00\x00\x00\x18ftypheic": "image/heic",
    b"\x00\x00\x00\x18ftypheix": "image/heic",
    b"\x00\x00\x00\x18ftypmif1": "image/heic",
    b"\x00\x00\x00\x1cftypavif": "image/avif",
    b"\x00\x00\x00\x1cftypM4A ": "audio/mp4",
    b"\x00\x00\x00\x14ftypqt  ": "video/quicktime",
    b"\x00\x00\x00\x18ftypisom": "video/mp4",
    b"": "",
    b"PNG": "",
}


class TestSniffMediaType:
    @pytest.mark.parametrize("data", STARTS)
    def test_starts(self, data):
        """Data are of the type whose signature they begin with."""
        assert STARTS[data] == sniff_media_type(data)
        assert "" == sniff_media_type(b" " + data)


class TestPart:
    @pytest.mark.parametrize("kind", [Part, MediaPart, TextPart])
    def test_no_other_kinds(self, kind):
        """A class of one's own is refused, since nothing could write it."""
        with pytest.raises(TypeError, match=f"can't subclass {kind.__name__} as Mine"):
            type("Mine", (kind,), {})

    @pytest.mark.parametrize(
        ("make", "problem"),
        [
            (lambda: TextPart(5), "TextPart.text is 5; expected a str"),  # type: ignore[arg-type]
            (lambda: TextPart("\ud800"), "TextPart.text holds '\\ud800'"),
            (lambda: TextPart("a", index=-1), "TextPart.index is -1; expected a pos"),
            (lambda: TextPart("a", index=2**63), "; expected a position"),
            (lambda: TextPart("a", index=True), "TextPart.index is True; expected"),
            (lambda: TextPart("a", metadata={"a": {1}}), "TextPart.metadata"),
            (ImagePart, "one of url and data; got neither"),
            (lambda: ImagePart(url="a", data=b"a"), "one of url and data; got both"),
            (lambda: ImagePart(url=""), "ImagePart.url is empty"),
            (lambda: FilePart(data=b""), "FilePart.data is empty"),
            (lambda: FilePart(data="a"), "FilePart.data is a str; expected bytes"),  # type: ignore[arg-type]
            (lambda: FilePart(url="a\ud800"), "FilePart.url holds '\\ud800'"),
            (lambda: MediaPart(url="a"), "MediaPart"),
            (lambda: UnknownPart({"type": "text"}), "is of the known type 'text'"),
        ],
        ids=map(str, range(14)),
    )
    def test_refused(self, make, problem):
        """What no part can be is refused where it is made, with its field."""
        with pytest.raises((InvalidPartError, TypeError)) as raised:
            make()

        assert problem in str(raised.value)

    def test_what_is_unknown_keeps_its_order(self):
        """The keys of what a provider sent stay in its order, also when written."""
        raw = {"type": "x", "b": {"z": 1, "y": 2}, "a": 2}
        part = UnknownPart(raw)
        for each in (part, decode(encode(UserMessage([part]))).parts[0]):
            assert ["type", "b", "a"] == list(each.raw)
            assert ["z", "y"] == list(each.raw["b"])

    def test_takes_what_is_like_it(self):
        """Subclasses of texts are plain ones, and bytes that may change are copied."""

        class Name(StrEnum):
            BERN = "Bern"

        data = bytearray(b"a")
        image = ImagePart(data=data, media_type=Name.BERN)  # type: ignore[arg-type]
        data[0] = 98
        fields = (TextPart(Name.BERN).text, FilePart(url=Name.BERN).url)
        view = FilePart(data=memoryview(b"a"))  # type: ignore[arg-type]

        assert [str] * 3 == [type(each) for each in (*fields, image.media_type)]
        assert (b"a", b"a") == (image.data, view.data)
        assert 2**63 - 1 == TextPart("a", index=2**63 - 1).index

    def test_cost(self):
        """What is left out is not checked: a text is made in a few calls."""
        assert 10 > count_calls(lambda: TextPart("a"))

    @pytest.mark.parametrize("key", ["type", "text", "metadata"])
    def test_unknown_fields_have_names_of_their_own(self, key):
        """An unknown field can't stand in the place of a known one."""
        with pytest.raises(InvalidPartError, match=key):
            TextPart("Hi!", unknown={key: 1})

        assert {"mood": 1} == TextPart("Hi!", unknown={"mood": 1}).unknown
