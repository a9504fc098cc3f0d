"""
Chat Completions: OpenAI's older format, which most others take, too.

::

    payload = dump(messages).payload      # {"messages": [...]}
    messages = load(payload)              # or a list of messages, or a response
    usage = load_usage(response)
    message = concat(load_chunks(events))

Plain JSON values on both sides; no SDK is needed. A payload that is loaded and
dumped again is the same JSON value, key for key. Where our model has no field for
something, `load` leaves a note with the message, part or call (see
`conversation_state.adapters._notes`), which `dump` reads:

keys
    Keys no field of ours holds: unknown ones (``annotations``, ``prefix``,
    ``cache_control``), and those that are empty (``"refusal": null``).

without
    Keys that were missing where `dump` would write them: ``content``, a call's
    ``arguments``. Missing, null and "" are distinguished.

role
    ``developer`` or ``function``, for a system and a tool message.

made_id
    The id that was made up for a call, or for its result, that had none. It
    is left out again, unless it was changed.

under
    The key that a part, or a call, stood under, next to the content or the
    calls: ``reasoning_content`` (DeepSeek), ``reasoning`` (Groq), ``refusal``,
    ``audio``, ``function_call`` (the format before ``tool_calls``).

block, plain, head, thinking
    How the content was written if `dump` would write it differently: in a dialect's
    block; as a plain text where others have an object; audio as a ``data:`` url, which
    begins with this; as Mistral's thoughts, in pieces.

mended
    The paths of texts that had half of a surrogate pair. UTF-8 can't encode it, so
    U+FFFD stands there now, and `dump` lists it as lost.

response, choice
    The keys of a response and its choice that `ResponseMeta` has no field for.
    Never sent.

The current content of a message goes before its notes: a note on content that was
changed since has no effect. Not sent back as it was loaded is audio that the provider
made, which it takes by its id. Written in the usual form are base64, names of audio
formats, the type of a call that had none, and a single text in a list next to
reasoning.

What this format can't represent is listed in `Export.lost`, see
`dump`. Three things come back from a round trip in another form, and are not
lost: bytes instead of a ``data:`` url, an id for a call that had none, and the
usual name of an audio format (``audio/mpeg``).

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

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters.openai_chat._chunks import aload_chunks, load_chunks
from conversation_state.adapters.openai_chat._dump import dump, dump_tools
from conversation_state.adapters.openai_chat._load import load, load_usage

__all__ = [
    "Export",
    "Lost",
    "aload_chunks",
    "dump",
    "dump_tools",
    "load",
    "load_chunks",
    "load_usage",
]
