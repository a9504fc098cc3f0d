"""Tools as each provider's requests have them."""

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import TypeAdapter

from conversation_state.adapters import (
    Lost,
    anthropic,
    gemini,
    openai_chat,
    openai_responses,
)
from conversation_state.errors import InvalidToolError
from conversation_state.testing.strategies import tool_infos
from conversation_state.tools import Parameter, ToolChoice, ToolInfo
from tests.adapters.helpers import PROVIDERS, table

CLOCK = ToolInfo("clock", "Tells the time.")
TRAINS = ToolInfo(
    "trains",
    "Finds trains.",
    {"to": Parameter("string", "A city.", required=True), "fast": Parameter("boolean")},
)
SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "A city."},
        "fast": {"type": "boolean"},
    },
    "required": ["to"],
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
CLOCK_NAME = {"name": "clock", "description": "Tells the time."}
TRAINS_NAME = {"name": "trains", "description": "Finds trains."}
RESPONSES = {"type": "function", "strict": False}


@pytest.fixture(params=PROVIDERS)
def adapter(request):
    """Each provider."""
    return PROVIDERS[request.param]


def schemas_in(payload):
    """The schema of each tool in a request, None where it has none."""
    for tool in payload.get("tools", ()):
        for each in tool.get("functionDeclarations", [tool]):
            inner = each.get("function", each)
            yield next(
                (
                    inner[key]
                    for key in ("parameters", "input_schema", "parametersJsonSchema")
                    if key in inner
                ),
                None,
            )


class TestForms:
    """What a provider's reference asks for."""

    @table(
        "adapter, choice, payload",
        {
            "Chat Completions: a function inside of each tool": (
                *(openai_chat, ToolChoice.ALLOWED),
                {
                    "tools": [
                        {"type": "function", "function": CLOCK_NAME},
                        {
                            "type": "function",
                            "function": {**TRAINS_NAME, "parameters": SCHEMA},
                        },
                    ],
                    "tool_choice": "auto",
                },
            ),
            "Responses: schemas are always there, and not strict": (
                *(openai_responses, ToolChoice.FORBIDDEN),
                {
                    "tools": [
                        {**CLOCK_NAME, **RESPONSES, "parameters": NOTHING},
                        {**TRAINS_NAME, **RESPONSES, "parameters": SCHEMA},
                    ],
                    "tool_choice": "none",
                },
            ),
            "Anthropic: an input schema, and a choice that is an object": (
                *(anthropic, ToolChoice.FORCED),
                {
                    "tools": [
                        {**CLOCK_NAME, "input_schema": NOTHING},
                        {**TRAINS_NAME, "input_schema": SCHEMA},
                    ],
                    "tool_choice": {"type": "any"},
                },
            ),
            "Gemini: declarations inside of one tool, with a JSON Schema": (
                *(gemini, ToolChoice.FORCED),
                {
                    "tools": [
                        {
                            "functionDeclarations": [
                                CLOCK_NAME,
                                {**TRAINS_NAME, "parametersJsonSchema": SCHEMA},
                            ]
                        }
                    ],
                    "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
                },
            ),
        },
    )
    def test_payload(self, adapter, choice, payload):
        """The keys of a request."""
        assert payload == adapter.dump_tools([CLOCK, TRAINS], choice=choice).payload

    def test_no_choice(self, adapter):
        """Without a choice the provider's default holds."""
        assert ["tools"] == list(adapter.dump_tools([CLOCK]).payload)

    @pytest.mark.parametrize("choice", [None, *ToolChoice])
    def test_no_tools(self, adapter, choice):
        """Providers refuse an empty list, and a choice without tools."""
        export = adapter.dump_tools([], choice=choice)

        assert {} == export.payload
        assert [("choice", "forced")] * (choice is ToolChoice.FORCED) == [
            (each.path, each.what) for each in export.lost
        ]


class TestAccepted:
    """What is written is what the official clients take."""

    @given(tools=tool_infos().map(lambda tool: [tool, CLOCK]))
    def test_json_and_schemas(self, tools):
        """
        Whatever the tool: plain JSON, schemas of an object, nothing dropped silently.
        """
        for adapter in PROVIDERS.values():
            export = adapter.dump_tools(tools)
            assert export.payload == json.loads(json.dumps(export.payload))
            schemas = [*schemas_in(export.payload)]
            left_out = {lost.path for lost in export.lost if "name" in lost.why}
            assert 2 == len(schemas) + len(left_out)
            for schema in schemas:
                if schema is not None:
                    assert "object" == schema["type"]

    def test_types_of_openai(self):
        """Chat Completions and Responses, by the types of the official client."""
        params: Any = pytest.importorskip("openai.types.chat.completion_create_params")
        types: Any = pytest.importorskip("openai.types.responses")
        chat = TypeAdapter(params.CompletionCreateParamsNonStreaming)
        tools = TypeAdapter(list[types.FunctionToolParam])
        for choice in ToolChoice:
            payload = openai_chat.dump_tools([CLOCK, TRAINS], choice=choice).payload
            chat.validate_python({"messages": [], "model": "m", **payload})
            payload = openai_responses.dump_tools([CLOCK], choice=choice).payload
            tools.validate_python(payload["tools"])
            assert payload["tool_choice"] in ("none", "auto", "required")

    def test_types_of_anthropic(self):
        """The same for Anthropic."""
        types: Any = pytest.importorskip("anthropic.types")
        tools = TypeAdapter(list[types.ToolParam])
        choices = TypeAdapter(types.ToolChoiceParam)
        for choice in ToolChoice:
            payload = anthropic.dump_tools([CLOCK, TRAINS], choice=choice).payload
            tools.validate_python(payload["tools"])
            choices.validate_python(payload["tool_choice"])

    def test_types_of_google(self):
        """The same for Gemini, unknown keys refused."""
        types: Any = pytest.importorskip("google.genai.types")
        for choice in ToolChoice:
            payload = gemini.dump_tools([CLOCK, TRAINS], choice=choice).payload
            types.GenerateContentConfig(**payload)


class TestLost:
    """What a provider's request can't have."""

    def test_names(self):
        """A tool with a name that the provider refuses is left out and listed."""
        tools = [CLOCK, ToolInfo("train times")]
        for adapter in PROVIDERS.values():
            export = adapter.dump_tools(tools)
            [lost] = export.lost
            assert ("tools[1]", "train times") == lost[:2]
            assert "letters, digits" in lost.why
            assert "train times" not in json.dumps(export.payload)

    def test_rules_differ(self):
        """A dot is fine for Gemini alone, long names for Anthropic."""
        dotted, long = ToolInfo("a.b"), ToolInfo("x" * 100)

        assert [1, 1, 1, 0] == [
            len(each.dump_tools([dotted]).lost) for each in PROVIDERS.values()
        ]
        assert [1, 1, 0, 1] == [
            len(each.dump_tools([long]).lost) for each in PROVIDERS.values()
        ]

    def test_same_name_twice(self, adapter):
        """Of two tools with one name the second is left out and listed."""
        export = adapter.dump_tools([CLOCK, TRAINS, ToolInfo("clock", "Another.")])

        why = "is the name of another tool before it"
        assert (Lost("tools[2]", "clock", why),) == export.lost
        assert "Another." not in json.dumps(export.payload)

    def test_alternatives_at_the_top(self):
        """OpenAI and Anthropic refuse alternatives at the top of a schema."""
        schema = {**SCHEMA, "anyOf": [{"required": ["to"]}, {"required": ["fast"]}]}
        tool = ToolInfo("trains", "", schema)

        assert [1, 1, 1, 0] == [
            len(each.dump_tools([tool]).lost) for each in PROVIDERS.values()
        ]
        [lost] = anthropic.dump_tools([tool]).lost
        assert ("tools[0].parameters", "anyOf") == lost[:2]
        assert [SCHEMA] == [*schemas_in(anthropic.dump_tools([tool]).payload)]
        assert [schema] == [*schemas_in(gemini.dump_tools([tool]).payload)]

    def test_refused_by_openai(self):
        """OpenAI refuses these at the top of a schema."""
        keys = ["allOf", "anyOf", "const", "enum", "not", "oneOf"]
        tool = ToolInfo("trains", "", {**SCHEMA, **{key: [{}] for key in keys}})

        assert keys == sorted(lost.what for lost in openai_chat.dump_tools([tool]).lost)

    def test_fields_of_a_newer_version(self, adapter):
        """What a newer version of this library wrote is listed."""
        tool = ToolInfo("clock", unknown={"strict": True})

        assert [("tools[0]", "strict")] == [
            lost[:2] for lost in adapter.dump_tools([tool]).lost
        ]


class TestArguments:
    """Arguments that are something else are refused."""

    @pytest.mark.parametrize(
        ("tools", "problem"),
        [
            (CLOCK, "put it into a list"),
            ({"clock": CLOCK}, "expected several ToolInfo"),
            ("clock", "expected several ToolInfo"),
            ([CLOCK, print], r"tools\[1\].*ToolInfo.from_function makes one"),
            ([{"name": "clock"}], r"tools\[0\].*expected a ToolInfo"),
        ],
    )
    def test_tools(self, adapter, tools, problem):
        """Tools are several `ToolInfo`."""
        with pytest.raises(InvalidToolError, match=problem):
            adapter.dump_tools(tools)

    @pytest.mark.parametrize("choice", ["required", 1, CLOCK])
    def test_choice(self, adapter, choice):
        """A choice is a `ToolChoice`."""
        with pytest.raises(
            InvalidToolError, match=r"expected ToolChoice\.FORBIDDEN, ToolChoice\."
        ):
            adapter.dump_tools([CLOCK], choice=choice)


def test_json_schema_is_ours_to_change():
    """`ToolInfo.json_schema` is plain JSON, new each time."""
    changed = TRAINS.json_schema()
    changed["properties"].clear()

    assert SCHEMA == TRAINS.json_schema()
    assert NOTHING == CLOCK.json_schema()
