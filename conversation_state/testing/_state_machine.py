"""
States, compared step by step with plain lists; part of `machines`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TypeAlias, TypeVar
from uuid import UUID

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from conversation_state.aggregator import Aggregator, Checkpoint, Turn, join
from conversation_state.errors import (
    InvalidUsageError,
)
from conversation_state.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    UserMessage,
)
from conversation_state.testing._comparison import is_same
from conversation_state.testing.laws import equal_values_hash_alike, states_add_up
from conversation_state.testing.strategies import (
    messages,
    texts,
    timestamps,
    tool_calls,
    tool_messages,
    usages,
    uuids,
)
from conversation_state.tools import ToolCall
from conversation_state.usage import Usage

V = TypeVar("V", Aggregator, Turn, Checkpoint)

Recorded: TypeAlias = tuple[Usage, str, datetime | None]


@attrs.frozen
class StateModel:
    """
    A state, and what it should be: messages, each after the identity of its append,
    and usages with their models and times by identity, both in order.
    """

    state: Aggregator
    id: UUID
    parent: UUID | None
    root: UUID
    entries: list[tuple[str, Message]] = attrs.field(factory=list)
    ledger: dict[str, Recorded] = attrs.field(factory=dict)
    init_len: int = 0
    init_ledger_len: int = 0

    def add(
        self,
        state: Aggregator,
        *,
        entries: Iterable[tuple[str, Message]] = (),
        ledger: Mapping[str, Recorded] | None = None,
    ) -> StateModel:
        """
        The model of *state*: this one, with those of *entries* and *ledger* that it
        lacks.
        """
        known = {entry[0] for entry in self.entries}
        return attrs.evolve(
            self,
            state=state,
            entries=[
                *self.entries,
                *[entry for entry in entries if entry[0] not in known],
            ],
            # The usage that was recorded first is kept, in its position.
            ledger=self.ledger | {**(ledger or {}), **self.ledger},
        )

    def added(self) -> StateModel:
        """
        The model of its turn: what was added since the fork.
        """
        return attrs.evolve(
            self,
            entries=self.entries[self.init_len :],
            ledger=dict([*self.ledger.items()][self.init_ledger_len :]),
        )

    def check(self) -> None:
        """
        The state is still equal to the lists.
        """
        state = self.state
        assert (state.id, state.parent_id) == (self.id, self.parent), "another state"
        assert state.root_id == self.root, "of another root"
        assert state.init_len == self.init_len, "forked elsewhere"
        assert state.init_ledger_len == self.init_ledger_len, "forked elsewhere"
        assert [tuple(entry) for entry in state.entries] == self.entries, "messages"
        ledger = [(entry.id, entry[1:]) for entry in state.ledger]
        assert ledger == [*self.ledger.items()], "another ledger"
        total = sum([usage for usage, *_ in self.ledger.values()], Usage())
        assert state.total_usage == total, f"{state.total_usage}, not {total}"
        states_add_up(state)

    def equals(self, other: StateModel) -> bool:
        """
        Whether the states should be equal.
        """
        # Compared as lists: dicts are equal in any order.
        return [*self.ledger.items()] == [*other.ledger.items()] and attrs.evolve(
            self, state=other.state
        ) == other


class AggregatorMachine(RuleBasedStateMachine):
    """
    States grown by every verb, in every direction, and kept.

    Keeps all states it ever made, and grows any of them next: so values grow
    apart under one id, forks are forked, cousins meet twice, and parents join
    their grandchildren. Each is compared with a model of plain lists when it
    is made, and once more at the end, when it must be what it was.
    """

    states = Bundle[StateModel]("states")

    def __init__(self) -> None:
        super().__init__()
        self._models: list[StateModel] = []
        self._known_ids: set[str] = set()

    def carried(self, value: V) -> V:
        """
        *value* after a journey that shares nothing with it; here, pickled.

        Called with states, turns and checkpoints. To be overridden.
        """
        copy: V = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own
        return copy

    def _check_state(self, model: StateModel) -> StateModel:
        model.check()
        # Kept for the end: a verb that changes a part which two states share is seen
        # in the older one only.
        self._models.append(model)
        return model

    def _check_new_ids(self, *ids: str) -> None:
        # Checked here, not in the model, which has one state only.
        # Identities are unique in the whole run, because a join merges entries of one
        # identity.
        assert self._known_ids.isdisjoint(ids), "an identity was handed out twice"
        assert len({*ids}) == len(ids), "an identity was handed out twice"
        self._known_ids.update(ids)

    def _check_added(
        self, before: StateModel, state: Aggregator, *added: Message
    ) -> StateModel:
        """
        *state* is the one *before* with *added* under new identities.
        """
        ids = [entry.id for entry in state.entries][len(before.entries) :]
        assert len(ids) == len(added), f"added {len(added)} messages, got {len(ids)}"
        self._check_new_ids(*ids)
        entries = zip(ids, added, strict=True)
        return self._check_state(before.add(state, entries=entries))

    def _check_fork(self, before: StateModel, fork: Aggregator, at: int) -> StateModel:
        self._check_new_ids(str(fork.id))
        entries, ledger = before.entries[:at], before.ledger
        lengths = at, len(ledger)
        return self._check_state(
            StateModel(fork, fork.id, before.id, before.root, entries, ledger, *lengths)
        )

    def _check_joined(
        self, before: StateModel, joined: Aggregator, *others: StateModel
    ) -> StateModel:
        """
        *joined* is the one *before* with what *others* have and it lacks.
        """
        after = attrs.evolve(before, state=joined)
        for other in others:
            after = after.add(joined, entries=other.entries, ledger=other.ledger)

        # Callers use `is` to find out whether a join added anything, and then save or
        # notify.
        assert (joined is before.state) == after.equals(before), (
            "a join made a needless state"
        )
        return self._check_state(after)

    @initialize(target=states)
    def begin(self) -> StateModel:
        state = Aggregator.new()
        return self._check_state(StateModel(state, state.id, None, state.id))

    @rule(target=states, name=uuids(), added=st.lists(messages(), max_size=3))
    def new(self, name: UUID, added: list[Message]) -> StateModel:
        """
        Another root, which has nothing to do with the others.
        """
        # The id is drawn, so two of these states may have the same one.
        state = Aggregator.new(id=name, messages=added)
        return self._check_added(StateModel(state, name, None, name), state, *added)

    @rule(target=states, before=states, text=texts())
    def add_texts(self, before: StateModel, text: str) -> StateModel:
        state = before.state.add_user_prompt(text).add_assistant_message(text)
        added = UserMessage(text), AssistantMessage(text)
        return self._check_added(before, state, *added)

    @rule(
        target=states,
        before=states,
        calls=st.lists(tool_calls(), min_size=1, max_size=2),
        result=tool_messages(),
    )
    def add_tools(
        self, before: StateModel, calls: list[ToolCall], result: ToolMessage
    ) -> StateModel:
        state = before.state.add_tool_call(*calls).add_tool_response(result)
        return self._check_added(
            before, state, AssistantMessage(tool_calls=calls), result
        )

    @rule(
        target=states,
        before=states,
        added=st.lists(messages(), max_size=3),
        times=st.integers(1, 20),
    )
    def extend(
        self, before: StateModel, added: list[Message], times: int
    ) -> StateModel:
        """
        Several messages, or none, which is the same state.
        """
        added *= times
        state = before.state.extend(added)
        assert added or state is before.state, "nothing added made another state"
        return self._check_added(before, state, *added)

    @rule(target=states, before=states, message=messages(), times=st.integers(1, 70))
    def add(self, before: StateModel, message: Message, times: int) -> StateModel:
        """
        One message, or the same one many times, across the borders of the log's blocks.
        """
        state = before.state
        for _ in range(times):
            state = state.add(message)

        return self._check_added(before, state, *[message] * times)

    @rule(target=states, before=states, usage=usages(), model=texts(max_size=3))
    def add_usage(self, before: StateModel, usage: Usage, model: str) -> StateModel:
        assert before.state.add_usage(None) is before.state, "None was recorded"
        state = before.state.add_usage(usage, model=model)
        key, *_, time = state.ledger[-1]
        assert time is not None, "recorded at no time"
        self._check_new_ids(key)
        return self._check_state(before.add(state, ledger={key: (usage, model, time)}))

    @rule(
        target=states,
        before=states,
        key=st.sampled_from(["first request", "second request"]),
        usage=st.sampled_from([Usage(10, 5), Usage(1)]),
        model=st.sampled_from(["", "", "another"]),
        time=timestamps(),
    )
    def add_usage_once(
        self, before: StateModel, key: str, usage: Usage, model: str, time: datetime
    ) -> StateModel:
        """
        A usage under a key: new, repeated at any time, or refused as a conflict.
        """
        recorded = before.ledger.get(key)
        try:
            state = before.state.add_usage(usage, key=key, model=model, at=time)
        except InvalidUsageError:
            assert recorded is not None, "refused, though the key is new"
            assert recorded[:2] != (usage, model), "refused, though it is the same"
            return before

        if recorded is not None:
            assert recorded[:2] == (usage, model), "two usages under one key"
            assert state is before.state, "a no-op made another state"

        return self._check_state(before.add(state, ledger={key: (usage, model, time)}))

    @rule(target=states, before=states, data=st.data())
    def fork(self, before: StateModel, data: st.DataObject) -> StateModel:
        end = len(before.entries)
        at = data.draw(st.none() | st.integers(0, end), "at")
        fork = before.state.fork(at=at)
        return self._check_fork(before, fork, end if at is None else at)

    @rule(target=states, before=states, other=states)
    def join(self, before: StateModel, other: StateModel) -> StateModel:
        both = self._check_joined(before, before.state.join(other.state), other)
        again = both.state.join(other.state, before.state)
        assert again is both.state, "joined twice"
        return both

    @rule(target=states, before=states, one=states, two=states)
    def join_several(
        self, before: StateModel, one: StateModel, two: StateModel
    ) -> StateModel:
        joined = join(before.state, one.state, two.state)
        return self._check_joined(before, joined, one, two)

    @rule(target=states, before=states, one=messages(), two=messages())
    def grow_apart(self, before: StateModel, one: Message, two: Message) -> StateModel:
        """
        Two values under one id, which are branches too: a join keeps both.
        """
        # Both keep the id of the state; only the identities of their entries differ.
        left = self._check_added(before, before.state.add(one), one)
        right = self._check_added(before, before.state.add(two), two)
        return self._check_joined(left, left.state.join(right.state), right)

    @rule(target=states, before=states, one=messages(), two=messages())
    def meet_twice(self, before: StateModel, one: Message, two: Message) -> StateModel:
        """
        A diamond: what two branches share comes back once.
        """
        at = len(before.entries)
        left = self._check_fork(before, before.state.fork(), at)
        right = self._check_fork(before, before.state.fork(), at)
        left = self._check_added(left, left.state.add(one), one)
        right = self._check_added(right, right.state.add(two), two)
        right = self._check_joined(right, right.state.join(left.state), left)
        joined = before.state.join(left.state, right.state)
        return self._check_joined(before, joined, left, right)

    @rule(target=states, before=states)
    def carry(self, before: StateModel) -> StateModel:
        """
        A copy that was somewhere else; it grows and joins like the original.
        """
        copy = self.carried(before.state)
        assert is_same(copy, before.state), "changed on the way"
        assert hash(copy) == hash(before.state), "changed its hash on the way"
        return self._check_state(attrs.evolve(before, state=copy))

    @rule(target=states, before=states, source=states, far=st.booleans())
    def join_turn(
        self, before: StateModel, source: StateModel, far: bool
    ) -> StateModel:
        """
        Any state's turn into any other, here or from *far* away; once more
        changes nothing.
        """
        turn = self.carried(source.state.turn) if far else source.state.turn
        both = self._check_joined(before, before.state.join(turn), source.added())
        assert both.state.join(turn) is both.state, "joined a turn twice"
        return both

    @rule(target=states, before=states, source=states, label=texts(), far=st.booleans())
    def merge(
        self, before: StateModel, source: StateModel, label: str, far: bool
    ) -> StateModel:
        """
        Any state's checkpoint into any other, here or from *far* away.
        """
        checkpoint = self._make_checkpoint(source, label, far=far)
        assert checkpoint.label == label, "another label"
        merged = checkpoint.merge_into(before.state)
        return self._check_joined(before, merged, source.added())

    @rule(target=states, before=states, label=texts(), far=st.booleans())
    def restore(self, before: StateModel, label: str, far: bool) -> StateModel:
        state = self._make_checkpoint(before, label, far=far).restore()
        assert state == before.state, "another state was restored"
        return self._check_state(attrs.evolve(before, state=state))

    def _make_checkpoint(
        self, model: StateModel, label: str, *, far: bool
    ) -> Checkpoint:
        checkpoint = model.state.checkpoint(label)
        return self.carried(checkpoint) if far else checkpoint

    @rule(target=states, before=states, to=states)
    def roll_back(self, before: StateModel, to: StateModel) -> StateModel:
        """
        Back to any state that has anything in common: its messages, and the
        ledger of both.
        """
        if not before.state.is_related_to(to.state):
            with suppress(ValueError):
                before.state.rollback(to.state)
                raise AssertionError("went back to another conversation")

            return before

        ledger = attrs.evolve(before, entries=[])
        return self._check_joined(to, before.state.rollback(to.state), ledger)

    @rule(target=states, before=states, share=st.floats(0, 1), by_id=st.booleans())
    def go_back(self, before: StateModel, share: float, by_id: bool) -> StateModel:
        """
        Back to an earlier place in the state itself: the whole ledger stays.
        """
        state, entries = before.state, before.entries
        # A fraction of the length, because the state is drawn in the same step and its
        # length is not known here.
        count = int(share * len(entries))
        back = state.rollback(entries[count - 1][0] if by_id and count else count)
        if count < len(entries):
            same = state.before(entries[count][0])
            assert same == back, "before an entry is not after the one before it"

        return self._check_state(
            attrs.evolve(
                before,
                state=back,
                entries=entries[:count],
                init_len=min(before.init_len, count),
            )
        )

    @rule(one=states, two=states)
    def compare(self, one: StateModel, two: StateModel) -> None:
        """
        Two states are equal only if their models are, and related if they have anything
        in common.
        """
        assert (one.state == two.state) == one.equals(two), "not equal"
        equal_values_hash_alike(one.state, two.state)
        if not {key for key, _ in one.entries}.isdisjoint(
            key for key, _ in two.entries
        ):
            assert one.state.is_related_to(two.state), "they have a past in common"

    def teardown(self) -> None:
        """
        All states that were ever made are what they were.
        """
        for model in self._models:
            model.check()
