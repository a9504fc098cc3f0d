"""
Gemini: what ``generateContent`` and ``streamGenerateContent`` take and give.

::

    payload = dump(messages).payload      # {"systemInstruction": …, "contents": […]}
    messages = load(payload)              # or a list of contents, or a response
    usage = load_usage(response)
    message = concat(load_chunks(events))

Plain JSON values on both sides; no SDK is needed. What is loaded and dumped
again is the same JSON value, key for key, in camel case or in the snake case
of Google's SDKs for Python. Where our model has no field for something, `load`
leaves a note with the message, part or call (see
`conversation_state.adapters._notes`), which `dump` reads:

keys
    Keys no field of ours holds: ``thoughtSignature`` (but a thought's, which
    is `ReasoningPart.signature`), ``videoMetadata``, ``mediaResolution``, and
    those that say nothing. Of a result, they are its part's.

content
    Those of the content that a result was the first part of.

without
    Keys that were missing where `dump` would write them: ``role``, ``parts``,
    a call's or a result's ``name``, the ``thoughtSignature`` of the first call,
    a thought's ``text``.

snake
    Keys that were in snake case.

role
    Another role than ``user``: ``function``, null or ""; and
    whatever role an instruction has.

joined, apart
    That a message was in the content of the one before it, or that it was not:
    by themselves, only results follow each other in one content, and calls an
    answer.

made_id
    The id that was made up for a call that had none, or that its result does
    not say. It is left out again, from the results of such a call, too. As
    results without ids are distinguished by their order alone, those of functions
    of one name are put in the order of the calls.

under, object, no_response
    What stood in a result's ``response``: a text under another key than
    Google's own ``output`` (or ``error``), or an object, of which our message
    has the JSON text; or that it was missing.

signed
    That a thought's signature is Gemini's. Signatures are sent to whom they
    are from, and so is one that was made by hand.

base64, text, named, plain
    How content was written if not as `dump` would: in the url-safe alphabet,
    or some other way; with a name; an instruction as a plain text.

mended
    Where half of a surrogate pair stood: no UTF-8 can carry it, so U+FFFD
    stands there now, and `dump` lists it as lost.

response, candidate
    What a response has that `ResponseMeta` has no field for: ratings,
    citations, grounding, the ids of tokens. Never sent.

The current content of a message goes before its notes: a note on what has been
changed since does nothing. What the model runs and finds itself (code,
searches) is an `UnknownPart` here.

What this format can't represent is listed in `Export.lost`, see
`dump`. Some things come back from a round trip in another form, and are not
lost: a call's arguments, which are an object here, without white space; one
plain text for a list of it; an id for a call that had none; the name of a
result's function; bytes instead of a ``data:`` url.

Source:
    Recorded traffic of Gemini 1.5 to 3.5, and Google's reference of the API and
    of its SDK for Python.

>>> from conversation_state.messages import UserMessage
>>> dump([UserMessage("hi")]).payload
{'contents': [{'role': 'user', 'parts': [{'text': 'hi'}]}]}
>>> load({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
(UserMessage(content='hi'),)
"""

from conversation_state.adapters._export import Export, Lost
from conversation_state.adapters.gemini._dump import dump, dump_tools
from conversation_state.adapters.gemini._load import load
from conversation_state.adapters.gemini._response import load_usage
from conversation_state.adapters.gemini._stream import aload_chunks, load_chunks

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
