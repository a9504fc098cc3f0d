"""Promises about views: that of the whole state, of which little is loaded."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversation_state import Aggregator, TokenBudget, trim
from conversation_state.adapters import gemini
from conversation_state.errors import (
    BudgetExceededError,
    ConversationStateError,
    NotSavedError,
    StoreError,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.requests import EVERYWHERE
from conversation_state.store import Store
from conversation_state.tools import ToolCall
from tests.profiles import fewer
from tests.store.promises.case import FOR_EXAMPLES, RecordingBackend, StoreCase


def make_messages(length: int, seed: int) -> list[Message]:
    """
    A conversation with system messages, calls with results in order, late, twice and
    missing, and long runs without a user.
    """
    luck = random.Random(seed)
    messages: list[Message] = [SystemMessage("Be brief.")] * luck.choice([0, 1, 1, 3])
    users = luck.choice([0.02, 0.3])
    late: list[str] = []
    while len(messages) < length:
        draw = luck.random()
        if draw < users:
            messages.append(UserMessage("and? " * luck.randrange(1, 9)))
        elif draw < 0.5:
            messages.append(AssistantMessage("so " * luck.randrange(1, 30)))
        elif draw < 0.98:
            ids = [f"c{len(messages)}-{i}" for i in range(luck.choice([1, 1, 3]))]
            # Gemini takes the dot, and not everyone does.
            name = luck.choice(["f", "f.g"])
            calls = [ToolCall(id=id, name=name, arguments="{}") for id in ids]
            messages.append(AssistantMessage(tool_calls=calls))
            for id in ids:
                if luck.random() < 0.02:
                    late.append(id)
                else:
                    messages.append(ToolMessage("done", tool_call_id=id))
        elif late:
            messages.append(ToolMessage("late", tool_call_id=late.pop()))
        else:
            messages.append(SystemMessage("The time is 9."))

    return messages


def show(make: Any) -> Any:
    """What a view shows and says, or the error in its place."""
    try:
        view = make()
    except ConversationStateError as error:
        return type(error), str(error)

    return (
        *(list(view.elements), view.total_tokens, list(view.dropped)),
        *(view.failures, view.problems(), repr(view), view.budget),
    )


class ViewPromises(StoreCase):
    """A view of a name is that of its newest state."""

    # Each backend runs them, and what is asked of it differs little.
    @settings(FOR_EXAMPLES, max_examples=fewer().max_examples)
    @given(
        length=st.sampled_from([1, 31, 64, 65, 97, 400, 1_200]),
        window=st.sampled_from([1, 8, 60, 700, 10**9]),
        rules=st.sampled_from([EVERYWHERE, gemini.RULES]),
        seed=st.integers(0, 10**6),
    )
    def test_is_the_view_of_the_state(self, store, length, window, rules, seed):
        """What is shown, dropped and counted is what `trim` gives of the whole."""
        state = Aggregator.new().extend(make_messages(length, seed))
        if "chat" in store:
            store.delete("chat")

        store.save("chat", state)
        budget = TokenBudget(context_window=window)
        apart = self.other(store, remembered=0)
        expected = show(lambda: trim(state, budget, rules=rules))

        assert expected == show(lambda: apart.view("chat", budget, rules=rules))
        assert expected == show(lambda: store.view("chat", budget, rules=rules))

    @pytest.mark.parametrize("length", [500, 5_000])
    @pytest.mark.parametrize(("leading", "expected"), [(1, 4), (5, 5)])
    def test_loads_what_it_shows(self, store, calls, length, leading, expected):
        """The calls are as many for any length, and the view needs no store."""
        turn = [UserMessage("When is the next train?"), AssistantMessage("At 9.")]
        messages = [SystemMessage("Hi.")] * leading + turn * (length // 2)
        store.save("chat", Aggregator.new().extend(messages))
        watched = Store(
            RecordingBackend(self.other(store)._cache.backend, calls.append),
            remembered=0,
        )
        view = watched.view("chat", TokenBudget(context_window=100))
        copy = pickle.loads(pickle.dumps(view))

        assert messages[leading - len(view) :] == list(view)[leading:]
        assert len(messages) - len(view) == len(view.dropped)
        assert 1 == len({each.reason for each in view.dropped})
        assert list(view) == list(copy)
        assert expected == len(calls)
        assert view.shared_prefix(copy).messages == len(view)

    def test_what_is_not_loaded_is_an_error(self, store):
        """To ask a view for what it did not load says that, and where it is."""
        store.save("chat", Aggregator.new().extend([UserMessage("Hi.")] * 1000))
        view = self.other(store, remembered=0).view(
            "chat", TokenBudget(context_window=9)
        )
        with pytest.raises(StoreError, match=r"load\(name\) has all"):
            list(view.original.messages)

    def test_errors(self, store):
        """A missing name and too small a budget are the errors of `load` and `trim`."""
        with pytest.raises(NotSavedError):
            store.view("chat", TokenBudget(context_window=9))

        store.save("chat", Aggregator.new().extend([UserMessage("Hi! " * 99)] * 200))
        with pytest.raises(BudgetExceededError):
            self.other(store, remembered=0).view("chat", TokenBudget(context_window=9))

    def test_without_a_budget(self, store):
        """Without a budget all is shown."""
        messages = [UserMessage("Hi.")] * 300
        store.save("chat", Aggregator.new().extend(messages))

        assert messages == list(self.other(store, remembered=0).view("chat", None))
