"""States that are grown step by step; part of `machines`."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from datetime import datetime
from functools import reduce
from typing import TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from conversation_state.aggregator import Aggregator
from conversation_state.errors import InvalidMessageError, InvalidUsageError
from conversation_state.messages import Message
from conversation_state.testing import laws
from conversation_state.testing._comparison import is_same, unpickled
from conversation_state.testing._state_laws import read_origin
from conversation_state.testing.strategies import (
    messages,
    texts,
    timestamps,
    usages,
    uuids,
)
from conversation_state.usage import Usage

T = TypeVar("T")


class CarryingMachine(RuleBasedStateMachine):
    """A machine whose values can be sent somewhere."""

    def carried(self, value: T) -> T:
        """
        *value* after a journey that shares nothing with it; here, pickled.

        To be overridden.
        """
        return unpickled(value)


class AggregatorMachine(CarryingMachine):
    """
    States grown by every verb, in every direction, and kept.

    Keeps all states it ever made, and grows any of them next: so values grow
    apart under one id, forks are forked, cousins meet twice, and parents join
    their grandchildren. Each step is compared with plain lists, and at the end each
    state must be what it was when it was made.
    Calls `carried` with states, turns and checkpoints.
    """

    states = Bundle[Aggregator]("states")

    def __init__(self) -> None:
        super().__init__()
        self._known_ids: set[str] = set()
        self._unchanged = ExitStack()

    def _watch_state(self, state: Aggregator) -> Aggregator:
        laws.states_add_up(state)
        # To the end: a verb that changes a part which two states share is seen in the
        # older one only.
        self._unchanged.enter_context(laws.unchanged(state))
        return state

    def teardown(self) -> None:
        """All states that were ever made are what they were."""
        self._unchanged.close()

    def _check_new_ids(self, *ids: str) -> None:
        # Identities are unique in the whole run, because a join merges entries of one
        # identity.
        assert self._known_ids.isdisjoint(ids), "an identity was handed out twice"
        assert len({*ids}) == len(ids), "an identity was handed out twice"
        self._known_ids.update(ids)

    def _check_grown(
        self, before: Aggregator, state: Aggregator, *added: Message
    ) -> Aggregator:
        """*state* is the one *before* with *added* under new identities."""
        size = len(before)
        entries = list(state.entries)
        assert entries[:size] == list(before.entries), "the past changed"
        assert [entry.message for entry in entries[size:]] == [*added], "added others"
        self._check_new_ids(*[entry.id for entry in entries[size:]])
        assert read_origin(state) == read_origin(before), "another state"
        assert list(state.ledger) == list(before.ledger), "another ledger"
        return self._watch_state(state)

    @initialize(target=states)
    def begin(self) -> Aggregator:
        return self._watch_state(Aggregator.new())

    @rule(target=states, id=uuids(), added=st.lists(messages(), max_size=3))
    def new(self, id: UUID, added: list[Message]) -> Aggregator:
        """
        Another root, which has nothing to do with the others, but for its id perhaps.
        """
        state = Aggregator.new(id=id, messages=added)
        return self._check_grown(Aggregator.new(id=id), state, *added)

    @rule(
        target=states,
        before=states,
        added=st.lists(messages(), max_size=3),
        times=st.integers(1, 40),
        at_once=st.booleans(),
    )
    def extend(
        self, before: Aggregator, added: list[Message], times: int, at_once: bool
    ) -> Aggregator:
        """
        Several messages, at once or one by one, across the borders of the log's blocks;
        or none, which is the same state.
        """
        added *= times
        state = (
            before.extend(added) if at_once else reduce(Aggregator.add, added, before)
        )
        assert added or state is before, "nothing added made another state"
        return self._check_grown(before, state, *added)

    @rule(
        target=states,
        before=states,
        key=st.none() | st.sampled_from(["first request", "second request"]),
        usage=st.sampled_from([Usage(10, 5), Usage(1)]) | usages(),
        model=st.sampled_from(["", "", "another"]),
        time=st.none() | timestamps(),
        caveat=st.sampled_from(["", "", "interrupted"]),
    )
    def add_usage(
        self,
        before: Aggregator,
        key: str | None,
        usage: Usage,
        model: str,
        *,
        time: datetime | None,
        caveat: str,
    ) -> Aggregator:
        """
        A usage: new, repeated under its key at any time, or refused as a conflict.
        """
        assert before.add_usage(None, key=key) is before, "None was added"
        recorded = {entry.id: (entry.usage, entry.model) for entry in before.ledger}
        known = None if key is None else recorded.get(key)
        try:
            state = before.add_usage(
                usage, key=key, model=model, at=time, caveat=caveat
            )
        except InvalidUsageError:
            assert known not in {None, (usage, model)}, "refused without a conflict"
            return before

        if known is not None:
            assert known == (usage, model), "two usages under one key"
            assert state is before, "a no-op made another state"
            return before

        *others, entry = state.ledger
        if key is None:
            self._check_new_ids(entry.id)

        assert entry[1:3] == (usage, model), "another usage"
        assert key in {None, entry.id}, "another key"
        assert caveat == entry.caveat, "another caveat"
        assert entry.at == (time or entry.at) is not None, "at another time, or at none"
        assert others == list(before.ledger), "another ledger"
        assert read_origin(state) == read_origin(before), "another state"
        assert list(state.entries) == list(before.entries), "other messages"
        return self._watch_state(state)

    @rule(target=states, before=states, eighths=st.none() | st.integers(0, 8))
    def fork(self, before: Aggregator, eighths: int | None) -> Aggregator:
        # A fraction of the length, because the state is drawn in the same step and its
        # length is not known here.
        at = None if eighths is None else len(before) * eighths // 8
        laws.forks_inherit(before, at)
        fork = before.fork(at=at)
        self._check_new_ids(str(fork.id))
        return self._watch_state(fork)

    @rule(target=states, before=states, one=states, two=states)
    def join(self, before: Aggregator, one: Aggregator, two: Aggregator) -> Aggregator:
        """Any other two states, one after the other or at once."""
        laws.join_keeps_both_orders(before, one)
        laws.join_is_idempotent(before, one)
        laws.join_is_associative(before, one, two)
        self._watch_state(before.join(one))
        return self._watch_state(before.join(one, two))

    @rule(target=states, before=states)
    def carry(self, before: Aggregator) -> Aggregator:
        """A copy that was somewhere else; it grows and joins like the original."""
        copy = self.carried(before)
        assert is_same(copy, before), "changed on the way"
        assert hash(copy) == hash(before), "changed its hash on the way"
        return self._watch_state(copy)

    @rule(target=states, before=states, source=states, label=texts())
    def bring(self, before: Aggregator, source: Aggregator, label: str) -> Aggregator:
        """Any state's turn into any other, and a checkpoint, here and from far away."""
        laws.turns_bring_what_was_added(before, source)
        laws.checkpoints_restore(source, [])
        checkpoint = self.carried(source.checkpoint(label))
        joined = before.join(self.carried(source.turn))
        assert checkpoint.label == label, "another label"
        assert checkpoint.merge_into(before) == joined, (
            "a checkpoint brings another turn"
        )
        assert joined == before.join(source.turn), "a turn changed on its way"
        return self._watch_state(joined)

    @rule(target=states, before=states, to=states)
    def roll_back(self, before: Aggregator, to: Aggregator) -> Aggregator:
        """
        Back to any state that has anything in common: its messages, and the
        ledger of both.
        """
        if not before.is_related_to(to):
            with suppress(ValueError):
                before.rollback(to)
                raise AssertionError("went back to another conversation")

            return before

        state = before.rollback(to)
        assert list(state.entries) == list(to.entries), "other messages"
        assert read_origin(state) == read_origin(to), "another state"
        assert list(state.ledger) == list(to.join(before).ledger), "another bill"
        assert (state is to) == (state.ledger == to.ledger), "a needless state"
        return self._watch_state(state)

    @rule(target=states, before=states, eighths=st.integers(0, 8), by_id=st.booleans())
    def go_back(self, before: Aggregator, eighths: int, by_id: bool) -> Aggregator:
        """Back to an earlier place in the state itself: the whole ledger stays."""
        count = len(before) * eighths // 8
        state = before.rollback(
            before.entries[count - 1].id if by_id and count else count
        )
        if count < len(before):
            same = before.before(before.entries[count].id)
            assert same == state, "before an entry is not after the one before it"

        assert list(state.entries) == list(before.entries)[:count], "other messages"
        assert list(state.ledger) == list(before.ledger), "another ledger"
        assert state.init_len == min(before.init_len, count), "forked elsewhere"
        assert state.id == before.id, "another state"
        return self._watch_state(state)

    @rule(target=states, before=states, eighths=st.integers(0, 7), message=messages())
    def replace(self, before: Aggregator, eighths: int, message: Message) -> Aggregator:
        """Another message in the place of one; or refused, where a pair would break."""
        if not len(before):
            return before

        entry = before.entries[len(before) * eighths // 8]
        is_result = "tool" in {entry.message.role, message.role}
        if is_result and entry.message != message:
            with suppress(InvalidMessageError):
                before.replace_message(entry.id, message)
                same_call = getattr(message, "tool_call_id", None)
                assert same_call == getattr(entry.message, "tool_call_id", ""), (
                    "a result took the place of another message"
                )

            return before

        laws.replacing_keeps_what_follows(before, entry.id, message)
        return self._watch_state(before.replace_message(entry.id, message))

    @rule(target=states, before=states, eighths=st.lists(st.integers(0, 7), max_size=3))
    def leave_out(self, before: Aggregator, eighths: list[int]) -> Aggregator:
        """Some entries left out, with what belongs to them."""
        if not len(before):
            return before

        ids = [before.entries[len(before) * each // 8].id for each in eighths]
        laws.leaving_out_keeps_the_rest(before, ids)
        return self._watch_state(before.without(ids))

    @rule(one=states, two=states)
    def compare(self, one: Aggregator, two: Aggregator) -> None:
        """
        Two states are equal only if all that they hold is, and related if they have
        anything in common.
        """
        sides = [
            (read_origin(each), list(each.entries), list(each.ledger))
            for each in (one, two)
        ]
        assert (one == two) == (sides[0] == sides[1]), "not equal"
        laws.equal_values_hash_alike(one, two)
        if {entry.id for entry in one.entries} & {entry.id for entry in two.entries}:
            assert one.is_related_to(two), "they have a past in common"
