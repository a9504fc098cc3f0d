"""
What a run spent, as entries of a ledger.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from conversation_state._identity import new_entry_id
from conversation_state.adapters._responses._usage import load_usage
from conversation_state.usage import Usage

__all__ = ["Spent", "spent_in"]

# What the SDK writes where a provider gives responses no id.
_NO_ID = "__fake_id__"

_DETAILS = {
    "input_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": ("reasoning_tokens",),
}

# The keys of responses without any id, by where they are in memory. A response
# that is gone takes its key with it: the place may be another one's then.
_keys: dict[int, tuple[weakref.ref[Any], str]] = {}


class Spent(NamedTuple):
    """
    What one response cost, and the key to pay it under.
    """

    key: str
    usage: Usage


def spent_in(result: Any) -> Iterator[Spent]:
    """
    What each response of *result* cost, but for those that don't say.

    Raises:
        TypeError:
            If *result* is not what a run gives.

        DecodeError:
            If a count is no number of tokens.
    """
    responses = getattr(result, "raw_responses", None)
    if not isinstance(responses, list):
        msg = (
            "record takes what Runner.run or Runner.run_streamed gives, got a "
            f"{type(result).__name__}"
        )
        raise TypeError(msg)

    for response in responses:
        usage = _usage_of(response.usage)
        if usage is not None:
            yield Spent(_key_of(response), usage)


def _usage_of(told: Any) -> Usage | None:
    """
    Our usage of the SDK's; None if nothing was told.

    Source:
        The SDK counts as the Responses do: what was read from the cache and
        written to it is input, reasoning is output. It makes zeros of what
        was not told.
    """
    counts = {
        name: getattr(told, name)
        for name in ("input_tokens", "output_tokens", "total_tokens")
    }
    if not any(counts.values()):
        return None

    for name, kinds in _DETAILS.items():
        details = getattr(told, name, None)
        found = {kind: getattr(details, kind, None) or 0 for kind in kinds}
        counts[name] = {kind: count for kind, count in found.items() if count}

    if not counts["total_tokens"]:
        del counts["total_tokens"]

    return load_usage(counts)


def _key_of(response: Any) -> str:
    for given in (response.response_id, getattr(response, "request_id", None)):
        if isinstance(given, str) and given and given != _NO_ID:
            return given

    place = id(response)
    if place not in _keys:
        gone = weakref.ref(response, lambda _: _keys.pop(place, None))
        # Of two threads that record one response, the first has its way.
        _keys.setdefault(place, (gone, new_entry_id()))

    return _keys[place][1]
