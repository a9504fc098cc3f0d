"""
A whole adapter of a made-up format, to begin a new one from.

A request is ``{"context": "Be brief.", "turns": [...]}``, a turn ``{"role": …,
"blocks": [...]}``; roles are ``user`` and ``model``. A block is one of::

    {"kind": "text", "text": "Hi!"}
    {"kind": "call", "id": "c1", "name": "tide", "input": {"at": "Oban"}}
    {"kind": "result", "id": "c1", "text": "6:40", "failed": false}
    {"kind": "sticker", "code": "wave"}

A response is ``{"turn": {...}, "id": …, "model": …, "stop": …, "counts": {"input": 9,
"output": 3}}``.

A sticker is no part of ours: it becomes an `UnknownPart`, which `dump` writes as it
was, and which other formats list as lost. Results stand in front of a user's turn; each
is a message, and so is what follows them. Notes in metadata, beside those of all
formats (see `conversation_state.adapters.engine.notes`):

turn
    Keys of a turn with results, on the first of these.

same_turn
    That a message stood in one turn with the one before.

The streams of this format are in `tests.adapters.example_stream`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from conversation_state.adapters.engine.export import (
    Export,
    PayloadWriter,
    cannot_contain,
    in_order,
    merge_kept_keys,
)
from conversation_state.adapters.engine.notes import Format, map_of
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    note_mended,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    find_usage_block,
    read_usage_block,
    split_counts,
    usage_in,
)
from conversation_state.adapters.engine.wire import (
    MessageLoader,
    parse_object,
    read_object_text,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, TextPart, UnknownPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

# The name of the format: of its notes, and the source of unknown parts and messages.
SOURCE = "example"
FORMAT = Format(SOURCE, kept=("keys", "turn"))

_CLASSES: Mapping[str, Callable[..., Message]] = {
    "model": AssistantMessage,
    "user": UserMessage,
}
# The keys that fields of ours hold. All others are kept in a note.
_TURN_KEYS = frozenset({"blocks", "role"})
_TEXT_KEYS = frozenset({"kind", "text"})
_CALL_KEYS = frozenset({"id", "input", "kind", "name"})
_RESULT_KEYS = frozenset({"failed", "id", "kind", "text"})
_RESPONSE_KEYS = frozenset({"counts", "id", "model", "stop", "turn"})
_COUNTS = ("input", "output")


# Loading


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a request, a list of turns, or a response.

    Raises:
        DecodeError:
            If something is invalid; with all that is, each with its path.
    """
    return ExampleLoader().load(payload, "a request, a list of turns, or a response")


def load_usage(payload: Any) -> Usage | None:
    """
    The counts of *payload*: a response, an event, or the counts themselves; None if it
    has none.

    Raises:
        DecodeError:
            If a count is negative, or not an integer.
    """
    return usage_in(payload, _find_counts, _read_counts)


def _find_counts(payload: Mapping[str, Any]) -> tuple[Any, str]:
    holders = {"$": payload, "$.end": payload.get("end")}
    return find_usage_block(holders, _COUNTS, "counts")


def _read_counts(
    reader: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts, others, left = split_counts(reader, block, _COUNTS, path)
    totals = counts.get("input", 0), counts.get("output", 0), None
    return totals, ({}, {}), others, left


def read_response(node: ObjectReader) -> tuple[ResponseMeta, dict[str, Any]]:
    """The metadata of the response at *node*, and what no field of ours holds."""
    usage, left = None, dict[str, Any]()
    if node.raw.get("counts") is not None:
        usage, left = read_usage_block(
            node.reading, node.raw["counts"], f"{node.path}.counts", _read_counts
        )

    reason, model, response_id = map(node.nullable, ("stop", "model", "id"))
    rest = node.reading.rest(node.raw, _RESPONSE_KEYS, node.path)
    if left:
        rest["counts"] = left

    return ResponseMeta(reason, usage, None, model, response_id), rest


class ExampleLoader(MessageLoader):
    """One payload while it is read."""

    def __init__(self) -> None:
        super().__init__()
        # Results don't say which tool they are of: the tools of all calls, by id.
        self._tools: dict[str, str] = {}
        self._noted = 0  # how many mended texts are in notes

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        """The messages of an object."""
        node = ObjectReader(self, payload, "$")
        if ("turns" in payload) is ("turn" in payload):
            self.refuse_document(payload, "turns", "turn", "turns")
        elif "turn" in payload:
            return self._load_response(node)
        elif is_list(payload["turns"]):
            context = self._load_context(node)
            return [*context, *self.history(payload["turns"], "$.turns")]
        else:
            node.wrong("turns", "a list of turns")

        return []

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        """
        The messages of a list of turns. Where each item is one message, a format has
        `message` instead.
        """
        turns = [self._load_turn(raw, f"{path}[{at}]") for at, raw in enumerate(raws)]
        return [message for turn in turns for message in turn]

    def _load_context(self, node: ObjectReader) -> list[Message]:
        # Null is as if it were missing: there is no message that could keep it.
        if node.raw.get("context") is None:
            return []

        text = node.text("context")
        return [SystemMessage(text, metadata=self._make_metadata(node, node.path))]

    def _load_response(self, node: ObjectReader) -> list[Message]:
        response, rest = read_response(node)
        self._noted = len(self.mended)  # what is beside the turn is never sent
        turn = node.required("turn")
        if turn is None or turn.raw.get("role") != "model":
            if turn is not None:
                turn.wrong("role", "model")

            return []

        noted = {"response": rest} if rest else {}
        messages = self._load_turn(turn.raw, turn.path, noted)
        return [message.replace(response=response) for message in messages]

    def _load_turn(
        self, raw: Any, path: str, noted: Mapping[str, Any] | None = None
    ) -> list[Message]:
        """The messages of one turn; none if there was a problem."""
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return []

        problems = self.count
        node = ObjectReader(self, raw, path)
        node.notes.update(noted or {})
        role = node.text("role")
        messages: list[Message] = []
        if role in _CLASSES:
            if is_list(raw.get("blocks")):
                messages = self._load_blocks(node, role)
            else:
                node.wrong("blocks", "a list of blocks")

        # Nothing is wrong with it, and no message of ours can hold it.
        if self.count == problems and not messages:
            messages = [node.as_unknown_message(SOURCE, self._noted)]

        self._noted = len(self.mended)
        return messages if self.count == problems else []

    def _load_blocks(self, node: ObjectReader, role: str) -> list[Message]:
        """
        The messages of a turn: one, or one for each result in front of a user's turn
        and one for what follows.
        """
        blocks = list(node.objects("blocks"))
        kinds = [block.text("kind") for block in blocks]
        results = 0
        while role == "user" and kinds[results : results + 1] == ["result"]:
            results += 1

        messages = self._load_results(node, blocks[:results])
        if results == len(blocks) > 0:
            return messages

        parts: list[Part] = []
        calls: list[ToolCall] = []
        for at, (block, kind) in enumerate(zip(blocks, kinds, strict=True)):
            # Our messages have parts and calls apart; *index* orders them in `dump`.
            index = at if role == "model" else None
            if at < results:
                continue

            if kind == "text":
                parts.append(read_text(block, block.text("text"), index))
            elif kind == "call" and role == "model":
                arguments = ""
                if block.required("input") is not None:
                    arguments = read_object_text(block, "input")

                calls.append(read_call(block, arguments, at))
            else:
                parts.append(block.as_unknown(SOURCE, index))

        if results:
            node.notes["same_turn"] = True
        else:
            node.keep(_TURN_KEYS)

        self._tools |= {call.id: call.name for call in calls}
        fields = {"tool_calls": calls} if calls else {}
        metadata = self._make_metadata(node, node.path)
        return [*messages, _CLASSES[role](parts, **fields, metadata=metadata)]

    def _load_results(
        self, node: ObjectReader, blocks: Sequence[ObjectReader]
    ) -> list[Message]:
        rest = self.rest(node.raw, _TURN_KEYS, node.path) if blocks else {}
        messages: list[Message] = []
        for at, block in enumerate(blocks):
            if at:
                block.notes["same_turn"] = True
            elif rest:
                block.notes["turn"] = rest

            messages += self._load_result(block, node.path)

        return messages

    def _load_result(self, block: ObjectReader, turn: str) -> list[Message]:
        problems = self.count
        call_id, text = block.text("id"), block.text("text")
        # A ToolMessage without an id is an InvalidMessageError, and no DecodeError.
        if block.raw.get("id") == "":
            block.wrong("id", "the id of a call")

        failed = block.raw.get("failed")
        if failed is not True and "failed" in block.raw:
            block.keys["failed"] = failed
            if failed is not None and failed is not False:
                block.wrong("failed", "true or false")

        block.keep(_RESULT_KEYS)
        if self.count > problems:
            return []

        result = ToolMessage(
            text,
            tool_call_id=call_id,
            tool_name=self._tools.get(call_id, ""),
            is_error=failed is True,
            metadata=self._make_metadata(block, turn),
        )
        return [result]

    def _make_metadata(self, node: ObjectReader, turn: str) -> Mapping[str, Any]:
        """
        The notes of a message; what was mended in its turn since the message before
        is this one's.
        """
        note_mended(node, self._noted, turn)
        self._noted = len(self.mended)
        return node.metadata(SOURCE)


def read_text(block: ObjectReader, text: str, index: int | None) -> TextPart:
    block.keep(_TEXT_KEYS)
    return TextPart(text, index=index, metadata=block.metadata(SOURCE))


def read_call(block: ObjectReader, arguments: str, index: int) -> ToolCall:
    block.keep(_CALL_KEYS)
    call_id, name = block.text("id"), block.text("name")
    metadata = block.metadata(SOURCE)
    return ToolCall(call_id, name, arguments, index=index, metadata=metadata)


# Dumping


def dump(messages: Iterable[Message]) -> Export:
    """
    *messages* in this format: ``{"turns": [...]}``.

    Raises:
        InvalidMessageError:
            If one of them is not a message.
    """
    writer = ExampleWriter()
    for message, path in writer.each(messages):
        writer.add(message, path)

    context = {"context": writer.context} if writer.context is not None else {}
    return writer.export({**context, "turns": writer.turns})


class ExampleWriter(PayloadWriter):
    """One payload while it is written."""

    def __init__(self) -> None:
        super().__init__(SOURCE)
        self.context: str | None = None
        self.turns: list[dict[str, Any]] = []
        # The blocks of the last turn, if it is a user's that began with a result.
        self._open: list[dict[str, Any]] | None = None
        self._tools: dict[str, str] = {}  # of all calls, by id

    def add(self, message: Message, path: str) -> None:
        """Write *message* as a turn, as blocks of the last one, or as context."""
        notes = self.notes_without_name(message, path)
        if isinstance(message, SystemMessage):
            self._add_context(message, path)
        elif isinstance(message, UnknownMessage):
            turn = self.unknown(message.raw, message.source, path)
            self.turns += [turn] if turn is not None else []
            self._open = None
        elif isinstance(message, ToolMessage):
            block = self._write_result(message, path, notes)
            self._open = self._add_blocks("user", [block], notes, "turn")
        else:
            role = "model" if isinstance(message, AssistantMessage) else "user"
            self._add_blocks(role, self._write_blocks(message, path), notes, "keys")
            self._open = None

    def _add_blocks(
        self,
        role: str,
        blocks: list[dict[str, Any]],
        notes: Mapping[str, Any],
        keys: str,
    ) -> list[dict[str, Any]]:
        """
        The blocks of the turn that *blocks* are in: the last one, if they were joined
        to it and it is open, else a new one with what the note *keys* kept of it.
        """
        if self._open is not None and role == "user" and notes.get("same_turn") is True:
            self._open += blocks
            return self._open

        turn = {"role": role, "blocks": blocks}
        self.turns.append(merge_kept_keys(map_of(notes, keys), turn))
        return blocks

    def _add_context(self, message: SystemMessage, path: str) -> None:
        for at, part in enumerate(message.parts):
            self.notes(part, f"{path}.parts[{at}]")

        if len(message.parts) > 1:
            self.lose(path, "parts", "the context is one text")

        if self.turns:
            why = "the context stands before all turns; this message was moved"
            self.lose(path, "system", why)
        elif self.context is not None:
            why = "there is one context; this message was joined to it"
            self.lose(path, "system", why)

        texts = [text for text in (self.context, message.text) if text]
        self.context = "\n\n".join(texts)

    def _write_result(
        self, message: ToolMessage, path: str, notes: Mapping[str, Any]
    ) -> dict[str, Any]:
        for at, part in enumerate(message.parts):
            self.notes(part, f"{path}.parts[{at}]")
            if not isinstance(part, TextPart):
                why = cannot_contain("tool", part.kind)
                self.lose(f"{path}.parts[{at}]", part.kind, why)

        self.lose_tool_name(message, path, self._tools.get(message.tool_call_id, ""))
        call_id = message.tool_call_id
        block: dict[str, Any] = {"kind": "result", "id": call_id, "text": message.text}
        if message.is_error:
            block["failed"] = True

        return merge_kept_keys(map_of(notes, "keys"), block)

    def _write_blocks(self, message: Any, path: str) -> list[dict[str, Any]]:
        blocks = [
            self._write_call(value, where)
            if isinstance(value, ToolCall)
            else self._write_part(value, where)
            for where, value in in_order(message.parts, message.tool_calls, path)
        ]
        return [block for block in blocks if block is not None]

    def _write_part(self, part: Part, path: str) -> dict[str, Any] | None:
        notes = self.notes(part, path)
        if isinstance(part, UnknownPart):
            verbatim: dict[str, Any] | None
            verbatim = self.unknown(part.raw, part.source, path)
            return verbatim

        if not isinstance(part, TextPart):
            self.lose(path, part.kind, "the format has texts and stickers only")
            return None

        block = {"kind": "text", "text": part.text}
        return merge_kept_keys(map_of(notes, "keys"), block)

    def _write_call(self, call: ToolCall, path: str) -> dict[str, Any]:
        notes = self.notes(call, path)
        if call.type != "function":
            self.lose(path, "type", "all calls are of functions")

        self._tools[call.id] = call.name
        # Our arguments are a text, as the model wrote it, valid or not.
        value, why = parse_object(call.arguments or "{}")
        if why:
            self.lose(path, "arguments", why)

        block = {"kind": "call", "id": call.id, "name": call.name, "input": value or {}}
        return merge_kept_keys(map_of(notes, "keys"), block)
