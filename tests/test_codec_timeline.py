"""Timelines on the wire."""

import gc
import json
import math
import re
import tracemalloc
from contextlib import suppress
from enum import StrEnum
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.aggregator import Aggregator, Checkpoint, Entry, LedgerEntry
from conversation_state.codec import (
    Codec,
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
    """A class of a user's own."""

    text: str


def chat(steps: int) -> Timeline[Aggregator]:
    """A timeline of a conversation: a moment and a usage for each message."""
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
    """The problems of *data*, the same whichever way it is read."""
    with pytest.raises(DecodeError) as caught:
        from_data(data)

    with pytest.raises(DecodeError) as again:
        decode(json.dumps(data))

    assert caught.value.problems == again.value.problems
    return [str(problem) for problem in caught.value.problems]


def changed(data: Any, path: str, new: Any) -> Any:
    """A copy of *data* with *new* at *path*, `states[1].after` say."""
    data = json.loads(json.dumps(data))
    *steps, last = [
        int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)
    ]
    inside = data
    for step in steps:
        inside = inside[step]

    inside[last] = new
    return data


def count_comparisons(patch: pytest.MonkeyPatch) -> list[Any]:
    """Each message that is compared with another from now on."""
    compared: list[Any] = []
    method = UserMessage.__eq__

    def compare(message: Any, other: object) -> bool:
        compared.append(message)
        return method(message, other)

    patch.setattr(UserMessage, "__eq__", compare)
    return compared


class TestRoundTrip:
    @given(timelines(), st.data())
    def test_goes_on_alike(self, timeline, data):
        """A decoded timeline has the same way back and ahead."""
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
        """A filter is not written, and a group is closed."""
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
        """Whatever has a kind of its own, and next to states of others."""
        begun: Timeline[Any] = Timeline.begin(Aggregator.new())
        timeline = begun.commit(state, "it").commit("text")
        copied = decode(encode(timeline))

        assert timeline == copied
        assert state == copied.undo().present

    @given(json_values())
    def test_plain_values(self, value):
        """JSON is kept as what it is."""
        timeline = decode(encode(Timeline.begin(value)))

        assert value == timeline.present
        assert type(value) is type(timeline.present)

    def test_plain_values_are_copies(self):
        """Changing what was read from changes no state."""
        data = to_data(Timeline.begin({"a": [1]}))
        timeline = from_data(data)
        data["states"][0]["json"]["a"].append(2)

        assert {"a": [1]} == timeline.present

    def test_registered_states(self):
        """Classes of a user's own are written as in any document."""
        codec = Codec().register(Draft, "draft")
        timeline = Timeline.begin(Draft("a")).commit(Draft("b"))
        data = codec.to_data(timeline)

        assert {"kind": "draft", "value": {"text": "b"}} == data["states"][1]
        assert timeline == codec.from_data(data)
        assert timeline == codec.decode(codec.encode(timeline), expect=Timeline)
        assert "$.states[0].kind: unknown kind 'draft'" in "\n".join(wrong(data))

    def test_lists_of_messages(self):
        """A list comes back as a list, and a tuple as a tuple."""
        messages = [UserMessage("hi"), AssistantMessage("hello")]
        timeline: Timeline[Any] = Timeline.begin([*messages])
        timeline = timeline.commit(tuple(messages)).commit([]).commit(())
        read = decode(encode(timeline))

        assert timeline == read
        assert [list, tuple, list, tuple] == [type(each.state) for each in read.moments]
        assert encode(timeline) == encode(read)

    def test_kept_as_a_field(self):
        """A registered class may hold a timeline."""

        @attrs.frozen
        class Editor:
            timeline: Timeline[Any]

        codec = Codec().register(Editor, "editor")
        editor = Editor(chat(3))

        assert editor == codec.decode(codec.encode(editor))


class TestEqual:
    """Comparing a timeline with what was read of it."""

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
        compared = count_comparisons(monkeypatch)

        assert timeline == read
        assert read.moments == timeline.moments
        assert 40 * steps > len(compared)

    @pytest.mark.parametrize("at", [0, 1, 31, 32, 60])
    def test_sees_any_difference(self, at):
        """In one message, one label or one usage of any moment."""
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


def written_messages(timeline: Timeline[Any]) -> list[int]:
    """How many messages each state is written with."""
    states = to_data(timeline)["states"]
    return [len(each.get("messages", ())) for each in states]


class TestShared:
    """States are written as what they add to earlier ones."""

    def test_linear(self):
        """
        A message that each state adds is written once, and a state is as short as can
        be.
        """
        timeline = chat(300)
        data = encode(timeline)

        assert 1 == data.count(b'"prompt 7"')
        assert 1 == data.count(b'"k7"')
        assert len(data) < len(encode(timeline.present)) + 301 * 70

    @given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), max_size=6))
    def test_branches(self, branches):
        """
        Branches of branches, of any length, from any moment: no message is written
        twice.
        """
        state = Aggregator.new()
        timeline = Timeline.begin(state)
        for number, (at, length) in enumerate([(0, 5), *branches]):
            timeline = timeline.goto(at % len(timeline.moments))
            for i in range(length):
                grown = timeline.present.add_user_prompt(f"{number}.{i}")
                timeline = timeline.commit(grown.add_usage(Usage(i + 1)))

        read = decode(encode(timeline))

        assert len(timeline.moments) - 1 == sum(written_messages(timeline))
        for kept, made in zip(timeline.moments, read.moments, strict=True):
            assert list(kept.state) == list(made.state)
            assert list(kept.state.ledger) == list(made.state.ledger)
            assert kept.state.total_usage == made.state.total_usage

    def test_other_place_than_the_parent(self):
        """
        Messages that stand on a moment that has few of them are those of the state
        that has them; and a state that went back keeps its ledger.
        """
        timeline = chat(50)
        there = timeline.moments[45].state.fork()
        timeline = timeline.goto(1).commit(there)
        timeline = timeline.commit(timeline.moments[50].state.rollback(3))
        data = to_data(timeline)

        assert 50 == sum(written_messages(timeline))
        assert [45, 45] == data["states"][51]["after"]
        assert {"origin": 50, "after": [51, 3]} == data["states"][52]
        assert 50 == sum(len(each.get("ledger", ())) for each in data["states"])
        assert timeline == from_data(data)

    def test_what_lost_its_parents(self):
        """
        Roots that a limit made share what they grew from; so do conversations that
        take turns.
        """
        state = Aggregator.new(messages=[UserMessage(str(i)) for i in range(100)])
        timeline: Timeline[Any] = Timeline.begin(state, limit=10)
        for i in range(30):
            timeline = timeline.undo().commit(state.add_user_prompt(f"branch {i}"))

        assert 110 == sum(written_messages(timeline))

        states = [Aggregator.new() for _ in range(3)]
        timeline = Timeline.begin(None)
        for i in range(100):
            states = [state.add_user_prompt(str(i)) for state in states]
            for state in states:
                timeline = timeline.commit(state)

        assert 300 == sum(written_messages(timeline))
        assert timeline == decode(encode(timeline))

    def test_one_identity_of_several_messages(self):
        """A state with different messages under one identity has them still."""
        state = Aggregator.new()
        timeline = Timeline.begin(state)
        for texts in ("ab", "ac", "xb", "ab", "xc", "a"):
            entries = [Entry(str(i), UserMessage(t)) for i, t in enumerate(texts)]
            one = rebuild_state(state, entries=entries)
            timeline = timeline.commit(one).commit(one.add_usage(Usage(1), key="k"))
            timeline = timeline.commit(one.add_usage(Usage(2), key="k"))

        assert timeline == decode(encode(timeline))

    def test_one_id_of_several_origins(self):
        """States of one id that were forked elsewhere are distinguished."""
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
        """A state that several moments have is written once, and read as one."""
        states: list[Any] = [Aggregator.new(), Usage(1), {"a": 1}, "text", 5, None]
        timeline: Timeline[Any] = Timeline.begin(0)
        for _ in range(3):
            for state in states:
                timeline = timeline.commit(state)

        timeline = timeline.commit(decode(encode(states[0])))
        data = to_data(timeline)
        copied = [moment.state for moment in from_data(data).moments][1:]

        assert 1 + len(states) == len(data["states"])
        assert all(a is b for a, b in zip(copied, copied[len(states) :], strict=False))

    def test_equal_texts_once(self):
        """An equal text that is another object is written once, as undo brings back."""
        timeline = Timeline.begin("Dear")
        for text in ("Dear Ann", "Dear", "Dear Ann"):
            timeline = timeline.commit("".join([*text]))

        data = to_data(timeline)

        assert 2 == len(data["states"])
        assert timeline == from_data(data)

    def test_equal_atoms_of_other_types(self):
        """1, 1.0 and True are three states."""
        timeline: Timeline[Any] = Timeline.begin(1).commit(True)  # noqa: FBT003
        timeline = timeline.commit(1.0).commit(0.0).commit(-0.0)
        copied = [moment.state for moment in decode(encode(timeline)).moments]

        assert ["1", "True", "1.0", "0.0", "-0.0"] == [*map(repr, copied)]

    def test_memory(self):
        """What is decoded grows with the messages, not with their square."""

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
        """Decoded states are as good as others: usage, forks, joins."""
        timeline = chat(40)
        timeline = timeline.commit(timeline.present.fork().add_usage(Usage(1)))
        copied = decode(encode(timeline))
        for ours, theirs in zip(timeline.moments, copied.moments, strict=True):
            assert ours.state.usage == theirs.state.usage
            assert ours.state.total_usage == theirs.state.total_usage
            assert theirs.state.join(ours.state) is theirs.state

        assert copied.present is copied.present.add_usage(Usage(3), key="k3")
        assert Usage(2) == copied.goto(3).present.fork().add_usage(Usage(2)).usage


class TestRefuses:
    @pytest.mark.parametrize(
        ("state", "problem"),
        [
            (object(), "object.*gives a codec that can"),
            ({"a": (1,)}, "expected a dict, list, str"),
            ({"a": {Key.KEY: 2}}, "keys of JSON are text"),
            ([UserMessage("hi"), 5], "can't encode an int"),
            (Timeline.begin("S"), "a timeline can't be a state of a timeline"),
        ],
    )
    def test_states(self, state, problem):
        """A state that can't be written is named, with its moment."""
        timeline: Timeline[Any] = Timeline.begin(None)
        timeline = timeline.commit(5, "five").commit(state, "the one")

        match = rf"moment 2 \('the one'\) .*{problem}"
        with pytest.raises(TypeError, match=match) as caught:
            encode(timeline)

        assert type(caught.value) is TypeError

    @pytest.mark.parametrize("value", [math.nan, 2**64, "\ud800", {1}], ids=repr)
    def test_what_json_can_not_represent(self, value):
        """It is a ValueError that says which moment it is in."""
        for state in ([value], {"a": value}):
            with pytest.raises(ValueError, match="moment 0 of a timeline"):
                encode(Timeline.begin(state))

    @pytest.mark.parametrize("make", [list, dict])
    def test_what_holds_itself(self, make):
        """It is refused, and not written for ever."""
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
            ("moments", [], "is empty"),
            ("moments[1]", {}, "$.moments[1].state: missing"),
            ("moments[1].state", 4, "unknown state 4; there are 4"),
            ("moments[1].group", "", "is empty"),
            ("moments[1].more", 5, "unknown field"),
            ("moments[1].note", 5, "expected an object, got 5"),
            (
                "moments[1].note",
                {"a": json.loads("[" * 120 + "]" * 120)},
                "$.moments[1].note.a[0]",
            ),
            ("moments[0].parent", 0, "moment 0 is the first; it has none"),
            ("moments[2].parent", 2, "is 2; moment 2 can have one from 0 to 1"),
            ("moments[2].parent", -1, "is -1; moment 2 can have one from 0 to 1"),
            ("limit", 0, "is 0; expected at least 1"),
            ("present", 4, "is 4; there are moments 0 to 3"),
            ("redo", [0], "$.redo[0]: moment 0 was committed on no moment that is"),
            ("redo", [4], "$.redo[0]: moment 4 was committed on no moment that is"),
            ("states[1]", [], "expected an object, got an array"),
            ("states[1].origin", 1, "unknown state 1; those before it are 0 to 0"),
            ("states[1].after", [0], "expected the number of a state and a length"),
            ("states[1].after", [1, 1], "$.states[1].after[0]: unknown state 1; those"),
            ("states[1].after", [0, 4], "$.states[1].after[1]: is 4; state 0 has 1"),
            ("states[1].ledger_after", ["a", 1], "$.states[1].ledger_after[0]: expec"),
            ("states[0].after", [0, 0], "$.states[0].after[0]: unknown state 0; it is"),
            ("states[1].more", 2, "unknown field"),
            ("states[1]", {"json": 5, "a": 1}, "$.states[1].a: unknown field"),
            ("states[0]", {"json": 5}, "$.states[1].origin: state 0 is no state of a"),
            ("states[0]", {}, "$.states[0].id: missing"),
            ("states[1]", {"kind": "no"}, "$.states[1].kind: unknown kind 'no'"),
            ("states[1]", {"kind": "usage"}, "$.states[1].usage: missing"),
            (
                "states[1]",
                {"kind": "timeline"},
                "$.states[1].kind: a timeline can't be a state of a timeline",
            ),
            ("states[3].init_len", 3, "is 3; expected 0 to 2, the entries there are"),
            ("states[3].init_ledger_len", -1, "is -1; expected 0 to 2, the entries"),
            ("states[3].id", "no", "expected a UUID"),
            ("states[2].entry_ids", [], "0 identities for 1 message"),
            ("states[2].ledger[0].usage.prompt_tokens", "a", "expected an integer"),
            ("states[2].ledger[0].id", "a", "the same as at 0"),
            ("states[2].ledger[0].usage.prompt_tokens", 2**63 - 1, "$.states[2].ledg"),
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

    @pytest.mark.parametrize("name", ["present", "moments", "states"])
    def test_missing(self, name):
        """What every timeline has must be there."""
        data = tree()
        del data[name]

        assert f"$.{name}: missing" in wrong(data)

    def test_forgotten_present(self):
        """The present is one of those that are kept."""
        data = to_data(Timeline.begin(0, limit=2).commit(1).commit(2))
        data["present"] = 0

        assert ["$.present: is 0; there are moments 1 to 2"] == wrong(data)

    @pytest.mark.parametrize("redo", [[], [2], [3], [4], [2, 3]])
    def test_redo(self, redo):
        """
        Whatever is given, redo leads back to the present, and from each moment to one
        that was committed on it.
        """
        begun: Timeline[Any] = Timeline.begin(0).commit(1).undo().commit(2).goto(1)
        data = to_data(begun.commit(3).goto(0).commit(4).goto(2))
        timeline = from_data({**data, "redo": redo})

        assert timeline == timeline.undo().redo()
        assert 3 == timeline.goto(1).redo().moment.number

    def test_same_identity_on_one_way(self):
        """In one log an identity is there once, in several as often as it likes."""
        data = tree()
        data["states"][1]["entry_ids"] = ["b"]
        beside = changed(data, "states[3].entry_ids[0]", "b")
        within = changed(data, "states[2].entry_ids[0]", "b")

        assert "b" == from_data(beside).present.entries[-1].id
        assert ["$.states[2].entry_ids[0]: the same as at 1"] == wrong(within)

    def test_all_at_once(self):
        """One problem does not hide the next."""
        data = tree()
        data["present"] = 9
        data["moments"][1]["state"] = 9
        data["states"][1]["after"] = [7, 7]
        data["states"][2]["messages"] = []
        data["more"] = 1

        assert [
            "$.states[1].after[0]: unknown state 7; those before it are 0 to 0",
            "$.states[2].entry_ids: 1 identity for 0 messages",
            "$.more: unknown field",
            "$.moments[1].state: unknown state 9; there are 4",
            "$.present: is 9; there are moments 0 to 3",
        ] == wrong(data)


def make_state(*names: str, **more: Any) -> dict[str, Any]:
    """A state that has a message more for each of *names*."""
    messages = [{"role": "user", "content": ""}] * len(names)
    return {"entry_ids": [*names], "messages": messages, **more}


def document(states: list[Any]) -> bytes:
    """A timeline of an empty state and *states*."""
    data = to_data(Timeline.begin(Aggregator.new()))
    data["states"] += states
    data["moments"] = [{"state": i} for i in range(len(data["states"]))]
    return json.dumps(data).encode()


def peak(data: bytes) -> float:
    """The most memory that decoding *data* takes, by its size."""
    gc.collect()
    tracemalloc.start()
    with suppress(DecodeError):
        decode(data)

    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / len(data)


# How many states are on top of each other, or beside each other.
MANY = 20_000 if is_thorough() else 5_000


class TestHostile:
    def test_deep(self):
        """
        States on top of states, many times deeper than the stack; also where
        identities have to be looked for.
        """
        states = [make_state(str(i)) for i in range(MANY)]
        timeline = decode(document(states))

        assert MANY == len(timeline.moments[-1].state)

        states[-1]["entry_ids"] = ["7"]
        with pytest.raises(DecodeError) as caught:
            decode(document(states))

        assert [f"$.states[{MANY}].entry_ids[0]: the same as at 7"] == [
            str(problem) for problem in caught.value.problems
        ]

    def test_many_on_one(self):
        """
        Many short branches of one long past, all with the same identity, cost
        what they are, not what they stand on.
        """
        past = make_state(*map(str, range(MANY)))
        branch = make_state("x", origin=1, after=[1, MANY])
        timeline = decode(document([past, *[branch] * MANY]))

        assert MANY + 2 == len(timeline.moments)
        assert {MANY + 1} == {len(each.state) for each in timeline.moments[2:]}

    def test_memory_of_many_states(self):
        """Many states over one long log take no more for being many."""

        def shape(length, states):
            past = make_state(*map(str, range(length)))
            at = [{"after": [1, 1 + i * 7 % length]} for i in range(states)]
            return document([past, *at])

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
            {"origin": 1, "ledger_after": [1, 2_000], "ledger": [{**entries[0]}]}
            for _ in range(2_000)
        ]

        with pytest.raises(DecodeError) as caught:
            decode(document([{"ledger": entries}, *more]))

        assert ["$.states[1].ledger"] == [each.path for each in caught.value.problems]

    def test_deep_json(self):
        """A state is nested a hundred levels at most, and the error says so."""
        data = to_data(Timeline.begin([]))
        for _ in range(200):
            data["states"][0]["json"] = [data["states"][0]["json"]]

        assert any("nested more than 100 levels deep" in each for each in wrong(data))


class TestRebuild:
    """`Aggregator.rebuild`, which decoding timelines ends in."""

    def test_is_rebuild(self):
        """The same state as over lists, and over the very logs."""
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
        shared = Aggregator.rebuild(**given, entries=logs[0], ledger=logs[1])

        assert listed == shared
        assert listed.usage == shared.usage
        assert listed.total_usage == shared.total_usage
        assert shared.entries is logs[0]
        assert shared.ledger is logs[1]
