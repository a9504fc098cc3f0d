"""
What the verbs of a timeline check, and how they forget moments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from conversation_state._persistent import Log, check_text
from conversation_state._persistent.maps import PMap
from conversation_state.timeline._moments import Moment

__all__ = [
    "check_filter",
    "check_label",
    "check_steps",
    "forget_moments",
    "set_redo_target",
]

S = TypeVar("S")

# Forgotten moments stay in the log until they are an eighth of the limit. So
# forgetting costs the same for any limit: eight items copied for each commit.
_FORGOTTEN_SHARE = 8


def forget_moments(  # noqa: PLR0917 - the fields of a timeline
    log: Log[Moment[S]],
    base: int,
    first: int,
    targets: PMap[int, int],
    kept: int,
    limit: int,
) -> tuple[Log[Moment[S]], int, int, PMap[int, int]]:
    """
    The fields of a timeline that keeps the moments from number *kept* on.
    """
    if targets:
        for number in range(first, kept):
            targets = targets.discard(number)

    if (kept - base) * _FORGOTTEN_SHARE >= limit:
        return Log(list(log.iterate(kept - base))), kept, kept, targets

    return log, base, kept, targets


def set_redo_target(targets: PMap[int, int], parent: int, child: int) -> PMap[int, int]:
    """
    *targets* with *child* as the child of *parent* that was visited last.
    """
    if child == parent + 1:
        return targets.discard(parent) if targets else targets

    return targets.set(parent, child)


def check_label(value: object, name: str) -> str:
    if not isinstance(value, str):
        msg = f"{name} is {value!r:.80}; expected a str"
        raise TypeError(msg)

    return check_text(value, name)


def check_steps(n: object) -> None:
    if type(n) is not int:
        msg = f"the number of steps is {n!r:.80}; expected an integer"
        raise TypeError(msg)

    if n < 0:
        msg = f"the number of steps is {n}; expected 0 or more"
        raise ValueError(msg)


def check_filter(function: Any) -> Callable[[Any, Any], object] | None:
    if function is None or callable(function):
        return function  # type: ignore[no-any-return]

    msg = f"filter is {function!r:.80}; expected a function of two states, or None"
    raise TypeError(msg)
