"""
Lists of messages in formats that are only imported: the AI SDK's ModelMessages
(`load_model_messages`), Bedrock's Converse (`load_converse`), and the messages of a
thread of OpenAI's Assistants (`load_thread`).

What a block says is here. What a block or message has besides, such as
``providerOptions``, is in its metadata, under its own key.

Source:
    ``modelMessageSchema`` of npm's ``ai`` 6, and ``CoreMessage`` of 4; the shapes of
    ``bedrock-runtime`` in botocore 1.44; ``openai.types.beta.threads``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs

from conversation_state._canonical import dump as dump_json
from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.adapters import anthropic
from conversation_state.adapters.engine.notes import map_of, notes_of, with_notes
from conversation_state.adapters.engine.reading import ObjectReader, is_list, is_map
from conversation_state.adapters.engine.wire import (
    MEDIA_CLASSES,
    MessageLoader,
    decode_base64,
    split_data_url,
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
from conversation_state.parts import (
    FilePart,
    ImagePart,
    Part,
    ReasoningPart,
    RefusalPart,
    TextPart,
    UnknownPart,
)
from conversation_state.tools import ToolCall

_Piece: TypeAlias = "Part | ToolCall | ToolMessage"
_Read: TypeAlias = "Callable[[ObjectReader], _Piece | None]"


def load_model_messages(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a list of ``ModelMessage``, or what has it as
    ``messages``, with a ``system`` beside it or not.

    Raises:
        DecodeError: If something is invalid.
    """
    loader = _BlockLoader("ai_sdk_model", _read_sdk_block)
    return loader.load(payload, "a list of ModelMessages, or an object with one")


def load_converse(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*: a request of Converse, its list of messages, or a
    response, with its usage.

    Raises:
        DecodeError: If something is invalid.
    """
    loader = _BlockLoader("bedrock_converse", _read_converse_block)
    expected = "a request, a list of messages, or a response"
    if not (is_map(payload) and is_map(payload.get("output"))):
        return loader.load(payload, expected)

    *_, answer = loader.load([payload["output"].get("message")], expected)
    counts = payload.get("usage")
    usage = None
    if is_map(counts):
        given = {name: counts[key] for key, name in _COUNTS.items() if key in counts}
        usage = anthropic.load_usage({"usage": given})

    reason = payload.get("stopReason")
    rest = {key: payload[key] for key in payload if key not in _RESPONSE}
    meta = ResponseMeta(reason if isinstance(reason, str) else "", usage)
    return (answer.replace(response=meta, metadata={**answer.metadata, **rest}),)


def load_thread(payload: Any) -> tuple[Message, ...]:
    """
    The messages of *payload*, a list of a thread's messages or what has it as
    ``messages``: the oldest first, which the API lists last.

    Raises:
        DecodeError: If something is invalid.
    """
    loader = _BlockLoader("openai_assistants", _read_thread_block)
    found = loader.load(payload, "a list of a thread's messages")
    times: list[Any] = [message.metadata.get("created_at") for message in found]
    if not times or not all(type(each) is int for each in times):
        return found

    found = found[::-1] if times[0] > times[-1] else found
    return tuple(sorted(found, key=lambda each: each.metadata["created_at"]))


_COUNTS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheWriteInputTokens": "cache_creation_input_tokens",
}
_RESPONSE = frozenset({"output", "stopReason", "usage"})


class _BlockLoader(MessageLoader):
    """One list of messages while it is read, with what reads a block of it."""

    def __init__(self, source_name: str, read_block: _Read) -> None:
        super().__init__()
        self.source_name, self.read_block = source_name, read_block

    def document(self, payload: Mapping[str, Any]) -> list[Message]:
        found: list[Message] = []
        if payload.get("system"):
            system = {"role": "system", "content": payload["system"]}
            found += self._read_message(system, "$.system")

        if is_list(payload.get("messages")):
            return found + self.history(payload["messages"], "$.messages")

        ObjectReader(self, payload, "$").wrong("messages", "a list of messages")
        return []

    def history(self, raws: Sequence[Any], path: str) -> list[Message]:
        found: list[Message] = []
        for at, raw in enumerate(raws):
            found += self._read_message(raw, f"{path}[{at}]")

        return found

    def _read_message(self, raw: Any, path: str) -> Iterator[Message]:
        if not is_map(raw):
            self.wrong(path, raw, "an object")
            return

        node, problems = ObjectReader(self, raw, path), self.count
        role, content = node.text("role"), raw.get("content")
        pieces: list[Any] = []
        if isinstance(content, str):
            pieces = [TextPart(node.text("content"))]
        elif is_list(content):
            pieces = [self._read_piece(block) for block in node.objects("content")]
        else:
            node.wrong("content", "a text or a list of blocks")

        if role not in {"assistant", "system", "tool", "user"}:
            node.wrong("role", "assistant, system, tool or user")

        own = (
            (TextPart, UnknownPart) if role == "system" else (ToolMessage, UnknownPart)
        )
        if role in {"system", "tool"} and not all(isinstance(p, own) for p in pieces):
            what = "texts" if role == "system" else "results of tools"
            node.wrong("content", f"{what}, in a message of this role")

        metadata = self.rest(raw, frozenset({"content", "role"}), path)
        if self.count > problems:
            return

        made = _make_answers if role == "assistant" else _make_others
        for message in made(role, pieces):
            yield message.replace(metadata=_merge_fields(metadata, message.metadata))
            metadata = {}

    def _read_piece(self, block: ObjectReader) -> _Piece:
        piece = self.read_block(block)
        return block.as_unknown(self.source_name) if piece is None else piece


def _merge_fields(fields: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The *fields* of a message, and those that its result has of its *own*."""
    merged = {**fields, **own}
    for key in fields.keys() & own.keys():
        if is_map(fields[key]) and is_map(own[key]):
            merged[key] = {**fields[key], **own[key]}

    return merged


def _make_answers(_role: str, pieces: list[Any]) -> Iterator[Message]:
    # What follows the results of all calls was said afterwards: it is another answer.
    run: list[Any] = []
    waiting: set[str] = set()
    for at, piece in enumerate(pieces):
        if isinstance(piece, ToolMessage):
            waiting.discard(piece.tool_call_id)
            run.append(piece)
            continue

        if run and isinstance(run[-1], ToolMessage) and not waiting:
            yield from _make_answer(run)
            run = []

        if isinstance(piece, ToolCall):
            waiting.add(piece.id)

        run.append(attrs.evolve(piece, index=at))

    yield from _make_answer(run)


def _make_answer(run: list[Any]) -> Iterator[Message]:
    """An answer, and the results of its calls."""
    results = [each for each in run if isinstance(each, ToolMessage)]
    parts = [each for each in run if isinstance(each, Part)]
    calls = [each for each in run if isinstance(each, ToolCall)]
    if parts or calls or not results:
        yield AssistantMessage(_make_content(parts), tool_calls=calls)

    yield from results


def _make_others(role: str, pieces: list[Any]) -> Iterator[Message]:
    # Results come first: that is where providers want them.
    yield from (each for each in pieces if isinstance(each, ToolMessage))
    parts = [each for each in pieces if not isinstance(each, ToolMessage)]
    if role == "user" and (parts or not pieces):
        yield UserMessage(_make_content(parts))
        return

    texts = [each for each in parts if isinstance(each, TextPart)]
    if texts:
        yield SystemMessage(_make_content(texts))

    for each in parts:
        if isinstance(each, UnknownPart):
            yield UnknownMessage(each.raw, source=each.source)


def _make_content(parts: Sequence[Part]) -> str | Sequence[Part]:
    """*parts* as content: the text, if there is nothing else."""
    text = "".join([each.text for each in parts if isinstance(each, TextPart)])
    is_text = all(each == TextPart(text, index=each.index) for each in parts)
    return text if is_text else parts


def _rest_of(block: ObjectReader, *known: str) -> dict[str, Any]:
    return block.reading.rest(block.raw, frozenset({"type", *known}), block.path)


def _read_id(block: ObjectReader, key: str) -> str:
    """The id of a call; any text if there was a problem, which a message needs."""
    call_id = block.text(key)
    if block.raw.get(key) == "":
        block.wrong(key, "the id of a call")

    return call_id or "?"


def _write_json(block: ObjectReader, key: str) -> str:
    value = block.reading.json(block.raw.get(key, ""), f"{block.path}.{key}")
    return value if isinstance(value, str) else dump_json(value).decode()


def _make_media(
    given: Any, media_type: str, name: str = "", metadata: Mapping[str, Any] = EMPTY_MAP
) -> Part | None:
    """The medium that *given* is, a URL or base64; None if it is neither."""
    if not isinstance(given, str) or not given:
        return None

    fields: dict[str, Any] = {"media_type": media_type, "metadata": metadata}
    if found := split_data_url(given):
        fields |= {"data": found[0], "media_type": media_type or found[1]}
    elif "://" in given[:20]:
        fields["url"] = given
    elif data := decode_base64(given, urlsafe=True):
        fields["data"] = data
    else:
        return None

    made = MEDIA_CLASSES.get(fields["media_type"].partition("/")[0], FilePart)
    return made(**fields, name=name) if made is FilePart else made(**fields)


# The AI SDK


def _read_sdk_block(block: ObjectReader) -> _Piece | None:
    kind, raw = block.text("type"), block.raw
    if kind == "text":
        return TextPart(block.text("text"), metadata=_rest_of(block, "text"))

    if kind == "reasoning":
        signature, notes = _find_signature(raw.get("providerOptions"))
        rest = with_notes("anthropic", notes, _rest_of(block, "text"))
        return ReasoningPart(block.text("text"), signature, metadata=rest)

    if kind == "tool-call":
        return ToolCall(
            block.text("toolCallId"),
            block.text("toolName"),
            _write_json(block, next((k for k in ("input", "args") if k in raw), "")),
            metadata=_rest_of(block, "toolCallId", "toolName", "input", "args"),
        )

    return _read_result(block) if kind == "tool-result" else _read_media(block)


def _find_signature(options: Any) -> tuple[str, dict[str, Any]]:
    """The signature of a thought in *options*, and what notes whose it is."""
    own = options.get("anthropic") if is_map(options) else None
    signature = own.get("signature") if is_map(own) else None
    if isinstance(signature, str) and signature:
        return signature, {"signed": True}

    return "", {}


def _read_media(block: ObjectReader) -> Part | None:
    raw = block.raw
    type_key = next((k for k in ("mediaType", "mimeType") if raw.get(k)), "")
    media_type = block.text(type_key) if type_key else ""
    for key in ("image", "data", "url"):
        if key in raw and "image" in (key, block.text("type").partition("-")[0]):
            media_type = media_type or "image/*"

        if key in raw:
            name = block.text("filename") if raw.get("filename") else ""
            rest = _rest_of(block, key, type_key, "filename")
            return _make_media(raw[key], media_type, name, rest)

    return None


def _read_result(block: ObjectReader) -> ToolMessage:
    raw, output = block.raw, block.raw.get("output")
    output = output if is_map(output) else {}
    kind = output.get("type") if isinstance(output.get("type"), str) else ""
    content: str | list[Part]
    if "output" not in raw:
        content = _write_json(block, "result")
    elif kind == "content" and is_list(output.get("value")):
        inside = block.child("output")
        content = [
            _read_said(each) or each.as_unknown("ai_sdk_model")
            for each in inside.objects("value")
        ]
    elif kind == "execution-denied":
        content = block.child("output").nullable("reason") or _DENIED
    elif kind in _VALUES and "value" in output:
        content = _write_json(block.child("output"), "value")
    else:
        content = _write_json(block, "output")

    known = ("toolCallId", "toolName", "output", "result", "isError")
    return ToolMessage(
        content,
        tool_call_id=_read_id(block, "toolCallId"),
        tool_name=block.text("toolName"),
        is_error=kind in _FAILED or raw.get("isError") is True,
        metadata=_rest_of(block, *known),
    )


def _read_said(block: ObjectReader) -> Part | None:
    found = None
    if block.raw.get("type") == "text":
        found = TextPart(block.text("text"), metadata=_rest_of(block, "text"))

    return found or _read_media(block)


_VALUES = frozenset({"text", "json", "error-text", "error-json"})
_FAILED = frozenset({"error-text", "error-json", "execution-denied"})
_DENIED = "The user denied this call."


# Converse


def _read_converse_block(block: ObjectReader) -> _Piece | None:
    # Tables of data sets have each key, null where a block has not that one.
    kinds = [key for key in block.raw if block.raw[key] is not None]
    kind = kinds[0] if len(kinds) == 1 else ""
    if kind == "text":
        return TextPart(block.text("text"))

    if not is_map(block.raw.get(kind)):
        return None

    inside = block.child(kind)
    if kind == "toolUse":
        rest = _rest_of(inside, "toolUseId", "name", "input")
        arguments = _write_json(inside, "input")
        id, name = inside.text("toolUseId"), inside.text("name")
        return ToolCall(id, name, arguments, metadata=rest)

    if kind == "toolResult":
        return _read_converse_result(inside)

    if kind == "reasoningContent" and is_map(inside.raw.get("reasoningText")):
        thought = inside.child("reasoningText")
        signature = thought.nullable("signature")
        notes = with_notes("anthropic", {"signed": True} if signature else {})
        return ReasoningPart(thought.text("text"), signature, metadata=notes)

    return _read_converse_media(kind, inside)


def _read_converse_result(block: ObjectReader) -> ToolMessage:
    parts: list[Part] = []
    for each in block.objects("content") if is_list(block.raw.get("content")) else ():
        piece = _read_converse_block(each)
        if each.raw.get("json") is not None:
            piece = TextPart(_write_json(each, "json"))

        is_part = isinstance(piece, Part)
        parts.append(piece if is_part else each.as_unknown("bedrock_converse"))  # type: ignore[arg-type]

    return ToolMessage(
        _make_content(parts),
        tool_call_id=_read_id(block, "toolUseId"),
        is_error=block.raw.get("status") == "error",
        metadata=_rest_of(block, "toolUseId", "content", "status"),
    )


def _read_converse_media(kind: str, block: ObjectReader) -> Part | None:
    source = block.raw.get("source")
    if kind not in _MEDIA or not is_map(source):
        return None

    form = block.raw.get("format")
    main = f"{kind}/" if kind != "document" else "application/"
    media_type = _TYPES.get(str(form), f"{main}{form}") if form else f"{main}*"
    rest = _rest_of(block, "format", "name", "source")
    name = block.nullable("name")
    if isinstance(source.get("text"), str):
        data = source["text"].encode("utf-8", "replace")
        return FilePart(data=data, media_type=media_type, name=name, metadata=rest)

    stored = source.get("s3Location")
    given = stored.get("uri") if is_map(stored) else source.get("bytes")
    return _make_media(given, media_type, name, rest)


_MEDIA = frozenset({"audio", "document", "image", "video"})
_OFFICE = "application/vnd.openxmlformats-officedocument"
_TYPES = {
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "html": "text/html",
    "md": "text/markdown",
    "mp3": "audio/mpeg",
    "three_gp": "video/3gpp",
    "txt": "text/plain",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
}


# Assistants


def _read_thread_block(block: ObjectReader) -> _Piece | None:
    kind = block.text("type")
    inside = block.raw.get(kind)
    if kind == "text" and is_map(inside):
        known = frozenset({"value"})
        rest = block.reading.rest(inside, known, f"{block.path}.text")
        return TextPart(block.child(kind).text("value"), metadata=rest)

    if kind == "image_url" and is_map(inside) and inside.get("url"):
        image = block.child(kind)
        return ImagePart(url=image.text("url"), detail=image.nullable("detail"))

    return RefusalPart(block.text(kind)) if kind == "refusal" else None


# UIMessages of older versions


def upgrade_ui_messages(payload: Any) -> Any:
    """
    *payload*, a list of UIMessages or what has it as ``messages``, as AI SDK 5 and
    newer have them; what is no message stays.

    Source:
        ``UIMessage`` of npm's ``ai`` 4; that of 5, and its migration guide.
    """
    if is_map(payload):
        return {**payload, "messages": upgrade_ui_messages(payload.get("messages"))}

    if not is_list(payload):
        return payload

    return [_upgrade_message(raw) if is_map(raw) else raw for raw in payload]


def _upgrade_message(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    attached = [key for key in _ATTACHED if is_list(raw.get(key))]
    parts = raw.get("parts")
    dropped = {"parts", *attached}
    if is_list(parts):
        parts = [_upgrade_part(each) if is_map(each) else each for each in parts]
        texts = [each.get("text") for each in parts if is_map(each)]
        said = "".join([text for text in texts if isinstance(text, str)])
        if raw.get("content") in ("", said):
            dropped |= {"content"}
    elif isinstance(raw.get("content"), str):
        calls = raw.get("toolInvocations")
        parts = [
            {"type": "tool-invocation", "toolInvocation": call}
            for call in (calls if is_list(calls) else ())
        ]
        parts = [_upgrade_part(each) for each in parts]
        if isinstance(raw.get("reasoning"), str):
            parts.insert(0, {"type": "reasoning", "text": raw["reasoning"]})
            dropped |= {"reasoning"}

        if any("output" in each for each in parts) and raw["content"]:
            parts.append({"type": "step-start"})  # said when it had the results

        if raw["content"] or not parts:
            parts.append({"type": "text", "text": raw["content"]})

        dropped |= {"content", "toolInvocations"}
    else:
        return raw

    files = [
        {
            "type": "file",
            "url": each.get("url"),
            "mediaType": each.get("contentType") or "application/octet-stream",
            **({"filename": each["name"]} if each.get("name") else {}),
        }
        for key in attached
        for each in raw[key]
        if is_map(each)
    ]
    kept = {key: raw[key] for key in raw if key not in dropped}
    return {"id": "", **kept, "parts": [*parts, *files]}


_ATTACHED = ("experimental_attachments", "attachments")
_STATES = {
    "partial-call": "input-streaming",
    "call": "input-available",
    "result": "output-available",
}


def _upgrade_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    kind, call, source = (
        part.get("type"),
        part.get("toolInvocation"),
        part.get("source"),
    )
    if kind == "tool-invocation" and is_map(call):
        state = call.get("state")
        made = {
            "type": f"tool-{call.get('toolName')}",
            "toolCallId": call.get("toolCallId"),
            "state": _STATES.get(str(state), state),
            "input": call.get("args"),
        }
        return {**made, "output": call["result"]} if "result" in call else made

    if kind == "reasoning" and "text" not in part:
        return {"text": part.get("reasoning"), **_drop_keys(part, "reasoning")}

    if kind == "source" and is_map(source):
        return {**source, "type": "source-url", "sourceId": source.get("id")}

    if kind == "file" and "mimeType" in part and isinstance(part.get("data"), str):
        data, media_type = part["data"], part["mimeType"]
        url = data if ":" in data[:20] else f"data:{media_type};base64,{data}"
        rest = _drop_keys(part, "data", "mimeType")
        return {**rest, "mediaType": media_type, "url": url}

    return part


def _drop_keys(part: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: part[key] for key in part if key not in keys}


class _Reader(NamedTuple):
    """What a module of `conversation_state.adapters` would be, for these formats."""

    load: Callable[[Any], tuple[Message, ...]]


FORMATS: Mapping[str, _Reader] = {
    "ai_sdk_model": _Reader(load_model_messages),
    "bedrock_converse": _Reader(load_converse),
    "openai_assistants": _Reader(load_thread),
}


def pair_functions(messages: Iterable[Message]) -> list[Message]:
    """
    *messages* of LangChain, with calls of functions and their results as those of
    tools: ``additional_kwargs["function_call"]`` and `FunctionMessage`, as OpenAI had
    them until 2023.
    """
    paired: list[Message] = []
    names: dict[str, str] = {}
    for at, message in enumerate(messages):
        said = message
        notes = notes_of(message.metadata, "langchain")
        beside = dict(map_of(notes, "additional_kwargs"))
        call = beside.pop("function_call", None)
        raw = message.raw if isinstance(message, UnknownMessage) else {}
        if (
            isinstance(message, AssistantMessage)
            and isinstance(call, Mapping)
            and not message.tool_calls
        ):
            name, given = call.get("name"), call.get("arguments")
            name = name if isinstance(name, str) else ""
            id = names[name] = f"message_{at}_call_0"
            arguments = given if isinstance(given, str) else json.dumps(thaw(given))
            kept = {**notes, "additional_kwargs": beside}
            said = message.replace(
                tool_calls=[ToolCall(id, name, arguments)],
                metadata=with_notes("langchain", kept, message.metadata),
            )
        elif raw.get("class") == "FunctionMessage" and isinstance(
            text := raw.get("content"), str
        ):
            name = raw.get("name")
            name = name if isinstance(name, str) else ""
            id = names.get(name, "")
            said = ToolMessage(text, tool_call_id=id, tool_name=name)

        paired.append(said)

    return paired
