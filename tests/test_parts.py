"""Parts of messages, by themselves."""

import pytest

from conversation_state import TextPart
from conversation_state.errors import InvalidPartError
from conversation_state.parts import MediaPart, Part, sniff_media_type

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
        with pytest.raises(TypeError, match=r"subclass|final"):
            type("Mine", (kind,), {})

    @pytest.mark.parametrize("key", ["type", "text", "metadata"])
    def test_unknown_fields_have_names_of_their_own(self, key):
        """An unknown field can't stand in the place of a known one."""
        with pytest.raises(InvalidPartError, match=key):
            TextPart("Hi!", unknown={key: 1})

        assert {"mood": 1} == TextPart("Hi!", unknown={"mood": 1}).unknown
