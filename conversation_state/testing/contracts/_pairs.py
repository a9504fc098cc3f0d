"""
What laws of reducers, steps and summarisers have in common: calls and their results,
the problems of a conversation, and what a message that replaces another one keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from conversation_state._wording import shorten_repr
from conversation_state.aggregator import Aggregator
from conversation_state.messages import Message, ToolMessage
from conversation_state.testing._comparison import is_same
from conversation_state.trimming import Flaw, TrimContext


def find_problems(messages: Sequence[Message]) -> tuple[Flaw, ...]:
    """Why a provider refuses *messages* as they stand."""
    return problems_of(TrimContext.of(Aggregator.new(messages=messages)))


def problems_of(view: TrimContext) -> tuple[Flaw, ...]:
    """
    The problems of *view*, but for who speaks first: a `fit` behind a step, and every
    `dump`, puts a user's message there.
    """
    return tuple([flaw for flaw in view.problems() if flaw.kind != "start"])


def list_call_ids(message: Message) -> list[str]:
    """The ids of the calls that a message makes, or of the one that it answers."""
    if isinstance(message, ToolMessage):
        return [message.tool_call_id]

    return [call.id for call in message.tool_calls if call.id]


def assert_keeps_pairs(before: Sequence[Message], after: Sequence[Message]) -> None:
    """
    Raise an AssertionError if a call that has a result before is there without it, or
    a result without its call; unless the result is an earlier state: that was there.
    """
    if len(after) <= len(before) and list(after) == list(before[: len(after)]):
        return

    calls, results = _count_ids(before)
    calls_after, results_after = _count_ids(after)
    for name, number in calls.items():
        if number == results[name] and calls_after[name] != results_after[name]:
            missing = (
                f"the result of the call {name!r} is missing, and the call is there"
                if calls_after[name] > results_after[name]
                else f"the call {name!r} is missing, and its result is there"
            )
            raise AssertionError(missing)


def _count_ids(messages: Sequence[Message]) -> tuple[Counter[str], Counter[str]]:
    calls: Counter[str] = Counter()
    results: Counter[str] = Counter()
    for message in messages:
        of_kind = results if isinstance(message, ToolMessage) else calls
        of_kind.update(list_call_ids(message))

    return calls, results


_FIELDS = ("name", "is_error", "tool_call_id", "tool_name")
_OF_CALLS = {"tool_call_id", "tool_name", "name"}


def assert_keeps_fields(removed: Sequence[Message], added: Sequence[Message]) -> None:
    """
    Raise an AssertionError if one of *added* that replaces one of *removed* lacks its
    fields: a result that of the same call, other messages those of the same role, if
    as many were added as removed.
    """
    for old, new in _match_replaced(removed, added):
        assert_replaces(old, new)


def assert_replaces(old: Message, new: Message, *, keeps_ids: bool = True) -> None:
    """
    Raise an AssertionError if *new* lacks fields of *old*, which it replaces.

    Args:
        old: The message.
        new: What is shown in its place.
        keeps_ids: Whether ids and names of calls stay; they may change where a
            provider would refuse them.
    """
    for field in _FIELDS:
        if field in _OF_CALLS and not keeps_ids:
            continue

        before, after = getattr(old, field, None), getattr(new, field, None)
        assert is_same(before, after), f"{field}: {before!r} became {after!r}"

    ids, ids_after = list_call_ids(old), list_call_ids(new)
    assert not keeps_ids or ids == ids_after, f"ids of calls: {ids} became {ids_after}"
    for key, value in old.metadata.items():
        assert key in new.metadata, f"metadata: {key!r} is missing"
        assert is_same(value, new.metadata[key]), (
            f"metadata: {key!r}: {shorten_repr(value)} became "
            f"{shorten_repr(new.metadata[key])}"
        )


def _match_replaced(
    removed: Sequence[Message], added: Sequence[Message]
) -> list[tuple[Message, Message]]:
    found: list[tuple[Message, Message]] = []
    for new in added:
        if isinstance(new, ToolMessage):
            same: list[Any] = [
                old
                for old in removed
                if isinstance(old, ToolMessage) and old.tool_call_id == new.tool_call_id
            ]
            found += [(old, new) for old in same[:1]]

    rest = [each for each in removed if not isinstance(each, ToolMessage)]
    new_rest = [each for each in added if not isinstance(each, ToolMessage)]
    if [each.role for each in rest] == [each.role for each in new_rest]:
        found += zip(rest, new_rest, strict=True)

    return found
