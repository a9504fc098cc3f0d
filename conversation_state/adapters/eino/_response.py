"""
What eino keeps about a response: ``response_meta``.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from conversation_state.adapters._usage import Counted, read_usage_block, split_counts
from conversation_state.messages import LogProb, ResponseMeta
from conversation_state.usage import Usage

_KEY = "response_meta"
_RESPONSE = frozenset({"finish_reason", "logprobs", "usage"})
_PROMPT, _COMPLETION = "prompt_token_details", "completion_token_details"
_DETAILS = {_PROMPT: "cached_tokens", _COMPLETION: "reasoning_tokens"}
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
# Integers that a float holds exactly, and that Go writes as integers.
_EXACT = 2**53


def read_response(message: ObjectReader) -> ResponseMeta | None:
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
        path = f"{node.path}.usage"
        usage, left = read_usage_block(node.reading, given["usage"], path, read_counts)
        if left:
            node.keys["usage"] = left
    elif "usage" in given:
        node.keys["usage"] = None

    logprobs = _read_logprobs(node, message)
    if node.keys:
        message.keys[_KEY] = node.keys

    return ResponseMeta(reason, usage, logprobs)


def read_counts(read: DocumentReader, raw: Mapping[Any, Any], path: str) -> Counted:
    """
    The counts of *raw*, the usage at *path*; and what else it has.
    """
    counts, others, left = split_counts(read, raw, COUNTS, path)
    # Unknown counts stay where they are: as categories of `Usage.extra` they could not
    # go back, because eino's usage has no field for these.
    left |= others
    block = ObjectReader(read, raw, path)
    details: list[dict[str, int]] = []
    for key, name in _DETAILS.items():
        left.pop(key, None)
        inside = block.inside(key)
        within = {} if inside is None else inside.raw
        found, others, rest = split_counts(read, within, (name,), f"{path}.{key}")
        details.append(found)
        if rest or others:
            left[key] = rest | others

    prompt, completion = (
        counts.get("prompt_tokens", 0),
        counts.get("completion_tokens", 0),
    )
    return (prompt, completion, counts.get("total_tokens")), details, {}, left


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
    # What is odd may be in any of the tokens, so all of them are noted. The note is
    # written back only while the log-probs are equal.
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


def _with_defaults(raw: Any, *, top: bool = True) -> Any:
    """
    *raw*, how likely a token was, with what Go leaves out; and without
    bytes that are out of range: they are any integers there.
    """
    if not is_map(raw):
        return raw

    whole: dict[str, Any] = {"logprob": 0, **raw}
    octets, others = whole.get("bytes"), whole.get("top_logprobs")
    if is_list(octets) and not all(is_octet(one) for one in octets):
        whole["bytes"] = None

    # One level, as eino has it. What is below is not read, and may be nested deep.
    if top and is_list(others):
        whole["top_logprobs"] = [_with_defaults(one, top=False) for one in others]

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
    # A list that was never made is null in Go. One that was made and is empty is [],
    # which differs from this and is noted when it is loaded.
    return {"content": [_write_logprob(one) for one in logprobs] or None}


def _write_logprob(one: LogProb, *, top: bool = True) -> dict[str, Any]:
    chance: float = one.logprob
    # Go writes whole numbers without ".0"; -0.0 would lose its sign as an integer.
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
    # Notes are metadata, which users may have changed: one that is invalid is ignored.
    read = DocumentReader()
    found = _read_tokens(ObjectReader(read, EMPTY_MAP, "$"), noted)
    return not read.count and found == logprobs
