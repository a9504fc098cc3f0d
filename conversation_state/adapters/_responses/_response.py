"""
The metadata of a response, and its usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from conversation_state.adapters._openai import COMPLETION_DETAILS, PROMPT_DETAILS
from conversation_state.adapters._reading import (
    DocumentReader,
    ObjectReader,
    is_map,
    take_text,
)
from conversation_state.adapters._usage import (
    Counted,
    find_usage_block,
    read_counts,
    read_usage_block,
    usage_in,
)
from conversation_state.usage import Usage

__all__ = ["ResponseInfo", "load_usage", "read_response"]

# Keys that repeat the request. They are not kept, because each answer would contain the
# instructions and tools again.
_ECHO = frozenset(
    {
        "background",
        "frequency_penalty",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "presence_penalty",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    }
)
# The SDK adds all text as `output_text`.
_KNOWN = _ECHO | {"model", "output", "output_text", "usage"}


class ResponseInfo(NamedTuple):
    finish_reason: str
    usage: Usage | None
    model: str
    id: str
    notes: dict[str, Any]


def read_response(node: ObjectReader) -> ResponseInfo:
    """
    The metadata of the response *node*. Null counts as missing.
    """
    raw = node.raw
    usage, left = None, dict[str, Any]()
    if raw.get("usage") is not None:
        usage, left = read_usage_block(
            node.reading, raw["usage"], f"{node.path}.usage", _read_responses_counts
        )

    model = node.nullable("model")
    info = node.reading.rest(raw, _KNOWN, node.path)
    notes = {key: value for key, value in info.items() if value is not None}
    if notes.get("object") == "response":
        del notes["object"]

    status = node.nullable("status")
    details = raw.get("incomplete_details")
    why = details.get("reason") if is_map(details) else None
    reason = status
    # The reason in the details says more than "incomplete": the tokens ran out, or a
    # filter stopped the response.
    if status == "incomplete" and why and isinstance(why, str):
        reason = notes["incomplete_details"]["reason"]
    else:
        notes.pop("status", None)

    if left:
        notes["usage"] = left

    return ResponseInfo(reason, usage, model, take_text(notes, "id"), notes)


_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = {
    "input_tokens_details": PROMPT_DETAILS,
    "output_tokens_details": COMPLETION_DETAILS,
}


def load_usage(payload: Any) -> Usage | None:
    """
    The usage in *payload*: a response, an event of a stream or a usage block.

    None if it has no usage. Integers that have no field are in `Usage.extra`,
    those of a breakdown with ``prompt_`` or ``completion_`` before their name,
    except ``cache_write_tokens``. Values that are not counts of tokens are left out.

    Raises:
        DecodeError:
            If a count is negative, not an integer, or over 2**63 - 1.

    Source:
        ``input_tokens`` include cache reads and cache writes, ``output_tokens``
        include the reasoning: in all recorded responses the total is the sum of
        input and output, whatever the details are. The usage of tools
        (``tool_usage``) is next to the usage, and not added to it.

    >>> load_usage({"input_tokens": 9, "output_tokens": 2}).total_tokens
    11
    """
    return usage_in(payload, _find_usage, _read_responses_counts)


def _find_usage(payload: Mapping[str, Any]) -> tuple[Any, str]:
    holders = {"$.response": payload.get("response"), "$": payload}
    return find_usage_block(holders, _COUNTS)


def _read_responses_counts(
    read: DocumentReader, block: Mapping[Any, Any], path: str
) -> Counted:
    counts, details, extra, left = read_counts(read, block, _COUNTS, _DETAILS, path)
    prompt, completion = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    return (prompt, completion, counts.get("total_tokens")), details, extra, left
