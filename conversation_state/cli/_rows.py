"""
Rows of messages, as tables and data sets have them: which conversation each row names
(`group_rows`), and which row each answers (`find_parents`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# The first of these that a row has is what its conversation is named by.
_CONVERSATION_KEYS = (
    *("conversation_id", "conversationId", "message_tree_id", "chat_id", "chatId"),
    *("thread_id", "threadId", "session_id", "sessionId"),
)
_ROW_KEYS = ("message_id", "messageId", "id", "uuid")
PARENT_KEYS = (
    *("parent_id", "parentId", "parent_message_id", "parentMessageId"),
    *("parent_uuid", "parentUuid", "parent"),
)


def group_rows(rows: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """
    The conversations that *rows* name, each with the places of its rows; all of them
    under one name if they name no other, "" if they name none.

    >>> group_rows([{"chat_id": 1}, {"chat_id": 2}, {"chat_id": 1}])
    [('1', [0, 2]), ('2', [1])]
    """
    key = next((key for key in _CONVERSATION_KEYS if any(_list_ids(rows, key))), "")
    names = {id: None for id in _list_ids(rows, key) if id}
    if len(names) <= 1:
        return [(next(iter(names), ""), [*range(len(rows))])]

    groups: dict[str, list[int]] = {}
    name = ""
    for at, id in enumerate(_list_ids(rows, key)):
        # What is no row is wrong in the conversation that it stands in.
        name = id if isinstance(rows[at], Mapping) else name
        groups.setdefault(name, []).append(at)

    return [*groups.items()]


def find_parents(rows: Sequence[Any]) -> list[int | None] | None:
    """
    The place of the row that each of *rows* answers, None for a first message; None if
    they name none, or each answers the one before.
    """
    best: list[int | None] = []
    for key in PARENT_KEYS:
        parents = _list_ids(rows, key)
        if not any(parents):
            continue

        for own_key in _ROW_KEYS:
            ids = _list_ids(rows, own_key)
            places = {id: at for at, id in enumerate(ids)}
            if len(places) < len(rows) or "" in places:
                continue

            found = [places.get(parent) for parent in parents]
            if found.count(None) < (best.count(None) if best else len(rows)):
                best = found

    is_line = best == [None, *range(len(rows) - 1)]
    return None if is_line or not best else best


def _list_ids(rows: Sequence[Any], key: str) -> list[str]:
    """What each row has as *key*, a text or a number; "" for everything else."""
    given = [row.get(key) if isinstance(row, Mapping) else None for row in rows]
    return [
        str(each) if isinstance(each, str) or type(each) is int else ""
        for each in given
    ]


def list_paths(parents: Sequence[int | None]) -> list[list[int]]:
    """
    The places from a first message to each last one, which no row answers; [] if rows
    are ancestors of themselves.

    >>> list_paths([None, 0, 0])
    [[0, 1], [0, 2]]
    """
    paths = []
    reached: set[int] = set()
    answered = {*parents}
    for last in range(len(parents)):
        if last in answered:
            continue

        path: list[int] = []
        here: int | None = last
        while here is not None:
            path.append(here)
            here = parents[here]

        paths.append(path[::-1])
        reached.update(path)

    return paths if len(reached) == len(parents) else []
