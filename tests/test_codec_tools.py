"""Tools and templates on the wire."""

import json
from typing import Any

import pytest

from conversation_state.codec import decode, encode, from_data, to_data
from conversation_state.errors import DecodeError
from conversation_state.messages import UserMessage
from conversation_state.templates import Placeholder, Template
from conversation_state.tools import Parameter, ToolInfo


def document(kind: str, **fields: Any) -> dict[str, Any]:
    """A document of *kind* as plain JSON values."""
    return {"format": "conversation_state", "version": 1, "kind": kind, kind: fields}


def wrong(kind: str, **fields: Any) -> list[str]:
    """The problems of a document of *kind*, the same whichever way it is read."""
    data = document(kind, **fields)
    with pytest.raises(DecodeError) as caught:
        decode(json.dumps(data))

    with pytest.raises(DecodeError) as again:
        from_data(data)

    assert caught.value.problems == again.value.problems
    return [str(problem) for problem in caught.value.problems]


class TestTools:
    @pytest.mark.parametrize(
        ("written", "parameters"),
        [
            ({}, None),
            ({"parameters": {}}, {}),
            (
                {"parameters": {"type": {"type": "string"}}},
                {"type": Parameter("string")},
            ),
            ({"parameters": {"type": "object"}}, {"type": "object"}),
        ],
    )
    def test_what_a_tool_takes(self, written, parameters):
        """Nothing, no parameters, parameters and a schema are kept apart."""
        tool = ToolInfo("t", parameters=parameters)

        assert document("tool_info", name="t", **written) == to_data(tool)
        assert tool.parameters == decode(encode(tool)).parameters
        assert type(tool.parameters) is type(decode(encode(tool)).parameters)

    def test_keeps_order(self):
        """
        Keys of a schema are read in the order they were given in, which is what
        models read.
        """
        schema = {
            "type": "object",
            "properties": {
                "to": {"type": "string"},
                "at": {"enum": [{"b": 1, "a": 2}]},
            },
            "additionalProperties": False,
        }
        for tool in (
            ToolInfo("t", parameters=schema),
            ToolInfo("t", parameters={"$ref": "#", "$defs": schema}),
            ToolInfo(
                "t", parameters={"to": Parameter("null"), "at": Parameter("null")}
            ),
        ):
            read = decode(encode(tool))

            assert json.dumps(tool.json_schema()) == json.dumps(read.json_schema())
            assert '"to"' in json.dumps(read.schema).split('"at"')[0]

        assert json.dumps(schema) == json.dumps(ToolInfo("t", "", schema).schema)


class TestWrong:
    def test_all_at_once(self):
        """All problems of a tool are reported, each with its path."""
        found = wrong(
            "tool_info",
            description=5,
            metadata=[],
            parameters={
                "a": {"type": "text"},
                "b": {"type": "string", "enum": "ab", "required": 1},
                "c": {"description": "x", "default": 3},
                "d": {"type": "array", "items": {"type": "string", "required": True}},
                "e f": {"type": "object", "properties": {"g": None, "": {}}},
            },
        )

        types = "array, boolean, integer, null, number, object, string"
        at = "$.tool_info.parameters"
        required = (
            "are required; an array holds any number of items, so only the array "
            "itself can be"
        )
        assert [
            "$.tool_info.description: expected a text, got 5",
            "$.tool_info.metadata: expected an object, got an array",
            f"{at}.a.type: is 'text'; expected one of {types}",
            f"{at}.b.enum: expected an array, got 'ab'",
            f"{at}.b.required: expected true or false, got 1",
            f"{at}.c.type: missing",
            f"{at}.c.default: unknown field",
            f"{at}.d.items: {required}",
            f"{at}['e f'].properties.g: expected an object, got null",
            f"{at}['e f'].properties[''].type: missing",
            "$.tool_info.name: missing",
        ] == found

    @pytest.mark.parametrize(
        ("parameters", "where", "what"),
        [
            (5, "", "expected an object, got 5"),
            ({"a": "string"}, ".a", "expected an object, got 'string'"),
            ({"type": 5}, ".type", "expected an object, got 5"),
            ({"type": "string"}, "", "has \"type\": 'string'; a tool takes an object"),
            ({"": {"type": "null"}}, "", "has a parameter with an empty name"),
            (
                {"a": {"type": "integer", "enum": [1, True]}},
                ".a.enum",
                "has True; expected integer",
            ),
            (
                {"a": {"type": "string", "items": {"type": "null"}}},
                ".a.items",
                "are given for a string; only an array has items",
            ),
        ],
    )
    def test_parameters(self, parameters, where, what):
        """What no tool can take is refused where it stands."""
        (found,) = wrong("tool_info", name="t", parameters=parameters)

        assert found.startswith(f"$.tool_info.parameters{where}: {what}")

    def test_schema_json_can_not_hold(self):
        """What is wrong inside of a schema has a path, too."""
        data = document(
            "tool_info", name="", parameters={"type": "object", "a": [2**70]}
        )
        with pytest.raises(DecodeError) as caught:
            from_data(data)

        where = [problem.path for problem in caught.value.problems]
        assert ["$.tool_info.parameters.a[0]", "$.tool_info.name"] == where

    @pytest.mark.parametrize("place", ["enum", "default"])
    def test_oversized_integers(self, place):
        """An integer that is too large is not a float."""
        parameters = {
            "enum": {"a": {"type": "number", "enum": [2**70]}},
            "default": {"type": "object", "default": 2**70},
        }[place]
        data = document("tool_info", name="t", parameters=parameters)

        with pytest.raises(DecodeError, match="64 bits"):
            decode(json.dumps(data))

    @pytest.mark.parametrize("key", ["items", "properties"])
    @pytest.mark.parametrize("levels", [45, 46, 100_000])
    def test_deep(self, key, levels):
        """
        Parameters in parameters are read as deep as they can be made, and
        refused below.
        """
        kind = {"items": "array", "properties": "object"}[key]
        deep: dict[str, Any] = {"type": "null"}
        for _ in range(levels - 1):
            deep = {"type": kind, key: deep if key == "items" else {"a": deep}}

        data = document("tool_info", name="t", parameters={"a": deep})
        if levels <= 45:
            tool = from_data(data)

            assert tool == decode(encode(tool))
            assert tool.schema == ToolInfo("t", "", tool.schema).parameters
            return

        with pytest.raises(DecodeError) as caught:
            from_data(data)

        (problem,) = caught.value.problems
        assert "nested more than 45 levels deep" == problem.what


class TestTemplates:
    def test_are_written_shortly(self):
        """Default values are left out."""
        template = Template(UserMessage("{x}"), Placeholder("said"))

        assert (
            document(
                "template",
                items=[
                    {"message": {"role": "user", "content": "{x}"}},
                    {"placeholder": "said"},
                ],
            )
        ) == to_data(template)

    def test_wrong(self):
        """Every problem of every item is reported with its path."""
        items = [
            5,
            {},
            {"message": {}},
            {"placeholder": ""},
            {"placeholder": "a", "optional": 1, "more": 1},
        ]
        found = wrong("template", items=items, syntax=5, more=1)

        assert [
            "$.template.items[0]",
            "$.template.items[1].message",
            "$.template.items[2].message.role",
            "$.template.items[3]",
            "$.template.items[4].optional",
            "$.template.items[4].more",
            "$.template.syntax",
            "$.template.more",
        ] == [problem.partition(": ")[0] for problem in found]
        assert ["$.template.items: missing"] == wrong("template")
        assert wrong("template", items=[], syntax="perl")[0].startswith("$.template: ")
