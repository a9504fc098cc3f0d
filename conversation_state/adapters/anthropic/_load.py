"""From Anthropic Messages to messages, and their usage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from conversation_state.adapters.anthropic._blocks import SOURCE, read_call, read_part
from conversation_state.adapters.engine.notes import map_of, notes_of, with_notes
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    as_sent,
    is_list,
    is_map,
    mended,
    note_mended,
    take_text,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    as_count,
    find_usage_block,
    read_billed,
    read_paid_text,
    split_counts,
    usage_in,
)
from conversation_state.adapters.engine.wire import (
    MessageLoader,
    make_call_id,
    make_call_prefix,
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
from conversation_state.parts import Part, TextPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

_WRITTEN, _READ = "cache_creation_input_tokens", "cache_read_input_tokens"
_COUNTS = frozenset({"input_tokens", "output_tokens", _READ, _WRITTEN})

# Breakdowns, and what their counts are called in `Usage.extra`; the names are
# those that prices go by.
_LIFETIMES = {
    "ephemeral_5m_input_tokens": "cache_write_5m_tokens",
    "ephemeral_1h_input_tokens": "cache_write_1h_tokens",
}
_TOOLS = {"web_search_requests": "web_searches"}
_THOUGHT = frozenset({"thinking_tokens"})
_BREAKDOWNS = frozenset({"cache_creation", "output_tokens_details", "server_tool_use"})

# What runs next to the response, and is not in its counts; and the attempts to make
# it, of which its counts are the last one's.
_BESIDE = frozenset({"advisor_message", "compaction"})
_FALLBACK = "fallback_message"
_ATTEMPTS = frozenset({_FALLBACK, "message"})


def load_usage(payload: Any) -> Usage | None:
    """
    What *payload*, a response, an event of a stream or a usage block, cost.

    The provider counts what it read from its cache, and wrote to it, in addition to
    ``input_tokens``; here all three are `Usage.prompt_tokens`::

        prompt_tokens = input_tokens + cache_read_input_tokens
                      + cache_creation_input_tokens
        completion_tokens = output_tokens   # thinking is a part of it
        total_tokens = prompt_tokens + completion_tokens

    In `Usage.extra`: ``cache_write_tokens``, of which
    ``cache_write_5m_tokens`` and ``cache_write_1h_tokens`` are parts, given
    where they add up; ``web_searches``; and what ran next to the response, by
    ``advisor_message_prompt``, ``advisor_message_completion``,
    ``compaction_prompt`` and ``compaction_completion``, which prompt and
    completion do not include. Nor do they include what models wrote that
    declined to go on before another one answered: ``declined_message_prompt``
    and ``declined_message_completion``. Other integers keep their names.

    An event ``message_delta`` has running totals, in older versions of
    ``output_tokens`` only.

    Raises:
        DecodeError: If a count is invalid.

    Source:
        Anthropic's reference says what is the whole input and that output
        counts include thinking. Recorded responses show that tokens of
        advisors, and its guide to compaction that those of summaries, are in
        ``iterations`` only: they are billed, advisors at another model's
        price. So are, says its page on fallbacks, attempts that declined after
        some output; those without any are free.

    >>> usage = load_usage({"input_tokens": 3, "cache_read_input_tokens": 9})
    >>> usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens
    (12, 9)
    """
    return usage_in(payload, _find_usage, read_anthropic_counts)


def _find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    holders = {"$": payload, "$.message": payload.get("message")}
    return find_usage_block(holders, _COUNTS)


def read_anthropic_counts(
    reader: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts, extra, left = split_counts(reader, block, _COUNTS, path)
    # An integer instead of a breakdown is wrong, and no category of its own.
    left |= {name: extra.pop(name) for name in _BREAKDOWNS & extra.keys()}
    extra |= _read_cache_writes(reader, counts, left, path)
    thought = _read_breakdown(reader, left, "output_tokens_details", _THOUGHT, path)
    used = _read_breakdown(reader, left, "server_tool_use", _TOOLS, path)
    extra |= {_TOOLS[name]: count for name, count in used.items()}
    for name, count in _read_iterations(block.get("iterations")):
        extra[name] = extra.get(name, 0) + count

    cached = counts.get(_READ, 0)
    prompt = counts.get("input_tokens", 0) + cached + extra["cache_write_tokens"]
    details = (
        {"cached_tokens": cached},
        {"reasoning_tokens": thought.get("thinking_tokens", 0)},
    )
    return (prompt, counts.get("output_tokens", 0), None), details, extra, left


def _read_breakdown(
    reader: DocumentReader,
    left: dict[str, Any],
    name: str,
    known: Collection[str],
    path: str,
) -> dict[str, int]:
    """The *known* counts in the breakdown *name*, of which the others are *left*."""
    block = left.get(name)
    if not is_map(block):
        if block is not None:
            reader.wrong(f"{path}.{name}", block, "an object or null")

        return {}

    counts, others, rest = split_counts(reader, block, known, f"{path}.{name}")
    left[name] = {**rest, **others}
    if not left[name]:
        del left[name]

    return counts


def _read_cache_writes(
    reader: DocumentReader, counts: dict[str, int], left: dict[str, Any], path: str
) -> dict[str, int]:
    given = left.get("cache_creation")
    parts = _read_breakdown(reader, left, "cache_creation", _LIFETIMES, path)
    others = map_of(left, "cache_creation")
    written = counts.get(_WRITTEN)
    if written is None:
        written = sum(parts.values()) + sum(
            as_count(one) or 0 for one in others.values()
        )

    # Whole, or not at all: a part alone would be priced wrongly.
    if others or sum(parts.values()) != written:
        parts = {}
        if given is not None:
            left["cache_creation"] = given
    else:
        left.pop("cache_creation", None)

    lifetimes = {_LIFETIMES[name]: count for name, count in parts.items()}
    return {**lifetimes, "cache_write_tokens": written}


def _read_iterations(iterations: Any) -> list[tuple[str, int]]:
    """Usage outside the response: names of categories, and counts."""
    listed = [one for one in iterations if is_map(one)] if is_list(iterations) else []
    attempts = [one for one in listed if _has_type(one, _ATTEMPTS)]
    found: list[tuple[str, int]] = []
    for one in listed:
        if _has_type(one, _BESIDE):
            kind = one["type"]
        elif _has_type(one, _ATTEMPTS) and _is_declined(one, attempts[-1]):
            kind = "declined_message"
        else:
            continue

        # Without iterations of its own: hostile ones are nested a thousand times.
        inside = {**one, "iterations": None}
        usage, _ = read_billed(DocumentReader(), inside, "$", read_anthropic_counts)
        if usage is not None:
            found.append((f"{kind}_prompt", usage.prompt_tokens))
            found.append((f"{kind}_completion", usage.completion_tokens))

    return found


def _has_type(iteration: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    kind = iteration.get("type")
    return isinstance(kind, str) and kind in kinds


def _is_declined(attempt: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
    """
    Whether *attempt* is billed, and another model's than the *last* one, which
    the counts of the response are of.
    """
    if attempt["type"] == _FALLBACK or not attempt.get("output_tokens"):
        return False

    # Without both names they may be steps of one model, which the counts are of.
    model, answered = attempt.get("model"), last.get("model")
    is_known = isinstance(model, str) and isinstance(answered, str)
    return last["type"] == _FALLBACK or (is_known and model != answered)


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
    `UserMessage` for the other blocks. Parts and calls of an assistant have
    their place among the blocks as *index*; arguments are the text of the
    call's input. Results have the name of the tool if the call is there. A call without
    an id, which other servers send, gets one: made from the response's id, or unique in
    time if it has none; in a request, from its position.

    Raises:
        DecodeError: If something is not what the format has in its place.
    """
    expected = "a request, a list of messages, or a response"
    return AnthropicLoader().load(payload, expected)


def _note_container(messages: list[Message], container: Any) -> None:
    """Note in the newest answer of *messages* where its code waits."""
    if not isinstance(container, str):
        return

    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AssistantMessage):
            notes = dict(notes_of(message.metadata, SOURCE))
            notes["response"] = {"container": {"id": container}}
            metadata = with_notes(SOURCE, notes, message.metadata)
            messages[at] = message.replace(metadata=metadata)
            return


class AnthropicLoader(MessageLoader):
    source = SOURCE

    def __init__(self) -> None:
        super().__init__()
        # Of all calls so far: tools by id.
        self.tools: dict[str, str] = {}
        # How much of what was mended is noted with the messages before.
        self._noted = 0
        # Of ids that are made up in the message that is read.
        self._prefix = ""

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        node = ObjectReader(self, payload, "$")
        if ("messages" in payload) is ("content" in payload):
            self.refuse_document(payload, "messages", "content", "messages")
            return []

        if "content" in payload:
            return self._load_response(node)

        messages = self._load_system(node)
        if is_list(payload["messages"]):
            messages += self.history(payload["messages"], "$.messages")
            _note_container(messages, payload.get("container"))
            return messages

        node.wrong("messages", "a list of messages")
        return []

    def _load_system(self, node: ObjectReader) -> list[Message]:
        given = node.raw.get("system")
        if given is None:
            return []

        # Read like a message of its role, which it is a short form of.
        inside = ObjectReader(self, {"role": "system", "content": given}, "$")
        top = with_notes(SOURCE, {"system": True})
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
                node.notes["new_message"] = True

            self._prefix = f"message_{at}"
            messages += self._load_messages(node, role)
            before = role

        return messages

    def _load_messages(self, node: ObjectReader, role: str) -> list[Message]:
        """What one message of the format is here: several, if tools answer."""
        around = self.rest(node.raw, _MESSAGE, node.path)
        if around:
            node.notes["message"] = around

        content = node.raw.get("content")
        path = f"{node.path}.content"
        if role != "user" or not is_list(content):
            return self._load_message(node, role, path)

        results = [
            at
            for at, block in enumerate(content)
            if is_map(block) and block.get("type") == "tool_result"
        ]
        if not results:
            return self._load_message(node, role, path)

        messages: list[Message] = []
        start = 0
        # The notes on the whole message are the first one's.
        for at in (*results, len(content)):
            if start < at:
                before, blocks = self.count, content[start:at]
                parts, _ = self._load_blocks(blocks, path, "user", start)
                messages += self._make_message(
                    UserMessage, parts, node, node.path, before
                )
                node.notes = {}

            if at < len(content):
                result = ObjectReader(self, content[at], f"{path}[{at}]")
                result.notes = node.notes
                messages += self._load_result(node, result)
                node.notes = {}

            start = at + 1

        return messages

    def _make_message(
        self,
        kind: Callable[..., Message],
        content: Any,
        node: ObjectReader,
        path: str,
        problems: int,
        **fields: Any,
    ) -> list[Message]:
        """
        The message of *node*, which is at *path* or part of what is there; none if
        there are more than the *problems* before it.
        """
        note_mended(node, self._noted, path)
        self._noted = len(self.mended)
        if self.count > problems:
            return []

        # Without metadata messages share what all of them have.
        if node.notes or node.keys:
            fields["metadata"] = node.metadata(SOURCE)

        return [kind(content, **fields)]

    def _load_result(self, node: ObjectReader, block: ObjectReader) -> list[Message]:
        problems = self.count
        call_id = block.text("tool_use_id")
        if not call_id and isinstance(block.raw.get("tool_use_id"), str):
            block.wrong("tool_use_id", "the id of a call")

        given = block.raw.get("content")
        content: str | list[Part] = ""
        if is_list(given):
            content, _ = self._load_blocks(given, f"{block.path}.content", "tool")
        elif isinstance(given, str):
            content = block.text("content")
        elif given is not None:
            block.wrong("content", "a text, a list of blocks or null")

        failed = block.raw.get("is_error")
        if failed is False:
            # `ToolMessage` says so, too: dumped elsewhere, nothing is lost.
            block.notes["is_error"] = False
        elif failed is not None and failed is not True:
            block.wrong("is_error", "true, false or null")

        block.keep(_RESULT)
        return self._make_message(
            ToolMessage,
            content,
            block,
            node.path,
            problems,
            is_error=failed is True,
            tool_call_id=call_id,
            tool_name=self.tools.get(call_id, ""),
        )

    def _load_message(self, node: ObjectReader, role: str, path: str) -> list[Message]:
        """The message that *node* is, whose content is at *path*."""
        problems, raw = self.count, node.raw.get("content")
        changes_effort = role == "system" and bool(node.raw.get("output_config"))
        content: Any = ""
        calls: list[ToolCall] = []
        if isinstance(raw, str):
            content = mended(raw)
            if content is not raw:
                self.mended.append(path)
        elif is_list(raw):
            content, calls = self._load_blocks(raw, path, role)
        elif not (changes_effort and "content" not in node.raw):
            expected = "a text or a list of blocks"
            if "content" in node.raw:
                self.wrong(path, raw, expected)
            else:
                self.problem(path, f"is missing; expected {expected}")

        if role == "system" and (
            (changes_effort and not raw)
            or not (
                isinstance(raw, str) or all(isinstance(p, TextPart) for p in content)
            )
        ):
            # Changes of the tools or of the effort, which our model can't represent.
            content, node.notes = self.json(node.raw, node.path), {}
            return self._make_message(
                UnknownMessage, content, node, node.path, problems, source=SOURCE
            )

        fields: dict[str, Any] = {}
        # Results do not say which tool they are of.
        if calls:
            fields["tool_calls"] = calls
            self.tools |= {call.id: call.name for call in calls}

        return self._make_message(
            _KINDS[role], content, node, node.path, problems, **fields
        )

    def _load_blocks(
        self, content: Sequence[Any], path: str, role: str, start: int = 0
    ) -> tuple[list[Part], list[ToolCall]]:
        """What the blocks of *content* are, the first of which is number *start*."""
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
                made_id = "" if raw.get("id") else make_call_id(self._prefix, at)
                calls.append(read_call(block, index, made_id))
            else:
                parts.append(read_part(block, role, index))

        return parts, calls

    def _load_response(self, node: ObjectReader) -> list[Message]:
        """The message of a response, with its metadata."""
        raw = node.raw
        self.is_answer = True
        if raw.get("role") not in (None, "assistant"):
            node.wrong("role", "assistant")

        usage, left = None, dict[str, Any]()
        if raw.get("usage") is not None:
            usage, left = read_billed(
                self, raw["usage"], f"{node.path}.usage", read_anthropic_counts
            )

        notes = self.rest(raw, _RESPONSE, node.path)
        reason = read_paid_text(node, "stop_reason", notes)
        model = read_paid_text(node, "model", notes)
        if left:
            notes["usage"] = left

        response_id = take_text(notes, "id")
        if notes:
            node.notes["response"] = notes

        response = ResponseMeta(reason, usage, None, model, response_id)
        node.raw = as_sent(node.raw)
        self._prefix = make_call_prefix(response_id)
        messages = self._load_message(node, "assistant", f"{node.path}.content")
        return [message.replace(response=response) for message in messages]
