"""
Sessions of the OpenAI Agents SDK on a store: what it asks of them, and what a
store adds.
"""

import asyncio
import gc
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from agents import SQLiteSession
from agents.memory import Session, SessionSettings
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import Aggregator, AssistantMessage, ToolCall, ToolMessage
from conversation_state.counting import TokenBudget
from conversation_state.errors import (
    BudgetExceededError,
    DecodeError,
    InvalidUsageError,
    NotSavedError,
    StaleHeadError,
    StoreError,
)
from conversation_state.hosts import _host, agents
from conversation_state.hosts.agents import StoreSession
from conversation_state.messages import ResponseMeta, UnknownMessage, UserMessage
from conversation_state.store import Store, open_store
from conversation_state.testing.provider import judge
from conversation_state.trimming import (
    TrimContext,
    Trimmer,
    fit,
    keep_last,
    repair,
    rolling_summary,
)
from conversation_state.usage import Usage
from tests.adapters.contract import as_json
from tests.adapters.openai_responses import INPUTS, call, thought
from tests.hosts.test_agents_items import PARALLEL

run = asyncio.run


@pytest.fixture
def session(store):
    return StoreSession(store, "alice")


@pytest.fixture
def chat(session):
    run(session.add_items(PARALLEL))
    return session


def user(text):
    return {"role": "user", "content": text}


def contents(items):
    return [item["content"] for item in items]


def texts_of(state):
    return [message.text for message in state]


class TestMaking:
    def test_is_a_session(self, session):
        """It is what the SDK calls a session, by its own check."""
        assert isinstance(session, Session)
        assert "alice" == session.session_id
        assert session.session_settings is None

    @pytest.mark.parametrize("name", ["", "a\0b", None])
    def test_names(self, store, name):
        """What can't be a name is refused at once, and says what can."""
        with pytest.raises((ValueError, TypeError), match="session_id"):
            StoreSession(store, name)

    @pytest.mark.parametrize("limit", [0, 5])
    def test_view_and_limit(self, store, limit):
        """A view and a limit are two answers to one question."""
        with pytest.raises(ValueError, match="keep_last"):
            StoreSession(
                store,
                "alice",
                view=Trimmer(None, keep_last(5)),
                session_settings={"limit": limit},
            )

    def test_settings(self, store):
        """Settings are the SDK's, given as such or as a mapping."""
        made = StoreSession(store, "alice", session_settings={"limit": 5})

        assert SessionSettings(limit=5) == made.session_settings

    def test_unknown_settings(self, store):
        """
        A setting that the SDK does not have is refused, with those it has: a
        misspelt limit would be no limit.
        """
        with pytest.raises(TypeError) as raised:
            StoreSession(
                *(store, "alice"),
                session_settings={"limitt": 3, 1: 2},  # type: ignore[dict-item]
            )

        assert "session_settings: unknown 1, limitt; expected limit" == str(
            raised.value
        )

    def test_from_url_refused(self, tmp_path, monkeypatch):
        """What is refused leaves no store open."""
        store = open_store(f"sqlite:///{tmp_path}/chats.db")
        monkeypatch.setattr(_host, "open_store", lambda _url, **_options: store)
        with pytest.raises(ValueError, match="session_id"):
            StoreSession.from_url("memory:", "")

        with pytest.raises(StoreError, match="closed"):
            store.names()


class TestItems:
    @given(INPUTS, st.integers(0, 9), st.integers(0, 12))
    def test_as_a_list(self, items, cut, limit):
        """
        Items come back as they went in, the newest *limit* or all, whether
        the store still remembers the state or has to read it.
        """

        async def check():
            with open_store("memory:") as store:
                session = StoreSession(store, "alice")
                await session.add_items(items[:cut])
                await session.add_items(items[cut:])
                whole, newest = (
                    await session.get_items(),
                    await session.get_items(limit),
                )
                assert as_json(items) == as_json(whole)
                assert as_json(items[max(len(items) - limit, 0) :]) == as_json(newest)

        run(check())

    def test_beside_sqlite_session(self, session):
        """Whatever is done with it, it holds what the SDK's own session holds."""

        async def check():
            peer = SQLiteSession("alice")
            for one in (session, peer):
                await one.add_items(PARALLEL[:4])
                await one.pop_item()
                await one.pop_item()
                await one.add_items([])
                await one.add_items(PARALLEL[4:])
            ours, theirs = [
                [await one.get_items(), await one.get_items(3), await one.get_items(0)]
                for one in (session, peer)
            ]
            peer.close()
            return ours, theirs

        ours, theirs = run(check())

        assert as_json(theirs) == as_json(ours)

    def test_nothing_yet(self, session):
        """A session nothing was added to is empty, and asking makes nothing."""
        assert [] == run(session.get_items())
        assert [] == run(session.get_items(5))
        assert run(session.pop_item()) is None
        run(session.add_items([]))
        run(session.add_items(()))

        run(session.clear_session())
        assert () == run(session.history())
        assert () == session.store.names()

    def test_messages_of_others(self, store, session):
        """A conversation another adapter or program saved goes on here."""
        state = (
            Aggregator.new()
            .add_user_prompt("Sea or hills?")
            .add_tool_call(ToolCall("c1", "f", "x", type="custom"))
            .add_tool_response(ToolMessage("12", tool_call_id="c1"))
            .add(UnknownMessage({"type": "ping"}, source="anthropic"))
            .add(UnknownMessage({"type": "ping"}, source="anthropic"))
        )
        store.save("alice", state)
        items = run(session.get_items())

        assert ["user", "custom_tool_call", "custom_tool_call_output"] == [
            item.get("type", item.get("role")) for item in items
        ]
        assert items[-1:] == run(session.get_items(1))
        assert items == run(session.get_items(100))
        run(session.add_items([user("And now?")]))
        assert [*state.entries] == [*store.load("alice").entries][:5]

    def test_limit_reads_the_end(self, store, chat, monkeypatch):
        """
        A limit reads the window it needs, and not what came before, in another thread.
        """
        run(chat.add_items([user("again"), *PARALLEL[1:]] * 30))
        asked: list[Any] = []
        load, own = store.load, threading.get_ident()

        def watched(name, **options):
            asked.append(options)
            assert threading.get_ident() != own
            return load(name, **options)

        monkeypatch.setattr(store, "load", watched)
        items = run(chat.get_items(3))

        assert as_json(PARALLEL[-3:]) == as_json(items)
        assert asked
        assert all(options["last"] <= 7 for options in asked)

    @pytest.mark.parametrize("limit", [-1, True])
    def test_no_limit(self, chat, limit):
        """What is not a number of items is refused."""
        with pytest.raises(ValueError, match="limit: expected"):
            run(chat.get_items(limit))

    def test_settings_limit(self, store, chat):
        """The limit of the settings holds where none is asked for."""
        other = StoreSession(store, "alice", session_settings=SessionSettings(limit=2))

        assert as_json(PARALLEL[-2:]) == as_json(run(other.get_items()))
        assert as_json(PARALLEL[-1:]) == as_json(run(other.get_items(1)))

    def test_all_or_none(self, chat):
        """If one item can't be kept, none is, and the error says which."""
        with pytest.raises(DecodeError, match=r"\$\[1\].content"):
            run(chat.add_items([user("a"), user(float("nan"))]))

        assert as_json(PARALLEL) == as_json(run(chat.get_items()))

    @pytest.mark.parametrize("items", [None, user("hi"), [None]])
    def test_no_items(self, session, items):
        """What is not a list of items is refused, and makes no session."""
        with pytest.raises(DecodeError):
            run(session.add_items(items))

        assert () == session.store.names()

    def test_erased(self, store, chat):
        """
        Where content is erased, the session goes on: calls and results have their ids
        still, and only the content is missing.
        """
        for entry in store.load("alice").entries:
            store.erase(entry.id, reason="asked for")
        run(chat.add_items([thought("Again."), call()]))
        items = run(chat.get_items())

        assert "Both." not in as_json(items)
        assert "c1" in [item.get("call_id") for item in items]
        problems = TrimContext.of(store.load("alice").messages[:-1]).problems()
        assert {"empty message"} == {flaw.kind for flaw in problems}


class TestPop:
    def test_tool_pairs(self, chat):
        """
        Half of a pair may be popped and added again: the conversation is what
        it was.
        """
        before = run(chat.state())
        popped = [run(chat.pop_item()) for _ in range(4)]
        run(chat.add_items(popped[::-1]))
        after = run(chat.state())

        assert before.messages == after.messages
        assert before.id == after.id

    def test_stays_in_the_history(self, chat):
        """What was popped is a revision ago."""
        run(chat.pop_item())

        assert "Both." == texts_of(run(chat.state(at=1)))[-1]


class TestClear:
    def test_stays_in_the_history(self, chat):
        """What was there is a revision ago, and its usage stays in the ledger."""
        run(chat.record(a_run("r1")))
        run(chat.clear_session())
        state = run(chat.rollback(2))

        assert "Both." == texts_of(state)[-1]
        assert 110 == run(chat.state(at=3)).total_usage.total_tokens


class TestAtOnce:
    def test_pop(self, session):
        """What tasks pop at once are other items, each once."""

        async def check():
            items = [user(str(number)) for number in range(20)]
            await session.add_items(items)
            popped = await asyncio.gather(*[session.pop_item() for _ in range(25)])
            return popped, await session.get_items()

        popped, left = run(check())

        assert 5 == popped.count(None)
        assert {str(number) for number in range(20)} == {
            item["content"] for item in popped if item
        }
        assert [] == left

    def test_another_writer_was_first(self, store, chat, monkeypatch):
        """
        If another session adds items between reading and writing, those are the ones
        that are popped, and new ones are added after them.
        """
        other, late = StoreSession(store, "alice"), [user("late")]

        def after_another(verb):
            def write(*args, **options):
                if late:
                    run(other.add_items([late.pop()]))
                return verb(*args, **options)

            return write

        for verb in (store.save, store.append):
            monkeypatch.setattr(store, verb.__name__, after_another(verb))

        assert user("late") == run(chat.pop_item())
        assert as_json(PARALLEL) == as_json(run(chat.get_items()))

        late.append(user("late"))
        run(chat.add_items([user("mine")]))
        assert [user("late"), user("mine")] == run(chat.get_items(2))


class TestLong:
    @pytest.mark.parametrize("start", [0, 1, 4, 5, 6, 7, 8, 9, 60])
    def test_adds_what_the_whole_would(self, store, start):
        """
        Of a session that is not in memory, items that are added behind any number of
        messages are those of one that is, and a call far back is found.
        """
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
        custom = {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "x"}
        custom_output = {**output, "type": "custom_tool_call_output", "call_id": "d"}
        told = {"role": "assistant", "content": "Done."}
        steps: list[Any] = [
            [custom],
            [user("Wait.")] * start,
            [custom_output],
            [call, output],
            [told],
            [told],
            [{**call, "call_id": "e"}],
            [{**output, "call_id": "e"}, user("And?")],
        ]
        whole = StoreSession(store, "whole")
        apart = Store(store._cache.backend, remembered=0)
        for items in steps:
            run(whole.add_items(items))
            run(StoreSession(apart, "apart").add_items(items))

        expected = run(whole.get_items())
        assert as_json([item for step in steps for item in step]) == as_json(expected)
        assert as_json(expected) == as_json(
            run(StoreSession(store, "apart").get_items())
        )
        assert list(store.load("whole")) == list(store.load("apart"))
        assert () == store.verify()

    def test_another_writer_was_first(self, store, monkeypatch):
        """An answer that another session added meanwhile is continued, as if seen."""
        late, mine = PARALLEL[1:3]  # of one answer
        waiting, append = [late], Store.append

        def after_another(self, name, *messages, **options):
            if waiting:
                run(StoreSession(store, name).add_items([waiting.pop()]))
            return append(self, name, *messages, **options)

        whole = StoreSession(store, "whole")
        turns: list[Any] = [[user("Hi!")], [late], [mine]]
        for items in turns:
            run(whole.add_items(items))

        run(StoreSession(store, "apart").add_items([user("Hi!")]))
        apart = Store(store._cache.backend, remembered=0)
        monkeypatch.setattr(Store, "append", after_another)
        run(StoreSession(apart, "apart").add_items([mine]))

        assert list(store.load("whole")) == list(store.load("apart"))

    def test_keeps_what_else_an_item_has(self, store):
        """A text with more than a role and a content is a message that keeps it."""
        items: list[Any] = [
            {"type": "message", "role": "user", "content": "Hi!"},
            {"role": "user", "content": "And?", "status": "completed"},
        ]
        session = StoreSession(store, "alice")
        run(session.add_items(items))

        assert items == run(session.get_items())
        assert ["user"] * 2 == [message.role for message in store.load("alice")]

    def test_turn_loads_no_more_than_the_end(self, store, monkeypatch):
        """What a run adds to a long session, and its usage, is added behind its end."""
        store.save("alice", Aggregator.new().extend([UserMessage("Hi!")] * 500))
        session = StoreSession(Store(store._cache.backend, remembered=0), "alice")
        monkeypatch.setattr(Store, "update", None)
        response = SimpleNamespace(
            response_id="resp-1",
            usage=SimpleNamespace(input_tokens=7, output_tokens=2, total_tokens=9),
            to_input_items=list,
        )

        async def add_turn():
            for items in ([user("When?")], PARALLEL[1:]):
                await session.add_items(items)
                hooks: Any = session.hooks(model="m")
                await hooks.on_llm_end(None, None, response)

        run(add_turn())

        state = store.load("alice")
        assert 9 == state.total_usage.total_tokens
        assert 500 < len(state)
        assert [user("When?"), *PARALLEL[1:]] == run(session.get_items(len(PARALLEL)))


class TestView:
    LONG = tuple(
        item
        for asked in ("Sea or hills?", "Where to sleep?", "When?")
        for thought in [PARALLEL[1] | {"id": f"rs_{len(asked)}"}]
        for item in (user(asked), thought, *PARALLEL[2:])
    )

    def test_shows_a_part(self, store):
        """
        A run gets what the view shows, valid and without orphans; all stays
        stored, and a limit that is asked for is of all.
        """
        session = StoreSession(store, "alice", view=Trimmer(None, keep_last(3)))
        run(session.add_items(list(self.LONG)))

        shown = [user("When?"), PARALLEL[-1]]
        assert as_json(shown) == as_json(run(session.get_items()))
        assert as_json(self.LONG[-3:]) == as_json(run(session.get_items(3)))
        assert 15 == len(run(session.state()))

    def test_never_cuts_an_answer(self, store):
        """
        Wherever a view begins, no result is without its call and no call
        without the thought that led to it.
        """
        run(StoreSession(store, "alice").add_items(list(self.LONG)))
        for n in range(1, 16):
            session = StoreSession(store, "alice", view=Trimmer(None, keep_last(n)))
            items = run(session.get_items())
            kinds = [item.get("type") for item in items]
            assert kinds.count("function_call_output") == 2 * kinds.count("reasoning")
            assert kinds.count("function_call") == 2 * kinds.count("reasoning")

    def test_goes_on_from_the_view_before(self, store):
        """
        A summary that was billed is not billed again at the next run, nor after a run
        in which nothing fitted; the last view is there to look at.
        """
        asked = []

        def summarise(messages):
            asked.append(len(messages))
            meta = ResponseMeta(id="r1", usage=Usage(9, 1))
            return AssistantMessage("summary", response=meta)

        view = Trimmer(None, rolling_summary(5, 1, summarise))
        session: Any = StoreSession(store, "alice", view=view)
        assert None is getattr(session, "last_view")  # noqa: B009 - not narrowed
        run(session.add_items([user("some words"), user("some more"), user("c")]))

        first = run(session.get_items())
        assert (Usage(9, 1),) == tuple(
            [one.usage for one in session.last_view.summary_responses]
        )
        assert first == run(session.get_items())
        assert () == session.last_view.summary_responses
        assert [2] == asked

        tight = Trimmer(TokenBudget(context_window=1), *view.steps, fit())
        narrow = StoreSession(store, "alice", view=tight)
        run(session.add_items([user("much too long for that")]))
        for _ in range(2):
            with pytest.raises(BudgetExceededError):
                run(narrow.get_items())

        assert [2, 3] == asked

    def test_awaited_steps(self, store):
        """A view may have to await something, such as a model."""

        async def step(context):
            await asyncio.sleep(0)
            return context.remove([0])

        session = StoreSession(store, "alice", view=Trimmer(None, step))
        run(session.add_items([user("a"), user("b")]))

        assert [user("b")] == run(session.get_items())

    @pytest.mark.parametrize(
        "steps", [(), (keep_last(9),), (fit(),), (repair(), fit())]
    )
    def test_calls_at_the_end(self, store, steps):
        """
        A call that a stopped run left is answered before the next message, whatever
        the steps; what is stored has no such answer.
        """
        budget = TokenBudget(context_window=1_000)
        session: Any = StoreSession(store, "alice", view=Trimmer(budget, *steps))
        result = {"type": "function_call_output", "call_id": "c1", "output": "7"}
        left = [user("Book it."), call(), call(call_id="c2"), result]
        run(session.add_items(left))

        shown: Any = run(session.get_items())

        assert left[:3] == shown[:3]
        assert {"c1", "c2"} == {item["call_id"] for item in shown[3:]}
        assert 5 == len(shown)
        assert as_json(left) == as_json(run(StoreSession(store, "alice").get_items()))
        run(session.add_items([user("Stop!")]))
        assert [*shown, user("Stop!")] == run(session.get_items())

    @pytest.mark.parametrize("half", [1, 2])
    def test_half_of_a_call_of_a_computer(self, store, half):
        """
        A view leaves out a call that the SDK runs for the provider if it has no result,
        with its thought, and a result without a call; what is stored has them.
        """
        thought = {"type": "reasoning", "id": "rs_1", "summary": []}
        call = {"type": "computer_call", "id": "cu_1", "call_id": "c", "actions": []}
        result = {"type": "computer_call_output", "call_id": "c", "output": {}}
        items = [user("q"), *([thought, call] if half == 1 else [result]), user("next")]
        session: Any = StoreSession(store, "alice", view=Trimmer(None))
        run(session.add_items(items))
        whole = [user("q"), thought, call, result, user("next")]
        other: Any = StoreSession(store, "bob", view=Trimmer(None))
        run(other.add_items(whole))

        assert [user("q"), user("next")] == run(session.get_items())
        assert items == run(StoreSession(store, "alice").get_items())
        assert whole == run(other.get_items())

    def test_items_that_were_added_twice(self, store):
        """A view has no item's id twice; what is stored has all of them."""
        text = {"type": "output_text", "text": "a", "annotations": []}
        said = {"type": "message", "role": "assistant", "id": "msg_1"}
        call = {"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {}}
        result = {"type": "shell_call_output", "call_id": "c", "output": []}
        answer = {**said, "status": "completed", "content": [text]}
        items = [user("q"), call, result, answer]
        session: Any = StoreSession(store, "alice", view=Trimmer(None))
        run(session.add_items(items))
        run(session.add_items(items))
        shown: Any = run(session.get_items())

        assert items == shown[:4]
        assert len(shown) == 8
        assert "id" not in shown[5]
        assert {"role": "assistant", "content": "a"} == shown[7]
        assert items * 2 == run(StoreSession(store, "alice").get_items())
        assert () == judge("openai_responses", {"input": shown}, level="api")

    def test_calls_at_the_end_of_an_id_that_was_used_before(self, store):
        """
        A server that gives one id in every turn: the call that was left is answered
        under an id of its own.
        """
        session: Any = StoreSession(store, "alice", view=Trimmer(None))
        result = {"type": "function_call_output", "call_id": "c1", "output": "7"}
        turn = [user("Book it."), call(), result, user("And back."), call()]
        run(session.add_items(turn))

        shown: Any = run(session.get_items())

        calls = [one["call_id"] for one in shown if one.get("type") == "function_call"]
        assert [calls[0], calls[1]] == [
            one["call_id"] for one in shown if "output" in one
        ]
        assert len(set(calls)) == 2
        assert as_json(turn) == as_json(run(StoreSession(store, "alice").get_items()))

    def test_forks_have_it(self, store):
        """A fork shows what the session it was forked from would."""
        session = StoreSession(store, "alice", view=Trimmer(None, keep_last(1)))
        run(session.add_items([user("a"), user("b")]))

        assert [user("b")] == run(run(session.fork("bob")).get_items())


class TestHistory:
    def test_label_and_rollback(self, chat):
        """
        A label is a place to go back to; what came after stays in the history, and its
        usage in the ledger.
        """
        head = run(chat.label("before booking"))
        run(chat.add_items([user("Book it.")]))
        run(chat.record(a_run("r1")))
        state = run(chat.rollback("before booking"))

        assert ("before booking",) == head.labels
        assert as_json(PARALLEL) == as_json(run(chat.get_items()))
        assert state == run(chat.state())
        assert 110 == state.total_usage.total_tokens
        assert "Book it." == texts_of(run(chat.state(at=3)))[-1]
        assert [4, 3, 2, 1] == [one.revision for one in run(chat.history())]
        assert [4] == [one.revision for one in run(chat.history(limit=1))]
        assert [*run(chat.state(at=1)).entries] == [*state.entries]

    def test_rollback_to_what_had_more(self, chat):
        """
        Usage stays in the bill also where a state with a shorter ledger took the place
        of the head.
        """
        (head,) = run(chat.history())
        state = run(chat.state()).add_usage(Usage(5), key="spent")
        saved = chat.store.save(chat.session_id, state)
        chat.store.save(
            chat.session_id, chat.store.load(chat.session_id, at=head), expecting=saved
        )
        back = run(chat.rollback(saved))

        assert ["spent"] == [entry.id for entry in back.ledger]
        assert back == run(chat.state())

    def test_rollback_before_a_turn(self, chat):
        """Before a user's message, counted from either end."""
        run(chat.add_items([user("Book it."), *PARALLEL[-1:]]))

        state = run(chat.rollback(before_turn=-1))
        assert as_json(PARALLEL) == as_json(run(chat.get_items()))
        assert 5 == len(state)
        run(chat.rollback(2, before_turn=1))
        assert as_json(PARALLEL) == as_json(run(chat.get_items()))
        run(chat.rollback(before_turn=0))
        assert [] == run(chat.get_items())

    def test_rollback_within_what_is_there(self, chat, monkeypatch):
        """No state is loaded where the present one is meant."""
        monkeypatch.setattr(type(chat.store), "load", None)

        assert 0 == len(run(chat.rollback(before_turn=0)))

    def test_rollback_nowhere(self, chat):
        """A rollback to an unknown label is an error, and changes nothing."""
        with pytest.raises(TypeError, match="before_turn"):
            run(chat.rollback())
        with pytest.raises(NotSavedError):
            run(chat.rollback("no such label"))
        with pytest.raises(IndexError, match="1 message"):
            run(chat.rollback(before_turn=1))
        with pytest.raises(NotSavedError):
            run(StoreSession(chat.store, "bob").rollback(1))

        assert 1 == len(run(chat.history()))


class TestFork:
    def test_goes_its_own_way(self, chat):
        """Both have one past and futures of their own."""
        other = run(chat.fork("alice, by bus"))
        run(other.add_items([user("By bus.")]))
        run(chat.add_items([user("By train.")]))

        assert "alice, by bus" == other.session_id
        assert as_json([*PARALLEL, user("By bus.")]) == as_json(run(other.get_items()))
        assert [user("By train.")] == run(chat.get_items(1))
        assert run(chat.state()).id == run(other.state()).parent_id

    def test_copies_nothing(self, store, chat):
        """A fork adds no message to the store, wherever it is taken."""
        run(chat.add_items([user("x"), *PARALLEL[1:]] * 20))

        def rows():
            with store._cache.backend.reading() as tx:
                return len(tx.scan("entries", None, None))

        before = rows()
        run(chat.fork("one"))
        run(chat.fork("two", at=1))
        run(chat.fork("three", before_turn=-1))

        assert before == rows()

    def test_at(self, chat):
        """From any moment there was."""
        run(chat.label("then"))
        run(chat.add_items([user("a"), user("b")]))

        assert as_json(PARALLEL) == as_json(
            run(run(chat.fork("one", at="then")).get_items())
        )
        two = run(chat.fork("two", at=2, before_turn=2))
        assert [user("a")] == run(two.get_items(1))
        three = run(chat.fork("three", at=1, before_turn=-1))
        assert [] == run(three.get_items())

    def test_taken(self, chat):
        """An id that is taken is not written over."""
        run(chat.fork("bob"))

        with pytest.raises(StaleHeadError) as first:
            run(chat.fork("bob"))
        with pytest.raises(StaleHeadError) as second:
            run(chat.fork("bob", before_turn=0))

        assert str(first.value) == str(second.value)
        assert str(first.value).endswith(
            "Nothing was written. Give the fork another name, or delete that one first"
        )
        for before_turn in (None, 0):
            with pytest.raises(StaleHeadError, match=r"another name\Z"):
                run(chat.fork(chat.session_id, before_turn=before_turn))


class Reply(SimpleNamespace):
    """As much of a response as is recorded."""


def a_run(*ids, **counts):
    counted = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, **counts}
    return SimpleNamespace(
        raw_responses=[
            Reply(response_id=one, usage=SimpleNamespace(**counted)) for one in ids
        ]
    )


class TestRecord:
    def test_once(self, chat):
        """A run that is recorded again, here or in a fork, is billed once."""
        billed = a_run("r1", "r2")
        run(chat.record(billed, model="gpt-5"))
        other = run(chat.fork("bob"))

        assert 220 == run(chat.record(billed, model="gpt-5")).total_tokens
        assert 220 == run(other.record(billed, model="gpt-5")).total_tokens
        assert ["gpt-5"] * 2 == [one.model for one in run(chat.state()).ledger]
        assert 2 == len(run(chat.history()))

    @pytest.mark.parametrize("nameless", [None, "", "__fake_id__"])
    def test_without_ids(self, chat, nameless):
        """
        Responses without an id are distinguished, and recognised, by their object and
        not by their content.
        """
        one, two = a_run(nameless, nameless), a_run(nameless)
        run(chat.record(one))
        run(chat.record(one))

        assert 330 == run(chat.record(two)).total_tokens
        assert 3 == len(run(chat.state()).ledger)

    def test_without_ids_after_others(self, chat):
        """A response in the place in memory of one that is gone is another one."""
        of_other_tests = set(agents._runs._keys)
        for _ in range(50):
            usage = run(chat.record(a_run(None)))

        assert 50 * 110 == usage.total_tokens
        gc.collect()
        assert agents._runs._keys.keys() <= of_other_tests

    def test_request_ids(self, chat):
        """The id of a request will do where the response has none."""
        first, again = a_run(None), a_run(None)
        for one in (first, again):
            one.raw_responses[0].request_id = "req_1"
            run(chat.record(one))

        (recorded,) = run(chat.state()).ledger
        assert recorded.id.startswith("req_1#")

    @pytest.mark.parametrize(
        ("counts", "expected"),
        [
            ({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}, []),
            ({"total_tokens": 0}, [Usage(100, 10)]),
            (
                {
                    "input_tokens_details": SimpleNamespace(
                        cached_tokens=0, cache_write_tokens=0
                    )
                },
                [Usage(100, 10)],
            ),
        ],
        ids=["nothing", "no total", "nothing cached"],
    )
    def test_zeros(self, session, counts, expected):
        """
        A response without usage is not an entry, a total that is missing is what went
        in and came out, and other zeros are left out. A bill may come first.
        """
        run(session.record(a_run("r1", **counts)))

        assert expected == [one.usage for one in run(session.state()).ledger]
        assert [] == run(session.get_items())

    def test_other_usage(self, chat):
        """One response with two prices is an error."""
        run(chat.record(a_run("r1")))

        with pytest.raises(InvalidUsageError):
            run(chat.record(a_run("r1"), model="gpt-5"))

    def test_no_run(self, chat):
        """What is not a result of a run is refused."""
        with pytest.raises(TypeError, match=r"Runner\.run"):
            run(chat.record(Usage(prompt_tokens=5)))
