"""Running the calls that a model made."""

import functools
import json
import logging
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.errors import InvalidMessageError, InvalidToolError
from conversation_state.messages import ToolMessage
from conversation_state.parts import ImagePart, TextPart
from conversation_state.tool_calls import acall, call
from conversation_state.tools import ToolCall

# Wrong arguments are passed on purpose; typing_tests holds the right ones.
acall_anything: Any = acall
call_anything: Any = call


@dataclass
class Trip:
    day: date
    cities: list[str]


@dataclass
class Even:
    n: int

    def __post_init__(self):
        if self.n % 2:
            raise ValueError("is odd")


@dataclass
class Odd:
    n: int

    def __post_init__(self):
        if not self.n % 2:
            raise LookupError("is even")


def add(a: int, b: int = 0) -> int:
    """A tool with a parameter that may be left out."""
    return a + b


def ran(function, arguments=""):
    return call(function, ToolCall("c1", "tool", arguments))


class TestArguments:
    """Arguments are checked against the hints, and converted to them."""

    @pytest.mark.parametrize(
        ("functions", "expected", "is_error"),
        [
            ({"tool": add, "other": len}, "2", False),
            (
                {"other": add, "more": len},
                "there is no tool tool; there is other, more",
                True,
            ),
            ({}, "there is no tool tool; there is none", True),
        ],
    )
    def test_of_several(self, functions, expected, is_error):
        """Of several functions, the one that the call names; a model may invent one."""
        given = ToolCall("c1", "tool", '{"a": 2}')

        for answer in (call(functions, given), anyio.run(acall, functions, given)):
            assert expected == answer.text
            assert is_error == answer.is_error
            assert "c1" == answer.tool_call_id

    @pytest.mark.parametrize(
        ("arguments", "expected"), [('{"a": 2}', "2"), ('{"a": 2, "b": 3}', "5")]
    )
    def test_by_name(self, arguments, expected):
        """A parameter with a default may be left out."""
        assert ToolMessage(expected, tool_call_id="c1", tool_name="tool") == ran(
            add, arguments
        )

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("add<|channel|>commentary", "3"),
            ("functions.add", "3"),
            ("add2", "there is no tool add2; there is add"),
        ],
    )
    def test_marks_around_a_name(self, name, text):
        """Servers of gpt-oss give names with the model's own marks."""
        assert text == call({"add": add}, ToolCall("c1", name, '{"a": 2, "b": 1}')).text

    @pytest.mark.parametrize("arguments", ["", "  ", "{}"])
    def test_none_at_all(self, arguments):
        """Models write nothing, or an empty object, for a tool without parameters."""
        assert "done" == ran(lambda: "done", arguments).text

    def test_all_problems_at_once(self):
        """The model reads everything that is wrong, each with its path."""
        answer = ran(add, '{"c": 1, "b": "3", "d": 2}')

        assert answer.is_error
        assert [
            "invalid arguments:",
            "  $.a: required, but missing",
            "  $.c: unknown; add takes a, b",
            "  $.b: expected `int`, got `str`",
            "  $.d: unknown; add takes a, b",
        ] == answer.text.splitlines()

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ('{"a": 2', "not JSON"),
            ("[1]", "are an array; expected an object"),
            ('"a"', "expected an object"),
            ("null", "expected an object"),
            ('{"a": NaN}', "not JSON"),
        ],
    )
    def test_no_object(self, arguments, problem):
        """What is not a JSON object is an error that the model can read."""
        answer = ran(add, arguments)

        assert answer.is_error
        assert problem in answer.text

    @pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**30])
    def test_large_integers(self, number):
        """An integer is what the model wrote, however large, inside of others, too."""
        given = []

        def transfer(amount: int, fees: dict[str, Any]) -> None:
            given.append((amount, fees))

        arguments = f'{{"amount": {number}, "fees": {{"bank": [{number}]}}}}'

        assert not ran(transfer, arguments).is_error
        assert [(number, {"bank": [number]})] == given

    def test_conversion(self):
        """Dates, nested classes and arguments of any name are made of JSON."""

        def plan(trip: Trip, **prices: float):
            return [trip.day.year, *trip.cities, sum(prices.values())]

        answer = ran(
            plan, '{"trip": {"day": "2031-05-06", "cities": ["Bern"]}, "x": 1, "y": 2}'
        )

        assert '[2031,"Bern",3.0]' == answer.text

    @pytest.mark.parametrize(
        ("kind", "value", "problem"),
        [
            (list[int], [1, "x"], "$.x[1]: expected `int`, got `str`"),
            (
                Trip,
                {"day": "May", "cities": []},
                "$.x.day: invalid RFC3339 encoded date",
            ),
            (
                Trip,
                {"day": "2031-05-06"},
                "$.x: object missing required field `cities`",
            ),
            (Even, {"n": 3}, "$.x: is odd"),
            (Odd, {"n": 2}, "$.x: LookupError: is even"),
            (str, 5, "$.x: expected `str`, got `int`"),
            (bool, 1, "$.x: expected `bool`, got `int`"),
        ],
    )
    def test_paths(self, kind, value, problem):
        """The model reads which value is wrong, and what a class itself refuses."""

        def f(x): ...

        f.__annotations__["x"] = kind
        answer = ran(f, json.dumps({"x": value}))

        assert answer.is_error
        assert f"invalid arguments:\n  {problem}" == answer.text

    def test_names_that_are_no_names(self):
        """Whatever a model calls an argument, its path is readable."""
        assert "$['a b']: unknown; add takes a, b" in ran(add, '{"a b": 1}').text

    def test_partial_hides_its_arguments(self):
        """What the program fills in is none of the model's."""
        bound = functools.partial(add, b=40)

        assert "42" == ran(bound, '{"a": 2}').text
        assert "$.b: unknown; add takes a" in ran(bound, '{"a": 2, "b": 1}').text
        assert "42" == ran(functools.partial(add, a=40), '{"b": 2}').text

    def test_more_positions(self):
        """
        A model gives no more positions than have names, and the names behind them.
        """

        def join(first: str, *others: str, end: str):
            return first + "".join(others) + end

        assert "ab" == ran(join, '{"first": "a", "end": "b"}').text
        assert "$.end: required" in ran(join, '{"first": "a"}').text

    def test_methods_and_instances(self):
        """Whatever can be called with named arguments is a tool."""

        class Counter:
            def __call__(self, n: int):
                return n + 1

            def method(self, n: "int"):
                return n + 2

        assert "2" == ran(Counter(), '{"n": 1}').text
        assert "3" == ran(Counter().method, '{"n": 1}').text
        assert "expected `int`" in ran(Counter(), '{"n": "1"}').text

    @given(st.text())
    def test_whatever_a_model_writes(self, arguments):
        """No text is too odd: there is always a message."""
        assert ran(add, arguments).is_error


class TestResults:
    """The result is the content."""

    @pytest.mark.parametrize(
        ("result", "text"),
        [
            ("as it is", "as it is"),
            (None, ""),
            ({"a": [1, None]}, '{"a":[1,null]}'),
            ([], "[]"),
            (date(2031, 5, 6), '"2031-05-06"'),
            (
                Trip(date(2031, 5, 6), ["Bern"]),
                '{"day":"2031-05-06","cities":["Bern"]}',
            ),
            (MappingProxyType({"a": 1}), '{"a":1}'),
            ({"n": 2**70, "é": 1}, '{"n":1180591620717411303424,"é":1}'),
            ({1, 2}, "[1,2]"),
            # As the output of a program may have: the tool did its work.
            ("a \ud800", "a \ufffd"),
            (["\ud83d\ude00 \udc80"], '["\U0001f600 \ufffd"]'),
        ],
    )
    def test_text_or_json(self, result, text):
        """A text as it is, None is empty, everything else is JSON."""
        answer = ran(lambda: result)

        assert text == answer.text
        assert not answer.is_error

    def test_parts(self):
        """Parts are the content as they are."""
        image = ImagePart(url="https://example.org/map.png")

        assert (image,) == ran(lambda: image).parts
        assert (TextPart("map"), image) == ran(lambda: [TextPart("map"), image]).parts

    def test_message(self):
        """A message is the answer as it is, but for the call that it answers."""
        made = ToolMessage("No seats.", tool_call_id="x", is_error=True)
        expected = made.replace(tool_call_id="c1", tool_name="tool")

        assert expected == ran(lambda: made)

    @pytest.mark.parametrize(
        "result",
        [
            object(),
            float("nan"),
            {"a": object()},
            {"a": 1}.items(),
        ],
    )
    def test_what_json_cannot_represent(self, result, caplog):
        """The model reads why there is no result, and the log has it."""
        answer = ran(lambda: result)

        assert answer.is_error
        assert ["the tool tool failed"] == [each.message for each in caplog.records]


class TestFailures:
    """An exception is an answer, too."""

    def test_marked_and_logged(self, caplog):
        """The model reads the class and the message; the log has the traceback."""

        def broken():
            raise LookupError("no trains")

        with caplog.at_level(logging.WARNING, "conversation_state.tool_calls"):
            answer = ran(broken)

        [record] = caplog.records
        assert answer.is_error
        assert "LookupError: no trains" == answer.text
        assert "conversation_state.tool_calls" == record.name
        assert record.exc_info
        assert LookupError is record.exc_info[0]

    def test_text_that_is_no_unicode(self, monkeypatch):
        """Half a surrogate pair, such as in the name of a file, becomes U+FFFD."""

        def broken():
            raise LookupError("no file \ud800")

        # Nothing that keeps logs as UTF-8 could keep this one.
        monkeypatch.setattr(
            logging.getLogger("conversation_state.tool_calls"), "disabled", True
        )

        assert "LookupError: no file \ufffd" == ran(broken).text

    def test_message_that_raises(self, caplog):
        """An exception without a message that can be read is its class."""

        class OddError(Exception):
            def __str__(self):
                raise ValueError

        def broken():
            raise OddError

        assert "OddError" == ran(broken).text
        assert 1 == len(caplog.records)

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_interrupts_pass(self, error):
        """An interrupt is not an answer."""

        def interrupted():
            raise error

        with pytest.raises(error):
            ran(interrupted)

    def test_no_id(self, caplog):
        """
        A call without an id can't be answered, which is not a failure of the tool.
        """
        with pytest.raises(InvalidMessageError, match="tool_call_id"):
            call(add, ToolCall("", "add", '{"a": 1}'))

        assert not caplog.records

    def test_no_call(self):
        """The second argument is a call."""
        with pytest.raises(TypeError, match=r"expected a ToolCall, one of message"):
            call_anything(add, '{"a": 1}')

    def test_functions_that_no_model_can_call(self):
        """That is the program's mistake, and raised."""

        def positional(a, /):
            return a

        def unknown(a):
            return a

        unknown.__annotations__["a"] = "Missing"
        with pytest.raises(InvalidToolError, match="a is positional-only"):
            ran(positional, '{"a": 1}')

        with pytest.raises(InvalidToolError, match="name 'Missing' is not defined"):
            ran(unknown, '{"a": 1}')

        unknown.__annotations__["a"] = str | date
        with pytest.raises(
            InvalidToolError, match=r"can't represent .* the type of a "
        ):
            ran(unknown, '{"a": "b"}')

    @pytest.mark.parametrize(
        ("function", "problem"),
        [
            (range, "its signature is unknown"),
            (5, "expected a function, or a mapping .*, got an int: 5"),
            (None, "expected a function, or a mapping .*, got a NoneType"),
        ],
    )
    def test_no_signature(self, function, problem):
        """Neither can what has no signature, or can't be called at all."""
        with pytest.raises(InvalidToolError, match=problem):
            call_anything(function, ToolCall("c1", "tool"))


class TestAsync:
    """Async functions, and others, in a task."""

    def test_both_kinds(self):
        """What can be awaited is."""

        async def later(n: int):
            await anyio.lowlevel.checkpoint()
            return n + 1

        async def main():
            given = ToolCall("c1", "tool", '{"n": 1}')
            return [
                (await acall_anything(later, given)).text,
                (await acall_anything(lambda n: n, given)).text,
                (await acall_anything(later, ToolCall("c1", "tool"))).is_error,
            ]

        assert ["2", "1", True] == anyio.run(main)

    def test_failure(self, caplog):
        """What is raised while it is awaited is the answer."""

        async def broken():
            await anyio.lowlevel.checkpoint()
            raise LookupError

        answer = anyio.run(acall_anything, broken, ToolCall("c1", "tool"))

        assert answer.is_error
        assert "LookupError: " == answer.text
        assert 1 == len(caplog.records)

    def test_cancellation_passes(self):
        """A task that is cancelled gets no answer."""

        async def forever():
            await anyio.sleep_forever()

        async def main():
            with anyio.move_on_after(0.01) as scope:
                await acall_anything(forever, ToolCall("c1", "tool"))

            return scope.cancelled_caught

        assert anyio.run(main)

    def test_async_in_call(self):
        """`call` does not leave a coroutine behind, and the error says what to do."""

        async def later():
            pass

        with pytest.raises(InvalidToolError, match=r"await acall\(function, call\)"):
            ran(later)
