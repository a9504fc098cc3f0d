"""
Answers of the four wires, written by hand from the providers' references: whole
responses, and streams of events.

The strict provider answers with these, and the strategies draw through them. They
share no code with `adapters`, which read what they write.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from conversation_state.messages import AssistantMessage
from conversation_state.parts import ReasoningPart, RefusalPart, TextPart, UnknownPart
from conversation_state.usage import Usage

Json: TypeAlias = Mapping[str, Any]
# Cuts a text into the pieces of a stream.
Cut: TypeAlias = Callable[[str], Iterable[str]]

_CREATED = 1_700_000_000

# Why an answer ended, in the words of those that do not speak as OpenAI does. What is
# no word of OpenAI's is written as it is.
_ANTHROPIC_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_GEMINI_REASONS = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}


def write_answer(
    wire: str, message: AssistantMessage, body: Json, numbers: Numbers
) -> dict[str, Any]:
    """
    The whole response that says *message*, to the request *body*.

    Raises:
        TypeError: It has a part that no model answers.
        ValueError: Arguments of a call are no JSON object, on a wire that has objects,
            and the answer did not reach the limit of tokens within them.
    """
    return _WRITERS[wire](message, body, numbers)


def stream_answer(
    wire: str, response: Json, body: Json, cut: Cut
) -> Iterator[dict[str, Any]]:
    """The events of a stream that says *response*, a whole one."""
    return _STREAMS[wire](response, body, cut)


def stream_error(wire: str, number: int) -> dict[str, Any]:
    """The event with *number*, from 0, of a stream that the server breaks off."""
    if wire == "openai_responses":
        said = {"code": "server_error", "message": "The server had an error"}
        return {"type": "error", **said, "param": None, "sequence_number": number}

    return dict(_ERRORS[wire])


def cut_text(text: str, size: int = 12) -> Iterator[str]:
    """*text* in pieces of at most *size* characters, as a stream has it."""
    for begin in range(0, len(text), size):
        yield text[begin : begin + size]


def list_early_tokens(wire: str, usage: Usage) -> set[int]:
    """
    The tokens that a stream of an answer with *usage* says before its end: what a
    client may know of one that was cut off.
    """
    if wire == "gemini":
        return {usage.prompt_tokens}

    # Begun with the first token of its output, which not every client counts.
    begun = usage.prompt_tokens + min(usage.completion_tokens, 1)
    return {usage.prompt_tokens, begun} if wire == "anthropic" else set()


class AnswerCall(NamedTuple):
    """A call of an answer; *id* is "" where the message has none."""

    id: str
    name: str
    arguments: str


class AnswerPiece(NamedTuple):
    """A part or a call of an answer: what is not its kind is empty."""

    kind: str
    text: str = ""
    signature: str = ""
    call: AnswerCall = AnswerCall("", "", "")
    raw: Json | None = None


class Numbers:
    """
    Ids that no two answers of one provider share.

    Those of another provider have another *mark*: four letters or digits.
    """

    def __init__(self, mark: str = "call") -> None:
        self._count = itertools.count(1)
        self._mark = mark

    def id(self, prefix: str) -> str:
        """A new id that begins with *prefix*."""
        return f"{prefix}{self.call_id()}"

    def call_id(self) -> str:
        """A new id of a call, which every host takes: nine letters and digits."""
        return f"{self._mark}{next(self._count):05d}"


def pieces_of(message: AssistantMessage) -> list[AnswerPiece]:
    """
    The parts and calls of *message*, in the order of their indices where they have any.
    """
    placed: list[tuple[tuple[int, int], AnswerPiece]] = []
    for at, part in enumerate(message.parts):
        match part:
            case TextPart():
                piece = AnswerPiece("text", part.text)
            case ReasoningPart():
                piece = AnswerPiece("reasoning", part.text, part.signature)
            case RefusalPart():
                piece = AnswerPiece("refusal", part.text)
            case UnknownPart():
                piece = AnswerPiece("raw", raw=_thaw(part.raw))
            case _:
                raise TypeError(
                    f"a script's answer has a part of kind {part.kind}; the strict "
                    "provider writes text, reasoning, refusals and unknown parts. Give "
                    "the response's JSON instead."
                )

        placed.append(((at if part.index is None else part.index, at), piece))

    begin = len(placed)
    for at, call in enumerate(message.tool_calls, begin):
        piece = AnswerPiece("call", call=AnswerCall(call.id, call.name, call.arguments))
        placed.append(((at if call.index is None else call.index, at), piece))

    placed.sort(key=lambda each: each[0])
    return [piece for _, piece in placed]


def _thaw(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thaw(each) for key, each in value.items()}

    if isinstance(value, list | tuple):
        return [_thaw(each) for each in value]

    return value


def arguments_of(call: AnswerCall) -> dict[str, Any]:
    """
    The arguments of *call* as the object that two of the wires have them as.

    Raises:
        ValueError: They are no JSON object.
    """
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None

    if not isinstance(arguments, dict):
        raise ValueError(  # noqa: TRY004 - the text is of the right type
            f"the arguments of the call {call.name!r} are {call.arguments!r}, which is "
            "no JSON object, as this wire has them. Script it for openai_chat, or give "
            "the answer the finish_reason 'length', at which arguments are cut off."
        )

    return arguments


class CutArguments(dict[str, Any]):
    """
    What a whole response has of arguments that were cut off; a stream has their *text*.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


def _is_cut(message: AssistantMessage, piece: AnswerPiece) -> bool:
    """Whether *message* reached the limit of tokens within a call, *piece*."""
    if _reason_of(message, "", {}) != "length" or not piece.call.arguments:
        return False

    try:
        json.loads(piece.call.arguments)
    except (ValueError, RecursionError):
        return True

    return False


def tokens_of(message: AssistantMessage, body: Json) -> Usage:
    """The tokens that *message* says, or a fourth of the characters."""
    if message.response is not None and message.response.usage is not None:
        return message.response.usage

    answered = len(message.text) + sum(
        len(call.name) + len(call.arguments) for call in message.tool_calls
    )
    return Usage(len(json.dumps(body)) // 4, -(-answered // 4))


def _model_of(message: AssistantMessage, body: Json) -> str:
    """The model that answers: the one that *message* says, or that was asked for."""
    response = message.response
    return (response and response.model) or body.get("model", "strict")


def _reason_of(message: AssistantMessage, usual: str, words: Mapping[str, str]) -> str:
    """Why *message* ended, in *words*; *usual* if it does not say."""
    response = message.response
    reason = (response and response.finish_reason) or ""
    return words.get(reason, reason) or usual


def _id_of(message: AssistantMessage, prefix: str, numbers: Numbers) -> str:
    """The id of the response, or a new one."""
    response = message.response
    return (response and response.id) or numbers.id(prefix)


# Chat Completions


def _write_chat(
    message: AssistantMessage, body: Json, numbers: Numbers
) -> dict[str, Any]:
    """The whole response."""
    written: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    calls = []
    for piece in pieces_of(message):
        if piece.kind == "text":
            written["content"] = (written["content"] or "") + piece.text
        elif piece.kind == "refusal":
            written["refusal"] = (written["refusal"] or "") + piece.text
        elif piece.kind == "reasoning":
            reasoning = written.get("reasoning_content", "")
            written["reasoning_content"] = reasoning + piece.text
        elif piece.kind == "call":
            function = {"name": piece.call.name, "arguments": piece.call.arguments}
            id_ = piece.call.id or numbers.call_id()
            calls.append({"id": id_, "type": "function", "function": function})
        else:
            written.update(piece.raw or {})

    if calls:
        written["tool_calls"] = calls
    elif written["content"] is None and written["refusal"] is None:
        written["content"] = ""

    usual = "tool_calls" if calls else "stop"
    return {
        "id": _id_of(message, "chatcmpl-", numbers),
        "object": "chat.completion",
        "created": _CREATED,
        "model": _model_of(message, body),
        "choices": [
            {
                "index": 0,
                "message": written,
                "logprobs": None,
                "finish_reason": _reason_of(message, usual, {}),
            }
        ],
        "usage": _chat_usage(tokens_of(message, body)),
    }


def _chat_usage(usage: Usage) -> dict[str, Any]:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": prompt.cached_tokens,
            "cache_write_tokens": usage.extra.get("cache_write_tokens", 0),
            "audio_tokens": prompt.audio_tokens,
        },
        "completion_tokens_details": {
            "reasoning_tokens": completion.reasoning_tokens,
            "audio_tokens": completion.audio_tokens,
            "accepted_prediction_tokens": completion.accepted_prediction_tokens,
            "rejected_prediction_tokens": completion.rejected_prediction_tokens,
        },
    }


# What a stream has of a message in pieces; the rest is in its first event.
_IN_PIECES = {"content", "refusal", "reasoning_content", "tool_calls"}


def _stream_chat(response: Json, body: Json, cut: Cut) -> Iterator[dict[str, Any]]:
    """The events of a stream that says *response*, a whole one."""
    head = {
        "id": response.get("id"),
        "object": "chat.completion.chunk",
        "created": response.get("created", _CREATED),
        "model": response.get("model"),
    }

    def chunk(delta: Json, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice]}

    for choice in response.get("choices") or ():
        message = choice["message"]
        rest = {key: message[key] for key in message if key not in _IN_PIECES}
        yield chunk({**rest, "role": "assistant", "content": "", "refusal": None})
        reasoning = message.get("reasoning_content")
        if reasoning is not None:
            for text in cut(reasoning) if reasoning else ("",):
                yield chunk({"reasoning_content": text})

        for text in cut(message.get("content") or ""):
            yield chunk({"content": text})

        for text in cut(message.get("refusal") or ""):
            yield chunk({"refusal": text})

        for at, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            first = {**call, "index": at, "function": {**function, "arguments": ""}}
            yield chunk({"tool_calls": [first]})
            for text in cut(function["arguments"]):
                part = {"index": at, "function": {"arguments": text}}
                yield chunk({"tool_calls": [part]})

        yield chunk({}, choice.get("finish_reason"))

    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": response.get("usage")}


# Responses


_INCOMPLETE = {
    "length": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "content_filter": "content_filter",
}


def _write_responses(
    message: AssistantMessage, body: Json, numbers: Numbers
) -> dict[str, Any]:
    """The whole response."""
    output: list[dict[str, Any]] = []
    for piece in pieces_of(message):
        if piece.kind in ("text", "refusal"):
            if not output or output[-1]["type"] != "message":
                output.append(
                    {
                        "id": numbers.id("msg_"),
                        "type": "message",
                        "status": "completed",
                        "role": "assistant",
                        "content": [],
                    }
                )

            output[-1]["content"].append(_content_part(piece))
        else:
            output.append(_output_item(piece, body, numbers))

    reason = _INCOMPLETE.get(_reason_of(message, "", {}))
    return {
        "id": _id_of(message, "resp_", numbers),
        "object": "response",
        "created_at": _CREATED,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": _model_of(message, body),
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": body.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _responses_usage(tokens_of(message, body)),
        "user": None,
        "metadata": {},
    }


def _content_part(piece: AnswerPiece) -> dict[str, Any]:
    if piece.kind == "refusal":
        return {"type": "refusal", "refusal": piece.text}

    return {
        "type": "output_text",
        "text": piece.text,
        "annotations": [],
        "logprobs": [],
    }


def _output_item(piece: AnswerPiece, body: Json, numbers: Numbers) -> dict[str, Any]:
    if piece.kind == "call":
        return {
            "id": numbers.id("fc_"),
            "type": "function_call",
            "status": "completed",
            "call_id": piece.call.id or numbers.call_id(),
            "name": piece.call.name,
            "arguments": piece.call.arguments,
        }

    if piece.kind == "raw":
        return dict(piece.raw or {})

    item: dict[str, Any] = {"id": numbers.id("rs_"), "type": "reasoning", "summary": []}
    if piece.text:
        item["summary"] = [{"type": "summary_text", "text": piece.text}]

    if "reasoning.encrypted_content" in (body.get("include") or ()):
        item["encrypted_content"] = piece.signature or numbers.id("gAAAA")

    return item


def _responses_usage(usage: Usage) -> dict[str, Any]:
    reasoning = usage.completion_tokens_details.reasoning_tokens
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.prompt_tokens_details.cached_tokens,
            "cache_write_tokens": usage.extra.get("cache_write_tokens", 0),
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": usage.total_tokens,
    }


def _stream_responses(response: Json, _: Json, cut: Cut) -> Iterator[dict[str, Any]]:
    """The events of a stream that says *response*, a whole one."""
    numbers = itertools.count()
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    end = "incomplete" if response.get("status") == "incomplete" else "completed"
    events = itertools.chain(
        (
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ),
        *(_item_events(at, item, cut) for at, item in enumerate(response["output"])),
        ({"type": f"response.{end}", "response": response},),
    )
    for event in events:
        yield {**event, "sequence_number": next(numbers)}


def _item_events(at: int, item: Json, cut: Cut) -> Iterator[dict[str, Any]]:
    empty = {"message": "content", "reasoning": "summary", "function_call": "arguments"}
    key = empty.get(item["type"])
    begun = dict(item)
    if key is not None:
        begun[key] = "" if key == "arguments" else []
        if "status" in begun:
            begun["status"] = "in_progress"

    yield {"type": "response.output_item.added", "output_index": at, "item": begun}
    place = {"item_id": item.get("id"), "output_index": at}
    if key == "content":
        for part_at, part in enumerate(item["content"]):
            yield from _part_events({**place, "content_index": part_at}, part, cut)
    elif key == "summary":
        for part_at, part in enumerate(item["summary"]):
            yield from _summary_events({**place, "summary_index": part_at}, part, cut)
    elif key == "arguments":
        name = "response.function_call_arguments"
        for text in cut(item["arguments"]):
            yield {"type": f"{name}.delta", **place, "delta": text}

        yield {"type": f"{name}.done", **place, "arguments": item["arguments"]}

    yield {"type": "response.output_item.done", "output_index": at, "item": item}


def _part_events(place: Json, part: Json, cut: Cut) -> Iterator[dict[str, Any]]:
    key = "refusal" if part["type"] == "refusal" else "text"
    name = "response.refusal" if key == "refusal" else "response.output_text"
    logprobs: dict[str, Any] = {} if key == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **place, "part": {**part, key: ""}}
    for text in cut(part[key]):
        yield {"type": f"{name}.delta", **place, "delta": text, **logprobs}

    yield {"type": f"{name}.done", **place, key: part[key], **logprobs}
    yield {"type": "response.content_part.done", **place, "part": part}


def _summary_events(place: Json, part: Json, cut: Cut) -> Iterator[dict[str, Any]]:
    name = "response.reasoning_summary"
    yield {"type": f"{name}_part.added", **place, "part": {**part, "text": ""}}
    for text in cut(part["text"]):
        yield {"type": f"{name}_text.delta", **place, "delta": text}

    yield {"type": f"{name}_text.done", **place, "text": part["text"]}
    yield {"type": f"{name}_part.done", **place, "part": part}


# Anthropic's Messages


def _write_anthropic(
    message: AssistantMessage, body: Json, numbers: Numbers
) -> dict[str, Any]:
    """
    The whole response.

    Source:
        anthropics/claude-code#1236, mezmo/aura#591: at the limit of tokens a response
        has the arguments that were complete, and a stream ends inside of the JSON.
    """
    content = [_content_block(message, piece, numbers) for piece in pieces_of(message)]
    usual = "tool_use" if message.tool_calls else "end_turn"
    return {
        "id": _id_of(message, "msg_", numbers),
        "type": "message",
        "role": "assistant",
        "model": _model_of(message, body),
        "content": content,
        "stop_reason": _reason_of(message, usual, _ANTHROPIC_REASONS),
        "stop_sequence": None,
        "usage": _anthropic_usage(tokens_of(message, body)),
    }


def _content_block(
    message: AssistantMessage, piece: AnswerPiece, numbers: Numbers
) -> dict[str, Any]:
    call = piece.call
    if piece.kind == "call":
        is_cut = _is_cut(message, piece)
        return {
            "type": "tool_use",
            "id": call.id or numbers.call_id(),
            "name": call.name,
            "input": CutArguments(call.arguments) if is_cut else arguments_of(call),
        }

    if piece.kind == "reasoning":
        signature = piece.signature or numbers.id("EqRkCkYIBxgCKkBz")
        return {"type": "thinking", "thinking": piece.text, "signature": signature}

    if piece.kind == "raw":
        return dict(piece.raw or {})

    return {"type": "text", "text": piece.text}


def _anthropic_usage(usage: Usage) -> dict[str, Any]:
    read = usage.prompt_tokens_details.cached_tokens
    written = usage.extra.get("cache_write_tokens", 0)
    return {
        "input_tokens": max(usage.prompt_tokens - read - written, 0),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.completion_tokens,
    }


def _stream_anthropic(response: Json, _: Json, cut: Cut) -> Iterator[dict[str, Any]]:
    """The events of a stream that says *response*, a whole one."""
    usage = response.get("usage") or {}
    begun = {**response, "content": [], "stop_reason": None}
    begun["usage"] = {**usage, "output_tokens": min(usage.get("output_tokens", 0), 1)}
    yield {"type": "message_start", "message": begun}
    for at, block in enumerate(response["content"]):
        start, deltas = _begin_block(block, cut)
        yield {"type": "content_block_start", "index": at, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}

        yield {"type": "content_block_stop", "index": at}

    stop = {key: response.get(key) for key in ("stop_reason", "stop_sequence")}
    output = {"output_tokens": usage.get("output_tokens", 0)}
    yield {"type": "message_delta", "delta": stop, "usage": output}
    yield {"type": "message_stop"}


def _begin_block(block: Json, cut: Cut) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind = block["type"]
    if kind == "text":
        deltas = [{"type": "text_delta", "text": text} for text in cut(block["text"])]
        return {**block, "text": ""}, deltas

    if kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": text}
            for text in cut(block["thinking"])
        ]
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, signed]

    if kind in ("tool_use", "server_tool_use"):
        given = block["input"]
        is_cut = isinstance(given, CutArguments)
        written = given.text if is_cut else json.dumps(given)
        deltas = [
            {"type": "input_json_delta", "partial_json": text}
            for text in ("", *cut(written))
        ]
        return {**block, "input": {}}, deltas

    return dict(block), []


# Gemini's ``generateContent``


def _write_gemini(
    message: AssistantMessage, body: Json, numbers: Numbers
) -> dict[str, Any]:
    """
    The whole response.

    A signature stands at the part after the thought that it signs. A Gemini 3 signs
    the first call of an answer. A call comes whole, or not at all where the limit of
    tokens cut it off.
    """
    parts: list[dict[str, Any]] = []
    signature = ""
    for piece in itertools.filterfalse(partial(_is_cut, message), pieces_of(message)):
        if piece.kind == "reasoning":
            if piece.text:
                parts.append({"text": piece.text, "thought": True})

            signature = piece.signature
            continue

        if piece.kind == "call":
            call = {"name": piece.call.name, "args": arguments_of(piece.call)}
            if piece.call.id:
                call["id"] = piece.call.id

            part: dict[str, Any] = {"functionCall": call}
        else:
            part = (
                dict(piece.raw or {}) if piece.kind == "raw" else {"text": piece.text}
            )

        if signature:
            part["thoughtSignature"] = signature
            signature = ""

        parts.append(part)

    if "gemini-3" in str(body.get("model", "")):
        first = next((part for part in parts if "functionCall" in part), {})
        if first:
            # With the number 20 characters: Google's client reads Base64.
            first.setdefault("thoughtSignature", numbers.id("Cr4FAXLI2nz"))

    if signature:
        parts.append({"text": "", "thoughtSignature": signature})

    candidate = {
        "content": {"parts": parts, "role": "model"},
        "finishReason": _reason_of(message, "STOP", _GEMINI_REASONS),
        "index": 0,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": _gemini_usage(tokens_of(message, body)),
        "modelVersion": _model_of(message, body),
        "responseId": _id_of(message, "response", numbers),
    }


def _gemini_usage(usage: Usage) -> dict[str, Any]:
    thoughts = usage.completion_tokens_details.reasoning_tokens
    written = {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.completion_tokens - thoughts,
        "totalTokenCount": usage.total_tokens,
    }
    if thoughts:
        written["thoughtsTokenCount"] = thoughts

    if usage.prompt_tokens_details.cached_tokens:
        written["cachedContentTokenCount"] = usage.prompt_tokens_details.cached_tokens

    return written


def _stream_gemini(response: Json, _: Json, cut: Cut) -> Iterator[dict[str, Any]]:
    """The events of a stream that says *response*, a whole one."""
    candidate = (response.get("candidates") or [{}])[0]
    events = [
        {"content": {"parts": [part], "role": "model"}, "index": 0}
        for whole in (candidate.get("content") or {}).get("parts") or ()
        for part in _split_part(whole, cut)
    ]
    if not events:
        events = [{"index": 0}]

    events[-1]["finishReason"] = candidate.get("finishReason", "STOP")
    usage = response.get("usageMetadata") or {}
    for at, event in enumerate(events, 1):
        counted = usage
        if at < len(events):
            prompt = usage.get("promptTokenCount", 0)
            counted = {"promptTokenCount": prompt, "totalTokenCount": prompt}

        yield {**response, "candidates": [event], "usageMetadata": counted}


def _split_part(part: Json, cut: Cut) -> Iterator[dict[str, Any]]:
    text = part.get("text")
    if not text:
        yield dict(part)
        return

    texts = list(cut(text))
    rest = {key: value for key, value in part.items() if key != "thoughtSignature"}
    for piece in texts[:-1]:
        yield {**rest, "text": piece}

    yield {**part, "text": texts[-1]}


_WRITERS: Mapping[str, Callable[[AssistantMessage, Json, Numbers], dict[str, Any]]] = {
    "openai_chat": _write_chat,
    "openai_responses": _write_responses,
    "anthropic": _write_anthropic,
    "gemini": _write_gemini,
}
_STREAMS: Mapping[str, Callable[[Json, Json, Cut], Iterator[dict[str, Any]]]] = {
    "openai_chat": _stream_chat,
    "openai_responses": _stream_responses,
    "anthropic": _stream_anthropic,
    "gemini": _stream_gemini,
}
_ERRORS: Mapping[str, Json] = {
    "openai_chat": {
        "error": {"message": "The server had an error", "type": "server_error"}
    },
    "anthropic": {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    },
    "gemini": {
        "error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}
    },
}
