"""
What is true of every value of this library, as plain functions that assert it.

For Hypothesis and for anyone who makes values of their own: a store that
loads states, an executor that ships turns. A law returns nothing, or raises
an `AssertionError` that says what should have been equal.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from itertools import pairwise
from typing import Any, Protocol, Self, TypeVar

from conversation_state._wording import describe_type
from conversation_state.aggregator import Aggregator
from conversation_state.chunks import Accumulator, concat
from conversation_state.errors import ConcatError
from conversation_state.messages import Message
from conversation_state.parallel import fan_out
from conversation_state.requests import Rules, is_made
from conversation_state.testing._comparison import is_same
from conversation_state.testing._state_laws import (
    checkpoints_restore,
    diffs_are_complete,
    diffs_are_mirrored,
    forks_inherit,
    join_counts_usage_once,
    join_is_associative,
    join_is_idempotent,
    join_keeps_both_orders,
    joins_bring_the_difference,
    leaving_out_keeps_the_rest,
    nothing_differs_from_itself,
    replacing_keeps_what_follows,
    states_add_up,
    turns_bring_what_was_added,
    unchanged,
)
from conversation_state.testing.provider import judge
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree
from conversation_state.trimming import COMPACTED, TrimContext
from conversation_state.usage import Usage

__all__ = [
    "accumulators_concat",
    "adding_is_a_commutative_monoid",
    "checkpoints_restore",
    "concat_is_associative",
    "concat_of_one_is_itself",
    "copies_are_equal",
    "diffs_are_complete",
    "diffs_are_mirrored",
    "equal_values_hash_alike",
    "fan_out_is_a_fold",
    "forks_inherit",
    "goto_changes_no_moments",
    "histories_are_linear",
    "join_counts_usage_once",
    "join_is_associative",
    "join_is_idempotent",
    "join_keeps_both_orders",
    "joins_bring_the_difference",
    "larger_is_a_semilattice",
    "leaving_out_keeps_the_rest",
    "message_trees_add_up",
    "nothing_committed_is_lost",
    "nothing_differs_from_itself",
    "paths_lead_to_states",
    "redo_then_undo_is_the_identity",
    "replacing_keeps_what_follows",
    "replacing_nothing_changes_nothing",
    "requests_are_accepted",
    "states_add_up",
    "timelines_add_up",
    "turns_bring_what_was_added",
    "unchanged",
    "undo_then_redo_is_the_identity",
    "views_add_up",
    "views_fit",
]


class Counts(Protocol):
    """**Protocol:** what usages and their breakdowns have in common."""

    def __add__(self, other: Self | None, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...


C = TypeVar("C", bound=Counts)
S = TypeVar("S")


# Usage


def adding_is_a_commutative_monoid(a: C, b: C, c: C) -> None:
    """
    Usages may be added in any order and any grouping; none at all, and one
    that counts nothing, add nothing.
    """
    nothing = type(a)()

    assert a + b == b + a, f"{a} + {b} depends on the order"
    assert (a + b) + c == a + (b + c), f"{a} + {b} + {c} depends on the grouping"
    assert a + nothing == a, f"{a} + nothing is {a + nothing}"
    assert nothing + a == a, f"nothing + {a} is {nothing + a}"
    # Responses without a usage have None: sums take it as it comes.
    assert a + None == a, f"{a} + None is {a + None}"
    assert sum([a, b, c], nothing) == a + b + c, "the sum is another"


def larger_is_a_semilattice(a: C, b: C, c: C) -> None:
    """
    Running totals may be combined in any order and grouping, and repeatedly.

    A later running total stands, unless only one of the two reports a total
    that is less than its prompt and completion together.
    """
    nothing = type(a)()

    assert a | a == a, f"{a} | itself is {a | a}"
    assert a | b == b | a, f"{a} | {b} depends on the order"
    assert (a | b) | c == a | (b | c), f"{a} | {b} | {c} depends on the grouping"
    assert a | nothing == a, f"{a} | nothing is {a | nothing}"
    if _is_total_short_or_missing(a) == _is_total_short_or_missing(a + b):
        assert a | (a + b) == a + b, f"{a + b} is not the larger of itself and {a}"


def _is_total_short_or_missing(counts: object) -> bool:
    return isinstance(counts, Usage) and (
        not counts.total_tokens
        or counts.total_tokens < counts.prompt_tokens + counts.completion_tokens
    )


# All values


def equal_values_hash_alike(a: object, b: object) -> None:
    """Equality goes both ways, and equal values have equal hashes."""
    assert a == a, f"{a!r} is not equal to itself"  # noqa: PLR0124 - on purpose
    assert (a == b) == (b == a), f"{a!r} and {b!r} disagree about being equal"
    assert (a == b) != (a != b), f"{a!r} and {b!r} are equal and are not"
    assert hash(a) == hash(a), f"the hash of {a!r} changes"
    if a == b:
        assert hash(a) == hash(b), f"{a!r} and {b!r} are equal, their hashes aren't"


def copies_are_equal(value: object) -> None:
    """
    A copy is equal and has the same hash: pickled under any protocol, shallow,
    and deep.
    """
    copies = [copy.copy(value), copy.deepcopy(value)]
    copies += [
        pickle.loads(pickle.dumps(value, protocol))  # noqa: S301 - our own
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    ]
    for one in copies:
        assert type(one) is type(value), f"a copy of {value!r} is a {type(one)}"
        assert is_same(one, value), f"a copy of {value!r} is {one!r}"
        assert hash(one) == hash(value), f"a copy of {value!r} has another hash"


def replacing_nothing_changes_nothing(message: Message) -> None:
    """``message.replace()`` is equal to the message, and shown the same."""
    same = message.replace()

    assert type(same) is type(message), f"{message!r} became {describe_type(same)}"
    assert same == message, f"{message!r} became {same!r}"
    assert str(same) == str(message), f"{message!s} became {same!s}"


# Chunks


def concat_of_one_is_itself(message: Message) -> None:
    """
    A message that is not in pieces is its own concatenation, and so is the result of
    joining one that is. Pieces that contradict each other are refused.
    """
    try:
        whole = concat([message])
    except ConcatError as error:
        numbers = [each.index for each in message.tool_calls if each.index is not None]
        if len({*numbers}) == len(numbers):
            wrong = f"{message!r} is refused, though it is whole: {error}"
            raise AssertionError(wrong) from error

        return

    calls, joined = message.tool_calls, whole.tool_calls

    assert concat([whole]) == whole, f"concatenating {whole!r} changes it"
    # If parts or calls were merged, the result is another message.
    if len(calls) == len(joined) and len(message.parts) == len(whole.parts):
        assert whole == message, f"concatenating {message!r} gives {whole!r}"


def concat_is_associative(chunks: Sequence[Message], at: int) -> None:
    """
    The order of joins does not matter: the chunks before *at* may be joined first, or
    those from there on.
    """
    whole = concat(chunks)
    before, after = chunks[:at], chunks[at:]

    if before:
        first = concat([concat(before), *after])
        assert first == whole, f"joining the first {at} gives {first!r}, not {whole!r}"

    if after:
        last = concat([*before, concat(after)])
        assert last == whole, f"joining from {at} on gives {last!r}, not {whole!r}"


def accumulators_concat(chunks: Sequence[Message]) -> None:
    """
    The message of an accumulator is equal to `concat` of its chunks after every chunk,
    and stays so.
    """
    moments = [Accumulator()]
    for chunk in chunks:
        moments.append(moments[-1].add(chunk))

    for count in (*range(1, len(moments), 2), *range(1, len(moments))):
        got, expected = moments[count].message, concat(chunks[:count])
        assert got == expected, f"after {count}: {got!r}, not {expected!r}"


# Views


def views_add_up(view: TrimContext) -> None:
    """
    The numbers of a view match its elements, and every message of the conversation is
    shown or dropped; it is both only if a summary replaces it.
    """
    elements, dropped = list(view.elements), list(view.dropped)
    shown, gone = [one.seq for one in elements], [one.seq for one in dropped]
    tokens = [view.counter(one.message) for one in elements]

    assert [one.message for one in elements] == list(view.messages), "other messages"
    assert len(elements) == len(view), "another size"
    assert [one.tokens for one in elements] == tokens, "elements weighed otherwise"
    assert view.total_tokens == sum(tokens), "another total"
    # A late result stands behind its call, and a made message is at the position of
    # what it was made for.
    others = [one.seq for one in elements if one.role != "tool"]
    assert others == sorted(others), "out of order"
    assert gone == sorted({*gone}), "dropped twice, or out of order"
    assert len(gone) == len(view.dropped), "another number of dropped ones"
    assert {*shown, *gone} == {*range(len(view.original))}, "not all accounted for"
    both = {one.seq for one in dropped if one.reason == COMPACTED}
    own = {one.seq for one in elements if not is_made(one.message)}
    assert own & {*gone} <= both, "shown and dropped"


# Requests


def requests_are_accepted(
    adapter: Any,
    wire: str,
    messages: Iterable[Message],
    *,
    rules: Rules | None = None,
    level: str = "strictest",
) -> None:
    """
    A provider accepts what *adapter* dumps of *messages*, by a judge that shares no
    code with it: `testing.provider.judge`.

    Args:
        adapter: What dumps them.
        wire: The wire, as `judge` calls it.
        messages: The messages of a request: the newest is a user's or a result, and no
            call waits.
        rules: As ``dump`` takes them. Without, those that are right for all known hosts
            but those of a dialect, which has to be named: Mistral, Perplexity, vLLM.
        level: As `judge` takes it.
    """
    payload = adapter.dump(messages, rules=rules).payload
    refusals = judge(wire, payload, level=level)
    assert not refusals, f"{refusals[0].rule.name}: {refusals[0]}"


_ORDER = {"orphaned result", "repeated result", "dangling call", "start"}


def views_fit(before: TrimContext, view: TrimContext) -> None:
    """
    What `fit` gives holds the budget, is valid in its order, ends with the newest
    message of the view *before*, and keeps the order of what that shows. Ids, names and
    empty messages are as they were, which `repair` before it mends.
    """
    if view.budget is not None:
        assert view.total_tokens <= view.budget.effective_input_limit, "over budget"

    forms = {(flaw.kind, flaw.seqs[-1]) for flaw in before.problems()}
    forms = {(kind, seq) for kind, seq in forms if kind not in _ORDER}
    flaws = [one for one in view.problems() if (one.kind, one.seqs[-1]) not in forms]
    assert flaws == [], f"not valid: {flaws}"
    assert [*view.messages][-1:] == [*before.messages][-1:], "lost the newest"
    rest = iter(before.elements)
    assert all(one in rest for one in view.elements if not is_made(one.message)), (
        "out of order"
    )


# Timelines and message trees


def timelines_add_up(timeline: Timeline[Any]) -> None:
    """
    The moments are numbered in the order of their commits, parents come before
    their children, and all that a timeline returns of its tree is of the same
    tree.
    """
    kept = list(timeline.moments)
    numbers = [moment.number for moment in kept]
    first = numbers[0]

    assert numbers == list(range(first, first + len(kept))), "numbers have gaps"
    for moment in kept:
        parent = moment.parent
        assert (parent is None) == (moment.number == 0), "another first moment"
        assert parent is None or 0 <= parent < moment.number, "a parent came later"

    present = timeline.moment
    assert present is kept[present.number - first], "the present is not kept"
    assert timeline.present is present.state, "the present state is another"
    # A commit that stays does not push the present out; only the next commit does.
    # There is no filter, because one may refuse a state that is equal to the present.
    if timeline.limit is not None and len(kept) > timeline.limit:
        later = timeline.with_filter(None).commit(present.state, "on")
        oldest, *_ = later.moments
        newest = later.moments[-timeline.limit :]
        is_spared = any(oldest.parent == each.parent for each in newest)
        most = timeline.limit * (1 + is_spared)
        assert len(later.moments) <= most, "kept too many"

    path = timeline.path
    assert path[-1] is present, "the path leads elsewhere"
    top = path[0].parent
    # If the limit has forgotten the moments above, a path begins below them.
    assert top is None or top < first, "the path begins too late"
    for above, below in pairwise(path):
        assert below.parent == above.number, "the path leaves the tree"
        assert timeline.goto(above).redo().moment is below, "redo goes elsewhere"

    parents = {moment.parent for moment in kept}
    tips = [moment for moment in kept if moment.number not in parents]
    assert tips == list(timeline.tips), "the tips are others"
    ahead = [moment for moment in kept if moment.parent == present.number]
    assert ahead == list(timeline.children()), "the children are others"
    assert timeline.can_redo == bool(ahead), "redo does not say where it goes"
    assert timeline.can_undo == (len(path) > 1), "undo does not say where it goes"


def undo_then_redo_is_the_identity(timeline: Timeline[Any]) -> None:
    """Redo after undo returns to the same moment; undoing nothing changes nothing."""
    undone = timeline.undo()
    if not timeline.can_undo:
        assert undone is timeline, "undid what is not there"
        return

    assert undone.moment.number == timeline.moment.parent, "undid something else"
    assert undone.redo() == timeline, f"{undone!r} redoes something else"


def redo_then_undo_is_the_identity(timeline: Timeline[Any]) -> None:
    """Undo after redo returns to the same moment; redoing nothing changes nothing."""
    redone = timeline.redo()
    if not timeline.can_redo:
        assert redone is timeline, "redid what is not there"
        return

    assert redone.moment in timeline.children(), "redid something else"
    assert redone.undo() == timeline, f"{redone!r} undoes something else"


def nothing_committed_is_lost(timeline: Timeline[S], states: Iterable[S]) -> None:
    """Without a limit, a commit on any moment keeps all moments, in their places."""
    assert timeline.limit is None, "a limit is for losing something"
    before = list(timeline.moments)
    for state in states:
        timeline = timeline.undo().commit(state, "new")
        kept = list(timeline.moments)

        assert kept[:-1] == before, "something is lost"
        assert kept[-1].state is state, "something else was committed"
        assert timeline.goto(before[0]).present is before[0].state, "can't go back"
        before = kept


def goto_changes_no_moments(timeline: Timeline[Any], number: int) -> None:
    """
    Going to any moment changes no moments, and going back from there restores the
    present and its path.
    """
    there = timeline.goto(number)
    back = there.goto(timeline.moment)

    assert there.moment.number == number, "went elsewhere"
    assert there.moments == timeline.moments, "going changes what is kept"
    assert back.moments == timeline.moments, "going changes what is kept"
    assert back.present is timeline.present, "came back to something else"
    assert back.path == timeline.path, "came back another way"
    assert back.goto(number) == there, "going again goes elsewhere"


def message_trees_add_up(tree: MessageTree) -> None:
    """
    Every message is listed once, after its parent and among its siblings; each path
    ends with its message and has the whole ledger; switching shows the message.
    """
    nodes = {node.id: node for node in tree.nodes}
    recorded = [entry for state in tree.states for entry in state.ledger]
    seen: set[str | None] = {None}
    for node in tree.nodes:
        assert node.parent in seen, "a parent came later"
        seen.add(node.id)
        is_first_of_several = node.id == node.entry.id and node.id in tree.joined
        exact = f"{node.id}~1" if is_first_of_several else node.id
        position, ids = tree.siblings(exact)
        assert ids[position] == node.id, "another position"
        assert len({*ids}) == len(ids), "a sibling twice"
        if node.parent is not None:
            assert nodes[node.parent].children == ids, "other siblings"

        path = tree.path(exact)
        assert path.entries[-1].id == node.entry.id, "a path leads elsewhere"
        assert path[-1] == node.message, "another message"
        # Where two states recorded different usages under one key, each keeps its own.
        keys = {entry.id for entry in path.ledger}
        assert {entry.id for entry in recorded} == keys, "another bill"
        assert {*recorded}.issuperset(path.ledger), "usage that no state recorded"
        switched = tree.switch(exact)
        shown = [entry.id for entry in switched.present.entries]
        assert node.entry.id in shown, "it is not shown"
        head = switched.head
        assert head is not None, "no head"
        assert switched.node(head).entry.id == shown[-1], "the head is not last"

    assert len(nodes) == len(tree) == len(tree.nodes), "a message twice"
    leaves = [each for each in nodes if not nodes[each].children]
    assert leaves == list(tree.leaves), "other leaves"
    assert (tree.head is None) == (len(tree.present) == 0), "a head without messages"


def paths_lead_to_states(*states: Aggregator) -> None:
    """
    Of states made by ``add``, ``fork``, ``rollback`` and ``before``, the path of each
    one's last entry has that state's messages, and no entry stands behind several.
    """
    tree = MessageTree.of(*states)
    message_trees_add_up(tree)
    assert not tree.joined, "an entry stands behind several"
    for state in states:
        last = state.entries[-1].id if len(state) else None
        assert tree.path(last).entries == state.entries, f"not the path of {state!r}"
        assert tree.add(state).present.entries == state.entries, "it is not shown"

    assert tree.present.entries == states[-1].entries, "the last state is not shown"


# Cells and branches


def histories_are_linear(
    first: object, changes: Iterable[tuple[Any, Any]], last: object
) -> None:
    """
    The changes that a watcher of a cell gets lead from the *first* value to the *last*;
    each change begins with the value that the change before ended with.
    """
    now = first
    for number, (old, new) in enumerate(changes):
        assert old is now, f"change {number} began with {old!r}, not with {now!r}"
        assert new is not old, f"change {number} changed nothing: {new!r}"
        now = new

    assert now is last, f"the changes led to {now!r}, not to {last!r}"


def fan_out_is_a_fold(
    state: Aggregator,
    steps: Sequence[Callable[[Aggregator], Aggregator]],
    *,
    executor: Executor | None = None,
) -> None:
    """
    Steps that run at once give what they give one after the other: the same
    messages in the same order, and the same bill, under the state's own id.

    Steps must be repeatable, since they are run twice.
    """
    once = fan_out(state, steps, executor=executor)
    folded = state.join(*[step(state.fork()) for step in steps])
    total = once.state.total_usage

    assert once.failures == (), f"steps failed: {once.failures}"
    assert list(once.state) == list(folded), "other messages, or in another order"
    assert total == folded.total_usage, f"billed {total}, not {folded.total_usage}"
    assert once.state.id == state.id, "the state got another id"
    assert once.state.init_len == state.init_len, "the state got another fork point"
    assert list(once.state)[: len(state)] == list(state), "the past changed"
