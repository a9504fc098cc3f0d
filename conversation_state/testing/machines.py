"""
Machines that grow states beside plain lists, and timelines beside plain trees,
and find where they part.

For Hypothesis: ``TestStates = AggregatorMachine.TestCase`` runs it. Whoever
keeps or ships states overrides `AggregatorMachine.carried` to run it over
their own way of doing so.

What lives here: laws over many steps. What does not: laws over one
(`laws`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, TypeVar
from uuid import UUID

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
)

from conversation_state.aggregator import Aggregator, Checkpoint, Turn, join
from conversation_state.counting import TokenBudget
from conversation_state.errors import (
    BudgetExceededError,
    CompactionError,
    InvalidTranscriptError,
    InvalidUsageError,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
)
from conversation_state.testing._timeline_machine import TimelineMachine
from conversation_state.testing.laws import (
    equal_values_hash_alike,
    states_add_up,
    views_add_up,
    views_fit,
)
from conversation_state.testing.strategies import (
    messages,
    texts,
    tool_calls,
    tool_messages,
    usages,
    uuids,
)
from conversation_state.tools import ToolCall
from conversation_state.trimming import (
    Dropped,
    Element,
    Step,
    TrimContext,
    clear_tool_results,
    compact,
    fit,
    keep_first_and_last,
    keep_last,
    repair,
    rolling_summary,
    shorten_tool_results,
)
from conversation_state.usage import Usage

__all__ = ["AggregatorMachine", "Kept", "TimelineMachine"]

V = TypeVar("V", Aggregator, Turn, Checkpoint)

Said = list[tuple[str, Message]]
Spent = dict[str, tuple[Usage, str]]


Seen = tuple[list[Element], list[Dropped], int]

STEPS: dict[str, Step] = {
    "keep_last": keep_last(3),
    "keep_first_and_last": keep_first_and_last(1, 2),
    "shorten_tool_results": shorten_tool_results(3, marker="…"),
    "clear_tool_results": clear_tool_results(keep=1, marker="…"),
    "compact": compact(range(1, 4), lambda said: f"{len(said)} messages"),
    "repair": repair(at_end=True),
    "rolling_summary": rolling_summary(20, 2, lambda said: f"{len(said)} messages"),
    "remove": lambda context: context.remove([0, 2]),
}


def _read_state(view: TrimContext) -> Seen:
    return list(view.elements), list(view.dropped), view.total_tokens


@attrs.frozen
class Kept:
    """
    A state, and all it should hold, as plain lists.

    Attributes:
        state: The state.

        id: Its id.

        parent: Its parent's id, or None.

        root: The id of the state that the first of its forks was taken from.

        said: Its messages, each with the identity of its append.

        spent: Its ledger: usage and model by identity, in order.

        init_len: How many of *said* it inherited.

        init_spent: How many of *spent* it inherited.
    """

    state: Aggregator
    id: UUID
    parent: UUID | None
    root: UUID
    said: Said
    spent: Spent
    init_len: int
    init_spent: int

    def grown(
        self,
        state: Aggregator,
        *,
        said: Iterable[tuple[str, Message]] = (),
        spent: Spent | None = None,
    ) -> Kept:
        """
        What this should be after *said* and *spent*, and the *state* it is.
        """
        return attrs.evolve(
            self,
            state=state,
            said=[*self.said, *said],
            spent={**self.spent, **(spent or {})},
        )

    def check(self) -> None:
        """
        The state is still what the lists say.
        """
        state = self.state
        assert (state.id, state.parent_id) == (self.id, self.parent), "another state"
        assert state.root_id == self.root, "of another root"
        assert state.init_len == self.init_len, "forked elsewhere"
        assert state.init_ledger_len == self.init_spent, "forked elsewhere"
        assert [tuple(entry) for entry in state.entries] == self.said, "said otherwise"
        ledger = {entry.id: (entry.usage, entry.model) for entry in state.ledger}
        assert list(ledger.items()) == list(self.spent.items()), "spent otherwise"
        total = sum([usage for usage, _ in self.spent.values()], Usage())
        assert state.total_usage == total, f"{state.total_usage}, not {total}"
        states_add_up(state)

    def told(self) -> tuple[object, ...]:
        """
        What makes two states equal.
        """
        lists = self.said, list(self.spent.items())
        origin = self.id, self.parent, self.root, self.init_len, self.init_spent
        return *origin, *lists


class _Added(NamedTuple):
    said: Said
    spent: Spent


class AggregatorMachine(RuleBasedStateMachine):
    """
    States grown by every verb, in every direction, and kept.

    Keeps all states it ever made, and grows any of them next: so values grow
    apart under one id, forks are forked, cousins meet twice, and parents join
    their grandchildren. Each is compared with a model of plain lists when it
    is made, and once more at the end, when it must be what it was.
    """

    states = Bundle[Kept]("states")

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Kept] = []
        self._views: list[tuple[TrimContext, Seen]] = []
        self._known: set[str] = set()

    def carried(self, value: V) -> V:
        """
        *value* after a journey that shares nothing with it; here, pickled.

        Called with states, turns and checkpoints. To be overridden.
        """
        copy: V = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own
        return copy

    def _remember_state(self, kept: Kept) -> Kept:
        kept.check()
        self._kept.append(kept)
        return kept

    def _add_message(self, kept: Kept, state: Aggregator, *said: Message) -> Kept:
        """
        *kept* with *said* under new identities.
        """
        ids = [entry.id for entry in state.entries][len(kept.said) :]
        assert len(ids) == len(said), f"added {len(said)} messages, got {len(ids)}"
        assert self._known.isdisjoint(ids), "an identity was handed out twice"
        assert len({*ids}) == len(ids), "an identity was handed out twice"
        self._known.update(ids)
        return self._remember_state(kept.grown(state, said=zip(ids, said, strict=True)))

    @initialize(target=states)
    def begin(self) -> Kept:
        """
        An empty root to start from.
        """
        state = Aggregator.new()
        return self._remember_state(Kept(state, state.id, None, state.id, [], {}, 0, 0))

    @rule(target=states, name=uuids(), said=st.lists(messages(), max_size=3))
    def new(self, name: UUID, said: list[Message]) -> Kept:
        """
        Another root, which has nothing to do with the others.
        """
        state = Aggregator.new(id=name, messages=said)
        return self._add_message(
            Kept(state, name, None, name, [], {}, 0, 0), state, *said
        )

    @rule(target=states, kept=states, message=messages())
    def add(self, kept: Kept, message: Message) -> Kept:
        """
        One message of any kind.
        """
        return self._add_message(kept, kept.state.add(message), message)

    @rule(target=states, kept=states, text=texts())
    def add_texts(self, kept: Kept, text: str) -> Kept:
        """
        A prompt and its answer, by the verbs that take texts.
        """
        state = kept.state.add_user_prompt(text).add_assistant_message(text)
        return self._add_message(kept, state, UserMessage(text), AssistantMessage(text))

    @rule(
        target=states,
        kept=states,
        calls=st.lists(tool_calls(), min_size=1, max_size=2),
        result=tool_messages(),
    )
    def add_tools(self, kept: Kept, calls: list[ToolCall], result: ToolMessage) -> Kept:
        """
        Calls and a result.
        """
        state = kept.state.add_tool_call(*calls).add_tool_response(result)
        return self._add_message(
            kept, state, AssistantMessage(tool_calls=calls), result
        )

    @rule(target=states, kept=states, said=st.lists(messages(), max_size=3))
    def extend(self, kept: Kept, said: list[Message]) -> Kept:
        """
        Several messages, or none, which is the same state.
        """
        state = kept.state.extend(said)
        assert said or state is kept.state, "nothing was added, and made another state"
        return self._add_message(kept, state, *said)

    @rule(
        target=states,
        kept=states,
        message=messages(),
        times=st.integers(1, 70),
        at_once=st.booleans(),
    )
    def repeat(
        self,
        kept: Kept,
        message: Message,
        times: int,
        at_once: bool,  # noqa: FBT001 - drawn
    ) -> Kept:
        """
        One message many times, past the borders of the log's blocks.
        """
        state = kept.state
        if at_once:
            state = state.extend([message] * times)
        else:
            for _ in range(times):
                state = state.add(message)

        return self._add_message(kept, state, *[message] * times)

    @rule(target=states, kept=states, usage=usages(), model=texts(max_size=3))
    def add_usage(self, kept: Kept, usage: Usage, model: str) -> Kept:
        """
        A usage without a key, under an identity that nobody had before.
        """
        assert kept.state.add_usage(None) is kept.state, "None was spent"
        state = kept.state.add_usage(usage, model=model)
        paid = state.ledger[-1].id
        assert paid not in self._known, "an identity was handed out twice"
        self._known.add(paid)
        return self._remember_state(kept.grown(state, spent={paid: (usage, model)}))

    @rule(
        target=states,
        kept=states,
        key=st.sampled_from(["first request", "second request"]),
        usage=st.sampled_from([Usage(10, 5), Usage(1)]),
        model=st.sampled_from(["", "", "another"]),
    )
    def add_usage_once(self, kept: Kept, key: str, usage: Usage, model: str) -> Kept:
        """
        A usage under a key: new, paid just so, or paid otherwise and refused.
        """
        paid = kept.spent.get(key)
        try:
            state = kept.state.add_usage(usage, key=key, model=model)
        except InvalidUsageError:
            assert paid is not None, "refused, though nothing was paid"
            assert paid != (usage, model), "refused, though just that was paid"
            return kept

        assert paid in {None, (usage, model)}, "paid twice under one key"
        assert paid is None or state is kept.state, "a no-op made another state"
        return self._remember_state(kept.grown(state, spent={key: (usage, model)}))

    def _fork_state(self, kept: Kept, fork: Aggregator, at: int) -> Kept:
        assert str(fork.id) not in self._known, "an id was handed out twice"
        self._known.add(str(fork.id))
        said, spent = kept.said[:at], kept.spent
        return self._remember_state(
            Kept(fork, fork.id, kept.id, kept.root, said, spent, at, len(spent))
        )

    @rule(target=states, kept=states)
    def fork(self, kept: Kept) -> Kept:
        """
        A fork from the end.
        """
        return self._fork_state(kept, kept.state.fork(), len(kept.said))

    @rule(target=states, kept=states, data=st.data())
    def fork_earlier(self, kept: Kept, data: st.DataObject) -> Kept:
        """
        A fork from anywhere.
        """
        at = data.draw(st.integers(0, len(kept.said)), "at")
        return self._fork_state(kept, kept.state.fork(at=at), at)

    def _join_states(
        self, kept: Kept, joined: Aggregator, *others: Kept | _Added
    ) -> Kept:
        """
        *kept* with what *others* have and it lacks.
        """
        said, spent = list(kept.said), dict(kept.spent)
        for other in others:
            ids = {one[0] for one in said}
            said += [one for one in other.said if one[0] not in ids]
            for key, paid in other.spent.items():
                spent.setdefault(key, paid)

        nothing_new = len(said) == len(kept.said) and len(spent) == len(kept.spent)
        assert (joined is kept.state) == nothing_new, "a join made a needless state"
        return self._remember_state(
            attrs.evolve(kept, state=joined, said=said, spent=spent)
        )

    @rule(target=states, kept=states, other=states)
    def join(self, kept: Kept, other: Kept) -> Kept:
        """
        Any two states, related or not, and once more.
        """
        both = self._join_states(kept, kept.state.join(other.state), other)
        assert both.state.join(other.state, kept.state) is both.state, "joined twice"
        return both

    @rule(target=states, kept=states, one=states, two=states)
    def join_several(self, kept: Kept, one: Kept, two: Kept) -> Kept:
        """
        Any three at once, by the function.
        """
        return self._join_states(kept, join(kept.state, one.state, two.state), one, two)

    @rule(target=states, kept=states, one=messages(), two=messages())
    def grow_apart(self, kept: Kept, one: Message, two: Message) -> Kept:
        """
        Two values under one id, which are branches too: a join keeps both.
        """
        ours = self._add_message(kept, kept.state.add(one), one)
        theirs = self._add_message(kept, kept.state.add(two), two)
        return self._join_states(ours, ours.state.join(theirs.state), theirs)

    @rule(target=states, kept=states, one=messages(), two=messages())
    def meet_twice(self, kept: Kept, one: Message, two: Message) -> Kept:
        """
        A diamond: what two branches share comes back once.
        """
        left = self._fork_state(kept, kept.state.fork(), len(kept.said))
        right = self._fork_state(kept, kept.state.fork(), len(kept.said))
        left = self._add_message(left, left.state.add(one), one)
        right = self._add_message(right, right.state.add(two), two)
        right = self._join_states(right, right.state.join(left.state), left)
        return self._join_states(
            kept, kept.state.join(left.state, right.state), left, right
        )

    @rule(target=states, kept=states)
    def carry(self, kept: Kept) -> Kept:
        """
        A copy that was somewhere else; it grows and joins like the original.
        """
        copy = self.carried(kept.state)
        assert copy == kept.state, "changed on the way"
        assert hash(copy) == hash(kept.state), "changed its hash on the way"
        return self._remember_state(attrs.evolve(kept, state=copy))

    def _added_by(self, source: Kept) -> _Added:
        """
        What *source* said and spent since its fork.
        """
        spent = dict(list(source.spent.items())[source.init_spent :])
        return _Added(source.said[source.init_len :], spent)

    @rule(target=states, kept=states, source=states, far=st.booleans())
    def join_turn(self, kept: Kept, source: Kept, far: bool) -> Kept:  # noqa: FBT001 - drawn
        """
        Any state's turn into any other, here or from *far* away; once more
        changes nothing.
        """
        turn = self.carried(source.state.turn) if far else source.state.turn
        both = self._join_states(kept, kept.state.join(turn), self._added_by(source))
        assert both.state.join(turn) is both.state, "joined a turn twice"
        return both

    @rule(target=states, kept=states, source=states, label=texts(), far=st.booleans())
    def merge(
        self,
        kept: Kept,
        source: Kept,
        label: str,
        far: bool,  # noqa: FBT001 - drawn
    ) -> Kept:
        """
        Any state's checkpoint into any other, here or from *far* away.
        """
        made = source.state.checkpoint(label)
        made = self.carried(made) if far else made
        assert made.label == label, "another label"
        return self._join_states(
            kept, made.merge_into(kept.state), self._added_by(source)
        )

    @rule(target=states, kept=states, label=texts(), far=st.booleans())
    def restore(self, kept: Kept, label: str, far: bool) -> Kept:  # noqa: FBT001 - drawn
        """
        A state from its checkpoint, to go on from.
        """
        made = kept.state.checkpoint(label)
        made = self.carried(made) if far else made
        assert made.restore() == kept.state, "another state was restored"
        return self._remember_state(attrs.evolve(kept, state=made.restore()))

    @rule(target=states, kept=states, to=states)
    def roll_back(self, kept: Kept, to: Kept) -> Kept:
        """
        Back to any state that has anything in common: its messages, and the
        ledger of both.
        """
        if not kept.state.is_related_to(to.state):
            with suppress(ValueError):
                kept.state.rollback(to.state)
                msg = "went back to another conversation"
                raise AssertionError(msg)

            return kept

        return self._join_states(
            to, kept.state.rollback(to.state), _Added([], kept.spent)
        )

    @rule(target=states, kept=states, share=st.floats(0, 1), by_id=st.booleans())
    def go_back(self, kept: Kept, share: float, by_id: bool) -> Kept:  # noqa: FBT001 - drawn
        """
        Back to an earlier place in the state itself: the whole ledger stays.
        """
        count = int(share * len(kept.said))
        by_id = by_id and count > 0
        state = kept.state.rollback(kept.said[count - 1][0] if by_id else count)
        if count < len(kept.said):
            before = kept.state.before(kept.said[count][0])
            assert before == state, "before an entry is not after the one before it"

        said, init_len = kept.said[:count], min(kept.init_len, count)
        return self._remember_state(
            attrs.evolve(kept, state=state, said=said, init_len=init_len)
        )

    @rule(one=states, two=states)
    def compare(self, one: Kept, two: Kept) -> None:
        """
        Equal if, and only if, the model says so; related if anything is common.
        """
        assert (one.state == two.state) == (one.told() == two.told()), "not equal"
        equal_values_hash_alike(one.state, two.state)
        if not {key for key, _ in one.said}.isdisjoint(key for key, _ in two.said):
            assert one.state.is_related_to(two.state), "they have a past in common"

    @rule(
        kept=states,
        names=st.lists(st.sampled_from(sorted(STEPS)), max_size=3),
        limit=st.integers(0, 200),
        slack=st.integers(0, 50),
    )
    def view(self, kept: Kept, names: list[str], limit: int, slack: int) -> None:
        """
        Any steps, then a `fit` to any budget: its guarantees hold, the account
        is kept, and so is every view on the way.
        """
        context = TrimContext.of(kept.state, TokenBudget(context_window=limit))
        for name in [*names, "fit"]:
            step = fit(slack=slack) if name == "fit" else STEPS[name]
            before = context
            try:
                context = step(context)
            except (BudgetExceededError, CompactionError, InvalidTranscriptError):
                continue

            views_add_up(context)
            assert list(context.original) == [one for _, one in kept.said], "lost"
            self._views.append((context, _read_state(context)))
            if name == "fit":
                views_fit(before, context)

    def teardown(self) -> None:
        """
        All states and views that were ever made are what they were.
        """
        for kept in self._kept:
            kept.check()

        for view, seen in self._views:
            assert _read_state(view) == seen, "a view changed"
