"""
Documents: the results of a search, kept through JSON.
"""

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
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
    """
    *document* with *value* as its *name*.
    """
    changed: Document = getattr(document, f"with_{name}")(value)
    return changed


def through_json(document: Document) -> Document:
    """
    The metadata as another program reads it from JSON text.
    """
    return Document("1", "text", json.loads(json.dumps(thaw(document.metadata))))


class TestConstruct:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"id": 5}, "Document.id is 5; expected a str"),
            ({"id": None}, "Document.id is None; expected a str"),
            ({"content": b"a"}, "Document.content is b'a'; expected a str"),
            ({"content": "a\ud800"}, "Document.content holds '\\ud800' at position 1"),
            ({"metadata": [1]}, "Document.metadata is [1]; expected a mapping"),
            ({"metadata": None}, "Document.metadata is None; expected a mapping"),
            ({"metadata": {"a": math.nan}}, "Document.metadata.a is nan"),
            ({"metadata": {1: 2}}, "Document.metadata has the key 1"),
            ({"unknown": {"id": 1}}, "Document.unknown has 'id', a field"),
        ],
    )
    def test_refuses_other_values(self, given, message):
        """
        What is wrong is named with its field.
        """
        with pytest.raises(InvalidDocumentError) as raised:
            Document(**{"id": "1", "content": "", **given})

        assert str(raised.value).startswith(message)
        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, ConversationStateError)

    def test_may_be_empty(self):
        """
        A document without id and content is valid.
        """
        empty = Document("", "")

        assert ("", "", {}) == (empty.id, empty.content, dict(empty.metadata))

    def test_unknown_by_keyword(self):
        """
        What a newer version wrote is named: it could be taken for metadata.
        """
        make: Any = Document

        assert {"x": 1} == make("1", "", {}, unknown={"x": 1}).unknown
        with pytest.raises(TypeError):
            make("1", "", {}, {"x": 1})

    def test_is_its_content_as_text(self):
        """
        `str` gives what a prompt is to have.
        """
        assert "Zürich\n" == str(Document("1", "Zürich\n").with_score(1))

    def test_notices_no_change_of_what_it_was_given(self):
        """
        The metadata are its own, however the caller goes on with theirs.
        """
        mine = {"tags": ["a"]}
        document = Document("1", "", mine)
        mine["tags"].append("b")
        mine["more"] = []

        assert Document("1", "", {"tags": ["a"]}) == document


class TestSaid:
    """
    The results of a search: properties and verbs alike.
    """

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
        """
        It is read from plain JSON as it was before, types and all.
        """
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
        """
        The order of additions makes no difference.
        """
        there, back = document, document
        for name in NAMES:
            there = with_(there, name, getattr(other, name))

        for name in reversed(NAMES):
            back = with_(back, name, getattr(other, name))

        assert there == back
        assert [getattr(other, n) for n in NAMES] == [getattr(there, n) for n in NAMES]


class TestScore:
    @pytest.mark.parametrize("given", [1, 1.0, Fraction(1), Decimal("1.0")])
    def test_is_a_float(self, given):
        """
        Any number does; it is read as a float.
        """
        score = EMPTY.with_score(given).score

        assert 1.0 == score
        assert float is type(score)

    def test_integer_of_another_system(self):
        """
        An integer 1 in the metadata reads as 1.0; the original read 0.
        """
        score = Document("1", "", {"_score": 1}).score

        assert 1.0 == score
        assert float is type(score)

    def test_zero_is_not_none(self):
        """
        A score of 0 is a score.
        """
        assert 0.0 == EMPTY.with_score(0).score
        assert EMPTY != EMPTY.with_score(0)

    @pytest.mark.parametrize("foreign", [True, "0.5", None, [0.5], {}])
    def test_something_else_is_refused(self, foreign):
        """
        What is not a number is not a score.
        """
        assert Document("1", "", {"_score": foreign}).score is None

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (True, "score is True, which is no number"),
            ("0.5", "score is '0.5', which is no number"),
            (b"1", "score is b'1', which is no number"),
            ([1], "score is [1], which is no number"),
            (1j, "score is 1j, which is no number"),
            (math.nan, "score is nan, which JSON can't represent"),
            (-math.inf, "score is -inf, which JSON can't represent"),
            (10**400, "score is an invalid number: int too large"),
        ],
    )
    def test_refuses(self, given, message):
        """
        What is not a finite number.
        """
        with pytest.raises(InvalidDocumentError) as raised:
            EMPTY.with_score(given)

        assert str(raised.value).startswith(message)


class TestSubIndexes:
    @given(st.lists(texts()))
    def test_any_texts(self, names):
        """
        Any texts in any iterable, in their order; empty is not the same as unknown.
        """
        document = EMPTY.with_sub_indexes(iter(names))

        assert tuple(names) == document.sub_indexes
        assert tuple(names) == through_json(document).sub_indexes

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("abc", "sub_indexes are 'abc'; expected several names"),
            ({"a": 1}, "sub_indexes are {'a': 1}; expected several names"),
            (5, "sub_indexes are 5; expected several names"),
            (["a", 5], "one of the sub_indexes is 5; expected a str"),
            (["\udfff"], "one of the sub_indexes holds '\\udfff'"),
        ],
    )
    def test_refuses(self, given, message):
        """
        One text is not several, and what is not text is not a name.
        """
        with pytest.raises(InvalidDocumentError) as raised:
            EMPTY.with_sub_indexes(given)

        assert str(raised.value).startswith(message)

    @pytest.mark.parametrize("foreign", ["abc", ["a", 1], [["a"]], {"a": "b"}])
    def test_something_else_is_refused(self, foreign):
        """
        A value that is not a list of texts counts as none.
        """
        assert Document("1", "", {"_sub_indexes": foreign}).sub_indexes is None


class Scalar:
    """
    A number of another library's.
    """

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value

    def __index__(self):
        return int(self.value)


class Whole:
    """
    An integer of another library's.
    """

    def __index__(self):
        return 7


class Array:
    """
    A sequence of another library's.
    """

    def __getitem__(self, at):
        return [Scalar(0.5), Scalar(2.0)][at]


class TestDenseVector:
    @given(st.lists(FLOATS | st.integers(-(2**63), 2**64 - 1), max_size=8))
    def test_floats(self, vector):
        """
        Any finite numbers, read as floats; integers of other systems too.
        """
        read = EMPTY.with_dense_vector(vector).dense_vector
        foreign = Document("1", "", {"_dense_vector": vector}).dense_vector

        assert tuple(map(float, vector)) == read == foreign
        assert {*map(type, read), *map(type, foreign)} <= {float}

    def test_of_another_library(self):
        """
        Arrays and scalars that know what floats they are.
        """
        array: Any = Array()
        whole: Any = [Whole()]

        assert (0.5, 2.0) == EMPTY.with_dense_vector(array).dense_vector
        assert (7.0,) == EMPTY.with_dense_vector(whole).dense_vector

    def test_of_any_iterable(self):
        """
        Also of what can only be read once.
        """
        numbers: Any = iter([0.5, 2])

        assert (0.5, 2.0) == EMPTY.with_dense_vector(numbers).dense_vector

    def test_is_not_copied(self):
        """
        A vector is as long as it is; reading one and changing something else
        costs nothing.
        """
        document = EMPTY.with_dense_vector([0.5] * 100_000)

        assert document.dense_vector is document.dense_vector
        assert document.dense_vector is document.with_score(1).dense_vector

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("abc", "dense_vector is 'abc'; expected a sequence of numbers"),
            (b"abc", "dense_vector is b'abc'; expected a sequence of numbers"),
            ({1: 0.5}, "dense_vector is {1: 0.5}; expected a sequence of numbers"),
            (5, "dense_vector is 5; expected a sequence of numbers"),
            ({0.5}, "dense_vector is {0.5}; expected a sequence of numbers"),
            ([0.5, "1"], "dense_vector has '1', which is no number"),
            ([0.5, True], "dense_vector has True, which is no number"),
            ([0.5, None], "dense_vector has None, which is no number"),
            ([[0.5]], "dense_vector has [0.5], which is no number"),
            ([0.5, math.inf], "dense_vector has inf, which JSON can't represent"),
            ([Decimal("NaN")], "dense_vector has nan, which JSON can't represent"),
        ],
    )
    def test_refuses(self, given, message):
        """
        What is not a sequence of finite numbers.
        """
        with pytest.raises(InvalidDocumentError) as raised:
            EMPTY.with_dense_vector(given)

        assert str(raised.value) == message

    def test_refuses_what_fails_to_be_one(self):
        """
        A number that can't be a float.
        """
        with pytest.raises(InvalidDocumentError, match="has an invalid number: cannot"):
            EMPTY.with_dense_vector([Decimal("sNaN")])  # type: ignore[list-item]

    def test_refuses_rows_of_a_matrix(self):
        """
        A row of numpy's is called a number, and fails to be one.
        """

        class Row:
            def __float__(self):
                raise TypeError("only length-1 arrays can be converted")

        with pytest.raises(InvalidDocumentError, match="has an invalid number: only"):
            EMPTY.with_dense_vector([Row()])  # type: ignore[list-item]

    @pytest.mark.parametrize("foreign", ["abc", [0.5, "a"], [True], {"0": 0.5}, [None]])
    def test_something_else_is_refused(self, foreign):
        """
        What is not a list of numbers is not a vector.
        """
        assert Document("1", "", {"_dense_vector": foreign}).dense_vector is None


class TestSparseVector:
    @pytest.mark.parametrize("dimension", [-(2**63), 2**63 - 1])
    def test_farthest_dimensions(self, dimension):
        """
        Dimensions are integers of 64 bits, the least and the largest, too.
        """
        document = EMPTY.with_sparse_vector({dimension: 0.5})
        foreign = Document("1", "", {"_sparse_vector": {str(dimension): 0.5}})

        assert {dimension: 0.5} == document.sparse_vector == foreign.sparse_vector

    @given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), FLOATS, max_size=4))
    def test_integers_to_floats(self, vector):
        """
        Dimensions are texts on the wire, and integers again when read.
        """
        document = EMPTY.with_sparse_vector(vector)
        read = through_json(document).sparse_vector

        assert vector == read == document.sparse_vector
        assert isinstance(read, FrozenMap)
        assert {str(key) for key in vector} == set(document.metadata["_sparse_vector"])

    def test_of_another_library(self):
        """
        Dimensions and numbers that know what they are.
        """
        vector: Any = {Scalar(7.0): Scalar(0.5)}

        assert FrozenMap({7: 0.5}) == EMPTY.with_sparse_vector(vector).sparse_vector

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ([0.5], "sparse_vector is [0.5]; expected a mapping of dimensions"),
            ({"1": 0.5}, "sparse_vector has the dimension '1'; expected an integer"),
            ({1.0: 0.5}, "sparse_vector has the dimension 1.0; expected an integer"),
            ({True: 0.5}, "sparse_vector has the dimension True; expected an integer"),
            ({2**63: 0.5}, f"sparse_vector has the dimension {2**63}; expected an int"),
            (
                {-(2**63) - 1: 0.5},
                f"sparse_vector has the dimension {-(2**63) - 1}; ex",
            ),
            ({1: "a"}, "sparse_vector has 'a', which is no number"),
            ({1: math.nan}, "sparse_vector has nan, which JSON can't represent"),
        ],
    )
    def test_refuses(self, given, message):
        """
        What is not a mapping of integers to finite numbers.
        """
        with pytest.raises(InvalidDocumentError) as raised:
            EMPTY.with_sparse_vector(given)

        assert str(raised.value).startswith(message)

    @pytest.mark.parametrize(
        "foreign",
        [
            [0.5],
            "abc",
            {"a": 0.5},
            {"": 0.5},
            {"01": 0.5},
            {"1_0": 0.5},
            {" 1": 0.5},
            {"+1": 0.5},
            {"-0": 0.5},
            {"٣": 0.5},
            {str(2**63): 0.5},
            {"9" * 5_000: 0.5},
            {"1": "0.5"},
            {"1": True},
            {"1": 0.5, "a": 0.5},
        ],
    )
    def test_something_else_is_refused(self, foreign):
        """
        What is not a mapping of integers, each written one way, to numbers.
        """
        assert Document("1", "", {"_sparse_vector": foreign}).sparse_vector is None


class TestDsl:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("match", "dsl is 'match'; expected a mapping of names to JSON values"),
            ({"a": {1}}, "dsl.a is {1}, which JSON can't represent"),
        ],
    )
    def test_refuses(self, given, message):
        """
        What JSON can't hold is not a query.
        """
        with pytest.raises(InvalidDocumentError) as raised:
            EMPTY.with_dsl(given)

        assert str(raised.value) == message

    def test_empty_is_not_none(self):
        """
        An empty query is one.
        """
        assert FrozenMap() == EMPTY.with_dsl({}).dsl
        assert Document("1", "", {"_dsl": [1]}).dsl is None

    def test_equal_is_not_the_same(self):
        """
        A query that is equal, and written as something else, is another one.
        """
        found = EMPTY.with_dsl({"a": [1]})

        assert found is found.with_dsl({"a": [1]})
        assert {"a": (2,)} == found.with_dsl({"a": [2]}).dsl
        assert "True" in repr(found.with_dsl({"a": [True]}).dsl)
        assert "1.0" in repr(found.with_dsl({"a": [1.0]}).dsl)


class TestExtraInfo:
    @pytest.mark.parametrize("given", [5, b"a", ["a"], "\ud800"])
    def test_refuses(self, given):
        """
        An invalid value reads as None.
        """
        with pytest.raises(InvalidDocumentError) as raised:
            EMPTY.with_extra_info(given)

        assert str(raised.value).startswith("extra_info ")

    def test_empty_is_not_none(self):
        """
        An empty text is one.
        """
        assert "" == EMPTY.with_extra_info("").extra_info
        assert Document("1", "", {"_extra_info": 5}).extra_info is None
