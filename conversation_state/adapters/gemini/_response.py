"""
What a response tells beside its message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import isfinite
from typing import Any, NamedTuple

from conversation_state.adapters._reading import Reading, is_list, is_map
from conversation_state.adapters.gemini._usage import find_usage, read_usage
from conversation_state.adapters.gemini._words import Spelt, is_said, snake
from conversation_state.messages import LogProb, ResponseMeta

__all__ = [
    "CANDIDATE",
    "RESPONSE",
    "Told",
    "blocked",
    "is_response",
    "prefix_of",
    "read_logprobs",
    "read_response",
]

RESPONSE = frozenset(
    {
        "candidates",
        "error",
        "modelVersion",
        "model_version",
        "usageMetadata",
        "usage_metadata",
    }
)
CANDIDATE = frozenset(
    {
        "content",
        "finishReason",
        "finish_reason",
        "logprobsResult",
        "logprobs_result",
    }
)
_NOTHING = LogProb("", 0.0)


class Told(NamedTuple):
    """
    A message of a response, and what is told about it.
    """

    raw: Any
    path: str
    prefix: str
    meta: ResponseMeta
    notes: dict[str, Any]


def is_response(payload: Mapping[str, Any]) -> bool:
    """
    Whether *payload* is a response: some have no candidates.
    """
    keys = ("candidates", "promptFeedback", "usageMetadata")
    return "candidates" in payload or any(is_said(payload, key) for key in keys)


def read_response(read: Reading, payload: Mapping[str, Any]) -> list[Told]:
    """
    What *payload*, a response, tells.
    """
    place = Spelt(read, payload, "$")
    given = payload.get("candidates")
    if given is not None and not is_list(given):
        place.wrong("candidates", "a list of candidates")
        return []

    usage = None
    notes = read.rest(payload, RESPONSE, "$")
    block, where = find_usage(payload)
    if block is not None:
        usage, left = read_usage(read, block, where)
        if left:
            notes["usage"] = left

    model = place.optional(place.key("modelVersion"))
    prefix = prefix_of(notes)
    candidates: Sequence[Any] = given or ()
    if not candidates:
        meta = ResponseMeta(blocked(place), usage, None, model)
        return [Told({}, "$", prefix, meta, {"response": notes})]

    told: list[Told] = []
    for at, raw in enumerate(candidates):
        path = f"$.candidates[{at}]"
        if not is_map(raw):
            read.wrong(path, raw, "an object")
            continue

        here = Spelt(read, raw, path)
        reason = here.optional(here.key("finishReason"))
        kept = read.rest(raw, CANDIDATE, path)
        # Where it stands is what its index says, nearly always.
        if kept.get("index") == at and kept["index"].__class__ is int:
            del kept["index"]

        logprobs = read_logprobs(here, kept)
        meta = ResponseMeta(reason, None if at else usage, logprobs, model)
        content = raw.get("content")
        told.append(
            Told(
                {} if content is None else content,
                f"{path}.content",
                f"{prefix}_{at}" if at else prefix,
                meta,
                {"response": notes, **({"candidate": kept} if kept else {})},
            )
        )

    return told


def prefix_of(notes: Mapping[str, Any]) -> str:
    """
    What ids that are made up begin with.
    """
    name = notes.get("responseId") or notes.get("response_id")
    return name if isinstance(name, str) else "response"


def blocked(response: Spelt) -> str:
    """
    Why the prompt was blocked, "" if it was not.
    """
    said = response.key("promptFeedback")
    feedback = response.raw.get(said)
    if not is_map(feedback):
        return ""

    place = Spelt(response.reading, feedback, f"{response.path}.{said}")
    for key in ("blockReason", "block_reason"):
        if feedback.get(key) is not None:
            return place.text(key)

    return ""


def read_logprobs(candidate: Spelt, kept: dict[str, Any]) -> tuple[LogProb, ...] | None:
    """
    How likely the tokens were; the original goes into *kept* if it tells more.
    """
    key = candidate.key("logprobsResult")
    given = candidate.raw.get(key)
    if given is None:
        return None

    problems = candidate.reading.count
    place = candidate.inside(key)
    chosen = _list(place, "chosenCandidates")
    tops = _list(place, "topCandidates")
    told: list[LogProb] = []
    likeliest: Any
    for at, (one, top) in enumerate(zip_longest(chosen, tops)):
        path = f"{place.path}.chosenCandidates[{at}]"
        likeliest = ()
        if is_map(top):
            here = Spelt(candidate.reading, top, f"{place.path}.topCandidates[{at}]")
            likeliest = [
                _logprob(candidate.reading, other, f"{here.path}.candidates[{i}]")
                for i, other in enumerate(_list(here, "candidates"))
            ]
        elif top is not None:
            candidate.reading.wrong(
                f"{place.path}.topCandidates[{at}]", top, "an object"
            )

        if at < len(chosen):
            found = _logprob(candidate.reading, one, path)
            told.append(LogProb(found.token, found.logprob, None, tuple(likeliest)))

    if candidate.reading.count == problems:
        kept[key] = candidate.reading.json(given, place.path)

    return tuple(told)


def _list(place: Spelt, name: str) -> Sequence[Any]:
    for key in dict.fromkeys((name, snake(name))):
        found = place.raw.get(key)
        if is_list(found):
            return found

        if found is not None:
            place.wrong(key, "a list or null")

    return ()


def _logprob(read: Reading, raw: Any, path: str) -> LogProb:
    if not is_map(raw):
        read.wrong(path, raw, "an object")
        return _NOTHING

    place = Spelt(read, raw, path)
    # What is 0, or empty, is left out by some of Google's servers.
    token = place.text("token") if raw.get("token") is not None else ""
    for key in ("logProbability", "log_probability"):
        value: Any = raw.get(key)
        if value.__class__ is int and abs(value) < 2**63:
            return LogProb(token, float(value))

        if isinstance(value, float) and isfinite(value):
            return LogProb(token, value)

        if value is not None:
            place.wrong(key, "a finite number")

    return LogProb(token, 0.0)
