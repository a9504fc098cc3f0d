"""The metadata of a response, and its usage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import isfinite
from typing import Any, NamedTuple

from conversation_state.adapters.engine.notes import without_empty
from conversation_state.adapters.engine.reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    is_map,
    mended,
    take_text,
)
from conversation_state.adapters.engine.usage import (
    Counted,
    Details,
    Totals,
    as_count,
    is_count,
    read_billed,
    usage_in,
)
from conversation_state.adapters.engine.wire import make_call_prefix
from conversation_state.adapters.gemini._parts import GeminiObject, in_camel_case
from conversation_state.messages import LogProb, ResponseMeta
from conversation_state.usage import Usage

RESPONSE = frozenset({"candidates", "error", "modelVersion", "usageMetadata"})
LOGPROBS = "logprobsResult"
_CANDIDATE = frozenset({"content", "finishReason", LOGPROBS})
_NOTHING = LogProb("", 0.0)


class ResponseChoice(NamedTuple):
    """One of the answers in a response: its message, and the metadata."""

    raw: Any
    path: str
    prefix: str
    meta: ResponseMeta
    notes: dict[str, Any]


def is_response(payload: Mapping[str, Any]) -> bool:
    """Whether *payload* is a response: some have no candidates."""
    return "candidates" in payload or any(
        payload.get(key) is not None for key in ("promptFeedback", "usageMetadata")
    )


def read_response(node: GeminiObject) -> list[ResponseChoice]:
    reader, given = node.reading, node.raw.get("candidates")
    if given is not None and not is_list(given):
        node.wrong("candidates", "a list of candidates")
        return []

    usage = None
    notes = reader.rest(node.raw, RESPONSE, "$")
    block, where = find_usage(node.raw)
    if block is not None:
        usage, left = read_billed(reader, block, where, read_gemini_counts)
        if left:
            notes["usage"] = left

    # Without candidates there is a message, too: a prompt that was blocked is billed.
    model, response_id = node.nullable("modelVersion"), take_text(notes, "responseId")
    if not given:
        meta = ResponseMeta(read_block_reason(node), usage, None, model, response_id)
        kept = without_empty({"response": notes})
        return [ResponseChoice({}, "$", response_id, meta, kept)]

    results: list[ResponseChoice] = []
    # What is not an object is refused, so each number is right.
    for at, candidate in enumerate(node.objects("candidates")):
        reason, logprobs, kept = read_candidate(candidate)
        # Its index is its position, nearly always.
        if kept.get("index") == at and kept["index"].__class__ is int:
            del kept["index"]

        content = candidate.raw.get("content")
        results.append(
            ResponseChoice(
                {} if content is None else content,
                f"{candidate.path}.content",
                make_call_prefix(response_id, at),
                ResponseMeta(
                    reason, None if at else usage, logprobs, model, response_id
                ),
                without_empty({"response": notes, "candidate": kept}),
            )
        )

    return results


def read_candidate(
    candidate: GeminiObject,
) -> tuple[str, tuple[LogProb, ...] | None, dict[str, Any]]:
    """The reason to finish, the log probabilities, and what no field of ours holds."""
    reason = candidate.nullable("finishReason")
    kept = candidate.reading.rest(candidate.raw, _CANDIDATE, candidate.path)
    return reason, _read_logprobs(candidate, kept), kept


def read_block_reason(response: GeminiObject) -> str:
    """Why the prompt was blocked, "" if it was not."""
    if not is_map(response.raw.get("promptFeedback")):
        return ""

    return response.child("promptFeedback").nullable("blockReason")


def _read_logprobs(
    candidate: GeminiObject, kept: dict[str, Any]
) -> tuple[LogProb, ...] | None:
    """How likely the tokens were; the original goes into *kept* if it has more."""
    given = candidate.raw.get(LOGPROBS)
    if given is None:
        return None

    reader = candidate.reading
    problems = reader.count
    node = candidate.body(LOGPROBS)
    chosen = _get_list(node, "chosenCandidates")
    results: list[LogProb] = []
    # More of the second list than of the first one is checked, too.
    for at, (one, top) in enumerate(
        zip_longest(chosen, _get_list(node, "topCandidates"))
    ):
        where = f"{node.path}.topCandidates[{at}]"
        likeliest: list[LogProb] = []
        if is_map(top):
            likeliest = [
                _read_logprob(reader, other, f"{where}.candidates[{number}]")
                for number, other in enumerate(
                    _get_list(GeminiObject(reader, top, where), "candidates")
                )
            ]
        elif top is not None:
            reader.wrong(where, top, "an object")

        if at < len(chosen):
            found = _read_logprob(reader, one, f"{node.path}.chosenCandidates[{at}]")
            results.append(LogProb(found.token, found.logprob, None, tuple(likeliest)))

    if reader.count == problems:
        kept[LOGPROBS] = reader.json(given, node.path)

    return tuple(results)


def _get_list(node: GeminiObject, name: str) -> Sequence[Any]:
    found = node.raw.get(name)
    if found is not None and not is_list(found):
        node.wrong(name, "a list or null")

    return found if is_list(found) else ()


def _read_logprob(reader: DocumentReader, raw: Any, path: str) -> LogProb:
    if not is_map(raw):
        reader.wrong(path, raw, "an object")
        return _NOTHING

    # There are as many as tokens, so both spellings are asked for here.
    node = ObjectReader(reader, raw, path)
    value: Any = raw.get("logProbability", raw.get("log_probability"))
    # What is 0, or empty, is left out by some of Google's servers.
    if value.__class__ is int and abs(value) < 2**63:
        value = float(value)

    if value is not None and not (isinstance(value, float) and isfinite(value)):
        node.wrong("logProbability", "a finite number")
        value = None

    return LogProb(node.nullable("token"), value or 0.0)


_CAPITAL = re.compile("[A-Z]")


def _snake_case(key: str) -> str:
    """
    *key* as the categories of `Usage.extra` are written.

    >>> _snake_case("promptTokenCount")
    'prompt_token_count'
    """
    return _CAPITAL.sub(lambda found: f"_{found[0].lower()}", key)


_CANDIDATES = ("candidates_token_count", "response_token_count")
_COUNTS = frozenset(
    {
        *_CANDIDATES,
        "cached_content_token_count",
        "prompt_token_count",
        "thoughts_token_count",
        "tool_use_prompt_token_count",
        "total_token_count",
    }
)

# The breakdowns by modality, and what the categories in them are called after.
_DETAILS = {
    "cache_tokens_details": "cached",
    "candidates_tokens_details": "completion",
    "prompt_tokens_details": "prompt",
    "response_tokens_details": "completion",
    "tool_use_prompt_tokens_details": "tool_use_prompt",
}
# The names of both in camel case, as nearly all responses have them.
_NAMES = {
    head + rest.title().replace("_", ""): f"{head}_{rest}"
    for head, _, rest in [name.partition("_") for name in (*_COUNTS, *_DETAILS)]
}


def load_usage(payload: Any) -> Usage | None:
    """
    What *payload*, a response, an event of a stream or a usage block, cost.

    The prompt is ``promptTokenCount``, of which ``cachedContentTokenCount`` is a part,
    and ``toolUsePromptTokenCount``: what Google's own tools found was read, too, and is
    also in `Usage.extra`, as ``tool_use_prompt_tokens``. The completion is
    ``candidatesTokenCount`` and ``thoughtsTokenCount``. Where the total says that one
    of these counts is in another already, it is not added.

    Tokens of audio have fields; those of other modalities are in `Usage.extra`,
    as ``prompt_image_tokens`` and the like. So are integers that have no field.

    Raises:
        DecodeError:
            If a count is invalid.

    Source:
        Google documents the total as the sum of prompt, candidates, tool use
        and thoughts, and in recorded traffic it is. Some of its models once
        had the thoughts in ``candidatesTokenCount``, which the total shows;
        its Live API says ``responseTokenCount``.

    >>> counts = {"promptTokenCount": 9, "candidatesTokenCount": 2}
    >>> load_usage({**counts, "thoughtsTokenCount": 5}).completion_tokens
    7
    """
    return usage_in(payload, find_usage, read_gemini_counts)


def find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    block = in_camel_case(payload).get("usageMetadata")
    if block is not None:
        return block, "$.usageMetadata"

    found = any(isinstance(key, str) and _snake_case(key) in _COUNTS for key in payload)
    return (payload if found else None), "$"


def read_gemini_counts(
    reader: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts: dict[str, int] = {}
    extra: dict[str, int] = {}
    left: dict[str, Any] = {}
    for key, value in block.items():
        name = _NAMES.get(key, "")
        if not name and isinstance(key, str):
            name = _snake_case(mended(key))

        if name in _DETAILS:
            _add_details(reader, value, f"{path}.{key}", _DETAILS[name], extra)
        elif name in _COUNTS:
            known_count = as_count(value)
            if known_count is not None:
                counts[name] = known_count
            elif value is not None:
                reader.wrong(f"{path}.{key}", value, "an integer from 0 to 2**63 - 1")
        elif name and is_count(value):
            extra[name] = value
        else:
            left[key] = value

    return *_sum_counts(counts, extra), extra, left


def _add_details(
    reader: DocumentReader, value: Any, path: str, of: str, extra: dict[str, int]
) -> None:
    if not is_list(value):
        if value is not None:
            reader.wrong(path, value, "a list or null")

        return

    for at, one in enumerate(value):
        here = f"{path}[{at}]"
        if not is_map(one):
            reader.wrong(here, one, "an object")
            continue

        modality = one.get("modality")
        if not isinstance(modality, str):
            if modality is not None:
                reader.wrong(f"{here}.modality", modality, "a text")

            # What has no modality is text.
            modality = "text"

        count = one.get("tokenCount", one.get("token_count"))
        known_count = as_count(count)
        if known_count is not None:
            name = f"{of}_{mended(modality).lower()}_tokens"
            extra[name] = extra.get(name, 0) + known_count
        elif count is not None:
            reader.wrong(f"{here}.tokenCount", count, "an integer from 0 to 2**63 - 1")


def _sum_counts(
    counts: dict[str, int], extra: dict[str, int]
) -> tuple[Totals, Details]:
    """
    The totals, and the details of prompt and completion; what these take is no
    longer in *extra*.
    """
    prompt = counts.get("prompt_token_count", 0)
    tools = counts.get("tool_use_prompt_token_count", 0)
    written = max([counts.get(name, 0) for name in _CANDIDATES])
    thoughts = counts.get("thoughts_token_count", 0)
    total = counts.get("total_token_count")

    # What the total does not count again is in another count already. Without a total,
    # or if no way of counting gives it, all counts are taken to be apart.
    more = (tools, thoughts)
    if tools or thoughts:
        both = prompt + written
        ways = (more, (0, thoughts), (tools, 0), (0, 0))
        more = next((way for way in ways if total == both + way[0] + way[1]), more)
        prompt, written = prompt + more[0], written + more[1]

    if tools:
        extra["tool_use_prompt_tokens"] = tools

    audio_tokens = extra.pop("prompt_audio_tokens", 0)
    audio_tokens += extra.get("tool_use_prompt_audio_tokens", 0) if more[0] else 0
    details = (
        {
            "audio_tokens": audio_tokens,
            "cached_tokens": counts.get("cached_content_token_count", 0),
        },
        {
            "audio_tokens": extra.pop("completion_audio_tokens", 0),
            "reasoning_tokens": thoughts,
        },
    )
    return (prompt, written, total), details
