"""Wording that texts of all layers have in common."""

import re
from decimal import Decimal
from typing import Any

import pytest

from conversation_state import (
    Aggregator,
    TokenBudget,
    Usage,
    UserMessage,
    diff,
    open_store,
    trim,
)
from conversation_state._wording import (
    escape_invisible,
    escape_line,
    format_count,
    format_dollars,
    name_load,
    name_to_json,
    number_messages,
    read_title,
    shorten_path,
    shorten_repr,
    shorten_text,
    with_article,
)
from conversation_state.codec import decode, structure
from conversation_state.counting import cost
from conversation_state.errors import DecodeError
from conversation_state.parts import ImagePart, UnknownPart
from conversation_state.rendering import render_transcript
from conversation_state.timeline import Timeline

WORDS = r"\b1 (?:more )?(?:[a-z]+s|entries|identities|branches|bytes)\b"


@pytest.mark.parametrize(
    ("text", "count", "words"),
    [
        ("no messages", 0, ["message"]),
        ("1 message", 1, ["message"]),
        ("2 messages", 2, ["message"]),
        ("1,000 entries", 1_000, ["entry", "entries"]),
        ("1 entry", 1, ["entry", "entries"]),
    ],
)
def test_format_count(text, count, words):
    """One is singular, and thousands are parted."""
    assert text.replace("no", "0") == format_count(count, *words)


@pytest.mark.parametrize(
    "text",
    [
        *("a str", "an int", "an Aggregator", "an _Open", "an object", "a _Kept"),
        *("a Usage", "a UserMessage", "a UUID", "a Union", "a useless thing"),
        *("an UnknownMessage", "an UnknownPart", "an Undefined", "a NoneType", "a "),
    ],
)
def test_with_article(text):
    """A noun has the article of its first sound."""
    assert text == with_article(text.partition(" ")[2])


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("$0.00", "0"),
        ("$12.50", "12.50000"),
        ("$0.0000375", "0.0000375"),
        ("$1,234,567.80", "1234567.8"),
        ("$3.00", "3E0"),
    ],
)
def test_format_dollars(text, amount):
    """All digits, and two at least behind the point; thousands are parted."""
    assert text == format_dollars(Decimal(amount))


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        ("a\tb\nc\n", "a\tb\r\nc\n"),
        (r"a\rb", "a\rb"),
        (r"\x1b[2J", "\x1b[2J"),
        (r"\u202e\ufeff\xad", "\u202e\ufeff\xad"),
        (r"\U000e0041", "\U000e0041"),
        (r"\ud800\udfff", "\ud800\udfff"),
        ("XYZ é \u200d", "XYZ é \u200d"),
    ],
)
def test_escape_invisible(shown, text):
    """
    What can't be seen, or a terminal would interpret, is an escape; line ends are
    of one kind, and letters, tabs and joiners stay.
    """
    assert shown == escape_invisible(text)


def test_escape_line():
    """Line ends and tabs are escapes, too."""
    assert r"a\tb\r\nc" == escape_line("a\tb\r\nc")


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("openai_chat.load(response)", {"choices": []}),
        ("openai_chat.load(request)", {"messages": []}),
        ("openai_chat.load([message])", {"role": "user", "content": "Hi"}),
        ("openai_chat.load([message])", {"role": "user", "type": "message"}),
        ("openai_chat.load([{'role': 'user', 'content': parts}])", {"type": "text"}),
        ("openai_chat.load(messages)", [{"role": "user", "content": "Hi"}]),
        ("openai_responses.load(response)", {"output": []}),
        ("openai_responses.load(request)", {"input": []}),
        ("anthropic.load(response)", {"role": "assistant", "stop_reason": None}),
        ("gemini.load(response)", {"candidates": []}),
        ("gemini.load(request)", {"contents": []}),
        ("gemini.load([message])", {"role": "user", "parts": []}),
        ("gemini.load(messages)", ({"role": "user", "parts": []},)),
        ("", []),
        ("", "Hi"),
    ],
    ids=map(str, range(15)),
)
def test_name_load(line, given):
    """The JSON of a provider is loaded by its adapter, as what it is."""
    assert line == name_load(given)


def test_name_to_json():
    """SDKs and Pydantic have a method each that makes JSON."""
    other = type("Other", (), {"model_dump": dict})
    names = ("openai.types", "anthropic", "google.genai")
    *of_sdks, of_pydantic, of_none = [
        *[name_to_json(type("Each", (), {"__module__": name})()) for name in names],
        *(name_to_json(other()), name_to_json(5)),
    ]

    assert ["to_dict(mode='json')"] * 2 == of_sdks[:2]
    assert (
        of_sdks[2]
        == of_pydantic
        == ("model_dump(mode='json', by_alias=True, exclude_none=True)")
    )
    assert "" == of_none


@pytest.mark.parametrize(
    "value",
    [
        *("a" * 61, b"a" * 61, [1] * 61, (1,) * 61, dict.fromkeys(range(61))),
        *({"key": "a" * 61}, UserMessage("a" * 61), 2**128 - 1, "é\n" * 30),
    ],
    ids=map(str, range(9)),
)
def test_shorten_repr_is_the_start(value):
    """What is shown of a long value is what its repr begins with."""
    shown = shorten_repr(value)

    assert shown in {repr(value), f"{repr(value)[:57]}..."}
    assert len(shown) <= 60


def test_shorten_repr_is_bounded():
    """Nothing is written that is not shown, of what is long."""

    class Item:
        def __repr__(self):
            shown.append(self)
            return "item"

    shown: list[Item] = []
    items = [Item() for _ in range(1_000)]

    for value in (items, tuple(items), dict(enumerate(items))):
        shown.clear()
        shorten_repr(value, 20)
        assert len(shown) <= 20

    assert "an integer of 129 bits" == shorten_repr(2**128)
    assert "an integer of 16610 bits" == shorten_repr(-(10**5_000))


def test_shorten_repr_of_what_raises():
    """A repr that raises is no other error."""

    class Broken:
        def __repr__(self):
            raise LookupError

    endless: list[Any] = []
    for _ in range(100_000):
        endless = [endless]

    assert "a Broken whose repr raises an error" == shorten_repr(Broken())
    assert "a list whose repr raises an error" == shorten_repr([Broken()])
    assert "a list whose repr raises an error" == shorten_repr(endless)


@pytest.mark.parametrize(
    ("title", "notes"),
    [("A trip", {"title": " A trip\n"}), ("", {"title": 5}), ("", {})],
)
def test_read_title(title, notes):
    """The title is a text, or else there is none."""
    assert title == read_title(notes)


@pytest.mark.parametrize(("length", "is_cut"), [(500, False), (501, True)])
def test_shorten_path(length, is_cut):
    """The beginning and the end of a long path are shown, in 500 characters."""
    path = "a" * (length - 5) + ".last"
    shown = shorten_path(path)

    assert ("[...]" in shown) == is_cut
    assert shown.endswith("a.last")
    assert 500 == len(shown.replace("[...]", ""))


def message_of(error, function, *args):
    """What *function* raises."""
    with pytest.raises(error) as caught:
        function(*args)

    return str(caught.value)


def test_one_is_singular():
    """Wherever a text counts something, one of it is not several."""
    state = Aggregator.new(
        messages=[UserMessage([ImagePart(data=b"a"), UnknownPart({"x": "y" * 1_001})])]
    ).add_usage(Usage(1), key="k", model="no such model")
    timeline = Timeline.begin(state)
    other = state.fork().add_user_prompt("one")
    store = open_store("memory:")
    head = store.save("chat", state)
    shown = [
        *[repr(state), str(state), repr(state.fork().add_user_prompt("a").turn)],
        *[repr(timeline), repr(timeline.moments[0])],
        *[repr(trim(state, TokenBudget(context_window=2_000))), str(head)],
        *[repr(diff(state, other)), str(diff(state, other))],
        *[diff(other, state).markdown(), diff(other, state).html()],
        *[render_transcript(state), str(state[0]), str(cost(state))],
        message_of(IndexError, lambda: state.entries[5]),
        message_of(IndexError, lambda: timeline.moments[5]),
        message_of(IndexError, lambda: state.fork(at=5)),
        message_of(DecodeError, decode, "{}"),
        message_of(DecodeError, structure, [], tuple[int]),
        message_of(DecodeError, structure, ["a"], list[int]),
    ]

    assert [] == [text for text in shown if re.search(WORDS, text)]


@pytest.mark.parametrize(
    ("expected", "text"), [("", ""), ("abcdef", "abcdef"), ("abc...", "abcdefg")]
)
def test_shorten_text(expected, text):
    """A shortened text ends in three dots, and is no longer than the limit."""
    assert expected == shorten_text(text, 6)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("message 4 answers message 1,000.", "messages[3] answers messages[999]."),
        ("(message 1)", "(messages[0])"),
        ("messages[3].parts[0]: is odd", "messages[3].parts[0]: is odd"),
        ("messages[3][0] is odd", "messages[3][0] is odd"),
        ("$.messages[3]", "$.messages[3]"),
    ],
)
def test_number_messages(expected, text):
    """Messages are counted from 1, and paths into one stay paths."""
    assert expected == number_messages(text)
