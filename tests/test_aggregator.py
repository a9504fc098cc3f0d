"""
The state, verb by verb.

See `test_aggregator_machine.py` for all verbs in any order, and `test_laws.py`
for what holds for every state.
"""

import copy
import multiprocessing
import pickle
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from uuid import UUID

import pytest

from conversation_state import (
    Aggregator,
    AssistantMessage,
    Checkpoint,
    ConversationStateError,
    Message,
    ResponseMeta,
    SystemMessage,
    TokenBudget,
    ToolCall,
    ToolMessage,
    Turn,
    Usage,
    UserMessage,
    decode,
    encode,
    fan_out,
    join,
    trim,
)
from conversation_state._persistent import Log
from conversation_state._wording import describe_type
from conversation_state.aggregator import (
    Entry,
    LedgerEntry,
    Messages,
    ledger_union,
    response_key,
    total_usage,
)
from conversation_state.errors import InvalidMessageError, InvalidUsageError
from conversation_state.messages import UnknownMessage, make_tombstone
from conversation_state.rendering import escape_line
from conversation_state.testing.laws import states_add_up, unchanged
from tests.processes import count_calls, count_lines

NIL = UUID(int=0)
ONE = UUID(int=1)
MAX_COUNT = 2**63 - 1


def chat(*texts: str) -> Aggregator:
    """
    A root with a user's messages, one for each of *texts*.
    """
    return Aggregator.new(messages=map(UserMessage, texts))


def text_of(state: Aggregator | Turn) -> str:
    """
    The texts of all messages, in one text.
    """
    return " ".join(message.text for message in state)


def copied(text: str) -> str:
    """
    An equal text that is another object.
    """
    return "".join(list(text))


class TestNew:
    def test_is_empty(self):
        """
        No messages, no usage, no past.
        """
        state = Aggregator.new()

        assert 0 == len(state) == state.turn_len == state.init_len
        assert [] == list(state) == list(state.messages) == list(state.entries)
        assert [] == list(state.ledger)
        assert Usage() == state.usage == state.total_usage
        assert state.parent_id is None
        assert state.id == state.root_id

    def test_ids(self):
        """
        Each has an id of its own, a UUID of version 7, or the one it is given.
        """
        assert 7 == Aggregator.new().id.version
        assert Aggregator.new().id != Aggregator.new().id
        assert ONE == Aggregator.new(id=ONE).id
        assert NIL == Aggregator.new(id=NIL).id
        assert NIL == Aggregator.new(id=NIL).fork().parent_id

    def test_messages(self):
        """
        A conversation can begin with messages of any role.
        """
        messages = [
            SystemMessage("s"),
            UserMessage("u"),
            AssistantMessage("a"),
            ToolMessage("t", tool_call_id="1"),
            UnknownMessage({"role": "narrator"}),
        ]

        assert messages == list(Aggregator.new(messages=messages))
        assert messages == list(Aggregator.new(messages=iter(messages)))

    def test_errors(self):
        """
        What is not an id and what is not a message is refused, and shown.
        """
        with pytest.raises(TypeError) as raised:
            Aggregator.new(id="7")  # type: ignore[arg-type]

        assert "id: expected a uuid.UUID or None, got '7'" == str(raised.value)
        with pytest.raises(InvalidMessageError, match="a str: 'hi'"):
            Aggregator.new(messages=["hi"])  # type: ignore[list-item]

    def test_not_by_its_class(self):
        """
        The class is not called; the error says what is.
        """
        with pytest.raises(TypeError) as raised:
            Aggregator()

        expected = "make states with Aggregator.new(), state.fork() or decode"
        assert expected == str(raised.value)


class TestAdd:
    def test_next_state(self):
        """
        The next state has one message more; this one is as it was.
        """
        state = chat("a")
        message = UserMessage("b")
        with unchanged(state):
            after = state.add(message)

        assert "a b" == text_of(after)
        assert message is after[-1]
        assert state.id == after.id
        assert 2 == after.turn_len

    def test_one_message_twice(self):
        """
        One message object appended twice makes two entries.
        """
        message = UserMessage("a")
        state = Aggregator.new().add(message).add(message)

        assert [message, message] == list(state)
        assert 2 == len({entry.id for entry in state.entries})

    @pytest.mark.parametrize(
        "message", [None, "hi", {"role": "user"}, UserMessage], ids=repr
    )
    def test_messages_only(self, message):
        """
        Anything else is refused, and shown.
        """
        with pytest.raises(InvalidMessageError) as raised:
            chat("a").add(message)

        expected = f"add takes a Message, got {describe_type(message)}: {message!r}"
        assert expected == str(raised.value)
        assert isinstance(raised.value, ConversationStateError)

    def test_long_things_are_shown_short(self):
        """
        An error shows no more than a line of what it was given.
        """
        with pytest.raises(InvalidMessageError) as raised:
            chat().add("x" * 1000)  # type: ignore[arg-type]

        assert 150 > len(str(raised.value))


class TestTypedAdds:
    """
    The verbs for messages of one role.
    """

    def test_user_prompt(self):
        """
        A text or a user's message.
        """
        message = UserMessage("b", name="ann")
        state = Aggregator.new().add_user_prompt("a").add_user_prompt(message)

        assert [UserMessage("a"), message] == list(state)

    def test_assistant_message(self):
        """
        A text or an assistant's message.
        """
        message = AssistantMessage("b", name="bob")
        state = Aggregator.new().add_assistant_message("a")

        assert [AssistantMessage("a"), message] == list(
            state.add_assistant_message(message)
        )

    def test_tool_call(self):
        """
        Calls make one message; a message that has calls is taken as it is.
        """
        one, two = ToolCall("1", "a"), ToolCall("2", "b")
        message = AssistantMessage("let me see", tool_calls=[one])
        state = Aggregator.new().add_tool_call(one, two).add_tool_call(one)

        assert [
            AssistantMessage(tool_calls=[one, two]),
            AssistantMessage(tool_calls=[one]),
            message,
        ] == list(state.add_tool_call(message))

    def test_tool_response(self):
        """
        A tool's message.
        """
        message = ToolMessage("12:30", tool_call_id="1")

        assert [message] == list(Aggregator.new().add_tool_response(message))

    @pytest.mark.parametrize(
        ("verb", "given", "asked"),
        [
            ("add_user_prompt", AssistantMessage("a"), "a str or a UserMessage"),
            ("add_user_prompt", None, "a str or a UserMessage"),
            ("add_assistant_message", UserMessage("a"), "a str or an AssistantMessage"),
            ("add_assistant_message", b"a", "a str or an AssistantMessage"),
            ("add_tool_call", UserMessage("a"), "ToolCalls, or one AssistantMessage"),
            ("add_tool_call", "c1", "ToolCalls, or one AssistantMessage that has"),
            ("add_tool_response", "12:30", "a ToolMessage"),
            ("add_tool_response", UserMessage("a"), "a ToolMessage"),
        ],
    )
    def test_wrong_class(self, verb, given, asked):
        """
        A message of another kind is refused: what was asked, what was given.
        """
        state = chat("a")
        with pytest.raises(InvalidMessageError) as raised, unchanged(state):
            getattr(state, verb)(given)

        assert f"{verb} takes {asked}" in str(raised.value)
        assert f"got {describe_type(given)}: {given!r:.40}" in str(raised.value)

    def test_messages_among_calls(self):
        """
        A message is not one call of several.
        """
        message = AssistantMessage(tool_calls=[ToolCall("1", "a")])
        with pytest.raises(InvalidMessageError, match="got an AssistantMessage"):
            chat().add_tool_call(ToolCall("2", "b"), message)

    @pytest.mark.parametrize("given", [(), (AssistantMessage("none"),)])
    def test_no_calls(self, given):
        """
        Calling nothing is not a call; the error says what to use instead.
        """
        with pytest.raises(InvalidMessageError) as raised:
            chat().add_tool_call(*given)

        assert str(raised.value) == (
            "add_tool_call got no calls; use add_assistant_message for a message "
            "without any"
        )

    def test_surrogates(self):
        """
        A text that no message can hold is refused.
        """
        with pytest.raises(InvalidMessageError, match="half of a surrogate pair"):
            chat().add_user_prompt("\ud800")


class TestExtend:
    @pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 100])
    def test_all_at_once(self, count):
        """
        As if each was added.
        """
        state = chat("a")
        messages = [UserMessage(str(n)) for n in range(count)]
        with unchanged(state):
            after = state.extend(iter(messages))

        assert [UserMessage("a"), *messages] == list(after)
        assert count + 1 == len({entry.id for entry in after.entries})

    def test_by_nothing(self):
        """
        Extended by nothing, it is the same state.
        """
        state = chat("a")

        assert state is state.extend([])
        assert state is state.extend(iter(()))

    def test_by_a_state(self):
        """
        A state can be extended by another one's messages, which get identities of their
        own.
        """
        state = chat("a", "b")
        after = state.extend(state).extend(state.messages)

        assert "a b a b a b" == text_of(after)
        assert 6 == len({entry.id for entry in after.entries})

    def test_all_or_nothing(self):
        """
        If one of them is not a message, none is added.
        """
        state = chat("a")
        with pytest.raises(InvalidMessageError) as raised, unchanged(state):
            state.extend([UserMessage("b"), "c"])  # type: ignore[list-item]

        assert "extend takes Messages, got a str: 'c'" == str(raised.value)


NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


class SummerTime(tzinfo):
    """
    A zone that has no fixed offset.
    """

    def utcoffset(self, _time):
        return timedelta(hours=2)

    def dst(self, _time):
        return timedelta(hours=1)

    def tzname(self, _time):
        return "summer"


SUMMER = datetime(2025, 6, 1, tzinfo=SummerTime())


class TestAddUsage:
    def test_adds(self):
        """
        Usage is in the ledger, with the model, and in the totals.
        """
        state = chat("a")
        with unchanged(state):
            after = state.add_usage(Usage(3, 4), model="gpt-5").add_usage(Usage(1))

        assert Usage(4, 4) == after.usage == after.total_usage
        assert [(Usage(3, 4), "gpt-5"), (Usage(1), "")] == [
            (entry.usage, entry.model) for entry in after.ledger
        ]
        assert "a" == text_of(after)

    def test_one_usage_twice(self):
        """
        Without a key, one usage added twice counts twice.
        """
        usage = Usage(3, 4)
        state = chat().add_usage(usage).add_usage(usage)

        assert Usage(6, 8) == state.usage
        assert 2 == len({entry.id for entry in state.ledger})

    def test_none(self):
        """
        None, which providers send too, adds nothing.
        """
        state = chat("a")

        assert state is state.add_usage(None)
        assert state is state.add_usage(None, key="request 1", model="gpt-5")

    def test_nothing(self):
        """
        A usage of no tokens is an entry all the same: a request was made.
        """
        assert 1 == len(chat().add_usage(Usage(), key="request 1").ledger)

    def test_key(self):
        """
        The same key again is a no-op.
        """
        state = chat().add_usage(Usage(3), key="request 1", model="gpt-5")

        assert state is state.add_usage(Usage(3), key="request 1", model="gpt-5")
        assert ["request 1"] == [entry.id for entry in state.ledger]

    def test_time(self):
        """
        A usage has the time that is given, or that of recording.
        """
        before = datetime.now(UTC)
        state = chat().add_usage(Usage(3)).add_usage(Usage(4), at=NOON)

        now, given = [entry.at for entry in state.ledger]
        assert now is not None
        assert before <= now <= datetime.now(UTC)
        assert NOON == given

    def test_time_in_a_zone(self):
        """
        Of a zone by name the offset is kept, which is what is written.
        """
        zone = SummerTime()
        state = chat().add_usage(Usage(3), at=datetime(2025, 6, 1, 12, tzinfo=zone))

        at = state.ledger[0].at
        assert datetime(2025, 6, 1, 10, tzinfo=UTC) == at
        assert timezone(timedelta(hours=2)) == at.tzinfo
        assert state == decode(encode(state)) == pickle.loads(pickle.dumps(state))

    @pytest.mark.parametrize(
        ("at", "shown"),
        [
            (NOON.replace(tzinfo=None), "which has no time zone"),
            ("2025-06-01", "at is '2025-06-01'; expected an aware datetime or None"),
            (1_748_779_200, "at is 1748779200; expected an aware datetime"),
        ],
    )
    def test_invalid_time(self, at, shown):
        """
        A time without an offset is refused.
        """
        with pytest.raises(InvalidUsageError, match=shown):
            chat().add_usage(Usage(3), at=at)

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

    def test_time_is_content(self):
        """
        Entries that differ in their time alone are not equal, nor are states.
        """
        one, two = LedgerEntry("1", Usage(1), "", NOON), LedgerEntry("1", Usage(1), "")
        state = rebuilt(ledger=[one])

        assert one != two
        assert state == rebuilt(ledger=[one])
        assert state != rebuilt(ledger=[two])

    @pytest.mark.parametrize(
        ("usage", "model"), [(Usage(4), "gpt-5"), (Usage(3), "gpt-4"), (Usage(3), "")]
    )
    def test_key_with_another_usage(self, usage, model):
        """
        The same key with another usage or model is refused: what was recorded, what was
        given, what to do.
        """
        state = chat().add_usage(Usage(3), key="request 1", model="gpt-5")
        with pytest.raises(InvalidUsageError) as raised:
            state.add_usage(usage, key="request 1", model=model)

        assert str(raised.value) == (
            f"conflicting usage for key 'request 1': the ledger has {Usage(3)} for "
            f"model 'gpt-5', got {usage} for model {model!r}; use another key"
        )

    @pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65, 200])
    def test_many_keys(self, count):
        """
        Every key is known, however many there are, in every later state.
        """
        state = chat()
        for n in range(count):
            state = state.add_usage(Usage(n), key=str(n)).add_usage(Usage(1))

        for n in range(count):
            assert state is state.add_usage(Usage(n), key=str(n))
            with pytest.raises(InvalidUsageError):
                state.add_usage(Usage(n + 1), key=str(n))

        assert 2 * count + 1 == len(state.add_usage(Usage(1), key="new").ledger)

    def test_keys_cost(self):
        """
        Whether a key is new is known without asking every entry.
        """
        state = chat()
        for n in range(1_000):
            state = state.add_usage(Usage(1), key=str(n))

        assert 300 > count_calls(lambda: state.add_usage(Usage(1), key="new"))

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

    def test_keys_of_branches(self):
        """
        The keys of one branch are not known to the other, until they are joined.
        """
        trunk = chat().add_usage(Usage(1), key="trunk")
        ours = trunk.fork().add_usage(Usage(2), key="request 1")
        theirs = trunk.fork().add_usage(Usage(3), key="request 1")

        assert ours is ours.add_usage(Usage(1), key="trunk")
        assert Usage(3) == ours.join(theirs).total_usage
        assert Usage(4) == theirs.join(ours).total_usage

    @pytest.mark.parametrize(
        ("fields", "shown"),
        [
            ({"usage": 5}, "add_usage takes a Usage or None, got 5"),
            ({"usage": {"prompt_tokens": 1}}, "got {'prompt_tokens': 1}"),
            ({"key": ""}, "key is empty; leave it out if this usage has no identity"),
            ({"key": 5}, "key is 5; expected a str"),
            ({"key": "\ud800"}, "key holds '\\ud800' at position 0"),
            ({"model": None}, "model is None; expected a str"),
            ({"model": "\ud800"}, "model holds '\\ud800' at position 0"),
        ],
    )
    def test_errors(self, fields, shown):
        """
        What can't be recorded is refused, and shown.
        """
        given: Any = {"usage": Usage(1), **fields}
        with pytest.raises(InvalidUsageError) as raised:
            chat().add_usage(given.pop("usage"), **given)

        assert shown in str(raised.value)

    def test_too_much(self):
        """
        A total over 2**63 - 1 is refused, when adding and when joining.
        """
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
    """
    An assistant's message as an adapter loads it from a response.
    """
    return AssistantMessage(
        text, response=ResponseMeta(usage=usage, id=id, model=model)
    )


class TestAddResponse:
    def test_message_and_usage(self):
        """
        The message is appended, and its usage recorded under the response's id.
        """
        message = answer("Hi.", Usage(8, 2), "chatcmpl-1", "gpt-5")
        state = chat("Hello").add_response(message)

        assert message is state[-1]
        assert ("chatcmpl-1", Usage(8, 2), "gpt-5") == state.ledger[0][:3]
        assert "chatcmpl-1" == response_key(state.entries[-1])

    def test_time(self):
        """
        It is recorded at the time of its message; without one, now.
        """
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
        """
        A response that comes in twice, or from two branches, is billed once.
        """
        one = answer("Hi.", Usage(8, 2), "chatcmpl-1")
        two = answer("Hi.", Usage(8, 2), copied("chatcmpl-1"))
        state = chat().add_response(one).add_response(two)
        branches = chat().fork().add_response(one), chat().fork().add_response(two)

        assert Usage(8, 2) == state.total_usage
        assert Usage(8, 2) == join(chat(), *branches).total_usage

    def test_without_an_id(self):
        """
        A response without an id is recorded under the identity of its entry.
        """
        state = chat().add_response(answer("Hi.", Usage(8, 2)))

        assert (
            state.entries[0].id == state.ledger[0].id == response_key(state.entries[0])
        )
        assert state is state.record_responses()

    @pytest.mark.parametrize("usage", [None, Usage()])
    def test_nothing_reported(self, usage):
        """
        A response without tokens leaves nothing in the ledger.
        """
        state = chat().add_response(answer("Hi.", usage, "chatcmpl-1"))

        assert 1 == len(state)
        assert () == tuple(state.ledger)
        assert response_key(state.entries[0]) is None

    def test_several_messages(self):
        """
        All messages of a response are appended, in order; none is not a change.
        """
        state = chat()
        both = state.add_response(
            answer("a", Usage(1), "1"), UserMessage("b"), answer("c", Usage(2), "2")
        )

        assert "a b c" == text_of(both)
        assert ["1", "2"] == [entry.id for entry in both.ledger]
        assert state is state.add_response()

    def test_one_id_for_every_response(self):
        """
        Where a server gives two responses one id, both are billed.
        """
        state = chat().add_response(answer("a", Usage(1), "same"))
        state = state.add_response(answer("b", Usage(2), "same"))

        assert ["same", state.entries[1].id] == [entry.id for entry in state.ledger]
        assert Usage(3) == state.total_usage
        assert state is state.record_responses()

    def test_recorded_by_hand(self):
        """
        What `add_usage` recorded under the response's id is not billed again,
        whatever model was named.
        """
        state = chat().add_usage(Usage(1), key="chatcmpl-1", model="other")
        state = state.add_response(answer("a", Usage(1), "chatcmpl-1", "gpt-5"))

        assert Usage(1) == state.total_usage

    def test_key(self):
        """
        A *key* of the caller takes the place of the response's id.
        """
        state = chat().add_response(answer("a", Usage(1), "chatcmpl-1"), key="mine")

        assert ["mine"] == [entry.id for entry in state.ledger]
        with pytest.raises(InvalidUsageError, match="conflicting usage for key 'mine'"):
            state.add_response(answer("a", Usage(2), "chatcmpl-1"), key="mine")
        with pytest.raises(InvalidUsageError, match="these messages report 2; add"):
            state.add_response(
                answer("a", Usage(2)), answer("a", Usage(3)), key="another"
            )

    def test_messages_only(self):
        """
        Anything else is refused, and nothing is added.
        """
        with pytest.raises(InvalidMessageError, match="extend takes Messages"):
            chat().add_response({"content": "a"})  # type: ignore[arg-type]


class TestRecordResponses:
    def test_of_a_history(self):
        """
        The bill of a history that was loaded from elsewhere.
        """
        history = [UserMessage("q"), answer("a", Usage(1), "1"), answer("b", Usage(2))]
        state = Aggregator.new(history).record_responses()

        assert Usage(3) == state.total_usage
        assert state is state.record_responses()
        assert history == list(state)

    def test_since(self):
        """
        Messages before *since* are not looked at.
        """
        state = Aggregator.new([answer("a", Usage(1), "1"), answer("b", Usage(2), "2")])

        assert Usage(2) == state.record_responses(since=1).total_usage
        assert state is state.record_responses(since=2)

    @pytest.mark.parametrize("since", [-1, -40, -(2**64)])
    def test_since_is_no_distance_from_the_end(self, since):
        """
        A negative *since* is refused, at any length; nothing was recorded then.
        """
        state = Aggregator.new([answer("a", Usage(1))] * 100)

        with pytest.raises(ValueError, match="expected the position of a message"):
            state.record_responses(since=since)


class TestRollback:
    @pytest.mark.parametrize("keep", [lambda state: state, Aggregator.checkpoint])
    def test_keeps_the_ledger(self, keep):
        """
        Going back has the earlier messages, and the whole ledger.
        """
        start = chat("a").add_usage(Usage(1), key="1")
        wrong = start.add_user_prompt("b").add_usage(Usage(1_500), key="2")
        again = wrong.rollback(keep(start))

        assert "a" == text_of(again)
        assert Usage(1_501) == again.total_usage
        assert ["1", "2"] == [entry.id for entry in again.ledger]
        assert start.id == again.id
        assert wrong.ledger is again.ledger
        assert "a b" == text_of(wrong)

    def test_two_attempts(self):
        """
        Attempts that all started from one state are all in the ledger.
        """
        start = chat("a")
        first = start.add_user_prompt("b").add_usage(Usage(1_500))
        second = first.rollback(start).add_user_prompt("c").add_usage(Usage(1_500))

        assert Usage(3_000) == second.rollback(start).total_usage

    def test_out_of_a_fork(self):
        """
        A fork goes back to the state it was forked from, whose id the result
        has, and to a sibling.
        """
        root = chat("a")
        one = root.fork().add_user_prompt("b").add_usage(Usage(1))
        two = root.fork().add_user_prompt("c").add_usage(Usage(2))

        assert (root.id, Usage(1)) == (one.rollback(root).id, one.rollback(root).usage)
        assert (two.id, "a c") == (one.rollback(two).id, text_of(one.rollback(two)))
        assert Usage(3) == one.rollback(two).total_usage

    def test_by_number_and_entry(self):
        """
        A place in the state itself: how many messages to keep, or the last
        entry to keep.
        """
        state = chat("a", "b", "c").add_usage(Usage(7))
        entry = state.entries[1]

        assert "a b" == text_of(state.rollback(2))
        assert "a b" == text_of(state.rollback(copied(entry.id)))
        assert Usage(7) == state.rollback(0).total_usage
        assert state.id == state.rollback(0).id
        assert state.entries[:2] == state.rollback(2).entries

    def test_before_the_fork(self):
        """
        Back before its fork, a state has inherited no more than is left.
        """
        fork = chat("a", "b").add_usage(Usage(1)).fork().add_user_prompt("c")
        back = fork.rollback(1)

        assert (1, 0, fork.id) == (back.init_len, back.turn_len, back.id)
        assert Usage(1) == back.total_usage
        assert back == decode(encode(back))

    def test_nothing_to_do(self):
        """
        Going back to where it is, is the state itself.
        """
        state = chat("a", "b")

        assert state is state.rollback(state)
        assert state is state.rollback(2)
        assert state is state.rollback(state.entries[-1].id)
        assert state is state.add_user_prompt("c").rollback(state)

    @pytest.mark.parametrize(
        ("to", "error", "shown"),
        [
            (4, IndexError, "can't roll back to 4: this state has 3 messages"),
            (-1, IndexError, "can't roll back to -1: this state has 3 messages"),
            ("nowhere", LookupError, "no entry of this state has the identity"),
            (None, TypeError, "rollback takes a state, a Checkpoint, an entry's id or"),
            (1.0, TypeError, "got a float: 1.0"),
        ],
    )
    def test_errors(self, to, error, shown):
        """
        A place that is not in the state is refused, with what there is.
        """
        with pytest.raises(error) as raised:
            chat("a", "b", "c").rollback(to)

        assert shown in str(raised.value)

    def test_unrelated(self):
        """
        A state of another conversation is refused: its bill is another one.
        """
        with pytest.raises(ValueError, match="have no entry in common"):
            chat("a").rollback(chat("a"))


class TestBefore:
    def test_before(self):
        """
        The state up to an entry, with the whole ledger.
        """
        state = chat("a", "b", "c").add_usage(Usage(7))
        back = state.before(state.entries[1].id)

        assert ("a", Usage(7)) == (text_of(back), back.total_usage)
        assert "" == text_of(state.before(state.entries[0].id))
        with pytest.raises(LookupError, match="no entry of this state has"):
            state.before("nowhere")


class TestTotalUsage:
    def test_each_once(self):
        """
        What branches cost together: what they share counts once.
        """
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

    def test_nothing(self):
        """
        No state cost nothing.
        """
        assert Usage() == total_usage()
        assert () == tuple(ledger_union())

    @pytest.mark.parametrize("other", [None, 5, [chat("a")]])
    def test_states_only(self, other):
        """
        Anything else is a TypeError that names what it got.
        """
        with pytest.raises(TypeError, match=r"takes Aggregators, Turns or .* got "):
            total_usage(other)


class TestTruth:
    def test_always(self):
        """
        A state and a turn are true, however empty: they have an id and a bill.
        """
        empty = Aggregator.new()

        assert [True, True] == [bool(empty), bool(empty.turn)]
        assert bool(empty.fork().add_usage(Usage(1)).turn)


class TestFork:
    def test_inherits(self):
        """
        A fork has the past of its parent, under an id of its own.
        """
        parent = chat("a", "b").add_usage(Usage(5))
        with unchanged(parent):
            fork = parent.fork()

        assert "a b" == text_of(fork)
        assert parent.entries is fork.entries
        assert (2, 0) == (fork.init_len, fork.turn_len)
        assert (Usage(), Usage(5)) == (fork.usage, fork.total_usage)
        assert (parent.id, parent.id) == (fork.parent_id, fork.root_id)
        assert 7 == fork.id.version

    def test_grows_apart(self):
        """
        A fork's messages are not its parent's, and the other way around.
        """
        parent = chat("a")
        fork = parent.fork()
        one, two = parent.add_user_prompt("b"), fork.add_user_prompt("c")

        assert ("a", "a") == (text_of(parent), text_of(fork))
        assert ("a b", "a c") == (text_of(one), text_of(two))
        assert 1 == two.turn_len
        assert Usage(3) == fork.add_usage(Usage(3)).usage
        assert Usage() == parent.total_usage

    def test_generations(self):
        """
        Forks of forks know their parent and their root.
        """
        root = chat("a")
        fork = root.fork().add_user_prompt("b")
        fork_of_fork = fork.fork()

        assert fork.id == fork_of_fork.parent_id
        assert root.id == fork_of_fork.root_id
        assert 2 == fork_of_fork.init_len

    @pytest.mark.parametrize("at", range(4))
    def test_earlier(self, at):
        """
        From the first messages only; the whole ledger is inherited all the same.
        """
        parent = chat("a", "b").add_usage(Usage(5)).add_user_prompt("c")
        with unchanged(parent):
            fork = parent.fork(at=at)

        assert "a b c"[: max(0, 2 * at - 1)] == text_of(fork)
        assert (at, 0) == (fork.init_len, fork.turn_len)
        assert (Usage(), Usage(5)) == (fork.usage, fork.total_usage)
        assert "d" == text_of(fork.add_user_prompt("d").turn)

    @pytest.mark.parametrize("at", [-1, 4, -4, 100])
    def test_outside(self, at):
        """
        Outside of what there is, an IndexError says what there is.
        """
        with pytest.raises(IndexError) as raised:
            chat("a", "b", "c").fork(at=at)

        assert f"can't fork at {at}: this state has 3 messages" == str(raised.value)

    @pytest.mark.parametrize("at", ["1", 1.0])
    def test_no_position(self, at):
        """
        What is not an integer is not a position.
        """
        with pytest.raises(TypeError):
            chat("a", "b").fork(at=at)

    def test_costs_one_small_object(self):
        """
        A fork weighs no more than a kilobyte, however long the conversation is.
        """
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


class TestJoin:
    def test_brings_what_is_new(self):
        """
        All of this state in its order, then what the other has and it lacks;
        usage likewise. Neither changes.
        """
        trunk = chat("a").add_usage(Usage(1))
        fork = trunk.fork().add_user_prompt("c").add_usage(Usage(20))
        moved_on = trunk.add_user_prompt("b").add_usage(Usage(300))
        with unchanged(trunk, fork, moved_on):
            joined = moved_on.join(fork)

        assert "a b c" == text_of(joined)
        assert Usage(321) == joined.usage == joined.total_usage
        assert (moved_on.id, None, 0) == (joined.id, joined.parent_id, joined.init_len)
        states_add_up(joined)

    def test_keeps_messages(self):
        """
        Joined messages are the same objects, under the same identities.
        """
        trunk = chat("a")
        fork = trunk.fork().add_user_prompt("b")
        joined = trunk.join(fork)

        assert fork[-1] is joined[-1]
        assert list(fork.entries) == list(joined.entries)

    def test_nothing_new(self):
        """
        If nothing is new, it is the same state.
        """
        state = chat("a").add_usage(Usage(1))
        fork = state.fork()
        joined = state.join(fork.add_user_prompt("b"))

        assert state is state.join()
        assert state is state.join(state)
        assert state is state.join(fork, state, chat())
        assert joined is joined.join(fork.add_usage(None), state)

    def test_only_usage_is_new(self):
        """
        The usage of a branch without messages is recorded.
        """
        state = chat("a")
        failed = state.fork().add_usage(Usage(7))

        assert Usage(7) == state.join(failed).usage
        assert "a" == text_of(state.join(failed, failed))

    def test_fork_of_a_fork(self):
        """
        The generation between comes along.
        """
        root = chat("a")
        fork = root.fork().add_user_prompt("b").add_usage(Usage(1))
        fork_of_fork = fork.fork().add_user_prompt("c").add_usage(Usage(2))

        assert "a b c" == text_of(root.join(fork_of_fork))
        assert Usage(3) == root.join(fork_of_fork).usage
        assert root.join(fork_of_fork) == root.join(fork, fork_of_fork)

    def test_siblings(self):
        """
        In the order of the call, whichever was made or finished first.
        """
        root = chat("a")
        one, two, three = (root.fork() for _ in range(3))
        three = three.add_user_prompt("3")
        one = one.add_user_prompt("1")
        two = two.add_user_prompt("2")

        assert "a 1 2 3" == text_of(root.join(one, two, three))
        assert "a 3 1 2" == text_of(root.join(three).join(one).join(two))
        assert join(root, two, one) == root.join(two, one)

    def test_diamond(self):
        """
        What reaches a state over two branches is there, and counted, once.
        """
        root = chat("a")
        shared = root.fork().add_user_prompt("b").add_usage(Usage(10), key="shared")
        left = shared.fork().add_user_prompt("l").add_usage(Usage(1))
        right = root.fork().join(shared).add_user_prompt("r").add_usage(Usage(2))
        joined = root.join(left, right)

        assert "a b l r" == text_of(joined)
        assert Usage(13) == joined.usage
        assert joined is joined.join(shared, right, left)

    def test_diamond_in_another_order(self):
        """
        Also where the second branch added something before it was joined with the
        first.
        """
        root = chat("a")
        left = root.fork().add_user_prompt("l").add_usage(Usage(1))
        right = root.fork().add_user_prompt("r").add_usage(Usage(2)).join(left)

        assert "a l r" == text_of(root.join(left, right))
        assert "a r l" == text_of(root.join(right, left))
        assert Usage(3) == root.join(left, right).usage
        assert root.join(left, right) == root.join(left).join(right)

    def test_parent_into_fork(self):
        """
        A fork that joins its parent has the parent's messages since.
        """
        parent = chat("a")
        fork = parent.fork().add_user_prompt("f")
        parent = parent.add_user_prompt("p").add_usage(Usage(3))
        joined = fork.join(parent)

        assert "a f p" == text_of(joined)
        assert (fork.id, 1, 2) == (joined.id, joined.init_len, joined.turn_len)
        assert Usage(3) == joined.usage
        assert "a p f" == text_of(parent.join(joined))

    def test_values_grown_apart(self):
        """
        Two values of one id are branches, too.
        """
        state = chat("a")
        one, two = state.add_user_prompt("1"), state.add_user_prompt("2")

        assert "a 1 2" == text_of(one.join(two))
        assert "a 2 1" == text_of(two.join(one))
        assert one.id == one.join(two).id == two.id

    def test_fork_from_earlier(self):
        """
        What is added to a fork from an earlier position comes after what was there.
        """
        state = chat("a", "b", "c")
        fork = state.fork(at=1).add_user_prompt("x")

        assert "a b c x" == text_of(state.join(fork))
        assert "a x b c" == text_of(fork.join(state))

    @pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 64, 1024, 1056])
    def test_over_borders(self, size):
        """
        Wherever two branches parted, and however long they are.
        """
        trunk = Aggregator.new(messages=[UserMessage("t")] * size)
        for count in (1, 31, 32, 33, 70):
            one = trunk.extend([UserMessage("1")] * count)
            two = trunk.fork().extend([UserMessage("2")] * 33)

            joined = one.join(two)

            expected = "t" * size + "1" * count + "2" * 33
            assert expected == text_of(joined).replace(" ", "")
            assert joined is joined.join(trunk, two, one)
            assert joined == one.join(two, trunk, one)

    def test_unrelated(self):
        """
        States that have nothing in common are joined by the same rule.
        """
        one, two = chat("a").add_usage(Usage(1)), chat("b").add_usage(Usage(2))

        assert "a b" == text_of(one.join(two))
        assert Usage(3) == one.join(two).usage
        assert one.join(two).join(two) == one.join(two)

    def test_equal_messages(self):
        """
        Equal messages of two branches are two messages.
        """
        root = chat("a")

        assert "a b b" == text_of(
            root.join(root.fork().add_user_prompt("b"), root.add_user_prompt("b"))
        )

    def test_copies(self):
        """
        What comes back from another process is joined like what stayed.
        """
        root = chat("a", "b")
        fork = root.fork().add_user_prompt("c").add_usage(Usage(1))
        copied = pickle.loads(pickle.dumps(fork)).add_user_prompt("d")

        assert "a b c d" == text_of(root.join(copied))
        assert "a b x c d" == text_of(root.add_user_prompt("x").join(fork, copied))
        assert Usage(1) == root.join(fork, copied).usage
        assert fork is fork.join(pickle.loads(pickle.dumps(fork)))

    @pytest.mark.parametrize("size", [3, 31, 32, 33, 64, 65, 1_000])
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

    def test_counts_nothing_again(self):
        """
        After a branch from another process was joined, a trimmer counts what
        is new and nothing of the shared past.
        """
        counted = []

        def count(message: Message) -> int:
            counted.append(message.text)
            return 1

        base = chat(*map(str, range(100)))
        budget = TokenBudget(context_window=1_000)
        trim(base, budget, counter=count)
        counted.clear()
        branch = pickle.loads(pickle.dumps(base)).fork().add_user_prompt("new")
        trim(base.join(branch), budget, counter=count)

        assert ["new"] == counted

    def test_takes_a_longer_log_that_grew_from_it(self):
        """
        Joining what grew here copies nothing: the longer log is the result's.
        """
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

    @pytest.mark.parametrize("other", [None, [chat("b")], "b", UserMessage("b")])
    def test_states_and_turns_only(self, other):
        """
        Anything else is a TypeError.
        """
        with pytest.raises(TypeError, match=r"join takes Aggregators .* got "):
            chat("a").join(other)

    def test_checkpoint(self):
        """
        The error for a checkpoint says what it has instead.
        """
        with pytest.raises(TypeError, match="a Checkpoint has merge_into"):
            chat("a").join(chat("b").checkpoint())  # type: ignore[arg-type]

    def test_frees_what_is_unreachable(self):
        """
        A joined branch keeps alive what it brought, and nothing else.
        """
        root = chat("a")
        messages = [UserMessage(text, metadata={"n": 1}) for text in "bc"]
        watches = [weakref.ref(message.metadata) for message in messages]
        branch, lost = (root.fork().add(message) for message in messages)
        joined = root.join(branch)

        assert watches[1]() is not None

        del messages, branch, lost

        assert [True, False] == [watch() is not None for watch in watches]
        assert "a b" == text_of(joined)


class TestIsRelatedTo:
    def test_family(self):
        """
        All that was forked from one root is related.
        """
        root = chat("a")
        fork = root.fork().fork().add_user_prompt("b")

        assert root.is_related_to(fork)
        assert fork.is_related_to(root.fork(at=0))
        assert root.is_related_to(root)

    def test_strangers(self):
        """
        Two roots are not, until they have an entry in common.
        """
        one, two = chat("a"), chat("a")

        assert not one.is_related_to(two)
        with pytest.raises(TypeError, match="takes an Aggregator, got a Turn"):
            one.is_related_to(one.turn)  # type: ignore[arg-type]

        assert not one.is_related_to(Aggregator.new())
        assert one.is_related_to(two.join(one))
        assert two.join(one).is_related_to(one)


class TestTurn:
    def test_what_was_added(self):
        """
        What came since the fork; all of it, for a root.
        """
        root = chat("a", "b").add_usage(Usage(1))
        fork = root.fork().add_user_prompt("c").add_usage(Usage(2))

        assert ("a b", Usage(1)) == (text_of(root.turn), root.turn.usage)
        assert ("c", Usage(2)) == (text_of(fork.turn), fork.turn.usage)
        assert (2, 1) == (len(root.turn), len(fork.turn))
        assert (fork.id, root.id) == (fork.turn.id, fork.turn.parent_id)
        assert root.turn.parent_id is None

    def test_joins_once(self):
        """
        Joined, it brings just that, exactly once.
        """
        root = chat("a", "b").add_usage(Usage(1))
        fork = root.fork().add_user_prompt("c").add_usage(Usage(2))
        joined = root.join(fork.turn)

        assert root.join(fork) == joined
        assert joined is joined.join(fork.turn, fork)
        assert "x c" == text_of(chat("x").join(fork.turn))
        assert Usage(2) == chat("x").join(fork.turn).usage

    def test_without_the_generation_between(self):
        """
        A turn brings what its own state added, not what that inherited.
        """
        root = chat("a")
        fork = root.fork().add_user_prompt("b")
        fork_of_fork = fork.fork().add_user_prompt("c")

        assert "a c" == text_of(root.join(fork_of_fork.turn))
        assert "a b c" == text_of(root.join(fork.turn, fork_of_fork.turn))

    def test_is_small(self):
        """
        Pickled, it holds no more than what was added, and is equal.
        """
        root = Aggregator.new(messages=[UserMessage("long ago " * 9)] * 1_000)
        fork = root.fork().add_user_prompt("c")
        shipped = pickle.dumps(fork.turn)

        assert 2_000 > len(shipped)
        assert b"long ago" not in shipped
        assert fork.turn == pickle.loads(shipped)
        assert hash(fork.turn) == hash(pickle.loads(shipped))
        assert root.join(fork) == root.join(pickle.loads(shipped))

    def test_of_nothing(self):
        """
        An empty turn brings nothing.
        """
        root = chat("a")

        assert 0 == len(root.fork().turn)
        assert root is root.join(root.fork().turn)

    def test_equal(self):
        """
        Equal by id, parent, entries and ledger.
        """
        fork = chat("a").fork()

        assert fork.turn == fork.turn
        assert fork.turn != fork.add_user_prompt("b").turn
        assert fork.turn != fork.fork().turn
        assert fork.turn != fork.add_usage(Usage(1)).turn

    def test_frozen(self):
        """
        Nothing can be set.
        """
        turn = chat("a").turn
        for name in ("entries", "ledger", "id", "other"):
            with pytest.raises(AttributeError):
                setattr(turn, name, None)

    def test_rebuild(self):
        """
        A turn from all that makes it one.
        """
        fork = chat("a").fork().add_user_prompt("b").add_usage(Usage(2))
        turn = fork.turn

        assert turn == Turn.rebuild(
            id=turn.id,
            parent_id=turn.parent_id,
            entries=turn.entries,
            ledger=turn.ledger,
        )

    @pytest.mark.parametrize(
        ("entries", "ledger", "error"),
        [
            ([(), ()], [], TypeError),
            ([], [5], TypeError),
            ([Entry("a", None)], [], InvalidMessageError),  # type: ignore[arg-type]
            ([Entry("a", UserMessage(""))] * 2, [], ValueError),
            ([Entry(5, UserMessage(""))], [], ValueError),  # type: ignore[arg-type]
            ([], [LedgerEntry("a", Usage(1), "")] * 2, ValueError),
            ([], [LedgerEntry("a", None, "")], InvalidUsageError),  # type: ignore[arg-type]
        ],
    )
    def test_rebuild_checks(self, entries, ledger, error):
        """
        What has an identity twice would be joined twice, and is refused like what
        is not an entry.
        """
        with pytest.raises(error, match=r"entries|ledger"):
            Turn.rebuild(id=ONE, parent_id=None, entries=entries, ledger=ledger)

    def test_repr(self):
        """
        Shown by id, messages and tokens.
        """
        state = Aggregator.new(id=ONE).add_user_prompt("a").add_usage(Usage(1000, 234))

        assert (
            "<Turn of 00000000-0000-0000-0000-000000000001: 1 message, 1,234 tokens>"
        ) == repr(state.turn)


class TestCheckpoint:
    def test_keeps(self):
        """
        A state, kept under a label, whatever comes later.
        """
        fork = chat("a").fork().add_user_prompt("b").add_usage(Usage(2))
        kept = fork.checkpoint("before")
        fork.add_user_prompt("c").add_usage(Usage(3))

        assert fork is kept.state is kept.restore()
        assert ("before", fork.id) == (kept.label, kept.id)
        assert (["a", "b"], Usage(2)) == ([m.text for m in kept.messages], kept.usage)
        assert "" == fork.checkpoint().label

    def test_merge_into(self):
        """
        What was added after the fork point, exactly once, whether or not the
        target knows the past.
        """
        root = chat("a").add_usage(Usage(1))
        kept = root.fork().add_user_prompt("b").add_usage(Usage(2)).checkpoint()
        stranger = chat("x")

        assert "a b" == text_of(kept.merge_into(root))
        assert Usage(3) == kept.merge_into(root).usage
        assert "x b" == text_of(kept.merge_into(stranger))
        assert Usage(2) == kept.merge_into(stranger).usage
        assert kept.merge_into(root) == root.join(kept.state.turn)
        merged = kept.merge_into(root)
        assert merged is kept.merge_into(merged)
        assert kept.state is kept.merge_into(kept.state)

    def test_value(self):
        """
        Frozen, hashable, equal by state and label, picklable.
        """
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

    @pytest.mark.parametrize("label", [None, 5, "\ud800"], ids=ascii)
    def test_label(self, label):
        """
        A label is a text, whichever way the checkpoint is made.
        """
        with pytest.raises(TypeError, match="label"):
            chat().checkpoint(label)
        with pytest.raises(TypeError, match="label"):
            Checkpoint(chat(), label)

    def test_plain_label(self):
        """
        A label is kept as a plain text, which pickles and encodes as itself.
        """

        class Name(str):
            __slots__ = ()

        assert str is type(chat().checkpoint(Name("one")).label)
        assert "one" == chat().checkpoint(Name("one")).label

    def test_states_only(self):
        """
        Nothing else is kept.
        """
        with pytest.raises(TypeError, match="takes an Aggregator, got a str"):
            Checkpoint("state")  # type: ignore[arg-type]


def entry(text: str) -> Entry:
    """
    A message under its own text as identity.
    """
    return Entry(text, UserMessage(text))


def rebuilt(**fields: Any) -> Aggregator:
    """
    A state from *fields*, a root without anything but for them.
    """
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
    @pytest.mark.parametrize("size", [0, 1, 33, 100])
    def test_equal(self, size):
        """
        A state from all that makes it one is equal to it.
        """
        root = Aggregator.new(messages=[UserMessage("a")] * size).add_usage(Usage(5))
        fork = root.fork().add_user_prompt("b").add_usage(Usage(7), key="k")
        for state in (root, fork, fork.fork(), fork.fork(at=0)):
            again = rebuilt(
                id=state.id,
                parent_id=state.parent_id,
                root_id=state.root_id,
                init_len=state.init_len,
                init_ledger_len=state.init_ledger_len,
                entries=list(state.entries),
                ledger=list(state.ledger),
            )

            assert state == again
            assert hash(state) == hash(again)
            assert state.usage == again.usage
            assert state.turn == again.turn
            assert state is state.join(again)
            states_add_up(again)

    def test_root(self):
        """
        Left out, the root is the parent, or the state itself if it has none.
        """
        assert ONE == rebuilt().root_id
        assert NIL == rebuilt(parent_id=NIL).root_id
        assert UUID(int=7) == rebuilt(parent_id=NIL, root_id=UUID(int=7)).root_id

    @pytest.mark.parametrize(
        ("fields", "shown"),
        [
            ({"init_len": 2}, "init_len is 2; expected 0 to 1, the entries"),
            ({"init_len": -1}, "init_len is -1; expected 0 to 1, the entries"),
            ({"init_ledger_len": 2}, "init_ledger_len is 2; expected 0 to 1,"),
            ({"entries": [entry("a")] * 2}, "entries holds an identity more than once"),
            (
                {"entries": [entry("a")._replace(id=7)]},  # type: ignore[arg-type]
                "entries holds an identity that is not text",
            ),
            (
                {"ledger": [LedgerEntry("1", Usage(n), "") for n in (1, 2)]},
                "ledger holds an identity more than once",
            ),
            (
                {"ledger": [LedgerEntry(str(n), Usage(MAX_COUNT), "") for n in (1, 2)]},
                "prompt_tokens is 18446744073709551614",
            ),
        ],
    )
    def test_what_is_no_state(self, fields, shown):
        """
        What can't be a state is refused when it is rebuilt, not later.
        """
        base = {"entries": [entry("a")], "ledger": [LedgerEntry("1", Usage(1), "")]}
        with pytest.raises(ValueError, match=shown):
            rebuilt(**{**base, **fields})

    @pytest.mark.parametrize(
        ("fields", "error", "shown"),
        [
            ({"entries": [("1", UserMessage("a"))]}, TypeError, "entries[0]: expected"),
            (
                {"entries": [Entry("1", "a")]},  # type: ignore[arg-type]
                InvalidMessageError,
                "entries[0]: expected a Message, got a str: 'a'",
            ),
            ({"ledger": [("1", Usage(), "")]}, TypeError, "expected a LedgerEntry"),
            (
                {"ledger": [LedgerEntry("1", 5, "")]},  # type: ignore[arg-type]
                InvalidUsageError,
                "ledger[0]: expected a Usage, got an int: 5",
            ),
            (
                {"ledger": [LedgerEntry("1", Usage(), "", NOON.replace(tzinfo=None))]},
                InvalidUsageError,
                "ledger[0].at is datetime",
            ),
            (
                {"ledger": [LedgerEntry("1", Usage(), "", SUMMER)]},
                InvalidUsageError,
                "in a zone without a fixed offset",
            ),
            (
                {"ledger": [LedgerEntry("1", Usage(), 5)]},  # type: ignore[arg-type]
                InvalidUsageError,
                "ledger[0].model is 5; expected a str",
            ),
        ],
    )
    def test_what_is_no_entry(self, fields, error, shown):
        """
        Entries and ledger entries hold messages and usages, and nothing else.
        """
        with pytest.raises(error) as raised:
            rebuilt(**fields)

        assert shown in str(raised.value)


class TestMessages:
    def test_view(self):
        """
        The messages, as a sequence; slices are views, too.
        """
        state = chat(*"abcd")
        view = state.messages

        assert isinstance(view, Sequence)
        assert 4 == len(view)
        assert ("a", "d") == (view[0].text, view[-1].text)
        assert "bc" == "".join(message.text for message in view[1:3])
        assert isinstance(view[1:3], Messages)
        assert "dcba" == "".join(message.text for message in reversed(view))
        assert UserMessage("b") in view
        assert 2 == view.index(UserMessage("c"))
        with pytest.raises(IndexError, match="position 4 of a log of 4 items"):
            view[4]

    def test_of_the_state(self):
        """
        A state is read the same way itself.
        """
        state = chat(*"abcd")

        assert list(state.messages) == list(state) == [state[at] for at in range(4)]
        assert state.messages[1:] == state[1:]
        assert state[-1] is state.messages[3]

    def test_equal(self):
        """
        Equal to any view, tuple or list of equal messages, and to nothing else.
        """
        view = chat("a", "b").messages
        same = [UserMessage("a"), UserMessage("b")]

        assert view == chat("a", "b").messages
        assert view == same
        assert view == tuple(same)
        assert hash(view) == hash(tuple(same))
        assert view != same[:1]
        assert view != "ab"
        assert view != Log(same)

    def test_cannot_be_changed(self):
        """
        Views can't be assigned to.
        """
        view: Any = chat("a").messages

        with pytest.raises(TypeError):
            view[0] = UserMessage("b")
        with pytest.raises(TypeError):
            del view[0]
        with pytest.raises(AttributeError):
            view.append(UserMessage("b"))
        with pytest.raises(AttributeError):
            view.other = 1

    def test_repr(self):
        """
        Shown with its messages.
        """
        assert "Messages([UserMessage(content='a')])" == repr(chat("a").messages)

    def test_messages_cannot_be_changed(self):
        """
        The view has no way to be made a view of something else.
        """
        view = chat("a").messages

        with pytest.raises(AttributeError):
            view.entries = chat("b").entries  # type: ignore[misc]


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
    def test_by_content(self):
        """
        A copy of a state is equal, and any verb that adds makes another.
        """
        state = chat("a").add_usage(Usage(1))
        assert state.equals(state)

        others = [
            state.add_user_prompt("b"),
            state.add_usage(Usage(1)),
            state.fork(),
            chat("a").add_usage(Usage(1)),
        ]

        assert state == pickle.loads(pickle.dumps(state))
        assert 5 == len({state, pickle.loads(pickle.dumps(state)), *others})
        assert state != list(state)

    def test_by_identity(self):
        """
        Two states with equal messages are not equal: the entries have other identities.
        """
        state = chat("a")

        assert state.add_user_prompt("b") != state.add_user_prompt("b")

    def test_by_fork_point(self):
        """
        States that differ in nothing but their fork point are not equal.
        """
        entries = [entry("a"), entry("b")]

        assert rebuilt(entries=entries) == rebuilt(entries=entries)
        assert rebuilt(entries=entries) != rebuilt(entries=entries, init_len=1)
        assert rebuilt(entries=entries) != rebuilt(entries=entries, parent_id=NIL)

    def test_by_ledger(self):
        """
        States that differ in their ledgers alone are not equal.
        """

        def make_billed(*ledger: LedgerEntry) -> Aggregator:
            return rebuilt(ledger=ledger)

        one, two = LedgerEntry("1", Usage(1), ""), LedgerEntry("2", Usage(2), "")

        assert make_billed(one, two) == make_billed(one, two)
        assert make_billed(one, two) != make_billed(two, one)
        assert make_billed(one) != make_billed(one._replace(model="gpt-5"))

    @pytest.mark.parametrize("size", [0, 1, 32, 33, 1057])
    def test_copies(self, size):
        """
        A copy is the state itself; a pickled one is equal and grows on.
        """
        state = Aggregator.new(messages=[UserMessage("a")] * size).fork()
        back = pickle.loads(pickle.dumps(state))

        assert state is copy.copy(state) is copy.deepcopy(state)
        assert state == back
        assert (state.id, state.init_len) == (back.id, back.init_len)
        assert size + 1 == len(back.add_user_prompt("b"))
        assert "b" == text_of(back.add_user_prompt("b").turn)

    def test_pickled_together(self):
        """
        States pickled together go on to share what they share.
        """
        root = Aggregator.new(messages=[UserMessage("x" * 80)] * 1_000)
        forks = [root.fork().add_user_prompt(str(n)) for n in range(10)]
        alone, together = pickle.dumps(root), pickle.dumps([root, *forks])
        back = pickle.loads(together)

        assert [root, *forks] == back
        assert 1.2 * len(alone) > len(together)
        assert back[1][0] is back[2][0]


class TestFace:
    """
    There is no way to change a state but its private parts.
    """

    @pytest.mark.parametrize(
        "name",
        [
            *("id", "parent_id", "root_id", "init_len", "init_ledger_len", "turn_len"),
            *("messages", "entries", "ledger", "usage", "total_usage", "turn"),
            *("add", "fork", "join", "other"),
        ],
    )
    def test_nothing_can_be_set(self, name):
        """
        Nothing it shows can be set or deleted, and nothing added.
        """
        state = chat("a")
        with pytest.raises(AttributeError):
            setattr(state, name, None)
        with pytest.raises(AttributeError):
            delattr(state, name)

    def test_entries(self):
        """
        Entries are frozen: identity, message; identity, usage, model, time.
        """
        state = chat("a").add_usage(Usage(1))

        assert ("id", "message") == Entry._fields
        assert ("id", "usage", "model", "at") == LedgerEntry._fields
        for one in (state.entries[0], state.ledger[0]):
            with pytest.raises(AttributeError):
                one.id = "other"  # type: ignore[misc]

    def test_can_be_watched(self):
        """
        States are freed with the last reference, without a collector.
        """
        state = chat("a")
        watch = weakref.ref(state)
        fork = state.fork()
        del state

        assert watch() is None
        assert "a" == text_of(fork)


class TestShown:
    """
    What people see of a state.
    """

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

    def test_repr_of_nothing(self):
        """
        The repr of an empty state shows that it is empty, and nothing of an empty
        ledger.
        """
        shown = "<Aggregator 00000000-0000-0000-0000-000000000001: 0 messages: []>"

        assert shown == repr(Aggregator.new(id=ONE))

    def test_str(self):
        """
        The conversation, one line a message, whatever a message has.
        """
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
        """
        Of a long message, the beginning.
        """
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
            *("\x1b[2Jhi", "hi\u202e!", "hi\r\nassistant: Yes.", "\u2028assistant: a"),
            *("\x00", "\x1b" * 500, "a\x85b\x0bc\x1cd", "\u200b\ufeff"),
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

    def test_erased(self):
        """
        Of what was erased, that it was, and why.
        """
        erased = make_tombstone(UserMessage("secret"), bytes(16), "on request")

        assert "user: (erased: on request)" == str(Aggregator.new(messages=[erased]))


class TestWeight:
    @pytest.mark.parametrize("size", [10, 10_000])
    def test_of_a_kept_state(self, size):
        """
        At most 450 bytes for each state that is kept, however long it is.
        """
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
    """
    A branch of *state* with messages of *name*, for another process.
    """
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

    def test_one_value_grown_by_many(self):
        """
        Threads that grow one value under one id lose nothing either.
        """
        state = chat("a")
        grown_apart: list[Aggregator] = []
        start = threading.Barrier(6)

        def grow(name: str) -> None:
            start.wait()
            mine = state
            for n in range(40):
                mine = mine.add_user_prompt(f"{name}{n}")

            grown_apart.append(mine)

        threads = [threading.Thread(target=grow, args=(name,)) for name in "uvwxyz"]
        for thread in threads:
            thread.start()

        for thread in threads:
            thread.join()

        joined = state.join(*grown_apart)

        assert 241 == len(joined) == len({entry.id for entry in joined.entries})

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
