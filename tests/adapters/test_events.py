"""Server-sent events, from lines to JSON."""

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import adapters
from conversation_state.errors import ProviderStreamError
from tests.adapters.helpers import table
from tests.recorded import streams

# Lines of wrong types are given, too.
aevents: Any = adapters.aevents
events: Any = adapters.events


def parsed(lines):
    return [*events(lines)]


class TestLines:
    """What HTTP clients iterate over."""

    @pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
    @pytest.mark.parametrize("is_text", [True, False])
    def test_with_ends_and_without(self, end, is_text):
        """Lines of text or bytes, with the ends they came with or without."""
        lines = ["event: a", 'data: {"a": 1}', "", ": x", 'data:{"b": "é"}', ""]
        given = [f"{line}{end}" for line in lines]

        assert [{"a": 1}, {"b": "é"}] == parsed(
            given if is_text else [line.encode() for line in given]
        )

    @pytest.mark.parametrize(
        "body",
        [
            'data: {"a": 1}\n\ndata: {"b": 2}\n\n',
            'data: {"a": 1}\n\ndata: {"b": 2}',
            'data: {"a": 1}\n\ndata: {\ndata: "b": 2}',
        ],
    )
    def test_whole_body(self, body):
        """The body as one text, or as bytes."""
        assert [{"a": 1}, {"b": 2}] == parsed(body) == parsed(body.encode())

    @table(
        "lines, expected",
        {
            "the data of one event may stand on several lines": (
                ["data: {", 'data: "a": 1', "data: }", ""],
                [{"a": 1}],
            ),
            "lines may have their ends": (
                ["data: {\n", 'data: "a": 1\n', "data: }\n", "\n"],
                [{"a": 1}],
            ),
            "several lines may come at once, and end within an event": (
                ['data: {\ndata: "a": 1,\n', 'data: "b": 2\ndata: }\n\n'],
                [{"a": 1, "b": 2}],
            ),
            "some loops leave empty lines out": (
                ['data: {"a": 1}', 'data: {"a": 2}', "data: [DONE]"],
                [{"a": 1}, {"a": 2}],
            ),
            "lines of data may be empty, and follow the end": (
                ["data:", 'data: {"a": 1}', "data: ", "data: [DONE]", 'data: {"a": 2}'],
                [{"a": 1}, {"a": 2}],
            ),
            "U+2028 and U+0085 may stand in a JSON text": (
                ['data: {"a": "x\u2028y\x85z"}', ""],
                [{"a": "x\u2028y\x85z"}],
            ),
            "a byte order mark at the start is no part of the first line": (
                [b'\xef\xbb\xbfdata: {"a": 1}\n', b"\n"],
                [{"a": 1}],
            ),
            "elsewhere it makes a line no line of data": (
                ['data: {"a": 1}', "", '\ufeffdata: {"b": 2}', ""],
                [{"a": 1}],
            ),
            "an event is whole even if the stream ends right behind it": (
                ["data: {", 'data: "a": 1}'],
                [{"a": 1}],
            ),
            "bytes that are no UTF-8 become U+FFFD, as in a browser": (
                [b'data: {"a": "\xff"}', b""],
                [{"a": "\ufffd"}],
            ),
            **{
                f"{number} is an integer, as it was sent": (
                    [f'data: {{"a": {number}}}', ""],
                    [{"a": number}],
                )
                for number in (2**63, 2**64, -(2**63) - 1, 10**40)
            },
        },
    )
    def test_lines(self, lines, expected):
        """The events of these lines."""
        assert expected == parsed(lines)

    def test_as_they_come(self):
        """An event is given as soon as its line is there."""
        asked = []

        def lines():
            for at in range(3):
                asked.append(at)
                yield f'data: {{"at": {at}}}\n'

        stream = events(lines())
        assert {"at": 0} == next(stream)
        assert [0] == asked

    @pytest.mark.parametrize("provider", ["openai_chat", "anthropic", "gemini"])
    def test_recorded(self, provider):
        """Recorded streams, each event as a JSON parser reads it."""
        for path in streams(provider):
            body = path.read_bytes()
            expected = [
                json.loads(line[5:])
                for line in body.decode().splitlines()
                if line.startswith("data:") and line[5:].strip() != "[DONE]"
            ]

            assert expected == parsed(body.splitlines(keepends=True)) == parsed(body)


class TestTrouble:
    """Streams that break, and what is not a stream."""

    @given(st.integers(0, 30))
    def test_cut(self, size):
        """What the end cuts short is left out; all before it is given."""
        cut = '{"b": [1, 2], "c": "some words"}'[:size]

        assert [{"a": 1}] == parsed(['data: {"a": 1}', "", f"data: {cut}"])

    @pytest.mark.parametrize("data", ["<html>", "[1]", '"text"', "{broken"])
    def test_no_object(self, data):
        """Data that is not a JSON object is an error that shows it."""
        with pytest.raises(ProviderStreamError, match="event that is a JSON object"):
            parsed(['data: {"a": 1}', "", f"data: {data}", ""])

    def test_no_object_and_no_empty_lines(self):
        """
        Where a loop leaves the empty lines out, no event after such data is swallowed
        in silence.
        """
        with pytest.raises(ProviderStreamError, match="JSON object, got 'ping'"):
            parsed(['data: {"a": 1}', "data: ping", 'data: {"a": 2}', "data: [DONE]"])

    @pytest.mark.parametrize(
        "body", ['{"error": {"message": "no credit"}}', "<html>no</html>", '[{"a": 1}]']
    )
    def test_no_stream(self, body):
        """A body of another kind is an error that shows how it starts."""
        with pytest.raises(ProviderStreamError, match=r"starts with.*alt=sse"):
            parsed(body)

    @pytest.mark.parametrize(
        "lines",
        [
            *([], [""], [": only comments"], ["data: [DONE]"]),
            ["event: ping", "id: 5", "retry: 1000", ""],
        ],
    )
    def test_nothing(self, lines):
        """A stream may have no events."""
        assert [] == parsed(lines)

    @pytest.mark.parametrize(
        "lines",
        [
            ['data: {"a": 1}', ""],
            ["data: {", 'data: "a": 1}', ""],
            ["data: {", 'data: "a": 1}'],
        ],
    )
    def test_other_lines(self, lines):
        """
        Lines of no field are ignored where there is an event: whole, in several
        lines, or without the empty line at the end.
        """
        assert [{"a": 1}] == parsed(["<!-- a proxy -->", *lines])

    @pytest.mark.parametrize("line", [None, 1, {"a": 1}])
    def test_no_line(self, line):
        """A line of another type is refused."""
        with pytest.raises(TypeError, match="expected a str or bytes"):
            parsed([line])

    def test_no_lines(self):
        """So is what has none."""
        with pytest.raises(TypeError, match="lines: expected a response's body, or"):
            parsed(None)


def test_in_a_task():
    """`aevents` gives what `events` gives."""

    async def lines():
        for line in ("data: {", 'data: "a": 1}', "", 'data: {"b": 2}', "data: {"):
            yield line

    async def main():
        return [event async for event in aevents(lines())]

    assert [{"a": 1}, {"b": 2}] == anyio.run(main)
