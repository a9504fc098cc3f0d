"""
LangChain's messages (extra ``langchain``).

    state = state.extend(load(messages))      # messages of LangChain's
    messages = dump(state.messages).payload   # a list of them

LangChain's classes are imported when the first message is converted. Loaded
messages are dumped as they were: equal, and of the same class. `load_message`
and `dump_message` convert single messages; `new_message` makes one of
LangChain's.

A response's finish reason, model and usage are our `ResponseMeta`, the name of
a `ToolMessage` is our `tool_name`, and its status our `is_error`. Calls that
LangChain could not parse follow those it could. Blocks of content, LangChain's
or a provider's, are parts, except for those that repeat a call. Reasoning and
refusals in the ``additional_kwargs`` are parts, too. For values without a field
of ours, `load` makes notes (see `conversation_state.adapters.engine.notes`), which
`dump` reads:

id, additional_kwargs, response_metadata, artifact
    The values of the fields of these names.

class
    The class, if it is a chunk's or a `ChatMessage`.

fields
    Other fields: the pieces of calls in a chunk, newer fields of a class, and
    undeclared ones.

reason, model, usage
    The keys of the finish reason and of the model, if not the first ones in
    `REASONS` and `MODELS`; the counts if they are not those that a `Usage` becomes.

shape, keys, raw, aside
    The shape of a part's block; its other keys, or those of a call; the whole block
    or call if that does not restore it; a mark that it was in the
    ``additional_kwargs``.

block
    The block that repeats a call, and its position; the text of its arguments, if it
    is not that of the call.

signed
    A mark that LangChain had the signature. The signer is the provider of the
    response, or depends on the block.

text, empty, blocks, name, role, made_id
    A mark that the content was a text, or an empty list; blocks of a system message
    other than text; an empty name; the id made up for a result without one.

odd
    A mark that some of the above is encoded by `_values`, because JSON can't represent
    it.

mended
    The paths where a lone surrogate became U+FFFD; `dump` lists them as lost.

A `FunctionMessage`, a `RemoveMessage`, and a `ChatMessage` of an unknown role
become an `UnknownMessage`.

Values that can't be kept raise an error in `load`, before anything is written:
messages of classes derived from LangChain's, because nothing is imported for
the contents of a store; and objects in an artifact or elsewhere, other than
JSON, documents and messages of LangChain's.

Some values are converted, and not listed as lost: arguments of calls are JSON values
in LangChain, and dumped as such; missing arguments become an empty object; a content
without parts becomes an empty text.
"""

from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import Format
from conversation_state.adapters.langchain._messages import (
    dump,
    dump_message,
    load,
    load_message,
    load_readable,
)
from conversation_state.adapters.langchain._values import (
    class_names,
    make_message,
    new_message,
)

__all__ = [
    "FORMAT",
    "Export",
    "Lost",
    "class_names",
    "dump",
    "dump_message",
    "load",
    "load_message",
    "load_readable",
    "make_message",
    "new_message",
]

FORMAT = Format("langchain", kept=("additional_kwargs", "keys"), is_both_ways=False)
