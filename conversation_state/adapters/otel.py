"""
OpenTelemetry: a conversation as attributes of a span or an event.

::

    attributes = dump(messages).payload
    span.set_attributes(dump(messages, as_text=True).payload)
    span.set_attributes(usage_attributes(response.usage))

The names of the GenAI semantic conventions, written and not read; no SDK is needed.
What is input and what is output:

``gen_ai.system_instructions``
    The parts of the system messages in front, in one list.

``gen_ai.input.messages``
    The messages between these and the output.

``gen_ai.output.messages``
    The last message, if it is an assistant's; or as many as *output* asks for.

``gen_ai.response.finish_reasons``
    Why each of these ended, in the provider's own terms, if all of them have it.

Attributes that would be empty are left out. Values are structured, as events have
them; spans, which hold plain values only, have the same as JSON texts (*as_text*).

What can't be written is in `Export.lost`. As with providers, some things are
neither written nor listed as lost: times, run and turn ids, metadata, positions,
and the metadata of responses that are not output. Of a provider's own block, and
of a message with an unknown role, the type is written and not the content. A part
of the conventions that our model has no class for can be given as an
`UnknownPart` from ``otel``.

Source:
    The conventions' JSON schemas, as of version 1.42 in development: a tool's
    result is a ``response``, a file's modality ``document``, tokens written to a
    cache ``cache_write``. Earlier names are written, too, where both are possible:
    ``finish_reason`` in each message, ``cache_creation``.

>>> from conversation_state.messages import AssistantMessage, UserMessage
>>> messages = [UserMessage("1+1?"), AssistantMessage("2")]
>>> dump(messages).payload["gen_ai.output.messages"]
[{'role': 'assistant', 'parts': [{'type': 'text', 'content': '2'}]}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conversation_state._canonical import dump as as_bytes
from conversation_state._canonical import load_exactly
from conversation_state._wording import describe_value, shorten_repr
from conversation_state.adapters.engine.export import (
    FINISHED,
    Export,
    Lost,
    PayloadWriter,
    in_order,
)
from conversation_state.adapters.engine.notes import Format
from conversation_state.adapters.engine.wire import encode_base64, parse_data_url
from conversation_state.errors import DecodeError
from conversation_state.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
)
from conversation_state.parts import FilePart, MediaPart, ReasoningPart, UnknownPart
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

__all__ = ["FORMAT", "Export", "Lost", "dump", "usage_attributes"]

FORMAT = Format("otel", is_both_ways=False)


_SOURCE = "otel"
_INSTRUCTIONS = "gen_ai.system_instructions"
_INPUT = "gen_ai.input.messages"
_OUTPUT = "gen_ai.output.messages"
_REASONS = "gen_ai.response.finish_reasons"

# The conventions' finish reasons, by those of providers.
_FINISHED = {**FINISHED, "interrupted": "error"}

# The types of parts whose fields the conventions name: one of another provider has none
# of these.
_KNOWN = frozenset(
    {"blob", "file", "reasoning", "text", "tool_call", "tool_call_response", "uri"}
)

# More levels than real arguments have, and fewer than any exporter takes.
_MAX_LEVELS = 90
# OTLP's integers have 64 bits, one of them for the sign.
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1


def dump(
    messages: Iterable[Message],
    *,
    output: int | None = None,
    instructions: bool = True,
    contents: bool = True,
    as_text: bool = False,
) -> Export:
    """
    *messages* as attributes, by their names in the conventions.

    Args:
        messages: What was sent to a model, and what it answered.
        output: How many of the last messages are the model's answer. None: the
            last one, if it is an assistant's.
        instructions: Whether the system messages in front were sent apart from
            the others; False leaves them among the input.
        contents: Whether to include content. Without it, roles, the kinds and
            order of parts, tools' names and the ids of calls are included, and no
            text, argument, result, url, byte or name of a person. Content that is
            left out for this is not listed as lost.
        as_text: Whether to write structured values as JSON texts.

    Raises:
        InvalidMessageError: If one of them is not a message.
        ValueError: If *output* is negative, or more than there are messages.
    """
    writer = _AttributeWriter(messages, contents=contents)
    conversation = writer.conversation
    if output is None:
        is_answer = conversation and isinstance(conversation[-1], AssistantMessage)
        output = 1 if is_answer else 0
    elif not isinstance(output, int) or not 0 <= output <= len(conversation):
        raise ValueError(
            f"output is {shorten_repr(output)}; expected an integer from 0 to "
            f"{len(conversation)}, the number of messages"
        )

    end = len(conversation) - output
    start = 0
    while (
        instructions and start < end and isinstance(conversation[start], SystemMessage)
    ):
        start += 1

    # Messages are written in their order: a result needs the tool's name, which is in
    # the call before it.
    payload: dict[str, Any] = {
        _INSTRUCTIONS: writer.write_instructions(start),
        _INPUT: [writer.write_message(at) for at in range(start, end)],
        _OUTPUT: [writer.write_answer(at) for at in range(end, len(conversation))],
    }
    payload = {key: value for key, value in payload.items() if value}
    # The finish reasons are added after this, because a span can hold a list of texts.
    if as_text:
        payload = {key: as_bytes(value).decode() for key, value in payload.items()}

    # "interrupted" is this library's own reason, not a provider's.
    reasons = [_get_finish_reason(message) for message in conversation[end:]]
    if reasons and all(reasons):
        payload[_REASONS] = ["error" if r == "interrupted" else r for r in reasons]

    return Export(payload, tuple(writer.payload_writer.lost))


def _get_finish_reason(message: Message) -> str:
    response = getattr(message, "response", None)
    return response.finish_reason if response is not None else ""


class _AttributeWriter:
    """A conversation while it is written. Never leaves the function that writes it."""

    def __init__(self, messages: Iterable[Message], *, contents: bool) -> None:
        self.contents = contents
        self.payload_writer = PayloadWriter(_SOURCE)
        self.conversation = [
            message for message, _ in self.payload_writer.each(messages)
        ]
        # The name of the latest tool called under each id; some providers use an id
        # more than once.
        self._tools: dict[str, str] = {}

    def write_instructions(self, end: int) -> list[dict[str, Any]]:
        """The parts of the first messages, up to *end*, which are the system's."""
        parts: list[dict[str, Any]] = []
        for at in range(end):
            message, path = self.conversation[at], f"messages[{at}]"
            self.payload_writer.notes(message, path)
            if message.name:
                self.payload_writer.lose(
                    path, "name", "instructions have no field for it"
                )

            parts += self._write_parts(message, path)

        return parts

    def write_answer(self, at: int) -> dict[str, Any]:
        raw, reason = self.write_message(at), _get_finish_reason(self.conversation[at])
        if reason:
            raw["finish_reason"] = _FINISHED.get(reason, reason)

        return raw

    def write_message(self, at: int) -> dict[str, Any]:
        message, path = self.conversation[at], f"messages[{at}]"
        self.payload_writer.notes(message, path)
        if isinstance(message, UnknownMessage):
            self.payload_writer.unknown(message.raw, message.source, path)
            role = message.raw.get("role")
            return {"role": role if isinstance(role, str) else "unknown", "parts": []}

        raw: dict[str, Any] = {"role": message.role}
        if isinstance(message, ToolMessage):
            raw["parts"] = [self._write_result(message, path)]
        else:
            raw["parts"] = self._write_parts(message, path)

        if message.name and self.contents:
            raw["name"] = message.name

        return raw

    def _write_parts(self, message: Message, path: str) -> list[dict[str, Any]]:
        """The parts and calls of *message*, in the order they were streamed in."""
        return [
            self._write_call(one, here)
            if isinstance(one, ToolCall)
            else self._write_part(one, here)
            for here, one in in_order(message.parts, message.tool_calls, path)
        ]

    def _write_part(self, part: Any, path: str) -> dict[str, Any]:
        self.payload_writer.notes(part, path)
        if isinstance(part, MediaPart):
            return self._write_media(part, path)

        if isinstance(part, UnknownPart):
            kind = part.raw.get("type")
            raw = self.payload_writer.unknown(part.raw, part.source, path)
            if raw is not None and self.contents and isinstance(kind, str):
                return dict(raw)

            is_free = isinstance(kind, str) and kind and kind not in _KNOWN
            return {"type": kind if is_free else "unknown"}

        if isinstance(part, ReasoningPart) and part.signature:
            why = "is sent only to the provider that signed it"
            self.payload_writer.lose(path, "signature", why)

        # What is left are texts: a thought, a refusal, or a text.
        return {"type": part.kind, "content": self._keep_text(part.text)}

    def _keep_text(self, text: str) -> str:
        return text if self.contents else ""

    def _write_media(self, part: MediaPart, path: str) -> dict[str, Any]:
        beside = {name: bool(getattr(part, name, "")) for name in ("detail", "name")}
        self.payload_writer.lose_each(
            path, beside, "the conventions have no attribute for it"
        )
        found = (part.data, part.media_type)
        if part.url is not None:
            found = parse_data_url(part.url) or (None, "")

        data, media_type = found
        raw: dict[str, Any] = {"type": "uri" if data is None else "blob"}
        if part.media_type or media_type:
            raw["mime_type"] = part.media_type or media_type

        raw["modality"] = _get_modality(part, raw.get("mime_type", ""))
        if data is None:
            raw["uri"] = self._keep_text(part.url or "")
        else:
            raw["content"] = self._keep_text(encode_base64(data))

        return raw

    def _write_call(self, call: ToolCall, path: str) -> dict[str, Any]:
        self.payload_writer.notes(call, path)
        self._tools[call.id] = call.name
        if call.type != "function":
            why = "all calls are function calls in the conventions"
            self.payload_writer.lose(path, "type", why)

        raw: dict[str, Any] = {"type": "tool_call"}
        if call.id:
            raw["id"] = call.id

        raw["name"] = call.name
        if call.arguments and self.contents:
            raw["arguments"] = _read_arguments(call.arguments)

        return raw

    def _write_result(self, message: ToolMessage, path: str) -> dict[str, Any]:
        self.payload_writer.lose_error_flag(message, path)
        called = self._tools.get(message.tool_call_id, "")
        self.payload_writer.lose_tool_name(message, path, called)
        response: Any = message.content
        if not isinstance(response, str):
            response = self._write_parts(message, path)

        # The schema requires the key "response", so it is there without contents, too.
        return {
            "type": "tool_call_response",
            "id": message.tool_call_id,
            "response": response if self.contents else None,
        }


def _get_modality(part: MediaPart, media_type: str) -> str:
    """The modality of *part*: a file may be of any."""
    if not isinstance(part, FilePart):
        return part.kind

    kind = media_type.partition("/")[0]
    return kind if kind in {"audio", "image", "video"} else "document"


def _read_arguments(arguments: str) -> Any:
    """*arguments* as a JSON value; unchanged if no attribute can hold it."""
    try:
        value = load_exactly(arguments)
    except DecodeError:
        return arguments

    return value if _can_be_held(value) else arguments


def _can_be_held(value: Any, depth: int = 0) -> bool:
    if isinstance(value, int):
        return _MIN_INT <= value <= _MAX_INT

    if not isinstance(value, (dict, list)):
        return True

    inside = [*value, *value.values()] if isinstance(value, dict) else value
    return depth < _MAX_LEVELS and all(_can_be_held(item, depth + 1) for item in inside)


# The conventions' names for the categories in `Usage.extra`.
_COUNTS: Mapping[str, tuple[str, ...]] = {
    "cache_write_tokens": ("cache_write.input_tokens", "cache_creation.input_tokens"),
    "completion_image_tokens": ("image.output_tokens",),
    "completion_text_tokens": ("text.output_tokens",),
    "prompt_image_tokens": ("image.input_tokens",),
    "prompt_text_tokens": ("text.input_tokens",),
}


def usage_attributes(usage: Usage | None) -> dict[str, int]:
    """
    The counts of *usage* as attributes; no attributes if it is None.

    The counts of all input and output are always there, their parts only if they are
    not 0. Cache reads and writes are part of the input, and reasoning is part of the
    output, as in `Usage`. Other categories of `Usage.extra` have no attribute.

    >>> usage_attributes(Usage(9, 2))
    {'gen_ai.usage.input_tokens': 9, 'gen_ai.usage.output_tokens': 2}
    """
    if usage is None:
        return {}

    if not isinstance(usage, Usage):
        raise TypeError(f"usage: expected a Usage or None, got {describe_value(usage)}")

    within, written = usage.prompt_tokens_details, usage.completion_tokens_details
    parts = {
        "cache_read.input_tokens": within.cached_tokens,
        "audio.input_tokens": within.audio_tokens,
        "reasoning.output_tokens": written.reasoning_tokens,
        "audio.output_tokens": written.audio_tokens,
    }
    for name, called in _COUNTS.items():
        parts.update(dict.fromkeys(called, usage.extra.get(name, 0)))

    counts = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        **{name: count for name, count in parts.items() if count},
    }
    return {f"gen_ai.usage.{name}": count for name, count in counts.items()}
