"""
Chat Completions: OpenAI's older format, which most others take, too.

::

    payload = dump(messages).payload      # {"messages": [...]}
    messages = load(payload)              # or a list of messages, or a response
    usage = load_usage(response)
    message = concat(load_chunks(events))

A payload that is loaded and dumped again is the same JSON value, key for key. Beside
those of all formats (see `adapters.engine.notes`) there are these notes on
a message, part or call:

without
    Keys that were missing where `dump` would write them: ``content``, a call's
    ``arguments``. Missing, null and "" are distinguished.

role
    ``developer`` or ``function``, for a system and a tool message.

key
    The key that a part, or a call, stood under, next to the content or the
    calls: ``reasoning_content`` (DeepSeek), ``reasoning`` (Groq), ``refusal``,
    ``audio``, ``images`` (OpenRouter), ``function_call`` (the format before
    ``tool_calls``).

block, plain, head, thinking
    How the content was written if `dump` would write it differently: in a dialect's
    block; as a plain text where others have an object; audio as a ``data:`` url, which
    begins with this; as Mistral's thoughts, in pieces.

choice
    The keys of a choice that `ResponseMeta` has no field for. Never sent.

Not sent back as it was loaded is audio that the provider made, which it takes by its
id. Written in the usual form are base64, names of audio formats, the type of a call
that had none, and a single text in a list next to reasoning.

What this format can't represent is listed in `Export.lost`, see `dump`. Two things come
back from a round trip in another form, and are not lost: bytes instead of a ``data:``
url, and an id for a call that had none.

Source:
    Recorded traffic of OpenAI, Groq, Mistral, DeepSeek, Cerebras and Gemini's
    compatible API. A system message that holds more than text is a
    `UnknownMessage` here: Mistral's examples of thoughts are.

>>> from conversation_state.messages import UserMessage
>>> dump([UserMessage("hi", name="ann")]).payload
{'messages': [{'role': 'user', 'content': 'hi', 'name': 'ann'}]}
>>> load({"messages": [{"role": "user", "content": "hi"}]})
(UserMessage(content='hi'),)
"""

from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format
from conversation_state.adapters.openai_chat._dump import dump, dump_tools
from conversation_state.adapters.openai_chat._load import load, load_usage
from conversation_state.adapters.openai_chat._stream import aload_chunks, load_chunks
from conversation_state.requests import OPENAI_CHAT as RULES
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

FORMAT = Format("openai_chat")


def rules(*, host: str = "", model: str = "") -> Rules:
    """
    What a *host* asks of a request, for `dump`; without one, `RULES`, which is right
    for all hosts that are known. See `conversation_state.requests.rules`.

    Raises:
        LookupError: If there is no such host of this format.

    >>> rules(host="azure").host
    'azure'
    """
    return _rules_of("openai_chat", host=host, model=model)
