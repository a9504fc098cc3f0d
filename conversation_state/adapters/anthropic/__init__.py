"""
Anthropic Messages.

::

    payload = dump(messages).payload      # {"system": ..., "messages": [...]}
    messages = load(payload)              # or a list of messages, or a response
    usage = load_usage(response)
    message = concat(load_chunks(events))

What is loaded and dumped again is the same JSON value, key for key, but for what
the provider refuses: texts that are empty, ids of calls with other than letters,
digits, ``_`` and ``-``. A message with the results of tools is several here, and one
again when it is dumped.

Thinking is a `ReasoningPart` with its signature, what is redacted of it one
with its data as the signature, both byte for byte. The provider's own tools
(``server_tool_use``, ``mcp_tool_use``, their results), summaries of a
compaction, search results, files that are with the provider, and unknown
blocks are `UnknownPart`; system messages that hold more than text are
`UnknownMessage`. All of it goes back to this provider only.

A call's arguments are the text of its ``input``, with the white space of the
provider's own streams; text that is not an object's is sent as
``{"INVALID_JSON": text}``, and comes back as it was.

Beside those of all formats (see `adapters.engine.notes`) there are these
notes on a message, part or call:

message
    Keys of a message other than its role and content.

signed, redacted
    That a thought is this provider's, signed or not, and that it is
    encrypted. A thought without a note goes back if it has a signature, and no other
    provider's notes: then it was made by hand.

is_error
    That a result had ``false``, which most leave out.

new_message, system
    That a message did not go on with the one before, of the same role; that an
    unknown one was ``system`` itself.

cut
    Of a stream: the input of a block of the provider's own that was broken
    off, which is lost.

event, events
    What a stream has besides its response: unknown keys, and unknown events and
    deltas. Never sent.

These come back from a round trip in another form, and are not lost: a
text with calls or other messages of its role, as a part; neighbours of one
role, as one message; a system message in front of the others, as ``system``; bytes
instead of a ``data:`` url; the media type of bytes that had none; base64 with padding;
the white space of arguments, and ``{}`` for none; no content of a result, or no
signature, as an empty one.

Source:
    Recorded traffic of Anthropic and of Bedrock, the provider's reference and
    the types of its SDK. The provider refuses a text that is empty, white
    space that is all there is, an error without content, a system message
    but between a user and an answer, results behind other blocks.

>>> from conversation_state.messages import SystemMessage, UserMessage
>>> dump([SystemMessage("Be brief."), UserMessage("hi")]).payload
{'system': 'Be brief.', 'messages': [{'role': 'user', 'content': 'hi'}]}
>>> load({"messages": [{"role": "user", "content": "hi"}]})
(UserMessage(content='hi'),)
"""

from conversation_state.adapters.anthropic._dump import dump, dump_tools
from conversation_state.adapters.anthropic._load import load, load_usage
from conversation_state.adapters.anthropic._stream import aload_chunks, load_chunks
from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format
from conversation_state.requests import ANTHROPIC as RULES
from conversation_state.requests import Rules
from conversation_state.requests import rules as _rules_of

__all__ = [
    "FORMAT",
    "RULES",
    "Export",
    "Lost",
    "aload_chunks",
    "dump",
    "dump_tools",
    "load",
    "load_chunks",
    "load_usage",
    "rules",
]

FORMAT = Format("anthropic", kept=("keys", "message"))


def rules(*, host: str = "", model: str = "") -> Rules:
    """
    What a *host* asks of a request, for `dump`; without one, `RULES`, which is right
    for all hosts that are known. See `conversation_state.requests.rules`.

    Raises:
        LookupError: If there is no such host of this format.

    >>> rules(host="bedrock").host
    'bedrock'
    """
    return _rules_of("anthropic", host=host, model=model)
