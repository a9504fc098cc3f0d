"""
From Anthropic Messages to messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from conversation_state.adapters._extras import note_mended
from conversation_state.adapters._notes import with_notes
from conversation_state.adapters._reading import (
    ObjectReader,
    as_sent,
    describe_failure,
    is_list,
    is_map,
    mended,
    take_text,
)
from conversation_state.adapters._wire import MessageLoader
from conversation_state.adapters.anthropic._blocks import SOURCE, read_call, read_part
from conversation_state.adapters.anthropic._usage import read_usage
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
)
from conversation_state.parts import Part, TextPart
from conversation_state.tools import ToolCall

__all__ = ["load"]

_KINDS: dict[str, Callable[..., Message]] = {
    "assistant": AssistantMessage,
    "system": SystemMessage,
    "user": UserMessage,
}
_MESSAGE = frozenset({"content", "role"})
_TEXT = ("text", "type")
_RESPONSE = _MESSAGE | {"model", "stop_reason", "usage"}
_RESULT = frozenset({"content", "is_error", "tool_use_id", "type"})


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a request, its list of messages, or a response.

    Of a request only ``system`` and the messages are read. A message with the
    results of tools is several here: a `ToolMessage` for each, and a
    `UserMessage` for the other blocks. A response gives its message
    with its `ResponseMeta`.

    Nothing is lost: what our model can't represent is kept as an unknown part
    or message, or in notes (see this package). Half of a surrogate pair
    becomes U+FFFD, and a note has its path. Parts and calls of an assistant have
    their place among the blocks as *index*; arguments are the text of the
    call's input. Results have the name of the tool if the call is there.

    Raises:
        DecodeError:
            If something is not what the format has in its place; with all
            that is wrong, each with its path.
    """
    expected = "a request, a list of messages, or a response"
    return AnthropicLoader().load(payload, expected)


@attrs.define
class _AnthropicDraft:
    """
    What a message is to be made of, and how many problems there were before.
    """

    node: ObjectReader
    kind: Callable[..., Message]
    problems: int
    content: Any = ""
    fields: dict[str, Any] = attrs.Factory(dict)


class AnthropicLoader(MessageLoader):
    def __init__(self) -> None:
        super().__init__()
        # Of all calls so far: tools by id.
        self.tools: dict[str, str] = {}
        # How much of what was mended is noted with the messages before.
        self._noted = 0

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        node = ObjectReader(self, payload, "$")
        if "messages" in payload and "content" in payload:
            self.problem("$", "has both messages and content; expected one of them")
        elif "messages" in payload:
            messages = self._load_system(node)
            if is_list(payload["messages"]):
                return messages + self.history(payload["messages"], "$.messages")

            node.wrong("messages", "a list of messages")
        elif "content" in payload:
            return self._load_response(node)
        elif payload.get("error") is not None:
            why = describe_failure(payload["error"])
            self.problem("$.error", f"is the provider's error: {why}")
        else:
            self.problem(
                "$",
                "has neither messages nor content; expected a request, a list of "
                "messages, or a response",
            )

        return []

    def _load_system(self, node: ObjectReader) -> list[Message]:
        given = node.raw.get("system")
        if given is None:
            return []

        inside = ObjectReader(self, {"role": "system", "content": given}, "$")
        top = with_notes(SOURCE, {"top": True})
        return [
            message.replace(metadata=top)
            if isinstance(message, UnknownMessage)
            else message
            for message in self._load_message(inside, "system", "$.system")
        ]

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        messages: list[Message] = []
        before: Any = None
        for at, raw in enumerate(raws):
            here = f"{path}[{at}]"
            if not is_map(raw):
                self.wrong(here, raw, "an object")
                continue

            node = ObjectReader(self, raw, here)
            role = raw.get("role")
            if not isinstance(role, str) or role not in _KINDS:
                node.wrong("role", ", ".join(_KINDS))
                continue

            if role == before:
                node.notes["apart"] = True

            if role == "system" and before in {None, "system"}:
                node.notes["inside"] = True

            messages += self._load_messages(node, role)
            before = role

        return messages

    def _load_messages(self, node: ObjectReader, role: str) -> Iterator[Message]:
        """
        What one message of the format is here: several, if tools answer.
        """
        around = self.rest(node.raw, _MESSAGE, node.path)
        if around:
            node.notes["around"] = around

        content = node.raw.get("content")
        if role != "user" or not is_list(content) or not any(map(_is_result, content)):
            yield from self._load_message(node, role, f"{node.path}.content")
            return

        start, late = 0, False
        for at, block in enumerate(content):
            if not _is_result(block):
                late = True
                continue

            yield from self._load_user_blocks(node, content, start, at)
            result = ObjectReader(self, block, f"{node.path}.content[{at}]")
            yield from self._load_result(node, result, late=late)
            start = at + 1

        yield from self._load_user_blocks(node, content, start, len(content))

    def _load_user_blocks(
        self, node: ObjectReader, content: Sequence[Any], start: int, end: int
    ) -> Iterator[Message]:
        """
        The user's blocks between two results.
        """
        if start == end:
            return

        draft = _AnthropicDraft(_take_notes(node), UserMessage, self.count)
        path = f"{node.path}.content"
        draft.content = self._load_blocks(content[start:end], path, "user", start)[0]
        yield from self._finish_message(draft, node.path)

    def _finish_message(self, draft: _AnthropicDraft, path: str) -> Iterator[Message]:
        """
        The message of *draft* at *path*, if there was no problem.
        """
        note_mended(draft.node, self._noted, path)
        self._noted = len(self.mended)
        if self.count > draft.problems:
            return

        if draft.node.notes or draft.node.keys:
            draft.fields["metadata"] = draft.node.metadata(SOURCE)

        yield draft.kind(draft.content, **draft.fields)

    def _load_result(
        self, node: ObjectReader, block: ObjectReader, *, late: bool
    ) -> Iterator[Message]:
        block.notes = _take_notes(node).notes
        if late:
            block.notes["late"] = True

        draft = _AnthropicDraft(block, ToolMessage, self.count)
        call_id = block.text("tool_use_id")
        if not call_id and isinstance(block.raw.get("tool_use_id"), str):
            block.wrong("tool_use_id", "the id of a call")

        content = block.raw.get("content")
        if is_list(content):
            path = f"{block.path}.content"
            draft.content = self._load_blocks(content, path, "tool")[0]
        elif isinstance(content, str):
            draft.content = block.text("content")
        elif content is not None:
            block.wrong("content", "a text, a list of blocks or null")
        elif "content" in block.raw:
            block.keys["content"] = None
        else:
            block.notes["without"] = ["content"]

        draft.fields["is_error"] = _has_failed(block)
        block.keep(_RESULT)
        draft.fields["tool_call_id"] = call_id
        draft.fields["tool_name"] = self.tools.get(call_id, "")
        yield from self._finish_message(draft, node.path)

    def _load_message(
        self, node: ObjectReader, role: str, path: str
    ) -> Iterator[Message]:
        """
        The message that *node* is, whose content is at *path*.
        """
        draft = _AnthropicDraft(node, _KINDS[role], self.count)
        content = node.raw.get("content")
        changes_effort = role == "system" and bool(node.raw.get("output_config"))
        calls: list[ToolCall] = []
        if isinstance(content, str):
            draft.content = mended(content)
            if draft.content is not content:
                self.mended.append(path)
        elif is_list(content):
            draft.content, calls = self._load_blocks(content, path, role)
        elif not (changes_effort and "content" not in node.raw):
            expected = "a text or a list of blocks"
            if "content" in node.raw:
                self.wrong(path, content, expected)
            else:
                self.problem(path, f"is missing; expected {expected}")

        if calls:
            draft.fields["tool_calls"] = calls
            self.tools |= {call.id: call.name for call in calls}

        parts = () if isinstance(content, str) else draft.content
        if (changes_effort and not content) or (
            role == "system" and not all(isinstance(part, TextPart) for part in parts)
        ):
            # Changes of the tools or of the effort, which our model can't represent.
            raw = self.json(node.raw, node.path)
            draft.kind, draft.content = UnknownMessage, raw
            draft.fields["source"] = SOURCE
            node.notes = {}

        yield from self._finish_message(draft, node.path)

    def _load_blocks(
        self, content: Sequence[Any], path: str, role: str, start: int = 0
    ) -> tuple[list[Part], list[ToolCall]]:
        """
        What the blocks of *content* are, the first of which is number *start*.
        """
        parts: list[Part] = []
        calls: list[ToolCall] = []
        for at, raw in enumerate(content, start):
            index = at if role == "assistant" else None
            here = f"{path}[{at}]"
            if not is_map(raw):
                self.wrong(here, raw, "an object")
                continue

            kind = raw.get("type")
            block = ObjectReader(self, raw, here)
            if kind == "text" and len(raw) == len(_TEXT):
                parts.append(TextPart(block.text("text"), index=index))
            elif kind == "tool_use" and role == "assistant":
                calls.append(read_call(block, index))
            else:
                parts.append(read_part(block, role, index))

        return parts, calls

    def _load_response(self, node: ObjectReader) -> list[Message]:
        """
        The message of a response, with its metadata.
        """
        raw = node.raw
        if raw.get("role", "assistant") != "assistant":
            node.wrong("role", "assistant")

        usage, left = None, dict[str, Any]()
        if raw.get("usage") is not None:
            usage, left = read_usage(self, raw["usage"], f"{node.path}.usage")

        reason, model = node.optional("stop_reason"), node.optional("model")
        node.keys.clear()
        notes = self.rest(raw, _RESPONSE, node.path)
        if left:
            notes["usage"] = left

        response_id = take_text(notes, "id")
        if notes:
            node.notes["response"] = notes

        response = ResponseMeta(reason, usage, None, model, response_id)
        node.raw = as_sent(node.raw)
        messages = self._load_message(node, "assistant", f"{node.path}.content")
        return [message.replace(response=response) for message in messages]


def _is_result(block: Any) -> bool:
    return is_map(block) and block.get("type") == "tool_result"


def _take_notes(node: ObjectReader) -> ObjectReader:
    """
    *node*, with its notes, which are taken from it: they are the first's.
    """
    here = ObjectReader(node.reading, node.raw, node.path)
    here.notes, node.notes = node.notes, {}
    return here


def _has_failed(result: ObjectReader) -> bool:
    """
    Whether *result* is an error; false and null are noted.
    """
    failed = result.raw.get("is_error")
    if failed is False:
        # `ToolMessage` says so, too: dumped elsewhere, nothing is lost.
        result.notes["is_error"] = False
    elif failed is None and "is_error" in result.raw:
        result.keys["is_error"] = None
    elif failed is not None and failed is not True:
        result.wrong("is_error", "true, false or null")

    return failed is True
