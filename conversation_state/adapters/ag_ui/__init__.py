"""
AG-UI: the protocol between an agent's server and its page, version 1.0.

::

    asked = load_input(await request.json())            # what a client posts
    events = dump_chunks(chunks, message_id="m1")       # one response
    run = wrap_run(events, thread_id=asked.thread_id, run_id=asked.run_id)
    snapshot(state)                                     # after undo, redo, a switch
    patch(old, new)                                     # between two states of an agent

A message has the id that interfaces know it by (`conversation_state.tree.name`), or
else its entry's; a message without either is ``message_0`` by its place. Thoughts are
messages of their own, ``ID:r0`` and so on, before the answer with the id ``ID`` that
they belong to; those that the model had after its first word or call stand behind it,
where the client's own reducer puts them.

What the format has no field for is under ``metadata.conversation_state``, with a
version: the tool's name and flag of a result, the sender of a result, the detail of an
image, and ids of siblings if a tree was given.

Lost are the borders between two texts of one answer, refusals (they are sent as text),
the place of a text behind a call, and whatever only a provider knows. The caller's own
metadata is not sent to a client.

Beside those of all formats (see `adapters.engine.notes`) there are these notes:

role
    That a system message was a ``developer``'s.

alone
    That thoughts had no answer behind them.

id
    The id of a thought, if it is not ``ID:rN``.

base64
    The text of bytes, if it is not the usual one.

unnamed
    That the name of a result's tool was found with its call.

error, flag
    What a result had as its ``error``, and whether our flag stood beside it.

event
    What a stream has besides its response. Never sent.

Source:
    The models of ``ag-ui-protocol`` 1.0.0, and the reducer and the checks of
    ``@ag-ui/client`` 1.0.0, which `docs/ui-protocols.md` says more of.

>>> from conversation_state.messages import UserMessage
>>> dump([UserMessage("hi")]).payload
[{'id': 'message_0', 'role': 'user', 'content': 'hi'}]
>>> [each.text for each in load([{"id": "u1", "role": "user", "content": "hi"}])]
['hi']
"""

from conversation_state.adapters.ag_ui._dump import dump, snapshot
from conversation_state.adapters.ag_ui._events import (
    adump_chunks,
    awrap_run,
    dump_chunks,
    dump_result,
    dump_usage,
    patch,
    wrap_run,
)
from conversation_state.adapters.ag_ui._load import RunInput, load, load_input
from conversation_state.adapters.ag_ui._stream import aload_chunks, load_chunks
from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format

__all__ = [
    "FORMAT",
    "Export",
    "Lost",
    "RunInput",
    "adump_chunks",
    "aload_chunks",
    "awrap_run",
    "dump",
    "dump_chunks",
    "dump_result",
    "dump_usage",
    "load",
    "load_chunks",
    "load_input",
    "patch",
    "snapshot",
    "wrap_run",
]

# Messages for a page, and no request to a provider: the tables and commands that go
# through all providers leave it out.
FORMAT = Format("ag_ui", is_both_ways=False)
