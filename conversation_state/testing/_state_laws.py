"""
What is true of states, their forks, joins, checkpoints and differences; part of
`laws`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from operator import is_
from typing import Any

from conversation_state.aggregator import Aggregator, Turn, join
from conversation_state.diffing import Diff, Divergence, diff
from conversation_state.messages import Message
from conversation_state.testing._comparison import unpickled
from conversation_state.timeline import Timeline
from conversation_state.usage import Usage


def states_add_up(state: Aggregator) -> None:
    """
    All properties of a state agree: its length, its messages with and without
    identities, its usage and the sum of its ledger; and no identity occurs twice.
    """
    entries, ledger = list(state.entries), list(state.ledger)
    messages = [entry.message for entry in entries]
    usages = [entry.usage for entry in ledger]
    since = usages[state.init_ledger_len :]

    assert len(state) == len(messages) == len(state.messages), "lengths differ"
    assert 0 <= state.init_len <= len(state), "forked outside of what there is"
    assert state.turn_len == len(state) - state.init_len, "turn_len is no rest"
    assert list(state) == messages == list(state.messages), "messages differ"
    assert all(state[at] is message for at, message in enumerate(messages)), (
        "an index differs"
    )
    assert list(state[state.init_len :]) == list(state.turn.messages), "turn differs"
    assert state.total_usage == sum(usages, Usage()), "total_usage is no sum"
    assert state.usage == sum(since, Usage()), "usage is not what came since the fork"
    assert state.turn.usage == state.usage, "the turn's usage is another"
    for items in (entries, ledger):
        assert len({item.id for item in items}) == len(items), "an identity recurs"


def forks_inherit(state: Aggregator, at: int | None = None) -> None:
    """
    A fork has all the state has, or the first *at* messages and the whole ledger, under
    a new id, and has used and added nothing itself; joined back at once, it brings
    nothing.
    """
    fork = state.fork(at=at)
    size = len(state) if at is None else at

    assert list(fork.entries) == list(state.entries)[:size], f"not the first {size}"
    assert fork.ledger == state.ledger, "a fork's ledger is another"
    assert fork.total_usage == state.total_usage, "a fork's total is another"
    assert fork.usage == Usage(), f"a fork has used {fork.usage} before it began"
    assert fork.init_len == len(fork) == size, f"forked at {fork.init_len}, not {size}"
    assert fork.turn_len == 0, f"a fork added {fork.turn_len} before it began"
    assert fork.parent_id == state.id, "a fork does not know its parent"
    assert fork.id != state.id, "a fork has its parent's id"
    assert fork.is_related_to(state), "a fork is not related to its parent"
    assert state.join(fork) is state, "an empty fork brought something"
    both = fork.join(state)
    assert list(both.entries) == list(state.entries), "the rest is missing"
    assert size < len(state) or both is fork, "a parent that moved nowhere brought it"


def join_is_idempotent(a: Aggregator, b: Aggregator | Turn) -> None:
    """
    Joining a state that adds nothing returns the same object: the state itself, or the
    same branch again.
    """
    both = a.join(b)

    assert a.join(a) is a, "a state brought something to itself"
    assert a.join() is a, "nothing brought something"
    assert both.join(b) is both, "a branch brought something twice"
    assert both.join(b) == both, "a state is not equal to itself"
    assert both.join(a) is both, "a state brought something to what grew from it"


def join_is_associative(a: Aggregator, b: Aggregator, c: Aggregator) -> None:
    """Which joins happen first does not matter; several at once are the same."""
    once = a.join(b).join(c)

    assert once == a.join(b.join(c)), "a.join(b).join(c) is not a.join(b.join(c))"
    assert once == a.join(b, c), "a.join(b).join(c) is not a.join(b, c)"
    assert once == join(a, b, c), "a.join(b).join(c) is not join(a, b, c)"
    assert hash(once) == hash(a.join(b.join(c))), "equal joins have two hashes"


def join_keeps_both_orders(a: Aggregator, b: Aggregator | Turn) -> None:
    """
    A join starts with all of the one side, and goes on with what is new of the
    other, in its order; the ledger likewise. Id and fork point are the
    receiver's, and so is the object, if nothing is new.
    """
    with unchanged(a):
        both = a.join(b)

    assert list(both.entries) == _merge_orders(a.entries, b.entries), (
        "not the ordered union"
    )
    assert list(both.ledger) == _merge_orders(a.ledger, b.ledger), (
        "not the union of ledgers"
    )
    assert read_origin(both) == read_origin(a), "the receiver became another"
    is_same = list(both.entries) == list(a.entries) and both.ledger == a.ledger
    # Callers use `is` to find out whether a join added anything, and then save or
    # notify.
    assert (both is a) == is_same, "a join made a needless state"
    # A join may compute sums and lengths separately.
    states_add_up(both)


def join_counts_usage_once(*states: Aggregator) -> None:
    """
    The total of a join is the sum over the union of ledgers, each identity counted
    once, also if the states share entries or are joined repeatedly.
    """
    first, *others = states
    usages: dict[str, Usage] = {}
    for state in states:
        for entry in state.ledger:
            usages.setdefault(entry.id, entry.usage)

    total = sum(usages.values(), Usage())
    once = first.join(*others)
    again = once.join(*others, *states)

    assert once.total_usage == total, f"joined {once.total_usage}, expected {total}"
    assert again.total_usage == total, f"joined again {again.total_usage}"


def turns_bring_what_was_added(target: Aggregator, state: Aggregator) -> None:
    """
    ``target.join(state.turn)`` brings what *state* added since its fork, and
    nothing of what it inherited, exactly once; so do the turn when shipped, and a
    checkpoint.
    """
    turn = state.turn
    # An unpickled copy shares no objects, so shortcuts by `is` don't apply.
    shipped = unpickled(turn)
    joined = target.join(turn)

    assert list(turn.entries) == list(state.entries)[state.init_len :], (
        "the turn is not what came since the fork"
    )
    assert list(turn.ledger) == list(state.ledger)[state.init_ledger_len :], (
        "the turn lacks usage recorded since the fork"
    )
    assert (turn.id, turn.parent_id) == (state.id, state.parent_id), "another's turn"
    assert shipped == turn, "the turn changed on its way"
    assert target.join(shipped) == joined, "a shipped turn brings something else"
    merged = state.checkpoint().merge_into(target)
    assert merged == joined, "a merge of a checkpoint is no join of a turn"
    join_keeps_both_orders(target, turn)
    join_is_idempotent(target, turn)
    assert joined.join(shipped) is joined, "a turn brought something again, shipped"


def checkpoints_restore(state: Aggregator, later: Iterable[Message]) -> None:
    """
    A checkpoint restores the state it has, also after any messages were added *later*.
    """
    kept = state.checkpoint("kept")
    with unchanged(state):
        state.extend(later)

    assert kept.restore() == state, "another state was restored"
    assert kept.id == state.id, "restored under another id"
    assert list(kept.messages) == list(state), "other messages were restored"
    assert kept.usage == state.usage, "another usage was restored"
    assert kept.label == "kept", "another label was restored"
    states_add_up(kept.restore())


@contextmanager
def unchanged(*values: Aggregator | Timeline[Any]) -> Generator[None, None, None]:
    """
    A context in which states and timelines do not change, down to the identity of every
    message or state.
    """
    before = [(value, _list_facts(value)) for value in values]
    yield
    # Equality is enough for properties that are computed at each access. What is held
    # is also compared by identity: replacing it by an equal one is a change, too.
    for value, expected in before:
        now = _list_facts(value)
        assert now == expected, f"{value!r} was changed: {expected}, now {now}"
        assert all(map(is_, now[-1], expected[-1])), f"{value!r} holds other objects"


def read_origin(state: Aggregator) -> tuple[object, ...]:
    """Which state it is, and where it was forked."""
    ids = state.id, state.parent_id, state.root_id
    return (*ids, state.init_len, state.init_ledger_len)


def _list_facts(value: Aggregator | Timeline[Any]) -> tuple[Any, ...]:
    """What can be asked of it, and at the end what it holds."""
    if isinstance(value, Timeline):
        # Compared field by field: a moment that was changed in place is equal to
        # itself.
        moments = [
            (each.number, each.label, each.group, each.parent) for each in value.moments
        ]
        ways = [value.goto(each).redo().moment.number for each in value.moments]
        states = [each.state for each in value.moments]
        return moments, value.moment.number, ways, value.limit, states

    totals = value.usage, value.total_usage
    entries = tuple(value.entries), tuple(value.ledger)
    return read_origin(value), totals, hash(value), entries, tuple(value)


def _merge_orders(ours: Iterable[Any], theirs: Iterable[Any]) -> list[Any]:
    known = list(ours)
    ids = {entry.id for entry in known}
    return [*known, *(entry for entry in theirs if entry.id not in ids)]


# Differences


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
    """``diff(b, a)`` is ``diff(a, b)`` seen from the other side."""
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
    changed = [pair for pair in divergence.both if pair.a != pair.b]
    assert list(divergence.changed) == changed, "others are changed"


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


def replacing_keeps_what_follows(
    state: Aggregator, entry_id: str, message: Message
) -> None:
    """
    Where a message takes another one's place, all others keep their identity but for
    results whose calls went; the whole ledger stays, and a join brings the old one
    back.
    """
    replaced = state.replace_message(entry_id, message)
    at = [entry.id for entry in state.entries].index(entry_id)
    before, after = list(state.entries), list(replaced.entries)
    if state[at] == message:
        assert replaced is state, "nothing was replaced, and another state made"
        return

    assert after[:at] == before[:at], "the past changed"
    assert after[at].message == message, "another message"
    assert after[at].id not in {entry.id for entry in before}, "no identity of its own"
    gone = [entry for entry in before[at + 1 :] if entry not in after]
    assert after[at + 1 :] == [e for e in before[at + 1 :] if e not in gone], (
        "reordered"
    )
    lost = {call.id for call in state[at].tool_calls}
    lost -= {call.id for call in message.tool_calls}
    for entry in gone:
        assert getattr(entry.message, "tool_call_id", "") in lost, "others went"

    assert replaced.ledger == state.ledger, "another bill"
    joined = replaced.join(state)
    assert list(joined.entries)[: len(after)] == after, "a join reorders"
    assert {entry.id for entry in joined.entries} == {
        entry.id for entry in (*before, *after)
    }, "a join loses messages"


def leaving_out_keeps_the_rest(state: Aggregator, entry_ids: Iterable[str]) -> None:
    """
    What is left out is gone, with the calls and results that belong to it; all other
    entries stay, in order, and no call loses its result; the whole ledger stays.
    """
    ids = {*entry_ids}
    rest = state.without(ids)
    if not ids:
        assert rest is state, "nothing was left out, and another state made"
        return

    kept = {entry.id for entry in rest.entries}
    assert kept.isdisjoint(ids), "an entry is still there"
    expected = [entry for entry in state.entries if entry.id in kept]
    assert list(rest.entries) == expected, "other entries, or in another order"
    for entry in state.entries:
        if entry.id not in kept | ids:
            is_pair = entry.message.tool_calls or entry.message.role == "tool"
            assert is_pair, "what has no call went, too"

    assert rest.ledger == state.ledger, "another bill"
    made = Counter(call.id for message in state for call in message.tool_calls)
    unanswered = _find_unanswered(state, made)
    assert _find_unanswered(rest, made) <= unanswered, "a call lost its result"


def _find_unanswered(state: Aggregator, made: Counter[str]) -> set[tuple[str, str]]:
    # Calls without a result, and results without a call, each with its entry; of calls
    # whose id was made once.
    found = {}
    alone = set()
    for entry in state.entries:
        for call in entry.message.tool_calls:
            found[call.id] = (entry.id, call.id)

        call_id = getattr(entry.message, "tool_call_id", None)
        if call_id is not None and found.pop(call_id, None) is None:
            alone.add((entry.id, call_id))

    return {each for each in (*alone, *found.values()) if made[each[1]] <= 1}
