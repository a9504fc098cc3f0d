"""
Transcripts as people share them: ShareGPT and its kin, and plain roles in lines
of JSON. They are read, and not written.

::

    messages = load(record)
    for transcript in load_lines(file):       # raises at the first bad line
        ...
    for result in line_results(file):         # a Transcript, or what is Broken
        ...

What is read, in any mixture:

- ``{"conversations": [{"from": "human", "value": "hi"}, ...]}``, with the list
  under ``messages``, ``items`` or ``conversation``, or bare; turns have ``from``
  or ``role``, and ``value``, ``content`` or ``text``. A ``system`` next to the
  list comes first.
- Calls and results in turns of their own: ``function_call`` (or ``tool_call``),
  whose text is one call in JSON or a list of calls, and ``observation``,
  ``tool``, ``function`` and the like. Calls that follow one another are made by
  one message. Arguments are kept byte for byte.
- Calls and results in the tags of Hermes and Qwen, ``<tool_call>`` in a text of the
  model's and ``<tool_response>`` in one of a tool's or user's, which become calls and
  results. A tag in code, or that holds something else, stays text.
- ``{"messages": [{"role": "user", "content": "hi"}, ...]}``, with ``tool_calls``,
  ``tool_call_id``, ``name`` and ``reasoning_content`` as OpenAI has them, and
  with arguments that are objects, too, and with lists of calls that are JSON texts.
- ``{"role": "user", "content": "hi"}``, a message a line: the lines that follow
  one another are one conversation, up to a blank line.
- ``{"prompt": ..., "completion": ...}`` (or ``response``): texts, or lists of
  turns.

A result rarely names the call it answers: of the calls made last it is the
first one without a result, of that tool if it names one. Calls get ids made of
their places. Other keys of a turn (``weight``) are in the notes of
its message (see `conversation_state.adapters.engine.notes`), as ``keys``; what a
record has besides its turns (``tools``, ``images``) is in `Transcript.keys`.

Source:
    LLaMA-Factory's dialect of ShareGPT, the datasets of OpenChat and Hermes,
    those TRL and OpenAI's fine-tuning take, and the templates of Hermes and Qwen.
    Other tags in a text (``<image>``) are left as they are. OpenAI's own requests
    and responses are read, and written, by the adapter `openai_chat`.

>>> load({"conversations": [{"from": "human", "value": "hi"}]})
(UserMessage(content='hi'),)
>>> [each.messages for each in load_lines('{"prompt": "1+1?", "completion": "2"}')]
[(UserMessage(content='1+1?'), AssistantMessage(content='2', ...))]
"""

from conversation_state.adapters.engine.notes import Format
from conversation_state.adapters.transcripts._load import (
    Broken,
    Transcript,
    line_results,
    load,
    load_lines,
)

__all__ = ["FORMAT", "Broken", "Transcript", "line_results", "load", "load_lines"]

FORMAT = Format("transcripts", is_both_ways=False)
