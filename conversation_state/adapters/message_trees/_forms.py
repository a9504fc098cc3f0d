"""The records of each format: from one to messages, and back."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import attrs

from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.adapters import openai_responses
from conversation_state.adapters.engine.export import Lost, in_order
from conversation_state.adapters.engine.reading import is_list, is_map, text_of
from conversation_state.adapters.engine.ui import INTERRUPTED, was_cut
from conversation_state.adapters.engine.usage import as_count
from conversation_state.adapters.engine.wire import (
    decode_base64,
    make_call_id,
    parse_arguments,
    parse_data_url,
    read_time,
    url_of,
    write_iso,
)
from conversation_state.errors import (
    ConversationStateError,
    DecodeError,
    InvalidUsageError,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ResponseMeta,
    SystemMessage,
    ToolMessage,
    UnknownMessage,
    UserMessage,
    read_usage,
)
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
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

# The name of the format: of its notes, and the source of unknown messages. That of
# unknown parts is the program's name.
SOURCE = "message_trees"

Body: TypeAlias = Mapping[str, Any]
Piece: TypeAlias = Part | ToolCall | ToolMessage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UnreadableError(Exception):
    """A record is no message; the reason, for people."""


class RecordForm(NamedTuple):
    """
    One format of records.

    Attributes:
        read: The messages of a record's body, at least one; `UnreadableError`.
        write: The body of messages that make one record, and what it can't have.
        complete: The keys that a program expects in a body besides.
        owned: The keys that `read` reads.
        holds: The roles it has records for.
        has_name: Whether each record has the id of its conversation.
        select_kept: Of a format that is not written, what of a body its messages do
            not have.
    """

    read: Callable[[Body], list[Message]]
    write: Callable[[Sequence[Message], list[Lost], str], dict[str, Any]]
    complete: Callable[[Sequence[Message]], dict[str, Any]]
    owned: frozenset[str]
    holds: frozenset[str] = frozenset({"system", "user", "assistant", "tool"})
    has_name: bool = False
    select_kept: Callable[[Body], dict[str, Any]] | None = None


# Times


def write_seconds(time: datetime) -> float:
    """Seconds since 1970; an integer where that is exact."""
    seconds = (time - _EPOCH) / timedelta(seconds=1)
    return int(seconds) if seconds.is_integer() else seconds


# What formats have in common


def _text_of(parts: Sequence[Part]) -> str | list[Part]:
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text

    return [*parts]


def _list_in(raw: Body, key: str) -> Sequence[Any]:
    # A single value stands for a list of one.
    value = raw.get(key)
    return value if is_list(value) else [value] if value else []


def _keep_unknown(raw: object, source: str) -> UnknownPart:
    return UnknownPart(raw if is_map(raw) else {"value": raw}, source=source)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _make_media(
    kind: type[MediaPart], source: str, media_type: str = "", name: str = ""
) -> Part:
    """A medium of a URL, a data URL or base64."""
    more: dict[str, Any] = {"name": name} if kind is FilePart else {}
    if found := parse_data_url(source):
        return kind(data=found[0], media_type=found[1], **more)

    # What is neither a URL nor a path is base64.
    is_link = ":" in source[:10] or source.startswith("/")
    if not is_link and (data := decode_base64(source)):
        return kind(data=data, media_type=media_type, **more)

    return kind(url=source, media_type=media_type, **more)


def _make_file(url: str, media_type: str = "", name: str = "") -> Part:
    # An id is no base64.
    if url.startswith("data:"):
        return _make_media(FilePart, url, media_type, name)

    return FilePart(url=url, media_type=media_type, name=name)


def _make_fields(time: datetime | None, model: object = None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if time is not None:
        fields["timestamp"] = time

    if isinstance(model, str) and model:
        fields["response"] = ResponseMeta(model=model)

    return fields


def _read_usage(raw: object) -> Usage | None:
    """The usage of an OpenAI, an Ollama or an AI SDK; None if it is unknown."""
    if not is_map(raw):
        return None

    for names in _COUNTS:
        prompt, completion = [as_count(raw.get(name)) for name in names]
        if prompt is not None and completion is not None:
            break
    else:
        return None

    block: dict[str, Any] = {"input_tokens": prompt, "output_tokens": completion}
    for key, other in (("input", "prompt"), ("output", "completion")):
        details = raw.get(f"{key}_tokens_details", raw.get(f"{other}_tokens_details"))
        if is_map(details):
            counts = {name: as_count(details[name]) for name in details}
            known = {name: count for name, count in counts.items() if count is not None}
            block[f"{key}_tokens_details"] = known

    try:
        usage: Usage | None = openai_responses.load_usage(block)
    except DecodeError:
        return None

    return usage


_COUNTS = (
    ("prompt_tokens", "completion_tokens"),
    ("input_tokens", "output_tokens"),
    ("prompt_eval_count", "eval_count"),
    ("inputTokens", "outputTokens"),
    ("promptTokens", "completionTokens"),
)


def _add_usage(messages: list[Message], usage: Usage | None) -> list[Message]:
    return messages if usage is None else _end_answer(messages, usage=usage)


def _end_answer(messages: list[Message], **reported: Any) -> list[Message]:
    # What a record says of its end is of its last response.
    for at in reversed(range(len(messages))):
        message = messages[at]
        if isinstance(message, AssistantMessage):
            meta = attrs.evolve(message.response or ResponseMeta(), **reported)
            return [*messages[:at], message.replace(response=meta), *messages[at + 1 :]]

    return messages


def _cut_answer(messages: list[Message]) -> list[Message]:
    return _end_answer(messages, finish_reason=INTERRUPTED)


def _sum_usages(found: Sequence[Usage | None]) -> Usage | None:
    known = [usage for usage in found if usage is not None]
    try:
        return sum(known, Usage()) if known else None
    except InvalidUsageError:
        return None


def _read_failure(error: object) -> str:
    # What is shown in place of an answer.
    if is_map(error):
        keys = ("content", "message", "detail", "error")
        error = next((error[key] for key in keys if error.get(key)), None)

    return error if isinstance(error, str) else ""


def _split_responses(
    pieces: list[Piece], *, has_order: bool = False, **fields: Any
) -> list[Message]:
    """
    The messages of an answer. Content behind a result is the next response; a call
    behind one is made by the same, unless results stand where they came (*has_order*)
    and each call before it has its own.
    """
    messages: list[Message] = []
    parts: list[Part] = []
    calls: list[ToolCall] = []
    results: list[Message] = []

    def flush() -> None:
        messages.append(AssistantMessage(_text_of(parts), tool_calls=calls, **fields))
        messages.extend(results)
        for each in (parts, calls, results):
            each.clear()

    for piece in pieces:
        if isinstance(piece, ToolMessage):
            results.append(piece)
        elif isinstance(piece, ToolCall):
            if has_order and results and len(results) >= len(calls):
                flush()

            calls.append(piece)
        else:
            if results:
                flush()

            parts.append(piece)

    if parts or calls or results or not messages:
        flush()

    return messages


def _list_pieces(
    messages: Sequence[Message], lost: list[Lost], path: str
) -> Iterator[tuple[str, Part | ToolCall, ToolMessage | None]]:
    """The parts and calls of a record's *messages*, calls with results."""
    results = {m.tool_call_id: m for m in messages if isinstance(m, ToolMessage)}
    last = {c.id: at for at, m in enumerate(messages) for c in m.tool_calls}
    had_result = False
    for at, message in enumerate(messages):
        where = f"{path}[{at}]" if len(messages) > 1 else path
        if not isinstance(message, ToolMessage):
            if had_result and message.tool_calls and not message.parts:
                why = "calls of two responses in a row are read as those of one"
                lost.append(Lost(where, "response", why))

            had_result = False
            for place, piece in in_order(message.parts, message.tool_calls, where):
                result = None
                if isinstance(piece, ToolCall):
                    result = results.pop(piece.id, None)

                yield place, piece, result

            continue

        had_result = True
        call_id = message.tool_call_id
        if results.get(call_id) is message and last.get(call_id, -1) < at:
            # Its call is not in the record: it stands elsewhere.
            del results[call_id]
            why = "a result stands with its call, which is not in front of it"
            lost.append(Lost(where, "tool_call_id", why))
            yield where, ToolCall(call_id, message.tool_name), message


def _parse_arguments(text: str) -> Any:
    try:
        return parse_arguments(text)
    except ValueError:
        return None


def _make_call(id: str, name: str, given: object, text: object = None) -> ToolCall:
    arguments = (
        text if isinstance(text, str) else _as_text({} if given is None else given)
    )
    return ToolCall(id, name, arguments)


_REFUSAL = "a refusal is a text there"
_NO_PART = "this format has no such part"


def _write_text(part: Part, lost: list[Lost], place: str) -> str | None:
    if isinstance(part, RefusalPart):
        lost.append(Lost(place, "refusal", _REFUSAL))

    return part.text if isinstance(part, (TextPart, RefusalPart)) else None


def _write_unknown(
    part: Part, source: str, lost: list[Lost], place: str
) -> dict[str, Any] | None:
    if isinstance(part, UnknownPart) and part.source == source:
        raw: dict[str, Any] = thaw(part.raw)
        return raw

    lost.append(Lost(place, part.kind, _NO_PART))
    return None


def _model_of(messages: Sequence[Message]) -> str:
    for message in messages:
        if isinstance(message, AssistantMessage) and message.response:
            return message.response.model

    return ""


def _join_texts(messages: Sequence[Message]) -> str:
    texts = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            parts = [_write_text(part, [], "") for part in message.parts]
            texts.append("".join([each for each in parts if each]))

    return "\n\n".join([text for text in texts if text])


# assistant-ui: ThreadMessage, and UIMessage in its rows


def _read_thread(raw: Body) -> list[Message]:
    role, content = raw.get("role"), raw.get("content")
    if "parts" in raw and "content" not in raw:
        content = raw["parts"]

    if isinstance(content, str):
        content = [{"type": "text", "text": content}]

    if not is_list(content):
        raise UnreadableError("has no content")

    fields = _make_fields(read_time(raw.get("createdAt")))
    if role == "assistant":
        # The AI SDK marks where a response begins.
        steps: list[list[Piece]] = [[]]
        for part in content:
            steps += [[]] if is_map(part) and part.get("type") == "step-start" else []
            steps[-1] += _read_thread_part(part)

        failure = _read_failure(raw.get("status"))
        known = [step for step in steps if step] or [
            [TextPart(failure)] * bool(failure)
        ]
        said = [each for step in known for each in _split_responses(step, **fields)]
        said = _add_usage(said, _read_steps(raw.get("metadata")))
        is_cut = _is_cancelled(raw.get("status")) or any(map(_is_partial, content))
        return _cut_answer(said) if is_cut else said

    pieces = [piece for part in content for piece in _read_thread_part(part)]

    kinds = TextPart if role == "system" else (TextPart, MediaPart, UnknownPart)
    kind = {"system": SystemMessage, "user": UserMessage}.get(str(role))
    if kind is None or not all(isinstance(piece, kinds) for piece in pieces):
        raise UnreadableError(
            "has an unknown role, or content that its role can't have"
        )

    if is_list(files := raw.get("attachments")):
        inner = [f["content"] for f in files if is_map(f) and is_list(f.get("content"))]
        pieces += [
            p for each in inner for part in each for p in _read_thread_part(part)
        ]

    parts = [piece for piece in pieces if isinstance(piece, kinds)]
    return [kind(_text_of(parts), **fields)]


def _is_cancelled(status: object) -> bool:
    return is_map(status) and status.get("reason") == _CANCELLED["reason"]


def _is_partial(part: object) -> bool:
    # The AI SDK's state of a call that was cut off.
    return is_map(part) and part.get("state") == "input-streaming"


def _read_steps(metadata: object) -> Usage | None:
    steps = metadata.get("steps") if is_map(metadata) else None
    found = [
        _read_usage(step.get("usage"))
        for step in (steps if is_list(steps) else ())
        if is_map(step)
    ]
    return _sum_usages(found)


def _read_thread_part(raw: Any) -> list[Piece]:
    if not is_map(raw):
        return [_keep_unknown(raw, "assistant_ui")]

    kind = text_of(raw, "type")
    if kind == "step-start":
        return []

    if call_id := text_of(raw, "toolCallId"):
        return _read_thread_call(raw, call_id, kind)

    if kind in {"text", "reasoning"} and isinstance(raw.get("text"), str):
        return [(TextPart if kind == "text" else ReasoningPart)(raw["text"])]

    return [_read_thread_media(raw, kind) or _keep_unknown(raw, "assistant_ui")]


def _read_thread_media(raw: Body, kind: str) -> Part | None:
    if kind == "image" and (image := text_of(raw, "image")):
        return _make_media(ImagePart, image)

    if kind == "file":
        media_type = text_of(raw, "mimeType") or text_of(raw, "mediaType")
        source = text_of(raw, "data") or text_of(raw, "url")
        is_image = "url" in raw and media_type.startswith("image/")
        made = ImagePart if is_image else FilePart
        name = text_of(raw, "filename")
        return _make_media(made, source, media_type, name) if source else None

    audio = raw.get("audio") if kind == "audio" else None
    data = decode_base64(text_of(audio, "data")) if is_map(audio) else b""
    if not data or not is_map(audio):
        return None

    return AudioPart(data=data, media_type=f"audio/{text_of(audio, 'format')}")


def _read_thread_call(raw: Body, call_id: str, kind: str) -> list[Piece]:
    tool = text_of(raw, "toolName") or kind.removeprefix("tool-")
    given = raw.get("args", raw.get("input"))
    partial = raw.get("rawInput") if _is_partial(raw) else None
    text = partial if isinstance(partial, str) else raw.get("argsText")
    pieces: list[Piece] = [_make_call(call_id, tool, given, text)]
    for key in ("result", "output", "errorText"):
        if key in raw:
            is_error = key == "errorText" or raw.get("isError") is True
            pieces.append(
                ToolMessage(
                    _as_text(raw[key]),
                    tool_call_id=call_id,
                    tool_name=tool,
                    is_error=is_error,
                )
            )
            break

    return pieces


def _write_thread(
    messages: Sequence[Message], lost: list[Lost], path: str
) -> dict[str, Any]:
    content = []
    for place, piece, result in _list_pieces(messages, lost, path):
        if isinstance(piece, ToolCall):
            given = _parse_arguments(piece.arguments)
            call: dict[str, Any] = {
                "type": "tool-call",
                "toolCallId": piece.id,
                "toolName": piece.name,
                "args": given if isinstance(given, dict) else {},
                "argsText": piece.arguments,
            }
            if result is not None:
                _add_result(call, "result", result, lost, place)
                if result.is_error:
                    call["isError"] = True

            part: dict[str, Any] | None = call
        else:
            part = _write_thread_part(piece, lost, place)

        if part is not None:
            content.append(part)

    role = "assistant" if messages[0].role == "tool" else messages[0].role
    body = {"role": role, "content": content}
    if (time := messages[0].timestamp) is not None:
        body["createdAt"] = write_iso(time)

    return body


def _add_result(
    raw: dict[str, Any], key: str, result: ToolMessage, lost: list[Lost], place: str
) -> None:
    raw[key] = result.text
    why = "a result is a text there"
    others = [part for part in result.parts if not isinstance(part, TextPart)]
    lost += [Lost(place, part.kind, why) for part in others]


def _write_thread_part(
    part: Part, lost: list[Lost], place: str
) -> dict[str, Any] | None:
    text = _write_text(part, lost, place)
    if text is not None:
        return {"type": "text", "text": text}

    if isinstance(part, ReasoningPart):
        if part.signature:
            lost.append(Lost(place, "signature", "this format has none"))

        return {"type": "reasoning", "text": part.text}

    if isinstance(part, ImagePart):
        return {"type": "image", "image": url_of(part)}

    if isinstance(part, AudioPart) and part.data:
        kind = "mp3" if part.media_type in {"audio/mp3", "audio/mpeg"} else "wav"
        audio = {"data": base64.b64encode(part.data).decode(), "format": kind}
        return {"type": "audio", "audio": audio}

    if isinstance(part, MediaPart):
        data = part.url or base64.b64encode(part.data or b"").decode()
        name = (
            {"filename": part.name} if isinstance(part, FilePart) and part.name else {}
        )
        return {"type": "file", "data": data, "mimeType": part.media_type, **name}

    return _write_unknown(part, "assistant_ui", lost, place)


# How an answer that was cut off ended. A page runs no calls of it.
_CANCELLED = {"type": "incomplete", "reason": "cancelled"}


def _complete_thread(messages: Sequence[Message]) -> dict[str, Any]:
    if messages[0].role == "user":
        return {"attachments": [], "metadata": {"custom": {}}}

    if messages[0].role == "system":
        return {"metadata": {"custom": {}}}

    status = {"type": "complete", "reason": "stop"}
    if _is_cut(messages):
        status = dict(_CANCELLED)
    elif messages[-1].tool_calls:
        status = {"type": "requires-action", "reason": "tool-calls"}

    metadata: dict[str, Any] = {"unstable_state": None, "steps": [], "custom": {}}
    metadata.update(unstable_annotations=[], unstable_data=[])
    return {"status": status, "metadata": metadata}


def _is_cut(messages: Sequence[Message]) -> bool:
    # How the last answer ended, and what keeps a page from calls of those before it.
    results = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    answers = [m for m in messages if not isinstance(m, ToolMessage)]
    waiting = [m for m in answers if not results.issuperset(c.id for c in m.tool_calls)]
    return any(map(was_cut, [*answers[-1:], *waiting]))


# LibreChat


def _read_librechat(raw: Body) -> list[Message]:
    content, text = raw.get("content"), raw.get("text")
    parts: list[Piece] = []
    if is_list(content):
        parts = [piece for part in content for piece in _read_librechat_part(part)]

    if not parts:
        if not isinstance(text, str):
            raise UnreadableError("has neither text nor content")

        parts = [TextPart(text)]

    fields = _make_fields(read_time(raw.get("createdAt")))
    is_user = raw.get("isCreatedByUser")
    if not isinstance(is_user, bool):
        is_user = text_of(raw, "sender").lower() == "user"

    if not is_user:
        fields.update(_make_fields(None, raw.get("model")))
        said = _split_responses(parts, **fields)
        return _cut_answer(said) if raw.get("unfinished") is True else said

    parts += [
        ImagePart(url=path)
        if (kind := text_of(each, "type")).startswith("image/")
        else _make_file(path, kind, text_of(each, "filename"))
        for each in _list_in(raw, "files")
        if is_map(each) and (path := text_of(each, "filepath"))
    ]
    known = (TextPart, MediaPart, UnknownPart)
    held = [part for part in parts if isinstance(part, known)]
    if len(held) < len(parts):
        raise UnreadableError("has content that a user's message can't have")

    return [UserMessage(_text_of(held), **fields)]


def _read_librechat_part(raw: Any) -> list[Piece]:
    kind = text_of(raw, "type") if is_map(raw) else ""
    value = raw.get(kind) if kind else None
    if is_map(value) and kind in {"text", "think"}:
        value = value.get("value")

    if kind == "text" and isinstance(value, str):
        return [TextPart(value)]

    if kind == "think" and isinstance(value, str):
        return [ReasoningPart(value)]

    if kind == "image_url":
        url = value.get("url") if is_map(value) else value
        if isinstance(url, str) and url:
            return [_make_media(ImagePart, url)]

    if kind == "tool_call" and is_map(value) and (call_id := text_of(value, "id")):
        tool, given = text_of(value, "name"), value.get("args")
        output = value.get("output")
        if is_map(inner := value.get(text_of(value, "type"))):
            tool, given, output = _read_assistants_call(value["type"], inner)

        pieces: list[Piece] = [_make_call(call_id, tool, given, given)]
        if output is not None:
            text = _as_text(output)
            pieces.append(ToolMessage(text, tool_call_id=call_id, tool_name=tool))

        return pieces

    # What went wrong stands in place of an answer, as in a text before.
    if kind == "error" and isinstance(failure := value or raw.get("text"), str):
        return [TextPart(failure)]

    return [_keep_unknown(raw, "librechat")]


def _read_assistants_call(kind: str, raw: Body) -> tuple[str, object, object]:
    # A call of OpenAI's Assistants: its name, its arguments and what came of it.
    if kind != "code_interpreter":
        name = text_of(raw, "name") or kind
        return name, raw.get("arguments"), raw.get("output")

    given, outputs = raw.get("input"), raw.get("outputs")
    if not is_list(outputs):
        return kind, {"input": given}, None

    logs = [text_of(each, "logs") for each in outputs if is_map(each)]
    return kind, {"input": given}, "\n".join(filter(None, logs))


def _write_librechat(
    messages: Sequence[Message], lost: list[Lost], path: str
) -> dict[str, Any]:
    pieces = _list_pieces(messages, lost, path)
    written = [_write_librechat_part(*piece, lost) for piece in pieces]
    content = [part for part in written if part is not None]
    body: dict[str, Any] = {"isCreatedByUser": messages[0].role == "user"}
    body["text"] = _join_texts(messages)
    # A text alone needs no list.
    if len(content) > 1 or any(part.get("type") != "text" for part in content):
        body["content"] = content

    if (time := messages[0].timestamp) is not None:
        body["createdAt"] = write_iso(time)

    if model := _model_of(messages):
        body["model"] = model

    return body


def _write_librechat_part(
    place: str, piece: Part | ToolCall, result: ToolMessage | None, lost: list[Lost]
) -> dict[str, Any] | None:
    if isinstance(piece, ToolCall):
        call = {"id": piece.id, "name": piece.name, "args": piece.arguments}
        call["type"] = "tool_call"
        if result is not None:
            _add_result(call, "output", result, lost, place)
            if result.is_error:
                lost.append(Lost(place, "is_error", "this format has no errors"))

        return {"type": "tool_call", "tool_call": call}

    if (text := _write_text(piece, lost, place)) is not None:
        return {"type": "text", "text": text}

    if isinstance(piece, ReasoningPart):
        if piece.signature:
            lost.append(Lost(place, "signature", "this format has none"))

        return {"type": "think", "think": piece.text}

    if isinstance(piece, ImagePart):
        return {"type": "image_url", "image_url": {"url": url_of(piece)}}

    return _write_unknown(piece, "librechat", lost, place)


def _complete_librechat(messages: Sequence[Message]) -> dict[str, Any]:
    is_user = messages[0].role == "user"
    sender = messages[0].name or ("User" if is_user else "Assistant")
    return {"sender": sender, "error": False, "unfinished": _is_cut(messages)}


# Open WebUI

# Each is searched once behind the other, so that no text takes more than linear time.
_OPENING = re.compile(r"<details\b([^>]*)>?")
_KNOWN_TYPE = re.compile(r"\stype=\"(?:reasoning|tool_calls)\"")
_CLOSING = re.compile(r"</details>\s*")
_ATTRIBUTE = re.compile(r"(?<![\w-])([\w-]+)=\"([^\"]*)\"")


def _read_open_webui(raw: Body) -> list[Message]:
    role, content = raw.get("role"), raw.get("content")
    time = read_time(raw.get("timestamp"))
    if role == "assistant":
        end = _cut_answer if raw.get("done") is False else list
        fields = _make_fields(time, raw.get("model"))
        output = raw.get("output")
        # The text says the same again, with thoughts and results as HTML.
        if is_list(output) and output:
            try:
                read = openai_responses.load(output)
            except DecodeError:
                read = ()

            if read and read[0].role in {"assistant", "tool"}:
                said = [_add_fields(message, fields) for message in read]
                return end(_add_usage(said, _read_webui_usage(raw)))

        if isinstance(content, str):
            text = content or _read_failure(raw.get("error"))
            pieces = _read_details(text, f"{raw.get('timestamp')}:{text}")
            said = _split_responses(pieces, **fields)
            return end(_add_usage(said, _read_webui_usage(raw)))

    kind = {"system": SystemMessage, "user": UserMessage, "assistant": None}.get(
        str(role)
    )
    if kind is None or not isinstance(content, str):
        raise UnreadableError("has no text, or an unknown role")

    parts: list[Part] = [TextPart(content)]
    if kind is UserMessage:
        # A file of a knowledge base has an id only.
        parts += [
            _make_media(ImagePart, url)
            if each.get("type") == "image"
            else _make_file(url, name=text_of(each, "name"))
            for each in _list_in(raw, "files")
            if is_map(each) and (url := text_of(each, "url") or text_of(each, "id"))
        ]

    return [kind(_text_of(parts), **_make_fields(time))]


def _add_fields(message: Message, fields: dict[str, Any]) -> Message:
    if isinstance(message, AssistantMessage):
        parts = [*map(_without_item, message.parts)]
        calls = [attrs.evolve(call, metadata=EMPTY_MAP) for call in message.tool_calls]
        return message.replace(content=parts or "", tool_calls=calls, **fields)

    time = fields.get("timestamp")
    return message.replace(timestamp=time) if time else message


def _without_item(part: Part) -> Part:
    # Open WebUI's items are not OpenAI's, which refuses thoughts in the open, other ids
    # than its own, and messages without one. What is signed came from there.
    if isinstance(part, (RefusalPart, TextPart)):
        return type(part)(part.text, index=part.index)

    if isinstance(part, UnknownPart):
        is_own = text_of(part.raw, "type").startswith("open_webui")
        return attrs.evolve(part, source="open_webui") if is_own else part

    if isinstance(part, ReasoningPart) and not part.signature:
        return ReasoningPart(part.text, index=part.index)

    return part


def _read_webui_usage(raw: Body) -> Usage | None:
    # Older versions have it among what they tell of the answer.
    info = raw.get("info")
    inner = info.get("usage") if is_map(info) else None
    return next(filter(None, map(_read_usage, (raw.get("usage"), inner, info))), None)


def _read_details(text: str, made: str) -> list[Piece]:
    pieces: list[Piece] = []
    end = 0
    for at, (opening, closing) in enumerate(_find_details(text)):
        if before := text[end : opening.start()]:
            pieces.append(TextPart(before))

        end = closing.end()
        found = _ATTRIBUTE.findall(opening[1])
        about = {key: _unescape_html(value) for key, value in found}
        content = text[opening.end() : closing.start()]
        inner = _unescape_html(_without_summary(content)).strip()
        if about.get("type") == "tool_calls":
            id = about.get("id") or make_call_id(made, at)
            pieces += _read_details_call(about, inner, id)
        else:
            lines = inner.split("\n")
            quoted = [line.removeprefix(">").removeprefix(" ") for line in lines]
            pieces.append(ReasoningPart("\n".join(quoted)))

    return [*pieces, TextPart(text[end:])] if text[end:] else pieces


def _find_details(text: str) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    # Where each thought and each call begins and ends.
    at = 0
    while opening := _OPENING.search(text, at):
        at = opening.end()
        if _KNOWN_TYPE.search(opening[1]):
            closing = _CLOSING.search(text, at)
            if closing is None:
                return  # so none behind it is closed

            yield opening, closing
            at = closing.end()


def _without_summary(text: str) -> str:
    before, _, rest = text.partition("<summary>")
    _, closed, behind = rest.partition("</summary>")
    return before.rstrip() + behind.lstrip() if closed else text


def _unescape_html(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # of a character's number, more digits than Python reads
        return text


def _read_details_call(about: Body, inner: str, id: str) -> Iterator[Piece]:
    name = about.get("name", "")
    yield ToolCall(id, name, _unquote_json(about.get("arguments", "")) or "{}")
    if inner or "result" in about or about.get("done") == "true":
        text = _unquote_json(about.get("result") or inner)
        yield ToolMessage(text, tool_call_id=id, tool_name=name)


def _unquote_json(text: str) -> str:
    # A text is written as JSON there.
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text

    return value if isinstance(value, str) else text


def _write_open_webui(
    messages: Sequence[Message], lost: list[Lost], path: str
) -> dict[str, Any]:
    role = "assistant" if messages[0].role == "tool" else messages[0].role
    body: dict[str, Any] = {"role": role}
    body["content"] = _join_texts(messages)
    if role == "assistant":
        output = [*_write_output(messages, lost, path)]
        if any(item["type"] != "message" for item in output) or len(output) > 1:
            body["output"] = output

        if model := _model_of(messages):
            body["model"] = model

        if (usage := _sum_usages([*map(read_usage, messages)])) is not None:
            body["usage"] = _write_usage(usage)
    else:
        files = []
        for at, part in enumerate(messages[0].parts):
            place = f"{path}.parts[{at}]"
            if isinstance(part, (FilePart, ImagePart)):
                name = {"name": part.name} if isinstance(part, FilePart) else {}
                files.append({"type": part.kind, "url": url_of(part), **name})
            elif _write_text(part, lost, place) is None:
                lost.append(Lost(place, part.kind, _NO_PART))

        if files:
            body["files"] = files

    if (time := messages[0].timestamp) is not None:
        body["timestamp"] = write_seconds(time)

    return body


def _write_usage(usage: Usage) -> dict[str, Any]:
    before, behind = usage.prompt_tokens_details, usage.completion_tokens_details
    body: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    if before.cached_tokens:
        body["prompt_tokens_details"] = {"cached_tokens": before.cached_tokens}

    if behind.reasoning_tokens:
        details = {"reasoning_tokens": behind.reasoning_tokens}
        body["completion_tokens_details"] = details

    return body


def _write_output(
    messages: Sequence[Message], lost: list[Lost], path: str
) -> Iterator[dict[str, Any]]:
    done = {"status": "completed"}
    for at, message in enumerate(messages):
        where = f"{path}[{at}]" if len(messages) > 1 else path
        if isinstance(message, ToolMessage):
            item = {"type": "function_call_output", "call_id": message.tool_call_id}
            _add_result({}, "", message, lost, where)
            block = [{"type": "input_text", "text": message.text}]
            yield {**item, "output": block, **done}
            if message.is_error:
                lost.append(Lost(where, "is_error", "this format has no errors"))

            continue

        for place, piece in in_order(message.parts, message.tool_calls, where):
            if isinstance(piece, ToolCall):
                call = {"call_id": piece.id, "name": piece.name}
                call["arguments"] = piece.arguments
                yield {"type": "function_call", "id": piece.id, **call, **done}
            elif (text := _write_text(piece, lost, place)) is not None:
                block = [{"type": "output_text", "text": text}]
                yield {"type": "message", "role": "assistant", **done, "content": block}
            elif isinstance(piece, ReasoningPart):
                block = [{"type": "output_text", "text": piece.text}]
                yield {"type": "reasoning", **done, "content": block, "summary": None}
                if piece.signature:
                    lost.append(Lost(place, "signature", "this format has none"))
            else:
                lost.append(Lost(place, piece.kind, _NO_PART))


def _complete_open_webui(messages: Sequence[Message]) -> dict[str, Any]:
    return {} if messages[0].role == "user" else {"done": not _is_cut(messages)}


# ChatGPT, which is read only


def _read_chatgpt(raw: Body) -> list[Message]:
    author, content = raw.get("author"), raw.get("content")
    if not is_map(author) or not is_map(content):
        raise UnreadableError("has no author or no content")

    parts = _read_chatgpt_content(content)
    metadata = raw.get("metadata")
    model = metadata.get("model_slug") if is_map(metadata) else None
    fields = _make_fields(read_time(raw.get("create_time")))
    role, id = author.get("role"), text_of(raw, "id")
    if role == "assistant":
        calls = []
        tool = raw.get("recipient")
        if isinstance(tool, str) and tool not in {"", "all"} and id:
            text = "".join([part.text for part in parts if isinstance(part, TextPart)])
            given = _parse_arguments(text)
            code = text if isinstance(given, dict) else json.dumps({"input": text})
            calls = [ToolCall(id, tool, code)]
            # The text is what the tool gets, and nothing that the model says besides.
            parts = [part for part in parts if not isinstance(part, TextPart)]

        fields.update(_make_fields(None, model))
        answer = AssistantMessage(_text_of(parts), tool_calls=calls, **fields)
        end = metadata.get("finish_details") if is_map(metadata) else None
        is_cut = is_map(end) and end.get("type") == "interrupted"
        return _cut_answer([answer]) if is_cut else [answer]

    held = [part for part in parts if not isinstance(part, ReasoningPart)]
    if role == "tool" and id:
        # Which call it answers is known where it stands; see `_load`.
        name = text_of(author, "name")
        is_error = content.get("content_type") == "system_error"
        result = ToolMessage(
            _text_of(held),
            tool_call_id=id,
            tool_name=name,
            is_error=is_error or _has_failed(metadata),
            **fields,
        )
        return [result]

    kind = {"system": SystemMessage, "user": UserMessage}.get(str(role))
    is_text = all(isinstance(part, TextPart) for part in held)
    if kind is None or not (is_text or kind is UserMessage):
        raise UnreadableError(
            "has an unknown role, or content that its role can't have"
        )

    if kind is UserMessage and is_map(metadata):
        # Images are in the content, too.
        held += [
            FilePart(url=f"file-service://{id}", media_type=mime, name=name)
            for each in _list_in(metadata, "attachments")
            if is_map(each) and (id := text_of(each, "id"))
            if not (mime := text_of(each, "mime_type")).startswith("image/")
            for name in [text_of(each, "name")]
        ]

    return [kind(_text_of(held), **fields)]


def _has_failed(metadata: object) -> bool:
    # Of code that was run.
    run = metadata.get("aggregate_result") if is_map(metadata) else None
    return is_map(run) and bool(
        run.get("in_kernel_exception") or run.get("system_exception")
    )


def _read_chatgpt_content(raw: Body) -> list[Part]:
    kind = raw.get("content_type")
    if kind == "user_editable_context":
        keys = ("user_profile", "user_instructions")
        texts = [text for key in keys if (text := text_of(raw, key))]
        return (
            [TextPart("\n\n".join(texts))] if texts else [_keep_unknown(raw, "chatgpt")]
        )

    if kind == "thoughts" and is_list(thoughts := raw.get("thoughts")):
        found = [each for each in thoughts if is_map(each)]
        return [
            ReasoningPart(text_of(each, "content") or text_of(each, "summary"))
            for each in found
        ]

    if is_list(parts := raw.get("parts")):
        read: list[Part] = []
        for part in parts:
            if isinstance(part, str):
                read.append(TextPart(part))
            elif is_map(part) and isinstance(part.get("text"), str):
                read.append(TextPart(part["text"]))
            else:
                read.append(_keep_unknown(part, "chatgpt"))

        return read

    # Besides text: what a browser showed, and what a search put out.
    held = [raw.get(key) for key in ("text", "result", "summary", "output_str")]
    texts = [text for text in held if isinstance(text, str)]
    if texts:
        return [TextPart(next(filter(None, texts), ""))]

    return [_keep_unknown(raw, "chatgpt")]


_ANYTHING = object()
# What most messages have.
_CHATGPT_USUAL: Body = {
    "end_turn": True,
    "recipient": "all",
    "status": "finished_successfully",
    "weight": 1.0,
}


def _select_chatgpt(raw: Body) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in raw.items()
        if value is not None and _CHATGPT_USUAL.get(key, _ANYTHING) != value
    }
    kept.pop("id", None)
    if read_time(kept.get("create_time")) is not None:
        del kept["create_time"]

    author, content = kept.get("author"), kept.get("content")
    if is_map(author) and not any(author[key] for key in author if key not in _AUTHOR):
        del kept["author"]

    if is_map(content) and content.keys() == _TEXT_CONTENT:
        is_text = content["content_type"] == "text" and is_list(content["parts"])
        if is_text and all(isinstance(part, str) for part in content["parts"]):
            del kept["content"]

    return kept


_AUTHOR = frozenset({"name", "role"})
_TEXT_CONTENT = frozenset({"content_type", "parts"})


# Claude.ai, which is read only


def _read_claude(raw: Body) -> list[Message]:
    fields = _make_fields(read_time(raw.get("created_at")))
    pieces: list[Piece] = []
    blocks = raw.get("content")
    if is_list(blocks):
        calls: list[ToolCall] = []
        for at, block in enumerate(blocks):
            pieces += _read_claude_block(block, f"{text_of(raw, 'uuid')}_{at}", calls)

    if not any(isinstance(piece, TextPart) for piece in pieces) and raw.get("text"):
        pieces.append(TextPart(text_of(raw, "text")))

    sender = raw.get("sender")
    if sender == "assistant":
        return _split_responses(pieces, has_order=True, **fields)

    for each in _list_in(raw, "attachments"):
        # What was pasted, or read out of a file: the model got it as text.
        if is_map(each) and (text := text_of(each, "extracted_content")):
            pieces.append(TextPart(text))
        else:
            pieces.append(_keep_unknown(each, "claude_ai"))

    pieces += [_keep_unknown(each, "claude_ai") for each in _list_in(raw, "files")]
    known = (TextPart, MediaPart, UnknownPart)
    held = [piece for piece in pieces if isinstance(piece, known)]
    if sender != "human" or len(held) < len(pieces):
        raise UnreadableError(
            "has an unknown sender, or content that its sender can't have"
        )

    return [UserMessage(_text_of(held), **fields)]


def _read_claude_block(raw: Any, made: str, calls: list[ToolCall]) -> list[Piece]:
    if not is_map(raw):
        return [_keep_unknown(raw, "claude_ai")]

    kind = text_of(raw, "type")
    if kind == "text" and isinstance(raw.get("text"), str):
        return [TextPart(raw["text"])] if raw["text"] else []

    if kind == "thinking" and isinstance(raw.get("thinking"), str):
        return [ReasoningPart(raw["thinking"], signature=text_of(raw, "signature"))]

    if kind == "tool_use":
        id = text_of(raw, "id") or make_call_id(made, 0)
        calls.append(_make_call(id, text_of(raw, "name"), raw.get("input")))
        return [calls[-1]]

    if kind == "tool_result":
        # Without an id it answers the first call of that name that has no result.
        id, name = text_of(raw, "tool_use_id"), text_of(raw, "name")
        open_calls = [c for c in calls if (c.id == id if id else c.name == name)]
        pieces: list[Piece] = []
        if open_calls:
            calls.remove(open_calls[0])
            id = open_calls[0].id
        elif not id:
            # Without a call it would be sent to no model.
            id = make_call_id(made, 0)
            pieces = [ToolCall(id, name, "{}")]

        content = raw.get("content")
        texts = [
            each["text"]
            for each in (content if is_list(content) else ())
            if is_map(each) and isinstance(each.get("text"), str)
        ]
        is_text = is_list(content) and len(texts) == len(content)
        text = "\n".join(texts) if is_text else _as_text(content)
        is_error = raw.get("is_error") is True
        result = ToolMessage(text, tool_call_id=id, tool_name=name, is_error=is_error)
        return [*pieces, result]

    # Marks of the interface, such as what is left of a budget, say nothing.
    return [] if kind in {"token_budget", "flag"} else [_keep_unknown(raw, "claude_ai")]


def _select_claude(raw: Body) -> dict[str, Any]:
    # The text says again what the content has.
    read = frozenset({"created_at", "sender", "text", "uuid"})
    kept = {
        key: value
        for key, value in raw.items()
        if key not in read and value not in (None, [], "")
    }
    if kept.get("updated_at") == raw.get("created_at"):
        kept.pop("updated_at", None)

    blocks = raw.get("content")
    if is_list(blocks) and all(
        is_map(each)
        and each.get("type") == "text"
        and not any(each[key] for key in each if key not in _CLAUDE_TEXT)
        for each in blocks
    ):
        kept.pop("content", None)

    return kept


_CLAUDE_TEXT = frozenset({"start_timestamp", "stop_timestamp", "text", "type"})


def _write_nothing(*_: object) -> dict[str, Any]:
    return {}


_THREAD = RecordForm(
    _read_thread,
    _write_thread,
    _complete_thread,
    frozenset({"role", "content", "parts", "createdAt", "attachments"}),
)
FORMS: Mapping[str, RecordForm] = {
    "assistant_ui": _THREAD,
    "assistant_ui_rows": _THREAD,
    "librechat": RecordForm(
        _read_librechat,
        _write_librechat,
        _complete_librechat,
        frozenset(
            {
                "isCreatedByUser",
                "sender",
                "text",
                "content",
                "createdAt",
                "model",
                "files",
            }
        ),
        frozenset({"user", "assistant", "tool"}),
        has_name=True,
    ),
    "open_webui": RecordForm(
        _read_open_webui,
        _write_open_webui,
        _complete_open_webui,
        frozenset(
            {
                "role",
                "content",
                "output",
                "timestamp",
                "model",
                "files",
                "usage",
                "error",
            }
        ),
    ),
    "chatgpt": RecordForm(
        _read_chatgpt,
        _write_nothing,
        _write_nothing,
        frozenset(),
        select_kept=_select_chatgpt,
    ),
    "claude_ai": RecordForm(
        _read_claude,
        _write_nothing,
        _write_nothing,
        frozenset(),
        select_kept=_select_claude,
    ),
}


def read_record(form: RecordForm, body: Body) -> tuple[list[Message], str]:
    """The messages of a record, and what is wrong with it: then it is kept whole."""
    try:
        return form.read(body), ""
    except UnreadableError as error:
        return [UnknownMessage(body, source=SOURCE)], str(error)
    except ConversationStateError as error:
        return [UnknownMessage(body, source=SOURCE)], f"can't be read: {error}"


def write_whole(
    form: RecordForm,
    messages: Sequence[Message],
    lost: list[Lost],
    path: str,
    name: str,
) -> dict[str, Any]:
    """
    The body of *messages* of the conversation *name*, with all that a program expects;
    of a record that could not be read, as it was.
    """
    first = messages[0]
    if isinstance(first, UnknownMessage):
        raw: dict[str, Any] = thaw(first.raw)
        return raw

    body = {**form.complete(messages), **form.write(messages, lost, path)}
    if form.has_name:
        body["conversationId"] = name

    return body


def says_same(some: Sequence[Message], others: Sequence[Message]) -> bool:
    """Whether messages are the same but for what is noted on them."""
    return [_compare_by(each) for each in some] == [
        _compare_by(each) for each in others
    ]


def _compare_by(message: Message) -> tuple[object, ...]:
    result = isinstance(message, ToolMessage) and (
        message.tool_call_id,
        message.tool_name,
        message.is_error,
    )
    response = isinstance(message, AssistantMessage) and message.response
    raw = isinstance(message, UnknownMessage) and message.raw
    time = message.timestamp
    return message.role, message.parts, message.tool_calls, time, result, response, raw
