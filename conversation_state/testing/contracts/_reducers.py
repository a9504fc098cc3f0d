"""What a function from state to state should leave as it was."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from hypothesis import settings as Settings  # noqa: N812 - a class
from hypothesis.strategies import SearchStrategy

from conversation_state.aggregator import Aggregator, Entry, response_key
from conversation_state.messages import ResponseMeta, UserMessage
from conversation_state.testing._code import show_value
from conversation_state.testing._comparison import (
    assert_same,
    assert_same_on_copies,
    compare_content,
    decoded,
    is_same,
)
from conversation_state.testing._state_laws import unchanged
from conversation_state.testing.contracts._contract import (
    Contract,
    call,
    check_contract,
    law,
)
from conversation_state.testing.contracts._examples import STATES
from conversation_state.testing.contracts._pairs import (
    assert_keeps_fields,
    assert_keeps_pairs,
    find_problems,
    list_call_ids,
)

_LARGE = 1_000  # tokens


class ReducerContract(Contract):
    """
    The laws of a reducer: a function from one state to the next. It may be async.

    Attributes:
        reducer: The function, as a static method or a method.
        states: The states it takes, as a strategy; any state by default.
        removes: Which entries it may remove, as a function from an entry; none if it is
            None.
        fresh: Makes a reducer that has seen nothing yet, for one that remembers; None
            for one that remembers nothing.
    """

    kind, subject = "reducers", "reducer"
    expected = "a function from a state to a state"
    reducer: Callable[[Aggregator], Any]
    states: SearchStrategy[Aggregator] = STATES
    removes: Callable[[Entry], bool] | None = None

    def _call_reducer(self, state: Aggregator) -> Aggregator:
        result: Aggregator = call(self.reducer, state)
        return result

    def _observe_result(self, state: Aggregator) -> dict[str, Any]:
        return compare_content(self._call_reducer(state), state)

    def _find_removable(self, state: Aggregator) -> set[str]:
        """What the reducer may remove: with a call its result, and the reverse."""
        if self.removes is None:
            return set()

        entries = list(state.entries)
        found = {entry.id for entry in entries if self.removes(entry)}
        size = -1
        # Again for as long as there are more: with one result of parallel calls go the
        # calls, and with these the other results.
        while len(found) > size:
            size = len(found)
            ids = {
                each
                for entry in entries
                if entry.id in found
                for each in list_call_ids(entry.message)
            }
            found |= {
                entry.id for entry in entries if ids & {*list_call_ids(entry.message)}
            }

        return found

    @law(state="states")
    def test_takes_every_state(self, state: Aggregator) -> None:
        """Of every state comes a state."""
        result: Any = self._call_reducer(state)

        assert isinstance(result, Aggregator), (
            f"expected a state, got {show_value(result)}"
        )
        self._note_first(state, compare_content(result, state))

    @law(state="states")
    def test_keeps_messages(self, state: Aggregator) -> None:
        """
        All messages of the state are in the result, in their order, but for those that
        it may remove.
        """
        removable = self._find_removable(state)
        # Each search continues where the previous one ended, which checks the order.
        rest = iter(self._call_reducer(state))
        for number, entry in enumerate(state.entries):
            if entry.id not in removable:
                assert any(is_same(entry.message, each) for each in rest), (
                    f"messages[{number}] is missing, or out of order: "
                    f"{show_value(entry.message)}"
                )

    @law(state="states")
    def test_keeps_pairs(self, state: Aggregator) -> None:
        """A call and its result stay together: both are in the result, or neither."""
        assert_keeps_pairs(list(state), list(self._call_reducer(state)))

    @law(state="states")
    def test_keeps_fields(self, state: Aggregator) -> None:
        """
        A message that replaces another one has its name, its metadata and its ids, and
        a result that failed is still marked so.
        """
        result = self._call_reducer(state)
        before = {entry.id for entry in state.entries}
        after = {entry.id for entry in result.entries}
        assert_keeps_fields(
            [entry.message for entry in state.entries if entry.id not in after],
            [entry.message for entry in result.entries if entry.id not in before],
        )

    @law(state="states")
    def test_adds_no_problems(self, state: Aggregator) -> None:
        """A state whose calls all have results stays one that a provider accepts."""
        if not find_problems([*state, UserMessage("?")]):
            problems = find_problems(list(self._call_reducer(state)))
            assert not problems, f"{problems[0]}"

    @law(state="states")
    def test_keeps_identities(self, state: Aggregator) -> None:
        """
        What the result has of the state are its own entries, in their order, and not
        equal messages that were appended again: those are there twice after a join.
        """
        result = self._call_reducer(state)
        before = {entry.id: entry.message for entry in state.entries}
        kept = [entry for entry in result.entries if entry.id in before]
        new = [entry.message for entry in result.entries if entry.id not in before]
        for entry in kept:
            assert_same(
                before.pop(entry.id), entry.message, "a message was changed: {}, now {}"
            )

        ids = [entry.id for entry in kept]
        order = [entry.id for entry in state.entries if entry.id in {*ids}]
        assert ids == order, "entries are in another order"
        # A user may say the same twice; a response came once.
        came_once = [
            entry.message
            for entry in kept
            if getattr(entry.message, "response", None) is not None
        ]
        for message in [*before.values(), *came_once]:
            assert message not in new, f"appended once more: {show_value(message)}"

    @law(state="states")
    def test_keeps_the_bill(self, state: Aggregator) -> None:
        """
        Every ledger entry of the state is in the result, unchanged,
        also for messages that were removed.
        """
        after = {entry.id: entry for entry in self._call_reducer(state).ledger}
        for entry in state.ledger:
            found = after.get(entry.id)
            assert found is not None, f"missing in the ledger: {entry}"
            assert_same(entry, found, "changed in the ledger: {} became {}")

    @law(state="states")
    def test_records_new_responses(self, state: Aggregator) -> None:
        """
        The usage of each response that was added is in the ledger, as `add_response`
        and `record_responses` record it.
        """
        # Usage that was missing before the call is not the reducer's omission.
        missing = _find_unrecorded(self._call_reducer(state)) - _find_unrecorded(state)
        # What the state had in its ledger is another law's.
        missing -= {entry.id for entry in state.ledger}

        assert not missing, f"responses that are not in the ledger: {sorted(missing)}"

    @law(state="states")
    def test_counts_responses_once(self, state: Aggregator) -> None:
        """
        The usage of a response that the state has is not recorded under another key
        than those of the response (`response_key`, its id, its entry's id): two keys
        count it twice.
        """
        result = self._call_reducer(state)
        usages = {meta.usage for meta in _list_responses(state)}
        keys = {entry.id for entry in state.ledger}
        # Of both: the usage of a response that was removed stays in the ledger.
        for each in (state, result):
            keys |= {meta.id for meta in _list_responses(each)}
            keys |= {entry.id for entry in each.entries}
            keys |= {response_key(entry) or "" for entry in each.entries}
            keys |= _find_unrecorded(each)

        for entry in result.ledger:
            # A small usage may be the reducer's own, and equal by chance.
            is_other = entry.id in keys or entry.usage.total_tokens < _LARGE
            assert is_other or entry.usage not in usages, (
                f"the usage of a response, under another key: {entry}"
            )

    @law(state="states")
    def test_stays_related(self, state: Aggregator) -> None:
        """
        The result is of the same conversation: it has the root or an entry of the
        state, so that a store takes it under the same name.
        """
        assert self._call_reducer(state).is_related_to(state), "of another conversation"

    @law(state="states")
    def test_is_pure(self, state: Aggregator) -> None:
        """
        The same state gives the same content again, also after other states, and is
        what it was; times, new identities and ids of turns may differ.
        """
        with unchanged(state):
            self._assert_repeatable(self._observe_result, state)

    @law(state="states")
    def test_same_on_copies(self, state: Aggregator) -> None:
        """
        A copy of the state gives the same content: one that was encoded and decoded,
        as after loading it, and one that was pickled, as in another process.
        """
        assert_same_on_copies(self._observe_result, state, decode=decoded)

    @law(needs="fresh", state="states")
    def test_same_as_a_fresh_one(self, state: Aggregator) -> None:
        """
        What it remembers changes nothing: one that has seen no other state gives the
        same.
        """
        self._assert_fresh(type(self)._observe_result, state)

    @law(state="states", is_extra=True)
    def test_is_idempotent(self, state: Aggregator) -> None:
        """The result of the result is equal to it."""
        once = self._call_reducer(state)
        twice = self._call_reducer(once)

        assert_same(once, twice, "once {}, twice {}")


def _list_responses(state: Aggregator) -> list[ResponseMeta]:
    metas = [getattr(message, "response", None) for message in state]
    return [meta for meta in metas if meta is not None]


def _find_unrecorded(state: Aggregator) -> set[str]:
    """The keys of the responses whose usage is not in the ledger."""
    recorded = state.record_responses().ledger
    return {entry.id for entry in recorded} - {entry.id for entry in state.ledger}


def check_reducer(
    reducer: Callable[[Aggregator], Any],
    *,
    without: Collection[str] = (),
    also: Collection[str] = (),
    removes: Callable[[Entry], bool] | None = None,
    fresh: Callable[[], Callable[[Aggregator], Any]] | None = None,
    states: SearchStrategy[Aggregator] | None = None,
    settings: Settings | None = None,
) -> None:
    """
    Hold a function from state to state to the laws of `ReducerContract`: it keeps
    messages, pairs, identities and the bill, is pure, and does the same with copies.
    It may be async.

    Calls *reducer* about three thousand times: with each named shape of
    `testing.SHAPES`, and with drawn states.

    What *reducer* calls that is not pure, a model say, should be replaced by something
    that is. One that removes messages is checked with *removes*, which says of an entry
    whether it may go: ``removes=lambda entry: not entry.message.text``. One that
    remembers results is checked with *fresh*, which makes one that remembers none. The
    options are the attributes of the class, and Hypothesis' settings.

    Raises:
        BrokenLawsError: If it breaks a law, with the smallest state that shows it as
            code.

    >>> check_reducer(lambda state: state.add_user_prompt("Please be brief."))
    """
    __tracebackhide__ = True
    options = {"also": also, "removes": removes, "fresh": fresh, "states": states}
    check_contract(ReducerContract, reducer, settings, without=without, **options)
