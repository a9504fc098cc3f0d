"""
Differences as text, Markdown and HTML, in which no message can pass for another's.
"""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ResponseMeta,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from conversation_state.aggregator import Entry
from conversation_state.diffing import diff
from conversation_state.messages import UnknownMessage, make_tombstone
from conversation_state.pages import draw_difference
from conversation_state.parts import FilePart, ReasoningPart, TextPart
from conversation_state.rendering import escape_invisible
from conversation_state.testing import strategies as our
from tests.hostile import FORGERIES, hostile_texts, messages_from
from tests.states import rebuild_state

FORMATS = ["text", "markdown", "html"]

hostile_messages = messages_from(hostile_texts)
some = st.lists(our.messages() | hostile_messages, max_size=4)


@st.composite
def hostile_diffs(draw):
    """
    Differences whose messages try to pass for another's: some in common, some on one
    side, some on both, some joined, erased and billed.
    """
    trunk = Aggregator.new(messages=draw(some))
    message = draw(some)
    # Something alike beside each other, so that words are marked.
    a, b = (
        trunk.fork()
        .add_user_prompt(f"It leaves at half past twelve {draw(hostile_texts)}")
        .extend(draw(some))
        .extend(message)
        for _ in "ab"
    )
    key = draw(hostile_texts.filter(bool))
    a = a.add_usage(Usage(1), key=key, model=draw(hostile_texts))
    b = b.add_usage(Usage(2), key=key).extend(draw(some))
    if draw(st.booleans()):
        a, b = a.join(b), draw(st.sampled_from([b, b.join(a)]))

    if draw(st.booleans()) and len(a):
        entries = list(a.entries)
        at = draw(st.integers(0, len(a) - 1))
        entries[at] = Entry(entries[at].id, draw(hostile_messages))
        a = rebuild_state(a, entries=entries)

    return diff(a, b)


names = st.just(("a", "b")) | st.tuples(hostile_texts, hostile_texts)


def chat():
    """Two attempts at one answer, after a common beginning."""
    trunk = Aggregator.new(
        messages=[SystemMessage("Be brief."), UserMessage("When does it leave?")]
    ).add_usage(Usage(100))
    attempts = [
        trunk.fork().extend(
            [
                AssistantMessage(
                    [ReasoningPart(f"Thought {at}.")],
                    tool_calls=[ToolCall(f"c{at}", "clock", '{"at": "Bern", "x": 1}')],
                ),
                ToolMessage("12:30", tool_call_id=f"c{at}"),
                AssistantMessage(f"It leaves at 12:{at}0 from platform 4."),
            ]
        )
        for at in (3, 4)
    ]
    return (
        attempts[0].add_usage(Usage(10, 5)),
        attempts[1].add_user_prompt("Thanks.").add_usage(Usage(20)),
    )


TEXT = """\
--- draft, 5 messages
+++ "second try", 6 messages
2 messages in common, the last: user: When does it leave?
= assistant:
=   reasoning: Thought 3.
=   calls clock as c3: { "at": "Bern", "x": 1 }
= tool clock, for c3: 12:30
- assistant: It leaves at 12:30 from platform 4.
+ assistant: It leaves at 12:40 from platform 4.
+ user: Thanks.
only draft recorded 15 tokens (1 ledger entry)
only "second try" recorded 20 tokens (1 ledger entry)"""

MARKDOWN = """\
- 2 messages in common
- only in `draft`: 3 messages
- only in `second try`: 4 messages
- same content on both sides: 2 messages
- only `draft` recorded 15 tokens (1 ledger entry)
- only `second try` recorded 20 tokens (1 ledger entry)

### the last in common: user

> When does it leave?

### same content in both: assistant

reasoning:

> Thought 3.

calls `clock` as `c3`:

```json
{
  "at": "Bern",
  "x": 1
}
```

### same content in both: tool `clock`, for `c3`

```
12:30
```

### only in `draft`: assistant

> It leaves at 12:30 from platform 4.

### only in `second try`: assistant

> It leaves at 12:40 from platform 4.

### only in `second try`: user

> Thanks."""


class Fragment(HTMLParser):
    """A reader of HTML that believes nothing: tags must be ours and closed."""

    OURS = (
        *("div", "details", "summary", "code", "del", "ins", "style"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    )

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.pieces: list[str] = []
        self.cells: list[str] = []
        self.styles = ""
        self.tags: list[str] = []
        self.attributes: set[tuple[str, str | None]] = set()
        self.marked: dict[str, list[str]] = {"del": [], "ins": []}
        self.feed(html)
        self.close()
        assert [] == self.open

    def handle_starttag(self, tag, attrs):
        assert tag in self.OURS
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes |= {*attrs}
        if tag == "td":
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        raise AssertionError(tag)

    def handle_endtag(self, tag):
        assert tag == self.open.pop()

    def handle_data(self, data):
        if "style" in self.open:
            self.styles += data
            return

        self.pieces.append(data)
        if "td" in self.open:
            self.cells[-1] += data

        for mark, found in self.marked.items():
            if mark in self.open:
                found.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    def handle_decl(self, decl):
        raise AssertionError(decl)

    handle_pi = unknown_decl = handle_comment

    @property
    def text(self):
        return "".join(self.pieces)


ROOT = Aggregator.new()


def compare(one, other):
    """The difference of two attempts at one message."""
    messages = [UserMessage(x) if isinstance(x, str) else x for x in (one, other)]
    return diff(*[ROOT.fork().add(message) for message in messages])


def show(found, name):
    """What is read of a difference in this format."""
    shown = getattr(found, name)()
    return Fragment(shown).text if name == "html" else shown.replace("`", "")


def messages_of(found, limit=40):
    """The sides' entries after they parted, as many as are shown at most."""
    return [*found.entries.rest_a[:limit], *found.entries.rest_b[:limit]]


def check_text(found, names=("a", "b")):
    """See to it that every line is ours: a sign and a role, or what is below it."""
    lines = found.text(names=names).split("\n")
    roles = "system|user|assistant|tool|unknown"
    heads = [line for line in lines[3:] if re.match(rf"[-+=! ] ({roles})\b", line)]
    below = [line for line in lines[3:] if re.match(r"[-+=! ]   \w", line)]
    headings = [
        line for line in lines[3:] if re.match(r"(only |under |the order )", line)
    ]
    signs = {sign: [head for head in heads if head[0] == sign] for sign in "-+=! "}
    both, same = len(signs[" "]), len(signs["="])

    assert len(lines) == 3 + len(heads) + len(below) + len(headings)
    assert lines[0].startswith("--- ")
    assert lines[1].startswith("+++ ")
    assert len(found.entries.rest_a) == (
        len(signs["-"]) + both + same + len(signs["!"]) / 2
    )
    assert len(found.entries.rest_b) == (
        len(signs["+"]) + both + same + len(signs["!"]) / 2
    )


def check_markdown(found, names=("a", "b")):
    """The same of headings; text of messages is quoted, or code, and has no effect."""
    env: dict[str, object] = {}
    tokens = MarkdownIt("commonmark").parse(found.markdown(names=names), env)
    heads, quotes = [], 0
    for before, token in pairwise(tokens):
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        children = token.children or ()
        assert token.type != "html_block"
        assert not {"html_inline", "image"} & {each.type for each in children}
        if token.type == "inline" and not quotes:
            ours = "".join(each.content for each in children if each.type == "text")
            assert {"text", "code_inline"} >= {each.type for each in children}
            assert re.fullmatch(r"[\w ,:+().\-]*", ours)
            if before.type == "heading_open":
                heads.append(ours)

    shown = [head for head in heads if not head.startswith("the last in common: ")]
    twice = [
        head
        for head in shown
        if head.startswith(("in both: ", "same content in both: "))
    ]
    assert not quotes
    assert not env.get("references")
    assert len(messages_of(found)) == len(shown) + len(twice)


def check_html(found, names=("a", "b")):
    """Every tag and attribute is ours, and what is shown is the text."""
    html = found.html(names=names)
    seen = Fragment(html)

    assert {"class", "scope", "colspan", "dir"} >= {name for name, _ in seen.attributes}
    assert seen.styles == Fragment(diff(*chat()).html()).styles
    assert 1 == seen.tags.count("style")
    assert seen.text == escape_invisible(seen.text)
    for entry in messages_of(found):
        if len(entry.message.text) < 500 and not entry.message.reasoning:
            text = escape_invisible(entry.message.text).rstrip("\n")
            parts = [part for part in entry.message.parts if type(part) is TextPart]
            if len(parts) == len(entry.message.parts):
                assert text in seen.text


class TestText:
    """`Diff.text`, which ``str()`` is."""

    def test_example(self):
        """As in a unified diff: what is common, then signs."""
        found = diff(*chat())

        assert TEXT == found.text(names=("draft", "second try"))
        assert TEXT.replace("draft", "a").replace('"second try"', "b") == str(found)

    @pytest.mark.parametrize(
        ("line", "change"),
        [
            ("nothing differs: 5 messages in common", lambda a: a),
            (
                "nothing differs but the id or fork point: 5 messages in common",
                lambda a: a.fork(),
            ),
            (
                "no messages in common: the states are not related",
                lambda _: Aggregator.new(),
            ),
            ("no messages in common", lambda a: a.fork(at=0)),
            (
                "1 message in common, the last: system: Be brief.",
                lambda a: a.fork(at=1),
            ),
        ],
    )
    def test_in_common(self, line, change):
        """One line says what there is in common, in every rendering."""
        a, _ = chat()
        found = diff(a, change(a))

        assert line == found.text().split("\n")[2]
        assert f"- {line.partition(', the')[0]}" == found.markdown().split("\n")[0]
        assert line.partition(", the")[0] in Fragment(found.html()).text

    def test_sides_are_together(self):
        """Of neighbours that differ, all of one side come before those of the other."""
        a, b = (
            Aggregator.new(messages=[UserMessage(text) for text in texts])
            for texts in (["left", "port"], ["right", "starboard", "the end"])
        )
        lines = diff(a, b).text().splitlines()

        assert [line for line in lines if line[:2] in ("- ", "+ ")] == [
            "- user: left",
            "- user: port",
            "+ user: right",
            "+ user: starboard",
            "+ user: the end",
        ]

    def test_joined(self):
        """What both have has no sign; what is elsewhere on the other side is marked."""
        a, b = chat()
        a, b = a.fork(at=2).add_user_prompt("x"), b.fork(at=2).add_user_prompt("y")
        lines = diff(a.join(b), b.join(a)).text().split("\n")[3:-1]

        assert "messages in common, the order of what came later differs, the last" in (
            diff(a.join(b), b.join(a)).text()
        )
        assert [
            "- user, elsewhere in b, too: x",
            "  user: y",
            "+ user, elsewhere in a, too: x",
        ] == lines
        assert (
            "in `a`, elsewhere in `b`, too: user"
            in diff(a.join(b), b.join(a)).markdown()
        )

    def test_equal_content_elsewhere(self):
        """
        A message of equal content in another place is marked, and is on neither side
        alone.
        """
        root = Aggregator.new()
        a = root.fork().extend(map(UserMessage, "xyz"))
        b = root.fork().extend(map(UserMessage, "zxy"))
        found = diff(a, b)

        assert [
            "+ user, same content elsewhere in a: z",
            "= user: x",
            "= user: y",
            "- user, same content elsewhere in b: z",
        ] == found.text().split("\n")[3:]
        assert 2 == found.markdown().count("same content elsewhere")
        assert 2 == Fragment(found.html()).text.count("same content elsewhere")

    def test_changed(self):
        """Another message under one identity shows both, and in what they differ."""
        a, _ = chat()
        entries = list(a.entries)
        entries[1] = Entry(entries[1].id, UserMessage("[erased]", name="x"))
        b = rebuild_state(a, entries=entries[:2])
        found = diff(a.fork(at=2), b)

        assert [
            "! user: When does it leave?",
            "! user (x): [erased]",
            "!   differs in content, name",
        ] == found.text().split("\n")[3:]
        assert "### changed, in `a`: user\n\n> When" in found.markdown()
        assert "### changed, in `b`, in its content, name: user (`x`)" in (
            found.markdown()
        )
        assert "changed, differing in content, name" in Fragment(found.html()).text
        (entry,) = list(ROOT.add_user_prompt("x").entries)
        states = [
            rebuild_state(ROOT, entries=[Entry(entry.id, message)])
            for message in (UserMessage("x"), SystemMessage("x"))
        ]
        assert str(diff(*states)).endswith("!   differs in role")

    def test_recorded_usage(self):
        """One key with two usages is known by its name, and at most five of them."""
        root = Aggregator.new()
        a, b = root, root
        for at in range(7):
            a = a.add_usage(Usage(1), key=f"order {at}", model="x y")
            b = b.add_usage(Usage(1_000), key=f"order {at}")

        lines = diff(a, b).text().split("\n")[3:]

        assert 6 == len(lines)
        assert (
            'under the key "order 0" a recorded 1 token for "x y", b 1,000 tokens'
            == lines[0]
        )
        assert "under 2 more keys a and b recorded something else" == lines[-1]
        both = a.add_usage(Usage(2), key="k")
        assert (
            "only b recorded 2 tokens (1 ledger entry)"
            == str(diff(a, both)).split("\n")[3]
        )
        a, b = root.add_usage(Usage(1), key="a"), root.add_usage(Usage(1), key="b")
        reordered = str(diff(a.join(b), b.join(a)))
        assert reordered.endswith("\nthe order of the ledgers differs")
        a = root.add_usage(Usage(1), key="k", caveat="interrupted")
        b = root.add_usage(Usage(1), key="k")
        assert (
            "under the key k a recorded 1 token (interrupted), b 1 token"
            in diff(a, b).text()
        )

    @pytest.mark.parametrize(
        ("one", "other", "shown"),
        [
            *[
                (
                    f"{'x' * at}yes{'.' * 200}",
                    f"{'x' * at}no{'.' * 200}",
                    (
                        f"{'x' * at}yes{'.' * (97 - at)}… {103 + at} more",
                        f"{'x' * at}no{'.' * (98 - at)}… {102 + at} more",
                    ),
                )
                for at in (0, 60)
            ],
            (
                f"{'x' * 61}yes{'.' * 200}",
                f"{'x' * 61}no{'.' * 200}",
                (
                    f"… {'x' * 30}yes{'.' * 67}… 133 more",
                    f"… {'x' * 30}no{'.' * 68}… 132 more",
                ),
            ),
            (
                "x" * 200,
                "x" * 200 + "y" * 200,
                (f"{'x' * 100}… 100 more", f"… {'x' * 30}{'y' * 70}… 130 more"),
            ),
            ("x" * 100, "y" * 1_101, ("x" * 100, f"{'y' * 100}… 1,001 more")),
        ],
    )
    def test_excerpts(self, one, other, shown):
        """
        A hundred characters of a text: from its beginning, if it differs there or ends
        where the other goes on, else from thirty before the difference.
        """
        lines = compare(one, other).text().split("\n")[3:]

        assert [f"- user: {shown[0]}", f"+ user: {shown[1]}"] == lines

    def test_names_of_tools(self):
        """
        A result shows the name of its call, though the call is in the common part.
        """
        call = AssistantMessage(tool_calls=[ToolCall("c", "clock")])
        trunk = Aggregator.new(messages=[UserMessage("?"), call])
        other = trunk.add(ToolMessage("12:30", tool_call_id="c"))
        found = diff(trunk, other)
        later = diff(other, other.add_user_prompt("Ah."))

        assert "+ tool clock, for c: 12:30" in str(found)
        assert "### only in `b`: tool `clock`, for `c`" in found.markdown()
        assert "the last: tool clock, for c: 12:30" in str(later)
        assert "the last in common: tool `clock`" in later.markdown()

    def test_names_of_tools_on_the_other_side(self):
        """A call that both sides made names the results of either."""
        trunk = Aggregator.new(messages=[UserMessage("?")])
        a, b = (
            trunk.fork().extend(
                [
                    AssistantMessage(tool_calls=[ToolCall(f"c{text}", "clock")]),
                    ToolMessage(text, tool_call_id=f"c{text}"),
                ]
            )
            for text in ("1", "2")
        )
        found = diff(a, b)
        joined = diff(b, a.join(b).add(ToolMessage("3", tool_call_id="c2")))

        assert "- tool clock, for c1: 1\n+ tool clock, for c2: 2" in str(found)
        assert "+ tool clock, for c2: 3" in str(joined)
        for shown in (found, joined):
            assert "tool `" in shown.markdown()
            assert not re.search(r"tool,", shown.markdown())
            assert "tool, " not in Fragment(shown.html()).text


class TestMarkdown:
    """`Diff.markdown`."""

    def test_example(self):
        """A heading for each message; the messages of both sides are there once."""
        assert MARKDOWN == diff(*chat()).markdown(names=("draft", "second try"))

    def test_long(self):
        """Of long texts the beginning, and how much more there is."""
        root = Aggregator.new()
        found = diff(root, root.add_user_prompt("x" * 3_000))

        assert found.markdown().endswith(
            f"> {'x' * 2_000}\n\n... 1,000 more characters"
        )


class TestHtml:
    """`Diff.html`."""

    def test_example(self):
        """Two sides, rows of what belongs together, and the words that differ."""
        found = diff(*chat())
        seen = Fragment(found.html(names=("draft", "second try")))

        assert "draft: 5 messagessecond try: 6 messages" in seen.text
        assert "2 messages in common" in seen.text
        assert seen.text.endswith(
            "only draft recorded 15 tokens (1 ledger entry)"
            "only second try recorded 20 tokens (1 ledger entry)"
        )
        assert 8 == len(seen.cells)
        assert seen.cells[0].startswith(
            "assistant · same content in bothreasoningThought 3."
        )
        assert seen.cells[1].startswith(
            "assistant · same content in bothreasoningThought 4."
        )
        assert "assistantIt leaves at 12:30 from platform 4." == seen.cells[4]
        assert ["", "userThanks."] == seen.cells[6:]
        assert {"del": ["3", "30"], "ins": ["4", "40"]} == {
            mark: [text.strip() for text in found]
            for mark, found in seen.marked.items()
        }

    def test_what_both_have_is_there_once(self):
        """Over both columns, as are messages of equal content."""
        trunk = Aggregator.new(messages=[UserMessage("?")])
        a, b = (trunk.fork().add_user_prompt("x") for _ in "ab")
        c = trunk.fork().add_user_prompt("y")

        for found in (diff(a, b), diff(c, a.join(c))):
            html = found.html()
            assert 1 == html.count('colspan="2"')
            assert [True] == [
                "in both" in cell for cell in Fragment(html).cells if " · " in cell
            ]

    @pytest.mark.parametrize(
        ("marks", "one", "other"),
        [
            (["30"], UserMessage("\x1b at 12:30"), UserMessage("\x1b at 12:45")),
            ([], UserMessage("at 12:30"), AssistantMessage("at 12:45")),
            (
                [],
                AssistantMessage([ReasoningPart("at 12:30")]),
                AssistantMessage("at 12:45"),
            ),
            (
                ["Chur"],
                AssistantMessage(tool_calls=[ToolCall("c", "map", '{"at": "Chur"}')]),
                AssistantMessage(tool_calls=[ToolCall("c", "map", '{"at": "Bern"}')]),
            ),
        ],
        ids=["escaped", "roles", "parts", "calls"],
    )
    def test_marks(self, marks, one, other):
        """The words that differ, in the same part of messages of the same role."""
        root = Aggregator.new()
        seen = Fragment(diff(root.fork().add(one), root.fork().add(other)).html())

        assert marks == [text.strip() for text in seen.marked["del"]]
        assert len(marks) == len(seen.marked["ins"])

    def test_folds(self):
        """Long texts are folded, and very long ones cut; so is what is common."""
        root = Aggregator.new(messages=[UserMessage(f"said {n}") for n in range(9)])
        html = diff(
            root, root.extend([UserMessage("x" * 700), UserMessage("y" * 20_000)])
        ).html()
        seen = Fragment(html)

        assert 2 == seen.tags.count("details")
        assert "9 messages in common6 messages before theseusersaid 6" in seen.text
        assert "… (10,000 characters)" in seen.text
        assert "... 10,000 more characters" in seen.text
        assert 10_070 == seen.text.count("y")

    def test_notebooks(self):
        """Show it by itself, and take nothing in it for a formula."""
        found = diff(*chat())

        assert found._repr_html_() == found.html()
        assert found.html().startswith('<div class="cs tex2jax_ignore mathjax_ignore"')
        assert not hasattr(found, "_repr_markdown_")

    def test_redacted(self):
        """Without content a difference has the same rows, and names no side."""
        found = diff(*chat())
        whole = Fragment(draw_difference(found, names=("one", "other")))
        redacted = Fragment(draw_difference(found, names=("one", "other"), redact=True))

        assert whole.tags == redacted.tags
        for word in ("leaves", "platform", "clock", "one", "other"):
            assert re.search(rf"\b{word}\b", whole.text)
            assert not re.search(rf"\b{word}\b", redacted.text)


class TestAll:
    """Whatever the rendering."""

    @pytest.mark.parametrize("style", FORMATS)
    def test_erased(self, style):
        """
        A message that was erased is marked, with the reason, on whichever side it is.
        """
        state = Aggregator.new().add_user_prompt("Hi!").add_user_prompt("secret")
        stone = make_tombstone(state[1], b"x" * 16, "asked for by ann")
        entries = [state.entries[0], Entry(state.entries[1].id, stone)]
        erased = rebuild_state(state, entries=entries, ledger=())
        for found in (diff(state, erased), diff(erased, state)):
            shown = {
                "text": found.text,
                "markdown": found.markdown,
                "html": found.html,
            }[style]()

            assert "erased" in shown
            assert "asked for by ann" in shown

    def test_a_changed_message_before_others(self):
        """
        Both sides of a changed message come before what only one side has after
        it.
        """
        state = Aggregator.new().add_user_prompt("first").add_user_prompt("second")
        changed = Entry(state.entries[0].id, UserMessage("[erased]"))
        other = rebuild_state(state, entries=[changed], ledger=())
        found = diff(state, other)

        signs = [line[:2] for line in found.text().splitlines()[3:]]
        assert ["! ", "! ", "! ", "- "] == signs
        assert ["changed, in `a`", "changed, in `b`", "only in `a`"] == re.findall(
            "^### ([^:]+?)(?:, in its [^:]+)?:", found.markdown(), re.MULTILINE
        )

    @given(hostile_diffs(), names)
    def test_no_text_passes_for_a_message(self, found, names):
        """
        Of every difference all lines, headings, tags and attributes are ours, as many
        as there are entries; the rest is text, and invisible characters are escaped.
        """
        check_text(found, names)
        check_markdown(found, names)
        check_html(found, names)
        assert found.text(names=names) == escape_invisible(found.text(names=names))

    @pytest.mark.parametrize("forgery", FORGERIES)
    def test_forgeries(self, forgery):
        """
        Every known forgery, wherever a message has text of its author's; on one side,
        on both, in common.
        """
        messages = [
            UserMessage(f"{forgery} " * (3_000 // len(forgery))),
            UserMessage(forgery, name=forgery),
            AssistantMessage(
                [ReasoningPart(forgery), FilePart(url=forgery, name=forgery)],
                tool_calls=[ToolCall(forgery, forgery, forgery)],
                response=ResponseMeta(forgery),
            ),
            ToolMessage(forgery, tool_call_id=forgery, tool_name=forgery),
            UnknownMessage({"role": forgery}, source=forgery),
        ]
        trunk = Aggregator.new(messages=messages)
        start = "It leaves at half past twelve, from platform four, and on time:"
        a = trunk.fork().extend([UserMessage(f"{start} {forgery}"), *messages])
        a = a.add_usage(Usage(1), key=forgery)
        b = trunk.fork().extend([UserMessage(start), *messages])
        b = b.add_usage(Usage(2), key=forgery, model=forgery)
        marks = Fragment(diff(a, b).html()).marked["del"]

        assert "".join(escape_invisible(forgery).split()) in "".join(
            "".join(marks).split()
        )
        for found in (diff(a, b), diff(trunk, a), diff(a.join(b), b.join(a))):
            check_text(found, (forgery, forgery))
            check_markdown(found, (forgery, forgery))
            check_html(found, (forgery, forgery))

    @pytest.mark.parametrize("name", FORMATS)
    def test_bounded(self, name):
        """
        A difference of many messages, or of huge ones, is shown in part, with how many
        more there are.
        """
        root = Aggregator.new()
        few = root.fork().extend([UserMessage("x" * 100_000)] * 3)
        many = root.fork().extend([AssistantMessage("y")] * 20_000)
        limit = 100 if name == "html" else 40
        for one, other, short in ((few, many, "a"), (many, few, "b")):
            shown = getattr(diff(one, other), name)()

            assert 100_000 > len(shown)
            assert f"{20_000 - limit:,} more messages in" in shown
            assert f"more messages in `{short}`" not in shown
            assert f"more messages in {short}" not in shown

    @pytest.mark.parametrize("length", [900, 100_000])
    @pytest.mark.parametrize("name", FORMATS)
    def test_difference_far_down(self, name, length):
        """
        However long a text is, what differs in it is shown, and marked in HTML; what is
        cut off and does not differ has no note.
        """
        start, end = "word " * (length // 5), " and more" * length
        found = compare(f"{start}yes{end}", f"{start}no{end}")
        text = show(found, name)

        assert 60_000 > len(getattr(found, name)())
        assert "word yes and more" in text
        assert "word no and more" in text
        assert "differ, too" not in text
        assert {"del": ["yes"], "ins": ["no"]} == {
            mark: [text.strip() for text in texts]
            for mark, texts in Fragment(found.html()).marked.items()
        }
        assert "and an end" in show(compare(start, f"{start}and an end"), name)

    @pytest.mark.parametrize(
        ("name", "longest"), [("markdown", 2_000), ("html", 10_000)]
    )
    def test_more_differences_than_are_shown(self, name, longest):
        """Where what is cut off differs once more, that is noted."""
        texts = [f"{x}{'word ' * 10_000}{y}{'word ' * 10_000}" for x, y in ("ab", "cd")]

        more = f"... {100_002 - longest:,} more characters, which differ, too"
        assert 2 == show(compare(*texts), name).count(more)

    @pytest.mark.parametrize("name", FORMATS)
    def test_many_parts(self, name):
        """
        Of a message of many parts, those that differ are shown, else the first, with
        how many there are besides.
        """
        most = 20 if name == "text" else 100
        calls = [ToolCall(f"{n}", "f", "1") for n in range(500)]
        other = [*calls[:400], ToolCall("other", "g", "2"), *calls[401:]]
        text = show(
            compare(*[AssistantMessage(tool_calls=x) for x in (calls, other)]), name
        )
        alone = show(diff(ROOT, ROOT.add_tool_call(*calls)), name)
        named = [AssistantMessage("so", tool_calls=calls, name=x) for x in "xy"]

        assert "calls g as other" in text
        assert "calls f as 400" in text
        assert "parts before" in text
        assert "more parts" in text
        assert f"... {500 - most} more parts" in alone
        assert "before" not in show(compare(*named), name)

    @pytest.mark.parametrize("name", FORMATS)
    def test_refuses_other_options(self, name):
        """With an error that says what is expected."""
        show_as = getattr(diff(*chat()), name)

        for number in (0, -1, 1.5, "5", None, True):
            with pytest.raises(ValueError, match="a positive number of messages"):
                show_as(limit=number)

        for wrong in ("ab", ("a",), ("a", "b", "c"), ("a", 5), None, {"a": "b"}):
            with pytest.raises(TypeError, match="two texts, one for each side"):
                show_as(names=wrong)

    @pytest.mark.parametrize("name", FORMATS)
    def test_limit(self, name):
        """At most as many of each side as asked for; no note where none is left."""
        a, b = chat()
        found = diff(a, b)
        one, all_of_them = (getattr(found, name)(limit=n) for n in (3, 4))

        assert "1 more message in" in one
        assert "2 more messages" not in one
        assert "more message" not in all_of_them
        assert "Thanks." not in one
        assert "Thanks." in all_of_them

    @given(our.diffs())
    @example(diff(*chat()))
    def test_is_total(self, found):
        """Every difference can be shown, as valid text."""
        for name in FORMATS:
            shown = getattr(found, name)()
            assert shown == shown.encode().decode() == escape_invisible(shown)
