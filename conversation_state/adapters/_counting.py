"""
Counts of tokens, in whatever words a provider has for them.

What lives here: what all adapters share when they read what a response cost.
What does not: what a provider counts, and what of it is a part of what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from conversation_state.adapters._reading import Reading, is_map
from conversation_state.usage import Usage

__all__ = ["is_count", "usage_in"]

_MOST = 2**63 - 1


def is_count(value: Any) -> TypeGuard[int]:
    """
    Whether *value* is a number that `Usage` can hold.
    """
    return value.__class__ is int and 0 <= value <= _MOST


def usage_in(
    payload: Any,
    find: Callable[[Mapping[str, Any]], tuple[Any, str]],
    read_usage: Callable[[Reading, Any, str], tuple[Usage | None, dict[str, Any]]],
) -> Usage | None:
    """
    What *payload*, a response, an event of a stream or a usage block, cost;
    None if it does not say.

    Args:
        payload: What a provider sent; None is nothing.

        find: What in it says what it cost, None if nothing; and where it is.

        read_usage: What that is, and what else it says.

    Raises:
        DecodeError:
            If it is no object, or a count in it is none.
    """
    read = Reading()
    usage = None
    if is_map(payload):
        block, path = find(payload)
        if block is not None:
            usage, _ = read_usage(read, block, path)
    elif payload is not None:
        read.wrong("$", payload, "a response, an event of a stream or a usage block")

    read.finish()
    return usage
