"""
The state, verb by verb.

See `test_aggregator_machine.py` for all verbs in any order, and `test_laws.py`
for what holds for every state.
"""

import copy
import multiprocessing
import pickle
import re
import sys
import tracemalloc
import weakref
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from operator import add, delitem, setitem
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import (
    Accumulator,
    Aggregator,
    AssistantMessage,
    Checkpoint,
    ResponseMeta,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Turn,
    Usage,
    UserMessage,
    concat,
    decode,
    encode,
    fan_out,
    join,
)
from conversation_state._persistent import Log
from conversation_state.aggregator import (
    Entry,
    LedgerEntry,
    Messages,
    ledger_union,
    response_key,
    total_usage,
)
from conversation_state.errors import (
    ConversationStateError,
    InvalidMessageError,
    InvalidUsageError,
)
from conversation_state.messages import Message, make_tombstone
from conversation_state.parts import ImagePart, ReasoningPart, TextPart
from conversation_state.rendering import escape_line
from conversation_state.testing.laws import states_add_up, unchanged
from tests.processes import count_calls, count_lines

NIL = UUID(int=0)
ONE = UUID(int=1)
MAX_COUNT = 2**63 - 1


def chat(*texts: str) -> Aggregator:
    """A root with a user's messages, one for each of *texts*."""
    return Aggregator.new(messages=map(UserMessage, texts))


def text_of(state: Aggregator | Turn) -> str:
    """The texts of all messages, in one text."""
    return " ".join(message.text for message in state)


def copied(text: str) -> str:
    """An equal text that is another object."""
    return "".join(list(text))


class TestNew:
    def test_is_empty(self):
        """No messages, no usage, no past."""
        state = Aggregator.new()

        assert 0 == len(state) == state.turn_len == state.init_len
        assert [] == list(state) == list(state.messages) == list(state.entries)
        assert [] == list(state.ledger)
        assert Usage() == state.usage == state.total_usage
        assert state.parent_id is None
        assert state.id == state.root_id

    def test_ids(self):
        """Each has an id of its own, a UUID of version 7, or the one it is given."""
        assert 7 == Aggregator.new().id.version
        assert Aggregator.new().id != Aggregator.new().id
        assert ONE == Aggregator.new(id=ONE).id
        assert NIL == Aggregator.new(id=NIL).id
        assert NIL == Aggregator.new(id=NIL).fork().parent_id


def test_typed_adds():
    """The verbs for messages of one role take a text, or calls, or such a message."""
    calls = ToolCall("1", "a"), ToolCall("2", "b")
    made: Any = [
        UserMessage("b", name="ann"),
        AssistantMessage("b", name="bob"),
        AssistantMessage("let me see", tool_calls=calls),
        ToolMessage("12:30", tool_call_id="1"),
    ]
    user, assistant, calling, result = made
    state = Aggregator.new().add_user_prompt("a").add_assistant_message("a")
    state = state.add_tool_call(*calls).add_user_prompt(user)
    state = state.add_assistant_message(assistant).add_tool_call(calling)

    assert [
        *(UserMessage("a"), AssistantMessage("a"), AssistantMessage(tool_calls=calls)),
        *made,
    ] == list(state.add_tool_response(result))


class TestExtend:
    def test_by_nothing(self):
        """Extended by nothing, it is the same state."""
        state = chat("a")

        assert state is state.extend([])
        assert state is state.extend(iter(()))


NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


class SummerTime(tzinfo):
    """A zone that has no fixed offset."""

    def utcoffset(self, _time):
        return timedelta(hours=2)

    def dst(self, _time):
        return timedelta(hours=1)

    def tzname(self, _time):
        return "summer"


class TestAddUsage:
    def test_each_request_once(self):
        """
        Without a key, one usage added twice counts twice, and a usage of no tokens is
        an entry: a request was made. The same key again is a no-op, and so is None,
        which providers send too.
        """
        keyed = chat().add_usage(Usage(3), key="request 1", model="gpt-5")
        twice = keyed.add_usage(Usage(1)).add_usage(Usage(1))

        assert (Usage(5), 3) == (twice.usage, len(twice.ledger))
        assert 2 == len(keyed.add_usage(Usage()).ledger)
        assert keyed is keyed.add_usage(Usage(3), key="request 1", model="gpt-5")
        assert keyed is keyed.add_usage(None, key="request 2", model="gpt-5")
        assert "request 1" == keyed.ledger[0].id

    def test_time(self):
        """A usage has the time that is given, or that of recording."""
        before = datetime.now(UTC)
        state = chat().add_usage(Usage(3)).add_usage(Usage(4), at=NOON)

        now, given = [entry.at for entry in state.ledger]
        assert now is not None
        assert before <= now <= datetime.now(UTC)
        assert NOON == given

    def test_time_in_a_zone(self):
        """Of a zone by name the offset is kept, which is what is written."""
        zone = SummerTime()
        state = chat().add_usage(Usage(3), at=datetime(2025, 6, 1, 12, tzinfo=zone))

        at = state.ledger[0].at
        assert datetime(2025, 6, 1, 10, tzinfo=UTC) == at
        assert timezone(timedelta(hours=2)) == at.tzinfo
        assert state == decode(encode(state)) == pickle.loads(pickle.dumps(state))

    def test_one_key_at_two_times(self):
        """
        The same key and usage at another time is not a conflict, in a state or over
        branches: one entry, and the time that was there first.
        """
        root = chat("a")
        early = root.fork().add_usage(Usage(3), key="request 1", at=NOON)
        late = root.fork().add_usage(Usage(3), key="request 1", at=NOON + DAY)
        steps = [
            lambda state, at=at: state.add_usage(Usage(3), key="r", at=at)
            for at in (NOON, NOON + DAY)
        ]

        both = fan_out(root, steps).state
        assert early is early.add_usage(Usage(3), key="request 1", at=NOON + DAY)
        assert early is early.join(late)
        assert late is late.join(early)
        assert NOON == root.join(early, late).ledger[0].at
        assert NOON + DAY == root.join(late, early).ledger[0].at
        assert (Usage(3), NOON) == (both.total_usage, both.ledger[0].at)
        assert Usage(3) == total_usage(early, late)

    @pytest.mark.parametrize("count", [1, 33, 200])
    def test_many_keys(self, count):
        """Every key is known, however many there are, in every later state."""
        state = chat()
        for n in range(count):
            state = state.add_usage(Usage(n), key=str(n)).add_usage(Usage(1))

        for n in range(count):
            assert state is state.add_usage(Usage(n), key=str(n))
            with pytest.raises(InvalidUsageError):
                state.add_usage(Usage(n + 1), key=str(n))

        assert 2 * count + 1 == len(state.add_usage(Usage(1), key="new").ledger)

    def test_known_keys_cost(self):
        """
        An old key is found without reading the ledger: by looking it up in
        no more maps than its length has binary digits.
        """
        state = chat()
        for n in range(1_000):
            state = state.add_usage(Usage(1), key=str(n))

        state.add_usage(Usage(1), key="0")
        again: list[Any] = []
        steps = count_lines(lambda: again.append(state.add_usage(Usage(1), key="0")))

        assert again[0] is state
        assert 100 > steps

    def test_equal_keys(self):
        """
        A key and a model are compared by their text, and kept as plain texts: a
        subclass of `str` could not be written.
        """

        class Name(str):
            __slots__ = ()

        state = chat().add_usage(Usage(3), key=Name("request 1"), model=Name("gpt-5"))

        assert [str, str] == [type(state.ledger[0].id), type(state.ledger[0].model)]
        assert state is state.add_usage(
            Usage(3), key=copied("request 1"), model=copied("gpt-5")
        )
        assert state == decode(encode(state))

    def test_too_much(self):
        """A total over 2**63 - 1 is refused, when adding and when joining."""
        state = chat()
        rich = state.fork().add_usage(Usage(MAX_COUNT))
        with pytest.raises(
            InvalidUsageError, match="prompt_tokens is 9223372036854775"
        ):
            rich.add_usage(Usage(1))
        with pytest.raises(
            InvalidUsageError, match="prompt_tokens is 9223372036854775"
        ):
            state.add_usage(Usage(1)).join(rich)

        assert Usage(MAX_COUNT) == state.join(rich).total_usage


def answer(
    text: str, usage: Usage | None, id: str = "", model: str = ""
) -> AssistantMessage:
    """An assistant's message as an adapter loads it from a response."""
    return AssistantMessage(
        text, response=ResponseMeta(usage=usage, id=id, model=model)
    )


# A message as OpenAI's chat format has it.
SENT: Any = {"role": "user", "content": "Hi"}


class TestAddResponse:
    def test_pieces(self):
        """The pieces of a stream are no response until they are joined."""
        pieces = [AssistantMessage("At "), answer("noon.", Usage(8, 2))]

        with pytest.raises(InvalidMessageError, match=r"response\(concat\(chunks\)\)"):
            chat().add_response(pieces)
        assert "At noon." == chat().add_response(concat(pieces))[-1].text

    def test_message_and_usage(self):
        """
        The message is appended, and its usage recorded under the response's id
        and content.
        """
        message = answer("Hi.", Usage(8, 2), "chatcmpl-1", "gpt-5")
        state = chat("Hello").add_response(message)
        key = response_key(state.entries[-1])

        assert message is state[-1]
        assert (key, Usage(8, 2), "gpt-5") == state.ledger[0][:3]
        assert str(key).startswith("chatcmpl-1#")
        assert key == response_key(message)

    def test_time(self):
        """It is recorded at the time of its message; without one, now."""
        message = answer("Hi.", Usage(8, 2), "1")
        before = datetime.now(UTC)
        states = [
            chat().add_response(message.replace(timestamp=NOON)),
            chat().add_response(message.replace(timestamp=NOON), key="mine"),
            chat().add(message.replace(timestamp=NOON)).record_responses(),
        ]
        now = chat().add_response(message).ledger[0].at

        assert [NOON] * 3 == [state.ledger[0].at for state in states]
        assert now is not None
        assert before <= now <= datetime.now(UTC)

    def test_once(self):
        """A response that comes in twice, or from two branches, is billed once."""
        one = answer("Hi.", Usage(8, 2), "chatcmpl-1")
        two = answer("Hi.", Usage(8, 2), copied("chatcmpl-1"))
        state = chat().add_response(one).add_response(two)
        branches = chat().fork().add_response(one), chat().fork().add_response(two)

        assert Usage(8, 2) == state.total_usage
        assert Usage(8, 2) == join(chat(), *branches).total_usage

    def test_without_an_id(self):
        """A response without an id is recorded under the identity of its entry."""
        state = chat().add_response(answer("Hi.", Usage(8, 2)))

        assert (
            state.entries[0].id == state.ledger[0].id == response_key(state.entries[0])
        )
        assert state is state.record_responses()

    @pytest.mark.parametrize("usage", [None, Usage()])
    def test_nothing_reported(self, usage):
        """A response without tokens leaves nothing in the ledger."""
        state = chat().add_response(answer("Hi.", usage, "chatcmpl-1"))

        assert 1 == len(state)
        assert () == tuple(state.ledger)

    def test_several_messages(self):
        """All messages of a response are appended, in order; none is not a change."""
        state = chat()
        both = state.add_response(
            answer("a", Usage(1), "1"), UserMessage("b"), answer("c", Usage(2), "2")
        )

        assert "a b c" == text_of(both)
        assert ["1", "2"] == [entry.id.partition("#")[0] for entry in both.ledger]
        assert state is state.add_response()

    def test_one_id_for_every_response(self):
        """Where a server gives two responses one id, both are billed."""
        for text, usage in [("b", Usage(2)), ("b", Usage(1)), ("a", Usage(2))]:
            state = chat().add_response(answer("a", Usage(1), "same"))
            state = state.add_response(answer(text, usage, "same"))

            assert 2 == len(state.ledger)
            assert Usage(1) + usage == state.total_usage
            assert state is state.record_responses()
            again = state.add_response(answer(text, usage, "same"))
            assert state.ledger == again.ledger

    def test_content_of_a_key(self):
        """
        Notes, ids of calls, reasoning and white space of arguments are not part of
        what keys a response; its text, and each call's name and arguments, are.
        """
        meta = ResponseMeta(id="7", usage=Usage(9, 1))
        plain = AssistantMessage(
            "Hi.", tool_calls=[ToolCall("c1", "go", '{"a": 1, "b": 2}')], response=meta
        )
        elsewhere = AssistantMessage(
            [ReasoningPart("hm", signature="s"), TextPart("Hi.", index=1)],
            tool_calls=[ToolCall("response_0", "go", '{"b":2,"a":1}', index=2)],
            response=ResponseMeta("tool_calls", Usage(9, 1), id="7"),
            metadata={"host": 1},
        )
        others = [
            plain.replace(content="Hi!"),
            plain.replace(tool_calls=()),
            plain.replace(tool_calls=[ToolCall("c1", "go", '{"a": 1, "b": 3}')]),
            plain.replace(tool_calls=[ToolCall("c1", "to", '{"a": 1, "b": 2}')]),
            plain.replace(response=ResponseMeta(id="8", usage=Usage(9, 1))),
        ]

        assert response_key(plain) == response_key(elsewhere)
        assert 6 == len({response_key(plain), *map(response_key, others)})
        state = chat().add_response(plain).add_response(elsewhere)
        assert Usage(9, 1) == state.total_usage

    def test_several_pieces(self):
        """
        A response of several messages is one bill, whole or in pieces, with its
        counts so far, with a tool's result between, and twice.
        """
        one, two = answer("a", Usage(9, 1), "7"), answer("b", Usage(9, 4), "7")
        result = ToolMessage("done", tool_call_id="c1")
        together = chat().add_response(one, two)

        assert Usage(9, 4) == together.total_usage
        assert response_key(answer("ab", None, "7")) == together.ledger[0].id
        assert together.ledger == together.add_response(one, two).ledger
        for messages in [one, two], [one, result, two], [one, two, one, two]:
            state = Aggregator.new(messages).record_responses()
            assert Usage(9, 4) == state.total_usage
            assert [together.ledger[0].id] == [entry.id for entry in state.ledger]
            assert together.total_usage == join(together, state).total_usage

    def test_numbered_from_one(self):
        """
        Answers of a server that gives one id again are billed each: in a loop with
        tools, and after the next prompt.
        """
        call = answer("calls", Usage(9, 1), "0")
        end = answer("done", Usage(12, 1), "0")
        result = ToolMessage("done", tool_call_id="c1")

        for between in result, UserMessage("And now?"):
            one_by_one = chat().add_response(call).add(between).add_response(end)
            history = Aggregator.new([call, between, end]).record_responses()
            assert Usage(21, 2) == one_by_one.total_usage == history.total_usage
            assert one_by_one is one_by_one.record_responses()
        again = one_by_one.rollback(0).add_response(end.replace(content="Another."))
        assert Usage(33, 3) == again.total_usage
        same = Aggregator.new([call, UserMessage("?"), call.replace(content="end")])
        assert Usage(18, 2) == same.record_responses().total_usage

    def test_recorded_by_hand(self):
        """
        What `add_usage` recorded under the response's id is not billed again,
        whatever model was named.
        """
        state = chat().add_usage(Usage(1), key="chatcmpl-1", model="other")
        same = state.add_response(answer("a", Usage(1), "chatcmpl-1", "gpt-5"))
        other = answer("a", Usage(2), "chatcmpl-1")

        assert Usage(1) == same.total_usage
        # Another usage is another response, with the key that it has everywhere.
        joined = state.add_response(other).join(chat().add_response(other))
        assert Usage(3) == joined.total_usage

    def test_key(self):
        """A *key* of the caller takes the place of the response's id."""
        state = chat().add_response(answer("a", Usage(1), "chatcmpl-1"), key="mine")

        assert ["mine"] == [entry.id for entry in state.ledger]
        with pytest.raises(InvalidUsageError, match="conflicting usage for key 'mine'"):
            state.add_response(answer("a", Usage(2), "chatcmpl-1"), key="mine")
        with pytest.raises(InvalidUsageError, match="these messages report 2; add"):
            state.add_response(
                answer("a", Usage(2)), answer("a", Usage(3)), key="another"
            )

    def test_as_loaded(self):
        """It takes what `load` returns, with or without the star, and any iterable."""
        messages = answer("a", Usage(1), "1"), answer("b", Usage(2), "2")
        expected = chat().add_response(*messages)

        for each in messages, [*messages], iter(messages):
            state = chat().add_response(each)
            assert list(expected) == list(state)
            assert expected.total_usage == state.total_usage
        mixed = chat().add_response(messages[0], [messages[1]])
        assert list(expected) == list(mixed)
        assert 0 == len(chat().add_response([]))


def result(id: str) -> ToolMessage:
    return ToolMessage("done", tool_call_id=id)


def calls(*ids: str, id: str = "r1", **meta: Any) -> AssistantMessage:
    """An answer that makes calls of these ids."""
    made = [ToolCall(each, "book", "{}") for each in ids]
    return AssistantMessage(
        "Let me see.", tool_calls=made, response=ResponseMeta(id=id, **meta)
    )


class TestContent:
    def test_texts_and_parts(self):
        """A prompt and an answer are a text, a part, or several of both."""
        image = ImagePart(url="https://example.com/map.png")
        given: Any = ["Where is this?", image]
        parts = (TextPart("Where is this?"), image)
        for state in (
            chat().add_user_prompt(given),
            chat().add_user_prompt(iter(parts)),
            chat().add_assistant_message(given),
        ):
            assert parts == state[-1].parts
        assert (image,) == chat().add_user_prompt(image)[-1].parts
        assert "Hi" == chat().add_assistant_message(TextPart("Hi"))[-1].text
        with pytest.raises(InvalidMessageError, match="UserMessage holds parts of"):
            chat().add_user_prompt(ReasoningPart("hm"))

    def test_calls_in_a_list(self):
        """Several calls come with or without the star."""
        made = [ToolCall(each, "book", "{}") for each in "ab"]

        assert tuple(made) == chat().add_tool_call(made)[-1].tool_calls
        assert tuple(made) == chat().add_tool_call(*made)[-1].tool_calls


class TestPendingCalls:
    """`pending_calls`: what a loop runs next."""

    @pytest.mark.parametrize(
        ("expected", "messages"),
        [
            ("", []),
            ("", [UserMessage("?")]),
            ("", [UserMessage("?"), AssistantMessage("!")]),
            ("a b", [UserMessage("?"), calls("a", "b")]),
            ("b", [calls("a", "b"), result("a")]),
            ("a", [calls("a", "b"), result("b")]),
            ("", [calls("a", "b"), result("b"), result("a")]),
            ("", [calls("a"), UserMessage("Stop!")]),
            ("", [calls("a"), UserMessage("Stop!"), AssistantMessage("I did.")]),
            ("", [calls("a"), UserMessage("When?"), result("a")]),
            ("", [calls("a", finish_reason="interrupted")]),
            ("b", [calls("a"), UserMessage("?"), calls("b", id="r2")]),
            ("", [calls("a"), UserMessage("?"), calls("b", id="r2"), result("b")]),
            ("", [calls("a"), calls(id="r2")]),
            ("a", [calls("a"), SystemMessage("Be brief.")]),
            ("a", [calls("a"), result("a"), calls("a", id="r2")]),
            ("a", [calls("a", "a"), result("a")]),
            ("a", [calls("a"), result("of none")]),
            ("", [calls("a"), result("a"), result("a")]),
        ],
    )
    def test_waiting(self, expected: str, messages: list[Message]):
        """
        Those of the newest answer without a result; none that the user stopped, or
        wrote after, and none of an earlier answer.
        """
        state = Aggregator.new(messages)

        assert expected == " ".join([call.id for call in state.pending_calls])

    def test_answer_in_pieces(self):
        """
        An answer of several messages is one, also with results between; not if the
        server gives each response that id.
        """
        one, two = (calls(each, usage=Usage(9, 1)) for each in "ab")
        other = calls("b", usage=Usage(12, 1))

        cases: list[tuple[list[Message], str]] = [
            ([one, two], "a b"),
            ([one, result("a"), two], "b"),
            ([one, result("a"), two, result("b")], ""),
            ([one, two.replace(response=ResponseMeta("interrupted", id="r1"))], ""),
            ([one, other], "b"),
            ([other, calls("c"), one], "c a"),
        ]
        for messages, expected in cases:
            state = Aggregator.new(messages)
            assert expected == " ".join([call.id for call in state.pending_calls])

    def test_erased(self):
        """A call whose arguments were erased is not run without them."""
        tombstone = make_tombstone(calls("a"), bytes(16), "asked to")

        assert () == Aggregator.new([tombstone]).pending_calls

    def test_looks_from_the_end(self):
        """Messages before the newest answer are not read."""
        short = Aggregator.new([UserMessage("?"), calls("a")])
        long = Aggregator.new([UserMessage("?"), calls("b"), result("b")] * 10_000)
        long = long.extend(short)

        assert short.pending_calls == long.pending_calls
        lines = count_lines(lambda: short.pending_calls)
        assert count_lines(lambda: long.pending_calls) < 2 * lines

    def test_a_loop_ends(self):
        """
        A loop that runs what waits and asks otherwise runs each call once, wherever it
        is stopped and begun again.
        """
        script = [calls("a", "b"), calls("c", id="r2"), answer("end", None, "r3")]
        state, ran = chat("?"), []
        while state.pending_calls or state[-1].role != "assistant":
            if state.pending_calls:
                ran.append(state.pending_calls[0].id)
                state = state.add_tool_response(result(ran[-1]))
            else:
                state = state.add_response(script.pop(0))
            state = decode(encode(state))

        assert ["a", "b", "c"] == ran


# What to write, by the names of it elsewhere.
ADVICE = {
    "append add_message push append_message": "state = state.add(message)",
    "add_messages add_all update": "state = state.extend(messages)",
    "add_user_message add_user add_prompt add_human_message ask": (
        "state = state.add_user_prompt(text)"
    ),
    "add_assistant add_ai_message add_assistant_text add_model_message": (
        "state = state.add_assistant_message(text)"
    ),
    "add_assistant_response add_answer add_completion add_model_response": (
        "state = state.add_response(openai_chat.load(response))"
    ),
    "add_tool_result add_tool_message add_tool_output add_tool_results": (
        "state = state.add_tool_response(call(function, each))"
    ),
    "add_tool_calls": "state = state.add_tool_call(*calls)",
    "add_system_message add_system_prompt add_system system_prompt": (
        "Aggregator.new([SystemMessage(text)]) begins"
    ),
    "history conversation transcript": "did you mean 'messages'?",
    "to_dict to_json json dict model_dump dump dumps to_list": "encode(state)",
    "from_dict from_json load loads model_validate": "decode(data)",
    "copy deepcopy clone": "it needs no copy; state.fork() is a branch of it",
    "pop remove delete remove_last truncate": "state.rollback(len(state) - 1)",
    "clear reset": "Aggregator.new() is an empty state",
    "insert replace edit": "state.replace_message(entry_id, message)",
    "undo redo commit": "Timeline.begin(state)",
    "merge union": "did you mean 'join'?",
    "branch branches": "did you mean 'fork'?",
    "restore revert goto": "did you mean 'rollback'?",
    "save store persist": "store.save(name, state)",
    "trim": "trim(state, budget)",
    "cost price": "cost(state)",
    "total_tokens tokens token_count": "state.total_usage.total_tokens",
    "last last_message newest": "state[-1]",
    "tool_calls open_calls pending_tool_calls": "did you mean 'pending_calls'?",
}


class TestOtherHands:
    """What others' APIs take or have: the error says the line to write."""

    @pytest.mark.parametrize(
        ("call", "line"),
        [
            (lambda _: Aggregator.new([SENT]), "Aggregator.new(openai_chat.load("),
            (lambda _: Aggregator.new(SENT), "Aggregator.new(openai_chat.load("),
            (
                lambda _: Aggregator.new(UserMessage("Hi")),  # type: ignore[arg-type]
                "in a list, or state.add_",
            ),
            (lambda state: state.extend([SENT]), "state.extend(openai_chat.load("),
            (lambda state: state.add(SENT), "state.extend(openai_chat.load("),
            (lambda state: state.add("Hi"), "add_user_prompt(text)"),
            (lambda state: state.add([UserMessage("a")]), "state.extend(messages)"),
            (
                lambda state: state.add_response({"choices": [{"message": SENT}]}),
                "state.add_response(openai_chat.load(response))",
            ),
            (
                lambda state: state.add_response([{"candidates": []}]),
                "state.add_response(gemini.load(messages))",
            ),
            (
                lambda state: state.add_response({"output": []}),
                "state.add_response(openai_responses.load(response))",
            ),
            (
                lambda state: state.add_response({"content": [], "stop_reason": None}),
                "state.add_response(anthropic.load(response))",
            ),
            (lambda state: state.add_response("Hi"), "add_assistant_message(text)"),
            (lambda state: state.add_response(Accumulator()), "received.message"),
            (lambda state: state.add_user_prompt(SENT), "openai_chat.load([message])"),
            (
                lambda state: state.add_user_prompt([{"type": "text", "text": "Hi"}]),
                "openai_chat.load([{'role': 'user', 'content': parts}])",
            ),
            (
                lambda state: state.add_assistant_message(SENT),
                "state.add_response(openai_chat.load([message]))",
            ),
            (lambda state: state.add_user_prompt(5), "add_user_prompt([text, part])"),
            (lambda state: state.add_tool_response("Hi"), "tool_call_id=call.id"),
            (lambda state: state.add_usage({"prompt_tokens": 1}), "add_response("),
            (lambda state: state.rollback("label"), "state.checkpoint('label')"),
            (lambda state: state.rollback("label"), "store.load(name, at='label')"),
        ],
        ids=map(str, range(21)),
    )
    def test_arguments(self, call, line):
        """JSON and texts where messages are expected."""
        with pytest.raises((ConversationStateError, LookupError)) as caught:
            call(chat("Hi"))

        assert line in str(caught.value)

    def test_objects_of_sdks(self):
        """
        An SDK's object is named with the call that makes it JSON, and the adapter.
        """
        openai = pytest.importorskip("openai.types.chat")
        said = openai.ChatCompletionMessage(role="assistant", content="Hi")

        with pytest.raises(InvalidMessageError) as caught:
            chat().add_response(said)

        assert (
            "state.add_response(openai_chat.load([message.to_dict(mode='json')]))"
        ) in str(caught.value)

    @pytest.mark.parametrize(
        ("module", "name", "fields", "line"),
        [
            ("langchain_core.messages", "Said", {}, "langchain.load([message])"),
            ("pydantic_ai.messages", "Message", {}, "pydantic_ai.load([message])"),
            ("agents.items", "Item", {}, "agents.load([message])"),
            ("google.genai.types", "Content", {}, "gemini.load([message.model_dump("),
            ("google.genai.types", "R", {"candidates": []}, "gemini.load(answer."),
            ("anthropic.types", "M", {"stop_reason": None}, "anthropic.load(answer."),
            ("openai.types.responses", "R", {"output": 1}, "openai_responses.load(a"),
            ("openai", "Stream", {}, "concat(openai_chat.load_chunks("),
            ("openai", "ChatCompletionChunk", {}, "concat(openai_chat.load_chunks("),
        ],
    )
    def test_packages_of_sdks(self, module, name, fields, line):
        """An object is known by the package of its class, alone and in a list."""
        given = type(name, (), {"__module__": module, **fields})()
        for each in (given, [given]):
            with pytest.raises(InvalidMessageError) as caught:
                chat().add_response(each)

            assert line in str(caught.value)

        with pytest.raises(InvalidMessageError) as caught:
            chat().add_response(type("Other", (), {"__module__": f"a.{module}"})())

        assert ";" not in str(caught.value)  # no advice

    @pytest.mark.parametrize(
        ("name", "advice"),
        [(name, ADVICE[names]) for names in ADVICE for name in names.split()],
    )
    def test_names(self, name, advice):
        """Names that lists and other libraries' objects have."""
        with pytest.raises(AttributeError) as caught:
            getattr(chat(), name)

        assert advice in str(caught.value)
        assert not hasattr(chat(), name)
        assert name not in dir(chat())
        for verb in re.findall(r"state\.(\w+)", str(caught.value)):
            assert hasattr(Aggregator, verb)

    def test_a_name_that_nobody_has(self):
        """The error is Python's own."""
        with pytest.raises(AttributeError, match=r"no attribute 'nothing_known'$"):
            _ = chat().nothing_known  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("name", "advice"),
        [
            ("append", "state = state.add(message)"),
            ("extend", "state = state.extend(messages)"),
            ("insert", "state.before(entry_id)"),
            ("pop", "state = state.rollback(len(state) - 1)"),
            ("remove", "state = state.rollback(len(state) - 1)"),
            ("clear", "state = Aggregator.new()"),
            ("copy", "it needs no copy"),
            ("sort", "sorted and reversed"),
            ("reverse", "sorted and reversed"),
        ],
    )
    def test_names_of_lists(self, name, advice):
        """The messages are a view, to which nothing can be appended."""
        with pytest.raises(AttributeError, match=re.escape(advice)):
            getattr(chat().messages, name)


class TestRecordResponses:
    def test_of_a_history(self):
        """The bill of a history that was loaded from elsewhere."""
        history = [UserMessage("q"), answer("a", None), UserMessage("q")]
        history += [answer("a", Usage(1), "1"), answer("b", Usage(2))]
        state = Aggregator.new(history).record_responses()

        assert Usage(3) == state.total_usage
        assert state is state.record_responses()
        assert history == list(state)

    def test_since(self):
        """Messages before *since* are not looked at."""
        state = Aggregator.new([answer("a", Usage(1), "1"), answer("b", Usage(2), "2")])

        assert Usage(2) == state.record_responses(since=1).total_usage
        assert state is state.record_responses(since=2)


CALLED = (
    Aggregator.new()
    .add_user_prompt("Which trains?")
    .add_tool_call(ToolCall("c1", "find", "{}"), ToolCall("c2", "find", "{}"))
    .add_tool_response(ToolMessage("At noon.", tool_call_id="c1"))
    .add_user_prompt("And?")
    .add_tool_response(ToolMessage("At one.", tool_call_id="c2"))
    .add_assistant_message("At noon and at one.")
    .add_usage(Usage(7))
)


def entry_ids(state, *positions):
    return [state.entries[at].id for at in positions]


class TestReplaceMessage:
    def test_keeps_what_follows(self):
        """A corrected question has a new identity; all after it keep theirs."""
        first = CALLED.entries[0].id
        corrected = CALLED.replace_message(first, UserMessage("Which buses?"))

        assert "Which buses?" == corrected[0].text
        assert first not in [entry.id for entry in corrected.entries]
        assert list(CALLED.entries)[1:] == list(corrected.entries)[1:]
        assert Usage(7) == corrected.total_usage
        assert CALLED.id == corrected.id

    def test_the_same(self):
        """What is equal already changes nothing."""
        first = CALLED.entries[0].id

        assert CALLED is CALLED.replace_message(first, UserMessage("Which trains?"))

    def test_calls(self):
        """Results of calls that went go, too, also late ones; those that stay stay."""
        calling = CALLED.entries[1].id
        one = CALLED[1].replace(tool_calls=CALLED[1].tool_calls[:1])
        state = CALLED.replace_message(calling, one)

        assert ["user", "assistant", "tool", "user", "assistant"] == [
            message.role for message in state
        ]
        assert "At noon." == state[2].text

    def test_results(self):
        """A result can be corrected, and nothing else can take its place."""
        result = CALLED.entries[2].id
        later = ToolMessage("At two.", tool_call_id="c1")

        assert "At two." == CALLED.replace_message(result, later)[2].text
        for wrong in (UserMessage("x"), ToolMessage("x", tool_call_id="c2")):
            with pytest.raises(InvalidMessageError, match=r"a result of the same call"):
                CALLED.replace_message(result, wrong)

        with pytest.raises(InvalidMessageError, match="can't take the place"):
            CALLED.replace_message(CALLED.entries[0].id, later)

    def test_inherited(self):
        """A fork that changes what it inherited has inherited what is before."""
        fork = CALLED.fork().add_user_prompt("Thanks.")
        state = fork.replace_message(fork.entries[3].id, UserMessage("So?"))

        assert 3 == state.init_len
        assert 4 == state.turn_len

    def test_wrong(self):
        """An entry that is not there, and what is no message, are refused."""
        with pytest.raises(LookupError, match="no entry of this state"):
            CALLED.replace_message("nothing", UserMessage("x"))
        with pytest.raises(
            InvalidMessageError, match="replace_message takes a Message"
        ):
            CALLED.replace_message(CALLED.entries[0].id, "x")  # type: ignore[arg-type]


class TestWithout:
    def test_keeps_the_rest(self):
        """All others keep their identity, and the ledger is whole."""
        state = CALLED.without(entry_ids(CALLED, 0, 5))

        assert list(CALLED.entries)[1:5] == list(state.entries)
        assert Usage(7) == state.total_usage

    @pytest.mark.parametrize("at", [1, 2, 4])
    def test_pairs(self, at):
        """A call goes with its results, and a result with its call and the others."""
        state = CALLED.without([CALLED.entries[at].id])

        assert ["Which trains?", "And?", "At noon and at one."] == [
            message.text for message in state
        ]

    def test_joined(self):
        """A join with the state that has it brings it back."""
        state = CALLED.without(entry_ids(CALLED, 0))

        assert {*CALLED.entries} == {*state.join(CALLED).entries}

    def test_nothing(self):
        """Without nothing it is the state itself."""
        assert CALLED is CALLED.without([])

    def test_wrong(self):
        """One text is no list of identities, and an unknown one is refused."""
        with pytest.raises(TypeError, match=r"state.without\(\[id\]\)"):
            CALLED.without("abc")
        with pytest.raises(LookupError, match="no entry of this state"):
            CALLED.without(["nothing"])


class TestRollback:
    @pytest.mark.parametrize("keep", [lambda state: state, Aggregator.checkpoint])
    def test_keeps_the_ledger(self, keep):
        """Going back has the earlier messages, and the whole ledger."""
        start = chat("a").add_usage(Usage(1), key="1")
        wrong = start.add_user_prompt("b").add_usage(Usage(1_500), key="2")
        again = wrong.rollback(keep(start))

        assert "a" == text_of(again)
        assert Usage(1_501) == again.total_usage
        assert ["1", "2"] == [entry.id for entry in again.ledger]
        assert start.id == again.id
        assert wrong.ledger is again.ledger
        assert again.entries == wrong.before(wrong.entries[1].id).entries
        assert Usage(1_501) == wrong.before(wrong.entries[0].id).total_usage
        assert "a b" == text_of(wrong)

    def test_before_the_fork(self):
        """Back before its fork, a state has inherited no more than is left."""
        fork = chat("a", "b").add_usage(Usage(1)).fork().add_user_prompt("c")
        back = fork.rollback(1)

        assert (1, 0, fork.id) == (back.init_len, back.turn_len, back.id)
        assert Usage(1) == back.total_usage
        assert back == decode(encode(back))

    def test_nothing_to_do(self):
        """Going back to where it is, is the state itself."""
        state = chat("a", "b")

        assert state is state.rollback(state)
        assert state is state.rollback(2)
        assert state is state.rollback(state.entries[-1].id)
        assert state is state.add_user_prompt("c").rollback(state)


class TestTotalUsage:
    def test_each_once(self):
        """What branches cost together: what they share counts once."""
        start = chat("a").add_usage(Usage(100), key="start")
        one = start.add_usage(Usage(5), key="one")
        two = start.fork().add_usage(Usage(7), key="two")
        copied = pickle.loads(pickle.dumps(two))

        assert Usage(112) == total_usage(one, two, copied, start.checkpoint(), two.turn)
        assert ["start", "one", "two"] == [e.id for e in ledger_union(one, two, copied)]
        assert Usage(100) == total_usage(start)

    def test_versions_of_a_branch_cost_what_is_new(self, monkeypatch):
        """
        Of many versions of one branch each entry is read once, not once for each
        version, whatever comes before them.
        """
        start = chat("a")
        versions = [start]
        for _ in range(500):
            versions.append(versions[-1].add_usage(Usage(1)))

        read = []
        real = Log.iterate

        def iterate(self, at=0):
            items = list(real(self, at))
            read.append(len(items))
            return iter(items)

        other = start.add_usage(Usage(1))
        with monkeypatch.context() as patch:
            patch.setattr(Log, "iterate", iterate)
            union = ledger_union(other, *versions)
            joined = other.join(*versions)

        assert 501 == len(union) == len(joined.ledger)
        assert sum(read) < 5 * 501


class TestFork:
    def test_inherits(self):
        """A fork has the past of its parent, under an id of its own."""
        parent = chat("a", "b").add_usage(Usage(5))
        with unchanged(parent):
            fork = parent.fork()

        assert "a b" == text_of(fork)
        assert parent.entries is fork.entries
        assert (2, 0) == (fork.init_len, fork.turn_len)
        assert (Usage(), Usage(5)) == (fork.usage, fork.total_usage)
        assert (parent.id, parent.id) == (fork.parent_id, fork.root_id)
        assert 7 == fork.id.version
        assert (fork.id, parent.id) == (fork.fork().parent_id, fork.fork().root_id)
        assert all([bool(fork), bool(fork.turn), bool(Aggregator.new())])

    def test_costs_one_small_object(self):
        """A fork weighs no more than a kilobyte, however long the conversation is."""
        parent = Aggregator.new(messages=[UserMessage("a")] * 10_000)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            forks = [parent.fork() for _ in range(500)]
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert 500 == len({fork.id for fork in forks})
        assert 1_000 >= (after - before) / 500


ROOT = chat("a")
LEFT, RIGHT = (
    ROOT.fork().add_user_prompt(text).add_usage(Usage(tokens), key=text)
    for text, tokens in (("b", 1), ("c", 2))
)
DEEP = LEFT.fork().add_user_prompt("d").add_usage(Usage(4))
GROWN = ROOT.add_user_prompt("p").add_usage(Usage(8))


class TestJoin:
    @pytest.mark.parametrize(
        ("joined", "text", "tokens"),
        [
            (ROOT.join(DEEP), "a b d", 5),
            (ROOT.join(LEFT, RIGHT), "a b c", 3),
            (ROOT.join(RIGHT).join(LEFT), "a c b", 3),
            (ROOT.join(DEEP, RIGHT.join(LEFT)), "a b d c", 7),
            (ROOT.join(RIGHT.join(LEFT), DEEP), "a c b d", 7),
            (LEFT.join(GROWN), "a b p", 9),
            (GROWN.join(LEFT.join(GROWN)), "a p b", 9),
            (GROWN.join(ROOT.add_user_prompt("q")), "a p q", 8),
            (DEEP.join(DEEP.fork(at=1).add_user_prompt("x")), "a b d x", 5),
            (ROOT.join(ROOT.fork().add_usage(Usage(7))), "a", 7),
            (LEFT.join(chat("b").add_usage(Usage(2))), "a b b", 3),
            (ROOT.join(LEFT.turn, DEEP.turn), "a b d", 5),
            (ROOT.join(DEEP.turn), "a d", 4),
        ],
        ids=[
            *("the generation between", "siblings", "in the order of calls"),
            *("a diamond", "in another order", "a parent into its fork"),
            *("and back", "of one id", "from earlier", "usage only", "strangers"),
            *("turns", "a turn alone"),
        ],
    )
    def test_examples(self, joined, text, tokens):
        """Whatever joins: in the order of the call, each message and usage once."""
        assert (text, tokens) == (text_of(joined), joined.total_usage.total_tokens)
        assert joined is joined.join(joined)
        states_add_up(joined)

    @pytest.mark.parametrize("size", [0, 32, 33, 1056])
    def test_over_borders(self, size):
        """Wherever two branches parted, and however long they are."""
        trunk = Aggregator.new(messages=[UserMessage("t")] * size)
        for count in (1, 32, 70):
            one = trunk.extend([UserMessage("1")] * count)
            two = trunk.fork().extend([UserMessage("2")] * 33)

            joined = one.join(two)

            expected = "t" * size + "1" * count + "2" * 33
            assert expected == text_of(joined).replace(" ", "")
            assert joined is joined.join(trunk, two, one)
            assert joined == one.join(two, trunk, one)

    @given(
        size=st.sampled_from([0, 3, 31, 40]),
        turns=st.lists(
            st.tuples(
                st.sampled_from(["join", "copy", "add", "old", "fork"]),
                st.integers(0, 9),
            ),
            max_size=12,
        ),
    )
    def test_one_by_one(self, size, turns):
        """However joins, appends, older states and copies follow, each is once."""
        root = chat(*map(str, range(size)))
        forks = [
            root.fork(at=min(number * 9, size))
            .extend([UserMessage(f"{number}.{at}") for at in range(1 + 7 * number)])
            .add_usage(Usage(1), key=f"u{number}")
            for number in range(10)
        ]
        state, states = root, [root]
        for verb, number in turns:
            other = forks[number]
            if verb == "add":
                state = state.add_user_prompt(f"more {number}")
            elif verb == "old":
                state = states[number % len(states)]
            elif verb == "fork":
                forks[number] = other.join(state.fork().add_user_prompt("from there"))
            else:
                brought = decode(encode(other)) if verb == "copy" else other
                known = {entry.id for entry in state.entries}
                new = [each for each in brought.entries if each.id not in known]
                expected = [*state.entries, *new]
                state = state.join(brought)

                assert expected == list(state.entries)
                assert state is state.join(brought, other)
                states_add_up(state)

            states.append(state)

    def test_what_came_since_a_join_is_known_to_the_next(self):
        """
        What was appended after a join, and what is older than all that it compared,
        is recognised where it comes back behind something else.
        """
        root = chat(*map(str, range(40)))
        joined = root.add_user_prompt("mine").join(root.fork().add_user_prompt("a"))
        grown = joined.add_user_prompt("since")
        late = root.fork().add_user_prompt("b").join(grown)
        early = root.fork(at=5).add_user_prompt("c").join(root)

        assert "mine a since b" == text_of(grown.join(late))[-len("mine a since b") :]
        assert len(grown) + 1 == len(grown.join(late))
        joined = root.add_user_prompt("mine").join(root.fork().add_user_prompt("a"))
        assert len(joined) + 1 == len(joined.join(early))

    def test_one_by_one_costs_what_each_adds(self):
        """A join after a hundred takes as many lines as one after two."""
        root = chat("a")
        forks = [root.fork().extend([UserMessage("x")] * 40) for _ in range(101)]
        state = root.join(*forks[:2])
        few = count_lines(partial(state.join, forks[2]))
        for fork in forks[2:-1]:
            state = state.join(fork)

        assert count_lines(partial(state.join, forks[-1])) < 3 * few

    @pytest.mark.parametrize("size", [3, 64, 1_000])
    @pytest.mark.parametrize(
        "travel",
        [
            lambda state: pickle.loads(pickle.dumps(state)),
            lambda state: decode(encode(state)),
        ],
        ids=["pickle", "decode"],
    )
    def test_shares_its_own_past(self, travel, size):
        """
        What a branch brings from another process is added to our own log: no
        copy of the shared past takes its place.
        """
        base = chat(*map(str, range(size))).add_usage(Usage(1), key="a")
        branch = travel(base).fork().add_user_prompt("new").add_usage(Usage(2), key="b")
        joined = base.join(branch)

        assert size + 1 == len(joined)
        assert all(ours is theirs for ours, theirs in zip(base, joined, strict=False))
        assert base.entries.is_shared_start_of(joined.entries)
        assert base.ledger[0] is joined.ledger[0]
        assert Usage(3) == joined.total_usage

    def test_takes_a_longer_log_that_grew_from_it(self):
        """Joining what grew here copies nothing: the longer log is the result's."""
        base = chat(*map(str, range(100)))
        grown = base.fork().add_user_prompt("new")

        assert base.join(grown).entries is grown.entries

    def test_one_identity_two_contents(self):
        """
        Where two sides hold different things under one identity, the
        receiver's stands.
        """

        def state(text: str, tokens: int, *more: str) -> Aggregator:
            messages = [Entry("1", UserMessage(text)), *map(entry, more)]
            ledger = [LedgerEntry("1", Usage(tokens), "")]
            return rebuilt(entries=messages, ledger=ledger)

        joined = state("ours", 1).join(state("theirs", 2, "more"))

        assert "ours more" == text_of(joined)
        assert Usage(1) == joined.usage

    def test_frees_what_is_unreachable(self):
        """A joined branch keeps alive what it brought, and nothing else."""
        root = chat("a")
        messages = [UserMessage(text, metadata={"n": 1}) for text in "bc"]
        watches = [weakref.ref(message.metadata) for message in messages]
        branch, lost = (root.fork().add(message) for message in messages)
        joined = root.join(branch)

        assert watches[1]() is not None

        del messages, branch, lost

        assert [True, False] == [watch() is not None for watch in watches]
        assert "a b" == text_of(joined)


@pytest.mark.parametrize("count", [2, 40, 100])
def test_responses_of_one_id_that_were_edited(count):
    """
    Where a server gives all responses one id, the usage of each that was edited is
    found in the ledger, however the ledger came here.
    """
    state = chat()
    for at in range(1, count + 1):
        state = state.add_response(answer(f"said {at}", Usage(at), "same"))

    for at in {0, count // 2, count - 1}:
        entries = list(state.entries)
        edited = answer(f"edited {at}", Usage(at + 1), "same")
        entries[at] = Entry(entries[at].id, edited)
        there = rebuilt(entries=entries, ledger=list(state.ledger))

        assert there is there.record_responses()


class TestIsRelatedTo:
    def test_by_root_or_entry(self):
        """
        Two roots are not, until they have an entry in common; a fork is, though both
        are empty.
        """
        one, two = chat("a"), chat("a")

        assert Aggregator.new(id=ONE).fork().is_related_to(Aggregator.new(id=ONE))
        assert not one.is_related_to(two)
        with pytest.raises(TypeError, match="takes an Aggregator, got a Turn"):
            one.is_related_to(one.turn)  # type: ignore[arg-type]

        assert not one.is_related_to(Aggregator.new())
        assert one.is_related_to(two.join(one))
        assert two.join(one).is_related_to(one)


class TestTurn:
    def test_what_was_added(self):
        """What came since the fork; all of it, for a root."""
        root = chat("a", "b").add_usage(Usage(1))
        fork = root.fork().add_user_prompt("c").add_usage(Usage(2))

        assert ("a b", Usage(1)) == (text_of(root.turn), root.turn.usage)
        assert ("c", Usage(2)) == (text_of(fork.turn), fork.turn.usage)
        assert (2, 1) == (len(root.turn), len(fork.turn))
        assert (fork.id, root.id) == (fork.turn.id, fork.turn.parent_id)
        assert root.turn.parent_id is None

    def test_is_small(self):
        """Pickled, it holds no more than what was added, and is equal."""
        root = Aggregator.new(messages=[UserMessage("long ago " * 9)] * 1_000)
        fork = root.fork().add_user_prompt("c")
        shipped = pickle.dumps(fork.turn)

        assert 2_000 > len(shipped)
        assert b"long ago" not in shipped
        assert fork.turn == pickle.loads(shipped)
        assert hash(fork.turn) == hash(pickle.loads(shipped))
        assert fork.turn == Turn.rebuild(
            id=fork.id,
            parent_id=root.id,
            entries=fork.turn.entries,
            ledger=fork.turn.ledger,
        )
        assert root.join(fork) == root.join(pickle.loads(shipped))


class TestCheckpoint:
    def test_value(self):
        """Frozen, hashable, equal by state and label, picklable."""
        state = chat("a")
        kept = state.checkpoint("one")

        assert kept == state.checkpoint("one") == Checkpoint(state, "one")
        assert kept != state.checkpoint("two")
        assert kept != state.add_user_prompt("b").checkpoint("one")
        assert hash(kept) == hash(state.checkpoint("one"))
        assert kept == pickle.loads(pickle.dumps(kept)) == copy.deepcopy(kept)
        for name in ("state", "label", "usage", "other"):
            with pytest.raises(AttributeError):
                setattr(kept, name, None)


def entry(text: str) -> Entry:
    """A message under its own text as identity."""
    return Entry(text, UserMessage(text))


def rebuilt(**fields: Any) -> Aggregator:
    """A state from *fields*, a root without anything but for them."""
    return Aggregator.rebuild(
        **{
            "id": ONE,
            "parent_id": None,
            "root_id": None,
            "init_len": 0,
            "init_ledger_len": 0,
            "entries": [],
            "ledger": [],
            **fields,
        }
    )


class TestRebuild:
    def test_root(self):
        """Left out, the root is the parent, or the state itself if it has none."""
        assert ONE == rebuilt().root_id
        assert NIL == rebuilt(parent_id=NIL).root_id
        assert UUID(int=7) == rebuilt(parent_id=NIL, root_id=UUID(int=7)).root_id


BASE: Any = {"entries": [entry("a")], "ledger": [LedgerEntry("1", Usage(1), "")]}
PAID: Any = chat("a", "b", "c").add_usage(Usage(3), key="request 1", model="gpt-5")
WITHOUT_ZONE = NOON.replace(tzinfo=None)
# What the types forbid can be tried all the same.
AnyState: Any = Aggregator
any_total: Any = total_usage
any_join: Any = join


@pytest.mark.parametrize(
    ("error", "shown", "call"),
    [
        (TypeError, "id: expected a uuid.UUID or", lambda: AnyState.new(id="7")),
        (InvalidMessageError, "a str: 'hi'", lambda: AnyState.new(messages=["hi"])),
        (TypeError, "make states with Aggregator.new()", Aggregator),
        (TypeError, "state.add(message)", partial(add, PAID, ["d"])),
        *[
            case
            for given in (PAID, PAID.messages)
            for case in (
                (TypeError, "state.replace_message(", partial(setitem, given, 0, "d")),
                (TypeError, "state.rollback(", partial(delitem, given, 0)),
            )
        ],
        (InvalidMessageError, "add takes a Message, got a", lambda: PAID.add(None)),
        (
            *(InvalidMessageError, "add_user_prompt takes a str or a UserMessage"),
            lambda: PAID.add_user_prompt(AssistantMessage("a")),
        ),
        (
            *(InvalidMessageError, "takes a str or an AssistantMessage, got a bytes"),
            lambda: PAID.add_assistant_message(b"a"),
        ),
        (
            *(InvalidMessageError, "make a call of it: ToolCall(id, name, arguments)"),
            lambda: PAID.add_tool_call("c1"),
        ),
        (
            *(InvalidMessageError, "use add_assistant_message"),
            lambda: PAID.add_tool_call(AssistantMessage("none")),
        ),
        (
            *(InvalidMessageError, "add_tool_response takes a ToolMessage, got a str"),
            lambda: PAID.add_tool_response("12:30"),
        ),
        (
            *(InvalidMessageError, "extend takes Messages, got a str: 'c'"),
            lambda: PAID.extend([UserMessage("b"), "c"]),
        ),
        (InvalidUsageError, "a Usage or None, got 5", lambda: PAID.add_usage(5)),
        (InvalidUsageError, "key is empty", lambda: PAID.add_usage(Usage(), key="")),
        (
            *(InvalidUsageError, "no time zone"),
            lambda: PAID.add_usage(Usage(1), at=WITHOUT_ZONE),
        ),
        (
            *(InvalidUsageError, "the ledger has Usage(3) for model 'gpt-5'"),
            lambda: PAID.add_usage(Usage(4), key="request 1", model="gpt-5"),
        ),
        (
            *(InvalidUsageError, "for model 'gpt-4'; use another key"),
            lambda: PAID.add_usage(Usage(3), key="request 1", model="gpt-4"),
        ),
        (
            *(ValueError, "expected the position of a message"),
            lambda: PAID.record_responses(since=-1),
        ),
        (IndexError, "back to 4: this state has 3 messages", lambda: PAID.rollback(4)),
        (LookupError, "no entry of this state has", lambda: PAID.rollback("nowhere")),
        (LookupError, "the identity 'nowhere'", lambda: PAID.before("nowhere")),
        (TypeError, "rollback takes a state, a", lambda: PAID.rollback(1.0)),
        (TypeError, "got a bool: True", lambda: PAID.rollback(*[True])),
        (ValueError, "have no entry in common", lambda: PAID.rollback(chat("a"))),
        (TypeError, "takes Aggregators, Turns or", lambda: any_total([PAID])),
        (IndexError, "fork at 4: this state has 3 messages", lambda: PAID.fork(at=4)),
        (TypeError, "at: expected a number of messages", lambda: PAID.fork(at="a")),
        (TypeError, "at: expected a number of mess", lambda: PAID.fork(at=True)),
        (TypeError, "join takes Aggregators and Turns", lambda: PAID.join([PAID])),
        (TypeError, "join takes Aggregators, got a list", lambda: any_join([PAID])),
        (
            *(TypeError, "merge_into takes an Aggregator, got a str"),
            lambda: PAID.checkpoint().merge_into("a"),
        ),
        (TypeError, "has merge_into", lambda: PAID.join(PAID.checkpoint())),
        (TypeError, "state.join(*states)", lambda: PAID.join([PAID, PAID])),
        (TypeError, "label is 5", lambda: PAID.checkpoint(5)),
        (
            TypeError,
            "takes an Aggregator, got a str",
            lambda: AnyState.checkpoint("a"),
        ),
        (ValueError, "init_len is 2; expected", lambda: rebuilt(**BASE, init_len=2)),
        (ValueError, "init_ledger_len is 2", lambda: rebuilt(init_ledger_len=2)),
        (
            *(InvalidUsageError, "prompt_tokens is 18446744073709551614"),
            lambda: rebuilt(
                ledger=[LedgerEntry(key, Usage(MAX_COUNT), "") for key in "ab"]
            ),
        ),
    ],
)
def test_refuses(error, shown, call):
    """
    What no verb can do is an error at once, which says what was asked and what is so.
    """
    with pytest.raises(error, match=re.escape(shown)) as raised:
        call()

    assert 500 > len(str(raised.value))


@pytest.mark.parametrize(
    "call",
    [
        lambda: PAID.before("nowhere"),
        lambda: PAID.replace_message("nowhere", UserMessage("a")),
        lambda: PAID.without(["nowhere"]),
    ],
    ids=["before", "replace_message", "without"],
)
def test_unknown_entry(call):
    """Of labels and checkpoints, only `rollback` has something to say."""
    expected = "no entry of this state has the identity 'nowhere'; state.entries lists"
    with pytest.raises(LookupError, match=f"{expected} them$"):
        call()


class TestMessages:
    def test_view(self):
        """The messages, as a sequence; slices are views, too."""
        state = chat(*"abcd")
        view = state.messages

        assert isinstance(view, Sequence)
        assert 4 == len(view)
        assert ("a", "d") == (view[0].text, view[-1].text)
        assert "bc" == "".join(message.text for message in view[1:3])
        assert isinstance(view[1:3], Messages)
        assert "dcba" == "".join(message.text for message in reversed(view))
        assert UserMessage("b") in view
        assert list(view) == list(state) == [state[at] for at in range(4)]
        assert view[1:] == state[1:]
        assert 2 == view.index(UserMessage("c"))
        with pytest.raises(IndexError, match="position 4 of a log of 4 items"):
            view[4]

    def test_equal(self):
        """Equal to any view, tuple or list of equal messages, and to nothing else."""
        view = chat("a", "b").messages
        same = [UserMessage("a"), UserMessage("b")]

        assert view == chat("a", "b").messages
        assert view != chat("a", "c").messages
        assert view == same
        assert view == tuple(same)
        assert hash(view) == hash(tuple(same))
        assert view != same[:1]
        assert view != "ab"
        assert view != Log(same)

    def test_equal_of_one_state(self):
        """Two views of one state are equal without reading a message."""
        few, many = [Aggregator.new([UserMessage("a")] * size) for size in (1, 1_000)]

        assert count_calls(lambda: few.messages == few.messages) == count_calls(
            lambda: many.messages == many.messages
        )


class TestHash:
    def test_hashes_of_other_ledgers(self):
        """
        States that differ only in their ledgers have different hashes, so that a set of
        them is not searched one by one.
        """
        state = chat("a")
        by_usage = {hash(state.add_usage(Usage(n), key="same")) for n in range(1_000)}
        by_key = {hash(state.add_usage(Usage(1), key=str(n))) for n in range(1_000)}

        assert 990 < len(by_usage)
        assert 990 < len(by_key)


class TestEqual:
    def test_by_fork_point(self):
        """States that differ in nothing but their fork point are not equal."""
        entries = [entry("a"), entry("b")]

        assert rebuilt(entries=entries) == rebuilt(entries=entries)
        assert rebuilt(entries=entries) != rebuilt(entries=entries, init_len=1)
        assert rebuilt(entries=entries) != rebuilt(entries=entries, parent_id=NIL)

    @pytest.mark.parametrize("size", [0, 32, 1057])
    def test_copies(self, size):
        """A copy is the state itself; a pickled one is equal and grows on."""
        state = Aggregator.new(messages=[UserMessage("a")] * size).fork()
        back = pickle.loads(pickle.dumps(state))

        assert state is copy.copy(state) is copy.deepcopy(state)
        assert state == back
        assert (state.id, state.init_len) == (back.id, back.init_len)
        assert size + 1 == len(back.add_user_prompt("b"))
        assert "b" == text_of(back.add_user_prompt("b").turn)


class TestFace:
    def test_nothing_can_be_set(self):
        """Nothing a state shows can be set or deleted, and nothing added."""
        state = chat("a")
        for name in ("id", "messages", "ledger", "add", "other"):
            with pytest.raises(AttributeError):
                setattr(state, name, None)
            with pytest.raises(AttributeError):
                delattr(state, name)

    def test_can_be_watched(self):
        """States are freed with the last reference, without a collector."""
        state = chat("a")
        watch = weakref.ref(state)
        fork = state.fork()
        del state

        assert watch() is None
        assert "a" == text_of(fork)


class TestShown:
    """What people see of a state."""

    def test_repr(self):
        """
        What a failing example needs: the id, the messages, what was recorded and,
        of a fork, how much was inherited.
        """
        state = Aggregator.new(id=ONE).add_user_prompt("a").add_usage(Usage(1000, 234))
        fork = state.fork().add_usage(Usage(1)).add_user_prompt("b")
        shown = "<Aggregator 00000000-0000-0000-0000-000000000001: 1 message"

        assert (
            f"{shown}, 1 ledger entry of Usage(1000, 234): "
            f"[UserMessage(content='a')]>" == repr(state)
        )
        assert (
            f"<Aggregator {fork.id}: 2 messages, 1 inherited, 2 ledger entries of "
            f"Usage(1001, 234): [UserMessage(content='a'), UserMessage(content='b')]>"
        ) == repr(fork)

    def test_str(self):
        """The conversation, one line a message, whatever a message has."""
        state = (
            Aggregator.new(messages=[SystemMessage("Be brief.")])
            .add_user_prompt("When?\n\n  And where?")
            .add_assistant_message(
                AssistantMessage(tool_calls=[ToolCall("1", "trains", "{}")])
            )
            .add_tool_response(ToolMessage("8:02", tool_call_id="1"))
        )

        assert [
            "system: Be brief.",
            "user: When? And where?",
            "assistant: calls trains({}) as 1",
            "tool, for 1: 8:02",
        ] == str(state).split("\n")
        assert "(no messages)" == str(Aggregator.new())

    @pytest.mark.parametrize(
        ("count", "lines"),
        [
            (9, [*map(str, range(9))]),
            (10, ["0", "1", "2", "… 2 messages", "5", "6", "7", "8", "9"]),
            (
                2_008,
                ["0", "1", "2", "… 2,000 messages", *map(str, range(2_003, 2_008))],
            ),
        ],
    )
    def test_of_many(self, count, lines):
        """
        Of a long conversation, the first three messages, the last five, and how
        many are between them.
        """
        messages = [UserMessage(str(n)) for n in range(count)]
        state = Aggregator.new(messages=messages)
        shown = repr(state)

        assert [
            line if line.startswith("…") else f"user: {line}" for line in lines
        ] == str(state).split("\n")
        assert [
            line if line.startswith("…") else f"UserMessage(content='{line}')"
            for line in lines
        ] == shown[shown.index("[") + 1 : -2].split(", ")

    def test_of_long_messages(self):
        """Of a long message, the beginning."""
        state = Aggregator.new(messages=[UserMessage("a " * 100_000)] * 1_000)
        lines = str(state).split("\n")

        assert 9 == len(lines)
        assert {79, len(lines[3])} == {*map(len, lines)}
        assert lines[0].startswith("user: a a a")
        assert lines[0].endswith("...")
        assert len(repr(state)) < 5_000

    @pytest.mark.parametrize(
        "text",
        [
            *("\x1b" * 500, "hi\u202e!", "hi\r\nassistant: Yes.", "a\x85b\x0bc\x1cd"),
        ],
        ids=ascii,
    )
    def test_is_safe(self, text):
        """
        Nothing a terminal would interpret, and no content that looks like another
        message.
        """
        shown = str(Aggregator.new(messages=[UserMessage(text, name=text)]))

        assert shown == escape_line(shown)
        assert 1 == len(shown.splitlines())
        assert shown.startswith("user (")
        assert len(shown) <= 79


class TestWeight:
    @pytest.mark.parametrize("size", [10, 10_000])
    def test_of_a_kept_state(self, size):
        """At most 450 bytes for each state that is kept, however long it is."""
        state = Aggregator.new(messages=[UserMessage("a")] * size)
        message = UserMessage("b")
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            kept = [state]
            for _ in range(3_000):
                state = state.add(message)
                kept.append(state)

            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert 450 >= (after - before) / 3_000
        assert size + 3_000 == len(kept[-1])

    def test_frees_abandoned_futures(self):
        """
        Messages that were added after a state that is kept are freed with the last
        state that has them.
        """
        state = chat(*"ab" * 40)
        messages = [ToolMessage("x", tool_call_id=str(n)) for n in range(100)]
        parts = [
            message.replace(metadata={"n": n}) for n, message in enumerate(messages)
        ]
        watches = [weakref.ref(part.metadata) for part in parts]
        future = state.extend(parts).fork().add_user_prompt("b")
        hash(future), list(future), future[5]
        del messages, parts, future

        assert [] == [watch() for watch in watches if watch() is not None]
        assert 80 == len(state)


def grown(state: Aggregator, name: str) -> Aggregator:
    """A branch of *state* with messages of *name*, for another process."""
    fork = state.fork()
    for n in range(40):
        fork = fork.add_user_prompt(f"{name}{n}").add_usage(Usage(1))

    return fork


class TestConcurrency:
    def test_threads(self):
        """
        Any number of threads may fork one state at once; joined in call order,
        nothing is lost, and the state is as it was.
        """
        state = chat(*"abc" * 30)
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(6) as pool, unchanged(state):
                forks = list(pool.map(grown, [state] * 6, "uvwxyz"))
        finally:
            sys.setswitchinterval(before)

        joined = state.join(*forks)
        names = [f"{name}{n}" for name in "uvwxyz" for n in range(40)]

        assert [*"abc" * 30, *names] == [message.text for message in joined]
        assert Usage(240) == joined.usage
        states_add_up(joined)

    def test_processes(self):
        """
        Branches grown in other processes come back with identities of their
        own, and join in call order.
        """
        state = chat("a")
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            branches = [
                pool.submit(Aggregator.extend, state.fork(), [UserMessage(name)] * 3)
                for name in "uvw"
            ]
            turns = [
                pool.submit(Aggregator.add_usage, branch.result(), Usage(5))
                for branch in branches
            ]
            joined = state.join(*[run.result().turn for run in turns])

        assert "a u u u v v v w w w" == text_of(joined)
        assert Usage(15) == joined.usage
        assert 10 == len({entry.id for entry in joined.entries})
        states_add_up(joined)
