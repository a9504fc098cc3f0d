"""Parsing: values out of models' answers, or all that is wrong with them."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
import sys
import types
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NewType,
    Optional,
    TypeVar,
)
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.codec import structure, to_data
from conversation_state.errors import DecodeError, ParseError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parsing import parse
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart
from conversation_state.testing import strategies as our
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Stop:
    city: str
    platform: int | None = None


@attrs.frozen
class Trip:
    stops: list[Stop]
    leaves: datetime
    price: Decimal = Decimal(0)
    colour: Colour = Colour.RED
    extra: dict[str, Any] = attrs.field(factory=dict)


@dataclasses.dataclass(frozen=True)
class Tree:
    value: float
    children: list[Tree] = dataclasses.field(default_factory=list)
    depth: int = dataclasses.field(init=False, default=0)


T = TypeVar("T")


@attrs.frozen
class Box(Generic[T]):
    content: T


@attrs.frozen
class Secret:
    _key: int
    count: int = attrs.field(default=0, alias="itemCount")
    made: int = attrs.field(init=False, default=7)


@attrs.frozen
class Cat:
    kind: Literal["cat"]
    lives: int


@attrs.frozen
class Dog:
    kind: Literal["dog"]
    lives: int


@attrs.frozen
class Even:
    number: int = attrs.field()

    @number.validator
    def _check_value(self, _attribute, value):
        if value % 2:
            raise ValueError("odd")


@attrs.frozen
class Positive:
    number: int = attrs.field(validator=attrs.validators.instance_of(bool))


@attrs.frozen
class Lost:
    where: Nowhere  # type: ignore[name-defined]  # noqa: F821 - on purpose


Id = NewType("Id", int)


def make_answer(text):
    """A model's answer."""
    return AssistantMessage(text)


def called(*arguments, names="fgh"):
    """A message with calls of f, g and h."""
    calls = zip(names, arguments, strict=False)
    return AssistantMessage(tool_calls=[ToolCall("1", n, a) for n, a in calls])


def wrong(message, type, **options):
    """What is wrong, a text each."""
    with pytest.raises(ParseError) as caught:
        parse(message, type, **options)

    return [str(problem) for problem in caught.value.problems]


def outcome(message, type, **options):
    """The value, or None and where something is wrong."""
    try:
        return parse(message, type, **options), []
    except ParseError as error:
        return None, [where for where, _ in error.problems] or ["nowhere"]


class TestContent:
    """Where the JSON of a text is."""

    @pytest.mark.parametrize(
        "text",
        [
            '{"a": "```"}',
            '\ufeff{"a": "```"}',
            '```json\n{"a": "```"}\n```',
            '```\n{"a": "```"}\n```',
            '~~~\n{"a": "```"}\n~~~',
            '````JSON title=x\n{"a":\n"```"}\n````\n',
            'Here:\n\n```json\n{"a": "```"}\n```\n\nGood luck!',
            '1. Here:\r\n\r\n   ```json\r\n   {"a": "```"}\r\n   ```\r\n',
            'Here:\n```json\n{"a": "```"}',
            'Here:\n```json\n\ufeff {"a": "```"}\n`````',
            '```python\nx = {}\n```\n```\n{"a": "```"}\n```',
            '```\n{"b": 1}\n```\n```json\n{"a": "```"}\n```\n```\n5\n```',
            '```\n{"b": \n```\n```\n{"a": "```"}\n```',
            '```json\n{"a": "```"}\n```\nAgain:\n```json\n\n{"a": "```"}\n```',
        ],
    )
    def test_found(self, text):
        """The whole text, or else what is in a fenced block."""
        assert {"a": "```"} == parse(make_answer(text), dict)

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("", "is empty; expected JSON"),
            ("```json\n```", "the fenced block: is empty; expected JSON"),
            (
                'Here is the result: {"a": 1}',
                (
                    "no JSON: it starts with 'Here is the result: {\"a\": 1}', and "
                    "there is no fenced block of JSON in it"
                ),
            ),
            (
                "See:\n```python\nx\n```",
                (
                    "no JSON: it starts with 'See:\\n```python\\nx\\n```', and there "
                    "is no fenced block of JSON in it, only of 'python'"
                ),
            ),
            (
                '{"a": 1} thanks',
                "not JSON: unexpected content after document (line 1, column 10)",
            ),
            ('\n\n {"a": 1,}', "not JSON: trailing comma is not allowed (line 3,"),
            ("[NaN]", "not JSON: "),
            ("~~~json\n[1]\n```", "the fenced block"),
            ("````json\n[\n```\n]\n````", "the fenced block: not JSON"),
            ("[1e999]", "not JSON: number is infinity"),
            ('["\\ud800"]', "not JSON: "),
            ("[" * 100_000, "not JSON: depth limit"),
            (
                "```json\n1\n```\n\n```json\n2\n```",
                "has different fenced blocks of JSON, at line 1 and line 5; expected",
            ),
            ("```\n1\n```\n```\nx\n```\n```\n2\n```", "has different fenced blocks"),
            ("```json\n1\n```\n```json\n{\n```", "the fenced block: not JSON"),
        ],
        ids=lambda text: ascii(text[:30]),
    )
    def test_not_found(self, text, what):
        """Nothing else is guessed; the error lists what is there."""
        (found,) = wrong(make_answer(text), object)

        assert f"$.content: {what}" in found

    def test_place_in_a_block(self):
        """Lines and columns are those of the text."""
        (found,) = wrong(make_answer('See\n```json\n\n  {"a": 1,}\n```'), dict)

        assert found.endswith("(line 4, column 10)")

    @pytest.mark.parametrize(
        ("message", "what"),
        [
            (
                AssistantMessage([RefusalPart("I won't.")]),
                'the model refused: "I won\'t."',
            ),
            (
                AssistantMessage([ReasoningPart("{}")]),
                "is empty; expected JSON (there is reasoning, which is no content)",
            ),
            (
                called("{}"),
                (
                    "is empty; expected JSON (this message calls tools; "
                    "source='tool_call' parses a call)"
                ),
            ),
            (
                called("{}").replace(content="[1"),
                "not JSON: unexpected end of data (line 1, column 3)",
            ),
            (UnknownMessage({"role": "judge"}), "is empty; expected JSON"),
        ],
        ids=["refusal", "reasoning", "calls", "text and calls", "unknown"],
    )
    def test_error_states_the_reason(self, message, what):
        """The error contains what the message knows about it."""
        assert [f"$.content: {what}"] == wrong(message, dict)

    @pytest.mark.parametrize(
        "reason",
        ["length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "interrupted"],
    )
    def test_cut_off(self, reason):
        """The error says so where the provider, or a stop, ended the answer."""
        message = AssistantMessage('{"a', response=ResponseMeta(reason))

        (found,) = wrong(message, dict)

        assert found.endswith(f" (it was cut off: finish_reason is {reason!r})")

    @pytest.mark.parametrize("kind", [SystemMessage, UserMessage, make_answer])
    def test_any_message(self, kind):
        """Messages of every role; text that came in pieces is one text."""
        assert [1] == parse(kind("[1]"), list)
        assert [1, 2] == parse(kind([TextPart("[1,"), TextPart("2]")]), list)
        assert [1] == parse(ToolMessage("[1]", tool_call_id="1"), list)
        assert [1] == parse(make_answer([TextPart("[1]"), RefusalPart("No.")]), list)

    def test_reads_exactly(self):
        """Integers of more than 64 bits; of a key given twice the last value."""
        assert 2**64 + 1 == parse(make_answer(str(2**64 + 1)), int)
        assert [-(2**70), "18446744073709551617", 0.5] == parse(
            make_answer(f'[{-(2**70)}, "18446744073709551617", 0.5]'), list
        )
        assert {"a": 2} == parse(make_answer('{"a": 1, "a": 2}'), dict)

    @pytest.mark.parametrize(
        "text",
        ["1" * 300, "[" * 1_000 + "1" * 30 + "]" * 1_000, "[" + "9" * 5_000 + "]"],
        ids=["long", "deep", "longer"],
    )
    def test_numbers_too_large(self, text):
        """Are read or refused, whatever Python's own limits are."""
        value, problems = outcome(make_answer(text), object)

        assert ["$.content"] == problems or json.loads(text) == value

    def test_large_texts(self):
        """A megabyte is read, and so are ten thousand fences."""
        block = json.dumps(["x" * 99] * 10_000)

        assert 10_000 == len(
            parse(make_answer(f"See:\n```json\n{block}\n```\n."), list)
        )
        for text in ("x" + " " * 10**6 + "x", "`" * 10**6, "x\n" + "```\n" * 10_001):
            assert 1 == len(wrong(make_answer(text), list))

    @given(our.json_values(), our.texts(), our.texts())
    def test_among_prose(self, value, before, after):
        """Whatever stands around a block that is labelled."""
        prose = [text.replace("`", "'").replace("~", "-") for text in (before, after)]
        text = f"{prose[0]}\nx\n```json\n{json.dumps(value)}\n```\n{prose[1]}"

        assert value == parse(make_answer(text), object)


class TestToolCall:
    """`parse(..., source="tool_call")`."""

    MESSAGE = called("[1]", "[2]", "[3]", names="fgf")

    @pytest.mark.parametrize(
        ("value", "call"),
        [(1, None), (1, 0), (2, 1), (3, -1), (1, -3), (1, "f"), (2, "g")],
    )
    def test_picks(self, value, call):
        """The first by default, by position as in Python, or the first of a name."""
        assert [value] == parse(self.MESSAGE, list, source="tool_call", call=call)

    @pytest.mark.parametrize(
        ("message", "call", "what"),
        [
            (MESSAGE, "x", "$.tool_calls: no call of 'x'; there are 3: 'f', 'g', 'f'"),
            (MESSAGE, 3, "$.tool_calls: no call at 3; there are 3: 'f', 'g', 'f'"),
            (
                called(*["{}"] * 12, names="abcdefghijkl"),
                12,
                "there are 12: 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j' and 2",
            ),
            (
                make_answer("{}"),
                None,
                "$.tool_calls: this AssistantMessage calls no tools",
            ),
            (called(""), None, "$.tool_calls[0].arguments: is empty; expected JSON"),
            (called("", "{"), "g", "$.tool_calls[1].arguments: not JSON: "),
            (called("```json\n{}\n```"), 0, "$.tool_calls[0].arguments: not JSON: "),
            (called("", '{"a": 1}'), -1, "$.tool_calls[1].arguments.b: missing"),
        ],
    )
    def test_what_is_wrong(self, message, call, what):
        """The calls there are, or where in which arguments."""

        @attrs.frozen
        class Arguments:
            b: int

        (found,) = wrong(message, Arguments, source="tool_call", call=call)

        assert what in found


class TestPath:
    """`parse(..., path=...)`."""

    MESSAGE = make_answer(
        '{"items": [{"name": "a"}, {"name": "b", "x.y": [5]}], "": {"0": 1}, "n": null}'
    )

    @pytest.mark.parametrize(
        ("value", "path"),
        [
            ("a", "items.0.name"),
            ("b", "items.-1.name"),
            ("b", ["items", 1, "name"]),
            (5, ("items", -1, "x.y", 0)),
            (1, ".0"),
            ({"0": 1}, [""]),
            (None, "n"),
            (json.loads(MESSAGE.text), ""),
        ],
    )
    def test_walks(self, value, path):
        """Keys, and positions where there is an array."""
        assert value == parse(self.MESSAGE, object, path=path)

    @pytest.mark.parametrize(
        ("path", "what"),
        [
            ("item.0", "$.content: has no key 'item'; it has 'items', '', 'n'"),
            ("items.2", "$.content.items: has no item '2'; it is an array of 2"),
            ("items.name", "$.content.items: has no item 'name'; it is an array of 2"),
            ("items." + "9" * 5_000, "$.content.items: has no item '999"),
            ("items.1.x.y", "$.content.items[1]: has no key 'x'; it has 'name', 'x.y'"),
            ("items.-1.x", "$.content.items[1]: has no key 'x'; it has 'name', 'x.y'"),
            ("items.0.name.z", "$.content.items[0].name: expected an object or an arr"),
            ([0], "$.content: has no item 0; it is an object"),
        ],
        ids=lambda value: str(value)[:30] if isinstance(value, str) else None,
    )
    def test_what_is_wrong(self, path, what):
        """Where it stopped, and what is there."""
        (found,) = wrong(self.MESSAGE, object, path=path)

        assert found.startswith(what)

    def test_lists_keys(self):
        """Ten keys at most, and how many more there are."""
        keys = {f"key {n:03}": n for n in range(500)}
        (found,) = wrong(make_answer(json.dumps(keys)), str, path="name")

        assert "it has 'key 000', 'key 001'" in found
        assert found.endswith("'key 009' and 490 more")
        (found,) = wrong(
            make_answer(json.dumps(dict.fromkeys("abcdefghij"))), str, path="k"
        )
        assert found.endswith("'i', 'j'")
        assert ["$.content: has no key 'a'; it has no key at all"] == wrong(
            make_answer("{}"), str, path="a"
        )

    def test_problems_go_on_from_there(self):
        """Paths in problems are those in the message."""
        assert ["$.content.items[0].name: expected an integer, got 'a'"] == wrong(
            self.MESSAGE, dict[str, int], path="items.0"
        )
        assert ["$.content.items[0].name: expected an integer, got 'a'"] == wrong(
            self.MESSAGE, int, path="items.0.name"
        )


class TestTypes:
    """What a value may become."""

    @pytest.mark.parametrize(
        ("value", "type", "raw"),
        [
            (Stop("Bern", 4), Stop, {"city": "Bern", "platform": 4, "more": [1]}),
            (
                Trip([Stop("a")], datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.50")),
                Trip,
                {
                    "stops": [{"city": "a"}],
                    "leaves": "2026-01-02T00:00:00Z",
                    "price": "1.50",
                },
            ),
            (Tree(1.0, [Tree(2.5)]), Tree, {"value": 1, "children": [{"value": 2.5}]}),
            (Box([Stop("a")]), Box[list[Stop]], {"content": [{"city": "a"}]}),
            (Secret(1, 2), Secret, {"key": 1, "itemCount": 2, "made": 3}),
            (Colour.RED, Colour, "red"),
            (Level.HIGH, Level, 2),
            ("a", Literal["a", 1], "a"),
            (Colour.RED, Literal[Colour.RED], "red"),
            (5, int, 5.0),
            (5.0, float, 5),
            (True, bool, True),
            (None, None, None),
            (5, Optional[int], 5),  # noqa: UP045 - both are there
            ([1, "a", None], list, [1, "a", None]),
            ({1}, set[int], [1, 1]),
            ((1, "a"), tuple[int, str], [1, "a"]),
            ((1, 2), tuple[int, ...], [1, 2]),
            ((), tuple[()], []),
            ({"a": 1}, Mapping[str, int], {"a": 1}),
            ({1: 2}, dict[Id, int], {"1": 2}),
            ({Colour.RED: 1}, dict[Colour, int], {"red": 1}),
            (datetime(2026, 1, 2, 3, 4), datetime, "2026-01-02T03:04"),  # noqa: DTZ001 - said without a zone
            (date(2026, 1, 2), date, "2026-01-02"),
            (time(3, 4), time, "03:04"),
            (UUID(int=5), UUID, "00000000-0000-0000-0000-000000000005"),
            (Decimal("1.50"), Decimal, "1.50"),
            (Decimal("1.5"), Decimal, 1.5),
            (b"\xff", bytes, "/w=="),
            (Path("a/b"), Path, "a/b"),
            (5, Annotated[int, "of trains"], 5),
            (5, Id, 5),
            ({"a": [1]}, Any, {"a": [1]}),
        ],
    )
    def test_values(self, value, type, raw):
        """
        Each kind of type, from what JSON has for it; keys that a class does
        not know are left out.
        """
        made = parse(make_answer(json.dumps(raw)), type)

        assert value == made
        assert value.__class__ is made.__class__
        assert repr(value) == repr(made)
        assert value == structure(raw, type)

    @pytest.mark.parametrize(
        ("what", "type", "raw"),
        [
            ("expected an integer, got '5'", int, "5"),
            ("expected an integer, got true", int, True),
            ("expected an integer, got 5.5", int, 5.5),
            ("expected a text, got 5", str, 5),
            ("expected a number, got '5'", float, "5"),
            ("expected true or false, got 1", bool, 1),
            ("expected null, got 0", None, 0),
            ("expected an integer, got 'a'", int | None, "a"),
            ("expected an integer or a text, got 5.5", int | str, 5.5),
            ("expected one of 'a', 1, got true", Literal["a", 1], True),
            ("expected one of 'red', 'green', got 'blue'", Colour, "blue"),
            ("expected one of 1, 2, got true", Level, True),
            ("expected an array, got 'abc'", list[str], "abc"),
            ("expected an array, got an object", list[str], {"a": 1}),
            ("expected an array of 2 items, got one of 1", tuple[int, str], [1]),
            ("expected an object, got an array", dict[str, int], [["a", 1]]),
            ("expected an object, got an array", Stop, ["Bern"]),
            ("expected different keys", dict[int, str], {"0": "b", "-0": "c"}),
            ("expected a time, like ", datetime, "noon"),
            ("expected a date, like ", date, "2026-01-02T03:04"),
            ("expected a UUID, got '5'", UUID, "5"),
            ("expected a number, or a text of one, got 'NaN'", Decimal, "NaN"),
            (
                "expected a number, or a text of one, got '1e99",
                Decimal,
                "1e" + "9" * 19,
            ),
            ("expected a text that is base64, got '?'", bytes, "?"),
        ],
    )
    def test_is_strict(self, what, type, raw):
        """No value is taken for another that it resembles."""
        what = what.replace("['a']", "an array")
        (found,) = wrong(make_answer(json.dumps(raw)), type)

        assert found.startswith(f"$.content: {what}")

    def test_reports_all_problems(self):
        """Each with its path, the missing and the unhashable too."""
        raw = {
            "stops": [{"city": 5}, {}, {"city": "a", "platform": "4"}, 7],
            "leaves": "noon",
            "price": [],
            "colour": "blue",
            "extra": 5,
        }

        assert [
            "$.content.stops[0].city: expected a text, got 5",
            "$.content.stops[1].city: missing",
            "$.content.stops[2].platform: expected an integer, got '4'",
            "$.content.stops[3]: expected an object, got 7",
            "$.content.leaves: expected a time, like 2025-12-31T23:59:59Z, got 'noon'",
            "$.content.price: expected a number, or a text of one, got an array",
            "$.content.colour: expected one of 'red', 'green', got 'blue'",
            "$.content.extra: expected an object, got 5",
        ] == wrong(make_answer(json.dumps(raw)), Trip)
        assert [
            "$.content['a b']: expected an array, got 'x'",
            "$.content.c[1]: expected an integer, got 'y'",
        ] == wrong(
            make_answer('{"a b": "x", "c": [1, "y"]}'), dict[str, int | list[int]]
        )
        assert [
            "$.content.key: missing",
            "$.content.itemCount: expected an integer, got 'x'",
        ] == wrong(make_answer('{"itemCount": "x"}'), Secret)
        assert ["$.content.x: expected an integer, got 'x'"] == wrong(
            make_answer('{"x": 1}'), dict[int, int]
        )
        (unhashable,) = wrong(make_answer("[[1]]"), set[list[int]])
        # In Python's words, of which 3.14 has more.
        assert re.fullmatch(r"\$\.content: .*unhashable type: 'list'\)?", unhashable)

    def test_reports_at_most_a_hundred(self):
        """However many items are wrong, and however deep."""
        many = wrong(make_answer(json.dumps([1] * 100_000)), list[str])
        deep = wrong(
            make_answer(json.dumps([[[1] * 100] * 100] * 100)), list[list[list[str]]]
        )

        assert 100 == len(many)
        assert "$.content[99]: expected a text, got 1" == many[-1]
        assert 100 <= len(deep) <= 102

    @pytest.mark.parametrize(
        ("value", "type", "raw"),
        [
            (Dog("dog", 1), Cat | Dog, {"kind": "dog", "lives": 1}),
            (Cat("cat", 1), Cat | Dog | None, {"kind": "cat", "lives": 1}),
            (None, Cat | Dog | None, None),
            (Stop("a"), Stop | Secret | str, {"city": "a", "more": 1}),
            (Secret(5), Stop | Secret | str, {"key": 5}),
            ("a", Stop | Secret | str, "a"),
            ([1], str | list[int], [1]),
            (5, int | float, 5),
            (5.0, int | float, 5.0),
            (5.0, float | str, 5),
            (True, int | bool, True),
            ("2026-01-02", str | date, "2026-01-02"),
            ("none", Literal["none"] | int, "none"),
        ],
    )
    def test_unions(self, value, type, raw):
        """
        A value of one of JSON's own types is taken as it is; of several classes the one
        whose Literal or whose required field is there.
        """
        made = parse(make_answer(json.dumps(raw)), type)

        assert value == made
        assert value.__class__ is made.__class__

    @pytest.mark.parametrize(
        ("what", "type", "raw"),
        [
            (
                ".lives: expected an integer, got 'x'",
                Cat | Dog,
                {"kind": "dog", "lives": "x"},
            ),
            (": expected Cat or Dog, got an object", Cat | Dog, {"kind": "bird"}),
            (": expected Cat or Dog, got an object", Cat | Dog, {"kind": []}),
            (": expected Cat or Dog, got an object", Cat | Dog, {"lives": 5}),
            (": expected an object, got 5", Stop | None, 5),
            (
                ": expected an integer or Stop or Secret, got 'x'",
                int | Stop | Secret,
                "x",
            ),
            (": expected an integer or a text, got 5.5", int | str, 5.5),
        ],
    )
    def test_unions_that_fit_not(self, what, type, raw):
        """The members, or what is wrong with the one it is."""
        assert [f"$.content{what}"] == wrong(make_answer(json.dumps(raw)), type)

    def test_reports_errors_of_a_class(self):
        """With its message, at its path; the first such exception is the cause."""
        with pytest.raises(ParseError) as caught:
            parse(
                make_answer('{"a": {"number": 1}, "b": {"number": 2}}'), dict[str, Even]
            )

        assert [("$.content.a", "odd")] == list(caught.value.problems)
        assert isinstance(caught.value.__cause__, ValueError)
        assert "odd" == str(caught.value.__cause__)
        assert (
            caught.value.problems == pickle.loads(pickle.dumps(caught.value)).problems
        )

        (found,) = wrong(make_answer('{"number": 1}'), Positive)
        assert found.startswith("$.content: 'number' must be <class 'bool'>")
        with pytest.raises(ParseError) as caught:
            parse(make_answer("5"), str)
        assert caught.value.__cause__ is None

    def test_deep(self):
        """A class that holds itself is read as deep as it goes, or refused."""
        for depth in (10, 100, 300, 340):
            text = '{"value":1,"children":[' * depth + "]}" * depth
            made, problems = outcome(make_answer(text), Tree)

            # Two, where the stack ends inside of an object with two fields.
            assert isinstance(made, Tree) or (depth > 100 and len(problems) in (1, 2))

    @pytest.mark.parametrize(
        ("kind", "what"),
        [
            (complex, "can't read complex from JSON: Unsupported type"),
            (list[complex], r"can't read list\[complex\] from JSON, nor complex in it"),
            (Box[complex], "nor complex in it"),
            (Box, "Missing type for generic argument T"),
            (5, "can't read 5 from JSON"),
            (
                list[int] | list[str],
                "members of this union can't be distinguished in JSON",
            ),
            (
                Stop | dict[str, int],
                "members of this union can't be distinguished in JSON",
            ),
            (Stop | Usage, "members of this union can't be distinguished in JSON"),
            (Even | Positive, "can't read .*Even.*Positive"),
            (Lost, "can't read Lost from JSON: name 'Nowhere' is not defined"),
            (T, "can't read ~T from JSON"),
        ],
        ids=str,
    )
    def test_refuses_unsupported_types(self, kind, what):
        """Before anything is looked at."""
        for message in (make_answer(""), make_answer("{}")):
            with pytest.raises(TypeError, match=what):
                parse(message, kind)

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="`type` is new in 3.12")
    def test_aliases(self):
        """Types written with `type`."""
        names: dict[str, Any] = {}
        exec("type Level = int\ntype Levels = list[Level]", names)  # no word of 3.11's
        kind = types.GenericAlias(dict, (names["Level"], names["Levels"]))

        assert {1: [2]} == parse(make_answer('{"1": [2]}'), kind)

    def test_values_of_ours(self):
        """What this library is made of, as the codec writes it."""
        message = UserMessage("hi", name="ann")
        data = to_data(message)["message"]

        assert message == parse(make_answer(json.dumps(data)), Message)
        assert (
            message
            == parse(
                make_answer(json.dumps({"m": [data]})), dict[str, list[UserMessage]]
            )["m"][0]
        )
        assert ToolCall("1", "f") == parse(
            make_answer('{"id": "1", "name": "f"}'), ToolCall
        )
        assert Usage(3) == parse(make_answer('{"prompt_tokens": 3}'), Usage)
        assert ["$.content: expected AssistantMessage, got UserMessage"] == wrong(
            make_answer(json.dumps(data)), AssistantMessage
        )
        assert ["$.content.content: expected a text, got 5"] == wrong(
            make_answer('{"role": "user", "content": 5}'), Message
        )


stops = st.builds(Stop, our.texts(), st.none() | st.integers())
trips = st.builds(
    Trip,
    st.lists(stops, max_size=3),
    our.timestamps(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.sampled_from(Colour),
    st.dictionaries(our.texts(), our.json_values(), max_size=2),
)
animals = st.builds(Cat, st.just("cat"), st.integers()) | st.builds(
    Dog, st.just("dog"), st.integers()
)


def plain(value):
    """A value as JSON."""
    if attrs.has(type(value)):
        return {
            a.alias: plain(getattr(value, a.name))
            for a in attrs.fields(type(value))
            if a.init
        }
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return str(value) if isinstance(value, (Decimal, UUID)) else value


class TestLaws:
    """What is true of every value and every text."""

    @pytest.mark.parametrize(
        ("type", "values"),
        [
            (Trip, trips),
            (list[Cat | Dog], st.lists(animals, max_size=3)),
            (
                dict[int, list[Stop]],
                st.dictionaries(st.integers(), st.lists(stops, max_size=2), max_size=2),
            ),
            (set[UUID], st.sets(our.uuids(), max_size=3)),
            (
                float | None,
                st.none() | st.floats(allow_nan=False, allow_infinity=False),
            ),
            (Box[Stop], st.builds(Box, stops)),
            (Any, our.json_values()),
        ],
        ids=["nested", "union", "dict", "set", "float", "generic", "any"],
    )
    @given(data=st.data())
    def test_returns_the_written_value(self, type, values, data):
        """
        A value that was written as JSON, in a text or in a block, or for a
        call, is read again.
        """
        value = data.draw(values)
        text = json.dumps(plain(value), ensure_ascii=data.draw(st.booleans()))
        message = AssistantMessage(text, tool_calls=[ToolCall("1", "f", text)])

        assert value == parse(message, type)
        assert value == parse(message, type, source="tool_call")
        assert value == parse(make_answer(f"So:\n\n```json\n{text}\n```\n"), type)
        assert value == parse(make_answer(f'{{"a": [0, {text}]}}'), type, path="a.1")
        assert AssistantMessage(text, tool_calls=[ToolCall("1", "f", text)]) == message

    @given(trips, st.data())
    def test_only_raises_parse_errors(self, trip, data):
        """
        Whatever happened to a text on its way, there is a value or a
        `ParseError`.
        """
        text = json.dumps(plain(trip))
        at = data.draw(st.integers(0, len(text)))
        to = data.draw(st.integers(at, len(text)))
        junk = data.draw(
            st.sampled_from(
                ["", "[", "}", '"', "null", "1e5", "-", "\\u", "```\n", "{}"]
            )
            | our.texts(max_size=3)
        )
        message = make_answer(text[:at] + junk + text[to:])
        made, problems = outcome(message, Trip)

        assert isinstance(made, Trip) == (not problems)
        assert all(where.startswith("$.content") for where in problems)

    @given(
        our.json_values(),
        st.sampled_from(
            [
                Trip,
                Tree,
                Cat | Dog,
                list[Stop] | str | None,
                dict[int, Level],
                tuple[int, str | None],
            ]
        ),
    )
    def test_any_json_for_any_type(self, raw, type):
        """A value or a `ParseError`, whatever the JSON and whatever the type."""
        made, problems = outcome(make_answer(json.dumps(raw)), type)

        assert (made is None) == (bool(problems) or raw is None)
        assert "nowhere" not in problems


class TestArguments:
    """Bad arguments are refused before anything is looked at."""

    @pytest.mark.parametrize(
        ("error", "what", "options"),
        [
            (ValueError, "source is 'foo'; expected 'content' or", {"source": "foo"}),
            (ValueError, "call is 0 and source is 'content'; pass", {"call": 0}),
            (TypeError, "call is 1.5; expected", {"call": 1.5, "source": "tool_call"}),
            (TypeError, "call is True; expe", {"call": True, "source": "tool_call"}),
            (TypeError, "path is 5; expected keys and positions", {"path": 5}),
            (TypeError, r"path is \[1.5\]; expected", {"path": [1.5]}),
        ],
    )
    def test_refused(self, error, what, options):
        """With an error that has what was given and what is expected."""
        with pytest.raises(error, match=what):
            parse(make_answer("not JSON"), int, **options)

    def test_needs_a_message(self):
        """A text is not a message."""
        with pytest.raises(TypeError, match="expected a Message"):
            parse("5", int)  # type: ignore[call-overload]


class TestStructure:
    """`structure`, of the codec."""

    def test_numbers_no_float_holds(self):
        """Are wrong where a float should be."""
        with pytest.raises(DecodeError, match="a number, got an integer of 1329 bits"):
            structure(10**400, float)

    @given(our.json_values())
    def test_changes_nothing(self, raw):
        """What is given stays as it is."""
        before = json.dumps(raw)
        for kind in (Any, dict[str, Any], list[Any], Trip, Cat | Dog):
            with suppress(DecodeError):
                structure(raw, kind)

        assert before == json.dumps(raw)
