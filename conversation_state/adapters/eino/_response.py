"""
What eino keeps about a response: ``response_meta``.
"""

from __future__ import annotations

from typing import Any

from conversation_state._persistent import EMPTY_MAP, thaw
from conversation_state.adapters._export import PayloadWriter
from conversation_state.adapters._extras import lose_each
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
)
from conversation_state.errors import InvalidMessageError
from conversation_state.messages import LogProb, ResponseMeta
from conversation_state.usage import (
    CompletionTokensDetails,
    PromptTokensDetails,
    Usage,
)

__all__ = ["read_response", "read_usage", "write_response"]

_KEY = "response_meta"
_RESPONSE = frozenset({"finish_reason", "logprobs", "usage"})
_PROMPT, _COMPLETION = "prompt_token_details", "completion_token_details"
_USAGE = frozenset(
    {"completion_tokens", "prompt_tokens", "total_tokens", _PROMPT, _COMPLETION}
)
_MOST = 2**63 - 1
# Integers that a float holds exactly, and that Go writes as integers.
_EXACT = 2**53
_NO_USAGE = Usage()


def read_response(message: ObjectReader) -> ResponseMeta | None:
    """
    The response metadata of *message*; None if there is none.
    """
    given = message.raw.get(_KEY)
    if given is None:
        if _KEY in message.raw:
            message.keys[_KEY] = None

        return None

    if not is_map(given):
        message.wrong(_KEY, "an object or null")
        return None

    place = ObjectReader(message.reading, given, f"{message.path}.{_KEY}")
    place.keep(_RESPONSE)
    reason = place.optional("finish_reason")
    usage = None
    if given.get("usage") is not None:
        usage, left = read_usage(place, "usage")
        if left:
            place.keys["usage"] = left
    elif "usage" in given:
        place.keys["usage"] = None

    logprobs = _read_logprobs(place, message)
    if place.keys:
        message.keys[_KEY] = place.keys

    return ResponseMeta(reason, usage, logprobs)


def read_usage(place: ObjectReader, key: str) -> tuple[Usage | None, dict[str, Any]]:
    """
    The usage under *key*, None if there was a problem; and what else it has.
    """
    read, raw = place.reading, place.raw[key]
    path = f"{place.path}.{key}" if key else place.path
    if not is_map(raw):
        place.wrong(key, "an object or null")
        return None, {}

    problems = read.count
    block = ObjectReader(read, raw, path)
    block.keep(_USAGE)
    within = _read_details(block, _PROMPT, "cached_tokens")
    written = _read_details(block, _COMPLETION, "reasoning_tokens")
    prompt = _read_count(block, "prompt_tokens")
    completion = _read_count(block, "completion_tokens")
    total = _read_count(block, "total_tokens")
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
    given = block.raw.get(key)
    if given is None:
        return 0

    if not is_map(given):
        block.wrong(key, "an object or null")
        return 0

    inside = ObjectReader(block.reading, given, f"{block.path}.{key}")
    inside.keep(frozenset({name}))
    if inside.keys:
        block.keys[key] = inside.keys

    return _read_count(inside, name)


def _read_count(place: ObjectReader, key: str) -> int:
    given = place.raw.get(key)
    if given is None:
        return 0

    if given.__class__ is not int or not 0 <= given <= _MOST:
        place.wrong(key, "an integer from 0 to 2**63 - 1")
        return 0

    return int(given)


def _read_logprobs(
    place: ObjectReader, message: ObjectReader
) -> tuple[LogProb, ...] | None:
    """
    How likely the tokens were. What no `LogProb` holds is noted on *message*.
    """
    given = place.raw.get("logprobs")
    if given is None:
        if "logprobs" in place.raw:
            place.keys["logprobs"] = None

        return None

    problems = place.reading.count
    logprobs = _read_logprob_list(place, given)
    if place.reading.count == problems and _write_logprobs(logprobs) != given:
        path = f"{place.path}.logprobs"
        message.notes["logprobs"] = place.reading.json(given, path)

    return logprobs


def _read_logprob_list(place: ObjectReader, given: Any) -> tuple[LogProb, ...]:
    if not is_map(given):
        place.wrong("logprobs", "an object or null")
        return ()

    inside = ObjectReader(place.reading, given, f"{place.path}.logprobs")
    content = given.get("content")
    if content is not None and not is_list(content):
        inside.wrong("content", "a list or null")
        return ()

    path = f"{inside.path}.content"
    found = [
        _read_logprob(place.reading, one, f"{path}[{at}]")
        for at, one in enumerate(content or ())
    ]
    return tuple([one for one in found if one is not None])


def _read_logprob(
    read: DocumentReader, raw: Any, path: str, *, top: bool = True
) -> LogProb | None:
    if not is_map(raw):
        read.wrong(path, raw, "an object")
        return None

    place = ObjectReader(read, raw, path)
    problems = read.count
    token = place.text("token")
    chance = raw.get("logprob", 0)
    if chance.__class__ not in {int, float}:
        place.wrong("logprob", "a finite number")

    given_bytes, octets = raw.get("bytes"), None
    if is_list(given_bytes):
        # Integers in Go, of which any is as good as another there.
        if all(one.__class__ is int and one in range(256) for one in given_bytes):
            octets = bytes(given_bytes)
    elif given_bytes is not None:
        place.wrong("bytes", "a list of integers, or null")

    others: list[LogProb | None] = []
    likeliest = raw.get("top_logprobs") if top else None
    if is_list(likeliest):
        others = [
            _read_logprob(read, one, f"{path}.top_logprobs[{at}]", top=False)
            for at, one in enumerate(likeliest)
        ]
    elif likeliest is not None:
        place.wrong("top_logprobs", "a list or null")

    if read.count > problems:
        return None

    likely = tuple([one for one in others if one is not None])
    try:
        return LogProb(token, chance, octets, likely)
    except (InvalidMessageError, OverflowError):
        place.wrong("logprob", "a finite number")
        return None


def write_response(
    write: PayloadWriter, response: ResponseMeta, path: str, noted: Any
) -> dict[str, Any]:
    """
    *response* as eino keeps it; of its log-probs what was *noted*, if it means
    the same still.
    """
    newer = dict.fromkeys(sorted(response.unknown), True)
    others = {"id": bool(response.id), "model": bool(response.model), **newer}
    lose_each(write, path, others, "response_meta has no field for it")
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
    lose_each(write, path, {name: count > 0 for name, count in others.items()}, why)
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
    found = _read_logprob_list(ObjectReader(read, EMPTY_MAP, "$"), noted)
    return not read.count and found == logprobs
