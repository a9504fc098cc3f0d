"""From files to trees: which format a payload is in, and where its records stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import attrs

from conversation_state._canonical import is_loadable
from conversation_state._persistent import EMPTY_MAP, final, freeze_map
from conversation_state._wording import shorten_repr
from conversation_state.adapters.engine.notes import with_notes
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    is_list,
    is_map,
    is_same_value,
    mended,
)
from conversation_state.adapters.engine.wire import read_time
from conversation_state.adapters.message_trees._forms import (
    FORMS,
    SOURCE,
    Body,
    read_record,
    write_whole,
)
from conversation_state.aggregator import Aggregator
from conversation_state.errors import DecodeError, InvalidUsageError, Problem
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UnknownMessage,
    read_usage,
)
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree

# The parent of LibreChat's first messages, and of Claude.ai's.
NO_PARENT = "00000000-0000-0000-0000-000000000000"
_NO_PARENTS = (
    frozenset({"", NO_PARENT}),
    frozenset({"", NO_PARENT, "00000000-0000-4000-8000-000000000000"}),
)

# What is noted of a conversation that its own keys do not say: where its messages
# stood, and which was shown. No format has such a key.
LAYOUT = "conversation_state"

_EXPECTED = (
    "expected an archive of ChatGPT (mapping), Claude.ai (chat_messages) or Open WebUI "
    "(chat.history), an export of LibreChat (conversationId) or of assistant-ui "
    "(messages with parentId), or its storage rows (parent_id)"
)


@final
@attrs.frozen
class LoadedTree:
    """
    One conversation of a file.

    Attributes:
        name: Its id in the file; "" in the formats of assistant-ui, which have none.
        title: Its title; "" if it has none.
        tree: Its messages, with the one that the file names shown; else the newest.
        created_at: When it began: as the file says, or else its first message.
        updated_at: When it was changed last: as the file says, or else its newest
            message; None if nothing has a time.
        notes: What the file has of it besides its messages, by key.
        problems: What was wrong and could be read all the same, each with its path.
        format: The format it was read in.
    """

    name: str
    title: str
    tree: MessageTree
    created_at: datetime | None = None
    updated_at: datetime | None = None
    notes: Mapping[str, Any] = EMPTY_MAP
    problems: tuple[str, ...] = ()
    format: str = ""


class TreeRecord(NamedTuple):
    """
    One record as it stands in its file.

    Attributes:
        id: Its id.
        parent: The id of its parent; None for a first message.
        body: What it says, without ids; None in ChatGPT's for none.
        item: Keys that are around the body.
        listed: Its children, as the file lists them; None if it does not.
        path: Where it stands.
        written: Its parent's id as it was written, in a list; [] if the key is missing.
    """

    id: str
    parent: str | None
    body: Body | None
    item: Body
    listed: Sequence[Any] | None
    path: str
    written: list[Any]


def load_trees(
    payload: Any,
    *,
    format: str | None = None,  # noqa: A002 - what there is in a file is its format
) -> Iterator[LoadedTree | DecodeError]:
    """
    The conversations of *payload*, one after another: each as a tree, or as the
    `DecodeError` that says why it can't be one.

    A record stands behind the one that it names as its parent; lists of children only
    order siblings. Its usage is in the ledger. One whose parent is missing is a first
    message, and a problem. A record that can't be read is an `UnknownMessage`, and a
    problem. Ids that stand twice, a record that is its own ancestor, and a
    conversation without messages are errors.

    O(messages), however deep the tree is.

    Args:
        payload: What `json.load` returns for a file.
        format: ``assistant_ui``, ``assistant_ui_rows``, ``chatgpt``, ``claude_ai``,
            ``librechat`` or ``open_webui``; by default it is recognised, for each
            conversation.

    Raises:
        DecodeError: If *payload* is neither a conversation nor a list of them.
        ValueError: If there is no such format.

    >>> said = {"role": "user", "content": [{"type": "text", "text": "Hi!"}]}
    >>> item = {"parentId": None, "message": {"id": "m1", **said}}
    >>> [loaded] = load_trees({"headId": "m1", "messages": [item]})
    >>> loaded.tree.find("m1") == loaded.tree.head
    True
    """
    if format is not None and format not in FORMS:
        expected = ", ".join(sorted(FORMS))
        raise ValueError(f"format is {shorten_repr(format)}; expected {expected}")

    # A bare list of rows or items is one conversation.
    is_bare = is_list(payload) and bool(payload) and _item_format(payload[0]) != ""
    if is_map(payload) or is_bare:
        found = [("$", payload)]
    elif is_list(payload):
        found = [(f"$[{at}]", each) for at, each in enumerate(payload)]
    else:
        what = f"is {shorten_repr(payload)}; {_EXPECTED}"
        raise DecodeError((Problem("$", what),))

    return _load_each(found, format)


def _load_each(
    found: list[tuple[str, Any]], kind: str | None
) -> Iterator[LoadedTree | DecodeError]:
    for path, raw in found:
        try:
            yield _load_one(raw, path, kind)
        except DecodeError as error:
            yield error


class _PlainReader(DocumentReader):
    """The reader of a document that can be kept as it is."""

    def rest(
        self,
        raw: Mapping[Any, Any],
        known: frozenset[str],
        path: str,  # noqa: ARG002 - as the base class
        depth: int = 0,  # noqa: ARG002 - the same
    ) -> dict[str, Any]:
        return {key: raw[key] for key in raw if key not in known}


def _load_one(raw: Any, path: str, kind: str | None) -> LoadedTree:
    # Most have nothing to be mended, and looking at each value takes a quarter of the
    # time.
    if is_loadable(raw):
        with suppress(ValueError):  # NaN, say, of which another reader has the path
            return _load_with(_PlainReader(), raw, path, kind)

    return _load_with(DocumentReader(), raw, path, kind)


def _load_with(
    reader: DocumentReader, raw: Any, path: str, kind: str | None
) -> LoadedTree:
    name = kind or _recognize_export(raw)
    if name not in _PLACES:
        what = "mapping is missing" if _is_chatgpt(raw) else f"unknown; {_EXPECTED}"
        raise DecodeError((Problem(path, what),))

    found = _read_records(reader, raw, path, name)
    reader.finish()
    if not any(record.body is not None for record in found[0]):
        reader.problem(path, "has no messages")
        reader.finish()

    tree = _TreeBuilder(reader, name, path, found).build()
    halves = [
        f"{each}: half of a surrogate pair became U+FFFD" for each in reader.mended
    ]
    return attrs.evolve(tree, problems=(*tree.problems, *halves)) if halves else tree


def _item_format(item: Any) -> str:
    if not is_map(item):
        return ""

    if "parent_id" in item and "content" in item:
        return "assistant_ui_rows"

    return "assistant_ui" if "parentId" in item and "message" in item else ""


def _recognize_export(raw: Any) -> str:
    if is_list(raw):
        return _item_format(raw[0]) if raw else ""

    if not is_map(raw):
        return ""

    chat, messages = raw.get("chat"), raw.get("messages")
    item = messages[0] if is_list(messages) and messages else None
    is_librechat = "conversationId" in raw and (
        "messages" in raw or "messagesTree" in raw
    )
    tries = (
        ("mapping" in raw, "chatgpt"),
        (is_map(chat) and "history" in chat, "open_webui"),
        ("chat_messages" in raw, "claude_ai"),
        (_item_format(item) != "", _item_format(item)),
        (is_librechat, "librechat"),
        ("headId" in raw, "assistant_ui"),
    )
    return next((name for is_it, name in tries if is_it), "")


def _is_chatgpt(raw: Any) -> bool:
    return is_map(raw) and not raw.keys().isdisjoint(
        {"current_node", "conversation_id", "create_time", "default_model_slug"}
    )


# Where records stand


class _RecordKeys(NamedTuple):
    # The keys of a record: of its id, its parent's and its children's, and of its body,
    # which is the record itself where that is "".
    id: str
    parent: str
    children: str
    body: str


_PLACES = {
    "assistant_ui": _RecordKeys("", "parentId", "", "message"),
    "assistant_ui_rows": _RecordKeys("id", "parent_id", "", "content"),
    "chatgpt": _RecordKeys("id", "parent", "children", "message"),
    "claude_ai": _RecordKeys("uuid", "parent_message_uuid", "", ""),
    "librechat": _RecordKeys("messageId", "parentMessageId", "children", ""),
    "open_webui": _RecordKeys("id", "parentId", "childrenIds", ""),
}


def _read_records(reader: DocumentReader, raw: Any, path: str, kind: str) -> _Found:
    items, head, rest = _find_items(reader, raw, path, kind)
    records = []
    for key, item, where, above in items:
        if is_map(item):
            record = _read_record(reader, kind, key, item, where, above)
            records += [record] if record else []
        else:
            reader.wrong(where, item, "an object")

    return records, head, rest


# All records, the id of the one that is shown, and what else there is.
_Found: TypeAlias = tuple[list[TreeRecord], object, dict[str, Any]]

# The key of a record in a map, or None; the record; where; the id of one it stands in.
_Item: TypeAlias = tuple[str | None, Any, str, str | None]


def _find_items(  # noqa: PLR0911 - one for each format, and what is wrong with it
    reader: DocumentReader, raw: Any, path: str, kind: str
) -> tuple[Iterable[_Item], object, dict[str, Any]]:
    if is_list(raw):
        layout = {LAYOUT: {"is_list": True}}
        return _list_items(raw, path), None, layout

    if not is_map(raw):
        reader.wrong(path, raw, "an object")
        return (), None, {}

    if kind == "open_webui":
        chat = raw.get("chat")
        history = chat.get("history") if is_map(chat) else None
        found = history.get("messages") if is_map(history) else None
        if not is_map(chat) or not is_map(history) or not is_map(found):
            reader.problem(path, "chat.history.messages is missing; expected an object")
            return (), None, {}

        where = f"{path}.chat.history"
        rest = reader.rest(raw, frozenset({"chat"}), path)
        rest["chat"] = reader.rest(chat, frozenset({"history"}), f"{path}.chat")
        rest["chat"]["history"] = reader.rest(history, frozenset({"messages"}), where)
        return _map_items(found, f"{where}.messages"), history.get("currentId"), rest

    if kind == "chatgpt":
        mapping = raw.get("mapping")
        if not is_map(mapping):
            reader.problem(path, "mapping is missing; expected an object of messages")
            return (), None, {}

        rest = reader.rest(raw, frozenset({"mapping"}), path)
        return _map_items(mapping, f"{path}.mapping"), raw.get("current_node"), rest

    if kind == "librechat":
        return _find_librechat(reader, raw, path)

    key = "chat_messages" if kind == "claude_ai" else "messages"
    messages, rest = raw.get(key), reader.rest(raw, frozenset({key}), path)
    if not is_list(messages):
        reader.problem(path, f"has no list of {key}")
        return (), None, {}

    if kind == "claude_ai":
        items = _list_chain(messages, f"{path}.{key}")
        return items, raw.get("current_leaf_message_uuid"), rest

    return _list_items(messages, f"{path}.{key}"), raw.get("headId"), rest


def _find_librechat(
    reader: DocumentReader, raw: Body, path: str
) -> tuple[Iterable[_Item], object, dict[str, Any]]:
    key = "messagesTree" if "messagesTree" in raw else "messages"
    messages, rest = raw.get(key), reader.rest(raw, frozenset({key}), path)
    if not is_list(messages):
        reader.problem(path, f"has no list of {key}")
        return (), None, {}

    items = _list_nested(messages, f"{path}.{key}")
    is_nested = any(is_map(each) and "children" in each for _, each, _, _ in items)
    nesting = {"key": key, "is_nested": is_nested}
    return items, None, {**rest, LAYOUT: nesting}


def _list_items(items: Sequence[Any], path: str) -> Iterator[_Item]:
    return ((None, each, f"{path}[{at}]", None) for at, each in enumerate(items))


def _list_chain(messages: Sequence[Any], path: str) -> list[_Item]:
    # Older exports name no parents: each message stands behind the one before it.
    before = [None, *[each.get("uuid") if is_map(each) else None for each in messages]]
    return [
        (None, each, f"{path}[{at}]", above)
        for at, (each, above) in enumerate(zip(messages, before, strict=False))
    ]


def _map_items(items: Mapping[str, Any], path: str) -> Iterator[_Item]:
    return (
        (key, each, f"{path}.{mended(str(key))}", None) for key, each in items.items()
    )


def _list_nested(messages: Sequence[Any], path: str) -> list[_Item]:
    # Depth first, in the order of the file: the next one is the last of those to do.
    found: list[_Item] = []
    todo = [*_list_items(messages, path)][::-1]
    while todo:
        found.append(todo.pop())
        item = found[-1][1]
        if is_map(item) and is_list(below := item.get("children")):
            id = item.get("messageId")
            # The path of a message that is 10,000 levels deep would be endless.
            where = f"{path}..{shorten_repr(id)}.children"
            inner = [(*each[:3], id) for each in _list_items(below, where)]
            todo += inner[::-1]

    return found


def _read_record(  # noqa: PLR0917 - where it stands
    reader: DocumentReader,
    kind: str,
    key: str | None,
    item: Body,
    path: str,
    above: str | None,
) -> TreeRecord | None:
    place = _PLACES[kind]
    body = item.get(place.body) if place.body else item
    if body is None and kind == "chatgpt":
        said = None
    elif not is_map(body):
        reader.wrong(f"{path}.{place.body}", body, "an object")
        return None
    else:
        # In assistant-ui's items the body has the id, which is not part of it.
        ids = {place.id or "id", place.parent, place.children}
        if kind == "claude_ai":
            ids.remove("uuid")  # of which ids of calls are made

        is_inner = bool(place.body and place.id)
        said = reader.rest(body, frozenset() if is_inner else frozenset(ids), path)

    own = reader.json(
        (item if place.id else body or {}).get(place.id or "id"), f"{path}.id"
    )
    id = own if key is None else reader.json(key, path)
    parent = reader.json(item.get(place.parent, above), f"{path}.{place.parent}")
    if not isinstance(id, str) or not id:
        reader.wrong(f"{path}.id", id, "a text that is not empty")
        return None

    if parent is not None and not isinstance(parent, str):
        reader.wrong(f"{path}.{place.parent}", parent, "the id of a message, or null")
        return None

    around: dict[str, Any] = {}
    if place.body and kind != "chatgpt":
        around = reader.rest(item, frozenset(place), path)
    elif kind == "open_webui" and own != id:
        # The key of a message is its id; its own is kept where that is another.
        around = {"own_id": [own] if "id" in item else []}

    listed = item.get(place.children) if key is not None else None
    if is_list(listed):
        listed = reader.json(listed, f"{path}.{place.children}")

    return TreeRecord(
        id=id,
        parent=None if parent in _NO_PARENTS[kind == "claude_ai"] else parent,
        body=said,
        item=around,
        listed=listed if is_list(listed) else None,
        path=path,
        written=[parent] if place.parent in item else [],
    )


# The tree they make


class _TreeBuilder:
    # One conversation while its tree is made.

    def __init__(
        self, reader: DocumentReader, name: str, path: str, found: _Found
    ) -> None:
        self.reader, self.path = reader, path
        self.records, self.shown, self.rest = found
        self.format = name
        self.form = FORMS[name]
        self.problems: list[str] = []
        self.times: list[datetime] = []
        self.is_reordered = False
        ids = [self.rest.get(key) for key in _IDS]
        self.name = next((id for id in ids if isinstance(id, str)), "")
        self.places = {record.id: at for at, record in enumerate(self.records)}
        self.children: dict[str | None, list[str]] = {}

    def build(self) -> LoadedTree:
        self._check_ids()
        self._order_children()
        order = self._iterate_down()
        if len(order) < len(self.records):
            seen = {record.id for record in order}
            lost = next(each for each in self.records if each.id not in seen)
            self.reader.problem(lost.path, "is its own ancestor, by the ids of parents")
            self.reader.finish()

        self.is_reordered = order != self.records
        start = Aggregator.new()
        states: dict[str, Aggregator] = {}
        for record in order:
            state = start if (up := self._parent_of(record)) is None else states[up]
            length = len(state)
            messages = self._make_messages(record, state)
            state = state.extend(messages)
            self.times += [each.timestamp for each in messages if each.timestamp]
            if any(read_usage(each) is not None for each in messages):
                state = self._record_usage(state, length, record)

            states[record.id] = state

        leaves = [each.id for each in order if each.id not in self.children]
        head = self._find_head(leaves)
        if self.format == "open_webui":
            self.rest[LAYOUT] = {"head": head}

        tree = MessageTree.of(*[states[each] for each in leaves], states[head])
        return self._make_loaded(tree)

    def _record_usage(
        self, state: Aggregator, since: int, record: TreeRecord
    ) -> Aggregator:
        try:
            return state.record_responses(since=since)
        except InvalidUsageError as error:
            self.problems.append(f"{record.path}: {error}")
            return state

    def _iterate_down(self) -> list[TreeRecord]:
        # A parent before its children, and all that is behind one before the next.
        order: list[TreeRecord] = []
        todo = [*reversed(self.children.get(None, ()))]
        while todo:
            record = self.records[self.places[todo.pop()]]
            order.append(record)
            todo += reversed(self.children.get(record.id, ()))

        return order

    def _check_ids(self) -> None:
        for at, record in enumerate(self.records):
            if self.places[record.id] != at:
                what = f"has the id {shorten_repr(record.id)}, as another message"
                self.reader.problem(record.path, what)

        self.reader.finish()

    def _parent_of(self, record: TreeRecord) -> str | None:
        return record.parent if record.parent in self.places else None

    def _order_children(self) -> None:
        for record in self.records:
            parent = self._parent_of(record)
            self.children.setdefault(parent, []).append(record.id)
            if parent is None and record.parent is not None:
                missing = shorten_repr(record.parent)
                self.problems.append(f"{record.path}: its parent {missing} is missing")

        for record in self.records:
            below = self.children.get(record.id, [])
            if record.listed is None:
                continue

            order = {
                id: at for at, id in enumerate(record.listed) if isinstance(id, str)
            }
            # Programs leave some out of their lists: parents count.
            if not order.keys() <= set(below):
                what = "its list of children is not what their parents' ids say"
                self.problems.append(f"{record.path}: {what}")

            below.sort(key=lambda id, order=order: order.get(id, len(order)))  # type: ignore[misc]

    def _make_messages(self, record: TreeRecord, state: Aggregator) -> list[Message]:
        if record.body is None:
            return []

        messages, problem = read_record(self.form, record.body)
        if problem:
            self.problems.append(f"{record.path}: {problem}")

        first = messages[0]
        if self.format == "chatgpt" and isinstance(first, ToolMessage):
            messages = _pair_result(first, state)
            first = messages[0]

        notes = self._note_differences(record, messages)
        metadata = with_notes(SOURCE, notes, first.metadata)
        metadata = with_notes("ui", {"id": record.id}, metadata)
        behind = messages[1:]
        if notes.get("hidden"):
            hidden = {"hidden": True, "format": self.format}
            behind = [
                each.replace(metadata=with_notes(SOURCE, hidden, each.metadata))
                for each in behind
            ]

        return [first.replace(metadata=metadata), *behind]

    def _note_differences(
        self, record: TreeRecord, messages: list[Message]
    ) -> dict[str, Any]:
        # What differs from the record that would be written; nothing for most.
        body = record.body or {}
        written: Mapping[str, Any] = {}
        notes: dict[str, Any] = {}
        if self.form.select_kept is None:
            written = write_whole(self.form, messages, [], record.path, self.name)
            keys = {
                key: body[key]
                for key in body
                if key not in written or not is_same_value(body[key], written[key])
            }
        elif isinstance(messages[0], UnknownMessage):
            keys = {}  # it is kept whole
        else:
            keys = self.form.select_kept(body)

        if keys:
            notes["keys"] = keys

        if not written.keys() <= body.keys():
            notes["without"] = [key for key in written if key not in body]

        if record.item:
            notes["item"] = record.item

        if self.is_reordered:
            notes["at"] = self.places[record.id]

        notes |= self._note_place(record)
        metadata = body.get("metadata")
        if is_map(metadata) and metadata.get("is_visually_hidden_from_conversation"):
            notes["hidden"] = True

        if notes or isinstance(messages[0], UnknownMessage):
            notes["format"] = self.format

        return notes

    def _note_place(self, record: TreeRecord) -> dict[str, Any]:
        notes: dict[str, Any] = {}
        parent = self._parent_of(record)
        if record.written != [write_parent(self.format, parent)]:
            notes["parent"] = {"was": parent, "written": record.written}

        if self.format == "open_webui":
            below = self.children.get(record.id, [])
            if record.listed is None or [*record.listed] != below:
                listed = [] if record.listed is None else [[*record.listed]]
                notes["children"] = {"was": below, "written": listed}

        return notes

    def _find_head(self, leaves: list[str]) -> str:
        head = self.shown
        if isinstance(head, str) and head in self.places:
            return head

        if head is not None:
            what = f"the message that is shown, {shorten_repr(head)}, is missing"
            self.problems.append(f"{self.path}: {what}")

        return find_newest(self.format, self.records, leaves)

    def _make_loaded(self, tree: MessageTree) -> LoadedTree:
        rest = self.rest
        times = self.times
        created, updated = (
            next((t for key in keys if (t := read_time(rest.get(key)))), None)
            for keys in (_CREATED, _UPDATED)
        )
        chat = rest.get("chat")
        titles = [rest.get("title"), chat.get("title") if is_map(chat) else None]
        titles += [rest.get("name")] if self.format == "claude_ai" else []
        return LoadedTree(
            name=self.name,
            title=next((each for each in titles if isinstance(each, str)), ""),
            tree=tree,
            created_at=created or min(times, default=None),
            updated_at=updated or max(times, default=None),
            notes=freeze_map(rest, "LoadedTree.notes"),
            problems=tuple(self.problems),
            format=self.format,
        )


_IDS = ("conversation_id", "conversationId", "id", "uuid")
_CREATED = ("create_time", "created_at", "createdAt")
_UPDATED = ("update_time", "updated_at", "updatedAt")


def _pair_result(result: ToolMessage, state: Aggregator) -> list[Message]:
    # ChatGPT's results name no call: they stand behind it. One without a call, or
    # behind the call's first result, is sent to no model unless it has its own.
    tool = result.tool_name.split(".")[0]
    for call in reversed(state.pending_calls):
        if not tool or tool == call.name.split(".")[0]:
            return [result.replace(tool_call_id=call.id)]

    call = ToolCall(result.tool_call_id, result.tool_name, "{}")
    caller = AssistantMessage("", tool_calls=[call], timestamp=result.timestamp)
    return [caller, result]


def write_parent(kind: str, parent: str | None) -> str | None:
    """How a format writes the id of a parent, None for a first message."""
    return NO_PARENT if kind == "librechat" and parent is None else parent


def find_newest(kind: str, records: Sequence[TreeRecord], leaves: Sequence[str]) -> str:
    """
    The message that is shown where the file names none: in assistant-ui the last one;
    else the newest leaf, or the last if not all have times.
    """
    if kind.startswith("assistant_ui"):
        return _order_by_parents(records)[-1]

    ends = set(leaves)
    found = [record for record in records if record.id in ends]
    times = [
        read_time(next((b[k] for k in _TIMES if k in (b := record.body or {})), None))
        for record in found
    ]
    known = [time for time in times if time is not None]
    if len(known) < len(found):
        return found[-1].id

    newest = max(known)
    return [r.id for r, time in zip(found, times, strict=True) if time == newest][-1]


def _order_by_parents(records: Sequence[TreeRecord]) -> list[str]:
    # As assistant-ui imports them: one that stands before its parent comes right
    # behind it, with all that waited for it.
    # Source: `withParentsFirst` of @assistant-ui/core.
    listed = {record.id for record in records}
    waiting: dict[str, list[str]] = {}
    order: list[str] = []
    added: set[str] = set()
    for record in records:
        if record.parent in listed and record.parent not in added:
            waiting.setdefault(record.parent, []).append(record.id)
            continue

        todo = [record.id]
        for id in todo:
            added.add(id)
            todo += waiting.pop(id, ())

        order += todo

    return order


_TIMES = ("createdAt", "timestamp", "create_time", "created_at")
