"""JSON values made immutable, and what such a value may hold."""

import copy
import enum
import gc
import json
import pickle
import weakref
from collections import UserDict
from collections.abc import Hashable, Mapping
from operator import ior
from typing import Any

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyrsistent import pmap

from conversation_state._persistent import (
    EMPTY_MAP,
    FrozenMap,
    JsonMap,
    SortedJsonMap,
    check_text,
    freeze,
    freeze_map,
    is_same_json,
    make_map,
    thaw,
)
from conversation_state.chunks import concat
from conversation_state.codec import encode
from conversation_state.documents import Document
from conversation_state.messages import (
    AssistantMessage,
    SystemMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import RefusalPart, TextPart, UnknownPart
from conversation_state.testing.laws import equal_values_hash_alike
from conversation_state.testing.strategies import json_values, metadata
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage


class Text(str):  # noqa: SLOT000 - it is to have attributes
    """A text that could be changed."""

    note = ""


class Code(enum.IntEnum):
    OK = 200


def nested(levels: int) -> object:
    """A list in a list in a list ..."""
    value: object = "deep"
    for _ in range(levels):
        value = [value]

    return value


small = st.dictionaries(st.text(max_size=2), st.integers(-9, 9) | st.text(max_size=2))

# Every method of a dict that changes it, and what else may be called for that.
CHANGES = {
    "__setitem__": lambda m: m.__setitem__("a", 2),
    "m[key] =": lambda m: exec("m['a'] = 2", {"m": m}),
    "__delitem__": lambda m: m.__delitem__("a"),
    "del m[key]": lambda m: exec("del m['a']", {"m": m}),
    "__ior__": lambda m: ior(m, {"a": 2}),
    "__setstate__": lambda m: m.__setstate__({"a": 2}),
    "clear": lambda m: m.clear(),
    "pop": lambda m: m.pop("a"),
    "pop with a default": lambda m: m.pop("b", None),
    "popitem": lambda m: m.popitem(),
    "setdefault": lambda m: m.setdefault("b", 2),
    "update": lambda m: m.update({"a": 2}),
    "update by name": lambda m: m.update(a=2),
    "an attribute": lambda m: setattr(m, "a", 2),
}
MADE = {
    "by the class": FrozenMap,
    "by freeze_map": lambda items: freeze_map(items, "it"),
    "in order": lambda items: freeze_map(items, "it", keep_order=True),
    "by make_map": make_map,
    "by |": lambda items: FrozenMap() | items,
    "by pickle": lambda items: pickle.loads(pickle.dumps(freeze_map(items, "it"))),
}


class TestFrozenMap:
    """A dict that never changes."""

    @given(small, small)
    def test_is_read_as_a_dict(self, items, others):
        """Whatever a dict answers, and pyrsistent's map, it answers, too."""
        frozen = FrozenMap(items)

        assert items == frozen
        assert frozen == items
        assert frozen == pmap(items)
        assert (items == others) == (frozen == others) == (frozen == FrozenMap(others))
        assert [*items.items()] == [*frozen.items()]
        assert [*items] == [*frozen]
        assert [*items.values()] == [*frozen.values()]
        assert [*reversed(items)] == [*reversed(frozen)]
        assert len(items) == len(frozen)
        assert bool(items) == bool(frozen)
        assert repr(items) == repr(frozen)
        assert items == {**frozen} == dict(frozen)
        assert json.dumps(items) == json.dumps(frozen)
        assert orjson.dumps(items) == orjson.dumps(frozen)
        assert isinstance(frozen, dict)
        assert isinstance(frozen, Mapping)
        for key in (*items, *others):
            assert (key in items) == (key in frozen)
            assert items.get(key, 5) == frozen.get(key, 5)
            if key not in items:
                with pytest.raises(KeyError):
                    frozen[key]

    @given(small, st.randoms(use_true_random=False))
    def test_hash(self, items, random):
        """Equal ones hash alike, whatever their order; and are keys."""
        keys = [*items]
        random.shuffle(keys)
        one, other = FrozenMap(items), FrozenMap({key: items[key] for key in keys})

        equal_values_hash_alike(one, other)
        assert {one: 1} == {other: 1}
        assert hash(one) == hash(one)

    def test_hash_is_made_once(self):
        """However often it is asked for; and asks for its values'."""
        asked = []

        class Value:
            def __hash__(self):
                asked.append(self)
                return 1

        frozen = FrozenMap(a=Value())
        hash(frozen)
        hash(frozen)

        assert 1 == len(asked)
        assert isinstance(frozen, Hashable)
        with pytest.raises(TypeError, match="unhashable type: 'list'"):
            hash(FrozenMap(a=[]))

    @pytest.mark.parametrize("made", MADE.values(), ids=MADE)
    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    @pytest.mark.parametrize("is_hashed", [False, True])
    def test_never_changes(self, change, made, is_hashed):
        """
        Every method that changes a dict is refused with what to do instead, and changes
        nothing.
        """
        frozen = made({"a": 1})
        number = hash(frozen) if is_hashed else None

        with pytest.raises((TypeError, AttributeError)) as raised:
            change(frozen)

        assert {"a": 1} == frozen
        assert number in {None, hash(frozen)}
        assert hash(FrozenMap({"a": 1})) == hash(frozen)
        if raised.type is TypeError:
            assert f"a {type(frozen).__name__} can't be changed; " in str(raised.value)
            assert "m | {...} is a changed copy" in str(raised.value)

    def test_every_method_of_a_dict(self):
        """
        None that changes a dict is forgotten: those that are left to it only read.
        """
        reads = {
            *("__class_getitem__", "__contains__", "__eq__", "__ge__", "__getitem__"),
            *("__getattribute__", "__gt__", "__iter__", "__le__", "__len__", "__lt__"),
            *("__ne__", "__repr__", "__reversed__", "__ror__", "__sizeof__", "__doc__"),
            *("get", "items", "keys", "values"),
            "fromkeys",  # makes another one, item by item, which is refused
            "__init__",  # as of any frozen attrs class, it is not called twice
            "__new__",
        }

        assert {*vars(dict)} - reads <= {*vars(FrozenMap)}
        with pytest.raises(TypeError, match="can't be changed"):
            FrozenMap.fromkeys("a")

    @given(small, small)
    def test_or(self, items, others):
        """``m | other`` is a changed one; ``dict | m`` a dict."""
        frozen = FrozenMap(items)
        both = frozen | others

        assert items | others == both
        assert [*(items | others)] == [*both]
        assert FrozenMap is type(both)
        assert items == frozen
        assert items | others == items | FrozenMap(others)
        assert dict is type(items | FrozenMap(others))
        assert both == frozen | UserDict(others) == frozen | pmap(others)
        with pytest.raises(TypeError):
            frozen | [("a", 1)]

    def test_or_is_not_checked(self):
        """
        A changed copy is not a checked one: what is put in is frozen by whom it is
        given to.
        """
        changed = freeze_map({"a": 1}, "it") | {"b": [1]}

        assert not isinstance(changed, JsonMap)
        assert (1,) == UserMessage("", metadata=changed).metadata["b"]
        with pytest.raises(ValueError, match="which JSON can't represent"):
            freeze_map(EMPTY_MAP | {"b": {1}}, "it")

    @given(metadata())
    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_is_pickled(self, protocol, items):
        """
        In every protocol, as what it is, and not with its hash: texts hash
        differently in another process.
        """
        for kind in (JsonMap, SortedJsonMap, FrozenMap):
            frozen = kind(freeze_map(items, "it"))
            hash(frozen)
            copied = pickle.loads(pickle.dumps(frozen, protocol))

            assert frozen == copied
            assert [*frozen] == [*copied]
            assert kind is type(copied)
            assert not hasattr(copied, "_hash")
            assert hash(frozen) == hash(copied)

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_nothing_is_pickled_as_nothing(self, protocol):
        """The empty map of all values is itself afterwards."""
        assert EMPTY_MAP is pickle.loads(pickle.dumps(EMPTY_MAP, protocol))
        message = pickle.loads(pickle.dumps(UserMessage("", name="a"), protocol))
        assert EMPTY_MAP is message.metadata

    @given(metadata())
    def test_is_its_own_copy(self, items):
        """It can't be changed, so one is enough."""
        for frozen in (freeze_map(items, "it"), FrozenMap(items)):
            assert frozen is frozen.copy() is copy.copy(frozen)

        frozen = freeze_map(items, "it")
        assert frozen is copy.deepcopy(frozen)

    @pytest.mark.parametrize("made", MADE.values(), ids=MADE)
    def test_weak_references(self, made):
        """It can be referred to weakly, and is freed with its last reference."""
        frozen = made({"a": 1})
        reference = weakref.ref(frozen)

        assert frozen is reference()
        del frozen
        gc.collect()
        assert reference() is None


class TestMakeMap:
    @given(small)
    def test_as_its_kind(self, items):
        """Sorted or as given; of nothing the empty map."""
        assert [*items] == [*make_map(items, JsonMap)]
        assert sorted(items) == [*make_map(items)]
        assert items == make_map(items) == make_map(items, JsonMap)
        for kind in (JsonMap, SortedJsonMap):
            made = make_map(items, kind)
            assert kind is type(made) if items else made is EMPTY_MAP


class TestFreeze:
    @given(json_values())
    def test_undone_by_thaw(self, value):
        """
        Thawing what was frozen gives back the value, in one order; equal values freeze
        alike, also what is frozen already.
        """
        frozen = freeze(value, "it")

        assert value == thaw(frozen)
        assert json.dumps(value, sort_keys=True) == json.dumps(thaw(frozen))
        assert frozen == freeze(frozen, "it")
        equal_values_hash_alike(frozen, freeze(copy.deepcopy(value), "it"))

    def test_subclasses_are_made_plain(self):
        """Of subclasses of text and numbers, the plain value is kept."""
        note = Text("a")
        frozen = freeze([note, Code.OK, True], "it")

        assert (str, int, bool) == tuple(map(type, frozen))  # type: ignore[arg-type]
        assert ("a", 200, True) == frozen
        assert [str] == [*map(type, freeze_map({note: 1}, "it"))]

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            (2**64, "it is an integer that does not fit in 64 bits; make it a text"),
            (-(2**63) - 1, "it is an integer that does not fit in 64 bits"),
            (float("-inf"), "it is -inf, which JSON can't represent"),
            ([0.5, float("nan")], "it[1] is nan, which JSON can't represent"),
            (["a", "\ud800"], "it[1] holds '\\ud800' at position 0"),
            ({"a": [0, {"b": {1}}]}, "it.a[1].b is {1}, which JSON can't represent"),
            ({"a": {1: 2}}, "it.a has the key 1; keys of JSON are text"),
            ([{None: 2}], "it[0] has the key None; keys of JSON are text"),
            ({"a\udfff": 1}, "a key of it holds '\\udfff' at position 1, half of a"),
            (object, "it is <class 'object'>, which JSON can't represent"),
        ],
    )
    def test_what_json_cannot_hold(self, value, problem):
        """Refused with the caller's own error, which has the path and the value."""

        class MyError(Exception):
            pass

        with pytest.raises(MyError) as raised:
            freeze(value, "it", MyError)

        assert problem in str(raised.value)

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
        """However large the value is, an error shows a line of it."""
        with pytest.raises(ValueError) as raised:
            freeze({1: 2} | {("x" * 1000,): 1}, "it")
        with pytest.raises(ValueError) as larger:
            freeze({"a": {"x" * 1000, 1}}, "it")

        assert 150 > len(str(raised.value))
        assert 150 > len(str(larger.value))


class TestFreezeMap:
    @given(metadata())
    def test_takes_what_was_checked(self, value):
        """As it is, without reading it; its order is not taken for sorted."""
        frozen = freeze_map(value, "it")
        kept = freeze_map(value, "it", keep_order=True)

        assert frozen is freeze_map(frozen, "it")
        assert frozen is freeze_map(frozen, "it", keep_order=True)
        assert kept is freeze_map(kept, "it", keep_order=True)
        assert json.dumps(value) == json.dumps(thaw(kept))
        assert json.dumps(thaw(frozen)) == json.dumps(thaw(freeze_map(kept, "it")))

    def test_counts_levels_of_what_was_checked(self):
        """What was checked on its own may be nested too deeply in something else."""
        inside = freeze_map({"a": nested(98)}, "it")

        assert freeze_map({"b": inside}, "it")
        with pytest.raises(ValueError, match="nested more than 100 levels deep"):
            freeze_map({"c": {"b": inside}}, "it")

    def test_nothing_is_one_map(self):
        """Empty maps are all the same one, wherever they are and come from."""
        empties: list[Any] = [JsonMap(), SortedJsonMap(), FrozenMap(), {}, UserDict()]
        for empty in (*empties, pmap()):
            assert EMPTY_MAP is freeze_map(empty, "it")
            assert EMPTY_MAP is freeze_map(empty, "it", keep_order=True)
            assert EMPTY_MAP is freeze_map({"a": [empty]}, "it")["a"][0]

    def test_who_takes_it(self):
        """All that have metadata take a checked map without reading it."""
        frozen = freeze_map({"b": [1], "a": {"c": 2}}, "it")
        for value in (
            UserMessage("", metadata=frozen),
            TextPart("", metadata=frozen),
            ToolCall("", "f", metadata=frozen),
            ToolInfo("f", metadata=frozen),
            Document("", "", frozen),
        ):
            assert frozen is value.metadata

        for value in (
            UserMessage("", unknown=frozen),
            TextPart("", unknown=frozen),
            ToolCall("", "f", unknown=frozen),
            ToolInfo("f", unknown=frozen),
            Document("", "", unknown=frozen),
        ):
            assert frozen is value.unknown

        assert frozen is UnknownPart(frozen).raw
        assert frozen is UnknownMessage(frozen).raw
        usage = Usage(extra={"b": 1, "a": 2})
        assert usage.extra is attrs.evolve(usage, prompt_tokens=1).extra

    def test_order_of_what_is_merged(self):
        """
        Metadata of chunks stay sorted; unknown fields keep the order they came in.
        """
        first, last = {"b": {"z": 1}}, {"a": 1, "b": {"y": 2}}
        whole = concat(
            [AssistantMessage("", metadata=m, unknown=m) for m in (first, last)]
        )

        assert '{"a": 1, "b": {"y": 2, "z": 1}}' == json.dumps(whole.metadata)
        assert '{"b": {"z": 1, "y": 2}, "a": 1}' == json.dumps(whole.unknown)
        assert whole.metadata is UserMessage("", metadata=whole.metadata).metadata
        unsorted = whole.replace(metadata=whole.unknown)
        assert encode(whole) == encode(unsorted)

    def test_where_order_is_kept(self):
        """
        Metadata and categories of usage are sorted, so that equal ones are written as
        the same bytes; other data, and schemas, keep their order.
        """
        backwards = {"b": 1, "a": {"d": 2, "c": 3}}
        sorted_text = '{"a": {"c": 3, "d": 2}, "b": 1}'

        assert sorted_text == json.dumps(UserMessage("", metadata=backwards).metadata)
        assert ["a", "b"] == [*Usage(extra={"b": 1, "a": 2}).extra]

        schema: Any = ToolInfo("f", "", {"type": "object", "$defs": backwards}).schema
        for kept in (
            UnknownPart(backwards).raw,
            UnknownMessage(backwards).raw,
            UserMessage("", unknown=backwards).unknown,
            TextPart("", unknown=backwards).unknown,
            ToolCall("", "f", unknown=backwards).unknown,
            Document("", "", unknown=backwards).unknown,
            schema["$defs"],
        ):
            assert json.dumps(backwards) == json.dumps(kept)


class TestThaw:
    def test_is_a_copy(self):
        """Changing it changes nothing else."""
        frozen = freeze_map({"a": [1]}, "it")
        thaw(frozen)["a"].append(2)

        assert {"a": [1]} == thaw(frozen)


class TestCheckText:
    @pytest.mark.parametrize(
        "text", ["ab\ud800", "ab\udc00\ud800", "ab\udfff\U0001f600"]
    )
    def test_surrogates(self, text):
        """Half of a surrogate pair is refused: where it is, and what to do."""
        with pytest.raises(ValueError) as raised:
            check_text(text, "it")

        assert f"it holds {text[2]!a} at position 2, half of a" in str(raised.value)
        assert "replace it, with U+FFFD say" in str(raised.value)


class TestIsSameJson:
    """Values that Python's ``==`` does not tell apart, and JSON does."""

    @pytest.mark.parametrize(
        ("value", "other"),
        [
            (1, 1.0),
            (1, True),
            ([1, [2]], [1, [2.0]]),
            ({"a": [0]}, {"a": [False]}),
            ([1], [1, 1]),
            ({"a": 1}, {"a": 1, "b": 1}),
            ("1", 1),
        ],
    )
    def test_others(self, value, other):
        """A value of another type, at any depth, is another value."""
        frozen = freeze(value, "it")
        assert not is_same_json(frozen, freeze(other, "it"))
        assert is_same_json(frozen, freeze(copy.deepcopy(value), "it"))


def test_values_of_two_kinds():
    """A value equals none of another kind, though all their fields are equal."""
    assert TextPart("a") != RefusalPart("a")
    assert TextPart("a") == TextPart("a")
    assert UserMessage("a") != SystemMessage("a")
