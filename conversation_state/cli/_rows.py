"""
Rows of messages, as tables and data sets have them: which conversation each row names
(`group_rows`), and which row each answers (`find_parents`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# The first of these that a row has is what its conversation is named by.
_CONVERSATION_KEYS = (
    *("conversation_id", "conversationId", "message_tree_id", "chat_id", "chatId"),
    *("thread_id", "threadId", "session_id", "sessionId"),
)
_ROW_KEYS = ("message_id", "messageId", "id", "uuid")
PARENT_KEYS = (
    *("parent_id", "parentId", "parent_message_id", "parentMessageId"),
    *("parent_uuid", "parentUuid", "parent", "ancestors"),
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


class RowLinks(NamedTuple):
    """Which row each of some rows answers."""

    parents: list[int | None] | None  # their places; None for the order of the file
    # The places of rows that name none that is there, in rows that only some link.
    unlinked: tuple[int, ...] = ()


def find_parents(rows: Sequence[Any]) -> RowLinks:
    """
    The place of the row that each of *rows* answers, None for a first message.

    Where several name no other, as where only replies to an earlier message do, or some
    are missing and nothing branches, the links would only take the rows apart.

    >>> find_parents([{"id": 1}, {"id": 2}, {"id": 3, "parent_id": 1}])
    RowLinks(parents=None, unlinked=(1,))
    """
    best: list[int | None] = []
    named: list[str] = []
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
                best, named = found, parents

    if not best or best == [None, *range(len(rows) - 1)]:
        return RowLinks(None)

    first, *others = [at for at, parent in enumerate(best) if parent is None] or [0]
    linked = [parent for parent in best if parent is not None]
    has_branches = len({*linked}) < len(linked)
    nameless = [at for at in (first, *others) if not _is_link(named[at])]
    if others and (len(nameless) > 1 or not has_branches):
        return RowLinks(None, tuple(others))

    return RowLinks(best)


def _is_link(id: str) -> bool:
    # Ids of zeros stand for none.
    return bool(id.strip("0-"))


def _list_ids(rows: Sequence[Any], key: str) -> list[str]:
    """What each row has as *key*, or the last of some; "" if no text or number."""
    given = [row.get(key) if isinstance(row, Mapping) else None for row in rows]
    given = [each[-1] if each and isinstance(each, list) else each for each in given]
    return [
        str(each) if isinstance(each, str) or type(each) is int else ""
        for each in given
    ]


def list_branches(parents: Sequence[int | None]) -> list[list[int]]:
    """
    The places up to each last one, which no row answers, from the first message or
    behind one that an earlier branch has, so that each is in one; [] if rows are
    ancestors of themselves.

    >>> list_branches([None, 0, 0])
    [[0, 1], [2]]
    """
    branches = []
    reached: set[int] = set()
    answered = {*parents}
    for last in range(len(parents)):
        if last in answered:
            continue

        branch: list[int] = []
        here: int | None = last
        while here is not None and here not in reached:
            branch.append(here)
            here = parents[here]

        branches.append(branch[::-1])
        reached.update(branch)

    return branches if len(reached) == len(parents) else []


def list_path(parents: Sequence[int | None], last: int) -> list[int]:
    """
    The places from a first message to *last*.

    >>> list_path([None, 0, 0], 2)
    [0, 2]
    """
    path: list[int] = []
    here: int | None = last
    while here is not None:
        path.append(here)
        here = parents[here]

    return path[::-1]
