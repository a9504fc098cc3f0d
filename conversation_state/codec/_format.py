"""
The format: what reading and writing have to agree on, and the text of scalars.

The whole format, version 1:

    {"format": "conversation_state", "version": 1, "kind": "aggregator",
     "id": uuid, "parent_id": uuid, "root_id": uuid,
     "init_len": 0, "init_ledger_len": 0,
     "entry_ids": [text, ...],          one for each message, opaque
     "messages": [message, ...],
     "ledger": [{"id": text, "usage": usage, "model": text, "at": time,
                 "caveat": text}, ...]}

    kind "turn": id, parent_id, entry_ids, messages, ledger
    kind "checkpoint": label, state (what an aggregator has)
    kind "timeline": see below
    kind "message_tree": what a timeline has, of the states the tree is made of;
        the present one is shown; visited, pairs of messages, counted from 1 in the
        order in which they come: one, and the one behind it that was shown last, if
        that is not the newest
    kinds "document", "message", "messages", "part", "template", "tool_call",
        "tool_info", "usage": one field of that name
    any other kind, of `Codec.register`: value

    timeline: limit; first, the number of the oldest moment (0); present, a
        moment's number; redo, the numbers of the children that were visited
        last, where that is not the moment right after the parent; moments,
        states
    moment: state, a position in states; label, group, note; parent, a number (one
        less than its own), which may be forgotten. The first in moments has
        the number that is first, and each one more than the one before.
    state: what an aggregator has, beyond what it has in common with earlier
        states. One without id has that of the state at the position origin
        (the one before), its fork point and all it holds; after and
        ledger_after, places, say if it begins with something else. Or json,
        any value; or what a document of any other kind has, but for format
        and version; messages also whether they are a list (false)
    place: [position, length], the first so many messages, or ledger entries, of
        the state at that position

    message: role, content (text) or parts (objects), name, run_id, turn_id,
        timestamp, metadata; tool_calls, response (assistant);
        tool_call_id, tool_name, is_error (tool)
    part: type, and what a part of that type has; data is base64
    tool call: id, name, arguments, index, type, metadata
    tool info: name, description, parameters, metadata; parameters are a JSON
        Schema, whose type is a text, or {"schema": a JSON Schema of any other
        kind}, or an object of parameters
    parameter: type, description, required, enum, items, properties
    document: id, content, metadata
    template: items, syntax; an item is {"message": message} or {"placeholder":
        text, "optional": true}
    response: finish_reason, usage, logprobs, model, id
    usage: counts by name, two breakdowns; and any further counts with them

What has its default value is left out. A message, part, tool call, tool
info, document or response may have further fields: they are kept (`unknown`)
and written back with the known ones. A message or part of a role or type
this version does not know is kept verbatim. Where it can't be, because it is a
provider's or has metadata of its own, it is wrapped: ``{"type": "unknown",
"source": ..., "raw": ...}``.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

_TINY = re.compile(r"([+-])00:00:00\.([0-9]{6})$")

FORMAT = "conversation_state"
VERSION = 1
ENVELOPE = frozenset({"format", "version", "kind"})

# Kinds whose fields are in the document itself, and those that are in a field of that
# name. A registered class is in the field "value".
INLINE_KINDS = frozenset(
    {"aggregator", "checkpoint", "message_tree", "timeline", "turn"}
)
NAMED_KINDS = frozenset(
    {"document", "message", "messages", "part", "template", "tool_call", "tool_info"}
    | {"usage"}
)

# The role or type of a wrapped value.
UNKNOWN = "unknown"

_UUID_LENGTH = 36


def format_base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def parse_base64(text: str) -> bytes:
    """
    The bytes that *text* is the base64 of.

    Raises:
        ValueError: If it is invalid: another alphabet, white space, wrong padding.
    """
    return a2b_base64(text, strict_mode=True)


def format_time(time: datetime) -> str:
    """ISO 8601 with microseconds and offset."""
    return time.isoformat(timespec="microseconds")


def parse_time(text: str) -> datetime:
    """
    *text* as an aware time.

    Raises:
        ValueError: If it is invalid or has no offset.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("no offset")

    # Python reads an offset of less than a second as UTC.
    tiny = _TINY.search(text) if time.tzinfo is UTC else None
    if tiny is not None:
        time = time.replace(
            tzinfo=timezone(timedelta(microseconds=int(tiny[1] + tiny[2])))
        )

    return time


def parse_uuid(text: str) -> UUID:
    """
    *text*, a UUID in its canonical form, as a UUID.

    Raises:
        ValueError: If it is invalid. `UUID` itself accepts much more: braces, prefixes,
            spaces, underscores.
    """
    if text.__class__ is str and text[8:24:5] == "----":
        digits = text.replace("-", "")
        if len(text) == len(digits) + 4 == _UUID_LENGTH:
            return UUID(bytes=bytes.fromhex(digits))

    raise ValueError("not canonical")
