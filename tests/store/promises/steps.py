"""Promises about the steps of pipelines."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from conversation_state.aggregator import Aggregator
from conversation_state.errors import MirroredNameError, NotSavedError, StaleHeadError
from conversation_state.parallel import fan_out, save_progress
from conversation_state.store import Store
from conversation_state.usage import Usage
from tests.profiles import is_thorough
from tests.store.promises.case import (
    CONVERSATION,
    InjectedError,
    StoreCase,
    failing,
)


def add_billed(key, calls):
    """A function that adds a message *key*, and a usage of a token under that key."""

    def function(state):
        calls.append(key)
        return state.add_assistant_message(key).add_usage(Usage(1), key=key)

    return function


def keys(state):
    return [entry.id for entry in state.ledger]


class StepPromises(StoreCase):
    """Each step of a pipeline is done, and billed, once."""

    def test_step(self, store):
        """
        A step gets the newest state, an empty one at first; its result is saved under
        its label, and every store returns this result from then on.
        """
        calls: list[str] = []
        first = store.step("chat", "first", add_billed("a", calls))
        second = store.step("chat", "second", add_billed("b", calls))

        assert (["a"], ["a", "b"]) == (keys(first), keys(second))
        assert ["a", "b"] == [message.text for message in second]
        assert second == store.load("chat")
        for each in (store, self.other(store)):
            assert first == each.load("chat", at="first")
            assert first == each.step("chat", "first", add_billed("never", calls))
            assert second == each.step("chat", "second", add_billed("never", calls))

        assert [("second",), ("first",)] == [
            head.labels for head in store.history("chat")
        ]
        assert ["a", "b"] == calls
        assert () == store.verify()

    def test_step_again(self, store):
        """A step whose label is removed, or whose name is deleted, is done again."""
        calls: list[str] = []
        store.step("chat", "first", add_billed("a", calls))
        store.unlabel("chat", "first")
        again = store.step("chat", "first", add_billed("b", calls))

        assert ["a", "b"] == keys(again)

        store.delete("chat")

        assert ["c"] == keys(store.step("chat", "first", add_billed("c", calls)))

    def test_step_fails(self, store):
        """
        If a step fails, the usage that it recorded is in the ledger, once, and nothing
        else is saved; it can be tried again.
        """
        calls: list[str] = []

        def fail(state):
            save_progress(add_billed("a", calls)(state))
            fan_out(state, [lambda fork: save_progress(add_billed("b", calls)(fork))])
            raise TimeoutError("no answer")

        for expected in (["a", "b"], ["a", "b"]):
            with pytest.raises(TimeoutError, match="no answer"):
                store.step("chat", "first", fail)

            assert (0, expected) == (len(store.load("chat")), keys(store.load("chat")))

        done = store.step("chat", "first", add_billed("c", calls))

        assert (["c"], ["a", "b", "c"]) == ([m.text for m in done], keys(done))
        assert 2 == len(store.history("chat"))
        assert () == self.other(store).verify()

    def test_step_keeps_usage_it_drops(self, store):
        """
        The usage that a step recorded, and the usage before, stay in the ledger even if
        the state that it returns lacks them.
        """
        calls: list[str] = []
        first = store.step("chat", "first", add_billed("a", calls))

        def go_back(state):
            save_progress(add_billed("b", calls)(state))
            return CONVERSATION

        back = store.step("chat", "second", go_back)

        assert CONVERSATION.messages == back.messages
        assert {"a", "b"} == {*keys(back)}
        assert back == self.other(store).load("chat", at="second")
        assert first == store.load("chat", at="first")

    def test_concurrent_steps(self, store):
        """
        If two writers do one step at the same time, the state of the first is kept, and
        the usage of both.
        """
        calls: list[str] = []
        other = self.other(store)
        store.save("chat", CONVERSATION)

        def second(state):
            other.step("chat", "first", add_billed("theirs", calls))
            return add_billed("ours", calls)(state)

        done = store.step("chat", "first", second)

        assert ["theirs"] == [message.text for message in done][1:] == keys(done)
        assert done == store.load("chat", at="first")
        newest = self.other(store).load("chat")
        assert (done.messages, ["theirs", "ours"]) == (newest.messages, keys(newest))

    def test_step_beside_a_save(self, store):
        """
        A save that another writer made during a step is joined to its result; the step
        is not repeated.
        """
        calls: list[str] = []
        store.save("chat", CONVERSATION)
        other = self.other(store)

        def work(state):
            other.save("chat", CONVERSATION.add_user_prompt("and?"))
            return add_billed("a", calls)(state)

        done = store.step("chat", "first", work)

        assert ["and?", "a"] == [message.text for message in done][1:]
        assert ["a"] == calls
        assert done == store.load("chat") == other.load("chat", at="first")

    @pytest.mark.parametrize("is_back", [False, True])
    @pytest.mark.parametrize("fails", [False, True])
    def test_step_of_a_deleted_name(self, store, *, fails, is_back):
        """
        A name that is deleted while its step is done does not come back, nor does
        its output get into another conversation of that name.
        """
        calls: list[str] = []
        store.save("chat", CONVERSATION)
        other = self.other(store)
        new = Aggregator.new().add_user_prompt("Something else.")

        def work(state):
            done = add_billed("b", calls)(save_progress(add_billed("a", calls)(state)))
            other.delete("chat")
            if is_back:
                other.save("chat", new)
            if fails:
                raise TimeoutError("no answer")

            return done

        with pytest.raises(TimeoutError if fails else NotSavedError) as caught:
            store.step("chat", "first", work)

        notes = "\n".join(caught.value.__notes__)
        assert "deleted" in notes
        assert ("Usage(1) in 1" if fails else "Usage(2) in 2") in notes
        assert is_back == ("chat" in self.other(store))
        assert not is_back or new == self.other(store).load("chat")

    def test_step_that_makes_no_state(self, store):
        """
        A result that is not a state is refused, and the usage that was recorded before
        is in the ledger all the same.
        """
        calls: list[str] = []

        def work(state):
            save_progress(add_billed("a", calls)(state))

        async def later(state: Aggregator) -> Any:
            return state

        wrong: Any = later
        with pytest.raises(TypeError, match="'first' of 'chat' returned NoneType"):
            store.step("chat", "first", work)

        assert ["a"] == keys(store.load("chat"))
        with pytest.raises(TypeError, match="astep"):
            store.step("chat", "first", wrong)

        for name, label in (("", "first"), ("chat", ""), ("chat", "x" * 501)):
            with pytest.raises(ValueError, match="1 to 500 characters"):
                store.step(name, label, add_billed("never", calls))

        with pytest.raises(MirroredNameError):
            store.step("langgraph/thread/x", "first", add_billed("never", calls))

        assert ["a"] == calls

    def test_step_of_a_reference(self, store):
        """
        A step of a reference gets the state of that and returns the next reference; run
        again, in any store, it returns the same one and does nothing.
        """
        calls: list[str] = []
        first = store.ref(store.save("chat", CONVERSATION))
        second = store.step_ref(first, "1", add_billed("a", calls))
        third = store.step_ref(second, "2", add_billed("b", calls))

        assert (["a"], ["a", "b"]) == tuple(
            keys(store.resolve(ref)) for ref in (second, third)
        )
        assert store.load("chat") == store.resolve(third)
        for each in (store, self.other(store, remembered=0)):
            assert second == each.step_ref(first, "1", add_billed("never", calls))
            assert third == each.step_ref(second, "2", add_billed("never", calls))

        assert ["a", "b"] == calls
        assert [("2",), ("1",), ()] == [head.labels for head in store.history("chat")]

    def test_steps_of_one_reference(self, store):
        """
        Steps that begin with one reference get the same state, and what they made is
        joined: the newest state has each turn once and each usage once, however often
        their states are joined again.
        """
        seen: list[int] = []

        def add(key):
            def function(state):
                seen.append(len(state))
                return add_billed(key, [])(state)

            return function

        store.save("another", CONVERSATION.fork())
        ref = store.ref(store.save("chat", CONVERSATION), keep=timedelta(0))
        refs = [store.step_ref(ref, key, add(key)) for key in "abc"]
        refs += [store.step_ref(ref, key, add("never")) for key in "cab"]
        states = [store.resolve(each) for each in refs]
        joined = states[0].join(*states, *states)

        assert [1, 1, 1] == seen
        assert refs[:3] == [refs[4], refs[5], refs[3]]
        assert ["a", "b", "c"] == keys(joined) == keys(store.load("chat"))
        assert joined == store.load("chat") == states[2]

    def test_killed_at_any_call(self, store):
        """
        A pipeline of references that is killed at any call of the backend, and run
        again, has each turn once, bills each once, and makes at most the request again
        whose answer was not saved.
        """

        def run(opened, name, calls):
            with suppress(StaleHeadError):
                opened.save(name, Aggregator.new().add_user_prompt(name), expecting=0)

            ref = opened.ref(opened.latest(name, at=1))
            for key in "ab":
                ref = opened.step_ref(ref, key, add_billed(key, calls))

            return opened.resolve(ref)

        for at in count(step=1 if is_thorough() else 4):
            calls: list[str] = []
            backend = failing(self.other(store)._cache.backend, at)
            try:
                run(Store(backend), f"chat {at}", calls)
            except InjectedError:
                state = run(self.other(store), f"chat {at}", calls)
            else:
                break

            assert ["a", "b"] == keys(state)
            assert [f"chat {at}", "a", "b"] == [message.text for message in state]
            assert state == store.load(f"chat {at}")
            assert len(calls) <= 3

        assert at > 20
        assert () == store.verify()

    def test_step_of_a_reference_that_is_gone(self, store):
        """A reference of a deleted name is an error before anything is asked for."""
        calls: list[str] = []
        ref = store.ref(store.save("chat", CONVERSATION))
        store.delete("chat")
        store.save("chat", CONVERSATION)
        with pytest.raises(NotSavedError, match="name was deleted"):
            store.step_ref(ref, "1", add_billed("never", calls))

        def delete(state):
            store.delete("chat")
            return add_billed("lost", calls)(state)

        ref = store.ref(store.latest("chat"))
        with pytest.raises(NotSavedError) as caught:
            store.step_ref(ref, "1", delete)

        assert "was deleted while its step '1' ran" in caught.value.__notes__[0]
        assert ["lost"] == calls

    def test_astep_ref(self, store):
        """The async twin does the same."""

        async def function(state):
            return add_billed("a", calls)(state)

        calls: list[str] = []
        ref = store.ref(store.save("chat", CONVERSATION))
        made = [asyncio.run(store.astep_ref(ref, "1", function)) for _ in range(2)]

        assert made[0] == made[1] == store.step_ref(ref, "1", add_billed("b", calls))
        assert ["a"] == calls == keys(store.resolve(made[0]))
        assert made[0].until is not None
        work = add_billed("b", calls)
        brief = store.step_ref(ref, "2", work, keep=timedelta(0))
        assert brief.until is None

    def test_invalid_steps_of_references(self, store):
        """What is no reference, label, function or time is an error, and names it."""
        calls: list[str] = []
        ref = store.ref(store.save("chat", CONVERSATION))
        work = add_billed("never", calls)
        with pytest.raises(TypeError, match=r"StateRef\.parse takes its text"):
            store.step_ref(str(ref), "1", work)

        with pytest.raises(ValueError, match="label"):
            store.step_ref(ref, "", work)

        with pytest.raises(TypeError, match="function"):
            store.step_ref(ref, "1", None)

        with pytest.raises(TypeError, match="keep"):
            store.step_ref(ref, "1", work, keep=1)

        with pytest.raises(TypeError, match="function of step '1' of 'chat'"):
            store.step_ref(ref, "1", lambda state: None)

        assert not calls
