"""From messages to Gemini's contents, and tools as its requests have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from conversation_state._persistent import thaw
from conversation_state.adapters.engine.export import (
    Export,
    Lost,
    PayloadWriter,
    ToolRules,
    in_order,
    merge_kept_keys,
    write_tools,
)
from conversation_state.adapters.engine.notes import map_of, notes_of
from conversation_state.adapters.gemini._parts import (
    SOURCE,
    write_call,
    write_part,
    write_result,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part
from conversation_state.requests import GEMINI, Rules, wants_signatures
from conversation_state.tools import ToolCall, ToolChoice, ToolInfo

_JOINED = "calls must follow a user message; this message was joined to the one before"
_JOINED_TO_OTHER = "the content it was joined to has another"


def dump(messages: Iterable[Message], rules: Rules | None = None) -> Export:
    """
    *messages* as a request has them: ``{"contents": [...]}``, and
    ``systemInstruction`` if there is a system message.

    Results that follow each other are one content, as the format has it. What the
    format can't represent: system messages after others (all are one instruction, which
    comes first), an answer with calls right after another one (both are one), arguments
    that are not a JSON object, images by *detail*, several texts in a tool's result. A
    refusal is sent as text.

    Raises:
        InvalidMessageError: If one of them is not a message.

    Source:
        Google refuses contents without parts, and where Vertex AI hosts it empty
        texts, and results beside other parts; calls, unless a user's content or
        results are before them; and, since Gemini 3, calls that no thought was signed
        for. For calls that other models made it has a constant in place of the
        signature, which is written to the first call of a message.
    """
    writer = GeminiWriter()
    ready = writer.prepare(messages, rules, GEMINI, _find_lost)
    for message, path in ready.pairs():
        writer.add(message, path)

    return writer.export(writer.payload())


def _find_lost(rules: Rules, message: Message, path: str) -> Sequence[Lost] | None:
    """All that is lost of *message* if nothing is left to send."""
    writer = GeminiWriter(rules)
    writer.add(message, path)
    payload = writer.payload()
    is_sent = payload["contents"] or "systemInstruction" in payload
    return None if is_sent else writer.lost


class _WrittenCall(NamedTuple):
    name: str
    at: int
    is_named: bool


class GeminiWriter(PayloadWriter):
    def __init__(self, rules: Rules | None = None) -> None:
        super().__init__(SOURCE, rules)
        self._instruction: dict[str, Any] | None = None
        self._contents: list[dict[str, Any]] = []
        self._last = ""
        # The answers in a row, each of which is a content so far.
        self._answers: list[str] = []
        self._written_calls: dict[str, _WrittenCall] = {}
        # The results that follow each other and have no id, by the name of their
        # call: when that was made, and where they are in their content.
        self._results: dict[str, list[tuple[int, int]]] = {}

    def payload(self) -> dict[str, Any]:
        self._end_results()
        contents = {"contents": self._contents}
        if self._instruction is None:
            return contents

        return {"systemInstruction": self._instruction, **contents}

    def _read_notes(self, message: Message, path: str) -> Mapping[str, Any]:
        why = "only functions have a name in this format"
        return self.notes_without_name(message, path, why)

    def add(self, message: Message, path: str) -> None:
        match message:
            case AssistantMessage():
                self.assistant(message, path)
            case ToolMessage():
                self.tool(message, path)
            case UserMessage():
                self.user(message, path)
            case SystemMessage():
                self.instruct(message, path)
            case UnknownMessage():
                self.other(message, path)

    def instruct(self, message: SystemMessage, path: str) -> None:
        notes = self._read_notes(message, path)
        parts = self._write_all_parts(message.content, path)
        if not parts:
            return

        keys = map_of(notes, "keys")
        if self._instruction is not None:
            why = "there is one system instruction; this message was joined to it"
            self.lose(path, "system", why)
            before = self._instruction.get("parts")
            joined = [*(before if isinstance(before, list) else ()), *parts]
            self._instruction["parts"] = joined
            differs = {key: self._instruction.get(key) != keys[key] for key in keys}
            self.lose_each(path, differs, "the system instruction has another value")
            return

        if self._contents:
            why = "system content must come first; this message was moved"
            self.lose(path, "system", why)

        raw = {"role": thaw(notes["role"])} if "role" in notes else {}
        self._instruction = _make_content(raw, parts, keys)

    def user(self, message: UserMessage, path: str) -> None:
        notes = self._read_notes(message, path)
        parts = self._write_all_parts(message.content, path)
        if parts:
            self._add_user_parts(parts, notes, map_of(notes, "keys"), "user")

    def tool(self, message: ToolMessage, path: str) -> None:
        notes = self._read_notes(message, path)
        call = self._written_calls.get(message.tool_call_id)
        name = message.tool_name or (call.name if call else "")
        if call is not None and not self.is_as_loaded(message.metadata, "tool_name"):
            name = call.name
            self.lose_tool_name(message, path, name)

        # A result has an id only if its call has one, or it is not there.
        is_named = message.tool_call_id != notes.get("made_id")
        is_named = is_named and (call is None or call.is_named)
        about = {"id": message.tool_call_id if is_named else "", "name": name}
        raw = write_result(self, message, path, notes, about)
        # All results of an answer are one content, even if several were loaded.
        is_apart = notes.get("new_content") is True and not self.is_request
        follows = self._last == "tool" and not is_apart
        keys = map_of(notes, "content")
        if follows:
            joined = self._contents[-1]
            differs = {key: joined.get(key) != thaw(keys[key]) for key in keys}
            self.lose_each(path, differs, _JOINED_TO_OTHER)

        self._add_user_parts([raw], notes, keys, "tool", follows=follows)
        if call is not None and not about["id"]:
            place = len(self._contents[-1]["parts"]) - 1
            self._results.setdefault(call.name, []).append((call.at, place))

    def _add_user_parts(
        self,
        parts: list[dict[str, Any]],
        notes: Mapping[str, Any],
        keys: Mapping[str, Any],
        kind: str,
        *,
        follows: bool = False,
    ) -> None:
        joined = notes.get("same_content") is True and self._last in {"tool", "user"}
        if follows or (joined and not self.is_for_host):
            self._contents[-1]["parts"].extend(parts)
        else:
            self._end_results()
            self._contents.append(_make_content({"role": "user"}, parts, keys))

        self._last = kind

    def _end_results(self) -> None:
        """
        Put results that identify their call by its name only in the order
        of the calls: that is how they are matched.
        """
        for several in self._results.values():
            parts = self._contents[-1]["parts"]
            ordered = [parts[place] for _, place in sorted(several)]
            for (_, place), part in zip(several, ordered, strict=True):
                parts[place] = part

        self._results.clear()

    def assistant(self, message: AssistantMessage, path: str) -> None:
        self._end_results()
        notes = self._read_notes(message, path)
        parts: list[dict[str, Any]] = []
        content = message.content
        listed: tuple[Part, ...] = () if isinstance(content, str) else content
        if content and isinstance(content, str):
            parts.append({"text": content})
        elif not (content or message.tool_calls):
            parts.append({"text": ""})  # as it was loaded

        is_first, is_signed = True, self._wants_signatures(message)
        for here, one in in_order(listed, message.tool_calls, path):
            if isinstance(one, ToolCall):
                parts.append(
                    self._write_call_part(one, here, first=is_first, signed=is_signed)
                )
                is_first = False
                continue

            block = write_part(self, one, here)
            if block is not None:
                parts.append(block)

        if not parts and self.is_request:
            return

        parts = parts or [{"text": ""}]
        keys = map_of(notes, "keys")
        apart = keys or notes.get("new_content") is True
        if self._last != "model" or (apart and not self.is_for_host):
            self._answers = []

        if message.tool_calls and self._answers:
            self._answers.append(path)
            self._contents.append(_make_content({"role": "model"}, parts, keys))
            self._join_answers()
        else:
            self._contents.append(_make_content({"role": "model"}, parts, keys))
            self._answers.append(path)

        self._last = "model"

    def _join_answers(self) -> None:
        """
        Make one content of all answers in a row: calls are rejected unless a user or
        result is just before them.
        """
        first, *others = self._answers
        start = len(self._contents) - len(others)
        joined = self._contents[start - 1]
        for path, content in zip(others, self._contents[start:], strict=True):
            self.lose(path, "assistant", _JOINED)
            differs = {
                key: joined.get(key) != content[key]
                for key in content.keys() - {"parts"}
            }
            self.lose_each(path, differs, _JOINED_TO_OTHER)
            joined["parts"].extend(content["parts"])

        del self._contents[start:]
        self._answers = [first]

    def _wants_signatures(self, message: AssistantMessage) -> bool:
        """Whether the model that is asked, or that answered, wants its calls signed."""
        if not (self.is_request and message.tool_calls):
            return False

        models = [self.rules.model] if self.rules is not None else []
        models += [message.response.model] if message.response is not None else []
        return any(model and wants_signatures(model) for model in models)

    def _write_call_part(
        self, call: ToolCall, path: str, *, first: bool, signed: bool
    ) -> dict[str, Any]:
        is_named = call.id != notes_of(call.metadata, SOURCE).get("made_id")
        if is_named and self.rules is not None and not self.rules.takes_call_ids:
            is_named = False
            self.lose(path, "id", "the host has no ids of calls")

        if call.id:
            written = _WrittenCall(call.name, len(self._written_calls), is_named)
            self._written_calls[call.id] = written

        raw = write_call(self, call, path, first=first, signed=signed)
        if not is_named:
            raw["functionCall"].pop("id", None)

        return raw

    def _write_all_parts(self, content: str | tuple[Part, ...], path: str) -> list[Any]:
        # An empty message is one that was loaded; no other is sent.
        if isinstance(content, str) or not content:
            return [{"text": content or ""}]

        parts = [
            part
            for at, each in enumerate(content)
            if (part := write_part(self, each, f"{path}.parts[{at}]")) is not None
        ]
        # Where no provider refuses it, the order of roles stays.
        return parts if parts or self.is_request else [{"text": ""}]

    def other(self, message: UnknownMessage, path: str) -> None:
        self._read_notes(message, path)
        raw = self.unknown(message.raw, message.source, path)
        if raw is None:
            return

        instruction = raw.get("systemInstruction")
        is_alone = len(raw) == 1 and isinstance(instruction, dict)
        if self._instruction is None and is_alone:
            self._instruction = instruction
            return

        self._end_results()
        self._contents.append(raw)
        self._last = "unknown"


def _make_content(
    raw: dict[str, Any], parts: list[dict[str, Any]], keys: Mapping[str, Any]
) -> dict[str, Any]:
    """*raw*, a content, with its *parts* and the *keys* that were kept with it."""
    raw["parts"] = parts
    return merge_kept_keys(keys, raw)


_RULES = ToolRules("Gemini", GEMINI.call_names)
_MODES = {
    ToolChoice.FORBIDDEN: "NONE",
    ToolChoice.ALLOWED: "AUTO",
    ToolChoice.FORCED: "ANY",
}


def dump_tools(
    tools: Iterable[ToolInfo], *, choice: ToolChoice | None = None
) -> Export:
    """
    *tools* and *choice* as the keys ``tools`` and ``toolConfig`` of a request.

    Raises:
        InvalidToolError: If *tools* or *choice* are something else.

    Source:
        Gemini's reference: ``parametersJsonSchema`` takes JSON Schema, where
        ``parameters`` takes a dialect of OpenAPI.

    >>> tool = ToolInfo("clock", "Tells the time.")
    >>> dump_tools([tool], choice=ToolChoice.FORCED).payload["toolConfig"]
    {'functionCallingConfig': {'mode': 'ANY'}}
    """
    return write_tools(tools, choice, _RULES, _write_tool, _write_request)


def _write_tool(tool: ToolInfo, schema: dict[str, Any] | None) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if schema is not None:
        written["parametersJsonSchema"] = schema

    return written


def _write_request(
    tools: list[dict[str, Any]], choice: ToolChoice | None
) -> dict[str, Any]:
    request: dict[str, Any] = {"tools": [{"functionDeclarations": tools}]}
    if choice is not None:
        request["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[choice]}}

    return request
