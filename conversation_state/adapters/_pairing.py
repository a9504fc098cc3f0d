"""
Which call a result answers, in formats that may leave it out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from conversation_state.tools import ToolCall

__all__ = ["Pairing"]


class Pairing:
    """
    The latest calls, as far as they have no result. Never leaves the function
    that reads a document.
    """

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._all: deque[str] = deque()
        self._named: dict[str, deque[str]] = {}

    def call(self, calls: Iterable[ToolCall], *, more: bool = False) -> None:
        """
        The latest calls are *calls*; *more* says that they are made beside
        those before.
        """
        if not more:
            self._open, self._all, self._named = set(), deque(), {}

        for call in calls:
            if call.id:
                self._open.add(call.id)
                self._all.append(call.id)
                self._named.setdefault(call.name, deque()).append(call.id)

    def answer(self, given: str, name: str, made: str) -> str:
        """
        The id of the call that a result answers: *given* if it says so.

        Else, of the calls without a result, that of the first one of the tool
        of this *name*, or of the first one; *made* if there are none. O(1) on
        average.
        """
        if given:
            self._open.discard(given)
            return given

        for queue in (self._named.get(name), self._all):
            while queue:
                first = queue.popleft()
                if first in self._open:
                    self._open.discard(first)
                    return first

        return made
