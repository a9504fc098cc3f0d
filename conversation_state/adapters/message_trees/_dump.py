"""From trees to files: which messages make a record, and the file around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from conversation_state._persistent import EMPTY_MAP, check_text, thaw
from conversation_state._wording import describe_type, shorten_repr
from conversation_state.adapters.engine.export import Export, Lost
from conversation_state.adapters.engine.notes import map_of, notes_of
from conversation_state.adapters.message_trees._forms import (
    FORMS,
    SOURCE,
    RecordForm,
    read_record,
    says_same,
    write_seconds,
    write_whole,
)
from conversation_state.adapters.message_trees._load import (
    LAYOUT,
    LoadedTree,
    TreeRecord,
    find_newest,
    write_parent,
)
from conversation_state.messages import Message, UnknownMessage
from conversation_state.tree import MessageTree, Node, ui_id_of

WrittenFormat: TypeAlias = Literal[
    "assistant_ui", "assistant_ui_rows", "librechat", "open_webui"
]
_WRITTEN = ("assistant_ui", "assistant_ui_rows", "librechat", "open_webui")


def dump_tree(
    tree: MessageTree | LoadedTree,
    *,
    format: WrittenFormat | None = None,  # noqa: A002 - as `load_trees`
    title: str = "",
) -> Export:
    """
    The file of one conversation: all of its messages, and which one is shown.

    What was loaded in this format is the same JSON value again, key for key, but for
    what was changed since. Each assistant's message makes one record with the results
    of its tools and the responses behind them that have no id of their own, up to where
    the tree branches. Of LibreChat's files the newest leaf is shown, whichever is here.

    O(messages), however deep the tree is.

    Args:
        tree: A tree, or what `load_trees` returned, with what else its file had.
        format: ``assistant_ui``, ``assistant_ui_rows``, ``librechat`` or
            ``open_webui``; by default that of a `LoadedTree`.
        title: The title; by default that of a `LoadedTree`.

    Raises:
        TypeError: If *tree* is something else.
        ValueError: If the format is not one of these.

    >>> from conversation_state import Aggregator
    >>> tree = MessageTree.of(Aggregator.new().add_user_prompt("Hi!"))
    >>> dump_tree(tree, format="librechat").payload["messages"][0]["text"]
    'Hi!'
    """
    if isinstance(tree, MessageTree):
        loaded = LoadedTree("", "", tree)
    elif isinstance(tree, LoadedTree):
        loaded = tree
    else:
        expected = "a MessageTree or a LoadedTree"
        raise TypeError(f"tree is {describe_type(tree)}; expected {expected}")

    name = loaded.format if format is None else format
    if name not in _WRITTEN:
        expected = ", ".join(_WRITTEN)
        raise ValueError(f"format is {shorten_repr(name)}; expected {expected}")

    title = check_text(title, "title") or loaded.title
    return _TreeWriter(loaded, name, title).write()


@attrs.define(eq=False)
class _RecordGroup:
    # The messages of one record; its id, its parent's and its children's.
    id: str
    parent: str | None
    nodes: list[Node]
    at: int
    path: str
    children: list[str]


class _TreeWriter:
    # One file while it is written.

    def __init__(self, loaded: LoadedTree, name: str, title: str) -> None:
        self.loaded, self.tree = loaded, loaded.tree
        self.format, self.title = name, title
        self.form: RecordForm = FORMS[name]
        self.lost: list[Lost] = []
        # What the file had besides its messages, where it was of this format.
        is_same = loaded.format == name
        self.rest: dict[str, Any] = thaw(loaded.notes) if is_same else {}
        self.layout = self.rest.pop(LAYOUT, {})
        self.groups: dict[str, _RecordGroup] = {}
        self.head: str | None = None

    def write(self) -> Export:
        self._group_nodes()
        # In the order of the file they came from; what is new behind it.
        groups = sorted(self._iterate_down(), key=lambda each: each.at)
        records = [(group, self._write_record(group)) for group in groups]
        write = {
            "librechat": self._write_librechat,
            "open_webui": self._write_open_webui,
        }
        payload = write.get(self.format, self._write_assistant_ui)(records)
        return Export(payload, tuple(self.lost))

    # Which messages make one record

    def _group_nodes(self) -> None:
        owners: dict[str, str | None] = {}
        # What stands before each message that is left out, unless several stand behind.
        before_left_out: dict[str, str | None] = {}
        nodes = {node.id: node for node in self.tree.nodes}
        end = len(nodes)
        for number, node in enumerate(nodes.values()):
            parent = None if node.parent is None else owners[node.parent]
            above = self.groups[parent] if parent is not None else None
            behind = before_left_out.get(node.parent or "", node.parent)
            if above is not None and _joins_record(above, node, behind):
                above.nodes.append(node)
                owners[node.id] = above.id
                continue

            path = f"nodes[{number}]"
            role = node.message.role
            if not self._holds_message(node.message):
                why = "this format has no such message"
                self.lost.append(Lost(path, role, why))
                owners[node.id] = parent
                before_left_out[node.id] = None if node.children[1:] else behind
                continue

            id = ui_id_of(node.entry)
            if id in self.groups or id == node.entry.id:
                # An entry has several nodes, each with an id.
                id = node.id

            notes = self._notes_of(node.message)
            at = notes.get("at", end) if notes else end
            at = at if isinstance(at, int) else end
            self.groups[id] = _RecordGroup(id, parent, [node], at, path, [])
            owners[node.id] = id
            if above is not None:
                above.children.append(id)

        self.head = None if self.tree.head is None else owners[self.tree.head]

    def _iterate_down(self) -> list[_RecordGroup]:
        # As assistant-ui exports them: what is behind a message before its siblings.
        order: list[_RecordGroup] = []
        todo = [each for each in self.groups.values() if each.parent is None][::-1]
        while todo:
            order.append(todo.pop())
            todo += [self.groups[each] for each in reversed(order[-1].children)]

        return order

    def _holds_message(self, message: Message) -> bool:
        if isinstance(message, UnknownMessage):
            return message.source == SOURCE and bool(self._notes_of(message))

        return message.role in self.form.holds

    def _notes_of(self, message: Message) -> Mapping[str, Any]:
        # None of another format.
        notes = notes_of(message.metadata, SOURCE)
        return notes if notes.get("format") == self.format else EMPTY_MAP

    # Records

    def _write_record(self, group: _RecordGroup) -> dict[str, Any]:
        messages = [node.message for node in group.nodes]
        notes = self._notes_of(messages[0])
        body = write_whole(self.form, messages, self.lost, group.path, self._get_id())
        if notes:
            body = self._restore_keys(body, notes, messages)

        parent = group.parent
        kept = map_of(notes, "parent")
        written = [write_parent(self.format, parent)]
        if kept and kept.get("was") == parent:
            written = thaw(kept.get("written"))

        item: dict[str, Any] = thaw(map_of(notes, "item"))
        if self.format == "assistant_ui":
            item["message"] = {"id": group.id, **body}
        elif self.format == "assistant_ui_rows":
            item |= {"id": group.id, "content": body}
            # A content of parts is as it came, in the AI SDK's form.
            if "parts" not in body:
                item["format"] = "aui/v0"
        else:
            item = body

        if self.format == "librechat":
            item = {"messageId": group.id, **item}
        elif self.format == "open_webui":
            for own in map_of(notes, "item").get("own_id", (group.id,)):
                item = {"id": own, **item}

            self._add_children(item, group, map_of(notes, "children"))

        if written:
            item[_PARENT_KEYS[self.format]] = written[0]

        return item

    def _add_children(
        self, item: dict[str, Any], group: _RecordGroup, kept: Mapping[str, Any]
    ) -> None:
        written = [group.children]
        if kept and [*kept.get("was", ())] == group.children:
            written = thaw(kept.get("written"))

        if written:
            item["childrenIds"] = written[0]

    def _restore_keys(
        self, body: dict[str, Any], notes: Mapping[str, Any], messages: list[Message]
    ) -> dict[str, Any]:
        # Keys that were kept stand where they say what the messages say now.
        keys = thaw(map_of(notes, "keys"))
        missing = notes.get("without", ())
        owned = self.form.owned
        whole = {**body, **keys}
        for key in missing:
            whole.pop(key, None)

        if owned.isdisjoint(keys) and owned.isdisjoint(missing):
            return whole

        if says_same(read_record(self.form, whole)[0], messages):
            return whole

        return {**body, **{key: keys[key] for key in keys if key not in owned}}

    # Files

    def _get_id(self) -> str:
        # Of a tree that came from no file: the same whenever it is written.
        return self.loaded.name or str(self.tree.shown.root_id)

    def _is_default(self, records: list[tuple[_RecordGroup, dict[str, Any]]]) -> bool:
        # Whether the message that is shown is the one that a file without a head shows.
        found = [
            TreeRecord(each.id, each.parent, item, {}, None, "", [])
            for each, item in records
        ]
        leaves = [each.id for each, _ in records if not each.children]
        return bool(found) and find_newest(self.format, found, leaves) == self.head

    def _lose_head(self) -> None:
        why = "the newest message is shown; this format does not say which"
        self.lost.append(Lost("head", shorten_repr(self.head), why))

    def _write_assistant_ui(
        self, records: list[tuple[_RecordGroup, dict[str, Any]]]
    ) -> Any:
        items = [item for _, item in records]
        is_rows = self.format == "assistant_ui_rows"
        if self.layout.get("is_list", is_rows and not self.rest):
            if not self._is_default(records):
                self._lose_head()

            return items

        return {**self._keep_head("headId", self.rest, records), "messages": items}

    def _keep_head(
        self,
        key: str,
        rest: dict[str, Any],
        records: list[tuple[_RecordGroup, dict[str, Any]]],
    ) -> dict[str, Any]:
        # A head that was missing, or none of the messages, stays so.
        is_own = self.loaded.format == self.format
        was = rest.get(key)
        if is_own and was not in self.groups and self._is_default(records):
            return rest

        return {**rest, key: self.head}

    def _write_librechat(
        self, records: list[tuple[_RecordGroup, dict[str, Any]]]
    ) -> Any:
        if not self._is_default(records):
            self._lose_head()

        items = [item for _, item in records]
        is_nested = self.layout.get("is_nested", bool(self.rest.get("recursive")))
        if is_nested:
            by_id = {group.id: item for group, item in records}
            for group, item in records:
                item["children"] = [by_id[each] for each in group.children]

            items = [item for group, item in records if group.parent is None]

        rest = self.rest
        if self.loaded.format != self.format:
            rest = {"conversationId": self._get_id(), "endpoint": "", "options": {}}
            rest |= {"title": self.title, "branches": True, "recursive": False}
        elif self.title != self.loaded.title:
            rest["title"] = self.title

        return {**rest, self.layout.get("key", "messages"): items}

    def _write_open_webui(
        self, records: list[tuple[_RecordGroup, dict[str, Any]]]
    ) -> Any:
        rest = self.rest
        if self.loaded.format != self.format:
            rest = {"id": self._get_id(), "title": self.title, "meta": {}}
            rest["chat"] = {"title": self.title, "models": []}
            for key in ("created_at", "updated_at"):
                if (time := getattr(self.loaded, key)) is not None:
                    rest[key] = int(write_seconds(time))
        elif self.title != self.loaded.title:
            rest["title"] = rest["chat"]["title"] = self.title

        chat = rest["chat"]
        found = {group.id: item for group, item in records}
        # A second list in the file: the way that is shown.
        if "messages" in chat and self.layout.get("head") != self.head:
            chat["messages"] = [found[id] for id in self._iterate_way()]

        history = self._keep_head("currentId", chat.get("history", {}), records)
        chat["history"] = {**history, "messages": found}
        return rest

    def _iterate_way(self) -> Iterator[str]:
        way = []
        id = self.head
        while id is not None:
            way.append(id)
            id = self.groups[id].parent

        return reversed(way)


_PARENT_KEYS = {
    "assistant_ui": "parentId",
    "assistant_ui_rows": "parent_id",
    "librechat": "parentMessageId",
    "open_webui": "parentId",
}
_ANSWERS = frozenset({"assistant", "tool"})


def _joins_record(above: _RecordGroup, node: Node, behind: str | None) -> bool:
    """Whether a message belongs to the record of the one it stands *behind*."""
    last = above.nodes[-1]
    if last.id != behind or len(last.children) > 1:
        return False

    if last.message.role not in _ANSWERS or node.message.role not in _ANSWERS:
        return False

    name = ui_id_of(node.entry)
    return node.message.role == "tool" or name in {node.entry.id, above.id}
