"""
The smallest whole adapter: a made-up format of chats, with stickers.

What to begin a new adapter from. A message is ``{"role": …, "content": …}``; a content
is a text or a list of blocks, ``{"kind": "text", "text": …}`` or ``{"kind": "sticker",
"code": …}``; an assistant's has ``tool_calls``, and a tool's the ``tool_call_id``.

A sticker is no part of ours: it becomes an `UnknownPart`, which `dump` writes as it
was, and which other formats list as lost. Notes in metadata (see
`conversation_state.adapters._notes`), which `dump` reads:

keys
    Keys that no field of ours holds: unknown ones, and those that are null or empty.

made_id
    The id that was made up for a call, or for its result, that had none.

mended
    Where half of a surrogate pair stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from conversation_state.adapters._export import Export, PayloadWriter, merge_kept_keys
from conversation_state.adapters._notes import map_of
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    note_mended,
)
from conversation_state.adapters._wire import MessageLoader
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, TextPart, UnknownPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

__all__ = ["dump", "load", "load_usage"]

# The name of the format: of its notes, and the source of unknown parts and messages.
SOURCE = "example"

_CLASSES: Mapping[str, Callable[..., Message]] = {
    "assistant": AssistantMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "user": UserMessage,
}
# The keys that fields of ours hold. All others are kept in a note.
_KEYS = frozenset({"content", "name", "role"})
_KEYS_OF = {"assistant": _KEYS | {"tool_calls"}, "tool": _KEYS | {"tool_call_id"}}
_CALL_KEYS = frozenset({"arguments", "id", "name"})
_TEXT_KEYS = frozenset({"kind", "text"})
_MAX_COUNT = 2**63 - 1


# Loading


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a list of messages, or an object that has one as
    ``messages``.

    Raises:
        DecodeError:
            If something is invalid; with all that is, each with its path.
    """
    return ExampleLoader().load(payload, "a list of messages, or an object of one")


def load_usage(payload: Any) -> Usage | None:
    """
    The ``usage`` of *payload*; None if it has none.

    Raises:
        DecodeError:
            If a count is negative, or not an integer.
    """
    read = DocumentReader()
    usage = None
    if is_map(payload):
        node = ObjectReader(read, payload, "$").inside("usage")
        if node is not None:
            usage = _read_usage(node)
    elif payload is not None:
        read.wrong("$", payload, "an object")

    # Problems are noted on the way, and raised here, all at once.
    read.finish()
    return usage


def _read_usage(node: ObjectReader) -> Usage | None:
    counts = _read_count(node, "input"), _read_count(node, "output")
    try:
        return Usage(*counts)
    except InvalidUsageError as error:  # their sum is not a count
        node.reading.problem(node.path, str(error))
        return None


def _read_count(node: ObjectReader, key: str) -> int:
    count = node.raw.get(key, 0)
    if type(count) is int and 0 <= count <= _MAX_COUNT:
        return count

    node.wrong(key, "a count")
    return 0


class ExampleLoader(MessageLoader):
    """
    One payload while it is read.
    """

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        """
        The messages of an object.
        """
        if is_list(payload.get("messages")):
            return self.history(payload["messages"], "$.messages")

        ObjectReader(self, payload, "$").wrong("messages", "a list of messages")
        return []

    def message(self, raw: Any, path: str, prefix: str) -> Message | None:
        """
        One message; None if there was a problem.
        """
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        problems, mended = self.count, len(self.mended)
        node = ObjectReader(self, raw, path)
        role = node.text("role")
        message = None
        if role in _CLASSES:
            message = self._load_known(node, role, prefix, mended)

        if message is None and self.count == problems:
            # Without what was noted above: it is kept as a whole.
            node = ObjectReader(self, raw, path)
            raw = self.json(raw, path)
            note_mended(node, mended)
            metadata = node.metadata(SOURCE)
            message = UnknownMessage(raw, source=SOURCE, metadata=metadata)

        return message if self.count == problems else None

    def _load_known(
        self, node: ObjectReader, role: str, prefix: str, mended: int
    ) -> Message | None:
        """
        A message of a known *role*; None if that may not have this content.
        """
        problems = self.count
        node.keep(_KEYS_OF.get(role, _KEYS))
        content = _read_content(node)
        fields: dict[str, Any] = {"name": node.optional("name")}
        if role == "assistant":
            fields["tool_calls"] = self.read_calls(node, prefix, _read_call)
        elif role == "tool":
            call_id = node.optional("tool_call_id")
            fields["tool_call_id"] = self.resolve_call(node, call_id, "", prefix)

        if self.count > problems or (role == "system" and not _is_text(content)):
            return None

        note_mended(node, mended)
        return _CLASSES[role](content, **fields, metadata=node.metadata(SOURCE))


def _is_text(content: str | list[Part]) -> bool:
    return isinstance(content, str) or all(isinstance(p, TextPart) for p in content)


def _read_content(node: ObjectReader) -> str | list[Part]:
    if not is_list(node.raw.get("content")):
        return node.optional("content")

    parts: list[Part] = []
    for block in node.objects("content"):
        if block.raw.get("kind") == "text":
            block.keep(_TEXT_KEYS)
            text = block.text("text")
            parts.append(TextPart(text, metadata=block.metadata(SOURCE)))
        else:
            raw = block.reading.json(block.raw, block.path)
            parts.append(UnknownPart(raw, source=SOURCE))

    return parts


def _read_call(node: ObjectReader, made_id: str) -> ToolCall:
    node.keep(_CALL_KEYS)
    call_id = node.optional("id")
    if not call_id:
        call_id = node.notes["made_id"] = made_id

    name, arguments = node.text("name"), node.optional("arguments")
    return ToolCall(call_id, name, arguments, metadata=node.metadata(SOURCE))


# Dumping


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* in this format: ``{"messages": [...]}``.

    Raises:
        InvalidMessageError:
            If one of them is not a message.
    """
    write = PayloadWriter(SOURCE)
    raws = [_write_message(write, *each) for each in write.each(messages)]
    return write.export({"messages": [raw for raw in raws if raw is not None]})


def _write_message(
    write: PayloadWriter, message: Message, path: str
) -> dict[str, Any] | None:
    notes = write.notes_on(message, path)
    if isinstance(message, UnknownMessage):
        verbatim: dict[str, Any] | None
        verbatim = write.unknown(message.raw, message.source, path, "role")
        return verbatim

    raw: dict[str, Any] = {"role": message.role}
    if message.name:
        raw["name"] = message.name

    raw["content"] = _write_content(write, message, path)
    if isinstance(message, AssistantMessage) and message.tool_calls:
        raw["tool_calls"] = [
            _write_call(write, call, f"{path}.tool_calls[{at}]")
            for at, call in enumerate(message.tool_calls)
        ]
    elif isinstance(message, ToolMessage):
        if message.tool_call_id != notes.get("made_id"):
            raw["tool_call_id"] = message.tool_call_id

        if message.tool_name:
            write.lose(path, "tool_name", "results have no name of a tool")

        write.lose_error_flag(message, path)

    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_content(write: PayloadWriter, message: Any, path: str) -> Any:
    if isinstance(message.content, str):
        return message.content

    blocks = [
        _write_part(write, part, f"{path}.parts[{at}]")
        for at, part in enumerate(message.content)
    ]
    return [block for block in blocks if block is not None]


def _write_part(write: PayloadWriter, part: Part, path: str) -> Any:
    notes = write.notes(part, path)
    if isinstance(part, UnknownPart):
        return write.unknown(part.raw, part.source, path, "kind")

    if not isinstance(part, TextPart):
        write.lose(path, part.kind, "the format has texts and stickers only")
        return None

    block = {"kind": "text", "text": part.text}
    return merge_kept_keys(map_of(notes, "keys"), block)


def _write_call(write: PayloadWriter, call: ToolCall, path: str) -> dict[str, Any]:
    notes = write.notes(call, path)
    if call.type != "function":
        write.lose(path, "type", "all calls are of functions")

    raw = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if call.id == notes.get("made_id"):
        del raw["id"]

    return merge_kept_keys(map_of(notes, "keys"), raw)
