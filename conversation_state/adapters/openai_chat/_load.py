"""From Chat Completions to messages: requests, and responses with their usage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conversation_state.adapters.engine.notes import with_notes, without_empty
from conversation_state.adapters.engine.openai import (
    COMPLETION_DETAILS,
    PROMPT_DETAILS,
    content_of,
    is_odd,
    read_logprob_list,
)
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    as_sent,
    is_list,
    is_map,
    note_mended,
    take_text,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    as_count,
    read_billed,
    read_counts,
    read_paid_text,
    usage_in,
)
from conversation_state.adapters.engine.wire import (
    MESSAGE_CLASSES,
    MessageLoader,
    make_call_id,
    make_call_prefix,
    read_object_text,
)
from conversation_state.adapters.openai_chat._blocks import (
    REASONING_KEYS,
    ROLES,
    SOURCE,
    is_empty_call,
    read_content,
    read_images,
)
from conversation_state.messages import LogProb, Message, ResponseMeta, UnknownMessage
from conversation_state.parts import (
    AudioPart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

_SPOKEN = frozenset({"content", "name", "role"})
_BESIDE = frozenset({"audio", "images", "refusal", *REASONING_KEYS})
_KNOWN = {
    "assistant": _SPOKEN | _BESIDE | {"function_call", "tool_calls"},
    "system": _SPOKEN,
    "tool": _SPOKEN | {"tool_call_id"},
    "user": _SPOKEN,
}
_RESPONSE = frozenset({"choices", "model", "usage"})
_CHOICE = frozenset({"finish_reason", "logprobs", "message"})

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAILS = {
    "prompt_tokens_details": PROMPT_DETAILS,
    "completion_tokens_details": COMPLETION_DETAILS,
}

# The names of DeepSeek and Moonshot for `cached_tokens`.
_CACHED = ("prompt_cache_hit_tokens", "cached_tokens")
# What LiteLLM and other gateways add of Anthropic's counts.
_READ, _WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
_LIFETIMES = {
    "ephemeral_1h_input_tokens": "cache_write_1h_tokens",
    "ephemeral_5m_input_tokens": "cache_write_5m_tokens",
}


def load(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a request, its list of messages, or a response.

    Of a request only the messages are read. A response gives its message with
    its `ResponseMeta`. If several answers were requested (``n``), there is one
    message for each choice, and the first has the usage: these are alternatives,
    not a conversation.

    A call without an id gets one, and so does its result: made from the response's id,
    or unique in time if it has none; in a request, from its position. It is sent with
    both.

    Raises:
        DecodeError: If a value is invalid in the format and its dialects; with every
            problem and its path.
    """
    return ChatLoader().load(payload, "a request, a list of messages, or a response")


class ChatLoader(MessageLoader):
    source = SOURCE

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        node = ObjectReader(self, payload, "$")
        if "messages" in payload and "choices" not in payload:
            if is_list(payload["messages"]):
                return self.history(payload["messages"], "$.messages")

            node.wrong("messages", "a list of messages")
        elif "messages" not in payload and is_list(payload.get("choices")):
            return list(self._read_choices(node))
        else:
            self.refuse_document(payload, "messages", "choices", "messages")

        return []

    def _read_choices(self, node: ObjectReader) -> Iterator[Message]:
        payload, self.is_answer = node.raw, True
        if not payload["choices"]:
            self.problem("$.choices", "is empty; expected at least one choice")

        usage, left = None, dict[str, Any]()
        block, where = find_usage(payload)
        if block is not None:
            usage, left = read_billed(self, block, where, read_chat_counts)

        response = self.rest(payload, _RESPONSE, "$")
        model = read_paid_text(node, "model", response)
        if left:
            response["usage"] = left

        response_id = take_text(response, "id")
        # `objects` skips a choice that is not an object, and the numbers behind it are
        # wrong; but then loading fails as a whole.
        for at, choice in enumerate(node.objects("choices")):
            if "delta" in choice.raw and "message" not in choice.raw:
                what = "is a piece of a stream; expected a whole message"
                self.problem(choice.path, what)
                continue

            kept = self.rest(choice.raw, _CHOICE, choice.path)
            reason = read_paid_text(choice, "finish_reason", kept)
            # The index of a choice is nearly always its position, which needs no note.
            if kept.get("index") == at:
                del kept["index"]

            logprobs = read_logprobs(choice, kept)
            message = self.message(
                as_sent(choice.raw.get("message")),
                f"{choice.path}.message",
                make_call_prefix(response_id, at),
                ResponseMeta(reason, usage, logprobs, model, response_id),
                without_empty({"response": response, "choice": kept}),
            )
            usage = None
            if message is not None:
                yield message

    def message(
        self,
        raw: Any,
        path: str,
        prefix: str,
        meta: ResponseMeta | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> Message | None:
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return None

        node = ObjectReader(self, raw, path)
        # Some responses have no role, because only the assistant answers.
        given = raw.get("role") or ("assistant" if meta else None)
        role = ROLES.get(given) if isinstance(given, str) else None
        if role is None or (meta and role != "assistant"):
            node.wrong("role", "assistant" if meta else ", ".join(ROLES))
            return None

        if given != role:
            node.notes["role"] = given

        problems, mended_before = self.count, len(self.mended)
        node.keep(_KNOWN[role])
        kind = MESSAGE_CLASSES[role]
        content: Any
        content, fields = self._read_fields(node, role, prefix)
        if meta:
            fields["response"] = meta
            node.notes.update(notes or {})
            _forget_empty_calls(node)

        if role == "system" and not _is_text(content):
            # Mistral's system messages may contain reasoning, as an example for the
            # model. The message is kept as a whole, without notes on its keys.
            node = ObjectReader(self, raw, path)
            content, fields = self.json(raw, path), dict[str, Any](source=SOURCE)
            kind = UnknownMessage

        if self.count > problems:
            return None

        if len(self.mended) > mended_before:
            note_mended(node, mended_before)

        if node.notes or node.keys:
            fields["metadata"] = node.metadata(SOURCE)

        return kind(content, **fields)

    def _read_fields(
        self, node: ObjectReader, role: str, prefix: str
    ) -> tuple[str | list[Part], dict[str, Any]]:
        # A message of another format, such as the AI SDK's with ``parts``, would be
        # loaded empty.
        lacks = role == "tool" and "content" not in node.raw
        if lacks or (role == "user" and node.raw.get("content") is None):
            node.wrong("content", "a text or a list of parts")

        content = parts = read_content(node, role)
        name = node.optional("name") if "name" in node.raw else ""
        fields: dict[str, Any] = {"name": name} if name else {}
        if role == "tool":
            call_id = node.optional("tool_call_id")
            call_id = self.resolve_call(node, call_id, name, prefix)
            fields = {"tool_call_id": call_id, "tool_name": name}
        elif role == "assistant":
            fields["tool_calls"] = self._read_calls(node, prefix)
            if not node.raw.keys().isdisjoint(_BESIDE):
                content = _add_beside(node, content)

        if "content" not in node.raw:
            node.notes["without"] = ["content"]
        # The provider sends null as the content of a message with something next to
        # it, and so does `dump`.
        elif not parts:
            is_null = bool(fields.get("tool_calls")) or content is not parts
            if node.raw["content"] != (None if is_null else ""):
                node.keys["content"] = node.raw["content"]

        return content, fields

    def _read_calls(self, node: ObjectReader, prefix: str) -> list[ToolCall]:
        calls: list[ToolCall] = []
        if "tool_calls" in node.raw:
            calls = self.read_calls(node, prefix, _read_call, is_empty_call)

        body = node.inside("function_call")
        if body is not None and is_empty_call(body.raw):
            node.keys["function_call"] = self.json(body.raw, body.path)
        elif body is not None:
            name, arguments = _read_function(body, "arguments")
            made = body.notes["made_id"] = make_call_id(prefix, len(calls))
            body.notes["key"] = {"function_call": True}
            call = ToolCall(made, name, arguments, metadata=body.metadata(SOURCE))
            self.pairing.open_calls([call], more=bool(calls))
            calls.append(call)
        elif "function_call" in node.raw:
            node.keys["function_call"] = None

        return calls


def _forget_empty_calls(response: ObjectReader) -> None:
    """
    Servers such as vLLM's write calls that are none always; OpenAI's refuses them in a
    request.
    """
    response.notes.pop("empty_calls", None)
    for key in ("function_call", "tool_calls"):
        if response.keys.get(key) is not None:
            del response.keys[key]


def _read_call(node: ObjectReader, made: str) -> ToolCall:
    # Some providers leave out the type.
    raw, kind = node.raw, "function"
    if raw.get("type") is not None:
        kind = node.text("type")

    field = "custom" if kind == "custom" else "function"
    body, name, arguments = raw.get(field), "", ""
    if kind not in {"custom", "function"} and _is_opaque(body):
        # The fields of another type of call are the provider's own.
        node.keep(frozenset({"id", "type"}))
    elif is_map(body):
        inside = node.child(field)
        inside.notes = node.notes
        key = "input" if kind == "custom" else "arguments"
        name, arguments = _read_function(inside, key)
        node.keep(frozenset({"id", "type", field}))
        if inside.keys:
            node.keys[field] = inside.keys
    else:
        node.wrong(field, "an object")

    # A missing id, null and "" are the same: `dump` sends the one made here.
    call_id = node.nullable("id")
    if not call_id:
        call_id = node.notes["made_id"] = made

    metadata = node.metadata(SOURCE)
    return ToolCall(call_id, name, arguments, type=kind, metadata=metadata)


def _read_function(body: ObjectReader, key: str) -> tuple[str, str]:
    """Name and arguments in *body*; some omit *key* if there are none."""
    body.keep(frozenset({"name", key}))
    if key not in body.raw:
        body.notes.setdefault("without", []).append(key)
    elif body.raw[key] is None:
        body.keys[key] = None

    # Ollama and others send the object that OpenAI has as JSON text.
    if is_map(body.raw.get(key)):
        return body.text_of_call("name"), read_object_text(body, key)

    return body.text_of_call("name"), body.nullable(key)


def _is_opaque(body: Any) -> bool:
    """Whether *body*, of a call of a kind we don't know, is not a function's."""
    return (
        not is_map(body)
        or not isinstance(body.get("name"), str)
        or not isinstance(body.get("arguments"), str)
        or not (body["name"] or body["arguments"])
    )


def _is_text(content: str | list[Part]) -> bool:
    return isinstance(content, str) or all(isinstance(p, TextPart) for p in content)


def _add_beside(node: ObjectReader, content: str | list[Part]) -> str | list[Part]:
    """
    The *content* and the values next to it, as parts: reasoning, which is under a
    dialect's key, before it; audio and images that the model made, and a refusal,
    behind it.
    """
    thoughts: dict[str, dict[str, bool]] = {}
    for key in REASONING_KEYS:
        text = node.if_text(key)
        if text:
            # Some servers send the same text under both keys.
            thoughts.setdefault(text, {})[key] = True

    before = [
        ReasoningPart(text, metadata=with_notes(SOURCE, {"key": keys}))
        for text, keys in thoughts.items()
    ]
    after: list[Part] = []
    audio = node.raw.get("audio")
    data = audio.get("data") if is_map(audio) else None
    sound = content_of(data, "input_audio") if isinstance(data, str) else None
    if is_map(audio) and sound is not None and sound.data is not None:
        inside = node.child("audio")
        inside.keep(frozenset({"data"}))
        inside.notes["key"] = {"audio": True}
        after.append(AudioPart(data=sound.data, metadata=inside.metadata(SOURCE)))
    elif "audio" in node.raw:
        node.keys["audio"] = node.reading.json(audio, f"{node.path}.audio")

    after += read_images(node)
    refusal = node.optional("refusal")
    if refusal:
        # A refusal that is alone needs no note, because `dump` writes it next to the
        # content.
        under = {"key": {"refusal": True}} if content else {}
        after.append(RefusalPart(refusal, metadata=with_notes(SOURCE, under)))

    if not (before or after):
        return content

    if isinstance(content, str):
        content = [TextPart(content)] if content else []

    return [*before, *content, *after]


def read_logprobs(
    choice: ObjectReader, kept: dict[str, Any]
) -> tuple[LogProb, ...] | None:
    """
    The log probabilities of the content; other keys of the block go into *kept*, and
    all of it if it can't be read.
    """
    trial = DocumentReader()
    trial.is_answer = True
    left: dict[str, Any] = {}
    found = _read_logprobs(ObjectReader(trial, choice.raw, choice.path), left)
    if trial.count:
        read_paid_text(choice, "logprobs", kept)
        return None

    kept.update(left)
    choice.reading.mended += trial.mended
    return found


def _read_logprobs(
    choice: ObjectReader, kept: dict[str, Any]
) -> tuple[LogProb, ...] | None:
    node = choice.inside("logprobs")
    if node is None:
        return None

    reader, given = node.reading, node.raw
    content = given.get("content")
    known: frozenset[str] = frozenset({"content"})
    if not is_list(content):
        if content is not None:
            node.wrong("content", "a list or null")
    # If one token has more than a `LogProb` holds, the whole list is kept, because the
    # position of the token matters.
    elif any(map(is_odd, content)):
        known = frozenset()

    left = reader.rest(given, known, node.path)
    if any(value is not None for value in left.values()):
        kept["logprobs"] = left

    if not is_list(content):
        return None

    return read_logprob_list(reader, content, f"{node.path}.content")


def load_usage(payload: Any) -> Usage | None:
    """
    The usage in *payload*: a response, an event of a stream or a usage block.

    None if it has no usage. Counts include their parts: cached tokens are a part
    of the prompt's, reasoning is a part of the completion's. Integers that have
    no field are in `Usage.extra`, those of a breakdown with ``prompt_`` or
    ``completion_`` before their name if it is ambiguous. Values that are not
    counts of tokens, such as Groq's seconds, are left out.

    Raises:
        DecodeError: If a count is negative, not an integer, or over 2**63 - 1.

    Source:
        DeepSeek and Moonshot have names of their own for cached tokens. xAI
        counts reasoning apart from the completion, which shows in its total. LiteLLM
        has Anthropic's names beside its own, and the lifetimes of what was written
        (BerriAI/litellm#11789, #31724).
        Groq once had usage under ``x_groq`` only, and Moonshot's streams have
        it in the choice.

    >>> load_usage({"prompt_tokens": 9, "completion_tokens": 2}).total_tokens
    11
    """
    return usage_in(payload, find_usage, read_chat_counts)


def find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    """The usage block of a response or an event, or None, and its path."""
    choices = payload.get("choices")
    holders = (
        ("$", payload),
        ("$.x_groq", payload.get("x_groq")),
        ("$.choices[0]", choices[0] if is_list(choices) and choices else None),
    )
    for path, holder in holders:
        if is_map(holder) and holder.get("usage") is not None:
            return holder["usage"], f"{path}.usage"

    # The payload may be a usage block itself.
    return (None if payload.keys().isdisjoint(_COUNTS) else payload), "$"


def _read_caches(
    block: Mapping[Any, Any], within: dict[str, int], extra: dict[str, int]
) -> None:
    """Move what *extra* has under Anthropic's names to where prices find it."""
    # LiteLLM's streams have a 0 there.
    if within.get("cached_tokens", 0) in {0, extra.get(_READ, 0)}:
        within["cached_tokens"] = extra.pop(_READ, 0)

    if extra.get("cache_write_tokens", 0) in {0, extra.get(_WRITTEN, 0)}:
        extra["cache_write_tokens"] = extra.pop(_WRITTEN, 0)

    details = block.get("prompt_tokens_details")
    parts = details.get("cache_creation_token_details") if is_map(details) else None
    for name, category in _LIFETIMES.items():
        count = as_count(parts.get(name)) if is_map(parts) else None
        extra |= {category: count} if count else {}


def read_chat_counts(
    reader: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts, details, extra, left = read_counts(reader, block, _COUNTS, _DETAILS, path)
    within, written = details
    for name in _CACHED:
        count = extra.get(name)
        # DeepSeek sends the count under both names. If they differ, the second one
        # stays in *extra*.
        if count is not None and within.get("cached_tokens", 0) in {0, count}:
            within["cached_tokens"] = extra.pop(name)

    prompt = counts.get("prompt_tokens", 0)
    completion = counts.get("completion_tokens", 0)
    total = counts.get("total_tokens")
    beside = extra.get(_READ, 0) + extra.get(_WRITTEN, 0)
    if beside > prompt:
        # As at Anthropic the prompt is without them.
        total = None if total == prompt + completion else total
        prompt += beside

    if beside:
        _read_caches(block, within, extra)

    reasoning = written.get("reasoning_tokens", 0)
    if reasoning and total == prompt + completion + reasoning:
        completion += reasoning

    return (prompt, completion, total), details, extra, left
