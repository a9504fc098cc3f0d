"""
The OpenAI Agents SDK: its sessions in a store (extra ``agents``).

    session = StoreSession(store, "alice")
    result = await Runner.run(agent, "When is the next train?", session=session)
    retry = await session.fork("alice, again", before_turn=-1)

The SDK keeps lists of items, those of OpenAI's Responses. `load` makes
messages of them, as `openai_responses` does: what the model said in one
response is one message, with the thoughts, texts and calls in it, and results
stand behind it. `dump` gives the items again, equal JSON values, item for
item, in order, whatever they were: what `load` can't read so that it could be
written again is an `UnknownMessage`. Notes are left under
``openai_responses``, which tells them; so that adapter dumps what is saved
here as it is, and all others as what it says.

However many items are added at a time, the messages are those of all of them.
Where items go on with the answer at the end of the saved state, as they may
where they are added one by one, the next state has one longer message in its
place, as another entry. All other entries stay what they are.

A limit counts items, as the SDK's own sessions count them: it looks at the
newest few to see what became of what it wrote, and so they must be exactly
those. What a limit cuts in two, a view does not: see `StoreSession`.

Not done here: asking a provider to compact a conversation
(``OpenAIResponsesCompactionSession`` around a `StoreSession` does, and what
was compacted stays in the history); the SDK's own run states.

Source:
    The SDK's ``Session`` protocol and its runner, which reads all items once
    for a run, adds what each turn said in one call, and takes items back one
    by one where it tries again.
"""

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters.agents._items import dump, load
from conversation_state.adapters.agents._session import StoreSession

__all__ = ["Export", "Lost", "StoreSession", "dump", "load"]
