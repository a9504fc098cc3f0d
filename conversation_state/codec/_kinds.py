"""Documents: their envelope, and how each kind is read and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from conversation_state._canonical import (
    JsonPath,
    check_acyclic,
    describe_json,
    is_loadable,
)
from conversation_state._wording import is_of_other_format, name_load, shorten_repr
from conversation_state.aggregator import Aggregator, Checkpoint, Messages, Turn
from conversation_state.codec._fast import (
    MESSAGE_WRITERS,
    PART_WRITERS,
    UNUSUAL_ERRORS,
    Object,
    write_tool_call,
    write_usage,
)
from conversation_state.codec._format import FORMAT, INLINE_KINDS, VERSION
from conversation_state.codec._messages import (
    read_message,
    read_messages,
    read_part,
    read_tool_call,
    read_usage,
    write_messages,
)
from conversation_state.codec._reader import CodecReader, Problems, Read, object_reader
from conversation_state.codec._states import (
    read_aggregator,
    read_checkpoint,
    read_turn,
    read_usual_state,
    write_aggregator,
    write_checkpoint,
    write_turn,
)
from conversation_state.codec._timelines import (
    read_message_tree,
    read_timeline,
    write_message_tree,
    write_timeline,
)
from conversation_state.codec._tools import (
    DOCUMENT,
    TEMPLATE,
    TOOL_INFO,
    write_document,
    write_template,
    write_tool_info,
)
from conversation_state.documents import Document
from conversation_state.messages import Message
from conversation_state.parts import Part
from conversation_state.templates import Template
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage

Write: TypeAlias = "Callable[[Any], Any]"


def _read_message_tuple(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    return tuple(read_messages(reader, raw, path) or ())


# The class and the reader of each kind of document.
READS: dict[str, tuple[type, Read]] = {
    "aggregator": (Aggregator, read_aggregator),
    "checkpoint": (Checkpoint, read_checkpoint),
    "document": (Document, object_reader(DOCUMENT)),
    "message": (Message, read_message),
    "message_tree": (MessageTree, read_message_tree),
    "messages": (tuple, _read_message_tuple),
    "part": (Part, read_part),
    "template": (Template, object_reader(TEMPLATE)),
    "timeline": (Timeline, read_timeline),
    "tool_call": (ToolCall, read_tool_call),
    "tool_info": (ToolInfo, object_reader(TOOL_INFO)),
    "turn": (Turn, read_turn),
    "usage": (Usage, read_usage),
}

# The kind of document and the writer of each class.
WRITES: dict[type, tuple[str, Write]] = {
    **{kind: ("message", write) for kind, write in MESSAGE_WRITERS.items()},
    **{kind: ("part", write) for kind, write in PART_WRITERS.items()},
    Aggregator: ("aggregator", write_aggregator),
    Checkpoint: ("checkpoint", write_checkpoint),
    Document: ("document", write_document),
    MessageTree: (
        "message_tree",
        lambda tree: write_message_tree(tree, write_with_kind),
    ),
    Messages: ("messages", write_messages),
    Template: ("template", write_template),
    Timeline: ("timeline", lambda timeline: write_timeline(timeline, write_with_kind)),
    ToolCall: ("tool_call", write_tool_call),
    ToolInfo: ("tool_info", write_tool_info),
    Turn: ("turn", write_turn),
    Usage: ("usage", write_usage),
    list: ("messages", write_messages),
    tuple: ("messages", write_messages),
}


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


def read_document(
    data: Any,
    kinds: Mapping[str, tuple[type, Read]],
    expect: type | None,
    *,
    is_parsed: bool,
) -> tuple[Any, CodecReader]:
    """
    The value of a document, and its reader.

    The value is valid only if the reader found no problems.
    """
    is_plain = is_parsed
    if data.__class__ is dict:
        if expect in (None, Aggregator):
            reader = CodecReader(is_plain=True)
            with suppress(*UNUSUAL_ERRORS):
                return read_usual_state(reader, data, is_parsed=is_parsed), reader

        is_plain = is_parsed or is_loadable(data)
        if not is_plain:
            check_acyclic(data)  # readers recurse, and would never end

    reader = CodecReader(kinds=kinds, is_plain=is_plain)
    problems = reader.problems
    if not reader.is_object(data, None):
        _add_advice(problems, data)
        return None, reader

    for name, wrong in (("format", _format_problem), ("version", _version_problem)):
        what = wrong(data[name]) if name in data else _missing_problem(name, data)
        if what:
            problems.add((None, name), what)

    kind = reader.find_kind(data, None)
    if problems.count:
        return None, reader

    made, _ = kinds[kind]
    if expect and not _can_be(made, expect):
        what = f"expected {expect.__name__}, got {shorten_repr(kind)}"
        problems.add((None, "kind"), what)
        return None, reader

    value = reader.read_body(data, None)
    if expect and not problems.count and not isinstance(value, expect):
        what = f"expected {expect.__name__}, got {type(value).__name__}"
        problems.add(None, what)

    return value, reader


def _missing_problem(name: str, data: Mapping[str, Any]) -> str:
    is_foreign = name == "format" and is_of_other_format(data)
    return f"missing; {_advise(data)}" if is_foreign else "missing"


def _add_advice(problems: Problems, data: Any) -> None:
    # A list of messages is what providers take, and no document of ours.
    first = data[0] if isinstance(data, list) and data else None
    if isinstance(first, dict) and is_of_other_format(first):
        problems.add(None, _advise(data))


def _advise(data: Any) -> str:
    return (
        "this is no JSON of this library's; if it is a provider's, load it: "
        f"Aggregator.new({name_load(data)}), with the adapter from "
        "conversation_state.adapters"
    )


def _can_be(made: type, expect: type) -> bool:
    """Whether a document whose values are of class *made* may hold one of *expect*."""
    try:
        return issubclass(made, expect) or issubclass(expect, made)
    except TypeError:
        raise TypeError(f"expect is {shorten_repr(expect)}; expected a class") from None


def _format_problem(given: Any) -> str:
    return "" if given == FORMAT else f"expected {FORMAT!r}, got {describe_json(given)}"


def _version_problem(given: Any) -> str:
    if given.__class__ is not int or given < 1:
        return f"expected an integer from 1 on, got {describe_json(given)}"

    if given > VERSION:
        return (
            "written by a newer version of conversation_state (format "
            f"{describe_json(given)}, and this one reads up to {VERSION}); upgrade it "
            "to read this"
        )

    return ""
