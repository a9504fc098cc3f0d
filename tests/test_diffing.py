"""Comparing: what two states have in common, and what each has alone."""

import json
import pickle
import random
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    decode,
    encode,
)
from conversation_state.adapters import openai_chat
from conversation_state.aggregator import Entry
from conversation_state.diffing import Diff, Pair, diff
from conversation_state.diffing._diff import make_content_key
from conversation_state.diffing.drawing import (
    APART,
    BOTH,
    CHANGED,
    SAME,
    align_rows,
    find_first_difference,
    mark_differences,
    pair_blocks,
)
from conversation_state.messages import UnknownMessage, make_tombstone
from conversation_state.parts import (
    FilePart,
    ImagePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.rendering import ContentBlock
from conversation_state.testing import _state_laws, laws
from conversation_state.testing import strategies as our
from tests.recorded import is_large
from tests.states import rebuild_state


def grown(state, *texts):
    """*state* with users' texts at its end."""
    return state.extend(map(UserMessage, texts))


def watched(verb, looked_at):
    """The method *verb* of a user's message, which lists what it is called on."""
    method = getattr(UserMessage, verb)

    def watch(self, *others):
        looked_at.append(self)
        return method(self, *others)

    return watch


def texts(entries):
    """The texts of entries."""
    return [entry.message.text for entry in entries]


@pytest.fixture
def chat():
    """What both sides remember."""
    return grown(Aggregator.new(), "one", "two", "three", "four")


class TestDiff:
    """`diff` by examples."""

    def test_forks(self, chat):
        """
        What each fork added and recorded is its own; what they inherited is common.
        """
        chat = chat.add_usage(Usage(100))
        a = grown(chat.fork(), "a1", "a2").add_usage(Usage(10, 1)).add_usage(Usage(5))
        b = grown(chat.fork(), "b1").add_usage(Usage(20))

        found = diff(a, b)

        assert 4 == found.common
        assert ["two", "three", "four"] == texts(found.context)
        assert tuple(a.entries)[4:] == found.only_a
        assert tuple(b.entries)[4:] == found.only_b
        assert tuple(a.ledger)[1:] == found.ledger.only_a
        assert tuple(b.ledger)[1:] == found.ledger.only_b
        assert (Usage(15, 1), Usage(20)) == (found.usage_a, found.usage_b)
        assert () == found.entries.both == found.same == found.entries.changed
        assert () == found.ledger.changed
        assert found
        assert found.related
        assert not found.identical
        assert not found.entries.reordered

    def test_related_by_a_join(self, chat):
        """
        Strangers of which one was joined into the other, in the middle, are related.
        """
        found = diff(chat, grown(Aggregator.new(), "x").join(chat))

        assert found.related
        assert 0 == found.common

    def test_erased(self, chat):
        """
        Another message under the same identity is a change, and no entry of
        one side; a join keeps the receiver's.
        """
        entries = list(chat.entries)
        entries[1] = Entry(entries[1].id, UserMessage("[erased]"))
        other = rebuild_state(chat, entries=entries)
        found = diff(chat, other)

        assert 1 == found.common
        assert (Pair(chat.entries[1], entries[1]),) == found.entries.changed
        assert 3 == len(found.entries.both)
        assert () == found.only_a == found.only_b
        assert () == found.same
        assert found
        assert chat.join(other) is chat

    def test_is_a_value(self, chat):
        """
        Equal by content, hashable, small in a pickle, and with a repr of one line.
        """
        long = grown(chat, *["said" * 100] * 1_000)
        a, b = grown(long.fork(), "a"), grown(long.fork(), "b", "c")
        found = diff(a, b)

        assert found == diff(a, b)
        assert found != diff(b, a)
        assert hash(found) == hash(diff(a, b))
        laws.copies_are_equal(found)
        assert "<Diff: 1,004 messages in common, 1 only in a, 2 only in b>" == repr(
            found
        )

    def test_pickles_without_the_past(self, chat):
        """What is shipped grows with the difference."""
        long = grown(chat, *[f"said {n}" * 20 for n in range(1_000)])
        found = diff(grown(long.fork(), "a"), long)

        assert 3_000 > len(pickle.dumps(found))

    def test_looks_at_nothing_in_common(self, monkeypatch):
        """
        Of a shared past no message is compared, hashed or shown, but for the
        last three.
        """
        past = Aggregator.new(messages=[UserMessage(f"past {n}") for n in range(100)])
        past = past.extend(map(UserMessage, "abc"))
        a, b = grown(past.fork(), "a"), grown(past.fork(), "b")
        looked_at: list[Any] = []
        for verb in ("__eq__", "__hash__", "__str__", "__repr__"):
            monkeypatch.setattr(UserMessage, verb, watched(verb, looked_at))

        assert 103 == diff(a, b).common
        assert diff(a, b).text()
        assert diff(a, a).identical
        assert not any(message.content.startswith("past") for message in looked_at)

    @pytest.mark.parametrize(
        ("wrong", "problem"),
        [
            (None, "is .*None; expected an Aggregator"),
            ([UserMessage("hi")], r"is .*\[UserMessage.*; expected an Aggregator"),
            (
                Aggregator.new().checkpoint("x"),
                r"is a Checkpoint: .*: pass [ab]\.state",
            ),
            (Aggregator.new().turn, "is a Turn: .*; expected an Aggregator"),
        ],
        ids=["nothing", "list", "checkpoint", "turn"],
    )
    def test_rejects_other_types(self, wrong, problem):
        """The error names the argument, its type, and what to compare instead."""
        state = Aggregator.new()

        with pytest.raises(TypeError, match=f"a {problem}"):
            diff(wrong, state)

        with pytest.raises(TypeError, match=f"b {problem}"):
            diff(state, wrong)


TRUNK = grown(Aggregator.new(), "x")
JOINED = grown(TRUNK.fork(), "joined")
# Each has messages of its own, one that a join brought to both, and one that is alike.
LEFT = grown(TRUNK.fork(), "l").join(JOINED).add_user_prompt("Hi.")
LEFT = LEFT.add(AssistantMessage("Hi.")).add_usage(Usage(1))
RIGHT = grown(TRUNK.fork(), "r").join(JOINED).add_user_prompt("Hi.")
RIGHT = RIGHT.add_usage(Usage(2))
ALIKE = Pair(LEFT.entries[3], RIGHT.entries[3])


class TestLaws:
    """What holds for every two states."""

    @given(our.relatives())
    def test_relatives(self, pair):
        """Of states that grew from one."""
        laws.diffs_are_complete(*pair)
        laws.diffs_are_mirrored(*pair)
        laws.joins_bring_the_difference(*pair)

    @given(our.aggregators() | our.states(), our.aggregators() | our.states())
    def test_strangers(self, a, b):
        """Of states that know nothing of each other, but for keys of ledgers."""
        laws.diffs_are_complete(a, b)
        laws.diffs_are_mirrored(a, b)
        laws.joins_bring_the_difference(a, b)

    @given(our.aggregators() | our.states())
    def test_itself(self, state):
        """Of a state, itself, a fork and a copy."""
        laws.nothing_differs_from_itself(state)
        laws.diffs_are_complete(state, decode(encode(state), expect=Aggregator))

    @given(our.diffs())
    def test_copies(self, found):
        """Differences survive copying and pickling."""
        laws.copies_are_equal(found)

    def test_broken(self, monkeypatch):
        """A broken law raises an error that names it."""
        trunk = grown(Aggregator.new(), "x")
        a = grown(trunk.fork(), "a").add_usage(Usage(1))
        b = grown(trunk.fork(), "b").add_usage(Usage(2))

        def broken(law, *states, **lie):
            with monkeypatch.context() as patched:
                if "verb" in lie:
                    patched.setattr(Diff, lie["verb"], lie["to"])
                else:
                    changed = lambda a, b: attrs.evolve(diff(a, b), **lie)  # noqa: E731
                    patched.setattr(_state_laws, "diff", changed)

                with pytest.raises(AssertionError) as raised:
                    law(*states)

            return str(raised.value)

        always, never = (lambda _: True), (lambda _: False)
        other = diff(b, a)
        assert broken(laws.nothing_differs_from_itself, a, verb="__bool__", to=always)
        assert broken(laws.nothing_differs_from_itself, a, identical=False)
        assert broken(laws.nothing_differs_from_itself, a, related=False)
        assert broken(laws.diffs_are_complete, a, b, verb="__bool__", to=never)
        assert broken(laws.diffs_are_complete, a, b, identical=True)
        assert broken(laws.diffs_are_complete, a, b, related=False)
        assert broken(laws.diffs_are_complete, a, b, context=())
        assert broken(laws.diffs_are_complete, a, b, entries=other.entries)
        assert broken(laws.diffs_are_complete, a, b, ledger=other.ledger)
        assert broken(laws.diffs_are_mirrored, a, b, verb="reversed", to=lambda d: d)
        assert broken(laws.joins_bring_the_difference, a, b, entries=other.entries)
        assert broken(laws.joins_bring_the_difference, a, b, ledger=other.ledger)

    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            ("entries.common", 0, "more is in common"),
            ("entries.rest_a", (), "another rest"),
            ("entries.only_a", (), "others are only in a"),
            ("entries.only_b", (), "others are only in b"),
            ("entries.both", (), "others are in both"),
            ("entries.reordered", True, "says True of another order"),
            ("ledger.only_b", (), "others are only in b"),
            ("same", (), "equal messages on both sides are in no pair"),
            ("same", (ALIKE, ALIKE), "out of order"),
            ("same", (Pair(ALIKE.a, ALIKE.a),), "alike, and not only in b"),
            ("same", (Pair(LEFT.entries[1], ALIKE.b), ALIKE), "alike twice"),
            ("same", (Pair(LEFT.entries[1], RIGHT.entries[1]),), "alike, of two texts"),
            ("same", (Pair(LEFT.entries[4], ALIKE.b),), "alike, in two roles"),
        ],
    )
    def test_broken_part(self, monkeypatch, path, value, message):
        """So does one of a comparison of which one part is wrong."""
        found = diff(LEFT, RIGHT)
        *way, name = path.split(".")
        changed = getattr(found, way[0]) if way else found
        object.__setattr__(changed, name, value)
        monkeypatch.setattr(_state_laws, "diff", lambda *_: found)
        with pytest.raises(AssertionError, match=message):
            laws.diffs_are_complete(LEFT, RIGHT)


GIF = ImagePart(data=b"GIF")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def call(call_id="c1", name="clock", at="Bern", **fields):
    """An assistant's message that calls a tool."""
    asked = ToolCall(call_id, name, f'{{"at": "{at}"}}', **fields)
    return AssistantMessage(tool_calls=[asked])


def result(call_id="c1", **fields):
    """The result of a tool."""
    return ToolMessage("12:30", tool_call_id=call_id, **fields)


def thought(text, **fields):
    """An assistant's message that is nothing but a thought."""
    return AssistantMessage([ReasoningPart(text, **fields)])


def erased(text, digest=b"x"):
    """A user's message whose text was erased."""
    return make_tombstone(UserMessage(text), digest * 16, "asked for")


class TestSame:
    """When two messages are equal in content."""

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (UserMessage("hi"), UserMessage("hi")),
            (UserMessage("hi"), UserMessage("hi", metadata={"n": 1})),
            (UserMessage("hi", run_id=UUID(int=1)), UserMessage("hi", timestamp=NOON)),
            (UserMessage("hi"), UserMessage([TextPart("h"), TextPart("i", index=1)])),
            (
                AssistantMessage([TextPart("h"), ReasoningPart("hm"), TextPart("i")]),
                AssistantMessage("hi"),
            ),
            (call("c1"), call("c2")),
            (result("c1"), result("c2")),
            (
                UserMessage([ImagePart(data=b"GIF", metadata={"n": 1})]),
                UserMessage([ImagePart(data=b"GIF", index=3)]),
            ),
            (thought("hm", signature="1"), thought("hm", signature="2")),
            (
                UnknownMessage({"role": "judge", "of": [1]}),
                UnknownMessage({"role": "judge", "of": [1]}, metadata={"n": 1}),
            ),
        ],
    )
    def test_same(self, one, other):
        """Ids, times, metadata, thoughts and pieces do not count."""
        assert make_content_key(one) == make_content_key(other)
        assert hash(make_content_key(one)) == hash(make_content_key(other))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (UserMessage("hi"), UserMessage("Hi")),
            (erased("hi", b"x"), erased("Hi", b"y")),
            (UserMessage("hi"), SystemMessage("hi")),
            (UserMessage("hi"), UserMessage("hi", name="ann")),
            (UserMessage([TextPart("hi"), GIF]), UserMessage([GIF, TextPart("hi")])),
            (UserMessage([ImagePart(url="x")]), UserMessage([FilePart(url="x")])),
            (
                UserMessage([ImagePart(url="x", media_type="image/gif")]),
                UserMessage([ImagePart(url="x", media_type="image/png")]),
            ),
            (AssistantMessage("hi"), AssistantMessage([RefusalPart("hi")])),
            (thought("hm"), thought("ah")),
            (AssistantMessage("hi"), call().replace(content="hi")),
            (call(), call(at="Chur")),
            (call(), call(type="custom")),
            (call(), call().replace(tool_calls=call().tool_calls * 2)),
            (result(), result(is_error=True)),
            (result(), result(tool_name="map")),
            (
                UnknownMessage({"role": "judge"}, source="a"),
                UnknownMessage({"role": "judge"}, source="b"),
            ),
        ],
    )
    def test_not_the_same(self, one, other):
        """The role and the name count, and so does all content."""
        assert make_content_key(one) != make_content_key(other)

    @given(our.messages())
    def test_equal_messages_are_equal_in_content(self, message):
        """Whatever they hold, and under other ids and metadata, too."""
        again = message.replace(metadata={"typed": "again"}, timestamp=None)

        assert (
            make_content_key(message)
            == make_content_key(message.replace())
            == make_content_key(again)
        )
        assert hash(make_content_key(message)) == hash(make_content_key(again))

    def test_matched_in_order(self, chat):
        """The first with the first, each once; what is left over is in no pair."""
        a = grown(chat.fork(), "x", "y", "x", "x")
        b = grown(chat.fork(), "x", "x", "y", "z")
        found = diff(a, b)

        at_a = {entry.id: at for at, entry in enumerate(found.only_a)}
        at_b = {entry.id: at for at, entry in enumerate(found.only_b)}
        assert [(0, 0), (1, 2), (2, 1)] == [
            (at_a[one.id], at_b[other.id]) for one, other in found.same
        ]

    def test_what_both_have_is_in_no_pair(self, chat):
        """An entry that both have is in no pair of equal content."""
        a, b = grown(chat.fork(), "x"), grown(chat.fork(), "y")

        assert () == diff(b, a.join(b)).same

    def test_linear(self, chat):
        """A hundred thousand of equal content take linear time."""
        a, b = (chat.fork().extend([UserMessage("x")] * 50_000) for _ in "ab")

        assert 50_000 == len(diff(a, b).same)


class TestRows:
    """Two sides put beside each other."""

    @given(our.diffs())
    def test_every_entry_once(self, found):
        """Both orders are kept, and what stands together belongs together."""
        shown = list(align_rows(found.entries, found.same))
        both = {(pair.a.id, pair.b.id): pair.a == pair.b for pair in found.entries.both}
        same = {(pair.a.id, pair.b.id) for pair in found.same}

        assert list(found.entries.rest_a) == [row.a for row in shown if row.a]
        assert list(found.entries.rest_b) == [row.b for row in shown if row.b]
        for row in shown:
            ids = (row.a and row.a.id, row.b and row.b.id)
            if row.kind in (BOTH, CHANGED):
                assert both[ids] == (row.kind == BOTH)
            elif row.kind == SAME:
                assert ids in same
            else:
                assert row.kind == APART

    @given(
        st.lists(st.integers(0, 5), max_size=12),
        st.lists(st.integers(0, 5), max_size=12),
    )
    def test_as_many_as_possible(self, one, other):
        """No other choice of the pairs puts more of them in one row."""
        root = Aggregator.new()
        found = diff(
            grown(root.fork(), *map(str, one)), grown(root.fork(), *map(str, other))
        )
        shown = [
            row for row in align_rows(found.entries, found.same) if row.kind == SAME
        ]

        at_b = {entry.id: at for at, entry in enumerate(found.only_b)}
        # The longest increasing run by the book: quadratic, over all ends.
        ends = [at_b[pair.b.id] for pair in found.same]
        best: list[int] = []
        for at, end in enumerate(ends):
            before = [best[n] for n in range(at) if ends[n] < end]
            best.append(1 + max(before, default=0))

        assert max(best, default=0) == len(shown)

    def test_lazy(self, chat):
        """The first rows of a million cost no million."""
        found = diff(chat, grown(chat, *["x"] * 100_000))

        first = next(align_rows(found.entries, found.same))

        assert (None, found.only_b[0], APART, "", "") == first

    def test_many_in_another_order(self, chat):
        """Tens of thousands backwards are still put in rows."""
        a = grown(chat, *map(str, range(20_000)))
        b = grown(chat, *map(str, reversed(range(20_000))))
        found = diff(a, b)
        kinds = [row.kind for row in align_rows(found.entries, found.same)]

        assert 1 == kinds.count(SAME)
        assert 20_000 == len(found.same)


class TestWords:
    """Where two texts differ."""

    @given(our.texts(), our.texts(), our.texts())
    def test_first_difference(self, start, one, other):
        """All before is the same, and the next character is not."""
        a, b = start + one, start + other
        at = find_first_difference(a, b)

        assert a[:at] == b[:at]
        assert at in (len(a), len(b)) or a[at] != b[at]

    @pytest.mark.parametrize(
        ("a", "b", "ours", "theirs"),
        [
            ("leaves at 12:30.", "leaves at 12:45.", ["30"], ["45"]),
            ("it is on time", "it is not on time", [], [" not"]),
            ("same", "same", [], []),
            ("nothing alike", "quite other words", [], []),
            ("", "new", [], []),
            (
                "one two three four five six",
                "one 2 three four 5 six",
                [" two", " five"],
                [" 2", " 5"],
            ),
            ("no, no", "no, no, no", [], [", no"]),
        ],
    )
    def test_marked(self, a, b, ours, theirs):
        """The words that are not in the other text; none where most differ."""
        one, other = mark_differences(a, b)

        assert ours == [text for text, is_marked in one if is_marked]
        assert theirs == [text for text, is_marked in other if is_marked]

    @pytest.mark.parametrize("common", [3, 4])
    @pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (0.5, 0.5)])
    def test_too_little_in_common(self, common, before, after):
        """Only texts that share two fifths have marks, wherever those are."""
        other = 10 - common
        first, last = round(other * before), round(other * after)
        a, b = (f"{x * first}{',' * common}{y * last}" for x, y in ("pq", "rs"))

        marked = {each for side in mark_differences(a, b) for _, each in side}
        assert (True in marked) == (common == 4)

    @given(
        st.lists(st.sampled_from(["a", " a", ",", "\n", "ü"]), max_size=30),
        st.lists(st.sampled_from(["a", " a", ",", "\n", "ü"]), max_size=30),
    )
    def test_nothing_is_lost(self, one, other):
        """The pieces are the texts; what is not marked is the same in both."""
        a, b = "".join(one), "".join(other)
        ours, theirs = mark_differences(a, b)
        plain = [
            "".join(text for text, is_marked in side if not is_marked)
            for side in (ours, theirs)
        ]

        assert a == "".join(text for text, _ in ours)
        assert b == "".join(text for text, _ in theirs)
        if any(is_marked for _, is_marked in (*ours, *theirs)):
            assert plain[0] == plain[1]

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            ("," * 300, ",." * 150),
            ("x " * 9_000, "y " * 9_000),
            ("x" * 10**6, "x" * 10**6 + "y"),
            (" " * 20_000, " " * 19_999),
        ],
        ids=["repeated", "many", "long", "blank"],
    )
    def test_bounded(self, a, b):
        """Texts made to take long are not compared word by word."""
        one, other = mark_differences(a, b)

        assert 3 > len(one) + len(other) - 1


class TestWindows:
    """What is shown of long bodies beside each other."""

    @pytest.mark.parametrize(
        ("at", "start"), [(0, 0), (75, 0), (76, 51), (100, 75), (300, 275)]
    )
    def test_before_the_difference(self, at, start):
        """A quarter of what is shown is before a difference that is not in the rest."""
        one, other = (
            [ContentBlock("", f"{'.' * at}{text}{'.' * 400}")] for text in "ab"
        )
        shown = [block.body for block, _ in pair_blocks(one, other, 100)]

        assert f"{'.' * at}a{'.' * 400}"[start : start + 100] in shown

    @pytest.mark.parametrize(
        ("ours", "theirs", "shown"),
        [
            ("x" * 30, "x" * 30, ["x" * 10, "20 more characters"]),
            ("." * 30, "." * 30 + "x", ["28 characters before", ".."]),
            ("." * 20, "." * 40, ["18 characters before", ".."]),
            ("a" + "." * 25, "bbbb" + "." * 25, ["a......", "19 more characters"]),
            ("bbbb" + "." * 25, "a" + "." * 25, ["bbbb......", "19 more characters"]),
            ("aab" + "." * 10, "ab" + "." * 10, ["aab.......", "3 more characters"]),
            (
                f"a{'.' * 8}c{'.' * 9}",
                f"b{'.' * 8}d{'.' * 9}",
                ["a........c", "9 more characters"],
            ),
            (
                f"a{'.' * 7}c{'.' * 9}",
                f"b{'.' * 8}d{'.' * 9}",
                ["a.......c", "9 more characters"],
            ),
            (
                f"a{'.' * 8}c{'.' * 9}",
                f"b{'.' * 10}d{'.' * 9}",
                ["a........c", "9 more characters"],
            ),
            (
                f"a{'.' * 9}c{'.' * 9}",
                f"b{'.' * 9}d{'.' * 9}",
                ["a.........", "10 more characters, which differ, too"],
            ),
        ],
    )
    def test_end_of_the_window(self, ours, theirs, shown):
        """Both sides end alike where nothing behind differs, and else say so."""
        pairs = pair_blocks([ContentBlock("", ours)], [ContentBlock("", theirs)], 10)
        seen = [block.body or block.label.removeprefix("... ") for block, _ in pairs]

        assert seen == shown

    def test_of_another_label(self):
        """What has another label is not beside it, so nothing differs from it."""
        one, other = (
            [ContentBlock(label, f"{'.' * 30}{label}")] for label in ("text", "file")
        )
        pairs = pair_blocks(one, other, 10)

        assert [("." * 10, None), ("", None)] == [
            (block.body, beside) for block, beside in pairs
        ]
        assert "... 24 more characters" == pairs[1][0].label


class TestRealRuns:
    """Two recorded runs of one task."""

    def test_runs(self, recordings):
        """
        All laws hold, every rendering shows both runs, and what was not
        common is what a plain comparison finds.
        """
        path = recordings / "transcripts" / "airline.jsonl"
        chats = [
            openai_chat.load(json.loads(line)["messages"])
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        draw = random.Random(5)
        alike = 0
        for one, other in [*pairwise(chats)][::2]:
            start = 0
            while one[start] == other[start]:
                start += 1

            trunk = Aggregator.new(messages=one[:start])
            a = trunk.fork().extend(one[start:]).add_usage(Usage(draw.randrange(99)))
            b = trunk.fork().extend(other[start:])
            found = diff(a, b)
            alike += len(found.same)

            assert start == found.common
            assert list(one[start:]) == [entry.message for entry in found.only_a]
            assert list(other[start:]) == [entry.message for entry in found.only_b]
            laws.diffs_are_complete(a, b)
            laws.diffs_are_mirrored(a, b)
            laws.joins_bring_the_difference(a, b)
            for shown in (found.text(), found.markdown(), found.html()):
                assert len(shown) < 5_000 + 4 * len(str(one)) + 4 * len(str(other))

        assert (100 if is_large(recordings) else 2) < alike
