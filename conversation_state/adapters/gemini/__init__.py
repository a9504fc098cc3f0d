"""
Gemini: what ``generateContent`` and ``streamGenerateContent`` take and give.

::

    payload = dump(messages).payload      # {"systemInstruction": …, "contents": […]}
    messages = load(payload)              # or a list of contents, or a response
    usage = load_usage(response)
    message = concat(load_chunks(events))

What is loaded and dumped again is the same JSON value, key for key, but for what the
API takes in several forms: keys are written in camel case, also where they were in the
snake case of Google's SDKs for Python, roles of the user's contents as ``user``,
base64 with padding; a null, and what the API requires and was missing, as it wants it.
The signature of a thought is `ReasoningPart.signature`. Beside those of all formats
(see `conversation_state.adapters.engine.notes`, where the ``keys`` of a result are its
part's) there are these notes on a message, part or call:

content
    The kept keys of the content that a result was the first part of.

role
    The role of an instruction, which has no effect.

same_content, new_content
    That a message was in the content of the one before it, or that it was not:
    by themselves, only results follow each other in one content, and calls an
    answer.

made_id
    An id that was made up is left out of the results of such a call, too. As
    results without ids are distinguished by their order alone, those of functions
    of one name are put in the order of the calls.

key, object
    What stood in a result's ``response``: a text under another key than
    Google's own ``output`` (or ``error``), or an object, of which our message
    has the JSON text.

signed
    That a thought's signature is Gemini's. Signatures are sent to whom they
    are from, and so is one that was made by hand.

base64, named
    That content was in the url-safe alphabet; with a name.

candidate
    What an answer has that `ResponseMeta` has no field for: ratings, citations,
    grounding, the ids of tokens. Never sent.

What the model runs and finds itself (code, searches) is an `UnknownPart` here.

Some things come back from a round trip in another form, and are not
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

from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format
from conversation_state.adapters.gemini._dump import dump, dump_tools
from conversation_state.adapters.gemini._load import load, load_usage
from conversation_state.adapters.gemini._stream import aload_chunks, load_chunks
from conversation_state.requests import GEMINI as RULES
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

FORMAT = Format("gemini", kept=("content", "keys"))


def rules(*, host: str = "", model: str = "") -> Rules:
    """
    What a *host* asks of a request, for `dump`; without one, `RULES`, which is right
    for all hosts that are known. See `conversation_state.requests.rules`.

    Raises:
        LookupError: If there is no such host of this format.

    >>> rules(host="vertex").host
    'vertex'
    """
    return _rules_of("gemini", host=host, model=model)
