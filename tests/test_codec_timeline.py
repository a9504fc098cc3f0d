"""
Timelines on the wire.
"""

import gc
import json
import math
import re
import tracemalloc
from contextlib import suppress
from enum import StrEnum
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.aggregator import Aggregator, Checkpoint, Entry, LedgerEntry
from conversation_state.codec import (
    Codec,
    _encode_timeline,
    decode,
    encode,
    from_data,
    to_data,
)
from conversation_state.documents import Document
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage, UserMessage
from conversation_state.parts import TextPart
from conversation_state.templates import Placeholder, Template
from conversation_state.testing.strategies import json_values, timelines
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage
from tests.profiles import is_thorough
from tests.states import rebuild_state


class Key(StrEnum):
    KEY = "key"


@attrs.frozen
class Draft:
    """
    A class of a user's own.
    """

    text: str


def chat(steps: int) -> Timeline[Aggregator]:
    """
    A timeline of a conversation: a moment and a usage for each message.
    """
    state = Aggregator.new()
    timeline = Timeline.begin(state)
    for i in range(steps):
        state = state.add_user_prompt(f"prompt {i}").add_usage(Usage(i), key=f"k{i}")
        timeline = timeline.commit(state)

    return timeline


def tree() -> dict[str, Any]:
    """
    The document of a timeline with two branches, whose redo goes elsewhere.

        0 ── 1 ── 2
         └── 3

    Each moment has a message more than its parent; 3 has paid another usage.
    """
    state = Aggregator.new().add_user_prompt("0").add_usage(Usage(1), key="a")
    one = state.add_user_prompt("1")
    two = one.add_user_prompt("2").add_usage(Usage(2), key="b")
    three = state.fork().add_user_prompt("3").add_usage(Usage(3), key="c")
    begun = Timeline.begin(state, "begun", limit=9).commit(one, group="g").commit(two)
    return to_data(begun.goto(0).commit(three))


def wrong(data: Any) -> list[str]:
    """
    The problems of *data*, the same whichever way it is read.
    """
    with pytest.raises(DecodeError) as caught:
        from_data(data)

    with pytest.raises(DecodeError) as again:
        decode(json.dumps(data))

    assert caught.value.problems == again.value.problems
    return [str(problem) for problem in caught.value.problems]


def changed(data: Any, path: str, new: Any) -> Any:
    """
    A copy of *data* with *new* at *path*, `states[1].thread` say.
    """
    data = json.loads(json.dumps(data))
    *steps, last = [
        int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)
    ]
    inside = data
    for step in steps:
        inside = inside[step]

    inside[last] = new
    return data


def count_calls(
    patch: pytest.MonkeyPatch, owner: type, name: str
) -> list[tuple[Any, ...]]:
    """
    The arguments of each call of the method *name* of *owner* from now on.
    """
    calls: list[tuple[Any, ...]] = []
    method = getattr(owner, name)

    def counted(*args: Any) -> Any:
        calls.append(args)
        return method(*args)

    patch.setattr(owner, name, counted)
    return calls


class TestRoundTrip:
    @given(timelines())
    def test_every_timeline(self, timeline):
        """
        Decoding undoes encoding, and equal values are equal bytes.
        """
        data = encode(timeline)
        copied = decode(data, expect=Timeline)

        assert timeline == copied
        assert hash(timeline) == hash(copied)
        assert timeline == from_data(to_data(timeline))
        assert data == encode(copied)

    @given(timelines(), st.data())
    def test_goes_on_alike(self, timeline, data):
        """
        A decoded timeline has the same way back and ahead.
        """
        copied = decode(encode(timeline))
        moment = data.draw(st.sampled_from(timeline.moments))

        assert timeline.goto(moment) == copied.goto(moment)
        assert timeline.goto(0 + moment.number).redo() == copied.goto(moment).redo()

    def test_more_than_the_limit(self):
        """
        A present that stays keeps more moments than the limit, and so does its copy.
        """
        timeline = Timeline.begin("a", limit=1)
        for state in ("b", "c"):
            timeline = timeline.commit(state, on=0, stay=True)

        for each in (timeline, timeline.goto(2)):
            copy = decode(encode(each), expect=Timeline)

            assert each == copy
            assert 3 == len(copy.moments)
            assert each.commit("d") == copy.commit("d")

    def test_filter_and_group(self):
        """
        A filter is not written, and a group is closed.
        """
        timeline = Timeline.begin("S", filter=lambda a, b: False).with_filter(None)
        copied = decode(encode(timeline.commit("a", group="g")))

        assert 2 == len(copied.moments)
        assert 3 == len(copied.commit("b", group="g").moments)
        assert "g" == copied.moment.group

    @pytest.mark.parametrize(
        "state",
        [
            Usage(1, 2),
            UserMessage("hi"),
            TextPart("hi"),
            ToolCall("1", "clock"),
            ToolInfo("clock"),
            Document("1", "text"),
            Template(Placeholder("history")),
            Aggregator.new().add_user_prompt("hi").turn,
            Checkpoint(Aggregator.new().add_user_prompt("hi"), "kept"),
            (UserMessage("hi"), AssistantMessage("hello")),
            (),
            Aggregator.new(messages=[UserMessage("hi")]).messages,
        ],
    )
    def test_states_of_any_kind(self, state):
        """
        Whatever has a kind of its own, and next to states of others.
        """
        begun: Timeline[Any] = Timeline.begin(Aggregator.new())
        timeline = begun.commit(state, "it").commit("text")
        copied = decode(encode(timeline))

        assert timeline == copied
        assert state == copied.undo().present

    @given(json_values())
    def test_plain_values(self, value):
        """
        JSON is kept as what it is.
        """
        timeline = decode(encode(Timeline.begin(value)))

        assert value == timeline.present
        assert type(value) is type(timeline.present)

    def test_plain_values_are_copies(self):
        """
        Changing what was read from changes no state.
        """
        data = to_data(Timeline.begin({"a": [1]}))
        timeline = from_data(data)
        data["states"][0]["json"]["a"].append(2)

        assert {"a": [1]} == timeline.present

    def test_registered_states(self):
        """
        Classes of a user's own are written as in any document.
        """
        codec = Codec().register(Draft, "draft")
        timeline = Timeline.begin(Draft("a")).commit(Draft("b"))
        data = codec.to_data(timeline)

        assert {"kind": "draft", "value": {"text": "b"}} == data["states"][1]
        assert timeline == codec.from_data(data)
        assert timeline == codec.decode(codec.encode(timeline), expect=Timeline)
        assert "$.states[0].kind: unknown kind 'draft'" in "\n".join(wrong(data))

    def test_lists_of_messages(self):
        """
        A list comes back as a list, and a tuple as a tuple.
        """
        messages = [UserMessage("hi"), AssistantMessage("hello")]
        timeline: Timeline[Any] = Timeline.begin([*messages])
        timeline = timeline.commit(tuple(messages)).commit([]).commit(())
        read = decode(encode(timeline))

        assert timeline == read
        assert [list, tuple, list, tuple] == [type(each.state) for each in read.moments]
        assert encode(timeline) == encode(read)

    def test_kept_as_a_field(self):
        """
        A registered class may hold a timeline.
        """

        @attrs.frozen
        class Editor:
            timeline: Timeline[Any]

        codec = Codec().register(Editor, "editor")
        editor = Editor(chat(3))

        assert editor == codec.decode(codec.encode(editor))


class TestPlaces:
    """
    Branches that leave each other anywhere.
    """

    @pytest.mark.parametrize("first", [1, 5, 40])
    @pytest.mark.parametrize("second", [1, 5, 40])
    def test_in_the_middle_of_a_branch(self, first, second):
        """
        A branch that leaves another branch in its middle has the messages and
        the usages it had, and so has every moment of either.
        """
        state = Aggregator.new()
        for i in range(10):
            state = state.add_user_prompt(f"trunk {i}").add_usage(Usage(i + 1))

        timeline = Timeline.begin(state)
        for i in range(10):
            state = state.add_user_prompt(f"more {i}").add_usage(Usage(i + 1))
            timeline = timeline.commit(state)

        timeline = timeline.goto(3)
        for name, count in (("one", first), ("two", second), ("three", 3)):
            there = timeline.moment
            state = there.state
            begun = len(timeline.moments)
            for i in range(2 * count):
                state = state.add_user_prompt(f"{name} {i}").add_usage(Usage(i + 1))
                timeline = timeline.commit(state)

            timeline = timeline.goto(begun + count)

        read = decode(encode(timeline))

        assert timeline == read
        for kept, made in zip(timeline.moments, read.moments, strict=True):
            assert list(kept.state) == list(made.state)
            assert list(kept.state.ledger) == list(made.state.ledger)

    @given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), max_size=6))
    def test_anywhere(self, branches):
        """
        Branches of branches, of any length, from any moment.
        """
        state = Aggregator.new()
        timeline = Timeline.begin(state)
        for number, (at, length) in enumerate([(0, 5), *branches]):
            timeline = timeline.goto(at % len(timeline.moments))
            for i in range(length):
                grown = timeline.present.add_user_prompt(f"{number}.{i}")
                timeline = timeline.commit(grown.add_usage(Usage(i + 1)))

        read = decode(encode(timeline))

        for kept, made in zip(timeline.moments, read.moments, strict=True):
            assert list(kept.state) == list(made.state)
            assert list(kept.state.ledger) == list(made.state.ledger)
            assert kept.state.total_usage == made.state.total_usage


class TestEqual:
    """
    Comparing a timeline with what was read of it.
    """

    @pytest.mark.parametrize("steps", [200, 800])
    def test_compares_each_message_once(self, steps, monkeypatch):
        """
        The cost grows with the number of messages, and not with that of each moment.
        """
        timeline = chat(steps)
        for at in range(0, steps, 20):  # branches, back and forth
            there = timeline.goto(at)
            grown = there.present.fork().add_user_prompt(f"branch at {at}")
            timeline = there.commit(grown).commit(grown.add_user_prompt("more"))

        read = decode(encode(timeline))
        compared = count_calls(monkeypatch, UserMessage, "__eq__")

        assert timeline == read
        assert read == timeline
        assert read.moments == timeline.moments
        assert 10 * steps > len(compared)

    def test_of_several_conversations(self, monkeypatch):
        """
        Also where they take turns, and the moments before are forgotten.
        """
        states = [Aggregator.new() for _ in range(3)]
        timeline: Timeline[Any] = Timeline.begin(None, limit=150)
        for step in range(300):
            at = step % 3
            states[at] = states[at].add_user_prompt(f"prompt {step}")
            timeline = timeline.commit(states[at])

        read = decode(encode(timeline))
        compared = count_calls(monkeypatch, UserMessage, "__eq__")

        assert timeline == read
        assert 2_000 > len(compared)

    @pytest.mark.parametrize("at", [0, 1, 30, 31, 32, 33, 60])
    def test_sees_any_difference(self, at):
        """
        In one message, one label or one usage of any moment.
        """
        timeline = chat(60)
        moments = list(decode(encode(timeline)).moments)
        state, moment = moments[at].state, moments[at]
        changed = [
            attrs.evolve(moment, label="x"),
            attrs.evolve(moment, group="x"),
            attrs.evolve(moment, state=state.add_user_prompt("x")),
            attrs.evolve(moment, state=state.add_usage(Usage(1), key="x")),
            attrs.evolve(moment, state=state.fork()),
            attrs.evolve(moment, state=None),
        ]
        if at:
            entries = [*state.entries]
            entries[-1] = entries[-1]._replace(message=UserMessage("x"))
            unlike = rebuild_state(state, entries=entries)
            changed.append(attrs.evolve(moment, state=unlike))

        for each in changed:
            moments[at] = each
            other = Timeline.rebuild(moments=moments, present=60, redo={})

            assert timeline != other
            assert other != timeline

        moments[at] = moment
        assert timeline == Timeline.rebuild(moments=moments, present=60, redo={})


class TestShared:
    def test_each_message_once(self):
        """
        The size is that of the longest state, and a little for each moment.
        """
        timeline = chat(300)
        data = encode(timeline)

        assert 1 == data.count(b'"prompt 7"')
        assert 1 == data.count(b'"k7"')
        assert len(data) < len(encode(timeline.present)) + 301 * 60

    def test_branches(self):
        """
        Also of branches, however they came about: what one has after the same
        messages as another is written once.
        """
        timeline = chat(50)
        for at in (10, 40, 0, 25):
            there = timeline.goto(at)
            timeline = there.commit(there.present.fork().add_user_prompt(f"at {at}"))

        # The same messages again, on top of a moment that has few of them.
        timeline = timeline.goto(1).commit(timeline.moments[45].state.fork())
        data = to_data(timeline)

        assert [50, 1, 1, 1, 1] == [len(each["messages"]) for each in data["threads"]]
        assert [[0, 10], [0, 40], [0, 25]] == [
            each["after"] for each in data["threads"] if "after" in each
        ]
        assert [50] == [len(each["entries"]) for each in data["ledgers"]]
        assert {"origin": 5, "thread": [0, 45], "ledger": [0, 45]} == data["states"][-1]
        assert timeline == from_data(data)

    def test_what_lost_its_parents(self):
        """
        Roots that a limit made share what they grew from.
        """
        state = Aggregator.new(messages=[UserMessage(str(i)) for i in range(100)])
        timeline = Timeline.begin(state, limit=10)
        for i in range(30):
            timeline = timeline.undo().commit(state.add_user_prompt(f"branch {i}"))

        data = to_data(timeline)

        assert 110 == sum(len(each["messages"]) for each in data["threads"])
        assert timeline == from_data(data)

    def test_costs_what_differs(self, monkeypatch):
        """
        What is there already is not compared again, item by item.
        """
        segmenter = _encode_timeline._LogSegmenter
        asked = count_calls(monkeypatch, segmenter, "_find_next")
        state = Aggregator.new(messages=[UserMessage(str(i)) for i in range(500)])
        timeline = Timeline.begin(state, limit=10)
        for i in range(30):
            timeline = timeline.undo().commit(state.add_user_prompt(f"branch {i}"))

        encode(timeline)

        assert len(asked) < 50

    def test_costs_what_differs_in_turns(self, monkeypatch):
        """
        Also where conversations take turns in one timeline.
        """
        segmenter = _encode_timeline._LogSegmenter
        asked = count_calls(monkeypatch, segmenter, "_find_next")
        states = [Aggregator.new() for _ in range(3)]
        timeline: Timeline[Any] = Timeline.begin(None)
        for i in range(100):
            states = [state.add_user_prompt(str(i)) for state in states]
            for state in states:
                timeline = timeline.commit(state)

        data = to_data(timeline)

        assert len(asked) <= 300
        assert [100] * 3 == [len(each["messages"]) for each in data["threads"]]
        assert timeline == from_data(data)

    def test_one_identity_of_several_messages(self):
        """
        A state with different messages under one identity has them still.
        """
        state = Aggregator.new()
        given: dict[str, Any] = {
            "id": state.id,
            "parent_id": None,
            "root_id": None,
            "init_len": 0,
            "init_ledger_len": 0,
            "ledger": [],
        }
        timeline = Timeline.begin(state)
        for texts in ("ab", "ac", "xb", "ab", "xc", "a"):
            entries = [Entry(str(i), UserMessage(t)) for i, t in enumerate(texts)]
            one = Aggregator.rebuild(**given, entries=entries)
            timeline = timeline.commit(one).commit(one.add_usage(Usage(1), key="k"))
            timeline = timeline.commit(one.add_usage(Usage(2), key="k"))

        assert timeline == decode(encode(timeline))

    def test_one_id_of_several_origins(self):
        """
        States of one id that were forked elsewhere are distinguished.
        """
        one, other = Aggregator.new(), Aggregator.new()
        given: dict[str, Any] = {
            "id": one.id,
            "entries": [Entry("a", UserMessage("a"))],
            "ledger": [LedgerEntry("b", Usage(5), "")],
        }
        timeline = Timeline.begin(one)
        for parent in (None, other.id):
            for root in (one.id, other.id):
                for at in ((0, 0), (1, 0), (0, 1)):
                    state = Aggregator.rebuild(
                        **given,
                        parent_id=parent,
                        root_id=root,
                        init_len=at[0],
                        init_ledger_len=at[1],
                    )
                    timeline = timeline.commit(state)

        assert timeline == decode(encode(timeline))
        assert 13 == len(to_data(timeline)["states"])

    def test_same_state_once(self):
        """
        A state that several moments have is written once, and read as one.
        """
        states: list[Any] = [Aggregator.new(), Usage(1), {"a": 1}, "text", 5, None]
        begun: Timeline[Any] = Timeline.begin(0)
        timeline = begun
        for _ in range(3):
            for state in states:
                timeline = timeline.commit(state)

        data = to_data(timeline)
        copied = [moment.state for moment in from_data(data).moments][1:]

        assert 1 + len(states) == len(data["states"])
        assert all(a is b for a, b in zip(copied, copied[len(states) :], strict=False))

    def test_equal_atoms_of_other_types(self):
        """
        1, 1.0 and True are three states.
        """
        timeline: Timeline[Any] = Timeline.begin(1).commit(True)  # noqa: FBT003
        timeline = timeline.commit(1.0).commit(0.0).commit(-0.0)
        copied = [moment.state for moment in decode(encode(timeline)).moments]

        assert ["1", "True", "1.0", "0.0", "-0.0"] == [*map(repr, copied)]

    def test_decoded_states_share(self):
        """
        As those did that were encoded: each entry is one object.
        """
        timeline = decode(encode(chat(200)))
        states = [moment.state for moment in timeline.moments]

        assert all(
            a.entries[-1] is b.entries[len(a) - 1] for a, b in pairwise(states[1:])
        )

    def test_memory(self):
        """
        What is decoded grows with the messages, not with their square.
        """

        def bytes_per_moment(steps):
            data = encode(chat(steps))
            gc.collect()
            tracemalloc.start()
            timeline = decode(data)
            size = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            assert steps + 1 == len(timeline.moments)
            return size / steps

        assert bytes_per_moment(1_000) < 1.5 * bytes_per_moment(200)

    def test_states_go_on(self):
        """
        Decoded states are as good as others: usage, forks, joins.
        """
        timeline = chat(40)
        copied = decode(encode(timeline))
        for ours, theirs in zip(timeline.moments, copied.moments, strict=True):
            assert ours.state.usage == theirs.state.usage
            assert ours.state.total_usage == theirs.state.total_usage
            assert theirs.state.join(ours.state) is theirs.state

        assert copied.present is copied.present.add_usage(Usage(3), key="k3")
        assert Usage(2) == copied.goto(3).present.fork().add_usage(Usage(2)).usage

    def test_a_fork_counts_usage_since(self):
        """
        The usage since the fork is worked out from the ledger.
        """
        state = Aggregator.new().add_usage(Usage(5)).add_usage(Usage(7))
        timeline = Timeline.begin(state).commit(state.fork().add_usage(Usage(1)))
        copied = decode(encode(timeline))

        assert Usage(1) == copied.present.usage
        assert Usage(12) == copied.undo().present.usage


class TestRefuses:
    @pytest.mark.parametrize(
        ("state", "problem"),
        [
            (object(), "object.*gives a codec that can"),
            ({1}, r"\{1\}"),
            ({"a": (1,)}, "expected a dict, list, str"),
            ({"a": {1: 2}}, "keys of JSON are text"),
            ({"a": {Key.KEY: 2}}, "keys of JSON are text"),
            ({"a": [Key.KEY]}, "expected a dict, list, str"),
            ([object()], "expected a dict, list, str"),
            ([math.nan, {1}], "expected a dict, list, str"),
            ([b"bytes"], "expected a dict, list, str"),
            ([UserMessage("hi"), 5], "can't encode an int"),
            (("a", 5), "can't encode a str"),
            (Timeline.begin("S"), "a timeline can't be a state of a timeline"),
            (Draft("a"), r"Codec\(\).register\(cls, kind\)"),
        ],
    )
    def test_states(self, state, problem):
        """
        A state that can't be written is named, with its moment.
        """
        timeline: Timeline[Any] = Timeline.begin(None)
        timeline = timeline.commit(5, "five").commit(state, "the one")

        match = rf"moment 2 \('the one'\) .*{problem}"
        with pytest.raises(TypeError, match=match) as caught:
            encode(timeline)

        assert type(caught.value) is TypeError

    @pytest.mark.parametrize(
        "value", [math.nan, math.inf, 2**64, "\ud800", {"\ud800": 1}], ids=repr
    )
    def test_what_json_can_not_represent(self, value):
        """
        It is not a TypeError, for the type is right.
        """
        for state in (value, [value], {"a": value}):
            with pytest.raises(ValueError, match="moment 0 of a timeline"):
                encode(Timeline.begin(state))

    @pytest.mark.parametrize("make", [list, dict])
    def test_what_holds_itself(self, make):
        """
        It is refused, and not written for ever.
        """
        state: Any = make()
        for key in ("a", "b"):
            if make is list:
                state.append(state)
            else:
                state[key] = state

        with pytest.raises(ValueError, match="moment 0 of a timeline"):
            encode(Timeline.begin(state))


class TestProblems:
    @pytest.mark.parametrize(
        ("path", "new", "problem"),
        [
            ("moments", 5, "expected an array, got 5"),
            ("moments[1]", None, "expected an object, got null"),
            ("moments[1]", {}, "$.moments[1].state: missing"),
            ("moments[1].state", 4, "unknown state 4; there are 4"),
            ("moments[1].state", -1, "unknown state -1; there are 4"),
            ("moments[1].group", "", "is empty"),
            ("moments[1].label", 5, "expected a text, got 5"),
            ("moments[1].more", 5, "unknown field"),
            ("moments[0].parent", 0, "moment 0 is the first; it has none"),
            ("moments[2].parent", 2, "is 2; moment 2 can have one from 0 to 1"),
            ("moments[2].parent", -1, "is -1; moment 2 can have one from 0 to 1"),
            ("limit", 0, "is 0; expected at least 1"),
            ("limit", -1, "expected an integer from 0 to 2**63 - 1, got -1"),
            ("present", 4, "is 4; there are moments 0 to 3"),
            ("first", 1, "$.redo[0]: moment 0 comes after 0; expected larger"),
            ("redo", [], "goes from 0 to 1, not to the present over 3"),
            (
                "redo",
                [[0]],
                "$.redo[0]: expected the numbers of a moment and of a child, got ",
            ),
            ("redo", [[0, 1]], "$.redo[0]: moment 1 can't be another child of 0"),
            ("redo", [[0, 4]], "$.redo[0]: moment 4 can't be another child of 0"),
            ("redo", [[0, 2]], "$.redo[0]: moment 2 was committed on 1"),
            (
                "redo",
                [[0, 3], [0, 3]],
                "$.redo[1]: moment 0 comes after 0; expected larger ones",
            ),
            ("redo", [[-1, 3]], "$.redo[0]: moment -1 comes after -1"),
            ("redo", [[True, 3]], "$.redo[0][0]: expected an integer of at most"),
            ("states[1]", [], "expected an object, got an array"),
            ("states[1].thread", [2, 1], "unknown segment 2; those before it are 0"),
            ("states[1].thread", [-1, 1], "unknown segment -1; those before it are 0"),
            ("states[1].thread", [0, 4], "segment 0 has lengths 1 to 3, not 4"),
            ("states[1].thread", [0, 0], "segment 0 has lengths 1 to 3, not 0"),
            ("states[1].thread", [1, 1], "segment 1 has lengths 2 to 2, not 1"),
            (
                "states[1].thread",
                [0, 1, 2],
                "expected the number of a segment and a length",
            ),
            (
                "states[1].thread",
                ["a", 1],
                "$.states[1].thread[0]: expected an integer of at most 64 bits",
            ),
            ("states[1].ledger", [5, 1], "unknown segment 5"),
            ("states[1].origin", 2, "unknown origin 2; there are 2"),
            ("states[1].more", 2, "unknown field"),
            ("states[1]", {"json": 5, "a": 1}, "$.states[1].a: unknown field"),
            ("states[1]", {"kind": "no"}, "$.states[1].kind: unknown kind 'no'"),
            ("states[1]", {"kind": []}, "$.states[1].kind: unknown kind an array"),
            ("states[1]", {"kind": "usage"}, "$.states[1].usage: missing"),
            (
                "states[1]",
                {"kind": "usage", "usage": {}, "version": 1},
                "$.states[1].version: unknown field",
            ),
            (
                "states[1]",
                {"kind": "usage", "usage": {"prompt_tokens": "5"}},
                "$.states[1].usage.prompt_tokens: expected an integer from 0",
            ),
            (
                "states[1]",
                {"kind": "timeline"},
                "$.states[1].kind: a timeline can't be a state of a timeline",
            ),
            (
                "origins[1].init_len",
                3,
                "$.states[3].thread: is of length 2; its origin was forked at 3",
            ),
            (
                "origins[1].init_ledger_len",
                3,
                "$.states[3].ledger: is of length 2; its origin was forked at 3",
            ),
            ("origins[1].init_len", -1, "expected an integer from 0 to 2**63 - 1"),
            ("origins[1].id", "no", "expected a UUID"),
            ("origins[1]", {}, "$.origins[1].id: missing"),
            ("origins", [], "$.states[0].origin: unknown origin 0; there are 0"),
            ("threads", 5, "expected an array, got 5"),
            ("threads[0]", 5, "expected an object, got 5"),
            ("threads[0].entry_ids", ["a"], "1 identity for 3 messages"),
            ("threads[1].after", [1, 1], "unknown segment 1; those before it are 0"),
            ("threads[1].after", [2, 1], "unknown segment 2"),
            ("threads[1].after", [0, 4], "segment 0 has lengths 1 to 3, not 4"),
            ("threads[0].after", [0, 1], "unknown segment 0; it is first"),
            (
                "threads[1]",
                {"entry_ids": [], "messages": []},
                "$.threads[1].messages: is empty",
            ),
            ("ledgers[0].entries", [], "is empty"),
            ("ledgers[0].entries[0].usage.prompt_tokens", "a", "expected an integer"),
            ("ledgers[0].entries[1].id", "a", "the same as at 0 of segment 0"),
            ("ledgers[1].entries[0].id", "a", "the same as at 0 of segment 0"),
            (
                "ledgers[0].entries[1].usage.prompt_tokens",
                2**63 - 1,
                "$.ledgers[0].entries: ",
            ),
        ],
    )
    def test_one(self, path, new, problem):
        """
        Each with its path, where the field itself is not at fault, and nothing else
        but what follows from it.
        """
        found = wrong(changed(tree(), path, new))

        expected = problem if problem.startswith("$") else f"$.{path}: {problem}"
        assert found[0].startswith(expected)

    @pytest.mark.parametrize(
        ("path", "new"),
        [("states[3].thread", [0, 1]), ("ledgers[1].entries[0].id", "b")],
    )
    def test_none(self, path, new):
        """
        What is beside another branch may be shorter, and have its identities.
        """
        assert from_data(changed(tree(), path, new))

    @pytest.mark.parametrize("name", ["present", "moments", "states"])
    def test_missing(self, name):
        """
        What every timeline has must be there.
        """
        data = tree()
        del data[name]

        assert f"$.{name}: missing" in wrong(data)

    def test_no_moments(self):
        """
        A timeline has a present, so it has a moment.
        """
        data = {**tree(), "moments": []}

        assert "$.moments: is empty" in wrong(data)

    def test_forgotten_present(self):
        """
        The present is one of those that are kept.
        """
        data = to_data(Timeline.begin(0, limit=2).commit(1).commit(2))
        data["present"] = 0

        assert ["$.present: is 0; there are moments 1 to 2"] == wrong(data)

    def test_redo_of_a_parent_that_nothing_follows(self):
        """
        A moment whose children do not come right after it needs a choice.
        """
        begun: Timeline[Any] = Timeline.begin(0).commit(1).undo().commit(2).goto(1)
        data = to_data(begun.commit(3).goto(0).commit(4).goto(2))
        data["redo"] = [[0, 2]]

        assert ["$.redo: has no entry for 1, on which 3 was committed"] == wrong(data)

    def test_same_identity_on_one_way(self):
        """
        In one log an identity is there once, in several as often as it likes.
        """
        data = tree()
        first, second, _ = data["threads"][0]["entry_ids"]
        beside = changed(data, "threads[1].entry_ids[0]", second)
        within = changed(data, "threads[1].entry_ids[0]", first)
        alone = changed(data, "threads[0].entry_ids[2]", first)

        assert second == from_data(beside).present.entries[-1].id
        assert ["$.threads[1].entry_ids[0]: the same as at 0 of segment 0"] == wrong(
            within
        )
        assert ["$.threads[0].entry_ids[2]: the same as at 0 of segment 0"] == wrong(
            alone
        )

    def test_same_identity_on_several_ways(self):
        """
        Each is reported, in whatever order the ways part; what came after the
        place where one parts is none of its own.
        """
        threads = [
            make_segment("a", "b", "c"),
            make_segment("c", after=[0, 3]),
            make_segment("a", after=[0, 1]),
            make_segment("b", after=[0, 1]),
            make_segment("a", after=[0, 2]),
            make_segment("b", after=[3, 2]),
            make_segment("a", after=[3, 2]),
            make_segment("a"),
        ]

        assert [
            "$.threads[2].entry_ids[0]: the same as at 0 of segment 0",
            "$.threads[5].entry_ids[0]: the same as at 0 of segment 3",
            "$.threads[6].entry_ids[0]: the same as at 0 of segment 0",
            "$.threads[4].entry_ids[0]: the same as at 0 of segment 0",
            "$.threads[1].entry_ids[0]: the same as at 2 of segment 0",
        ] == wrong(json.loads(document([{}], threads)))

    def test_all_at_once(self):
        """
        One problem does not hide the next.
        """
        data = tree()
        data["present"] = 9
        data["moments"][1]["state"] = 9
        data["states"][2]["thread"] = [7, 7]
        data["threads"][0]["entry_ids"][1] = data["threads"][0]["entry_ids"][0]
        data["more"] = 1

        assert [
            "$.more: unknown field",
            "$.states[2].thread: unknown segment 7; those before it are 0 to 1",
            "$.threads[0].entry_ids[1]: the same as at 0 of segment 0",
            "$.moments[1].state: unknown state 9; there are 4",
            "$.present: is 9; there are moments 0 to 3",
        ] == wrong(data)


def make_segment(*names: str, after: list[int] | None = None) -> dict[str, Any]:
    """
    A segment of a message for each of *names*.
    """
    messages = [{"role": "user", "content": ""}] * len(names)
    segment = {"entry_ids": [*names], "messages": messages}
    return {"after": after, **segment} if after else segment


def stack(count: int) -> list[dict[str, Any]]:
    """
    Segments of one message, each on top of the one before.
    """
    return [
        make_segment(str(at), after=[at - 1, at] if at else None) for at in range(count)
    ]


def document(states: list[Any], threads: list[Any], ledgers: Any = ()) -> bytes:
    """
    A timeline whose every moment is on top of the one before.
    """
    data = to_data(Timeline.begin(Aggregator.new()))
    data |= {"states": states, "threads": threads, "ledgers": [*ledgers]}
    data["moments"] = [{"state": i} for i in range(len(states))]
    return json.dumps(data).encode()


def peak(data: bytes) -> float:
    """
    The most memory that decoding *data* takes, by its size.
    """
    gc.collect()
    tracemalloc.start()
    with suppress(DecodeError):
        decode(data)

    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / len(data)


# How many segments are on top of each other, or beside each other.
MANY = 20_000 if is_thorough() else 5_000


class TestHostile:
    def test_deep(self):
        """
        Segments on top of segments, many times deeper than the stack.
        """
        threads = stack(MANY)
        timeline = decode(document([{"thread": [MANY - 1, MANY]}], threads))

        assert MANY == len(timeline.present)

    def test_deep_and_wrong(self):
        """
        Also where identities have to be looked for.
        """
        threads = stack(MANY)
        threads[-1]["entry_ids"] = ["7"]

        with pytest.raises(DecodeError) as caught:
            decode(document([{}], threads))

        assert [
            f"$.threads[{MANY - 1}].entry_ids[0]: the same as at 0 of segment 7"
        ] == [str(problem) for problem in caught.value.problems]

    def test_many_on_one(self):
        """
        Many short branches of one long past, all with the same identity, cost
        what they are, not what they stand on.
        """
        length = MANY
        past = make_segment(*map(str, range(length)))
        threads = [past, *[make_segment("x", after=[0, length])] * length]
        states = [{"thread": [i, length + 1]} for i in range(1, length + 1)]
        timeline = decode(document(states, threads))

        assert length == len(timeline.moments)
        assert {length + 1} == {len(moment.state) for moment in timeline.moments}

    def test_memory_of_many_states(self):
        """
        Many states over one long log take no more for being many.
        """

        def shape(length, states):
            past = make_segment(*map(str, range(length)))
            at = [{"thread": [0, 1 + i * 7 % length]} for i in range(states)]
            return document(at, [past])

        short, long = shape(50, 3_000), shape(3_000, 3_000)

        assert peak(long) < 1.5 * peak(short)
        assert peak(long) < 60

    def test_overflowing_ledgers(self):
        """
        A total that overflows is reported once, not once for each log on top of it.
        """
        usage = {"prompt_tokens": 2**62}
        entries = [{"id": str(i), "usage": usage} for i in range(2_000)]
        more = [
            {"after": [0, 2_000], "entries": [{"id": "x", "usage": usage}]}
            for _ in range(2_000)
        ]
        data = document([{}], [], [{"entries": entries}, *more])

        with pytest.raises(DecodeError) as caught:
            decode(data)

        assert ["$.ledgers[0].entries"] == [
            problem.path for problem in caught.value.problems
        ]

    def test_deep_json(self):
        """
        A state is nested a hundred levels at most, and the error says so.
        """
        data = to_data(Timeline.begin([]))
        for _ in range(200):
            data["states"][0]["json"] = [data["states"][0]["json"]]

        assert any("nested more than 100 levels deep" in each for each in wrong(data))


class TestRebuild:
    """
    `Aggregator.rebuild_from_logs`, which decoding timelines ends in.
    """

    def test_is_rebuild(self):
        """
        The same state as over lists, and over the very logs.
        """
        entries = [Entry(str(i), UserMessage(str(i))) for i in range(100)]
        ledger = [LedgerEntry(str(i), Usage(i), "") for i in range(100)]
        state = Aggregator.new()
        given: dict[str, Any] = {
            "id": state.id,
            "parent_id": None,
            "root_id": state.id,
            "init_len": 50,
            "init_ledger_len": 70,
        }
        listed = Aggregator.rebuild(**given, entries=entries, ledger=ledger)
        logs = listed.entries, listed.ledger
        shared = Aggregator.rebuild_from_logs(**given, entries=logs[0], ledger=logs[1])

        assert listed == shared
        assert listed.usage == shared.usage
        assert listed.total_usage == shared.total_usage
        assert shared.entries is logs[0]
        assert shared.ledger is logs[1]

    @pytest.mark.parametrize("name", ["init_len", "init_ledger_len"])
    @pytest.mark.parametrize("at", [-1, 1])
    def test_refuses_fork_points(self, name, at):
        """
        A fork point lies within what there is.
        """
        state = Aggregator.new()
        given: dict[str, Any] = {"init_len": 0, "init_ledger_len": 0, name: at}

        with pytest.raises(ValueError, match=f"{name} is {at}; expected 0 to 0"):
            Aggregator.rebuild_from_logs(
                id=state.id,
                parent_id=None,
                root_id=None,
                entries=state.entries,
                ledger=state.ledger,
                **given,
            )
