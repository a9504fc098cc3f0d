"""
The rules of the strict provider, each held by the smallest request that breaks it.
"""

import json
import random

import pytest

from conversation_state.testing.provider import HOSTS, RULES, WIRES, judge
from tests.recorded import LARGE

# The hosts that recorded requests of Chat Completions went to, by the model's name.
_HOST_OF_MODEL = {
    "mistral": "mistral",
    "magistral": "mistral",
    "deepseek": "deepseek",
}


def exchanges(wire):
    """The recorded exchanges of *wire*, or a skipped test where there are none."""
    path = LARGE / "requests" / f"{wire}.jsonl"
    if not path.exists():
        pytest.skip(f"there are no recorded requests at {path}")

    with path.open() as lines:
        return [json.loads(line) for line in lines]


def host_of(request):
    """Who took the request."""
    model = str(request.get("model", ""))
    for begin, host in _HOST_OF_MODEL.items():
        if model.startswith(begin):
            return host

    return "api"


def broken(value, random_):
    """
    *value* with one of its values replaced by something of another type, or left out.
    """
    if isinstance(value, dict) and value:
        key = random_.choice(sorted(value))
        if random_.random() < 0.3:
            return {name: each for name, each in value.items() if name != key}

        return {**value, key: broken(value[key], random_)}

    if isinstance(value, list) and value:
        at = random_.randrange(len(value))
        return [*value[:at], broken(value[at], random_), *value[at + 1 :]]

    return random_.choice([None, 1, "", "x", [], {}, True, [1], {"type": "text"}, 0.5])


class TestJudge:
    @pytest.mark.parametrize("wire", WIRES)
    def test_recorded(self, wire):
        """
        Every request that a provider took is accepted by the rules of who took it.
        """
        for exchange in exchanges(wire):
            request = exchange["request"]

            assert () == judge(wire, request, level=host_of(request)), exchange["name"]

    @pytest.mark.parametrize("wire", WIRES)
    def test_broken_requests(self, wire):
        """A request of whatever form gets an answer, and never an exception."""
        random_ = random.Random(0)
        for exchange in exchanges(wire):
            for _ in range(100):
                request = broken(exchange["request"], random_)
                for _ in range(random_.randrange(3)):
                    request = broken(request, random_)

                for refusal in judge(wire, request):
                    assert refusal.path

    @pytest.mark.parametrize("wire", ["openai_chat", "openai_responses"])
    def test_deep_arguments(self, wire):
        """Arguments that are nested too deeply for the parser are refused."""
        call = {"name": "f", "arguments": "[" * 100_000}
        item = {"type": "function_call", "call_id": "c", **call}
        body = {"model": "m", "input": [item]}
        if wire == "openai_chat":
            calls = [{"id": "c", "type": "function", "function": call}]
            answer = {"role": "assistant", "tool_calls": calls}
            body = {"model": "m", "messages": [answer]}

        rules = [refusal.rule.name for refusal in judge(wire, body)]
        assert "arguments_broken" in rules

    def test_levels(self):
        """A level is a name or several, and hosts have what the API has."""
        body = {"contents": [{"role": "user", "parts": [{"text": ""}]}]}

        assert () == judge("gemini", body, level="api")
        assert () == judge("gemini", body, level="bedrock")
        assert ["empty_text"] == [
            refusal.rule.name for refusal in judge("gemini", body, level="vertex")
        ]
        assert judge("gemini", body) == judge("gemini", body, level=["api", "vertex"])
        assert () == judge("gemini", body, without=["empty_text"])

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ({"wire": "soap"}, "unknown wire='soap'"),
            ({"level": "azur"}, "unknown level='azur'"),
            ({"without": ["empty"]}, "unknown rule in without: 'empty'"),
        ],
    )
    def test_unknown_names(self, arguments, expected):
        """An unknown wire, level or rule is an error that says what there is."""
        wire = arguments.pop("wire", "gemini")

        with pytest.raises(ValueError, match=expected):
            judge(wire, {}, **arguments)

    def test_rules(self):
        """Names are unique in a wire, sources are addresses, and hosts are known."""
        assert len({(rule.wire, rule.name) for rule in RULES}) == len(RULES)
        for rule in RULES:
            assert rule.source.startswith("https://")
            assert {*rule.by, *rule.taken_by} <= {"api", "reference", *HOSTS}
