"""
What the checkpointer remembers: the newest, and a limited number of it.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from conversation_state.adapters.langgraph import (
    ConversationStateSaver,
    _checkpoints,
    _conversations,
)
from conversation_state.store import open_store

KEYS = st.integers(0, 9)


class TestRememberNewest:
    @given(st.lists(st.tuples(KEYS, st.integers())), st.integers(1, 5))
    def test_newest(self, uses, most):
        """
        What is remembered are the keys used last, in that order, each with its last
        value.
        """
        items: dict[int, int] = {}
        for key, value in uses:
            _conversations.remember_newest(items, key, value, most)

        values = dict(uses)
        places = {key: at for at, (key, _) in enumerate(uses)}
        newest = sorted(places, key=places.__getitem__)[-most:]

        assert [(key, values[key]) for key in newest] == list(items.items())


class TestSaver:
    def test_limited(self):
        """
        However many threads there are, what is remembered of them is limited.
        """
        with open_store("memory:") as store:
            saver = ConversationStateSaver(store)
            for number in range(100):
                config: Any = {
                    "configurable": {"thread_id": str(number), "checkpoint_ns": ""}
                }
                checkpoint: Any = empty_checkpoint()
                values = {"messages": [HumanMessage("hi", id=f"{number}")]}
                checkpoint |= {
                    "channel_values": values,
                    "channel_versions": {"messages": 1},
                }
                saver.put(config, checkpoint, {"step": 0}, {"messages": 1})

            memory = saver._cache._memory

        assert 64 == len(memory.known) == len(memory.recent)
        assert 16 == len(memory.columns)
        assert 64 == len(_checkpoints._put_last)
        assert "99" == list(memory.recent)[-1]
