"""From messages to Anthropic Messages, and tools as its requests have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conversation_state.adapters.anthropic._blocks import (
    EMPTY,
    SOURCE,
    input_of,
    write_part,
)
from conversation_state.adapters.anthropic._load import load
from conversation_state.adapters.anthropic._turns import (
    Block,
    Piece,
    Turns,
    make_piece,
)
from conversation_state.adapters.engine.export import (
    Export,
    Lost,
    PayloadWriter,
    in_order,
    merge_kept_keys,
)
from conversation_state.adapters.engine.notes import map_of
from conversation_state.adapters.engine.tools import ToolRules, write_tools
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part
from conversation_state.requests import ANTHROPIC, Rules
from conversation_state.requests import rules as rules_of
from conversation_state.tools import ToolCall, ToolChoice, ToolInfo


def dump(
    messages: Iterable[Message],
    rules: Rules | None = None,
    *,
    system_on_top: bool = False,
) -> Export:
    """
    *messages* as a request has them: ``{"system": ..., "messages": [...]}``.

    What was loaded from this format is written as it was, as far as the
    provider takes it. Its rules hold for all else:

    - System messages in front of all others are ``system``. One in the middle
      stays there, behind a user message and before an answer, which is
      the only place for it.
    - Messages of users and tools until the assistant answers are one message, the
      results of tools first; so are assistant messages without a user in
      between.
    - Blocks of the assistant stand in the order of their *index*.
    - No text is empty, and no answer is thinking only.

    Reasoning that the provider did not sign is lost. What else a request needs as a
    whole, results behind their calls for one, is in
    `conversation_state.requests.prepare`; what is changed for that is in
    `Export.lost`, too.

    Args:
        messages: The messages, from the beginning.

        rules: Those of one host, as `rules` makes them; None: they are right for all
            hosts that are known.

        system_on_top: Whether to put all system messages on top, for models
            that take none in the middle; what is moved so is in `Export.lost`.

    Raises:
        InvalidMessageError:
            If one of them is not a message.

    Source:
        Anthropic combines neighbours of one role itself.
    """
    writer = AnthropicWriter(system_on_top=system_on_top)
    ready = writer.prepare(messages, rules, ANTHROPIC, _find_lost)
    for message, path in ready.pairs():
        writer.add(message, path)

    return writer.export(writer.turns.payload())


def _find_lost(rules: Rules, message: Message, path: str) -> Sequence[Lost] | None:
    """All that is lost of *message* if nothing is left to send."""
    writer = AnthropicWriter(rules, system_on_top=True)
    writer.add(message, path)
    payload = writer.turns.payload()
    return None if payload["messages"] or "system" in payload else writer.lost


class AnthropicWriter(PayloadWriter):
    def __init__(self, rules: Rules | None = None, *, system_on_top: bool) -> None:
        super().__init__(SOURCE, rules)
        self.turns = Turns(self, system_on_top=system_on_top)
        self._tools: dict[str, str] = {}

    def add(self, message: Message, path: str) -> None:
        match message:
            case AssistantMessage():
                self.assistant(message, path)
            case ToolMessage():
                self.tool(message, path)
            case SystemMessage() | UserMessage():
                self.text_message(message, path)
            case UnknownMessage():
                self.other(message, path)

    def text_message(self, message: SystemMessage | UserMessage, path: str) -> None:
        notes = self.notes_without_name(message, path)
        piece = self._write_piece(message, path, notes)
        if message.role == "user":
            self.turns.user(piece)
        else:
            self.turns.system(piece)

    def tool(self, message: ToolMessage, path: str) -> None:
        notes = self.notes_without_name(message, path)
        call_id, content = message.tool_call_id, message.content
        raw: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": call_id,
        }
        raw["content"] = content
        if not isinstance(content, str):
            blocks = self._write_blocks(content, path, "tool")
            raw["content"] = [block for _, block in blocks]

        if message.is_error and raw["content"]:
            raw["is_error"] = True
        elif message.is_error:
            why = "the provider rejects an error without content"
            self.lose(path, "is_error", why)
        elif notes.get("is_error") is False:
            raw["is_error"] = False

        self.lose_tool_name(message, path, self._tools.get(call_id, ""))
        merge_kept_keys(map_of(notes, "keys"), raw)
        self.turns.result(make_piece(path, [(path, raw)], notes))

    def assistant(self, message: AssistantMessage, path: str) -> None:
        notes = self.notes_without_name(message, path)
        if not message.tool_calls:
            self.turns.assistant(self._write_piece(message, path, notes))
            return

        blocks: list[Block] = []
        for here, one in in_order(message.parts, message.tool_calls, path):
            if isinstance(one, ToolCall):
                blocks.append((here, self._write_call(one, here)))
            else:
                block = write_part(self, one, here, "assistant")
                blocks += [] if block is None else [(here, block)]

        self.turns.assistant(make_piece(path, blocks, notes))

    def other(self, message: UnknownMessage, path: str) -> None:
        notes = self.notes_without_name(message, path)
        raw = self.unknown(message.raw, message.source, path, "role")
        if raw is None:
            return

        # The user may have made it.
        try:
            load([raw])
        except DecodeError as error:
            why = f"invalid message: {error.problems[0]}"
            self.lose(path, "unknown", why)
            return

        content = raw.get("content")
        if notes.get("top") is True and isinstance(content, list):
            self.turns.top.add(Piece(path, [(path, block) for block in content]))
        else:
            self.turns.raw(raw)

    def _write_piece(
        self,
        message: SystemMessage | UserMessage | AssistantMessage,
        path: str,
        notes: Mapping[str, Any],
    ) -> Piece:
        content = message.content
        if not content:
            self.lose(path, "content", EMPTY)

        if not isinstance(content, str):
            return make_piece(
                path, self._write_blocks(content, path, message.role), notes
            )

        block = {"type": "text", "text": content}
        piece = make_piece(path, [(f"{path}.content", block)] * bool(content), notes)
        piece.plain = content
        return piece

    def _write_blocks(self, parts: Iterable[Part], path: str, role: str) -> list[Block]:
        places = [(f"{path}.parts[{at}]", part) for at, part in enumerate(parts)]
        return [
            (here, block)
            for here, part in places
            if (block := write_part(self, part, here, role)) is not None
        ]

    def _write_call(self, call: ToolCall, path: str) -> dict[str, Any]:
        notes = self.notes(call, path)
        if call.type != "function":
            self.lose(path, "type", "all calls are function calls in this format")

        if call.id:
            self._tools[call.id] = call.name

        block = {
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": input_of(call.arguments),
        }
        return merge_kept_keys(map_of(notes, "keys"), block)


_RULES = ToolRules(
    "Anthropic",
    rules_of("anthropic", host="anthropic").call_names,
    ("allOf", "anyOf", "oneOf"),
)
_CHOICES = {
    ToolChoice.FORBIDDEN: "none",
    ToolChoice.ALLOWED: "auto",
    ToolChoice.FORCED: "any",
}


def dump_tools(
    tools: Iterable[ToolInfo], *, choice: ToolChoice | None = None
) -> Export:
    """
    *tools* and *choice* as the keys ``tools`` and ``tool_choice`` of a request.

    Raises:
        InvalidToolError:
            If *tools* or *choice* are something else.

    Source:
        Anthropic's reference; ``any`` is its word for a choice that is forced. It
        refuses ``anyOf``, ``oneOf`` and ``allOf`` at the top of a schema.

    >>> tool = ToolInfo("clock", "Tells the time.")
    >>> dump_tools([tool], choice=ToolChoice.FORCED).payload["tool_choice"]
    {'type': 'any'}
    """
    return write_tools(tools, choice, _RULES, _write_tool, _write_request)


def _write_tool(tool: ToolInfo, schema: dict[str, Any] | None) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description

    written["input_schema"] = tool.json_schema() if schema is None else schema
    return written


def _write_request(
    tools: list[dict[str, Any]], choice: ToolChoice | None
) -> dict[str, Any]:
    request: dict[str, Any] = {"tools": tools}
    if choice is not None:
        request["tool_choice"] = {"type": _CHOICES[choice]}

    return request
