"""Messages of a snapshot, and what a client posts to begin a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from conversation_state.adapters.engine.notes import RESERVED
from conversation_state.adapters.engine.reading import (
    ObjectReader,
    is_list,
    is_map,
    note_mended,
)
from conversation_state.adapters.engine.ui import ask_prompt, check_tree, read_own
from conversation_state.adapters.engine.wire import (
    MEDIA_CLASSES,
    MessageLoader,
    decode_base64,
    encode_base64,
    parse_data_url,
)
from conversation_state.aggregator import Aggregator, Entry
from conversation_state.errors import InvalidToolError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from conversation_state.parts import MediaPart, Part, ReasoningPart, TextPart
from conversation_state.tools import ToolCall, ToolInfo
from conversation_state.tree import MessageTree, Node, ui_id_of
from conversation_state.tree import name as name_message

# The name of the format: of its notes, and the source of unknown parts and messages.
SOURCE = "ag_ui"
FAILED = "The tool failed."
ROLES = frozenset({"assistant", "developer", "reasoning", "system", "tool", "user"})

_MESSAGE = frozenset({"content", "id", "metadata", "name", "role"})
_ANSWER = _MESSAGE | {"toolCalls"}
_THOUGHT = frozenset({"content", "encryptedValue", "id", "role"})
_RESULT = frozenset({"content", "error", "id", "metadata", "role", "toolCallId"})
_CALL = frozenset({"function", "id", "type"})
_FUNCTION = frozenset({"arguments", "name"})
_TEXT = frozenset({"text", "type"})
_MEDIA = frozenset({"metadata", "source", "type"})
_BINARY = frozenset({"data", "filename", "id", "mimeType", "type", "url"})
_MEDIA_SOURCE = frozenset({"mimeType", "type", "value"})
_CLASSES: Mapping[str, type[MediaPart]] = {
    **{kind: MEDIA_CLASSES[kind] for kind in ("audio", "image", "video")},
    "document": MEDIA_CLASSES["file"],
}
_OWNER = re.compile(r"(.*):r\d+", re.DOTALL)


@attrs.frozen
class RunInput:
    """
    What a client posts to begin a run (``RunAgentInput``).

    Attributes:
        thread_id: The conversation.
        run_id: The run that is asked for.
        parent_run_id: The run that it goes on from, or branches from; None for the
            latest.
        messages: The messages that the client has. A server that keeps its own reads
            of these only what is new.
        tools: The tools that the client runs itself.
        state: The agent's state as the client has it: any JSON value.
        context: What the client says beside its messages, as ``{"description": …,
            "value": …}``.
        resume: Answers to interrupts, as ``{"interruptId": …, "status": …}``.
        forwarded_props: Whatever else the client's program sends.
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolInfo, ...] = ()
    state: Any = None
    context: tuple[dict[str, Any], ...] = ()
    resume: tuple[dict[str, Any], ...] = ()
    forwarded_props: Any = None

    def resume_from(self, tree: MessageTree) -> Aggregator:
        """
        The state to ask the model with: `StoredChat.answer` takes requests that have
        this.

        Only what is new is read, behind the last message of the client that *tree* has,
        or else behind what the tree shows: results of calls that wait
        (`Aggregator.pending_calls`), and the last message, if it is a user's. One that
        the tree has is asked again; with other words it is edited, and its sibling.
        O(n).

        Raises:
            LookupError:
                If there is nothing to answer, as when the calls were answered by
                another client: an HTTP server answers 409.

        >>> body = {"threadId": "t", "runId": "r"}
        >>> body["messages"] = [{"id": "u1", "role": "user", "content": "When?"}]
        >>> tree = MessageTree.of(Aggregator.new().add_user_prompt("Hi."))
        >>> [each.text for each in load_input(body).resume_from(tree)]
        ['Hi.', 'When?']
        """
        check_tree(tree)
        last = self.messages[-1] if self.messages else None
        known = ask_prompt(last, tree) if isinstance(last, UserMessage) else None
        if known is not None:
            return known

        at, node = _find_last(tree, self.messages)
        state = start = tree.present if node is None else _read_through(tree, node)
        behind = self.messages[at + 1 :]
        new = [each for each in behind if isinstance(each, ToolMessage)]
        waiting = {call.id: call.name for call in state.pending_calls}
        for result in new:
            tool = waiting.pop(result.tool_call_id, None)
            if tool is not None:
                state = state.add(result.replace(tool_name=tool))

        if isinstance(last, UserMessage):
            return state.add(last)

        is_open = not len(state) or state[-1].role == "assistant" or state.pending_calls
        if state is start and not self.resume and (new or is_open):
            raise LookupError(
                "this request has nothing new to answer, neither a user's message nor "
                "the result of a call that waits; load the conversation again"
            )

        return state


def _find_last(
    tree: MessageTree, messages: tuple[Message, ...]
) -> tuple[int, Node | None]:
    """The place of the last of *messages* that *tree* has, and its node; -1 if none."""
    for at in reversed(range(len(messages))):
        try:
            return at, tree.node(tree.find(ui_id_of(Entry("", messages[at]))))
        except LookupError:
            pass

    return -1, None


def _read_through(tree: MessageTree, node: Node) -> Aggregator:
    """The state that ends with *node*, and with the results behind it."""
    shown = tree.switch(node.id).shown.entries
    end = len(tree.path(node.id))
    while end < len(shown) and isinstance(shown[end].message, ToolMessage):
        end += 1

    return tree.path(shown[end - 1].id)


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a list, or what has it under ``messages``, as
    ``MESSAGES_SNAPSHOT`` and ``RunAgentInput`` do.

    Each message is named by its id (`conversation_state.tree.name`). O(n).

    Raises:
        DecodeError: If something is invalid; with all that is, each with its path.
    """
    return AgUiLoader().load(payload, "a list of messages, or an object with one")


def load_input(body: Any) -> RunInput:
    """
    What a client posts to begin a run.

    Raises:
        DecodeError: If something is invalid; with all that is, each with its path.

    >>> body = {"threadId": "t", "runId": "r", "messages": []}
    >>> load_input({**body, "state": {"step": 1}}).state
    {'step': 1}
    """
    loader = AgUiLoader()
    if not is_map(body):
        loader.wrong("$", body, "a RunAgentInput, an object")
        loader.finish()

    node = ObjectReader(loader, body, "$")
    made = RunInput(
        thread_id=node.text("threadId"),
        run_id=node.text("runId"),
        parent_run_id=node.nullable("parentRunId") or None,
        messages=tuple(loader.document(body)),
        tools=tuple(_read_tools(node)),
        state=loader.json(body.get("state"), "$.state"),
        context=_read_objects(node, "context"),
        resume=_read_objects(node, "resume"),
        forwarded_props=loader.json(body.get("forwardedProps"), "$.forwardedProps"),
    )
    loader.finish()
    return made


def _read_objects(node: ObjectReader, key: str) -> tuple[dict[str, Any], ...]:
    objects = node.optional_objects(key, "a list of objects")
    return tuple([node.reading.json(each.raw, each.path) for each in objects])


def _read_tools(node: ObjectReader) -> list[ToolInfo]:
    found: list[ToolInfo] = []
    for tool in node.optional_objects("tools", "a list of tools"):
        problems = node.reading.count
        name, description = tool.text("name"), tool.nullable("description")
        schema = node.reading.json(
            tool.raw.get("parameters"), f"{tool.path}.parameters"
        )
        if node.reading.count > problems:
            continue

        try:
            found.append(ToolInfo(name, description, schema or None))
        except InvalidToolError as error:
            node.reading.problem(tool.path, f"is no tool: {error}")

    return found


def read_part(block: ObjectReader) -> Part:
    """The part that *block* is, in a message of a user or a result."""
    kind = block.text("type")
    if kind == "text":
        text = block.text("text")
        block.keep(_TEXT)
        return TextPart(text, metadata=block.metadata(SOURCE))

    if kind == "binary" and (media := _modernize_binary(block.raw)):
        return read_part(block.__class__(block.reading, media, block.path))

    source = block.raw.get("source")
    if kind in _CLASSES and is_map(source):
        fields = _read_source(block)
        if fields:
            detail = read_own(block).get("detail")
            kept = block.keys.get("metadata")
            if kind == "image" and isinstance(detail, str):
                fields["detail"] = block.reading.json(detail, f"{block.path}.metadata")
            elif kind == "document" and is_map(kept):
                fields["name"] = _take_name(block, kept)

            block.keep(_MEDIA)
            return _CLASSES[kind](**fields, metadata=block.metadata(SOURCE))

    return block.as_unknown(SOURCE)


def _modernize_binary(raw: Mapping[str, Any]) -> dict[str, Any]:
    """
    A ``binary`` part, which clients before 1.0 post, as 1.0 has it; nothing if it has
    only an id.

    Source:
        The compatibility layers of ``@ag-ui/client`` 1.0.0.
    """
    media_type = raw.get("mimeType")
    how = next((key for key in ("data", "url") if raw.get(key)), "")
    if not how or not isinstance(media_type, str):
        return {}

    kind = media_type.partition("/")[0]
    media = {key: raw[key] for key in raw if key not in _BINARY}
    media["type"] = kind if kind in _CLASSES else "document"
    media["source"] = {"type": how, "value": raw[how], "mimeType": media_type}
    name = raw.get("filename")
    return {**media, "metadata": {"filename": name}} if name else media


def _take_name(block: ObjectReader, kept: Mapping[str, Any]) -> str:
    """
    The name of a file, taken out of its *kept* metadata.

    Source:
        ``metadata.filename`` of ``@ag-ui/client`` 1.0.0 and of assistant-ui.
    """
    name = kept.get("filename")
    if not (isinstance(name, str) and name):
        return ""

    block.keys["metadata"] = {key: kept[key] for key in kept if key != "filename"}
    if not block.keys["metadata"]:
        del block.keys["metadata"]

    return name


def _read_source(block: ObjectReader) -> dict[str, Any]:
    """The fields of a part with media; none if we have no place for its source."""
    inside = block.child("source")
    how, value = inside.raw.get("type"), inside.raw.get("value")
    media_type = inside.raw.get("mimeType", "")
    if not (isinstance(value, str) and value and isinstance(media_type, str)):
        return {}

    fields: dict[str, Any] = {}
    inline = parse_data_url(value)  # which not each client takes apart
    if inline and how in ("data", "url") and inline[1] == media_type:
        fields = {"data": inline[0]}
    elif how == "data" and media_type:
        data = decode_base64(value)
        fields = {"data": data} if data else {}
        if data and encode_base64(data) != value:
            block.notes["base64"] = value
    elif how == "url":
        fields = {"url": inside.text("value")}

    if fields and media_type:
        fields["media_type"] = inside.text("mimeType")

    if fields:
        block.keep_within("source", inside, _MEDIA_SOURCE)

    return fields


class AgUiLoader(MessageLoader):
    """One list of messages while it is read."""

    def __init__(self) -> None:
        super().__init__()
        self._messages: list[Message] = []
        # Thoughts that wait for their answer, with their ids, and the texts that were
        # mended before them.
        self._pending: list[tuple[str, ReasoningPart]] = []
        # Where an answer stands, by its id; and the thoughts behind it.
        self._answers: dict[str, int] = {}
        self._behind: dict[int, list[ReasoningPart]] = {}
        self._tools: dict[str, str] = {}  # of all calls, by id

    def know_tools(self, tools: Mapping[str, str]) -> None:
        """Add the names of *tools*, by the ids of calls before these messages."""
        self._tools.update(tools)

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        """The messages under ``messages``."""
        if is_list(payload.get("messages")):
            return self.history(payload["messages"], "$.messages")

        ObjectReader(self, payload, "$").wrong("messages", "a list of messages")
        return []

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        """The messages of a list; thoughts are parts of the answer they belong to."""
        for at, raw in enumerate(raws):
            where = f"{path}[{at}]"
            if is_map(raw):
                self._read_item(ObjectReader(self, raw, where))
            else:
                self.wrong(where, raw, "an object")

        self._end_thoughts()
        for at, thoughts in self._behind.items():
            message = self._messages[at]
            content = [*message.parts, *thoughts]
            self._messages[at] = message.replace(content=content)

        return self._messages

    def _read_item(self, node: ObjectReader) -> None:
        mended_before = len(self.mended)
        role, ui_id = node.text("role"), node.text("id")
        if role == "reasoning":
            self._read_thought(node, ui_id, mended_before)
            return

        if role != "assistant":
            self._end_thoughts()

        if role in _READERS:
            message = _READERS[role](self, node, ui_id)
            note_mended(node, mended_before)
            if message is not None:
                self._add_message(
                    message.replace(metadata=node.metadata(SOURCE)), ui_id
                )
        else:
            self._messages.append(node.as_unknown_message(SOURCE, mended_before))

    def _add_message(self, message: Message, ui_id: str) -> None:
        if isinstance(message, AssistantMessage):
            self._answers[ui_id] = len(self._messages)

        self._messages.append(name_message(message, ui_id) if ui_id else message)

    def _read_thought(self, node: ObjectReader, ui_id: str, mended_before: int) -> None:
        text, signature = node.text("content"), node.optional("encryptedValue")
        found = _OWNER.fullmatch(ui_id)
        owner = self._answers.get(found[1]) if found else None
        node.keep(_THOUGHT)
        note_mended(node, mended_before)
        if owner is None:
            node.notes["id"] = ui_id
            metadata = node.metadata(SOURCE)
            self._pending.append(
                (ui_id, ReasoningPart(text, signature, metadata=metadata))
            )
        else:
            metadata = node.metadata(SOURCE)
            part = ReasoningPart(text, signature, metadata=metadata)
            self._behind.setdefault(owner, []).append(part)

    def _take_thoughts(self, ui_id: str) -> list[Part]:
        """The thoughts that wait, as parts of the answer *ui_id*."""
        taken: list[Part] = [
            _without_id(part) if given == f"{ui_id}:r{at}" else part
            for at, (given, part) in enumerate(self._pending)
        ]
        self._pending.clear()
        return taken

    def _end_thoughts(self) -> None:
        """Make an answer of thoughts behind which none stands."""
        if not self._pending:
            return

        first = self._pending[0][0]
        found = _OWNER.fullmatch(first)
        ui_id = found[1] if found else first
        metadata = {RESERVED: {SOURCE: {"alone": True}}}
        content = self._take_thoughts(ui_id)
        self._add_message(AssistantMessage(content, metadata=metadata), ui_id)

    def _read_content(self, node: ObjectReader) -> str | list[Part]:
        given = node.raw.get("content")
        if not is_list(given):
            return node.text("content")

        return [read_part(block) for block in node.objects("content")]

    def _read_system(self, node: ObjectReader, _: str) -> Message:
        if node.raw["role"] != "system":
            node.notes["role"] = node.raw["role"]

        made = SystemMessage(node.text("content"), name=self._read_name(node))
        read_own(node)
        node.keep(_MESSAGE)
        return made

    def _read_name(self, node: ObjectReader) -> str:
        return node.optional("name")

    def _read_user(self, node: ObjectReader, _: str) -> Message:
        made = UserMessage(self._read_content(node), name=self._read_name(node))
        read_own(node)
        node.keep(_MESSAGE)
        return made

    def _read_answer(self, node: ObjectReader, ui_id: str) -> Message:
        text = node.optional("content")
        calls = self._read_tool_calls(node)
        thoughts = self._take_thoughts(ui_id)
        content: str | list[Part] = text
        if thoughts:
            content = [*thoughts, *([TextPart(text)] if text else [])]

        made = AssistantMessage(content, tool_calls=calls, name=self._read_name(node))
        read_own(node)
        node.keep(_ANSWER)
        return made

    def _read_tool_calls(self, node: ObjectReader) -> list[ToolCall]:
        given = node.raw.get("toolCalls")
        if not given and "toolCalls" in node.raw:
            node.keys["toolCalls"] = node.reading.json(given, f"{node.path}.toolCalls")

        calls: list[ToolCall] = []
        for block in node.optional_objects("toolCalls", "a list of calls"):
            call_id, function = block.text("id"), block.required("function")
            if block.raw.get("type", "function") != "function":
                block.wrong("type", "function")

            if "type" not in block.raw:
                block.notes["without"] = ["type"]

            if function is not None:
                tool, arguments = function.text("name"), function.text("arguments")
                block.keep_within("function", function, _FUNCTION)
                block.keep(_CALL)
                self._tools[call_id] = tool
                metadata = block.metadata(SOURCE)
                calls.append(ToolCall(call_id, tool, arguments, metadata=metadata))

        return calls

    def _read_result(self, node: ObjectReader, _: str) -> Message | None:
        call_id, own = node.text("toolCallId"), read_own(node)
        if node.raw.get("toolCallId") == "":
            node.wrong("toolCallId", "the id of a call")

        content, error = self._read_content(node), node.nullable("error")
        given = {key: own.get(key) for key in ("tool_name", "name")}
        tool, name = [
            self.json(each, f"{node.path}.metadata") if isinstance(each, str) else ""
            for each in given.values()
        ]
        if not tool and call_id in self._tools:
            tool = self._tools[call_id]
            node.notes["unnamed"] = True

        flag = own.get("is_error") is True
        has_error = node.raw.get("error") is not None
        node.keep(_RESULT)
        if not call_id:
            return None

        made = ToolMessage(
            content,
            tool_call_id=call_id,
            tool_name=tool,
            is_error=flag or has_error,
            name=name,
        )
        if "error" in node.raw and not has_error:
            node.keys["error"] = None

        if made.is_error and not (flag and error == (made.text or FAILED)):
            node.notes |= {"error": error if has_error else None, "flag": flag}

        return made


def _without_id(part: ReasoningPart) -> ReasoningPart:
    notes: Any = part.metadata[RESERVED]
    kept = {key: value for key, value in notes[SOURCE].items() if key != "id"}
    return attrs.evolve(part, metadata={RESERVED: {SOURCE: kept}} if kept else {})


_READERS: Mapping[str, Callable[[AgUiLoader, ObjectReader, str], Message | None]] = {
    "assistant": AgUiLoader._read_answer,
    "developer": AgUiLoader._read_system,
    "system": AgUiLoader._read_system,
    "tool": AgUiLoader._read_result,
    "user": AgUiLoader._read_user,
}
