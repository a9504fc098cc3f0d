"""Rendering: transcripts that are readable and can't be forged."""

import json
import re
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from conversation_state.aggregator import Aggregator
from conversation_state.messages import (
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
    make_tombstone,
)
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.rendering import (
    escape_invisible,
    iterate_blocks,
    render_transcript,
)
from conversation_state.testing import strategies as our
from conversation_state.tools import ToolCall
from conversation_state.trimming import fit, trim
from tests.hostile import FORGERIES, hostile_texts, messages_from

FORMATS = ["text", "markdown"]
formats = st.sampled_from(FORMATS)

hostile_messages = messages_from(hostile_texts)
some = st.lists(our.messages() | hostile_messages, max_size=5)


def list_roles(text):
    """The roles in a text, in order."""
    return [re.split(r"[ ,]", line)[0] for line in text.split("\n") if line[:1].strip()]


def tokens(markdown):
    """What a reader of CommonMark sees, and what it believes was defined."""
    env: dict[str, object] = {}
    return MarkdownIt("commonmark").parse(markdown, env), env


def check_text(messages):
    """See to it that there are as many turns as messages, of the same roles."""
    assert [message.role for message in messages] == list_roles(
        render_transcript(messages)
    )


def check_markdown(messages):
    """
    The same, and text of messages has no effect outside of its quote, where it is code
    only.
    """
    found, env = tokens(render_transcript(messages, format="markdown"))

    inline = [each for token in found for each in token.children or ()]
    assert [message.role for message in messages] == [
        re.split(r"[ ,]", body.children[0].content)[0]
        for head, body in pairwise(found)
        if head.type == "heading_open" and head.level == 0
    ]
    assert not {"html_block"} & {token.type for token in found}
    assert not {"html_inline", "image"} & {token.type for token in inline}
    assert not env.get("references")
    for token in found:
        if token.type == "inline" and token.level == 1:
            ours = [each.content for each in token.children if each.type == "text"]
            assert {"text", "code_inline"} >= {each.type for each in token.children}
            assert re.fullmatch(r"[a-z0-9 ,:+().\-]*", "".join(ours))


CHAT = [
    SystemMessage("You find trains."),
    UserMessage(
        [
            TextPart("Look:\n\n"),
            TextPart("# there"),
            ImagePart(data=b"x" * 5_000, media_type="image/png", detail="low"),
            TextPart("Well?"),
        ],
        name="Ann Lee",
        timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    ),
    AssistantMessage(
        [ReasoningPart("A clock."), TextPart("One moment.")],
        tool_calls=[
            ToolCall("c1", "clock", '{"at":["Bern",1.50],"x":{},"x":[]}'),
            ToolCall("", "map", '{"at', type="custom"),
        ],
        response=ResponseMeta("tool_calls"),
    ),
    ToolMessage("12:30", tool_call_id="c1", name="desk"),
    ToolMessage('{"a": "```"}', tool_call_id="c9", tool_name="map", is_error=True),
    UserMessage(
        [
            FilePart(url="https://example.com/a.pdf", name="a.pdf"),
            UnknownPart({"type": "hologram", "of": [1]}, source="openai"),
        ]
    ),
    UnknownMessage({"role": "judge"}, source="openai"),
    AssistantMessage([RefusalPart("No.")], response=ResponseMeta("stop")),
]

TEXT = """\
system
    You find trains.

user ("Ann Lee"), 2026-01-02 03:04:05+00:00
    Look:

    # there
  image: image/png, 5,000 bytes, detail low
  text:
    Well?

assistant
  reasoning:
    A clock.
  text:
    One moment.
  calls clock as c1:
    {
      "at": [
        "Bern",
        1.50
      ],
      "x": {},
      "x": []
    }
  calls map (custom):
    {"at
  finish reason: tool_calls

tool clock (desk), for c1
    12:30

tool map, for c9, failed
    {"a": "```"}

user
  file: a.pdf, "https://example.com/a.pdf"
  unknown openai hologram:
    {
      "type": "hologram",
      "of": [
        1
      ]
    }

unknown openai judge
    {
      "role": "judge"
    }

assistant
  refusal:
    No."""

MARKDOWN = """\
### system

> You find trains.

### user (`Ann Lee`), 2026-01-02 03:04:05+00:00

> Look:
>
> # there

image: `image/png`, 5,000 bytes, detail `low`

text:

> Well?

### assistant

reasoning:

> A clock.

text:

> One moment.

calls `clock` as `c1`:

```json
{
  "at": [
    "Bern",
    1.50
  ],
  "x": {},
  "x": []
}
```

calls `map` (`custom`):

```
{"at
```

finish reason: `tool_calls`

### tool `clock` (`desk`), for `c1`

```
12:30
```

### tool `map`, for `c9`, failed

````json
{"a": "```"}
````

### user

file: `a.pdf`, `https://example.com/a.pdf`

unknown `openai` `hologram`:

```json
{
  "type": "hologram",
  "of": [
    1
  ]
}
```"""


class TestRenderTranscript:
    """`render_transcript`, whatever the format."""

    def test_text(self):
        """
        Heads at the start of lines, what they are about below; one empty line
        between messages.
        """
        assert TEXT == render_transcript(CHAT)
        assert TEXT == render_transcript(CHAT, format="text")

    @pytest.mark.parametrize(
        ("shown", "message"),
        [
            (
                'user\n  unknown:\n    {\n      "type": "",\n      "a": "é"\n    }',
                UserMessage([UnknownPart({"type": "", "a": "é"})]),
            ),
            (
                'user\n  unknown openai:\n    {\n      "a": 1\n    }',
                UserMessage([UnknownPart({"a": 1}, source="openai")]),
            ),
            (
                'user\n  unknown a sticker:\n    {\n      "kind": "sticker"\n    }',
                UserMessage([UnknownPart({"kind": "sticker"}, source="a")]),
            ),
            (
                'user ("ann \\"bee\\" \\\\c")\n    hi',
                UserMessage("hi", name='ann "bee" \\c'),
            ),
            ("assistant\n  reasoning", AssistantMessage([ReasoningPart("", "sig")])),
            (
                'unknown a\n    {\n      "role": ""\n    }',
                UnknownMessage({"role": ""}, source="a"),
            ),
        ],
    )
    def test_words(self, shown, message):
        """
        Empty words leave nothing behind, those that could be read as several are in
        quotes, and JSON keeps its letters.
        """
        assert shown == render_transcript([message])

    def test_markdown(self):
        """Headings for messages, text is quoted, data is code."""
        assert MARKDOWN == render_transcript(CHAT[:6], format="markdown")

    @pytest.mark.parametrize("style", FORMATS)
    def test_of_states_and_views(self, style):
        """A state, its messages, a view and an iterator are all messages."""
        state = Aggregator.new(messages=CHAT[:4])
        expected = render_transcript(CHAT[:4], format=style)

        assert expected == render_transcript(state, format=style)
        assert expected == render_transcript(state.messages, format=style)
        view = trim(state, None, fit())
        assert expected == render_transcript(view.messages, format=style)
        assert expected == render_transcript(iter(CHAT[:4]), format=style)
        assert "" == render_transcript([], format=style)

    @given(some, formats)
    def test_is_total(self, messages, style):
        """
        Every message can be rendered, as valid text without markup or control
        characters of its own, with at most one newline at the end; and the same every
        time.
        """
        shown = render_transcript(messages, format=style)

        assert shown == shown.encode().decode()
        assert not shown.endswith("\n\n")
        assert shown == escape_invisible(shown)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
        assert shown == render_transcript(tuple(messages), format=style)

    @given(some)
    def test_no_text_passes_for_a_message(self, messages):
        """
        There are as many turns as messages, of the same roles. Outside of quotes, what
        else is there is ours; nothing is HTML, loads an image, or defines a link.
        """
        check_text(messages)
        check_markdown(messages)

    @pytest.mark.parametrize("forgery", FORGERIES)
    def test_forgeries(self, forgery):
        """Every known forgery, wherever a message has text of its author's."""
        messages = [
            UserMessage(forgery, name=forgery),
            UserMessage(f"- a\n  {forgery}\n\n1. > {forgery}"),
            AssistantMessage(
                [ReasoningPart(forgery), FilePart(url=forgery, name=forgery)],
                tool_calls=[ToolCall(forgery, forgery, forgery)],
                response=ResponseMeta(forgery),
            ),
            ToolMessage(forgery, tool_call_id=forgery, tool_name=forgery),
            UnknownMessage({"role": forgery}, source=forgery),
        ]

        check_text(messages)
        check_markdown(messages)

    @pytest.mark.parametrize(
        "text",
        [
            "&lt;b&gt; &#60;b> &amp;",
            "<b>bold</b> <!-- a -->",
            "![x](https://example.com/x.png)",
            "[a]: https://example.com",
        ],
    )
    def test_reads_as_written(self, text):
        """What does nothing is read as it was written."""
        found, _ = tokens(render_transcript([UserMessage(text)], format="markdown"))
        (body,) = [token for token in found if token.type == "inline"][1:]

        assert text == "".join(each.content for each in body.children)

    def test_markdown_of_content_works(self):
        """Markdown breaks a line where its content does, by two spaces at the end."""
        shown = render_transcript([UserMessage("One.  \nTwo.")], format="markdown")
        inline = [each for token in tokens(shown)[0] for each in token.children or ()]

        assert "hardbreak" in [each.type for each in inline]

    @given(hostile_texts, hostile_texts, formats)
    def test_content_is_shown(self, one, other, style):
        """
        Two users' messages of other content, or other names, or other calls, are
        rendered differently.
        """
        # Ends of lines of other systems, and empty lines at the end, are not.
        bare = [escape_invisible(word).rstrip() for word in (one, other)]
        lines = [[line.rstrip() for line in word.split("\n")] for word in bare]

        shown = [
            (
                render_transcript([UserMessage(word)], format=style),
                render_transcript([UserMessage("", name=word)], format=style),
                render_transcript(
                    [AssistantMessage(tool_calls=[ToolCall("", "f", word)])],
                    format=style,
                ),
            )
            for word in (one, other)
        ]

        if lines[0] != lines[1] and all(word.strip() for word in bare):
            assert all(a != b for a, b in zip(*shown, strict=True))

    @pytest.mark.parametrize("style", FORMATS)
    @pytest.mark.parametrize(
        "pair",
        [
            (UserMessage("a"), UserMessage("a", name="a")),
            (
                AssistantMessage([ReasoningPart("a"), TextPart("b")]),
                AssistantMessage([ReasoningPart("a\nb")]),
            ),
            (AssistantMessage([RefusalPart("a")]), AssistantMessage("refusal:\n  a")),
            (
                ToolMessage("a", tool_call_id="1"),
                ToolMessage("a", tool_call_id="1", is_error=True),
            ),
            (
                UserMessage("a", name="a), 2026-01-02 03:04:05+00:00"),
                UserMessage(
                    "a", name="a", timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
                ),
            ),
            (
                AssistantMessage(tool_calls=[ToolCall("1", "f")]),
                AssistantMessage(tool_calls=[ToolCall("", "f as 1")]),
            ),
            (UserMessage([ImagePart(data=b"a")]), UserMessage([AudioPart(data=b"a")])),
            (UserMessage([ImagePart(data=b"a")]), UserMessage("image: 1 byte")),
        ],
        ids=[
            *("name", "reasoning at length", "refusal"),
            *("error", "time", "id", "kind", "media"),
        ],
    )
    def test_differs(self, pair, style):
        """What differs in a way people should see looks different."""
        one, other = ([message] for message in pair)

        assert render_transcript(one, format=style) != render_transcript(
            other, format=style
        )

    @pytest.mark.parametrize("style", FORMATS)
    @pytest.mark.parametrize(
        "message",
        [
            SystemMessage("secret"),
            UserMessage("secret"),
            AssistantMessage("secret", tool_calls=[ToolCall("c1", "clock", "secret")]),
            ToolMessage("secret", tool_call_id="c1"),
            UnknownMessage({"role": "secret"}, source="x"),
        ],
        ids=lambda message: message.role,
    )
    def test_erased(self, message, style):
        """
        A message that was erased is marked, with the reason and the calls it made, and
        nothing else; nor does the reason pass for another message.
        """
        stone = make_tombstone(message, b"x" * 16, "asked for\n\nuser\n    Hi!")
        shown = render_transcript([stone], format=style)

        assert "erased" in shown
        assert "asked for" in shown
        assert "secret" not in shown
        assert "\nuser" not in shown
        assert ("clock" in shown) == isinstance(message, AssistantMessage)

    def test_results_name_their_calls(self):
        """
        By the tool's own name, and by the call's if that is another; the last
        call of an id counts, and only those before.
        """
        calls = [ToolCall("1", "clock"), ToolCall("1", "map")]
        messages = [
            ToolMessage("a", tool_call_id="1"),
            AssistantMessage(tool_calls=calls),
            ToolMessage("a", tool_call_id="1"),
            ToolMessage("a", tool_call_id="1", tool_name="map"),
            ToolMessage("a", tool_call_id="1", tool_name="other"),
        ]
        shown = render_transcript(messages).split("\n")

        assert [
            "tool, for 1",
            "tool map, for 1",
            "tool map, for 1",
            "tool other, for 1, a call of map",
        ] == [line for line in shown if line.startswith("tool")]

    @given(our.json_values())
    def test_arguments_stay_what_they_are(self, value):
        """What is spread over lines is the same JSON, token by token."""
        written = json.dumps(value)
        call = ToolCall("1", "f", written)
        shown = render_transcript([AssistantMessage(tool_calls=[call])])
        body = "\n".join(shown.split("\n")[2:])

        assert "".join(written.split()) == "".join(body.split())
        assert value == json.loads(body)

    @pytest.mark.parametrize(("levels", "lines"), [(20, 39), (21, 1)])
    def test_deep_arguments(self, levels, lines):
        """Arguments of up to 20 levels are spread over lines, deeper ones are not."""
        call = ToolCall("1", "f", "[" * levels + "]" * levels)
        shown = render_transcript([AssistantMessage(tool_calls=[call])])

        assert lines == len(shown.split("\n")[2:])

    @pytest.mark.parametrize("style", FORMATS)
    @pytest.mark.parametrize(
        "message",
        [
            UserMessage("\n" * 50_000),
            UserMessage("`" * 50_000),
            UserMessage("\x1b" * 50_000),
            UserMessage("![<&lt;[]:" * 5_000),
            UserMessage("", name="`" * 50_000),
            ToolMessage("`" * 50_000, tool_call_id="1"),
            AssistantMessage(
                tool_calls=[ToolCall("1", "f", "[" * 1_000 + "]" * 1_000)] * 20
            ),
            AssistantMessage(tool_calls=[ToolCall("1", "f", "[" * 50_000)]),
            AssistantMessage(tool_calls=[ToolCall("1", "f", f"[{'[1],' * 9_999}[1]]")]),
            UnknownMessage({"role": "x", "of": [[["a"] * 10_000]]}),
        ],
        ids=[
            *("lines", "ticks", "escapes", "marks", "name", "result"),
            *("levels", "open", "items", "unknown"),
        ],
    )
    def test_grows_with_the_content(self, message, style):
        """The text is at most a few times as long as the content."""
        shown = render_transcript([message], format=style)

        assert 40 * 50_000 > len(shown)

    @pytest.mark.parametrize("style", FORMATS)
    def test_shows_no_content_of_media(self, style):
        """Neither bytes, nor the data of a URL; nor long texts of unknown parts."""
        url = f"data:image/png;base64,{'QUJD' * 1_000}"
        shown = render_transcript(
            [
                UserMessage([ImagePart(url=url), ImagePart(data=b"ABC" * 1_000)]),
                UserMessage([UnknownPart({"type": "x", "data": "QUJD" * 1_000})]),
            ],
            format=style,
        )

        assert "data:image/png;base64, and 4,000 characters more" in shown
        assert "3,000 bytes" in shown
        assert "and 3,000 characters more" in shown
        assert 1_400 > len(shown)

    @pytest.mark.parametrize("wrong", ["html", "", None, 5, ["text"]])
    def test_refuses_other_formats(self, wrong):
        """By naming those there are."""
        with pytest.raises(ValueError, match="expected 'text' or 'markdown'"):
            render_transcript([], format=wrong)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (UserMessage("a"), "messages is a UserMessage; expected messages"),
            (5, "messages is an int; expected messages"),
            ("hi", r"messages\[0\] is 'h'; expected a Message"),
            ([UserMessage("a"), None], r"messages\[1\] is None; expected a Message"),
        ],
    )
    def test_refuses_what_is_no_message(self, wrong, message):
        """With an error that says what was given instead."""
        with pytest.raises(TypeError, match=message):
            render_transcript(wrong)


class TestVisible:
    """`escape_invisible` escapes invisible characters."""

    @pytest.mark.parametrize(
        ("shown", "text"),
        [
            ("a\n\tb", "a\r\n\tb"),
            ("\\x1b[31m", "\x1b[31m"),
            ("\\r\\x00\\x7f\\x9b", "\r\x00\x7f\x9b"),
            ("\\u202e\\u2066\\u200b\\ufeff", "\u202e\u2066\u200b\ufeff"),
            ("\\u2028\\x85", "\u2028\x85"),
            ("\\U000e0041", "\U000e0041"),
            (
                "日本\u3000語 \xa0 👩\u200d🚀 می\u200cخواهم",
                "日本\u3000語 \xa0 👩\u200d🚀 می\u200cخواهم",
            ),
        ],
        ids=ascii,
    )
    def test_examples(self, shown, text):
        """
        Controls, marks of direction and what has no width; not what scripts
        and emoji need.
        """
        assert shown == escape_invisible(text)

    @given(our.texts())
    def test_once_is_enough(self, text):
        """What is visible stays as it is."""
        assert escape_invisible(text) == escape_invisible(escape_invisible(text))


def test_nothing_has_no_blocks():
    """A message without content has nothing to draw."""
    for message in (UserMessage(""), AssistantMessage(), UserMessage([])):
        assert [] == list(iterate_blocks(message, str))
