"""
Reads documents: the envelope, states, templates, and the reader of each kind.

Messages, tools and documents are in `_decode_messages`, timelines in
`_decode_timeline`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any

from conversation_state._canonical import (
    JsonPath,
    check_acyclic,
    describe_json,
)
from conversation_state._persistent import Log
from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator, Checkpoint, Turn
from conversation_state.codec._decode_messages import (
    DOCUMENT,
    TOOL_INFO,
    read_message,
    read_messages,
    read_part,
    read_tool_call,
    read_usage,
    strict_shape,
)
from conversation_state.codec._decode_timeline import timeline_reader
from conversation_state.codec._entries import (
    MESSAGE_FIELDS,
    ORIGIN_FIELDS,
    check_same_length,
    make_entry,
    read_ledger,
)
from conversation_state.codec._fast import DOUBTS, Doubt, read_uuid
from conversation_state.codec._format import ENVELOPE, FORMAT, INLINE_KINDS, VERSION
from conversation_state.codec._reader import (
    CodecReader,
    Read,
    Shape,
    array_reader,
    object_reader,
)
from conversation_state.documents import Document
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import Message
from conversation_state.parts import Part
from conversation_state.templates import Placeholder, Template
from conversation_state.timeline import Timeline
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.tree import MessageTree
from conversation_state.usage import Usage

_EMPTY_LOG: Log[Any] = Log()

# States


def _read_state_or_turn(
    reader: CodecReader, raw: Any, path: JsonPath, shape: Shape
) -> Any:
    if not reader.is_object(raw, path):
        return None

    before = reader.problems.count
    given = reader.read_fields(raw, path, shape)
    check_same_length(reader, given, path)
    ids, messages = given.pop("entry_ids", None), given.pop("messages", None)
    ledger = given.get("ledger")
    for name, items in (("init_len", messages), ("init_ledger_len", ledger)):
        length = given.get(name)
        if items is None or length is None:
            continue

        if not 0 <= length <= len(items):
            what = f"is {length}; expected 0 to {len(items)}, the entries there are"
            reader.problems.add((path, name), what)

    are_valid = reader.problems.count == before
    _check_unique(reader, ids or [], (path, "entry_ids"))
    ledger_ids = [each and each.id for each in ledger or ()]
    _check_unique(reader, ledger_ids, (path, "ledger"), "id")
    if not are_valid:
        return None

    pairs = zip(ids or (), messages or (), strict=True)
    given = {"parent_id": None, **given, "entries": list(map(make_entry, pairs))}
    try:
        return shape.make(**given)
    except InvalidUsageError as error:
        reader.problems.add((path, "ledger"), str(error))
    except ValueError:  # an identity more than once
        if reader.problems.count == before:
            raise

    return None


def _check_unique(
    reader: CodecReader, ids: list[Any], path: JsonPath, field: str = ""
) -> None:
    # Nearly always, and in a tenth of the time of looking at each.
    if len({*ids}) == len(ids):
        return

    first: dict[str, int] = {}
    for i, id in enumerate(ids):
        if id is not None and first.setdefault(id, i) != i:
            where = ((path, i), field) if field else (path, i)
            reader.problems.add(where, f"the same as at {first[id]}")


def _make_aggregator(
    entries: list[Any], ledger: list[Any], **fields: Any
) -> Aggregator:
    # `Aggregator.rebuild` would check all that is checked here once more.
    return Aggregator.rebuild_from_logs(
        entries=_EMPTY_LOG.extend(entries), ledger=_EMPTY_LOG.extend(ledger), **fields
    )


_TURN = strict_shape(
    Turn.rebuild,
    *("id", "entry_ids", "messages", "ledger"),
    id=CodecReader.uuid,
    parent_id=CodecReader.uuid,
    **MESSAGE_FIELDS,
    ledger=read_ledger,
)
_AGGREGATOR = strict_shape(
    _make_aggregator,
    *(*_TURN.required, "root_id", "init_len", "init_ledger_len"),
    **ORIGIN_FIELDS,
    **MESSAGE_FIELDS,
    ledger=read_ledger,
)
_read_aggregator = partial(_read_state_or_turn, shape=_AGGREGATOR)
_CHECKPOINT = strict_shape(
    Checkpoint, "state", state=_read_aggregator, label=CodecReader.text
)
_USUAL_FIELDS = len(ENVELOPE) + len(_AGGREGATOR.required)


def _read_usual_state(reader: CodecReader, data: Any) -> Aggregator:
    """
    The state that a parsed document is of, if it is written as the codec writes it;
    else what `DOUBTS` are raised.

    For a state of a few messages the general way takes half as long again.
    """
    ids, raw, entries = data["entry_ids"], data["messages"], data["ledger"]
    length, ledger_length = data["init_len"], data["init_ledger_len"]
    version, parent_id = data["version"], data.get("parent_id")
    if (
        data["kind"] != "aggregator"
        or data["format"] != FORMAT
        or version.__class__ is not int  # true equals 1
        or version != VERSION
        or not ids.__class__ is raw.__class__ is entries.__class__ is list
        or not length.__class__ is ledger_length.__class__ is int
        # There are no unknown fields, which would be problems.
        or len(data) != _USUAL_FIELDS + (parent_id is not None)
        or not {str}.issuperset(map(type, ids))
    ):
        raise Doubt

    messages: Any = read_messages(reader, raw, (None, "messages"))
    ledger = read_ledger(reader, entries, (None, "ledger")) if entries else ()
    if (
        reader.problems.count
        # This also finds more or fewer identities than messages.
        or len({*ids}) != len(messages)
        or len({*map(itemgetter(0), ledger)}) != len(ledger)
    ):
        raise Doubt

    return Aggregator.rebuild_from_logs(
        id=read_uuid(data["id"], reader.seen),
        parent_id=None if parent_id is None else read_uuid(parent_id, reader.seen),
        root_id=read_uuid(data["root_id"], reader.seen),
        init_len=length,
        init_ledger_len=ledger_length,
        entries=_EMPTY_LOG.extend(map(make_entry, zip(ids, messages, strict=True))),
        ledger=_EMPTY_LOG.extend(ledger),
    )


# Templates


def _read_template_item(reader: CodecReader, raw: Any, path: JsonPath) -> Any:
    is_place = raw.__class__ is dict and "placeholder" in raw
    return reader.read_object(
        raw, path, _PLACEHOLDER_ITEM if is_place else _MESSAGE_ITEM
    )


_MESSAGE_ITEM = strict_shape(lambda message: message, "message", message=read_message)
_PLACEHOLDER_ITEM = strict_shape(
    lambda placeholder, optional=False: Placeholder(placeholder, optional),
    "placeholder",
    placeholder=CodecReader.text,
    optional=CodecReader.boolean,
)
_TEMPLATE = strict_shape(
    lambda items, syntax="fstring": Template(*items, syntax=syntax),
    "items",
    items=array_reader(_read_template_item),
    syntax=CodecReader.text,
)


# Timelines


def _read_moment_state(reader: CodecReader, raw: dict[str, Any], path: JsonPath) -> Any:
    """
    A state of a timeline that is not an aggregator: a document without envelope.
    """
    kinds = reader.kinds or READS
    what = _kind_problem(kinds, raw["kind"])
    if what:
        reader.problems.add((path, "kind"), what)
    elif raw["kind"] == "timeline":
        reader.problems.add((path, "kind"), "a timeline can't be a state of a timeline")
    else:
        return _read_body(reader, kinds, raw, path)

    return None


# Message trees


_READ_TREE_STATES = timeline_reader(_read_moment_state)


def _read_message_tree(
    reader: CodecReader, raw: Any, path: JsonPath
) -> MessageTree | None:
    before = reader.problems.count
    timeline = _READ_TREE_STATES(reader, raw, path)
    if timeline is None or reader.problems.count != before:
        return None

    for number, moment in enumerate(timeline.moments):
        if not isinstance(moment.state, Aggregator):
            where = ((path, "moments"), number)
            reader.problems.add(where, "its state is no state of a conversation")

    if reader.problems.count != before:
        return None

    return MessageTree.of(timeline)


# Documents


# The class and the reader of each kind of document.
READS: dict[str, tuple[type, Read]] = {
    "aggregator": (Aggregator, _read_aggregator),
    "checkpoint": (Checkpoint, object_reader(_CHECKPOINT)),
    "document": (Document, object_reader(DOCUMENT)),
    "message": (Message, read_message),
    "message_tree": (MessageTree, _read_message_tree),
    "messages": (tuple, read_messages),
    "part": (Part, read_part),
    "template": (Template, object_reader(_TEMPLATE)),
    "timeline": (Timeline, timeline_reader(_read_moment_state)),
    "tool_call": (ToolCall, read_tool_call),
    "tool_info": (ToolInfo, object_reader(TOOL_INFO)),
    "turn": (Turn, partial(_read_state_or_turn, shape=_TURN)),
    "usage": (Usage, read_usage),
}


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
    if is_parsed and data.__class__ is dict and expect in (None, Aggregator):
        reader = CodecReader(is_parsed=True)
        with suppress(*DOUBTS):
            return _read_usual_state(reader, data), reader

    reader = CodecReader(is_parsed=is_parsed)
    problems = reader.problems
    # Readers recurse, and would never end; what a parser made holds itself nowhere.
    if not is_parsed and data.__class__ is dict:
        check_acyclic(data)

    if not reader.is_object(data, None):
        return None, reader

    for name, wrong in (
        ("format", _format_problem),
        ("version", _version_problem),
        ("kind", partial(_kind_problem, kinds)),
    ):
        what = wrong(data[name]) if name in data else "missing"
        if what:
            problems.add((None, name), what)

    if problems.count:
        return None, reader

    kind = data["kind"]
    made, _ = kinds[kind]
    if expect and not _can_be(made, expect):
        what = f"expected {expect.__name__}, got {shorten_repr(kind)}"
        problems.add((None, "kind"), what)
        return None, reader

    reader.kinds = kinds
    value = _read_body(reader, kinds, data, None)
    if expect and not problems.count and not isinstance(value, expect):
        what = f"expected {expect.__name__}, got {type(value).__name__}"
        problems.add(None, what)

    return value, reader


def _read_body(
    reader: CodecReader,
    kinds: Mapping[str, tuple[type, Read]],
    data: Any,
    path: JsonPath,
) -> Any:
    """
    Read the body: all of *data* but its kind and its envelope, if it has one.
    """
    kind = data["kind"]
    made, read = kinds[kind]
    known = ENVELOPE if path is None else {"kind"}
    body = {name: value for name, value in data.items() if name not in known}
    if kind in INLINE_KINDS:
        value = read(reader, body, path)
    else:
        field = kind if kind in READS else "value"
        alone = strict_shape(dict, field, **{field: read})
        value = reader.read_fields(body, path, alone).get(field)

    return tuple(value) if made is tuple and value is not None else value


def _can_be(made: type, expect: type) -> bool:
    """
    Whether a document whose values are of class *made* may hold one of *expect*.
    """
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


def _kind_problem(kinds: Mapping[str, Any], given: Any) -> str:
    if given.__class__ is str and given in kinds:
        return ""

    known = ", ".join(sorted(kinds))
    return f"unknown kind {describe_json(given)}; expected one of {known}"
