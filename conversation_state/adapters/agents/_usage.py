"""
The usage of a run, as entries of a ledger.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from conversation_state._identity import new_entry_id
from conversation_state._wording import describe_type
from conversation_state.adapters._responses._load import load_usage
from conversation_state.usage import Usage

__all__ = ["KeyedUsage", "read_response_usage", "read_usages"]

# The id that the SDK sets where a provider sends none.
_NO_ID = "__fake_id__"

_DETAILS = {
    "input_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": ("reasoning_tokens",),
}

# The keys of responses without any id, by their id(). A key is removed with its
# response, because another one may get the same id() then.
_keys: dict[int, tuple[weakref.ref[Any], str]] = {}


class KeyedUsage(NamedTuple):
    key: str
    usage: Usage


def read_usages(result: Any) -> Iterator[KeyedUsage]:
    """
    The usage of each response of *result* that has one.

    Raises:
        TypeError:
            If *result* is not the result of a run.

        DecodeError:
            If a count is not a number of tokens.
    """
    responses = getattr(result, "raw_responses", None)
    if not isinstance(responses, list):
        msg = (
            "result: expected the result of Runner.run or Runner.run_streamed, got "
            f"{describe_type(result)}"
        )
        raise TypeError(msg)

    for response in responses:
        yield from read_response_usage(response)


def read_response_usage(response: Any) -> Iterator[KeyedUsage]:
    """
    The usage of one response, if it has one.

    Raises:
        DecodeError:
            If a count is not a number of tokens.
    """
    usage = _read_usage(response.usage)
    if usage is not None:
        yield KeyedUsage(_make_key(response), usage)


def _read_usage(usage: Any) -> Usage | None:
    """
    The SDK's *usage* as ours; None if all counts are zero.

    Source:
        The SDK counts as the Responses API does: cache reads and writes are
        input, reasoning is output. Missing counts are zeros there.
    """
    counts = {
        name: getattr(usage, name)
        for name in ("input_tokens", "output_tokens", "total_tokens")
    }
    if not any(counts.values()):
        return None

    for name, kinds in _DETAILS.items():
        details = getattr(usage, name, None)
        counts[name] = {kind: getattr(details, kind, None) or 0 for kind in kinds}

    if not counts["total_tokens"]:
        del counts["total_tokens"]

    return load_usage(counts)


def _make_key(response: Any) -> str:
    for own_id in (response.response_id, getattr(response, "request_id", None)):
        if isinstance(own_id, str) and own_id and own_id != _NO_ID:
            return own_id

    place = id(response)
    if place not in _keys:
        gone = weakref.ref(response, lambda _: _keys.pop(place, None))
        # If two threads record one response, the key of the first one stays.
        _keys.setdefault(place, (gone, new_entry_id()))

    return _keys[place][1]
