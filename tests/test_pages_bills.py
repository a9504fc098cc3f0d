"""Bills by branch and model: every usage once, and together what all states cost."""

import re
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation_state import (
    Aggregator,
    AssistantMessage,
    ResponseMeta,
    Timeline,
    Usage,
    cost,
)
from conversation_state.aggregator import ledger_union
from conversation_state.pages import History, draw_fragment, make_page, read_history
from conversation_state.pages._bills import compute_bills
from conversation_state.store import open_store
from conversation_state.tree import MessageTree

MODELS = ["gpt-4o", "claude-sonnet-4-5", "no-such-model", ""]
ASKED = (
    Aggregator.new()
    .add_user_prompt("Where to?")
    .add_usage(Usage(100_000, 0, 100_000), key="ask", model="gpt-4o")
)
SEA = ASKED.add_assistant_message("To the sea.").add_usage(
    Usage(200_000, 0, 200_000), key="sea", model="gpt-4o"
)
HILLS = ASKED.add_assistant_message("Uphill.").add_usage(
    Usage(100_000, 0, 100_000), key="hills", model="claude-sonnet-4-5"
)
TRIP = Timeline.begin(ASKED).commit(SEA).commit(HILLS, "hills", on=0)


@st.composite
def billed_timelines(draw):
    """
    Timelines of states that were billed, forked, joined, and gone back from with
    and without their ledger.
    """
    timeline = Timeline.begin(Aggregator.new().add_user_prompt("Where to?"))
    for step in range(draw(st.integers(0, 8))):
        numbers = [moment.number for moment in timeline.moments]
        parent = draw(st.sampled_from(numbers))
        states = {moment.number: moment.state for moment in timeline.moments}
        state = states[parent].fork().add_assistant_message(f"answer {step}")
        if draw(st.booleans()):
            state = state.join(states[draw(st.sampled_from(numbers))])

        if draw(st.booleans()):
            state = state.rollback(draw(st.integers(0, len(state))))

        for _ in range(draw(st.integers(0, 2))):
            # Of one key each state may have a usage of its own.
            key = draw(st.sampled_from([None, "a", "b"]))
            usage = Usage(draw(st.integers(0, 9)), 1)
            if key not in {entry.id for entry in state.ledger}:
                model = draw(st.sampled_from(MODELS))
                state = state.add_usage(usage, key=key, model=model)

        if draw(st.booleans()):
            meta = ResponseMeta(f"response {step}", usage=Usage(7, step))
            state = state.add(AssistantMessage("More.", response=meta))

        timeline = timeline.commit(state, on=parent)

    present = draw(st.sampled_from([moment.number for moment in timeline.moments]))
    return timeline.goto(present)


class BilledStates(NamedTuple):
    """What several states have."""

    ledger: Iterable[Any]
    entries: Iterable[Any] = ()


def find_tips(timeline, number):
    """The last moments of all branches that grew from one."""
    children = [each.number for each in timeline.moments if each.parent == number]
    if not children:
        return {number}

    return set().union(*[find_tips(timeline, child) for child in children])


def read_rows(page):
    """The cells of the bill in *page*, row by row."""
    table = re.findall('(?s)<table class="cs-bill">.*?</table>', page)[-1]
    rows = re.findall("(?s)<tr>(.*?)</tr>", table)
    return [
        [re.sub("<[^>]*>", " ", cell).strip() for cell in re.findall(CELL, row)]
        for row in rows
    ]


CELL = "(?s)<t[hd][^>]*>(.*?)</t[hd]>"


class TestParts:
    """What each branch cost."""

    @given(billed_timelines())
    def test_exact(self, timeline):
        """All parts together are the cost of the union of all states."""
        states = [moment.state for moment in timeline.moments]
        bills = compute_bills(History.of_timeline(timeline))
        union = cost(BilledStates(ledger=ledger_union(*states)))

        assert union.lines == bills.total.lines
        assert union.total == sum(part.cost.total for part in bills.parts)
        assert union.usage == sum([part.cost.usage for part in bills.parts], Usage())
        assert sorted(map(repr, union.lines)) == sorted(
            [repr(line) for part in bills.parts for line in part.cost.lines]
        )

    @given(billed_timelines())
    def test_branches(self, timeline):
        """
        Each usage is in the branch of the first state that has it, and so is each
        response without one; in none if that state is in several.
        """
        expected: dict[str, set[str]] = {}
        seen: set[str] = set()
        for moment in timeline.moments:
            tips = find_tips(timeline, moment.number)
            title = "In several branches"
            if len(tips) == 1:
                title = f"Branch to moment {tips.pop()}"

            new = {entry.id for entry in moment.state.ledger}
            new |= {entry.id for entry in moment.state.entries}
            new -= seen
            expected.setdefault(title, set()).update(new)
            seen |= new

        bills = compute_bills(History.of_timeline(timeline))

        for part in bills.parts:
            billed = [line.entry.id for line in part.cost.lines]
            billed += [entry.id for entry in part.cost.unbilled]

            assert {*billed} <= expected[part.title]

    @given(billed_timelines())
    def test_unbilled(self, timeline):
        """A response whose usage is in no ledger is in one part."""
        union = BilledStates(
            ledger=ledger_union(*[moment.state for moment in timeline.moments]),
            entries={
                entry.id: entry
                for moment in timeline.moments
                for entry in moment.state.entries
            }.values(),
        )
        bills = compute_bills(History.of_timeline(timeline))

        assert {entry.id for entry in cost(union).unbilled} == {
            entry.id for part in bills.parts for entry in part.cost.unbilled
        }
        assert len(bills.total.unbilled) == sum(
            [len(part.cost.unbilled) for part in bills.parts]
        )

    @given(billed_timelines())
    def test_stored(self, timeline):
        """A store's history has the same total, and so has a tree of messages."""
        with open_store("memory:") as store:
            store.save_timeline("trip", timeline)
            stored = compute_bills(read_history(store, "trip"))

        direct = compute_bills(History.of_timeline(timeline))
        tree = compute_bills(MessageTree.of(timeline))

        assert direct.total.usage == tree.total.usage == stored.total.usage

    def test_rolled_back(self):
        """
        What an abandoned branch cost stays its own, though the ledger of the
        present one has it, too.
        """
        with open_store("memory:") as store:
            store.save("trip", ASKED)
            store.save("trip", SEA)
            store.rollback("trip", 1)
            bills = compute_bills(read_history(store, "trip"))

        assert [
            ("In several branches", False, 100_000),
            ("Branch to revision 3", True, 0),
            ("Branch to revision 2", False, 200_000),
        ] == [
            (part.title, part.is_present, part.cost.usage.total_tokens)
            for part in bills.parts
        ]


class TestTables:
    """Bills as they are drawn."""

    ROWS = (
        ["Branch and model", "Input", "Output", "Tokens", "Cost"],
        ["In several branches", "100,000", "0", "100,000", "$0.25"],
        ["gpt-4o", "100,000", "0", "100,000", "$0.25"],
        ["Branch to moment 2 hills  you are here", "100,000", "0", "100,000", "$0.30"],
        ["claude-sonnet-4-5", "100,000", "0", "100,000", "$0.30"],
        ["Branch to moment 1", "200,000", "0", "200,000", "$0.50"],
        ["gpt-4o", "200,000", "0", "200,000", "$0.50"],
        ["Total", "400,000", "0", "400,000", "$1.05"],
    )

    @pytest.mark.parametrize("draw", [draw_fragment, make_page])
    def test_branches(self, draw):
        """
        A notebook and a page have a row for each branch, and below it one for each
        model.
        """
        assert [*self.ROWS] == read_rows(draw(TRIP))

    def test_small_amounts(self):
        """An amount has two digits that tell it, and all of them in its title."""
        page = draw_fragment(cost(ASKED.add_usage(Usage(123), model="gpt-4o")))

        assert '<td title="$0.2503075">$0.25</td>' in page

    def test_order(self):
        """The present branch comes first, then the newest."""
        titles = [row[0] for row in read_rows(draw_fragment(TRIP.goto(1)))]

        assert ["Branch to moment 1 you are here", "Branch to moment 2 hills"] == [
            title for title in titles if title.startswith("Branch to")
        ]

    def test_before_all_messages(self):
        """
        What was billed without any message is in the bill of a tree, with the total
        that the provider gave.
        """
        usage = Usage(5, 1, 9)
        tree = MessageTree.of(Aggregator.new().add_usage(usage, model="gpt-4o"))

        assert ["gpt-4o", "5", "1", "9"] == read_rows(make_page(tree))[1][:4]

    def test_one_branch(self):
        """Of a single branch a page has the bill by model; a notebook has none."""
        timeline = Timeline.begin(ASKED).commit(SEA)

        assert ["gpt-4o", "300,000", "0", "300,000", "$0.75"] == (
            read_rows(make_page(timeline))[1]
        )
        assert "<table" not in draw_fragment(timeline)

    def test_unknown(self):
        """
        What is not known is marked in a few words, and below the table the reason is
        given.
        """
        state = HILLS.add_usage(Usage(10), model="no-such-model").add_usage(Usage(1))
        page = make_page(TRIP.commit(state))
        costs = {row[0]: row[-1] for row in read_rows(page)}

        assert "unknown" == costs["no-such-model"] == costs["no model recorded"]
        assert "at least $1.05" == costs["Total"]
        assert "Cost: $1.05 and 2 entries without a price: " in page

    def test_unrecorded(self, monkeypatch):
        """Where nothing is recorded there is no count of tokens, and not zero."""
        stopped = AssistantMessage("To", response=ResponseMeta("interrupted"))
        asked = Aggregator.new().add_user_prompt("Where to?")
        timeline = Timeline.begin(asked).commit(asked.add_response(stopped))
        timeline = timeline.commit(asked.add_response(stopped), on=0)

        page = make_page(timeline)
        rows = [row[1:] for row in read_rows(page)[1:]]
        assert "Cost unknown: 2 answers of unknown usage." in page
        assert [["–", "–", "–", "unknown"]] * 3 == rows

        monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
        timeline = timeline.commit(asked.add_usage(Usage(1), model="gpt-4o"), on=0)
        page = make_page(timeline)
        assert "Total" in read_rows(page)[-1]
        assert "Not counted: 2 answers of unknown usage." in page

    def test_partial(self, monkeypatch):
        """An interrupted answer cost at least what it reports, in each row."""
        meta = ResponseMeta("interrupted", Usage(400_000), None, "gpt-4o", "r1")
        stopped = AssistantMessage("To", response=meta)
        timeline = Timeline.begin(ASKED).commit(ASKED.add_response(stopped))
        timeline = timeline.commit(SEA, on=0)

        page = make_page(timeline)
        costs = [(row[0], row[-1]) for row in read_rows(page)]
        assert ("gpt-4o", "at least $1.00") in costs
        assert ("gpt-4o", "$0.50") in costs
        assert ("Total", "at least $1.75") == costs[-1]
        assert "Cost: $1.75 and the unknown rest of 1 interrupted answer." in page

        monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
        page = make_page(timeline)
        assert "Not counted: the unknown rest of 1 interrupted answer." in page

    @pytest.mark.parametrize("has_prices", [True, False])
    def test_undone(self, monkeypatch, has_prices):
        """The bill of one state says the same after an undo."""
        if not has_prices:
            monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
        meta = ResponseMeta("interrupted", Usage(400_000), None, "gpt-4o", "r1")
        flex = {"conversation_state": {"any": {"response": {"service_tier": "flex"}}}}
        chat = ASKED.add_response(AssistantMessage("To", response=meta))
        meta = ResponseMeta("stop", Usage(400), None, "gpt-4o", "r2")
        chat = chat.add_response(AssistantMessage(response=meta, metadata=flex))

        page = make_page(chat.rollback(ASKED))
        assert "the unknown rest of 1 interrupted answer." in page
        assert read_rows(make_page(chat)) == read_rows(page)
        assert has_prices == ("at least $1.25" in page)

    def test_without_usage(self):
        """Without a ledger there is no bill."""
        state = Aggregator.new().add_user_prompt("Where to?")
        timeline = Timeline.begin(state).commit(state.add_user_prompt("?"))
        timeline = timeline.commit(state.add_user_prompt("!"), on=0)

        assert 'cs-bill"' not in draw_fragment(timeline) + make_page(timeline)

    def test_without_prices(self, monkeypatch):
        """Without the extra there are the tokens."""
        monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
        rows = read_rows(make_page(TRIP))

        assert [row[:4] for row in self.ROWS] == rows

    def test_long_ledgers(self):
        """A notebook does not wait for the prices of a long ledger."""
        state = HILLS
        for _ in range(1_000):
            state = state.add_usage(Usage(1), model="gpt-4o")

        timeline = TRIP.commit(state)

        assert 4 == len(read_rows(draw_fragment(timeline))[-1])
        assert 5 == len(read_rows(make_page(timeline))[-1])

    def test_many_branches(self):
        """Further branches, and further models of one branch, share a row."""
        timeline = Timeline.begin(ASKED)
        for number in range(60):
            state = ASKED.add_user_prompt(f"{number}")
            for model in range(12):
                state = state.add_usage(Usage(1), model=f"model {model}")

            timeline = timeline.commit(state, on=0)

        rows = read_rows(make_page(timeline))
        titles = [row[0] for row in rows]

        assert "11 other branches" in titles
        assert 50 == titles.count("2 other models")
        assert "100,720" == rows[-1][3]
