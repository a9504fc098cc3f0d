"""
The OpenAI Agents SDK: its sessions in a store (extra ``agents``).

::

    session = StoreSession(store, "alice")
    result = await Runner.run(agent, "When is the next train?", session=session)
    retry = await session.fork("alice, again", before_turn=-1)

The SDK keeps lists of items, those of OpenAI's Responses. `load` makes
messages of them, as `openai_responses` does: one response of the model is one
message, with its reasoning, texts and calls, followed by the results. `dump`
restores the items, as equal JSON values in the same order; an item that would
not be restored is an `UnknownMessage`. Notes are kept under
``openai_responses``, so that this adapter dumps saved items unchanged, and all
others dump their content.

The messages do not depend on how many items are added at a time. If items
continue the answer at the end of the saved state, as they do when they are added
one by one, the next state has a longer message in place of that answer, as
another entry. All other entries stay the same.

A limit counts items, as the SDK's own sessions count them: the SDK compares the
newest few with those it wrote, so they must be exactly these. A limit may
separate a call from its result; a view does not: see `StoreSession`.

Not done here: asking a provider to compact a conversation
(``OpenAIResponsesCompactionSession`` around a `StoreSession` does, and the
history keeps the compacted items); the SDK's own run states.

Source:
    The SDK's ``Session`` protocol and its runner, which reads all items once
    for a run, adds the items of each turn in one call, and removes items one by
    one when it retries.
"""

from conversation_state.hosts.agents._runs import dump, load
from conversation_state.hosts.agents._session import StoreSession

__all__ = ["StoreSession", "dump", "load"]
