"""Parts: what a message is made of when it is more than one text."""

import pickle
from typing import Any

import attrs
import pytest

from conversation_state._persistent import FrozenMap
from conversation_state._wording import with_article
from conversation_state.errors import InvalidMessageError, InvalidPartError
from conversation_state.parts import (
    KINDS,
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
from conversation_state.tools import ToolCall

MEDIA: list[Any] = [ImagePart, AudioPart, VideoPart, FilePart]

HOLOGRAM: Any = {"type": "hologram"}

# One of each, with nothing that is not needed.
SMALLEST: list[Any] = [
    TextPart("hi"),
    *[kind(url="https://example.com/a") for kind in MEDIA],
    ReasoningPart(),
    RefusalPart("no"),
    UnknownPart(HOLOGRAM),
]

# Which fields of which part hold text.
TEXTS = [
    (TextPart, "text", {}),
    (RefusalPart, "text", {}),
    (ReasoningPart, "text", {}),
    (ReasoningPart, "signature", {}),
    (UnknownPart, "source", {"raw": {}}),
    (ImagePart, "detail", {"url": "a"}),
    (FilePart, "name", {"url": "a"}),
    *[(kind, "media_type", {"url": "a"}) for kind in MEDIA],
    *[(kind, "url", {}) for kind in MEDIA],
]


def by_name(value: object) -> str:
    """Classes and parts by the name of their class."""
    return value.__name__ if isinstance(value, type) else type(value).__name__


class TestNew:
    @pytest.mark.parametrize("kind", [Part, MediaPart], ids=by_name)
    def test_what_is_common_is_no_part(self, kind):
        """The classes that parts have in common are not made by themselves."""
        with pytest.raises(TypeError) as raised:
            kind(url="https://example.com/a")

        assert f"{kind.__name__} is what several kinds of part" in str(raised.value)
        assert "make one of TextPart, ImagePart" in str(raised.value)

    @pytest.mark.parametrize(("kind", "field", "rest"), TEXTS)
    def test_text_only(self, kind, field, rest):
        """What holds text holds a `str`, and valid Unicode."""
        with pytest.raises(InvalidPartError) as raised:
            kind(**rest, **{field: 5})

        assert f"{kind.__name__}.{field} is 5; expected a str" == str(raised.value)

        with pytest.raises(InvalidPartError) as raised:
            kind(**rest, **{field: "so\udc00"})

        problem = f"{kind.__name__}.{field} holds '\\udc00' at position 2, half of a"
        assert problem in str(raised.value)

    @pytest.mark.parametrize("part", SMALLEST, ids=by_name)
    @pytest.mark.parametrize("index", [-1, 2**63, True], ids=repr)
    def test_index(self, part, index):
        """A position is an integer from 0 on, or None."""
        with pytest.raises(InvalidPartError) as raised:
            attrs.evolve(part, index=index)

        assert str(raised.value) == (
            f"{type(part).__name__}.index is {index!r}; expected a position in the "
            "response, from 0 on, or None"
        )
        assert 7 == attrs.evolve(part, index=7).index

    @pytest.mark.parametrize("part", SMALLEST, ids=by_name)
    @pytest.mark.parametrize("field", ["metadata", "unknown"])
    def test_maps_are_frozen(self, part, field):
        """
        Maps hold JSON values, and a caller's later changes have no effect; what JSON
        can't represent is refused, with its place.
        """
        given = {"a": [{"b": 1}]}
        made = attrs.evolve(part, **{field: given})
        given["a"][0]["b"] = 2
        given["c"] = []

        assert {"a": ({"b": 1},)} == getattr(made, field)
        assert isinstance(getattr(made, field)["a"][0], FrozenMap)
        with pytest.raises(InvalidPartError) as raised:
            attrs.evolve(part, **{field: {"a": [0, {1}]}})

        name = type(part).__name__
        assert f"{name}.{field}.a[1] is {{1}}, which JSON" in str(raised.value)


@pytest.mark.parametrize("kind", MEDIA, ids=by_name)
class TestMedia:
    def test_by_url(self, kind):
        """A url is kept as it is, whatever its scheme."""
        for url in ("https://example.com/ä", "data:,hi", "gs://bucket/file", "x"):
            part = kind(url=url)

            assert (url, None) == (part.url, part.data)

    @pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
    def test_by_data(self, kind, wrap):
        """Data are kept as bytes of our own."""
        given = wrap(b"abc")
        part = kind(data=given, media_type="a/b")
        if wrap is bytearray:
            given[:] = b"xyz"

        assert (None, b"abc") == (part.url, part.data)
        assert type(part.data) is bytes
        assert "a/b" == part.media_type

    def test_one_of_both(self, kind):
        """Exactly one of url and data."""
        with pytest.raises(InvalidPartError) as raised:
            kind()

        expected = f"{kind.__name__} takes exactly one of url and data; got neither"
        assert expected == str(raised.value)

        with pytest.raises(InvalidPartError) as raised:
            kind(url="a", data=b"a")

        expected = f"{kind.__name__} takes exactly one of url and data; got both"
        assert expected == str(raised.value)

    @pytest.mark.parametrize(("field", "empty"), [("url", ""), ("data", bytearray())])
    def test_empty(self, kind, field, empty):
        """Neither may be empty."""
        with pytest.raises(InvalidPartError) as raised:
            kind(**{field: empty})

        expected = f"{kind.__name__}.{field} is empty; there is nothing to show"
        assert expected == str(raised.value)

    def test_not_base64(self, kind):
        """Text is not data: base64 is for the wire."""
        with pytest.raises(InvalidPartError) as raised:
            kind(data="aGk=")

        expected = f"{kind.__name__}.data is a str; expected bytes"
        assert expected == str(raised.value)


class TestUnknown:
    @pytest.mark.parametrize("kind", sorted(KINDS))
    def test_known_kind(self, kind):
        """
        What goes by one of our names is one of ours, unless a provider named
        it so.
        """
        raw: Any = {"type": kind}
        with pytest.raises(InvalidPartError) as raised:
            UnknownPart(raw)

        known = with_article(KINDS[kind].__name__)
        problem = f"UnknownPart.raw is of the known type {kind!r}; make {known} of it"
        assert str(raised.value).startswith(problem)
        assert kind == UnknownPart(raw, source="openai").raw["type"]


class TestToolCall:
    def test_arguments_are_text(self):
        """Arguments are what the model wrote, valid or not, byte for byte."""
        for written in ('{"q": "a\\u0020b"}', '{"q":', "", " \n"):
            assert written == ToolCall("c1", "search", written).arguments

    @pytest.mark.parametrize("field", ["id", "name", "arguments", "type"])
    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ({"q": 1}, "is {'q': 1}; expected "),
            ("\ud83d", "holds '\\ud83d' at position 0, half of a surrogate pair"),
        ],
    )
    def test_text_only(self, field, value, problem):
        """What holds text holds a `str`, and valid Unicode."""
        fields: Any = {"id": "c1", "name": "clock", field: value}
        with pytest.raises(InvalidMessageError) as raised:
            ToolCall(**fields)

        assert f"ToolCall.{field} {problem}" in str(raised.value)

    @pytest.mark.parametrize("index", [-1, True], ids=repr)
    def test_index(self, index):
        """A position is an integer from 0 on, or None."""
        with pytest.raises(InvalidMessageError) as raised:
            ToolCall("c1", "clock", index=index)

        assert f"ToolCall.index is {index!r}; expected a position" in str(raised.value)

    @pytest.mark.parametrize("field", ["metadata", "unknown"])
    def test_maps(self, field):
        """Maps hold JSON values, frozen deeply."""
        given: Any = {field: {"a": [1]}}
        call = ToolCall("c1", "clock", **given)
        given[field]["a"].append(2)

        assert {"a": (1,)} == getattr(call, field)

        given[field]["a"].append(object)
        with pytest.raises(InvalidMessageError) as raised:
            ToolCall("c1", "clock", **given)

        assert f"ToolCall.{field}.a[2] is <class 'object'>" in str(raised.value)


class TestValue:
    def test_error_names_the_field(self):
        """
        The error of an invalid field has class, field and problem as attributes,
        also after pickling.
        """
        with pytest.raises(InvalidPartError) as caught:
            ImagePart(url="")

        error = pickle.loads(pickle.dumps(caught.value))

        assert ("ImagePart", "url") == (error.owner, error.field)
        assert "is empty; there is nothing to show" == error.problem
        assert "ImagePart.url is empty; there is nothing to show" == str(error)

    @pytest.mark.parametrize("kind", [*KINDS.values(), UnknownPart])
    def test_every_field_counts(self, kind):
        """Parts that differ in any field are different."""
        least: dict[str, Any] = {
            "text": "a",
            "raw": {"type": "new"},
            "url": "https://a",
        }
        other: dict[str, Any] = {
            "index": 1,
            "metadata": {"x": 1},
            "unknown": {"new": 1},
            "raw": {"type": "newer"},
            "url": "https://b",
        }
        fields = {field.name for field in attrs.fields(kind)}
        part = kind(**{name: least[name] for name in fields & set(least)})

        for name in fields - {"data"}:
            changed = attrs.evolve(part, **{name: other.get(name, "b")})

            assert part != changed, name
            assert hash(part) != hash(changed), name

        if "data" in fields:
            a, b = kind(data=b"a"), kind(data=b"b")

            assert a != b
            assert a != part

    def test_equal_within_a_kind(self):
        """Parts of different kinds are never equal."""
        assert TextPart("a") != RefusalPart("a")
        assert TextPart("a") != ReasoningPart("a")
        assert AudioPart(url="a") != VideoPart(url="a")
        assert 8 == len(set(SMALLEST))

    def test_repr(self):
        """Shown without defaults, and data by their size."""
        assert "TextPart(text='hi')" == repr(TextPart("hi"))
        assert "ReasoningPart()" == repr(ReasoningPart())
        assert "ImagePart(index=2, data=<5,000 bytes>, detail='low')" == repr(
            ImagePart(data=b"x" * 5000, detail="low", index=2)
        )
