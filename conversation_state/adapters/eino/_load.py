"""From eino's messages to ours; and its parts, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation_state.adapters.engine.export import (
    PayloadWriter,
    cannot_contain,
    merge_kept_keys,
    whose,
)
from conversation_state.adapters.engine.notes import map_of, signer_of, write_extra
from conversation_state.adapters.engine.openai import read_logprob_list
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    note_mended,
    read_extra,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    find_usage_block,
    read_billed,
    split_counts,
    usage_in,
)
from conversation_state.adapters.engine.wire import (
    MESSAGE_CLASSES,
    MessageLoader,
    decode_base64,
    encode_base64,
)
from conversation_state.messages import LogProb, Message, ResponseMeta
from conversation_state.parts import (
    AudioPart,
    FilePart,
    ImagePart,
    MediaPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
    VideoPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

# The name of the format: of its notes, and the source of its unknown parts.
SOURCE = "eino"

REASONING = "reasoning_content"
# The list that eino had before the others, which is read, and not written.
OLD = "multi_content"
_INPUT = "user_input_multi_content"
# What Go calls AssistantGenMultiContent.
_OUTPUT = "assistant_output_multi_content"
LISTS: Mapping[str, str] = {
    "assistant": _OUTPUT,
    "system": _INPUT,
    "tool": _INPUT,
    "user": _INPUT,
}

# The types of parts that hold media, and the field each is in; in the older
# list the field has the name of the type.
_MEDIA: Mapping[str, tuple[str, type[MediaPart]]] = {
    "image_url": ("image", ImagePart),
    "audio_url": ("audio", AudioPart),
    "video_url": ("video", VideoPart),
    "file_url": ("file", FilePart),
}
_TYPES: Mapping[type[MediaPart], str] = {
    part: kind for kind, (_, part) in _MEDIA.items()
}
# What else our parts have a field for: a key next to the content, of input only.
_BESIDE: Mapping[str, str] = {"file_url": "name", "image_url": "detail"}
_TEXT = frozenset({"extra", "text", "type"})
_REASONING = frozenset({"extra", "reasoning", "type"})
_THOUGHTS = frozenset({"signature", "text"})


def read_parts(node: ObjectReader, key: str, role: str) -> list[Part]:
    """The parts in the list under *key* of a message of *role*."""
    is_input = LISTS[role] == _INPUT
    parts: list[Part] = []
    for part in node.optional_objects(key, "a list or null"):
        # In the older list it is left out where it is empty.
        kind = part.nullable("type") if key == OLD else part.text("type")
        field, made = _MEDIA.get(kind, ("", FilePart))
        found: Part | None = None
        if kind == "text":
            part.keep(_TEXT)
            text, extra = part.nullable("text"), read_extra(part, "extra")
            found = TextPart(text, metadata=part.metadata(SOURCE, extra))
        elif kind == "reasoning" and key == _OUTPUT:
            found = _read_reasoning(part)
        # Models answer with no files.
        elif kind in _MEDIA and (is_input or made is not FilePart):
            field = kind if key == OLD else field
            word = _BESIDE.get(kind, "") if is_input else ""
            found = _read_medium(part, field, word, made)

        parts.append(found or part.as_unknown(SOURCE))

    return parts


def _read_reasoning(part: ObjectReader) -> Part:
    part.keep(_REASONING)
    text = signature = ""
    inside = part.inside("reasoning")
    if inside is not None:
        text, signature = inside.nullable("text"), inside.nullable("signature")
        part.keep_within("reasoning", inside, _THOUGHTS)

    if signature:
        part.notes["signed"] = True

    metadata = part.metadata(SOURCE, read_extra(part, "extra"))
    return ReasoningPart(text, signature, metadata=metadata)


def _read_medium(
    part: ObjectReader, field: str, word: str, made: Any
) -> MediaPart | None:
    """
    A part that holds media, under *field*, and perhaps a *word* about them; None if
    there is nothing in it that can be read.
    """
    inside = part.inside(field)
    if inside is None:
        return None

    url, uri = inside.nullable("url"), inside.nullable("uri")
    text = inside.nullable("base64data")
    data = decode_base64(text)
    # A part has one of them. What is next to it is kept, and written back with it.
    fields: dict[str, Any] = {"url": url or uri} if url or uri else {"data": data}
    if not any(fields.values()):
        return None

    beside = {"uri": uri if url else "", "base64data": text if "url" in fields else ""}
    inside.keys.update({key: value for key, value in beside.items() if value})
    fields["media_type"] = inside.nullable("mime_type")
    known = {"base64data", "mime_type", "uri", "url"}
    if word:
        fields[word] = inside.nullable(word)
        known.add(word)

    # In the older list the medium has it, and may have it in the newer ones.
    holder = inside if "extra" in inside.raw and "extra" not in part.raw else part
    extra = read_extra(holder, "extra")
    if holder is inside:
        part.notes |= inside.notes
        known.add("extra")

    part.keep(frozenset({"extra", "type", field}))
    part.keep_within(field, inside, frozenset(known))
    return made(**fields, metadata=part.metadata(SOURCE, extra))  # type: ignore[no-any-return]


def write_part(writer: PayloadWriter, part: Part, path: str, role: str) -> Any:
    """*part* as it stands in a message of *role*; None if it can't, and is lost."""
    notes = writer.notes(part, path)
    if part.index is not None:
        writer.lose(path, "index", "eino doesn't save positions")

    raw: dict[str, Any] | None
    if isinstance(part, UnknownPart):
        return writer.unknown(part.raw, part.source, path)

    if isinstance(part, MediaPart):
        raw = _write_medium(writer, part, path, role)
    elif isinstance(part, ReasoningPart):
        raw = _write_reasoning(writer, part, path)
    else:
        raw = _write_text(writer, part, path)

    if raw is None:
        return None

    extra = write_extra(part.metadata, notes, "extra")
    if extra:
        raw["extra"] = extra

    return merge_kept_keys(map_of(notes, "keys"), raw)


def _write_text(writer: PayloadWriter, part: Part, path: str) -> dict[str, Any]:
    if isinstance(part, RefusalPart):
        writer.lose(path, "refusal", "the format has no refusals; it is sent as text")

    text = getattr(part, "text", "")
    return {"type": "text", "text": text} if text else {"type": "text"}


def _write_reasoning(
    writer: PayloadWriter, part: ReasoningPart, path: str
) -> dict[str, Any]:
    body = {"text": part.text} if part.text else {}
    # eino may send it to any provider, so only its own are written.
    signer = signer_of(part.metadata, SOURCE)
    if part.signature and signer:
        writer.lose(path, "signature", whose(signer))
    elif part.signature:
        body["signature"] = part.signature

    return {"type": "reasoning", "reasoning": body}


def _write_medium(
    writer: PayloadWriter, part: MediaPart, path: str, role: str
) -> dict[str, Any] | None:
    is_input = LISTS[role] == _INPUT
    if isinstance(part, FilePart) and not is_input:
        writer.lose(path, part.kind, cannot_contain(role, part.kind))
        return None

    kind = _TYPES[type(part)]
    word = _BESIDE.get(kind, "")
    beside = getattr(part, word) if word else ""
    body: dict[str, Any] = {"url": part.url}
    if part.data is not None:
        body = {"base64data": encode_base64(part.data)}

    if part.media_type:
        body["mime_type"] = part.media_type

    if beside and is_input:
        body[word] = beside
    elif beside:
        writer.lose(path, word, "only user messages have it in eino")

    return {"type": kind, _MEDIA[kind][0]: body}


_SPOKEN = frozenset({"content", "extra", "name", "role", OLD})
_KNOWN = {
    "assistant": _SPOKEN
    | {LISTS["assistant"], REASONING, "response_meta", "tool_calls"},
    "system": _SPOKEN | {LISTS["system"]},
    "tool": _SPOKEN | {LISTS["tool"], "tool_call_id", "tool_name"},
    "user": _SPOKEN | {LISTS["user"]},
}
_CALL = frozenset({"extra", "function", "id", "index", "type"})
_FUNCTION = frozenset({"arguments", "name"})
_RESPONSE = frozenset({"finish_reason", "logprobs", "usage"})
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
# The breakdowns, and the count that each of them has.
DETAILS = {
    "prompt_token_details": "cached_tokens",
    "completion_token_details": "reasoning_tokens",
}
_MAX_INT = 2**63 - 1


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a list of messages, an object that has one as
    ``messages``, or one message. A call without an id gets one made of its place, and
    so does its result.

    Raises:
        DecodeError: If something is not what Go would read, or a number is not a count.
    """
    expected = "a message, a list of messages, or an object of one"
    return EinoLoader().load(payload, expected)


def load_usage(payload: Any) -> Usage | None:
    """
    What *payload*, a message, its ``response_meta`` or the usage in that, cost. Cached
    tokens are a part of the prompt's, and reasoning is one of the completion's.

    Raises:
        DecodeError: If a count is invalid.

    >>> load_usage({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11})
    Usage(9, 2)
    """
    expected = "a message, or its response_meta"
    return usage_in(payload, _find_meta_usage, _read_meta_counts, expected)


def _find_meta_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    holders = {"$.response_meta": payload.get("response_meta"), "$": payload}
    return find_usage_block(holders, _COUNTS)


class EinoLoader(MessageLoader):
    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        if "role" in payload:
            message = self.message(payload, "$", "message_0")
            return [] if message is None else [message]

        if is_list(payload.get("messages")):
            return self.history(payload["messages"], "$.messages")

        if "messages" in payload:
            self.wrong("$.messages", payload["messages"], "a list of messages")
        else:
            what = "has neither a role nor messages; expected a message or several"
            self.problem("$", what)

        return []

    def message(self, raw: Any, path: str, prefix: str) -> Message | None:
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        node = ObjectReader(self, raw, path)
        problems, mended_before = self.count, len(self.mended)
        role = node.text("role")
        if self.count > problems:
            return None

        message = None
        if role in MESSAGE_CLASSES:
            message = self._load_known(node, role, prefix, mended_before)

        if message is None and self.count == problems:
            message = node.as_unknown_message(SOURCE, mended_before)

        return message if self.count == problems else None

    def _load_known(
        self, node: ObjectReader, role: str, prefix: str, mended_before: int
    ) -> Message | None:
        """A message of a *role* we know; None if its content does not fit that role."""
        problems = self.count
        node.keep(_KNOWN[role])
        extra = read_extra(node, "extra")
        content: str | list[Part] = node.nullable("content")
        parts = _read_listed_parts(node, role)
        # eino's models pass over the content if there is a list.
        if parts and content:
            node.keys["content"] = content

        content = parts or content
        fields: dict[str, Any] = {"name": node.nullable("name")}
        if role == "assistant":
            fields["tool_calls"] = self.read_calls(node, prefix, _read_tool_call)
            node.keys.pop("tool_calls", None)
            fields["response"] = _read_response_meta(node)
            content = _add_reasoning(node, content)
        elif role == "tool":
            name = fields["tool_name"] = node.nullable("tool_name")
            call_id = node.nullable("tool_call_id")
            fields["tool_call_id"] = self.resolve_call(node, call_id, name, prefix)

        # A `SystemMessage` holds texts only, and is written as one; eino checks neither
        # roles nor their parts.
        is_text = all(isinstance(part, TextPart) for part in parts)
        is_odd = role == "system" and (not is_text or "content" in node.keys)
        if is_odd or self.count > problems:
            return None

        note_mended(node, mended_before)
        metadata = node.metadata(SOURCE, extra)
        return MESSAGE_CLASSES[role](content, **fields, metadata=metadata)


def _read_tool_call(node: ObjectReader, made: str) -> ToolCall:
    node.keep(_CALL)
    extra = read_extra(node, "extra")
    name = arguments = ""
    body = node.inside("function")
    if body is not None:
        name, arguments = body.nullable("name"), body.nullable("arguments")
        node.keep_within("function", body, _FUNCTION)

    index: Any = node.raw.get("index")
    if index is not None and (index.__class__ is not int or not 0 <= index <= _MAX_INT):
        node.wrong("index", "an integer from 0 to 2**63 - 1, or null")
        index = None

    # Pieces of a streamed call come with an index, and the id with the first of them:
    # ids made up for the others would differ, and the pieces could not be joined.
    call_id = node.nullable("id")
    if not call_id and index is None:
        call_id = node.notes["made_id"] = made

    return ToolCall(
        call_id,
        name,
        arguments,
        index=index,
        # eino documents "function", and leaves it empty.
        type=node.nullable("type") or "function",
        metadata=node.metadata(SOURCE, extra),
    )


def _read_listed_parts(node: ObjectReader, role: str) -> list[Part]:
    parts = read_parts(node, LISTS[role], role)
    if not parts:
        return read_parts(node, OLD, role)

    if node.raw.get(OLD):
        node.keys[OLD] = node.reading.json(node.raw[OLD], f"{node.path}.{OLD}")

    return parts


def _add_reasoning(node: ObjectReader, content: str | list[Part]) -> str | list[Part]:
    """The content of an assistant, after its thoughts."""
    text = node.nullable(REASONING)
    if isinstance(content, str):
        parts: list[Part] = [TextPart(content)] if content else []
        return [ReasoningPart(text), *parts] if text else content

    # Some models fill in both; it was thought once.
    again = [part.text for part in content if isinstance(part, ReasoningPart)]
    return (
        [ReasoningPart(text), *content] if text not in {"", "".join(again)} else content
    )


def _read_response_meta(message: ObjectReader) -> ResponseMeta | None:
    node = message.inside("response_meta")
    if node is None:
        return None

    usage, given = None, node.raw.get("usage")
    if given is not None:
        path = f"{node.path}.usage"
        usage, left = read_billed(node.reading, given, path, _read_meta_counts)
        if left:
            node.keys["usage"] = left

    reason, logprobs = node.nullable("finish_reason"), _read_logprobs(node)
    message.keep_within("response_meta", node, _RESPONSE)
    return ResponseMeta(reason, usage, logprobs)


def _read_meta_counts(
    reader: DocumentReader, raw: Mapping[Any, Any], path: str
) -> Counted:
    counts, others, left = split_counts(reader, raw, _COUNTS, path)
    # Unknown counts stay where they are: as categories of `Usage.extra` they could not
    # go back, because eino's usage has no field for these.
    left |= others
    block = ObjectReader(reader, raw, path)
    details: list[dict[str, int]] = []
    for key, name in DETAILS.items():
        left.pop(key, None)
        inside = block.inside(key)
        within = {} if inside is None else inside.raw
        found, others, rest = split_counts(reader, within, (name,), f"{path}.{key}")
        details.append(found)
        if rest or others:
            left[key] = rest | others

    prompt, completion, total = map(counts.get, _COUNTS)
    return (prompt or 0, completion or 0, total), details, {}, left


def _read_logprobs(node: ObjectReader) -> tuple[LogProb, ...] | None:
    inside = node.inside("logprobs")
    if inside is None:
        return None

    content = inside.raw.get("content")
    if content is not None and not is_list(content):
        inside.wrong("content", "a list or null")

    listed = content if is_list(content) else ()
    return read_logprob_list(node.reading, listed, f"{inside.path}.content")
