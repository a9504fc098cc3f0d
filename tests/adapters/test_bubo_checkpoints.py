"""bubo's checkpoints, and the states they are."""

import copy
import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state.adapters.bubo import (
    dump_checkpoint,
    load,
    load_checkpoint,
    load_usage,
)
from conversation_state.aggregator import Aggregator
from conversation_state.codec import decode, encode
from conversation_state.errors import DecodeError
from conversation_state.messages import AssistantMessage, SystemMessage, UserMessage
from conversation_state.parts import TextPart
from conversation_state.testing.contracts._adapters import put_junk
from conversation_state.testing.strategies import aggregators, states
from conversation_state.testing.strategies import checkpoints as our_checkpoints
from conversation_state.tools import ToolCall
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage
from tests.adapters.bubo import MESSAGES, RUN, UNREADABLE, checkpoints, user
from tests.adapters.contract import JUNK, as_json, as_text, refusal

NO_USAGE = {
    "completion_tokens": 0,
    "prompt_tokens": 0,
    "total_tokens": 0,
    "completion_tokens_details": {
        "accepted_prediction_tokens": 0,
        "audio_tokens": 0,
        "reasoning_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
    "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": 0},
}


def kept(*messages, **fields):
    """A checkpoint in JSON."""
    return {"id": RUN, "messages": [*messages], **fields}


def problems(document):
    """What is wrong with *document*."""
    with pytest.raises(DecodeError) as caught:
        load_checkpoint(document)

    return [str(each) for each in caught.value.problems]


class TestLoad:
    @given(checkpoints())
    def test_is_undone(self, document):
        """What bubo wrote is written as it was, key for key."""
        export = dump_checkpoint(load_checkpoint(copy.deepcopy(document)))

        assert () == export.lost
        assert as_json(document) == as_json(export.payload)

    @given(checkpoints())
    def test_is_a_state(self, document):
        """
        Id, messages, usage since the fork and fork point are bubo's, and the
        state can be kept anywhere.
        """
        state = load_checkpoint(document).restore()

        assert UUID(document["id"]) == state.id
        assert load(document) == tuple(state.messages)
        assert document["init_len"] == state.init_len
        assert document["usage"]["total_tokens"] == state.usage.total_tokens
        assert load_usage(document) == state.usage
        assert state == decode(encode(state))

    @given(checkpoints(), st.lists(MESSAGES, max_size=2))
    def test_joins_once(self, document, later):
        """
        The same checkpoint twice adds nothing; a later one of the same conversation
        adds the messages since.
        """
        document = {**document, "usage": NO_USAGE}
        grown = {**document, "messages": document["messages"] + later}
        state = load_checkpoint(document).state
        again = load_checkpoint(json.loads(json.dumps(document, sort_keys=True)))

        joined = state.join(load_checkpoint(grown).state)

        assert state is state.join(again.state)
        assert load(grown) == tuple(joined.messages)

    def test_others_join_whole(self):
        """
        Checkpoints of different conversations have nothing in common, and
        neither have different messages in one place.
        """
        one = load_checkpoint(kept(user("a"))).state
        other = load_checkpoint({**kept(user("a")), "id": str(UUID(int=7))}).state
        parted = load_checkpoint(kept(user("b"))).state

        assert 2 == len(one.join(other)) == len(one.join(parted))

    @given(st.lists(MESSAGES | UNREADABLE, max_size=5), st.data())
    def test_what_bubo_cannot_read(self, messages, data):
        """
        No message poisons a checkpoint: what bubo writes and can't read is
        loaded, and what is written can be read. The fork stays where it was.
        """
        forked = data.draw(st.integers(0, len(messages)))
        document = kept(*messages, init_len=forked)

        export = dump_checkpoint(load_checkpoint(document))

        readable = [raw for raw in messages if raw is not None and "type" in raw]
        before = [raw for raw in messages[:forked] if raw is not None and "type" in raw]
        assert len(readable) == len(export.payload["messages"])
        assert len(before) == export.payload["init_len"]
        assert (
            export.payload == dump_checkpoint(load_checkpoint(export.payload)).payload
        )

    def test_defaults(self):
        """What may be missing, or null, is nothing; only the id may not."""
        for raw in (
            {"id": RUN},
            {"id": RUN, "messages": None, "usage": None, "init_len": None},
        ):
            state = load_checkpoint(raw).state

            assert (0, 0, Usage()) == (len(state), state.init_len, state.total_usage)
            assert () == tuple(state.ledger)

    def test_nil(self):
        """An aggregator without an id has the nil id, and keeps it."""
        raw = {**kept(usage=NO_USAGE, init_len=0), "id": str(UUID(int=0))}

        assert raw == dump_checkpoint(load_checkpoint(raw)).payload

    def test_mends(self):
        """A checkpoint with half of a surrogate pair in it has an identity, too."""
        state = load_checkpoint(kept(user("\ud800"))).state

        assert "\ufffd" == state[0].text
        assert state is state.join(load_checkpoint(kept(user("\ud800"))).state)

    @pytest.mark.parametrize("wrong", [-1, 2, "1"])
    def test_init_len_outside(self, wrong):
        """A fork point outside of the messages is refused here, and not later."""
        (found,) = problems(kept(user(), init_len=wrong))

        assert found.startswith("$.init_len: is ")
        assert "how many of 1 message were inherited" in found

    def test_all_of_it(self):
        """All problems are reported at once, with their paths."""
        usage = {
            "prompt_tokens": -1,
            "total_tokens": 1.5,
            "prompt_tokens_details": [],
            "completion_tokens_details": {"audio_tokens": 2**63},
        }

        assert [
            "$.id",
            "$.messages[0].content",
            "$.messages[1]",
            "$.init_len",
            "$.usage.prompt_tokens",
            "$.usage.total_tokens",
            "$.usage.completion_tokens_details.audio_tokens",
            "$.usage.prompt_tokens_details",
        ] == [
            each.partition(":")[0]
            for each in problems(
                {**kept(user(5), 7, usage=usage, init_len=3), "id": "x"}
            )
        ]
        assert ["$.id: is missing; expected a UUID"] == problems({"messages": []})
        assert ["$.messages: is 5; expected a list of messages"] == problems(
            {"id": RUN, "messages": 5}
        )
        assert ["$.usage: is a list; expected an object or null"] == problems(
            {"id": RUN, "usage": []}
        )
        assert ["$: is a list; expected a checkpoint"] == problems([])

    @given(data=st.data())
    def test_refuses_in_one_way(self, data):
        """
        Of a checkpoint with something wrong in it comes one that can be
        written, or a `DecodeError` with paths, and nothing else.
        """
        document = copy.deepcopy(data.draw(checkpoints()))
        path = data.draw(st.lists(st.integers(0, 9), max_size=7))
        wrong = put_junk(document, path, data.draw(JUNK))

        refused = refusal(load_checkpoint, wrong)

        if refused is None:
            assert as_json(dump_checkpoint(load_checkpoint(wrong)).payload)
        else:
            assert all(
                one.path.startswith("$") and one.what and as_text(one)
                for one in refused.problems
            )


class TestDump:
    @given(our_checkpoints())
    def test_loads(self, kept):
        """
        Whatever was kept can be written and loaded; if nothing is lost, with
        the same messages and usage.
        """
        export = dump_checkpoint(kept)

        loaded = load_checkpoint(copy.deepcopy(export.payload))

        assert kept.id == loaded.id
        assert as_json(export.payload) == as_json(dump_checkpoint(loaded).payload)
        assert kept.usage.total_tokens == loaded.usage.total_tokens
        assert (kept.label == "") == ("label" not in [one.what for one in export.lost])
        if not any(one.path.startswith("messages") for one in export.lost):
            assert len(kept.messages) == len(loaded.messages)
            assert kept.state.init_len == loaded.state.init_len

    @given(aggregators() | states())
    def test_takes_states(self, state):
        """A state is written as its checkpoint is."""
        assert dump_checkpoint(state) == dump_checkpoint(state.checkpoint())

    def test_as_go(self):
        """A checkpoint, as Go writes it."""
        state = Aggregator.new(
            id=UUID(RUN), messages=[UserMessage("hi"), AssistantMessage()]
        ).add_usage(
            Usage(
                1,
                2,
                4,
                PromptTokensDetails(audio_tokens=5, cached_tokens=6),
                CompletionTokensDetails(
                    accepted_prediction_tokens=7,
                    audio_tokens=8,
                    reasoning_tokens=9,
                    rejected_prediction_tokens=10,
                ),
            )
        )

        assert (
            json.loads(
                f'{{"id":"{RUN}","messages":[{{"type":"user","content":"hi"}},'
                '{"type":"assistant"}],"usage":{"completion_tokens":2,"prompt_tokens":1,'
                '"total_tokens":4,"completion_tokens_details":'
                '{"accepted_prediction_tokens":7,"audio_tokens":8,"reasoning_tokens":9,'
                '"rejected_prediction_tokens":10},"prompt_tokens_details":'
                '{"audio_tokens":5,"cached_tokens":6}},"init_len":0}'
            )
            == dump_checkpoint(state).payload
        )

    def test_fork(self):
        """
        A fork's usage is the usage since, and its fork point counts the messages that
        bubo has.
        """
        call = AssistantMessage("Let me see.", tool_calls=[ToolCall("c1", "f")])
        trunk = (
            Aggregator.new(messages=[call, UserMessage("hi")])
            .add_usage(Usage(5))
            .fork(at=1)
        )
        fork = trunk.add_user_prompt("hello").add_usage(Usage(1), model="m")

        export = dump_checkpoint(fork.checkpoint("before"))

        assert 2 == export.payload["init_len"]
        assert 3 == len(export.payload["messages"])
        assert 1 == export.payload["usage"]["prompt_tokens"]
        assert [
            ("messages[0]", "tool_calls"),
            ("state", "label"),
            ("state", "parent_id"),
            ("state", "ledger"),
            ("state", "model"),
        ] == [(one.path, one.what) for one in export.lost]

    def test_ledger(self):
        """Several ledger entries are one sum, and categories of ours are lost."""
        state = (
            Aggregator.new(messages=[SystemMessage([TextPart("a")])])
            .add_usage(Usage(1, extra={"cache_write_tokens": 1}))
            .add_usage(Usage(2))
        )

        export = dump_checkpoint(state)

        assert 3 == export.payload["usage"]["prompt_tokens"]
        assert ["ledger", "cache_write_tokens"] == [one.what for one in export.lost]

    def test_ledger_of_a_fork(self):
        """The models of a fork's parent are not losses of the fork."""
        parent = Aggregator.new(messages=[UserMessage("a")]).add_usage(
            Usage(1), model="m"
        )

        export = dump_checkpoint(parent.fork().add_usage(Usage(2)))

        assert ["parent_id", "ledger"] == [one.what for one in export.lost]

    def test_takes_nothing_else(self):
        """What is neither a checkpoint nor a state is refused."""
        with pytest.raises(TypeError, match="expected a Checkpoint or an Aggregator"):
            dump_checkpoint([UserMessage("hi")])  # type: ignore[arg-type]


class TestUsage:
    def test_where_it_is(self):
        """A checkpoint has its usage, and so does the block in it."""
        usage = {**NO_USAGE, "prompt_tokens": 3, "total_tokens": 4}
        expected = Usage(3, 0, 4)

        assert expected == load_usage(kept(usage=usage)) == load_usage(usage)
        assert load_usage(kept()) is None
        assert load_usage(None) is None
        assert load_usage(user()) is None
        with pytest.raises(DecodeError, match="expected a checkpoint"):
            load_usage([])

    @pytest.mark.parametrize("total", [{}, {"total_tokens": None}])
    def test_without_total(self, total):
        """A total that is missing is the sum, also in a checkpoint."""
        counts = {"prompt_tokens": 10, "completion_tokens": 5, **total}
        state = load_checkpoint(kept(usage=counts)).state

        assert Usage(10, 5, 15) == load_usage(counts) == state.usage

    def test_other_counts(self):
        """Counts of a newer bubo are kept in ``extra``."""
        usage = {
            "prompt_tokens": 3,
            "new_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 2, "text_tokens": 1},
        }

        assert load_usage(usage) == Usage(
            3,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=2),
            extra={"new_tokens": 7, "prompt_text_tokens": 1},
        )
