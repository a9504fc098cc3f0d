"""
Calls of tools: parsing their arguments, and finding the call that a result
answers where the format may leave that out.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from math import isfinite
from typing import Any, NoReturn

from conversation_state.tools import ToolCall

__all__ = ["CallPairing", "DuplicateKeyError", "parse_arguments"]


class DuplicateKeyError(ValueError):
    """
    An object has a key twice, of which Python would keep one.
    """


def parse_arguments(text: str, *, unique_keys: bool = True) -> Any:
    """
    The JSON value of *text*, the arguments of a call.

    Raises:
        DuplicateKeyError:
            If an object has a key twice, with *unique_keys*.

        ValueError:
            If it is not JSON, is nested too deep, or holds a number that is not
            finite.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_make_object if unique_keys else None,
            parse_constant=_refuse_constant,
            parse_float=_parse_finite,
        )
    except RecursionError:
        msg = "the arguments are nested too deep"
        raise ValueError(msg) from None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        msg = "an object has a key twice"
        raise DuplicateKeyError(msg)

    return made


def _refuse_constant(constant: str) -> NoReturn:
    msg = f"{constant} is not JSON"
    raise ValueError(msg)


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        _refuse_constant(digits)

    return number


class CallPairing:
    """
    The latest calls that have no result yet. Never leaves the function that
    reads a document.

    Each operation is O(1) on average.

    Attributes:
        has_results: Whether a result came since the latest calls.
    """

    def __init__(self) -> None:
        self.has_results = False
        self._known: set[str] = set()
        self._open: set[str] = set()
        # Calls that are not queued yet: most results have an id, and need no queue.
        self._unqueued: list[tuple[str, str, bool]] = []
        # All open calls under None, and those of a tool under its name: all of
        # them, and those whose id was made up. An id stays queued when its call
        # is closed by id, so what leaves a queue is looked up in `_open`.
        self._queues: dict[tuple[str, bool] | None, deque[str]] = {}

    def start_group(self) -> None:
        """
        Forget the calls so far: results answer those that follow.
        """
        self.has_results = False
        self._open.clear()
        self._unqueued.clear()
        self._queues.clear()

    def open_call(self, call_id: str, name: str, *, is_made_up: bool = False) -> None:
        """
        Add a call; *is_made_up* says whether its id was made up.
        """
        self._known.add(call_id)
        self._open.add(call_id)
        self._unqueued.append((call_id, name, is_made_up))

    def open_calls(self, calls: Iterable[ToolCall], *, more: bool = False) -> None:
        """
        Start a group with *calls*, or add them to the group if they are *more*
        of it.
        """
        if not more:
            self.start_group()

        for call in calls:
            if call.id:
                self.open_call(call.id, call.name)

    def close_call(self, call_id: str) -> bool:
        """
        Close the call of this id; whether there ever was one.
        """
        self.has_results = True
        self._open.discard(call_id)
        return call_id in self._known

    def close_next(self, name: str, *, made_up_only: bool = False) -> str:
        """
        Close the first open call of the tool *name*, or else the first open
        one; its id, "" if no call is open.

        With *made_up_only* only calls of that name whose id was made up count.
        """
        self.has_results = True
        for call_id, tool, is_made_up in self._unqueued:
            for key in (None, (tool, False), (tool, True))[: 3 if is_made_up else 2]:
                self._queues.setdefault(key, deque()).append(call_id)

        self._unqueued.clear()

        for key in ((name, True),) if made_up_only else ((name, False), None):
            queue = self._queues.get(key, ())
            while queue:
                call_id = queue.popleft()
                if call_id in self._open:
                    self._open.discard(call_id)
                    return call_id

        return ""

    def resolve(self, given: str, name: str, made_id: str) -> str:
        """
        The id of the call that a result of the tool *name* answers: *given*, or
        that of the next open call; *made_id* if no call is open.
        """
        if given:
            self.close_call(given)
            return given

        return self.close_next(name) or made_id
