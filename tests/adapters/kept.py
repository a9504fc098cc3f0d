"""What the tests of formats that keep whole messages share."""

import json

import attrs

from conversation_state.adapters.engine.notes import notes_of, own_of
from conversation_state.messages import AssistantMessage, Message, UnknownMessage
from conversation_state.parts import TextPart


def lines(path):
    """The JSON values of a file, one a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def without_notes(value):
    """*value* without what adapters noted about it."""
    own = own_of(value.metadata)
    if isinstance(value, Message):
        return value.replace(metadata=own)

    return attrs.evolve(value, metadata=own)


def normalise(message, source):
    """
    *message* with all that a library which keeps whole messages could know of
    it: one plain text is not a list, and an id that was made up is none.
    """
    bare = without_notes(message)
    if isinstance(bare, UnknownMessage):
        return bare

    content = bare.content
    if not isinstance(content, str):
        content = [without_notes(part) for part in content]
        if not content or (len(content) == 1 and content[0] == TextPart(bare.text)):
            content = bare.text

    bare = bare.replace(content=content)
    if isinstance(bare, AssistantMessage):
        calls = [
            attrs.evolve(
                without_notes(call),
                id="" if "made_id" in notes_of(call.metadata, source) else call.id,
            )
            for call in message.tool_calls
        ]
        bare = bare.replace(tool_calls=calls)

    return bare
