"""
Which call a result answers.
"""

from __future__ import annotations

from collections import deque

__all__ = ["Open"]


class Open:
    """
    The latest calls, as far as they have no result.

    Calls in several contents are all open until a result comes; the calls after
    it are the latest ones.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._open: set[str] = set()
        self._queues: dict[tuple[str, bool] | None, deque[str]] = {}
        self._answered = False

    def ask(self, call_id: str, name: str, *, made: bool) -> None:
        """
        Open a call; *made* says whether its id was made up.
        """
        if self._answered:
            self._answered = False
            self._open.clear()
            self._queues.clear()

        self._known.add(call_id)
        self._open.add(call_id)
        for queue in (None, (name, True), (name, False)):
            if made or queue is None or not queue[1]:
                self._queues.setdefault(queue, deque()).append(call_id)

    def answer(self, call_id: str) -> bool:
        """
        Whether there is such a call; it is open no more.
        """
        self._answered = True
        self._open.discard(call_id)
        return call_id in self._known

    def answer_next(self, name: str, *, any_id: bool) -> str:
        """
        The id of the first open call of *name*, "" if there is none; it is
        open no more.

        With *any_id*, it may have an id of its own; and if there is none of
        that name, it is the first one of all.
        """
        self._answered = True
        queues = ((name, False), None) if any_id else ((name, True),)
        for key in queues:
            queue = self._queues.get(key, ())
            while queue:
                call_id = queue.popleft()
                if call_id in self._open:
                    self._open.discard(call_id)
                    return call_id

        return ""
