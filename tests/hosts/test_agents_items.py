"""
The items of the OpenAI Agents SDK: read, written, added and taken away, one or
many at a time. The SDK is not needed for any of it.
"""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator, AssistantMessage, ToolCall, ToolMessage
from conversation_state.adapters import Export, anthropic, openai_chat, openai_responses
from conversation_state.adapters.openai_responses._load import load_items
from conversation_state.errors import DecodeError
from conversation_state.hosts.agents import _runs, dump, load
from conversation_state.hosts.agents._runs import (
    append_items,
    items_of,
    pop_last_item,
)
from conversation_state.messages import UnknownMessage, UserMessage
from conversation_state.testing.contracts._adapters import put_junk
from conversation_state.testing.strategies import json_values, messages
from conversation_state.usage import Usage
from tests.adapters.contract import JUNK, as_json, problem_paths, refusal
from tests.adapters.helpers import lines
from tests.adapters.openai_responses import (
    CALLS,
    INPUTS,
    THOUGHTS,
    call,
    message,
    result,
    thought,
)
from tests.processes import count_calls

# What the SDK adds, and what it never would: thoughts that nothing follows,
# objects of no known kind, and Chat Completions' own messages.
ODD = st.one_of(
    st.dictionaries(st.sampled_from(["type", "role", "id"]), json_values()),
    THOUGHTS,
    CALLS,
    st.sampled_from(
        [
            {},
            {"type": None},
            {"type": 5},
            {"role": "user"},
            {"role": "user", "content": None},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "12"},
            {"type": "function_call", "call_id": "c1"},
            {"type": "function_call_output", "output": []},
            {"type": "message", "role": "assistant", "content": [5]},
            {"type": "compaction", "encrypted_content": "AAAA"},
            {"type": "reasoning", "summary": "short"},
        ]
    ),
)
ITEMS = (
    INPUTS
    | st.lists(ODD, max_size=3)
    | st.tuples(INPUTS, ODD, INPUTS).map(lambda parts: [*parts[0], parts[1], *parts[2]])
)

PARALLEL = [
    {"role": "user", "content": "Sea or hills?"},
    thought("Ask both.", encrypted_content="AAAA"),
    call(call_id="c1"),
    call("g", call_id="c2"),
    result("Sea.", call_id="c1"),
    result("Hills.", call_id="c2"),
    message("Both."),
]


def grown(items, *, at=()):
    state = Aggregator.new()
    ends = sorted({min(place, len(items)) for place in at} | {len(items)})
    start = 0
    for end in ends:
        state = append_items(state, items[start:end])
        start = end

    return state


class TestLoadAndDump:
    @given(ITEMS)
    def test_item_for_item(self, items):
        """Whatever the items are, the same JSON values come back, in order."""
        loaded = load(copy.deepcopy(items))

        assert as_json(items) == as_json(dump(loaded).payload)
        assert () == dump(loaded).lost
        assert as_json(items) == as_json(items_of(loaded))

    def test_recorded(self, recordings):
        """
        Recorded histories come back item for item, and are the messages that
        the adapter of Responses loads.
        """
        exchanges = lines(recordings / "requests" / "openai_responses.jsonl")
        inputs = [exchange["request"]["input"] for exchange in exchanges]
        for items in [one for one in inputs if isinstance(one, list)]:
            loaded = load(items)

            assert as_json(items) == as_json(dump(loaded).payload)
            # The adapter notes besides what a request of it keeps as it came.
            assert dump(openai_responses.load(items)) == dump(loaded)

    @given(
        st.lists(
            st.fixed_dictionaries(
                {
                    "role": st.sampled_from(["assistant", "user"]),
                    "content": st.text("aé\ud800\udc00", max_size=3),
                }
            ),
            max_size=3,
        ),
        st.booleans(),
    )
    def test_texts_alone(self, items, swapped):
        """
        Items that are nothing but a text are the same messages whether all items of
        a list are or not.
        """
        if swapped:
            items = [dict(reversed(item.items())) for item in items]

        *messages, _ = load([*items, {"role": "developer", "content": "x"}])

        assert messages == list(load(items))
        assert [type(each) for each in messages] == [type(each) for each in load(items)]

    @pytest.mark.parametrize("kind", [UserMessage, AssistantMessage])
    def test_cost_of_texts(self, kind):
        """A text and nothing else, which most messages are, takes a few calls."""
        messages = [kind("a")] * 100
        items = items_of(messages)

        assert 10 * 100 > count_calls(lambda: items_of(messages))
        assert 10 * 100 > count_calls(lambda: load(items))

    def test_one_answer_is_one_message(self):
        """
        A thought and the calls it led to are one message, and their results
        stand behind it: what other providers ask for.
        """
        loaded = load(PARALLEL)

        assert ["user", "assistant", "tool", "tool", "assistant"] == [
            one.role for one in loaded
        ]
        assert isinstance(loaded[1], AssistantMessage)
        assert ["c1", "c2"] == [one.id for one in loaded[1].tool_calls]
        chat = openai_chat.dump(loaded).payload["messages"]
        assert 2 == len(chat[1]["tool_calls"])
        turns = anthropic.dump(loaded).payload["messages"]
        assert ["user", "assistant", "user", "assistant"] == [
            turn["role"] for turn in turns
        ]

    def test_what_can_not_be_read_is_kept(self):
        """
        An item that can't be read keeps its place, and separates nothing but the items
        around it.
        """
        odd = {"type": "reasoning", "summary": 5, "id": "rs_9"}
        chat = {"role": "tool", "tool_call_id": "c1", "content": "12"}

        loaded = load([*PARALLEL[:6], odd, chat, *PARALLEL[6:]])

        assert [*load(PARALLEL[:6])] == [*loaded[:4]]
        assert isinstance(loaded[4], AssistantMessage)
        assert UnknownMessage(chat, source="openai_responses") == loaded[5]
        assert load(PARALLEL[6:]) == loaded[6:]

    def test_what_would_change_is_kept(self, monkeypatch):
        """
        Should an item be read so that it could not be written again, it is
        kept as it is, and nothing else is.
        """

        def forgetful(items, calls):
            # As a version without notes on results would write it.
            return tuple(
                one.replace(metadata={}) if isinstance(one, ToolMessage) else one
                for one in load_items(items, calls)
            )

        monkeypatch.setattr(_runs, "load_items", forgetful)
        items = [*PARALLEL[:5], result(id="fco_1"), *PARALLEL[6:]]
        loaded = load(items)

        assert as_json(items) == as_json(dump(loaded).payload)
        assert [3] == [
            at for at, one in enumerate(loaded) if isinstance(one, UnknownMessage)
        ]

    def test_calls_without_an_id(self):
        """What has no id can't be answered: it is kept, and no id made up."""
        (loaded,) = load([{"type": "function_call", "name": "f", "arguments": "{}"}])

        assert isinstance(loaded, UnknownMessage)

    def test_results_have_their_tool(self):
        """Results have the name of their tool, behind what can't be read, too."""
        loaded = load([*PARALLEL[:4], {"type": 5}, *PARALLEL[4:]])

        assert ["f", "g"] == [
            one.tool_name for one in loaded if isinstance(one, ToolMessage)
        ]

    @given(st.lists(messages(), max_size=4))
    def test_dump_gives_plain_json(self, loaded):
        """
        Whatever the messages are, the payload is a list of JSON objects, and
        losses are reported with the message they are in.
        """
        export = dump(iter(loaded))

        assert isinstance(export, Export)
        assert isinstance(export.payload, list)
        assert as_json(export.payload) == as_json(items_of(loaded))
        assert all(lost.path.startswith("messages[") for lost in export.lost)

    @given(INPUTS.filter(bool), st.lists(st.integers(0, 9), max_size=4), JUNK)
    def test_refuses_in_one_way(self, items, path, junk):
        """With anything in any place there are messages, or a `DecodeError`."""
        document = put_junk(copy.deepcopy(items), path, junk)
        refused = refusal(load, document)

        if refused is None:
            as_json(dump(load(document)).payload).encode()
        else:
            assert refused.problems

    def test_all_that_is_wrong(self):
        """All problems are reported at once, each with its path."""
        assert ["$[0]", "$[1].content", "$[2]"] == problem_paths(
            load, ["hello", {"role": "user", "content": float("nan")}, None]
        )

    def test_no_list(self):
        """A request is not a list of items."""
        with pytest.raises(DecodeError, match="a list of items"):
            load({"input": []})  # type: ignore[arg-type]


class TestExtended:
    @given(ITEMS, st.lists(st.integers(0, 9), max_size=4))
    def test_however_many_at_a_time(self, items, at):
        """
        One item at a time, all at once or anything between: the messages are
        the same, and so are the items.
        """
        state = grown(items, at=at)

        assert load(items) == tuple(state.messages)
        assert as_json(items) == as_json(items_of(state))

    def test_references(self):
        """
        A reference behind an answer that is done is no part of the next one,
        whether they come together or apart.
        """
        done = message("Done.", phase="final_answer")
        items = [done, {"type": "item_reference", "id": "msg_0"}, call()]

        assert load(items) == tuple(grown(items, at=[1, 2]).messages)
        assert 3 == len(load(items))

    def test_keeps_what_it_does_not_change(self):
        """
        What goes on with an answer makes a new entry of it; all others stay
        the entries they were.
        """
        before = grown(PARALLEL[:3])
        after = append_items(before, PARALLEL[3:])

        assert before.entries[0] is after.entries[0]
        assert before.entries[1].id != after.entries[1].id
        assert before.id == after.id
        assert 2 == len(before)

    def test_nothing(self):
        """Adding nothing is not a change."""
        state = grown(PARALLEL)

        assert state is append_items(state, [])

    def test_never_rewrites_messages_of_others(self):
        """
        An answer that came over another way stays as it is, with what it
        cost and what was noted on it.
        """
        state = Aggregator.new().add_assistant_message(
            AssistantMessage("Hm.", metadata={"app": {"shown": True}})
        )

        assert state.entries[0] is append_items(state, [call()]).entries[0]

    def test_results_of_long_ago(self):
        """A result finds its call however far back it is, and the last of them."""
        items = [call("old"), result(), call("new"), *PARALLEL[:1], message("Hm.")]

        (loaded,) = append_items(grown(items), [result()]).messages[-1:]

        assert isinstance(loaded, ToolMessage)
        assert "new" == loaded.tool_name


class TestShortened:
    @given(ITEMS)
    def test_one_item_each(self, items):
        """
        Each time the newest item is taken away, and the messages left are
        those of the items left.
        """
        state = grown(items)
        for at in range(len(items) - 1, -1, -1):
            state, popped = pop_last_item(state)

            assert as_json(items[at]) == as_json(popped)
            assert load(items[:at]) == tuple(state.messages)

        assert (state, None) == pop_last_item(state)

    def test_usage_stays_recorded(self):
        """Id and bill are what they were."""
        state = grown(PARALLEL).add_usage(Usage(prompt_tokens=5), key="r1").fork()
        short, _ = pop_last_item(state)

        assert state.id == short.id
        assert state.parent_id == short.parent_id
        assert state.ledger == short.ledger
        assert len(short) == short.init_len

    def test_results_of_other_kinds(self):
        """
        The item is the one that was there, though only its call has the kind of its
        result.
        """
        state = (
            Aggregator.new()
            .add_tool_call(ToolCall("c1", "f", "x", type="custom"))
            .add_tool_response(ToolMessage("12", tool_call_id="c1"))
        )

        _, popped = pop_last_item(state)

        assert items_of(state)[-1] == popped
        assert popped is not None
        assert "custom_tool_call_output" == popped["type"]

    def test_passes_over_what_no_item_can_represent(self):
        """What is another provider's own stays; the newest item before it goes."""
        state = grown([message("One."), {"role": "user", "content": "Two."}])
        state = state.add(UnknownMessage({"type": "ping"}, source="anthropic"))

        short, popped = pop_last_item(state)

        assert {"role": "user", "content": "Two."} == popped
        assert [AssistantMessage, UnknownMessage] == [type(one) for one in short]
