"""
The wire of Vercel's AI SDK: ``UIMessage`` of ``ai`` 6 and 7, and its message stream.

::

    asked = load_request(await request.json())          # what a client posts
    state = resume_from(tree, asked)                    # what to ask the model with
    events = dump_chunks(chunks, message_id="m1")       # its answer, as it comes
    dump(tree, siblings=True)                           # what a page shows
    load_chunks(events)                                 # of another server's stream

A user's message is one ``UIMessage``, and so is the system's. A run of answers and
results is one message of the assistant: each answer begins with ``step-start``, and a
call and its result are one part. A run ends before an answer that has siblings in the
tree, and not at a message of an unknown role. A call of an answer that was cut off
(``interrupted``) is ``input-streaming``: no client runs it, and no output is taken.

A message has the id that interfaces know it by (`conversation_state.tree.name`), or
else its entry's; a message without either is ``message_0`` by its place. Of a run the
first message has it.

What the format has no field for is under ``conversation_state``, with a version, in the
metadata of the message (``metadata``) or part (``providerMetadata`` and, of a call and
its result, ``callProviderMetadata`` and ``resultProviderMetadata``): a signature, a
refusal, the kind of media and the detail of an image, the sender, and the text of
arguments and results where the JSON is not equal to it.

Lost are parts that only another provider knows, messages of unknown roles, and, for
version 6, ``custom``, ``reasoning-file`` and ``steering-message``. The caller's own
metadata is not sent to a client.

Beside those of all formats (see `adapters.engine.notes`) there are these notes:

id, state
    What a part had there, if it is not what `dump` writes; of a message, that its id
    was empty; of a call or result, a state that our model has no field for.

begins, empty
    That a message begins one of its own, and that a step had nothing in it.

static
    That a call's part was ``tool-NAME``.

output
    Whether an output was a ``text`` or other ``json``, where that is not the usual.

others
    Parts of a system message that are no texts, each with its place.

steering
    That a user's message was a part within the assistant's.

usage
    The usage that came with a message.

input
    The pieces of a streamed call, and the input that it had in the end, if that was
    another, as of a call that was repaired.

signed
    That a thought of Claude's has its signature where the SDK itself keeps it.

partial
    The ``input`` and ``rawInput`` of a call that was cut off, if `dump` writes others.

event
    What a stream has besides its response. Never sent.

Source:
    ``validateUIMessages``, ``processUIMessageStream`` and ``convertToModelMessages`` of
    ``ai`` 6.0.326 and 7.0.173.

>>> from conversation_state.messages import UserMessage
>>> dump([UserMessage("hi")]).payload
[{'id': 'message_0', 'role': 'user', 'parts': [{'type': 'text', 'text': 'hi', \
'state': 'done'}]}]
>>> [each.text for each in load(dump([UserMessage("hi")]).payload)]
['hi']
"""

from conversation_state.adapters.ai_sdk._dump import dump
from conversation_state.adapters.ai_sdk._events import (
    HEADERS,
    adump_chunks,
    dump_chunks,
    dump_result,
    write_event,
)
from conversation_state.adapters.ai_sdk._load import load
from conversation_state.adapters.ai_sdk._request import (
    ChatRequest,
    load_request,
    resume_from,
)
from conversation_state.adapters.ai_sdk._stream import aload_chunks, load_chunks
from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format

__all__ = [
    "FORMAT",
    "HEADERS",
    "ChatRequest",
    "Export",
    "Lost",
    "adump_chunks",
    "aload_chunks",
    "dump",
    "dump_chunks",
    "dump_result",
    "load",
    "load_chunks",
    "load_request",
    "resume_from",
    "write_event",
]

# Messages for a page, and no request to a provider: the tables and commands that go
# through all providers leave it out.
FORMAT = Format("ai_sdk", is_both_ways=False)
