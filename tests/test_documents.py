"""Documents: the results of a search, kept through JSON."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conversation_state._persistent import FrozenMap, thaw
from conversation_state.codec import decode, encode
from conversation_state.documents import Document
from conversation_state.errors import ConversationStateError, InvalidDocumentError
from conversation_state.testing.strategies import documents, json_values, texts

EMPTY = Document("1", "text")

# What each property reads and each verb writes, under the name of the originals.
FIELDS: list[Any] = [
    ("score", "_score", 0.5),
    ("sub_indexes", "_sub_indexes", ("a", "b")),
    ("dense_vector", "_dense_vector", (0.5, -1.0)),
    ("sparse_vector", "_sparse_vector", {3: 0.5, -7: 1.0}),
    ("dsl", "_dsl", {"match": {"text": ("Bern",)}}),
    ("extra_info", "_extra_info", "page 3"),
]
NAMES = [name for name, _, _ in FIELDS]
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def with_(document: Document, name: str, value: Any) -> Document:
    """*document* with *value* as its *name*."""
    changed: Document = getattr(document, f"with_{name}")(value)
    return changed


def through_json(document: Document) -> Document:
    """The metadata as another program reads it from JSON text."""
    return Document("1", "text", json.loads(json.dumps(thaw(document.metadata))))


class TestConstruct:
    def test_unknown_by_keyword(self):
        """What a newer version wrote is named: it could be taken for metadata."""
        make: Any = Document

        assert {"x": 1} == make("1", "", {}, unknown={"x": 1}).unknown
        with pytest.raises(TypeError):
            make("1", "", {}, {"x": 1})

    def test_is_its_content_as_text(self):
        """`str` gives what a prompt is to have."""
        assert "Zürich\n" == str(Document("1", "Zürich\n").with_score(1))

    def test_notices_no_change_of_what_it_was_given(self):
        """The metadata are its own, however the caller goes on with theirs."""
        mine = {"tags": ["a"]}
        document = Document("1", "", mine)
        mine["tags"].append("b")

        assert Document("1", "", {"tags": ["a"]}) == document


class TestProperties:
    """The results of a search: properties and verbs alike."""

    @pytest.mark.parametrize(("name", "key", "value"), FIELDS)
    def test_reads_what_was_written(self, name, key, value):
        """
        The property gives what the verb was given; the document before does
        not have it.
        """
        document = with_(EMPTY, name, value)

        assert value == getattr(document, name)
        assert {key} == set(document.metadata)
        assert getattr(EMPTY, name) is None
        assert {} == dict(EMPTY.metadata)

    @pytest.mark.parametrize(("name", "key", "value"), FIELDS)
    def test_keeps_the_rest(self, name, key, value):
        """
        Everything else in a document stays as it was, when something is added and when
        it is removed.
        """
        full = Document("1", "text", {"a": 1}, unknown={"b": 2})

        written = with_(full, name, value)

        assert ("1", "text") == (written.id, written.content)
        assert {"a": 1, key: written.metadata[key]} == dict(written.metadata)
        assert {"b": 2} == dict(written.unknown)
        assert full == with_(written, name, None)

    @pytest.mark.parametrize(("name", "key", "value"), FIELDS)
    def test_is_the_same_if_nothing_changes(self, name, key, value):
        """
        Adding what is there already, or removing what is not there, gives the document
        itself.
        """
        written = with_(EMPTY, name, value)
        read = through_json(written)

        assert written is with_(written, name, value)
        assert read is with_(read, name, value)
        assert EMPTY is with_(EMPTY, name, None)

    @pytest.mark.parametrize(("name", "key", "value"), FIELDS)
    def test_survives_json(self, name, key, value):
        """It is read from plain JSON as it was before, types and all."""
        written = with_(EMPTY, name, value)
        read = getattr(through_json(written), name)

        assert written == through_json(written)
        assert value == read
        assert type(getattr(written, name)) is type(read)
        assert value == getattr(decode(encode(written)), name)

    @pytest.mark.parametrize("name", NAMES)
    @given(foreign=json_values())
    def test_reads_any_metadata(self, name, foreign):
        """
        Whatever another system put there is kept; it is read as what it should
        be, or as None.
        """
        document = Document("1", "", {f"_{name}": foreign})
        read = getattr(document, name)

        assert foreign == thaw(document.metadata[f"_{name}"])
        assert read is None or read == getattr(with_(EMPTY, name, read), name)

    @given(documents(), documents())
    def test_verbs_commute(self, document, other):
        """The order of additions makes no difference."""
        there, back = document, document
        for name in NAMES:
            there = with_(there, name, getattr(other, name))

        for name in reversed(NAMES):
            back = with_(back, name, getattr(other, name))

        assert there == back
        assert [getattr(other, n) for n in NAMES] == [getattr(there, n) for n in NAMES]


def with_field(name: str) -> Any:
    """The verb that changes the field *name* of a document."""
    return getattr(EMPTY, f"with_{name}")


BIG = str(2**63)


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (Document, {"id": 5, "content": ""}, "Document.id is 5; expected a str"),
        (
            *(Document, {"id": "", "content": "a\ud800"}),
            "Document.content holds '\\ud800' at position 1",
        ),
        (
            *(Document, {"id": "", "content": "", "metadata": {"a": math.nan}}),
            "Document.metadata.a is nan",
        ),
        (
            *(Document, {"id": "", "content": "", "unknown": {"id": 1}}),
            "Document.unknown has 'id', a field",
        ),
        ("score", True, "score is True, which is no number"),
        ("score", "0.5", "score is '0.5', which is no number"),
        ("score", -math.inf, "score is -inf, which JSON can't represent"),
        ("score", 10**400, "score is an invalid number: int too large"),
        ("sub_indexes", "abc", "sub_indexes are 'abc'; expected several names"),
        ("sub_indexes", 5, "sub_indexes are 5; expected several names"),
        ("sub_indexes", ["a", 5], "one of the sub_indexes is 5; expected a str"),
        ("dense_vector", b"a", "dense_vector is b'a'; expected a sequence of numbers"),
        ("dense_vector", 0.5, "dense_vector is 0.5; expected a sequence of numbers"),
        ("dense_vector", {0.5}, "dense_vector is {0.5}; expected a sequence of num"),
        ("dense_vector", [0.5, True], "dense_vector has True, which is no number"),
        ("dense_vector", [0.5, math.inf], "dense_vector has inf, which JSON can't"),
        ("dense_vector", [Decimal("sNaN")], "dense_vector has an invalid number: can"),
        ("sparse_vector", [0.5], "sparse_vector is [0.5]; expected a mapping of dim"),
        ("sparse_vector", {1.0: 1}, "sparse_vector has the dimension 1.0; expected"),
        ("sparse_vector", {2**63: 1}, f"sparse_vector has the dimension {BIG}; expect"),
        ("sparse_vector", {1: "a"}, "sparse_vector has 'a', which is no number"),
        ("dsl", "match", "dsl is 'match'; expected a mapping of names to JSON values"),
        ("dsl", {"a": {1}}, "dsl.a is {1}, which JSON can't represent"),
        ("extra_info", "\ud800", "extra_info holds"),
    ],
)
def test_refuses(make, given, message):
    """What is invalid is named with its field."""
    with pytest.raises(InvalidDocumentError) as raised:
        make(**given) if make is Document else with_field(make)(given)

    assert str(raised.value).startswith(message)
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, ConversationStateError)


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        *[("score", each) for each in (True, "0.5", [0.5])],
        *[("sub_indexes", each) for each in ("abc", ["a", 1])],
        *[("dense_vector", each) for each in ("abc", [0.5, "a"], [True], {"0": 0.5})],
        *[("sparse_vector", {key: 0.5}) for key in ("a", "01", "1_0", "+1", "٣", BIG)],
        *[("sparse_vector", each) for each in ([0.5], {"1": True}, {"1": 1, "a": 1})],
        ("dsl", [1]),
        ("extra_info", 5),
    ],
)
def test_reads_nothing_else(name, foreign):
    """What another system put there is not guessed: the property is None."""
    assert getattr(Document("1", "", {f"_{name}": foreign}), name) is None


class Scalar:
    """A number of another library's."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value

    def __index__(self):
        return int(self.value)


class Array:
    """A sequence of another library's."""

    def __getitem__(self, at):
        return [Scalar(0.5), Scalar(2.0)][at]


class TestNumbers:
    @pytest.mark.parametrize("given", [1, Fraction(1), Decimal("1.0"), Scalar(1.0)])
    def test_score(self, given):
        """
        Any number does; it is read as a float, also one of another system, which
        eino reads as 0. A score of 0 is a score.
        """
        for document in (EMPTY.with_score(given), Document("1", "", {"_score": 1})):
            assert 1.0 == document.score
            assert float is type(document.score)

        assert 0.0 == EMPTY.with_score(0).score

    @given(st.lists(FLOATS | st.integers(-(2**63), 2**64 - 1), max_size=8))
    def test_dense_vector(self, vector):
        """Any finite numbers in any iterable, read as floats."""
        read = EMPTY.with_dense_vector(iter(vector)).dense_vector
        foreign = Document("1", "", {"_dense_vector": vector}).dense_vector

        assert tuple(map(float, vector)) == read == foreign
        assert {*map(type, read), *map(type, foreign)} <= {float}

    def test_of_another_library(self):
        """Arrays, scalars and dimensions that know what numbers they are."""
        array: Any = Array()
        vector: Any = {Scalar(7.0): Scalar(0.5)}

        assert (0.5, 2.0) == EMPTY.with_dense_vector(array).dense_vector
        assert FrozenMap({7: 0.5}) == EMPTY.with_sparse_vector(vector).sparse_vector

    def test_is_not_copied(self):
        """
        A vector is as long as it is; reading one and changing something else
        costs nothing.
        """
        document = EMPTY.with_dense_vector([0.5] * 100_000)

        assert document.dense_vector is document.dense_vector
        assert document.dense_vector is document.with_score(1).dense_vector

    @given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), FLOATS, max_size=4))
    @example({-(2**63): 0.5, 2**63 - 1: 0.5})
    def test_sparse_vector(self, vector):
        """Dimensions are texts on the wire, and integers again when read."""
        document = EMPTY.with_sparse_vector(vector)
        read = through_json(document).sparse_vector

        assert vector == read == document.sparse_vector
        assert isinstance(read, FrozenMap)
        assert {str(key) for key in vector} == set(document.metadata["_sparse_vector"])


class TestEmptyAndEqual:
    @given(st.lists(texts()))
    def test_sub_indexes(self, names):
        """
        Any texts in any iterable, in their order; empty is not the same as unknown.
        """
        document = EMPTY.with_sub_indexes(iter(names))

        assert tuple(names) == document.sub_indexes
        assert tuple(names) == through_json(document).sub_indexes

    def test_empty_is_not_none(self):
        """An empty query is one, and so is an empty text."""
        assert FrozenMap() == EMPTY.with_dsl({}).dsl
        assert "" == EMPTY.with_extra_info("").extra_info

    def test_equal_is_not_the_same(self):
        """A query that is equal, and written as something else, is another one."""
        found = EMPTY.with_dsl({"a": [1]})

        assert found is found.with_dsl({"a": [1]})
        assert {"a": (2,)} == found.with_dsl({"a": [2]}).dsl
        assert "True" in repr(found.with_dsl({"a": [True]}).dsl)
