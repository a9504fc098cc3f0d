"""
States, compared step by step with plain lists; part of `machines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import reduce
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from conversation_state.aggregator import Aggregator, join
from conversation_state.errors import InvalidUsageError
from conversation_state.messages import Message
from conversation_state.testing._comparison import is_same, unpickled
from conversation_state.testing.laws import equal_values_hash_alike, states_add_up
from conversation_state.testing.strategies import (
    messages,
    texts,
    timestamps,
    usages,
    uuids,
)
from conversation_state.usage import Usage

T = TypeVar("T")
Recorded: TypeAlias = tuple[Usage, str, datetime | None]


class ModelMachine(RuleBasedStateMachine):
    """
    Values beside models of them: compared when they are made, and at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._models: list[Any] = []

    def carried(self, value: T) -> T:
        """
        *value* after a journey that shares nothing with it; here, pickled.

        To be overridden.
        """
        return unpickled(value)

    def check_model(self, model: T) -> T:
        checked: Any = model
        checked.check()
        # Kept for the end: a verb that changes a part which two values share is seen
        # in the older one only.
        self._models.append(checked)
        return model

    def teardown(self) -> None:
        """
        All values that were ever made are what they were.
        """
        for model in self._models:
            model.check()


@attrs.frozen
class _StateModel:
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
    ) -> _StateModel:
        """
        The model of *state*: this one, with those of *entries* and *ledger* that it
        lacks.
        """
        known = {entry[0] for entry in self.entries}
        new = [entry for entry in entries if entry[0] not in known]
        # The usage that was recorded first is kept, in its position.
        both = self.ledger | {**(ledger or {}), **self.ledger}
        return attrs.evolve(
            self, state=state, entries=[*self.entries, *new], ledger=both
        )

    def added(self) -> _StateModel:
        """
        The model of its turn: what was added since the fork.
        """
        ledger = dict([*self.ledger.items()][self.init_ledger_len :])
        return attrs.evolve(self, entries=self.entries[self.init_len :], ledger=ledger)

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
        states_add_up(state)

    def equals(self, other: _StateModel) -> bool:
        """
        Whether the states should be equal.
        """
        # Compared as lists: dicts are equal in any order.
        return [*self.ledger.items()] == [*other.ledger.items()] and attrs.evolve(
            self, state=other.state
        ) == other


class AggregatorMachine(ModelMachine):
    """
    States grown by every verb, in every direction, and kept.

    Keeps all states it ever made, and grows any of them next: so values grow
    apart under one id, forks are forked, cousins meet twice, and parents join
    their grandchildren. Each is compared with a model of plain lists when it
    is made, and once more at the end, when it must be what it was.
    Calls `carried` with states, turns and checkpoints.
    """

    states = Bundle[_StateModel]("states")

    def __init__(self) -> None:
        super().__init__()
        self._known_ids: set[str] = set()

    def _check_new_ids(self, *ids: str) -> None:
        # Identities are unique in the whole run, because a join merges entries of one
        # identity.
        assert self._known_ids.isdisjoint(ids), "an identity was handed out twice"
        assert len({*ids}) == len(ids), "an identity was handed out twice"
        self._known_ids.update(ids)

    def _check_added(
        self, before: _StateModel, state: Aggregator, *added: Message
    ) -> _StateModel:
        """
        *state* is the one *before* with *added* under new identities.
        """
        ids = [entry.id for entry in state.entries][len(before.entries) :]
        assert len(ids) == len(added), f"added {len(added)} messages, got {len(ids)}"
        self._check_new_ids(*ids)
        entries = zip(ids, added, strict=True)
        return self.check_model(before.add(state, entries=entries))

    def _check_joined(
        self, before: _StateModel, joined: Aggregator, *others: _StateModel
    ) -> _StateModel:
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
        return self.check_model(after)

    @initialize(target=states)
    def begin(self) -> _StateModel:
        state = Aggregator.new()
        return self.check_model(_StateModel(state, state.id, None, state.id))

    @rule(target=states, id=uuids(), added=st.lists(messages(), max_size=3))
    def new(self, id: UUID, added: list[Message]) -> _StateModel:
        """
        Another root, which has nothing to do with the others, but for its id perhaps.
        """
        state = Aggregator.new(id=id, messages=added)
        return self._check_added(_StateModel(state, id, None, id), state, *added)

    @rule(
        target=states,
        before=states,
        added=st.lists(messages(), max_size=3),
        times=st.integers(1, 40),
        at_once=st.booleans(),
    )
    def extend(
        self, before: _StateModel, added: list[Message], times: int, at_once: bool
    ) -> _StateModel:
        """
        Several messages, at once or one by one, across the borders of the log's blocks;
        or none, which is the same state.
        """
        added *= times
        state = before.state
        state = state.extend(added) if at_once else reduce(Aggregator.add, added, state)
        assert added or state is before.state, "nothing added made another state"
        return self._check_added(before, state, *added)

    @rule(
        target=states,
        before=states,
        key=st.none() | st.sampled_from(["first request", "second request"]),
        usage=st.sampled_from([Usage(10, 5), Usage(1)]) | usages(),
        model=st.sampled_from(["", "", "another"]),
        time=st.none() | timestamps(),
    )
    def add_usage(
        self,
        before: _StateModel,
        key: str | None,
        usage: Usage,
        model: str,
        time: datetime | None,
    ) -> _StateModel:
        """
        A usage: new, repeated under its key at any time, or refused as a conflict.
        """
        assert before.state.add_usage(None, key=key) is before.state, "None was added"
        recorded = before.ledger.get(key or "")
        try:
            state = before.state.add_usage(usage, key=key, model=model, at=time)
        except InvalidUsageError:
            assert recorded is not None, "refused, though the key is new"
            assert recorded[:2] != (usage, model), "refused, though it is the same"
            return before

        if recorded is not None:
            assert recorded[:2] == (usage, model), "two usages under one key"
            assert state is before.state, "a no-op made another state"
            return before

        entry = state.ledger[-1]
        assert entry.at is not None, "recorded at no time"
        if key is None:
            self._check_new_ids(entry.id)

        new = {key or entry.id: (usage, model, time or entry.at)}
        return self.check_model(before.add(state, ledger=new))

    @rule(target=states, before=states, share=st.none() | st.floats(0, 1))
    def fork(self, before: _StateModel, share: float | None) -> _StateModel:
        at = None if share is None else int(share * len(before.entries))
        fork = before.state.fork(at=at)
        self._check_new_ids(str(fork.id))
        entries, ledger = before.entries[:at], before.ledger
        lengths = len(entries), len(ledger)
        return self.check_model(
            _StateModel(
                fork, fork.id, before.id, before.root, entries, ledger, *lengths
            )
        )

    @rule(target=states, before=states, one=states, two=states)
    def join(
        self, before: _StateModel, one: _StateModel, two: _StateModel
    ) -> _StateModel:
        """
        Any other two states, one after the other or at once; once more changes nothing.
        """
        first = self._check_joined(before, before.state.join(one.state), one)
        both = self._check_joined(first, first.state.join(two.state), two)
        again = both.state.join(two.state, one.state, before.state)
        assert again is both.state, "joined twice"
        at_once = join(before.state, one.state, two.state)
        return self._check_joined(before, at_once, one, two)

    @rule(target=states, before=states)
    def carry(self, before: _StateModel) -> _StateModel:
        """
        A copy that was somewhere else; it grows and joins like the original.
        """
        copy = self.carried(before.state)
        assert is_same(copy, before.state), "changed on the way"
        assert hash(copy) == hash(before.state), "changed its hash on the way"
        return self.check_model(attrs.evolve(before, state=copy))

    @rule(target=states, before=states, source=states, label=texts(), far=st.booleans())
    def bring(
        self, before: _StateModel, source: _StateModel, label: str, far: bool
    ) -> _StateModel:
        """
        Any state's turn into any other, and a checkpoint, here or from *far* away.
        """
        turn, checkpoint = source.state.turn, source.state.checkpoint(label)
        if far:
            turn, checkpoint = self.carried(turn), self.carried(checkpoint)

        both = self._check_joined(before, before.state.join(turn), source.added())
        assert both.state.join(turn) is both.state, "joined a turn twice"
        assert checkpoint.label == label, "another label"
        assert checkpoint.restore() == source.state, "another state was restored"
        merged = checkpoint.merge_into(before.state)
        return self._check_joined(before, merged, source.added())

    @rule(target=states, before=states, to=states)
    def roll_back(self, before: _StateModel, to: _StateModel) -> _StateModel:
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
    def go_back(self, before: _StateModel, share: float, by_id: bool) -> _StateModel:
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

        init_len = min(before.init_len, count)
        return self.check_model(
            attrs.evolve(before, state=back, entries=entries[:count], init_len=init_len)
        )

    @rule(one=states, two=states)
    def compare(self, one: _StateModel, two: _StateModel) -> None:
        """
        Two states are equal only if their models are, and related if they have anything
        in common.
        """
        assert (one.state == two.state) == one.equals(two), "not equal"
        equal_values_hash_alike(one.state, two.state)
        if {key for key, _ in one.entries} & {key for key, _ in two.entries}:
            assert one.state.is_related_to(two.state), "they have a past in common"
