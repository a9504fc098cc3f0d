"""
Values out: states, templates, and what each kind of document is written from.

Messages and what is in them are in `_messages_out`, timelines in
`_timeline_out`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conversation_state.aggregator import (
    Aggregator,
    Checkpoint,
    Entry,
    LedgerEntry,
    Messages,
    Turn,
)
from conversation_state.codec._messages_out import (
    MESSAGES,
    PARTS,
    Object,
    Write,
    document_out,
    ledger_out,
    message_out,
    messages_out,
    not_ours,
    origin_out,
    part_out,
    tool_call_out,
    tool_info_out,
    usage_out,
)
from conversation_state.codec._timeline_out import timeline_out
from conversation_state.codec._wire import SPREAD
from conversation_state.documents import Document
from conversation_state.templates import Placeholder, Template
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.usage import Usage

__all__ = ["WRITES", "bare", "with_kind"]


def _template_out(template: Template) -> Object:
    """
    A template: each item says whether it is a message or a place for others.
    """
    items: list[Object] = []
    for item in template.items:
        if not isinstance(item, Placeholder):
            items.append({"message": message_out(item)})
        elif item.optional:
            items.append({"placeholder": item.key, "optional": True})
        else:
            items.append({"placeholder": item.key})

    data: Object = {"items": items}
    if template.syntax != "fstring":
        data["syntax"] = template.syntax

    return data


def _record_out(entries: Iterable[Entry], ledger: Iterable[LedgerEntry]) -> Object:
    return {
        "entry_ids": [entry[0] for entry in entries],
        "messages": [message_out(entry[1]) for entry in entries],
        "ledger": [ledger_out(entry) for entry in ledger],
    }


def _aggregator_out(state: Aggregator) -> Object:
    """
    All that makes a state one.

    Identities stand beside the messages, not in them, so that a message is
    written alike wherever it is.
    """
    return {**origin_out(state), **_record_out(state.entries, state.ledger)}


def _turn_out(turn: Turn) -> Object:
    """
    What was added, without the past.
    """
    data: Object = {"id": turn.id}
    if turn.parent_id is not None:
        data["parent_id"] = turn.parent_id

    return {**data, **_record_out(turn.entries, turn.ledger)}


def _checkpoint_out(checkpoint: Checkpoint) -> Object:
    """
    The label and the state.
    """
    return {"label": checkpoint.label, "state": _aggregator_out(checkpoint.state)}


# The kind of document that each class is written as, and how it is written.
WRITES: dict[type, tuple[str, Write]] = {
    **{kind: ("message", write) for kind, write in MESSAGES.items()},
    **dict.fromkeys(PARTS, ("part", part_out)),
    Aggregator: ("aggregator", _aggregator_out),
    Checkpoint: ("checkpoint", _checkpoint_out),
    Document: ("document", document_out),
    Messages: ("messages", messages_out),
    Template: ("template", _template_out),
    Timeline: ("timeline", lambda timeline: timeline_out(timeline, with_kind)),
    ToolCall: ("tool_call", tool_call_out),
    ToolInfo: ("tool_info", tool_info_out),
    Turn: ("turn", _turn_out),
    Usage: ("usage", usage_out),
    list: ("messages", messages_out),
    tuple: ("messages", messages_out),
}


def bare(value: Any) -> Any:
    """
    A value of ours without its envelope.
    """
    if type(value) not in WRITES:
        raise not_ours(value)

    _, write = WRITES[type(value)]
    return write(value)


def with_kind(value: Any) -> Object | None:
    """
    A value of ours as a document without the envelope: its kind, and what that
    has. None if it is not ours.
    """
    if type(value) not in WRITES:
        return None

    kind, write = WRITES[type(value)]
    body = write(value)
    return {"kind": kind, **body} if kind in SPREAD else {"kind": kind, kind: body}
