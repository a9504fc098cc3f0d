"""
LangChain's messages: what `langchain` and `langgraph` share.

    state = state.extend(load(messages))      # messages of LangChain's
    messages = dump(state.messages).payload   # a list of them

LangChain's own objects on their side, imported when there is one to make.
What was loaded is dumped again as it was: equal, and of the same class. One at
a time, messages are converted by `load_message` and `dump_message`.

A response's finish reason, model and usage are our `ResponseMeta`, the name of
a `ToolMessage` is our `tool_name`, and its status our `is_error`. Calls that
LangChain could not read are calls like others, behind those it could. Blocks
of content are parts, in LangChain's own words or a provider's; those that only
say a call once more are no parts. Thoughts and refusals in the
``additional_kwargs`` are parts, too. Where our model has no word for something,
`load` leaves a note in the metadata, under ``langchain``, and `dump` reads it:

id, additional_kwargs, response_metadata, artifact
    What the fields of these names hold.

class
    The class, if it is a chunk's or a `ChatMessage`.

fields
    Other fields: the pieces of calls in a chunk, a class's
    newer ones, and those nobody declared.

reason, model, usage, zeros
    The keys of the finish reason and of the model, if not the first ones in
    `REASONS` and `MODELS`; the counts if they say more than a `Usage`, or which
    of them are given as nothing.

shape, keys, raw, aside
    How a part's block looked, what it had beside, all of it if it looked like
    none, and that it stood in the ``additional_kwargs``.

block, invalid, without
    The block that says a call once more, and its place; how a call differed
    that could not be read.

signed
    That LangChain had the signature. Who signed is told by the provider of the
    response, or by the block.

text, empty, beside, name, role, made_id
    That the content was a text, or an empty list; blocks of a system message
    that are no text; a name that is empty; the id made up for a result
    without one.

odd
    That some of the above is written as `_json` does: JSON has no word for it.

mended
    Where half of a surrogate pair stood: U+FFFD stands there now, and `dump`
    lists it as lost.

Functions' results, orders to remove a message, and a `ChatMessage` of a role we
don't know are `UnknownMessage`.

What can't be kept is an error when it is loaded, before anything is written:
a class derived from LangChain's, for nothing is imported because of what a
store holds; and objects in an artifact, or elsewhere, that are neither JSON,
nor documents or messages of LangChain's.

In other words, and not lost: arguments of calls are JSON values there, written
anew; no arguments at all are an empty object; no parts are no text.
"""

from conversation_state.adapters._langchain._dump import dump, dump_message
from conversation_state.adapters._langchain._load import load, load_message, weighed

__all__ = ["dump", "dump_message", "load", "load_message", "weighed"]
