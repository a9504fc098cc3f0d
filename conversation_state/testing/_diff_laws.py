"""
What is true of every comparison of two states.
"""

from __future__ import annotations

from typing import Any

from conversation_state.aggregator import Aggregator
from conversation_state.diffing import Diff, Divergence, diff

__all__ = [
    "diffs_are_complete",
    "diffs_are_mirrored",
    "joins_bring_the_difference",
    "nothing_differs_from_itself",
]


def nothing_differs_from_itself(state: Aggregator) -> None:
    """
    A state compared with itself is identical; with a fork that adds
    nothing, everything is still in common.
    """
    same, forked = diff(state, state), diff(state, state.fork())

    assert not same, f"{state!r} differs from itself: {same}"
    assert same.identical, "a state is not itself"
    assert same.common == len(state), "not all in common"
    assert not forked, f"an empty fork differs: {forked}"
    assert not forked.identical, "a fork is its parent"
    assert forked.related, "a fork is not related to its parent"


def diffs_are_mirrored(a: Aggregator, b: Aggregator) -> None:
    """
    ``diff(b, a)`` is ``diff(a, b)`` seen from the other side.
    """
    found, back = diff(a, b), diff(b, a)

    assert back == found.reversed(), f"{back} is no mirror of {found}"
    assert found.reversed().reversed() == found, "mirrored twice is another"
    assert (back.only_a, back.only_b) == (found.only_b, found.only_a), "not swapped"
    assert (back.usage_a, back.usage_b) == (found.usage_b, found.usage_a), "not swapped"
    assert {(pair.b, pair.a) for pair in back.same} == set(found.same), "others alike"
    assert back.entries.reordered == found.entries.reordered, "one-sided"
    assert bool(back) == bool(found), "one-sided"


def diffs_are_complete(a: Aggregator, b: Aggregator) -> None:
    """
    A difference lists for every entry which side has it; it is empty only if entries
    and ledgers are equal, and identical only if the states are.
    """
    found = diff(a, b)

    _split_entries(found.entries, list(a.entries), list(b.entries))
    _split_entries(found.ledger, list(a.ledger), list(b.ledger))
    first = list(a.entries)[: found.common]
    assert list(found.context) == first[-3:], "others are the last in common"
    # Not `a != b`: two states of equal content under two ids differ in nothing.
    differs = a.entries != b.entries or a.ledger != b.ledger
    assert bool(found) == differs, f"says {bool(found)} of whether it differs"
    assert found.identical == (a == b), f"says {found.identical} of being equal"
    assert found.related == a.is_related_to(b), f"says related: {found.related}"
    _is_equivalent(found)


def joins_bring_the_difference(a: Aggregator, b: Aggregator) -> None:
    """
    ``a.join(b)`` has just ``diff(a, b).only_b`` more than *a*, and used just
    ``usage_b`` more; what the join lacks is what *b* lacks.
    """
    found, both = diff(a, b), a.join(b)
    brought = diff(a, both)

    assert list(both.entries) == [*a.entries, *found.only_b], "brought something else"
    assert list(both.ledger) == [*a.ledger, *found.ledger.only_b], (
        "the ledger got something else"
    )
    assert both.total_usage == a.total_usage + found.usage_b, "another bill"
    assert brought.only_b == found.only_b, "a join lacks something"
    assert brought.ledger.only_b == found.ledger.only_b, (
        "a join's ledger lacks something"
    )
    assert brought.only_a == (), "a join lost something"
    assert brought.entries.both == (), "a join moved something"
    assert brought.common == len(a), "a join changed the beginning"
    assert diff(b, both).only_a == (), "a join lacks something of the other"


def _split_entries(divergence: Divergence[Any], a: list[Any], b: list[Any]) -> None:
    # Computed from plain lists and in square time, unlike what is checked.
    common = divergence.common
    ids_a, ids_b = ({entry.id for entry in side} for side in (a, b))
    only_a = [entry for entry in a if entry.id not in ids_b]
    only_b = [entry for entry in b if entry.id not in ids_a]
    met_a = [entry for entry in a[common:] if entry.id in ids_b]
    met_b = [entry for entry in b[common:] if entry.id in ids_a]

    assert a[:common] == b[:common], "what is in common differs"
    assert a[common : common + 1] != b[common : common + 1] or common == len(a), (
        "more is in common"
    )
    assert list(divergence.rest_a) == a[common:], "another rest"
    assert list(divergence.rest_b) == b[common:], "another rest"
    assert list(divergence.only_a) == only_a, "others are only in a"
    assert list(divergence.only_b) == only_b, "others are only in b"
    assert [pair.a for pair in divergence.both] == met_a, "others are in both"
    assert {pair.b.id: pair.b for pair in divergence.both} == {
        e.id: e for e in met_b
    }, "others are in both"
    assert all(pair.a.id == pair.b.id for pair in divergence.both), "not one identity"
    assert divergence.reordered == ([e.id for e in met_a] != [e.id for e in met_b]), (
        f"says {divergence.reordered} of another order"
    )
    assert divergence.changed == tuple(
        [pair for pair in divergence.both if pair.a != pair.b]
    )


def _is_equivalent(found: Diff) -> None:
    ours, theirs = [pair.a for pair in found.same], [pair.b for pair in found.same]
    # Pairs are found by content, and which of several equal messages are paired is up
    # to the comparison: only that no two are left over is a law.
    rest_a = [entry for entry in found.only_a if entry not in ours]
    rest_b = [entry for entry in found.only_b if entry not in theirs]

    assert ours == [entry for entry in found.only_a if entry in ours], "out of order"
    assert set(theirs) <= set(found.only_b), "alike, and not only in b"
    assert len({entry.id for entry in theirs}) == len(theirs), "alike twice"
    for pair in found.same:
        assert pair.a.message.role == pair.b.message.role, "alike, in two roles"
        assert pair.a.message.text == pair.b.message.text, "alike, of two texts"

    unpaired = {entry.message for entry in rest_a} & {e.message for e in rest_b}
    assert not unpaired, "equal messages on both sides are in no pair"
