"""Transcripts: ShareGPT and its kin, plain roles, and lines of JSON."""

import copy
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters import openai_chat
from conversation_state.adapters.transcripts import (
    Broken,
    Transcript,
    line_results,
    load,
    load_lines,
)
from conversation_state.errors import DecodeError, Problem
from conversation_state.messages import (
    AssistantMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.testing.contracts._adapters import put_junk
from conversation_state.testing.strategies import json_values, texts
from conversation_state.trimming import TrimContext
from tests.adapters.contract import JUNK, as_json, as_text, bare, problem_paths, refusal
from tests.adapters.helpers import both, exactly, lines, some
from tests.recorded import is_large

USERS = ["human", "user", "Human", "prompter", "customer"]
MODELS = [
    *("gpt", "assistant", "chatgpt", "bing", "bard", "model", "bot", "ai", "chatbot"),
    "agent",
]
TOOLS = [
    *("observation", "tool", "function", "tool_response", "function_response"),
    "ipython",
]
CALLERS = ["function_call", "tool_call"]

ASKED = {"from": "human", "value": "hi"}
TURN = {"from": "gpt", "value": "hello"}


def turn(who, what):
    """Turns, by either pair of keys."""
    return st.one_of(
        exactly(**{"from": st.sampled_from(who), "value": what}),
        exactly(role=st.sampled_from(who), content=what),
        exactly(**{"from": st.sampled_from(who), "text": what}),
    )


NAMES = texts(min_size=1, max_size=4)
ARGUMENTS = st.dictionaries(NAMES, json_values(max_leaves=2), max_size=2)
IN_TEXT = both(exactly(name=NAMES), some(arguments=ARGUMENTS | texts(), id=NAMES))
CALLS = (IN_TEXT | st.lists(IN_TEXT, min_size=1, max_size=3)).map(
    lambda calls: json.dumps(calls, ensure_ascii=False)
)
EXTRAS = st.just({}) | some(weight=st.just(1), images=json_values())
TURNS = st.one_of(
    both(turn(USERS, texts()), EXTRAS),
    both(turn(MODELS, texts()), EXTRAS),
    both(turn(CALLERS, CALLS | texts()), EXTRAS),
    both(turn(TOOLS, texts() | json_values()), some(name=NAMES, tool_call_id=NAMES)),
    turn(["system", "developer"], texts()),
    both(
        exactly(role=st.just("assistant"), content=texts() | st.none()),
        exactly(
            tool_calls=st.lists(
                some(
                    id=NAMES,
                    type=st.just("function"),
                    function=both(exactly(name=NAMES), some(arguments=ARGUMENTS)),
                ).filter(lambda call: "function" in call),
                max_size=2,
            )
        ),
        some(reasoning_content=texts()),
    ),
)
LISTED = st.lists(
    TURNS.filter(
        lambda t: (
            t.get("value", t.get("content")) is not None
            or "tool_calls" in t
            or "text" in t
        )
    ),
    max_size=5,
)
RECORDS = st.one_of(
    *[
        both(
            exactly(**{key: LISTED}),
            some(id=st.integers() | texts(), system=texts(), tools=json_values()),
        )
        for key in ("conversations", "messages", "items", "conversation")
    ],
    exactly(prompt=texts() | LISTED, completion=texts() | LISTED),
    exactly(prompt=texts(), response=texts()),
    LISTED,
)


def one(raw):
    """The message that *raw* is."""
    (message,) = load(raw)
    return message


def several(record):
    """The messages that *record* is, of whatever class."""
    return load(record)


def loaded(lines):
    """The conversations on *lines*."""
    return [*load_lines(lines)]


def results(lines, **options):
    """What is on *lines*, conversations and what is none."""
    return [*line_results(lines, **options)]


def problems(read, document):
    """What *read* finds wrong with *document*."""
    with pytest.raises(DecodeError) as caught:
        read(document)

    return [str(one) for one in caught.value.problems]


def chat(*turns, **beside):
    """A record of these *turns*."""
    return {"conversations": list(turns), **beside}


class TestCalls:
    def test_later_calls_have_other_ids(self):
        """
        No two calls of a record get one id, in whichever list they are, and a
        result answers the latest calls.
        """
        call = {"from": "function_call", "value": '{"name": "a"}'}
        result = {"from": "observation", "value": "x"}
        messages = several(
            {"prompt": [call, ASKED, call, result], "completion": [call, result]}
        )

        ids = [m.tool_calls[0].id for m in messages if getattr(m, "tool_calls", ())]
        answered = [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]
        assert 3 == len(set(ids))
        assert ids[1:] == answered

    @pytest.mark.parametrize(
        "value",
        [
            *("search(x)", "{}", "[]", "[1]", '[{"name": "f"}, 2]', '{"name": 5}', "5"),
            *("", "[" * 10_000, '{"name": "f"', '"name"'),
            *('{"name": "f", "name": "g"}', '{"name": "f", "arguments": NaN}'),
        ],
    )
    def test_no_call(self, value):
        """A turn of calls whose text is not a call is kept as it is."""
        raw = {"from": "function_call", "value": value}

        assert UnknownMessage(raw, source="transcripts") == one([raw])

    def test_many(self):
        """
        Ten thousand calls without ids, and their results in any order, are
        paired without counting them over and over.
        """
        calls = [
            {"from": "function_call", "value": f'{{"name": "f{n}"}}'}
            for n in range(10_000)
        ]
        results = [
            {"from": "tool", "name": f"f{n}", "value": ""} for n in range(10_000)
        ]

        called, *answered = several(chat(*calls, *reversed(results)))

        assert [call.id for call in called.tool_calls] == [
            each.tool_call_id for each in reversed(answered)
        ]


def tagged(*calls, before=""):
    """A turn of the model's with these texts in tags of calls."""
    tags = [f"<tool_call>\n{call}\n</tool_call>" for call in calls]
    return {"from": "gpt", "value": "\n".join([before, *tags] if before else tags)}


class TestTags:
    def test_calls_and_results(self):
        """Calls and results in tags are calls and results, in order and by name."""
        asked, answered = (
            tagged('{"name": "f", "arguments": {"a":  1}}', '{"name": "g"}'),
            {
                "from": "tool",
                "value": '<tool_response>{"name": "g", "content": {"x": 2}}'
                "</tool_response>\n<tool_response>one</tool_response>",
            },
        )

        calls, *results = several(chat(asked, answered))

        assert [("f", '{"a":  1}'), ("g", "")] == [
            (call.name, call.arguments) for call in calls.tool_calls
        ]
        assert "" == calls.text
        first, second = [call.id for call in calls.tool_calls]
        assert [(second, "g", '{"x": 2}'), (first, "", "one")] == [
            (each.tool_call_id, each.tool_name, each.text) for each in results
        ]

    @pytest.mark.parametrize(
        ("call", "arguments"),
        [
            ("{'arguments': {'a': 1, 'b': None}, 'name': 'f'}", '{"a": 1, "b": null}'),
            (
                "<function=f>\n<parameter=a>\n1\n</parameter>\n</function>",
                '{"a": "1"}',
            ),
            ('{"name": "f", "arguments": "{\\"a\\": 1}"}', '{"a": 1}'),
        ],
    )
    def test_dialects(self, call, arguments):
        """A call may be Python's literals, Qwen's tags, or have arguments as a text."""
        message = one([tagged(call, before="Let me look.")])

        assert "Let me look." == message.text
        assert [("f", arguments)] == [(c.name, c.arguments) for c in message.tool_calls]

    @pytest.mark.parametrize(("given", "expected"), [("c1", "c1"), ("gone", "c1")])
    def test_ids(self, given, expected):
        """A result has the id that it names if a call has it, else that of its call."""
        result = json.dumps({"tool_call_id": given, "name": "f", "content": "r"})
        _, answered = several(
            chat(
                tagged('{"id": "c1", "name": "f"}'),
                {"role": "tool", "content": f"<tool_response>{result}</tool_response>"},
            )
        )

        assert (expected, "r") == (answered.tool_call_id, answered.text)

    def test_ids_of_turns(self):
        """A turn says of which call its only result is, if the tag does not."""
        calls = [f'{{"id": "c{at}", "name": "f"}}' for at in (1, 2)]
        turns = [
            {
                "role": "tool",
                "tool_call_id": f"c{at}",
                "name": "f",
                "content": f"<tool_response>{at}</tool_response>",
            }
            for at in (2, 1)
        ]
        _, *answered = several(chat(tagged(*calls), *turns))

        assert [("c2", "f", "2"), ("c1", "f", "1")] == [
            (each.tool_call_id, each.tool_name, each.text) for each in answered
        ]
        assert [{}, {}] == [each.metadata for each in answered]

    def test_result_of_a_user(self):
        """A user's turn of nothing but results is results; with more it is a text."""
        result = "<tool_response>\n20 C\n</tool_response>"
        _, answered = several(
            chat(tagged('{"name": "f"}'), {"role": "user", "content": result})
        )
        text = one([{"role": "user", "content": f"It said {result}"}])

        assert isinstance(answered, ToolMessage)
        assert "20 C" == answered.text
        assert UserMessage(f"It said {result}") == text

    @pytest.mark.parametrize(
        "call",
        [
            *(
                "search(x)",
                "{}",
                "[1]",
                "{'name': 5}",
                "{'a': 1}",
                "{1, 2}",
                "{" * 9_000,
            ),
            *("__import__('os')", '{"name": "f", "name": "g"}', "{'name': b'f'}"),
        ],
    )
    def test_no_call(self, call):
        """A text with something else in its tags stays as it is."""
        turn = tagged('{"name": "f"}', call)

        message = one([turn])

        assert turn["value"] == message.text
        assert () == tuple(message.tool_calls)

    def test_calls_in_columns(self):
        """A list of calls may be a JSON text; one that is not is refused."""
        call = {"id": "c1", "type": "function", "function": {"name": "f"}}
        turn = {"role": "assistant", "content": ""}

        called, answered = several(
            [
                {**turn, "tool_calls": json.dumps([call])},
                {"role": "tool", "content": "r"},
            ]
        )

        assert ("c1", "f") == (called.tool_calls[0].id, called.tool_calls[0].name)
        assert "c1" == answered.tool_call_id
        assert [] == [*one([{**turn, "tool_calls": ""}]).tool_calls]
        assert "$[0].tool_calls" in problems(load, [{**turn, "tool_calls": "[1]"}])[0]

    @pytest.mark.parametrize(
        ("text", "left", "count"),
        [
            ("Write `{}` to call.", "Write `{}` to call.", 0),
            ("So:\n```xml\n{}\n```\nYes.", "So:\n```xml\n{}\n```\nYes.", 0),
            ("A `<tool_call>`: {}", "A `<tool_call>`:", 1),
            ("It`s {} no code", "It`s  no code", 1),
            ("`a` {} `b`", "`a`  `b`", 1),
            ("{} b `{}` c {}", "b `{}` c", 2),
        ],
    )
    def test_code(self, text, left, count):
        """A tag in code is text, and those around it are calls."""
        tag = '<tool_call>{"name": "f", "arguments": {"a": "`"}}</tool_call>'
        if "`{}`" in text or "{}" in left:
            tag = tag.replace("`", "b")

        (message,) = load([{"from": "gpt", "value": text.replace("{}", tag)}])

        assert left.replace("{}", tag) == message.text
        assert ["f"] * count == [call.name for call in message.tool_calls]


class TestWrong:
    @pytest.mark.parametrize("nothing", [b"", object()])
    def test_no_conversation(self, nothing):
        """What is not a conversation is an error that says what would be one."""
        (found,) = problems(load, nothing)

        assert found.startswith("$: no conversation; expected a list of messages")

    @given(data=st.data())
    def test_refuses_in_one_way(self, data):
        """
        Of a record with something wrong in it come messages or a `DecodeError`
        with paths, and nothing else.
        """
        document = copy.deepcopy(data.draw(RECORDS))
        path = data.draw(st.lists(st.integers(0, 9), max_size=7))
        wrong = put_junk(document, path, data.draw(JUNK))

        refused = refusal(load, wrong)

        assert refused is None or refused.problems
        assert all(
            one.path.startswith("$") and one.what and as_text(one)
            for one in (refused.problems if refused else ())
        )


class TestLaws:
    @given(RECORDS)
    def test_load_changes_nothing(self, record):
        """A record is only read, and gives the same messages each time."""
        before = as_json(record)

        assert load(record) == load(copy.deepcopy(record))
        assert before == as_json(record)

    @given(LISTED)
    def test_has_all_texts(self, turns):
        """Every text of people and models is in the messages, in order."""
        spoken = [
            next(each[key] for key in ("value", "content", "text") if key in each)
            for each in turns
            if each.get("from", each.get("role")) in {*USERS, *MODELS}
        ]

        received = [
            message.text
            for message in load(turns)
            if isinstance(message, (UserMessage, AssistantMessage))
        ]

        assert [text for text in spoken if text] == [text for text in received if text]

    def test_recorded(self, recordings):
        """
        A hundred conversations of an agent load as OpenAI's adapter loads
        them, and as valid ones.
        """
        chats = lines(recordings / "transcripts" / "airline.jsonl")

        for each in chats:
            loaded = load(each)
            assert [bare(m) for m in openai_chat.load(each)] == [
                bare(m) for m in loaded
            ]
            problems = TrimContext.of(loaded).problems()
            # The model used some ids again in a later turn.
            assert {"repeated call id"} >= {one.kind for one in problems}

        assert (100 if is_large(recordings) else 4) == len(chats)


def as_lines(*records):
    """*records* as lines."""
    return "".join(f"{json.dumps(each)}\n" for each in records)


class TestLines:
    def test_records(self):
        """A record a line, with its name, its line and its other keys."""
        text = as_lines(chat(ASKED, id="a", tools="[]"), chat(TURN, id=7), [ASKED])

        first, second, third = loaded(text)

        assert (1, "a", (UserMessage("hi"),), {"tools": "[]"}) == first
        assert (2, "7", (AssistantMessage("hello"),), {}) == second
        assert (3, "", (UserMessage("hi"),), {}) == third

    def test_keys(self):
        """What no message is made of is in the keys, whatever its name."""
        record = {**chat(ASKED), "id": ["x"], "prompt": "p", "items": [], "role": 1}
        (found,) = loaded(as_lines(record))

        assert {"id": ("x",), "prompt": "p", "items": (), "role": 1} == found.keys

    def test_text_file_and_list(self, tmp_path):
        """Lines are a text, an open file, or a list."""
        text = "\ufeff" + as_lines(chat(ASKED), chat(TURN))
        path = tmp_path / "chats.jsonl"
        path.write_text(text, encoding="utf-8", newline="\r\n")

        with path.open(encoding="utf-8") as file:
            from_file = [*load_lines(file)]

        assert 2 == len(from_file)
        assert from_file == [*load_lines(text)] == [*load_lines(text.split("\n"))]
        assert from_file == [*load_lines(io.StringIO(text))]

    def test_breaks_within_texts(self):
        """What JSON takes for a character ends no line."""
        (found,) = loaded(
            '[{"role": "user", "content": "a\u2028b\x85c\x1cd"}]'.replace("\x1c", "")
        )

        assert "a\u2028b\x85cd" == found.messages[0].text

    def test_a_message_a_line(self):
        """
        Lines of one message each are one conversation, until a blank line or
        another conversation.
        """
        asked, answered = (
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "yo"},
        )
        text = (
            as_lines(asked, answered) + "\n \n" + as_lines(asked, chat(ASKED), answered)
        )

        found = [*load_lines(text)]

        assert [(1, 2), (5, 1), (6, 1), (7, 1)] == [
            (each.line, len(each.messages)) for each in found
        ]
        assert (UserMessage("hi"), AssistantMessage("yo")) == found[0].messages

    def test_first_bad_line(self):
        """
        The first bad line is an error that names it and all that is wrong with
        it, after the lines before it were given.
        """
        given = load_lines(as_lines(chat(ASKED), chat({"from": "x"}, 5), chat(TURN)))

        assert 1 == next(given).line
        assert [
            "line 2: $.conversations[0].from",
            "line 2: $.conversations[1]",
        ] == problem_paths(next, given)

    @pytest.mark.parametrize(
        ("bad", "path", "why"),
        [
            ("nonsense", "$", "invalid JSON; Expecting value at column 1"),
            ('{"messages": [', "$", "incomplete JSON"),
            ('{"messages": [], "n": NaN}', "$", "NaN is not JSON"),
            ("9" * 10_000, "$", "unreadable JSON"),
            ('{"messages": [], "messages": []}', "$", "an object has a key twice"),
            ("42", "$", "no conversation; expected a list of messages"),
            ('{"role": "user", "content": 5}', "$.content", "is 5; expected a text"),
        ],
    )
    def test_broken(self, bad, path, why):
        """A broken line is reported in its place, and the rest loads."""
        text = as_lines(chat(ASKED)) + bad + "\n" + as_lines(chat(TURN))

        first, broken, last = results(text)

        assert (1, 3) == (first.line, last.line)
        assert isinstance(broken, Broken)
        assert 2 == broken.line
        assert path == broken.error.problems[0].path
        assert why in broken.error.problems[0].what

    def test_broken_message(self):
        """A broken message is reported, and its conversation goes on without it."""
        asked = {"role": "user", "content": "hi"}

        broken, found = results(as_lines(asked, {"role": "x"}, asked))

        assert 2 == broken.line
        assert Transcript(1, "", (UserMessage("hi"),) * 2, found.keys) == found

    def test_lines_that_could_not_be_had(self):
        """An error in the place of a line is passed on with its number."""
        error = DecodeError((Problem("$", "too long"),))

        found = [*line_results([json.dumps([ASKED]), error, json.dumps([TURN])])]

        assert Broken(2, error) == found[1]
        assert [1, 2, 3] == [each.line for each in found]

    def test_lazy(self):
        """No more lines are read than are asked for."""

        def endless():
            while True:
                yield json.dumps([ASKED])

        found = load_lines(endless())

        assert [1, 2, 3] == [next(found).line for _ in range(3)]

    def test_lines_that_are_not_text(self):
        """
        The lines of a file that was opened as binary are refused, and so is what
        has no lines.
        """
        with pytest.raises(TypeError, match="as line 1; open a file as text"):
            next(load_lines(io.BytesIO(b"[]\n")))  # type: ignore[arg-type]

        with pytest.raises(
            TypeError, match="expected a text, or its lines, got an int"
        ):
            next(line_results(5))  # type: ignore[arg-type]

    def test_other_dialects(self):
        """
        Another program's loader reads the records, and messages on their own lines.
        """
        record = {"messages": [{"role": "developer", "content": "x"}]}
        text = as_lines(record, record["messages"][0], {"role": "user", "content": 5})

        first, second, broken = sorted(
            results(text, load=openai_chat.load), key=lambda found: found.line
        )

        assert openai_chat.load(record) == first.messages == second.messages
        assert ["$.content"] == [each.path for each in broken.error.problems]

    @given(st.lists(RECORDS, max_size=4))
    def test_as_load_has_it(self, records):
        """Lines of records are the records' messages."""
        found = [*load_lines(as_lines(*records))]

        assert [load(each) for each in records] == [each.messages for each in found]
        assert [*range(1, len(records) + 1)] == [each.line for each in found]
