"""
JSON values made immutable, and what such a value may hold.
"""

import copy
import enum
import json
import pickle
from collections import OrderedDict, UserDict

import pytest
from hypothesis import given

from conversation_state._persistent import (
    EMPTY_MAP,
    PMap,
    check_text,
    freeze,
    freeze_map,
    thaw,
)
from conversation_state.testing.laws import equal_values_hash_alike
from conversation_state.testing.strategies import json_values, metadata, texts


class Text(str):  # noqa: SLOT000 - it is to have attributes
    """
    A text that could be changed.
    """

    note = ""


class Code(enum.IntEnum):
    OK = 200


def nested(levels: int) -> object:
    """
    A list in a list in a list ...
    """
    value: object = "deep"
    for _ in range(levels):
        value = [value]

    return value


class TestFreeze:
    @given(json_values())
    def test_undone_by_thaw(self, value):
        """
        Thawing what was frozen gives back the value.
        """
        assert value == thaw(freeze(value, "it"))

    @given(json_values())
    def test_once_is_enough(self, value):
        """
        What is frozen stays as it is, and equal values freeze alike.
        """
        frozen = freeze(value, "it")

        assert frozen == freeze(frozen, "it")
        equal_values_hash_alike(frozen, freeze(copy.deepcopy(value), "it"))

    @given(metadata())
    def test_survives(self, value):
        """
        Frozen maps are pickled and copied.
        """
        frozen = freeze_map(value, "it")

        assert frozen == pickle.loads(pickle.dumps(frozen))
        assert frozen == copy.deepcopy(frozen)

    def test_deeply(self):
        """
        A caller's later changes have no effect, however deep.
        """
        value = {"a": [{"b": [1]}]}
        frozen = freeze_map(value, "it")
        value["a"][0]["b"].append(2)
        value["a"].append({})
        value["c"] = []

        assert {"a": [{"b": [1]}]} == thaw(frozen)

    def test_kinds(self):
        """
        Maps become persistent maps, lists and tuples tuples; the rest stays.
        """
        frozen = freeze({"a": [1, (2.5, None)], "b": True}, "it")

        assert isinstance(frozen, PMap)
        assert (1, (2.5, None)) == frozen["a"]
        assert frozen["b"] is True

    def test_any_mapping(self):
        """
        Any mapping is a map, a frozen one among them.
        """
        for kind in (dict, OrderedDict, UserDict):
            assert {"a": {"b": 1}} == thaw(freeze(kind(a=kind(b=1)), "it"))

        assert {"a": {"b": 1}} == thaw(freeze({"a": freeze({"b": 1}, "it")}, "it"))

    def test_nothing_costs_nothing(self):
        """
        All empty maps are one.
        """
        assert EMPTY_MAP is freeze_map({}, "it")

    def test_subclasses_are_made_plain(self):
        """
        Of subclasses of text and numbers, the plain value is kept.
        """
        note = Text("a")
        frozen = freeze([note, Code.OK, True], "it")

        assert (str, int, bool) == tuple(map(type, frozen))  # type: ignore[arg-type]
        assert ("a", 200, True) == frozen
        assert [str] == [*map(type, freeze_map({note: 1}, "it"))]

    @pytest.mark.parametrize("number", [-(2**63), 2**64 - 1, 0, 1.5, -0.0, 5e-324])
    def test_numbers(self, number):
        """
        Integers of 64 bits, signed or not, and finite floats.
        """
        assert number == freeze(number, "it")
        assert type(number) is type(freeze(number, "it"))

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            (2**64, "it is an integer that does not fit in 64 bits; make it a text"),
            (-(2**63) - 1, "it is an integer that does not fit in 64 bits"),
            (float("nan"), "it is nan, which JSON can't represent"),
            (float("-inf"), "it is -inf, which JSON can't represent"),
            ({"a": [0, {"b": {1}}]}, "it.a[1].b is {1}, which JSON can't represent"),
            ({"a": b"b"}, "it.a is b'b', which JSON can't represent"),
            ({"a": {1: 2}}, "it.a has the key 1; keys of JSON are text"),
            ([{None: 2}], "it[0] has the key None; keys of JSON are text"),
            (
                {"a": "\ud800"},
                "it.a holds '\\ud800' at position 0, half of a surrogate",
            ),
            ({"a\udfff": 1}, "a key of it holds '\\udfff' at position 1, half of a"),
            (object, "it is <class 'object'>, which JSON can't represent"),
        ],
    )
    def test_what_json_cannot_hold(self, value, said):
        """
        Refused with the caller's own error, which says where and what.
        """

        class MyError(Exception):
            pass

        with pytest.raises(MyError) as raised:
            freeze(value, "it", MyError)

        assert said in str(raised.value)

    def test_levels(self):
        """
        A hundred levels, and not one more; a value that holds itself is
        refused, too.
        """
        endless: list[object] = []
        endless.append(endless)

        assert nested(100) == thaw(freeze(nested(100), "it"))
        for value in (nested(101), nested(5_000), endless):
            with pytest.raises(ValueError, match="nested more than 100 levels deep"):
                freeze(value, "it")

    def test_message_is_short(self):
        """
        However large the value is, an error shows a line of it.
        """
        with pytest.raises(ValueError) as raised:
            freeze({1: 2} | {("x" * 1000,): 1}, "it")
        with pytest.raises(ValueError) as larger:
            freeze({"a": {"x" * 1000, 1}}, "it")

        assert 150 > len(str(raised.value))
        assert 150 > len(str(larger.value))


class TestFreezeMap:
    @pytest.mark.parametrize("value", [None, [], "a", 1, [("a", 1)]])
    def test_mappings_only(self, value):
        """
        Anything else is refused, and shown.
        """
        with pytest.raises(ValueError) as raised:
            freeze_map(value, "metadata")

        expected = f"metadata is {value!r}; expected a mapping of names to JSON values"
        assert expected == str(raised.value)


class TestThaw:
    @given(json_values())
    def test_is_json(self, value):
        """
        What comes out can be written as JSON, in one order.
        """
        thawed = thaw(freeze(value, "it"))

        assert json.dumps(value, sort_keys=True) == json.dumps(thawed)

    def test_is_a_copy(self):
        """
        Changing it changes nothing else.
        """
        frozen = freeze_map({"a": [1]}, "it")
        thaw(frozen)["a"].append(2)

        assert {"a": [1]} == thaw(frozen)


class TestCheckText:
    @given(texts())
    def test_gives_the_text(self, text):
        """
        Text of valid Unicode is given back as it is.
        """
        assert text is check_text(text, "it")

    def test_makes_plain(self):
        """
        Of a subclass the plain text is given.
        """
        assert str is type(check_text(Text("ä"), "it"))
        assert "ä" == check_text(Text("ä"), "it")

    @pytest.mark.parametrize("value", [None, b"a", 1, ["a"]])
    def test_text_only(self, value):
        """
        Anything else is refused, and shown.
        """
        with pytest.raises(ValueError) as raised:
            check_text(value, "label")

        assert f"label is {value!r}; expected a str" == str(raised.value)

    @pytest.mark.parametrize(
        "text", ["ab\ud800", "ab\udc00\ud800", "ab\udfff\U0001f600"]
    )
    def test_surrogates(self, text):
        """
        Half of a surrogate pair is refused: where it is, and what to do.
        """
        with pytest.raises(ValueError) as raised:
            check_text(text, "it")

        assert f"it holds {text[2]!a} at position 2, half of a" in str(raised.value)
        assert "replace it, with U+FFFD say" in str(raised.value)
