"""
eino's messages, as Go services hand them over in JSON.

::

    payload = dump(messages).payload      # {"messages": [...]}
    messages = load(payload)              # or a list of messages, or one
    usage = load_usage(message)

What is dumped has the keys that eino writes: those it leaves out where they are empty
are left out. What it wrote is loaded and dumped again as it was, and
the chunks of a stream of its, loaded as a list, are chunks for `concat`.

``extra`` and our metadata are the same thing: of messages, parts and calls. The
``content`` next to a list of parts, which eino's models pass over, is a kept key.
Beside the notes of all formats (see `adapters.engine.notes`) there are
these:

extra
    What in ``extra`` has the name of an adapter.

signed
    That eino had the signature.

No id is made up for a piece of a streamed call, which has an index. What eino can't
represent is in `Export.lost`: run and turn ids, times, `ToolMessage.is_error`, the
model, a refusal (which is sent as a text), ... In other words, and not lost:
one plain text part is a text, and a thought without a signature before all else is
``reasoning_content``, in a list as without; ``multi_content``, the format before the
other lists, is one of these; an empty list of parts, and a null, is left out.

Source:
    The JSON of eino's schema package. Roles are not checked there: a message
    of a role we don't know is a `UnknownMessage`.

>>> from conversation_state.messages import UserMessage
>>> dump([UserMessage("hi", metadata={"lang": "en"})]).payload
{'messages': [{'role': 'user', 'content': 'hi', 'extra': {'lang': 'en'}}]}
>>> load({"role": "user", "content": "hi"})
(UserMessage(content='hi'),)
"""

from conversation_state.adapters.eino._dump import dump
from conversation_state.adapters.eino._load import load, load_usage
from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format

__all__ = ["FORMAT", "Export", "Lost", "dump", "load", "load_usage"]

FORMAT = Format("eino")
