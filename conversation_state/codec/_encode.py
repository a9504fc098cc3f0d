"""
Writes documents: states, templates, and the writer of each class.

Messages and their contents are in `_encode_messages`, timelines in
`_encode_timeline`.
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
from conversation_state.codec._encode_messages import (
    MESSAGES,
    Object,
    Write,
    unsupported_type,
    write_document,
    write_ledger_entry,
    write_message,
    write_messages,
    write_origin,
    write_tool_call,
    write_tool_info,
    write_usage,
)
from conversation_state.codec._encode_timeline import write_timeline
from conversation_state.codec._format import INLINE_KINDS
from conversation_state.codec._writers import PARTS
from conversation_state.documents import Document
from conversation_state.templates import Placeholder, Template
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage


def _write_template(template: Template) -> Object:
    items: list[Object] = []
    for item in template.items:
        if not isinstance(item, Placeholder):
            items.append({"message": write_message(item)})
        elif item.optional:
            items.append({"placeholder": item.key, "optional": True})
        else:
            items.append({"placeholder": item.key})

    data: Object = {"items": items}
    if template.syntax != "fstring":
        data["syntax"] = template.syntax

    return data


def _write_logs(entries: Iterable[Entry], ledger: Iterable[LedgerEntry]) -> Object:
    return {
        "entry_ids": [entry[0] for entry in entries],
        "messages": [write_message(entry[1]) for entry in entries],
        "ledger": [write_ledger_entry(entry) for entry in ledger],
    }


def _write_aggregator(state: Aggregator) -> Object:
    # Identities are next to the messages, not in them, so that a message is written
    # in the same way everywhere.
    return {**write_origin(state), **_write_logs(state.entries, state.ledger)}


def _write_turn(turn: Turn) -> Object:
    data: Object = {"id": turn.id}
    if turn.parent_id is not None:
        data["parent_id"] = turn.parent_id

    return {**data, **_write_logs(turn.entries, turn.ledger)}


def _write_checkpoint(checkpoint: Checkpoint) -> Object:
    return {"label": checkpoint.label, "state": _write_aggregator(checkpoint.state)}


def _write_message_tree(tree: MessageTree) -> Object:
    """
    Its states as a timeline, the one that is shown as the present and the last.
    """
    first, *others = tree.states
    timeline = Timeline.begin(first)
    for state in others:
        timeline = timeline.commit(state)

    # A state equal to the present one needs no moment of its own.
    if tree.shown != timeline.present:
        timeline = timeline.commit(tree.shown)

    return write_timeline(timeline, write_with_kind)


# The kind of document and the writer of each class.
WRITES: dict[type, tuple[str, Write]] = {
    **{kind: ("message", write) for kind, write in MESSAGES.items()},
    **{kind: ("part", write) for kind, write in PARTS.items()},
    Aggregator: ("aggregator", _write_aggregator),
    Checkpoint: ("checkpoint", _write_checkpoint),
    Document: ("document", write_document),
    MessageTree: ("message_tree", _write_message_tree),
    Messages: ("messages", write_messages),
    Template: ("template", _write_template),
    Timeline: ("timeline", lambda timeline: write_timeline(timeline, write_with_kind)),
    ToolCall: ("tool_call", write_tool_call),
    ToolInfo: ("tool_info", write_tool_info),
    Turn: ("turn", _write_turn),
    Usage: ("usage", write_usage),
    list: ("messages", write_messages),
    tuple: ("messages", write_messages),
}


def write_body(value: Any) -> Any:
    """
    A value of this library without its envelope.
    """
    if type(value) not in WRITES:
        raise unsupported_type(value)

    _, write = WRITES[type(value)]
    return write(value)


def write_with_kind(value: Any) -> Object | None:
    """
    A value of this library as a document without the envelope: its kind and body.
    None if it is of another class.
    """
    if type(value) not in WRITES:
        return None

    kind, write = WRITES[type(value)]
    body = write(value)
    return (
        {"kind": kind, **body} if kind in INLINE_KINDS else {"kind": kind, kind: body}
    )
