"""
The metadata of a response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import isfinite
from typing import Any, NamedTuple

from conversation_state.adapters._reading import (
    DocumentReader,
    is_list,
    is_map,
    take_text,
)
from conversation_state.adapters.gemini._fields import CasedObject, is_said, snake_case
from conversation_state.adapters.gemini._usage import find_usage, read_usage
from conversation_state.messages import LogProb, ResponseMeta

__all__ = [
    "CANDIDATE",
    "RESPONSE",
    "CandidateInfo",
    "is_response",
    "read_block_reason",
    "read_logprobs",
    "read_response",
    "take_id",
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


class CandidateInfo(NamedTuple):
    """
    A message of a response, and its metadata.
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


def read_response(
    read: DocumentReader, payload: Mapping[str, Any]
) -> list[CandidateInfo]:
    """
    The candidates of *payload*, a response, and their metadata.
    """
    place = CasedObject(read, payload, "$")
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
    response_id = take_id(notes)
    prefix = response_id or "response"
    candidates: Sequence[Any] = given or ()
    if not candidates:
        meta = ResponseMeta(read_block_reason(place), usage, None, model, response_id)
        return [
            CandidateInfo({}, "$", prefix, meta, _without_empty({"response": notes}))
        ]

    results: list[CandidateInfo] = []
    for at, raw in enumerate(candidates):
        path = f"$.candidates[{at}]"
        if not is_map(raw):
            read.wrong(path, raw, "an object")
            continue

        here = CasedObject(read, raw, path)
        reason = here.optional(here.key("finishReason"))
        kept = read.rest(raw, CANDIDATE, path)
        # Its index is its position, nearly always.
        if kept.get("index") == at and kept["index"].__class__ is int:
            del kept["index"]

        logprobs = read_logprobs(here, kept)
        meta = ResponseMeta(reason, None if at else usage, logprobs, model, response_id)
        content = raw.get("content")
        results.append(
            CandidateInfo(
                {} if content is None else content,
                f"{path}.content",
                f"{prefix}_{at}" if at else prefix,
                meta,
                _without_empty({"response": notes, "candidate": kept}),
            )
        )

    return results


def _without_empty(notes: dict[str, Any]) -> dict[str, Any]:
    return {name: note for name, note in notes.items() if note}


def take_id(notes: dict[str, Any]) -> str:
    """
    The id of a response, taken out of its *notes*; "" if missing.
    """
    return take_text(notes, "responseId") or take_text(notes, "response_id")


def read_block_reason(response: CasedObject) -> str:
    """
    Why the prompt was blocked, "" if it was not.
    """
    name = response.key("promptFeedback")
    feedback = response.raw.get(name)
    if not is_map(feedback):
        return ""

    place = CasedObject(response.reading, feedback, f"{response.path}.{name}")
    for key in ("blockReason", "block_reason"):
        if feedback.get(key) is not None:
            return place.text(key)

    return ""


def read_logprobs(
    candidate: CasedObject, kept: dict[str, Any]
) -> tuple[LogProb, ...] | None:
    """
    How likely the tokens were; the original goes into *kept* if it has more.
    """
    key = candidate.key("logprobsResult")
    given = candidate.raw.get(key)
    if given is None:
        return None

    problems = candidate.reading.count
    place = candidate.inside(key)
    chosen = _get_list(place, "chosenCandidates")
    tops = _get_list(place, "topCandidates")
    results: list[LogProb] = []
    likeliest: Any
    for at, (one, top) in enumerate(zip_longest(chosen, tops)):
        path = f"{place.path}.chosenCandidates[{at}]"
        likeliest = ()
        if is_map(top):
            here = CasedObject(
                candidate.reading, top, f"{place.path}.topCandidates[{at}]"
            )
            likeliest = [
                _read_logprob(candidate.reading, other, f"{here.path}.candidates[{i}]")
                for i, other in enumerate(_get_list(here, "candidates"))
            ]
        elif top is not None:
            candidate.reading.wrong(
                f"{place.path}.topCandidates[{at}]", top, "an object"
            )

        if at < len(chosen):
            found = _read_logprob(candidate.reading, one, path)
            results.append(LogProb(found.token, found.logprob, None, tuple(likeliest)))

    if candidate.reading.count == problems:
        kept[key] = candidate.reading.json(given, place.path)

    return tuple(results)


def _get_list(place: CasedObject, name: str) -> Sequence[Any]:
    for key in dict.fromkeys((name, snake_case(name))):
        found = place.raw.get(key)
        if is_list(found):
            return found

        if found is not None:
            place.wrong(key, "a list or null")

    return ()


def _read_logprob(read: DocumentReader, raw: Any, path: str) -> LogProb:
    if not is_map(raw):
        read.wrong(path, raw, "an object")
        return _NOTHING

    place = CasedObject(read, raw, path)
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
