"""
What eino keeps about a response: ``response_meta``.
"""

from __future__ import annotations

from typing import Any

from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.adapters._export import PayloadWriter
from conversation_state.adapters._openai import is_octet, read_logprob_list
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
)
from conversation_state.adapters._usage import read_count
from conversation_state.messages import LogProb, ResponseMeta
from conversation_state.usage import CompletionTokensDetails, PromptTokensDetails, Usage

__all__ = ["read_response", "read_usage", "write_response"]

_KEY = "response_meta"
_RESPONSE = frozenset({"finish_reason", "logprobs", "usage"})
_PROMPT, _COMPLETION = "prompt_token_details", "completion_token_details"
_USAGE = frozenset(
    {"completion_tokens", "prompt_tokens", "total_tokens", _PROMPT, _COMPLETION}
)
# Integers that a float holds exactly, and that Go writes as integers.
_EXACT = 2**53


def read_response(message: ObjectReader) -> ResponseMeta | None:
    """
    The response metadata of *message*, or None.
    """
    node = message.inside(_KEY)
    if node is None:
        if _KEY in message.raw:
            message.keys[_KEY] = None

        return None

    given = node.raw
    node.keep(_RESPONSE)
    reason = node.optional("finish_reason")
    usage = None
    if given.get("usage") is not None:
        usage, left = read_usage(node, "usage")
        if left:
            node.keys["usage"] = left
    elif "usage" in given:
        node.keys["usage"] = None

    logprobs = _read_logprobs(node, message)
    if node.keys:
        message.keys[_KEY] = node.keys

    return ResponseMeta(reason, usage, logprobs)


def read_usage(node: ObjectReader, key: str) -> tuple[Usage | None, dict[str, Any]]:
    """
    The usage under *key*, None if there was a problem; and what else it has.
    """
    read, raw = node.reading, node.raw[key]
    path = f"{node.path}.{key}" if key else node.path
    if not is_map(raw):
        node.wrong(key, "an object or null")
        return None, {}

    problems = read.count
    block = ObjectReader(read, raw, path)
    block.keep(_USAGE)
    within = _read_details(block, _PROMPT, "cached_tokens")
    written = _read_details(block, _COMPLETION, "reasoning_tokens")
    prompt = read_count(block, "prompt_tokens")
    completion = read_count(block, "completion_tokens")
    total = read_count(block, "total_tokens")
    if read.count > problems:
        return None, {}

    usage = Usage(
        prompt,
        completion,
        total,
        PromptTokensDetails(cached_tokens=within),
        CompletionTokensDetails(reasoning_tokens=written),
    )
    return usage, block.keys


def _read_details(block: ObjectReader, key: str, name: str) -> int:
    inside = block.inside(key)
    if inside is None:
        return 0

    block.keep_within(key, inside, frozenset({name}))
    return read_count(inside, name)


def _read_logprobs(
    node: ObjectReader, message: ObjectReader
) -> tuple[LogProb, ...] | None:
    """
    How likely the tokens were. What no `LogProb` holds is noted on *message*.
    """
    given = node.raw.get("logprobs")
    if given is None:
        if "logprobs" in node.raw:
            node.keys["logprobs"] = None

        return None

    problems = node.reading.count
    logprobs = _read_tokens(node, given)
    if node.reading.count == problems and _write_logprobs(logprobs) != given:
        path = f"{node.path}.logprobs"
        message.notes["logprobs"] = node.reading.json(given, path)

    return logprobs


def _read_tokens(node: ObjectReader, given: Any) -> tuple[LogProb, ...]:
    if not is_map(given):
        node.wrong("logprobs", "an object or null")
        return ()

    inside = ObjectReader(node.reading, given, f"{node.path}.logprobs")
    content = given.get("content")
    if content is not None and not is_list(content):
        inside.wrong("content", "a list or null")
        return ()

    tokens = [_with_defaults(one) for one in content or ()]
    return read_logprob_list(node.reading, tokens, f"{inside.path}.content")


def _with_defaults(raw: Any) -> Any:
    """
    *raw*, how likely a token was, with what Go leaves out; and without
    bytes that are out of range: they are any integers there.
    """
    if not is_map(raw):
        return raw

    whole: dict[str, Any] = {"logprob": 0, **raw}
    octets, top = whole.get("bytes"), whole.get("top_logprobs")
    if is_list(octets) and not all(is_octet(one) for one in octets):
        whole["bytes"] = None

    if is_list(top):
        whole["top_logprobs"] = [_with_defaults(one) for one in top]

    return whole


def write_response(
    write: PayloadWriter, response: ResponseMeta, path: str, noted: Any
) -> dict[str, Any]:
    """
    *response* as eino keeps it; of its log-probs what was *noted*, if it means
    the same still.
    """
    newer = dict.fromkeys(sorted(response.unknown), True)
    others = {"id": bool(response.id), "model": bool(response.model), **newer}
    write.lose_each(path, others, "response_meta has no field for it")
    raw: dict[str, Any] = {}
    if response.finish_reason:
        raw["finish_reason"] = response.finish_reason

    if response.usage is not None:
        raw["usage"] = _write_usage(write, response.usage, f"{path}.usage")

    if response.logprobs is not None:
        raw["logprobs"] = _write_logprobs(response.logprobs)
        if noted is not None and _reads_as(noted, response.logprobs):
            raw["logprobs"] = thaw(noted)

    return raw


def _write_usage(write: PayloadWriter, usage: Usage, path: str) -> dict[str, Any]:
    prompt, written = usage.prompt_tokens_details, usage.completion_tokens_details
    others = {
        "prompt audio_tokens": prompt.audio_tokens,
        "accepted_prediction_tokens": written.accepted_prediction_tokens,
        "completion audio_tokens": written.audio_tokens,
        "rejected_prediction_tokens": written.rejected_prediction_tokens,
        **{name: usage.extra[name] for name in sorted(usage.extra)},
    }
    why = "eino has no separate count for it"
    write.lose_each(path, {name: count > 0 for name, count in others.items()}, why)
    reasoning = written.reasoning_tokens
    return {
        "prompt_tokens": usage.prompt_tokens,
        _PROMPT: {"cached_tokens": prompt.cached_tokens},
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        _COMPLETION: {"reasoning_tokens": reasoning} if reasoning else {},
    }


def _write_logprobs(logprobs: tuple[LogProb, ...]) -> dict[str, Any]:
    # No list at all is null in Go.
    return {"content": [_write_logprob(one) for one in logprobs] or None}


def _write_logprob(one: LogProb, *, top: bool = True) -> dict[str, Any]:
    chance: float = one.logprob
    if chance.is_integer() and abs(chance) <= _EXACT and str(chance) != "-0.0":
        chance = int(chance)

    raw: dict[str, Any] = {"token": one.token, "logprob": chance}
    if one.bytes is not None:
        raw["bytes"] = [*one.bytes]

    if top:
        raw["top_logprobs"] = [
            _write_logprob(other, top=False) for other in one.top
        ] or None

    return raw


def _reads_as(noted: Any, logprobs: tuple[LogProb, ...]) -> bool:
    read = DocumentReader()
    found = _read_tokens(ObjectReader(read, EMPTY_MAP, "$"), noted)
    return not read.count and found == logprobs
