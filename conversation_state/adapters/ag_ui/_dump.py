"""Messages as a snapshot has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state.adapters.ag_ui._load import FAILED, ROLES, SOURCE, read_part
from conversation_state.adapters.engine.export import (
    Export,
    PayloadWriter,
    cannot_contain,
    in_order,
    merge_kept_keys,
)
from conversation_state.adapters.engine.notes import list_of, map_of
from conversation_state.adapters.engine.reading import DocumentReader, ObjectReader
from conversation_state.adapters.engine.ui import find_siblings, list_entries, wrap_own
from conversation_state.adapters.engine.wire import (
    decode_base64,
    encode_base64,
    make_call_id,
)
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import (
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    sniff_media_type,
)
from conversation_state.tools import ToolCall
from conversation_state.tree import MessageTree, ui_id_of

_UNTYPED = "application/octet-stream"


def dump(
    messages: Aggregator | MessageTree | Iterable[Entry | Message],
    *,
    tree: MessageTree | None = None,
) -> Export:
    """
    *messages* as a list for ``MESSAGES_SNAPSHOT`` and ``RunAgentInput``. O(n).

    Args:
        messages: A state, a tree (what it shows), entries or messages.
        tree: The tree that they are in: each message that has siblings there has the
            ids of all of them, its own included, as ``siblings`` in its metadata. A
            tree that is given as *messages* is its own.

    Raises:
        InvalidMessageError: If one of them is not a message.
    """
    if isinstance(messages, MessageTree):
        tree = messages if tree is None else tree

    entries = list_entries(messages)
    writer = AgUiWriter()
    plain = writer.each([each.message for each in entries])
    for entry, (message, path) in zip(entries, plain, strict=True):
        writer.add(message, path, ui_id_of(entry), find_siblings(tree, entry)[1])

    return writer.export(writer.items)  # type: ignore[arg-type]  # a list here


def snapshot(state: Aggregator | MessageTree) -> dict[str, Any]:
    """
    The event with all messages of *state*: what undo, redo and a switch send.

    >>> snapshot(Aggregator.new([]))
    {'type': 'MESSAGES_SNAPSHOT', 'messages': []}
    """
    return {"type": "MESSAGES_SNAPSHOT", "messages": dump(state).payload}


def is_words(part: Part) -> bool:
    """Whether *part* is said to the user: a text, or a refusal."""
    return isinstance(part, (TextPart, RefusalPart))


class AgUiWriter(PayloadWriter):
    """One list of messages while it is written."""

    def __init__(self) -> None:
        super().__init__(SOURCE)
        self.items: list[dict[str, Any]] = []
        self._tools: dict[str, str] = {}  # of all calls, by id

    def add(
        self, message: Any, path: str, ui_id: str, siblings: tuple[str, ...] = ()
    ) -> None:
        """Write *message*: an item, and one for each of its thoughts."""
        notes = self.notes_on(message, path)
        if isinstance(message, UnknownMessage):
            self._add_unknown(message, path)
            return

        own: dict[str, Any] = {"siblings": [*siblings]} if siblings else {}
        item: dict[str, Any] = {"id": ui_id, "role": message.role}
        behind: list[dict[str, Any]] = []
        if isinstance(message, AssistantMessage):
            behind = self._write_answer(message, path, item)
            if notes.get("alone") is True and item.get("content") == "":
                return
        elif isinstance(message, ToolMessage):
            self._write_result(message, path, notes, item, own)
        elif isinstance(message, SystemMessage):
            self._write_system(message, path, notes, item)
        else:
            item["content"] = self._write_content(message, path)

        if message.name and not isinstance(message, ToolMessage):
            item["name"] = message.name

        if own:
            item["metadata"] = wrap_own(own)

        self.items.append(merge_kept_keys(map_of(notes, "keys"), item))
        self.items += behind

    def _add_unknown(self, message: UnknownMessage, path: str) -> None:
        if message.source == SOURCE and message.raw.get("role") in ROLES:
            why = "has a role that is known; use a message of this role"
            self.lose(path, "unknown", why)
            return

        raw = self.unknown(message.raw, message.source, path)
        self.items += [raw] if raw is not None else []

    def _write_system(
        self,
        message: SystemMessage,
        path: str,
        notes: Mapping[str, Any],
        item: dict[str, Any],
    ) -> None:
        if notes.get("role") == "developer":
            item["role"] = "developer"

        for at, part in enumerate(message.parts):
            self.notes(part, f"{path}.parts[{at}]")

        item["content"] = message.text
        if len(message.parts) > 1:
            self.lose(path, "parts", "a system message is one text")

    def _write_answer(
        self, message: AssistantMessage, path: str, item: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Fill *item*, write the thoughts before it, and return those behind it."""
        texts: list[str] = []
        calls: list[dict[str, Any]] = []
        behind: list[dict[str, Any]] = []
        thoughts = 0
        for where, value in in_order(message.parts, message.tool_calls, path):
            if isinstance(value, ToolCall):
                calls.append(self._write_call(value, where, item["id"], len(calls)))
            elif isinstance(value, ReasoningPart):
                thought = self._write_thought(value, where, f"{item['id']}:r{thoughts}")
                (behind if texts or calls else self.items).append(thought)
                thoughts += 1
            elif is_words(value):
                self._add_words(value, where, texts, is_late=bool(calls))
            else:
                self.notes(value, where)
                kind = value.kind
                if isinstance(value, UnknownPart) and value.source != SOURCE:
                    self.unknown(value.raw, value.source, where)
                else:
                    self.lose(where, kind, cannot_contain("assistant", kind))

        if texts or not calls:
            item["content"] = "".join(texts)

        if calls:
            item["toolCalls"] = calls

        return behind

    def _add_words(
        self, part: Any, path: str, texts: list[str], *, is_late: bool
    ) -> None:
        self.notes(part, path)
        if isinstance(part, RefusalPart):
            why = "the format has no refusals; it is sent as text"
            self.lose(path, "refusal", why)

        if not part.text:
            return

        if texts:
            self.lose(path, "text", "an answer is one text; this one was joined to it")
        elif is_late:
            self.lose(path, "position", "the text of an answer stands before its calls")

        texts.append(part.text)

    def _write_thought(
        self, part: ReasoningPart, path: str, made_id: str
    ) -> dict[str, Any]:
        notes = self.notes(part, path)
        for where in list_of(notes, "mended"):
            why = "contained an unpaired surrogate; U+FFFD is sent instead"
            self.lose(path, str(where), why)

        given = notes.get("id")
        thought_id = given if isinstance(given, str) else made_id
        item = {"id": thought_id, "role": "reasoning", "content": part.text}
        if part.signature:
            item["encryptedValue"] = part.signature

        return merge_kept_keys(map_of(notes, "keys"), item)

    def _write_call(
        self, call: ToolCall, path: str, ui_id: str, at: int
    ) -> dict[str, Any]:
        notes = self.notes(call, path)
        if call.type != "function":
            self.lose(path, "type", "all calls are of functions")

        self._tools[call.id] = call.name
        function = {"name": call.name, "arguments": call.arguments}
        call_id = call.id or make_call_id(ui_id, at)
        item = {"id": call_id, "type": "function", "function": function}
        if "type" in list_of(notes, "without"):
            del item["type"]

        return merge_kept_keys(map_of(notes, "keys"), item)

    def _write_result(
        self,
        message: ToolMessage,
        path: str,
        notes: Mapping[str, Any],
        item: dict[str, Any],
        own: dict[str, Any],
    ) -> None:
        item["content"] = self._write_content(message, path)
        item["toolCallId"] = message.tool_call_id
        called = self._tools.get(message.tool_call_id)
        if message.tool_name and not (
            notes.get("unnamed") is True and called == message.tool_name
        ):
            own["tool_name"] = message.tool_name

        if message.name:
            own["name"] = message.name

        if message.is_error:
            error: Any = notes.get("error", message.text or FAILED)
            if isinstance(error, str):
                item["error"] = error

            if notes.get("flag", True) is True or "error" not in item:
                own["is_error"] = True

    def _write_content(self, message: Any, path: str) -> str | list[dict[str, Any]]:
        if isinstance(message.content, str):
            return str(message.content)

        blocks = [
            self._write_part(part, f"{path}.parts[{at}]")
            for at, part in enumerate(message.parts)
        ]
        return [block for block in blocks if block is not None]

    def _write_part(self, part: Any, path: str) -> dict[str, Any] | None:
        notes = self.notes(part, path)
        if isinstance(part, UnknownPart):
            return self._write_unknown(part, path)

        if isinstance(part, MediaPart):
            block = _write_media(part, notes)
        else:
            block = {"type": "text", "text": part.text}

        return merge_kept_keys(map_of(notes, "keys"), block)

    def _write_unknown(self, part: UnknownPart, path: str) -> dict[str, Any] | None:
        raw: dict[str, Any] | None = self.unknown(part.raw, part.source, path)
        if raw is None:
            return None

        # The user may have made it.
        reader = DocumentReader()
        read = read_part(ObjectReader(reader, raw, "$"))
        if not reader.problems and isinstance(read, UnknownPart):
            return raw

        self.lose(path, "unknown", "is a part that is known, or none at all")
        return None


def _write_media(part: MediaPart, notes: Mapping[str, Any]) -> dict[str, Any]:
    kind = "document" if part.kind == "file" else part.kind
    source: dict[str, Any]
    if part.data is None:
        source = {"type": "url", "value": part.url}
        if part.media_type:
            source["mimeType"] = part.media_type
    else:
        kept = notes.get("base64")
        is_same = isinstance(kept, str) and decode_base64(kept) == part.data
        value = kept if is_same else encode_base64(part.data)
        media_type = part.media_type or sniff_media_type(part.data) or _UNTYPED
        source = {"type": "data", "value": value, "mimeType": media_type}

    block = {"type": kind, "source": source}
    if isinstance(part, FilePart) and part.name:
        block["metadata"] = {"filename": part.name}
    elif isinstance(part, ImagePart) and part.detail:
        block["metadata"] = wrap_own({"detail": part.detail})

    return block
