"""
The ledger is exact: whatever happens to branches, each entry is counted once.

A state machine keeps, beside every state, what its ledger should hold: a plain dict
from a name to a usage, which knows nothing of the library.
"""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from conversation_state import Aggregator, Usage, decode, encode, open_store
from conversation_state.counting import cost
from conversation_state.errors import FanOutError
from conversation_state.messages import AssistantMessage, ResponseMeta
from conversation_state.parallel import fan_out, save_progress
from conversation_state.testing import strategies as our
from conversation_state.timeline import Timeline
from conversation_state.tree import MessageTree
from tests.states import rebuild_state

KEYS = st.sampled_from(["request 1", "request 2", "request 3"])
USAGES = st.builds(Usage, st.integers(0, 9), st.integers(0, 9))

# What a branch does, one after the other; True at the end: it fails.
SCRIPTS = st.tuples(
    st.lists(st.tuples(st.none() | KEYS, st.booleans()), max_size=4), st.booleans()
)


class Failed(Exception):  # noqa: N818 - a word to look for
    """What a branch fails with."""


class Bills(RuleBasedStateMachine):
    """
    States that fork, record usage, retry, go back and join, and their expected ledgers.
    """

    states = Bundle("states")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        # Every state there was, and its expected ledger.
        self.owed: list[tuple[Aggregator, dict[str, Usage]]] = []
        # What a key costs is the same everywhere, as with a provider.
        self.prices: dict[str, Usage] = {}

    def noted(self, state: Aggregator, owed: dict[str, Usage]) -> Any:
        self.owed.append((state, owed))
        return state, owed

    def name(self, key: str | None) -> str:
        self.count += 1
        return key or f"entry {self.count}"

    def price(self, key: str | None, usage: Usage) -> Usage:
        return usage if key is None else self.prices.setdefault(key, usage)

    @rule(target=states)
    def begin(self):
        return self.noted(Aggregator.new(), {})

    @rule(target=states, one=states, usage=USAGES, key=st.none() | KEYS)
    def record_usage(self, one, usage, key):
        state, owed = one
        usage = self.price(key, usage)
        billed = state.add_user_prompt("x").add_usage(usage, key=key)
        return self.noted(billed, {**owed, self.name(key): usage})

    @rule(target=states, one=states)
    def retry(self, one):
        """The same request once more: every key that was recorded is recorded again."""
        state, owed = one
        for key in set(owed) & set(self.prices):
            state = state.add_usage(self.prices[key], key=key)
        return self.noted(state, owed)

    @rule(target=states, one=states)
    def fork(self, one):
        state, owed = one
        return self.noted(state.fork(), owed)

    @rule(target=states, one=states, share=st.floats(0, 1))
    def fork_earlier(self, one, share):
        state, owed = one
        return self.noted(state.fork(at=int(len(state) * share)), owed)

    @rule(target=states, one=states, others=st.lists(states, max_size=3))
    def join(self, one, others):
        state, owed = one
        paid = dict(owed)
        for _, theirs in others:
            paid |= {name: theirs[name] for name in theirs if name not in paid}
        return self.noted(state.join(*[other for other, _ in others]), paid)

    @rule(target=states, one=states, other=states)
    def merge_twice(self, one, other):
        """A checkpoint merged into its own state, and twice into another one."""
        (state, owed), (theirs, other_owed) = one, other
        state = state.checkpoint().merge_into(state)
        kept = theirs.checkpoint()
        merged = kept.merge_into(kept.merge_into(state))
        # What that state inherited is not merged, so the model asks which of
        # its names came since: the last ones, in the order of the ledger.
        since = dict(list(other_owed.items())[theirs.init_ledger_len :])
        return self.noted(
            merged, owed | {name: since[name] for name in since if name not in owed}
        )

    @rule(target=states, one=states)
    def pickled(self, one):
        state, owed = one
        return self.noted(pickle.loads(pickle.dumps(state)), owed)

    @rule(target=states, one=states)
    def encoded(self, one):
        state, owed = one
        return self.noted(decode(encode(state)), owed)

    @rule(
        target=states,
        one=states,
        scripts=st.lists(SCRIPTS, max_size=4),
        usage=USAGES,
        ships=st.sampled_from([None, "pickle", "encode"]),
        raises=st.booleans(),
    )
    def fan_out(self, one, scripts, usage, ships, raises):
        state, owed = one
        plans = [self._make_plan(script, usage) for script in scripts]
        steps = [self._make_step(plan, ships) for plan in plans]
        try:
            done: Any = fan_out(state, steps, on_error="raise" if raises else "keep")
        except FanOutError as error:
            assert raises
            done = error

        paid = dict(owed)
        for entries, fails in plans:
            for name, _, price, _ in entries[: _count_kept(entries) if fails else None]:
                paid.setdefault(name, price)

        assert sum(fails for _, fails in plans) == len(done.failures)
        return self.noted(done.state, paid)

    def _make_plan(self, script, usage):
        steps, fails = script
        return [
            (self.name(key), key, self.price(key, usage), kept) for key, kept in steps
        ], fails

    def _make_step(self, plan, ships):
        entries, fails = plan

        def step(state):
            for _, key, usage, kept in entries:
                state = state.fork().add_usage(usage, key=key)
                if ships == "pickle":
                    state = pickle.loads(pickle.dumps(state))
                if kept:
                    save_progress(state)

            if fails:
                raise Failed
            return decode(encode(state)) if ships == "encode" else state

        return step

    @invariant()
    def adds_up(self):
        """
        The newest state's bill is that of the model, and the sum over the
        distinct entries of its ledger.
        """
        if not self.owed:
            return

        state, owed = self.owed[-1]
        distinct = {entry.id: entry.usage for entry in state.ledger}

        since = [entry.usage for entry in state.ledger[state.init_ledger_len :]]

        assert sum(since, Usage()) == state.usage
        assert sum(owed.values(), Usage()) == state.total_usage
        assert sum(distinct.values(), Usage()) == state.total_usage
        assert len(owed) == len(state.ledger)

    def teardown(self):
        """Nothing that came later changed a bill, and all bills together are one."""
        for state, owed in self.owed:
            assert sum(owed.values(), Usage()) == state.total_usage

        paid: dict[str, Usage] = {}
        for _, owed in self.owed:
            paid |= owed
        for states in (self.owed, self.owed[::-1]):
            if states:
                first, *others = [state for state, _ in states]
                everything = first.join(*others)
                assert sum(paid.values(), Usage()) == everything.total_usage
                assert everything.join(first, *others) is everything


def _count_kept(entries):
    return max((n + 1 for n, entry in enumerate(entries) if entry[-1]), default=0)


TestBills = Bills.TestCase
TestBills.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_key_on_many_branches(workers):
    """
    A request that every branch retried is counted once, also by those that failed.
    """

    def step(state):
        state = save_progress(state.add_usage(Usage(8, 2), key="request"))
        save_progress(state.add_usage(Usage(8, 2), key="request"))
        if state.id.int % 2:
            raise Failed
        return state.add_usage(Usage(1))

    with ThreadPoolExecutor(workers) as pool:
        done = fan_out(Aggregator.new(), [step] * 20, executor=pool, on_error="keep")

    succeeded = 20 - len(done.failures)
    assert 10 + succeeded == done.state.total_usage.total_tokens


ASKED = Aggregator.new().add_user_prompt("When does it leave?")


def answer(reason, tier="", response_id="r1"):
    """A response that ended for a *reason*, and was served at a *tier*."""
    meta = ResponseMeta(reason, Usage(1_000, 1), None, "gpt-4o", response_id)
    notes = {"any": {"response": {"service_tier": tier}}}
    return AssistantMessage(
        "At", response=meta, metadata={"conversation_state": notes} if tier else {}
    )


STOPPED, FLEX = "interrupted", "service_tier 'flex'"
ANSWERS = [
    *(answer("interrupted"), answer("interrupted", response_id="")),
    *(answer("stop", "flex"), answer("interrupted", "flex")),
]


class TestCaveat:
    """The ledger knows what its usage does not say, without the message that did."""

    @pytest.mark.parametrize("message", ANSWERS)
    def test_undone(self, message):
        """The bill says the same after an undo, however the answer was recorded."""
        for chat in (
            ASKED.add_response(message),
            ASKED.add_response(message, key="mine"),
            ASKED.fork().add(message).record_responses(),
        ):
            expected = str(cost(chat))
            back = chat.rollback(ASKED)
            timeline = Timeline.begin(ASKED).commit(chat).commit(back)
            tree = MessageTree.of(chat, back.add_user_prompt("?"))

            assert not cost(chat).complete
            for state in (
                *(back, back.fork(), chat.rollback(0), timeline.present),
                *(chat.join(back), back.join(chat), tree.present),
                *(decode(encode(back)), pickle.loads(pickle.dumps(back))),
                back.rollback(back.add_user_prompt("?")),
            ):
                assert expected == str(cost(state))

    @pytest.mark.parametrize("message", ANSWERS)
    def test_stored(self, message, tmp_path):
        """Also after a round trip through a file, an append, and an erasure."""
        chat = ASKED.add_response(message)
        expected = str(cost(chat))
        with open_store(tmp_path / "chats.db") as store:
            store.save("whole", chat)
            store.save("back", chat.rollback(ASKED))
            store.save("appended", ASKED)
            store.append("appended", message)
            appended = store.load("appended")
            store.erase(chat.entries[-1].id, reason="asked to")
        with open_store(tmp_path / "chats.db") as store:
            for name in "whole", "back":
                assert expected == str(cost(store.load(name)))
            assert expected == str(cost(appended.rollback(ASKED)))
            assert [] == list(store.verify())

    @pytest.mark.parametrize("message", ANSWERS[:2])
    def test_rest(self, message):
        """A rest that is recorded before or after the undo completes the bill."""
        chat = ASKED.add_response(message)
        key = f"{chat.ledger[0].id}#rest"
        rest = chat.fork().add_usage(Usage(0, 9), key=key, model="gpt-4o")

        for state in (
            *(rest.rollback(ASKED), chat.rollback(ASKED).join(rest.turn)),
            chat.rollback(ASKED).add_usage(Usage(0, 9), key=key, model="gpt-4o"),
        ):
            assert cost(state).complete
            assert cost(rest).total == cost(state).total

    def test_rest_of_another_tier(self):
        """The rest was served as the answer was, also after an undo."""
        back = ASKED.add_response(answer("interrupted", "flex")).rollback(ASKED)
        key = f"{back.ledger[0].id}#rest"

        whole = back.add_usage(Usage(0, 9), key=key, model="gpt-4o")
        assert 2 == len(cost(whole).unpriced)
        assert not cost(whole).partial

    @pytest.mark.parametrize("caveat", [STOPPED, "interrupted, speed 'fast'"])
    def test_rest_has_its_own(self, caveat):
        """A rest that was served at another tier has no price, however it came."""
        chat = ASKED.add_usage(Usage(9, 1), key="k", model="gpt-4o", caveat=caveat)
        rest = ASKED.add_usage(Usage(0, 5), key="k#rest", model="gpt-4o", caveat=FLEX)

        for state in chat.join(rest), rest.join(chat):
            (line,) = [each for each in cost(state).lines if each.usage == Usage(0, 5)]
            assert line.why.endswith(f"({FLEX})")
            assert cost(chat).total == cost(state).total

    def test_came_whole(self):
        """The whole answer settles the bill of its interrupted copy that was undone."""
        stopped = answer("interrupted")
        back = ASKED.add_response(stopped).rollback(ASKED)
        whole = back.add_response(answer("stop"))

        assert not cost(back.add_response(stopped)).complete
        assert back.ledger == whole.ledger
        assert cost(whole).complete

    def test_own_ledger(self):
        """Entries of a program's own type need not have one."""
        entry = SimpleNamespace(id="1", usage=Usage(9, 1), model="gpt-4o", at=None)

        assert cost(SimpleNamespace(ledger=[entry])).complete

    def test_other_reason(self):
        """Usage with a reason of the program's own has no price, and says why."""
        chat = ASKED.add_usage(Usage(9, 1), model="gpt-4o", caveat="estimated")

        (line,) = cost(chat).unpriced
        assert line.why == (
            "can't price this usage of 'gpt-4o': the standard price may not apply "
            "(estimated)"
        )

    def test_message_decides(self):
        """While the answer is there, it says whether its rest was recorded."""
        chat = ASKED.add_response(answer("interrupted"))
        own = chat.entries[-1].id

        for key in own, f"{own}#rest":
            assert cost(chat.add_usage(Usage(0, 9), key=key, model="gpt-4o")).complete

    @pytest.mark.parametrize("message", ANSWERS)
    def test_another_answer(self, message):
        """An answer that reports nothing does not settle the bill of one undone."""
        back = ASKED.add_response(message).rollback(ASKED)
        other = AssistantMessage("Late", response=ResponseMeta(model="gpt-4o"))

        assert not cost(back.add(other)).complete

    def test_is_no_conflict(self):
        """Of two entries that differ in it alone, the one in the ledger stays."""
        noted = ASKED.add_usage(Usage(1), key="1", caveat="interrupted")
        plain = ASKED.add_usage(Usage(1), key="1")

        assert noted is noted.add_usage(Usage(1), key="1")
        assert plain is plain.add_usage(Usage(1), key="1", caveat="interrupted")
        assert ["interrupted"] == [each.caveat for each in noted.join(plain).ledger]
        assert [""] == [each.caveat for each in plain.join(noted).ledger]
        done = fan_out(ASKED, [lambda _: noted, lambda _: plain])
        assert ["interrupted"] == [each.caveat for each in done.state.ledger]

    @given(st.lists(our.ledger_entries(), unique_by=lambda entry: entry.id))
    def test_encoded(self, ledger):
        """It is written where there is one, and read back."""
        state = rebuild_state(Aggregator.new(), ledger=ledger)
        raws = json.loads(encode(state))["ledger"]

        assert [each.caveat for each in ledger] == [r.get("caveat", "") for r in raws]
        assert "" not in [each.get("caveat") for each in raws]
        assert list(decode(encode(state)).ledger) == ledger
