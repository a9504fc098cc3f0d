"""Tools: what a model gets as their description, and which of them."""

import json
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from conversation_state._persistent import thaw
from conversation_state.codec import decode, encode
from conversation_state.errors import (
    ConversationStateError,
    InvalidMessageError,
    InvalidToolError,
)
from conversation_state.testing.strategies import parameters, texts
from conversation_state.tools import (
    Parameter,
    ToolCall,
    ToolChoice,
    ToolInfo,
    parameters_schema,
)
from tests.processes import run_script

TYPES = "array, boolean, integer, null, number, object, string"
TEXT = Parameter("string")
NEEDED = Parameter("string", required=True)
# As Pydantic describes a model that holds itself.
NODE = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
}


def refused(make: Callable[[], object]) -> str:
    """The message of the error that *make* raises."""
    with pytest.raises(InvalidToolError) as raised:
        make()

    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, ConversationStateError)
    return str(raised.value)


def nested(levels: int) -> Parameter:
    """A parameter of so many levels."""
    made = TEXT
    for _ in range(levels - 1):
        made = Parameter("object", properties={"a": made})

    return made


class TestToolCall:
    def test_is_frozen_deeply(self):
        """What a caller changes later has no effect, in metadata and unknown fields."""
        given = {"a": [{"b": [1]}]}
        call = ToolCall("c1", "f", metadata=given, unknown=given)
        given["a"].append({})

        assert call.metadata == call.unknown == {"a": ({"b": (1,)},)}

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"id": 5}, "ToolCall.id is 5; expected a str"),
            ({"name": None}, "ToolCall.name is None; expected a str"),
            ({"arguments": {}}, "ToolCall.arguments is {}; expected the JSON text"),
            ({"arguments": "\ud800"}, "half of a surrogate pair"),
            ({"type": 5}, "ToolCall.type is 5; expected a str"),
            ({"index": -1}, "ToolCall.index is -1; expected a position"),
            ({"index": True}, "ToolCall.index is True; expected a position"),
            ({"index": 2**63}, "expected a position in the response, from 0 on, or"),
            ({"metadata": [1]}, "ToolCall.metadata is [1]; expected a mapping"),
            ({"unknown": {"id": 1}}, "ToolCall.unknown has 'id', a field this version"),
        ],
    )
    def test_refuses(self, fields, message):
        """What a field can't hold: what was given, and what is expected."""
        with pytest.raises(InvalidMessageError) as raised:
            ToolCall(**{"id": "c1", "name": "f", **fields})

        assert message in str(raised.value)


@pytest.mark.parametrize("make", [ToolCall, ToolInfo])
def test_notes_have_names(make):
    """Metadata and what a newer version wrote are given by name only."""
    with pytest.raises(TypeError, match="positional arguments"):
        make("a", "b", "", {})


class TestToolChoice:
    def test_values(self):
        """Each is its own word in lower case, and may stand where a text may."""
        assert ["forbidden", "allowed", "forced"] == list(ToolChoice)
        assert '"forced"' == json.dumps(ToolChoice.FORCED)
        assert ToolChoice.FORBIDDEN is ToolChoice("forbidden")


class TestRoom:
    def test_is_light(self):
        """The extra is imported only when a function is inspected."""
        script = (
            "import sys, conversation_state.tools as t; t.ToolInfo('t');"
            "print({'msgspec', 'docstring_parser'} & {*sys.modules})"
        )
        done = run_script(script)

        assert "set()" == done.strip()


class TestParameter:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"type": "String"}, f"type is 'String'; expected one of {TYPES}"),
            ({"type": str}, f"type is <class 'str'>; expected one of {TYPES}"),
            ({"type": "obj\ud800"}, "type is 'obj\\ud800'; expected one of"),
            ({"description": None}, "description is None; expected a str"),
            ({"required": 1}, "required is 1; expected a bool"),
            ({"enum": "abc"}, "enum is 'abc'; expected a sequence of"),
            ({"enum": {"a": 1}}, "enum is {'a': 1}; expected a sequence"),
            ({"enum": ["a", 1]}, "enum has 1; expected string"),
            ({"enum": [None]}, "enum has None; expected string"),
            ({"enum": ["a", "b", "a"]}, "enum has 'a' more than once"),
            ({"enum": ["\udfff"]}, "enum has a value that holds '\\udfff'"),
            # JSON's types are kept apart, also where Python's are not.
            ({"type": "integer", "enum": [True]}, "enum has True; expected integer"),
            ({"type": "integer", "enum": [1.0]}, "enum has 1.0; expected integer"),
            ({"type": "number", "enum": [False]}, "enum has False; expected number"),
            ({"type": "boolean", "enum": [0]}, "enum has 0; expected boolean"),
            # It knows no difference between 1 and 1.0, and no NaN.
            ({"type": "number", "enum": [1, 1.0]}, "enum has 1 more than once"),
            ({"type": "number", "enum": [math.nan]}, "enum has "),
            ({"type": "number", "enum": [2**64]}, "enum has "),
            ({"type": "array", "enum": [[]]}, "enum has values for an array; an enum"),
            ({"type": "object", "enum": [{}]}, "enum has values for an object; an en"),
            ({"items": TEXT}, "items are given for a string; only an array"),
            ({"type": "array", "items": NEEDED}, "items are required; an array holds"),
            ({"type": "array", "items": "string"}, "items is 'string'; expected a Par"),
            ({"properties": {"a": TEXT}}, "properties are given for a string; only"),
            ({"properties": {"": TEXT}}, "properties has a parameter with an empty"),
            ({"properties": [TEXT]}, "properties is [Parameter(type='string"),
            ({"properties": {"a": None}}, "properties has None for 'a'; expected"),
        ],
    )
    def test_refuses(self, given, message):
        """What makes no sense is refused where it is made."""
        problem = refused(lambda: Parameter(**{"type": "string", **given}))

        assert problem.startswith(f"Parameter.{message}")

    def test_levels(self):
        """As deep as a schema given as JSON may be, and no deeper."""
        tool = ToolInfo("t", "", {"a": nested(45)})

        assert tool.schema == ToolInfo("t", "", tool.schema).parameters
        assert "Parameter is nested more than 45 levels deep" == refused(
            lambda: nested(46)
        )

    def test_is_frozen(self):
        """Neither it nor what it was made of can be changed."""
        values, properties = ["a"], {"a": TEXT}
        choice = Parameter("string", enum=values)
        thing = Parameter("object", properties=properties)
        values.append("b")
        properties.clear()

        assert ("a",) == choice.enum
        assert {"a": TEXT} == dict(thing.properties)
        with pytest.raises(AttributeError):
            choice.type = "null"  # type: ignore[misc]


class TestParametersSchema:
    def test_all(self):
        """All fields of a parameter are in its schema, and nothing else."""
        schema = parameters_schema(
            {
                "z": Parameter("integer", "how many", required=True, enum=[3, 1]),
                "a": Parameter(
                    "array",
                    required=True,
                    items=Parameter(
                        "object",
                        "a leg",
                        properties={
                            "to": Parameter("string", required=True),
                            "by": Parameter("array"),
                            "at": Parameter("null", required=True),
                        },
                    ),
                ),
                "m": Parameter("object"),
            }
        )

        leg = {
            "type": "object",
            "description": "a leg",
            "properties": {
                "at": {"type": "null"},
                "by": {"type": "array"},
                "to": {"type": "string"},
            },
            "required": ["at", "to"],
        }
        assert {
            "type": "object",
            "properties": {
                "a": {"type": "array", "items": leg},
                "m": {"type": "object"},
                "z": {"type": "integer", "description": "how many", "enum": [3, 1]},
            },
            "required": ["a", "z"],
        } == thaw(schema)

    @given(st.dictionaries(texts(min_size=1), parameters(), max_size=4))
    def test_is_a_schema(self, given):
        """
        What it gives is JSON Schema 2020-12, frozen, in the order of what it was
        given.
        """
        schema = parameters_schema(given)
        backwards = parameters_schema(dict(reversed(given.items())))

        Draft202012Validator.check_schema(thaw(schema))
        assert schema == backwards
        assert hash(schema) == hash(backwards)
        assert [*given] == [*schema["properties"]] == [*thaw(schema)["properties"]]
        assert [*reversed(given)] == [*backwards["properties"]]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (None, "parameters is None; expected a mapping of names to Parameter"),
            ({"a": {"type": "string"}}, "parameters has {'type': 'string'} for 'a'; "),
            ({"": TEXT}, "parameters has a parameter with an empty name; name it "),
        ],
    )
    def test_refuses(self, given, message):
        """What is not a mapping of names to parameters."""
        assert refused(lambda: parameters_schema(given)).startswith(message)


class TestToolInfo:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"name": ""}, "ToolInfo.name is empty; a model calls a tool by its name"),
            ({"description": None}, "ToolInfo.description is None; expected a str"),
            ({"metadata": {"a": {1}}}, "ToolInfo.metadata.a is {1}, which JSON can't"),
            ({"unknown": {"name": 1}}, "ToolInfo.unknown has 'name', a field this ve"),
            (
                {"parameters": 5},
                "ToolInfo.parameters is 5; expected a mapping of names",
            ),
            (
                {"parameters": {"a": TEXT, "b": "string"}},
                "ToolInfo.parameters has a Parameter for some names and something else",
            ),
            (
                {"parameters": {"type": "string"}},
                "ToolInfo.parameters has \"type\": 'string'; a tool takes an object,",
            ),
            (
                {"parameters": {"city": {"type": "string"}}},
                'ToolInfo.parameters has no "type"; a tool takes an object, so a JSON ',
            ),
            (
                {"parameters": {"type": ["string", "null"]}},
                "ToolInfo.parameters has \"type\": ['string', 'null']; a tool takes an",
            ),
            (
                {"parameters": {"type": "array", "properties": {}}},
                "ToolInfo.parameters has \"type\": 'array'; a tool takes an object",
            ),
            ({"parameters": {"type": "object", "a": 2**70}}, "ToolInfo.parameters.a i"),
        ],
    )
    def test_refuses(self, given, message):
        """What can't be described to a model is refused where it is made."""
        assert refused(lambda: ToolInfo(**{"name": "t", **given})).startswith(message)

    def test_takes_nothing(self):
        """Nothing is not the same as nothing in particular."""
        nothing, empty = ToolInfo("t"), ToolInfo("t", "", {})

        assert nothing.parameters is None
        assert nothing.schema is None
        assert nothing != empty
        assert {"type": "object", "properties": {}} == thaw(empty.schema)

    def test_takes_parameters(self):
        """Parameters are kept, whatever their names, and their schema is made."""
        each = {"type": TEXT, "properties": TEXT}
        tool = ToolInfo("t", "", each)

        assert each == dict(tool.parameters or {})
        assert parameters_schema(each) == tool.schema

    @pytest.mark.parametrize(
        "given",
        [
            {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
            {"$ref": "https://example.org/schema"},
            {"allOf": [{"type": "object"}, {"required": ["a"]}]},
            {"anyOf": [{"type": "string"}, {"type": "object"}]},
            {"type": ["object", "null"]},
            {"properties": {"type": "string"}},
            {"properties": {"type": {"type": "string"}}},
            {"enum": [1, {"a": 1}]},
            {"const": {}},
            {"not": {"type": "string"}},
            {"type": "object", "default": None, "x": [1, None]},
        ],
        ids=str,
    )
    def test_takes_any_schema_of_an_object(self, given):
        """
        Whether or not it has a ``type`` of its own; and writes it, and reads it again,
        as a schema and not as parameters of such names.
        """
        tool = ToolInfo("t", "", given)

        assert given == thaw(tool.schema)
        assert tool.schema is tool.parameters
        assert tool == decode(encode(tool))
        assert given == thaw(decode(encode(tool)).schema)

    def test_each_keyword_makes_a_schema(self):
        """A mapping with any keyword that can describe an object is a JSON Schema."""
        keywords = (
            "const enum $ref $dynamicRef $recursiveRef allOf anyOf oneOf not if then "
            "else properties patternProperties additionalProperties propertyNames "
            "unevaluatedProperties required minProperties maxProperties "
            "dependentRequired dependentSchemas dependencies"
        )
        for keyword in keywords.split():
            schema = {keyword: {}, "title": "A"}

            assert schema == ToolInfo("f", parameters=schema).schema, keyword

        assert "a tool takes an object, so a JSON Schema" in refused(
            lambda: ToolInfo("f", parameters={"title": "A"})
        )

    def test_distinguishes_schemas_from_parameters(self):
        """On the wire, too, where both look alike."""
        schema = ToolInfo("t", "", {"properties": {"type": "string"}})
        named = ToolInfo("t", "", {"properties": Parameter("string")})
        wrapped = ToolInfo("t", "", {"schema": Parameter("string")})

        assert 3 == len({schema, named, wrapped})
        assert (schema, named, wrapped) == tuple(
            decode(encode(tool)) for tool in (schema, named, wrapped)
        )
