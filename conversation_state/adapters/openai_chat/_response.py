"""
The metadata of a response, and its usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from conversation_state.adapters._notes import without_empty
from conversation_state.adapters._openai import (
    COMPLETION_DETAILS,
    PROMPT_DETAILS,
    is_odd,
    read_logprob_list,
)
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_list,
    take_text,
)
from conversation_state.adapters._usage import (
    Counted,
    find_usage_block,
    read_counts,
    read_usage_block,
    usage_in,
)
from conversation_state.adapters._wire import ResponseChoice
from conversation_state.messages import LogProb, ResponseMeta
from conversation_state.usage import Usage

__all__ = ["find_usage", "load_usage", "read_logprobs", "read_response", "read_usage"]

_RESPONSE = frozenset({"choices", "model", "usage"})
_CHOICE = frozenset({"finish_reason", "logprobs", "message"})


def read_response(
    read: DocumentReader, payload: Mapping[str, Any]
) -> list[ResponseChoice]:
    if not payload["choices"]:
        read.problem("$.choices", "is empty; expected at least one choice")

    usage, left = None, dict[str, Any]()
    block, where = find_usage(payload)
    if block is not None:
        usage, left = read_usage(read, block, where)

    node = ObjectReader(read, payload, "$")
    model = node.optional("model")
    notes = read.rest(payload, _RESPONSE, "$")
    if left:
        notes["usage"] = left

    response_id = take_text(notes, "id")
    prefix = response_id or "response"
    found: list[ResponseChoice] = []
    # `objects` skips a choice that is not an object, and the numbers behind it are
    # wrong; but then loading fails as a whole.
    for at, choice in enumerate(node.objects("choices")):
        if "delta" in choice.raw and "message" not in choice.raw:
            what = "is a piece of a stream; expected a whole message"
            read.problem(choice.path, what)
            continue

        reason = choice.optional("finish_reason")
        kept = read.rest(choice.raw, _CHOICE, choice.path)
        # The index of a choice is nearly always its position, which needs no note.
        if kept.get("index") == at:
            del kept["index"]

        logprobs = read_logprobs(choice, kept)
        meta = ResponseMeta(reason, None if at else usage, logprobs, model, response_id)
        found.append(
            ResponseChoice(
                choice.raw.get("message"),
                f"{choice.path}.message",
                f"{prefix}_{at}" if at else prefix,
                meta,
                without_empty({"response": notes, "choice": kept}),
            )
        )

    return found


def read_logprobs(
    choice: ObjectReader, kept: dict[str, Any]
) -> tuple[LogProb, ...] | None:
    """
    The log probabilities of the content; other keys of the block go into *kept*.
    """
    node = choice.inside("logprobs")
    if node is None:
        return None

    read, given = node.reading, node.raw
    content = given.get("content")
    known: frozenset[str] = frozenset({"content"})
    if not is_list(content):
        if content is not None:
            node.wrong("content", "a list or null")
    # If one token has more than a `LogProb` holds, the whole list is kept, because the
    # position of the token matters.
    elif any(map(is_odd, content)):
        known = frozenset()

    left = read.rest(given, known, node.path)
    if any(value is not None for value in left.values()):
        kept["logprobs"] = left

    if not is_list(content):
        return None

    return read_logprob_list(read, content, f"{node.path}.content")


_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAILS = {
    "prompt_tokens_details": PROMPT_DETAILS,
    "completion_tokens_details": COMPLETION_DETAILS,
}

# The names of DeepSeek and Moonshot for `cached_tokens`.
_CACHED = ("prompt_cache_hit_tokens", "cached_tokens")


def load_usage(payload: Any) -> Usage | None:
    """
    The usage in *payload*: a response, an event of a stream or a usage block.

    None if it has no usage. Counts include their parts: cached tokens are a part
    of the prompt's, reasoning is a part of the completion's. Integers that have
    no field are in `Usage.extra`, those of a breakdown with ``prompt_`` or
    ``completion_`` before their name if it is ambiguous. Values that are not
    counts of tokens, such as Groq's seconds, are left out.

    Raises:
        DecodeError:
            If a count is negative, not an integer, or over 2**63 - 1.

    Source:
        DeepSeek and Moonshot have names of their own for cached tokens. xAI
        counts reasoning apart from the completion, which shows in its total.
        Groq once had usage under ``x_groq`` only, and Moonshot's streams have
        it in the choice.

    >>> load_usage({"prompt_tokens": 9, "completion_tokens": 2}).total_tokens
    11
    """
    return usage_in(payload, find_usage, _read_chat_counts)


def find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    """
    The usage block in *payload*, or None; and its path.
    """
    choices = payload.get("choices")
    holders = {
        "$": payload,
        "$.x_groq": payload.get("x_groq"),
        "$.choices[0]": choices[0] if is_list(choices) and choices else None,
    }
    return find_usage_block(holders, _COUNTS)


def _read_chat_counts(
    read: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts, details, extra, left = read_counts(read, block, _COUNTS, _DETAILS, path)
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
    reasoning = written.get("reasoning_tokens", 0)
    if reasoning and total == prompt + completion + reasoning:
        completion += reasoning

    return (prompt, completion, total), details, extra, left


read_usage = partial(read_usage_block, count=_read_chat_counts)
