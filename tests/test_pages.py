"""Pages: fragments for notebooks and files, whose text can't become markup."""

import ast
import re
from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    AssistantMessage,
    SystemMessage,
    Timeline,
    TokenBudget,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    cost,
    pages,
    trim,
)
from conversation_state.adapters.message_trees import load_trees
from conversation_state.errors import BudgetExceededError
from conversation_state.messages import ResponseMeta
from conversation_state.pages import (
    draw_fragment,
    draw_outline,
    make_page,
    read_history,
)
from conversation_state.parts import (
    AudioPart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.rendering import escape_invisible
from conversation_state.store import open_store
from conversation_state.testing.strategies import (
    aggregators,
    conversations,
    message_trees,
    messages,
    timelines,
)
from conversation_state.tree import MessageTree
from conversation_state.trimming import repair, shorten_tool_results
from tests import pictures
from tests.hostile import FORGERIES, messages_from
from tests.profiles import fewer

ASKED = Aggregator.new().add_user_prompt("Where to?")
SEA = ASKED.add_assistant_message("To the sea.")
HILLS = ASKED.add_assistant_message("Uphill.").add_user_prompt("Why?")
TRIP = (
    Timeline.begin(ASKED, "asked")
    .commit(SEA)
    .commit(HILLS, "hills", on=0)
    .goto("asked")
)

EMPTY = {"meta", "br", "circle", "hr", "path", "img", "input", "link"}
MEDIA = re.compile("data:(image|audio)/[a-z]+;base64,[A-Za-z0-9+/]+={0,2}")
forged = st.lists(st.sampled_from(FORGERIES), min_size=1, max_size=3).map("".join)
hostile_messages = messages_from(forged)
hostile_states = st.lists(messages() | hostile_messages, max_size=4).map(
    lambda some: Aggregator.new(messages=some)
)
hostile_timelines = st.builds(
    lambda a, b, label: Timeline.begin(a, label).commit(b, label).commit(b.fork()),
    hostile_states,
    hostile_states,
    forged,
)
values: Any = st.one_of(
    hostile_states, hostile_timelines, aggregators(), timelines(), message_trees()
)


class PageReader(HTMLParser):
    """The structure of a page, its text, its links and the fragments it has."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.structure = []
        self.texts = []
        self.ids = []
        self.links = []
        self.raw: dict[str, list[str]] = {"style": [], "script": []}
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        # Lengths of words are in no attribute; titles and labels have words.
        kept = [(key, value) for key, value in attrs if key != "title"]
        # A picture has no place in a page without words.
        if tag not in ("img", "audio"):
            self.structure.append((tag, *kept))

        for key, value in attrs:
            assert not key.startswith("on")
            assert key not in ("style", "action")
            assert key != "src" or MEDIA.fullmatch(value)
            if key == "id":
                self.ids.append(value)
            elif key == "href":
                self.links.append(value)

        if tag not in EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self._open.pop()

    def handle_endtag(self, tag):
        assert tag == self._open.pop()

    def handle_data(self, data):
        if self._open and self._open[-1] in self.raw:
            self.raw[self._open[-1]].append(data)
        else:
            self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    @property
    def text(self):
        return "".join(self.texts)

    def count(self, tag, kind=""):
        return sum(
            each[0] == tag and kind in [*dict(each[1:]).get("class", "").split(), ""]
            for each in self.structure
        )


class TestStructure:
    """
    The markup of a page comes from this package; content of a conversation is text.
    """

    @given(values)
    def test_text_is_no_markup(self, value):
        """A page without content has the same elements, in the same order."""
        page = PageReader(make_page(value))
        redacted = PageReader(make_page(value, redact=True))

        assert redacted.structure == page.structure

    @given(values)
    def test_fragments(self, value):
        """So has a fragment for notebooks."""
        fragment = PageReader(draw_fragment(value))
        redacted = PageReader(draw_fragment(value, redact=True))

        assert redacted.structure == fragment.structure
        assert not fragment.links
        assert not fragment.raw["script"]

    @given(values)
    def test_links(self, value):
        """Links lead to fragments of the page, of which each is there once."""
        page = PageReader(make_page(value))

        assert len(page.ids) == len({*page.ids})
        assert {link.removeprefix("#") for link in page.links} <= {*page.ids}

    @given(values)
    def test_invisible_characters(self, value):
        """No character that is invisible, or turns others around, is in a page."""
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", make_page(value))

    def test_policy(self):
        """A page allows its own styles and its own script, by their digests."""
        text = make_page(TRIP)
        page = PageReader(text)
        start = '<meta http-equiv="Content-Security-Policy" content='
        (policy,) = re.findall(f'{start}"([^"]*)"', text)

        assert policy.startswith("default-src &#x27;none&#x27;; ")
        for raw in page.raw.values():
            digest = b64encode(sha256("".join(raw).encode()).digest()).decode()
            assert f"&#x27;sha256-{digest}&#x27;" in policy

        assert not re.search(r"url\(|@import|https?:", text)


def test_a_state_that_ends_with_calls():
    """The drawing of a timeline says what was called where nothing was said."""
    calls = [ToolCall("c1", "tide", "{}"), ToolCall("c2", "ferry", "{}")]
    begun = Aggregator.new([AssistantMessage(" ", tool_calls=calls)])
    timeline = Timeline.begin(begun).commit(begun.add_user_prompt("Well?"))

    assert "calls tide, ferry" in make_page(timeline)


def words_in(path):
    """The words in the texts of a Python file, without its docstrings' code."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"[\w-]+", node.value)


class TestStyles:
    """What the style sheets and the script name is what pages are made of."""

    FOLDER = Path(pages.__file__).parent
    ROLES = ("assistant", "system", "tool", "user")

    def test_used(self):
        """
        Each class that has a style, or that the script looks for, is written by a page
        or by the script; some are made of a role.
        """
        written = {word for path in self.FOLDER.glob("*.py") for word in words_in(path)}
        for role in self.ROLES:
            assert {"cs-", "cs-of-"} <= written
            written |= {f"cs-{role}", f"cs-of-{role}"}

        texts = [path.read_text("utf-8") for path in self.FOLDER.glob("assets/*.css")]
        rules = re.sub(r"(?s)/\*.*?\*/|\{[^{}]*\}", " ", " ".join(texts))
        script = (self.FOLDER / "assets" / "page.js").read_text("utf-8")
        by_script = {*re.findall(r"classList\.\w+\(['\"]([\w-]+)", script)}
        named = {
            *re.findall(r"\.([a-z][\w-]*)", rules),
            *re.findall(r"\.(cs-[\w-]+)", script),
        }

        assert len(named) > 50
        assert set() == named - written - by_script


class TestRedact:
    """Pages without content."""

    @fewer()
    @given(st.lists(hostile_messages, max_size=4), forged)
    def test_no_text_stays(self, some, label):
        """No text of a message, name or label is in the page."""
        secret = "xyzzy"
        call = ToolCall(secret, secret, f'{{"{secret}": 1}}')
        state = Aggregator.new(
            messages=[
                UserMessage(secret, name=secret),
                AssistantMessage(secret, tool_calls=[call]),
                ToolMessage(secret, tool_call_id=secret),
                *some,
            ]
        ).add_usage(Usage(1), model=secret)
        timeline = Timeline.begin(state, secret).commit(state.fork(), label)
        view = trim(state, TokenBudget(context_window=100_000))
        for value in (state, timeline, MessageTree.of(timeline), view):
            assert secret in draw_fragment(value) + make_page(value)
            assert secret not in draw_fragment(value, redact=True)
            assert secret not in make_page(value, title=secret, redact=True)

        assert secret not in make_page(state, view=view, redact=True)


class TestTimelines:
    """Pages of timelines."""

    def test_every_moment_is_shown(self):
        """
        Each moment leads to the message its state ends with; no message stands
        twice.
        """
        page = PageReader(make_page(TRIP))

        assert {"moment-0", "moment-1", "moment-2"} < {*page.ids}
        assert 4 == page.count("article")
        assert "The present conversation" in page.text
        assert "Branch to moment 2, from moment 0" in page.text

    def test_the_present(self):
        """One row is marked as the present one."""
        page = PageReader(draw_fragment(TRIP))

        assert 1 == sum(("aria-current", "true") in each for each in page.structure)

    def test_differences(self):
        """
        The ends of other branches and labelled states are beside the present one, in
        two columns that their rows lead to.
        """
        page = PageReader(make_page(TRIP))

        assert {"#compare-1", "#compare-2"} == {
            link for link in page.links if link.startswith("#compare")
        }
        assert "moment 1 and moment 0: 1 message in common, 1 only in" in page.text
        assert 2 == page.count("td", "cs-a") - 1 == page.count("table", "cs-diff")

    def test_differences_of_order(self):
        """A message that two states have in another order says where it is, too."""
        one, other = (
            ASKED.fork().add_user_prompt("1"),
            ASKED.fork().add_user_prompt("2"),
        )
        joined = Timeline.begin(ASKED).commit(one.join(other))
        page = PageReader(make_page(joined.commit(other.join(one), on=0)))

        assert "elsewhere in moment 1, too" in page.text

    def test_same_results_of_other_calls(self):
        """The same result of calls of two tools is on both sides, and not a change."""
        one, other = [
            ASKED.add(AssistantMessage(tool_calls=[ToolCall("1", name)])).add(
                ToolMessage("12:30", tool_call_id="1")
            )
            for name in ("clock", "map")
        ]
        page = PageReader(
            make_page(Timeline.begin(ASKED).commit(one).commit(other, on=0))
        )

        assert 2 == page.count("td", "cs-both")
        assert 0 == page.count("td", "cs-differing")

    def test_many_differences(self):
        """Those of the newest twenty branches; others are not compared."""
        timeline = Timeline.begin(ASKED)
        for number in range(30):
            timeline = timeline.commit(ASKED.add_user_prompt(f"{number}"), on=0)

        page = PageReader(make_page(timeline))
        compared = {each for each in page.ids if each.startswith("compare-")}

        assert {f"compare-{number}" for number in range(10, 30)} == compared

    def test_other_states(self):
        """States of any type are shown as they are."""
        page = PageReader(make_page(Timeline.begin("<b>Dear").commit("Dear Ann")))

        assert "<b>Dear" in page.text
        assert {"moment-0", "moment-1"} < {*page.ids}

    def test_going_back(self):
        """A state that its own branch went back from has a section of its own."""
        timeline = Timeline.begin(ASKED).commit(SEA).commit(HILLS)
        page = PageReader(make_page(timeline))

        assert {"moment-0", "moment-1", "moment-2"} < {*page.ids}
        assert "To the sea." in page.text

    def test_returns(self):
        """
        A state that goes back to another branch has no line to it: it is marked as a
        return, and was joined with nothing.
        """
        timeline = Timeline.begin(ASKED).commit(SEA).commit(HILLS, on=0)
        timeline = timeline.commit(SEA.add_user_prompt("When?"), on=2)

        assert (
            "●  moment 3 ← you are here  user: When?"
            "  (3 messages, returns to moment 1)\n"
            "○  moment 2  user: Why?  (3 messages)\n"
            "│ ○  moment 1  assistant: To the sea.  (2 messages)\n"
            "├─╯\n"
            "○  moment 0  user: Where to?  (1 message)"
        ) == str(timeline)

    def test_joins_in_either_order(self):
        """A join is one, whichever branch comes first in it."""
        left = ASKED.fork().add_assistant_message("To the sea.")
        right = ASKED.fork().add_assistant_message("Uphill.")
        timeline = Timeline.begin(ASKED).commit(left).commit(right, on=0)

        for state in (left.join(right), right.join(left)):
            for parent in (1, 2):
                drawn = str(timeline.commit(state, on=parent)).splitlines()

                assert "├─╮" == drawn[1]
                assert "returns" not in drawn[0]

    def test_join_of_three(self):
        """A join has a line to each of the others."""
        first, second, third = [
            ASKED.fork().add_assistant_message(text) for text in ("A", "B", "C")
        ]
        timeline = Timeline.begin(ASKED).commit(first)
        timeline = timeline.commit(second, on=0).commit(third, on=0)
        joined = timeline.commit(first.join(second, third), on=1)

        assert "├─┬─╮" == str(joined).splitlines()[1]

    def test_long_folds(self):
        """
        A folded run lists its newest states and how many it leaves out, and has a way
        to the oldest; the lines of other branches go on beside it.
        """
        state = ASKED
        timeline = Timeline.begin(state).commit(SEA)
        for number in range(300):
            state = state.add_user_prompt(f"{number}")
            timeline = timeline.commit(state, on=0 if number == 0 else None)

        page = make_page(timeline)
        folded = PageReader(page)
        (tail,) = re.findall('<path d="([^"]*)"/></svg></div><details>', page)

        assert "… 197 more states, then moment 3" in folded.text
        assert "#moment-3" in folded.links
        assert "#moment-4" not in folded.links
        assert "M8 0V44" == tail

    def test_many_lanes(self):
        """
        Many lanes are scaled to the width of the page; few are as wide as they are.
        """
        timeline = Timeline.begin(ASKED)
        for number in range(30):
            timeline = timeline.commit(ASKED.add_user_prompt(f"{number}"))

        for number in range(30):
            timeline = timeline.commit(ASKED, on=number)

        many = draw_fragment(timeline)

        assert len(timeline.moments) == many.count(
            'viewBox="0 0 384 44" preserveAspectRatio="none"'
        )
        assert "viewBox" not in draw_fragment(TRIP)


def chatgpt(*said):
    """An archive of ChatGPT with one message behind another, each with its keys."""
    mapping, before = {}, None
    for at, (role, words, keys) in enumerate(said):
        is_text = isinstance(words, str)
        content = {"content_type": "text", "parts": [words]} if is_text else words
        author = {"role": role, "name": keys.pop("name", None)}
        body = {"id": f"{at}", "author": author, "content": content, **keys}
        mapping[f"{at}"] = {"id": f"{at}", "parent": before, "message": body}
        before = f"{at}"

    loaded: Any
    [loaded] = load_trees({"mapping": mapping, "current_node": before})
    return loaded.tree


class TestImports:
    """Pages of what other programs exported."""

    def test_hidden(self):
        """What a chat hides is marked, and folded; what is empty is said to be."""
        hidden = {"metadata": {"is_visually_hidden_from_conversation": True}}
        context = {"content_type": "user_editable_context", "user_profile": "A baker."}
        tree = chatgpt(
            ("system", "", {**hidden}),
            ("user", context, {**hidden}),
            ("user", "What bread?", {}),
        )
        page = make_page(tree.present)
        text = PageReader(page).text

        assert 2 == text.count("context, hidden in the chat")
        assert 1 == text.count("empty")
        assert "<details><summary>A baker.</summary>" in page
        assert "<summary>What bread?" not in page

    def test_unsent(self):
        """An error that an agent showed says that no model got it."""
        notes = {"conversation_state": {"sessions": {"unsent": True}}}
        state = Aggregator.new([AssistantMessage("API Error: 529", metadata=notes)])
        page = make_page(state)

        assert "not sent to a model" in page
        assert "<summary>API" not in page

    @pytest.mark.parametrize(
        ("raw", "shown"),
        [
            (
                {"content_type": "reasoning_recap", "content": "Thought for 8 seconds"},
                "Thought for 8 seconds",
            ),
            (
                {"content_type": "image_asset_pointer", "width": 640, "height": 480},
                "picture, 640 × 480, which is not in the file",
            ),
            (
                {"content_type": "real_time_user_audio_video_asset_pointer"},
                "sound, which is not in the file",
            ),
            ({"file_kind": "image", "file_name": "bread.png"}, "bread.png"),
        ],
    )
    def test_unknown_parts(self, raw, shown):
        """The text of an unknown part, and its JSON in a fold."""
        part = UnknownPart(raw, source="chatgpt")
        page = make_page(Aggregator.new([UserMessage([TextPart("See"), part])]))
        before, _, after = page.partition("<details><summary>unknown ")

        assert shown in before
        assert "chatgpt" in after
        alone = Aggregator.new([UserMessage([part])])
        assert shown not in make_page(alone, redact=True)
        assert f"user: {shown}" in str(MessageTree.of(alone))

    def test_unknown_parts_without_text(self):
        """Of those the JSON is shown as it is."""
        part = UnknownPart({"content": [{"a": 1}]}, source="x")
        page = make_page(Aggregator.new([UserMessage([part])]))

        assert "<details><summary>unknown" not in page

    def test_calls(self):
        """The code of a call is there once, and so is its result."""
        code = {"content_type": "code", "language": "python", "text": "12*0.55"}
        output = {"content_type": "execution_output", "text": "6.6"}
        tree = chatgpt(
            ("assistant", code, {"recipient": "python"}),
            ("tool", output, {"name": "python"}),
        )
        page = PageReader(make_page(tree.present))

        # In the card's title and in its arguments.
        assert 2 == page.text.count("12*0.55")

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("Rye \ue200cite\ue202turn0search1\ue201.", "Rye (Reliable rye)."),
            ("Rye \ue200cite\ue202turn0search2\ue201.", "Rye (https://rye.example)."),
            ("Rye \ue200cite\ue202turn0search9\ue201.", "Rye."),
            ('In \ue200entity\ue202["city","Bern","in CH"]\ue201.', "In Bern."),
            ("In \ue200entity\ue202[1\ue201.", "In."),
            ("See \ue200url\ue202Rye\ue202https://rye.example\ue201.", "See Rye."),
            ("It \ue203is rye\ue204\ue206.", "It is rye."),
        ],
    )
    def test_marks(self, text, shown):
        """ChatGPT's marks are the titles of their sources, or left out."""
        references = [
            {
                "matched_text": "\ue200cite\ue202turn0search1\ue201",
                "items": [{"title": "Reliable rye", "url": "https://rye.example"}],
            },
            {
                "matched_text": "\ue200cite\ue202turn0search2\ue201",
                "url": "https://rye.example",
            },
            {"matched_text": 1, "items": 1},
            1,
        ]
        keys = {"metadata": {"content_references": references}}
        tree = chatgpt(
            ("assistant", "rye", {"recipient": "web"}),
            ("tool", text, {"name": "web", **keys}),
            ("assistant", text, {**keys}),
        )
        page = make_page(tree)

        assert text == tree.present[-1].text
        assert 4 == PageReader(page).text.count(shown)
        assert not re.search("[\ue200-\ue206]", page)

    def test_cut_mark(self):
        """A mark that is longer than an excerpt is replaced whole."""
        places = "\ue202turn0search1" * 20
        text = f"Rye \ue200cite{places}\ue201 bread."
        outline = draw_outline(chatgpt(("assistant", text, {})))

        assert "Rye bread." in outline

    def test_many_blanks(self):
        """The time that marks take grows with the text, not with its square."""
        text = f"Rye{' ' * 200_000}\ue200cite"
        start = process_time()

        make_page(Aggregator.new([UserMessage(text)]))

        assert process_time() - start < 10

    def test_times(self):
        """A heading has the minute; the whole time is its title."""
        time = datetime(2026, 11, 29, 13, 14, 15, 161718, tzinfo=UTC)
        page = make_page(Aggregator.new([UserMessage("Hi!", timestamp=time)]))

        assert "user, 2026-11-29 13:14 UTC" in PageReader(page).text
        assert 'title="2026-11-29 13:14:15.161718+00:00"' in page

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("0001-01-01T00:00+08:00", "0001-01-01 00:00+08:00"),
            ("9999-12-31T23:59-01:00", "9999-12-31 23:59-01:00"),
        ],
    )
    def test_times_in_no_year(self, text, shown):
        """A time that UTC has no year for is shown as it is."""
        time = datetime.fromisoformat(text)
        page = make_page(Aggregator.new([UserMessage("Hi!", timestamp=time)]))

        assert f"user, {shown}" in PageReader(page).text


class TestTrees:
    """Pages of message trees."""

    @given(message_trees())
    def test_every_message_once(self, tree):
        """Each message has a bubble, and a row that leads to it or is folded."""
        page = PageReader(make_page(tree))
        anchors = [each for each in page.ids if each.startswith("message-")]

        assert len(tree) == page.count("article") == len(anchors)

    def test_large_trees(self):
        """The newest 5,000 messages are drawn, under their numbers; others counted."""
        answers = [ASKED.fork().add_assistant_message(f"{n}") for n in range(5_100)]
        state = Aggregator.new().extend([UserMessage("Hi!")] * 6_000)
        first, *_, last = str(MessageTree.of(*answers)).splitlines()
        _, fold, oldest, older = str(MessageTree.of(state)).splitlines()

        assert "●  message 5101 ← you are here  assistant: 5099  (5100/5100)" == first
        assert "… and 4,901 older states" == last
        assert "… 4,998 states" in fold
        assert "○  message 1001  user: Hi!" == oldest
        assert "… and 1,000 older states" == older

    def test_siblings(self):
        """Alternatives are numbered, with how many there are."""
        assert (
            "●  message 4 ← you are here  user: Why?\n"
            "○  message 3  assistant: Uphill.  (2/2)\n"
            "│ ○  message 2  assistant: To the sea.  (1/2)\n"
            "├─╯\n"
            "○  message 1  user: Where to?"
        ) == str(MessageTree.of(SEA, HILLS))


class TestStates:
    """Pages of states."""

    def test_long_conversations(self):
        """
        A file has every message, older ones in blocks that can be unfolded; a notebook
        the newest ones, and counts the others.
        """
        state = Aggregator.new(messages=[UserMessage(f"{n}") for n in range(1_200)])
        page = PageReader(make_page(state))
        fragment = PageReader(draw_fragment(state))

        assert 1_200 == page.count("article")
        assert "Messages 1 to 500" in page.text
        assert "Messages 501 to 700" in page.text
        assert 50 == fragment.count("article")
        assert "1,150 messages before these" in fragment.text

    def test_long_words(self):
        """Of a long text the beginning is in the page, folded, and its length."""
        page = PageReader(make_page(ASKED.add_user_prompt("a" * 1_000_000)))

        assert "a" * 10_000 in page.text
        assert len(page.text) < 12_000
        assert "990,000 more characters" in page.text
        assert 1 == page.count("details")

    def test_large_conversations(self):
        """A page has a size: the newest messages are in it, and the others counted."""
        messages = [UserMessage("<" * 9_000)] * 400
        page = make_page(Aggregator.new(messages=[*messages, UserMessage("The end.")]))
        shown = page.count("<article")  # what is in messages is escaped

        assert len(page) < 11_000_000
        assert f"{401 - shown} messages before these, which are not shown" in page
        assert "The end." in page
        assert shown > 100

    def test_usage(self):
        """A bill has a row for each model."""
        state = SEA.add_usage(Usage(10, 5, 15), model="some-model").add_usage(Usage(1))
        page = PageReader(make_page(state))

        assert "some-model" in page.text
        assert "no model recorded" in page.text
        assert 1 == page.count("table", "cs-bill")
        assert "some-model" in PageReader(draw_fragment(cost(state))).text


class TestViews:
    """What the model sees."""

    STATE = Aggregator.new(
        messages=[
            SystemMessage("Be brief."),
            UserMessage("One?" * 50),
            AssistantMessage("Two." * 50),
            UserMessage("Three?"),
        ]
    )

    def test_dropped(self):
        """What is dropped has its reason, and how much is kept."""
        view = trim(self.STATE, TokenBudget(context_window=40))
        page = PageReader(draw_fragment(view))

        assert "The model sees 2 of 4 messages" in page.text
        assert 1 == page.count("details", "cs-dropped")
        assert 2 == page.count("article", "cs-gone")
        assert "2 messages dropped" in page.text
        assert "over budget" in page.text

    def test_order(self):
        """Every message is there once, in order, under its number, with its words."""
        view = trim(self.STATE, TokenBudget(context_window=40))
        text = " ".join(PageReader(draw_fragment(view)).text.split())
        roles = enumerate(("system", "user", "assistant", "user"), 1)
        places = [text.index(f"{role}#{number}") for number, role in roles]

        assert sorted(places) == places
        assert text.index("system#1") < text.index("Be brief.")
        assert text.index("user#4") < text.index("Three?")

    def test_labels(self):
        """What a part is stands above it."""
        message = AssistantMessage(
            [ReasoningPart("So."), TextPart("At noon."), RefusalPart("No.")],
            tool_calls=[ToolCall("1", "find", '{"q": 1}')],
        )
        text = " ".join(PageReader(draw_fragment(ASKED.add(message))).text.split())

        assert "reasoning (3 characters)So." in text
        assert "refusalNo." in text
        assert "find q=1no result here" in text

    def test_on_a_page(self):
        """A page has the view, with what is dropped folded, and the conversation."""
        view = trim(self.STATE, TokenBudget(context_window=40))
        page = PageReader(make_page(self.STATE, view=view))

        assert 4 + 4 == page.count("article")
        assert 1 == page.count("details", "cs-dropped")
        assert "2 messages dropped" in page.text
        assert "over budget" in page.text

    def test_rewritten_message(self):
        """A message that the model gets in other words is shown with both."""
        call = ToolCall("1", "find", "{}")
        state = ASKED.add_tool_call(call).add_tool_response(
            ToolMessage("found " * 500, tool_call_id="1")
        )
        view = trim(state, None, shorten_tool_results(20))
        page = PageReader(draw_fragment(view))

        assert 1 == page.text.count("in other words")
        assert "found found" in page.text
        assert 1 == page.count("article", "cs-changed")


def letters_of(text):
    """*text* without what Markdown, JSON and HTML change: spaces and signs."""
    return "".join(re.findall(r"[^\W_]+", text))


class TestWhatIsSeen:
    """
    All that the model sees is on the page, in its order, and of a long text its first
    10,000 characters.
    """

    @staticmethod
    def check(view):
        texts = [one.text[:10_000] for one in view.messages]
        shown = [letters_of(escape_invisible(text)) for text in texts]
        for page in (draw_fragment(view), make_page(view)):
            left = letters_of(PageReader(page).text)
            for text in shown:
                assert text in left
                left = left[left.index(text) + len(text) :]

    @example([UserMessage("where to " * 2_500)], 40)
    @given(conversations(), st.integers(40, 2_000))
    def test_every_view(self, conversation, tokens):
        """Whatever the view keeps and drops."""
        state = Aggregator.new(messages=conversation)
        try:
            view = trim(state, TokenBudget(context_window=tokens))
        except BudgetExceededError:
            view = trim(state, None)

        self.check(view)

    def test_long_conversations(self):
        """The system's message is kept from the start of a long conversation."""
        state = Aggregator.new([SystemMessage("You plan long journeys.")])
        for number in range(1_000):
            state = state.add_user_prompt(f"Q{number} " * 20)
            state = state.add_assistant_message(f"A{number} " * 20)

        view = trim(state, TokenBudget(context_window=4_000))
        page = PageReader(draw_fragment(view))

        assert "You plan long journeys." in page.text
        assert page.count("article") == len(view) + 200
        assert "messages before these, dropped, too" in page.text
        newest = max(each.seq for each in view.dropped)
        assert letters_of(state[newest].text) in letters_of(page.text)
        self.check(view)

    def test_dropped_at_the_end(self):
        """What is dropped behind all that is kept is there, too."""
        view = trim(
            ASKED.add(ToolMessage("Of no call.", tool_call_id="x")), None, repair()
        )
        page = PageReader(draw_fragment(view))

        assert "1 message dropped" in page.text
        assert "Of no call." in page.text


LINES = st.sampled_from(
    [
        *("# One", "Two\n---", "- three", "1. four", "7) five", "> six", "    seven"),
        *("```python\neight = 8\n```", "~~~ x y\nz", "|a|b|\n|-|-|\n|1|2|3|"),
        *("*nine* **ten** `e_l` ~~t~~", "[text](http://a_b.c/*d*)", "![alt](x.png)"),
        *("<b>bold</b> &amp; &#65;", "[ref]: http://e.f 'title'", "<http://g.h>"),
        *("a\\*b", "wo**r**d", "\u202eevil", "***", "|x|", "* * *", ""),
    ]
)


class TestMarkdown:
    """Texts with Markdown."""

    @given(st.lists(LINES, max_size=8).map("\n".join) | st.text(max_size=60))
    def test_no_word_is_lost(self, text):
        """Every word is in the text of the page, in order, and nothing is loaded."""
        page = PageReader(draw_fragment(Aggregator.new([UserMessage(text)])))

        assert letters_of(escape_invisible(text)) in letters_of(page.text)
        assert not page.links
        assert not page.count("img")

    def test_elements(self):
        """Emphasis, lists, tables and code have their elements."""
        text = (
            "# Plan\n**May**, *maybe*\n\n- a\n- b\n\n3. c\n\n| x | y |\n|---|---|\n"
            "| 1 | 2 |\n\n```py\nprint(1)\n```\n> said `so`\n"
        )
        page = PageReader(draw_fragment(Aggregator.new([AssistantMessage(text)])))
        counts = {tag: page.count(tag) for tag in ("strong", "em", "li", "td", "pre")}

        assert {"strong": 1, "em": 1, "li": 3, "td": 2, "pre": 1} == counts
        assert "3. c" in page.text
        assert 1 == page.count("h4") == page.count("blockquote")

    def test_addresses(self):
        """The address of a link is seen, and nobody goes there by a click."""
        text = "**Go** to [the bank](https://evil.example/?x=1)."
        html = draw_fragment(Aggregator.new([UserMessage(text)]))

        assert "[the bank](https://evil.example/?x=1)" in PageReader(html).text
        assert "<strong>Go</strong>" in html
        assert "href" not in html.partition("</style>")[2]

    def test_definitions(self):
        """The definition of a reference stays in the text."""
        html = draw_fragment(Aggregator.new([UserMessage("**a** [b]\n\n[b]: c.d 'e'")]))

        assert "<strong>a</strong> [b]" in html
        assert "[b]: c.d 'e'" in PageReader(html).text

    def test_a_table_that_would_lose_a_cell(self):
        """A text of which a word would be lost is shown as it is."""
        page = PageReader(
            draw_fragment(Aggregator.new([UserMessage("|a|\n|-|\n|1|lost|")]))
        )

        assert "|1|lost|" in page.text
        assert 0 == page.count("table")


class TestCards:
    """Calls and their results."""

    STATE = ASKED.add(
        AssistantMessage(
            "",
            tool_calls=[
                ToolCall("1", "trains", '{"to": "Bern", "after": 12}'),
                ToolCall("2", "weather", '{"city": "Bern"}'),
                ToolCall("3", "hotels", "not JSON"),
            ],
        )
    ).extend(
        [
            ToolMessage('{"at": "12:30"}', tool_call_id="1"),
            ToolMessage("It is down.", tool_call_id="2", is_error=True),
        ]
    )

    def test_one_card(self):
        """
        A call and its result are one card, where the result is; closed, but for that
        of a failed one. A call without a result says so.
        """
        page = PageReader(draw_fragment(self.STATE))
        cards = [each for each in page.structure if ("class", "cs-tool") in each]
        text = " ".join(page.text.split())

        assert 3 == len(cards)
        assert [False, False, True] == [("open", None) in each for each in cards]
        assert "hotels not JSONno result here" in text
        assert "trains to=Bern, after=12ok" in text
        assert "weather city=Bernfailed" in text
        assert "for a call of" not in text
        assert 4 == page.count("article")

    def test_another_tool(self):
        """A result that says that it is of another tool than its call is shown so."""
        state = ASKED.add(AssistantMessage("", tool_calls=[ToolCall("1", "a", "{}")]))
        result = ToolMessage("x", tool_call_id="1", tool_name="b")

        assert "b for a call of a" in PageReader(draw_fragment(state.add(result))).text

    def test_ids_again(self):
        """A result answers the latest call with its id."""
        state = ASKED
        for number in (1, 2):
            call = ToolCall("same", f"tool{number}", f'{{"n": {number}}}')
            state = state.add(AssistantMessage("", tool_calls=[call]))
            state = state.add(ToolMessage(f"r{number}", tool_call_id="same"))

        text = PageReader(draw_fragment(state)).text

        assert text.index("n=1") < text.index("r1") < text.index("n=2")
        assert "no result here" not in text

    def test_a_dropped_result(self):
        """In a view the call of a result that is dropped stays at its message."""
        kept = self.STATE.messages[:2]
        page = PageReader(draw_fragment(Aggregator.new([*kept])))

        assert 3 == page.text.count("no result here")


class TestMedia:
    """Pictures and sounds."""

    def test_data(self):
        """Those that are in the conversation are shown; nothing is loaded."""
        parts = [
            ImagePart(data=b"GIF89a", media_type="image/gif"),
            ImagePart(url="data:image/png;base64,iVBORw0KGgo="),
            ImagePart(url="https://example.org/x.png"),
            ImagePart(data=b"<svg/>", media_type="image/svg+xml"),
            ImagePart(url='data:image/png;base64,"><script>'),
            AudioPart(data=b"ID3", media_type="audio/mpeg"),
        ]
        html = draw_fragment(Aggregator.new([UserMessage(parts)]))
        page = PageReader(html)

        assert [
            "data:image/gif;base64,R0lGODlh",
            "data:image/png;base64,iVBORw0KGgo=",
        ] == (re.findall('<img src="([^"]*)"', html))
        assert 1 == html.count("<audio")
        assert "https://example.org/x.png" in page.text

    def test_kinds(self):
        """What every browser shows is shown."""
        pictures = [f"image/{kind}" for kind in ("gif", "jpeg", "png", "webp")]
        sounds = [f"audio/{kind}" for kind in ("mp4", "mpeg", "ogg", "wav", "webm")]
        parts = [
            *[ImagePart(data=b"GIF", media_type=each) for each in pictures],
            *[AudioPart(data=b"ID3", media_type=each) for each in sounds],
        ]
        html = draw_fragment(Aggregator.new([UserMessage(parts)]))

        assert [*pictures, *sounds] == re.findall('src="data:([^;]*);base64', html)

    def test_redacted(self):
        """Without words there are no pictures."""
        state = Aggregator.new(
            [UserMessage([ImagePart(data=b"GIF89a", media_type="image/gif")])]
        )

        assert "<img" not in draw_fragment(state, redact=True)


class TestFacts:
    """What an answer cost."""

    def test_model_and_tokens(self):
        """An answer has its model, its tokens, and on a page its price."""
        response = ResponseMeta("stop", Usage(1_000, 100), model="gpt-4o")
        state = ASKED.add_response(AssistantMessage("So.", response=response))

        assert "gpt-4o · 1,100 tokens" in PageReader(draw_fragment(state)).text
        assert "gpt-4o · 1,100 tokens · $0.0035" in PageReader(make_page(state)).text

    def test_another_price(self):
        """
        An interrupted answer has cost at least that, and one of another service tier
        has no known price.
        """
        response = ResponseMeta("interrupted", Usage(1_000, 100), model="gpt-4o")
        answer = AssistantMessage("So.", response=response)
        notes = {
            "conversation_state": {
                "openai_chat": {"response": {"service_tier": "flex"}}
            }
        }

        page = PageReader(make_page(ASKED.add_response(answer))).text
        flex = ASKED.add_response(answer.replace(metadata=notes))
        assert "1,100 tokens · at least $0.0035" in page
        assert "1,100 tokens ·" not in PageReader(make_page(flex)).text


class TestNotebooks:
    """Values that draw themselves."""

    @pytest.mark.parametrize(
        "value",
        [SEA, TRIP, MessageTree.of(TRIP), trim(SEA, None), cost(SEA)],
        ids=lambda value: type(value).__name__,
    )
    def test_repr(self, value):
        """A notebook shows what `draw_fragment` returns."""
        assert draw_fragment(value) == value._repr_html_()

    def test_something_else(self):
        """Other values are refused by name."""
        with pytest.raises(TypeError, match="can't draw 5; expected an Aggregator"):
            draw_fragment(5)

        with pytest.raises(TypeError, match="can't draw 5; expected"):
            make_page(5)

        with pytest.raises(TypeError, match="title is 5; expected a str"):
            make_page(SEA, title=5)  # type: ignore[arg-type]

        with pytest.raises(
            TypeError, match="expected a Timeline, a History or a MessageTree"
        ):
            draw_outline(SEA)


class TestOutlines:
    """Trees as text."""

    @given(hostile_timelines, st.integers(20, 200))
    def test_painted(self, timeline, width):
        """With colours the same text, each piece coloured as what it is."""
        plain = draw_outline(timeline, width=width)
        kinds = set()

        def paint(text, kind):
            kinds.add(kind)
            return text

        painted = draw_outline(timeline, width=width, paint=paint)

        assert [line.rstrip() for line in painted.splitlines()] == plain.splitlines()
        assert {"present"} <= kinds
        assert kinds <= {"present", "lanes", "label", "facts", "excerpt"}

    def test_long_words_leave_room(self):
        """Beside a long message there is room for the facts."""
        timeline = Timeline.begin(ASKED.add_user_prompt("long " * 100))

        assert draw_outline(timeline, width=80).endswith(" …  (2 messages)")

    def test_pieces(self):
        """What is coloured is neither more nor less than the piece."""
        timeline = TRIP.goto("hills")
        painted = draw_outline(timeline, paint=lambda text, kind: f"<{kind} {text}>")

        assert (
            "<present ●>  <present moment 2> <label [hills]> <present ← you are here>"
            "  <excerpt user: Why?>  <facts (3 messages)>"
        ) == painted.splitlines()[0]

    @given(hostile_timelines, st.integers(20, 60))
    def test_width(self, timeline, width):
        """Beside the lanes a line has at most so many characters."""
        for line in draw_outline(timeline, width=width).splitlines():
            assert len(line) <= width + 2 * 3 + 2


class TestHistory:
    """The revisions of a name."""

    @given(timelines())
    def test_states(self, timeline):
        """
        Each revision has its own state, also where a moment was committed on one that
        it does not begin with.
        """
        with open_store("memory:") as store:
            store.save_timeline("chat", timeline)
            history = read_history(store, "chat")
            expected = [store.load("chat", at=at.number) for at in history.states]

        assert expected == [each.state for each in history.states]
        assert timeline.present == history.state

    def test_shares(self):
        """States share what they have in common."""
        state = Aggregator.new().add_user_prompt("one")
        with open_store("memory:", remembered=0) as store:
            for text in ("two", "three"):
                store.save("chat", state)
                state = state.add_user_prompt(text)

            first, second = read_history(store, "chat", limit=2).states

        assert first.state[0] is second.state[0]

    @given(message_trees())
    def test_every_message_once(self, tree):
        """
        Also where branches grew from no revision, as those of a saved tree, or were
        joined, so that one message stands in two places.
        """
        with open_store("memory:") as store:
            store.save_tree("chat", tree)
            page = PageReader(make_page(read_history(store, "chat")))
            revisions = len(store.history("chat"))

        messages = {node.entry.id for node in tree.nodes}

        assert len(messages) == page.count("article")
        assert revisions == len([at for at in page.ids if at.startswith("revision-")])

    def test_where_a_branch_begins(self):
        """Its title says behind which message its own ones are."""
        with open_store("memory:") as store:
            store.save_tree("chat", MessageTree.of(SEA, HILLS))
            page = PageReader(make_page(read_history(store, "chat")))

        assert "Branch to revision 1, from message 1" in page.text


class TestPictures:
    """The pictures in the documentation."""

    def test_views(self):
        """
        The picture of views is what is drawn now, and has no text of the conversation.
        """
        drawn = pictures.draw_all_views()

        assert pictures.VIEWS.read_text(encoding="utf-8") == drawn
        for message in pictures.load_longest():
            assert not message.text or message.text not in drawn

    def test_pages(self):
        """
        The pictures of pages are small, the documentation shows each, and what they
        are made of has the words that the documentation finds in them.
        """
        folder = pictures.VIEWS.parent
        files = [*folder.glob("*.md"), folder.parent / "README.md"]
        shown = "".join([file.read_text(encoding="utf-8") for file in files])
        words = {
            "page": ("The model sees", "Branch to moment 2", "Bill"),
            "undo": ("moment 0", "you are here", "Branch and model"),
            "difference": ("2 messages in common", "<del>", "<ins>"),
            "overlay": ("2 messages dropped", "in other words", "[cleared]"),
            "store": ("revision 1", "Branch to revision 3, from revision 1"),
            "live": ("Model sees", "trains", "failed", "<table>", "newest"),
            "live-narrow": ("Conversations",),
            "live-seen": ("What the model sees", "messages dropped"),
            "live-chat": ("2/2", "Engadin"),
            "live-compared": ("From revision 2 to revision 5",),
        }

        for name, page in pictures.draw_all_pages().items():
            assert f"{name}.png)" in shown
            assert 100_000 > (folder / f"{name}.png").stat().st_size
            for word in words[name]:
                assert word in page
