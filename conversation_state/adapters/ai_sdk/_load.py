"""Messages of a list of ``UIMessage``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import attrs

from conversation_state._canonical import dump as dump_json
from conversation_state._persistent import EMPTY_MAP
from conversation_state.adapters.engine.notes import notes_of, with_notes
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    is_same_value,
    mended,
    note_mended,
)
from conversation_state.adapters.engine.ui import INTERRUPTED, read_own
from conversation_state.adapters.engine.wire import (
    MEDIA_CLASSES,
    MessageLoader,
    parse_arguments,
    parse_data_url,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import (
    FilePart,
    ImagePart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.tools import ToolCall
from conversation_state.tree import name as name_message

# The name of the format: of its notes, and the source of unknown parts.
SOURCE = "ai_sdk"
DENIED = "The user denied this call."
# The types of media without a type of their own.
WILDCARDS = {
    "audio": "audio/*",
    "file": "application/octet-stream",
    "image": "image/*",
    "video": "video/*",
}
# States of a part whose call has no result, where it was cut off and where it is whole.
CUT = "input-streaming"
WHOLE = "input-available"
NOTED = frozenset({"approval-requested", "approval-responded", CUT, WHOLE})
_STATES = NOTED | {"output-available", "output-denied", "output-error"}
_ROLES = frozenset({"assistant", "system", "user"})
_MESSAGE = frozenset({"id", "metadata", "parts", "role"})
_TEXT = frozenset({"providerMetadata", "state", "text", "type"})
_REASONING = _TEXT | {"id"}
_FILE = frozenset({"filename", "mediaType", "providerMetadata", "type", "url"})
_TOOL = frozenset(
    {
        *("callProviderMetadata", "errorText", "input", "output", "preliminary"),
        *("resultProviderMetadata", "state", "toolCallId", "toolName", "type"),
    }
)
_SIGNED = {"signature": ("signed",), "redactedData": ("signed", "redacted")}
_CLAUDES = ("anthropic", "bedrock")  # each takes the other's signatures
_PARTIAL = ("input", "rawInput")  # what a call that was cut off has of its arguments
_STEERING = frozenset({"id", "parts", "type"})


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a list of ``UIMessage``, or what has it as ``messages``.

    An assistant's message is one for each of its steps, each with the results of its
    calls behind it; the first has the message's id (`conversation_state.tree.name`). A
    step with a call that is ``input-streaming`` was ``interrupted``. O(n).

    Raises:
        DecodeError: If something is invalid; with all that is, each with its path.
    """
    return UiLoader().load(payload, "a list of UIMessages, or an object with one")


def parse_json(text: str) -> Any:
    """
    The JSON value of *text*, if a browser takes it; else *text*.

    Source:
        ``parseJsonEventStream`` of ``@ai-sdk/provider-utils`` ends a stream at an
        object with a key ``__proto__``, or with a ``constructor`` that has a key
        ``prototype``.

    >>> parse_json('{"a": 1}'), parse_json('{"__proto__": 1}'), parse_json("{")
    ({'a': 1}, '{"__proto__": 1}', '{')
    """
    try:
        value = parse_arguments(text)
    except ValueError:
        return text

    reader = DocumentReader()
    whole = reader.json(value, "$")
    return text if reader.problems or is_unsafe(whole) else whole


def is_unsafe(value: Any) -> bool:
    """Whether a browser refuses *value*, see `parse_json`."""
    if isinstance(value, list):
        return any(map(is_unsafe, value))

    if not isinstance(value, dict):
        return False

    made = value.get("constructor")
    is_bad = "__proto__" in value or (isinstance(made, dict) and "prototype" in made)
    return is_bad or any(map(is_unsafe, value.values()))


def format_json(value: Any) -> str:
    """The text that *value*, an input or an output, is loaded as: itself if a text."""
    return value if isinstance(value, str) else dump_json(value).decode()


def write_partial(text: str) -> dict[str, Any]:
    """
    What the part of a call that was cut off has of its arguments, the *text* that came.

    >>> write_partial('{"a": 1}'), write_partial('{"a": '), write_partial("")
    ({'rawInput': '{"a": 1}', 'input': {'a': 1}}, {'rawInput': '{"a": '}, {})
    """
    value = parse_json(text) if text else text
    given = {"rawInput": text} if text else {}
    return given if value == text else {**given, "input": value}


def is_tool(kind: object) -> bool:
    """Whether a part of *kind* is a call of a tool."""
    return isinstance(kind, str) and (kind == "dynamic-tool" or kind[:5] == "tool-")


@attrs.define(eq=False)
class UiStep:
    """A response of an assistant's message while it is read."""

    notes: dict[str, Any] = attrs.field(factory=dict)
    parts: list[Part] = attrs.field(factory=list)
    calls: list[ToolCall] = attrs.field(factory=list)
    cut: set[int] = attrs.field(factory=set)  # calls that were cut off, by their places
    results: list[ToolMessage] = attrs.field(factory=list)
    count: int = 0
    is_mixed: bool = False
    sender: str = ""

    def add(self, given: Part | ToolCall) -> None:
        """Add a part or call, in the order of these."""
        value: Any = given
        value = attrs.evolve(value, index=self.count)
        self.count += 1
        if isinstance(value, ToolCall):
            self.calls.append(value)
        else:
            self.is_mixed = self.is_mixed or bool(self.calls)
            self.parts.append(value)

    def finish(self) -> list[Message]:
        """The messages that it is."""
        if not self.count:
            if self.notes.get("without"):
                return [*self.results]

            self.notes["empty"] = True

        # A position is needed only where a part stands behind a call.
        parts: list[Any] = self.parts
        calls = self.calls
        if not self.is_mixed:
            parts = [attrs.evolve(each, index=None) for each in parts]
            calls = [attrs.evolve(each, index=None) for each in calls]

        if self.cut:
            answered = {each.tool_call_id for each in self.results}
            calls = [
                call if place in self.cut or call.id in answered else _note_whole(call)
                for place, call in enumerate(calls)
            ]

        answer = AssistantMessage(
            unwrap_text(parts),
            tool_calls=calls,
            name=self.sender,
            response=ResponseMeta(INTERRUPTED) if self.cut else None,
            metadata=with_notes(SOURCE, self.notes),
        )
        return [answer, *self.results]


def _note_whole(call: ToolCall) -> ToolCall:
    # Of an answer that was cut off, a call that was not.
    notes = notes_of(call.metadata, SOURCE)
    if "state" in notes:
        return call

    metadata = with_notes(SOURCE, {**notes, "state": WHOLE}, call.metadata)
    return attrs.evolve(call, metadata=metadata)


def unwrap_text(parts: list[Part]) -> str | list[Part]:
    """*parts* as content: the text, if there is nothing else."""
    text = "".join([each.text for each in parts if isinstance(each, TextPart)])
    return text if parts in ([], [TextPart(text)]) else parts


class UiLoader(MessageLoader):
    """One list of messages while it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []  # of the messages of the list
        self.sender = ""  # that the last part had
        self._thoughts = 0  # of the response so far
        self._places: dict[int, int] = {}  # of results, by their identity

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        """The messages under ``messages``."""
        if is_list(payload.get("messages")):
            return self.history(payload["messages"], "$.messages")

        ObjectReader(self, payload, "$").wrong("messages", "a list of UIMessages")
        return []

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        """The messages of the list *raws* at *path*."""
        found: list[Message] = []
        before: Mapping[str, Any] = {}
        for at, raw in enumerate(raws):
            found += self.read_item(raw, f"{path}[{at}]", before)
            before = raw if is_map(raw) else before

        return found

    def read_item(
        self, raw: Any, path: str, before: Mapping[str, Any] = EMPTY_MAP
    ) -> list[Message]:
        """The messages that one ``UIMessage`` is, behind another."""
        if is_map(raw):
            return self._read_message(ObjectReader(self, raw, path), before)

        self.wrong(path, raw, "a UIMessage, an object")
        return []

    def _read_message(
        self, node: ObjectReader, before: Mapping[str, Any]
    ) -> list[Message]:
        problems, mended_before = self.count, len(self.mended)
        ui_id, role = node.text("id"), node.text("role")
        self.ids.append(ui_id)
        if role not in _ROLES:
            if role:
                node.wrong("role", "system, user or assistant")

            return []

        if not is_list(node.raw.get("parts")):
            node.wrong("parts", "a list of parts, as AI SDK 5 and newer have it")
            return []

        own = read_own(node)
        if is_map(own.get("usage")):
            node.notes["usage"] = self.json(own["usage"], f"{node.path}.metadata")

        node.keep(_MESSAGE)
        if not ui_id:
            node.notes["id"] = ""

        is_run = role == "assistant"
        if is_run and before.get("role") == role:
            # Else it would be taken for more of the one before it.
            node.notes["begins"] = True

        found = self._read_run(node) if is_run else [self._read_other(node)]
        note_mended(node, mended_before)
        if self.count > problems or not found:
            return []

        first = found[0]
        notes = {**node.notes, "keys": node.keys} if node.keys else node.notes
        notes = {**notes_of(first.metadata, SOURCE), **notes}
        first = first.replace(metadata=with_notes(SOURCE, notes, first.metadata))
        return [name_message(first, ui_id) if ui_id else first, *found[1:]]

    def _read_other(self, node: ObjectReader) -> Message:
        parts: list[Part] = []
        sender = ""
        others: list[Any] = []
        is_system = node.raw["role"] == "system"
        for at, block in enumerate(node.objects("parts")):
            part = self.read_part(block)
            sender = sender or self.sender
            if is_system and not isinstance(part, TextPart):
                others.append([at, self.json(block.raw, block.path)])
            else:
                parts.append(part)

        if others:
            node.notes["others"] = others

        made = SystemMessage if is_system else UserMessage
        return made(unwrap_text(parts), name=sender)

    def read_part(self, block: ObjectReader, role: str = "user") -> Part:
        """The part that *block* is in a message of *role*; no call of a tool."""
        kind, self.sender = block.text("type"), ""
        if kind in ("text", "reasoning") and (kind == "text" or role == "assistant"):
            return self._read_text(block, kind, role)

        if kind == "file" and not (
            block.raw.get("url") == "" or "mediaType" not in block.raw
        ):
            return self._read_file(block)

        return block.as_unknown(SOURCE)

    def _read_own(
        self, block: ObjectReader, key: str = "providerMetadata"
    ) -> Mapping[str, Any]:
        own = read_own(block, key)
        self.sender = self.own_text(own, "sender")
        return own

    def own_text(self, own: Mapping[str, Any], key: str) -> str:
        """The text of ours under *key*, which a client may have changed."""
        given = own.get(key)
        return mended(given) if isinstance(given, str) else ""

    def _read_text(self, block: ObjectReader, kind: str, role: str) -> Part:
        text, own = block.text("text"), self._read_own(block)
        _note_absent(block, "state", "done")
        if kind == "text":
            block.keep(_TEXT)
            metadata = block.metadata(SOURCE)
            if own.get("refusal") is True and role == "assistant":
                return RefusalPart(text, metadata=metadata)

            return TextPart(text, metadata=metadata)

        _note_absent(block, "id", f"r{self._thoughts}")
        self._thoughts += 1
        block.keep(_REASONING)
        signature = self.own_text(own, "signature")
        if signature:
            return ReasoningPart(text, signature, metadata=block.metadata(SOURCE))

        # What the SDK itself keeps there of a thought of Claude's.
        kept = block.raw.get("providerMetadata")
        for service, key in product(_CLAUDES, _SIGNED):
            theirs = kept.get(service) if is_map(kept) else None
            signature = self.own_text(theirs, key) if is_map(theirs) else ""
            if signature:
                block.notes["signed"] = True
                notes = dict.fromkeys(_SIGNED[key], True)
                metadata = with_notes(_CLAUDES[0], notes, block.metadata(SOURCE))
                return ReasoningPart(text, signature, metadata=metadata)

        return ReasoningPart(text, metadata=block.metadata(SOURCE))

    def _read_file(self, block: ObjectReader) -> Part:
        media_type, url = block.text("mediaType"), block.text("url")
        own = self._read_own(block)
        kind = own.get("kind")
        if not (isinstance(kind, str) and kind in MEDIA_CLASSES):
            kind = find_kind(media_type)

        if own.get("untyped") is True and media_type == WILDCARDS[kind]:
            media_type = ""

        if not url:
            return TextPart("")  # there was a problem

        found = parse_data_url(url)
        fields: dict[str, Any] = {"url": url}
        if found and found[1] == (media_type or WILDCARDS[kind]):
            fields = {"data": found[0]}

        made = MEDIA_CLASSES[kind]
        name = block.optional("filename")
        if made is FilePart:
            fields["name"] = name
        elif name:
            block.keys["filename"] = name

        if made is ImagePart:
            fields["detail"] = self.own_text(own, "detail")

        block.keep(_FILE)
        metadata = block.metadata(SOURCE)
        return made(**fields, media_type=media_type, metadata=metadata)

    def _read_run(self, node: ObjectReader) -> list[Message]:
        """The messages that an assistant's message is."""
        found: list[Message] = []
        step: UiStep | None = None
        self._places, self._thoughts = {}, 0
        for block in node.objects("parts"):
            kind = block.raw.get("type")
            if kind == "step-start":
                self._thoughts = 0
                found += step.finish() if step else []
                step = UiStep()
                continue

            if kind == "steering-message" and is_list(block.raw.get("parts")):
                found += step.finish() if step else []
                step = None
                found.append(self.read_steering(block))
                continue

            step = step or UiStep({"without": ["step-start"]})
            if is_tool(kind):
                self.read_tool(block, step)
            else:
                step.add(self.read_part(block, "assistant"))

            step.sender = step.sender or self.sender

        if step or not found:
            found += (step or UiStep()).finish()

        if not node.raw["parts"]:
            node.notes["without"] = ["step-start"]

        return self._put_in_place(found)

    def _put_in_place(self, found: list[Message]) -> list[Message]:
        # Results that did not stand right behind their calls say where they did.
        places = self._places
        moved = sorted(
            [each for each in found if id(each) in places],
            key=lambda each: places[id(each)],
        )
        rest = [each for each in found if id(each) not in places]
        for each in moved:
            rest.insert(places[id(each)], each)

        return rest

    def read_steering(self, block: ObjectReader) -> Message:
        """The message of the user that *block*, within the assistant's, is."""
        problems = self.count
        ui_id = block.text("id")
        parts = [self.read_part(each) for each in block.objects("parts")]
        block.notes["steering"] = True
        block.keep(_STEERING)
        made = UserMessage(unwrap_text(parts), metadata=block.metadata(SOURCE))
        return name_message(made, ui_id) if ui_id and self.count == problems else made

    def read_tool(self, block: ObjectReader, step: UiStep) -> None:
        """Add the call that *block* is, and its result if it has one, to *step*."""
        call_id, kind, state = block.text("toolCallId"), block.raw["type"], ""
        given = block.raw.get("state")
        if isinstance(given, str) and given in _STATES:
            state = given
        else:
            block.wrong("state", f"one of {', '.join(sorted(_STATES))}")

        tool = mended(kind[5:]) if kind[:5] == "tool-" else block.text("toolName")
        if state[:7] == "output-":
            self._read_result(block.__class__(self, block.raw, block.path), step, tool)

        own = self._read_own(block, "callProviderMetadata")
        if own.get("alone") is True:
            return

        arguments = self._read_input(block, own, state)
        if kind[:5] == "tool-":
            block.notes["static"] = True

        if state == CUT:
            step.cut.add(len(step.calls))
        elif state in NOTED - {WHOLE}:
            block.notes["state"] = state

        is_partial = state == CUT and isinstance(block.raw.get("rawInput"), str)
        block.keep(_TOOL | {"rawInput"} if is_partial else _TOOL)
        metadata = block.metadata(SOURCE)
        made_type = self.own_text(own, "type") or "function"
        step.add(ToolCall(call_id, tool, arguments, type=made_type, metadata=metadata))

    def _read_input(
        self, block: ObjectReader, own: Mapping[str, Any], state: str
    ) -> str:
        raw = block.raw.get("rawInput")
        if state == CUT and isinstance(raw, str):
            has = {key: block.raw[key] for key in _PARTIAL if key in block.raw}
            has = self.json(has, block.path)
            text: str = has["rawInput"]
            if not is_same_value(has, write_partial(text)):
                block.notes["partial"] = has

            return text

        if "input" not in block.raw:
            if state == CUT:
                return ""

            block.notes["without"] = ["input"]
            return mended(raw) if isinstance(raw, str) else ""

        if state == CUT:
            block.notes["without"] = ["rawInput"]

        return self._read_value(block, "input", own)

    def _read_value(self, block: ObjectReader, key: str, own: Mapping[str, Any]) -> str:
        """The text of the value under *key*: the one that was kept, if it is of it."""
        problems = self.count
        value = self.json(block.raw[key], f"{block.path}.{key}")
        if self.count > problems:
            return ""

        kept = self.own_text(own, "text")
        is_kept = is_same_value(parse_json(kept) if kept else {}, value)
        return kept if "text" in own and is_kept else format_json(value)

    def _read_result(self, block: ObjectReader, step: UiStep, tool: str) -> None:
        """Add the result at *block* to *step*."""
        own, problems = read_own(block, "resultProviderMetadata"), self.count
        call_id, state = block.text("toolCallId"), block.raw["state"]
        if not call_id:
            block.wrong("toolCallId", "the id of a call")

        content: str | list[Part] = ""
        parts = own.get("parts")
        if state == "output-error":
            content = block.text("errorText")
        elif state == "output-denied":
            block.notes["state"] = state
            content = read_reason(block.raw.get("approval")) or DENIED
        elif "output" not in block.raw:
            block.notes["without"] = ["output"]
        elif parts is True and is_list(block.raw["output"]):
            content = [self.read_part(each) for each in block.objects("output")]
        else:
            content = self._read_value(block, "output", own)
            self._note_output(block, content)

        if is_list(parts) and state == "output-error":
            kept = block.__class__(self, {"parts": parts}, block.path)
            content = [self.read_part(each) for each in kept.objects("parts")]

        if "preliminary" in block.raw:
            block.keys["preliminary"] = self.json(
                block.raw["preliminary"], f"{block.path}.preliminary"
            )

        if self.count > problems:
            return

        result = ToolMessage(
            content,
            tool_call_id=call_id,
            tool_name=self.own_text(own, "tool_name") if "tool_name" in own else tool,
            is_error=state != "output-available",
            name=self.own_text(own, "sender"),
            metadata=block.metadata(SOURCE),
        )
        step.results.append(result)
        place: Any = own.get("at")
        if place.__class__ is int and place >= 0:
            self._places[id(result)] = place

    def _note_output(self, block: ObjectReader, text: str) -> None:
        # An object or a list is sent as such, anything else as a text.
        given = block.raw["output"]
        if isinstance(given, str) == isinstance(parse_json(text), (dict, list)):
            block.notes["output"] = "text" if isinstance(given, str) else "json"


def read_reason(approval: Any) -> str:
    """Why the user denied a call, as *approval* has it."""
    reason = approval.get("reason") if is_map(approval) else None
    return mended(reason) if isinstance(reason, str) else ""


def find_kind(media_type: str) -> str:
    """The kind of media that a file of *media_type* is."""
    kind = media_type.partition("/")[0]
    return kind if kind in ("audio", "image", "video") else "file"


def _note_absent(block: ObjectReader, key: str, usual: str) -> None:
    # What stands under *key*, if that is not what `dump` writes.
    if key not in block.raw:
        block.notes.setdefault("without", []).append(key)
    elif block.raw[key] != usual:
        block.notes[key] = block.reading.json(block.raw[key], f"{block.path}.{key}")
